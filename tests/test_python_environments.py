"""The Python package: environments for agents, and the studies of its examples.

`scripts/build-python` builds and installs it; without it this file is skipped.
"""

import importlib.util
import json
from typing import Any

import numpy as np
import pytest
from venue import TOP, run_pitwire

pitwire = pytest.importorskip("pitwire", reason="run scripts/build-python")
from pitwire import errors  # noqa: E402 (after the check that the package is installed)

SECOND_NS = 10**9


def test_the_environments_refuse_wrong_actions() -> None:
    from pitwire import envs

    nan, inf = float("nan"), float("inf")
    for create in (
        lambda: envs.MarketSettings(steps=0),
        lambda: envs.MarketSettings(step_ns=nan),
        lambda: envs.MarketSettings(warm_up_ns=-1),
        lambda: envs.MarketMakingEnv(max_inventory_lots=0),
        lambda: envs.MarketMakingEnv(quote_lots=1.5),
        lambda: envs.OptimalExecutionEnv(lots=nan),
        lambda: envs.OptimalExecutionEnv(side="up"),
        lambda: envs.SimultaneousMarketEnv(agents=0),
        lambda: envs.TurnMarketEnv(order_lots=nan),
    ):
        with pytest.raises(errors.InvalidValue):
            create()
    maker, trader, many = envs.MarketMakingEnv(), envs.OptimalExecutionEnv(), envs.SimultaneousMarketEnv()
    turns = envs.TurnMarketEnv()
    hold = dict.fromkeys(many.possible_agents, 0)
    for step in (
        lambda: maker.step(np.zeros(2)),
        lambda: trader.step(np.zeros(1)),
        lambda: many.rules.advance(),
        lambda: turns.observe("trader_0"),
    ):
        with pytest.raises(errors.VenueClosed, match="call reset first"):
            step()
    for env in (maker, trader, many, turns):
        env.reset(seed=1)
    markets = [maker.market, trader.market, many.rules.market, turns.rules.market]
    before = [market.venue.sequence for market in markets if market is not None]
    wrong: list[tuple[type[Exception], Any]] = [
        (errors.InvalidValue, lambda: maker.step(np.array([nan, 0.0]))),
        (errors.InvalidValue, lambda: maker.step(np.array([0.0, inf]))),
        (errors.InvalidArray, lambda: maker.step(np.zeros(3))),
        (errors.InvalidArray, lambda: maker.step(np.array(["a", "b"]))),
        (errors.InvalidArray, lambda: maker.step(np.array([None, [1]], dtype=object))),
        (errors.InvalidValue, lambda: trader.step(np.array([nan], dtype=np.float32))),
        (errors.InvalidArray, lambda: trader.step(np.zeros((2, 2)))),
        (errors.InvalidValue, lambda: many.step(hold | {"trader_1": 7})),
        (errors.InvalidValue, lambda: many.step(hold | {"trader_1": -1})),
        (errors.InvalidValue, lambda: many.step(hold | {"trader_1": nan})),
        (errors.InvalidValue, lambda: many.step({"trader_0": 0})),
        (errors.InvalidValue, lambda: turns.step(99)),
    ]
    for error, step in wrong:
        with pytest.raises(error) as raised:
            step()
        assert isinstance(raised.value, errors.PitwireError) and raised.value.remedy
    assert [market.venue.sequence for market in markets if market is not None] == before
    for env in (maker, trader, many, turns):
        env.close()
    with pytest.raises(errors.VenueClosed):
        maker.step(np.zeros(2))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_environments_pass_the_checks_of_their_libraries() -> None:
    from gymnasium.utils.env_checker import check_env
    from pettingzoo.test import api_test, parallel_api_test, parallel_seed_test, seed_test
    from pitwire import envs

    check_env(envs.MarketMakingEnv())
    check_env(envs.OptimalExecutionEnv())
    api_test(envs.TurnMarketEnv(), num_cycles=100)
    parallel_api_test(envs.SimultaneousMarketEnv(), num_cycles=100)
    seed_test(envs.TurnMarketEnv, num_cycles=20)
    parallel_seed_test(envs.SimultaneousMarketEnv, num_cycles=20)


def test_an_environment_without_trades_of_agents_has_the_tape_of_a_simulation() -> None:
    from pitwire import envs
    from pitwire.envs.multi_agent import ACTIONS

    # Five seconds before the first decision, and 50 decisions a quarter of a second apart.
    done = run_pitwire("sim", "--json", "--flow", "market", "--seed", "4", "--horizon", "17")
    assert done.returncode == 0, done.stderr
    expected = json.loads(done.stdout)["tape_hash"]
    env = envs.SimultaneousMarketEnv()
    env.reset(seed=4)
    for _ in range(48):
        env.step(dict.fromkeys(env.agents, ACTIONS.index("hold")))
    assert env.rules.market is not None and env.rules.market.venue.tape_hash == expected

    trader = envs.OptimalExecutionEnv(envs.MarketSettings(steps=50))
    trader.reset(seed=4)
    for _ in range(48):
        trader.step(np.zeros(1, dtype=np.float32))
    turns = envs.TurnMarketEnv()
    turns.reset(seed=4)
    for _ in range(48 * len(turns.agents)):
        turns.step(ACTIONS.index("hold"))
    for market in (trader.market, turns.rules.market):
        assert market is not None and market.venue.tape_hash == expected

    hashes = []
    for seed in (4, 4, 5):
        maker = envs.MarketMakingEnv()
        maker.reset(seed=seed)
        earned = [maker.step(np.array([0.0, 0.5], dtype=np.float32))[1] for _ in range(20)]
        assert maker.market is not None
        hashes.append((maker.market.venue.tape_hash, earned))
    assert hashes[0] == hashes[1] != hashes[2]


def test_observation_and_reward_of_the_environments_are_those_of_their_functions() -> None:
    import gymnasium as gym
    from pitwire import envs

    def space(size: int) -> gym.spaces.Box:
        return gym.spaces.Box(0, 10**7, (size,), np.float32)

    maker = envs.MarketMakingEnv(
        max_inventory_lots=500,
        observe=lambda state, limit: np.array([state.bid_ticks, limit], dtype=np.float32),
        reward=lambda before, after: 1000 * before.time_left + after.time_left,
        observation_space=space(2),
    )
    seen, _ = maker.reset(seed=1)
    assert seen.tolist() == [maker.state.bid_ticks, 500] and maker.observation_space == space(2)
    seen, reward, *_ = maker.step(np.zeros(2, dtype=np.float32))
    assert seen.tolist() == [maker.state.bid_ticks, 500]
    assert reward == pytest.approx(1000 + maker.state.time_left)

    trader = envs.OptimalExecutionEnv(
        lots=1_000,
        observe=lambda state, left_share, arrival_ticks: np.array([left_share, arrival_ticks], dtype=np.float32),
        reward=lambda shortfall_ticks: 7 - shortfall_ticks,
        observation_space=space(2),
    )
    trader.reset(seed=1)
    seen, reward, _, _, info = trader.step(np.array([0.25], dtype=np.float32))
    assert seen.tolist() == pytest.approx([0.75, trader.arrival_ticks], rel=1e-6) and info["left_lots"] == 750
    assert reward == pytest.approx(7 - info["shortfall_ticks"])


def test_slicing_a_large_order_costs_less_and_more_lots_cost_more() -> None:
    from pitwire import envs

    def shortfall(seed: int, lots: int, *, slices: bool) -> float:
        env = envs.OptimalExecutionEnv(lots=lots)
        env.reset(seed=seed)
        done, info = False, {}
        while not done:
            left = env.settings.steps - env.step_number
            share = 1 / left if slices else 1.0
            _, _, terminated, truncated, info = env.step(np.array([share], dtype=np.float32))
            done = terminated or truncated
        assert info["left_lots"] == 0
        return float(info["shortfall_ticks"])

    seeds = range(12)
    costs = {
        slices: [np.mean([shortfall(seed, lots, slices=slices) for seed in seeds]) for lots in (1_000, 20_000, 60_000)]
        for slices in (False, True)
    }
    assert costs[False] == sorted(costs[False]) and costs[True] == sorted(costs[True])
    # A small order fits into the best prices. A large one empties the book unless it is sliced.
    assert costs[True][1] < costs[False][1] and costs[True][2] < costs[False][2]


def example(name: str) -> Any:
    """A program of the examples as a module."""
    spec = importlib.util.spec_from_file_location(name, TOP / f"clients/python/examples/{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_a_market_maker_that_looks_at_its_inventory_beats_fixed_quotes() -> None:
    """What `learned_market_maker.py` can find. `make soak` trains it."""
    makers = example("learned_market_maker")
    names = list(makers.QUOTES)

    def by_inventory(observations: Any) -> Any:
        near, bid, ask = (names.index(name) for name in (names[0], "only the bid near", "only the ask near"))
        inventory = observations[:, 0]
        return np.where(inventory > 0.25, ask, np.where(inventory < -0.25, bid, near))

    seeds = makers.CHOICE_SEEDS[:10]
    ours = makers.rewards(by_inventory, seeds, "demo")
    for action in range(3):
        low, high = makers.interval(ours - makers.rewards(makers.always(action), seeds, "demo"))
        assert high > low > 0, (names[action], low, high)
    # A maker compared with itself gains nothing. The example exits with 1 in that case.
    same = makers.compared(makers.always(2), makers.always(2), seeds[:2], "demo")
    assert (same["gain"], same["low"], same["high"]) == (0, 0, 0)
    assert not set(makers.CHOICE_SEEDS) & set(makers.TEST_SEEDS)
    low, high = makers.interval(np.array([1.0, 2.0, 3.0, 4.0] * 25))
    # Standard error 0.112.
    assert low == pytest.approx(2.5 - 0.22, abs=0.03) and high == pytest.approx(2.5 + 0.22, abs=0.03)


def test_the_execution_study_finds_that_slices_cost_less() -> None:
    study = example("execution_study").run(seeds=12, lots=60_000)
    whole = study["at_once"]
    assert whole["beyond_twap"] > whole["beyond_twap_interval"] > 0, study
    assert whole["beyond_twap"] == pytest.approx(whole["shortfall"] - study["twap"]["shortfall"], abs=0.011)
