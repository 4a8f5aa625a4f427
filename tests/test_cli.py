"""The command line: help, bad arguments, and the commands that need no running venue."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import ops
import pytest
from venue import BINARY, run_pitwire

COMMANDS = ["up", "sim", "verify", "export", "trade", "operator", "engine-bench", "order-bench", "split", "doctor"]


def json_of(*args: str | Path) -> dict[str, Any]:
    """Exactly one JSON object on stdout; messages are on stderr."""
    ended = run_pitwire(*args, "--json")
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_help_lists_every_command() -> None:
    ended = run_pitwire("--help")
    assert ended.returncode == 0
    assert all(re.search(rf"^\s+{command}\b", ended.stdout, re.MULTILINE) for command in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help_with_an_example(command: str) -> None:
    ended = run_pitwire(command, "--help")
    assert ended.returncode == 0 and ended.stderr == ""
    assert re.search("^examples?", ended.stdout, re.IGNORECASE | re.MULTILINE)
    assert f"pitwire {command}" in ended.stdout


def test_version() -> None:
    assert re.match(r"pitwire \d+\.\d+\.\d+", run_pitwire("--version").stdout)


@pytest.mark.parametrize(
    ("args", "names"),
    [
        (["no-such-command"], "no-such-command"),
        (["up", "--no-such-option"], "--no-such-option"),
        (["up", "--preset", "nowhere"], "nowhere"),
        (["up", "--http", "not an address"], "not an address"),
        (["up", "--durability", "perhaps"], "perhaps"),
        (["up", "--speed", "fast"], "fast"),
        (["sim", "--preset", "demo", "--seed", "seven", "--events", "10"], "seven"),
        (["sim", "--preset", "demo", "--seed", "7"], "--events"),
        (["engine-bench"], "--ops"),
        (["engine-bench", "--ops", "no-such-file.bin"], "no-such-file.bin"),
        (["order-bench"], "--mode"),
        (["order-bench", "--mode", "open", "--rate", "1"], "--rate"),
        (["order-bench", "--mode", "open", "--wait", "dozing"], "dozing"),
        (["order-bench", "--mode", "pairs", "--cores", "one"], "--cores"),
        (["verify"], ""),
    ],
)
def test_bad_arguments_exit_2_with_one_clear_line(args: list[str], names: str, tmp_path: Path) -> None:
    ended = run_pitwire(*args, timeout_s=20)
    assert ended.returncode == 2, ended.stderr
    lines = [line for line in ended.stderr.splitlines() if line.strip()]
    assert len(lines) == 1 and names in lines[0], ended.stderr
    assert ended.stdout == "" and "panicked" not in ended.stderr


@pytest.mark.parametrize(
    "args",
    [
        ["flow", "check", "/dev/zero"],
        ["scenario", "/dev/zero"],
        ["up", "--http", "127.0.0.1:0", "--data", "data", "--config", "/dev/zero"],
        ["relay", "ws://127.0.0.1:1/", "--faults", "/dev/zero"],
        ["bars", "shard", "--out", "bars", "--rules", "/dev/zero"],
        ["publish", "--echo", "--listen", "127.0.0.1:0", "--auth", "@/dev/zero"],
        ["publish", "--echo", "--listen", "127.0.0.1:0", "--tls", "--tls-cert", "/dev/zero", "--tls-key", "/dev/zero"],
    ],
    ids=" ".join,
)
def test_file_without_an_end_is_refused(args: list[str], tmp_path: Path) -> None:
    """The operator names the wrong file. Without a limit it would fill the memory."""
    command = [BINARY.resolve(), *args]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)
    assert ended.returncode in (1, 2), ended.stderr
    assert "/dev/zero" in ended.stderr and re.search(r"larger than \d+ MiB|not a regular file", ended.stderr), (
        ended.stderr
    )
    assert list(tmp_path.iterdir()) == []


# engine-bench


def reports_of(path: Path, mode: str, tmp_path: Path) -> str:
    reports = tmp_path / f"{mode}.txt"
    json_of("engine-bench", "--ops", path, "--reports", reports, "--mode", mode)
    return reports.read_text()


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("mode", ["book", "venue"])
def test_engine_reports_equal_those_of_the_slow_matcher(tmp_path: Path, seed: int, mode: str) -> None:
    operations = ops.random_ops(seed, 8000)
    expected = ops.Matcher().run(operations).splitlines()
    path = tmp_path / "ops.bin"
    ops.write(path, operations)
    got = reports_of(path, mode, tmp_path)
    assert not got.endswith("\n")
    for index, (ours, theirs) in enumerate(zip(got.splitlines(), expected, strict=False)):
        assert ours == theirs, f"report {index}, operation {operations[int(theirs.split(',')[1])]}"
    assert got.splitlines() == expected


@pytest.mark.parametrize("mode", ["book", "venue"])
def test_a_few_operations_by_hand(tmp_path: Path, mode: str) -> None:
    """Computed by hand from interfaces.md, so that the slow matcher is not the only judge."""
    path = tmp_path / "ops.bin"
    operations = [
        ops.Op(ops.LIMIT, ops.SELL, 101, 1, 5),
        ops.Op(ops.LIMIT, ops.SELL, 101, 2, 5),
        ops.Op(ops.REPLACE, ops.SELL, 101, 1, 4),  # loses its place although it only shrinks
        ops.Op(ops.LIMIT, ops.BUY, 102, 3, 7),
        ops.Op(ops.MARKET, ops.BUY, 0, 4, 9),
        ops.Op(ops.CANCEL, 0, 0, 1, 0),
        ops.Op(ops.IMMEDIATE, ops.SELL, 90, 5, 1),
        ops.Op(ops.LIMIT, ops.BUY, 99, 6, 3),
        ops.Op(ops.REPLACE, ops.BUY, 99, 6, 0),
        ops.Op(ops.CANCEL, 0, 0, 6, 0),
    ]
    ops.write(path, operations)
    assert reports_of(path, mode, tmp_path).splitlines() == [
        *("0,0,1,1,101,5", "0,1,1,2,101,5", "3,2,1,1,101,4"),
        *("0,3,0,3,102,7", "1,3,101,5,2,3", "1,3,101,2,1,3"),
        *("0,4,0,4,0,9", "1,4,101,2,1,4", "2,4,0,4,0"),
        *("4,5,1", "0,6,1,5,90,1", "2,6,1,5,90"),
        *("0,7,0,6,99,3", "5,8,6", "2,9,0,6,99"),
    ]


def test_the_bench_reports_its_figures(tmp_path: Path) -> None:
    path = tmp_path / "ops.bin"
    ops.write(path, ops.random_ops(4, 5000))
    figures = json_of("engine-bench", "--ops", path)
    assert {"ops", "seconds", "ops_per_s", "p50_ns", "p99_ns", "p999_ns", "max_ns"} <= figures.keys()
    assert figures["ops"] == 5000 and figures["ops_per_s"] > 0
    assert figures["p50_ns"] <= figures["p99_ns"] <= figures["p999_ns"] <= figures["max_ns"]


def test_an_empty_file_has_nothing_to_report(tmp_path: Path) -> None:
    path = tmp_path / "ops.bin"
    path.write_bytes(b"")
    assert reports_of(path, "book", tmp_path) == ""


@pytest.mark.parametrize("mode", ["book", "venue"])
def test_a_broken_file_exits_2_and_names_the_index(tmp_path: Path, mode: str) -> None:
    path = tmp_path / "ops.bin"
    good = [ops.Op(ops.LIMIT, ops.BUY, 100, number, 1) for number in range(12)]
    ops.write(path, good)
    whole = path.read_bytes()
    for content in (whole[:-5], whole[: 11 * ops.RECORD.size] + b"\x09" + whole[11 * ops.RECORD.size + 1 :]):
        path.write_bytes(content)
        ended = run_pitwire("engine-bench", "--ops", path, "--mode", mode)
        assert ended.returncode == 2 and re.search(r"\b11\b", ended.stderr), ended.stderr


# sim


def test_one_seed_is_one_tape() -> None:
    runs = [json_of("sim", "--preset", "demo", "--seed", seed, "--events", "20000") for seed in ("7", "7", "8")]
    assert runs[0]["tape_hash"] == runs[1]["tape_hash"] != runs[2]["tape_hash"]
    for run in runs:
        assert {"events", "orders", "trades", "wall_s", "events_per_s", "tape_hash"} <= run.keys()
        assert run["events"] == 20_000 and run["trades"] > 0
    assert {name: runs[0][name] for name in ("orders", "trades")} == {
        name: runs[1][name] for name in ("orders", "trades")
    }


def test_a_horizon_in_seconds() -> None:
    run = json_of("sim", "--preset", "demo", "--seed", "7", "--horizon", "60")
    assert run["events"] > 0 and re.fullmatch("[0-9a-f]{64}", run["tape_hash"])


# doctor


def test_doctor_reports_the_capabilities_of_the_machine() -> None:
    doctor = json_of("doctor")
    assert doctor["cores"] >= 1
    lines = run_pitwire("doctor").stdout.splitlines()
    # Only the disk can improve from one moment to the next.
    remedies = [line.split("remedy: ")[1] for line in lines if "remedy: " in line and "acknowledgement" not in line]
    assert [remedy for name, remedy in doctor["remedies"].items() if name != "sync_p50_us"] == remedies


# A full disk


@pytest.mark.parametrize(
    "args", [["doctor"], ["sim", "--preset", "demo", "--seed", "1", "--events", "500"]], ids=lambda args: args[0]
)
def test_output_that_cannot_be_written_is_a_failure(args: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        ended = subprocess.run([BINARY, *args], stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False)
    assert ended.returncode == 1 and ended.stderr.count("\n") == 1, ended.stderr
    assert "could not be written" in ended.stderr and "No space left" in ended.stderr


def test_closed_standard_output_is_not_a_failure() -> None:
    running = subprocess.Popen(
        [BINARY, "sim", "--preset", "demo", "--seed", "1", "--events", "500"], stdout=subprocess.PIPE
    )
    running.stdout.close()
    assert running.wait(timeout=60) == 0
