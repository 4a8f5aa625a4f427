"""`pitwire bench` against the real venue, and against servers that are none."""

import json
import os
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from venue import BINARY, DEMO_A, DEMO_B, Credentials, Venue

Done = subprocess.CompletedProcess[str]
COUNT = 300


def bench(*args: str, who: Credentials | None = DEMO_A) -> Done:
    names = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    if who is not None:
        names |= {"PITWIRE_CLIENT_ID": who.client_id, "PITWIRE_CLIENT_SECRET": who.secret}
    command = [BINARY, "bench", *args]
    # On a busy machine the venue waits for the time slices of a client that never sleeps.
    return subprocess.run(command, capture_output=True, text=True, timeout=280, check=False, env=names)


def figures(*args: str, who: Credentials | None = DEMO_A) -> Any:
    ended = bench(*args, "--json", who=who)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("\n") == 1
    return json.loads(ended.stdout)


def hgrm_count(file: Path) -> int:
    """The sum of a histogram file, from its last row; the footer must agree."""
    lines = file.read_text().splitlines()
    last_row = [line for line in lines[2:] if not line.startswith("#")][-1]
    footer = next(line for line in lines if line.startswith("#[Max"))
    total = int(last_row.split()[2])
    assert f"= {total:12d}]" in footer
    return total


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Venue]:
    with Venue(tmp_path_factory.mktemp("bench") / "data", ["--no-flow", "--durability", "memory"]) as venue:
        yield venue


@pytest.fixture
def maker(tmp_path: Path) -> str:
    file = tmp_path / "maker.toml"
    file.write_text(f'client_id = "{DEMO_B.client_id}"\nclient_secret = "{DEMO_B.secret}"\n')
    file.chmod(0o600)
    return str(file)


SMALL = ["--count", str(COUNT), "--rounds", "2", "--updates", "2000", "--price", "1500"]
MEASUREMENTS = [
    "propagation",
    "order placement",
    "trading loop",
    "new connection",
    "book change to applied",
    "book update",
]


@pytest.mark.parametrize(
    "variant",
    [
        ["--threads", "event-loop"],
        ["--threads", "busy-loop"],
        ["--threads", "spin-loop"],
        ["--threads", "per-connection", "--connections", "2"],
        ["--threads", "pool", "--connections", "3", "--rate", "500"],
    ],
)
def test_loop_measures_every_operation_once(variant: list[str], quiet: Venue, maker: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    run = figures("loop", quiet.ws_url, "--maker-credentials", maker, *SMALL, "--out", str(out), *variant)
    assert run["left_out"] == []
    found = {one["name"]: one for one in run["measurements"]}
    assert list(found) == MEASUREMENTS
    for name in MEASUREMENTS[:3]:
        one = found[name]
        assert one["count"] == COUNT == one["cost"]["operations"], name
        assert one["request_bytes"] > 50 < one["answer_bytes"], name
        assert one["tcp"]["count"] == COUNT, name
        # 300 values allow p50, and not p90.
        assert one["p50_us"] > 0 and one["p90_us"] is None, name
        assert one["cost"]["allocations"] > 0 < one["cost"]["cpu_us"], name
        assert hgrm_count(out / f"{name.replace(' ', '-')}.hgrm") == COUNT
    assert found["book update"]["cost"]["operations"] >= 2000
    assert run["updates_per_s"] > 0


def test_loop_leaves_no_order_and_names_skipped_measurements(quiet: Venue) -> None:
    run = figures("loop", quiet.ws_url, *SMALL)
    assert [one["name"] for one in run["measurements"]] == [name for name in MEASUREMENTS if name != "trading loop"]
    assert "--maker-credentials" in run["left_out"][0]
    open_orders = subprocess.run(
        [BINARY, "trade", "--url", quiet.ws_url, "orders", "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=os.environ | {"PITWIRE_CLIENT_ID": DEMO_A.client_id, "PITWIRE_CLIENT_SECRET": DEMO_A.secret},
    )
    assert json.loads(open_orders.stdout) == []


def test_tables_without_a_terminal_have_no_colours(quiet: Venue) -> None:
    ended = bench("loop", quiet.ws_url, *SMALL)
    assert ended.returncode == 0 and "\x1b" not in ended.stdout, ended.stderr
    assert "order placement to tcp: p50" in ended.stdout


def refusal(ended: Done, code: int, *words: str) -> None:
    assert (ended.returncode, ended.stdout) == (code, ""), ended.stderr
    assert ended.stderr.count("\n") == 1 and all(word in ended.stderr for word in words), ended.stderr


def test_wrong_urls_and_credentials_are_refused(quiet: Venue) -> None:
    refusal(bench("loop", f"http://{quiet.address}/"), 2, "ws://")
    refusal(bench("loop", f"ws://{quiet.address}/healthz"), 1, "does not open a WebSocket")
    refusal(bench("loop", quiet.ws_url, who=Credentials("demo-a", "wrong")), 1, "13004")
    refusal(bench("loop", quiet.ws_url, "--instrument", "NONE"), 1, "instrument")


def test_a_venue_that_never_answers_ends_the_benchmark() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:
        port = listener.getsockname()[1]
        accepted: list[socket.socket] = []
        threading.Thread(target=lambda: accepted.append(listener.accept()[0]), daemon=True).start()
        refusal(bench("loop", f"ws://127.0.0.1:{port}/", "--timeout", "1"), 1, "no answer in 1s")


def test_output_to_a_closed_pipe_does_not_panic(quiet: Venue) -> None:
    command = [BINARY, "bench", "loop", quiet.ws_url, "--count", "10", "--updates", "10", "--price", "1500"]
    reading, writing = os.pipe()
    os.close(reading)
    env = {"PITWIRE_CLIENT_ID": DEMO_A.client_id, "PITWIRE_CLIENT_SECRET": DEMO_A.secret}
    ended = subprocess.run(
        command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=120, check=False, env=env
    )
    os.close(writing)
    assert "panicked" not in ended.stderr and ended.returncode in (0, 1), ended.stderr


@pytest.mark.parametrize("mode", ["paper", "pipelined", "inprocess"])
def test_hawkes_rows_have_all_their_orders(mode: str, tmp_path: Path) -> None:
    out, data = tmp_path / "out", tmp_path / "data"
    size = ["--clients", "1,2", "--orders", str(COUNT), "--rate", "2000", "--data", str(data), "--out", str(out)]
    run = figures("hawkes", "--mode", mode, *size, who=None)
    assert not data.exists()
    assert [(row["clients"], row["stocks"], row["orders"]) for row in run["rows"]] == [(1, 1, COUNT), (2, 2, 2 * COUNT)]
    for row in run["rows"]:
        # A market order without a counterpart is refused. Most orders are accepted.
        assert row["refused"] < row["orders"] / 2
        assert row["count"] <= row["orders"] and row["orders_per_s"] > 0 < row["p50_us"]
        assert hgrm_count(out / f"{mode}-pairs-{row['clients']}.hgrm") == row["count"]
    assert len(run["published_on_other_hardware"]["table_5"]) == 10
    page = (out / "report.html").read_text()
    assert page.count("<svg") == 2 and "other hardware" in page
    assert json.loads((out / "report.json").read_text()) == run


def test_hawkes_keeps_a_directory_that_is_not_empty(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("x")
    refusal(bench("hawkes", "--mode", "inprocess", "--data", str(tmp_path), who=None), 2, "not empty", "--data")
    assert (tmp_path / "mine").read_text() == "x"
