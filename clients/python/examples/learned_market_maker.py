"""A market maker that learns by proximal policy optimisation (Schulman and others 2017).

It chooses one of five pairs of quotes every quarter of a second. The example claims that what it
learns is worth more than any fixed choice:

1. Every choice is made for good on 24 episodes. The best one is the baseline.
2. The network learns on other episodes for a given wall time, and is kept at six points in time.
   The same 24 episodes choose the best of the six.
3. Both trade 100 episodes that nothing was chosen on. A seed gives both the same order flow, so the
   gain of an episode is the difference between two rewards in one market.

The example prints the mean gain and its 95 % confidence interval, by the bootstrap over episodes
(Efron 1979). It ends with 0 only if the lower end is above zero.

    pip install "./clients/python[learn]"
    python clients/python/examples/learned_market_maker.py --seconds 100
"""

import argparse
import copy
import json
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import gymnasium as gym
import numpy as np
import numpy.typing as npt
from pitwire.envs import MarketMakingEnv, MarketSettings, MarketState

Numbers = npt.NDArray[Any]
#: Returns an action for each row of observations.
Policy = Callable[[Numbers], Numbers]

QUOTE_LOTS = 100
MAX_OFFSET_TICKS = 10
#: Distances of the bid and the ask from the best price of their side, in ticks.
QUOTES = {
    "both at the best price": (0, 0),
    "both 2 ticks behind": (2, 2),
    "both far behind": (MAX_OFFSET_TICKS, MAX_OFFSET_TICKS),
    "only the bid near": (0, MAX_OFFSET_TICKS),
    "only the ask near": (MAX_OFFSET_TICKS, 0),
}
#: Cost of holding a lot for one step.
PENALTY_TICKS = 0.2
#: Decisions in an episode.
STEPS = 200
#: Seeds of the episodes on which something is chosen, and of the test. Training draws its seeds
#: from 0 to 2**31, so that it meets one of them once in ten million episodes.
CHOICE_SEEDS = range(3_000_000_000, 3_000_000_024)
TEST_SEEDS = range(4_000_000_000, 4_000_000_100)
#: Points in time at which the network is kept.
CHECKPOINTS = 6
#: Markets that advance together.
MARKETS = 8


def observe(state: MarketState, max_inventory_lots: int) -> npt.NDArray[np.float32]:
    """Inventory in quotes, spread and imbalance, each between about -2 and 2."""
    inventory = max(-3.0, min(state.inventory_lots / (2 * QUOTE_LOTS), 3.0))
    spread = min((state.ask_ticks - state.bid_ticks) / 5 - 1, 3.0)
    return np.array([inventory, spread, state.imbalance], dtype=np.float32)


def reward(before: MarketState, after: MarketState) -> float:
    """The margin of the fills less a penalty for inventory, in ticks for one quote.

    The margin is the growth of wealth without the change in value of the inventory from before the
    step. That change is noise with a mean near 0. The penalty makes a maker averse to inventory
    (Avellaneda and Stoikov 2008).
    """
    revaluation = before.inventory_lots * (after.mid_ticks - before.mid_ticks)
    margin = after.wealth - before.wealth - revaluation
    return (margin - PENALTY_TICKS * abs(after.inventory_lots)) / QUOTE_LOTS


class QuoteChoice(gym.ActionWrapper):
    """A market whose action is a number of a row of `QUOTES`."""

    def __init__(self, flow: str) -> None:
        space = gym.spaces.Box(-3.0, 3.0, (3,), np.float32)
        settings = MarketSettings(preset="crypto24x7", flow=flow, steps=STEPS)
        market = MarketMakingEnv(
            settings, quote_lots=QUOTE_LOTS, observe=observe, reward=reward, observation_space=space
        )
        super().__init__(market)
        self.offsets = 2 * np.array(list(QUOTES.values()), dtype=np.float32) / MAX_OFFSET_TICKS - 1
        self.action_space = gym.spaces.Discrete(len(QUOTES))

    def action(self, action: int) -> npt.NDArray[np.float32]:
        """The distances as the market takes them, from -1 to 1."""
        return self.offsets[int(action)]


def rewards(policy: Policy, seeds: Sequence[int], flow: str) -> Numbers:
    """The reward of a policy in the episode of each seed."""
    sums = np.zeros(len(seeds))
    envs = [QuoteChoice(flow) for _ in range(min(MARKETS, len(seeds)))]
    for first in range(0, len(seeds), len(envs)):
        group = range(first, min(first + len(envs), len(seeds)))
        observations = np.stack([env.reset(seed=seeds[at])[0] for at, env in zip(group, envs, strict=False)])
        for _ in range(STEPS):
            results = [env.step(action) for env, action in zip(envs, policy(observations), strict=False)]
            observations = np.stack([result[0] for result in results])
            sums[first : first + len(group)] += [result[1] for result in results]
    for env in envs:
        env.close()
    return sums


def always(action: int) -> Policy:
    """The policy that never looks at the market."""
    return lambda observations: np.full(len(observations), action)


def interval(gains: Numbers) -> tuple[float, float]:
    """The 95 % confidence interval of a mean of independent values, by the bootstrap."""
    random = np.random.default_rng(0)
    means = gains[random.integers(len(gains), size=(10_000, len(gains)))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(low), float(high)


def learned(seconds: float, seed: int, flow: str) -> tuple[list[Policy], int]:
    """Trains for a wall time. Returns the policy at each checkpoint, and the steps taken."""
    import torch
    from stable_baselines3 import PPO
    from stable_baselines3.common.callbacks import BaseCallback
    from stable_baselines3.common.vec_env import DummyVecEnv

    class Checkpoints(BaseCallback):
        """Keeps the network at equal distances in time, and ends the training."""

        def __init__(self) -> None:
            super().__init__()
            self.start = time.monotonic()
            self.kept: list[dict[str, Any]] = []

        def _on_step(self) -> bool:
            if time.monotonic() - self.start >= seconds * (len(self.kept) + 1) / CHECKPOINTS:
                self.kept.append(copy.deepcopy(self.model.policy.state_dict()))
            return len(self.kept) < CHECKPOINTS

    torch.set_num_threads(1)
    # One process: a step of the market takes less time than a message between processes.
    envs = DummyVecEnv([lambda: QuoteChoice(flow) for _ in range(MARKETS)])
    model = PPO(
        "MlpPolicy",
        envs,
        n_steps=128,
        batch_size=256,
        n_epochs=6,
        gamma=0.95,
        gae_lambda=0.9,
        learning_rate=1e-3,
        ent_coef=0.01,
        seed=seed,
        policy_kwargs={"net_arch": [32, 32]},
        device="cpu",
    )
    checkpoints = Checkpoints()
    model.learn(total_timesteps=100_000_000, callback=checkpoints)
    envs.close()

    def policy(weights: dict[str, Any]) -> Policy:
        def decide(observations: Numbers) -> Numbers:
            model.policy.load_state_dict(weights)
            return model.predict(observations, deterministic=True)[0]

        return decide

    return [policy(weights) for weights in checkpoints.kept], model.num_timesteps


def best(policies: Sequence[Policy], flow: str) -> int:
    """The policy with the largest mean reward on the episodes for choices."""
    return int(np.argmax([rewards(policy, CHOICE_SEEDS, flow).mean() for policy in policies]))


def compared(policy: Policy, baseline: Policy, seeds: Sequence[int], flow: str) -> dict[str, Any]:
    """The mean rewards of two policies on the same episodes, and the gain with its interval."""
    theirs, ours = rewards(baseline, seeds, flow), rewards(policy, seeds, flow)
    low, high = interval(ours - theirs)
    figures = {"baseline": theirs.mean(), "learned": ours.mean(), "gain": (ours - theirs).mean()}
    return {name: round(float(value), 2) for name, value in (figures | {"low": low, "high": high}).items()}


def run(seconds: float, seed: int, episodes: int, flow: str) -> dict[str, Any]:
    """Trains and compares. Returns the figures."""
    constants = [always(action) for action in range(len(QUOTES))]
    fixed = best(constants, flow)
    started = time.monotonic()
    policies, steps = learned(seconds, seed, flow)
    elapsed = time.monotonic() - started
    kept = best(policies, flow)
    return {
        "steps": steps,
        "steps_per_s": round(steps / elapsed),
        "best_fixed_quotes": list(QUOTES)[fixed],
        "checkpoint": kept + 1,
        "episodes": episodes,
        **compared(policies[kept], constants[fixed], TEST_SEEDS[:episodes], flow),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=100, help="wall time of the training")
    parser.add_argument("--seed", type=int, default=1, help="seed of the training")
    parser.add_argument("--episodes", type=int, default=len(TEST_SEEDS), help="episodes of the test, 20 to 100")
    parser.add_argument("--flow", default="demo", help="order flow")
    arguments = parser.parse_args()
    if not 20 <= arguments.episodes <= len(TEST_SEEDS):
        parser.error(f"--episodes is {arguments.episodes}: expected 20 to {len(TEST_SEEDS)}")
    figures = run(arguments.seconds, arguments.seed, arguments.episodes, arguments.flow)
    print(json.dumps(figures))
    if figures["low"] <= 0:
        sys.exit("the market maker has not learnt anything measurable: give it more --seconds")


if __name__ == "__main__":
    main()
