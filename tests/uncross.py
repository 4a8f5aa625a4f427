"""Orders that meet at one price, by docs/rulebook.md 8.2, 11 and 15: tradable quantities and their
allocation."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from typing import Any


@dataclass
class Order:
    id: str
    sign: int  # 1 buys, -1 sells
    kind: str
    total: int
    open: int
    price: int | None
    stop: int | None
    mes: int
    display: int | None
    tif: str
    expires: str | None
    group: str
    number: int
    time: int
    entered: date
    batch: int
    where: str = "new"
    shown: int = 0

    @property
    def hidden(self) -> bool:
        return self.kind == "hidden"

    def accepts(self, price: int) -> bool:
        return self.price is None or self.sign * self.price >= self.sign * price

    def rank(self) -> tuple[bool, int, bool, int]:
        return (self.price is not None, -self.sign * (self.price or 0), self.hidden, self.time)

    def visible(self) -> int:
        return 0 if self.hidden else self.shown if self.display else self.open


def volume(side: list[Order], e: dict[str, int], price: int) -> int:
    return sum(e[o.id] for o in side if o.accepts(price))


def pro_rata(sizes: list[int], quantity: int) -> list[int]:
    total = sum(sizes)
    if quantity >= total:
        return list(sizes)
    shares = [quantity * size // total for size in sizes]
    left = quantity - sum(shares)
    while left:
        for index, size in enumerate(sizes):
            if left and shares[index] < size:
                shares[index] += 1
                left -= 1
    return shares


def by_time(side: list[Order], e: dict[str, int], price: int, total: int) -> dict[str, int]:
    given = {}
    for order in side:
        given[order.id] = min(total, e[order.id]) if order.accepts(price) else 0
        total -= given[order.id]
    return given


def shared_out(
    side: list[Order], e: dict[str, int], price: int, total: int, same: Callable[[Order], Any]
) -> dict[str, int]:
    """Group by group in priority order; pro-rata inside a visible group, by time in a hidden
    one."""
    given = {order.id: 0 for order in side}
    able = [order for order in side if order.accepts(price) and e[order.id]]
    groups: dict[Any, list[Order]] = {}
    for order in able:
        groups.setdefault(same(order), []).append(order)
    for group in [groups[key] for key in sorted(groups)]:
        if group[0].hidden:
            given |= by_time(group, e, price, total)
        else:
            given |= dict(zip([o.id for o in group], pro_rata([e[o.id] for o in group], total), strict=True))
        total -= sum(given[o.id] for o in group)
    return given


def side_pass(side: list[Order], other: list[Order], e: dict[str, int]) -> bool:
    ahead, changed = 0, False
    for order in side:
        if order.hidden:
            reach = sum(e[o.id] for o in other if meets(order, o)) - ahead
            now = min(reach, order.open) if reach >= order.mes else 0
            changed = changed or now != e[order.id]
            e[order.id] = now
        ahead += e[order.id]
    return changed


def meets(one: Order, other: Order) -> bool:
    return one.price is None or other.price is None or other.accepts(one.price)


def filtered(region: list[list[Order]]) -> dict[str, int] | None:
    """Section 8.2 steps 3 to 5: the tradable quantity of each order; None if the passes do not
    settle."""
    e = {o.id: o.open for side in region for o in side}
    hidden = sum(o.hidden for side in region for o in side)
    turn = 0 if sum(e[o.id] for o in region[0]) >= sum(e[o.id] for o in region[1]) else 1
    still = 0
    for _ in range(min(4 + 2 * hidden, 64)):
        still = 0 if side_pass(region[turn], region[1 - turn], e) else still + 1
        turn = 1 - turn
        if still == 2:
            return e
    return None


def with_filter(
    region: list[list[Order]],
    pick: Callable[[list[list[Order]], dict[str, int]], int | None],
    share: Callable[[list[Order], dict[str, int], int, int], dict[str, int]] = by_time,
) -> tuple[int, list[dict[str, int]]] | None:
    """Price and allocation, or None. Section 8.2 guarantees that no hidden order gets less than its
    MES."""
    e = filtered(region)
    if e is None:
        e = {o.id: 0 if o.hidden else o.open for side in region for o in side}
    price = pick(region, e)
    if price is None:
        return None
    total = min(volume(region[0], e, price), volume(region[1], e, price))
    given = [share(side, e, price, total) for side in region]
    for side, got in zip(region, given, strict=True):
        assert all(got[o.id] == 0 or got[o.id] >= o.mes for o in side if o.hidden)
    return price, given
