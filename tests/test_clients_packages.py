"""The client packages in `clients/`, each by its own tests against the real venue and behind relays
that inject faults."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from rpc import Http
from test_relay import Relay, script
from venue import DEMO_B, TOP, Venue

PATIENCE_S = 600.0
# A package manager may have to fetch what a package needs.
TIMEOUT_S = 900

# Numbers of messages: a client says hello, logs in and asks for heartbeats first.
FIRST = '[[fault]]\nconnection = 1\nkind = "{}"\ndirection = "{}"\nat = [{}]\n'
FAULTS = {
    # The order is the fourth message, and so is its answer.
    "PITWIRE_LOST_REQUEST": FIRST.format("reset", "from-client", 4),
    "PITWIRE_LOST_ANSWER": FIRST.format("reset", "from-venue", 4),
    # After the answer to the subscription come the snapshot, the notice of resumption, and changes.
    "PITWIRE_GAP": FIRST.format("drop", "from-venue", 7),
    # After the answer and the notice of resumption come the reports of orders.
    "PITWIRE_CUT": FIRST.format("reset", "from-venue", 9) + '[[fault]]\nkind = "refuse"\nat = [2, 3]\n',
}


@pytest.fixture
def addresses(tmp_path: Path) -> Iterator[dict[str, str]]:
    """URLs of a venue and of the relays in front of it, by the variables that the tests read."""
    with ExitStack() as stack:
        venue = stack.enter_context(Venue(tmp_path / "data", extra=["--no-flow"]))
        with closing(Http(venue.address, DEMO_B)) as other:
            # The examples quote below a bid.
            other.result("private/buy", {"instrument_name": "BTC_USDC", "amount": 0.01, "price": 60000})
        urls = {"PITWIRE_URL": venue.ws_url}
        for name, faults in FAULTS.items():
            place = tmp_path / name
            place.mkdir()
            relay = Relay(place, venue.ws_url, "--faults", script(place, faults))
            urls[name] = stack.enter_context(relay).ws_url
        yield urls
        assert venue.alive(), venue.log_tail()


def copy_package(name: str, tmp_path: Path) -> Path:
    """A copy without built files, so that a test writes nothing into the checkout."""
    ignored = shutil.ignore_patterns("node_modules", "dist", "target")
    return Path(shutil.copytree(TOP / "clients" / name, tmp_path / name, ignore=ignored))


def run(directory: Path, urls: dict[str, str], *command: str) -> str:
    """Runs a program to its end and returns its output."""
    done = subprocess.run(
        command, cwd=directory, env=os.environ | urls, capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def states_of_the_order(output: str) -> list[str]:
    """The states that an example prints of its order."""
    return [line.rpartition(": ")[2] for line in output.splitlines() if line.startswith("order ")]


@pytest.mark.timeout(TIMEOUT_S)
def test_typescript(addresses: dict[str, str], tmp_path: Path) -> None:
    if not (shutil.which("node") and shutil.which("npm")):
        pytest.skip("node and npm are missing")
    package = copy_package("typescript", tmp_path)
    run(package, {}, "npm", "ci", "--no-audit", "--no-fund", "--prefer-offline", "--ignore-scripts")
    run(package, {}, "npm", "run", "build")
    assert "# pass 8\n" in run(package, addresses, "npm", "test")
    printed = run(package, {}, "npm", "run", "--silent", "example", "--", addresses["PITWIRE_URL"])
    assert states_of_the_order(printed) == ["open", "cancelled"]


@pytest.mark.timeout(TIMEOUT_S)
def test_java(addresses: dict[str, str], tmp_path: Path) -> None:
    if not (shutil.which("java") and shutil.which("mvn")):
        pytest.skip("a Java compiler and Maven are missing")
    package = copy_package("java", tmp_path)
    example = f"-Dexec.args={addresses['PITWIRE_URL']}"
    printed = run(package, addresses, "mvn", "-q", "-B", "test", "exec:java", example)
    report = (package / "target/surefire-reports/dev.pitwire.client.VenueTest.txt").read_text()
    assert "Tests run: 8, Failures: 0, Errors: 0, Skipped: 0" in report
    assert states_of_the_order(printed) == ["open", "cancelled"]


@pytest.mark.timeout(TIMEOUT_S)
def test_julia(addresses: dict[str, str], tmp_path: Path) -> None:
    if not shutil.which("julia"):
        pytest.skip("julia is missing")
    package = copy_package("julia", tmp_path)
    run(package, addresses, "julia", "--project=.", "-e", "using Pkg; Pkg.instantiate(); Pkg.test()")
    run(package, {}, "julia", "--project=.", "examples/quote.jl", addresses["PITWIRE_URL"])
