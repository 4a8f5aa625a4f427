"""The figures of `pitwire sim --report`, computed again from the output of `pitwire export`."""

import csv
import html
import json
import math
import re
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import pytest
from flow_files import TWO_TYPES
from venue import run_pitwire

SECONDS = 300
START_NS = 1_767_603_600_000_000_000
# The JSE preset starts at 08:25 in Johannesburg, which is 06:25 UTC.
START_OF_DAY_NS = 1_767_594_300_000_000_000
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
    # At each second: spread, lots at the best bid, lots at the best offer.
    samples: list[tuple[int, int, int] | None] = field(default_factory=list)
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
            bid_lots, ask_lots = (self.book["Buy"][touch[0]], self.book["Sell"][touch[1]]) if touch else (0, 0)
            self.samples.append((touch[1] - touch[0], bid_lots, ask_lots) if touch else None)
            if touch:
                self.touch_lots.append(bid_lots)
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

    def return_autocorrelation(self, seconds: int, lag: int) -> float:
        mids = self.mids[::seconds]
        moves = [None if a is None or b is None else b - a for a, b in pairwise(mids)]
        known = [move for move in moves if move is not None]
        centre = sum(known) / len(known)
        variance = sum((move - centre) ** 2 for move in known) / len(known)
        products = [
            (a - centre) * (b - centre)
            for a, b in zip(moves, moves[lag:], strict=False)
            if a is not None and b is not None
        ]
        return sum(products) / len(products) / variance


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


def test_report_figures_equal_those_of_the_export(tmp_path: Path) -> None:
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
    reported = next(one for one in report["instruments"] if one["name"] == INSTRUMENT)
    whole = sum(again.spread_ns.values())
    mean = sum(width * ns for width, ns in again.spread_ns.items()) / whole
    assert reported["trades"] == len(rows(exported / "trades.csv"))
    assert reported["hits"] == len(again.hits) > 500
    assert reported["spread_ticks"]["mean"] == pytest.approx(mean, rel=1e-6)
    assert reported["depth_lots"][0]["bid"] == pytest.approx(sum(again.touch_lots) / len(again.touch_lots))
    for seconds in (1, 10, 60):
        assert at(reported["volatility"], seconds) == pytest.approx(again.volatility(seconds))
    for lag in (1, 10, 100):
        assert at(reported["impact"], lag) == pytest.approx(again.impact(lag))
        assert at(reported["sign_autocorrelation"], lag) == pytest.approx(again.sign_autocorrelation(lag))
    types = report["flow"]["types"]
    assert sum(one["events"] for one in types) >= said["events"] / 2
    assert sum(one["expected_per_s"] for one in types) == pytest.approx(report["flow"]["expected_events_per_s"])

    trades = rows(exported / "trades.csv")
    path = reported["path"]
    for place, interval in enumerate(path["intervals"]):
        begin = START_NS + place * path["interval_s"] * 10**9
        within = [row for row in trades if 0 <= int(row["TimeNs"]) - begin < path["interval_s"] * 10**9]
        prices = [ticks(row["Price"]) for row in within]
        assert interval["lots"] == sum(int(row["Volume"]) for row in within)
        assert interval["last_ticks"] == (prices[-1] if prices else None)
        assert interval["high_ticks"] == max(prices, default=None)
        first = place * path["interval_s"]
        sampled = [sample for sample in again.samples[first : first + path["interval_s"]] if sample is not None]
        for number, name in enumerate(["spread_ticks", "best_bid_lots", "best_ask_lots"]):
            values = [sample[number] for sample in sampled]
            assert interval[name] == (pytest.approx(sum(values) / len(values)) if values else None), (name, place)
    by_price: dict[int, int] = defaultdict(int)
    for row in trades:
        by_price[ticks(row["Price"])] += int(row["Volume"])
    for bar in reported["volume_profile"]:
        within_bar = sum(lots for price, lots in by_price.items() if bar["from_ticks"] <= price < bar["to_ticks"])
        assert bar["lots"] == within_bar
    assert sum(bar["lots"] for bar in reported["volume_profile"]) == reported["lots"] == sum(by_price.values())
    returns = reported["returns"]
    assert at(returns["autocorrelation"], 1) == pytest.approx(again.return_autocorrelation(returns["interval_s"], 1))
    assert returns["band"] == pytest.approx(1.96 / math.sqrt(returns["count"]))
    assert reported["sign_band"] == pytest.approx(1.96 / math.sqrt(len(again.hits)))

    between = report["flow"]["interevent_times"]
    assert between["events"] == sum(one["events"] for one in types)
    share = next(point["share"] for point in between["rescaled"] if point["at"] == pytest.approx(1.0))
    # Five standard errors of a share near 1/e.
    assert abs(share - math.exp(-1)) < 5 * math.sqrt(0.24 / between["events"])

    page = (run / "report.html").read_text()
    assert page.count("<svg") == 2 + 12 * len(report["instruments"])
    assert "http" not in page.replace("http://www.w3.org/2000/svg", "")
    assert '="#' not in page, "every colour follows the style of the page"


@pytest.mark.parametrize("flow", ["from a file", "of the preset"])
def test_volume_by_type_equals_that_of_the_exported_orders_and_trades(tmp_path: Path, flow: str) -> None:
    """Orders of a flow from a file have their event type as label. An order that trades on arrival
    has the number of its trade's command; in an uncross it has entered before."""
    arguments = ["sim", "--preset", "jse", "--seed", "5", "--horizon", "2400", "--out", tmp_path / "run"]
    is_labelled = flow == "from a file"
    if is_labelled:
        (tmp_path / "flow.toml").write_text(TWO_TYPES.replace("BTC_USDC", INSTRUMENT))
        arguments += ["--flow", tmp_path / "flow.toml"]
    ended = run_pitwire(*arguments, "--report", "--json")
    assert ended.returncode == 0, ended.stderr
    assert run_pitwire("export", tmp_path / "run", "--out", tmp_path / "csv").returncode == 0
    reported = next(one for one in json.loads(ended.stdout)["report"]["instruments"] if one["name"] == INSTRUMENT)
    entries = rows(tmp_path / "csv" / "orders.csv")
    orders = {row["OrderId"]: row for row in entries if row["Outcome"] == "accepted"}
    entered: Counter[str] = Counter()
    for row in orders.values():
        entered[row["Label"]] += int(row["VolumeLots"])
    traded: Counter[str] = Counter()
    uncross_lots = 0
    for row in rows(tmp_path / "csv" / "trades.csv"):
        order = orders[row["AggressorOrderId"]]
        if order["Seq"] == row["Seq"]:
            traded[order["Label"]] += int(row["VolumeLots"])
        else:
            uncross_lots += int(row["VolumeLots"])
    volume = reported["volume_by_type"]
    assert volume["uncross_lots"] == uncross_lots
    assert sum(traded.values()) + uncross_lots == reported["lots"]
    if is_labelled:
        assert {one["type"]: one["traded_lots"] for one in volume["types"]} == {
            name: traded[name] for name in ("take", "rest")
        }
        assert {one["type"]: one["entered_lots"] for one in volume["types"]} == {
            name: entered[name] for name in ("take", "rest")
        }
        assert traded["take"] > 0 and volume["other_lots"] == traded[""] > 0
    else:
        # These orders have no label, so only the sum is known from the tables.
        of_types = sum(one["traded_lots"] for one in volume["types"])
        assert uncross_lots > 0 and 0 < of_types < traded[""] == of_types + volume["other_lots"]


def test_a_report_states_twelve_properties_with_band_verdict_and_source(tmp_path: Path) -> None:
    run = tmp_path / "run"
    arguments = ["sim", "--preset", "crypto24x7", "--seed", "3", "--horizon", "3600", "--report", "--out", run]
    ended = run_pitwire(*arguments, "--json")
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)["report"]
    names = [fact["name"] for fact in report["facts"]]
    assert len(names) == len(set(names)) == 12
    page = (run / "report.html").read_text()
    verdicts = defaultdict(list)
    for instrument in report["instruments"]:
        assert [fact["name"] for fact in instrument["facts"]] == names
        for fact in instrument["facts"]:
            verdicts[fact["name"]].append(fact["verdict"])
            if fact["verdict"] == "too_few_values":
                assert fact["value"] is None and fact["band"] is None
                continue
            low, high = fact["band"]
            assert low <= fact["value"] <= high, fact
            if fact["criterion"] == "the band is above 0":
                assert fact["verdict"] == ("pass" if low > 0 else "fail"), fact
    for fact in report["facts"]:
        assert re.search(r"\b(19|20)\d\d\b", fact["source"]), fact
        assert fact["passed"] == verdicts[fact["name"]].count("pass")
        assert fact["judged"] == len(verdicts[fact["name"]]) - verdicts[fact["name"]].count("too_few_values")
        assert fact["name"] in page and fact["source"] in page
    # An hour has no U shape of the day.
    assert sum(fact["judged"] > 0 for fact in report["facts"]) == 11


def test_spread_and_depth_are_in_keeping_with_tick_and_price() -> None:
    """The prices of these shares differ by a factor of 500, and all have a tick of 0.01 rand."""
    arguments = ["sim", "--preset", "jse", "--seed", "3", "--horizon", "7200", "--report", "--json"]
    ended = run_pitwire(*arguments)
    assert ended.returncode == 0, ended.stderr
    small_ticks_bps, touch_value = {}, {}
    for one in json.loads(ended.stdout)["report"]["instruments"]:
        price_ticks = one["path"]["auctions"][0]["price_ticks"]
        tick_bps = 10_000 / price_ticks
        if tick_bps > 5:
            assert one["spread_ticks"]["median"] == 1, one["name"]
        if tick_bps < 1:
            small_ticks_bps[one["name"]] = one["spread_ticks"]["mean"] * tick_bps
        touch_value[one["name"]] = one["depth_lots"][0]["bid"] * price_ticks * one["tick"]
    assert len(touch_value) == 12 and len(small_ticks_bps) > 3
    assert 0.5 < min(small_ticks_bps.values()) < max(small_ticks_bps.values()) < 4, small_ticks_bps
    assert max(touch_value.values()) < 5 * min(touch_value.values()), touch_value


# Words of the legend of each plot with more than one series.
LEGENDS = {
    "Volume by type": ["buys or both sides", "sells"],
    "Events of each type a second": ["buys or both sides, realised", "sells, realised", "theory"],
    "Times between events": ["long-run rate", "integrated intensity (rescaled)", "exponential: theory"],
    "Price": ["lowest to highest price", "last price"],
    "Depth over time": ["best bid", "best offer"],
    "Depth by distance": ["bids", "offers"],
    "Autocorrelation of order signs": ["95 % of independent values", "order signs"],
    "Autocorrelation of returns": ["95 % of independent values", "returns", "sizes of returns"],
}
OTHER_PLOTS = ["Volume by price", "Volume over time", "Spread over time", "Spread: share of the time"]
OTHER_PLOTS += ["Volatility signature", "Impact"]


def figure_of(part: str) -> tuple[str, str, str]:
    """The caption of a plot, the words in the plot, and the sentence below it."""
    caption = part.partition("<h3>")[2].partition("</h3>")[0]
    svg = part.partition("<svg")[2].partition("</svg>")[0]
    reading = part.partition("<figcaption>")[2].partition("</figcaption>")[0]
    return caption, " ".join(html.unescape(re.sub("<[^>]*>", " ", svg)).split()), reading


def test_each_plot_of_a_report_explains_itself(tmp_path: Path) -> None:
    """The legend is in the plot and a sentence is below it. Published properties name their
    sources."""
    run = tmp_path / "run"
    ended = run_pitwire("sim", "--seed", "7", "--horizon", str(SECONDS), "--out", run, "--report", "--json")
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)["report"]
    page = (run / "report.html").read_text()
    figures = [figure_of(part) for part in page.split("<figure>")[1:]]
    captions = Counter(caption for caption, *_ in figures)
    each = len(report["instruments"])
    assert captions == {name: 1 if "vents" in name else each for name in [*LEGENDS, *OTHER_PLOTS]}
    assert len(figures) == page.count("<svg"), "no plot stands without a caption"
    for caption, svg, reading in figures:
        assert all(label in svg for label in LEGENDS.get(caption, [])), (caption, svg)
        assert reading.endswith(".") and len(reading.split()) >= 5, (caption, reading)
        if caption == "Autocorrelation of order signs":
            assert re.match(r"\d+ of \d+ lags are outside the band of \d+ independent signs\. \S", reading), reading
        if caption == "Autocorrelation of returns":
            assert re.search(r"lags of the returns and \d+ of the sizes are outside the band\. \S", reading), reading
        if caption == "Times between events":
            assert re.search(r"rescaled times are (not )?exponential.*below \d", reading), reading
    head, *rows_of_facts = re.findall("<tr>.*?</tr>", page.split('<table class="facts">')[1].split("</table>")[0])
    assert "source" in head and len(rows_of_facts) == len(report["facts"]) >= 10
    for row, fact in zip(rows_of_facts, report["facts"], strict=True):
        assert fact["name"] in row and fact["source"] in row and re.search(r"\d{4}", fact["source"]), row
    for instrument in report["instruments"]:
        assert {fact["verdict"] for fact in instrument["facts"]} <= {"pass", "fail", "too_few_values"}
        assert len(instrument["facts"]) >= 10


def test_a_report_of_sessions_shows_them_and_the_auction_prices(tmp_path: Path) -> None:
    run, exported = tmp_path / "run", tmp_path / "csv"
    ended = run_pitwire(
        "sim", "--preset", "jse", "--seed", "3", "--horizon", "2400", "--out", run, "--report", "--json"
    )
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)["report"]
    assert run_pitwire("export", run, "--out", exported).returncode == 0
    instruments = {one["name"]: one for one in report["instruments"]}
    reported = next(iter(instruments.values()))
    names = [session["session"] for session in reported["path"]["sessions"]]
    assert names[-1] == "continuous" and "opening_auction" in names
    with (exported / "trades.csv").open(newline="") as file:
        trades = list(csv.DictReader(file))
    for name, one in instruments.items():
        for auction in one["path"]["auctions"]:
            at_ns = START_OF_DAY_NS + round(auction["at_s"] * 1e9)
            within = [row for row in trades if row["Instrument"] == name and abs(int(row["TimeNs"]) - at_ns) < 1000]
            # The uncross is the first command of that instant; orders that it activates trade
            # behind it.
            within = [row for row in within if row["Seq"] == within[0]["Seq"]]
            assert sum(int(row["Volume"]) for row in within) == auction["lots"] > 0
            assert {ticks(row["Price"]) for row in within} == {auction["price_ticks"]}
    assert any(one["path"]["auctions"] for one in instruments.values())
    page = (run / "report.html").read_text()
    assert page.count("<details") == len(instruments) and "opening" in page


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
