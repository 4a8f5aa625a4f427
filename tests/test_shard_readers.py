"""The C and Python readers behind the real `pitwire split`, with pipes and rings, and after it is
killed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from feed import endless_tape
from venue import BINARY, TOP

PATIENCE_S = 60.0
WORKERS = 3
TRADES = 200_000


@pytest.fixture(scope="module")
def count(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("c") / "count"
    strict = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-O2", "-pthread"]
    subprocess.run(["cc", *strict, "-o", program, TOP / "clients/c/count.c"], check=True)
    return program


@pytest.fixture
def tape(tmp_path: Path) -> Iterator[str]:
    with endless_tape(tmp_path / "tape.ready", per_s=200000) as url:
        yield url


def worker(language: str, count: Path, out: Path) -> list[str | Path]:
    """A worker whose lines end up in a file, because a child's output goes to the splitter."""
    program = f'"{count}"' if language == "C" else f'"{sys.executable}" "{TOP / "clients/python/pitwire_shard.py"}"'
    if language == "Python":
        # The example reads one shard after another: one process for each, so that they run in
        # parallel.
        program = f'for shard in "$@"; do {program} "$shard" & done; wait; true'
        return ["bash", "-c", f'{{ {program}; }} > "{out}" 2>&1', "worker"]
    return ["bash", "-c", f'exec {program} "$@" > "{out}" 2>&1', "worker"]


def lines(out: Path) -> list[dict[str, Any]]:
    # Two processes write to this file, and their lines may mix.
    summaries = out.read_text().replace("}{", "}\n{")
    return [json.loads(line) for line in summaries.splitlines() if line.startswith("{")]


@pytest.mark.parametrize("transport", ["pipe", "shm", "shm-ref"])
@pytest.mark.parametrize("language", ["C", "Python"])
def test_every_trade_arrives(language: str, transport: str, count: Path, tape: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [BINARY, "split", tape, "--workers", str(WORKERS), "--transport", transport, "--on-slow", "block"]
    command += ["--limit-trades", str(TRADES), "--json", "--", *worker(language, count, out)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 0, ended.stderr
    summaries = lines(out)
    assert [one["end"] for one in summaries] == ["ended"] * WORKERS, summaries
    assert sum(one["records"] - one["gaps"] for one in summaries) == TRADES
    if language == "C":
        assert sum(one["broken"] for one in summaries) == 0


@pytest.mark.parametrize("language", ["C", "Python"])
def test_a_splitter_that_is_killed_is_noticed(language: str, count: Path, tape: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    # Outside the splitter's process group, so that only the reader itself can notice.
    names = tmp_path / "names"
    child = ["bash", "-c", f'echo "$@" > "{names}.tmp"; mv "{names}.tmp" "{names}"; exec sleep 1000', "worker"]
    command = [
        BINARY,
        "split",
        tape,
        "--workers",
        "1",
        "--transport",
        "shm",
        "--on-slow",
        "drop",
        "--json",
        "--",
        *child,
    ]
    splitter = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + PATIENCE_S
    while not names.exists():
        assert splitter.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    (ring,) = names.read_text().split()
    program = [count] if language == "C" else [sys.executable, TOP / "clients/python/pitwire_shard.py"]
    with out.open("wb") as to:
        reader = subprocess.Popen([*program, ring], stdout=to, stderr=subprocess.DEVNULL)
    while Path(ring).name not in Path(f"/proc/{reader.pid}/maps").read_text():
        assert reader.poll() is None and time.monotonic() < deadline, "it does not take the ring"
        time.sleep(0.01)
    time.sleep(0.5)
    assert reader.poll() is None
    os.kill(splitter.pid, signal.SIGKILL)
    splitter.wait()
    assert reader.wait(PATIENCE_S) == 1
    (summaries,) = lines(out)
    assert summaries["end"] in ("died", "SplitterDied") and summaries["records"] > 0
    Path(ring).unlink(missing_ok=True)


@pytest.mark.parametrize("transport", ["pipe", "shm", "shm-ref"])
def test_bars_behind_the_splitter_hold_every_trade(transport: str, tape: str, tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    out = tmp_path / "bars"
    command = [BINARY, "split", tape, "--workers", str(WORKERS), "--transport", transport, "--on-slow", "block"]
    command += ["--limit-trades", str(TRADES), "--json", "--", shutil.which("env"), BINARY, "bars", "--out", out]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 0, ended.stderr
    (rows,) = duckdb.execute(
        f"SELECT list(total) FROM (SELECT bucket_s, sum(trades) AS total FROM '{out}/*.parquet' GROUP BY 1)"
    ).fetchone()
    assert rows == [TRADES] * 3
