"""Slow subscribers over real sockets: the lag policy of each channel."""

import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rpc import Ws, until
from test_access import messages
from test_listeners import gauge
from test_wire_channels import Book, Replica
from venue import DEMO_A, Venue
from websockets.exceptions import ConnectionClosed

INSTRUMENT = "NPN_ZAR"
# A level takes about two dozen bytes, so the second number exceeds any ring of a channel.
LEVELS, ENOUGH = 500, 30_000
# Answers of about ten kilobytes each: more than fits the socket buffers of a client with a fixed
# one.
UNREAD, RECEIVE_BYTES = 1000, 1 << 16


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[Venue]:
    """Instruments of this test, and windows that are short in real time."""
    with Venue(tmp_path / "data", ["--no-flow", "--durability", "memory", "--speed", "20"]) as venue:
        yield venue


def stalled(venue: Venue, channel: str, is_member: bool = True) -> Ws:
    """A client with full socket buffers that does not read; without a login a delivery thread
    serves it."""
    host, port = venue.address.rsplit(":", 1)
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
    sock.connect((host, int(port)))
    reader = Ws(venue.ws_url, sock)
    if is_member:
        reader.login(DEMO_A)
    assert reader.subscribe(channel) == [channel]
    until(lambda: gauge(venue, "listeners") == (0 if is_member else 1), "it is where it is served")
    for _ in range(UNREAD):
        reader.post("public/get_instruments")
    # Waits until the venue has answered as much as it will while the client does not read.
    before = -1
    while (now := messages(venue)) > before + 1:
        before = now
        time.sleep(0.3)
    assert now < UNREAD, "it is held back"
    return reader


def churn(trader: Ws, channel: str) -> int:
    """Fills one side of the book and clears it; returns the number of level changes on the
    channel."""
    posted = [
        trader.post(
            "private/buy",
            {"instrument_name": INSTRUMENT, "amount": 1 + at % 3, "price": round(3000 - at / 100, 2)},
        )
        for at in range(LEVELS)
    ]
    posted.append(trader.post("private/cancel_all_by_instrument", {"instrument_name": INSTRUMENT}))
    waiting, levels = set(posted), 0
    while waiting:
        message = trader.arrive()
        waiting.discard(message.get("id", 0))
        assert "error" not in message, message
        if "method" in message:
            trader.inbox.append(message)
            params = message["params"]
            levels += sum(len(params["data"][side]) for side in ("bids", "asks")) if params["channel"] == channel else 0
    return levels


def run_over(trader: Ws, channel: str) -> None:
    levels = 0
    while levels < ENOUGH:
        levels += churn(trader, channel)


def books_of(trader: Ws, until: int) -> dict[int, Book]:
    """Every book by its number: the raw channel has each one."""
    replica, books = Replica(), {}
    while replica.change_id is None or replica.change_id < until:
        replica.apply(trader.notification(f"book.{INSTRUMENT}.raw"))
        assert replica.change_id is not None
        books[replica.change_id] = replica.copy()
    return books


def number(trader: Ws) -> int:
    return int(trader.result("public/get_order_book", {"instrument_name": INSTRUMENT})["change_id"])


@pytest.mark.parametrize("where", ["on the loop", "on a delivery thread", "logged in later"])
def test_an_overrun_reader_of_a_merged_book_gets_one_change_on_its_chain(quiet: Venue, where: str) -> None:
    channel = f"book.{INSTRUMENT}.100ms"
    with Ws(quiet.ws_url) as trader:
        trader.login(DEMO_A)
        trader.subscribe(f"book.{INSTRUMENT}.raw", channel)
        with stalled(quiet, channel, where == "on the loop") as reader:
            if where == "logged in later":
                # Everything it asked for is read, and the missed changes are still due.
                login = {"client_id": DEMO_A.client_id, "client_secret": DEMO_A.secret}
                reader.post("public/auth", {"grant_type": "client_credentials"} | login)
            run_over(trader, channel)
            trader.result("private/buy", {"instrument_name": INSTRUMENT, "amount": 9, "price": 2000})
            last = number(trader)
            books = books_of(trader, last)
            replica, longest = Replica(), 0
            while replica.change_id is None or replica.change_id < last:
                held = replica.change_id
                replica.apply(reader.notification(channel))
                assert replica.change_id is not None
                assert replica.book == books[replica.change_id], f"after {held}"
                if held is not None:
                    longest = max(longest, sum(held < other < replica.change_id for other in books))
            # More than one window can hold: the client was overrun and is in step again.
            assert longest > 3 * LEVELS, longest
            until(lambda: gauge(quiet, "listeners") == (where != "on the loop"), "it is where it is served")
            trader.result("private/buy", {"instrument_name": INSTRUMENT, "amount": 9, "price": 1999})
            replica.apply(reader.notification(channel))
            assert replica.change_id == number(trader)


def test_an_overrun_reader_of_each_change_is_closed(quiet: Venue) -> None:
    channel = f"book.{INSTRUMENT}.raw"
    with Ws(quiet.ws_url) as trader:
        trader.login(DEMO_A)
        trader.subscribe(channel)
        with stalled(quiet, channel) as reader:
            run_over(trader, channel)
            with pytest.raises(ConnectionClosed) as closed:
                while True:
                    reader.arrive_text()
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1013
