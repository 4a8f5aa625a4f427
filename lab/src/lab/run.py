"""Starts or resumes a study in a result folder."""

import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict
from importlib.metadata import distributions
from pathlib import Path

from lab import machine
from lab.connectors import REFERENCE_NAME, REPOSITORY, Connector
from lab.records import ResultFolder, write_json
from lab.study import PlannedRun, Study, plan
from lab.supervisor import Progress, StudyStopped, Supervisor


def available(study: Study, connectors: Mapping[str, Connector]) -> tuple[list[str], dict[str, str]]:
    """Connectors of the study that can start, and the reasons for the others."""
    problems = {}
    for name in study.connectors:
        if name not in connectors:
            known = ", ".join(sorted(connectors)) or "none"
            problems[name] = f"there is no connector of this name; known: {known}"
        elif (problem := connectors[name].problem()) is not None:
            problems[name] = problem
    return [name for name in study.connectors if name not in problems], problems


def planned(study: Study, connectors: Mapping[str, Connector]) -> tuple[list[PlannedRun], dict[str, str]]:
    """The runs of a study on this machine, and why some of its programs are left out."""
    names, problems = available(study, connectors)
    reference = connectors.get(REFERENCE_NAME)
    if reference is not None and any(timed.reference for timed in study.timed):
        problem = reference.problem()
        if problem is not None:
            problems[REFERENCE_NAME] = problem
            reference = None
    programs = [connectors[name] for name in names] + ([reference] if reference else [])
    without_tls = [program.name for program in programs if not program.description.tls]
    secure = [timed.name for timed in study.timed if timed.tls] + [j.exchange for j in study.joined if j.tls]
    secure += [live.name for live in study.live if live.url.startswith("wss:")]
    for name in without_tls:
        if secure and name != REFERENCE_NAME:
            problems[f"{name} in {', '.join(secure)}"] = "it does not offer TLS"
    without_compression = [program.name for program in programs if not program.description.compression]
    compressed = [t.name for t in study.timed if t.compression] + [j.exchange for j in study.joined if j.compression]
    for name in without_compression:
        if compressed and name != REFERENCE_NAME:
            problems[f"{name} in {', '.join(compressed)}"] = "it does not offer compression"
    return plan(study, names, reference and reference.name, without_tls, without_compression), problems


def version_of(command: list[str]) -> str:
    """First line that a command prints, or "" if it does not run."""
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return ((found.stdout or found.stderr).strip().splitlines() or [""])[0]


def versions() -> dict[str, str]:
    """Versions of this package's libraries, and the commit of the repository."""
    found = {d.metadata["Name"]: d.version for d in distributions()}
    names = ("duckdb", "matplotlib", "numpy", "pyarrow", "scipy", "seaborn")
    return {
        "python": sys.version.split()[0],
        **{name: found[name] for name in names if name in found},
        "commit": version_of(["git", "-C", str(REPOSITORY), "rev-parse", "HEAD"]),
    }


def prepare(
    study: Study, results: ResultFolder, connectors: Mapping[str, Connector]
) -> tuple[list[PlannedRun], machine.Environment]:
    """Writes the description of the study, or checks it against the existing one.

    # Raises
    StudyStopped if no connector can start, or if the folder belongs to another study or machine.
    """
    runs, problems = planned(study, connectors)
    names = [name for name in study.connectors if name not in problems]
    if not runs:
        rows = "\n".join(f"  {name}: {problem}" for name, problem in problems.items())
        raise StudyStopped(f"no connector of the study can start:\n{rows}")
    environment = machine.environment()
    results.runs.mkdir(parents=True, exist_ok=True)
    description = {
        "study": study.model_dump(),
        "environment": asdict(environment),
        "environment_digest": environment.digest(),
        "connectors": {name: connectors[name].record() for name in names},
        "unavailable": problems,
        "versions": versions(),
    }
    old = results.read_json("environment.json")
    if old is not None:
        for key, what in (("study", "the study file"), ("environment", "the machine"), ("connectors", "a connector")):
            if old[key] != description[key]:
                raise StudyStopped(
                    f"{what} has changed since the first runs in {results.path}: runs of two setups are not "
                    "mixed. Choose another folder with --output, or delete this one"
                )
    write_json(results.path / "environment.json", description)
    return runs, environment


def run_study(
    study: Study,
    study_folder: Path,
    results: ResultFolder,
    connectors: Mapping[str, Connector],
    *,
    progress: Progress = lambda run, text: None,
) -> Supervisor:
    """Runs a study, or the rest of it.

    # Raises
    StudyStopped if it cannot go on. Finished runs stay.
    """
    runs, environment = prepare(study, results, connectors)
    supervisor = Supervisor(study, study_folder, results, connectors, environment=environment, progress=progress)
    with machine.Recorder(results.path / "machine.csv"):
        supervisor.run(runs)
    return supervisor
