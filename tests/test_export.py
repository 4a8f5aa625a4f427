"""`pitwire export`: its tables against the API's history, against `verify`, and against one
another."""

import csv
import json
import re
import shutil
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import polars as pl
import pytest
from rpc import Http
from venue import DEMO_A, DEMO_B, INSTRUMENTS, OPERATOR, TOP, Venue, run_pitwire

Row = dict[str, str]
Book = dict[tuple[str, str, Decimal], Decimal]
TABLES = ["orders", "trades", "book", "levels", "quotes", "auctions", "events", "instruments"]
COINTOSSX = {
    "orders": ["SecurityId", "OrderId", "ClientOrderId", "DateTime", "Price", "Volume", "Side"],
    "trades": ["SecurityId", "OrderId", "ClientOrderId", "Price", "Volume", "DateTime"],
    "book": ["SecurityId", "OrderId", "ClientOrderId", "DateTime", "Price", "Volume", "Side"],
}
ENOUGH_TRADES = 500
PARQUET = {
    "u32": "UINTEGER",
    "u64": "UBIGINT",
    "i64": "BIGINT",
    "text": "VARCHAR",
    "bool": "BOOLEAN",
    "number": "DOUBLE",
    "time": "TIMESTAMP WITH TIME ZONE",
}


@dataclass
class Run:
    """A stopped venue and the answers it gave."""

    data: Path
    trades: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    orders: list[dict[str, Any]] = field(default_factory=list)
    fills: list[dict[str, Any]] = field(default_factory=list)
    # The fills in answers to orders.
    answered: set[str] = field(default_factory=set)
    books: dict[str, dict[str, Any]] = field(default_factory=dict)


def export(data: Path, out: Path, *options: str) -> dict[str, Any]:
    ended = run_pitwire("export", data, "--out", out, "--json", *options)
    assert ended.returncode == 0, ended.stderr
    report = json.loads(ended.stdout)
    assert sorted(path.name for path in out.iterdir()) == sorted(f"{name}.{report['format']}" for name in TABLES)
    return report


def rows(out: Path, name: str) -> list[Row]:
    with (out / f"{name}.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def millis(row: Row) -> int:
    at = datetime.strptime(row["DateTime"], "%Y-%m-%d %H:%M:%S.%f").replace(tzinfo=UTC)
    assert int(row["TimeNs"]) // 1_000_000 == round(at.timestamp() * 1000)
    return round(at.timestamp() * 1000)


def resting(table: list[Row]) -> Book:
    """Quantity by price of a table of orders."""
    book: Book = defaultdict(Decimal)
    for row in table:
        book[row["Instrument"], row["Side"], Decimal(row["Price"])] += Decimal(row["Volume"])
    return dict(book)


def rebuilt(levels: list[Row], before_seq: int | None = None) -> Book:
    """The last quantity of every level."""
    book: Book = {}
    for row in levels:
        if before_seq is None or int(row["Seq"]) < before_seq:
            book[row["Instrument"], row["Side"], Decimal(row["Price"])] = Decimal(row["Volume"])
    return {level: volume for level, volume in book.items() if volume}


def last_trade(client: Http, instrument: str) -> int:
    asked = {"instrument_name": instrument, "count": 1}
    trades = client.result("public/get_last_trades_by_instrument", asked)["trades"]
    return trades[0]["trade_seq"] if trades else 0


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Some flow, some orders of two members, a crash in the middle, and a quiet end for the
    comparison."""
    run = Run(tmp_path_factory.mktemp("run") / "data")
    with Venue(run.data, ["--seed", "11", "--speed", "4"]) as venue:
        a, b = Http(venue.address, DEMO_A), Http(venue.address, DEMO_B)
        for n in range(10):
            order = {"instrument_name": "BTC_USDC", "amount": 0.5, "type": "limit", "label": f'l,"{n}'}
            a.result("private/buy", order | {"price": 100 + n})
            # The flow has just started, so the other side may be empty for a moment.
            market = {"instrument_name": "NPN_ZAR", "amount": 3, "type": "market"}
            while not (fills := b.result("private/sell", market)["trades"]):
                time.sleep(0.02)
            run.answered |= {fill["trade_id"] for fill in fills}
        while sum(last_trade(a, name) for name in INSTRUMENTS) < ENOUGH_TRADES:
            time.sleep(0.05)
        assert "error" in a.call("private/buy", order | {"price": 50000, "amount": 100000})
        venue.kill()
    with Venue(run.data, ["--no-flow"]) as venue:
        a, b = Http(venue.address, DEMO_A), Http(venue.address, DEMO_B)
        # Otherwise an auction may end between this read and the end.
        Http(venue.address, OPERATOR).result("private/pitwire_halt", {"instrument_name": "AUC_ZAR"})
        gone = a.result("private/get_open_orders_by_label", {"label": 'l,"3'})[0]["order_id"]
        a.result("private/cancel", {"order_id": gone})
        a.result("private/buy", {"instrument_name": "MTN_ZAR", "amount": 7, "price": 90})
        # Fills against each other or against the flow's orders, depending on the book.
        fills = b.result("private/sell", {"instrument_name": "MTN_ZAR", "amount": 4, "price": 90})["trades"]
        run.answered |= {fill["trade_id"] for fill in fills}
        for name in INSTRUMENTS:
            asked = {"instrument_name": name, "count": 1000, "sorting": "asc", "start_seq": 1}
            run.trades[name] = a.result("public/get_last_trades_by_instrument", asked)["trades"]
            run.books[name] = a.result("public/get_order_book", {"instrument_name": name, "depth": 10000})
        for client in (a, b):
            run.orders += client.result("private/get_open_orders")
            for name in INSTRUMENTS:
                past = {"instrument_name": name, "count": 1000, "include_unfilled": True}
                run.orders += client.result("private/get_order_history_by_instrument", past)
                run.fills += client.result("private/get_user_trades_by_instrument", past)["trades"]
        assert venue.stop() == 0
    yield run


@pytest.fixture(scope="module")
def tables(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("tables") / "csv"
    export(run.data, out)
    return out


def test_trades_equal_those_of_the_api(run: Run, tables: Path) -> None:
    found = {trade["trade_id"]: trade for trades in run.trades.values() for trade in trades}
    exported = {row["TradeId"]: row for row in rows(tables, "trades")}
    assert len(found) >= ENOUGH_TRADES and set(found) <= set(exported)
    for trade_id, trade in found.items():
        row = exported[trade_id]
        assert row["Instrument"] == trade["instrument_name"] and int(row["TradeSeq"]) == trade["trade_seq"]
        assert Decimal(row["Price"]) == Decimal(str(trade["price"]))
        assert Decimal(row["Volume"]) == Decimal(str(trade["amount"]))
        assert row["AggressorSide"].lower() == trade["direction"] and millis(row) == trade["timestamp"]


def test_fills_have_the_side_of_the_api(run: Run, tables: Path) -> None:
    exported = {row["TradeId"]: row for row in rows(tables, "trades")}
    assert len(run.answered) >= 10 and run.answered <= {fill["trade_id"] for fill in run.fills}
    for fill in run.fills:
        column = "OrderId" if fill["liquidity"] == "M" else "AggressorOrderId"
        assert exported[fill["trade_id"]][column] == fill["order_id"]


def test_orders_equal_those_of_the_api(run: Run, tables: Path) -> None:
    exported = {row["OrderId"]: row for row in rows(tables, "orders")}
    assert len(run.orders) >= 22
    for order in run.orders:
        row = exported[order["order_id"]]
        assert row["Outcome"] == "accepted" and row["Instrument"] == order["instrument_name"]
        assert Decimal(row["Volume"]) == Decimal(str(order["amount"])) and row["Label"] == order["label"]
        assert row["Side"].lower() == order["direction"] and row["Type"] == order["order_type"]
        assert millis(row) == order["creation_timestamp"]
        expected = Decimal(0) if order["order_type"] == "market" else Decimal(str(order["price"]))
        assert Decimal(row["Price"]) == expected
    words = {"day", "gtc", "gtd", "gtt", "ioc", "fok", "opg", "gfa", "gfx", "atc", "cpx"}
    assert {row["TimeInForce"] for row in exported.values()} <= words, "the words of scenarios"
    refused = [row for row in exported.values() if row["Outcome"] != "accepted"]
    assert any(row["Outcome"] == "not_enough_funds" and row["Volume"] == "100000.0000" for row in refused)


def test_the_book_is_the_one_the_api_shows(run: Run, tables: Path) -> None:
    shown: Book = {}
    for name, book in run.books.items():
        for side, key in [("Buy", "bids"), ("Sell", "asks")]:
            for price, amount in book[key]:
                shown[name, side, Decimal(str(price))] = Decimal(str(amount))
    book = rows(tables, "book")
    assert len(shown) > 100 and resting(book) == shown == rebuilt(rows(tables, "levels"))
    # Bids, then asks, each from the best price on.
    for name in INSTRUMENTS:
        bids, asks = (
            [Decimal(row["Price"]) for row in book if (row["Instrument"], row["Side"]) == (name, side)]
            for side in ("Buy", "Sell")
        )
        assert bids == sorted(bids, reverse=True) and asks == sorted(asks)
    # The row of an order has its entry time.
    entered = {row["OrderId"]: row for row in rows(tables, "orders")}
    assert all(entered[row["OrderId"]]["TimeNs"] == row["TimeNs"] for row in book)
    assert all(entered[row["OrderId"]]["AccountId"] == row["AccountId"] for row in book)


def test_counts_equal_those_of_verify(run: Run, tables: Path) -> None:
    ended = run_pitwire("verify", run.data, "--json")
    counted = json.loads(ended.stdout)
    events = rows(tables, "events")
    assert len(events) == counted["events"] and len(rows(tables, "trades")) == counted["trades"]
    accepted = [row for row in rows(tables, "orders") if row["Outcome"] == "accepted"]
    assert len(accepted) == counted["orders"] and counted["trades"] >= ENOUGH_TRADES
    # In order, without holes, each a JSON object.
    keys = [(int(row["Seq"]), int(row["Index"])) for row in events]
    assert keys == sorted(keys) and keys[-1][0] == counted["commands"]
    for row in events:
        fields = json.loads(row["Fields"])
        assert isinstance(fields, dict) and re.fullmatch("[a-z_]+", row["Type"])
        assert row["OrderId"] == str(fields.get("order", "")) and row["AccountId"] == str(fields.get("account", ""))


def test_events_alone_give_the_trades(tables: Path) -> None:
    of = {row["SecurityId"]: row for row in rows(tables, "instruments")}
    found = []
    for row in rows(tables, "events"):
        if row["Type"] == "trade":
            fields, spec = json.loads(row["Fields"]), of[row["SecurityId"]]
            price, volume = fields["price"] * Decimal(spec["Tick"]), fields["lots"] * Decimal(spec["Lot"])
            found.append((spec["Name"], str(fields["trade_seq"]), price, volume, str(fields["maker"])))
    exported = [
        (row["Instrument"], row["TradeSeq"], Decimal(row["Price"]), Decimal(row["Volume"]), row["OrderId"])
        for row in rows(tables, "trades")
    ]
    assert found == exported


def test_columns_are_cointossxs_and_then_the_documented_ones(tables: Path) -> None:
    for name in TABLES:
        header = (tables / f"{name}.csv").read_text().split("\n", 1)[0].split(",")
        assert header == [column for column, _ in documented(name)], name
        assert header[: len(COINTOSSX.get(name, []))] == COINTOSSX.get(name, [])


@pytest.mark.parametrize("numbers", ["DOUBLE", "DECIMAL(38,18)"])
def test_parquet_and_csv_have_equal_values(run: Run, tables: Path, tmp_path: Path, numbers: str) -> None:
    options = ["--decimal"] if numbers.startswith("DECIMAL") else []
    report = export(run.data, tmp_path / "p", "--format", "parquet", *options)
    reader = duckdb.connect()
    reader.execute("SET TimeZone = 'UTC'")
    for name in TABLES:
        source = f"read_parquet('{tmp_path}/p/{name}.parquet')"
        kinds = {column: kind for column, kind, *_ in reader.execute(f"DESCRIBE FROM {source}").fetchall()}
        types = PARQUET | {"number": numbers}
        assert kinds == {column: types[kind] for column, kind in documented(name)}
        read = reader.execute(f"SELECT COLUMNS(*)::VARCHAR FROM {source}").fetchall()
        assert len(read) == report["rows"][name] == len(rows(tables, name))
        for found, expected in zip(read, rows(tables, name), strict=True):
            assert [plain(value, kinds[column]) for value, column in zip(found, kinds, strict=True)] == [
                plain(expected[column] or None, kinds[column]) for column in kinds
            ]


def plain(value: str | None, kind: str) -> Any:
    if value is None:
        return None
    if kind.startswith("DECIMAL"):
        return Decimal(value)
    if kind == "DOUBLE":
        return float(value)
    return datetime.fromisoformat(value).replace(tzinfo=UTC) if kind.startswith("TIMESTAMP") else value


def documented(name: str) -> list[tuple[str, str]]:
    """Columns and types as docs/export.md states them."""
    text = (TOP / "docs/export.md").read_text()
    section = text.split(f"\n## {name}\n")[1].split("\n## ")[0]
    return re.findall(r"^\| (\w+) \| (u32|u64|i64|text|bool|number|time) \|", section, re.MULTILINE)


def test_prices_and_amounts_have_exact_integers_beside_them(tables: Path) -> None:
    of = {row["SecurityId"]: row for row in rows(tables, "instruments")}
    for name in ["orders", "trades", "book", "levels", "auctions"]:
        for row in rows(tables, name):
            spec = of[row["SecurityId"]]
            assert Decimal(row["Volume"]) == int(row["VolumeLots"]) * Decimal(spec["Lot"])
            ticks = int(row["PriceTicks"]) if row["PriceTicks"] else 0
            assert Decimal(row["Price"]) == ticks * Decimal(spec["Tick"])


def test_quotes_are_the_best_levels_after_each_command(tables: Path) -> None:
    """The same rows, worked out from the table of levels."""
    books: dict[tuple[str, str], dict[int, int]] = defaultdict(dict)
    by_seq: dict[int, list[Row]] = defaultdict(list)
    for row in rows(tables, "levels"):
        by_seq[int(row["Seq"])].append(row)
    found = {(int(row["Seq"]), row["Instrument"]): row for row in rows(tables, "quotes")}
    newest: dict[str, tuple[str, ...]] = {}
    columns = ["BidPriceTicks", "BidVolumeLots", "AskPriceTicks", "AskVolumeLots"]
    for seq, changes in sorted(by_seq.items()):
        for row in changes:
            books[row["Instrument"], row["Side"]][int(row["PriceTicks"])] = int(row["VolumeLots"])
        for name in {row["Instrument"] for row in changes}:
            best: tuple[str, ...] = ()
            for side, pick in [("Buy", max), ("Sell", min)]:
                levels = {price: lots for price, lots in books[name, side].items() if lots}
                best += (str(pick(levels)), str(levels[pick(levels)])) if levels else ("", "")
            if (seq, name) in found:
                newest[name] = tuple(found[seq, name][column] for column in columns)
            assert newest.get(name, ("",) * 4) == best, (seq, name)
    assert len(found) > len(INSTRUMENTS)


def test_auctions_are_the_uncrosses_with_their_trades(tmp_path: Path) -> None:
    # Three quarters of an hour of the jse day, with the opening auction.
    made = run_pitwire("sim", "--preset", "jse", "--seed", "5", "--horizon", "2700", "--out", tmp_path / "day")
    assert made.returncode == 0, made.stderr
    tables = tmp_path / "tables"
    export(tmp_path / "day", tables)
    uncrossed = {
        (int(row["Seq"]), row["SecurityId"]): json.loads(row["Fields"])
        for row in rows(tables, "events")
        if row["Type"] == "uncrossed"
    }
    auctions = rows(tables, "auctions")
    assert len(auctions) == len(uncrossed) > 0
    trades: dict[tuple[int, str], list[Row]] = defaultdict(list)
    for row in rows(tables, "trades"):
        trades[int(row["Seq"]), row["SecurityId"]].append(row)
    for row in auctions:
        key = (int(row["Seq"]), row["SecurityId"])
        fields, mine = uncrossed[key], trades[key]
        assert (int(row["PriceTicks"]), int(row["VolumeLots"])) == (fields["price"], fields["volume"])
        assert sum(int(trade["VolumeLots"]) for trade in mine) == int(row["VolumeLots"])
        assert len(mine) == int(row["Trades"]) and {trade["PriceTicks"] for trade in mine} <= {row["PriceTicks"]}
        assert row["Auction"] == {"continuous": "batch"}.get(fields["call"], fields["call"])


def test_only_placed_orders_are_counted_and_have_an_event_type(run: Run, tmp_path: Path) -> None:
    report = export(run.data, tmp_path / "out")
    orders = rows(tmp_path / "out", "orders")
    placed = [row for row in orders if row["Outcome"] == "accepted"]
    assert report["orders_placed"] == len(placed) < report["rows"]["orders"] == len(orders)
    assert all(row["EventType"] == "" for row in orders if row["Outcome"] != "accepted")
    takers = {row["AggressorOrderId"] for row in rows(tmp_path / "out", "trades")}
    types: dict[str, int] = defaultdict(int)
    for row in placed:
        types[row["EventType"]] += 1
        if row["EventType"].startswith("market"):
            assert row["OrderId"] in takers and row["EventType"].split("_")[1] == row["Side"].lower()
    kinds = {
        f"{kind}_{side}_{what}"
        for side in ("buy", "sell")
        for kind, what in [
            ("market", "empties_touch"),
            ("market", "leaves_touch"),
            ("limit", "inside_spread"),
            ("limit", "behind_touch"),
        ]
    }
    assert set(types) - {""} == kinds


def test_orders_have_the_words_of_scenarios(tmp_path: Path) -> None:
    """Every order type, and each time in force that carries a date or a time."""
    expected: dict[str, tuple[str, str]] = {}
    with Venue(tmp_path / "data", ["--no-flow", "--clock", "manual"]) as venue:
        client = Http(venue.address, DEMO_A)
        now_ns = int(client.result("private/pitwire_advance", {"ns": 0})["venue_time_ns"])
        tomorrow = datetime.fromtimestamp(now_ns // 10**9 + 86_400, UTC).strftime("%Y-%m-%d")
        order = {"instrument_name": "NPN_ZAR", "amount": 20, "price": 3200}
        stop = {"trigger": "last_price", "trigger_price": 3300}
        for more, words in [
            ({"time_in_force": "good_til_day"}, ("limit", "day")),
            ({"display_amount": 5}, ("iceberg", "gtc")),
            ({"hidden": True}, ("hidden", "gtc")),
            ({"type": "stop_limit", "price": 3310} | stop, ("stop_limit", "gtc")),
            ({"tif_ext": "gtt", "expires_at": now_ns // 1_000_000 + 1_000}, ("limit", "gtt")),
            ({"tif_ext": "gtd", "expires_at": tomorrow}, ("limit", "gtd")),
        ]:
            entered = client.result("private/buy", order | more)["order"]
            expected[entered["order_id"]] = words
        del order["price"]
        entered = client.result("private/buy", order | {"type": "stop_market"} | stop)["order"]
        expected[entered["order_id"]] = ("stop", "gtc")
        assert venue.stop() == 0
    export(tmp_path / "data", tmp_path / "out")
    assert {row["OrderId"]: (row["Type"], row["TimeInForce"]) for row in rows(tmp_path / "out", "orders")} == expected
    # Text of the program, such as `GoodTillTime { at: .. }`, has braces and names of types.
    text = (tmp_path / "out/orders.csv").read_text()
    assert "{" not in text and "good_till" not in text.lower() and "GoodTill" not in text


@pytest.mark.parametrize("library", ["pandas", "Polars", "DuckDB"])
def test_the_lines_for_notebooks_run(run: Run, tmp_path: Path, library: str) -> None:
    export(run.data, tmp_path / "tables", "--format", "parquet")
    text = (TOP / "docs/export.md").read_text()
    lines = text.split(f"\n{library}")[1].split("```python\n")[1].split("```")[0]
    ended = subprocess.run([sys.executable, "-c", lines], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0 and ended.stdout.strip(), ended.stderr


def test_the_lines_for_r_run(run: Run, tmp_path: Path) -> None:
    if shutil.which("Rscript") is None:
        pytest.skip("R is missing; scripts/with r installs it")
    export(run.data, tmp_path / "tables")
    lines = (TOP / "docs/export.md").read_text().split("```r\n")[1].split("```")[0]
    ended = subprocess.run(["Rscript", "-e", lines], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    assert "limit_buy_inside_spread" in ended.stdout and "NPN_ZAR" in ended.stdout, ended.stdout


def test_a_column_of_prices_can_be_plotted(run: Run, tmp_path: Path) -> None:
    export(run.data, tmp_path / "p", "--format", "parquet")
    for table, column in [("trades", "Price"), ("quotes", "BidPrice"), ("levels", "Volume")]:
        path = tmp_path / "p" / f"{table}.parquet"
        assert pd.read_parquet(path)[column].dtype == "float64"
        assert pl.read_parquet(path)[column].dtype == pl.Float64


def test_parts_by_time_make_the_whole(run: Run, tables: Path, tmp_path: Path) -> None:
    trades = rows(tables, "trades")
    middle = trades[len(trades) // 2]
    cut = int(middle["TimeNs"])
    at = datetime.fromtimestamp(cut // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%S") + f".{cut % 10**9:09}Z"
    before, after = tmp_path / "before", tmp_path / "after"
    first = export(run.data, before, "--to", str(cut))
    second = export(run.data, after, "--from", at)
    assert first["last_command"] + 1 == second["first_command"]
    for name in ["orders", "trades", "events"]:
        parts = rows(before, name) + rows(after, name)
        assert parts == rows(tables, name) and rows(before, name) and rows(after, name)
    # The second part starts with the book at the end of the first.
    opening = rows(after, "levels")
    changes = [row for row in rows(tables, "levels") if int(row["TimeNs"]) >= cut]
    assert opening[len(opening) - len(changes) :] == changes
    start = rebuilt(opening[: len(opening) - len(changes)])
    assert start == resting(rows(before, "book")) == rebuilt(rows(tables, "levels"), second["first_command"])
    assert rebuilt(opening) == resting(rows(after, "book")) == resting(rows(tables, "book"))


def test_a_range_without_commands_is_empty_but_whole(run: Run, tables: Path, tmp_path: Path) -> None:
    export(run.data, tmp_path / "early", "--to", "1970-01-02T00:00:00Z")
    assert rows(tmp_path / "early", "events") == [] and rows(tmp_path / "early", "book") == []
    export(run.data, tmp_path / "late", "--from", "2200-01-01T00:00:00Z")
    assert rows(tmp_path / "late", "events") == []
    assert rebuilt(rows(tmp_path / "late", "levels")) == resting(rows(tables, "book"))


def test_a_running_venue_is_exported_as_far_as_it_is_durable(tmp_path: Path) -> None:
    with Venue(tmp_path / "data", ["--seed", "3", "--speed", "4"]) as venue:
        client = Http(venue.address, DEMO_A)
        order = client.result("private/buy", {"instrument_name": "BTC_USDC", "amount": 1, "price": 7})["order"]
        for n in range(5):
            assert run_pitwire("verify", venue.data).returncode == 0, "a group that is half written is no damage"
            export(venue.data, tmp_path / f"t{n}")
            assert order["order_id"] in {row["OrderId"] for row in rows(tmp_path / f"t{n}", "orders")}
        assert venue.stop() == 0
    export(tmp_path / "data", tmp_path / "whole")
    whole = rows(tmp_path / "whole", "events")
    part = rows(tmp_path / "t4", "events")
    assert part and part == whole[: len(part)]


# Errors


def refused(code: int, *args: str | Path) -> str:
    ended = run_pitwire("export", *args)
    assert ended.returncode == code, ended.stderr
    assert ended.stdout == "" and ended.stderr.count("\n") == 1 and "panicked" not in ended.stderr
    return ended.stderr


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--from", "yesterday"], "yesterday"),
        (["--to", "2026-01-05"], "2026-01-05T09:00:00Z"),
        (["--format", "xml"], "xml"),
        (["--from", "5", "--to", "5"], "--from"),
    ],
)
def test_wrong_use_is_refused_before_anything_is_read(options: list[str], word: str, tmp_path: Path) -> None:
    assert word in refused(2, tmp_path / "nowhere", "--out", tmp_path / "out", *options)


def test_existing_files_are_not_overwritten(run: Run, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    export(run.data, tmp_path / "mine", "--to", "1")
    before = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "mine").iterdir()}
    assert "not empty" in refused(1, run.data, "--out", tmp_path / "mine")
    assert {path.name: path.stat().st_mtime_ns for path in (tmp_path / "mine").iterdir()} == before
    (tmp_path / "file").write_text("mine")
    assert "--out" in refused(1, run.data, "--out", tmp_path / "file")
    assert oct((tmp_path / "mine").stat().st_mode & 0o777) == "0o700"


def test_directory_without_a_journal_is_refused_by_name(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert "nowhere" in refused(1, tmp_path / "nowhere", "--out", out)
    (tmp_path / "empty").mkdir()
    assert "no journal" in refused(1, tmp_path / "empty", "--out", out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty"]


def test_a_damaged_journal_leaves_nothing_behind(run: Run, tmp_path: Path) -> None:
    damaged = tmp_path / "data"
    for damage in ["flip", "cut"]:
        shutil.rmtree(damaged, ignore_errors=True)
        shutil.copytree(run.data, damaged)
        for snapshot in damaged.glob("snapshot-*"):
            snapshot.unlink()
        segment = sorted(damaged.glob("journal-*.seg"))[0]
        whole = segment.read_bytes()
        middle = len(whole.rstrip(b"\0")) // 2
        segment.write_bytes(
            whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :] if damage == "flip" else whole[:middle]
        )
        assert segment.name in refused(1, damaged, "--out", tmp_path / "out")
        assert sorted(path.name for path in tmp_path.iterdir()) == ["data"], "no tables, and nothing unfinished"


def test_a_place_that_cannot_be_written_is_named(run: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    assert "--out" in refused(1, run.data, "--out", tmp_path / "file/out")
    assert "/dev/full" not in refused(1, run.data, "--out", Path("/proc/nowhere/out"))
