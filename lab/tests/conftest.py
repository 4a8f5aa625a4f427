"""Test programs as connectors and as a feed."""

import itertools
import json
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from lab.connectors import Connector, Description
from lab.records import ResultFolder
from lab.run import run_study as execute
from lab.study import Study

CODE = {".c", ".cpp", ".go", ".java", ".js", ".kt", ".php", ".py", ".rs", ".sh", ""}
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


def lines_of_code(folder: Path) -> int:
    """Lines of the code in the folder of a connector or publisher, without what its build makes."""
    command = ["git", "-C", str(folder), "ls-files", "--cached", "--others", "--exclude-standard", "."]
    files = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return sum(len((folder / file).read_text().splitlines()) for file in files if Path(file).suffix in CODE)


@pytest.fixture
def test_feed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Uses the test feed instead of the pitwire binary."""
    program = tmp_path / "feed"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} {PROGRAMS / "feed.py"} "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PITWIRE_BIN", str(program))


RunStudy = Callable[..., ResultFolder]


def check_only_a_failed(results: ResultFolder, reason: str) -> None:
    """Checks that the run of connector a failed with this reason, and that the run of b counts."""
    records = {record.connectors[0].connector: record for record in results.records()}
    assert records["a"].status == "failed"
    assert reason in records["a"].reasons[0]
    assert records["b"].usable


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


@pytest.fixture
def exchange() -> Iterator[str]:
    """A server with its own numbers per connection, that sends only after a subscription."""
    started = time.monotonic()
    lock = threading.Lock()
    received: list[str] = []

    def handle(connection: ServerConnection) -> None:
        with lock:
            received.append(str(connection.recv()))
        path = connection.request.path
        pause = 0.02 if path == "/busy" else 0.1
        try:
            for number in itertools.count(1_000_000 * len(received)):
                event = int((time.monotonic() - started) / pause)
                time.sleep(max(0.0, started + (event + 1) * pause - time.monotonic()))
                time_ms = int(time.time() * 1000) - 5
                message = {"socket_sequence": number, "event": event, "data": {"E": event}, "t": time_ms // 100_000}
                connection.send(json.dumps(message))
        except ConnectionClosed:
            return

    with serve(handle, "127.0.0.1", 0, compression=None, ping_interval=None) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host, port = server.socket.getsockname()[:2]
        yield f"ws://{host}:{port}"
        server.shutdown()
    assert set(received) == {"hello"}
