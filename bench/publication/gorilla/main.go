// Gorilla: a goroutine that reads and, for a publication, one that writes, per connection; messages framed once
// (PreparedMessage). A subscriber with 256 messages waiting misses the next ones.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gorilla/websocket"
)

const (
	waiting       = 256
	tcpCongestion = 13
)

var upgrader = websocket.Upgrader{
	ReadBufferSize:  1024,
	WriteBufferSize: 1024,
	CheckOrigin:     func(*http.Request) bool { return true },
}

type hub struct {
	mutex       sync.RWMutex
	subscribers map[chan *websocket.PreparedMessage]struct{}
}

func (h *hub) publish(message *websocket.PreparedMessage) {
	h.mutex.RLock()
	defer h.mutex.RUnlock()
	for subscriber := range h.subscribers {
		select {
		case subscriber <- message:
		default:
		}
	}
}

func (h *hub) join(messages chan *websocket.PreparedMessage) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.subscribers[messages] = struct{}{}
}

func (h *hub) leave(messages chan *websocket.PreparedMessage) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	delete(h.subscribers, messages)
	close(messages)
}

func (h *hub) pace(rate float64, bytes int) {
	start := time.Now()
	for n := 1; ; n++ {
		after := time.Duration(float64(n) / rate * float64(time.Second))
		time.Sleep(time.Until(start.Add(after)))
		head := fmt.Sprintf(`{"seq":%d,"ts_ns":%d,"pad":"`, n, start.UnixNano()+int64(after))
		text := head + strings.Repeat("x", max(0, bytes-len(head)-2)) + `"}`
		message, err := websocket.NewPreparedMessage(websocket.TextMessage, []byte(text))
		if err != nil {
			log.Fatal(err)
		}
		h.publish(message)
	}
}

func answerer(answers, bytes int) http.HandlerFunc {
	message, err := websocket.NewPreparedMessage(websocket.TextMessage, []byte(strings.Repeat("x", bytes)))
	if err != nil {
		log.Fatal(err)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		connection, err := upgrader.Upgrade(w, r, nil)
		if err != nil {
			return
		}
		defer connection.Close()
		for {
			if _, _, err := connection.ReadMessage(); err != nil {
				return
			}
			for range answers {
				if err := connection.WritePreparedMessage(message); err != nil {
					return
				}
			}
		}
	}
}

func (h *hub) subscriber(w http.ResponseWriter, r *http.Request) {
	connection, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	messages := make(chan *websocket.PreparedMessage, waiting)
	h.join(messages)
	go func() {
		defer connection.Close()
		for message := range messages {
			if connection.WritePreparedMessage(message) != nil {
				return
			}
		}
	}()
	for {
		if _, _, err := connection.ReadMessage(); err != nil {
			h.leave(messages)
			return
		}
	}
}

func main() {
	address := flag.String("listen", "127.0.0.1:0", "")
	readyFile := flag.String("ready-file", "", "")
	respond := flag.String("respond", "", "")
	rate := flag.Float64("synthetic", 0, "")
	bytes := flag.Int("bytes", 190, "")
	flag.Parse()
	// What the listener has is inherited by what it accepts.
	config := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		return raw.Control(func(fd uintptr) {
			_ = syscall.SetsockoptString(int(fd), syscall.IPPROTO_TCP, tcpCongestion, "cubic")
		})
	}}
	listener, err := config.Listen(context.Background(), "tcp", *address)
	if err != nil {
		log.Fatal(err)
	}
	h := &hub{subscribers: map[chan *websocket.PreparedMessage]struct{}{}}
	handler := http.HandlerFunc(h.subscriber)
	if *respond != "" {
		var answers, size int
		if _, err := fmt.Sscanf(*respond, "%dx%d", &answers, &size); err != nil {
			log.Fatalf("--respond KxBYTES: %v", err)
		}
		handler = answerer(answers, size)
	} else {
		go h.pace(*rate, *bytes)
	}
	if *readyFile != "" {
		text := fmt.Sprintf(`{"http":"%s","pid":%d}`, listener.Addr(), os.Getpid())
		if err := os.WriteFile(*readyFile+".unfinished", []byte(text), 0o644); err != nil {
			log.Fatal(err)
		}
		if err := os.Rename(*readyFile+".unfinished", *readyFile); err != nil {
			log.Fatal(err)
		}
	}
	log.Fatal(http.Serve(listener, handler))
}
