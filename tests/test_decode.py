"""`pitwire decode`: captures written by the formats' specifications, with traffic of the real
binary, compared with decoders that share no code with it."""

import contextlib
import json
import os
import random
import shutil
import signal
import struct
import subprocess
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import captures
import pytest
from captures import Packet
from mitch_reader import EIGHT, FeedReader, Recovery, messages
from rpc import Http, Json
from sbe_client import SbeClient
from sbe_client import decode as decode_sbe
from venue import BINARY, DEMO_A, Venue, run_pitwire

AT_NS = 1_790_000_000_123_456_789
AT = "2026-09-21T14:13:20.123456"
VENUE, READER, CLIENT = ("127.0.0.1", 40_000), ("127.0.0.1", 9_100), ("127.0.0.1", 50_000)
VENUE_6, READER_6 = ("fd00::1", 40_000), ("ff15::77", 9_101)
SBE_PORT = 9_001


@dataclass
class Traffic:
    """Traffic of the real binary: units of a line, and both directions of two TCP connections."""

    units: list[bytes] = field(default_factory=list)
    recovery: tuple[bytes, bytes] = (b"", b"")
    orders: tuple[bytes, bytes] = (b"", b"")


class RecordedSocket:
    """A socket that keeps the bytes of both directions."""

    def __init__(self, sock: Any) -> None:
        self.sock, self.sent, self.received = sock, b"", b""

    def sendall(self, data: bytes) -> None:
        self.sent += data
        self.sock.sendall(data)

    def recv(self, count: int) -> bytes:
        data: bytes = self.sock.recv(count)
        self.received += data
        return data

    def close(self) -> None:
        self.sock.close()


@pytest.fixture(scope="module")
def traffic(tmp_path_factory: pytest.TempPathFactory) -> Traffic:
    reader, found = FeedReader(lost=0.0, seed=1), Traffic()
    options = ["--clock", "manual", "--durability", "memory", "--sbe", "127.0.0.1:0"]
    options += ["--order-feed", reader.addresses, "--order-feed-recovery", "127.0.0.1:0"]
    with Venue(tmp_path_factory.mktemp("decode") / "venue", options) as venue:
        ready = json.loads(venue.ready_file.read_text())
        http = Http(venue.address, DEMO_A)
        for _ in range(5):
            http.result("private/pitwire_advance", {"ns": 20_000_000_000})
        with SbeClient(ready["sbe"]) as client:
            recorded: Any = RecordedSocket(client.sock)
            client.sock = recorded
            client.log_on(DEMO_A)
            number = http.result("public/get_instrument", {"instrument_name": "NPN_ZAR"})["instrument_id"]
            order = {"side": "Buy", "orderType": "Limit", "timeInForce": "Gtc", "quantity": "500", "price": "3000.5"}
            _, answer = client.request("NewOrder", instrumentId=number, **order)
            client.report(answer["orderId"], "New")
            client.request("MarketQuery", instrumentId=number, subject="Book", depth=5)
            client.request("CancelOrder", orderId=answer["orderId"])
            found.orders = recorded.sent, recorded.received
        reader.join(ready["order_feed_recovery"])
        with contextlib.suppress(BlockingIOError):
            while len(found.units) < 150:
                found.units.append(reader.lines[0].recv(2_000))
        recovery = Recovery(ready["order_feed_recovery"])
        recorded = RecordedSocket(recovery.sock)
        recovery.sock = recorded
        recovery.snapshot()
        recovery.replay(1, 40)
        found.recovery = recorded.sent, recorded.received
    assert len(found.units) > 20
    return found


def decoded(path: Path, *options: str) -> tuple[list[Json], Json]:
    ended = run_pitwire("decode", path, "--json", *options)
    assert ended.returncode == 0, ended.stderr
    *found, last = [json.loads(line) for line in ended.stdout.splitlines()]
    counts: Json = last["counts"]
    return found, counts


def unit_rows(units: list[bytes]) -> list[tuple[int | None, str]]:
    """Number and type of each message, and of heartbeats."""
    rows: list[tuple[int | None, str]] = []
    for unit in units:
        first = struct.unpack_from("<I", unit, 4)[0]
        found = [(first + at if first else None, kind) for at, (kind, _) in enumerate(messages(unit))]
        rows += found or [(first, "")]
    return rows


def rows(found: list[Json]) -> list[tuple[int | None, str]]:
    return [(row["number"], type_letter(row["type"])) for row in found]


def type_letter(text: str) -> str:
    return chr(int(text, 16)) if text.startswith("0x") else text


def split_units(data: bytes) -> list[bytes]:
    units = []
    while data:
        length = struct.unpack_from("<H", data)[0]
        units.append(data[:length])
        data = data[length:]
    return units


@pytest.mark.parametrize("link", captures.LINK_TYPES)
@pytest.mark.parametrize("write", [captures.pcap, captures.pcapng])
def test_every_capture_format_gives_the_messages_of_both_lines(
    traffic: Traffic, tmp_path: Path, write: Any, link: str
) -> None:
    lines = [(VENUE, READER), (VENUE_6, READER_6)]
    packets = [
        Packet(AT_NS + at, captures.datagram(unit, *ends)) for at, unit in enumerate(traffic.units) for ends in lines
    ]
    expected = [row for unit in traffic.units for _ in lines for row in unit_rows([unit])]
    for order in "<>":
        for nanoseconds in (False, True):
            path = tmp_path / "capture"
            path.write_bytes(write(packets, captures.LINK_TYPES[link], order, nanoseconds))
            found, counts = decoded(path)
            assert rows(found) == expected
            assert counts["packets"] == len(packets) and counts["messages"] == len(expected)
            assert counts["foreign"] + counts["cut"] + counts["malformed"] == 0
            assert found[0]["time"] == AT + ("789Z" if nanoseconds else "000Z")
            ends = {(row["source"], row["destination"]) for row in found}
            assert ends == {("127.0.0.1:40000", "127.0.0.1:9100"), ("[fd00::1]:40000", "[ff15::77]:9101")}


def test_fields_equal_those_of_an_independent_reader(traffic: Traffic, tmp_path: Path) -> None:
    path = tmp_path / "capture"
    path.write_bytes(captures.pcap([Packet(0, captures.datagram(unit, VENUE, READER)) for unit in traffic.units]))
    found, _ = decoded(path)
    bodies = [body for unit in traffic.units for _, body in messages(unit)]
    named = {}
    seen = set()
    for row, body in zip((row for row in found if row["type"]), bodies, strict=True):
        fields, kind = row["fields"], row["type"]
        seen.add(kind)
        if kind == "A":
            order, side, quantity, instrument, price = struct.unpack_from("<QcII2xq", body, 4)
            assert [fields[name] for name in ("order_id", "side", "quantity", "instrument_id")] == [
                order,
                side.decode(),
                quantity,
                instrument,
            ]
            assert float(fields["price"]) == float(price * EIGHT)
            named[order] = instrument
            assert row["instrument_id"] == instrument and row["instrument_name"]
        elif kind in "DUEC":
            (order,) = struct.unpack_from("<Q", body, 4)
            assert fields["order_id"] == order
            if order in named:
                assert row["instrument_id"] == named[order]
        elif kind == "R":
            assert fields["symbol"] == body[23:48].decode().strip() == row["instrument_name"]
    assert {"A", "D", "R"} <= seen, seen
    name = next(row["instrument_name"] for row in found if row["type"] == "A")
    chosen, counts = decoded(path, "--instrument", name, "--type", "Add Order,D")
    assert chosen == [row for row in found if row["instrument_name"] == name and row["type"] in ("A", "D")]
    assert counts["messages"] == len(found)
    assert decoded(path, "--port", "9101")[0] == []
    assert decoded(path, "--port", "9101,9100")[0] == found
    lines = run_pitwire("decode", path, "--instrument", name, "--type", "A").stdout.splitlines()
    wanted = [row for row in chosen if row["type"] == "A"]
    assert len(lines) == len(wanted) + 1 and "foreign packets" in lines[-1]
    for line, row in zip(lines, wanted, strict=False):
        assert f"#{row['number']} Add Order {name} " in line and f"order_id={row['fields']['order_id']}" in line


def test_tcp_streams_are_put_in_order_and_a_gap_is_said(traffic: Traffic, tmp_path: Path) -> None:
    path, chance = tmp_path / "capture", random.Random(3)
    sent, received = traffic.recovery
    expected = unit_rows(split_units(received))
    for _ in range(5):
        ways = captures.stream(sent, CLIENT, VENUE, chance) + captures.stream(received, VENUE, CLIENT, chance)
        path.write_bytes(captures.pcapng([Packet(AT_NS, packet) for packet in ways]))
        found, counts = decoded(path)
        assert rows([row for row in found if row["source"] == "127.0.0.1:50000"]) == unit_rows(split_units(sent))
        assert rows([row for row in found if row["source"] == "127.0.0.1:40000"]) == expected
        assert counts["repeated_segments"] > 0 and counts["gaps"] == counts["malformed"] == 0
    units = split_units(received)
    start, after = len(units[0]) + 20, units[0] + units[1] + units[2]
    # The bytes from the middle of the second unit to the end of the third are missing.
    lost = captures.stream(received, VENUE, CLIENT, random.Random(4), range(start, len(after)))
    path.write_bytes(captures.pcap([Packet(AT_NS, packet) for packet in lost]))
    found, counts = decoded(path)
    gap = [row for row in found if row["name"] == "TCP Gap"]
    assert [row["fields"] for row in gap] == [{"missing_bytes": len(after) - start}]
    assert (counts["gaps"], counts["missing_bytes"]) == (1, len(after) - start)
    kept = unit_rows([units[0], *units[3:]])
    assert rows([row for row in found if row["name"] != "TCP Gap"]) == kept


def test_binary_order_entry_is_decoded_without_the_secret(traffic: Traffic, tmp_path: Path) -> None:
    path, chance, client = tmp_path / "capture", random.Random(5), ("::1", 50_001)
    packets = []
    for data, ends in zip(traffic.orders, [(client, ("::1", SBE_PORT)), (("::1", SBE_PORT), client)], strict=True):
        packets += captures.stream(data, *ends, chance)
    path.write_bytes(captures.pcap([Packet(AT_NS, packet) for packet in packets]))
    found, counts = decoded(path, "--port", str(SBE_PORT))
    expected = []
    for data in traffic.orders:
        while data:
            length = struct.unpack_from(">I", data)[0]
            expected.append(decode_sbe(data[6:length]))
            data = data[length:]
    assert sorted(row["name"] for row in found) == sorted(name for name, _ in expected)
    assert counts["malformed"] == counts["gaps"] == 0
    order, entered = (
        next(fields for name, fields in pairs if name == "NewOrder")
        for pairs in (expected, [(row["name"], row["fields"]) for row in found])
    )
    assert entered["price"] == "3000.5" and entered["quantity"] == "500" and entered["side"] == "Buy"
    assert entered["instrument_id"] == order["instrumentId"] and entered["trigger_price"] is None
    reports = [row for row in found if row["name"] == "ExecutionReport"]
    assert reports and all(row["number"] == row["fields"]["sequence"] > 0 for row in reports)
    assert DEMO_A.secret not in run_pitwire("decode", path).stdout


def test_cut_packets_fragments_and_foreign_traffic_are_counted(traffic: Traffic, tmp_path: Path) -> None:
    unit = max(traffic.units, key=len)
    good = captures.datagram(unit, VENUE, READER)
    whole = struct.unpack_from("<H", unit)[0]
    broken = struct.pack("<H", whole) + unit[2:8] + b"\xff\xff" + unit[10:]
    packets = [
        Packet(AT_NS, good),
        Packet(AT_NS, good, cut=10),
        Packet(AT_NS, good, cut=len(good)),
        Packet(AT_NS, captures.datagram(unit, VENUE, READER, fragment=0x2000)),
        Packet(AT_NS, captures.datagram(b"another protocol", VENUE, READER)),
        Packet(AT_NS, captures.ip_packet(1, b"ping", "127.0.0.1", "127.0.0.1")),
        Packet(AT_NS, captures.datagram(broken, VENUE, READER)),
    ]
    path = tmp_path / "capture"
    path.write_bytes(captures.pcapng(packets))
    found, counts = decoded(path)
    assert rows(found) == unit_rows([unit])
    wanted = {"packets": 7, "cut": 2, "fragments": 1, "foreign": 2, "malformed": 1, "is_cut_off": False}
    assert {name: counts[name] for name in wanted} == wanted
    path.write_bytes(path.read_bytes()[:-30])
    assert decoded(path)[1]["is_cut_off"] is True


def test_a_file_that_is_no_capture_is_one_clear_error(tmp_path: Path) -> None:
    cases = [(b"", "is empty"), (b"not a capture, but long enough to be one", "neither pcap nor pcapng")]
    cases += [(captures.pcapng([])[:20], "neither"), (b"\x1f\x8b" + bytes(100), "neither")]
    for content, expected in cases:
        path = tmp_path / "file"
        path.write_bytes(content)
        ended = run_pitwire("decode", path)
        assert ended.returncode == 1 and expected in ended.stderr and "(" in ended.stderr, (content, ended.stderr)
        assert len(ended.stderr.splitlines()) == 1 and ended.stdout == ""
    missing = run_pitwire("decode", tmp_path / "missing")
    assert missing.returncode == 1 and "missing" in missing.stderr
    assert run_pitwire("decode").returncode == 2


def test_a_packet_with_the_highest_number_is_decoded(tmp_path: Path) -> None:
    event = struct.pack(">cHH6sc", b"S", 0, 0, bytes(6), b"O")
    packet = struct.pack(">10sQH", b"0000000001", 2**64 - 1, 2) + 2 * (struct.pack(">H", len(event)) + event)
    path = tmp_path / "capture"
    path.write_bytes(captures.pcap([Packet(AT_NS, captures.datagram(packet, VENUE, READER))]))
    found, counts = decoded(path)
    assert [(row["number"], row["type"]) for row in found] == 2 * [(2**64 - 1, "S")]
    assert counts["messages"] == 2


def test_a_new_connection_begins_anew_after_half_a_message(traffic: Traffic, tmp_path: Path) -> None:
    received = traffic.recovery[1]
    units = split_units(received)
    cut = captures.segment(700, b"", VENUE, CLIENT, captures.SYN)
    half = captures.segment(701, units[0] + units[1][:9], VENUE, CLIENT)
    again = [
        captures.segment(90_000, b"", VENUE, CLIENT, captures.SYN),
        captures.segment(90_001, units[0], VENUE, CLIENT),
    ]
    path = tmp_path / "capture"
    path.write_bytes(captures.pcap([Packet(AT_NS, packet) for packet in [cut, half, *again]]))
    found, counts = decoded(path)
    assert rows(found) == 2 * unit_rows([units[0]]) and counts["malformed"] == 0


def test_damaged_captures_never_panic(traffic: Traffic, tmp_path: Path) -> None:
    chance = random.Random(11)
    packets = [Packet(AT_NS, captures.datagram(unit, VENUE, READER)) for unit in traffic.units[:6]]
    ways = captures.stream(traffic.recovery[1][:3_000], VENUE, CLIENT, chance)
    ways += captures.stream(traffic.orders[0], CLIENT, VENUE, chance)
    packets += [Packet(AT_NS, packet) for packet in ways]
    for number in range(60):
        link = chance.choice(list(captures.LINK_TYPES.values()))
        data = bytearray(chance.choice([captures.pcap, captures.pcapng])(packets, link))
        for _ in range(chance.choice([1, 10, 200])):
            data[chance.randrange(len(data))] = chance.randrange(256)
        path = tmp_path / f"damaged-{number}"
        path.write_bytes(data)
        ended = run_pitwire("decode", path)
        assert ended.returncode in (0, 1) and "panicked" not in ended.stderr, (number, ended.stderr)


def test_a_pipe_is_read_like_a_file(traffic: Traffic) -> None:
    packets = [Packet(AT_NS, captures.datagram(unit, VENUE, READER)) for unit in traffic.units]
    for write in (captures.pcap, captures.pcapng):
        ended = subprocess.run(
            [BINARY, "decode", "-", "--json"], input=write(packets), capture_output=True, timeout=120
        )
        found = [json.loads(line) for line in ended.stdout.splitlines()]
        assert ended.returncode == 0 and rows(found[:-1]) == unit_rows(traffic.units)


@pytest.mark.skipif(shutil.which("editcap") is None, reason="editcap of Wireshark is not installed")
def test_captures_of_wireshark_are_read(traffic: Traffic, tmp_path: Path) -> None:
    packets = [Packet(AT_NS, captures.datagram(unit, VENUE, READER)) for unit in traffic.units]
    source = tmp_path / "source.pcap"
    source.write_bytes(captures.pcap(packets, nanoseconds=True))
    for kind in ("pcapng", "pcap", "nsecpcap", "modpcap"):
        path = tmp_path / kind
        subprocess.run(["editcap", "-F", kind, source, path], check=True, capture_output=True, timeout=120)
        found, _ = decoded(path)
        assert rows(found) == unit_rows(traffic.units), kind


def test_an_interface_is_decoded_until_ctrl_c(traffic: Traffic, tmp_path: Path) -> None:
    packets = [Packet(AT_NS, captures.datagram(unit, VENUE, READER)) for unit in traffic.units]
    (tmp_path / "live.pcap").write_bytes(captures.pcap(packets))
    # It captures these packets, and then waits for more as tcpdump does.
    program = tmp_path / "tcpdump"
    program.write_text(
        f"#!/bin/sh\ntrap 'exit 0' INT\necho \"$@\" >'{tmp_path}/words'\ncat '{tmp_path}/live.pcap'\nsleep 600\n"
    )
    program.chmod(0o755)
    expected = unit_rows(traffic.units)
    with subprocess.Popen(
        [BINARY, "decode", "--interface", "lo", "--json"],
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # The tests may run in the background of a shell, where Ctrl-C is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        try:
            assert process.stdout is not None
            # Each message is printed when its packet has arrived, and not at the end.
            found = [json.loads(line) for line in islice(process.stdout, len(expected))]
            # Ctrl-C reaches all programs of the terminal.
            os.killpg(process.pid, signal.SIGINT)
            rest, errors = process.communicate(timeout=120)
        finally:
            process.kill()
    assert rows(found) == expected
    assert (process.returncode, errors) == (0, "")
    assert json.loads(rest)["counts"]["messages"] == len(expected)
    assert "--interface=lo" in (tmp_path / "words").read_text()


def test_an_interface_needs_tcpdump_and_the_right_to_capture(tmp_path: Path) -> None:
    command = [BINARY, "decode", "--interface", "lo"]
    without = subprocess.run(
        command, env=os.environ | {"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=120
    )
    assert without.returncode == 1 and "cannot start tcpdump" in without.stderr
    # A tcpdump that refuses, as it does without the right to capture.
    refusing = tmp_path / "tcpdump"
    refusing.write_text("#!/bin/sh\necho 'tcpdump: lo: You don'\"'\"'t have permission' >&2\nexit 1\n")
    refusing.chmod(0o755)
    ended = subprocess.run(
        command,
        env=os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ended.returncode == 1 and "permission" in ended.stderr and "CAP_NET_RAW" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
