"""Attacks of a page in a real browser: web/e2e/origins.test.mjs, on loopback and on an address that
is not loopback. Without TLS a browser says where a page comes from on loopback only."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from attack_table import FULL
from venue import BINARY

WEB = Path(__file__).resolve().parents[2] / "web"
LAN = "10.77.0.1"
IN_NAMESPACE = ["unshare", "-rn", "sh", "-c"]
WITH_LAN = f"ip link set lo up && ip addr add {LAN}/24 dev lo"
PATIENCE_S = 800


def need_browser() -> None:
    if not FULL:
        pytest.skip("`make test-page` runs it; `make attack` runs it for the table")
    chromium = os.environ.get("CHROMIUM", "chromium")
    if shutil.which(chromium) is None:
        pytest.skip(f"{chromium} is not installed; CHROMIUM names another")
    if shutil.which("node") is None or not (WEB / "node_modules/playwright-core").is_dir():
        pytest.skip("node or web/node_modules is missing: make web installs the packages")


@pytest.mark.attack("page of another origin in a browser")
@pytest.mark.timeout(PATIENCE_S + 60)
@pytest.mark.parametrize("host", ["127.0.0.1", LAN], ids=["loopback", "LAN"])
def test_page_of_another_origin_gets_no_token_and_kills_nothing(host: str, tries: Callable[[int], None]) -> None:
    need_browser()
    command = ["node", "--test", str(WEB / "e2e/origins.test.mjs")]
    if host == LAN:
        if subprocess.run([*IN_NAMESPACE, WITH_LAN], capture_output=True, check=False).returncode != 0:
            pytest.skip("this machine gives no network namespace (unshare -rn)")
        command = [*IN_NAMESPACE, f'{WITH_LAN} && exec "$@"', "sh", *command]
    environment = os.environ | {"E2E_HOST": host, "PITWIRE_BIN": str(BINARY), "E2E_PATIENCE": "60000"}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, env=environment, check=False)
    counts = {name: int(number) for name, number in re.findall(r"(pass|fail|skipped) (\d+)", ended.stdout)}
    assert ended.returncode == 0 and counts["pass"] > 0, ended.stdout + ended.stderr
    assert (counts["fail"], counts["skipped"]) == (0, 0), ended.stdout
    tries(counts["pass"])
