"""The supervisor with real processes: the test feed and connectors that misbehave."""

import json
from pathlib import Path

import pytest
from conftest import RunStudy, check_only_a_failed, connector_program

from lab import capture
from lab.records import ResultFolder
from lab.run import run_study as execute
from lab.study import Study
from lab.supervisor import StudyStopped

TIMED = {"name": "short", "rate": 200, "blocks": 2, "warm_up_s": 0.2, "measured_s": 0.5, "spin_us": 0}
# The machine that runs the tests may be busy, and these tests do not measure it.
FLAG = {"noisy_runs": "flag"}

pytestmark = pytest.mark.usefixtures("test_feed")


def test_timed_runs_give_records_and_captures(run_study: RunStudy) -> None:
    results = run_study({"timed": [TIMED], "limits": FLAG}, {"a": "", "b": ""})
    records = results.records()
    assert len(records) == 4
    assert {(r.block, r.connectors[0].connector) for r in records} == {(0, "a"), (0, "b"), (1, "a"), (1, "b")}
    for record in records:
        assert record.usable, record.reasons
        assert record.connectors[0].exit_codes == [0]
        assert record.connectors[0].received == 140
        assert record.connectors[0].clock_bracket_ns < 1_000_000_000
        path = results.run_folder(record.id) / record.connectors[0].captures[0]
        assert capture.convert(path, path.with_suffix(".parquet")).events == 140
    assert (results.path / "machine.csv").read_text().count("\n") >= 3
    assert len(results.read_json("noise.json")) == 3


def test_a_finished_study_is_not_repeated(run_study: RunStudy) -> None:
    study = {"timed": [TIMED | {"blocks": 1}], "limits": FLAG}
    first = run_study(study, {"a": ""}).records()
    again = run_study(study, {"a": ""}).records()
    assert [r.started_realtime_ns for r in first] == [r.started_realtime_ns for r in again]


def test_a_run_without_record_is_done_again_and_its_data_stays(run_study: RunStudy) -> None:
    study = {"timed": [TIMED | {"blocks": 1}], "limits": FLAG}
    results = run_study(study, {"a": ""})
    run_id = results.records()[0].id
    (results.run_folder(run_id) / "record.json").unlink()
    run_study(study, {"a": ""})
    assert results.record(run_id) is not None
    assert (results.runs / f"{run_id}.unfinished-1" / "a.sqlite").exists()


def test_a_changed_study_is_not_mixed_with_old_runs(run_study: RunStudy) -> None:
    study = {"timed": [TIMED | {"blocks": 1}], "limits": FLAG}
    run_study(study, {"a": ""})
    with pytest.raises(StudyStopped, match="the study file has changed"):
        run_study({**study, "seed": 9}, {"a": ""})


def test_a_clock_with_another_origin_is_refused(run_study: RunStudy) -> None:
    results = run_study({"timed": [TIMED | {"blocks": 1}], "limits": FLAG}, {"a": "clock=process", "b": ""})
    check_only_a_failed(results, "away from CLOCK_MONOTONIC")


def test_connector_that_never_ends_is_killed_and_the_study_continues(
    run_study: RunStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lab.supervisor.SLACK_S", 0.5)
    monkeypatch.setattr("lab.process.end.__defaults__", (0.5,))
    results = run_study({"timed": [TIMED | {"blocks": 1}], "limits": FLAG}, {"a": "hang", "b": ""})
    check_only_a_failed(results, "did not end")


def test_a_joined_run_restarts_a_process_that_died(run_study: RunStudy) -> None:
    joined = {"exchange": "gemini", "markets": 1, "rate": 100, "warm_up_s": 0, "measured_s": 2}
    results = run_study({"joined": [joined], "limits": FLAG}, {"a": "die=50", "b": ""})
    record = results.records()[0]
    assert record.usable
    broken = next(c for c in record.connectors if c.connector == "a")
    assert broken.captures == ["a.sqlite", "a.2.sqlite"]
    assert broken.exit_codes == [9, 0]
    assert "ended with 9" in broken.restarts[0]["reason"]


def test_joined_run_continues_without_a_connector_that_cannot_start(run_study: RunStudy) -> None:
    joined = {"exchange": "gemini", "markets": 1, "rate": 100, "warm_up_s": 0, "measured_s": 1}
    record = run_study({"joined": [joined], "limits": FLAG}, {"a": "", "b": "clock=process"}).records()[0]
    connectors = {c.connector: c for c in record.connectors}
    assert record.status == "flagged"
    assert connectors["a"].received == 100
    assert "away from CLOCK_MONOTONIC" in connectors["b"].problem
    assert any("away from CLOCK_MONOTONIC" in reason for reason in record.reasons)


def test_a_closed_connection_ends_a_timed_run_as_failed(run_study: RunStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEED_TEST", "close")
    record = run_study({"timed": [TIMED | {"blocks": 1}], "limits": FLAG}, {"a": ""}).records()[0]
    assert record.status == "failed"
    assert "the feed closed the connection" in record.reasons[0]


def test_a_feed_that_refuses_is_named(run_study: RunStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEED_TEST", "refuse")
    record = run_study({"timed": [TIMED | {"blocks": 1}], "limits": FLAG}, {"a": ""}).records()[0]
    assert record.status == "failed"
    assert "feed: cannot listen" in record.reasons[0]


def test_two_connectors_do_not_share_a_capture_file(tmp_path: Path, run_study: RunStudy) -> None:
    """The second connector exits with 6, and the first one's data stays."""
    results = ResultFolder(tmp_path / "results")
    study = Study.model_validate(
        {"name": "test", "connectors": ["a"], "timed": [TIMED | {"blocks": 1}], "limits": FLAG}
    )
    original = ResultFolder.fresh_run_folder

    def occupied(self: ResultFolder, run_id: str) -> Path:
        folder = original(self, run_id)
        (folder / "a.sqlite").write_text("data of another connector")
        return folder

    ResultFolder.fresh_run_folder = occupied
    try:
        execute(study, tmp_path, results, {"a": connector_program("a")})
    finally:
        ResultFolder.fresh_run_folder = original
    record = results.records()[0]
    assert record.status == "failed"
    assert "could not write its capture file" in record.reasons[0]
    assert (results.run_folder(record.id) / "a.sqlite").read_text() == "data of another connector"


def test_noisy_runs_are_refused_and_their_data_stays(run_study: RunStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lab.supervisor.Supervisor.floor_us", lambda self: 0.0)
    limits = {
        "noisy_runs": "refuse",
        "retries": 1,
        "lateness_us": 1e-6,
        "steal_percent": 100,
        "other_load_percent": 100,
    }
    results = run_study({"timed": [TIMED | {"blocks": 1}], "limits": limits}, {"a": ""})
    record = results.records()[0]
    assert (record.status, record.attempt) == ("refused", 2)
    assert "late at p99" in record.reasons[0]
    assert (results.runs / f"{record.id}.refused-1" / "a.sqlite").exists()


def test_a_full_disk_stops_the_study_and_keeps_finished_runs(
    run_study: RunStudy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    study = {"timed": [TIMED], "limits": FLAG}
    monkeypatch.setattr("lab.supervisor.MIN_FREE_BYTES", 10**18)
    with pytest.raises(StudyStopped, match="free some space, then run the same command again"):
        run_study(study, {"a": ""})
    monkeypatch.undo()


def test_missing_connectors_are_rows_and_the_others_run(tmp_path: Path) -> None:
    results = ResultFolder(tmp_path / "results")
    study = Study.model_validate(
        {"name": "test", "connectors": ["a", "b", "c"], "timed": [TIMED | {"blocks": 1}], "limits": FLAG}
    )
    absent = connector_program("b")
    absent = type(absent)(absent.description.model_copy(update={"tools": ["no-such-compiler"]}), absent.folder)
    execute(study, tmp_path, results, {"a": connector_program("a"), "b": absent})
    problems = json.loads((results.path / "environment.json").read_text())["unavailable"]
    assert "missing no-such-compiler" in problems["b"]
    assert "there is no connector of this name" in problems["c"]
    assert [r.connectors[0].connector for r in results.records()] == ["a"]
