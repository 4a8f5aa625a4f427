"""A client of the CoinTossX profile. Its codec is written from the layouts of CoinTossX's messages
and shares nothing with the schema files or with the venue."""

import struct
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from byte_stream import ByteStream

Fields = dict[str, Any]

# Template id: name, header with compID, and the fields: q stands for a price of 1e-4, a number for
# a text of that length.
LAYOUTS: dict[int, tuple[str, bool, str]] = {
    1: ("Logon", True, "compID:i password:10 newPassword:10"),
    2: ("LogonResponse", True, "rejectCode:i passwordExpiry:i"),
    3: ("Logout", True, "reason:20"),
    4: ("Reject", True, "rejectCode:i rejectReason:30 messageType:1 clientOrderId:20"),
    5: ("MissedMessageRequest", True, "partitionId:B sequenceNumber:i"),
    6: ("MissedMessageRequestAck", True, "status:B"),
    7: ("TransmissionComplete", True, "status:B"),
    8: ("SystemStatus", True, "status:B"),
    9: (
        "NewOrder",
        True,
        "clientOrderId:20 securityId:i traderMnemonic:17 account:10 orderType:B timeInForce:B expireTime:17 side:B "
        "orderQuantity:i displayQuantity:i minQuantity:i limitPrice:q stopPrice:q capacity:B cancelOnDisconnect:B "
        "orderBook:B",
    ),
    10: (
        "OrderCancelRequest",
        True,
        "clientOrderId:20 origClientOrderId:20 orderId:i securityId:i traderMnemonic:17 side:B orderBook:B "
        "limitPrice:q",
    ),
    11: (
        "OrderMassCancelRequest",
        True,
        "clientOrderId:20 massCancelRequestType:B securityId:i segment:6 orderSubType:B orderBook:B",
    ),
    12: (
        "OrderCancelReplaceRequest",
        True,
        "clientOrderId:20 origClientOrderId:20 orderId:i securityId:i traderMnemonic:17 account:10 orderType:B "
        "timeInForce:B expireTime:17 side:B orderQuantity:i displayQuantity:i minQuantity:i limitPrice:q stopPrice:q "
        "orderBook:B",
    ),
    13: (
        "ExecutionReport",
        True,
        "partitionId:B sequenceNumber:i executionID:21 clientOrderId:20 orderId:i executionType:1 orderStatus:B "
        "rejectCode:i leavesQuantity:i container:B securityId:i side:B traderMnemonic:17 account:10 "
        "isMarketOpsRequest:B transactTime:Q orderBook:B",
    ),
    14: (
        "OrderCancelReject",
        True,
        "partitionId:B sequenceNumber:i clientOrderId:20 orderId:i transactTime:Q rejectCode:i orderBook:B",
    ),
    15: (
        "OrderMassCancelReport",
        True,
        "partitionId:B sequenceNumber:i clientOrderId:20 status:B rejectCode:i transactTime:Q orderBook:B",
    ),
    17: (
        "BusinessReject",
        True,
        "partitionId:B sequenceNumber:i rejectCode:i clientOrderId:20 orderId:i transactTime:Q",
    ),
    19: (
        "AddOrder",
        False,
        "messageType:1 nanosecond:I orderId:Q side:1 quantity:I instrumentId:I price:q flags:B",
    ),
    20: ("OrderDeleted", False, "messageType:1 nanosecond:I orderId:Q"),
    21: ("OrderModified", False, "messageType:1 nanosecond:I orderId:Q newQuantity:I newPrice:q flags:B"),
    23: (
        "OrderExecutedWithPriceSize",
        False,
        "messageType:1 nanosecond:I orderId:Q executedQuantity:I displayQuantity:I tradeId:I printable:1 price:q "
        "instrumentId:I clientOrderId:Q executedTime:Q",
    ),
    24: ("Trade", False, "messageType:1 nanosecond:I executedQuantity:I instrumentId:I price:q tradeId:Q"),
    25: ("AuctionTrade", False, "messageType:1 nanosecond:I executedQuantity:I instrumentId:I price:q tradeId:Q"),
    26: ("BestBidOffer", False, "messageType:1 instrumentId:I bid:q bidQuantity:I offer:q offerQuantity:I"),
    27: (
        "SymbolStatus",
        True,
        "messageType:1 nanosecond:I instrumentId:I tradingSession:B haltReason:i sessionChangedReason:B "
        "staticPriceReference:q dynamicPriceReference:q",
    ),
    91: ("Admin", True, "adminMessage:B securityId:i"),
    92: ("ClientHawkesCounter", True, "clientId:i max:i complete:i"),
    94: ("LOB", True, "securityId:i"),
    95: ("VWAP", True, "securityId:i bidVWAP:q offerVWAP:q"),
}
# Template id: the integers of the group header, and the fields of an entry.
GROUPS = {
    13: ("HB", "fillPrice:q fillQty:i"),
    94: ("ii", "orderId:i price:q orderQuantity:i side:B clientOrderId:20"),
}
IDS = {name: number for number, (name, _, _) in LAYOUTS.items()}
MARKET, LIMIT, STOP, STOP_LIMIT = 1, 2, 3, 4
BUY, SELL = 1, 2
DAY, GTC, IOC, FOK, GTD, GTT = 0, 1, 3, 4, 6, 8
LOB, SHUT_DOWN, VWAP, BEST_BID_OFFER, START, END = 2, 3, 4, 7, 8, 9


def places(layout: str) -> list[tuple[str, str]]:
    return [(name, kind) for name, _, kind in (part.partition(":") for part in layout.split())]


def pack(layout: str, fields: Fields) -> bytes:
    block = b""
    for name, kind in places(layout):
        value = fields.get(name)
        if kind.isdigit():
            block += (value or "").ljust(int(kind)).encode()
        elif kind == "q":
            block += struct.pack("<q", int(Decimal(value or 0) * 10_000))
        else:
            block += struct.pack("<" + kind, value or 0)
    return block


def unpack(layout: str, data: bytes, at: int) -> tuple[Fields, int]:
    fields: Fields = {}
    for name, kind in places(layout):
        if kind.isdigit():
            end = at + int(kind)
            fields[name] = data[at:end].decode().rstrip(" \0")
        else:
            end = at + struct.calcsize("<" + kind)
            (number,) = struct.unpack_from("<" + kind, data, at)
            fields[name] = Decimal(number) / 10_000 if kind == "q" else number
        at = end
    return fields, at


def encode(name: str, comp_id: int, fields: Fields) -> bytes:
    number = IDS[name]
    _, has_comp_id, layout = LAYOUTS[number]
    assert fields.keys() <= {field for field, _ in places(layout)}, fields
    block = pack(layout, fields)
    body = struct.pack("<4H", len(block), number, 1, 0) + (struct.pack("<i", comp_id) if has_comp_id else b"") + block
    return struct.pack(">IH", len(body) + 6, 0xEB50) + body


def decode(body: bytes) -> tuple[str, Fields]:
    block, number, schema, version = struct.unpack_from("<4H", body)
    assert (schema, version) == (1, 0)
    name, has_comp_id, layout = LAYOUTS[number]
    start = 12 if has_comp_id else 8
    fields, at = unpack(layout, body, start)
    assert at - start == block, f"{name}: block of {block} bytes"
    if number in GROUPS:
        header, entry = GROUPS[number]
        entry_bytes, count = struct.unpack_from("<" + header, body, at)
        at += struct.calcsize("<" + header)
        fields["group"] = []
        for _ in range(count):
            values, end = unpack(entry, body, at)
            assert end - at == entry_bytes
            fields["group"].append(values)
            at = end
    assert at == len(body), f"{name}: {len(body) - at} bytes too many"
    return name, fields


def matches(message: tuple[str, Fields], name: str, fields: Fields) -> bool:
    return message[0] == name and all(message[1][key] == value for key, value in fields.items())


@dataclass
class CoinTossXClient(ByteStream):
    """One connection of a member. `messages` has every received message in order."""

    comp_id: int
    password: str
    messages: list[tuple[str, Fields]] = field(default_factory=list)

    def send(self, name: str, **fields: Any) -> None:
        self.sock.sendall(encode(name, self.comp_id, fields))

    def receive(self) -> tuple[str, Fields]:
        length, encoding = struct.unpack(">IH", self.exactly(6))
        assert encoding == 0xEB50
        message = decode(self.exactly(length - 6))
        self.messages.append(message)
        return message

    def expect(self, name: str, **fields: Any) -> Fields:
        """Receives until a message of this name has these fields."""
        while True:
            message = self.receive()
            if matches(message, name, fields):
                return message[1]

    def find(self, name: str, **fields: Any) -> Fields:
        """Returns the first received message of this name with these fields, and waits for it."""
        for message in self.messages:
            if matches(message, name, fields):
                return message[1]
        return self.expect(name, **fields)

    def log_on(self, new_password: str = "") -> int:
        """Returns the code of the answer."""
        self.send("Logon", compID=self.comp_id, password=self.password, newPassword=new_password)
        code: int = self.expect("LogonResponse")["rejectCode"]
        return code

    def enter(self, client_order_id: str, side: int, quantity: int, price: str, **fields: Any) -> None:
        order = {"clientOrderId": client_order_id, "side": side, "orderQuantity": quantity, "limitPrice": price}
        base = {"securityId": 1, "orderType": LIMIT, "displayQuantity": quantity, "traderMnemonic": "John"}
        rest = {"account": "account123", "expireTime": "20211230-23:00:00", "capacity": 3, "orderBook": 1}
        self.send("NewOrder", **(base | rest | order | fields))
