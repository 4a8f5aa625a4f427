"""Prints the figures of publication beside peers in one run: part of `make bench`, or alone with
--json. Every case is one server and one `pitwire load` over loopback. The servers alternate round
by round, so that other load on the machine meets all of them; a figure is the median of its rounds.
The yardstick is the server's CPU seconds from its /proc/PID/stat, from before the first connection
to after the last. The load client's cost stands beside it, and a row whose client was the limit
says so. The peers are in lab/publishers; one that this machine cannot build is skipped by name.
The last rows measure a whole venue: from a command to the last of 1,000 readers of its trade while
others enter 10,000 orders a second, and the effect on orders when 5,000 readers reconnect at once.
The short form (`make bench`) takes about five minutes. --whole adds every row of the table: other
peers, 10,000 to 200,000 connections, TLS, reconnect storms, stopped and slow readers."""

import argparse
import json
import os
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from rpc import Ws
from venue import BINARY, DEMO_A, DEMO_B, Venue

from lab.publication.publishers import Publisher, build_all, load_all
from lab.publication.server import set_listener_options

START_PATIENCE_S = 30.0
LOAD_PATIENCE_S = 300.0
SECONDS = 8
TICKS_PER_S = os.sysconf("SC_CLK_TCK")
OURS = "pitwire"
# Our server with each of its batching policies, and the options of the policy. The first is the
# default, which the demands are for.
OWN = {OURS: (), "pitwire throughput": ("--batching", "throughput")}
UWS = "cpp-uwebsockets"
BARE = "rust-bare"
GORILLA = "go-gorilla"
ALL_PEERS = (BARE, UWS, "rust-tokio-tungstenite", GORILLA, "java-netty", "javascript-ws")

Figures = dict[str, Any]
Demand = Callable[[Figures, dict[str, Figures]], str | None]


def at_most(name: str, limit: float) -> Demand:
    def judge(ours: Figures, _all: dict[str, Figures]) -> str | None:
        value = ours.get(name)
        if value is None:
            return f"{name} not measured"
        return None if value <= limit else f"{name} {value:g} above {limit:g}"

    return judge


def exactly(name: str, value: float) -> Demand:
    return lambda ours, _all: None if ours[name] == value else f"{name} {ours[name]:g}, not {value:g}"


def against(peer: str, name: str, factor: float, *, least: bool) -> Demand:
    """Demands a ratio to a peer's figure, if that peer took part."""

    def judge(ours: Figures, everybody: dict[str, Figures]) -> str | None:
        if peer not in everybody or not everybody[peer].get(name):
            return None
        ratio = (ours.get(name) or 0) / everybody[peer][name]
        kept, bound = (ratio >= factor, "at least") if least else (ratio <= factor, "at most")
        return None if kept else f"{name} {ratio:.2f}x {peer}'s, wanted {bound} {factor:g}x"

    return judge


def against_case(case: str, name: str, factor: float) -> Demand:
    """Requires a ratio to our figure in another case. `everybody` maps names to cases."""

    def judge(ours: Figures, everybody: dict[str, Figures]) -> str | None:
        other = everybody.get(f"{OURS}: {case}", {}).get(name)
        if not other:
            return None
        ratio = (ours.get(name) or 0) / other
        return None if ratio <= factor else f"{name} {ratio:.2f}x that of {case}, wanted at most {factor:g}x"

    return judge


ALL_DELIVERED = [exactly("lost", 0), exactly("failed_connections", 0)]
NO_WORSE_THAN_UWS = [
    against(UWS, "cpu_ns_per_delivery", 1.0, least=False),
    against(UWS, "p99_us", 1.25, least=False),
]


@dataclass(frozen=True)
class Case:
    name: str
    server: tuple[str, ...]
    load: tuple[str, ...]
    peers: tuple[str, ...] = ()
    demands: tuple[Demand, ...] = ()
    is_short: bool = False
    tls: bool = False
    # Arguments of our server that differ from a peer's.
    ours: tuple[str, ...] = ()


def seed(connections: int, peers: tuple[str, ...], *demands: Demand, is_short: bool = False) -> Case:
    load = ("--seed-002", "--connections", str(connections), "--seconds", str(SECONDS))
    return Case(
        f"seed, {connections:,}",
        ("--respond", "10x10000"),
        load,
        peers,
        (*ALL_DELIVERED, exactly("late", 0), *demands),
        is_short,
    )


def fan_out(connections: int, rate: int, peers: tuple[str, ...], *demands: Demand, is_short: bool = False) -> Case:
    server = ("--synthetic", str(rate), "--bytes", "190")
    load = ("--connections", str(connections), "--seconds", str(SECONDS))
    return Case(f"{connections:,} x {rate:,}/s", server, load, peers, (*ALL_DELIVERED, *demands), is_short)


def faulty(name: str, *load: str) -> Case:
    base = fan_out(1_000, 100, ())
    return Case(name, base.server, (*base.load, *load), demands=(against_case(base.name, "p99_us", 1.1),))


CASES = [
    seed(
        5_000,
        (BARE, UWS, GORILLA),
        *NO_WORSE_THAN_UWS,
        against(GORILLA, "server_cpu_s", 0.25, least=False),
        is_short=True,
    ),
    fan_out(
        1_000,
        100,
        ALL_PEERS,
        *NO_WORSE_THAN_UWS,
        against(BARE, "deliveries_per_cpu_s", 0.95, least=True),
        is_short=True,
    ),
    fan_out(
        5_000,
        100,
        (BARE, UWS),
        *NO_WORSE_THAN_UWS,
        is_short=True,
    ),
    fan_out(1_000, 1_000, (UWS,), *NO_WORSE_THAN_UWS, at_most("p99_us", 10_000), is_short=True),
    fan_out(5_000, 1_000, (), at_most("p99_us", 50_000), at_most("growth_mib", 16), is_short=True),
    faulty("1 % stopped", "--stopped", "1"),
    faulty("10 % slow", "--slow", "10"),
    Case(
        "5,000 x 100/s, TLS",
        ("--synthetic", "100", "--bytes", "190"),
        ("--connections", "5000", "--seconds", str(SECONDS)),
        demands=(*ALL_DELIVERED, against_case("5,000 x 100/s", "cpu_ns_per_delivery", 1.6)),
        tls=True,
    ),
    Case(
        "storm of 5,000",
        ("--synthetic", "10", "--bytes", "190"),
        ("--connections", "5000", "--seconds", "12", "--storm", "4"),
        demands=(at_most("storm_s", 5),),
    ),
    Case(
        "storm of 5,000, TLS",
        ("--synthetic", "10", "--bytes", "190"),
        ("--connections", "5000", "--seconds", "16", "--storm", "4"),
        demands=(at_most("storm_s", 8),),
        tls=True,
    ),
    seed(10_000, (UWS,), *NO_WORSE_THAN_UWS),
    seed(20_000, ()),
    fan_out(10_000, 10, (UWS,), *NO_WORSE_THAN_UWS),
    fan_out(20_000, 10, ()),
    # Each of its threads holds as many connections as there may be open files.
    replace(fan_out(100_000, 1, ()), ours=("--connections", "110000")),
    replace(fan_out(200_000, 1, ()), ours=("--connections", "220000")),
]


@dataclass
class Server:
    """Runs one server process until the block ends. A peer gets its settings by environment."""

    name: str
    command: tuple[str, ...]
    directory: Path
    peer: Publisher | None = None
    settings: dict[str, str] = field(default_factory=dict)
    ready: dict[str, Any] = field(default_factory=dict)

    def __enter__(self) -> "Server":
        ready_file = self.directory / "ready.json"
        ready_file.unlink(missing_ok=True)
        command = list(self.command)
        if self.peer is None:
            command += ["--listen", "127.0.0.1:0", "--ready-file", str(ready_file)]
        self.process = subprocess.Popen(
            command,
            cwd=self.peer.folder if self.peer else None,
            env={**os.environ, **self.settings, "LAB_READY_FILE": str(ready_file)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        deadline = time.monotonic() + START_PATIENCE_S
        while not ready_file.exists():
            if self.process.poll() is not None or time.monotonic() > deadline:
                self.process.kill()
                raise RuntimeError(f"{self.name} did not start: {self.process.communicate()[1].strip()[-300:]}")
            time.sleep(0.01)
        self.ready = json.loads(ready_file.read_text())
        set_listener_options(self.process.pid)
        return self

    def __exit__(self, *_: object) -> None:
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.communicate(timeout=5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()

    def cpu_s(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    def resident_mib(self) -> float:
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


def peer_settings(options: tuple[str, ...]) -> dict[str, str]:
    """Options of `pitwire publish` as settings of contracts/lab-publisher.md."""
    given = dict(zip(options[::2], options[1::2], strict=True))
    messages, _, size = given.get("--respond", "").partition("x")
    return {
        "LAB_HOST": "127.0.0.1",
        "LAB_PORT": "0",
        "LAB_TEST": "heartbeat" if messages else "fan-out",
        "LAB_MESSAGES": messages or "1",
        "LAB_RATE": given.get("--synthetic", "1"),
        "LAB_BYTES": size or given["--bytes"],
        "LAB_TOKEN": "",
    }


def server_of(case: Case, name: str, peers: dict[str, Publisher], directory: Path, extra: tuple[str, ...]) -> Server:
    if name not in OWN:
        peer = peers[name]
        return Server(name, tuple(peer.command()), directory, peer, peer_settings(case.server))
    tls = ("--tls", "--tls-dir", str(directory / "tls")) if case.tls else ()
    return Server(name, (BINARY, "publish", *case.server, *case.ours, *tls, *OWN[name], *extra), directory)


def built(names: set[str]) -> tuple[dict[str, Publisher], dict[str, str]]:
    """The peers that are ready to run, and why each of the others is not."""
    known, missing = load_all(), {}

    def report(name: str, problem: str | None) -> None:
        if problem is not None:
            missing[name] = problem

    build_all([known[name] for name in sorted(names)], report)
    return {name: known[name] for name in names if name not in missing}, missing


def load(case: Case, server: Server) -> Figures:
    url = f"wss://{server.ready['tls']}/" if case.tls else f"ws://{server.ready['http']}/"
    trusting = ("--insecure",) if case.tls else ()
    ended = subprocess.run(
        [BINARY, "load", url, *case.load, *trusting, "--json"],
        capture_output=True,
        text=True,
        timeout=LOAD_PATIENCE_S,
        check=False,
    )
    try:
        return json.loads(ended.stdout)
    except json.JSONDecodeError:
        raise RuntimeError(f"pitwire load ended with {ended.returncode}: {ended.stderr.strip()[-300:]}") from None


def run(case: Case, name: str, peers: dict[str, Publisher], directory: Path, extra: tuple[str, ...]) -> Figures:
    with server_of(case, name, peers, directory, extra) as server:
        cpu_before, resident_before = server.cpu_s(), server.resident_mib()
        figures = load(case, server)
        figures["server_cpu_s"] = server.cpu_s() - cpu_before
        figures["resident_mib"] = server.resident_mib()
        figures["growth_mib"] = figures["resident_mib"] - resident_before
    cpu_s = max(figures["server_cpu_s"], 1 / TICKS_PER_S)
    figures["deliveries_per_cpu_s"] = figures["deliveries"] / cpu_s
    figures["cpu_ns_per_delivery"] = cpu_s * 1e9 / max(1, figures["deliveries"])
    return figures


TRADES_PER_S = 100
ORDERS_PER_S = 10_000


def trade_until(ended: threading.Event, url: str) -> None:
    """Two accounts trade one share back and forth at a steady rate; the orders of the load use
    another instrument."""
    with Ws(url) as one, Ws(url) as other:
        one.login(DEMO_A)
        other.login(DEMO_B)
        began, trades = time.monotonic(), 0
        while not ended.is_set():
            sides = (one, other) if trades % 2 == 0 else (other, one)
            for side, way in zip(sides, ("sell", "buy"), strict=True):
                order = {"instrument_name": "SBK_ZAR", "amount": 1, "type": "limit", "price": 215}
                side.result(f"private/{way}", order)
            trades += 1
            time.sleep(max(0.0, began + trades / TRADES_PER_S - time.monotonic()))


def run_venue(directory: Path) -> Figures:
    with Venue(directory / f"venue-{time.monotonic_ns()}", ["--no-flow", "--durability", "memory"]) as venue:
        url = f"ws://{venue.address}/ws/sbk_zar@trade?ts=ns"
        reading = [BINARY, "load", url, "--connections", "1000", "--sequence-field", "t", "--json"]
        # These orders are the load, not the measurement: a client that never sleeps would take a
        # core.
        ordering = [BINARY, "order-bench", "--mode", "open", "--wait", "asleep", "--venue", venue.address, "--json"]
        # The orders start before the readers and end after them.
        orders = subprocess.Popen(
            [*ordering, "--rate", str(ORDERS_PER_S), "--seconds", str(SECONDS + 4)],
            stdout=subprocess.PIPE,
            text=True,
        )
        ended = threading.Event()
        trader = threading.Thread(target=trade_until, args=(ended, venue.ws_url))
        trader.start()
        time.sleep(1)
        load = subprocess.run(
            [*reading, "--seconds", str(SECONDS)], capture_output=True, text=True, timeout=LOAD_PATIENCE_S, check=False
        )
        ended.set()
        trader.join()
        ordered = json.loads(orders.communicate(timeout=LOAD_PATIENCE_S)[0])
        figures = json.loads(load.stdout)
    kept = ("deliveries", "lost", "late", "p50_us", "p99_us", "last_us", "last_p99_us", "generator_bound")
    return {name: figures[name] for name in kept} | {f"orders_{name}": value for name, value in ordered.items()}


def orders_p99_us(venue: Venue) -> float:
    command = [BINARY, "order-bench", "--mode", "open", "--venue", venue.address, "--rate", "1000", "--seconds", "6"]
    ended = subprocess.run([*command, "--json"], capture_output=True, text=True, timeout=LOAD_PATIENCE_S, check=True)
    return json.loads(ended.stdout)["p99_us"]


def run_storm(directory: Path, *, tls: bool) -> Figures:
    """Measures orders in a calm and then in a storm: all 5,000 readers are cut and reconnect at
    once."""
    secure = ["--tls", "127.0.0.1:0"] if tls else []
    with Venue(directory / f"storm-{time.monotonic_ns()}", ["--no-flow", *secure]) as venue:
        ready = json.loads(venue.ready_file.read_text())
        url = f"wss://{ready['tls']}" if tls else f"ws://{venue.address}"
        trust = ["--insecure"] if tls else []
        storm = ["--connections", "5000", "--seconds", "22", "--storm", "12"]
        load = subprocess.Popen(
            [BINARY, "load", f"{url}/ws/sbk_zar@trade", *storm, *trust, "--json"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        time.sleep(3)
        calm_us = orders_p99_us(venue)
        time.sleep(1)
        storm_us = orders_p99_us(venue)
        figures = json.loads(load.communicate(timeout=LOAD_PATIENCE_S)[0])
    kept = {name: figures[name] for name in ("storm_s", "storm_retries", "failed_connections", "opening_s")}
    return kept | {"calm_p99_us": calm_us, "storm_p99_us": storm_us, "orders_p99_times": round(storm_us / calm_us, 2)}


VENUE_CASES: list[tuple[str, bool, Callable[[Path], Figures], list[Demand]]] = [
    ("venue, 1,000 readers", True, run_venue, [exactly("lost", 0), at_most("last_p99_us", 10_000)]),
    (
        "venue, storm of 5,000",
        False,
        lambda directory: run_storm(directory, tls=False),
        [at_most("storm_s", 5), at_most("orders_p99_times", 2)],
    ),
    (
        "venue, storm of 5,000, TLS",
        False,
        lambda directory: run_storm(directory, tls=True),
        [at_most("storm_s", 8), at_most("orders_p99_times", 2)],
    ),
]


def measure_venues(options: argparse.Namespace) -> dict[str, Any]:
    report = {}
    for name, is_short, run_once, demands in VENUE_CASES:
        if options.only not in name or not (options.whole or options.only or is_short):
            continue
        with tempfile.TemporaryDirectory(prefix="pitwire-bench-publication-") as directory:
            figures = middle([run_once(Path(directory)) for _round in range(options.rounds)])
        verdicts = [demand(figures, {}) for demand in demands]
        figures["short_of_demand"] = [verdict for verdict in verdicts if verdict]
        report[name] = {OURS: figures}
        if not options.json:
            print(f"{name}: " + ", ".join(f"{figure} {value}" for figure, value in figures.items()), flush=True)
    return report


def middle(rounds: list[Figures]) -> Figures:
    def of(values: list[Any]) -> Any:
        if all(isinstance(value, bool) for value in values):
            return any(values)
        return statistics.median(values) if all(isinstance(value, int | float) for value in values) else values[0]

    return {name: of([figures.get(name) for figures in rounds]) for name in rounds[0]}


def measure(options: argparse.Namespace) -> dict[str, Any]:
    cases = [case for case in CASES if options.only in case.name and (options.whole or options.only or case.is_short)]
    chosen = set(options.peers.split(",")) if options.peers else set(ALL_PEERS)
    wanted = {peer for case in cases for peer in case.peers if peer in chosen}
    peers, missing = built(wanted) if not options.alone else ({}, {})
    extra = tuple(options.ours.split())
    report: dict[str, Any] = {"cores": os.cpu_count(), "rounds": options.rounds, "skipped": missing, "cases": {}}
    everybody: dict[str, Figures] = {}
    with tempfile.TemporaryDirectory(prefix="pitwire-bench-publication-") as name:
        for case in cases:
            servers = [*OWN, *(peer for peer in case.peers if peer in peers)]
            found: dict[str, list[Figures]] = {server: [] for server in servers}
            for _round in range(options.rounds):
                for server in servers:
                    try:
                        found[server].append(run(case, server, peers, Path(name), extra))
                    except RuntimeError as error:
                        report["skipped"][f"{case.name}, {server}"] = str(error)
            figures = {server: middle(rounds) for server, rounds in found.items() if rounds}
            if OURS in figures:
                everybody[f"{OURS}: {case.name}"] = figures[OURS]
                verdicts = [demand(figures[OURS], {**everybody, **figures}) for demand in case.demands]
                figures[OURS]["short_of_demand"] = [verdict for verdict in verdicts if verdict]
            report["cases"][case.name] = figures
            if not options.json:
                print("\n".join(rows(case.name, figures)), flush=True)
    report["cases"] |= measure_venues(options)
    return report


HEAD = (
    f"{'':<22} {'':<18} {'CPU s':>7} {'k del/CPU s':>11} {'delivered':>10} {'lost':>8} {'late':>7}"
    f" {'p50 ms':>8} {'p99 ms':>8} {'MiB':>6}  client"
)


def milliseconds(us: float | None) -> str:
    return f"{'-':>8}" if us is None else f"{us / 1e3:>8.2f}"


def storm(of: Figures) -> str:
    return f"; all back after {of['storm_s']:.2f} s" if of.get("storm_s") is not None else ""


def rows(case: str, figures: dict[str, Figures]) -> list[str]:
    lines = []
    for server, of in figures.items():
        short = f"; SHORT: {', '.join(of['short_of_demand'])}" if of.get("short_of_demand") else ""
        client = f"{of['generator_cpu_s']:.1f} s{', BOUND BY IT' if of['generator_bound'] else ''}"
        if of.get("arrived_p99_us") is not None:
            client += f"; p99 at its sockets {of['arrived_p99_us'] / 1e3:.1f} ms"
        lines.append(
            f"{case:<22} {server:<18} {of['server_cpu_s']:>7.2f} {of['deliveries_per_cpu_s'] / 1e3:>11.0f}"
            f" {of['deliveries']:>10.0f} {of['lost']:>8.0f} {of['late']:>7.0f} {milliseconds(of['p50_us'])}"
            f" {milliseconds(of['p99_us'])} {of['resident_mib']:>6.0f}  {client}{storm(of)}{short}"
        )
        case = ""
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="one JSON object")
    parser.add_argument("--whole", action="store_true", help="every row, not only those of `make bench`")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--alone", action="store_true", help="no peers")
    parser.add_argument("--peers", default="", metavar="NAMES", help=f"only these, as in {UWS},{GORILLA}")
    parser.add_argument(
        "--ours", default="", metavar="OPTIONS", help='for ours, in one word: "--loop uring --threads 2"'
    )
    options = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if not options.json:
        print(f"publication: {os.cpu_count()} cores, medians of {options.rounds}, open files {hard}\n{HEAD}")
    report = measure(options)
    if options.json:
        print(json.dumps(report))
    for name, reason in report["skipped"].items():
        print(f"skipped: {name}: {reason}", file=sys.stderr)


if __name__ == "__main__":
    main()
