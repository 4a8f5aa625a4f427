"""A venue in bounded memory under greedy members, for `make soak`. MEMORY_SOAK_S is its length."""

import json
import os
import resource
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from raw_ws import TEXT, RawWs, Target
from rpc import Http, Ws
from venue import DEMO_A, DEMO_B, Venue, run_pitwire

SOAK_S = int(os.environ.get("MEMORY_SOAK_S", "0"))
MEBIBYTE = 1024 * 1024
# What greedy members may cost above an idle venue, in bytes of address space.
MORE_BYTES = 512 * MEBIBYTE
ORDER = {"instrument_name": "NPN_ZAR", "amount": 1, "type": "limit", "price": 1.0}
OPEN_ORDERS = 9_000
SOCKETS = 40
PAUSE_S = 0.05

Attack = Callable[[Venue, threading.Event], None]


def request(method: str, params: dict[str, object]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def greedy_socket(venue: Venue) -> RawWs:
    assert venue.process is not None
    socket = RawWs(Target(venue.address, "/ws/api/v2", venue.process.pid, echoes=False))
    grant = {"grant_type": "client_credentials", "client_id": DEMO_A.client_id, "client_secret": DEMO_A.secret}
    socket.send(TEXT, request("public/auth", grant))
    socket.until(TEXT)
    return socket


def ask_and_do_not_read(venue: Venue, stop: threading.Event, questions: list[bytes]) -> None:
    """Many connections send questions and read nothing, then are replaced by new ones."""
    while not stop.is_set():
        with ExitStack() as sockets:
            for _ in range(SOCKETS):
                with suppress(OSError, EOFError, AssertionError):
                    socket = sockets.enter_context(greedy_socket(venue))
                    for question in questions:
                        socket.send(TEXT, question)
            stop.wait(10)


def unread_lists(venue: Venue, stop: threading.Event) -> None:
    ask_and_do_not_read(venue, stop, [request("private/get_open_orders", {})] * 3)


def unread_channels(venue: Venue, stop: threading.Event) -> None:
    channels = {"channels": ["user.orders.any.any.agg2", "user.orders.any.any.raw", "user.changes.any.any.100ms"]}
    ask_and_do_not_read(venue, stop, [request("private/subscribe", channels)])


def enter_and_cancel(venue: Venue, stop: threading.Event) -> None:
    with Ws(venue.ws_url) as member:
        member.login(DEMO_A)
        while not stop.is_set():
            for _ in range(0, OPEN_ORDERS, 100):
                ids = [member.post("private/buy", ORDER) for _ in range(100)]
                for _ in ids:
                    member.receive()
                if stop.wait(PAUSE_S):
                    return
            member.call("private/cancel_all")


def guess_secrets(venue: Venue, stop: threading.Event) -> None:
    stranger = Http(venue.address)
    login = {"grant_type": "client_credentials", "client_id": "stranger", "client_secret": "wrong"}
    while not stop.wait(0.002):
        with suppress(OSError):
            stranger.call("public/auth", login)


def until_stopped(attack: Attack, venue: Venue, stop: threading.Event) -> None:
    """Begins again when the venue ends a connection; a dead venue ends this."""
    while not stop.is_set() and venue.alive():
        with suppress(Exception):
            attack(venue, stop)
        stop.wait(1)


def status_bytes(venue: Venue, field: str) -> int:
    assert venue.process is not None
    text = Path(f"/proc/{venue.process.pid}/status").read_text()
    return int(text.split(f"{field}:")[1].split()[0]) * 1024


@pytest.mark.skipif(SOAK_S == 0, reason="MEMORY_SOAK_S is not set: make soak sets it")
def test_greedy_members_cannot_take_the_memory_of_a_venue(data: Path) -> None:
    stop, waits = threading.Event(), []
    attacks: list[Attack] = [unread_lists, unread_channels, enter_and_cancel, guess_secrets]
    with Venue(data) as venue:
        assert venue.process is not None
        idle = status_bytes(venue, "VmSize")
        most = idle + MORE_BYTES
        resource.prlimit(venue.process.pid, resource.RLIMIT_AS, (most, most))
        # A login before the attacks gives this address a separate allowance.
        other = Http(venue.address, DEMO_B)
        other.result("private/get_open_orders")
        threads = [threading.Thread(target=until_stopped, args=[attack, venue, stop]) for attack in attacks]
        for thread in threads:
            thread.start()
        try:
            deadline = time.monotonic() + SOAK_S
            while time.monotonic() < deadline:
                began = time.monotonic()
                order = other.result("private/buy", ORDER)["order"]["order_id"]
                waits.append(1e3 * (time.monotonic() - began))
                other.result("private/cancel", {"order_id": order})
                time.sleep(PAUSE_S)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        assert venue.alive(), venue.log_tail()
        waits.sort()
        resident, p99 = status_bytes(venue, "VmHWM"), waits[len(waits) * 99 // 100]
        print(
            f"{SOAK_S} s: {len(waits)} orders of another member waited {waits[len(waits) // 2]:.1f} ms (median), "
            f"{p99:.1f} ms (99 %), {waits[-1]:.1f} ms (longest); address space {idle // MEBIBYTE} MiB when idle, "
            f"limit {most // MEBIBYTE} MiB; most resident {resident // MEBIBYTE} MiB"
        )
        assert venue.stop() == 0
    ended = run_pitwire("verify", data, "--json", timeout_s=3600)
    assert ended.returncode == 0, ended.stdout + ended.stderr
