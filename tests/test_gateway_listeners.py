"""Plain subscribers of a gateway with a real nats-server: on delivery threads, and resumed with
tokens."""

import itertools
import json
import os
import random
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from nats_server import Server
from rpc import RpcError, Ws, until
from test_gateway import CHANNELS, DELTAS, PATIENCE_S, Control, Gateway, place_in, threads_of
from test_resume import CUTS, Market, Reader, check_chain, cut_off_again_and_again, is_finish
from venue import DEMO_A, Venue
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

SEED = int(os.environ.get("RESUME_SEED", time.time_ns()))
BOOK, TRADES = "book.BTC_USDC.100ms", "trades.BTC_USDC.100ms"


class Around:
    """The addresses of the venue and its gateways, in random order."""

    def __init__(self, urls: list[str], rng: random.Random) -> None:
        self.urls, self.rng = urls, rng

    @property
    def ws_url(self) -> str:
        return self.rng.choice(self.urls)


@pytest.fixture
def nats(tmp_path: Path) -> Iterator[Server]:
    running = Server(tmp_path)
    yield running
    running.stop()


def test_listeners_on_delivery_threads_get_all_messages(tmp_path: Path, nats: Server) -> None:
    """Subscriptions beside other methods, forwarded or answered, up to the goodbye."""
    with ExitStack() as stack:
        venue = stack.enter_context(Venue(tmp_path / "data", extra=["--publish", nats.url, "--speed", "5"]))
        gateway = stack.enter_context(Gateway(tmp_path, "gateway", nats.url, venue.data / "bus.key"))
        control = Control(venue.ws_url, DELTAS)
        mirrors = [Control(gateway.url(), DELTAS) for _ in range(20)]
        until(
            lambda: all(len(mirror.texts[name]) > 4 for mirror in mirrors for name in DELTAS), "too little has arrived"
        )
        assert any(name.startswith("delivery-") for name in threads_of(gateway))
        received = [mirror.end() for mirror in mirrors]
        texts = control.end_behind(*received)
        for mirrored, channel in itertools.product(received, DELTAS):
            place_in(mirrored[channel][1 if channel.startswith("book") else 0 :], texts[channel])
        ws = stack.enter_context(Ws(gateway.url()))
        assert ws.result("public/subscribe", {"channels": CHANNELS}) == CHANNELS
        assert ws.result("public/ticker", {"instrument_name": "BTC_USDC"})["instrument_name"] == "BTC_USDC"
        assert ws.result("public/unsubscribe", {"channels": CHANNELS[1:]}) == CHANNELS[1:]
        with pytest.raises(RpcError, match="10048"):
            ws.result("private/buy", {})
        ws.result("public/set_heartbeat", {"interval": 10})
        # Messages sent before the unsubscription may still arrive; after an answer they do not.
        assert ws.result("public/test")["version"]
        ws.inbox.clear()
        assert [ws.arrive(PATIENCE_S)["params"]["channel"] for _ in range(5)] == CHANNELS[:1] * 5
        assert ws.result("public/unsubscribe_all") == "ok"
        # Raw channels need a login.
        with pytest.raises(RpcError, match="login"):
            ws.result("public/subscribe", {"channels": ["book.BTC_USDC.raw"]})
        ws.login(DEMO_A)
        assert ws.result("public/subscribe", {"channels": ["book.BTC_USDC.raw"]}) == ["book.BTC_USDC.raw"]
        with connect(gateway.url(f"?channels={BOOK}"), compression=None, close_timeout=1) as last:
            assert BOOK in str(last.recv(timeout=PATIENCE_S))
            assert gateway.end(signal.SIGTERM) == 0
            texts = []
            with pytest.raises(ConnectionClosed) as closed:
                while True:
                    texts.append(str(last.recv(timeout=PATIENCE_S)))
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 1001
            assert any("the gateway is stopping" in text for text in texts)


def test_reader_resumes_at_venue_or_gateway_without_a_gap(tmp_path: Path, nats: Server) -> None:
    """Cut at random points, and resumed with the tokens at that point."""
    print(f"RESUME_SEED={SEED}")
    rng = random.Random(SEED)
    with ExitStack() as stack:
        venue = stack.enter_context(Venue(tmp_path / "data", extra=["--publish", nats.url, "--no-flow"]))
        gateways = [
            stack.enter_context(Gateway(tmp_path, name, nats.url, venue.data / "bus.key")) for name in ("one", "two")
        ]
        market = Market(venue, rng)
        whole = Reader(venue, [BOOK, TRADES])
        whole.caught_up()
        places: list[Any] = [Around([venue.ws_url, *(gateway.url() for gateway in gateways)], rng)]
        places.append(Around([gateway.url() for gateway in gateways], rng))
        cut = [Reader(place, [BOOK, TRADES]) for place in places]
        for reader in cut:
            assert {notice["reason"] for notice in reader.caught_up().values()} == {"new"}
        # A window and the way over the bus; otherwise little is missed.
        cut_off_again_and_again(cut, whole, market, away_s=0.15)
        market.finish()
        for reader in [*cut, whole]:
            reader.read_until(is_finish)
        market.close()
        # Tokens of unknown channels, of a state channel, and none.
        ws = stack.enter_context(Ws(gateways[0].url()))
        asked = {BOOK: f"{whole.epoch}:99999999", "quote.BTC_USDC": "1:1", TRADES: None}
        assert ws.result("public/subscribe", {"channels": list(asked), "resume": asked}) == list(asked)
        messages = [ws.arrive(PATIENCE_S) for _ in range(5)]
        notices = {one["params"]["channel"]: one["params"] for one in messages if one["method"] == "pitwire_resume"}
        assert {name: notice["reason"] for name, notice in notices.items()} == {
            BOOK: "unknown",
            "quote.BTC_USDC": "not_numbered",
            TRADES: "new",
        }
        again = {"channels": [BOOK], "resume": {BOOK: None}}
        assert ws.result("public/subscribe", again) == [BOOK]
        assert ws.arrive(PATIENCE_S)["params"]["reason"] == "already_subscribed"
        # An impossible channel name is not sent to the venue, and an unknown one gets an answer.
        with pytest.raises(RpcError, match="-32602"):
            odd = "trades.any -\nquote.any.100ms"
            ws.result("public/subscribe", {"channels": [odd], "resume": {odd: None}})
        spaced = "trades.any.no such.100ms"
        assert ws.result("public/subscribe", {"channels": [spaced], "resume": {spaced: None}}) == []
        assert "refuses" not in gateways[0].log.read_text()
        for bad in ("x", f"{whole.epoch}", 7):
            with pytest.raises(RpcError, match="resume"):
                ws.result("public/subscribe", {"channels": [BOOK], "resume": {BOOK: bad}})
    for reader in cut:
        check_chain(reader.received[BOOK], whole.received[BOOK])
        assert reader.trades(TRADES) == whole.trades(TRADES)
    assert len(whole.trades(TRADES)) > CUTS


def test_lagging_reader_on_a_delivery_thread_gets_all_stored_messages(tmp_path: Path, nats: Server) -> None:
    """A client that reads nothing for a while, and one that resumes: nothing missing, nothing
    twice."""
    raw = [f"{kind}.{name}.raw" for kind in ("book", "trades") for name in ("BTC_USDC", "BTC-PERPETUAL")]
    with ExitStack() as stack:
        venue = stack.enter_context(Venue(tmp_path / "data", extra=["--publish", nats.url, "--speed", "100"]))
        gateway = stack.enter_context(Gateway(tmp_path, "gateway", nats.url, venue.data / "bus.key"))
        whole = stack.enter_context(Ws(gateway.url("?envelope")))
        whole.login(DEMO_A)
        # One after the other, so that no token is out of date when it is answered.
        assert [whole.subscribe(name) for name in raw] == [[name] for name in raw]
        received: dict[str, list[str]] = {name: [] for name in raw}
        host, port = gateway.address.rsplit(":", 1)
        narrow = socket.socket()
        narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        narrow.connect((host, int(port)))
        stalled = stack.enter_context(Ws(gateway.url(), narrow))
        stalled.login(DEMO_A)
        assert stalled.subscribe(*raw) == raw
        size = 0

        def hear() -> int:
            """A message with its position; snapshots do not count."""
            nonlocal size
            while "prev" not in (messages := whole.arrive()):
                assert "snapshot" in messages or not received[messages["channel"]], messages
            params = messages["message"]["params"]
            size += len(json.dumps(params))
            received[params["channel"]].append(params["data"])
            return int(messages["seq"])

        place = f"{gateway.health()['epoch']}:{[hear() for _ in range(100)][-1]}"
        received, size = {name: [] for name in raw}, 0
        while size < 5 << 20:
            hear()
        assert any(name.startswith("delivery-") for name in threads_of(gateway))
        reader = stack.enter_context(Ws(gateway.url()))
        reader.login(DEMO_A)
        assert reader.result("public/subscribe", {"channels": raw, "from": place}) == raw
        for ws in (reader, stalled):
            messages: dict[str, list[Any]] = {name: [] for name in raw}
            while any(not messages[name] or messages[name][-1] not in received[name][-1:] for name in raw):
                params = ws.arrive(PATIENCE_S)["params"]
                data, name = params["data"], params["channel"]
                if "snapshot" not in json.dumps(data) and (
                    not messages[name] or messages[name][-1] != received[name][-1]
                ):
                    messages[name].append(data)
            for name in raw:
                # One of them subscribed earlier or a little later.
                begin = messages[name].index(received[name][0]) if received[name][0] in messages[name] else 0
                since = received[name].index(messages[name][begin])
                assert messages[name][begin:] == received[name][since:] and (ws is stalled or begin == since == 0), name
        assert max(len(json.dumps(received[name])) for name in raw) > 1 << 20, "more than half of a ring"
