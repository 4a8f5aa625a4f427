"""Market making: an agent quotes both sides and earns the spread."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from pitwire._types import check_least
from pitwire.envs._market import MarketSettings, MarketState, Observation, SingleAgentEnv, numbers_of, running

_AGENT = "maker"


def observe(state: MarketState, max_inventory_lots: int) -> Observation:
    """The default observation: inventory, spread, imbalance, time left; each about 1 at most."""
    spread = min((state.ask_ticks - state.bid_ticks) / 10, 10.0)
    inventory = float(np.clip(state.inventory_lots / max_inventory_lots, -10, 10))
    return np.array([inventory, spread, state.imbalance, state.time_left], dtype=np.float32)


def reward(before: MarketState, after: MarketState) -> float:
    """The default reward: the growth of wealth less a penalty for inventory, in ticks times
    lots."""
    return after.wealth - before.wealth - 0.01 * abs(after.inventory_lots)


class MarketMakingEnv(SingleAgentEnv):
    """Each step cancels the agent's quotes, enters a bid and an ask, and lets time pass.

    An action is the distance of the bid and the ask from the best price of their side: -1 quotes at
    the best price, 1 quotes `max_offset_ticks` behind it. A side that would exceed the inventory
    limit is not quoted. `observe` and `reward` replace the default functions.
    """

    def __init__(
        self,
        settings: MarketSettings | None = None,
        *,
        quote_lots: int = 100,
        max_inventory_lots: int = 1000,
        max_offset_ticks: int = 10,
        observe: Callable[[MarketState, int], Observation] = observe,
        reward: Callable[[MarketState, MarketState], float] = reward,
        observation_space: gym.spaces.Box | None = None,
    ) -> None:
        super().__init__(settings or MarketSettings(), _AGENT)
        check_least("quote_lots", quote_lots, 1)
        check_least("max_inventory_lots", max_inventory_lots, 1)
        check_least("max_offset_ticks", max_offset_ticks, 0)
        self.quote_lots, self.max_inventory_lots = quote_lots, max_inventory_lots
        self.max_offset_ticks = max_offset_ticks
        self.observe, self.reward = observe, reward
        low, high = np.array([-10, -10, -1, 0], dtype=np.float32), np.array([10, 10, 1, 1], dtype=np.float32)
        self.observation_space = observation_space or gym.spaces.Box(low, high)
        self.action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts an episode. Without a seed, it is drawn from the generator of the last one."""
        self.begin(seed)
        return self.observe(self.state, self.max_inventory_lots), self._info()

    def step(self, action: npt.NDArray[np.float32]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Quotes, and lets one step pass."""
        market = running(self.market)
        shares = (numbers_of(action, 2, -1, 1) + 1) / 2
        venue, instrument = market.venue, market.instrument.id
        account, state = market.accounts[_AGENT], self.state
        venue.cancel_all(account)
        offsets = np.rint(shares * self.max_offset_ticks).astype(int)
        quotes = {"buy": state.bid_ticks - int(offsets[0]), "sell": state.ask_ticks + int(offsets[1])}
        for side, price in quotes.items():
            after = state.inventory_lots + self.quote_lots * (1 if side == "buy" else -1)
            if abs(after) <= self.max_inventory_lots or abs(after) < abs(state.inventory_lots):
                venue.submit(instrument, side, self.quote_lots, max(price, 1), account=account, post_only="reprice")
        venue.advance(self.settings.step_ns)
        self.step_number += 1
        self.state = market.state(_AGENT, self.step_number)
        earned = float(self.reward(state, self.state))
        is_over = self.step_number >= self.settings.steps
        return self.observe(self.state, self.max_inventory_lots), earned, False, is_over, self._info()

    def _info(self) -> dict[str, Any]:
        return {"wealth": self.state.wealth, "inventory_lots": self.state.inventory_lots}
