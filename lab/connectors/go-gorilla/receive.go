package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"
)

const (
	ringPlaces  = 1 << 16
	messageMost = 16 << 20
	giveUp      = 10 * time.Second
)

// event is a received message. Numbers of the envelope are -1 if there is none.
type event struct {
	connection, receivedNs, length      int64
	sequence, dueNs, sentNs, feedNumber int64
	flags                               int64
	body                                []byte
}

// gap is a connection that ended before the run did.
type gap struct {
	connection, fromNs, toNs int64
	code                     int
	reason                   string
}

func number(digits []byte) int64 {
	value := int64(0)
	for _, digit := range digits {
		value = value*10 + int64(digit-'0')
	}
	return value
}

// receiver is the receive path: it reads the socket and fills the ring.
type receiver struct {
	ring        chan event
	gaps        chan gap
	received    atomic.Int64
	ringWaits   atomic.Int64
	stopping    atomic.Bool
	socket      atomic.Pointer[websocket.Conn]
	payload     bool
	envelope    bool
	connections int64
}

func (r *receiver) take(message []byte, kind int, receivedNs int64) {
	e := event{r.connections, receivedNs, int64(len(message)), -1, -1, -1, -1, 0, nil}
	if kind == websocket.BinaryMessage {
		e.flags |= 1
	}
	if r.envelope && len(message) >= 108 && string(message[:8]) == `{"seq":"` {
		e.sequence, e.dueNs = number(message[8:27]), number(message[39:58])
		e.sentNs, e.feedNumber = number(message[71:90]), number(message[100:106])
	} else {
		e.flags |= 2
	}
	if r.payload {
		e.body = message
	}
	r.received.Add(1)
	select {
	case r.ring <- e:
	default:
		r.ringWaits.Add(1)
		r.ring <- e
	}
}

// read receives until the connection ends, and returns why.
func (r *receiver) read(socket *websocket.Conn) error {
	for {
		kind, message, err := socket.ReadMessage()
		receivedNs := monotonicNs()
		if err != nil {
			return err
		}
		// Gorilla leaves this check of RFC 6455 to its user.
		if kind == websocket.TextMessage && !utf8.Valid(message) {
			body := websocket.FormatCloseMessage(websocket.CloseInvalidFramePayloadData, "not UTF-8")
			_ = socket.WriteControl(websocket.CloseMessage, body, time.Now().Add(time.Second))
			return errNotUTF8
		}
		r.take(message, kind, receivedNs)
	}
}

var errNotUTF8 = errors.New("a text message is not valid UTF-8")

func dial() (*websocket.Conn, error) {
	dialer := websocket.Dialer{HandshakeTimeout: 5 * time.Second}
	socket, _, err := dialer.Dial(os.Getenv("LAB_URL"), nil)
	if err != nil {
		return nil, err
	}
	socket.SetReadLimit(messageMost)
	if text := os.Getenv("LAB_SUBSCRIBE"); text != "" {
		err = socket.WriteMessage(websocket.TextMessage, []byte(text))
	}
	return socket, err
}

// redial tries again for ten seconds, at once and then every 50 to 200 ms.
func (r *receiver) redial() *websocket.Conn {
	for begun := time.Now(); time.Since(begun) < giveUp && !r.stopping.Load(); {
		if socket, err := dial(); err == nil {
			return socket
		}
		time.Sleep(50*time.Millisecond + rand.N(150*time.Millisecond))
	}
	return nil
}

// verdict names the reason of a lost connection: gap reason, close code, exit code.
func verdict(err error) (string, int, int) {
	var closed *websocket.CloseError
	var network net.Error
	switch {
	case errors.As(err, &closed) && closed.Code != websocket.CloseAbnormalClosure:
		return "close", closed.Code, remoteClose
	case errors.As(err, &closed), errors.As(err, &network), errors.Is(err, syscall.ECONNRESET):
		return "lost", 0, remoteClose
	default:
		return "protocol", 0, protocolError
	}
}

// run receives until the feed or the run is over, and returns the exit code.
func (r *receiver) run() int {
	socket, err := dial()
	if err != nil {
		fmt.Fprintf(os.Stderr, "cannot connect to %s: %v\n", os.Getenv("LAB_URL"), err)
		return connectFailure
	}
	for {
		r.connections++
		r.socket.Store(socket)
		r.gaps <- gap{connection: r.connections, toNs: monotonicNs()}
		err := r.read(socket)
		fromNs := monotonicNs()
		_ = socket.Close()
		if r.stopping.Load() || websocket.IsCloseError(err, websocket.CloseNormalClosure) {
			return done
		}
		reason, code, exit := verdict(err)
		fmt.Fprintf(os.Stderr, "connection %d ended: %v\n", r.connections, err)
		r.gaps <- gap{connection: r.connections, fromNs: fromNs, code: code, reason: reason}
		if os.Getenv("LAB_RECONNECT") != "1" {
			return exit
		}
		if socket = r.redial(); socket == nil {
			if r.stopping.Load() {
				return done
			}
			return connectFailure
		}
	}
}

// stop ends the receive path from outside.
func (r *receiver) stop() {
	r.stopping.Store(true)
	if socket := r.socket.Load(); socket != nil {
		_ = socket.NetConn().SetReadDeadline(time.Now())
	}
}
