"""Noise floor, environment record, time series, and connector descriptions."""

import os
import threading
import time
from pathlib import Path

import pytest
from conftest import lines_of_code

from lab import connectors, machine
from lab.connectors import ConnectorError
from lab.machine import Noise


def test_noise_floor_is_the_wait_for_the_rest_of_a_pause() -> None:
    # Ten pauses of 1 ms in 1 s: a message meets one with a chance of 1 %, and p99.5 waits 0.5 ms.
    noise = Noise(0, 1_000_000_000, [1_000_000] * 10)
    assert noise.lost_percent == pytest.approx(1.0)
    assert noise.floor_ns(0.99) == 0.0
    assert noise.floor_ns(0.995) == pytest.approx(500_000)
    assert noise.floor_ns(0.999) == pytest.approx(900_000)
    assert Noise(0, 1_000_000_000, []).floor_ns(0.9999) == 0.0


def test_spin_probe_keeps_the_cores_of_the_thread() -> None:
    before = os.sched_getaffinity(0)
    noise = machine.spin_probe(min(before), 0.05)
    assert os.sched_getaffinity(0) == before
    assert noise.duration_ns >= 50_000_000
    assert all(gap >= machine.NOISE_THRESHOLD_NS for gap in noise.gaps_ns)


def test_environment_is_stable_and_its_digest_follows_it() -> None:
    first, second = machine.environment(), machine.environment()
    assert first == second
    assert first.digest() == second.digest()
    assert first.cores >= 1
    assert first.kernel
    changed = machine.Environment(**{**first.__dict__, "kernel": "another"})
    assert changed.digest() != first.digest()


def test_time_series_has_a_row_per_column(tmp_path: Path) -> None:
    path = tmp_path / "machine.csv"
    with machine.Recorder(path):
        time.sleep(0.05)
    head, row = path.read_text().splitlines()[:2]
    assert head == ",".join(machine.SERIES_COLUMNS)
    assert len(row.split(",")) == len(machine.SERIES_COLUMNS)


def test_cpu_time_of_a_process_is_counted() -> None:
    begin = machine.process_cpu_ns(os.getpid())
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
    assert machine.process_cpu_ns(os.getpid()) - begin >= 99_900_000
    assert machine.process_cpu_ns(2**22 + 1) == 0


def folder_with(tmp_path: Path, text: str) -> Path:
    (tmp_path / "connector.toml").write_text(text)
    return tmp_path


GOOD = """
name = "x"
language = "C"
library = "none"
version = "1"
tools = ["sh"]
build = [["sh", "-c", "echo built; mkdir -p build; touch build/x"]]
run = ["build/x"]
"""


def test_a_connector_is_built_and_then_usable(tmp_path: Path) -> None:
    connector = connectors.load(folder_with(tmp_path, GOOD))
    assert "not built" in (connector.problem() or "")
    connector.build(tmp_path / "log")
    assert connector.problem() is None
    assert connector.command() == [str(tmp_path / "build/x")]
    assert "built" in (tmp_path / "log").read_text()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (('tools = ["sh"]', 'tools = ["no-such-compiler"]'), "missing no-such-compiler"),
        (("touch build/x", "exit 3"), "ended with 3; see"),
        (('"sh", "-c"', '"no-such-program"'), "did not run"),
    ],
)
def test_a_connector_that_cannot_be_built_is_named(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    connector = connectors.load(folder_with(tmp_path, GOOD.replace(*change)))
    with pytest.raises(ConnectorError, match=message):
        connector.build(tmp_path / "log")


def test_a_wrong_description_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConnectorError, match='unknown key "speed"'):
        connectors.load(folder_with(tmp_path, GOOD + "speed = 1\n"))
    with pytest.raises(ConnectorError, match="cannot read"):
        connectors.load(tmp_path / "absent")


def test_shipped_connectors_are_described() -> None:
    for name, connector in connectors.load_all().items():
        variant = connector.variant and f"-{connector.variant}"
        assert connector.folder.name + variant == name
        assert connector.description.run


@pytest.mark.parametrize("folder", sorted({c.folder for c in connectors.load_all().values()}), ids=lambda p: p.name)
def test_a_connector_has_fewer_than_200_lines(folder: Path) -> None:
    assert lines_of_code(folder) < 200


def test_context_switches_do_not_fall_when_a_thread_ends() -> None:
    go, pid = threading.Event(), os.getpid()
    thread = threading.Thread(target=lambda: [go.wait(0.001) for _ in range(50)] and go.wait())
    thread.start()
    time.sleep(0.1)
    threads: dict[str, int] = {}
    before = machine.context_switches(pid, threads)
    go.set()
    thread.join()
    assert machine.context_switches(pid, threads) >= before > 0
