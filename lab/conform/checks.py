"""The checks of `lab conform`. Each starts the connector and compares its output with the contract.

A check raises `Failed` with the reason. The short form sends fewer messages, for `make test`.
"""

import signal
import socket
import sqlite3
import ssl
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from conform.connector import SCHEMA, BadConnector, Connector, Process
from conform.server import (
    BINARY,
    COMPRESSED,
    CONTINUATION,
    PING,
    PONG,
    TEXT,
    Peer,
    PeerGone,
    Server,
    certificate,
    deflated,
    envelope,
    frame,
    send_at_rate,
)

START_S = 30
EXIT_S = 20
# The contract allows 2 s. A busy machine gets more before a check fails.
STOP_S = 10
# The first alive line comes a second after the start, and a little later on a busy machine.
ALIVE_S = 1.5
RETURN_S = 12
RECONNECT_NS = 250_000_000
MESSAGE_MOST = 16 << 20
LENGTHS = [0, 1, 107, 108, 125, 126, 65_535, 65_536, 805_000, MESSAGE_MOST]
LATE_NS = 25_000_000
BUSY_WAIT_NS = 3_000_000
# Below the 4 MB at which SQLite moves its log, and above the library that sqlite-jdbc unpacks.
FULL_DISK_BYTES = 2 << 20
FULL_DISK_MESSAGES = 200_000
RATE_PER_S = 50_000
RATE_BYTES = 224


class Failed(Exception):
    """The connector breaks a rule of the contract."""


@dataclass(frozen=True)
class Check:
    """The result of one check. Deviations are part of the detail and do not fail the connector."""

    name: str
    ok: bool
    detail: str


@dataclass
class Stored:
    """The content of a capture file."""

    run: dict[str, str]
    events: list[tuple]
    payloads: dict[int, bytes]
    gaps: list[tuple]
    flushed: int
    clocks: list[tuple]
    columns: list[str] = field(default_factory=list)
    collections: list[tuple[int, int]] = field(default_factory=list)

    def column(self, name: str) -> list:
        at = self.columns.index(name)
        return [event[at] for event in self.events]


@dataclass
class Session:
    """One start of the connector."""

    connector: Connector
    folder: Path
    server: Server
    process: Process | None = None
    prefix: list[str] = field(default_factory=list)  # goes in front of the command

    @property
    def capture(self) -> Path:
        return self.folder / "capture.sqlite"

    def settings(self, **changes: str) -> dict[str, str]:
        settings = {
            "LAB_URL": self.server.url,
            "LAB_CAPTURE": str(self.capture),
            "LAB_SCHEMA": str(SCHEMA),
            "LAB_EXIT_FILE": str(self.folder / "exit"),
            "LAB_RUN": "conformance",
            "LAB_CONNECTOR": self.connector.name,
            "LAB_EXCHANGE": "test",
            "LAB_ENVELOPE": "text",
            "LAB_PAYLOAD": "none",
            "LAB_RECONNECT": "0",
        }
        return settings | {"LAB_" + name.upper(): value for name, value in changes.items()}

    def start(self, **changes: str) -> Process:
        self.process = self.connector.start(self.settings(**changes), self.folder / "stderr", self.prefix)
        return self.process

    def go(self, **changes: str) -> Process:
        process = self.start(**changes)
        process.shake_hands(START_S)
        process.go()
        return process

    def open(self, **changes: str) -> tuple[Process, Peer]:
        process = self.go(**changes)
        return process, self.server.accept(START_S)

    def exited(self, code: int, seconds: float = EXIT_S) -> None:
        process = self.process
        if process is None:
            raise Failed("it was not started")
        got = process.wait(seconds)
        if got is None:
            raise Failed(f"it still runs after {seconds:g} s; expected exit code {code}")
        if got != code:
            end = (self.folder / "stderr").read_text(errors="replace").strip()[-300:]
            raise Failed(f"exit code {got}, expected {code}; its last words: {end!r}")

    def stored(self) -> Stored:
        """The capture file. It must be whole without its write-ahead log."""
        leftover = self.capture.with_name(self.capture.name + "-wal")
        if leftover.exists() and leftover.stat().st_size:
            raise Failed("the write-ahead log was not moved into the capture file at the end")
        with sqlite3.connect(f"file:{self.capture}?mode=ro", uri=True) as file:
            events = file.execute("SELECT * FROM event ORDER BY event_id")
            columns = [description[0] for description in events.description]
            return Stored(
                run=dict(file.execute("SELECT name, value FROM run")),
                events=events.fetchall(),
                payloads=dict(file.execute("SELECT event_id, body FROM payload")),
                gaps=file.execute("SELECT * FROM gap ORDER BY connection_id").fetchall(),
                flushed=file.execute("SELECT coalesce(sum(events), 0) FROM flush").fetchone()[0],
                clocks=file.execute("SELECT * FROM clock ORDER BY before_ns").fetchall(),
                columns=columns,
                collections=file.execute("SELECT begin_ns, end_ns FROM gc").fetchall(),
            )


@contextmanager
def session(connector: Connector) -> Iterator[Session]:
    with tempfile.TemporaryDirectory(prefix="conform-") as folder:
        server = Server()
        current = Session(connector, Path(folder), server)
        try:
            yield current
        finally:
            if current.process:
                current.process.kill()
            server.close()


def expect(what: str, got: object, expected: object) -> None:
    if got != expected:
        raise Failed(f"{what}: {got!r}, expected {expected!r}")


def check_environment(connector: Connector, _short: bool) -> str:
    """Wrong settings end the connector with code 2, before it connects."""
    for name in ("LAB_URL", "LAB_CAPTURE", "LAB_SCHEMA"):
        with session(connector) as one:
            settings = one.settings()
            del settings[name]
            one.process = connector.start(settings, one.folder / "stderr")
            one.exited(2, START_S)
    with session(connector) as one:
        process = one.start()
        process.shake_hands(START_S)
        process.end_input()
        one.exited(2, START_S)
    if not connector.busy_wait:
        with session(connector) as one:
            one.start(busy_wait_ns="1000")
            one.exited(2, START_S)
    return "code 2 for each missing variable and for the end of input"


def check_clock(connector: Connector, _short: bool) -> str:
    """The connector's clock is CLOCK_MONOTONIC."""
    with session(connector) as one:
        process = one.start()
        bracket_ns, error_ns = process.shake_hands(START_S)
        process.end_input()
    return f"bracket {bracket_ns / 1000:.0f} us, {error_ns / 1000:.0f} us outside of it"


def check_failures(connector: Connector, _short: bool) -> str:
    """A refused connection is code 4. A capture file that exists, or cannot be made, is code 6."""
    with session(connector) as one:
        one.server.close()
        one.go()
        one.exited(4)
        expect("exit_code in run", one.stored().run.get("exit_code"), "4")
    with session(connector) as one:
        one.capture.write_text("a file of another connector")
        one.go()
        one.exited(6)
        expect("the file that was there", one.capture.read_text(), "a file of another connector")
    with session(connector) as one:
        one.go(capture=str(one.folder / "absent" / "capture"))
        one.exited(6)
    return "codes 4 and 6"


def messages_of_every_length() -> list[tuple[int, bytes]]:
    """Opcode and payload: text and binary of the limits of every length field, with and without
    envelope."""
    found = []
    for number, length in enumerate(LENGTHS, 1):
        text = envelope(number, 1_000 + number, 2_000 + number, 77) + '"x":"'
        if length >= len(text) + 2:
            found.append((TEXT, (text + "y" * (length - len(text) - 2) + '"}').encode()))
        found.append((BINARY, (bytes(range(256)) * (length // 256 + 1))[:length]))
        found.append((TEXT, ("äß€😀" * (length // 11 + 1)).encode()[: length - length % 11] + b"." * (length % 11)))
    return found


def check_content(connector: Connector, _short: bool) -> str:
    """Messages of every length are stored as sent, whole or in fragments with pings between."""
    subscription = '{"method":"SUBSCRIBE","params":["btcusdt@trade"],"id":1}'
    messages = messages_of_every_length()
    with session(connector) as one:
        begun_ns = time.monotonic_ns()
        _, peer = one.open(payload="all", subscribe=subscription)
        expect("target of the request", peer.target, "/stream?name=conformance")
        if connector.compression != "always":
            expect("Sec-WebSocket-Extensions", peer.headers.get("sec-websocket-extensions"), None)
        expect("subscription", peer.receive_until(TEXT).payload, subscription.encode())
        for opcode, payload in messages:
            peer.send(frame(opcode, payload))
        fragmented = messages[:-3]
        for opcode, payload in fragmented:
            # Five fragments, cut without regard to characters, with a ping behind each.
            cut = max(len(payload) // 4, 1)
            pieces = [payload[at : at + cut] for at in range(0, len(payload), cut)] or [b""]
            for at, piece in enumerate(pieces):
                peer.send(frame(opcode if at == 0 else CONTINUATION, piece, fin=at == len(pieces) - 1))
                peer.send(frame(PING, b"%d" % at))
                expect("body of the pong", peer.receive_until(PONG).payload, b"%d" % at)
        peer.finish()
        one.exited(0)
        ended_ns = time.monotonic_ns()
        stored, sent = one.stored(), messages + fragmented
    expect("number of events", len(stored.events), len(sent))
    expect("event_id", stored.column("event_id"), list(range(1, len(sent) + 1)))
    expect("length_bytes", stored.column("length_bytes"), [len(payload) for _, payload in sent])
    for number, (opcode, payload) in enumerate(sent, 1):
        if bytes(stored.payloads.get(number, b"absent")) != payload:
            raise Failed(f"payload of event {number} ({len(payload)} bytes) is not what was sent")
        enveloped = payload.startswith(b'{"seq":"') and opcode == TEXT
        event = dict(zip(stored.columns, stored.events[number - 1], strict=True))
        numbers = tuple(event[name] for name in ("sequence", "due_ns", "sent_ns", "feed_connection"))
        expected = (None,) * 4
        if enveloped:
            expected = (int(payload[8:27]), int(payload[39:58]), int(payload[71:90]), int(payload[100:106]))
        expect(f"envelope of event {number}", numbers, expected)
        expect(f"flags of event {number}", event["flags"], (opcode == BINARY) | (0 if enveloped else 2))
        expect(f"connection_id of event {number}", event["connection_id"], 1)
    received = stored.column("received_ns")
    if received != sorted(received) or not begun_ns <= received[0] <= received[-1] <= ended_ns:
        raise Failed("received_ns goes back, or is outside the run")
    facts = {"run": "conformance", "connector": connector.name, "exchange": "test", "contract": "1"}
    facts |= {"language": connector.language, "exit_code": "0", "messages": str(len(sent)), "subscribe": subscription}
    facts |= {"library_version": connector.version}
    for name, value in facts.items():
        expect(f"{name} in run", stored.run.get(name), value)
    for name in ("library", "runtime_version", "host", "started_ns", "ended_ns", "ring_waits", "cpu_us"):
        if not stored.run.get(name):
            raise Failed(f"run has no {name}")
    if int(stored.run.get("peak_memory_kb", "0")) < 1_000:
        raise Failed(f"peak_memory_kb is {stored.run.get('peak_memory_kb')}")
    expect("sum of events in flush", stored.flushed, len(sent))
    offset_ns = time.time_ns() - time.monotonic_ns()
    for before_ns, realtime_ns, after_ns in stored.clocks:
        if not before_ns <= after_ns or abs(realtime_ns - before_ns - offset_ns) > 1_000_000_000:
            raise Failed("a clock row does not give the offset of CLOCK_REALTIME")
    if not stored.clocks:
        raise Failed("there is no clock row")
    return f"{len(sent)} messages from 0 B to 16 MiB, {len(fragmented)} of them in fragments with pings between"


# A library that decodes a whole read before it delivers anything loses the message in front.
TOGETHER = "bad UTF-8 right behind a message"


def violations() -> dict[str, bytes]:
    return {
        "bad UTF-8": frame(TEXT, b'{"x":"\xc3\x28"}'),
        "UTF-8 cut short": frame(TEXT, b"\xe2\x82"),
        TOGETHER: frame(TEXT, b"\xff"),
        "a reserved bit": frame(TEXT, b"{}", reserved=4),
        "a reserved opcode": frame(3, b"{}"),
        "a masked frame": frame(TEXT, b"{}", mask=b"abcd"),
        "a fragmented ping": frame(PING, b"", fin=False),
        "a continuation of nothing": frame(CONTINUATION, b"{}"),
    }


def check_violations(connector: Connector, _short: bool) -> str:
    """Bad UTF-8 is a protocol error. Other violations are tried, and deviations are reported."""
    deviations = []
    for name, data in violations().items():
        with session(connector) as one:
            process, peer = one.open()
            peer.text("before")
            if name != TOGETHER:
                peer.barrier()
            peer.send(data)
            code = peer.drain(3)
            exit_code = process.wait(0.2 if code is None else EXIT_S)
            if exit_code is None:
                process.signal(signal.SIGTERM)
                exit_code = process.wait(EXIT_S)
            stored = one.stored()
            reasons = [gap[1] for gap in stored.gaps]
            if exit_code == 5 and reasons == ["protocol"] and len(stored.events) == 1:
                if code not in (1002, 1007):
                    deviations.append(f"{name}: close code {code}")
                continue
            what = f"{name}: exit code {exit_code}, gaps {reasons}, {len(stored.events)} events, close code {code}"
            # The interface of the WHATWG standard does not tell a violation from a lost connection.
            is_rejected = code == 1007 and exit_code == 3 and reasons == ["lost"] and len(stored.events) == 1
            if "UTF-8" in name and name != TOGETHER and not is_rejected:
                raise Failed(what)
            deviations.append(what)
    return "deviations: " + "; ".join(deviations) if deviations else "every violation is a protocol error"


def check_lost(connector: Connector, _short: bool) -> str:
    """A close frame and a reset end the connector with code 3, and are recorded."""
    for how, gap in (("close", ("close", 1001)), ("reset", ("lost", None)), ("end", ("lost", None))):
        with session(connector) as one:
            _, peer = one.open()
            peer.text("before")
            time.sleep(0.1)
            if how == "close":
                peer.finish(1001)
            elif how == "reset":
                peer.reset()
            else:
                peer.socket.shutdown(socket.SHUT_WR)
                peer.drain()
            one.exited(3)
            stored = one.stored()
            expect(f"gap after a {how}", [row[1:3] for row in stored.gaps], [gap])
            expect(f"to_ns after a {how}", stored.gaps[0][4], None)
            expect(f"events before a {how}", len(stored.events), 1)
    return "code 3 after a close frame, a reset and an end without a close frame"


def check_reconnect(connector: Connector, _short: bool) -> str:
    """The connector is back within 250 ms, subscribes again, and waits for a server that is
    away."""
    with session(connector) as one:
        process, peer = one.open(reconnect="1", subscribe="again")
        for turn in range(1, 6):
            expect("subscription", peer.receive_until(TEXT).payload, b"again")
            peer.text(envelope(turn, 1, 1) + '"x":1}')
            if turn == 5:
                break
            if turn == 2:
                peer.barrier()
                peer.send(frame(TEXT, b"\xff"))
                peer.drain()
            elif turn == 4:
                one.server.close()
                peer.finish(1012)
                time.sleep(0.7)
                one.server.reopen()
            elif turn == 3:
                time.sleep(0.1)
                peer.reset()
            else:
                peer.finish(1001)
            peer = one.server.accept(RETURN_S)
        peer.finish()
        one.exited(0)
        stored = one.stored()
        lines = process.lines
    expect("sequence", stored.column("sequence"), [1, 2, 3, 4, 5])
    expect("connection_id", stored.column("connection_id"), [1, 2, 3, 4, 5])
    gaps = [row[:3] if row[1] != "protocol" else (*row[:2], None) for row in stored.gaps]
    expected = [(1, "close", 1001), (2, "protocol", None), (3, "lost", None), (4, "close", 1012)]
    # Known deviations: the WHATWG interface hides violations, and RFC 6455 lacks the code 1012.
    allowed = {(2, "lost", None): "a violation counts as lost"}
    allowed |= dict.fromkeys([(4, "protocol", None), (4, "close", 1002)], "the close code 1012 counts as a violation")
    deviations = [allowed[gap] for gap in gaps if gap in allowed]
    expect("gaps", [want if gap in allowed else gap for gap, want in zip(gaps, expected, strict=False)], expected)
    expect("gap lines", [line for line in lines if line.startswith("gap ")], [f"gap {n} {why}" for n, why, _ in gaps])
    expect("open lines", [line.split()[1] for line in lines if line.startswith("open ")], ["1", "2", "3", "4", "5"])
    if any(row[4] is None or row[4] < row[3] for row in stored.gaps):
        raise Failed("a gap has no end, or ends before it begins")
    took_ns = [row[4] - row[3] for row in stored.gaps[:3]]
    if min(took_ns) > RECONNECT_NS:
        raise Failed(f"the fastest of three reconnects took {min(took_ns) / 1e6:.0f} ms, expected at most 250 ms")
    return "; deviation: ".join(
        ["reconnects took " + ", ".join(f"{ns / 1e6:.0f}" for ns in took_ns) + " ms", *deviations]
    )


def check_tls(connector: Connector, _short: bool) -> str:
    """A wss URL works with the trusted certificate. Without trust the connection fails with code
    4."""
    if not connector.tls:
        return "not offered"
    messages = [envelope(1, 1, 1) + '"x":1}', envelope(2, 1, 1) + f'"x":"{"x" * 1_000_000}"}}', "{}"]
    with tempfile.TemporaryDirectory(prefix="conform-") as folder:
        own, key = certificate(Path(folder) / "own")
        other, _ = certificate(Path(folder) / "other")
        settings = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        settings.load_cert_chain(own, key)
        with session(connector) as one:
            one.server.close()
            one.server = Server(settings)
            _, peer = one.open(ca=str(own), payload="all", subscribe="over TLS")
            expect("subscription", peer.receive_until(TEXT).payload, b"over TLS")
            for message in messages:
                peer.text(message)
            peer.finish()
            one.exited(0)
            expect("payloads", [bytes(body).decode() for body in one.stored().payloads.values()], messages)
        with session(connector) as one:
            one.server.close()
            one.server = Server(settings)
            one.go(ca=str(other))
            try:
                one.server.accept(START_S)
            except PeerGone:
                pass
            else:
                raise Failed("it trusts a certificate that LAB_CA does not name")
            one.exited(4)
    return "the certificate of LAB_CA is trusted, another one is not"


def check_compression(connector: Connector, _short: bool) -> str:
    """With LAB_COMPRESS=1 it offers permessage-deflate, and stores messages inflated. A server need
    not take the offer up."""
    if not connector.compression:
        return "not offered"
    subscription = '{"method":"SUBSCRIBE","params":[' + ",".join(['"btcusdt@trade"'] * 50) + "]}"
    long = envelope(2, 1, 1) + f'"x":"{"price " * 100_000}"}}'
    messages = [envelope(1, 1, 1) + '"x":1}', long, "{}", "ä€😀" * 300]
    for compresses in (True, False):
        with session(connector) as one:
            one.server.compresses = compresses
            _, peer = one.open(compress="1", payload="all", subscribe=subscription)
            offer = peer.headers.get("sec-websocket-extensions", "none")
            if "permessage-deflate" not in offer:
                raise Failed(f"Sec-WebSocket-Extensions: {offer!r}, expected an offer of permessage-deflate")
            expect("subscription", peer.receive_until(TEXT).payload, subscription.encode())
            for message in messages:
                if not compresses:
                    peer.text(message)
                    continue
                stored = 108 if message.startswith('{"seq":"') else 0
                body = deflated(message.encode(), stored)
                middle = len(body) // 2
                peer.send(frame(TEXT, body, reserved=COMPRESSED))
                # Again in two frames, and again without compression.
                peer.send(frame(TEXT, body[:middle], fin=False, reserved=COMPRESSED))
                peer.send(frame(CONTINUATION, body[middle:]))
                peer.text(message)
            peer.finish()
            one.exited(0)
            found = [bytes(body).decode() for body in one.stored().payloads.values()]
        expect("payloads", found, [m for m in messages for _ in range(3 if compresses else 1)])
    always = "; deviation: it always offers compression" if connector.compression == "always" else ""
    return "compressed messages are stored inflated" + always


def check_stop(connector: Connector, _short: bool) -> str:
    """SIGTERM and the exit file end the connector with code 0. Every received message is stored."""
    details = []
    for how in ("SIGTERM", "SIGINT", "exit file"):
        with session(connector) as one:
            process, peer = one.open()
            sent = 0
            begun = time.monotonic()
            stopped_ns = 0
            try:
                while process.wait(0) is None and time.monotonic() < begun + ALIVE_S + STOP_S:
                    sent += 1
                    peer.text(envelope(sent, 1, 1) + '"x":1}')
                    time.sleep(0.0005)
                    if not stopped_ns and time.monotonic() > begun + ALIVE_S:
                        stopped_ns = time.monotonic_ns()
                        if how == "exit file":
                            (one.folder / "exit").touch()
                        else:
                            process.signal(signal.Signals[how])
            except PeerGone:
                pass
            peer.socket.close()
            one.exited(0, STOP_S)
            took_ms = (time.monotonic_ns() - stopped_ns) / 1e6
            stored, lines = one.stored(), process.lines
        count = len(stored.events)
        expect(f"sequence after {how}", stored.column("sequence"), list(range(1, count + 1)))
        expect(f"messages after {how}", stored.run.get("messages"), str(count))
        expect(f"last line after {how}", lines[-1], f"done 0 {count}")
        if not 100 < count <= sent:
            raise Failed(f"{count} events stored after {how}, of {sent} sent")
        if not any(line.startswith("alive ") for line in lines):
            raise Failed(f"there was no alive line in the first {ALIVE_S} s")
        details.append(f"{how} {took_ms:.0f} ms")
    return "ended after " + ", ".join(details)


def check_stamps(connector: Connector, short: bool) -> str:
    """A stamp is the time of receipt, not of a later step. A busy wait comes before it."""
    late_ns = lateness(connector, 100 if short else 400)
    median_ns = statistics.median(late_ns)
    if min(late_ns) < 0:
        raise Failed(f"a message was received {-min(late_ns)} ns before it was sent")
    if median_ns > LATE_NS:
        raise Failed(f"the median message was stamped {median_ns / 1e6:.1f} ms after it was sent")
    if connector.busy_wait:
        least_ns = min(lateness(connector, 20, busy_wait_ns=str(BUSY_WAIT_NS)))
        if least_ns < BUSY_WAIT_NS:
            raise Failed(f"stamped {least_ns} ns after sending, in spite of a busy wait of {BUSY_WAIT_NS} ns")
    return f"median {median_ns / 1000:.0f} us after sending"


def lateness(connector: Connector, count: int, **changes: str) -> list[int]:
    """Nanoseconds from sending to the stamp of `count` messages, after 100 that find cold code."""
    with session(connector) as one:
        _, peer = one.open(**changes)
        for number in range(1, count + 101):
            sent_ns = time.monotonic_ns()
            peer.text(envelope(number, sent_ns, sent_ns) + '"x":1}')
            time.sleep(0.005)
        peer.finish()
        one.exited(0)
        stored = one.stored()
    expect("number of events", len(stored.events), count + 100)
    return [got - sent for got, sent in zip(*map(stored.column, ("received_ns", "sent_ns")), strict=True)][100:]


def check_locked(connector: Connector, short: bool) -> str:
    """A capture file that another process locks for a second costs no message."""
    count = 2_000
    with session(connector) as one:
        _, peer = one.open()
        peer.text(envelope(1, 1, 1) + '"x":1}')
        time.sleep(0.3)
        with sqlite3.connect(one.capture, isolation_level=None) as lock:
            lock.execute("BEGIN IMMEDIATE")
            for number in range(2, count + 1):
                peer.text(envelope(number, 1, 1) + '"x":1}')
            time.sleep(1)
            lock.execute("ROLLBACK")
        lock.close()
        peer.finish()
        one.exited(0)
        expect("sequence", one.stored().column("sequence"), list(range(1, count + 1)))
    return f"{count} messages stored"


def check_full_disk(connector: Connector, _short: bool) -> str:
    """A capture file that cannot grow ends the connector with code 6. Earlier rows stay
    readable."""
    with session(connector) as one:
        # An ignored signal lets the write fail instead. The shell counts blocks of 512 bytes.
        script = f'trap "" XFSZ; ulimit -f {FULL_DISK_BYTES // 512}; exec "$@"'
        one.prefix = ["/bin/sh", "-c", script, "sh"]
        process, peer = one.open()
        sent = 0
        try:
            while process.wait(0) is None and sent < FULL_DISK_MESSAGES:
                peer.send(
                    b"".join(frame(TEXT, (envelope(n, 1, 1) + '"x":1}').encode()) for n in range(sent + 1, sent + 101))
                )
                sent += 100
                time.sleep(0.01)
        except PeerGone:
            pass
        peer.socket.close()
        one.exited(6)
        with sqlite3.connect(one.capture) as file:
            stored = [row[0] for row in file.execute("SELECT sequence FROM event ORDER BY event_id")]
        file.close()
        last = process.lines[-1]
    if not last.startswith("done 6 "):
        raise Failed(f"the last line is {last!r}, expected done 6 and the number of messages")
    expect("sequence", stored, list(range(1, len(stored) + 1)))
    if not stored:
        raise Failed("nothing was stored before the disk was full")
    return f"{len(stored)} messages stored before the disk was full"


def check_rate(connector: Connector, short: bool) -> str:
    """50,000 messages a second for 10 s: each is stored once and in order. Short: for 1 s, at any
    pace."""
    count = RATE_PER_S if short else 10 * RATE_PER_S
    with session(connector) as one:
        process, peer = one.open()
        took_s = send_at_rate(peer, RATE_PER_S, count, RATE_BYTES)
        peer.finish()
        one.exited(0, 120)
        stored, last = one.stored(), process.lines[-1]
    sequence = stored.column("sequence")
    if sequence != list(range(1, count + 1)):
        lost = count - len(set(sequence))
        raise Failed(f"{lost} of {count} messages are missing in the file, and {len(sequence)} rows are there")
    expect("last line", last, f"done 0 {count}")
    expect("length_bytes", set(stored.column("length_bytes")), {RATE_BYTES})
    expect("sum of events in flush", stored.flushed, count)
    outside = [row for row in stored.collections if not process.started_ns <= row[0] <= row[1] <= time.monotonic_ns()]
    if outside:
        raise Failed(f"a pause of the garbage collector from {outside[0][0]} to {outside[0][1]} is outside of the run")
    rate = count / took_s
    detail = f"{count} messages at {rate:.0f}/s, none lost, ring waits {stored.run.get('ring_waits')}"
    detail += f", collector pauses {len(stored.collections)}"
    if not short and rate < 0.95 * RATE_PER_S:
        raise Failed(f"{detail}; it did not keep up with {RATE_PER_S}/s")
    return detail


CHECKS: dict[str, Callable[[Connector, bool], str]] = {
    "environment": check_environment,
    "clock": check_clock,
    "failures": check_failures,
    "content": check_content,
    "violations": check_violations,
    "lost connection": check_lost,
    "reconnect": check_reconnect,
    "TLS": check_tls,
    "compression": check_compression,
    "stop": check_stop,
    "stamps": check_stamps,
    "locked file": check_locked,
    "full disk": check_full_disk,
    "rate": check_rate,
}


def check(
    folder: Path,
    short: bool = False,
    report: Callable[[Check], None] = lambda _check: None,
    only: list[str] | None = None,
    variant: str = "",
) -> list[Check]:
    """Runs the checks on the built connector in `folder`. `report` gets each result as it comes.

    Raises BadConnector if the folder has no valid description.
    """
    connector = Connector.load(folder, variant)
    results = []
    for name, run in CHECKS.items():
        if only and name not in only:
            continue
        try:
            result = Check(name, True, run(connector, short))
        except (Failed, BadConnector, PeerGone, sqlite3.Error, OSError) as error:
            result = Check(name, False, f"{error}")
        results.append(result)
        report(result)
    return results
