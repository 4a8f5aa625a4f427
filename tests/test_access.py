"""Access to the port, and errors at it: the right error, and the venue keeps serving."""

import contextlib
import ctypes
import json
import mmap
import shutil
import struct
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from rpc import Http, Reply, Ws, now_ms, query, request_signature, signed
from test_wire_frames import CLOSE, TEXT, RawWs, connect, frame
from venue import BINARY, DEMO_A, Venue, run_pitwire

ELSEWHERE = {"Origin": "https://evil.example", "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}
PUBLIC = "/api/v2/public/test"
SUMMARY = "/api/v2/private/get_account_summary?currency=BTC"
ALLOW_ORIGIN = "access-control-allow-origin"


def error_of(reply: Reply) -> dict[str, object]:
    """A refused connection gets an error object like any other, with a remedy."""
    body = reply.json()
    assert body["jsonrpc"] == "2.0" and "result" not in body
    error = body["error"]
    assert error["data"]["reason"] and error["data"]["remedy"] and error["data"]["name"]
    return error


# Hosts and pages


@pytest.mark.attack("name rebound to the address of the venue")
@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example", "192.0.2.1:8080", "127.0.0.1.evil.example"])
@pytest.mark.parametrize("path", [PUBLIC, SUMMARY, "/", "/healthz", "/ws/api/v2"])
def test_foreign_host_is_refused_by_name(venue: Venue, host: str, path: str) -> None:
    reply = Http(venue.address).get(path, {"Host": host} | signed(DEMO_A, "GET", path))
    assert reply.status == 421
    assert error_of(reply)["data"]["name"] == "unknown_host"  # type: ignore[index]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1", "127.0.0.1", "[::1]:8080", "test.deribit.com"])
def test_own_host_names_are_accepted(venue: Venue, host: str) -> None:
    assert Http(venue.address).get(PUBLIC, {"Host": host}).status == 200


@pytest.mark.attack("web page of another origin")
@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
def test_foreign_page_may_call_public_methods_only(venue: Venue, headers: dict[str, str]) -> None:
    http = Http(venue.address)
    public = http.get(PUBLIC, headers)
    assert (public.status, public.headers[ALLOW_ORIGIN]) == (200, "*")
    order = "/api/v2/private/buy?" + query({"instrument_name": "NPN_ZAR", "amount": 1, "type": "market"})
    for path in (SUMMARY, order, "/metrics"):
        refused = http.get(path, headers | signed(DEMO_A, "GET", path))
        assert refused.status == 403 and ALLOW_ORIGIN not in refused.headers
        assert error_of(refused)["data"]["name"] == "foreign_origin"  # type: ignore[index]
    login = {"grant_type": "client_credentials", "client_id": DEMO_A.client_id, "client_secret": DEMO_A.secret}
    refused = http.get("/api/v2/public/auth?" + query(login), headers)
    assert refused.status == 403 and ALLOW_ORIGIN not in refused.headers
    asked = http.request("OPTIONS", "/api/v2/public/auth", headers=headers)
    assert asked.status == 403 and ALLOW_ORIGIN not in asked.headers
    # The method in the body counts, whatever the path says.
    hidden = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "public/auth", "params": login})
    for path in ("/api/v2", PUBLIC):
        refused = http.request("POST", path, hidden, headers | {"Content-Type": "text/plain"})
        assert error_of(refused)["data"]["name"] == "foreign_origin", path  # type: ignore[index]
    message = {"jsonrpc": "2.0", "id": 1, "method": "private/buy", "params": {"instrument_name": "NPN_ZAR"}}
    for path in ("/api/v2", PUBLIC):
        body = json.dumps(message)
        sent = headers | signed_post(path, body) | {"Content-Type": "text/plain"}
        refused = http.request("POST", path, body, sent)
        assert error_of(refused)["data"]["name"] == "foreign_origin", path  # type: ignore[index]


def test_only_shared_methods_are_readable_by_other_pages(venue: Venue) -> None:
    # A page of this origin, or a program, may name one method in the path and another in the body.
    message = {"jsonrpc": "2.0", "id": 1, "method": "public/auth", "params": {}}
    http = Http(venue.address)
    for path in ("/api/v2", PUBLIC, "/api/v2/public/auth"):
        assert ALLOW_ORIGIN not in http.post(path, message).headers, path


def signed_post(path: str, body: str) -> dict[str, str]:
    timestamp_ms, nonce = now_ms(), "access"
    signature = request_signature(DEMO_A.secret, timestamp_ms, nonce, "POST", path, body)
    value = f"deri-hmac-sha256 id={DEMO_A.client_id},ts={timestamp_ms},sig={signature},nonce={nonce}"
    return {"Authorization": value}


def test_foreign_page_gets_no_websocket(venue: Venue) -> None:
    opening = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Version": "13"}
    opening |= {"Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ=="}
    reply = Http(venue.address).get("/ws/api/v2", opening | {"Origin": "https://evil.example"})
    assert reply.status == 403
    assert error_of(reply)["data"]["name"] == "foreign_origin"  # type: ignore[index]


def test_preflight_request_lists_what_is_allowed(venue: Venue) -> None:
    http, asks = Http(venue.address), {"Access-Control-Request-Method": "POST"} | ELSEWHERE
    allowed = http.request("OPTIONS", PUBLIC, headers=asks)
    assert allowed.status == 204 and allowed.headers[ALLOW_ORIGIN] == "*"
    assert "POST" in allowed.headers["access-control-allow-methods"]
    assert "authorization" not in allowed.headers["access-control-allow-headers"].lower()
    refused = http.request("OPTIONS", SUMMARY, headers=asks)
    assert refused.status == 403 and ALLOW_ORIGIN not in refused.headers


# Clients that misbehave


def resident_mb(venue: Venue) -> float:
    assert venue.process is not None
    status = Path(f"/proc/{venue.process.pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS")) / 1024


def messages(venue: Venue) -> int:
    text = Http(venue.address).get("/metrics").body.decode()
    return next(int(line.split()[1]) for line in text.splitlines() if line.startswith("pitwire_messages_total"))


def test_client_that_never_reads_costs_little_and_loses_no_answer(venue: Venue) -> None:
    """It requests far more than sockets hold. Others are served meanwhile, and its orders are
    answered in turn."""
    question = json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": "public/get_instruments", "params": {"currency": "any"}}
    )
    deaf, other, before = RawWs(venue.address), Ws(venue.ws_url), resident_mb(venue)
    asked = 8_000
    deaf.socket.settimeout(120)
    sending = threading.Thread(target=deaf.socket.sendall, args=(frame(TEXT, question.encode()) * asked,), daemon=True)
    sending.start()
    time.sleep(2)
    for _ in range(200):
        other.result("public/test")
    assert messages(venue) < asked, "it is held back"
    assert resident_mb(venue) - before < 64
    for _ in range(asked):
        assert "result" in deaf.answer()
    sending.join(60)
    assert not sending.is_alive() and messages(venue) > asked
    other.close()
    deaf.socket.close()


def test_many_half_open_connections_do_not_stop_other_clients(venue: Venue) -> None:
    halves = [b"", b"GET /ws/api/v2 HTTP/1.1\r\n", b"POST /api/v2 HTTP/1.1\r\nContent-Length: 10\r\n\r\n{"]
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(connect(venue.address)) for _ in range(150)]
        for number, client in enumerate(clients):
            client.sendall(halves[number % len(halves)])
        with Ws(venue.ws_url) as ws:
            for _ in range(100):
                ws.result("public/test")
        deadline = time.monotonic() + 30
        for client in clients:
            client.settimeout(max(0.1, deadline - time.monotonic()))
            with contextlib.suppress(ConnectionError):
                while client.recv(4096):
                    pass
        assert time.monotonic() < deadline, "five seconds to finish, and some patience"


BAD_INPUT = [
    b"{",
    b'{"jsonrpc":"2.0","id":1,"method":',
    b"[" * 1000,
    b'{"jsonrpc":"2.0","id":1,"method":"private/buy","params":{"amount":1e999}}',
    b'{"jsonrpc":"2.0","id":1,"method":"private/buy","params":{"amount":NaN}}',
    b'"' + b"\\ud800" * 100 + b'"',
    b"\x00\x01\x02",
]


def test_orders_between_garbage_are_acknowledged_and_survive(data: Path) -> None:
    """Good orders between bad messages, then kill -9: every acknowledged order is there
    afterwards."""
    limit = {"instrument_name": "NPN_ZAR", "amount": 1, "type": "limit", "price": 1500}
    with Venue(data, ["--no-flow"]) as venue:
        kept = []
        with Ws(venue.ws_url) as good:
            good.login(DEMO_A)
            for bad in BAD_INPUT:
                raw = RawWs(venue.address)
                raw.send(TEXT, bad)
                assert "error" in raw.answer()
                kept.append(good.result("private/buy", limit)["order"]["order_id"])
                raw.socket.sendall(frame(2, bad) + frame(TEXT, bad, masked=False))
                assert raw.close_code() == 1003
                raw.socket.close()
        venue.kill()
        venue.start()
        http = Http(venue.address, DEMO_A)
        for order in kept:
            assert http.result("private/get_order_state", {"order_id": order})["order_state"] == "open"


def test_close_without_reading_is_a_close(venue: Venue) -> None:
    raw = RawWs(venue.address)
    raw.socket.sendall(frame(TEXT, b'{"jsonrpc":"2.0","id":1,"method":"public/get_time"}') * 1000)
    raw.send(CLOSE, struct.pack(">H", 1000))
    assert raw.close_code() == 1000


# Starts


@pytest.mark.attack("several starts at once")
def test_one_of_several_concurrent_starts_serves_and_the_others_name_the_cause(data: Path) -> None:
    data.parent.mkdir(parents=True, exist_ok=True)
    options = ["up", "--data", data, "--http", "127.0.0.1:0", "--ready-file"]
    commands = [[BINARY, *options, data.parent / f"ready-{number}.json"] for number in range(4)]
    starts = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) for command in commands]
    try:
        deadline = time.monotonic() + 60
        while sum(start.poll() is None for start in starts) > 1 or not list(data.parent.glob("ready-*.json")):
            assert time.monotonic() < deadline, "three of four are refused and one serves"
            time.sleep(0.05)
        (serving,) = (json.loads(path.read_text()) for path in data.parent.glob("ready-*.json"))
        assert Http(serving["http"]).get("/healthz").status == 200
    finally:
        for start in starts:
            start.terminate()
        said = [start.communicate(timeout=30)[1].decode() for start in starts]
    assert sorted(start.returncode for start in starts) == [0, 1, 1, 1]
    refused = [text for start, text in zip(starts, said, strict=True) if start.returncode]
    assert all("lock" in text and str(serving["pid"]) in text for text in refused), refused


# Clocks

# Gives a process a wall clock that a test can step. The monotonic clock stays the machine's.
STEPPED_CLOCK = """
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
static volatile long *step;
__attribute__((constructor)) static void open_step(void) {
    int file = open(getenv("STEP_FILE"), O_RDONLY);
    if (file >= 0) step = mmap(0, sizeof *step, PROT_READ, MAP_SHARED, file, 0);
}
int clock_gettime(clockid_t which, struct timespec *at) {
    int failed = syscall(SYS_clock_gettime, which, at);
    if (!failed && which == CLOCK_REALTIME && step && step != MAP_FAILED) at->tv_sec += *step;
    return failed;
}
"""


class SteppedClock:
    """Steps the wall clock of venues that are started while it is in place."""

    def __init__(self, directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        source, library, file = (directory / name for name in ("clock.c", "clock.so", "step"))
        source.write_text(STEPPED_CLOCK)
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
        file.write_bytes(bytes(ctypes.sizeof(ctypes.c_long)))
        with file.open("r+b") as opened:
            self._map = mmap.mmap(opened.fileno(), 0)
        monkeypatch.setenv("LD_PRELOAD", str(library))
        monkeypatch.setenv("STEP_FILE", str(file))

    def step(self, seconds: int) -> None:
        self._map[:8] = struct.pack("<q", seconds)


@pytest.fixture
def stepped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SteppedClock]:
    assert shutil.which("cc"), "a C compiler is needed, as cargo needs one"
    yield SteppedClock(tmp_path, monkeypatch)


@pytest.mark.parametrize("hours", [1, -1])
def test_stepped_wall_clock_moves_neither_venue_time_nor_connections(
    data: Path, stepped: SteppedClock, hours: int
) -> None:
    limit = {"instrument_name": "NPN_ZAR", "amount": 1, "type": "limit", "price": 1500}
    with Venue(data, ["--no-flow"]) as venue, Ws(venue.ws_url) as ws:
        ws.login(DEMO_A)
        began_ms = now_ms()
        first = ws.result("private/buy", limit)["order"]
        stepped.step(3600 * hours)
        assert abs(ws.result("public/get_time") - now_ms() - 3_600_000 * hours) < 60_000, "the step is seen"
        second = ws.result("private/buy", limit)["order"]
        passed_ms = second["creation_timestamp"] - first["creation_timestamp"]
        assert 0 <= passed_ms <= now_ms() - began_ms + 1000, "venue time is not the wall's"
        ws.result("private/cancel", {"order_id": first["order_id"]})
        # A start whose wall clock is behind the journal continues from the journal.
        venue.kill()
        venue.start()
        with Ws(venue.ws_url) as again:
            again.login(DEMO_A)
            kept = again.result("private/get_order_state", {"order_id": second["order_id"]})
            assert kept["order_state"] == "open"
            third = again.result("private/buy", limit)["order"]
            assert third["creation_timestamp"] >= second["creation_timestamp"]
        assert venue.stop() == 0
    assert run_pitwire("verify", data).returncode == 0
