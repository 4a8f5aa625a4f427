"""Attacks on the data directory: files deleted, replaced and swapped, a second writer, a wrong
clock, and a ready file that is another program's document."""

import importlib.util
import json
import os
import resource
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clock_offset import compiled, environment
from rpc import Http
from venue import BINARY, DEMO_A, OPERATOR, Venue, run_pitwire

DAY_S = 86_400
NOTICE_PATIENCE_S = 30.0


def buy(price: int) -> dict[str, object]:
    return {"instrument_name": "NPN_ZAR", "amount": 1, "type": "limit", "price": price}


def start_text(data: Path, *more: str | Path, environ: dict[str, str] | None = None) -> str:
    """The error of an `up` that must be refused with exit code 1."""
    command = [BINARY, "up", "--data", data, "--http", "127.0.0.1:0", "--no-flow", "--warm-up", "0", *more]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environ, check=False)
    assert ended.returncode == 1, (ended.returncode, ended.stderr)
    return ended.stderr


def try_to_buy(venue: Venue, price: int) -> bool:
    """Whether the venue acknowledged an order."""
    try:
        return "result" in Http(venue.address, DEMO_A).call("private/buy", buy(price))
    except OSError:
        return False


def quiet(data: Path, *more: str) -> Venue:
    return Venue(data, ["--no-flow", "--key-file", str(data.parent / "vault.key"), *more])


@pytest.mark.attack("second writer after files were deleted")
def test_deleted_files_admit_no_second_writer(data: Path, tries: Callable[[int], None]) -> None:
    with quiet(data) as venue:
        for pattern in ("lock", "*.json", "snapshot-*", "superblock", "*"):
            for path in data.glob(pattern):
                path.unlink()
            # The venue may have noticed already, and released the directory.
            if venue.alive() and pattern == "lock":
                assert "held by" in start_text(data)
            tries(1)
        assert not try_to_buy(venue, 1000), "it acknowledged an order that no start would find"
        assert venue.wait(NOTICE_PATIENCE_S) == 1


def delete(data: Path) -> None:
    # The venue may create a file while the tree is removed.
    while data.exists():
        shutil.rmtree(data, ignore_errors=True)


def replace(data: Path) -> None:
    data.rename(data.parent / "moved")
    data.mkdir()


def replace_by_copy(data: Path) -> None:
    data.rename(data.parent / "moved")
    shutil.copytree(data.parent / "moved", data)


def replace_segments(data: Path) -> None:
    for segment in data.glob("journal-*.seg"):
        copied = segment.with_suffix(".copy")
        shutil.copy(segment, copied)
        copied.replace(segment)


@pytest.mark.attack("data directory deleted or replaced under a venue")
@pytest.mark.parametrize("damage", [delete, replace, replace_by_copy, replace_segments])
@pytest.mark.parametrize("idle", [True, False], ids=["idle", "by an order"])
def test_displaced_data_directory_stops_the_venue(data: Path, damage: Callable[[Path], None], idle: bool) -> None:
    with quiet(data) as venue:
        assert try_to_buy(venue, 1000)
        damage(data)
        before = {path: path.read_bytes() for path in data.glob("*")} if data.exists() else {}
        assert idle or not try_to_buy(venue, 1001), "it acknowledged an order that no start would find"
        assert venue.wait(NOTICE_PATIENCE_S) == 1
        assert "no longer in its place" in venue.log_tail(), venue.log_tail()
        after = {path: path.read_bytes() for path in data.glob("*")} if data.exists() else {}
        assert damage is replace_segments or after == before, "it wrote into the directory that took the place"


@pytest.mark.attack("another venue's directory in the place of the own one")
def test_directory_of_another_venue_is_not_written(data: Path) -> None:
    with quiet(data) as first:
        data.rename(data.parent / "moved")
        with Venue(data, [*first.extra]) as second:
            assert try_to_buy(second, 1000)
            assert not first.alive() or not try_to_buy(first, 1001)
            assert first.wait(NOTICE_PATIENCE_S) == 1
            assert try_to_buy(second, 1002)
            assert second.stop() == 0
    verified = run_pitwire("verify", data, "--json")
    assert verified.returncode == 0, verified.stderr


@pytest.mark.attack("document of a user named as the ready file")
@pytest.mark.parametrize("kind", ["text", "json", "empty", "directory", "link"])
def test_ready_file_never_replaces_another_file(data: Path, tmp_path: Path, kind: str) -> None:
    path, document = tmp_path / "thesis.json", tmp_path / "document"
    texts = {"text": "three years of work", "json": '{"pid": 7, "chapters": 9}', "empty": ""}
    if kind == "directory":
        path.mkdir()
    elif kind == "link":
        document.write_text('{"pid":1}')
        path.symlink_to(document)
    else:
        path.write_text(texts[kind])
    for command in (
        ["up", "--data", data, "--http", "127.0.0.1:0"],
        ["publish", "--echo", "--listen", "127.0.0.1:0"],
    ):
        ended = run_pitwire(*command, "--ready-file", path, timeout_s=30)
        assert ended.returncode == 1 and str(path) in ended.stderr, ended.stderr
    assert path.is_symlink() or path.is_dir() or path.read_text() == texts[kind]
    assert kind != "link" or document.exists()
    assert not data.exists(), "nothing else was done before"


@pytest.mark.attack("clock of the machine wrong at the start")
def test_implausible_clock_needs_consent(data: Path, tmp_path: Path, tries: Callable[[int], None]) -> None:
    library = compiled(tmp_path)
    with quiet(data) as venue:
        assert try_to_buy(venue, 1000)
        assert venue.stop() == 0
    for offset_s, word in ((2 * DAY_S, "after"), (80_000 * DAY_S, "after"), (-DAY_S, "before")):
        refused = start_text(data, environ=environment(library, offset_s))
        assert "--accept-clock" in refused and word in refused, refused
        tries(1)


@pytest.mark.attack("start 80,000 days later")
def test_start_in_a_far_future_neither_hangs_nor_eats_memory(data: Path, tmp_path: Path) -> None:
    library = compiled(tmp_path)
    with quiet(data) as venue:
        assert try_to_buy(venue, 1000)
        assert venue.stop() == 0
    ready = tmp_path / "later.json"
    command = [BINARY, "up", "--data", data, "--http", "127.0.0.1:0", "--no-flow", "--accept-clock"]
    command += ["--ready-file", ready, "--key-file", tmp_path / "vault.key"]
    with (tmp_path / "later.log").open("wb") as log:
        later = subprocess.Popen(command, stdout=log, stderr=log, env=environment(library, 80_000 * DAY_S))
    try:
        deadline = time.monotonic() + 60
        while not ready.exists():
            assert later.poll() is None, (tmp_path / "later.log").read_text()
            assert time.monotonic() < deadline, "it hangs"
            time.sleep(0.05)
        status = Path(f"/proc/{later.pid}/status").read_text()
        peak_kib = int(status.split("VmHWM:")[1].split()[0])
        assert peak_kib < 512 * 1024, f"{peak_kib} KiB"
    finally:
        later.kill()
        later.wait()


@pytest.mark.attack("sealed credentials of another journal")
def test_credential_opens_only_the_account_that_it_was_made_for(data: Path, tmp_path: Path) -> None:
    """An operator restores the journal of an earlier day and keeps the newer credentials."""

    def create(venue: Venue, name: str) -> dict[str, str]:
        return Http(venue.address, OPERATOR).result("private/pitwire_create_account", {"name": name})

    with quiet(data) as venue:
        assert venue.stop() == 0
        shutil.copytree(data, tmp_path / "earlier")
        venue.start()
        carol = create(venue, "carol")
        assert venue.stop() == 0
        sealed = (data / "credentials.sealed").read_bytes()
        shutil.rmtree(data)
        shutil.copytree(tmp_path / "earlier", data)
        venue.start()
        create(venue, "dave")
        assert venue.stop() == 0
    (data / "credentials.sealed").write_bytes(sealed)
    refused = start_text(data, "--key-file", tmp_path / "vault.key")
    assert "carol" in refused and "dave" in refused, refused
    assert carol["client_secret"] not in refused


@pytest.mark.attack("kill between the vault and the journal")
def test_interrupted_account_creation_leaves_no_credential(data: Path, tmp_path: Path) -> None:
    """The vault is written before the journal: the credential without an account is dropped."""
    with quiet(data) as venue:
        assert venue.stop() == 0
        shutil.copytree(data, tmp_path / "before")
        venue.start()
        operator = Http(venue.address, OPERATOR)
        first = operator.result("private/pitwire_create_account", {"name": "carol"})
        assert venue.stop() == 0
        sealed = (data / "credentials.sealed").read_bytes()
        shutil.rmtree(data)
        shutil.copytree(tmp_path / "before", data)
        (data / "credentials.sealed").write_bytes(sealed)
        venue.start()
        assert "dropped a credential" in venue.log_tail(), venue.log_tail()
        again = Http(venue.address, OPERATOR).result("private/pitwire_create_account", {"name": "carol"})
        assert again["client_secret"] != first["client_secret"]
        login = {"grant_type": "client_credentials", "client_id": "carol"}
        public = Http(venue.address)
        assert "error" in public.call("public/auth", login | {"client_secret": first["client_secret"]})
        assert "result" in public.call("public/auth", login | {"client_secret": again["client_secret"]})
        assert venue.stop() == 0
    verified = run_pitwire("verify", data, "--json")
    assert verified.returncode == 0 and json.loads(verified.stdout)["ok"], verified.stderr


@pytest.mark.attack("account refused after its credential was stored")
def test_refused_account_leaves_no_credential(data: Path, tmp_path: Path) -> None:
    with quiet(data, "--no-clients") as venue:
        operator = Http(venue.address, OPERATOR)
        for _ in range(2):
            refused = operator.call("private/pitwire_create_account", {"name": "carol"})["error"]
            assert refused["data"]["name"] == "no_clients", refused
        listed = operator.result("private/pitwire_get_credentials")
        assert "carol" not in {credential["client_id"] for credential in listed}
        assert (data / "credentials.sealed").exists(), "it was stored"
        assert venue.stop() == 0


PLACES = ["configuration.json", "credentials.sealed", "lock", "superblock", "journal-00000001.seg"]


def put_pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


def put_directory(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def put_link(path: Path) -> None:
    moved = path.parent.parent / f"elsewhere-{path.name}"
    path.rename(moved)
    path.symlink_to(moved)


@pytest.mark.attack("pipe, directory or link in the place of a file")
def test_place_of_a_file_is_checked_by_start_and_backup(
    data: Path, tmp_path: Path, tries: Callable[[int], None]
) -> None:
    with quiet(data) as venue:
        Http(venue.address, OPERATOR).result("private/pitwire_create_account", {"name": "carol"})
        assert venue.stop() == 0
    cases = [(name, put) for name in PLACES for put in (put_pipe, put_directory)]
    # A start follows a link to a file that only it reads.
    cases += [(name, put_link) for name in PLACES[3:]]
    for number, (name, put) in enumerate(cases):
        copy = tmp_path / f"{number}" / "data"
        shutil.copytree(data, copy)
        put(copy / name)
        refused = start_text(copy, "--key-file", tmp_path / "vault.key")
        assert f"{copy / name} is a " in refused and "expected a regular file" in refused, refused
        assert "put the file itself in its place" in refused, refused
        assert not (copy / name).is_file() or put is put_link
        tries(1)
    for number, (name, put) in enumerate([*cases, ("configuration.json", put_link), ("unknown", put_pipe)]):
        copy = tmp_path / f"backup-{number}" / "data"
        shutil.copytree(data, copy)
        put(copy / name)
        ended = run_pitwire("backup", copy, copy.parent / "to", timeout_s=60)
        assert ended.returncode == 1 and f"{copy / name} is a " in ended.stderr, (name, ended.stderr)
        assert not (copy.parent / "to").exists()
        tries(1)


@pytest.mark.attack("pipe in the place of a key or a certificate")
def test_pipe_for_a_key_is_refused_at_once(data: Path, tmp_path: Path, tries: Callable[[int], None]) -> None:
    """A venue that opened it would wait for another process."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe, mode=0o600)
    with quiet(data, "--tls", "127.0.0.1:0") as venue:
        Http(venue.address, OPERATOR).result("private/pitwire_create_account", {"name": "carol"})
        assert venue.stop() == 0
    key, tls = ["--key-file", tmp_path / "vault.key"], ["--tls", "127.0.0.1:0"]
    bus = ["--publish", "nats://127.0.0.1:1", "--bus-key", pipe]
    for options in (["--key-file", pipe], [*key, *bus], [*key, *tls, "--tls-cert", pipe, "--tls-key", pipe]):
        refused = start_text(data, *options)
        assert str(pipe) in refused and "not a regular file" in refused, refused
        tries(1)
    of_authority = data / "tls" / "ca-key.pem"
    put_pipe(of_authority)
    of_authority.chmod(0o600)
    refused = start_text(data, *key, *tls)
    assert str(of_authority) in refused and "not a regular file" in refused, refused
    tries(1)


def backed_up(data: Path, to: Path) -> None:
    done = run_pitwire("backup", data, to)
    assert done.returncode == 0, done.stderr


@pytest.mark.attack("backup while the venue trades")
def test_backup_of_a_running_venue_restores_to_one_moment(data: Path, tmp_path: Path) -> None:
    """The restored venue has every order acknowledged before the backup began, and its members."""
    with Venue(data, ["--key-file", str(tmp_path / "vault.key")]) as venue:
        carol = Http(venue.address, OPERATOR).result("private/pitwire_create_account", {"name": "carol"})
        kept = [Http(venue.address, DEMO_A).result("private/buy", buy(1000 + n))["order"]["order_id"] for n in range(5)]
        backed_up(data, tmp_path / "copy")
        assert venue.alive() and try_to_buy(venue, 1100)
        venue.kill()
    shutil.rmtree(data)
    restored = run_pitwire("restore", tmp_path / "copy", data)
    assert restored.returncode == 0, restored.stderr
    assert "--key-file" in restored.stdout, "it says that the key is elsewhere"
    with quiet(data) as venue:
        orders = {order["order_id"] for order in Http(venue.address, DEMO_A).result("private/get_open_orders")}
        assert set(kept) <= orders
        login = {"grant_type": "client_credentials", "client_id": "carol", "client_secret": carol["client_secret"]}
        assert "result" in Http(venue.address).call("public/auth", login)
        assert venue.stop() == 0
    verified = run_pitwire("verify", data, "--json")
    assert verified.returncode == 0, verified.stderr


@pytest.mark.attack("damaged or foreign backup")
def test_restore_refuses_a_changed_backup_and_overwrites_nothing(
    data: Path, tmp_path: Path, tries: Callable[[int], None]
) -> None:
    with quiet(data) as venue:
        assert try_to_buy(venue, 1000)
        assert venue.stop() == 0
    copy, target = tmp_path / "copy", tmp_path / "restored"
    backed_up(data, copy)
    assert run_pitwire("backup", data, copy).returncode == 1, "a backup is not overwritten"
    assert run_pitwire("restore", copy, data).returncode == 1, "a data directory is not overwritten"
    assert run_pitwire("restore", data, target).returncode == 1, "a data directory is not a backup"
    for path in sorted(copy.iterdir()):
        before = path.read_bytes()
        for damaged in (None, before[:-1], before[:100] + bytes([before[100] ^ 1]) + before[101:]):
            if damaged is None:
                path.unlink()
            else:
                path.write_bytes(damaged)
            refused = run_pitwire("restore", copy, target)
            assert refused.returncode == 1 and not target.exists(), (path.name, refused.stderr)
            path.write_bytes(before)
            tries(1)
    manifest = json.loads((copy / "backup.json").read_text())
    manifest["files"][0]["name"] = "../outside"
    (copy / "backup.json").write_text(json.dumps(manifest))
    assert run_pitwire("restore", copy, target).returncode == 1
    assert not any(".unfinished-" in path.name for path in tmp_path.iterdir())


def golden() -> Any:
    """BLAKE3 and CRC-32C as written for the golden vectors. Python has no others."""
    source = Path(__file__).parents[2] / "crates" / "journal" / "tests" / "golden.py"
    spec = importlib.util.spec_from_file_location("golden", source)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def blake3(content: bytes) -> bytes:
    digest: bytes = golden().blake3(content)
    return digest


def crc32c(content: bytes | bytearray) -> bytes:
    checksum: int = golden().crc32c(bytes(content))
    return checksum.to_bytes(4, "little")


@pytest.mark.attack("snapshot forged with a right hash")
def test_forged_snapshot_is_not_used(data: Path, tries: Callable[[int], None]) -> None:
    with quiet(data) as venue:
        Http(venue.address, DEMO_A).result("private/buy", buy(1000) | {"label": "genuine"})
        assert venue.stop() == 0
        newest = max(data.glob("snapshot-*.snap"))
        body = newest.read_bytes()[:-32]
        assert newest.read_bytes()[-32:] == blake3(body), "the hash at the end of the file"
        assert b"genuine" in body
        forged = body.replace(b"genuine", b"changed")
        newest.write_bytes(forged + blake3(forged))
        venue.start()
        tries(1)
        orders = Http(venue.address, DEMO_A).result("private/get_open_orders")
        assert [order["label"] for order in orders] == ["genuine"]
        refusal = f"{newest.name} was not used: its hash is not the one that the superblock names"
        assert refusal in venue.log_file.read_text()


SLOT_BYTES, HEADER_BYTES = 4096, 128


def later_snapshot(content: bytes, version: bytes) -> bytes:
    body = content[:8] + version + content[10:-32]
    return body + blake3(body)


def later_superblock(content: bytes, version: bytes) -> bytes:
    """Both slots, each with its checksum at byte 12."""
    out = b""
    for at in range(0, len(content), SLOT_BYTES):
        slot = bytearray(content[at : at + SLOT_BYTES])
        slot[8:10], slot[12:16] = version, bytes(4)
        slot[12:16] = crc32c(slot)
        out += slot
    return out


def later_segment(content: bytes, version: bytes) -> bytes:
    """The header of the first group, with its checksum at the end."""
    header = bytearray(content[:HEADER_BYTES])
    header[8:10] = version
    header[124:] = crc32c(header[:120])
    return bytes(header) + content[HEADER_BYTES:]


@pytest.mark.attack("data directory of a later build")
def test_refusal_of_a_later_build_names_the_right_versions(
    data: Path, tmp_path: Path, tries: Callable[[int], None]
) -> None:
    """Snapshots have another version than the other files. The files of this build say which."""
    with quiet(data) as venue:
        assert try_to_buy(venue, 1000)
        assert venue.stop() == 0
    for name, alter in (
        (max(path.name for path in data.glob("snapshot-*.snap")), later_snapshot),
        ("superblock", later_superblock),
        ("journal-00000001.seg", later_segment),
    ):
        copy = tmp_path / f"copy-{name}"
        shutil.copytree(data, copy)
        content = (copy / name).read_bytes()
        known = int.from_bytes(content[8:10], "little")
        (copy / name).write_bytes(alter(content, (known + 5).to_bytes(2, "little")))
        ended = run_pitwire("verify", copy)
        says = f"{name} has format version {known + 5}; this build knows {known} (start the newer build"
        assert ended.returncode == 1 and says in ended.stdout + ended.stderr, ended.stdout + ended.stderr
        # A start reads the log from the last snapshot on.
        if name != "journal-00000001.seg":
            assert says in start_text(copy), name
        tries(1)


@pytest.mark.attack("file size limit below a segment")
def test_file_size_limit_is_an_error_and_no_signal(data: Path) -> None:
    limit = 1 << 20
    command = [BINARY, "up", "--data", data, "--http", "127.0.0.1:0", "--no-flow", "--warm-up", "0"]
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)),
    )
    assert ended.returncode == 1, (ended.returncode, ended.stderr)
    assert "journal-00000001.seg" in ended.stderr and "File too large" in ended.stderr, ended.stderr
