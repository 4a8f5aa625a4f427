"""Every program of docs/clients.md runs against the demo venue, and prints the output of the
page."""

import re
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from rpc import Http
from tutorial import matches
from venue import DEMO_A, TOP, Venue

PAGE = TOP / "docs/clients.md"
VERSIONS = Path(__file__).parent / "clients"
PATIENCE_S = 120.0


@dataclass
class Program:
    language: str
    text: str
    output: list[str]
    heading: str


def programs() -> list[Program]:
    """Each program of the page, with the text block that follows it."""
    found: list[Program] = []
    heading = ""
    for part in re.finditer(r"^## ([^\n]*)$|^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL):
        title, language, text = part.groups()
        if title:
            heading = title
        elif language in ("python", "javascript", "java", "go"):
            found.append(Program(language, text, [], heading))
        elif language == "text":
            found[-1].output = text.splitlines()
    return found


def names() -> list[str]:
    return [f"{index}-{program.heading}" for index, program in enumerate(programs())]


@pytest.fixture(scope="session")
def node_modules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """ccxt for JavaScript, as its lock file says. npm takes it from its cache the next time."""
    assert shutil.which("npm"), "npm is missing; scripts/with node installs it"
    directory = tmp_path_factory.mktemp("javascript")
    for name in ("package.json", "package-lock.json"):
        shutil.copy(VERSIONS / name, directory)
    command = ["npm", "ci", "--no-audit", "--no-fund", "--prefer-offline", "--ignore-scripts"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    return directory


@pytest.fixture(scope="session")
def java_libraries(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """XChange, as the file of Maven says. Maven takes it from its cache the next time."""
    if not (shutil.which("mvn") and shutil.which("java")):
        pytest.skip("a Java compiler and Maven are missing")
    directory = tmp_path_factory.mktemp("java")
    shutil.copy(VERSIONS / "pom.xml", directory)
    command = ["mvn", "-q", "-B", "dependency:copy-dependencies", f"-DoutputDirectory={directory / 'libraries'}"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=PATIENCE_S * 3, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return directory / "libraries"


@pytest.fixture(scope="session")
def go_module(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The modules of the Go programs, as go.mod and go.sum say. Go keeps them in its cache."""
    if not shutil.which("go"):
        pytest.skip("Go is missing")
    directory = tmp_path_factory.mktemp("go")
    for name in ("go.mod", "go.sum"):
        shutil.copy(VERSIONS / name, directory)
    command = ["go", "mod", "download"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=PATIENCE_S * 3, check=False)
    assert done.returncode == 0, done.stderr
    return directory


@pytest.mark.parametrize("program", programs(), ids=names())
def test_a_program_prints_what_the_page_shows(
    program: Program, venue: Venue, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    assert "127.0.0.1:8080" in program.text and program.output, "a program names the venue and shows its output"
    text = program.text.replace("127.0.0.1:8080", venue.address)
    if program.language == "python":
        command, directory = [sys.executable, "-c", text], tmp_path
    elif program.language == "java":
        libraries, directory = request.getfixturevalue("java_libraries"), tmp_path
        (directory / "Program.java").write_text(text)
        command = ["java", "-cp", f"{libraries}/*", "Program.java"]
    elif program.language == "go":
        # A folder is a package, so each program has its own.
        directory = request.getfixturevalue("go_module")
        package = directory / tmp_path.name
        package.mkdir()
        (package / "main.go").write_text(text)
        command = ["go", "run", f"./{package.name}"]
    else:
        directory = request.getfixturevalue("node_modules")
        (directory / "program.mjs").write_text(text)
        command = ["node", "program.mjs"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=PATIENCE_S * 3, check=False)
    assert done.returncode == 0, done.stderr
    assert matches(program.output, done.stdout), done.stdout


def test_every_checked_client_of_the_table_has_a_program() -> None:
    page = PAGE.read_text()
    checked = [line.split("|")[1].strip() for line in page.splitlines() if "| `make test` |" in line]
    sources = "\n".join(program.text for program in programs())
    words = {
        "ccxt (Python)": "ccxt.deribit",
        "ccxt.pro (Python)": "ccxt.pro.deribit",
        "ccxt (JavaScript)": "from 'ccxt'",
        "typed-deribit (Python)": "from typed_deribit import",
        "XChange (Java)": "org.knowm.xchange",
    }
    words |= {"ccxt binance, gemini": "ccxt.gemini", "python-binance": "from binance import"}
    words |= {"go-binance": "adshao/go-binance", "gorilla/websocket (Go)": "gorilla/websocket"}
    assert checked == list(words) and all(word in sources for word in words.values())


def test_get_time_is_wall_time_on_an_accelerated_venue(data: Path) -> None:
    with Venue(data, extra=["--speed", "60", "--no-flow"]) as venue:
        member = Http(venue.address, DEMO_A)
        first = member.result("public/ticker", {"instrument_name": "NPN_ZAR"})["timestamp"]
        time.sleep(1)
        wall_ms = member.result("public/get_time")
        later = member.result("public/ticker", {"instrument_name": "NPN_ZAR"})["timestamp"]
        member.close()
    assert abs(wall_ms / 1000 - time.time()) < 60, "clients sign their logins with it"
    # At least one second passed, which is a minute of venue time. A slow machine adds to both.
    assert later - first >= 60_000, (first, later)
