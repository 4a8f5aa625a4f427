"""Time series of the feed and the connectors: CPU, memory, context switches and socket queues.

`processes.csv` of a run has one row per process and second. Counters are totals since the start
of the process. A receive queue that is not empty holds data that the process has not read.
"""

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lab import machine

FILE_NAME = "processes.csv"
COLUMNS = (
    "monotonic_ns",
    "process",
    "cpu_ns",
    "resident_kb",
    "voluntary_switches",
    "forced_switches",
    "receive_queue_bytes",
    "send_queue_bytes",
)


@dataclass(frozen=True)
class Sample:
    """One row of the series."""

    monotonic_ns: int
    process: str
    cpu_ns: int
    resident_kb: int
    voluntary_switches: int
    forced_switches: int
    receive_queue_bytes: int
    send_queue_bytes: int


def socket_queues() -> dict[str, tuple[int, int]]:
    """Bytes in the send and the receive queue of every TCP socket, by inode."""
    found = {}
    for name in ("tcp", "tcp6"):
        for line in machine.read_text(f"/proc/net/{name}").splitlines()[1:]:
            fields = line.split()
            # State 0A is a listener, whose queues count connections.
            if len(fields) > 9 and fields[3] != "0A":
                send, _, receive = fields[4].partition(":")
                found[fields[9]] = (int(send, 16), int(receive, 16))
    return found


def inodes_of(pid: int) -> list[str]:
    """Inodes of the sockets that a process has open."""
    found = []
    try:
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            target = str(entry.readlink())
            if target.startswith("socket:["):
                found.append(target[8:-1])
    except OSError:
        pass  # The process has ended.
    return found


def sample(name: str, pid: int, now_ns: int, queues: Mapping[str, tuple[int, int]]) -> Sample | None:
    """One row about a process, or None if it has ended."""
    status = dict(line.split(":", 1) for line in machine.read_text(f"/proc/{pid}/status").splitlines() if ":" in line)
    cpu_ns = machine.process_cpu_ns(pid)
    if "VmRSS" not in status:
        return None
    voluntary, forced = machine.switches_by_kind(pid)
    own = [queues[inode] for inode in inodes_of(pid) if inode in queues]
    return Sample(
        monotonic_ns=now_ns,
        process=name,
        cpu_ns=cpu_ns,
        resident_kb=int(status["VmRSS"].split()[0]),
        voluntary_switches=voluntary,
        forced_switches=forced,
        receive_queue_bytes=sum(receive for _, receive in own),
        send_queue_bytes=sum(send for send, _ in own),
    )


def append(folder: Path, processes: Mapping[str, int], now_ns: int) -> None:
    """Appends one row per process to the series of a run.

    # Raises
    OSError if the file cannot be written.
    """
    queues = socket_queues()
    rows = [found for name, pid in processes.items() if (found := sample(name, pid, now_ns, queues)) is not None]
    path = folder / FILE_NAME
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.writer(file)
        if is_new:
            writer.writerow(COLUMNS)
        writer.writerows([getattr(row, column) for column in COLUMNS] for row in rows)


def read(folder: Path, process: str) -> list[Sample]:
    """The rows about one process, in order of time. A damaged row is left out."""
    found = []
    try:
        with (folder / FILE_NAME).open(newline="") as file:
            for row in csv.DictReader(file):
                if row["process"] != process:
                    continue
                try:
                    found.append(Sample(**{c: row[c] if c == "process" else int(row[c]) for c in COLUMNS}))
                except (TypeError, ValueError):
                    continue
    except (OSError, KeyError):
        return []
    return found
