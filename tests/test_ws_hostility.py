"""Hostile peers of the venue and the publisher: refused with a reason, bounded in memory, harmless
to others."""

import json
import re
import socket
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress

import pytest
from raw_ws import (
    BINARY_FRAME,
    CLOSE,
    CONTINUATION,
    KEY,
    PING,
    PONG,
    TARGETS,
    TEXT,
    RawWs,
    Target,
    client_frame,
    read_all,
)

MIB = 1 << 20
# Memory that a flood may cost; without a limit each one would cost many times that.
MOST_BYTES = 24 * MIB
DEFLATE = "Sec-WebSocket-Extensions: permessage-deflate"


@pytest.fixture(scope="module", params=list(TARGETS))
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with TARGETS[request.param](tmp_path_factory.mktemp(request.param)) as running:
        running.serves_on()
        yield running
        running.serves_on()


def flood(client: RawWs, piece: bytes, times: int, patience_s: float = 0.7) -> int:
    """Sends without reading until the server accepts no more; returns how often the piece was
    taken."""
    client.socket.settimeout(patience_s)
    taken = 0
    with suppress(OSError):
        while taken < times:
            client.socket.sendall(piece)
            taken += 1
    client.socket.settimeout(20)
    return taken


@pytest.mark.attack("hostile WebSocket frames")
def test_a_flood_of_tiny_fragments_ends_early(target: Target) -> None:
    before = target.rss_bytes()
    with target.open() as client:
        client.send(TEXT, b"x", fin=False)
        taken = flood(client, client_frame(CONTINUATION, b"x", fin=False) * 1000, 131)
        assert client.close_code() in (1008, None)
        assert taken < 131 or client.close_code() is None
    with target.open() as client:
        client.socket.sendall(client_frame(TEXT, b"x", fin=False) + client_frame(CONTINUATION, b"x", fin=False) * 64)
        assert client.close_code() == 1008
    assert target.rss_bytes() - before < MOST_BYTES


@pytest.mark.attack("hostile WebSocket frames")
@pytest.mark.parametrize(
    ("announced", "code"), [(1 << 63, 1002), ((1 << 63) - 1, 1009), (1 << 40, 1009), (65536, 1009)]
)
def test_announced_length_alone_allocates_nothing(target: Target, announced: int, code: int) -> None:
    before = target.rss_bytes()
    for _ in range(20):
        with target.open() as client:
            client.send(BINARY_FRAME, announce=announced)
            assert client.close_code() == code
    assert target.rss_bytes() - before < MOST_BYTES


@pytest.mark.attack("hostile WebSocket frames")
def test_a_flood_of_pings_with_unread_answers_waits(target: Target) -> None:
    before = target.rss_bytes()
    with target.open() as client:
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        flood(client, client_frame(PING, b"p" * 125) * 100, 20_000)
        target.serves_on()
        assert target.rss_bytes() - before < MOST_BYTES
        # Answered or closed: both are right. Every answer is complete and in order.
        with suppress(EOFError, ConnectionError):
            for _ in range(100):
                first, payload = client.receive()
                assert (first & 15, payload) == (PONG, b"p" * 125) or first & 15 == CLOSE


@pytest.mark.attack("hostile WebSocket frames")
def test_flood_of_pongs_and_empty_fragments_delays_no_other_client(target: Target) -> None:
    before = target.rss_bytes()
    with target.open() as client:
        flood(client, client_frame(PONG, b"x") * 1000, 100)
        target.serves_on()
        client.send(PING, b"and now?")
        assert client.until(PONG) == b"and now?"
    assert target.rss_bytes() - before < MOST_BYTES


@pytest.mark.attack("hostile WebSocket frames")
def test_a_decompression_bomb_is_cut_while_it_is_small(target: Target) -> None:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = (packer.compress(bytes(10 * MIB)) + packer.flush(zlib.Z_SYNC_FLUSH))[:-4]
    assert len(bomb) < 32 * 1024
    before = target.rss_bytes()
    for _ in range(20):
        with target.open(DEFLATE) as client:
            is_agreed = "sec-websocket-extensions: permessage-deflate" in client.head.lower()
            client.send(BINARY_FRAME, bomb, rsv=4)
            assert client.close_code() == (1009 if is_agreed else 1002)
    assert target.rss_bytes() - before < MOST_BYTES


@pytest.mark.attack("connections that send a byte at a time")
def test_thousand_slow_senders_are_closed_and_others_are_served(target: Target) -> None:
    head = f"GET {target.path} HTTP/1.1\r\nHost: {target.address}\r\nX: ".encode()
    begun = [client_frame(TEXT, b"{" * 100)[:20], client_frame(TEXT, b"{", fin=False)]
    handshakes = [target.connect() for _ in range(500)]
    bodies = [target.connect() for _ in range(20)]
    frames = [target.open() for _ in range(20)]
    for client in handshakes:
        client.sendall(head)
    for client in bodies:
        client.sendall(f"POST / HTTP/1.1\r\nHost: {target.address}\r\nContent-Length: 100\r\n\r\n".encode())
    for number, client in enumerate(frames):
        client.socket.sendall(begun[number % 2])
    target.serves_on()
    dripping = [*handshakes, *bodies, *(client.socket for client in frames)]
    ended: set[int] = set()
    deadline = time.monotonic() + 60
    while len(ended) < len(dripping) and time.monotonic() < deadline:
        for number, client in enumerate(dripping):
            if number not in ended and not dripped(client):
                ended.add(number)
        time.sleep(0.2)
    left = len(dripping) - len(ended)
    for client in dripping:
        client.close()
    assert left == 0, "five seconds to finish a handshake, a body or a message, however they drip"


def dripped(client: socket.socket) -> bool:
    """Sends one more byte and returns whether the connection is still open."""
    client.setblocking(False)
    try:
        while client.recv(65536):
            pass
        return False
    except BlockingIOError:
        pass
    except OSError:
        return False
    try:
        client.send(b"x")
    except BlockingIOError:
        pass
    except OSError:
        return False
    return True


def test_requests_before_a_half_close_are_answered(target: Target) -> None:
    with target.open() as client:
        client.send(PING, b"asked")
        client.send(TEXT, b'{"jsonrpc":"2.0","id":1,"method":"public/test"}')
        client.socket.shutdown(socket.SHUT_WR)
        kinds = []
        with suppress(EOFError, ConnectionError):
            while True:
                kinds.append(client.receive()[0] & 15)
        assert kinds[:2] == [PONG, TEXT] and set(kinds[2:]) <= {CLOSE}
    with target.connect() as client:
        client.sendall(f"GET /healthz HTTP/1.1\r\nHost: {target.address}\r\n\r\n".encode())
        client.shutdown(socket.SHUT_WR)
        assert read_all(client).startswith(b"HTTP/1.1 200")


@pytest.mark.attack("readers that never read")
def test_readers_that_never_read_cost_little_and_delay_no_other(target: Target) -> None:
    before = target.rss_bytes()
    question = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "public/get_instruments", "params": {"currency": "any"}}
    )
    asked = client_frame(TEXT, (question + " " * 4000).encode()) * 10
    clients = []
    for _ in range(5):
        client = target.open()
        client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        flood(client, asked, 1000, patience_s=0.3)
        clients.append(client)
    target.serves_on()
    grown = target.rss_bytes() - before
    for client in clients:
        client.socket.close()
    assert grown < MOST_BYTES, f"{grown} bytes for five readers"


HOSTILE_ORIGINS = [
    "http://evil.example",
    "https://evil.example",
    "null",
    "file://",
    "",
    "http://localhost.evil.example",
    "http://evil.example#localhost",
    "http://evil.example/localhost",
    "http://localhost@evil.example",
    "http://127.0.0.1.evil.example",
    "http://127.0.0.1",
    "http://127.0.0.1:1",
    "http://[::1]",
    "chrome-extension://abcdefgh",
    "http://localhost:80, http://evil.example",
    "http://xn--lcalhost-54a.example",
    "http://LOCALHOST.EVIL.EXAMPLE",
    "http:// evil.example",
    "javascript:alert(1)",
    "//evil.example",
]


def handshake(target: Target, *headers: str, path: str | None = None, body: bytes = b"") -> bytes:
    """Returns every byte of a connection that starts with this handshake."""
    lines = [f"GET {path or target.path} HTTP/1.1", *headers]
    names = {line.split(":")[0].lower() for line in headers}
    usual = {
        "host": target.address,
        "upgrade": "websocket",
        "connection": "Upgrade",
        "sec-websocket-key": KEY,
        "sec-websocket-version": "13",
    }
    lines += [f"{name}: {value}" for name, value in usual.items() if name not in names]
    with target.connect() as client:
        client.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        client.shutdown(socket.SHUT_WR)
        return read_all(client)


def statuses(received: bytes) -> list[int]:
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", received)]


@pytest.mark.attack("web page of another origin")
@pytest.mark.parametrize("origin", HOSTILE_ORIGINS)
def test_a_page_of_another_origin_gets_no_websocket(target: Target, origin: str) -> None:
    assert statuses(handshake(target, f"Origin: {origin}")) == [403]


def test_a_page_of_our_own_gets_one(target: Target) -> None:
    assert statuses(handshake(target, f"Origin: http://{target.address}")) == [101]
    assert statuses(handshake(target, "Sec-Fetch-Site: cross-site")) == [403]
    assert statuses(handshake(target, f"Origin: http://{target.address}", "Origin: http://evil.example")) == [403]


@pytest.mark.attack("name rebound to the address of the venue")
@pytest.mark.parametrize(
    "host", ["evil.example", "localhost.evil.example", "10.255.255.1", "127.0.0.1@evil.example", "\xff"]
)
def test_a_rebound_name_is_not_ours(target: Target, host: str) -> None:
    assert statuses(handshake(target, f"Host: {host}")) == [421]


SMUGGLED = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.attack("request smuggled behind a handshake")
@pytest.mark.parametrize(
    ("headers", "status"),
    [
        (["Content-Length: 42"], 400),
        (["Content-Length: 0", "Content-Length: 42"], 400),
        (["Content-Length: +42"], 400),
        (["Content-Length: 42\xa0"], 400),
        (["Transfer-Encoding: chunked"], 501),
        (["Transfer-Encoding: \xffchunked"], 501),
        (["Content-Length: 42", "Transfer-Encoding: chunked"], 501),
        (["Sec-WebSocket-Version: 12"], 426),
        (["Sec-WebSocket-Key: short"], 400),
        ([f"Sec-WebSocket-Key: {KEY}", f"Sec-WebSocket-Key: {KEY}"], 400),
        (["Host: localhost", "Host: localhost"], 400),
        (["X : y"], 400),
        (["X: y", " folded"], 400),
        (["X: y\nY: z"], 400),
        (["X: y\rY: z"], 400),
        (["Sec-WebSocket-Extensions: ;"], 400),
    ],
)
def test_bytes_after_a_refused_handshake_are_not_a_request(target: Target, headers: list[str], status: int) -> None:
    received = handshake(target, *headers, body=SMUGGLED)
    # Requests without a body must not have one.
    others = [413] if headers == ["Content-Length: 42"] else [status]
    assert statuses(received) in ([status], others), received


def test_bytes_after_a_handshake_are_frames_and_not_a_request(target: Target) -> None:
    received = handshake(target, body=SMUGGLED)
    head, _, frames = received.partition(b"\r\n\r\n")
    assert statuses(received) == [101], received
    assert head.lower().count(b"sec-websocket-accept: ") == 1
    # The G of GET is a frame header with a reserved opcode and without the FIN bit.
    assert frames[:1] == b"\x88" and frames[2:4] == (1002).to_bytes(2, "big"), frames


def test_frames_in_the_packet_of_the_handshake_are_read(target: Target) -> None:
    received = handshake(target, body=client_frame(PING, b"early"))
    assert statuses(received) == [101] and received.partition(b"\r\n\r\n")[2].startswith(b"\x8a\x05early")
