"""Many agents on one book, in turn or at the same time."""

from operator import index
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.utils import seeding
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils import AgentSelector

from pitwire._types import check_least
from pitwire.envs._market import AgentMarket, MarketSettings, MarketState, Observation, running
from pitwire.errors import InvalidValue

#: Actions of an agent: nothing, quote at the best price, quote one tick better, or take a price.
ACTIONS = ("hold", "join_bid", "join_ask", "improve_bid", "improve_ask", "buy", "sell")
_LOW = np.array([-100, 0, -1, 0], dtype=np.float32)
_HIGH = np.array([100, 10, 1, 1], dtype=np.float32)


def _observe(state: MarketState, order_lots: int) -> Observation:
    spread = float(np.clip((state.ask_ticks - state.bid_ticks) / 10, 0, 10))
    inventory = float(np.clip(state.inventory_lots / order_lots, -100, 100))
    return np.array([inventory, spread, state.imbalance, max(state.time_left, 0.0)], dtype=np.float32)


def _word(agent: str, action: Any) -> str:
    """Returns an action in words."""
    known = dict(enumerate(ACTIONS))
    try:
        return known[index(action)]
    except (TypeError, KeyError):
        raise InvalidValue(f"the action of {agent} is {action!r}", f"use 0 to {len(ACTIONS) - 1}") from None


class _Rules:
    """The rules that both environments share."""

    def __init__(self, settings: MarketSettings | None, agents: int, order_lots: int) -> None:
        self.settings = settings or MarketSettings(steps=50)
        self.order_lots = order_lots
        self.names = [f"trader_{number}" for number in range(agents)]
        self.market: AgentMarket | None = None

    def reset(self, seed: int) -> None:
        """Starts an episode."""
        if self.market is not None:
            self.market.venue.close()
        self.market = AgentMarket(self.settings, self.names, seed)
        self.wealth = dict.fromkeys(self.names, 0.0)
        self.step_number = 0

    def act(self, agent: str, word: str) -> None:
        """Replaces the order of an agent. `word` is one of `ACTIONS`."""
        market = running(self.market)
        if word == "hold":
            return
        venue, account = market.venue, market.accounts[agent]
        instrument, lots = market.instrument.id, self.order_lots
        venue.cancel_all(account)
        if word in ("buy", "sell"):
            venue.submit(instrument, word, lots, account=account)
            return
        state = market.state(agent, self.step_number)
        better = 1 if word.startswith("improve") else 0
        is_bid = word.endswith("bid")
        side, price = ("buy", state.bid_ticks + better) if is_bid else ("sell", state.ask_ticks - better)
        venue.submit(instrument, side, lots, max(price, 1), account=account, post_only="reprice")

    def advance(self) -> None:
        """Lets one step pass."""
        running(self.market).venue.advance(self.settings.step_ns)
        self.step_number += 1

    def observe(self, agent: str) -> Observation:
        """Returns the observation of an agent."""
        return _observe(running(self.market).state(agent, self.step_number), self.order_lots)

    def earn(self, agent: str) -> float:
        """Returns the growth of an agent's wealth since the last call, in ticks times lots."""
        wealth = running(self.market).state(agent, self.step_number).wealth
        earned = wealth - self.wealth[agent]
        self.wealth[agent] = wealth
        return earned

    def is_over(self) -> bool:
        """Whether the episode has ended."""
        return self.step_number >= self.settings.steps

    def close(self) -> None:
        """Closes the venue of the episode."""
        if self.market is not None:
            self.market.venue.close()


class _ManyAgents:
    """The spaces and the episodes of both environments."""

    def __init__(self, settings: MarketSettings | None = None, *, agents: int = 3, order_lots: int = 100) -> None:
        super().__init__()
        check_least("agents", agents, 1)
        check_least("order_lots", order_lots, 1)
        self.rules = _Rules(settings, agents, order_lots)
        self.possible_agents = list(self.rules.names)
        self.agents: list[str] = []
        self.render_mode = None
        self._random, _ = seeding.np_random(0)
        self.observation_spaces = {agent: gym.spaces.Box(_LOW, _HIGH) for agent in self.possible_agents}
        self.action_spaces = {agent: gym.spaces.Discrete(len(ACTIONS)) for agent in self.possible_agents}

    def observation_space(self, agent: str) -> gym.spaces.Space:
        """Inventory in orders, spread in ten ticks, imbalance, time left."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> gym.spaces.Space:
        """An index into `ACTIONS`."""
        return self.action_spaces[agent]

    def _begin(self, seed: int | None) -> None:
        """Starts an episode. Without a seed, it is drawn from the generator of the last one."""
        if seed is not None:
            self._random, _ = seeding.np_random(seed)
        self.rules.reset(seed if seed is not None else int(self._random.integers(2**31)))
        self.agents = list(self.possible_agents)

    def close(self) -> None:
        """Closes the venue of the episode."""
        self.rules.close()


class SimultaneousMarketEnv(_ManyAgents, ParallelEnv[str, Observation, int]):
    """Agents decide at the same time. Their orders arrive in an order drawn from the seed.

    An action is an index into `ACTIONS`. A reward is the growth of wealth in ticks times lots.
    """

    metadata: dict[str, Any] = {"name": "pitwire_simultaneous_v0", "render_modes": []}  # noqa: RUF012

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, Observation], dict[str, Any]]:
        """Starts an episode. Without a seed, it is drawn from the generator of the last one."""
        self._begin(seed)
        return {agent: self.rules.observe(agent) for agent in self.agents}, {agent: {} for agent in self.agents}

    def step(
        self, actions: dict[str, int]
    ) -> tuple[dict[str, Observation], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]:
        """Enters the orders of all agents, and lets one step pass."""
        agents = self.agents
        words = {agent: _word(agent, actions.get(agent)) for agent in agents}
        for number in self._random.permutation(len(agents)):
            self.rules.act(agents[number], words[agents[number]])
        self.rules.advance()
        observations = {agent: self.rules.observe(agent) for agent in agents}
        rewards = {agent: self.rules.earn(agent) for agent in agents}
        truncations = dict.fromkeys(agents, self.rules.is_over())
        if self.rules.is_over():
            self.agents = []
        return observations, rewards, dict.fromkeys(agents, False), truncations, {agent: {} for agent in agents}


class TurnMarketEnv(_ManyAgents, AECEnv[str, Observation, int]):
    """Agents decide in turn. Each order is in the book before the next agent decides.

    Time passes after the last agent of a turn. Actions and rewards are those of
    `SimultaneousMarketEnv`.
    """

    metadata: dict[str, Any] = {"name": "pitwire_turn_v0", "render_modes": []}  # noqa: RUF012

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Starts an episode. Without a seed, it is drawn from the generator of the last one."""
        self._begin(seed)
        self.rewards = dict.fromkeys(self.agents, 0.0)
        self._cumulative_rewards = dict.fromkeys(self.agents, 0.0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos: dict[str, dict[str, Any]] = {agent: {} for agent in self.agents}
        self._selector = AgentSelector(self.agents)
        self.agent_selection = self._selector.next()

    def observe(self, agent: str) -> Observation:
        """Returns the observation of an agent."""
        return self.rules.observe(agent)

    def step(self, action: int | None) -> None:
        """Enters the order of the agent that acts next."""
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        word = ACTIONS[0] if action is None else _word(agent, action)
        self._cumulative_rewards[agent] = 0.0
        self.rules.act(agent, word)
        self._clear_rewards()
        if self._selector.is_last():
            self.rules.advance()
            self.rewards = {each: self.rules.earn(each) for each in self.agents}
            self.truncations = dict.fromkeys(self.agents, self.rules.is_over())
        self.agent_selection = self._selector.next()
        self._accumulate_rewards()
