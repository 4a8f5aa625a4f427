"""Figures of this machine, each with its workload beside it: `make bench`, or with --json for one object.

Latencies are measured by one Python client on loopback, so its own cost is in them; the raw TCP ping-pong of the same
client and the same number of bytes is printed beside them as the floor.
"""

import argparse
import json
import multiprocessing
import os
import socket
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from rpc import Http, Ws, now_ms
from venue import DEMO_A, DEMO_B, Venue, run_pitwire

ORDERS = 3000
PIPELINE = 64


def quantiles_us(samples_ns: list[int]) -> dict[str, float]:
    ordered = sorted(samples_ns)
    pick = {"p50_us": 0.5, "p99_us": 0.99, "max_us": 1.0}
    return {name: round(ordered[min(int(len(ordered) * q), len(ordered) - 1)] / 1000, 1) for name, q in pick.items()}


def matching_core(directory: Path, count: int) -> dict[str, Any]:
    """Medians of five runs over one generated file: see `pitwire engine-bench --help` for what is in it."""
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


def echo(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while data := connection.recv(65536):
        connection.sendall(data)


def tcp_ping_pong(size: int) -> dict[str, float]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = multiprocessing.Process(target=echo, args=(listener,), daemon=True)
        server.start()
        with socket.create_connection(listener.getsockname()) as client:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            samples = []
            for _ in range(ORDERS):
                started = time.perf_counter_ns()
                client.sendall(b"x" * size)
                received = 0
                while received < size:
                    received += len(client.recv(65536))
                samples.append(time.perf_counter_ns() - started)
        server.join(5)
    return quantiles_us(samples)


def buy(number: int) -> dict[str, Any]:
    return {"instrument_name": "NPN_ZAR", "amount": 1, "type": "limit", "price": 1000 + number % 500}


def order_to_acknowledgement(directory: Path, durability: str) -> dict[str, Any]:
    with (
        Venue(directory / durability, ["--no-flow", "--durability", durability]) as venue,
        Ws(venue.ws_url) as ws,
    ):
        ws.login(DEMO_A)
        samples = []
        for number in range(ORDERS):
            started = time.perf_counter_ns()
            ws.result("private/buy", buy(number))
            samples.append(time.perf_counter_ns() - started)
    return quantiles_us(samples)


def enter_for(url: str, account: Any, seconds: float, counted: Any) -> None:
    """Keeps a window of orders on the way; every order is cancelled again, so that money lasts."""
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
    """Commands acknowledged, hence on disk, a second; then kill -9 and the time until it serves again."""
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
        figures["tcp_ping_pong_200_bytes"] = tcp_ping_pong(200)
        figures["order_to_ack_on_disk"] = order_to_acknowledgement(directory, "disk")
        figures["order_to_ack_in_memory"] = order_to_acknowledgement(directory, "memory")
        figures["journaled"], figures["recovery_after_kill_9"] = journaled_per_second(directory, options.seconds)
        figures["idle_without_flow"] = idle(directory, flow=False, seconds=options.seconds)
        figures["demo_with_flow"] = idle(directory, flow=True, seconds=options.seconds)
    if options.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        text = ", ".join(f"{key} {amount}" for key, amount in value.items()) if isinstance(value, dict) else value
        print(f"{name:26} {text}")


if __name__ == "__main__":
    main()
