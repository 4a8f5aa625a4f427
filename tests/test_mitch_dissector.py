"""The Wireshark dissector of the order-by-order feed, in tshark."""

import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from venue import TOP

DISSECTOR = TOP / "contracts/pitwire-mitch.lua"
PORT = 9_100


def capture(path: Path, units: list[bytes]) -> None:
    """Writes units as UDP datagrams over IPv4 to a pcap file without a link layer."""
    packets = b""
    for unit in units:
        udp = struct.pack(">HHHH", 40_000, PORT, 8 + len(unit), 0) + unit
        ip = struct.pack(
            ">BBHHHBBH4s4s", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0, bytes([127, 0, 0, 1]), bytes([127, 0, 0, 1])
        )
        packets += struct.pack("<IIII", 0, 0, len(ip + udp), len(ip + udp)) + ip + udp
    path.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 101) + packets)


def unit(first: int, *messages: bytes) -> bytes:
    body = b"".join(messages)
    return struct.pack("<HBcI", 8 + len(body), len(messages), b"P", first) + body


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is missing; scripts/with tshark installs it")
def test_tshark_shows_messages_heartbeats_and_malformed_units(tmp_path: Path) -> None:
    add = struct.pack("<HBIQcIIHqB10x", 45, 0x41, 7, 4_711, b"B", 500, 3, 0, 12_345_000_000, 0)
    delete = struct.pack("<HBIQ", 15, 0x44, 8, 4_711)
    short = struct.pack("<HB", 90, 0x44)
    path = tmp_path / "feed.pcap"
    capture(path, [unit(1, add, delete), unit(3), unit(3, short), unit(3, struct.pack("<HB", 3, 0xEE))])
    command = ["tshark", "-X", f"lua_script:{DISSECTOR}", "-d", f"udp.port=={PORT},mitch", "-r", str(path)]
    fields = ["mitch.sequence_number", "mitch.add_order.order_id", "mitch.add_order.side", "mitch.add_order.price"]
    columns = [option for field in ["_ws.col.Info", *fields] for option in ("-e", field)]
    ended = subprocess.run(
        [*command, "-T", "fields", *columns], capture_output=True, text=True, timeout=120, check=True
    )
    assert ended.stdout.splitlines() == [
        "Add Order, Order Deleted\t1\t4711\tB\t12345000000",
        "Heartbeat\t3\t\t\t",
        "Heartbeat\t3\t\t\t",
        "Unknown 0xee\t3\t\t\t",
    ]
    text = subprocess.run([*command, "-V"], capture_output=True, text=True, timeout=120, check=True).stdout
    assert "(123.45000000)" in text and "Malformed message" in text
