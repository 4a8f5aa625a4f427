"""Market data of the dialect, as clients that check it strictly need it: volumes of an inverse
perpetual, fields and their types, price limits."""

from collections.abc import Iterator
from decimal import Decimal

import pytest
from rpc import Http, Ws
from venue import DEMO_A, DEMO_B, INSTRUMENTS, Venue

PERPETUAL = "BTC-PERPETUAL"
MINUTE_MS = 60_000
# The largest price that the engine accepts, in ticks. No market trades near it.
LARGEST_TICKS = 2**32 - 1


@pytest.fixture
def seller(running: Venue) -> Iterator[Http]:
    client = Http(running.address, DEMO_A)
    yield client
    client.close()


@pytest.fixture
def buyer(running: Venue) -> Iterator[Http]:
    client = Http(running.address, DEMO_B)
    yield client
    client.close()


def test_volume_of_an_inverse_perpetual_is_in_base_and_cost_in_quote_currency(
    running: Venue, seller: Http, buyer: Http
) -> None:
    """Two trades of 30,000 USD at different prices. The sum divided by the average price is not
    their volume."""
    now = int(seller.result("private/pitwire_advance", {"ns": 0})["venue_time_ns"]) // 1_000_000
    # The trades share a candle.
    seller.result("private/pitwire_advance", {"ns": (-now % MINUTE_MS + 10_000) * 1_000_000})
    prices = [60_600, 60_000]
    volume = float(round(sum(Decimal(30_000) / price for price in prices), 8))
    assert volume != float(round(Decimal(60_000) / (sum(prices) // 2), 8)), "the two values differ"
    with Ws(running.ws_url) as ws:
        channel = f"chart.trades.{PERPETUAL}.1"
        ws.subscribe(channel)
        for price in prices:
            order = {"instrument_name": PERPETUAL, "amount": 30_000, "price": price}
            seller.result("private/sell", order)
            assert buyer.result("private/buy", order)["order"]["order_state"] == "filled"
        buyer.result("private/pitwire_advance", {"ns": 1_000_000_000})
        candle = ws.notification(channel, lambda candle: candle["cost"] == 60_000)
    assert candle["volume"] == volume
    name = {"instrument_name": PERPETUAL}
    begin = candle["tick"]
    span = {"start_timestamp": begin, "end_timestamp": begin + MINUTE_MS - 1, "resolution": "1"}
    chart = buyer.result("public/get_tradingview_chart_data", name | span)
    assert (chart["volume"], chart["cost"]) == ([volume], [60_000])
    (summary,) = buyer.result("public/get_book_summary_by_instrument", name)
    stats = buyer.result("public/ticker", name)["stats"]
    for figures in (summary, stats):
        assert (figures["volume"], figures["volume_usd"], figures["volume_notional"]) == (volume, 60_000, 60_000)
        # From 60,600 to 60,000.
        assert figures["price_change"] == pytest.approx(-0.9901)
    assert (summary["current_funding"], summary["funding_8h"]) == (0, 0)
    index = buyer.result("public/get_index_price", {"index_name": "btc_usd"})
    assert summary["estimated_delivery_price"] == index["estimated_delivery_price"] == index["index_price"]


def test_an_instrument_names_the_type_of_its_underlying_asset(buyer: Http) -> None:
    found = {
        one["instrument_name"]: one["underlying_type"]
        for one in buyer.result("public/get_instruments", {"currency": "any"})
    }
    assert set(found) == set(INSTRUMENTS)
    assert all(kind == ("equity" if name.endswith("_ZAR") else "crypto") for name, kind in found.items()), found


def test_answers_have_the_types_that_strict_clients_check(buyer: Http) -> None:
    size = buyer.result("public/get_contract_size", {"instrument_name": PERPETUAL})["contract_size"]
    assert type(size) is int and size == 10
    expirations = buyer.result("public/get_expirations", {"currency": "BTC", "kind": "any"})
    assert expirations == {"future": ["PERPETUAL"], "option": []}
    for method, params in [
        ("public/get_last_settlements_by_instrument", {"instrument_name": PERPETUAL}),
        ("public/get_last_settlements_by_currency", {"currency": "BTC"}),
    ]:
        settlements = buyer.result(method, params)
        assert settlements["settlements"] == [] and type(settlements["continuation"]) is str, method
    (account,) = buyer.result("private/get_subaccounts")
    assert account["receive_notifications"] is False


@pytest.mark.parametrize("name", INSTRUMENTS)
def test_a_missing_price_limit_is_not_the_largest_price_of_the_engine(buyer: Http, name: str) -> None:
    asked = {"instrument_name": name}
    tick = Decimal(str(buyer.result("public/get_instrument", asked)["tick_size"]))
    largest = f"{LARGEST_TICKS * tick}"
    for method in (
        "public/ticker",
        "public/get_order_book",
        "public/get_instrument",
        "public/get_book_summary_by_instrument",
        "public/pitwire_get_session",
        "public/pitwire_get_auction",
        "public/pitwire_get_statistics",
    ):
        body = buyer.get(f"/api/v2/{method}?instrument_name={name}").body.decode()
        assert '"result"' in body and largest not in body, (method, body)
    for method in ("public/ticker", "public/get_order_book"):
        market = buyer.result(method, asked)
        assert 0 < market["min_price"] <= market["mark_price"] < market["max_price"], method
        assert market["max_price"] <= 1_000 * market["mark_price"], method
