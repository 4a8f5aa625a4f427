"""The conformance checks: the connectors that are built pass, and connectors with a known fault
fail.

A connector without `build/` is skipped by name. The broken connectors are the Python connector with one
change each. They need only the interpreter and the packages of this test run.
"""

import re
import sys
from pathlib import Path

import pytest

from conform import BadConnector, Check, Connector, check
from conform.checks import CHECKS
from conform.connector import CONNECTORS
from conform.server import BINARY, PING, TEXT, frame

PYTHON = CONNECTORS / "python-websockets"
NAMES = sorted(path.parent.name for path in CONNECTORS.glob("*/connector.toml"))
BUILT = [name for name in NAMES if (CONNECTORS / name / "build").exists()]
# What each broken connector changes in the Python connector (file, text, replacement), and the
# check that notices it.
STAMP = "received_ns = time.monotonic_ns()"
UNTIL = "        until = time.monotonic() + GIVE_UP_S"
FAULTS = {
    "drops one": (
        ("capture.py", "self.ring.append(event)", "self.ring.append(event) if self.received % 999 else None"),
        "rate",
    ),
    "stamps late": (("connector.py", STAMP, f"time.sleep(0.05)\n            {STAMP}"), "stamps"),
    "stamps early": (("connector.py", STAMP, f"{STAMP} - 10**9"), "stamps"),
    "ignores SIGTERM": (("connector.py", "(signal.SIGTERM, signal.SIGINT)", "(signal.SIGINT,)"), "stop"),
    "ignores the exit file": (("capture.py", "if self._exit_file.exists():", "if False:"), "stop"),
    "counts from its start": (("connector.py", "{time.monotonic_ns()}", "{time.process_time_ns()}"), "clock"),
    "overwrites a file": (("capture.py", "os.O_EXCL", "os.O_TRUNC"), "failures"),
    "never reconnects": (("connector.py", 'if os.environ["LAB_RECONNECT"] != "1":', "if True:"), "reconnect"),
    "reconnects slowly": (("connector.py", UNTIL, f"        await asyncio.sleep(0.4)\n{UNTIL}"), "reconnect"),
    "counts characters": (("connector.py", "len(message.encode())", "len(message)"), "content"),
    "hides a full disk": (("capture.py", "            return 6\n", "            return code\n"), "full disk"),
    "never compresses": (("library.py", 'os.environ.get("LAB_COMPRESS") == "1"', "False"), "compression"),
    "has a small limit": (("library.py", "16 << 20", "1 << 20"), "content"),
}


def copy(folder: Path) -> Path:
    """Copies the Python connector, to be run by this interpreter."""
    for file in (PYTHON / "library.py", *(CONNECTORS / "common" / "python").glob("*.py")):
        (folder / file.name).write_text(file.read_text())
    (folder / "connector.toml").write_text(without_build((PYTHON / "connector.toml").read_text()))
    return folder


def without_build(description: str) -> str:
    """Changes a connector.toml so that this interpreter runs the connector."""
    description = re.sub(r"(?s)build = \[.*?\n\]\n", "build = []\n", description)
    return re.sub(r"run = .*", f'run = ["{sys.executable}", "connector.py"]', description)


def broken(folder: Path, fault: str) -> Path:
    """Copies the Python connector with one fault."""
    (name, text, replacement), _ = FAULTS[fault]
    source = (copy(folder) / name).read_text()
    assert source.count(text) == 1, f"{name} must have {text!r} once"
    (folder / name).write_text(source.replace(text, replacement))
    return folder


def failures(results: list[Check]) -> list[str]:
    return [f"{result.name}: {result.detail}" for result in results if not result.ok]


@pytest.mark.parametrize("rule", CHECKS)
@pytest.mark.parametrize("name", BUILT)
def test_every_built_connector_passes(name: str, rule: str) -> None:
    connector = Connector.load(CONNECTORS / name)
    if missing := connector.missing():
        pytest.skip(f"this machine lacks {', '.join(missing)}")
    results = check(connector.folder, short=True, only=[rule])
    assert not failures(results)
    assert [result.name for result in results] == [rule]


@pytest.mark.parametrize("name", sorted(set(NAMES) - set(BUILT)))
def test_a_connector_that_is_not_built_is_reported(name: str) -> None:
    missing = ", ".join(Connector.load(CONNECTORS / name).missing())
    pytest.skip(f"{name} is not built" + (f"; this machine lacks {missing}" if missing else ""))


@pytest.mark.parametrize("fault", list(FAULTS))
def test_a_broken_connector_fails_the_check_for_its_fault(tmp_path: Path, fault: str) -> None:
    folder = broken(tmp_path, fault)
    results = check(folder, short=True, only=[FAULTS[fault][1]])
    assert failures(results), f"no check noticed: {fault}"


def test_the_copied_connector_passes_without_a_fault(tmp_path: Path) -> None:
    results = check(copy(tmp_path), short=True, only=["clock", "stamps", "locked file"])
    assert not failures(results)


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"(?ms)^```{language}\n(.*?)^```", page.read_text())


def test_the_folder_of_the_tutorial_passes(tmp_path: Path) -> None:
    page = CONNECTORS.parents[1] / "docs" / "lab-connectors.md"
    copy(tmp_path)
    (tmp_path / "library.py").write_text(blocks(page, "python")[0])
    (tmp_path / "connector.toml").write_text(without_build(blocks(page, "toml")[0]))
    assert Connector.load(tmp_path).name == "python-queue"
    results = check(tmp_path, short=True, only=["clock", "lost connection", "TLS"])
    assert not failures(results)


def test_the_tutorial_names_a_folder_to_copy_for_each_language() -> None:
    page = (CONNECTORS.parents[1] / "docs" / "lab-connectors.md").read_text()
    rows = page.partition("| language | copy | write |")[2].partition("\n\n")[0].splitlines()[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    folders = {language: folder.strip("`") for language, folder, _ in cells}
    assert folders.keys() == {Connector.load(CONNECTORS / name).language for name in NAMES}
    for language, folder in folders.items():
        assert Connector.load(CONNECTORS / folder).language == language


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("name = 1", "missing"),
        ("nme = 'x'", "unknown key 'nme'"),
        ("name = ", "connector.toml"),
    ],
)
def test_a_wrong_description_is_refused_with_the_key(tmp_path: Path, text: str, expected: str) -> None:
    (tmp_path / "connector.toml").write_text(text)
    with pytest.raises(BadConnector, match=expected):
        Connector.load(tmp_path)


def test_a_value_of_another_type_is_refused(tmp_path: Path) -> None:
    description = (PYTHON / "connector.toml").read_text().replace('name = "python-websockets"', "name = 7")
    (tmp_path / "connector.toml").write_text(description)
    with pytest.raises(BadConnector, match="name = 7: expected str"):
        Connector.load(tmp_path)


def test_a_missing_compiler_is_named() -> None:
    connector = Connector.load(PYTHON)
    absent = Connector(**(connector.__dict__ | {"tools": ["python3", "no-such-compiler"], "packages": []}))
    assert absent.missing() == ["no-such-compiler"]


def test_a_failed_build_shows_the_output() -> None:
    connector = Connector.load(PYTHON)
    build = [[sys.executable, "-c", "print('line 1 is wrong'); raise SystemExit(3)"]]
    with pytest.raises(BadConnector, match=r"(?s)exited with 3.*line 1 is wrong"):
        Connector(**(connector.__dict__ | {"build": build})).make()


def test_frames_have_the_bytes_of_rfc_6455() -> None:
    # The examples of section 5.7, unmasked and masked, and the three forms of the length.
    assert frame(TEXT, b"Hello") == bytes.fromhex("810548656c6c6f")
    assert frame(TEXT, b"Hello", mask=bytes.fromhex("37fa213d")) == bytes.fromhex("818537fa213d7f9f4d5158")
    assert frame(TEXT, b"Hel", fin=False) == bytes.fromhex("010348656c")
    assert frame(PING, b"Hello") == bytes.fromhex("890548656c6c6f")
    assert frame(BINARY, bytes(256))[:4] == bytes.fromhex("827e0100")
    assert frame(BINARY, bytes(65536))[:10] == bytes.fromhex("827f0000000000010000")
