"""Resuming channels of the JSON-RPC dialect: tokens, repeated messages, declared losses.
RESUME_CUTS sets how often a reader is cut off (default 20). RESUME_SEED repeats a failed run's
choices."""

import itertools
import os
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rpc import Json, RpcError, Ws, until
from test_listeners import gauge, listener
from venue import DEMO_A, DEMO_B, Credentials, Venue

CUTS = int(os.environ.get("RESUME_CUTS", "20"))
SEED = int(os.environ.get("RESUME_SEED", time.time_ns()))
INSTRUMENT = "BTC_USDC"
RAW, MERGED = f"book.{INSTRUMENT}.raw", f"book.{INSTRUMENT}.100ms"
TRADES, SLOW_TRADES = f"trades.{INSTRUMENT}.raw", f"trades.{INSTRUMENT}.100ms"
LAST_TRADE, LAST_LEVEL = 61_000, 50_000
WINDOW_NS = 100_000_000


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[Venue]:
    """A venue with a manual clock."""
    with Venue(tmp_path / "data", extra=["--no-flow", "--clock", "manual"]) as venue:
        yield venue


class Reader:
    """Subscribes to channels and resumes each at its position, however often it is cut off."""

    def __init__(self, venue: Venue, channels: list[str], login: Credentials | None = None) -> None:
        self.venue, self.login = venue, login
        self.tokens: dict[str, str | None] = dict.fromkeys(channels)
        self.received: dict[str, list[Json]] = {channel: [] for channel in channels}
        # Whether each message brought a token.
        self.complete: dict[str, list[bool]] = {channel: [] for channel in channels}
        self.notices: dict[str, Json] = {}
        self.epoch = ""
        self.open()

    def open(self) -> None:
        self.ws = Ws(self.venue.ws_url)
        if self.login:
            self.ws.login(self.login)
        self.notices = {}
        asked = {"channels": list(self.tokens), "resume": self.tokens}
        assert self.ws.result("private/subscribe" if self.login else "public/subscribe", asked) == list(self.tokens)
        assert not self.ws.inbox, "nothing comes before the answer"

    def step(self, timeout_s: float = 60.0) -> Json:
        """Handles the next message."""
        message = self.ws.arrive(timeout_s)
        params = message["params"]
        channel = params["channel"]
        if message["method"] == "pitwire_resume":
            assert channel not in self.notices
            self.notices[channel] = params
            if "token" in params:
                self.epoch = params["token"].split(":")[0]
                self.tokens[channel] = params["token"]
                # The messages from the history before it have no token.
                self.complete[channel] = [True] * len(self.received[channel])
            return message
        data = params["data"]
        self.received[channel].append(data)
        self.complete[channel].append("token" in params)
        if "token" in params:
            self.tokens[channel] = params["token"]
        elif channel.startswith("book.") and self.epoch:
            self.tokens[channel] = f"{self.epoch}:{data['change_id']}"
        elif channel.startswith("trades.") and self.epoch:
            self.tokens[channel] = f"{self.epoch}:{data[-1]['trade_seq']}"
        return message

    def caught_up(self) -> dict[str, Json]:
        """Reads until every channel has its resumption notice."""
        while len(self.notices) < len(self.tokens):
            self.step()
        return self.notices

    def take_in(self, messages: int) -> None:
        """Handles up to this many messages that are there already."""
        for _ in range(messages):
            try:
                self.step(0.05)
            except TimeoutError:
                return

    def read_until(self, is_last: Callable[[str, Json], bool]) -> None:
        """Reads everything up to the last message of each channel."""
        waiting = {
            channel for channel, arrived in self.received.items() if not (arrived and is_last(channel, arrived[-1]))
        }
        while waiting:
            channel = self.step()["params"]["channel"]
            if self.received[channel] and is_last(channel, self.received[channel][-1]):
                waiting.discard(channel)

    def cut(self) -> None:
        """Drops the connection without a close frame; unread messages are lost. Of a window that
        takes several messages, those before the one with the token come again."""
        self.ws.cut()
        for channel in self.tokens:
            while channel.startswith("user.") and self.received[channel] and not self.complete[channel][-1]:
                self.received[channel].pop()
                self.complete[channel].pop()

    def trades(self, channel: str) -> list[Json]:
        return [trade for data in self.received[channel] for trade in data]

    def numbers(self, channel: str) -> list[tuple[Any, ...]]:
        """A book's chain, starting with the snapshot's number."""
        return [(data.get("prev_change_id"), data["change_id"]) for data in self.received[channel]]


def buy(ws: Ws, price: float, side: str = "buy", **more: Any) -> Json:
    return ws.result(f"private/{side}", {"instrument_name": INSTRUMENT, "price": price, "amount": 0.001} | more)


class Market:
    """Two accounts that trade with each other at random."""

    def __init__(self, venue: Venue, rng: random.Random) -> None:
        self.rng = rng
        self.sides = {"buy": Ws(venue.ws_url), "sell": Ws(venue.ws_url)}
        self.sides["buy"].login(DEMO_A)
        self.sides["sell"].login(DEMO_B)
        self.resting: list[tuple[str, str]] = []

    def act(self) -> None:
        if self.resting and self.rng.random() < 0.3:
            side, order = self.resting.pop(self.rng.randrange(len(self.resting)))
            # It may have filled.
            self.sides[side].call("private/cancel", {"order_id": order})
            return
        side = self.rng.choice(["buy", "sell"])
        price = 60_000 + self.rng.randrange(-4, 5) * 10
        order = buy(self.sides[side], price, side, amount=self.rng.choice([0.001, 0.003]))["order"]
        if order["order_state"] == "open":
            self.resting.append((side, order["order_id"]))

    def finish(self) -> None:
        """One trade and one level that every reader can recognise as the last."""
        for ws in self.sides.values():
            ws.result("private/cancel_all")
        buy(self.sides["sell"], LAST_TRADE, "sell")
        buy(self.sides["buy"], LAST_TRADE)
        buy(self.sides["buy"], LAST_LEVEL)

    def close(self) -> None:
        for ws in self.sides.values():
            ws.close()


def check_chain(resumed: list[Json], complete: list[Json]) -> None:
    """A resumed reader has a snapshot and then every change once, as a reader without a gap has."""
    published = {data["change_id"]: data for data in complete}
    assert resumed[0]["type"] == "snapshot" and {data["type"] for data in resumed[1:]} == {"change"}
    for before, now in itertools.pairwise(resumed):
        assert now["prev_change_id"] == before["change_id"], "a change is missing or repeated"
        assert now == published[now["change_id"]]
    assert resumed[-1]["change_id"] == max(published)


def is_finish(channel: str, data: Json) -> bool:
    if channel.startswith("trades."):
        return data[-1]["price"] == LAST_TRADE
    return any(price == LAST_LEVEL for _, price, _ in data["bids"])


def cut_off_again_and_again(readers: list[Reader], whole: Reader, market: Market, away_s: float = 0) -> None:
    """Cuts at random points, each for at least this time; readers get exactly the missed
    messages."""
    rng, missed = market.rng, 0
    for _ in range(CUTS):
        for reader in readers:
            reader.take_in(rng.choice([0, 1, 2, 5, 20]))
            reader.cut()
        for _ in range(rng.choice([0, 1, 10, 60])):
            market.act()
        time.sleep(away_s)
        for reader in readers:
            before = sum(map(len, reader.received.values()))
            reader.open()
            for channel, notice in reader.caught_up().items():
                assert notice["resumed"] and notice["by"] == "messages", (channel, notice)
            missed += sum(map(len, reader.received.values())) - before
        for _ in range(rng.choice([0, 20])):
            market.act()
        whole.take_in(10_000)
    assert missed >= CUTS, "hardly anything was missed: this shows nothing"


def test_reader_with_many_cuts_gets_the_messages_of_an_uncut_reader(tmp_path: Path) -> None:
    print(f"RESUME_SEED={SEED}")
    rng = random.Random(SEED)
    channels = [RAW, MERGED, TRADES, SLOW_TRADES]
    with Venue(tmp_path / "data", ["--no-flow"]) as venue:
        market = Market(venue, rng)
        whole = Reader(venue, channels, DEMO_A)
        whole.caught_up()
        cut = Reader(venue, channels, DEMO_B)
        # Without a login a delivery thread serves it.
        away = Reader(venue, [SLOW_TRADES, MERGED])
        for reader in (cut, away):
            assert {notice["reason"] for notice in reader.caught_up().values()} == {"new"}
        cut_off_again_and_again([cut, away], whole, market)
        market.finish()
        for reader in (cut, away, whole):
            reader.read_until(is_finish)
        market.close()
    for reader, book in ((cut, RAW), (cut, MERGED), (away, MERGED)):
        check_chain(reader.received[book], whole.received[book])
    for reader, channel in ((cut, TRADES), (cut, SLOW_TRADES), (away, SLOW_TRADES)):
        assert reader.trades(channel) == whole.trades(channel)
    assert len(whole.trades(TRADES)) > CUTS


def test_a_book_is_written_on_for_its_only_reader(quiet: Venue) -> None:
    with Ws(quiet.ws_url) as trader:
        trader.login(DEMO_A)
        reader = Reader(quiet, [RAW, MERGED], DEMO_B)
        reader.caught_up()
        buy(trader, 50_000)
        while not reader.received[RAW][1:]:
            reader.step()
        reader.cut()
        until(lambda: gauge(quiet, "open_connections") == 1, "it is gone")
        for price in (50_001, 50_002, 50_003):
            buy(trader, price)
        trader.result("private/pitwire_advance", {"ns": WINDOW_NS})
        buy(trader, 50_004)
        reader.open()
        notices = reader.caught_up()
        assert [notices[book]["resumed"] for book in (RAW, MERGED)] == [True, True]
        chain = reader.numbers(RAW)
        assert len(chain) == 6 and all(now[0] == before[1] for before, now in itertools.pairwise(chain))
        assert [data["bids"] for data in reader.received[RAW][2:]] == [
            [["new", price, 0.001]] for price in (50_001, 50_002, 50_003, 50_004)
        ]
        # One window has ended since; later events come with the next one.
        assert len(reader.numbers(MERGED)) == 2
        reader.cut()


@pytest.mark.parametrize("goes", ["late", "by_itself"])
def test_resume_from_a_dropped_message_begins_with_a_snapshot(quiet: Venue, goes: str) -> None:
    with Ws(quiet.ws_url) as trader:
        trader.login(DEMO_A)
        reader = Reader(quiet, [RAW], DEMO_B)
        reader.caught_up()
        if goes == "by_itself":
            # After an unsubscription nothing is kept for it.
            reader.ws.result("public/unsubscribe", {"channels": [RAW]})
        reader.cut()
        until(lambda: gauge(quiet, "open_connections") == 1, "it is gone")
        if goes == "late":
            trader.result("private/pitwire_advance", {"ns": 121_000_000_000})
            until(lambda: gauge(quiet, "open_channels") == 0, "no channel is kept open")
        buy(trader, 50_000)
        reader.open()
        notice = reader.caught_up()[RAW]
        assert (notice["resumed"], notice["by"], notice["reason"]) == (False, "snapshot", "too_old")
        assert reader.received[RAW][-1]["type"] == "snapshot"
        assert notice["token"].endswith(f":{reader.received[RAW][-1]['change_id']}")
        reader.cut()


def test_malformed_tokens_are_refused_and_unknown_ones_begin_anew(quiet: Venue) -> None:
    with Ws(quiet.ws_url) as ws:
        for bad in ["", "1", "x:1", "1:-1", "1:1:1", "1:1.", 5, {}, ["1:1"]]:
            with pytest.raises(RpcError) as refused:
                ws.result("public/subscribe", {"channels": [SLOW_TRADES], "resume": {SLOW_TRADES: bad}})
            error = refused.value.error
            assert error["code"] == -32602 and error["data"]["param"] == "resume", bad
            assert error["data"]["reason"] and error["data"]["remedy"]
        for bad in [SLOW_TRADES, [SLOW_TRADES], {"quote.BTC_USDC": None}]:
            with pytest.raises(RpcError, match="resume"):
                ws.result("public/subscribe", {"channels": [SLOW_TRADES], "resume": bad})
        many = [f"quote.{n}" for n in range(101)]
        with pytest.raises(RpcError, match="100"):
            ws.result("public/subscribe", {"channels": many, "resume": dict.fromkeys(many)})
        assert not ws.inbox
        quote = f"quote.{INSTRUMENT}"
        # A future position, a part of a number, another epoch, and a channel without numbers.
        for token, channel, by, reason in [
            ("1:999999", SLOW_TRADES, "nothing", "unknown"),
            ("1:0.7", SLOW_TRADES, "nothing", "unknown"),
            ("77:0", SLOW_TRADES, "nothing", "other_epoch"),
            ("1:999999", MERGED, "snapshot", "unknown"),
            ("77:0", MERGED, "snapshot", "other_epoch"),
            (None, quote, "snapshot", "not_numbered"),
            ("1:1", "trades.any.any.100ms", "nothing", "not_numbered"),
        ]:
            with Ws(quiet.ws_url) as other:
                assert other.result("public/subscribe", {"channels": [channel], "resume": {channel: token}}) == [
                    channel
                ]
                first = [other.receive() for _ in range(1 + (by == "snapshot"))]
                notice = first[-1]["params"]
                assert (notice["resumed"], notice["by"], notice["reason"]) == (False, by, reason), (token, channel)
        # A channel that is already subscribed continues.
        ws.subscribe(SLOW_TRADES)
        ws.result("public/subscribe", {"channels": [SLOW_TRADES], "resume": {SLOW_TRADES: "1:0"}})
        assert ws.receive()["params"]["reason"] == "already_subscribed"


def test_reader_on_a_delivery_thread_is_caught_up_there(quiet: Venue) -> None:
    other_trades = "trades.spot.any.100ms"
    with Ws(quiet.ws_url) as trader, Ws(quiet.ws_url) as other, listener(quiet, other_trades) as away:
        trader.login(DEMO_A)
        other.login(DEMO_B)

        def trade() -> None:
            buy(trader, 60_000)
            buy(other, 60_000, "sell")
            trader.result("private/pitwire_advance", {"ns": WINDOW_NS})

        for _ in range(5):
            trade()
        epoch = 1
        asked = {"channels": [SLOW_TRADES], "resume": {SLOW_TRADES: f"{epoch}:2"}}
        assert away.result("public/subscribe", asked) == [SLOW_TRADES]
        trade()
        arrived = [away.arrive()["params"] for _ in range(4)]
        assert gauge(quiet, "listeners") == 1, "it is still on its delivery thread"
        assert [params["channel"] for params in arrived[:2]] == [SLOW_TRADES] * 2
        assert [trade["trade_seq"] for trade in arrived[0]["data"]] == [3, 4, 5]
        assert arrived[1] == {"channel": SLOW_TRADES, "resumed": True, "by": "messages", "token": f"{epoch}:5"}
        assert [trade["trade_seq"] for params in arrived[2:] for trade in params["data"]] == [6, 6]
        assert {params["channel"] for params in arrived[2:]} == {SLOW_TRADES, other_trades}


def test_without_a_token_in_the_request_nothing_is_new(quiet: Venue) -> None:
    with Ws(quiet.ws_url) as ws, Ws(quiet.ws_url) as trader:
        trader.login(DEMO_A)
        ws.subscribe(MERGED)
        assert ws.receive()["params"]["data"]["type"] == "snapshot"
        buy(trader, 50_000)
        trader.result("private/pitwire_advance", {"ns": WINDOW_NS})
        message = ws.receive()
        assert message["method"] == "subscription" and set(message["params"]) == {"channel", "data"}


def test_later_start_sends_missed_trades_and_whole_books(tmp_path: Path) -> None:
    with Venue(tmp_path / "data", ["--no-flow"]) as venue:
        with Ws(venue.ws_url) as trader, Ws(venue.ws_url) as other:
            trader.login(DEMO_A)
            other.login(DEMO_B)
            reader = Reader(venue, [TRADES, MERGED], DEMO_A)
            reader.caught_up()

            def trade() -> None:
                buy(trader, 60_000)
                buy(other, 60_000, "sell")

            trade()
            while not reader.received[TRADES]:
                reader.step()
            reader.cut()
            for _ in range(150):
                trade()
        venue.kill()
        venue.start()
        reader.open()
        notices = reader.caught_up()
        assert notices[TRADES] | {"token": None} == {
            "channel": TRADES,
            "resumed": False,
            "by": "history",
            "reason": "other_epoch",
            "token": None,
        }
        assert (notices[MERGED]["by"], notices[MERGED]["reason"]) == ("snapshot", "other_epoch")
        assert [trade["trade_seq"] for trade in reader.trades(TRADES)] == list(range(1, 152))
        assert notices[TRADES]["token"] == "2:151"
        reader.cut()


def test_in_memory_every_start_is_another(tmp_path: Path) -> None:
    with Venue(tmp_path / "data", ["--no-flow", "--durability", "memory"]) as venue:
        reader = Reader(venue, [SLOW_TRADES, MERGED])
        reader.caught_up()
        reader.cut()
        venue.kill()
        venue.start()
        reader.open()
        reasons = {notice["reason"] for notice in reader.caught_up().values()}
        assert reasons == {"other_epoch"}
        reader.cut()


ORDERS, FILLS = "user.orders.any.any.raw", f"user.trades.{INSTRUMENT}.raw"
SLOW_ORDERS, SLOW_FILLS = f"user.orders.{INSTRUMENT}.100ms", "user.trades.spot.any.100ms"
CHANGES, SLOW_CHANGES = "user.changes.any.any.raw", f"user.changes.{INSTRUMENT}.100ms"


def orders_of(data: Any) -> list[Json]:
    """The orders in a message of user.orders or user.changes."""
    if isinstance(data, list):
        return data
    return data.get("orders", [data])


def is_own_finish(channel: str, data: Any) -> bool:
    if channel.startswith("user.trades"):
        return data[-1]["price"] == LAST_TRADE
    orders = orders_of(data)
    return any(order["price"] == LAST_LEVEL for order in orders)


def states(reader: Reader, channel: str) -> dict[str, Json]:
    """The last state of each order."""
    arrived = [order for data in reader.received[channel] for order in orders_of(data)]
    return {order["order_id"]: order for order in arrived}


def test_an_accounts_own_channels_lose_and_double_nothing_however_often_they_are_cut_off(tmp_path: Path) -> None:
    print(f"RESUME_SEED={SEED}")
    rng = random.Random(SEED)
    channels = [ORDERS, FILLS, SLOW_ORDERS, SLOW_FILLS, CHANGES, SLOW_CHANGES]
    with Venue(tmp_path / "data", ["--no-flow"]) as venue:
        market = Market(venue, rng)
        whole = Reader(venue, channels, DEMO_A)
        whole.caught_up()
        cut = Reader(venue, channels, DEMO_A)
        cut.caught_up()
        cut_off_again_and_again([cut], whole, market)
        market.finish()
        for reader in (cut, whole):
            reader.read_until(is_own_finish)
        market.close()
    assert cut.received[ORDERS] == whole.received[ORDERS] and len(whole.received[ORDERS]) > CUTS
    assert cut.received[FILLS] == whole.received[FILLS] and len(whole.received[FILLS]) > 0
    assert cut.trades(SLOW_FILLS) == whole.trades(SLOW_FILLS) == whole.trades(FILLS)
    assert states(cut, SLOW_ORDERS) == states(whole, SLOW_ORDERS)
    for channel in (CHANGES, SLOW_CHANGES):
        fills = [[fill for data in reader.received[channel] for fill in data["trades"]] for reader in (cut, whole)]
        assert fills[0] == fills[1] == whole.trades(FILLS), channel
        assert states(cut, channel) == states(whole, channel)


@pytest.mark.parametrize("durability", ["disk", "memory"])
def test_after_kill_9_the_fills_and_orders_that_were_missed_are_sent_from_history(
    tmp_path: Path, durability: str
) -> None:
    with Venue(tmp_path / "data", ["--no-flow", "--durability", durability]) as venue:
        reader = Reader(venue, [ORDERS, FILLS, SLOW_FILLS, CHANGES], DEMO_A)
        reader.caught_up()
        with Ws(venue.ws_url) as trader, Ws(venue.ws_url) as other:
            trader.login(DEMO_A)
            other.login(DEMO_B)
            stays = buy(trader, 50_000)["order"]["order_id"]
            goes = buy(trader, 50_010)["order"]["order_id"]

            def trade() -> None:
                buy(trader, 60_000)
                buy(other, 60_000, "sell")

            trade()
            while not reader.received[SLOW_FILLS]:
                reader.step()
            first = reader.trades(FILLS)[0]["trade_id"]
            reader.cut()
            trader.result("private/cancel", {"order_id": goes})
            for _ in range(130):
                trade()
        venue.kill()
        venue.start()
        received = {channel: len(arrived) for channel, arrived in reader.received.items()}
        reader.open()
        notices = reader.caught_up()
        by = {"disk": "history", "memory": "nothing"}[durability]
        for notice in notices.values():
            assert (notice["resumed"], notice["by"], notice["reason"]) == (False, by, "other_epoch")
        if durability == "memory":
            assert received == {channel: len(arrived) for channel, arrived in reader.received.items()}
            return
        for channel in (FILLS, SLOW_FILLS):
            # The last fill has the very time of the token: it comes again, and its id identifies
            # it.
            ids = [trade["trade_id"] for trade in reader.trades(channel)]
            assert len(set(ids)) == 131 and ids[0] == first and set(ids[1:]) - {first} == set(ids) - {first}
            assert len(ids) <= 132
        for channel in (ORDERS, CHANGES):
            arrived = states(reader, channel)
            assert arrived[goes]["order_state"] == "cancelled" and arrived[stays]["order_state"] == "open"
            assert sum(order["order_state"] == "filled" for order in arrived.values()) == 131
        ids = [fill["trade_id"] for data in reader.received[CHANGES] for fill in data["trades"]]
        assert len(set(ids)) == 131 and len(ids) <= 132
        # The subscription continues from there.
        with Ws(venue.ws_url) as trader:
            trader.login(DEMO_A)
            trader.result("private/cancel", {"order_id": stays})
            while states(reader, ORDERS)[stays]["order_state"] == "open":
                reader.step()
            reader.cut()
            more = buy(trader, 49_000)["order"]["order_id"]
            reader.open()
            assert reader.caught_up()[ORDERS]["by"] == "messages" and more in states(reader, ORDERS)
        reader.cut()


def test_notices_of_an_account_are_kept_for_a_while(quiet: Venue) -> None:
    with Ws(quiet.ws_url) as trader:
        trader.login(DEMO_A)
        reader = Reader(quiet, [ORDERS, "user.portfolio.any"], DEMO_A)
        assert reader.caught_up()["user.portfolio.any"]["reason"] == "not_numbered"
        first = buy(trader, 50_000)["order"]["order_id"]
        while not reader.received[ORDERS]:
            reader.step()
        reader.cut()
        until(lambda: gauge(quiet, "open_connections") == 1, "it is gone")
        reader.tokens = {ORDERS: reader.tokens[ORDERS]}
        kept = dict(reader.tokens)
        for step, (seconds, by) in enumerate([(100, "messages"), (250, "history")]):
            trader.result("private/pitwire_advance", {"ns": seconds * 1_000_000_000})
            order = buy(trader, 50_001 + step)["order"]["order_id"]
            reader.tokens = dict(kept)
            reader.open()
            notice = reader.caught_up()[ORDERS]
            assert notice["by"] == by, notice
            assert notice.get("reason") == (None if by == "messages" else "too_old")
            assert order in states(reader, ORDERS) and first in states(reader, ORDERS)
            reader.cut()
            until(lambda: gauge(quiet, "open_connections") == 1, "it is gone")
        # A token of another venue, and one of the future.
        for token, reason in [
            ("9:1", "other_epoch"),
            ("1:99999999999999999999", None),
            ("1:9999999999999999999", "unknown"),
        ]:
            with Ws(quiet.ws_url) as ws:
                ws.login(DEMO_A)
                answer = ws.call("private/subscribe", {"channels": [ORDERS], "resume": {ORDERS: token}})
                if reason is None:
                    assert answer["error"]["data"]["param"] == "resume"
                else:
                    assert ws.receive()["params"] | {"token": ""} == {
                        "channel": ORDERS,
                        "resumed": False,
                        "by": "nothing",
                        "reason": reason,
                        "token": "",
                    }
