"""The real feed, `pitwire tape serve --live`, with the test connector."""

import shutil
from pathlib import Path

import pytest
from conftest import connector_program

from lab import analysis, connectors, report
from lab.records import ResultFolder
from lab.run import run_study
from lab.study import Study
from lab.supervisor import StudyStopped, pitwire_binary

FAULT = '[[fault]]\nkind = "{}"\nat = {}\n'
FAULTS = "seed = 3\n" + "".join(
    FAULT.format(kind, at)
    for kind, at in [("drop", [20, 30]), ("duplicate", [40]), ("omit-time", [50]), ("rubbish", [60]), ("close", [100])]
)
BREAKS = "".join(FAULT.format(kind, at) for kind, at in [("bad-frame", [60]), ("reset", [150]), ("rubbish", [200])])


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
            # On a busy machine one connector may connect some messages after the other.
            assert (counts.missing, counts.duplicates) == (0, 0)
            assert counts.sent + counts.due_in_gap >= sent
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


def test_a_relayed_server_reaches_every_connector(exchange: str, tmp_path: Path) -> None:
    relay = {"exchange": "mine", "relay": f"{exchange}/busy", "relay_subscribe": "hello"}
    results = execute(tmp_path, ["a", "b"], joined=[relay | {"warm_up_s": 0, "measured_s": 2}])
    record = results.records()[0]
    assert record.usable, record.reasons
    found = analysis.analyse(results).joined[0]
    assert found.exchange == "mine"
    # The server sends fifty messages a second. The relay adds the envelope that matches them.
    assert found.matched > 20
    for counts in found.counts:
        assert (counts.missing, counts.duplicates, counts.without_envelope) == (0, 0, 0)
    assert {counts.connector for counts in found.counts} == {"a", "b"}


def test_protocol_violation_is_an_outage_and_the_run_continues(tmp_path: Path) -> None:
    (tmp_path / "faults.toml").write_text(BREAKS)
    joined = {
        "exchange": "gemini",
        "markets": 1,
        "rate": 100,
        "warm_up_s": 0,
        "measured_s": 4,
        "arrival": "constant",
        "fragment_bytes": 200,
        "faults": "faults.toml",
    }
    results = execute(tmp_path, ["a", "b"], joined=[joined])
    assert results.records()[0].usable
    found = analysis.analyse(results).joined[0]
    for counts in found.counts:
        own = [outage for outage in found.outages if outage["connector"] == counts.connector]
        assert len(own) == 2
        assert own[0]["last_sequence"] == 59
        assert own[1]["last_sequence"] < 150 < own[1]["next_sequence"]
        # Data in flight may be lost in the reset, and nothing else is.
        assert counts.missing == 0
        assert counts.received >= 400 - counts.due_in_gap - counts.lost_in_reset - 3


@pytest.mark.parametrize(
    "change",
    [{"fragment_bytes": 124}, {"subscribe": f'{{"params":["{"x" * 200}"]}}'}],
    ids=("fragments", "subscription"),
)
def test_the_reference_receiver_is_measured_and_not_compared(tmp_path: Path, change: dict) -> None:
    if connectors.load(connectors.REFERENCE).problem():
        if shutil.which("gcc") is None or not Path("/usr/include/sqlite3.h").exists():
            pytest.skip("gcc or sqlite3.h is missing: install gcc and libsqlite3-dev")
        connectors.load(connectors.REFERENCE).build(tmp_path / "log")
    timed = {"name": "t", "rate": 500, "blocks": 1, "warm_up_s": 0, "measured_s": 1, **change}
    results = ResultFolder(tmp_path / "results")
    study = {"name": "real", "connectors": ["a"], "timed": [timed], "limits": {"noisy_runs": "flag"}}
    wanted = Study.model_validate(study | {"analysis": {"resamples": 100}})
    run_study(wanted, tmp_path, results, connectors.with_reference({"a": connector_program("a")}))
    records = {record.connectors[0].connector: record for record in results.records()}
    assert records[connectors.REFERENCE_NAME].connectors[0].received == 500
    found = analysis.analyse(results)
    assert [level.connector for level in found.timed[0].comparison.levels] == ["a"]
    reference = found.timed[0].reference
    assert reference is not None
    assert reference.runs == 1
    assert 0 < reference.quantiles[0.5] <= reference.maximum
    assert connectors.REFERENCE_NAME in report.write(found, results, "test").read_text()


FACTORS = {
    "tls": True,
    "compression": True,
    "fragment_bytes": 124,
    "payload_bytes": 1_000,
    "subscribe": '{"method":"SUBSCRIBE"}',
}


def test_every_factor_has_its_table_and_loses_nothing(tmp_path: Path) -> None:
    name = "python-websockets"
    program = connectors.load(connectors.CONNECTORS / name)
    if problem := program.problem():
        pytest.skip(problem)
    usual = {"rate": 300, "blocks": 1, "warm_up_s": 0, "measured_s": 0.5, "spin_us": 0, "reference": False}
    tables = [usual | {"name": "base"}] + [
        usual | {"name": f"t{n}", key: FACTORS[key]} for n, key in enumerate(FACTORS)
    ]
    results = ResultFolder(tmp_path / "results")
    study = {"name": "real", "connectors": [name], "timed": tables, "limits": {"noisy_runs": "flag"}}
    wanted = Study.model_validate(study | {"analysis": {"resamples": 100}})
    run_study(wanted, tmp_path, results, {name: program})
    found = analysis.analyse(results)
    assert [(table.costs[0].sent, table.costs[0].missing) for table in found.timed] == [(150, 0)] * len(tables)
    assert [factor.setting for factor in found.factors] == list(FACTORS)
