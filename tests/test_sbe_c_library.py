"""The C library of binary order entry, called through ctypes with the signatures of its header. The
Julia client calls the same functions."""

import ctypes as c
import os
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from rpc import Http, until
from sbe_faults import FrameRelay
from test_order_feed import free_line, recovery_address, venue_books
from test_sbe import OPTIONS, instrument_id, sbe_address
from test_sbe_clients import TIMEOUT_S, build, need
from venue import DEMO_A, DEMO_B, TOP, Venue

UNIT = 10**8
HEADER = (TOP / "clients/c/pitwire_client.h").read_text()
JULIA = (TOP / "clients/julia/src/binary_entry.jl").read_text()
NUMBERS: dict[str, Any] = {"int32_t": c.c_int32, "uint32_t": c.c_uint32, "int64_t": c.c_int64, "uint64_t": c.c_uint64}
JULIA_NUMBERS = {"int32_t": "Int32", "uint32_t": "UInt32", "int64_t": "Int64", "uint64_t": "UInt64"}
PROTOTYPE = re.compile(r"^([\w ]+[ *])(pitwire_\w+)\((.*)\);$", re.MULTILINE)
PROTOTYPES = [(name, [result.strip(), *arguments.split(", ")]) for result, name, arguments in PROTOTYPE.findall(HEADER)]


def fields(struct: str) -> list[tuple[str, str, int]]:
    """Type, name and number of elements of each field; 0 for a plain number."""
    body = next(
        text for text, name in re.findall(r"typedef struct \{(.*?)\} (\w+);", HEADER, re.DOTALL) if name == struct
    )
    found = re.findall(r"^ +(\w+) (\w+)(?:\[(\d+)\])?;", body, re.MULTILINE)
    return [(kind, name, int(size or 0)) for kind, name, size in found]


def structure(name: str) -> Any:
    layout = [(field, c.c_char * size if size else NUMBERS[kind]) for kind, field, size in fields(name)]
    return type(name, (c.Structure,), {"_fields_": layout})


Message, Level = structure("pitwire_message"), structure("pitwire_level")


def ctype(text: str) -> Any:
    if text.startswith("const char *"):
        return c.c_char_p
    return c.c_void_p if "*" in text else None if text == "void" else NUMBERS[text.split()[0]]


def julia_type(text: str) -> str:
    if text.startswith("const char *"):
        return "Cstring"
    kind = text.split()[0]
    if "*" not in text:
        return {"void": "Cvoid"}.get(kind) or JULIA_NUMBERS[kind]
    special = {"uint64_t": "Ref{UInt64}", "pitwire_message": "Ref{Message}", "pitwire_level": "Ptr{Level}"}
    return special.get(kind, "Ptr{Cvoid}")


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Any:
    need("g++", "make", "javac", "mvn")
    base = tmp_path_factory.getbasetemp()
    place = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "sbe-c-library"
    (place / "clients/c").mkdir(parents=True, exist_ok=True)
    (place / "clients/c/pitwire_client.h").write_text(HEADER)
    options = "CXXFLAGS=-std=c++17 -Wall -Wextra -Werror"
    built = build(place, "cpp", "make", "-s", options, "build/libpitwire_client.so")
    loaded = c.CDLL(str(built / "build/libpitwire_client.so"))
    for name, (result, *arguments) in PROTOTYPES:
        function = getattr(loaded, name)
        function.restype = ctype(result)
        function.argtypes = [] if arguments == ["void"] else [ctype(argument) for argument in arguments]
    return loaded


@pytest.fixture
def venue(data: Path) -> Iterator[Venue]:
    with Venue(data, [*OPTIONS, "--sbe", "127.0.0.1:0"]) as running:
        yield running


class Session:
    def __init__(self, library: Any, address: str, client_id: str, secret: str) -> None:
        self.library = library
        self.handle = library.pitwire_log_on(address.encode(), client_id.encode(), secret.encode())
        self.messages: list[Any] = []

    def request(self, name: str, *arguments: Any) -> Any:
        """Sends a request and returns its answer."""
        number = c.c_uint64()
        sent = getattr(self.library, f"pitwire_{name}")(self.handle, *arguments, c.byref(number))
        assert sent == 0, self.library.pitwire_error()
        while (message := self.next()).request_id != number.value:
            pass
        return message

    def next(self) -> Any:
        message = Message()
        while (polled := self.library.pitwire_poll(self.handle, 1000, c.byref(message))) == 0:
            pass
        assert polled == 1, self.library.pitwire_error()
        self.messages.append(message)
        return message

    def close(self) -> None:
        self.library.pitwire_log_out(self.handle)


@pytest.mark.timeout(TIMEOUT_S)
def test_order_lives_through_lost_messages_and_cut_connections(library: Any, venue: Venue) -> None:
    with (
        FrameRelay(sbe_address(venue), drop=2, cut=5) as relay,
        closing(Session(library, relay.address, DEMO_A.client_id, DEMO_A.secret)) as a,
        closing(Session(library, relay.address, DEMO_B.client_id, DEMO_B.secret)) as b,
    ):
        market = instrument_id(venue)
        order = a.request("enter_limit", b"a-1", market, 1, 10 * UNIT, 3200 * UNIT)
        assert (order.kind, order.status, order.client_order_id) == (20, 1, b"a-1")
        b.request("enter_limit", b"b-1", market, 2, 4 * UNIT, 3200 * UNIT)
        # The relay drops the report of the fill. A heartbeat shows the gap.
        while not any(message.execution_type == 2 for message in a.messages):
            a.next()
        amended = a.request("amend", order.order_id, 12 * UNIT, 3200 * UNIT)
        assert (amended.quantity, amended.filled_quantity) == (12 * UNIT, 4 * UNIT)
        best = a.request("query", market, 1, 0)
        assert (best.kind, best.bid_price, best.bid_quantity) == (24, 3200 * UNIT, 8 * UNIT)
        assert a.request("query", market, 4, 0).text == b"continuous open"
        assert a.request("cancel", order.order_id).status == 3
        refused = a.request("cancel", order.order_id)
        assert (refused.kind, refused.code) == (23, 10010) and refused.text.startswith(b"already_closed: ")
        a.request("enter_limit", b"a-2", market, 1, UNIT, 3200 * UNIT)
        assert a.request("mass_cancel", market).cancelled == 1
        fills = [(m.last_price, m.last_quantity) for m in a.messages if (m.kind, m.execution_type) == (22, 2)]
        assert fills == [(3200 * UNIT, 4 * UNIT)]
        assert {"drop", "cut"} <= relay.done and relay.retransmit_requests > 0 and len(relay.resumed) > 1
    assert Http(venue.address, DEMO_A).result("private/get_open_orders") == []


@pytest.mark.timeout(TIMEOUT_S)
def test_wrong_input_has_a_cause(library: Any, venue: Venue) -> None:
    assert library.pitwire_log_on(sbe_address(venue).encode(), b"demo-a", b"wrong") is None
    assert b"13004" in library.pitwire_error()
    assert library.pitwire_log_on(b"here", b"demo-a", b"demo-a-secret") is None
    assert library.pitwire_error() == b"address here: expected HOST:PORT"
    assert library.pitwire_feed_join(b"127.0.0.1:0", b"127.0.0.1:1") is None
    assert b"--order-feed-recovery" in library.pitwire_error()


@pytest.mark.timeout(TIMEOUT_S)
def test_feed_has_the_levels_of_the_venue(library: Any, data: Path) -> None:
    lines = f"{free_line()},{free_line()}"
    options = ["--clock", "manual", "--durability", "memory", "--order-feed", lines]
    levels = (Level * 10_000)()
    with (
        Venue(data, [*options, "--order-feed-recovery", "127.0.0.1:0"]) as venue,
        closing(Http(venue.address, DEMO_A)) as http,
    ):
        instruments = http.result("public/get_instruments", {"currency": "any"})
        # The numbers of the feed begin with 0, and those of the dialect with 1.
        numbers = {found["instrument_name"]: found["instrument_id"] - 1 for found in instruments}
        feed = library.pitwire_feed_join(lines.encode(), recovery_address(venue).encode())
        assert feed, library.pitwire_error()

        def side_of(number: int, side: int) -> list[list[float]]:
            count = library.pitwire_feed_levels(feed, number, side, levels, len(levels))
            assert count >= 0, library.pitwire_error()
            return [[level.price / UNIT, level.quantity / UNIT] for level in levels[:count]]

        def books() -> dict[str, dict[str, list[list[float]]]]:
            assert library.pitwire_feed_poll(feed, 50) == 0, library.pitwire_error()
            return {name: {"bids": side_of(n, 1), "asks": side_of(n, 2)} for name, n in numbers.items()}

        try:
            for _ in range(3):
                before = library.pitwire_feed_newest(feed)
                http.result("private/pitwire_advance", {"ns": 5_000_000_000})
                expected = venue_books(http)
                assert any(book["bids"] and book["asks"] for book in expected.values())
                until(lambda: books() == expected, "the venue's levels")  # noqa: B023
                assert library.pitwire_feed_newest(feed) > before
        finally:
            library.pitwire_feed_leave(feed)


def test_julia_file_has_the_signatures_of_the_header() -> None:
    calls = dict(re.findall(r"ccall\(\(:(\w+), LIBRARY\), (.*?\))(?:,|\))", JULIA))
    for name, (result, *arguments) in PROTOTYPES:
        types = [] if arguments == ["void"] else [julia_type(argument) for argument in arguments]
        listed = f"({types[0]},)" if len(types) == 1 else f"({', '.join(types)})"
        assert calls.pop(name) == f"{julia_type(result)}, {listed}", name
    assert calls == {}
    for struct, name in (("pitwire_message", "Message"), ("pitwire_level", "Level")):
        body = re.findall(rf"^struct {name}\n(.*?)^end", JULIA, re.DOTALL | re.MULTILINE)[0]
        expected = [(f, f"NTuple{{{n},UInt8}}" if n else JULIA_NUMBERS[kind]) for kind, f, n in fields(struct)]
        assert re.findall(r"(\w+)::(\S+)", body) == expected
