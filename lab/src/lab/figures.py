"""Figures of the report, as SVG text."""

import io
import re
from collections.abc import Mapping, Sequence

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from lab.analysis import TimedResult
from lab.heat import HeatMap
from lab.machine import SERIES_COLUMNS
from lab.summary import FiveNumbers

WIDTH = 5.4  # inches: text stays legible on a phone, where a figure is 5 cm to 6 cm wide
sns.set_theme(style="ticks", palette="colorblind", font_scale=0.85)
mpl.rcParams.update(
    {
        "svg.fonttype": "none",
        "font.family": "sans-serif",
        "font.sans-serif": ["Helvetica", "Arial", "DejaVu Sans"],
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "grid.color": "#e4e4e4",
        "grid.linewidth": 0.6,
        "figure.constrained_layout.use": True,
        "svg.hashsalt": "pitwire-lab",  # the same figure gives the same file
    }
)
WIDE_RANGE = 30  # ratio of two medians from which an axis is logarithmic
MARKERS = "osD^vPX*<>hd"
CONTRAST = (0, 1, 2, 3, 4, 5, 7, 9, 6, 8)  # places in seaborn's palette; the pale ones come last


def styles(connectors: Sequence[str]) -> dict[str, tuple[tuple[float, ...], str]]:
    """Colour and marker of each connector, the same in every figure."""
    palette = sns.color_palette("colorblind", max(len(connectors), len(CONTRAST)))
    palette = [palette[i] for i in CONTRAST] + palette[len(CONTRAST) :]
    return {c: (palette[i], MARKERS[i % len(MARKERS)]) for i, c in enumerate(sorted(connectors))}


def row_height(inches: float, rows: int) -> float:
    """Height of all rows of a figure with one row per connector, at most that of a page."""
    return rows * min(inches, 6.4 / rows)


def svg(figure: Figure) -> str:
    """SVG element without the XML header. Its size follows the page."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", metadata={"Date": None})
    plt.close(figure)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    return re.sub(r'<svg ([^>]*?)width="[^"]*" height="[^"]*"', r"<svg \1", text, count=1)


def time_text(value_ns: float, _: object = None) -> str:
    """A duration with its unit: 950 ns, 32 µs, 4.1 ms, 2 s."""
    for limit, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if abs(value_ns) >= limit:
            return f"{value_ns / limit:.3g} {unit}"
    return f"{value_ns:.3g} ns"


def time_axis(axis: object, *, log: bool) -> None:
    if log:
        low, high = axis.get_view_interval()
        decades = np.log10(max(high, 1) / max(low, 1))
        # Labels of a wide range would overlap, so it has fewer of them.
        steps = (1.0, 2.0, 5.0) if decades < 2 else (1.0, 3.0) if decades < 3 else (1.0,)
        axis.set_major_locator(LogLocator(base=10, subs=steps, numticks=12))
        axis.set_minor_formatter(NullFormatter())
    axis.set_major_formatter(FuncFormatter(time_text))


def levels(result: TimedResult, quantile: float) -> str:
    """One dot per connector with its 95 % interval, fastest first."""
    rows = [
        (row.connector, row.quantiles[quantile], row.intervals[quantile].low, row.intervals[quantile].high)
        for row in result.comparison.levels
    ]
    return dots(rows, "response latency")


def dots(rows: Sequence[tuple[str, float, float, float]], label: str) -> str:
    """Durations in ns with their intervals: name, value, low, high. The smallest is on top.

    A wide range has a logarithmic axis.
    """
    ordered = sorted(rows, key=lambda row: -row[1])
    look = styles([name for name, *_ in ordered])
    figure, axes = plt.subplots(figsize=(WIDTH, 0.6 + row_height(0.32, len(ordered))))
    for y, (name, value, low, high) in enumerate(ordered):
        colour, marker = look[name]
        axes.plot([low, high], [y, y], color=colour, linewidth=2)
        axes.plot([value], [y], marker=marker, color=colour, markersize=6)
    axes.set_yticks(range(len(ordered)), [name for name, *_ in ordered])
    axes.set_xlabel(label)
    is_wide = ordered[-1][1] > 0 and ordered[0][1] > WIDE_RANGE * ordered[-1][1]
    if is_wide:
        axes.set_xscale("log")
    time_axis(axes.xaxis, log=is_wide)
    return svg(figure)


def ecdf(curves: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Empirical distribution functions on a logarithmic time axis."""
    look = styles(list(curves))
    figure, axes = plt.subplots(figsize=(WIDTH, 3.4))
    for connector, points in curves.items():
        p, value = np.array(points).T
        axes.plot(np.maximum(value, 1), p, color=look[connector][0], label=connector, linewidth=1.4)
    axes.set_xscale("log")
    time_axis(axes.xaxis, log=True)
    axes.set_xlabel("response latency")
    axes.set_ylabel("share of messages")
    legend(axes)
    return svg(figure)


def nines(curves: Mapping[str, Sequence[tuple[float, float]]], floor: Mapping[float, float]) -> str:
    """Percentile curves on a logarithmic axis of nines, with the noise floor."""
    look = styles(list(curves))
    figure, axes = plt.subplots(figsize=(WIDTH, 3.4))
    last = 0.9
    for connector, points in curves.items():
        p, value = np.array(points).T
        kept = p >= 0.5
        axes.plot(
            1 / (1 - p[kept]), np.maximum(value[kept], 1), color=look[connector][0], label=connector, linewidth=1.4
        )
        last = max(last, p.max())
    shown = {q: f for q, f in floor.items() if f > 0 and q <= last}
    if shown:
        axes.plot([1 / (1 - q) for q in shown], list(shown.values()), "k--", linewidth=1, label="noise floor")
    axes.set_xscale("log")
    axes.set_yscale("log")
    ticks = [q for q in (0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999) if q <= last + 1e-9]
    axes.set_xticks([1 / (1 - q) for q in ticks], [f"p{q * 100:g}" for q in ticks])
    axes.xaxis.set_minor_formatter(NullFormatter())
    time_axis(axes.yaxis, log=True)
    axes.set_ylabel("response latency")
    legend(axes)
    return svg(figure)


def shifts(result: TimedResult, reference: str) -> str:
    """Difference to the reference at each decile, with simultaneous 95 % bands.

    The axis is linear inside the margin and logarithmic outside: the bands of the last deciles are
    often a hundred times as wide as the others.
    """
    pairs = [p for p in result.comparison.pairs if reference in (p.a, p.b)]
    look = styles([level.connector for level in result.comparison.levels])
    columns = min(3, len(pairs))
    rows = -(-len(pairs) // columns)
    figure, grid = plt.subplots(
        rows, columns, figsize=(WIDTH, 0.4 + 1.7 * rows), sharex=True, sharey=True, squeeze=False
    )
    for axes, pair in zip(grid.flat, pairs, strict=False):
        other, sign = (pair.b, 1) if pair.a == reference else (pair.a, -1)
        points = sorted(pair.shift_function.items())
        q = np.array([point[0] for point in points])
        values = sign * np.array([point[1] for point in points])
        low, high = np.sort(values[:, 1:], axis=1).T
        kept = q <= 0.9
        axes.axhline(0, color="#888888", linewidth=0.8)
        margin = result.comparison.margin
        axes.axhspan(-margin, margin, color="#f2f2f2", zorder=0)
        axes.fill_between(q[kept], low[kept], high[kept], color=look[other][0], alpha=0.25, linewidth=0)
        axes.plot(q[kept], values[kept, 0], color=look[other][0], linewidth=1.4)
        axes.set_title(other, fontsize=8)
        axes.set_yscale("symlog", linthresh=margin)
        time_axis(axes.yaxis, log=False)
    for axes in list(grid.flat)[len(pairs) :]:
        axes.set_visible(False)
    figure.supxlabel("quantile", fontsize=9)
    figure.supylabel(f"slower than {reference}", fontsize=9)
    return svg(figure)


def boxes(five: Mapping[str, FiveNumbers]) -> str:
    """Classic box plots from five-number summaries. Outliers are not drawn."""
    look = styles(list(five))
    figure, axes = plt.subplots(figsize=(WIDTH, 2.8))
    stats = [
        {"whislo": f.whisker_low, "q1": f.q1, "med": f.median, "q3": f.q3, "whishi": f.whisker_high, "fliers": []}
        for f in five.values()
    ]
    drawn = axes.bxp(stats, showfliers=False, patch_artist=True, widths=0.55, medianprops={"color": "black"})
    for patch, connector in zip(drawn["boxes"], five, strict=True):
        patch.set_facecolor((*look[connector][0], 0.55))
    names(axes, list(five))
    axes.set_ylabel("response latency")
    time_axis(axes.yaxis, log=False)
    return svg(figure)


def names(axes: Axes, connectors: Sequence[str]) -> None:
    is_crowded = len(connectors) > 12
    axes.set_xticks(
        range(1, len(connectors) + 1),
        connectors,
        rotation=90 if is_crowded else 20,
        ha="center" if is_crowded else "right",
        fontsize=7 if is_crowded else None,
    )
    axes.grid(visible=False, axis="x")


def load_curves(timed: Sequence[TimedResult], quantile: float) -> str:
    """Latency against the offered rate."""
    connectors = sorted({level.connector for result in timed for level in result.comparison.levels})
    look = styles(connectors)
    figure, axes = plt.subplots(figsize=(WIDTH, 3.4))
    ordered = sorted(timed, key=lambda result: result.settings["rate"])
    for connector in connectors:
        points = [
            (result.settings["rate"], level.quantiles[quantile], level.intervals[quantile])
            for result in ordered
            for level in result.comparison.levels
            if level.connector == connector and quantile in level.quantiles
        ]
        if not points:
            continue
        colour, marker = look[connector]
        rates, values, intervals = zip(*points, strict=True)
        below = [max(0.0, v - i.low) for v, i in zip(values, intervals, strict=True)]
        above = [max(0.0, i.high - v) for v, i in zip(values, intervals, strict=True)]
        axes.errorbar(
            rates, values, yerr=[below, above], color=colour, marker=marker, markersize=4, label=connector, capsize=2
        )
    rate_axis(axes, ordered)
    axes.set_yscale("log")
    time_axis(axes.yaxis, log=True)
    axes.set_ylabel("response latency")
    legend(axes)
    return svg(figure)


def rate_axis(axes: Axes, ordered: Sequence[TimedResult]) -> None:
    axes.set_xscale("log")
    axes.set_xticks([r.settings["rate"] for r in ordered], [f"{r.settings['rate']:,}" for r in ordered])
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_xlabel("messages per second")


def cost_curves(timed: Sequence[TimedResult]) -> str:
    """CPU time per message against the offered rate."""
    ordered = sorted(timed, key=lambda result: result.settings["rate"])
    curves: dict[str, list[tuple[int, float]]] = {}
    for result in ordered:
        for cost in result.costs:
            if cost.cpu_us_per_message:
                curves.setdefault(cost.connector, []).append((result.settings["rate"], cost.cpu_us_per_message))
    look = styles(list(curves))
    figure, axes = plt.subplots(figsize=(WIDTH, 3.4))
    for connector, points in curves.items():
        colour, marker = look[connector]
        axes.plot(*zip(*points, strict=True), color=colour, marker=marker, markersize=4, label=connector)
    rate_axis(axes, ordered)
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(base=10, subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_ylabel("CPU, µs per message")
    legend(axes)
    return svg(figure)


def plain(value: float) -> str:
    """Three significant digits, and every digit before the decimal point."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def bars(values: Mapping[str, float | None], label: str) -> str:
    """Horizontal bars with their values, smallest first."""
    rows = sorted(((c, v) for c, v in values.items() if v is not None), key=lambda row: -row[1])
    look = styles(list(values))
    figure, axes = plt.subplots(figsize=(WIDTH, 0.6 + row_height(0.28, len(rows))))
    drawn = axes.barh([c for c, _ in rows], [v for _, v in rows], color=[look[c][0] for c, _ in rows], height=0.6)
    axes.bar_label(drawn, fmt=plain, padding=3, fontsize=8)
    axes.xaxis.set_major_locator(MaxNLocator(6))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: plain(x)))
    axes.set_xlabel(label)
    axes.grid(visible=False, axis="y")
    axes.margins(x=0.12)
    return svg(figure)


def timeline(result: TimedResult) -> str:
    """Median latency over the measured window: medians over the runs."""
    look = styles(list(result.timeline))
    figure, axes = plt.subplots(figsize=(WIDTH, 2.8))
    for connector, rows in result.timeline.items():
        seconds, p50, _ = np.array(rows).T
        axes.plot(seconds, p50, color=look[connector][0], label=connector, linewidth=1.2)
    axes.set_yscale("log")
    time_axis(axes.yaxis, log=True)
    axes.set_xlabel("seconds after the warm-up")
    axes.set_ylabel("p50 of each slice")
    legend(axes)
    return svg(figure)


def heat(maps: Sequence[HeatMap]) -> str:
    """Latency against time: one row per connector, with marks for collections and writes."""
    figure, grid = plt.subplots(
        len(maps), 1, figsize=(WIDTH, 0.7 + 0.75 * len(maps)), sharex=True, sharey=True, squeeze=False
    )
    most = max(max(map(max, one.counts)) for one in maps)
    low, high = np.log10(maps[0].edges_ns[0]), np.log10(maps[0].edges_ns[-1])
    for axes, one in zip(grid.flat, maps, strict=True):
        length = len(one.counts) * one.slice_s
        # As a picture: one element per cell would make a file of megabytes.
        axes.imshow(
            np.ma.masked_equal(np.array(one.counts).T, 0),
            origin="lower",
            aspect="auto",
            interpolation="nearest",
            extent=(0, length, low, high),
            norm=LogNorm(1, max(most, 2)),
            cmap="YlGnBu",
        )
        top, bottom = high - 0.06 * (high - low), low + 0.06 * (high - low)
        axes.plot(one.flushes_s, [bottom] * len(one.flushes_s), "|", color="#555555", markersize=4, label="write")
        axes.plot(one.collections_s, [top] * len(one.collections_s), "v", color="#b00020", markersize=4, label="GC")
        axes.set_title(one.connector, fontsize=8, loc="left", pad=2)
        axes.yaxis.set_major_locator(FixedLocator(decades(low, high)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: time_text(10**y)))
        axes.grid(visible=False)
    grid[-1, 0].set_xlabel("seconds after the warm-up")
    figure.supylabel("response latency", fontsize=9)
    handles, labels = grid[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, frameon=False, fontsize=7.5)
    return svg(figure)


def decades(low: float, high: float) -> list[float]:
    """Logarithms of at most four round durations between two logarithms."""
    found = [d + np.log10(step) for d in range(int(low), int(high) + 1) for step in (1, 3)]
    inside = [x for x in found if low <= x <= high]
    return [x for x in inside if x == int(x)] if len(inside) > 4 else inside


def ranks(result: TimedResult) -> str:
    """The interval of ranks of each connector: 95 % of the bootstrap draws."""
    ordered = sorted(result.comparison.levels, key=lambda level: -level.quantiles[0.5])
    look = styles([level.connector for level in ordered])
    figure, axes = plt.subplots(figsize=(WIDTH, 0.6 + row_height(0.28, len(ordered))))
    for y, level in enumerate(ordered):
        colour, marker = look[level.connector]
        ends = [level.rank.low, level.rank.high]
        axes.plot(ends, [y, y], color=colour, marker=marker, markersize=5, linewidth=2)
    axes.set_yticks(range(len(ordered)), [level.connector for level in ordered])
    axes.set_xticks(range(1, len(ordered) + 1, 1 + len(ordered) // 17))
    axes.set_xlim(0.5, len(ordered) + 0.5)
    axes.set_xlabel("rank by median, 1 is the fastest")
    return svg(figure)


def machine(series: np.ndarray) -> str:
    """Load, steal, disk, network and clock offset of the host over the study."""
    figure, (upper, middle, lower) = plt.subplots(3, 1, figsize=(WIDTH, 4.6), sharex=True)
    minutes = (series[:, 0] - series[0, 0]) / 60e9
    upper.plot(minutes, series[:, 3], label="busy", linewidth=1)
    upper.plot(minutes, series[:, 4], label="steal", linewidth=1)
    upper.set_ylabel("% of all cores")
    upper.set_ylim(0, 105)
    seconds = np.diff(series[:, 0]) / 1e9
    column = SERIES_COLUMNS.index
    for name, label in (("disk_written_bytes", "disk written"), ("net_sent_bytes", "network sent")):
        rate = np.maximum(np.diff(series[:, column(name)]), 0) / seconds / 1e6
        middle.plot(minutes[1:], rate, label=label, linewidth=1, linestyle="-" if name.startswith("disk") else "--")
    middle.set_ylabel("MB/s")
    middle.set_ylim(bottom=0)
    upper.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize=7.5)
    middle.legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False, fontsize=7.5)
    lower.plot(minutes, (series[:, 1] - series[0, 1]) / 1e3, color="black", linewidth=1)
    lower.set_ylabel("clock offset\nchange, µs")
    lower.set_xlabel("minutes since the start")
    return svg(figure)


def legend(axes: Axes) -> None:
    axes.figure.legend(loc="outside lower center", ncols=4, frameon=False, fontsize=7.5, handlelength=1.4)
