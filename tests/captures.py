"""Writes captures from datagrams and streams, by the formats' specifications."""

import random
import struct
from dataclasses import dataclass
from ipaddress import ip_address

ETHERNET, RAW, LOOPBACK, COOKED, COOKED_2 = 1, 101, 0, 113, 276
LINK_TYPES = {"ethernet": ETHERNET, "raw": RAW, "loopback": LOOPBACK, "cooked": COOKED, "cooked_2": COOKED_2}
UDP, TCP = 17, 6
SYN = 2


@dataclass
class Packet:
    at_ns: int
    ip: bytes
    cut: int = 0  # Bytes at the end that the capture leaves out.


def ip_packet(protocol: int, payload: bytes, source: str, destination: str, fragment: int = 0) -> bytes:
    ends = ip_address(source).packed + ip_address(destination).packed
    if len(ends) == 8:
        header = struct.pack(">BBHHHBBH", 0x45, 0, 20 + len(payload), 0, fragment, 64, protocol, 0)
        return header + ends + payload
    return struct.pack(">IHBB", 6 << 28, len(payload), protocol, 64) + ends + payload


def datagram(data: bytes, source: tuple[str, int], destination: tuple[str, int], fragment: int = 0) -> bytes:
    udp = struct.pack(">HHHH", source[1], destination[1], 8 + len(data), 0) + data
    return ip_packet(UDP, udp, source[0], destination[0], fragment)


def segment(
    sequence: int, data: bytes, source: tuple[str, int], destination: tuple[str, int], flags: int = 16
) -> bytes:
    header = struct.pack(">HHIIBBHHH", source[1], destination[1], sequence % 2**32, 0, 5 << 4, flags, 1_000, 0, 0)
    return ip_packet(TCP, header + data, source[0], destination[0])


def stream(
    data: bytes, source: tuple[str, int], destination: tuple[str, int], chance: random.Random, lose: range = range(0)
) -> list[bytes]:
    """Cuts data into segments, some twice and some out of order. Leaves out the bytes `lose`."""
    first = chance.randrange(2**32)
    segments, at = [], 0
    while at < len(data):
        end = min(at + chance.randrange(1, 1_400), len(data))
        if at < lose.start < end:
            end = lose.start
        if at not in lose:
            segments.append((first + 1 + at, data[at:end]))
        at = lose.stop if at in lose else end
    segments += chance.sample(segments, len(segments) // 4)
    # Each segment is at most eight places late.
    order = sorted(range(len(segments)), key=lambda at: at + chance.randrange(8))
    packets = [segment(first, b"", source, destination, SYN)]
    return packets + [segment(segments[at][0], segments[at][1], source, destination) for at in order]


def framed(packet: bytes, link: int, order: str) -> bytes:
    is_ipv4 = packet[0] >> 4 == 4
    ether_type = 0x0800 if is_ipv4 else 0x86DD
    if link == ETHERNET:
        return bytes(12) + struct.pack(">H", ether_type) + packet
    if link == LOOPBACK:
        # The library expects little endian here, in captures of either byte order.
        return struct.pack("<I", 2 if is_ipv4 else 30) + packet
    if link == COOKED:
        return struct.pack(">HHH8sH", 0, 1, 6, bytes(8), ether_type) + packet
    if link == COOKED_2:
        return struct.pack(">HHIHBB8s", ether_type, 0, 1, 1, 0, 6, bytes(8)) + packet
    return packet


def pcap(packets: list[Packet], link: int = ETHERNET, order: str = "<", nanoseconds: bool = False) -> bytes:
    out = struct.pack(order + "IHHiIII", 0xA1B23C4D if nanoseconds else 0xA1B2C3D4, 2, 4, 0, 0, 262_144, link)
    for packet in packets:
        frame = framed(packet.ip, link, order)
        kept = frame[: len(frame) - packet.cut]
        fraction = packet.at_ns % 10**9 // (1 if nanoseconds else 1_000)
        out += struct.pack(order + "IIII", packet.at_ns // 10**9, fraction, len(kept), len(frame)) + kept
    return out


def block(kind: int, body: bytes, order: str) -> bytes:
    body += bytes(-len(body) % 4)
    length = 12 + len(body)
    return struct.pack(order + "II", kind, length) + body + struct.pack(order + "I", length)


def pcapng(packets: list[Packet], link: int = ETHERNET, order: str = "<", nanoseconds: bool = False) -> bytes:
    resolution = struct.pack(order + "HHB3xHH", 9, 1, 9, 0, 0) if nanoseconds else b""
    out = block(0x0A0D0D0A, struct.pack(order + "IHHq", 0x1A2B3C4D, 1, 0, -1), order)
    out += block(1, struct.pack(order + "HHI", link, 0, 262_144) + resolution, order)
    for packet in packets:
        frame = framed(packet.ip, link, order)
        kept = frame[: len(frame) - packet.cut]
        at = packet.at_ns if nanoseconds else packet.at_ns // 1_000
        header = struct.pack(order + "IIIII", 0, at >> 32, at % 2**32, len(kept), len(frame))
        out += block(6, header + kept, order)
    return out
