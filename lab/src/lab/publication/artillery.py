"""The second load generator: Artillery from npm, for a cross-check of one row."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from lab.connectors import REPOSITORY
from lab.process import RunError, run_to_end
from lab.publication.publishers import Publisher
from lab.publication.server import LOAD_TIMEOUT_S, Figures
from lab.publication.workload import RunningPublisher, Workload

FOLDER = REPOSITORY / "lab" / "artillery"
BUILD_TIMEOUT_S = 600.0


def problem() -> str | None:
    """Why Artillery cannot run, or None."""
    missing = [tool for tool in ("node", "npm") if shutil.which(tool) is None]
    if missing:
        return f"missing {', '.join(missing)}"
    if not (FOLDER / "node_modules" / "@artilleryio").exists():
        return "Artillery is not installed: run `lab publication build`"
    return None


def install() -> str | None:
    """Installs Artillery from its lock file. Returns the problem, or None."""
    if shutil.which("npm") is None:
        return "missing npm"
    command = ["npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts", "--loglevel=error"]
    try:
        found = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=BUILD_TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"npm did not run: {error}"
    return None if found.returncode == 0 else f"npm ended with {found.returncode}: {found.stderr.strip()[-300:]}"


def measure(
    publisher: Publisher,
    workload: Workload,
    folder: Path,
    *,
    server_cores: Sequence[int] | None = None,
    load_cores: Sequence[int] | None = None,
) -> Figures:
    """Repeats an echo test with Artillery.

    # Raises
    RunError if the publisher or Artillery fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with RunningPublisher(publisher, workload, folder, cores=server_cores) as server:
        settings = {
            "ECHO_URL": f"ws://{server.address}/",
            "ECHO_CONNECTIONS": str(workload.connections),
            "ECHO_RATE": str(workload.rate),
            "ECHO_SECONDS": str(workload.seconds),
            "ECHO_BYTES": str(workload.bytes),
        }
        cpu_before = server.cpu_ns()
        with (folder / "artillery.log").open("w") as errors:
            code, output = run_to_end(
                "Artillery",
                ["node", "echo.js"],
                cores=load_cores,
                folder=FOLDER,
                settings=settings,
                stderr=errors,
                timeout_s=LOAD_TIMEOUT_S,
            )
        if code != 0:
            text = (folder / "artillery.log").read_text().strip() or "no message"
            raise RunError(f"Artillery ended with {code}: {text[-300:]}")
        server_cpu_s = (server.cpu_ns() - cpu_before) / 1e9
        own = {"server_cpu_s": server_cpu_s, "worker_cpu_s": server.worker_cpu_s()}
        return json.loads(output.splitlines()[-1]) | own
