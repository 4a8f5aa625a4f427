"""`pitwire gateway --orders`: order entry at the edge, alone and as a pair behind HAProxy."""

import json
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from order_gateways import Gateway, free_port, haproxy_config
from rpc import PATIENCE_S, Http, RpcError, Ws, until
from venue import DEMO_A, DEMO_B, Credentials, Venue, run_pitwire
from websockets.exceptions import ConnectionClosed, WebSocketException

LIMIT = {"instrument_name": "BTC_USDC", "amount": 0.01, "price": 41000}
# The lowest price of a share: many orders need little money.
CHEAP = {"instrument_name": "NPN_ZAR", "amount": 1, "type": "limit", "price": 1.0}


@pytest.fixture(scope="module")
def venue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Venue]:
    """A market in which only the test acts."""
    with Venue(tmp_path_factory.mktemp("venue") / "data", extra=["--no-flow"]) as running:
        yield running


def next_answer(client: Ws) -> dict[str, Any]:
    """Returns the next message that does not belong to a channel."""
    while (message := client.arrive()).get("method") == "subscription":
        pass
    return message


def test_clients_share_a_connection_and_act_for_their_own_account_only(venue: Venue, tmp_path: Path) -> None:
    with Gateway(tmp_path, venue.ws_url) as gateway, ExitStack() as stack:
        first, second, stranger = (stack.enter_context(Ws(gateway.ws_url)) for _ in range(3))
        token = first.login(DEMO_A)["access_token"]
        second.login(DEMO_B)
        assert first.subscribe("user.changes.any.any.raw", scope="private") == ["user.changes.any.any.raw"]
        own = first.result("private/buy", LIMIT | {"label": "a"})["order"]
        other = second.result("private/buy", LIMIT | {"label": "b"})["order"]
        assert [order["label"] for order in first.result("private/get_open_orders")] == ["a"]
        assert [order["label"] for order in second.result("private/get_open_orders")] == ["b"]
        changed = first.notification("user.changes.any.any.raw")
        assert [order["order_id"] for order in changed["orders"]] == [own["order_id"]]
        # Another account's order, and another client's token.
        assert first.call("private/cancel", {"order_id": other["order_id"]})["error"]["code"] == 10004
        assert "error" in second.call("private/cancel", {"order_id": own["order_id"], "access_token": token})
        # Without a login only public calls work.
        assert stranger.call("private/get_open_orders")["error"]["code"] == 13009
        assert stranger.call("private/get_open_orders", {"access_token": token})["error"]["code"] == 13009
        assert stranger.result("public/get_order_book", {"instrument_name": "BTC_USDC"})["best_bid_price"] == 41000
        assert first.result("private/cancel_all") == 1
        assert second.result("private/cancel_all") == 1
        # The id of the client comes back, whatever it is.
        first.send({"jsonrpc": "2.0", "id": "x y", "method": "public/get_time"})
        assert next_answer(first)["id"] == "x y"
        refused = first.call("private/enable_cancel_on_disconnect")["error"]
        assert refused["code"] == -32601 and "one connection" in refused["data"]["reason"]
        for malformed in ["[]", "{", '{"id":1,"method":"public/test","params":[1]}']:
            first.send(malformed)
            assert next_answer(first)["error"]["code"] == -32600
        first.post("private/logout")
        with pytest.raises(ConnectionClosed):
            next_answer(first)
        figures = gateway.stop()
    assert figures["connections"] == 3 and figures["uplinks"] == 1
    assert figures["refused"] == 6


def test_refreshed_login_keeps_its_channels(venue: Venue, tmp_path: Path) -> None:
    with Gateway(tmp_path, venue.ws_url) as gateway, Ws(gateway.ws_url) as client:
        grant = {"grant_type": "refresh_token", "refresh_token": client.login(DEMO_A)["refresh_token"]}
        client.subscribe("user.changes.any.any.raw", scope="private")
        assert "access_token" in client.result("public/auth", grant)
        order = client.result("private/buy", LIMIT)["order"]
        changed = client.notification("user.changes.any.any.raw")
        assert [changed["order_id"] for changed in changed["orders"]] == [order["order_id"]]
        assert client.result("private/cancel_all") == 1


def test_wrong_credentials_are_refused_by_the_venue(venue: Venue, tmp_path: Path) -> None:
    with Gateway(tmp_path, venue.ws_url) as gateway, Ws(gateway.ws_url) as client:
        with pytest.raises(RpcError) as wrong:
            client.login(Credentials("demo-a", "wrong"))
        assert wrong.value.code == 13004
        assert client.call("private/get_open_orders")["error"]["code"] == 13009
        client.login(DEMO_A)
        assert client.result("private/get_open_orders") == []


def test_message_above_the_bound_closes_the_connection_with_1009(venue: Venue, tmp_path: Path) -> None:
    with Gateway(tmp_path, venue.ws_url) as gateway, Ws(gateway.ws_url) as client:
        client.post("public/get_time", {"x": "y" * 33_000})
        with pytest.raises(ConnectionClosed) as closed:
            client.arrive()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009


def test_requests_above_the_rate_are_refused_at_the_edge(venue: Venue, tmp_path: Path) -> None:
    with Gateway(tmp_path, venue.ws_url, "--per-second", "1", "--burst", "5") as gateway, ExitStack() as stack:
        clients = [stack.enter_context(Ws(gateway.ws_url)) for _ in range(2)]
        for client in clients:
            client.login(DEMO_A)
        # Both connections have the allowance of the client id together.
        answers = [client.call("private/get_open_orders") for client in clients * 20]
        refused = [answer["error"] for answer in answers if "error" in answer]
        assert refused and all(error["code"] == 10028 for error in refused)
        assert all(0 < error["data"]["retry_after_ms"] <= 1001 for error in refused)
        assert sum("result" in answer for answer in answers) >= 5
        figures = gateway.stop()
    assert figures["refused"] == len(refused)


def test_gateway_without_a_venue_closes_its_clients_and_is_unhealthy(tmp_path: Path) -> None:
    place = tmp_path / "venue"
    with Venue(place / "data", extra=["--no-flow"]) as venue, Gateway(tmp_path, venue.ws_url) as gateway:
        health = Http(gateway.address)
        assert health.get("/healthz").status == 200
        with Ws(gateway.ws_url) as client:
            client.login(DEMO_A)
            venue.kill()
            with pytest.raises(ConnectionClosed) as closed:
                client.arrive()
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 1012
        assert health.get("/healthz").status == 503
        with pytest.raises(WebSocketException):
            Ws(gateway.ws_url)
        health.close()


def test_gateway_serves_again_when_its_venue_is_back(tmp_path: Path) -> None:
    data = tmp_path / "venue" / "data"
    with Venue(data, extra=["--no-flow"]) as venue, Gateway(tmp_path, venue.ws_url) as gateway:
        health = Http(gateway.address)
        venue.kill()
        until(lambda: health.get("/healthz").status == 503, "the gateway has lost its venue")
        with Venue(data, extra=["--no-flow"], listen=venue.address):
            until(lambda: health.get("/healthz").status == 200, "the gateway has found its venue")
            with Ws(gateway.ws_url) as client:
                client.login(DEMO_A)
                assert client.result("private/get_open_orders") == []
        health.close()
        assert gateway.stop()["uplinks"] == 2


def test_requests_sent_without_waiting_are_answered_in_order(venue: Venue, tmp_path: Path) -> None:
    """A client may have 128 requests at the venue; the others wait at the gateway."""
    with Gateway(tmp_path, venue.ws_url) as gateway, Ws(gateway.ws_url) as client:
        login = {"grant_type": "client_credentials", "client_id": DEMO_A.client_id, "client_secret": DEMO_A.secret}
        sent = [client.post("public/auth", login)]
        # These need the login, whose answer has not arrived.
        sent += [client.post("private/get_open_orders") for _ in range(300)]
        answers = [client.arrive() for _ in sent]
        assert [answer["id"] for answer in answers] == sent
        assert all("result" in answer or answer["error"]["code"] == 10028 for answer in answers)


def wait_until_forwarded(client: Ws) -> None:
    """Returns when the gateway has sent everything that the client has sent before."""
    # The gateway answers these itself. The second one is a turn later, and each turn ends with its
    # sends.
    for _ in range(2):
        assert client.call("private/enable_cancel_on_disconnect")["error"]["code"] == -32601


@pytest.mark.parametrize("shares", [False, True])
def test_venue_sees_one_connection_for_each_client_id_or_one_for_all(tmp_path: Path, *, shares: bool) -> None:
    venue = Venue(tmp_path / "data", extra=["--no-flow"])
    options = ["--one-connection"] if shares else []
    with venue, Gateway(tmp_path, venue.ws_url, *options) as gateway, ExitStack() as stack:
        first, second, other, stranger = (stack.enter_context(Ws(gateway.ws_url)) for _ in range(4))
        for client, who in [(first, DEMO_A), (second, DEMO_A), (other, DEMO_B)]:
            client.login(who)
        assert connections_to(venue) == 1, "only the one for logins"
        assert first.result("private/buy", LIMIT | {"label": "a"})["order"]["label"] == "a"
        assert other.result("private/buy", LIMIT | {"label": "b"})["order"]["label"] == "b"
        assert [order["label"] for order in second.result("private/get_open_orders")] == ["a"]
        assert [order["label"] for order in other.result("private/get_open_orders")] == ["b"]
        assert stranger.result("public/get_time") > 0
        assert stranger.call("private/get_open_orders")["error"]["code"] == 13009
        # Requests of two client ids and of one client without a login.
        assert connections_to(venue) == 1 + (1 if shares else 3)
        other.close()
        stranger.close()
        assert second.result("private/cancel_all") == 1
        until(lambda: connections_to(venue) == 2, "the logins and one for requests")


def connections_to(venue: Venue) -> int:
    """Counts the connections of other programs to the venue, by the kernel's table."""
    port = int(venue.address.rpartition(":")[2])
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(row[2].endswith(f":{port:04X}") and row[3] == "01" for row in rows)


def test_order_of_a_member_does_not_wait_for_the_lists_of_another(tmp_path: Path) -> None:
    """The venue stands still while the requests arrive, so that it finds all of them at once."""
    venue = Venue(tmp_path / "data", extra=["--no-flow", "--durability", "memory"])
    with venue, Gateway(tmp_path, venue.ws_url) as gateway, ExitStack() as stack:
        greedy = [stack.enter_context(Ws(gateway.ws_url)) for _ in range(4)]
        member = stack.enter_context(Ws(gateway.ws_url))
        for client in greedy:
            client.login(DEMO_A)
        member.login(DEMO_B)
        assert member.result("private/get_open_orders") == []
        # More orders than the venue lists in one turn.
        for _ in range(300):
            greedy[0].post("private/buy", CHEAP)
        assert all("result" in next_answer(greedy[0]) for _ in range(300))
        assert venue.process is not None
        venue.process.send_signal(signal.SIGSTOP)
        try:
            for client in greedy:
                for _ in range(12):
                    client.post("private/get_open_orders")
                wait_until_forwarded(client)
            order = member.post("private/buy", CHEAP)
            wait_until_forwarded(member)
        finally:
            venue.process.send_signal(signal.SIGCONT)
        entered = member.arrive()
        assert entered["id"] == order and "result" in entered
        lists = [client.arrive() for client in greedy for _ in range(12)]
        assert all(len(answer["result"]) == 300 for answer in lists)
        # The venue's own times show the order in which it answered.
        earlier = sum(answer["usOut"] < entered["usOut"] for answer in lists)
        assert earlier < len(lists) / 2, f"{earlier} of {len(lists)} lists were answered before the order"


def test_member_that_the_venue_refuses_too_often_ends_only_its_own_clients(tmp_path: Path) -> None:
    config = tmp_path / "limits.toml"
    config.write_text("[limits]\norders_per_second = 1\norders_burst = 3\n")
    venue = Venue(tmp_path / "data", extra=["--no-flow", "--config", str(config)])
    with venue, Gateway(tmp_path, venue.ws_url) as gateway, ExitStack() as stack:
        refused, idle, other, stranger = (stack.enter_context(Ws(gateway.ws_url)) for _ in range(4))
        for client, who in [(refused, DEMO_A), (idle, DEMO_A), (other, DEMO_B)]:
            client.login(who)
        assert other.result("private/get_open_orders") == []
        assert stranger.result("public/get_time") > 0
        with pytest.raises(ConnectionClosed) as closed:
            # The venue closes a connection after 100 refusals.
            for _ in range(400):
                refused.call("private/buy", LIMIT)
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1012
        with pytest.raises(ConnectionClosed):
            idle.arrive()
        assert "order" in other.result("private/buy", LIMIT)
        assert stranger.result("public/get_time") > 0
        assert gateway.stop()["uplinks"] == 1


def test_flood_of_logins_ends_no_client_at_a_venue_with_rates(tmp_path: Path) -> None:
    """The venue closes a connection after 100 refusals, and all logins share one."""
    config = tmp_path / "limits.toml"
    config.write_text("[limits]\nrequests_per_second = 1\nrequests_burst = 5\n")
    venue = Venue(tmp_path / "data", extra=["--no-flow", "--config", str(config)])
    with venue, Gateway(tmp_path, venue.ws_url) as gateway, ExitStack() as stack:
        member, *floods = (stack.enter_context(Ws(gateway.ws_url)) for _ in range(9))
        member.login(DEMO_A)
        login = {"grant_type": "client_credentials", "client_id": DEMO_B.client_id, "client_secret": DEMO_B.secret}
        answers = []
        for _ in range(40):
            for client in floods:
                client.post("public/auth", login)
            answers += [next_answer(client) for client in floods]
        refused = [answer["error"] for answer in answers if "error" in answer]
        assert refused and {error["code"] for error in refused} == {10028}
        by_gateway = [error for error in refused if "through this gateway" in error["data"]["reason"]]
        assert all(error["data"]["retry_after_ms"] > 0 for error in by_gateway)
        assert len(refused) - len(by_gateway) < 100, "the venue would have closed the connection"
        assert "order" in member.result("private/buy", LIMIT)
        assert gateway.stop()["uplinks"] == 1


def test_orders_of_a_client_id_are_cancelled_after_its_last_client_if_the_account_asks(tmp_path: Path) -> None:
    venue = Venue(tmp_path / "data", extra=["--no-flow"])
    with venue, Gateway(tmp_path, venue.ws_url) as gateway, Ws(venue.ws_url) as direct, ExitStack() as stack:
        direct.login(DEMO_A)
        direct.result("private/enable_cancel_on_disconnect", {"scope": "account"})
        first, second, other = (stack.enter_context(Ws(gateway.ws_url)) for _ in range(3))
        for client, who in [(first, DEMO_A), (second, DEMO_A), (other, DEMO_B)]:
            client.login(who)
            client.result("private/buy", LIMIT)
        first.close()
        # The orders of the client that has left stay, because they share a connection.
        assert len(second.result("private/get_open_orders")) == 2
        second.close()
        until(lambda: direct.result("private/get_open_orders") == [], "the orders are cancelled")
        assert len(other.result("private/get_open_orders")) == 1


def test_login_with_a_refresh_token_of_another_connection_enters_orders(venue: Venue, tmp_path: Path) -> None:
    with Gateway(tmp_path, venue.ws_url) as gateway, Ws(gateway.ws_url) as first, Ws(gateway.ws_url) as second:
        grant = {"grant_type": "refresh_token", "refresh_token": first.login(DEMO_A)["refresh_token"]}
        assert "access_token" in second.result("public/auth", grant)
        order = second.result("private/buy", LIMIT)["order"]
        assert order["order_id"] in [found["order_id"] for found in second.result("private/get_open_orders")]
        assert second.result("private/cancel_all") == 1


def test_venue_is_reached_through_tls(tmp_path: Path) -> None:
    with Venue(tmp_path / "data", ["--no-flow", "--tls", "127.0.0.1:0"]) as venue:
        served = json.loads(venue.ready_file.read_text())
        url = f"wss://{served['tls']}/ws/api/v2"
        with Gateway(tmp_path, url, "--ca", served["ca"]) as gateway, Ws(gateway.ws_url) as client:
            client.login(DEMO_A)
            client.subscribe("user.changes.any.any.raw", scope="private")
            order = client.result("private/buy", LIMIT)["order"]
            changed = client.notification("user.changes.any.any.raw")
            assert [found["order_id"] for found in changed["orders"]] == [order["order_id"]]


def test_pages_of_other_origins_and_unknown_hosts_are_refused(venue: Venue, tmp_path: Path) -> None:
    with Gateway(tmp_path, venue.ws_url) as gateway:
        http = Http(gateway.address)
        assert http.get("/healthz", {"Host": "evil.example"}).status == 421
        assert http.get("/healthz", {"Origin": "http://evil.example"}).status == 403
        assert http.get("/ws/api/v2").status == 426
        http.close()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--orders", "http://127.0.0.1/"], ["ws://HOST:PORT/PATH"]),
        (["--orders", "ws://127.0.0.1:1/", "--upstream", "nats://127.0.0.1:1"], ["cannot be used with"]),
        (["--burst", "5", "--orders", "ws://127.0.0.1:1/"], ["--per-second"]),
        ([], ["--upstream"]),
    ],
)
def test_wrong_use_is_one_clear_line(arguments: list[str], words: list[str]) -> None:
    ended = run_pitwire("gateway", *arguments)
    assert ended.returncode == 2, ended
    assert ended.stderr.count("\n") == 1 and ended.stdout == ""
    assert all(word in ended.stderr for word in words), ended.stderr


# Two gateways behind a balancer


class Member(threading.Thread):
    """A client that enters numbered orders, reconnects after a cut, and repeats a request without
    an answer under the same client_order_id."""

    def __init__(self, url: str, who: Credentials, name: str, orders: int) -> None:
        super().__init__(daemon=True)
        self.url, self.who, self.prefix, self.orders = url, who, name, orders
        self.acknowledged: dict[str, str] = {}
        self.reconnections = -1
        self.repeated = 0
        self.failure: BaseException | None = None

    def run(self) -> None:
        try:
            self.enter_all()
        except BaseException as error:
            self.failure = error

    def enter_all(self) -> None:
        client: Ws | None = None
        for number in range(self.orders):
            name = f"{self.prefix}-{number}"
            tries = 0
            while name not in self.acknowledged:
                try:
                    client = client or self.connect()
                    self.repeated += tries > 0
                    tries += 1
                    entered = client.result("private/buy", LIMIT | {"label": name, "client_order_id": name})
                    self.acknowledged[name] = entered["order"]["order_id"]
                except (OSError, WebSocketException, TimeoutError):
                    if client is not None:
                        with suppress(OSError, WebSocketException):
                            client.close()
                    client = None
                    time.sleep(0.02)
        if client is not None:
            client.close()

    def connect(self) -> Ws:
        client = Ws(self.url)
        client.login(self.who)
        self.reconnections += 1
        return client


def test_killed_gateway_behind_haproxy_loses_and_doubles_no_order(venue: Venue, tmp_path: Path) -> None:
    haproxy = shutil.which("haproxy") or shutil.which("haproxy", path="/usr/sbin")
    if haproxy is None:
        pytest.fail("haproxy is missing: apt-get install haproxy, or run make test, which installs it")
    with Gateway(tmp_path, venue.ws_url) as first, Gateway(tmp_path, venue.ws_url) as second, ExitStack() as stack:
        port = free_port()
        config = tmp_path / "haproxy.cfg"
        config.write_text(haproxy_config(port, first.address, second.address))
        with (tmp_path / "haproxy.log").open("wb") as log:
            balancer = subprocess.Popen([haproxy, "-db", "-f", config], stdout=log, stderr=log)
        stack.callback(balancer.wait)
        stack.callback(balancer.kill)

        def is_healthy() -> bool:
            assert balancer.poll() is None, (tmp_path / "haproxy.log").read_text()
            with suppress(OSError):
                return Http(f"127.0.0.1:{port}").get("/healthz").status == 200
            return False

        until(is_healthy, "the balancer finds a gateway")
        url = f"ws://127.0.0.1:{port}/ws/api/v2"
        members = [Member(url, who, f"{who.client_id}{copy}", 150) for who in (DEMO_A, DEMO_B) for copy in range(3)]
        for member in members:
            member.start()

        def have_entered(count: int) -> bool:
            failures = [member.failure for member in members if member.failure]
            assert not failures, failures
            return all(len(member.acknowledged) >= count for member in members)

        until(lambda: have_entered(30), "every member has entered orders")
        first.kill()
        until(lambda: have_entered(70), "every member goes on at the second gateway")
        # The first one returns, and the second one dies.
        stack.enter_context(Gateway(tmp_path, venue.ws_url, address=first.address))
        second.kill()
        for member in members:
            member.join(PATIENCE_S * 2)
        assert have_entered(150)
        assert sum(member.reconnections for member in members) >= len(members)
        for who in (DEMO_A, DEMO_B):
            direct = Http(venue.address, who)
            orders = direct.result("private/get_open_orders")
            counts = Counter(order["label"] for order in orders)
            ids = {order["label"]: order["order_id"] for order in orders}
            acknowledged = {
                name: order for member in members if member.who == who for name, order in member.acknowledged.items()
            }
            assert set(counts.values()) == {1}, "an order is doubled"
            assert ids == acknowledged, "an order is lost"
            direct.result("private/cancel_all")
            direct.close()
