"""Turns the result folder of a study into figures: `report.json` and the data of the report."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from lab import capture, comparison, costs, effects, goals, heat, late, live, matching, scores, summary
from lab.capture import Capture, CaptureError
from lab.comparison import Comparison, Run
from lab.connectors import REFERENCE_NAME
from lab.hosts import ClockLine
from lab.machine import SERIES_COLUMNS, Noise
from lab.records import ConnectorRecord, ResultFolder, RunRecord
from lab.study import Study
from lab.supervisor import noise_of, read_truth

SECOND_NS = 1_000_000_000
FIRST_MESSAGES = 1_000
ECDF_GRID = tuple(float(x) for x in np.concatenate([np.linspace(0.001, 0.99, 300), 1 - np.geomspace(0.01, 1e-5, 60)]))
METRICS = ("Maximum", "Q3", "Median", "Q1", "Minimum")


class AnalysisError(Exception):
    """Results that cannot be analysed. The text says why and what to do."""


@dataclass(frozen=True)
class Problem:
    """One row of the list of everything that did not go as planned."""

    run: str
    connector: str
    text: str


@dataclass(frozen=True)
class Reference:
    """Response latency of the reference receiver: the floor of the instrument. Medians over
    runs."""

    runs: int
    quantiles: dict[float, float]
    maximum: float


@dataclass
class TimedResult:
    """Timed runs of one [[timed]] table."""

    name: str
    settings: dict[str, Any]
    blocks: list[int]
    comparison: Comparison
    costs: list[costs.Cost]
    five_numbers: dict[str, summary.FiveNumbers]
    normality: dict[str, summary.Normality | None]
    lateness_p99_us: float  # of the feed, the worst run
    reference: Reference | None
    ecdf: dict[str, list[tuple[float, float]]]  # pooled runs: probability, latency in ns
    # Second, p50 and p99 in ns: medians over the runs.
    timeline: dict[str, list[tuple[float, float, float]]]
    run_medians: dict[str, list[float]]  # median latency of each run, in ns and in order of the blocks
    run_cpu_us: dict[str, list[float | None]]  # CPU time per message of each run, in the same order
    drains: list[effects.Drain]  # of the batches, if the table has them
    heat: list[heat.HeatMap]  # of the first block


@dataclass
class JoinedResult:
    """One joined run."""

    exchange: str
    settings: dict[str, Any]
    key: str  # "sequence" or "hash"
    matched: int
    throughput: matching.Throughput
    counts: list[matching.Counts]
    bytes_range: tuple[int, int]
    quantiles: dict[str, dict[float, float]]
    five_numbers: dict[str, summary.FiveNumbers]
    normality: dict[str, summary.Normality | None]
    paired: dict[str, dict[float, float]]  # difference to the first connector, message by message
    reference: str
    ecdf: dict[str, list[tuple[float, float]]]
    outages: list[dict]


@dataclass
class Results:
    study: Study
    description: dict[str, Any]
    records: list[RunRecord]
    noise: list[Noise]
    timed: list[TimedResult]
    joined: list[JoinedResult]
    live: list[live.LiveResult]
    factors: list[effects.Factor]
    saturation: list[effects.Saturation]
    goals: list[goals.Goal]  # of the connector that the study file names as its subject
    scoring: scores.Scoring | None  # of the joined runs, by the study's rule
    fragility: list[scores.Change]
    late: late.LateEvents
    problems: list[Problem]

    def floor_ns(self, quantile: float) -> float:
        """Noise floor: the median of the probes' floors."""
        return float(np.median([noise.floor_ns(quantile) for noise in self.noise])) if self.noise else 0.0

    def statuses(self) -> dict[str, int]:
        found: dict[str, int] = {}
        for record in self.records:
            found[record.status] = found.get(record.status, 0) + 1
        return found


@dataclass
class LoadedRun:
    """Events of one connector in one run, as columns."""

    record: RunRecord
    own: ConnectorRecord
    captures: list[Capture]
    files: list[Path]


def load_description(results: ResultFolder) -> tuple[Study, dict[str, Any]]:
    description = results.read_json("environment.json")
    if description is None:
        raise AnalysisError(f"{results.path} holds no study: environment.json is missing; run `lab run` first")
    return Study.model_validate(description["study"]), description


def payload_fields(record: RunRecord) -> capture.PayloadFields:
    """The members to read from the payloads of a run. Only live runs store payloads."""
    if record.kind != "live":
        return capture.PayloadFields()
    table = record.settings
    return capture.PayloadFields(table["event_time"], table["event_time_unit"], tuple(table["ignore"]))


def convert_runs(results: ResultFolder, records: Sequence[RunRecord]) -> tuple[list[LoadedRun], list[Problem]]:
    """Stores the events of all usable runs as Parquet. Files that exist are used again."""
    loaded, problems = [], []
    for record in records:
        folder = results.run_folder(record.id)
        fields = payload_fields(record)
        for own in record.connectors:
            if own.problem:
                problems.append(Problem(record.id, own.connector, own.problem))
            captures, files = [], []
            for name in own.captures:
                target = (folder / name).with_suffix(".parquet")
                try:
                    found = capture.convert_once(folder / name, target, fields)
                except CaptureError as error:
                    problems.append(Problem(record.id, own.connector, str(error)))
                    continue
                except OSError as error:
                    raise AnalysisError(f"cannot write {target}: {error.strerror}; free some space") from error
                if found.damage:
                    text = f"{name} is damaged {found.damage}; {found.events} events before it are used"
                    problems.append(Problem(record.id, own.connector, text))
                captures.append(found)
                files.append(target)
            if files:
                loaded.append(LoadedRun(record, own, captures, files))
    return loaded, problems


def analyse(results: ResultFolder) -> Results:
    """Analyses all finished runs of a study.

    # Raises
    AnalysisError if there is no usable run, or if runs of several machines are in the folder.
    """
    study, description = load_description(results)
    records = results.records()
    digests = sorted({record.environment for record in records})
    if len(digests) > 1:
        raise AnalysisError(
            f"runs of {len(digests)} different machines or settings are in {results.path}: they are not compared. "
            "Move the runs of one machine to another folder"
        )
    usable = [record for record in records if record.usable]
    if not usable:
        reasons = "\n".join(f"  {r.id}: {r.status}: {'; '.join(r.reasons)}" for r in records) or "  none has finished"
        raise AnalysisError(f"no run in {results.path} can be used:\n{reasons}")
    problems = [Problem("all", name, f"skipped: {why}") for name, why in description["unavailable"].items()]
    problems += [Problem(r.id, "", f"{r.status}: {'; '.join(r.reasons)}") for r in records if r.status != "kept"]
    loaded, damaged = convert_runs(results, usable)
    problems += damaged
    noise = [noise_of(row) for row in results.read_json("noise.json") or []]
    floor_ns = float(np.median([n.floor_ns(0.5) for n in noise])) if noise else 0.0
    margin_ns = max(study.analysis.margin_us * 1e3, floor_ns)

    timed = []
    for table in study.timed:
        runs = [r for r in loaded if r.record.kind == "timed" and r.record.settings["name"] == table.name]
        if runs:
            found = timed_result(results, study, table.name, runs, margin_ns, problems)
            if found is not None:
                timed.append(found)
    joined = []
    for table in study.joined:
        runs = [r for r in loaded if r.record.kind == "joined" and r.record.settings["exchange"] == table.exchange]
        if runs:
            found = joined_result(results, table.exchange, runs, problems)
            if found is not None:
                joined.append(found)
    others = []
    for table in study.live:
        runs = [r for r in loaded if r.record.kind == "live" and r.record.settings["name"] == table.name]
        if runs and (found := live_result(results, table.name, runs, problems)) is not None:
            others.append(found)
    scoring, fragile = score_joined(joined)
    floor_p99_ns = float(np.median([n.floor_ns(0.99) for n in noise])) if noise else 0.0
    group = effects.load_group(timed)
    saturation = effects.saturation(group, floor_p99_ns) if len(group) > 1 else []
    return Results(
        study=study,
        description=description,
        records=records,
        noise=noise,
        timed=timed,
        joined=joined,
        live=others,
        factors=effects.factors(timed, study.seed),
        saturation=saturation,
        goals=goals.find(study.analysis.subject, variants_of(description), timed, saturation),
        scoring=scoring,
        fragility=fragile,
        late=late.find(results, [run for run in loaded if run.record.kind != "live"], read_series(results)),
        problems=problems,
    )


def variants_of(description: dict[str, Any]) -> dict[str, str]:
    """Variant -> connector that it is a variant of."""
    return {name: about["base"] for name, about in description["connectors"].items() if about.get("base")}


# Timed runs


def read_timed(run: LoadedRun) -> tuple[np.ndarray, np.ndarray]:
    """Due time and response latency of every event with an envelope, in order of the due time."""
    tables = [pq.read_table(file, columns=["due_ns", "received_ns", "occurrence"]) for file in run.files]
    due = np.concatenate([t["due_ns"].to_numpy() for t in tables])
    received = np.concatenate([t["received_ns"].to_numpy() for t in tables])
    first = np.concatenate([t["occurrence"].to_numpy() for t in tables]) == 0
    present = ~np.isnan(due) & first if due.dtype.kind == "f" else first
    due, received = due[present].astype(np.int64), received[present].astype(np.int64)
    order = np.argsort(due, kind="stable")
    return due[order], (received - due)[order]


def timed_result(
    results: ResultFolder, study: Study, name: str, runs: list[LoadedRun], margin_ns: float, problems: list[Problem]
) -> TimedResult | None:
    settings = runs[0].record.settings
    slice_ms = comparison.slice_length_ms(settings["measured_s"])
    data: dict[tuple[int, str], Run] = {}
    firsts: dict[str, list[float]] = {}
    batches: dict[tuple[int, str], np.ndarray] = {}
    counted: dict[tuple[int, str], int] = {}
    for run in runs:
        due, latency = read_timed(run)
        connector, block, start = run.own.connector, run.record.block, run.record.measured_from_ns
        counted[block, connector] = costs.received_in_window(run.own, due + latency)
        measured = due >= start
        if not measured.any():
            problems.append(Problem(run.record.id, connector, "no message arrived after the warm-up"))
            continue
        index = ((due[measured] - start) // int(slice_ms * 1e6)).astype(np.int64)
        data[block, connector] = Run(block, connector, latency[measured], index)
        if settings.get("batch"):
            batches[block, connector] = batch_lengths(due[measured], latency[measured])
        firsts.setdefault(connector, []).append(float(np.median(latency[:FIRST_MESSAGES])))
    wanted = {c for c in study.connectors if any(key[1] == c for key in data)}
    blocks = sorted({block for block, _ in data})
    # A connector without a run in most blocks would cost the others their blocks.
    for connector in sorted(wanted):
        present = sum((block, connector) in data for block in blocks)
        if present * 2 < len(blocks) and len(wanted) > 1:
            problems.append(
                Problem(f"timed {name}", connector, f"left out: usable in {present} of {len(blocks)} blocks")
            )
            wanted.discard(connector)
    complete = [block for block in blocks if all((block, connector) in data for connector in wanted)]
    for block in sorted(set(blocks) - set(complete)):
        absent = ", ".join(sorted(c for c in wanted if (block, c) not in data))
        problems.append(Problem(f"timed {name}", "", f"block {block} left out: no usable run of {absent}"))
    kept = [data[block, c] for block in complete for c in study.connectors if c in wanted]
    if not kept:
        problems.append(Problem(f"timed {name}", "", "no block is complete, so nothing is compared"))
        return None
    found = comparison.compare(
        kept, margin_ns=margin_ns, slice_ms=slice_ms, resamples=study.analysis.resamples, seed=study.seed
    )
    database = matching.open_store(results.path)
    chosen = [r for r in runs if r.record.block in complete and r.own.connector in wanted]
    own_costs = [
        costs.cost_of(
            database,
            results,
            c,
            [r for r in chosen if r.own.connector == c],
            [k for k in kept if k.connector == c],
            counted,
            firsts,
        )
        for c in study.connectors
        if c in wanted
    ]
    pooled = {
        c: np.concatenate([k.latency_ns for k in kept if k.connector == c]) for c in study.connectors if c in wanted
    }
    return TimedResult(
        name=name,
        settings=settings,
        blocks=complete,
        comparison=found,
        costs=own_costs,
        five_numbers={c: summary.five_numbers(values) for c, values in pooled.items()},
        normality={c: summary.normality(values) for c, values in pooled.items()},
        lateness_p99_us=max(r.record.lateness_us["p99"] for r in chosen),
        reference=reference_of([run for key, run in data.items() if key[1] == REFERENCE_NAME]),
        ecdf={c: ecdf_of(values) for c, values in pooled.items()},
        timeline={c: timeline_of([k for k in kept if k.connector == c], slice_ms) for c in pooled},
        run_medians={c: [float(np.median(k.latency_ns)) for k in kept if k.connector == c] for c in pooled},
        run_cpu_us={
            c: [costs.per_message(r.own.window_cpu_ns, counted[r.record.block, c], 1e3) for r in by_block(chosen, c)]
            for c in pooled
        },
        drains=drains_of(results, study, chosen, batches) if batches else [],
        heat=heat_of(chosen, [run for run in kept if run.block == complete[0]], slice_ms),
    )


def by_block(runs: list[LoadedRun], connector: str) -> list[LoadedRun]:
    return sorted((r for r in runs if r.own.connector == connector), key=lambda r: r.record.block or 0)


def heat_of(loaded: list[LoadedRun], runs: list[Run], slice_ms: float) -> list[heat.HeatMap]:
    own = {run.own.connector: run for run in loaded if run.record.block == runs[0].block}
    captures = {name: run.captures for name, run in own.items()}
    return heat.heat_maps(runs, slice_ms, captures, {n: run.record.measured_from_ns or 0 for n, run in own.items()})


def batch_lengths(due: np.ndarray, late: np.ndarray) -> np.ndarray:
    """The largest value of each batch.

    Messages of one batch have one due time, and `due` is ordered.
    """
    begins = np.flatnonzero(np.diff(due, prepend=due[0] - 1))
    return np.maximum.reduceat(late, begins)


def drains_of(
    results: ResultFolder, study: Study, runs: list[LoadedRun], batches: dict[tuple[int, str], np.ndarray]
) -> list[effects.Drain]:
    found = []
    for connector in study.connectors:
        own = by_block(runs, connector)
        feed = []
        for run in own:
            truth = read_truth(results.run_folder(run.record.id) / "truth.csv")
            truth = truth[truth[:, 0] >= run.record.measured_from_ns]
            truth = truth[np.argsort(truth[:, 0], kind="stable")]
            feed.append(batch_lengths(truth[:, 0], truth[:, 2] - truth[:, 0]))
        if own:
            taken = [batches[run.record.block, connector] for run in own]
            found.append(effects.drain(connector, taken, feed, study.seed))
    return found


def reference_of(runs: list[Run]) -> Reference | None:
    if not runs:
        return None
    found = [summary.run_quantiles(run.latency_ns) for run in runs]
    shown = [q for q in summary.QUANTILES if all(q in row for row in found)]
    medians = {q: float(np.median([row[q] for row in found])) for q in shown}
    return Reference(len(runs), medians, float(max(run.latency_ns.max() for run in runs)))


def ecdf_of(values: np.ndarray) -> list[tuple[float, float]]:
    """Points of the empirical distribution at those probabilities that the size supports."""
    grid = [p for p in ECDF_GRID if len(values) * (1 - p) >= 1]
    return [(p, float(v)) for p, v in zip(grid, np.quantile(values, grid), strict=True)]


def timeline_of(runs: list[Run], slice_ms: float) -> list[tuple[float, float, float]]:
    """Second, p50 and p99 of each slice of time: medians over the runs."""
    rows: dict[int, list[tuple[float, float]]] = {}
    for run in runs:
        for index in np.unique(run.slice_index):
            values = run.latency_ns[run.slice_index == index]
            rows.setdefault(int(index), []).append((float(np.median(values)), float(np.quantile(values, 0.99))))
    return [
        (index * slice_ms / 1000, *(float(x) for x in np.median(np.array(pairs), axis=0)))
        for index, pairs in sorted(rows.items())
    ]


# Joined runs


def with_events(runs: list[LoadedRun], problems: list[Problem]) -> list[LoadedRun]:
    """Returns the runs that captured something, and reports the others."""
    empty = [run for run in runs if not any(found.events for found in run.captures)]
    what = "captured nothing, so it is not matched"
    problems += [Problem(run.record.id, run.own.connector, what) for run in empty]
    return [run for run in runs if run not in empty]


def joined_result(
    results: ResultFolder, exchange: str, runs: list[LoadedRun], problems: list[Problem]
) -> JoinedResult | None:
    record = runs[0].record
    runs = with_events(runs, problems)
    if not runs:
        return None
    files = {run.own.connector: run.files for run in runs}
    with_sequence = all(found.without_sequence < found.events for run in runs for found in run.captures)
    key = "sequence" if with_sequence else "hash"
    database = matching.open_store(results.path)
    try:
        matched = matching.match(
            database, files, key=key, from_ns=(record.measured_from_ns or 0) if with_sequence else 0
        )
        if matched == 0:
            problems.append(Problem(record.id, "", "no event arrived at every connector"))
            return None
        return summarise_joined(database, results, exchange, runs, key, matched)
    finally:
        database.close()


def summarise_joined(
    database: Any, results: ResultFolder, exchange: str, runs: list[LoadedRun], key: str, matched: int
) -> JoinedResult:
    record = runs[0].record
    names = [run.own.connector for run in runs]
    truth = results.run_folder(record.id) / "truth.csv"
    counts = [matching.count_losses(database, run.own.connector, run.files, truth) for run in runs]
    seconds = (record.measured_to_ns - record.measured_from_ns) / 1e9 + record.settings["warm_up_s"]
    every_file = matching.files_sql([file for run in runs for file in run.files])
    low, high = database.execute(f"SELECT min(length_bytes), max(length_bytes) FROM {every_file}").fetchone()
    found = {n: matching.distribution(database, matching.latency(n)) for n in names}
    five = {n: pair[0] for n, pair in found.items()}
    quantiles = {n: pair[1] for n, pair in found.items()}
    reference = names[0]
    paired, curves, normal = {}, {}, {}
    for name in names:
        difference = f"({matching.column('received ' + name)} - {matching.column('received ' + reference)})"
        found = database.execute(f"SELECT quantile_cont({difference}, [0.1, 0.25, 0.5, 0.75, 0.9]) FROM matched")
        paired[name] = dict(zip((0.1, 0.25, 0.5, 0.75, 0.9), found.fetchone()[0], strict=True))
        grid = [p for p in ECDF_GRID if matched * (1 - p) >= 1]
        points = database.execute(f"SELECT quantile_cont({matching.latency(name)}, {grid}) FROM matched").fetchone()[0]
        curves[name] = [(p, float(v)) for p, v in zip(grid, points, strict=True)]
        sample = database.execute(
            f"SELECT {matching.latency(name)} AS x FROM matched USING SAMPLE reservoir(200000 ROWS) REPEATABLE (20)"
        ).fetchnumpy()["x"]
        normal[name] = summary.normality(sample)
    return JoinedResult(
        exchange=exchange,
        settings=record.settings,
        key=key,
        matched=matched,
        throughput=matching.Throughput(exchange, sum(c.received for c in counts), seconds, len(names)),
        counts=counts,
        bytes_range=(int(low), int(high)),
        quantiles=quantiles,
        five_numbers=five,
        normality=normal,
        paired=paired,
        reference=reference,
        ecdf=curves,
        outages=[outage for run in runs for outage in outages_of(database, run)],
    )


def outages_of(database: Any, run: LoadedRun) -> list[dict]:
    """Reconnects of the connector and restarts of its process, with the sequences on both sides."""
    rows = [
        {
            "connector": run.own.connector,
            "reason": gap["reason"],
            "from_ns": gap["from_ns"],
            "to_ns": gap["to_ns"],
            "last_sequence": gap["last_sequence"],
            "next_sequence": gap["next_sequence"],
        }
        for found in run.captures
        for gap in found.gaps
    ]
    for restart in run.own.restarts:
        last, following = database.execute(
            f"SELECT max(sequence) FILTER (received_ns <= {restart['from_ns']}),"
            f" min(sequence) FILTER (received_ns > {restart['from_ns']}) FROM {matching.files_sql(run.files)}"
        ).fetchone()
        rows.append(
            {
                "connector": run.own.connector,
                "reason": restart["reason"],
                "from_ns": restart["from_ns"],
                "to_ns": restart["to_ns"],
                "last_sequence": last,
                "next_sequence": following,
            }
        )
    return rows


def score_joined(joined: list[JoinedResult]) -> tuple[scores.Scoring | None, list[scores.Change]]:
    """Scores the joined runs by the study's rule, in whole milliseconds and in nanoseconds."""
    if not joined:
        return None, []
    names = [n for n in joined[0].five_numbers if all(n in j.five_numbers for j in joined)]
    if len(names) < 2:
        return None, []

    def tables(unit_ns: float | None) -> dict[str, dict[str, list[float]]]:
        found: dict[str, dict[str, list[float]]] = {}
        for result in joined:
            rows = [result.five_numbers[n] for n in names]
            values = {
                "Maximum": [r.whisker_high for r in rows],
                "Q3": [r.q3 for r in rows],
                "Median": [r.median for r in rows],
                "Q1": [r.q1 for r in rows],
                "Minimum": [r.whisker_low for r in rows],
            }
            if unit_ns is not None:
                values = {metric: [float(np.round(x / unit_ns)) for x in row] for metric, row in values.items()}
            found[result.exchange] = values
        return found

    exact = tables(None)
    changes = scores.fragility(exact, names)
    for unit, text in ((1e3, "rounded to 1 µs"), (1e4, "rounded to 10 µs"), (1e6, "rounded to 1 ms, as the study did")):
        rounded = scores.score(tables(unit), names)
        changes.append(scores.Change(text, tuple(float(x) for x in rounded.final_exact), rounded.order()))
    return scores.score(exact, names), changes


# Live runs


def live_result(
    results: ResultFolder, name: str, runs: list[LoadedRun], problems: list[Problem]
) -> live.LiveResult | None:
    record = runs[0].record
    runs = with_events(runs, problems)
    if not runs:
        return None
    database = matching.open_store(results.path)
    try:
        found = live.summarise(
            database,
            name,
            record.settings,
            {run.own.connector: run.files for run in runs},
            {run.own.connector: len(outages_of(database, run)) for run in runs},
            {run.own.connector: realtime_offset_ns(run.captures) for run in runs},
            {name: ClockLine(**host["clock"]) for name, host in record.hosts.items() if host["clock"]},
        )
    finally:
        database.close()
    if found is None:
        text = "no message arrived at every connector; name members that differ per connection in `ignore`"
        problems.append(Problem(record.id, "", text))
    elif (path := record.settings["event_time"]) and not any(arrivals.since_event for arrivals in found.arrivals):
        text = f"no message has the sender's time at {path!r}; name its path in `event_time`"
        problems.append(Problem(record.id, "", text))
    return found


def realtime_offset_ns(captures: list[Capture]) -> int:
    """CLOCK_REALTIME minus CLOCK_MONOTONIC: the median of the clock rows."""
    offsets = [realtime - (before + after) // 2 for c in captures for before, realtime, after in c.clocks]
    return int(np.median(offsets)) if offsets else 0


# Events above a second


def read_series(results: ResultFolder) -> np.ndarray:
    """The machine's time series: one row per second, columns of `SERIES_COLUMNS`."""
    try:
        rows = np.genfromtxt(results.path / "machine.csv", delimiter=",", names=True, invalid_raise=False)
    except (OSError, ValueError):
        return np.empty((0, len(SERIES_COLUMNS)))
    return np.atleast_2d(np.array([list(row) for row in np.atleast_1d(rows)]))


# JSON


def plain(value: Any) -> Any:
    """Converts dataclasses, numpy numbers and quantile keys for JSON."""
    if isinstance(value, Study):
        return value.model_dump()
    if isinstance(value, Noise):
        return {
            "core": value.core,
            "lost_percent": value.lost_percent,
            "longest_gap_ns": value.longest_ns,
            "floor_ns": {summary.quantile_name(q): value.floor_ns(q) for q in summary.QUANTILES},
        }
    if isinstance(value, scores.Scoring):
        return {
            "connectors": list(value.languages),
            "metric_scores": {m: [str(x) for x in row] for m, row in value.metric_scores.items()},
            "final_scores": [str(x) for x in value.final_scores],
        }
    if isinstance(value, RunRecord):
        return asdict(value)
    if is_dataclass(value):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, dict):
        return {summary.quantile_name(k) if isinstance(k, float) else k: plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, float) and not np.isfinite(value):
        return None
    if isinstance(value, np.generic):
        return plain(value.item())
    return value


def to_json(results: Results) -> str:
    return json.dumps({"format": 1, **plain(results)}, indent=1, ensure_ascii=False)
