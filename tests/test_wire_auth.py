"""Authentication: the four grants and headers of wire-compat section 2, against published vectors
and live."""

import base64
import json
import socket
import time
from typing import Any

import pytest
from rpc import PATIENCE_S, Http, Json, Ws, client_signature, now_ms, query, request_signature, signed
from venue import DEMO_A, Credentials, Venue

INVALID_CREDENTIALS, UNAUTHORIZED, AUTHORIZATION_REQUIRED = 13004, 13009, 10000
AUTH_ERRORS = (INVALID_CREDENTIALS, UNAUTHORIZED, AUTHORIZATION_REQUIRED)
MINE = "/api/v2/private/get_open_orders"


def code(answer: Json) -> int | None:
    return answer.get("error", {}).get("code")


def test_the_published_vectors() -> None:
    """The clients below sign by the vendor's documentation; these hashes are independent."""
    assert (
        client_signature("AMANDASECRECT", 1576074319000, "1iqt2wls")
        == "56590594f97921b09b18f166befe0d1319b198bbcdad7ca73382de2f88fe9aa1"
    )
    demo = ("demo-secret", 1700000000000, "abcd1234")
    assert client_signature(*demo) == "d45d60a5cf96e06441292dc6e2b898abb55904e85351507391ac3a9e8a12a3b8"
    assert (
        request_signature(*demo, "GET", "/api/v2/private/get_position?instrument_name=BTC-PERPETUAL")
        == "d09204923912a508950389b6f19929a250ecf0000224f09521226e41045a590a"
    )
    body = '{"jsonrpc":"2.0","id":1,"method":"private/get_account_summaries","params":{}}'
    assert (
        request_signature(*demo, "POST", "/api/v2", body)
        == "3d8c5088a8e45fe249d204bbfdf948d4402b6474fe95262e463203611e661642"
    )


# public/auth


def credentials_grant(**more: Any) -> Json:
    grant = {"grant_type": "client_credentials", "client_id": DEMO_A.client_id, "client_secret": DEMO_A.secret}
    return grant | more


def signature_grant(timestamp_ms: int, nonce: str = "1iqt2wls", data: str = "", **more: Any) -> Json:
    signature = client_signature(DEMO_A.secret, timestamp_ms, nonce, data)
    grant = {"grant_type": "client_signature", "client_id": DEMO_A.client_id, "timestamp": timestamp_ms}
    return grant | {"nonce": nonce, "data": data, "signature": signature} | more


def test_credentials_authenticate_the_connection(ws: Ws) -> None:
    granted = ws.result("public/auth", credentials_grant())
    for name in ("access_token", "refresh_token", "scope"):
        assert type(granted[name]) is str and granted[name]
    assert type(granted["expires_in"]) is int and granted["expires_in"] > 0
    assert granted["token_type"] == "bearer"
    assert ws.result("private/get_open_orders") == [], "no token is needed on this connection any more"


def test_credentials_may_come_with_what_another_grant_needs(ws: Ws) -> None:
    extra = {"timestamp": now_ms(), "nonce": "x", "scope": "session:test", "data": ""}
    assert ws.result("public/auth", credentials_grant(**extra))["access_token"]


@pytest.mark.parametrize("data", ["", "some data"])
def test_a_signature_authenticates(ws: Ws, data: str) -> None:
    ws.result("public/auth", signature_grant(now_ms(), data=data))
    assert ws.result("private/get_open_orders") == []


def test_a_signature_that_has_logged_in_does_so_from_nowhere_else(venue: Venue) -> None:
    host, port = venue.address.split(":")

    def come_from(place: str) -> Ws:
        return Ws(venue.ws_url, socket.create_connection((host, int(port)), source_address=(place, 0)))

    grant = signature_grant(now_ms())
    # Two connections of one program may sign the same millisecond.
    for _ in range(2):
        with come_from("127.0.0.1") as here:
            here.result("public/auth", grant)
    with come_from("127.0.0.2") as elsewhere:
        answer = elsewhere.call("public/auth", grant)
        assert code(answer) == INVALID_CREDENTIALS and answer["error"]["data"]["name"] == "replayed_signature"
        assert code(elsewhere.call("private/get_open_orders")) == AUTHORIZATION_REQUIRED
        elsewhere.result("public/auth", signature_grant(now_ms(), nonce="another"))
        assert elsewhere.result("private/get_open_orders") == []


def test_a_signature_may_have_no_data_and_a_number_for_a_nonce(ws: Ws) -> None:
    timestamp_ms = now_ms()
    grant = signature_grant(timestamp_ms, nonce=str(timestamp_ms)) | {"nonce": timestamp_ms}
    del grant["data"]
    assert ws.result("public/auth", grant)["access_token"]


@pytest.mark.parametrize(
    "wrong",
    [
        credentials_grant(client_secret="demo-b-secret"),
        credentials_grant(client_secret=""),
        credentials_grant(client_id="unknown"),
        signature_grant(now_ms(), signature="0" * 64),
        signature_grant(now_ms(), signature="short"),
        signature_grant(now_ms() - 3_600_000),
        signature_grant(now_ms() + 3_600_000),
        {"grant_type": "refresh_token", "refresh_token": "invented"},
    ],
)
def test_malformed_grants_are_refused_and_authenticate_nothing(ws: Ws, wrong: Json) -> None:
    assert code(ws.call("public/auth", wrong)) in (INVALID_CREDENTIALS, UNAUTHORIZED)
    assert code(ws.call("private/get_open_orders")) == AUTHORIZATION_REQUIRED


@pytest.mark.parametrize("grant", [{}, {"grant_type": "password"}, {"grant_type": "client_credentials"}])
def test_an_incomplete_grant_names_what_is_missing(ws: Ws, grant: Json) -> None:
    answer = ws.call("public/auth", grant)
    assert code(answer) == -32602 and answer["error"]["data"]["param"]


def test_a_refresh_token_gives_new_tokens(venue: Venue, ws: Ws) -> None:
    first = ws.login(DEMO_A)
    second = ws.result("public/auth", {"grant_type": "refresh_token", "refresh_token": first["refresh_token"]})
    assert second["access_token"] != first["access_token"]
    bearer = {"Authorization": f"Bearer {second['access_token']}"}
    assert Http(venue.address).get(MINE, bearer).status == 200


def test_an_expired_token_is_refused_everywhere_and_its_refresh_token_is_not(venue: Venue, ws: Ws) -> None:
    http, before = Http(venue.address), time.monotonic()
    granted = http.result("public/auth", credentials_grant(scope="expires:1"))
    assert granted["expires_in"] == 1 and "expires:1" in granted["scope"].split()
    bearer = {"Authorization": f"Bearer {granted['access_token']}"}
    while (reply := http.get(MINE, bearer)).status == 200:
        assert time.monotonic() < before + PATIENCE_S, "it never ends"
        time.sleep(0.02)
    # The venue counts in whole milliseconds.
    assert time.monotonic() >= before + 0.999, "it ends before its time"
    assert "www-authenticate" not in reply.headers
    order = {"instrument_name": "NPN_ZAR", "amount": 1, "type": "limit", "price": 100}
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "private/buy", "params": order})
    in_params = {"access_token": granted["access_token"]}
    for answer in (
        reply.json(),
        http.get(f"/api/v2/private/buy?{query(order)}", bearer).json(),
        http.post("/api/v2", body, bearer).json(),
        ws.call("private/get_open_orders", in_params),
        ws.call("private/buy", order | in_params),
        ws.call("private/subscribe", {"channels": ["user.orders.any.any.raw"]} | in_params),
        ws.call("public/auth", {"grant_type": "refresh_token", "refresh_token": granted["access_token"]}),
    ):
        assert code(answer) == UNAUTHORIZED, answer
        assert answer["error"]["data"]["name"] == "invalid_token" and "public/auth" in answer["error"]["data"]["remedy"]
    # Public requests are answered, nothing was entered, and a refreshed login works.
    assert http.get("/api/v2/public/get_time", bearer).status == 200
    again = {"grant_type": "refresh_token", "refresh_token": granted["refresh_token"]}
    assert ws.result("public/auth", again)["expires_in"] == 900
    assert ws.result("private/get_open_orders") == []
    assert code(ws.call("public/auth", again)) == UNAUTHORIZED, "a refresh token works once"


@pytest.mark.attack("image or link with a token in its URL")
def test_a_token_in_a_url_changes_nothing(venue: Venue, ws: Ws) -> None:
    token, http = ws.login(DEMO_A)["access_token"], Http(venue.address)
    order = {"instrument_name": "NPN_ZAR", "amount": 1, "type": "limit", "price": 100}
    before = ws.result("private/get_open_orders")
    in_url = f"/api/v2/private/buy?{query(order | {'access_token': token})}"
    for refused in (http.get(in_url).json(), http.post(in_url, "").json()):
        assert code(refused) == UNAUTHORIZED
        assert refused["error"]["data"]["name"] == "token_in_query"
    assert ws.result("private/get_open_orders") == before
    # With the token in the header or in the body of a POST, this call enters the order.
    bearer = {"Authorization": f"Bearer {token}"}
    message = {"jsonrpc": "2.0", "id": 1, "method": "private/buy", "params": order | {"access_token": token}}
    answers = (http.get(f"/api/v2/private/buy?{query(order)}", bearer), http.post("/api/v2", message))
    for answer in answers:
        entered = answer.json()["result"]["order"]["order_id"]
        assert ws.result("private/cancel", {"order_id": entered})["order_state"] == "cancelled"


@pytest.mark.attack("name that occurs twice in a request")
def test_a_name_that_occurs_twice_is_refused(venue: Venue, ws: Ws) -> None:
    http = Http(venue.address)
    ws.login(DEMO_A)
    order = '"instrument_name":"NPN_ZAR","amount":1,"type":"limit","price":100'
    for text in (
        f'{{"jsonrpc":"2.0","id":1,"method":"private/buy","params":{{{order},"price":100}}}}',
        f'{{"jsonrpc":"2.0","id":1,"method":"private/buy","params":{{{order},"pr\\u0069ce":100}}}}',
        f'{{"jsonrpc":"2.0","id":1,"method":"public/test","method":"private/buy","params":{{{order}}}}}',
        f'{{"jsonrpc":"2.0","id":1,"method":"private/buy","params":{{{order},"x":{{"y":1,"y":2}}}}}}',
    ):
        ws.send(text)
        answer = ws.arrive()
        assert code(answer) == -32600 and "twice" in answer["error"]["data"]["reason"], text
        assert code(http.post("/api/v2", text).json()) == -32600
    for twice in ("currency=BTC&currency=ETH", "currency=BTC&c%75rrency=BTC"):
        assert code(http.get(f"/api/v2/public/get_instruments?{twice}").json()) == -32600
    assert ws.result("private/get_open_orders") == []


# The Authorization header


def test_every_form_of_header_is_accepted(venue: Venue) -> None:
    http = Http(venue.address)
    token = http.result("public/auth", credentials_grant())["access_token"]
    basic = base64.b64encode(f"{DEMO_A.client_id}:{DEMO_A.secret}".encode()).decode()
    for headers in (
        signed(DEMO_A, "GET", MINE),
        {"Authorization": f"Bearer {token}"},
        {"Authorization": f"Basic {basic}"},
    ):
        assert http.get(MINE, headers).json()["result"] == []


def test_a_wrong_header_is_refused_without_a_challenge(venue: Venue) -> None:
    http = Http(venue.address)
    wrong_basic = base64.b64encode(b"demo-a:wrong").decode()
    stranger = signed(Credentials("unknown", "x"), "GET", MINE)
    liar = signed(Credentials("demo-a", "x"), "GET", MINE)
    nonsense = [
        {"Authorization": value} for value in ("Bearer nonsense", f"Basic {wrong_basic}", "deri-hmac-sha256 id")
    ]
    for headers in [stranger, liar, *nonsense, {"Authorization": "Basic %%%"}, {"Authorization": "Magic x"}]:
        reply = http.get(MINE, headers)
        assert code(reply.json()) in AUTH_ERRORS, headers
        assert "www-authenticate" not in reply.headers, "a browser must not ask for a password"


def test_the_header_may_be_in_any_order_with_spaces(venue: Venue) -> None:
    timestamp_ms = now_ms()
    signature = request_signature(DEMO_A.secret, timestamp_ms, "n", "GET", MINE)
    value = f"deri-hmac-sha256 nonce=n, sig={signature} , ts={timestamp_ms}, id={DEMO_A.client_id}"
    assert Http(venue.address).get(MINE, {"Authorization": value}).json()["result"] == []


def test_a_posted_body_is_part_of_what_is_signed(venue: Venue) -> None:
    http = Http(venue.address)
    body = '{"jsonrpc":"2.0","id":1,"method":"private/get_account_summaries","params":{}}'
    assert http.post("/api/v2", body, signed(DEMO_A, "POST", "/api/v2", body)).json()["result"]["summaries"]
    assert code(http.post("/api/v2", body + " ", signed(DEMO_A, "POST", "/api/v2", body)).json()) in AUTH_ERRORS


@pytest.mark.parametrize("label", ["a b", "a%2Fb", "é", "100%"])
def test_the_signed_uri_is_the_request_line_to_the_letter(http: Http, label: str) -> None:
    params = {"instrument_name": "NPN_ZAR", "amount": 1, "type": "limit", "price": 100, "label": label}
    assert http.result("private/buy", params)["order"]["label"] == label


def test_a_changed_query_is_refused(venue: Venue) -> None:
    uri = f"/api/v2/private/cancel?{query({'order_id': '1'})}"
    headers = signed(DEMO_A, "GET", uri)
    http = Http(venue.address)
    assert code(http.get(uri, headers).json()) == 10004
    assert code(http.get(uri.replace("=1", "=2"), headers).json()) in AUTH_ERRORS


def test_an_old_signature_is_refused(venue: Venue) -> None:
    old = now_ms() - 120_000
    signature = request_signature(DEMO_A.secret, old, "n", "GET", MINE)
    value = f"deri-hmac-sha256 id={DEMO_A.client_id},ts={old},sig={signature},nonce=n"
    assert code(Http(venue.address).get(MINE, {"Authorization": value}).json()) in AUTH_ERRORS


# A page of another origin must not reach a venue on loopback


@pytest.mark.parametrize(
    "foreign",
    [
        {"Host": "evil.example"},
        {"Origin": "https://evil.example"},
        {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_a_foreign_page_is_refused(venue: Venue, foreign: dict[str, str]) -> None:
    reply = Http(venue.address).get(MINE, signed(DEMO_A, "GET", MINE) | foreign)
    assert reply.status in (400, 403, 421)
    assert b'"result"' not in reply.body


def test_own_page_may_connect(venue: Venue) -> None:
    own = {"Origin": venue.http_url, "Sec-Fetch-Site": "same-origin"}
    assert Http(venue.address).get(MINE, signed(DEMO_A, "GET", MINE) | own).status == 200
