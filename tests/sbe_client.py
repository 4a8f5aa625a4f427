"""A client of binary order entry that reads the schema at run time, so that it shares no code with
the venue."""

import struct
import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from byte_stream import ByteStream
from venue import TOP, Credentials

Fields = dict[str, Any]

SCHEMA = ElementTree.parse(TOP / "contracts/pitwire-order-entry.xml").getroot()
SCHEMA_ID = int(SCHEMA.attrib["id"])
FORMATS = {"uint8": "B", "uint16": "H", "uint32": "I", "uint64": "Q", "int32": "i"}
TEXTS = {
    element.attrib["name"]: int(element.attrib["length"])
    for element in SCHEMA.findall("types/type")
    if element.attrib["primitiveType"] == "char"
}
ENUMS = {
    element.attrib["name"]: {value.attrib["name"]: int(value.text or "") for value in element}
    for element in SCHEMA.findall("types/enum")
}
MESSAGES = {element.attrib["name"]: element for element in SCHEMA if element.tag.endswith("message")}
NAMES = {int(element.attrib["id"]): name for name, element in MESSAGES.items()}
NO_DECIMAL = -(2**63)
ENCODING = 0xEB50


def pack(kind: str, value: Any) -> bytes:
    if kind in FORMATS:
        return struct.pack("<" + FORMATS[kind], value or 0)
    if kind in TEXTS:
        return struct.pack(f"{TEXTS[kind]}s", (value or "").encode())
    if kind == "Decimal":
        return struct.pack("<q", NO_DECIMAL if value is None else int(Decimal(value) * 10**8))
    codes = ENUMS[kind]
    # Optional choices have a value 0; the first value stands for an absent one.
    return struct.pack("B", codes[value] if value is not None else min(codes.values()))


def unpack(kind: str, data: bytes, at: int) -> tuple[Any, int]:
    if kind in FORMATS:
        form = "<" + FORMATS[kind]
        return struct.unpack_from(form, data, at)[0], at + struct.calcsize(form)
    if kind in TEXTS:
        return data[at : at + TEXTS[kind]].rstrip(b"\0").decode(), at + TEXTS[kind]
    if kind == "Decimal":
        mantissa = struct.unpack_from("<q", data, at)[0]
        return None if mantissa == NO_DECIMAL else Decimal(mantissa) / 10**8, at + 8
    names = {code: name for name, code in ENUMS[kind].items()}
    return names[data[at]], at + 1


def encode(name: str, fields: Fields) -> bytes:
    element = MESSAGES[name]
    assert fields.keys() <= {child.attrib["name"] for child in element}, fields
    block = b"".join(
        pack(child.attrib["type"], fields.get(child.attrib["name"])) for child in element if child.tag == "field"
    )
    tail = b""
    for child in element.findall("data"):
        text = fields.get(child.attrib["name"], "").encode()
        tail += struct.pack("<H", len(text)) + text
    body = struct.pack("<4H", len(block), int(element.attrib["id"]), SCHEMA_ID, 0) + block + tail
    return struct.pack(">IH", len(body) + 6, ENCODING) + body


def decode(body: bytes) -> tuple[str, Fields]:
    _, template, schema, version = struct.unpack_from("<4H", body)
    assert (schema, version) == (SCHEMA_ID, 0)
    name, at = NAMES[template], 8
    fields: Fields = {}
    for child in MESSAGES[name]:
        key = child.attrib["name"]
        if child.tag == "field":
            fields[key], at = unpack(child.attrib["type"], body, at)
            continue
        if child.tag == "data":
            (count,) = struct.unpack_from("<H", body, at)
            fields[key], at = body[at + 2 : at + 2 + count].decode(), at + 2 + count
            continue
        _, count = struct.unpack_from("<2H", body, at)
        at += 4
        entries: list[Fields] = []
        for _ in range(count):
            entry: Fields = {}
            for member in child:
                entry[member.attrib["name"]], at = unpack(member.attrib["type"], body, at)
            entries.append(entry)
        fields[key] = entries
    assert at == len(body), f"{name}: {len(body) - at} bytes too many"
    return name, fields


@dataclass
class SbeClient(ByteStream):
    """One connection. `messages` has every numbered message in order."""

    messages: list[tuple[str, Fields]] = field(default_factory=list)
    requests: int = 0

    def send(self, name: str, **fields: Any) -> None:
        self.sock.sendall(encode(name, fields))

    def receive(self) -> tuple[str, Fields]:
        """Returns the next message that is not a heartbeat."""
        while True:
            length, encoding = struct.unpack(">IH", self.exactly(6))
            assert encoding == ENCODING
            name, fields = decode(self.exactly(length - 6))
            if name == "Heartbeat":
                continue
            if "sequence" in fields:
                self.messages.append((name, fields))
            return name, fields

    def log_on(self, who: Credentials, next_sequence: int = 0) -> tuple[str, Fields]:
        self.send("Logon", clientId=who.client_id, secret=who.secret, nextSequence=next_sequence, heartbeatS=30)
        return self.receive()

    def request(self, name: str, **fields: Any) -> tuple[str, Fields]:
        """Sends a request and returns its answer. Reports that come before it are in `messages`."""
        self.requests += 1
        self.send(name, requestId=self.requests, **fields)
        while True:
            kind, answer = self.receive()
            if answer.get("requestId") == self.requests:
                return kind, answer

    def report(self, order_id: int, execution_type: str) -> Fields:
        """Returns the first report of a kind about an order, and waits for it."""
        while True:
            for name, fields in self.messages:
                if name == "ExecutionReport" and (fields["orderId"], fields["executionType"]) == (
                    order_id,
                    execution_type,
                ):
                    return fields
            self.receive()
