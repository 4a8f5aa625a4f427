"""Reads the SQLite capture file of one connector and stores its events as Parquet."""

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import adbc_driver_manager
import adbc_driver_sqlite.dbapi
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import xxhash

from lab.records import write_json

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
        ("event_ns", pa.int64()),  # the sender's time in the payload, CLOCK_REALTIME, if a path was given
    ]
)

COLUMNS = "sequence, connection_id, feed_connection, due_ns, sent_ns, received_ns, length_bytes, flags"


UNITS_NS = {"ms": 1_000_000, "us": 1_000, "ns": 1}


@dataclass(frozen=True)
class PayloadFields:
    """Members of a JSON payload that are read, and members that a comparison ignores."""

    event_time: str | None = None  # path of the sender's time, for example "data.E"
    unit: str = "ms"
    ignore: tuple[str, ...] = ()  # paths that differ per connection

    def read(self, body: bytes) -> tuple[bytes, int | None]:
        """The bytes to compare, and the sender's time in ns or None."""
        if self.event_time is None and not self.ignore:
            return body, None
        try:
            message = json.loads(body)
        except ValueError:
            return body, None
        found = member(message, self.event_time.split(".")) if self.event_time else None
        number = isinstance(found, int | float) and not isinstance(found, bool)
        event_ns = int(found * UNITS_NS[self.unit]) if number else None
        if not self.ignore:
            return body, event_ns
        for path in self.ignore:
            *parents, last = path.split(".")
            holder = member(message, parents)
            if isinstance(holder, dict):
                holder.pop(last, None)
        return json.dumps(message, sort_keys=True).encode(), event_ns


def member(value: Any, path: list[str]) -> Any:
    """The member of a JSON value at a path, or None.

    A number in the path counts the elements of a list.
    """
    for name in path:
        if isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        elif isinstance(value, dict):
            value = value.get(name)
        else:
            return None
    return value


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
    collections: list[tuple[int, int]] = field(default_factory=list)  # pauses of the garbage collector
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


def convert(path: Path, target: Path, fields: PayloadFields = PayloadFields()) -> Capture:
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
                for batch in _batches(path, database):
                    _append(writer, batch, seen, capture, fields)
            except sqlite3.Error as error:
                capture.damage = f"after event {capture.events}: {error}"
        capture.gaps = _side_table(database, "SELECT * FROM outage", capture)
        capture.flushes = [tuple(row.values()) for row in _side_table(database, "SELECT * FROM flush", capture)]
        capture.clocks = [tuple(row.values()) for row in _side_table(database, "SELECT * FROM clock", capture)]
        # Capture files of earlier builds lack this table.
        if database.execute("SELECT 1 FROM sqlite_master WHERE name = 'gc'").fetchone():
            capture.collections = [tuple(row.values()) for row in _side_table(database, "SELECT * FROM gc", capture)]
        temporary.replace(target)
    except sqlite3.Error as error:
        raise CaptureError(explain(path, error)) from error
    finally:
        database.close()
        temporary.unlink(missing_ok=True)
    return capture


def convert_once(path: Path, target: Path, fields: PayloadFields = PayloadFields()) -> Capture:
    """Converts a capture file, or returns the result of an earlier conversion of the same file.

    # Raises
    CaptureError and OSError as `convert`.
    """
    side = target.with_suffix(".json")
    try:
        stat = path.stat()
        mark = [stat.st_size, stat.st_mtime_ns, repr(fields)]
        stored = json.loads(side.read_text())
        if stored["mark"] == mark and target.exists():
            found = Capture(path, **stored["capture"])
            found.flushes = [tuple(row) for row in found.flushes]
            found.clocks = [tuple(row) for row in found.clocks]
            found.collections = [tuple(row) for row in found.collections]
            return found
    except (OSError, ValueError, KeyError, TypeError):
        pass
    found = convert(path, target, fields)
    stat = path.stat()
    content = {k: v for k, v in asdict(found).items() if k != "path"}
    write_json(side, {"mark": [stat.st_size, stat.st_mtime_ns, repr(fields)], "capture": content})
    return found


def volume(path: Path) -> tuple[int, int, int, int]:
    """Messages, bytes, and the first and last receive time of a capture file.

    # Raises
    CaptureError if the file cannot be read.
    """
    database = connect(path)
    try:
        query = "SELECT count(*), sum(length_bytes), min(received_ns), max(received_ns) FROM event"
        return tuple(value or 0 for value in database.execute(query).fetchone())
    except sqlite3.Error as error:
        raise CaptureError(explain(path, error)) from error
    finally:
        database.close()


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


@dataclass(frozen=True)
class Batch:
    """Some events: the columns of COLUMNS, and the payloads if they were stored."""

    columns: dict[str, pa.Array]
    bodies: list[bytes | None] | None


def _batches(path: Path, database: sqlite3.Connection) -> Iterator[Batch]:
    """Reads all events: as Arrow batches, or row by row if there are payloads or damage."""
    if database.execute("SELECT EXISTS (SELECT 1 FROM payload)").fetchone()[0]:
        yield from _rows(database, 0)
        return
    last = 0
    try:
        for batch in _arrow(path):
            yield batch
            last = int(pc.max(batch.columns["event_id"]).as_py())
    except adbc_driver_manager.Error:
        # Row by row gives every event before the damage, and SQLite's own message.
        yield from _rows(database, last)


def _arrow(path: Path) -> Iterator[Batch]:
    with adbc_driver_sqlite.dbapi.connect(f"file:{path}?mode=ro") as connection, connection.cursor() as cursor:
        cursor.adbc_statement.set_options(**{"adbc.sqlite.query.batch_rows": str(ROWS_PER_BATCH)})
        cursor.execute(f"SELECT event_id, {COLUMNS} FROM event ORDER BY event_id")
        for found in cursor.fetch_record_batch():
            columns = {name: found.column(name) for name in found.schema.names}
            if columns["connection_id"].null_count or columns["received_ns"].null_count:
                raise adbc_driver_manager.InternalError(
                    "a row without connection or receive time",
                    status_code=adbc_driver_manager.AdbcStatusCode.INVALID_DATA,
                )
            yield Batch(columns, None)


def _rows(database: sqlite3.Connection, after: int) -> Iterator[Batch]:
    """Events after an event id, one row at a time: an error loses no row before it."""
    query = (
        f"SELECT event.event_id, {COLUMNS}, body FROM event LEFT JOIN payload USING (event_id)"
        f" WHERE event.event_id > {after} ORDER BY event.event_id"
    )
    names = ["event_id", *COLUMNS.split(", ")]
    rows: list[tuple] = []

    def batch() -> Batch:
        *columns, bodies = zip(*rows, strict=True)
        arrays = {name: pa.array(values, pa.int64()) for name, values in zip(names, columns, strict=True)}
        return Batch(arrays, list(bodies) if any(body is not None for body in bodies) else None)

    try:
        for row in database.execute(query):
            if row[2] is None or row[6] is None:
                raise sqlite3.DatabaseError("a row without connection or receive time")
            rows.append(row)
            if len(rows) == ROWS_PER_BATCH:
                yield batch()
                rows = []
    except sqlite3.Error:
        if rows:
            yield batch()
        raise
    if rows:
        yield batch()


class Occurrences:
    """Numbers the events of one file that have the same key: 0, 1, 2, ..."""

    def __init__(self) -> None:
        self._last = -1  # largest sequence until now; the keys of a feed without faults only grow
        self._counts: dict[int, int] = {}
        self._sequences: list[np.ndarray] = []

    def of_sequences(self, sequences: np.ndarray) -> np.ndarray:
        result = np.zeros(len(sequences), dtype=np.int32)
        growing = len(sequences) > 0 and sequences[0] > self._last and bool((np.diff(sequences) > 0).all())
        if not growing:
            known = set(np.concatenate(self._sequences).tolist()) if self._sequences else set()
            for i, sequence in enumerate(sequences.tolist()):
                if sequence in known or sequence in self._counts:
                    self._counts[sequence] = self._counts.get(sequence, 0) + 1
                    result[i] = self._counts[sequence]
                else:
                    known.add(sequence)
        if len(sequences):
            self._last = max(self._last, int(sequences.max()))
            self._sequences.append(sequences)
        return result

    def of_keys(self, keys: list[int]) -> np.ndarray:
        result = np.zeros(len(keys), dtype=np.int32)
        for i, key in enumerate(keys):
            result[i] = self._counts.get(key, 0)
            self._counts[key] = int(result[i]) + 1
        return result


def _append(writer: pq.ParquetWriter, batch: Batch, seen: Occurrences, capture: Capture, fields: PayloadFields) -> None:
    sequence = batch.columns["sequence"]
    count = len(sequence)
    keys: list[int] | None = None
    columns: dict[str, pa.Array] = dict(batch.columns)
    columns["key_high"] = columns["key_low"] = pa.nulls(count, pa.uint64())
    columns["event_ns"] = pa.nulls(count, pa.int64())
    if batch.bodies is not None:
        read = [fields.read(body or b"") for body in batch.bodies]
        keys = [xxhash.xxh3_128_intdigest(compared) for compared, _ in read]
        columns["event_ns"] = pa.array([event_ns for _, event_ns in read], pa.int64())
        columns["key_high"] = pa.array([key >> 64 for key in keys], pa.uint64())
        columns["key_low"] = pa.array([key & (2**64 - 1) for key in keys], pa.uint64())
    occurrence = np.zeros(count, dtype=np.int32)
    present = sequence.is_valid().to_numpy(zero_copy_only=False)
    occurrence[present] = seen.of_sequences(sequence.drop_null().to_numpy())
    if keys is not None and not present.all():
        absent = np.flatnonzero(~present)
        occurrence[absent] = seen.of_keys([keys[i] for i in absent])
    columns["occurrence"] = pa.array(occurrence)
    writer.write_table(pa.table({f.name: columns[f.name].cast(f.type) for f in SCHEMA}, schema=SCHEMA))
    capture.events += count
    capture.connections = max(capture.connections, pc.max(columns["connection_id"]).as_py())
    capture.duplicates += int((occurrence > 0).sum())
    capture.without_sequence += int((~present).sum())
