"""`pitwire explain` and private/pitwire_explain: the deciding rule, from the journal of a real
venue."""

import json
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from rpc import Http
from venue import DEMO_A, DEMO_B, OPERATOR, Venue, run_pitwire

SELL = {"instrument_name": "NPN_ZAR", "amount": 3, "price": 2900}


def explained(data: Path, *arguments: str) -> list[dict[str, Any]]:
    done = run_pitwire("explain", "--data", data, *arguments, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["notes"]


def ask(http: Http, order: str) -> list[dict[str, Any]]:
    """Asks until the look-up is done."""
    for _ in range(200):
        answer = http.result("private/pitwire_explain", {"order_id": order})
        assert answer["order_id"] == order
        if answer["state"] == "done":
            return answer["notes"]
        time.sleep(0.05)
    raise AssertionError("still looking")


def test_log_explains_each_step_of_an_order(data: Path) -> None:
    with Venue(data, extra=["--no-flow"]) as venue:
        seller, buyer = Http(venue.address, DEMO_A), Http(venue.address, DEMO_B)
        mine = seller.result("private/sell", SELL)["order"]["order_id"]
        theirs = seller.result("private/sell", SELL | {"price": 2901})["order"]["order_id"]
        taken = buyer.result("private/buy", SELL | {"amount": 2})["order"]["order_id"]
        live = ask(seller, mine)
        assert [note["what"] for note in live] == ["accepted", "trade", "rests"]
        # Only an operator may see the counterparty.
        assert "with" not in live[1]["numbers"]
        assert ask(Http(venue.address, OPERATOR), mine)[1]["numbers"]["with"] == int(taken)
        # Only an operator may ask about other members' orders.
        refused = buyer.call("private/pitwire_explain", {"order_id": mine})
        assert refused["error"]["data"]["name"] == "unknown_order"
        assert ask(Http(venue.address, OPERATOR), taken)[-1]["what"] == "filled"
        assert venue.stop() == 0
    notes = explained(data, "--order", mine)
    assert [note["what"] for note in notes] == ["accepted", "trade", "rests"]
    assert (notes[1]["rule"], notes[1]["numbers"]["open"]) == ("rulebook: 7.2", 1)
    assert (notes[2]["numbers"]["before"], notes[2]["rule"]) == (0, "rulebook: 7.1")
    behind = explained(data, "--order", theirs)[-1]
    assert (behind["numbers"]["before"], behind["numbers"]["before_lots"]) == (1, 1)
    assert explained(data, "--at", mine)[0]["what"] == "accepted"
    text = run_pitwire("explain", "--data", data, "--order", mine)
    assert text.returncode == 0
    assert "rests first in its side's priority" in text.stdout.splitlines()[-1]
    assert "3 NPN, limit" in text.stdout and "2 NPN at 2900.00 with order" in text.stdout
    raw = run_pitwire("explain", "--data", data, "--order", mine, "--raw")
    assert "3 lots, limit" in raw.stdout and "2 lots at 290000 with order" in raw.stdout


def test_notes_give_the_true_reason(data: Path) -> None:
    """Orders that are not active at once, a post-only order that moved, self-match prevention, and
    a session that takes no post-only orders."""
    with Venue(data, extra=["--no-flow", "--clock", "manual"]) as venue:
        alice, bob, operator = (Http(venue.address, who) for who in (DEMO_A, DEMO_B, OPERATOR))

        def entered(side: str, **more: Any) -> str:
            return alice.result(f"private/{side}", SELL | more)["order"]["order_id"]

        while alice.result("public/ticker", {"instrument_name": "AUC_ZAR"})["session"] != "continuous":
            alice.result("private/pitwire_advance", {"ns": 10_000_000_000})
        parked = entered("buy", instrument_name="AUC_ZAR", price=99, tif_ext="gfa")
        immediate = entered("buy", price=3000, time_in_force="immediate_or_cancel")
        bob.result("private/sell", SELL | {"price": 3250})
        moved = entered("buy", price=3260, post_only=True)
        crossing = entered("sell", price=3249.99)
        operator.result("private/pitwire_volatility_call", {"instrument_name": "NPN_ZAR"})
        error = alice.call("private/buy", SELL | {"post_only": True})["error"]
        assert error["data"]["name"] == "post_only_not_allowed"
        session = "the session is volatility_auction: only continuous trading takes post-only orders"
        assert error["data"]["reason"] == session
        refused = alice.result("private/pitwire_advance", {"ns": 0})["sequence"]
        assert venue.stop() == 0

    def first(order: str) -> str:
        note = explained(data, "--order", order)[0]
        assert note["what"] == "accepted" and "active at once" not in note["text"]
        return note["text"]

    assert "parked until its session begins" in first(parked)
    assert "trades at once; what does not trade expires" in first(immediate)
    notes = explained(data, "--order", moved)
    assert "Post-only moved its price from 3260.00 to 3249.99" in notes[0]["text"]
    assert (notes[-1]["what"], notes[-1]["numbers"]["mode"]) == ("cancelled", "cancel_resting")
    assert f"order {crossing}" in notes[-1]["text"] and "cancel_resting" in notes[-1]["text"]
    (note,) = explained(data, "--at", str(refused))
    why = "post_only_not_allowed: volatility_auction takes no post-only orders; continuous trading does"
    assert (note["what"], note["text"]) == ("rejected", why)


def test_times_are_those_of_the_venue(data: Path) -> None:
    """Johannesburg is two hours ahead of UTC."""
    block = {"instrument_name": "NPN_ZAR", "direction": "buy", "amount": 40, "price": 3210.5, "counterparty": "demo-b"}
    with Venue(data, extra=["--no-flow", "--clock", "manual"], preset="jse") as venue:
        alice = Http(venue.address, DEMO_A)
        report = alice.result("private/pitwire_report_trade", block)["report_id"]
        now_ns = int(alice.result("private/pitwire_advance", {"ns": 0})["venue_time_ns"])
        assert venue.stop() == 0
    local = datetime.fromtimestamp(now_ns // 10**9, UTC) + timedelta(hours=2)
    shown = run_pitwire("explain", "--data", data, "--order", report)
    assert shown.returncode == 0, shown.stderr
    # A manual clock stands still, so the report and the question have the same second.
    assert shown.stdout.splitlines()[0].startswith(f"{local:%Y-%m-%d %H:%M:%S}"), shown.stdout


def test_a_report_is_found_by_its_number(data: Path) -> None:
    block = {"instrument_name": "NPN_ZAR", "direction": "buy", "amount": 40, "price": 3210.5, "counterparty": "demo-b"}
    with Venue(data, extra=["--no-flow", "--clock", "manual"], preset="jse") as venue:
        alice, bob = (Http(venue.address, login) for login in (DEMO_A, DEMO_B))
        report = alice.result("private/pitwire_report_trade", block)["report_id"]
        own = alice.call("private/pitwire_confirm_report", {"report_id": report})
        assert own["error"]["data"]["name"] == "own_report"
        bob.result("private/pitwire_decline_report", {"report_id": report})
        assert [note["what"] for note in ask(bob, report)] == ["reported", "declined"]
        assert [note["what"] for note in ask(alice, report)] == ["reported", "answer refused", "declined"]
        assert venue.stop() == 0
    notes = explained(data, "--order", report)
    assert [(note["what"], note["rule"]) for note in notes] == [
        ("reported", "rulebook: 23.2"),
        ("answer refused", "rulebook: 23.4"),
        ("declined", "rulebook: 23.2"),
    ]
    assert (notes[1]["numbers"]["reason"], notes[1]["numbers"]["by"]) == ("own_report", "demo-a")
    assert (notes[0]["numbers"]["lots"], notes[0]["numbers"]["buyer"]) == (40, "demo-a")


def test_questions_in_turn_are_all_answered(data: Path) -> None:
    with Venue(data, extra=["--no-flow"]) as venue:
        askers = [Http(venue.address, who) for who in (DEMO_A, DEMO_B, OPERATOR)]
        orders = [http.result("private/sell", SELL)["order"]["order_id"] for http in askers[:2]]
        waiting = {0: orders[0], 1: orders[1], 2: orders[0]}
        for _ in range(100):
            for at, order in list(waiting.items()):
                answer = askers[at].result("private/pitwire_explain", {"order_id": order})
                if answer["state"] == "done":
                    assert answer["notes"][-1]["what"] == "rests"
                    del waiting[at]
            if not waiting:
                break
            time.sleep(0.05)
        assert not waiting
        assert venue.stop() == 0


def test_unknown_order_is_reported_in_one_line(data: Path) -> None:
    with Venue(data, extra=["--no-flow"]) as venue:
        assert venue.stop() == 0
    done = run_pitwire("explain", "--data", data, "--order", "999999999")
    assert done.returncode == 1
    assert "nothing concerns an order or report 999999999" in done.stderr
    done = run_pitwire("explain", "--data", data / "nowhere", "--order", "1")
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert run_pitwire("explain", "--data", data).returncode == 2
    assert run_pitwire("explain", "--data", data, "--order", "1", "--at", "2").returncode == 2
