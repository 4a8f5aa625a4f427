"""Writes one Markdown page from the results of several studies: claims with interval and method."""

import re
import shutil
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from markupsafe import Markup

from lab import effects, tables
from lab.analysis import Results, TimedResult
from lab.comparison import Interval, Pair
from lab.report import like_the_lowest, threats
from lab.tables import Cell, Table, by_median, p_value, title_of, us

COLUMNS = 100
FIGURES = ("levels", "ranks", "cpu", "drain", "load-p50", "load-p99", "load-cpu")
FACTOR_TEXTS = {
    "tls": "TLS",
    "compression": "Compression",
    "fragment_bytes": "Fragmentation",
    "payload_bytes": "A larger payload",
    "subscribe": "A subscription by message",
    "arrival": "Another arrival law",
    "batch": "Another batch",
}
# Questions that the study of 2020 left open: one runtime or setting against another.
QUESTIONS = (
    ("Does PyPy help?", "python-websockets", "python-websockets-pypy"),
    ("Does the JIT of PHP 8 help?", "php-stream", "php-stream-jit"),
    ("Does a newer Java help?", "java-websocket", "java-websocket-java25"),
    ("Does a newer Node help?", "javascript-ws", "javascript-ws-node26"),
    ("What does a build without optimisation cost, as in 2020?", "cpp-beast", "cpp-beast-o0"),
)

# Beginning of the reason of a flag -> head of its column.
FLAGS = {"the feed was": "feed late", "other programs": "other programs", "steal": "steal"}


@dataclass(frozen=True)
class Source:
    """The results of one study, the folder with its tables and figures, and its command."""

    results: Results
    folder: Path
    command: str


@dataclass(frozen=True)
class Claim:
    text: str
    support: str  # interval and method


def write(sources: Sequence[Source], folder: Path, name: str, title: str) -> Path:
    """Writes `folder/NAME.md` and the folder `folder/NAME` with tables and figures of each study.

    # Raises
    OSError if a file cannot be written.
    """
    own = folder / name
    if own.exists():
        shutil.rmtree(own)
    own.mkdir(parents=True)
    figures = {source.results.study.name: copy_files(source, own) for source in sources}
    lines = [f"# {title}", "", *opening(sources), "", *goals_section(sources), "## Claims", ""]
    lines += wrapped(
        "Each claim has its interval or p value, and its method in italics. Medians are those of response latency: the "
        "stamp of the connector minus the due time of the message. The unit is the run, and runs are paired by block."
    )
    for source in sources:
        lines += ["", f"From the study {source.results.study.name}:", ""]
        lines += claim_lines(claims_of(source.results))
    for source in sources:
        lines += ["", *study_section(source, name, figures[source.results.study.name])]
    lines += ["", "## Limits", "", *limits(sources), "", *reproduce(sources, name)]
    text = "\n".join(lines) + "\n"
    for picture in own.glob("*/*.svg"):
        if f"({name}/{picture.parent.name}/{picture.name})" not in text:
            picture.unlink()
    path = folder / f"{name}.md"
    path.write_text(text)
    return path


def copy_files(source: Source, target: Path) -> dict[str, str]:
    """Copies tables and figures. Returns name of the figure -> its path below `target`."""
    study = source.results.study.name
    (target / study).mkdir()
    for table in sorted((source.folder / "tables").glob("*.csv")):
        if not table.stem.startswith("published"):
            shutil.copy(table, target / study / table.name)
    found = {}
    for picture in sorted((source.folder / "figures").glob("*.svg")):
        if picture.stem.endswith(FIGURES):
            shutil.copy(picture, target / study / picture.name)
            found[picture.stem] = f"{study}/{picture.name}"
    return found


# Text


def wrapped(text: str, indent: str = "") -> list[str]:
    return textwrap.wrap(text, COLUMNS, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def plain(cell: Cell) -> str:
    """A cell of a table as Markdown. An interval follows its value in parentheses, and a grey value
    is in italics.
    """
    text = str(cell)
    if isinstance(cell, Markup):
        text = re.sub(r'<span class="grey">(.*?)</span>', r"*\1*", text)
        text = text.replace(" <small>", " (").replace("<small>", "(").replace("</small>", ")")
        text = Markup(text).striptags()
    return text.replace("|", "\\|")


def claim_lines(claims: Iterable[Claim]) -> list[str]:
    """One item for each claim, with its support in italics."""
    texts = (f"- {claim.text} *{claim.support[0].upper()}{claim.support[1:]}.*" for claim in claims)
    return [line for text in texts for line in wrapped(text, "  ")]


def markdown(head: Sequence[Cell], rows: Iterable[Sequence[Cell]]) -> list[str]:
    lines = [[plain(cell) for cell in head], ["---"] * len(head)]
    lines += [[plain(cell) for cell in row] for row in rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def table_text(table: Table, folder: str) -> list[str]:
    """A table with its caption above and its note below."""
    caption = f"**{table.caption.rstrip('.')}** ([CSV]({folder}/{table.id}.csv))"
    lines = [*wrapped(caption), "", *markdown(table.head, table.page_rows)]
    note = table.note.replace("Grey:", "Italics:")
    return [*lines, "", *wrapped(note)] if note else lines


def without(table: Table, *columns: str) -> Table:
    """A table without the columns whose heads begin with these words."""
    kept = [i for i, head in enumerate(table.head) if not head.startswith(columns)]

    def pick(rows: list[list[Cell]]) -> list[list[Cell]]:
        return [[row[i] for i in kept] for row in rows]

    shown = None if table.shown is None else pick(table.shown)
    return replace(table, head=[table.head[i] for i in kept], rows=pick(table.rows), shown=shown)


def listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def are(found: Sequence[object]) -> str:
    return "is" if len(found) == 1 else "are"


def span(values: Sequence[float]) -> str:
    """Durations in nanoseconds: "3.0 µs" or "3.0 to 9.0 µs"."""
    low, high = us(min(values)), us(max(values))
    return f"{low} µs" if low == high else f"{low} to {high} µs"


def p_at_most(values: Sequence[float]) -> str:
    """The largest of several p values: "p at most 0.0231" or "p < 0.0001"."""
    text = p_value(max(values))
    return f"p {text}" if text.startswith("<") else f"p at most {text}"


# Sections


def opening(sources: Sequence[Source]) -> list[str]:
    first = sources[0].results
    environment, versions = first.description["environment"], first.description["versions"]
    started = min(record.started_realtime_ns for source in sources for record in source.results.records)
    day = datetime.fromtimestamp(started / 1e9, UTC).strftime("%d %B %Y").lstrip("0")
    names = [source.results.study.name for source in sources]
    studies = f"the study {names[0]}" if len(names) == 1 else f"the studies {listed(names)}"
    text = (
        f"On {day}, {studies} of the [latency laboratory](../lab.md) ran on one machine. `lab page` wrote this page "
        "from the results, so every figure and every claim follows from the tables in the folder beside it."
    )
    cores = environment["cores"]
    rows = [
        ["machine", f"{cores} cores, {environment['cpu_model'] or 'unknown CPU'}, Linux {environment['kernel']}"],
        ["programs", f"commit {versions['commit'][:8]}"],
    ]
    for source in sources:
        rows.append([f"study {source.results.study.name}", size_text(source.results)])
    return [*wrapped(text), "", *markdown(["", ""], rows)]


def size_text(results: Results) -> str:
    """Size, duration and disturbance of one study."""
    records = results.records
    minutes = (max(r.ended_ns for r in records) - min(r.started_ns for r in records)) / 60e9
    messages = sum(c.received for r in records for c in r.connectors)
    load = [record.other_load_percent for record in records]
    late = max((record.lateness_us.get("p99", 0.0) for record in records), default=0.0)
    statuses = ", ".join(f"{n} {status}" for status, n in results.statuses().items())
    return (
        f"{len(results.description['connectors'])} connectors, {len(records)} runs ({statuses}), {messages:,} messages "
        f"in {minutes:.0f} minutes; other programs used {min(load):.0f} % to {max(load):.0f} % of the CPU, steal up to "
        f"{max(record.steal_percent for record in records):.1f} %, feed late by {late:,.0f} µs at p99 in the worst run"
    )


def goals_section(sources: Sequence[Source]) -> list[str]:
    """What the subjects of the studies have to reach, and whether they do."""
    claims = [claim for source in sources for claim in goal_claims(source.results)]
    if not claims:
        return []
    text = (
        "Met: the interval lies within the goal. Missed: it lies outside. Unresolved: it contains the limit, so these "
        "runs do not decide."
    )
    return ["## Goals", "", *wrapped(text), "", *claim_lines(claims), ""]


def study_section(source: Source, page: str, figures: dict[str, str]) -> list[str]:
    results, study = source.results, source.results.study.name
    folder = f"{page}/{study}"
    lines = [f"## Study {study}", "", *flags(results)]

    def add(table: Table) -> None:
        lines.extend(["", *table_text(table, folder)])

    def picture(name: str, text: str) -> None:
        if name in figures:
            lines.extend(["", f"![{text}]({page}/{figures[name]})"])

    whole = next((result for result in results.timed if not result.drains), None)
    for result in results.timed:
        lines += ["", f"### {title_of(result)} ({result.name})"]
        if result.drains:
            for table in tables.drain_table(result):
                add(table)
            picture(f"timed-{result.name}-drain", f"Messages a second in a batch, {result.name}")
            add(tables.cost_table(result))
        else:
            add(without(tables.level_table(results, result), "p99.", "maximum"))
            picture(f"timed-{result.name}-levels", f"Medians with 95 % intervals, {result.name}")
        # One table is shown whole. The CSV files have the rest of the others.
        if result is whole:
            picture(f"timed-{result.name}-ranks", f"Rank intervals, {result.name}")
            for table in [*tables.variant_table(results, result), *pairs_with_lowest(result)]:
                add(table)
            for table in language_table(results, result):
                add(table)
            add(tables.cost_table(result))
            picture(f"timed-{result.name}-cpu", f"CPU time per message, {result.name}")
    for name, text in (("load-p50", "Median"), ("load-p99", "p99"), ("load-cpu", "CPU time per message")):
        picture(name, f"{text} against the offered rate")
    for table in [*tables.load_tables(results), *tables.goal_table(results)]:
        add(table)
    if results.joined:
        lines += ["", f"### Joined runs ({study})"]
        for table in tables.joined_tables(results):
            if table.id.startswith(("throughput", "five-", "losses")):
                add(table)
    return lines


def flags(results: Results) -> list[str]:
    """Which runs have a flag, and why."""
    limits, found = results.study.limits, results.statuses()
    lines = wrapped(
        f"{found.get('kept', 0)} runs are kept and {found.get('flagged', 0)} are flagged. The figures include both. A "
        f"run is flagged if the feed was late at p99 by more than {limits.lateness_us:g} µs and by more than twice the "
        f"noise floor, if other programs used more than {limits.other_load_percent:g} % of the CPU, or if the steal "
        f"was above {limits.steal_percent:g} %. A run can have several flags. Latency counts from the due time, so it "
        "includes the delay of the feed. The reference receiver shows how long that is. The feed is also late when it "
        "waits for a connector that does not read fast enough."
    )
    rows: list[list[Cell]] = []
    for table in results.study.timed:
        records = [r for r in results.records if r.kind == "timed" and r.settings["name"] == table.name]
        if not records:
            continue
        late = [record.lateness_us.get("p99", 0.0) for record in records]
        counts = [sum(any(x.startswith(flag) for x in r.reasons) for r in records) for flag in FLAGS]
        statuses = [sum(r.status == status for r in records) for status in ("kept", "flagged")]
        numbers = [str(number) for number in (len(records), *statuses, *counts)]
        rows.append([table.name, *numbers, f"{median(late):,.0f}", f"{max(late):,.0f}"])
    if not rows:
        return lines
    head = ["runs of", "runs", "kept", "flagged", *FLAGS.values(), "feed late at p99, µs: median run", "worst run"]
    return [*lines, "", *markdown(head, rows)]


def pairs_with_lowest(result: TimedResult) -> list[Table]:
    """Verdicts on the pairs with the lowest median."""
    if not (found := tables.pair_tables(result)):
        return []
    lowest = by_median(result)[0].connector
    chosen = [i for i, p in enumerate(result.comparison.pairs) if lowest in (p.a, p.b)]
    return [replace(found[0], shown=[found[0].rows[i] for i in chosen])]


def language_table(results: Results, result: TimedResult) -> list[Table]:
    """For each language with several connectors: its lowest and its highest median."""
    languages: dict[str, list[str]] = {}
    for level in by_median(result):
        about = results.description["connectors"][level.connector]
        if not about.get("base"):
            languages.setdefault(about["language"], []).append(level.connector)
    rows: list[list[Cell]] = []
    for language, names in sorted(languages.items()):
        if len(names) > 1 and len(result.blocks) > 1:
            pair = pair_of(result, names[0], names[-1])
            shift = tables.with_interval(*seen_from(pair, names[-1]))
            rows.append(
                [language, str(len(names)), names[0], names[-1], shift, pair.verdict, p_value(pair.p_difference)]
            )
    if not rows:
        return []
    return [
        Table(
            f"pairs-{result.name}",
            f"Libraries and runtimes of one language at {title_of(result)}",
            ["language", "connectors", "lowest p50", "highest p50", "shift, µs", "verdict", "p, difference"],
            rows,
            "The pair is chosen from the data, so its shift is too large on average. Holm adjusts p over all pairs of "
            "connectors.",
        )
    ]


def limits(sources: Sequence[Source]) -> list[str]:
    rows = list(dict.fromkeys(row for source in sources for row in threats(source.results)))
    rows.append(
        "CPU time is that of the whole process. It includes the thread that writes the capture file. All connectors "
        "of one language share the code of that thread."
    )
    flagged = sum(source.results.statuses().get("flagged", 0) for source in sources)
    if flagged:
        total = sum(len(source.results.records) for source in sources)
        rows.insert(
            0,
            f"{flagged} of {total} runs are flagged as noisy, and the figures include them. High quantiles measure the "
            "machine more than the connectors.",
        )
    return [line for row in rows for line in wrapped(f"- {row}", "  ")]


def reproduce(sources: Sequence[Source], name: str) -> list[str]:
    files = " ".join(f"lab/studies/{source.results.study.name}.toml" for source in sources)
    commands = [*(source.command for source in sources), f"lab/.venv/bin/lab page {files} --name {name}"]
    text = "The tables are in the folder beside this page. The events are not in the repository."
    return ["## Reproduce", "", "```sh", *commands, "```", "", *wrapped(text)]


# Claims


def pair_of(result: TimedResult, a: str, b: str) -> Pair:
    return next(pair for pair in result.comparison.pairs if {pair.a, pair.b} == {a, b})


def seen_from(pair: Pair, slower: str) -> tuple[float, Interval]:
    """Median of `slower` minus that of the other connector, with its 95 % interval."""
    if pair.b == slower:
        return pair.shift, pair.interval_95
    return -pair.shift, Interval(-pair.interval_95.high, -pair.interval_95.low)


def claims_of(results: Results) -> list[Claim]:
    found: list[Claim] = []
    for result in results.timed:
        if result.drains:
            found += drain_claims(result)
        elif len(result.blocks) > 1 and result.comparison.pairs:
            found += latency_claims(result) + question_claims(result)
    found += [claim for factor in results.factors for claim in factor_claims(factor)]
    found += loss_claims(results)
    return found


def latency_claims(result: TimedResult) -> list[Claim]:
    rate, lowest, *others = title_of(result), *(level.connector for level in by_median(result))
    level = by_median(result)[0]
    count, blocks = len(result.comparison.pairs), len(result.blocks)
    like = like_the_lowest(result)
    higher = [name for name in others if name not in like]
    value = f"{us(level.quantiles[0.5])} µs ({us(level.intervals[0.5].low)} to {us(level.intervals[0.5].high)})"
    text = f"At {rate}, {lowest} has the lowest median, {value}."
    if like:
        text += f" It cannot be separated from {'that' if len(like) == 1 else 'those'} of {listed(like)}."
    claims = [
        Claim(
            text,
            f"95 % interval: bootstrap over {blocks} blocks and slices of time. Separated: the 95 % interval of the "
            f"difference excludes zero, and so does a paired t test, adjusted by Holm over {count} pairs",
        )
    ]
    if higher:
        noun = f"median of {higher[0]} is" if len(higher) == 1 else f"medians of {listed(higher)} are"
        pairs = [pair_of(result, lowest, name) for name in higher]
        shifts = [seen_from(pair, name) for pair, name in zip(pairs, higher, strict=True)]
        low = us(min(interval.low for _, interval in shifts))
        high = us(max(interval.high for _, interval in shifts))
        claims.append(
            Claim(
                f"At {rate}, the {noun} higher than that of {lowest}, by {span([shift for shift, _ in shifts])}.",
                f"Hodges-Lehmann shifts; all 95 % intervals lie between {low} and {high} µs; "
                f"{p_at_most([pair.p_difference for pair in pairs])}, adjusted by Holm",
            )
        )
    unresolved = [pair for pair in result.comparison.pairs if pair.verdict == "unresolved"]
    if unresolved:
        detectable = result.comparison.minimum_detectable
        reach = "" if detectable is None else f"; with 80 % power they detect a difference of {us(detectable)} µs"
        claims.append(
            Claim(
                f"At {rate}, {len(unresolved)} of {count} pairs {are(unresolved)} unresolved: neither different nor "
                "equivalent.",
                f"the same tests as for the other pairs{reach}",
            )
        )
    equal = [pair for pair in result.comparison.pairs if pair.verdict == "equivalent"]
    margin = us(result.comparison.margin, 0)
    if equal:
        shown = f": {listed([f'{pair.a} with {pair.b}' for pair in equal])}" if len(equal) <= 3 else ""
        claims.append(
            Claim(
                f"At {rate}, {len(equal)} of {count} pairs {are(equal)} equivalent within ±{margin} µs{shown}.",
                "two one-sided paired t tests and the 90 % interval of the bootstrap; "
                f"{p_at_most([pair.p_equivalence for pair in equal])}, adjusted by Holm",
            )
        )
    return claims


def question_claims(result: TimedResult) -> list[Claim]:
    """Answers to the open questions of 2020 whose two connectors are in the table."""
    names = {level.connector for level in result.comparison.levels}
    cpu = {cost.connector: cost.cpu_us_per_message for cost in result.costs}
    claims = []
    for question, base, other in QUESTIONS:
        if not {base, other} <= names:
            continue
        pair = pair_of(result, base, other)
        shift, interval = seen_from(pair, other)
        before, after = cpu[base], cpu[other]
        costs = f" CPU time per message: {before:.1f} and {after:.1f} µs." if before and after else ""
        claims.append(
            Claim(
                f"{question} At {title_of(result)}: median of {other} minus that of {base} {us(shift)} µs "
                f"({us(interval.low)} to {us(interval.high)}), {pair.verdict}.{costs}",
                f"95 % interval of the Hodges-Lehmann shift over {len(result.blocks)} blocks; p of a difference "
                f"{p_value(pair.p_difference)}, adjusted by Holm. CPU times: medians over runs",
            )
        )
    return claims


def drain_claims(result: TimedResult) -> list[Claim]:
    ordered = sorted(result.drains, key=lambda drain: drain.median)
    first, last, batch = ordered[0], ordered[-1], result.settings["batch"]

    def rate(time_ns: float) -> str:
        return f"{batch / time_ns * 1e9:,.0f}"

    ends = [f"{rate(d.median)} ({rate(d.interval.high)} to {rate(d.interval.low)})" for d in (first, last)]
    # The feed also takes long when it waits for a connector, but then not for every one.
    shortest = min(d.feed for d in ordered)
    bound = [d.connector for d in ordered if d.median < 1.1 * shortest]
    text = (
        f"{first.connector} receives a batch of {batch:,} messages at {ends[0]} messages a second, and "
        f"{last.connector} at {ends[1]}."
    )
    if bound:
        text += f" The feed limits {listed(bound)}: it needs nearly as long to write the batch."
    support = f"95 % intervals: bootstrap over {first.runs} runs. Limited: within 10 % of the feed's shortest time"
    return [Claim(text, support)]


def factor_claims(factor: effects.Factor) -> list[Claim]:
    up = [e for e in factor.effects if e.interval.low > 0]
    down = [e for e in factor.effects if e.interval.high < 0]
    rest = [e.connector for e in factor.effects if e not in up and e not in down]
    texts = [
        f"{verb} the median of {listed([e.connector for e in found])} by {span([abs(e.shift) for e in found])}"
        for found, verb in ((up, "raises"), (down, "lowers"))
        if found
    ]
    if rest:
        texts.append(f"has no resolved effect on the median of {listed(rest)}")
    before, after = (tables.setting_text(value) for value in factor.values)
    change = "" if factor.setting in ("tls", "compression", "subscribe") else f" ({before} to {after})"
    if not texts:
        return []
    return [
        Claim(
            f"{FACTOR_TEXTS.get(factor.setting, factor.setting)}{change} {'; it '.join(texts)}.",
            f"95 % interval of the Hodges-Lehmann shift between the runs of {factor.base} and {factor.other}, "
            "by bootstrap; each interval for itself",
        )
    ]


def goal_claims(results: Results) -> list[Claim]:
    subject, claims = results.study.analysis.subject, []
    by_name = {table.name: table for table in results.timed}
    for goal in results.goals:
        where = title_of(by_name[goal.table])
        if effects.is_feed_limited(by_name[goal.table]):
            where += ", a rate that the feed did not keep"
        elif not goal.sustained:
            where += f", a rate that {subject} did not sustain"
        if goal.kind == "latency":
            low, high = us(goal.interval.low), us(goal.interval.high)
            text = (
                f"Goal at {where}: the median of {subject} is at most {us(goal.limit, 0)} µs above that of every other "
                f"connector. **{goal.verdict.capitalize()}.** Hardest to match: {goal.other}, {us(goal.value)} µs "
                f"({low} to {high})."
            )
            support = f"upper side of two one-sided tests: 90 % interval and paired t tests, {p_at_most([goal.p])}"
        else:
            ends = f"{goal.value:.2f} ({goal.interval.low:.2f} to {goal.interval.high:.2f})"
            figure = "CPU time per message" if goal.kind == "cpu" else "throughput"
            side = "at most" if goal.kind == "cpu" else "at least"
            text = (
                f"Goal at {where}: the {figure} of {subject} is {side} {goal.limit:g} times that of {goal.other}. "
                f"**{goal.verdict.capitalize()}.** Ratio {ends}."
            )
            support = "geometric mean over the blocks, 95 % interval of a paired t test of the logarithms"
        claims.append(Claim(text, support))
    own = next((row for row in results.saturation if row.connector == subject), None)
    if own is not None:
        best = max(row.sustained or 0 for row in results.saturation)
        claims.append(
            Claim(
                f"The highest rate that {subject} sustained is {own.sustained or 0:,} messages a second. The highest "
                f"that any connector sustained is {best:,}.",
                "only the rates of the study were tried. Sustained: no loss, no growing queue, and a p99 below a limit "
                "that follows from the reference receiver. One verdict over all runs, without an interval",
            )
        )
    return claims


def loss_claims(results: Results) -> list[Claim]:
    costs = [cost for result in results.timed for cost in result.costs]
    sent, missing = sum(cost.sent for cost in costs), sum(cost.missing for cost in costs)
    sent += sum(c.sent for joined in results.joined for c in joined.counts)
    missing += sum(c.missing for joined in results.joined for c in joined.counts)
    text = f"In the study {results.study.name}, {missing:,} of {sent:,} messages were lost."
    return [Claim(text, "truth log of the feed against the capture files: a count, not an estimate")]
