"""The rulebook against itself: random markets keep its guarantees, and hidden orders leave no
trace. RULEBOOK_SEED=N repeats a seed; RULEBOOK_RUNS=N makes more runs."""

import os
import random
from typing import Any

import rulebook
from rule_tables import BY_SESSION, SESSIONS

Steps = list[dict[str, Any]]
SEED = int(os.environ.get("RULEBOOK_SEED", "0")) or random.SystemRandom().randrange(1, 2**32)
RUNS = int(os.environ.get("RULEBOOK_RUNS", "300"))
TIFS = [*["day"] * 6, *sorted({column for _, column in BY_SESSION} & {"gtc", "gtd", "gtt", "ioc", "fok"})]
TIFS += ["opg", "atc", "gfa", "gfx", "cpx"]
KINDS = ["market", "limit", "limit", "limit", "hidden", "stop", "stop_limit", "iceberg"]
OF_CALLS = {"opg", "atc", "gfa", "gfx", "cpx"}


def random_entry(rnd: random.Random, name: str, kinds: list[str], tifs: list[str]) -> dict[str, Any]:
    kind, quantity, side = rnd.choice(kinds), rnd.randint(1, 10), rnd.choice(["buy", "sell"])
    tif = rnd.choice(tifs)
    step = {"op": "enter", "id": name, "side": side, "type": kind, "qty": quantity, "tif": tif}
    if kind in {"limit", "hidden", "stop_limit", "iceberg"}:
        step["price"] = rnd.randint(98, 104)
    if kind in {"stop", "stop_limit"}:
        step["stop"] = rnd.randint(98, 104)
    extra = {"hidden": "mes", "iceberg": "display"}.get(kind)
    expiry = {"gtd": f"2026-01-0{rnd.randint(5, 8)}", "gtt": f"{rnd.randint(9, 18):02}:00:00"}.get(tif)
    group = rnd.choice(["K", "Z", None, None])
    return (
        step
        | ({extra: rnd.randint(1, quantity)} if extra else {})
        | ({"expires": expiry} if expiry else {})
        | ({"smp_key": group} if group else {})
    )


def random_steps(rnd: random.Random, kinds: list[str], tifs: list[str], sessions: list[str]) -> Steps:
    steps: Steps = []
    for index in range(rnd.randint(3, 25)):
        chance = rnd.random()
        names = [step["id"] for step in steps if step["op"] == "enter"]
        if chance < 0.7 or not names:
            steps.append(random_entry(rnd, f"O{index}", kinds, tifs))
        elif chance < 0.76:
            steps.append({"op": "cancel", "id": rnd.choice(names)})
        elif chance < 0.84:
            key = rnd.choice(["qty", "price", "mes", "stop"])
            value = rnd.randint(98, 104) if key in {"price", "stop"} else rnd.randint(1, 12)
            steps.append({"op": "amend", "id": rnd.choice(names), key: value})
        elif chance < 0.88:
            steps.append({"op": "timer"})
        else:
            steps.append({"op": "session", "to": rnd.choice(sessions)})
    return steps


def random_setup(rnd: random.Random) -> dict[str, Any]:
    setup: dict[str, Any] = {}
    for name, low, high in (
        ("static_reference", 98, 104),
        ("last_price", 98, 104),
        ("closing_price", 98, 104),
        ("static_tolerance_pct", 1, 4),
        ("dynamic_tolerance_pct", 1, 4),
        ("improvement", 1, 4),
    ):
        if rnd.random() < 0.3:
            setup[name] = rnd.randint(low, high)
    if rnd.random() < 0.3:
        setup["smp"] = rnd.choice(["cancel_resting", "cancel_incoming", "cancel_both"])
    if rnd.random() < 0.2:
        setup["allocation"] = rnd.choice(["pro_rata", "frequent_batch"])
    return setup


def check_promises(book: rulebook.Book) -> None:
    for order in book.orders.values():
        assert order.where in {"active", "parked", "unelected", "gone"}
        assert order.open > 0 or order.where == "gone"
        assert order.where != "active" or not order.hidden or order.open >= order.mes
    if book.session == "continuous" and not book.batches():
        bid, offer = book.best_visible(1), book.best_visible(-1)
        assert bid is None or offer is None or bid < offer
        assert not any(o.kind == "market" or o.tif in OF_CALLS for o in book.live("active"))
        assert not any(book.holds(o) for o in book.live("unelected"))


def test_random_markets_keep_their_promises() -> None:
    rnd = random.Random(SEED)
    for run in range(RUNS):
        steps = random_steps(rnd, KINDS, TIFS, [*SESSIONS, *["continuous"] * 5])
        book = rulebook.Book(random_setup(rnd))
        for index, step in enumerate(steps):
            events = book.step(step)
            prices = {event["price"] for event in events if event["type"] == "trade"}
            what = f"RULEBOOK_SEED={SEED}, run {run}, step {index} of {steps}"
            if step["op"] == "session" and step["to"] != "continuous" and book.session != "closing_price_cross":
                assert len(prices) <= 1, what
            try:
                check_promises(book)
            except AssertionError as broken:
                raise AssertionError(what) from broken


def public(book: rulebook.Book, events: Steps) -> Any:
    """The public part of a step: trades without names, sessions, breaches, indicative data, visible
    levels."""
    published: list[Any] = []
    for event in events:
        if event["type"] == "trade":
            published.append((event["qty"], event["price"]))
        elif event["type"] in {"indicative", "session", "breaker"}:
            published.append(event)
    levels: dict[tuple[int, int | None], int] = {}
    for order in book.side(1) + book.side(-1):
        if not order.hidden:
            levels[order.sign, order.price] = levels.get((order.sign, order.price), 0) + order.visible()
    return published, levels


def watched(steps: Steps) -> tuple[list[Any], set[str]]:
    """The public record by step, and the hidden orders that traded or could have met an incoming
    order."""
    book, record, met = rulebook.Book({"static_reference": 101}), [], set()
    for step in steps:
        hidden = [o for o in book.live("active") if o.hidden]
        if step["op"] == "enter":
            sign = 1 if step["side"] == "buy" else -1
            limit = step.get("price", sign * 10**9)
            met |= {h.id for h in hidden if h.sign != sign and sign * limit >= sign * (h.price or 0)}
        events = list(book.step(step))
        if step["op"] == "amend" or any(event["type"] == "triggered" for event in events):
            met |= {h.id for h in hidden}
        record.append(public(book, events))
    return record, met | {trade[side] for trade in book.trades for side in ("buy", "sell")}


def test_hidden_orders_leave_no_trace() -> None:
    rnd, pairs = random.Random(SEED), 0
    kinds = ["limit", "limit", "hidden", "hidden", "market", "iceberg", "stop"]
    for run in range(RUNS):
        steps = random_steps(rnd, kinds, ["day", "gtc"], ["continuous", "continuous", "intraday_auction", "halt"])
        record, met = watched(steps)
        for step in steps:
            if step.get("type") != "hidden" or step["id"] in met:
                continue
            pairs += 1
            kept = [seen for seen, other in zip(record, steps, strict=True) if other.get("id") != step["id"]]
            without, _ = watched([other for other in steps if other.get("id") != step["id"]])
            assert kept == without, f"RULEBOOK_SEED={SEED}, run {run}: {step['id']} leaves a trace in {steps}"
    assert pairs > RUNS // 10
