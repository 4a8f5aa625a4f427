"""Servers, disks and files that fail: a clear message, a row, and the rest of the study goes on."""

import errno
import shlex
import sqlite3
from pathlib import Path

import pytest
from conftest import RunStudy, check_only_a_failed, connector_program
from typer.testing import CliRunner

from lab import analysis, capture, connectors, machine
from lab.cli import app
from lab.connectors import Connector
from lab.records import ResultFolder
from lab.run import run_study as execute
from lab.study import Study

TIMED = {"name": "short", "rate": 250, "blocks": 1, "warm_up_s": 0, "measured_s": 1, "spin_us": 0}
JOINED = {"exchange": "gemini", "markets": 1, "rate": 200, "warm_up_s": 0, "measured_s": 1.5}
# The machine that runs the tests may be busy, and these tests do not measure it.
FLAG = {"noisy_runs": "flag"}
ANALYSIS = {"resamples": 100}

pytestmark = pytest.mark.usefixtures("test_feed")


def events_of(results: ResultFolder, run_id: str, name: str) -> int:
    path = results.run_folder(run_id) / f"{name}.sqlite"
    return capture.convert(path, path.with_suffix(".parquet")).events


def test_a_server_that_refuses_is_a_failed_run_and_the_next_run_starts(
    run_study: RunStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEED_TEST", "reject")
    records = run_study({"timed": [TIMED], "limits": FLAG}, {"a": "", "b": ""}).records()
    assert [record.status for record in records] == ["failed", "failed"]
    assert all("ended with 4 (could not connect)" in record.reasons[0] for record in records)


def test_a_server_that_stops_fails_a_timed_run_and_the_events_before_are_stored(
    run_study: RunStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEED_TEST", "stop")
    monkeypatch.setattr("lab.supervisor.SLACK_S", 3.0)
    results = run_study({"timed": [TIMED], "limits": FLAG}, {"a": "", "b": ""})
    for record in results.records():
        assert record.status == "failed"
        assert "did not end 3 s after the planned end" in record.reasons[0]
        # The feed stops before message 83 of 250.
        assert events_of(results, record.id, record.connectors[0].connector) == 82


def test_a_server_that_stops_for_one_connector_leaves_the_joined_run_to_the_others(
    run_study: RunStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FEED_TEST", "stop-one")
    monkeypatch.setattr("lab.supervisor.SLACK_S", 3.0)
    # A fault of one connector is not noise, so a strict study also uses the run.
    limits = {"noisy_runs": "refuse", "retries": 0, "steal_percent": 100, "other_load_percent": 100}
    monkeypatch.setattr("lab.supervisor.Supervisor.noise_reasons", lambda *_: [])
    results = run_study({"joined": [JOINED], "limits": limits, "analysis": ANALYSIS}, {"a": "", "b": ""})
    record = results.records()[0]
    assert record.status == "flagged"
    stuck = next(c for c in record.connectors if c.problem)
    whole = next(c for c in record.connectors if not c.problem)
    assert "was stopped" in stuck.problem
    assert (stuck.received, whole.received) == (99, 300)
    found = analysis.analyse(results)
    assert found.joined[0].matched == 99
    assert any(stuck.problem in problem.text for problem in found.problems)


def test_a_connector_that_captured_nothing_does_not_empty_the_joined_result(
    run_study: RunStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = run_study({"joined": [JOINED], "limits": FLAG, "analysis": ANALYSIS}, {"a": "", "b": "", "c": "drop=1"})
    found = analysis.analyse(results)
    assert found.joined[0].matched == 300
    assert [count.connector for count in found.joined[0].counts] == ["a", "b"]
    assert any(p.connector == "c" and "captured nothing" in p.text for p in found.problems)


def test_a_stalled_server_is_the_cause_of_its_late_events(run_study: RunStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FEED_TEST", "stall")
    found = analysis.analyse(run_study({"timed": [TIMED], "limits": FLAG, "analysis": ANALYSIS}, {"a": ""})).late
    # Message 83 and those behind it wait for the 2.5 s: they are late by at least 1.8 s.
    assert found.total == 250 - 82
    assert found.causes == {"server: the feed sent it late": found.total}


def test_a_paused_collector_is_the_cause_of_its_late_events(run_study: RunStudy) -> None:
    results = run_study({"timed": [TIMED], "limits": FLAG, "analysis": ANALYSIS}, {"a": "gc=50:1500"})
    found = analysis.analyse(results).late
    assert found.total > 50
    assert found.causes["GC: the collector paused the connector"] >= 50


def limited(name: str, kilobytes: int) -> Connector:
    """The test connector on a disk of limited size."""
    own = connector_program(name)
    # The shell counts blocks of 512 bytes. An ignored signal lets the write fail instead.
    script = f'trap "" XFSZ; ulimit -f {kilobytes * 2}; exec {shlex.join(own.command())}'
    return Connector(own.description.model_copy(update={"run": ["/bin/sh", "-c", script]}), own.folder)


def test_a_full_disk_fails_the_run_of_its_connector_only(tmp_path: Path) -> None:
    study = Study.model_validate({"name": "test", "connectors": ["a", "b"], "timed": [TIMED], "limits": FLAG})
    results = ResultFolder(tmp_path / "results")
    execute(study, tmp_path, results, {"a": limited("a", 40), "b": connector_program("b")})
    check_only_a_failed(results, "disk")


def test_a_full_disk_ends_the_command_with_a_message_and_the_study_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = 'name = "test"\nconnectors = ["a"]\n[limits]\nnoisy_runs = "flag"\n[[timed]]\nname = "t"\nrate = 250\n'
    (tmp_path / "study.toml").write_text(text + "blocks = 2\nwarm_up_s = 0\nmeasured_s = 0.5\nspin_us = 0\n")
    monkeypatch.setattr("lab.cli.known_programs", lambda: {"a": connector_program("a")})
    original, writes = machine.spin_probe, []

    def probe_then_fill(core: int, seconds: float = 0.5) -> machine.Noise:
        writes.append(core)
        if len(writes) == 2:
            raise OSError(errno.ENOSPC, "No space left on device", str(tmp_path / "results" / "noise.json"))
        return original(core, 0.1)

    monkeypatch.setattr("lab.machine.spin_probe", probe_then_fill)
    words = ["run", str(tmp_path / "study.toml"), "--output", str(tmp_path / "results")]
    first = CliRunner().invoke(app, words)
    assert first.exit_code == 1
    assert "No space left on device; free some space, then run the same command again" in first.stderr
    results = ResultFolder(tmp_path / "results")
    kept = results.records()
    assert len(kept) == 1
    second = CliRunner().invoke(app, words)
    assert second.exit_code == 0, second.stderr
    assert results.records()[0].started_ns == kept[0].started_ns
    assert len(results.records()) == 2


def test_a_locked_capture_file_is_a_row_until_it_is_free(run_study: RunStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "LOCK_TIMEOUT_S", 0.05)
    study = {"joined": [JOINED], "limits": FLAG, "analysis": ANALYSIS}
    results = run_study(study, {"a": "", "b": "", "c": ""})
    record = results.records()[0]
    other = sqlite3.connect(results.run_folder(record.id) / "a.sqlite")
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("PRAGMA journal_mode = DELETE")
    other.execute("BEGIN EXCLUSIVE")
    found = analysis.analyse(results)
    assert [count.connector for count in found.joined[0].counts] == ["b", "c"]
    assert found.joined[0].matched == 300
    assert any("is locked" in problem.text for problem in found.problems)
    other.close()
    again = analysis.analyse(results)
    assert [count.connector for count in again.joined[0].counts] == ["a", "b", "c"]
    assert again.problems == [p for p in again.problems if p.connector != "a"]


def test_a_missing_compiler_skips_the_reference_and_not_the_study(tmp_path: Path) -> None:
    reference = connectors.load(connectors.REFERENCE)
    absent = Connector(reference.description.model_copy(update={"tools": ["no-such-compiler"]}), reference.folder)
    study = Study.model_validate({"name": "test", "connectors": ["a"], "timed": [TIMED], "limits": FLAG})
    results = ResultFolder(tmp_path / "results")
    execute(study, tmp_path, results, {"a": connector_program("a"), connectors.REFERENCE_NAME: absent})
    assert [record.connectors[0].connector for record in results.records()] == ["a"]
    unavailable = results.read_json("environment.json")["unavailable"]
    assert "missing no-such-compiler" in unavailable[connectors.REFERENCE_NAME]
