"""Attacks of a stranger on the network: hostile request heads and silent connections."""

import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from attack_table import FULL
from raw_ws import Target, read_all, venue_target
from rpc import Http
from venue import DEMO_A

MEBIBYTE = 1024 * 1024
# The long form is bounded by the open files of this process and of the venue.
LONG_CONNECTIONS = 20_000
SHORT_CONNECTIONS = 500
SPARE_FILES = 512
ORDER = {"instrument_name": "NPN_ZAR", "amount": 1, "type": "limit", "price": 1000}

REFUSALS = {f"HTTP/1.1 {status}".encode() for status in (*range(400, 500), 501, 505)}

HEADS = {
    "no request": b"\r\n\r\n",
    "binary": bytes(range(256)) + b"\r\n\r\n",
    "TLS to a plain port": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64,
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
    "folded field": b"GET / HTTP/1.1\r\nHost: localhost\r\n folded: x\r\n\r\n",
    "space before the colon": b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n",
    "two lengths": b"POST /api/v2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
    "length and chunks": b"POST /api/v2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "negative length": b"POST /api/v2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
    "endless length": b"POST /api/v2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 18446744073709551616\r\n\r\n",
    "long target": b"GET /" + b"a" * (1 << 20) + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "many fields": b"GET / HTTP/1.1\r\nHost: localhost\r\n" + b"a: b\r\n" * 10_000 + b"\r\n",
    "long field": b"GET / HTTP/1.1\r\nHost: localhost\r\na: " + b"b" * (1 << 20) + b"\r\n\r\n",
    "NUL in a field": b"GET / HTTP/1.1\r\nHost: local\0host\r\n\r\n",
    "upgrade without a key": b"GET /ws/api/v2 HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\n"
    b"Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n\r\n",
}


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with venue_target(tmp_path_factory.mktemp("network")) as running:
        yield running


@pytest.mark.attack("hostile request head")
def test_hostile_head_is_refused_and_the_venue_continues(target: Target, tries: Callable[[int], None]) -> None:
    for name, head in HEADS.items():
        with target.connect() as stranger:
            stranger.settimeout(30)
            # The venue may answer and close before everything is sent.
            with suppress(ConnectionError):
                stranger.sendall(head)
            with suppress(OSError):
                stranger.shutdown(socket.SHUT_WR)
            answer = read_all(stranger)
        # 501: transfer encodings, 505: other versions of HTTP.
        assert not answer or answer[:12] in REFUSALS, (name, answer[:200])
        target.serves_on()
        tries(1)


def allowed_connections() -> int:
    """Connections that fit into the open files of both processes, at most the long form."""
    if not FULL:
        return SHORT_CONNECTIONS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return min(LONG_CONNECTIONS, hard - SPARE_FILES)


@pytest.mark.attack("silent connections")
def test_silent_connections_take_nothing_from_a_member(tmp_path: Path, tries: Callable[[int], None]) -> None:
    """Some send nothing, some half of a head, some half of a body."""
    count = allowed_connections()
    with venue_target(tmp_path) as target, ExitStack() as sockets:
        before = target.rss_bytes()
        for number in range(count):
            stranger = sockets.enter_context(target.connect())
            if number % 4 == 1:
                stranger.sendall(b"GET / HTTP/1.1\r\nHost: ")
            elif number % 4 == 2:
                stranger.sendall(b"POST /api/v2 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        tries(count)
        target.serves_on()
        member = Http(target.address, DEMO_A)
        order = member.result("private/buy", ORDER)["order"]["order_id"]
        assert member.result("private/cancel", {"order_id": order})["order_state"] == "cancelled"
        used = target.rss_bytes() - before
        assert used < 64 * MEBIBYTE + 16 * 1024 * count, f"{used // MEBIBYTE} MiB for {count} connections"
