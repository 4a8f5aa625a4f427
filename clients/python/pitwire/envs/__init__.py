"""Environments for learning agents: Gymnasium for one agent, PettingZoo for many on one book.

Needs the packages of `pip install "./clients/python[agents]"`.
"""

from pitwire.envs._market import MarketSettings, MarketState
from pitwire.envs.execution import OptimalExecutionEnv
from pitwire.envs.market_making import MarketMakingEnv
from pitwire.envs.multi_agent import SimultaneousMarketEnv, TurnMarketEnv

__all__ = [
    "MarketMakingEnv",
    "MarketSettings",
    "MarketState",
    "OptimalExecutionEnv",
    "SimultaneousMarketEnv",
    "TurnMarketEnv",
]
