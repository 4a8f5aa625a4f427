// A connector of the latency laboratory with coder/websocket, by contracts/lab-connector.md.
package main

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"time"

	"github.com/coder/websocket"
	"pitwire.dev/lab/connector"
)

const (
	handshakePatience = 5 * time.Second
	framePatience     = 50 * time.Millisecond
)

type socket struct {
	*websocket.Conn
	network net.Conn
	context context.Context
	cancel  context.CancelFunc
}

func open(url string, settings *tls.Config) (connector.Socket, error) {
	patience, stop := context.WithTimeout(context.Background(), handshakePatience)
	defer stop()
	var network net.Conn
	dial := func(patience context.Context, kind, address string) (net.Conn, error) {
		var err error
		network, err = (&net.Dialer{}).DialContext(patience, kind, address)
		return network, err
	}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: settings, DialContext: dial}}
	options := &websocket.DialOptions{HTTPClient: client}
	if connector.Compresses() {
		options.CompressionMode = websocket.CompressionNoContextTakeover
	}
	opened, _, err := websocket.Dial(patience, url, options)
	if err != nil {
		return nil, err
	}
	opened.SetReadLimit(connector.MessageMost)
	run, cancel := context.WithCancel(context.Background())
	return socket{opened, network, run, cancel}, nil
}

func (s socket) Receive(take connector.Take) error {
	for {
		kind, message, err := s.Read(s.context)
		if err != nil {
			return err
		}
		if err := take(message, kind == websocket.MessageBinary); err != nil {
			return err
		}
	}
}

func (s socket) Send(text string) error {
	return s.Write(s.context, websocket.MessageText, []byte(text))
}

func (s socket) Close(code int) {
	if code == 0 {
		_ = s.CloseNow()
		return
	}
	// Close waits 5 s for the answer of the server. A reconnect must not.
	go s.Conn.Close(websocket.StatusCode(code), "")
	time.Sleep(framePatience)
	_ = s.network.Close()
}

func (s socket) Interrupt() { s.cancel() }

func closeCode(err error) int { return max(0, int(websocket.CloseStatus(err))) }

func main() {
	connector.Run(connector.Library{Module: "github.com/coder/websocket", Open: open, CloseCode: closeCode})
}
