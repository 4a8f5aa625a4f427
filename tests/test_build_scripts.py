"""scripts/build-quick, with a script in the place of Cargo."""

import os
import subprocess
from pathlib import Path

import pytest
from venue import TOP

CARGO = """#!/bin/sh
[ "$*" = "build --locked --profile quick -p pitwire" ] || exit 1
mkdir -p "$CARGO_TARGET_DIR/quick"
[ -e "$CARGO_TARGET_DIR/quick/pitwire" ] || echo quick > "$CARGO_TARGET_DIR/quick/pitwire"
"""


@pytest.fixture
def target(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "cargo").write_text(CARGO)
    (tools / "cargo").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("CARGO_TARGET_DIR", str(tmp_path / "target"))
    return tmp_path / "target"


def build() -> None:
    subprocess.run([TOP / "scripts/build-quick"], check=True, timeout=60)


def release(target: Path, age_s: int) -> Path:
    """A release build beside its debug information. A negative age is in the future."""
    binary = target / "release/pitwire"
    binary.parent.mkdir(parents=True)
    binary.write_text("release\n")
    (target / "release/pitwire.debug").write_text("lines\n")
    seconds = binary.stat().st_mtime - age_s
    os.utime(binary, (seconds, seconds))
    return binary


def test_a_quick_build_is_where_the_documents_say(target: Path) -> None:
    build()
    assert (target / "release/pitwire").read_text() == "quick\n"


def test_a_quick_build_replaces_an_older_release_build_and_its_debug_information(target: Path) -> None:
    binary = release(target, age_s=3600)
    build()
    assert binary.read_text() == "quick\n"
    assert [path.name for path in binary.parent.iterdir()] == ["pitwire"]


def test_a_newer_release_build_stays(target: Path) -> None:
    binary = release(target, age_s=-3600)
    build()
    assert binary.read_text() == "release\n"
    assert (target / "release/pitwire.debug").exists()
