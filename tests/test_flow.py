"""`pitwire flow`: files, the journal, and a fit of an exported tape."""

import csv
import json
import re
from collections import defaultdict
from pathlib import Path

import pytest
from flow_files import TWO_TYPES
from rpc import Http
from venue import DEMO_A, DEMO_B, Venue, run_pitwire


def test_the_list_names_built_in_flows_and_published_sets() -> None:
    listed = run_pitwire("flow", "list")
    names = [line.split()[0] for line in listed.stdout.splitlines()]
    assert {"demo", "paper", "published", "bacry-muzy", "constrained"} <= set(names)
    checked = json.loads(run_pitwire("flow", "check", "published", "--json").stdout)
    assert abs(checked["flows"][0]["radius"] - 0.617) < 0.001
    assert abs(sum(one["per_s"] for one in checked["flows"][0]["types"]) - 30.93) < 0.01


def test_the_example_of_the_documentation_is_a_flow(tmp_path: Path) -> None:
    text = (Path(__file__).parent.parent / "docs" / "flow.md").read_text()
    example = text.split("```toml\n")[1].split("```")[0]
    (tmp_path / "example.toml").write_text(example)
    assert run_pitwire("flow", "check", tmp_path / "example.toml").returncode == 0


def test_an_unstable_flow_is_refused_everywhere(tmp_path: Path) -> None:
    (tmp_path / "unstable.toml").write_text(TWO_TYPES.replace("decay_per_s = 5.0", "decay_per_s = 2.0"))
    up = ["up", "--data", tmp_path / "data", "--http", "127.0.0.1:0", "--flow"]
    for command in (["flow", "check"], ["sim", "--seed", "1", "--events", "9", "--flow"], up):
        ended = run_pitwire(*command, tmp_path / "unstable.toml")
        assert ended.returncode != 0
        assert "spectral radius 1.000" in ended.stderr, ended.stderr
        assert len(ended.stderr.strip().splitlines()) == 1, ended.stderr


def test_a_flow_is_journaled_exported_and_found_again_by_the_fit(tmp_path: Path) -> None:
    (tmp_path / "flow.toml").write_text(TWO_TYPES)
    arguments = ["--preset", "crypto24x7", "--seed", "3", "--horizon", "2400", "--flow", tmp_path / "flow.toml"]
    assert run_pitwire("sim", *arguments, "--out", tmp_path / "run").returncode == 0
    verified = run_pitwire("verify", tmp_path / "run")
    assert verified.returncode == 0, verified.stderr
    assert run_pitwire("export", tmp_path / "run", "--out", tmp_path / "tables").returncode == 0
    events = (tmp_path / "tables" / "events.csv").read_text()
    assert "flow_defined" in events
    orders = tmp_path / "tables" / "orders.csv"
    fit = ["flow", "fit", orders, "--instrument", "BTC_USDC", "--by", "label"]
    ended = run_pitwire(*fit, "--json", "--out", tmp_path / "fitted.toml", "--like", tmp_path / "flow.toml")
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    types = {one["type"]: one for one in found["types"]}
    assert set(types) == {"rest", "take"}
    # Types are sorted by name: "rest" excites itself, and "take" excites both.
    for one, cause, truth in [("rest", 0, 1.5), ("rest", 1, 1.0), ("take", 1, 2.0)]:
        jump = types[one]["jump_per_s"][0][cause]
        assert abs(jump["value"] - truth) < 4 * jump["standard_error"], (one, cause, jump)
        assert jump["standard_error"] < truth
    assert all(one["p_value"] > 0.001 for one in found["types"])
    again = json.loads(run_pitwire("flow", "check", tmp_path / "fitted.toml", "--json").stdout)
    assert again["flows"][0]["radius"] == pytest.approx(found["radius"], rel=1e-6)


# A flow for the instruments that `TWO_TYPES` does not name.
OTHERS = """
[[flow]]
lifetime_s = 60.0

[[flow.type]]
name = "hit"
base_per_s = 0.5
order = "leave_touch"

[[flow.type]]
name = "join"
base_per_s = 1.5
order = "join"

[[flow.kernel]]
jump_per_s = [[0.0, 0.0], [1.0, 0.0]]
decay_per_s = 4.0

[[flow.kernel]]
jump_per_s = [[0.1, 0.0], [0.0, 0.05]]
decay_per_s = 0.5
"""


def test_each_instrument_has_the_event_types_of_its_own_flow(tmp_path: Path) -> None:
    (tmp_path / "flow.toml").write_text(TWO_TYPES + OTHERS)
    checked = json.loads(run_pitwire("flow", "check", tmp_path / "flow.toml", "--json").stdout)
    radii = [flow["radius"] for flow in checked["flows"]]
    # Both matrices are triangular, so a radius is the largest number on a diagonal.
    assert radii == pytest.approx([0.4, 0.2])
    arguments = ["--preset", "crypto24x7", "--seed", "3", "--horizon", "120", "--flow", tmp_path / "flow.toml"]
    assert run_pitwire("sim", *arguments, "--out", tmp_path / "run").returncode == 0
    assert run_pitwire("export", tmp_path / "run", "--out", tmp_path / "tables").returncode == 0
    with (tmp_path / "tables/orders.csv").open(newline="") as table:
        labels: dict[str, set[str]] = defaultdict(set)
        for row in csv.DictReader(table):
            labels[row["Instrument"]].add(row["Label"])
    assert len(labels) > 1
    for instrument, found in labels.items():
        assert found - {""} == ({"take", "rest"} if instrument == "BTC_USDC" else {"hit", "join"}), instrument


def test_a_venue_journals_its_flow_and_trades_only_its_instruments(tmp_path: Path) -> None:
    (tmp_path / "flow.toml").write_text(TWO_TYPES)
    options = ["--flow", str(tmp_path / "flow.toml"), "--no-clients", "--speed", "100"]
    with Venue(tmp_path / "data", options, preset="crypto24x7", warm_up="10m") as venue:
        assert venue.stop() == 0
    assert run_pitwire("verify", tmp_path / "data").returncode == 0
    assert run_pitwire("export", tmp_path / "data", "--out", tmp_path / "tables").returncode == 0
    events = (tmp_path / "tables" / "events.csv").read_text()
    assert "flow_defined" in events
    orders = (tmp_path / "tables" / "orders.csv").read_text().splitlines()[1:]
    assert len(orders) > 500
    assert all(",BTC_USDC," in row for row in orders)


@pytest.mark.parametrize("preset", ["demo", "jse", "crypto24x7"])
def test_the_default_flow_is_that_of_real_markets(preset: str) -> None:
    run = ["sim", "--preset", preset, "--seed", "4", "--events", "3000", "--json"]
    hashes = {
        flow: json.loads(run_pitwire(*run, *flow).stdout)["tape_hash"]
        for flow in ((), ("--flow", "market"), ("--flow", "demo"))
    }
    assert hashes[()] == hashes["--flow", "market"] != hashes["--flow", "demo"]


@pytest.mark.parametrize(("options", "is_defined"), [([], True), (["--flow", "demo"], False)])
def test_a_journal_names_the_flow_unless_it_is_demo(options: list[str], is_defined: bool, tmp_path: Path) -> None:
    with Venue(tmp_path / "data", [*options, "--no-clients"], warm_up="1m") as venue:
        assert venue.stop() == 0
    assert run_pitwire("export", tmp_path / "data", "--out", tmp_path / "tables").returncode == 0
    assert ("flow_defined" in (tmp_path / "tables" / "events.csv").read_text()) == is_defined


def test_a_replay_of_a_day_with_calls_reproduces_the_trades_of_the_uncross(tmp_path: Path) -> None:
    arguments = ["--preset", "jse", "--seed", "3", "--horizon", "2700", "--flow", "market", "--out", tmp_path / "run"]
    assert run_pitwire("sim", *arguments).returncode == 0
    assert run_pitwire("export", tmp_path / "run", "--out", tmp_path / "tables").returncode == 0
    events = (tmp_path / "tables" / "events.csv").read_text()
    assert "opening_auction" in events
    ended = run_pitwire("sim", "--replay", tmp_path / "tables", "--instrument", "NPN_ZAR", "--json")
    assert ended.returncode == 0, ended.stderr
    found = json.loads(ended.stdout)
    assert found["recorded_trades"] > 100
    assert found["reproduced_share"] == 1.0, found


def replayed(tables: Path) -> dict:
    ended = run_pitwire("sim", "--replay", tables, "--instrument", "NPN_ZAR", "--json")
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_a_replay_repeats_amends_with_their_effect_on_priority(data: Path, tmp_path: Path) -> None:
    with Venue(data, extra=["--no-flow"]) as venue:
        maker, taker = Http(venue.address, DEMO_A), Http(venue.address, DEMO_B)

        def buy(amount: int) -> str:
            order = {"instrument_name": "NPN_ZAR", "amount": amount, "price": 3000}
            return maker.result("private/buy", order)["order"]["order_id"]

        def amend(order: str, amount: int, price: int) -> None:
            maker.result("private/edit", {"order_id": order, "amount": amount, "price": price})

        def sell_one() -> float:
            order = {"instrument_name": "NPN_ZAR", "amount": 1, "price": 2990}
            return taker.result("private/sell", order)["trades"][0]["price"]

        first, second = buy(5), buy(5)
        amend(first, 8, 3000)  # A larger amount goes to the end of the queue.
        assert sell_one() == 3000
        amend(second, 3, 3000)  # A smaller one keeps its place.
        assert sell_one() == 3000
        amend(first, 8, 3001)
        assert sell_one() == 3001
        amend(second, 4, 2980)
        assert sell_one() == 3001
        # An amend may trade itself.
        offer = {"instrument_name": "NPN_ZAR", "amount": 2, "price": 3010}
        resting = taker.result("private/sell", offer)["order"]["order_id"]
        changed = taker.result("private/edit", {"order_id": resting, "amount": 2, "price": 3001})
        assert changed["order"]["filled_amount"] == 2
    tables = tmp_path / "tables"
    assert run_pitwire("export", data, "--out", tables).returncode == 0
    found = replayed(tables)
    assert (found["recorded_trades"], found["reproduced_trades"]) == (5, 5), found
    assert found["unknown_orders"] == found["unsupported"] == 0, found

    # The amends decide: without them the trades are others.
    events = (tables / "events.csv").read_text().splitlines(keepends=True)
    kept = [row for row in events if ",amended," not in row]
    assert len(events) - len(kept) == 5
    (tables / "events.csv").write_text("".join(kept))
    without = replayed(tables)
    assert without["reproduced_trades"] < without["recorded_trades"], without


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["flow", "show", "nothing"], "give one of published"),
        (["flow", "check", "no-such.toml"], "pitwire flow list"),
        (["flow", "check", "empty.toml"], "missing field `flow`"),
        (["flow", "check", "minutes.toml"], "line 8: unknown field `base_per_minute`"),
        (["flow", "check", "nan.toml"], "`base_per_s` is NaN, expected a finite number"),
        (["flow", "check", "market"], "is built in and has no file"),
        (["flow", "fit", "no-such.csv", "--instrument", "A"], "cannot read no-such.csv"),
        (["flow", "fit", "empty.csv", "--instrument", "A"], "no column TimeNs"),
        (["flow", "fit", "orders.csv", "--instrument", "B"], 'no order of "B"'),
        (["flow", "fit", "orders.csv", "--instrument", "A"], "each type needs 50"),
        (["flow", "fit", "orders.csv", "--instrument", "A", "--decays", "0"], "the decay rate 0 is not positive"),
        (["flow", "fit", "orders.csv", "--instrument", "A", "--like", "published"], "--out"),
        (["sim", "--replay", "no-such"], "cannot read no-such"),
        (["sim", "--replay", "orders.csv", "--seed", "7"], "--seed"),
        (["sim", "--replay", "orders.csv", "--preset", "jse"], "--preset"),
        (["sim", "--replay", "orders.csv", "--lobster-tick", "0"], "--lobster-tick"),
        (["sim", "--replay", "."], "--instrument"),
        (["sim", "--replay", ".", "--instrument", "A"], "instruments.csv"),
        (["sim", "--replay", "empty.csv"], "the tape has no limit order"),
        (["sim", "--replay", "orders.csv"], "line 1: the row has 4 fields, expected 6"),
        (["sim", "--replay", "short.csv"], "line 2: the row has 3 fields, expected 6"),
        (["sim", "--replay", "short.csv", "--own-orders", "no-such.csv"], "cannot read no-such.csv"),
        (["sim"], "--seed"),
    ],
)
def test_bad_input_is_refused_with_one_clear_line(
    arguments: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {
        "empty.toml": "",
        "minutes.toml": TWO_TYPES.replace("base_per_s", "base_per_minute"),
        "nan.toml": TWO_TYPES.replace("base_per_s = 1.0", "base_per_s = nan"),
        "empty.csv": "",
        "orders.csv": "Instrument,TimeNs,Outcome,EventType\nA,1,accepted,x\n",
        "short.csv": "34200.1,1,11,50,1000000,1\n34200.2,1,12\n",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    ended = run_pitwire(*arguments)
    assert ended.returncode in (1, 2)
    assert ended.stdout == "" and "panicked" not in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1 and expected in ended.stderr, ended.stderr


def test_a_replay_of_an_export_reproduces_every_trade(tmp_path: Path) -> None:
    arguments = ["--preset", "crypto24x7", "--seed", "3", "--horizon", "300", "--out", tmp_path / "run"]
    assert run_pitwire("sim", *arguments).returncode == 0
    assert run_pitwire("export", tmp_path / "run", "--out", tmp_path / "tables").returncode == 0
    replay = ["sim", "--replay", tmp_path / "tables", "--instrument", "BTC_USDC", "--json"]
    alone = json.loads(run_pitwire(*replay).stdout)
    trades = (tmp_path / "tables" / "trades.csv").read_text().splitlines()
    assert alone["recorded_trades"] == sum(",BTC_USDC," in row for row in trades) > 200
    assert alone["reproduced_trades"] == alone["recorded_trades"]
    assert (alone["reproduced_share"], alone["new_trades"], alone["unknown_orders"]) == (1.0, 0, 0)
    # An order that crosses takes what recorded orders would have taken.
    row = [row for row in trades if ",BTC_USDC," in row][len(trades) // 8].split(",")
    header = trades[0].split(",")
    price, at = int(row[header.index("PriceTicks")]) + 1000, int(row[header.index("TimeNs")])
    (tmp_path / "mine.csv").write_text(f"TimeNs,Side,PriceTicks,VolumeLots\n{at},Buy,{price},5000\n")
    mine = json.loads(run_pitwire(*replay, "--own-orders", tmp_path / "mine.csv").stdout)
    assert mine["own_orders"] == 1
    assert sum(fill["lots"] for fill in mine["own_fills"]) <= 5000
    assert mine["own_fills"], mine
    assert mine["reproduced_trades"] < mine["recorded_trades"]
    # A row that comes too late is refused by its line.
    instruments = (tmp_path / "tables" / "instruments.csv").read_text().splitlines()
    number = next(row.split(",")[0] for row in instruments if ",BTC_USDC," in row)
    events = tmp_path / "tables" / "events.csv"
    head, *rows = events.read_text().splitlines()
    first, *_, last = (place for place, row in enumerate(rows) if row.split(",")[6] == number)
    rows.insert(first, rows.pop(last))
    events.write_text("\n".join([head, *rows]) + "\n")
    refused = run_pitwire(*replay)
    assert refused.returncode == 1, refused.stderr
    assert re.search(r"events\.csv, line \d+: TimeNs \d+ is before that of an earlier row", refused.stderr)


# Two buys at 100.00 dollars, a better offer, a part of a cancel, a deletion, and executions. One of
# them is of a hidden order.
MESSAGES = """34200.000000001,1,11,50,1000000,1
34200.1,1,12,30,1000000,1
34200.2,1,21,40,1000200,-1
34200.3,2,11,10,1000000,1
34200.4,4,11,25,1000000,1
34200.5,4,11,15,1000000,1
34200.6,4,12,20,1000000,1
34200.7,5,0,7,1000100,-1
34200.8,4,21,40,1000200,-1
34200.9,3,12,10,1000000,1
"""


@pytest.mark.parametrize(("options", "price_ticks"), [([], 10_000), (["--lobster-tick", "50"], 20_000)])
def test_a_lobster_message_file_replays_with_own_orders_in_its_queue(
    options: list[str], price_ticks: int, tmp_path: Path
) -> None:
    (tmp_path / "messages.csv").write_text(MESSAGES)
    replay = ["sim", "--replay", tmp_path / "messages.csv", "--json", *options]
    alone = json.loads(run_pitwire(*replay).stdout)
    assert [alone[name] for name in ("recorded_trades", "reproduced_trades", "hidden_trades")] == [5, 4, 1]
    assert (alone["reproduced_share"], alone["other_trades"], alone["new_trades"]) == (0.8, 0, 0)
    # Behind order 11 and before order 12, whose lots it takes.
    own = f"TimeNs,Side,PriceTicks,VolumeLots\n34200050000000,Buy,{price_ticks},15\n"
    (tmp_path / "own.csv").write_text(own)
    mine = json.loads(run_pitwire(*replay, "--own-orders", tmp_path / "own.csv").stdout)
    [fill] = mine["own_fills"]
    assert (fill["at_ns"], fill["price_ticks"], fill["lots"], fill["is_maker"]) == (
        34_200_600_000_000,
        price_ticks,
        15,
        True,
    )
    assert [mine[name] for name in ("reproduced_trades", "other_trades", "new_trades")] == [3, 1, 2]


def test_recorded_trades_and_depth_of_the_binance_form_replay(tmp_path: Path) -> None:
    tape = tmp_path / "day.tape"
    with Venue(tmp_path / "data", ["--speed", "50"], preset="crypto24x7") as venue:
        url = f"ws://{venue.address}/stream?streams=btcusdc@trade/btcusdc@depth@100ms"
        recorded = run_pitwire("tape", "record", url, tape, "--messages", "2000")
        assert recorded.returncode == 0, recorded.stderr
    replayed = run_pitwire("sim", "--replay", tape, "--json")
    assert replayed.returncode == 0, replayed.stderr
    found = json.loads(replayed.stdout)
    assert found["units"] == ["0.1", "0.0001"]
    # A trade is missing if its level is older than the recording or shorter than a window of depth.
    assert found["reproduced_trades"] + found["hidden_trades"] == found["recorded_trades"] > 500
    assert found["reproduced_share"] > 0.5
    assert [found[name] for name in ("other_trades", "new_trades", "unknown_orders", "unsupported")] == [0, 0, 0, 0]
