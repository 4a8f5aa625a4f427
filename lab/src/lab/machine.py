"""The machine: its record, its load over time, and how much noise it adds."""

import contextlib
import csv
import hashlib
import json
import os
import platform
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np

TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# Low bits of a clock number that clock_getcpuclockid(3) returns.
CPU_CLOCK_OF_PROCESS = 2
NOISE_THRESHOLD_NS = 5_000


def read_text(path: str | Path) -> str:
    """Content of a small file without surrounding space, or "" if it cannot be read."""
    try:
        return Path(path).read_text(errors="replace").strip()
    except OSError:
        return ""


@dataclass(frozen=True)
class Environment:
    """What stays the same during a study. Runs of two environments are never compared."""

    host: str
    kernel: str
    architecture: str
    cpu_model: str
    microcode: str
    cores: int  # cores that this process may use
    governor: str
    clock_source: str
    memory_bytes: int
    cgroup_cpu: str
    cgroup_memory: str

    def digest(self) -> str:
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()[:16]


def environment() -> Environment:
    cpu = read_text("/proc/cpuinfo")

    def first(key: str) -> str:
        return next((line.split(":", 1)[1].strip() for line in cpu.splitlines() if line.startswith(key)), "")

    return Environment(
        host=platform.node(),
        kernel=platform.release(),
        architecture=platform.machine(),
        cpu_model=first("model name"),
        microcode=first("microcode"),
        cores=len(os.sched_getaffinity(0)),
        governor=read_text("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor") or "not adjustable",
        clock_source=read_text("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        memory_bytes=os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        cgroup_cpu=read_text("/sys/fs/cgroup/cpu.max"),
        cgroup_memory=read_text("/sys/fs/cgroup/memory.max"),
    )


@dataclass(frozen=True)
class Pins:
    """Cores of the feed and of the connectors. Equal sets mean that they share a core."""

    feed: tuple[int, ...]
    connectors: tuple[int, ...]

    @property
    def shared(self) -> bool:
        return bool(set(self.feed) & set(self.connectors))


def choose_pins(connectors: int = 1) -> Pins:
    """Gives the feed the first usable core, and the connectors one core or all the others."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) == 1:
        return Pins((cores[0],), (cores[0],))
    others = tuple(cores[1:])
    return Pins((cores[0],), others[:1] if connectors == 1 else others)


def process_cpu_ns(pid: int) -> int:
    """CPU time of a process with all its threads, or 0 if it has ended.

    Reads the CPU clock of the process: /proc counts in ticks of 10 ms.
    """
    try:
        return time.clock_gettime_ns((~pid << 3) | CPU_CLOCK_OF_PROCESS)
    except OSError:
        return 0


def process_memory_kb(pid: int) -> int:
    status = read_text(f"/proc/{pid}/status")
    return next((int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")), 0)


def switches_by_kind(pid: int) -> tuple[int, int]:
    """Voluntary and forced context switches of all threads of a process."""
    voluntary = forced = 0
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return 0, 0
    for task in tasks:
        for line in read_text(task / "status").splitlines():
            if line.startswith("voluntary_ctxt_switches"):
                voluntary += int(line.split()[1])
            elif line.startswith("nonvoluntary_ctxt_switches"):
                forced += int(line.split()[1])
    return voluntary, forced


def context_switches(pid: int, threads: dict[str, int]) -> int:
    """All context switches of all threads of a process.

    `threads` keeps the last count of each thread, also of those that have ended since: without
    them the sum would fall.
    """
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            lines = read_text(task / "status").splitlines()
            found = sum(int(line.split()[1]) for line in lines if "voluntary_ctxt_switches" in line)
            threads[task.name] = max(threads.get(task.name, 0), found)
    return sum(threads.values())


@dataclass(frozen=True)
class CpuTimes:
    """Totals of all cores since boot, in nanoseconds."""

    busy_ns: int
    steal_ns: int
    total_ns: int


def cpu_times() -> CpuTimes:
    fields = [int(x) for x in read_text("/proc/stat").splitlines()[0].split()[1:9]]
    user, nice, system, idle, iowait, irq, softirq, steal = fields
    unit = 1_000_000_000 // TICKS_PER_S
    busy = user + nice + system + irq + softirq
    return CpuTimes(busy * unit, steal * unit, (busy + idle + iowait + steal) * unit)


def clock_offset() -> tuple[int, int, int]:
    """Monotonic, realtime and monotonic time, read in this order."""
    before = time.monotonic_ns()
    real = time.time_ns()
    return before, real, time.monotonic_ns()


SERIES_COLUMNS = (
    "monotonic_ns",
    "clock_offset_ns",
    "clock_bracket_ns",
    "busy_percent",
    "steal_percent",
    "context_switches",
    "interrupts",
    "disk_read_bytes",
    "disk_written_bytes",
    "net_received_bytes",
    "net_sent_bytes",
    "memory_available_bytes",
    "load_1m",
)


def machine_row(previous: CpuTimes | None) -> tuple[list[float], CpuTimes]:
    """One row of the time series. Counters are totals since boot."""
    before, real, after = clock_offset()
    now = cpu_times()
    busy = steal = 0.0
    if previous is not None and now.total_ns > previous.total_ns:
        span = now.total_ns - previous.total_ns
        busy = 100 * (now.busy_ns - previous.busy_ns) / span
        steal = 100 * (now.steal_ns - previous.steal_ns) / span
    stat = {line.split()[0]: line.split()[1] for line in read_text("/proc/stat").splitlines() if " " in line}
    read = written = 0
    for line in read_text("/proc/diskstats").splitlines():
        fields = line.split()
        if Path(f"/sys/block/{fields[2]}").exists() and not fields[2].startswith(("loop", "ram")):
            read += int(fields[5]) * 512
            written += int(fields[9]) * 512
    received = sent = 0
    for line in read_text("/proc/net/dev").splitlines()[2:]:
        fields = line.partition(":")[2].split()
        received += int(fields[0])
        sent += int(fields[8])
    memory = dict(line.split(":", 1) for line in read_text("/proc/meminfo").splitlines() if ":" in line)
    available = int(memory.get("MemAvailable", "0 kB").split()[0]) * 1024
    row = [
        before,
        real - (before + after) // 2,
        after - before,
        round(busy, 2),
        round(steal, 2),
        int(stat.get("ctxt", 0)),
        int(stat.get("intr", 0)),
        read,
        written,
        received,
        sent,
        available,
        os.getloadavg()[0],
    ]
    return row, now


class Recorder:
    """Writes one row of the time series per second until it is stopped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._record, name="machine recorder", daemon=True)

    def __enter__(self) -> "Recorder":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _record(self) -> None:
        # Without space on the disk the series ends; the supervisor reports the disk.
        with contextlib.suppress(OSError):
            self._write_rows()

    def _write_rows(self) -> None:
        new = not self.path.exists()
        with self.path.open("a", newline="") as file:
            writer = csv.writer(file)
            if new:
                writer.writerow(SERIES_COLUMNS)
            previous = None
            while True:
                row, previous = machine_row(previous)
                writer.writerow(row)
                file.flush()
                if self._stop.wait(1.0):
                    return


@dataclass(frozen=True)
class Noise:
    """Result of a spin probe: how long the host kept a busy thread from running."""

    core: int
    duration_ns: int
    gaps_ns: list[int] = field(repr=False)  # pauses of at least 5 µs

    @property
    def lost_percent(self) -> float:
        return 100 * sum(self.gaps_ns) / self.duration_ns

    @property
    def longest_ns(self) -> int:
        return max(self.gaps_ns, default=0)

    def floor_ns(self, quantile: float) -> float:
        """Delay that pauses of the host alone add to a message at this quantile.

        A message that arrives at a random time waits for the rest of the pause that it meets. The
        share of messages that wait longer than x is the sum of max(0, gap - x) over the duration.
        """
        gaps = np.sort(np.array(self.gaps_ns, dtype=float))
        allowed = (1 - quantile) * self.duration_ns
        if len(gaps) == 0 or gaps.sum() <= allowed:
            return 0.0
        low, high = 0.0, float(gaps[-1])
        for _ in range(60):
            middle = (low + high) / 2
            if np.maximum(gaps - middle, 0).sum() > allowed:
                low = middle
            else:
                high = middle
        return high


def spin_probe(core: int, seconds: float = 0.5) -> Noise:
    """Spins on one core and records every pause of at least 5 µs."""
    usual = os.sched_getaffinity(0)
    gaps = []
    clock = time.monotonic_ns
    os.sched_setaffinity(0, {core})
    try:
        last = start = clock()
        end = start + int(seconds * 1e9)
        while last < end:
            now = clock()
            if now - last >= NOISE_THRESHOLD_NS:
                gaps.append(now - last)
            last = now
    finally:
        os.sched_setaffinity(0, usual)
    return Noise(core, last - start, gaps)
