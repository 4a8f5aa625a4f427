// A connector of the latency laboratory with gorilla/websocket, by contracts/lab-connector.md.
package main

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

const done, usage, remoteClose, connectFailure, protocolError, captureError = 0, 2, 3, 4, 5, 6

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

func main() {
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
	handshake()
	r := &receiver{ring: make(chan event, ringPlaces), gaps: make(chan gap, 1024),
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
