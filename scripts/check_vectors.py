"""Judges the rule vectors before any engine runs them: `scripts/check_vectors.py [FILE…]`. Checks
their shape (operations, types, sessions, keys, ids, reasons), conservation (no order trades more
than it has or vanishes without a rule), limits, the order of the expected book, one price per
uncross, and refusals against the two tables. Where a scenario needs only limit and market orders,
it computes the trades a second time from the rules: a call by trying every price, price-time by
walking a sorted list. Everything else is left to the engines."""

import json
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parent.parent
VECTORS = TOP / "contracts" / "vectors" / "rules"
# Off-book trades and positions are not part of the model here; both engines and the auditor play
# these vectors (crates/scenario/tests).
NOT_MODELLED = {"trade-reporting.json", "reduce-only.json"}
Scenario = dict[str, Any]
Order = dict[str, Any]

CALLS = {f"{name}_auction" for name in ("opening", "volatility", "intraday", "closing", "reopening", "fco")}
QUIET = {"start_of_trading", "closing_price_publication", "post_close", "halt", "halt_and_close", "pause"}
SESSIONS = CALLS | QUIET | {"continuous", "closing_price_cross"}
TYPES = {"market", "limit", "hidden", "stop", "stop_limit", "iceberg"}
TIFS = {"day", "gtc", "gtd", "gtt", "ioc", "fok", "opg", "atc", "gfa", "gfx", "cpx"}
PRICED = {"limit", "hidden", "stop_limit", "iceberg"}
STOPS = {"stop", "stop_limit"}
SETUP_NUMBERS = {
    *("tick", "lot", "mrs", "improvement", "static_reference", "dynamic_reference", "last_price", "closing_price"),
    *("static_tolerance_pct", "dynamic_tolerance_pct", "price_band_pct", "min_display_pct"),
}
SETUP_CHOICES = {
    "smp": {"none", "cancel_resting", "cancel_incoming", "cancel_both"},
    "allocation": {"price_time", "pro_rata", "frequent_batch"},
}
STEP_KEYS = {
    "session": {"to"},
    "enter": {
        *("id", "side", "type", "qty", "price", "stop", "mes"),
        *("display", "tif", "expires", "account", "smp_key"),
    },
    "amend": {"id", "qty", "price", "stop", "mes", "display", "expires", "tif", "side", "type"},
    "cancel": {"id"},
    "timer": set(),
    "clock": {"to"},
    "end_of_day": set(),
}
EXPECT_KEYS = {"trades", "book", "parked", "unelected", "rejected", "price", "closing", "steps"}
EVENT_KEYS = {
    "accepted": {"id"},
    "rejected": {"id", "reason", "rule"},
    "parked": {"id", "qty"},
    "injected": {"id", "qty"},
    "triggered": {"id"},
    "trade": {"buy", "sell", "qty", "price"},
    "cancelled": {"id", "qty"},
    "expired": {"id", "qty", "reason"},
    "amended": {"id", "qty", "price", "kept_priority"},
    "indicative": {"price", "volume", "imbalance"},
    "session": {"to"},
    "breaker": {"price"},
}
EXPIRY_REASONS = {
    *("immediate_remainder", "fill_or_kill", "day_ended", "time_reached", "date_reached", "ninety_days"),
    *("auction_ended", "pause_ended", "cross_ended"),
    *("below_minimum_execution", "breaker", "nothing_executes", "reduce_only"),
}
TABLE_REASONS = {"not_open", "tif_not_allowed_for_type", "tif_not_allowed_in_session", "type_not_allowed_in_session"}
DERIVATIONS = {"closing_auction", "vwap", "last_trade", "previous_close"}


@dataclass(frozen=True)
class Fault:
    file: str
    scenario: str
    what: str

    def __str__(self) -> str:
        return f"{self.file}: {self.scenario}: {self.what}"


def files() -> list[Path]:
    return sorted(path for path in VECTORS.glob("*.json") if path.name not in NOT_MODELLED)


def load(paths: Iterable[Path]) -> Iterator[tuple[str, Scenario]]:
    """Iterates over all scenarios with their file names. A file holds one, an array, or one per
    line."""
    for path in paths:
        text = path.read_text()
        try:
            found = json.loads(text)
        except json.JSONDecodeError:
            found = [json.loads(line) for line in text.splitlines() if line.strip()]
        for scenario in found if isinstance(found, list) else [found]:
            yield path.name, scenario


def known_reasons() -> set[str]:
    registered = tomllib.loads((TOP / "contracts" / "errors.toml").read_text())["error"]
    proposal = TOP / "contracts" / "rules" / "reasons.toml"
    proposed = tomllib.loads(proposal.read_text())["error"] if proposal.exists() else []
    return {entry["name"] for entry in [*registered, *proposed]}


def entered(scenario: Scenario) -> dict[str, Order]:
    return {step["id"]: step for step in scenario["steps"] if step["op"] == "enter"}


def tif(order: Order) -> str:
    return str(order.get("tif", "day")).lower()


def whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# --- shape -------------------------------------------------------------------------------------


def shape(scenario: Scenario, reasons: set[str]) -> Iterator[str]:
    for key in ("name", "rule", "steps", "expect"):
        if not scenario.get(key):
            yield f"no {key}"
            return
    for key in scenario.keys() - {"name", "rule", "inferred", "note", "setup", "steps", "expect"}:
        yield f"unknown key {key}"
    yield from setup_shape(scenario.get("setup", {}))
    ids: set[str] = set()
    for index, step in enumerate(scenario["steps"]):
        yield from (f"step {index}: {what}" for what in step_shape(step, ids))
    yield from expect_shape(scenario, ids, reasons)


def setup_shape(setup: dict[str, Any]) -> Iterator[str]:
    for key, value in setup.items():
        if key in SETUP_NUMBERS:
            if not whole(value) or value < 1:
                yield f"setup.{key} is no whole number above zero"
        elif key in SETUP_CHOICES:
            if value not in SETUP_CHOICES[key]:
                yield f"setup.{key} is {value}"
        elif key == "remaining_sessions":
            yield from (f"unknown session {name} in setup" for name in value if name not in SESSIONS)
        elif key != "date":
            yield f"unknown key setup.{key}"


def step_shape(step: Order, ids: set[str]) -> Iterator[str]:
    op = step.get("op")
    if op not in STEP_KEYS:
        yield f"unknown op {op}"
        return
    for key in step.keys() - STEP_KEYS[op] - {"op"}:
        yield f"unknown key {key}"
    if op == "session" and step.get("to") not in SESSIONS:
        yield f"unknown session {step.get('to')}"
    if op == "clock" and (len(str(step.get("to"))) != 8 or str(step["to"]).count(":") != 2):
        yield f"clock to {step.get('to')}, not HH:MM:SS"
    if op == "enter":
        yield from enter_shape(step, ids)


def enter_shape(step: Order, ids: set[str]) -> Iterator[str]:
    if step.get("id") in ids:
        yield f"{step.get('id')} enters twice"
    ids.add(str(step.get("id")))
    kind = step.get("type")
    if step.get("side") not in {"buy", "sell"} or kind not in TYPES or tif(step) not in TIFS:
        yield f"unknown side, type or tif in {step}"
        return
    for key in ("qty", "price", "stop", "display"):
        if key in step and (not whole(step[key]) or step[key] < 1):
            yield f"{key} is no whole number above zero"
    if "qty" not in step:
        yield "no qty"
    for key, owners in {"price": PRICED, "stop": STOPS, "display": {"iceberg"}}.items():
        if (key in step) != (kind in owners):
            yield f"{kind} with{'' if key in step else 'out'} {key}"
    if "mes" in step and kind != "hidden":
        yield f"{kind} with mes"
    if ("expires" in step) != (tif(step) in {"gtd", "gtt"}):
        yield f"{tif(step)} with{'' if 'expires' in step else 'out'} expires"


def expect_shape(scenario: Scenario, ids: set[str], reasons: set[str]) -> Iterator[str]:
    expect = scenario["expect"]
    for key in expect.keys() - EXPECT_KEYS:
        yield f"unknown key expect.{key}"
    named = [order["id"] for side in ("bids", "offers") for order in expect.get("book", {}).get(side, [])]
    named += [trade[side] for trade in expect.get("trades", []) for side in ("buy", "sell")]
    named += [name for key in ("parked", "unelected") for name in expect.get(key, [])]
    yield from (f"{name} is expected but never enters" for name in named if name not in ids)
    asked = ids | {step["id"] for step in scenario["steps"] if step.get("op") in {"amend", "cancel"}}
    yield from (f"{name} is rejected but never asks" for name in expect.get("rejected", []) if name not in asked)
    closing = expect.get("closing")
    if closing and closing.get("derivation") not in DERIVATIONS:
        yield f"unknown derivation {closing.get('derivation')}"
    steps = expect.get("steps", [])
    if steps and len(steps) != len(scenario["steps"]):
        yield f"expect.steps has {len(steps)} entries for {len(scenario['steps'])} steps"
    for event in [event for step in steps for event in step.get("events", [])]:
        yield from event_shape(event, asked, reasons)


def event_shape(event: dict[str, Any], asked: set[str], reasons: set[str]) -> Iterator[str]:
    kind = event.get("type")
    if kind not in EVENT_KEYS:
        yield f"unknown event {kind}"
        return
    yield from (f"unknown key {key} in event {kind}" for key in event.keys() - EVENT_KEYS[kind] - {"type"})
    if kind == "rejected" and event.get("reason") not in reasons:
        yield f"reason {event.get('reason')} stands in no contract"
    if kind == "expired" and event.get("reason") not in EXPIRY_REASONS:
        yield f"unknown reason of expiry {event.get('reason')}"
    if kind == "session" and event.get("to") not in SESSIONS:
        yield f"unknown session {event.get('to')}"
    for key in ("id", "buy", "sell"):
        if key in event and event[key] not in asked:
            yield f"event {kind} of {event[key]}, which never asks"


# --- the two tables ----------------------------------------------------------------------------

Cells = dict[tuple[str, str], str]


def tables() -> tuple[Cells, Cells]:
    """Answers by (tif, type) and by (session, column). Every pair must stand there once."""
    rules = TOP / "contracts" / "rules"
    types = tomllib.loads((rules / "order-types.toml").read_text())
    sessions = tomllib.loads((rules / "sessions.toml").read_text())
    by_type = [((cell["tif"], cell["type"]), cell["answer"]) for cell in types["cell"]]
    by_session = [((cell["session"], cell["column"]), cell["answer"]) for cell in sessions["cell"]]
    wanted = [{(t, kind) for t in TIFS for kind in TYPES}, {(s, c) for s in SESSIONS for c in TIFS | TYPES}]
    for cells, pairs in zip((by_type, by_session), wanted, strict=True):
        if len(cells) != len(pairs) or {pair for pair, _ in cells} != pairs:
            raise ValueError("contracts/rules: a cell is missing, doubled or unknown")
    for table in (types, sessions):
        ids = {rule["id"] for rule in table["rule"]}
        if {cell["rule"] for cell in table["cell"]} != ids:
            raise ValueError("contracts/rules: a cell cites no rule, or a rule no cell")
    if {session["name"] for session in sessions["session"]} != SESSIONS:
        raise ValueError("contracts/rules: a session is missing or unknown")
    return dict(by_type), dict(by_session)


def refusal(order: Order, session: str, cells: tuple[Cells, Cells]) -> str | None:
    """Returns the objections of the tables to an entry, in the order of the checks."""
    by_type, by_session = cells
    if session in QUIET - {"pause"}:
        return "not_open"
    if by_type[tif(order), order["type"]] == "reject":
        return "display_out_of_range" if order["type"] == "iceberg" else "tif_not_allowed_for_type"
    if by_session[session, tif(order)] == "reject":
        return "tif_not_allowed_in_session"
    return "type_not_allowed_in_session" if by_session[session, order["type"]] == "reject" else None


def against_tables(scenario: Scenario, cells: tuple[Cells, Cells]) -> Iterator[str]:
    """Entries that the tables refuse must be expected as refused, and no others by a table."""
    setup, expect = scenario.get("setup", {}), scenario["expect"]
    if setup.keys() & {"static_tolerance_pct", "dynamic_tolerance_pct"} or setup.get("allocation") == "frequent_batch":
        return
    session, wanted = "continuous", expect.get("steps", [])
    for index, step in enumerate(scenario["steps"]):
        session = {"session": step.get("to"), "end_of_day": "start_of_trading"}.get(step["op"], session)
        if step["op"] != "enter":
            continue
        why = refusal(step, session, cells)
        if why and step["id"] not in expect.get("rejected", []):
            yield f"{step['id']} is {why} in {session}, but not expected so"
        for event in wanted[index].get("events", []) if wanted else []:
            reason = event.get("reason") if event["type"] == "rejected" else None
            if reason != why and (why or reason in TABLE_REASONS):
                yield f"{step['id']} is {reason}, the tables say {why}"


# --- conservation, limits, order ---------------------------------------------------------------


def final_terms(scenario: Scenario) -> dict[str, Order]:
    """Returns each order as its last accepted amend leaves it."""
    terms = {name: dict(order) for name, order in entered(scenario).items()}
    refused = Counter(scenario["expect"].get("rejected", []))
    for step in scenario["steps"]:
        if step["op"] == "amend" and step["id"] in terms and not refused[step["id"]]:
            terms[step["id"]].update({key: value for key, value in step.items() if key != "op"})
    return terms


def conservation(scenario: Scenario) -> Iterator[str]:
    expect, orders, terms = scenario["expect"], entered(scenario), final_terms(scenario)
    traded: Counter[str] = Counter()
    for trade in expect.get("trades", []):
        for side in ("buy", "sell"):
            name = trade[side]
            traded[name] += trade["qty"]
            order = terms[name]
            if order["side"] != side:
                yield f"{name} trades on the wrong side"
            limits = {order.get("price"), orders[name].get("price")} - {None}
            if limits and all(trade["price"] > x if side == "buy" else trade["price"] < x for x in limits):
                yield f"{name} trades at {trade['price']}, beyond its limit"
    for name, quantity in traded.items():
        if quantity > terms[name]["qty"]:
            yield f"{name} trades {quantity} of {terms[name]['qty']}"
    if "book" not in expect:
        return
    resting = {order["id"]: order for side in ("bids", "offers") for order in expect["book"][side]}
    for name, order in resting.items():
        if order["qty"] != terms[name]["qty"] - traded[name]:
            yield f"{name} rests with {order['qty']}, not {terms[name]['qty'] - traded[name]}"
        if order["price"] != terms[name].get("price") and order["price"] is not None:
            yield f"{name} rests at {order['price']}, not {terms[name].get('price')}"
        if order["hidden"] != (terms[name]["type"] == "hidden"):
            yield f"{name} rests {'hidden' if order['hidden'] else 'visible'}"
    elsewhere = set(resting) | set(expect.get("parked", [])) | set(expect.get("unelected", []))
    for name, order in terms.items():
        left = order["qty"] - traded[name]
        if left > 0 and name not in elsewhere and not may_be_gone(scenario, order, left):
            yield f"{name} has {left} left and is nowhere"


def may_be_gone(scenario: Scenario, order: Order, left: int) -> bool:
    """Whether some rule could have ended this order with `left` open."""
    steps = scenario["steps"]
    ops = {step["op"] for step in steps}
    if any(step["op"] == "cancel" and step["id"] == order["id"] for step in steps):
        return True
    if order["id"] in scenario["expect"].get("rejected", []) or order["type"] in {"market", "stop"}:
        return True
    if tif(order) in {"ioc", "fok"} or scenario.get("setup", {}).get("smp", "none") != "none":
        return True
    if order["type"] == "hidden" and left < mes_of(scenario, order):
        return True
    if tif(order) in {"opg", "atc", "gfx", "cpx"}:
        return bool(ops & {"session", "end_of_day"})
    if tif(order) == "gtt":
        return bool(ops & {"clock", "end_of_day"})
    return tif(order) != "gfa" and "end_of_day" in ops


def mes_of(scenario: Scenario, order: Order) -> int:
    amended = [step["mes"] for step in scenario["steps"] if step["op"] == "amend" and "mes" in step]
    return max([order.get("mes", order["qty"]), *amended])


def book_order(scenario: Scenario) -> Iterator[str]:
    book = scenario["expect"].get("book")
    if not book:
        return
    for side, sign in (("bids", -1), ("offers", 1)):
        keys = [(0 if o["price"] is None else 1, sign * (o["price"] or 0), o["hidden"]) for o in book[side]]
        if keys != sorted(keys):
            yield f"{side} are not in priority order"
    best = [[o["price"] for o in book[side] if o["price"] and not o["hidden"]] for side in ("bids", "offers")]
    quiet = all(step.get("to", "continuous") == "continuous" for step in scenario["steps"] if step["op"] == "session")
    setup = scenario.get("setup", {})
    controlled = setup.keys() & {"static_tolerance_pct", "dynamic_tolerance_pct"}
    judged = quiet and not controlled and setup.get("allocation") != "frequent_batch" and all(best)
    if judged and max(best[0]) >= min(best[1]):
        yield "a crossed visible book in continuous trading"


def one_price(scenario: Scenario) -> Iterator[str]:
    """The last uncross has one price: every order that can only have traded there did so at that
    price."""
    expect = scenario["expect"]
    price, trades = expect.get("price", "unknown"), expect.get("trades", [])
    if price == "unknown":
        return
    at = {trade["price"] for trade in trades}
    if price is not None and price not in at:
        yield f"uncross at {price}, but nothing trades there"
    steps = [step for step in scenario["steps"] if step["op"] != "clock"]
    pure = steps and steps[0].get("to") in CALLS and steps[-1]["op"] == "session"
    if pure and sum(step["op"] == "session" for step in steps) == 2:
        breached = not trades and price is None
        if not breached and at - {price} and not any(order["type"] in STOPS for order in entered(scenario).values()):
            yield f"one call, prices {sorted(at)}"
        if price is None and trades:
            yield "no uncross, but trades"


# --- the rules again ---------------------------------------------------------------------------


def plain(scenario: Scenario, tifs: set[str], setup: set[str]) -> bool:
    orders = entered(scenario).values()
    return (
        all(order["type"] in {"market", "limit"} and tif(order) in tifs for order in orders)
        and not (scenario.get("setup", {}).keys() - setup)
        and not scenario["expect"].get("rejected")
    )


def is_plain_call(scenario: Scenario) -> bool:
    steps = scenario["steps"]
    return (
        plain(scenario, {"day", "gtc"}, {"static_reference", "last_price"})
        and len(steps) > 2
        and steps[0].get("to") in CALLS
        and steps[-1] == {"op": "session", "to": "continuous"}
        and all(step["op"] in {"enter", "cancel"} for step in steps[1:-1])
    )


def is_plain_continuous(scenario: Scenario) -> bool:
    return plain(scenario, {"day", "gtc", "ioc", "fok"}, set()) and all(
        step["op"] in {"enter", "cancel"} for step in scenario["steps"]
    )


def auction_price(orders: list[Order], reference: int | None) -> int | None:
    """Market-rules 10.2 by trying every candidate; None if nothing can trade."""
    buys = [order for order in orders if order["side"] == "buy"]
    sells = [order for order in orders if order["side"] == "sell"]
    candidates = sorted({order["price"] for order in orders if "price" in order})
    if not candidates:
        return reference if buys and sells else None
    tried = []
    for price in candidates:
        demand = sum(order["qty"] for order in buys if order.get("price", price) >= price)
        supply = sum(order["qty"] for order in sells if order.get("price", price) <= price)
        tried.append((price, min(demand, supply), demand - supply))
    most = max(volume for _, volume, _ in tried)
    if most == 0:
        return None
    tried = [row for row in tried if row[1] == most]
    least = min(abs(surplus) for _, _, surplus in tried)
    tried = [row for row in tried if abs(row[2]) == least]
    low, high = tried[0][0], tried[-1][0]
    if all(surplus > 0 for _, _, surplus in tried):
        return high
    if all(surplus < 0 for _, _, surplus in tried):
        return low
    return (low + high) // 2 if reference is None else max(low, min(high, reference))


def auction_trades(orders: list[Order], price: int) -> list[tuple[str, str, int, int]]:
    """Market-rules 10.3: market orders by time, then limit orders by price and time, paired from
    both heads."""
    queues = []
    for side, sign in (("buy", -1), ("sell", 1)):
        able = [o for o in orders if o["side"] == side and sign * o.get("price", price) <= sign * price]
        able.sort(key=lambda order, sign=sign: ("price" in order, sign * order.get("price", 0)))
        queues.append([[order["id"], order["qty"]] for order in able])
    trades = []
    while queues[0] and queues[1]:
        buy, sell = queues[0][0], queues[1][0]
        quantity = min(buy[1], sell[1])
        trades.append((buy[0], sell[0], quantity, price))
        for queue, head in zip(queues, (buy, sell), strict=True):
            head[1] -= quantity
            if not head[1]:
                queue.pop(0)
    return trades


def recompute_call(scenario: Scenario) -> Iterator[str]:
    orders: list[Order] = []
    for step in scenario["steps"]:
        if step["op"] == "enter":
            orders.append(step)
        elif step["op"] == "cancel":
            orders = [order for order in orders if order["id"] != step["id"]]
    setup, expect = scenario.get("setup", {}), scenario["expect"]
    price = auction_price(orders, setup.get("last_price", setup.get("static_reference")))
    if expect.get("price", price) != price:
        yield f"price {expect['price']}, the rules give {price}"
        return
    yield from compare_trades(scenario, auction_trades(orders, price) if price is not None else [])


def recompute_continuous(scenario: Scenario) -> Iterator[str]:
    """Price-time matching by walking a sorted list."""
    book: list[Order] = []
    trades: list[tuple[str, str, int, int]] = []
    for step in scenario["steps"]:
        if step["op"] == "cancel":
            book = [order for order in book if order["id"] != step["id"]]
            continue
        taker, sign = dict(step), 1 if step["side"] == "buy" else -1
        others = [order for order in book if order["side"] != taker["side"]]
        others = [o for o in others if sign * o["price"] <= sign * taker.get("price", o["price"])]
        others.sort(key=lambda order: sign * order["price"])
        if tif(taker) == "fok" and sum(order["qty"] for order in others) < taker["qty"]:
            continue
        for maker in others:
            quantity = min(maker["qty"], taker["qty"])
            if quantity:
                pair = (taker["id"], maker["id"]) if sign == 1 else (maker["id"], taker["id"])
                trades.append((*pair, quantity, maker["price"]))
                maker["qty"] -= quantity
                taker["qty"] -= quantity
        book = [order for order in book if order["qty"]]
        if taker["qty"] and taker["type"] == "limit" and tif(taker) in {"day", "gtc"}:
            book.append(taker)
    yield from compare_trades(scenario, trades)
    for side, key, sign in (("buy", "bids", -1), ("sell", "offers", 1)):
        left = sorted((o for o in book if o["side"] == side), key=lambda order: sign * order["price"])
        wanted = [(o["id"], o["qty"]) for o in scenario["expect"].get("book", {}).get(key, [])]
        if "book" in scenario["expect"] and wanted != [(o["id"], o["qty"]) for o in left]:
            yield f"{key} {wanted}, the rules give {[(o['id'], o['qty']) for o in left]}"


def compare_trades(scenario: Scenario, computed: list[tuple[str, str, int, int]]) -> Iterator[str]:
    wanted = [(t["buy"], t["sell"], t["qty"], t["price"]) for t in scenario["expect"].get("trades", [])]
    if wanted != computed:
        yield f"trades {wanted}, the rules give {computed}"


# --- all of it ---------------------------------------------------------------------------------


def judge(scenario: Scenario, reasons: set[str], cells: tuple[Cells, Cells]) -> list[str]:
    faults = list(shape(scenario, reasons))
    if faults:
        return faults
    faults = [*conservation(scenario), *book_order(scenario), *one_price(scenario), *against_tables(scenario, cells)]
    if is_plain_call(scenario):
        faults += recompute_call(scenario)
    elif is_plain_continuous(scenario):
        faults += recompute_continuous(scenario)
    return faults


def check(paths: Iterable[Path]) -> list[Fault]:
    reasons, cells = known_reasons(), tables()
    seen, faults = defaultdict(list), []
    for file, scenario in load(paths):
        name = str(scenario.get("name"))
        seen[name].append(file)
        faults += [Fault(file, name, what) for what in judge(scenario, reasons, cells)]
    faults += [Fault(files[-1], name, f"named twice, in {files}") for name, files in seen.items() if len(files) > 1]
    return faults


def main() -> int:
    paths = [Path(name) for name in sys.argv[1:]] or files()
    faults = check(paths)
    for fault in faults:
        print(fault, file=sys.stderr)
    scenarios = [scenario for _, scenario in load(paths)]
    calls = sum(is_plain_call(scenario) for scenario in scenarios)
    walked = sum(is_plain_continuous(scenario) and not is_plain_call(scenario) for scenario in scenarios)
    print(f"{len(scenarios)} scenarios, {calls} calls and {walked} books recomputed, {len(faults)} faults")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
