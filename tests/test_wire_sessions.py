"""Connections that live, end and resume: heartbeats, cancel on disconnect, logout, resends
(wire-compat 3)."""

import socket
import time
from pathlib import Path

import pytest
from rpc import Http, Json, Ws, now_ms, query, signed
from venue import DEMO_A, DEMO_B, Venue
from websockets.exceptions import ConnectionClosed

RESTING = {"instrument_name": "NPN_ZAR", "amount": 1, "type": "limit", "price": 100}
PATIENCE_S = 60.0


def code(answer: Json) -> int | None:
    return answer.get("error", {}).get("code")


def wait_for_open(http: Http, expected: list[str]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while (found := [order["order_id"] for order in http.result("private/get_open_orders")]) != expected:
        assert time.monotonic() < deadline, f"open are {found}, not {expected}"
        time.sleep(0.02)


def enter(client: Http | Ws, **more: object) -> str:
    return client.result("private/buy", RESTING | more)["order"]["order_id"]


def last_words(ws: Ws) -> tuple[list[Json], int, str]:
    """The last messages of a connection, and its close code."""
    arrived: list[Json] = []
    while True:
        try:
            arrived.append(ws.receive(30.0))
        except ConnectionClosed as closed:
            assert closed.rcvd is not None, "closed without a word"
            return arrived, closed.rcvd.code, closed.rcvd.reason


# Heartbeats


def test_a_connection_that_does_not_answer_is_closed_and_its_orders_go(venue: Venue, http: Http) -> None:
    with Ws(venue.ws_url) as mute, Ws(venue.ws_url) as alive:
        mute.login(DEMO_A)
        mute.result("private/enable_cancel_on_disconnect")
        enter(mute)
        for client in (mute, alive):
            started = time.monotonic()
            assert client.result("public/set_heartbeat", {"interval": 10}) == "ok"
        kinds = []
        while len(kinds) < 4:
            message = alive.receive(PATIENCE_S)
            if message.get("method") == "heartbeat":
                kinds.append(message["params"]["type"])
                if kinds[-1] == "test_request":
                    alive.post("public/test")
        assert kinds == ["heartbeat", "test_request"] * 2
        assert time.monotonic() - started >= 20, "twice in twenty seconds, no oftener"
        arrived, close_code, reason = last_words(mute)
        methods = [message["method"] for message in arrived]
        assert methods == ["heartbeat", "heartbeat", "logout"]
        assert close_code == 1008 and "public/test" in reason
        assert arrived[-1]["params"]["reason"] == reason
        assert alive.result("public/test")["version"], "who answers lives on"
    wait_for_open(http, [])


# Cancel on disconnect


@pytest.mark.parametrize("how", ["close", "reset"])
def test_orders_go_with_the_connection(venue: Venue, http: Http, how: str) -> None:
    kept = enter(http)
    ws = Ws(venue.ws_url)
    ws.login(DEMO_A)
    assert ws.result("private/enable_cancel_on_disconnect", {"scope": "connection"}) == "ok"
    assert ws.result("private/get_cancel_on_disconnect") == {"scope": "connection", "enabled": True}
    mine = enter(ws)
    if how == "close":
        ws.close()
    else:
        # No close frame and no FIN: the peer's machine is gone.
        transport = ws._connection.socket
        transport.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        transport.close()
    wait_for_open(http, [kept])
    assert http.result("private/get_order_state", {"order_id": mine})["cancel_reason"] == "cancel_on_disconnect"


def test_a_logout_keeps_the_orders(venue: Venue, http: Http) -> None:
    with Ws(venue.ws_url) as ws:
        ws.login(DEMO_A)
        ws.result("private/enable_cancel_on_disconnect")
        mine = enter(ws)
        ws.post("private/logout")
        arrived, close_code, _ = last_words(ws)
        assert close_code == 1000 and arrived[0]["result"] == "ok"
    time.sleep(0.3)
    wait_for_open(http, [mine])


def test_a_connections_token_dies_with_it(venue: Venue) -> None:
    http = Http(venue.address)
    mine = "/api/v2/private/get_open_orders"
    with Ws(venue.ws_url) as ws:
        bearer = {"Authorization": f"Bearer {ws.login(DEMO_B)['access_token']}"}
        assert http.get(mine, bearer).status == 200
    deadline = time.monotonic() + PATIENCE_S
    while code(http.get(mine, bearer).json()) != 13009:
        assert time.monotonic() < deadline
        time.sleep(0.02)


# Across a restart


def test_a_resend_after_a_kill_is_the_first_order(tmp_path: Path) -> None:
    numbered = {"client_order_id": "once"}
    with Venue(tmp_path / "data") as venue:
        http = Http(venue.address, DEMO_A)
        first = enter(http, **numbered)
        assert enter(http, **numbered) == first
        with Ws(venue.ws_url) as ws:
            ws.login(DEMO_B)
            plain = enter(ws)
            ws.result("private/enable_cancel_on_disconnect")
            enter(ws)
            venue.kill()
        venue.start()
        http = Http(venue.address, DEMO_A)
        assert enter(http, **numbered) == first
        wait_for_open(http, [first])
        wait_for_open(Http(venue.address, DEMO_B), [plain])


def test_every_session_gets_a_logout_before_the_venue_stops(tmp_path: Path) -> None:
    with Venue(tmp_path / "data") as venue, Ws(venue.ws_url) as quiet, Ws(venue.ws_url) as trader:
        trader.login(DEMO_A)
        trader.result("private/enable_cancel_on_disconnect")
        gone = enter(trader)
        assert venue.stop() == 0
        for ws in (quiet, trader):
            arrived, close_code, reason = last_words(ws)
            assert arrived == [{"jsonrpc": "2.0", "method": "logout", "params": {"reason": "the venue is stopping"}}]
            assert (close_code, reason) == (1001, "the venue is stopping")
        venue.start()
        state = Http(venue.address, DEMO_A).result("private/get_order_state", {"order_id": gone})
        assert (state["order_state"], state["cancel_reason"]) == ("cancelled", "cancel_on_disconnect")


# Repeated or late requests


def test_a_replayed_request_enters_nothing(venue: Venue, http: Http) -> None:
    uri = f"/api/v2/private/buy?{query(RESTING)}"
    headers = signed(DEMO_A, "GET", uri)
    plain = Http(venue.address)
    first = plain.get(uri, headers).json()["result"]["order"]["order_id"]
    again = plain.get(uri, headers).json()
    assert code(again) == 13004 and again["error"]["data"]["name"] == "replayed_signature"
    wait_for_open(http, [first])


def test_late_order_is_not_entered(http: Http) -> None:
    late = http.call("private/buy", RESTING | {"valid_until": now_ms() - 1})
    assert code(late) == 13888
    assert enter(http, valid_until=now_ms() + 60_000)
