"""Figures of a publication study. The unit of replication is the run."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from lab import comparison, machine
from lab.comparison import Interval
from lab.publication.publishers import OURS
from lab.publication.run import Record, read_record
from lab.publication.study import PublicationStudy, Test
from lab.publication.workload import DEFECTS, defects
from lab.records import ResultFolder

RESAMPLES = 2_000


class AnalysisError(Exception):
    """Results that cannot be analysed. The text says why."""


@dataclass(frozen=True)
class Measure:
    """One figure of the load client or of the publisher."""

    id: str
    label: str
    digits: int


LATENCY = (Measure("p50_us", "p50, µs", 0), Measure("p99_us", "p99, µs", 0))
CPU = Measure("cpu_us_per_delivery", "CPU, µs per message", 2)
COSTS = (
    CPU,
    Measure("server_cpu_s", "CPU, s", 2),
    Measure("memory_mib", "memory, MiB", 0),
    Measure("opening_s", "until all are open, s", 2),
    Measure("wall_s", "whole run, s", 1),
)
MEASURES = (*LATENCY, *COSTS)


@dataclass(frozen=True)
class Level:
    """Median over the runs of one publisher, with its 95 % interval."""

    value: float
    interval: Interval


@dataclass(frozen=True)
class Row:
    publisher: str
    runs: int
    failed: int
    flagged: int
    levels: dict[str, Level]  # by measure
    rank: Interval  # of p50; 1 is the fastest
    deliveries: int  # of all runs
    defects: list[str]  # sums over all runs
    limit: int | None
    limited_by: str | None


@dataclass(frozen=True)
class Difference:
    """Another publisher minus ours, paired by block."""

    measure: str
    publisher: str
    shift: float  # Hodges-Lehmann estimate
    interval_95: Interval
    p_difference: float  # paired t test over blocks, Holm-adjusted
    p_equivalence: float  # two one-sided tests against the margin, Holm-adjusted
    margin: float
    verdict: str  # "equivalent", "different" or "unresolved"


@dataclass(frozen=True)
class TestResult:
    test: Test
    blocks: int
    rows: list[Row]
    differences: list[Difference]
    cross_check: dict[str, dict[str, Level]]  # publisher -> figures with Artillery


@dataclass(frozen=True)
class Results:
    study: PublicationStudy
    description: dict[str, Any]
    tests: list[TestResult]
    records: list[Record]
    floor_ns: dict[float, float]

    def statuses(self) -> dict[str, int]:
        names = [record.status for record in self.records]
        return {name: names.count(name) for name in ("kept", "flagged", "failed") if name in names}


def level(values: Sequence[float], rng: np.random.Generator) -> Level:
    array = np.asarray(values, float)
    drawn = np.median(array[rng.integers(0, len(array), (RESAMPLES, len(array)))], axis=1)
    return Level(float(np.median(array)), comparison.percentile_interval(drawn, 0.95))


def ranks(values: dict[str, np.ndarray], rng: np.random.Generator) -> dict[str, Interval]:
    """95 % of the bootstrap draws place the median in these ranks. All arrays have the same
    blocks."""
    if not values:
        return {}
    blocks = len(next(iter(values.values())))
    chosen = rng.integers(0, blocks, (RESAMPLES, blocks))
    medians = np.column_stack([np.median(own[chosen], axis=1) for own in values.values()])
    places = 1 + (medians[:, None, :] < medians[:, :, None]).sum(axis=-1)
    bounds = np.quantile(places, [0.025, 0.975], axis=0, method="nearest")
    return {name: Interval(float(low), float(high)) for name, low, high in zip(values, *bounds, strict=True)}


def complete_blocks(records: Sequence[Record], measure: str) -> dict[str, np.ndarray]:
    """Values by publisher over the blocks in which all publishers of the result have one.

    A publisher without a value in more than half of the blocks is left out.
    """
    table: dict[str, dict[int, float]] = {}
    for record in records:
        if (value := record.figures.get(measure)) is not None:
            table.setdefault(record.publisher, {})[record.block] = float(value)
    blocks = {record.block for record in records}
    kept = {name: own for name, own in table.items() if 2 * len(own) > len(blocks)}
    common = sorted(set.intersection(*(set(own) for own in kept.values()))) if kept else []
    return {name: np.array([own[block] for block in common]) for name, own in kept.items() if common}


def differences(study: PublicationStudy, records: Sequence[Record], floor_us: float) -> list[Difference]:
    found: list[Difference] = []
    rng = np.random.default_rng(study.seed)
    for measure in (*LATENCY, CPU):
        values = complete_blocks(records, measure.id)
        if OURS not in values or len(values[OURS]) < 2:
            continue
        ours = values.pop(OURS)
        is_cpu = measure is CPU
        margin = study.cpu_margin_percent / 100 * np.median(ours) if is_cpu else max(study.margin_us, floor_us)
        apart = {name: own - ours for name, own in values.items()}
        p_difference = comparison.holm([comparison.paired_p(d) for d in apart.values()])
        p_equivalence = comparison.holm([comparison.equivalence_p(d, margin) for d in apart.values()])
        chosen = rng.integers(0, len(ours), (RESAMPLES, len(ours)))
        for (name, d), p_diff, p_equal in zip(apart.items(), p_difference, p_equivalence, strict=True):
            shifts = comparison.hodges_lehmann(d[chosen])
            interval_90 = comparison.percentile_interval(shifts, 0.90)
            interval_95 = comparison.percentile_interval(shifts, 0.95)
            verdict = comparison.verdict(interval_90, interval_95, p_diff, p_equal, margin)
            shift = float(comparison.hodges_lehmann(d))
            found.append(Difference(measure.id, name, shift, interval_95, p_diff, p_equal, float(margin), verdict))
    return found


def row(publisher: str, records: Sequence[Record], rank: Interval, rng: np.random.Generator) -> Row:
    usable = [record for record in records if record.status != "failed"]
    values = {m.id: [r.figures[m.id] for r in usable if r.figures.get(m.id) is not None] for m in MEASURES}
    sums = {name: sum(r.figures.get(name) or 0 for r in usable) for name in (*DEFECTS, "deliveries")}
    limits = [r.figures for r in usable if "limit" in r.figures]
    lowest = min(limits, key=lambda figures: figures["limit"], default={})
    return Row(
        publisher=publisher,
        runs=len(usable),
        failed=len(records) - len(usable),
        flagged=sum(record.status == "flagged" for record in records),
        levels={name: level(own, rng) for name, own in values.items() if own},
        rank=rank,
        deliveries=sums["deliveries"],
        defects=defects(sums),
        limit=lowest.get("limit"),
        limited_by=lowest.get("limited_by"),
    )


def analyse(results: ResultFolder) -> Results:
    """Computes the figures of a result folder.

    # Raises
    AnalysisError if the folder holds no publication study, or no run.
    """
    description = results.read_json("environment.json")
    if description is None or "publishers" not in description:
        raise AnalysisError(f"{results.path} holds no publication study: run `lab publication run` first")
    study = PublicationStudy.model_validate(description["study"])
    ids = sorted(path.parent.name for path in results.runs.glob("*/record.json"))
    records = [record for run_id in ids if (record := read_record(results, run_id)) is not None and record.id == run_id]
    if not records:
        raise AnalysisError(f"{results.path} holds no finished run")
    probes = [machine.Noise(**probe) for probe in results.read_json("noise.json") or []]
    floor_ns = {q: max((probe.floor_ns(q) for probe in probes), default=0.0) for q in (0.5, 0.99)}
    tests = []
    for test in study.test:
        own = [record for record in records if record.test == test.name and record.generator == "pitwire"]
        usable = [record for record in own if record.status != "failed"]
        rng = np.random.default_rng(study.seed)
        places = ranks(complete_blocks(usable, "p50_us"), rng)
        names = [name for name in study.publishers if any(record.publisher == name for record in own)]
        unknown = Interval(float("nan"), float("nan"))
        rows = [row(name, [r for r in own if r.publisher == name], places.get(name, unknown), rng) for name in names]
        repeated = [r for r in records if r.test == test.name and r.generator != "pitwire" and r.status != "failed"]
        cross_check = {
            name: {
                key: level(values, rng)
                for key in ("p50_us", "p99_us", "deliveries", "errors")
                if (
                    values := [
                        r.figures[key] for r in repeated if r.publisher == name and r.figures.get(key) is not None
                    ]
                )
            }
            for name in names
            if any(r.publisher == name for r in repeated)
        }
        blocks = len({record.block for record in usable})
        apart = [] if test.find_limit else differences(study, usable, floor_ns[0.5] / 1e3)
        tests.append(TestResult(test, blocks, rows, apart, cross_check))
    return Results(study, description, tests, records, floor_ns)


def to_json(results: Results) -> str:
    """All figures as JSON. A number that does not exist is null."""
    data = asdict(results) | {"study": results.study.model_dump()}
    for test, result in zip(data["tests"], results.tests, strict=True):
        test["test"] = result.test.model_dump()
    return json.dumps(without_nan(data), indent=1)


def without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): without_nan(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without_nan(item) for item in value]
    return None if isinstance(value, float) and value != value else value
