"""`pitwire tape serve --live --relay`, and the other options of the feed that follow a server's
habits.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

import pytest
from test_tape import PATIENCE_S, Feed, run
from test_tape_live import Truth, fields, read_all, sequences
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.sync.server import ServerConnection, serve


@contextmanager
def upstream(messages: list[str | bytes]) -> Iterator[tuple[str, list[str]]]:
    """A server that sends `messages` after a subscription and then closes.

    Yields its URL and what it got.
    """
    received: list[str] = []

    def handle(connection: ServerConnection) -> None:
        received.append(str(connection.recv()))
        try:
            for message in messages:
                connection.send(message)
        except ConnectionClosed:
            return

    with serve(handle, "127.0.0.1", 0, compression=None) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host, port = server.socket.getsockname()[:2]
        yield f"ws://{host}:{port}/stream", received
        server.shutdown()


def test_a_relay_numbers_the_messages_of_another_server_for_all_readers(tmp_path: Path) -> None:
    truth = tmp_path / "truth.csv"
    messages: list[str | bytes] = [f'{{"event":{n}}}' for n in range(300)]
    messages += ["[1,2]", b"\x00\x01"]
    with upstream(messages) as (url, received):
        options = ["--relay", url, "--relay-subscribe", "all of it", "--envelope", "--truth", str(truth)]
        feed = Feed(tmp_path, "--live", *options, "--start-with", "2")
        found: list[list[str | bytes]] = []
        codes: list[int | None] = []
        with connect(feed.url, max_size=None) as first, connect(feed.url, max_size=None) as second:
            for socket in (first, second):
                arrived: list[str | bytes] = []
                try:
                    while True:
                        arrived.append(socket.recv(timeout=PATIENCE_S))
                except ConnectionClosed as closed:
                    codes.append(closed.rcvd.code if closed.rcvd else None)
                found.append(arrived)
        summary = feed.wait()
    assert received == ["all of it"]
    assert codes == [1000, 1000]
    for received in found:
        assert [str(m)[108:] for m in received[:300]] == [str(m)[1:] for m in messages[:300]]
        assert sequences(received[:300]) == list(range(1, 301))
        # No object, so no place for an envelope.
        assert received[300:] == ["[1,2]", b"\x00\x01"]
    dues = [[(fields(m) or (0, 0))[1] for m in received[:300]] for received in found]
    assert dues[0] == dues[1] == sorted(dues[0])
    assert Truth(truth).sent(1) == Truth(truth).sent(2) == list(range(1, 303))
    assert summary["messages"] == 604


def test_a_relay_ends_after_its_seconds_or_messages(tmp_path: Path) -> None:
    source = Feed(tmp_path, "--live", "--dialect", "plain", "--rate", "200", "--envelope")
    second = tmp_path / "second"
    second.mkdir()
    feed = Feed(second, "--live", "--relay", source.url, "--envelope", "--trades", "50")
    with connect(feed.url) as socket:
        messages, code = read_all(socket)
    assert (len(messages), code) == (50, 1000)
    feed.wait()
    third = tmp_path / "third"
    third.mkdir()
    feed = Feed(third, "--live", "--relay", source.url, "--relay-seconds", "1")
    with connect(feed.url) as socket:
        messages, code = read_all(socket)
    assert code == 1000
    assert messages
    feed.wait()
    source.summary()


def test_a_relay_without_its_server_fails_with_a_remedy(tmp_path: Path) -> None:
    feed = Feed(tmp_path, "--live", "--relay", "ws://127.0.0.1:9/")
    with connect(feed.url) as socket:
        assert read_all(socket)[0] == []
    out, err = feed.process.communicate(timeout=PATIENCE_S)
    assert feed.process.returncode == 1
    assert "127.0.0.1:9" in err, out + err


@pytest.mark.parametrize("option", [["--dialect", "binance"], ["--arrival", "poisson"], ["--file", "x.tape"]])
def test_a_relay_takes_no_other_source(option: list[str]) -> None:
    done = run("serve", "--listen", "127.0.0.1:0", "--live", "--relay", "ws://127.0.0.1:9/", *option)
    assert done.returncode == 2
    assert "cannot be used with" in done.stderr


def test_a_feed_with_subscriptions_waits_for_the_first_text(tmp_path: Path) -> None:
    feed = Feed(tmp_path, "--live", "--dialect", "plain", "--rate", "500", "--trades", "20", "--subscribe-first")
    with connect(feed.url) as socket:
        with pytest.raises(TimeoutError):
            socket.recv(timeout=0.3)
        socket.send('{"method":"SUBSCRIBE"}')
        messages, code = read_all(socket)
    assert (len(messages), code) == (20, 1000)
    feed.wait()


def test_a_batch_is_due_at_once(tmp_path: Path) -> None:
    options = ["--dialect", "plain", "--rate", "1000", "--arrival", "batches", "--batch", "50", "--envelope"]
    feed = Feed(tmp_path, "--live", *options, "--trades", "200")
    with connect(feed.url) as socket:
        messages, _ = read_all(socket)
    feed.wait()
    dues = [(fields(message) or (0, 0))[1] for message in messages]
    sizes = [len(list(group)) for _, group in groupby(dues)]
    assert sizes == [50, 50, 50, 50]
    assert {later - earlier for earlier, later in zip(dues[:-50:50], dues[50::50], strict=True)} == {50_000_000}


def test_a_batch_is_written_in_pieces_and_keeps_its_order_around_a_fault(tmp_path: Path) -> None:
    truth, script = tmp_path / "truth.csv", tmp_path / "faults.toml"
    script.write_text('[[fault]]\nkind = "duplicate"\nat = [60]\n[[fault]]\nkind = "drop"\nat = [90]\n')
    options = ["--dialect", "plain", "--payload-bytes", "2000", "--rate", "1000", "--envelope", "--truth", str(truth)]
    options += ["--arrival", "batches", "--batch", "50", "--faults", str(script), "--trades", "100"]
    feed = Feed(tmp_path, "--live", *options)
    with connect(feed.url) as socket:
        messages, _ = read_all(socket)
    feed.wait()
    got = [fields(message) or (0, 0, 0, 0) for message in messages]
    assert [row[0] for row in got] == [*range(1, 61), 60, *range(61, 90), *range(91, 101)]
    rows = [row for row in Truth(truth).of(1) if row["done_ns"]]
    assert [(int(row["sequence"]), int(row["due_ns"]), int(row["sent_ns"])) for row in rows] == [r[:3] for r in got]
    # 50 messages of 2,000 bytes are two pieces of at most 64 KiB, and each has one time.
    assert len({row[2] for row in got[:50]}) == 2
