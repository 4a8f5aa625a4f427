"""A program on a terminal of our own: what its screen shows, and the keys that we press."""

import codecs
import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

PATIENCE_S = 60.0
# Cursor position, colours and modes: the sequences that full-screen programs of ratatui write.
SEQUENCE = re.compile(r"\x1b\[([?0-9;]*)([A-Za-z])|\x1b[=>78M]|\x1b[()][A-Z0-9]")


@dataclass(frozen=True)
class Style:
    """Colours as numbers of the 256-colour palette; None is the terminal's own."""

    foreground: int | None = None
    background: int | None = None
    bold: bool = False
    reversed: bool = False


@dataclass
class Screen:
    """The cells of a terminal."""

    columns: int
    lines: int
    cells: list[list[tuple[str, Style]]] = field(default_factory=list)
    is_alternate: bool = False
    # What the program wrote outside the alternate screen.
    plain: str = ""
    _at: tuple[int, int] = (0, 0)
    _style: Style = Style()
    _rest: str = ""

    def __post_init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self.cells = [[(" ", Style())] * self.columns for _ in range(self.lines)]

    def text(self) -> str:
        return "\n".join("".join(cell for cell, _ in line).rstrip() for line in self.cells)

    def feed(self, text: str) -> None:
        text = self._rest + text
        self._rest = ""
        at = 0
        while at < len(text):
            if text[at] == "\x1b":
                found = SEQUENCE.match(text, at)
                if found is None:
                    # A sequence whose end has not arrived yet.
                    self._rest = text[at:]
                    return
                self._obey(found)
                at = found.end()
            else:
                self._put(text[at])
                at += 1

    def _put(self, character: str) -> None:
        if not self.is_alternate:
            self.plain += character
            return
        line, column = self._at
        if character >= " " and line < self.lines and column < self.columns:
            self.cells[line][column] = (character, self._style)
            self._at = (line, column + 1)

    def _obey(self, found: re.Match[str]) -> None:
        numbers, command = found.group(1) or "", found.group(2)
        if command == "H":
            line, _, column = numbers.partition(";")
            self._at = (int(line or 1) - 1, int(column or 1) - 1)
        elif command == "J":
            self.clear()
        elif command == "m":
            self._colour([int(number or 0) for number in numbers.split(";")])
        elif numbers == "?1049":
            self.is_alternate = command == "h"
            self.clear()

    def _colour(self, numbers: list[int]) -> None:
        values = self._style.__dict__.copy()
        while numbers:
            number = numbers.pop(0)
            if number == 0:
                values = Style().__dict__.copy()
            elif number == 1:
                values["bold"] = True
            elif number == 22:
                values["bold"] = False
            elif number in (7, 27):
                values["reversed"] = number == 7
            elif number in (38, 48):
                which = "foreground" if number == 38 else "background"
                assert numbers.pop(0) == 5, "only the palette is used"
                values[which] = numbers.pop(0)
            elif number in (39, 49):
                values["foreground" if number == 39 else "background"] = None
        self._style = Style(**values)


class ScreenProgram:
    """A running program. Use it in a `with` statement."""

    def __init__(self, command: list[str | Path], columns: int = 100, lines: int = 30, **variables: str) -> None:
        self.screen = Screen(columns, lines)
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        self._ours, its = pty.openpty()
        self.resize(columns, lines)
        environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "COLORTERM")}
        environment |= {"TERM": "xterm-256color", "HOME": "/nonexistent"} | variables
        self.process = subprocess.Popen(
            command, stdin=its, stdout=its, stderr=its, env=environment, start_new_session=True
        )
        self._modes_before = termios.tcgetattr(its)
        self._its = its

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self._ours, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.screen.columns, self.screen.lines = columns, lines
        self.screen.clear()
        if hasattr(self, "process"):
            self.process.send_signal(signal.SIGWINCH)

    def press(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def read(self, seconds: float) -> None:
        """Takes over what the program writes within this time, at least once."""
        end = time.monotonic() + seconds
        while True:
            ready, _, _ = select.select([self._ours], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                return
            try:
                piece = os.read(self._ours, 65_536)
            except OSError:
                return
            self.screen.feed(self._decoder.decode(piece))

    def until(self, *wanted: str | Callable[[str], bool]) -> str:
        """Waits until the screen shows each text and meets each condition. Returns the screen."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            self.read(0.05)
            text = self.screen.text()
            if all(one in text if isinstance(one, str) else one(text) for one in wanted):
                return text
            code = self.process.poll()
            assert code is None, f"it ended with {code}:\n{self.screen.plain}"
            assert time.monotonic() < deadline, f"not seen: {wanted}\n{text}"

    def wait(self) -> tuple[int, str]:
        """Waits for the end. Returns the exit code and what was written outside the screen."""
        deadline = time.monotonic() + PATIENCE_S
        while self.process.poll() is None:
            self.read(0.05)
            assert time.monotonic() < deadline, f"still running:\n{self.screen.text()}"
        self.read(0.0)
        return self.process.returncode, self.screen.plain.replace("\r\n", "\n")

    def is_restored(self) -> bool:
        """Whether the terminal has its modes of the start, and no alternate screen."""
        return termios.tcgetattr(self._its) == self._modes_before and not self.screen.is_alternate

    def hang_up(self) -> None:
        """Takes the terminal away, as a closed SSH connection does."""
        for end in (self._ours, self._its):
            with contextlib.suppress(OSError):
                os.close(end)
        self.process.send_signal(signal.SIGHUP)

    def __enter__(self) -> "ScreenProgram":
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        for end in (self._ours, self._its):
            with contextlib.suppress(OSError):
                os.close(end)
