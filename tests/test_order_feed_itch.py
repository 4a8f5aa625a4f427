"""The order-by-order feed as ITCH 5.0 over MoldUDP64, read by a reader that was written from the
specifications."""

import json
import socket
import struct
from decimal import Decimal
from pathlib import Path

import captures
import pytest
from itch_reader import END_OF_SESSION, ItchReader, messages
from rpc import Http, Json, until
from test_order_feed import free_line
from venue import DEMO_A, DEMO_B, OPERATOR, Venue, run_pitwire

MINUTE_NS = 60_000_000_000
HALTED = "NPN_ZAR"


def options(reader: ItchReader) -> list[str]:
    feed = ["--order-feed", reader.address, "--order-feed-recovery", "127.0.0.1:0", "--order-feed-encoding", "itch"]
    return ["--clock", "manual", "--durability", "memory", *feed]


def recovery_address(venue: Venue) -> str:
    address: str = json.loads(venue.ready_file.read_text())["order_feed_recovery"]
    return address


def instruments(http: Http) -> list[Json]:
    found: list[Json] = http.result("public/get_instruments", {"currency": "any"})
    return found


def venue_books(http: Http) -> dict[str, dict[str, list[list[float]]]]:
    books = {}
    for name in (found["instrument_name"] for found in instruments(http)):
        book = http.result("public/get_order_book", {"instrument_name": name, "depth": 10_000})
        books[name] = {"bids": book["bids"], "asks": book["asks"]}
    return books


def lots(http: Http) -> dict[str, Decimal]:
    return {found["instrument_name"]: Decimal(str(found["min_trade_amount"])) for found in instruments(http)}


def test_books_from_a_lossy_line_equal_the_venue_through_auctions_and_a_halt(data: Path) -> None:
    reader = ItchReader(lost_every=50)
    with Venue(data, extra=[*options(reader), "--flow-rate", f"{HALTED}=20"], preset="jse") as venue:
        member, other, operator = (Http(venue.address, who) for who in (DEMO_A, DEMO_B, OPERATOR))
        reader.connect(recovery_address(venue))
        units, states = lots(member), set()

        def advance(minutes: int) -> None:
            member.result("private/pitwire_advance", {"ns": minutes * MINUTE_NS})
            reader.until_equal(venue_books(member), units)
            states.update(reader.books.states.values())

        for _ in range(9):
            advance(5)
        order = {"instrument_name": HALTED, "amount": 500, "type": "limit", "hidden": True, "min_execution": 100}
        best = member.result("public/get_order_book", {"instrument_name": HALTED})["best_bid_price"]
        hidden = member.result("private/buy", order | {"price": best})["order"]["order_id"]
        shown = {"instrument_name": HALTED, "amount": 700, "type": "limit", "price": round(best * 0.98, 2)}
        resting = member.result("private/buy", shown)["order"]["order_id"]
        member.result("private/edit", {"order_id": resting, "amount": 300, "price": shown["price"]})
        reader.until_equal(venue_books(member), units)
        member.result("private/edit", {"order_id": resting, "amount": 900, "price": shown["price"]})
        other.result("private/sell", {"instrument_name": HALTED, "amount": 1_000, "type": "market"})
        advance(1)
        operator.result("private/pitwire_halt", {"instrument_name": HALTED})
        advance(2)
        operator.result("private/pitwire_resume", {"instrument_name": HALTED})
        advance(5)
        assert {"Q", "T", "H"} <= states, states
        assert {"A", "D", "E", "Q", "I", "R", "H", "X", "U"} <= reader.books.seen.keys(), reader.books.seen
        assert reader.requested > 0
        assert int(resting.rpartition("-")[2]) in reader.books.references
        assert int(hidden.rpartition("-")[2]) not in reader.books.references
        metrics = member.get("/metrics").body.decode()
        assert "pitwire_order_feed_clipped_prices_total 0" in metrics
        # A reader that joins late takes a snapshot, and requests the messages after it.
        reader.lost_every = 0
        late = ItchReader()
        late.connect(recovery_address(venue))
        late.join(recovery_address(venue))
        assert late.session == reader.session and late.next > 100
        late.until_equal(venue_books(member), units)
        advance(1)
        late.end = reader.next
        late.until_equal(venue_books(member), units)
        assert late.requested > 0
        for name in ("orders", "stocks", "states"):
            assert getattr(late.books, name) == getattr(reader.books, name), name
        venue.stop()
        until(lambda: (reader.poll(), reader.has_ended)[1], "the end of the session")


def test_feed_check_joins_by_a_snapshot(data: Path) -> None:
    lines = f"{free_line()},{free_line()}"
    feed = ["--order-feed", lines, "--order-feed-recovery", "127.0.0.1:0", "--order-feed-encoding", "itch"]
    with Venue(data, extra=["--clock", "manual", "--durability", "memory", *feed]) as venue:
        http = Http(venue.address, DEMO_A)
        http.result("private/pitwire_advance", {"ns": MINUTE_NS})
        check = ["feed-check", "--lines", lines, "--recovery", recovery_address(venue), "--seconds", "4"]
        ended = run_pitwire(*check, "--encoding", "itch", "--json")
        assert ended.returncode == 0, ended.stdout + ended.stderr
        report = json.loads(ended.stdout)
        assert report["snapshots"] == 1 and report["misfits"] == report["replays"] == 0
        assert report["next_message"] > 100
        orders = {book["instrument_name"]: book["orders"] for book in report["books"]}
        assert all(orders[name[:8].rstrip()] > 0 for name, book in venue_books(http).items() if book["bids"])
        wrong = run_pitwire(*check)
        assert wrong.returncode == 1 and "--encoding" in wrong.stderr, wrong.stderr


def test_requests_that_cannot_be_answered_get_no_answer(data: Path) -> None:
    reader = ItchReader()
    with Venue(data, extra=options(reader)) as venue:
        http = Http(venue.address, DEMO_A)
        reader.connect(recovery_address(venue))
        http.result("private/pitwire_advance", {"ns": MINUTE_NS})
        while reader.heartbeats == 0 or reader.next < 10:
            reader.poll()

        def request(session: bytes, first: int, count: int, rest: bytes = b"") -> None:
            reader.requests.send(session + struct.pack(">QH", first, count) + rest)

        for first, count in [(0, 1), (reader.next + 10**6, 1), (2**64 - 1, 1), (1, 0), (1, END_OF_SESSION)]:
            request(reader.session, first, count)
        request(b"0000000000", 1, 1)
        request(reader.session, 1, 1, b"more")
        for garbage in (b"", b"x", bytes(20), b"\xff" * 64):
            reader.requests.send(garbage)
        # Only this request has an answer.
        request(reader.session, 3, 2)
        packet = reader.requests.recv(2_000)
        assert struct.unpack_from(">QH", packet, 10) == (3, 2) and len(messages(packet)) == 2
        reader.requests.settimeout(0.2)
        with pytest.raises(TimeoutError):
            reader.requests.recv(2_000)
        assert "pitwire_order_feed_invalid_total" in http.get("/metrics").body.decode()


def test_decode_shows_the_messages_of_itch(data: Path, tmp_path: Path) -> None:
    reader = ItchReader()
    with Venue(data, extra=options(reader)) as venue:
        Http(venue.address, DEMO_A).result("private/pitwire_advance", {"ns": MINUTE_NS})
        packets = []
        try:
            while len(packets) < 50:
                packets.append(reader.line.recv(2_000))
        except TimeoutError:
            pass
    ends = ("127.0.0.1", 40_000), ("127.0.0.1", 9_100)
    path = tmp_path / "capture"
    path.write_bytes(captures.pcapng([captures.Packet(0, captures.datagram(packet, *ends)) for packet in packets]))
    ended = run_pitwire("decode", path, "--json")
    *found, last = [json.loads(line) for line in ended.stdout.splitlines()]
    expected = []
    for packet in packets:
        first, count = struct.unpack_from(">QH", packet, 10)
        rows = [(first + at, chr(message[0])) for at, message in enumerate(messages(packet) if count else [])]
        expected += rows or [(first, "")]
    assert [(row["number"], row["type"]) for row in found] == expected
    assert {row["protocol"] for row in found} == {"itch"} and last["counts"]["foreign"] == 0
    adds = [row for row in found if row["type"] == "A"]
    assert adds and all(row["instrument_name"] == row["fields"]["stock"] for row in adds)


def test_an_instrument_with_finer_prices_than_itch_is_refused_at_start(tmp_path: Path) -> None:
    config = tmp_path / "venue.toml"
    config.write_text(
        '[[instrument]]\nname = "FINE_USDC"\nkind = "spot"\nbase = "BTC"\nquote = "USDC"\n'
        'tick = "0.00001"\nlot = "0.1"\nstart_price = "1"\n'
    )
    command = ["up", "--http", "127.0.0.1:0", "--data", tmp_path / "data", "--config", config, "--warm-up", "0"]
    feed = ["--order-feed", "127.0.0.1:9", "--order-feed-recovery", "127.0.0.1:0", "--order-feed-encoding", "itch"]
    ended = run_pitwire(*command, *feed)
    assert ended.returncode == 1 and "FINE_USDC" in ended.stderr and "mitch" in ended.stderr, ended.stderr
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as taken:
        taken.bind(("127.0.0.1", 0))
        feed[3] = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = run_pitwire("up", "--http", "127.0.0.1:0", "--data", tmp_path / "other", *feed)
        assert ended.returncode == 1 and "--order-feed-recovery" in ended.stderr
