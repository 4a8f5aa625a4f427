"""Programs and channels of binary order entry over Aeron, for tests and benchmarks."""

import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

PATIENCE_S = 60.0


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A program that prints a line with "ready" when it has started, and ends with its input."""
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout and process.stdout.readline().startswith("ready")
            yield process
        finally:
            process.terminate()
            process.wait(PATIENCE_S)


def free_udp_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def channels(medium: str) -> list[str]:
    if medium == "ipc":
        return ["aeron:ipc", "aeron:ipc"]
    requests, answers = f"127.0.0.1:{free_udp_port()}", f"127.0.0.1:{free_udp_port()}"
    return [f"aeron:udp?endpoint={requests}", f"aeron:udp?control={answers}|control-mode=dynamic"]


def client_channels(medium: str, served: list[str]) -> list[str]:
    """The client receives the answers at a port of its own."""
    return served if medium == "ipc" else [served[0], f"{served[1]}|endpoint=127.0.0.1:0"]
