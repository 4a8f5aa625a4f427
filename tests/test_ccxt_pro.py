"""ccxt pro, unmodified: its books, trades, tickers and own orders over WebSocket, its trading over
HTTP."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import ccxt.pro
import pytest
from rpc import Http, Ws
from venue import CURRENCIES, DEMO_A, Venue

SPOT = "NPN/ZAR"
PATIENCE_S = 60.0

Level = tuple[float, float]
Book = tuple[list[Level], list[Level]]


@contextlib.asynccontextmanager
async def deribit(venue: Venue) -> AsyncIterator[ccxt.pro.deribit]:
    exchange = ccxt.pro.deribit(
        {
            "urls": {"api": {"rest": venue.http_url, "ws": venue.ws_url}},
            "apiKey": DEMO_A.client_id,
            "secret": DEMO_A.secret,
            "options": {"code": "ZAR", "currencies": CURRENCIES},
        }
    )
    try:
        await exchange.load_markets()
        yield exchange
        await exchange.cancel_all_orders()
    finally:
        await exchange.close()


async def until(watch: Callable[[], Awaitable[list[Any]]], wanted: Callable[[Any], bool]) -> Any:
    """Calls a watch method until it returns a wanted item."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            for item in await watch():
                if wanted(item):
                    return item


def levels(book: dict[str, Any]) -> Book:
    bids, asks = ([(level[0], level[1]) for level in book[side]] for side in ("bids", "asks"))
    return bids, asks


@pytest.mark.parametrize("symbol", [SPOT, "BTC/USDC", "BTC/USD:BTC"])
def test_the_watched_book_equals_the_fetched_one_and_never_crosses(venue: Venue, symbol: str) -> None:
    """ccxt keeps a book's timestamp but not its change_id, so a plain subscriber to the same
    channel joins the two."""

    async def scenario() -> None:
        async with deribit(venue) as exchange:
            instrument = exchange.market(symbol)["id"]
            watched: dict[int, Book] = {}  # by timestamp
            change_ids: dict[int, int] = {}  # timestamp -> change_id
            fetched: dict[int, Book] = {}  # by change_id

            async def watch() -> None:
                while True:
                    book = await exchange.watch_order_book(symbol)
                    watched[book["timestamp"]] = levels(book)

            def listen(ws: Ws) -> None:
                channel = f"book.{instrument}.100ms"
                data = ws.notification(channel)
                change_ids[data["timestamp"]] = data["change_id"]

            def fetch(http: Http) -> None:
                book = http.result("public/get_order_book", {"instrument_name": instrument, "depth": 10_000})
                fetched[book["change_id"]] = levels(book)

            def matches() -> list[tuple[Book, Book]]:
                both = [(book, fetched.get(change_ids.get(timestamp, -1))) for timestamp, book in watched.items()]
                return [(ours, theirs) for ours, theirs in both if theirs is not None]

            async def forever(step: Callable[[Any], None], client: Any) -> None:
                while True:
                    await asyncio.to_thread(step, client)

            with Ws(venue.ws_url) as ws:
                ws.subscribe(f"book.{instrument}.100ms")
                tasks = [asyncio.create_task(watch()), asyncio.create_task(forever(listen, ws))]
                tasks += [asyncio.create_task(forever(fetch, Http(venue.address)))]
                async with asyncio.timeout(PATIENCE_S):
                    while len(matches()) < 5:
                        done = [task for task in tasks if task.done()]
                        assert not done, done[0].exception()
                        await asyncio.sleep(0.1)
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

            assert all(ours == theirs for ours, theirs in matches())
            assert all(bids and asks and bids[0][0] < asks[0][0] for bids, asks in watched.values())

    asyncio.run(scenario())


def test_trades_and_ticker_arrive(venue: Venue) -> None:
    async def scenario() -> None:
        async with deribit(venue) as exchange:
            watching = asyncio.create_task(until(lambda: exchange.watch_trades(SPOT), lambda _: True))
            await asyncio.sleep(0.5)
            await exchange.create_order(SPOT, "market", "buy", 1)
            trade = await watching
            assert trade["symbol"] == SPOT and trade["price"] > 0 and trade["amount"] > 0
            async with asyncio.timeout(PATIENCE_S):
                ticker = await exchange.watch_ticker(SPOT)
                while ticker["last"] is None:
                    ticker = await exchange.watch_ticker(SPOT)
            assert ticker["symbol"] == SPOT and 0 < ticker["bid"] < ticker["ask"]

    asyncio.run(scenario())


def test_own_orders_are_seen_to_open_change_and_close(venue: Venue) -> None:
    async def scenario() -> None:
        async with deribit(venue) as exchange:
            seen: list[tuple[str, str, float]] = []

            async def watch() -> None:
                while True:
                    for order in await exchange.watch_orders(SPOT):
                        seen.append((order["id"], order["status"], order["amount"]))

            async def wait_for(expected: tuple[str, str, float]) -> None:
                async with asyncio.timeout(PATIENCE_S):
                    while expected not in seen:
                        assert not watching.done(), watching.exception()
                        await asyncio.sleep(0.02)

            watching = asyncio.create_task(watch())
            # Until it has logged in and subscribed, orders go unseen.
            async with asyncio.timeout(PATIENCE_S):
                while not seen:
                    assert not watching.done(), watching.exception()
                    await exchange.create_order(SPOT, "market", "buy", 1)
                    await asyncio.sleep(0.5)
            best_bid = (await exchange.fetch_order_book(SPOT))["bids"][0][0]
            order = await exchange.create_order(SPOT, "limit", "buy", 3, best_bid * 0.9)
            await wait_for((order["id"], "open", 3))
            await exchange.edit_order(order["id"], SPOT, "limit", "buy", 2, best_bid * 0.9)
            await wait_for((order["id"], "open", 2))
            await exchange.cancel_order(order["id"])
            await wait_for((order["id"], "canceled", 2))
            market = await exchange.create_order(SPOT, "market", "sell", 1)
            await wait_for((market["id"], "closed", 1))
            watching.cancel()

    asyncio.run(scenario())


def test_own_trades_are_seen_with_the_ids_of_the_reply(venue: Venue) -> None:
    async def scenario() -> None:
        async with deribit(venue) as exchange:
            first = asyncio.create_task(until(lambda: exchange.watch_my_trades(SPOT), lambda _: True))
            # Until it has logged in and subscribed, orders go unseen.
            orders = {}
            while not first.done():
                order = await exchange.create_order(SPOT, "market", "buy", 2)
                orders[order["id"]] = order
                await asyncio.wait([first], timeout=1.0)
            trade = await first
            assert trade["id"] in [fill["id"] for fill in orders[trade["order"]]["trades"]]
            assert trade["takerOrMaker"] == "taker"

    asyncio.run(scenario())


def test_watch_balance_is_not_refused(venue: Venue) -> None:
    """A currency without a portfolio must not end in an error: ccxt would give up the whole
    connection."""

    async def scenario() -> None:
        async with deribit(venue) as exchange:
            watching = asyncio.create_task(exchange.watch_balance())
            await asyncio.sleep(1.0)
            await exchange.create_order(SPOT, "market", "buy", 1)
            await asyncio.sleep(1.0)
            assert not watching.done() or watching.exception() is None, watching.exception()
            watching.cancel()
            await asyncio.gather(watching, return_exceptions=True)

    asyncio.run(scenario())
