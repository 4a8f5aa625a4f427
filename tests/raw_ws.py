"""WebSockets whose bytes a test writes itself, and servers to try them on."""

import base64
import json
import os
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from socket_reader import SocketReader
from venue import BINARY, TOP, Venue

PATIENCE_S = 60.0
CASES = TOP / "contracts/vectors/websocket/frames.json"
CONTINUATION, TEXT, BINARY_FRAME, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
OPCODES = {"continuation": 0, "text": 1, "binary": 2, "close": 8, "ping": 9, "pong": 10}
KEY = base64.b64encode(b"the same nonce!!").decode()


@dataclass
class Target:
    """A server under test: its address, the path of its WebSocket, and whether it echoes."""

    address: str
    path: str
    pid: int
    echoes: bool

    def connect(self) -> socket.socket:
        host, port = self.address.rsplit(":", 1)
        return socket.create_connection((host, int(port)), timeout=PATIENCE_S)

    def open(self, *headers: str) -> "RawWs":
        return RawWs(self, *headers)

    def rss_bytes(self) -> int:
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS"))

    def serves_on(self) -> None:
        """A well-behaved client is answered over HTTP and over a WebSocket."""
        with self.connect() as client:
            client.sendall(f"GET /healthz HTTP/1.1\r\nHost: {self.address}\r\nConnection: close\r\n\r\n".encode())
            assert read_all(client).startswith(b"HTTP/1.1 200")
        with self.open() as good:
            good.send(PING, b"still there?")
            assert good.until(PONG) == b"still there?"


class RawWs(SocketReader):
    """The client's side of one WebSocket."""

    def __init__(self, target: Target, *headers: str) -> None:
        super().__init__(target.connect())
        lines = [f"GET {target.path} HTTP/1.1", f"Host: {target.address}", "Upgrade: websocket", "Connection: Upgrade"]
        lines += [f"Sec-WebSocket-Key: {KEY}", "Sec-WebSocket-Version: 13", *headers, "", ""]
        self.socket.sendall("\r\n".join(lines).encode())
        self.head = self.read_head()
        assert self.head.startswith("HTTP/1.1 101"), self.head

    def send(self, opcode: int, payload: bytes = b"", **how: Any) -> None:
        self.socket.sendall(client_frame(opcode, payload, **how))

    def receive(self) -> tuple[int, bytes]:
        """The first byte of a frame, and its payload."""
        first, second = self._take(2)
        assert not second & 0x80, "a server does not mask"
        size = second & 0x7F
        if size >= 126:
            size = int.from_bytes(self._take(2 if size == 126 else 8), "big")
        return first, self._take(size)

    def until(self, opcode: int) -> bytes:
        """The payload of the next frame of a kind."""
        while True:
            first, payload = self.receive()
            if first & 15 == opcode:
                return payload
            assert first & 15 != CLOSE, payload

    def close_code(self) -> int | None:
        """Reads up to the close frame; `None` if the connection ends without one."""
        with suppress(EOFError, ConnectionError):
            while True:
                first, payload = self.receive()
                if first & 15 == CLOSE:
                    return int.from_bytes(payload[:2], "big") if payload else 0
        return None

    def __enter__(self) -> "RawWs":
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()


def masked(payload: bytes, mask: bytes) -> bytes:
    return bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))


def client_frame(
    opcode: int, payload: bytes = b"", *, fin: bool = True, rsv: int = 0, announce: int | None = None
) -> bytes:
    length = len(payload) if announce is None else announce
    head = bytes([fin << 7 | rsv << 4 | opcode]) + spelt(length, None, 0x80)
    mask = os.urandom(4)
    return head + mask + masked(payload, mask)


def spelt(length: int, how: str | None, mask_bit: int) -> bytes:
    if how is None and length < 126:
        return bytes([mask_bit | length])
    if how == "16" or (how is None and length < 65536):
        return bytes([mask_bit | 126]) + struct.pack(">H", length)
    return bytes([mask_bit | 127]) + struct.pack(">Q", length)


def cases() -> list[dict[str, Any]]:
    return json.loads(CASES.read_text())


def stream_of(case: dict[str, Any], sender: str) -> bytes:
    """Returns the bytes of a case's frames, as a client or a server sends them."""
    return b"".join(bytes_of(frame, sender) for frame in case["frames"])


def bytes_of(frame: dict[str, Any], sender: str) -> bytes:
    letter, times = frame.get("fill", ("", 0))
    payload = frame.get("text", "").encode() or bytes.fromhex(frame.get("hex", "")) or letter.encode() * times
    opcode = OPCODES.get(frame["op"], frame["op"])
    is_masked = (sender == "client") != (frame.get("mask") == "wrong")
    mask = bytes(4) if frame.get("mask") == "zero" else b"\x37\xfa\x21\x3d"
    length = frame.get("announce", len(payload))
    head = bytes([frame.get("fin", True) << 7 | frame.get("rsv", 0) << 4 | opcode])
    head += spelt(length, frame.get("length"), is_masked << 7)
    return (head + (mask + masked(payload, mask) if is_masked else payload)) * frame.get("times", 1)


def read_all(client: socket.socket) -> bytes:
    received = b""
    with suppress(ConnectionError):
        while part := client.recv(65536):
            received += part
    return received


@contextmanager
def venue_target(folder: Path) -> Iterator[Target]:
    """A venue without order flow, so that only its peers change its memory use."""
    with Venue(folder / "data", extra=["--no-flow"]) as venue:
        assert venue.process is not None
        yield Target(venue.address, "/ws/api/v2", venue.process.pid, echoes=False)
        assert venue.alive(), venue.log_tail()


@contextmanager
def publisher_target(folder: Path) -> Iterator[Target]:
    ready, log = folder / "ready.json", folder / "log"
    command = [BINARY, "publish", "--listen", "127.0.0.1:0", "--echo", "--deflate", "--ready-file", ready]
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        while not ready.exists():
            assert process.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.01)
        yield Target(json.loads(ready.read_text())["http"], "/", process.pid, echoes=True)
        assert process.poll() is None, log.read_text()
    finally:
        process.kill()
        process.wait()


TARGETS = {"up": venue_target, "publish": publisher_target}
