"""Events that took more than a second, and their causes by the side data."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from lab import matching, processes
from lab.machine import SERIES_COLUMNS
from lab.processes import Sample
from lab.records import ResultFolder

if TYPE_CHECKING:
    from lab.analysis import LoadedRun

SECOND_NS = 1_000_000_000
LATE_NS = SECOND_NS
EXAMPLES = 20
# Columns of the machine's time series.
TIME, BUSY, STEAL = (SERIES_COLUMNS.index(name) for name in ("monotonic_ns", "busy_percent", "steal_percent"))


@dataclass
class LateEvents:
    """How many events were late, and of which cause. Some of them as examples."""

    total: int = 0
    causes: dict[str, int] = field(default_factory=dict)
    examples: list[dict] = field(default_factory=list)


def find(results: ResultFolder, loaded: list["LoadedRun"], series: np.ndarray) -> LateEvents:
    """Looks for events above a second, and for the cause of each of them."""
    found = LateEvents()
    database = matching.open_store(results.path)
    for run in loaded:
        rows = database.execute(
            f"SELECT sequence, due_ns, sent_ns, received_ns FROM {matching.files_sql(run.files)} "
            f"WHERE received_ns - due_ns > {LATE_NS} ORDER BY due_ns"
        ).fetchnumpy()
        total = len(rows["due_ns"])
        if not total:
            continue
        due, sent, received = (np.asarray(rows[name], dtype=np.int64) for name in ("due_ns", "sent_ns", "received_ns"))
        samples = processes.read(results.run_folder(run.record.id), run.own.connector)
        causes = causes_of(run, series, samples, due, sent, received)
        found.total += total
        for cause, count in zip(*np.unique(causes, return_counts=True), strict=True):
            found.causes[str(cause)] = found.causes.get(str(cause), 0) + int(count)
        for i in range(min(total, EXAMPLES - len(found.examples))):
            found.examples.append(
                {
                    "run": run.record.id,
                    "connector": run.own.connector,
                    "sequence": int(rows["sequence"][i]),
                    "latency_ms": float(received[i] - due[i]) / 1e6,
                    "cause": str(causes[i]),
                }
            )
    database.close()
    return found


def causes_of(
    run: "LoadedRun",
    series: np.ndarray,
    samples: list[Sample],
    due: np.ndarray,
    sent: np.ndarray,
    received: np.ndarray,
) -> np.ndarray:
    """The cause of each late event. The first evidence in the order of the path decides.

    `series` is that of the host and `samples` that of the connector's process, once per second.
    """
    causes = np.full(len(due), "unknown", dtype=object)
    half = (received - due) / 2

    def mark(holds: np.ndarray, cause: str) -> None:
        causes[(causes == "unknown") & holds] = cause

    mark(sent - due > half, "server: the feed sent it late")
    gaps = [(gap["from_ns"], gap["to_ns"]) for found in run.captures for gap in found.gaps]
    gaps += [(restart["from_ns"], restart["to_ns"]) for restart in run.own.restarts]
    for start, end in gaps:
        is_down = (start <= received) & (end is None or end >= due)
        mark(is_down, "network: the connection was down")
    for found in run.captures:
        for begin, end, _ in found.flushes:
            if 2 * (end - begin) > LATE_NS:  # a shorter one cannot be half of a late event
                overlap = np.minimum(end, received) - np.maximum(begin, sent)
                mark(overlap > half, "connector: it was writing its capture file")
        pause = found.run.get("gc_pause_ns", "")
        mark(time_within(found.collections, sent, received) > half, "GC: the collector paused the connector")
        if not found.collections and pause.isdigit():
            mark(int(pause) > half, "GC: the pauses of the run are long enough")
    if len(samples) > 1:
        times = np.array([sample.monotonic_ns for sample in samples])
        used = np.array([sample.cpu_ns for sample in samples])
        first = np.searchsorted(times, sent - SECOND_NS)
        last = np.searchsorted(times, received + SECOND_NS, side="right") - 1
        inside = last > first
        first, last = np.minimum(first, len(times) - 1), np.maximum(last, 0)
        is_full = used[last] - used[first] > 0.9 * (times[last] - times[first])
        mark(inside & is_full, "connector: it used a whole core")
    if len(series):
        disturbed = (series[:, STEAL] > 5) | (series[:, BUSY] > 95)
        mark(
            any_within(series[:, TIME], disturbed, sent, received + SECOND_NS),
            "host: steal above 5 % or all cores busy",
        )
    if samples:
        waiting = np.array([sample.receive_queue_bytes > 0 for sample in samples])
        times = np.array([sample.monotonic_ns for sample in samples])
        mark(any_within(times, waiting, sent, received), "connector: it did not read data that had arrived")
    return causes


def time_within(intervals: Iterable[tuple[int, int]], begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """How much of each span from `begin` to `end` lies in the intervals, which do not overlap."""
    edges, passed = [0.0], [0.0]
    for first, last in sorted(intervals):
        edges += [first, last]
        passed += [passed[-1], passed[-1] + last - first]
    return np.interp(end, edges, passed) - np.interp(begin, edges, passed)


def any_within(times: np.ndarray, holds: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Whether a row with `holds` has its time in each span. `times` are in order."""
    before = np.concatenate([[0], np.cumsum(holds)])
    return before[np.searchsorted(times, end, side="right")] > before[np.searchsorted(times, begin)]
