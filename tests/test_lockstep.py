"""Runs that repeat exactly: a bot with a stepper, a venue without clients, a simulation, a
replay."""

import json
import re
import subprocess
import threading
from pathlib import Path

import ccxt
import pytest
from rpc import Http, RpcError
from venue import BINARY, CURRENCIES, DEBUG_BINARY, DEMO_A, DEMO_B, Venue, run_pitwire

STEP_NS = 250_000_000
MANUAL = ["--clock", "manual", "--seed", "5"]


def deribit(venue: Venue) -> ccxt.deribit:
    return ccxt.deribit(
        {
            "urls": {"api": {"rest": venue.http_url}},
            "apiKey": DEMO_A.client_id,
            "secret": DEMO_A.secret,
            "enableRateLimit": False,
            "options": {"code": "ZAR", "currencies": CURRENCIES},
        }
    )


def bot(exchange: ccxt.deribit, step: int) -> None:
    """One step of an ordinary bot: read the book, quote around it, take now and then, cancel old
    quotes."""
    for symbol in ["NPN/ZAR", "BTC/USDC"]:
        book = exchange.fetch_order_book(symbol, 5)
        bid, ask = book["bids"][0][0], book["asks"][0][0]
        amount = exchange.market(symbol)["limits"]["amount"]["min"] * (1 + step % 3)
        exchange.create_limit_buy_order(symbol, amount, bid)
        if step % 3 == 0:
            exchange.create_limit_sell_order(symbol, amount, bid)
        if step % 4 == 3:
            exchange.cancel_all_orders(symbol)
        if step % 5 == 2:
            exchange.create_market_buy_order(symbol, amount)
        assert ask > bid


def drive(venue: Venue, steps: int = 40) -> dict[str, object]:
    """The stepper: the bot acts, then time advances, for this bot alone."""
    exchange = deribit(venue)
    exchange.load_markets()
    clock = Http(venue.address, DEMO_B)
    answer: dict[str, object] = {}
    for step in range(steps):
        bot(exchange, step)
        answer = clock.result("private/pitwire_advance", {"ns": STEP_NS})
    clock.close()
    return answer


def test_a_bot_driven_twice_makes_one_tape(tmp_path: Path) -> None:
    runs = []
    for name in ["one", "two"]:
        with Venue(tmp_path / name, extra=MANUAL) as venue:
            runs.append(drive(venue))
    assert runs[0] == runs[1]
    # One more step of this bot gives another tape hash.
    with Venue(tmp_path / "three", extra=MANUAL) as venue:
        assert drive(venue, 41)["tape_hash"] != runs[0]["tape_hash"]


def test_another_seed_is_another_tape(tmp_path: Path) -> None:
    hashes = set()
    for seed in ["5", "6"]:
        with Venue(tmp_path / seed, extra=["--clock", "manual", "--seed", seed, "--durability", "memory"]) as venue:
            clock = Http(venue.address, DEMO_A)
            hashes.add(clock.result("private/pitwire_advance", {"ns": 10_000_000_000})["tape_hash"])
            clock.close()
    assert len(hashes) == 2


def test_a_replay_from_disk_gives_the_tape_hash_of_the_run(data: Path) -> None:
    with Venue(data, extra=MANUAL) as venue:
        answer = drive(venue, 10)
        venue.kill()
    verified = json.loads(run_pitwire("verify", data, "--json").stdout)
    assert verified["tape_hash"] == answer["tape_hash"]


def test_time_stands_still_until_it_is_moved(data: Path) -> None:
    with Venue(data, extra=MANUAL) as venue:
        http = Http(venue.address, DEMO_A)
        before = http.result("public/get_time"), http.result("public/ticker", {"instrument_name": "NPN_ZAR"})
        threading.Event().wait(0.4)
        after = http.result("public/get_time"), http.result("public/ticker", {"instrument_name": "NPN_ZAR"})
        assert before[1] == after[1]
        start = int(http.result("private/pitwire_advance", {"ns": 0})["venue_time_ns"])
        assert int(http.result("private/pitwire_advance", {"ns": 1_000})["venue_time_ns"]) == start + 1_000
        for ns in ["-1", "3600000000001", "x", ""]:
            with pytest.raises(RpcError) as refused:
                http.result("private/pitwire_advance", {"ns": ns})
            assert refused.value.code == -32602
        http.close()


def test_time_that_moves_by_itself_cannot_be_moved(data: Path) -> None:
    with Venue(data, extra=["--durability", "memory"]) as venue:
        http = Http(venue.address, DEMO_A)
        with pytest.raises(RpcError) as refused:
            http.result("private/pitwire_advance", {"ns": 1})
        assert refused.value.code == 13025
        assert "--clock manual" in refused.value.error["data"]["remedy"]
        http.close()


def tape_after(venue: Venue, command: int) -> str:
    """The hash over the public events of the first commands, from the venue's journal."""
    answer = run_pitwire("verify", venue.data, "--until", str(command), "--json")
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout)["tape_hash"]


def test_two_venues_without_clients_and_one_seed_make_one_tape(tmp_path: Path) -> None:
    venues, ends = [], []
    for name in ["one", "two"]:
        with Venue(tmp_path / name, extra=["--no-clients", "--seed", "9", "--speed", "50"]) as venue:
            http = Http(venue.address, DEMO_A)
            with pytest.raises(RpcError) as refused:
                http.result("private/buy", {"instrument_name": "NPN_ZAR", "amount": 1, "price": 3000})
            assert refused.value.code == 13025
            threading.Event().wait(1.5)
            ends.append(json.loads(http.get("/healthz").body)["command"])
            http.close()
            venue.kill()
        venues.append(venue)
    shared = min(ends)
    assert shared > 1_000
    assert tape_after(venues[0], shared) == tape_after(venues[1], shared)


def simulated(binary: Path, *more: str) -> str:
    command = [binary, "sim", "--seed", "4", "--events", "20000", "--json", *more]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    return json.loads(answer.stdout)["tape_hash"]


def test_simulations_of_one_seed_agree_on_one_thread_and_on_two_in_debug_and_in_release() -> None:
    one = simulated(BINARY, "--threads", "1")
    assert re.fullmatch("[0-9a-f]{64}", one)
    assert simulated(BINARY, "--threads", "2") == one
    assert DEBUG_BINARY.exists(), f"{DEBUG_BINARY} does not exist: `make test` builds it"
    assert simulated(DEBUG_BINARY) == one
    assert simulated(BINARY, "--flow", "paper", "--threads", "2") != one
