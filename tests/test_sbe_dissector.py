"""The Wireshark dissector of binary order entry, in tshark."""

import shutil
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from sbe_client import encode
from venue import TOP

sys.path.insert(0, str(TOP / "scripts"))

from sbe_dissector import DISSECTOR, generated

PORT = 9_001


def capture(path: Path, segments: list[bytes]) -> None:
    """Writes the segments of one TCP connection over IPv4 to a pcap file without a link layer."""
    packets, sequence = b"", 1
    for segment in segments:
        tcp = struct.pack(">HHIIBBHHH", 40_000, PORT, sequence, 1, 0x50, 0x18, 65_535, 0, 0) + segment
        ip = struct.pack(
            ">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0, bytes([127, 0, 0, 1]), bytes([127, 0, 0, 1])
        )
        packets += struct.pack("<IIII", 0, 0, len(ip + tcp), len(ip + tcp)) + ip + tcp
        sequence += len(segment)
    path.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65_535, 101) + packets)


def test_dissector_has_the_messages_of_the_schema() -> None:
    text = DISSECTOR.read_text()
    assert text == generated(text), "run .venv/bin/python scripts/sbe_dissector.py"


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is missing; scripts/with tshark installs it")
def test_tshark_shows_fields_groups_texts_and_malformed_messages(tmp_path: Path) -> None:
    order = encode(
        "NewOrder",
        {"requestId": 7, "clientOrderId": "c-1", "side": "Sell", "orderType": "Limit", "price": "3200.5"},
    )
    reject = encode("Reject", {"requestId": 8, "code": -32_602, "name": "invalid_params", "remedy": "Ask again."})
    levels = struct.pack("<HHBqqBqq", 17, 2, 1, 5 * 10**8, 10**8, 2, 6 * 10**8, -(2**63))
    book = struct.pack("<4HQQI", 20, 26, 7401, 0, 3, 9, 1) + levels
    book = struct.pack(">IH", 6 + len(book), 0xEB50) + book
    lying = bytearray(book)
    struct.pack_into("<H", lying, 36, 900)
    foreign = bytearray(order)
    struct.pack_into("<H", foreign, 10, 1)
    unframed = b"GET / HTTP/1.1\r\n"
    # A segment has two messages, and a message ends in the next segment.
    segments = [order + reject, book[:20], book[20:], bytes(lying), bytes(foreign), unframed]
    path = tmp_path / "orders.pcap"
    capture(path, segments)
    command = ["tshark", "-X", f"lua_script:{DISSECTOR}", "-d", f"tcp.port=={PORT},pitwire-sbe", "-r", str(path)]
    names = ["new_order.client_order_id", "new_order.side", "new_order.price", "reject.code", "reject.name"]
    names += ["book.levels.price", "book.levels.side"]
    columns = ["-e", "_ws.col.Info", *(option for name in names for option in ("-e", f"pitwire-sbe.{name}"))]
    ended = subprocess.run(
        [*command, "-T", "fields", *columns], capture_output=True, text=True, timeout=120, check=True
    )
    rows = [line.split("\t") for line in ended.stdout.splitlines()]
    assert rows[0] == ["NewOrder, Reject", "c-1", "2", "320050000000", "-32602", "invalid_params", "", ""]
    assert rows[2] == ["Book", "", "", "", "", "", "500000000,600000000", "1,2"]
    assert [row[0] for row in rows[3:5]] == ["Book", "NewOrder"]
    assert rows[3][6:] == ["", ""] and rows[4][1:4] == ["", "", ""]
    text = subprocess.run([*command, "-V"], capture_output=True, text=True, timeout=120, check=True).stdout
    for shown in ("side: Sell (2)", "(3200.50000000)", "(none)", "remedy: Ask again.", "levels 2"):
        assert shown in text, shown
    assert text.count("(Error/Malformed)") == 3, text
