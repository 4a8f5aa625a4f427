"""Every tutorial in docs/tutorials works: its commands run and print the output of the page."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tutorial import Command, SavedFile, Terminal, matches, parse
from venue import BINARY, TOP, Venue

TUTORIALS = sorted((TOP / "docs/tutorials").glob("*.md"))
# These commands are about the sources, so they run in the checkout.
IN_CHECKOUT = {"contributor"}


# Cargo, which one of them runs, may have to wait until another build ends.
@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", TUTORIALS, ids=lambda path: path.stem)
def test_a_tutorial_prints_what_it_shows(path: Path, tmp_path: Path) -> None:
    steps = parse(path.read_text())
    assert any(isinstance(step, Command) and step.output for step in steps), "a tutorial shows no output"
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "pitwire").symlink_to(BINARY.resolve())
    python = Path(sys.executable).parent
    environment = os.environ | {"HOME": str(tmp_path), "PATH": f"{tools}:{python}:{os.environ['PATH']}"}
    for name in ("CARGO_HOME", "RUSTUP_HOME"):
        environment.setdefault(name, str(Path.home() / f".{name.removesuffix('_HOME').lower()}"))
    work = tmp_path / "work"
    work.mkdir()
    terminal = Terminal(TOP if path.stem in IN_CHECKOUT else work, environment)
    try:
        for step in steps:
            if isinstance(step, SavedFile):
                terminal.save(step)
            else:
                terminal.run(step)
    finally:
        terminal.close()


def test_the_script_of_the_readme_trades(venue: Venue, tmp_path: Path) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (TOP / "README.md").read_text(), re.DOTALL)
    assert len(blocks) == 1
    script = tmp_path / "script.py"
    script.write_text(blocks[0].replace("127.0.0.1:8080", venue.address))
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    average, rest = ended.stdout.splitlines()
    assert float(average) > 0
    assert "'free'" in rest


def test_every_reader_has_a_tutorial() -> None:
    index = (TOP / "docs/README.md").read_text()
    assert len(TUTORIALS) == 5
    for path in TUTORIALS:
        assert f"(tutorials/{path.name})" in index


def test_output_is_compared_line_by_line() -> None:
    assert matches(["a", "b …", "…", "e"], "a\nb 12\nc\nd\ne\n")
    assert matches(["…"], "")
    assert not matches(["a"], "a\nb\n")
    assert not matches(["a …"], "b 1\n")
    assert not matches([], "an error\n")


def test_a_tutorial_is_read_as_commands_and_files() -> None:
    steps = parse(
        "Text. Save this as\n`x.py`:\n\n```python\nprint(1)\n```\n\n```console\n$ python x.py\n1\n$ true\n```\n"
    )
    assert steps == [SavedFile("x.py", "print(1)\n"), Command("python x.py", 9, ["1"]), Command("true", 11)]
