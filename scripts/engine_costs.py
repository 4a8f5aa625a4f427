"""Instructions per operation of the engine, with each feature off and on: `scripts/engine_costs.py
[EXAMPLE]`. Needs valgrind; builds the example `costs` unless its path is given. Prints the table of
docs/engine-costs.md."""

import re
import subprocess
import sys
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
EXAMPLE = TOP / "target" / "release" / "examples" / "costs"
BUILD = ["cargo", "build", "--locked", "--release", "-q", "-p", "pitwire-engine", "--example", "costs"]


def instructions(example: Path, feature: str, operation: str) -> float:
    """Instructions inside `measured` per operation, counted by callgrind."""
    command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", "--collect-atstart=no"]
    command += ["--toggle-collect=*measured*", str(example), feature, operation]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    collected = re.search(r"Collected : (\d+)", done.stderr)
    if collected is None:
        raise RuntimeError(f"callgrind counted nothing of {feature}, {operation}")
    return int(collected[1]) / int(done.stdout)


def main() -> None:
    if len(sys.argv) > 1:
        example = Path(sys.argv[1])
    else:
        subprocess.run(BUILD, cwd=TOP, check=True)
        example = EXAMPLE
    rows = subprocess.run([example], capture_output=True, text=True, check=True).stdout.splitlines()
    pairs = [row.split("\t") for row in rows]
    with ThreadPoolExecutor(max_workers=2) as pool:
        counts = list(pool.map(lambda pair: instructions(example, *pair), pairs))
    table: dict[str, dict[str, float]] = defaultdict(dict)
    for (feature, operation), count in zip(pairs, counts, strict=True):
        table[feature][operation] = count
    operations = list(dict.fromkeys(operation for _, operation in pairs))
    print(f"| feature | {' | '.join(operations)} |")
    print(f"|---|{'---:|' * len(operations)}")
    for feature, cells in table.items():
        shown = [f"{cells[operation]:.0f}" if operation in cells else "" for operation in operations]
        print(f"| {feature} | {' | '.join(shown)} |")


if __name__ == "__main__":
    main()
