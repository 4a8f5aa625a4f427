"""Binary order entry over Aeron: the Java client, a media driver of Java, and `pitwire-aeron` in
front of the real binary. `make aeron` builds it and runs these tests."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from aeron import channels, client_channels, running
from sbe_faults import FrameRelay
from test_sbe import OPTIONS, sbe_address
from test_sbe_clients import ACCOUNTS, check_life, orders
from venue import TOP, Venue

BRIDGE = os.environ.get("PITWIRE_AERON")
JAVA = ["java", "-jar", str(TOP / "clients/java-sbe/target/pitwire-sbe.jar")]
PATIENCE_S = 60.0

pytestmark = pytest.mark.skipif(BRIDGE is None, reason="make aeron runs it")


@pytest.fixture
def driver(tmp_path: Path) -> Iterator[str]:
    """The directory of a media driver."""
    directory = str(tmp_path / "aeron")
    with running([*JAVA, "aeron-driver", directory]):
        yield directory


@pytest.mark.parametrize("medium", ["ipc", "udp"])
def test_order_lives_through_lost_messages_and_cut_connections(medium: str, driver: str, data: Path) -> None:
    served = channels(medium)
    with (
        Venue(data, [*OPTIONS, "--sbe", "127.0.0.1:0"]) as venue,
        FrameRelay(sbe_address(venue), drop=2, cut=5) as relay,
        running([str(BRIDGE), relay.address, *served, driver]),
    ):
        gateway = ",".join([*client_channels(medium, served), driver])
        check_life(orders(JAVA, venue, gateway, ACCOUNTS), relay, venue)


def test_wrong_input_gets_one_clear_error(driver: str, tmp_path: Path) -> None:
    nowhere = str(tmp_path / "nowhere")
    for words, code, expected in (
        (["127.0.0.1:9", "aeron:dance", "aeron:ipc", driver], 1, "aeron:dance"),
        (["127.0.0.1:9", "aeron:ipc", "aeron:ipc", nowhere], 1, "media driver"),
        (["nowhere", "aeron:ipc", "aeron:ipc", driver], 2, "invalid address nowhere"),
        (["aeron:ipc"], 2, "usage"),
    ):
        ended = subprocess.run([str(BRIDGE), *words], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
        assert ended.returncode == code and ended.stderr.startswith("error: "), ended.stderr
        assert expected in ended.stderr, ended.stderr
