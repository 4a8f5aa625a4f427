"""Command line of the laboratory."""

import shutil
import signal
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from lab import connectors, machine, published, scores
from lab.connectors import ConnectorError
from lab.console import (
    PAGES,
    Fresh,
    Output,
    PageFolder,
    PageName,
    check_page_name,
    chosen,
    console,
    fail,
    reported,
    reproduce_command,
    result_folder,
)
from lab.publication.cli import app as publication
from lab.study import PlannedRun, StudyError, expected_seconds, load

app = typer.Typer(help=__doc__, no_args_is_help=True, pretty_exceptions_enable=False, add_completion=False)
app.add_typer(publication, name="publication")

StudyFile = Annotated[Path, typer.Argument(help="Study file, for example lab/studies/short.toml.")]
Names = Annotated[list[str] | None, typer.Argument(help="Connectors. Default: all.")]


def known_connectors() -> dict[str, connectors.Connector]:
    try:
        return connectors.load_all()
    except ConnectorError as error:
        raise fail(str(error)) from error


def known_programs() -> dict[str, connectors.Connector]:
    """The connectors and the reference receiver."""
    known = known_connectors()
    try:
        return connectors.with_reference(known)
    except ConnectorError as error:
        raise fail(str(error)) from error


@app.command()
def doctor() -> None:
    """Check the machine, the feed and the connectors. Exits with 1 if nothing could run."""
    from lab.supervisor import StudyStopped, pitwire_binary

    table = Table("what", "state", "detail", box=None)
    environment = machine.environment()
    pins = machine.choose_pins()
    cores = "ok" if environment.cores > 1 else "noisy"
    table.add_row(
        "cores",
        cores,
        f"{environment.cores} usable; feed on core {pins.feed[0]}, connector on core {pins.connectors[0]}",
    )
    table.add_row("clock", "ok", f"source {environment.clock_source or 'unknown'}, governor {environment.governor}")
    noise = machine.spin_probe(pins.connectors[0], 1.0)
    state = "ok" if noise.lost_percent < 1 else "noisy"
    floors = f"p50 {noise.floor_ns(0.5) / 1e3:.1f} µs, p99 {noise.floor_ns(0.99) / 1e3:.1f} µs"
    table.add_row("noise", state, f"{noise.lost_percent:.2f} % of the time lost; floor {floors}")
    free = shutil.disk_usage(connectors.REPOSITORY).free
    table.add_row("disk", "ok" if free > 5e9 else "low", f"{free / 1e9:.1f} GB free")
    usable = 0
    try:
        table.add_row("feed", "ok", str(pitwire_binary()))
    except StudyStopped as error:
        table.add_row("feed", "missing", str(error))
    for connector in known_programs().values():
        problem = connector.problem()
        usable += problem is None and connector.name != connectors.REFERENCE_NAME
        library = f"{connector.description.library} {connector.description.version}"
        table.add_row(connector.name, "ok" if problem is None else "unusable", problem or library)
    console.print(table)
    if not usable:
        raise fail("no connector can run: run `lab build`")


@app.command()
def build(
    names: Names = None,
    study_file: Annotated[Path | None, typer.Option("--study", help="Build what this study needs.")] = None,
) -> None:
    """Build connectors. A connector that cannot be built is reported, and the others are built."""
    failed = []
    if study_file is not None:
        try:
            wanted = load(study_file).connectors
        except StudyError as error:
            raise fail(str(error)) from error
        # `lab run` names a connector that does not exist.
        known = known_programs()
        names = [*(names or []), connectors.REFERENCE_NAME, *(name for name in wanted if name in known)]
    # Variants of one folder share its build.
    for connector in {c.folder: c for c in chosen("connector", names, known_programs())}.values():
        log = connectors.REPOSITORY / "lab" / "results" / "build" / f"{connector.description.name}.log"
        try:
            with console.status(f"building {connector.name}"):
                connector.build(log)
            console.print(f"{connector.name}: built", markup=False)
        except ConnectorError as error:
            failed.append(connector.name)
            console.print(f"{connector.name}: not built: {error}", markup=False, style="yellow", soft_wrap=True)
    if failed:
        raise fail(f"{len(failed)} not built: {', '.join(failed)}")


@app.command()
def run(
    study_file: StudyFile,
    output: Output = None,
    fresh: Fresh = False,
) -> None:
    """Run a study, or the rest of it. Runs that have a record are not repeated."""
    from lab.run import planned, run_study
    from lab.supervisor import StudyStopped

    try:
        study = load(study_file)
        results = result_folder(study.name, output, fresh=fresh)
        known = known_programs()
        runs, problems = planned(study, known)
        for name, problem in problems.items():
            console.print(f"{name}: skipped: {problem}", markup=False, style="yellow", soft_wrap=True)
        weights = {r.id: expected_seconds(r) for r in runs}
        done = sum(weights[r.id] for r in runs if results.record(r.id) is not None)
        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[left]} left"),
            console=console,
        )
        finished = sum(results.record(r.id) is not None for r in runs)
        with bar:
            task = bar.add_task(
                "starting", total=len(runs), completed=finished, left=minutes(sum(weights.values()) - done)
            )
            remaining = sum(weights.values()) - done

            def progress(current: PlannedRun, status: str) -> None:
                nonlocal remaining
                if status == "running":
                    bar.update(task, description=current.id, left=minutes(remaining))
                    return
                remaining -= weights[current.id]
                bar.update(task, advance=1, left=minutes(remaining))
                if status in ("failed", "refused"):
                    record = results.record(current.id)
                    reasons = "; ".join(record.reasons) if record else ""
                    bar.console.print(
                        f"{current.id}: {status}: {reasons}", markup=False, style="yellow", soft_wrap=True
                    )

            supervisor_signals()
            run_study(study, study_file.parent, results, known, progress=progress)
    except (StudyError, StudyStopped) as error:
        raise fail(str(error)) from error
    except OSError as error:
        where = error.filename or "the results"
        raise fail(
            f"cannot write {where}: {error.strerror}; free some space, then run the same command again"
        ) from error
    except KeyboardInterrupt:
        raise fail("stopped; the same command resumes the study") from None
    counts: dict[str, int] = {}
    for record in results.records():
        counts[record.status] = counts.get(record.status, 0) + 1
    console.print(f"{results.path}: " + ", ".join(f"{n} {status}" for status, n in counts.items()), soft_wrap=True)


def minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def supervisor_signals() -> None:
    """SIGTERM ends a study like Ctrl-C: child processes end, finished runs stay."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)


@app.command()
def analyse(study_file: StudyFile, output: Output = None) -> None:
    """Compute the figures of a study and print the main table."""
    from lab.analysis import AnalysisError, to_json
    from lab.analysis import analyse as compute
    from lab.tables import by_median, rank_text, us

    with reported(StudyError, AnalysisError):
        folder = result_folder(load(study_file).name, output)
        results = compute(folder)
        (folder.path / "report.json").write_text(to_json(results) + "\n")
    for result in results.timed:
        table = Table(
            "connector",
            "rank",
            "p50, µs",
            "95 % interval",
            "CPU, µs per message",
            title=f"{result.name}: {result.settings['rate']:,} messages a second, {len(result.blocks)} blocks",
            box=None,
        )
        costs = {cost.connector: cost for cost in result.costs}
        for level in by_median(result):
            interval, cpu = level.intervals[0.5], costs[level.connector].cpu_us_per_message
            table.add_row(
                level.connector,
                rank_text(level.rank),
                us(level.quantiles[0.5]),
                f"{us(interval.low)} to {us(interval.high)}",
                "" if cpu is None else f"{cpu:.2f}",
            )
        console.print(table)
    for joined in results.joined:
        console.print(
            f"{joined.exchange}: {joined.throughput.messages:,} messages, {joined.matched:,} matched, "
            f"{sum(c.missing for c in joined.counts):,} lost",
            highlight=False,
        )
    for problem in results.problems:
        console.print(
            f"{problem.run} {problem.connector}: {problem.text}", markup=False, style="yellow", soft_wrap=True
        )


@app.command()
def report(study_file: StudyFile, output: Output = None) -> None:
    """Write report.html, report.json, the CSV tables and the SVG figures of a study."""
    from lab.analysis import AnalysisError
    from lab.analysis import analyse as compute
    from lab.report import write

    with reported(StudyError, AnalysisError):
        folder = result_folder(load(study_file).name, output)
        with console.status("analysing"):
            path = write(compute(folder), folder, reproduce_command("lab", study_file))
    console.print(f"wrote {path}", soft_wrap=True)


@app.command()
def page(
    study_files: Annotated[list[Path], typer.Argument(help="Study files that have run.")],
    name: PageName,
    title: Annotated[str, typer.Option(help="Title of the page.")] = "WebSocket clients: a collection",
    folder: PageFolder = PAGES,
) -> None:
    """Write the reports of several studies, and one Markdown page with their claims."""
    from lab import page as pages
    from lab.analysis import AnalysisError
    from lab.analysis import analyse as compute
    from lab.report import write

    check_page_name(name)
    sources = []
    with reported(StudyError, AnalysisError):
        for study_file in study_files:
            results_folder = result_folder(load(study_file).name, None)
            command = reproduce_command("lab", study_file)
            with console.status(f"analysing {study_file}"):
                results = compute(results_folder)
                write(results, results_folder, command)
            sources.append(pages.Source(results, results_folder.path, command))
        path = pages.write(sources, folder, name, title)
    console.print(f"wrote {path}", soft_wrap=True)


@app.command()
def streams(
    candidates: Annotated[Path, typer.Argument(help="File of candidate streams; see docs/lab.md.")],
    seconds: Annotated[float, typer.Option(min=1, help="Time for each candidate.")] = 20,
    connector: Annotated[str, typer.Option(help="Connector that receives them.")] = "python-websockets",
) -> None:
    """Try the streams of a server one after the other, and rank them by their amount of data."""
    from lab.capture import CaptureError
    from lab.streams import select

    receiver = chosen("connector", [connector], known_connectors())[0]
    if (problem := receiver.problem()) is not None:
        raise fail(f"{connector}: {problem}")
    try:
        with console.status("connecting") as status:
            trials = select(candidates, receiver, seconds, lambda name: status.update(f"trying {name}"))
    except (StudyError, CaptureError) as error:
        raise fail(str(error)) from error
    table = Table("stream", "kB a second", "messages a second", "updates", box=None)
    for trial in trials:
        updates = "real time" if trial.candidate.update_ms == 0 else f"{trial.candidate.update_ms} ms"
        amount = f"{trial.bytes_per_second / 1e3:,.1f}", f"{trial.per_second:,.1f}"
        table.add_row(trial.candidate.name, *(amount if trial.problem is None else ("failed", "")), updates)
    console.print(table)
    for trial in trials:
        if trial.problem is not None:
            console.print(f"{trial.candidate.name}: {trial.problem}", markup=False, style="yellow", soft_wrap=True)
    if trials[0].bytes == 0:
        raise fail("no stream brought a message")
    console.print(f"choose {trials[0].candidate.name}", markup=False)


@app.command("scores")
def print_scores() -> None:
    """Recompute the scores of the 2020 study and compare them with the printed ones."""
    scoring = scores.score(published.FIVE_NUMBERS, published.LANGUAGES)
    table = Table("metric", *published.LANGUAGES, title="Scores of the 2020 study, from its Tables 8 to 10", box=None)
    for metric, row in scoring.metric_scores.items():
        table.add_row(metric, *map(str, row))
    table.add_row("final", *map(str, scoring.final_scores), style="bold")
    console.print(table)
    rules = Table("tie rule", "wrong of 30", "final scores", "order", title="Tie rules", box=None)
    for name, rule in scores.TIE_RULES.items():
        found = scores.score(published.FIVE_NUMBERS, published.LANGUAGES, rule)
        finals = " ".join(f"{float(x):.2f}" for x in found.final_exact)
        wrong = scores.wrong_cells(found, published.METRIC_SCORES)
        rules.add_row(name, str(wrong), finals, " > ".join(found.order()))
    console.print(rules)
    fragile = Table("change", *published.LANGUAGES, title="How fragile the order is", box=None)
    for change in scores.fragility(published.FIVE_NUMBERS, published.LANGUAGES):
        fragile.add_row(change.name, *(f"{x:.2f}" for x in change.finals))
    console.print(fragile)
    columns = ("error", "printed order", "C++ first", "Java last", "Python above PHP")
    drawn = Table(*columns, title=f"Shares of {scores.DRAWS:,} draws of an error, with 95 % intervals", box=None)
    for name, half_width_ms, per_server in (("rounding, 0.5 ms", 0.5, False), ("clock of a server, 1 ms", 1.0, True)):
        draws = scores.perturb(
            published.FIVE_NUMBERS, published.LANGUAGES, half_width=half_width_ms, per_server=per_server
        )
        shares = (draws.same_order, draws.first["C++"], draws.last["Java"], draws.better["Python", "PHP"])
        drawn.add_row(name, *map(scores.share_text, shares))
    console.print(drawn)
    for found in scores.inconsistent_whiskers(published.FIVE_NUMBERS, published.LANGUAGES):
        console.print(f"{found.where}: {found.text}", highlight=False)
    span = scores.inconsistent_duration(published.PRINTED_START, published.PRINTED_END, published.CLAIMED_HOURS)
    if span is not None:
        console.print(f"{span.where}: {span.text}", highlight=False)
    same = tuple(map(str, scoring.final_scores)) == published.FINAL_SCORES
    if scores.wrong_cells(scoring, published.METRIC_SCORES) or not same:
        raise fail("the scores differ from the printed ones")


@app.command()
def conform(
    names: Names = None,
    short: Annotated[bool, typer.Option("--short", help="Fewer messages, for a loaded machine.")] = False,
    only: Annotated[list[str] | None, typer.Option("--only", help="Run only this check; may be repeated.")] = None,
) -> None:
    """Check connectors against contracts/lab-connector.md. A connector counts only if it passes."""
    from conform import BadConnector, Check, check

    failed = 0
    for connector in chosen("connector", names, known_connectors()):
        problem = connector.problem()
        if problem is not None:
            console.print(f"{connector.name}: skipped: {problem}", markup=False, style="yellow", soft_wrap=True)
            failed += 1
            continue

        def show(result: Check) -> None:
            state = "ok" if result.ok else "FAILED"
            console.print(f"{connector.name}: {result.name}: {state} {result.detail}", markup=False, soft_wrap=True)  # noqa: B023

        try:
            found = check(connector.folder, short, show, only, connector.variant)
            failed += sum(not result.ok for result in found)
        except BadConnector as error:
            raise fail(str(error)) from error
    if failed:
        raise fail(f"{failed} checks failed")


if __name__ == "__main__":
    app()
