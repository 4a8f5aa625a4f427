"""Memory of `pitwire split`: constant after its start, whatever the feed and its server do. Issue
5: at most 64 MiB plus rings and spill limit. Rings and the area that they refer to are files in
/dev/shm, which the kernel counts separately (RssShmem; the built-in counters map them a second
time). All other memory is RssAnon."""

import json
import socket
import subprocess
from pathlib import Path

import pytest
from feed import PING, Feed, Peer, Trades, endless_tape, frame, split_command

MIB = 1 << 20
LIMIT_KIB = 64 << 10
# Between two samples: at most the allocator arenas of a new thread.
SLACK_KIB = 4 << 10


def resident_kib(pid: int) -> dict[str, int]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {line.split(":")[0]: int(line.split()[1]) for line in lines if line.startswith("Rss")}


def after_lines(process: subprocess.Popen[str], lines: int) -> dict[str, int]:
    """Resident memory after this many more statistics lines of 8,192 trades."""
    assert process.stdout
    for _ in range(lines):
        assert process.stdout.readline().startswith("["), "the splitter ended"
    return resident_kib(process.pid)


def memory_after(command: list[str], early_lines: int, late_lines: int, *, limit_kib: int) -> dict[str, int]:
    """Checks that the memory stays below a limit and does not grow between two statistics lines.
    Returns the later figures."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        before, after = after_lines(process, early_lines), after_lines(process, late_lines)
    finally:
        process.kill()
        process.communicate()
    assert after["RssAnon"] <= limit_kib, after
    assert after["RssAnon"] <= before["RssAnon"] + SLACK_KIB, (before, after)
    return after


@pytest.mark.parametrize(
    ("transport", "workers", "shared_mib"),
    [
        ("pipe", 8, 0),
        # At most this many lent pages.
        ("pipe", 16, 0),
        ("pipe", 64, 0),
        ("shm", 64, 2 * 64),
        # Rings and area, each mapped by splitter and counters.
        ("shm-ref", 64, 2 * (64 + 16) + 16),
    ],
)
def test_memory_is_fixed_after_the_start(transport: str, workers: int, shared_mib: int, tmp_path: Path) -> None:
    with endless_tape(tmp_path / "ready", per_s=2_000_000) as url:
        command = split_command(url, "--transport", transport, "--on-slow", "block", workers=workers)
        after = memory_after(command, 20, 80, limit_kib=LIMIT_KIB)
    # Each ring has one page of header.
    assert after["RssShmem"] <= (shared_mib * MIB + 2 * workers * 4096) // 1024, after


@pytest.mark.attack("worker of the splitter that does not read")
def test_spilling_ends_at_its_limit(tmp_path: Path) -> None:
    """A worker that reads nothing: one mebibyte each is kept, the rest is dropped and counted."""
    with endless_tape(tmp_path / "ready", per_s=2_000_000) as url:
        options = ["--transport", "shm", "--on-slow", "spill:1MiB"]
        command = split_command(url, *options, "--", "sh", "-c", "exec sleep 1000", workers=8)
        # Rings and spill of one mebibyte each are full after about 20 lines.
        memory_after(command, 40, 60, limit_kib=LIMIT_KIB + 8 * 1024)


@pytest.mark.attack("rogue upstream of the splitter")
def test_pings_with_unread_answers_cost_no_memory() -> None:
    """A server floods pings and reads nothing: answers fill its socket, then only the latest is
    kept."""
    trades, found, started = Trades(), dict[str, int](), list[subprocess.Popen[str]]()
    flood = frame(PING, b"p" * 125) * 8_000

    def serve(peer: Peer, _: int) -> None:
        peer.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        peer.shake_hands()
        # 320,000 pings: the answers to all would be 42 MB.
        for _ in range(40):
            peer.send(flood, trades.frame(["SPY", "F", "SPY"]))
        found.update(resident_kib(started[0].pid))
        peer.send(trades.frame(["SPY"]))
        hold(peer)

    def hold(peer: Peer) -> None:
        while peer.socket.recv(65536):
            pass

    with Feed(serve) as feed:
        command = split_command(feed.url, "--limit-trades", "121", "--json")
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
        out, errors = started[0].communicate(timeout=60)
    figures = json.loads(out)
    assert (started[0].returncode, figures["trades"], figures["reconnects"]) == (0, 121, 0), errors
    assert 0 < found["RssAnon"] <= LIMIT_KIB // 2, found
