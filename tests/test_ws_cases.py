"""The table of WebSocket cases (contracts/vectors/websocket) over live sockets: both servers and
the splitter."""

import socket
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from feed import Peer, split_command
from raw_ws import BINARY_FRAME, CLOSE, PING, PONG, TARGETS, TEXT, Target, cases, stream_of

Case = dict[str, Any]
LAST_PING = b"the last ping"
OURS = list(TARGETS)


@pytest.fixture(scope="module", params=OURS)
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    with TARGETS[request.param](tmp_path_factory.mktemp(request.param)) as running:
        yield running


def said(target: Target, pieces: list[bytes]) -> list[str]:
    """The server's answers in the words of the table: a close as `close`, until a last ping is
    answered."""
    words = []
    with target.open() as client:
        with suppress(ConnectionError):
            for piece in pieces:
                client.socket.sendall(piece)
            client.send(PING, LAST_PING)
        with suppress(EOFError, ConnectionError):
            while True:
                first, payload = client.receive()
                opcode = first & 15
                if opcode == PONG and payload == LAST_PING:
                    return words
                if opcode == CLOSE:
                    return [*words, f"close:{int.from_bytes(payload[:2], 'big') if payload else ''}"]
                words.append({TEXT: "text", BINARY_FRAME: "binary", PONG: "ping"}[opcode] + f":{payload.hex()}")
    return [*words, "gone"]


def expected(case: Case, target: Target) -> list[str]:
    words = []
    for word in case["expect"]:
        kind, _, value = word.partition(":")
        if kind in ("fail", "close"):
            return [*words, f"close:{value}"]
        if kind == "binary" or kind.startswith("binary#"):
            if not target.echoes:
                return [*words, "close:1003"]
            words.append(word)
        elif kind == "text" or kind.startswith("text#"):
            words.append(f"text:{value.encode().hex()}" if kind == "text" else word)
        elif kind == "ping" or kind.startswith("ping#"):
            words.append(word)
    return words


def agrees(words: list[str], wanted: list[str], target: Target) -> bool:
    """`text#5` gives only the length. A venue answers each text with an envelope; a publisher
    answers only the latest of several pings (RFC 6455 section 5.5.3), and pongs may overtake."""
    pings, words = split(words)
    wanted_pings, wanted = split(wanted)
    if len(words) != len(wanted) or len(pings) > len(wanted_pings):
        return False
    for word, want in zip(words, wanted, strict=True):
        kind, _, size = want.partition("#")
        if want.startswith("text") and not target.echoes:
            fits = word.startswith("text:")
        elif size:
            fits = word.startswith(kind + ":") and len(word) == len(kind) + 1 + 2 * int(size)
        else:
            # A close without a code may be answered with 1000 or without one.
            fits = word == want or (want, word) == ("close:", "close:1000")
        if not fits:
            return False
    rest = iter(wanted_pings)
    return all(any(same(ping, want) for want in rest) for ping in pings)


def split(words: list[str]) -> tuple[list[str], list[str]]:
    pings = [word for word in words if word.startswith("ping")]
    return pings, [word for word in words if not word.startswith("ping")]


def same(ping: str, wanted: str) -> bool:
    _, _, size = wanted.partition("#")
    return len(ping) == 5 + 2 * int(size) if size else ping == wanted


@pytest.mark.attack("hostile WebSocket frames")
def test_every_case_is_answered_as_the_table_has_it(target: Target) -> None:
    def play(case: Case) -> tuple[str, list[str], list[str]] | None:
        stream = stream_of(case, "client")
        ways = [[stream]] + ([[bytes([byte]) for byte in stream]] if len(stream) < 40 else [])
        for pieces in ways:
            words = said(target, pieces)
            # A legal announced length means that more follows: here that is our own ping.
            if not agrees(words, expected(case, target), target):
                return case["name"], words, expected(case, target)
        return None

    with ThreadPoolExecutor(8) as pool:
        wrong = [found for found in pool.map(play, cases()) if found]
    assert not wrong, wrong
    target.serves_on()


def code_from_splitter(case: Case) -> int | str | None:
    """The close code of `pitwire split` for a server that sends this."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(30)
        url = f"ws://127.0.0.1:{listener.getsockname()[1]}/"
        command = split_command(url, "--no-reconnect", "--json", workers=1)
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            peer = Peer(listener.accept()[0])
            peer.socket.settimeout(30)
            with peer.socket:
                peer.shake_hands()
                peer.send(stream_of(case, "server"))
                code = peer.read_close()
            process.wait(30)
            return code
        except (EOFError, ConnectionError) as error:
            return repr(error)
        finally:
            process.kill()
            process.wait()


def test_the_splitter_leaves_a_server_with_the_code_of_the_table() -> None:
    failing = [case for case in cases() if case["expect"][-1].startswith("fail:") and not case.get("limits")]
    assert len(failing) > 100
    with ThreadPoolExecutor(6) as pool:
        codes = list(pool.map(code_from_splitter, failing))
    wrong = [
        (case["name"], code) for case, code in zip(failing, codes, strict=True) if f"fail:{code}" != case["expect"][-1]
    ]
    assert not wrong, wrong


def test_the_table_is_sound() -> None:
    """Every case is unique; the expectation about text agrees with Python's UTF-8 decoder."""
    table = cases()
    assert len({case["name"] for case in table}) == len(table) > 200
    for case in table:
        if case.get("cut"):
            (frame,) = case["frames"]
            payload = frame.get("text", "").encode() or bytes.fromhex(frame.get("hex", ""))
            try:
                payload.decode()
                assert case["expect"] == [f"text:{payload.decode()}"], case["name"]
            except UnicodeDecodeError as error:
                assert case["expect"] == ["fail:1007"], case["name"]
                assert case.get("wrong_at", len(payload)) >= error.start, case["name"]
