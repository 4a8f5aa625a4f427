"""A gateway's listener and its reports about a silent venue: host names, ready file, keys,
subjects."""

import signal
from pathlib import Path

import pytest
from nats_server import Server
from rpc import Http, until
from test_gateway import PATIENCE_S, Gateway, gateway, venue
from venue import Venue, run_pitwire
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

__all__ = ["gateway", "venue"]


def test_clients_connect_by_configured_host_names(tmp_path: Path, server: Server, venue: Venue) -> None:
    names = ["--host", "md.example.com", "--host", "other.example"]
    with Gateway(tmp_path, "named", server.url, venue.data / "bus.key", extra=names) as named:
        for host, status in [("md.example.com", 200), ("OTHER.example:8081", 200), ("evil.example", 421)]:
            reply = Http(named.address).get("/healthz", {"Host": host})
            assert reply.status == status, (host, reply)
        assert b"--host" in Http(named.address).get("/healthz", {"Host": "evil.example"}).body


def test_stopping_gateway_names_itself_in_the_close(gateway: Gateway) -> None:
    with connect(gateway.url(), compression=None) as connection:
        assert gateway.end(signal.SIGTERM) == 0
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                connection.recv(PATIENCE_S)
    assert closed.value.rcvd is not None
    assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1001, "the gateway is stopping")


def test_gateway_explains_why_the_bus_is_silent(tmp_path: Path, server: Server, venue: Venue) -> None:
    key = tmp_path / "other.key"
    key.write_text("ab" * 32)
    key.chmod(0o600)
    right = venue.data / "bus.key"
    waiting = [
        (Gateway(tmp_path, "key", server.url, key), "copy of the venue's"),
        (Gateway(tmp_path, "subject", server.url, right, extra=["--subject", "elsewhere"]), "--publish-subject"),
        (Gateway(tmp_path, "venue", server.url, right, extra=["--venue", "http://127.0.0.1:1"]), "127.0.0.1:1"),
    ]
    try:
        for one, _ in waiting:
            one.start(wait=False)
        for one, words in waiting:
            until(lambda one=one, words=words: words in one.tail(), f"{words} is said")
            # Reported once, although the trouble continues.
            assert one.tail().count(words) == 1, one.tail()
            assert not (tmp_path / f"{one.name}.ready").exists()
    finally:
        for one, _ in waiting:
            one.end(signal.SIGKILL)


@pytest.mark.parametrize("command", ["gateway", "up"])
def test_unwritable_ready_file_ends_the_command_before_it_serves(command: str, tmp_path: Path) -> None:
    key = tmp_path / "KEY"
    key.write_text("ab" * 32)
    key.chmod(0o600)
    own = {
        "gateway": ["--upstream", "nats://127.0.0.1:1", "--bus-key", str(key)],
        "up": ["--data", str(tmp_path / "data")],
    }
    ready = tmp_path / "nowhere" / "ready"
    ended = run_pitwire(
        command, "--http", "127.0.0.1:0", *own[command], "--ready-file", str(ready), timeout_s=PATIENCE_S
    )
    assert ended.returncode == 1 and "check --ready-file" in ended.stderr, ended.stderr
    assert ended.stderr.count("\n") == 1 and not ended.stdout


@pytest.mark.parametrize("name", ["https://md.example.com", "md.example.com:80", ""])
def test_host_option_takes_bare_names(name: str) -> None:
    ended = run_pitwire("gateway", "--upstream", "nats://x", "--host", name, timeout_s=PATIENCE_S)
    assert ended.returncode == 2 and "bare name" in ended.stderr, ended.stderr
