"""Floods of the snapshot services of the order-by-order feed: the recovery port of MITCH, and
GLIMPSE of ITCH. Each request is answered, refused or cut, and counted as such."""

import socket
import struct
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
import test_order_feed_itch as itch
from attack_table import FULL
from itch_reader import ItchReader, soup_packet
from mitch_reader import FeedReader, Recovery, messages, request
from rpc import Http, until
from test_order_feed import recovery_address, venue_books
from venue import DEMO_A, Venue

FLOOD = "recovery port of the order feed: a thousand snapshots a second"
# Limits of one address, by docs/order-feed.md.
CONNECTIONS, AT_ONCE, A_SECOND = 32, 20, 2
OPTIONS = ["--no-flow", "--durability", "memory", "--order-feed-recovery", "127.0.0.1:0"]
ORDER = {"instrument_name": "NPN_ZAR", "amount": 1, "type": "limit", "price": 1.0}
COUNTERS = ("snapshots", "limited", "refused_connections")


def counts(http: Http) -> Counter[str]:
    lines = (line.split() for line in http.get("/metrics").body.decode().splitlines())
    values = {line[0]: int(line[1]) for line in lines if line[0].startswith("pitwire_order_feed_")}
    return Counter({name: values[f"pitwire_order_feed_{name}_total"] for name in COUNTERS})


def trade(member: Http) -> None:
    """Enters an order and cancels it: the venue must not wait for the flood."""
    order = member.result("private/buy", ORDER)["order"]["order_id"]
    assert member.result("private/cancel", {"order_id": order})["order_state"] == "cancelled"


def drain(client: Recovery, requests: int) -> Counter[str]:
    """Reads the answers to snapshot requests."""
    answers: Counter[str] = Counter()
    complete = 0
    while complete < requests:
        for kind, body in messages(client.unit()):
            if kind == "\x82":
                is_accepted = body[8:9] == b"A"
                answers["snapshots" if is_accepted else "limited"] += 1
                complete += not is_accepted
            elif kind == "\x83":
                complete += 1
    return answers


def log_in(address: str) -> socket.socket:
    """Asks for a snapshot of GLIMPSE and does not wait for it."""
    host, port = address.rsplit(":", 1)
    stranger = socket.create_connection((host, int(port)), 30)
    login = b"L" + b" " * 16 + b" " * 10 + b"1".rjust(20)
    with suppress(OSError):
        stranger.sendall(struct.pack(">H", len(login)) + login)
    return stranger


def outcome(stranger: socket.socket) -> str:
    """Reads the answer of GLIMPSE to its end."""
    try:
        with stranger, stranger.makefile("rb") as stream:
            if not stream.peek(1):
                return "refused_connections"
            kind, _ = soup_packet(stream)
            while kind != b"J" and soup_packet(stream)[0] != b"Z":
                pass
            return "limited" if kind == b"J" else "snapshots"
    except ConnectionError:
        # The venue closed the connection before it read the login.
        return "refused_connections"


@pytest.mark.attack(FLOOD)
def test_flood_of_snapshot_requests_is_counted_and_stalls_nothing(data: Path, tries: Callable[[int], None]) -> None:
    reader = FeedReader(lost=0.0, seed=3)
    with Venue(data, [*OPTIONS, "--order-feed", reader.addresses]) as venue, ExitStack() as stack:
        address, member = recovery_address(venue), Http(venue.address, DEMO_A)
        reader.join(address)
        # The reader has one of the connections.
        clients = [stack.enter_context(Recovery(address)) for _ in range(CONNECTIONS - 1)]
        before, start, answers = counts(member), time.monotonic(), Counter[str]()
        each = 30 if FULL else 10
        for _ in range(6 if FULL else 1):
            for client in clients:
                client.sock.sendall(request(0x81, bytes(30)) * each)
            for client in clients:
                trade(member)
                answers += drain(client, each)
            tries(each * len(clients))
        most = AT_ONCE + A_SECOND * (time.monotonic() - start) + 1
        assert 0 < answers["snapshots"] <= most and answers["limited"] > 0
        assert counts(member) - before == answers
        reader.until_equal(venue_books(member))


@pytest.mark.attack(FLOOD)
def test_flood_of_glimpse_logins_is_counted_and_stalls_nothing(data: Path, tries: Callable[[int], None]) -> None:
    reader = ItchReader()
    encoding = ["--order-feed-encoding", "itch"]
    with Venue(data, [*OPTIONS, "--order-feed", reader.address, *encoding]) as venue:
        address, member = itch.recovery_address(venue), Http(venue.address, DEMO_A)
        reader.connect(address)
        reader.join(address)
        before, start, answers = counts(member), time.monotonic(), Counter[str]()
        for _ in range(60 if FULL else 4):
            strangers = [log_in(address) for _ in range(100)]
            trade(member)
            answers += Counter(outcome(stranger) for stranger in strangers)
            tries(len(strangers))
        most = AT_ONCE + A_SECOND * (time.monotonic() - start) + 1
        assert 0 < answers["snapshots"] <= most and answers["limited"] > 0 and answers["refused_connections"] > 0
        assert counts(member) - before == answers
        reader.until_equal(venue_books(member), itch.lots(member))
        # The port forgets the strangers, and a new reader of the same host gets the state.
        late = ItchReader()
        late.connect(address)

        def joins() -> bool:
            try:
                late.join(address)
            except (AssertionError, OSError, struct.error):
                return False
            return True

        until(joins, "a reader joins")
        assert late.books.orders == reader.books.orders
