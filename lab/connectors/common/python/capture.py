"""The capture file: a thread moves records from the ring of the receive path to disk."""

from __future__ import annotations

import gc
import os
import platform
import resource
import socket
import sqlite3
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

RING_PLACES = 1 << 16
ROWS_MAX = 10_000
LOOK_S = 0.05

# connection_id, feed_connection, sequence, due_ns, sent_ns, received_ns, length_bytes, flags, body.
# A text, because Python 3.9 of PyPy does not know the bar.
Event = "tuple[int, int | None, int | None, int | None, int | None, int, int, int, bytes | str | None]"


class Collections:
    """Counts the runs of the garbage collector, and notes when each began and ended."""

    def __init__(self) -> None:
        self.count = self.pause_ns = self.begun_ns = 0
        self.pauses: deque[tuple[int, int]] = deque()
        # PyPy does not call back.
        self.is_counting = hasattr(gc, "callbacks")
        if self.is_counting:
            gc.callbacks.append(self._note)

    def _note(self, phase: str, _details: dict[str, int]) -> None:
        if phase == "start":
            self.begun_ns = time.monotonic_ns()
        else:
            ended_ns = time.monotonic_ns()
            self.count += 1
            self.pause_ns += ended_ns - self.begun_ns
            self.pauses.append((self.begun_ns, ended_ns))


class Capture:
    """`ring` and `notes` belong to both threads. Everything else belongs to the writer thread."""

    def __init__(self, library: str, version: str, stop: Callable[[], None]) -> None:
        self.ring: deque[Event] = deque()
        self.notes: deque[tuple[str, int, str | None, int | None, int]] = deque()
        self.received = self.ring_waits = self.captured = 0
        self.failure: Exception | None = None
        self._stop = stop
        self._over = threading.Event()
        self._exit_file = Path(os.environ["LAB_EXIT_FILE"])
        self._collections = Collections()
        path = os.environ["LAB_CAPTURE"]
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o644))
        self._file = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._file.executescript(Path(os.environ["LAB_SCHEMA"]).read_text())
        names = ("run", "connector", "exchange", "url", "subscribe")
        self._facts({name: os.environ.get("LAB_" + name.upper(), "") for name in names})
        runtime = f"{platform.python_implementation()} {platform.python_version()}"
        facts = {"language": "Python", "library": library, "library_version": version, "runtime_version": runtime}
        self._facts(facts | {"contract": 1, "host": socket.gethostname(), "started_ns": time.monotonic_ns()})
        self._clock()
        self._thread = threading.Thread(target=self._run, name="capture")
        self._thread.start()

    def put(self, event: Event) -> None:
        """Called by the receive path. Waits if the ring is full."""
        self.received += 1
        if len(self.ring) >= RING_PLACES:
            self.ring_waits += 1
            while len(self.ring) >= RING_PLACES and self.failure is None:
                time.sleep(0.001)
        self.ring.append(event)

    def finish(self, code: int) -> int:
        """Stores the rest and closes the file. Returns the exit code."""
        ended_ns = time.monotonic_ns()
        self._over.set()
        self._thread.join()
        try:
            if self.failure:
                raise self.failure
            usage = resource.getrusage(resource.RUSAGE_SELF)
            status = Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0]
            facts = {"ended_ns": ended_ns, "exit_code": code, "messages": self.received, "peak_memory_kb": status}
            facts |= {"ring_waits": self.ring_waits, "cpu_us": round((usage.ru_utime + usage.ru_stime) * 1e6)}
            if self._collections.is_counting:
                facts |= {"gc_count": self._collections.count, "gc_pause_ns": self._collections.pause_ns}
            self._facts(facts)
            self._file.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._file.close()
        except (OSError, sqlite3.Error) as error:
            print(f"cannot write {os.environ['LAB_CAPTURE']}: {error}", file=sys.stderr, flush=True)
            return 6
        return code

    def _run(self) -> None:
        next_second = time.monotonic() + 1
        try:
            while not self._over.wait(LOOK_S):
                self._store()
                if self._exit_file.exists():
                    self._stop()
                if time.monotonic() >= next_second:
                    next_second += 1
                    print(f"alive {self.received} {self.captured}", flush=True)
                    self._clock()
            self._store()
        except (OSError, sqlite3.Error) as error:
            self.failure = error
            self._stop()

    def _store(self) -> None:
        while self.notes:
            kind, connection, reason, code, at_ns = self.notes.popleft()
            if kind == "open":
                print(f"open {connection} {at_ns}", flush=True)
                self._file.execute("UPDATE gap SET to_ns = ? WHERE connection_id = ?", (at_ns, connection - 1))
            else:
                print(f"gap {connection} {reason}", flush=True)
                self._file.execute("INSERT INTO gap VALUES (?, ?, ?, ?, NULL)", (connection, reason, code, at_ns))
        while self._collections.pauses:
            self._file.execute("INSERT INTO gc VALUES (?, ?)", self._collections.pauses.popleft())
        while self.ring:
            self._store_batch([self.ring.popleft() for _ in range(min(len(self.ring), ROWS_MAX))])

    def _store_batch(self, batch: Iterable[Event]) -> None:
        begin_ns = time.monotonic_ns()
        first = self.captured
        events, payloads = [], []
        for self.captured, event in enumerate(batch, first + 1):
            events.append((self.captured, *event[:8]))
            if event[8] is not None:
                payloads.append((self.captured, event[8].encode() if isinstance(event[8], str) else event[8]))
        self._file.execute("BEGIN")
        self._file.executemany("INSERT INTO event VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", events)
        self._file.executemany("INSERT INTO payload VALUES (?, ?)", payloads)
        self._file.execute("COMMIT")
        end_ns = time.monotonic_ns()
        self._file.execute("INSERT INTO flush VALUES (?, ?, ?)", (begin_ns, end_ns, len(events)))

    def _facts(self, facts: dict[str, object]) -> None:
        self._file.executemany("INSERT INTO run VALUES (?, ?)", [(name, str(fact)) for name, fact in facts.items()])

    def _clock(self) -> None:
        row = (time.monotonic_ns(), time.time_ns(), time.monotonic_ns())
        self._file.execute("INSERT INTO clock VALUES (?, ?, ?)", row)
