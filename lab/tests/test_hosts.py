"""Live runs over several hosts, with a program in the place of ssh that runs commands here.

It shifts the clock of every Python program that it starts, as the clock of another host is shifted.
"""

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import RunStudy

from lab import analysis, report, study, tables
from lab.connectors import REPOSITORY
from lab.hosts import fit
from lab.study import StudyError

SHIFT_NS = 10**15
FLAG = {"noisy_runs": "flag"}


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Puts the program in front of ssh. The host `absent` cannot be reached."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(
        f"import time\nown = time.monotonic_ns\ntime.monotonic_ns = lambda: own() + {SHIFT_NS}\n"
    )
    program = folder / "ssh"
    program.write_text(
        '#!/bin/sh\nwhile [ "$1" = -o ]; do shift 2; done\n'
        '[ "$1" = absent ] && { echo "ssh: connect to host absent port 22: refused" >&2; exit 255; }\n'
        f'PYTHONPATH={folder} exec /bin/sh -c "$2"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder


def hosts(*names: str) -> list[dict]:
    return [{"name": name, "ssh": name, "folder": str(REPOSITORY)} for name in names]


def live(server: str, names: list[str], **changes: object) -> dict:
    table = {"name": "mine", "url": f"{server}/busy", "subscribe": "hello", "measured_s": 1.5, "hosts": names}
    return table | {"ignore": ["socket_sequence"], "event_time": "t"} | changes


def test_arrivals_of_two_hosts_are_compared_by_their_clock_offset(
    exchange: str, ssh: Path, run_study: RunStudy
) -> None:
    results = run_study({"live": [live(exchange, ["local", "far"])], "host": hosts("far"), "limits": FLAG}, {"a": ""})
    record = results.records()[0]
    assert record.usable, record.reasons
    clock = record.hosts["far"]["clock"]
    assert abs(clock["offset_ns"] - SHIFT_NS) <= clock["error_ns"] + 1_000
    assert record.hosts["far"]["about"].startswith("Linux")
    log = (results.run_folder(record.id) / "clock-far.csv").read_text().splitlines()
    assert log[0] == "before_ns,host_monotonic_ns,host_realtime_ns,after_ns"
    assert len(log) > clock["readings"] >= 8
    found = analysis.analyse(results)
    run = found.live[0]
    assert {a.connector for a in run.arrivals} == {"a", "a@far"}
    assert run.matched > 20
    for arrivals in run.arrivals:
        assert 0 <= arrivals.behind[0.5] < 200e6
        assert 0 < arrivals.clock_error_ns < 200e6
    table = tables.live_tables(found)[0]
    assert "clock error, µs" in table.head
    assert "several hosts" in report.write(found, results, "lab run").read_text()


def test_a_host_that_is_away_is_a_row_and_the_others_go_on(exchange: str, ssh: Path, run_study: RunStudy) -> None:
    wanted = {"live": [live(exchange, ["local", "gone"])], "limits": FLAG}
    results = run_study(wanted | {"host": [{"name": "gone", "ssh": "absent", "folder": str(REPOSITORY)}]}, {"a": ""})
    record = results.records()[0]
    assert record.usable
    problem = next(c.problem for c in record.connectors if c.connector == "a@gone")
    assert "host gone" in problem
    assert "connect to host absent port 22" in problem
    assert [a.connector for a in analysis.analyse(results).live[0].arrivals] == ["a"]


def test_a_host_without_the_repository_fails_the_run_with_its_name(ssh: Path, run_study: RunStudy) -> None:
    table = live("ws://127.0.0.1:9", ["empty"])
    host = {"name": "empty", "ssh": "empty", "folder": "/absent/repository"}
    record = run_study({"live": [table], "host": [host], "limits": FLAG}, {"a": ""}).records()[0]
    assert record.status == "failed"
    assert "host empty" in record.reasons[0]
    assert "/absent/repository" in record.reasons[0]


def test_the_line_of_the_clock_keeps_its_bound() -> None:
    """A clock that drifts by 50 ppm, behind a network with delays that differ per way."""
    draw = random.Random(4)
    drift, origin = 50e-6, 7 * 10**14
    readings = []
    for second in range(600):
        before = second * 10**9
        there, back = (round(200_000 + draw.expovariate(1 / 300_000)) for _ in range(2))
        readings.append((before, origin + round((before + there) * (1 + drift)), before + there + back))
    line = fit(readings)
    assert line.drift == pytest.approx(drift, rel=0.02)
    for local in (0, 300 * 10**9, 600 * 10**9):
        assert abs(line.to_local(origin + round(local * (1 + drift))) - local) <= line.error_ns
    assert line.error_ns < 400_000
    short = fit([(10**9, 5, 10**9 + 100)])
    assert (short.drift, short.error_ns, short.to_local(5)) == (0.0, 50, 10**9 + 50)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('hosts = ["far"]', 'live mine names the host "far": expected local'),
        ('hosts = ["local", "local"]', "hosts of mine contains local twice"),
        ('[[host]]\nname = "local"\nssh = "x"\nfolder = "/x"', "host names contains local twice"),
        ('[[host]]\nname = "far"\nssh = "-oProxyCommand=x"\nfolder = "/x"', '"host.0.ssh"'),
        ('[[host]]\nname = "far"\nssh = "x"\nfolder = "x"', '"host.0.folder"'),
    ],
)
def test_a_wrong_host_is_named(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "study.toml"
    path.write_text(
        f'name = "s"\nconnectors = ["a"]\n[[live]]\nname = "mine"\nurl = "ws://x/"\nmeasured_s = 1\n{text}\n'
    )
    with pytest.raises(StudyError) as error:
        study.load(path)
    assert message in str(error.value)
