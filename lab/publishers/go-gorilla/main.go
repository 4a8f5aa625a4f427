// Gorilla: one goroutine per connection reads. In the tests fan-out and queue a second one writes.
// A message for all subscribers is framed once (PreparedMessage).
package main

import (
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
	"github.com/nats-io/nats.go"
)

// maxQueued is the number of messages that may wait for one subscriber. It misses further ones.
const maxQueued = 256

var upgrader = websocket.Upgrader{ReadBufferSize: 1024, WriteBufferSize: 1024}

func number(name string) int {
	value, err := strconv.Atoi(os.Getenv(name))
	if err != nil {
		log.Fatalf("invalid %s %q: expected a whole number", name, os.Getenv(name))
	}
	return value
}

func prepare(text []byte) *websocket.PreparedMessage {
	message, err := websocket.NewPreparedMessage(websocket.TextMessage, text)
	if err != nil {
		log.Fatal(err)
	}
	return message
}

func echo(connection *websocket.Conn) {
	for {
		kind, message, err := connection.ReadMessage()
		if err != nil || connection.WriteMessage(kind, message) != nil {
			return
		}
	}
}

func heartbeat(messages, bytes int) func(*websocket.Conn) {
	reply := prepare([]byte(strings.Repeat("x", bytes)))
	return func(connection *websocket.Conn) {
		for {
			if _, _, err := connection.ReadMessage(); err != nil {
				return
			}
			for range messages {
				if connection.WritePreparedMessage(reply) != nil {
					return
				}
			}
		}
	}
}

type hub struct {
	mutex       sync.RWMutex
	subscribers map[chan *websocket.PreparedMessage]struct{}
}

func (h *hub) publish(text []byte) {
	message := prepare(text)
	h.mutex.RLock()
	defer h.mutex.RUnlock()
	for subscriber := range h.subscribers {
		select {
		case subscriber <- message:
		default:
		}
	}
}

func (h *hub) add(messages chan *websocket.PreparedMessage) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.subscribers[messages] = struct{}{}
}

func (h *hub) remove(messages chan *websocket.PreparedMessage) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	delete(h.subscribers, messages)
	close(messages)
}

func (h *hub) serve(connection *websocket.Conn) {
	messages := make(chan *websocket.PreparedMessage, maxQueued)
	h.add(messages)
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
			h.remove(messages)
			return
		}
	}
}

func (h *hub) generate(rate, bytes int) {
	start := time.Now()
	for n := 1; ; n++ {
		due := time.Duration(float64(n) / float64(rate) * float64(time.Second))
		time.Sleep(time.Until(start.Add(due)))
		head := fmt.Sprintf(`{"seq":%d,"ts_ns":%d,"pad":"`, n, start.UnixNano()+int64(due))
		h.publish([]byte(head + strings.Repeat("x", max(0, bytes-len(head)-2)) + `"}`))
	}
}

func (h *hub) consume(url, subject string) {
	queue, err := nats.Connect(url)
	if err == nil {
		_, err = queue.Subscribe(subject, func(message *nats.Msg) { h.publish(message.Data) })
	}
	if err == nil {
		err = queue.Flush()
	}
	if err != nil {
		log.Fatalf("cannot read from the queue %s: %v", url, err)
	}
}

func writeReadyFile(path string, address net.Addr) error {
	unfinished := path + ".unfinished"
	if err := os.WriteFile(unfinished, fmt.Appendf(nil, `{"http":"%s"}`, address), 0o644); err != nil {
		return err
	}
	return os.Rename(unfinished, path)
}

func main() {
	h := &hub{subscribers: map[chan *websocket.PreparedMessage]struct{}{}}
	serve, token := h.serve, ""
	switch test := os.Getenv("LAB_TEST"); test {
	case "echo":
		serve = echo
	case "heartbeat":
		serve = heartbeat(number("LAB_MESSAGES"), number("LAB_BYTES"))
	case "fan-out":
		go h.generate(number("LAB_RATE"), number("LAB_BYTES"))
	case "queue":
		token = os.Getenv("LAB_TOKEN")
		h.consume(os.Getenv("LAB_QUEUE"), os.Getenv("LAB_SUBJECT"))
	default:
		log.Printf("invalid LAB_TEST %q: expected echo, heartbeat, fan-out or queue", test)
		os.Exit(2)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(os.Getenv("LAB_HOST"), os.Getenv("LAB_PORT")))
	if err != nil {
		log.Fatal(err)
	}
	if err := writeReadyFile(os.Getenv("LAB_READY_FILE"), listener.Addr()); err != nil {
		log.Fatal(err)
	}
	log.Fatal(http.Serve(listener, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("token") != token {
			http.Error(w, "wrong token", http.StatusUnauthorized)
			return
		}
		if connection, err := upgrader.Upgrade(w, r, nil); err == nil {
			defer connection.Close()
			serve(connection)
		}
	})))
}
