"""Fixtures: one venue for each test file, and clients that leave nothing behind."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from rpc import Http, Ws
from venue import DEMO_A, DEMO_B, Venue


@pytest.fixture(scope="module")
def venue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Venue]:
    """The demo venue with its flow. Shared by a file, so tests read balances before and after, never absolutely."""
    with Venue(tmp_path_factory.mktemp("venue") / "data") as running:
        yield running
        assert running.alive(), f"the venue died during this file:\n{running.log_tail()}"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory of a test's own."""
    return tmp_path / "data"


@pytest.fixture
def http(venue: Venue) -> Iterator[Http]:
    """demo-a over HTTP; its orders are cancelled afterwards."""
    client = Http(venue.address, DEMO_A)
    yield client
    client.result("private/cancel_all")
    client.close()


@pytest.fixture
def other(venue: Venue) -> Iterator[Http]:
    """demo-b over HTTP."""
    client = Http(venue.address, DEMO_B)
    yield client
    client.result("private/cancel_all")
    client.close()


@pytest.fixture
def ws(venue: Venue) -> Iterator[Ws]:
    """A WebSocket on which nobody has logged in."""
    with Ws(venue.ws_url) as client:
        yield client


@pytest.fixture
def trader(venue: Venue) -> Iterator[Ws]:
    """A WebSocket on which demo-a has logged in; its orders are cancelled afterwards."""
    with Ws(venue.ws_url) as client:
        client.login(DEMO_A)
        yield client
        client.result("private/cancel_all")
