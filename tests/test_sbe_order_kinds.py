"""Orders of every kind and time in force, by SBE and by JSON: in each session both orders have the
same state, or the same refusal."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from rpc import Http, Json
from sbe_client import SbeClient
from test_sbe import logged_on, sbe_address
from test_schedules import Hand, jse
from venue import DEMO_A, DEMO_B, Venue

# It has every session of a day, and its price is 6.50 rand.
INSTRUMENT = "CLH_ZAR"
AMOUNT = "1000"
OPTIONS = ["--clock", "manual", "--durability", "memory", "--sbe", "127.0.0.1:0"]
SESSIONS = {
    "08:31": "opening_auction",
    "10:00": "continuous",
    "12:01": "intraday_auction",
    "16:51": "closing_auction",
    "17:06": "closing_price_cross",
}
TIMES_IN_FORCE = ["Default", "Day", "Gtc", "Gtd", "Gtt", "Ioc", "Fok", "Opg", "Gfa", "Gfx", "Atc", "Cpx"]
MINUTE_MS = 60_000
TEN_DAYS_MS = 10 * 24 * 60 * MINUTE_MS
# An order of each kind: parameters of JSON, and fields of SBE.
KINDS: dict[str, tuple[Json, Json]] = {
    "market": ({"type": "market"}, {"orderType": "Market"}),
    "limit": ({"type": "limit", "price": "5"}, {"orderType": "Limit", "price": "5"}),
    "hidden": (
        {"type": "limit", "price": "5", "hidden": True, "min_execution": "100"},
        {"orderType": "Limit", "price": "5", "hidden": "Yes", "minimumQuantity": "100"},
    ),
    "iceberg": (
        {"type": "limit", "price": "5", "display_amount": "100"},
        {"orderType": "Limit", "price": "5", "displayQuantity": "100"},
    ),
    "post-only": (
        {"type": "limit", "price": "5", "post_only": True, "reject_post_only": True},
        {"orderType": "Limit", "price": "5", "postOnly": "Yes"},
    ),
    "stop": ({"type": "stop_market", "trigger_price": "7"}, {"orderType": "StopMarket", "triggerPrice": "7"}),
    "stop limit": (
        {"type": "stop_limit", "price": "8", "trigger_price": "7"},
        {"orderType": "StopLimit", "price": "8", "triggerPrice": "7"},
    ),
}
# A change of each kind that rests, beside the amount.
AMENDS: dict[str, tuple[Json, Json]] = {
    "limit": ({"price": "4.5"}, {"price": "4.5"}),
    "hidden": ({"price": "5", "min_execution": "200"}, {"price": "5", "minimumQuantity": "200"}),
    "iceberg": ({"price": "5", "display_amount": "200"}, {"price": "5", "displayQuantity": "200"}),
    "stop": ({"trigger_price": "7.5"}, {"triggerPrice": "7.5"}),
    "stop limit": ({"price": "9", "trigger_price": "7.5"}, {"price": "9", "triggerPrice": "7.5"}),
}
# Fields that differ between two equal orders of two accounts.
OWN_FIELDS = ("order_id", "user_id", "creation_timestamp", "last_update_timestamp", "queue_ahead")

Outcome = tuple[str, Any, Any]


class Pair:
    """demo-a enters by JSON, and demo-b the same by SBE."""

    def __init__(self, venue: Venue, client: SbeClient) -> None:
        self.hand = Hand(venue)
        self.by_json, self.second = Http(venue.address, DEMO_A), Http(venue.address, DEMO_B)
        self.by_sbe = client
        found = self.by_json.result("public/get_instrument", {"instrument_name": INSTRUMENT})
        self.instrument_id: int = found["instrument_id"]

    def ends(self, tif: str) -> tuple[Json, Json]:
        """The end of an order in both protocols."""
        now_ms = int(self.hand.http.result("private/pitwire_advance", {"ns": 0})["venue_time_ns"]) // 1_000_000
        if tif == "Gtt":
            return {"expires_at": now_ms + MINUTE_MS}, {"expires": now_ms + MINUTE_MS}
        if tif == "Gtd":
            date = day_of(now_ms + TEN_DAYS_MS)
            return {"expires_at": date}, {"expires": int(date.replace("-", ""))}
        return {}, {}

    def enter(self, kind: str, tif: str) -> tuple[Outcome, Outcome]:
        """The outcomes of JSON and of SBE."""
        (params, fields), (json_end, sbe_end) = KINDS[kind], self.ends(tif)
        words = {} if tif == "Default" else {"tif_ext": tif.lower()}
        answer = self.by_json.call(
            "private/buy", {"instrument_name": INSTRUMENT, "amount": AMOUNT} | params | words | json_end
        )
        order = {"instrumentId": self.instrument_id, "side": "Buy", "quantity": AMOUNT, "timeInForce": tif}
        return self.json_outcome(answer), self.sbe_outcome("NewOrder", order | fields | sbe_end)

    def json_outcome(self, answer: Json) -> Outcome:
        if "error" in answer:
            return "refused", answer["error"]["code"], answer["error"]["message"]
        order_id = answer["result"]["order"]["order_id"]
        return "accepted", order_id, state(self.by_json, order_id)

    def sbe_outcome(self, name: str, fields: Json) -> Outcome:
        name, answer = self.by_sbe.request(name, **fields)
        if name == "Reject":
            return "refused", answer["code"], answer["name"]
        order_id = str(answer["orderId"])
        return "accepted", order_id, state(self.second, order_id)

    def cancel_all(self) -> None:
        self.by_json.result("private/cancel_all")
        assert self.by_sbe.request("MassCancel", scope="All")[0] == "MassCancelAccepted"


def day_of(at_ms: int) -> str:
    """The date in Johannesburg."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC) + timedelta(hours=2):%Y-%m-%d}"


def state(http: Http, order_id: str) -> Json:
    order: Json = http.result("private/get_order_state", {"order_id": order_id})
    return {name: value for name, value in order.items() if name not in OWN_FIELDS}


def comparable(outcome: Outcome) -> tuple[Any, ...]:
    """Numbers of orders differ."""
    return outcome if outcome[0] == "refused" else (outcome[0], outcome[2])


@pytest.fixture
def pair(data: Path) -> Iterator[Pair]:
    with jse(data, *OPTIONS) as venue, SbeClient(sbe_address(venue)) as client:
        yield Pair(venue, logged_on(client, DEMO_B))


def test_order_of_each_kind_and_time_in_force_is_that_of_json_in_each_session(pair: Pair) -> None:
    accepted: set[tuple[str, str]] = set()
    for clock, session in SESSIONS.items():
        pair.hand.to(clock)
        assert pair.hand.session(INSTRUMENT) == session
        for kind, tif in product(KINDS, TIMES_IN_FORCE):
            by_json, by_sbe = pair.enter(kind, tif)
            assert comparable(by_sbe) == comparable(by_json), f"{kind}, {tif}, {session}"
            if by_sbe[0] == "accepted":
                accepted.add((kind, tif))
        pair.cancel_all()
    assert {kind for kind, _ in accepted} == KINDS.keys()
    assert {tif for _, tif in accepted} == set(TIMES_IN_FORCE)
    pair.hand.close()


def test_amend_changes_what_json_changes(pair: Pair) -> None:
    pair.hand.to("10:00")
    for kind, (params, fields) in AMENDS.items():
        by_json, by_sbe = pair.enter(kind, "Default")
        assert (by_json[0], by_sbe[0]) == ("accepted", "accepted"), (by_json, by_sbe)
        answer = pair.by_json.call("private/edit", {"order_id": by_json[1], "amount": "1500"} | params)
        amended = pair.json_outcome(answer)
        again = pair.sbe_outcome("AmendOrder", {"orderId": int(by_sbe[1]), "quantity": "1500"} | fields)
        assert comparable(again) == comparable(amended), kind
        assert amended[0] == "accepted", (kind, answer)
        expected = {name: float(value) for name, value in params.items()} | {"amount": 1500}
        assert {name: amended[2][name] for name in expected} == expected, kind
    pair.hand.close()
