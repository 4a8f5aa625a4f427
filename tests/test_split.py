"""`pitwire split` against a misbehaving server and slow workers."""

import base64
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.request import urlopen

import pytest
from feed import (
    BINARY_FRAME,
    CLOSE,
    CONTINUATION,
    PATIENCE_S,
    PING,
    PONG,
    TEXT,
    Feed,
    Peer,
    Trades,
    frame,
    records,
    split,
    split_command,
    summary,
)
from venue import BINARY, run_pitwire
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

SYMBOLS = ["AAPL", "MSFT", "SPY", "BRK.A", "F", "QQQ"]
WORKER = [sys.executable, str(Path(__file__).parent / "pipe_worker.py")]


# The tape may come from another build.
TAPE_BINARY = Path(os.environ.get("PITWIRE_TAPE_BIN", BINARY))


@contextmanager
def running(command: list[str]) -> Iterator[subprocess.Popen[str]]:
    """A process that ends with its test."""
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, stdin=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait_for(what: Callable[[], object], why: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < deadline, why
        time.sleep(0.01)


def hold(peer: Peer) -> None:
    """Waits until the client ends the connection, as a server does that has sent everything."""
    peer.read_close()
    peer.send(frame(CLOSE, b"\x03\xe8"))


def test_trades_reach_their_workers_as_they_came(tmp_path: Path) -> None:
    trades = Trades()
    sent = [trades.one(symbol) for symbol in SYMBOLS * 50]

    def serve(peer: Peer, _: int) -> None:
        peer.shake_hands()
        peer.send(frame(TEXT, b"[" + b",".join(sent) + b"]"))
        hold(peer)

    with Feed(serve) as feed:
        ended = split(feed.url, "--limit-trades", "300", "--json", "--", *WORKER, tmp_path / "out")
    assert ended.returncode == 0, ended.stderr
    by_worker = {3: ["AAPL", "MSFT"], 1: ["SPY"], 0: ["BRK.A", "F"]}  # as the original deals them among four
    got = {worker: records((tmp_path / f"out.{worker}").read_bytes()) for worker in range(4)}
    for worker, symbols in by_worker.items():
        wanted = [text for text in sent if json.loads(text)["sym"] in symbols]
        assert [text for text in got[worker] if json.loads(text)["sym"] != "QQQ"] == wanted
    assert sorted(text for of_worker in got.values() for text in of_worker) == sorted(sent)
    figures = summary(ended)
    assert (figures["trades"], figures["frames"], figures["reconnects"], figures["gaps"]) == (300, 1, 0, 0)
    assert {"bytes", "seconds", "trades_per_s", "cpu_ns_per_trade", "reads", "dropped", "spilled"} <= figures.keys()
    # The counters' CPU is excluded; the other threads are included.
    assert figures["cpu_ns_per_trade"] >= figures["feed_cpu_ns_per_trade"] > 0
    assert "counters_cpu_ns_per_trade" not in figures


def test_bytes_after_the_handshake_answer_are_kept() -> None:
    trades, keys = Trades(), []

    def serve(peer: Peer, _: int) -> None:
        headers = peer.shake_hands(behind=trades.frame(SYMBOLS))
        keys.append(base64.b64decode(headers["sec-websocket-key"]))
        assert peer.request == "GET /feed?a=b HTTP/1.1"
        assert headers["sec-websocket-version"] == "13" and headers["upgrade"] == "websocket"
        assert headers["host"] == f"127.0.0.1:{feed.port}"
        hold(peer)

    with Feed(serve) as feed:
        for _ in range(2):
            ended = split(feed.url + "?a=b", "--limit-trades", "6", "--json")
            assert ended.returncode == 0 and summary(ended)["counted"]["trades"] == 6, ended.stderr
    assert len(keys) == 2 and keys[0] != keys[1] and all(len(key) == 16 for key in keys)


def test_auth_and_subscribe_follow_the_hello_on_every_connection(tmp_path: Path) -> None:
    trades, masks = Trades(), []
    (tmp_path / "key").write_text('{"action":"auth","params":"secret"}\n')

    def serve(peer: Peer, number: int) -> None:
        peer.shake_hands()
        if number == 1:
            peer.send(frame(TEXT, b'[{"ev":"status","status":"connected"}]'))
        for wanted in (b'{"action":"auth","params":"secret"}', b"T.*", b"Q.*"):
            opcode, payload, mask = peer.read_frame()
            assert (opcode, payload) == (TEXT, wanted)
            masks.append(mask)
        peer.send(trades.frame(SYMBOLS))
        if number == 2:
            hold(peer)

    with Feed(serve) as feed:
        introduction = ["--auth", f"@{tmp_path / 'key'}", "--subscribe", "T.*", "--subscribe", "Q.*"]
        ended = split(feed.url, *introduction, "--limit-trades", "12", "--json")
    figures = summary(ended)
    assert (ended.returncode, figures["reconnects"], figures["no_sym"]) == (0, 1, 1), ended.stderr
    assert len(set(masks)) == 6 and "secret" not in ended.stderr


def test_pings_are_answered_with_their_body_even_inside_a_message() -> None:
    trades, bodies = Trades(), []

    def serve(peer: Peer, _: int) -> None:
        peer.shake_hands()
        text = trades.array(SYMBOLS)
        for body in (b"", b"x", b"y" * 27, b"z" * 125):
            peer.send(frame(PING, body))
            opcode, payload, _ = peer.read_frame()
            assert opcode == PONG
            bodies.append(payload)
        peer.send(frame(TEXT, text[:30], fin=False), frame(PING, b"inside"), frame(CONTINUATION, text[30:]))
        opcode, payload, _ = peer.read_frame()
        bodies.append(payload)
        hold(peer)

    with Feed(serve) as feed:
        ended = split(feed.url, "--limit-trades", "6", "--json")
    # The end may overtake the last pong: one read reaches the limit.
    assert ended.returncode == 0 and bodies[:4] == [b"", b"x", b"y" * 27, b"z" * 125], ended.stderr


BROKEN = {
    "ping of 126": (frame(PING, b"a" * 126), 1002),
    "reserved opcode 3": (frame(3, b"a"), 1002),
    "reserved opcode 11": (frame(11, b""), 1002),
    "reserved bit": (frame(TEXT, b"[]", first=0xC1), 1002),
    "masked": (b"\x81\x82\0\0\0\0[]", 1002),
    "stray final continuation": (frame(CONTINUATION, b"[]"), 1002),
    "message in message": (frame(TEXT, b"[", fin=False) + frame(TEXT, b"]"), 1002),
    "fragmented ping": (frame(PING, b"", fin=False), 1002),
    "length of 2^63": (frame(TEXT, b"", length=b"\x7f" + (1 << 63).to_bytes(8, "big")), 1002),
    "length of 2^62": (frame(TEXT, b"", length=b"\x7f" + (1 << 62).to_bytes(8, "big")), 1009),
    "length in too many bytes": (frame(TEXT, b"[]", length=b"\x7e\x00\x02"), 1002),
    "close of one byte": (frame(CLOSE, b"\x03"), 1002),
    "close with 1005": (frame(CLOSE, b"\x03\xed"), 1002),
    "bad UTF-8": (frame(TEXT, b'["\xff"]'), 1007),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_server_that_breaks_the_protocol_gets_the_reason_and_is_left(name: str) -> None:
    rubbish, code = BROKEN[name]
    trades, codes = Trades(), []

    def serve(peer: Peer, number: int) -> None:
        peer.shake_hands()
        peer.send(trades.frame(SYMBOLS))
        if number == 1:
            peer.send(rubbish)
            codes.append(peer.read_close())
        else:
            hold(peer)

    with Feed(serve) as feed:
        ended = split(feed.url, "--limit-trades", "12", "--json")
    figures = summary(ended)
    assert (ended.returncode, codes) == (0, [code]), ended.stderr
    assert figures["reconnects"] == 1 and figures["gaps"] == 4 and "broke the WebSocket protocol" in ended.stderr
    assert (figures["counted"]["trades"], figures["counted"]["lost"], figures["counted"]["duplicated"]) == (12, 0, 0)


ODD = {
    "empty array": b"[]",
    "array of nothing but space": b"[ \n ]",
    "status object": b'{"ev":"status","message":"ok"}',
    "no JSON": b"hello",
    "unterminated string": b'[{"ev":"T","sym":"AAPL","p":"1',
    "unterminated object": b'[{"ev":"T","sym":"AAPL"',
    "brackets in strings": b'["}{][", {"sym":7}]',
    "object of 1 MiB and more": b'[{"ev":"T","sym":"BIG","note":"' + b"x" * (1 << 20) + b'"}]',
    "empty message": b"",
}


@pytest.mark.parametrize("opcode", [TEXT, BINARY_FRAME])
@pytest.mark.parametrize("name", ODD)
def test_odd_messages_affect_no_other_message(name: str, opcode: int) -> None:
    trades = Trades()

    def serve(peer: Peer, _: int) -> None:
        peer.shake_hands()
        peer.send(trades.frame(SYMBOLS), frame(opcode, ODD[name]), trades.frame(SYMBOLS))
        hold(peer)

    with Feed(serve) as feed:
        ended = split(feed.url, "--limit-trades", "12", "--json")
    figures = summary(ended)
    assert (ended.returncode, figures["reconnects"]) == (0, 0), ended.stderr
    assert (figures["counted"]["trades"], figures["counted"]["lost"]) == (12, 0)


def test_bytes_one_by_one_and_frames_in_pieces_give_the_same_trades() -> None:
    trades = Trades()

    def serve(peer: Peer, _: int) -> None:
        peer.shake_hands()
        text = trades.array(SYMBOLS)
        whole = frame(TEXT, text[:100], fin=False) + frame(CONTINUATION, text[100:101], fin=False)
        whole += frame(PING, b"") + frame(CONTINUATION, b"", fin=False) + frame(CONTINUATION, text[101:])
        for byte in whole:
            peer.send(bytes([byte]))
        hold(peer)

    with Feed(serve) as feed:
        ended = split(feed.url, "--limit-trades", "6", "--json")
    counted = summary(ended)["counted"]
    assert (ended.returncode, counted["trades"], counted["symbols"], counted["lost"]) == (0, 6, 6, 0), ended.stderr


ANSWERS = {
    "401": (b"HTTP/1.1 401 Unauthorized\r\n\r\n", "401 Unauthorized", "key"),
    "403": (b"HTTP/1.1 403 Forbidden\r\n\r\n", "403", "account"),
    "404": (b"HTTP/1.1 404 Not Found\r\n\r\n", "404", "path"),
    "redirect": (
        b"HTTP/1.1 302 Found\r\nLocation: ws://elsewhere/\r\n\r\n",
        "ws://elsewhere/",
        "redirects are not followed",
    ),
    "wrong accept": (
        b"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n",
        "Accept",
        "check the URL",
    ),
    "no HTTP": (b"SSH-2.0-OpenSSH_9.2\r\n", "not HTTP", "check the URL"),
    "endless headers": (b"HTTP/1.1 101 x\r\n" + b"A: b\r\n" * 20_000, "headers", "check the URL"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_permanent_failure_ends_at_once_with_its_reason(name: str) -> None:
    answer, says, remedy = ANSWERS[name]

    def serve(peer: Peer, _: int) -> None:
        peer.read_request()
        peer.send(answer)

    with Feed(serve) as feed:
        ended = split(feed.url)
    assert ended.returncode == 1 and feed.connections == 1
    last = ended.stderr.splitlines()[-1]
    assert says in last and remedy in last, ended.stderr


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 101 Switching Pro"])
def test_an_end_inside_the_handshake_is_tried_again_with_longer_waits(answer: bytes) -> None:
    trades, times = Trades(), []

    def serve(peer: Peer, number: int) -> None:
        times.append(time.monotonic())
        if number <= 4:
            peer.read_request()
            peer.send(answer)
            return
        peer.shake_hands(behind=trades.frame(SYMBOLS))
        hold(peer)

    with Feed(serve) as feed:
        ended = split(feed.url, "--limit-trades", "6", "--json")
    assert ended.returncode == 0 and "ended the handshake" in ended.stderr, ended.stderr
    # At least half of 100, 200, 400 and 800 ms.
    assert [
        later - sooner >= wait for sooner, later, wait in zip(times, times[1:], (0.05, 0.1, 0.2, 0.4), strict=False)
    ] == [True] * 4


def test_a_server_that_accepts_and_drops_is_not_hammered() -> None:
    times: list[float] = []

    def serve(peer: Peer, _: int) -> None:
        times.append(time.monotonic())
        peer.shake_hands()

    with Feed(serve) as feed, running(split_command(feed.url)) as process:
        wait_for(lambda: len(times) >= 5, "it does not try again")
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0
    # At least half of 100, 200, 400 and 800 ms.
    assert [
        later - sooner >= wait for sooner, later, wait in zip(times, times[1:], (0.05, 0.1, 0.2, 0.4), strict=False)
    ] == [True] * 4


def test_server_that_never_answers_times_out() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"ws://127.0.0.1:{listener.getsockname()[1]}/"
        ended = split(url, "--timeout", "1", "--no-reconnect")
    assert ended.returncode == 1 and "has not answered the WebSocket handshake in 1 s" in ended.stderr, ended.stderr


def test_silent_connection_gets_a_ping_and_is_then_closed() -> None:
    asked = []

    def serve(peer: Peer, _: int) -> None:
        peer.shake_hands()
        asked.append(peer.read_frame()[0])
        peer.read_frame()

    with Feed(serve) as feed:
        ended = split(feed.url, "--silence", "1", "--no-reconnect", "--json")
    assert ended.returncode == 1 and asked == [PING]
    assert "nothing received for 1 s" in ended.stderr and summary(ended)["trades"] == 0


def test_a_close_is_answered_with_its_code_and_its_reason_is_shown() -> None:
    codes = []

    def serve(peer: Peer, _: int) -> None:
        peer.shake_hands()
        peer.send(frame(CLOSE, b"\x03\xf5" + "zu viele Verbindungen \u20ac\x1b[2J".encode()))
        codes.append(peer.read_close())

    with Feed(serve) as feed:
        ended = split(feed.url, "--no-reconnect")
    assert (ended.returncode, codes) == (1, [1013]), ended.stderr
    assert "closed the connection with 1013: zu viele Verbindungen" in ended.stderr and "\x1b" not in ended.stderr


def test_every_worker_learns_of_a_lost_connection_and_of_nothing_else(tmp_path: Path) -> None:
    trades = Trades()

    def serve(peer: Peer, number: int) -> None:
        peer.shake_hands()
        peer.send(trades.frame(SYMBOLS))
        if number == 3:
            hold(peer)
        # The feed ends inside a trade, which must not be delivered.
        peer.send(trades.frame(["LOST"])[:60])

    def run(*args: str) -> list[list[dict[str, object]]]:
        with Feed(serve) as feed:
            before = time.time_ns()
            ended = split(feed.url, "--limit-trades", "18", *args, "--", *WORKER, tmp_path / "out")
            assert ended.returncode == 0, ended.stderr
        got = [[json.loads(text) for text in records((tmp_path / f"out.{worker}").read_bytes())] for worker in range(4)]
        assert sum(len([one for one in of_worker if one["ev"] == "T"]) for of_worker in got) == 18
        for of_worker in got:
            for one in of_worker:
                assert one["ev"] == "T" or before < int(str(one["at_ns"])) < time.time_ns()
        return [[one for one in of_worker if one["ev"] == "gap"] for of_worker in got]

    for gaps in run():
        assert [(gap["conn"], gap["sym"]) for gap in gaps] == [(1, ""), (2, "")]
    assert run("--no-gap-records") == [[], [], [], []]


LINE = re.compile(
    r"\[\d+\.\d{5}\] Rate \{r +\d+\} \{f +\d+\} \{f/r +\d+\.\d\d\} \{t/f +(\d+\.\d\d)\} \{tt (\d+)\} \{ttt (\d+)\} "
    r"\{br +\d+\} \{bt +\d+\}: +\d+\.\d\d t/s"
)


def test_a_statistics_line_comes_at_every_8192nd_trade_of_a_connection() -> None:
    trades = Trades()

    def serve(peer: Peer, number: int) -> None:
        peer.shake_hands()
        peer.send(trades.frame(["AAPL"] * 128) * 100)
        if number == 2:
            hold(peer)

    with Feed(serve) as feed:
        ended = split(feed.url, "--limit-trades", "25600")
        to_stderr = split(feed.url, "--limit-trades", "9000", "--stats-every", "1000", "--json")
        none = split(feed.url, "--limit-trades", "9000", "--stats-every", "0")
    lines = [match.groups() for match in map(LINE.fullmatch, ended.stdout.splitlines()) if match]
    # A frame counts from its first byte, and up to 256 trades of one read are delivered at once:
    # the line is due at the 64th frame's last trade, when up to two more may have started. The
    # kernel decides where reads end.
    assert [line[1:] for line in lines] == [("8192", "8192"), ("8192", "20992")], ended.stdout
    assert all(line[0] in ("124.12", "126.03", "128.00") for line in lines), lines
    assert len([line for line in to_stderr.stderr.splitlines() if LINE.fullmatch(line)]) == 9
    assert summary(to_stderr)["trades"] == 9000 and "Rate" not in none.stdout + none.stderr


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_stop_closes_drains_and_prints_the_summary(how: signal.Signals, tmp_path: Path) -> None:
    trades, codes = Trades(), []

    def serve(peer: Peer, _: int) -> None:
        peer.shake_hands()
        peer.send(trades.frame(SYMBOLS))
        codes.append(peer.read_close())
        peer.send(frame(CLOSE, b"\x03\xe9"))

    with Feed(serve) as feed:
        command = split_command(feed.url, "--json", "--", *WORKER, str(tmp_path / "out"))
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_for(lambda: sum(p.stat().st_size for p in tmp_path.glob("out.[0-9]")) > 500, "no trade arrived")
        process.send_signal(how)
        out, err = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, codes) == (0, [1001]), err
    assert json.loads(out)["trades"] == 6
    assert sum(len(records((tmp_path / f"out.{worker}").read_bytes())) for worker in range(4)) == 6


def test_stop_ends_the_pause_before_a_reconnection() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with running(split_command(f"ws://127.0.0.1:{port}/")) as process:
        assert process.stderr is not None
        assert any("trying again in" in line for line in process.stderr)
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE_S) == 0


def test_a_stopped_worker_stops_no_other_worker(tmp_path: Path) -> None:
    trades, out = Trades(), tmp_path / "out"
    rounds, size = 400, 100

    def spy_bytes() -> int:
        return (tmp_path / "out.1").stat().st_size if (tmp_path / "out.1").exists() else 0

    def serve(peer: Peer, _: int) -> None:
        peer.shake_hands()
        for done in range(1, rounds + 1):
            # SPY belongs to worker 1, F to worker 0, which does not read: SPY must arrive
            # nevertheless.
            peer.send(trades.frame(["F", "SPY"] * (size // 2)))
            wanted = done * size // 2 * (4 + len(Trades().one("SPY")))
            wait_for(lambda wanted=wanted: spy_bytes() == wanted, "SPY is late")
        (tmp_path / "out.go").touch()
        hold(peer)

    command = ["--on-slow", "drop", "--json", "--", *WORKER, str(out), "--stop-first"]
    with Feed(serve) as feed, running(split_command(feed.url, *command)) as process:
        wait_for(lambda: (tmp_path / "out.0").exists() and (tmp_path / "out.0").stat().st_size > 0, "F never came")
        process.send_signal(signal.SIGTERM)
        stdout, err = process.communicate(timeout=PATIENCE_S)
    figures = json.loads(stdout)
    assert process.returncode == 0 and figures["trades"] == rounds * size, err
    got = [json.loads(text) for text in records((tmp_path / "out.0").read_bytes())]
    declared = sum(one.get("dropped", 0) for one in got if one["ev"] == "gap")
    assert len([one for one in got if one["ev"] == "T"]) + declared == rounds * size // 2
    assert figures["dropped"] == declared > 0


def test_killed_program_is_restarted_with_a_gap_record(tmp_path: Path) -> None:
    trades, pid_file = Trades(), tmp_path / "out.pid"

    def pid() -> int:
        return int(pid_file.read_text() or 0) if pid_file.exists() else 0

    def serve(peer: Peer, _: int) -> None:
        peer.shake_hands()
        peer.send(trades.frame(SYMBOLS))
        wait_for(pid, "no program")
        first = pid()
        os.kill(first, signal.SIGKILL)
        wait_for(
            lambda: (time.sleep(0.02), peer.send(trades.frame(SYMBOLS)), pid() not in (0, first))[2],
            "not started again",
        )
        peer.send(trades.frame(SYMBOLS))
        wait_for(
            lambda: (tmp_path / "out.1").exists() and (tmp_path / "out.1").stat().st_size > 0,
            "nothing after the restart",
        )
        (tmp_path / "seen").touch()
        hold(peer)

    command = ["--on-slow", "restart", "--json", "--", *WORKER, str(tmp_path / "out")]
    with Feed(serve) as feed, running(split_command(feed.url, *command)) as process:
        wait_for((tmp_path / "seen").exists, "the program was not started again")
        process.send_signal(signal.SIGTERM)
        stdout, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0 and json.loads(stdout)["restarts"] >= 1, err
    assert b'"ev":"gap"' in records((tmp_path / "out.1").read_bytes())[0]


def test_a_killed_program_that_is_not_to_be_started_again_ends_the_run(tmp_path: Path) -> None:
    trades = Trades()

    def serve(peer: Peer, _: int) -> None:
        peer.shake_hands()
        wait_for(lambda: (tmp_path / "out.pid").exists() and (tmp_path / "out.pid").read_text(), "no program")
        os.kill(int((tmp_path / "out.pid").read_text()), signal.SIGKILL)
        # Waits until the splitter notices and leaves.
        while True:
            peer.send(trades.frame(SYMBOLS))
            time.sleep(0.02)

    with Feed(serve) as feed:
        ended = split(feed.url, "--json", "--", *WORKER, tmp_path / "out")
    assert ended.returncode == 1 and "was ended by signal 9" in ended.stderr and "--on-slow restart" in ended.stderr, (
        ended.stderr
    )


@pytest.mark.parametrize("transport", ["pipe", "shm", "shm-ref"])
def test_ten_million_trades_with_faults_arrive_once_and_in_order(transport: str, tmp_path: Path) -> None:
    count = int(os.environ.get("SPLIT_TRADES", "10000000"))
    ready = tmp_path / "ready"
    faults = ["--disconnect-every", str(count // 10), "--fragment", "5000", "--ping-every", "20"]
    served = [
        str(TAPE_BINARY),
        "tape",
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--ready-file",
        str(ready),
        "--synthetic",
        "--trades",
        str(count),
    ]
    with running([*served, *faults, "--json"]) as tape:
        wait_for(lambda: ready.exists() or tape.poll() is not None, "no tape")
        url = json.loads(ready.read_text())["url"]
        options = [
            "--transport",
            transport,
            "--on-slow",
            "block",
            "--limit-trades",
            str(count),
            "--stats-every",
            "0",
            "--json",
        ]
        ended = split(url, *options, workers=8, timeout_s=PATIENCE_S + count / 50_000)
        tape.send_signal(signal.SIGTERM)
        sent = json.loads(tape.communicate(timeout=PATIENCE_S)[0])
    assert ended.returncode == 0, ended.stderr
    figures = summary(ended)
    counted = figures["counted"]
    assert (figures["trades"], figures["dropped"], figures["reconnects"] >= 9) == (count, 0, True)
    assert (counted["trades"], counted["checksum"]) == (count, sent["checksum"])
    assert [counted[name] for name in ("lost", "lost_declared", "duplicated", "reordered", "faults")] == [0] * 5
    assert counted["unchecked"] == 0 and figures["counters_cpu_ns_per_trade"] > 0
    assert counted["gap_records"] == figures["reconnects"] * 8


def test_metrics_and_shards_are_served(tmp_path: Path) -> None:
    trades, ready = Trades(), tmp_path / "ready"
    old = '{"http":"127.0.0.1:1","pid":1}'
    ready.write_text(old)

    def serve(peer: Peer, _: int) -> None:
        peer.shake_hands()
        for _ in range(10_000):
            peer.send(trades.frame(["SPY", "F"] * 10))
            time.sleep(0.005)

    options = [
        "--transport",
        "ws",
        "--listen",
        "127.0.0.1:0",
        "--metrics",
        "127.0.0.1:0",
        "--ready-file",
        str(ready),
        "--json",
    ]
    with Feed(serve) as feed, running(split_command(feed.url, *options)) as process:
        wait_for(lambda: ready.exists() and ready.read_text() != old, "not ready")
        listening = json.loads(ready.read_text())
        assert listening["pid"] == process.pid
        numbers = []
        with connect(f"ws://{listening['http']}/shard/1") as shard:
            for _ in range(20):
                batch = json.loads(shard.recv(timeout=PATIENCE_S))
                assert {one["sym"] for one in batch} == {"SPY"}
                numbers += [int(one["i"]) for one in batch]
        assert len(numbers) >= 20 and numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        for path, kind in (("/shard/4", InvalidStatus), ("/", InvalidStatus)):
            with pytest.raises(kind):
                connect(f"ws://{listening['http']}{path}")
        with pytest.raises(InvalidStatus):
            connect(f"ws://{listening['http']}/shard/0", origin="http://evil.example")
        url = f"http://{listening['metrics']}/metrics"
        wait_for(
            lambda: re.search(rb"^pitwire_split_trades_total [1-9]\d*$", urlopen(url).read(), re.MULTILINE),
            "no figures",
        )
        metrics = urlopen(url).read().decode()
        assert "\npitwire_split_connected 1\n" in metrics
        assert 'pitwire_split_worker_waiting_bytes{worker="3"}' in metrics
        with connect(f"ws://{listening['http']}/shard/0") as shard:
            shard.recv(timeout=PATIENCE_S)
            process.send_signal(signal.SIGTERM)
            with pytest.raises(ConnectionClosed) as closed:
                while True:
                    shard.recv(timeout=PATIENCE_S)
            assert closed.value.rcvd is not None and closed.value.rcvd.code == 1001
        stdout, err = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0 and json.loads(stdout)["trades"] > 0, err


def test_a_port_in_use_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        for options in (["--metrics", address], ["--transport", "ws", "--listen", address]):
            ended = split("ws://127.0.0.1:1/", *options)
            assert ended.returncode == 1 and address in ended.stderr and "port 0" in ended.stderr, ended.stderr


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for localhost, and its key."""
    folder = tmp_path_factory.mktemp("tls")
    subject = [
        "-subj",
        "/CN=localhost",
        "-addext",
        "subjectAltName=DNS:localhost",
        "-addext",
        "basicConstraints=critical,CA:FALSE",
    ]
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", folder / "key.pem"]
    subprocess.run(
        ["openssl", "req", "-x509", *key, "-out", folder / "cert.pem", "-days", "2", *subject],
        check=True,
        capture_output=True,
    )
    return folder


def tls_of(folder: Path) -> Callable[[socket.socket], socket.socket]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    return lambda sock: context.wrap_socket(sock, server_side=True)


def test_through_tls_the_same_trades_arrive(authority: Path) -> None:
    trades = Trades()

    def serve(peer: Peer, number: int) -> None:
        # Several records, cut at record boundaries; the first connection ends without close_notify.
        # The answer to the ping is read before the last trades are sent, because at the limit the
        # splitter ignores unread bytes.
        peer.shake_hands(behind=trades.frame(SYMBOLS * 500))
        peer.send(frame(PING, b"tls"))
        assert peer.read_frame()[1] == b"tls"
        peer.send(trades.frame(SYMBOLS * 500))
        if number == 2:
            hold(peer)

    with Feed(serve, wrap=tls_of(authority)) as feed:
        url = f"wss://localhost:{feed.port}/"
        ended = split(url, "--ca", authority / "cert.pem", "--limit-trades", "12000", "--json")
    counted = summary(ended)["counted"]
    assert (ended.returncode, counted["trades"], counted["lost"], counted["reordered"]) == (0, 12000, 0, 0), (
        ended.stderr
    )


@pytest.mark.parametrize(
    ("host", "trusts", "says"),
    [("127.0.0.1", True, "not to be trusted"), ("localhost", False, "not to be trusted")],
)
def test_a_certificate_that_does_not_match_is_refused(host: str, trusts: bool, says: str, authority: Path) -> None:
    with Feed(lambda peer, _: peer.shake_hands() and None, wrap=tls_of(authority)) as feed:
        ended = split(f"wss://{host}:{feed.port}/", *(["--ca", authority / "cert.pem"] if trusts else []))
    assert ended.returncode == 1 and says in ended.stderr and "--ca" in ended.stderr, ended.stderr


def test_tls_with_a_server_that_speaks_none(authority: Path) -> None:
    with Feed(lambda peer, _: (peer.socket.recv(10), peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n"))[1]) as feed:
        ended = split(f"wss://localhost:{feed.port}/", "--ca", authority / "cert.pem", "--no-reconnect")
    assert ended.returncode == 1 and "no TLS with localhost" in ended.stderr, ended.stderr


def test_the_view_shows_the_feed_on_a_terminal_and_q_ends_it() -> None:
    trades, has_them = Trades(), threading.Event()

    def serve(peer: Peer, _: int) -> None:
        peer.shake_hands()
        peer.send(trades.frame(SYMBOLS), frame(PING, b"had them?"))
        assert peer.read_frame()[0] == PONG
        has_them.set()
        hold(peer)

    with Feed(serve) as feed:
        ours, theirs = os.openpty()
        termios.tcsetwinsize(theirs, (30, 100))
        process = subprocess.Popen(split_command(feed.url, "--view"), stdin=theirs, stdout=theirs, stderr=theirs)
        os.close(theirs)
        seen = b""
        try:
            deadline = time.monotonic() + PATIENCE_S
            # The terminal redraws only changes, so only new text appears in one piece.
            while f"127.0.0.1:{feed.port}".encode() not in seen:
                assert time.monotonic() < deadline, seen
                seen += os.read(ours, 65536)
            # The address may appear before the first trade.
            assert has_them.wait(PATIENCE_S)
            os.write(ours, b"q")
            with suppress(OSError):
                while more := os.read(ours, 65536):
                    seen += more
            assert process.wait(PATIENCE_S) == 0 and b"6 trades in" in seen
        finally:
            process.kill()
            process.wait()
            os.close(ours)


@pytest.mark.parametrize(
    ("args", "names"),
    [
        (["http://a/"], "neither ws:// nor wss://"),
        (["ws://a:99999/"], "port"),
        (["ws://user:secret@a/"], "--auth"),
        (["ws://a/", "--transport", "tcp"], "tcp"),
        (["ws://a/", "--on-slow", "sleep"], "sleep"),
        (["ws://a/", "--on-slow", "spill:lots"], "spill:"),
        (["ws://a/", "--on-slow", "restart"], "program"),
        (["ws://a/", "--transport", "ws", "--", "true"], "program"),
        (["ws://a/", "--auth", "@no-such-file"], "no-such-file"),
        (["ws://a/", "--ca", "x.pem"], "wss://"),
        (["wss://a/", "--ca", "no-such.pem"], "no-such.pem"),
        (["ws://a/", "--limit-trades", "0"], "0"),
        (["ws://a/", "--workers", "0"], "0"),
        (["ws://a/", "--ring", "3MiB"], "power of two"),
        (["ws://a/", "--metrics", "nowhere"], "nowhere"),
        (["ws://a/", "--view"], "terminal"),
        (["ws://a/", "--no-such-flag"], "--no-such-flag"),
    ],
)
def test_wrong_arguments_exit_2_and_name_the_fault(args: list[str], names: str) -> None:
    ended = split(*args) if "--workers" not in args else run_pitwire("split", *args)
    assert ended.returncode == 2, ended.stderr
    assert (
        names in ended.stderr
        and len(ended.stderr.strip().splitlines()) == 1
        and "secret@" not in ended.stderr.replace(args[0], "")
    )


def test_a_program_that_cannot_be_started_is_named() -> None:
    ended = split("ws://127.0.0.1:1/", "--no-reconnect", "--", "/no/such/program")
    assert ended.returncode in (1, 2) and "/no/such/program" in ended.stderr
