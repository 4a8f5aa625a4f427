"""The envelope, the three transports, leniency and errors, by wire-compat sections 1 and 9."""

import json
import time
from typing import Any

import pytest
from rpc import Http, Json, RpcError, Ws, result_of, signed
from venue import DEMO_A, DEMO_B, INSTRUMENTS, Venue

NO_SUCH_ORDER = "999999999999"
PARSE_ERROR, INVALID_REQUEST, NO_SUCH_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602


def check_envelope(answer: Json) -> None:
    assert answer["jsonrpc"] == "2.0"
    assert ("result" in answer) != ("error" in answer), answer
    for name in ("usIn", "usOut", "usDiff"):
        assert type(answer[name]) is int, f"{name} is an integer without a decimal point"
    assert answer["usDiff"] == answer["usOut"] - answer["usIn"] >= 0
    assert abs(answer["usIn"] / 1e6 - time.time()) < 10
    assert type(answer["testnet"]) is bool
    if "error" in answer:
        assert type(answer["error"]["code"]) is int and answer["error"]["message"]


def error_code(answer: Json) -> int | None:
    check_envelope(answer)
    return answer["error"]["code"] if "error" in answer else None


def best_bid(http: Http, instrument: str = "NPN_ZAR") -> float:
    return http.result("public/ticker", {"instrument_name": instrument})["best_bid_price"]


def resting_buy(http: Http, instrument: str = "NPN_ZAR", amount: float = 1) -> Json:
    price = round(best_bid(http, instrument) * 0.9)
    return {"instrument_name": instrument, "amount": amount, "type": "limit", "price": price}


# The envelope


@pytest.mark.parametrize("request_id", ["7", "0", "-1", "9007199254740993", '"101"', '""', '"a\\"b"', '"5275"'])
def test_an_id_comes_back_exactly(ws: Ws, request_id: str) -> None:
    ws.send(f'{{"jsonrpc":"2.0","id":{request_id},"method":"public/test"}}')
    text = ws.arrive_text()
    check_envelope(json.loads(text))
    assert f'"id":{request_id}' in text.replace('"id": ', '"id":')


def test_an_absent_id_stays_absent(ws: Ws, http: Http) -> None:
    ws.send('{"jsonrpc":"2.0","method":"public/test"}')
    assert "id" not in ws.arrive()
    assert "id" not in http.call("public/test")
    assert "id" not in http.post("/api/v2", {"jsonrpc": "2.0", "method": "public/test"}).json()


def test_ids_repeat_legally_and_answers_keep_the_order_of_requests(ws: Ws) -> None:
    for number in range(100):
        ws.send({"jsonrpc": "2.0", "id": number // 2, "method": "public/get_time" if number % 2 else "public/test"})
    answers = [ws.arrive() for _ in range(100)]
    assert [answer["id"] for answer in answers] == [number // 2 for number in range(100)]
    assert [type(answer["result"]) for answer in answers] == [dict, int] * 50


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("public/status", {}),
        ("public/get_currencies", {}),
        ("public/get_instruments", {"currency": "any", "kind": "spot"}),
        ("public/get_instrument", {"instrument_name": "BTC-PERPETUAL"}),
        ("public/get_order_book", {"instrument_name": "NO_ZAR"}),
        ("public/get_order_book", {}),
        ("public/no_such_method", {}),
        ("private/get_positions", {}),
    ],
)
def test_every_transport_gives_the_same_answer(venue: Venue, ws: Ws, method: str, params: Json) -> None:
    http = Http(venue.address)
    message = {"jsonrpc": "2.0", "method": method, "params": params}
    answers = [
        http.call(method, params),
        http.post("/api/v2", message).json(),
        http.post(f"/api/v2/{method}", message).json(),
        ws.call(method, params),
    ]
    for answer in answers:
        check_envelope(answer)
        for name in ("id", "usIn", "usOut", "usDiff"):
            answer.pop(name, None)
    assert answers[0] == answers[1] == answers[2] == answers[3]


def test_http_says_400_with_the_error_as_body_and_is_never_cached(http: Http) -> None:
    good, bad = http.get("/api/v2/public/get_time"), http.get("/api/v2/public/ticker?instrument_name=NO_ZAR")
    assert (good.status, bad.status) == (200, 400)
    assert bad.json()["error"]["code"] == 13020
    for reply in (good, bad):
        assert reply.headers["content-type"].startswith("application/json")
        assert "no-store" in reply.headers["cache-control"]


def test_the_body_wins_over_the_path(http: Http) -> None:
    answer = http.post("/api/v2/public/get_time", {"jsonrpc": "2.0", "id": 1, "method": "public/test"}).json()
    assert "version" in answer["result"]


def test_the_websocket_path_takes_a_trailing_slash(venue: Venue) -> None:
    with Ws(venue.ws_url + "/") as ws:
        assert "version" in ws.result("public/test")


# Leniency: each line is a real client


@pytest.mark.parametrize(
    "message",
    [
        '{"jsonrpc":"2.0","id":1,"method":"public/test"}',
        '{"jsonrpc":"2.0","id":1,"method":"public/test","params":null}',
        '{"jsonrpc":"2.0","id":1,"method":"public/test","params":{}}',
        '{"id":1,"method":"public/test","params":{}}',
        '{"jsonrpc":"2.0","id":1,"method":"public/test","params":{"unknown":[1,{"deep":null}],"code":"ZAR"}}',
    ],
)
def test_lenient_requests(ws: Ws, message: str) -> None:
    ws.send(message)
    answer = ws.arrive()
    check_envelope(answer)
    assert type(answer["result"]["version"]) is str


@pytest.mark.parametrize("truth", ["true", "True", "1", 1, True])
def test_numbers_and_booleans_may_be_strings(trader: Ws, http: Http, truth: Any) -> None:
    params = resting_buy(http) | {"amount": "10.0"}
    params["price"] = f"{params['price']}"
    order = trader.result("private/buy", params)["order"]
    assert order["amount"] == 10
    trader.result("private/cancel", {"order_id": order["order_id"]})
    asked = {"instrument_name": params["instrument_name"], "include_unfilled": truth, "count": "1000"}
    history = trader.result("private/get_order_history_by_instrument", asked)
    assert order["order_id"] in [past["order_id"] for past in history]


@pytest.mark.parametrize("amount", ["10", "10.0", "1e1", "1E+1", "100e-1"])
def test_a_number_is_read_exactly_in_any_spelling(trader: Ws, http: Http, amount: str) -> None:
    price = resting_buy(http)["price"]
    params = f'{{"instrument_name":"NPN_ZAR","type":"limit","price":{price},"amount":{amount}}}'
    trader.send(f'{{"jsonrpc":"2.0","id":"x","method":"private/buy","params":{params}}}')
    answer = trader.arrive()
    assert result_of("private/buy", answer)["order"]["amount"] == 10


def test_contracts_stand_for_an_amount_and_must_agree_with_it(trader: Ws, http: Http) -> None:
    params = resting_buy(http, "BTC-PERPETUAL") | {"contracts": 2}
    amount = params.pop("amount")
    assert trader.result("private/buy", params)["order"]["amount"] == 20
    assert trader.result("private/buy", params | {"amount": 20})["order"]["contracts"] == 2
    assert error_code(trader.call("private/buy", params | {"amount": amount * 50})) == INVALID_PARAMS


@pytest.mark.parametrize(("asked", "given"), [(None, 5), (0, 1), (1, 1), (3, 5), (4, 5)])
def test_depth_is_rounded_up_to_an_allowed_one(http: Http, asked: int | None, given: int) -> None:
    """The venue's default is 5. Some C++ clients send 0 for it, so any small depth is right."""
    params = {"instrument_name": "NPN_ZAR"} | ({} if asked is None else {"depth": asked})
    book = http.result("public/get_order_book", params)
    if asked in (None, 0):
        assert book["bids"] and book["asks"]
    else:
        assert len(book["bids"]) <= given and len(book["asks"]) <= given


def test_instruments_by_any_currency(http: Http) -> None:
    def names(**params: str) -> list[str]:
        return sorted(found["instrument_name"] for found in http.result("public/get_instruments", params))

    assert names() == names(currency="any") == sorted(INSTRUMENTS)
    assert names(kind="future") == ["BTC-PERPETUAL"]
    assert names(currency="DOGE") == []


def test_a_token_may_travel_in_the_parameters(venue: Venue, ws: Ws) -> None:
    token = ws.login(DEMO_A)["access_token"]
    answer = Http(venue.address).call("private/get_open_orders", {"access_token": token})
    assert answer["result"] == []


def test_trades_by_time_need_no_end(http: Http) -> None:
    params = {"instrument_name": "NPN_ZAR", "start_timestamp": 0}
    assert http.result("public/get_last_trades_by_instrument_and_time", params)["trades"] is not None


# Numbers in answers


def test_integers_have_no_decimal_point(http: Http) -> None:
    ticker = http.result("public/ticker", {"instrument_name": "BTC-PERPETUAL"})
    book = http.result("public/get_order_book", {"instrument_name": "BTC-PERPETUAL"})
    http.result("private/buy", {"instrument_name": "BTC-PERPETUAL", "amount": 10, "type": "market"})
    http.result("private/sell", {"instrument_name": "BTC-PERPETUAL", "amount": 10, "type": "market"})
    trades = http.result("public/get_last_trades_by_instrument", {"instrument_name": "BTC-PERPETUAL"})["trades"]
    instrument = http.result("public/get_instrument", {"instrument_name": "BTC-PERPETUAL"})
    order = http.result("private/buy", resting_buy(http))["order"]
    whole = [ticker["timestamp"], book["timestamp"], book["change_id"], http.result("public/get_time")]
    whole += [trades[0][name] for name in ("timestamp", "trade_seq", "tick_direction")]
    whole += [instrument[name] for name in ("instrument_id", "expiration_timestamp", "creation_timestamp")]
    whole += [order[name] for name in ("creation_timestamp", "last_update_timestamp")]
    assert all(type(number) is int for number in whole), whole
    numbers = [ticker[name] for name in ("mark_price", "index_price", "open_interest", "best_bid_price")]
    numbers += [order["price"], order["amount"], order["filled_amount"], order["average_price"]]
    assert all(type(number) in (int, float) for number in numbers), numbers
    assert type(order["order_id"]) is type(trades[0]["trade_id"]) is str


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("public/ticker", {"instrument_name": "NPN_ZAR"}),
        ("public/get_order_book", {"instrument_name": "BTC-PERPETUAL"}),
        ("public/get_instruments", {}),
        ("private/get_account_summaries", {}),
        ("private/get_position", {"instrument_name": "BTC-PERPETUAL"}),
    ],
)
def test_nothing_is_null_and_no_number_has_an_exponent(http: Http, method: str, params: Json) -> None:
    def refuse_exponent(text: str) -> float:
        assert "e" not in text.lower(), f"{text} has an exponent"
        return float(text)

    uri = f"/api/v2/{method}" + ("?" + "&".join(f"{key}={value}" for key, value in params.items()) if params else "")
    reply = http.get(uri, signed(DEMO_A, "GET", uri))
    answer = json.loads(reply.body, parse_float=refuse_exponent)
    assert "result" in answer and "null" not in reply.body.decode()


# Errors by number


@pytest.mark.parametrize(
    ("code", "method", "params"),
    [
        (10004, "private/cancel", {"order_id": NO_SUCH_ORDER}),
        (10004, "private/edit", {"order_id": NO_SUCH_ORDER, "amount": 1, "price": 1}),
        (10004, "private/get_order_state", {"order_id": NO_SUCH_ORDER}),
        (10009, "private/buy", {"instrument_name": "NPN_ZAR", "amount": 9000, "type": "limit", "price": 3000}),
        (10009, "private/sell", {"instrument_name": "NPN_ZAR", "amount": 99_000, "type": "limit", "price": 4000}),
        (10009, "private/buy", {"instrument_name": "BTC-PERPETUAL", "amount": 10_000_000_000, "type": "market"}),
        (10021, "private/buy", {"instrument_name": "NPN_ZAR", "amount": 0, "type": "limit", "price": 3000}),
        (10021, "private/buy", {"instrument_name": "NPN_ZAR", "amount": -5, "type": "limit", "price": 3000}),
        (10027, "private/buy", {"instrument_name": "BTC-PERPETUAL", "amount": 15, "type": "limit", "price": 50_000}),
        (10027, "private/buy", {"instrument_name": "NPN_ZAR", "amount": 1.5, "type": "limit", "price": 3000}),
        (10043, "private/buy", {"instrument_name": "NPN_ZAR", "amount": 1, "type": "limit", "price": 3000.005}),
        (10043, "private/buy", {"instrument_name": "BTC_USDC", "amount": 1, "type": "limit", "price": 50_000.25}),
        (13020, "public/ticker", {"instrument_name": "NO_ZAR"}),
        (13020, "private/buy", {"instrument_name": "NO_ZAR", "amount": 1, "type": "limit", "price": 1}),
        (NO_SUCH_METHOD, "public/no_such_method", {}),
        (NO_SUCH_METHOD, "private/no_such_method", {}),
        (INVALID_PARAMS, "public/ticker", {}),
        (INVALID_PARAMS, "public/ticker", {"instrument_name": "not/a name"}),
        (INVALID_PARAMS, "private/buy", {"instrument_name": "NPN_ZAR", "type": "limit", "price": 3000}),
        (INVALID_PARAMS, "private/buy", {"instrument_name": "NPN_ZAR", "amount": 1, "type": "limit"}),
        (INVALID_PARAMS, "private/buy", {"instrument_name": "NPN_ZAR", "amount": 1, "type": "lottery", "price": 1}),
        (INVALID_PARAMS, "private/buy", {"instrument_name": "NPN_ZAR", "amount": "ten", "type": "market"}),
        (INVALID_PARAMS, "private/buy", {"instrument_name": "NPN_ZAR", "amount": "NaN", "type": "market"}),
        (INVALID_PARAMS, "private/buy", {"instrument_name": "NPN_ZAR", "amount": "Infinity", "type": "market"}),
        (INVALID_PARAMS, "private/buy", {"instrument_name": "NPN_ZAR", "amount": "", "type": "market"}),
        (
            INVALID_PARAMS,
            "private/buy",
            {"instrument_name": "NPN_ZAR", "amount": 1, "type": "market", "label": 65 * "x"},
        ),
    ],
)
def test_errors_by_number_on_every_transport(http: Http, trader: Ws, code: int, method: str, params: Json) -> None:
    answers = [http.call(method, params), trader.call(method, params)]
    assert [error_code(answer) for answer in answers] == [code, code], answers
    if code == INVALID_PARAMS:
        assert all(answer["error"]["data"]["param"] and answer["error"]["data"]["reason"] for answer in answers)


@pytest.mark.parametrize("method", ["private/get_open_orders", "private/buy", "private/subscribe"])
def test_private_calls_need_a_login(venue: Venue, ws: Ws, method: str) -> None:
    assert error_code(ws.call(method)) == 10000
    assert error_code(Http(venue.address).call(method)) == 10000


@pytest.mark.parametrize("method", ["public/set_heartbeat", "public/subscribe"])
def test_some_calls_need_a_websocket(http: Http, method: str) -> None:
    assert error_code(http.call(method, {"interval": 30, "channels": '["ticker.NPN_ZAR.100ms"]'})) == 10030


@pytest.mark.parametrize("text", ["{", "", "nonsense", '{"id":1,}', '{"amount": NaN}', '{"a":"\\ud800', "\x00"])
def test_text_that_is_not_json_is_a_parse_error(ws: Ws, http: Http, text: str) -> None:
    ws.send(text)
    assert error_code(ws.arrive()) == PARSE_ERROR
    assert error_code(http.post("/api/v2", text).json()) == PARSE_ERROR
    assert "version" in ws.result("public/test"), "the connection lives on"


@pytest.mark.parametrize("text", ["42", '"text"', "null", "[]", '{"id":1}', '{"id":1,"method":7}'])
def test_json_that_is_not_a_request_is_refused(ws: Ws, http: Http, text: str) -> None:
    ws.send(text)
    assert error_code(ws.arrive()) == INVALID_REQUEST
    assert error_code(http.post("/api/v2", text).json()) == INVALID_REQUEST


def test_json_may_be_sixteen_deep_and_no_deeper(ws: Ws) -> None:
    def nested(levels: int) -> str:
        inside = "[" * levels + "]" * levels
        return f'{{"jsonrpc":"2.0","id":1,"method":"public/test","params":{{"unknown":{inside}}}}}'

    ws.send(nested(10))
    assert error_code(ws.arrive()) is None
    ws.send(nested(10_000))
    assert error_code(ws.arrive()) in (PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS)


@pytest.mark.parametrize("field", ["amount", "price"])
@pytest.mark.parametrize(
    "number", ["1e400", "-1e400", "1e30", "9223372036854775808", "18446744073709551616", "9" * 400, "1e-30", "-0"]
)
def test_huge_and_strange_numbers_are_refused_and_nothing_breaks(trader: Ws, field: str, number: str) -> None:
    values = {"amount": "1", "price": "3000"} | {field: number}
    numbers = ",".join(f'"{key}":{value}' for key, value in values.items())
    params = f'{{"instrument_name":"NPN_ZAR","type":"limit",{numbers}}}'
    trader.send(f'{{"jsonrpc":"2.0","id":"x","method":"private/buy","params":{params}}}')
    refusals = {INVALID_PARAMS, 10002, 10005, 10007, 10009, 10021, 10023, 10026, 10027, 10043}
    assert error_code(trader.arrive()) in refusals


def test_an_order_of_another_account_cannot_be_changed(http: Http, other: Http) -> None:
    theirs = other.result("private/buy", resting_buy(other))["order"]["order_id"]
    for method in ("private/cancel", "private/get_order_state", "private/get_user_trades_by_order"):
        answer = http.call(method, {"order_id": theirs})
        assert answer.get("result") == [] or error_code(answer) in (10004, 10029), (method, answer)
    edit = {"order_id": theirs, "amount": 2, "price": 100}
    assert error_code(http.call("private/edit", edit)) in (10004, 10029)
    state = other.result("private/get_order_state", {"order_id": theirs})
    assert (state["order_state"], state["amount"]) == ("open", 1)
    assert theirs not in [order["order_id"] for order in http.result("private/get_open_orders")]


def test_two_accounts_trade_with_each_other(http: Http, other: Http) -> None:
    """demo-a rests one tick inside the spread, demo-b takes it, and both see the same trade."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        book = http.result("public/get_order_book", {"instrument_name": "BHG_ZAR", "depth": 1})
        price = round(book["best_ask_price"] - 0.01, 2)
        if price <= book["best_bid_price"]:
            time.sleep(0.05)
            continue
        mine = http.result(
            "private/sell", {"instrument_name": "BHG_ZAR", "amount": 1, "type": "limit", "price": price}
        )["order"]["order_id"]
        params = {"instrument_name": "BHG_ZAR", "amount": 1, "type": "limit", "price": price}
        taken = other.result("private/buy", params | {"time_in_force": "immediate_or_cancel"})["trades"]
        fills = http.result("private/get_user_trades_by_order", {"order_id": mine})
        http.call("private/cancel", {"order_id": mine})
        shared = {fill["trade_id"] for fill in fills} & {trade["trade_id"] for trade in taken}
        if shared:
            assert [(fill["liquidity"], fill["direction"]) for fill in fills] == [("M", "sell")]
            assert [(trade["liquidity"], trade["direction"]) for trade in taken] == [("T", "buy")]
            return
    pytest.fail("for fifteen seconds the flow always came first")


def test_errors_name_a_rule_for_people(trader: Ws) -> None:
    with pytest.raises(RpcError) as refused:
        trader.result("private/buy", {"instrument_name": "NPN_ZAR", "amount": 1, "type": "limit", "price": 3000.005})
    assert refused.value.error["message"] == "price_wrong_tick"
    assert refused.value.error["data"]["reason"]


def test_the_two_accounts_are_two(http: Http, other: Http) -> None:
    before = other.result("private/get_account_summary", {"currency": "NPN"})["equity"]
    http.result("private/buy", {"instrument_name": "NPN_ZAR", "amount": 1, "type": "market"})
    assert other.result("private/get_account_summary", {"currency": "NPN"})["equity"] == before
    assert DEMO_A.client_id != DEMO_B.client_id
