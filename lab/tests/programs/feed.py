"""A small feed with the command line of `pitwire tape serve --live`, for tests of the supervisor.

FEED_TEST selects a misbehaviour: refuse (never listens), reject (answers 503), close (drops
connections at a third), stop (sends nothing more from a third on), stop-one (only connection 1),
stall (sends nothing for 2.5 s at a third).
"""

import argparse
import contextlib
import json
import os
import sys
import threading
import time
from pathlib import Path

from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import ServerConnection, serve

parser = argparse.ArgumentParser()
for name in ("listen", "truth", "ready-file", "start-with", "rate", "trades", "payload-bytes", "seed", "arrival"):
    parser.add_argument(f"--{name}")
for name in ("dialect", "spin-us", "markets", "faults", "fragment", "batch"):
    parser.add_argument(f"--{name}")
for name in ("live", "envelope", "json", "subscribe-first"):
    parser.add_argument(f"--{name}", action="store_true")
words = sys.argv[3:] if sys.argv[1:3] == ["tape", "serve"] else sys.argv[1:]
options = parser.parse_args(words)
fault = os.environ.get("FEED_TEST", "")
if fault == "refuse":
    sys.exit("feed: cannot listen")

total, rate = int(options.trades), float(options.rate)
padding = "x" * (int(options.payload_bytes or 224) - 118) if options.payload_bytes != "study" else "x"
lock, ready, finished = threading.Lock(), threading.Event(), threading.Event()
state = {"connections": 0, "ended": 0, "start": 0}
truth = Path(options.truth).open("w")  # noqa: SIM115 - open for the life of the program
truth.write("connection,sequence,due_ns,sent_ns,done_ns,bytes,fault\n")


def handle(connection: ServerConnection) -> None:
    with lock:
        state["connections"] += 1
        number = state["connections"]
    if options.subscribe_first:
        print(f"subscribed: {connection.recv()}", file=sys.stderr, flush=True)
    with lock:
        if number == int(options.start_with or 1):
            state["start"] = time.monotonic_ns() + 20_000_000
            ready.set()
    ready.wait()
    lines = []
    for sequence in range(1, total + 1):
        batch = int(options.batch or 1)
        due = state["start"] + int((sequence - 1) // batch * batch * 1e9 / rate)
        wait = (due - time.monotonic_ns()) / 1e9
        if wait < -0.5 and number > int(options.start_with or 1):
            continue  # due before this connection was open
        if wait > 0:
            time.sleep(wait)
        if sequence == total // 3 and number <= int(options.start_with or 1):
            if fault == "stop" or (fault == "stop-one" and number == 1):
                with contextlib.suppress(ConnectionClosed):
                    connection.recv()
                break
            if fault == "stall":
                time.sleep(2.5)
        sent = time.monotonic_ns()
        envelope = f'{{"seq":"{sequence:019d}","due_ns":"{due:019d}","sent_ns":"{sent:019d}","conn":"{number:06d}",'
        text = f'{envelope}"p":"{padding}"}}'
        connection.send(text)
        lines.append(f"{number},{sequence},{due},{sent},{time.monotonic_ns()},{len(text)},\n")
        if fault == "close" and number <= int(options.start_with or 1) and sequence == total // 3:
            break
    with lock:
        truth.writelines(lines)
        truth.flush()
    connection.close(1001 if lines and int(lines[-1].split(",")[1]) < total else 1000)
    with lock:
        state["ended"] += 1
        if state["ended"] == int(options.start_with or 1):
            finished.set()


def reject(connection: ServerConnection, _request: Request) -> Response | None:
    return connection.respond(503, "no place is free\n") if fault == "reject" else None


with serve(handle, "127.0.0.1", 0, compression=None, ping_interval=None, process_request=reject) as server:
    host, port = server.socket.getsockname()[:2]
    temporary = Path(options.ready_file + ".new")
    temporary.write_text(json.dumps({"http": f"{host}:{port}", "pid": os.getpid(), "url": f"ws://{host}:{port}"}))
    temporary.replace(options.ready_file)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        finished.wait()
        time.sleep(0.2)
    except KeyboardInterrupt:
        pass
    print(json.dumps({"messages": total, "connections": state["connections"]}), flush=True)
