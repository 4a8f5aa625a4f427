"""Credentials and logins end when they are revoked, at once and after a restart."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rpc import Http, RpcError, Ws, now_ms, until
from test_access import SteppedClock
from venue import BINARY, DEMO_A, DEMO_B, OPERATOR, TOP, Credentials, Venue
from websockets.exceptions import ConnectionClosed

UNAUTHORIZED, WRONG, LOCKED, SLOWED = 13009, 13004, 10019, 10028


def quiet(data: Path) -> list[str]:
    return ["--no-flow", "--key-file", str(data.parent / "vault.key")]


def login_code(venue: Venue, credentials: Credentials) -> int:
    """Zero, or the code with which a login is refused."""
    with Ws(venue.ws_url) as ws:
        try:
            ws.login(credentials)
        except RpcError as refused:
            return refused.code
    return 0


def operate(venue: Venue, method: str, **params: str) -> dict[str, str]:
    with Ws(venue.ws_url) as ws:
        ws.login(OPERATOR)
        return ws.result(f"private/pitwire_{method}", params)


def is_closed(ws: Ws) -> bool:
    """Waits until the venue closes the connection, and says whether it named the reason."""
    try:
        while True:
            ws.arrive()
    except ConnectionClosed as closed:
        return closed.rcvd is not None and closed.rcvd.code == 1008 and "login has ended" in closed.rcvd.reason


@pytest.mark.attack("revoked credential")
def test_revoked_credentials_end_sockets_and_stay_revoked(data: Path) -> None:
    with Venue(data, extra=quiet(data)) as venue:
        with Ws(venue.ws_url) as first, Ws(venue.ws_url) as other:
            token = first.login(DEMO_A)["access_token"]
            other.login(DEMO_B)
            rotated = operate(venue, "rotate_credential", client_id="demo-a")
            assert is_closed(first)
            bearer = {"Authorization": f"Bearer {token}"}
            refused = Http(venue.address).get("/api/v2/private/get_open_orders", bearer).json()
            assert refused["error"]["code"] == UNAUTHORIZED
            assert other.result("private/get_open_orders") == []
            operate(venue, "remove_credential", client_id="demo-b")
            assert is_closed(other)
        renewed = Credentials("demo-a", rotated["client_secret"])
        carol = operate(venue, "create_account", name="carol")
        hers = Credentials(carol["client_id"], carol["client_secret"])
        with Ws(venue.ws_url) as ws:
            ws.login(hers)
            operate(venue, "delete_account", name="carol")
            assert is_closed(ws)
        codes = [login_code(venue, who) for who in (DEMO_A, DEMO_B, renewed, hers)]
        assert codes == [WRONG, WRONG, 0, WRONG]
        venue.kill()
        venue.start()
        assert [login_code(venue, who) for who in (DEMO_A, DEMO_B, renewed, hers)] == codes
        assert "demo-a-secret" not in venue.log_file.read_text().rpartition("Pitwire is up")[2]


@pytest.mark.attack("login of a killed account")
def test_killed_account_has_no_logins_until_it_is_lifted(data: Path) -> None:
    with Venue(data, extra=quiet(data)) as venue:
        with Ws(venue.ws_url) as ws:
            ws.login(DEMO_A)
            operate(venue, "kill", scope="account", name="demo-a", reason="drill")
            assert is_closed(ws)
        assert login_code(venue, DEMO_A) == LOCKED
        venue.kill()
        venue.start()
        assert login_code(venue, DEMO_A) == LOCKED
        operate(venue, "lift", scope="account", name="demo-a")
        assert login_code(venue, DEMO_A) == 0


@pytest.mark.attack("guessed secrets")
def test_failed_logins_are_slowed_counted_and_logged(data: Path) -> None:
    with Venue(data, extra=quiet(data)) as venue, Ws(venue.ws_url) as ws:
        codes = []
        for number in range(300):
            grant = {"grant_type": "client_credentials", "client_id": "demo-a", "client_secret": f"guess {number}"}
            codes.append(ws.call("public/auth", grant)["error"]["code"])
        assert codes[:50] == [WRONG] * 50 and set(codes) == {WRONG, SLOWED}
        lines = Http(venue.address).get("/metrics").body.decode().splitlines()
        counted = {
            line.split()[0]: int(line.split()[1]) for line in lines if line.startswith("pitwire_") and "login" in line
        }
        assert counted["pitwire_failed_logins_total"] == codes.count(WRONG)
        assert counted["pitwire_slowed_logins_total"] == codes.count(SLOWED)
        until(lambda: "login failed" in venue.log_file.read_text(), "a log line")
        # The allowance comes back.
        until(lambda: login_code(venue, DEMO_B) == 0, "a later login")


def demo_grant(scope: str) -> dict[str, object]:
    grant = {"grant_type": "client_credentials", "client_id": DEMO_A.client_id, "client_secret": DEMO_A.secret}
    return grant | {"scope": scope}


def token_code(venue: Venue, granted: dict[str, str]) -> int:
    """Zero, or the code with which a request with the access token is refused."""
    bearer = {"Authorization": f"Bearer {granted['access_token']}"}
    answer = Http(venue.address).get("/api/v2/private/get_open_orders", bearer).json()
    code: int = answer.get("error", {}).get("code", 0)
    return code


@pytest.mark.attack("stolen refresh token")
def test_refresh_token_that_comes_twice_ends_its_login(data: Path) -> None:
    with Venue(data, extra=quiet(data)) as venue, Ws(venue.ws_url) as member, Ws(venue.ws_url) as thief:
        first = member.result("public/auth", demo_grant("session:own"))
        refresh = {"grant_type": "refresh_token", "refresh_token": first["refresh_token"]}
        second = member.result("public/auth", refresh)
        assert token_code(venue, second) == 0
        assert thief.call("public/auth", refresh)["error"]["code"] == UNAUTHORIZED
        assert is_closed(member)
        assert [token_code(venue, granted) for granted in (first, second)] == [UNAUTHORIZED, UNAUTHORIZED]


@pytest.mark.attack("session left open on another machine")
def test_logout_ends_the_other_connections_of_the_session(data: Path) -> None:
    with Venue(data, extra=quiet(data)) as venue, Ws(venue.ws_url) as here, Ws(venue.ws_url) as there:
        there.result("public/auth", demo_grant("session:own"))
        here.result("public/auth", demo_grant("session:own"))
        here.post("private/logout", {"invalidate_token": True})
        assert is_closed(there)


@pytest.mark.attack("expired token and a clock set back")
def test_expired_token_stays_expired_when_the_clock_steps_back(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SteppedClock(tmp_path, monkeypatch)
    with Venue(data, extra=quiet(data)) as venue:
        http = Http(venue.address)
        granted = http.result("public/auth", demo_grant("expires:1"))
        until(lambda: token_code(venue, granted) == UNAUTHORIZED, "the token expires")
        clock.step(-3600)
        assert http.result("public/get_time") < now_ms() - 3_500_000, "the step is seen"
        assert token_code(venue, granted) == UNAUTHORIZED


# Inside of a network namespace whose only address besides loopback is 10.77.0.1.
INSIDE = """
import json, os, subprocess, sys, time
binary, data, ready, *flags = sys.argv[1:]
log = open(ready + ".log", "w")
venue = subprocess.Popen(
    [binary, "up", "--warm-up", "0", "--no-flow", "--data", data, "--ready-file", ready, *flags], stdout=log, stderr=log
)
try:
    deadline = time.monotonic() + 60
    while not os.path.exists(ready):
        assert venue.poll() is None and time.monotonic() < deadline, open(ready + ".log").read()
        time.sleep(0.05)
    port = json.load(open(ready))["http"].rpartition(":")[2]
    codes = []
    shown = [line.split()[2:5:2] for line in open(ready + ".log") if line.startswith("  new login")]
    for client_id, secret in [["demo-operator", "demo-operator-secret"], *shown]:
        login = {"PITWIRE_CLIENT_ID": client_id, "PITWIRE_CLIENT_SECRET": secret}
        command = [binary, "trade", "--url", f"ws://10.77.0.1:{port}/ws/api/v2", "orders"]
        codes.append(subprocess.run(command, env=os.environ | login, capture_output=True).returncode)
    print(json.dumps({"codes": codes, "shown": shown, "log": open(ready + ".log").read()}))
finally:
    venue.terminate()
    venue.wait(60)
"""


def inside(data: Path, *flags: str) -> dict[str, object]:
    set_up = "ip link set lo up && ip addr add 10.77.0.1/24 dev lo"
    probe = subprocess.run(["unshare", "-rn", "sh", "-c", set_up], capture_output=True, check=False)
    if probe.returncode != 0:
        pytest.skip("this machine gives no network namespace")
    data.parent.mkdir(parents=True, exist_ok=True)
    ready = data.parent / f"inside{time.monotonic_ns()}.json"
    command = ["unshare", "-rn", "sh", "-c", f'{set_up} && exec "$@"', "sh", sys.executable, "-c", INSIDE]
    ran = subprocess.run(
        [*command, BINARY, data, ready, "--key-file", data.parent / "vault.key", *flags],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        cwd=TOP,
    )
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


@pytest.mark.attack("demo credentials from another machine")
@pytest.mark.parametrize("address", ["10.77.0.1:0", "0.0.0.0:0"])
def test_demo_credentials_work_on_loopback_only(data: Path, address: str) -> None:
    first = inside(data, "--http", address)
    shown = first["shown"]
    assert isinstance(shown, list) and isinstance(first["log"], str)
    assert [client_id for client_id, _ in shown] == ["demo-a", "demo-b", "demo-operator"]
    assert all(len(secret) == 64 for _, secret in shown)
    assert first["codes"] == [1, 0, 0, 0], first["log"]
    assert "http://10.77.0.1:" in first["log"] and "--demo-credentials" in first["log"]
    again = inside(data, "--http", address)
    assert (again["codes"], again["shown"]) == ([1], []), "they are shown once, and the public ones stay refused"


def test_demo_credentials_work_elsewhere_on_request(data: Path) -> None:
    allowed = inside(data, "--http", "10.77.0.1:0", "--demo-credentials")
    assert allowed["codes"] == [0] and "are public" in str(allowed["log"])
