"""Publishers: their folders, the checks, and the checks of the checks."""

import re
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import lines_of_code

from lab.connectors import ConnectorError
from lab.process import RunError
from lab.publication import artillery, publishers
from lab.publication.check import check
from lab.publication.publishers import Publisher, PublisherDescription
from lab.publication.server import Queue, Server
from lab.publication.workload import Workload, measure

PROGRAM = Path(__file__).parent / "programs" / "publisher.py"
CHILD_BYTES = 50 * 2**20  # what the child of the test publisher holds


def program(fault: str = "") -> Publisher:
    """The test publisher, with one fault of PUBLISHER_FAULT."""
    description = PublisherDescription(
        name="test",
        language="Python",
        library="websockets",
        version="17.4",
        tests=["echo", "heartbeat", "fan-out", "queue"],
        tools=[],
        build=[],
        run=["/usr/bin/env", f"PUBLISHER_FAULT={fault}", sys.executable, str(PROGRAM)],
    )
    return Publisher(description, PROGRAM.parent)


@pytest.mark.parametrize("name", sorted(publishers.load_all()))
def test_a_publisher_passes_the_checks(name: str) -> None:
    publisher = publishers.load_all()[name]
    problem = publisher.problem()
    if problem is not None:
        pytest.skip(problem)
    failed = [f"{result.name}: {result.problem}" for result in check(publisher) if result.problem is not None]
    assert failed == []


@pytest.mark.parametrize("folder", sorted(publishers.PUBLISHERS.glob("*/publisher.toml")), ids=lambda p: p.parent.name)
def test_a_publisher_has_fewer_than_200_lines(folder: Path) -> None:
    assert 0 < lines_of_code(folder.parent) < 200


def test_every_publisher_offers_echo_heartbeat_and_fan_out_and_some_a_queue() -> None:
    offered = {name: set(publisher.description.tests) for name, publisher in publishers.load_all().items()}
    assert all(tests >= {"echo", "heartbeat", "fan-out"} for tests in offered.values()), offered
    with_queue = {name for name, tests in offered.items() if "queue" in tests}
    assert publishers.OURS in with_queue
    assert len(with_queue) > 1


def test_the_test_publisher_passes_the_checks() -> None:
    found = {result.name: result.problem for result in check(program())}
    assert found == dict.fromkeys(("echo", "heartbeat", "fan-out", "queue", "token", "settings", "stop"))


@pytest.mark.parametrize(
    ("fault", "failing"),
    [
        ("changed-echo", "echo"),
        ("one-answer-less", "heartbeat"),
        ("short-answer", "heartbeat"),
        ("repeated-number", "fan-out"),
        ("no-number", "fan-out"),
        ("no-time", "fan-out"),
        ("wrong-size", "fan-out"),
        ("silent", "fan-out"),
        ("changed-queue", "queue"),
        ("any-token", "token"),
        ("any-test", "settings"),
        ("ignore-sigterm", "stop"),
    ],
)
def test_a_fault_fails_its_check(fault: str, failing: str) -> None:
    found = next(result for result in check(program(fault), only=failing))
    assert found.problem is not None


def test_a_publisher_that_ends_is_named_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"test ended with 3 .* before it was ready: no port today"):
        measure(program("no-start"), Workload(kind="echo", connections=1, seconds=1), tmp_path)


def test_the_limit_of_a_publisher_that_carries_nothing_is_zero(tmp_path: Path) -> None:
    workload = Workload(kind="heartbeat", connections=1, seconds=0.2, messages=2, bytes=10, find_limit=True)
    figures = measure(program("one-answer-less"), workload, tmp_path)
    assert figures["limit"] == 0


def test_a_warm_up_has_the_same_load_and_is_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loads = []

    def load(self: Server, arguments: list[str], **_: object) -> dict:
        loads.append(arguments)
        return {"run": len(loads)}

    monkeypatch.setattr(Server, "load", load)
    figures = measure(program(), Workload(kind="echo", connections=1, seconds=3, warm_up_s=2), tmp_path)
    assert figures == {"run": 2}
    assert [arguments[arguments.index("--seconds") + 1] for arguments in loads] == ["2", "3"]


def test_cpu_and_memory_count_the_children_of_a_publisher(tmp_path: Path) -> None:
    workload = Workload(kind="echo", connections=1, seconds=0.3)
    with Server(program(), workload.settings(None), tmp_path) as alone:
        one = alone.memory_bytes()
    with Server(program("child"), workload.settings(None), tmp_path) as parent:
        eventually(lambda: parent.memory_bytes() > one + CHILD_BYTES / 2)


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_queue_has_messages_when_it_is_ready(tmp_path: Path) -> None:
    with Queue(tmp_path, rate=50, size_bytes=190):
        assert (tmp_path / "feeder.out").read_text() == "feeding\n"


def test_a_queue_delivers_every_message_in_order(tmp_path: Path) -> None:
    figures = measure(program(), Workload(kind="queue", connections=2, seconds=0.5, rate=50), tmp_path)
    assert figures["deliveries"] > 0
    assert figures["lost"] == figures["duplicated"] == figures["unnumbered"] == 0


@pytest.mark.parametrize(("fault", "has_errors"), [("", False), ("changed-echo", True)])
def test_artillery_measures_echoes_and_counts_wrong_ones(tmp_path: Path, fault: str, has_errors: bool) -> None:
    if (problem := artillery.problem()) is not None:
        pytest.skip(problem)
    figures = artillery.measure(program(fault), Workload(kind="echo", connections=2, seconds=2, rate=10), tmp_path)
    assert (figures["errors"] > 0) == has_errors, figures
    if not has_errors:
        assert figures["deliveries"] == 20
        assert 0 < figures["p50_us"] <= figures["p99_us"]


def test_our_publisher_runs_with_its_default_settings() -> None:
    script = (publishers.PUBLISHERS / publishers.OURS / "publish").read_text()
    source_of_messages = {"--echo", "--respond", "--synthetic", "--bytes", "--nats", "--subject", "--auth"}
    assert set(re.findall(r"--[a-z-]+", script)) == source_of_messages | {"--listen", "--ready-file"}


def test_the_publisher_of_the_tutorial_passes_the_checks(tmp_path: Path) -> None:
    page = (publishers.REPOSITORY / "docs" / "lab-publishers.md").read_text()
    blocks = re.findall(r"^    ```(toml|python)\n(.*?)^    ```$", page, re.MULTILINE | re.DOTALL)
    assert [kind for kind, _ in blocks] == ["toml", "python"]
    description, code = (textwrap.dedent(text) for _, text in blocks)
    (tmp_path / "publisher.toml").write_text(description)
    (tmp_path / "publisher.py").write_text(code)
    (written,) = publishers.load(tmp_path)
    # The Python of the tests has the same library, so nothing is installed here.
    changes = {"build": [], "run": [sys.executable, "publisher.py"]}
    publisher = Publisher(written.description.model_copy(update=changes), tmp_path)
    assert [result for result in check(publisher) if result.problem is not None] == []


def test_a_wrong_description_is_named(tmp_path: Path) -> None:
    (tmp_path / "publisher.toml").write_text('name = "x"\nspeed = 1\n')
    with pytest.raises(ConnectorError, match='unknown key "speed"'):
        publishers.load(tmp_path)
    with pytest.raises(ConnectorError, match="cannot read"):
        publishers.load(tmp_path / "absent")


def test_publisher_that_was_not_built_names_the_remedy(tmp_path: Path) -> None:
    fields = {"language": "C", "library": "none", "version": "1", "tests": ["echo"], "tools": ["sh"]}
    failing = PublisherDescription(name="x", build=[["false"]], run=["sh"], **fields)
    publisher = Publisher(failing, tmp_path)
    assert publisher.problem() == "not built: run `lab publication build x`"
    with pytest.raises(ConnectorError, match="`false` ended with 1"):
        publisher.build(tmp_path / "log")
    building = Publisher(failing.model_copy(update={"build": [["true"]]}), tmp_path)
    building.build(tmp_path / "log")
    assert building.problem() is None
