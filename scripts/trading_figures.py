"""Draws the plots of docs/trading-bench.md and writes its tables, from the results of
scripts/bench_trading.py."""

import argparse
import json
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from bench_trading import file_name
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator
from trading_tables import (
    MODES,
    ON_THE_WIRE,
    QUANTILES,
    hawkes_rows,
    hawkes_tables,
    loop_tables,
    measurement,
    numbers,
    published_figures,
    published_table,
    results,
    results_section,
)

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
# Fewest values above a plotted percentile, as in the tables.
VALUES_ABOVE = 100
# Lines of the page between which the results stand.
BEGIN, END = "<!-- results -->", "<!-- /results -->"


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


def replace_results(page: Path, section: str) -> None:
    """Replaces the results in a page."""
    text = page.read_text()
    before, found, rest = text.partition(BEGIN)
    _, found_end, after = rest.partition(END)
    if not (found and found_end):
        raise SystemExit(f"trading_figures: {page} has no lines {BEGIN} and {END}")
    page.write_text(f"{before}{BEGIN}\n\n{section}\n{END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("target/bench-trading"), help="directory of the results")
    parser.add_argument("--figures", type=Path, default=Path("docs/figures"), help="directory for the plots")
    parser.add_argument("--page", type=Path, help="page whose results are replaced")
    options = parser.parse_args()
    found = results(options.out)
    draw_loop(options.out, options.figures)
    draw_connections(found, options.figures)
    draw_hawkes(found, options.figures)
    draw_one_stock(found, options.figures)
    print("\n".join([*loop_tables(found), *hawkes_tables(found), published_table(found)]))
    if options.page:
        machine = json.loads((options.out / "machine.json").read_text())
        replace_results(options.page, results_section(found, machine))


if __name__ == "__main__":
    main()
