"""A zero-intelligence market: agents that know nothing, after Farmer, Patelli and Zovko (2005).

Limit orders arrive at random prices within a band around the middle of the book, market orders
arrive at random, and orders that rest are cancelled at random. The example prints the spread and
the autocorrelation of changes of the trade price, which is negative although no agent wants it:
trades bounce between bid and ask (Roll 1984). `±` figures are half of a 95 % confidence interval:
of the spread by the means of twenty blocks, of the autocorrelation about no correlation (Bartlett
1946).

    python clients/python/examples/zero_intelligence.py --orders 100000 --seed 1
"""

import argparse
import json

import numpy as np
from pitwire import Venue

INSTRUMENT = "BTC_USDC"
BAND_TICKS = 40
LOTS = 10
#: Shares of limit orders, market orders and cancels.
SHARES = (0.5, 0.15, 0.35)
MEAN_PAUSE_NS = 10_000_000


def half_width(values: list[float]) -> float:
    """Half of the 95 % confidence interval of a mean, from twenty blocks (Student, 19 degrees)."""
    means = [block.mean() for block in np.array_split(np.array(values), 20)]
    return float(2.093 * np.std(means, ddof=1) / np.sqrt(20))


def run(orders: int, seed: int) -> dict[str, float]:
    """Runs the market and returns its figures."""
    random = np.random.default_rng(seed)
    venue = Venue("demo", seed, flow=None)
    instrument = venue.instruments[INSTRUMENT]
    agents = [venue.add_account(f"agent {number}", unlimited=True) for number in range(20)]
    live: list[tuple[int, int]] = []
    spreads = []
    for action in random.choice(3, orders, p=SHARES):
        venue.advance(int(random.exponential(MEAN_PAUSE_NS)))
        agent = int(random.choice(agents))
        side = int(random.choice([1, -1]))
        bid, _, ask, _ = venue.touch(instrument.id)
        if bid and ask:
            spreads.append(ask - bid)
        if action == 0:
            # A buy is below the best ask and a sell above the best bid, so neither trades.
            best = (ask or bid or instrument.start_price_ticks) if side == 1 else (bid or ask)
            best = best or instrument.start_price_ticks
            price = best - side * int(random.integers(1, BAND_TICKS + 1))
            order = venue.submit(instrument.id, side, LOTS, price, account=agent)
            live.append((order.order_id, agent))
        elif action == 1:
            venue.submit(instrument.id, side, LOTS, account=agent)
        elif live:
            at = int(random.integers(len(live)))
            live[at], live[-1] = live[-1], live[at]
            order_id, owner = live.pop()
            venue.cancel(order_id, account=owner)
    trades = venue.events().of_kind("trade")
    changes = np.diff(trades["price_ticks"])
    return {
        "orders": orders,
        "trades": len(trades),
        "mean_spread_ticks": round(float(np.mean(spreads)), 2),
        "mean_spread_ticks_±": round(half_width(spreads), 2),
        "trade_price_autocorrelation": round(float(np.corrcoef(changes[:-1], changes[1:])[0, 1]), 3),
        "trade_price_autocorrelation_±": round(float(1.96 / np.sqrt(len(changes) - 1)), 3),
        "venue_hours": round((venue.time_ns - 1_767_603_600_000_000_000) / 3.6e12, 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--orders", type=int, default=100_000, help="number of events")
    parser.add_argument("--seed", type=int, default=1, help="seed of the agents")
    arguments = parser.parse_args()
    print(json.dumps(run(arguments.orders, arguments.seed)))


if __name__ == "__main__":
    main()
