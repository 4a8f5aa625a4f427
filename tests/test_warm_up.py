"""The warm-up of a fresh venue: simulated trading before the first client, journaled like the
rest."""

from pathlib import Path

import pytest
from rpc import Http
from venue import DEMO_A, OPERATOR, Venue, run_pitwire

MINUTE_MS = 60_000
# Issue: at most 50 MB on disk for six hours.
MOST_BYTES = 50_000_000


def candles(http: Http, instrument: str, minutes: int) -> list[int]:
    now = http.result("public/ticker", {"instrument_name": instrument})["timestamp"]
    span = {"start_timestamp": now - minutes * MINUTE_MS, "end_timestamp": now}
    chart = http.result("public/get_tradingview_chart_data", {"instrument_name": instrument, "resolution": "1", **span})
    return chart["ticks"]


def test_a_fresh_demo_has_six_hours_of_candles_on_little_disk(data: Path) -> None:
    with Venue(data, warm_up=None) as venue:
        http = Http(venue.address)
        for instrument in ["NPN_ZAR", "BTC_USDC", "BTC-PERPETUAL"]:
            assert len(candles(http, instrument, 360)) >= 200, instrument
        ranges = []
        for instrument in http.result("public/get_instruments", {"currency": "any"}):
            stats = http.result("public/ticker", {"instrument_name": instrument["instrument_name"]})["stats"]
            assert stats["volume"] > 0
            ranges.append(stats["high"] / stats["low"] - 1)
        # The value moves 0.9 basis points in a second, so its range over six hours is about 2 %. At
        # the moves of one percent of the events it would be 0.2 %.
        assert sum(ranges) / len(ranges) > 0.006, ranges
        assert venue.stop() == 0
    # The journal allocates its newest segment ahead. It is empty so far.
    ahead = max(data.glob("journal-*.seg"))
    used = sum(file.stat().st_size for file in data.rglob("*") if file.is_file() and file != ahead)
    assert used <= MOST_BYTES, f"{used} bytes"
    verified = run_pitwire("verify", data)
    assert verified.returncode == 0, verified.stderr


def test_crypto24x7_has_six_hours_of_candles_too(data: Path) -> None:
    with Venue(data, preset="crypto24x7", warm_up=None) as venue:
        assert len(candles(Http(venue.address), "BTC_USDC", 360)) >= 200


@pytest.mark.parametrize(("preset", "extra"), [("demo", ["--no-flow"]), ("jse", [])])
def test_no_warm_up_is_the_default_without_flow_and_with_sessions(data: Path, preset: str, extra: list[str]) -> None:
    with Venue(data, [*extra, "--clock", "manual"], preset, warm_up=None) as venue:
        http = Http(venue.address)
        for instrument in http.result("public/get_instruments", {"currency": "any"}):
            assert candles(http, instrument["instrument_name"], 360) == []


def test_a_second_start_simulates_nothing_more(data: Path) -> None:
    with Venue(data, ["--clock", "manual"], warm_up="10m") as venue:
        before = Http(venue.address, OPERATOR).result("private/pitwire_status")["sequence"]
        assert venue.stop() == 0
        venue.start()
        after = Http(venue.address, OPERATOR).result("private/pitwire_status")["sequence"]
    # A start journals its epoch and the setting of the flow. A manual clock adds no hours of
    # trading.
    assert after - before < 100 < before


def test_two_warm_ups_with_one_seed_give_one_tape(tmp_path: Path) -> None:
    def tape(name: str) -> str:
        with Venue(tmp_path / name, ["--clock", "manual", "--seed", "11"], warm_up="10m") as venue:
            http = Http(venue.address, DEMO_A)
            assert len(candles(http, "NPN_ZAR", 10)) >= 5
            return http.result("private/pitwire_advance", {"ns": 0})["tape_hash"]

    assert tape("first") == tape("second")


def test_a_warm_up_without_flow_is_refused(data: Path) -> None:
    refused = run_pitwire("up", "--data", data, "--warm-up", "1h", "--no-flow")
    assert refused.returncode == 2
    assert "--warm-up needs the order flow" in refused.stderr


@pytest.mark.parametrize("length", ["25h", "6", "-1h", "soon", ""])
def test_invalid_length_is_refused_with_examples(data: Path, length: str) -> None:
    refused = run_pitwire("up", "--data", data, f"--warm-up={length}")
    assert refused.returncode == 2
    assert "such as 30m or 6h, or 0 for none" in refused.stderr
    assert not data.exists()
