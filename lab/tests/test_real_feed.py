"""The real feed, `pitwire tape serve --live`, with the test connector."""

from pathlib import Path

import pytest
from conftest import connector_program

from lab import analysis, report
from lab.records import ResultFolder
from lab.run import run_study
from lab.study import Study
from lab.supervisor import StudyStopped, pitwire_binary

FAULTS = """
seed = 3
[[fault]]
kind = "drop"
at = [20, 30]
[[fault]]
kind = "duplicate"
at = [40]
[[fault]]
kind = "omit-time"
at = [50]
[[fault]]
kind = "rubbish"
at = [60]
[[fault]]
kind = "close"
at = [100]
"""


@pytest.fixture(autouse=True)
def real_binary() -> None:
    try:
        pitwire_binary()
    except StudyStopped as error:
        pytest.skip(str(error))


def execute(folder: Path, names: list[str], **study: object) -> ResultFolder:
    results = ResultFolder(folder / "results")
    wanted = Study.model_validate(
        {"name": "real", "connectors": names, "limits": {"noisy_runs": "flag"}, "analysis": {"resamples": 100}} | study
    )
    run_study(wanted, folder, results, {name: connector_program(name) for name in names})
    return results


def test_timed_runs_and_the_three_exchanges_lose_nothing(tmp_path: Path) -> None:
    joined = [
        {"exchange": exchange, "markets": markets, "rate": rate, "warm_up_s": 0.2, "measured_s": 1}
        for exchange, markets, rate in (("binance", 628, 96), ("bithumb", 157, 109), ("gemini", 1, 300))
    ]
    timed = {"name": "t", "rate": 500, "blocks": 2, "warm_up_s": 0.2, "measured_s": 1}
    results = execute(tmp_path, ["a", "b"], timed=[timed], joined=joined)
    found = analysis.analyse(results)
    assert [cost.missing for cost in found.timed[0].costs] == [0, 0]
    assert [cost.sent for cost in found.timed[0].costs] == [1200, 1200]
    assert [result.exchange for result in found.joined] == ["binance", "bithumb", "gemini"]
    for result in found.joined:
        sent = round(result.settings["rate"] * 1.2)
        for counts in result.counts:
            assert (counts.missing, counts.duplicates, counts.due_in_gap) == (0, 0, 0)
            assert counts.sent >= sent
            assert counts.received == counts.sent + counts.without_envelope
        assert 0 < result.matched <= sent
        low, high = result.bytes_range
        assert 100 < low <= high
    assert found.scoring is not None
    assert report.write(found, results, "test").exists()


def test_scripted_faults_are_counted_exactly(tmp_path: Path) -> None:
    (tmp_path / "faults.toml").write_text(FAULTS)
    joined = {
        "exchange": "binance",
        "markets": 8,
        "rate": 200,
        "warm_up_s": 0,
        "measured_s": 2,
        "arrival": "constant",
        "faults": "faults.toml",
    }
    results = execute(tmp_path, ["a", "b"], joined=[joined])
    record = results.records()[0]
    assert record.feed_summary["faults"]["drop"] == 4
    found = analysis.analyse(results).joined[0]
    for counts in found.counts:
        # Two dropped, one without its sequence, one replaced by rubbish, one sent twice.
        assert (counts.missing, counts.duplicates, counts.without_envelope) == (0, 1, 2)
        assert counts.sent + counts.due_in_gap == 400 - 4
        assert counts.received == counts.sent + 3
    assert {outage["reason"] for outage in found.outages} == {"close"}
    assert all(outage["last_sequence"] == 100 for outage in found.outages)
