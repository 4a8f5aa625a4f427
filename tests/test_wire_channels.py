"""Channels by wire-compat sections 6 and 7: legal book deltas, equality with REST, order of
messages."""

import json
import threading
import time
from typing import Any

import pytest
from rpc import PATIENCE_S, Http, Json, Ws
from venue import Venue

Book = dict[str, dict[float, float]]


class Replica:
    """A book maintained by section 7; any illegal message is an assertion."""

    def __init__(self) -> None:
        self.change_id: int | None = None
        self.book: Book = {"bids": {}, "asks": {}}

    def apply(self, data: Json) -> None:
        assert type(data["change_id"]) is int and type(data["timestamp"]) is int
        if self.change_id is None:
            assert data["type"] == "snapshot" and "prev_change_id" not in data
        else:
            assert data["type"] == "change", "a live channel is never snapshotted again"
            assert data["prev_change_id"] == self.change_id, "the chain of this channel is broken"
            assert data["change_id"] > self.change_id
            assert data["bids"] or data["asks"], "a message with two empty sides must not be sent"
        self.change_id = data["change_id"]
        for side in ("bids", "asks"):
            self._apply_side(self.book[side], data[side], snapshot=data["type"] == "snapshot")
        if self.book["bids"] and self.book["asks"]:
            assert max(self.book["bids"]) < min(self.book["asks"]), "crossed"

    def _apply_side(self, levels: dict[float, float], changes: list[Any], snapshot: bool) -> None:
        prices = [price for _, price, _ in changes]
        assert len(prices) == len(set(prices)), "one entry for each price"
        for action, price, amount in changes:
            assert action in (["new"] if snapshot else ["new", "change", "delete"])
            assert (price in levels) == (action != "new"), f"{action} {price} against {levels.get(price)}"
            if action == "delete":
                assert amount == 0
                del levels[price]
            else:
                assert amount > 0
                assert levels.get(price) != amount, "a change that changes nothing"
                levels[price] = amount

    def copy(self) -> Book:
        return {side: dict(levels) for side, levels in self.book.items()}


class RestPoller(threading.Thread):
    """Fetches whole books as fast as it can, by change_id."""

    def __init__(self, address: str, instrument: str) -> None:
        super().__init__(daemon=True)
        self.books: dict[int, Book] = {}
        self.stopping = threading.Event()
        self._address, self._instrument = address, instrument

    def run(self) -> None:
        http = Http(self._address)
        while not self.stopping.is_set():
            book = http.result("public/get_order_book", {"instrument_name": self._instrument, "depth": 10_000})
            for side, best_first in (("bids", True), ("asks", False)):
                prices = [price for price, _ in book[side]]
                assert prices == sorted(prices, reverse=best_first)
            self.books[book["change_id"]] = {
                side: {level[0]: level[1] for level in book[side]} for side in ("bids", "asks")
            }
        http.close()


@pytest.mark.parametrize("instrument", ["NPN_ZAR", "BTC_USDC", "BTC-PERPETUAL"])
@pytest.mark.parametrize("interval", ["raw", "100ms", "agg2"])
def test_a_book_channel_is_legal_and_equals_rest(venue: Venue, trader: Ws, instrument: str, interval: str) -> None:
    channel = f"book.{instrument}.{interval}"
    assert trader.subscribe(channel, scope="private") == [channel]
    replica, states = Replica(), {}
    poller = RestPoller(venue.address, instrument)
    poller.start()
    deadline = time.monotonic() + PATIENCE_S
    matched: set[int] = set()
    while len(matched) < 3 or len(states) < 5:
        assert time.monotonic() < deadline, f"{len(states)} messages, {len(matched)} comparable with REST"
        replica.apply(trader.notification(channel))
        assert replica.change_id is not None
        states[replica.change_id] = replica.copy()
        matched = states.keys() & poller.books.keys()
    poller.stopping.set()
    poller.join()
    for change_id in matched:
        assert states[change_id] == poller.books[change_id]


def test_the_merged_channel_sends_at_most_ten_a_second(ws: Ws) -> None:
    ws.subscribe("book.BTC_USDC.100ms")
    stamps = [ws.notification("book.BTC_USDC.100ms")["timestamp"] for _ in range(20)]
    assert stamps[-1] - stamps[1] >= 17 * 100


def test_event_has_the_same_bytes_for_all_subscribers(venue: Venue) -> None:
    channels = ["book.NPN_ZAR.100ms", "trades.NPN_ZAR.100ms", "ticker.NPN_ZAR.100ms"]
    with Ws(venue.ws_url) as first, Ws(venue.ws_url) as second:
        for ws in (first, second):
            ws.subscribe(*channels)
        received: list[set[str]] = []
        for ws in (first, second):
            texts = set()
            # The second starts where the first did; unread messages wait for it.
            while len(texts) < 30:
                text = ws.arrive_text()
                if '"snapshot"' not in text:
                    texts.add(text)
            received.append(texts)
    stamps = [
        {json.loads(text)["params"]["data"]["change_id"] for text in texts if '"book.' in text} for texts in received
    ]
    common = stamps[0] & stamps[1]
    assert common, "both received some of the same changes"
    books = [
        {text for text in texts if '"book.' in text and json.loads(text)["params"]["data"]["change_id"] in common}
        for texts in received
    ]
    assert books[0] == books[1]


def test_the_reply_precedes_the_snapshot_and_a_second_subscription_says_nothing_new(ws: Ws) -> None:
    channel = "book.NPN_ZAR.100ms"
    request_id = ws.post("public/subscribe", {"channels": [channel]})
    reply, first = ws.arrive(), ws.arrive()
    assert (reply["id"], reply["result"]) == (request_id, [channel])
    assert first["method"] == "subscription" and "id" not in first
    assert first["params"]["data"]["type"] == "snapshot"
    assert ws.subscribe(channel) == [channel]
    for _ in range(5):
        assert ws.notification(channel)["type"] == "change"


def test_after_unsubscribing_nothing_comes_and_subscribing_again_starts_afresh(ws: Ws) -> None:
    channel = "book.NPN_ZAR.100ms"
    ws.subscribe(channel)
    ws.notification(channel)
    assert ws.result("public/unsubscribe", {"channels": [channel]}) == [channel]
    ws.inbox.clear()
    ws.silence(channel, 1.0)
    ws.subscribe(channel)
    replica = Replica()
    for _ in range(5):
        replica.apply(ws.notification(channel))


def test_unsubscribe_all(ws: Ws) -> None:
    ws.subscribe("book.NPN_ZAR.100ms", "ticker.BTC_USDC.100ms")
    assert ws.result("public/unsubscribe_all") == "ok"
    ws.inbox.clear()
    ws.silence("book.NPN_ZAR.100ms", 0.5)
    ws.silence("ticker.BTC_USDC.100ms", 0.5)


def test_unknown_instruments_are_left_out_and_malformed_names_refused(ws: Ws) -> None:
    good = "ticker.NPN_ZAR.100ms"
    assert ws.subscribe(good, "ticker.NO_ZAR.100ms", "book.NO-PERPETUAL.100ms") == [good]
    assert ws.subscribe("book.NO_ZAR.100ms") == []
    answer = ws.call("public/subscribe", {"channels": ["no such channel!"]})
    assert answer["error"]["code"] == -32602
    assert ws.call("public/subscribe", {})["error"]["code"] == -32602
    assert ws.call("public/subscribe", {"channels": "ticker.NPN_ZAR.100ms"}).keys() & {"result", "error"}


@pytest.mark.parametrize("channel", ["book.NPN_ZAR.raw", "trades.NPN_ZAR.raw", "ticker.NPN_ZAR.raw"])
def test_raw_channels_need_a_login(ws: Ws, channel: str) -> None:
    assert ws.call("public/subscribe", {"channels": [channel]})["error"]["code"] == 13778


def test_either_subscribe_does_for_any_channel_after_a_login(trader: Ws) -> None:
    channels = ["book.NPN_ZAR.raw", "user.orders.any.any.raw", "user.trades.NPN_ZAR.raw"]
    assert trader.subscribe(*channels, scope="public") == channels
    public = ["trades.NPN_ZAR.100ms", "ticker.BTC-PERPETUAL.raw"]
    assert trader.subscribe(*public, scope="private") == public


def test_user_channels_need_a_login(ws: Ws) -> None:
    answer = ws.call("public/subscribe", {"channels": ["user.orders.any.any.raw"]})
    assert answer.get("result") == [] or answer["error"]["code"] in (10000, 13009, 13778)


def test_trades_are_arrays_in_sequence(http: Http, trader: Ws) -> None:
    channel = "trades.NPN_ZAR.raw"
    trader.subscribe(channel)
    sequences: list[int] = []
    for _ in range(5):
        http.result("private/buy", {"instrument_name": "NPN_ZAR", "amount": 1, "type": "market"})
        trades = trader.notification(channel)
        assert type(trades) is list
        sequences += [trade["trade_seq"] for trade in trades]
        for trade in trades:
            assert trade["instrument_name"] == "NPN_ZAR" and trade["direction"] in ("buy", "sell")
            assert trade["tick_direction"] in (0, 1, 2, 3) and trade["price"] > 0 and trade["amount"] > 0
    assert sequences == list(range(sequences[0], sequences[0] + len(sequences)))


def test_the_ticker_follows_the_book(ws: Ws) -> None:
    ws.subscribe("ticker.NPN_ZAR.100ms")
    for _ in range(3):
        ticker = ws.notification("ticker.NPN_ZAR.100ms")
        assert ticker["best_bid_price"] < ticker["best_ask_price"]
        for name in ("timestamp", "mark_price", "index_price", "open_interest", "state"):
            assert name in ticker


def test_own_orders_and_trades_follow_the_reply(trader: Ws) -> None:
    trader.subscribe("user.orders.any.any.raw", "user.trades.any.any.raw", scope="private")
    request_id = trader.post("private/buy", {"instrument_name": "NPN_ZAR", "amount": 1, "type": "market"})
    reply = trader.arrive()
    assert reply["id"] == request_id, "the reply comes first"
    order = reply["result"]["order"]
    arrived = [trader.arrive() for _ in range(2)]
    channels = [message["params"]["channel"] for message in arrived]
    assert channels == ["user.trades.any.any.raw", "user.orders.any.any.raw"]
    trades, seen = (message["params"]["data"] for message in arrived)
    assert [trade["trade_id"] for trade in trades] == [trade["trade_id"] for trade in reply["result"]["trades"]]
    assert type(seen) is dict, "a single object on raw"
    assert (seen["order_id"], seen["order_state"]) == (order["order_id"], "filled")


def test_orders_of_one_account_are_not_sent_to_another(trader: Ws, other: Http) -> None:
    trader.subscribe("user.orders.any.any.raw", "user.trades.any.any.raw", scope="private")
    other.result("private/buy", {"instrument_name": "NPN_ZAR", "amount": 1, "type": "market"})
    trader.silence("user.orders.any.any.raw", 0.5)
    trader.silence("user.trades.any.any.raw", 0.5)
