"""Test programs as connectors and as a feed."""

import stat
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from lab.connectors import Connector, Description
from lab.records import ResultFolder
from lab.run import run_study as execute
from lab.study import Study

PROGRAMS = Path(__file__).parent / "programs"


def connector_program(name: str, behaviour: str = "") -> Connector:
    """The test connector under another name, with a behaviour of CONNECTOR_TEST."""
    description = Description(
        name=name,
        language="Python",
        library="websockets",
        version="17.4",
        tools=[],
        build=[],
        run=["/usr/bin/env", f"CONNECTOR_TEST={behaviour}", sys.executable, str(PROGRAMS / "connector.py")],
    )
    return Connector(description, PROGRAMS)


@pytest.fixture
def test_feed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uses the test feed instead of the pitwire binary."""
    program = tmp_path / "feed"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {PROGRAMS / "feed.py"} "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PITWIRE_BIN", str(program))


RunStudy = Callable[..., ResultFolder]


@pytest.fixture
def run_study(tmp_path: Path) -> RunStudy:
    """Runs a study of test connectors and returns its results."""

    def run(study: dict, connectors: dict[str, str], folder: str = "results") -> ResultFolder:
        wanted = Study.model_validate({"name": "test", "connectors": list(connectors), **study})
        programs = {name: connector_program(name, behaviour) for name, behaviour in connectors.items()}
        results = ResultFolder(tmp_path / folder)
        execute(wanted, tmp_path, results, programs)
        return results

    return run
