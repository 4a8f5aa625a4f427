"""Attacks with icebergs: a display so small that one command would trade millions of times."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from rpc import Ws
from venue import DEMO_A, DEMO_B, Venue

PERPETUAL = {"instrument_name": "BTC-PERPETUAL", "amount": 50_000_000, "type": "limit", "price": 60_000}
SMALLEST = 500_000


@pytest.mark.attack("iceberg with a very small display")
def test_one_command_trades_at_most_100_times_with_an_iceberg(data: Path, tries: Callable[[int], None]) -> None:
    with Venue(data, ["--no-flow"]) as venue, Ws(venue.ws_url) as seller, Ws(venue.ws_url) as buyer:
        seller.login(DEMO_A)
        buyer.login(DEMO_B)
        for display in (10, 20, SMALLEST - 10):
            error = seller.call("private/sell", {**PERPETUAL, "display_amount": display})["error"]
            assert error["data"]["name"] == "display_out_of_range", json.dumps(error)
            assert float(error["data"]["limit"]) == SMALLEST
            tries(1)
        order = seller.result("private/sell", {**PERPETUAL, "display_amount": SMALLEST})["order"]
        small = {"order_id": order["order_id"], "amount": 2 * PERPETUAL["amount"], "price": 60_000}
        error = seller.call("private/edit", small)["error"]
        assert error["data"]["name"] in ("display_out_of_range", "not_enough_funds"), json.dumps(error)
        tries(1)
        bought = buyer.result("private/buy", PERPETUAL)
        assert bought["order"]["filled_amount"] == PERPETUAL["amount"]
        assert len(bought["trades"]) == 100
        tries(1)
