"""Writes `report.html`, `report.json`, the CSV tables and the figures of a publication study."""

from pathlib import Path

from markupsafe import Markup

from lab import figures
from lab.publication.analysis import COSTS, CPU, LATENCY, MEASURES, Level, Measure, Results, Row, TestResult, to_json
from lab.publication.publishers import OURS
from lab.records import ResultFolder
from lab.report import FigureItem, render, write_csv
from lab.tables import Cell, Table, p_value, rank_text

FEW_BLOCKS = 10


def number(value: float, digits: int) -> str:
    return f"{value:,.{digits}f}"


def cell(level: Level | None, measure: Measure) -> Cell:
    """A median with its interval, or alone if the runs do not differ."""
    if level is None:
        return "n/a"
    low, high = number(level.interval.low, measure.digits), number(level.interval.high, measure.digits)
    if level.interval.low == level.interval.high:
        return number(level.value, measure.digits)
    return Markup(f"{number(level.value, measure.digits)} <small>{low} to {high}</small>")


def by_latency(rows: list[Row]) -> list[Row]:
    """Rows in order of p50; a publisher without a run comes last."""
    return sorted(rows, key=lambda row: row.levels["p50_us"].value if "p50_us" in row.levels else float("inf"))


def load_of(result: TestResult) -> str:
    test = result.test
    texts = {
        "echo": f"{test.rate:,} messages of {test.bytes:,} bytes a second, echoed",
        "heartbeat": f"a heartbeat per second and client, {test.messages} answers of {test.bytes:,} bytes each",
        "fan-out": f"{test.rate:,} messages of {test.bytes:,} bytes a second to every client",
        "queue": f"{test.rate:,} messages of {test.bytes:,} bytes a second from a queue to every client with the token",
    }
    return f"{test.connections:,} clients; {texts[test.kind]}"


def main_table(result: TestResult) -> Table:
    shown = [m for m in MEASURES if any(m.id in row.levels for row in result.rows)]
    rows: list[list[Cell]] = []
    for row in by_latency(result.rows):
        rank = "n/a" if row.rank.low != row.rank.low else rank_text(row.rank)
        cells: list[Cell] = [row.publisher, rank, *(cell(row.levels.get(m.id), m) for m in shown)]
        runs = f"{row.runs}" + (f", {row.failed} failed" if row.failed else "")
        rows.append([*cells, f"{row.deliveries:,}", ", ".join(row.defects) or "none", runs])
    return Table(
        f"test-{result.test.name}",
        f"{result.test.name}: {load_of(result)}; {result.test.seconds:g} s per run, "
        f"after {result.test.warm_up_s:g} s of warm-up.",
        ["publisher", "rank", *(m.label for m in shown), "messages received", "errors", "runs"],
        rows,
        "Medians over the runs, with 95 % intervals from a bootstrap over the blocks. Latency counts from the time at "
        "which a message was due. Memory is the highest resident size of all processes of the publisher. Rank: 95 % of "
        "the bootstrap draws place p50 there. Errors and messages are sums over the runs.",
    )


def limit_table(result: TestResult) -> Table:
    rows: list[list[Cell]] = []
    for row in sorted(result.rows, key=lambda row: -(row.limit or 0)):
        limit = "n/a" if row.limit is None else f"{row.limit:,}"
        rows.append([row.publisher, limit, row.limited_by or "n/a", cell(row.levels.get(CPU.id), CPU), f"{row.runs}"])
    return Table(
        f"limit-{result.test.name}",
        f"{result.test.name}: most clients without an error; {load_of(result).partition('; ')[2]}.",
        ["publisher", "clients", "first problem beyond", CPU.label, "runs"],
        rows,
        "`pitwire load --find-limit` doubles the clients until a step fails, then halves the interval. The lowest of "
        "all runs. “generator”: the load client was the limit, and the publisher carries more.",
    )


def difference_table(result: TestResult) -> Table:
    labels = {m.id: m for m in (*LATENCY, CPU)}
    rows: list[list[Cell]] = []
    for d in result.differences:
        m = labels[d.measure]
        shift = cell(Level(d.shift, d.interval_95), Measure(m.id, m.label, m.digits))
        verdict = Markup('<b class="{}">{}</b>').format(d.verdict, d.verdict)
        margin = number(d.margin, m.digits)
        rows.append([d.publisher, m.label, shift, margin, p_value(d.p_difference), p_value(d.p_equivalence), verdict])
    return Table(
        f"differences-{result.test.name}",
        f"{result.test.name}: difference to {OURS}, paired by block. Positive: {OURS} needs less.",
        ["publisher", "figure", "difference", "margin", "p of a difference", "p of equivalence", "verdict"],
        rows,
        "Hodges-Lehmann estimates with 95 % bootstrap intervals. Paired t tests, adjusted by Holm for each figure.",
    )


def cross_check_table(result: TestResult) -> Table:
    rows: list[list[Cell]] = []
    for row in by_latency(result.rows):
        other = result.cross_check.get(row.publisher)
        if other is None:
            continue
        cells: list[Cell] = [row.publisher]
        for m in LATENCY:
            cells += [cell(row.levels.get(m.id), m), cell(other.get(m.id), m)]
        errors = other["errors"].value if "errors" in other else float("nan")
        rows.append([*cells, f"{errors:,.0f}"])
    return Table(
        f"cross-check-{result.test.name}",
        f"{result.test.name}, repeated with Artillery.",
        ["publisher", *(f"{m.label}: {who}" for m in LATENCY for who in ("pitwire load", "Artillery")), "its errors"],
        rows,
        "Artillery sends a message after the echo of the last one, and takes its time in JavaScript. Its figures leave "
        "out the wait for a server that stalls, and contain its own event loop. They confirm that every publisher "
        "answers. They do not replace the other figures.",
    )


def tables_of(result: TestResult) -> list[Table]:
    if result.test.find_limit:
        return [limit_table(result)]
    found = [main_table(result)]
    if result.differences:
        found.append(difference_table(result))
    if result.cross_check:
        found.append(cross_check_table(result))
    return found


def figures_of(result: TestResult, host: str) -> list[FigureItem]:
    """Figures of one test. Each caption names the runs and the host."""
    origin = f"{result.test.name}: {load_of(result)}; {result.blocks} blocks; host {host}."

    def item(id_: str, caption: str, svg: str) -> FigureItem:
        return FigureItem(f"{result.test.name}-{id_}", f"{caption} {origin}", Markup(svg))

    found = []
    if result.test.find_limit:
        limits = {row.publisher: None if row.limit is None else float(row.limit) for row in result.rows}
        if any(limits.values()):
            found.append(item("limit", "Most clients without an error.", figures.bars(limits, "clients")))
        return found
    for m in LATENCY:
        rows = [
            (row.publisher, level.value * 1e3, level.interval.low * 1e3, level.interval.high * 1e3)
            for row in result.rows
            if (level := row.levels.get(m.id)) is not None
        ]
        if rows:
            caption = f"{m.label.partition(',')[0]} with its 95 % interval."
            found.append(item(m.id, caption, figures.dots(rows, "latency")))
    for m in COSTS[:3]:
        values = {row.publisher: row.levels[m.id].value for row in result.rows if m.id in row.levels}
        if values and m.id != "server_cpu_s":
            found.append(item(m.id, f"{m.label.partition(',')[0]}.", figures.bars(values, m.label)))
    return found


def answer(results: Results) -> list[str]:
    """The result in a few sentences, each of which follows from a table."""
    found = []
    for result in results.tests:
        name = result.test.name
        if result.test.find_limit:
            limits = sorted(((row.limit, row.publisher) for row in result.rows if row.limit is not None), reverse=True)
            if limits:
                (most, best), (least, worst) = limits[0], limits[-1]
                found.append(f"{name}: from {least:,} ({worst}) to {most:,} ({best}) clients without an error.")
            continue
        rows = [row for row in by_latency(result.rows) if "p50_us" in row.levels]
        if not rows:
            continue
        clean = [row.publisher for row in result.rows if row.runs and not row.failed and not row.defects]
        low, high = rows[0], rows[-1]
        cheap = min(rows, key=lambda row: row.levels[CPU.id].value)
        found.append(
            f"{name}: p50 lies between {number(low.levels['p50_us'].value, 0)} µs ({low.publisher}) and "
            f"{number(high.levels['p50_us'].value, 0)} µs ({high.publisher}). {cheap.publisher} needs the least CPU, "
            f"{number(cheap.levels[CPU.id].value, 2)} µs per message. "
            f"{len(clean)} of {len(result.rows)} publishers had no error."
        )
    flagged = results.statuses().get("flagged", 0)
    if flagged:
        found.append(
            f"{flagged} of {len(results.records)} runs are flagged as noisy. They are included. Do not publish their "
            "figures."
        )
    return found


def threats(results: Results) -> list[str]:
    """Limits of validity, with this study's own figures."""
    environment = results.description["environment"]
    cores = results.description["cores"]
    rows = [
        "All traffic stays on loopback, so it has no TLS, no packet loss and no network distance.",
        f"One machine with {environment['cores']} usable cores ({environment['cpu_model'] or 'unknown CPU'}).",
        "Each library runs with its defaults. A tuned program may change the order.",
        "The listeners of all publishers have cubic congestion control and a backlog of 4,096.",
    ]
    if cores["publisher"] == cores["load client"]:
        rows.append("Publisher and load client share all cores, so an expensive publisher also delays its measurement.")
    rows += [
        f"{result.test.name}: {result.blocks} blocks are few; use {FEW_BLOCKS} or more for anything that is published."
        for result in results.tests
        if result.rows and result.blocks < FEW_BLOCKS and not result.test.find_limit
    ]
    return rows


def write(results: Results, folder: ResultFolder, command: str) -> Path:
    """Writes report.html, report.json, tables/*.csv and figures/*.svg, and returns the path of the
    page.

    # Raises
    OSError if a file cannot be written.
    """
    host = results.description["environment"]["host"]
    sections = [(result, tables_of(result), figures_of(result, host)) for result in results.tests if result.rows]
    (folder.path / "figures").mkdir(exist_ok=True)
    for _, tables, pictures in sections:
        for table in tables:
            write_csv(folder.path / "tables", table)
        for item in pictures:
            (folder.path / "figures" / f"{item.id}.svg").write_text(item.svg + "\n")
    (folder.path / "report.json").write_text(to_json(results) + "\n")
    return render(
        "publication.html",
        results,
        folder,
        command,
        sections=sections,
        answer=answer(results),
        threats=threats(results),
        problems=[record for record in results.records if record.reasons],
    )
