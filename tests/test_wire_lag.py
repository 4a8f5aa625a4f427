"""Readers that fall behind, over real sockets: what each channel's lag policy gives them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from rpc import Ws
from test_wire_channels import Book, Replica
from venue import DEMO_A, Venue
from websockets.exceptions import ConnectionClosed

INSTRUMENT = "NPN_ZAR"
LEVELS, ROUNDS = 500, 24
# Answers of some ten kilobytes: more of them than any socket holds.
UNREAD = 700


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[Venue]:
    """Books of our own, and windows that are short in real time."""
    with Venue(tmp_path / "data", ["--no-flow", "--durability", "memory", "--speed", "20"]) as venue:
        yield venue


def stalled(venue: Venue, channel: str) -> Ws:
    """A reader of a channel whose socket is full of what it has asked for and does not read."""
    reader = Ws(venue.ws_url)
    reader.login(DEMO_A)
    assert reader.subscribe(channel) == [channel]
    for _ in range(UNREAD):
        reader.post("public/get_instruments")
    return reader


def churn(trader: Ws, levels: int) -> None:
    """Fills one side of the book and takes it all off again, but for a few levels that are told by nobody else."""
    posted = [
        trader.post(
            "private/buy",
            {"instrument_name": INSTRUMENT, "amount": 1 + at % 3, "price": round(3000 - at / 100, 2)},
        )
        for at in range(levels)
    ]
    posted.append(trader.post("private/cancel_all_by_instrument", {"instrument_name": INSTRUMENT}))
    waiting = set(posted)
    while waiting:
        message = trader.arrive()
        waiting.discard(message.get("id", 0))
        assert "error" not in message, message
        if "method" in message:
            trader.inbox.append(message)


def books_of(trader: Ws, until: int) -> dict[int, Book]:
    """Every book there was, by its number: the raw channel tells each."""
    replica, books = Replica(), {}
    while replica.change_id is None or replica.change_id < until:
        replica.apply(trader.notification(f"book.{INSTRUMENT}.raw"))
        assert replica.change_id is not None
        books[replica.change_id] = replica.copy()
    return books


def number(trader: Ws) -> int:
    return int(trader.result("public/get_order_book", {"instrument_name": INSTRUMENT})["change_id"])


def test_an_overrun_reader_of_a_merged_book_gets_one_change_on_its_chain(quiet: Venue) -> None:
    channel = f"book.{INSTRUMENT}.100ms"
    with Ws(quiet.ws_url) as trader:
        trader.login(DEMO_A)
        trader.subscribe(f"book.{INSTRUMENT}.raw")
        with stalled(quiet, channel) as reader:
            for _ in range(ROUNDS):
                churn(trader, LEVELS)
            trader.result("private/buy", {"instrument_name": INSTRUMENT, "amount": 9, "price": 2000})
            last = number(trader)
            books = books_of(trader, last)
            replica, longest = Replica(), 0
            while replica.change_id is None or replica.change_id < last:
                held = replica.change_id
                replica.apply(reader.notification(channel))
                assert replica.change_id is not None
                assert replica.book == books[replica.change_id], f"after {held}"
                longest = max(longest, sum(held < other < replica.change_id for other in books) if held else 0)
            # More than one window can hold: it was run over, and is in step again.
            assert longest > 3 * LEVELS, longest
            trader.result("private/buy", {"instrument_name": INSTRUMENT, "amount": 9, "price": 1999})
            replica.apply(reader.notification(channel))
            assert replica.change_id == number(trader)


def test_an_overrun_reader_of_each_change_is_closed(quiet: Venue) -> None:
    channel = f"book.{INSTRUMENT}.raw"
    with Ws(quiet.ws_url) as trader:
        trader.login(DEMO_A)
        with stalled(quiet, channel) as reader:
            for _ in range(ROUNDS):
                churn(trader, LEVELS)
            with pytest.raises(ConnectionClosed) as closed:
                while True:
                    reader.arrive_text()
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1013
