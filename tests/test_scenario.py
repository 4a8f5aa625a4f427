"""`pitwire scenario`: the published vectors through the real binary, and its errors for wrong
files."""

import json
from pathlib import Path
from typing import Any

import pytest
from rpc import Http
from venue import DEMO_A, DEMO_B, TOP, Venue, run_pitwire

VECTORS = sorted((TOP / "contracts" / "vectors" / "rules").glob("*.json"))
SELL = {"op": "enter", "id": "S1", "side": "sell", "type": "limit", "qty": 10, "price": 100}
BUY = {"op": "enter", "id": "B1", "side": "buy", "type": "market", "qty": 4}
TRADE = {"buy": "B1", "sell": "S1", "qty": 4, "price": 100}
FIRST = {"name": "first", "steps": [SELL, BUY], "expect": {"trades": [TRADE], "rejected": []}}


def write(folder: Path, content: Any) -> Path:
    path = folder / "scenario.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_every_vector_passes() -> None:
    done = run_pitwire("scenario", *VECTORS, "--json")
    assert done.returncode == 0, done.stderr
    results = [json.loads(line) for line in done.stdout.splitlines()]
    named = [scenario["name"] for path in VECTORS for scenario in json.loads(path.read_text())]
    assert [result["name"] for result in results] == named
    assert all(result["pass"] for result in results)
    assert done.stderr == ""


def test_a_result_is_whole(tmp_path: Path) -> None:
    done = run_pitwire("scenario", write(tmp_path, FIRST), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "name": "first",
        "pass": True,
        "steps": [
            {"events": [{"type": "accepted", "id": "S1"}]},
            {"events": [{"type": "accepted", "id": "B1"}, {"type": "trade", **TRADE}]},
        ],
        "trades": [TRADE],
        "book": {"bids": [], "offers": [{"id": "S1", "qty": 6, "price": 100, "hidden": False}]},
        "parked": [],
        "unelected": [],
        "rejected": [],
        "price": None,
        "closing": None,
    }


def test_one_per_line_and_without_json(tmp_path: Path) -> None:
    second = FIRST | {"name": "second", "steps": [SELL], "expect": {"trades": []}}
    done = run_pitwire("scenario", write(tmp_path, f"{json.dumps(FIRST)}\n{json.dumps(second)}\n"))
    assert done.returncode == 0, done.stderr
    assert [line.split() for line in done.stdout.splitlines()] == [["first", "ok"], ["second", "ok"]]


def test_a_difference_is_printed_and_exits_1(tmp_path: Path) -> None:
    wrong = FIRST | {"expect": {"trades": [TRADE | {"price": 101}], "parked": ["B9"]}}
    done = run_pitwire("scenario", write(tmp_path, [wrong, FIRST]), "--json")
    assert done.returncode == 1
    first, second = (json.loads(line) for line in done.stdout.splitlines())
    assert (first["pass"], second["pass"]) == (False, True)
    assert first["differences"] == ['parked: expected ["B9"], got []', "trades[0].price: expected 101, got 100"]
    assert "trades[0].price: expected 101, got 100" in done.stderr
    assert "1 of 2 scenarios differ" in done.stderr


def test_a_rejection_cites_the_cell_or_the_reason(tmp_path: Path) -> None:
    gtc = BUY | {"id": "B2", "tif": "gtc"}
    nothing = BUY | {"id": "B3", "qty": 0}
    late = SELL | {"id": "S4", "tif": "Gtt", "expires": "08:00:00"}
    steps = [gtc, nothing, late, {"op": "amend", "id": "B9", "qty": 1}, {"op": "session", "to": "continuous"}]
    done = run_pitwire("scenario", write(tmp_path, {"name": "refused", "steps": steps}), "--json")
    result = json.loads(done.stdout)
    assert result["rejected"] == ["B2", "B3", "S4", "B9"]
    events = [step["events"][0] for step in result["steps"]]
    assert [(event["reason"], event["rule"]) for event in events] == [
        ("tif_not_allowed_for_type", "market-does-not-wait"),
        ("quantity_out_of_range", "order-rules: quantity"),
        ("expiry_passed", "rulebook: 4, expiry"),
        ("unknown_order", "order-rules: amending"),
        ("session_not_allowed", "rulebook: 16"),
    ]


def test_a_clock_step_equals_the_venue(data: Path, tmp_path: Path) -> None:
    """D stands before H, so H cannot get its minimum execution size from S. D expires first, and
    then H trades, before it expires itself."""
    hidden = {"type": "hidden", "qty": 10, "price": 100, "mes": 10}
    steps = [
        SELL | {"id": "D", "side": "buy", "qty": 5, "tif": "gtt", "expires": "09:00:01"},
        SELL | hidden | {"id": "H", "side": "buy", "tif": "gtt", "expires": "09:00:03"},
        SELL | hidden | {"id": "S"},
        {"op": "clock", "to": "09:00:03"},
    ]
    played = run_pitwire("scenario", write(tmp_path, {"name": "pair", "steps": steps}), "--json")
    assert played.returncode == 0, played.stderr
    assert json.loads(played.stdout)["trades"] == [{"buy": "H", "sell": "S", "qty": 10, "price": 100}]
    with Venue(data, ["--no-flow", "--clock", "manual"]) as venue:
        alice, bob = Http(venue.address, DEMO_A), Http(venue.address, DEMO_B)
        now_ms = int(alice.result("private/pitwire_advance", {"ns": 0})["venue_time_ns"]) // 1_000_000
        order = {"instrument_name": "NPN_ZAR", "price": 3250, "amount": 10}
        unseen = {"hidden": True, "min_execution": 10}
        alice.result("private/buy", order | {"amount": 5, "tif_ext": "gtt", "expires_at": now_ms + 1_000})
        late = alice.result("private/buy", order | unseen | {"tif_ext": "gtt", "expires_at": now_ms + 3_000})
        assert bob.result("private/sell", order | unseen)["order"]["order_state"] == "open"
        alice.result("private/pitwire_advance", {"ns": 3_000_000_000})
        fills = alice.result("private/get_user_trades_by_order", {"order_id": late["order"]["order_id"]})
        assert [fill["amount"] for fill in fills] == [10]


def test_scenarios_have_post_only_orders_modes_funds_and_collars(tmp_path: Path) -> None:
    setup = {
        "last_price": 100,
        "collar_pct": 10,
        "smp": "cancel_incoming",
        "accounts": [{"account": "A", "smp": "cancel_resting"}],
        "funds": [{"account": "P", "money": 100}],
    }
    buy = {"op": "enter", "side": "buy", "type": "limit"}
    steps = [
        SELL | {"qty": 5},
        buy | {"id": "R", "qty": 5, "price": 100, "post_only": "reject"},
        buy | {"id": "M", "qty": 5, "price": 101, "post_only": "reprice"},
        buy | {"id": "C", "qty": 1, "price": 111},
        buy | {"id": "F", "qty": 2, "price": 90, "account": "P"},
        SELL | {"id": "S2", "qty": 5, "price": 105, "account": "A"},
        buy | {"id": "B2", "qty": 10, "price": 105, "account": "A"},
    ]
    done = run_pitwire("scenario", write(tmp_path, {"name": "terms", "setup": setup, "steps": steps}), "--json")
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["rejected"] == ["R", "C", "F"]
    reasons = [result["steps"][step]["events"][0]["reason"] for step in (1, 3, 4)]
    assert reasons == ["post_only_would_trade", "price_above_collar", "not_enough_funds"]
    # The account cancels its own resting order, and what did not trade rests.
    assert [(row["id"], row["price"]) for row in result["book"]["bids"]] == [("B2", 105), ("M", 99)]
    assert result["book"]["offers"] == []


def test_a_stop_whose_condition_holds_on_entry_is_elected_at_once(tmp_path: Path) -> None:
    """The rulebook elects it. Only the JSON-RPC dialect refuses such a stop, as the real venue
    does."""
    stop = {"op": "enter", "id": "B2", "side": "buy", "type": "stop", "qty": 3, "stop": 100}
    # S1 has six lots left, at the price of the last trade.
    done = run_pitwire("scenario", write(tmp_path, {"name": "stop", "steps": [SELL, BUY, stop]}), "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["trades"] == [TRADE, {"buy": "B2", "sell": "S1", "qty": 3, "price": 100}]


def test_the_end_of_a_day_refuses_nothing_and_ends_orders_of_a_batch(tmp_path: Path) -> None:
    quiet = {"name": "quiet", "steps": [{"op": "session", "to": "start_of_trading"}, {"op": "end_of_day"}]}
    immediate = SELL | {"id": "S2", "tif": "ioc"}
    batch = {"name": "batch", "setup": {"allocation": "frequent_batch"}, "steps": [immediate, {"op": "end_of_day"}]}
    done = run_pitwire("scenario", write(tmp_path, [quiet, batch]), "--json")
    assert done.returncode == 0, done.stderr
    first, second = (json.loads(line) for line in done.stdout.splitlines())
    assert first["steps"][1]["events"] == [] and first["rejected"] == []
    ended = {"type": "expired", "id": "S2", "qty": 10, "reason": "day_ended"}
    assert ended in second["steps"][1]["events"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ('{"name": "A",\n "steps": [}', "scenario.json:2: not JSON"),
        ("", "scenario.json:1: no scenario in this file"),
        ('{"name": "A",\n "stepz": []}', 'scenario.json:2: unknown key "stepz"'),
        ('{"name": "A", "steps": [\n{"op": "enter", "id": "B1"}]}', 'scenario.json:2: scenario A: step 1: no "type"'),
        ('{"name": "A", "steps": [\n{"op": "session", "to": "lunch"}]}', 'unknown session "lunch"'),
    ],
)
def test_a_malformed_file_exits_2_with_line_and_rule(tmp_path: Path, content: str, said: str) -> None:
    done = run_pitwire("scenario", write(tmp_path, content), "--json")
    assert done.returncode == 2
    assert done.stdout == ""
    assert said in done.stderr
    assert "(rulebook: 19" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_clock_that_goes_back_and_a_missing_file_are_usage(tmp_path: Path) -> None:
    back = {"name": "back", "steps": [{"op": "clock", "to": "08:59:59"}]}
    done = run_pitwire("scenario", write(tmp_path, back))
    assert (done.returncode, "venue time never does" in done.stderr) == (2, True)
    done = run_pitwire("scenario", tmp_path / "none.json")
    assert (done.returncode, "cannot read" in done.stderr) == (2, True)
    assert run_pitwire("scenario").returncode == 2
