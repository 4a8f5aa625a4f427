"""A connector: its description, its build and its process with the clock handshake."""

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SCHEMA = REPOSITORY / "contracts" / "lab-capture.sql"
CONNECTORS = REPOSITORY / "lab" / "connectors"
CLOCK_READINGS = 5
CLOCK_TOLERANCE_NS = 1_000_000
BUILD_S = 1_800


class BadConnector(Exception):
    """A description that is wrong, or a build or a start that failed."""


@dataclass(frozen=True)
class Connector:
    """The content of one `connector.toml`."""

    folder: Path
    name: str
    language: str
    library: str
    version: str
    tools: list[str]
    packages: list[str]
    build: list[list[str]]
    run: list[str]
    busy_wait: bool
    tls: bool = False
    compression: bool | str = False
    variants: dict[str, dict] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path, variant: str = "") -> "Connector":
        """Reads a description, and takes the command of a variant if one is named.

        Raises BadConnector with the reason if the description is missing or wrong.
        """
        path = folder / "connector.toml"
        try:
            fields = tomllib.loads(path.read_text())
        except (OSError, tomllib.TOMLDecodeError) as error:
            raise BadConnector(f"{path}: {error}") from error
        expected = {name: kind for name, kind in cls.__annotations__.items() if name != "folder"}
        if unknown := sorted(set(fields) - set(expected)):
            raise BadConnector(f"{path}: unknown key {unknown[0]!r}; expected {', '.join(expected)}")
        if missing := sorted(set(expected) - set(fields) - {"tls", "compression", "variants"}):
            raise BadConnector(f"{path}: the key {missing[0]!r} is missing")
        for name, kind in expected.items():
            if name not in fields:
                continue
            base = getattr(kind, "__origin__", kind)
            if not isinstance(fields[name], base):
                raise BadConnector(f"{path}: {name} = {fields[name]!r}: expected {getattr(base, '__name__', base)}")
        if fields.get("compression", False) not in (True, False, "always"):
            raise BadConnector(f'{path}: compression = {fields["compression"]!r}: expected true, false or "always"')
        found = cls(folder=folder.resolve(), **fields)
        if not variant:
            return found
        if variant not in found.variants:
            raise BadConnector(f"{path}: there is no variant {variant!r}; known: {', '.join(found.variants) or 'none'}")
        return replace(found, name=f"{found.name}-{variant}", run=found.variants[variant]["run"])

    def missing(self) -> list[str]:
        """The tools and Debian packages that this machine lacks."""
        tools = [tool for tool in self.tools if not shutil.which(tool)]
        if not shutil.which("dpkg-query"):
            return tools
        packages = [package for package in self.packages if not is_installed(package)]
        return tools + [package for package in packages if package not in tools]

    def make(self, report: Callable[[str], None] = lambda _line: None) -> None:
        """Runs the build commands. Raises BadConnector with the end of the output of a failed
        command."""
        for command in self.build:
            report(" ".join(command))
            try:
                done = subprocess.run(
                    self._located(command),
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.STDOUT,
                    text=True,
                    timeout=BUILD_S,
                )
            except (OSError, subprocess.TimeoutExpired) as error:
                raise BadConnector(f"{self.name}: {' '.join(command)}: {error}") from error
            if done.returncode:
                end = "\n".join(done.stdout.splitlines()[-20:])
                raise BadConnector(f"{self.name}: {' '.join(command)} exited with {done.returncode}\n{end}")

    def start(self, settings: Mapping[str, str], log: Path, prefix: list[str] | None = None) -> "Process":
        """Starts the connector. `prefix` goes in front of the command, for example taskset."""
        return Process(self, settings, log, prefix or [])

    def _located(self, command: list[str]) -> list[str]:
        first = str(self.folder / command[0]) if "/" in command[0] and command[0][0] != "/" else command[0]
        return [first, *command[1:]]


def is_installed(package: str) -> bool:
    query = ["dpkg-query", "-W", "-f", "${Status}", package]
    done = subprocess.run(query, capture_output=True, text=True)
    return done.stdout.startswith("install ok installed")


class Process:
    """A running connector. `lines` collects its standard output; its standard error goes to a
    file."""

    def __init__(self, connector: Connector, settings: Mapping[str, str], log: Path, prefix: list[str]) -> None:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("LAB_")}
        self.lines: list[str] = []
        self.started_ns = time.monotonic_ns()
        self._news = threading.Condition()
        try:
            with log.open("ab") as stderr:
                self._process = subprocess.Popen(
                    prefix + connector._located(connector.run),
                    cwd=connector.folder,
                    env=inherited | dict(settings),
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=stderr,
                    text=True,
                    bufsize=1,
                )
        except OSError as error:
            raise BadConnector(f"{connector.name}: cannot start {connector.run[0]}: {error}") from error
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        for line in self._process.stdout or ():
            with self._news:
                self.lines.append(line.rstrip("\n"))
                self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def wait_for(self, prefix: str, seconds: float, skip: int = 0) -> str | None:
        """The line number `skip` that begins with `prefix`; None if the time or the output ends
        first."""
        deadline = time.monotonic() + seconds
        with self._news:
            while True:
                found = [line for line in self.lines if line.startswith(prefix)]
                if len(found) > skip:
                    return found[skip]
                left = deadline - time.monotonic()
                if left <= 0 or not self._reader.is_alive():
                    return None
                self._news.wait(min(left, 0.2))

    def say(self, line: str) -> None:
        if self._process.stdin:
            self._process.stdin.write(line + "\n")
            self._process.stdin.flush()

    def end_input(self) -> None:
        if self._process.stdin:
            self._process.stdin.close()

    def shake_hands(self, seconds: float = 30) -> tuple[int, int]:
        """Reads the connector's clock. Returns its shortest bracket and its error outside of it, in
        ns.

        Raises BadConnector if the connector does not answer, or counts from another origin.
        """
        brackets = []
        for reading in range(CLOCK_READINGS):
            before_ns = time.monotonic_ns()
            try:
                self.say("clock")
            except OSError as error:
                raise BadConnector(f"the connector ended in the clock handshake: {error}") from error
            line = self.wait_for("clock ", seconds, skip=reading)
            after_ns = time.monotonic_ns()
            digits = (line or "").removeprefix("clock ")
            if not digits.isdecimal():
                raise BadConnector(f"no clock reading within {seconds} s: {line!r}")
            value = int(digits)
            brackets.append((after_ns - before_ns, max(before_ns - value, value - after_ns, 0)))
        bracket_ns, error_ns = min(brackets)
        if error_ns > CLOCK_TOLERANCE_NS:
            raise BadConnector(f"the connector's clock is {error_ns} ns outside the bracket: it is not CLOCK_MONOTONIC")
        return bracket_ns, error_ns

    def go(self) -> None:
        self.say("go")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self, seconds: float) -> int | None:
        """The exit code; None if the connector still runs."""
        try:
            code = self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        self._reader.join(5)
        return code

    def kill(self) -> None:
        """Ends the connector, however it behaves."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        self._reader.join(5)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                with contextlib.suppress(OSError):
                    pipe.close()
