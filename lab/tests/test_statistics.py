"""Statistics against the golden vectors of the specification, section 3.8, and against theory."""

import numpy as np
import pytest
from matplotlib.cbook import boxplot_stats
from scipy import stats

from lab import comparison, summary
from lab.comparison import Run

INDEX = np.arange(500)
D1 = 100 + (37 * INDEX % 101) + (INDEX % 7) ** 3
D2 = 103 + (53 * INDEX % 97) + (INDEX % 7) ** 3


def test_golden_input_has_the_specified_sums() -> None:
    assert (D1.sum(), D1.min(), D1.max()) == (106317, 100, 415)
    assert (D2.sum(), D2.min(), D2.max()) == (106718, 103, 415)


@pytest.mark.parametrize(
    ("data", "box", "fliers"),
    [(D1, (100, 152, 190, 258, 415), 0), (D2, (103, 154, 190, 257.5, 411), 2)],
)
def test_five_numbers_match_the_golden_vector(data: np.ndarray, box: tuple[float, ...], fliers: int) -> None:
    five = summary.five_numbers(data)
    assert (five.whisker_low, five.q1, five.median, five.q3, five.whisker_high) == box
    assert five.fliers == fliers


def test_five_numbers_of_a_set_with_one_flier() -> None:
    five = summary.five_numbers(np.array([*range(1, 10), 20]))
    assert (five.whisker_low, five.q1, five.median, five.q3, five.whisker_high) == (1, 3.25, 5.5, 7.75, 9)
    assert (five.fliers, five.minimum, five.maximum) == (1, 1, 20)


def test_five_numbers_are_those_of_matplotlib_on_random_sets() -> None:
    rng = np.random.default_rng(3)
    for round_ in range(100):
        n = int(rng.integers(1, 200))
        data = rng.integers(0, 30, n) if round_ % 2 else rng.lognormal(3, 1, n).round(int(rng.integers(0, 3)))
        box = boxplot_stats(data)[0]
        five = summary.five_numbers(data)
        assert (five.whisker_low, five.q1, five.median) == (box["whislo"], box["q1"], box["med"])
        assert (five.q3, five.whisker_high) == (box["q3"], box["whishi"])
        # The whiskers and quartiles by their definition, without matplotlib.
        q1, q3 = np.percentile(data, [25, 75])
        inside = data[(data >= q1 - 1.5 * (q3 - q1)) & (data <= q3 + 1.5 * (q3 - q1))]
        assert five.whisker_high == max(inside.max(initial=-1), q3)
        assert five.whisker_low == min(inside.min(initial=10**9), q1)


@pytest.mark.parametrize(
    ("data", "linear", "harrell_davis"),
    [
        (D1, (126, 190, 344.1, 407.02), (125.94602, 190.17455, 344.31464, 408.21591)),
        (D2, (128, 190, 345.1, 408.01), (127.80669, 189.73231, 345.46958, 408.22224)),
    ],
)
def test_quantiles_match_the_golden_vector(
    data: np.ndarray, linear: tuple[float, ...], harrell_davis: tuple[float, ...]
) -> None:
    quantiles = [0.1, 0.5, 0.9, 0.99]
    assert np.quantile(data, quantiles) == pytest.approx(linear, abs=1e-5)
    # 500 values are too few for p90 by the publishing rule, so scipy is called here.
    assert stats.quantile(data, quantiles, method="harrell-davis") == pytest.approx(harrell_davis, abs=1e-5)
    assert summary.run_quantiles(data, (0.1, 0.5)) == pytest.approx(
        {0.1: harrell_davis[0], 0.5: harrell_davis[1]}, abs=1e-5
    )


@pytest.mark.parametrize(
    ("data", "w", "w_p", "k2", "k2_p", "a2"),
    [
        (D1, 0.91258093, 2.183e-16, 49.146261, 2.128e-11, 14.507931),
        (D2, 0.90836950, 8.535e-17, 50.603245, 1.027e-11, 15.460582),
    ],
)
def test_normality_matches_the_golden_vector(
    data: np.ndarray, w: float, w_p: float, k2: float, k2_p: float, a2: float
) -> None:
    found = summary.normality(data)
    assert found is not None
    assert (found.shapiro_w, found.dagostino_k2, found.anderson_a2) == pytest.approx((w, k2, a2), abs=1e-5)
    assert found.shapiro_p == pytest.approx(w_p, rel=1e-3)
    assert found.dagostino_p == pytest.approx(k2_p, rel=1e-3)


def test_two_sample_statistics_match_the_golden_vector() -> None:
    found = stats.mannwhitneyu(D1, D2, method="asymptotic")
    assert (found.statistic, found.pvalue) == (124101, pytest.approx(0.84402, abs=1e-5))
    assert comparison.cliffs_delta(D1, D2) == pytest.approx(-0.007192, abs=1e-6)
    assert comparison.hodges_lehmann_two_samples(D1, D2) == -1.0


def test_shapiro_sees_at_most_5000_values_and_says_so() -> None:
    found = summary.normality(np.random.default_rng(1).normal(size=20_000))
    assert found is not None
    assert (found.n, found.shapiro_n) == (20_000, 5_000)
    assert summary.normality(np.ones(100)) is None
    assert summary.normality(np.arange(19)) is None


@pytest.mark.parametrize(
    ("quantile", "n", "expected"),
    [(0.5, 200, True), (0.5, 199, False), (0.99, 10_000, True), (0.99, 9_999, False), (0.9999, 1_000_000, True)],
)
def test_a_quantile_needs_100_values_above_it(quantile: float, n: int, expected: bool) -> None:
    assert summary.printable(quantile, n) is expected
    assert (quantile in summary.run_quantiles(np.arange(n), (quantile,))) is expected


def test_holm_adjusts_and_stays_monotone() -> None:
    assert comparison.holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert np.isnan(comparison.holm([float("nan"), 0.02])[0])
    assert comparison.holm([float("nan"), 0.02])[1] == pytest.approx(0.02)


def test_hodges_lehmann_is_the_median_of_walsh_averages() -> None:
    # Walsh averages of 1, 2, 10: 1, 1.5, 2, 5.5, 6, 10.
    assert comparison.hodges_lehmann(np.array([1.0, 2.0, 10.0])) == 3.75


def correlated_runs(
    rng: np.random.Generator, *, blocks: int, n: int, shift_ns: dict[str, float], run_sd: float, slices: int = 30
) -> list[Run]:
    """Runs with an effect per block and run, and messages that are correlated inside a run."""
    runs = []
    for block in range(blocks):
        block_effect = rng.normal(0, 2_000)
        for name, shift in shift_ns.items():
            drift = np.repeat(stats.norm.rvs(0, 1_000, size=slices, random_state=rng), n // slices)
            noise = rng.gamma(4, 2_000, size=len(drift))
            latency = 30_000 + shift + block_effect + rng.normal(0, run_sd) + drift + noise
            index = np.repeat(np.arange(slices), n // slices)
            runs.append(Run(block, name, latency, index))
    return runs


def coverage(sets: int, resamples: int, n: int) -> float:
    """Share of simulated studies whose 95 % interval contains the true difference of 3 µs."""
    hits = 0
    for seed in range(sets):
        rng = np.random.default_rng(seed)
        runs = correlated_runs(rng, blocks=10, n=n, shift_ns={"a": 0, "b": 3_000}, run_sd=1_500)
        pair = comparison.compare(runs, margin_ns=10_000, slice_ms=100, resamples=resamples, seed=seed).pairs[0]
        hits += pair.interval_95.contains(3_000)
    return hits / sets


def test_bootstrap_interval_covers_the_true_difference() -> None:
    assert 0.88 <= coverage(40, 200, 900) <= 1.0


@pytest.mark.soak
def test_bootstrap_interval_covers_the_true_difference_in_400_sets() -> None:
    assert 0.92 <= coverage(400, 1_000, 3_000) <= 0.98


def null_verdicts(studies: int, n: int) -> list[str]:
    found = []
    for seed in range(studies):
        rng = np.random.default_rng(1_000 + seed)
        runs = correlated_runs(rng, blocks=10, n=n, shift_ns={"a": 0, "a again": 0}, run_sd=1_500)
        found.append(comparison.compare(runs, margin_ns=10_000, slice_ms=100, resamples=200, seed=1).pairs[0].verdict)
    return found


def test_one_library_under_two_names_is_equivalent() -> None:
    assert null_verdicts(20, 900).count("equivalent") >= 19


@pytest.mark.soak
def test_one_library_under_two_names_is_equivalent_in_100_studies() -> None:
    assert null_verdicts(100, 3_000).count("equivalent") >= 95


def test_a_large_shift_is_different_and_ranked() -> None:
    rng = np.random.default_rng(5)
    runs = correlated_runs(rng, blocks=10, n=3_000, shift_ns={"slow": 60_000, "fast": 0, "same": 0}, run_sd=1_500)
    found = comparison.compare(runs, margin_ns=10_000, slice_ms=100, resamples=300)
    verdicts = {(p.a, p.b): p.verdict for p in found.pairs}
    assert verdicts == {("slow", "fast"): "different", ("slow", "same"): "different", ("fast", "same"): "equivalent"}
    ranks = {level.connector: (level.rank.low, level.rank.high) for level in found.levels}
    assert ranks["slow"] == (3, 3)
    assert ranks["fast"] == ranks["same"] == (1, 2)
    pair = found.pairs[0]
    assert pair.shift == pytest.approx(-60_000, abs=2_000)
    low_high = pair.shift_function[0.5][1:]
    assert low_high[0] < -60_000 < low_high[1]


def test_detectable_difference_follows_from_spread_and_blocks() -> None:
    rng = np.random.default_rng(2)
    medians = rng.normal(0, 1_000, size=(30, 2))
    expected = (stats.t.ppf(0.975, 29) + stats.t.ppf(0.8, 29)) * np.std(medians[:, 0] - medians[:, 1], ddof=1) / 30**0.5
    assert comparison.minimum_detectable(medians) == pytest.approx(expected)
    assert comparison.minimum_detectable(medians[:1]) is None


def test_a_missing_run_is_refused() -> None:
    runs = correlated_runs(np.random.default_rng(1), blocks=2, n=3_000, shift_ns={"a": 0, "b": 0}, run_sd=100)
    with pytest.raises(ValueError, match="b has no run in block 1"):
        comparison.compare(runs[:3], margin_ns=10_000, slice_ms=100)
