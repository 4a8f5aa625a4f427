"""Configuration: applied once, journaled, refused after a change, and reported line by line if
wrong."""

from pathlib import Path

import pytest
from rpc import Http, RpcError
from venue import DEMO_A, OPERATOR, XYZ_MARKET, Credentials, Venue, run_pitwire

XYZ = f"""
{XYZ_MARKET}max_amount = "100"

[[account]]
name = "carol"
balances = [["ZAR", "10000.00"], ["XYZ", "500"]]
"""


def options(data: Path, *more: str) -> list[str]:
    config = data.parent / "pitwire.toml"
    return ["--config", str(config), "--key-file", str(data.parent / "vault.key"), "--no-flow", *more]


def write(data: Path, text: str) -> None:
    data.parent.mkdir(parents=True, exist_ok=True)
    (data.parent / "pitwire.toml").write_text(text)


def shown_secret(venue: Venue, name: str) -> Credentials:
    line = next(line for line in venue.log_file.read_text().splitlines() if f"new login  {name} / " in line)
    return Credentials(name, line.split(" / ")[1].split()[0])


def code_of(http: Http, method: str, params: dict) -> int:
    with pytest.raises(RpcError) as refused:
        http.result(method, params)
    return refused.value.code


def test_a_file_adds_instruments_and_accounts_and_a_restart_keeps_them(data: Path) -> None:
    write(data, XYZ)
    order = {"instrument_name": "XYZ_ZAR", "amount": 100, "price": 12.5}
    with Venue(data, extra=options(data)) as venue:
        carol = shown_secret(venue, "carol")
        http = Http(venue.address, carol)
        http.result("private/buy", order)
        assert code_of(http, "private/buy", order | {"amount": 101}) == 11022
        http.close()
        venue.kill()
    sealed = (data / "credentials.sealed").read_bytes()
    assert carol.secret.encode() not in sealed
    assert (data.parent / "vault.key").stat().st_mode & 0o777 == 0o600
    with Venue(data, extra=options(data)) as venue:
        assert venue.log_file.read_text().count("new login  carol") == 1
        http = Http(venue.address, carol)
        assert http.result("private/get_account_summary", {"currency": "ZAR"})["balance"] == 10_000
        assert len(http.result("private/get_open_orders")) == 1
        http.close()


def test_a_changed_file_is_refused_until_it_is_applied(data: Path) -> None:
    write(data, XYZ)
    with Venue(data, extra=options(data)) as venue:
        venue.stop()
    write(data, XYZ.replace('max_amount = "100"', 'max_amount = "50"') + '\n[[account]]\nname = "dave"\n')
    refused = run_pitwire("up", "--data", data, "--http", "127.0.0.1:0", *options(data))
    assert refused.returncode == 1
    assert "the configuration has changed" in refused.stderr and "--apply-config" in refused.stderr
    assert "new account dave" in refused.stderr
    with Venue(data, extra=options(data, "--apply-config")) as venue:
        http = Http(venue.address, DEMO_A)
        http.result("private/buy", {"instrument_name": "XYZ_ZAR", "amount": 50, "price": 12.5})
        assert code_of(http, "private/buy", {"instrument_name": "XYZ_ZAR", "amount": 51, "price": 12.5}) == 11022
        http.close()
        assert shown_secret(venue, "dave").secret
        venue.stop()
    # After applying it once, the same file needs no option, and the journal holds all of it.
    with Venue(data, extra=options(data)) as venue:
        venue.stop()
    assert run_pitwire("verify", data).returncode == 0
    write(data, XYZ.replace('tick = "0.05"', 'tick = "0.01"'))
    fixed = run_pitwire("up", "--data", data, "--http", "127.0.0.1:0", *options(data, "--apply-config"))
    assert fixed.returncode == 1 and "XYZ_ZAR exists already" in fixed.stderr


def test_changes_by_operators_do_not_count_as_a_changed_configuration(data: Path) -> None:
    write(data, XYZ)
    with Venue(data, extra=options(data)) as venue:
        operator = Http(venue.address, OPERATOR)
        limits = {"max_amount": "7", "max_notional": "1234.5", "collar_percent": "2.5"}
        operator.result("private/pitwire_change_instrument", {"instrument_name": "XYZ_ZAR"} | limits)
        shown = Http(venue.address).result("public/get_instrument", {"instrument_name": "XYZ_ZAR"})
        assert {name: shown[name] for name in limits} == {name: float(text) for name, text in limits.items()}
        plain = Http(venue.address).result("public/get_instrument", {"instrument_name": "NPN_ZAR"})
        assert not limits.keys() & plain.keys(), "no limit is shown where none is set"
        made = operator.result("private/pitwire_create_account", {"name": "erin"})
        operator.close()
        venue.kill()
    with Venue(data, extra=options(data)) as venue:
        erin = Http(venue.address, Credentials(made["client_id"], made["client_secret"]))
        assert erin.result("private/get_open_orders") == []
        erin.close()
        member = Http(venue.address, DEMO_A)
        assert code_of(member, "private/buy", {"instrument_name": "XYZ_ZAR", "amount": 8, "price": 12.5}) == 11022
        member.close()


def test_a_vault_without_its_key_stops_the_start(data: Path) -> None:
    write(data, XYZ)
    with Venue(data, extra=options(data)) as venue:
        venue.stop()
    key = data.parent / "vault.key"
    right = key.read_bytes()
    arguments = ["up", "--data", data, "--http", "127.0.0.1:0", *options(data)]
    for spoil, said in [
        (lambda: key.write_bytes(bytes(32)), "another key"),
        (lambda: key.write_bytes(right[:31]), "is no key"),
        (lambda: (key.write_bytes(right), key.chmod(0o644)), "chmod 600"),
        (key.unlink, "vault.key"),
    ]:
        spoil()
        refused = run_pitwire(*arguments)
        assert refused.returncode == 1 and said in refused.stderr, refused.stderr


def test_a_venue_without_a_home_serves_and_misses_its_key_only_when_it_needs_one(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    with Venue(data, extra=["--no-flow"]) as venue:
        operator = Http(venue.address, OPERATOR)
        with pytest.raises(RpcError) as refused:
            operator.result("private/pitwire_create_account", {"name": "erin"})
        assert "--key-file" in refused.value.error["data"]["reason"]
        operator.close()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('[[instrument]]\nname = "A_B"\ntick = 0.01\n', ["line 3", "tick"]),
        ('[[instrument]]\nname = "A_B"\ncolour = "red"\n', ["line 3", "colour"]),
        ('[[currency]]\nname = "XYZ"\n', ["decimals"]),
        ("[[currency]\n", ["line 1"]),
        (XYZ.replace('"12.50"', '"12.51"'), ["XYZ_ZAR", "start_price", "0.05"]),
        (XYZ.replace('quote = "ZAR"', 'quote = "NONE"'), ["XYZ_ZAR", "quote", "NONE"]),
        (XYZ.replace('"10000.00"', '"10000.001"'), ["carol", "0.01"]),
        (XYZ + "max_executions = 5\n", ["carol", "execution_window_ms"]),
        (XYZ.replace('tick = "0.05"', 'tick = "cheap"'), ["XYZ_ZAR", "tick", "cheap"]),
        (XYZ.replace('tick = "0.05"', 'tick = "0"'), ["XYZ_ZAR", "tick", "above zero"]),
    ],
)
def test_a_mistake_is_reported_with_its_line_or_key(data: Path, text: str, said: list[str]) -> None:
    write(data, text)
    refused = run_pitwire("up", "--data", data, "--http", "127.0.0.1:0", *options(data))
    assert refused.returncode == 1
    assert all(word in refused.stderr for word in said), refused.stderr
    assert "panicked" not in refused.stderr


def test_limits_are_on_where_the_file_has_them(data: Path) -> None:
    write(data, "[limits]\nconnections_per_address = 4\norders_per_second = 1\norders_burst = 3\n")
    with Venue(data, extra=options(data)) as venue:
        http = Http(venue.address, DEMO_A)
        order = {"instrument_name": "NPN_ZAR", "amount": 1, "price": 3000}
        for _ in range(3):
            http.result("private/buy", order)
        assert code_of(http, "private/buy", order) == 10028
        # Cancels have their own allowance.
        assert http.result("private/cancel_all") == 3
        others = [Http(venue.address, DEMO_A) for _ in range(6)]
        statuses = [other.get("/api/v2/public/test").status for other in others]
        assert statuses.count(429) == 3 and statuses.count(200) == 3
        # Health and metrics still answer.
        for path, marks in (("/healthz", b"status"), ("/metrics", b"pitwire_")):
            reply = Http(venue.address).get(path)
            assert reply.status == 200 and marks in reply.body, reply
        for client in [http, *others]:
            client.close()


def test_a_missing_file_is_named(data: Path) -> None:
    refused = run_pitwire("up", "--data", data, "--http", "127.0.0.1:0", "--config", str(data) + ".toml")
    assert refused.returncode == 1 and ".toml" in refused.stderr
