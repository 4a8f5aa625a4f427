"""Prints where the time of the trading loop goes: `scripts/loop_account.py`, about 20 seconds.

It starts a quiet venue, runs `pitwire bench loop` under `perf record` with the tracepoints of
system calls, and takes the time between the calls of the client and of the venue. It needs `perf`
and the right to trace. Tracing makes each call slower, so compare the shares."""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from venue import BINARY, DEMO_A, DEMO_B, Venue

CALLS = ("sendto", "recvfrom", "epoll_wait", "epoll_pwait", "futex", "write", "sched_yield")
EVENTS = ",".join(f"syscalls:sys_{edge}_{call}" for call in CALLS for edge in ("enter", "exit"))
LINE = re.compile(r"\s*(\d+)\s+([\d.]+):\s+(?:syscalls:)?sys_(enter|exit)_(\w+): (?:fd: (0x[0-9a-f]+))?")
# A loop that takes longer was interrupted by other processes.
LONGEST_US = 2_000.0
# The parts of a loop in their order, and the event that ends each.
PARTS = (
    ("client: decode the book change, update the book, encode the order", ("client", "enter", "sendto")),
    ("kernel: send the order; the venue's poll finds it", ("venue", "enter", "recvfrom")),
    ("venue: receive call", ("venue", "exit", "recvfrom")),
    ("venue: decode, check, match, journal in memory, encode", ("venue", "enter", "sendto")),
    ("kernel: send the answer; wake the client", ("client", "exit", "epoll_wait")),
    ("client: find the socket, receive call", ("client", "exit", "recvfrom")),
    # The client then tells the thread of the second account that it has the fill.
    ("client: decode the answer", ("client", "enter", "futex")),
)


@dataclass(frozen=True)
class Event:
    """The begin or the end of a system call."""

    at_us: float
    name: tuple[str, str, str]
    # Socket of a send or receive call that begins.
    socket: str | None


def read(script: str, threads: dict[int, str]) -> list[Event]:
    """The events of the named threads, in order."""
    matches = (LINE.match(line) for line in script.splitlines())
    known = (match for match in matches if match and int(match[1]) in threads)
    return [Event(float(match[2]) * 1e6, (threads[int(match[1])], match[3], match[4]), match[5]) for match in known]


def begins(events: list[Event]) -> Iterator[int]:
    """The ends of receive calls of the client that are followed by a send over another socket: the
    book changes that begin a loop."""
    received, end = None, 0
    for at, event in enumerate(events):
        if event.name == ("client", "enter", "recvfrom"):
            received = event.socket
        elif event.name == ("client", "exit", "recvfrom"):
            end = at
        elif event.name == ("client", "enter", "sendto"):
            if received not in (None, event.socket):
                yield end
            received = None


def parts(events: list[Event], begin: int) -> list[float] | None:
    """The durations of the parts of one loop, or None if it was interrupted."""
    durations, at = [], begin
    for _, name in PARTS:
        start_us = events[at].at_us
        at = next((later for later in range(at + 1, len(events)) if events[later].name == name), -1)
        if at < 0:
            return None
        durations.append(events[at].at_us - start_us)
    return durations if sum(durations) < LONGEST_US else None


def record(directory: Path, count: int) -> tuple[list[Event], float]:
    """Runs the benchmark. Returns its events, and the p50 of the traced loop."""
    maker, trace, pid = directory / "maker.toml", directory / "perf.data", directory / "pid"
    maker.write_text(f'client_id = "{DEMO_B.client_id}"\nclient_secret = "{DEMO_B.secret}"\n')
    maker.chmod(0o600)
    environment = os.environ | {"PITWIRE_CLIENT_ID": DEMO_A.client_id, "PITWIRE_CLIENT_SECRET": DEMO_A.secret}
    with Venue(directory / "data", ["--no-flow", "--durability", "memory", "--idle", "spin"]) as venue:
        assert venue.process is not None
        command = [BINARY, "bench", "loop", venue.ws_url, "--maker-credentials", maker, "--json"]
        command += ["--count", str(count), "--rounds", "1", "--updates", "1000"]
        shell = ["sh", "-c", 'echo $$ > "$0" && exec "$@"', pid, *command]
        perf = ["perf", "record", "-q", "-a", "-m", "4096", "-o", trace, "-e", EVENTS, "--", *shell]
        ended = subprocess.run(perf, stdout=subprocess.PIPE, text=True, check=True, env=environment, timeout=300)
        threads = {venue.process.pid: "venue", int(pid.read_text()): "client"}
    script = ["perf", "script", "-i", trace, "-F", "tid,time,event,trace", "--ns"]
    text = subprocess.run(script, stdout=subprocess.PIPE, text=True, check=True, timeout=300).stdout
    loop = next(one for one in json.loads(ended.stdout)["measurements"] if one["name"] == "trading loop")
    return read(text, threads), loop["p50_us"]


def main() -> None:
    parser = argparse.ArgumentParser(description="Where the time of the trading loop goes.")
    parser.add_argument("--count", type=int, default=1000, help="loops (default: 1000)")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pitwire-loop-account-") as directory:
        events, p50_us = record(Path(directory), arguments.count)
    # The first ones are warm-up, and those behind the last one record market data.
    starts = list(begins(events))[arguments.count // 10 : arguments.count]
    whole = [found for begin in starts if (found := parts(events, begin))]
    if not whole:
        sys.exit("no loop was found in the trace: is another process using both cores?")
    total_us = sum(statistics.median(durations) for durations in zip(*whole, strict=True))
    print(f"{len(whole)} loops, p50 {p50_us} us with tracing\n")
    print("| part | median, us | share |\n| --- | --- | --- |")
    for (part, _), durations in zip(PARTS, zip(*whole, strict=True), strict=True):
        median_us = statistics.median(durations)
        print(f"| {part} | {median_us:.1f} | {100 * median_us / total_us:.0f} % |")
    print("\n| calls for each loop, with the offer | client | venue |\n| --- | --- | --- |")
    names = Counter(event.name for event in events[starts[0] : starts[-1]])
    for call in CALLS:
        counts = [names[(thread, "enter", call)] / max(1, len(starts) - 1) for thread in ("client", "venue")]
        print(f"| {call} | {counts[0]:.1f} | {counts[1]:.1f} |")


if __name__ == "__main__":
    main()
