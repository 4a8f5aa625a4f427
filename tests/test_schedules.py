"""Schedules: an exchange day at speed and by hand, restarts across boundaries, operators, bad
files."""

import contextlib
import csv
import json
import os
import random
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from rpc import Http, RpcError, Ws
from venue import BINARY, DEMO_A, OPERATOR, XYZ_MARKET, Venue, run_pitwire

DAY = [
    ("start_of_trading", "07:00"),
    ("opening_auction", "08:30"),
    ("continuous", "09:00"),
    ("intraday_auction", "12:00"),
    ("continuous", "12:15"),
    ("closing_auction", "16:50"),
    ("closing_price_publication", "17:00"),
    ("closing_price_cross", "17:05"),
    ("post_close", "17:10"),
]
SECOND = 1_000_000_000
JOHANNESBURG_S = 2 * 3600


def seconds(clock: str) -> int:
    hours, minutes = clock.split(":")
    return int(hours) * 3600 + int(minutes) * 60


def local(ms: int) -> int:
    """Seconds since midnight in Johannesburg."""
    return (ms // 1000 + JOHANNESBURG_S) % 86_400


def jse(data: Path, *extra: str) -> Venue:
    options = ["--no-flow", "--key-file", str(data.parent / "vault.key"), *extra]
    return Venue(data, extra=options, preset="jse")


def journaled(venue: Venue, *kinds: str) -> list[dict]:
    """Some kinds of events in the journal of a stopped venue, in order."""
    out = venue.data.parent / "exported"
    done = run_pitwire("export", venue.data, "--out", out)
    assert done.returncode == 0, done.stderr
    with (out / "events.csv").open(newline="") as lines:
        rows = [row for row in csv.DictReader(lines) if row["Type"] in (kinds or ("session_changed",))]
    for path in out.iterdir():
        path.unlink()
    fields = [json.loads(row["Fields"]) for row in rows]
    named = [{"instrument": int(row["SecurityId"] or -1), "time_ns": int(row["TimeNs"])} for row in rows]
    return [notice | more for notice, more in zip(fields, named, strict=True)]


@pytest.fixture(scope="module", autouse=True)
def day(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Future[list[dict]]]:
    """Collects the session messages of one instrument in a day at speed, while other tests run."""
    venue = jse(tmp_path_factory.mktemp("day") / "data", "--speed", "1000", "--durability", "memory")

    def notice() -> list[dict]:
        seen: list[dict] = []
        with Ws(venue.ws_url) as ws:
            ws.subscribe("session.CLH_ZAR")
            while not seen or seen[-1]["session"] != "post_close":
                notice = ws.notification("session.CLH_ZAR", timeout_s=90)
                if not seen or notice["begins"] != seen[-1]["begins"]:
                    seen.append(notice)
        return seen

    # The end of the venue ends the reader, if no test waited for the whole day.
    with ThreadPoolExecutor(1) as pool, venue:
        yield pool.submit(notice)


class Hand:
    """A venue with a manual clock."""

    def __init__(self, venue: Venue) -> None:
        self.http = Http(venue.address, OPERATOR)
        self.member = Http(venue.address, DEMO_A)

    def to(self, clock: str) -> None:
        now = int(self.http.result("private/pitwire_advance", {"ns": 0})["venue_time_ns"])
        ahead = seconds(clock) * SECOND - (now + JOHANNESBURG_S * SECOND) % (86_400 * SECOND)
        assert ahead >= 0, f"{clock} is over"
        # One hour is the longest step that the venue accepts.
        while ahead > 0:
            step = min(ahead, 3_600 * SECOND)
            self.http.result("private/pitwire_advance", {"ns": step})
            ahead -= step

    def session(self, name: str = "CLH_ZAR") -> str:
        return self.http.result("public/ticker", {"instrument_name": name})["session"]

    def close(self) -> None:
        self.http.close()
        self.member.close()


def operator(venue: Venue, *arguments: str) -> subprocess.CompletedProcess[str]:
    who = {"PITWIRE_CLIENT_ID": OPERATOR.client_id, "PITWIRE_CLIENT_SECRET": OPERATOR.secret}
    command = [BINARY, "operator", "--url", venue.ws_url, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=os.environ | who)


def test_operators_lead_an_instrument_and_a_segment_through_the_day(data: Path) -> None:
    with jse(data, "--clock", "manual") as venue:
        hand = Hand(venue)
        assert hand.session() == "start_of_trading"
        hand.to("08:31")
        assert hand.session() == "opening_auction"
        hand.to("10:00")
        assert {hand.session(name) for name in ("NPN_ZAR", "CLH_ZAR", "RBO_ZAR")} == {"continuous"}
        assert operator(venue, "halt", "--segment", "ZA03").returncode == 0
        assert [hand.session(name) for name in ("NPN_ZAR", "CLH_ZAR", "RBO_ZAR")] == ["continuous", "halt", "halt"]
        again = operator(venue, "halt", "CLH_ZAR")
        assert again.returncode == 1 and "cannot go into that session" in again.stderr
        hand.to("12:05")
        assert hand.session() == "halt", "a halt is its operator's to end"
        assert operator(venue, "resume", "CLH_ZAR").returncode == 0
        assert hand.session() == "intraday_auction"
        assert operator(venue, "reopen", "RBO_ZAR", "--seconds", "60").returncode == 0
        assert hand.session("RBO_ZAR") == "reopening_auction"
        hand.to("12:16")
        assert [hand.session(name) for name in ("CLH_ZAR", "RBO_ZAR")] == ["continuous", "continuous"]
        assert operator(venue, "volatility-call", "NPN_ZAR").returncode == 0
        assert operator(venue, "extend", "NPN_ZAR", "--seconds", "600").returncode == 0
        hand.to("12:25")
        assert hand.session("NPN_ZAR") == "volatility_auction"
        hand.to("12:27")
        assert hand.session("NPN_ZAR") == "continuous"
        assert operator(venue, "pause", "CLH_ZAR").returncode == 0
        hand.to("17:06")
        assert [hand.session("CLH_ZAR"), hand.session("NPN_ZAR")] == ["pause", "closing_price_cross"]
        assert operator(venue, "resume", "CLH_ZAR").returncode == 0
        hand.to("17:07")
        assert hand.session() == "closing_price_cross", "by way of the publication"
        hand.to("18:00")
        assert hand.session() == "post_close"
        hand.close()
        assert venue.stop() == 0
    sessions = [event for event in journaled(venue) if event["instrument"] == 8]
    passed = [event["to"] for event in sessions]
    assert passed[-4:] == ["pause", "closing_price_publication", "closing_price_cross", "post_close"]


def test_times_in_force_go_by_the_schedule(data: Path) -> None:
    with jse(data, "--clock", "manual") as venue:
        hand = Hand(venue)
        hand.to("10:00")

        def sell(name: str, tif: str, **more: object) -> str:
            params = {"instrument_name": name, "amount": 10, "price": 7.0 if name == "CLH_ZAR" else 3300.0}
            return hand.member.result("private/sell", params | {"tif_ext": tif} | more)["order"]["order_id"]

        sell("CLH_ZAR", "gfx")
        with pytest.raises(RpcError) as refused:
            sell("NPN_ZAR", "gfx")
        assert refused.value.error["data"]["name"] == "no_auction_scheduled", "no intraday call in this segment"
        now = int(hand.http.result("private/pitwire_advance", {"ns": 0})["venue_time_ns"])
        timed = sell("NPN_ZAR", "gtt", expires_at=now // 1_000_000 + 60_000)

        def state() -> str:
            return hand.member.result("private/get_order_state", {"order_id": timed})["order_state"]

        assert state() == "open"
        hand.http.result("private/pitwire_advance", {"ns": 60 * SECOND})
        assert state() in ("cancelled", "expired")
        hand.close()


def test_kills_across_each_boundary_repeat_nothing_and_leave_nothing_out(data: Path) -> None:
    expected = [name for name, _ in DAY]
    for clock in ("08:29", "08:45", "09:30", "12:01", "12:20", "16:55", "17:01", "17:06", "17:30"):
        with jse(data, "--clock", "manual") as venue:
            hand = Hand(venue)
            hand.to(clock)
            hand.close()
            venue.kill()
    passed = [event["to"] for event in journaled(venue) if event["instrument"] == 8]
    assert passed == expected


NAMES = ["NPN_ZAR", "AVI_ZAR", "CLH_ZAR", "RBO_ZAR", "BNS_ZAR", "STX_ZAR"]
VERBS = ["halt", "halt_and_close", "pause", "resume", "resume", "reopen", "volatility_call", "extend"]


def meddle(chance: random.Random, operators: Http, member: Http) -> None:
    """One random action of an operator, a member or the clock; a refusal is fine."""
    name = chance.choice(NAMES)
    what = chance.random()
    with contextlib.suppress(RpcError):
        if what < 0.45:
            whom = {"instrument_name": name} if chance.random() < 0.8 else {"segment": f"ZA0{chance.randint(1, 4)}"}
            verb = chance.choice(VERBS)
            length = {"seconds": chance.randint(1, 900)} if verb in ("reopen", "extend") else {}
            operators.result(f"private/pitwire_{verb}", whom | length)
        elif what < 0.6:
            ticker = member.result("public/ticker", {"instrument_name": name})
            tif = chance.choice(["day", "gtc", "gtt", "gfa", "gfx", "atc", "cpx", "opg", "ioc"])
            order = {"instrument_name": name, "amount": chance.randint(1, 20), "tif_ext": tif}
            order["price"] = round(ticker["last_price"] * chance.uniform(0.99, 1.01), 2)
            if tif == "gtt":
                order["expires_at"] = ticker["timestamp"] + chance.randint(1_000, 3_600_000)
            member.result(f"private/{chance.choice(['buy', 'sell'])}", order)
        else:
            operators.result("private/pitwire_advance", {"ns": chance.choice([1, 60, 600, 3_600]) * SECOND})


def test_log_passes_the_audit_after_random_operator_commands_and_kills(data: Path) -> None:
    seed = int(os.environ.get("TEST_SEED", "0")) or random.randrange(1, 1 << 32)
    print(f"TEST_SEED={seed}")
    chance = random.Random(seed)
    for _ in range(8):
        with Venue(
            data, extra=["--clock", "manual", "--key-file", str(data.parent / "vault.key")], preset="jse"
        ) as venue:
            operators, member = Http(venue.address, OPERATOR), Http(venue.address, DEMO_A)
            operators.result("private/pitwire_flow", {"action": "start", "rate_percent": 2})
            for _ in range(chance.randint(3, 60)):
                meddle(chance, operators, member)
            operators.close()
            member.close()
            venue.kill()
    verified = run_pitwire("verify", data)
    assert verified.returncode == 0, f"TEST_SEED={seed}: {verified.stderr}"
    # Each whole trading day publishes each instrument's closing price, unless operators interfere,
    # and ends.
    days: list[tuple[datetime, list[dict]]] = []
    for event in journaled(venue, "day_begun", "session_changed"):
        if "to" in event:
            days[-1][1].append(event)
        else:
            days.append((datetime.fromtimestamp(event["time_ns"] / SECOND, UTC), []))
    # The last day is incomplete; days that start on a Friday or Saturday evening have no sessions.
    for day, changes in days[:-1]:
        for instrument in range(0 if day.weekday() in (4, 5) and day.hour > 12 else 12):
            own = [event for event in changes if event["instrument"] == instrument]
            passed = [event["to"] for event in own]
            published = [event["reason"] for event in own if event["to"] == "closing_price_publication"]
            notice = f"TEST_SEED={seed}, day {day}, instrument {instrument}: {passed}"
            assert published and len([reason for reason in published if reason != "operator"]) <= 1, notice
            assert "post_close" in passed, notice


EVERY_FEW_SECONDS = f"""
[[schedule]]
name = "quick"
sessions = [{{ session = "intraday_auction", cron = "*/2 * * * * *", lasts = "1s" }}]

{XYZ_MARKET}schedule = "quick"
"""


def with_config(data: Path, text: str, *more: str) -> Venue:
    data.parent.mkdir(parents=True, exist_ok=True)
    config = data.parent / "pitwire.toml"
    config.write_text(text)
    return Venue(
        data, extra=["--no-flow", "--config", str(config), "--key-file", str(data.parent / "vault.key"), *more]
    )


def test_boundaries_that_passed_while_the_venue_was_down_are_journaled_as_missed(data: Path) -> None:
    with with_config(data, EVERY_FEW_SECONDS) as venue:
        time.sleep(1)
        venue.kill()
    # At least five boundaries. The last may be a call that still runs, which starts late.
    time.sleep(5.5)
    with with_config(data, EVERY_FEW_SECONDS) as venue:
        assert venue.stop() == 0
    sessions = [event for event in journaled(venue) if event["instrument"] == 11]
    missed = [event for event in sessions if event["reason"] == "missed"]
    assert len(missed) >= 4, sessions
    pairs = [(event["from"], event["to"]) for event in sessions[1:]]
    calls = {("continuous", "intraday_auction"), ("intraday_auction", "continuous")}
    assert set(pairs) <= calls, "each boundary once, in turn"


def test_the_demo_holds_an_auction_every_three_minutes(data: Path) -> None:
    with Venue(data, extra=["--clock", "manual", "--key-file", str(data.parent / "vault.key")]) as venue:
        http = Http(venue.address, OPERATOR)
        start = int(http.result("private/pitwire_advance", {"ns": 0})["venue_time_ns"])
        assert datetime.fromtimestamp(start / SECOND, UTC).minute % 3 == 0
        seen = set()
        for _ in range(13):
            seen.add(http.result("public/ticker", {"instrument_name": "AUC_ZAR"})["session"])
            http.result("private/pitwire_advance", {"ns": 15 * SECOND})
        assert seen == {"intraday_auction", "continuous"}
        http.close()
        assert venue.stop() == 0
    priced = [event for event in journaled(venue, "uncrossed") if event["instrument"] == 9]
    assert priced and all(event["call"] == "intraday_auction" for event in priced)


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ('from = "09:00" },\n{ session = "closing_auction", from = "08:00"', "pitwire.toml:5: "),
        ('from = "09:00", until = "16:00" },\n{ session = "closing_auction", from = "16:50"', "rule: gap"),
        ('from = "09:00", until = "17:00" },\n{ session = "closing_auction", from = "16:50"', "rule: overlap"),
        ('cron = "0 0 9 30 2 *"', "rule: cron-never"),
        ('from = "nine"', "rule: time"),
        ('from = "09:00" },\n{ session = "tea", from = "15:00"', "is no session"),
    ],
)
def test_a_schedule_that_cannot_be_kept_is_refused(data: Path, broken: str, says: str) -> None:
    data.parent.mkdir(parents=True, exist_ok=True)
    config = data.parent / "pitwire.toml"
    config.write_text(f'[[schedule]]\nname = "main"\nsessions = [\n{{ session = "continuous", {broken} }},\n]\n')
    refused = run_pitwire("up", "--data", data, "--http", "127.0.0.1:0", "--config", config)
    assert refused.returncode == 1 and says in refused.stderr, refused.stderr
    assert not (data / "configuration.json").exists()


@pytest.mark.parametrize("preset", ["demo", "jse", "crypto24x7"])
def test_half_days_work_with_every_preset(data: Path, preset: str) -> None:
    data.parent.mkdir(parents=True, exist_ok=True)
    config = data.parent / "pitwire.toml"
    config.write_text('[calendar]\nhalf_days = ["2026-12-24"]\n')
    options = ["--no-flow", "--clock", "manual", "--config", str(config)]
    with Venue(data, [*options, "--key-file", str(data.parent / "vault.key")], preset=preset) as venue:
        assert venue.stop() == 0


def test_another_schedule_on_an_old_directory_waits_to_be_applied(data: Path) -> None:
    with with_config(data, EVERY_FEW_SECONDS) as venue:
        assert venue.stop() == 0
    changed = EVERY_FEW_SECONDS.replace("*/2 *", "*/10 *") + "[instrument.rules]\nband_percent = 50\n"
    config = data.parent / "pitwire.toml"
    config.write_text(changed)
    key = str(data.parent / "vault.key")
    refused = run_pitwire("up", "--data", data, "--http", "127.0.0.1:0", "--config", config, "--key-file", key)
    assert refused.returncode == 1 and "other schedules" in refused.stderr and "--apply-config" in refused.stderr
    assert "other trading rules" in refused.stderr
    with with_config(data, changed, "--apply-config") as venue:
        assert venue.stop() == 0
    with with_config(data, changed) as venue:
        assert venue.stop() == 0
    rules = [event for event in journaled(venue, "trading_rules_set") if event["instrument"] == 11]
    assert len(rules) == 1


def test_a_day_of_the_exchange_at_speed(day: Future[list[dict]]) -> None:
    """Runs last in this file, because its day passes meanwhile."""
    seen = day.result()
    names = [notice["session"] for notice in seen]
    expected = [name for name, _ in DAY]
    assert names == expected[len(expected) - len(names) :] and len(names) >= 8
    for notice, (name, due) in zip(reversed(seen), reversed(DAY), strict=False):
        late = local(notice["begins"]) - seconds(due)
        assert notice["reason"] == "scheduled"
        assert name == "start_of_trading" or 0 <= late <= 31, (name, late)
