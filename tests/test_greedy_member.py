"""A greedy member: the memory that it costs the venue, and the answers that others get."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from raw_ws import TEXT, RawWs, Target
from rpc import Http, Ws
from venue import DEMO_A, DEMO_B, OPERATOR, Venue

# The lowest price of a share: many orders need little money.
ORDER = {"instrument_name": "NPN_ZAR", "amount": 1, "type": "limit", "price": 1.0}
MEBIBYTE = 1024 * 1024


@pytest.fixture
def venue(tmp_path: Path) -> Iterator[Venue]:
    with Venue(tmp_path / "data", extra=["--durability", "memory"]) as running:
        yield running


def enter(venue: Venue, count: int, order: Callable[[int], dict[str, object]] = lambda _: ORDER) -> None:
    """Enters orders of demo-a, whose limit an operator raises."""
    operator = Http(venue.address, OPERATOR)
    operator.result("private/pitwire_change_account", {"name": "demo-a", "max_open_orders": count + 1})
    with Ws(venue.ws_url) as member:
        member.login(DEMO_A)
        for first in range(0, count, 100):
            for number in range(first, first + 100):
                member.post("private/buy", order(number))
            answers = [member.receive() for _ in range(100)]
            assert [answer for answer in answers if "error" in answer] == []


def request(method: str, params: dict[str, object]) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()


def peak_bytes(venue: Venue) -> int:
    assert venue.process is not None
    status = Path(f"/proc/{venue.process.pid}/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def on_delivery_threads(venue: Venue) -> int:
    text = Http(venue.address).get("/metrics").body.decode()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("pitwire_listeners "))


def eventually(what: str, is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not is_so():
        assert time.monotonic() < deadline, f"not within 60 s: {what}"


def unread_socket(venue: Venue, stack: ExitStack, *, only_listens: bool) -> RawWs:
    """A connection of demo-a. A delivery thread serves it if it subscribes before its login."""
    assert venue.process is not None
    opened = stack.enter_context(RawWs(Target(venue.address, "/ws/api/v2", venue.process.pid, echoes=False)))
    if only_listens:
        before = on_delivery_threads(venue)
        opened.send(TEXT, request("public/subscribe", {"channels": ["ticker.NPN_ZAR.100ms"]}))
        eventually("a delivery thread has it", lambda: on_delivery_threads(venue) > before)
    grant = {"grant_type": "client_credentials", "client_id": DEMO_A.client_id, "client_secret": DEMO_A.secret}
    opened.send(TEXT, request("public/auth", grant))
    while b"access_token" not in opened.until(TEXT):
        pass
    return opened


@pytest.mark.attack("long lists that a member does not read")
@pytest.mark.parametrize("only_listens", [False, True], ids=["venue-thread", "delivery-thread"])
def test_unread_lists_of_orders_do_not_add_up(venue: Venue, only_listens: bool) -> None:
    orders = 30_000
    enter(venue, orders)
    other = Http(venue.address, DEMO_B)
    with ExitStack() as sockets:
        for _ in range(40):
            # It reads nothing from here on.
            greedy = unread_socket(venue, sockets, only_listens=only_listens)
            for _ in range(3):
                greedy.send(TEXT, request("private/get_open_orders", {}))
        for _ in range(50):
            bought = other.result("private/buy", ORDER)
            other.result("private/cancel", {"order_id": bought["order"]["order_id"]})
            time.sleep(0.02)
        assert venue.alive(), venue.log_tail()
        most = 512 * MEBIBYTE + 1024 * orders
        assert peak_bytes(venue) < most, f"{peak_bytes(venue) // MEBIBYTE} MiB"


@pytest.mark.attack("books that a stranger does not read")
def test_unread_books_of_connections_without_a_login_do_not_add_up(venue: Venue) -> None:
    """Each answer has about 300 KB, and each connection asks for 60 of them."""
    levels, strangers = 9_000, 60
    enter(venue, levels, lambda number: ORDER | {"price": round(1.0 + number / 100, 2)})
    assert venue.process is not None
    target = Target(venue.address, "/ws/api/v2", venue.process.pid, echoes=False)
    book = {"instrument_name": "NPN_ZAR", "depth": 10_000}
    with ExitStack() as sockets:
        for _ in range(strangers):
            stranger = sockets.enter_context(RawWs(target))
            stranger.send(TEXT, request("public/subscribe", {"channels": ["ticker.NPN_ZAR.100ms"]}))
            stranger.until(TEXT)
            for _ in range(60):
                stranger.send(TEXT, request("public/get_order_book", book))
        other = Http(venue.address, DEMO_B)
        for _ in range(50):
            other.result("private/get_open_orders")
            time.sleep(0.02)
        assert venue.alive(), venue.log_tail()
        # All of them would be 1 GiB.
        assert peak_bytes(venue) < 512 * MEBIBYTE, f"{peak_bytes(venue) // MEBIBYTE} MiB"


@pytest.mark.parametrize("only_listens", [False, True], ids=["venue-thread", "delivery-thread"])
def test_requests_behind_unread_answers_are_answered_once_they_are_read(venue: Venue, only_listens: bool) -> None:
    orders, requests = 200, 15
    enter(venue, orders)
    with ExitStack() as sockets:
        readers = [unread_socket(venue, sockets, only_listens=only_listens) for _ in range(60)]
        for reader in readers:
            for _ in range(requests):
                reader.send(TEXT, request("private/get_open_orders", {}))
        # About 100 KB each, and 90 MB together: more than the account may leave unread.
        for reader in readers:
            for _ in range(requests):
                while not (text := reader.until(TEXT)).startswith(b'{"jsonrpc":"2.0","id":1,"result":[{'):
                    pass
                assert text.count(b'"order_id"') == orders


def test_answer_to_an_order_does_not_wait_for_an_unread_list(tmp_path: Path) -> None:
    fills = {"price": 1000.0, "amount": 600}
    with Venue(tmp_path / "quiet", extra=["--durability", "memory", "--no-flow"]) as venue, ExitStack() as sockets:
        enter(venue, 3_000)
        member, other = (sockets.enter_context(Ws(venue.ws_url)) for _ in range(2))
        other.login(DEMO_B)
        for _ in range(fills["amount"]):
            other.post("private/sell", ORDER | fills | {"amount": 1})
        assert all("result" in other.receive() for _ in range(fills["amount"]))
        for _ in range(70):
            # Their lists wait, because the first one is not read. The last ones are refused.
            unread_socket(venue, sockets, only_listens=False).send(TEXT, request("private/get_open_orders", {}))
        member.login(DEMO_A)
        bought = member.result("private/buy", ORDER | fills)
        assert (bought["order"]["order_state"], len(bought["trades"])) == ("filled", fills["amount"])


def test_long_answers_of_an_account_follow_each_other_in_a_quiet_venue(tmp_path: Path) -> None:
    """Nothing else wakes the venue here. An answer once waited a minute for another event."""
    with Venue(tmp_path / "quiet", extra=["--durability", "memory", "--no-flow"]) as venue, ExitStack() as sockets:
        enter(venue, 1_000)
        members = [sockets.enter_context(Ws(venue.ws_url)) for _ in range(60)]
        for already, member in enumerate(members):
            # A connection that only listens before its login is served by a delivery thread.
            member.subscribe("ticker.NPN_ZAR.100ms")
            eventually("a delivery thread has it", lambda already=already: on_delivery_threads(venue) > already)
        for member in members:
            member.login(DEMO_A)
            member.post("private/get_open_orders")
        for member in members:
            while "result" not in (answer := member.receive()):
                pass
            assert len(answer["result"]) == 1_000


@pytest.fixture
def quiet_venue(tmp_path: Path) -> Iterator[Venue]:
    with Venue(tmp_path / "quiet", extra=["--durability", "memory", "--no-flow"]) as running:
        yield running


@pytest.mark.attack("command with many fills and many connections that do not read")
def test_notices_of_a_command_do_not_all_wait_in_memory(quiet_venue: Venue) -> None:
    orders = 6_000
    enter(quiet_venue, orders, lambda _: ORDER | {"price": 1000.0})
    before = peak_bytes(quiet_venue)
    with ExitStack() as sockets:
        channels = ["user.orders.any.any.raw", "user.trades.any.any.raw"]
        for _ in range(40):
            listener = unread_socket(quiet_venue, sockets, only_listens=False)
            listener.send(TEXT, request("private/subscribe", {"channels": channels}))
            listener.until(TEXT)
        with Ws(quiet_venue.ws_url) as other:
            other.login(DEMO_B)
            sold = other.result("private/sell", ORDER | {"price": 1000.0, "amount": orders})
            assert len(sold["trades"]) == orders
        assert quiet_venue.alive(), quiet_venue.log_tail()
        # All of them would be 200 MiB.
        assert peak_bytes(quiet_venue) - before < 100 * MEBIBYTE, f"{peak_bytes(quiet_venue) // MEBIBYTE} MiB"


@pytest.mark.parametrize("only_listens", [False, True], ids=["venue-thread", "delivery-thread"])
def test_notices_of_a_command_with_many_fills_come_whole_and_in_order(quiet_venue: Venue, only_listens: bool) -> None:
    orders, channel = 1_500, "user.changes.NPN_ZAR.raw"
    enter(quiet_venue, orders, lambda _: ORDER | {"price": 1000.0})
    with ExitStack() as sockets, Ws(quiet_venue.ws_url) as other:
        listeners = [unread_socket(quiet_venue, sockets, only_listens=only_listens) for _ in range(10)]
        for listener in listeners:
            listener.send(TEXT, request("private/subscribe", {"channels": [channel]}))
            while b'"result":["user.changes' not in listener.until(TEXT):
                pass
        other.login(DEMO_B)
        sold = other.result("private/sell", ORDER | {"price": 1000.0, "amount": orders})
        expected = [trade["trade_id"] for trade in sold["trades"]]
        assert len(expected) == orders
        # The connections are read in turn. Notices wait while one of them is not read.
        for listener in listeners:
            fills: list[str] = []
            states: dict[str, str] = {}
            while len(states) < orders or "open" in states.values():
                params = json.loads(listener.until(TEXT)).get("params", {})
                if params.get("channel") != channel:
                    continue
                data = params["data"]
                assert len(data["trades"]) <= 100 and len(data["orders"]) <= 100
                fills += [trade["trade_id"] for trade in data["trades"]]
                states |= {order["order_id"]: order["order_state"] for order in data["orders"]}
            assert fills == expected and set(states.values()) == {"filled"}


@pytest.mark.attack("order of a member with hundreds of connections that get its notices")
def test_notices_reach_more_connections_than_one_turn_serves(quiet_venue: Venue) -> None:
    connections, orders, channel = 600, 3, "user.orders.any.any.raw"
    with ExitStack() as sockets:
        listeners = [unread_socket(quiet_venue, sockets, only_listens=False) for _ in range(connections)]
        for listener in listeners:
            listener.send(TEXT, request("private/subscribe", {"channels": [channel]}))
            listener.until(TEXT)
        with Ws(quiet_venue.ws_url) as member:
            member.login(DEMO_A)
            entered = [member.result("private/buy", ORDER)["order"]["order_id"] for _ in range(orders)]
        for listener in listeners:
            notices = [json.loads(listener.until(TEXT))["params"]["data"]["order_id"] for _ in range(orders)]
            assert notices == entered


def test_member_gets_its_answer_and_then_all_notices_of_it(quiet_venue: Venue) -> None:
    """Four megabytes of notices wait for the answer here, which takes many turns."""
    orders = 4_000
    enter(quiet_venue, orders, lambda _: ORDER | {"price": 1000.0})
    with Ws(quiet_venue.ws_url) as other:
        other.login(DEMO_B)
        other.subscribe("user.trades.any.any.raw", scope="private")
        asked = other.post("private/sell", ORDER | {"price": 1000.0, "amount": orders})
        answer = other.receive()
        assert answer["id"] == asked
        expected = [trade["trade_id"] for trade in answer["result"]["trades"]]
        fills: list[str] = []
        while len(fills) < orders:
            fills += [trade["trade_id"] for trade in other.notification("user.trades.any.any.raw")]
        assert fills == expected


@pytest.mark.attack("merged channels of an account with many orders")
def test_a_merged_channel_comes_in_parts_and_has_every_order(venue: Venue) -> None:
    orders = 2_000
    with ExitStack() as sockets:
        listeners = [sockets.enter_context(Ws(venue.ws_url)) for _ in range(5)]
        for listener in listeners:
            listener.login(DEMO_A)
            listener.subscribe("user.orders.any.any.agg2", scope="private")
        enter(venue, orders)
        for listener in listeners:
            seen: set[str] = set()
            while len(seen) < orders:
                data = listener.notification("user.orders.any.any.agg2")
                assert len(data) <= 100
                seen.update(order["order_id"] for order in data)


def open_orders(venue: Venue) -> int:
    accounts = Http(venue.address, OPERATOR).result("private/pitwire_get_accounts")
    return next(account["open_orders"] for account in accounts if account["name"] == "demo-a")


@pytest.mark.attack("mass cancel whose client leaves")
def test_a_mass_cancel_is_finished_although_its_client_leaves(venue: Venue) -> None:
    enter(venue, 2_000)
    with Ws(venue.ws_url) as leaving:
        leaving.login(DEMO_A)
        leaving.post("private/cancel_all")
        eventually("some are cancelled", lambda: open_orders(venue) < 2_000)
        leaving.cut()
    eventually("all are cancelled", lambda: open_orders(venue) == 0)


def test_requests_behind_a_long_answer_wait_for_it(venue: Venue) -> None:
    enter(venue, 1_000)
    with Ws(venue.ws_url) as member:
        member.login(DEMO_A)
        asked = [member.post("private/get_open_orders"), member.post("private/cancel_all")]
        asked += [member.post("private/buy", ORDER), member.post("private/get_open_orders")]
        answers = [member.receive() for _ in asked]
    assert [answer["id"] for answer in answers] == asked
    before, cancelled, _, after = [answer["result"] for answer in answers]
    assert (len(before), cancelled, len(after)) == (1_000, 1_000, 1)
