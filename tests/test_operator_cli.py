"""`pitwire operator` against a real venue: its output, its effects, its exit codes."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from rpc import Http, RpcError
from venue import BINARY, DEMO_A, OPERATOR, Credentials, Venue, run_pitwire

ORDER = {"instrument_name": "NPN_ZAR", "amount": 1, "price": 3000}


def run(venue: Venue, *arguments: str, who: Credentials = OPERATOR) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PITWIRE_CLIENT_ID": who.client_id, "PITWIRE_CLIENT_SECRET": who.secret}
    command = [BINARY, "operator", "--url", venue.ws_url, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


def trade(venue: Venue, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PITWIRE_CLIENT_ID": DEMO_A.client_id, "PITWIRE_CLIENT_SECRET": DEMO_A.secret}
    command = [BINARY, "trade", "--url", venue.ws_url, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)


def operate(venue: Venue, *arguments: str) -> object:
    done = run(venue, "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def own(data: Path) -> Venue:
    with Venue(data, extra=["--no-flow", "--key-file", str(data.parent / "vault.key")]) as venue:
        yield venue


def refused(http: Http, params: dict) -> int:
    with pytest.raises(RpcError) as error:
        http.result("private/buy", params)
    return error.value.code


def test_a_remedy_that_names_a_limit_comes_with_it(own: Venue) -> None:
    operate(
        own, "create-instrument", "XYZ", "ZAR", "--tick", "0.01", "--lot", "1", "--start", "12.50", "--collar", "10"
    )
    ended = trade(own, "buy", "XYZ_ZAR", "1", "13.76")
    assert ended.returncode == 1 and "data.limit has the highest" in ended.stderr
    assert "[price], data.limit: 13.75 (" in ended.stderr, ended.stderr


def test_an_operators_day(own: Venue) -> None:
    member = Http(own.address, DEMO_A)
    assert operate(own, "status")["venue_killed"] is False
    assert operate(own, "halt", "NPN_ZAR") == "ok"
    assert refused(member, ORDER) == 10012
    operate(own, "resume", "NPN_ZAR")
    member.result("private/buy", ORDER)
    assert [order["name"] for order in operate(own, "orders")] == ["demo-a"]
    assert operate(own, "kill", "account", "demo-a", "--reason", "drill") == {"cancelled": 1}
    assert refused(member, ORDER) == 10019
    operate(own, "lift", "account", "demo-a")
    member.result("private/buy", ORDER)
    operate(
        own, "create-instrument", "XYZ", "ZAR", "--tick", "0.01", "--lot", "1", "--start", "12.50", "--collar", "10"
    )
    assert refused(member, {"instrument_name": "XYZ_ZAR", "amount": 1, "price": 13.76}) == 10007
    operate(own, "change-account", "demo-a", "--max-open-orders", "1")
    assert refused(member, ORDER) == 10013
    carol = operate(own, "create-account", "carol")
    operate(own, "deposit", "carol", "ZAR", "250.50")
    hers = Http(own.address, Credentials(carol["client_id"], carol["client_secret"]))
    assert hers.result("private/get_account_summary", {"currency": "ZAR"})["balance"] == 250.5
    operate(own, "deposit", "carol", "ZAR", "-250.50")
    assert hers.result("private/get_account_summary", {"currency": "ZAR"})["balance"] == 0
    operate(own, "delete-account", "carol")
    assert operate(own, "flow", "start", "--rate", "50") == {"running": True, "rate_percent": 50}
    one = {"instrument_name": "XYZ_ZAR", "running": False, "rate_percent": 20}
    assert operate(own, "flow", "stop", "--instrument", "XYZ_ZAR", "--rate", "20") == one
    assert operate(own, "flow") == {"running": True, "rate_percent": 50, "instruments": [one]}
    assert "demo-a" in run(own, "accounts").stdout
    for http in (hers, member):
        http.close()


def test_a_start_sets_the_flow_by_instrument(data: Path) -> None:
    extra = ["--flow-rate", "NPN_ZAR=50", "--flow-rate", "SBK_ZAR=0"]
    with Venue(data, extra=[*extra, "--key-file", str(data.parent / "vault.key")]) as venue:
        flow = operate(venue, "flow")
        shown = run(venue, "flow").stdout.splitlines()
    half = {"instrument_name": "NPN_ZAR", "running": True, "rate_percent": 50}
    none = {"instrument_name": "SBK_ZAR", "running": False, "rate_percent": 100}
    assert sorted(flow["instruments"], key=lambda one: one["instrument_name"]) == [half, none]
    assert "the order flow of NPN_ZAR runs at 50 % of the venue's flow" in shown
    assert "the order flow of SBK_ZAR is stopped" in shown


@pytest.mark.parametrize(("rate", "reason"), [("NO_ZAR=50", "no instrument is named"), ("NPN_ZAR=x", "a percentage")])
def test_a_start_refuses_the_flow_of_an_unknown_instrument(data: Path, rate: str, reason: str) -> None:
    own_files = ["--data", data, "--key-file", data.parent / "vault.key"]
    refusal = run_pitwire("up", *own_files, "--http", "127.0.0.1:0", "--flow-rate", rate)
    assert refusal.returncode == 2 and reason in refusal.stderr, refusal.stderr


def test_the_drop_copy_is_printed_line_by_line(own: Venue) -> None:
    environment = os.environ | {"PITWIRE_CLIENT_ID": OPERATOR.client_id, "PITWIRE_CLIENT_SECRET": OPERATOR.secret}
    command = [BINARY, "operator", "--url", own.ws_url, "watch", "demo-a", "--count", "2"]
    watching = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    member = Http(own.address, DEMO_A)
    try:
        while watching.poll() is None:
            member.result("private/buy", ORDER)
            member.result("private/cancel_all")
        lines = [json.loads(line)["data"] for line in watching.stdout.read().splitlines()]
    finally:
        watching.kill()
        watching.wait()
        member.close()
    assert {line["account"] for line in lines} == {"demo-a"}
    assert {line["type"] for line in lines} == {"accepted", "cancelled"}


def test_refusals_are_one_clear_line(own: Venue) -> None:
    for arguments, who, said in [
        (["status"], DEMO_A, "operator"),
        (["status"], Credentials("demo-operator", "wrong"), "13004"),
        (["halt", "NOPE_ZAR"], OPERATOR, "13020"),
        (["kill", "order", "999", "--reason", "x"], OPERATOR, "10004"),
        (["bust", "1000000000001", "--reason", "x"], OPERATOR, "13020"),
        (["deposit", "unknown", "ZAR", "10"], OPERATOR, "lists them"),
    ]:
        done = run(own, *arguments, who=who)
        assert done.returncode == 1, arguments
        assert said in done.stderr and len(done.stderr.strip().splitlines()) == 1, done.stderr
    # A name after `venue` is a mistake.
    for verb in (["kill", "venue", "demo-a", "--reason", "x"], ["lift", "venue", "demo-a"]):
        done = run(own, *verb)
        assert done.returncode == 2 and "account demo-a" in done.stderr, done.stderr
        assert len(done.stderr.strip().splitlines()) == 1, done.stderr
    # A limit is set and taken away.
    for value in ("25", "0"):
        for limit in ("--collar", "--max-amount", "--max-notional"):
            assert run(own, "change-instrument", "NPN_ZAR", limit, value).returncode == 0, limit
    assert run(own, "change-instrument", "NPN_ZAR", "--collar", "-1").returncode == 2
    for arguments in [["kill", "venue"], ["kill"], ["flow", "pause"], ["deposit", "carol"], []]:
        assert run(own, *arguments).returncode == 2, arguments
