"""Whether one connector, the subject, is as good as the best of the others.

Three goals: a median latency that is equivalent to or lower than that of every other connector, CPU
time per message near the lowest, and throughput near the highest. The unit is the run, and runs are
paired by block.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from scipy import stats

from lab import comparison
from lab.comparison import Interval, Pair
from lab.effects import Saturation

if TYPE_CHECKING:
    from lab.analysis import TimedResult

MOST_CPU_RATIO = 1.2
LEAST_THROUGHPUT_SHARE = 0.9
ALPHA = 0.05

Verdict = Literal["met", "missed", "unresolved"]


@dataclass(frozen=True)
class Goal:
    """One goal in one table, with the connector that is hardest to match."""

    kind: Literal["latency", "cpu", "throughput"]
    table: str
    other: str
    value: float  # latency: difference of the medians in ns; otherwise ratio of subject to `other`
    interval: Interval  # latency: 90 %, as two one-sided tests need; otherwise 95 %
    limit: float  # latency: highest difference in ns; cpu: highest ratio; throughput: lowest ratio
    p: float  # latency: the largest p-value of the one-sided tests; otherwise NaN
    verdict: Verdict
    sustained: bool  # whether the subject sustained the rate of the table


def find(
    subject: str | None, variants: Mapping[str, str], tables: Sequence["TimedResult"], saturation: Sequence[Saturation]
) -> list[Goal]:
    """The goals of all tables with two blocks or more. `variants` maps a variant to its connector.

    Variants of the subject are not compared with it.
    """
    own = next((row for row in saturation if row.connector == subject), None)
    found = []
    for table in tables:
        names = [level.connector for level in table.comparison.levels]
        others = [name for name in names if name != subject and variants.get(name) != subject]
        if subject not in names or not others or len(table.blocks) < 2:
            continue
        failed = own.failed if own is not None else None
        # The rate of batches is an average, which no table of constant rates tests.
        sustained = failed is None or bool(table.drains) or table.settings["rate"] < failed
        if table.drains:
            found.append(throughput_goal(subject, others, table, sustained))
        else:
            found.append(latency_goal(subject, others, table, sustained))
        goal = cpu_goal(subject, others, table, sustained)
        found += [goal] if goal is not None else []
    return found


def latency_goal(subject: str, others: Sequence[str], table: "TimedResult", sustained: bool) -> Goal:
    """The subject's median is not above that of any other connector by the margin or more.

    Every single test has to hold, so their p-values need no adjustment.
    """
    margin = table.comparison.margin
    rows = []
    for other in others:
        pair = next(p for p in table.comparison.pairs if {p.a, p.b} == {subject, other})
        difference = np.subtract(table.run_medians[subject], table.run_medians[other])
        shift, interval = seen_from(subject, pair)
        rows.append((other, shift, interval, below_p(difference, margin), below_p(-difference, -margin)))
    other, shift, interval, *_ = max(rows, key=lambda row: row[2].high)
    largest = max(row[3] for row in rows)
    if all(row[2].high < margin for row in rows) and largest < ALPHA:
        verdict: Verdict = "met"
    elif any(row[2].low > margin and row[4] < ALPHA / len(rows) for row in rows):
        verdict = "missed"
    else:
        verdict = "unresolved"
    return Goal("latency", table.name, other, shift, interval, margin, largest, verdict, sustained)


def seen_from(subject: str, pair: Pair) -> tuple[float, Interval]:
    """The subject's median minus that of the other, with its 90 % interval."""
    if pair.b == subject:
        return pair.shift, pair.interval_90
    return -pair.shift, Interval(-pair.interval_90.high, -pair.interval_90.low)


def below_p(differences: np.ndarray, limit: float) -> float:
    """p-value of a one-sided paired t test: small if the mean difference is below `limit`."""
    if comparison.all_equal(differences):
        return 0.0 if differences[0] < limit else 1.0
    return float(stats.ttest_1samp(differences, limit, alternative="less").pvalue)


def cpu_goal(subject: str, others: Sequence[str], table: "TimedResult", sustained: bool) -> Goal | None:
    """CPU time per message against the lowest of the others, or None if it was not recorded."""
    values = {name: table.run_cpu_us[name] for name in (subject, *others)}
    if not all(values[subject]):
        return None
    complete = {name: row for name, row in values.items() if name != subject and all(row)}
    if not complete:
        return None
    lowest = min(complete, key=lambda name: float(np.median(complete[name])))
    ratio, interval = ratio_of(values[subject], complete[lowest])
    limit = MOST_CPU_RATIO
    verdict: Verdict = "met" if interval.high <= limit else "missed" if interval.low > limit else "unresolved"
    return Goal("cpu", table.name, lowest, ratio, interval, limit, float("nan"), verdict, sustained)


def throughput_goal(subject: str, others: Sequence[str], table: "TimedResult", sustained: bool) -> Goal:
    """Messages a second while a batch is received, against the fastest of the others."""
    times = {drain.connector: drain.run_medians for drain in table.drains}
    best = min(others, key=lambda name: float(np.median(times[name])))
    ratio, interval = ratio_of(times[best], times[subject])
    limit = LEAST_THROUGHPUT_SHARE
    verdict: Verdict = "met" if interval.low >= limit else "missed" if interval.high < limit else "unresolved"
    return Goal("throughput", table.name, best, ratio, interval, limit, float("nan"), verdict, sustained)


def ratio_of(above: Sequence[float | None], below: Sequence[float | None]) -> tuple[float, Interval]:
    """Geometric mean of the ratios per block, with the 95 % interval of a t test of their
    logarithms.
    """
    logarithms = np.log(np.asarray(above, float)) - np.log(np.asarray(below, float))
    mean, error = logarithms.mean(), stats.sem(logarithms)
    reach = float(stats.t.ppf(0.975, len(logarithms) - 1) * error)
    return float(np.exp(mean)), Interval(float(np.exp(mean - reach)), float(np.exp(mean + reach)))
