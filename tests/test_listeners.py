"""Connections with only public subscriptions: served by delivery threads, with the same bytes and
rules."""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rpc import PATIENCE_S, Http, Json, RpcError, Ws, until
from venue import DEMO_A, DEMO_B, OPERATOR, Venue

CHANNELS = [
    "book.BTC_USDC.100ms",
    "book.BTC_USDC.agg2",
    "book.BTC_USDC.none.10.100ms",
    "trades.BTC_USDC.100ms",
    "trades.spot.any.100ms",
    "ticker.BTC_USDC.100ms",
    "quote.BTC_USDC",
    "chart.trades.BTC_USDC.1",
    "auction.BTC_USDC",
]


def gauge(venue: Venue, name: str) -> int:
    http = Http(venue.address)
    lines = http.get("/metrics").body.decode().splitlines()
    http.close()
    return int(next(line.split()[1] for line in lines if line.startswith(f"pitwire_{name} ")))


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[Venue]:
    """A venue with a manual clock."""
    with Venue(tmp_path / "data", extra=["--no-flow", "--clock", "manual"]) as venue:
        yield venue


def listener(venue: Venue, *channels: str) -> Ws:
    """A connection that a delivery thread serves."""
    before = gauge(venue, "listeners")
    ws = Ws(venue.ws_url)
    ws.subscribe(*channels)
    until(lambda: gauge(venue, "listeners") > before, "a connection that only listens leaves the loop")
    return ws


def buy(ws: Ws, price: float, amount: float = 0.0001, side: str = "buy", **more: Any) -> Json:
    return ws.result(f"private/{side}", {"instrument_name": "BTC_USDC", "price": price, "amount": amount} | more)


def texts_until(ws: Ws, mark: str) -> list[str]:
    """All notifications before the answer that contains `mark`."""
    texts = []
    while mark not in (text := ws.arrive_text()):
        texts.append(text)
    return texts


def test_handed_off_reader_gets_the_bytes_of_a_reader_on_the_loop(quiet: Venue) -> None:
    with (
        Ws(quiet.ws_url) as local,
        listener(quiet, *CHANNELS) as away,
        Ws(quiet.ws_url) as trader,
        Ws(quiet.ws_url) as other,
    ):
        local.login(DEMO_B)
        other.login(DEMO_B)
        local.subscribe(*CHANNELS)
        assert gauge(quiet, "listeners") == 1 and gauge(quiet, "open_connections") == 4
        trader.login(DEMO_A)
        received: list[list[str]] = [[], []]
        deltas = ("trades.BTC_USDC.100ms", "trades.spot.any.100ms", "book.BTC_USDC.100ms", "book.BTC_USDC.agg2")

        def lacks() -> bool:
            """Whether the second still lacks the last messages of the first."""
            lasts = [[[text for text in texts if f'"{name}"' in text][-1:] for name in CHANNELS] for texts in received]
            return lasts[0] != lasts[1]

        price = 60_000.0
        for step in range(40):
            buy(trader, price - 10 + step % 7 * 0.5, round(0.0001 * (1 + step % 3), 4))
            buy(other, price - 2 - step % 11 * 0.5, 0.0002, side="sell")
            trader.result("private/pitwire_advance", {"ns": 60_000_000})
            if step % 8 == 0:
                trader.result("private/cancel_all")
                other.result("private/cancel_all")
        trader.result("private/pitwire_advance", {"ns": 3_000_000_000})
        for ws, texts in zip((local, away), received, strict=True):
            mark = ws.post("public/get_time")
            texts += texts_until(ws, f'"id":{mark},')
            # A delivery thread may send more after the answer.
            deadline = time.monotonic() + PATIENCE_S
            while True:
                try:
                    texts.append(ws.arrive_text(timeout_s=0.5))
                except TimeoutError:
                    if ws is local or not lacks() or time.monotonic() > deadline:
                        break
        here, there = received
        for name in deltas:
            of = [[text for text in texts if f'"{name}"' in text] for texts in (here, there)]
            assert of[0] == of[1] and len(of[0]) >= 3, name
        chosen = [[text for text in texts if any(f'"{name}"' in text for name in deltas)] for texts in (here, there)]
        assert chosen[0] == chosen[1], "several channels are one stream to their reader"
        # A subscriber of a state channel gets at least the latest message: common messages are
        # equal, and both end alike.
        for name in set(CHANNELS) - set(deltas):
            of = [[text for text in texts if f'"{name}"' in text] for texts in (here, there)]
            assert of[0][-1:] == of[1][-1:], name
        assert len(set(here) & set(there)) > 20


def whole(messages: list[Json]) -> None:
    """Asserts that the common books and trades of both have neither gap nor repetition."""
    for name in ("book.NPN_ZAR.100ms", "book.BTC_USDC.100ms"):
        books = [message["data"] for message in messages if message["channel"] == name]
        if not books:
            continue
        assert books[0]["type"] == "snapshot" and all(book["type"] == "change" for book in books[1:])
        ids = [book["change_id"] for book in books]
        assert [book["prev_change_id"] for book in books[1:]] == ids[:-1], "the chain is whole"
    seqs: dict[str, list[int]] = {}
    for message in messages:
        for trade in message["data"] if message["channel"].startswith("trades.") else []:
            seqs.setdefault(trade["instrument_name"], []).append(trade["trade_seq"])
    assert seqs, "there were trades"
    for of in seqs.values():
        assert of == list(range(of[0], of[0] + len(of)))


def test_connection_gets_no_gap_and_no_duplicate_while_it_moves(venue: Venue) -> None:
    connections = []
    for at in range(12):
        ws = Ws(venue.ws_url)
        # They have one channel at the hand-over and subscribe to others later in the venue's
        # second.
        ws.subscribe("trades.spot.ZAR.100ms")
        time.sleep(0.013 * at % 0.1)
        ws.subscribe("trades.spot.USDC.100ms", *(["book.NPN_ZAR.100ms", "book.BTC_USDC.100ms"] if at % 3 == 0 else []))
        connections.append(ws)
    until(lambda: gauge(venue, "listeners") == 12, "who only listens leaves the loop")
    received: list[list[Json]] = []
    # Each channel has messages, for at least two seconds.
    enough = time.monotonic() + 2
    with Ws(venue.ws_url) as control:
        names = ["trades.spot.ZAR.100ms", "trades.spot.USDC.100ms"]
        control.subscribe(*names)
        for name in names * 4:
            control.notification(name)
    time.sleep(max(0.0, enough - time.monotonic()))
    for ws in connections:
        mark = ws.post("public/test")
        messages = [*ws.inbox]
        while (message := ws.arrive()).get("id") != mark:
            messages.append(message)
        received.append([message["params"] for message in messages if "params" in message])
        ws.close()
    for messages in received:
        whole(messages)


def test_requests_of_handed_off_readers_are_answered_as_on_the_loop(quiet: Venue) -> None:
    with listener(quiet, "ticker.BTC_USDC.100ms") as ws, Ws(quiet.ws_url) as local:
        assert ws.notification("ticker.BTC_USDC.100ms")["state"] == "open"
        assert ws.result("public/test")["version"]
        assert ws.result("public/set_heartbeat", {"interval": 30}) == "ok"
        assert ws.call("public/no_such_method")["error"]["code"] == -32601
        refused = [of.call("private/get_account_summaries")["error"]["code"] for of in (ws, local)]
        assert refused[0] == refused[1]
        ws.send("{")
        assert ws.arrive()["error"]["code"] == -32700
        with pytest.raises(RpcError):
            ws.subscribe("book.BTC_USDC.raw")
        # Answers follow the order of the requests, however many are in flight, and no connection is
        # closed.
        asked = [ws.post("public/get_order_book", {"instrument_name": "BTC_USDC"}) for _ in range(1_000)]
        answered = [ws.arrive()["id"] for _ in asked]
        assert answered == asked
        ws.send("x" * (40 * 1024))
        with pytest.raises(Exception, match="1009"):
            ws.arrive_text()
    until(lambda: gauge(quiet, "open_connections") == 0, "it has left")


def test_unsubscribing_elsewhere(quiet: Venue) -> None:
    channels = ["trades.BTC_USDC.100ms", "quote.BTC_USDC"]
    with listener(quiet, *channels) as ws, Ws(quiet.ws_url) as trader, Ws(quiet.ws_url) as other:
        trader.login(DEMO_A)
        other.login(DEMO_B)

        def trade() -> None:
            buy(trader, 60_000.0)
            buy(other, 60_000.0, side="sell")
            trader.result("private/pitwire_advance", {"ns": 200_000_000})

        trade()
        assert ws.notification("trades.BTC_USDC.100ms")
        assert ws.result("public/unsubscribe", {"channels": ["trades.BTC_USDC.100ms"]}) == ["trades.BTC_USDC.100ms"]
        trade()
        ws.notification("quote.BTC_USDC", lambda quote: quote["best_bid_amount"] == 0)
        ws.silence("trades.BTC_USDC.100ms", 0.3)
        # A new subscription starts with the next trade.
        ws.subscribe("trades.BTC_USDC.100ms")
        ws.inbox.clear()
        trade()
        last = ws.notification("trades.BTC_USDC.100ms")
        assert len({of["trade_seq"] for of in last}) == 1
        assert ws.result("public/unsubscribe_all") == "ok"
        trade()
        ws.silence("trades.BTC_USDC.100ms", 0.3)
        assert ws.result("public/test")
    assert gauge(quiet, "open_channels") == 0


def test_handed_off_reader_can_log_in_and_trade(quiet: Venue) -> None:
    with listener(quiet, "trades.BTC_USDC.100ms") as ws, Ws(quiet.ws_url) as other:
        other.login(DEMO_B)
        buy(other, 60_010.0, 0.001, side="sell")
        ws.login(DEMO_A)
        assert gauge(quiet, "listeners") == 1, "a connection that logs in later stays on its delivery thread"
        assert ws.result("private/enable_cancel_on_disconnect") == "ok"
        assert ws.subscribe("user.orders.BTC_USDC.raw", "user.trades.BTC_USDC.raw", scope="private")
        mark = ws.post("private/buy", {"instrument_name": "BTC_USDC", "price": 60_020.0, "amount": 0.0005})
        texts = [ws.arrive() for _ in range(3)]
        assert texts[0].get("id") == mark, "the answer goes before what it caused"
        assert {text["params"]["channel"] for text in texts[1:]} == {
            "user.orders.BTC_USDC.raw",
            "user.trades.BTC_USDC.raw",
        }
        other.result("private/pitwire_advance", {"ns": 200_000_000})
        assert ws.notification("trades.BTC_USDC.100ms")
        # It also hears of trades with its orders.
        resting = buy(ws, 59_000.0, 0.001)["order"]["order_id"]
        buy(other, 59_000.0, 0.0004, side="sell")
        chosen = ws.notification("user.orders.BTC_USDC.raw", lambda order: order["filled_amount"] == 0.0004)
        assert chosen["order_id"] == resting
        # It disconnects without a close frame: its orders are cancelled.
        ws.close()
    with Ws(quiet.ws_url) as again:
        again.login(DEMO_A)
        state = {"order_id": resting}
        until(
            lambda: again.result("private/get_order_state", state)["order_state"] == "cancelled",
            "orders are cancelled when their connection ends",
        )


def test_late_login_causes_no_gap_and_no_duplicate(venue: Venue) -> None:
    channels = ["trades.spot.ZAR.100ms", "trades.spot.USDC.100ms", "quote.NPN_ZAR", "book.NPN_ZAR.100ms"]
    received: list[list[Json]] = []
    for at in range(5):
        ws = listener(venue, *channels)
        time.sleep(0.03 * at)
        # More requests than the venue thread acts on in one turn.
        login = {"grant_type": "client_credentials", "client_id": DEMO_A.client_id, "client_secret": DEMO_A.secret}
        asked = [ws.post("public/auth", login), *(ws.post("public/test") for _ in range(100))]
        asked.append(ws.post("private/subscribe", {"channels": ["ticker.NPN_ZAR.raw"]}))
        messages: list[Json] = [*ws.inbox]
        # Trades follow the order flow: the test waits for one and never for a length of time.
        awaited = {*asked, "ticker.NPN_ZAR.raw", "trade"}
        enough = time.monotonic() + 0.7
        while awaited or time.monotonic() < enough:
            messages.append(ws.arrive())
            channel = messages[-1].get("params", {}).get("channel", "")
            awaited -= {messages[-1].get("id"), channel, *(["trade"] if channel.startswith("trades.") else [])}
        assert [message["id"] for message in messages if "id" in message] == asked
        assert any(message.get("params", {}).get("channel") == "ticker.NPN_ZAR.raw" for message in messages)
        received.append([message["params"] for message in messages if "params" in message])
        ws.close()
    for messages in received:
        whole(messages)


def test_requests_before_the_close_frame_are_executed(quiet: Venue) -> None:
    with listener(quiet, "trades.BTC_USDC.100ms") as ws:
        ws.login(DEMO_A)
        for _ in range(50):
            ws.post("private/buy", {"instrument_name": "BTC_USDC", "price": 59_000.0, "amount": 0.0001})
        ws.close()
    with Ws(quiet.ws_url) as again:
        again.login(DEMO_A)
        until(
            lambda: len(again.result("private/get_open_orders_by_instrument", {"instrument_name": "BTC_USDC"})) == 50,
            "fifty orders rest",
        )


def test_logout_of_a_handed_off_reader_closes_its_connection(quiet: Venue) -> None:
    with listener(quiet, "trades.BTC_USDC.100ms") as ws:
        ws.login(DEMO_A)
        assert ws.result("private/logout") == "ok"
        with pytest.raises(Exception, match="1000"):
            ws.arrive_text()
    until(lambda: gauge(quiet, "open_connections") == 0, "it has left")


def test_stopping_venue_is_reported(tmp_path: Path) -> None:
    with Venue(tmp_path / "data", extra=["--no-flow"]) as venue, listener(venue, "trades.BTC_USDC.100ms") as ws:
        assert venue.stop() == 0
        assert ws.arrive()["method"] == "logout"
        with pytest.raises(Exception, match="1001"):
            while True:
                json.loads(ws.arrive_text())


def test_connection_with_private_channels_is_not_handed_off(quiet: Venue) -> None:
    with Ws(quiet.ws_url) as trader, Ws(quiet.ws_url) as operator, Ws(quiet.ws_url) as idle:
        trader.login(DEMO_A)
        trader.subscribe("trades.BTC_USDC.100ms", scope="private")
        operator.login(OPERATOR)
        operator.subscribe("drop_copy.any", scope="private")
        idle.result("public/test")
        time.sleep(0.1)
        assert gauge(quiet, "listeners") == 0 and gauge(quiet, "open_connections") == 3
