"""A reader of ITCH 5.0 over MoldUDP64 with snapshots of GLIMPSE 5.0, written from specifications of
Nasdaq."""

import socket
import struct
import time
from dataclasses import dataclass, field
from decimal import Decimal
from typing import BinaryIO

PATIENCE_S = 60.0
FOUR = Decimal(10) ** -4
END_OF_SESSION = 0xFFFF
# Type, stock locate, tracking number and a time of six bytes precede the fields.
FIELDS = 11
LENGTHS = {"S": 12, "R": 39, "H": 25, "A": 36, "E": 31, "C": 36, "X": 23, "D": 19, "U": 35, "P": 44, "Q": 40}
LENGTHS |= {"B": 19, "I": 50}


@dataclass
class Order:
    side: str
    locate: int
    price: int
    shares: int


@dataclass
class Books:
    """The orders by reference. A dict keeps the order of insertion, which is priority."""

    orders: dict[int, Order] = field(default_factory=dict)
    stocks: dict[int, str] = field(default_factory=dict)
    states: dict[int, str] = field(default_factory=dict)
    references: set[int] = field(default_factory=set)
    seen: dict[str, int] = field(default_factory=dict)
    second: int = -1

    def apply(self, message: bytes) -> None:
        kind = chr(message[0])
        assert len(message) == LENGTHS[kind], (kind, len(message))
        self.seen[kind] = self.seen.get(kind, 0) + 1
        locate, tracking = struct.unpack_from(">HH", message, 1)
        nanoseconds = int.from_bytes(message[5:11], "big")
        assert tracking == 0 and nanoseconds < 86_400 * 10**9
        self.second = nanoseconds // 10**9
        if kind == "R":
            self.stocks[locate] = message[FIELDS : FIELDS + 8].decode().rstrip()
        elif kind == "H":
            self.states[locate] = chr(message[FIELDS + 8])
        elif kind == "A":
            reference, side, shares, stock, price = struct.unpack_from(">QcI8sI", message, FIELDS)
            assert reference not in self.orders and stock.decode().rstrip() == self.stocks[locate]
            self.references.add(reference)
            self.orders[reference] = Order(side.decode(), locate, price, shares)
        elif kind in "ECX":
            reference, shares = struct.unpack_from(">QI", message, FIELDS)
            order = self.orders[reference]
            assert order.locate == locate and shares <= order.shares
            order.shares -= shares
            if order.shares == 0:
                del self.orders[reference]
        elif kind == "D":
            del self.orders[struct.unpack_from(">Q", message, FIELDS)[0]]
        elif kind == "U":
            old, new, shares, price = struct.unpack_from(">QQII", message, FIELDS)
            order = self.orders.pop(old)
            assert new not in self.references
            self.references.add(new)
            self.orders[new] = Order(order.side, order.locate, price, shares)

    def levels(self, name: str, side: str, lot: Decimal) -> list[list[float]]:
        """Prices and amounts as `public/get_order_book` states them, best first."""
        amounts: dict[int, int] = {}
        for order in self.orders.values():
            if (self.stocks[order.locate], order.side) == (name[:8], side):
                amounts[order.price] = amounts.get(order.price, 0) + order.shares
        prices = sorted(amounts, reverse=side == "B")
        return [[float(price * FOUR), float(amounts[price] * lot)] for price in prices]


def messages(packet: bytes) -> list[bytes]:
    count, found, at = struct.unpack_from(">H", packet, 18)[0], [], 20
    while at < len(packet):
        (length,) = struct.unpack_from(">H", packet, at)
        found.append(packet[at + 2 : at + 2 + length])
        at += 2 + length
    assert at == len(packet) and len(found) == count
    return found


def soup_packet(stream: BinaryIO) -> tuple[bytes, bytes]:
    """Type and content of the next packet of SoupBinTCP."""
    (length,) = struct.unpack(">H", stream.read(2))
    packet = stream.read(length)
    assert len(packet) == length > 0
    return packet[:1], packet[1:]


class ItchReader:
    """Receives one line, drops some of its packets, and requests missing messages."""

    def __init__(self, lost_every: int = 0) -> None:
        self.line = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self.line.bind(("127.0.0.1", 0))
        self.line.settimeout(0.05)
        self.address = f"127.0.0.1:{self.line.getsockname()[1]}"
        self.requests = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.requests.settimeout(1.0)
        self.books, self.session, self.next, self.end = Books(), b"", 1, 1
        self.lost_every, self.received, self.requested, self.heartbeats = lost_every, 0, 0, 0
        self.has_ended = False
        self.waiting: dict[int, bytes] = {}

    def connect(self, recovery: str) -> None:
        host, port = recovery.rsplit(":", 1)
        self.requests.connect((host, int(port)))

    def join(self, recovery: str) -> None:
        """Takes a snapshot and continues with the message after it."""
        host, port = recovery.rsplit(":", 1)
        with socket.create_connection((host, int(port)), PATIENCE_S) as tcp, tcp.makefile("rb") as stream:
            login = b"L" + b"user".ljust(6) + b"password".ljust(10) + b" " * 10 + b"1".rjust(20)
            tcp.sendall(struct.pack(">H", len(login)) + login)
            kind, accepted = soup_packet(stream)
            assert kind == b"A" and int(accepted[10:]) == 1 and len(accepted) == 30
            self.session = accepted[:10]
            while (packet := soup_packet(stream))[1][:1] != b"G":
                assert packet[0] == b"S"
                self.books.apply(packet[1])
            assert packet[0] == b"S" and len(packet[1]) == 21
            self.next = self.end = int(packet[1][1:])
            assert soup_packet(stream) == (b"Z", b"") and stream.read() == b""

    def poll(self) -> None:
        """Takes the packets that have arrived, and then requests missing messages."""
        try:
            while True:
                self.received += 1
                packet = self.line.recv(2_000)
                if not (self.lost_every and self.received % self.lost_every == 0):
                    self.take(packet)
        except TimeoutError:
            pass
        while self.next < self.end:
            self.requested += 1
            self.requests.send(self.session + struct.pack(">QH", self.next, min(self.end - self.next, 60_000)))
            try:
                packet = self.requests.recv(2_000)
            except TimeoutError:
                return
            assert struct.unpack_from(">Q", packet, 10)[0] == self.next, "an answer begins with what was asked for"
            self.take(packet)

    def take(self, packet: bytes) -> None:
        session, first, count = struct.unpack_from(">10sQH", packet)
        assert self.session in (b"", session)
        self.session = session
        if count in (0, END_OF_SESSION):
            assert len(packet) == 20
            self.heartbeats += count == 0
            self.has_ended |= count == END_OF_SESSION
            self.end = max(self.end, first)
            return
        self.end = max(self.end, first + count)
        self.waiting[first] = packet
        while ready := next((at for at, _ in self.waiting.items() if at <= self.next), None):
            for number, message in enumerate(messages(self.waiting.pop(ready)), ready):
                if number == self.next:
                    self.books.apply(message)
                    self.next += 1

    def until_equal(self, books: dict[str, dict[str, list[list[float]]]], lots: dict[str, Decimal]) -> None:
        """Polls until the books are those of the venue."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            self.poll()
            own = {
                name: {side: self.books.levels(name, "B" if side == "bids" else "S", lots[name]) for side in book}
                for name, book in books.items()
            }
            if own == books:
                return
            assert time.monotonic() < deadline, next(
                (own[name], books[name]) for name in books if own[name] != books[name]
            )
