"""Stream selection: tries candidate streams of a server, one after the other, and ranks them.

The study of 2020 chose the combination with the most data, and among similar ones the one with the
fastest updates. This does the same with one connector.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field

from lab import capture
from lab.connectors import CAPTURE_SCHEMA, Connector
from lab.machine import choose_pins
from lab.process import ConnectorProcess, RunError
from lab.study import Name, Table, read_study

# Streams within this share of the busiest one count as similar.
SIMILAR = 0.1


class Candidate(Table):
    """One combination of streams."""

    name: Name
    url: Annotated[str, Field(pattern=r"^wss?://[^\s]+$")]
    subscribe: str = ""
    ca: str | None = None  # relative to the file
    update_ms: Annotated[int, Field(ge=0)] = 0  # interval of the updates that the server names; 0: real time


class Candidates(Table):
    candidate: Annotated[list[Candidate], Field(min_length=1)]


@dataclass(frozen=True)
class Trial:
    """What one candidate brought."""

    candidate: Candidate
    messages: int
    bytes: int
    seconds: float
    problem: str | None = None

    @property
    def bytes_per_second(self) -> float:
        return self.bytes / self.seconds if self.seconds > 0 else 0.0

    @property
    def per_second(self) -> float:
        return self.messages / self.seconds if self.seconds > 0 else 0.0


def load(path: Path) -> list[Candidate]:
    """Reads a file of candidates.

    # Raises
    StudyError if the file cannot be read, or has an unknown key or a bad value.
    """
    return read_study(Candidates, path, str(path)).candidate


def attempt(candidate: Candidate, base: Path, connector: Connector, seconds: float) -> Trial:
    """Receives one candidate for some seconds."""
    with tempfile.TemporaryDirectory(prefix="lab-streams-") as name:
        folder = Path(name)
        file = folder / "capture.sqlite"
        settings = {
            "LAB_URL": candidate.url,
            "LAB_CA": "" if candidate.ca is None else str((base / candidate.ca).resolve()),
            "LAB_SUBSCRIBE": candidate.subscribe,
            "LAB_CAPTURE": str(file),
            "LAB_SCHEMA": str(CAPTURE_SCHEMA),
            "LAB_EXIT_FILE": str(folder / "exit"),
            "LAB_RUN": "streams",
            "LAB_CONNECTOR": connector.name,
            "LAB_EXCHANGE": candidate.name,
            "LAB_ENVELOPE": "none",
            "LAB_PAYLOAD": "none",
            "LAB_RECONNECT": "0",
        }
        log = folder / "log"
        cores = choose_pins().connectors
        process: ConnectorProcess | None = None
        try:
            process = ConnectorProcess(connector.command(), connector.folder, settings, cores=cores, log=log)
            process.check_clock()
            process.go()
            code = process.ended_within(seconds)
        except RunError as error:
            return Trial(candidate, 0, 0, 0.0, str(error))
        finally:
            if process is not None:
                process.end()
        if code not in (None, 0):
            return Trial(candidate, 0, 0, 0.0, f"it ended with {code}: {process.last_error()}")
        messages, size, first, last = capture.volume(file)
        return Trial(candidate, messages, size, (last - first) / 1e9 if messages > 1 else seconds)


def ranked(trials: list[Trial]) -> list[Trial]:
    """The busiest first; at a similar amount of data, the one with the fastest updates."""
    most = max((t.bytes_per_second for t in trials), default=0.0)

    def order(trial: Trial) -> tuple:
        is_similar = trial.problem is None and trial.bytes_per_second >= (1 - SIMILAR) * most > 0
        return (not is_similar, trial.candidate.update_ms if is_similar else 0, -trial.bytes_per_second)

    return sorted(trials, key=order)


def select(
    path: Path, connector: Connector, seconds: float, report: Callable[[str], None] = lambda _: None
) -> list[Trial]:
    """Tries every candidate of a file, and ranks them."""
    trials = []
    for candidate in load(path):
        report(candidate.name)
        trials.append(attempt(candidate, path.parent, connector, seconds))
    return ranked(trials)
