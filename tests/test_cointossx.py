"""The CoinTossX profile: a client with its own codec against the real binary."""

import json
import random
import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from cointossx_client import (
    BEST_BID_OFFER,
    BUY,
    DAY,
    END,
    FOK,
    GTC,
    GTD,
    GTT,
    IOC,
    LOB,
    MARKET,
    SELL,
    SHUT_DOWN,
    START,
    STOP,
    VWAP,
    CoinTossXClient,
    encode,
)
from rpc import Http
from test_sbe import INSTRUMENT, JsonTrader, play, public_record
from venue import DEMO_A, DEMO_B, OPERATOR, Credentials, Venue, run_pitwire

OPTIONS = ["--no-flow", "--durability", "memory"]
BITCOIN = 8
NO_CODE = -(2**31)


def address(venue: Venue) -> str:
    of_profile: str = json.loads(venue.ready_file.read_text())["cointossx"]
    return of_profile


@pytest.fixture(scope="module")
def venue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Venue]:
    options = [*OPTIONS, "--cointossx", "127.0.0.1:0"]
    with Venue(tmp_path_factory.mktemp("cointossx") / "venue", options) as running:
        yield running


def logged_on(client: CoinTossXClient) -> CoinTossXClient:
    """Logs on; tries again while the gateway has not noticed yet that an earlier connection
    ended."""
    while (code := client.log_on()) != 0:
        assert code == 9903
        client.sock.close()
        client.__post_init__()
    return client


@pytest.fixture
def a(venue: Venue) -> Iterator[CoinTossXClient]:
    with CoinTossXClient(address(venue), 1, "test111111") as client:
        yield logged_on(client)
    Http(venue.address, DEMO_A).result("private/cancel_all", {})


@pytest.fixture
def b(venue: Venue) -> Iterator[CoinTossXClient]:
    with CoinTossXClient(address(venue), 2, "test222222") as client:
        yield logged_on(client)
    Http(venue.address, DEMO_B).result("private/cancel_all", {})


def test_both_sides_of_a_trade_get_reports(a: CoinTossXClient, b: CoinTossXClient) -> None:
    a.enter("a-1", BUY, 10, "3200")
    new = a.expect("ExecutionReport", clientOrderId="a-1")
    assert (new["executionType"], new["orderStatus"], new["leavesQuantity"], new["container"]) == ("0", 0, 10, 1)
    assert (new["traderMnemonic"], new["account"], new["securityId"], new["side"]) == ("John", "account123", 1, BUY)
    assert new["group"] == [] and new["transactTime"] > 0 and new["executionID"]

    b.enter("b-1", SELL, 4, "3200")
    maker = a.expect("ExecutionReport", executionType="F")
    taker = b.expect("ExecutionReport", executionType="F")
    assert (maker["orderStatus"], maker["leavesQuantity"]) == (1, 6)
    assert (taker["orderStatus"], taker["leavesQuantity"]) == (2, 0)
    for report in (maker, taker):
        assert report["group"] == [{"fillPrice": Decimal(3200), "fillQty": 4}]

    replace = {"clientOrderId": "a-2", "origClientOrderId": "a-1", "securityId": 1, "orderType": 2, "side": BUY}
    a.send("OrderCancelReplaceRequest", **replace, orderQuantity=12, displayQuantity=12, limitPrice="3190", orderBook=1)
    amended = a.expect("ExecutionReport", executionType="5")
    assert (amended["orderId"], amended["clientOrderId"], amended["leavesQuantity"]) == (new["orderId"], "a-1", 8)
    a.send("OrderCancelRequest", clientOrderId="a-3", origClientOrderId="a-1", securityId=1, side=BUY, orderBook=1)
    assert a.expect("ExecutionReport", executionType="4")["orderStatus"] == 4
    numbers = [fields["sequenceNumber"] for _, fields in a.messages if "sequenceNumber" in fields]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))

    # The order has ended, so neither number finds it.
    a.send("OrderCancelRequest", clientOrderId="a-4", origClientOrderId="a-1", securityId=1, side=BUY)
    assert a.expect("Reject")["rejectReason"] == "order_not_found"
    refused = a.expect("OrderCancelReject")
    assert (refused["clientOrderId"], refused["rejectCode"]) == ("a-4", NO_CODE)
    a.send("OrderCancelRequest", clientOrderId="a-5", orderId=new["orderId"], securityId=1, side=BUY)
    reject = a.expect("Reject", clientOrderId="a-5")
    assert (reject["rejectCode"], reject["rejectReason"], reject["messageType"]) == (10010, "already_closed", "F")


def test_order_types_and_times_in_force_reach_the_venue(venue: Venue, a: CoinTossXClient) -> None:
    a.enter("stop", BUY, 5, "0", orderType=STOP, stopPrice="3300")
    assert a.expect("ExecutionReport", clientOrderId="stop")["container"] == 6
    a.enter("ioc", BUY, 5, "3000", timeInForce=IOC)
    assert a.expect("ExecutionReport", clientOrderId="ioc")["executionType"] == "4"
    a.enter("iceberg", BUY, 500, "3000", displayQuantity=100)
    a.expect("ExecutionReport", clientOrderId="iceberg")
    a.enter("gtd", BUY, 5, "3000", timeInForce=GTD)
    assert a.expect("Reject", clientOrderId="gtd")["rejectCode"] != 0
    assert a.expect("ExecutionReport", clientOrderId="gtd")["executionType"] == "8"
    a.enter("gtt", BUY, 5, "3000", timeInForce=GTT, expireTime="20211330-23:00:00")
    assert a.expect("Reject", clientOrderId="gtt")["rejectReason"].startswith("expireTime")
    orders = Http(venue.address, DEMO_A).result("private/get_open_orders", {})
    shown = {order["client_order_id"]: order for order in orders}
    assert shown.keys() == {"stop", "iceberg"}
    assert (shown["stop"]["order_type"], shown["stop"]["trigger_price"]) == ("stop_market", 3300)
    assert (shown["iceberg"]["amount"], shown["iceberg"]["display_amount"]) == (500, 100)

    a.send("OrderMassCancelRequest", clientOrderId="all", massCancelRequestType=3, securityId=1, orderBook=1)
    assert a.expect("OrderMassCancelReport")["status"] == 7
    a.send("OrderMassCancelRequest", clientOrderId="seg", massCancelRequestType=4, segment="ZA01", orderBook=1)
    assert a.expect("Reject")["rejectReason"] == "segment_cancel_not_served"
    assert a.expect("OrderMassCancelReport")["status"] == 0


def test_refused_order_has_the_reason_of_the_json_dialect(venue: Venue, a: CoinTossXClient) -> None:
    params = {"instrument_name": "NPN_ZAR", "type": "limit", "amount": 5, "price": 3000.001}
    error = Http(venue.address, DEMO_A).call("private/buy", params)["error"]
    a.enter("tick", BUY, 5, "3000.001")
    reject = a.expect("Reject")
    assert (reject["rejectCode"], reject["rejectReason"]) == (error["code"], error["message"][:30])
    assert (reject["messageType"], reject["clientOrderId"]) == ("D", "tick")
    report = a.expect("ExecutionReport", executionType="8")
    assert (report["orderStatus"], report["rejectCode"], report["clientOrderId"]) == (8, NO_CODE, "tick")

    for security in (4_000, -1):
        a.enter("unknown", BUY, 5, "3000", securityId=security)
        assert a.expect("BusinessReject", clientOrderId="unknown")["rejectCode"] == 90000
    a.enter("bitcoin", BUY, 5, "3000", securityId=BITCOIN)
    assert a.expect("Reject")["rejectReason"] == "instrument_does_not_fit"
    a.enter("large", BUY, 5, "92233720369")
    assert a.expect("Reject")["rejectReason"] == "price_does_not_fit"
    a.enter("twice", BUY, 5, "3000")
    a.enter("twice", BUY, 6, "3000")
    assert a.expect("Reject")["rejectReason"] == "duplicate_client_order_id"
    assert len(Http(venue.address, DEMO_A).result("private/get_open_orders", {})) == 1


def test_market_requests_and_public_data(venue: Venue, a: CoinTossXClient, b: CoinTossXClient) -> None:
    b.send("Admin", adminMessage=START, securityId=1)
    assert b.expect("SymbolStatus")["tradingSession"] == 2
    a.enter("bid", BUY, 3, "3100")
    added = b.expect("AddOrder")
    assert (added["side"], added["quantity"], added["price"], added["instrumentId"]) == ("B", 3, 3100, 1)
    # The orders and the best prices come by two channels, in any order.
    assert b.find("BestBidOffer", bidQuantity=3)["bid"] == 3100
    b.enter("sale", SELL, 1, "3100")
    trade = b.expect("OrderExecutedWithPriceSize")
    assert (trade["orderId"], trade["executedQuantity"], trade["displayQuantity"]) == (added["orderId"], 1, 2)
    assert (trade["price"], trade["printable"]) == (3100, "Y") and trade["tradeId"] > 0
    own = a.expect("ExecutionReport", executionType="F")
    assert (own["orderId"], own["leavesQuantity"]) == (added["orderId"], 2)

    a.enter("ask", SELL, 2, "3300.5")
    a.expect("ExecutionReport", clientOrderId="ask")
    a.send("Admin", adminMessage=BEST_BID_OFFER, securityId=1)
    best = a.expect("BestBidOffer")
    assert [best[key] for key in ("bid", "bidQuantity", "offer", "offerQuantity")] == [3100, 2, Decimal("3300.5"), 2]
    a.send("Admin", adminMessage=VWAP, securityId=1)
    vwap = a.expect("VWAP")
    assert (vwap["bidVWAP"], vwap["offerVWAP"]) == (3100, Decimal("3300.5"))
    a.send("Admin", adminMessage=LOB, securityId=1)
    assert a.expect("Admin")["adminMessage"] == 5
    levels = [(level["side"], level["price"], level["orderQuantity"]) for level in a.expect("LOB")["group"]]
    assert levels == [(BUY, 3100, 2), (SELL, Decimal("3300.5"), 2)]
    assert a.expect("Admin")["adminMessage"] == 6

    a.send("OrderCancelRequest", clientOrderId="x", origClientOrderId="bid", securityId=1, side=BUY)
    b.expect("OrderDeleted", orderId=added["orderId"])
    # A hidden order shows only as a trade without an order.
    hidden = {"instrument_name": "NPN_ZAR", "type": "limit", "amount": 1000, "price": 3200, "hidden": True}
    Http(venue.address, DEMO_A).result("private/buy", hidden | {"min_execution": 10})
    b.enter("into-hidden", SELL, 500, "3200")
    assert b.expect("Trade")["executedQuantity"] == 500
    b.send("Admin", adminMessage=END, securityId=1)
    assert b.expect("Admin")["adminMessage"] == END
    b.send("Admin", adminMessage=START, securityId=1)
    b.expect("SymbolStatus")
    b.send("Admin", adminMessage=START, securityId=BITCOIN)
    assert b.expect("Reject")["rejectReason"] == "instrument_does_not_fit"
    b.send("Admin", adminMessage=SHUT_DOWN, securityId=1)
    assert "not served" in b.expect("Reject")["rejectReason"]
    b.send("Admin", adminMessage=VWAP, securityId=4_000)
    assert b.expect("BusinessReject")["rejectCode"] == 90000


def test_missed_messages_come_on_request(venue: Venue, a: CoinTossXClient, b: CoinTossXClient) -> None:
    a.enter("resting", BUY, 5, "3150")
    last = a.expect("ExecutionReport", clientOrderId="resting")["sequenceNumber"]
    a.sock.close()
    b.enter("fill", SELL, 5, "3150")
    b.expect("ExecutionReport", executionType="F")
    with CoinTossXClient(address(venue), 1, "test111111") as again:
        logged_on(again)
        again.send("MissedMessageRequest", partitionId=1, sequenceNumber=last + 1)
        assert again.expect("MissedMessageRequestAck")["status"] == 0
        assert again.expect("TransmissionComplete")["status"] == 0
        # The report may also be new to this connection.
        while not any(fields.get("executionType") == "F" for _, fields in again.messages):
            again.receive()
        again.messages.clear()
        again.send("MissedMessageRequest", partitionId=1, sequenceNumber=last)
        again.expect("TransmissionComplete")
        names = [(name, fields.get("sequenceNumber")) for name, fields in again.messages]
        repeated = [("ExecutionReport", last), ("ExecutionReport", last + 1)]
        assert names == [("MissedMessageRequestAck", None), *repeated, ("TransmissionComplete", None)]
        assert again.messages[2][1]["clientOrderId"] == "resting"
        again.send("MissedMessageRequest", partitionId=9, sequenceNumber=1)
        assert again.expect("MissedMessageRequestAck")["status"] == 2
        # Gone with the connection, as the order asked.
        again.enter("until", BUY, 5, "3000", cancelOnDisconnect=1)
        again.enter("kept", BUY, 5, "3000")
        again.expect("ExecutionReport", clientOrderId="kept")
    with CoinTossXClient(address(venue), 1, "test111111") as third:
        logged_on(third)
        orders = Http(venue.address, DEMO_A).result("private/get_open_orders", {})
        assert [order["client_order_id"] for order in orders] == ["kept"]


def test_logon_is_refused_by_code_and_name(venue: Venue, a: CoinTossXClient) -> None:
    def refusal(comp_id: int, password: str, new_password: str = "") -> tuple[int, str]:
        with CoinTossXClient(address(venue), comp_id, password) as client:
            code = client.log_on(new_password)
            return code, client.messages[0][1]["rejectReason"]

    assert refusal(1, "wrong")[0] == 1
    assert refusal(77, "test111111")[0] == 1
    code, reason = refusal(1, "test111111")
    assert code == 9903 and "logged on" in reason
    assert refusal(2, "test222222", "new")[1] == "change the password in the member f"[:30]
    with CoinTossXClient(address(venue), 2, "test222222") as client:
        client.enter("early", BUY, 5, "3000")
        assert client.expect("LogonResponse")["rejectCode"] == 100
    # CoinTossX's clients log on three times.
    assert (a.log_on(), a.log_on("test111111")) == (0, 0)
    a.send("Logout", reason="done")
    a.expect("Logout")


def test_malformed_message_gets_a_named_reject_and_the_session_continues(a: CoinTossXClient) -> None:
    order = encode("NewOrder", 1, {"clientOrderId": "m", "orderType": 2, "side": BUY, "orderBook": 1})
    damages = {6: "block length", 8: "template id", 10: "schema id", 12: "schema version", 14: "compID"}
    for at, reason in damages.items():
        damaged = bytearray(order)
        damaged[at] ^= 0x40
        a.sock.sendall(damaged)
        assert reason in a.expect("Reject")["rejectReason"]
    side = bytearray(order)
    side[18 + 70] = 7
    a.sock.sendall(side)
    assert a.expect("Reject")["rejectReason"].startswith("field ")
    short = order[:-4]
    a.sock.sendall(struct.pack(">I", len(short)) + short[4:])
    assert a.expect("Reject")["rejectReason"].startswith("the message ends")
    a.send("ClientHawkesCounter", clientId=1, max=1, complete=1)
    assert "92 is not a" in a.expect("Reject")["rejectReason"]
    a.enter("market", BUY, 1, "0", orderType=MARKET)
    a.expect("ExecutionReport", clientOrderId="market")
    a.enter("after", BUY, 1, "3000")
    assert a.expect("ExecutionReport", clientOrderId="after")["executionType"] == "0"


def test_member_file_names_the_logins(tmp_path: Path) -> None:
    members = tmp_path / "members.csv"
    up = ["up", "--data", tmp_path / "none", "--cointossx", "127.0.0.1:0", "--cointossx-members", members]
    done = run_pitwire(*up)
    assert done.returncode == 2 and "cannot read" in done.stderr
    members.write_text("CompID,Password,ClientID,ClientSecret\n7,much-too-long,demo-a,demo-a-secret\n")
    done = run_pitwire(*up)
    assert done.returncode == 2 and "1 to 10 bytes" in done.stderr and "much-too-long" not in done.stderr
    members.write_text("CompID,Password,ClientID,ClientSecret\n7,secret-7,demo-b,demo-b-secret\n")
    options = [*OPTIONS, "--cointossx", "127.0.0.1:0", "--cointossx-members", str(members)]
    with Venue(tmp_path / "venue", options) as venue:
        with CoinTossXClient(address(venue), 1, "test111111") as client:
            assert client.log_on() == 1
        with CoinTossXClient(address(venue), 7, "secret-7") as client:
            assert client.log_on() == 0
            client.enter("m-1", SELL, 5, "3200")
            client.expect("ExecutionReport", clientOrderId="m-1")
        assert len(Http(venue.address, DEMO_B).result("private/get_open_orders", {})) == 1
        assert Http(venue.address, OPERATOR).result("public/get_time", {}) > 0


def test_address_that_is_not_loopback_is_refused(tmp_path: Path) -> None:
    done = run_pitwire("up", "--data", tmp_path / "venue", "--cointossx", "0.0.0.0:0")
    assert done.returncode == 2
    assert "0.0.0.0:0 is not a loopback address" in done.stderr


def test_without_an_address_the_port_is_that_of_cointossx(tmp_path: Path) -> None:
    with ExitStack() as stack:
        # If another program uses the port, the venue cannot have it either.
        with suppress(OSError):
            stack.enter_context(socket.create_server(("127.0.0.1", 5000)))
        done = run_pitwire("up", "--http", "127.0.0.1:0", "--data", tmp_path / "venue", *OPTIONS, "--cointossx")
    assert done.returncode != 0
    assert "127.0.0.1:5000" in done.stderr and "--cointossx" in done.stderr, done.stderr


class CoinTossXTrader:
    """Sends the requests of the paired test as CoinTossX's messages."""

    def __init__(self, venue: Venue, client: CoinTossXClient, who: Credentials) -> None:
        self.http = Http(venue.address, who)
        self.client = logged_on(client)
        self.number = 0

    def enter(self, side: str, quantity: str, price: str, tif: str) -> tuple[Any, ...]:
        codes = {"GTC": GTC, "DAY": DAY, "IOC": IOC, "FOK": FOK}
        client_order_id = self.next_number()
        way = BUY if side == "Buy" else SELL
        self.client.enter(client_order_id, way, int(quantity), price, timeInForce=codes[tif])
        if refusal := self.refusal(client_order_id):
            return refusal
        while True:
            for name, fields in self.client.messages:
                if name == "ExecutionReport" and fields["clientOrderId"] == client_order_id:
                    return self.state(fields["orderId"])
            self.client.receive()

    def amend(self, order_id: int, quantity: str, price: str) -> tuple[Any, ...]:
        fields = {"orderQuantity": int(quantity), "displayQuantity": int(quantity), "limitPrice": price}
        return self.change("OrderCancelReplaceRequest", order_id, orderType=2, **fields)

    def cancel(self, order_id: int) -> tuple[Any, ...]:
        return self.change("OrderCancelRequest", order_id)

    def change(self, name: str, order_id: int, **fields: Any) -> tuple[Any, ...]:
        number = self.next_number()
        self.client.send(name, clientOrderId=number, orderId=order_id, securityId=1, side=BUY, orderBook=1, **fields)
        return self.refusal(number) or self.state(order_id)

    def next_number(self) -> str:
        self.number += 1
        return f"r-{self.number}"

    def refusal(self, client_order_id: str) -> tuple[Any, ...] | None:
        """A session executes its requests in order, so a refusal precedes the answer to a query."""
        self.client.send("Admin", adminMessage=BEST_BID_OFFER, securityId=1)
        self.client.messages.clear()
        self.client.expect("BestBidOffer")
        for name, fields in self.client.messages:
            if name == "Reject" and fields["clientOrderId"] == client_order_id:
                return "refused", fields["rejectCode"]
        return None

    def state(self, order_id: int) -> tuple[Any, ...]:
        order = self.http.result("private/get_order_state", {"order_id": str(order_id)})
        return order_id, order["order_state"], order["amount"], order["filled_amount"]


def test_random_session_has_the_same_events_by_json_and_by_cointossx(tmp_path: Path) -> None:
    seed = random.SystemRandom().randrange(2**32)
    with (
        Venue(tmp_path / "json", OPTIONS) as by_json,
        Venue(tmp_path / "ctx", [*OPTIONS, "--cointossx", "127.0.0.1:0"]) as by_profile,
        CoinTossXClient(address(by_profile), 1, "test111111") as first,
        CoinTossXClient(address(by_profile), 2, "test222222") as second,
    ):
        quantities = ("1", "2", "5", "30")
        json_traders = [JsonTrader(by_json, who) for who in (DEMO_A, DEMO_B)]
        traders = [CoinTossXTrader(by_profile, *pair) for pair in ((first, DEMO_A), (second, DEMO_B))]
        theirs, ours = play(json_traders, seed, quantities), play(traders, seed, quantities)
        for number, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            # The name of a refusal is cut to 30 bytes, so compare its code.
            assert mine == (other[:2] if other[0] == "refused" else other), f"seed {seed}, request {number}"
        assert public_record(by_profile) == public_record(by_json), f"seed {seed}"
        assert public_record(by_json)[2], f"{INSTRUMENT} has no trade"
