"""Summaries of one set of latencies: quantiles, the five-number summary and normality tests."""

from dataclasses import dataclass

import numpy as np
from matplotlib.cbook import boxplot_stats
from scipy import stats

QUANTILES = (0.5, 0.9, 0.99, 0.999, 0.9999)
# A quantile is printed only if at least this many values lie above it.
MIN_VALUES_ABOVE = 100
# Harrell-Davis weighs every value, so it is used up to this size. Above it, the estimate of
# linear interpolation differs from it by less than the resolution of the clock.
HARRELL_DAVIS_LIMIT = 1_000_000
# Royston's approximation for the Shapiro-Wilk p-value holds up to 5,000 values.
SHAPIRO_LIMIT = 5_000
SHAPIRO_SEED = 20_200_824


def printable(quantile: float, n: int) -> bool:
    """Returns whether `n` values support this quantile: n(1 - q) must be at least 100."""
    # The product is rounded: 1 - 0.9999 is slightly less than 0.0001 in binary.
    return round(n * (1 - quantile), 6) >= MIN_VALUES_ABOVE


def quantile_name(quantile: float) -> str:
    """Returns a name such as p50, p99 or p99.99."""
    return f"p{round(quantile * 100, 6):g}"


def run_quantiles(values: np.ndarray, quantiles: tuple[float, ...] = QUANTILES) -> dict[float, float]:
    """Estimates those quantiles of one run that its size supports."""
    wanted = [q for q in quantiles if printable(q, len(values))]
    if not wanted:
        return {}
    if len(values) <= HARRELL_DAVIS_LIMIT:
        found = stats.quantile(np.asarray(values, dtype=float), np.array(wanted), method="harrell-davis")
    else:
        found = np.quantile(values, wanted)
    return dict(zip(wanted, (float(x) for x in np.atleast_1d(found)), strict=True))


@dataclass(frozen=True)
class FiveNumbers:
    """The five-number summary as matplotlib draws it, and the true extremes beside it.

    The whiskers end at the last value within 1.5 IQR of the box. They restate the quartiles, so
    `minimum` and `maximum` carry the tails.
    """

    n: int
    whisker_low: float
    q1: float
    median: float
    q3: float
    whisker_high: float
    minimum: float
    maximum: float
    fliers: int


def five_numbers(values: np.ndarray) -> FiveNumbers:
    box = boxplot_stats(values)[0]
    return FiveNumbers(
        n=len(values),
        whisker_low=float(box["whislo"]),
        q1=float(box["q1"]),
        median=float(box["med"]),
        q3=float(box["q3"]),
        whisker_high=float(box["whishi"]),
        minimum=float(np.min(values)),
        maximum=float(np.max(values)),
        fliers=len(box["fliers"]),
    )


@dataclass(frozen=True)
class Normality:
    """The study's three normality tests. They describe a sample; they decide nothing here."""

    n: int
    shapiro_n: int  # size of the seeded subsample that Shapiro-Wilk saw
    shapiro_w: float
    shapiro_p: float
    dagostino_k2: float
    dagostino_p: float
    anderson_a2: float
    anderson_p: float  # interpolated in a table that ends at 0.01 and 0.15


def normality(values: np.ndarray) -> Normality | None:
    """Runs the three tests. Returns None for fewer than 20 values or values that are all equal.

    Shapiro-Wilk sees a seeded subsample of 5,000 values if there are more.
    """
    values = np.asarray(values, dtype=float)
    if len(values) < 20 or np.ptp(values) == 0:
        return None
    sample = values
    if len(values) > SHAPIRO_LIMIT:
        sample = np.random.default_rng(SHAPIRO_SEED).choice(values, SHAPIRO_LIMIT, replace=False)
    shapiro = stats.shapiro(sample)
    dagostino = stats.normaltest(values)
    anderson = stats.anderson(values, "norm", method="interpolate")
    return Normality(
        n=len(values),
        shapiro_n=len(sample),
        shapiro_w=float(shapiro.statistic),
        shapiro_p=float(shapiro.pvalue),
        dagostino_k2=float(dagostino.statistic),
        dagostino_p=float(dagostino.pvalue),
        anderson_a2=float(anderson.statistic),
        anderson_p=float(anderson.pvalue),
    )
