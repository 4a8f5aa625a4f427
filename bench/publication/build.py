"""Builds the peers that this machine can build, and names the missing tools of the others: `python bench/publication/build.py`.

Every peer is then one command with the options of `pitwire publish`: see README.md. What is built is kept; a second run
only asks each tool whether anything has changed.
"""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
UWEBSOCKETS = HERE / "target" / "uwebsockets"
GORILLA = HERE / "target" / "gorilla"


@dataclass(frozen=True)
class Peer:
    name: str
    needs: tuple[str, ...]
    build: Callable[[], None]
    command: tuple[str, ...]
    # Given a listening socket as descriptors 0 and 3, for want of a way to set its congestion control itself.
    wants_socket: bool = False


def run(*command: str | Path, inside: Path = HERE) -> str:
    ended = subprocess.run([str(part) for part in command], cwd=inside, capture_output=True, text=True, check=False)
    if ended.returncode != 0:
        said = ended.stderr + ended.stdout
        last = [line for line in said.splitlines() if "error" in line.lower()][:2]
        raise RuntimeError(f"{Path(command[0]).name} {command[1]} ended with {ended.returncode}: {' '.join(last)}")
    return ended.stdout


def rust() -> None:
    run("cargo", "build", "--release", "--locked")


def bundled_sources() -> Path:
    """Where cargo has put the sources of uWebSockets that the crate bundles."""
    run("cargo", "fetch", "--locked")
    packages = json.loads(run("cargo", "metadata", "--format-version", "1", "--locked"))["packages"]
    manifest = next(package["manifest_path"] for package in packages if package["name"] == "libuwebsockets-sys")
    return Path(manifest).parent / "uWebSockets"


def uwebsockets() -> None:
    server = HERE / "uwebsockets" / "server.cpp"
    if UWEBSOCKETS.exists() and UWEBSOCKETS.stat().st_mtime > server.stat().st_mtime:
        return
    sources = bundled_sources()
    usockets = sources / "uSockets" / "src"
    UWEBSOCKETS.parent.mkdir(exist_ok=True)
    objects = []
    for source in [*sorted(usockets.glob("*.c")), *sorted((usockets / "eventing").glob("epoll_kqueue.c"))]:
        target = UWEBSOCKETS.parent / f"{source.stem}.o"
        run("cc", "-O3", "-DLIBUS_NO_SSL", "-I", usockets, "-c", source, "-o", target)
        objects.append(target)
    flags = ["-O3", "-std=c++20", "-DLIBUS_NO_SSL", "-DUWS_NO_ZLIB", "-pthread"]
    run("c++", *flags, "-I", sources / "src", "-I", usockets, server, *objects, "-o", UWEBSOCKETS)


def gorilla() -> None:
    run("go", "build", "-o", GORILLA, ".", inside=HERE / "gorilla")


def ws() -> None:
    if not (HERE / "ws" / "node_modules" / "ws").exists():
        run("npm", "ci", "--no-audit", "--no-fund", inside=HERE / "ws")


def netty() -> None:
    target = HERE / "netty" / "target"
    source = HERE / "netty" / "src" / "main" / "java" / "Server.java"
    built = target / "classes" / "Server.class"
    if not built.exists() or built.stat().st_mtime < source.stat().st_mtime:
        run("mvn", "--batch-mode", "--quiet", "package", inside=HERE / "netty")


CLASS_PATH = f"{HERE / 'netty' / 'target' / 'classes'}:{HERE / 'netty' / 'target' / 'lib'}/*"
RELEASE = HERE / "target" / "release"

PEERS = [
    Peer("bare loop", ("cargo",), rust, (str(RELEASE / "bare"),)),
    Peer("uWebSockets", ("cargo", "cc", "c++"), uwebsockets, (str(UWEBSOCKETS),)),
    Peer("tokio-tungstenite", ("cargo",), rust, (str(RELEASE / "tungstenite"),)),
    Peer("Gorilla", ("go",), gorilla, (str(GORILLA),)),
    Peer("Netty", ("java", "mvn"), netty, ("java", "-Xmx4g", "-cp", CLASS_PATH, "Server"), wants_socket=True),
    Peer("ws", ("node", "npm"), ws, ("node", str(HERE / "ws" / "server.js")), wants_socket=True),
]


def built(names: set[str] | None = None) -> tuple[list[Peer], dict[str, str]]:
    """The peers that are ready to run, and why each of the others is not."""
    ready, missing = [], {}
    for peer in PEERS:
        if names is not None and peer.name not in names:
            continue
        lacks = [tool for tool in peer.needs if shutil.which(tool) is None]
        if lacks:
            missing[peer.name] = f"{', '.join(lacks)} is not there"
            continue
        try:
            peer.build()
        except RuntimeError as error:
            missing[peer.name] = str(error)
        else:
            ready.append(peer)
    return ready, missing


def main() -> int:
    ready, missing = built(set(sys.argv[1:]) or None)
    for peer in ready:
        print(f"{peer.name}: {' '.join(peer.command)}")
    for name, reason in missing.items():
        print(f"{name}: not built: {reason}", file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
