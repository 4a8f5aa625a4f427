"""Kills at bad moments; damaged, swapped and foreign segments; and disks that are full or fail.
In each case the venue keeps every acknowledged order, or its start names the fault."""

import contextlib
import json
import random
import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from attack_table import FULL
from rpc import Http, Ws
from test_disk import small_disk, traced
from venue import BINARY, DEMO_A, OPERATOR, Credentials, Venue, run_pitwire

MEBIBYTE = 1024 * 1024
PATIENCE_S = 60.0
FLOW = ["--no-flow"]


def buy(price: int) -> dict[str, object]:
    return {"instrument_name": "NPN_ZAR", "amount": 1, "type": "limit", "price": price}


def enter(venue: Venue, count: int, first: int = 1000) -> set[str]:
    """Enters orders and returns the ids of the acknowledged ones."""
    with Ws(venue.ws_url) as member:
        member.login(DEMO_A)
        return {member.result("private/buy", buy(first + number))["order"]["order_id"] for number in range(count)}


def open_orders(venue: Venue) -> set[str]:
    return {order["order_id"] for order in Http(venue.address, DEMO_A).result("private/get_open_orders")}


def verify(data: Path) -> None:
    ended = run_pitwire("verify", data, "--json", timeout_s=300)
    assert ended.returncode == 0 and json.loads(ended.stdout)["ok"], ended.stdout + ended.stderr


def assert_kept(venue: Venue, acknowledged: set[str]) -> None:
    """Starts a venue that was killed, finds the acknowledged orders in it, and stops it."""
    venue.start()
    assert acknowledged <= open_orders(venue)
    assert venue.stop() == 0


@pytest.mark.attack("kill -9 during a start")
def test_kill_during_a_start_loses_nothing(data: Path, tries: Callable[[int], None]) -> None:
    chance = random.Random(16)
    with Venue(data, FLOW) as venue:
        acknowledged = enter(venue, 50)
        venue.kill()
        for _ in range(60 if FULL else 8):
            venue.launch()
            time.sleep(chance.uniform(0, 0.25))
            venue.kill()
            tries(1)
        assert_kept(venue, acknowledged)
    verify(data)


@pytest.mark.attack("kill -9 during a stop and its snapshot")
def test_kill_during_a_stop_loses_nothing(data: Path, tries: Callable[[int], None]) -> None:
    chance = random.Random(17)
    venue = Venue(data, FLOW)
    acknowledged: set[str] = set()
    try:
        for round_number in range(40 if FULL else 6):
            venue.start()
            assert acknowledged <= open_orders(venue)
            acknowledged |= enter(venue, 20, 1000 + 20 * round_number)
            assert venue.process is not None
            venue.process.terminate()
            time.sleep(chance.uniform(0, 0.05))
            venue.kill()
            tries(1)
        assert_kept(venue, acknowledged)
    finally:
        if venue.alive():
            venue.kill()
    verify(data)


def segments(data: Path) -> list[Path]:
    return sorted(data.glob("journal-*.seg"))


def start_is_refused(data: Path, word: str) -> None:
    command = [BINARY, "up", "--data", data, "--http", "127.0.0.1:0", "--no-flow", "--warm-up", "0"]
    # The child inherits the ignored signals of Python: see `limited_files`.
    ended = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE_S, restore_signals=False, check=False
    )
    assert ended.returncode == 1 and word in ended.stderr, (ended.returncode, ended.stderr)
    assert "panicked" not in ended.stderr, ended.stderr


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data directory of a stopped venue with acknowledged orders. Tests damage copies of it."""
    data = tmp_path_factory.mktemp("stopped") / "data"
    with Venue(data, FLOW) as venue:
        enter(venue, 200)
        assert venue.stop() == 0
    return data


def written_bytes(segment: Path) -> int:
    """The number of bytes before the preallocated zeros."""
    return len(segment.read_bytes().rstrip(b"\0"))


@pytest.mark.attack("damaged byte of the journal")
def test_damaged_segment_is_never_read_as_good(stopped: Path, tmp_path: Path, tries: Callable[[int], None]) -> None:
    """`verify` reports a changed byte of the written part, and names its segment."""
    chance = random.Random(18)
    first = segments(stopped)[0]
    extent = written_bytes(first)
    for number in range(40 if FULL else 6):
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(stopped, copy)
        at = chance.randrange(extent)
        content = bytearray((copy / first.name).read_bytes())
        content[at] ^= 1 << chance.randrange(8)
        (copy / first.name).write_bytes(content)
        ended = run_pitwire("verify", copy, "--json")
        assert ended.returncode == 1, (at, ended.stdout, ended.stderr)
        assert first.name in ended.stdout + ended.stderr and "panicked" not in ended.stderr, (at, ended.stderr)
        shutil.rmtree(copy)
        tries(1)


@pytest.mark.attack("foreign, missing or cut segment")
def test_foreign_missing_and_cut_segments_are_refused(
    stopped: Path, tmp_path: Path, tries: Callable[[int], None]
) -> None:
    with Venue(tmp_path / "other", FLOW) as other:
        enter(other, 200)
        assert other.stop() == 0
    name = segments(stopped)[0].name
    foreign = (tmp_path / "other" / name).read_bytes()

    def replaced(path: Path) -> None:
        path.write_bytes(foreign)

    def cut(path: Path) -> None:
        path.write_bytes(path.read_bytes()[: written_bytes(path) // 2])

    for number, damage in enumerate([replaced, cut, Path.unlink]):
        copy = tmp_path / f"copy-{number}"
        shutil.copytree(stopped, copy)
        for snapshot in copy.glob("snapshot-*"):
            snapshot.unlink()
        damage(copy / name)
        start_is_refused(copy, "journal-")
        tries(1)


@pytest.mark.attack("two swapped segments")
def test_swapped_segments_are_refused(stopped: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(stopped, copy)
    first, *rest = segments(copy)
    # A start prepares the next segment. If there is none, the first one swaps with zeros.
    second = rest[0] if rest else first.with_name(first.name.replace("1", "2"))
    content = second.read_bytes() if rest else b"\0" * len(first.read_bytes())
    second.write_bytes(first.read_bytes())
    first.write_bytes(content)
    start_is_refused(copy, "journal-")


@pytest.mark.attack("damaged snapshot")
def test_start_replays_the_log_when_a_snapshot_is_damaged(stopped: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(stopped, copy)
    with Venue(copy, FLOW) as venue:
        before = open_orders(venue)
        assert venue.stop() == 0
    for snapshot in copy.glob("snapshot-*"):
        content = bytearray(snapshot.read_bytes())
        content[len(content) // 2] ^= 1
        snapshot.write_bytes(content)
    with Venue(copy, FLOW) as venue:
        assert "is damaged" in venue.log_tail(), venue.log_tail()
        assert open_orders(venue) == before and len(before) == 200
        assert venue.stop() == 0


@contextlib.contextmanager
def limited_files(most_bytes: int) -> Iterator[None]:
    """Limits the size of files that child processes write, like a full disk but without a mount.
    Python ignores the signal of this limit, SIGXFSZ. A child that inherits this gets an error from
    the write instead."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.attack("no disk space for a segment at the start")
def test_start_without_room_is_refused_and_leaves_a_usable_directory(data: Path) -> None:
    with limited_files(MEBIBYTE):
        start_is_refused(data, "pitwire")
    with Venue(data, FLOW) as venue:
        assert enter(venue, 1)
        assert venue.stop() == 0
    verify(data)


@contextlib.contextmanager
def full_disk(path: Path) -> Iterator[tuple[Path, Path]]:
    """A small disk that is full, and the file to delete to make room."""
    with small_disk(path, 1) as disk:
        filler = disk / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        yield disk, filler


@pytest.mark.attack("full disk while a key is made")
def test_key_of_the_credentials_is_made_when_the_disk_has_room_again(data: Path, tmp_path: Path) -> None:
    key = tmp_path / "small" / "vault.key"
    with full_disk(key.parent) as (_, filler), Venue(data, [*FLOW, "--key-file", str(key)]) as venue:
        operator, login = Http(venue.address, OPERATOR), {"client_id": "demo-a"}
        refused = operator.call("private/pitwire_rotate_credential", login)["error"]
        assert "No space left" in refused["data"]["reason"], refused
        filler.unlink()
        secret = operator.result("private/pitwire_rotate_credential", login)["client_secret"]
        venue.kill()
        venue.start()
        assert Http(venue.address, Credentials("demo-a", secret)).result("private/get_open_orders") == []
        assert venue.stop() == 0


@pytest.mark.attack("full disk while a key is made")
def test_key_of_the_bus_is_made_when_the_disk_has_room_again(data: Path, tmp_path: Path) -> None:
    with full_disk(tmp_path / "small") as (disk, filler):
        # No server listens at this address. The venue makes the key before it connects.
        options = [*FLOW, "--publish", "nats://127.0.0.1:1", "--bus-key", str(disk / "bus.key")]
        refused = run_pitwire("up", "--data", data, "--http", "127.0.0.1:0", "--warm-up", "0", *options)
        assert refused.returncode == 1 and "No space left" in refused.stderr, refused.stderr
        filler.unlink()
        with Venue(data, options) as venue:
            assert venue.stop() == 0


@pytest.mark.attack("full disk while a key is made")
@pytest.mark.parametrize("most_bytes", [10, 300], ids=["key", "certificate"])
def test_authority_is_whole_or_absent_when_the_disk_is_full(tmp_path: Path, most_bytes: int) -> None:
    ready, directory = tmp_path / "ready.json", tmp_path / "authority"
    command = [BINARY, "publish", "--echo", "--listen", "127.0.0.1:0", "--tls", "--tls-dir", directory]
    command += ["--ready-file", ready]
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes)),
        check=False,
    )
    assert ended.returncode == 1 and "File too large" in ended.stderr, ended.stderr
    assert list(directory.iterdir()) == []
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not ready.exists():
            assert process.poll() is None and time.monotonic() < deadline, process.stderr and process.stderr.read()
            time.sleep(0.01)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.attack("disk space that returns without a new order")
def test_returned_space_is_noticed_without_a_request(tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", 70) as disk, Venue(disk / "data", FLOW) as venue:
        filler = disk / "filler"
        health = Http(venue.address)
        with contextlib.suppress(OSError), filler.open("wb") as file:
            while True:
                file.write(b"\1" * MEBIBYTE)
                file.flush()
        refused: set[str] = set()
        with Ws(venue.ws_url) as member:
            member.login(DEMO_A)
            deadline = time.monotonic() + PATIENCE_S
            while not refused and time.monotonic() < deadline:
                ids = [member.post("private/buy", buy(100 + number % 400)) for number in range(50)]
                answers = [member.receive() for _ in ids]
                refused = {answer["error"]["data"]["name"] for answer in answers if "error" in answer}
                for answer in answers:
                    if "result" in answer:
                        member.call("private/cancel", {"order_id": answer["result"]["order"]["order_id"]})
        assert refused == {"no_space"}
        assert health.get("/healthz").json()["status"] == "cancels_only"
        filler.unlink()
        deadline = time.monotonic() + PATIENCE_S
        # /healthz only shows the state. It does not change it.
        while health.get("/healthz").json()["status"] != "ok":
            assert time.monotonic() < deadline, venue.log_tail()
            time.sleep(0.1)
        assert enter(venue, 1)


def accounts(venue: Venue) -> set[str]:
    listed = Http(venue.address, OPERATOR).result("private/pitwire_get_accounts")
    return {account["name"] for account in listed if not account["closed"]}


def holders(venue: Venue) -> set[str]:
    """The names of the accounts that have credentials."""
    return {held["name"] for held in Http(venue.address, OPERATOR).result("private/pitwire_get_credentials")}


@pytest.mark.attack("full disk while an account is made or closed")
def test_account_and_its_credential_are_made_together_or_not_at_all(tmp_path: Path) -> None:
    """The journal still has room in its prepared segment. The credentials need a new file."""
    # Only the data directory is on the small disk, so a start can write its ready file.
    with small_disk(tmp_path / "data", 70) as data:
        with Venue(data, [*FLOW, "--key-file", str(tmp_path / "vault.key")]) as venue:
            operator, filler = Http(venue.address, OPERATOR), data / "filler"
            operator.result("private/pitwire_create_account", {"name": "bob"})
            with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
                while True:
                    file.write(bytes(4096))
            refused = operator.call("private/pitwire_create_account", {"name": "carol"})["error"]
            assert "No space left" in refused["data"]["reason"], refused
            assert "carol" not in accounts(venue) | holders(venue)
            # Only the journal records that an account is closed, so this needs no new file.
            operator.result("private/pitwire_delete_account", {"name": "bob"})
            venue.kill()
            venue.start()
            assert not {"bob", "carol"} & (accounts(venue) | holders(venue))
            filler.unlink()
            carol = Http(venue.address, OPERATOR).result("private/pitwire_create_account", {"name": "carol"})
            venue.kill()
            venue.start()
            login = Credentials("carol", carol["client_secret"])
            assert Http(venue.address, login).result("private/get_open_orders") == []
            assert "bob" not in holders(venue)
            assert venue.stop() == 0
        verify(data)


# System calls that make changes durable. FULL adds calls that prepare them or answer a client.
STEPS = ["fsync", "fdatasync", "renameat", "renameat2"]
STEPS += ["openat", "write", "pwrite64", "unlinkat", "sendto", "writev"] if FULL else []


def count_steps(venue: Venue, log: Path, work: Callable[[], object]) -> dict[str, int]:
    with traced(venue, "-o", str(log), "-e", f"trace={','.join(STEPS)}"):
        work()
    lines = log.read_text().splitlines()
    return {step: sum(f" {step}(" in line for line in lines) for step in STEPS}


@contextlib.contextmanager
def killed_at(venue: Venue, step: str, number: int) -> Iterator[None]:
    """Kills the venue when one of its threads begins this system call for the n-th time."""
    assert venue.process is not None
    inject = f"inject={step}:signal=SIGKILL:when={number}"
    command = ["strace", "-f", "-o", "/dev/null", "-e", f"trace={step}", "-e", inject]
    tracer = subprocess.Popen([*command, "-p", str(venue.process.pid)], stderr=subprocess.PIPE, text=True)
    try:
        assert tracer.stderr is not None and "attached" in tracer.stderr.readline()
        yield
    finally:
        # strace may wait forever for a thread of a process that was killed.
        tracer.kill()
        tracer.communicate()


@pytest.mark.attack("kill -9 at each step of making and closing an account")
@pytest.mark.parametrize("method", ["create_account", "delete_account"])
def test_kill_between_the_vault_and_the_journal_leaves_both_or_none(
    data: Path, tmp_path: Path, method: str, tries: Callable[[int], None]
) -> None:
    with Venue(data, [*FLOW, "--key-file", str(tmp_path / "vault.key")]) as venue:

        def work(name: str) -> None:
            Http(venue.address, OPERATOR).call(f"private/pitwire_{method}", {"name": name})

        def prepare(name: str) -> None:
            if method == "delete_account":
                Http(venue.address, OPERATOR).result("private/pitwire_create_account", {"name": name})

        prepare("first")
        steps = count_steps(venue, tmp_path / "calls", lambda: work("first"))
        assert steps["renameat"] + steps["renameat2"] > 0, "the vault is written"
        for step, count in steps.items():
            for number in range(1, count + 1):
                name = f"{step}-{number}"
                prepare(name)
                with killed_at(venue, step, number), contextlib.suppress(OSError):
                    work(name)
                venue.kill()
                venue.start()
                assert (name in accounts(venue)) == (name in holders(venue)), (name, venue.log_tail())
                tries(1)
        assert venue.stop() == 0
    verify(data)
