"""Prints the figures of the feed splitter beside their ceilings: part of `make bench`, or alone
with --json. Every case is a `pitwire tape serve` and one reader of it over loopback: the null
reader (receives and drops), the null splitter (scans, passes nothing on), and `pitwire split` with
its verifying counters. The cases alternate round by round, so that other load on the machine meets
all of them; a figure is the median of its rounds. CPU is that of the splitter without its counters,
whose CPU stands beside it. Every rate is shown with its share of the null reader's and the null
splitter's rate, and with the ceiling of the generator in that run. A case whose generator was busy
nearly all of the time is marked, because its reader could take more."""

import argparse
import json
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from venue import BINARY

READ_BYTES = 256 * 1024
START_PATIENCE_S = 30.0
RUN_PATIENCE_S = 300.0
# Above this share of a core the serving thread is the bottleneck.
BUSY_SHARE = 0.95
FIGURES = (
    "trades_per_s",
    "cpu_ns_per_trade",
    "counters_cpu_ns_per_trade",
    "lag_p50_us",
    "lag_p99_us",
    "lag_max_us",
)
NULLS = {"null reader": "share_of_null_reader", "null splitter": "share_of_null_splitter"}


@dataclass(frozen=True)
class Case:
    name: str
    # None: the null reader.
    transport: str | None
    workers: int = 8
    tape: tuple[str, ...] = ("--frame-trades", "128")
    share_of_trades: float = 1.0
    options: tuple[str, ...] = ()
    # Demand of issue 5: least trades per second, most ns of CPU.
    least_per_s: float | None = None
    most_cpu_ns: float | None = None
    # Alternatively a minimum share of the rate of another case.
    share_of: tuple[str, float] | None = None
    most_lag_p99_us: float | None = None


def framed(name: str, transport: str, trades: int, of: str, share: float) -> Case:
    tape = ("--frame-trades", str(trades))
    return Case(name, transport, tape=tape, share_of_trades=0.5, share_of=(of, share))


CASES = [
    Case("null reader", None),
    Case("null splitter", "null"),
    Case("pipe", "pipe", least_per_s=10e6, most_cpu_ns=32),
    Case("pipe, pages copied", "pipe", options=("--pipe-pages", "copy")),
    Case("shm", "shm", least_per_s=18e6, most_cpu_ns=20),
    Case("shm-ref", "shm-ref", least_per_s=18e6, most_cpu_ns=20),
    framed("pipe, 3 a frame", "pipe", 3, "pipe", 0.5),
    framed("shm, 3 a frame", "shm", 3, "shm", 0.5),
    framed("shm-ref, 3 a frame", "shm-ref", 3, "shm-ref", 0.5),
    framed("pipe, 15 a frame", "pipe", 15, "pipe", 0.7),
    framed("shm, 15 a frame", "shm", 15, "shm", 0.7),
    framed("shm-ref, 15 a frame", "shm-ref", 15, "shm-ref", 0.7),
    Case("pipe, 64 workers", "pipe", workers=64, share_of=("pipe", 0.6)),
    Case("shm, 64 workers", "shm", workers=64, share_of=("shm", 0.6)),
    Case("shm-ref, 64 workers", "shm-ref", workers=64, share_of=("shm-ref", 0.6)),
    Case("shm, wss", "shm", tape=("--frame-trades", "128", "--tls"), least_per_s=8e6, most_cpu_ns=45),
    Case(
        "shm, open-close",
        "shm",
        tape=("--frame-trades", "cutoff:1000", "--rate", "open-close"),
        share_of_trades=0.5,
        most_lag_p99_us=1000,
    ),
]


@dataclass
class Tape:
    """Runs `pitwire tape serve` until it is stopped."""

    directory: Path
    options: tuple[str, ...]
    ready: dict[str, Any] = field(default_factory=dict)

    def __enter__(self) -> "Tape":
        ready_file = self.directory / "tape.json"
        command = [BINARY, "tape", "serve", "--listen", "127.0.0.1:0", "--ready-file", ready_file, "--json"]
        self.process = subprocess.Popen(
            [*command, *self.options], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        deadline = time.monotonic() + START_PATIENCE_S
        while not ready_file.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise RuntimeError(f"pitwire tape serve did not start: {self.process.communicate()[1]}")
            time.sleep(0.01)
        self.ready = json.loads(ready_file.read_text())
        return self

    def figures(self) -> dict[str, Any]:
        self.process.send_signal(signal.SIGTERM)
        out, errors = self.process.communicate(timeout=START_PATIENCE_S)
        try:
            return json.loads(out)
        except json.JSONDecodeError:
            raise RuntimeError(f"pitwire tape serve ended with {self.process.returncode}: {errors}") from None

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()


def connected(url: str) -> socket.socket:
    """Opens a WebSocket. Feed bytes that came with the handshake are dropped like all others."""
    address = urlsplit(url)
    assert address.hostname and address.port
    raw = socket.socket()
    # Set before connecting, because it decides the window scale. `pitwire split` uses the same
    # size.
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    raw.connect((address.hostname, address.port))
    request = (
        f"GET / HTTP/1.1\r\nHost: {address.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
    )
    raw.sendall(request.encode())
    head = b""
    while b"\r\n\r\n" not in head:
        part = raw.recv(4096)
        if not part:
            raise RuntimeError(f"the feed ended within the handshake: {head!r}")
        head += part
    return raw


def null_reader(url: str, trades: int, bytes_per_trade: float) -> dict[str, Any]:
    """Receives the bytes of a number of trades, a quarter of a mebibyte per call, so that Python
    costs little."""
    wanted, buffer = int(trades * bytes_per_trade), bytearray(READ_BYTES)
    with connected(url) as raw:
        received, start, cpu_before_ns = 0, time.monotonic(), time.thread_time_ns()
        while received < wanted:
            taken = raw.recv_into(buffer)
            if not taken:
                raise RuntimeError("the feed ended early")
            received += taken
        seconds, cpu_ns = time.monotonic() - start, time.thread_time_ns() - cpu_before_ns
    count = received / bytes_per_trade
    return {"trades_per_s": count / seconds, "cpu_ns_per_trade": cpu_ns / count}


def split(case: Case, tape: Tape, trades: int) -> dict[str, Any]:
    trusting = ["--ca", tape.ready["ca"]] if "ca" in tape.ready else []
    command = [BINARY, "split", tape.ready["url"], "--workers", str(case.workers), "--transport", str(case.transport)]
    command += ["--on-slow", "block", "--no-reconnect", "--limit-trades", str(trades), "--json", *trusting]
    command += case.options
    ended = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, timeout=RUN_PATIENCE_S, check=False
    )
    if ended.returncode != 0:
        raise RuntimeError(f"{case.name}: pitwire split ended with {ended.returncode}")
    figures = json.loads(ended.stdout)
    counted = figures.get("counted")
    if counted:
        wrong = {name: counted[name] for name in ("lost", "duplicated", "reordered", "faults") if counted[name]}
        if wrong or counted["trades"] != figures["trades"]:
            raise RuntimeError(f"{case.name}: the workers' counters disagree: {wrong}, {counted['trades']} trades")
    return figures


def run(case: Case, directory: Path, trades: int, bytes_per_trade: float) -> dict[str, Any]:
    trades = int(trades * case.share_of_trades)
    with Tape(directory, case.tape) as tape:
        if case.transport is None:
            figures = null_reader(tape.ready["url"], trades, bytes_per_trade)
        else:
            figures = split(case, tape, trades)
        served = tape.figures()
    found = {name: figures[name] for name in FIGURES if name in figures}
    found["generator_ceiling_per_s"] = served["ceiling_trades_per_s"]
    found["generator_busy"] = min(1.0, served["cpu_ns_per_trade"] * served["trades_per_s"] / 1e9)
    return found


def bytes_of_a_trade(directory: Path) -> float:
    """Bytes on the wire with framing, 128 trades a frame."""
    with Tape(directory, ("--frame-trades", "128", "--trades", "100000")) as tape, connected(tape.ready["url"]) as raw:
        buffer = bytearray(READ_BYTES)
        while raw.recv_into(buffer):
            pass
        served = tape.figures()
    return served["bytes"] / served["trades"]


def judged(case: Case, figures: dict[str, Any], all_figures: dict[str, dict[str, Any]]) -> list[str]:
    """Lists the figures that miss their demand."""
    short = []
    if case.least_per_s and figures["trades_per_s"] < case.least_per_s:
        short.append(f"below {case.least_per_s / 1e6:g} M/s")
    if case.most_cpu_ns and figures["cpu_ns_per_trade"] > case.most_cpu_ns:
        short.append(f"above {case.most_cpu_ns:g} ns")
    if case.most_lag_p99_us and figures["lag_p99_us"] > case.most_lag_p99_us:
        short.append(f"p99 above {case.most_lag_p99_us:g} us")
    if case.share_of:
        other, share = case.share_of
        if other in all_figures and figures["trades_per_s"] < share * all_figures[other]["trades_per_s"]:
            short.append(f"below {share:.0%} of {other}")
    return short


def medians(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: statistics.median(found[name] for found in rounds) for name in rounds[0]}


def measure(rounds: int, trades: int, only: str) -> dict[str, Any]:
    # The null cases always run, because the figures are ratios to them.
    cases = [case for case in CASES if case.name in NULLS or only in case.name]
    found: dict[str, list[dict[str, Any]]] = {case.name: [] for case in cases}
    with tempfile.TemporaryDirectory(prefix="pitwire-bench-feed-") as name:
        directory = Path(name)
        bytes_per_trade = bytes_of_a_trade(directory)
        for _round in range(rounds):
            for case in cases:
                found[case.name].append(run(case, directory, trades, bytes_per_trade))
    figures = {name: medians(runs) for name, runs in found.items()}
    for case in cases:
        of_case = figures[case.name]
        of_case["is_generator_bound"] = of_case["generator_busy"] >= BUSY_SHARE
        of_case["short_of_demand"] = judged(case, of_case, figures)
        for null, share in NULLS.items():
            if null in figures:
                of_case[share] = round(of_case["trades_per_s"] / figures[null]["trades_per_s"], 3)
    for name in ("shm", "shm-ref"):
        if figures.get(name, {}).get("share_of_null_reader", 1.0) < 0.7:
            figures[name]["short_of_demand"].append("below 70% of null reader")
    return {"bytes_per_trade": round(bytes_per_trade, 1), "rounds": rounds, "cores": os.cpu_count(), "cases": figures}


def table(report: dict[str, Any]) -> str:
    lines = [
        f"feed splitter: {report['bytes_per_trade']} bytes a trade, {report['cores']} cores,"
        f" medians of {report['rounds']} rounds",
        f"{'':<20} {'M trades/s':>10} {'of reader':>9} {'of null':>8} {'ns CPU':>7} {'counters':>8} {'lag p99 us':>10}"
        f" {'max us':>7} {'ceiling':>8}  generator",
    ]
    for name, of_case in report["cases"].items():
        lag = [f"{of_case[key]:.0f}" if key in of_case else "" for key in ("lag_p99_us", "lag_max_us")]
        shares = [f"{of_case[key]:.2f}" if key in of_case else "" for key in NULLS.values()]
        counters = f"{of_case['counters_cpu_ns_per_trade']:.1f}" if "counters_cpu_ns_per_trade" in of_case else ""
        bound = "bound by it" if of_case["is_generator_bound"] else f"{of_case['generator_busy']:.0%} busy"
        short = "; SHORT: " + ", ".join(of_case["short_of_demand"]) if of_case["short_of_demand"] else ""
        lines.append(
            f"{name:<20} {of_case['trades_per_s'] / 1e6:>10.2f} {shares[0]:>9} {shares[1]:>8}"
            f" {of_case['cpu_ns_per_trade']:>7.1f} {counters:>8} {lag[0]:>10} {lag[1]:>7}"
            f" {of_case['generator_ceiling_per_s'] / 1e6:>8.1f}  {bound}{short}"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--trades", type=int, default=20_000_000, help="of a whole case; small frames take half")
    parser.add_argument("--only", default="", help="cases whose name contains this, and the nulls")
    options = parser.parse_args()
    report = measure(options.rounds, options.trades, options.only)
    print(json.dumps(report) if options.json else table(report))


if __name__ == "__main__":
    main()
