"""Reads what `pitwire split --publish nats://...` publishes, and detects missing records.

Needs nats-py (Apache-2.0). docs/splitter-formats.md has the messages: subject `<prefix>.<epoch>.<shard>`, headers
Pitwire-Epoch, Pitwire-First and Pitwire-Count, and as payload the same records as on a pipe. Core NATS sends at most
once: records that were lost, or that the splitter dropped because NATS was slow or away, are a jump in the numbers.

    python pitwire_nats.py nats://127.0.0.1:4222 [--prefix pitwire] [--shard N]... [--seconds S]

counts until it is stopped and prints one JSON object.
"""

import argparse
import asyncio
import contextlib
import json
import signal
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

import nats
from nats.aio.msg import Msg

_LENGTH = struct.Struct("<I")


class BadMessage(ValueError):
    """A message that no splitter publishes."""


@dataclass
class Shard:
    """The position of one shard's consumer. Numbers count every record since the splitter's start,
    sent or not."""

    epoch: int | None = None
    expected: int = 0
    records: int = 0
    missed: int = 0
    repeated: int = 0
    stale: int = 0
    restarts: int = 0

    def place(self, epoch: int, first: int, count: int) -> int:
        """Returns how many records at the front of a batch to skip, and counts those missing before
        it."""
        if self.epoch is None:
            # The records before the first message are unknown.
            self.epoch, self.expected = epoch, first
        if epoch < self.epoch:
            # A splitter that was replaced and still runs.
            self.stale += count
            return count
        if epoch > self.epoch:
            # A new start: its numbers begin with 1, and we were subscribed.
            self.epoch, self.expected = epoch, 1
            self.restarts += 1
        if first > self.expected:
            self.missed += first - self.expected
            self.expected = first
        known = min(self.expected - first, count)
        self.repeated += known
        self.expected = max(self.expected, first + count)
        self.records += count - known
        return known


@dataclass
class Consumer:
    shards: dict[int, Shard] = field(default_factory=dict)

    def take(self, message: Msg) -> list[bytes]:
        """Returns the new records of a message."""
        headers = message.headers or {}
        try:
            epoch, first, count = (int(headers[f"Pitwire-{name}"]) for name in ("Epoch", "First", "Count"))
            number = int(message.subject.rsplit(".", 1)[1])
        except (KeyError, ValueError, IndexError) as error:
            raise BadMessage(f"{message.subject}: no headers of a splitter: {error}") from None
        found = list(records(message.data))
        if len(found) != count:
            raise BadMessage(f"{message.subject}: {count} records are announced and {len(found)} found")
        return found[self.shards.setdefault(number, Shard()).place(epoch, first, count) :]


def records(payload: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(payload):
        if at + 4 > len(payload):
            raise BadMessage("a payload that ends within a length")
        (length,) = _LENGTH.unpack_from(payload, at)
        if at + 4 + length > len(payload):
            raise BadMessage("a payload that ends within a record")
        yield payload[at + 4 : at + 4 + length]
        at += 4 + length


async def consume(url: str, prefix: str, shards: list[int], seconds: float | None) -> dict[str, object]:
    consumer = Consumer()
    bad = 0

    async def take(message: Msg) -> None:
        nonlocal bad
        try:
            consumer.take(message)
        except BadMessage as error:
            bad += 1
            print(f"pitwire_nats: {error}", file=sys.stderr)

    connection = await nats.connect(url, allow_reconnect=True, max_reconnect_attempts=-1)
    for shard in shards or ["*"]:
        # Limited in bytes rather than messages. NATS drops what exceeds it, and the numbers show
        # that.
        await connection.subscribe(f"{prefix}.*.{shard}", cb=take, pending_bytes_limit=256 << 20)
    await connection.flush()
    print(json.dumps({"ready": True}), flush=True)
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(stop.wait(), seconds)
    await connection.drain()
    return {"bad": bad, "shards": {number: vars(shard) for number, shard in sorted(consumer.shards.items())}}


def main() -> int:
    options = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    options.add_argument("url")
    options.add_argument("--prefix", default="pitwire")
    options.add_argument("--shard", type=int, action="append", default=[])
    options.add_argument("--seconds", type=float)
    asked = options.parse_args()
    try:
        summary = asyncio.run(consume(asked.url, asked.prefix, asked.shard, asked.seconds))
    except (nats.errors.Error, OSError) as error:
        print(f"pitwire_nats: {asked.url}: {error}; start nats-server there, or correct the address", file=sys.stderr)
        return 1
    print(json.dumps(summary), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
