"""A minimal market by docs/rulebook.md: one instrument, and lists that are sorted again each time.
Does       run a scenario and return its result, to judge the vectors before any engine exists.
Start at   `run`; matching at one price is in `uncross.py`. Leaves out speed, funds, account limits,
post-only, several instruments: scenarios cannot express them."""

from collections.abc import Callable, Iterable
from datetime import date, timedelta
from typing import Any

from rule_tables import BY_SESSION, BY_TYPE, CALLS, INTERRUPTIONS, SESSIONS, TRIGGERED, WAITS_FOR
from uncross import Order, by_time, pro_rata, shared_out, volume, with_filter

TEN_MINUTES = 600
MOST_DAYS = 90


class Rejected(Exception):
    pass


class Breach(Exception):
    """Carries the price at which nothing may execute."""


class Book:
    """One market in one scenario."""

    def __init__(self, setup: dict[str, Any]) -> None:
        self.setup = setup
        self.orders: dict[str, Order] = {}
        self.events: list[dict[str, Any]] = []
        self.trades: list[dict[str, Any]] = []
        self.rejected: list[str] = []
        self.session = "continuous"
        self.today = date.fromisoformat(setup.get("date", "2026-01-05"))
        self.clock = 9 * 3600
        self.counter = 0
        self.last: int | None = setup.get("last_price")
        self.static: int | None = setup.get("static_reference")
        self.dynamic: int | None = setup.get("dynamic_reference", self.last)
        self.remaining: list[str] | None = setup.get("remaining_sessions")
        self.consumed: list[str] = []
        self.uncrossed: int | None = None
        self.closing: tuple[int, str] | None = None
        self.previous_close: int | None = setup.get("closing_price")
        self.closing_call: int | None = None
        self.day_trades: list[tuple[date, int, str, int, int]] = []
        self.continuous_ended: int | None = None
        self.touch: Any = None
        self.arrived: Order | None = None
        self.elected: list[Order] = []
        self.unfinished: set[str] = set()
        self.continues: str | None = None
        self.indicated: tuple[int | None, int, int] = (None, 0, 0)
        self.batch = 0

    # --- small helpers

    def say(self, kind: str, **fields: Any) -> None:
        self.events.append({"type": kind, **fields})

    def next_time(self) -> int:
        self.counter += 1
        return self.counter

    def live(self, where: str) -> list[Order]:
        return sorted((o for o in self.orders.values() if o.where == where), key=lambda o: o.number)

    def side(self, sign: int) -> list[Order]:
        return sorted((o for o in self.orders.values() if o.where == "active" and o.sign == sign), key=Order.rank)

    def best_visible(self, sign: int) -> int | None:
        return next((o.price for o in self.side(sign) if o.price is not None and not o.hidden), None)

    def reference(self) -> int | None:
        return self.last if self.last is not None else self.static

    def end(self, order: Order, reason: str) -> None:
        order.where = "gone"
        self.say("expired", id=order.id, qty=order.open, reason=reason)

    def breaches(self, price: int, dynamic: int | None) -> bool:
        if not SESSIONS[self.session]["breaker"]:
            return False
        tests = (("static_tolerance_pct", self.static), ("dynamic_tolerance_pct", dynamic))
        return any(
            name in self.setup and r is not None and abs(price - r) * 100 >= self.setup[name] * r for name, r in tests
        )

    def trade(self, one: Order, other: Order, quantity: int, price: int) -> None:
        buy, sell = (one, other) if one.sign == 1 else (other, one)
        row = {"buy": buy.id, "sell": sell.id, "qty": quantity, "price": price}
        self.trades.append(row)
        self.say("trade", **row)
        self.day_trades.append((self.today, self.clock, self.session, quantity, price))
        for order in (one, other):
            order.open -= quantity
            if not order.open:
                order.where = "gone"
        if self.session != "closing_price_cross":
            self.last = self.dynamic = price

    def refresh(self, order: Order, traded: int) -> None:
        """After fills of an iceberg that stays: shows less, or its next part, last in its queue."""
        if order.display and order.where == "active":
            if traded < order.shown:
                order.shown -= traded
            else:
                order.shown = min(order.display, order.open)
                order.time = self.next_time()

    def expire_below_mes(self, orders: Iterable[Order]) -> None:
        for order in orders:
            if order.hidden and 0 < order.open < order.mes:
                self.end(order, "below_minimum_execution")

    # --- 4: entering

    def enter(self, step: dict[str, Any]) -> None:
        hidden, display = step["type"] == "hidden", step.get("display")
        order = Order(
            id=step["id"],
            sign=1 if step["side"] == "buy" else -1,
            kind=step["type"],
            total=step["qty"],
            open=step["qty"],
            price=step.get("price"),
            stop=step.get("stop"),
            mes=step.get("mes", step["qty"]) if hidden else 0,
            display=display,
            tif=step.get("tif", "day").lower(),
            expires=step.get("expires"),
            group=step.get("smp_key", "account " + step.get("account", step["id"])),
            number=0,
            time=0,
            entered=self.today,
            batch=self.batch,
        )
        self.check_entry(order)
        order.number = order.time = self.next_time()
        order.shown = min(display, order.open) if display else order.open
        self.orders[order.id] = order
        self.say("accepted", id=order.id)
        self.place(order)

    def check_entry(self, order: Order) -> None:
        if not SESSIONS[self.session]["enter"]:
            raise Rejected("not_open")
        if BY_TYPE[order.tif, order.kind] == "reject":
            raise Rejected("display_out_of_range" if order.kind == "iceberg" else "tif_not_allowed_for_type")
        batches = self.batches()
        if BY_SESSION[self.session, order.tif] == "reject" or (batches and order.tif == "fok"):
            raise Rejected("tif_not_allowed_in_session")
        if BY_SESSION[self.session, order.kind] == "reject" or (batches and order.hidden):
            raise Rejected("type_not_allowed_in_session")
        if not self.scheduled(order.tif):
            raise Rejected("no_auction_scheduled")
        self.check_terms(order)

    def scheduled(self, tif: str) -> bool:
        if tif == "gfa":
            return self.session in CALLS or any(self.still_to_come(name) for name in CALLS - TRIGGERED)
        wanted = WAITS_FOR.get(tif)
        return wanted is None or self.session == wanted or self.still_to_come(wanted)

    def still_to_come(self, name: str) -> bool:
        return name in self.remaining if self.remaining is not None else name not in self.consumed

    def check_terms(self, order: Order) -> None:
        least = -(-order.total * self.setup.get("min_display_pct", 1) // 100)
        if order.display and not least <= order.display <= order.total:
            raise Rejected("display_out_of_range")
        mrs = self.setup.get("mrs", 1)
        if order.hidden and order.total < mrs:
            raise Rejected("quantity_below_reserve")
        if order.hidden and not max(1, mrs) <= order.mes <= order.open:
            raise Rejected("minimum_execution_out_of_range")
        if order.tif == "gtt" and seconds(order.expires) <= self.clock:
            raise Rejected("expiry_passed")
        if order.tif == "gtd":
            days = (date.fromisoformat(str(order.expires)) - self.today).days
            if days < 0:
                raise Rejected("expiry_passed")
            if days > MOST_DAYS:
                raise Rejected("expiry_too_far")
        band = self.setup.get("price_band_pct")
        judged = band and self.static is not None and order.price is not None
        if judged and abs(order.price - self.static) * 100 > band * self.static:
            raise Rejected("price_outside_band")

    def batches(self) -> bool:
        return self.setup.get("allocation") == "frequent_batch" and self.session == "continuous"

    def place(self, order: Order) -> None:
        if order.stop is not None:
            order.where = "unelected"
            if self.session == "continuous" and self.holds(order):
                self.elect([order])
                self.act_elected()
            return
        own_cross = self.session == "closing_price_cross" and order.tif == "cpx"
        if BY_SESSION[self.session, order.tif] == "park" and not own_cross:
            order.where = "parked"
            self.say("parked", id=order.id, qty=order.open)
        elif self.session == "continuous":
            self.act(order)
        elif self.session == "closing_price_cross":
            self.arrive(order)
        else:
            order.where = "active"

    # --- 7: continuous trading

    def act(self, order: Order) -> None:
        """Matches an incoming order; its remainder rests or expires. Raises `Breach` after handling
        the remainder."""
        if self.batches():
            order.where, order.batch = "active", self.batch
            return
        try:
            self.aggress(order)
        except Breach as breach:
            self.say("breaker", price=breach.args[0])
            if order.where != "gone":
                self.remainder(order, "breaker")
            raise
        if order.where != "gone":
            self.remainder(order, "immediate_remainder")

    def remainder(self, order: Order, reason: str) -> None:
        if order.kind == "market" or order.tif in {"ioc", "fok"}:
            self.end(order, reason)
        else:
            order.where = "active"
            order.shown = min(order.display, order.open) if order.display else order.open
            self.arrived = order if order.hidden else None

    def aggress(self, order: Order) -> None:
        bb, bo, dynamic = self.best_visible(1), self.best_visible(-1), self.dynamic
        if order.tif == "fok" and self.reachable(order, bb, bo, dynamic) < order.open:
            self.end(order, "fill_or_kill")
            return
        passed: set[str] = set()
        while order.open and order.where != "gone":
            head = next((h for h in self.side(-order.sign) if h.id not in passed and order.accepts(h.price or 0)), None)
            if head is None:
                return
            shared = self.setup.get("allocation") == "pro_rata" and not head.hidden
            level = self.level(order, head) if shared else [head]
            quantity = min(order.open, sum(h.visible() or h.open for h in level))
            if head.hidden and head.mes > order.open:
                passed.add(head.id)
                continue
            if order.hidden and quantity < order.mes:
                return
            price = self.execution_price(head, bb, bo)
            if not order.accepts(price):
                passed.add(head.id)
                continue
            if self.breaches(price, dynamic):
                raise Breach(price)
            if self.self_match(order, head):
                continue
            if shared:
                self.fill_pro_rata(order, level, price)
                continue
            self.trade(order, head, quantity, price)
            self.refresh(head, quantity)
            self.expire_below_mes([head, order])

    def execution_price(self, head: Order, bb: int | None, bo: int | None) -> int:
        price, step = head.price, self.setup.get("improvement", 1)
        assert price is not None
        if head.hidden and head.sign == 1 and bo is not None and price > bo:
            return max(bo - step, bb or 1, 1)
        if head.hidden and head.sign == -1 and bb is not None and price < bb:
            return min(bb + step, bo or bb + step)
        return price

    def self_match(self, order: Order, head: Order) -> bool:
        mode = self.setup.get("smp", "none")
        if mode == "none" or order.group != head.group:
            return False
        if mode in {"cancel_resting", "cancel_both"}:
            self.cancel_order(head)
        if mode in {"cancel_incoming", "cancel_both"}:
            self.cancel_order(order)
        return True

    def cancel_order(self, order: Order) -> None:
        order.where = "gone"
        self.say("cancelled", id=order.id, qty=order.open)

    def reachable(self, order: Order, bb: int | None, bo: int | None, dynamic: int | None) -> int:
        count, mode = 0, self.setup.get("smp", "none")
        for head in self.side(-order.sign):
            left = order.open - count
            if not left or not order.accepts(head.price or 0):
                break
            price = self.execution_price(head, bb, bo)
            if (head.hidden and head.mes > left) or not order.accepts(price):
                continue
            if self.breaches(price, dynamic):
                break
            if mode != "none" and head.group == order.group:
                if mode == "cancel_resting":
                    continue
                break
            count += min(left, head.open)
        return count

    def level(self, order: Order, head: Order) -> list[Order]:
        """The visible orders at a price that share a pro-rata round, without the incoming order's
        group."""
        own = self.setup.get("smp", "none") != "none"
        level = [h for h in self.side(head.sign) if h.price == head.price and not h.hidden]
        return [h for h in level if h is head or not (own and h.group == order.group)]

    def fill_pro_rata(self, order: Order, level: list[Order], price: int) -> None:
        for maker, share in zip(level, pro_rata([h.visible() for h in level], order.open), strict=True):
            if share:
                self.trade(order, maker, share, price)
                self.refresh(maker, share)
        self.expire_below_mes([order])

    # --- 8: filter and uncross

    def look(self) -> Any:
        out = []
        for sign in (1, -1):
            seen = [o for o in self.side(sign) if o.price is not None and not o.hidden]
            best = seen[0].price if seen else None
            out.append((best, sum(o.visible() for o in seen if o.price == best)))
        return out

    def settle(self) -> None:
        while self.arrived and self.arrived.where == "active" and self.filter(self.arrived):
            pass
        self.arrived = None
        while True:
            if self.look() != self.touch:
                while self.filter():
                    pass
            self.touch = self.look()
            if not self.elect([o for o in self.live("unelected") if self.holds(o)]):
                return
            self.act_elected()

    def filter(self, wanted: Order | None = None) -> bool:
        """Whether it traded. With `wanted`, nothing trades unless that order does."""
        sides = [[o for o in self.side(sign) if o.price is not None] for sign in (1, -1)]
        if not sides[0] or not sides[1] or (sides[0][0].price or 0) < (sides[1][0].price or 0):
            return False
        region = [
            [o for o in side if o.accepts(other[0].price or 0)]
            for side, other in ((sides[0], sides[1]), (sides[1], sides[0]))
        ]
        found = with_filter(region, self.filter_price)
        if found is None:
            return False
        price, given = found
        if wanted and not any(share.get(wanted.id) for share in given):
            return False
        if self.breaches(price, self.dynamic):
            self.say("breaker", price=price)
            raise Breach(price)
        self.execute(region, given, price)
        return True

    def filter_price(self, region: list[list[Order]], e: dict[str, int]) -> int | None:
        prices = sorted({o.price for side in region for o in side if o.price is not None and e[o.id]})
        volumes = {p: min(volume(region[0], e, p), volume(region[1], e, p)) for p in prices}
        if not volumes or not max(volumes.values()):
            return None
        best = [p for p, v in volumes.items() if v == max(volumes.values())]
        bb, bo = self.best_visible(1), self.best_visible(-1)
        middle = (bb + bo) // 2 if bb is not None and bo is not None else bb if bb is not None else bo
        middle = self.reference() if middle is None else middle
        return (best[0] + best[-1]) // 2 if middle is None else max(best[0], min(best[-1], middle))

    def execute(self, region: list[list[Order]], given: list[dict[str, int]], price: int) -> None:
        queues = [[[o, share[o.id]] for o in side if share[o.id]] for side, share in zip(region, given, strict=True)]
        heads = [0, 0]
        while heads[0] < len(queues[0]) and heads[1] < len(queues[1]):
            buy, sell = queues[0][heads[0]], queues[1][heads[1]]
            quantity = min(buy[1], sell[1])
            self.trade(buy[0], sell[0], quantity, price)
            for index, head in enumerate((buy, sell)):
                head[1] -= quantity
                heads[index] += not head[1]
        for side, share in zip(region, given, strict=True):
            for order in side:
                if share[order.id]:
                    self.refresh(order, share[order.id])
        for side in region:
            self.expire_below_mes([o for o in side if o.where == "active"])

    # --- 14: stops

    def holds(self, order: Order) -> bool:
        return self.last is not None and order.stop is not None and order.sign * self.last >= order.sign * order.stop

    def elect(self, orders: list[Order]) -> list[Order]:
        def urgency(o: Order) -> tuple[int, int, int]:
            return (-o.sign, -abs((o.stop or 0) - (self.last or 0)), o.number)

        for order in sorted(orders, key=urgency):
            order.kind = "market" if order.kind == "stop" else "limit"
            order.stop, order.where, order.time = None, "elected", self.next_time()
            self.say("triggered", id=order.id)
            self.elected.append(order)
        return orders

    def act_elected(self) -> None:
        while self.elected:
            self.act(self.elected.pop(0))

    def join(self, order: Order) -> None:
        """An elected stop in a session that is not continuous (5.2 step 10)."""
        matching = SESSIONS[self.session]["match"]
        if matching == "closing_price":
            self.arrive(order)
        elif order.tif in {"ioc", "fok"} or (matching == "none" and order.kind == "market"):
            self.end(order, "nothing_executes")
        else:
            order.where = "active"

    # --- 10.3, 10.4: breaches

    def volatility(self) -> None:
        self.session = "volatility_auction"
        self.indicated = (None, 0, 0)
        self.say("session", to=self.session)
        self.inject(["gfa"])
        self.elect([o for o in self.live("unelected") if self.holds(o)])
        for order in self.elected:
            self.join(order)
        self.elected = []

    # --- 11: calls

    def call_price(self, region: list[list[Order]], e: dict[str, int]) -> int | None:
        prices = sorted({o.price for side in region for o in side if o.price is not None and e[o.id]})
        reference = self.reference()
        if not prices:
            return reference if all(any(e[o.id] for o in side) for side in region) else None
        rows = [(p, volume(region[0], e, p), volume(region[1], e, p)) for p in prices]
        most = max(min(b, s) for _, b, s in rows)
        if not most:
            return None
        rows = [row for row in rows if min(row[1:]) == most]
        least = min(abs(b - s) for _, b, s in rows)
        rows = [row for row in rows if abs(row[1] - row[2]) == least]
        if all(b > s for _, b, s in rows):
            return rows[-1][0]
        if all(b < s for _, b, s in rows):
            return rows[0][0]
        low, high = rows[0][0], rows[-1][0]
        return (low + high) // 2 if reference is None else max(low, min(high, reference))

    def uncross(self, call: str) -> None:
        region = [self.side(1), self.side(-1)]
        found = with_filter(region, self.call_price, self.share())
        if found is None:
            return
        price, given = found
        held = self.session
        self.session = call
        try:
            if self.breaches(price, self.dynamic):
                self.say("breaker", price=price)
                raise Breach(price)
        finally:
            self.session = held
        self.execute(region, given, price)
        self.static = self.uncrossed = price
        if call == "closing_auction" or (call == "volatility_auction" and self.continues == "closing_auction"):
            self.closing_call = price

    def share(self) -> Callable[[list[Order], dict[str, int], int, int], dict[str, int]]:
        allocation = self.setup.get("allocation")
        if allocation == "pro_rata":
            return lambda side, e, price, total: shared_out(side, e, price, total, lambda o: (o.rank()[:3],))
        if allocation == "frequent_batch":
            return lambda side, e, price, total: shared_out(side, e, price, total, lambda o: (*o.rank()[:3], o.batch))
        return by_time

    def indicate(self) -> None:
        if self.session not in CALLS:
            return
        region = [[o for o in self.side(sign) if not o.hidden] for sign in (1, -1)]
        e = {o.id: o.open for side in region for o in side}
        price = self.call_price(region, e)
        now: tuple[int | None, int, int] = (None, 0, 0)
        if price is not None:
            buys, sells = volume(region[0], e, price), volume(region[1], e, price)
            now = (price, min(buys, sells), buys - sells)
        if now != self.indicated:
            self.indicated = now
            self.say("indicative", price=now[0], volume=now[1], imbalance=now[2])

    # --- 12: closing price cross

    def arrive(self, order: Order) -> None:
        price = self.closing[0] if self.closing else self.previous_close
        order.where = "active"
        contra = [o for o in self.orders.values() if o.where == "active" and o.sign != order.sign and not o.hidden]
        contra = sorted((o for o in contra if price is not None and o.accepts(price)), key=lambda o: o.time)
        able = price is not None and order.accepts(price) and not order.hidden
        if order.tif == "fok" and (not able or sum(o.open for o in contra) < order.open):
            self.end(order, "fill_or_kill")
            return
        for other in contra if able else []:
            if order.where != "active":
                break
            if not self.self_match(order, other):
                assert price is not None
                self.trade(order, other, min(order.open, other.open), price)
                for one in (order, other):
                    one.shown = min(one.display or one.open, one.open)
        if order.where == "active" and order.tif != "cpx" and (order.kind == "market" or order.tif == "ioc"):
            self.end(order, "immediate_remainder")

    def start_cross(self) -> None:
        waiting = sorted((o for o in self.orders.values() if o.where == "active"), key=lambda o: o.time)
        for order in waiting:
            order.where = "arriving"
        for order in waiting:
            self.arrive(order)

    # --- 5: sessions

    def change_session(self, to: str) -> None:
        come_from = self.session
        if to == come_from:
            self.say("rejected", reason="session_not_allowed", rule="rulebook: 5.2")
            return
        absorbs = come_from in TRIGGERED and to in CALLS - TRIGGERED
        interrupts = come_from in CALLS and to in INTERRUPTIONS
        if interrupts:
            self.unfinished |= set(SESSIONS[come_from]["expire"]) | {"gfa"}
        if come_from == "continuous":
            self.continuous_ended = self.clock
        try:
            if not absorbs and not interrupts:
                self.leave(come_from, to)
        except Breach:
            if come_from != "volatility_auction":
                self.unfinished |= set(SESSIONS[come_from]["expire"]) if come_from in CALLS else set()
                self.continues = come_from
            self.volatility()
            return
        self.session = to
        self.continues = None
        self.consume(to)
        self.say("session", to=to)
        self.begin(to)

    def leave(self, come_from: str, to: str) -> None:
        if come_from in CALLS:
            self.uncross(come_from)
        if self.batches():
            self.end_immediate("immediate_remainder")
        self.elect([o for o in self.live("unelected") if self.holds(o)])
        self.finish(come_from, to)
        bb, bo = self.best_visible(1), self.best_visible(-1)
        crossed = bb is not None and bo is not None and bb >= bo
        batches = self.setup.get("allocation") == "frequent_batch"
        if to == "continuous" and come_from not in CALLS and crossed and not batches:
            self.uncross("reopening_auction")
            self.elect([o for o in self.live("unelected") if self.holds(o)])

    def finish(self, come_from: str, to: str) -> None:
        """Expires and parks at a session's end (5.2 step 5)."""
        listed = set(SESSIONS[come_from]["expire"])
        if to not in CALLS | INTERRUPTIONS or come_from in CALLS:
            listed |= self.unfinished
            self.unfinished = set()
        for order in [o for o in sorted(self.orders.values(), key=lambda o: o.number) if o.where != "gone"]:
            waits, ended = order.where == "active", "pause_ended" if come_from == "pause" else "auction_ended"
            if order.tif == "gtt" and seconds(order.expires) <= self.clock:
                self.end(order, "time_reached")
            elif waits and order.tif in listed - {"market", "gfa", "gtt"}:
                self.end(order, "cross_ended" if order.tif == "cpx" else "auction_ended")
            elif waits and order.kind == "market" and "market" in listed and order.tif != "gfa":
                self.end(order, ended)
        if come_from in CALLS or "gfa" in listed:
            for order in self.live("active"):
                if order.tif == "gfa":
                    self.park(order)

    def park(self, order: Order) -> None:
        order.where = "parked"
        self.say("parked", id=order.id, qty=order.open)

    def consume(self, name: str) -> None:
        self.consumed.append(name)
        if self.remaining is not None and name in self.remaining:
            self.remaining = [*self.remaining]
            self.remaining.remove(name)

    def begin(self, to: str) -> None:
        if to in {"closing_price_publication", "halt_and_close"}:
            self.publish_close()
        self.indicated = (None, 0, 0)
        self.inject(SESSIONS[to]["inject"])
        if to == "closing_price_cross":
            self.start_cross()
        if to == "continuous":
            self.touch = None
            self.guarded(self.act_elected)
            return
        for order in self.elected:
            self.join(order)
        self.elected = []

    def inject(self, tifs: list[str]) -> None:
        for order in self.live("parked"):
            if order.tif in tifs:
                order.where = "active"
                self.say("injected", id=order.id)

    def publish_close(self) -> None:
        today = [row for row in self.day_trades if row[0] == self.today and row[2] != "closing_price_cross"]
        end = self.continuous_ended if self.continuous_ended is not None else self.clock
        late = [row for row in today if row[2] == "continuous" and end - TEN_MINUTES <= row[1] <= end]
        if self.closing_call is not None:
            self.closing = (self.closing_call, "closing_auction")
        elif late:
            quantity, turnover = sum(row[3] for row in late), sum(row[3] * row[4] for row in late)
            self.closing = ((2 * turnover + quantity) // (2 * quantity), "vwap")
        elif today:
            self.closing = (today[-1][4], "last_trade")
        elif self.previous_close is not None:
            self.closing = (self.previous_close, "previous_close")

    # --- 6: time

    def pass_time(self, to: str) -> None:
        self.clock = seconds(to)
        if self.session not in CALLS:
            due = [o for o in self.orders.values() if o.tif == "gtt" and o.where != "gone"]
            due = [o for o in due if seconds(o.expires) <= self.clock]
            for order in sorted(due, key=lambda o: (seconds(o.expires), o.number)):
                self.end(order, "time_reached")

    def end_day(self) -> None:
        for order in sorted(self.orders.values(), key=lambda o: o.number):
            if order.where == "gone":
                continue
            if order.tif == "gfa":
                if order.where == "active":
                    self.park(order)
            elif order.tif == "gtd":
                if date.fromisoformat(str(order.expires)) <= self.today:
                    self.end(order, "date_reached")
            elif order.tif != "gtc" or order.kind == "market":
                self.end(order, "day_ended")
            elif (self.today - order.entered).days >= MOST_DAYS:
                self.end(order, "ninety_days")
        if self.closing:
            self.previous_close = self.closing[0]
        self.today += timedelta(days=1)
        self.clock = 7 * 3600
        self.consumed, self.closing, self.closing_call, self.continuous_ended = [], None, None, None
        self.change_session("start_of_trading")

    # --- 9: amends

    def amend(self, step: dict[str, Any]) -> None:
        order = self.orders.get(step["id"])
        if order is None or order.where == "gone":
            raise Rejected("unknown_order")
        if not SESSIONS[self.session]["amend"]:
            raise Rejected("not_open")
        if step.keys() & {"tif", "side", "type"}:
            raise Rejected("not_amendable")
        if order.hidden and not SESSIONS[self.session]["amend_hidden"]:
            raise Rejected("type_not_allowed_in_session")
        executed = order.total - order.open
        total = step.get("qty", order.total)
        if total <= executed:
            raise Rejected("amount_already_filled")
        new = Order(**vars(order))
        new.total, new.open = total, total - executed
        new.price, new.stop = step.get("price", order.price), step.get("stop", order.stop)
        new.mes, new.expires = step.get("mes", order.mes), step.get("expires", order.expires)
        new.display = step.get("display", order.display)
        self.check_terms(new)
        moved = new.total > order.total or new.display != order.display
        moved = moved or (new.price != order.price and order.where != "unelected")
        where = order.where
        vars(order).update(vars(new))
        order.shown = min(order.display, order.open) if order.display else order.open
        self.say("amended", id=order.id, qty=order.total, price=order.price, kept_priority=not moved)
        if moved:
            order.time = self.next_time()
        if where == "unelected":
            if self.session == "continuous" and self.holds(order):
                self.elect([order])
                self.act_elected()
        elif where == "active" and moved:
            self.replace(order)
        elif where == "active" and order.hidden:
            self.arrived = order

    def replace(self, order: Order) -> None:
        if self.session == "continuous":
            order.where = "new"
            self.act(order)
        elif self.session == "closing_price_cross":
            self.arrive(order)

    # --- a scenario

    def cancel(self, step: dict[str, Any]) -> None:
        order = self.orders.get(step["id"])
        if order is None or order.where == "gone":
            raise Rejected("unknown_order")
        self.cancel_order(order)

    def timer(self) -> None:
        if self.batches():
            self.run_batch()
        elif self.session == "continuous":
            self.touch = None
            self.guarded(lambda: None)

    def run_batch(self) -> None:
        try:
            self.uncross("continuous")
        except Breach:
            self.end_immediate("breaker")
            self.volatility()
            return
        self.batch += 1
        self.end_immediate("immediate_remainder")
        self.elect([o for o in self.live("unelected") if self.holds(o)])
        self.act_elected()

    def end_immediate(self, reason: str) -> None:
        for order in self.live("active"):
            if order.kind == "market" or order.tif == "ioc":
                self.end(order, reason)

    def guarded(self, work: Callable[[], None]) -> None:
        """Continuous work, then settling; a breach anywhere starts the volatility call."""
        try:
            work()
            if self.session == "continuous" and not self.batches():
                self.settle()
        except Breach:
            self.volatility()

    def step(self, step: dict[str, Any]) -> list[dict[str, Any]]:
        self.events = []
        op = step["op"]
        try:
            if op == "session":
                self.change_session(step["to"])
            elif op == "end_of_day":
                self.end_day()
            elif op == "timer":
                self.timer()
            elif op == "clock":
                self.guarded(lambda: self.pass_time(step["to"]))
            else:
                work = {"enter": self.enter, "amend": self.amend, "cancel": self.cancel}[op]
                self.guarded(lambda: work(step))
        except Rejected as rejected:
            self.rejected.append(step["id"])
            self.events = [{"type": "rejected", "id": step["id"], "reason": rejected.args[0]}]
        self.indicate()
        return self.events

    def result(self) -> dict[str, Any]:
        def rows(sign: int) -> list[dict[str, Any]]:
            return [{"id": o.id, "qty": o.open, "price": o.price, "hidden": o.hidden} for o in self.side(sign)]

        closing = {"price": self.closing[0], "derivation": self.closing[1]} if self.closing else None
        return {
            "trades": self.trades,
            "book": {"bids": rows(1), "offers": rows(-1)},
            "parked": [o.id for o in self.live("parked")],
            "unelected": [o.id for o in self.live("unelected")],
            "rejected": self.rejected,
            "price": self.uncrossed,
            "closing": closing,
        }


def seconds(text: str | None) -> int:
    hours, minutes, rest = (int(part) for part in str(text).split(":"))
    return hours * 3600 + minutes * 60 + rest


def run(scenario: dict[str, Any]) -> dict[str, Any]:
    book = Book(scenario.get("setup", {}))
    steps = [{"events": book.step(step)} for step in scenario["steps"]]
    return book.result() | {"steps": steps}
