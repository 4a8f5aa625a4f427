"""Optimal execution: an agent sells or buys a given amount within an episode."""

from collections.abc import Callable
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt

from pitwire._types import check_least, text
from pitwire.envs._market import MarketSettings, MarketState, Observation, SingleAgentEnv, numbers_of, running
from pitwire.errors import InvalidValue

_AGENT = "trader"


def observe(state: MarketState, left_share: float, arrival_ticks: float) -> Observation:
    """The default observation: share left, time left, spread, imbalance, drift since the start."""
    spread = min((state.ask_ticks - state.bid_ticks) / 10, 10.0)
    drift = float(np.clip((state.mid_ticks - arrival_ticks) / 10, -10, 10))
    return np.array([left_share, state.time_left, spread, state.imbalance, drift], dtype=np.float32)


def reward(shortfall_ticks: float) -> float:
    """The default reward: the shortfall of the step against the arrival price, negative."""
    return -shortfall_ticks


class OptimalExecutionEnv(SingleAgentEnv):
    """Each step sends a market order for a share of the lots that are left, and lets time pass.

    An action from 0 to 1 is that share. The last step sends everything that is left. The reward is
    the implementation shortfall: the distance of the fills from the middle price at the start, in
    ticks per lot of the whole order. `info` has `shortfall_ticks`, the sum so far.
    """

    def __init__(
        self,
        settings: MarketSettings | None = None,
        *,
        side: str = "sell",
        lots: int = 20_000,
        observe: Callable[[MarketState, float, float], Observation] = observe,
        reward: Callable[[float], float] = reward,
        observation_space: gym.spaces.Box | None = None,
    ) -> None:
        if text("side", side) not in ("buy", "sell"):
            raise InvalidValue(f"side is {side!r}", 'use "buy" or "sell"')
        check_least("lots", lots, 1)
        super().__init__(settings or MarketSettings(steps=40), _AGENT)
        self.side, self.lots, self.observe, self.reward = side, lots, observe, reward
        low = np.array([0, 0, -10, -1, -10], dtype=np.float32)
        high = np.array([1, 1, 10, 1, 10], dtype=np.float32)
        self.observation_space = observation_space or gym.spaces.Box(low, high)
        self.action_space = gym.spaces.Box(0.0, 1.0, (1,), np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Starts an episode. Without a seed, it is drawn from the generator of the last one."""
        self.begin(seed)
        self.left_lots, self.shortfall_ticks = self.lots, 0.0
        self.arrival_ticks = self.state.mid_ticks
        return self._observation(), self._info()

    def step(self, action: npt.NDArray[np.float32]) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Sends a share of the remaining lots, and lets one step pass."""
        market, wanted = running(self.market), float(numbers_of(action, 1, 0, 1)[0])
        self.step_number += 1
        is_last = self.step_number >= self.settings.steps
        share = 1.0 if is_last else wanted
        lots, shortfall = round(self.left_lots * share), 0.0
        if lots > 0:
            account = market.accounts[_AGENT]
            sent = market.venue.submit(market.instrument.id, self.side, lots, account=account)
            if sent.mean_price_ticks is not None:
                sign = 1 if self.side == "buy" else -1
                shortfall = sign * (sent.mean_price_ticks - self.arrival_ticks) * sent.filled_lots / self.lots
                self.left_lots -= sent.filled_lots
        self.shortfall_ticks += shortfall
        market.venue.advance(self.settings.step_ns)
        self.state = market.state(_AGENT, self.step_number)
        is_done = self.left_lots == 0
        return self._observation(), float(self.reward(shortfall)), is_done, is_last and not is_done, self._info()

    def _observation(self) -> Observation:
        return self.observe(self.state, self.left_lots / self.lots, self.arrival_ticks)

    def _info(self) -> dict[str, Any]:
        return {"left_lots": self.left_lots, "shortfall_ticks": self.shortfall_ticks}
