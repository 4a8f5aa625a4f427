"""Files of a study: one folder per run, with a record of the run.

FOLDER/study.toml            copy of the study file
FOLDER/environment.json      machine, versions, build results, order of the runs
FOLDER/machine.csv           load, clock offset, disk and network, once per second
FOLDER/noise.json            spin probes between the blocks
FOLDER/runs/RUN/record.json  how the run went; a run with a record is not repeated
FOLDER/runs/RUN/truth.csv    truth log of the feed
FOLDER/runs/RUN/processes.csv CPU, memory, switches and socket queues, once per second
FOLDER/runs/RUN/clock-*.csv  readings of the clocks of other hosts, once per second
FOLDER/runs/RUN/*.sqlite     capture files, one per connector and start
"""

import json
import os
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

Status = Literal["kept", "flagged", "refused", "failed"]


@dataclass
class ConnectorRecord:
    """One connector in one run."""

    connector: str
    captures: list[str] = field(default_factory=list)  # file names, one per start of the process
    exit_codes: list[int | None] = field(default_factory=list)
    received: int = 0
    clock_bracket_ns: int | None = None
    start_to_open_ns: int | None = None  # from process start to the first open connection
    restarts: list[dict] = field(default_factory=list)  # reason, from_ns, to_ns, realtime_ns
    gaps: list[dict] = field(default_factory=list)  # the connector's own reconnects
    window_cpu_ns: int | None = None  # CPU time in the measured window
    window_switches: int | None = None  # context switches in the measured window
    window_from_ns: int | None = None  # first and last reading of both counters
    window_to_ns: int | None = None
    peak_memory_kb: int = 0
    problem: str | None = None  # why this connector's data is incomplete


@dataclass
class RunRecord:
    """How one run went. `status` decides whether its data is used."""

    id: str
    kind: Literal["timed", "joined", "live"]
    status: Status
    reasons: list[str]
    attempt: int
    settings: dict[str, Any]
    block: int | None
    position: int | None
    environment: str
    started_realtime_ns: int
    started_ns: int
    ended_ns: int
    measured_from_ns: int | None  # first due time after the warm-up
    measured_to_ns: int | None
    feed_command: list[str]
    feed_summary: dict
    lateness_us: dict[str, float]  # p50, p99 and max of sent_ns - due_ns in the measured window
    steal_percent: float
    other_load_percent: float
    cores_shared: bool
    connectors: list[ConnectorRecord]
    hosts: dict[str, dict] = field(default_factory=dict)  # other machines of a live run

    @property
    def usable(self) -> bool:
        return self.status in ("kept", "flagged")


class ResultFolder:
    """The folder of one study's results."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs = path / "runs"

    def move_aside(self) -> Path | None:
        """Renames the folder, if it exists, and returns its new path."""
        if not self.path.exists():
            return None
        number = 1
        while (target := self.path.with_name(f"{self.path.name}.{number}")).exists():
            number += 1
        return self.path.rename(target)

    def run_folder(self, run_id: str) -> Path:
        return self.runs / run_id

    def fresh_run_folder(self, run_id: str) -> Path:
        """Creates an empty folder for a run. Data of an unfinished attempt moves aside."""
        folder = self.run_folder(run_id)
        if folder.exists():
            number = 1
            while (aside := folder.with_name(f"{run_id}.unfinished-{number}")).exists():
                number += 1
            folder.rename(aside)
        folder.mkdir(parents=True)
        return folder

    def record(self, run_id: str) -> RunRecord | None:
        """The record of a finished run, or None if the run has to be done."""
        try:
            data = json.loads((self.run_folder(run_id) / "record.json").read_text())
            connectors = [ConnectorRecord(**connector) for connector in data.pop("connectors")]
            return RunRecord(**data, connectors=connectors)
        except (OSError, ValueError, TypeError, KeyError):
            return None

    def records(self) -> list[RunRecord]:
        """Records of all finished runs in order of their start, without refused attempts."""
        ids = [path.parent.name for path in self.runs.glob("*/record.json")]
        found = [record for run_id in ids if (record := self.record(run_id)) is not None and record.id == run_id]
        return sorted(found, key=lambda record: record.started_realtime_ns)

    def write_record(self, record: RunRecord) -> None:
        write_json(self.run_folder(record.id) / "record.json", asdict(record))

    def keep_attempt(self, run_id: str, attempt: int) -> None:
        """Moves a refused attempt aside, so that its data is not lost."""
        target = self.runs / f"{run_id}.refused-{attempt}"
        if target.exists():
            shutil.rmtree(target)
        self.run_folder(run_id).rename(target)

    def read_json(self, name: str) -> Any:
        """Content of one JSON file of the folder, or None if it cannot be read."""
        try:
            return json.loads((self.path / name).read_text())
        except (OSError, ValueError):
            return None


def write_json(path: Path, value: Any) -> None:
    """Replaces a file at once, so that a reader never sees half of it."""
    temporary = path.with_name(path.name + ".partial")
    with temporary.open("w") as file:
        json.dump(value, file, indent=1)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
