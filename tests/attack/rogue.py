"""Hostile peers: a NATS server, a WebSocket server and a venue that break the rules."""

import base64
import hashlib
import json
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any

from websockets.sync.server import Server, ServerConnection, serve

INFO = b'INFO {"server_id":"x","version":"2.15.1","proto":1,"max_payload":67108864,"port":1}\r\n'
WEBSOCKET_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


class RogueListener:
    """A TCP server that gives each connection to a function, on a thread for each."""

    def __init__(self, attend: Callable[[socket.socket], None]) -> None:
        self.attend = attend
        # The times at which clients connected, by the monotonic clock.
        self.arrivals: list[float] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:" + str(self.listener.getsockname()[1])
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                self.arrivals.append(time.monotonic())
                threading.Thread(target=self._serve, args=[client], daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client, suppress(OSError):
            self.attend(client)

    def __enter__(self) -> "RogueListener":
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        # Closing alone would not wake the thread that accepts.
        with suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()


def read_to_end(client: socket.socket) -> None:
    """Drops the bytes of a client until it closes the connection."""
    while client.recv(65536):
        pass


def read_until(client: socket.socket, end: bytes) -> bytes:
    received = b""
    while end not in received:
        part = client.recv(65536)
        if not part:
            raise ConnectionError(received)
        received += part
    return received


def greet(client: socket.socket) -> bytes:
    """The handshake of a NATS server. Returns the bytes from the client."""
    client.sendall(INFO)
    received = read_until(client, b"PING\r\n")
    client.sendall(b"PONG\r\n")
    return received


def greet_subscriber(client: socket.socket) -> bytes:
    """The handshake, and the subscription. Returns its number."""
    greet(client)
    received = read_until(client, b"SUB ")
    while not received.endswith(b"\r\n"):
        received += client.recv(65536)
    number = next(line for line in received.split(b"\r\n") if line.startswith(b"SUB ")).split()[-1]
    client.sendall(b"PONG\r\n")
    return number


def upgrade(client: socket.socket) -> None:
    """The handshake of a WebSocket server."""
    head = read_until(client, b"\r\n\r\n")
    key = next(line for line in head.split(b"\r\n") if line.lower().startswith(b"sec-websocket-key:"))
    accept = base64.b64encode(hashlib.sha1(key.split(b":")[1].strip() + WEBSOCKET_GUID).digest())
    client.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n")
    client.sendall(b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n")


class RogueVenue:
    """A venue of the dialect with prepared results or errors by method; other calls get "ok"."""

    def __init__(self, results: dict[str, Any], errors: dict[str, Any] | None = None) -> None:
        self.results, self.errors = results, errors or {}

    def _answer(self, connection: ServerConnection) -> None:
        for message in connection:
            request = json.loads(message)
            method, number = request["method"], request["id"]
            if method in self.errors:
                body = {"error": self.errors[method]}
            else:
                body = {"result": self.results.get(method, "ok")}
            # Control characters of C1 and DEL stand unescaped in JSON.
            connection.send(json.dumps({"jsonrpc": "2.0", "id": number} | body, ensure_ascii=False))

    def __enter__(self) -> "RogueVenue":
        self.server: Server = serve(self._answer, "127.0.0.1", 0, compression=None, max_size=None)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.url = f"ws://127.0.0.1:{self.server.socket.getsockname()[1]}/ws/api/v2"
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.server.shutdown()
