"""`pitwire relay --faults` in front of a real venue, for clients that are not ours."""

import itertools
import json
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest
from rpc import PATIENCE_S, Http, Ws
from venue import BINARY, DEMO_A, Venue, run_pitwire
from websockets.exceptions import ConnectionClosed, ConnectionClosedError, InvalidStatus


@pytest.fixture(scope="module")
def venue(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Venue]:
    """A market in which only the test acts."""
    with Venue(tmp_path_factory.mktemp("venue") / "data", extra=["--no-flow"]) as running:
        yield running


class Relay:
    """`pitwire relay` on a free port."""

    def __init__(self, place: Path, url: str, *options: str) -> None:
        self.ready = place / "relay.ready"
        command = [BINARY, "relay", url, "--listen", "127.0.0.1:0", "--ready-file", self.ready, "--json", *options]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + PATIENCE_S
        while not self.ready.exists():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        self.address: str = json.loads(self.ready.read_text())["http"]
        self.ws_url = f"ws://{self.address}/ws/api/v2"
        self.summary: dict[str, Any] = {}
        self.log = ""

    def __enter__(self) -> "Relay":
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.process.send_signal(signal.SIGTERM)
        output, self.log = self.process.communicate(timeout=PATIENCE_S)
        assert self.process.returncode == 0, self.log
        assert not self.ready.exists()
        self.summary = json.loads(output)


def script(place: Path, text: str) -> str:
    path = place / "faults.toml"
    path.write_text(text)
    return str(path)


def test_faults_hit_the_numbered_messages_and_are_counted(venue: Venue, tmp_path: Path) -> None:
    faults = script(
        tmp_path,
        """
        [[fault]]
        kind = "drop"
        direction = "from-venue"
        at = [2]
        [[fault]]
        kind = "duplicate"
        direction = "from-venue"
        at = [3]
        [[fault]]
        kind = "reorder"
        direction = "from-venue"
        at = [4]
        """,
    )
    with Relay(tmp_path, venue.ws_url, "--faults", faults) as relay, Ws(relay.ws_url) as client:
        for _ in range(5):
            client.post("public/get_time")
        received = [client.receive()["id"] for _ in range(5)]
        assert received == [1, 3, 3, 5, 4]
    assert relay.summary["messages"] == 10
    assert relay.summary["connections"] == 1
    assert {kind: count for kind, count in relay.summary["faults"].items() if count} == {
        "drop": 1,
        "duplicate": 1,
        "reorder": 1,
    }


def test_messages_without_a_fault_pass_and_private_calls_work(venue: Venue, tmp_path: Path) -> None:
    never = script(tmp_path, "[[fault]]\nkind = 'drop'\nshare = 0.0\n")
    with Relay(tmp_path, venue.ws_url, "--faults", never) as relay:
        with Ws(relay.ws_url) as client:
            client.login(DEMO_A)
            entered = client.result("private/buy", {"instrument_name": "BTC_USDC", "amount": 0.1, "price": 41000})
            assert entered["order"]["order_state"] == "open"
        # HTTP as ccxt sends it, and the page.
        http = Http(relay.address, DEMO_A)
        assert [order["price"] for order in http.result("private/get_open_orders")] == [41000]
        assert http.result("private/cancel_all") == 1
        assert http.get("/").status == 200
        assert http.get("/", {"Host": "evil.example"}).status == 421
        assert http.get("/", {"Origin": "http://evil.example"}).status == 403
        http.close()
    assert sum(relay.summary["faults"].values()) == 0


def test_connections_are_refused_cut_and_closed(venue: Venue, tmp_path: Path) -> None:
    faults = script(
        tmp_path,
        """
        [[fault]]
        kind = "refuse"
        at = [1]
        [[fault]]
        kind = "cut"
        connection = 2
        direction = "from-venue"
        at = [1]
        [[fault]]
        kind = "close"
        connection = 3
        direction = "from-venue"
        at = [2]
        """,
    )
    with Relay(tmp_path, venue.ws_url, "--faults", faults) as relay:
        host, port = relay.address.split(":")
        with socket.create_connection((host, int(port))) as refused:
            refused.settimeout(PATIENCE_S)
            with pytest.raises(ConnectionResetError):
                refused.recv(1)
        with Ws(relay.ws_url) as client, pytest.raises(ConnectionClosedError) as cut:
            client.call("public/get_time")
        assert cut.value.rcvd is None
        with Ws(relay.ws_url) as client:
            client.call("public/get_time")
            with pytest.raises(ConnectionClosed) as closed:
                client.call("public/get_time")
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1001
        # The fourth connection has no fault.
        with Ws(relay.ws_url) as client:
            client.call("public/get_time")
    assert relay.summary["connections"] == 4


def printed_script(log: str) -> str:
    """The script in a log: the lines from its seed to the next event."""
    lines = log[log.index("seed =") :].splitlines()
    return "\n".join(itertools.takewhile(lambda line: " INFO " not in line, lines))


def test_random_script_is_printed_and_repeats(venue: Venue, tmp_path: Path) -> None:
    scripts = []
    for seed in ["7", "7", "8"]:
        with Relay(tmp_path, venue.ws_url, "--faults", "random", "--seed", seed) as relay:
            pass
        scripts.append(printed_script(relay.log))
    assert scripts[0] == scripts[1] != scripts[2]
    with Relay(tmp_path, venue.ws_url, "--faults", script(tmp_path, scripts[0])):
        pass
    relay = Relay(tmp_path, venue.ws_url, "--faults", "random", "--seed", "3", "--lasts", "0")
    with relay, Ws(relay.ws_url) as client:
        for _ in range(50):
            client.call("public/get_time")
    assert relay.summary["messages"] == 100
    assert sum(relay.summary["faults"].values()) == 0


def test_venue_that_is_away_is_a_502_and_a_failed_handshake(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as unused:
        url = f"ws://127.0.0.1:{unused.getsockname()[1]}/ws/api/v2"
    with Relay(tmp_path, url, "--faults", "random") as relay:
        pass
    never = script(tmp_path, "[[fault]]\nkind = 'drop'\nshare = 0.0\n")
    with Relay(tmp_path, url, "--faults", never) as relay:
        assert Http(relay.address).get("/healthz").status == 502


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["http://127.0.0.1/", "--faults", "random"], 2, ["ws://HOST:PORT/PATH"]),
        (["ws://127.0.0.1:1/", "--faults", "/nonexistent"], 2, ["/nonexistent", "or the word random"]),
        (["ws://127.0.0.1:1/", "--faults", "{bad}"], 2, ["is not a fault script", "fault 1 (drop)"]),
        (["ws://127.0.0.1:1/", "--faults", "random", "--listen", "localhost:1"], 2, ["127.0.0.1:1"]),
    ],
)
def test_wrong_use_is_one_clear_line(arguments: list[str], code: int, words: list[str], tmp_path: Path) -> None:
    bad = script(tmp_path, "[[fault]]\nkind = 'drop'\n")
    ended = run_pitwire("relay", *(argument.replace("{bad}", bad) for argument in arguments))
    assert ended.returncode == code, ended
    assert ended.stderr.count("\n") == 1 and ended.stdout == ""
    assert all(word in ended.stderr for word in words), ended.stderr


# Serving channels

BOOK = "book.BTC_USDC.100ms"
TICKER = "ticker.BTC_USDC.100ms"


class Reader(Ws):
    """A local client of the relay."""

    def of(self, channel: str, kind: str) -> dict[str, Any]:
        """Returns the next message of a channel, which must be of this kind."""
        while (message := self.arrive())["channel"] != channel:
            pass
        assert message["type"] == kind, message
        return message


def levels(data: dict[str, Any], side: str) -> list[list[float]]:
    return [[price, amount] for _, price, amount in data[side]]


@pytest.mark.parametrize("form", ["deribit", "binance"])
def test_clients_get_numbered_messages_and_the_state_when_they_join(venue: Venue, tmp_path: Path, form: str) -> None:
    http = Http(venue.address, DEMO_A)
    http.result("private/buy", {"instrument_name": "ETH_USDC", "amount": 0.1, "price": 2000})
    url, channel = {
        "deribit": (venue.ws_url, "book.ETH_USDC.100ms"),
        "binance": (f"ws://{venue.address}/stream", "ethusdc@bookTicker"),
    }[form]
    try:
        with Relay(tmp_path, url, "--channel", channel) as relay:
            address = f"ws://{relay.address}/{channel}"
            with Reader(address) as early:
                http.result("private/buy", {"instrument_name": "ETH_USDC", "amount": 0.2, "price": 2001})
                while not is_best(message := early.arrive(), 2001):
                    pass
                with Reader(f"ws://{relay.address}/") as late:
                    state = late.of(channel, "state")
                    assert is_best(state, 2001) and state["seq"] >= message["seq"]
                    http.result("private/buy", {"instrument_name": "ETH_USDC", "amount": 0.3, "price": 2002})
                    for client, last in [(early, message["seq"]), (late, state["seq"])]:
                        while not is_best(message := client.arrive(), 2002):
                            last = message["seq"]
                        assert message["type"] == "update"
                        # Each message comes once, in order.
                        assert message["seq"] >= last + 1
                if form == "deribit":
                    assert late_book_is_whole(state)
                # A client that comes back gets what it missed.
                with Reader(f"{address}?from={message['epoch']}:{state['seq']}") as returned:
                    missed = returned.of(channel, "update")
                    assert missed["seq"] == state["seq"] + 1
                with Reader(f"{address}?from=1:{state['seq']}") as stranger:
                    assert stranger.of(channel, "state")["seq"] >= message["seq"]
            assert Http(relay.address).get("/healthz").status == 200
            assert b"pitwire_relay_messages_total" in Http(relay.address).get("/metrics").body
            for path, status in [("/nope", 404), ("/?nope=1", 400), (f"/{channel}?from=x", 400)]:
                with pytest.raises(InvalidStatus) as refused:
                    Ws(f"ws://{relay.address}{path}")
                assert refused.value.response.status_code == status
        assert relay.summary["clients"] >= 4 and relay.summary["upstream_gaps"] == 0
    finally:
        http.result("private/cancel_all")
        http.close()


def is_best(message: dict[str, Any], bid: float) -> bool:
    data = message.get("data", {})
    if "b" in data:
        return float(data["b"]) == bid
    return any(price == bid for price, _ in levels(data, "bids")) if "bids" in data else False


def late_book_is_whole(state: dict[str, Any]) -> bool:
    return [price for price, _ in levels(state["data"], "bids")] == [2001, 2000]


def test_gap_of_the_venue_is_marked_and_a_new_snapshot_follows(venue: Venue, tmp_path: Path) -> None:
    """A second relay, with faults, cuts the connection of the first one."""
    http = Http(venue.address, DEMO_A)
    place = tmp_path / "faulty"
    place.mkdir()
    cut = script(place, "[[fault]]\nkind = 'reset'\nconnection = 1\ndirection = 'from-venue'\nat = [4]\n")
    with Relay(place, venue.ws_url, "--faults", cut) as faulty:
        with (
            Relay(tmp_path, faulty.ws_url, "--channel", BOOK) as relay,
            Reader(f"ws://{relay.address}/{BOOK}") as client,
        ):
            seen = []
            for step in range(1, 1000):
                http.result("private/buy", {"instrument_name": "BTC_USDC", "amount": 0.01, "price": 40000 + step})
                seen.append(client.arrive())
                kinds = [message["type"] for message in seen]
                if "gap" in kinds and kinds[-1] == "update":
                    break
            assert "reason" in seen[kinds.index("gap")]
            assert seen[-1]["data"]["type"] == "snapshot", "the first message after a gap is whole"
            numbers = [message["seq"] for message in seen if message["type"] != "state"]
            assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        assert relay.summary["upstream_gaps"] >= 1
    http.result("private/cancel_all")
    http.close()


def test_refused_channels_and_unknown_forms_are_one_clear_line(venue: Venue, tmp_path: Path) -> None:
    for arguments, code, words in [
        ([venue.ws_url, "--channel", "book.NOPE.100ms"], 1, ["book.NOPE.100ms"]),
        ([f"ws://{venue.address}/stream", "--channel", "nope@trade"], 1, ["400"]),
        ([f"ws://{venue.address}/", "--channel", BOOK], 2, ["--form"]),
        ([venue.ws_url, "--channel", "a b"], 2, ["book.BTC_USDC.100ms"]),
        ([venue.ws_url], 2, ["--channel"]),
        ([venue.ws_url, "--channel", BOOK, "--channel", BOOK], 2, ["twice"]),
        ([venue.ws_url, "--channel", BOOK, "--faults", "random"], 2, ["cannot be used with"]),
    ]:
        ended = run_pitwire("relay", *arguments, "--listen", "127.0.0.1:0")
        assert ended.returncode == code, ended
        assert ended.stderr.count("\n") == 1 and ended.stdout == "", ended
        assert all(word in ended.stderr for word in words), ended.stderr
