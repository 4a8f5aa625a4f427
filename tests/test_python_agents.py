"""Many agents on one connection: each with its account, in lockstep and asynchronously."""

import asyncio
import re
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import numpy as np
import pytest
from rpc import Http
from venue import DEMO_A, OPERATOR, Venue

pitwire = pytest.importorskip("pitwire", reason="run scripts/build-python")
from pitwire import errors  # noqa: E402 (after the check that the package is installed)

AGENTS = 50
SECOND_NS = 10**9
PRICE_TICKS = 120_000

Logins = dict[str, tuple[str, str]]


@pytest.fixture(scope="module")
def logins(running: Venue) -> Logins:
    """Accounts with funds, and their logins."""
    operator = Http(running.address, OPERATOR)
    found = {}
    for number in range(AGENTS):
        name = f"agent-{number:02}"
        made = operator.result("private/pitwire_create_account", {"name": name})
        found[name] = (made["client_id"], made["client_secret"])
        for currency, amount in [("USDC", "1000000"), ("BTC", "10")]:
            operator.result("private/pitwire_deposit", {"name": name, "currency": currency, "amount": amount})
    return found


@pytest.fixture
def agents(running: Venue, logins: Logins) -> Iterator[Any]:
    with pitwire.Venue.connect_agents(running.ws_url, logins) as connected:
        yield connected
        for agent in connected.values():
            agent.cancel_all()


class Link:
    """A TCP connection between a client and a venue, which a test can cut."""

    def __init__(self, address: str) -> None:
        host, port = address.rsplit(":", 1)
        self.target = (host, int(port))
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.open: list[socket.socket] = []
        threading.Thread(target=self.accept, daemon=True).start()

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.listener.getsockname()[1]}/ws/api/v2"

    def accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(self.target)
                self.open += [client, server]
                for source, sink in [(client, server), (server, client)]:
                    threading.Thread(target=self.copy, args=(source, sink), daemon=True).start()

    @staticmethod
    def copy(source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                sink.sendall(data)
        with suppress(OSError):
            sink.shutdown(socket.SHUT_RDWR)

    def cut(self) -> None:
        for end in self.open:
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self.open.clear()

    def close(self) -> None:
        self.listener.close()
        self.cut()


def kinds(events: Any) -> list[str]:
    return [pitwire.EVENT_KINDS[kind] for kind in events["kind"]]


def connections(venue: Venue) -> int:
    metrics = Http(venue.address).get("/metrics").body
    text = metrics.decode() if isinstance(metrics, bytes) else metrics
    return int(re.search(r"^pitwire_open_connections (\d+)", text, re.MULTILINE)[1])  # type: ignore[index]


def test_fifty_agents_share_one_connection_and_get_their_own_events(running: Venue, logins: Logins) -> None:
    before = connections(running)
    with pitwire.Venue.connect_agents(running.ws_url, logins) as agents:
        assert connections(running) == before + 1
        assert list(agents) == list(logins) and len(agents) == AGENTS
        # Each agent except the last one bids, all at different prices.
        *buyers, seller = agents.values()
        bids = [agent.order("BTC_USDC", "buy", 3, PRICE_TICKS - n) for n, agent in enumerate(buyers)]
        outcomes = agents.step(bids, ns=SECOND_NS)
        assert all(outcome.accepted for outcome in outcomes)
        ids = [outcome.order_id for outcome in outcomes]
        assert ids == sorted(ids), "the requests keep their order"
        for agent, order_id in zip(buyers, ids, strict=True):
            events = agent.events()
            assert kinds(events) == ["accepted"] and events["order"].tolist() == [order_id]
            assert [order.order_id for order in agent.orders()] == [order_id]
        assert kinds(seller.events()) == []

        # One sale fills the best half of them, and each buyer gets its own fill.
        filled = len(buyers) // 2
        [sale] = agents.step([seller.order("BTC_USDC", "sell", 3 * filled, PRICE_TICKS - AGENTS)])
        assert sale.filled_lots == 3 * filled
        for number, (agent, order_id) in enumerate(zip(buyers, ids, strict=True)):
            trades = agent.events().of_kind("trade")
            assert trades["order"].tolist() == ([order_id] if number < filled else [])
        assert set(seller.events().of_kind("trade")["order"]) == {sale.order_id}
        assert seller.balance(None, "USDC").total > 1_000_000 > buyers[0].balance(None, "USDC").total

        # An agent cannot cancel the order of another one.
        [refused] = agents.step([seller.cancellation(ids[-1])])
        assert not refused.accepted
        assert agents.step([agent.cancellation(i) for agent, i in zip(buyers[filled:], ids[filled:], strict=True)])


def test_agents_act_asynchronously(agents: Any) -> None:
    async def trade(number: int, agent: Any) -> tuple[set[int], int]:
        random = np.random.default_rng(number)
        own, filled = set(), 0
        for _ in range(6):
            side = ["buy", "sell"][number % 2]
            price = PRICE_TICKS + int(random.integers(-5, 6))
            outcome = await asyncio.wrap_future(agent.start(agent.order("BTC_USDC", side, 1, price)))
            assert outcome.accepted
            own.add(outcome.order_id)
            filled += outcome.filled_lots
        return own, filled

    async def everyone() -> list[tuple[set[int], int]]:
        return await asyncio.gather(*(trade(number, agent) for number, agent in enumerate(agents.values())))

    done = asyncio.run(everyone())
    agents.step([])
    assert sum(filled for _, filled in done) > 0
    assert len(set().union(*(own for own, _ in done))) == 6 * AGENTS
    for agent, (own, _) in zip(agents.values(), done, strict=True):
        events = agent.events()
        assert set(events["order"]) == own and events.gaps == 0
        assert {order.order_id for order in agent.orders()} <= own


def test_a_future_has_the_refusal_and_the_exception_of_its_call(agents: Any) -> None:
    agent = agents["agent-00"]
    refused = agent.start(agent.cancellation(1)).result(60)
    assert not refused.accepted and refused.reason
    # A callback on the thread of the connection would wait for itself.
    raised: list[BaseException] = []
    called = threading.Event()
    future = agent.start(agent.order("BTC_USDC", "buy", 1, PRICE_TICKS - 1_000))

    def call(_: Any) -> None:
        try:
            agent.orders()
        except errors.PitwireError as error:
            raised.append(error)
        called.set()

    future.add_done_callback(call)
    assert future.result(60).accepted and called.wait(60)
    # If the answer was there already, the callback ran on this thread.
    assert not raised or isinstance(raised[0], errors.VenueBusy)


def test_after_a_cut_every_agent_is_logged_in_again(running: Venue, logins: Logins) -> None:
    link = Link(running.address)
    few = dict(list(logins.items())[:5])
    with pitwire.Venue.connect_agents(link.url, few) as agents:
        orders = [agent.order("BTC_USDC", "buy", 1, PRICE_TICKS - 1_000) for agent in agents.values()]
        assert all(outcome.accepted for outcome in agents.step(orders))
        assert all(kinds(agent.events()) == ["accepted"] for agent in agents.values())
        link.cut()
        for attempt in range(50):
            try:
                ids = [agent.orders()[0].order_id for agent in agents.values()]
                break
            except errors.CallUnanswered:
                assert attempt < 49
        cancels = [agent.cancellation(order) for agent, order in zip(agents.values(), ids, strict=True)]
        assert all(outcome.accepted for outcome in agents.step(cancels))
        for agent in agents.values():
            events = agent.events()
            assert kinds(events) == ["cancelled"] and events.gaps == 1
    link.close()


def test_wrong_agents_and_requests_are_refused(running: Venue, logins: Logins, agents: Any) -> None:
    connect = pitwire.Venue.connect_agents
    with pytest.raises(errors.InvalidValue, match="logins is empty"):
        connect(running.ws_url, {})
    for wrong in ([("a", "b")], {"a": "b"}, {"a": ("b", 1)}, {"a": ("b",)}):
        with pytest.raises(errors.InvalidValue, match="login"):
            connect(running.ws_url, wrong)
    first = next(iter(logins.values()))
    with pytest.raises(errors.InvalidValue, match="have the account agent-00"):
        connect(running.ws_url, {"a": first, "b": first})
    with pytest.raises(errors.CallRefused):
        connect(running.ws_url, {"a": first, "b": (first[0], "wrong")})
    with pytest.raises(errors.UnknownName, match="no agent 'absent'"):
        agents["absent"]
    with pytest.raises(errors.InvalidValue, match="belongs to all agents"):
        agents["agent-00"].close()
    with (
        pitwire.Venue.connect(running.ws_url, DEMO_A.client_id, DEMO_A.secret) as other,
        pytest.raises(errors.InvalidValue, match="another connection"),
    ):
        agents.step([other.order("BTC_USDC", "buy", 1, PRICE_TICKS)])
    with connect(running.ws_url, {"a": first}) as closed:
        agent = closed["a"]
    for call in (agent.orders, agent.events, lambda: closed.step([])):
        with pytest.raises(errors.VenueClosed):
            call()
