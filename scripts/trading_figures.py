"""Draws the plots of docs/trading-bench.md and prints its tables as Markdown, from the results of
scripts/bench_trading.py."""

import argparse
import json
import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from bench_trading import HAWKES, LOOPS, file_name
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

# A white ground, so that a plot is legible on a dark page too.
mpl.rcParams.update(
    {
        "figure.facecolor": "white",
        "font.size": 9,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#e4e4e4",
        "legend.frameon": False,
        "figure.constrained_layout.use": True,
    }
)
WIDTH, DPI = 7.6, 100
QUANTILES = {"p50_us": "p50", "p90_us": "p90", "p99_us": "p99", "p99_9_us": "p99.9", "p99_99_us": "p99.99"}
# Fewest values above a plotted percentile, as in the tables.
VALUES_ABOVE = 100
# The measurements of a loop that have a TCP ping-pong beside them.
ON_THE_WIRE = ("propagation", "order placement", "trading loop")
MODES = ("paper", "pipelined", "inprocess")


def results(out: Path) -> dict[str, dict[str, Any]]:
    """The reports by the names of their cases. A case that failed has no measurements, and a case
    of which a part failed has fewer rows; both state the reason as `failed`."""
    found = {}
    for case in [*LOOPS, *HAWKES]:
        report = out / file_name(case.name) / "report.json"
        if report.exists():
            found[case.name] = json.loads(report.read_text())
    return found


def measurement(report: dict[str, Any] | None, name: str) -> dict[str, Any]:
    return next((one for one in (report or {}).get("measurements", []) if one["name"] == name), {})


def hawkes_rows(found: dict[str, dict[str, Any]], name: str) -> list[dict[str, Any]]:
    return found.get(name, {}).get("rows", [])


def numbers(rows: Iterable[dict[str, Any]], key: str) -> list[float]:
    """A column of figures. A missing one is not a number, which a plot leaves out."""
    values = (row.get(key) for row in rows)
    return [math.nan if value is None else float(value) for value in values]


def percentiles(path: Path) -> tuple[list[float], list[float]]:
    """1/(1 - percentile) and microseconds of a histogram file, or nothing if it does not exist."""
    x, y = [], []
    if not path.exists():
        return x, y
    lines = [line.split() for line in path.read_text().splitlines()[2:] if not line.startswith("#")]
    total = int(lines[-1][2])
    for value, quantile, *_ in lines:
        above = 1 - float(quantile)
        if above * total < VALUES_ABOVE:
            break
        x.append(1 / above)
        y.append(float(value))
    return x, y


def save(figure: Figure, path: Path) -> None:
    figure.savefig(path, dpi=DPI)
    plt.close(figure)


def plain(value: float, _: object = None) -> str:
    return f"{value:,.0f}" if value >= 1 else f"{value:g}"


def make_logarithmic(axis: Axis) -> None:
    """Makes an axis logarithmic with plain numbers, unless cases failed and it has no values."""
    if not np.isfinite(axis.get_data_interval()).all():
        return
    {"x": axis.axes.set_xscale, "y": axis.axes.set_yscale}[axis.axis_name]("log")
    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 100 * low else (1,)))
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(FuncFormatter(plain))


def time_axis(axes: Axes) -> None:
    make_logarithmic(axes.yaxis)
    axes.set_ylabel("µs")


def draw_loop(out: Path, figures: Path) -> None:
    """Latency by percentile, each measurement beside its ping-pong."""
    panels = ("closed, busy loop", "closed, event loop")
    figure, all_axes = plt.subplots(1, 2, figsize=(WIDTH, 3.6), sharey=True)
    for axes, name in zip(all_axes, panels, strict=True):
        for number, what in enumerate(ON_THE_WIRE):
            stem = out / file_name(name) / what.replace(" ", "-")
            axes.plot(*percentiles(stem.with_suffix(".hgrm")), color=f"C{number}", label=what)
            tcp = percentiles(stem.with_name(f"{stem.name}-tcp.hgrm"))
            axes.plot(*tcp, color=f"C{number}", linestyle="--", linewidth=1, label=f"TCP, size of {what}")
        axes.set_xscale("log")
        axes.set_xlim(1, 20_000)
        axes.set_xticks([2, 10, 100, 1000, 10_000], ["50", "90", "99", "99.9", "99.99"])
        axes.minorticks_off()
        axes.set_xlabel("percentile")
        axes.set_title(name, fontsize=9)
    time_axis(all_axes[0])
    figure.legend(*all_axes[0].get_legend_handles_labels(), fontsize=7, ncols=3, loc="outside lower center")
    save(figure, figures / "trading-loop.png")


def draw_connections(found: dict[str, dict[str, Any]], figures: Path) -> None:
    """p50 and p99 of an order by thread model, and by the way to the venue."""
    models = [
        "1 connection, event-loop",
        *(f"4 connections, {one}" for one in ("event-loop", "pool", "per-connection")),
    ]
    figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 3), gridspec_kw={"width_ratios": [3, 2]})
    for number, rate in enumerate(("5,000/s", "20,000/s")):
        of_rate = [measurement(found.get(f"{model}, {rate}"), "order placement") for model in models]
        for key, marker in (("p50_us", "o"), ("p99_us", "|")):
            shown = numbers(of_rate, key)
            places = [at + 0.2 * number for at in range(len(models))]
            left.plot(shown, places, marker, color=f"C{number}", markersize=8, label=f"{QUANTILES[key]}, {rate}")
    left.set_yticks(range(len(models)), models)
    left.set_title("order, open loop", fontsize=9)
    routes = ("direct", "gateway", "balancer")
    for key, marker in (("p50_us", "o"), ("p99_us", "|")):
        shown = numbers((measurement(found.get(f"route: {way}"), "order placement") for way in routes), key)
        right.plot(shown, range(len(routes)), marker, color="C2", markersize=8, label=QUANTILES[key])
    right.set_yticks(range(len(routes)), ["direct", "one gateway", "HAProxy,\ntwo gateways"])
    right.set_title("order, closed loop", fontsize=9)
    for axes in (left, right):
        axes.margins(x=0.1, y=0.2)
        make_logarithmic(axes.xaxis)
        axes.set_xlabel("µs")
        axes.legend(fontsize=7, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.25))
    save(figure, figures / "trading-connections.png")


def published_figures(found: dict[str, dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """The published figures of other hardware, which every report of the test bench has."""
    key = "published_on_other_hardware"
    return next((report[key] for report in found.values() if key in report), {"table_5": [], "figures_4_and_5": []})


def draw_hawkes(found: dict[str, dict[str, Any]], figures: Path) -> None:
    """Throughput and latency by pairs: a panel for each mode, and one for the published figures."""
    figure, all_axes = plt.subplots(2, 4, figsize=(WIDTH, 4.4), sharex=True)
    for column, mode in enumerate(MODES):
        rows = hawkes_rows(found, f"{mode}-pairs")
        pairs = [row["clients"] for row in rows]
        above, below = all_axes[0][column], all_axes[1][column]
        above.plot(pairs, [row["orders_per_s"] / 1000 for row in rows], "o-", color=f"C{column}")
        above.set_title(f"mode {mode}", fontsize=9)
        for key, style in (("p50_us", ":"), ("p90_us", "-"), ("p99_us", "--")):
            below.plot(pairs, numbers(rows, key), style, color=f"C{column}", label=QUANTILES[key])
        time_axis(below)
        below.legend(fontsize=7)
    published = published_figures(found)
    above, below = all_axes[0][3], all_axes[1][3]
    for number, machine in enumerate(dict.fromkeys(row["machine"] for row in published["table_5"])):
        rows = [row for row in published["table_5"] if row["machine"] == machine]
        above.plot([row["pairs"] for row in rows], [row["orders_per_s"] / 1000 for row in rows], "s-",
                   color=("black", "gray")[number], label=machine.split(",")[0])  # fmt: skip
        low, high = (row["p90_ns_as_printed"] for row in published["figures_4_and_5"] if row["machine"] == machine
                     and row["what"].startswith("figure 4"))  # fmt: skip
        below.plot([1, 10] if number == 0 else [1, 6], [low, high], "s", color=("black", "gray")[number])
    above.set_title("CoinTossX,\nother hardware", fontsize=9)
    if published["table_5"]:
        above.legend(fontsize=7)
    below.set_ylabel("p90: lowest, highest;\nns as printed, µs inferred", fontsize=7)
    below.set_ylim(0)
    all_axes[0][0].set_ylabel("1,000 orders/s")
    for axes in all_axes[0]:
        axes.set_ylim(0)
    for axes in all_axes[1]:
        axes.set_xlabel("pairs")
        axes.set_xticks([1, 2, 4, 6, 8, 10])
    save(figure, figures / "trading-hawkes.png")


def draw_one_stock(found: dict[str, dict[str, Any]], figures: Path) -> None:
    """Clients on one stock: throughput and p99."""
    figure, all_axes = plt.subplots(1, 3, figsize=(WIDTH, 2.6))
    for column, (axes, mode) in enumerate(zip(all_axes, MODES, strict=True)):
        rows = hawkes_rows(found, f"{mode}-one-stock")
        clients = [row["clients"] for row in rows]
        axes.plot(clients, [row["orders_per_s"] / 1000 for row in rows], "o-", color=f"C{column}")
        axes.set_xscale("log", base=2)
        axes.set_xlim(0.9, 72)
        axes.set_xticks([1, 2, 4, 8, 16, 32, 64], ["1", "2", "4", "8", "16", "32", "64"])
        axes.minorticks_off()
        axes.set_ylim(0)
        axes.set_xlabel("clients on one stock")
        axes.set_title(f"mode {mode}", fontsize=9)
    all_axes[0].set_ylabel("1,000 orders/s")
    save(figure, figures / "trading-one-stock.png")


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
        ratios = [
            [one["name"], *(cell(one[key], 2) for key in ("p50_to_tcp", "p99_to_tcp"))]
            for one in report["measurements"]
            if "tcp" in one
        ]
        yield table(["ratio to TCP", "p50", "p99"], ratios)
        costs = [(one["name"], one["cost"]) for one in report["measurements"] if "cost" in one]
        keys = ("cpu_us", "allocations", "allocated_bytes", "sent_bytes", "received_bytes")
        rows = [[name, *(cell(cost[key]) for key in keys)] for name, cost in costs]
        yield table(["cost of each", "CPU µs", "allocations", "bytes allocated", "sent", "received"], rows)
    rows = []
    for case in LOOPS:
        if case.trades or case.name not in found:
            continue
        if "failed" in found[case.name]:
            yield f"{case.name}: {found[case.name]['failed']}\n"
            continue
        order = measurement(found[case.name], "order placement")
        cost = order.get("cost", {})
        rows.append([case.name, *latency_cells(order)[:3], cell(cost.get("cpu_us"))])
    if rows:
        yield table(["order placement, µs", "p50", "p90", "p99", "CPU µs"], rows)


def hawkes_tables(found: dict[str, dict[str, Any]]) -> Iterable[str]:
    head = ["clients", "stocks", "orders", "refused", "seconds", "orders/s", *QUANTILES.values()]
    for case in HAWKES:
        if case.name not in found:
            continue
        report = found[case.name]
        if "failed" in report:
            yield f"{case.name}: {report['failed']}\n"
        if not report.get("rows"):
            continue
        yield f"{case.name}; rate {report['rate_per_s']}, threads {report['threads']}, {report['durability']}\n"
        rows = [
            [
                str(row["clients"]),
                str(row["stocks"]),
                f"{row['orders']:,}",
                f"{row['refused']:,}",
                f"{row['seconds']:.2f}",
                f"{row['orders_per_s']:,.0f}",
                *latency_cells(row),
            ]
            for row in report["rows"]
        ]
        yield table(head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("target/bench-trading"), help="directory of the results")
    parser.add_argument("--figures", type=Path, default=Path("docs/figures"), help="directory for the plots")
    options = parser.parse_args()
    found = results(options.out)
    draw_loop(options.out, options.figures)
    draw_connections(found, options.figures)
    draw_hawkes(found, options.figures)
    draw_one_stock(found, options.figures)
    print("\n".join([*loop_tables(found), *hawkes_tables(found)]))


if __name__ == "__main__":
    main()
