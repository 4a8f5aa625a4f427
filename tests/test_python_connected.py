"""The Python package connected to a running venue: the same calls as in the process."""

import signal
import socket
import subprocess
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from rpc import Http
from test_python import PATIENCE_S, expect_busy, run_python
from venue import DEMO_A, DEMO_B, TOP, Venue

pitwire = pytest.importorskip("pitwire", reason="run scripts/build-python")
from pitwire import errors  # noqa: E402 (after the check that the package is installed)

SECOND_NS = 10**9


def connect(running: Venue) -> Any:
    return pitwire.Venue.connect(running.ws_url, DEMO_A.client_id, DEMO_A.secret)


def script(venue: Any, own: str, other: Any) -> list[object]:
    """Calls that both kinds of venue have, and their results without ids and times. `other` is a
    function that enters an order of another member."""
    bitcoin = venue.instrument("BTC_USDC")
    price = bitcoin.ticks(60_000)
    results: list[object] = [bitcoin.tick, bitcoin.lot, bitcoin.base, bitcoin.quote, bitcoin.kind]

    def note(outcome: Any) -> Any:
        results.append((outcome.accepted, outcome.filled_lots, outcome.open_lots, outcome.mean_price_ticks))
        return outcome

    other("sell", 10, price)
    other("sell", 20, price + 3)
    note(venue.submit("BTC_USDC", "buy", 15, price + 3, account=own))
    resting = note(venue.submit("BTC_USDC", 1, 8, price - 1))
    note(venue.amend(resting.order_id, lots=5))
    note(venue.amend(resting.order_id, price_ticks=price - 4))
    assert venue.advance(SECOND_NS) >= 0
    results.append([order[1:] for order in venue.orders(own)])
    book = venue.book("BTC_USDC", 3)
    results += [book.bids.tolist(), book.asks.tolist(), venue.touch("BTC_USDC"), venue.last_price_ticks("BTC_USDC")]
    note(venue.submit("BTC_USDC", "buy", 1, price + 3, post_only="reject"))
    note(venue.submit("BTC_USDC", "sell", 4, tif="ioc"))
    note(venue.cancel(resting.order_id))
    refused = venue.cancel(resting.order_id)
    results.append(refused.accepted)
    done = venue.submit_batch(bitcoin.id, [1, -1, 1], [3, 3, 2], [price - 2, price + 9, price + 3])
    results += [done.filled_lots.tolist(), done.open_lots.tolist(), done.accepted.tolist()]
    gone = venue.submit_batch(bitcoin.id, action=1, order_id=done.order_id)
    results.append(gone.accepted.tolist())
    results += [venue.session("BTC_USDC"), venue.cancel_all(own), venue.balance(own, "BTC").total]
    events = venue.events().of_kind("accepted", "trade", "amended", "cancelled")
    results.append(len(events) > 8)
    return results


def test_a_running_venue_answers_as_one_in_the_process(running: Venue) -> None:
    seller = Http(running.address, DEMO_B)

    def sell_there(side: str, lots: int, price: int) -> None:
        amount, text = lots * Decimal("0.0001"), str(price * Decimal("0.5"))
        seller.result(f"private/{side}", {"instrument_name": "BTC_USDC", "amount": str(amount), "price": text})

    with connect(running) as venue:
        assert list(venue.accounts) == ["demo-a"]
        there = script(venue, "demo-a", sell_there)
    seller.result("private/cancel_all")
    seller.close()

    local = pitwire.Venue("demo", flow=None)

    def sell_here(side: str, lots: int, price: int) -> None:
        assert local.submit("BTC_USDC", side, lots, price, account="demo-b").accepted

    assert there == script(local, "demo-a", sell_here)


def test_events_of_a_connection_are_those_of_its_own_orders(running: Venue) -> None:
    with connect(running) as venue:
        bitcoin = venue.instrument("BTC_USDC")
        price = bitcoin.ticks(50_000)
        order = venue.submit("BTC_USDC", "buy", 7, price)
        venue.amend(order.order_id, lots=6)
        venue.cancel(order.order_id)
        events = venue.events()
        assert [pitwire.EVENT_KINDS[kind] for kind in events["kind"]] == ["accepted", "amended", "cancelled"]
        assert set(events["order"]) == {order.order_id} and set(events["price_ticks"]) == {price}
        assert events["lots"].tolist() == [7, 6, 6] and events.gaps == 0
        assert len(events.to_arrow()) == 3 and len(venue.events()) == 0


def test_time_of_a_manual_clock_moves_by_advance(running: Venue) -> None:
    with connect(running) as venue:
        before = venue.time_ns
        venue.advance(25 * SECOND_NS)
        assert venue.time_ns == before + 25 * SECOND_NS
        with pytest.raises(errors.UnsupportedCall):
            venue.advance(flow_commands=1)


def test_wrong_values_are_refused_before_they_are_sent(running: Venue) -> None:
    with connect(running) as venue:
        nan = float("nan")
        for arguments in ({"lots": nan}, {"lots": 1.5}, {"price_ticks": nan}, {"price_ticks": -1}, {"side": "up"}):
            with pytest.raises(errors.InvalidValue):
                venue.submit(**({"instrument": "BTC_USDC", "side": "buy", "lots": 1, "price_ticks": 100} | arguments))
        with pytest.raises(errors.InvalidValue):
            venue.submit_batch(7, 1, np.array([1.0, np.nan]), 100)
        with pytest.raises(errors.InvalidArray):
            venue.submit_batch(7, [1, 1], [1, 1, 1], 100)
        with pytest.raises(errors.UnknownName):
            venue.submit("NONE", "buy", 1, 1)
        with pytest.raises(errors.UnknownName):
            venue.submit("BTC_USDC", "buy", 1, 1, account="demo-b")
        with pytest.raises(errors.CallRefused) as refused:
            venue.call("public/none")
        assert refused.value.code != 0 and refused.value.remedy
        assert venue.orders() == []
    with pytest.raises(errors.VenueClosed):
        venue.call("public/get_time")


def test_a_connection_that_cannot_be_made_says_why(running: Venue) -> None:
    with pytest.raises(errors.CallRefused) as refused:
        pitwire.Venue.connect(running.ws_url, DEMO_A.client_id, "wrong")
    assert refused.value.remedy
    for error, url, options in [
        (errors.InvalidValue, "nonsense", {}),
        (errors.ConnectionFailed, "ws://127.0.0.1:1/ws/api/v2", {}),
        (errors.InvalidValue, running.ws_url, {"key": "demo-a"}),
        (errors.InvalidValue, running.ws_url, {"timeout_s": float("nan")}),
        (errors.InvalidValue, running.ws_url, {"timeout_s": -1.0}),
        (errors.InvalidValue, running.ws_url, {"timeout_s": "soon"}),
        (errors.InvalidValue, running.ws_url, {"key": 1, "secret": "x"}),
        (errors.InvalidValue, running.ws_url, {"authority": 3}),
        (errors.InvalidValue, None, {}),
    ]:
        with pytest.raises(error) as raised:
            pitwire.Venue.connect(url, **options)
        assert raised.value.remedy
    with pitwire.Venue.connect(running.ws_url) as public:
        assert public.touch("BTC_USDC") is not None
        with pytest.raises(errors.InvalidValue):
            public.events()


def test_parameters_that_are_not_json_are_refused(running: Venue) -> None:
    with connect(running) as venue:
        for value in (float("nan"), float("inf"), np.int64(3), np.zeros(2), object()):
            with pytest.raises(errors.InvalidValue, match="not JSON"):
                venue.call("public/ticker", instrument_name=value)
        for side in ([1], np.array([1, -1]), float("nan"), None):
            with pytest.raises(errors.InvalidValue, match="side is"):
                venue.submit("BTC_USDC", side, 1, 100)
        for name, value in {"tif": ["gtc"], "post_only": True, "hidden": "yes", "label": 3, "account": [1]}.items():
            with pytest.raises(errors.InvalidValue, match=f"{name} is"):
                venue.submit("BTC_USDC", "buy", 1, 100, **{name: value})
        assert venue.orders() == []


def test_control_c_ends_a_wait_for_a_venue() -> None:
    program = """
import sys, pitwire
try:
    pitwire.Venue.connect(sys.argv[1], timeout_s=600)
except pitwire.Interrupted as interrupted:
    sys.exit(0 if interrupted.remedy else 3)
sys.exit("the wait was not interrupted")
"""
    # A server that never answers.
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(PATIENCE_S)
        url = f"ws://127.0.0.1:{server.getsockname()[1]}/ws/api/v2"
        process = subprocess.Popen([sys.executable, "-c", program, url])
        try:
            # The client waits from before its connection on.
            with server.accept()[0]:
                process.send_signal(signal.SIGINT)
                assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
            process.wait()


def test_a_forked_process_cannot_use_the_connection(running: Venue) -> None:
    program = f"""
import os, sys, pitwire
venue = pitwire.Venue.connect({running.ws_url!r}, {DEMO_A.client_id!r}, {DEMO_A.secret!r})
child = os.fork()
if child == 0:
    try:
        venue.orders()
    except pitwire.errors.VenueForked as forked:
        os._exit(0 if forked.remedy else 4)
    os._exit(3)
status = os.waitpid(child, 0)[1]
venue.orders()
sys.exit(os.waitstatus_to_exitcode(status))
"""
    done = run_python(program)
    assert done.returncode == 0, done.stderr


def test_a_second_thread_is_refused_while_one_waits_for_an_answer(running: Venue) -> None:
    with connect(running) as venue:
        expect_busy(lambda: venue.call("public/get_time"), lambda: venue.call("public/get_time"))
        assert venue.call("public/get_time") > 0


def test_the_connected_programs_of_the_documentation_run(running: Venue) -> None:
    blocks = [block.split("```")[0] for block in (TOP / "docs/python.md").read_text().split("```python\n")[1:]]
    programs = [block for block in blocks if "Venue.connect" in block]
    assert programs
    for program in programs:
        done = run_python(program.replace("ws://127.0.0.1:8080/ws/api/v2", running.ws_url))
        assert done.returncode == 0, f"{program}\n{done.stderr}"
