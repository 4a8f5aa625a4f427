"""`pitwire tape serve --live`: the feed of the latency laboratory, by
contracts/lab-connector.md."""

import csv
import json
import signal
import ssl
import time
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pytest
from test_tape import PATIENCE_S, Feed, run
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

ENVELOPE = ["seq", "due_ns", "sent_ns", "conn"]


class Truth:
    """The rows of a truth log, by connection."""

    def __init__(self, path: Path) -> None:
        with path.open() as file:
            self.rows = list(csv.DictReader(file))

    def of(self, connection: int) -> list[dict[str, str]]:
        return [row for row in self.rows if int(row["connection"]) == connection]

    def sent(self, connection: int) -> list[int]:
        return [int(row["sequence"]) for row in self.of(connection) if row["done_ns"]]


def fields(message: str | bytes) -> tuple[int, int, int, int] | None:
    """The envelope by its documented offsets; None if there is none."""
    assert isinstance(message, str)
    if not message.startswith('{"seq":"'):
        return None
    assert message[27:39] == '","due_ns":"' and message[58:71] == '","sent_ns":"'
    assert message[90:100] == '","conn":"' and message[106:108] == '",'
    return int(message[8:27]), int(message[39:58]), int(message[71:90]), int(message[100:106])


def read_all(socket: ClientConnection) -> tuple[list[str], int | None]:
    """Every message until the connection ends, and the close code."""
    messages = []
    try:
        while True:
            message = socket.recv(timeout=PATIENCE_S)
            assert isinstance(message, str)
            messages.append(message)
    except ConnectionClosed as closed:
        return messages, closed.rcvd.code if closed.rcvd else None


def sequences(messages: list[str]) -> list[int]:
    return [found[0] for found in map(fields, messages) if found]


@pytest.mark.parametrize(
    ("dialect", "url", "greetings"),
    [
        ("binance", "", 0),
        ("bithumb", "message/realtime?subscribe=ORDERBOOK:BTC-USDT,ORDERBOOK:ETH-USDT", 2),
        ("gemini", "v1/marketdata/btcusd?bids=true", 1),
        ("plain", "", 0),
    ],
)
def test_every_message_has_an_envelope_and_a_truth_row(tmp_path: Path, dialect: str, url: str, greetings: int) -> None:
    truth = tmp_path / "truth.csv"
    options = ["--dialect", dialect, "--rate", "2000", "--envelope", "--truth", str(truth), "--trades", "300"]
    feed = Feed(tmp_path, "--live", *options)
    with connect(feed.url + url, max_size=None) as socket:
        messages, code = read_all(socket)
    summary = feed.wait()
    assert code == 1000
    assert [fields(message) for message in messages[:greetings]] == [None] * greetings
    messages = messages[greetings:]
    rows = Truth(truth).of(1)
    assert len(messages) == len(rows) == summary["messages"] == 300
    for number, (message, row) in enumerate(zip(messages, rows, strict=True), 1):
        sequence, due_ns, sent_ns, connection = fields(message) or (0, 0, 0, 0)
        assert (sequence, connection) == (number, 1)
        assert row == {
            "connection": "1",
            "sequence": str(number),
            "due_ns": str(due_ns),
            "sent_ns": str(sent_ns),
            "done_ns": row["done_ns"],
            "bytes": str(len(message.encode())),
            "fault": "",
        }
        assert due_ns <= sent_ns <= int(row["done_ns"])
        parsed = json.loads(message)
        assert list(parsed)[:4] == ENVELOPE and len(parsed) > 4
    dues = [int(row["due_ns"]) for row in rows]
    assert {later - earlier for earlier, later in pairwise(dues)} == {500_000}
    assert summary["bytes"] == sum(int(row["bytes"]) for row in rows)


def test_late_connection_gets_the_same_numbers_from_its_start_on(tmp_path: Path) -> None:
    truth = tmp_path / "truth.csv"
    options = ["--dialect", "binance", "--rate", "500", "--envelope", "--truth", str(truth)]
    feed = Feed(tmp_path, "--live", *options, "--trades", "2000", "--start-with", "2", "--arrival", "poisson")
    with connect(feed.url) as first, connect(feed.url) as second:
        received = [first.recv(timeout=PATIENCE_S) for _ in range(100)]
        with connect(feed.url) as third:
            late = read_all(third)[0]
        one, two = received + read_all(first)[0], read_all(second)[0]
    feed.wait()
    assert sequences(one) == sequences(two) == list(range(1, 2001))
    assert sequences(late) == list(range(sequences(late)[0], 2001)) and sequences(late)[0] > 90
    bodies = [[(*(fields(message) or (0, 0))[:2], message[108:]) for message in got] for got in (one, two, late)]
    assert bodies[0] == bodies[1]
    assert bodies[2] == bodies[0][-len(late) :]
    log = Truth(truth)
    # Which of the first two connections the server numbered first is its own affair.
    for got in (one, two, late):
        connection = (fields(got[0]) or (0, 0, 0, 0))[3]
        assert log.sent(connection) == sequences(got)


def test_faults_happen_as_scripted_and_are_in_the_truth_log(tmp_path: Path) -> None:
    truth, script = tmp_path / "truth.csv", tmp_path / "faults.toml"
    rules = [
        ("drop", "at = [10, 11]"),
        ("duplicate", "at = [20]"),
        ("rubbish", "at = [30]"),
        ("omit-time", "at = [40]"),
        ("delay", "at = [50]\nms = 20"),
        ("stall", "at = [70]\nms = 50"),
        ("close", "at = [150]"),
    ]
    script.write_text("".join(f'[[fault]]\nkind = "{kind}"\n{keys}\n' for kind, keys in rules))
    options = ["--dialect", "binance", "--rate", "1000", "--envelope", "--truth", str(truth)]
    feed = Feed(tmp_path, "--live", *options, "--faults", str(script))
    with connect(feed.url) as socket:
        messages, code = read_all(socket)
    summary = feed.summary()
    assert code == 1001
    numbers = sequences(messages)
    assert Counter(numbers) == Counter([n for n in range(1, 151) if n not in (10, 11, 30, 40)] + [20])
    assert len(messages) == len(numbers) + 2
    rubbish, untimed = (message for message in messages if fields(message) is None)
    assert rubbish.startswith("<html>") and json.loads(untimed)["e"] == "trade"
    # Message 50 is sent 20 ms late: messages 51 to 69 fall due before that.
    assert numbers.index(50) - numbers.index(49) == 20
    log = Truth(truth)
    sent = log.sent(1)
    assert [n for n in sent if n not in (30, 40)] == numbers
    kinds = {int(row["sequence"]): row["fault"] for row in log.of(1) if row["fault"]}
    assert kinds == {
        10: "drop",
        11: "drop",
        20: "duplicate",
        30: "rubbish",
        40: "omit-time",
        50: "delay",
        70: "stall",
        150: "close",
    }
    by_number = {int(row["sequence"]): row for row in log.of(1)}
    for late, least_ns in [(50, 20_000_000), (70, 50_000_000), (90, 30_000_000)]:
        row = by_number[late]
        assert int(row["sent_ns"]) - int(row["due_ns"]) >= least_ns
    assert not by_number[10]["sent_ns"] and not by_number[10]["done_ns"]
    counts = {kind: count for kind, count in summary["faults"].items() if count}
    assert counts == {kind: 2 if kind == "drop" else 1 for kind, _ in rules}


@pytest.mark.parametrize("kind", ["reset", "bad-frame"])
def test_a_break_ends_the_rows_of_its_connection(tmp_path: Path, kind: str) -> None:
    truth, script = tmp_path / "truth.csv", tmp_path / "faults.toml"
    script.write_text(f'[[fault]]\nkind = "{kind}"\nat = [100]\nconnection = 1\n')
    options = ["--dialect", "plain", "--rate", "1000", "--envelope", "--truth", str(truth), "--trades", "400"]
    feed = Feed(tmp_path, "--live", *options, "--faults", str(script))
    with connect(feed.url) as socket:
        before = read_all(socket)[0]
    with connect(feed.url) as socket:
        after, code = read_all(socket)
    feed.wait()
    assert code == 1000
    log = Truth(truth)
    assert log.sent(1) == list(range(1, 100))
    assert log.of(1)[-1]["fault"] == kind
    got = sequences(before)
    # A reset drops data in flight; a bad frame does not.
    assert got == list(range(1, len(got) + 1)) and (kind == "reset" or len(got) == 99)
    assert sequences(after) == log.sent(2) == list(range(sequences(after)[0], 401))
    assert sequences(after)[0] > 100


def test_messages_have_the_sizes_of_the_study(tmp_path: Path) -> None:
    options = ["--payload-bytes", "study", "--markets", "157", "--rate", "max", "--envelope", "--trades", "1001"]
    feed = Feed(tmp_path, "--live", "--dialect", "bithumb", *options)
    with feed.open("message/realtime?subscribe=ORDERBOOK:BTC-USDT,ORDERBOOK:ETH-USDT") as socket:
        messages, code = read_all(socket)
    feed.wait()
    assert code == 1000
    bodies = [message[108:] for message in messages if fields(message)]
    assert len(bodies) == 1001
    # The study had messages of 124 B to 805 kB. Message 1,000 is the first of the largest size.
    assert 804_900 < len(bodies[999]) <= 805_000
    assert 120 <= min(map(len, bodies)) < 160
    assert sorted(map(len, bodies))[500] < 224
    assert all(json.loads("{" + body)["topic"] == "ORDERBOOK" for body in bodies)


@pytest.mark.parametrize("is_tls", [False, True])
def test_messages_in_fragments_keep_their_envelope(tmp_path: Path, is_tls: bool) -> None:
    truth = tmp_path / "truth.csv"
    options = ["--payload-bytes", "124-2000", "--rate", "2000", "--envelope", "--truth", str(truth), "--trades", "200"]
    tls = ["--tls"] if is_tls else []
    feed = Feed(tmp_path, "--live", "--dialect", "plain", "--fragment", "120", *options, *tls)
    context = ssl.create_default_context(cafile=feed.ready["ca"]) if is_tls else None
    messages = []
    with feed.open(ssl=context) as socket:
        try:
            while True:
                messages.append(list(socket.recv_streaming()))
        except ConnectionClosed as closed:
            assert closed.rcvd is not None and closed.rcvd.code == 1000
    feed.wait()
    assert feed.url.startswith("wss://" if is_tls else "ws://")
    rows = Truth(truth).of(1)
    assert len(messages) == len(rows) == 200
    for pieces, row in zip(messages, rows, strict=True):
        message = "".join(str(piece) for piece in pieces)
        assert len(message) == int(row["bytes"])
        assert [len(piece) for piece in pieces if piece] == [
            *[120] * (len(message) // 120),
            *([len(message) % 120] if len(message) % 120 else []),
        ]
        sequence, due_ns, sent_ns, _ = fields(message) or (0, 0, 0, 0)
        assert (str(sequence), str(due_ns), str(sent_ns)) == (row["sequence"], row["due_ns"], row["sent_ns"])
        json.loads(message)


@pytest.mark.parametrize("fragment", [[], ["--fragment", "120"]])
def test_a_compressed_message_keeps_its_envelope_at_its_place(tmp_path: Path, fragment: list[str]) -> None:
    truth = tmp_path / "truth.csv"
    options = ["--dialect", "plain", "--payload-bytes", "1000", "--rate", "2000", "--envelope", "--truth", str(truth)]
    feed = Feed(tmp_path, "--live", "--compress", *options, *fragment, "--trades", "200", "--start-with", "2")
    with connect(feed.url, compression=None) as plain, connect(feed.url, compression="deflate") as compressed:
        assert plain.response.headers.get("Sec-WebSocket-Extensions") is None
        agreed = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
        assert compressed.response.headers["Sec-WebSocket-Extensions"] == agreed
        compressed.send("x" * 500)
        (own, _), (messages, code) = read_all(plain), read_all(compressed)
    feed.wait()
    assert code == 1000
    # On a busy machine a connection joins late and misses what was due before.
    begin = max(sequences(own)[0], sequences(messages)[0])
    own, messages = (texts[begin - sequences(texts)[0] :] for texts in (own, messages))
    assert sequences(own) == sequences(messages) == list(range(begin, 201))
    # Only the time of sending and the connection differ.
    assert [text[:58] + text[108:] for text in own] == [text[:58] + text[108:] for text in messages]
    for message, row in zip(messages, Truth(truth).of(2)[-len(messages) :], strict=True):
        assert fields(message) == tuple(int(row[name]) for name in ("sequence", "due_ns", "sent_ns", "connection"))
        assert int(row["bytes"]) == len(message) == 1000


def test_a_silent_connection_stays_open_and_the_others_go_on(tmp_path: Path) -> None:
    truth, script = tmp_path / "truth.csv", tmp_path / "faults.toml"
    script.write_text('[[fault]]\nkind = "silence"\nat = [50]\nconnection = 1\n')
    options = ["--dialect", "plain", "--rate", "500", "--envelope", "--truth", str(truth), "--trades", "200"]
    feed = Feed(tmp_path, "--live", *options, "--faults", str(script))
    with connect(feed.url) as silent:
        received = [str(silent.recv(timeout=PATIENCE_S)) for _ in range(49)]
        with connect(feed.url) as other:
            rest = read_all(other)[0]
        # The other connection had the last message, and this one is still open without a message.
        silent.ping().wait(PATIENCE_S)
        with pytest.raises(TimeoutError):
            silent.recv(timeout=0)
    summary = feed.wait()
    assert sequences(received) == list(range(1, 50))
    assert sequences(rest)[-1] == 200
    log = Truth(truth)
    assert log.sent(1) == list(range(1, 50))
    assert [(row["sequence"], row["fault"]) for row in log.of(1) if row["fault"]] == [("50", "silence")]
    assert summary["faults"]["silence"] == 1


def test_a_full_disk_ends_the_feed_with_a_message(tmp_path: Path) -> None:
    options = ["--dialect", "plain", "--rate", "max", "--trades", "20000", "--truth", "/dev/full"]
    feed = Feed(tmp_path, "--live", *options)
    with connect(feed.url) as socket:
        messages, code = read_all(socket)
    out, err = feed.process.communicate(timeout=PATIENCE_S)
    # Readers get everything, and the feed says that its log lacks rows.
    assert (len(messages), code) == (20_000, 1000)
    assert feed.process.returncode == 1
    assert "cannot write the truth log: No space left on device" in err
    assert json.loads(out)["messages"] == 20_000


def test_sigterm_closes_with_1001_and_keeps_the_truth_log(tmp_path: Path) -> None:
    truth = tmp_path / "truth.csv"
    feed = Feed(tmp_path, "--live", "--dialect", "plain", "--rate", "max", "--envelope", "--truth", str(truth))
    with connect(feed.url) as socket:
        messages = [socket.recv(timeout=PATIENCE_S) for _ in range(2_000)]
        feed.process.send_signal(signal.SIGTERM)
        rest, code = read_all(socket)
    summary = feed.wait()
    assert code == 1001
    got = sequences([str(message) for message in messages] + rest)
    assert got == list(range(1, len(got) + 1))
    assert Truth(truth).sent(1) == got
    assert summary["messages"] == len(got)


def test_a_reader_that_stops_reading_does_not_stop_the_others(tmp_path: Path) -> None:
    options = ["--dialect", "plain", "--payload-bytes", "16000", "--rate", "2000", "--envelope", "--trades", "4000"]
    feed = Feed(tmp_path, "--live", *options, "--start-with", "2")
    with connect(feed.url, max_queue=1, close_timeout=0.1), connect(feed.url) as reader:
        messages, _ = read_all(reader)
        assert sequences(messages) == list(range(1, 4001))
    feed.summary()


def test_a_recording_is_replayed_at_its_own_times(tmp_path: Path) -> None:
    source = Feed(tmp_path, "--live", "--dialect", "gemini", "--markets", "1", "--rate", "200", "--trades", "50")
    tape = tmp_path / "day.tape"
    assert run("record", source.url, tape).returncode == 0
    source.wait()
    feed = Feed(tmp_path, "--live", "--file", str(tape), "--rate", "x10", "--envelope")
    with connect(feed.url) as socket:
        messages, _ = read_all(socket)
    feed.summary()
    # The first message of a Gemini connection is a heartbeat of the source.
    assert sequences(messages) == list(range(1, 52))
    dues = [(fields(message) or (0, 0))[1] for message in messages]
    assert dues == sorted(dues)
    assert 0.015e9 < dues[-1] - dues[1] < 0.2e9, "49 gaps of 5 ms at ten times the speed"


def test_wrong_options_are_refused(tmp_path: Path) -> None:
    script = tmp_path / "faults.toml"
    script.write_text('[[fault]]\nkind = "explode"\nat = [1]\n')
    serve = ["serve", "--listen", "127.0.0.1:0"]
    for options, expected in [
        (["--live"], "--live serves messages"),
        (["--dialect", "plain"], "add --live"),
        (["--envelope"], "--live"),
        (["--live", "--dialect", "plain", "--rate", "open-close"], "cannot keep this --rate"),
        (["--live", "--dialect", "plain", "--rate", "max", "--arrival", "poisson"], "cannot keep this --rate"),
        (["--live", "--dialect", "plain", "--payload-bytes", "100"], "124 to 16777216"),
        (["--live", "--dialect", "plain", "--faults", script], "unknown variant `explode`"),
        (["--live", "--dialect", "plain", "--faults", tmp_path / "absent"], "No such file"),
        (["--live", "--dialect", "plain", "--truth", tmp_path / "absent" / "x"], "check --truth"),
        (["--live", "--dialect", "binance", "--per-client"], "cannot be used with"),
        (["--live", "--dialect", "plain", "--envelope", "--fragment", "107"], "too short for the envelope"),
        (["--live", "--file", tmp_path / "absent", "--payload-bytes", "study"], "cannot be used with"),
    ]:
        done = run(*serve, *options)
        assert done.returncode in (1, 2) and expected in done.stderr, done.stderr


def test_the_feed_starts_when_its_readers_are_there(tmp_path: Path) -> None:
    options = ["--dialect", "plain", "--rate", "1000", "--envelope", "--trades", "5", "--start-with", "2"]
    feed = Feed(tmp_path, "--live", *options)
    with connect(feed.url) as first:
        with pytest.raises(TimeoutError):
            first.recv(timeout=0.3)
        before_ns = time.monotonic_ns()
        with connect(feed.url) as second:
            one, two = read_all(first)[0], read_all(second)[0]
    feed.wait()
    assert sequences(one) == sequences(two) == [1, 2, 3, 4, 5]
    assert (fields(one[0]) or (0, 0))[1] > before_ns
