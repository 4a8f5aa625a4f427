"""A wall clock that is wrong by a given number of seconds, for one process."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SOURCE = Path(__file__).with_name("clock_offset.c")


def compiled(directory: Path) -> Path:
    """The shared object to preload. Rust needs a C compiler to link, so one is there."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler")
    library = directory / "clock_offset.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, SOURCE], check=True)
    return library


def environment(library: Path, offset_s: int) -> dict[str, str]:
    return os.environ | {"LD_PRELOAD": str(library), "CLOCK_OFFSET_S": str(offset_s)}
