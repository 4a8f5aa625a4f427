"""Checks a publisher against contracts/lab-publisher.md, with few connections."""

import os
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from lab.process import RunError, describe_exit, end, spawn
from lab.publication.publishers import Publisher
from lab.publication.server import START_TIMEOUT_S, Figures, Server
from lab.publication.workload import RunningPublisher, Workload, defects, measure

WORKLOADS = {
    "echo": Workload(kind="echo", connections=3, seconds=1, rate=100, bytes=4),
    # One heartbeat of each connection.
    "heartbeat": Workload(kind="heartbeat", connections=3, seconds=1, messages=10, bytes=10_000),
    "fan-out": Workload(kind="fan-out", connections=3, seconds=1, rate=50, bytes=190),
    "queue": Workload(kind="queue", connections=3, seconds=1, rate=50, bytes=190),
}
STOP_TIMEOUT_S = 10.0
# A machine with other load may delay a message; the checks are about its content.
TOLERATED = ("late",)


@dataclass(frozen=True)
class Check:
    name: str
    problem: str | None = None


def check(publisher: Publisher, only: str | None = None) -> Iterator[Check]:
    """Runs every check that applies to the publisher, or one of them."""
    checks: dict[str, Callable[[Publisher, Path], str | None]] = {
        kind: lambda publisher, folder, kind=kind: traffic(publisher, WORKLOADS[kind], folder)
        for kind in publisher.description.tests
    }
    if "queue" in publisher.description.tests:
        checks["token"] = token
    checks["settings"] = settings
    checks["stop"] = stop
    for name, run in checks.items():
        if only not in (None, name):
            continue
        with tempfile.TemporaryDirectory(prefix="pitwire-publisher-") as folder:
            try:
                yield Check(name, run(publisher, Path(folder)))
            except RunError as error:
                yield Check(name, str(error))


def traffic(publisher: Publisher, workload: Workload, folder: Path) -> str | None:
    """All messages arrive once, in order and with the right content."""
    figures = measure(publisher, workload, folder)
    found = [text for text in defects(figures) if not text.endswith(TOLERATED)]
    return ", ".join(found) or missing(figures, workload)


def missing(figures: Figures, workload: Workload) -> str | None:
    """Whether the right kind of messages came at all."""
    if figures["deliveries"] == 0:
        return "no message arrived"
    if workload.kind not in ("fan-out", "queue"):
        return None
    mean = figures["bytes"] / figures["deliveries"]
    if abs(mean - workload.bytes) > 2:
        return f"messages have {mean:.0f} bytes: expected {workload.bytes}"
    if figures["unnumbered"]:
        return f"{figures['unnumbered']:,} messages without a number"
    # The load client does not time the first message of a connection.
    if figures["untimed"] > workload.connections:
        return f"{figures['untimed']:,} messages without a due time"
    return None


def token(publisher: Publisher, folder: Path) -> str | None:
    """A subscriber with a wrong token is refused with 401."""
    workload = WORKLOADS["queue"]
    with RunningPublisher(publisher, workload, folder) as server:
        try:
            server.load(workload.load_arguments(), query="?token=wrong")
        except RunError as error:
            return None if "401" in str(error) else f"expected status 401: {error}"
    return "a subscriber with a wrong token was accepted"


def settings(publisher: Publisher, folder: Path) -> str | None:
    """An unknown test ends the publisher with code 2."""
    wanted = {**WORKLOADS["echo"].settings(None), "LAB_TEST": "no-such-test"}
    wanted |= {"LAB_HOST": "127.0.0.1", "LAB_PORT": "0", "LAB_READY_FILE": str(folder / "ready.json")}
    with (folder / "publisher.log").open("w") as errors:
        process = spawn(publisher.command(), cores=all_cores(), folder=publisher.folder, settings=wanted, stderr=errors)
    deadline = time.monotonic() + START_TIMEOUT_S
    try:
        while (code := process.poll()) is None:
            if (folder / "ready.json").exists() or time.monotonic() > deadline:
                return "serves an unknown LAB_TEST: expected exit code 2"
            time.sleep(0.01)
    finally:
        end(process)
    return None if code == 2 else f"{describe_exit(code)} for an unknown LAB_TEST: expected exit code 2"


def stop(publisher: Publisher, folder: Path) -> str | None:
    """SIGTERM ends the publisher within 10 s while clients are connected."""
    with Server(publisher, WORKLOADS["echo"].settings(None), folder) as server:
        host, port = server.address.rsplit(":", 1)
        with socket.create_connection((host, int(port))):
            server.process.terminate()
            try:
                server.process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                server.process.kill()
                return f"did not end within {STOP_TIMEOUT_S:g} s after SIGTERM"
    return None


def all_cores() -> list[int]:
    return sorted(os.sched_getaffinity(0))
