"""Prints the rates of the Python package on one core: commands per second of a loop, and of a
batch of NumPy arrays. Half of the commands enter an order and half cancel it.

    pip install ./clients/python
    python scripts/bench_python.py [--commands 1000000] [--rounds 5]
"""

import argparse
import json
import statistics
import time

import numpy as np
from pitwire import Venue

INSTRUMENT = "BTC_USDC"
LEVELS = 50


def market(*, is_plain: bool) -> tuple[Venue, int, int, int]:
    """A market without flow, the account, the id of the instrument, and a price in ticks."""
    venue = Venue("demo", 7, flow=None, record=not is_plain, tape_hash=not is_plain)
    instrument = venue.instruments[INSTRUMENT]
    return venue, venue.add_account("bench", unlimited=True), instrument.id, instrument.start_price_ticks


def rate_of_loop(commands: int, *, is_plain: bool) -> float:
    """Commands per second of calls of `submit` and `cancel`, by names of a side and a number."""
    venue, account, instrument, price = market(is_plain=is_plain)
    prices = [price - 1 - k % LEVELS for k in range(commands // 2)]
    started = time.perf_counter()
    for each in prices:
        order = venue.submit(instrument, "buy", 1, each, account=account)
        venue.cancel(order.order_id, account=account)
    return 2 * len(prices) / (time.perf_counter() - started)


def rate_of_batch(commands: int, *, is_plain: bool) -> float:
    """Commands per second of one call of `submit_batch`."""
    venue, account, instrument, price = market(is_plain=is_plain)
    rows = np.arange(commands)
    prices = price - 1 - rows // 2 % LEVELS
    order_ids = venue.sequence + rows
    started = time.perf_counter()
    done = venue.submit_batch(instrument, 1, 1, prices, account=account, action=rows % 2, order_id=order_ids)
    elapsed = time.perf_counter() - started
    assert done.accepted.all()
    return commands / elapsed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--commands", type=int, default=1_000_000, help="commands of each case")
    parser.add_argument("--rounds", type=int, default=5, help="rounds, of which the median is printed")
    arguments = parser.parse_args()
    cases = {"loop": rate_of_loop, "batch": rate_of_batch}
    figures = {}
    for name, measure in cases.items():
        for is_plain in (True, False):
            rates = [measure(arguments.commands, is_plain=is_plain) for _ in range(arguments.rounds)]
            suffix = "" if is_plain else "_recorded_and_hashed"
            figures[f"{name}{suffix}_commands_per_s"] = round(statistics.median(rates))
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
