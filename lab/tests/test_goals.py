"""Goals of one connector: equivalent or lower median, CPU time near the lowest, throughput near the
highest.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from lab import goals
from lab.comparison import Interval
from lab.effects import Saturation
from lab.goals import Goal

NOISE = np.array([-400.0, 300.0, -100.0, 250.0, -50.0])
MARGIN = 10_000.0


def table(
    medians: dict[str, float], cpu: dict[str, float] | None = None, batch_ns: dict[str, float] | None = None
) -> SimpleNamespace:
    """A table of five blocks. Connectors have different noise, so differences have a spread."""
    runs = {name: list(value + np.roll(NOISE, i)) for i, (name, value) in enumerate(medians.items())}
    names = list(medians)
    pairs = []
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            shift = float(np.median(np.subtract(runs[b], runs[a])))
            pairs.append(SimpleNamespace(a=a, b=b, shift=shift, interval_90=Interval(shift - 500.0, shift + 500.0)))
    spread = 1 + np.array([-0.02, 0.01, 0.0, 0.02, -0.01])
    drains = [
        SimpleNamespace(connector=name, run_medians=list(value * np.roll(spread, i)))
        for i, (name, value) in enumerate((batch_ns or {}).items())
    ]
    return SimpleNamespace(
        name="t",
        settings={"rate": 5_000},
        blocks=[0, 1, 2, 3, 4],
        comparison=SimpleNamespace(levels=[SimpleNamespace(connector=n) for n in names], pairs=pairs, margin=MARGIN),
        run_medians=runs,
        run_cpu_us={name: list(value * np.roll(spread, i)) for i, (name, value) in enumerate((cpu or {}).items())}
        if cpu
        else {name: [None] * 5 for name in names},
        drains=drains,
    )


def found(kind: str, **values: dict[str, float]) -> Goal:
    rows = goals.find("ours", {"ours-spin": "ours"}, [table(**values)], [])
    return next(goal for goal in rows if goal.kind == kind)


@pytest.mark.parametrize(
    ("ours", "verdict"),
    [(20_000, "met"), (34_000, "met"), (38_000, "met"), (40_200, "unresolved"), (45_000, "missed")],
)
@pytest.mark.parametrize("order", [1, -1])
def test_a_median_within_the_margin_of_the_lowest_meets_the_goal(ours: float, verdict: str, order: int) -> None:
    """The lowest of the others is 30 µs, and the margin 10 µs."""
    medians = dict(list({"fast": 30_000, "slow": 90_000, "ours": ours}.items())[::order])
    goal = found("latency", medians=medians)
    assert (goal.verdict, goal.other) == (verdict, "fast")
    assert goal.value == pytest.approx(ours - 30_000, abs=700)
    assert goal.interval.low < goal.value < goal.interval.high


@pytest.mark.parametrize(("ours", "verdict"), [(9, "met"), (11, "met"), (12.2, "unresolved"), (14, "missed")])
def test_cpu_time_is_compared_with_the_lowest(ours: float, verdict: str) -> None:
    medians = {"fast": 1e4, "slow": 1e4, "ours": 1e4}
    goal = found("cpu", medians=medians, cpu={"fast": 10, "slow": 100, "ours": ours})
    assert (goal.verdict, goal.other) == (verdict, "fast")
    assert goal.value == pytest.approx(ours / 10, rel=0.01)


@pytest.mark.parametrize(("ours", "verdict"), [(9, "met"), (10.5, "met"), (11.1, "unresolved"), (13, "missed")])
def test_throughput_is_compared_with_the_highest(ours: float, verdict: str) -> None:
    """The others take 10 ms for a batch, and ours takes `ours` ms."""
    medians = {"fast": 1e4, "ours": 1e4}
    goal = found("throughput", medians=medians, batch_ns={"fast": 1e7, "ours": ours * 1e6})
    assert (goal.verdict, goal.other) == (verdict, "fast")
    assert goal.value == pytest.approx(10 / ours, rel=0.01)


def test_a_variant_of_the_subject_is_no_competitor() -> None:
    goal = found("latency", medians={"ours-spin": 10_000, "fast": 30_000, "ours": 30_000})
    assert (goal.other, goal.verdict) == ("fast", "met")


def test_a_goal_says_whether_the_subject_sustained_the_rate() -> None:
    rows = [table(medians={"fast": 30_000, "ours": 30_000})]
    failed = Saturation("ours", 1_000, 5_000, "the queue grew")
    assert [goal.sustained for goal in goals.find("ours", {}, rows, [failed])] == [False]
    assert [goal.sustained for goal in goals.find("ours", {}, rows, [Saturation("ours", 5_000, None, "")])] == [True]


def test_nothing_is_found_without_a_subject_or_with_one_block() -> None:
    one = table(medians={"fast": 30_000, "ours": 30_000})
    assert goals.find(None, {}, [one], []) == []
    assert goals.find("absent", {}, [one], []) == []
    one.blocks = [0]
    assert goals.find("ours", {}, [one], []) == []


def test_batches_are_not_judged_by_the_constant_rates() -> None:
    """Their rate is an average, so a rate that was not sustained says nothing about them."""
    rows = [table({"fast": 1e4, "ours": 1e4}, batch_ns={"fast": 1e7, "ours": 1e7})]
    assert [goal.sustained for goal in goals.find("ours", {}, rows, [Saturation("ours", None, 5_000, "late")])] == [
        True
    ]
