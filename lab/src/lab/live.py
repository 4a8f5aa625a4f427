"""Live runs: which connector had a message first, and how much later the others had it.

All connectors receive the same stream of another server, each on its own connection. Their clocks
are one CLOCK_MONOTONIC, so the difference of two arrivals needs no synchronised clock. The server
may serve its connections in an order of its own, which this comparison cannot separate.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lab import matching
from lab.hosts import ClockLine, host_of
from lab.matching import column

SHOWN = (0.5, 0.9, 0.99)


@dataclass(frozen=True)
class Arrivals:
    """One connector in a live run. Times are nanoseconds."""

    connector: str
    received: int
    unmatched: int  # received, and not by every connector
    reconnects: int
    first_percent: float  # share of the matched messages that it had first
    behind: dict[float, float]  # quantiles of its arrival minus the first arrival of the message
    # Quantiles of its arrival minus the sender's time, CLOCK_REALTIME. Empty without `event_time`.
    since_event: dict[float, float] = field(default_factory=dict)
    # Bound of the error that the clocks of several hosts add to `behind`.
    clock_error_ns: int = 0


@dataclass(frozen=True)
class LiveResult:
    """One live run."""

    name: str
    settings: dict[str, Any]
    matched: int
    bytes_range: tuple[int, int]
    per_second: float  # messages of one connection
    arrivals: list[Arrivals]


def summarise(
    database: Any,
    name: str,
    settings: dict[str, Any],
    files: Mapping[str, Sequence[Path]],
    reconnects: Mapping[str, int],
    offset_ns: Mapping[str, int],
    clocks: Mapping[str, ClockLine] | None = None,
) -> LiveResult | None:
    """Matches the messages of all connectors by payload. None: no message arrived at every one.

    `offset_ns` is CLOCK_REALTIME minus CLOCK_MONOTONIC. `clocks` has the hosts other than this one.
    """
    matched = matching.match(database, files, key="hash")
    if not matched:
        return None
    names = list(files)
    clocks = clocks or {}
    stamp = {n: column("received " + n) for n in names}
    arrival = {n: clocks[host_of(n)].sql(stamp[n]) if host_of(n) in clocks else stamp[n] for n in names}
    error_ns = {host_of(n): clocks[host_of(n)].error_ns if host_of(n) in clocks else 0 for n in names}
    first = f"least({', '.join(arrival.values())})"
    every = matching.files_sql([file for own in files.values() for file in own])
    low, high = database.execute(f"SELECT min(length_bytes), max(length_bytes) FROM {every}").fetchone()
    # Per connector, because the clocks of two hosts have different origins.
    seconds = (
        max(
            database.execute(f"SELECT max(received_ns) - min(received_ns) FROM {matching.files_sql(own)}").fetchone()[0]
            for own in files.values()
        )
        / 1e9
    )
    found = []
    for n in names:
        received = database.execute(f"SELECT count(*) FROM {matching.files_sql(files[n])}").fetchone()[0]
        share, *behind = database.execute(
            f"SELECT avg(({arrival[n]} = {first})::INT), "
            + ", ".join(f"quantile_cont({arrival[n]} - {first}, {q})" for q in SHOWN)
            + " FROM matched"
        ).fetchone()
        since = database.execute(
            f"SELECT quantile_cont({stamp[n]} + {offset_ns[n]} - event_ns, {list(SHOWN)}) FROM matched"
            " WHERE event_ns IS NOT NULL"
        ).fetchone()[0]
        found.append(
            Arrivals(
                connector=n,
                received=received,
                unmatched=received - matched,
                reconnects=reconnects[n],
                first_percent=100 * share,
                behind=dict(zip(SHOWN, map(float, behind), strict=True)),
                since_event=dict(zip(SHOWN, map(float, since), strict=True)) if since else {},
                clock_error_ns=clock_error(host_of(n), error_ns),
            )
        )
    rate = sum(a.received for a in found) / len(found) / max(seconds, 1e-9)
    return LiveResult(name, settings, matched, (int(low), int(high)), rate, found)


def clock_error(host: str, error_ns: Mapping[str, int]) -> int:
    """Bound of the error of a difference between this host and the worst other one, or 0."""
    others = [error for name, error in error_ns.items() if name != host]
    return error_ns[host] + max(others) if others else 0
