"""Other hosts of a live run: connectors over SSH, and the offset of the host's clock.

The host has a clone of this repository with built connectors. Its CLOCK_MONOTONIC counts from its
own start, so a small program there answers once per second, between two readings of our clock. A
line through the shortest of these brackets converts a time of the host into ours. Half a bracket
is the bound of its error, because an answer may spend all of it on one way.
"""

import contextlib
import csv
import shlex
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from lab.connectors import REPOSITORY, Connector
from lab.process import RunError
from lab.study import Host

LOCAL = "local"
SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=5")
COMMAND_TIMEOUT_S = 30.0
FETCH_TIMEOUT_S = 3_600.0
FIRST_READINGS = 8
# The line goes through the shortest tenth of the brackets. The others waited in a queue.
KEPT_SHARE = 0.1
COLUMNS = ("before_ns", "host_monotonic_ns", "host_realtime_ns", "after_ns")
CLOCK_PROGRAM = "import sys, time\nfor line in sys.stdin:\n    print(time.monotonic_ns(), time.time_ns(), flush=True)\n"


@dataclass(frozen=True)
class ClockLine:
    """Our time = host time - offset - drift * (host time - origin)."""

    origin_ns: int  # host time
    offset_ns: int  # host time minus our time, at the origin
    drift: float
    error_ns: int  # bound of the error
    readings: int

    def to_local(self, host_ns: int) -> int:
        return host_ns - self.offset_ns - round(self.drift * (host_ns - self.origin_ns))

    def sql(self, column: str) -> str:
        """The same conversion in SQL."""
        drifted = f"CAST(round({self.drift!r} * ({column} - {self.origin_ns})) AS BIGINT)"
        return f"({column} - {self.offset_ns} - {drifted})"


def fit(readings: Sequence[tuple[int, int, int]]) -> ClockLine:
    """The line through the shortest brackets (our time before, host time, our time after).

    # Raises
    ValueError if there is no reading.
    """
    if not readings:
        raise ValueError("there is no reading of the clock")
    ordered = sorted(readings, key=lambda reading: reading[2] - reading[0])
    kept = sorted(ordered[: max(2, int(len(ordered) * KEPT_SHARE))], key=lambda reading: reading[1])
    origin = kept[0][1]
    first = kept[0][1] - (kept[0][0] + kept[0][2]) // 2
    x = np.array([host - origin for _, host, _ in kept], float)
    y = np.array([host - (before + after) // 2 - first for before, host, after in kept], float)
    half = max(after - before for before, _, after in kept) / 2
    drift = 0.0
    # Over a shorter time the error of two readings would look like drift.
    if len(kept) > 2 and np.ptp(x) > 1e4 * half:
        drift = float(np.polyfit(x, y, 1)[0])
    offset = float(np.mean(y - drift * x))
    rest = np.abs(y - offset - drift * x).max()
    return ClockLine(origin, first + round(offset), drift, round(half + rest), len(readings))


class RemoteHost:
    """One host during one run."""

    def __init__(self, host: Host, folder: Path, token: str) -> None:
        self.host = host
        self.folder = folder  # of the run, on this machine
        self.place = f"/tmp/pitwire-lab-{token}"  # of the capture files, on the host
        self.readings: list[tuple[int, int, int]] = []
        self.about = ""
        self._clock: subprocess.Popen | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read_clock, name=f"clock of {host.name}", daemon=True)
        self._log = folder / f"clock-{host.name}.csv"

    def ssh(self, command: str) -> list[str]:
        return [*SSH, self.host.ssh, command]

    def run(self, command: str, text: str = "") -> str:
        """Runs a shell command on the host, with `text` as its input, and returns its output.

        # Raises
        RunError if it fails.
        """
        try:
            done = subprocess.run(
                self.ssh(command), capture_output=True, text=True, input=text, timeout=COMMAND_TIMEOUT_S
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RunError(f"host {self.host.name}: cannot run a command over ssh: {error}") from error
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["no message"])[-1][:300]
            raise RunError(f"host {self.host.name}: a command over ssh ended with {done.returncode}: {last}")
        return done.stdout

    def open(self, certificate: str) -> None:
        """Makes the folder of the capture files and reads the clock for the first time.

        `certificate` is the path of a local file, or "".

        # Raises
        RunError if the host cannot be reached, or if it lacks the repository or Python.
        """
        root = shlex.quote(self.host.folder)
        self.about = self.run(
            f"mkdir -m 700 {self.place} && cd {root} && test -f contracts/lab-capture.sql && uname -srm && nproc"
            " && (grep -m1 'model name' /proc/cpuinfo || true) && (git rev-parse HEAD || true)"
        ).strip()
        if certificate:
            try:
                text = Path(certificate).read_text()
            except (OSError, UnicodeDecodeError) as error:
                raise RunError(f"cannot read {certificate}: {error}") from error
            self.run(f"cat > {self.place}/ca.pem", text)
        try:
            self._clock = subprocess.Popen(
                self.ssh(f"exec python3 -u -c {shlex.quote(CLOCK_PROGRAM)}"),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                bufsize=1,
            )
        except OSError as error:
            raise RunError(f"host {self.host.name}: cannot start ssh: {error.strerror}") from error
        with self._log.open("w", newline="") as file:
            csv.writer(file).writerow(COLUMNS)
        for _ in range(FIRST_READINGS):
            if not self._reading():
                raise RunError(f"host {self.host.name}: its clock cannot be read: python3 is needed there")
        self._thread.start()

    def _reading(self) -> bool:
        """One reading of the host's clock. False if the program there has ended."""
        try:
            before = time.monotonic_ns()
            self._clock.stdin.write("\n")
            self._clock.stdin.flush()
            monotonic, realtime = map(int, self._clock.stdout.readline().split())
            after = time.monotonic_ns()
        except (OSError, ValueError):
            return False
        self.readings.append((before, monotonic, after))
        with contextlib.suppress(OSError), self._log.open("a", newline="") as file:
            csv.writer(file).writerow((before, monotonic, realtime, after))
        return True

    def _read_clock(self) -> None:
        while not self._stop.wait(1.0):
            if not self._reading():
                return

    def clock(self) -> ClockLine:
        return fit(self.readings)

    def command(self, connector: Connector, settings: dict[str, str], seconds: float) -> list[str]:
        """The command that starts a connector on the host, for at most this long.

        An end of the ssh connection does not end the connector, so the host needs its own bound.
        """
        folder = f"{self.host.folder.rstrip('/')}/{connector.folder.relative_to(REPOSITORY)}"
        first, *rest = connector.program
        program = [f"{folder}/{first}" if "/" in first and not first.startswith("/") else first, *rest]
        own = settings | {
            "LAB_CAPTURE": f"{self.place}/{Path(settings['LAB_CAPTURE']).name}",
            "LAB_SCHEMA": f"{self.host.folder.rstrip('/')}/contracts/lab-capture.sql",
            "LAB_EXIT_FILE": f"{self.place}/exit",
            "LAB_CA": f"{self.place}/ca.pem" if settings["LAB_CA"] else "",
        }
        words = ["timeout", "-k", "10", str(round(seconds)), "env", *(f"{k}={v}" for k, v in own.items()), *program]
        return self.ssh(f"cd {shlex.quote(folder)} && exec {shlex.join(words)}")

    def stop_connectors(self) -> None:
        """Makes the exit file that the connectors look for."""
        with contextlib.suppress(RunError):
            self.run(f"touch {self.place}/exit")

    def fetch(self, name: str) -> None:
        """Copies a capture file of the host into the folder of the run.

        # Raises
        RunError if it cannot be read. The file stays on the host then.
        """
        target = self.folder / name
        command = self.ssh(f"cat {shlex.quote(f'{self.place}/{name}')}")
        try:
            with target.open("wb") as file:
                code = subprocess.run(
                    command, stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.DEVNULL, timeout=FETCH_TIMEOUT_S
                ).returncode
        except (OSError, subprocess.TimeoutExpired) as error:
            raise RunError(f"cannot copy {name} from host {self.host.name}: {error}") from error
        if code != 0:
            target.unlink()
            raise RunError(f"cannot copy {name} from host {self.host.name}: look into {self.place} there")

    def close(self, *, remove: bool) -> None:
        """Ends the clock, and removes the folder on the host if its files were copied."""
        self._stop.set()
        if self._clock is not None:
            with contextlib.suppress(OSError):
                self._clock.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._clock.wait(5)
            self._clock.kill()
            self._clock.wait()
            if self._thread.is_alive():
                self._thread.join(5)
            self._clock.stdout.close()
        if remove:
            with contextlib.suppress(RunError):
                self.run(f"rm -rf {self.place}")

    def record(self) -> dict:
        """What the record of a run has about this host."""
        clock = asdict(self.clock()) if self.readings else None
        return {"ssh": self.host.ssh, "folder": self.host.folder, "about": self.about, "clock": clock}


def host_of(name: str) -> str:
    """Host in the name CONNECTOR@HOST, or `local`."""
    return name.partition("@")[2] or LOCAL


def connector_of(name: str) -> str:
    """Connector in the name CONNECTOR@HOST."""
    return name.partition("@")[0]
