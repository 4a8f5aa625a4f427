"""Live runs on a server that is not ours, and the selection of a stream."""

from pathlib import Path

import pytest
from conftest import RunStudy, connector_program

from lab import analysis, report, streams, tables
from lab.capture import PayloadFields
from lab.study import StudyError


def test_a_live_run_matches_messages_that_differ_per_connection(exchange: str, run_study: RunStudy) -> None:
    live = {
        "name": "mine",
        "url": f"{exchange}/busy",
        "subscribe": "hello",
        "measured_s": 1.5,
        "ignore": ["socket_sequence"],
    }
    study = {"live": [live | {"event_time": "data.E"}], "limits": {"noisy_runs": "flag"}}
    results = run_study(study, {"early": "", "late": "add=30000000"})
    record = results.records()[0]
    assert record.usable, record.reasons
    assert record.kind == "live"
    found = analysis.analyse(results)
    run = found.live[0]
    assert run.matched > 20
    arrivals = {a.connector: a for a in run.arrivals}
    assert arrivals["early"].first_percent > 90
    assert arrivals["late"].behind[0.5] > 10_000_000
    assert arrivals["late"].since_event
    assert all(a.unmatched < 10 for a in run.arrivals)
    text = report.write(found, results, "lab run").read_text()
    assert f"Arrivals from {exchange}/busy" in text
    assert tables.live_tables(found)[0].rows[0][0] == "early"


def test_without_ignore_nothing_matches_and_the_report_names_the_remedy(exchange: str, run_study: RunStudy) -> None:
    live = {"name": "mine", "url": f"{exchange}/busy", "subscribe": "hello", "measured_s": 0.5}
    found = analysis.analyse(run_study({"live": [live], "limits": {"noisy_runs": "flag"}}, {"a": "", "b": ""}))
    assert found.live == []
    assert any("in `ignore`" in p.text for p in found.problems)


def test_an_event_time_that_no_message_has_is_named(exchange: str, run_study: RunStudy) -> None:
    live = {"name": "mine", "url": f"{exchange}/busy", "subscribe": "hello", "measured_s": 0.5}
    live |= {"ignore": ["socket_sequence"]}
    study = {"live": [live | {"event_time": "data.T"}], "limits": {"noisy_runs": "flag"}}
    found = analysis.analyse(run_study(study, {"a": "", "b": ""}))
    assert found.live[0].matched > 0
    assert any("sender's time at 'data.T'" in p.text for p in found.problems)


def test_a_server_that_refuses_fails_the_run_with_its_address(run_study: RunStudy) -> None:
    live = {"name": "absent", "url": "ws://127.0.0.1:9/", "measured_s": 0.2}
    record = run_study({"live": [live], "limits": {"noisy_runs": "flag"}}, {"a": ""}).records()[0]
    assert record.status == "failed"
    assert "could not connect" in record.reasons[0]


@pytest.mark.parametrize(
    ("fields", "body", "compared", "event_ns"),
    [
        (PayloadFields(), b'{"a": 1}', b'{"a": 1}', None),
        (PayloadFields("data.E"), b'{"data": {"E": 1600000000123}}', None, 1_600_000_000_123_000_000),
        (PayloadFields("0.t", "us"), b'[{"t": 5}]', None, 5_000),
        (PayloadFields("data.E"), b'{"data": 3}', None, None),
        (PayloadFields("data.E"), b"not json", b"not json", None),
        (PayloadFields(ignore=("n", "data.n")), b'{"n": 1, "data": {"n": 2, "x": 3}}', b'{"data": {"x": 3}}', None),
    ],
)
def test_fields_of_a_payload(fields: PayloadFields, body: bytes, compared: bytes | None, event_ns: int | None) -> None:
    assert fields.read(body) == (compared if compared is not None else body, event_ns)


def test_streams_are_tried_and_ranked_by_their_data(exchange: str, tmp_path: Path) -> None:
    file = tmp_path / "candidates.toml"
    rows = [f'[[candidate]]\nname = "{n}"\nurl = "{exchange}/{n}"\nsubscribe = "hello"\n' for n in ("slow", "busy")]
    file.write_text("\n".join(rows) + '\n[[candidate]]\nname = "absent"\nurl = "ws://127.0.0.1:9/"\n')
    trials = streams.select(file, connector_program("a"), 1.5)
    assert [t.candidate.name for t in trials] == ["busy", "slow", "absent"]
    assert trials[0].per_second > 2 * trials[1].per_second > 0
    assert "ended with 4" in trials[2].problem


def test_among_similar_streams_the_fastest_updates_win() -> None:
    def trial(name: str, size: int, update_ms: int) -> streams.Trial:
        candidate = streams.Candidate(name=name, url="ws://x/", update_ms=update_ms)
        return streams.Trial(candidate, 10, size, 1.0)

    ranked = streams.ranked([trial("second", 1_000, 1_000), trial("real-time", 950, 0), trial("small", 100, 0)])
    assert [t.candidate.name for t in ranked] == ["real-time", "second", "small"]


def test_a_wrong_candidate_file_is_named(tmp_path: Path) -> None:
    file = tmp_path / "candidates.toml"
    file.write_text('[[candidate]]\nname = "a"\nurl = "http://x/"\n')
    with pytest.raises(StudyError, match=r"candidate\.0\.url"):
        streams.load(file)
    with pytest.raises(StudyError, match="cannot read"):
        streams.load(tmp_path / "absent.toml")
