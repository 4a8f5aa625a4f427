"""The figures of `pitwire sim --report`, computed again from the output of `pitwire export`."""

import csv
import json
import math
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from venue import run_pitwire

SECONDS = 120
START_NS = 1_767_603_600_000_000_000
INSTRUMENT = "NPN_ZAR"
TICKS_A_RAND = 100


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return [row for row in csv.DictReader(file) if row["Instrument"] == INSTRUMENT]


def ticks(price: str) -> int:
    return round(float(price) * TICKS_A_RAND)


@dataclass
class Again:
    """The same figures from the exported levels and trades."""

    book: dict[str, dict[int, int]] = field(default_factory=lambda: {"Buy": {}, "Sell": {}})
    spread_ns: dict[int, int] = field(default_factory=lambda: defaultdict(int))
    mids: list[float | None] = field(default_factory=list)
    touch_lots: list[int] = field(default_factory=list)
    hits: list[tuple[int, float]] = field(default_factory=list)
    now_ns: int = START_NS

    def touch(self) -> tuple[int, int] | None:
        bids, asks = self.book["Buy"], self.book["Sell"]
        return (max(bids), min(asks)) if bids and asks else None

    def passes(self, until_ns: int) -> None:
        touch = self.touch()
        if touch:
            self.spread_ns[touch[1] - touch[0]] += until_ns - self.now_ns
        while START_NS + len(self.mids) * 10**9 <= until_ns:
            self.mids.append(sum(touch) / 2 if touch else None)
            if touch:
                self.touch_lots.append(self.book["Buy"][touch[0]])
        self.now_ns = until_ns

    def command(self, levels: list[dict[str, str]], trades: list[dict[str, str]]) -> None:
        touch = self.touch()
        for side in dict.fromkeys((trade["AggressorOrderId"], trade["AggressorSide"]) for trade in trades):
            assert touch is not None
            self.hits.append((1 if side[1] == "Buy" else -1, sum(touch) / 2))
        for level in levels:
            side, price, lots = self.book[level["Side"]], ticks(level["Price"]), int(level["Volume"])
            if lots:
                side[price] = lots
            else:
                del side[price]

    def volatility(self, seconds: int) -> float:
        pairs = [
            (a, b) for a, b in zip(self.mids, self.mids[seconds:], strict=False) if a is not None and b is not None
        ]
        return math.sqrt(sum((b - a) ** 2 for a, b in pairs) / len(pairs) / seconds)

    def impact(self, lag: int) -> float:
        moves = [sign * (later - mid) for (sign, mid), (_, later) in zip(self.hits, self.hits[lag:], strict=False)]
        return sum(moves) / len(moves)

    def sign_autocorrelation(self, lag: int) -> float:
        signs = [sign for sign, _ in self.hits]
        centre = sum(signs) / len(signs)
        products = [(a - centre) * (b - centre) for a, b in zip(signs, signs[lag:], strict=False)]
        return (sum(products) / len(products)) / (1 - centre**2)


def worked_out_again(exported: Path, end_ns: int) -> Again:
    again = Again()
    changes = [(int(row["Seq"]), "levels", row) for row in rows(exported / "levels.csv")]
    changes += [(int(row["Seq"]), "trades", row) for row in rows(exported / "trades.csv")]
    for _, group in groupby(sorted(changes, key=lambda change: change[0]), key=lambda change: change[0]):
        by_kind: dict[str, list[dict[str, str]]] = {"levels": [], "trades": []}
        for _, kind, row in group:
            by_kind[kind].append(row)
        again.passes(int((by_kind["levels"] + by_kind["trades"])[0]["TimeNs"]))
        again.command(**by_kind)
    again.passes(end_ns)
    return again


def at(points: list[dict[str, Any]], place: int) -> float:
    return next(point["value"] for point in points if point["at"] == place)


def test_the_figures_of_a_report_are_those_of_what_was_exported(tmp_path: Path) -> None:
    run, exported = tmp_path / "run", tmp_path / "csv"
    arguments = ["sim", "--seed", "7", "--horizon", str(SECONDS)]
    ended = run_pitwire(*arguments, "--out", run, "--report", "--json")
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)
    plain = json.loads(run_pitwire(*arguments, "--json").stdout)
    assert said["tape_hash"] == plain["tape_hash"], "keeping and measuring a run changes nothing in it"
    assert json.loads((run / "report.json").read_text()) == said["report"]
    assert run_pitwire("export", run, "--out", exported).returncode == 0

    report = said["report"]
    again = worked_out_again(exported, START_NS + round(report["seconds"] * 1e9))
    told = next(one for one in report["instruments"] if one["name"] == INSTRUMENT)
    whole = sum(again.spread_ns.values())
    mean = sum(width * ns for width, ns in again.spread_ns.items()) / whole
    assert told["trades"] == len(rows(exported / "trades.csv"))
    assert told["hits"] == len(again.hits) > 500
    assert told["spread_ticks"]["mean"] == pytest.approx(mean, rel=1e-6)
    assert told["depth_lots"][0]["bid"] == pytest.approx(sum(again.touch_lots) / len(again.touch_lots))
    for seconds in (1, 10, 60):
        assert at(told["volatility"], seconds) == pytest.approx(again.volatility(seconds))
    for lag in (1, 10, 100):
        assert at(told["impact"], lag) == pytest.approx(again.impact(lag))
        assert at(told["sign_autocorrelation"], lag) == pytest.approx(again.sign_autocorrelation(lag))
    types = report["flow"]["types"]
    assert sum(one["events"] for one in types) >= said["events"] / 2
    assert sum(one["expected_per_s"] for one in types) == pytest.approx(report["flow"]["expected_events_per_s"])

    page = (run / "report.html").read_text()
    assert page.count("<svg") == 1 + 4 * 5 and "http" not in page.replace("http://www.w3.org/2000/svg", "")


def test_a_kept_run_is_a_venues_directory(tmp_path: Path) -> None:
    run = tmp_path / "run"
    kept = run_pitwire("sim", "--seed", "3", "--events", "5000", "--out", run, "--json")
    assert kept.returncode == 0, kept.stderr
    verified = run_pitwire("verify", run, "--json")
    assert json.loads(verified.stdout)["tape_hash"] == json.loads(kept.stdout)["tape_hash"]
    again = run_pitwire("sim", "--seed", "3", "--events", "5", "--out", run)
    assert again.returncode == 1 and "holds a run already" in again.stderr
    both = run_pitwire("sim", "--seed", "3", "--events", "5", "--out", tmp_path / "other", "--threads", "2")
    assert both.returncode == 2 and "--threads" in both.stderr
    assert not (tmp_path / "other").exists()
