"""Progress bars with the time left: on a terminal only, and gone at the end."""

import os
import pty
import re
import select
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from test_terminal import as_client, on_a_terminal
from venue import BINARY, DEMO_A, TOP, Venue, run_pitwire

PATIENCE_S = 60
ERASE_LINE = "\x1b[2K"
TERMINAL = {"TERM": "xterm"}

VECTORS = TOP / "contracts/vectors/rules"
BAR = re.compile(r"\d+ % +\w+ left")
ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("progress") / "run"
    ended = run_pitwire("sim", "--seed", "7", "--events", "40000", "--out", directory)
    assert ended.returncode == 0, ended.stderr
    return directory


@pytest.fixture(scope="module")
def tables(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("progress") / "tables"
    ended = run_pitwire("export", run, "--out", directory)
    assert ended.returncode == 0, ended.stderr
    return directory


@pytest.fixture(scope="module")
def copy(run: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("progress") / "copy"
    ended = run_pitwire("backup", run, directory)
    assert ended.returncode == 0, ended.stderr
    return directory


@pytest.mark.parametrize(
    "name", ["export", "verify", "sim", "scenario", "backup", "restore", "explain", "sim --replay", "flow fit"]
)
def test_a_long_command_shows_its_progress_on_a_terminal_only(
    name: str, run: Path, tables: Path, copy: Path, tmp_path: Path
) -> None:
    orders = tables / "orders.csv"
    command: list[str | Path]
    command, doing = {
        "export": ([BINARY, "export", run, "--out", tmp_path / "tables"], "exporting"),
        "verify": ([BINARY, "verify", run], "verifying"),
        "sim": ([BINARY, "sim", "--seed", "7", "--events", "20000"], "simulating"),
        "scenario": ([BINARY, "scenario", VECTORS], "playing"),
        "explain": ([BINARY, "explain", "--data", run, "--order", "500"], "explaining"),
        "backup": ([BINARY, "backup", run, tmp_path / "copy"], "verifying the copy"),
        "restore": ([BINARY, "restore", copy, tmp_path / "data"], "verifying the backup"),
        "sim --replay": ([BINARY, "sim", "--replay", tables, "--instrument", "NPN_ZAR"], "replaying"),
        "flow fit": ([BINARY, "flow", "fit", orders, "--instrument", "NPN_ZAR"], "fitting"),
    }[name]
    written = on_a_terminal(command)
    shown = ESCAPE.sub("", written)
    assert re.search(rf"{doing} .+ {BAR.pattern}", shown), shown
    assert not BAR.search(written.rpartition(ERASE_LINE)[2]), "the bar is erased at the end"
    if name in ("export", "backup", "restore"):
        command[-1] = tmp_path / "again"
    piped = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    assert piped.stderr == "" and not BAR.search(piped.stdout)


@pytest.mark.parametrize("name", ["engine-bench", "order-bench", "bench loop", "bench hawkes"])
def test_a_benchmark_shows_its_progress_on_a_terminal_only(name: str, tmp_path: Path) -> None:
    sizes: dict[str, list[str | Path]] = {
        "engine-bench": ["--ops", tmp_path / "ops.bin", "--generate", "200000"],
        "order-bench": ["--mode", "open", "--rate", "100", "--seconds", "1"],
        "bench loop": ["--count", "2000", "--rounds", "20", "--updates", "2000", "--price", "1500"],
        "bench hawkes": ["--mode", "paper", "--clients", "1", "--orders", "2000", "--data", tmp_path / "hawkes"],
    }
    command = [BINARY, *name.split(), *sizes[name]]
    with Venue(tmp_path / "data", ["--no-flow", "--durability", "memory"]) as venue:
        if name == "order-bench":
            command += ["--venue", venue.address]
        if name == "bench loop":
            command.insert(3, venue.ws_url)
        login = as_client(DEMO_A)
        shown = ESCAPE.sub("", on_a_terminal(command, **login))
        assert re.search(rf"measuring .+ {BAR.pattern}", shown), shown
        # The bar moves while it measures.
        assert re.search(r"[1-9]\d* % +\w+ left", shown), shown
        piped = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env=os.environ | login)
    assert piped.stderr == "" and piped.stdout != "" and not BAR.search(piped.stdout)


@pytest.mark.parametrize(("doing", "is_fresh"), [("recovering", False), ("simulating a past", True)])
def test_a_start_shows_what_it_does_before_it_serves(doing: str, is_fresh: bool, run: Path, tmp_path: Path) -> None:
    data, ready = tmp_path / "data", tmp_path / "ready.json"
    command = [BINARY, "up", "--data", data, "--http", "127.0.0.1:0", "--key-file", tmp_path / "vault.key"]
    command += ["--no-clients", "--ready-file", ready]
    if is_fresh:
        command += ["--warm-up", "6h"]
    else:
        shutil.copytree(run, data)
        command += ["--no-flow"]
    ours, its = pty.openpty()
    process = subprocess.Popen(command, stdin=its, stdout=subprocess.DEVNULL, stderr=its, env=os.environ | TERMINAL)
    os.close(its)
    shown = b""
    try:
        deadline = time.monotonic() + PATIENCE_S
        # A slow start shows more than a terminal holds, so read it all the time.
        while not ready.exists() or not shown:
            assert process.poll() is None and time.monotonic() < deadline
            if select.select([ours], [], [], 0.05)[0]:
                shown += os.read(ours, 65_536)
    finally:
        process.terminate()
        process.wait(PATIENCE_S)
        os.close(ours)
    assert re.search(rf"{doing} .+ \d+ % +\d+\w+ left", ESCAPE.sub("", shown.decode())), shown


def test_a_directory_of_scenarios_is_played_in_the_order_of_names(tmp_path: Path) -> None:
    for name in ("b", "a"):
        (tmp_path / f"{name}.json").write_text(f'{{"name": "{name}", "steps": []}}')
    (tmp_path / "notes.txt").write_text("not a scenario")
    played = run_pitwire("scenario", tmp_path)
    assert [line.split() for line in played.stdout.splitlines()] == [["a", "ok"], ["b", "ok"]], played.stderr
    empty = tmp_path / "empty"
    empty.mkdir()
    refused = run_pitwire("scenario", empty)
    assert refused.returncode == 2 and "no .json files" in refused.stderr
