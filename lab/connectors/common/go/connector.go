// Package connector has everything of a connector in Go that does not depend on its library.
// A connector calls Run with its Library. contracts/lab-connector.md has the rules.
package connector

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const done, usage, remoteClose, connectFailure, protocolError, captureError = 0, 2, 3, 4, 5, 6

// MessageMost is the largest message that a connector must receive, in bytes.
const MessageMost = 16 << 20

// Take stamps a message and puts it into the ring. The message may be reused after the call.
// It returns ErrNotUTF8 for a text that is not valid UTF-8, unless the library checks that itself.
type Take func(message []byte, isBinary bool) error

// Socket is one open connection.
type Socket interface {
	// Receive calls take for each message, as the first action, until the connection ends. It
	// returns why it ended.
	Receive(take Take) error
	// Send sends one text message.
	Send(text string) error
	// Close ends the connection. Code 0 sends no close frame.
	Close(code int)
	// Interrupt makes Receive return. Another goroutine calls it.
	Interrupt()
}

// Library is a WebSocket client library.
type Library struct {
	// Module is the path of the library, such as github.com/gorilla/websocket.
	Module     string
	ChecksUTF8 bool
	// Open opens a connection to LAB_URL. The settings are nil for ws.
	Open func(url string, settings *tls.Config) (Socket, error)
	// CloseCode returns the code of the close frame that ended the connection: 1005 for a frame
	// without a code, and 0 if there was no frame.
	CloseCode func(err error) int
}

// Compresses returns whether the library has to offer permessage-deflate.
func Compresses() bool { return os.Getenv("LAB_COMPRESS") == "1" }

// tlsSettings trusts the certificates of LAB_CA, or those of the system without it.
func tlsSettings() (*tls.Config, error) {
	path := os.Getenv("LAB_CA")
	if path == "" {
		return &tls.Config{}, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	trusted := x509.NewCertPool()
	if !trusted.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s holds no certificate in PEM form", path)
	}
	return &tls.Config{RootCAs: trusted}, nil
}

func handshake() {
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch lines.Text() {
		case "clock":
			fmt.Printf("clock %d\n", monotonicNs())
		case "go":
			return
		}
	}
	os.Exit(usage)
}

func checkEnvironment() {
	for _, name := range []string{"LAB_URL", "LAB_CAPTURE", "LAB_SCHEMA", "LAB_EXIT_FILE", "LAB_RUN", "LAB_CONNECTOR",
		"LAB_EXCHANGE", "LAB_ENVELOPE", "LAB_PAYLOAD", "LAB_RECONNECT"} {
		if _, ok := os.LookupEnv(name); !ok {
			fmt.Fprintf(os.Stderr, "the environment has no %s\n", name)
			os.Exit(usage)
		}
	}
	if os.Getenv("LAB_BUSY_WAIT_NS") != "" {
		fmt.Fprintln(os.Stderr, "this connector does not offer LAB_BUSY_WAIT_NS")
		os.Exit(usage)
	}
}

// Run is the whole life of a connector. It ends the process with the exit code of the contract.
func Run(library Library) {
	checkEnvironment()
	settings, err := tlsSettings()
	if err != nil {
		fmt.Fprintf(os.Stderr, "cannot use LAB_CA: %v\n", err)
		os.Exit(usage)
	}
	handshake()
	r := &receiver{library: library, settings: settings, ring: make(chan event, ringPlaces), gaps: make(chan gap, 1024),
		payload: os.Getenv("LAB_PAYLOAD") == "all", envelope: os.Getenv("LAB_ENVELOPE") == "text"}
	w, err := newWriter(r)
	if err != nil {
		fmt.Fprintf(os.Stderr, "cannot write %s: %v\n", os.Getenv("LAB_CAPTURE"), err)
		fmt.Printf("done %d 0\n", captureError)
		os.Exit(captureError)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		for {
			select {
			case <-signals:
				r.stop()
			case <-time.After(100 * time.Millisecond):
				if _, err := os.Stat(os.Getenv("LAB_EXIT_FILE")); err == nil {
					r.stop()
				}
			}
		}
	}()
	finished := make(chan int, 1)
	go func() { finished <- w.run() }()
	code := r.run()
	close(r.ring)
	if written := <-finished; written != done {
		code = written
	} else if err := w.finish(code, monotonicNs()); err != nil {
		fmt.Fprintf(os.Stderr, "cannot write %s: %v\n", os.Getenv("LAB_CAPTURE"), err)
		code = captureError
	}
	fmt.Printf("done %d %d\n", code, r.received.Load())
	os.Exit(code)
}
