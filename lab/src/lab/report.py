"""Writes `report.html`, `report.json` and the CSV tables of a study."""

import csv
import hashlib
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from lab import analysis, figures, published, scores, summary
from lab.analysis import Results, TimedResult
from lab.comparison import Interval, Level
from lab.records import ResultFolder

Cell = str | Markup


@dataclass(frozen=True)
class Table:
    """A table of the report, which is also written as CSV."""

    id: str
    caption: str
    head: list[str]
    rows: list[list[Cell]]
    note: str = ""


@dataclass(frozen=True)
class FigureItem:
    id: str
    caption: str
    svg: Markup


def us(value_ns: float, digits: int = 1) -> str:
    return f"{value_ns / 1e3:,.{digits}f}"


def with_interval(value: float, interval: Interval) -> Markup:
    text = f"{us(value)} <small>{us(interval.low)} to {us(interval.high)}</small>"
    return Markup(text)


def p_value(value: float) -> str:
    if value != value:  # NaN: too few runs
        return "too few runs"
    return "< 0.0001" if value < 1e-4 else f"{value:.4f}"


def optional(value: float | None, digits: int = 2) -> str:
    return "not recorded" if value is None else f"{value:,.{digits}f}"


def quantile_cell(results: Results, level: Level, quantile: float) -> Cell:
    """A quantile with its interval; grey if the noise floor is above half of it."""
    if quantile not in level.quantiles:
        return "too few"
    cell = with_interval(level.quantiles[quantile], level.intervals[quantile])
    if results.floor_ns(quantile) > level.quantiles[quantile] / 2:
        return Markup('<span class="grey">{}</span>').format(cell)
    return cell


def rank_text(interval: Interval) -> str:
    low, high = round(interval.low), round(interval.high)
    return str(low) if low == high else f"{low} to {high}"


def by_median(result: TimedResult) -> list[Level]:
    return sorted(result.comparison.levels, key=lambda level: level.quantiles[0.5])


def level_table(results: Results, result: TimedResult) -> Table:
    costs = {cost.connector: cost for cost in result.costs}
    shown = [q for q in summary.QUANTILES if any(q in level.quantiles for level in result.comparison.levels)]
    rows: list[list[Cell]] = []
    for level in by_median(result):
        cost = costs[level.connector]
        cells: list[Cell] = [level.connector, rank_text(level.rank)]
        cells += [quantile_cell(results, level, q) for q in shown]
        cells += [
            us(level.maximum),
            f"{cost.missing:,} of {cost.sent:,}",
            f"{level.runs}, {level.values // level.runs:,} each",
        ]
        rows.append(cells)
    head = [
        "connector",
        "rank",
        *(f"{summary.quantile_name(q)}, µs" for q in shown),
        "maximum, µs",
        "lost",
        "runs, messages",
    ]
    floors = ", ".join(f"{summary.quantile_name(q)} {us(results.floor_ns(q))} µs" for q in shown)
    return Table(
        f"levels-{result.name}",
        f"Response latency of timed runs at {result.settings['rate']:,} messages a second.",
        head,
        rows,
        "Medians over runs of the per-run quantiles, with 95 % intervals; rank intervals cover 95 % of the bootstrap "
        f"draws. Noise floor: {floors}. Grey: the noise floor is above half of the value. A quantile q is shown only "
        "if every run has at least 100 messages above it.",
    )


def pair_table(result: TimedResult) -> Table:
    rows = [
        [
            f"{p.a} to {p.b}",
            with_interval(p.shift, p.interval_95),
            Markup('<b class="{}">{}</b>').format(p.verdict, p.verdict),
            p_value(p.p_equivalence),
            p_value(p.p_difference),
            f"{p.a_faster:.2f}",
            Markup("{:.2f} <small>{:.2f} to {:.2f}</small>").format(
                p.cliffs_delta, p.cliffs_interval.low, p.cliffs_interval.high
            ),
            p_value(p.mann_whitney_p),
            p_value(p.brunner_munzel_p),
            us(p.wasserstein),
        ]
        for p in result.comparison.pairs
    ]
    found = result.comparison.minimum_detectable
    detectable = "unknown with one block" if found is None else f"{us(found)} µs"
    return Table(
        f"pairs-{result.name}",
        f"Pairs of connectors at {result.settings['rate']:,} messages a second.",
        [
            "pair",
            "shift of p50, µs",
            "verdict",
            "p, equivalence",
            "p, difference",
            "P(first is faster)",
            "Cliff's delta",
            "p, Mann-Whitney",
            "p, Brunner-Munzel",
            "Wasserstein, µs",
        ],
        rows,
        f"Equivalent: the difference lies within ±{us(result.comparison.margin)} µs with 90 % confidence, by bootstrap "
        "and by two one-sided t tests over blocks. Different: 95 % interval and t test exclude zero. p values of the "
        f"two t tests are adjusted by Holm. Minimum detectable difference (80 % power, 5 %): {detectable}. "
        "A positive shift means that the first is faster. Mann-Whitney and Brunner-Munzel compare the per-run medians.",
    )


def cost_table(result: TimedResult) -> Table:
    rows: list[list[Cell]] = [
        [
            c.connector,
            optional(c.cpu_us_per_message),
            optional(c.switches_per_message, 3),
            f"{c.peak_memory_mb:.0f}",
            optional(c.start_to_open_ms, 0),
            f"{c.first_messages_p50_us:,.1f}",
            optional(c.gc_pause_ms, 2),
            f"{c.ring_waits:,}",
            f"{c.unsteady_runs}",
        ]
        for c in result.costs
    ]
    return Table(
        f"costs-{result.name}",
        f"Cost of each connector at {result.settings['rate']:,} messages a second.",
        [
            "connector",
            "CPU, µs per message",
            "context switches per message",
            "peak memory, MB",
            "start to open, ms",
            "p50 of first 1,000, µs",
            "GC pauses, ms per run",
            "waits for the ring",
            "unsteady runs",
        ],
        rows,
        "CPU time and switches of the whole process in the measured window. Start to open: from process start to the "
        "open connection, with the clock handshake. Unsteady: the medians of the slices drift by more than 5 %.",
    )


def classic_table(id_: str, caption: str, five: dict[str, summary.FiveNumbers], unit_ns: float, unit: str) -> Table:
    names = list(five)

    def row(label: str, pick: Any) -> list[Cell]:
        return [label, *(f"{pick(five[n]) / unit_ns:,.1f}" for n in names)]

    return Table(
        id_,
        caption,
        [f"metric, {unit}", *names],
        [
            row("Maximum (whisker)", lambda f: f.whisker_high),
            row("Q3", lambda f: f.q3),
            row("Median", lambda f: f.median),
            row("Q1", lambda f: f.q1),
            row("Minimum (whisker)", lambda f: f.whisker_low),
            row("true maximum", lambda f: f.maximum),
            row("true minimum", lambda f: f.minimum),
            ["values beyond the whiskers", *(f"{five[n].fliers:,}" for n in names)],
            ["messages", *(f"{five[n].n:,}" for n in names)],
        ],
        "Computed as matplotlib's boxplot_stats does. The study of 2020 printed the whiskers as minimum and maximum; "
        "they restate the quartiles.",
    )


def normality_table(id_: str, what: str, found: dict[str, summary.Normality | None]) -> Table:
    rows: list[list[Cell]] = []
    for name, n in found.items():
        if n is None:
            rows.append([name, *["too few or equal values"] + [""] * 6])
            continue
        anderson = "≤ 0.01" if n.anderson_p <= 0.01 else "≥ 0.15" if n.anderson_p >= 0.15 else f"{n.anderson_p:.3f}"
        rows.append(
            [
                name,
                f"{n.shapiro_n:,}",
                f"{n.shapiro_w:.4f}",
                p_value(n.shapiro_p),
                f"{n.n:,}",
                f"{n.dagostino_k2:,.0f}",
                p_value(n.dagostino_p),
                f"{n.anderson_a2:,.1f} (p {anderson})",
            ]
        )
    return Table(
        id_,
        f"Normality tests of {what}. They describe; no result depends on them.",
        ["connector", "Shapiro n", "W", "p", "n", "D'Agostino K²", "p", "Anderson-Darling A²"],
        rows,
        "Shapiro-Wilk is reliable up to 5,000 values, so it sees a seeded sample of that size. With many values every "
        "real distribution fails an exact test.",
    )


def joined_tables(results: Results) -> list[Table]:
    if not results.joined:
        return []
    tables = [
        Table(
            "throughput-all",
            "Messages of all connectors together (Table 6 of the study).",
            ["exchange", "messages", "per minute", "per second", "matched events"],
            [
                [
                    j.exchange,
                    f"{j.throughput.messages:,}",
                    f"{j.throughput.per_minute:,.0f}",
                    f"{j.throughput.per_second:,.0f}",
                    f"{j.matched:,}",
                ]
                for j in results.joined
            ],
        ),
        Table(
            "throughput-one",
            "Messages per connector, on average (Table 7 of the study).",
            ["exchange", "messages", "per minute", "per second", "payload, bytes"],
            [
                [
                    j.exchange,
                    f"{j.throughput.messages_per_connector:,.0f}",
                    f"{j.throughput.per_minute_per_connector:,.0f}",
                    f"{j.throughput.per_second_per_connector:,.1f}",
                    f"{j.bytes_range[0]:,} to {j.bytes_range[1]:,}",
                ]
                for j in results.joined
            ],
        ),
        Table(
            "losses",
            "Messages sent to each connector and captured by it.",
            [
                "exchange",
                "connector",
                "captured",
                "sent",
                "lost",
                "lost in a reset",
                "due while away",
                "repeated",
                "without envelope",
            ],
            [
                [
                    j.exchange,
                    c.connector,
                    f"{c.received:,}",
                    f"{c.sent:,}",
                    f"{c.missing:,}",
                    f"{c.lost_in_reset:,}",
                    f"{c.due_in_gap:,}",
                    f"{c.duplicates:,}",
                    f"{c.without_envelope:,}",
                ]
                for j in results.joined
                for c in j.counts
            ],
            "Sent, lost and due come from the truth log of the feed.",
        ),
    ]
    for j in results.joined:
        tables.append(
            classic_table(
                f"five-{j.exchange}",
                f"Five-number summary, {j.exchange} (Tables 8 to 10 of the study).",
                j.five_numbers,
                1e3,
                "µs",
            )
        )
        tables.append(
            Table(
                f"paired-{j.exchange}",
                f"Difference to {j.reference}, message by message, {j.exchange}.",
                ["connector", *(f"{summary.quantile_name(q)}, µs" for q in next(iter(j.paired.values())))],
                [[name, *(us(v) for v in row.values())] for name, row in j.paired.items() if name != j.reference],
                "All connectors run at once and share the cores, so differences contain waiting for each other.",
            )
        )
        tables.append(normality_table(f"normality-{j.exchange}", f"joined runs, {j.exchange}", j.normality))
    if results.scoring is not None:
        scoring = results.scoring
        tables.append(
            Table(
                "scores",
                "Scores by the study's rule (Tables 11 and 12).",
                ["metric", *scoring.languages],
                [[m, *map(str, row)] for m, row in scoring.metric_scores.items()]
                + [["final", *map(str, scoring.final_scores)]],
                "Competition ranking: tied values share the better score. Higher is better. The score counts places "
                "and hides distances; read it with the next table.",
            )
        )
        tables.append(
            Table(
                "fragility",
                "The same scores after small changes.",
                ["change", *scoring.languages, "order"],
                [["none", *(f"{float(x):.2f}" for x in scoring.final_exact), " > ".join(scoring.order())]]
                + [[c.name, *(f"{x:.2f}" for x in c.finals), " > ".join(c.order)] for c in results.fragility],
            )
        )
    outages = [(j.exchange, o) for j in results.joined for o in j.outages]
    if outages:
        tables.append(
            Table(
                "outages",
                "Outages of connections and processes.",
                ["exchange", "connector", "reason", "last sequence", "next sequence", "duration, ms"],
                [
                    [
                        e,
                        o["connector"],
                        o["reason"],
                        str(o["last_sequence"]),
                        str(o["next_sequence"]),
                        "not connected again" if o["to_ns"] is None else f"{(o['to_ns'] - o['from_ns']) / 1e6:,.0f}",
                    ]
                    for e, o in outages
                ],
            )
        )
    return tables


def published_tables() -> list[Table]:
    """The study's own scores, recomputed, and how fragile they are."""
    scoring = scores.score(published.FIVE_NUMBERS, published.LANGUAGES)
    rows: list[list[Cell]] = [[m, *map(str, row)] for m, row in scoring.metric_scores.items()]
    rows.append(["final", *map(str, scoring.final_scores)])
    wrong = scores.wrong_cells(scoring, published.METRIC_SCORES)
    fragile = scores.fragility(published.FIVE_NUMBERS, published.LANGUAGES)
    return [
        Table(
            "published",
            "The scores of the 2020 study, recomputed from its Tables 8 to 10.",
            ["metric", *published.LANGUAGES],
            rows,
            f"{wrong} of 30 metric scores differ from the printed ones.",
        ),
        Table(
            "published-fragility",
            "The 2020 scores after small changes.",
            ["change", *published.LANGUAGES, "order"],
            [[c.name, *(f"{x:.2f}" for x in c.finals), " > ".join(c.order)] for c in fragile],
        ),
    ]


def answer(results: Results) -> list[str]:
    """The result in a few sentences, each of which follows from a table."""
    found = []
    for result in results.timed:
        rate = f"{result.settings['rate']:,} messages a second"
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
        if pairs:
            blocks = "1 block" if len(result.blocks) == 1 else f"{len(result.blocks)} blocks"
            found.append(
                f"Verdicts on {len(pairs)} pairs: {counts['equivalent']} equivalent within ±{margin} µs, "
                f"{counts['different']} different, {counts['unresolved']} not resolved by {blocks}."
            )
        detectable = result.comparison.minimum_detectable
        if detectable is not None:
            found.append(
                f"Differences below {us(detectable)} µs cannot be detected at this rate with this many blocks."
            )
    flagged = results.statuses().get("flagged", 0)
    if flagged:
        found.append(
            f"{flagged} of {len(results.records)} runs are flagged as noisy. They are included, because the study file "
            "asks for it. Do not publish their figures."
        )
    if results.joined:
        total = sum(j.throughput.messages for j in results.joined)
        lost = sum(c.missing for j in results.joined for c in j.counts)
        found.append(
            f"The joined runs captured {total:,} messages; {lost:,} of those sent to an open connection are missing."
        )
    return found


def threats(results: Results) -> list[str]:
    """Limits of validity, with this study's own figures."""
    environment = results.description["environment"]
    rows = [
        "Loopback is not the Internet: there is no TLS, no packet loss and no distance.",
        f"One machine with {environment['cores']} usable cores ({environment['cpu_model'] or 'unknown CPU'}). "
        "Another CPU or kernel may change the order.",
        "Each library runs with the settings that it documents. Tuned settings may change the order.",
        "One message size law per table, one connection per process, no parsing of the content.",
        "Joined runs start all connectors on the same cores. They answer which messages arrive where, and they are "
        "never compared with timed runs.",
    ]
    for result in results.timed:
        if len(result.blocks) < 10:
            rows.append(
                f"{len(result.blocks)} blocks at {result.settings['rate']:,} messages a second are few: use 30 for "
                "anything that is published."
            )
        unsteady = sum(c.unsteady_runs for c in result.costs)
        if unsteady:
            rows.append(
                f"{unsteady} runs at {result.settings['rate']:,} messages a second drifted in the measured window."
            )
    if any(r.cores_shared for r in results.records):
        rows.append("Feed and connectors shared a core in some runs.")
    elif environment["cores"] < 3:
        rows.append("The writer of each connector shares its core with the receive path.")
    return rows


def figure_list(results: Results, series: Any) -> dict[str, list[FigureItem]]:
    """Figures by section. Each caption names n, runs, mode, host and noise floor."""
    host = results.description["environment"]["host"]
    found: dict[str, list[FigureItem]] = {"load": [], "joined": [], "machine": []}

    def item(section: str, id_: str, caption: str, svg: str) -> None:
        found.setdefault(section, []).append(FigureItem(id_, caption, Markup(svg)))

    for result in results.timed:
        runs, n = len(result.blocks), result.comparison.levels[0].values
        origin = (
            f"Timed runs, {result.settings['rate']:,} messages a second, {runs} runs and {n:,} messages per connector, "
            f"host {host}, noise floor at p99 {us(results.floor_ns(0.99))} µs."
        )
        key = f"timed-{result.name}"
        floor = {q: results.floor_ns(q) for q in summary.QUANTILES}
        item(key, f"{key}-levels", f"Median with its 95 % interval. {origin}", figures.levels(result, 0.5))
        item(key, f"{key}-ecdf", f"Distribution of the response latency. {origin}", figures.ecdf(result.ecdf))
        item(key, f"{key}-nines", f"Percentiles on an axis of nines. {origin}", figures.nines(result.ecdf, floor))
        reference = by_median(result)[0].connector
        if len(result.comparison.levels) > 1:
            caption = f"Shift to {reference} at the deciles, with simultaneous 95 % bands. Shaded: the margin. {origin}"
            item(key, f"{key}-shift", caption, figures.shifts(result, reference))
        item(
            key, f"{key}-boxes", f"Classic box plots; whiskers at 1.5 IQR. {origin}", figures.boxes(result.five_numbers)
        )
        item(key, f"{key}-timeline", f"Median over time. {origin}", figures.timeline(result))
        cpu = {c.connector: c.cpu_us_per_message for c in result.costs}
        if any(v is not None for v in cpu.values()):
            item(key, f"{key}-cpu", f"CPU time per message. {origin}", figures.bars(cpu, "CPU, µs per message"))
        opening = {c.connector: c.start_to_open_ms for c in result.costs}
        if any(v is not None for v in opening.values()):
            item(
                key,
                f"{key}-start",
                f"From process start to open connection. {origin}",
                figures.bars(opening, "milliseconds"),
            )
    if len(results.timed) > 1:
        caption = f"Median latency against the offered rate, with 95 % intervals. Timed runs, host {host}."
        item("load", "load-p50", caption, figures.load_curves(results.timed, 0.5))
    for j in results.joined:
        origin = (
            f"Joined run, {j.exchange}, {j.settings['rate']:g} messages a second, {j.matched:,} matched events, "
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
        item("machine", "machine", f"Load of host {host} and change of its clock offset.", figures.machine(series))
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


def write(results: Results, folder: ResultFolder, command: str) -> Path:
    """Writes report.html, report.json and tables/*.csv, and returns the path of the page.

    # Raises
    OSError if a file cannot be written.
    """
    sections = []
    for result in results.timed:
        name = f"timed runs at {result.settings['rate']:,} messages a second"
        sections.append(
            (
                result,
                [
                    level_table(results, result),
                    pair_table(result),
                    cost_table(result),
                    classic_table(
                        f"five-{result.name}", f"Five-number summary of {name}.", result.five_numbers, 1e3, "µs"
                    ),
                    normality_table(f"normality-{result.name}", name, result.normality),
                ],
            )
        )
    joined, study = joined_tables(results), published_tables()
    for table in [*(t for _, tables in sections for t in tables), *joined, *study]:
        write_csv(folder.path / "tables", table)
    (folder.path / "report.json").write_text(analysis.to_json(results) + "\n")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("lab"),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    page = environment.get_template("report.html").render(
        results=results,
        study=results.study,
        description=results.description,
        sections=sections,
        joined=joined,
        published=study,
        figures=figure_list(results, analysis.read_series(folder)),
        answer=answer(results),
        threats=threats(results),
        checksums=checksums(folder),
        command=command,
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        messages=sum(c.received for r in results.records for c in r.connectors),
        us=us,
        quantile_name=summary.quantile_name,
        quantiles=summary.QUANTILES,
    )
    path = folder.path / "report.html"
    path.write_text(page)
    return path
