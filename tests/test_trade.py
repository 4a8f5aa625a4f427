"""`pitwire trade` against the real venue, and against a stub of the dialect that records every
request."""

import json
import os
import shutil
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from rpc import PATIENCE_S, Http, client_signature, until
from screen_program import ScreenProgram
from test_schedules import Hand, jse
from venue import BINARY, DEMO_A, DEMO_B, Credentials, Venue
from websockets.exceptions import ConnectionClosed
from websockets.sync.server import Server, ServerConnection, serve

Done = subprocess.CompletedProcess[str]
VERBS = ["buy", "sell", "edit", "cancel", "cancel-all", "orders", "book", "vwap", "positions", "balance", "watch"]


def trade(*args: str, env: dict[str, str] | None = None, who: Credentials | None = DEMO_A) -> Done:
    names = {"PATH": os.environ["PATH"], "HOME": "/nonexistent"}
    if who is not None:
        names |= {"PITWIRE_CLIENT_ID": who.client_id, "PITWIRE_CLIENT_SECRET": who.secret}
    command = [BINARY, "trade", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=names | (env or {}))


def result(*args: str, **how: Any) -> Any:
    """One line of JSON on standard output, numbers as they were written."""
    ended = trade(*args, "--json", **how)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("\n") == 1 and ended.stderr == ""
    return json.loads(ended.stdout, parse_float=Decimal)


def refusal(ended: Done, code: int, *words: str) -> None:
    """One clear line with a remedy, and nothing on standard output."""
    assert ended.returncode == code, (ended.returncode, ended.stderr)
    assert ended.stdout == "" and ended.stderr.count("\n") == 1 and "panicked" not in ended.stderr
    assert all(word in ended.stderr for word in words), ended.stderr


# Against the venue


def test_an_order_is_entered_shown_changed_and_cancelled(venue: Venue, http: Http) -> None:
    at = ["--url", venue.ws_url]
    entered = result(*at, "buy", "BTC_USDC", "0.2500", "41000.5", "--label", "a-b", "--tif", "day")["order"]
    order = entered["order_id"]
    stored = http.result("private/get_order_state", {"order_id": order})
    assert (stored["price"], stored["amount"], stored["label"]) == (41000.5, 0.25, "a-b")
    assert stored["time_in_force"] == "good_til_day" and stored["order_state"] == "open"
    assert [row["order_id"] for row in result(*at, "orders")] == [order]
    assert result(*at, "orders", "NPN_ZAR") == []
    assert order in trade(*at, "orders", "BTC_USDC").stdout
    result(*at, "edit", order, "0.1", "41001")
    stored = http.result("private/get_order_state", {"order_id": order})
    assert (stored["price"], stored["amount"]) == (41001, 0.1)
    assert result(*at, "cancel", order)["order_state"] == "cancelled"
    assert trade(*at, "orders").stdout == "no open orders\n"


def test_two_members_trade_and_both_see_it(venue: Venue, http: Http, other: Http) -> None:
    at = ["--url", venue.ws_url]
    before = {row["currency"]: row["balance"] for row in result(*at, "balance")["summaries"]}
    bid = result(*at, "buy", "SBK_ZAR", "3", "1.23")["order"]
    assert bid["order_state"] == "open"
    book = result(*at, "book", "SBK_ZAR", "--depth", "10000", who=None)
    assert [Decimal("1.23"), 3] in book["bids"], "no login is needed to look at a book"
    sold = result(*at, "sell", "SBK_ZAR", "2", "--market", who=DEMO_B)
    assert sold["order"]["order_state"] == "filled" and sum(fill["amount"] for fill in sold["trades"]) == 2
    table = trade(*at, "balance").stdout.splitlines()
    assert table[0].split()[:2] == ["currency", "balance"] and any(line.startswith("ZAR ") for line in table)
    after = {row["currency"]: row["balance"] for row in result(*at, "balance")["summaries"]}
    held = http.result("private/get_account_summaries")["summaries"]
    assert after == {row["currency"]: Decimal(str(row["balance"])) for row in held} and set(after) == set(before)


def test_mass_cancels_cancel_the_named_orders(venue: Venue, http: Http) -> None:
    at = ["--url", venue.ws_url]
    for instrument, price, label in [("BTC_USDC", "100", "x"), ("BTC_USDC", "101", "y"), ("NPN_ZAR", "5", "x")]:
        result(*at, "buy", instrument, "1", price, "--label", label)
    assert result(*at, "cancel-all", "--label", "y") == 1
    assert result(*at, "cancel-all", "--instrument", "NPN_ZAR") == 1
    assert result(*at, "cancel-all", "--currency", "ETH") == 0
    assert trade(*at, "cancel-all").stdout == "1 cancelled\n"
    assert http.result("private/get_open_orders") == []


def test_a_position_is_shown_until_it_is_closed(venue: Venue, http: Http, other: Http) -> None:
    at = ["--url", venue.ws_url]
    assert trade(*at, "positions").stdout == "no open positions\n"
    result(*at, "buy", "BTC-PERPETUAL", "100", "--market")
    held = [row for row in result(*at, "positions") if row["size"] != 0]
    assert [(row["instrument_name"], row["size"]) for row in held] == [("BTC-PERPETUAL", 100)]
    assert "BTC-PERPETUAL" in trade(*at, "positions").stdout
    result(*at, "sell", "BTC-PERPETUAL", "100", "--market")
    assert trade(*at, "positions").stdout == "no open positions\n"


def test_watching_prints_notices_as_they_come(venue: Venue) -> None:
    ended = trade("--url", venue.ws_url, "watch", "book.BTC_USDC.100ms", "--count", "2", who=None)
    assert ended.returncode == 0, ended.stderr
    first, second = (json.loads(line) for line in ended.stdout.splitlines())
    assert first["channel"] == "book.BTC_USDC.100ms" and first["data"]["type"] == "snapshot"
    assert second["data"]["prev_change_id"] == first["data"]["change_id"]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["buy", "BTC_USDC", "1", "50000.3"], ["10043", "price_wrong_tick", "0.5", "tick_size"]),
        (["buy", "NO_SUCH", "1", "5"], ["13020", "not_found", "NO_SUCH", "get_instruments"]),
        (["cancel", "999999999"], ["10004", "order_not_found"]),
        (["edit", "999999999", "1", "5"], ["10004", "order_not_found"]),
        (["buy", "BTC_USDC", "1000", "50000"], ["10009", "not_enough_funds"]),
        (["watch", "no.such.channel"], ["no.such.channel"]),
    ],
)
def test_the_venues_refusal_is_one_line(venue: Venue, args: list[str], words: list[str]) -> None:
    refusal(trade("--url", venue.ws_url, *args), 1, *words)


def test_a_wrong_secret_is_refused_and_not_repeated(venue: Venue) -> None:
    ended = trade("--url", venue.ws_url, "orders", who=Credentials("demo-a", "hunter2-hunter2"))
    refusal(ended, 1, "13004")
    assert "hunter2" not in ended.stderr


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--stop", "70000"], {"order_type": "stop_market", "trigger_price": 70000, "order_state": "untriggered"}),
        (["71000", "--stop", "70000"], {"order_type": "stop_limit", "price": 71000, "trigger_price": 70000}),
        (["41000", "--hidden", "--min-execution", "0.1"], {"hidden": True, "min_execution": 0.1}),
        (["41000", "--display", "0.1"], {"display_amount": 0.1}),
        (["41000", "--reject-post-only"], {"post_only": True, "reject_post_only": True}),
        (["41000", "--tif", "gtc"], {"time_in_force": "good_til_cancelled"}),
        (["41000", "--tif", "day"], {"time_in_force": "good_til_day"}),
        (["41000", "--tif", "ioc"], {"time_in_force": "immediate_or_cancel", "order_state": "cancelled"}),
        (["41000", "--tif", "fok"], {"time_in_force": "fill_or_kill", "order_state": "cancelled"}),
    ],
)
def test_every_type_of_order_reaches_the_venue(
    venue: Venue, http: Http, options: list[str], expected: dict[str, Any]
) -> None:
    entered = result("--url", venue.ws_url, "buy", "BTC_USDC", "0.2", *options)["order"]
    stored = http.result("private/get_order_state", {"order_id": entered["order_id"]})
    assert {name: stored.get(name) for name in expected} == expected
    result("--url", venue.ws_url, "cancel-all")


def test_orders_with_an_end_carry_it(venue: Venue, http: Http) -> None:
    day = datetime.fromtimestamp(http.result("public/get_time") / 1000, tz=UTC) + timedelta(days=10)
    until = ["--tif", "gtd", "--expires", f"{day:%Y-%m-%d}"]
    entered = result("--url", venue.ws_url, "buy", "BTC_USDC", "0.2", "41000", *until)["order"]
    assert (entered["tif_ext"], entered["expires_at"]) == ("gtd", f"{day:%Y-%m-%d}")
    result("--url", venue.ws_url, "cancel-all")
    # An end after the venue's day is refused, whatever the time of the test.
    ended = trade("--url", venue.ws_url, "buy", "BTC_USDC", "1", "5", "--tif", "gtt", "--expires", "4000000000000")
    refusal(ended, 1, "expires_at")


@pytest.mark.parametrize("tif", ["opg", "gfa", "gfx", "atc", "cpx"])
def test_times_in_force_of_auctions_are_judged_by_the_venue(venue: Venue, http: Http, tif: str) -> None:
    order = ["buy", "AUC_ZAR", "1", "1.5", "--tif", tif]
    assert f'"tif_ext":"{tif}"' in trade(*order, "--dry-run").stdout
    ended = trade("--url", venue.ws_url, *order, "--json")
    if ended.returncode == 0:
        assert json.loads(ended.stdout)["order"]["tif_ext"] == tif
    else:
        # The instrument has no such session, and the venue names the parameter that was sent.
        refusal(ended, 1, "the venue refused", "[tif_ext]")
    result("--url", venue.ws_url, "cancel-all")


def test_every_time_in_force_is_accepted_in_its_session(data: Path) -> None:
    accepted = set()
    with jse(data, "--clock", "manual", "--durability", "memory") as venue:
        hand = Hand(venue)
        for clock, tifs in [
            ("08:31", ["opg", "gfa", "day", "gtc", "gtd", "gtt"]),
            ("10:00", ["ioc", "fok", "gfa", "gfx", "atc", "cpx", "gtt"]),
            ("17:06", ["cpx"]),
        ]:
            hand.to(clock)
            now_ms = int(hand.http.result("private/pitwire_advance", {"ns": 0})["venue_time_ns"]) // 1_000_000
            date = f"{datetime.fromtimestamp(now_ms / 1000, tz=UTC) + timedelta(days=10):%Y-%m-%d}"
            ends = {"gtt": str(now_ms + 60_000), "gtd": date}
            for tif in tifs:
                end = ["--expires", ends[tif]] if tif in ends else []
                order = result("--url", venue.ws_url, "buy", "CLH_ZAR", "10", "5", "--tif", tif, *end)["order"]
                stored = hand.member.result("private/get_order_state", {"order_id": order["order_id"]})
                words = {
                    "day": "good_til_day",
                    "gtc": "good_til_cancelled",
                    "ioc": "immediate_or_cancel",
                    "fok": "fill_or_kill",
                }
                if tif in words:
                    assert stored["time_in_force"] == words[tif] and "tif_ext" not in stored, stored
                else:
                    assert stored["tif_ext"] == tif and str(stored.get("expires_at", "")) == ends.get(tif, ""), stored
                accepted.add(tif)
        hand.close()
    assert len(accepted) == 11


def test_vwap_is_the_weighted_average_of_the_latest_trades(venue: Venue, http: Http) -> None:
    at = ["--url", venue.ws_url]
    result(*at, "buy", "FSR_ZAR", "3", "--market")
    fills = http.result("public/get_last_trades_by_instrument", {"instrument_name": "FSR_ZAR", "count": 1000})
    assert fills["trades"]
    shown = result(*at, "vwap", "FSR_ZAR", "--trades", "1000", who=None)
    # The order flow may have traded in between.
    lowest = min(fill["price"] for fill in fills["trades"])
    highest = max(fill["price"] for fill in fills["trades"])
    assert lowest * 0.9 <= float(shown["vwap"]) <= highest * 1.1 and shown["trades"] > 0
    assert trade(*at, "vwap", "FSR_ZAR", who=None).stdout.split()[:4] == ["vwap", "volume", "trades", "seconds"]


# Without a venue


def test_dry_run_prints_the_request_and_sends_nothing() -> None:
    ended = trade("--url", "ws://127.0.0.1:1/", "sell", "X", "0.10", "7.50", "--tif", "day", "--dry-run", who=None)
    assert ended.returncode == 0, ended.stderr
    expected = '"instrument_name":"X","amount":0.10,"type":"limit","price":7.50,"time_in_force":"good_til_day"'
    assert ended.stdout == f'{{"method":"private/sell","params":{{{expected}}}}}\n'


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--market"], {"type": "market"}),
        (["7.5"], {"type": "limit", "price": 7.5}),
        (["7.5", "--post-only"], {"type": "limit", "price": 7.5, "post_only": True}),
        (["7.5", "--reduce-only"], {"type": "limit", "price": 7.5, "reduce_only": True}),
        (["7.5", "--stop", "7"], {"type": "stop_limit", "price": 7.5, "trigger": "last_price", "trigger_price": 7}),
        (
            ["--stop", "7", "--trigger", "mark"],
            {"type": "stop_market", "trigger": "mark_price", "trigger_price": 7},
        ),
        (["7.5", "--take", "7"], {"type": "take_limit", "price": 7.5, "trigger": "last_price", "trigger_price": 7}),
        (
            ["--take", "7", "--trigger", "index"],
            {"type": "take_market", "trigger": "index_price", "trigger_price": 7},
        ),
        (["--trailing", "0.5"], {"type": "trailing_stop", "trigger": "last_price", "trigger_offset": 0.5}),
    ],
)
def test_every_type_of_order_has_the_parameters_of_the_dialect(options: list[str], expected: dict[str, Any]) -> None:
    ended = trade("sell", "X", "2", *options, "--dry-run", who=None)
    assert ended.returncode == 0, ended.stderr
    request = json.loads(ended.stdout)
    assert request == {"method": "private/sell", "params": {"instrument_name": "X", "amount": 2} | expected}


def test_large_order_is_sent_after_a_yes_on_the_terminal(double: "Double") -> None:
    login = {"PITWIRE_CLIENT_ID": DEMO_A.client_id, "PITWIRE_CLIENT_SECRET": DEMO_A.secret}
    order = ["buy", "X", "2.01", "5", "--confirm-above", "2", "--json"]

    def answered(key: str) -> tuple[int, str]:
        with ScreenProgram([BINARY, "trade", "--url", double.url, *order], **login) as program:

            def is_asked() -> bool:
                program.read(0.05)
                return "2.01 is above 2. Send the order? [y/N]" in program.screen.plain

            until(is_asked, "the question")
            program.press(f"{key}\r")
            return program.wait()

    code, said = answered("n")
    assert code == 1 and "the order was not sent" in said and double.texts == []
    assert answered("y")[0] == 0
    assert [call["params"]["amount"] for call in double.calls("private/buy")] == [2.01]


def test_large_order_needs_a_confirmation(double: "Double") -> None:
    above = {"PITWIRE_CONFIRM_ABOVE": "2"}
    refusal(trade("--url", double.url, "buy", "X", "2.01", "5", env=above), 2, "2.01", "above 2", "--yes")
    assert double.texts == []
    trade("--url", double.url, "buy", "X", "2.00", "5", env=above)
    trade("--url", double.url, "buy", "X", "2.01", "5", "--yes", env=above)
    assert [call["params"]["amount"] for call in double.calls("private/buy")] == [2.0, 2.01]


@pytest.mark.parametrize("arguments", [["book", "BTC_USDC"], ["orders", "--json"], ["watch", "book.BTC_USDC.100ms"]])
def test_output_to_a_closed_pipe_is_no_error(venue: Venue, arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    names = {"PITWIRE_CLIENT_ID": DEMO_A.client_id, "PITWIRE_CLIENT_SECRET": DEMO_A.secret}
    command = [BINARY, "trade", "--url", venue.ws_url, *arguments]
    ended = subprocess.run(
        command, stdout=writing, stderr=subprocess.PIPE, text=True, timeout=60, check=False, env=names
    )
    os.close(writing)
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help_with_an_example(verb: str) -> None:
    ended = trade(verb, "--help", who=None)
    assert ended.returncode == 0 and "Examples:" in ended.stdout and f"pitwire trade {verb}" in ended.stdout


@pytest.mark.parametrize(
    ("args", "word"),
    [
        ([], "subcommand"),
        (["buy"], "<INSTRUMENT>"),
        (["buy", "BTC_USDC", "1"], "--market"),
        (["sell", "BTC_USDC", "1", "--hidden"], "has no price"),
        (["buy", "BTC_USDC", "1", "5", "--market"], "--market"),
        (["buy", "BTC_USDC", "0", "5"], "'0'"),
        (["buy", "BTC_USDC", "-0.5", "59000"], "not a positive decimal number"),
        (["buy", "BTC_USDC", "1", "NaN"], "NaN"),
        (["buy", "BTC_USDC", "1", "1,5"], "1,5"),
        (["buy", "BTC_USDC", "1", "5", "--tif", "forever"], "forever"),
        (["book", "BTC_USDC", "--depth", "0"], "0"),
        (["buy", "BTC_USDC", "1", "--stop", "5", "--take", "6"], "--take"),
        (["buy", "BTC_USDC", "1", "5", "--min-execution", "1"], "--hidden"),
        (["buy", "BTC_USDC", "1", "5", "--hidden", "--display", "1"], "--display"),
        (["buy", "BTC_USDC", "1", "5", "--tif", "gtd"], "--expires"),
        (["buy", "BTC_USDC", "1", "5", "--tif", "gtt", "--expires", "2026-12-31"], "milliseconds"),
        (["buy", "BTC_USDC", "1", "5", "--tif", "ioc", "--expires", "2026-12-31"], "--expires"),
        (["buy", "BTC_USDC", "5", "7", "--confirm-above", "4.5"], "--yes"),
        (["orders", "--client-secret", "x"], "--client-secret"),
        (["--url", "http://127.0.0.1:1/", "orders"], "ws://"),
        (["cancel-all", "--label", "x", "--currency", "BTC"], "--currency"),
    ],
)
def test_wrong_usage_and_failure_have_different_exit_codes(args: list[str], word: str) -> None:
    refusal(trade(*args), 2, word)


def test_trade_fails_at_once_without_a_venue() -> None:
    refusal(trade("--url", "ws://127.0.0.1:1/ws/api/v2", "orders"), 1, "127.0.0.1:1", "pitwire up")


def test_path_without_websocket_is_named(venue: Venue) -> None:
    refusal(trade("--url", f"ws://{venue.address}/elsewhere", "orders"), 1, "404", "/ws/api/v2")


# Credentials


def test_credentials_come_from_a_file_that_other_users_cannot_read(venue: Venue, tmp_path: Path) -> None:
    at = ["--url", venue.ws_url, "orders"]
    file = tmp_path / "credentials.toml"
    file.write_text('client_id = "demo-a"\nclient_secret = "demo-a-secret"\n')
    file.chmod(0o600)
    named = {"PITWIRE_CREDENTIALS": str(file)}
    assert trade(*at, env=named, who=None).returncode == 0
    home = tmp_path / "home/.config/pitwire"
    home.mkdir(parents=True)
    shutil.copy(file, home)
    assert trade(*at, env={"HOME": str(tmp_path / "home")}, who=None).returncode == 0
    for mode in [0o640, 0o604, 0o644]:
        file.chmod(mode)
        refusal(trade(*at, env=named, who=None), 1, f"{mode:03o}", f"chmod 600 {file}")


def test_credential_errors_do_not_print_credentials(tmp_path: Path) -> None:
    file = tmp_path / "credentials.toml"
    named = {"PITWIRE_CREDENTIALS": str(file)}
    refusal(trade("orders", who=None), 1, "PITWIRE_CLIENT_ID", "chmod 600")
    refusal(trade("orders", who=None, env=named), 1, str(file))
    refusal(trade("orders", who=None, env={"PITWIRE_CLIENT_ID": "demo-a"}), 1, "PITWIRE_CLIENT_SECRET")
    for text, line, key in [
        ('client_id = "a"\nclient_secret = hunter2\n', 2, ""),
        ('client_id = "a"\nclient_secret = "hunter2"\nsecret = "hunter2"\n', 3, "secret"),
        ('client_id = "a"\n', 1, "client_secret"),
    ]:
        file.write_text(text)
        file.chmod(0o600)
        ended = trade("orders", who=None, env=named)
        refusal(ended, 1, f"line {line}", key)
        assert "hunter2" not in ended.stderr


# Against a stub: any venue of the dialect, without our extensions


@dataclass
class Double:
    """Accepts every login and answers from `replies`; keeps every text."""

    replies: dict[str, Callable[[ServerConnection, dict[str, Any]], Any]] = field(default_factory=dict)
    texts: list[str] = field(default_factory=list)
    url: str = ""

    def serve(self, socket: ServerConnection) -> None:
        try:
            for text in socket:
                assert isinstance(text, str)
                self.texts.append(text)
                call = json.loads(text)
                if call["method"] in self.replies:
                    answer = self.replies[call["method"]](socket, call)
                else:
                    answer = {"result": {"access_token": "t"}} if call["method"] == "public/auth" else {"result": []}
                if answer is not None:
                    socket.send(json.dumps({"jsonrpc": "2.0", "id": call["id"]} | answer))
        except ConnectionClosed:
            pass

    def calls(self, method: str) -> list[dict[str, Any]]:
        return [call for call in map(json.loads, self.texts) if call["method"] == method]


@pytest.fixture
def double() -> Iterator[Double]:
    double = Double()
    with serve(double.serve, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        double.url = f"ws://127.0.0.1:{port_of(server)}/ws/api/v2"
        yield double
        server.shutdown()
        thread.join()


def port_of(server: Server) -> int:
    return server.socket.getsockname()[1]


def test_numbers_reach_the_venue_letter_for_letter(double: Double) -> None:
    trade("--url", double.url, "buy", "BTC_USDC", "0.10000000000000000000001", "60000.50", "--label", 'a"b')
    text = next(text for text in double.texts if "private/buy" in text)
    assert '"amount":0.10000000000000000000001' in text and '"price":60000.50' in text
    params = json.loads(text)["params"]
    params.pop("price"), params.pop("amount")
    assert params == {"instrument_name": "BTC_USDC", "type": "limit", "label": 'a"b'}, "nothing that was not asked for"


def test_secret_signs_the_login_and_is_not_sent(double: Double) -> None:
    trade("--url", double.url, "orders")
    (auth,) = double.calls("public/auth")
    signed = auth["params"]
    assert signed["grant_type"] == "client_signature" and signed["client_id"] == DEMO_A.client_id
    expected = client_signature(DEMO_A.secret, signed["timestamp"], signed["nonce"], signed["data"])
    assert signed["signature"] == expected
    assert not any(DEMO_A.secret in text for text in double.texts)


def test_an_answer_that_never_comes_is_not_shown_as_a_refusal(double: Double) -> None:
    double.replies["private/buy"] = lambda socket, call: None
    ended = trade("--url", double.url, "--timeout", "1", "buy", "BTC_USDC", "1", "5")
    refusal(ended, 1, "no answer", "pitwire trade orders")
    double.replies["private/buy"] = lambda socket, call: socket.close()
    refusal(trade("--url", double.url, "buy", "BTC_USDC", "1", "5"), 1, "no answer", "pitwire trade orders")
    # A query can be repeated safely.
    double.replies["private/get_open_orders"] = lambda socket, call: socket.close()
    refusal(trade("--url", double.url, "orders"), 1, "no answer", "try again")


def test_unsolicited_messages_do_not_disturb(double: Double) -> None:
    def orders(socket: ServerConnection, call: dict[str, Any]) -> dict[str, Any]:
        socket.send(json.dumps({"jsonrpc": "2.0", "method": "heartbeat", "params": {"type": "test_request"}}))
        socket.send(json.dumps({"jsonrpc": "2.0", "id": 999, "result": [{"order_id": "another's"}]}))
        socket.send(b"\x00\x01")
        return {"result": [{"order_id": "1"}]}

    double.replies["private/get_open_orders"] = orders
    assert result("--url", double.url, "orders") == [{"order_id": "1"}]
    # The answer was sent before the program ended; the stub may read it later.
    deadline = time.monotonic() + PATIENCE_S
    while not double.calls("public/test"):
        assert time.monotonic() < deadline, "a venue that asks whether anybody is there is answered"
        time.sleep(0.01)


def test_a_refusal_without_details_is_enough(double: Double) -> None:
    double.replies["private/cancel"] = lambda socket, call: {"error": {"code": 11044, "message": "not_open_order"}}
    refusal(trade("--url", double.url, "cancel", "7"), 1, "11044 not_open_order")
    double.replies["private/cancel"] = lambda socket, call: {}
    refusal(trade("--url", double.url, "cancel", "7"), 1, "neither result nor error")
    double.replies["private/cancel"] = lambda socket, call: socket.send("<html>")
    refusal(trade("--url", double.url, "cancel", "7"), 1, "dialect")


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[Path, Path]:
    if shutil.which("openssl") is None:
        pytest.skip("no openssl to make a certificate with")
    certificate, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    made = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    made += ["-days", "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    made += ["-addext", "basicConstraints=critical,CA:FALSE", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run(made, check=True, capture_output=True)
    return certificate, key


def test_tls_is_trusted_only_with_its_authority(certificate: tuple[Path, Path], tmp_path: Path) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    double = Double()
    with serve(double.serve, "127.0.0.1", 0, ssl=context) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"wss://localhost:{port_of(server)}/ws/api/v2"
        assert result("--url", url, "--ca", str(certificate[0]), "orders") == []
        refusal(trade("--url", url, "orders"), 1, "no trusted connection", "--ca")
        empty = tmp_path / "empty.pem"
        empty.write_text("")
        refusal(trade("--url", url, "--ca", str(empty), "orders"), 1, "no certificate")
        # A certificate is valid only for its name.
        wrong = f"wss://127.0.0.1:{port_of(server)}/ws/api/v2"
        refusal(trade("--url", wrong, "--ca", str(certificate[0]), "orders"), 1, "no trusted connection")
        server.shutdown()
        thread.join()
