"""Attacks with simulations that members may start, and full disks under simulations, exports and
recordings."""

from collections.abc import Callable
from pathlib import Path

import pytest
from rpc import Http, RpcError, Ws
from test_disk import small_disk
from test_simulations import file_of, newest, processes, runs
from test_tape import serving
from venue import DEMO_A, DEMO_B, OPERATOR, Venue, run_pitwire

START, GET_FILE = "private/pitwire_start_simulation", "private/pitwire_get_simulation_file"
ORDER = {"instrument_name": "NPN_ZAR", "amount": 1, "type": "limit", "price": 1.0}

# Options outside of the bounds, with the parameter that the refusal names.
WRONG: list[tuple[str, dict[str, object]]] = [
    ("seconds", {"seconds": 0}),
    ("seconds", {"seconds": 86_401}),
    ("seconds", {}),
    ("seconds", {"seconds": 1, "events": 1}),
    ("events", {"events": 10_000_001}),
    ("events", {"events": 2**63}),
    ("clients", {"seconds": 1, "clients": 1_001}),
    ("clients", {"seconds": 1, "clients": -1}),
    ("seed", {"seconds": 1, "seed": -1}),
    ("preset", {"seconds": 1, "preset": "../../etc/passwd"}),
    ("preset", {"seconds": 1, "preset": "--help"}),
    ("flow", {"seconds": 1, "flow": "--out"}),
    ("flow", {"seconds": 1, "flow": "/etc/passwd"}),
    ("flow_file", {"seconds": 1, "flow_file": " "}),
    ("flow_file", {"seconds": 1, "flow": "demo", "flow_file": "x"}),
    ("instruments", {"seconds": 1, "instruments": ["--report"]}),
    ("instruments", {"seconds": 1, "instruments": ["A"] * 101}),
]


def refused(client: Http | Ws, method: str, params: dict[str, object]) -> dict[str, object]:
    with pytest.raises(RpcError) as raised:
        client.result(method, params)
    data: dict[str, object] = raised.value.error["data"]
    return data


@pytest.mark.attack("simulations of a member: wrong options, those of others, without end")
def test_member_gets_no_more_than_its_share_of_simulations(data: Path, tries: Callable[[int], None]) -> None:
    with Venue(data, ["--no-flow", "--member-simulations"]) as venue:
        member, other, operator = (Http(venue.address, who) for who in (DEMO_A, DEMO_B, OPERATOR))
        with Ws(venue.ws_url) as asking:
            asking.login(DEMO_A)
            for param, options in WRONG:
                assert refused(asking, START, options)["param"] == param, options
        tries(len(WRONG))
        assert runs(member) == [] and processes(data) == []
        with Ws(venue.ws_url) as reader:
            grant = {"grant_type": "client_credentials", "scope": "trade:read account:read"}
            grant |= {"client_id": DEMO_A.client_id, "client_secret": DEMO_A.secret}
            reader.result("public/auth", grant)
            assert reader.call(START, {"seconds": 1})["error"]["code"] == 13403
        member.result(START, {"seconds": 86_400})
        run = newest(member, lambda run: run["done"] > 0)["simulation_id"]
        # Further requests start no second process.
        for http in (member, other, operator) * 5:
            assert refused(http, START, {"seconds": 1})["name"] == "simulation_running"
        assert len(processes(data)) == 1
        for name in ("stop", "delete"):
            params = {"simulation_id": run}
            assert refused(other, f"private/pitwire_{name}_simulation", params)["name"] == "unknown_simulation"
        for name in ("../run.json", "run.json", "/etc/passwd", "journal/superblock", "", "report.json\0"):
            answer = refused(member, GET_FILE, {"simulation_id": run, "name": name})
            assert answer["name"] == ("unknown_simulation" if name else "invalid_params"), name
        tries(30)
        # The venue serves members meanwhile, and an operator ends the run.
        assert other.result("private/buy", ORDER)["order"]["order_state"] == "open"
        operator.result("private/pitwire_stop_simulation", {"simulation_id": run})
        newest(member, lambda run: run["state"] == "stopped")
        assert processes(data) == []
        # A member keeps five runs.
        for seed in range(7):
            member.result(START, {"events": 1, "seed": seed})
            newest(member, lambda run: run["state"] in ("done", "failed"))
        assert len(runs(member)) == 5 and runs(other) == []
        assert file_of(member, runs(member)[0]["simulation_id"], "report.json")


@pytest.mark.attack("full disk under simulations, exports and recordings")
def test_small_disk_takes_no_simulation_and_goes_on_with_orders(tmp_path: Path, tries: Callable[[int], None]) -> None:
    with small_disk(tmp_path / "small", 200) as disk, Venue(disk / "data", ["--no-flow"]) as venue:
        operator, member = Http(venue.address, OPERATOR), Http(venue.address, DEMO_A)
        for _ in range(3):
            operator.result(START, {"seconds": 60})
            failed = newest(operator, lambda run: run["state"] == "failed")
            assert "the disk has" in failed["error"] and "MiB" in failed["error"]
            tries(1)
        order = member.result("private/buy", ORDER)["order"]["order_id"]
        assert member.result("private/cancel", {"order_id": order})["order_state"] == "cancelled"
        assert venue.stop() == 0


@pytest.mark.attack("full disk under simulations, exports and recordings")
@pytest.mark.parametrize("how", ["sim", "csv", "parquet", "record"])
def test_command_on_a_full_disk_says_so_and_leaves_no_half_result(tmp_path: Path, how: str) -> None:
    run = tmp_path / "run"
    made = run_pitwire("sim", "--preset", "crypto24x7", "--horizon", "600", "--seed", "4", "--out", run)
    assert made.returncode == 0, made.stderr
    with small_disk(tmp_path / "small", 1) as disk:
        out = disk / "result"
        if how == "record":
            with serving(tmp_path, "--trades", "2000000") as feed:
                ended = run_pitwire("tape", "record", feed.url, out)
                feed.process.kill()
        elif how == "sim":
            ended = run_pitwire("sim", "--preset", "crypto24x7", "--horizon", "600", "--seed", "4", "--out", out)
        else:
            ended = run_pitwire("export", run, "--out", out, "--format", how)
        assert ended.returncode == 1, ended.stdout + ended.stderr
        assert "No space left" in ended.stderr and "panicked" not in ended.stderr, ended.stderr
        if how in ("csv", "parquet"):
            assert list(disk.iterdir()) == [], "the tables appear together or not at all"
