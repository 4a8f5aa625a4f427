"""Reads a tutorial as a terminal session, and runs it.

A block marked `console` holds commands, which begin with `$ `, and their output. In the output `…` stands for any
text, and a line of only `…` for any number of lines. A sentence that ends with "Save this as `NAME`:" names the file
that the next block becomes. Addresses in a tutorial are the default ones; a run uses free ports instead.
"""

import json
import re
import shlex
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

PATIENCE_S = 120.0
PRINT_PATIENCE_S = 10.0
SERVERS = {"up": "127.0.0.1:8080", "publish": "", "tape serve": "", "gateway": "127.0.0.1:8081"}
CLIENTS = re.compile(r"\bpitwire (trade|operator)\b(?!.*--url)")


@dataclass
class Command:
    text: str
    line: int
    output: list[str] = field(default_factory=list)


@dataclass
class SavedFile:
    name: str
    text: str


def parse(text: str) -> list[Command | SavedFile]:
    """The commands and files of a tutorial, in order."""
    steps: list[Command | SavedFile] = []
    lines = text.splitlines()
    prose = ""
    at = 0
    while at < len(lines):
        fence = re.fullmatch(r"```(\w*)", lines[at])
        if not fence:
            # The sentence before a block may be broken over lines.
            prose = f"{prose} {lines[at]}" if lines[at].strip() else prose
            at += 1
            continue
        end = lines.index("```", at + 1)
        block = lines[at + 1 : end]
        saved = re.search(r"Save this as `([^`]+)`:\s*$", prose)
        if saved:
            steps.append(SavedFile(saved.group(1), "\n".join(block) + "\n"))
        elif fence.group(1) == "console":
            steps += commands(block, at + 2)
        prose = ""
        at = end + 1
    return steps


def commands(block: list[str], first_line: int) -> list[Command]:
    found: list[Command] = []
    for number, line in enumerate(block, first_line):
        if line.startswith("$ "):
            found.append(Command(line[2:], number))
        else:
            assert found, f"line {number}: output before the first command"
            found[-1].output.append(line)
    return found


def matches(expected: list[str], actual: str) -> bool:
    """Whether the output matches the tutorial."""
    pattern = ""
    for line in expected:
        if line.strip() == "…":
            pattern += r"(?:[^\n]*\n)*"
        else:
            pattern += "[^\n]*".join(re.escape(part) for part in line.split("…")) + "\n"
    lines = [line.rstrip() for line in actual.splitlines()]
    return re.fullmatch(pattern, "".join(f"{line}\n" for line in lines)) is not None


class Terminal:
    """One shell in a directory. Its background processes end with it."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self.directory = directory
        self.logs = 0
        self.addresses: dict[str, str] = {}
        self.files: list[SavedFile] = []
        self.shell = subprocess.Popen(
            ["bash", "--norc", "--noprofile"],
            cwd=directory,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def save(self, file: SavedFile) -> None:
        self.files.append(file)
        self._write(file)

    def run(self, command: Command) -> None:
        text = command.text
        if text.endswith(" &"):
            self._start(command, text.removesuffix(" &"))
            return
        actual = self._documented(self._send(self._actual(text)))
        assert matches(command.output, actual), difference(command, actual)

    def close(self) -> None:
        assert self.shell.stdin is not None
        self.shell.stdin.write("kill $(jobs -p) 2> /dev/null; wait\n")
        self.shell.stdin.close()
        try:
            self.shell.wait(PATIENCE_S)
        finally:
            self.shell.kill()

    def _start(self, command: Command, text: str) -> None:
        """Starts a server on a free port, waits for its ready file, and learns its address."""
        self.logs += 1
        log = self.directory / f"server-{self.logs}.log"
        words = shlex.split(text)
        kind = next((kind for kind in SERVERS if text.startswith(f"pitwire {kind} ")), "up")
        option = "--http" if kind in ("up", "gateway") else "--listen"
        documented = words[words.index(option) + 1] if option in words else SERVERS[kind]
        if option in words:
            text = text.replace(f"{option} {documented}", f"{option} 127.0.0.1:0")
        else:
            text += f" {option} 127.0.0.1:0"
        if "--ready-file" in words:
            ready = self.directory / words[words.index("--ready-file") + 1]
        else:
            ready = self.directory / f"server-{self.logs}.ready"
            text += f" --ready-file {ready}"
        self._send(f"{self._actual(text)} > {log} 2>&1 < /dev/null &")
        deadline = time.monotonic() + PATIENCE_S
        while not ready.exists():
            assert time.monotonic() < deadline, f"line {command.line}: {text} does not serve:\n{log.read_text()}"
            time.sleep(0.01)
        self.addresses[documented] = json.loads(ready.read_text())["http"]
        for file in self.files:
            self._write(file)
        # A server may print after it has written its ready file.
        deadline = time.monotonic() + PRINT_PATIENCE_S
        while not matches(command.output, self._documented(log.read_text())):
            assert time.monotonic() < deadline, difference(command, self._documented(log.read_text()))
            time.sleep(0.01)

    def _send(self, text: str) -> str:
        """Runs one line in the shell and returns its output."""
        assert self.shell.stdin is not None
        assert self.shell.stdout is not None
        mark = "--- end of the output ---"
        body = text if text.endswith("&") else f"{{ {text}\n}} < /dev/null"
        self.shell.stdin.write(f"{body}\necho; echo '{mark}'\n")
        self.shell.stdin.flush()
        lines: list[str] = []
        for line in self.shell.stdout:
            if line.rstrip("\n") == mark:
                break
            lines.append(line)
        else:
            raise AssertionError(f"the shell ended in: {text}\n{''.join(lines)}")
        return "".join(lines).removesuffix("\n")

    def _actual(self, text: str) -> str:
        """Text of the tutorial with the addresses of this run."""
        venue = self.addresses.get(SERVERS["up"])
        if venue:
            text = CLIENTS.sub(rf"pitwire \1 --url ws://{venue}/ws/api/v2", text)
        for documented, actual in self.addresses.items():
            text = text.replace(documented, actual)
        # A command that is shown to be refused must not take the default port either.
        return re.sub(r"\bpitwire up\b(?!.*--http)", "pitwire up --http 127.0.0.1:0", text)

    def _documented(self, text: str) -> str:
        for documented, actual in self.addresses.items():
            text = text.replace(actual, documented)
        return text

    def _write(self, file: SavedFile) -> None:
        (self.directory / file.name).write_text(self._actual(file.text))


def difference(command: Command, actual: str) -> str:
    expected = "\n".join(command.output)
    return (
        f"line {command.line}: $ {command.text}\n--- the tutorial shows\n{expected}\n--- the program printed\n{actual}"
    )
