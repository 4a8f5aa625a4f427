"""`pitwire tui` on a terminal, against the real venue."""

import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rpc import Http
from screen_program import ScreenProgram
from venue import BINARY, DEMO_A, DEMO_B, Venue

UP, DOWN, ENTER, ESCAPE, TAB = "\x1b[A", "\x1b[B", "\r", "\x1b", "\t"
LOGIN = {"PITWIRE_CLIENT_ID": DEMO_A.client_id, "PITWIRE_CLIENT_SECRET": DEMO_A.secret}


@pytest.fixture(scope="module")
def quiet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Venue]:
    """A venue whose book only the tests change."""
    with Venue(tmp_path_factory.mktemp("tui") / "data", ["--no-flow"]) as running:
        yield running


@pytest.fixture
def maker(quiet: Venue) -> Iterator[Http]:
    """demo-b bids 3240 and offers 3260, 100 shares each. Everything is cancelled afterwards."""
    client = Http(quiet.address, DEMO_B)
    for side, price in (("buy", 3240), ("sell", 3260)):
        client.result(f"private/{side}", {"instrument_name": "NPN_ZAR", "amount": 100, "price": price})
    yield client
    for one in (client, Http(quiet.address, DEMO_A)):
        one.result("private/cancel_all")
        one.close()


def tui(venue: Venue | str, *arguments: str, size: tuple[int, int] = (120, 30), **variables: str) -> ScreenProgram:
    url = venue if isinstance(venue, str) else venue.ws_url
    return ScreenProgram([BINARY, "tui", "--url", url, *arguments], *size, **(LOGIN | variables))


def end(program: ScreenProgram, keys: str = "q") -> None:
    program.press(keys)
    code, said = program.wait()
    assert (code, said.strip()) == (0, "") and program.is_restored()


def open_orders(http: Http) -> list[Any]:
    orders: list[Any] = http.result("private/get_open_orders", {})
    return orders


def test_an_order_is_entered_edited_and_cancelled_by_keys(quiet: Venue, maker: Http) -> None:
    own = Http(quiet.address, DEMO_A)
    with tui(quiet, "NPN_ZAR") as program:
        program.until("NPN_ZAR  continuous", "demo-a at", "3240.00 / 3260.00", "connected")
        # At the best bid, so that the maker's 100 shares are ahead.
        program.press("B")
        program.until("buy NPN_ZAR", "amount    1", "price     3240.00")
        program.press("25" + ENTER)
        program.until("orders 1", re.compile(r"buy +25 +3240\.00 +100 limit").search)
        (order,) = open_orders(own)
        assert (order["amount"], order["price"], order["direction"]) == (25.0, 3240.0, "buy")
        maker.result("private/cancel_all")
        program.until(re.compile(r"buy +25 +3240\.00 +first limit").search)
        program.press(TAB + "e")
        program.until("edit buy order")
        program.press(UP + ENTER)
        program.until(re.compile(r"buy +25 +3240\.01 ").search)
        program.press("x")
        program.until("orders 0", "cancelled order")
        assert open_orders(own) == []
        program.until(re.compile(r"order  [\d.]+ (µs|ms) p50").search)
        end(program)
    own.close()


def test_a_fill_is_announced_and_changes_the_balances(quiet: Venue, maker: Http) -> None:
    with tui(quiet, "NPN_ZAR", "--one-key") as program:
        program.until("3240.00 / 3260.00", "NPN ")
        program.press("t")
        program.until("bought 1 NPN_ZAR at 3260", "▲    3260.00         1")
        program.press("T")
        program.until("sold 1 NPN_ZAR at 3240", "▼    3240.00         1")
        end(program)


def test_all_orders_are_cancelled_after_a_question(quiet: Venue, maker: Http) -> None:
    own = Http(quiet.address, DEMO_A)
    for price in (3230, 3231):
        own.result("private/buy", {"instrument_name": "NPN_ZAR", "amount": 5, "price": price})
    with tui(quiet, "NPN_ZAR") as program:
        program.until("orders 2")
        program.press("X")
        program.until("Cancel all 2 orders of NPN_ZAR?")
        program.press("n")
        program.until("nothing was sent")
        assert len(open_orders(own)) == 2
        program.press("Xy")
        program.until("orders 0", "cancelled 2 orders")
        end(program)
    own.close()


def test_a_refusal_and_a_large_order_are_answered_on_the_screen(quiet: Venue, maker: Http) -> None:
    with tui(quiet, "NPN_ZAR", "--confirm-above", "1000") as program:
        program.until("3240.00 / 3260.00")
        program.press("b" + TAB + "3250.005" + ENTER)
        program.until(re.compile("the venue refused: 100").search)
        program.press("B2000" + ENTER)
        program.until("the amount 2000 is above 1000")
        program.press("n")
        program.until("nothing was sent", "orders 0")
        end(program)


def test_another_instrument_is_chosen_and_its_session_counts_down(quiet: Venue) -> None:
    with tui(quiet) as program:
        program.until("connected")
        program.press("/")
        program.until("instrument: type")
        program.press("auc" + ENTER)
        text = program.until(re.compile(r"AUC_ZAR  [a-z ]+ ends in \d+:\d\d").search)
        first = re.search(r"ends in (\d+:\d\d)", text)
        assert first is not None
        program.until(lambda text: first.group(1) not in text)
        end(program, "\x03")


def test_without_credentials_only_the_market_is_shown(quiet: Venue, maker: Http) -> None:
    with tui(quiet, "NPN_ZAR", PITWIRE_CLIENT_ID="", PITWIRE_CLIENT_SECRET="") as program:
        program.until("not logged in at", "3240.00 / 3260.00", "market data only")
        program.press("b")
        program.until("no credentials: start")
        end(program)


def test_a_venue_that_comes_back_finds_the_screen_waiting(data: Path) -> None:
    with Venue(data, ["--no-flow"]) as venue:
        own = Http(venue.address, DEMO_A)
        own.result("private/buy", {"instrument_name": "NPN_ZAR", "amount": 7, "price": 3000})
        own.close()
        with tui(venue, "NPN_ZAR") as program:
            program.until("connected", "orders 1")
            venue.kill()
            program.until("RECONNECTING")
            venue.listen = venue.address
            venue.start()
            program.until("connected", "orders 1", lambda text: "RECONNECTING" not in text)
            program.press("Xy")
            program.until("orders 0")
            end(program)


def test_a_small_terminal_gets_a_sentence_until_it_is_larger(quiet: Venue) -> None:
    with tui(quiet, size=(60, 10)) as program:
        program.until("60x10", "80x22")
        program.resize(80, 22)
        program.until("ladder, amount", "positions and balances", "latency")
        end(program)


def test_a_signal_and_a_hang_up_end_it(quiet: Venue) -> None:
    with tui(quiet) as program:
        program.until("connected")
        program.process.send_signal(signal.SIGTERM)
        assert program.wait() == (0, "") and program.is_restored()
    with tui(quiet) as program:
        program.until("connected")
        program.hang_up()
        assert program.process.wait(60) in (0, 1)


def refused(program: ScreenProgram, code: int, *words: str) -> None:
    """The program ends before it takes the terminal, with one line that has a remedy."""
    with program:
        ended, said = program.wait()
        assert ended == code and said.count("\n") == 1 and said.startswith("pitwire: "), said
        assert all(word in said for word in words), said
        assert program.is_restored()


def test_faults_at_the_start_are_named(quiet: Venue) -> None:
    refused(tui(quiet, PITWIRE_CLIENT_SECRET="wrong"), 1, "13004")
    refused(tui(quiet, PITWIRE_CLIENT_SECRET=""), 1, "PITWIRE_CLIENT_SECRET is not set")
    refused(tui(f"http://{quiet.address}/"), 2, "begins with neither ws:// nor wss://")
    refused(tui(f"ws://{quiet.address}/nothing"), 1, "does not open a WebSocket", "/ws/api/v2")
    refused(tui("ws://127.0.0.1:1/ws/api/v2"), 1, "cannot reach 127.0.0.1:1")
    refused(tui(quiet, "NOTHING"), 2, 'no instrument "NOTHING"', "such as AGL_ZAR")


def test_missing_terminal_is_reported(quiet: Venue) -> None:
    command = [BINARY, "tui", "--url", quiet.ws_url]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "standard input is not a terminal" in done.stderr and "ssh -t" in done.stderr


def test_no_color_shows_no_colour(quiet: Venue, maker: Http) -> None:
    def colours(program: ScreenProgram) -> set[Any]:
        program.until("3240.00 / 3260.00")
        return {cell[1].foreground for line in program.screen.cells for cell in line}

    with tui(quiet, "NPN_ZAR") as program:
        assert len(colours(program)) > 2
    with tui(quiet, "NPN_ZAR", NO_COLOR="1") as program:
        assert colours(program) == {None}
