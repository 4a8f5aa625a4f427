"""The feed and the connectors as processes: start, clock handshake, output, end."""

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

CLOCK_READINGS = 5
CLOCK_TOLERANCE_NS = 1_000_000
HANDSHAKE_TIMEOUT_S = 20.0  # the slowest runtimes need seconds on a busy machine
READY_TIMEOUT_S = 20.0
END_TIMEOUT_S = 10.0

EXIT_CODES = {
    0: "done",
    2: "bad settings",
    3: "the feed closed the connection",
    4: "could not connect",
    5: "the feed violated the protocol",
    6: "could not write its capture file",
}


class RunError(Exception):
    """A run that failed. The text is the reason that the record and the report show."""


class ConnectorError(RunError):
    """A connector that cannot take part in a run."""

    def __init__(self, connector: str, text: str) -> None:
        super().__init__(text)
        self.connector = connector


def describe_exit(code: int | None) -> str:
    if code is None:
        return "did not end"
    if code < 0:
        return f"was killed by signal {signal.Signals(-code).name}"
    return f"ended with {code} ({EXIT_CODES.get(code, 'no meaning in the contract')})"


def spawn(
    command: Sequence[str],
    *,
    cores: Sequence[int],
    folder: Path,
    settings: Mapping[str, str] | None = None,
    stdin: int = subprocess.DEVNULL,
    stdout: int | IO = subprocess.PIPE,
    stderr: IO,
) -> subprocess.Popen:
    """Starts a process that runs on `cores` only.

    # Raises
    RunError if it cannot be started.
    """
    # A child inherits the cores of the thread that starts it.
    usual = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, set(cores))
        return subprocess.Popen(
            list(command),
            cwd=folder,
            env={**os.environ, **(settings or {})},
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            text=True,
            start_new_session=True,
        )
    except OSError as error:
        raise RunError(f"cannot start {command[0]}: {error.strerror}") from error
    finally:
        os.sched_setaffinity(0, usual)


def end(process: subprocess.Popen, timeout_s: float = END_TIMEOUT_S) -> int:
    """Ends a process: SIGTERM first, SIGKILL after the timeout."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return process.returncode


def run_to_end(
    name: str,
    command: Sequence[str],
    *,
    cores: Sequence[int] | None,
    folder: Path,
    settings: Mapping[str, str] | None = None,
    stderr: IO,
    timeout_s: float,
) -> tuple[int, str]:
    """Runs a process, on all cores without `cores`. Returns its exit code and its output.

    # Raises
    RunError if it cannot be started, or does not end in time. `name` stands for it in the message.
    """
    usual = sorted(os.sched_getaffinity(0))
    process = spawn(command, cores=cores or usual, folder=folder, settings=settings, stderr=stderr)
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        raise RunError(f"{name} did not end within {timeout_s:g} s") from None
    finally:
        end(process)
    return process.returncode, output


class Feed:
    """`pitwire tape serve --live` as a child process."""

    def __init__(self, command: Sequence[str], folder: Path, cores: Sequence[int]) -> None:
        self.folder = folder
        self.certificate = ""  # path of the certificate to trust, if the feed serves wss
        self.ready_file = folder / "ready.json"
        self.output = folder / "feed.json"
        self.errors = folder / "feed.log"
        self.ready_file.unlink(missing_ok=True)
        self.command = [*command, "--ready-file", str(self.ready_file), "--json"]
        with self.output.open("w") as out, self.errors.open("w") as err:
            self.process = spawn(self.command, cores=cores, folder=folder, stdout=out, stderr=err)

    def url(self, path: str = "/") -> str:
        """Waits until the feed listens.

        # Raises
        RunError if it ends, or does not listen within the timeout.
        """
        deadline = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, ValueError, KeyError):
                ready = json.loads(self.ready_file.read_text())
                self.certificate = ready.get("ca") or ""
                return f"{'wss' if self.certificate else 'ws'}://{ready['http']}{path}"
            if self.process.poll() is not None:
                text = self.errors.read_text().strip() or "no message"
                raise RunError(f"the feed {describe_exit(self.process.returncode)}: {text}")
            time.sleep(0.01)
        raise RunError(f"the feed did not listen within {READY_TIMEOUT_S:g} s")

    def is_running(self) -> bool:
        return self.process.poll() is None

    def pids(self) -> dict[str, int]:
        return {"feed": self.process.pid}

    def end(self) -> dict:
        """Ends the feed and returns its summary, or {} if it printed none."""
        end(self.process)
        try:
            return json.loads(self.output.read_text().strip().splitlines()[-1])
        except (OSError, IndexError, ValueError):
            return {}


@dataclass(frozen=True)
class RemoteFeed:
    """A server that is not ours, in the place of a feed."""

    address: str
    folder: Path
    certificate: str  # path of the certificates to trust, or "" for those of the system

    def url(self) -> str:
        return self.address

    def is_running(self) -> bool:
        return True

    def pids(self) -> dict[str, int]:
        return {}

    def end(self) -> dict:
        return {}


@dataclass
class Output:
    """Lines that a connector has printed."""

    opened_ns: list[int] = field(default_factory=list)
    gaps: list[tuple[int, str]] = field(default_factory=list)
    received: int = 0
    captured: int = 0
    done_code: int | None = None
    unknown: list[str] = field(default_factory=list)


class ConnectorProcess:
    """One connector as a child process, by contracts/lab-connector.md."""

    def __init__(
        self,
        command: Sequence[str],
        folder: Path,
        settings: Mapping[str, str],
        *,
        cores: Sequence[int],
        log: Path,
        to_local: Callable[[int], int] = int,
        clock_error_ns: int = 0,
    ) -> None:
        """`to_local` converts a time of another host's clock, with an error below
        `clock_error_ns`."""
        self.name = settings["LAB_CONNECTOR"]
        self.settings = dict(settings)
        self.output = Output()
        self.log = log
        self.to_local = to_local
        self.tolerance_ns = CLOCK_TOLERANCE_NS + clock_error_ns
        self.started_ns = time.monotonic_ns()
        self.went_ns: int | None = None
        self.clock_bracket_ns: int | None = None
        self._clocks: queue.Queue[int | None] = queue.Queue()
        with log.open("a") as errors:
            self.process = spawn(
                command, cores=cores, folder=folder, settings=settings, stdin=subprocess.PIPE, stderr=errors
            )
        self._reader = threading.Thread(target=self._read, name=f"output of {self.name}", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self.process.stdout:
            words = line.split()
            try:
                self._understand(words)
            except (ValueError, IndexError):
                if len(self.output.unknown) < 20:
                    self.output.unknown.append(line.rstrip())
        self._clocks.put(None)

    def _understand(self, words: list[str]) -> None:
        match words[0]:
            case "clock":
                self._clocks.put(self.to_local(int(words[1])))
            case "open":
                self.output.opened_ns.append(self.to_local(int(words[2])))
            case "alive":
                self.output.received, self.output.captured = int(words[1]), int(words[2])
            case "gap":
                self.output.gaps.append((int(words[1]), " ".join(words[2:])))
            case "done":
                self.output.done_code, self.output.received = int(words[1]), int(words[2])
            case _:
                raise ValueError(words[0])

    def _send(self, line: str) -> None:
        try:
            self.process.stdin.write(line + "\n")
            self.process.stdin.flush()
        except OSError:
            self._ended_early()

    def _ended_early(self) -> None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(2)
        raise ConnectorError(
            self.name, f"{self.name} {describe_exit(self.process.poll())} before it connected: {self.last_error()}"
        )

    def last_error(self) -> str:
        """Last line that the connector wrote to standard error."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else "no message"

    def check_clock(self) -> None:
        """Compares the connector's clock with ours.

        # Raises
        RunError if the clock counts from another origin, or if the connector does not answer.
        """
        shortest: tuple[int, int, int] | None = None
        for _ in range(CLOCK_READINGS):
            before = time.monotonic_ns()
            self._send("clock")
            try:
                value = self._clocks.get(timeout=HANDSHAKE_TIMEOUT_S)
            except queue.Empty:
                text = f"{self.name} did not answer `clock` within {HANDSHAKE_TIMEOUT_S:g} s"
                raise ConnectorError(self.name, text) from None
            after = time.monotonic_ns()
            if value is None:
                self._ended_early()
            if shortest is None or after - before < shortest[2] - shortest[0]:
                shortest = (before, value, after)
        before, value, after = shortest
        self.clock_bracket_ns = after - before
        if not before - self.tolerance_ns <= value <= after + self.tolerance_ns:
            away_ms = (value - (before + after) // 2) / 1e6
            raise ConnectorError(
                self.name,
                f"the clock of {self.name} is {away_ms:.1f} ms away from CLOCK_MONOTONIC: "
                "its runtime counts from another origin",
            )

    def go(self) -> None:
        """Lets the connector connect."""
        self.went_ns = time.monotonic_ns()
        self._send("go")

    def ended_within(self, seconds: float) -> int | None:
        """Waits, and returns the exit code, or None if the process still runs."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def end(self) -> int:
        """Ends the process and waits for the rest of its output."""
        code = end(self.process)
        self._reader.join(5)
        for pipe in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                pipe.close()
        return code
