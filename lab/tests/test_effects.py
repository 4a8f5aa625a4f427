"""Comparisons between timed tables: groups of rates, single factors, batches, saturation."""

import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from conftest import RunStudy

from lab import analysis, costs, effects, page, report, tables
from lab.comparison import Run

USUAL = {
    "payload_bytes": 224,
    "arrival": "constant",
    "batch": None,
    "fragment_bytes": None,
    "tls": False,
    "subscribe": "",
}


def table(name: str, rate: int, medians: dict[str, list[float]] | None = None, **settings: object) -> SimpleNamespace:
    return SimpleNamespace(name=name, settings=USUAL | {"rate": rate} | settings, run_medians=medians or {})


def test_the_load_group_holds_the_tables_that_differ_in_the_rate_only() -> None:
    found = effects.load_group(
        [table("high", 9), table("low", 1), table("tls", 5, tls=True), table("b", 5, arrival="batches", batch=10)]
    )
    assert [t.name for t in found] == ["low", "high"]


def test_a_factor_is_a_pair_of_tables_that_differ_in_one_setting() -> None:
    runs = [30_000.0, 31_000.0, 32_000.0, 33_000.0]
    slower = [x + 12_000 for x in runs]
    found = effects.factors(
        [
            table("base", 5, {"a": runs, "b": runs}),
            table("tls", 5, {"a": slower, "b": runs}, tls=True),
            table("both", 5, {"a": slower}, tls=True, payload_bytes=1_000),
            table("rate", 6, {"a": slower}),
        ],
        seed=1,
    )
    assert [(f.setting, f.base, f.other, f.values) for f in found] == [
        ("tls", "base", "tls", (False, True)),
        ("payload_bytes", "tls", "both", (224, 1_000)),
    ]
    shifts = {e.connector: e for e in found[0].effects}
    assert shifts["a"].shift == 12_000
    assert 9_000 <= shifts["a"].interval.low <= 12_000 <= shifts["a"].interval.high <= 15_000
    assert shifts["b"].shift == 0


def test_a_batch_takes_as_long_as_its_last_message() -> None:
    due = np.array([0, 0, 0, 100, 100, 200])
    late = np.array([5, 9, 7, 3, 4, 8])
    assert analysis.batch_lengths(due, late).tolist() == [9, 4, 8]


def test_drains_are_medians_over_runs() -> None:
    found = effects.drain("a", [np.array([1, 2, 9]), np.array([4, 4, 4])], [np.array([1]), np.array([3])], seed=1)
    assert (found.runs, found.median, found.slowest, found.feed) == (2, 3.0, 9.0, 2.0)
    assert found.interval.low == 2.0
    assert found.interval.high == 4.0


def loaded(
    rate: int, p99_ms: float, missing: int = 0, growing: int = 0, reference_p99_ms: float | None = None
) -> SimpleNamespace:
    level = SimpleNamespace(connector="a", runs=4, quantiles={0.5: 1e5, 0.99: p99_ms * 1e6, 0.999: 1e12})
    cost = SimpleNamespace(connector="a", missing=missing, growing_runs=growing)
    reference = None if reference_p99_ms is None else SimpleNamespace(quantiles={0.99: reference_p99_ms * 1e6})
    return SimpleNamespace(
        settings={"rate": rate}, comparison=SimpleNamespace(levels=[level]), costs=[cost], reference=reference
    )


@pytest.mark.parametrize(
    ("high", "reason"),
    [
        (loaded(100, 1.5), "p99 1.5 ms, above 1.0 ms"),
        (loaded(100, 0.5, missing=7), "7 messages lost"),
        (loaded(100, 0.5, growing=3), "the queue grew in 3 of 4 runs"),
    ],
)
def test_saturation_is_the_last_rate_before_the_first_failure(high: SimpleNamespace, reason: str) -> None:
    found = effects.saturation([loaded(10, 0.5, growing=2), high, loaded(1_000, 0.1)], floor_p99_ns=1e5)
    assert found == [effects.Saturation("a", 10, 100, reason)]
    assert effects.saturation([loaded(10, 1.5)], floor_p99_ns=1e6) == [effects.Saturation("a", 10, None, "")]


def test_a_rate_is_sustained_if_the_reference_receiver_is_as_late() -> None:
    noisy = [loaded(10, 3.9, reference_p99_ms=2), loaded(100, 4.1, reference_p99_ms=2)]
    assert effects.saturation(noisy, floor_p99_ns=0) == [
        effects.Saturation("a", 10, 100, "p99 4.1 ms, above 4.0 ms"),
    ]


def test_a_rate_that_the_feed_does_not_keep_is_not_sustained() -> None:
    """Its reference receiver is as late as the connectors, so twice its p99 allows anything."""
    rates = [loaded(10, 0.5, reference_p99_ms=0.4), loaded(100, 300, reference_p99_ms=200)]
    rates[1].reference.quantiles[0.5] = 65e6
    reason = "the feed is the limit: the reference receiver is at 65.0 ms"
    assert effects.saturation(rates, floor_p99_ns=0) == [effects.Saturation("a", 10, 100, reason)]


def test_a_growing_queue_is_one_that_doubles_above_a_millisecond() -> None:
    index = np.repeat(np.arange(30), 10)
    assert costs.grows(Run(0, "a", np.linspace(1e5, 5e6, 300), index))
    assert not costs.grows(Run(0, "a", np.linspace(1e4, 5e5, 300), index))
    assert not costs.grows(Run(0, "a", np.linspace(4e6, 5e6, 300), index))


@pytest.mark.usefixtures("test_feed")
def test_batches_a_factor_and_a_subject_appear_in_report_and_page(run_study: RunStudy, tmp_path: Path) -> None:
    timed = {"rate": 200, "blocks": 2, "warm_up_s": 0.1, "measured_s": 0.5, "spin_us": 0}
    study = {
        "timed": [
            {"name": "base", **timed},
            {"name": "spoken", "subscribe": '{"method":"SUBSCRIBE"}', **timed},
            {"name": "burst", "arrival": "batches", "batch": 20, **timed},
        ],
        "limits": {"noisy_runs": "flag"},
        "analysis": {"resamples": 100, "subject": "a"},
    }
    results = run_study(study, {"a": "", "b": ""})
    found = analysis.analyse(results)
    log = (results.runs / "timed-spoken-b000-00-a" / "feed.log", results.runs / "timed-spoken-b000-00-b" / "feed.log")
    assert any(path.exists() and "subscribed: " in path.read_text() for path in log)
    assert [f.setting for f in found.factors] == ["subscribe"]
    burst = next(t for t in found.timed if t.name == "burst")
    assert {d.connector for d in burst.drains} == {"a", "b"}
    assert all(0 < d.feed <= d.median <= d.slowest for d in burst.drains)
    assert tables.drain_table(burst)[0].rows
    assert tables.load_tables(found)[0].id == "factor-base-spoken"
    assert {(goal.kind, goal.table) for goal in found.goals if goal.kind != "cpu"} == {
        ("latency", "base"),
        ("latency", "spoken"),
        ("throughput", "burst"),
    }
    assert 'id="goals"' in report.write(found, results, "make it").read_text()
    path = page.write([page.Source(found, results.path, "make it")], tmp_path / "docs", "collected", "A collection")
    text = path.read_text()
    assert "0 of 1,440 messages were lost" in text
    flags = next(line for line in text.splitlines() if line.startswith("| burst | "))
    late = sum(any(x.startswith("the feed was") for x in r.reasons) for r in found.records if "burst" in r.id)
    assert flags.split(" | ")[1] == str(sum("burst" in r.id for r in found.records))
    assert flags.split(" | ")[4] == str(late)
    assert "Goal at 200 messages a second: the median of a is at most " in text
    assert "A subscription by message" in text
    assert "make it\nlab/.venv/bin/lab page lab/studies/test.toml --name collected" in text
    for link in re.findall(r"\]\(([^)]+)\)", text):
        assert link == "../lab.md" or (path.parent / link).is_file(), link
