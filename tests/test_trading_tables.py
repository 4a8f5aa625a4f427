"""The tables of the trading benchmarks: which targets are met."""

import sys
from typing import Any

from venue import TOP

sys.path.insert(0, str(TOP / "scripts"))

from trading_tables import target_rows

MISSED = ": **missed**"


def loop(p50: float, p99: float) -> dict[str, Any]:
    return {"name": "trading loop", "p50_to_tcp": p50, "p99_to_tcp": p99}


def pairs(*rates: float) -> dict[str, Any]:
    return {"rows": [{"orders_per_s": rate} for rate in rates]}


def cells(found: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {figure: measured for figure, _, measured in target_rows(found)}


def test_target_is_missed_if_no_client_reaches_it() -> None:
    update = {"name": "book update", "p50_us": 0.8}
    found = {
        "closed, event loop": {"measurements": [loop(2.7, 2.9), update], "updates_per_s": 399_999.0},
        "closed, busy loop": {"measurements": [loop(2.4, 2.5)]},
        "paper-pairs": pairs(10_000, 20_000, 9_000),
        "paper-pairs, busy loop": pairs(12_000, 24_000, 12_000),
        "pipelined-pairs": {"rows": [{"orders_per_s": 60_000, "p99_us": 5_001}, {"orders_per_s": 70_000}]},
        "pipelined-million": {"rows": [{"orders_per_s": 45_000, "p99_us": 5_000}]},
        "inprocess-million": {"rows": [{"orders_per_s": 1_000_000}]},
    }
    assert cells(found) == {
        "trading loop to TCP, p50": f"2.70 event loop, 2.40 busy loop{MISSED}",
        "trading loop to TCP, p99": "2.90 event loop, 2.50 busy loop",
        "book update, p50": "0.80",
        "book updates on one connection": f"399,999{MISSED}",
        "`paper`, one pair": "10,000 event loop, 12,000 busy loop",
        "`paper`, lowest of 2 to 10 pairs to one pair": "0.90 event loop, 1.00 busy loop",
        "`pipelined`, highest rate with p99 of at most 5 ms": f"45,000{MISSED}",
        "`inprocess`, 1,000,000 orders": "1,000,000",
    }


def test_target_without_a_figure_is_not_measured() -> None:
    assert set(cells({}).values()) == {"-"}
