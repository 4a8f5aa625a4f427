// A connector of the latency laboratory with gorilla/websocket, by contracts/lab-connector.md.
package main

import (
	"crypto/tls"
	"errors"
	"time"

	"github.com/gorilla/websocket"
	"pitwire.dev/lab/connector"
)

type socket struct{ *websocket.Conn }

func open(url string, settings *tls.Config) (connector.Socket, error) {
	dialer := websocket.Dialer{
		HandshakeTimeout: 5 * time.Second, TLSClientConfig: settings, EnableCompression: connector.Compresses(),
	}
	opened, _, err := dialer.Dial(url, nil)
	if err != nil {
		return nil, err
	}
	opened.SetReadLimit(connector.MessageMost)
	return socket{opened}, nil
}

func (s socket) Receive(take connector.Take) error {
	for {
		kind, message, err := s.ReadMessage()
		if err != nil {
			return err
		}
		if err := take(message, kind == websocket.BinaryMessage); err != nil {
			return err
		}
	}
}

func (s socket) Send(text string) error {
	return s.WriteMessage(websocket.TextMessage, []byte(text))
}

func (s socket) Close(code int) {
	if code != 0 {
		body := websocket.FormatCloseMessage(code, "")
		_ = s.WriteControl(websocket.CloseMessage, body, time.Now().Add(time.Second))
	}
	_ = s.Conn.Close()
}

func (s socket) Interrupt() { _ = s.NetConn().SetReadDeadline(time.Now()) }

func closeCode(err error) int {
	var closed *websocket.CloseError
	if errors.As(err, &closed) {
		return closed.Code
	}
	return 0
}

func main() {
	connector.Run(connector.Library{Module: "github.com/gorilla/websocket", Open: open, CloseCode: closeCode})
}
