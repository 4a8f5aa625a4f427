"""Measures the table of docs/sbe.md: `mvn -q -B -f clients/java-sbe package`, then
`.venv/bin/python scripts/bench_sbe.py`, about two minutes.

Starts a quiet venue with an account for each connection, and runs the benchmark of the Java client.
With --client it runs that of the C++ client or the Rust client, which have no JSON transport. With
--client rust --cores CLIENT,VENUE the clients run on one core, and the venue and the servers of the
ping-pongs on another: otherwise the scheduler decides which of them share a core. The Rust client
comes from `cargo build --release -p pitwire-binary-client`. With --aeron the Java client also enters
its orders over Aeron IPC and UDP: run `make aeron` before, and set PITWIRE_BIN to
target/release/pitwire-aeron."""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from aeron import channels, client_channels, running
from rpc import Http
from venue import TOP, Venue

INSTRUMENT = "NPN_ZAR"
PRICE = "3000"
JAVA = ["java", "-jar", str(TOP / "clients/java-sbe/target/pitwire-sbe.jar")]
MEDIA = ("ipc", "udp")
PROGRAMS = {"cpp": TOP / "clients/cpp/build/pitwire-sbe", "rust": TOP / "target/release/pitwire-sbe"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--client", choices=["java", *PROGRAMS], default="java")
    parser.add_argument("--aeron", action="store_true", help="also measure Aeron IPC and UDP")
    parser.add_argument("--idle", default="block", help="idle strategy of the venue (block)")
    parser.add_argument("--cores", metavar="CLIENT,VENUE", help="cores to run on (the scheduler chooses)")
    parser.add_argument("--clients", type=int, default=4, help="connections of each transport (4)")
    parser.add_argument("--rate", type=int, default=1000, help="orders a second in the open loop (1000)")
    parser.add_argument("--orders", type=int, default=2500, help="orders of each measurement (2500)")
    parser.add_argument("--rounds", type=int, default=5, help="rounds that count (5)")
    parser.add_argument("--out", type=Path, help="directory for histogram files (.hgrm) of the Java client")
    options = parser.parse_args()
    program = PROGRAMS.get(options.client)
    if program and options.aeron:
        parser.error("--aeron needs --client java: the other clients have no Aeron")
    if options.cores and options.client != "rust":
        parser.error("--cores needs --client rust: the other clients cannot choose their cores")
    if program and options.out:
        parser.error("--out needs --client java: the other clients write no histogram files")
    java = [JAVA[0], f"-Dhistograms={options.out}", *JAVA[1:]] if options.out else JAVA
    count = options.clients * (1 if program else 4 if options.aeron else 2)
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        config = place / "accounts.toml"
        balances = '[["ZAR", "100000000"]]'
        config.write_text("".join(f'[[account]]\nname = "bench-{n}"\nbalances = {balances}\n' for n in range(count)))
        extra = ["--no-flow", "--durability", "memory", "--sbe", "127.0.0.1:0"]
        extra += ["--config", str(config), "--key-file", str(place / "key"), "--idle", options.idle]
        with ExitStack() as programs:
            gateways = []
            if options.aeron:
                media = str(place / "aeron")
                programs.enter_context(running([*JAVA, "aeron-driver", media]))
                for medium in MEDIA:
                    served = channels(medium)
                    extra += ["--sbe-aeron", ",".join(served)]
                    gateways.append(",".join([*client_channels(medium, served), media]))
                extra += ["--sbe-aeron-directory", media]
            all_cores = os.sched_getaffinity(0)
            if options.cores:
                # The venue inherits it.
                os.sched_setaffinity(0, {int(options.cores.split(",")[-1])})
            venue = programs.enter_context(Venue(place / "venue", extra))
            os.sched_setaffinity(0, all_cores)
            logins = re.findall(r"new login +(\S+) / (\S+)", venue.log_file.read_text())
            instrument = Http(venue.address).result("public/get_instrument", {"instrument_name": INSTRUMENT})
            binary = ";".join([json.loads(venue.ready_file.read_text())["sbe"], *gateways])
            command = [*java, "bench", binary, venue.ws_url, INSTRUMENT]
            if program:
                command = [str(program), "bench", *(["--cores", options.cores] if options.cores else []), binary]
            command += [str(instrument["instrument_id"]), PRICE]
            command += [str(number) for number in (options.rate, options.orders, options.rounds)]
            subprocess.run([*command, *(f"{name}:{secret}" for name, secret in logins)], check=True)


if __name__ == "__main__":
    main()
