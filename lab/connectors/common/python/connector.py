"""A connector of the latency laboratory in Python, by contracts/lab-connector.md.

It runs in the folder of one connector. `library.py` there, or in the folder that the first argument names, has
the WebSocket library: the names NAME, VERSION and FAILURES, and the coroutines connected, send, receive and close.
The second argument names a module whose `run` replaces that of asyncio.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import random
import signal
import sqlite3
import ssl
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from capture import Capture

DONE, USAGE, REMOTE_CLOSE, CONNECT_FAILURE, PROTOCOL_ERROR, CAPTURE_ERROR = 0, 2, 3, 4, 5, 6
NEEDED = ("URL", "CAPTURE", "SCHEMA", "EXIT_FILE", "RUN", "CONNECTOR", "EXCHANGE", "ENVELOPE", "PAYLOAD", "RECONNECT")
GIVE_UP_S = 10


Take = Callable[..., None]  # Receiver.take


@dataclass
class Ended:
    """Why a connection ended: the reason of the gap, the code of a close frame, and a text."""

    reason: str
    code: int | None
    text: str


class Receiver:
    def __init__(self, library: Any) -> None:
        self.library = library
        self.url = os.environ["LAB_URL"]
        self.settings = None
        if self.url.startswith("wss://"):
            self.settings = ssl.create_default_context(cafile=os.environ.get("LAB_CA") or None)
        self.stopping = asyncio.Event()
        self.connection_id = 0
        self.has_envelope = os.environ["LAB_ENVELOPE"] == "text"
        self.keeps_payload = os.environ["LAB_PAYLOAD"] == "all"
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stopping.set)
        stop = lambda: loop.call_soon_threadsafe(self.stopping.set)  # noqa: E731
        self.capture = Capture(library.NAME, library.VERSION, stop)

    def take(self, message: str | bytes, received_ns: int | None = None) -> None:
        """Stamps a message, unless the library's file has done that, and puts it into the ring."""
        if received_ns is None:
            received_ns = time.monotonic_ns()
        is_binary = isinstance(message, bytes)
        length = len(message) if is_binary or message.isascii() else len(message.encode())
        body = message if self.keeps_payload else None
        if self.has_envelope and not is_binary and length >= 108 and message.startswith('{"seq":"'):
            sequence, due_ns, sent_ns = int(message[8:27]), int(message[39:58]), int(message[71:90])
            feed = int(message[100:106])
            row = (self.connection_id, feed, sequence, due_ns, sent_ns, received_ns, length, 0, body)
        else:
            row = (self.connection_id, None, None, None, None, received_ns, length, 2 | is_binary, body)
        self.capture.put(row)

    async def open(self) -> Any:
        socket = await self.library.connected(self.url, self.settings)
        if text := os.environ.get("LAB_SUBSCRIBE"):
            await self.library.send(socket, text)
        return socket

    async def reopen(self) -> Any:
        """Tries again for ten seconds, at once and then every 50 to 200 ms."""
        until = time.monotonic() + GIVE_UP_S
        while time.monotonic() < until and not self.stopping.is_set():
            try:
                return await self.open()
            except self.library.FAILURES:
                await asyncio.sleep(random.uniform(0.05, 0.2))
        return None

    async def run(self) -> int:
        try:
            socket = await self.open()
        except self.library.FAILURES as error:
            print(f"cannot connect to {os.environ['LAB_URL']}: {error}", file=sys.stderr)
            return CONNECT_FAILURE
        stopped = asyncio.ensure_future(self.stopping.wait())
        while socket:
            self.connection_id += 1
            self.capture.notes.append(("open", self.connection_id, None, None, time.monotonic_ns()))
            receiving = asyncio.ensure_future(self.library.receive(socket, self.take))
            await asyncio.wait({receiving, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not receiving.done():
                receiving.cancel()
                await self.library.close(socket)
                return DONE
            ended = receiving.result()
            from_ns = time.monotonic_ns()
            if ended.code == 1000:
                return DONE
            print(f"connection {self.connection_id} ended: {ended.text}", file=sys.stderr)
            self.capture.notes.append(("gap", self.connection_id, ended.reason, ended.code, from_ns))
            if os.environ["LAB_RECONNECT"] != "1":
                return PROTOCOL_ERROR if ended.reason == "protocol" else REMOTE_CLOSE
            socket = await self.reopen()
        return DONE if self.stopping.is_set() else CONNECT_FAILURE


def shake_hands() -> None:
    for line in sys.stdin:
        if line.strip() == "clock":
            print(f"clock {time.monotonic_ns()}", flush=True)
        elif line.strip() == "go":
            return
    sys.exit(USAGE)


async def main() -> int:
    sys.modules["connector"] = sys.modules["__main__"]  # what library.py imports from here
    sys.path.insert(0, str(Path(*sys.argv[1:2]).absolute()))
    import library

    try:
        receiver = Receiver(library)
    except (OSError, sqlite3.Error) as error:
        print(f"cannot write {os.environ['LAB_CAPTURE']}: {error}", file=sys.stderr)
        print(f"done {CAPTURE_ERROR} 0", flush=True)
        return CAPTURE_ERROR
    code = receiver.capture.finish(await receiver.run())
    print(f"done {code} {receiver.capture.received}", flush=True)
    return code


if __name__ == "__main__":
    missing = [name for name in NEEDED if "LAB_" + name not in os.environ]
    if missing or os.environ.get("LAB_BUSY_WAIT_NS"):
        print(f"wrong environment: LAB_{missing[0] if missing else 'BUSY_WAIT_NS'}", file=sys.stderr)
        sys.exit(USAGE)
    shake_hands()
    loops = importlib.import_module(sys.argv[2]) if len(sys.argv) > 2 else asyncio
    sys.exit(loops.run(main()))
