"""`pitwire split --publish` with a real nats-server: every loss is declared, whatever NATS does."""

import json
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from feed import endless_tape
from nats_server import Server
from venue import BINARY, TOP, run_pitwire

sys.path.insert(0, str(TOP / "clients/python"))
from pitwire_nats import BadMessage, Shard, records

PATIENCE_S = 60.0
WORKERS = 3
TRADES = 100_000


class Reader:
    """The example consumer."""

    def __init__(self, server: Server) -> None:
        command = [sys.executable, TOP / "clients/python/pitwire_nats.py", server.url, "--prefix", "test"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout
        assert json.loads(self.process.stdout.readline()) == {"ready": True}

    def end(self) -> dict[int, dict[str, Any]]:
        # A mark per second tells the position of each shard.
        time.sleep(1.5)
        self.process.send_signal(signal.SIGTERM)
        out, error = self.process.communicate(timeout=PATIENCE_S)
        summary = json.loads(out)
        assert self.process.returncode == 0 and summary["bad"] == 0, error
        return {int(shard): seen for shard, seen in summary["shards"].items()}


@pytest.fixture
def tape(tmp_path: Path) -> Iterator[str]:
    with endless_tape(tmp_path / "tape.ready", per_s=50000) as url:
        yield url


def split(tape: str, server: Server, trades: int) -> list[str]:
    command = [str(BINARY), "split", tape, "--workers", str(WORKERS), "--limit-trades", str(trades), "--json"]
    return [*command, "--publish", server.url, "--publish-prefix", "test"]


def total(seen: dict[int, dict[str, Any]], what: str) -> int:
    return sum(shard[what] for shard in seen.values())


def under_way(server: Server) -> None:
    """Publishes until it works; a splitter without a server at its start does not start."""
    with socket.create_connection(("127.0.0.1", server.port), PATIENCE_S) as line:
        line.sendall(b'CONNECT {"verbose":false}\r\nSUB test.> 1\r\nPING\r\n')
        received = b""
        while b"HMSG " not in received and b"\r\nMSG " not in received:
            more = line.recv(65536)
            assert more, received
            received = received[-100:] + more


def test_every_trade_is_published_once(tape: str, server: Server) -> None:
    reader = Reader(server)
    ended = subprocess.run(split(tape, server, TRADES), capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert ended.returncode == 0, ended.stderr
    seen = reader.end()
    assert sorted(seen) == list(range(WORKERS))
    assert (total(seen, "records"), total(seen, "missed"), total(seen, "repeated")) == (TRADES, 0, 0)


@pytest.mark.parametrize("trouble", ["stands still", "goes away"])
def test_splitter_continues_and_declares_every_loss(trouble: str, tape: str, server: Server) -> None:
    """Local workers are unaffected; sequence numbers show a remote consumer its missed records."""
    trades = 5 * TRADES
    reader = Reader(server)
    splitter = subprocess.Popen(split(tape, server, trades), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    under_way(server)
    time.sleep(0.5)
    if trouble == "stands still":
        server.process.send_signal(signal.SIGSTOP)
        time.sleep(4)
        server.process.send_signal(signal.SIGCONT)
    else:
        server.stop()
        time.sleep(3)
        server.start()
    out, error = splitter.communicate(timeout=PATIENCE_S)
    assert splitter.returncode in (0, 1) and "panicked" not in error, error
    assert json.loads(out)["trades"] == trades and json.loads(out)["dropped"] == 0
    seen = reader.end()
    # Both sides may lose at a kill; then the splitter's last numbers say how much.
    assert total(seen, "records") + total(seen, "missed") == trades, seen
    assert total(seen, "repeated") == 0


def test_a_restarted_splitter_begins_a_new_epoch(tape: str, server: Server) -> None:
    reader = Reader(server)
    for _ in range(2):
        ended = subprocess.run(
            split(tape, server, 20_000), capture_output=True, text=True, timeout=PATIENCE_S, check=False
        )
        assert ended.returncode == 0, ended.stderr
    seen = reader.end()
    assert total(seen, "records") == 40_000 and total(seen, "missed") == 0
    assert all(shard["restarts"] == 1 for shard in seen.values())


@pytest.mark.parametrize(
    ("url", "word"),
    [
        ("http://127.0.0.1:1", "invalid NATS address"),
        ("nats://127.0.0.1:1", "nats-server"),
        ("nats://me:secret@127.0.0.1:1", "…@"),
    ],
)
def test_an_address_where_no_nats_is_is_refused(url: str, word: str, tape: str) -> None:
    ended = run_pitwire("split", tape, "--workers", "1", "--publish", url, timeout_s=PATIENCE_S)
    assert ended.returncode in (1, 2) and word in ended.stderr and "secret" not in ended.stderr
    assert ended.stderr.count("\n") == 1 and "panicked" not in ended.stderr


# The arithmetic of the example consumer


def test_losses_repeats_and_restarts_are_distinguished() -> None:
    shard = Shard()
    for epoch, first, count, skipped in [
        (7, 5, 10, 0),  # messages before the subscription are not lost
        (7, 15, 5, 0),
        (7, 20, 0, 0),  # a mark
        (7, 18, 5, 2),  # two of five are known
        (7, 30, 1, 0),  # 23 to 29 are lost
        (7, 40, 0, 0),  # and 31 to 39, declared by a mark
        (6, 1, 9, 9),  # an old splitter
        (8, 3, 2, 0),  # a new one, whose first two are lost
    ]:
        assert shard.place(epoch, first, count) == skipped
    assert (shard.records, shard.missed, shard.repeated, shard.stale, shard.restarts) == (21, 18, 2, 9, 1)


def test_random_losses_are_counted_exactly() -> None:
    chance = random.Random(3)
    shard, next_number, sent, lost = Shard(), 1, 0, 0
    shard.place(1, 1, 0)
    for _ in range(10_000):
        count = chance.randrange(50)
        if chance.random() < 0.2:
            lost += count
        else:
            shard.place(1, next_number, count)
            sent += count
        next_number += count
    shard.place(1, next_number, 0)
    assert (shard.records, shard.missed) == (sent, lost)


@pytest.mark.parametrize("payload", [b"\x01", b"\x05\0\0\0abc", b"\xff\xff\xff\xff", b"\0\0\0\0\0"])
def test_half_a_payload_is_refused(payload: bytes) -> None:
    with pytest.raises(BadMessage):
        list(records(payload))
