"""kill -9 under load, repeatedly: acknowledged requests are there, the others are complete or
absent. KILL_CYCLES sets the number of kills (default 50). KILL_SEED repeats the clients' decisions
of a failed run."""

import os
import random
import time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from ledger import TICKS, Trader, exact
from rpc import Http, Json, Ws
from venue import DEMO_A, DEMO_B, OPENING_BALANCES, Credentials, Venue, run_pitwire

CYCLES = int(os.environ.get("KILL_CYCLES", "50"))
SEED = int(os.environ.get("KILL_SEED", time.time_ns()))
PAGE = 1000
ANSWERS_PER_CYCLE = 50


class PublicTape:
    """The public trades of each instrument, read again after every kill: no gap, no repetition, no
    change."""

    def __init__(self) -> None:
        self.next_seq: dict[str, int] = {}

    def check(self, http: Http, traders: list[Trader]) -> None:
        received: dict[tuple[str, int], Json] = {}
        for trader in traders:
            received |= trader.public
            trader.public = {}
        for instrument in TICKS:
            numbers = [seq for name, seq in received if name == instrument]
            start = min(numbers, default=self.next_seq.get(instrument, 1))
            self._check_from(http, instrument, min(start, self.next_seq.get(instrument, start)), received)

    def _check_from(self, http: Http, instrument: str, start: int, received: dict[tuple[str, int], Json]) -> None:
        expected = start
        while True:
            params = {"instrument_name": instrument, "start_seq": expected, "count": PAGE, "sorting": "asc"}
            page = http.result("public/get_last_trades_by_instrument", params)["trades"]
            for trade in page:
                assert trade["trade_seq"] == expected, f"{instrument}: expected trade_seq {expected}, got {trade}"
                before = received.pop((instrument, expected), trade)
                assert identity(before) == identity(trade), f"it was {before} before the kill, and now is {trade}"
                expected += 1
            if len(page) < PAGE:
                break
        lost = [seq for name, seq in received if name == instrument and seq >= start]
        assert not lost, f"{instrument}: published trades {lost[:5]} are gone"
        self.next_seq[instrument] = expected


def identity(trade: Json) -> tuple[Any, ...]:
    return tuple(trade[name] for name in ("trade_id", "price", "amount", "direction", "timestamp"))


def expected_balances(traders: list[Trader], credentials: Credentials) -> dict[str, Decimal]:
    """Opening balances plus every fill of every order. BTC is left out, because the perpetual
    settles in it."""
    balances = {currency: exact(opening) for currency, opening in OPENING_BALANCES.items()}
    for trader in traders:
        for order in trader.orders.values():
            if trader.credentials != credentials or order.instrument == "BTC-PERPETUAL":
                continue
            base, quote = order.instrument.split("_")
            sign = 1 if order.side == "buy" else -1
            for fill in order.trades.values():
                balances[base] += sign * exact(fill["amount"])
                balances[quote] -= sign * exact(fill["amount"]) * exact(fill["price"])
    del balances["BTC"]
    return balances


@pytest.mark.attack("kill -9 under load")
@pytest.mark.timeout(300 + 20 * CYCLES)
def test_kill_9_under_load_loses_nothing_acknowledged(data: Path) -> None:
    print(f"KILL_SEED={SEED} KILL_CYCLES={CYCLES}")
    rng = random.Random(SEED)
    traders = [
        Trader(f"{account.client_id}-{transport}", account, transport, random.Random(rng.getrandbits(64)))
        for account in (DEMO_A, DEMO_B)
        for transport in ("ws", "http")
    ]
    tape = PublicTape()
    with Venue(data) as venue:
        for cycle in range(CYCLES):
            threads = [trader.trade_until_it_dies(venue) for trader in traders]
            # Mostly soon: the moment of the kill matters, not the amount of history.
            time.sleep(rng.triangular(0.1, 1.2, 0.1))
            # A slow machine needs longer for a load.
            least = ANSWERS_PER_CYCLE * (cycle + 1)
            while any(thread.is_alive() for thread in threads) and sum(trader.answers for trader in traders) < least:
                time.sleep(0.01)
            assert venue.alive(), f"it died by itself:\n{venue.log_tail()}"
            venue.kill()
            for thread in threads:
                thread.join()
            venue.start()
            for trader in traders:
                with Ws(venue.ws_url) as ws:
                    ws.login(trader.credentials)
                    trader.hold_to_account(ws)
            tape.check(Http(venue.address), traders)

        for trader in traders:
            with Ws(venue.ws_url) as ws:
                ws.login(trader.credentials)
                ws.result("private/cancel_all")
                trader.compare_all_closed(ws)
        for account in (DEMO_A, DEMO_B):
            summaries = Http(venue.address, account).result("private/get_account_summaries")["summaries"]
            equities = {summary["currency"]: exact(summary["equity"]) for summary in summaries}
            for currency, expected in expected_balances(traders, account).items():
                assert equities[currency] == expected, (account.client_id, currency)
        assert venue.stop() == 0
    assert_there_was_a_load(traders)
    verified = run_pitwire("verify", data)
    assert verified.returncode == 0, verified.stdout + verified.stderr


def assert_there_was_a_load(traders: list[Trader]) -> None:
    """A test without any request would pass as well."""
    orders = [order for trader in traders for order in trader.orders.values()]
    answers = sum(trader.answers for trader in traders)
    fills = sum(len(order.trades) for order in orders)
    cancelled = sum(order.state == "cancelled" for order in orders)
    in_flight = sum(trader.in_flight_at_death for trader in traders)
    print(f"{CYCLES} kills: {answers} answers, {len(orders)} orders, {fills} fills, {in_flight} requests in flight")
    assert answers >= ANSWERS_PER_CYCLE * CYCLES
    assert min(len(orders), fills, cancelled) >= 5 * CYCLES
    assert in_flight >= CYCLES // 4
