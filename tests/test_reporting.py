"""Off-book trades in a day of the Johannesburg exchange: over the API, a kill, an export, an
audit."""

import json
from pathlib import Path

from rpc import Http, RpcError
from venue import DEMO_A, DEMO_B, Venue, run_pitwire

BLOCK = {"instrument_name": "NPN_ZAR", "direction": "buy", "amount": 40, "price": 3210.5, "counterparty": "demo-b"}
HOUR_NS = 3_600 * 1_000_000_000


def test_a_block_is_reported_confirmed_and_survives(tmp_path: Path) -> None:
    venue = Venue(tmp_path / "data", ["--no-flow", "--clock", "manual"], preset="jse")
    with venue:
        alice, bob = (Http(venue.address, login) for login in (DEMO_A, DEMO_B))
        state = alice.result("public/pitwire_get_off_book", {"instrument_name": "NPN_ZAR"})
        # The day starts at 08:25; reporting is open until 18:15, which is 16:15 UTC.
        assert state["trade_reporting"] == "open"
        assert state["ends"] // 1000 % 86_400 == 16 * 3600 + 15 * 60
        waiting = alice.result("private/pitwire_report_trade", BLOCK)
        assert waiting["report_state"] == "waiting"
        venue.kill()
    with venue:
        alice, bob = (Http(venue.address, login) for login in (DEMO_A, DEMO_B))
        (asked,) = bob.result("private/pitwire_get_reports", {"waiting": True})
        assert asked["report_id"] == waiting["report_id"]
        assert (asked["direction"], asked["counterparty"]) == ("sell", "demo-a")
        before = bob.result("private/get_account_summary", {"currency": "ZAR"})["balance"]
        done = bob.result("private/pitwire_confirm_report", {"report_id": asked["report_id"]})
        assert (done["report_state"], done["off_book_seq"]) == ("confirmed", 1)
        assert bob.result("private/get_account_summary", {"currency": "ZAR"})["balance"] == before + 128_420
        assert alice.result("private/get_account_summary", {"currency": "NPN"})["balance"] == 10_040
        assert alice.result("public/get_last_trades_by_instrument", {"instrument_name": "NPN_ZAR"})["trades"] == []
        late = alice.result("private/pitwire_report_trade", BLOCK)["report_id"]
        # After 18:15 the venue day has changed: pending reports have ended, and new ones are
        # refused.
        for _ in range(10):
            alice.result("private/pitwire_advance", {"ns": HOUR_NS})
        (newest, *_) = alice.result("private/pitwire_get_reports", {})
        assert (newest["report_id"], newest["report_state"]) == (late, "hours_ended")
        try:
            alice.result("private/pitwire_report_trade", BLOCK)
            raise AssertionError("reported outside the hours")
        except RpcError as refused:
            assert refused.error["data"]["name"] == "reporting_closed"
        assert venue.stop() == 0
    verified = run_pitwire("verify", tmp_path / "data", "--json")
    assert verified.returncode == 0, verified.stderr
    exported = run_pitwire("export", tmp_path / "data", "--out", tmp_path / "out")
    assert exported.returncode == 0, exported.stderr
    events = "\n".join(path.read_text() for path in (tmp_path / "out").rglob("*events*.csv"))
    for word in ("TradeReported", "OffBookTrade", "ReportEnded", "ReportingChanged"):
        assert word in events or word.lower() in events.lower().replace("_", ""), word
    assert json.loads(verified.stdout)["trades"] == 0, "none of the book"
