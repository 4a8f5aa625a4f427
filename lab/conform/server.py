"""A WebSocket server that sends exactly the frames that a check wants, valid or not."""

import base64
import hashlib
import socket
import ssl
import struct
import subprocess
import time
import zlib
from dataclasses import dataclass
from pathlib import Path

GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
DEFLATE = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
DEFLATE_TAIL = b"\x00\x00\xff\xff"
COMPRESSED = 4  # the reserved bit of a compressed message


class PeerGone(Exception):
    """The connector closed the connection, or did not answer in time."""


@dataclass
class Frame:
    opcode: int
    payload: bytes

    @property
    def close_code(self) -> int | None:
        return struct.unpack("!H", self.payload[:2])[0] if self.opcode == CLOSE and len(self.payload) > 1 else None


def frame(opcode: int, payload: bytes, *, fin: bool = True, reserved: int = 0, mask: bytes = b"") -> bytes:
    """One frame. Servers must not mask; a check may."""
    length = len(payload)
    masked = 0x80 if mask else 0
    if length < 126:
        lengths = struct.pack("!B", masked | length)
    elif length < 1 << 16:
        lengths = struct.pack("!BH", masked | 126, length)
    else:
        lengths = struct.pack("!BQ", masked | 127, length)
    if mask:
        payload = bytes(byte ^ mask[at % 4] for at, byte in enumerate(payload))
    return bytes([fin << 7 | reserved << 4 | opcode]) + lengths + mask + payload


def close_frame(code: int) -> bytes:
    return frame(CLOSE, struct.pack("!H", code))


def deflated(payload: bytes, stored: int = 0) -> bytes:
    """The payload of a compressed message. Its first bytes are a stored block, as the feed does."""
    block = b"\x00" + struct.pack("<HH", stored, stored ^ 0xFFFF) + payload[:stored] if stored else b""
    compressor = zlib.compressobj(6, zlib.DEFLATED, -15)
    rest = compressor.compress(payload[stored:]) + compressor.flush(zlib.Z_SYNC_FLUSH)
    return block + rest.removesuffix(DEFLATE_TAIL)


def envelope(sequence: int, due_ns: int, sent_ns: int, connection: int = 1) -> str:
    """The envelope of contracts/lab-connector.md, without the rest of the object."""
    return f'{{"seq":"{sequence:019}","due_ns":"{due_ns:019}","sent_ns":"{sent_ns:019}","conn":"{connection:06}",'


class Peer:
    """One connection of the connector, after the opening handshake."""

    def __init__(self, connection: socket.socket, seconds: float, compresses: bool = False) -> None:
        self.socket = connection
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(seconds)
        self._received = bytearray()
        head = self._until(b"\r\n\r\n").decode("latin-1")
        request, *lines = head.split("\r\n")
        self.target = request.split(" ")[1]
        self.headers = {name.strip().lower(): value.strip() for name, _, value in (l.partition(":") for l in lines)}
        key = self.headers["sec-websocket-key"].encode()
        accept = base64.b64encode(hashlib.sha1(key + GUID).digest()).decode()
        self.send(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            + (f"Sec-WebSocket-Extensions: {DEFLATE}\r\n".encode() if compresses else b"")
            + f"Sec-WebSocket-Accept: {accept}\r\n\r\n".encode()
        )

    def send(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except OSError as error:
            raise PeerGone(f"the connector does not read: {error}") from error

    def text(self, message: str | bytes) -> None:
        self.send(frame(TEXT, message.encode() if isinstance(message, str) else message))

    def receive(self) -> Frame:
        """The next frame of the connector."""
        first, second = self._take(2)
        length = second & 0x7F
        if length == 126:
            (length,) = struct.unpack("!H", self._take(2))
        elif length == 127:
            (length,) = struct.unpack("!Q", self._take(8))
        if not second & 0x80:
            raise PeerGone("the connector sent a frame without a mask")
        mask = self._take(4)
        payload = bytes(byte ^ mask[at % 4] for at, byte in enumerate(self._take(length)))
        if first >> 4 & COMPRESSED:
            payload = zlib.decompressobj(-15).decompress(payload + DEFLATE_TAIL)
        return Frame(first & 0x0F, payload)

    def receive_until(self, opcode: int) -> Frame:
        while (received := self.receive()).opcode != opcode:
            pass
        return received

    def barrier(self) -> None:
        """Waits until the connector has read everything before."""
        self.send(frame(PING, b"barrier"))
        while self.receive_until(PONG).payload != b"barrier":
            pass

    def finish(self, code: int = 1000) -> None:
        """Closes the connection as a server does, and waits for the connector's side."""
        self.send(close_frame(code))
        self.drain()

    def drain(self, seconds: float = 5) -> int | None:
        """Reads until the connector ends the connection. Returns the code of its close frame."""
        code = None
        self.socket.settimeout(seconds)
        try:
            while True:
                received = self.receive()
                if received.opcode == CLOSE:
                    code = received.close_code
        except PeerGone:
            self.socket.close()
            return code

    def reset(self) -> None:
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def _until(self, end: bytes) -> bytes:
        while end not in self._received:
            self._fill()
        head, _, rest = bytes(self._received).partition(end)
        self._received = bytearray(rest)
        return head

    def _take(self, count: int) -> bytes:
        while len(self._received) < count:
            self._fill()
        taken = bytes(self._received[:count])
        del self._received[:count]
        return taken

    def _fill(self) -> None:
        try:
            data = self.socket.recv(65536)
        except OSError as error:
            raise PeerGone(str(error)) from error
        if not data:
            raise PeerGone("the connector ended the connection")
        self._received += data


class Server:
    """A listener on a free port of the loopback interface, with TLS if there are settings for
    it."""

    def __init__(self, settings: ssl.SSLContext | None = None, compresses: bool = False) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.settings = settings
        self.compresses = compresses
        self.url = f"{'wss' if settings else 'ws'}://127.0.0.1:{self.port}/stream?name=conformance"

    def accept(self, seconds: float = 30) -> Peer:
        self.listener.settimeout(seconds)
        try:
            connection, _ = self.listener.accept()
            connection.settimeout(seconds)
            if self.settings:
                connection = self.settings.wrap_socket(connection, server_side=True)
        except OSError as error:
            raise PeerGone(f"the connector did not connect: {error}") from error
        return Peer(connection, seconds, self.compresses)

    def close(self) -> None:
        self.listener.close()

    def reopen(self) -> None:
        self.listener = socket.create_server(("127.0.0.1", self.port))


def certificate(folder: Path) -> tuple[Path, Path]:
    """Makes a certificate for 127.0.0.1 that signs itself. Returns its file and the file of its
    key."""
    folder.mkdir()
    key, certificate = folder / "key.pem", folder / "certificate.pem"
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    command += ["-days", "2", "-subj", "/CN=conformance", "-addext", "subjectAltName=IP:127.0.0.1"]
    # Without a CA flag: rustls refuses an authority as the certificate of a server.
    command += ["-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(certificate)], check=True, capture_output=True)
    return certificate, key


def send_at_rate(peer: Peer, per_s: int, count: int, length: int) -> float:
    """Sends enveloped messages of `length` bytes on schedule. Returns the seconds it took."""
    filler = '"x":"' + "x" * (length - 108 - 7) + '"}'
    per_block = max(per_s // 200, 1)
    start_ns = time.monotonic_ns() + 50_000_000
    for first in range(0, count, per_block):
        numbers = range(first, min(first + per_block, count))
        due_ns = start_ns + (first + per_block) * 1_000_000_000 // per_s
        # The block is built before it is due, so that building costs no lateness.
        block = b"".join(
            frame(TEXT, (envelope(n + 1, start_ns + n * 1_000_000_000 // per_s, due_ns) + filler).encode())
            for n in numbers
        )
        wait_ns = due_ns - time.monotonic_ns()
        if wait_ns > 0:
            time.sleep(wait_ns / 1e9)
        peer.send(block)
    return (time.monotonic_ns() - start_ns) / 1e9
