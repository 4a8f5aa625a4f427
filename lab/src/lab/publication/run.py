"""Runs a publication study, or the rest of it, in a result folder."""

import os
import resource
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from lab import machine
from lab.process import RunError
from lab.publication import artillery, workload
from lab.publication.publishers import Publisher
from lab.publication.server import Figures, raise_file_limit
from lab.publication.study import PlannedRun, PublicationStudy, plan
from lab.records import ResultFolder, write_json
from lab.run import versions
from lab.study import StudyError

Progress = Callable[[PlannedRun, "Record"], None]
SPIN_PROBE_S = 0.5


@dataclass
class Record:
    """How one run went. A failed run has no figures."""

    id: str
    test: str
    publisher: str
    generator: str
    block: int
    status: Literal["kept", "flagged", "failed"]
    reasons: list[str]
    steal_percent: float = 0.0
    other_load_percent: float = 0.0
    duration_s: float = 0.0
    figures: Figures = field(default_factory=dict)


def available(study: PublicationStudy, known: Mapping[str, Publisher]) -> tuple[list[str], dict[str, str]]:
    """Publishers of the study that can start, and the reasons for the others."""
    problems = {}
    for name in study.publishers:
        if name not in known:
            problems[name] = f"there is no publisher of this name; known: {', '.join(sorted(known)) or 'none'}"
        elif (problem := known[name].problem()) is not None:
            problems[name] = problem
    if study.cross_check is not None and (problem := artillery.problem()) is not None:
        problems["artillery"] = problem
    return [name for name in study.publishers if name not in problems], problems


def prepare(study: PublicationStudy, results: ResultFolder, known: Mapping[str, Publisher]) -> list[PlannedRun]:
    """Writes the description of the study, or checks it against the existing one.

    # Raises
    StudyError if no publisher can start, or if the folder belongs to another study or machine.
    """
    names, problems = available(study, known)
    if not names:
        rows = "\n".join(f"  {name}: {problem}" for name, problem in problems.items())
        raise StudyError(f"no publisher of the study can start:\n{rows}")
    environment = machine.environment()
    server_cores, load_cores = choose_cores()
    description = {
        "study": study.model_dump(),
        "environment": asdict(environment),
        "environment_digest": environment.digest(),
        "publishers": {name: known[name].description.model_dump() for name in names},
        "unavailable": problems,
        "versions": versions(),
        "cores": {"publisher": server_cores, "load client": load_cores},
        "started_realtime_ns": time.time_ns(),
    }
    old = results.read_json("environment.json")
    if old is not None and "started_realtime_ns" in old:
        description["started_realtime_ns"] = old["started_realtime_ns"]
    for key, what in (("study", "the study file"), ("environment", "the machine"), ("publishers", "a publisher")):
        if old is not None and old[key] != description[key]:
            raise StudyError(
                f"{what} has changed since the first runs in {results.path}: runs of two setups are not mixed. "
                "Choose another folder with --output, or start again with --fresh"
            )
    results.runs.mkdir(parents=True, exist_ok=True)
    write_json(results.path / "environment.json", description)
    offered = {name: list(known[name].description.tests) for name in names}
    runs = plan(study, offered)
    return [run for run in runs if run.generator == "pitwire" or "artillery" not in problems]


def choose_cores() -> tuple[list[int], list[int]]:
    """Cores of the publisher and of the load client. With fewer than four, both use all."""
    cores = sorted(os.sched_getaffinity(0))
    if len(cores) < 4:
        return cores, cores
    half = len(cores) // 2
    return cores[:half], cores[half:]


def read_record(results: ResultFolder, run_id: str) -> Record | None:
    data: Any = results.read_json(f"runs/{run_id}/record.json")
    try:
        return None if data is None else Record(**data)
    except TypeError:
        return None


def run_study(
    study: PublicationStudy, results: ResultFolder, known: Mapping[str, Publisher], *, progress: Progress
) -> list[Record]:
    """Runs a study, or the rest of it. Runs that have a record are not repeated.

    # Raises
    StudyError if it cannot go on. Finished runs stay.
    """
    runs = prepare(study, results, known)
    raise_file_limit()
    found = []
    with machine.Recorder(results.path / "machine.csv"):
        for run in runs:
            record = read_record(results, run.id)
            if record is None:
                results.fresh_run_folder(run.id)
                record = execute(study, run, known[run.publisher], results)
                write_json(results.run_folder(run.id) / "record.json", asdict(record))
            progress(run, record)
            found.append(record)
    probes = results.read_json("noise.json") or []
    probe = machine.spin_probe(choose_cores()[1][-1], SPIN_PROBE_S)
    write_json(results.path / "noise.json", [*probes, asdict(probe)])
    return found


def children_cpu_ns() -> int:
    """CPU time of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return int((used.ru_utime + used.ru_stime) * 1e9)


def programs_cpu_ns() -> int:
    """CPU time of all programs since boot. Interrupts of the network do not belong to a program."""
    user, nice, system = machine.read_text("/proc/stat").split()[1:4]
    return (int(user) + int(nice) + int(system)) * 1_000_000_000 // machine.TICKS_PER_S


def execute(study: PublicationStudy, run: PlannedRun, publisher: Publisher, results: ResultFolder) -> Record:
    """One run: a fresh process of the publisher, and one load on it."""
    server_cores, load_cores = choose_cores()
    measure = workload.measure if run.generator == "pitwire" else artillery.measure
    settings = workload.Workload(**run.test.model_dump(include=set(workload.Workload.model_fields)))
    record = Record(run.id, run.test.name, run.publisher, run.generator, run.block, "kept", [])
    before, programs_before, own_before = machine.cpu_times(), programs_cpu_ns(), children_cpu_ns()
    began_s = time.monotonic()
    folder = results.run_folder(run.id)
    try:
        record.figures = measure(publisher, settings, folder, server_cores=server_cores, load_cores=load_cores)
    except RunError as error:
        record.status = "failed"
        record.reasons.append(str(error))
        return record
    finally:
        record.duration_s = round(time.monotonic() - began_s, 1)
    after, programs_ns = machine.cpu_times(), programs_cpu_ns() - programs_before
    # A worker process of a publisher is not a child of this process.
    own_ns = children_cpu_ns() - own_before + int(record.figures.get("worker_cpu_s", 0.0) * 1e9)
    total_ns = max(1, after.total_ns - before.total_ns)
    record.steal_percent = round(100 * (after.steal_ns - before.steal_ns) / total_ns, 2)
    record.other_load_percent = round(max(0.0, 100 * (programs_ns - own_ns) / total_ns), 2)
    noisy = {
        f"steal {record.steal_percent:g} %": record.steal_percent > study.steal_percent,
        f"other programs used {record.other_load_percent:g} %": record.other_load_percent > study.other_load_percent,
        "the load client was the limit": bool(record.figures.get("generator_bound")),
        "the listener kept the options of its library": record.figures.get("equal_listener") is False,
    }
    record.reasons = [reason for reason, is_noisy in noisy.items() if is_noisy]
    record.status = "flagged" if record.reasons else "kept"
    return record
