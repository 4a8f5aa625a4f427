"""Simulations that operators and members start on a venue, with the real processes."""

import base64
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from rpc import Http, RpcError
from venue import BINARY, DEMO_A, DEMO_B, OPERATOR, Venue, run_pitwire

PATIENCE_S = 120


@pytest.fixture
def venue(data: Path) -> Venue:
    with Venue(data, extra=["--no-flow"]) as running:
        yield running


def runs(http: Http) -> list[dict]:
    return http.result("private/pitwire_get_simulations")


def newest(http: Http, test: Callable[[dict], bool]) -> dict:
    end = time.monotonic() + PATIENCE_S
    while not (found := runs(http)) or not test(found[0]):
        assert time.monotonic() < end, found
        time.sleep(0.05)
    return found[0]


def file_of(http: Http, run: int, name: str) -> bytes:
    content, offset = b"", 0
    while offset is not None:
        params = {"simulation_id": run, "name": name, "offset": offset}
        part = http.result("private/pitwire_get_simulation_file", params)
        if part["state"] == "done":
            content += base64.b64decode(part["data"])
            offset = part["next_offset"]
    return content


def processes(data: Path) -> list[int]:
    """Processes that work in the directory of a simulation."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cwd").readlink().is_relative_to(data / "simulations"):
                found.append(int(entry.name))
        except OSError:
            continue
    return found


def test_a_simulation_is_a_run_of_the_command_line(venue: Venue, data: Path) -> None:
    http = Http(venue.address, OPERATOR)
    options = {"preset": "crypto24x7", "seed": 5, "seconds": 60, "flow": "market", "clients": 9}
    started = http.result("private/pitwire_start_simulation", options)
    done = newest(http, lambda run: run["state"] in ("done", "failed"))
    assert done["state"] == "done", done
    alone = run_pitwire(*started["command"].split()[1:], "--json")
    assert json.loads(alone.stdout)["tape_hash"] == done["result"]["tape_hash"]
    report = json.loads(file_of(http, 1, "report.json"))
    assert report == json.loads(alone.stdout)["report"]
    exported = run_pitwire("export", data / "simulations/1/journal", "--out", data / "tables")
    assert exported.returncode == 0, exported.stderr
    http.result("private/pitwire_export_simulation", {"simulation_id": 1, "format": "csv"})
    done = newest(http, lambda run: run["state"] == "done")
    assert file_of(http, 1, "csv/trades.csv") == (data / "tables/trades.csv").read_bytes()
    assert "error" not in done
    assert run_pitwire("verify", data).returncode == 0, "the venue's own directory is as before"


def test_a_simulation_outlives_its_operators_login_and_not_its_venue(venue: Venue, data: Path) -> None:
    http = Http(venue.address, OPERATOR)
    http.result("private/pitwire_start_simulation", {"seconds": 86_400})
    newest(http, lambda run: run["done"] > 0)
    with pytest.raises(RpcError) as refused:
        Http(venue.address, DEMO_A).result("private/pitwire_get_simulations")
    assert refused.value.code == 13021
    again = Http(venue.address, OPERATOR)
    before = runs(again)[0]["done"]
    newest(again, lambda run: run["done"] > before)
    assert len(processes(data)) == 1
    venue.kill()
    end = time.monotonic() + PATIENCE_S
    while processes(data):
        assert time.monotonic() < end, "the process goes on"
        time.sleep(0.05)
    with Venue(data, extra=["--no-flow"]) as next_venue:
        left = runs(Http(next_venue.address, OPERATOR))[0]
        assert left["state"] == "failed"
        assert left["error"].startswith("the venue ended before the run")


def test_a_member_has_its_own_simulations_if_the_venue_allows_them(data: Path) -> None:
    with Venue(data, extra=["--no-flow", "--member-simulations"]) as venue:
        member, other, operator = (Http(venue.address, who) for who in (DEMO_A, DEMO_B, OPERATOR))
        member.result("private/pitwire_start_simulation", {"seconds": 60, "seed": 3})
        done = newest(member, lambda run: run["state"] in ("done", "failed"))
        assert done["state"] == "done" and done["member"] == "demo-a", done
        report = json.loads(file_of(member, 1, "report.json"))
        assert report["instruments"][0]["path"]["intervals"]
        latency = done["result"]["latency"]
        assert sum(bar["commands"] for bar in latency["bars"]) > done["result"]["events"]
        assert 0 < latency["p50_ns"] <= latency["p99_ns"] <= latency["max_ns"]
        assert runs(other) == [] and len(runs(operator)) == 1
        with pytest.raises(RpcError) as refused:
            file_of(other, 1, "report.json")
        assert refused.value.error["data"]["name"] == "unknown_simulation"


def test_the_command_line_starts_lists_exports_and_saves_simulations(venue: Venue, tmp_path: Path) -> None:
    def operator(*arguments: str, code: int = 0) -> str:
        login = {"PITWIRE_CLIENT_ID": OPERATOR.client_id, "PITWIRE_CLIENT_SECRET": OPERATOR.secret}
        command = [BINARY, "operator", "--url", venue.ws_url, "simulation", *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=60, check=False, env=os.environ | login, cwd=tmp_path
        )
        assert done.returncode == code, done.stderr
        return done.stdout + done.stderr

    http = Http(venue.address, OPERATOR)
    assert operator("list") == "none\n"
    flow = tmp_path / "mine.toml"
    flow.write_text(run_pitwire("flow", "show", "bacry-muzy").stdout)
    assert operator("start", "--seconds", "60", "--seed", "5", "--flow", str(flow)).startswith(
        "simulation 1 has started"
    )
    newest(http, lambda run: run["state"] == "done")
    shown = operator("list")
    assert shown.splitlines()[1].split()[:5] == ["1", "done", "100", "%", "demo"], shown
    operator("export", "1")
    newest(http, lambda run: run["state"] == "done" and len(run["files"]) > 3)
    assert "is saved in simulation-1-report.html" in operator("file", "1")
    assert (tmp_path / "simulation-1-report.html").read_bytes() == file_of(http, 1, "report.html")
    operator("file", "1", "csv/trades.csv", "--out", "trades.csv")
    assert (tmp_path / "trades.csv").read_bytes() == file_of(http, 1, "csv/trades.csv")
    assert "name another file with --out" in operator("file", "1", code=1)
    operator("start", "--seconds", "86400")
    newest(http, lambda run: run["done"] > 0)
    assert "simulation 2 is being stopped" in operator("stop", "2")
    newest(http, lambda run: run["state"] == "stopped")
    assert "simulation 1 is deleted" in operator("delete", "1")
    assert [run["simulation_id"] for run in runs(http)] == [2]


def test_a_slow_run_waits_and_has_the_same_tape() -> None:
    arguments = ["sim", "--seed", "7", "--horizon", "4", "--instruments", "BTC_USDC", "--json"]
    fast, slow = (json.loads(run_pitwire(*arguments, *speed).stdout) for speed in ([], ["--speed", "4"]))
    assert slow["tape_hash"] == fast["tape_hash"]
    # Four seconds of venue time at four a second.
    assert slow["wall_s"] > 0.5
    for speed in ("0", "1000001", "nan", "0.5"):
        refused = run_pitwire(*arguments, "--speed", speed)
        assert refused.returncode == 2 and "--speed" in refused.stderr, refused.stderr


def test_a_killed_process_and_an_unstable_flow_fail_a_simulation(venue: Venue, data: Path) -> None:
    http = Http(venue.address, OPERATOR)
    http.result("private/pitwire_start_simulation", {"seconds": 86_400})
    newest(http, lambda run: run["done"] > 0)
    os.kill(processes(data)[0], signal.SIGKILL)
    assert "signal 9" in newest(http, lambda run: run["state"] == "failed")["error"]
    unstable = """[[flow]]
[[flow.type]]
name = "a"
base_per_s = 1.0
order = "join"
[[flow.kernel]]
jump_per_s = [[1.0]]
decay_per_s = 1.0
"""
    http.result("private/pitwire_start_simulation", {"seconds": 60, "flow_file": unstable})
    failed = newest(http, lambda run: run["simulation_id"] == 2 and run["state"] == "failed")
    assert "spectral radius 1.000" in failed["error"], failed
    http.result("private/pitwire_start_simulation", {"seconds": 60, "instruments": json.dumps(["NPN_ZAR", "ABSENT"])})
    failed = newest(http, lambda run: run["simulation_id"] == 3 and run["state"] == "failed")
    assert 'no instrument "ABSENT"' in failed["error"], failed
