"""40 million events of six connectors, matched and summarised."""

import os
import resource
import time
from pathlib import Path

import duckdb
import pytest

from lab import matching, summary

ROWS = int(os.environ.get("LAB_SCALE_ROWS", "40000000"))
CONNECTORS = 6


def write_events(path: Path, connector: int, rows: int) -> None:
    """Events with a growing due time and a skewed latency. Each connector lacks other ones."""
    duckdb.connect(config={"threads": 2, "memory_limit": "4GB"}).execute(
        f"""
        COPY (SELECT i::BIGINT AS sequence, NULL::UBIGINT AS key_high, NULL::UBIGINT AS key_low,
            0::INTEGER AS occurrence, 1::INTEGER AS connection_id, {connector}::INTEGER AS feed_connection,
            i * 10000 AS due_ns, i * 10000 + 500 AS sent_ns,
            i * 10000 + 20000 + {connector} * 1000 + (hash(i * 31 + {connector}) % 100000)::BIGINT AS received_ns,
            224::INTEGER AS length_bytes, 0::INTEGER AS flags
          FROM range({rows}) AS t(i) WHERE i % 1000 != {connector})
        TO '{path}' (FORMAT parquet, COMPRESSION zstd)
        """
    )


def match_and_summarise(folder: Path, rows: int) -> tuple[int, dict[str, summary.FiveNumbers]]:
    names = [f"c{i}" for i in range(CONNECTORS)]
    database = matching.open_store(folder)
    try:
        matched = matching.match(database, {n: [folder / f"{n}.parquet"] for n in names}, key="sequence")
        found = {}
        for name in names:
            found[name], quantiles = matching.distribution(database, matching.latency(name))
            assert len(quantiles) == sum(summary.printable(q, matched) for q in summary.QUANTILES)
        return matched, found
    finally:
        database.close()


def check(folder: Path, rows: int) -> None:
    for connector in range(CONNECTORS):
        write_events(folder / f"c{connector}.parquet", connector, rows)
    begin, cpu = time.monotonic(), time.process_time()
    matched, found = match_and_summarise(folder, rows)
    seconds = time.monotonic() - begin
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cpu = time.process_time() - cpu
    print(f"{rows:,} x {CONNECTORS}: {seconds:.1f} s, {cpu:.1f} s of CPU, peak memory {peak / 1e6:.2f} GB")
    # Each connector lacks a different one of every 1,000 events.
    assert matched == rows - CONNECTORS * rows // 1_000
    for connector, five in enumerate(found.values()):
        assert five.minimum >= 20_000 + connector * 1_000
        assert five.maximum < 120_000 + connector * 1_000


def test_100_thousand_events_of_six_connectors(tmp_path: Path) -> None:
    check(tmp_path, 100_000)


@pytest.mark.soak
def test_40_million_events_of_six_connectors(tmp_path: Path) -> None:
    check(tmp_path, ROWS)
