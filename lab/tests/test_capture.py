"""Capture files: conversion, damage, locks; matching over connectors."""

import sqlite3
from pathlib import Path

import duckdb
import numpy as np
import pytest

from lab import capture, matching, summary

SCHEMA = Path(__file__).parents[2] / "contracts" / "lab-capture.sql"


def write_capture(
    path: Path, rows: list[tuple[int | None, int]], *, payloads: list[bytes] | None = None, due_ns: int = 1_000
) -> Path:
    """A capture file with one event per (sequence, received_ns)."""
    database = sqlite3.connect(path)
    database.executescript(SCHEMA.read_text())
    database.executemany(
        "INSERT INTO event VALUES (?, 1, 1, ?, ?, ?, ?, 224, 0)",
        [
            (i + 1, s, None if s is None else s * due_ns, None if s is None else s * due_ns + 1, r)
            for i, (s, r) in enumerate(rows)
        ],
    )
    for i, body in enumerate(payloads or []):
        database.execute("INSERT INTO payload VALUES (?, ?)", (i + 1, body))
    database.execute("INSERT INTO run VALUES ('exit_code', '0'), ('connector', 'test')")
    database.execute("INSERT INTO clock VALUES (1, 2, 3)")
    database.execute("INSERT INTO flush VALUES (5, 6, 7)")
    database.commit()
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    database.close()
    return path


def converted(tmp_path: Path, name: str, rows: list[tuple[int | None, int]], **options: object) -> Path:
    target = tmp_path / f"{name}.parquet"
    capture.convert(write_capture(tmp_path / f"{name}.sqlite", rows, **options), target)
    return target


def test_every_event_is_converted(tmp_path: Path) -> None:
    path = write_capture(tmp_path / "c.sqlite", [(1, 1_500), (2, 2_600), (None, 3_000)])
    found = capture.convert(path, tmp_path / "c.parquet")
    assert (found.events, found.duplicates, found.without_sequence, found.complete) == (3, 0, 1, True)
    assert found.flushes == [(5, 6, 7)]
    assert found.clocks == [(1, 2, 3)]
    rows = duckdb.sql(f"SELECT sequence, due_ns, sent_ns, received_ns FROM '{tmp_path}/c.parquet'").fetchall()
    assert rows == [(1, 1_000, 1_001, 1_500), (2, 2_000, 2_001, 2_600), (None, None, None, 3_000)]


def test_a_converted_file_is_converted_again_only_if_it_changed(tmp_path: Path) -> None:
    path, target = write_capture(tmp_path / "c.sqlite", [(1, 1_500)]), tmp_path / "c.parquet"
    first = capture.convert_once(path, target)
    written = target.stat().st_mtime_ns
    assert capture.convert_once(path, target) == first
    assert target.stat().st_mtime_ns == written
    path.unlink()
    write_capture(path, [(1, 1_500), (2, 2_500)])
    assert capture.convert_once(path, target).events == 2


def test_repeated_sequences_are_numbered(tmp_path: Path) -> None:
    path = converted(tmp_path, "c", [(1, 10), (2, 20), (1, 30), (3, 40), (1, 50)])
    assert duckdb.sql(f"SELECT occurrence FROM '{path}'").fetchall() == [(0,), (0,), (1,), (0,), (2,)]


def test_a_truncated_file_gives_the_events_before_the_damage(tmp_path: Path) -> None:
    path = write_capture(tmp_path / "c.sqlite", [(i, i * 1_000 + 5) for i in range(1, 50_001)])
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    found = capture.convert(path, tmp_path / "c.parquet")
    assert found.damage is not None
    assert not found.complete
    assert 1_000 < found.events < 50_000
    count, last = duckdb.sql(f"SELECT count(*), max(sequence) FROM '{tmp_path}/c.parquet'").fetchall()[0]
    assert count == last == found.events


def test_a_locked_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture, "LOCK_TIMEOUT_S", 0.05)
    path = write_capture(tmp_path / "c.sqlite", [(1, 10)])
    writer = sqlite3.connect(path)
    writer.execute("PRAGMA locking_mode = EXCLUSIVE")
    writer.execute("PRAGMA journal_mode = DELETE")
    writer.execute("BEGIN EXCLUSIVE")
    with pytest.raises(capture.CaptureError, match="is locked: end the program that writes it"):
        capture.convert(path, tmp_path / "c.parquet")
    writer.close()


def test_a_file_that_is_not_sqlite_is_named(tmp_path: Path) -> None:
    path = tmp_path / "c.sqlite"
    path.write_bytes(b"not a database" * 1_000)
    with pytest.raises(capture.CaptureError, match="not an SQLite file"):
        capture.convert(path, tmp_path / "c.parquet")
    with pytest.raises(capture.CaptureError, match="there is no capture file"):
        capture.convert(tmp_path / "absent.sqlite", tmp_path / "c.parquet")


def test_match_by_sequence_keeps_events_that_every_connector_has(tmp_path: Path) -> None:
    files = {
        "a": [converted(tmp_path, "a", [(1, 1_100), (2, 2_100), (3, 3_100), (3, 9_999)])],
        "b": [converted(tmp_path, "b", [(1, 1_200), (3, 3_300), (4, 4_000)])],
    }
    database = matching.open_store()
    assert matching.match(database, files, key="sequence") == 2
    rows = database.execute('SELECT sequence, "received a" - due_ns, "received b" - due_ns FROM matched ORDER BY 1')
    assert rows.fetchall() == [(1, 100, 200), (3, 100, 300)]
    assert matching.match(database, files, key="sequence", from_ns=2_000) == 1


def test_match_by_hash_pairs_repeated_payloads_in_order(tmp_path: Path) -> None:
    files = {
        "a": [converted(tmp_path, "a", [(None, 10), (None, 20), (None, 30)], payloads=[b"x", b"x", b"y"])],
        "b": [converted(tmp_path, "b", [(None, 15), (None, 35), (None, 25)], payloads=[b"x", b"z", b"x"])],
    }
    database = matching.open_store()
    assert matching.match(database, files, key="hash") == 2
    rows = database.execute('SELECT "received a", "received b" FROM matched ORDER BY 1').fetchall()
    assert rows == [(10, 15), (20, 25)]


def test_database_summary_equals_numpy_summary(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    arrivals = {i: i * 1_000 + int(x) for i, x in enumerate(rng.lognormal(5, 1, 5_000), start=1)}
    files = {"a": [converted(tmp_path, "a", list(arrivals.items()))]}
    database = matching.open_store()
    matching.match(database, files, key="sequence")
    values = np.array([r - i * 1_000 for i, r in arrivals.items()])
    five, quantiles = matching.distribution(database, matching.latency("a"))
    assert five == summary.five_numbers(values)
    assert quantiles == pytest.approx({0.5: np.quantile(values, 0.5), 0.9: np.quantile(values, 0.9)})


def test_throughput_divides_as_the_study_does() -> None:
    # Tables 6 and 7 of the study, Binance: 206,982,664 messages of six connectors in 100 hours.
    row = matching.Throughput("Binance", 206_982_664, 100 * 3_600, 6)
    assert round(row.per_minute) == 34_497
    assert round(row.per_second) == 575
    assert round(row.messages_per_connector) == 34_497_111
    assert round(row.per_second_per_connector) == 96
