"""Unmodified clients of Binance and Gemini: ccxt over REST and pro, python-binance's local book."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import ccxt
import ccxt.pro
import pytest
import requests
from binance import AsyncClient, BinanceSocketManager
from binance.ws.depthcache import DepthCacheManager
from venue import Venue

PATIENCE_S = 60.0
SYMBOL = "BTC/USDC"


def binance_options(venue: Venue) -> dict[str, Any]:
    rest = dict.fromkeys(("public", "private", "v1"), f"{venue.http_url}/api/v3")
    rest["sapi"] = f"{venue.http_url}/sapi/v1"
    # Its check for a spot market looks for "/stream" in the URL.
    return {
        "urls": {"api": rest | {"ws": {"spot": f"ws://{venue.address}/stream/ws"}}},
        "options": {"fetchMarkets": {"types": ["spot"]}, "fetchCurrencies": False},
        "enableRateLimit": False,
    }


def gemini_options(venue: Venue) -> dict[str, Any]:
    api = {"public": venue.http_url, "private": venue.http_url, "ws": f"ws://{venue.address}"}
    # Details of the instruments; otherwise it guesses their currencies from its own list.
    details = {"fetchDetailsForAllSymbols": True}
    return {
        "urls": {"api": api},
        "options": {"fetchMarketsMethod": "fetch_markets_from_api", "fetchMarketsFromAPI": details},
        "enableRateLimit": False,
    }


@contextlib.asynccontextmanager
async def pro(exchange: Any) -> AsyncIterator[Any]:
    try:
        async with asyncio.timeout(4 * PATIENCE_S):
            await exchange.load_markets()
            yield exchange
    finally:
        await exchange.close()


async def times(count: int, watch: Callable[[], Awaitable[Any]]) -> list[Any]:
    async with asyncio.timeout(PATIENCE_S):
        return [await watch() for _ in range(count)]


def until_many(fetch: Callable[[], list[Any]], count: int) -> list[Any]:
    """Waits until a venue that has just started has some history."""
    deadline = time.monotonic() + PATIENCE_S
    while len(fetched := fetch()) < count:
        assert time.monotonic() < deadline, f"{len(fetched)} of {count}"
        time.sleep(0.2)
    return fetched


def check_book(book: dict[str, Any]) -> None:
    bids, asks = ([level[0] for level in book[side]] for side in ("bids", "asks"))
    assert bids == sorted(bids, reverse=True)
    assert asks == sorted(asks)
    assert bids
    assert asks
    assert bids[0] < asks[0], "a crossed book"


def test_ccxt_binance_over_rest(venue: Venue) -> None:
    exchange = ccxt.binance(binance_options(venue))
    market = exchange.load_markets()[SYMBOL]
    assert (market["precision"]["price"], market["precision"]["amount"], market["spot"]) == (0.5, 0.0001, True)
    assert abs(exchange.fetch_time() - exchange.milliseconds()) < 60_000
    check_book(exchange.fetch_order_book(SYMBOL, 50))
    trades = until_many(lambda: exchange.fetch_trades(SYMBOL, limit=20), 20)
    assert {trade["side"] for trade in trades} <= {"buy", "sell"}
    ticker = exchange.fetch_ticker(SYMBOL)
    assert ticker["low"] <= ticker["last"] <= ticker["high"]
    assert set(exchange.fetch_tickers(["NPN/ZAR", SYMBOL])) == {"NPN/ZAR", SYMBOL}
    assert exchange.fetch_bids_asks([SYMBOL])[SYMBOL]["bid"] > 0
    candles = exchange.fetch_ohlcv(SYMBOL, "1m")
    assert candles[-1][2] >= candles[-1][3] > 0
    with pytest.raises(ccxt.BadSymbol):
        exchange.public_get_depth({"symbol": "UNKNOWN"})


def test_ccxt_binance_pro(venue: Venue) -> None:
    async def scenario() -> None:
        async with pro(ccxt.pro.binance(binance_options(venue))) as exchange:
            for _ in range(20):
                book = (await times(1, lambda: exchange.watch_order_book(SYMBOL)))[0]
                check_book(book)
            trades = (await times(3, lambda: exchange.watch_trades(SYMBOL)))[-1]
            assert trades[-1]["price"] > 0
            ticker = (await times(1, lambda: exchange.watch_ticker(SYMBOL)))[0]
            assert ticker["last"] > 0
            candles = (await times(1, lambda: exchange.watch_ohlcv(SYMBOL, "1m")))[0]
            assert candles[-1][4] > 0
            both = (await times(1, lambda: exchange.watch_bids_asks([SYMBOL, "NPN/ZAR"])))[0]
            assert both

    asyncio.run(scenario())


def test_ccxt_gemini_over_rest(venue: Venue) -> None:
    exchange = ccxt.gemini(gemini_options(venue))
    market = exchange.load_markets()[SYMBOL]
    assert (market["precision"]["price"], market["precision"]["amount"]) == (0.5, 0.0001)
    check_book(exchange.fetch_order_book(SYMBOL))
    until_many(lambda: exchange.fetch_trades(SYMBOL, limit=10), 10)
    assert exchange.fetch_ticker(SYMBOL)["last"] > 0
    assert exchange.fetch_ohlcv(SYMBOL, "1m")[-1][4] > 0


def test_ccxt_gemini_pro(venue: Venue) -> None:
    async def scenario() -> None:
        async with pro(ccxt.pro.gemini(gemini_options(venue))) as exchange:
            for _ in range(20):
                check_book((await times(1, lambda: exchange.watch_order_book(SYMBOL)))[0])
            trades = (await times(2, lambda: exchange.watch_trades(SYMBOL)))[-1]
            assert {trade["side"] for trade in trades} <= {"buy", "sell"}
            assert (await times(1, lambda: exchange.watch_ohlcv(SYMBOL, "1m")))[0][-1][4] > 0
            for _ in range(5):
                check_book((await times(1, lambda: exchange.watch_order_book_for_symbols([SYMBOL, "NPN/ZAR"])))[0])
            assert (await times(1, lambda: exchange.watch_bids_asks([SYMBOL])))[0][SYMBOL]["bid"] > 0

    asyncio.run(scenario())


@pytest.mark.parametrize("interval", [100, None])
def test_python_binances_local_book_is_the_venues(
    venue: Venue, monkeypatch: pytest.MonkeyPatch, interval: int | None
) -> None:
    monkeypatch.setattr(AsyncClient, "API_URL", f"{venue.http_url}/api")
    monkeypatch.setattr(BinanceSocketManager, "STREAM_URL", f"ws://{venue.address}/")

    def fetch() -> dict[str, Any]:
        url = f"{venue.http_url}/api/v3/depth?symbol=BTCUSDC&limit=5000"
        return requests.get(url, timeout=PATIENCE_S).json()

    async def scenario() -> None:
        client = await AsyncClient.create()
        snapshots = 0
        get_order_book = client.get_order_book

        async def counted(**params: Any) -> Any:
            nonlocal snapshots
            snapshots += 1
            return await get_order_book(**params)

        client.get_order_book = counted
        compared = 0
        async with (
            asyncio.timeout(4 * PATIENCE_S),
            DepthCacheManager(client, "BTCUSDC", limit=5000, ws_interval=interval) as manager,
        ):
            while compared < 5:
                cache = await manager.recv()
                theirs = await asyncio.to_thread(fetch)
                if theirs["lastUpdateId"] != manager._last_update_id:
                    continue
                for mine, side in ((cache._bids, "bids"), (cache._asks, "asks")):
                    assert mine == {price: float(amount) for price, amount in theirs[side]}
                compared += 1
        await client.close_connection()
        # One before the stream was open, one at its first event; from there on every event follows.
        assert snapshots <= 2

    asyncio.run(scenario())
