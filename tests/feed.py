"""A feed server on raw sockets that sends exactly the bytes that a test wants, well-formed or
not."""

import base64
import hashlib
import json
import socket
import struct
import subprocess
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from socket_reader import SocketReader
from venue import BINARY

PATIENCE_S = 60.0
GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
CONTINUATION, TEXT, BINARY_FRAME, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10


@contextmanager
def endless_tape(ready: Path, per_s: int) -> Iterator[str]:
    """The URL of a `pitwire tape` that runs until the test ends."""
    options = ["--listen", "127.0.0.1:0", "--ready-file", ready, "--synthetic", "--rate", str(per_s)]
    process = subprocess.Popen(
        [BINARY, "tape", "serve", *options], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        deadline = time.monotonic() + 60
        while not ready.exists():
            assert process.poll() is None and time.monotonic() < deadline, "no tape"
            time.sleep(0.01)
        yield f"ws://{json.loads(ready.read_text())['http']}/"
    finally:
        process.kill()
        process.wait()


def frame(
    opcode: int, payload: bytes, *, fin: bool = True, length: bytes | None = None, first: int | None = None
) -> bytes:
    """A server's frame; `length` and `first` replace the correct bytes."""
    if length is None:
        if len(payload) < 126:
            length = bytes([len(payload)])
        elif len(payload) < 65536:
            length = b"\x7e" + struct.pack(">H", len(payload))
        else:
            length = b"\x7f" + struct.pack(">Q", len(payload))
    return bytes([first if first is not None else (0x80 if fin else 0) | opcode]) + length + payload


class Trades:
    """Trades with a number per symbol, as the tape sends them."""

    def __init__(self) -> None:
        self.sent: dict[str, int] = defaultdict(int)

    def one(self, symbol: str) -> bytes:
        self.sent[symbol] += 1
        return b'{"ev":"T","sym":"%s","i":"%012d","x":4,"p":114.125,"s":100,"c":[37],"t":1536036818784,"z":3}' % (
            symbol.encode(),
            self.sent[symbol],
        )

    def array(self, symbols: Iterable[str]) -> bytes:
        return b"[" + b",".join(self.one(symbol) for symbol in symbols) + b"]"

    def frame(self, symbols: Iterable[str]) -> bytes:
        return frame(TEXT, self.array(symbols))


class Peer(SocketReader):
    """The server's side of one connection."""

    def __init__(self, connection: socket.socket) -> None:
        super().__init__(connection)
        self.request = ""

    def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.socket.sendall(piece)

    def read_request(self) -> dict[str, str]:
        self.request, *lines = self.read_head().split("\r\n")
        return {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}

    def shake_hands(self, behind: bytes = b"") -> dict[str, str]:
        """Sends the handshake's answer and, in the same segment, the first bytes of the feed."""
        headers = self.read_request()
        accept = base64.b64encode(hashlib.sha1(headers["sec-websocket-key"].encode() + GUID).digest())
        self.send(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n" + behind
        )
        return headers

    def read_frame(self) -> tuple[int, bytes, bytes]:
        """Returns opcode, unmasked payload and mask."""
        first, second = self._take(2)
        assert first & 0x80 and not first & 0x70, "a client's frames here are whole and plain"
        assert second & 0x80, "a client's frames are masked"
        size = second & 0x7F
        if size >= 126:
            size = int.from_bytes(self._take(2 if size == 126 else 8), "big")
        mask = self._take(4)
        payload = bytes(byte ^ mask[index % 4] for index, byte in enumerate(self._take(size)))
        return first & 15, payload, mask

    def read_close(self) -> int | None:
        """Reads up to the client's close frame and returns its code."""
        while True:
            opcode, payload, _ = self.read_frame()
            if opcode == CLOSE:
                return int.from_bytes(payload[:2], "big") if payload else None


@dataclass
class Feed:
    """Serves one connection after another with `serve(peer, number)`. Its exceptions are raised at
    the end."""

    serve: Callable[[Peer, int], None]
    wrap: Callable[[socket.socket], socket.socket] | None = None
    connections: int = 0
    errors: list[BaseException] = field(default_factory=list)

    def __enter__(self) -> "Feed":
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        return self

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/feed"

    def _run(self) -> None:
        while True:
            try:
                sock, _ = self.listener.accept()
            except OSError:
                return
            self.connections += 1
            sock.settimeout(PATIENCE_S)
            try:
                if self.wrap is not None:
                    sock = self.wrap(sock)
                self.serve(Peer(sock), self.connections)
            except (EOFError, ConnectionError, BrokenPipeError):
                pass
            except OSError as error:
                if self.wrap is None:
                    self.errors.append(error)
            except BaseException as error:
                self.errors.append(error)
            finally:
                with suppress(OSError):
                    sock.close()

    def __exit__(self, kind: type[BaseException] | None, _: BaseException | None, __: TracebackType | None) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join(PATIENCE_S)
        if kind is None and self.errors:
            raise self.errors[0]


def split_command(url: str, *args: str | Path, workers: int = 4) -> list[str]:
    return [str(part) for part in (BINARY, "split", url, "--workers", str(workers), *args)]


def split(url: str, *args: str | Path, workers: int = 4, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
    command = split_command(url, *args, workers=workers)
    return subprocess.run(
        command, capture_output=True, text=True, timeout=timeout_s, check=False, stdin=subprocess.DEVNULL
    )


def summary(ended: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """Returns the one JSON object on standard output."""
    assert ended.stdout, ended.stderr
    return json.loads(ended.stdout)


def records(data: bytes) -> list[bytes]:
    """Returns the content of a worker's pipe."""
    found = []
    while data:
        size = int.from_bytes(data[:4], "little")
        assert len(data) >= 4 + size, "a record is cut"
        found.append(data[4 : 4 + size])
        data = data[4 + size :]
    return found
