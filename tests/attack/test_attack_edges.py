"""Attacks on the listeners around a venue: guessed secrets over SBE and the CoinTossX profile, the
order gateway, the recovery port of the order-by-order feed, and the relay."""

import json
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from attack_table import FULL
from cointossx_client import CoinTossXClient
from mitch_reader import FeedReader
from order_gateways import Gateway
from raw_ws import TEXT, RawWs, Target, read_all
from rpc import Http, Ws, until
from sbe_client import ENCODING, SbeClient
from test_order_feed import recovery_address, venue_books
from test_order_gateway import next_answer
from test_relay import Relay, script
from venue import DEMO_A, DEMO_B, OPERATOR, Credentials, Venue

MEBIBYTE = 1024 * 1024
# Failures that an address may make at once.
BURST = 50
WRONG, SLOWED = 13004, 10028
# Codes of a refused logon in the profile.
CTX_INVALID_LOGIN, CTX_NOT_LOGGED_ON, CTX_ALREADY = 1, 100, 9903
ORDER = {"instrument_name": "NPN_ZAR", "amount": 1, "type": "limit", "price": 1.0}


def listener(venue: Venue, name: str) -> str:
    address: str = json.loads(venue.ready_file.read_text())[name]
    return address


def counted(venue: Venue, name: str) -> int:
    lines = Http(venue.address).get("/metrics").body.decode().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name} "))


def resident_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def sbe_log_on(venue: Venue, who: Credentials) -> tuple[str, int]:
    """Logs on over a new connection. Returns the message and its code."""
    while True:
        with SbeClient(listener(venue, "sbe")) as client:
            name, answer = client.log_on(who)
            # The gateway may not have noticed yet that an earlier connection has ended.
            if name == "LogonAccepted" or "already" not in answer["reason"]:
                return name, answer.get("code", 0)


def ctx_log_on(venue: Venue, comp_id: int, password: str) -> int:
    while True:
        with CoinTossXClient(listener(venue, "cointossx"), comp_id, password) as client:
            if (code := client.log_on()) != CTX_ALREADY:
                return code


@pytest.mark.attack("guessed secrets over SBE and the CoinTossX profile")
def test_guesses_over_binary_order_entry_are_slowed_like_others(data: Path, tries: Callable[[int], None]) -> None:
    options = ["--no-flow", "--sbe", "127.0.0.1:0", "--cointossx", "127.0.0.1:0"]
    with Venue(data, options) as venue:
        assert sbe_log_on(venue, DEMO_B) == ("LogonAccepted", 0)
        codes = [sbe_log_on(venue, Credentials("demo-a", f"sesame{number}"))[1] for number in range(2 * BURST)]
        assert codes[:BURST] == [WRONG] * BURST and set(codes[BURST:]) <= {WRONG, SLOWED} and SLOWED in codes
        # The right secret gets the same answer as a wrong one, so a guess learns nothing.
        assert sbe_log_on(venue, DEMO_A) in {("Logout", SLOWED), ("LogonAccepted", 0)}
        # After its first logon a member has a separate allowance.
        assert sbe_log_on(venue, DEMO_B) == ("LogonAccepted", 0)
        # Wrong passwords of the profile count as well, also for members that do not exist.
        before = counted(venue, "pitwire_failed_logins_total") + counted(venue, "pitwire_slowed_logins_total")
        for number in range(2 * BURST):
            assert ctx_log_on(venue, 1 + number % 3, f"sesame{number}") in {CTX_INVALID_LOGIN, CTX_NOT_LOGGED_ON}
        tries(4 * BURST)
        after = counted(venue, "pitwire_failed_logins_total") + counted(venue, "pitwire_slowed_logins_total")
        assert after - before == 2 * BURST
        assert counted(venue, "pitwire_slowed_logins_total") > 0
        until(lambda: "login failed" in venue.log_file.read_text(), "a log line")
        assert "sesame" not in venue.log_file.read_text()


@pytest.mark.attack("SBE session whose credential was revoked")
def test_revoked_credential_ends_a_session_of_the_profile(data: Path) -> None:
    with Venue(data, ["--no-flow"]) as venue:
        carol = Http(venue.address, OPERATOR).result("private/pitwire_create_account", {"name": "carol"})
        assert venue.stop() == 0
    members = data.parent / "members.csv"
    members.write_text(f"CompID,Password,ClientID,ClientSecret\n7,secret-7,carol,{carol['client_secret']}\n")
    options = ["--no-flow", "--cointossx", "127.0.0.1:0", "--cointossx-members", str(members)]
    with Venue(data, options) as venue:
        with CoinTossXClient(listener(venue, "cointossx"), 7, "secret-7") as client:
            assert client.log_on() == 0
            Http(venue.address, OPERATOR).result("private/pitwire_rotate_credential", {"client_id": "carol"})
            with suppress(AssertionError, OSError):
                while client.receive()[0] != "Logout":
                    pass
            assert read_all(client.sock) is not None, "the connection has ended"
        assert ctx_log_on(venue, 7, "secret-7") != 0


@pytest.fixture
def quiet(tmp_path: Path) -> Iterator[Venue]:
    with Venue(tmp_path / "venue", ["--no-flow", "--durability", "memory"]) as running:
        yield running
        assert running.alive(), running.log_tail()


@pytest.mark.attack("order gateway: silent connections, wrong frames, unread answers")
def test_order_gateway_holds_against_greedy_clients(quiet: Venue, tmp_path: Path, tries: Callable[[int], None]) -> None:
    count, orders = (500, 2_000) if FULL else (16, 500)
    options = ["--connections", str(4 * count)]
    with Gateway(tmp_path, quiet.ws_url, *options) as gateway, ExitStack() as stack:
        target = Target(gateway.address, "/ws/api/v2", gateway.process.pid, echoes=False)
        member = stack.enter_context(Ws(gateway.ws_url))
        member.login(DEMO_B)
        greedy = stack.enter_context(Ws(gateway.ws_url))
        greedy.login(DEMO_A)
        for _ in range(orders // 100):
            for _ in range(100):
                greedy.post("private/buy", ORDER)
            for _ in range(100):
                assert "result" in next_answer(greedy)
        before = resident_bytes(gateway.process.pid)
        for number in range(count):
            silent = stack.enter_context(target.connect())
            silent.sendall(b"GET /ws/api/v2 HTTP/1.1\r\nHost: "[: number % 30])
        for payload in [b"\x83\x80\0\0\0\0", b"\x81\xff" + b"\xff" * 12, b"\x88\x81\0\0\0\0x"]:
            wrong = stack.enter_context(target.open())
            wrong.socket.sendall(payload)
            tries(1)
        grant = {"grant_type": "client_credentials", "client_id": DEMO_A.client_id, "client_secret": DEMO_A.secret}
        lists = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "private/get_open_orders", "params": {}}).encode()
        for _ in range(count):
            unread = stack.enter_context(RawWs(target))
            login = {"jsonrpc": "2.0", "id": 1, "method": "public/auth", "params": grant}
            unread.send(TEXT, json.dumps(login).encode())
            while b"access_token" not in unread.until(TEXT):
                pass
            with suppress(OSError):
                for _ in range(10):
                    unread.send(TEXT, lists)
        tries(2 * count)
        order = member.result("private/buy", ORDER)["order"]["order_id"]
        assert member.result("private/cancel", {"order_id": order})["order_state"] == "cancelled"
        more = resident_bytes(gateway.process.pid) - before
        assert more < 400 * MEBIBYTE, f"{more // MEBIBYTE} MiB for {count} clients that do not read"


@pytest.mark.attack("recovery port of the order feed: silence, garbage, endless snapshots")
def test_recovery_port_holds_and_a_reader_recovers(data: Path, tries: Callable[[int], None]) -> None:
    reader = FeedReader(lost=0.0, seed=3)
    options = ["--no-flow", "--durability", "memory", "--order-feed", reader.addresses]
    with Venue(data, [*options, "--order-feed-recovery", "127.0.0.1:0"]) as venue, ExitStack() as stack:
        address = recovery_address(venue)
        host, port = address.rsplit(":", 1)
        assert venue.process is not None
        before = resident_bytes(venue.process.pid)
        garbage = [b"", b"\0", b"\xff" * 64, struct.pack("<H", 65_535) + b"L" * 100, b"\x03\0L" * 2_000]
        sent = 0
        for number in range(400 if FULL else 80):
            stranger = stack.enter_context(socket.create_connection((host, int(port)), 30))
            with suppress(OSError):
                stranger.sendall(garbage[number % len(garbage)])
            sent += 1
        tries(sent)
        member = Http(venue.address, DEMO_A)
        member.result("private/buy", ORDER)
        more = resident_bytes(venue.process.pid) - before
        assert more < 32 * MEBIBYTE, f"{more // MEBIBYTE} MiB"
        stack.close()

        def joins() -> bool:
            try:
                reader.join(address)
            except (AssertionError, OSError):
                return False
            return True

        # The port forgets the strangers, and the reader of the same host gets the state.
        until(joins, "a reader joins")
        reader.until_equal(venue_books(member))


@pytest.mark.attack("relay: clients that do not read or say nothing")
def test_relay_holds_against_clients_that_do_not_read(
    quiet: Venue, tmp_path: Path, tries: Callable[[int], None]
) -> None:
    faults = script(tmp_path, "[[fault]]\nkind = 'drop'\nshare = 0.0\n")
    with Relay(tmp_path, quiet.ws_url, "--faults", faults) as relay, ExitStack() as stack:
        target = Target(relay.address, "/ws/api/v2", relay.process.pid, echoes=False)
        before = resident_bytes(target.pid)
        params = {"currency": "any"}
        ask = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "public/get_instruments", "params": params}).encode()
        for number in range(200 if FULL else 40):
            silent = stack.enter_context(target.connect())
            silent.sendall(b"GET / HTTP/1.1\r\n"[: number % 16])
            unread = stack.enter_context(target.open())
            unread.socket.settimeout(1)
            with suppress(OSError):
                for _ in range(200):
                    unread.send(TEXT, ask)
            tries(2)
        with Ws(relay.ws_url) as client:
            assert client.result("public/get_time", {}) > 0
        more = resident_bytes(target.pid) - before
        assert more < 256 * MEBIBYTE, f"{more // MEBIBYTE} MiB"
        stack.close()


@pytest.mark.attack("SBE message with a wrong length")
def test_binary_listeners_refuse_each_others_and_http_messages(data: Path, tries: Callable[[int], None]) -> None:
    """A wrong protocol ends the connection, with at most one message as the reason."""
    options = ["--no-flow", "--durability", "memory", "--sbe", "127.0.0.1:0", "--cointossx", "127.0.0.1:0"]
    with Venue(data, options) as venue:
        heads = [
            b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64,
        ]
        heads += [struct.pack(">IH", 14, ENCODING) + b"\xff" * 8, bytes(range(256))]
        for name in ("sbe", "cointossx"):
            host, port = listener(venue, name).rsplit(":", 1)
            for head in heads:
                with socket.create_connection((host, int(port)), 30) as stranger:
                    with suppress(OSError):
                        stranger.sendall(head)
                        stranger.shutdown(socket.SHUT_WR)
                    assert len(read_all(stranger)) < 1024, (name, head)
                tries(1)
        assert sbe_log_on(venue, DEMO_A) == ("LogonAccepted", 0)
        assert ctx_log_on(venue, 2, "test222222") == 0
