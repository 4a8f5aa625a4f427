"""Many agents on one connection to a running venue. Each agent has its own account."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from os import PathLike
from typing import SupportsIndex

from pitwire._connected import (
    ConnectedOutcome,
    ConnectedVenue,
    ConnectionOwner,
    Request,
    as_json,
    instruments_of,
    open_connection,
    parse,
    send_all,
)
from pitwire.errors import InvalidValue, UnknownName, VenueClosed

#: Largest number of order numbers that are kept with their agent. A message without orders names
#: its agent only by the order numbers of its trades.
_MOST_ORDERS = 100_000
#: Largest number of messages that wait for an agent. Beyond it the oldest are lost and counted.
_MOST_NOTICES = 100_000


class Agent(ConnectedVenue):
    """One agent of a connection. It has the calls of `Venue` for the account of its login."""

    def __init__(self, group: ConnectedAgents, name: str, number: int) -> None:
        self.name = name
        self._group, self._agent, self._connection = group, number, group._connection
        self._orders = {}
        self.instruments = group.instruments
        self._notices: list[str | None] = []
        self._lost = 0

    def start(self, request: Request) -> Future[ConnectedOutcome]:
        """Sends a request and returns at once; see `ConnectedAgents.start`."""
        return self._group.start(request)

    def close(self) -> None:
        """Is refused: the connection belongs to all agents."""
        raise InvalidValue(f"the connection of {self.name} belongs to all agents", "close the object of all agents")

    def _take_notices(self) -> tuple[list[str | None], int]:
        self._group._collect()
        taken = (self._notices, self._lost)
        self._notices, self._lost = [], 0
        return taken


class ConnectedAgents(ConnectionOwner, Mapping[str, Agent]):
    """Agents on one connection, by name. Each has its own account, orders and events.

    In lockstep, `step` sends the requests of all agents together and then advances the clock of the
    venue. Otherwise `start` sends one request at once and returns a future.
    """

    def __init__(
        self,
        url: str,
        logins: Mapping[str, tuple[str, str]],
        *,
        authority: str | PathLike[str] | None = None,
        timeout_s: float = 10.0,
    ) -> None:
        if not isinstance(logins, Mapping) or not logins:
            what = "logins is empty" if not logins else f"logins is a {type(logins).__name__}"
            raise InvalidValue(what, "give the key and the secret of each agent by its name")
        for name, login in logins.items():
            if not (
                isinstance(login, tuple | list) and len(login) == 2 and all(isinstance(part, str) for part in login)
            ):
                # Not the value itself: it may contain a secret.
                raise InvalidValue(f"the login of {name!r} is not a pair of texts", "give its key and its secret")
        self._connection = open_connection(url, None, None, authority, timeout_s, [tuple(x) for x in logins.values()])
        #: The instruments by name.
        self.instruments = instruments_of(self._connection)
        self._agents = {name: Agent(self, name, number) for number, name in enumerate(logins)}
        self._by_user: dict[int, Agent] = {}
        self._by_order: dict[int, Agent] = {}
        for agent in self._agents.values():
            for account, user in agent.accounts.items():
                other = self._by_user.setdefault(user, agent)
                if other is not agent:
                    self._connection.close()
                    what = f"{agent.name} and {other.name} have the account {account}"
                    raise InvalidValue(what, "give each agent the login of an account of its own")

    def __getitem__(self, name: str) -> Agent:
        try:
            return self._agents[name]
        except KeyError:
            raise UnknownName(f"there is no agent {name!r}", f"use one of {', '.join(self._agents)}") from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._agents)

    def __len__(self) -> int:
        return len(self._agents)

    def step(self, requests: Sequence[Request], ns: SupportsIndex = 0) -> list[ConnectedOutcome]:
        """Sends requests of any agents, in this order and without waiting in between. If the venue
        runs with `--clock manual`, its clock then advances by `ns` nanoseconds. Returns the outcomes
        in the same order.

        `Agent.events` then has everything that happened up to the end of the step.
        """
        outcomes = send_all(self._connection, [self._own(request) for request in requests])
        first = next(iter(self._agents.values()))
        if ns:
            first.advance(ns)
        # The venue sends events before it answers a later request.
        first.call("public/test")
        return outcomes

    def start(self, request: Request) -> Future[ConnectedOutcome]:
        """Sends a request and returns at once. `asyncio.wrap_future` awaits the outcome.

        A callback of the future runs on the thread of the connection and cannot call the venue.
        """
        future: Future[ConnectedOutcome] = Future()
        future.set_running_or_notify_cancel()
        parameters = as_json(self._own(request).parameters)
        self._connection.start(request.venue._agent, request.method, parameters, _settling(future, request))
        return future

    def _own(self, request: Request) -> Request:
        if not (isinstance(request.venue, Agent) and request.venue._group is self):
            raise InvalidValue("a request is from an agent of another connection", "use the agents of this object")
        return request

    def _collect(self) -> None:
        """Gives the messages that have arrived to their agents."""
        if not self.is_open:
            raise VenueClosed("this connection is closed", "call Venue.connect_agents again")
        texts, lost = self._connection.notices()
        for agent in self._agents.values():
            agent._lost += lost
        for text in texts:
            if text is None:
                for agent in self._agents.values():
                    agent._notices.append(None)
                continue
            owner = self._owner(text)
            if owner is not None:
                owner._notices.append(text)
        for agent in self._agents.values():
            excess = max(0, len(agent._notices) - _MOST_NOTICES)
            del agent._notices[:excess]
            agent._lost += excess

    def _owner(self, text: str) -> Agent | None:
        """Returns the agent of a message: that of its orders, or else that of the orders filled."""
        notice = parse(text)
        owner = None
        for order in notice["orders"]:
            owner = self._by_user.get(int(order["user_id"]))
            if owner is not None:
                self._by_order[int(order["order_id"])] = owner
        while len(self._by_order) > _MOST_ORDERS:
            del self._by_order[next(iter(self._by_order))]
        for trade in notice["trades"]:
            owner = owner or self._by_order.get(int(trade["order_id"]))
        return owner


def _settling(future: Future[ConnectedOutcome], request: Request) -> Callable[[str | Exception], None]:
    """Returns a function that settles a future with the answer to its request."""

    def settle(answer: str | Exception) -> None:
        try:
            future.set_result(request.venue._outcome(request, answer))
        except Exception as error:
            future.set_exception(error)

    return settle
