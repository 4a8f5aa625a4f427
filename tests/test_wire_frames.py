"""Bytes that no well-behaved client sends, and plain HTTP requests. The venue survives all of
them."""

import base64
import contextlib
import json
import os
import re
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rpc import Http
from venue import DEMO_A, Venue

TEXT, BINARY, CONTINUATION, CLOSE, PING, PONG = 1, 2, 0, 8, 9, 10
REQUEST = b'{"jsonrpc":"2.0","id":1,"method":"public/test"}'
LARGEST = 32 * 1024


class RawWs:
    """A WebSocket whose frames the test writes itself."""

    def __init__(self, address: str, path: str = "/ws/api/v2") -> None:
        self.socket = connect(address)
        key = base64.b64encode(os.urandom(16)).decode()
        lines = [f"GET {path} HTTP/1.1", f"Host: {address}", "Upgrade: websocket", "Connection: Upgrade"]
        lines += [f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", "", ""]
        self.socket.sendall("\r\n".join(lines).encode())
        head = b""
        while b"\r\n\r\n" not in head:
            head += self.socket.recv(1)
        assert head.startswith(b"HTTP/1.1 101"), head

    def send(self, opcode: int, payload: bytes, final: bool = True, masked: bool = True, reserved: int = 0) -> None:
        self.socket.sendall(frame(opcode, payload, final, masked, reserved))

    def receive(self) -> tuple[int, bytes]:
        first, second = self._exactly(2)
        length = second & 0x7F
        if length == 126:
            (length,) = struct.unpack(">H", self._exactly(2))
        elif length == 127:
            (length,) = struct.unpack(">Q", self._exactly(8))
        assert not second & 0x80, "a server does not mask"
        return first & 0x0F, self._exactly(length)

    def close_code(self) -> int | None:
        """Reads up to the close frame; `None` if the connection ends without one."""
        try:
            while True:
                opcode, payload = self.receive()
                if opcode == CLOSE:
                    return struct.unpack(">H", payload[:2])[0] if payload else None
        except (EOFError, ConnectionError):
            return None

    def answer(self) -> dict[str, object]:
        opcode, payload = self.receive()
        assert opcode == TEXT, (opcode, payload)
        return json.loads(payload)

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self.socket.recv(count - len(data))
            if not part:
                raise EOFError
            data += part
        return data


def frame(opcode: int, payload: bytes, final: bool = True, masked: bool = True, reserved: int = 0) -> bytes:
    head = bytes([(0x80 if final else 0) | reserved << 4 | opcode])
    mask_bit = 0x80 if masked else 0
    if len(payload) < 126:
        head += bytes([mask_bit | len(payload)])
    elif len(payload) < 65536:
        head += bytes([mask_bit | 126]) + struct.pack(">H", len(payload))
    else:
        head += bytes([mask_bit | 127]) + struct.pack(">Q", len(payload))
    if not masked:
        return head + payload
    mask = os.urandom(4)
    return head + mask + bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))


def connect(address: str) -> socket.socket:
    host, port = address.rsplit(":", 1)
    return socket.create_connection((host, int(port)), timeout=60)


def padded(size: int) -> bytes:
    """A valid request of exactly this many bytes."""
    start, end = b'{"jsonrpc":"2.0","id":1,"method":"public/test","params":{"pad":"', b'"}}'
    return start + b"x" * (size - len(start) - len(end)) + end


@pytest.fixture
def raw(venue: Venue) -> Iterator[RawWs]:
    client = RawWs(venue.address)
    yield client
    client.socket.close()


def test_the_largest_message_passes_and_one_byte_more_closes_1009(raw: RawWs) -> None:
    raw.send(TEXT, padded(LARGEST))
    assert "result" in raw.answer()
    raw.send(TEXT, padded(LARGEST + 1))
    assert raw.close_code() == 1009


def test_huge_announced_frame_length_closes_1009(raw: RawWs) -> None:
    raw.socket.sendall(bytes([0x80 | TEXT, 0x80 | 127]) + struct.pack(">Q", 1 << 40) + os.urandom(4))
    assert raw.close_code() == 1009


def test_fragments_that_add_up_to_too_much_close_1009(raw: RawWs) -> None:
    raw.send(TEXT, b"x" * 20_000, final=False)
    raw.send(CONTINUATION, b"x" * 20_000)
    assert raw.close_code() == 1009


def test_a_fragmented_message_is_one_message(raw: RawWs) -> None:
    raw.send(TEXT, REQUEST[:10], final=False)
    raw.send(CONTINUATION, REQUEST[10:11], final=False)
    raw.send(PING, b"in between")
    raw.send(CONTINUATION, b"", final=False)
    raw.send(CONTINUATION, REQUEST[11:])
    assert raw.receive() == (PONG, b"in between")
    assert "result" in raw.answer()


def test_a_message_that_arrives_byte_by_byte_is_one_message(raw: RawWs) -> None:
    for byte in frame(TEXT, REQUEST):
        raw.socket.sendall(bytes([byte]))
    assert "result" in raw.answer()


def test_many_messages_in_one_packet_are_all_answered(raw: RawWs) -> None:
    raw.socket.sendall(frame(TEXT, REQUEST) * 100)
    assert all("result" in raw.answer() for _ in range(100))


def test_a_binary_frame_is_answered_or_refused_with_1003(raw: RawWs) -> None:
    raw.send(BINARY, REQUEST)
    opcode, payload = raw.receive()
    assert (opcode == TEXT and b'"result"' in payload) or (opcode, payload[:2]) == (CLOSE, struct.pack(">H", 1003))


def test_a_ping_is_answered_with_its_payload_and_a_stray_pong_is_ignored(raw: RawWs) -> None:
    for payload in (b"", b"x" * 125):
        raw.send(PONG, b"unsolicited")
        raw.send(PING, payload)
        assert raw.receive() == (PONG, payload)


def test_a_close_is_answered_with_a_close(raw: RawWs) -> None:
    raw.send(CLOSE, struct.pack(">H", 1000) + b"bye")
    assert raw.close_code() == 1000


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (frame(TEXT, REQUEST, masked=False), 1002),
        (frame(TEXT, REQUEST, reserved=4), 1002),
        (frame(3, b"reserved opcode"), 1002),
        (frame(CONTINUATION, b"of nothing"), 1002),
        (frame(TEXT, b"a", final=False) + frame(TEXT, b"b"), 1002),
        (frame(PING, b"x" * 126), 1002),
        (frame(PING, b"", final=False), 1002),
        (frame(TEXT, b"\xff\xfe"), 1007),
        (frame(CLOSE, b"x"), 1002),
        (frame(TEXT, b"", final=False) * 100, None),
    ],
    # The masks of frames are random; the names of tests must not be.
    ids=[
        "unmasked",
        "reserved-bit",
        "reserved-opcode",
        "continuation-of-nothing",
        "message-within-message",
        "long-ping",
        "fragmented-ping",
        "not-utf8",
        "close-of-one-byte",
        "fragments-without-end",
    ],
)
def test_a_broken_protocol_is_closed_with_its_code(raw: RawWs, wrong: bytes, code: int | None) -> None:
    raw.socket.sendall(wrong)
    closed = raw.close_code()
    assert closed == code if code else closed in (1002, 1008, 1009)


def test_a_fragmented_message_that_never_ends_is_closed(raw: RawWs) -> None:
    raw.send(TEXT, b"{", final=False)
    started = time.monotonic()
    raw.close_code()
    assert time.monotonic() - started < 30, "five seconds to finish, and some patience"


# Handshakes


def test_half_open_handshakes_are_ended_within_seconds(venue: Venue) -> None:
    halves = [b"", b"GET ", b"GET /ws/api/v2 HTTP/1.1\r\nHost: x\r\n"]
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(venue.address)) for _ in halves]
        started = time.monotonic()
        for client, half in zip(clients, halves, strict=True):
            client.sendall(half)
        for client, half in zip(clients, halves, strict=True):
            while client.recv(4096):
                pass
            assert time.monotonic() - started < 30, f"five seconds to finish {half!r}, and some patience"


@pytest.mark.parametrize(
    "change",
    [
        {"Sec-WebSocket-Key": None},
        {"Sec-WebSocket-Key": "short"},
        {"Sec-WebSocket-Version": "8"},
        {"Connection": "close"},
        {"Origin": "https://evil.example"},
        {"Host": "evil.example"},
    ],
)
def test_a_bad_handshake_is_refused(venue: Venue, change: dict[str, str | None]) -> None:
    good = {"Host": venue.address, "Upgrade": "websocket", "Connection": "Upgrade"}
    good |= {"Sec-WebSocket-Key": base64.b64encode(b"x" * 16).decode(), "Sec-WebSocket-Version": "13"}
    headers = {name: value for name, value in (good | change).items() if value is not None}
    with connect(venue.address) as client:
        lines = ["GET /ws/api/v2 HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
        client.sendall("\r\n".join(lines).encode())
        status = client.recv(4096).split(b"\r\n")[0]
    assert re.match(rb"HTTP/1\.1 4\d\d", status), status


@pytest.mark.parametrize(
    "head",
    [
        b"nonsense\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"a" * 20_000 + b"\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"".join(b"X%d: y\r\n" % number for number in range(100)) + b"\r\n",
        b"POST /api/v2 HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n",
        b"POST /api/v2 HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /api/v2 HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    ],
)
def test_bad_http_is_refused_not_served(venue: Venue, head: bytes) -> None:
    with connect(venue.address) as client:
        client.sendall(head)
        try:
            status = client.recv(4096).split(b"\r\n")[0]
        except ConnectionError:
            status = b""
    assert status == b"" or re.match(rb"HTTP/1\.[01] [45]\d\d", status), status


def test_pipelined_requests_are_answered_in_order(venue: Venue) -> None:
    paths = ["/healthz", "/api/v2/public/test", "/no/such/path"] * 5
    lines = [f"GET {path} HTTP/1.1\r\nHost: {venue.address}\r\n" for path in paths]
    with connect(venue.address) as client:
        client.sendall(("\r\n".join(lines) + "Connection: close\r\n\r\n").encode())
        received = b""
        while part := client.recv(65536):
            received += part
    statuses = re.findall(rb"HTTP/1\.1 (\d+)", received)
    assert statuses == [b"200", b"200", b"404"] * 5


# Paths


@pytest.mark.parametrize(
    "path", ["/no/such/path", "/api/v2x/public/test", "/api", "/../etc/passwd", "/%2e%2e/x", "/wss/no"]
)
def test_an_unknown_path_is_404_in_json(venue: Venue, path: str) -> None:
    reply = Http(venue.address).get(path)
    assert reply.status == 404
    assert reply.headers["content-type"].startswith("application/json")
    assert reply.json()["error"]["message"]


def test_a_streams_path_without_a_handshake_explains_itself(venue: Venue) -> None:
    reply = Http(venue.address).get("/ws/npnzar@trade")
    assert reply.status == 426 and b"WebSocket" in reply.body


def test_healthz(venue: Venue) -> None:
    assert Http(venue.address).get("/healthz").status == 200


def test_metrics_are_prometheus_text(venue: Venue) -> None:
    reply = Http(venue.address).get("/metrics")
    assert reply.status == 200 and reply.headers["content-type"].startswith("text/plain")
    sample = re.compile(
        r'^[a-zA-Z_:][\w:]*(\{(\w+="([^"\\\n]|\\.)*",?)*\})? (-?[\d.]+([eE][+-]?\d+)?|NaN|[+-]Inf)( \d+)?$'
    )
    lines = reply.body.decode().splitlines()
    samples = [line for line in lines if line and not line.startswith("#")]
    assert samples and all(sample.match(line) for line in samples), [line for line in samples if not sample.match(line)]
    names = {re.split(r"[{ ]", line)[0] for line in samples}
    typed = {line.split()[2] for line in lines if line.startswith("# TYPE ")}
    suffixes = re.compile(r"_(bucket|sum|count)$")
    assert all(name in typed or suffixes.sub("", name) in typed for name in names)
    assert any(name.startswith("pitwire_") for name in names)


def test_metrics_do_not_reveal_a_hidden_order(data: Path) -> None:
    names = ("live_orders", "orders_total", "events_total", "trades_total", "open_channels")
    with Venue(data, extra=["--no-flow"]) as venue:
        member = Http(venue.address, DEMO_A)
        order = {"instrument_name": "NPN_ZAR", "amount": 5, "price": 2900}

        def counted() -> list[str]:
            lines = Http(venue.address).get("/metrics").body.decode().splitlines()
            return [line for line in lines if line.startswith(tuple(f"pitwire_{name} " for name in names))]

        before = counted()
        assert len(before) == len(names)
        hidden = member.result("private/buy", order | {"hidden": True, "min_execution": 5})["order"]
        assert hidden["order_state"] == "open"
        assert counted() == before
        member.result("private/buy", order)
        assert counted() != before


def test_the_page_is_served_with_everything_it_names(venue: Venue) -> None:
    http = Http(venue.address)
    page = http.get("/")
    assert page.status == 200 and page.headers["content-type"].startswith("text/html")
    named = re.findall(r'(?:src|href)="\.?(/[^"]+)"', page.body.decode())
    assert named, "the page names its script and its style"
    for path in named:
        assert http.get(path).status == 200, path


def test_head_and_options_are_answered(venue: Venue) -> None:
    http = Http(venue.address)
    assert http.request("HEAD", "/healthz").status in (200, 405)
    assert http.request("OPTIONS", "/api/v2/public/test").status in (200, 204)
    assert http.request("DELETE", "/api/v2/public/test").status in (400, 404, 405)
