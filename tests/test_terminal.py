"""What people see on a terminal: colours, aligned tables, one line a second, help that wraps."""

import fcntl
import os
import pty
import re
import shutil
import struct
import subprocess
import termios
import time
from pathlib import Path

import pytest
from feed import CLOSE, PATIENCE_S, TEXT, Feed, Peer, frame, split, split_command, summary
from rpc import Http
from venue import BINARY, DEMO_A, OPERATOR, Credentials, Venue, run_pitwire

GREEN, RED = "\x1b[32m", "\x1b[31m"
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def on_a_terminal(command: list[str | Path], columns: int = 100, **variables: str) -> str:
    """Returns the output of a command on a terminal. The command has to end by itself."""
    ours, its = pty.openpty()
    fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "CI", "TERM")}
    environment |= {"TERM": "xterm"} | variables
    process = subprocess.Popen(command, stdin=its, stdout=its, stderr=its, env=environment)
    os.close(its)
    written = b""
    try:
        while piece := os.read(ours, 65_536):
            written += piece
    except OSError:
        # Linux reports the end of a terminal as an error.
        pass
    finally:
        os.close(ours)
    assert process.wait(timeout=PATIENCE_S) == 0, written
    return written.decode().replace("\r\n", "\n")


def as_client(who: Credentials) -> dict[str, str]:
    return {"PITWIRE_CLIENT_ID": who.client_id, "PITWIRE_CLIENT_SECRET": who.secret}


def said(venue: Venue, *arguments: str) -> str:
    """The text of an operator's command."""
    command = [BINARY, "operator", "--url", venue.ws_url, *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=False, env=os.environ | as_client(OPERATOR)
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


# Colours


def test_a_book_is_coloured_on_a_terminal_and_nowhere_else(venue: Venue) -> None:
    command = [BINARY, "trade", "--url", venue.ws_url, "book", "NPN_ZAR", "--depth", "5"]
    shown = on_a_terminal(command)
    assert GREEN in shown and RED in shown, shown
    for variables in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        assert "\x1b" not in on_a_terminal(command, **variables), variables
    piped = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    assert "\x1b" not in piped and piped.split()[:4] == ["amount", "bid", "ask", "amount"]
    lines = ESCAPE.sub("", shown).splitlines()
    # Numbers end at the same column.
    assert len({len(line) for line in lines}) == 1, lines


def test_no_color_holds_for_help(venue: Venue) -> None:
    assert "\x1b[" in on_a_terminal([BINARY, "up", "--help"])
    assert "\x1b" not in on_a_terminal([BINARY, "up", "--help"], NO_COLOR="1")


def test_an_operators_tables_are_aligned_and_in_a_useful_order(venue: Venue) -> None:
    head, *rows = said(venue, "orders", "--count", "20").splitlines()
    assert head.split() == ["order_id", "name", "instrument_name", "direction", "amount", "price", "session"]
    assert len(rows) > 5
    # The end of a column of numbers is the end of its head.
    for name in ("order_id", "amount", "price"):
        end = head.index(name) + len(name)
        column = [row[:end].rsplit(" ", 1)[-1] for row in rows]
        assert all(re.fullmatch(r"-?[\d.]+", cell) for cell in column), (name, column)
    accounts = said(venue, "accounts").splitlines()
    assert accounts[0].split()[:2] == ["account", "name"]


def test_own_orders_are_a_table_in_a_traders_order(venue: Venue, http: Http) -> None:
    for amount, price in [(1, 3000), (1500, 3.5)]:
        http.result("private/buy", {"instrument_name": "NPN_ZAR", "amount": amount, "price": price})
    command = [BINARY, "trade", "--url", venue.ws_url, "orders"]
    environment = os.environ | as_client(DEMO_A)
    head, *rows = subprocess.run(
        command, capture_output=True, text=True, timeout=60, check=True, env=environment
    ).stdout.splitlines()
    columns = ["order_id", "instrument_name", "direction", "order_type", "price", "amount", "filled_amount"]
    assert head.split() == [*columns, "average_price", "time_in_force", "order_state"] and len(rows) == 2
    for name in ("order_id", "price", "amount", "filled_amount"):
        heading = re.search(rf"(?<!\S){name}(?!\S)", head)
        assert heading is not None
        end = heading.end()
        cells = [row[:end].rsplit(" ", 1)[-1] for row in rows]
        assert all(re.fullmatch(r"[\d.]+", cell) for cell in cells), (name, cells)
        # The next column begins behind a gap, so no digit of a number stands right of its head.
        assert all(row[end : end + 1] == " " for row in rows), (name, rows)


# An operator's command says what happened


def test_operator_command_reports_its_effect(data: Path) -> None:
    with Venue(data, extra=["--no-flow", "--key-file", str(data.parent / "vault.key")]) as venue:
        halted = said(venue, "halt", "NPN_ZAR")
        assert "NPN_ZAR is halted" in halted and "pitwire operator reopen NPN_ZAR" in halted
        # Long enough that the call does not end before the next command, however slow the machine
        # is.
        assert "NPN_ZAR is in a re-opening call for 600 s" in said(venue, "reopen", "NPN_ZAR", "--seconds", "600")
        assert "ends in 900 s" in said(venue, "extend", "NPN_ZAR", "--seconds", "900")
        assert "NPN_ZAR continues" in said(venue, "resume", "NPN_ZAR")
        created = said(venue, "create-instrument", "XYZ", "ZAR", "--tick", "0.01", "--lot", "1", "--start", "12.50")
        assert "XYZ_ZAR is created" in created and "tick 0.01" in created
        assert "collar_percent 5" in said(venue, "change-instrument", "XYZ_ZAR", "--collar", "5")
        assert "no limits" in said(venue, "change-instrument", "XYZ_ZAR", "--collar", "0")
        assert "XYZ_ZAR is deleted" in said(venue, "delete-instrument", "XYZ_ZAR")
        carol = said(venue, "create-account", "carol")
        assert "account carol is created" in carol and "client_secret  " in carol
        assert said(venue, "deposit", "carol", "ZAR", "250.50") == "250.50 ZAR added to account carol\n"
        assert said(venue, "deposit", "carol", "ZAR", "-50") == "50 ZAR withdrawn from account carol\n"
        assert "may fall 500 ZAR below zero" in said(venue, "credit-line", "carol", "ZAR", "500")
        killed = said(venue, "kill", "account", "carol", "--reason", "drill")
        assert killed.startswith("0 orders cancelled") and "lift account carol" in killed
        assert said(venue, "lift", "account", "carol") == "account carol may enter orders again\n"
        assert "is closed" in said(venue, "delete-account", "carol")
        assert "stopped" in said(venue, "flow") and "50 %" in said(venue, "flow", "start", "--rate", "50")


# Split


def steady(peer: Peer, _: int) -> None:
    """A feed for about two and a half seconds, with random ids instead of trade numbers."""
    peer.shake_hands()
    for number in range(25):
        ids = [(number * 40 + place) * 7_919 % 100_003 for place in range(40)]
        trades = ",".join(f'{{"ev":"T","sym":"S{index % 3}","i":"{index:012}","p":1}}' for index in ids)
        peer.send(frame(TEXT, f"[{trades}]".encode()))
        time.sleep(0.1)
    peer.read_close()
    peer.send(frame(CLOSE, b"\x03\xe8"))


def test_split_prints_one_line_a_second_on_a_terminal() -> None:
    with Feed(steady) as feed:
        shown = on_a_terminal(split_command(feed.url, "--limit-trades", "1000"))
        each = on_a_terminal(split_command(feed.url, "--limit-trades", "1000", "--stats-every", "100"))
    lines = [line for line in shown.splitlines() if "trades/s" in line]
    # The feed takes at least 2.4 s, so a second ends while it is connected.
    assert lines and "Rate {" not in shown, shown
    assert len({line.index(" trades/s") for line in lines}) == 1, "numbers stand below each other"
    assert each.count("Rate {") == 10 and "trades/s" not in each, each


def test_losses_are_counted_only_where_a_feed_numbers_its_trades() -> None:
    with Feed(steady) as feed:
        counted = summary(split(feed.url, "--limit-trades", "1000", "--json"))["counted"]
        text = split(feed.url, "--limit-trades", "1000").stdout
    assert counted["trades"] == 1000 and counted["numbered"] is False
    assert not {"lost", "lost_declared", "duplicated", "reordered"} & counted.keys()
    assert "losses are unknown" in text


# Help, completions, manual pages


def commands() -> list[str]:
    """The names of all commands, as the help lists them."""
    listed = run_pitwire("--help").stdout.split("Commands:\n")[1].split("\n\n")[0]
    return [name for name in re.findall(r"^  ([a-z-]+)", listed, re.MULTILINE) if name != "help"]


@pytest.mark.parametrize("columns", [80, 100])
def test_help_fits_the_terminal_and_its_examples_can_be_copied(columns: int) -> None:
    for name in commands():
        shown = on_a_terminal([BINARY, name, "--help"], columns, NO_COLOR="1")
        lines = shown.splitlines()
        assert all(len(line) <= columns for line in lines), (name, [line for line in lines if len(line) > columns])
        examples = shown.rsplit("Examples:\n", 1)[1].replace("\\\n", "").splitlines()
        whole = [line for line in examples if line.startswith("  ") and not line.startswith("      ")]
        assert len(whole) == 2 and all(f"pitwire {name}" in line or "pitwire" in line for line in whole), (name, whole)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "elvish", "powershell"])
def test_completions_know_every_command(shell: str) -> None:
    script = run_pitwire("completions", shell)
    assert script.returncode == 0 and all(name in script.stdout for name in commands())
    assert "--stats-every" in script.stdout or "stats-every" in script.stdout


def test_bash_completes_a_command(tmp_path: Path) -> None:
    script = tmp_path / "pitwire.bash"
    script.write_text(run_pitwire("completions", "bash").stdout)
    words = 'COMP_WORDS=(pitwire jour); COMP_CWORD=1; _pitwire pitwire jour pitwire; echo "${COMPREPLY[@]}"'
    bash = shutil.which("bash") or "bash"
    done = subprocess.run([bash, "-c", f"source {script}; {words}"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["journal-bench"], done.stderr


def test_manual_pages_are_made_for_each_command(tmp_path: Path) -> None:
    one = run_pitwire("man")
    assert one.returncode == 0 and one.stdout.lstrip(".\\\n").find(".TH pitwire 1") >= 0
    assert all(name in one.stdout.replace("\\-", "-") for name in commands())
    pages = tmp_path / "man1"
    assert run_pitwire("man", "--out", pages).returncode == 0
    assert {f"pitwire-{name}.1" for name in commands()} <= {path.name for path in pages.iterdir()}
    assert "--workers" in (pages / "pitwire-split.1").read_text().replace("\\-", "-")
    failed = run_pitwire("man", "--out", Path("/dev/null/pages"))
    assert failed.returncode == 1 and len(failed.stderr.splitlines()) == 1 and "/dev/null/pages" in failed.stderr


def test_orders_are_coloured_by_direction(venue: Venue) -> None:
    command = [BINARY, "trade", "--url", venue.ws_url, "buy", "NPN_ZAR", "1", "3000"]
    assert f"{GREEN}buy" in on_a_terminal(command, **as_client(DEMO_A))
    on_a_terminal([BINARY, "trade", "--url", venue.ws_url, "cancel-all"], **as_client(DEMO_A))
