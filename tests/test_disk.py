"""A full, slow or broken disk, and a command on which the engine panics: the member's view, and the
data left."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rpc import Http, Ws
from venue import DEBUG_BINARY, DEMO_A, OPERATOR, Venue, run_pitwire

SEGMENT_MIB = 16
SYNC_DELAY_US = 4_000
LONG_SYNC_US = 4_000_000


def buy(price: int, **more: Any) -> dict[str, Any]:
    return {"instrument_name": "NPN_ZAR", "amount": 1, "type": "limit", "price": price} | more


def verified(data: Path) -> dict[str, Any]:
    ended = run_pitwire("verify", data, "--json", timeout_s=300)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return json.loads(ended.stdout)


@contextlib.contextmanager
def small_disk(path: Path, mib: int) -> Iterator[Path]:
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={mib}m,mode=700", "tmpfs", path], check=False)
    if mounted.returncode != 0:
        pytest.skip("no permission to mount a small disk; testing/faulty-disk/tests/suite/space.rs has one of its own")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", path], check=True)


def injected(venue: Venue, what: str) -> contextlib.AbstractContextManager[None]:
    """Makes the kernel alter the venue's system calls while this lasts."""
    call = what.split(":")[0]
    return traced(venue, "-o", "/dev/null", "-e", f"trace={call}", "-e", f"inject={what}")


@contextlib.contextmanager
def traced(venue: Venue, *options: str) -> Iterator[None]:
    """Attaches strace to the venue while this lasts."""
    assert venue.process is not None
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed; testing/faulty-disk/tests have a faulty disk of their own")
    command = ["strace", "-f", *options, "-p", str(venue.process.pid)]
    tracer = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert tracer.stderr is not None
    said = tracer.stderr.readline()
    if "attached" not in said:
        tracer.wait()
        pytest.skip(f"strace may not attach here: {said}")
    try:
        yield
    finally:
        tracer.terminate()
        tracer.wait()


def test_a_new_key_file_and_its_new_directories_are_synced(data: Path, tmp_path: Path) -> None:
    key, log = tmp_path / "keys" / "own" / "vault.key", tmp_path / "calls"
    with Venue(data, extra=["--no-flow", "--key-file", str(key)]) as venue:
        operator = Http(venue.address, OPERATOR)
        with traced(venue, "-y", "-o", str(log), "-e", "trace=fsync,fdatasync"):
            operator.result("private/pitwire_create_account", {"name": "erin"})
    synced = set(re.findall(r"sync\(\d+<([^>]*)>", log.read_text()))
    assert {str(path) for path in (key, key.parent, key.parent.parent, tmp_path)} <= synced, synced


def commits(http: Http) -> int:
    lines = http.get("/metrics").body.decode().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("pitwire_commits_total "))


def pipelined(ws: Ws, count: int) -> list[dict[str, Any]]:
    ids = [ws.post("private/buy", buy(2000 + number % 500)) for number in range(count)]
    answers = {}
    while len(answers) < len(ids):
        message = ws.arrive(60)
        if "id" in message:
            answers[message["id"]] = message
    return [answers[request] for request in ids]


@pytest.mark.attack("full disk under a venue")
@pytest.mark.parametrize("end", ["full", "with room again"])
def test_a_full_disk_refuses_orders_by_name_and_takes_cancels(tmp_path: Path, end: str) -> None:
    # Three segments fit: the current one, the next, and the one kept for cancels.
    with small_disk(tmp_path / "small", 3 * SEGMENT_MIB + 6) as disk, Venue(disk / "data", ["--no-flow"]) as venue:
        pid = venue.process and venue.process.pid
        with Ws(venue.ws_url) as ws:
            ws.login(DEMO_A)
            kept = ws.result("private/buy", buy(1999))["order"]["order_id"]
            refused = None
            for _ in range(200):
                # Bursts of one group each; a group is 4 KiB at least. At these prices the funds
                # outlast the disk even if its end is noticed late.
                answers = [ws.call("private/buy", buy(100 + number % 500)) for number in range(50)]
                refused = next((answer["error"] for answer in answers if "error" in answer), None)
                if refused is not None:
                    break
            assert refused is not None, "the disk was never full"
            assert (refused["code"], refused["data"]["name"]) == (11051, "no_space"), refused
            assert refused["data"]["remedy"]
            more = {"order_id": kept, "amount": 5, "price": 1999}
            assert ws.call("private/edit", more)["error"]["data"]["name"] == "no_space"
            if end == "full":
                # The disk has no space for the last snapshot. The start does not need it.
                assert venue.stop() == 0
                assert verified(disk / "data")["orders"] > 1000
                return
            assert ws.result("public/status")["locked"] == "true"
            assert Http(venue.address).get("/healthz").json()["status"] == "cancels_only"
            assert ws.result("private/cancel", {"order_id": kept})["order_state"] == "cancelled"
            for order in ws.result("private/get_open_orders")[:200]:
                ws.result("private/cancel", {"order_id": order["order_id"]})
            subprocess.run(["mount", "-o", f"remount,size={10 * SEGMENT_MIB}m", disk], check=True)
            deadline = time.monotonic() + 60
            while "error" in (answer := ws.call("private/buy", buy(1500))):
                assert time.monotonic() < deadline, answer
                time.sleep(0.1)
            assert venue.process and venue.process.pid == pid and venue.alive(), "without a restart"
            assert Http(venue.address).get("/healthz").json()["status"] == "ok"
        assert venue.stop() == 0
        assert verified(disk / "data")["orders"] > 1000


def test_a_disk_twenty_times_slower_shares_its_syncs_and_loses_nothing(data: Path) -> None:
    with Venue(data, ["--no-flow"]) as venue:
        http = Http(venue.address)
        with Ws(venue.ws_url) as ws:
            ws.login(DEMO_A)
            with injected(venue, f"fdatasync:delay_exit={SYNC_DELAY_US}"):
                before, started = commits(http), time.monotonic()
                assert "result" in ws.call("private/buy", buy(1000)), "one order alone"
                assert time.monotonic() - started >= SYNC_DELAY_US / 1e6, "its answer waits for the disk"
                answers = pipelined(ws, 400)
                groups = commits(http) - before
        assert all("result" in answer for answer in answers)
        assert groups < 200, f"400 orders in {groups} groups: they must share syncs"
        acknowledged = {answer["result"]["order"]["order_id"] for answer in answers}
        venue.kill()
        venue.start()
        held = Http(venue.address, DEMO_A).result("private/get_open_orders")
        assert acknowledged <= {order["order_id"] for order in held}
    verified(data)


@pytest.mark.parametrize("early", [False, True])
def test_public_channels_wait_for_the_disk_by_default(data: Path, early: bool) -> None:
    with Venue(data, ["--no-flow", *(["--early-market-data"] if early else [])]) as venue:
        http = Http(venue.address)
        assert http.get("/healthz").json()["market_data"] == ("early" if early else "durable")
        assert f"pitwire_early_market_data {int(early)}\n" in http.get("/metrics").body.decode()
        with Ws(venue.ws_url) as ws, Ws(venue.ws_url) as reader:
            ws.login(DEMO_A)
            reader.login(DEMO_A)
            reader.subscribe("book.NPN_ZAR.raw")
            reader.notification("book.NPN_ZAR.raw")
            with injected(venue, f"fdatasync:delay_exit={LONG_SYNC_US}"):
                order = ws.post("private/buy", buy(1000))
                assert reader.notification("book.NPN_ZAR.raw")["bids"]
                answered_at = time.monotonic()
                assert "result" in next(message for message in iter(ws.arrive, None) if message.get("id") == order)
                waited = time.monotonic() - answered_at
            # The disk's delay lies between early market data and the answer, and nowhere else.
            assert (waited > LONG_SYNC_US / 2e6) == early


@pytest.mark.attack("disk error at a write or a sync")
@pytest.mark.parametrize("call", ["pwrite64", "fdatasync"])
def test_an_error_of_the_disk_stops_the_venue_and_loses_nothing(data: Path, call: str) -> None:
    with Venue(data, ["--no-flow"]) as venue:
        acknowledged = []
        with Ws(venue.ws_url) as ws:
            ws.login(DEMO_A)
            acknowledged += [ws.result("private/buy", buy(1000 + number))["order"]["order_id"] for number in range(20)]
            with injected(venue, f"{call}:error=EIO"):
                ws.post("private/buy", buy(1100))
                assert venue.wait() == 1
        log = venue.log_tail()
        assert "the venue stopped" in log and "Input/output error" in log, log
        venue.start()
        held = {order["order_id"] for order in Http(venue.address, DEMO_A).result("private/get_open_orders")}
        assert set(acknowledged) <= held
    verified(data)


def test_a_poison_command_halts_one_instrument_only(data: Path) -> None:
    """Only builds with debug assertions know the label that makes the engine panic."""
    assert DEBUG_BINARY.exists(), f"{DEBUG_BINARY} does not exist: `make test` builds it"
    ready = data.with_suffix(".ready.json")
    command = [DEBUG_BINARY, "up", "--data", data, "--http", "127.0.0.1:0", "--ready-file", ready, "--no-flow"]
    for restart in (False, True):
        ready.unlink(missing_ok=True)
        venue = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            while not ready.exists():
                assert venue.poll() is None
                time.sleep(0.05)
            http = Http(json.loads(ready.read_text())["http"], DEMO_A)
            if not restart:
                kept = http.result("private/buy", buy(1000))["order"]["order_id"]
                poisoned = http.call("private/buy", buy(1001, label="poison (debug builds only)"))
                assert poisoned["error"]["data"]["name"] == "quarantined", poisoned
                assert poisoned["error"]["data"]["remedy"]
            assert http.call("private/buy", buy(1002))["error"]["data"]["name"] == "not_open"
            assert "result" in http.call("private/buy", buy(1000) | {"instrument_name": "AGL_ZAR"})
            assert http.result("private/get_order_state", {"order_id": kept})["order_state"] == "open"
        finally:
            os.kill(venue.pid, 9)
            venue.wait()
    verified(data)
