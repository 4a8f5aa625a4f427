"""Fixtures: one venue per test file, and clients that clean up after themselves."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from nats_server import server
from rpc import Http, Ws
from venue import DEMO_A, DEMO_B, Credentials, Venue

__all__ = ["server"]

pytest_plugins = ["attack_table"]


@pytest.fixture(scope="module")
def venue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Venue]:
    """The demo venue with its order flow. A file shares it, so tests compare balances before and
    after."""
    with Venue(tmp_path_factory.mktemp("venue") / "data") as running:
        yield running
        assert running.alive(), f"the venue died during this file:\n{running.log_tail()}"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Venue]:
    """A venue with a manual clock and without order flow."""
    data = tmp_path_factory.mktemp("manual") / "data"
    with Venue(data, extra=["--clock", "manual", "--no-flow"]) as venue:
        yield venue
        assert venue.alive(), venue.log_tail()
    shutil.rmtree(data)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory for one test."""
    return tmp_path / "data"


def member(venue: Venue, who: Credentials) -> Iterator[Http]:
    client = Http(venue.address, who)
    yield client
    client.result("private/cancel_all")
    client.close()


@pytest.fixture
def http(venue: Venue) -> Iterator[Http]:
    """demo-a over HTTP; its orders are cancelled afterwards."""
    yield from member(venue, DEMO_A)


@pytest.fixture
def other(venue: Venue) -> Iterator[Http]:
    """demo-b over HTTP; its orders are cancelled afterwards."""
    yield from member(venue, DEMO_B)


@pytest.fixture
def ws(venue: Venue) -> Iterator[Ws]:
    """A WebSocket without a login."""
    with Ws(venue.ws_url) as client:
        yield client


@pytest.fixture
def trader(venue: Venue) -> Iterator[Ws]:
    """A WebSocket with a login of demo-a; its orders are cancelled afterwards."""
    with Ws(venue.ws_url) as client:
        client.login(DEMO_A)
        yield client
        client.result("private/cancel_all")
