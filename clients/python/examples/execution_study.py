"""An execution study: three ways to sell a large amount, compared with equal slices (TWAP).

- `at_once` sends a market order for everything.
- `front_loaded` sends a constant share of what is left, so that the slices shrink. It is the
  optimal schedule of Almgren and Chriss (2001) in its limit of long horizons.
- `patient` sends an equal slice while the bids have at least a third of the lots at the best
  prices, and otherwise waits until the slices that it owes are three.

A seed gives all of them the same order flow, so each comparison is a mean of differences within a
market. The example prints the mean shortfall of each against the price at the start, and the cost
beyond equal slices with its 95 % confidence interval. It takes half a minute.

    python clients/python/examples/execution_study.py --seeds 60
"""

import argparse
import json
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from pitwire.envs import MarketState, OptimalExecutionEnv

#: Slices of an episode. `front_loaded` sends this share of the remaining lots in each slice.
STEPS = 40
FRONT_SHARE = 0.08
#: Fewest lots of the bid among those at the best prices, and most slices that `patient` owes.
LEAST_BID_SHARE = 1 / 3
MOST_OWED = 3

#: Returns the share to send now, from the state, the lots left as a share, and the steps left.
Strategy = Callable[[MarketState, float, int], float]


def twap(_: MarketState, __: float, steps_left: int) -> float:
    """Equal slices."""
    return 1 / steps_left


def at_once(_: MarketState, __: float, ___: int) -> float:
    """Everything in the first order."""
    return 1.0


def front_loaded(_: MarketState, __: float, ___: int) -> float:
    """Slices that shrink."""
    return FRONT_SHARE


def patient(state: MarketState, left: float, steps_left: int) -> float:
    """The slices that equal slices would have sent, unless the bids are thin."""
    owed = left - (steps_left - 1) / STEPS
    is_thin = state.bid_lots < LEAST_BID_SHARE * (state.bid_lots + state.ask_lots)
    if is_thin and owed < (MOST_OWED - 0.5) / STEPS:
        return 0.0
    return owed / left


STRATEGIES: dict[str, Strategy] = {
    "twap": twap,
    "at_once": at_once,
    "front_loaded": front_loaded,
    "patient": patient,
}


def shortfall(strategy: Strategy, seed: int, lots: int) -> float:
    """The distance of the fills from the price at the start, in ticks per lot."""
    env = OptimalExecutionEnv(side="sell", lots=lots)
    env.reset(seed=seed)
    is_over, info = False, {"left_lots": lots, "shortfall_ticks": 0.0}
    while not is_over:
        steps_left = env.settings.steps - env.step_number
        share = strategy(env.state, env.left_lots / lots, steps_left)
        _, _, terminated, truncated, info = env.step(np.array([share]))
        is_over = terminated or truncated
    env.close()
    assert info["left_lots"] == 0, "the book had too few bids at the end: sell fewer lots"
    return float(info["shortfall_ticks"])


def half_width(values: npt.NDArray[np.float64]) -> float:
    """Half of the 95 % confidence interval of a mean of many independent values."""
    return float(1.96 * values.std(ddof=1) / np.sqrt(len(values)))


def run(seeds: int, lots: int) -> dict[str, dict[str, float]]:
    """Compares the strategies. Returns the figures in ticks per lot."""
    costs = {
        name: np.array([shortfall(strategy, seed, lots) for seed in range(seeds)])
        for name, strategy in STRATEGIES.items()
    }
    figures = {}
    for name, cost in costs.items():
        beyond = cost - costs["twap"]
        figures[name] = {"shortfall": round(float(cost.mean()), 2), "interval": round(half_width(cost), 2)}
        if name != "twap":
            figures[name] |= {
                "beyond_twap": round(float(beyond.mean()), 2),
                "beyond_twap_interval": round(half_width(beyond), 2),
            }
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=60, help="markets, at least 10")
    parser.add_argument("--lots", type=int, default=20_000, help="lots to sell")
    arguments = parser.parse_args()
    if arguments.seeds < 10 or arguments.lots < 1:
        parser.error(f"--seeds is {arguments.seeds} and --lots is {arguments.lots}: expected 10 and 1 or more")
    print(json.dumps(run(arguments.seeds, arguments.lots), indent=1))


if __name__ == "__main__":
    main()
