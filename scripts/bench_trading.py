"""Measures the tables of docs/trading-bench.md: `make bench-trading`, about 10 minutes.

Each run of `pitwire bench` leaves its JSON and its histogram files (.hgrm) in --out.
scripts/trading_figures.py draws the plots and prints the tables."""

import argparse
import json
import os
import re
import shutil
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

from rpc import Http, until
from test_order_gateway import Gateway, free_port, haproxy_config
from venue import BINARY, DEMO_A, DEMO_B, Venue

TIMEOUT_S = 900
# Limits of a gateway that no run reaches.
UNLIMITED = ("--per-second", "1000000", "--burst", "1000000")
QUIET = ["--no-flow", "--durability", "memory"]


@dataclass(frozen=True)
class Loop:
    """A run of `pitwire bench loop`. `route` is the way of the orders to the venue."""

    name: str
    count: int
    options: tuple[str, ...] = ()
    trades: bool = False
    updates: int = 1000
    route: str = "direct"
    idle: str = "spin"


@dataclass(frozen=True)
class Hawkes:
    """A run of `pitwire bench hawkes`. `orders` belong to each client, or to all on one stock."""

    mode: str
    scenario: str
    orders: int
    options: tuple[str, ...] = ()
    suffix: str = ""

    @property
    def name(self) -> str:
        return f"{self.mode}-{self.scenario}{self.suffix}"


BUSY = ("--threads", "busy-loop")
FOUR = ("--connections", "4", "--threads")
POOL = ("pool", "--workers", "2")


def at(rate: int) -> tuple[str, ...]:
    return ("--rate", str(rate))


LOOPS = [
    Loop("closed, busy loop", 200_000, BUSY, trades=True, updates=400_000),
    Loop("closed, event loop", 100_000, trades=True, updates=400_000),
    Loop("closed, per-connection", 20_000, ("--threads", "per-connection"), trades=True),
    Loop("closed, pool", 20_000, ("--threads", *POOL), trades=True),
    Loop("open 5,000/s, busy loop", 20_000, (*at(5000), *BUSY), trades=True),
    Loop("open 5,000/s, event loop", 20_000, at(5000), trades=True),
    *(
        Loop(f"4 connections, {model[0]}, {rate:,}/s", rate * 2, (*at(rate), *FOUR, *model))
        for rate in (5000, 20_000)
        for model in (("per-connection",), POOL, ("event-loop",))
    ),
    *(Loop(f"1 connection, event-loop, {rate:,}/s", rate * 2, at(rate)) for rate in (5000, 20_000)),
    *(Loop(f"route: {route}", 20_000, route=route) for route in ("direct", "gateway", "balancer")),
]
HAWKES = [
    Hawkes("paper", "pairs", 10_000),
    Hawkes("paper", "pairs", 10_000, BUSY, suffix=", busy loop"),
    Hawkes("paper", "million", 1_000_000),
    Hawkes("paper", "one-stock", 50_000),
    Hawkes("pipelined", "pairs", 10_000, at(50_000)),
    Hawkes("pipelined", "pairs", 5_000, at(10_000), suffix=", 10,000/s"),
    Hawkes("pipelined", "million", 1_000_000, at(50_000)),
    Hawkes("pipelined", "one-stock", 30_000, at(50_000)),
    Hawkes("inprocess", "pairs", 110_000),
    Hawkes("inprocess", "million", 1_000_000),
    Hawkes("inprocess", "one-stock", 110_000),
]


def file_name(name: str) -> str:
    """The name of a run without spaces and punctuation."""
    return re.sub(r"[^a-z0-9]+", "-", name.replace(",000", "000"))


def bench(*arguments: str | Path, out: Path) -> dict[str, Any]:
    """Runs `pitwire bench` as the first demo account."""
    environment = os.environ | {"PITWIRE_CLIENT_ID": DEMO_A.client_id, "PITWIRE_CLIENT_SECRET": DEMO_A.secret}
    command = [BINARY, "bench", *arguments, "--out", out, "--json"]
    ended = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=TIMEOUT_S, check=False)
    if ended.returncode != 0:
        raise SystemExit(f"bench_trading: {' '.join(map(str, command))} failed:\n{ended.stderr}")
    return json.loads(ended.stdout)


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


def run_loop(case: Loop, directory: Path, out: Path, scale: float) -> dict[str, Any]:
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
        return bench("loop", url, *options, out=out)


def run_hawkes(case: Hawkes, directory: Path, out: Path, scale: float) -> dict[str, Any]:
    orders = max(100, round(case.orders * scale))
    options = ["--mode", case.mode, "--scenario", case.scenario, "--orders", str(orders), *case.options]
    return bench("hawkes", *options, "--data", directory / "data", out=out)


def measure(out: Path, scale: float, only: list[str]) -> None:
    for case in [*LOOPS, *HAWKES]:
        if not any(part in case.name for part in only):
            continue
        # Pages that earlier programs wrote would delay the syncs of the journal.
        os.sync()
        begun = time.monotonic()
        place = out / file_name(case.name)
        place.mkdir(parents=True, exist_ok=True)
        run = run_loop if isinstance(case, Loop) else run_hawkes
        with tempfile.TemporaryDirectory(prefix="pitwire-bench-trading-") as name:
            found = run(case, Path(name), place, scale)
        (place / "report.json").write_text(json.dumps({"name": case.name} | found))
        print(f"{case.name}: {time.monotonic() - begun:.1f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("target/bench-trading"), help="directory of the results")
    parser.add_argument("--scale", type=float, default=1.0, help="factor for the number of operations")
    parser.add_argument("--only", nargs="+", default=[""], help="runs whose name contains one of these")
    options = parser.parse_args()
    measure(options.out, options.scale, options.only)


if __name__ == "__main__":
    main()
