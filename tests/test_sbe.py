"""Binary order entry: a client that reads the schema against the real binary."""

import json
import random
import struct
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

import pytest
from rpc import Http, Json
from sbe_client import SbeClient, decode, encode
from venue import DEMO_A, DEMO_B, Credentials, Venue, run_pitwire

INSTRUMENT = "NPN_ZAR"
OPTIONS = ["--no-flow", "--durability", "memory"]
REQUESTS = 150
QUANTITIES = ("1", "2", "5", "0.5")


def sbe_address(venue: Venue) -> str:
    address: str = json.loads(venue.ready_file.read_text())["sbe"]
    return address


@pytest.fixture(scope="module")
def venue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Venue]:
    with Venue(tmp_path_factory.mktemp("sbe") / "venue", [*OPTIONS, "--sbe", "127.0.0.1:0"]) as running:
        yield running


@pytest.fixture
def a(venue: Venue) -> Iterator[SbeClient]:
    with SbeClient(sbe_address(venue)) as client:
        # A connection of an earlier test may not have ended yet.
        yield logged_on(client, DEMO_A)


@pytest.fixture
def b(venue: Venue) -> Iterator[SbeClient]:
    with SbeClient(sbe_address(venue)) as client:
        yield logged_on(client, DEMO_B)


def logged_on(client: SbeClient, who: Credentials, next_sequence: int = 0) -> SbeClient:
    """Logs on; tries again while the venue has not noticed yet that an earlier connection
    ended."""
    name, answer = client.log_on(who, next_sequence)
    while name == "Logout" and "already" in answer["reason"]:
        client.sock.close()
        client.__post_init__()
        name, answer = client.log_on(who, next_sequence)
    assert name == "LogonAccepted", answer
    return client


def instrument_id(venue: Venue) -> int:
    number: int = Http(venue.address).result("public/get_instrument", {"instrument_name": INSTRUMENT})["instrument_id"]
    return number


def limit(venue: Venue, side: str, quantity: str, price: str, **fields: Any) -> dict[str, Any]:
    base = {"instrumentId": instrument_id(venue), "side": side, "orderType": "Limit", "timeInForce": "Default"}
    return base | {"quantity": quantity, "price": price} | fields


def test_both_sides_of_a_trade_get_execution_reports(venue: Venue, a: SbeClient, b: SbeClient) -> None:
    name, resting = a.request("NewOrder", **limit(venue, "Buy", "10", "3200", clientOrderId="a-1"))
    assert (name, resting["status"], resting["clientOrderId"]) == ("OrderAccepted", "Open", "a-1")
    name, incoming = b.request("NewOrder", **limit(venue, "Sell", "4", "3200"))
    assert (name, incoming["status"], incoming["filledQuantity"]) == ("OrderAccepted", "Filled", 4)
    maker, taker = a.report(resting["orderId"], "Trade"), b.report(incoming["orderId"], "Trade")
    for report, liquidity, filled in ((maker, "Added", 4), (taker, "Removed", 4)):
        assert (report["lastPrice"], report["lastQuantity"]) == (Decimal("3200"), Decimal(4))
        assert (report["liquidity"], report["filledQuantity"]) == (liquidity, filled)
    assert maker["tradeSequence"] == taker["tradeSequence"] > 0

    order = {"orderId": resting["orderId"]}
    name, amended = a.request("AmendOrder", **order, quantity="12", price="3190")
    assert (name, amended["quantity"], amended["filledQuantity"]) == ("OrderAccepted", 12, 4)
    assert a.report(resting["orderId"], "Amended")["price"] == 3190
    assert a.request("CancelOrder", **order)[1]["status"] == "Cancelled"
    assert a.report(resting["orderId"], "Cancelled")["cancelReason"] == "user_request"
    name, reject = a.request("CancelOrder", **order)
    assert (name, reject["code"], reject["name"]) == ("Reject", 10010, "already_closed")
    assert reject["reason"] and reject["remedy"] and reject["templateId"] == 12

    for price in ("3000", "3001"):
        a.request("NewOrder", **limit(venue, "Buy", "1", price))
    name, report = a.request("MassCancel", scope="Instrument", instrumentId=instrument_id(venue))
    assert (name, report["cancelled"]) == ("MassCancelAccepted", 2)
    numbers = [fields["sequence"] for _, fields in a.messages]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_market_queries_equal_the_json_answers(venue: Venue, a: SbeClient) -> None:
    a.request("NewOrder", **limit(venue, "Buy", "3", "3100"))
    a.request("NewOrder", **limit(venue, "Sell", "2", "3300.5"))
    query = {"instrumentId": instrument_id(venue), "depth": 10}
    http = Http(venue.address)
    name, best = a.request("MarketQuery", subject="BestPrices", **query)
    assert (name, best["bidPrice"], best["bidQuantity"]) == ("BestPrices", 3100, 3)
    assert (best["askPrice"], best["askQuantity"]) == (Decimal("3300.5"), 2)
    _, book = a.request("MarketQuery", subject="Book", **query)
    json_book = http.result("public/get_order_book", {"instrument_name": INSTRUMENT, "depth": 10})
    levels = [(level["side"], float(level["price"]), float(level["quantity"])) for level in book["levels"]]
    assert levels == [("Buy", *bid) for bid in json_book["bids"]] + [("Sell", *ask) for ask in json_book["asks"]]
    _, vwap = a.request("MarketQuery", subject="Vwap", **query)
    statistics = http.result("public/pitwire_get_statistics", {"instrument_name": INSTRUMENT})
    for ours, theirs in (("trades", "vwap"), ("bid", "bid_vwap"), ("ask", "ask_vwap")):
        assert (vwap[ours] is None) == (theirs not in statistics)
        assert vwap[ours] is None or float(vwap[ours]) == statistics[theirs]
    _, status = a.request("MarketQuery", subject="Status", **query)
    assert (status["session"], status["state"]) == ("continuous", "open")
    name, reject = a.request("MarketQuery", subject="Status", instrumentId=4_000_000)
    assert (name, reject["code"]) == ("Reject", 13020)
    a.request("MassCancel", scope="All")


def test_missed_messages_come_after_the_next_logon(venue: Venue, a: SbeClient, b: SbeClient) -> None:
    _, resting = a.request("NewOrder", **limit(venue, "Buy", "5", "3150"))
    a.report(resting["orderId"], "New")
    last = a.messages[-1][1]["sequence"]
    a.sock.close()
    b.request("NewOrder", **limit(venue, "Sell", "5", "3150"))
    with SbeClient(sbe_address(venue)) as again:
        logged_on(again, DEMO_A, next_sequence=last + 1)
        fill = again.report(resting["orderId"], "Trade")
        assert (fill["status"], fill["filledQuantity"]) == ("Filled", 5)
        first = again.messages[0][1]["sequence"]
        assert first == last + 1
        again.send("RetransmitRequest", fromSequence=last, toSequence=last + 1)
        repeated = [again.receive(), again.receive()]
        assert [fields["sequence"] for _, fields in repeated] == [last, last + 1]
        assert again.receive() == (
            "RetransmitComplete",
            {"fromSequence": last, "toSequence": last + 1, "missing": 0},
        )
        again.send("RetransmitRequest", fromSequence=10**9, toSequence=10**9 + 4)
        assert again.receive()[1]["missing"] == 5
        again.send("RetransmitRequest", fromSequence=0, toSequence=2**64 - 1)
        while again.receive()[0] != "RetransmitComplete":
            pass


def test_logon_is_refused_by_name(venue: Venue, a: SbeClient) -> None:
    def refusal(message: bytes) -> tuple[int, str]:
        with SbeClient(sbe_address(venue)) as client:
            client.sock.sendall(message)
            name, answer = client.receive()
            assert name == "Logout"
            return answer["code"], answer["reason"]

    def logon(**fields: Any) -> bytes:
        known = {"clientId": DEMO_A.client_id, "secret": DEMO_A.secret, "heartbeatS": 30}
        return encode("Logon", known | fields)

    assert refusal(logon(secret="wrong"))[0] == 13004
    assert refusal(logon(clientId="stranger"))[0] == 13004
    assert "already" in refusal(logon())[1]
    assert "heartbeat_s 0" in refusal(logon(heartbeatS=0))[1]
    assert (
        "next_sequence"
        in refusal(
            encode("Logon", {"clientId": "demo-b", "secret": "demo-b-secret", "heartbeatS": 9, "nextSequence": 10**6})
        )[1]
    )
    assert "before the logon" in refusal(encode("CancelOrder", {"orderId": 1}))[1]
    assert "frame of 5000000 bytes" in refusal(struct.pack(">IH", 5_000_000, 0xEB50))[1]
    assert "encoding type" in refusal(b"GET / HTTP/1.1\r\n\r\n")[1]
    assert a.request("CancelOrder", orderId=999_999_999)[0] == "Reject"


def test_malformed_message_gets_a_reject_and_the_session_continues(venue: Venue, a: SbeClient) -> None:
    cancel = bytearray(encode("CancelOrder", {"requestId": 1, "orderId": 1}))
    for at, reason in ((6, "block length"), (8, "template id"), (10, "schema id"), (12, "schema version")):
        damaged = cancel.copy()
        damaged[at] ^= 0x40
        a.sock.sendall(damaged)
        name, reject = a.receive()
        assert (name, reject["code"], reject["requestId"]) == ("Reject", -32602, 0)
        assert reason in reject["reason"] and reject["remedy"]
    a.send("LogonAccepted")
    assert "not a request" in a.receive()[1]["reason"]
    name, answer = a.request("NewOrder", **limit(venue, "Buy", "1", "3000"))
    assert name == "OrderAccepted", answer
    a.request("MassCancel", scope="All")
    a.send("Logout")
    while (answer := a.receive())[0] != "Logout":
        pass
    assert answer[1]["code"] == 0


def test_mass_cancel_of_many_orders_has_one_answer_and_a_report_for_each(venue: Venue, a: SbeClient) -> None:
    order = limit(venue, "Buy", "1", "3000")
    for number in range(300):
        a.send("NewOrder", requestId=10_000 + number, **order)
    a.send("MassCancel", requestId=20_000, scope="All")
    a.send("NewOrder", requestId=20_001, **order)
    while (answer := a.receive()[1]).get("requestId") != 20_001:
        if answer.get("requestId") == 20_000:
            assert answer["cancelled"] == 300
    # A session executes its requests in order, so the last order is still open.
    kept = answer["orderId"]
    a.report(kept, "New")
    kinds = [fields.get("executionType") for name, fields in a.messages if name == "ExecutionReport"]
    assert (kinds.count("New"), kinds.count("Cancelled")) == (301, 300)
    numbers = [fields["sequence"] for _, fields in a.messages]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert a.request("MassCancel", scope="All")[1]["cancelled"] == 1


def test_elected_stop_is_reported_before_its_fill(venue: Venue, a: SbeClient, b: SbeClient) -> None:
    stop = limit(venue, "Buy", "5", "3205") | {"orderType": "StopMarket", "price": None, "triggerPrice": "3205"}
    _, waiting = b.request("NewOrder", **stop)
    assert waiting["status"] == "Untriggered"
    assert b.report(waiting["orderId"], "New")["status"] == "Untriggered"
    a.request("NewOrder", **limit(venue, "Sell", "6", "3205"))
    b.request("NewOrder", **limit(venue, "Buy", "1", "3205"))
    fill = b.report(waiting["orderId"], "Trade")
    assert (fill["status"], fill["lastPrice"], fill["lastQuantity"]) == ("Filled", 3205, 5)
    triggered = b.report(waiting["orderId"], "Triggered")
    assert triggered["status"] == "Triggered" and triggered["sequence"] < fill["sequence"]


def test_venue_sends_heartbeats_and_ends_a_silent_client(venue: Venue) -> None:
    with SbeClient(sbe_address(venue)) as client:
        logged_on(client, DEMO_B)
        client.send("Logout")
        while client.receive()[0] != "Logout":
            pass
    with SbeClient(sbe_address(venue)) as client:
        client.send("Logon", clientId="demo-b", secret="demo-b-secret", heartbeatS=1)
        names = []
        while not names or names[-1][0] != "Logout":
            length, _ = struct.unpack(">IH", client.exactly(6))
            names.append(decode(client.exactly(length - 6)))
        assert names[0][0] == "LogonAccepted" and "Heartbeat" in [name for name, _ in names]
        assert names[-1][1]["reason"] == "no message within 3 s"


def test_address_that_is_not_loopback_is_refused(tmp_path: Path) -> None:
    done = run_pitwire("up", "--data", tmp_path / "venue", "--sbe", "0.0.0.0:0")
    assert done.returncode == 2
    assert "0.0.0.0:0 is not a loopback address" in done.stderr
    assert not (tmp_path / "venue").exists()


def test_aeron_without_its_build_names_the_remedy(tmp_path: Path) -> None:
    channels = ["--sbe-aeron", "aeron:ipc,aeron:ipc"]
    done = run_pitwire("up", "--http", "127.0.0.1:0", "--data", tmp_path / "venue", *channels)
    assert done.returncode == 2
    assert "make aeron" in done.stderr
    assert not (tmp_path / "venue").exists()


class JsonTrader:
    """Sends the requests of the paired test as JSON."""

    def __init__(self, venue: Venue, who: Credentials) -> None:
        self.http = Http(venue.address, who)

    def enter(self, side: str, quantity: str, price: str, tif: str) -> tuple[Any, ...]:
        params = {"instrument_name": INSTRUMENT, "type": "limit", "amount": quantity, "price": price}
        answer = self.http.call(f"private/{side.lower()}", params | {"time_in_force": tif.lower()})
        return self.outcome(answer, lambda result: result["order"])

    def amend(self, order_id: int, quantity: str, price: str) -> tuple[Any, ...]:
        answer = self.http.call("private/edit", {"order_id": str(order_id), "amount": quantity, "price": price})
        return self.outcome(answer, lambda result: result["order"])

    def cancel(self, order_id: int) -> tuple[Any, ...]:
        return self.outcome(self.http.call("private/cancel", {"order_id": str(order_id)}), lambda result: result)

    def outcome(self, answer: Json, order_of: Any) -> tuple[Any, ...]:
        if "error" in answer:
            return "refused", answer["error"]["code"], answer["error"]["message"]
        order = order_of(answer["result"])
        return int(order["order_id"]), order["order_state"], order["amount"], order["filled_amount"]


class SbeTrader:
    """Sends the same requests as SBE."""

    def __init__(self, venue: Venue, who: Credentials) -> None:
        self.venue = venue
        self.client = logged_on(SbeClient(sbe_address(venue)), who)

    def enter(self, side: str, quantity: str, price: str, tif: str) -> tuple[Any, ...]:
        order = limit(self.venue, side, quantity, price, timeInForce=tif.capitalize())
        return self.outcome(self.client.request("NewOrder", **order))

    def amend(self, order_id: int, quantity: str, price: str) -> tuple[Any, ...]:
        return self.outcome(self.client.request("AmendOrder", orderId=order_id, quantity=quantity, price=price))

    def cancel(self, order_id: int) -> tuple[Any, ...]:
        return self.outcome(self.client.request("CancelOrder", orderId=order_id))

    def outcome(self, answer: tuple[str, Any]) -> tuple[Any, ...]:
        name, fields = answer
        if name == "Reject":
            return "refused", fields["code"], fields["name"]
        quantities = float(fields["quantity"]), float(fields["filledQuantity"])
        return fields["orderId"], fields["status"].lower(), *quantities


class Trader(Protocol):
    """Sends requests by one protocol. An outcome is a refusal, or begins with the order's
    number."""

    def enter(self, side: str, quantity: str, price: str, tif: str) -> tuple[Any, ...]: ...
    def amend(self, order_id: int, quantity: str, price: str) -> tuple[Any, ...]: ...
    def cancel(self, order_id: int) -> tuple[Any, ...]: ...


def play(traders: Sequence[Trader], seed: int, quantities: Sequence[str] = QUANTITIES) -> list[tuple[Any, ...]]:
    """Plays a random session and returns the outcome of every request."""
    choose = random.Random(seed)
    outcomes: list[tuple[Any, ...]] = []
    entered: list[tuple[int, int]] = []
    for _ in range(REQUESTS):
        who = choose.randrange(2)
        quantity = choose.choice(quantities)
        price = f"{choose.randint(319_900, 320_100) / 100:.2f}"
        tif, side = choose.choice(["GTC", "DAY", "IOC", "FOK"]), choose.choice(["Buy", "Sell"])
        action, which = choose.random(), choose.random()
        if action < 0.6 or not entered:
            outcome = traders[who].enter(side, quantity, price, tif)
            if outcome[0] != "refused":
                entered.append((who, outcome[0]))
        else:
            owner, order_id = entered[int(which * len(entered))]
            # Sometimes another account tries.
            sender = owner if action < 0.95 else 1 - owner
            if action < 0.8:
                outcome = traders[sender].amend(order_id, quantity, price)
            else:
                outcome = traders[sender].cancel(order_id)
        # Order numbers count all commands, and each login is a command. So compare places of entry.
        numbers = [order_id for _, order_id in entered]
        outcomes.append(outcome if outcome[0] == "refused" else (numbers.index(outcome[0]), *outcome[1:]))
    return outcomes


def public_record(venue: Venue) -> tuple[list[Any], list[Any], list[Any]]:
    http = Http(venue.address)
    book = http.result("public/get_order_book", {"instrument_name": INSTRUMENT, "depth": 1000})
    page = http.result("public/get_last_trades_by_instrument", {"instrument_name": INSTRUMENT, "count": 1000})
    trades = [[trade[key] for key in ("trade_seq", "price", "amount", "direction")] for trade in page["trades"]]
    return book["bids"], book["asks"], trades


def test_random_session_has_the_same_events_by_json_and_by_sbe(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    with (
        Venue(tmp_path / "json", OPTIONS) as by_json,
        Venue(tmp_path / "sbe", [*OPTIONS, "--sbe", "127.0.0.1:0"]) as by_sbe,
    ):
        json_traders = [JsonTrader(by_json, who) for who in (DEMO_A, DEMO_B)]
        sbe_traders = [SbeTrader(by_sbe, who) for who in (DEMO_A, DEMO_B)]
        json_outcomes, sbe_outcomes = play(json_traders, seed), play(sbe_traders, seed)
        for number, (ours, theirs) in enumerate(zip(sbe_outcomes, json_outcomes, strict=True)):
            assert ours == theirs, f"seed {seed}, request {number}"
        assert public_record(by_sbe) == public_record(by_json), f"seed {seed}"
        assert public_record(by_json)[2], "the session has no trade"
        for trader in sbe_traders:
            trader.client.sock.close()
