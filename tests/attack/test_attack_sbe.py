"""Attacks on binary order entry: floods, clients that do not read, unfinished messages, wrong
lengths, and credentials that were revoked. Another session is served meanwhile."""

import json
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from attack_table import FULL
from raw_ws import read_all
from rpc import Http
from sbe_client import ENCODING, SbeClient, encode
from venue import DEMO_A, DEMO_B, OPERATOR, Credentials, Venue

MEBIBYTE = 1024 * 1024
CONNECTIONS = 256


@pytest.fixture(scope="module")
def venue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Venue]:
    options = ["--no-flow", "--sbe", "127.0.0.1:0"]
    with Venue(tmp_path_factory.mktemp("sbe") / "data", options) as running:
        yield running
        assert running.alive(), running.log_tail()


def connect(venue: Venue, stack: ExitStack) -> SbeClient:
    return stack.enter_context(SbeClient(json.loads(venue.ready_file.read_text())["sbe"]))


def log_on(venue: Venue, stack: ExitStack, who: Credentials) -> SbeClient:
    """Logs on. The gateway may not have noticed yet that an earlier connection has ended."""
    while True:
        client = connect(venue, stack)
        name, answer = client.log_on(who)
        if name == "LogonAccepted":
            return client
        assert "already" in answer["reason"], answer


def resident_bytes(venue: Venue) -> int:
    assert venue.process is not None
    status = Path(f"/proc/{venue.process.pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024


def is_served(client: SbeClient) -> None:
    assert client.request("MassCancel", scope="All")[0] == "MassCancelAccepted"


def malformed() -> bytes:
    message = bytearray(encode("CancelOrder", {"requestId": 1, "orderId": 1}))
    message[8] ^= 0x40
    return bytes(message)


FLOODS = {
    "malformed messages": malformed(),
    "cancels": encode("CancelOrder", {"requestId": 1, "orderId": 1}),
    "requests for a repetition": encode("RetransmitRequest", {"fromSequence": 0, "toSequence": 2**64 - 1}),
}


@pytest.mark.attack("SBE client that floods and does not read")
@pytest.mark.parametrize("kind", FLOODS)
def test_flood_of_a_client_that_does_not_read_is_bounded(venue: Venue, kind: str, tries: Callable[[int], None]) -> None:
    with ExitStack() as stack:
        other, greedy = log_on(venue, stack, DEMO_B), log_on(venue, stack, DEMO_A)
        before = resident_bytes(venue)
        greedy.sock.settimeout(1)
        sent = 0
        # It ends when the gateway reads no more, or closes the connection.
        with suppress(OSError):
            while sent < (200 if FULL else 20) * MEBIBYTE:
                sent += greedy.sock.send(FLOODS[kind] * 500)
                tries(500)
        is_served(other)
        more = resident_bytes(venue) - before
        assert more < 64 * MEBIBYTE, f"{more // MEBIBYTE} MiB"


@pytest.mark.attack("SBE connections that say nothing, or half a message")
def test_unfinished_logons_leave_room_for_others(venue: Venue, tries: Callable[[int], None]) -> None:
    logon = encode("Logon", {"clientId": "demo-a", "secret": "demo-a-secret", "heartbeatS": 30})
    with ExitStack() as stack:
        other = log_on(venue, stack, DEMO_B)
        silent = [connect(venue, stack) for _ in range(CONNECTIONS + 20)]
        for number, client in enumerate(silent):
            with suppress(OSError):
                client.sock.sendall(logon[: number % len(logon)])
        tries(len(silent))
        is_served(other)
        # The gateway ends each of them after 5 s, with a reason where it had room.
        for client in silent:
            assert read_all(client.sock) is not None
        log_on(venue, stack, DEMO_A)


@pytest.mark.attack("SBE message with a wrong length")
def test_wrong_lengths_end_the_connection_with_a_reason(venue: Venue, tries: Callable[[int], None]) -> None:
    frames = [struct.pack(">IH", length, ENCODING) for length in (0, 5, 6, 13, 1025, 2**32 - 1)]
    frames += [struct.pack(">IH", 1024, ENCODING) + bytes([fill]) * 1018 for fill in (0, 255)]
    with ExitStack() as stack:
        other = log_on(venue, stack, DEMO_B)
        for frame in frames:
            before, after = connect(venue, stack), log_on(venue, stack, DEMO_A)
            before.sock.sendall(frame)
            name, answer = before.receive()
            assert name == "Logout" and answer["code"] == -32602 and answer["reason"], frame[:6]
            # Behind a logon, a whole message with unknown contents is refused and the session goes
            # on.
            after.sock.sendall(frame)
            name, answer = after.receive()
            assert name == ("Reject" if len(frame) == 1024 else "Logout") and answer["reason"], frame[:6]
            after.sock.close()
            tries(2)
        is_served(other)


@pytest.mark.attack("SBE session whose credential was revoked")
def test_revoked_credential_ends_the_session(venue: Venue) -> None:
    operator = Http(venue.address, OPERATOR)
    old = Credentials("carol", operator.result("private/pitwire_create_account", {"name": "carol"})["client_secret"])
    with ExitStack() as stack:
        client = log_on(venue, stack, old)
        operator.result("private/pitwire_rotate_credential", {"client_id": "carol"})
        assert client.receive() == ("Logout", {"code": 13009, "reason": "the venue ended the login"})
        name, answer = connect(venue, stack).log_on(old)
        assert (name, answer["code"]) == ("Logout", 13004)
