"""A connector of the latency laboratory with websockets (asyncio), by contracts/lab-connector.md."""

import asyncio
import os
import random
import signal
import sqlite3
import sys
import time

import websockets
from capture import Capture
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake

DONE, USAGE, REMOTE_CLOSE, CONNECT_FAILURE, PROTOCOL_ERROR, CAPTURE_ERROR = 0, 2, 3, 4, 5, 6
NEEDED = ("URL", "CAPTURE", "SCHEMA", "EXIT_FILE", "RUN", "CONNECTOR", "EXCHANGE", "ENVELOPE", "PAYLOAD", "RECONNECT")
PROTOCOL_CODES = (1002, 1003, 1007, 1009, 1010)
GIVE_UP_S = 10


class Receiver:
    def __init__(self) -> None:
        self.stopping = asyncio.Event()
        self.connection_id = 0
        self.has_envelope = os.environ["LAB_ENVELOPE"] == "text"
        self.keeps_payload = os.environ["LAB_PAYLOAD"] == "all"
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.stopping.set)
        stop = lambda: loop.call_soon_threadsafe(self.stopping.set)  # noqa: E731
        self.capture = Capture("websockets", websockets.__version__, stop)

    def take(self, message: str | bytes, received_ns: int) -> None:
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

    async def receive(self, socket: ClientConnection) -> None:
        while True:
            message = await socket.recv()
            self.take(message, time.monotonic_ns())

    async def open(self) -> ClientConnection:
        options = {"max_size": 16 << 20, "compression": None, "ping_interval": None, "close_timeout": 0.5}
        socket = await connect(os.environ["LAB_URL"], open_timeout=5, proxy=None, **options)
        if text := os.environ.get("LAB_SUBSCRIBE"):
            await socket.send(text)
        return socket

    async def reopen(self) -> ClientConnection | None:
        """Tries again for ten seconds, at once and then every 50 to 200 ms."""
        until = time.monotonic() + GIVE_UP_S
        while time.monotonic() < until and not self.stopping.is_set():
            try:
                return await self.open()
            except (OSError, InvalidHandshake, ConnectionClosed):
                await asyncio.sleep(random.uniform(0.05, 0.2))
        return None

    async def run(self) -> int:
        try:
            socket: ClientConnection | None = await self.open()
        except (OSError, InvalidHandshake, ConnectionClosed) as error:
            print(f"cannot connect to {os.environ['LAB_URL']}: {error}", file=sys.stderr)
            return CONNECT_FAILURE
        stopped = asyncio.ensure_future(self.stopping.wait())
        while socket:
            self.connection_id += 1
            self.capture.notes.append(("open", self.connection_id, None, None, time.monotonic_ns()))
            receiving = asyncio.ensure_future(self.receive(socket))
            await asyncio.wait({receiving, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if not receiving.done():
                receiving.cancel()
                await socket.close()
                return DONE
            closed = receiving.exception()
            from_ns = time.monotonic_ns()
            if not isinstance(closed, ConnectionClosed):
                raise closed or RuntimeError("receiving ended without a reason")
            reason, code, exit_code = verdict(closed)
            if code == 1000:
                return DONE
            print(f"connection {self.connection_id} ended: {closed}", file=sys.stderr)
            self.capture.notes.append(("gap", self.connection_id, reason, code, from_ns))
            if os.environ["LAB_RECONNECT"] != "1":
                return exit_code
            socket = await self.reopen()
        return DONE if self.stopping.is_set() else CONNECT_FAILURE


def verdict(closed: ConnectionClosed) -> tuple[str, int | None, int]:
    """Why a connection ended: the reason of the gap, the close code, the exit code."""
    if closed.rcvd and closed.rcvd_then_sent is not False:
        return "close", closed.rcvd.code, REMOTE_CLOSE
    if closed.sent and closed.sent.code in PROTOCOL_CODES:
        return "protocol", None, PROTOCOL_ERROR
    return "lost", None, REMOTE_CLOSE


def shake_hands() -> None:
    for line in sys.stdin:
        match line.strip():
            case "clock":
                print(f"clock {time.monotonic_ns()}", flush=True)
            case "go":
                return
    sys.exit(USAGE)


async def main() -> int:
    try:
        receiver = Receiver()
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
    sys.exit(asyncio.run(main()))
