"""Commands of the publication study: `lab publication COMMAND`."""

from pathlib import Path
from typing import Annotated

import typer

from lab.connectors import ConnectorError
from lab.console import (
    PAGES,
    Fresh,
    Output,
    PageFolder,
    PageName,
    check_page_name,
    chosen,
    fail,
    reported,
    reproduce_command,
    result_folder,
    say,
)
from lab.publication import publishers
from lab.publication.publishers import Publisher
from lab.study import StudyError

app = typer.Typer(help="Compare WebSocket publishers under the same load.", no_args_is_help=True)

StudyFile = Annotated[Path, typer.Argument(help="Study file, for example lab/studies/publication.toml.")]
Names = Annotated[list[str] | None, typer.Argument(help="Publishers. Default: all.")]


def known_publishers() -> dict[str, Publisher]:
    try:
        return publishers.load_all()
    except ConnectorError as error:
        raise fail(str(error)) from error


@app.command()
def build(names: Names = None) -> None:
    """Build publishers, and install Artillery. What cannot be built is named, and the rest is
    built."""
    from lab.publication import artillery

    def report(name: str, problem: str | None) -> None:
        say(f"{name}: built" if problem is None else f"{name}: not built: {problem}", "yellow" if problem else None)

    failed = publishers.build_all(chosen("publisher", names, known_publishers()), report)
    if not names:
        problem = artillery.install()
        report("artillery", problem)
        failed += ["artillery"] if problem else []
    if failed:
        raise fail(f"{len(failed)} not built: {', '.join(failed)}")


@app.command()
def check(names: Names = None) -> None:
    """Check publishers against contracts/lab-publisher.md. A publisher counts only if it passes."""
    from lab.publication.check import check as run_checks

    failed = 0
    for publisher in chosen("publisher", names, known_publishers()):
        problem = publisher.problem()
        if problem is not None:
            say(f"{publisher.name}: skipped: {problem}", "yellow")
            failed += bool(names)
            continue
        for result in run_checks(publisher):
            say(f"{publisher.name}: {result.name}: {'ok' if result.problem is None else 'FAILED: ' + result.problem}")
            failed += result.problem is not None
    if failed:
        raise fail(f"{failed} checks failed")


@app.command()
def run(
    study_file: StudyFile,
    output: Output = None,
    fresh: Fresh = False,
) -> None:
    """Run a study, or the rest of it. Runs that have a record are not repeated."""
    from lab.publication.run import Record, available, run_study
    from lab.publication.study import PlannedRun, load

    try:
        study = load(study_file)
        results = result_folder(study.name, output, fresh=fresh)
        known = known_publishers()
        for name, problem in available(study, known)[1].items():
            say(f"{name}: skipped: {problem}", "yellow")

        def progress(planned: PlannedRun, record: Record) -> None:
            reasons = f": {'; '.join(record.reasons)}" if record.reasons else ""
            say(f"{planned.id}: {record.status}{reasons}", "yellow" if record.status == "failed" else None)

        records = run_study(study, results, known, progress=progress)
    except StudyError as error:
        raise fail(str(error)) from error
    except KeyboardInterrupt:
        raise fail("stopped; the same command resumes the study") from None
    if all(record.status == "failed" for record in records):
        raise fail(f"every run failed; see {results.path}")


@app.command()
def report(study_file: StudyFile, output: Output = None) -> None:
    """Write report.html, report.json, the CSV tables and the figures of a study."""
    from lab.publication.analysis import AnalysisError, analyse
    from lab.publication.report import answer, write
    from lab.publication.study import load

    with reported(StudyError, AnalysisError):
        folder = result_folder(load(study_file).name, output)
        results = analyse(folder)
        path = write(results, folder, reproduce_command("publication-study", study_file))
    for sentence in answer(results):
        say(sentence)
    say(f"wrote {path}")


@app.command()
def page(
    study_file: StudyFile,
    name: PageName,
    title: Annotated[str, typer.Option(help="Title of the page.")] = "WebSocket publishers under one load",
    output: Output = None,
    folder: PageFolder = PAGES,
) -> None:
    """Write the report of a study, and one Markdown page with its claims."""
    from lab.publication import page as pages
    from lab.publication.analysis import AnalysisError, analyse
    from lab.publication.report import write
    from lab.publication.study import load

    check_page_name(name)
    with reported(StudyError, AnalysisError):
        results_folder = result_folder(load(study_file).name, output)
        results, command = analyse(results_folder), reproduce_command("publication-study", study_file)
        write(results, results_folder, command)
        path = pages.write(results, results_folder.path, folder, name, title, command)
    say(f"wrote {path}")
