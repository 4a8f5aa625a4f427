"""Commands: exit codes and messages."""

import io
import re
import subprocess
from pathlib import Path

import pytest
from conftest import connector_program
from rich.console import Console
from typer.testing import CliRunner, Result

from lab.cli import app
from lab.connectors import REPOSITORY
from lab.console import reproduce_command

TIMED = '[[timed]]\nname = "t"\nrate = 100\nblocks = 1\nmeasured_s = 1\n'


def invoke(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def refused(*words: str) -> str:
    """Runs a command that fails, and returns its message."""
    result = invoke(*words)
    assert result.exit_code == 1
    return result.stderr


def study_file(folder: Path, text: str) -> str:
    """Writes a study with one timed run. Returns its path."""
    path = folder / "study.toml"
    path.write_text(f'name = "x"\n{text}\n{TIMED}')
    return str(path)


def test_scores_match_the_printed_ones() -> None:
    result = invoke("scores")
    assert result.exit_code == 0
    assert "5.67  3.80  2.47  4.60        3.27  3.53" in result.stdout
    assert "43." in result.stdout.split("rounding, 0.5 ms", 1)[1].splitlines()[0]


@pytest.mark.parametrize("command", ["run", "analyse", "report"])
def test_an_unknown_key_is_named(tmp_path: Path, command: str) -> None:
    path = study_file(tmp_path, 'connectors = ["a"]\nspeed = 1')
    assert 'unknown key "speed"' in refused(command, path)


def test_a_study_without_usable_connector_is_refused(tmp_path: Path) -> None:
    path = study_file(tmp_path, 'connectors = ["absent"]')
    message = refused("run", path, "--output", str(tmp_path / "out"))
    assert "absent: there is no connector of this name" in message


def test_results_that_do_not_exist_are_named(tmp_path: Path) -> None:
    path = study_file(tmp_path, 'connectors = ["a"]')
    assert "holds no study" in refused("report", path, "--output", str(tmp_path / "out"))


def test_an_unknown_connector_is_named() -> None:
    assert 'unknown connector "no-such-connector"' in refused("build", "no-such-connector")


def test_the_command_that_repeats_a_study_works_from_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REPOSITORY / "lab")
    assert reproduce_command("lab", Path("studies/short.toml")) == "make lab STUDY=lab/studies/short.toml"
    assert reproduce_command("lab", Path("/tmp/my study.toml")) == "make lab STUDY='/tmp/my study.toml'"
    found = subprocess.run(
        ["make", "-n", "lab", "STUDY=other.toml"], cwd=REPOSITORY, capture_output=True, text=True, check=True
    ).stdout
    assert all(f"{verb} other.toml" in found for verb in ("--study", "run --fresh", "report"))


@pytest.mark.usefixtures("test_feed")
def test_a_run_shows_its_progress_and_the_time_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "study.toml"
    text = 'name = "x"\nconnectors = ["a"]\n[limits]\nnoisy_runs = "flag"\n[[timed]]\nname = "t"\nrate = 100\n'
    path.write_text(text + "blocks = 2\nwarm_up_s = 0\nmeasured_s = 0.5\nspin_us = 0\n")
    screen = io.StringIO()
    monkeypatch.setattr("lab.cli.console", Console(file=screen, force_terminal=True, width=200))
    monkeypatch.setattr("lab.cli.known_programs", lambda: {"a": connector_program("a")})
    result = invoke("run", str(path), "--output", str(tmp_path / "out"))
    assert result.exit_code == 0, result.stderr
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", screen.getvalue())
    # Two runs of half a second, with 1.5 s each for the programs.
    assert re.search(r"timed-t-b000-00-a .*0/2 .*0:04 left", shown), shown
    assert re.search(r"2/2 .*0:00 left", shown), shown
