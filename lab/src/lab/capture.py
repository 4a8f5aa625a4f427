"""Reads the SQLite capture file of one connector and stores its events as Parquet."""

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import xxhash

ROWS_PER_BATCH = 200_000
LOCK_TIMEOUT_S = 5.0

SCHEMA = pa.schema(
    [
        ("sequence", pa.int64()),
        ("key_high", pa.uint64()),  # XXH3-128 of the payload, if payloads were stored
        ("key_low", pa.uint64()),
        ("occurrence", pa.int32()),  # 0 for the first event with this sequence or payload
        ("connection_id", pa.int32()),
        ("feed_connection", pa.int32()),
        ("due_ns", pa.int64()),
        ("sent_ns", pa.int64()),
        ("received_ns", pa.int64()),
        ("length_bytes", pa.int32()),
        ("flags", pa.int32()),
    ]
)

QUERY = """
SELECT event.event_id, sequence, connection_id, feed_connection, due_ns, sent_ns, received_ns,
  length_bytes, flags{payload}
FROM event{join} ORDER BY event.event_id
"""


class CaptureError(Exception):
    """A capture file that cannot be read at all."""


@dataclass
class Capture:
    """Content of a capture file without its events."""

    path: Path
    run: dict[str, str]
    events: int
    connections: int
    duplicates: int  # events whose sequence or payload came before
    without_sequence: int
    gaps: list[dict] = field(default_factory=list)
    flushes: list[tuple[int, int, int]] = field(default_factory=list)
    clocks: list[tuple[int, int, int]] = field(default_factory=list)
    damage: str | None = None  # why reading ended before the last row

    @property
    def complete(self) -> bool:
        """False if the connector was killed, or if the file is damaged."""
        return self.damage is None and "exit_code" in self.run


def connect(path: Path) -> sqlite3.Connection:
    """Opens a capture file for reading.

    # Raises
    CaptureError if the file is missing, locked, or not a database.
    """
    if not path.is_file():
        raise CaptureError(f"there is no capture file {path}: the connector wrote nothing")
    try:
        database = sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=LOCK_TIMEOUT_S)
        # SQLite refuses a file that is shorter than its header says, unless the schema is
        # writable. The file stays read-only: this setting only allows reading the rest.
        database.execute("PRAGMA writable_schema = ON")
        database.execute("SELECT count(*) FROM sqlite_master").fetchone()
    except sqlite3.Error as error:
        raise CaptureError(explain(path, error)) from error
    return database


def explain(path: Path, error: sqlite3.Error) -> str:
    text = str(error)
    if "locked" in text or "busy" in text:
        return f"capture file {path} is locked: end the program that writes it, then run `lab analyse` again"
    if "not a database" in text:
        return f"capture file {path} is not an SQLite file: {text}"
    return f"capture file {path} is damaged: {text}"


def convert(path: Path, target: Path) -> Capture:
    """Writes the events of a capture file as Parquet and returns the rest.

    A damaged file gives the events before the damage; `Capture.damage` says where it begins.

    # Raises
    CaptureError if no event table can be read, OSError if the target cannot be written.
    """
    database = connect(path)
    temporary = target.with_suffix(".partial")
    try:
        capture = Capture(path, _pairs(database), 0, 0, 0, 0)
        seen = Occurrences()
        with pq.ParquetWriter(temporary, SCHEMA, compression="zstd") as writer:
            try:
                for rows in _batches(database):
                    _append(writer, rows, seen, capture)
            except sqlite3.Error as error:
                capture.damage = f"after event {capture.events}: {error}"
        capture.gaps = _side_table(database, "SELECT * FROM outage", capture)
        capture.flushes = [tuple(row.values()) for row in _side_table(database, "SELECT * FROM flush", capture)]
        capture.clocks = [tuple(row.values()) for row in _side_table(database, "SELECT * FROM clock", capture)]
        temporary.replace(target)
    except sqlite3.Error as error:
        raise CaptureError(explain(path, error)) from error
    finally:
        database.close()
        temporary.unlink(missing_ok=True)
    return capture


def _pairs(database: sqlite3.Connection) -> dict[str, str]:
    return dict(database.execute("SELECT name, value FROM run"))


def _side_table(database: sqlite3.Connection, query: str, capture: Capture) -> list[dict]:
    """Rows of a side table. Damage is recorded and does not lose the events."""
    try:
        cursor = database.execute(query)
        names = [column[0] for column in cursor.description]
        return [dict(zip(names, row, strict=True)) for row in cursor]
    except sqlite3.Error as error:
        capture.damage = capture.damage or f"in `{query}`: {error}"
        return []


def _batches(database: sqlite3.Connection) -> Iterator[list[tuple]]:
    has_payload = database.execute("SELECT EXISTS (SELECT 1 FROM payload)").fetchone()[0]
    query = QUERY.format(
        payload=", body" if has_payload else ", NULL",
        join=" LEFT JOIN payload USING (event_id)" if has_payload else "",
    )
    cursor = database.execute(query)
    rows: list[tuple] = []
    try:
        # One row at a time: an error in the middle of fetchmany would lose the rows before it.
        for row in cursor:
            if row[2] is None or row[6] is None:
                raise sqlite3.DatabaseError("a row without connection or receive time")
            rows.append(row)
            if len(rows) == ROWS_PER_BATCH:
                yield rows
                rows = []
    except sqlite3.Error:
        if rows:
            yield rows
        raise
    if rows:
        yield rows


class Occurrences:
    """Numbers the events of one file that have the same key: 0, 1, 2, ..."""

    def __init__(self) -> None:
        self._last = -1  # largest sequence until now; the keys of a feed without faults only grow
        self._counts: dict[int, int] = {}
        self._sequences = np.empty(0, dtype=np.int64)

    def of_sequences(self, sequences: np.ndarray) -> np.ndarray:
        result = np.zeros(len(sequences), dtype=np.int32)
        growing = len(sequences) > 0 and sequences[0] > self._last and bool((np.diff(sequences) > 0).all())
        if not growing:
            known = set(self._sequences.tolist())
            for i, sequence in enumerate(sequences.tolist()):
                if sequence in known or sequence in self._counts:
                    self._counts[sequence] = self._counts.get(sequence, 0) + 1
                    result[i] = self._counts[sequence]
                else:
                    known.add(sequence)
        if len(sequences):
            self._last = max(self._last, int(sequences.max()))
            self._sequences = np.concatenate([self._sequences, sequences])
        return result

    def of_keys(self, keys: list[int]) -> np.ndarray:
        result = np.zeros(len(keys), dtype=np.int32)
        for i, key in enumerate(keys):
            result[i] = self._counts.get(key, 0)
            self._counts[key] = int(result[i]) + 1
        return result


def _append(writer: pq.ParquetWriter, rows: list[tuple], seen: Occurrences, capture: Capture) -> None:
    columns = list(zip(*rows, strict=True))
    _, sequence, connection, feed_connection, due, sent, received, length, flags, body = columns
    keys: list[int] | None = None
    high = low = pa.nulls(len(rows), pa.uint64())
    if any(b is not None for b in body):
        keys = [xxhash.xxh3_128_intdigest(b or b"") for b in body]
        high = pa.array([k >> 64 for k in keys], pa.uint64())
        low = pa.array([k & (2**64 - 1) for k in keys], pa.uint64())
    occurrence = np.zeros(len(rows), dtype=np.int32)
    present = np.array([s is not None for s in sequence])
    if present.any():
        occurrence[present] = seen.of_sequences(np.array([s for s in sequence if s is not None], dtype=np.int64))
    if keys is not None and not present.all():
        absent = np.flatnonzero(~present)
        occurrence[absent] = seen.of_keys([keys[i] for i in absent])
    table = pa.Table.from_arrays(
        [
            pa.array(sequence, pa.int64()),
            high,
            low,
            pa.array(occurrence, pa.int32()),
            pa.array(connection, pa.int32()),
            pa.array(feed_connection, pa.int32()),
            pa.array(due, pa.int64()),
            pa.array(sent, pa.int64()),
            pa.array(received, pa.int64()),
            pa.array(length, pa.int32()),
            pa.array(flags, pa.int32()),
        ],
        schema=SCHEMA,
    )
    writer.write_table(table)
    capture.events += len(rows)
    capture.connections = max(capture.connections, max(connection))
    capture.duplicates += int((occurrence > 0).sum())
    capture.without_sequence += int((~present).sum())
