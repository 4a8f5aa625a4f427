"""Acceptance tests in short form: real processes, a known effect, and the reported figures."""

import json
import re
import shutil
import threading
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import RunStudy
from websockets.sync.client import connect
from websockets.sync.server import ServerConnection, serve

from lab import analysis, connectors, machine, report
from lab.analysis import AnalysisError
from lab.process import ConnectorProcess, RunError
from lab.records import ResultFolder
from lab.run import run_study as execute
from lab.study import Study
from lab.supervisor import StudyStopped, pitwire_binary

FLAG = {"noisy_runs": "flag"}
ANALYSIS = {"resamples": 200}
pytestmark = pytest.mark.usefixtures("test_feed")


def timed(**changes: object) -> dict:
    return {"name": "short", "rate": 250, "blocks": 3, "warm_up_s": 0.2, "measured_s": 1, "spin_us": 0} | changes


def split_original(results: ResultFolder) -> None:
    """Makes a second connector, with its own runs, of the original stamps."""
    description = results.read_json("environment.json")
    description["study"]["connectors"].append("original")
    (results.path / "environment.json").write_text(json.dumps(description))
    for record in results.records():
        own = record.connectors[0]
        other = replace(own, connector="original", captures=[f"original-{name}" for name in own.captures])
        twin = replace(record, id=f"{record.id}-original", connectors=[other])
        shutil.copytree(results.run_folder(record.id), results.run_folder(twin.id))
        results.write_record(twin)


@pytest.mark.parametrize("delay_us", [5, 20, 200])
def test_a_known_delay_is_reported(run_study: RunStudy, delay_us: int) -> None:
    """The program adds the delay to its stamps, so the load of the test machine does not matter."""
    results = run_study(
        {"timed": [timed(blocks=2)], "limits": FLAG, "analysis": ANALYSIS}, {"delayed": f"add={delay_us * 1000}"}
    )
    split_original(results)
    found = analysis.analyse(results).timed[0].comparison
    pair = found.pairs[0]
    assert (pair.a, pair.b) == ("delayed", "original")
    assert -pair.shift / 1e3 == pytest.approx(delay_us, abs=0.001)
    assert -found.pairs[0].shift_function[0.5][0] / 1e3 == pytest.approx(delay_us, abs=0.001)


def test_known_delays_of_separate_processes_are_found_in_a_model_of_noise(
    run_study: RunStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each connector runs in a separate process, and draws its noise from its own seed.

    The model has an effect of each run of 1 µs and skewed noise of 4 µs, so the result does not
    depend on the test machine.
    """
    quiet = machine.Noise(0, 1_000_000_000, [])
    monkeypatch.setattr("lab.machine.spin_probe", lambda core, seconds=0.5: quiet)
    delays_us = {"plain": 0, "again": 0, "delay-5": 5, "delay-20": 20, "delay-200": 200}
    programs = {name: f"model={name} add={delay * 1000}" for name, delay in delays_us.items()}
    table = timed(rate=1000, blocks=3, warm_up_s=0, measured_s=0.4)
    results = run_study({"timed": [table], "limits": FLAG, "analysis": ANALYSIS}, programs)
    found = analysis.analyse(results).timed[0].comparison
    assert found.minimum_detectable < 10_000
    for pair in found.pairs:
        known_ns = (delays_us[pair.b] - delays_us[pair.a]) * 1_000
        assert abs(pair.shift - known_ns) < found.minimum_detectable
        if abs(known_ns) > 2 * found.minimum_detectable:
            assert pair.verdict == "different"
        else:
            assert pair.verdict != "different"


def test_a_known_loss_is_counted_exactly(run_study: RunStudy) -> None:
    study = {
        "joined": [{"exchange": "binance", "markets": 1, "rate": 250, "warm_up_s": 0, "measured_s": 2}],
        "limits": FLAG,
    }
    results = run_study(study, {"whole": "", "lossy": "drop=100"})
    found = analysis.analyse(results).joined[0]
    counts = {c.connector: c for c in found.counts}
    assert (counts["whole"].received, counts["whole"].sent, counts["whole"].missing) == (500, 500, 0)
    assert (counts["lossy"].received, counts["lossy"].sent, counts["lossy"].missing) == (495, 500, 5)
    assert found.matched == 495
    assert found.throughput.messages == 995


def test_an_omission_shows_in_response_latency_but_not_in_a_closed_loop(run_study: RunStudy) -> None:
    results = run_study(
        {"timed": [timed(blocks=1, measured_s=2)], "limits": FLAG, "analysis": ANALYSIS}, {"a": "pause=200:200"}
    )
    found = analysis.analyse(results).timed[0]
    open_loop_p99_ns = dict(found.ecdf["a"])[0.99]
    # A pause of 200 ms delays 50 of 500 messages, so p99 lies inside the pause.
    assert open_loop_p99_ns > 100e6

    def answer(connection: ServerConnection) -> None:
        for message in connection:
            connection.send(message)

    with serve(answer, "127.0.0.1", 0, compression=None) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.socket.getsockname()[1]
        round_trips = []
        with connect(f"ws://127.0.0.1:{port}", compression=None) as client:
            for i in range(500):
                begin = time.monotonic_ns()
                client.send("x")
                client.recv()
                if i == 200:
                    time.sleep(0.2)
                round_trips.append(time.monotonic_ns() - begin)
        server.shutdown()
    assert np.quantile(round_trips, 0.99) < open_loop_p99_ns / 2


def test_one_program_under_two_names_differs_by_less_than_its_interval(run_study: RunStudy) -> None:
    results = run_study({"timed": [timed()], "limits": FLAG, "analysis": ANALYSIS}, {"a": "", "b": ""})
    pair = analysis.analyse(results).timed[0].comparison.pairs[0]
    assert pair.interval_95.low <= pair.shift <= pair.interval_95.high
    assert pair.verdict in ("equivalent", "unresolved", "different")


def test_an_outage_has_the_sequences_on_both_sides(run_study: RunStudy) -> None:
    study = {
        "joined": [{"exchange": "gemini", "markets": 1, "rate": 100, "warm_up_s": 0, "measured_s": 4}],
        "limits": FLAG,
    }
    results = run_study(study, {"a": "die=50", "b": ""})
    found = analysis.analyse(results)
    joined = found.joined[0]
    outage = next(o for o in joined.outages if o["connector"] == "a")
    counts = {c.connector: c for c in joined.counts}
    assert outage["to_ns"] > outage["from_ns"]
    assert "ended with 9" in outage["reason"]
    assert counts["b"].received == 400
    # The process died with its memory, so only the second process left events.
    assert counts["a"].received < 400
    assert joined.matched <= counts["a"].received
    assert any("there is no capture file" in p.text for p in found.problems)


def test_a_damaged_capture_is_a_row_and_the_rest_is_analysed(run_study: RunStudy) -> None:
    results = run_study({"timed": [timed(blocks=2)], "limits": FLAG, "analysis": ANALYSIS}, {"a": "", "b": ""})
    broken = next(r for r in results.records() if r.connectors[0].connector == "a")
    (results.run_folder(broken.id) / "a.sqlite").write_bytes(b"rubbish" * 100)
    found = analysis.analyse(results)
    assert any("not an SQLite file" in p.text for p in found.problems)
    assert any(f"block {broken.block} left out: no usable run of a" in p.text for p in found.problems)
    assert len(found.timed[0].blocks) == 1


def test_runs_of_two_machines_are_not_compared(run_study: RunStudy) -> None:
    results = run_study({"timed": [timed(blocks=1)], "limits": FLAG}, {"a": "", "b": ""})
    record = results.records()[0]
    results.write_record(replace(record, environment="another machine"))
    with pytest.raises(AnalysisError, match="runs of 2 different machines"):
        analysis.analyse(results)


def test_figures_are_valid_json(run_study: RunStudy) -> None:
    results = run_study({"timed": [timed(blocks=1)], "limits": FLAG, "analysis": ANALYSIS}, {"a": "", "b": ""})
    data = json.loads(analysis.to_json(analysis.analyse(results)))
    assert data["format"] == 1
    assert set(data["timed"][0]["comparison"]["levels"][0]["quantiles"]) == {"p50"}


def test_the_report_is_one_file_without_external_references(run_study: RunStudy) -> None:
    study = {
        "timed": [timed(blocks=2), timed(name="slow", rate=200, blocks=1)],
        "joined": [{"exchange": "gemini", "markets": 1, "rate": 300, "warm_up_s": 0, "measured_s": 1}],
        "limits": FLAG,
        "analysis": ANALYSIS,
    }
    results = run_study(study, {"a": "", "b": "", "c": "clock=process"})
    page = report.write(analysis.analyse(results), results, "lab run study.toml").read_text()
    loaded = re.findall(r'(?:src|href)="(?!#)([^"]+)"', re.sub(r"<svg.*?</svg>", "", page, flags=re.DOTALL))
    assert loaded == []
    assert "url(http" not in page
    assert page.count("<svg") >= 10
    assert "away from CLOCK_MONOTONIC" in page
    assert (results.path / "tables" / "levels-short.csv").read_text().startswith("connector,rank,")
    for section in ("answer", "design", "machine", "timed-short", "load", "joined", "late", "validity", "threats"):
        assert f'id="{section}"' in page, section


@pytest.mark.soak
def test_known_delays_of_separate_processes_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The real feed, and one real connector with busy waits of 5, 20 and 200 µs before its stamp.

    A delay above the minimum detectable difference must be found, and its interval must cover it.
    A busy wait on a loaded core makes messages queue, so a noisy machine cannot run this test.
    """
    noise = machine.spin_probe(machine.choose_pins().connectors[0], 1.0)
    if noise.lost_percent > 2:
        pytest.skip(f"other programs take {noise.lost_percent:.0f} % of the core: repeat on a quiet machine")
    monkeypatch.delenv("PITWIRE_BIN")
    known = connectors.with_reference(connectors.load_all())
    base = next((c for c in known.values() if c.description.busy_wait and not c.problem()), None)
    if base is None:
        pytest.skip("no connector with busy_wait is built: run `lab build rust-pitwire`")
    delays_us = {"plain": 0, "delay-5": 5, "delay-20": 20, "delay-200": 200}
    programs = {}
    for name, delay in delays_us.items():
        wait = [f"LAB_BUSY_WAIT_NS={delay * 1000}"] if delay else []
        description = base.description.model_copy(
            update={"name": name, "run": ["/usr/bin/env", *wait, *base.command()]}
        )
        programs[name] = connectors.Connector(description, base.folder)
    study = Study.model_validate(
        {
            "name": "delays",
            "connectors": list(programs),
            "timed": [{"name": "delays", "rate": 1000, "blocks": 10, "warm_up_s": 1, "measured_s": 3}],
            "limits": FLAG,
        }
    )
    results = ResultFolder(tmp_path / "results")
    execute(study, tmp_path, results, programs)
    found = analysis.analyse(results).timed[0].comparison
    for pair in found.pairs:
        if pair.a != "plain":
            continue
        delay_ns = delays_us[pair.b] * 1e3
        print(f"{pair.b}: {pair.shift / 1e3:.2f} µs, {pair.interval_95}, {pair.verdict}, {found.minimum_detectable}")
        assert abs(pair.shift - delay_ns) < max(10_000, found.minimum_detectable)
        if delay_ns > 2 * found.minimum_detectable:
            assert pair.p_difference < 0.05
    print(f"minimum detectable difference: {found.minimum_detectable / 1e3:.2f} µs")


def real_feed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Uses the built server instead of the test feed."""
    monkeypatch.delenv("PITWIRE_BIN")
    try:
        pitwire_binary()
    except StudyStopped as error:
        pytest.skip(str(error))


@pytest.mark.soak
def test_a_loss_of_one_in_a_thousand_is_counted_exactly(run_study: RunStudy, monkeypatch: pytest.MonkeyPatch) -> None:
    real_feed(monkeypatch)
    joined = {"exchange": "bithumb", "markets": 157, "rate": 1000, "warm_up_s": 0, "measured_s": 20}
    results = run_study({"joined": [joined], "limits": FLAG}, {"whole": "", "lossy": "drop=1000"})
    found = analysis.analyse(results).joined[0]
    counts = {c.connector: c for c in found.counts}
    assert (counts["whole"].sent, counts["whole"].missing) == (20_000, 0)
    assert (counts["lossy"].sent, counts["lossy"].missing) == (20_000, 20)
    assert found.matched == 19_980


@pytest.mark.soak
def test_a_pause_of_100_ms_shows_in_the_p99_of_the_real_feed(
    run_study: RunStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_feed(monkeypatch)
    table = timed(rate=1000, blocks=1, warm_up_s=0, measured_s=5)
    study = {"timed": [table], "limits": FLAG, "analysis": ANALYSIS}
    found = analysis.analyse(run_study(study, {"a": "pause=2000:100"})).timed[0]
    # The pause delays 100 of 5,000 messages, by 100 ms down to 0: p99 lies in its middle.
    assert dict(found.ecdf["a"])[0.99] > 40e6


@pytest.mark.soak
def test_one_program_under_two_names_is_equivalent_in_20_studies_of_processes(
    run_study: RunStudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    quiet = machine.Noise(0, 1_000_000_000, [])
    monkeypatch.setattr("lab.machine.spin_probe", lambda core, seconds=0.5: quiet)
    table = timed(rate=1000, blocks=3, warm_up_s=0, measured_s=0.4)
    study = {"timed": [table], "limits": FLAG, "analysis": ANALYSIS}
    verdicts = []
    for number in range(20):
        results = run_study(study, {"a": f"model=a{number}", "b": f"model=b{number}"}, f"results-{number}")
        verdicts.append(analysis.analyse(results).timed[0].comparison.pairs[0].verdict)
    assert verdicts.count("equivalent") >= 19


@pytest.mark.soak
@pytest.mark.parametrize("runtime", ["bun", "deno"])
def test_a_runtime_that_counts_from_its_own_start_is_refused(tmp_path: Path, runtime: str) -> None:
    if shutil.which(runtime) is None:
        pytest.skip(f"{runtime} is not installed: npm install -g {runtime}")
    program = tmp_path / "clock.mjs"
    program.write_text(
        "import { createInterface } from 'node:readline';\nimport process from 'node:process';\n"
        "for await (const line of createInterface({ input: process.stdin }))\n"
        "  if (line === 'clock') console.log(`clock ${process.hrtime.bigint()}`);\n"
    )
    command = [runtime, "run", str(program)]
    settings = {"LAB_CONNECTOR": runtime}
    cores = machine.choose_pins().connectors
    connector = ConnectorProcess(command, tmp_path, settings, cores=cores, log=tmp_path / "log")
    try:
        with pytest.raises(RunError, match="away from CLOCK_MONOTONIC: its runtime counts from another origin"):
            connector.check_clock()
    finally:
        connector.end()
