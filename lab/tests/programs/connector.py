"""A connector by contracts/lab-connector.md for tests of the laboratory, on the `websockets`
library.

CONNECTOR_TEST selects a behaviour, as words that are separated by spaces:
clock=process   prints a clock that counts from the start of the process
wait=NS         busy wait before the stamp
add=NS          adds to each stamp; the stamps as they were go to a second capture file
drop=N          stores nothing for every Nth message
pause=N:MS      stops reading for MS milliseconds at message N
die=N           ends without a trace at message N of the first process
hang            never ends by itself
gc=N:MS         pauses for MS milliseconds at message N, as a garbage collector does
model=SEED      stamps messages by a model of noise from SEED, whatever the machine does; `add` applies
"""

import os
import random
import signal
import sqlite3
import sys
import time
from pathlib import Path

from websockets.exceptions import ConnectionClosed, InvalidHandshake
from websockets.sync.client import connect

clock = time.monotonic_ns
born = clock()
words = dict((word + "=").split("=")[:2] for word in os.environ.get("CONNECTOR_TEST", "").split())
for line in sys.stdin:
    if line.strip() == "go":
        break
    print("clock", clock() - (born if words.get("clock") == "process" else 0), flush=True)
else:
    sys.exit(2)

capture = Path(os.environ["LAB_CAPTURE"])
if capture.exists():
    print(f"{capture} exists", file=sys.stderr)
    print("done 6 0", flush=True)
    sys.exit(6)


def store(path: Path, rows: list[tuple], code: int) -> None:
    database = sqlite3.connect(path)
    database.executescript(Path(os.environ["LAB_SCHEMA"]).read_text())
    begin = clock()
    database.executemany(
        "INSERT INTO event VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, CASE WHEN ?4 IS NULL THEN 2 ELSE 0 END)", rows
    )
    database.executemany("INSERT INTO payload VALUES (?, ?)", payloads)
    database.executemany("INSERT INTO gc VALUES (?, ?)", collections)
    database.executemany("INSERT INTO gap VALUES (?, ?, ?, ?, ?)", gaps)
    database.execute("INSERT INTO flush VALUES (?, ?, ?)", (begin, clock(), len(rows)))
    database.execute("INSERT INTO clock VALUES (?, ?, ?)", (clock(), time.time_ns(), clock()))
    facts = {"connector": os.environ["LAB_CONNECTOR"], "exit_code": code, "messages": len(rows), "contract": 1}
    database.executemany("INSERT INTO run VALUES (?, ?)", [(name, str(value)) for name, value in facts.items()])
    database.commit()
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()


add_ns = int(words.get("add") or 0)
# A model of a run: an effect of the run, and skewed noise of each message.
model = random.Random(f"{words['model']} {os.environ['LAB_RUN']}") if "model" in words else None
run_effect_ns = model.gauss(0, 1_000) if model else 0
gc_at, gc_ms = (int(x) for x in (words.get("gc") or "0:0").split(":"))
collections: list[tuple[int, int]] = []
wait_ns, drop = int(words.get("wait") or 0), int(words.get("drop") or 0)
pause_at, pause_ms = (int(x) for x in (words.get("pause") or "0:0").split(":"))
die = int(words.get("die") or 0) if capture.name.count(".") == 1 else 0
keeps_payload = os.environ["LAB_PAYLOAD"] == "all"
exit_file = Path(os.environ["LAB_EXIT_FILE"])
payloads: list[tuple] = []
rows: list[tuple] = []
gaps: list[list] = []
original: list[tuple] = []
count, connection_id, code = 0, 0, 0
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1) or sys.exit(0))
begin = clock()
try:
    while True:
        try:
            socket = connect(os.environ["LAB_URL"], compression=None, ping_interval=None, max_size=2**24)
        except (OSError, InvalidHandshake):
            if clock() - begin > 10_000_000_000 or not connection_id:
                code = 4
                break
            time.sleep(0.1)
            continue
        connection_id += 1
        if gaps:
            gaps[-1][4] = clock()
        print("open", connection_id, clock(), flush=True)
        if os.environ["LAB_SUBSCRIBE"]:
            socket.send(os.environ["LAB_SUBSCRIBE"])
        try:
            while True:
                try:
                    message = socket.recv(timeout=0.1)
                except TimeoutError:
                    if exit_file.exists():
                        sys.exit(0)
                    continue
                if count + 1 == gc_at:
                    collections.append((clock(), clock() + gc_ms * 1_000_000))
                    time.sleep(gc_ms / 1000)
                stamp = first = clock()
                if wait_ns:
                    while (stamp := clock()) < first + wait_ns:
                        pass
                count += 1
                envelope = [None] * 4
                if len(message) >= 108 and message.startswith('{"seq":"'):
                    envelope = [int(message[a:b]) for a, b in ((100, 106), (8, 27), (39, 58), (71, 90))]
                if model and envelope[2] is not None:
                    stamp = envelope[2] + round(30_000 + run_effect_ns + model.gammavariate(4, 2_000))
                row = (connection_id, *envelope)
                if count == pause_at:
                    time.sleep(pause_ms / 1000)
                if count == die:
                    os._exit(9)
                if drop and envelope[1] is not None and envelope[1] % drop == 0:
                    continue
                rows.append((len(rows) + 1, *row, stamp + add_ns, len(message)))
                if keeps_payload:
                    payloads.append((len(rows), message.encode()))
                if exit_file.exists():
                    sys.exit(0)
                original.append((len(original) + 1, *row, stamp, len(message)))
        except ConnectionClosed as closed:
            if closed.rcvd is not None and closed.rcvd.code == 1000:
                break
            print("gap", connection_id, "close", flush=True)
            gaps.append([connection_id, "close", closed.rcvd.code if closed.rcvd else None, clock(), None])
            begin = clock()
            if os.environ["LAB_RECONNECT"] != "1":
                code = 3
                break
finally:
    if "hang" in words:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        time.sleep(60)
    store(capture, rows, code)
    if add_ns:
        store(capture.with_name("original-" + capture.name), original, code)
    print("done", code, count, flush=True)
sys.exit(code)
