"""Unmodified synchronous ccxt: only its URLs, its keys and two documented options are set."""

import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import ccxt
import pytest
from rpc import Http
from venue import CURRENCIES, DEMO_A, INSTRUMENTS, SHARES, Credentials, Venue

SPOT = "NPN/ZAR"
PERPETUAL = "BTC/USD:BTC"
SYMBOLS = [*(f"{share}/ZAR" for share in SHARES), "BTC/USDC", "ETH/USDC", PERPETUAL]
NO_SUCH_ORDER = "999999999999"


def deribit(venue: Venue, credentials: Credentials = DEMO_A) -> ccxt.deribit:
    return ccxt.deribit(
        {
            "urls": {"api": {"rest": venue.http_url}},
            "apiKey": credentials.client_id,
            "secret": credentials.secret,
            "options": {"code": "ZAR", "currencies": CURRENCIES},
        }
    )


@pytest.fixture
def exchange(venue: Venue) -> Iterator[ccxt.deribit]:
    client = deribit(venue)
    client.load_markets()
    yield client
    client.cancel_all_orders()


def far_below(exchange: ccxt.deribit, symbol: str = SPOT) -> float:
    """A price at which a buy rests."""
    best_bid = exchange.fetch_order_book(symbol, 1)["bids"][0][0]
    return float(exchange.price_to_precision(symbol, best_bid * 0.9))


def exact(value: Any) -> Decimal:
    return Decimal(str(value))


def totals(exchange: ccxt.deribit) -> dict[str, Decimal]:
    return {code: exact(total) for code, total in exchange.fetch_balance()["total"].items()}


def test_markets(exchange: ccxt.deribit) -> None:
    assert sorted(exchange.symbols) == sorted(SYMBOLS)
    assert sorted(exchange.markets_by_id) == sorted(INSTRUMENTS)
    share, coin, perpetual = (exchange.market(symbol) for symbol in (SPOT, "BTC/USDC", PERPETUAL))
    assert share["spot"] and (share["precision"]["price"], share["precision"]["amount"]) == (0.01, 1)
    assert coin["spot"] and (coin["precision"]["price"], coin["precision"]["amount"]) == (0.5, 0.0001)
    assert perpetual["swap"] and perpetual["inverse"] and perpetual["contractSize"] == 10
    assert (perpetual["precision"]["price"], perpetual["precision"]["amount"]) == (0.5, 10)
    assert all(market["active"] for market in exchange.markets.values())


def test_time_status_and_currencies(exchange: ccxt.deribit) -> None:
    assert abs(exchange.fetch_time() - time.time() * 1000) < 10_000
    assert exchange.fetch_status()["status"] == "ok"
    assert set(CURRENCIES) <= set(exchange.fetch_currencies())


@pytest.mark.parametrize("symbol", [SPOT, "ETH/USDC", PERPETUAL])
def test_ticker(exchange: ccxt.deribit, symbol: str) -> None:
    ticker = exchange.fetch_ticker(symbol)
    assert ticker["symbol"] == symbol
    assert 0 < ticker["bid"] < ticker["ask"]
    assert ticker["bidVolume"] > 0 and ticker["askVolume"] > 0


def test_tickers_by_symbols_and_by_currency(exchange: ccxt.deribit) -> None:
    assert list(exchange.fetch_tickers([SPOT])) == [SPOT]
    assert list(exchange.fetch_tickers([PERPETUAL])) == [PERPETUAL]
    by_currency = exchange.fetch_tickers(params={"code": "ZAR"})
    assert sorted(by_currency) == sorted(symbol for symbol in SYMBOLS if symbol.endswith("/ZAR"))


@pytest.mark.parametrize("symbol", [SPOT, "BTC/USDC", PERPETUAL])
def test_the_book_is_sound_and_moves_within_ten_seconds(exchange: ccxt.deribit, symbol: str) -> None:
    first = exchange.fetch_order_book(symbol)
    bids, asks = ([level[0] for level in first[side]] for side in ("bids", "asks"))
    assert bids and asks and bids[0] < asks[0]
    assert bids == sorted(bids, reverse=True) and asks == sorted(asks)
    deadline = time.monotonic() + 10
    while True:  # a change may lie deeper than what is shown, so the number alone says nothing
        book = exchange.fetch_order_book(symbol)
        assert book["nonce"] >= first["nonce"]
        if (book["bids"], book["asks"]) != (first["bids"], first["asks"]):
            break
        assert time.monotonic() < deadline, "the book stood still for ten seconds"
    assert book["nonce"] > first["nonce"]


def test_depth_is_a_limit(exchange: ccxt.deribit) -> None:
    book = exchange.fetch_order_book(SPOT, 1)
    assert (len(book["bids"]), len(book["asks"])) == (1, 1)


def test_public_trades(exchange: ccxt.deribit) -> None:
    own = exchange.create_order(SPOT, "market", "buy", 1)
    trades = exchange.fetch_trades(SPOT, limit=100)
    assert own["trades"][0]["id"] in [trade["id"] for trade in trades]
    sequences = [trade["info"]["trade_seq"] for trade in trades]
    assert [int(number) for number in sequences] == list(range(int(sequences[0]), int(sequences[0]) + len(trades)))
    since = trades[len(trades) // 2]["timestamp"]
    assert all(trade["timestamp"] >= since for trade in exchange.fetch_trades(SPOT, since=since, limit=10))


def test_candles(exchange: ccxt.deribit) -> None:
    exchange.create_order(SPOT, "market", "buy", 1)
    candles = exchange.fetch_ohlcv(SPOT, "1m")
    assert candles
    for tick, opened, high, low, close, volume in candles:
        assert tick % 60_000 == 0
        assert low <= min(opened, close) and max(opened, close) <= high and volume >= 0
    assert any(candle[5] > 0 for candle in candles[-2:])
    since = candles[-1][0]
    assert exchange.fetch_ohlcv(SPOT, "1m", since=since, limit=5)[0][0] == since


def test_limit_order_is_entered_edited_and_cancelled(exchange: ccxt.deribit) -> None:
    price = far_below(exchange)
    order = exchange.create_order(SPOT, "limit", "buy", 7, price)
    assert (order["status"], order["filled"], order["amount"], order["price"]) == ("open", 0, 7, price)
    assert [found["id"] for found in exchange.fetch_open_orders(SPOT)] == [order["id"]]
    assert [found["id"] for found in exchange.fetch_open_orders()] == [order["id"]], "by the currency of the option"

    edited = exchange.edit_order(order["id"], SPOT, "limit", "buy", 4, round(price - 1, 2))
    assert (edited["id"], edited["amount"], edited["price"]) == (order["id"], 4, round(price - 1, 2))
    same_price = exchange.edit_order(order["id"], SPOT, "limit", "buy", 3)
    assert (same_price["amount"], same_price["price"]) == (3, round(price - 1, 2))
    fetched = exchange.fetch_order(order["id"], SPOT)
    assert (fetched["status"], fetched["amount"], fetched["remaining"]) == ("open", 3, 3)

    assert exchange.cancel_order(order["id"], SPOT)["status"] == "canceled"
    assert exchange.fetch_order(order["id"], SPOT)["status"] == "canceled"
    assert exchange.fetch_open_orders(SPOT) == []
    with pytest.raises(ccxt.OrderNotFound):
        exchange.cancel_order(order["id"], SPOT)


def test_cancel_all_by_symbol_and_everywhere(exchange: ccxt.deribit) -> None:
    for symbol in (SPOT, SPOT, "MTN/ZAR"):
        exchange.create_order(symbol, "limit", "buy", 1, far_below(exchange, symbol))
    exchange.cancel_all_orders(SPOT)
    assert exchange.fetch_open_orders(SPOT) == []
    assert len(exchange.fetch_open_orders("MTN/ZAR")) == 1
    exchange.cancel_all_orders()
    assert exchange.fetch_open_orders("MTN/ZAR") == []


@pytest.mark.parametrize("side", ["buy", "sell"])
def test_a_market_order_trades_and_every_unit_is_accounted_for(exchange: ccxt.deribit, side: str) -> None:
    before, started = totals(exchange), exchange.fetch_time()
    order = exchange.create_order(SPOT, "market", side, 5)
    assert (order["status"], order["filled"], order["remaining"]) == ("closed", 5, 0)
    fills = order["trades"]
    assert sum(exact(fill["amount"]) for fill in fills) == 5
    assert all((fill["side"], fill["takerOrMaker"], fill["order"]) == (side, "taker", order["id"]) for fill in fills)

    ids = sorted(fill["id"] for fill in fills)
    assert sorted(trade["id"] for trade in exchange.fetch_order_trades(order["id"])) == ids
    mine = exchange.fetch_my_trades(SPOT, limit=100)
    assert sorted(trade["id"] for trade in mine if trade["order"] == order["id"]) == ids
    recent = exchange.fetch_my_trades(SPOT, since=started - 1000, limit=100)
    assert sorted(trade["id"] for trade in recent if trade["order"] == order["id"]) == ids
    everywhere = exchange.fetch_my_trades(limit=100)
    assert sorted(trade["id"] for trade in everywhere if trade["order"] == order["id"]) == ids
    fetched = exchange.fetch_order(order["id"], SPOT)
    assert (fetched["status"], fetched["filled"]) == ("closed", 5)
    assert order["id"] in [closed["id"] for closed in exchange.fetch_closed_orders(SPOT)]

    sign = 1 if side == "buy" else -1
    cost = sum(exact(fill["price"]) * exact(fill["amount"]) for fill in fills)
    after = totals(exchange)
    assert after["NPN"] == before["NPN"] + sign * 5
    assert after["ZAR"] == before["ZAR"] - sign * cost
    assert {code: total for code, total in after.items() if code not in ("NPN", "ZAR")} == {
        code: total for code, total in before.items() if code not in ("NPN", "ZAR")
    }


def test_a_resting_buy_reserves_cash_and_gives_it_back(exchange: ccxt.deribit) -> None:
    before = exchange.fetch_balance()["ZAR"]
    price = far_below(exchange)
    order = exchange.create_order(SPOT, "limit", "buy", 10, price)
    held = exchange.fetch_balance()["ZAR"]
    assert exact(held["free"]) == exact(before["free"]) - 10 * exact(price)
    assert held["total"] == before["total"]
    exchange.cancel_order(order["id"])
    assert exchange.fetch_balance()["ZAR"]["free"] == before["free"]


def test_immediate_or_cancel(exchange: ccxt.deribit) -> None:
    order = exchange.create_order(SPOT, "limit", "buy", 1, far_below(exchange), {"timeInForce": "IOC"})
    assert (order["status"], order["filled"], order["timeInForce"]) == ("canceled", 0, "IOC")


def test_closed_orders_include_the_unfilled_on_request(exchange: ccxt.deribit) -> None:
    order = exchange.create_order(SPOT, "limit", "buy", 1, far_below(exchange))
    exchange.cancel_order(order["id"])
    closed = exchange.fetch_closed_orders(SPOT, params={"include_unfilled": True})
    assert order["id"] in [found["id"] for found in closed]


def test_a_perpetual_position_opens_and_closes(exchange: ccxt.deribit) -> None:
    before = exchange.fetch_position(PERPETUAL)["contracts"]
    order = exchange.create_order(PERPETUAL, "market", "buy", 100)
    assert (order["status"], order["filled"]) == ("closed", 100)
    position = exchange.fetch_position(PERPETUAL)
    assert (position["symbol"], position["side"], position["contracts"]) == (PERPETUAL, "long", before + 100)
    assert position["entryPrice"] > 0 and position["markPrice"] > 0
    listed = exchange.fetch_positions()
    assert [found["symbol"] for found in listed] == [PERPETUAL], "spot is never listed"
    assert listed[0]["contracts"] == before + 100
    exchange.create_order(PERPETUAL, "market", "sell", 100)
    assert exchange.fetch_position(PERPETUAL)["contracts"] == before


def test_less_usual_calls_answer(exchange: ccxt.deribit) -> None:
    assert exchange.fetch_accounts()
    assert set(exchange.fetch_trading_fees()) == set(SYMBOLS)
    assert exchange.fetch_open_interest(PERPETUAL)["openInterestValue"] >= 0
    assert exchange.fetch_funding_rate(PERPETUAL)["fundingRate"] == 0


def test_every_method_of_the_dialect_is_known(venue: Venue) -> None:
    """A method that ccxt knows is served, or refused by name with an alternative: never a
    misspelling."""
    api = ccxt.deribit().describe()["api"]
    member = Http(venue.address, DEMO_A)
    for scope in ("public", "private"):
        for name in api[scope]["get"]:
            if name != "logout":
                error = member.call(f"{scope}/{name}").get("error", {})
                assert error.get("code") != -32601, (scope, name, error)
    assert member.call("public/no_such_method")["error"]["code"] == -32601
    member.close()


def test_refusals_have_the_right_class(exchange: ccxt.deribit) -> None:
    price = far_below(exchange)
    with pytest.raises(ccxt.InsufficientFunds):
        exchange.create_order(SPOT, "limit", "buy", 10_000, price)
    with pytest.raises(ccxt.InsufficientFunds):
        exchange.create_order(SPOT, "limit", "sell", 100_000, price * 2)
    with pytest.raises(ccxt.InvalidOrder):
        # ccxt rounds prices to the tick; a parameter overrides the rounded price.
        exchange.create_order(SPOT, "limit", "buy", 1, price, {"price": f"{price:.2f}7"})
    with pytest.raises(ccxt.OrderNotFound):
        exchange.fetch_order(NO_SUCH_ORDER)
    with pytest.raises(ccxt.OrderNotFound):
        exchange.cancel_order(NO_SUCH_ORDER)
    with pytest.raises(ccxt.OrderNotFound):
        exchange.edit_order(NO_SUCH_ORDER, SPOT, "limit", "buy", 1, price)


@pytest.mark.parametrize("name", ["triggerPrice", "stop_price"])
def test_a_trigger_that_the_client_sends_raw_is_refused_by_name(exchange: ccxt.deribit, name: str) -> None:
    """ccxt passes both names on as they are. Without its trigger the order would rest or trade."""
    price = far_below(exchange)
    with pytest.raises(ccxt.ExchangeError, match=name):
        exchange.create_order(SPOT, "limit", "buy", 1, price, {name: price})
    assert exchange.fetch_open_orders(SPOT) == []


@pytest.mark.parametrize("wrong", [Credentials("demo-a", "not-the-secret"), Credentials("unknown", "demo-a-secret")])
def test_a_wrong_key_is_an_authentication_error(venue: Venue, wrong: Credentials) -> None:
    stranger = deribit(venue, wrong)
    stranger.load_markets()
    with pytest.raises(ccxt.AuthenticationError):
        stranger.fetch_balance()
