"""`pitwire load` against independent servers: its counts, its answers to bad input, its end."""

import asyncio
import json
import os
import re
import resource
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from test_tape import serving
from venue import BINARY
from websockets.asyncio.server import ServerConnection, serve
from websockets.protocol import State

PATIENCE_S = 60
INTERFACE = {
    *("connections", "failed_connections", "deliveries", "deliveries_per_s", "late", "lost", "conflated", "duplicated"),
    *("p50_us", "p99_us", "p999_us", "spread_us", "generator_cpu_s", "generator_bound"),
}

Handler = Callable[[ServerConnection], Awaitable[None]]


@contextmanager
def server(handler: Handler, **options: Any) -> Iterator[str]:
    """A WebSocket server on its own thread and event loop; returns its URL."""
    started: list[str] = []
    ready, loop, ending = threading.Event(), asyncio.new_event_loop(), asyncio.Event()

    async def run() -> None:
        async with serve(handler, "127.0.0.1", 0, **({"compression": None} | options)) as serving_now:
            started.append(f"ws://127.0.0.1:{serving_now.sockets[0].getsockname()[1]}/")
            ready.set()
            await ending.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    assert ready.wait(PATIENCE_S)
    try:
        yield started[0]
    finally:
        loop.call_soon_threadsafe(ending.set)
        thread.join()
        loop.close()


async def echo(connection: ServerConnection) -> None:
    async for text in connection:
        await connection.send(text)


async def ten_answers(connection: ServerConnection) -> None:
    async for _ in connection:
        for _ in range(10):
            await connection.send("x" * 10_000)


async def numbered(connection: ServerConnection) -> None:
    """A message every 5 ms; the 40th is left out."""
    number = 0
    while True:
        number += 1
        if number != 40:
            due = time.time_ns()
            await connection.send(json.dumps({"seq": number, "ts_ns": due}, separators=(",", ":")))
        await asyncio.sleep(0.005)


def run(*args: str | Path, files: int | None = None) -> subprocess.CompletedProcess[str]:
    def limit() -> None:
        if files is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))

    return subprocess.run(
        [BINARY, "load", *args], capture_output=True, text=True, timeout=PATIENCE_S, check=False, preexec_fn=limit
    )


def load(*args: str | Path, files: int | None = None) -> dict[str, Any]:
    done = run(*args, "--json", files=files)
    assert done.returncode == 0, done.stderr
    figures: dict[str, Any] = json.loads(done.stdout)
    assert set(figures) >= INTERFACE
    return figures


def test_a_run_ends_with_one_sentence_about_the_bottleneck() -> None:
    with server(numbered) as url:
        figures = load(url, "--connections", "5", "--seconds", "1")
        last = run(url, "--connections", "2", "--seconds", "0.5").stdout.splitlines()[-1]
        echoed = load(url, "--connections", "2", "--echo", "8", "--seconds", "1")
    # Some kernels and sandboxes do not show the threads or the files of other processes.
    listed = subprocess.run(["ls", "-l", f"/proc/{os.getpid()}/fd"], capture_output=True, check=False)
    is_readable = listed.returncode == 0 and Path("/proc/thread-self/schedstat").exists()
    # The machine decides on the bottleneck here; the evidence is the same on all machines.
    assert figures["bottleneck"] in ("load_client", "server", "processors", "nothing", "unknown")
    assert figures["bottleneck_confidence"] in ("certain", "likely", "open")
    assert 0 <= figures["machine_busy"] <= 1
    if is_readable:
        assert 0 <= figures["server_busy"] <= 1 and figures["server_cpu_s"] > 0, "the server runs as the same user"
    else:
        assert figures["server_busy"] is None and figures["server_cpu_s"] is None
    of_server = r"of the server \d+ %" if is_readable else "that of the server cannot be read from here"
    for sentence in (figures["verdict"], last):
        assert sentence.endswith(").") and re.search("bottleneck|near its limit", sentence), sentence
        assert re.search(rf"busiest thread of the load client \d+ %, {of_server}", sentence), sentence
    # Only a load client that sends has a schedule.
    assert figures["schedule_late_p99_us"] is None and echoed["schedule_late_p99_us"] > 0
    assert "after they were due at p99" in echoed["verdict"]


def test_a_hole_in_a_stream_is_lost_once_on_each_connection() -> None:
    with server(numbered) as url:
        figures = load(url, "--connections", "5", "--seconds", "1")
    assert (figures["connections"], figures["failed_connections"]) == (5, 0)
    assert (figures["lost"], figures["duplicated"], figures["conflated"], figures["late"]) == (5, 0, 0, 0)
    assert figures["deliveries"] > 50 and figures["timed"] > 50
    assert 0 < figures["p50_us"] <= figures["p99_us"] <= figures["p999_us"] <= figures["max_us"]
    # A message reaches the socket before it is read.
    assert 0 < figures["arrived_p50_us"] <= figures["arrived_p99_us"] <= figures["max_us"]


def test_echoes_come_back_and_a_seed_names_the_arrivals() -> None:
    with server(echo) as url:
        options = ["--connections", "4", "--echo", "64", "--arrivals", "300/s", "--seconds", "1"]
        first, again = load(url, *options), load(url, *options)
        other = load(url, *options, "--seed", "2")
        even = load(url, "--connections", "4", "--echo", "3", "--arrivals", "even:300/s", "--seconds", "1")
    assert first["sent"] == again["sent"] == first["deliveries"] == again["deliveries"]
    assert first["bytes"] == 64 * first["deliveries"] and (first["lost"], first["malformed"]) == (0, 0)
    assert other["sent"] != first["sent"]
    assert (even["sent"], even["deliveries"], even["bytes"]) == (300, 300, 900)


def test_the_seeds_test_wants_ten_answers_to_each_heartbeat() -> None:
    with server(ten_answers) as url:
        figures = load(url, "--seed-002", "--connections", "20", "--seconds", "2")
        wrong = load(url, "--heartbeat", "500ms", "--expect", "10x9999", "--connections", "2", "--seconds", "1")
    assert (figures["sent"], figures["deliveries"], figures["bytes"]) == (40, 400, 4_000_000)
    assert (figures["lost"], figures["malformed"], figures["failed_connections"]) == (0, 0, 0)
    assert wrong["malformed"] == wrong["deliveries"] == 40


def test_a_server_that_compresses_is_understood() -> None:
    with server(numbered, compression="deflate") as url:
        figures = load(url, "--connections", "3", "--seconds", "4", "--deflate")
    assert figures["lost"] == 3 and figures["unnumbered"] == 0 and figures["breaches"] == []


def test_more_connections_than_files_are_opened_by_children() -> None:
    with server(ten_answers) as url:
        figures = load(
            url, "--connections", "60", "--heartbeat", "500ms", "--expect", "10x10000", "--seconds", "1", files=100
        )
    assert (figures["failed_connections"], figures["sent"], figures["deliveries"]) == (0, 120, 1_200)
    # 36 files are left for connections in each thread.
    assert figures["generator_threads"] >= 2


def test_storm_ends_when_all_connections_are_open_again() -> None:
    with server(numbered) as url:
        figures = load(url, "--connections", "20", "--seconds", "1.5", "--storm", "0.5")
    assert figures["storm_s"] is not None and figures["ended_early"] == 0


def test_load_over_tls_trusts_the_given_authority(tmp_path: Path) -> None:
    with serving(tmp_path, "--tls", "--rate", "1000", "--frame-trades", "10", "--per-client") as feed:
        url, authority = feed.url, feed.ready["ca"]
        figures = load(url, "--connections", "3", "--seconds", "1", "--ca", authority)
        anybody = load(url, "--connections", "2", "--seconds", "1", "--insecure", "--storm", "0.3")
        untrusted = run(url, "--seconds", "1")
        plain = run(url.replace("wss://", "ws://"), "--seconds", "1")
    # A feed of trades has no "seq": deliveries are counted, and nothing else is claimed.
    assert figures["tls"] and figures["deliveries"] > 100 and figures["unnumbered"] > 0 and figures["lost"] == 0
    assert anybody["storm_s"] is not None and anybody["failed_connections"] == 0
    assert untrusted.returncode == 1 and "not trusted" in untrusted.stderr and "--ca" in untrusted.stderr
    assert plain.returncode == 1 and len(plain.stderr.splitlines()) == 1, plain.stderr


def test_limit_lies_between_a_passing_and_a_failing_load() -> None:
    here: set[ServerConnection] = set()

    async def at_most_ten(connection: ServerConnection) -> None:
        # A client that has left is gone, although its task may not have noticed.
        here.difference_update([other for other in here if other.state is not State.OPEN])
        here.add(connection)
        if len(here) > 10:
            await connection.close(1013, "full")
        await numbered_without_holes(connection)

    async def numbered_without_holes(connection: ServerConnection) -> None:
        number = 0
        while True:
            number += 1
            await connection.send(json.dumps({"seq": number, "ts_ns": time.time_ns()}, separators=(",", ":")))
            await asyncio.sleep(0.02)

    with server(at_most_ten) as url:
        done = run(url, "--find-limit", "--connections", "4", "--seconds", "0.5", "--json")
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)
    assert (figures["limit"], figures["limit_of"], figures["limited_by"]) == (10, "connections", "ended_early")
    assert [step["tried"] for step in figures["steps"]] == [4, 8, 16, 12, 10, 11]
    assert "1013" not in figures["closes"] and figures["connections"] == 10


def test_an_interrupted_run_reports_its_figures() -> None:
    under_way = threading.Event()

    async def noticed(connection: ServerConnection) -> None:
        under_way.set()
        await numbered(connection)

    with server(noticed) as url:
        command = [BINARY, "load", url, "--connections", "2", "--seconds", "100", "--json"]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert under_way.wait(PATIENCE_S)
        time.sleep(0.5)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0 and json.loads(out)["seconds"] < 100
    assert json.loads(out)["interrupted"]


def test_failed_connections_are_reported_in_one_line_and_the_rest_is_measured() -> None:
    taken = 0

    async def half(connection: ServerConnection) -> None:
        await numbered(connection)

    def admit(_: ServerConnection, __: Any) -> Any:
        nonlocal taken
        taken += 1
        return None if taken <= 4 else _.respond(503, "full\n")

    with server(half, process_request=admit) as url:
        done = run(url, "--connections", "10", "--seconds", "0.5", "--json")
    figures = json.loads(done.stdout)
    assert done.returncode == 0 and figures["failed_connections"] == 6 and figures["deliveries"] > 0
    assert [line for line in done.stderr.splitlines() if "6 connections failed" in line and "503" in line]


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["http://127.0.0.1:1/"], "ws://"),
        (["127.0.0.1"], "ws://"),
        (["ws://127.0.0.1:1/", "--connections", "0"], "--connections"),
        (["ws://127.0.0.1:1/", "--connections", "x"], "--connections"),
        (["ws://127.0.0.1:1/", "--seconds", "0"], "seconds"),
        (["ws://127.0.0.1:1/", "--arrivals", "fast"], "1000/s"),
        (["ws://127.0.0.1:1/", "--heartbeat", "1s"], "--expect"),
        (["ws://127.0.0.1:1/", "--heartbeat", "1s", "--expect", "10"], "10x10000"),
        (["ws://127.0.0.1:1/", "--echo", "5", "--seed-002"], "--seed-002"),
        (["ws://127.0.0.1:1/", "--slow", "60", "--stopped", "60"], "exceed 100 %"),
        (["ws://127.0.0.1:1/", "--storm", "20"], "--seconds"),
        (["ws://127.0.0.1:1/", "--subprotocol", "a b"], "letters"),
        (["wss://127.0.0.1:1/", "--ca", "no-such-file"], "no-such-file"),
        (["ws://127.0.0.1:1/", "--ca", "no-such-file"], "wss://"),
        (["ws://127.0.0.1:1/", "--insecure"], "wss://"),
        (["wss://127.0.0.1:1/", "--ca", "x", "--insecure"], "--insecure"),
    ],
)
def test_impossible_arguments_get_one_clear_line(args: list[str], said: str) -> None:
    done = run(*args)
    assert done.returncode == 2 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1 and said in done.stderr, done.stderr


def test_load_ends_at_once_without_a_server() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        done = run(f"ws://127.0.0.1:{free.getsockname()[1]}/", "--connections", "1000", "--json")
    assert done.returncode == 1 and done.stdout == ""
    assert len(done.stderr.splitlines()) == 1 and "refused" in done.stderr and "server runs" in done.stderr
