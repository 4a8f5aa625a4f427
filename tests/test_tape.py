"""`pitwire tape`, read by an independent client: its data, its proofs, its errors."""

import json
import os
import signal
import socket
import ssl
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from venue import BINARY
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus
from websockets.sync.client import ClientConnection, connect

MASK64 = (1 << 64) - 1
FIELDS = ["ev", "sym", "i", "x", "p", "s", "c", "t", "z"]
PATIENCE_S = 60


def fnv1a(text: bytes) -> int:
    value = 0xCBF29CE484222325
    for byte in text:
        value = (value ^ byte) * 0x100000001B3 & MASK64
    return value


def content(text: bytes) -> int:
    """The checksum of docs/tape.md, implemented from that page."""
    words = struct.unpack(f"<{-(-len(text) // 8)}Q", text + bytes(-len(text) % 8))
    return sum(word * 0x9E3779B97F4A7C15 * (2 * k + 1) for k, word in enumerate(words)) & MASK64


class Feed:
    """A running server; `summary` ends it and returns its summary."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.ready_file = directory / "ready"
        # A killed server leaves its ready file behind; a test that looked too early would use a
        # dead port.
        self.ready_file.unlink(missing_ok=True)
        command = [
            BINARY,
            "tape",
            "serve",
            "--listen",
            "127.0.0.1:0",
            "--json",
            "--ready-file",
            self.ready_file,
            *options,
        ]
        # Its temporary files go into the test's directory, even if it is killed.
        environment = os.environ | {"TMPDIR": str(directory)}
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        deadline = time.monotonic() + PATIENCE_S
        while not self.ready_file.exists():
            assert self.process.poll() is None, self.process.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.01)
        self.ready = json.loads(self.ready_file.read_text())
        self.url = self.ready["url"]
        host, port = self.ready["http"].rsplit(":", 1)
        self.address = (host, int(port))

    def wait(self) -> dict[str, Any]:
        out, err = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0, err
        return json.loads(out)

    def summary(self) -> dict[str, Any]:
        self.process.send_signal(signal.SIGTERM)
        return self.wait()

    def open(self, path: str = "", **options: Any) -> ClientConnection:
        return connect(self.url + path, max_size=None, compression=None, proxy=None, open_timeout=PATIENCE_S, **options)


@contextmanager
def serving(directory: Path, *options: str) -> Iterator[Feed]:
    feed = Feed(directory, *options)
    try:
        yield feed
    finally:
        if feed.process.poll() is None:
            feed.process.kill()
            feed.process.communicate()


class Ledger:
    """Checks the messages of a reader."""

    def __init__(self) -> None:
        self.last: Counter[str] = Counter()
        self.trades = self.lost = self.repeated = self.checksum = self.content = 0
        self.sizes: list[int] = []

    def message(self, text: str) -> None:
        trades = json.loads(text)
        self.sizes.append(len(trades))
        for trade, raw in zip(trades, text[1:-1].replace("},{", "}\n{").split("\n"), strict=True):
            assert list(trade) == FIELDS
            number, symbol = int(trade["i"]), trade["sym"]
            step = number - self.last[symbol]
            self.lost += max(step - 1, 0)
            self.repeated += step < 1
            self.last[symbol] = number
            self.trades += 1
            self.checksum = (self.checksum + fnv1a(symbol.encode()) * number) & MASK64
            self.content = (self.content + content(raw.encode())) & MASK64

    def read(self, client: ClientConnection) -> None:
        """Reads to the end of the connection."""
        try:
            while True:
                self.message(client.recv(timeout=PATIENCE_S))
        except ConnectionClosed:
            return

    def agrees(self, summary: dict[str, Any]) -> None:
        assert (self.lost, self.repeated) == (0, 0)
        assert self.trades == summary["trades"]
        assert f"{self.checksum:016x}" == summary["checksum"]
        if summary["content"]:
            assert f"{self.content:016x}" == summary["content"]


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([BINARY, "tape", *map(str, arguments)], capture_output=True, text=True, timeout=PATIENCE_S)


def test_a_reader_can_prove_that_it_has_everything(tmp_path: Path) -> None:
    with serving(tmp_path, "--trades", "50000", "--content") as feed:
        ledger = Ledger()
        with feed.open() as client:
            ledger.read(client)
        summary = feed.wait()
    ledger.agrees(summary)
    assert ledger.trades == 50_000
    assert set(ledger.sizes[:-1]) == {128}
    assert len(ledger.last) > 4_000
    assert summary["ceiling_trades_per_s"] > 0
    assert not feed.ready_file.exists()


@pytest.mark.parametrize("how", ["close", "cut"])
def test_connections_that_end_on_purpose_lose_nothing(tmp_path: Path, how: str) -> None:
    options = ["--trades", "20000", "--disconnect-every", "3000", "--disconnect-how", how, "--frame-trades", "1-40"]
    with serving(tmp_path, *options, "--content") as feed:
        ledger, connections = Ledger(), 0
        while ledger.trades < 20_000:
            connections += 1
            if how == "close":
                with feed.open() as client:
                    ledger.read(client)
            else:
                read_raw(feed, ledger)
        summary = feed.wait()
    ledger.agrees(summary)
    assert summary["connections"] == connections >= 6
    assert summary["disconnects"] >= 6


def read_raw(feed: Feed, ledger: Ledger) -> None:
    """Parses frames by hand, and returns the complete objects of a truncated one."""
    stream = shake_hands(feed)
    data = b""
    while piece := stream.recv(1 << 16):
        data += piece
    stream.close()
    while data:
        opcode, short = data[0] & 15, data[1] & 127
        header = {126: 4, 127: 10}.get(short, 2)
        length = short if header == 2 else int.from_bytes(data[2:header], "big")
        payload, data = data[header : header + length], data[header + length :]
        if opcode == 1:
            whole = payload[: payload.rfind(b"}") + 1]
            if whole:
                ledger.message(whole.decode() + "]")


def shake_hands(feed: Feed) -> socket.socket:
    stream = socket.create_connection(feed.address, timeout=PATIENCE_S)
    lines = ["GET / HTTP/1.1", "Host: x", "Upgrade: websocket", "Connection: Upgrade", "Sec-WebSocket-Version: 13"]
    stream.sendall("\r\n".join([*lines, "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "", ""]).encode())
    head = b""
    while b"\r\n\r\n" not in head:
        head += stream.recv(1)
    assert b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head
    return stream


def test_reset_loses_only_data_in_transit(tmp_path: Path) -> None:
    options = ["--trades", "200000", "--disconnect-every", "30000", "--disconnect-how", "reset"]
    with serving(tmp_path, *options) as feed:
        ledger = Ledger()
        while feed.process.poll() is None:
            try:
                with feed.open() as client:
                    ledger.read(client)
            # The reset may come during the handshake, and so may the end of the server.
            except (OSError, InvalidHandshake, ConnectionClosed):
                time.sleep(0.01)
        summary = feed.wait()
    assert ledger.repeated == 0
    tail = summary["trades"] - ledger.trades - ledger.lost
    assert summary["trades"] == 200_000
    assert tail >= 0, "more than was sent"


def test_fragments_pings_and_hello(tmp_path: Path) -> None:
    options = ["--trades", "3000", "--fragment", "100", "--ping-every", "5", "--rate", "5000", "--hello", "polygon"]
    with serving(tmp_path, *options, "--auth", "KEY", "--frame-trades", "1-9") as feed:
        ledger = Ledger()
        with feed.open() as client:
            assert json.loads(client.recv())[0]["status"] == "connected"
            client.send('{"action":"subscribe","params":"T.*"}')
            assert json.loads(client.recv())[0]["status"] == "auth_required"
            client.send('{"action":"auth","params":"KEY"}')
            assert json.loads(client.recv())[0]["status"] == "auth_success"
            client.send('{"action":"subscribe","params":"Q.*"}')
            assert json.loads(client.recv())[0]["status"] == "error"
            client.send('{"action":"subscribe","params":"T.*"}')
            assert json.loads(client.recv())[0]["status"] == "success"
            ledger.read(client)
        summary = feed.wait()
    ledger.agrees(summary)
    assert summary["pings"] > 10
    assert summary["late_max_us"] is not None


def test_a_wrong_key_is_refused(tmp_path: Path) -> None:
    with serving(tmp_path, "--hello", "polygon", "--auth", "KEY") as feed:
        with feed.open() as client:
            client.recv()
            client.send('{"action":"auth","params":"no"}')
            assert json.loads(client.recv())[0]["status"] == "auth_failed"
            with pytest.raises(ConnectionClosed):
                client.recv()
        assert feed.summary()["trades"] == 0


def test_tls_with_a_certificate_made_for_the_run(tmp_path: Path) -> None:
    with serving(tmp_path, "--tls", "--trades", "20000") as feed:
        assert feed.url.startswith("wss://")
        trust = ssl.create_default_context(cafile=feed.ready["ca"])
        ledger = Ledger()
        with feed.open(ssl=trust) as client:
            ledger.read(client)
        ledger.agrees(feed.wait())
        assert not Path(feed.ready["ca"]).exists()


def test_paced_frames_grow_with_the_rate(tmp_path: Path) -> None:
    with serving(tmp_path, "--rate", "100000", "--frame-trades", "cutoff:1000", "--trades", "30000") as feed:
        ledger = Ledger()
        with feed.open() as client:
            ledger.read(client)
        summary = feed.wait()
    ledger.agrees(summary)
    assert max(ledger.sizes) <= 101
    assert summary["seconds"] >= 0.29


def test_a_second_reader_is_refused_and_per_client_gives_each_its_own(tmp_path: Path) -> None:
    with serving(tmp_path, "--rate", "100") as feed, feed.open():
        with pytest.raises(InvalidStatus) as refused:
            feed.open()
        assert refused.value.response.status_code == 503
        assert feed.summary()["refused"] == 1
    with serving(tmp_path, "--per-client", "--trades", "1000") as feed:
        ledgers = [Ledger(), Ledger()]
        with feed.open() as first, feed.open() as second:
            ledgers[0].read(first)
            ledgers[1].read(second)
        summary = feed.summary()
    assert [ledger.trades for ledger in ledgers] == [1_000, 1_000]
    assert ledgers[0].last == ledgers[1].last
    assert summary["checksum"] == f"{(2 * ledgers[0].checksum) & MASK64:016x}"


def test_a_reader_that_never_reads_costs_no_memory_and_garbage_is_answered(tmp_path: Path) -> None:
    with serving(tmp_path) as feed:
        stuck = shake_hands(feed)
        time.sleep(0.5)
        status = Path(f"/proc/{feed.process.pid}/status").read_text()
        resident_kib = int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])
        assert resident_kib < 64 * 1024
        stuck.close()
        # An unmasked frame: a violation, named by code 1002 after the current message.
        rude = shake_hands(feed)
        rude.sendall(b"\x81\x02hi")
        data = b""
        while piece := rude.recv(1 << 16):
            data = (data + piece)[-200:]
        assert b"\x03\xea" in data
        for request in (b"\x00\x01\x02\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b"POST / HTTP/1.1\r\n\r\n"):
            with socket.create_connection(feed.address, timeout=PATIENCE_S) as stream:
                stream.sendall(request)
                assert stream.recv(100).startswith(b"HTTP/1.1 4")
        summary = feed.summary()
    assert (summary["violations"], summary["refused"], summary["broken"]) == (1, 3, 1)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--rate", "fast"], "open-close"),
        (["--rate", "x2"], "--file"),
        (["--frame-trades", "0"], "cutoff"),
        (["--symbols", "0"], "100000"),
        (["--nonsense"], "--nonsense"),
        (["--trades", "0"], "--trades"),
        (["--dialect", "kraken"], "binance"),
        (["--tls-cert", "x.pem"], "--tls-key"),
        (["--listen", "localhost"], "--listen"),
    ],
)
def test_wrong_flags_are_named(options: list[str], word: str) -> None:
    listen = [] if "--listen" in options else ["--listen", "127.0.0.1:0"]
    done = run("serve", *listen, *options)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert word in done.stderr


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with serving(tmp_path) as feed:
        done = run("serve", "--listen", f"127.0.0.1:{feed.address[1]}")
        assert done.returncode == 1
        assert "--listen" in done.stderr


def test_a_recording_comes_back_as_it_was(tmp_path: Path) -> None:
    file = tmp_path / "day.tape"
    with serving(tmp_path, "--trades", "5000", "--rate", "10000", "--frame-trades", "7") as feed:
        done = run("record", feed.url, file, "--json")
        first = feed.wait()
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["messages"] == 715 == first["messages"]
    for options, messages in [
        ([], 715),
        (["--rate", "x20"], 715),
        (["--frame-trades", "128"], 40),
        (["--rate", "5000"], 715),
    ]:
        with serving(tmp_path, "--file", str(file), "--content", *options) as feed:
            ledger = Ledger()
            with feed.open() as client:
                ledger.read(client)
            again = feed.wait()
        assert (ledger.trades, ledger.lost, ledger.repeated) == (5_000, 0, 0)
        assert f"{ledger.checksum:016x}" == first["checksum"]
        assert (len(ledger.sizes), again["messages"]) == (messages, messages)
    with serving(tmp_path, "--file", str(file), "--rate", "original") as feed:
        with feed.open() as client:
            Ledger().read(client)
        assert feed.wait()["seconds"] >= 0.4


def test_a_recording_that_was_killed_is_whole_up_to_its_last_block(tmp_path: Path) -> None:
    file = tmp_path / "killed.tape"
    with serving(tmp_path, "--rate", "20000", "--frame-trades", "20") as feed:
        command = [BINARY, "tape", "record", feed.url, file]
        recorder = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = time.monotonic() + PATIENCE_S
        while not file.exists() or file.stat().st_size < 100_000:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        recorder.kill()
        recorder.communicate()
    with serving(tmp_path, "--file", str(file)) as feed:
        ledger = Ledger()
        with feed.open() as client:
            ledger.read(client)
        feed.wait()
    assert ledger.trades > 1_000
    assert (ledger.lost, ledger.repeated) == (0, 0)


def test_invalid_files_are_named_with_the_position(tmp_path: Path) -> None:
    file = tmp_path / "whole.tape"
    with serving(tmp_path, "--trades", "20000") as feed:
        assert run("record", feed.url, file).returncode == 0
        feed.wait()
    whole = file.read_bytes()
    damaged = tmp_path / "damaged.tape"
    damaged.write_bytes(whole[:5000] + bytes([whole[5000] ^ 1]) + whole[5001:])
    with serving(tmp_path, "--file", str(damaged)) as feed:
        with feed.open() as client, pytest.raises(ConnectionClosed):
            client.recv()
        _, err = feed.process.communicate(timeout=PATIENCE_S)
        assert feed.process.returncode == 1
        assert "byte" in err
    foreign = tmp_path / "foreign.tape"
    foreign.write_bytes(b"nothing of the kind, but long enough to be looked at")
    for name in (foreign, tmp_path / "absent.tape", tmp_path):
        done = run("serve", "--listen", "127.0.0.1:0", "--file", name)
        assert done.returncode == 1
        assert len(done.stderr.splitlines()) == 1
    assert run("record", "ws://127.0.0.1:1/", file).returncode == 1, "an existing file is kept"
    assert file.read_bytes() == whole
    assert run("record", "http://127.0.0.1:1/", tmp_path / "new").returncode == 1
    assert run("record", "ws://127.0.0.1:1/", tmp_path / "new").returncode == 1
    assert not (tmp_path / "new").exists()


def test_tables_are_read_by_their_columns(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    table = tmp_path / "trades.csv"
    rows = [f"AAPL,{n},11{n % 10}.25,{n + 1},{1700000000000 + n},14 37,3" for n in range(500)]
    table.write_text("\n".join(["sym,i,p,s,t,c,z", *rows]) + "\n")
    parquet = tmp_path / "trades.parquet"
    # A new connection, because the module's may hold another test's unfinished result.
    with duckdb.connect() as own:
        own.execute(f"copy (select * from read_csv('{table}')) to '{parquet}' (format parquet, compression snappy)")
        own.fetchall()
    got = []
    for file in (table, parquet):
        with serving(tmp_path, "--file", str(file), "--rate", "original") as feed:
            with feed.open() as client:
                trades = [trade for message in client for trade in json.loads(message)]
            feed.wait()
        assert len(trades) == 500
        assert trades[7] == {
            "ev": "T", "sym": "AAPL", "i": "7", "x": 0, "p": 117.25, "s": 8, "c": [14, 37], "t": 1700000000007, "z": 3,
        }  # fmt: skip
        got.append(trades)
    assert got[0] == got[1]
    table.write_text("sym,p,s\nAAPL,abc,1\n")
    done = run("serve", "--listen", "127.0.0.1:0", "--file", table)
    assert done.returncode == 1
    assert "line 2" in done.stderr


@pytest.mark.parametrize(
    ("dialect", "path", "fields"),
    [
        ("binance", "ws/btcusdt@trade", ["e", "E", "s", "t", "p", "q", "T", "m", "M"]),
        ("binance", "stream?streams=btcusdt@trade/ethusdt@trade", ["stream", "data"]),
        ("bithumb", "message/realtime?subscribe=TRADE:BTC-USDT", ["code", "data", "timestamp", "topic"]),
        (
            "gemini",
            "v1/marketdata/btcusd",
            ["type", "eventId", "timestamp", "timestampms", "socket_sequence", "events"],
        ),
    ],
)
def test_dialects_have_their_fields(tmp_path: Path, dialect: str, path: str, fields: list[str]) -> None:
    with serving(tmp_path, "--dialect", dialect, "--trades", "100", "--rate", "1000") as feed:
        with feed.open(path) as client:
            messages = [json.loads(message) for message in client]
        assert feed.wait()["trades"] == 100
    assert all(list(message) == fields for message in messages)
    assert len(messages) in (100, 101)
    now_ms = time.time() * 1000
    for message in messages:
        at = message.get("T") or message.get("timestamp") or message["data"]["T"]
        assert abs(at * (1 if at > 1e12 else 1000) - now_ms) < 60_000


def test_nothing_is_left_behind(tmp_path: Path) -> None:
    with serving(tmp_path, "--tls", "--rate", "1000") as feed:
        os.kill(feed.process.pid, signal.SIGINT)
        feed.wait()
        assert list(tmp_path.iterdir()) == []
        assert not Path(feed.ready["ca"]).exists()
