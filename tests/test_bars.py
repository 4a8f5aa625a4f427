"""`pitwire bars` as a program: its files against bars computed in Python, its WebSocket, its end,
its refusals. The expected bars come from docs/bars.md, implemented here again with Python's
decimals, independently of the Rust code."""

import contextlib
import fcntl
import itertools
import json
import os
import random
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import ROUND_DOWN, Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest
from venue import BINARY, run_pitwire
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

PATIENCE_S = 60.0
START_MS = 1_767_605_400_000
BUCKETS_S = [30, 90, 180]
GRACE_MS = 2000
NOT_LAST = {2, 5, 7, 10, 12, 13, 15, 16, 17, 20, 21, 22, 29, 32, 33, 37, 52, 53}
NOT_HIGH_LOW = {2, 7, 12, 13, 15, 16, 20, 21, 29, 37, 52, 53}
NOT_VOLUME = {15, 16, 38}
GAP = b'{"ev":"gap","sym":"","conn":1,"at_ns":1}'
Row = dict[str, Any]


def framed(records: list[bytes]) -> bytes:
    return b"".join(struct.pack("<I", len(record)) + record for record in records)


def trade(
    symbol: str, at_ms: int, price: str, size: int, conditions: list[int] | None = None, exchange: int = 11
) -> bytes:
    printed = f'{{"ev":"T","sym":"{symbol}","i":"1","x":{exchange},"p":{price},"s":{size}'
    if conditions is not None:
        printed += f',"c":[{",".join(map(str, conditions))}]'
    return (printed + f',"t":{START_MS + at_ms},"z":3}}').encode()


class Bars:
    """A worker with pipes that the test writes."""

    def __init__(self, *options: str | Path, shards: int = 1, ready: Path | None = None) -> None:
        ends = [os.pipe() for _ in range(shards)]
        reads = [read for read, _ in ends]
        command: list[str | Path] = [BINARY, "bars", "--json", *options]
        if ready:
            command += ["--listen", "127.0.0.1:0", "--ready-file", ready]
        self.process = subprocess.Popen(
            [*command, *map(str, reads)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, pass_fds=reads, text=True
        )
        for read in reads:
            os.close(read)
        self.writers = [os.fdopen(write, "wb") for _, write in ends]
        self.address = ""
        if ready:
            deadline = time.monotonic() + PATIENCE_S
            while not ready.exists():
                assert self.process.poll() is None and time.monotonic() < deadline, self.process.communicate()
                time.sleep(0.01)
            printed = json.loads(ready.read_text())
            assert printed["pid"] == self.process.pid
            self.address = printed["http"]

    def feed(self, records: list[bytes], shard: int = 0) -> None:
        self.writers[shard].write(framed(records))
        self.writers[shard].flush()

    def end(self) -> dict[str, Any]:
        """Ends the feed cleanly and returns the totals."""
        code, totals, printed = self.outcome()
        assert code == 0, printed
        return totals

    def outcome(self) -> tuple[int, dict[str, Any], str]:
        for writer in self.writers:
            writer.close()
        out, error = self.process.communicate(timeout=PATIENCE_S)
        return self.process.returncode, json.loads(out) if out else {}, error

    def reader(self) -> ClientConnection:
        return connect(f"ws://{self.address}/")


@pytest.fixture
def started() -> Iterator[list[Bars]]:
    """Workers of a test, ended with it."""
    running: list[Bars] = []
    yield running
    for bars in running:
        if bars.process.poll() is None:
            bars.process.kill()
            bars.process.communicate()
        for writer in bars.writers:
            with contextlib.suppress(OSError):
                writer.close()


def table(out: Path) -> list[Row]:
    reader = duckdb.connect()
    printed = reader.execute(
        "SELECT * REPLACE (epoch_ms(start) AS start) "
        f"FROM read_parquet('{out}/*.parquet') ORDER BY symbol, bucket_s, start"
    )
    names = [column[0] for column in printed.description]
    return [dict(zip(names, row, strict=True)) for row in printed.fetchall()]


# Bars and indicators by docs/bars.md


@dataclass
class Bar:
    open: Decimal | None = None
    high: Decimal | None = None
    low: Decimal | None = None
    close: Decimal | None = None
    volume: Decimal = Decimal(0)
    notional: Decimal = Decimal(0)
    trades: int = 0
    off_exchange_volume: Decimal = Decimal(0)
    off_exchange_trades: int = 0
    late_volume: Decimal = Decimal(0)
    late_trades: int = 0

    def add(self, printed: dict[str, Any]) -> None:
        price, size, codes = Decimal(printed["p"]), Decimal(printed["s"]), set(printed.get("c", []))
        if not codes & (NOT_LAST | NOT_HIGH_LOW):
            self.open = price if self.open is None else self.open
            self.close = price
        if not codes & NOT_HIGH_LOW:
            self.high = max(self.high or price, price)
            self.low = min(self.low or price, price)
        if not codes & NOT_VOLUME:
            self.volume += size
            self.notional += price * size
            self.trades += 1
            if printed["x"] == 4:
                self.off_exchange_volume += size
                self.off_exchange_trades += 1


@dataclass
class Study:
    """Indicators, each recomputed from the whole history after every bar."""

    bars: list[tuple[float, float, float, float]] = field(default_factory=list)

    def push(self, bar: Bar) -> None:
        if bar.close is not None:
            self.bars.append(tuple(float(x) for x in (bar.open, bar.high, bar.low, bar.close)))

    def reading(self) -> dict[str, float | bool | None]:
        blank = dict.fromkeys(["rsi", "atr", "ha_open", "ha_high", "ha_low", "ha_close", "sar", "sar_is_long"])
        if not self.bars:
            return blank
        return blank | {"rsi": self.rsi(14), "atr": self.ranges(14)[-1]} | self.heikin_ashi() | self.sar(14)

    @staticmethod
    def wilder(values: list[float], n: int) -> list[float | None]:
        printed: list[float | None] = []
        for at in range(len(values)):
            if at + 1 < n:
                printed.append(None)
            elif at + 1 == n:
                printed.append(sum(values[:n]) / n)
            else:
                printed.append((printed[-1] * (n - 1) + values[at]) / n)
        return printed

    def rsi(self, n: int) -> float | None:
        closes = [bar[3] for bar in self.bars]
        steps = [after - before for before, after in itertools.pairwise(closes)]
        if len(steps) < n:
            return None
        gain = self.wilder([max(step, 0) for step in steps], n)[-1]
        loss = self.wilder([max(-step, 0) for step in steps], n)[-1]
        return 100 * gain / (gain + loss) if gain + loss else 50.0

    def ranges(self, n: int) -> list[float | None]:
        printed = [self.bars[0][1] - self.bars[0][2]]
        for (*_, close), (_, high, low, _) in itertools.pairwise(self.bars):
            printed.append(max(high, close) - min(low, close))
        return self.wilder(printed, n)

    def heikin_ashi(self) -> dict[str, float]:
        o, _, _, c = self.bars[0]
        body = ((o + c) / 2, sum(self.bars[0]) / 4)
        for bar in self.bars[1:]:
            body = (sum(body) / 2, sum(bar) / 4)
        _, high, low, _ = self.bars[-1]
        return {"ha_open": body[0], "ha_high": max(high, *body), "ha_low": min(low, *body), "ha_close": body[1]}

    def sar(self, n: int) -> dict[str, float | bool | None]:
        if len(self.bars) < 2:
            return {}
        paces, usual = [], None
        for atr, bar in zip(self.ranges(n), self.bars, strict=True):
            if atr is None:
                paces.append(1.0)
                continue
            now = atr / bar[3]
            usual = now if usual is None else usual
            usual += (now - usual) / (5 * n)
            paces.append(min(max(usual / now, 0.5), 2.0) if now else 1.0)
        (_, h0, l0, c0), (_, h1, l1, c1) = self.bars[:2]
        up = c1 >= c0
        stop, extreme = (min(l0, l1), max(h0, h1)) if up else (max(h0, h1), min(l0, l1))
        a = 0.02
        for at in range(2, len(self.bars)):
            (_, h, low, _), (_, hb, lb, _) = self.bars[at], self.bars[at - 1]
            if (up and low < stop) or (not up and h > stop):
                up = not up
                stop = min(extreme, low, lb) if up else max(extreme, h, hb)
                extreme, a = (h if up else low), 0.02
                continue
            if (up and h > extreme) or (not up and low < extreme):
                extreme, a = (h if up else low), min(a + 0.02, 0.2)
            stop += min(a * paces[at], 0.2) * (extreme - stop)
            stop = min(stop, low, lb) if up else max(stop, h, hb)
        return {"sar": stop, "sar_is_long": up}


def expected(records: list[bytes]) -> dict[tuple[str, int, int], tuple[Bar, dict[str, float | bool | None]]]:
    """By symbol, length and start in milliseconds."""
    printed = [json.loads(record, parse_float=str, parse_int=int) for record in records]
    bars: dict[tuple[str, int, int], Bar] = {}
    clock = 0
    for one in printed:
        t = one["t"]
        clock = max(clock, t)
        for length in BUCKETS_S:
            start = t // (length * 1000) * length * 1000
            if clock >= start + length * 1000 + GRACE_MS:
                # The open bar: the newest of the symbol, or an empty one where the clock is.
                of_symbol = [k[2] for k in bars if k[:2] == (one["sym"], length)]
                now = clock // (length * 1000) * length * 1000
                is_open = [at for at in of_symbol if clock < at + length * 1000 + GRACE_MS]
                bar = bars.setdefault((one["sym"], length, max(is_open, default=now)), Bar())
                bar.late_trades += 1
                bar.late_volume += Decimal(one["s"])
            else:
                bars.setdefault((one["sym"], length, start), Bar()).add(one)
    studies: dict[tuple[str, int], Study] = {}
    complete = {}
    for key in sorted(bars):
        study = studies.setdefault(key[:2], Study())
        study.push(bars[key])
        complete[key] = (bars[key], study.reading())
    return complete


def market(seed: int, trades: int) -> list[bytes]:
    """Walks of five symbols over an hour and a half: odd lots, dark prints, prints within and
    beyond the grace."""
    chance = random.Random(seed)
    symbols = ["AAPL", "BRK.A", "SPY", "F", "ZVZZT"]
    cents = dict(zip(symbols, [18_700, 50_000_000, 47_000, 1_200, 900], strict=True))
    printed, now = [], 0
    for _ in range(trades):
        now += chance.randrange(2 * 5_400_000 // trades)
        symbol = chance.choices(symbols, [8, 1, 8, 3, 1])[0]
        cents[symbol] = max(1, cents[symbol] + chance.randint(-8, 8))
        late = chance.choices([0, chance.randrange(2_000), chance.randrange(200_000)], [90, 8, 2])[0]
        codes = chance.choices(
            [None, [], [14], [37], [14, 37], [12], [33], [15], [38], [2, 41]], [30, 5, 30, 20, 5, 2, 2, 2, 2, 2]
        )[0]
        price = f"{cents[symbol] // 100}.{cents[symbol] % 100:02}{chance.choice(['', '5', '25', '000000001'])[:7]}"
        printed.append(
            trade(symbol, max(0, now - late), price, chance.choice([1, 7, 100, 250]), codes, chance.choice([4, 11, 12]))
        )
    return printed


@pytest.mark.parametrize("transport", ["pipe", "pipes in pieces"])
def test_files_hold_the_bars_that_the_page_describes(transport: str, tmp_path: Path, started: list[Bars]) -> None:
    records = market(11, 12_000)
    bars = Bars("--out", tmp_path / "out")
    started.append(bars)
    whole = framed(records)
    step = len(whole) if transport == "pipe" else 4093
    for at in range(0, len(whole), step):
        bars.writers[0].write(whole[at : at + step])
        bars.writers[0].flush()
    totals = bars.end()
    wanted, rows = expected(records), table(tmp_path / "out")
    assert totals["trades"] == len(records) and totals["bars"] == totals["rows"] == len(rows) == len(wanted)
    assert totals["unreadable"] == totals["strays"] == 0 and totals["late"] > 50
    for row in rows:
        bar, reading = wanted[row["symbol"], row["bucket_s"], row["start"]]
        for name in ["open", "high", "low", "close", "volume", "notional", "trades", "off_exchange_volume"]:
            assert row[name] == getattr(bar, name), (name, row)
        for name in ["off_exchange_trades", "late_volume", "late_trades"]:
            assert row[name] == getattr(bar, name), (name, row)
        vwap = (bar.notional / bar.volume).quantize(Decimal("1e-9"), ROUND_DOWN) if bar.volume else None
        assert row["vwap"] == vwap
        assert row["merged_trades"] == 0
        for name, value in reading.items():
            assert row[name] == (pytest.approx(value, rel=1e-9) if isinstance(value, float) else value), (name, row)
    # For each length, the bucket that was open at the start of the feed, and the one that its end
    # cut off.
    ends = {length: max(row["start"] for row in rows if row["bucket_s"] == length) for length in BUCKETS_S}
    for row in rows:
        is_cut = row["start"] in (START_MS, ends[row["bucket_s"]])
        assert row["incomplete"] == is_cut, row


def test_columns_are_those_of_the_page_for_pyarrow_too(tmp_path: Path, started: list[Bars]) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    bars = Bars("--out", tmp_path)
    started.append(bars)
    bars.feed([trade("A", 0, "1.5", 10), trade("A", 1, "1.25", 10)])
    bars.end()
    (path,) = tmp_path.glob("*.parquet")
    read = parquet.read_table(path)
    kinds = {name: str(kind) for name, kind in zip(read.schema.names, read.schema.types, strict=True)}
    assert kinds["symbol"] == "string" and kinds["start"] == "timestamp[ms, tz=UTC]" and kinds["bucket_s"] == "uint32"
    assert kinds["close"] == "decimal128(38, 9)" and kinds["notional"] == "decimal128(38, 18)"
    page = (Path(__file__).parent.parent / "docs/bars.md").read_text().split("\n## Files\n")[1].split("\n## ")[0]
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| ") and "---" not in line]
    assert [name.strip() for row in rows[1:] for name in row.split(",")] == read.schema.names
    first = read.to_pylist()[0]
    assert (first["close"], first["notional"], first["trades"]) == (Decimal("1.25"), Decimal("27.5"), 2)


def test_shards_go_into_one_table_and_gaps_mark_their_own(tmp_path: Path, started: list[Bars]) -> None:
    bars = Bars("--out", tmp_path, "--buckets", "30", shards=3)
    started.append(bars)
    for shard, symbol in enumerate("ABC"):
        at = [trade(symbol, ms, "10", 1) for ms in (-1, 1_000, 40_000, 70_000, 100_000)]
        bars.feed([*at[:2], *([GAP] if symbol == "B" else []), *at[2:]], shard)
    assert bars.end()["gaps"] == 1
    marks = {symbol: [row["incomplete"] for row in table(tmp_path) if row["symbol"] == symbol] for symbol in "ABC"}
    assert marks == {
        "A": [True, False, False, False, True],
        "B": [True, True, True, False, True],
        "C": [True, False, False, False, True],
    }


def test_custom_rules_are_applied(tmp_path: Path, started: list[Bars]) -> None:
    rules = tmp_path / "mine.toml"
    rules.write_text(
        'time_unit = "ms"\n[conditions]\nnot_last = []\nnot_high_low = []\nnot_volume = [37]\n'
        "[off_exchange]\nexchanges = [11]\n"
    )
    bars = Bars("--out", tmp_path / "out", "--rules", rules, "--buckets", "60")
    started.append(bars)
    bars.feed([trade("A", 0, "10", 1), trade("A", 1, "20", 5, [37])])
    bars.end()
    (row,) = table(tmp_path / "out")
    assert (row["close"], row["volume"], row["off_exchange_volume"], row["bucket_s"]) == (20, 1, 1, 60)


def test_files_appear_whole_while_it_runs_and_a_kill_leaves_no_half_ones(tmp_path: Path, started: list[Bars]) -> None:
    bars = Bars("--out", tmp_path, "--buckets", "30", "--rotate", "1")
    started.append(bars)
    bars.feed([trade("A", ms, "10", 1) for ms in (0, 40_000, 80_000)])
    deadline = time.monotonic() + PATIENCE_S
    while not list(tmp_path.glob("*.parquet")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert len(table(tmp_path)) >= 1
    before = len(list(tmp_path.glob("*.parquet")))
    bars.feed([trade("A", ms, "10", 1) for ms in (120_000, 160_000)])
    while not list(tmp_path.glob("*.part")) and len(list(tmp_path.glob("*.parquet"))) == before:
        assert time.monotonic() < deadline
        time.sleep(0.001)
    bars.process.kill()
    bars.process.communicate()
    assert table(tmp_path), "whole files stay readable"
    (tmp_path / "bars-20200101T000000Z-1.parquet.part").write_bytes(b"PAR1half")
    again = Bars("--out", tmp_path)
    started.append(again)
    again.feed([trade("B", 0, "10", 1)])
    again.end()
    assert not list(tmp_path.glob("*.part"))


# The WebSocket


def until(reader: ClientConnection, wanted: Any) -> dict[str, Any]:
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        printed = json.loads(reader.recv(PATIENCE_S), parse_float=Decimal)
        for bar in printed if isinstance(printed, list) else []:
            if wanted(bar):
                return bar
    raise AssertionError("it never came")


def test_readers_get_the_latest_bars_of_their_symbols(tmp_path: Path, started: list[Bars]) -> None:
    bars = Bars("--buckets", "30", shards=2, ready=tmp_path / "ready")
    started.append(bars)
    bars.feed([trade("A", 0, "10", 1), trade("A", 1, "12.5", 3)])
    bars.feed([trade("B", 0, "7", 1), trade("B", 1, "7", 1)], shard=1)
    with bars.reader() as one, bars.reader() as everything:
        one.send('{"subscribe":["A"]}')
        assert json.loads(one.recv(PATIENCE_S)) == {"symbols": 1, "everything": False}
        first = until(one, lambda bar: bar["trades"] == 2)
        assert (first["sym"], first["close"], first["final"], first["start_ms"]) == (
            "A",
            Decimal("12.5"),
            False,
            START_MS,
        )
        assert (first["notional"], first["vwap"]) == (Decimal("47.5"), Decimal("11.875"))
        everything.send('{"subscribe":"*"}')
        assert until(everything, lambda bar: bar["sym"] == "B")["close"] == 7
        bars.feed([trade("A", 31_000, "11", 1)])
        assert until(one, lambda bar: bar["start_ms"] == START_MS + 30_000)["open"] == 11
        bars.feed([trade("A", 65_000, "11", 1)])
        assert until(everything, lambda bar: bar["sym"] == "A" and bar["start_ms"] == START_MS + 60_000)
        # A symbol that does not exist yet may be subscribed.
        one.send('{"subscribe":["C"]}')
        bars.feed([trade("C", 65_001, "3", 1)])
        assert until(one, lambda bar: bar["sym"] == "C")["close"] == 3
        assert bars.end()["trades"] == 7
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                one.recv(PATIENCE_S)
        assert closed.value.rcvd and closed.value.rcvd.code == 1001
    assert not (tmp_path / "ready").exists()


@pytest.mark.parametrize("text", ["", "{", "[]", '{"subscribe":5}', '{"subscribe":"A"}', '{"buy":["A"]}', "\x00"])
def test_malformed_subscription_is_answered_with_the_expected_form(
    text: str, tmp_path: Path, started: list[Bars]
) -> None:
    bars = Bars(ready=tmp_path / "ready")
    started.append(bars)
    with bars.reader() as reader:
        reader.send(text)
        assert "subscribe" in json.loads(reader.recv(PATIENCE_S))["error"]
        reader.send('{"subscribe":["A"]}')
        assert json.loads(reader.recv(PATIENCE_S))["symbols"] == 1


def test_a_stopped_reader_delays_no_other_reader(tmp_path: Path, started: list[Bars]) -> None:
    bars = Bars("--buckets", "30", ready=tmp_path / "ready")
    started.append(bars)
    host, port = bars.address.split(":")
    slow = socket.create_connection((host, int(port)))
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    slow.sendall(
        f"GET / HTTP/1.1\r\nHost: {bars.address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    assert b"101" in slow.recv(200)
    wish = b'{"subscribe":"*"}'
    slow.sendall(bytes([0x81, 0x80 | len(wish), 0, 0, 0, 0]) + wish)
    with bars.reader() as reader:
        reader.send('{"subscribe":["S1"]}')
        for turn in range(30):
            bars.feed([trade(f"S{n}", turn * 100 + 1, str(turn + 1), 1) for n in range(2_000)])
        assert until(reader, lambda bar: bar["trades"] == 30)["close"] == 30
    assert bars.end()["trades"] == 60_000
    slow.close()


def test_foreign_pages_and_host_names_are_refused(tmp_path: Path, started: list[Bars]) -> None:
    bars = Bars(ready=tmp_path / "ready")
    started.append(bars)
    for status, headers in [(403, {"Origin": "http://evil.example"}), (403, {"Sec-Fetch-Site": "cross-site"})]:
        with pytest.raises(InvalidStatus) as refused, connect(f"ws://{bars.address}/", additional_headers=headers):
            pass
        assert refused.value.response.status_code == status
    host, port = bars.address.split(":")
    with socket.create_connection((host, int(port))) as rebound:
        rebound.sendall(
            b"GET / HTTP/1.1\r\nHost: evil.example\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        assert b" 421 " in rebound.recv(200)
    with socket.create_connection((host, int(port))) as garbage:
        garbage.sendall(os.urandom(2_000))
    with bars.reader() as reader:
        reader.send('{"subscribe":["A"]}')
        assert json.loads(reader.recv(PATIENCE_S))["symbols"] == 1


# The end, and errors


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_stop_signal_writes_the_bars_so_far(how: signal.Signals, tmp_path: Path, started: list[Bars]) -> None:
    bars = Bars("--out", tmp_path, ready=tmp_path / "ready")
    started.append(bars)
    bars.feed([trade("A", 0, "10", 1), trade("A", 1, "10", 1)])
    bars.process.send_signal(how)
    out, error = bars.process.communicate(timeout=PATIENCE_S)
    assert bars.process.returncode == 0, error
    assert json.loads(out)["trades"] == 2
    assert [row["trades"] for row in table(tmp_path)] == [2, 2, 2]


def test_feed_cut_within_a_record_is_reported_and_whole_records_are_written(
    tmp_path: Path, started: list[Bars]
) -> None:
    bars = Bars("--out", tmp_path)
    started.append(bars)
    bars.writers[0].write(framed([trade("A", 0, "10", 1), trade("A", 1, "10", 1)]) + b"\x50\0\0\0{")
    code, totals, printed = bars.outcome()
    assert code == 1 and "died" in printed and printed.count("\n") == 1
    assert totals["trades"] == 2 and len(table(tmp_path)) == 3


def test_nonsense_records_are_counted_and_a_nonsense_length_ends_it(tmp_path: Path, started: list[Bars]) -> None:
    bars = Bars("--out", tmp_path)
    started.append(bars)
    chance = random.Random(5)
    nonsense = [chance.randbytes(chance.randrange(200)) for _ in range(5_000)]
    bars.feed([trade("A", 0, "10", 1), *nonsense, b'{"ev":"status"}', trade("A", 1, "10", 1)])
    bars.writers[0].write(b"\xff" * 64)
    code, totals, printed = bars.outcome()
    assert code == 1 and "4294967295" in printed and "panicked" not in printed
    assert (totals["trades"], totals["unreadable"], totals["other"]) == (2, 5_000, 1)


def refused(code: int, *options: str | Path) -> str:
    ended = run_pitwire("bars", *options, timeout_s=PATIENCE_S)
    assert ended.returncode == code, ended
    assert ended.stderr.count("\n") == 1 and "panicked" not in ended.stderr and ended.stdout == ""
    return ended.stderr


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--out", "x"], "SHARD"),
        (["3"], "--out"),
        (["--out", "x", "--buckets", "90,30", "3"], "ascend"),
        (["--out", "x", "--buckets", "0", "3"], "0 is no length"),
        (["--out", "x", "--buckets", "1", "3"], "grace_ms"),
        (["--out", "x", "--buckets", "a", "3"], "--buckets"),
        (["--out", "x", "--rules", "nowhere.toml", "3"], "nowhere.toml"),
        (["--listen", "here", "3"], "here"),
        (["--out", "x", "--ready-file", "r", "3"], "--listen"),
    ],
)
def test_wrong_use_gets_one_line_with_a_remedy(options: list[str], word: str, tmp_path: Path) -> None:
    assert word in refused(2, *[tmp_path / option if option == "x" else option for option in options])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("\n[conditions]\nnot_lats = [1]\n", [":3:", "not_lats"]),
        ("[late]\ngrace_ms = -1\n", [":2:", "grace_ms = -1"]),
        ("[indicators]\nrsi_bars = 0\n", [":2:", "rsi_bars"]),
        ("what", [":1:"]),
    ],
)
def test_bad_rules_are_named_with_line_and_key(text: str, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(text)
    printed = refused(2, "--out", tmp_path / "out", "--rules", tmp_path / "mine.toml", "0")
    assert all(word in printed for word in ["mine.toml", *words]), printed


def test_places_and_shards_that_cannot_be_are_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "--out" in refused(1, "--out", tmp_path / "file" / "out", "0")
    assert "/proc/nowhere" in refused(1, "--out", "/proc/nowhere", "0")
    assert "99 cannot be opened" in refused(1, "--out", tmp_path / "out", "99")
    assert "no-ring cannot be opened" in refused(1, "--out", tmp_path / "out", tmp_path / "no-ring")
    assert "not a ring" in refused(1, "--out", tmp_path / "out", __file__)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port}" in refused(1, "--listen", f"127.0.0.1:{port}", "0")


def test_two_workers_never_share_a_directory(tmp_path: Path, started: list[Bars]) -> None:
    bars = Bars("--out", tmp_path)
    started.append(bars)
    bars.feed([trade("A", 0, "10", 1), trade("A", 1, "10", 1)])
    deadline = time.monotonic() + PATIENCE_S
    while not (tmp_path / "bars.lock").exists() or not is_locked(tmp_path / "bars.lock"):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert "another pitwire bars writes here" in refused(1, "--out", tmp_path, "0")
    bars.end()


def is_locked(path: Path) -> bool:
    with path.open("r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        fcntl.flock(file, fcntl.LOCK_UN)
        return False


def test_full_disk_ends_the_command_with_a_message(tmp_path: Path) -> None:
    out = tmp_path / "out"
    full = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", "trace=fsync", "-e", "inject=fsync:error=ENOSPC"]
    trades = [trade("A", 0, "10", 1), trade("A", 1, "10", 1)]
    ended = subprocess.run(
        [*full, BINARY, "bars", "--out", out, "0"],
        input=framed(trades),
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert ended.returncode == 1, ended
    assert b"No space left" in ended.stderr and b"--out" in ended.stderr and b"panicked" not in ended.stderr
    assert not list(out.glob("*.parquet"))
