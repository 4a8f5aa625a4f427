"""The tables of docs/trading-bench.md as Markdown, from the results of scripts/bench_trading.py."""

import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from bench_trading import HAWKES, LOOPS, SUBSCRIPTIONS, file_name

QUANTILES = {"p50_us": "p50", "p90_us": "p90", "p99_us": "p99", "p99_9_us": "p99.9", "p99_99_us": "p99.99"}
# The measurements of a loop that have a TCP ping-pong beside them.
ON_THE_WIRE = ("propagation", "order placement", "trading loop")
MODES = ("paper", "pipelined", "inprocess")
# The clients of the closed loop and of mode `paper`, with the endings of their cases.
CLIENTS = {"event loop": "", "spin loop": ", spin loop", "busy loop": ", busy loop"}
# Highest p99 at which the rate of mode `pipelined` counts, in microseconds.
PIPELINED_P99_US = 5_000
ORDER = "order placement"
FOUR = "4 connections,"
# Measured proposals: the change, the figure, and case and measurement before and after.
PROPOSALS = [
    (
        "a lasting connection instead of one for each call",
        "closed loop, `public/test`",
        ("closed, event loop", "new connection"),
        ("closed, event loop", "propagation"),
    ),
    *(
        (f"{after} instead of one thread for each connection", f"order, 4 connections, {rate}/s", before, case)
        for rate in ("5,000", "20,000")
        for before in ((f"{FOUR} per-connection, {rate}/s", ORDER),)
        for after, case in (
            ("a pool of two threads", (f"{FOUR} pool, {rate}/s", ORDER)),
            ("an event loop", (f"{FOUR} event-loop, {rate}/s", ORDER)),
        )
    ),
    *(
        (
            "four connections instead of one",
            f"order, event loop, {rate}/s",
            (f"1 connection, event-loop, {rate}/s", ORDER),
            (f"{FOUR} event-loop, {rate}/s", ORDER),
        )
        for rate in ("5,000", "20,000")
    ),
    *(
        (f"{after} instead of no gateway", "closed loop, order", ("route: direct", ORDER), (case, ORDER))
        for after, case in (("one gateway", "route: gateway"), ("HAProxy and two gateways", "route: balancer"))
    ),
    (
        "a thread for market data instead of one for everything",
        "book change to applied",
        ("closed, event loop", "book change to applied"),
        ("closed, per-connection", "book change to applied"),
    ),
    *(
        (
            "polling without sleep instead of an event loop",
            f"closed loop, {what}",
            ("closed, event loop", what),
            ("closed, busy loop", what),
        )
        for what in (ORDER, "trading loop")
    ),
    *(
        (
            "polling for 50 µs after a request instead of an event loop",
            f"closed loop, {what}",
            ("closed, event loop", what),
            ("closed, spin loop", what),
        )
        for what in (ORDER, "trading loop")
    ),
]


def results(out: Path) -> dict[str, dict[str, Any]]:
    """The reports by the names of their cases. A case that failed has no measurements, and a case
    of which a part failed has fewer rows; both state the reason as `failed`."""
    found = {}
    for name in [*(case.name for case in [*LOOPS, *HAWKES]), SUBSCRIPTIONS]:
        report = out / file_name(name) / "report.json"
        if report.exists():
            found[name] = json.loads(report.read_text())
    return found


def measurement(report: dict[str, Any] | None, name: str) -> dict[str, Any]:
    return next((one for one in (report or {}).get("measurements", []) if one["name"] == name), {})


def hawkes_rows(found: dict[str, dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return found.get(name, {}).get("rows", [])


def published_figures(found: dict[str, dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The published figures of other hardware, which every report of the test bench has."""
    key = "published_on_other_hardware"
    return next((report[key] for report in found.values() if key in report), {"table_5": [], "figures_4_and_5": []})


def numbers(rows: Iterable[dict[str, Any]], key: str) -> list[float]:
    """A column of figures. A missing one is not a number, which a plot leaves out."""
    values = (row.get(key) for row in rows)
    return [math.nan if value is None else float(value) for value in values]


def cell(value: float | None, decimals: int = 1) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 100 else f"{value:.{decimals}f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def latency_cells(row: dict[str, Any]) -> list[str]:
    return [cell(row.get(key)) for key in QUANTILES]


def loop_tables(found: dict[str, dict[str, Any]]) -> Iterable[str]:
    """Every figure of every loop."""
    for name in [case.name for case in LOOPS if case.trades and case.name in found]:
        report, rows = found[name], []
        if "failed" in report:
            yield f"{name}: {report['failed']}\n"
            continue
        for one in report["measurements"]:
            rows.append([one["name"], f"{one['count']:,}", *latency_cells(one)])
            if "tcp" in one:
                sizes = f"TCP, {one['request_bytes']} and {one['answer_bytes']} bytes"
                rows.append([sizes, f"{one['tcp']['count']:,}", *latency_cells(one["tcp"])])
        yield f"{name}; book updates {cell(report['updates_per_s'])}/s\n"
        yield table(["µs", "count", *QUANTILES.values()], rows)
        yield cost_table(report)
    if rows := list(order_rows(found)):
        yield table(["order placement, µs", "p50", "p90", "p99", "CPU µs"], rows)


def cost_table(report: dict[str, Any]) -> str:
    costs = [(one["name"], one["cost"]) for one in report["measurements"] if "cost" in one]
    keys = ("cpu_us", "allocations", "allocated_bytes", "sent_bytes", "received_bytes")
    rows = [[name, *(cell(cost[key]) for key in keys)] for name, cost in costs]
    return table(["cost of each", "CPU µs", "allocations", "bytes allocated", "sent", "received"], rows)


def order_rows(found: dict[str, dict[str, Any]]) -> Iterable[Sequence[str]]:
    for case in LOOPS:
        if case.trades or case.name not in found:
            continue
        if "failed" in found[case.name]:
            yield [case.name, found[case.name]["failed"], "-", "-", "-"]
            continue
        order = measurement(found[case.name], ORDER)
        yield [case.name, *latency_cells(order)[:3], cell(order.get("cost", {}).get("cpu_us"))]


def tcp_table(found: dict[str, dict[str, Any]]) -> str:
    """The measurements with a TCP ping-pong beside them, in one table."""
    rows = []
    for case in LOOPS:
        if not case.trades or case.name not in found:
            continue
        if "failed" in found[case.name]:
            rows.append([case.name, found[case.name]["failed"], *["-"] * 6])
        for what in ON_THE_WIRE:
            if one := measurement(found[case.name], what):
                tcp = one["tcp"]
                rows.append(
                    [case.name, what]
                    + [cell(value) for value in (one["p50_us"], tcp["p50_us"])]
                    + [cell(one["p50_to_tcp"], 2)]
                    + [cell(value) for value in (one["p99_us"], tcp["p99_us"])]
                    + [cell(one["p99_to_tcp"], 2)]
                )
    return table(["loop", "µs", "p50", "TCP p50", "ratio", "p99", "TCP p99", "ratio"], rows)


def target_row(
    figure: str, limit: float, values: dict[str, float | None], unit: str = "", at_most: bool = False
) -> Sequence[str]:
    """A target and the figures of the clients. It is missed if no client reaches it."""
    known = {name: value for name, value in values.items() if value is not None}
    is_met = any(value <= limit if at_most else value >= limit for value in known.values())
    measured = ", ".join(f"{cell(value, 2)} {name}".strip() for name, value in known.items()) or "-"
    return [
        figure,
        f"at {'most' if at_most else 'least'} {limit:,}{unit}",
        measured if is_met or not known else f"{measured}: **missed**",
    ]


def target_rows(found: dict[str, dict[str, Any]]) -> Iterable[Sequence[str]]:
    """The targets of the trading loop and of the test bench."""
    loops = {client: measurement(found.get(f"closed, {client}"), "trading loop") for client in CLIENTS}
    for key, limit in (("p50", 1.5), ("p99", 2.5)):
        ratios = {client: loop.get(f"{key}_to_tcp") for client, loop in loops.items()}
        yield target_row(f"trading loop to TCP, {key}", limit, ratios, at_most=True)
    report = found.get("closed, event loop", {})
    update = measurement(report, "book update").get("p50_us")
    yield target_row("book update, p50", 1, {"": update}, " µs", at_most=True)
    yield target_row("book updates on one connection", 400_000, {"": report.get("updates_per_s")}, "/s")
    one: dict[str, float | None] = {}
    lowest: dict[str, float | None] = {}
    for client, ending in CLIENTS.items():
        rates = numbers(hawkes_rows(found, f"paper-pairs{ending}"), "orders_per_s")
        if len(rates) > 1:
            one[client], lowest[client] = rates[0], min(rates[1:]) / rates[0]
    yield target_row("`paper`, one pair", 12_000, one, " orders/s")
    yield target_row("`paper`, lowest of 2 to 10 pairs to one pair", 1, lowest)
    pipelined = [row for case in HAWKES if case.mode == "pipelined" for row in hawkes_rows(found, case.name)]
    fast = [row["orders_per_s"] for row in pipelined if (row.get("p99_us") or math.inf) <= PIPELINED_P99_US]
    yield target_row("`pipelined`, highest rate with p99 of at most 5 ms", 50_000, {"": max(fast, default=None)}, "/s")
    million = hawkes_rows(found, "inprocess-million")
    rate = million[0]["orders_per_s"] if million else None
    yield target_row("`inprocess`, 1,000,000 orders", 1_000_000, {"": rate}, "/s")


def proposal_table(found: dict[str, dict[str, Any]]) -> str:
    """The figures before and after each proposal."""
    rows = []
    for proposal, what, before, after in PROPOSALS:
        old, new = (measurement(found.get(case), one) for case, one in (before, after))
        pair = [(old.get(key), new.get(key)) for key in ("p50_us", "p99_us")]
        pair.append((old.get("cost", {}).get("cpu_us"), new.get("cost", {}).get("cpu_us")))
        ratio = new["p50_us"] / old["p50_us"] if old.get("p50_us") and new.get("p50_us") else None
        changes = [f"{cell(one)} → {cell(two)}" for one, two in pair]
        rows.append([proposal, what, changes[0], cell(ratio, 2), *changes[1:]])
    return table(["change", "measured", "p50, µs", "ratio", "p99, µs", "CPU, µs"], rows)


def subscription_table(found: dict[str, dict[str, Any]]) -> str:
    report = found.get(SUBSCRIPTIONS, {})
    if "rows" not in report:
        return f"{SUBSCRIPTIONS}: {report.get('failed', 'not measured')}\n"
    rows = [[f"{row['channels']}", f"{row['array_ns']}", f"{row['map_ns']}"] for row in report["rows"]]
    return table(["channels", "array of 512, ns for each lookup", "hash map, ns"], rows)


def hawkes_tables(found: dict[str, dict[str, Any]]) -> Iterable[str]:
    """The rows of each case, with the published throughput of other hardware beside the pairs."""
    head = ["clients", "stocks", "orders", "refused", "seconds", "orders/s", *QUANTILES.values()]
    table_5 = published_figures(found)["table_5"]
    machines = list(dict.fromkeys(row["machine"] for row in table_5))
    for case in HAWKES:
        if case.name not in found:
            continue
        report = found[case.name]
        if "failed" in report:
            yield f"{case.name}: {report['failed']}\n"
        if not report.get("rows"):
            continue
        rate = f"{report['rate_per_s']:,} orders/s, " if report["rate_per_s"] else ""
        threads = "" if case.mode == "inprocess" else f"threads {report['threads']}, "
        journal = f"journal {'in memory' if report['durability'] == 'memory' else 'on disk'}"
        yield f"Mode `{case.mode}`, `{case.scenario}`: {rate}{threads}{journal}. µs.\n"
        beside = machines if case.scenario == "pairs" else []
        if beside:
            yield "The last columns are orders/s of CoinTossX on other hardware (table 5).\n"
        rows = []
        for row in report["rows"]:
            published = (
                next((one for one in table_5 if (one["machine"], one["pairs"]) == (machine, row["clients"])), None)
                for machine in beside
            )
            rows.append(
                [
                    str(row["clients"]),
                    str(row["stocks"]),
                    f"{row['orders']:,}",
                    f"{row['refused']:,}",
                    f"{row['seconds']:.2f}",
                    f"{row['orders_per_s']:,.0f}",
                    *latency_cells(row),
                    *(cell(one["orders_per_s"] if one else None) for one in published),
                ]
            )
        yield table([*head, *(f"other hardware, {machine.split(',')[0]}" for machine in beside)], rows)


def published_table(found: dict[str, dict[str, Any]]) -> str:
    rows = [
        [one["machine"], one["what"], f"{one['p90_ns_as_printed']} ns", f"{one['p90_us_inferred']} µs"]
        for one in published_figures(found)["figures_4_and_5"]
    ]
    return table(["other hardware", "p90 of", "as printed", "as its code implies (inferred)"], rows)


def results_section(found: dict[str, dict[str, Any]], machine: dict[str, str]) -> str:
    """The results as they stand in docs/trading-bench.md."""
    failed = [name for name, report in found.items() if "failed" in report]
    event_loop = found.get("closed, event loop", {})
    parts = [
        f"{machine['cpu']}, {machine['cores']} cores, Linux {machine['kernel']}, build {machine['commit']}, "
        f"{machine['date']}.\n" + (f"\nFailed or incomplete: {'; '.join(failed)}.\n" if failed else ""),
        "### Targets\n",
        "A target is missed if no client reaches it.\n",
        table(["figure", "target", "measured"], target_rows(found)),
        "### Against TCP\n",
        "![latency by percentile](figures/trading-loop.png)\n",
        tcp_table(found),
        "### Cost, closed loop on an event loop\n",
        cost_table(event_loop) if "measurements" in event_loop else "",
        "### Proposed optimisations\n",
        proposal_table(found),
        "![orders by threads, connections and route](figures/trading-connections.png)\n",
        table(["order placement, µs", "p50", "p90", "p99", "CPU µs"], order_rows(found)),
        subscription_table(found),
        "### Test bench\n",
        "![pairs of client and stock](figures/trading-hawkes.png)\n",
        "![clients on one stock](figures/trading-one-stock.png)\n",
        *hawkes_tables(found),
        "The published latencies. They end at another point than ours, so no table compares them:\n",
        published_table(found),
    ]
    return "\n".join(part for part in parts if part)
