"""The history of a run: what stays on disk, and what `doctor` and `/healthz` say about it."""

import json
import shutil
import time
import urllib.request
from pathlib import Path

import pytest
from venue import Venue, run_pitwire

PATIENCE_S = 60
SEGMENT_BYTES = 16 << 20


def health(venue: Venue) -> dict:
    with urllib.request.urlopen(f"http://{venue.address}/healthz", timeout=PATIENCE_S) as answer:
        return json.load(answer)


def test_healthz_and_doctor_say_how_much_disk_a_run_uses(tmp_path: Path) -> None:
    with Venue(tmp_path / "data", ["--no-flow", "--keep", "all"]) as venue:
        deadline = time.monotonic() + PATIENCE_S
        while "disk" not in (found := health(venue)):
            assert time.monotonic() < deadline, found
            time.sleep(0.05)
        assert found["disk"]["bytes"] > 0 and found["disk"]["free_bytes"] > 0
        assert found["disk"]["lasts_s"] is None, "a young run has no rate"
        doctor = json.loads(run_pitwire("doctor", "--json", "--data", venue.data).stdout)
        assert doctor["data_bytes"] >= SEGMENT_BYTES and doctor["data_free_bytes"] > 0
        assert venue.stop() == 0
    empty = json.loads(run_pitwire("doctor", "--json", "--data", tmp_path).stdout)
    assert "data_bytes" not in empty


@pytest.mark.parametrize("keep", ["some", "0h", "5", "1.5h"])
def test_a_wrong_bound_is_refused_with_examples(keep: str, tmp_path: Path) -> None:
    ended = run_pitwire("up", "--data", tmp_path / "data", "--keep", keep)
    assert ended.returncode == 2 and "6h" in ended.stderr and "20GB" in ended.stderr
    assert not (tmp_path / "data").exists()


def figures_until(data: Path, until: int) -> dict:
    ended = run_pitwire("verify", data, "--json", "--until", str(until))
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def quiet(data: Path) -> Venue:
    return Venue(data, ["--no-flow", "--no-clients", "--key-file", str(data.parent / "vault.key")])


def segments(data: Path, suffix: str) -> list[Path]:
    return sorted(data.glob(f"journal-*{suffix}"))


@pytest.fixture(scope="module")
def finished_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict]:
    """A directory with two full segments and two snapshots, and its figures."""
    data = tmp_path_factory.mktemp("history") / "data"
    ended = run_pitwire("sim", "--seed", "7", "--events", "700000", "--out", data, "--json")
    assert ended.returncode == 0, ended.stderr
    figures = json.loads(run_pitwire("verify", data, "--json").stdout)
    # The stop of each run writes a snapshot.
    for _ in range(2):
        with quiet(data) as venue:
            assert venue.stop() == 0
    return data, figures


@pytest.fixture
def long_run(finished_run: tuple[Path, dict], tmp_path: Path) -> tuple[Path, dict]:
    """A copy of the finished run, for one test."""
    original, figures = finished_run
    data = tmp_path / "data"
    shutil.copytree(original, data)
    return data, figures


def compressed(data: Path) -> Path:
    """Starts the venue until its old segments are compressed, and returns the first one."""
    with quiet(data) as venue:
        deadline = time.monotonic() + PATIENCE_S
        while "compressed old segments" not in venue.log_tail():
            assert time.monotonic() < deadline, venue.log_tail()
            time.sleep(0.05)
        assert venue.stop() == 0
    return segments(data, ".seg.zst")[0]


def test_a_kill_during_compression_loses_nothing(long_run: tuple[Path, dict]) -> None:
    data, figures = long_run
    plain = len(segments(data, ".seg"))
    assert plain >= 3
    for kill in range(2):
        with quiet(data) as venue:
            deadline = time.monotonic() + PATIENCE_S
            done = len(segments(data, ".seg.zst"))
            # Kill while a segment is under construction, or directly after one has its name.
            while not segments(data, ".seg.zst.new") and len(segments(data, ".seg.zst")) == done:
                if "compressed old segments" in venue.log_tail():
                    break
                assert time.monotonic() < deadline, (kill, venue.log_tail())
                time.sleep(0.002)
            venue.kill()
        again = figures_until(data, figures["commands"])
        assert {name: again[name] for name in ("state_hash", "tape_hash", "orders", "trades")} == {
            name: figures[name] for name in ("state_hash", "tape_hash", "orders", "trades")
        }
    if not segments(data, ".seg.zst"):
        compressed(data)
    assert figures_until(data, figures["commands"])["output_hash"] == figures["output_hash"]


def test_commands_read_compressed_segments_and_name_a_damaged_one(long_run: tuple[Path, dict], tmp_path: Path) -> None:
    data, figures = long_run
    first = compressed(data)
    assert first.name == "journal-00000001.seg.zst" and not first.with_suffix("").exists()
    assert figures_until(data, figures["commands"])["tape_hash"] == figures["tape_hash"]
    explained = (run_pitwire("explain", "--data", data, "--order", str(order), "--json") for order in range(200, 220))
    assert any(found.returncode == 0 for found in explained), "most early commands are orders"
    for command in (["backup", data, tmp_path / "copy"], ["restore", tmp_path / "copy", tmp_path / "again"]):
        copied = run_pitwire(*command)
        assert copied.returncode == 0, copied.stderr
    assert (tmp_path / "again" / first.name).read_bytes() == first.read_bytes()

    whole = first.read_bytes()
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 0x55
    for content in (damaged, whole[: len(whole) // 2], b""):
        first.write_bytes(content)
        for command in (
            ["verify", data],
            ["backup", data, tmp_path / "other"],
            ["explain", "--data", data, "--at", "1"],
        ):
            refused = run_pitwire(*command)
            assert refused.returncode == 1, command
            assert f"{first.name} is damaged" in refused.stderr and "restore this file" in refused.stderr
    with quiet(data) as venue:
        assert venue.stop() == 0, "the venue starts without the damaged segment"
    # The remedy that the error names.
    first.rename(tmp_path / first.name)
    verified = run_pitwire("verify", data, "--json")
    assert verified.returncode == 0 and json.loads(verified.stdout)["from_command"] > 0, verified.stderr


def test_a_bound_is_announced_before_anything_is_dropped(long_run: tuple[Path, dict]) -> None:
    data, figures = long_run
    with Venue(data, [*quiet(data).extra, "--keep", "1MB"]) as venue:
        assert venue.stop() == 0
        assert "the next snapshot drops the history up to this command" in venue.log_tail(), venue.log_tail()
        assert "--keep all" in venue.log_tail()
    assert figures_until(data, figures["commands"])["tape_hash"] == figures["tape_hash"]
