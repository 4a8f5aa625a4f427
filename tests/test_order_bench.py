"""`pitwire order-bench` as a background load: every order is sent and answered, with every kind of
waiting."""

import json
import subprocess
from pathlib import Path

import pytest
from venue import BINARY, Venue

PATIENCE_S = 120
RATE, SECONDS = 2_000, 1


@pytest.mark.parametrize("wait", ["awake", "asleep"])
def test_open_loop_sends_every_due_request_and_receives_every_answer(wait: str, tmp_path: Path) -> None:
    with Venue(tmp_path / "data", ["--no-flow", "--durability", "memory"]) as venue:
        load = ["--mode", "open", "--rate", str(RATE), "--seconds", str(SECONDS), "--wait", wait]
        command = [BINARY, "order-bench", *load, "--venue", venue.address, "--json"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 0, ended.stderr
    figures = json.loads(ended.stdout)
    assert (figures["count"], figures["refused"], figures["unanswered"]) == (RATE * SECONDS, 0, 0)
    # An answer follows its order, and the order is not sent before it is due.
    assert figures["p50_us"] > figures["sent_late_p50_us"] >= 0


# Orders of a load. An account has at most 10,000 open orders by default, and `open` uses two.
MANY = 22_000


@pytest.mark.parametrize(
    "load",
    [["open", "--rate", str(MANY // 2), "--seconds", "2"], ["pairs", "--pairs", "1", "--requests", str(MANY)]],
    ids=lambda load: load[0],
)
def test_a_load_has_more_open_orders_than_a_member_by_default(load: list[str], tmp_path: Path) -> None:
    with Venue(tmp_path / "data", ["--no-flow", "--durability", "memory"]) as venue:
        command = [BINARY, "order-bench", "--mode", *load, "--venue", venue.address, "--json"]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout).get("refused", 0) == 0
