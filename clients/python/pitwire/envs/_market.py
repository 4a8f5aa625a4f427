"""The market of an environment: a venue, one instrument, and the wealth of agents."""

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from pitwire import Venue
from pitwire._types import check_least
from pitwire.errors import InvalidArray, InvalidValue, VenueClosed

NANOSECONDS = 10**9
Observation = npt.NDArray[np.float32]


@dataclass(frozen=True)
class MarketSettings:
    """Settings of the market of an environment."""

    preset: str = "demo"
    instrument: str = "BTC_USDC"
    #: Order flow of the preset; None leaves the market to the agents.
    flow: str | None = "market"
    #: Venue time between two decisions, in nanoseconds.
    step_ns: int = NANOSECONDS // 4
    #: Venue time before the first decision, in nanoseconds.
    warm_up_ns: int = 5 * NANOSECONDS
    #: Decisions in an episode.
    steps: int = 200

    def __post_init__(self) -> None:
        for name, least in (("step_ns", 1), ("warm_up_ns", 0), ("steps", 1)):
            check_least(name, getattr(self, name), least)


@dataclass(frozen=True)
class MarketState:
    """The data that an agent may observe. Observation and reward functions take it."""

    #: Best prices in ticks and their lots. An empty side has the start price and no lots.
    bid_ticks: int
    bid_lots: int
    ask_ticks: int
    ask_lots: int
    #: Lots bought by the agent less lots sold by it.
    inventory_lots: int
    #: Value of the inventory at the middle price plus the cash earned, in ticks times lots.
    wealth: float
    #: Part of the episode that is left, from 1 to 0.
    time_left: float

    @property
    def mid_ticks(self) -> float:
        """Middle of the best prices."""
        return (self.bid_ticks + self.ask_ticks) / 2

    @property
    def imbalance(self) -> float:
        """Lots of the bid less those of the ask, divided by their sum; 0 for an empty book."""
        lots = self.bid_lots + self.ask_lots
        return (self.bid_lots - self.ask_lots) / lots if lots else 0.0


def numbers_of(action: Any, count: int, least: float, most: float) -> npt.NDArray[np.float64]:
    """Returns an action of `count` numbers, cut to its bounds.

    Raises InvalidArray for another type or size, and InvalidValue for NaN and infinity.
    """
    remedy = f"use {count} numbers from {least:g} to {most:g}"
    try:
        numbers = np.asarray(action, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise InvalidArray(f"the action is {action!r}", remedy) from None
    if numbers.size != count:
        raise InvalidArray(f"the action has {numbers.size} numbers", remedy)
    if not np.isfinite(numbers).all():
        raise InvalidValue(f"the action is {action!r}", remedy)
    return np.minimum(np.maximum(numbers, least), most)


def running(market: "AgentMarket | None") -> "AgentMarket":
    """Returns the market of the episode. Raises VenueClosed before the first one."""
    if market is None:
        raise VenueClosed("no episode has started", "call reset first")
    return market


class AgentMarket:
    """A venue with accounts for agents, which have as much credit as they need."""

    def __init__(self, settings: MarketSettings, agents: list[str], seed: int) -> None:
        self.settings = settings
        self.venue = Venue(settings.preset, seed, flow=settings.flow, record=False)
        self.instrument = self.venue.instrument(settings.instrument)
        if self.instrument.kind != "spot":
            raise InvalidValue(f"{settings.instrument} is a perpetual", "use a spot instrument, such as BTC_USDC")
        self.accounts = {agent: self.venue.add_account(f"agent {agent}", unlimited=True) for agent in agents}
        self.venue.advance(settings.warm_up_ns)

    def state(self, agent: str, step: int) -> MarketState:
        """Returns the data that an agent may observe at a step."""
        bid, bid_lots, ask, ask_lots = self.venue.touch(self.instrument.id)
        start = self.instrument.start_price_ticks
        bid, ask = bid or (ask or start), ask or (bid or start)
        inventory, cash = self._holdings(agent)
        wealth = float(cash) + inventory * (bid + ask) / 2
        left = 1.0 - step / self.settings.steps
        return MarketState(bid, bid_lots, ask, ask_lots, inventory, wealth, left)

    def _holdings(self, agent: str) -> tuple[int, Decimal]:
        """Returns the inventory in lots and the cash in ticks times lots. Both begin at 0."""
        account, instrument = self.accounts[agent], self.instrument
        base = self.venue.balance(account, instrument.base).total
        quote = self.venue.balance(account, instrument.quote).total
        return int(base / instrument.lot), quote / (instrument.tick * instrument.lot)


class SingleAgentEnv(gym.Env[Observation, npt.NDArray[np.float32]]):
    """An environment whose episodes are markets with one agent."""

    metadata: dict[str, Any] = {"render_modes": []}  # noqa: RUF012 (as declared by Gymnasium)

    def __init__(self, settings: MarketSettings, agent: str) -> None:
        self.settings, self.agent = settings, agent
        self.market: AgentMarket | None = None

    def begin(self, seed: int | None) -> AgentMarket:
        """Starts an episode. Without a seed, it is drawn from the generator of the last one."""
        super().reset(seed=seed)
        venue_seed = seed if seed is not None else int(self.np_random.integers(2**31))
        self.close()
        self.market = AgentMarket(self.settings, [self.agent], venue_seed)
        self.step_number = 0
        self.state = self.market.state(self.agent, 0)
        return self.market

    def close(self) -> None:
        """Closes the venue of the episode."""
        if self.market is not None:
            self.market.venue.close()
