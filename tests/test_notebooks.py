"""Every notebook in `notebooks/` runs to its end and draws the figure of docs/notebooks.md.

`scripts/build-python` builds the package that they use; without it this file is skipped.
"""

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from venue import BINARY, TOP

pytest.importorskip("pitwire", reason="run scripts/build-python")

NOTEBOOKS = sorted((TOP / "notebooks").glob("*.ipynb"))
PAGE = (TOP / "docs/notebooks.md").read_text()
CELL_PATIENCE_S = 600
#: Figures of the documentation stay small.
FIGURE_BYTES_MAX = 60_000
PNG = b"\x89PNG\r\n\x1a\n"
#: Links of a page to its figures.
FIGURES = re.compile(r"\]\(figures/([^)]+)\)")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_draws_its_figure(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PITWIRE_FIGURES", str(tmp_path))
    monkeypatch.setenv("PITWIRE_BIN", str(BINARY))
    notebook = nbformat.read(path, as_version=4)
    assert all(not cell.outputs for cell in notebook.cells if cell.cell_type == "code"), "commit it without outputs"
    # The assertions of its last cell fail the test.
    NotebookClient(notebook, timeout=CELL_PATIENCE_S, startup_timeout=CELL_PATIENCE_S, kernel_name="python3").execute()
    drawn = [figure.name for figure in tmp_path.glob("*.png")]
    assert len(drawn) == 1
    assert f"[`{path.name}`](../notebooks/{path.name})" in PAGE and f"](figures/{drawn[0]})" in PAGE
    for figure in (tmp_path / drawn[0], TOP / "docs/figures" / drawn[0]):
        content = figure.read_bytes()
        assert content.startswith(PNG) and len(content) < FIGURE_BYTES_MAX


def test_the_page_shows_a_figure_of_every_notebook() -> None:
    assert NOTEBOOKS
    assert len(FIGURES.findall(PAGE)) == len(set(FIGURES.findall(PAGE))) == len(NOTEBOOKS)


def test_every_figure_is_on_a_page() -> None:
    pages = "".join(page.read_text() for page in (TOP / "docs").glob("*.md"))
    assert {path.name for path in (TOP / "docs/figures").iterdir()} == set(FIGURES.findall(pages))
