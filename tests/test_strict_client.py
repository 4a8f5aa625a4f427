"""A client that checks each answer and notification against the schema of the real venue.

`typed-deribit` refuses an answer that lacks a required field or has another form. Its lists of
currencies are those of the real venue, so only instruments in BTC and USDC are used."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from typed_core.http import HttpClient
from typed_deribit import Deribit
from typed_deribit.core.auth import Credentials
from typed_deribit.core.transport.http import OAuthHttpRpcClient
from typed_deribit.core.transport.ws import SocketRpcStreamClient
from venue import DEMO_A, Venue

PERPETUAL, SPOT = "BTC-PERPETUAL", "BTC_USDC"
PATIENCE_S = 60


def client(address: str) -> Deribit:
    http, ws = f"http://{address}/api/v2", f"ws://{address}/ws/api/v2"
    credentials = Credentials(DEMO_A.client_id, DEMO_A.secret)
    return Deribit(
        rpc_client=OAuthHttpRpcClient(http=HttpClient(), base_url=http, credentials=credentials, validate=True),
        ws_client=SocketRpcStreamClient.new(ws, credentials=credentials, validate=True),
    )


async def answers(venue: Deribit, check: Callable[[str, Awaitable[Any]], Awaitable[Any]]) -> None:
    market, trading, account = venue.market_data, venue.trading, venue.account
    for name in (PERPETUAL, SPOT):
        # High and low are absent until the first trade, where the real venue has null.
        while "high" not in (await market.ticker(name, validate=False))["stats"]:
            await asyncio.sleep(0.05)
    span = {"start_timestamp": datetime.now(UTC) - timedelta(hours=1), "end_timestamp": datetime.now(UTC)}
    for name in (PERPETUAL, SPOT):
        await check(f"ticker {name}", market.ticker(name))
        await check(f"book {name}", market.get_order_book(name))
        await check(f"instrument {name}", market.get_instrument(name))
        await check(f"summary {name}", market.get_book_summary_by_instrument(name))
        await check(f"contract size {name}", market.get_contract_size(name))
        await check(f"trades {name}", market.get_last_trades_by_instrument(name))
        await check(f"candles {name}", market.get_tradingview_chart_data(name, resolution="1", **span))
        await check(f"settlements {name}", market.get_last_settlements_by_instrument(instrument_name=name))
    await check("currencies", market.get_currencies())
    await check("instruments", market.get_instruments(currency="BTC"))
    await check("summaries", market.get_book_summary_by_currency("BTC"))
    await check("last trades", market.get_last_trades_by_currency(currency="any"))
    await check("expirations", market.get_expirations(currency="BTC", kind="any"))
    await check("index", market.get_index_price("btc_usd"))
    await check("funding", market.get_funding_chart_data(PERPETUAL, length="8h"))
    await check("deliveries", market.get_delivery_prices("btc_usd"))
    await check("status", venue.supporting.status())

    limit = {"instrument_name": PERPETUAL, "amount": 10, "type": "limit", "price": 50_000, "label": "strict"}
    order = (await check("buy", trading.buy(limit)))["order"]["order_id"]
    await check("state", trading.get_order_state(order))
    await check("edit", trading.edit(order, amount=20, price=49_000))
    stop = {"instrument_name": PERPETUAL, "amount": 10, "type": "stop_market", "trigger": "last_price"}
    await check("stop", trading.buy(stop | {"trigger_price": 90_000}))
    await check("open orders", trading.get_open_orders())
    await check("by label", trading.get_order_state_by_label(currency="BTC", label="strict"))
    await check("cancel", trading.cancel(order))
    taken = await check("market", trading.buy({"instrument_name": PERPETUAL, "amount": 50, "type": "market"}))
    await check("fills of an order", trading.get_user_trades_by_order(taken["order"]["order_id"]))
    await check("fills", trading.get_user_trades_by_currency(currency="BTC"))
    await check("history", trading.get_order_history_by_instrument(instrument_name=PERPETUAL))
    await check("positions", account.get_positions())
    await check("position", account.get_position(PERPETUAL))
    for currency in ("BTC", "USDC"):
        await check(f"account {currency}", account.get_account_summary(currency, extended=True))
    await check("accounts", account.get_account_summaries(extended=True))
    await check("subaccounts", account.get_subaccounts())
    await check("close", trading.close_position({"instrument_name": PERPETUAL, "type": "market"}))
    await check("cancel pair", trading.cancel_all_by_currency_pair(currency_pair="btc_usd"))
    await check("cancel all", trading.cancel_all())


async def notifications(venue: Deribit, check: Callable[[str, Awaitable[Any]], Awaitable[Any]]) -> None:
    public, private = venue.streams.market_data, venue.streams.user

    async def first(stream: Any) -> Any:
        async with stream as messages:
            return await anext(aiter(messages))

    for name, stream in {
        "ticker": public.ticker(PERPETUAL, interval="100ms"),
        "book": public.book(PERPETUAL, interval="100ms"),
        "grouped book": public.book_grouped(PERPETUAL, group="none", depth="10", interval="100ms"),
        "trades": public.trades_by_instrument(PERPETUAL, interval="100ms"),
        "candles": public.chart_trades(PERPETUAL, resolution="1"),
        "quote": public.quote(PERPETUAL),
        "index": public.price_index("btc_usd"),
        "perpetual": public.perpetual(PERPETUAL, interval="100ms"),
    }.items():
        await check(f"channel {name}", first(stream))

    async def trade() -> None:
        while True:
            order = {"instrument_name": PERPETUAL, "amount": 10, "type": "market"}
            await venue.trading.buy(order)
            await venue.trading.sell(order)
            await asyncio.sleep(0.2)

    trader = asyncio.create_task(trade())
    for name, stream in {
        "orders": private.orders_by_instrument(PERPETUAL, interval="100ms"),
        "raw orders": private.orders_by_instrument_raw(PERPETUAL),
        "fills": private.trades_by_instrument(PERPETUAL, interval="100ms"),
        "changes": private.changes_by_instrument(PERPETUAL, interval="100ms"),
        "portfolio": private.portfolio("BTC"),
    }.items():
        await check(f"channel user {name}", first(stream))
    trader.cancel()


def test_answers_and_notifications_have_the_forms_of_the_real_venue(venue: Venue) -> None:
    misfits: list[str] = []

    async def check(name: str, call: Awaitable[Any]) -> Any:
        try:
            return await asyncio.wait_for(call, PATIENCE_S)
        except Exception as error:
            misfits.append(f"{name}: {error!r}")
            return None

    async def play() -> None:
        async with client(venue.address) as connected:
            await answers(connected, check)
            await notifications(connected, check)

    asyncio.run(play())
    assert not misfits, "\n".join(misfits)
