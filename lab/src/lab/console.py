"""Options, messages and selection by name, for the commands of both studies."""

import re
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.console import Console

from lab.connectors import REPOSITORY
from lab.records import ResultFolder

console = Console()
errors = Console(stderr=True)

Output = Annotated[
    Path | None, typer.Option("--output", "-o", help="Result folder. Default: lab/results/NAME of the study.")
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Move earlier results aside and start again.")]
PageName = Annotated[str, typer.Option("--name", help="Name of the page: a to z, 0 to 9 and '-'.")]
PageFolder = Annotated[Path, typer.Option("--folder", help="Folder of the page.")]
PAGES = REPOSITORY / "docs" / "studies"
T = TypeVar("T")


def fail(text: str) -> typer.Exit:
    """Prints an error, and returns the exception that ends the command with 1."""
    errors.print(f"lab: {text}", style="red", markup=False, highlight=False, soft_wrap=True)
    return typer.Exit(1)


@contextmanager
def reported(*kinds: type[Exception]) -> Iterator[None]:
    """Ends the command with the message of an error of these kinds, or of a file."""
    try:
        yield
    except kinds as error:
        raise fail(str(error)) from error
    except OSError as error:
        raise fail(f"cannot write {error.filename}: {error.strerror}") from error


def say(text: str, style: str | None = None) -> None:
    console.print(text, markup=False, highlight=False, soft_wrap=True, style=style)


def chosen(what: str, names: list[str] | None, known: Mapping[str, T]) -> list[T]:
    """The entries of `known` with these names, or all of them without names."""
    for name in names or []:
        if name not in known:
            raise fail(f'unknown {what} "{name}": expected one of {", ".join(known) or "none"}')
    return [known[name] for name in names or known]


def check_page_name(name: str) -> None:
    """Ends the command if the name of a page is not usable as a file name."""
    if not re.fullmatch(r"[a-z0-9][a-z0-9-]{0,39}", name):
        raise fail(f'--name is "{name}": expected a to z, 0 to 9 and "-", for example collection-2026-11')


def result_folder(study: str, output: Path | None, *, fresh: bool = False) -> ResultFolder:
    """The result folder of a study. With `fresh`, earlier results move aside."""
    results = ResultFolder(output or REPOSITORY / "lab" / "results" / study)
    if fresh and (moved := results.move_aside()) is not None:
        say(f"earlier results are in {moved}")
    return results


def reproduce_command(target: str, study_file: Path) -> str:
    """The command that repeats a study, to be run in the top folder of the repository."""
    path = study_file.resolve()
    shown = path.relative_to(REPOSITORY) if path.is_relative_to(REPOSITORY) else path
    return f"make {target} STUDY={shlex.quote(str(shown))}"
