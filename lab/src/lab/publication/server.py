"""A publisher as a child process, and the load on it."""

import contextlib
import ctypes
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from lab import machine
from lab.process import RunError, describe_exit, end, run_to_end, spawn
from lab.publication.publishers import Publisher

START_TIMEOUT_S = 60.0  # the slowest runtimes need seconds on a busy machine
# The load client waits for late messages, and a search for the limit takes many steps.
LOAD_TIMEOUT_S = 900.0
SAMPLE_PERIOD_S = 0.25
BACKLOG = 4096
CONGESTION_CONTROL = b"cubic"
PIDFD_GETFD = 438

Figures = dict[str, Any]


def process_tree(pid: int) -> list[int]:
    """A process and its descendants."""
    found = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*"):
        for child in machine.read_text(task / "children").split():
            found += process_tree(int(child))
    return found


def resident_bytes(pid: int) -> int:
    statm = machine.read_text(f"/proc/{pid}/statm").split()
    return int(statm[1]) * os.sysconf("SC_PAGE_SIZE") if len(statm) > 1 else 0


def set_listener_options(pid: int) -> int:
    """Gives the listening sockets of a process the same options for every publisher.

    Not every library can set its congestion control and its listen backlog. Connections inherit
    both from the listening socket. Returns the number of sockets that were changed.
    """
    changed = 0
    system = ctypes.CDLL(None, use_errno=True)
    with contextlib.suppress(OSError):
        process = os.pidfd_open(pid)
        try:
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                with contextlib.suppress(OSError):
                    if str(entry.readlink()).startswith("socket:"):
                        descriptor = system.syscall(PIDFD_GETFD, process, int(entry.name), 0)
                        changed += descriptor >= 0 and set_options(descriptor)
        finally:
            os.close(process)
    return changed


def set_options(descriptor: int) -> bool:
    """Sets the options if the descriptor is a listening TCP socket. Closes it."""
    with socket.socket(fileno=descriptor) as listener:
        if listener.family not in (socket.AF_INET, socket.AF_INET6):
            return False
        if not listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
            return False
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, CONGESTION_CONTROL)
        listener.listen(BACKLOG)
        return True


def raise_file_limit() -> None:
    """Raises the soft limit of open files to the hard one. Child processes inherit it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


class Server:
    """Runs one publisher until the block ends."""

    def __init__(
        self, publisher: Publisher, settings: Mapping[str, str], folder: Path, *, cores: Sequence[int] | None = None
    ) -> None:
        self.publisher = publisher
        self.ready_file = folder / "ready.json"
        self.errors = folder / "publisher.log"
        self.settings = {
            "LAB_HOST": "127.0.0.1",
            "LAB_PORT": "0",
            "LAB_READY_FILE": str(self.ready_file),
            "PITWIRE_BIN": str(pitwire_binary()),
            **settings,
        }
        self.cores = cores or sorted(os.sched_getaffinity(0))
        self.memory_peak_bytes = 0
        self.memory_idle_bytes = 0
        self._stop = threading.Event()

    def __enter__(self) -> "Server":
        self.ready_file.unlink(missing_ok=True)
        with self.errors.open("w") as errors:
            self.process = spawn(
                self.publisher.command(),
                cores=self.cores,
                folder=self.publisher.folder,
                settings=self.settings,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        try:
            self.address = self._wait_until_ready()
        except BaseException:
            self._end()
            raise
        self.has_equal_listener = set_listener_options(self.process.pid) > 0
        self.memory_idle_bytes = self.memory_bytes()
        self._sampler = threading.Thread(target=self._sample, name="memory sampler", daemon=True)
        self._sampler.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._sampler.join()
        self._end()

    def _wait_until_ready(self) -> str:
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError, ValueError, KeyError):
                return json.loads(self.ready_file.read_text())["http"]
            if self.process.poll() is not None:
                raise RunError(
                    f"{self.publisher.name} {describe_exit(self.process.returncode)} before it was ready: "
                    f"{self.last_error()}"
                )
            time.sleep(0.01)
        raise RunError(f"{self.publisher.name} was not ready within {START_TIMEOUT_S:g} s: {self.last_error()}")

    def _end(self) -> None:
        end(self.process)
        # A worker may outlive its parent process for a moment.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def _sample(self) -> None:
        while not self._stop.wait(SAMPLE_PERIOD_S):
            self.memory_peak_bytes = max(self.memory_peak_bytes, self.memory_bytes())

    def last_error(self) -> str:
        """Last line that the publisher wrote to standard error."""
        lines = self.errors.read_text(errors="replace").strip().splitlines()
        return lines[-1][:300] if lines else "no message"

    def memory_bytes(self) -> int:
        return sum(resident_bytes(pid) for pid in process_tree(self.process.pid))

    def cpu_ns(self) -> int:
        """User and system CPU time of the publisher and its workers."""
        return sum(machine.process_cpu_ns(pid) for pid in process_tree(self.process.pid))

    def worker_cpu_s(self) -> float:
        """CPU time of the processes that the publisher has started."""
        return (self.cpu_ns() - machine.process_cpu_ns(self.process.pid)) / 1e9

    def load(self, arguments: Sequence[str], *, query: str = "", cores: Sequence[int] | None = None) -> Figures:
        """Runs `pitwire load` and returns its figures with those of the publisher.

        # Raises
        RunError if the load client fails or the publisher has ended.
        """
        cpu_before, began = self.cpu_ns(), time.monotonic()
        command = [str(pitwire_binary()), "load", f"ws://{self.address}/{query}", *arguments, "--json"]
        with tempfile.TemporaryFile("w+") as errors:
            code, output = run_to_end(
                "pitwire load",
                command,
                cores=cores,
                folder=self.publisher.folder,
                stderr=errors,
                timeout_s=LOAD_TIMEOUT_S,
            )
            errors.seek(0)
            lines = errors.read().strip().splitlines()
        seconds = time.monotonic() - began
        if self.process.poll() is not None:
            raise RunError(f"{self.publisher.name} {describe_exit(self.process.returncode)}: {self.last_error()}")
        if code != 0:
            raise RunError(f"pitwire load ended with {code}: {(lines or ['no message'])[-1][:300]}")
        cpu_ns = self.cpu_ns() - cpu_before
        figures = json.loads(output)
        return figures | {
            "wall_s": round(seconds, 3),
            "server_cpu_s": cpu_ns / 1e9,
            "worker_cpu_s": self.worker_cpu_s(),
            "cpu_us_per_delivery": cpu_ns / 1e3 / figures["deliveries"] if figures["deliveries"] else None,
            "memory_mib": max(self.memory_peak_bytes, self.memory_bytes()) / 2**20,
            "memory_idle_mib": self.memory_idle_bytes / 2**20,
            "equal_listener": self.has_equal_listener,
        }


def pitwire_binary() -> Path:
    """The program that measures, from PITWIRE_BIN or the release build.

    # Raises
    RunError if there is none.
    """
    from lab.supervisor import StudyStopped
    from lab.supervisor import pitwire_binary as find

    try:
        return find().resolve()
    except StudyStopped as error:
        raise RunError(str(error)) from error


class Queue:
    """A NATS server and a program that fills one subject of it, until the block ends."""

    SUBJECT = "market"

    def __init__(self, folder: Path, *, rate: int, size_bytes: int) -> None:
        self.folder, self.rate, self.size_bytes = folder, rate, size_bytes

    def __enter__(self) -> "Queue":
        self._stack = contextlib.ExitStack()
        try:
            ports = self.folder / "queue"
            ports.mkdir(exist_ok=True)
            program = Path(sys.executable).parent / "nats-server"
            arguments = ["-a", "127.0.0.1", "-p", "-1", "--ports_file_dir", str(ports)]
            server = self._start([str(program), *arguments], "nats-server")
            self.url = self._wait(server, "nats-server", lambda: read_url(ports))
            command = [sys.executable, "-m", "lab.publication.feeder", self.url, self.SUBJECT]
            feeder = self._start([*command, str(self.rate), str(self.size_bytes)], "feeder")
            # A publisher that starts faster than the feeder would be measured without messages.
            self._wait(feeder, "feeder", lambda: (self.folder / "feeder.out").read_text())
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def _start(self, command: list[str], name: str) -> subprocess.Popen:
        """Starts a program of the queue. Its output goes to NAME.out and NAME.log."""
        with (self.folder / f"{name}.out").open("w") as output, (self.folder / f"{name}.log").open("w") as errors:
            process = spawn(
                command, cores=sorted(os.sched_getaffinity(0)), folder=self.folder, stdout=output, stderr=errors
            )
        self._stack.callback(end, process)
        return process

    def _wait(self, process: subprocess.Popen, name: str, read: Callable[[], str]) -> str:
        """Waits until `read` returns a text, and returns it."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline:
            if found := read():
                return found
            if process.poll() is not None:
                raise RunError(f"{name} {describe_exit(process.returncode)}; see {self.folder}/{name}.log")
            time.sleep(0.01)
        raise RunError(f"{name} was not ready within {START_TIMEOUT_S:g} s; see {self.folder}/{name}.log")


def read_url(ports: Path) -> str:
    """URL in the file that nats-server writes when it is ready, or ""."""
    for path in ports.glob("*.ports"):
        with contextlib.suppress(OSError, ValueError, LookupError):
            return json.loads(path.read_text())["nats"][0]
    return ""
