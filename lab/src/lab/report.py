"""Writes `report.html`, `report.json`, the CSV tables and the SVG figures of a study."""

import csv
import hashlib
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from lab import analysis, effects, figures, summary, tables
from lab.analysis import Results, TimedResult
from lab.records import ResultFolder
from lab.tables import Table, by_median, title_of, us

MOST_LINES = 12  # connectors in a figure with one line or panel for each


@dataclass(frozen=True)
class FigureItem:
    id: str
    caption: str
    svg: Markup


def answer(results: Results) -> list[str]:
    """The result in a few sentences, each of which follows from a table."""
    found = []
    for result in results.timed:
        rate = title_of(result)
        ordered = by_median(result)
        fastest, slowest = ordered[0], ordered[-1]
        low, high = us(fastest.quantiles[0.5]), us(slowest.quantiles[0.5])
        found.append(
            f"At {rate}, the median response latency lies between {low} µs ({fastest.connector}) "
            f"and {high} µs ({slowest.connector})."
        )
        pairs = result.comparison.pairs
        counts = {v: sum(p.verdict == v for p in pairs) for v in ("equivalent", "different", "unresolved")}
        margin = us(result.comparison.margin, 0)
        if pairs and len(result.blocks) > 1:
            found.append(
                f"Verdicts on {len(pairs)} pairs: {counts['equivalent']} equivalent within ±{margin} µs, "
                f"{counts['different']} different, {counts['unresolved']} not resolved by {len(result.blocks)} blocks."
            )
            if like := like_the_lowest(result):
                found.append(f"The median of {fastest.connector} cannot be separated from that of {', '.join(like)}.")
        detectable = result.comparison.minimum_detectable
        if detectable is not None:
            found.append(f"Differences below {us(detectable)} µs may go unnoticed at this rate with this many blocks.")
    found += load_sentences(results)
    flagged = results.statuses().get("flagged", 0)
    if flagged:
        found.append(
            f"{flagged} of {len(results.records)} runs are flagged as noisy. They are included, because the study file "
            "says so. Their figures describe this machine at that time, and not the libraries on other machines."
        )
    if results.joined:
        total = sum(j.throughput.messages for j in results.joined)
        lost = sum(c.missing for j in results.joined for c in j.counts)
        found.append(
            f"The joined runs captured {total:,} messages; {lost:,} of those sent to an open connection are missing."
        )
    for run in results.live:
        first = max(run.arrivals, key=lambda a: a.first_percent)
        found.append(
            f"Of {run.matched:,} messages from {run.name}, {first.connector} was the first to receive "
            f"{first.first_percent:.0f} %."
        )
    return found


def like_the_lowest(result: TimedResult) -> list[str]:
    """The connectors whose median cannot be separated from the lowest one, ordered by median.

    Their verdict is "unresolved" or "equivalent".
    """
    first, *others = [level.connector for level in by_median(result)]
    different = {frozenset((p.a, p.b)) for p in result.comparison.pairs if p.verdict == "different"}
    return [name for name in others if frozenset((first, name)) not in different]


def load_sentences(results: Results) -> list[str]:
    """The rates at which a median exceeds twice its value at the lowest rate."""
    ordered = effects.load_group(results.timed)
    if len(ordered) < 2:
        return []
    lowest = {level.connector: level.quantiles[0.5] for level in ordered[0].comparison.levels}
    found = []
    for result in ordered[1:]:
        slow = sorted(
            level.connector
            for level in result.comparison.levels
            if level.connector in lowest and level.quantiles[0.5] > 2 * lowest[level.connector]
        )
        if slow:
            found.append(
                f"At {result.settings['rate']:,} messages a second, the median of {', '.join(slow)} exceeds twice its "
                f"value at {ordered[0].settings['rate']:,}."
            )
    if not found:
        rates = f"{ordered[0].settings['rate']:,} to {ordered[-1].settings['rate']:,}"
        found.append(f"From {rates} messages a second, no median doubles.")
    return found


def threats(results: Results) -> list[str]:
    """Limits of validity, with this study's own figures."""
    environment = results.description["environment"]
    secure = [t.name for t in results.study.timed if t.tls] + [j.exchange for j in results.study.joined if j.tls]
    encrypted = f"TLS is used in {', '.join(secure)}" if secure else "TLS is not used"
    varied = [n for n, about in results.description["connectors"].items() if about.get("base")]
    tuned = f", except {', '.join(varied)}" if varied else ""
    rows = [
        f"Loopback is not the Internet: it has neither packet loss nor distance. {encrypted}.",
        f"One machine with {environment['cores']} usable cores ({environment['cpu_model'] or 'unknown CPU'}). "
        "Another CPU or kernel may change the order.",
        f"Each library runs with the settings that it documents{tuned}. Other settings may change the order.",
        "Each table has one distribution of message sizes. Each process has one connection and does not parse the "
        "content.",
        "Joined runs start all connectors on the same cores. They show which messages arrive at which connector, and "
        "they are never compared with timed runs.",
    ]
    if results.live:
        rows.append(
            "A live server serves each connection separately, and the connectors share the cores and the network. So a "
            "difference between two of them need not come from their libraries."
        )
    few = sorted({len(result.blocks) for result in results.timed if len(result.blocks) < 10})
    if few:
        rows.append(f"{' or '.join(map(str, few))} blocks are few: use 30 for anything that is published.")
    unsteady = sum(cost.unsteady_runs for result in results.timed for cost in result.costs)
    if unsteady:
        timed = sum(level.runs for result in results.timed for level in result.comparison.levels)
        rows.append(f"In {unsteady} of {timed} timed runs, the median drifted during the measured window.")
    for result in results.timed:
        below = below_reference(result)
        if below:
            rows.append(
                f"At {title_of(result)}, some medians are below that of the reference receiver, by the time in "
                f"parentheses: {', '.join(below)}. No library can be faster than the reference receiver. This is noise "
                "between runs, so smaller differences at this rate mean nothing."
            )
    if any(r.cores_shared for r in results.records):
        rows.append("Feed and connectors shared a core in some runs.")
    elif environment["cores"] < 3:
        rows.append("The writer of each connector shares its core with the receive path.")
    return rows


def below_reference(result: TimedResult) -> list[str]:
    """The connectors with a median below that of the reference receiver, and by how much."""
    if result.reference is None:
        return []
    floor = result.reference.quantiles.get(0.5, 0.0)
    return [
        f"{level.connector} ({us(floor - level.quantiles[0.5])} µs)"
        for level in by_median(result)
        if level.quantiles[0.5] < floor
    ]


def with_few_lines(results: Results, result: TimedResult) -> tuple[TimedResult, str]:
    """The result with few enough connectors for figures with one line for each, and a remark.

    If there are too many, only the connector with the lowest median of each language is kept.
    """
    names = [level.connector for level in by_median(result)]
    if len(names) <= MOST_LINES:
        return result, ""
    first: dict[str, str] = {}
    for name in names:
        first.setdefault(results.description["connectors"][name]["language"], name)
    shown = set(first.values())
    pairs = [pair for pair in result.comparison.pairs if {pair.a, pair.b} <= shown]
    few = replace(
        result,
        comparison=replace(result.comparison, pairs=pairs),
        ecdf={name: points for name, points in result.ecdf.items() if name in shown},
        timeline={name: rows for name, rows in result.timeline.items() if name in shown},
        heat=[one for one in result.heat if one.connector in shown],
    )
    return few, "Shown: the lowest median of each language. "


def figure_list(results: Results, series: Any) -> dict[str, list[FigureItem]]:
    """Figures by section. Each caption names n, runs, mode, host and noise floor."""
    host = results.description["environment"]["host"]
    found: dict[str, list[FigureItem]] = {"load": [], "joined": [], "machine": []}

    def item(section: str, id_: str, caption: str, svg: str) -> None:
        found.setdefault(section, []).append(FigureItem(id_, caption, Markup(svg)))

    for result in results.timed:
        runs, n = len(result.blocks), result.comparison.levels[0].values
        origin = (
            f"Timed runs, {title_of(result)}, {runs} runs and {n:,} messages per connector, "
            f"host {host}, noise floor at p99 {us(results.floor_ns(0.99))} µs."
        )
        key = f"timed-{result.name}"
        floor = {q: results.floor_ns(q) for q in summary.QUANTILES}
        item(key, f"{key}-levels", f"Median with its 95 % interval. {origin}", figures.levels(result, 0.5))
        drawn, which = with_few_lines(results, result)
        caption = f"Distribution of the response latency. {which}{origin}"
        item(key, f"{key}-ecdf", caption, figures.ecdf(drawn.ecdf))
        if result.drains:
            speed = {d.connector: result.settings["batch"] / d.median * 1e9 for d in result.drains}
            caption = f"Messages a second while a batch is received; medians over runs. {origin}"
            item(key, f"{key}-drain", caption, figures.bars(speed, "messages per second"))
        cpu = {c.connector: c.cpu_us_per_message for c in result.costs}
        if any(v is not None for v in cpu.values()):
            item(key, f"{key}-cpu", f"CPU time per message. {origin}", figures.bars(cpu, "CPU, µs per message"))
        if runs < 2:
            continue  # one block shows only the effect of the load
        if len(result.comparison.levels) > 1:
            caption = f"Intervals of the rank that cover 95 % of the bootstrap draws. {origin}"
            item(key, f"{key}-ranks", caption, figures.ranks(result))
        caption = f"Percentiles on an axis of nines. {which}{origin}"
        item(key, f"{key}-nines", caption, figures.nines(drawn.ecdf, floor))
        reference = by_median(result)[0].connector
        if len(result.comparison.levels) > 1:
            caption = f"Shift to {reference} at the deciles, with simultaneous 95 % bands. "
            caption += "Shaded: the margin, where the axis is linear. "
            item(key, f"{key}-shift", f"{caption}{which}{origin}", figures.shifts(drawn, reference))
        caption = f"Classic box plots; whiskers at 1.5 IQR. {origin}"
        item(key, f"{key}-boxes", caption, figures.boxes(result.five_numbers))
        item(key, f"{key}-timeline", f"Median over time. {which}{origin}", figures.timeline(drawn))
        caption = (
            "Latency over time in the first block; dark: many messages. Triangles: pauses of the garbage collector. "
            f"Ticks at the bottom: writes to the capture file. {which}{origin}"
        )
        item(key, f"{key}-heat", caption, figures.heat(drawn.heat))
        opening = {c.connector: c.start_to_open_ms for c in result.costs}
        if any(v is not None for v in opening.values()):
            caption = f"From process start to open connection. {origin}"
            item(key, f"{key}-start", caption, figures.bars(opening, "milliseconds"))
    group = effects.load_group(results.timed)
    if len(group) > 1:
        for quantile in (0.5, 0.99):
            if any(quantile in level.quantiles for r in group for level in r.comparison.levels):
                name = summary.quantile_name(quantile)
                caption = f"Latency at {name} against the offered rate, with 95 % intervals. Timed runs, host {host}."
                item("load", f"load-{name}", caption, figures.load_curves(group, quantile))
        if any(cost.cpu_us_per_message is not None for r in group for cost in r.costs):
            caption = f"CPU time per message against the offered rate. Timed runs, host {host}."
            item("load", "load-cpu", caption, figures.cost_curves(group))
    for j in results.joined:
        origin = (
            f"Joined run, {j.exchange}, {j.throughput.per_second_per_connector:,.0f} messages a second, "
            f"{j.matched:,} matched events, "
            f"host {host}."
        )
        item(
            "joined",
            f"joined-{j.exchange}-boxes",
            f"Box plots (Figure 9 of the study). {origin}",
            figures.boxes(j.five_numbers),
        )
        item(
            "joined",
            f"joined-{j.exchange}-ecdf",
            f"Distribution of the response latency. {origin}",
            figures.ecdf(j.ecdf),
        )
    if len(series) > 1:
        item(
            "machine",
            "machine",
            f"Load, disk, network and change of the clock offset of host {host}.",
            figures.machine(series),
        )
    return found


def checksums(results: ResultFolder) -> list[list[str]]:
    """SHA-256 of the records, which name every other file of their run."""
    paths = [results.path / "environment.json", *sorted(results.runs.glob("*/record.json"))]
    return [
        [str(path.relative_to(results.path)), hashlib.sha256(path.read_bytes()).hexdigest()[:16]]
        for path in paths
        if path.exists()
    ]


def write_csv(folder: Path, table: Table) -> None:
    folder.mkdir(exist_ok=True)
    with (folder / f"{table.id}.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(table.head)
        writer.writerows([[Markup(cell).striptags() for cell in row] for row in table.rows])


def render(template: str, results: Any, folder: ResultFolder, command: str, **values: Any) -> Path:
    """Writes report.html from a template and the results of a study, and returns its path.

    # Raises
    OSError if the file cannot be written.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("lab"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    page = environment.get_template(template).render(
        results=results,
        study=results.study,
        description=results.description,
        checksums=checksums(folder),
        command=command,
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        **values,
    )
    path = folder.path / "report.html"
    path.write_text(page)
    return path


def write(results: Results, folder: ResultFolder, command: str) -> Path:
    """Writes report.html, report.json, tables/*.csv and figures/*.svg, and returns the path of the
    page.

    # Raises
    OSError if a file cannot be written.
    """
    sections = []
    for result in results.timed:
        name = f"timed runs at {title_of(result)}"
        sections.append(
            (
                result,
                [
                    tables.level_table(results, result),
                    *tables.drain_table(result),
                    *tables.variant_table(results, result),
                    *tables.pair_tables(result),
                    tables.cost_table(result),
                    tables.classic_table(
                        f"five-{result.name}", f"Five-number summary of {name}.", result.five_numbers, 1e3, "µs"
                    ),
                    tables.normality_table(f"normality-{result.name}", name, result.normality),
                ],
            )
        )
    joined, study = tables.joined_tables(results), tables.published_tables()
    load, live, subject = tables.load_tables(results), tables.live_tables(results), tables.goal_table(results)
    for table in [*(t for _, part in sections for t in part), *load, *subject, *joined, *live, *study]:
        write_csv(folder.path / "tables", table)
    shown = figure_list(results, analysis.read_series(folder))
    (folder.path / "figures").mkdir(exist_ok=True)
    for item in (item for section in shown.values() for item in section):
        (folder.path / "figures" / f"{item.id}.svg").write_text(item.svg + "\n")
    (folder.path / "report.json").write_text(analysis.to_json(results) + "\n")
    return render(
        "report.html",
        results,
        folder,
        command,
        sections=sections,
        load=load,
        goals=subject,
        joined=joined,
        live=live,
        published=study,
        title_of=title_of,
        figures=shown,
        answer=answer(results),
        threats=threats(results),
        messages=sum(c.received for r in results.records for c in r.connectors),
        us=us,
        quantile_name=summary.quantile_name,
        quantiles=summary.QUANTILES,
    )
