"""Writes one Markdown page from a publication study: claims with interval and method."""

import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from lab.page import Claim, claim_lines, listed, markdown, p_at_most, table_text, without, wrapped
from lab.publication.analysis import CPU, LATENCY, Difference, Measure, Results, Row, TestResult
from lab.publication.publishers import OURS
from lab.publication.report import by_latency, load_of, number, tables_of, threats
from lab.tables import Cell

FIGURES = ("p50_us", CPU.id, "limit")
NAMES = {"p50_us": "median latency", "p99_us": "p99 of latency", CPU.id: "CPU time per message"}


def write(results: Results, results_folder: Path, folder: Path, name: str, title: str, command: str) -> Path:
    """Writes `folder/NAME.md` and the folder `folder/NAME` with tables and figures.

    The report of the study must exist, because its tables and figures are copied.

    # Raises
    OSError if a file cannot be written.
    """
    own = folder / name
    if own.exists():
        shutil.rmtree(own)
    own.mkdir(parents=True)
    sections = [result for result in results.tests if result.rows]
    lines = [f"# {title}", "", *opening(results), "", "## Claims", ""]
    lines += wrapped(
        "Each claim has its interval or p value, and its method in italics. Latency counts from the time at which a "
        "message was due. The unit is the run, and runs are paired by block."
    )
    for result in sections:
        start = "from " if result.test.find_limit else ""
        lines += ["", *wrapped(f"Test {result.test.name}, {start}{load_of(result)}:"), ""]
        lines += claim_lines(claims_of(result))
    for result in sections:
        lines += ["", *section(result, results_folder, own)]
    lines += ["", *remarks(results), "", "## Limits", ""]
    lines += [line for row in threats(results) for line in wrapped(f"- {row}", "  ")]
    lines += ["", *reproduce(results, name, command)]
    path = folder / f"{name}.md"
    path.write_text("\n".join(lines) + "\n")
    return path


def opening(results: Results) -> list[str]:
    """When and where the study ran, and which publishers took part."""
    about = results.description
    environment = about["environment"]
    day = datetime.fromtimestamp(about["started_realtime_ns"] / 1e9, UTC).strftime("%d %B %Y").lstrip("0")
    text = (
        f"On {day}, the study {results.study.name} of the [publication comparison](../lab-publishers.md) ran on one "
        "machine. `lab publication page` wrote this page from the results, so every figure and every claim below "
        f"follows from the tables in the folder beside it. {OURS} runs with its default settings, and stands in the "
        "same tables as the other publishers."
    )
    statuses = ", ".join(f"{count} {status}" for status, count in results.statuses().items())
    minutes = sum(record.duration_s for record in results.records) / 60
    load = [record.other_load_percent for record in results.records]
    runs = (
        f"{len(results.records)} ({statuses}) in {minutes:.0f} minutes; other programs used {min(load):.0f} % to "
        f"{max(load):.0f} % of the CPU, steal up to {max(r.steal_percent for r in results.records):.1f} %"
    )
    rows: list[list[Cell]] = [
        [
            "machine",
            f"{environment['cores']} cores, {environment['cpu_model'] or 'unknown CPU'}, Linux {environment['kernel']}",
        ],
        ["programs", f"commit {about['versions']['commit'][:8]}"],
        ["runs", runs],
    ]
    publishers: list[list[Cell]] = [
        [name, found["language"], f"{found['library']} {found['version']}", ", ".join(found["tests"])]
        for name, found in about["publishers"].items()
    ]
    lines = [*wrapped(text), "", *markdown(["", ""], rows), ""]
    lines += markdown(["publisher", "language", "library", "tests"], publishers)
    if about["unavailable"]:
        missing: list[list[Cell]] = [[name, reason] for name, reason in about["unavailable"].items()]
        lines += ["", "This machine could not run:", "", *markdown(["publisher", "reason"], missing)]
    return lines


def section(result: TestResult, results_folder: Path, own: Path) -> list[str]:
    """Tables of one test, and those of its figures that the page shows."""
    test = result.test.name
    lines = [f"## Test {test}"]
    for table in tables_of(result):
        shutil.copy(results_folder / "tables" / f"{table.id}.csv", own)
        lines += ["", *table_text(without(table, "CPU, s"), own.name)]
    for figure in FIGURES:
        picture = results_folder / "figures" / f"{test}-{figure}.svg"
        if picture.exists():
            shutil.copy(picture, own)
            what = "most clients without an error" if figure == "limit" else NAMES[figure]
            lines += ["", f"![{what[0].upper()}{what[1:]}, {test}]({own.name}/{picture.name})"]
    return lines


def remarks(results: Results) -> list[str]:
    """Runs with a flag, counted by reason, and failed runs one by one."""
    study = results.study
    lines = ["## Runs with a remark", ""]
    lines += wrapped(
        f"A run has a flag if other programs used more than {study.other_load_percent:g} % of the CPU, if the steal "
        f"was above {study.steal_percent:g} %, or if the load client was the limit. Flagged runs count. A failed run "
        "has no figures."
    )
    flags = {
        "other programs": "other programs used",
        "steal": "steal",
        "load client was the limit": "the load client was",
        "listener kept other options": "the listener kept",
    }
    rows: list[list[Cell]] = []
    for test in study.test:
        records = [record for record in results.records if record.test == test.name]
        if records:
            counts = [sum(any(x.startswith(start) for x in r.reasons) for r in records) for start in flags.values()]
            failed = sum(record.status == "failed" for record in records)
            rows.append([test.name, *(f"{count}" for count in (len(records), failed, *counts))])
    lines += ["", *markdown(["test", "runs", "failed", *flags], rows)]
    failures = [record for record in results.records if record.status == "failed"]
    if failures:
        lines += ["", *(line for r in failures for line in wrapped(f"- {r.id}: {'; '.join(r.reasons)}", "  "))]
    return lines


def reproduce(results: Results, name: str, command: str) -> list[str]:
    page = f"lab/.venv/bin/lab publication page lab/studies/{results.study.name}.toml --name {name}"
    text = "The tables are in the folder beside this page. The records of the runs are not in the repository."
    return ["## Reproduce", "", "```sh", command, page, "```", "", *wrapped(text)]


# Claims


def claims_of(result: TestResult) -> list[Claim]:
    if result.test.find_limit:
        return limit_claims(result)
    found = []
    for measure in (LATENCY[0], CPU):
        found += lowest_claim(result, measure)
    for measure in (*LATENCY, CPU):
        found += own_claims(result, measure)
    return [*found, *error_claims(result), *cross_check_claims(result)]


def lowest_claim(result: TestResult, measure: Measure) -> list[Claim]:
    """The publishers with the lowest and the highest value."""
    rows = sorted(
        (row for row in result.rows if measure.id in row.levels), key=lambda row: row.levels[measure.id].value
    )
    if len(rows) < 2:
        return []

    def value(row: Row) -> str:
        level = row.levels[measure.id]
        low, high = (number(end, measure.digits) for end in (level.interval.low, level.interval.high))
        interval = "" if result.blocks == 1 else f" ({low} to {high})"
        return f"{number(level.value, measure.digits)} µs{interval}, of {row.publisher}"

    support = f"medians over the runs, with 95 % intervals from a bootstrap over {result.blocks} blocks"
    return [
        Claim(
            f"The lowest {NAMES[measure.id]} is {value(rows[0])}. The highest is {value(rows[-1])}.",
            "one run of each publisher, without an interval" if result.blocks == 1 else support,
        )
    ]


def own_claims(result: TestResult, measure: Measure) -> list[Claim]:
    """Ours against every other publisher, by one figure."""
    own = [d for d in result.differences if d.measure == measure.id]
    if not own:
        return []

    def span(found: Sequence[Difference]) -> str:
        low, high = min(abs(d.shift) for d in found), max(abs(d.shift) for d in found)
        ends = number(low, measure.digits), number(high, measure.digits)
        return f"{ends[0]} µs" if ends[0] == ends[1] else f"{ends[0]} to {ends[1]} µs"

    claims = []
    for verb, sign in (("lower", 1), ("higher", -1)):
        found = [d for d in own if d.verdict == "different" and sign * d.shift > 0]
        if found:
            p = p_at_most([d.p_difference for d in found])
            claims.append(
                Claim(
                    f"The {NAMES[measure.id]} of {OURS} is {verb} than that of "
                    f"{listed([d.publisher for d in found])}, by {span(found)}.",
                    f"Hodges-Lehmann shifts over {result.blocks} blocks; paired t tests, {p}, adjusted by Holm",
                )
            )
    margin = number(own[0].margin, measure.digits)
    equal = [d for d in own if d.verdict == "equivalent"]
    if equal:
        p = p_at_most([d.p_equivalence for d in equal])
        claims.append(
            Claim(
                f"The {NAMES[measure.id]} of {OURS} is equivalent within ±{margin} µs to that of "
                f"{listed([d.publisher for d in equal])}.",
                f"two one-sided paired t tests and the 90 % interval of the bootstrap; {p}, adjusted by Holm",
            )
        )
    rest = [d for d in own if d.verdict == "unresolved"]
    if rest:
        claims.append(
            Claim(
                f"The {NAMES[measure.id]} of {OURS} cannot be separated from that of "
                f"{listed([d.publisher for d in rest])}: neither different nor equivalent within ±{margin} µs.",
                f"the same tests; shifts of {signed_span(rest, measure)}",
            )
        )
    return claims


def signed_span(found: Sequence[Difference], measure: Measure) -> str:
    low, high = (number(end, measure.digits) for end in (min(d.shift for d in found), max(d.shift for d in found)))
    return f"{low} µs" if low == high else f"{low} to {high} µs"


def error_claims(result: TestResult) -> list[Claim]:
    clean = [row.publisher for row in result.rows if row.runs and not row.failed and not row.defects]
    rest = [row for row in result.rows if row.publisher not in clean]
    text = f"Without an error: {listed(clean)}." if clean else "No publisher was without an error."
    if rest:
        each = [f"{row.publisher} ({listed(problems(row))})" for row in rest]
        text += f" With errors: {listed(each)}."
    return [Claim(text, "counts of the load client over all runs. Late: more than 1 s after the due time")]


def problems(row: Row) -> list[str]:
    """Failed runs and errors as text, such as "1 run failed" and "3 lost"."""
    failed = f"{row.failed} {'run' if row.failed == 1 else 'runs'} failed"
    return [failed, *row.defects] if row.failed else row.defects


def limit_claims(result: TestResult) -> list[Claim]:
    rows = sorted((row for row in result.rows if row.limit is not None), key=lambda row: -(row.limit or 0))
    if not rows:
        return []
    by_generator = [row.publisher for row in rows if row.limited_by == "generator"]
    text = f"{rows[0].publisher} serves the most clients without an error, {rows[0].limit:,}."
    if len(rows) > 1:
        text += f" {rows[-1].publisher} serves the fewest, {rows[-1].limit:,}."
    if by_generator:
        text += f" The load client was the limit of {listed(by_generator)}."
    searches = "one search" if result.test.blocks == 1 else f"the lowest of {result.test.blocks} searches"
    support = f"steps of {result.test.seconds:g} s, to a tenth of the carried load; {searches}, without an interval"
    return [Claim(text, support)]


def cross_check_claims(result: TestResult) -> list[Claim]:
    pairs = [
        (row.publisher, result.cross_check[row.publisher]["p50_us"].value / row.levels["p50_us"].value)
        for row in by_latency(result.rows)
        if "p50_us" in row.levels and "p50_us" in result.cross_check.get(row.publisher, {})
    ]
    if not pairs:
        return []
    errors = sum(found["errors"].value for found in result.cross_check.values() if "errors" in found)
    low, high = min(ratio for _, ratio in pairs), max(ratio for _, ratio in pairs)
    return [
        Claim(
            f"Artillery gets the echoes of {len(pairs)} publishers, with {errors:,.0f} errors. Its median is "
            f"{low:.1f} to {high:.1f} times that of `pitwire load`.",
            "medians over the runs, also of the errors, without an interval. Artillery has one JavaScript thread, and "
            "waits for each echo",
        )
    ]
