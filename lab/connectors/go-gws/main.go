// A connector of the latency laboratory with lxzan/gws, by contracts/lab-connector.md.
package main

import (
	"crypto/tls"
	"errors"
	"time"

	"github.com/lxzan/gws"
	"pitwire.dev/lab/connector"
)

// socket is a connection and the receiver of its callbacks.
type socket struct {
	gws.BuiltinEventHandler
	connection *gws.Conn
	take       connector.Take
	rejected   error // why take refused a message
	ended      error
}

func open(url string, settings *tls.Config) (connector.Socket, error) {
	s := &socket{}
	options := &gws.ClientOption{Addr: url, TlsConfig: settings, ReadMaxPayloadSize: connector.MessageMost}
	options.PermessageDeflate.Enabled = connector.Compresses()
	connection, _, err := gws.NewClient(s, options)
	s.connection = connection
	return s, err
}

// OnMessage is the receive path.
func (s *socket) OnMessage(connection *gws.Conn, message *gws.Message) {
	s.rejected = s.take(message.Bytes(), message.Opcode == gws.OpcodeBinary)
	_ = message.Close()
	if s.rejected != nil {
		_ = connection.WriteClose(1007, nil)
		s.Interrupt()
	}
}

// OnPing returns the payload, which the default of the library does not.
func (s *socket) OnPing(connection *gws.Conn, payload []byte) { _ = connection.WritePong(payload) }

func (s *socket) OnClose(_ *gws.Conn, err error) { s.ended = err }

func (s *socket) Receive(take connector.Take) error {
	s.take = take
	s.connection.ReadLoop()
	if s.rejected != nil {
		return s.rejected
	}
	return s.ended
}

func (s *socket) Send(text string) error { return s.connection.WriteString(text) }

func (s *socket) Close(int) { _ = s.connection.NetConn().Close() }

func (s *socket) Interrupt() { _ = s.connection.NetConn().SetReadDeadline(time.Now()) }

func closeCode(err error) int {
	var closed *gws.CloseError
	switch {
	case !errors.As(err, &closed):
		return 0
	case closed.Code == 0:
		return 1005
	default:
		return int(closed.Code)
	}
}

func main() {
	connector.Run(connector.Library{Module: "github.com/lxzan/gws", Open: open, CloseCode: closeCode})
}
