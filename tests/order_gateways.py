"""Runs `pitwire gateway --orders`, alone or behind HAProxy, for tests and benchmarks."""

import itertools
import json
import signal
import socket
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any

from rpc import PATIENCE_S, until
from venue import BINARY

HAPROXY_CONFIG = Path(__file__).resolve().parent.parent / "docs" / "order-gateways.md"

_numbers = itertools.count(1)


class Gateway:
    """`pitwire gateway --orders`, on a free port or on that of an earlier one."""

    def __init__(self, place: Path, url: str, *options: str, address: str = "127.0.0.1:0") -> None:
        self.ready = place / f"gateway-{next(_numbers)}.ready"
        command = [BINARY, "gateway", "--orders", url, "--http", address, "--ready-file", self.ready, "--json"]
        self.process = subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        until(lambda: self.ready.exists() or self.process.poll() is not None, "the gateway serves")
        assert self.process.poll() is None, self.process.communicate()
        self.address: str = json.loads(self.ready.read_text())["http"]
        self.ws_url = f"ws://{self.address}/ws/api/v2"

    def kill(self) -> None:
        self.process.kill()
        self.process.communicate()

    def stop(self) -> dict[str, Any]:
        self.process.send_signal(signal.SIGTERM)
        output, errors = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0, errors
        assert not self.ready.exists()
        return json.loads(output)

    def __enter__(self) -> "Gateway":
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.kill()


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        return unused.getsockname()[1]


def haproxy_config(port: int, first: str, second: str) -> str:
    """The configuration of the documentation, with the addresses of this run."""
    text = HAPROXY_CONFIG.read_text()
    config = text.split("```haproxy\n", 1)[1].split("```", 1)[0]
    replaced = config.replace("127.0.0.1:8090", f"127.0.0.1:{port}")
    replaced = replaced.replace("127.0.0.1:8091", first).replace("127.0.0.1:8092", second)
    assert replaced.count(first) == replaced.count(second) == 1
    return replaced
