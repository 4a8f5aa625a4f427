"""Binary order entry over Aeron: the Java client, a media driver of Java, and a venue with Aeron.
`make aeron` builds it and runs these tests."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from aeron import channels, client_channels, running
from rpc import Http, until
from test_sbe import OPTIONS
from test_sbe_clients import ACCOUNTS, check_output, orders
from venue import DEMO_A, TOP, Venue, run_pitwire

JAVA = ["java", "-jar", str(TOP / "clients/java-sbe/target/pitwire-sbe.jar")]
PATIENCE_S = 60.0
LOST = "lost Aeron"

pytestmark = pytest.mark.skipif("PITWIRE_AERON" not in os.environ, reason="make aeron runs it")


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[str]:
    """The directory of a media driver."""
    directory = str(tmp_path / "aeron")
    with running([*JAVA, "aeron-driver", directory]):
        yield directory


def aeron_options(served: list[str], directory: str) -> list[str]:
    return ["--sbe-aeron", ",".join(served), "--sbe-aeron-directory", directory]


@pytest.mark.parametrize("idle", ["block", "busy"])
@pytest.mark.parametrize("medium", ["ipc", "udp"])
def test_order_lives_and_the_clients_come_back(medium: str, idle: str, driver: str, data: Path) -> None:
    served = channels(medium)
    gateway = ",".join([*client_channels(medium, served), driver])
    with Venue(data, [*OPTIONS, "--idle", idle, *aeron_options(served, driver)]) as venue:
        check_output(orders(JAVA, venue, gateway, ACCOUNTS), venue)
        again = orders(JAVA, venue, gateway, ACCOUNTS)
        assert again.returncode == 0, again.stdout + again.stderr


def test_wrong_secret_ends_the_stream_with_the_reason(driver: str, data: Path) -> None:
    served = channels("ipc")
    with Venue(data, [*OPTIONS, *aeron_options(served, driver)]) as venue:
        refused = orders(JAVA, venue, ",".join([*served, driver]), ["demo-a:wrong", ACCOUNTS[1]])
        assert refused.returncode == 1 and "13004" in refused.stderr, refused.stderr


def test_venue_goes_on_without_its_media_driver(tmp_path: Path, data: Path) -> None:
    served, directory = channels("ipc"), str(tmp_path / "aeron")
    with (
        running([*JAVA, "aeron-driver", directory]) as driver,
        Venue(data, [*OPTIONS, *aeron_options(served, directory)]) as venue,
    ):
        driver.kill()
        driver.wait(PATIENCE_S)
        until(lambda: LOST in venue.log_file.read_text(), "the end of Aeron")
        assert Http(venue.address, DEMO_A).result("private/get_open_orders") == []


def test_wrong_input_gets_one_clear_error(driver: str, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    for words, code, expected in (
        (aeron_options(["aeron:dance", "aeron:ipc"], driver), 1, "aeron:dance"),
        (aeron_options(["aeron:ipc", "aeron:ipc"], nowhere), 1, "no media driver"),
        (aeron_options(["aeron:ipc"], driver), 2, "aeron:ipc,aeron:ipc"),
        (["--sbe-aeron-directory", driver], 2, "--sbe-aeron"),
    ):
        ended = run_pitwire("up", "--http", "127.0.0.1:0", *OPTIONS, *words, timeout_s=PATIENCE_S)
        assert ended.returncode == code, ended.stderr
        assert expected in ended.stderr and "\n[" not in ended.stderr, ended.stderr
