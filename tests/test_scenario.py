"""`pitwire scenario`: the published vectors through the real binary, and its errors for wrong
files."""

import json
from pathlib import Path
from typing import Any

import pytest
from venue import TOP, run_pitwire

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
