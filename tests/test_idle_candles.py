"""Candles of a quiet market advance with the clock, on every channel and in every answer."""

import asyncio
import json
from pathlib import Path
from typing import Any

from rpc import Http, Ws
from test_streams import stream, take
from venue import DEMO_A, DEMO_B, Venue

MINUTE_MS = 60_000
PRICE = 60_000
INSTRUMENT = "BTC_USDC"


def advance(http: Http, ms: int) -> int:
    return int(http.result("private/pitwire_advance", {"ns": ms * 1_000_000})["venue_time_ns"]) // 1_000_000


def trade(http: Http, other: Http) -> None:
    order = {"instrument_name": INSTRUMENT, "amount": 3, "price": PRICE}
    http.result("private/sell", order)
    assert other.result("private/buy", order)["order"]["order_state"] == "filled"


def test_candles_of_an_idle_market_roll_with_the_clock(data: Path) -> None:
    idle = ["--clock", "manual", "--no-flow", "--durability", "memory"]
    with Venue(data, extra=idle, preset="crypto24x7") as venue, Ws(venue.ws_url) as ws:
        http, other = Http(venue.address, DEMO_A), Http(venue.address, DEMO_B)
        now = advance(http, 0)
        start = advance(http, -now % MINUTE_MS + 10_000) // MINUTE_MS * MINUTE_MS
        channels = [f"chart.trades.{INSTRUMENT}.1", f"chart.trades.{INSTRUMENT}.3"]
        ws.subscribe(*channels)
        trade(http, other)
        # Lets everything that the trade caused happen; no commands follow.
        advance(http, 40_000)
        seq = http.result("private/pitwire_advance", {"ns": 0})["sequence"]

        async def klines() -> list[dict[str, Any]]:
            async with stream(venue, f"/ws/{INSTRUMENT.replace('_', '').lower()}@kline_1m") as socket:
                # An answered request shows that the subscriber is ready.
                await socket.send('{"method":"LIST_SUBSCRIPTIONS","id":1}')
                await take(socket, 1)
                for _ in range(3):
                    advance(http, MINUTE_MS)
                return [json.loads(text)["k"] for text in await take(socket, 3)]

        ended = asyncio.run(klines())
        # A new subscriber gets the running candle first.
        assert [(k["t"], k["x"], k["n"]) for k in ended] == [
            (start + MINUTE_MS, False, 0),
            (start + MINUTE_MS, True, 0),
            (start + 2 * MINUTE_MS, True, 0),
        ]
        rolled = [ws.notification(channels[0], lambda candle: candle["tick"] > start) for _ in range(3)]
        assert [candle["tick"] for candle in rolled] == [start + n * MINUTE_MS for n in (1, 2, 3)]
        assert all(candle["volume"] == 0 and candle["open"] == candle["close"] == PRICE for candle in rolled)
        assert seq == http.result("private/pitwire_advance", {"ns": 0})["sequence"], "an idle venue writes nothing"
        chart = {"instrument_name": INSTRUMENT, "start_timestamp": start, "end_timestamp": start + 10 * MINUTE_MS}
        candles = http.result("public/get_tradingview_chart_data", chart | {"resolution": "1"})
        assert candles["ticks"] == [start + n * MINUTE_MS for n in range(4)]
        assert (candles["volume"], candles["close"]) == ([3, 0, 0, 0], [PRICE] * 4)
        # An hour at once: only the newest state is sent.
        advance(http, 3_600_000)
        assert ws.notification(channels[0])["tick"] == start + 63 * MINUTE_MS
        other.close()
        http.close()
