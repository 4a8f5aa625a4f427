"""Attacks with signatures: a signed order or login that comes again after a restart."""

import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from rpc import Http, Json, Ws, client_signature, now_ms, query, signed
from venue import DEMO_A, Venue

ORDER = {"instrument_name": "NPN_ZAR", "amount": 1, "type": "limit", "price": 100}
URI = f"/api/v2/private/buy?{query(ORDER)}"


def signed_login(nonce: str) -> Json:
    timestamp_ms = now_ms()
    signature = client_signature(DEMO_A.secret, timestamp_ms, nonce, "")
    grant = {"grant_type": "client_signature", "client_id": DEMO_A.client_id, "timestamp": timestamp_ms}
    return grant | {"nonce": nonce, "data": "", "signature": signature}


def error_name(answer: Json) -> str | None:
    name: str | None = answer.get("error", {}).get("data", {}).get("name")
    return name


def log_in_from(venue: Venue, address: str, grant: Json) -> Json:
    host, port = venue.address.split(":")
    with Ws(venue.ws_url, socket.create_connection((host, int(port)), source_address=(address, 0))) as ws:
        return ws.call("public/auth", grant)


def enter(venue: Venue, headers: dict[str, str]) -> Json:
    answer: Json = Http(venue.address).get(URI, headers).json()
    return answer


@pytest.mark.attack("signature replayed after a restart")
def test_signature_stays_used_after_kill_and_snapshot(data: Path, tries: Callable[[int], None]) -> None:
    headers, grant = signed(DEMO_A, "GET", URI), signed_login("first")
    with Venue(data, ["--no-flow"]) as venue:
        assert "result" in enter(venue, headers)
        assert "result" in log_in_from(venue, "127.0.0.1", grant)
        # The first restart replays the log. The second one begins at the snapshot of a clean stop.
        for end in (venue.kill, venue.stop):
            end()
            venue.start()
            assert error_name(enter(venue, headers)) == "replayed_signature"
            assert error_name(log_in_from(venue, "127.0.0.2", grant)) == "replayed_signature"
            assert "result" in log_in_from(venue, "127.0.0.1", grant), "one program may connect again"
            assert "result" in enter(venue, signed(DEMO_A, "GET", URI))
            assert "result" in log_in_from(venue, "127.0.0.2", signed_login(f"after {end.__name__}"))
            tries(2)
        open_orders = Http(venue.address, DEMO_A).result("private/get_open_orders")
        assert len(open_orders) == 3
