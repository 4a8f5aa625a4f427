"""Orders of the dialect: reduce-only across a kill, reported times in force, and parameters that
would be dangerous to ignore."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import member
from rpc import Http, Json, Ws
from venue import DEMO_A, DEMO_B, Venue, run_pitwire

SPOT, PERPETUAL = "NPN_ZAR", "BTC-PERPETUAL"


@pytest.fixture
def alice(running: Venue) -> Iterator[Http]:
    yield from member(running, DEMO_A)


@pytest.fixture
def bob(running: Venue) -> Iterator[Http]:
    yield from member(running, DEMO_B)


def refused(client: Http, params: Json, method: str = "private/buy") -> Json:
    answer = client.call(method, params)
    assert "error" in answer, answer
    return answer["error"]


def last_price(alice: Http, bob: Http, price: float) -> None:
    """Makes a trade of one share at this price."""
    order = {"instrument_name": SPOT, "amount": 1, "price": price}
    bob.result("private/sell", order)
    assert alice.result("private/buy", order)["order"]["order_state"] == "filled"


def test_a_resting_reduce_only_order_follows_its_position_also_after_a_kill(data: Path) -> None:
    venue = Venue(data, extra=["--no-flow"])
    market = {"instrument_name": PERPETUAL, "type": "market"}
    with venue:
        alice, bob = Http(venue.address, DEMO_A), Http(venue.address, DEMO_B)
        bob.result("private/sell", {"instrument_name": PERPETUAL, "amount": 100, "price": 60_000})
        alice.result("private/buy", {"instrument_name": PERPETUAL, "amount": 100, "price": 60_000})
        bob.result("private/buy", {"instrument_name": PERPETUAL, "amount": 500, "price": 59_990})
        exit_price = {"instrument_name": PERPETUAL, "price": 60_010, "reduce_only": True}
        resting = alice.result("private/sell", exit_price | {"amount": 300})["order"]
        assert (resting["amount"], resting["reduce_only"], resting["order_state"]) == (100, True, "open")
        wrong_side = refused(alice, exit_price | {"amount": 100, "price": 59_000})
        assert (wrong_side["code"], wrong_side["data"]["param"]) == (11030, "reduce_only")
        alice.result("private/sell", market | {"amount": 70})
        venue.kill()
    with venue:
        alice = Http(venue.address, DEMO_A)
        kept = alice.result("private/get_order_state", {"order_id": resting["order_id"]})
        assert (kept["amount"], kept["reduce_only"], kept["order_state"]) == (30, True, "open")
        larger = alice.result("private/edit", {"order_id": resting["order_id"], "amount": 90, "price": 60_010})
        assert larger["order"]["amount"] == 30, "the position is the most that it can be"
        alice.result("private/sell", market | {"amount": 30})
        ended = alice.result("private/get_order_state", {"order_id": resting["order_id"]})
        assert (ended["order_state"], ended["cancel_reason"]) == ("cancelled", "reduce_only")
        assert alice.result("private/get_position", {"instrument_name": PERPETUAL})["size"] == 0
        assert venue.stop() == 0
    verified = run_pitwire("verify", data)
    assert verified.returncode == 0, verified.stderr


def test_a_market_order_reports_the_default_time_in_force_everywhere(running: Venue, bob: Http) -> None:
    bob.result("private/sell", {"instrument_name": SPOT, "amount": 2, "price": 3_250})
    with Ws(running.ws_url) as member:
        member.login(DEMO_A)
        channels = ["user.orders.any.any.raw", f"user.changes.{SPOT}.raw"]
        assert member.subscribe(*channels, scope="private") == channels
        order = member.result("private/buy", {"instrument_name": SPOT, "amount": 1, "type": "market"})["order"]
        name = order["order_id"]
        history = {"instrument_name": SPOT, "count": 20}
        found = [
            order,
            member.notification(channels[0], lambda notice: notice["order_id"] == name),
            member.notification(channels[1], lambda notice: bool(notice["orders"]))["orders"][0],
            member.result("private/get_order_state", {"order_id": name}),
            next(
                past
                for past in member.result("private/get_order_history_by_instrument", history)
                if past["order_id"] == name
            ),
        ]
        now = {"time_in_force": "immediate_or_cancel"}
        immediate = member.result("private/buy", {"instrument_name": SPOT, "amount": 1, "type": "market"} | now)
    assert [one["time_in_force"] for one in found] == ["good_til_cancelled"] * 5, found
    assert immediate["order"]["time_in_force"] == "immediate_or_cancel"


@pytest.mark.parametrize("name", ["triggerPrice", "stopPrice", "stop_price"])
def test_another_exchanges_name_of_a_trigger_is_refused_by_that_name(alice: Http, bob: Http, name: str) -> None:
    bob.result("private/sell", {"instrument_name": SPOT, "amount": 1, "price": 3_250})
    # Without its trigger the order would trade at once.
    order = {"instrument_name": SPOT, "amount": 1, "type": "limit", "price": 3_250, name: 3_300}
    data = refused(alice, order)["data"]
    assert data["param"] == name and "trigger_price" in data["reason"], data
    assert alice.result("private/get_open_orders") == []
    assert [left["amount"] for left in bob.result("private/get_open_orders")] == [1]


def test_a_stop_whose_trigger_has_passed_is_refused_and_elected_on_request(alice: Http, bob: Http) -> None:
    last_price(alice, bob, 3_250)
    bob.result("private/sell", {"instrument_name": SPOT, "amount": 1, "price": 3_251})
    stop = {"instrument_name": SPOT, "amount": 1, "type": "stop_market", "trigger": "last_price"}
    error = refused(alice, stop | {"trigger_price": 3_250})
    assert (error["code"], error["data"]["param"], error["data"]["limit"]) == (11036, "trigger_price", 3_250)
    assert "pitwire_trigger_at_once" in error["data"]["remedy"]
    waiting = alice.result("private/buy", stop | {"trigger_price": 3_250.01})["order"]
    assert waiting["order_state"] == "untriggered"
    at_once = {"trigger_price": 3_250, "pitwire_trigger_at_once": True}
    elected = alice.result("private/buy", stop | at_once)["order"]
    assert (elected["order_state"], elected["triggered"], elected["average_price"]) == ("filled", True, 3_251)


def test_a_channel_in_the_wrong_case_is_named_in_the_answer(running: Venue) -> None:
    with Ws(running.ws_url) as ws:
        right, wrong = f"ticker.{SPOT}.100ms", f"ticker.{SPOT.lower()}.100ms"
        answer = ws.call("public/subscribe", {"channels": [right, wrong]})
        assert answer["result"] == [right]
        (ignored,) = answer["data"]["ignored"]
        assert ignored["channel"] == wrong and right in ignored["reason"]
        malformed = ws.call("public/subscribe", {"channels": [f"Ticker.{SPOT}.100MS"]})
        assert right in malformed["error"]["data"]["reason"], malformed


@pytest.mark.parametrize(
    ("terms", "name", "remedy"),
    [
        ({"price": 3_000, "max_show": 0}, "max_show", "Send a max_show"),
        ({"price": 3_000, "display_amount": 0}, "display_amount", "Send a display_amount"),
        ({"type": "market", "tif_ext": "gtc"}, "tif_ext", "time in force"),
        ({"type": "market", "pitwire_time_in_force": "gtc"}, "pitwire_time_in_force", "time in force"),
    ],
)
def test_a_refusal_names_the_parameter_as_it_was_sent(alice: Http, terms: Json, name: str, remedy: str) -> None:
    data = refused(alice, {"instrument_name": SPOT, "amount": 5} | terms)["data"]
    assert data["param"] == name and remedy in data["remedy"], data
