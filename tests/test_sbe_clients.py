"""The reference clients of binary order entry and of the order-by-order feed, each as a program
against the real binary."""

import fcntl
import json
import os
import re
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from itertools import product
from pathlib import Path

import pytest
from order_gateways import free_port
from rpc import Http, until
from sbe_faults import DatagramRelay, FrameRelay, read_frame
from test_order_feed import venue_books
from test_sbe import INSTRUMENT, OPTIONS, instrument_id, sbe_address
from venue import BINARY, DEBUG_BINARY, DEMO_A, DEMO_B, TOP, Venue

PATIENCE_S = 120.0
# Maven may have to fetch what a package needs.
TIMEOUT_S = 900
LOST = 0.02
ACCOUNTS = [f"{who.client_id}:{who.secret}" for who in (DEMO_A, DEMO_B)]
PRICE = "3200"


def run(command: list[str], timeout_s: float = TIMEOUT_S, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=cwd, capture_output=True, text=True, timeout=timeout_s, check=False, stdin=subprocess.DEVNULL
    )


def need(*programs: str) -> None:
    if missing := [program for program in programs if not shutil.which(program)]:
        pytest.skip(f"{', '.join(missing)} missing")


def build(place: Path, package: str, *command: str) -> Path:
    """Builds a copy of a package once for all workers of pytest. Returns its directory."""
    place.mkdir(exist_ok=True)
    built = place / "clients" / package
    with (place / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (built / "built").exists():
            shutil.copytree(TOP / "contracts", place / "contracts", dirs_exist_ok=True)
            ignored = shutil.ignore_patterns("target", "build")
            for name in {package, "java-sbe"}:
                shutil.copytree(TOP / "clients" / name, place / "clients" / name, ignore=ignored, dirs_exist_ok=True)
            done = run([*command], cwd=built)
            assert done.returncode == 0, done.stdout + done.stderr
            (built / "built").touch()
    return built


def java(place: Path) -> list[str]:
    need("javac", "mvn")
    return ["java", "-jar", str(build(place, "java-sbe", "mvn", "-q", "-B", "package") / "target/pitwire-sbe.jar")]


def cpp(place: Path) -> list[str]:
    need("g++", "make", "javac", "mvn")
    return [str(build(place, "cpp", "make", "-s", "-j2", "CXXFLAGS=-std=c++17 -Wall -Wextra") / "build/pitwire-sbe")]


def rust(_: Path) -> list[str]:
    """`cargo test` has built the program beside the venue."""
    built = [binary.with_name("pitwire-sbe") for binary in (BINARY, DEBUG_BINARY)]
    if not any(program.exists() for program in built):
        need("cargo")
        done = run(["cargo", "build", "-q", "--locked", "-p", "pitwire-binary-client"], cwd=TOP)
        assert done.returncode == 0, done.stdout + done.stderr
    return [str(next(program for program in built if program.exists()))]


CLIENTS: dict[str, Callable[[Path], list[str]]] = {"java": java, "cpp": cpp, "rust": rust}


@pytest.fixture(scope="module", params=CLIENTS)
def client(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The command of a client."""
    base = tmp_path_factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    return CLIENTS[request.param](shared / "sbe-clients")


@pytest.fixture
def venue(data: Path) -> Iterator[Venue]:
    with Venue(data, [*OPTIONS, "--sbe", "127.0.0.1:0"]) as running:
        yield running


def orders(client: list[str], venue: Venue, address: str, accounts: list[str]) -> subprocess.CompletedProcess[str]:
    return run([*client, "orders", address, str(instrument_id(venue)), PRICE, *accounts], PATIENCE_S)


@pytest.mark.timeout(TIMEOUT_S)
def test_order_lives_through_lost_messages_and_cut_connections(client: list[str], venue: Venue) -> None:
    with FrameRelay(sbe_address(venue), drop=2, cut=5) as relay:
        check_life(orders(client, venue, relay.address, ACCOUNTS), relay, venue)


def check_life(ended: subprocess.CompletedProcess[str], relay: FrameRelay, venue: Venue) -> None:
    """Checks the output of `orders` through a relay that dropped, cut and lost a message."""
    check_output(ended, venue)
    assert relay.done == {"drop", "cut", "lost amend"}
    assert relay.retransmit_requests > 0
    assert relay.resumed[:2] == [0, 0] and all(number > 1 for number in relay.resumed[2:])
    assert len(relay.resumed) >= 4


def check_output(ended: subprocess.CompletedProcess[str], venue: Venue) -> None:
    """Checks the output of `orders`, and its trade."""
    assert ended.returncode == 0, ended.stdout + ended.stderr
    lines = ended.stdout.splitlines()
    order = re.findall(r"order (\d+)", lines[0])[0]
    life = [line.replace(order, "1") for line in lines if re.match(f"demo-a (accepted|report) order {order} ", line)]
    buy = f"Buy price {PRICE}"
    # Answers and reports have two sources in the venue, so only their sets are fixed.
    assert sorted(life) == sorted(
        [
            "demo-a accepted order 1 Open quantity 10 filled 0",
            f"demo-a report order 1 New Open {buy} filled 0 last none @ none",
            f"demo-a report order 1 Trade Open {buy} filled 4 last 4 @ {PRICE}",
            "demo-a accepted order 1 Open quantity 12 filled 4",
            f"demo-a report order 1 Amended Open {buy} filled 4 last none @ none",
            "demo-a accepted order 1 Cancelled quantity 12 filled 4",
            f"demo-a report order 1 Cancelled Cancelled {buy} filled 4 last none @ none",
        ]
    )
    for line in (
        f"demo-a best bid 8 @ {PRICE} ask none @ none",
        f"demo-a level Buy 8 @ {PRICE}",
        f"demo-a vwap trades {PRICE} bid {PRICE} ask none",
        "demo-a status continuous open",
        "demo-a cancelled 2 orders",
    ):
        assert lines.count(line) == 1, ended.stdout
    assert any(line.startswith("demo-a reject 10010 already_closed: ") for line in lines)
    http = Http(venue.address, DEMO_A)
    assert http.result("private/get_open_orders") == []
    trades = http.result("public/get_last_trades_by_instrument", {"instrument_name": INSTRUMENT})["trades"]
    assert [(trade["price"], trade["amount"]) for trade in trades] == [(float(PRICE), 4)]


def read_books(process: subprocess.Popen[str]) -> dict[str, dict[str, list[list[float]]]]:
    """Asks a feed handler for its books."""
    assert process.stdin and process.stdout
    process.stdin.write("\n")
    process.stdin.flush()
    books: dict[str, dict[str, list[list[float]]]] = {}
    for line in process.stdout:
        if line.startswith("books after message"):
            return books
        name, side, amount, _, price = line.split()
        books.setdefault(name, {"bids": [], "asks": []})[side + "s"].append([float(price), float(amount)])
    raise AssertionError("the feed handler has ended")


@pytest.mark.timeout(TIMEOUT_S)
def test_feed_handler_rebuilds_the_books_from_lossy_lines_and_after_a_restart(client: list[str], data: Path) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as a, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as b:
        for free in (a, b):
            free.bind(("127.0.0.1", 0))
        ports = [free.getsockname()[1] for free in (a, b)]
    relays = [DatagramRelay(port, LOST, seed) for seed, port in enumerate(ports)]
    lines = ",".join(relay.address for relay in relays)
    recovery = f"127.0.0.1:{free_port()}"
    options = ["--clock", "manual", "--durability", "memory", "--order-feed", lines, "--order-feed-recovery", recovery]
    command = [*client, "feed", ",".join(f"127.0.0.1:{port}" for port in ports), recovery]
    with (
        Venue(data, options) as venue,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process,
    ):
        try:
            assert process.stdout and process.stdin
            assert process.stdout.readline().startswith("joined after message ")
            follow(venue, process, steps=6)
            # The messages of the next start have the same numbers.
            venue.kill()
            venue.start()
            follow(venue, process, steps=2)
            process.stdin.close()
            assert process.wait(PATIENCE_S) == 0
        finally:
            process.kill()
    assert all(relay.dropped > 0 for relay in relays)
    for relay in relays:
        relay.close()


def follow(venue: Venue, process: subprocess.Popen[str], steps: int) -> None:
    """Lets time pass, and waits after each step for the venue's books in the feed handler."""
    with closing(Http(venue.address, DEMO_A)) as http:
        for _ in range(steps):
            http.result("private/pitwire_advance", {"ns": 5_000_000_000})
            expected = {name: book for name, book in venue_books(http).items() if book["bids"] or book["asks"]}
            until(lambda: read_books(process) == expected, "the venue's books")  # noqa: B023


@pytest.mark.timeout(TIMEOUT_S)
def test_benchmark_has_a_row_for_each_loop_and_transport(
    client: list[str], venue: Venue, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    orders, rounds, rate = 220, 1, 1_000
    market = [str(instrument_id(venue)), PRICE, str(rate), str(orders), str(rounds)]
    if client[0] == "java":
        # One account by SBE, and one by JSON.
        transports, clients = {"TCP ping-pong", "SBE over TCP", "JSON"}, {"1"}
        client = [client[0], f"-Dhistograms={tmp_path / 'histograms'}", *client[1:]]
        ended = run([*client, "bench", sbe_address(venue), venue.ws_url, INSTRUMENT, *market, *ACCOUNTS], PATIENCE_S)
    else:
        transports, clients = {"TCP ping-pong", "SBE"}, {"1", "2"}
        if request.node.callspec.id == "rust":
            transports.add("TCP ping-pong, polling")
        ended = run([*client, "bench", sbe_address(venue), *market, *ACCOUNTS], PATIENCE_S)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    head, _, *lines = [[cell.strip() for cell in line.strip("|").split("|")] for line in ended.stdout.splitlines()]
    assert head[:3] == ["loop", "clients", "transport"]
    rows = {tuple(line[:3]): dict(zip(head, line, strict=True)) for line in lines}
    assert len(rows) == len(lines)
    assert rows.keys() == set(product(("closed", "open"), clients, transports))
    for row in rows.values():
        # 220 values allow p50, and not p90.
        assert float(row["p50"]) > 0 and row["p90"] == row["p99.99"] == "\u2013", row
        assert row.get("orders", str(orders)) == str(orders)
    if client[0] == "java":
        files = {"-".join(row).replace(" ", "-") + ".hgrm" for row in rows}
        assert {file.name for file in (tmp_path / "histograms").iterdir()} == files
        for name in files:
            counts = re.findall(r"Total count += +(\d+)", (tmp_path / "histograms" / name).read_text())
            assert counts == [str(orders)]
    for who in (DEMO_A, DEMO_B):
        assert Http(venue.address, who).result("private/get_open_orders") == []


class Garbage:
    """A server that answers the first bytes of each connection with the same wrong bytes."""

    def __init__(self, answer: bytes) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.serve, args=(answer,), daemon=True).start()

    def serve(self, answer: bytes) -> None:
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            # A client may close the connection before it has read everything.
            with connection, suppress(OSError):
                connection.recv(65_535)
                connection.sendall(answer)
                connection.shutdown(socket.SHUT_WR)
                # An earlier close could discard the answer.
                read_frame(connection)


def assert_one_error(ended: subprocess.CompletedProcess[str], *patterns: str) -> None:
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert len(ended.stderr.splitlines()) == 1 and ended.stderr.startswith("error: "), ended.stderr
    for pattern in patterns:
        assert re.search(pattern, ended.stderr, re.IGNORECASE), ended.stderr


@pytest.mark.timeout(TIMEOUT_S)
def test_wrong_input_gets_one_clear_error(client: list[str], venue: Venue) -> None:
    address = sbe_address(venue)
    assert_one_error(orders(client, venue, address, ["demo-a:wrong", ACCOUNTS[1]]), "13004", "secret")
    refused = run([*client, "orders", address, "4000000", PRICE, *ACCOUNTS], PATIENCE_S)
    assert_one_error(refused, "did not accept")
    assert "demo-a reject 13020 " in refused.stdout
    with socket.create_server(("127.0.0.1", 0)) as closed:
        nowhere = f"127.0.0.1:{closed.getsockname()[1]}"
    assert_one_error(orders(client, venue, nowhere, ACCOUNTS), nowhere, "--sbe")
    assert_one_error(run([*client, "feed", "127.0.0.1:0", nowhere], PATIENCE_S), nowhere, "--order-feed-recovery")
    header = bytes.fromhex("000000 0e eb50")
    # The texts of the codecs differ.
    for answer, pattern in (
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "encoding type 0x2F31"),
        (b"\xff\xff\xff\xff\xeb\x50", "frame of 4294967295 bytes"),
        (header + bytes.fromhex("0000 0200 0100 0000"), r"schema id 1\b"),
        (header + bytes.fromhex("0900 0200 e91c 0000"), r"block (of|length) 9\b"),
        (header + bytes.fromhex("0000 0200 e91c 0000"), r"block (of|length) 0\b"),
        (header + bytes.fromhex("0000 1400 e91c 0000"), "template 20"),
        # A reason of 255 bytes, which does not come.
        (
            bytes.fromhex("00000014 eb50 0400 0300 e91c 0000 00000000 ff00"),
            r"template 3\b.*(with a length|ends before its last field)",
        ),
    ):
        server = Garbage(answer)
        assert_one_error(orders(client, venue, server.address, ACCOUNTS), pattern)
        server.listener.close()
    for answer, pattern in (
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "unit"),
        (bytes.fromhex("0800 00 50 00000000"), "answer (to a request|without a message)"),
        (bytes.fromhex("0c00 01 50 00000000 0900 02 41"), "messages do not fit|a message needs more"),
    ):
        server = Garbage(answer)
        ended = run([*client, "feed", "127.0.0.1:0", server.address], PATIENCE_S)
        # "HT" is the length of a long unit, which then does not come whole.
        assert_one_error(ended, server.address if pattern == "unit" else pattern)
        server.listener.close()
    for wrong in ([], ["dance"], ["orders", "here", "1", "2", "3", "4"], ["feed", "127.0.0.1"]):
        ended = run([*client, *wrong], PATIENCE_S)
        assert ended.returncode == 2 and ended.stderr.startswith("error: ") and "usage" in ended.stderr
    assert json.loads(venue.ready_file.read_text())["sbe"] == address
