"""A market maker that learns by proximal policy optimisation (Schulman and others 2017).

It learns where to quote in `MarketMakingEnv`, for a given wall time. Then it trades episodes that
it has not seen. The example compares its reward with that of the same network before training, on
the same seeds, and ends with 1 unless the gain exceeds two standard errors.

    pip install "./clients/python[learn]"
    python clients/python/examples/learned_market_maker.py --seconds 100
"""

import argparse
import json
import sys
import time

import numpy as np
import torch
from pitwire.envs import MarketMakingEnv, MarketSettings, MarketState
from stable_baselines3 import PPO
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv

QUOTE_LOTS = 100
#: Cost of holding a lot for one step.
PENALTY_TICKS = 0.5
#: Decisions in an episode, and seeds of the episodes that measure the result.
STEPS = 200
FIRST_TEST_SEED = 1_000_000


def reward(before: MarketState, after: MarketState) -> float:
    """The margin of the fills less a penalty for inventory, in ticks for one quote.

    The margin is the growth of wealth without the change in value of the inventory from before the
    step. That change is noise with a mean near 0. The penalty makes a maker averse to inventory
    (Avellaneda and Stoikov 2008).
    """
    revaluation = before.inventory_lots * (after.mid_ticks - before.mid_ticks)
    margin = after.wealth - before.wealth - revaluation
    return (margin - PENALTY_TICKS * abs(after.inventory_lots)) / QUOTE_LOTS


def environment(flow: str) -> MarketMakingEnv:
    """The market of training and of the test."""
    return MarketMakingEnv(MarketSettings(flow=flow, steps=STEPS), quote_lots=QUOTE_LOTS, reward=reward)


class Deadline(BaseCallback):
    """Ends the training after a wall time."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.end = time.monotonic() + seconds

    def _on_step(self) -> bool:
        return time.monotonic() < self.end


def rewards(model: PPO, flow: str, episodes: int) -> np.ndarray:
    """The reward of each test episode."""
    env = environment(flow)
    sums = []
    for seed in range(FIRST_TEST_SEED, FIRST_TEST_SEED + episodes):
        observation, _ = env.reset(seed=seed)
        total, is_over = 0.0, False
        while not is_over:
            action, _ = model.predict(observation, deterministic=True)
            observation, earned, terminated, truncated, _ = env.step(action)
            total, is_over = total + earned, terminated or truncated
        sums.append(total)
    env.close()
    return np.array(sums)


def run(seconds: float, seed: int, episodes: int, flow: str) -> dict[str, float]:
    """Trains and compares. Returns the figures."""
    torch.set_num_threads(1)
    # One process: a step of the market takes less time than a message between processes.
    envs = DummyVecEnv([lambda: Monitor(environment(flow)) for _ in range(8)])
    model = PPO(
        "MlpPolicy",
        envs,
        n_steps=128,
        batch_size=128,
        n_epochs=10,
        gamma=0.95,
        gae_lambda=0.9,
        learning_rate=3e-3,
        seed=seed,
        policy_kwargs={"net_arch": [32, 32]},
        device="cpu",
    )
    untrained = rewards(model, flow, episodes)
    model.learn(total_timesteps=100_000_000, callback=Deadline(seconds))
    envs.close()
    gain = rewards(model, flow, episodes) - untrained
    return {
        "steps": model.num_timesteps,
        "untrained": round(float(untrained.mean()), 2),
        "trained": round(float((untrained + gain).mean()), 2),
        "gain": round(float(gain.mean()), 2),
        "standard_error": round(float(gain.std(ddof=1) / np.sqrt(episodes)), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=100, help="wall time of the training")
    parser.add_argument("--seed", type=int, default=1, help="seed of the training")
    parser.add_argument("--episodes", type=int, default=30, help="episodes of the test")
    parser.add_argument("--flow", default="market", help="order flow")
    arguments = parser.parse_args()
    figures = run(arguments.seconds, arguments.seed, arguments.episodes, arguments.flow)
    print(json.dumps(figures))
    if figures["gain"] <= 2 * figures["standard_error"]:
        sys.exit("the market maker has not learnt anything measurable: give it more --seconds")


if __name__ == "__main__":
    main()
