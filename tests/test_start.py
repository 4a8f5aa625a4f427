"""Starting and stopping: locks, ports, ready files, clean ends, and damaged journals."""

import json
import re
import socket
from pathlib import Path

import pytest
from rpc import Http
from venue import DEMO_A, OPENING_BALANCES, TOP, Venue, run_pitwire

PADDING = 0xA5


def refusal(data: Path, *more: str | Path) -> str:
    """The error of an `up` that fails: it must exit with 1 and one clear line on stderr."""
    ended = run_pitwire("up", "--preset", "demo", "--data", data, "--http", "127.0.0.1:0", *more, timeout_s=30)
    assert ended.returncode == 1, (ended.returncode, ended.stderr)
    assert ended.stderr.strip(), "a refusal says why"
    return ended.stderr


def equities(venue: Venue) -> dict[str, float]:
    summaries = Http(venue.address, DEMO_A).result("private/get_account_summaries")["summaries"]
    return {summary["currency"]: summary["equity"] for summary in summaries}


def test_a_fresh_venue_holds_the_balances_of_the_preset(data: Path) -> None:
    with Venue(data) as venue:
        held = equities(venue)
        assert {currency: held[currency] for currency in OPENING_BALANCES} == OPENING_BALANCES


def test_empty_directory_is_accepted(data: Path) -> None:
    data.mkdir(parents=True)
    with Venue(data) as venue:
        assert Http(venue.address).get("/healthz").status == 200


@pytest.mark.parametrize("text", [b"", b"\xff\xfe", b"{}"], ids=["empty", "not-utf8", "of-nothing"])
def test_a_damaged_stored_configuration_does_not_prevent_the_start(data: Path, text: bytes) -> None:
    with Venue(data) as venue:
        before = equities(venue)
        assert venue.stop() == 0
        remembered = (data / "configuration.json").read_bytes()
        (data / "configuration.json").write_bytes(text)
        venue.start()
        assert equities(venue) == before
        assert venue.stop() == 0
    assert (data / "configuration.json").read_bytes() == remembered


def test_sigterm_ends_with_zero_and_everything_is_there_next_time(data: Path) -> None:
    with Venue(data) as venue:
        http = Http(venue.address, DEMO_A)
        limit = {"instrument_name": "NPN_ZAR", "amount": 3, "type": "limit", "price": 2000, "label": "kept"}
        order = http.result("private/buy", limit)["order"]
        http.result("private/buy", {"instrument_name": "MTN_ZAR", "amount": 2, "type": "market"})
        before = equities(venue)
        assert venue.stop() == 0
        venue.start()
        http = Http(venue.address, DEMO_A)
        kept = http.result("private/get_order_state", {"order_id": order["order_id"]})
        assert (kept["order_state"], kept["label"], kept["amount"]) == ("open", "kept", 3)
        assert kept["creation_timestamp"] == order["creation_timestamp"]
        assert equities(venue) == before
        later = http.result("private/buy", limit)["order"]["order_id"]
        assert later != order["order_id"], "numbers go on where they were"
        assert venue.stop() == 0
    verified = run_pitwire("verify", data, "--json")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert {"commands", "events", "orders", "trades", "tape_hash"} <= json.loads(verified.stdout).keys()


def test_a_second_start_on_the_same_data_is_refused_without_harm(data: Path) -> None:
    with Venue(data) as venue:
        message = refusal(data)
        assert re.search("lock|in use|already running", message), message
        assert str(data) in message, "it names the directory"
        assert venue.alive() and Http(venue.address).get("/healthz").status == 200
        venue.kill()
        venue.start()  # the lock of a dead process is not in the way


def test_port_in_use_is_reported_with_a_remedy(data: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = run_pitwire("up", "--preset", "demo", "--data", data, "--http", address, timeout_s=30)
    assert ended.returncode == 1
    assert address in ended.stderr and "in use" in ended.stderr.lower(), ended.stderr


def test_an_old_ready_file_goes_before_anything_else(data: Path, tmp_path: Path) -> None:
    ready = tmp_path / "ready.json"
    ready.write_text('{"http":"127.0.0.1:1","pid":1}')
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        options = ["up", "--preset", "demo", "--data", data, "--http", address, "--ready-file", ready]
        assert run_pitwire(*options, timeout_s=30).returncode == 1
    assert not ready.exists()


def test_a_data_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.write_text("not a directory")
    assert str(data) in refusal(data)
    assert run_pitwire("verify", data).returncode == 1


@pytest.mark.parametrize("name", ["nowhere", "empty"])
def test_verify_of_nothing_fails(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    ended = run_pitwire("verify", tmp_path / name)
    assert ended.returncode == 1 and str(tmp_path / name) in ended.stderr


@pytest.mark.parametrize(
    "options",
    [
        ["up", "--http"],
        ["up", "--tls"],
        ["gateway", "--upstream", "nats://127.0.0.1:1", "--http"],
        ["publish", "--echo", "--listen"],
        ["tape", "serve", "--synthetic", "--listen"],
        ["split", "ws://127.0.0.1:1/", "--listen"],
        ["order-bench", "--venue"],
    ],
)
def test_a_name_where_an_address_is_wanted_gets_the_address_as_remedy(options: list[str]) -> None:
    ended = run_pitwire(*options, "localhost:8123")
    assert ended.returncode == 2 and "127.0.0.1:8123" in ended.stderr and ended.stderr.count("\n") == 1, ended.stderr


# Damage. The rule (decisions.md, Journal): at or below the durable watermark it is refused with its
# position.


def traded(data: Path, clean: bool) -> Path:
    """A data directory with a little history, and its newest segment with content."""
    with Venue(data) as venue:
        http = Http(venue.address, DEMO_A)
        for number in range(100):
            buy = {"instrument_name": "NPN_ZAR", "amount": 1, "type": "limit", "price": 2000 + number}
            http.result("private/buy", buy)
        if clean:
            assert venue.stop() == 0
        else:
            venue.kill()
    segments = sorted(data.rglob("journal-*.seg"))
    return next(segment for segment in reversed(segments) if used(segment) > 0)


def used(segment: Path) -> int:
    """Bytes up to the last nonzero byte."""
    return len(segment.read_bytes().rstrip(b"\0"))


def assert_refused_with_position(data: Path, segment: Path) -> None:
    verified = run_pitwire("verify", data)
    assert verified.returncode == 1, verified.stdout
    for message in (refusal(data), verified.stderr):
        assert segment.name in message, f"it names the segment: {message}"
        assert re.search(r"(byte|offset) \d+", message), f"and the offset: {message}"


# After a clean end the newest snapshot covers the whole log, but the log was acknowledged all the
# same.
@pytest.mark.parametrize(("place", "clean"), [(0.25, False), (0.5, False), (0.75, False), (0.5, True)])
def test_a_flipped_byte_in_the_middle_is_refused_with_its_position(data: Path, place: float, clean: bool) -> None:
    segment = traded(data, clean)
    content = bytearray(segment.read_bytes())
    at = int(used(segment) * place)
    while content[at] in (0, PADDING):
        at += 1
    content[at] ^= 0x40
    segment.write_bytes(content)
    assert_refused_with_position(data, segment)


def test_a_tail_cut_off_after_a_clean_end_is_refused_with_its_position(data: Path) -> None:
    segment = traded(data, clean=True)
    with segment.open("r+b") as file:
        file.truncate(used(segment) // 2)
    assert_refused_with_position(data, segment)


def test_tail_of_zeros_counts_as_no_tail(data: Path) -> None:
    segment = traded(data, clean=False)
    size = used(segment)
    with segment.open("r+b") as file:
        file.truncate(size - size % -4096)
    with Venue(data) as venue:
        assert len(Http(venue.address, DEMO_A).result("private/get_open_orders")) == 100
        assert venue.stop() == 0
    assert run_pitwire("verify", data).returncode == 0


def test_a_missing_segment_is_refused(data: Path) -> None:
    segment = traded(data, clean=False)
    segment.unlink()
    assert run_pitwire("verify", data).returncode == 1
    assert refusal(data)


def test_no_data_is_left_in_the_checkout() -> None:
    assert not (TOP / "tests" / "pitwire-data").exists()
