"""Writes the tables of the Wireshark dissector contracts/pitwire-order-entry.lua from the schema:
`.venv/bin/python scripts/sbe_dissector.py`. A test compares both."""

import re
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from sbe_client import ENUMS, FORMATS, MESSAGES, SCHEMA, TEXTS
from venue import TOP

DISSECTOR = TOP / "contracts/pitwire-order-entry.lua"
BEGIN, END = "-- Begin of the generated tables.\n", "-- End of the generated tables.\n"
BYTES = {"uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8, "int32": 4, "Decimal": 8}


def snake(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


def block(message: str, elements: Iterable[ElementTree.Element]) -> tuple[list[str], int]:
    """Lines of the fields of a block, and the bytes of the block."""
    lines, at = [], 0
    for element in elements:
        name, kind = element.attrib["name"], element.attrib["type"]
        label = f'"pitwire-sbe.{snake(message)}.{snake(name)}", "{name}"'
        if kind in TEXTS:
            size, shown, field = TEXTS[kind], "text", f"string({label})"
        elif kind in ENUMS:
            size, shown, field = 1, "number", f"uint8({label}, base.DEC, enums.{kind})"
        elif kind in FORMATS:
            size, shown, field = BYTES[kind], "number", f"{kind}({label})"
        else:
            size, shown, field = BYTES[kind], "decimal", f"int64({label})"
        lines.append(f'{{ {at}, {size}, "{shown}", ProtoField.{field} }},')
        at += size
    return lines, at


def tables() -> str:
    out = [f"local SCHEMA, VERSION = {SCHEMA.attrib['id']}, {SCHEMA.attrib['version']}", "local enums = {}"]
    for name, values in ENUMS.items():
        out.append(f"enums.{name} = {{")
        out += [f'  [{code}] = "{value}",' for value, code in values.items()]
        out.append("}")
    out.append("local messages = {}")
    for name, element in MESSAGES.items():
        lines, size = block(name, [child for child in element if child.tag == "field"])
        out.append(f'messages[{element.attrib["id"]}] = {{ name = "{name}", block = {size}, fields = {{')
        out += [f"  {line}" for line in lines]
        out.append("}, parts = {")
        for child in element:
            part = child.attrib["name"]
            if child.tag == "data":
                out.append(f'  {{ text = ProtoField.string("pitwire-sbe.{snake(name)}.{snake(part)}", "{part}") }},')
            elif child.tag == "group":
                lines, size = block(f"{name}.{part}", child)
                out.append(f'  {{ name = "{part}", bytes = {size}, entry = {{')
                out += [f"    {line}" for line in lines]
                out.append("  } },")
        out.append("} }")
    return "\n".join(out) + "\n"


def generated(text: str) -> str:
    """The text of the dissector with current tables."""
    head, rest = text.split(BEGIN)
    _, tail = rest.split(END)
    return head + BEGIN + tables() + END + tail


if __name__ == "__main__":
    DISSECTOR.write_text(generated(DISSECTOR.read_text()))
