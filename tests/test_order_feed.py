"""The order-by-order feed of the real binary, read by a decoder that was written from the docs."""

import contextlib
import json
import random
import signal
import socket
import struct
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from mitch_reader import Books, FeedReader, Recovery
from rpc import PATIENCE_S, Http, Json, Ws, until
from sbe_faults import DatagramRelay
from venue import BINARY, DEMO_A, DEMO_B, OPERATOR, SHARES, Venue, run_pitwire

MINUTE_NS = 60_000_000_000
NAMES = [f"{share}_ZAR" for share in SHARES]
HALTED = "NPN_ZAR"


def recovery_address(venue: Venue) -> str:
    address: str = json.loads(venue.ready_file.read_text())["order_feed_recovery"]
    return address


def venue_books(http: Http) -> dict[str, dict[str, list[list[float]]]]:
    books = {}
    for name in (found["instrument_name"] for found in http.result("public/get_instruments", {"currency": "any"})):
        book = http.result("public/get_order_book", {"instrument_name": name, "depth": 10_000})
        books[name] = {"bids": book["bids"], "asks": book["asks"]}
    return books


def test_books_from_lossy_lines_equal_the_venue_through_an_auction_and_a_halt(data: Path) -> None:
    reader = FeedReader(lost=0.01, seed=7)
    late = FeedReader(lost=0.0, seed=7)
    options = ["--clock", "manual", "--durability", "memory", "--flow-rate", f"{HALTED}=20"]
    options += ["--order-feed", reader.addresses, "--order-feed-recovery", "127.0.0.1:0"]
    with Venue(data, extra=options, preset="jse") as venue:
        member, other, operator = (Http(venue.address, who) for who in (DEMO_A, DEMO_B, OPERATOR))
        reader.join(recovery_address(venue))
        statuses = set()

        def advance(minutes: int) -> None:
            member.result("private/pitwire_advance", {"ns": minutes * MINUTE_NS})
            reader.until_equal(venue_books(member))
            statuses.update(reader.books.status.values())

        for _ in range(9):
            advance(5)
        order = {"instrument_name": HALTED, "amount": 500, "type": "limit", "hidden": True, "min_execution": 100}
        best = member.result("public/get_order_book", {"instrument_name": HALTED})["best_bid_price"]
        hidden = member.result("private/buy", order | {"price": best})["order"]["order_id"]
        other.result("private/sell", {"instrument_name": HALTED, "amount": 1_000, "type": "market"})
        advance(1)
        operator.result("private/pitwire_halt", {"instrument_name": HALTED})
        advance(2)
        operator.result("private/pitwire_resume", {"instrument_name": HALTED})
        for _ in range(3):
            advance(5)
        assert {"a", "T", "H"} <= statuses, statuses
        assert {"A", "D", "E", "Q", "T", "I"} <= reader.books.seen.keys(), reader.books.seen
        assert reader.dropped > 0 and reader.books.named
        assert int(hidden.rpartition("-")[2]) not in reader.books.named
        late.join(recovery_address(venue))
        late.until_equal(venue_books(member))
        metrics = member.get("/metrics").body.decode()
        assert "pitwire_order_feed_unsent_total 0" in metrics and "pitwire_order_feed_snapshots_total 2" in metrics


@dataclass
class JsonBook:
    """Orders of `orders.{instrument}.raw`: side, price and amount by id, in order of arrival."""

    orders: dict[str, tuple[str, float, float]] = field(default_factory=dict)
    actions: set[str] = field(default_factory=set)
    named: set[str] = field(default_factory=set)

    def apply(self, data: Json) -> None:
        if data["type"] == "snapshot":
            rows = [("buy", *row) for row in data["bids"]] + [("sell", *row) for row in data["asks"]]
            self.orders = {id: (side, price, amount) for side, id, price, amount in rows}
        for event in data.get("events", []):
            self.actions.add(event["action"])
            if (id := event.get("order_id")) is None:
                continue
            self.named.add(id)
            if event["action"] == "new":
                assert id not in self.orders
                self.orders[id] = (event["direction"], event["price"], event["amount"])
            elif event["action"] == "delete":
                del self.orders[id]
            else:
                side, price, _ = self.orders[id]
                if not event.get("keeps_place", event["action"] == "trade"):
                    del self.orders[id]
                self.orders[id] = (side, event["price"] if event["action"] == "change" else price, event["amount"])
                if event["amount"] == 0:
                    del self.orders[id]

    def levels(self, side: str) -> list[list[float]]:
        amounts: dict[float, float] = {}
        for of, price, amount in self.orders.values():
            if of == side:
                amounts[price] = round(amounts.get(price, 0) + amount, 8)
        return [[price, amounts[price]] for price in sorted(amounts, reverse=side == "buy")]

    def read(self, ws: Ws, channel: str) -> None:
        """Takes the messages that have arrived."""
        try:
            while True:
                params = ws.receive(0.05).get("params", {})
                if params.get("channel") == channel:
                    self.apply(params["data"])
        except TimeoutError:
            pass

    def is_that_of(self, http: Http, name: str) -> bool:
        found = http.result("public/get_order_book", {"instrument_name": name, "depth": 10_000})
        return [self.levels("buy"), self.levels("sell")] == [found["bids"], found["asks"]]


def test_a_book_from_the_json_channel_equals_the_venue(data: Path) -> None:
    name, channel = "BTC_USDC", "orders.BTC_USDC.raw"
    with Venue(data, extra=["--clock", "manual", "--durability", "memory"]) as venue:
        member, operator = Http(venue.address, DEMO_A), Http(venue.address, OPERATOR)
        member.result("private/pitwire_advance", {"ns": MINUTE_NS})
        with Ws(venue.ws_url) as ws, Ws(venue.ws_url) as late:
            book = JsonBook()

            def equals_venue(reader: Ws) -> bool:
                book.read(reader, channel)
                return book.is_that_of(member, name)

            ws.login(DEMO_B)
            late.login(DEMO_B)
            ws.subscribe(channel)
            for step in range(12):
                member.result("private/pitwire_advance", {"ns": 3_000_000_000})
                if step == 4:
                    order = {"instrument_name": name, "amount": 0.5, "hidden": True, "min_execution": 0.1}
                    price = member.result("public/get_order_book", {"instrument_name": name})["best_bid_price"]
                    # Far from the touch, so that it does not fill.
                    far = round(price * 0.9)
                    hidden = member.result("private/buy", order | {"price": far})["order"]["order_id"]
                    shown = member.result("private/buy", {"instrument_name": name, "amount": 0.01, "price": price})
                    member.result("private/cancel", {"order_id": shown["order"]["order_id"]})
                if step == 8:
                    operator.result("private/pitwire_halt", {"instrument_name": name})
                    member.result("private/cancel", {"order_id": hidden})
                    operator.result("private/pitwire_resume", {"instrument_name": name})
                until(lambda: equals_venue(ws), f"the book of step {step}")
            assert {"new", "delete", "trade"} <= book.actions, book.actions
            assert shown["order"]["order_id"] in book.named and hidden not in book.named
            book = JsonBook()
            late.subscribe(channel)
            until(lambda: equals_venue(late), "the book of a late subscriber")


def test_a_book_from_the_json_channel_equals_the_venue_in_each_session(data: Path) -> None:
    channel = f"orders.{HALTED}.raw"
    options = ["--clock", "manual", "--durability", "memory", "--flow-rate", f"{HALTED}=4"]
    with Venue(data, extra=options, preset="jse") as venue, Ws(venue.ws_url) as ws:
        member, operator = Http(venue.address, DEMO_A), Http(venue.address, OPERATOR)
        ws.login(DEMO_B)
        ws.subscribe(channel)
        book, sessions = JsonBook(), set()

        def equals_venue() -> bool:
            book.read(ws, channel)
            return book.is_that_of(member, HALTED)

        def advance(minutes: int) -> None:
            for _ in range(minutes):
                member.result("private/pitwire_advance", {"ns": MINUTE_NS})
                until(equals_venue, "the book of the venue")
            sessions.add(member.result("public/ticker", {"instrument_name": HALTED})["session"])

        advance(10)
        advance(30)
        assert book.orders and {"new", "delete", "trade"} <= book.actions, book.actions
        operator.result("private/pitwire_volatility_call", {"instrument_name": HALTED})
        advance(1)
        advance(6)
        operator.result("private/pitwire_halt", {"instrument_name": HALTED})
        advance(1)
        operator.result("private/pitwire_resume", {"instrument_name": HALTED})
        advance(2)
        assert {"opening_auction", "continuous", "volatility_auction", "halt"} <= sessions, sessions


def free_line() -> str:
    """A UDP address for another process. Its loopback address is chosen by chance, and its port is
    none that the system hands out, so that no other process takes it in the meantime."""
    while True:
        host = ".".join(["127", *(str(random.randrange(1, 255)) for _ in range(3))])
        port = random.randrange(20_000, 30_000)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, contextlib.suppress(OSError):
            probe.bind((host, port))
            return f"{host}:{port}"


def test_feed_check_reports_both_lines_and_the_books(data: Path) -> None:
    lines = f"{free_line()},{free_line()}"
    options = ["--durability", "memory", "--order-feed", lines, "--order-feed-recovery", "127.0.0.1:0"]
    with Venue(data, extra=options) as venue:
        check = ["feed-check", "--lines", lines, "--recovery", recovery_address(venue), "--seconds", "3"]
        ended = run_pitwire(*check, "--json")
        assert ended.returncode == 0, ended.stderr
        report = json.loads(ended.stdout)
        assert [line["invalid"] + line["foreign"] for line in report["lines"]] == [0, 0]
        assert all(line["messages"] > 0 and line["heartbeats"] > 0 for line in report["lines"])
        assert report["messages"] > 0 and report["line_delay_ns"]["units"] > 0 and report["misfits"] == 0
        assert {book["instrument_name"] for book in report["books"]} >= set(NAMES)
        text = run_pitwire(*check)
        assert text.returncode == 0 and "line B" in text.stdout and "book    NPN_ZAR" in text.stdout
        silent = run_pitwire("feed-check", "--lines", "127.0.0.1:0", *check[3:])
        assert silent.returncode == 1 and "line A" in silent.stderr and "received nothing" in silent.stderr
    gone = run_pitwire(*check)
    assert gone.returncode == 1 and "--order-feed-recovery" in gone.stderr and len(gone.stderr.splitlines()) == 1


CRC_32C = 0x82F6_3B78


def crc_32c(data: bytes) -> int:
    """CRC-32C, bit by bit."""
    crc = 0xFFFF_FFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (CRC_32C if crc & 1 else 0)
    return crc ^ 0xFFFF_FFFF


def checksum(books: Books, instrument: int) -> str:
    """The checksum of docs/order-feed.md: side, id, price, quantity of each order, bids first."""
    data = b""
    for side, sign in (("B", -1), ("S", 1)):
        own = [row for row in books.orders.items() if (row[1].instrument, row[1].side) == (instrument, side)]
        # The sort keeps the order of time.
        for id, order in sorted(own, key=lambda row: sign * row[1].price):
            data += struct.pack("<cQqI", side.encode(), id, order.price, order.quantity)
    return f"{crc_32c(data):08x}"


def test_checksum_is_that_of_the_standard() -> None:
    assert crc_32c(b"123456789") == 0xE306_9283


def test_feed_check_counts_gaps_and_duplicates_and_fills_the_books(data: Path) -> None:
    lost = 0.3
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as a, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as b:
        for free in (a, b):
            free.bind(("127.0.0.1", 0))
        ports = [free.getsockname()[1] for free in (a, b)]
    relays = [DatagramRelay(port, lost, seed) for seed, port in enumerate(ports)]
    options = ["--clock", "manual", "--durability", "memory", "--order-feed-recovery", "127.0.0.1:0"]
    options += ["--order-feed", ",".join(relay.address for relay in relays)]
    lines = ",".join(f"127.0.0.1:{port}" for port in ports)
    with Venue(data, extra=options) as venue:
        member, recovery = Http(venue.address, DEMO_A), recovery_address(venue)

        def counted(name: str) -> int:
            text = member.get("/metrics").body.decode()
            rows = (line.split() for line in text.splitlines())
            return next(int(row[1]) for row in rows if row[0] == f"pitwire_order_feed_{name}_total")

        command = [BINARY, "feed-check", "--lines", lines, "--recovery", recovery, "--seconds", "600", "--json"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as check:
            try:
                until(lambda: counted("snapshots") == 1, "the check joins")

                def is_lossy() -> bool:
                    member.result("private/pitwire_advance", {"ns": 1_000_000_000})
                    return counted("replays") > 0 and all(relay.dropped > 20 for relay in relays)

                until(is_lossy, "both lines lose a unit")
                # Heartbeats name the messages at the end that both lines have lost.
                goals = [(relay, relay.passed + 4) for relay in relays]
                until(lambda: all(relay.passed >= goal for relay, goal in goals), "heartbeats")
                check.send_signal(signal.SIGINT)
                output, errors = check.communicate(timeout=PATIENCE_S)
            finally:
                check.kill()
        assert check.returncode == 0, errors
        report = json.loads(output)
        newest, books = Recovery(recovery).snapshot()
        assert report["next_message"] == newest + 1
        expected = {name: checksum(books, instrument) for instrument, name in books.names.items()}
        assert {book["instrument_name"]: book["checksum"] for book in report["books"]} == expected
        assert len(set(expected.values())) > len(SHARES), "the books differ"
        for line in report["lines"]:
            assert line["gaps"] > 0 and line["missing_messages"] >= line["gaps"], line
            assert line["first"] > 0 and line["repeated"] > 0, line
        assert report["duplicates"] > 0 and report["replays"] > 0 and report["replayed_messages"] > 0
        assert (report["misfits"], report["snapshots"]) == (0, 1)
        delay = report["line_delay_ns"]
        assert delay["units"] > 0 and delay["p50"] <= delay["p99"] <= delay["max"]
    for relay in relays:
        relay.close()


def test_feed_bench_reads_everything_from_lossy_lines() -> None:
    ended = run_pitwire("feed-bench", "--messages", "20000", "--lost", "10", "--json")
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert report["messages"] >= 20_000 and report["rebuilt_per_s"] > 0
    lossy = report["lossy"]
    assert min(lossy["lost_datagrams"]) > 0 and lossy["replays"] > 0, lossy


def test_a_new_start_of_the_venue_ends_recovery_connections(data: Path) -> None:
    options = ["--order-feed", "127.0.0.1:9", "--order-feed-recovery", "127.0.0.1:0"]
    venue = Venue(data, extra=options).start()
    recovery = Recovery(recovery_address(venue))
    venue.stop()
    assert recovery.sock.recv(1) == b""


def test_wrong_addresses_are_one_clear_error(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        used = f"127.0.0.1:{taken.getsockname()[1]}"
        recovery = ["--order-feed-recovery", "127.0.0.1:0"]
        cases = [
            (["--order-feed", "127.0.0.1:9100"], "--order-feed-recovery"),
            (["--order-feed-recovery", "127.0.0.1:0"], "--order-feed"),
            (["--order-feed", "localhost:9100", *recovery], "127.0.0.1:9100"),
            (["--order-feed", "127.0.0.1:0", *recovery], "multicast group"),
            (["--order-feed", "127.0.0.1:9100,127.0.0.1:9100", *recovery], "twice"),
            (["--order-feed", "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3", *recovery], "third line"),
            (["--order-feed", "127.0.0.1:9100", "--order-feed-recovery", used], "--order-feed-recovery"),
        ]
        for arguments, expected in cases:
            ended = run_pitwire("up", "--http", "127.0.0.1:0", "--data", tmp_path / "data", *arguments)
            assert ended.returncode in (1, 2) and expected in ended.stderr, (arguments, ended.stderr)
            assert len(ended.stderr.splitlines()) == 1, ended.stderr
