"""The marker `attack` and the table that a run prints: attack, tries, result.

A test of a rule in docs/security.md carries `@pytest.mark.attack("what the attacker does")`. It may
take the fixture `tries` and call it for each further attempt; without that, it counts as one try.
`make attack` runs only these tests, with ATTACK_FULL=1. `make test` runs them in their short form.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

# Whether the long form of the attacks was requested.
FULL = os.environ.get("ATTACK_FULL") == "1"


@dataclass
class Row:
    """The result of one attack, over all tests and parameters that carry its name."""

    tries: int = 0
    held: bool = True
    skipped: bool = True

    def result(self) -> str:
        if self.skipped:
            return "not tried"
        return "held" if self.held else "BROKEN"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "attack(name): an attack of docs/security.md, for the table of `make attack`")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    marker = item.get_closest_marker("attack")
    if marker is not None:
        assert marker.args, "give the attack a name: @pytest.mark.attack('what the attacker does')"
        item.user_properties.append(("attack", marker.args[0]))


@pytest.fixture
def tries(request: pytest.FixtureRequest) -> Iterator[Callable[[int], None]]:
    """Counts attempts: `tries(20)` adds twenty."""
    count = 0

    def add(more: int = 1) -> None:
        nonlocal count
        count += more

    yield add
    request.node.user_properties.append(("tries", count))


def attack_rows(reports: list[pytest.TestReport]) -> dict[str, Row]:
    """The rows of the table by the name of the attack, in the order of their tests."""
    skipped = {report.nodeid for report in reports if report.skipped}
    rows: dict[str, Row] = {}
    for report in sorted(reports, key=lambda report: report.location[:2]):
        properties = dict(report.user_properties)
        name = properties.get("attack")
        if name is None:
            continue
        row = rows.setdefault(str(name), Row())
        row.held &= not report.failed
        row.skipped &= report.nodeid in skipped
        # The teardown's report knows the number of tries.
        if report.when == "teardown" and report.nodeid not in skipped:
            row.tries += int(properties.get("tries", 1))
    return rows


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    kept = [
        report
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport)
    ]
    rows = attack_rows(kept)
    if not rows:
        return
    width = max(len("attack"), *(len(name) for name in rows))
    terminalreporter.section("attacks")
    terminalreporter.write_line(f"{'attack':<{width}}  {'tries':>7}  result")
    for name, row in rows.items():
        terminalreporter.write_line(f"{name:<{width}}  {row.tries:>7}  {row.result()}")
