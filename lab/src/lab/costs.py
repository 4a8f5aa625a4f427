"""Costs and losses of a connector in the timed runs of one table, and how steady its runs are."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from lab import effects, matching
from lab.comparison import Run
from lab.records import ConnectorRecord, ResultFolder

if TYPE_CHECKING:
    from lab.analysis import LoadedRun


@dataclass(frozen=True)
class Cost:
    """What one connector used and lost in the timed runs of one table. Medians over runs."""

    connector: str
    cpu_us_per_message: float | None
    switches_per_message: float | None
    peak_memory_mb: float
    start_to_open_ms: float | None  # from process start to open connection
    first_messages_p50_us: float  # median latency of the first 1,000 messages: the cold start
    gc_pause_ms: float | None
    ring_waits: int
    sent: int
    missing: int
    unsteady_runs: int  # runs whose latency drifted in the measured window
    growing_runs: int  # runs whose latency doubled in the measured window, to above a millisecond


def received_in_window(own: ConnectorRecord, received_ns: np.ndarray) -> int:
    """How many messages a connector received between the two readings of its counters."""
    if own.window_from_ns is None or own.window_to_ns is None:
        return 0
    return int(((received_ns >= own.window_from_ns) & (received_ns <= own.window_to_ns)).sum())


def per_message(counter: int | None, messages: int, unit: float = 1.0) -> float | None:
    return counter / unit / messages if messages and counter is not None else None


def slice_medians(run: Run) -> tuple[np.ndarray, np.ndarray]:
    indices = np.unique(run.slice_index)
    return indices, np.array([np.median(run.latency_ns[run.slice_index == i]) for i in indices])


def grows(run: Run) -> bool:
    """Returns whether a queue builds up: the last third of the slices is twice as slow, above a
    millisecond.
    """
    _, medians = slice_medians(run)
    third = max(1, len(medians) // 3)
    first, last = np.median(medians[:third]), np.median(medians[-third:])
    return bool(last > 2 * first and last > effects.MOST_P99_NS)


def drifts(run: Run) -> bool:
    """Returns whether the slice medians have a trend of more than 5 %, by Kendall's tau at 1 %."""
    indices, medians = slice_medians(run)
    if len(medians) < 6:
        return False
    third = len(medians) // 3
    change = abs(np.median(medians[-third:]) / np.median(medians[:third]) - 1)
    return bool(change > 0.05 and stats.kendalltau(indices, medians).pvalue < 0.01)


def cost_of(
    database: Any,
    results: ResultFolder,
    connector: str,
    runs: list["LoadedRun"],
    kept: list[Run],
    counted: dict[tuple[int, str], int],
    firsts: dict[str, list[float]],
) -> Cost:
    def median(values: list[float | None]) -> float | None:
        present = [v for v in values if v is not None]
        return float(np.median(present)) if present else None

    cpu, switches, pauses, waits, sent, missing = [], [], [], 0, 0, 0
    for run in runs:
        own = run.own
        messages = counted[run.record.block, connector]
        cpu.append(per_message(own.window_cpu_ns, messages, 1e3))
        switches.append(per_message(own.window_switches, messages))
        for found in run.captures:
            pause = found.run.get("gc_pause_ns", "")
            pauses.append(int(pause) / 1e6 if pause.isdigit() else None)
            wait = found.run.get("ring_waits", "0")
            waits += int(wait) if wait.isdigit() else 0
        counts = matching.count_losses(database, connector, run.files, results.run_folder(run.record.id) / "truth.csv")
        sent += counts.sent
        missing += counts.missing
    return Cost(
        connector=connector,
        cpu_us_per_message=median(cpu),
        switches_per_message=median(switches),
        peak_memory_mb=max(run.own.peak_memory_kb for run in runs) / 1024,
        start_to_open_ms=median(
            [None if r.own.start_to_open_ns is None else r.own.start_to_open_ns / 1e6 for r in runs]
        ),
        first_messages_p50_us=float(np.median(firsts[connector])) / 1e3,
        gc_pause_ms=median(pauses),
        ring_waits=waits,
        sent=sent,
        missing=missing,
        unsteady_runs=sum(drifts(run) for run in kept),
        growing_runs=sum(grows(run) for run in kept),
    )
