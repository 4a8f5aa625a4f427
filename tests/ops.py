"""Operation files for `pitwire engine-bench`, and a matcher written from interfaces.md to answer
them. It keeps one sorted list of prices per side and one queue per price: slow and simple."""

import bisect
import random
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

LIMIT, CANCEL, MARKET, IMMEDIATE, REPLACE = range(5)
BUY, SELL = 0, 1
RECORD = struct.Struct("<BBHIQII")


@dataclass(frozen=True)
class Op:
    kind: int
    side: int
    price: int
    id: int
    quantity: int


def write(path: Path, ops: Iterable[Op]) -> None:
    path.write_bytes(b"".join(RECORD.pack(op.kind, op.side, 0, op.price, op.id, op.quantity, 0) for op in ops))


def random_ops(seed: int, count: int, mid: int = 10_000) -> list[Op]:
    """A mixture that grows a book and trades a third of it. Ids are arbitrary and unique among live
    orders."""
    rng = random.Random(seed)
    sides: dict[int, int] = {}
    entered: list[int] = []  # every id ever given to a limit order, dead ones included
    ops = []
    for _ in range(count):
        dice = rng.random()
        side = rng.choice([BUY, SELL])
        behind = rng.randint(-8, 40) if rng.random() < 0.97 else rng.choice([mid // 2, mid - 1])
        near = mid - behind if side == BUY else mid + behind
        new_id = rng.getrandbits(64)
        quantity = rng.randint(1, 100)
        known = entered[-rng.randint(1, min(300, len(entered)))] if entered and rng.random() < 0.95 else new_id
        if dice < 0.5:
            ops.append(Op(LIMIT, side, near, new_id, quantity))
            sides[new_id] = side
            entered.append(new_id)
        elif dice < 0.7:
            ops.append(Op(CANCEL, 0, 0, known, 0))
        elif dice < 0.78:
            ops.append(Op(MARKET, side, 0, new_id, quantity))
        elif dice < 0.86:
            ops.append(Op(IMMEDIATE, side, near, new_id, quantity))
        else:
            quantity = 0 if rng.random() < 0.05 else quantity
            ops.append(Op(REPLACE, sides.get(known, side), near, known, quantity))
    return ops


class Matcher:
    """Price-time priority for one instrument; `reports` are the lines of `--reports`."""

    def __init__(self) -> None:
        self.reports: list[str] = []
        self._prices: tuple[list[int], list[int]] = ([], [])  # each ascending
        self._queues: tuple[dict[int, list[int]], dict[int, list[int]]] = ({}, {})
        self._live: dict[int, list[int]] = {}  # id -> [side, price, open quantity]

    def run(self, ops: Iterable[Op]) -> str:
        for seq, op in enumerate(ops):
            if op.kind == CANCEL:
                self._cancel(seq, op)
            elif op.kind == REPLACE:
                self._replace(seq, op)
            else:
                self._enter(seq, op)
        return "\n".join(self.reports)

    def _enter(self, seq: int, op: Op) -> None:
        price = 0 if op.kind == MARKET else op.price
        self.reports.append(f"0,{seq},{op.side},{op.id},{price},{op.quantity}")
        left = self._match(seq, op.side, None if op.kind == MARKET else op.price, op.id, op.quantity)
        if left and op.kind == LIMIT:
            self._rest(op.id, op.side, op.price, left)
        elif left:
            self.reports.append(f"2,{seq},{op.side},{op.id},{price}")

    def _cancel(self, seq: int, op: Op) -> None:
        if op.id not in self._live:
            self.reports.append(f"4,{seq},{op.id}")
            return
        side, price, _ = self._live[op.id]
        self._remove(op.id)
        self.reports.append(f"2,{seq},{side},{op.id},{price}")

    def _replace(self, seq: int, op: Op) -> None:
        if op.id not in self._live or op.quantity == 0:
            self.reports.append(f"5,{seq},{op.id}")
            return
        side, _, _ = self._live[op.id]
        self._remove(op.id)
        left = self._match(seq, side, op.price, op.id, op.quantity)
        if left:
            self._rest(op.id, side, op.price, left)
        self.reports.append(f"3,{seq},{side},{op.id},{op.price},{op.quantity}")

    def _match(self, seq: int, side: int, limit: int | None, taker: int, left: int) -> int:
        prices = self._prices[1 - side]
        while left and prices:
            best = prices[0] if side == BUY else prices[-1]
            if limit is not None and (best > limit if side == BUY else best < limit):
                break
            maker = self._queues[1 - side][best][0]
            traded = min(left, self._live[maker][2])
            self.reports.append(f"1,{seq},{best},{traded},{maker},{taker}")
            left -= traded
            self._live[maker][2] -= traded
            if self._live[maker][2] == 0:
                self._remove(maker)
        return left

    def _rest(self, id_: int, side: int, price: int, quantity: int) -> None:
        if price not in self._queues[side]:
            bisect.insort(self._prices[side], price)
            self._queues[side][price] = []
        self._queues[side][price].append(id_)
        self._live[id_] = [side, price, quantity]

    def _remove(self, id_: int) -> None:
        side, price, _ = self._live.pop(id_)
        queue = self._queues[side][price]
        queue.remove(id_)
        if not queue:
            del self._queues[side][price]
            self._prices[side].remove(price)
