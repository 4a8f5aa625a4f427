"""Prints the figures of this machine with their workloads: `make bench`, or one object with --json.
`pitwire order-bench` times the orders; it costs little itself, see its --help. One order at a time
is compared with a blocking TCP ping-pong of the same sizes on the same cores, in pairs that follow
one another; every figure is the median of its pairs. Loads are timed from when each order was due.
Server latency comes from the venue's /metrics."""

import argparse
import json
import multiprocessing
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from rpc import Http, Ws, now_ms
from venue import DEMO_A, DEMO_B, Venue, run_pitwire

PIPELINE = 64
ROUNDS = 3


def matching_core(directory: Path, count: int) -> dict[str, Any]:
    """Medians of five runs over one generated file; `pitwire engine-bench --help` describes its
    content."""
    path = directory / "ops.bin"
    figures = {}
    for mode in ("book", "venue"):
        runs = []
        for _run in range(5):
            generate = () if path.exists() else ("--generate", str(count), "--seed", "1")
            ended = run_pitwire("engine-bench", "--ops", path, "--mode", mode, "--json", *generate, timeout_s=600)
            assert ended.returncode == 0, ended.stderr
            runs.append(json.loads(ended.stdout))
        figures[f"engine_{mode}"] = sorted(runs, key=lambda figure: figure["ops_per_s"])[len(runs) // 2]
    return figures


PEERS = Path(__file__).resolve().parent.parent / "bench" / "peers" / "Cargo.toml"
PEER_LINE = re.compile(r"^(\S+).*?([\d.]+) M ops/s\s+ours is\s+([\d.]+) x", re.MULTILINE)


def beside_other_books(directory: Path) -> dict[str, Any]:
    """Runs the same operations through our book and others, in turn, each with the flow that it
    supports."""
    cargo = ["cargo", "run", "--quiet", "--release", "--locked", "--manifest-path", str(PEERS), "--"]
    figures = {}
    for flow, count, options in (
        ("mixed_flow_1000000", 1_000_000, ["--without", "orderbook-rs"]),
        ("mixed_flow_100000", 100_000, []),
        ("enter_and_cancel_1000000", 1_000_000, ["--apart", "--without", "orderbook-rs"]),
    ):
        path = directory / f"peers-{count}.bin"
        if not path.exists():
            ended = run_pitwire("engine-bench", "--generate", str(count), "--ops", path, "--json", timeout_s=600)
            assert ended.returncode == 0, ended.stderr
        command = [*cargo, "--ops", str(path), "--rounds", str(ROUNDS), *options]
        run = subprocess.run(command, capture_output=True, text=True, timeout=1800, check=False)
        assert run.returncode == 0, run.stderr
        figures[flow] = {
            name: {"million_per_s": float(rate), "ours_is_times": float(times)}
            for name, rate, times in PEER_LINE.findall(run.stdout)
        }
        assert "ours" in figures[flow], run.stdout
    return figures


def order_bench(venue: Venue, mode: str, *more: str | Path) -> dict[str, Any]:
    ended = run_pitwire("order-bench", "--mode", mode, "--venue", venue.address, "--json", *more, timeout_s=900)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def quiet_venue(directory: Path, name: str, durability: str) -> Venue:
    return Venue(directory / name, ["--no-flow", "--durability", durability])


def residence_us(venue: Venue) -> dict[str, float]:
    """Server latency of all requests since the start."""
    text = Http(venue.address).get("/metrics").body.decode()
    row = re.compile(r'^pitwire_request_residence_seconds\{stage="whole",quantile="([\d.]+)"\} (\S+)', re.MULTILINE)
    return {f"p{float(quantile) * 100:g}_us": round(float(value) * 1e6, 1) for quantile, value in row.findall(text)}


def medians(runs: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def one_at_a_time(directory: Path, cores: tuple[int, int] | None) -> dict[str, Any]:
    """Times an order to its acknowledgement, alternating rounds in memory and on disk, each beside
    a ping-pong."""
    label = f"{cores[0]}-{cores[1]}" if cores else "any"
    placed = ["--cores", f"{cores[0]},{cores[1]}"] if cores else []
    runs: dict[str, list[dict[str, Any]]] = {"memory": [], "disk": []}
    with (
        quiet_venue(directory, f"memory-{label}", "memory") as memory,
        quiet_venue(directory, f"disk-{label}", "disk") as disk,
    ):
        venues = {"memory": memory, "disk": disk}
        for venue in venues.values():
            assert venue.process is not None
            os.sched_setaffinity(venue.process.pid, {cores[1]} if cores else range(os.cpu_count() or 1))
        for _round in range(ROUNDS):
            for name, venue in venues.items():
                sync = ["--sync", directory] if name == "disk" else []
                runs[name].append(order_bench(venue, "pairs", *placed, *sync))
        figures = {name: medians(found) for name, found in runs.items()}
        figures["residence_in_memory"] = residence_us(memory)
        figures["residence_on_disk"] = residence_us(disk)
    on_disk = figures["disk"]
    least_us = figures["memory"]["order_p50_us"] + on_disk["sync_p50_us"]
    on_disk["p50_over_memory_plus_sync"] = round(on_disk["order_p50_us"] / least_us, 3)
    return figures


def orders(directory: Path) -> dict[str, Any]:
    figures = {"orders_where_the_scheduler_puts_them": one_at_a_time(directory, None)}
    if (os.cpu_count() or 1) > 1:
        figures["orders_from_another_core"] = one_at_a_time(directory, (0, 1))
    for rate in (10_000, 50_000):
        with quiet_venue(directory, f"open-{rate}", "memory") as venue:
            runs = [order_bench(venue, "open", "--rate", str(rate)) for _run in range(ROUNDS)]
            figures[f"open_loop_{rate}_per_s"] = medians(runs)
    with quiet_venue(directory, "overload", "memory") as venue:
        figures["overload"] = order_bench(venue, "overload", "--rate", "50000")
    with quiet_venue(directory, "flood", "memory") as venue, quiet_venue(directory, "other", "memory") as other:
        figures["flood"] = order_bench(venue, "flood", "--elsewhere", other.address)
    return figures


def buy(number: int) -> dict[str, Any]:
    return {"instrument_name": "NPN_ZAR", "amount": 1, "type": "limit", "price": 1000 + number % 500}


def enter_for(url: str, account: Any, seconds: float, counted: Any) -> None:
    """Keeps a window of orders in flight. Every order is cancelled again, so that funds last."""
    with Ws(url) as ws:
        ws.login(account)
        deadline, answered = time.monotonic() + seconds, 0
        for number in range(PIPELINE):
            ws.post("private/buy", buy(number))
        while time.monotonic() < deadline:
            answer = ws.arrive()["result"]
            answered += 1
            if "order" in answer:
                ws.post("private/cancel", {"order_id": answer["order"]["order_id"]})
            else:
                ws.post("private/buy", buy(answered))
    counted.put(answered)


def journaled_per_second(directory: Path, seconds: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """Commands acknowledged per second, hence on disk; then kill -9 and the time until the venue
    serves again."""
    with Venue(directory / "load", ["--no-flow"]) as venue:
        counted: multiprocessing.Queue[int] = multiprocessing.Queue()
        clients = [
            multiprocessing.Process(target=enter_for, args=(venue.ws_url, account, seconds, counted))
            for account in (DEMO_A, DEMO_B)
        ]
        for client in clients:
            client.start()
        total = sum(counted.get() for _ in clients)
        for client in clients:
            client.join()
        size = sum(file.stat().st_size for file in venue.data.rglob("*") if file.is_file())
        venue.kill()
        started = time.perf_counter()
        venue.start()
        recovery = {"commands": total, "data_bytes": size, "seconds": round(time.perf_counter() - started, 3)}
    return {"clients": 2, "commands_per_s": round(total / seconds)}, recovery


def idle(directory: Path, flow: bool, seconds: float) -> dict[str, Any]:
    with Venue(directory / f"idle-{flow}", [] if flow else ["--no-flow"]) as venue:
        assert venue.process is not None
        time.sleep(2)

        def cpu_s() -> float:
            fields = Path(f"/proc/{venue.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
            return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

        before = cpu_s()
        time.sleep(seconds)
        percent = 100 * (cpu_s() - before) / seconds
        status = Path(f"/proc/{venue.process.pid}/status").read_text()
        resident = next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS"))
        assert Http(venue.address).get("/healthz").status == 200
    return {"cpu_percent": round(percent, 2), "resident_mb": round(resident / 1024, 1)}


def cold_start(directory: Path) -> dict[str, Any]:
    """Time from exec to the ready file, in an empty directory and in one with some trading of the
    demo."""

    def started_s(name: str) -> float:
        venue = Venue(directory / name, [])
        started = time.perf_counter()
        venue.start()
        took = time.perf_counter() - started
        assert venue.stop() == 0
        return took

    empty = [started_s(f"cold-{run}") for run in range(3)]
    with Venue(directory / "warm", ["--speed", "100"]):
        time.sleep(5)
    again = [started_s("warm") for _run in range(3)]
    return {"empty_s": round(statistics.median(empty), 3), "with_data_s": round(statistics.median(again), 3)}


def show(name: str, value: Any, indent: str = "") -> None:
    """Prints one line for a single figure, or a line for each part."""
    if not isinstance(value, dict):
        print(f"{indent}{name:{34 - len(indent)}} {value}")
        return
    plain = ", ".join(f"{key} {amount}" for key, amount in value.items() if not isinstance(amount, dict))
    print(f"{indent}{name:{34 - len(indent)}} {plain}")
    for key, amount in value.items():
        if isinstance(amount, dict):
            show(key, amount, indent + "  ")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--ops", type=int, default=5_000_000, help="operations for the matching core")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of each timed load")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pitwire-bench-") as name:
        directory = Path(name)
        figures: dict[str, Any] = {"at_ms": now_ms(), "cores": os.cpu_count()}
        figures |= matching_core(directory, options.ops)
        figures["beside_other_books"] = beside_other_books(directory)
        figures |= orders(directory)
        figures["journaled"], figures["recovery_after_kill_9"] = journaled_per_second(directory, options.seconds)
        figures["cold_start"] = cold_start(directory)
        figures["idle_without_flow"] = idle(directory, flow=False, seconds=options.seconds)
        figures["demo_with_flow"] = idle(directory, flow=True, seconds=options.seconds)
    if options.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        show(name, value)


if __name__ == "__main__":
    main()
