"""The Python package: a market in the process.

`scripts/build-python` builds and installs it; without it this file is skipped.
"""

import ast
import contextlib
import inspect
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from venue import TOP, run_pitwire

pitwire = pytest.importorskip("pitwire", reason="run scripts/build-python")
from pitwire import Venue, errors  # noqa: E402 (after the check that the package is installed)

SECOND_NS = 10**9
PATIENCE_S = 60.0


def simulate(*arguments: str) -> Any:
    """The result of `pitwire sim`."""
    done = run_pitwire("sim", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def quiet(**arguments: Any) -> tuple[Venue, int, int]:
    """A market without flow, one account, and a price in ticks."""
    venue = Venue("demo", 7, flow=None, **arguments)
    account = venue.add_account("member", unlimited=True)
    return venue, account, venue.instruments["BTC_USDC"].start_price_ticks


def run_python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize(("preset", "flow"), [("demo", "demo"), ("jse", "demo"), ("demo", "paper")])
def test_a_venue_has_the_tape_of_a_simulation_with_its_seed(preset: str, flow: str) -> None:
    common = ["--preset", preset, "--flow", flow, "--seed", "7"]
    by_time = simulate(*common, "--horizon", "5")
    with Venue(preset, 7, flow=flow) as venue:
        for part_ns in [1, 2 * SECOND_NS, 3 * SECOND_NS - 1]:
            venue.advance(part_ns)
        assert venue.tape_hash == by_time["tape_hash"]
    by_count = simulate(*common, "--events", "3000")
    with Venue(preset, 7, flow=flow) as venue:
        venue.advance(flow_commands=3000)
        assert venue.tape_hash == by_count["tape_hash"]


def test_equal_calls_give_equal_tapes_and_own_orders_change_them() -> None:
    def run(price_offset: int) -> str | None:
        venue = Venue("crypto24x7", 3)
        venue.advance(SECOND_NS)
        price = venue.touch("BTC_USDC")[0] - price_offset
        venue.submit("BTC_USDC", "buy", 5, price, account=venue.add_account("x", unlimited=True))
        venue.advance(SECOND_NS)
        return venue.tape_hash

    assert run(1) == run(1) != run(2)


def test_orders_are_entered_amended_and_cancelled() -> None:
    venue, member, price = quiet()
    other = venue.add_account("other", unlimited=True)
    first = venue.submit("BTC_USDC", "sell", 10, price, account=other)
    second = venue.submit("BTC_USDC", -1, 10, price + 2, account=member)
    assert (first.accepted, first.open_lots, first.order_id) == (True, 10, venue.sequence - 1)
    behind = venue.submit("BTC_USDC", "sell", 3, price, account=other)
    assert venue.queue_ahead_lots(behind.order_id) == 10

    bought = venue.submit("BTC_USDC", "buy", 15, price + 2, account="member", tif="ioc")
    # The own order at price + 2 is cancelled by self-match prevention.
    assert (bought.filled_lots, bought.mean_price_ticks, bought.open_lots) == (13, float(price), 0)
    assert venue.orders(member) == [] and venue.cancel(second.order_id).reason == "unknown_order"
    assert venue.last_price_ticks("BTC_USDC") == price
    assert venue.balance(member, "BTC").total == venue.instruments["BTC_USDC"].amount(13)
    assert venue.balance(member, "USDC").total == -venue.instruments["BTC_USDC"].price(price) * Decimal("0.0013")

    resting = venue.submit("BTC_USDC", "buy", 8, price - 1, account=member)
    assert venue.amend(resting.order_id, lots=5).open_lots == 5
    assert venue.amend(resting.order_id, price_ticks=price - 3).accepted
    order_id = resting.order_id
    assert venue.orders(member) == [pitwire.OpenOrder(order_id, "BTC_USDC", 1, price - 3, 5)]
    assert venue.cancel(order_id, account=other).reason == "not_owner"
    assert venue.cancel(order_id).accepted and venue.amend(order_id, lots=1).reason == "unknown_order"
    iceberg = venue.submit("BTC_USDC", "sell", 100, price, account=member, display_lots=10)
    assert venue.touch("BTC_USDC") == (0, 0, price, 10) and venue.cancel_all(member) == 1
    assert not venue.submit("BTC_USDC", "buy", 1, account=member, tif="fok").filled_lots
    assert iceberg.open_lots == 100
    poor = venue.add_account("poor", balances={"USDC": "1.5"})
    assert venue.balance(poor, "USDC") == (Decimal("1.5"), Decimal("1.5"))
    assert venue.submit("BTC_USDC", "buy", 1, price, account=poor).reason == "not_enough_funds"


def test_level_events_rebuild_the_book() -> None:
    venue = Venue("demo", 11)
    venue.advance(2 * SECOND_NS)
    levels = venue.events().of_kind("level")
    for instrument in venue.instruments.values():
        sides: dict[int, dict[int, int]] = {1: {}, -1: {}}
        chosen = levels["instrument"] == instrument.id
        for side, price, lots in zip(*(levels[name][chosen] for name in ("side", "price_ticks", "lots")), strict=True):
            sides[int(side)][int(price)] = int(lots)
        book = venue.book(instrument.name)
        for side, rows in ((1, book.bids), (-1, book.asks)):
            left = sorted(((price, lots) for price, lots in sides[side].items() if lots), reverse=side == 1)
            assert rows.tolist() == [list(level) for level in left], instrument.name
    assert venue.book("BTC_USDC", 2).bids.shape == (2, 2) and venue.book(0, 0).asks.shape == (0, 2)
    assert len(venue.events()) == 0


def test_event_frames_share_the_memory_of_the_arrays() -> None:
    venue = Venue("demo", 7)
    venue.advance(flow_commands=4000)
    events = venue.events()
    trades = events.of_kind("trade")
    assert simulate("--seed", "7", "--events", "4000")["trades"] == len(trades) > 0

    batch = events.to_arrow()
    for name in ("sequence", "price_ticks", "lots"):
        column: np.ndarray = events[name]
        assert batch.column(name).buffers()[1].address == column.ctypes.data
        frame = events.to_pandas()[name].to_numpy()
        assert np.shares_memory(frame, column) and events.to_polars()[name].to_numpy().ctypes.data == column.ctypes.data
    assert pa.record_batch(events).equals(batch)
    assert set(batch.column("kind").to_pylist()) >= {"accepted", "trade", "level", "cancelled"}
    in_pandas, in_polars = events.to_pandas(), events.to_polars()
    assert isinstance(in_pandas, pd.DataFrame) and isinstance(in_polars, pl.DataFrame)
    assert in_polars.filter(pl.col("kind") == "trade")["lots"].sum() == int(trades["lots"].sum())
    assert int(in_pandas[in_pandas["kind"] == "trade"]["lots"].sum()) == int(trades["lots"].sum())
    assert (in_pandas[in_pandas["kind"] == "cancelled"]["reason"] == "requested").any()


def test_a_batch_equals_the_same_calls_one_by_one() -> None:
    random = np.random.default_rng(5)
    rows = 2000
    side = random.choice([1, -1], rows)
    lots = random.integers(1, 50, rows)
    distance = random.integers(-2, 9, rows)
    tapes = []
    for as_batch in (True, False):
        venue, member, start = quiet()
        other = venue.add_account("other", unlimited=True)
        account = np.where(np.arange(rows) % 3, member, other)
        price = start - side * distance
        # Every fifth row cancels the order of the row before, and every seventh is a market order.
        action = (np.arange(rows) % 5 == 4).astype(np.int64)
        order_id = np.where(action == 1, venue.sequence + np.arange(rows), 0)
        account[action == 1] = account[np.flatnonzero(action == 1) - 1]
        price[np.arange(rows) % 7 == 6] = 0
        if as_batch:
            done = venue.submit_batch(7, side, lots, price, account=account, action=action, order_id=order_id)
            results = list(zip(done.reasons(), done.filled_lots.tolist(), done.open_lots.tolist(), strict=True))
        else:
            results = []
            for k in range(rows):
                if action[k]:
                    one = venue.cancel(order_id[k], account=account[k])
                else:
                    one = venue.submit(7, side[k], lots[k], price[k] or None, account=account[k])
                results.append((one.reason or "", one.filled_lots, one.open_lots))
        tapes.append((venue.tape_hash, results))
    assert tapes[0] == tapes[1]
    assert sum(filled for _, filled, _ in tapes[0][1]) > 0


NUMBERS = [float("nan"), float("inf"), -float("inf"), 1.5, 2.0, -1, "7", None, 2**70, np.float64(3), b"1", [1]]


@pytest.mark.parametrize("value", NUMBERS, ids=repr)
def test_a_wrong_number_is_refused_and_changes_nothing(value: Any) -> None:
    venue, member, price = quiet()
    before = venue.sequence
    calls = {
        "lots": lambda: venue.submit("BTC_USDC", "buy", value, price, account=member),
        "stop_ticks": lambda: venue.submit("BTC_USDC", "buy", 1, price, stop_ticks=value),
        "order_id": lambda: venue.cancel(value),
        "ns": lambda: venue.advance(value),
    }
    for name, call in calls.items():
        if value is None and name in ("stop_ticks", "ns"):
            continue
        with pytest.raises(errors.InvalidValue) as raised:
            call()
        assert name in raised.value.what and raised.value.remedy
    assert venue.sequence == before


def test_wrong_words_and_names_are_refused() -> None:
    venue, member, price = quiet()
    before = venue.sequence
    wrong: list[tuple[type[Exception], dict[str, Any]]] = [
        (errors.UnknownName, {"instrument": "NONE"}),
        (errors.UnknownName, {"instrument": 99}),
        (errors.UnknownName, {"instrument": 1.5}),
        (errors.UnknownName, {"account": "unknown"}),
        (errors.InvalidValue, {"side": "up"}),
        (errors.InvalidValue, {"side": 2}),
        (errors.InvalidValue, {"side": float("nan")}),
        (errors.InvalidValue, {"tif": "soon"}),
        (errors.InvalidValue, {"tif": "gtt"}),
        (errors.InvalidValue, {"post_only": "yes"}),
        (errors.InvalidValue, {"label": "x" * 65}),
        (errors.InvalidValue, {"label": "\ud800"}),
        (errors.InvalidValue, {"label": 3}),
        (errors.InvalidValue, {"side": "\ud800"}),
        (errors.UnknownName, {"instrument": "\ud800"}),
        (errors.InvalidValue, {"tif": 3}),
        (errors.InvalidValue, {"post_only": True}),
        (errors.InvalidValue, {"hidden": "yes"}),
        (errors.InvalidValue, {"reduce_only": 1.0}),
        (errors.InvalidValue, {"min_execution_lots": 1}),
        (errors.InvalidValue, {"hidden": True, "price_ticks": None}),
    ]
    for error, change in wrong:
        with pytest.raises(error) as raised:
            arguments = {"instrument": "BTC_USDC", "side": "buy", "lots": 1, "price_ticks": price, "account": member}
            venue.submit(**(arguments | change))
        assert isinstance(raised.value, errors.PitwireError) and raised.value.remedy
    nan = float("nan")
    wrong_venues: list[dict[str, Any]] = [
        {"preset": "none"},
        {"preset": 3},
        {"preset": "\ud800"},
        {"flow": "none"},
        {"flow": 3},
        {"flow": Path("no-such.toml")},
        {"seed": -1},
        {"seed": nan},
        {"data": 3},
        {"record": "no"},
        {"tape_hash": nan},
    ]
    for arguments in wrong_venues:
        with pytest.raises(errors.InvalidValue) as refused:
            Venue(**arguments)
        assert next(iter(arguments)) in refused.value.what and refused.value.remedy
    for call in (
        lambda: venue.advance(),
        lambda: venue.advance(1, flow_commands=1),
        lambda: venue.advance(flow_commands=1),
    ):
        with pytest.raises(errors.InvalidValue):
            call()
    with pytest.raises(errors.UnknownName):
        venue.balance(member, "NONE")
    for name in ("member", "", 3, "\ud800"):
        with pytest.raises(errors.InvalidValue):
            venue.add_account(name)
    for name in (None, nan, 1.0, np.array([1, 2])):
        with pytest.raises(errors.UnknownName):
            venue.instrument(name)
    for amount in (nan, "1e60", "-1e999999", "0.0000001", None, "999999999999999999999999999999"):
        with pytest.raises(errors.InvalidValue, match="amount"):
            venue.deposit(member, "USDC", amount)
    # More digits than a context of `decimal` has.
    venue.deposit(member, "USDC", "123456789012345678901234.567891")
    assert venue.balance(member, "USDC").total == Decimal("123456789012345678901234.567891")
    bitcoin = venue.instruments["BTC_USDC"]
    assert (bitcoin.ticks(60_000.5), bitcoin.lots("0.0003"), bitcoin.price(120_001)) == (120_001, 3, Decimal("60000.5"))
    for price_of_units in (nan, float("inf"), 60_000.3, "much", 1e300, "1e999999", None):
        with pytest.raises(errors.InvalidValue):
            bitcoin.ticks(price_of_units)
    for ticks in (nan, 1.5, 2.0, "3", None):
        with pytest.raises(errors.InvalidValue):
            bitcoin.price(ticks)
        with pytest.raises(errors.InvalidValue):
            bitcoin.amount(ticks)
    events = venue.events()
    for unknown in (lambda: events.of_kind("none"), lambda: events["none"]):
        with pytest.raises(errors.UnknownName):
            unknown()
    # Two refused accounts and a deposit are the only commands.
    assert venue.sequence == before + 3


@pytest.mark.parametrize(
    ("error", "change"),
    [
        (errors.InvalidValue, {"price_ticks": np.array([1.0, np.nan])}),
        (errors.InvalidValue, {"lots": np.array([1.0, np.inf])}),
        (errors.InvalidArray, {"price_ticks": np.array([1.0, 2.0])}),
        (errors.InvalidArray, {"lots": np.array([True, False])}),
        (errors.InvalidArray, {"lots": np.array(["1", "2"])}),
        (errors.InvalidArray, {"lots": np.array([1, None])}),
        (errors.InvalidArray, {"lots": np.array([1 + 0j])}),
        (errors.InvalidArray, {"lots": np.ones((2, 2), dtype=np.int64)}),
        (errors.InvalidArray, {"lots": [1, [2, 3]]}),
        (errors.InvalidArray, {"lots": np.ma.masked_array([1, 2], [False, True])}),
        (errors.InvalidValue, {"tif": 3}),
        (errors.InvalidValue, {"tif": "soon"}),
        (errors.InvalidValue, {"lots": np.array([1, 2, 3]), "side": np.array([1, -1])}),
        (errors.InvalidValue, {"lots": np.array([1, -1])}),
        (errors.InvalidValue, {"lots": np.array([1, 2**63], dtype=np.uint64)}),
        (errors.InvalidValue, {"side": np.array([1, 2])}),
        (errors.InvalidValue, {"side": np.array([1, 0])}),
        (errors.InvalidValue, {"instrument": np.array([0, 99])}),
        (errors.InvalidValue, {"account": np.array([0, 9999])}),
        (errors.InvalidValue, {"action": np.array([0, 3])}),
    ],
)
def test_a_wrong_array_is_refused_before_the_first_row(error: type[Exception], change: dict[str, Any]) -> None:
    venue, member, price = quiet()
    before = venue.sequence
    with pytest.raises(error) as raised:
        arguments = {"instrument": 7, "side": 1, "lots": 1, "price_ticks": price, "account": member}
        venue.submit_batch(**(arguments | change))
    assert isinstance(raised.value, errors.PitwireError) and raised.value.remedy
    assert venue.sequence == before


def test_arrays_of_other_layouts_and_lengths_are_accepted() -> None:
    venue, member, price = quiet()
    spread = np.arange(20, dtype=np.int32)[::2]
    done = venue.submit_batch(7, 1, np.uint8(3), price - spread, account=member)
    assert done.accepted.all() and len(venue.orders(member)) == 10
    for no_lots in (np.array([], dtype=np.int64), []):
        assert len(venue.submit_batch(7, 1, no_lots, price, account=member).order_id) == 0


def test_help_prints_what_the_stubs_state() -> None:
    stubs = ast.parse((TOP / "clients/python/pitwire/_native.pyi").read_text())
    checked = 0
    for stub in stubs.body:
        for item in stub.body if isinstance(stub, ast.ClassDef) and stub.name in ("Market", "Outcome") else []:
            if isinstance(item, ast.FunctionDef) and item.name != "__new__" and not item.name.startswith("_"):
                native = getattr(getattr(pitwire._native, stub.name), item.name)
                assert inspect.getdoc(native) == ast.get_docstring(item), item.name
                checked += 1
    assert checked >= 20
    for name, member in inspect.getmembers(Venue):
        assert name.startswith("_") or inspect.getdoc(member), name


def test_a_closed_venue_refuses_every_call() -> None:
    venue = Venue("demo", 7)
    assert venue.is_open
    venue.close()
    venue.close()
    assert not venue.is_open
    for call in (
        lambda: venue.submit("BTC_USDC", "buy", 1),
        lambda: venue.submit_batch(0, 1, 1, 1),
        lambda: venue.amend(1, lots=1),
        lambda: venue.cancel(1),
        lambda: venue.cancel_all(0),
        lambda: venue.advance(1),
        lambda: venue.advance(flow_commands=1),
        lambda: venue.book(0),
        lambda: venue.touch(0),
        lambda: venue.last_price_ticks(0),
        lambda: venue.session(0),
        lambda: venue.queue_ahead_lots(1),
        lambda: venue.position_lots(0, 0),
        lambda: venue.orders(0),
        lambda: venue.balance(0, "BTC"),
        lambda: venue.deposit(0, "BTC", 1),
        lambda: venue.add_account("late"),
        lambda: venue.events(),
        lambda: venue.accounts,
        lambda: venue.time_ns,
        lambda: venue.sequence,
        lambda: venue.tape_hash,
    ):
        with pytest.raises(errors.VenueClosed) as raised:
            call()
        assert raised.value.remedy


def test_a_venue_in_the_process_opens_no_socket() -> None:
    program = """
import os, pitwire

def sockets():
    links = set()
    for descriptor in os.listdir("/proc/self/fd"):
        try:
            links.add(os.readlink(f"/proc/self/fd/{descriptor}"))
        except FileNotFoundError:  # that of the listing
            pass
    return {link for link in links if link.startswith("socket:")}

before = sockets()
venue = pitwire.Venue("demo", 7)
venue.advance(10**9)
assert len(venue.events()) > 0 and sockets() <= before, sockets()
"""
    done = run_python(program)
    assert done.returncode == 0, done.stderr


def test_a_full_event_buffer_refuses_commands_until_it_is_taken() -> None:
    venue = Venue("demo", 7, max_events=1000)
    with pytest.raises(errors.EventBufferFull):
        venue.advance(SECOND_NS)
    before = venue.sequence
    with pytest.raises(errors.EventBufferFull):
        venue.submit("BTC_USDC", "buy", 1)
    assert venue.sequence == before and 1000 <= len(venue.events()) < 2000
    venue.submit("BTC_USDC", "buy", 1)
    with pytest.raises(errors.InvalidValue):
        Venue("demo", 7, record=False).events()


def test_a_data_directory_has_one_owner_and_one_run(data: Path) -> None:
    venue = Venue("demo", 7, data=data)
    with pytest.raises(errors.DataDirectoryError) as raised:
        Venue("demo", 7, data=data)
    assert raised.value.remedy
    venue.advance(SECOND_NS)
    venue.submit("BTC_USDC", "buy", 1, venue.touch("BTC_USDC")[0])
    tape = venue.tape_hash
    venue.close()
    with pytest.raises(errors.DataDirectoryError, match="holds a run already"):
        Venue("demo", 7, data=data)
    verified = run_pitwire("verify", data, "--json")
    assert verified.returncode == 0 and json.loads(verified.stdout)["tape_hash"] == tape, verified.stderr
    with pytest.raises(errors.DataDirectoryError):
        Venue("demo", 7, data=Path("/proc/none"))


def test_control_c_ends_a_long_call_between_two_commands() -> None:
    program = """
import pitwire, sys
venue = pitwire.Venue("demo", 7, record=False)
print("ready", flush=True)
try:
    venue.advance(10**17)
except pitwire.Interrupted as interrupted:
    assert isinstance(interrupted, KeyboardInterrupt) and interrupted.remedy
    before = venue.sequence
    venue.advance(10**9)
    sys.exit(0 if venue.sequence > before > 0 else 3)
"""
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        # A signal between the line and the call ends the process by a plain KeyboardInterrupt, so
        # wait for the call.
        deadline = time.monotonic() + PATIENCE_S
        used = Path(f"/proc/{process.pid}/stat")
        first = used.read_text().split()[13]
        while int(used.read_text().split()[13]) < int(first) + 20:
            assert time.monotonic() < deadline
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()


def test_control_c_ends_a_batch_between_two_rows() -> None:
    program = """
import os, signal, sys, threading
import numpy as np, pitwire
venue = pitwire.Venue("demo", 7, flow=None, record=False)
account = venue.add_account("member", unlimited=True)
bitcoin = venue.instruments["BTC_USDC"]

def interrupt():
    while True:
        try:
            venue.touch("BTC_USDC")
        except pitwire.errors.VenueBusy:
            os.kill(os.getpid(), signal.SIGINT)
            return

threading.Thread(target=interrupt, daemon=True).start()
rows, before = np.arange(1_000_000), venue.sequence
try:
    venue.submit_batch(bitcoin.id, 1, 1, bitcoin.start_price_ticks - 1 - rows % 50, account=account)
except pitwire.Interrupted as interrupted:
    done = venue.sequence - before
    assert interrupted.remedy and 0 < done < len(rows), done
    assert f"after {done} of {len(rows)} rows" in interrupted.what, interrupted.what
    assert venue.submit(bitcoin.id, "buy", 1, bitcoin.start_price_ticks - 1, account=account).accepted
    sys.exit(0)
sys.exit("the batch was not interrupted")
"""
    done = run_python(program)
    assert done.returncode == 0, done.stderr


def test_a_forked_process_cannot_use_the_venue() -> None:
    program = """
import os, sys, pitwire
venue = pitwire.Venue("demo", 7)
child = os.fork()
if child == 0:
    try:
        venue.advance(1)
    except pitwire.errors.VenueForked as forked:
        os._exit(0 if forked.remedy else 4)
    os._exit(3)
status = os.waitpid(child, 0)[1]
venue.advance(1)
sys.exit(os.waitstatus_to_exitcode(status))
"""
    done = run_python(program)
    assert done.returncode == 0, done.stderr


def expect_busy(work: Callable[[], object], call: Callable[[], object]) -> None:
    """Repeats `work` in a second thread until `call` is refused because of it."""
    stop = threading.Event()

    def repeat() -> None:
        while not stop.is_set():
            with contextlib.suppress(errors.VenueBusy):
                work()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            assert time.monotonic() < deadline
            try:
                call()
            except errors.VenueBusy as busy:
                assert busy.remedy
                break
    finally:
        stop.set()
        thread.join()


def test_a_second_thread_is_refused_while_one_uses_the_venue() -> None:
    venue = Venue("demo", 7, record=False)
    expect_busy(lambda: venue.advance(flow_commands=5000), lambda: venue.touch("BTC_USDC"))
    assert venue.touch("BTC_USDC")[0] > 0


def test_a_wrong_flow_file_is_refused_with_its_reason(tmp_path: Path) -> None:
    correct = """
[[flow]]
lifetime_s = 60.0
[[flow.type]]
name = "rest"
base_per_s = 1.0
order = "join"
[[flow.kernel]]
jump_per_s = [[0.5]]
decay_per_s = 1.0
"""
    path = tmp_path / "flow.toml"
    path.write_text(correct)
    Venue("demo", 7, flow=path).close()
    for old, new, reason in [
        ("lifetime_s", "lifetime_ms", "lifetime_ms"),
        ("base_per_s = 1.0", "base_per_minute = 60.0", "base_per_minute"),
        ("base_per_s = 1.0", "base_per_s = nan", "NaN"),
        ("base_per_s = 1.0", "base_per_s = inf", "inf"),
        ("base_per_s = 1.0", 'base_per_s = "1.0"', "line 6: invalid type"),
        ("[[0.5]]", "[[1.0]]", "spectral radius 1.000"),
        ("[[0.5]]", "[[0.5, 0.1]]", "jump_per_s"),
        ('"join"', '"jump"', "jump"),
    ]:
        assert old in correct
        path.write_text(correct.replace(old, new))
        with pytest.raises(errors.PitwireError) as raised:
            Venue("demo", 7, flow=str(path))
        assert reason in raised.value.what and raised.value.remedy, raised.value
    with pytest.raises(errors.InvalidValue):
        Venue("demo", 7, flow=str(tmp_path / "absent.toml"))


def test_the_programs_of_the_documentation_run() -> None:
    text = (TOP / "docs/python.md").read_text()
    blocks = [block.split("```")[0] for block in text.split("```python\n")[1:]]
    # A running venue is in tests/test_python_connected.py.
    programs = [block for block in blocks if "Venue.connect" not in block]
    assert len(programs) >= 4
    for program in programs:
        done = run_python(program)
        assert done.returncode == 0, f"{program}\n{done.stderr}"


def test_the_zero_intelligence_example_shows_its_result() -> None:
    program = TOP / "clients/python/examples/zero_intelligence.py"
    environment = os.environ | {"PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, program, "--orders", "20000"], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["trades"] > 1000 and result["mean_spread_ticks"] >= 1
    # The bounce of trades between bid and ask: Roll (1984).
    assert result["trade_price_autocorrelation"] + result["trade_price_autocorrelation_±"] < -0.1
    assert 0 < result["mean_spread_ticks_±"] < result["mean_spread_ticks"]
