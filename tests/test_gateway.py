"""`pitwire up --publish` and `pitwire gateway` with a real nats-server: equal bytes, despite
faults."""

import asyncio
import itertools
import json
import os
import re
import signal
import ssl
import subprocess
import threading
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import nats
import pytest
from nats_server import Server
from rpc import Http, RpcError, Ws, until
from venue import BINARY, DEMO_A, Venue, run_pitwire
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

PATIENCE_S = 60.0
SUBJECT = "pitwire.public"
CHANNELS = [
    "book.NPN_ZAR.100ms",
    "book.BTC_USDC.100ms",
    "trades.NPN_ZAR.100ms",
    "trades.BTC_USDC.100ms",
    "book.BTC-PERPETUAL.none.10.100ms",
    "quote.BTC_USDC",
]
# Channels on which every message counts. On the others a subscriber gets the latest.
DELTAS = [channel for channel in CHANNELS if re.match(r"(book\.[^.]*|trades\.[^.]*)\.100ms$", channel)]


@dataclass
class Gateway:
    """`pitwire gateway` on a free port."""

    place: Path
    name: str
    upstream: str
    key: Path
    extra: list[str] = field(default_factory=list)
    address: str = ""
    process: subprocess.Popen[bytes] | None = None

    def start(self, wait: bool = True) -> "Gateway":
        ready = self.place / f"{self.name}.ready"
        ready.unlink(missing_ok=True)
        command = [BINARY, "gateway", "--upstream", self.upstream, "--http", self.address or "127.0.0.1:0"]
        command += ["--bus-key", self.key, "--ready-file", ready, "--json", *self.extra]
        with self.log.open("ab") as log, self.out.open("wb") as out:
            self.process = subprocess.Popen(command, stdout=out, stderr=log, stdin=subprocess.DEVNULL)
        if wait:
            until(ready.exists, f"{self.name} is not ready: {self.tail()}")
            frame = json.loads(ready.read_text())
            assert frame["pid"] == self.process.pid
            self.address = frame["http"]
        return self

    @property
    def log(self) -> Path:
        return self.place / f"{self.name}.log"

    @property
    def out(self) -> Path:
        return self.place / f"{self.name}.out"

    def tail(self) -> str:
        return self.log.read_text(errors="replace")[-3000:] if self.log.exists() else ""

    def url(self, query: str = "") -> str:
        return f"ws://{self.address}/ws/api/v2{query}"

    def health(self) -> dict[str, Any]:
        return Http(self.address).get("/healthz").json()

    def metric(self, name: str) -> int:
        text = Http(self.address).get("/metrics").body.decode()
        return int(re.search(rf"^pitwire_gateway_{name} (\d+)$", text, re.M)[1])

    def end(self, how: signal.Signals) -> int:
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(how)
        return self.process.wait(PATIENCE_S)

    def __enter__(self) -> "Gateway":
        return self.start()

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.end(signal.SIGKILL)


@pytest.fixture
def venue(tmp_path: Path, server: Server) -> Iterator[Venue]:
    with Venue(tmp_path / "data", extra=["--publish", server.url, "--speed", "5"]) as running:
        yield running


@pytest.fixture
def gateway(tmp_path: Path, server: Server, venue: Venue) -> Iterator[Gateway]:
    with Gateway(tmp_path, "gateway", server.url, venue.data / "bus.key") as running:
        yield running


class Control(threading.Thread):
    """A subscriber of the venue itself, whose messages are the reference."""

    def __init__(self, url: str, channels: list[str], trust: ssl.SSLContext | None = None) -> None:
        super().__init__(daemon=True)
        self.texts: dict[str, list[str]] = defaultdict(list)
        self._connection = connect(url, ssl=trust, compression=None, max_size=None, open_timeout=60).__enter__()
        request = {"jsonrpc": "2.0", "id": 1, "method": "public/subscribe", "params": {"channels": channels}}
        self._connection.send(json.dumps(request))
        assert json.loads(self._connection.recv())["result"] == channels
        self.start()

    def run(self) -> None:
        with suppress(ConnectionClosed):
            while True:
                text = self._connection.recv()
                self.texts[json.loads(text)["params"]["channel"]].append(text)

    def end_behind(self, *others: dict[str, list[str]]) -> dict[str, list[str]]:
        """Ends once it has the messages that others have received."""

        def has_all() -> bool:
            return all(
                received[-1] in self.texts[name] for other in others for name, received in other.items() if received
            )

        until(has_all, "the venue's own subscriber does not get what others have")
        return self.end()

    def end(self) -> dict[str, list[str]]:
        self._connection.close()
        self.join()
        return self.texts


@dataclass
class ReceivedChannel:
    """One channel as a client with envelopes has it."""

    place: tuple[int, int] | None = None
    messages: list[str] = field(default_factory=list)
    snapshots: int = 0
    gaps: list[dict[str, int]] = field(default_factory=list)


class Client:
    """Subscribes with envelopes, checks every number, and moves to another gateway on failure."""

    def __init__(self, gateways: list[Gateway], channels: list[str]) -> None:
        self.gateways = gateways
        self.received = {channel: ReceivedChannel() for channel in channels}
        self.moves = 0
        self.errors: list[BaseException] = []
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self) -> None:
        turn = 0
        while not self.stopping.is_set():
            gateway = self.gateways[turn % len(self.gateways)]
            try:
                with connect(gateway.url("?envelope"), compression=None, max_size=None, open_timeout=5) as connection:
                    self._subscribe(connection)
                    while not self.stopping.is_set():
                        with suppress(TimeoutError):
                            self._take(connection.recv(timeout=0.1))
            except (OSError, ConnectionClosed, TimeoutError):
                turn += 1
                self.moves += 1
                time.sleep(0.02)
            except BaseException as error:
                self.errors.append(error)
                return

    def _subscribe(self, connection: Any) -> None:
        for channel, received in self.received.items():
            params: dict[str, Any] = {"channels": [channel]}
            if received.place is not None:
                params["from"] = f"{received.place[0]}:{received.place[1]}"
            connection.send(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "public/subscribe", "params": params}))

    def _take(self, text: str) -> None:
        frame = json.loads(text)
        if frame.get("error", {}).get("code") == 10040:
            # The gateway has just started: try another one, or this one again.
            raise OSError(frame["error"]["data"]["reason"])
        if "id" in frame:
            assert "result" in frame, frame
            return
        if frame.get("type") == "gap":
            received = self.received[frame["channel"]]
            received.gaps.append(frame)
            received.place = (frame["epoch"], frame["to"])
            return
        if frame.get("type") == "epoch":
            # Earlier messages no longer count.
            for received in self.received.values():
                received.place = None
                received.messages.clear()
            return
        received = self.received[frame["message"]["params"]["channel"]]
        raw = text[text.index('"message":') + len('"message":') : -1]
        if frame.get("snapshot"):
            received.snapshots += 1
            received.messages.clear()
        else:
            channel = frame["message"]["params"]["channel"]
            if received.place is not None and channel in DELTAS:
                epoch, seq = received.place
                assert frame["epoch"] == epoch and frame["seq"] > seq, f"{channel}: {frame['seq']} after {seq}"
                # A position may lie between two messages of the channel.
                assert frame["prev"] <= seq, (
                    f"{channel}: {frame['prev']} before {frame['seq']} did not arrive; had {seq}"
                )
            received.messages.append(raw)
        received.place = (frame["epoch"], frame["seq"])

    def wait(self, count: int) -> None:
        def enough() -> bool:
            assert not self.errors, self.errors
            return all(len(self.received[channel].messages) >= count for channel in DELTAS)

        until(
            enough,
            f"too little has arrived: { {name: len(received.messages) for name, received in self.received.items()} }",
        )

    def deltas(self) -> dict[str, list[str]]:
        return {channel: self.received[channel].messages for channel in DELTAS}

    def end(self) -> None:
        self.stopping.set()
        self.thread.join(PATIENCE_S)
        if self.errors:
            raise self.errors[0]


def place_in(part: list[str], whole: list[str]) -> int:
    """Finds a run of messages in the venue's own sequence, unbroken."""
    assert part, "nothing arrived"
    start = whole.index(part[0])
    assert whole[start : start + len(part)] == part, "not the venue's own messages, whole and in order"
    return start


def test_clients_of_a_killed_gateway_go_on_at_another_without_gap_or_duplicate(
    tmp_path: Path, server: Server, venue: Venue
) -> None:
    control = Control(venue.ws_url, CHANNELS)
    key = venue.data / "bus.key"
    with Gateway(tmp_path, "one", server.url, key) as one, Gateway(tmp_path, "two", server.url, key) as two:
        movers = [Client([one, two], CHANNELS) for _ in range(6)]
        stayers = [Client([two, one], DELTAS) for _ in range(2)]
        for client in movers:
            client.wait(5)
        one.end(signal.SIGKILL)
        # Not before they have read everything that the killed gateway still sent.
        until(lambda: all(client.moves for client in movers), "they do not go elsewhere")
        most = max(len(client.received[channel].messages) for client in movers + stayers for channel in DELTAS)
        for client in movers + stayers:
            client.wait(most + 10)
        for client in movers + stayers:
            client.end()
        assert all(client.moves >= 1 for client in movers) and all(client.moves == 0 for client in stayers)
        texts = control.end_behind(*(client.deltas() for client in movers + stayers))
        for client in movers + stayers:
            for channel in DELTAS:
                received = client.received[channel]
                assert not received.gaps and received.snapshots <= 1, (
                    f"{channel}: a resumed channel begins no second time"
                )
                place_in(received.messages, texts[channel])
        assert two.metric("restarts_total") == 0 and two.metric("forged_total") == 0


def test_restarted_gateway_resumes_messages_that_it_never_received(
    tmp_path: Path, server: Server, venue: Venue
) -> None:
    """A gateway that starts later gets earlier messages from the venue."""
    control = Control(venue.ws_url, CHANNELS)
    with Gateway(tmp_path, "one", server.url, venue.data / "bus.key") as one:
        client = Client([one], CHANNELS)
        client.wait(5)
        one.end(signal.SIGKILL)
        time.sleep(1)
        one.start()
        client.wait(25)
        client.end()
        assert client.moves >= 1 and one.metric("filled_total") > 0
        texts = control.end_behind(client.deltas())
        for channel in DELTAS:
            assert not client.received[channel].gaps and client.received[channel].snapshots <= 1
            place_in(client.received[channel].messages, texts[channel])


def test_the_plain_dialect_is_the_venues_byte_for_byte(venue: Venue, gateway: Gateway) -> None:
    control = Control(venue.ws_url, CHANNELS)
    mirror = Control(gateway.url(), CHANNELS)
    until(lambda: all(len(mirror.texts[channel]) > 8 for channel in DELTAS), "nothing has arrived at the gateway")
    mirrored = mirror.end()
    texts = control.end_behind({channel: mirrored[channel] for channel in DELTAS})
    for channel in DELTAS:
        skipped = 1 if channel.startswith("book") else 0
        place_in(mirrored[channel][skipped:], texts[channel])
    for channel in DELTAS[:2]:
        first, *changes = (json.loads(text)["params"]["data"] for text in mirrored[channel])
        assert first["type"] == "snapshot"
        chain = [first["change_id"], *(change["change_id"] for change in changes)]
        assert [change["prev_change_id"] for change in changes] == chain[:-1], "a beginning and its changes meet"


def test_late_subscriber_gets_a_book_to_which_the_changes_apply(gateway: Gateway) -> None:
    """Many clients join one channel at different times; each chain is complete."""
    for number in range(12):
        with Ws(gateway.url()) as ws:
            assert ws.subscribe("book.BTC_USDC.100ms") == ["book.BTC_USDC.100ms"]
            first = ws.notification("book.BTC_USDC.100ms")
            assert first["type"] == "snapshot" and first["bids"] and first["asks"], number
            last = first["change_id"]
            for _ in range(3):
                change = ws.notification("book.BTC_USDC.100ms")
                assert change["type"] == "change" and change["prev_change_id"] == last
                last = change["change_id"]
    assert gateway.metric("joins_total") < 12, "beginnings are kept for a while"


def test_methods_are_answered_passed_on_or_refused_by_name(venue: Venue, gateway: Gateway) -> None:
    with Ws(gateway.url()) as ws:
        assert ws.result("public/hello", {"client_name": "t", "client_version": "1"})["version"]
        assert ws.result("public/test")["version"] == ws.result("public/hello")["version"]
        assert ws.result("public/set_heartbeat", {"interval": 10}) == "ok"
        assert ws.result("public/disable_heartbeat") == "ok"
        assert len(ws.result("public/get_instruments", {"currency": "any"})) == 11
        with pytest.raises(RpcError) as refused:
            ws.result("private/buy", {"instrument_name": "NPN_ZAR", "amount": 1, "type": "market"})
        assert refused.value.code == 10048 and venue.address in refused.value.error["data"]["reason"]
        for channels, code in [
            (["user.orders.NPN_ZAR.raw"], 10048),
            (["drop_copy.any"], 10048),
            (["nonsense"], -32602),
            (["book.NPN_ZAR.raw"], 13778),
        ]:
            with pytest.raises(RpcError) as refused:
                ws.subscribe(*channels)
            assert refused.value.code == code, channels
        assert ws.subscribe("book.NO_SUCH.100ms", "nonsense", "quote.NPN_ZAR") == ["quote.NPN_ZAR"]
        assert ws.subscribe("trades.none.any.100ms", "trades.spot.ZAR.100ms") == ["trades.spot.ZAR.100ms"]
        assert ws.result("public/unsubscribe", {"channels": ["quote.NPN_ZAR"]}) == ["quote.NPN_ZAR"]
        assert ws.result("public/unsubscribe_all") == "ok"
        ws.login(DEMO_A)
        assert ws.subscribe("book.NPN_ZAR.raw") == ["book.NPN_ZAR.raw"]
        assert ws.notification("book.NPN_ZAR.raw")["type"] == "snapshot"
        with pytest.raises(RpcError) as refused:
            ws.result("public/subscribe", {"channels": ["quote.NPN_ZAR"], "from": "yesterday"})
        assert refused.value.code == -32602 and "EPOCH:SEQ" in refused.value.error["data"]["reason"]
    http = Http(gateway.address)
    assert http.result("public/get_order_book", {"instrument_name": "NPN_ZAR"})["instrument_name"] == "NPN_ZAR"
    frame = http.post("/api/v2", {"jsonrpc": "2.0", "id": 77, "method": "public/get_time", "params": {}}).json()
    assert frame["id"] == 77 and frame["result"] > 0
    reply = http.get("/api/v2/private/get_positions")
    assert reply.status == 400 and reply.json()["error"]["code"] == 10048
    assert http.get("/nowhere").status == 404
    assert http.get("/bus/status").status == 404, "the bus is the venue's"


def trade_ids(messages: list[str]) -> set[str]:
    return {trade["trade_id"] for text in messages for trade in json.loads(text)["params"]["data"]}


def rogue(server: Server, messages: list[bytes]) -> None:
    async def publish() -> None:
        connection = await nats.connect(server.url)
        for message in messages:
            await connection.publish(SUBJECT, message)
        await connection.flush()
        await connection.close()

    asyncio.run(publish())


def recorded(server: Server, count: int) -> list[bytes]:
    async def listen() -> list[bytes]:
        connection = await nats.connect(server.url)
        subscription = await connection.subscribe(SUBJECT)
        found: list[bytes] = []
        while len(found) < count:
            message = await subscription.next_msg(timeout=PATIENCE_S)
            # Marks are empty batches.
            if message.data[20:24] != b"\0\0\0\0":
                found.append(message.data)
        await connection.close()
        return found

    return asyncio.run(listen())


def test_a_rogue_publisher_is_ignored(server: Server, venue: Venue, gateway: Gateway) -> None:
    control = Control(venue.ws_url, CHANNELS)
    client = Client([gateway], CHANNELS)
    client.wait(3)
    true = recorded(server, 5)
    health = gateway.health()
    changed = bytearray(true[-1])
    changed[-40] ^= 1
    ahead = bytearray(true[-1])
    ahead[12:20] = (health["sequence"] + 1_000_000).to_bytes(8, "little")
    later = bytearray(true[-1])
    later[4:12] = (health["epoch"] + 1).to_bytes(8, "little")
    forged = [b"", b"x", os.urandom(500), bytes(changed), bytes(ahead), bytes(later), true[-1][:-1], true[-1] + b"x"]
    before = gateway.metric("repeated_total")
    rogue(server, forged)
    # A recorded message is authentic but not new.
    rogue(server, true)
    until(lambda: gateway.metric("forged_total") == len(forged), "forgeries are counted")
    until(lambda: gateway.metric("repeated_total") >= before + len(true), "so are repetitions")
    client.wait(len(client.received[DELTAS[0]].messages) + 5)
    client.end()
    until(lambda: gateway.health()["status"] == "ok" and gateway.metric("restarts_total") == 0, "nothing has changed")
    texts = control.end_behind(client.deltas())
    for channel in DELTAS:
        assert not client.received[channel].gaps
        place_in(client.received[channel].messages, texts[channel])


def test_a_restarted_venue_is_a_new_epoch_and_a_recording_of_the_old_one_changes_nothing(
    server: Server, venue: Venue, gateway: Gateway
) -> None:
    client = Client([gateway], CHANNELS)
    client.wait(3)
    old = recorded(server, 5)
    epoch = gateway.health()["epoch"]
    query = "?channels=book.NPN_ZAR.100ms,trades.NPN_ZAR.100ms"
    plain = connect(gateway.url(query), compression=None).__enter__()
    assert json.loads(plain.recv(timeout=PATIENCE_S))["params"]["data"]["type"] == "snapshot"
    address = venue.address
    venue.kill()
    traded = trade_ids(client.received["trades.BTC_USDC.100ms"].messages)
    until(lambda: gateway.health()["status"] in ("venue_silent", "venue_away"), "it says that the venue is away")
    venue.start()
    assert venue.address != address, "it says itself over the bus where it is now"
    until(lambda: gateway.health()["status"] == "ok", f"it follows the new start: {gateway.tail()}")
    assert gateway.health()["epoch"] > epoch
    # Messages of a gateway survive a kill -9 of the venue: they were on disk first.
    query = {"instrument_name": "BTC_USDC", "count": 1000}
    kept = {
        trade["trade_id"]
        for trade in Http(venue.address).result("public/get_last_trades_by_instrument", query)["trades"]
    }
    assert traded and traded <= kept
    with pytest.raises(ConnectionClosed) as closed:
        while True:
            plain.recv(timeout=PATIENCE_S)
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1013
    rogue(server, old)
    until(lambda: gateway.metric("foreign_total") >= len(old), "batches of another start are counted")
    until(lambda: all(client.received[channel].snapshots == 2 for channel in DELTAS[:2]), "the client begins anew")
    client.wait(3)
    client.end()
    assert gateway.metric("restarts_total") == 1
    for channel in DELTAS[:2]:
        # One snapshot for each start.
        assert client.received[channel].snapshots == 2 and client.moves == 0
    # A position of the old epoch gets a snapshot.
    with Ws(gateway.url("?envelope")) as ws:
        params = {"channels": ["book.NPN_ZAR.100ms"], "from": f"{epoch}:1"}
        assert ws.result("public/subscribe", params) == ["book.NPN_ZAR.100ms"]
        assert ws.receive()["snapshot"] is True


@pytest.mark.parametrize("trouble", ["goes away", "stands still"])
def test_messages_lost_by_nats_are_filled_from_the_venue(
    trouble: str, server: Server, venue: Venue, gateway: Gateway
) -> None:
    control = Control(venue.ws_url, CHANNELS)
    client = Client([gateway], CHANNELS)
    client.wait(3)
    if trouble == "goes away":
        server.stop()
        until(lambda: gateway.health()["status"] == "bus_away", "it says that NATS is away")
        time.sleep(1)
        server.start()
    else:
        server.process.send_signal(signal.SIGSTOP)
        until(lambda: gateway.health()["status"] != "ok", "it says that the venue is silent")
        server.process.send_signal(signal.SIGCONT)
    until(lambda: gateway.health()["status"] == "ok", f"it recovers: {gateway.tail()}")
    client.wait(len(client.received[DELTAS[0]].messages) + 5)
    client.end()
    texts = control.end_behind(client.deltas())
    for channel in DELTAS:
        assert not client.received[channel].gaps and client.received[channel].snapshots <= 1
        place_in(client.received[channel].messages, texts[channel])
    assert client.moves == 0 and venue.alive()


def test_a_gateway_waits_for_its_venue_and_says_so(tmp_path: Path, server: Server) -> None:
    venue = Venue(tmp_path / "data", extra=["--publish", server.url])
    with venue:
        pass
    gateway = Gateway(tmp_path, "early", server.url, venue.data / "bus.key", address="127.0.0.1:0")
    try:
        gateway.start(wait=False)
        until(lambda: "waiting for a venue" in gateway.tail(), "it says what it waits for")
        assert not (tmp_path / "early.ready").exists()
        with venue:
            until((tmp_path / "early.ready").exists, gateway.tail())
            gateway.address = json.loads((tmp_path / "early.ready").read_text())["http"]
            until(lambda: gateway.health()["status"] == "ok", "it serves")
        assert gateway.end(signal.SIGTERM) == 0
        frame = json.loads(gateway.out.read_text())
        assert frame["forged_total"] == 0 and frame["epoch"] > 0
        assert not (tmp_path / "early.ready").exists()
    finally:
        gateway.end(signal.SIGKILL)


def test_questions_to_the_venue_need_the_key(venue: Venue) -> None:
    http = Http(venue.address)
    assert (venue.data / "bus.key").stat().st_mode & 0o777 == 0o600
    for headers in [None, {"Authorization": "Bearer x"}, {"Authorization": f"pitwire-bus 1 {'0' * 32} {'0' * 64}"}]:
        for path in ("/bus/status", "/bus/from?epoch=1&seq=1", "/bus/join"):
            reply = http.get(path, headers)
            assert reply.status == 401 and b"bus key" in reply.body, reply


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["gateway", "--upstream", "http://x", "--bus-key", "KEY"], 2, ["invalid NATS address"]),
        (["gateway", "--upstream", "nats://me:secret@", "--bus-key", "KEY"], 2, ["invalid NATS address"]),
        (["gateway", "--upstream", "nats://x", "--subject", "a b", "--bus-key", "KEY"], 2, ["subject"]),
        (["gateway", "--upstream", "nats://x", "--bus-key", "nowhere"], 1, ["bus key", "--bus-key"]),
        (["gateway", "--upstream", "nats://x", "--bus-key", "SHORT"], 1, ["64 hexadecimal digits"]),
        (["gateway", "--upstream", "nats://x", "--bus-key", "OPEN"], 1, ["chmod 600"]),
        (["gateway", "--upstream", "nats://x", "--bus-key", "KEY", "--venue", "https://v"], 2, ["plain http"]),
        (["gateway"], 2, ["--upstream"]),
        (["up", "--durability", "memory", "--http", "127.0.0.1:0", "--publish", "nats://x"], 2, ["--bus-key"]),
        (["up", "--http", "127.0.0.1:0", "--bus-key", "KEY"], 2, ["--publish"]),
    ],
)
def test_impossible_arguments_get_one_clear_line(
    arguments: list[str], code: int, words: list[str], tmp_path: Path
) -> None:
    for name, text, mode in [("KEY", "ab" * 32, 0o600), ("SHORT", "abc", 0o600), ("OPEN", "ab" * 32, 0o644)]:
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(mode)
    given = [str(tmp_path / word) if word in ("KEY", "SHORT", "OPEN", "nowhere") else word for word in arguments]
    if "up" in given:
        given += ["--data", str(tmp_path / "data")]
    ended = run_pitwire(*given, timeout_s=PATIENCE_S)
    assert ended.returncode == code, ended.stderr
    assert ended.stderr.count("\n") == 1 and all(word in ended.stderr for word in words), ended.stderr
    assert "secret" not in ended.stderr and "panicked" not in ended.stderr


# Streams by URL

STREAMS = ["btcusdc@trade", "btcusdc@depth@100ms", "npnzar@depth@100ms", "npnzar@bookTicker"]


class Reader(threading.Thread):
    """Receives the messages of a URL as they come."""

    def __init__(self, address: str, target: str) -> None:
        super().__init__(daemon=True)
        self.texts: list[str] = []
        self.connection = connect(f"ws://{address}{target}", compression=None, max_size=None).__enter__()
        self.start()

    def run(self) -> None:
        with suppress(ConnectionClosed):
            while True:
                self.texts.append(self.connection.recv())

    def of(self, part: str) -> list[str]:
        return [text for text in self.texts if part in text]

    def end_behind(self, texts: Iterable[str]) -> None:
        """Ends once it has these texts as well."""
        wanted = set(texts)
        until(lambda: wanted <= set(self.texts), "the venue's own reader does not get what others have")
        self.end()

    def end(self) -> None:
        self.connection.close()
        self.join()


def test_streams_by_url_are_the_venues_byte_for_byte(venue: Venue, gateway: Gateway) -> None:
    target = f"/stream?streams={'/'.join(STREAMS)}"
    bithumb = "/message/realtime?subscribe=ORDERBOOK:BTC-USDC,TRADE:BTC-USDC"
    level2 = "/v1/marketdata/btcusdc?study=1"
    control = [Reader(venue.address, target), Reader(venue.address, bithumb), Reader(venue.address, level2)]
    mirror = [Reader(gateway.address, target), Reader(gateway.address, bithumb), Reader(gateway.address, level2)]
    deltas = [f'"stream":"{name}"' for name in STREAMS[:3]]
    until(
        lambda: all(len(mirror[0].of(part)) > 4 for part in deltas) and all(len(one.texts) > 12 for one in mirror),
        f"too little: {[len(one.texts) for one in mirror]}, of the venue {[len(one.texts) for one in control]}",
    )
    for reader in mirror:
        reader.end()
    control[0].end_behind(mirror[0].of(part)[-1] for part in deltas)
    control[1].end_behind(mirror[1].of('"code":"00007"')[-1:])
    control[2].end_behind(mirror[2].texts[-1:])
    for part in deltas:
        place_in(mirror[0].of(part), control[0].of(part))
    assert mirror[0].of('"stream":"npnzar@bookTicker"')
    assert mirror[1].texts[0] == control[1].texts[0]
    for part in ('"topic":"ORDERBOOK"', '"topic":"TRADE"'):
        frame = [text for text in mirror[1].of(part) if '"code":"00007"' in text]
        place_in(frame, control[1].of(part))
    # The two start at different positions; from there on they follow the venue's order.
    place_in(mirror[1].of('"code":"00007"')[-6:], control[1].of('"code":"00007"'))
    place_in(mirror[2].texts[1:], control[2].texts)


def test_a_socket_counts_its_own_messages_here_too(venue: Venue, gateway: Gateway) -> None:
    """Gemini's first version: the venue's messages except for its number per socket."""
    targets = ["/v1/marketdata/btcusdc?heartbeat=true", "/v1/multimarketdata?symbols=BTCUSDC,NPNZAR"]
    control = [Reader(venue.address, target) for target in targets]
    mirror = [Reader(gateway.address, target) for target in targets]

    def bare(one: Reader) -> list[str]:
        # Heartbeats are sent to each connection at its own times.
        return [re.sub(r'"socket_sequence":\d+', "", text) for text in one.texts if '"type":"heartbeat"' not in text]

    until(lambda: all(len(bare(one)) > 25 for one in mirror), f"too little: {[len(one.texts) for one in mirror]}")
    for reader in mirror:
        reader.end()
    for got, its in zip(mirror, control, strict=True):
        assert [json.loads(text)["socket_sequence"] for text in got.texts] == list(range(len(got.texts)))
        last = bare(got)[-20:]
        until(lambda last=last, its=its: last[-1] in bare(its), "the venue's own reader does not get what others have")
        its.end()
        place_in(last, bare(its))


def threads_of(gateway: Gateway) -> dict[str, int]:
    """CPU time of the gateway's threads by name, in clock ticks."""
    assert gateway.process is not None
    worked: dict[str, int] = {}
    for task in Path(f"/proc/{gateway.process.pid}/task").iterdir():
        name, _, rest = (task / "stat").read_text().partition("(")[2].rpartition(")")
        fields = rest.split()
        worked[name] = worked.get(name, 0) + int(fields[11]) + int(fields[12])
    return worked


def test_plain_stream_readers_are_on_delivery_threads(venue: Venue, gateway: Gateway) -> None:
    """Plain readers cost the main loop nothing; clients with envelopes stay on it."""
    assert not any(name.startswith("delivery-") for name in threads_of(gateway)), "not before the first reader"
    with connect(f"ws://{gateway.address}/ws/btcusdc@trade?envelope", compression=None) as ws:
        assert json.loads(ws.recv(timeout=PATIENCE_S))["message"]["e"] == "trade"
    assert not any(name.startswith("delivery-") for name in threads_of(gateway))
    control = Reader(venue.address, "/ws/btcusdc@trade")
    readers = [Reader(gateway.address, "/ws/btcusdc@trade") for _ in range(40)]
    until(lambda: any(name.startswith("delivery-") for name in threads_of(gateway)), "no delivery thread")
    until(lambda: gateway.metric("clients") == 40, "forty are here, and the one of before no longer")
    until(lambda: all(len(reader.texts) > 8 for reader in readers), "too little has arrived")
    for reader in readers:
        reader.end()
    control.end_behind(reader.texts[-1] for reader in readers)
    for reader in readers:
        place_in(reader.texts, control.texts)
    until(lambda: gateway.metric("clients") == 0, "they have left")


def test_readers_on_delivery_threads_get_the_new_epoch_and_the_end(
    tmp_path: Path, server: Server, venue: Venue, gateway: Gateway
) -> None:
    with connect(f"ws://{gateway.address}/ws/btcusdc@trade", compression=None) as ws:
        assert json.loads(ws.recv(timeout=PATIENCE_S))["e"] == "trade"
        venue.kill()
        venue.start()
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                ws.recv(timeout=PATIENCE_S)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1013
    until(lambda: gateway.health()["status"] == "ok", "the gateway does not find the new start")
    with connect(f"ws://{gateway.address}/ws/btcusdc@trade", compression=None) as ws:
        assert json.loads(ws.recv(timeout=PATIENCE_S))["e"] == "trade"
        assert gateway.end(signal.SIGTERM) == 0
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                ws.recv(timeout=PATIENCE_S)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1001


def test_streams_are_subscribed_by_message_and_continue(venue: Venue, gateway: Gateway) -> None:
    with connect(f"ws://{gateway.address}/ws", compression=None, close_timeout=1) as ws:

        def ask(method: str, number: int, *params: str) -> Any:
            ws.send(json.dumps({"method": method, "params": list(params), "id": number}))
            while (frame := json.loads(ws.recv(timeout=PATIENCE_S))).get("id") != number:
                pass
            return frame

        assert ask("SUBSCRIBE", 1, "btcusdc@depth@100ms")["result"] is None
        assert json.loads(ws.recv(timeout=PATIENCE_S))["e"] == "depthUpdate"
        assert ask("LIST_SUBSCRIPTIONS", 2)["result"] == ["btcusdc@depth@100ms"]
        assert ask("SUBSCRIBE", 3, "btcusdc@nothing")["code"] == 2
        assert ask("UNSUBSCRIBE", 4, "btcusdc@depth@100ms")["result"] is None
        # More requests than are read ahead of their answers.
        for number in range(5, 305):
            ws.send(json.dumps({"method": "LIST_SUBSCRIPTIONS", "id": number}))
        said = (json.loads(ws.recv(timeout=PATIENCE_S)) for _ in itertools.count())
        answers = itertools.islice((frame["id"] for frame in said if "id" in frame), 300)
        assert list(answers) == list(range(5, 305))
    target = f"ws://{gateway.address}/ws/btcusdc@depth@100ms?envelope"
    with connect(target, compression=None, close_timeout=1) as ws:
        frame = [json.loads(ws.recv(timeout=PATIENCE_S)) for _ in range(3)]
    time.sleep(1)
    with connect(f"{target}&from={frame[-1]['epoch']}:{frame[-1]['seq']}", compression=None, close_timeout=1) as ws:
        frame += [json.loads(ws.recv(timeout=PATIENCE_S)) for _ in range(10)]
    for before, after in itertools.pairwise(frame):
        assert after["prev"] == before["seq"]
        assert after["message"]["U"] == before["message"]["u"] + 1, "not one depth message is missing"


def test_streams_are_refused_and_joined_as_at_the_venue(venue: Venue, gateway: Gateway) -> None:
    mine, its = Http(gateway.address), Http(venue.address)
    upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    upgrade["Sec-WebSocket-Key"] = "dGhlIHNhbXBsZSBub25jZQ=="
    for target in ("/ws/nothere@trade", "/ws/btcusdc@nothing", "/message/realtime?subscribe=NO:BTC-USDC"):
        reply = Http(gateway.address).get(target, upgrade)
        assert (reply.status, reply.body) == (lambda r: (r.status, r.body))(Http(venue.address).get(target, upgrade))
        assert reply.status == 400
    reply = Http(gateway.address).get("/v1/marketdata/nothere", upgrade)
    assert reply.status == 400 and b"InvalidSymbol" in reply.body
    assert mine.get("/api/v3/exchangeInfo").json()["symbols"] == its.get("/api/v3/exchangeInfo").json()["symbols"]
    book = mine.get("/api/v3/depth?symbol=BTCUSDC&limit=5").json()
    assert book["lastUpdateId"] > 0 and len(book["bids"]) == 5
    assert mine.get("/api/v3/depth?symbol=NOTHERE").status == its.get("/api/v3/depth?symbol=NOTHERE").status == 400


def test_a_second_listener_speaks_tls(tmp_path: Path, server: Server, venue: Venue) -> None:
    """The venue's bytes over wss and https, with a generated authority or files."""
    place = tmp_path / "tls"
    flags = ["--tls", "127.0.0.1:0", "--tls-dir", str(place)]
    with Gateway(tmp_path, "secure", server.url, venue.data / "bus.key", flags) as gateway:
        frame = json.loads((tmp_path / "secure.ready").read_text())
        assert Path(frame["ca"]) == place / "ca.pem" and (place / "ca-key.pem").stat().st_mode & 0o077 == 0
        trust = ssl.create_default_context(cafile=frame["ca"])
        control = Control(venue.ws_url, DELTAS)
        mirror = Control(f"wss://{frame['tls']}/ws/api/v2", DELTAS, trust)
        with connect(f"wss://{frame['tls']}/ws/btcusdc@bookTicker", ssl=trust, open_timeout=PATIENCE_S) as ws:
            assert json.loads(ws.recv(timeout=PATIENCE_S))["s"] == "BTCUSDC"
        until(lambda: all(len(mirror.texts[channel]) > 4 for channel in DELTAS), "nothing has arrived by wss")
        mirrored = mirror.end()
        texts = control.end_behind(mirrored)
        for channel in DELTAS:
            place_in(mirrored[channel][1 if channel.startswith("book") else 0 :], texts[channel])
        with urllib.request.urlopen(f"https://{frame['tls']}/metrics", context=trust, timeout=PATIENCE_S) as reply:
            assert b"pitwire_gateway_clients" in reply.read()
        with pytest.raises(ssl.SSLError), connect(f"wss://{frame['tls']}/ws/api/v2", open_timeout=PATIENCE_S):
            pass
        # Between an answer of the venue and its message, the status is "behind".
        until(lambda: gateway.health()["status"] == "ok", "venue and bus are reachable")


@pytest.mark.parametrize(
    ("flags", "code", "printed"),
    [
        (["--tls", "127.0.0.1:0", "--tls-cert", "absent.pem"], 2, "--tls-key"),
        (["--tls-cert", "absent.pem", "--tls-key", "absent.pem"], 2, "--tls"),
        (["--tls-dir", "x"], 2, "--tls"),
        (["--tls", "127.0.0.1:0", "--tls-cert", "absent.pem", "--tls-key", "absent.pem"], 1, "check --tls-cert"),
    ],
)
def test_an_unusable_second_listener_is_reported_in_one_line(
    tmp_path: Path, flags: list[str], code: int, printed: str
) -> None:
    key = tmp_path / "bus.key"
    key.write_text("7" * 64)
    key.chmod(0o600)
    ended = run_pitwire(
        "gateway", "--upstream", "nats://127.0.0.1:1", "--http", "127.0.0.1:0", "--bus-key", key, *flags
    )
    assert (ended.returncode, printed in ended.stderr) == (code, True), ended.stderr
    assert code == 2 or len(ended.stderr.strip().splitlines()) == 1, ended.stderr
