package connector

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
	"unicode/utf8"
)

const (
	ringPlaces = 1 << 16
	giveUp     = 10 * time.Second
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

// judge returns the reason of a gap (close, lost or protocol) and the code of a close frame.
func (l Library) judge(err error) (reason string, closeCode int) {
	var network net.Error
	switch code := l.CloseCode(err); {
	// 1006 is never in a frame: libraries report a lost connection with it.
	case code != 0 && code != 1006:
		return "close", code
	case code != 0, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &network),
		errors.Is(err, syscall.ECONNRESET):
		return "lost", 0
	default:
		return "protocol", 0
	}
}

// receiver is the receive path: it reads the socket and fills the ring.
type receiver struct {
	library     Library
	settings    *tls.Config
	ring        chan event
	gaps        chan gap
	received    atomic.Int64
	ringWaits   atomic.Int64
	stopping    atomic.Bool
	socket      atomic.Pointer[Socket]
	payload     bool
	envelope    bool
	connections int64
}

// ErrNotUTF8 ends a connection whose server sent a text that is not valid UTF-8.
var ErrNotUTF8 = errors.New("a text message is not valid UTF-8")

func (r *receiver) take(message []byte, isBinary bool) error {
	receivedNs := monotonicNs()
	if !r.library.ChecksUTF8 && !isBinary && !utf8.Valid(message) {
		return ErrNotUTF8
	}
	e := event{r.connections, receivedNs, int64(len(message)), -1, -1, -1, -1, 0, nil}
	if isBinary {
		e.flags |= 1
	}
	if r.envelope && !isBinary && len(message) >= 108 && string(message[:8]) == `{"seq":"` {
		e.sequence, e.dueNs = number(message[8:27]), number(message[39:58])
		e.sentNs, e.feedNumber = number(message[71:90]), number(message[100:106])
	} else {
		e.flags |= 2
	}
	if r.payload {
		e.body = append([]byte{}, message...)
	}
	r.received.Add(1)
	select {
	case r.ring <- e:
	default:
		r.ringWaits.Add(1)
		r.ring <- e
	}
	return nil
}

func (r *receiver) dial() (Socket, error) {
	url, settings := os.Getenv("LAB_URL"), r.settings
	if !strings.HasPrefix(url, "wss://") {
		settings = nil
	}
	socket, err := r.library.Open(url, settings)
	if err != nil {
		return nil, err
	}
	if text := os.Getenv("LAB_SUBSCRIBE"); text != "" {
		err = socket.Send(text)
	}
	return socket, err
}

// redial tries again for ten seconds, at once and then every 50 to 200 ms.
func (r *receiver) redial() Socket {
	for begun := time.Now(); time.Since(begun) < giveUp && !r.stopping.Load(); {
		if socket, err := r.dial(); err == nil {
			return socket
		}
		time.Sleep(50*time.Millisecond + rand.N(150*time.Millisecond))
	}
	return nil
}

// run receives until the feed or the run is over, and returns the exit code.
func (r *receiver) run() int {
	socket, err := r.dial()
	if err != nil {
		fmt.Fprintf(os.Stderr, "cannot connect to %s: %v\n", os.Getenv("LAB_URL"), err)
		return connectFailure
	}
	for {
		r.connections++
		r.socket.Store(&socket)
		r.gaps <- gap{connection: r.connections, toNs: monotonicNs()}
		err := socket.Receive(r.take)
		fromNs := monotonicNs()
		reason, code, exit := "protocol", 0, protocolError
		if errors.Is(err, ErrNotUTF8) {
			socket.Close(1007)
		} else {
			socket.Close(0)
			reason, code = r.library.judge(err)
		}
		if r.stopping.Load() || code == 1000 {
			return done
		}
		if reason != "protocol" {
			exit = remoteClose
		}
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
		(*socket).Interrupt()
	}
}
