"""Reader for a worker of `pitwire split`: records from a pipe, or from a ring in shared memory.

One file, standard library only. docs/splitter-formats.md has the layout.

    for record in records(sys.argv[1]):  # a descriptor number or the name of a ring
        trade = json.loads(record)

The loop ends when the splitter ends. `SplitterDied`: it was killed, and everything that it had sent was returned.
`ShardFault`: content that no splitter writes. With `idle_s`, `None` is returned when nothing arrived for that time.

A ring is polled every half millisecond, because Python has no futex. Positions are read as whole words, which x86-64
keeps in order. On other processors, and above some hundred thousand records per second, use the C header.
"""

import fcntl
import json
import mmap
import os
import select
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path

LONGEST = 8 << 20
"""Longest record of a pipe, in bytes."""
READ = 256 << 10
HEADER = 4096
WRAP = 0xFFFF_FFFF
REFERENCE = 0x8000_0000
"""Flag in a length of a ring of version 2: the record is in the area, at the offset that
follows."""
AREA_BYTES_AT, AREA_NAME_AT, AREA_NAME_BYTES = 40, 512, 256
SHORTEST_SLEEP_S = 50e-6
LONGEST_SLEEP_S = 500e-6
SILENCE_S = 0.2
"""Interval at which a silent ring's splitter is checked for life."""
_LENGTH = struct.Struct("<I")
_FIXED = struct.Struct("<8sIIQIIQ")
_HEAD, _STATE, _TAIL = 128 // 8, 140 // 4, 256 // 8


class ShardFault(ValueError):
    """Not a shard, or content that no splitter writes."""


class SplitterDied(EOFError):
    """The splitter was killed without ending the shard. Its published records were returned."""


def records(name: str, idle_s: float | None = None) -> Iterator[bytes | None]:
    """Returns each record once, in order."""
    if name.isascii() and name.isdigit():
        return _from_pipe(int(name), idle_s)
    return _from_ring(name, idle_s)


def _from_pipe(descriptor: int, idle_s: float | None) -> Iterator[bytes | None]:
    held = b""
    while True:
        if idle_s is not None and not select.select([descriptor], [], [], idle_s)[0]:
            yield None
            continue
        piece = os.read(descriptor, READ)
        if not piece:
            break
        held += piece
        at = 0
        while at + 4 <= len(held):
            (length,) = _LENGTH.unpack_from(held, at)
            if length > LONGEST:
                raise ShardFault(f"a record of {length} bytes; start splitter and workers again")
            end = at + 4 + length
            if end > len(held):
                break
            yield held[at + 4 : end]
            at = end
        held = held[at:]
    if held:
        raise SplitterDied(f"the pipe {descriptor} ended within a record; start the splitter again")


def _from_ring(name: str, idle_s: float | None) -> Iterator[bytes | None]:
    with Path(name).open("r+b") as file:
        if os.fstat(file.fileno()).st_size < HEADER:
            raise ShardFault(f"{name}: shorter than a ring's header; give the names that pitwire split appended")
        with mmap.mmap(file.fileno(), 0) as memory:
            capacity = _check_header(name, memory)
            area = _area(name, memory)
            view = memoryview(memory)
            wide, narrow = view[:HEADER].cast("Q"), view[:HEADER].cast("I")
            try:
                yield from _ring_records(_Ring(name, file.fileno(), memory, wide, narrow, capacity, area), idle_s)
            finally:
                if area is not None:
                    area.close()
                # A mapping cannot be closed while views of it exist.
                wide.release()
                narrow.release()
                view.release()


def _check_header(name: str, memory: mmap.mmap) -> int:
    magic, version, records_at, capacity, *_ = _FIXED.unpack_from(memory)
    if magic != b"PWRING01":
        raise ShardFault(f"{name}: not a ring; give the names that pitwire split appended")
    if version not in (1, 2):
        raise ShardFault(f"{name}: a ring of version {version}; use the reader that came with this splitter")
    is_power = capacity & (capacity - 1) == 0
    if records_at != HEADER or not is_power or not 4096 <= capacity <= min(1 << 32, len(memory) - HEADER):
        raise ShardFault(f"{name}: the header gives a capacity that the file does not have")
    return capacity


def _area(name: str, memory: mmap.mmap) -> mmap.mmap | None:
    """The area that a ring of version 2 refers to: a file in the same directory."""
    if _FIXED.unpack_from(memory)[1] == 1:
        return None
    named = memory[AREA_NAME_AT : AREA_NAME_AT + AREA_NAME_BYTES].split(b"\0")[0]
    if not named or b"/" in named or named == b"..":
        raise ShardFault(f"{name}: the header names no area; start splitter and workers again")
    with (Path(name).parent / os.fsdecode(named)).open("rb") as file:
        area = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    if len(area) < int.from_bytes(memory[AREA_BYTES_AT : AREA_BYTES_AT + 8], "little"):
        raise ShardFault(f"{name}: the header gives an area that is not there; start splitter and workers again")
    return area


class _Ring:
    def __init__(
        self,
        name: str,
        descriptor: int,
        memory: mmap.mmap,
        wide: memoryview,
        narrow: memoryview,
        capacity: int,
        area: mmap.mmap | None,
    ) -> None:
        self.name, self.descriptor, self.memory, self.capacity = name, descriptor, memory, capacity
        self.wide, self.narrow = wide, narrow
        self.area = area
        self.most_held = capacity // (8 if area is None else 64)
        self.position: int = wide[_TAIL]

    def head(self) -> int:
        """Reads the head once and checks it before use."""
        head: int = self.wide[_HEAD]
        if not 0 <= head - self.position <= self.capacity or (head | self.position) % 8:
            raise ShardFault(f"{self.name}: head {head} and tail {self.position} do not fit together")
        return head

    def is_ended(self) -> bool:
        return self.narrow[_STATE] != 0

    def give_back(self) -> None:
        self.wide[_TAIL] = self.position

    def is_abandoned(self) -> bool:
        """Returns whether the splitter has died. It holds an exclusive lock on its rings while it
        lives."""
        try:
            fcntl.flock(self.descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
        fcntl.flock(self.descriptor, fcntl.LOCK_UN)
        return True

    def upto(self, head: int) -> Iterator[bytes]:
        given_back = self.position
        while self.position < head:
            left, at = head - self.position, self.position & (self.capacity - 1)
            (length,) = _LENGTH.unpack_from(self.memory, HEADER + at)
            to_end = self.capacity - at
            if length == WRAP:
                if to_end > left:
                    raise ShardFault(f"{self.name}: a wrap beyond the head at position {self.position}")
                self.position += to_end
                continue
            if self.area is not None and length & REFERENCE:
                yield self._referred(length & ~REFERENCE, HEADER + at + 4)
                if self.position - given_back >= self.most_held:
                    self.give_back()
                    given_back = self.position
                continue
            footprint = (length + 4 + 7) & ~7
            if length > self.capacity // 4 - 4 or footprint > min(to_end, left):
                raise ShardFault(f"{self.name}: a record of {length} bytes at {self.position} leaves its place")
            start = HEADER + at + 4
            self.position += footprint
            yield self.memory[start : start + length]
            if self.position - given_back >= self.most_held:
                self.give_back()
                given_back = self.position
        self.give_back()

    def _referred(self, length: int, at: int) -> bytes:
        assert self.area is not None
        (offset,) = _LENGTH.unpack_from(self.memory, at)
        if offset + length > len(self.area):
            raise ShardFault(f"{self.name}: a reference at {self.position} leaves the area")
        self.position += 8
        return self.area[offset : offset + length]


def _ring_records(ring: _Ring, idle_s: float | None) -> Iterator[bytes | None]:
    sleep_s = SHORTEST_SLEEP_S
    quiet_since = asked = time.monotonic()
    while True:
        # Checked before the head: records published before the end are read with it.
        is_ended = ring.is_ended()
        head = ring.head()
        if head != ring.position:
            yield from ring.upto(head)
            sleep_s, quiet_since = SHORTEST_SLEEP_S, time.monotonic()
            continue
        if is_ended:
            return
        time.sleep(sleep_s)
        sleep_s = min(2 * sleep_s, LONGEST_SLEEP_S)
        now = time.monotonic()
        if now - max(quiet_since, asked) >= SILENCE_S:
            asked = now
            if ring.is_abandoned() and ring.head() == ring.position:
                if ring.is_ended():
                    return
                raise SplitterDied(f"{ring.name}: the splitter died without saying that it ends; start it again")
        if idle_s is not None and now - quiet_since >= idle_s:
            quiet_since = now
            yield None


def main() -> int:
    """Example: counts the records of one shard after another."""
    if len(sys.argv) < 2:
        print("pitwire_shard.py: no shard; start it as a worker of pitwire split", file=sys.stderr)
        return 2
    failed = 0
    for name in sys.argv[1:]:
        summary: dict[str, int | str] = {"shard": name, "records": 0, "bytes": 0, "gaps": 0, "end": "ended"}
        try:
            for record in records(name):
                summary["records"] += 1
                summary["bytes"] += len(record)
                summary["gaps"] += record.startswith(b'{"ev":"gap",')
        except (ShardFault, SplitterDied, OSError) as error:
            print(f"pitwire_shard.py: {error}", file=sys.stderr)
            summary["end"] = type(error).__name__
            failed = 1
        print(json.dumps(summary), flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
