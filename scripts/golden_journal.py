"""Makes the golden journal of this release: `scripts/golden_journal.py [market-gtc]` in the tests'
environment. The binary is the one of the tests: `target/release/pitwire`, or PITWIRE_BIN. It runs a
real venue on an own data directory: a first start with orders, trades, amends, cancels and a clean
end, which leaves a snapshot; then a second start that is killed, so that there is a tail to replay
and a torn end to judge. Segments are cut after their last group, because zeros follow. The output
of `pitwire verify` is stored beside it. Every later release must read it to the same figures or
name the migration, so it is made only once per release."""

import contextlib
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests"))

from rpc import RpcError, Ws  # noqa: E402
from venue import DEMO_A, DEMO_B, Credentials, Venue, run_pitwire  # noqa: E402

BLOCK = 4096
KEPT = ("commands", "events", "orders", "trades", "from_command", "state_hash", "tape_hash", "output_hash")


def logged_in(venue: Venue, credentials: Credentials) -> Ws:
    ws = Ws(venue.ws_url)
    ws.login(credentials)
    return ws


def limit(price: float, amount: float, **more: Any) -> dict[str, Any]:
    return {"instrument_name": "NPN_ZAR", "amount": amount, "type": "limit", "price": price} | more


def first_day(venue: Venue) -> None:
    """Enters each kind of order at least once. The requests are pipelined, so that a few groups
    hold them."""
    a, b = logged_in(venue, DEMO_A), logged_in(venue, DEMO_B)
    resting = [a.post("private/buy", limit(2000 + n, 3, label=f"bid {n}")) for n in range(8)]
    replies = {message["id"]: message for message in (a.receive() for _ in resting)}
    ids = [replies[request]["result"]["order"]["order_id"] for request in resting]
    waiting = [
        b.post("private/sell", limit(2004, 5)),
        b.post("private/sell", limit(2100, 40, max_show=10)),
        b.post("private/sell", limit(2050, 2, post_only=True)),
        b.post("private/sell", {"instrument_name": "NPN_ZAR", "amount": 1, "type": "market"}),
        b.post("private/buy", limit(2010, 1, time_in_force="immediate_or_cancel")),
        b.post("private/buy", limit(2010, 1, time_in_force="fill_or_kill")),
        b.post("private/buy", {"instrument_name": "BTC-PERPETUAL", "amount": 10, "type": "limit", "price": 50000}),
        b.post("private/sell", {"instrument_name": "ETH_USDC", "amount": 0.5, "type": "limit", "price": 4000}),
    ]
    for _ in waiting:
        b.receive()
    for request in (
        a.post("private/edit", {"order_id": ids[0], "amount": 2, "price": 2000}),
        a.post("private/edit", {"order_id": ids[1], "amount": 3, "price": 1990}),
        a.post("private/cancel", {"order_id": ids[2]}),
        a.post("private/cancel", {"order_id": "unknown"}),
        b.post("private/cancel_all_by_instrument", {"instrument_name": "ETH_USDC"}),
    ):
        assert request
    for _ in range(4):
        a.receive()
    b.receive()


def second_day(venue: Venue) -> None:
    a = logged_in(venue, DEMO_A)
    for request in [a.post("private/buy", limit(2100, 1 + n)) for n in range(6)]:
        assert request
    for _ in range(6):
        a.receive()


def market_gtc(venue: Venue) -> None:
    """Enters orders that only rule version 1 accepts; only a build of that version takes them as
    written."""
    a, b = logged_in(venue, DEMO_A), logged_in(venue, DEMO_B)
    a.call("private/buy", limit(2000, 3))
    a.call("private/buy", limit(1999, 3))
    market = {"instrument_name": "NPN_ZAR", "type": "market", "time_in_force": "good_til_cancelled"}
    b.call("private/sell", market | {"amount": 4})
    cannot_rest = {"time_in_force": "immediate_or_cancel", "post_only": True, "max_show": 1}
    with contextlib.suppress(RpcError):
        b.call("private/sell", limit(1999, 1, **cannot_rest))
    b.call("private/sell", market | {"amount": 9})


def shorten(directory: Path) -> None:
    """Cuts zeros after the last group, and removes segments without groups and unfinished files."""
    for unfinished in directory.glob("*.new"):
        unfinished.unlink()
    for segment in directory.glob("journal-*.seg"):
        written = len(segment.read_bytes().rstrip(b"\0"))
        if written == 0:
            segment.unlink()
        else:
            with segment.open("r+b") as file:
                file.truncate(-(-written // BLOCK) * BLOCK)


def verified(directory: Path) -> dict[str, Any]:
    ended = run_pitwire("verify", directory, "--json")
    assert ended.returncode == 0, ended.stderr
    said = json.loads(ended.stdout)
    return {name: said[name] for name in KEPT}


def layout(directory: Path) -> str:
    """The hash of the state in the snapshots."""
    newest = max(directory.glob("snapshot-*.snap"))
    return str(int.from_bytes(newest.read_bytes()[8:10], "little"))


def main() -> None:
    version = run_pitwire("--version")
    release = ".".join(version.stdout.split()[1].split(".")[:2])
    scene = "".join(sys.argv[1:])
    target = TOP / "contracts/vectors/journal" / "-".join(filter(None, [release, scene]))
    with tempfile.TemporaryDirectory() as scratch:
        data = Path(scratch) / "data"
        with Venue(data, ["--no-flow"]) as venue:
            if scene == "market-gtc":
                market_gtc(venue)
                assert venue.stop() == 0
            else:
                first_day(venue)
                assert venue.stop() == 0
                venue.start()
                second_day(venue)
                # The superblock follows within 10 ms.
                time.sleep(0.2)
                venue.kill()
        (data / "lock").unlink(missing_ok=True)
        whole = verified(data)
        shorten(data)
        assert verified(data) == whole, "cutting zeros changes nothing"
        whole["state_hash"] = {layout(data): whole["state_hash"]}
        shutil.rmtree(target, ignore_errors=True)
        shutil.copytree(data, target / "data")
    (target / "expected.json").write_text(json.dumps(whole, indent=2) + "\n")
    size = sum(file.stat().st_size for file in (target / "data").iterdir())
    print(f"{target.relative_to(TOP)}: {whole['commands']} commands, {size} bytes")


if __name__ == "__main__":
    main()
