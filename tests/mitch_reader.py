"""A reader of the order-by-order feed, written from docs/order-feed.md: lines, recovery, books."""

import random
import socket
import struct
import time
from dataclasses import dataclass, field
from decimal import Decimal

from byte_stream import PATIENCE_S, ByteStream

EIGHT = Decimal(10) ** -8


@dataclass
class Order:
    side: str
    instrument: int
    price: int
    quantity: int


@dataclass
class Books:
    """The orders of all instruments. A dict keeps the order of insertion, which is priority."""

    orders: dict[int, Order] = field(default_factory=dict)
    names: dict[int, str] = field(default_factory=dict)
    lots: dict[int, Decimal] = field(default_factory=dict)
    status: dict[int, str] = field(default_factory=dict)
    named: set[int] = field(default_factory=set)
    seen: dict[str, int] = field(default_factory=dict)

    def apply(self, kind: str, body: bytes) -> None:
        self.seen[kind] = self.seen.get(kind, 0) + 1
        if kind == "R":
            instrument = struct.unpack_from("<I", body, 4)[0]
            self.names[instrument] = body[23:48].decode().strip()
            self.lots[instrument] = struct.unpack_from("<q", body, 379)[0] * EIGHT
        elif kind == "H" and body[-1] == 1:
            self.status[struct.unpack_from("<I", body, 4)[0]] = chr(body[10])
        elif kind == "y":
            instrument = struct.unpack_from("<I", body, 4)[0]
            self.orders = {id: order for id, order in self.orders.items() if order.instrument != instrument}
        elif kind == "A":
            id, side, quantity, instrument, price = struct.unpack_from("<QcII2xq", body, 4)
            assert id not in self.orders
            self.named.add(id)
            self.orders[id] = Order(side.decode(), instrument, price, quantity)
        elif kind == "D":
            del self.orders[struct.unpack_from("<Q", body, 4)[0]]
        elif kind == "U":
            id, quantity, price, flags = struct.unpack_from("<QIqB", body, 4)
            order = self.orders[id]
            if not flags & 1:
                self.orders[id] = self.orders.pop(id)
            order.quantity, order.price = quantity, price
        elif kind == "E":
            id, executed = struct.unpack_from("<QI", body, 4)
            self.reduce(id, self.orders[id].quantity - executed)
        elif kind == "C":
            id, _, display = struct.unpack_from("<QII", body, 4)
            self.reduce(id, display)

    def reduce(self, id: int, left: int) -> None:
        assert left >= 0
        if left:
            self.orders[id].quantity = left
        else:
            del self.orders[id]

    def levels(self, name: str, side: str) -> list[list[float]]:
        """Prices and amounts as `public/get_order_book` states them, best first."""
        instrument = next(id for id, known in self.names.items() if known == name)
        amounts: dict[int, int] = {}
        for order in self.orders.values():
            if (order.instrument, order.side) == (instrument, side):
                amounts[order.price] = amounts.get(order.price, 0) + order.quantity
        prices = sorted(amounts, reverse=side == "B")
        return [[float(price * EIGHT), float(amounts[price] * self.lots[instrument])] for price in prices]


def messages(unit: bytes) -> list[tuple[str, bytes]]:
    found, at = [], 8
    while at < len(unit):
        length, kind = struct.unpack_from("<HB", unit, at)
        found.append((chr(kind), unit[at + 3 : at + length]))
        at += length
    assert at == len(unit) and len(found) == unit[2]
    return found


def request(kind: int, body: bytes) -> bytes:
    return struct.pack("<HBcIHB", 11 + len(body), 1, b"P", 0, 3 + len(body), kind) + body


class Recovery(ByteStream):
    def __post_init__(self) -> None:
        super().__post_init__()
        self.sock.sendall(request(0x01, b" " * 16))
        assert messages(self.unit()) == [("\x02", b"A")]

    def unit(self) -> bytes:
        header = self.exactly(8)
        return header + self.exactly(struct.unpack_from("<H", header)[0] - 8)

    def snapshot(self) -> tuple[int, Books]:
        self.sock.sendall(request(0x81, bytes(30)))
        books, newest = Books(), -1
        while True:
            for kind, body in messages(self.unit()):
                if kind == "\x82":
                    newest, count, status = struct.unpack_from("<IIc", body)
                    assert status == b"A"
                elif kind == "\x83":
                    assert len(books.orders) == count
                    return newest, books
                else:
                    books.apply(kind, body)

    def replay(self, first: int, count: int) -> list[bytes]:
        self.sock.sendall(request(0x03, struct.pack("<cIH", b"P", first, count)))
        [(kind, body)] = messages(self.unit())
        _, _, left, status = struct.unpack("<cIHc", body)
        assert (kind, status) == ("\x04", b"A")
        units = []
        while left:
            units.append(self.unit())
            left -= units[-1][2]
        return units


class FeedReader:
    """Joins lines A and B. It drops `lost` of the datagrams of each line before it reads them."""

    def __init__(self, lost: float, seed: int) -> None:
        self.lost, self.random = lost, random.Random(seed)
        self.lines = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
        for line in self.lines:
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
            line.bind(("127.0.0.1", 0))
            line.setblocking(False)
        self.addresses = ",".join(f"127.0.0.1:{line.getsockname()[1]}" for line in self.lines)
        self.waiting: dict[int, bytes] = {}
        self.dropped = self.replays = 0

    def join(self, recovery: str) -> None:
        self.recovery = Recovery(recovery)
        newest, self.books = self.recovery.snapshot()
        self.next = newest + 1

    def poll(self) -> None:
        """Takes all units that have arrived, and then asks for the missing ones."""
        end = self.next
        for line in self.lines:
            while True:
                try:
                    unit = line.recv(2_000)
                except BlockingIOError:
                    break
                if self.random.random() < self.lost:
                    self.dropped += 1
                else:
                    end = max(end, self.take(unit))
        while self.next < end:
            self.replays += 1
            for unit in self.recovery.replay(self.next, min(end - self.next, 65_535)):
                self.take(unit)

    def take(self, unit: bytes) -> int:
        """Keeps one unit, and applies all units without a gap. Returns the next number."""
        length, count, _, first = struct.unpack_from("<HBcI", unit)
        assert length == len(unit)
        self.waiting[first] = unit
        while ready := next((at for at, unit in self.waiting.items() if at <= self.next), None):
            for number, (kind, body) in enumerate(messages(self.waiting.pop(ready)), ready):
                if number == self.next:
                    self.books.apply(kind, body)
                    self.next += 1
        return first + count

    def until_equal(self, books: dict[str, dict[str, list[list[float]]]]) -> None:
        """Polls until the books are those of the venue."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            self.poll()
            own = {
                name: {side: self.books.levels(name, side[0].upper().replace("A", "S")) for side in book}
                for name, book in books.items()
            }
            if own == books:
                return
            assert time.monotonic() < deadline, next(
                (own[name], books[name]) for name in books if own[name] != books[name]
            )
            time.sleep(0.01)
