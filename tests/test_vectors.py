"""The rule vectors and their checker: the vectors are sound, and the checker finds planted
errors."""

import copy
import re
import sys
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from venue import TOP

sys.path.insert(0, str(TOP / "scripts"))

import check_vectors as cv
import print_rules
import rulebook

Plant = Callable[[dict[str, Any]], object]


@pytest.fixture(scope="module")
def scenarios() -> dict[str, dict[str, Any]]:
    return {scenario["name"]: scenario for _, scenario in cv.load(cv.files())}


def differences(scenario: dict[str, Any]) -> list[str]:
    """The differences between a scenario's expectation and the rules. Absent keys are not
    judged."""
    return list(compare("", scenario["expect"], rulebook.run(scenario)))


def compare(where: str, wanted: Any, got: Any) -> Iterable[str]:
    if isinstance(wanted, dict) and isinstance(got, dict):
        for key, value in wanted.items():
            yield from compare(f"{where}.{key}", value, got.get(key))
    elif isinstance(wanted, list) and isinstance(got, list) and len(wanted) == len(got):
        for index, (one, other) in enumerate(zip(wanted, got, strict=True)):
            yield from compare(f"{where}[{index}]", one, other)
    elif wanted != got:
        yield f"{where.lstrip('.')}: expected {wanted}, got {got}"


def faults_of(scenario: dict[str, Any]) -> list[str]:
    return cv.judge(scenario, cv.known_reasons(), cv.tables())


def test_every_vector_is_sound() -> None:
    assert cv.check(cv.files()) == []


def test_the_rulebook_gives_every_vector(scenarios: dict[str, Any]) -> None:
    wrong = {name: differences(scenario) for name, scenario in scenarios.items()}
    assert {name: what for name, what in wrong.items() if what} == {}


def test_every_vector_of_the_specification_is_there(scenarios: dict[str, Any]) -> None:
    counts = {"M": 6, "L": 12, "H": 17, "F": 8, "ST": 14, "SLT": 12, "SB": 13, "R": 8, "K": 4, "U": 15, "V": 6}
    wanted = {
        f"{group}{number:02}" if group in {"M", "L", "H", "F", "ST", "SLT"} else f"{group}{number}"
        for group, count in counts.items()
        for number in range(1, count + 1)
    }
    wanted |= {"SMP1", "C1", "CL1", "V7-111", "V7-150", "V7-199", "V7-60"}
    assert wanted <= scenarios.keys()
    assert len(wanted) == 118 + 4  # 119 in all, V7 as four


def test_much_is_recomputed(scenarios: dict[str, Any]) -> None:
    assert sum(cv.is_plain_call(scenario) for scenario in scenarios.values()) >= 30
    assert sum(cv.is_plain_continuous(scenario) for scenario in scenarios.values()) >= 25


PLANTS: dict[str, tuple[str, Plant]] = {
    "a price below the best candidate": ("U4", lambda s: s["expect"].update(price=101)),
    "two prices in one uncross": ("U6", lambda s: s["expect"]["trades"][1].update(price=101)),
    "the limit order before the market order": ("U13", lambda s: s["expect"]["trades"].reverse()),
    "a trade where nothing crosses": ("U10", lambda s: s["expect"].update(price=100)),
    "no trade where something crosses": ("U9", lambda s: s["expect"].update(price=None, trades=[])),
    "the younger before the older": ("A09", lambda s: s["expect"]["trades"][0].update(buy="B2")),
    "the taker's price": ("L05", lambda s: s["expect"]["trades"][0].update(price=8000)),
    "a worse price first": ("M03", lambda s: s["expect"]["trades"].reverse()),
    "one lot too many": ("H06", lambda s: s["expect"]["trades"][0].update(qty=15001)),
    "beyond the limit": ("H07", lambda s: s["expect"]["trades"][1].update(price=10450)),
    "the wrong remainder": ("F04", lambda s: s["expect"]["book"]["bids"][1].update(qty=9999)),
    "an order that vanishes": ("H04", lambda s: s["expect"]["book"]["bids"].pop(0)),
    "a stop limit that vanishes": ("SLT03", lambda s: s["expect"].update(unelected=[])),
    "a book out of order": ("L02", lambda s: s["expect"]["book"]["bids"].reverse()),
    "hidden before visible": ("HA3", lambda s: s["expect"]["book"]["bids"][0].update(hidden=False)),
    "a crossed book": (
        "L04",
        lambda s: s["steps"][1].update(price=10000) or s["expect"]["book"]["bids"][0].update(price=10000),
    ),
    "a price of rest that was never asked": ("L01", lambda s: s["expect"]["book"]["bids"][0].update(price=9999)),
    "an unknown op": ("K1", lambda s: s["steps"][1].update(op="remove")),
    "an unknown key": ("K1", lambda s: s["steps"][1].update(price=101)),
    "an unknown session": ("SB1", lambda s: s["steps"][0].update(to="lunch")),
    "an unknown type": ("M01", lambda s: s["steps"][0].update(type="peg")),
    "an unknown tif": ("SB3", lambda s: s["steps"][1].update(tif="gdx")),
    "an unknown setup": ("V5", lambda s: s["setup"].update(band=90)),
    "a price that is no whole number": ("L01", lambda s: s["steps"][0].update(price=100.5)),
    "a limit order without price": ("L01", lambda s: s["steps"][0].pop("price")),
    "a market order with price": ("M01", lambda s: s["steps"][0].update(price=1)),
    "a GTT without time": ("SB9", lambda s: s["steps"][1].pop("expires")),
    "an id that enters twice": ("F08", lambda s: s["steps"][1].update(id="B1")),
    "a trade of an unknown order": ("M03", lambda s: s["expect"]["trades"][0].update(sell="S9")),
    "a reject of an unknown order": ("SB2", lambda s: s["expect"].update(rejected=["B2"])),
    "a reason that no contract knows": ("V5", lambda s: s["expect"]["steps"][0]["events"][0].update(reason="no")),
    "a reason of expiry unknown": ("SB4", lambda s: s["expect"]["steps"][1]["events"][1].update(reason="gone")),
    "an event unknown": ("SB4", lambda s: s["expect"]["steps"][1]["events"][1].update(type="gone")),
    "steps that do not match": ("SB4", lambda s: s["expect"]["steps"].pop()),
    "a refused cell accepted": ("SB6", lambda s: s["expect"].update(rejected=[], steps=[])),
    "a cell's refusal by another name": (
        "SB12",
        lambda s: s["expect"]["steps"][1]["events"][0].update(reason="tif_not_allowed_in_session"),
    ),
    "an accepted cell refused": ("SB8", lambda s: s["expect"]["steps"][0]["events"][0].update(reason="not_open")),
    "no rule": ("M01", lambda s: s.update(rule="")),
    "a derivation unknown": ("CL1", lambda s: s["expect"]["closing"].update(derivation="guess")),
    "a FOK that fills in part": (
        "SB4",
        lambda s: s["expect"].update(trades=[{"buy": "B2", "sell": "S1", "qty": 50, "price": 100}]),
    ),
}


@pytest.mark.parametrize("what", PLANTS)
def test_the_checker_objects(what: str, scenarios: dict[str, Any]) -> None:
    name, plant = PLANTS[what]
    broken = copy.deepcopy(scenarios[name])
    assert faults_of(broken) == []
    plant(broken)
    assert broken != scenarios[name]
    assert faults_of(broken) != []


def test_a_cell_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    rules = tmp_path / "contracts" / "rules"
    rules.mkdir(parents=True)
    for name in ("order-types.toml", "sessions.toml"):
        lines = (TOP / "contracts" / "rules" / name).read_text().splitlines(keepends=True)
        dropped = next(i for i, line in enumerate(lines) if '"fok"' in line)
        (rules / name).write_text("".join(lines[:dropped] + lines[dropped + 1 :]))
    monkeypatch.setattr(cv, "TOP", tmp_path)
    with pytest.raises(ValueError, match="missing, doubled or unknown"):
        cv.tables()


def test_the_printed_tables_are_the_data() -> None:
    assert print_rules.PAGE.read_text() == print_rules.page()


def test_the_rulebook_names_vectors_that_are_there(scenarios: dict[str, Any]) -> None:
    text = (TOP / "docs" / "rulebook.md").read_text()
    words = [word for group in re.findall(r"\[([^\]\n]+)\](?!\()", text) for word in re.split(r"[ ;:,]+", group)]
    named = {word for word in words if re.fullmatch(r"[A-Z]+[A-Za-z0-9-]*[0-9-][A-Za-z0-9-]*", word)}
    assert len(named) > 200
    elsewhere = {scenario["name"] for _, scenario in cv.load(cv.VECTORS / name for name in cv.NOT_MODELLED)}
    assert named <= scenarios.keys() | elsewhere
