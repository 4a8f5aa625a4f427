"""Matches the events of a joined run over all connectors, and summarises them with DuckDB."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb

from lab import summary

# Memory limit of DuckDB. The process needs up to 2 GB more, so it stays within 8 GB.
MEMORY_LIMIT = "6GB"


def open_store(folder: Path | None = None, *, threads: int = 2) -> duckdb.DuckDBPyConnection:
    """Opens an in-memory database that spills to `folder`."""
    database = duckdb.connect(config={"threads": threads, "memory_limit": MEMORY_LIMIT})
    if folder is not None:
        database.execute(f"SET temp_directory = '{quoted(folder / 'spill')}'")
    # Row order carries no meaning here, and keeping it costs memory.
    database.execute("SET preserve_insertion_order = false")
    return database


def quoted(text: object) -> str:
    return str(text).replace("'", "''")


def column(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True)
class Counts:
    """Events of one connector in a joined run."""

    connector: str
    received: int  # rows in the capture files
    duplicates: int  # of these, repetitions of a sequence
    without_envelope: int  # of these, messages that carry no sequence
    sent: int  # different sequences that the feed sent to this connector
    missing: int  # of these, not captured and not explained
    lost_in_reset: int  # of these, not captured around a reset of the connection
    due_in_gap: int  # sequences that were due while the connector was not connected


@dataclass(frozen=True)
class Throughput:
    """One row of the study's Tables 6 and 7."""

    exchange: str
    messages: int
    seconds: float
    connectors: int

    @property
    def per_minute(self) -> float:
        return 60 * self.per_second

    @property
    def per_second(self) -> float:
        return self.messages / self.seconds if self.seconds > 0 else 0.0

    @property
    def messages_per_connector(self) -> float:
        return self.messages / self.connectors

    @property
    def per_minute_per_connector(self) -> float:
        return self.per_minute / self.connectors

    @property
    def per_second_per_connector(self) -> float:
        return self.per_second / self.connectors


KEYS = {"sequence": ("sequence",), "hash": ("key_high", "key_low", "occurrence")}


def files_sql(files: Sequence[Path]) -> str:
    """Table function that reads Parquet files."""
    return "read_parquet([" + ", ".join(f"'{quoted(file)}'" for file in files) + "])"


def match(
    database: duckdb.DuckDBPyConnection, files: Mapping[str, Sequence[Path]], *, key: str, from_ns: int = 0
) -> int:
    """Creates table `matched` with one row per event that every connector received.

    Columns: the key, `due_ns`, `length_bytes`, and per connector NAME its arrival in `received NAME`;
    with hashes also `event_ns`.
    Only the first of several events with one key takes part. Returns the number of rows.
    """
    if not files:
        raise ValueError("there is no file to match")
    keys = KEYS[key]
    names = list(files)
    first = column(names[0])
    selects = [f"{first}.{k} AS {k}" for k in keys]
    columns = ("due_ns", "length_bytes") if key == "sequence" else ("due_ns", "event_ns", "length_bytes")
    selects += [f"{first}.{c} AS {c}" for c in columns]
    selects += [f"{column(n)}.received_ns AS {column('received ' + n)}" for n in names]
    # With sequences, later events with the same number are repetitions. With hashes, the
    # occurrence is part of the key: the second of two equal payloads matches the second.
    condition = f"due_ns >= {from_ns}" if from_ns else "true"
    if key == "sequence":
        condition += " AND occurrence = 0 AND sequence IS NOT NULL"
    else:
        condition += " AND key_high IS NOT NULL"
    wanted = ", ".join((*keys, *columns, "received_ns"))
    source = {n: f"(SELECT {wanted} FROM {files_sql(f)} WHERE {condition})" for n, f in files.items()}
    joins = "".join(f" JOIN {source[n]} AS {column(n)} USING ({', '.join(keys)})" for n in names[1:])
    database.execute(
        f"CREATE OR REPLACE TABLE matched AS SELECT {', '.join(selects)} FROM {source[names[0]]} AS {first}{joins}"
    )
    return database.execute("SELECT count(*) FROM matched").fetchone()[0]


def count_losses(database: duckdb.DuckDBPyConnection, connector: str, files: Sequence[Path], truth: Path) -> Counts:
    """Compares the events of one connector with the truth log of the feed.

    The envelope names the feed's connection, so each event finds its row in the log.
    """
    database.execute(
        "CREATE OR REPLACE TEMP TABLE truth AS SELECT * FROM read_csv(?, header = true, types = {"
        "'connection': 'BIGINT', 'sequence': 'BIGINT', 'due_ns': 'BIGINT', 'sent_ns': 'BIGINT',"
        " 'done_ns': 'BIGINT', 'bytes': 'BIGINT', 'fault': 'VARCHAR'})",
        [str(truth)],
    )
    database.execute(f"CREATE OR REPLACE TEMP TABLE got AS SELECT * FROM {files_sql(files)}")
    received, duplicates, bare = database.execute(
        "SELECT count(*), count(*) FILTER (occurrence > 0), count(*) FILTER (sequence IS NULL) FROM got"
    ).fetchone()
    # Messages without an envelope have no sequence. Their rows in the log are left out.
    sent, missing, reset = database.execute(
        """
        WITH own AS (SELECT DISTINCT feed_connection AS connection FROM got WHERE feed_connection IS NOT NULL),
          broken AS (SELECT DISTINCT connection FROM truth WHERE fault = 'reset'),
          sent AS (SELECT sequence, connection FROM truth SEMI JOIN own USING (connection)
            WHERE done_ns IS NOT NULL AND coalesce(fault, '') NOT IN ('rubbish', 'bad-frame', 'omit-time', 'reset')),
          lost AS (SELECT * FROM sent ANTI JOIN got USING (sequence))
        SELECT (SELECT count(DISTINCT sequence) FROM sent),
          (SELECT count(DISTINCT sequence) FROM lost WHERE connection NOT IN (FROM broken)),
          (SELECT count(DISTINCT sequence) FROM lost WHERE connection IN (FROM broken))
        """
    ).fetchone()
    # A sequence that was due while no connection was open has no row at all.
    due_in_gap = database.execute(
        """
        WITH own AS (SELECT DISTINCT feed_connection AS connection FROM got WHERE feed_connection IS NOT NULL)
        SELECT (SELECT max(sequence) - min(sequence) + 1 FROM truth)
          - (SELECT count(DISTINCT sequence) FROM truth SEMI JOIN own USING (connection))
        """
    ).fetchone()[0]
    return Counts(connector, received, duplicates, bare, sent, missing, reset, due_in_gap if sent else 0)


def latency(name: str) -> str:
    """SQL of one connector's response latency in table `matched`."""
    return f"({column('received ' + name)} - due_ns)"


def distribution(
    database: duckdb.DuckDBPyConnection, expression: str
) -> tuple[summary.FiveNumbers | None, dict[float, float]]:
    """The five-number summary of one expression over `matched`, and its printable quantiles.

    One column at a time: the exact quantile aggregate does not spill to disk. Whiskers follow
    matplotlib's rule.
    """
    source = f"(SELECT {expression} AS x FROM matched) WHERE x IS NOT NULL"
    n, low, high = database.execute(f"SELECT count(x), min(x), max(x) FROM {source}").fetchone()
    if not n:
        return None, {}
    wanted = [q for q in summary.QUANTILES if summary.printable(q, n)]
    found = database.execute(f"SELECT quantile_cont(x, {[0.25, 0.5, 0.75, *wanted]}) FROM {source}").fetchone()[0]
    q1, median, q3, *rest = (float(x) for x in found)
    fence_low, fence_high = q1 - 1.5 * (q3 - q1), q3 + 1.5 * (q3 - q1)
    whisker_low, whisker_high, fliers = database.execute(
        f"SELECT min(x) FILTER (x >= {fence_low!r}), max(x) FILTER (x <= {fence_high!r}),"
        f" count(*) FILTER (x < {fence_low!r} OR x > {fence_high!r}) FROM {source}"
    ).fetchone()
    # matplotlib moves a whisker to the box if no value lies between fence and box.
    whisker_low = q1 if whisker_low is None or whisker_low > q1 else float(whisker_low)
    whisker_high = q3 if whisker_high is None or whisker_high < q3 else float(whisker_high)
    five = summary.FiveNumbers(n, whisker_low, q1, median, q3, whisker_high, float(low), float(high), int(fliers))
    return five, dict(zip(wanted, rest, strict=True))
