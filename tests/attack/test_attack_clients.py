"""Attacks on the programs that connect to others: a rogue bus, a rogue venue, a server that breaks
the WebSocket protocol, and texts of members in terminals and spreadsheets."""

import csv
import json
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from attack_table import FULL
from nats_server import Server
from raw_ws import TEXT, RawWs, Target
from rogue import INFO, RogueListener, RogueVenue, greet, greet_subscriber, read_to_end, read_until, upgrade
from rpc import Http
from venue import BINARY, DEMO_A, Venue, run_pitwire

MEBIBYTE = 1024 * 1024
PATIENCE_S = 60.0
CREDENTIALS = {"PITWIRE_CLIENT_ID": "demo-a", "PITWIRE_CLIENT_SECRET": "demo-a-secret"}
# A direction override, a C1 command, DEL, and an escape code that clears the screen.
STEERING = "\u202e\x9b31m\x7f\x1b[2J"
STEERS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]")
SECRET = "s3cr3t-word"


def eventually(what: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not is_so():
        assert time.monotonic() < deadline, f"not within {PATIENCE_S} s: {what}"
        time.sleep(0.01)


@contextmanager
def publishing(folder: Path, url: str, log: str = "info") -> Iterator[tuple["subprocess.Popen[str]", Path]]:
    """`pitwire publish --nats`: the process and its log."""
    written = folder / "publish.log"
    command = [BINARY, "publish", "--listen", "127.0.0.1:0", "--nats", url, "--json", "--ring", "256MiB"]
    command += ["--ready-file", folder / "publish.ready"]
    with written.open("wb") as errors:
        environment = os.environ | {"PITWIRE_LOG": log}
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment)
    try:
        yield process, written
    finally:
        process.kill()
        process.wait()


def peak_mib(process: "subprocess.Popen[str]") -> int:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) // 1024


@pytest.mark.attack("bus that drops every connection")
@pytest.mark.parametrize("after", ["accept", "greeting", "subscription"])
def test_publisher_reconnects_with_growing_pauses(tmp_path: Path, after: str) -> None:
    """The pauses are checked from below only, so a slow machine cannot fail this."""

    def attend(client: socket.socket) -> None:
        # The publisher starts only if the first handshake succeeds.
        if after == "subscription" or len(bus.arrivals) == 1:
            greet_subscriber(client)
        elif after == "greeting":
            client.sendall(INFO)
            read_until(client, b"CONNECT ")

    with RogueListener(attend) as bus, publishing(tmp_path, f"nats://{bus.address}") as (process, log):
        eventually("it connects five times", lambda: len(bus.arrivals) >= 6 or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        pauses = [after - before for before, after in zip(bus.arrivals, bus.arrivals[1:], strict=False)]
    # The bounds are 0.1, 0.2, 0.4, 0.8 and 1.6 s, and jitter takes half at most.
    for index, least_s in enumerate([0.05, 0.1, 0.2, 0.4, 0.8]):
        assert pauses[index] > 0.95 * least_s, pauses


@pytest.mark.attack("log of a program that knows a password of the bus")
def test_nats_password_is_in_no_log(tmp_path: Path, tries: Callable[[int], None]) -> None:
    sent: list[bytes] = []

    def attend(client: socket.socket) -> None:
        sent.append(greet(client))

    with RogueListener(attend) as bus:
        for login in (f"me:{SECRET}", SECRET):
            sent.clear()
            url = f"nats://{login}@{bus.address}"
            with publishing(tmp_path, url, log="trace") as (process, log):
                eventually("it logs in", lambda: bool(sent))
                eventually("it logs", lambda log=log: "connecting" in log.read_text())
                process.kill()
                assert process.stdout is not None
                output = log.read_text() + process.stdout.read()
            assert SECRET.encode() in sent[0], "the server gets it"
            assert SECRET not in output, output
            tries(1)


@pytest.mark.attack("log of a program that knows a password of the bus")
def test_refused_address_is_shown_without_its_password(tmp_path: Path, tries: Callable[[int], None]) -> None:
    publish = ["publish", "--listen", "127.0.0.1:0", "--nats"]
    buses = [f"me:{SECRET}@h:4222", f"nats:me:{SECRET}@h", f"http://me:{SECRET}@h", f"nats://me:{SECRET}/x@h"]
    feed = f"ws://me:{SECRET}@127.0.0.1:1/feed"
    commands = [[*publish, bus] for bus in [*buses, f"nats://me:{SECRET}@h:port"]]
    commands += [
        ["split", feed, "--workers", "2"],
        ["load", feed],
        ["tape", "record", feed, str(tmp_path / "recorded")],
    ]
    commands += [["trade", "orders", "--url", feed], ["relay", feed, "--faults", "random"]]
    for command in commands:
        ended = subprocess.run(
            [BINARY, *command],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env=os.environ | CREDENTIALS,
            check=False,
        )
        assert ended.returncode in (1, 2), (command, ended.stderr)
        assert "…@" in ended.stderr and SECRET not in ended.stderr, (command, ended.stderr)
        tries(1)


@pytest.mark.attack("escape codes of a bus or a feed")
def test_no_control_character_of_a_bus_reaches_the_terminal(tmp_path: Path, tries: Callable[[int], None]) -> None:
    refusal = f"-ERR 'no{STEERING}'\r\n".encode()

    def refuse(client: socket.socket) -> None:
        client.sendall(INFO)
        read_until(client, b"CONNECT ")
        client.sendall(refusal)
        read_to_end(client)

    def complain(client: socket.socket) -> None:
        greet_subscriber(client)
        client.sendall(refusal)
        read_to_end(client)

    with RogueListener(refuse) as bus:
        url = f"nats://{bus.address}"
        ended = run_pitwire("publish", "--listen", "127.0.0.1:0", "--nats", url)
    assert ended.returncode == 1 and "31m" in ended.stderr, ended.stderr
    assert not STEERS.search(ended.stderr), ended.stderr
    tries(1)
    for log in ("info", "trace"):
        with RogueListener(complain) as bus, publishing(tmp_path, f"nats://{bus.address}", log) as (process, written):
            eventually("it logs the error", lambda written=written: "31m" in written.read_text())
            process.kill()
            assert not STEERS.search(written.read_text()), written.read_text()
        tries(1)


@pytest.mark.attack("escape codes of a bus or a feed")
def test_no_control_character_of_a_feed_reaches_the_terminal(tmp_path: Path) -> None:
    reason = b"\x03\xf0no" + STEERING.encode()

    def attend(client: socket.socket) -> None:
        upgrade(client)
        client.sendall(bytes([0x88, len(reason)]) + reason)
        read_to_end(client)

    log = tmp_path / "split.log"
    with RogueListener(attend) as feed, log.open("wb") as written:
        command = [BINARY, "split", f"ws://{feed.address}/", "--workers", "2", "--json"]
        process = subprocess.Popen(command, stdout=written, stderr=written)
        try:
            eventually("it logs the reason", lambda: "31m" in log.read_text() or process.poll() is not None)
        finally:
            process.kill()
            process.wait()
    shown = log.read_text()
    assert "closed the connection with 1008" in shown and not STEERS.search(shown), shown


@pytest.mark.attack("message above the limit on the bus")
def test_message_of_the_bus_above_the_limit_is_refused_and_counted(tmp_path: Path) -> None:
    large = b"x" * (16 * MEBIBYTE + 1)

    def attend(client: socket.socket) -> None:
        number = greet_subscriber(client)
        eventually("a reader is there", lambda: bool(readers))
        for payload in (large, b'"small"', large, large[1:], b'"last"'):
            client.sendall(b"MSG a " + number + b" %d\r\n" % len(payload) + payload + b"\r\n")
        read_to_end(client)

    readers: list[RawWs] = []
    with RogueListener(attend) as bus, publishing(tmp_path, f"nats://{bus.address}") as (process, log):
        ready = tmp_path / "publish.ready"
        eventually("it serves", lambda: ready.exists() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        target = Target(json.loads(ready.read_text())["http"], "/", process.pid, echoes=False)
        with RawWs(target) as reader:
            readers.append(reader)
            got = [reader.until(TEXT) for _ in range(3)]
        assert [len(message) for message in got] == [7, 16 * MEBIBYTE, 6]
        process.terminate()
        out, _ = process.communicate(timeout=PATIENCE_S)
        assert json.loads(out)["too_large"] == 2, out
        assert "exceeds the limit" in log.read_text()


@pytest.mark.attack("message without an end on the bus")
@pytest.mark.parametrize("start", [b"MSG a 1 9999999999999\r\n", b"MSG "], ids=["payload", "line"])
def test_endless_message_of_the_bus_does_not_fill_the_memory(tmp_path: Path, start: bytes) -> None:
    floods: list[int] = []

    def attend(client: socket.socket) -> None:
        greet_subscriber(client)
        floods.append(0)
        client.sendall(start)
        block = b"y" * MEBIBYTE
        # The client has to end it; 4 GiB would fill a small machine.
        for _ in range(4096):
            client.sendall(block)
            floods[-1] += 1

    with RogueListener(attend) as bus, publishing(tmp_path, f"nats://{bus.address}") as (process, log):
        eventually("it gives up one and connects again", lambda: len(floods) >= 2 or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        # Measured: 396 MiB. The library reads ahead, and the rest of the machine decides how far.
        assert peak_mib(process) < 2048, f"{peak_mib(process)} MiB"


@pytest.mark.attack("garbage on the bus")
def test_publisher_survives_garbage_on_the_bus(tmp_path: Path, tries: Callable[[int], None]) -> None:
    garbage = [
        # The client library, async-nats 0.51, panics at this one.
        b"-ERR\r\n-ERR 'x'\r\n",
        b"\x00\xff\xfe\r\n",
        b"MSG\r\n",
        b"MSG a b c d e f\r\n",
        b"MSG a 1 -5\r\n",
        b"HMSG a 1 9 4\r\nabcd\r\n",
        b"HMSG a 1 4 4\r\n\xff\xff\r\n\r\n",
        b"INFO {\r\n",
        b"PONG\r\n" * 100,
    ]
    sent: list[bytes] = []

    def attend(client: socket.socket) -> None:
        greet_subscriber(client)
        if len(sent) < len(garbage):
            sent.append(garbage[len(sent)])
            client.sendall(sent[-1])

    few = garbage if FULL else garbage[:5]
    with RogueListener(attend) as bus, publishing(tmp_path, f"nats://{bus.address}") as (process, log):
        eventually("it gets all", lambda: len(sent) >= len(few) or process.poll() is not None)
        eventually("it connects again", lambda: len(bus.arrivals) > len(few) or process.poll() is not None)
        assert process.poll() is None and "panicked" not in log.read_text(), log.read_text()
        tries(len(few))


def test_login_in_the_address_reaches_a_nats_server_that_asks_for_it(tmp_path: Path) -> None:
    server = Server(tmp_path, "--user", "me", "--pass", "s/cret@1")
    address = server.url.removeprefix("nats://")
    try:
        for login, is_right in (("me:s%2Fcret%401@", True), ("me:wrong@", False), ("", False)):
            command = [BINARY, "publish", "--listen", "127.0.0.1:0", "--nats", f"nats://{login}{address}"]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            assert process.stdout is not None
            assert process.stdout.readline().startswith("Serving ws://") == is_right, login
            process.terminate()
            _, errors = process.communicate(timeout=PATIENCE_S)
            assert (process.returncode == 0) == is_right and "wrong" not in errors, errors
    finally:
        server.stop()


def steering_order(**more: Any) -> dict[str, Any]:
    order = {"order_id": "7", "instrument_name": "X" + STEERING, "direction": "buy", "price": 1.50}
    return order | {"label": "mine" + STEERING, "amount": 2} | more


def texts(value: Any) -> Iterator[str]:
    """All texts of a JSON value, with the names of fields."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list | dict):
        for inner in value.items() if isinstance(value, dict) else value:
            yield from texts(list(inner) if isinstance(inner, tuple) else inner)


@pytest.mark.attack("escape codes of a venue")
@pytest.mark.parametrize("how", ["text", "json"])
def test_no_control_character_of_a_venue_reaches_the_terminal(how: str, tries: Callable[[int], None]) -> None:
    refusal = {"code": 1, "message": "no" + STEERING, "data": {"remedy": "buy" + STEERING, "reason": STEERING}}
    results = {
        "private/get_open_orders": [steering_order()],
        "private/get_open_orders_by_instrument": [steering_order()],
        "private/buy": {"order": steering_order(), "trades": []},
        "private/cancel_all": "many" + STEERING,
        "private/cancel": steering_order(),
        "private/get_positions": [{"instrument_name": "P" + STEERING, "direction": "buy", "size": 1}],
        "private/get_account_summaries": {"summaries": [{"currency": "C" + STEERING, "balance": 1, "equity": 1}]},
        "private/pitwire_get_accounts": [{"name" + STEERING: "a" + STEERING}],
        "private/pitwire_status": {"k" + STEERING: "v" + STEERING},
    }
    trade = [["orders"], ["buy", "X", "1", "1"], ["cancel-all"], ["cancel", "7"], ["positions"], ["balance"]]
    commands = [["trade", *words] for words in trade] + [["operator", "accounts"], ["operator", "status"]]
    more = ["--json"] if how == "json" else []
    environment = os.environ | CREDENTIALS
    environment.pop("NO_COLOR", None)
    for errors in ({}, {"private/get_open_orders": refusal, "private/get_open_orders_by_instrument": refusal}):
        with RogueVenue(results, errors) as rogue:
            for words in commands if not errors else commands[:1]:
                ended = subprocess.run(
                    [BINARY, *words, *more, "--url", rogue.url],
                    capture_output=True,
                    text=True,
                    timeout=PATIENCE_S,
                    env=environment,
                    check=False,
                )
                assert ended.returncode == (1 if errors else 0), (words, ended.stderr)
                shown = ended.stdout + ended.stderr
                assert not STEERS.search(shown), (words, shown)
                if how == "json" and not errors:
                    assert any(STEERING in text for text in texts(json.loads(ended.stdout))), "the meaning stays"
                tries(1)


@pytest.mark.attack("answer above 16 MiB")
def test_trade_lists_more_orders_than_16_mib() -> None:
    orders = [steering_order(order_id=str(number), label="x" * 1000) for number in range(20_000)]
    with RogueVenue({"private/get_open_orders": orders}) as large:
        ended = subprocess.run(
            [BINARY, "trade", "orders", "--json", "--url", large.url, "--timeout", "60"],
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            env=os.environ | CREDENTIALS,
            check=False,
        )
    assert ended.returncode == 0, ended.stderr
    assert len(ended.stdout) > 16 * MEBIBYTE and len(json.loads(ended.stdout)) == 20_000


@pytest.mark.attack("server that breaks the WebSocket protocol")
@pytest.mark.parametrize(
    "frame",
    [
        b"\x81\x80\0\0\0\0",
        b"\xf1\x01x",
        b"\x83\x01x",
        b"\x09\x01x",
        b"\x81\xff" + b"\xff" * 8,
        b"\x80\x01x",
        b"\x81\x7e\0\x01x",
        b"\x88\x01x",
        b"\x88\x02\x03\xe7",
    ],
    ids=[
        "masked",
        "reserved bits",
        "unknown kind",
        "fragmented ping",
        "endless",
        "continuation of nothing",
        "long length",
        "half a close code",
        "close code 999",
    ],
)
def test_load_ends_with_its_own_code_on_a_protocol_violation(frame: bytes) -> None:
    def attend(client: socket.socket) -> None:
        upgrade(client)
        client.sendall(frame)
        read_to_end(client)

    with RogueListener(attend) as rogue:
        ended = run_pitwire("load", f"ws://{rogue.address}/", "--seconds", "0.2", "--json")
    assert ended.returncode == 3, (ended.returncode, ended.stderr)
    assert json.loads(ended.stdout)["breaches"] and "broke the WebSocket protocol" in ended.stderr


@pytest.mark.attack("rogue upstream of the splitter")
def test_splitter_survives_a_rogue_upstream(tmp_path: Path, tries: Callable[[int], None]) -> None:
    """Each connection gets one kind of garbage, then the next; a good feed follows and is split."""
    trade = b'[{"ev":"T","sym":"A","p":1}]'
    good = bytes([0x81, len(trade)]) + trade
    garbage = [
        b"\x81\x80\0\0\0\0",
        b"\xff\xff",
        b"\x81\xff" + b"\xff" * 8,
        b"\x81\x04[{]}",
        b"\x81\x02[[",
        b"\x82\x03\xff\xfe\xfd",
        b"\x88\x01\x03",
        b"",
    ]
    garbage = garbage if FULL else garbage[:4]
    connections: list[int] = []

    def attend(client: socket.socket) -> None:
        at = len(connections)
        connections.append(at)
        upgrade(client)
        # The first connection is a good one: the splitter does not start on garbage.
        client.sendall(good + garbage[at] if at < len(garbage) else good * 10)
        if at >= len(garbage):
            read_to_end(client)

    with RogueListener(attend) as rogue:
        command = [BINARY, "split", f"ws://{rogue.address}/", "--workers", "2", "--json"]
        command += ["--limit-trades", str(len(garbage) + 10)]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0 and "panicked" not in ended.stderr, ended.stderr
    assert json.loads(ended.stdout)["trades"] == len(garbage) + 10
    tries(len(garbage))


LABELS = ["=1+1", "+1", "-1", "@sum", "'quoted", "plain", "=a,b"]


@pytest.mark.attack("formula in a label")
def test_formula_in_a_label_is_a_text_in_the_csv(data: Path, tmp_path: Path) -> None:
    with Venue(data, ["--no-flow"]) as venue:
        member = Http(venue.address, DEMO_A)
        for price, label in enumerate(LABELS, 1000):
            order = {"instrument_name": "NPN_ZAR", "amount": 1, "type": "limit", "price": price, "label": label}
            member.result("private/buy", order)
        assert venue.stop() == 0
    done = run_pitwire("export", data, "--out", tmp_path / "tables")
    assert done.returncode == 0, done.stderr
    with (tmp_path / "tables/orders.csv").open(newline="") as table:
        labels = [row["Label"] for row in csv.DictReader(table)]
    assert labels == ["'=1+1", "'+1", "'-1", "'@sum", "''quoted", "plain", "'=a,b"]
    assert [label.removeprefix("'") for label in labels] == LABELS


@pytest.mark.attack("kill -9 of an export")
def test_killed_export_leaves_nothing_that_disturbs_the_next(data: Path, tmp_path: Path) -> None:
    """A killed export leaves its directory; the next one removes it, whatever its process
    number."""
    with Venue(data, preset="demo", warm_up="2h") as venue:
        assert venue.stop() == 0
    out = tmp_path / "tables"
    process = subprocess.Popen([BINARY, "export", data, "--out", out], stdout=subprocess.DEVNULL)
    eventually("it has begun", lambda: bool(list(tmp_path.glob(".tables.unfinished-*"))) or out.exists())
    process.kill()
    process.wait()
    # In a container every export may have the same process number.
    for number in (1, process.pid):
        (tmp_path / f".tables.unfinished-{number}").mkdir(exist_ok=True)
    shutil.rmtree(out, ignore_errors=True)
    done = run_pitwire("export", data, "--out", out)
    assert done.returncode == 0, done.stderr
    assert not list(tmp_path.glob(".tables.unfinished-*"))
    assert (out / "orders.csv").exists()
