"""Measures the tables of docs/trading-bench.md: `make bench-trading`, about 6 minutes.

Each run of `pitwire bench` leaves its JSON and its histogram files (.hgrm) in --out. A run that
fails or exceeds its time limit says so in its JSON, and the next one begins.
scripts/trading_figures.py draws the plots and prints the tables."""

import argparse
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from order_gateways import Gateway, free_port, haproxy_config
from rpc import Http, until
from venue import BINARY, DEMO_A, DEMO_B, Venue

# Factor of --quick for the number of operations.
QUICK = 0.1
# Time of a run apart from its operations: the venue starts, and connections open.
FIXED_S = 1.5
# A run may take this many times its expected time, and at least this long.
PATIENCE, LIMIT_MIN_S = 3.0, 60.0
# Time between two lines of progress.
REPORT_EVERY_S = 15.0
# Limits of a gateway that no run reaches.
UNLIMITED = ("--per-second", "1000000", "--burst", "1000000")
QUIET = ["--no-flow", "--durability", "memory"]
# The case that compares an array of subscriptions with a hash map.
SUBSCRIPTIONS = "subscription store"
TOP = Path(__file__).resolve().parent.parent


class RunFailed(Exception):
    """A run of `pitwire bench` failed or exceeded its time limit."""


@dataclass(frozen=True)
class Loop:
    """A run of `pitwire bench loop`. `route` is the way of the orders to the venue. `seconds` is an
    estimate for two cores."""

    name: str
    count: int
    seconds: float
    options: tuple[str, ...] = ()
    trades: bool = False
    updates: int = 1000
    route: str = "direct"
    idle: str = "spin"


@dataclass(frozen=True)
class Hawkes:
    """Runs of `pitwire bench hawkes`, one for each number of clients. `orders` belong to each
    client, or to all on one stock. `seconds` is an estimate of all runs for two cores."""

    mode: str
    scenario: str
    orders: int
    seconds: float
    options: tuple[str, ...] = ()
    suffix: str = ""

    @property
    def name(self) -> str:
        return f"{self.mode}-{self.scenario}{self.suffix}"

    @property
    def clients(self) -> tuple[int, ...]:
        return {"pairs": (1, 2, 4, 6, 8, 10), "million": (1,), "one-stock": (1, 2, 4, 8, 16, 32, 64)}[self.scenario]


BUSY = ("--threads", "busy-loop")
SPIN = ("--threads", "spin-loop")
FOUR = ("--connections", "4", "--threads")
POOL = ("pool", "--workers", "2")


def at(rate: int) -> tuple[str, ...]:
    return ("--rate", str(rate))


# A percentile needs 100 values above it: p99 needs 10,000 values, and p99.9 needs 100,000. A client
# that never sleeps and a venue that never sleeps leave no core to the second account of the
# trading loop, so that each of its offers waits for the scheduler.
LOOPS = [
    Loop("closed, busy loop", 10_000, 90, BUSY, trades=True, updates=400_000),
    Loop("closed, event loop", 100_000, 90, trades=True, updates=400_000),
    Loop("closed, spin loop", 10_000, 15, SPIN, trades=True),
    Loop("closed, per-connection", 10_000, 15, ("--threads", "per-connection"), trades=True),
    Loop("closed, pool", 10_000, 15, ("--threads", *POOL), trades=True),
    Loop("open 5,000/s, busy loop", 10_000, 90, (*at(5000), *BUSY), trades=True),
    Loop("open 5,000/s, event loop", 20_000, 20, at(5000), trades=True),
    *(
        Loop(f"4 connections, {model[0]}, {rate:,}/s", rate * 2, 12, (*at(rate), *FOUR, *model))
        for rate in (5000, 20_000)
        for model in (("per-connection",), POOL, ("event-loop",))
    ),
    *(Loop(f"1 connection, event-loop, {rate:,}/s", rate * 2, 10, at(rate)) for rate in (5000, 20_000)),
    *(Loop(f"route: {route}", 20_000, 15, route=route) for route in ("direct", "gateway", "balancer")),
]
# A pipelined order that is not answered within 10 s fails its run, so the number of orders bounds
# the backlog at a rate above the capacity.
HAWKES = [
    Hawkes("paper", "pairs", 10_000, 60),
    Hawkes("paper", "pairs", 10_000, 90, BUSY, suffix=", busy loop"),
    Hawkes("paper", "pairs", 10_000, 60, SPIN, suffix=", spin loop"),
    Hawkes("paper", "million", 1_000_000, 180),
    Hawkes("paper", "one-stock", 30_000, 80),
    Hawkes("pipelined", "pairs", 20_000, 40, at(50_000)),
    Hawkes("pipelined", "pairs", 5_000, 20, at(10_000), suffix=", 10,000/s"),
    Hawkes("pipelined", "million", 200_000, 20, at(50_000)),
    # The rate of a run is at most that of its due times, so this one decides the target of 50,000.
    Hawkes("pipelined", "million", 200_000, 20, at(60_000), suffix=", 60,000/s"),
    Hawkes("pipelined", "one-stock", 10_000, 40, at(50_000)),
    Hawkes("inprocess", "pairs", 110_000, 40),
    Hawkes("inprocess", "million", 1_000_000, 15),
    Hawkes("inprocess", "one-stock", 110_000, 15),
]


class Watch:
    """The expected end of one case, and lines of progress."""

    def __init__(self, case: Loop | Hawkes, scale: float, expected_later_s: float) -> None:
        self.name, self.begun = case.name, time.monotonic()
        self.expected_s = expected_seconds(case, scale)
        self.limit_s = max(LIMIT_MIN_S, PATIENCE * self.expected_s)
        self.later_s = expected_later_s

    @property
    def spent_s(self) -> float:
        return time.monotonic() - self.begun

    @property
    def left_s(self) -> float:
        """Time until the limit."""
        return self.limit_s - self.spent_s

    def report(self, what: str) -> None:
        row_s = max(0.0, self.expected_s - self.spent_s)
        all_min = (row_s + self.later_s) / 60
        print(f"{self.name}: {what}; about {row_s:.0f} s left, {all_min:.0f} min for all", flush=True)


def expected_seconds(case: Loop | Hawkes, scale: float) -> float:
    runs = len(case.clients) if isinstance(case, Hawkes) else 1
    return case.seconds * scale + FIXED_S * runs


def file_name(name: str) -> str:
    """The name of a run without spaces and punctuation."""
    return re.sub(r"[^a-z0-9]+", "-", name.replace(",000", "000"))


def bench(*arguments: str | Path, out: Path, watch: Watch) -> dict[str, Any]:
    """Runs `pitwire bench` as the first demo account, until the limit of its case."""
    environment = os.environ | {"PITWIRE_CLIENT_ID": DEMO_A.client_id, "PITWIRE_CLIENT_SECRET": DEMO_A.secret}
    command = [BINARY, "bench", *arguments, "--out", out, "--json"]
    # The venue and the TCP echo that the command starts are in its process group.
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )
    try:
        while True:
            try:
                output, errors = process.communicate(timeout=max(0.0, min(REPORT_EVERY_S, watch.left_s)))
                break
            except subprocess.TimeoutExpired:
                if watch.left_s <= 0:
                    raise RunFailed(f"ended at the limit of {watch.limit_s:.0f} s") from None
                watch.report(f"{watch.spent_s:.0f} s")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    if process.returncode != 0:
        raise RunFailed(f"exit code {process.returncode}: {errors.strip()}")
    return json.loads(output)


@contextmanager
def route(kind: str, venue: Venue, directory: Path) -> Iterator[str]:
    """The URL of a venue: directly, through a gateway, or through HAProxy and two gateways."""
    if kind == "direct":
        yield venue.ws_url
        return
    with ExitStack() as stack:
        count = 1 if kind == "gateway" else 2
        gateways = [stack.enter_context(Gateway(directory, venue.ws_url, *UNLIMITED)) for _ in range(count)]
        if kind == "gateway":
            yield gateways[0].ws_url
            return
        port, config = free_port(), directory / "haproxy.cfg"
        config.write_text(haproxy_config(port, gateways[0].address, gateways[1].address))
        haproxy = shutil.which("haproxy") or "/usr/sbin/haproxy"
        balancer = subprocess.Popen([haproxy, "-db", "-f", config], stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
        stack.callback(balancer.wait)
        stack.callback(balancer.kill)
        until(lambda: is_healthy(port), "the balancer finds a gateway")
        yield f"ws://127.0.0.1:{port}/ws/api/v2"


def is_healthy(port: int) -> bool:
    try:
        return Http(f"127.0.0.1:{port}").get("/healthz").status == 200
    except OSError:
        return False


def run_loop(case: Loop, out: Path, scale: float, watch: Watch) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="pitwire-bench-trading-") as name:
        directory = Path(name)
        maker = directory / "maker.toml"
        maker.write_text(f'client_id = "{DEMO_B.client_id}"\nclient_secret = "{DEMO_B.secret}"\n')
        maker.chmod(0o600)
        count, updates = (str(max(100, round(number * scale))) for number in (case.count, case.updates))
        options = [*case.options, "--count", count, "--updates", updates]
        if case.trades:
            options += ["--maker-credentials", str(maker)]
        with (
            Venue(directory / "data", [*QUIET, "--idle", case.idle]) as venue,
            route(case.route, venue, directory) as url,
        ):
            return bench("loop", url, *options, out=out, watch=watch)


def run_hawkes(case: Hawkes, out: Path, scale: float, watch: Watch) -> dict[str, Any]:
    """Runs each number of clients, and returns one report with the rows of all that succeeded."""
    orders = max(100, round(case.orders * scale))
    found: dict[str, Any] = {"rows": []}
    failed = []
    for clients in case.clients:
        options = ["--mode", case.mode, "--scenario", case.scenario, "--clients", str(clients)]
        options += ["--orders", str(orders), *case.options]
        try:
            with tempfile.TemporaryDirectory(prefix="pitwire-bench-trading-") as name:
                place = out / f"{clients}-clients"
                part = bench("hawkes", *options, "--data", Path(name) / "data", out=place, watch=watch)
        except RunFailed as failure:
            watch.report(f"row of {clients}: {failure}")
            failed.append(f"row of {clients}: {failure}")
            continue
        found = part | {"rows": [*found["rows"], *part["rows"]]}
    return found | ({"failed": "; ".join(failed)} if failed else {})


def run_subscriptions(out: Path) -> dict[str, Any]:
    """Builds and runs the example, which uses the standard library only."""
    source = TOP / "crates/trading-benchmarks/examples/subscription_store.rs"
    program = out / "subscription-store"
    try:
        subprocess.run(["rustc", "--edition", "2024", "-O", "-o", program, source], check=True, timeout=120)
        text = subprocess.run([program], capture_output=True, text=True, check=True, timeout=60).stdout
    except (OSError, subprocess.SubprocessError) as error:
        raise RunFailed(str(error)) from None
    rows = [[int(cell) for cell in line.split()] for line in text.splitlines()[1:]]
    return {"rows": [{"channels": count, "array_ns": array, "map_ns": map_} for count, array, map_ in rows]}


def describe_machine() -> dict[str, str]:
    models = re.findall(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    commit = subprocess.run(
        ["git", "-C", TOP, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False
    )
    return {
        "cpu": models[0] if models else platform.machine(),
        "cores": str(len(os.sched_getaffinity(0))),
        "kernel": platform.release().split("-")[0],
        "commit": commit.stdout.strip() or "unknown",
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def measure(out: Path, scale: float, only: list[str]) -> None:
    out.mkdir(parents=True, exist_ok=True)
    (out / "machine.json").write_text(json.dumps(describe_machine()))
    cases = [case for case in [*LOOPS, *HAWKES] if any(part in case.name for part in only)]
    failures = 0
    if any(part in SUBSCRIPTIONS for part in only):
        place = out / file_name(SUBSCRIPTIONS)
        place.mkdir(exist_ok=True)
        try:
            found = run_subscriptions(place)
        except RunFailed as failure:
            found = {"failed": str(failure)}
        (place / "report.json").write_text(json.dumps({"name": SUBSCRIPTIONS} | found))
        print(f"{SUBSCRIPTIONS}: {found.get('failed', 'done')}", flush=True)
    for number, case in enumerate(cases, start=1):
        later_s = sum(expected_seconds(later, scale) for later in cases[number:])
        watch = Watch(case, scale, later_s)
        watch.report(f"case {number} of {len(cases)}, limit {watch.limit_s:.0f} s")
        # Pages that earlier programs wrote would delay the syncs of the journal.
        os.sync()
        place = out / file_name(case.name)
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        try:
            if isinstance(case, Loop):
                found = run_loop(case, place, scale, watch)
            else:
                found = run_hawkes(case, place, scale, watch)
        except (RunFailed, AssertionError, OSError) as failure:
            found = {"failed": str(failure)}
        (place / "report.json").write_text(json.dumps({"name": case.name, "scale": scale} | found))
        failures += "failed" in found
        print(f"{case.name}: {found.get('failed', 'done')} after {watch.spent_s:.1f} s", flush=True)
    if failures:
        print(f"{failures} of {len(cases)} cases failed or have rows that failed", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("target/bench-trading"), help="directory of the results")
    parser.add_argument("--scale", type=float, default=1.0, help="factor for the number of operations")
    parser.add_argument("--quick", action="store_true", help=f"the same rows at --scale {QUICK}, about 1 minute")
    parser.add_argument("--only", nargs="+", default=[""], help="runs whose name contains one of these")
    options = parser.parse_args()
    measure(options.out, QUICK if options.quick else options.scale, options.only)


if __name__ == "__main__":
    main()
