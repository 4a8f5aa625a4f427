"""Tables of the report."""

from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from lab import live, published, scores, summary
from lab.analysis import Results, TimedResult
from lab.comparison import Interval, Level
from lab.connectors import REFERENCE_NAME

Cell = str | Markup
USUAL_BYTES = 224  # payload that captions do not name
MOST_COLUMNS = 8  # connectors in a table with one column for each; more give one row for each
MOST_PAIRS = 45  # ten connectors; of more pairs the page shows those with the lowest median


@dataclass(frozen=True)
class Table:
    """A table of the report, which is also written as CSV."""

    id: str
    caption: str
    head: list[Cell]
    rows: list[list[Cell]]
    note: str = ""
    shown: list[list[Cell]] | None = None  # rows for the page, if the CSV file has too many for it

    @property
    def page_rows(self) -> list[list[Cell]]:
        return self.rows if self.shown is None else self.shown


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
    return "n/a" if value is None else f"{value:,.{digits}f}"


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
        ]
        rows.append(cells)
    if result.reference is not None:
        found = result.reference
        own = [us(found.quantiles[q]) if q in found.quantiles else "too few" for q in shown]
        rows.append([REFERENCE_NAME, "reference", *own, us(found.maximum), "not counted"])
    head = [
        "connector",
        "rank",
        *(f"{summary.quantile_name(q)}, µs" for q in shown),
        "maximum, µs",
        "lost",
    ]
    values = min(level.values // level.runs for level in result.comparison.levels)
    floors = ", ".join(f"{summary.quantile_name(q)} {us(results.floor_ns(q))} µs" for q in shown)
    return Table(
        f"levels-{result.name}",
        f"Response latency of timed runs at {title_of(result)}: "
        f"{len(result.blocks)} runs per connector, {values:,} messages per run.",
        head,
        rows,
        "Medians over runs of the per-run quantiles, with 95 % intervals; rank intervals cover 95 % of the bootstrap "
        f"draws. The reference receiver only reads a socket: its latency is that of feed and kernel. "
        f"Noise floor: {floors}. Grey: the noise floor is above half of the value. A quantile q is shown only "
        "if every run has at least 100 messages above it.",
    )


def pair_tables(result: TimedResult) -> list[Table]:
    """Verdicts and effect sizes of all pairs. One block has no spread, so it gives no table."""
    if len(result.blocks) < 2 or not result.comparison.pairs:
        return []
    rate = title_of(result)
    verdicts: list[list[Cell]] = []
    effects: list[list[Cell]] = []
    for p in result.comparison.pairs:
        name = f"{p.a} to {p.b}"
        verdict = Markup('<b class="{}">{}</b>').format(p.verdict, p.verdict)
        shift = with_interval(p.shift, p.interval_95)
        verdicts.append([name, shift, verdict, p_value(p.p_equivalence), p_value(p.p_difference)])
        delta = Markup("{:.2f} <small>{:.2f} to {:.2f}</small>").format(
            p.cliffs_delta, p.cliffs_interval.low, p.cliffs_interval.high
        )
        tests = [p_value(p.mann_whitney_p), p_value(p.brunner_munzel_p)]
        effects.append([name, f"{p.a_faster:.2f}", delta, *tests, us(p.wasserstein)])
    lowest = by_median(result)[0].connector
    chosen = [i for i, p in enumerate(result.comparison.pairs) if lowest in (p.a, p.b)]
    is_long = len(verdicts) > MOST_PAIRS

    def shown(rows: list[list[Cell]]) -> list[list[Cell]] | None:
        return [rows[i] for i in chosen] if is_long else None

    rest = f" Shown: the pairs with {lowest}. The CSV file has all {len(verdicts)} pairs." if is_long else ""
    found = result.comparison.minimum_detectable
    detectable = "unknown" if found is None else f"{us(found)} µs"
    return [
        Table(
            f"pairs-{result.name}",
            f"Verdicts on pairs of connectors at {rate}.",
            ["pair", "shift of p50, µs", "verdict", "p, equivalence", "p, difference"],
            verdicts,
            "A positive shift means that the first connector is faster. Equivalent: the difference lies within "
            f"±{us(result.comparison.margin)} µs with 90 % confidence, by bootstrap and by two one-sided t tests over "
            "blocks. Different: the 95 % interval and a t test exclude zero. Both p values are adjusted by Holm. "
            f"Minimum detectable difference (80 % power, 5 %): {detectable}.{rest}",
            shown(verdicts),
        ),
        Table(
            f"effects-{result.name}",
            f"Sizes of the differences at {rate}.",
            ["pair", "P(first is faster)", "Cliff's delta", "p, Mann-Whitney", "p, Brunner-Munzel", "Wasserstein, µs"],
            effects,
            f"Mann-Whitney and Brunner-Munzel compare the per-run medians. They are not adjusted.{rest}",
            shown(effects),
        ),
    ]


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
        f"Cost of each connector at {title_of(result)}.",
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
        "CPU time and switches are those of the whole process in the measured window. n/a: not recorded. Start to "
        "open: from process start to the open connection, including the clock handshake. Waits for the ring: messages "
        "that waited for space in the ring to the capture file. Unsteady: the medians of the slices drift by more than "
        "5 %.",
    )


def classic_table(id_: str, caption: str, five: dict[str, summary.FiveNumbers], unit_ns: float, unit: str) -> Table:
    names = list(five)

    def row(label: str, pick: Any) -> list[Cell]:
        return [label, *(f"{pick(five[n]) / unit_ns:,.1f}" for n in names)]

    head: list[Cell] = [f"metric, {unit}", *names]
    rows: list[list[Cell]] = [
        row("Maximum (whisker)", lambda f: f.whisker_high),
        row("Q3", lambda f: f.q3),
        row("Median", lambda f: f.median),
        row("Q1", lambda f: f.q1),
        row("Minimum (whisker)", lambda f: f.whisker_low),
        row("true maximum", lambda f: f.maximum),
        row("true minimum", lambda f: f.minimum),
        ["values beyond the whiskers", *(f"{five[n].fliers:,}" for n in names)],
        ["messages", *(f"{five[n].n:,}" for n in names)],
    ]
    if len(names) > MOST_COLUMNS:
        head, *rows = (list(column) for column in zip(head, *rows, strict=True))
        head[0] = f"connector, {unit}"
    return Table(
        id_,
        caption,
        head,
        rows,
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


def title_of(result: TimedResult) -> str:
    """The rate and the unusual settings of a timed table, for captions."""
    found = result.settings
    text = f"{found['rate']:,} messages a second"
    if found.get("batch"):
        text += f" in batches of {found['batch']:,}"
    elif found["arrival"] != "constant":
        text += f" ({found['arrival']})"
    if found["payload_bytes"] != USUAL_BYTES:
        text += f" of {found['payload_bytes']:,} bytes"
    if found.get("fragment_bytes"):
        text += f" in frames of {found['fragment_bytes']:,} bytes"
    for setting, words in (
        ("tls", " over TLS"),
        ("compression", " compressed"),
        ("subscribe", " after a subscription"),
    ):
        text += words if found.get(setting) else ""
    return text


def drain_table(result: TimedResult) -> list[Table]:
    if not result.drains:
        return []
    batch = result.settings["batch"]
    rows: list[list[Cell]] = [
        [
            d.connector,
            with_interval(d.median, d.interval),
            f"{batch / d.median * 1e9:,.0f}",
            us(d.slowest),
            us(d.feed),
        ]
        for d in sorted(result.drains, key=lambda d: d.median)
    ]
    return [
        Table(
            f"drain-{result.name}",
            f"Time to receive a batch of {batch:,} messages that are due at once.",
            ["connector", "median, µs", "messages a second", "slowest batch, µs", "feed, µs"],
            rows,
            "Times count from the due time to the stamp of the last message: medians over runs, with 95 % intervals. "
            "Feed: from the due time until the feed had written the last byte. No connector can be faster.",
        )
    ]


def variant_table(results: Results, result: TimedResult) -> list[Table]:
    """Documented against changed settings of one program."""
    described = results.description["connectors"]
    pairs = {frozenset((p.a, p.b)): p for p in result.comparison.pairs}
    costs = {cost.connector: cost.cpu_us_per_message for cost in result.costs}
    rows: list[list[Cell]] = []
    for name, about in described.items():
        pair = pairs.get(frozenset((name, about.get("base", ""))))
        if not about.get("base") or pair is None:
            continue
        sign = 1 if pair.b == name else -1
        ends = sorted((sign * pair.interval_95.low, sign * pair.interval_95.high))
        verdict = Markup('<b class="{}">{}</b>').format(pair.verdict, pair.verdict)
        before, after = costs.get(about["base"]), costs.get(name)
        cpu = f"{100 * (after / before - 1):+.0f} %" if before and after else "n/a"
        rows.append([about["base"], about["change"], with_interval(sign * pair.shift, Interval(*ends)), verdict, cpu])
    if not rows:
        return []
    return [
        Table(
            f"variants-{result.name}",
            f"Changed settings against the documented ones, at {title_of(result)}.",
            ["connector", "change", "change of p50, µs", "verdict", "CPU per message"],
            rows,
            "A negative change means that the changed settings are faster.",
        )
    ]


GOALS = {
    "latency": "p50, µs",
    "cpu": "CPU time per message",
    "throughput": "messages a second in a batch",
}


def goal_table(results: Results) -> list[Table]:
    """The subject against the best of the other connectors."""
    if not results.goals:
        return []
    titles = {table.name: title_of(table) for table in results.timed}
    rows: list[list[Cell]] = []
    for goal in results.goals:
        if goal.kind == "latency":
            found, limit = with_interval(goal.value, goal.interval), f"below {us(goal.limit)}"
        else:
            found = Markup("{:.2f} <small>{:.2f} to {:.2f}</small>").format(
                goal.value, goal.interval.low, goal.interval.high
            )
            limit = f"at most {goal.limit:g}" if goal.kind == "cpu" else f"at least {goal.limit:g}"
        style = {"met": "equivalent", "missed": "different"}.get(goal.verdict, "unresolved")
        verdict = Markup('<b class="{}">{}</b>').format(style, goal.verdict)
        where = titles[goal.table] + ("" if goal.sustained else ", not sustained")
        p = p_value(goal.p) if goal.kind == "latency" else ""
        rows.append([where, GOALS[goal.kind], goal.other, found, limit, p, verdict])
    return [
        Table(
            "goals",
            f"{results.study.analysis.subject} against the best of the other connectors.",
            ["messages a second", "figure", "against", "found", "limit", "p", "verdict"],
            rows,
            f"Latency: median of {results.study.analysis.subject} minus that of the connector that is hardest to "
            "match, with the 90 % interval of the bootstrap. Met: for each other connector, this interval and a "
            "one-sided paired t test over the blocks exclude a difference of the margin or more; p is the largest of "
            "these tests. CPU time: ratio to the lowest. Throughput: ratio to the highest. Ratios are geometric means "
            "over the blocks with the 95 % intervals of a t test of the logarithms. The lowest or highest is chosen "
            "from the same runs. Variants of the subject are left out.",
        )
    ]


def load_tables(results: Results) -> list[Table]:
    """Saturation, and the effect of single factors."""
    found = []
    if results.saturation:
        ordered = sorted(results.saturation, key=lambda s: (-(s.sustained or 0), s.connector))
        rows: list[list[Cell]] = [
            [
                s.connector,
                "none" if s.sustained is None else f"{s.sustained:,}",
                "" if s.failed is None else f"{s.failed:,}",
                s.reason or "sustained every rate",
            ]
            for s in ordered
        ]
        found.append(
            Table(
                "saturation",
                "Highest offered rate that each connector sustained.",
                ["connector", "messages a second", "first rate not sustained", "reason"],
                rows,
                "Sustained: no loss, no growing queue in most runs, and a p99 below 1 ms, twice the noise floor or "
                "twice the p99 of the reference receiver, whichever is largest. If there are too few messages for a "
                "p99, the highest quantile that they support replaces it. Only the rates of the study were tried. "
                "Where the median of the reference receiver is above 1 ms, the feed did not keep its schedule, and no "
                "connector is judged.",
            )
        )
    for factor in results.factors:
        base, other = factor.values
        found.append(
            Table(
                f"factor-{factor.base}-{factor.other}",
                f"Effect of {factor.setting.replace('_', ' ')}: {setting_text(base)} against {setting_text(other)}.",
                ["connector", f"p50 {factor.base}, µs", f"p50 {factor.other}, µs", "change, µs"],
                [[e.connector, us(e.before), us(e.after), with_interval(e.shift, e.interval)] for e in factor.effects],
                "Hodges-Lehmann shift of the per-run medians with its 95 % interval. The two tables ran one after the "
                "other, so a drift of the machine between them adds to the change.",
            )
        )
    return found


def setting_text(value: Any) -> str:
    if value is None or value == "":
        return "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    return f"{value:,}" if isinstance(value, int) else str(value)


def live_tables(results: Results) -> list[Table]:
    found = []
    for run in results.live:
        has_time = any(a.since_event for a in run.arrivals)
        head = ["connector", "received", "not matched", "reconnects", "first, %"]
        head += [f"behind at {summary.quantile_name(q)}, µs" for q in live.SHOWN]
        has_hosts = any(a.clock_error_ns for a in run.arrivals)
        head += ["clock error, µs"] if has_hosts else []
        head += [f"since event at {summary.quantile_name(q)}, ms" for q in live.SHOWN] if has_time else []
        rows: list[list[Cell]] = []
        for a in sorted(run.arrivals, key=lambda a: a.behind[0.5]):
            row: list[Cell] = [a.connector, f"{a.received:,}", f"{a.unmatched:,}", f"{a.reconnects}"]
            behind = [us(v) if v > a.clock_error_ns or not has_hosts else "not resolved" for v in a.behind.values()]
            row += [f"{a.first_percent:.1f}", *behind]
            row += [f"±{us(a.clock_error_ns)}"] if has_hosts else []
            if has_time:
                row += [f"{v / 1e6:,.1f}" for v in a.since_event.values()] or ["none"] * len(live.SHOWN)
            rows.append(row)
        text = (
            f"{run.matched:,} messages arrived at every connector, {run.per_second:,.1f} a second, "
            f"{run.bytes_range[0]:,} to {run.bytes_range[1]:,} bytes. Behind: arrival minus the first arrival of the "
            "same message. The server serves each connection separately, so a difference may be its own."
        )
        if has_hosts:
            text += (
                " The connectors ran on several hosts. Clock error: bound of the error of a difference between two "
                "hosts; a smaller difference is not resolved."
            )
        if has_time:
            text += " Since event: CLOCK_REALTIME minus the time in the message, with the error of both clocks."
        found.append(Table(f"live-{run.name}", f"Arrivals from {run.settings['url']}.", head, rows, text))
    return found


def sequence_text(sequence: int | None) -> str:
    return "none" if sequence is None else f"{sequence:,}"


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
            "Sent, lost and due come from the truth log of the feed. A message without envelope is a greeting of the "
            "exchange. It is captured, and not counted as sent.",
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
                        sequence_text(o["last_sequence"]),
                        sequence_text(o["next_sequence"]),
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
