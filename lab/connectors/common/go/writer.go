package connector

import (
	"database/sql"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	_ "github.com/mattn/go-sqlite3"
	"golang.org/x/sys/unix"
)

const (
	rowsMost   = 10_000
	flushEvery = 250 * time.Millisecond
	lookEvery  = 20 * time.Millisecond
)

// writer stores what the receiver puts into its ring and prints the connector's lines.
type writer struct {
	r        *receiver
	file     *sql.DB
	captured int64
	gc       debug.GCStats
	paused   int64 // number of collections whose pauses are stored
}

func newWriter(r *receiver) (*writer, error) {
	path := os.Getenv("LAB_CAPTURE")
	created, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, err
	}
	_ = created.Close()
	schema, err := os.ReadFile(os.Getenv("LAB_SCHEMA"))
	if err != nil {
		return nil, err
	}
	file, err := sql.Open("sqlite3", path)
	if err != nil {
		return nil, err
	}
	file.SetMaxOpenConns(1)
	if _, err := file.Exec(string(schema)); err != nil {
		return nil, err
	}
	w := &writer{r: r, file: file}
	host, _ := os.Hostname()
	facts := map[string]any{"contract": 1, "run": os.Getenv("LAB_RUN"), "connector": os.Getenv("LAB_CONNECTOR"),
		"exchange": os.Getenv("LAB_EXCHANGE"), "url": os.Getenv("LAB_URL"), "subscribe": os.Getenv("LAB_SUBSCRIBE"),
		"language": "Go", "library": strings.TrimPrefix(r.library.Module, "github.com/"), "library_version": libraryVersion(r.library.Module),
		"runtime_version": runtime.Version(), "host": host, "started_ns": monotonicNs()}
	if err := w.facts(facts); err != nil {
		return nil, err
	}
	return w, w.clock()
}

func (w *writer) facts(facts map[string]any) error {
	for name, value := range facts {
		if _, err := w.file.Exec("INSERT INTO run VALUES (?, ?)", name, fmt.Sprint(value)); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) clock() error {
	before, realtime, after := monotonicNs(), time.Now().UnixNano(), monotonicNs()
	_, err := w.file.Exec("INSERT INTO clock VALUES (?, ?, ?)", before, realtime, after)
	return err
}

// collections stores the pauses of the garbage collector since the last call, the newest first.
func (w *writer) collections() error {
	debug.ReadGCStats(&w.gc)
	count := min(int(w.gc.NumGC-w.paused), len(w.gc.Pause), len(w.gc.PauseEnd))
	w.paused = w.gc.NumGC
	nowNs, now := monotonicNs(), time.Now()
	for at := range count {
		endNs := nowNs - int64(now.Sub(w.gc.PauseEnd[at]))
		if _, err := w.file.Exec("INSERT INTO gc VALUES (?, ?)", endNs-int64(w.gc.Pause[at]), endNs); err != nil {
			return err
		}
	}
	return nil
}

// run stores events until the ring is closed and empty, and returns done or captureError. The
// receiver does not wake it, because that would cost a wake-up per message.
func (w *writer) run() int {
	flush, second := time.NewTicker(flushEvery), time.NewTicker(time.Second)
	batch := make([]event, 0, rowsMost)
	var err error
	for open := true; open && err == nil; {
		time.Sleep(lookEvery)
		for more := true; more && err == nil; {
			select {
			case e, isOpen := <-w.r.ring:
				if open = isOpen; open {
					batch = append(batch, e)
				}
				more = open
			case g := <-w.r.gaps:
				err = w.note(g)
			default:
				more = false
			}
			if len(batch) == rowsMost && err == nil {
				err = w.store(batch)
				batch = batch[:0]
			}
		}
		isDue := !open
		select {
		case <-flush.C:
			isDue = true
		default:
		}
		if isDue && err == nil {
			err = w.store(batch)
			batch = batch[:0]
		}
		select {
		case <-second.C:
			fmt.Printf("alive %d %d\n", w.r.received.Load(), w.captured)
			if err == nil {
				err = w.clock()
			}
			if err == nil {
				err = w.collections()
			}
		default:
		}
	}
	for len(w.r.gaps) > 0 && err == nil {
		err = w.note(<-w.r.gaps)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "cannot write the capture file: %v\n", err)
		w.r.stop()
		for range w.r.ring { // The receiver must not wait for space.
		}
		return captureError
	}
	return done
}

// note stores the end of a connection, or that the next one is open.
func (w *writer) note(g gap) error {
	if g.reason == "" {
		fmt.Printf("open %d %d\n", g.connection, g.toNs)
		_, err := w.file.Exec("UPDATE gap SET to_ns = ? WHERE connection_id = ?", g.toNs, g.connection-1)
		return err
	}
	fmt.Printf("gap %d %s\n", g.connection, g.reason)
	code := sql.NullInt64{Int64: int64(g.code), Valid: g.code != 0}
	_, err := w.file.Exec("INSERT INTO gap VALUES (?, ?, ?, ?, NULL)", g.connection, g.reason, code, g.fromNs)
	return err
}

func (w *writer) store(batch []event) error {
	if len(batch) == 0 {
		return nil
	}
	begin := monotonicNs()
	transaction, err := w.file.Begin()
	if err != nil {
		return err
	}
	defer transaction.Rollback() //nolint:errcheck // After a commit this does nothing.
	insert, err := transaction.Prepare("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")
	if err != nil {
		return err
	}
	for _, e := range batch {
		w.captured++
		enveloped := func(value int64) any {
			if value < 0 {
				return nil
			}
			return value
		}
		if _, err := insert.Exec(w.captured, e.connection, enveloped(e.feedNumber), enveloped(e.sequence),
			enveloped(e.dueNs), enveloped(e.sentNs), e.receivedNs, e.length, e.flags); err != nil {
			return err
		}
		if w.r.payload {
			if _, err := transaction.Exec("INSERT INTO payload VALUES (?, ?)", w.captured, e.body); err != nil {
				return err
			}
		}
	}
	if err := transaction.Commit(); err != nil {
		return err
	}
	_, err = w.file.Exec("INSERT INTO flush VALUES (?, ?, ?)", begin, monotonicNs(), len(batch))
	return err
}

// finish stores the facts that are known only at the end, and closes the file.
func (w *writer) finish(code int, endedNs int64) error {
	var usage unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &usage)
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	facts := map[string]any{"ended_ns": endedNs, "exit_code": code, "messages": w.r.received.Load(),
		"ring_waits": w.r.ringWaits.Load(), "cpu_us": (usage.Utime.Nano() + usage.Stime.Nano()) / 1000,
		"peak_memory_kb": peakMemoryKb(), "gc_count": memory.NumGC, "gc_pause_ns": memory.PauseTotalNs}
	if err := w.facts(facts); err != nil {
		return err
	}
	if err := w.collections(); err != nil {
		return err
	}
	if _, err := w.file.Exec("PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		return err
	}
	return w.file.Close()
}
