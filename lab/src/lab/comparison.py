"""Comparison of connectors over repeated runs. The unit of replication is the run.

Messages inside a run are correlated, so intervals come from a two-stage bootstrap: it draws
blocks of the study first, then slices of time inside each run. All connectors share the drawn
blocks, so differences stay paired by block.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from scipy import stats

from lab import summary

DECILES = tuple(round(0.1 * i, 1) for i in range(1, 10))
RESAMPLES = 2_000
# Ratio of neighbouring bin edges. Interpolation inside a bin leaves an error below 0.1 %.
BIN_RATIO = 1.002
MAX_BINS = 8_000
NEGLIGIBLE_NS = 1e-3


@dataclass(frozen=True)
class Run:
    """The response latencies of one timed run, in nanoseconds, in order of the due time."""

    block: int
    connector: str
    latency_ns: np.ndarray
    slice_index: np.ndarray  # slice of time that each message was due in, from 0


@dataclass(frozen=True)
class Interval:
    low: float
    high: float

    def contains(self, value: float) -> bool:
        return self.low <= value <= self.high


@dataclass(frozen=True)
class Level:
    """Median over runs of the per-run quantiles of one connector."""

    connector: str
    runs: int
    values: int
    quantiles: dict[float, float]
    intervals: dict[float, Interval]  # 95 %
    maximum: float  # true maximum of all runs
    rank: Interval  # 95 % of bootstrap draws place the median in these ranks; 1 is the fastest


@dataclass(frozen=True)
class Pair:
    """Difference of two connectors, `b` minus `a`: positive if `a` is faster."""

    a: str
    b: str
    shift: float  # Hodges-Lehmann estimate of the difference of the medians
    interval_90: Interval
    interval_95: Interval
    p_difference: float  # paired t test over blocks, Holm-adjusted over the pairs
    p_equivalence: float  # two one-sided tests against the margin, Holm-adjusted over the pairs
    verdict: str  # "equivalent", "different" or "unresolved"
    cliffs_delta: float  # positive if `b` is slower
    cliffs_interval: Interval
    a_faster: float  # probability that a message of `a` is faster than one of `b`
    mann_whitney_p: float  # over per-run medians
    brunner_munzel_p: float
    wasserstein: float  # distance of the two distributions of all messages
    # quantile -> estimate and simultaneous 95 % band
    shift_function: dict[float, tuple[float, float, float]]


@dataclass(frozen=True)
class Comparison:
    levels: list[Level]
    pairs: list[Pair]
    margin: float
    minimum_detectable: float | None  # None with fewer than two blocks or one connector
    resamples: int
    slice_ms: float


def hodges_lehmann(differences: np.ndarray) -> np.ndarray:
    """Median of the Walsh averages along the last axis."""
    i, j = np.triu_indices(differences.shape[-1])
    return np.median((differences[..., i] + differences[..., j]) / 2, axis=-1)


def hodges_lehmann_two_samples(a: np.ndarray, b: np.ndarray) -> float:
    """Median of all differences `a[i] - b[j]`."""
    return float(np.median(np.subtract.outer(np.asarray(a, float), np.asarray(b, float))))


def cliffs_delta(a: np.ndarray, b: np.ndarray) -> float:
    """P(a > b) - P(a < b)."""
    ordered = np.sort(b)
    smaller = np.searchsorted(ordered, a, side="left").sum(dtype=float)
    not_larger = np.searchsorted(ordered, a, side="right").sum(dtype=float)
    return float((smaller - (len(a) * len(b) - not_larger)) / (len(a) * len(b)))


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment. NaN stays NaN and does not count as a test."""
    p = np.asarray(p_values, dtype=float)
    adjusted = np.full(len(p), np.nan)
    order = [i for i in np.argsort(p) if not np.isnan(p[i])]
    largest = 0.0
    for step, i in enumerate(order):
        largest = max(largest, min(1.0, (len(order) - step) * p[i]))
        adjusted[i] = largest
    return [float(x) for x in adjusted]


def all_equal(differences: np.ndarray) -> bool:
    """A t test of differences without spread divides by zero."""
    return bool(np.ptp(differences) < NEGLIGIBLE_NS)


def paired_p(differences: np.ndarray) -> float:
    """Two-sided p-value of a paired t test, or NaN with fewer than two blocks."""
    if len(differences) < 2:
        return float("nan")
    if all_equal(differences):
        return 1.0 if abs(differences[0]) < NEGLIGIBLE_NS else 0.0
    return float(stats.ttest_1samp(differences, 0.0).pvalue)


def equivalence_p(differences: np.ndarray, margin: float) -> float:
    """p-value of two one-sided tests: small if the mean difference lies inside +-`margin`."""
    if len(differences) < 2:
        return float("nan")
    if all_equal(differences):
        return 0.0 if abs(differences[0]) < margin else 1.0
    above = stats.ttest_1samp(differences, -margin, alternative="greater").pvalue
    below = stats.ttest_1samp(differences, margin, alternative="less").pvalue
    return float(max(above, below))


def minimum_detectable(medians: np.ndarray, power: float = 0.8, alpha: float = 0.05) -> float | None:
    """Smallest difference of two connectors that a paired t test finds with this power.

    `medians` has one row per block and one column per connector. The residual after the effects
    of block and connector estimates the spread.
    """
    blocks, connectors = medians.shape
    if blocks < 2 or connectors < 2:
        return None
    residual = medians - medians.mean(axis=0) - medians.mean(axis=1, keepdims=True) + medians.mean()
    degrees = (blocks - 1) * (connectors - 1)
    spread = np.sqrt(2 * (residual**2).sum() / degrees)  # of a difference of two connectors
    factor = stats.t.ppf(1 - alpha / 2, blocks - 1) + stats.t.ppf(power, blocks - 1)
    return float(factor * spread / np.sqrt(blocks))


def slice_length_ms(duration_s: float) -> float:
    """Length of a slice: 1 s, or less so that a run has at least 30 slices, but at least 20 ms."""
    return float(min(1000.0, max(20.0, duration_s * 1000 / 30)))


class SlicedHistogram:
    """Counts of one run: one row per slice of time, one column per bin."""

    def __init__(self, run: Run, edges: np.ndarray) -> None:
        _, rows = np.unique(run.slice_index, return_inverse=True)
        bins = np.clip(np.searchsorted(edges, run.latency_ns, side="right") - 1, 0, len(edges) - 2)
        self.edges = edges
        self.counts = np.zeros((rows.max() + 1, len(edges) - 1))
        np.add.at(self.counts, (rows, bins), 1)

    def resample(self, times: int, quantiles: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Quantiles of `times` runs that are made of drawn slices: one row per run."""
        slices = len(self.counts)
        # As floats, so that the product below uses BLAS.
        drawn = rng.multinomial(slices, np.full(slices, 1 / slices), size=times).astype(float)
        result = np.empty((times, len(quantiles)))
        step = max(1, 4_000_000 // self.counts.shape[1])
        for start in range(0, times, step):
            part = drawn[start : start + step] @ self.counts
            result[start : start + step] = self._quantiles(part, quantiles)
        return result

    def _quantiles(self, counts: np.ndarray, quantiles: np.ndarray) -> np.ndarray:
        """Quantiles of each row, by linear interpolation inside the bin."""
        share = np.cumsum(counts, axis=1)
        share /= share[:, -1:]
        # Row i is shifted by 2 i, so one search over the flat array serves every row.
        rows = np.arange(len(counts))[:, None]
        flat = (share + 2 * rows).ravel()
        found = np.searchsorted(flat, (quantiles + 2 * rows).ravel()).reshape(len(counts), -1)
        bins = np.minimum(found - rows * counts.shape[1], counts.shape[1] - 1)
        upper = np.take_along_axis(share, bins, axis=1)
        lower = np.where(bins > 0, np.take_along_axis(share, np.maximum(bins - 1, 0), axis=1), 0.0)
        inside = np.clip((quantiles - lower) / np.maximum(upper - lower, 1e-12), 0, 1)
        return self.edges[bins] + inside * (self.edges[bins + 1] - self.edges[bins])


def bin_edges(runs: Sequence[Run]) -> np.ndarray:
    low = max(1.0, float(min(run.latency_ns.min() for run in runs)))
    high = max(low * 1.1, float(max(run.latency_ns.max() for run in runs)))
    bins = min(MAX_BINS, int(np.ceil(np.log(high / low) / np.log(BIN_RATIO))) + 1)
    return np.geomspace(low, high * (1 + 1e-9), bins + 1)


@dataclass(frozen=True)
class Draws:
    """Bootstrap draws: connector -> array of (draw, drawn block, quantile)."""

    quantiles: tuple[float, ...]
    values: dict[str, np.ndarray]

    def column(self, connector: str, quantile: float) -> np.ndarray:
        return self.values[connector][:, :, self.quantiles.index(quantile)]


def bootstrap(
    runs: Mapping[str, Mapping[int, Run]], quantiles: tuple[float, ...], *, resamples: int, seed: int
) -> Draws:
    """Draws blocks, then slices of time inside each run of a drawn block."""
    rng = np.random.default_rng(seed)
    blocks = sorted(next(iter(runs.values())))
    edges = bin_edges([run for per_block in runs.values() for run in per_block.values()])
    chosen = rng.integers(0, len(blocks), size=(resamples, len(blocks)))
    wanted = np.array(quantiles)
    values = {}
    for connector, per_block in runs.items():
        drawn = np.empty((*chosen.shape, len(quantiles)))
        for index, block in enumerate(blocks):
            places = chosen == index
            drawn[places] = SlicedHistogram(per_block[block], edges).resample(int(places.sum()), wanted, rng)
        values[connector] = drawn
    return Draws(quantiles, values)


def percentile_interval(draws: np.ndarray, confidence: float) -> Interval:
    tail = (1 - confidence) / 2
    low, high = np.quantile(draws, [tail, 1 - tail])
    return Interval(float(low), float(high))


def compare(
    runs: Sequence[Run], *, margin_ns: float, slice_ms: float, resamples: int = RESAMPLES, seed: int = 1
) -> Comparison:
    """Compares connectors that ran once in each block.

    # Raises
    ValueError if a connector misses a block, or if a run is empty.
    """
    table: dict[str, dict[int, Run]] = {}
    for run in runs:
        if len(run.latency_ns) == 0:
            raise ValueError(f"run of {run.connector} in block {run.block} is empty")
        table.setdefault(run.connector, {})[run.block] = run
    if not table:
        raise ValueError("there is no run to compare")
    blocks = sorted({run.block for run in runs})
    for connector, per_block in table.items():
        missing = sorted(set(blocks) - set(per_block))
        if missing:
            raise ValueError(f"{connector} has no run in block {missing[0]}; drop that block first")

    smallest = min(len(run.latency_ns) for run in runs)
    levels_q = tuple(q for q in summary.QUANTILES if summary.printable(q, smallest)) or (0.5,)
    shift_q = tuple(sorted(set(DECILES) | {q for q in (0.99, 0.999) if summary.printable(q, smallest)}))
    all_q = tuple(sorted(set(levels_q) | set(shift_q)))
    draws = bootstrap(table, all_q, resamples=resamples, seed=seed)

    per_run = {
        c: np.array([_quantiles(per_block[block].latency_ns, all_q) for block in blocks])
        for c, per_block in table.items()
    }
    levels = _levels(table, per_run, draws, levels_q)
    pairs = _pairs(table, blocks, per_run, draws, shift_q, margin_ns)
    middle = all_q.index(0.5)
    medians = np.column_stack([per_run[c][:, middle] for c in table])
    return Comparison(levels, pairs, margin_ns, minimum_detectable(medians), resamples, slice_ms)


def _quantiles(values: np.ndarray, quantiles: tuple[float, ...]) -> list[float]:
    exact = summary.run_quantiles(values, quantiles)
    return [exact[q] if q in exact else float(np.quantile(values, q)) for q in quantiles]


def _levels(
    table: Mapping[str, Mapping[int, Run]], per_run: Mapping[str, np.ndarray], draws: Draws, quantiles: Sequence[float]
) -> list[Level]:
    connectors = list(table)
    medians = np.column_stack([np.median(draws.column(c, 0.5), axis=1) for c in connectors])
    ranks = 1 + (medians[:, None, :] < medians[:, :, None]).sum(axis=-1)
    levels = []
    for i, connector in enumerate(connectors):
        own = list(table[connector].values())
        columns = {q: draws.quantiles.index(q) for q in quantiles}
        rank = np.quantile(ranks[:, i], [0.025, 0.975], method="nearest")
        levels.append(
            Level(
                connector=connector,
                runs=len(own),
                values=sum(len(run.latency_ns) for run in own),
                quantiles={q: float(np.median(per_run[connector][:, k])) for q, k in columns.items()},
                intervals={
                    q: percentile_interval(np.median(draws.column(connector, q), axis=1), 0.95) for q in quantiles
                },
                maximum=float(max(run.latency_ns.max() for run in own)),
                rank=Interval(float(rank[0]), float(rank[1])),
            )
        )
    return levels


def _pairs(
    table: Mapping[str, Mapping[int, Run]],
    blocks: Sequence[int],
    per_run: Mapping[str, np.ndarray],
    draws: Draws,
    shift_q: Sequence[float],
    margin: float,
) -> list[Pair]:
    names = list(combinations(table, 2))
    middle = draws.quantiles.index(0.5)
    differences = [per_run[b][:, middle] - per_run[a][:, middle] for a, b in names]
    p_difference = holm([paired_p(d) for d in differences])
    p_equivalence = holm([equivalence_p(d, margin) for d in differences])
    rng = np.random.default_rng(7)
    chosen = rng.integers(0, len(blocks), size=(2000, len(blocks)))
    pairs = []
    for (a, b), difference, p_diff, p_equal in zip(names, differences, p_difference, p_equivalence, strict=True):
        shifts = hodges_lehmann(draws.column(b, 0.5) - draws.column(a, 0.5))
        interval_90, interval_95 = percentile_interval(shifts, 0.90), percentile_interval(shifts, 0.95)
        deltas = np.array([cliffs_delta(table[b][k].latency_ns, table[a][k].latency_ns) for k in blocks])
        medians_a, medians_b = per_run[a][:, middle], per_run[b][:, middle]
        pairs.append(
            Pair(
                a=a,
                b=b,
                shift=float(hodges_lehmann(difference)),
                interval_90=interval_90,
                interval_95=interval_95,
                p_difference=p_diff,
                p_equivalence=p_equal,
                verdict=verdict(interval_90, interval_95, p_diff, p_equal, margin),
                cliffs_delta=float(deltas.mean()),
                cliffs_interval=percentile_interval(deltas[chosen].mean(axis=1), 0.95),
                a_faster=float((deltas.mean() + 1) / 2),
                mann_whitney_p=float(stats.mannwhitneyu(medians_a, medians_b).pvalue),
                brunner_munzel_p=_brunner_munzel(medians_a, medians_b),
                wasserstein=float(
                    stats.wasserstein_distance(
                        np.concatenate([table[a][k].latency_ns for k in blocks]),
                        np.concatenate([table[b][k].latency_ns for k in blocks]),
                    )
                ),
                shift_function=_shift_function(per_run[a], per_run[b], draws, a, b, shift_q),
            )
        )
    return pairs


def verdict(interval_90: Interval, interval_95: Interval, p_difference: float, p_equal: float, margin: float) -> str:
    """Equivalent needs both the bootstrap interval and the t tests; so does different."""
    if -margin < interval_90.low and interval_90.high < margin and p_equal < 0.05:
        return "equivalent"
    if not interval_95.contains(0.0) and p_difference < 0.05:
        return "different"
    return "unresolved"


def _brunner_munzel(a: np.ndarray, b: np.ndarray) -> float:
    """p-value, or NaN for fewer than two runs. Separated samples have no variance: p is 0."""
    if len(a) < 2 or len(b) < 2:
        return float("nan")
    if a.max() < b.min() or b.max() < a.min():
        return 0.0
    return float(stats.brunnermunzel(a, b).pvalue)


def _shift_function(
    per_run_a: np.ndarray, per_run_b: np.ndarray, draws: Draws, a: str, b: str, quantiles: Sequence[float]
) -> dict[float, tuple[float, float, float]]:
    """Difference at each quantile, with a band that covers all of them at once with 95 %."""
    columns = [draws.quantiles.index(q) for q in quantiles]
    estimate = np.array([hodges_lehmann(per_run_b[:, k] - per_run_a[:, k]) for k in columns])
    drawn = np.column_stack([hodges_lehmann(draws.column(b, q) - draws.column(a, q)) for q in quantiles])
    blocks = per_run_a.shape[0]
    # The bootstrap over n blocks underestimates the variance by the factor (n - 1) / n.
    error = drawn.std(axis=0) * (np.sqrt(blocks / (blocks - 1)) if blocks > 1 else 1.0)
    error = np.maximum(error, 1e-9)
    largest = (np.abs(drawn - estimate) / error).max(axis=1)
    factor = np.quantile(largest, 0.95)
    return {
        q: (float(e), float(e - factor * s), float(e + factor * s))
        for q, e, s in zip(quantiles, estimate, error, strict=True)
    }
