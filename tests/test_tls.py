"""`pitwire up --tls`: the same venue over TLS for all kinds of clients, with generated and given
certificates."""

import json
import socket
import ssl
import stat
import subprocess
import time
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import requests
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from venue import BINARY, DEMO_A, Venue, run_pitwire
from websockets.sync.client import connect

PATIENCE_S = 60.0


def secure(data: Path, *extra: str) -> Venue:
    return Venue(data, ["--no-flow", "--tls", "127.0.0.1:0", *extra])


def ready(venue: Venue) -> dict[str, Any]:
    return json.loads(venue.ready_file.read_text())


def trusting(authority: str) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=authority)


def call(url: str, method: str, params: dict[str, Any], **kwargs: Any) -> dict[str, Any]:
    asked = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    answer = requests.post(f"{url}/api/v2", json=asked, timeout=PATIENCE_S, **kwargs)
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


def pair(folder: Path, name: str, from_day: int, to_day: int) -> tuple[Path, Path]:
    """A certificate for localhost, valid between two days counted from now, and its key."""
    certificate, key = folder / f"{name}.pem", folder / f"{name}-key.pem"
    secret, subject = ec.generate_private_key(ec.SECP256R1()), x509.Name.from_rfc4514_string("CN=localhost")
    hosts = x509.SubjectAlternativeName([x509.DNSName("localhost"), x509.IPAddress(ip_address("127.0.0.1"))])
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder(subject, subject, secret.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now + timedelta(from_day)).not_valid_after(now + timedelta(to_day))
    signed = builder.add_extension(hosts, critical=False).sign(secret, hashes.SHA256())
    certificate.write_bytes(signed.public_bytes(Encoding.PEM))
    key.write_bytes(secret.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return certificate, key


def test_both_listeners_lead_to_one_venue(tmp_path: Path) -> None:
    with secure(tmp_path / "data") as venue:
        listening = ready(venue)
        url, authority = f"https://{listening['tls']}", listening["ca"]
        assert requests.get(f"{url}/healthz", verify=authority, timeout=PATIENCE_S).status_code == 200
        with pytest.raises(requests.exceptions.SSLError):
            requests.get(f"{url}/healthz", timeout=PATIENCE_S)
        login = {"grant_type": "client_credentials", "client_id": DEMO_A.client_id, "client_secret": DEMO_A.secret}
        token = call(url, "public/auth", login, verify=authority)["access_token"]
        order = {"instrument_name": "NPN_ZAR", "amount": 3, "type": "limit", "price": 3000.0}
        bearer = {"Authorization": f"Bearer {token}"}
        entered = call(url, "private/buy", order, verify=authority, headers=bearer)["order"]["order_id"]
        # The order is visible in the book over plain HTTP, and a TLS socket is notified.
        book = call(venue.http_url, "public/get_order_book", {"instrument_name": "NPN_ZAR"})
        assert book["bids"] == [[3000.0, 3.0]]
        with connect(f"wss://{listening['tls']}/ws/api/v2", ssl=trusting(authority), open_timeout=PATIENCE_S) as ws:
            params = {"channels": ["book.NPN_ZAR.100ms"]}
            asked = {"jsonrpc": "2.0", "id": 2, "method": "public/subscribe", "params": params}
            ws.send(json.dumps(asked))
            received = [json.loads(ws.recv(timeout=PATIENCE_S)) for _ in range(2)]
            assert received[1]["params"]["data"]["bids"] == [["new", 3000.0, 3.0]]
            call(venue.http_url, "private/cancel", {"order_id": entered}, headers=bearer)
            change = json.loads(ws.recv(timeout=PATIENCE_S))["params"]["data"]
            assert change["bids"] == [["delete", 3000.0, 0.0]]
        # A large answer: the page and its script.
        page = requests.get(f"{url}/", verify=authority, timeout=PATIENCE_S)
        assert page.status_code in (200, 404)


def test_streams_by_url_come_over_tls_too(tmp_path: Path) -> None:
    with secure(tmp_path / "data") as venue:
        listening = ready(venue)
        login = {"grant_type": "client_credentials", "client_id": DEMO_A.client_id, "client_secret": DEMO_A.secret}
        bearer = {"Authorization": f"Bearer {call(venue.http_url, 'public/auth', login)['access_token']}"}
        url = f"wss://{listening['tls']}/ws/npnzar@bookTicker"
        with connect(url, ssl=trusting(listening["ca"]), open_timeout=PATIENCE_S) as ws:
            received = []
            for price in (3000.0, 3001.0):
                order = {"instrument_name": "NPN_ZAR", "amount": 3, "type": "limit", "price": price}
                call(venue.http_url, "private/buy", order, headers=bearer)
                while not received or float(received[-1].get("b", 0)) != price:
                    received.append(json.loads(ws.recv(timeout=PATIENCE_S)))
            assert received[-1]["s"] == "NPNZAR"


def test_the_authority_is_made_once_and_its_key_is_its_owners(tmp_path: Path) -> None:
    with secure(tmp_path / "data") as venue:
        first = Path(ready(venue)["ca"]).read_text()
        assert "curl --cacert" in venue.log_tail()
        venue.stop()
    key = tmp_path / "data/tls/ca-key.pem"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert stat.S_IMODE(key.parent.stat().st_mode) == 0o700
    with secure(tmp_path / "data") as venue:
        listening = ready(venue)
        assert Path(listening["ca"]).read_text() == first
        # A client that trusted the authority before trusts its new certificates, by name and by
        # address.
        for host in ("127.0.0.1", "localhost"):
            url = f"https://{host}:{listening['tls'].rpartition(':')[2]}/healthz"
            assert requests.get(url, verify=listening["ca"], timeout=PATIENCE_S).ok
        venue.stop()
    key.chmod(0o644)
    ended = run_pitwire("up", "--data", tmp_path / "data", "--http", "127.0.0.1:0", "--tls", "127.0.0.1:0")
    assert (ended.returncode, "others may read it (mode 644) (chmod 600 it)" in ended.stderr) == (1, True), ended.stderr


def test_a_session_is_resumed(tmp_path: Path) -> None:
    with secure(tmp_path / "data") as venue:
        listening = ready(venue)
        host, _, port = listening["tls"].rpartition(":")
        context, session = trusting(listening["ca"]), None
        for reused in (False, True, True):
            with (
                socket.create_connection((host, int(port)), PATIENCE_S) as raw,
                context.wrap_socket(raw, server_hostname="localhost", session=session) as tls,
            ):
                tls.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                while tls.recv(4096):
                    pass
                assert tls.session_reused == reused
                session = tls.session


def test_a_certificate_that_was_given_is_shown(tmp_path: Path) -> None:
    certificate, key = pair(tmp_path, "own", -1, 3)
    files = ["--tls-cert", str(certificate), "--tls-key", str(key)]
    with secure(tmp_path / "data", *files, "--durability", "memory") as venue:
        listening = ready(venue)
        assert "ca" not in listening
        assert requests.get(f"https://{listening['tls']}/healthz", verify=str(certificate), timeout=PATIENCE_S).ok


@pytest.mark.parametrize(
    ("flags", "code", "printed"),
    [
        (["--tls-cert", "good.pem", "--tls-key", "other-key.pem"], 1, "the key does not match the certificate"),
        (["--tls-cert", "old.pem", "--tls-key", "old-key.pem"], 1, "old.pem: the certificate expired on "),
        (["--tls-cert", "good-key.pem", "--tls-key", "good-key.pem"], 1, "holds no certificate in PEM form"),
        (["--tls-cert", "good.pem", "--tls-key", "good.pem"], 1, "holds no private key in PEM form"),
        (["--tls-cert", "absent.pem", "--tls-key", "good-key.pem"], 1, "cannot read absent.pem"),
        (["--tls-cert", "good.pem"], 2, "--tls-key"),
        (["--durability", "memory"], 2, "--tls-cert"),
    ],
)
def test_output_that_cannot_be_shown_is_one_line_of_error(
    tmp_path: Path, flags: list[str], code: int, printed: str
) -> None:
    pair(tmp_path, "good", -1, 3)
    pair(tmp_path, "other", -1, 3)
    pair(tmp_path, "old", -9, -2)
    flags = [str(tmp_path / flag) if flag.endswith(".pem") and "absent" not in flag else flag for flag in flags]
    ended = run_pitwire("up", "--data", tmp_path / "data", "--http", "127.0.0.1:0", "--tls", "127.0.0.1:0", *flags)
    assert (ended.returncode, printed in ended.stderr) == (code, True), ended.stderr
    assert code == 2 or len(ended.stderr.strip().splitlines()) == 1, ended.stderr
    assert not (tmp_path / "data").exists(), "nothing was touched"


def test_a_port_in_use_is_named(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        ended = run_pitwire("up", "--data", tmp_path / "data", "--http", "127.0.0.1:0", "--tls", address)
    assert ended.returncode == 1
    assert f"cannot listen on {address}" in ended.stderr
    assert "--tls" in ended.stderr


def test_silent_connections_do_not_stop_other_clients(tmp_path: Path) -> None:
    with secure(tmp_path / "data") as venue:
        listening = ready(venue)
        host, _, port = listening["tls"].rpartition(":")
        idle = [socket.create_connection((host, int(port)), PATIENCE_S) for _ in range(30)]
        for one in idle[:10]:
            one.sendall(b"\x16\x03\x01\x02\x00\x01")
        for one in idle[10:20]:
            one.sendall(b"GET / HTTP/1.1\r\n\r\n")
        begun = time.monotonic()
        assert requests.get(f"https://{listening['tls']}/healthz", verify=listening["ca"], timeout=PATIENCE_S).ok
        assert time.monotonic() - begun < PATIENCE_S
        for one in idle:
            one.close()


def test_publish_serves_readers_behind_tls(tmp_path: Path) -> None:
    listening = tmp_path / "ready"
    command = [BINARY.absolute(), "publish", "--listen", "127.0.0.1:0", "--synthetic", "200", "--bytes", "190", "--tls"]
    command += ["--tls-dir", "tls", "--ready-file", listening]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, cwd=tmp_path) as publisher:
        try:
            deadline = time.monotonic() + PATIENCE_S
            while not listening.exists() and time.monotonic() < deadline:
                assert publisher.poll() is None
                time.sleep(0.01)
            ready = json.loads(listening.read_text())
            # The reader of the file has another working directory than the publisher.
            assert Path(ready["ca"]) == tmp_path / "tls" / "ca.pem"
            with connect(f"wss://{ready['tls']}/", ssl=trusting(ready["ca"]), open_timeout=PATIENCE_S) as ws:
                numbers = [json.loads(ws.recv(timeout=PATIENCE_S))["seq"] for _ in range(50)]
            assert numbers == list(range(numbers[0], numbers[0] + 50))
            assert requests.get(f"https://{ready['tls']}/healthz", verify=ready["ca"], timeout=PATIENCE_S).ok
        finally:
            publisher.terminate()


def test_publish_says_which_loop_knows_tls(tmp_path: Path) -> None:
    flags = ["--listen", "127.0.0.1:0", "--echo", "--tls", "--tls-dir", str(tmp_path / "tls"), "--loop", "tokio"]
    ended = run_pitwire("publish", *flags)
    assert (ended.returncode, "--tls is served by --loop epoll alone" in ended.stderr) == (2, True), ended.stderr
