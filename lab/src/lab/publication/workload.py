"""The four tests of a publisher: its settings and the load on it."""

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from lab.process import RunError
from lab.publication.publishers import Kind, Publisher
from lab.publication.server import Figures, Queue, Server

TOKEN = "lab-token"
DEFECTS = ("failed_connections", "ended_early", "lost", "late", "conflated", "duplicated", "malformed")


class Workload(BaseModel):
    """What one test of a study asks of a publisher."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kind: Kind
    connections: int
    seconds: float
    rate: int = 100  # messages per second; with echo: from all clients together
    messages: int = 10  # answers to a heartbeat
    bytes: int = 190  # size of a message
    warm_up_s: float = 0  # the same load before the measurement, for runtimes that compile while they run
    find_limit: bool = False  # `connections` is the first step

    def settings(self, queue: Queue | None) -> dict[str, str]:
        """Environment of the publisher."""
        return {
            "LAB_TEST": self.kind,
            "LAB_MESSAGES": str(self.messages),
            "LAB_BYTES": str(self.bytes),
            "LAB_RATE": str(self.rate),
            "LAB_TOKEN": TOKEN,
            "LAB_QUEUE": queue.url if queue else "",
            "LAB_SUBJECT": Queue.SUBJECT,
        }

    def load_arguments(self, seconds: float | None = None) -> list[str]:
        found = ["--connections", str(self.connections), "--seconds", f"{seconds or self.seconds:g}"]
        if self.kind == "echo":
            found += ["--echo", str(self.bytes), "--arrivals", f"{self.rate}/s"]
        if self.kind == "heartbeat":
            found += ["--heartbeat", "1s", "--expect", f"{self.messages}x{self.bytes}"]
        return found + (["--find-limit"] if self.find_limit else [])

    @property
    def query(self) -> str:
        return f"?token={TOKEN}" if self.kind == "queue" else ""


class RunningPublisher:
    """A publisher with everything that a workload needs, until the block ends."""

    def __init__(
        self, publisher: Publisher, workload: Workload, folder: Path, *, cores: Sequence[int] | None = None
    ) -> None:
        self.publisher, self.workload, self.folder, self.cores = publisher, workload, folder, cores

    def __enter__(self) -> Server:
        with ExitStack() as stack:
            queue = None
            if self.workload.kind == "queue":
                wanted = Queue(self.folder, rate=self.workload.rate, size_bytes=self.workload.bytes)
                queue = stack.enter_context(wanted)
            server = Server(self.publisher, self.workload.settings(queue), self.folder, cores=self.cores)
            stack.enter_context(server)
            self._stack = stack.pop_all()
        return server

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def defects(figures: Mapping[str, int]) -> list[str]:
    """Returns the counted errors of the load client as text, such as "3 lost"."""
    return [f"{figures[name]:,} {name.replace('_', ' ')}" for name in DEFECTS if figures.get(name)]


def measure(
    publisher: Publisher,
    workload: Workload,
    folder: Path,
    *,
    server_cores: Sequence[int] | None = None,
    load_cores: Sequence[int] | None = None,
) -> Figures:
    """Starts the publisher, loads it once, and ends it.

    # Raises
    RunError if the publisher or the load client fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with RunningPublisher(publisher, workload, folder, cores=server_cores) as server:
        if workload.warm_up_s > 0 and not workload.find_limit:
            server.load(workload.load_arguments(workload.warm_up_s), query=workload.query, cores=load_cores)
        try:
            return server.load(workload.load_arguments(), query=workload.query, cores=load_cores)
        except RunError as error:
            if workload.find_limit and "did not carry the smallest load" in str(error):
                return {"limit": 0, "limited_by": str(error).rpartition(": ")[2]}
            raise
