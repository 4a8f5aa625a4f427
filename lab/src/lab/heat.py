"""Latency of one run over time: a histogram per slice of time, and what the connector did then."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from lab.capture import Capture
from lab.comparison import Run

BINS = 40


@dataclass(frozen=True)
class HeatMap:
    """One run of one connector. Times are seconds after the warm-up."""

    connector: str
    block: int
    slice_s: float
    edges_ns: list[float]  # of the bins, the same for all connectors of a table
    counts: list[list[int]]  # one row per slice, one column per bin
    collections_s: list[float]  # begin of each pause of the garbage collector
    flushes_s: list[float]  # begin of each write to the capture file


def heat_maps(
    runs: Sequence[Run], slice_ms: float, captures: Mapping[str, Sequence[Capture]], from_ns: Mapping[str, int]
) -> list[HeatMap]:
    """The heat map of each run. `from_ns` is the end of its warm-up, by connector."""
    low = max(1.0, float(min(run.latency_ns.min() for run in runs)))
    high = max(low * 2, float(max(run.latency_ns.max() for run in runs)))
    edges = np.geomspace(low, high * (1 + 1e-9), BINS + 1)
    return [heat_map(run, slice_ms, edges, captures[run.connector], from_ns[run.connector]) for run in runs]


def heat_map(run: Run, slice_ms: float, edges: np.ndarray, captures: Sequence[Capture], from_ns: int) -> HeatMap:
    bins = np.clip(np.searchsorted(edges, run.latency_ns, side="right") - 1, 0, BINS - 1)
    counts = np.zeros((int(run.slice_index.max()) + 1, BINS), dtype=int)
    np.add.at(counts, (run.slice_index, bins), 1)
    length_s = len(counts) * slice_ms / 1e3

    def inside(begins: Sequence[int]) -> list[float]:
        seconds = sorted((begin - from_ns) / 1e9 for begin in begins)
        return [second for second in seconds if 0 <= second <= length_s]

    return HeatMap(
        connector=run.connector,
        block=run.block,
        slice_s=slice_ms / 1e3,
        edges_ns=[float(edge) for edge in edges],
        counts=counts.tolist(),
        collections_s=inside([begin for capture in captures for begin, _ in capture.collections]),
        flushes_s=inside([begin for capture in captures for begin, _, _ in capture.flushes]),
    )
