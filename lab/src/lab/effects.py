"""Comparisons between timed tables: one factor changed, the load raised, batches instead of a
schedule.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from lab.comparison import Interval, hodges_lehmann_two_samples, percentile_interval

RESAMPLES = 2_000
# Settings that define what is measured. The others only say how long and how often.
FACTORS = ("rate", "payload_bytes", "arrival", "batch", "fragment_bytes", "tls", "compression", "subscribe")
MOST_P99_NS = 1e6


@dataclass(frozen=True)
class Drain:
    """How long one connector takes for a batch that is due at once.

    Nanoseconds, medians over runs.
    """

    connector: str
    runs: int
    median: float
    interval: Interval  # 95 %, from a bootstrap over runs
    slowest: float  # batch of all runs
    feed: float  # from the due time to the last byte that the feed wrote: the lower bound
    run_medians: list[float]  # one per run, in order of the blocks


@dataclass(frozen=True)
class Effect:
    """Change of one connector's median latency between two tables, in nanoseconds."""

    connector: str
    before: float
    after: float
    shift: float
    interval: Interval  # 95 %, from a bootstrap over the runs of each table


@dataclass(frozen=True)
class Factor:
    """Two tables that differ in one setting."""

    setting: str
    base: str
    other: str
    values: tuple[Any, Any]
    effects: list[Effect]


@dataclass(frozen=True)
class Saturation:
    """Highest offered rate that a connector sustained, and why it did not sustain the next one."""

    connector: str
    sustained: int | None
    failed: int | None
    reason: str


def settings_key(settings: dict[str, Any], without: str = "") -> tuple:
    return tuple(settings.get(factor) for factor in FACTORS if factor != without)


def load_group(tables: Sequence[Any]) -> list[Any]:
    """The tables that differ in nothing but the rate, in order of the rate.

    The largest such group.
    """
    groups: dict[tuple, list[Any]] = {}
    for table in tables:
        if table.settings.get("batch") is None:
            groups.setdefault(settings_key(table.settings, "rate"), []).append(table)
    largest = max(groups.values(), key=len, default=[])
    return sorted(largest, key=lambda table: table.settings["rate"])


def drain(connector: str, per_run: Sequence[np.ndarray], feed: Sequence[np.ndarray], seed: int) -> Drain:
    """`per_run` and `feed` have the length of each batch of each run."""
    medians = np.array([np.median(batches) for batches in per_run])
    rng = np.random.default_rng(seed)
    drawn = medians[rng.integers(0, len(medians), size=(RESAMPLES, len(medians)))]
    return Drain(
        connector=connector,
        runs=len(medians),
        median=float(np.median(medians)),
        interval=percentile_interval(np.median(drawn, axis=1), 0.95),
        slowest=float(max(batches.max() for batches in per_run)),
        feed=float(np.median([np.median(batches) for batches in feed])),
        run_medians=[float(median) for median in medians],
    )


def factors(tables: Sequence[Any], seed: int) -> list[Factor]:
    """All pairs of tables that differ in one setting other than the rate.

    The first one is the base.
    """
    found = []
    for at, base in enumerate(tables):
        for other in tables[at + 1 :]:
            changed = [f for f in FACTORS if base.settings.get(f) != other.settings.get(f)]
            if len(changed) != 1 or changed[0] == "rate":
                continue
            setting = changed[0]
            effects = [
                effect(connector, medians, other.run_medians[connector], seed)
                for connector, medians in base.run_medians.items()
                if connector in other.run_medians
            ]
            values = (base.settings.get(setting), other.settings.get(setting))
            found.append(Factor(setting, base.name, other.name, values, effects))
    return found


def effect(connector: str, before: Sequence[float], after: Sequence[float], seed: int) -> Effect:
    """Hodges-Lehmann shift between per-run medians. The runs of two tables are not paired."""
    a, b = np.asarray(before, float), np.asarray(after, float)
    rng = np.random.default_rng(seed)
    drawn_a = a[rng.integers(0, len(a), size=(RESAMPLES, len(a)))]
    drawn_b = b[rng.integers(0, len(b), size=(RESAMPLES, len(b)))]
    shifts = np.median(drawn_b[:, :, None] - drawn_a[:, None, :], axis=(1, 2))
    return Effect(
        connector=connector,
        before=float(np.median(a)),
        after=float(np.median(b)),
        shift=hodges_lehmann_two_samples(b, a),
        interval=percentile_interval(shifts, 0.95),
    )


def is_feed_limited(table: Any) -> bool:
    """Whether the feed did not keep the schedule of a table that is not in batches."""
    if table.settings.get("batch") or table.reference is None:
        return False
    return bool(table.reference.quantiles.get(0.5, 0.0) > MOST_P99_NS)


def saturation(tables: Sequence[Any], floor_p99_ns: float) -> list[Saturation]:
    """For each connector the highest rate without loss, growing queue or a p99 above the limit.

    The limit is a millisecond, twice the noise floor or twice the p99 of the reference receiver at
    the same rate, whichever is largest. `tables` are the result of `load_group`. A higher rate
    counts only if every lower one is sustained. A rate at which the median of the reference
    receiver is above a millisecond tests no connector, because the feed does not keep its schedule.
    """
    found: dict[str, Saturation] = {}
    for table in tables:
        rate = table.settings["rate"]
        reference = table.reference.quantiles if table.reference is not None else {}
        most = max(MOST_P99_NS, 2 * floor_p99_ns, 2 * reference.get(0.99, 0.0))
        levels = {level.connector: level for level in table.comparison.levels}
        for cost in table.costs:
            before = found.get(cost.connector)
            if before is not None and before.failed is not None:
                continue
            level = levels[cost.connector]
            top = max((q for q in level.quantiles if q <= 0.99), default=None)
            reason = ""
            if is_feed_limited(table):
                reason = f"the feed is the limit: the reference receiver is at {reference[0.5] / 1e6:,.1f} ms"
            elif cost.missing:
                reason = f"{cost.missing:,} messages lost"
            elif cost.growing_runs * 2 > level.runs:
                reason = f"the queue grew in {cost.growing_runs} of {level.runs} runs"
            elif top is not None and level.quantiles[top] > most:
                reason = f"p{100 * top:g} {level.quantiles[top] / 1e6:,.1f} ms, above {most / 1e6:,.1f} ms"
            last = before.sustained if before is not None else None
            found[cost.connector] = (
                Saturation(cost.connector, last, rate, reason) if reason else Saturation(cost.connector, rate, None, "")
            )
    return list(found.values())
