"""Checks connectors: `python3 -m conform [--short] [--only CHECK]... NAME...`, from `lab/`.

Exit code 0: every connector passes. 1: one does not. 2: one is unknown. A connector whose tools are
missing is skipped by name.
"""

import argparse
import sys
from pathlib import Path

from conform import BadConnector, Check, Connector, check
from conform.checks import CHECKS
from conform.connector import CONNECTORS


def main() -> int:
    parser = argparse.ArgumentParser(prog="conform", description=__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME", help="folder in lab/connectors, or a path")
    parser.add_argument("--short", action="store_true", help="fewer messages, for a loaded machine")
    parser.add_argument("--only", action="append", choices=list(CHECKS), help="run only this check")
    parser.add_argument("--no-build", action="store_true", help="do not run the build commands")
    arguments = parser.parse_args()
    passed = True
    for name in arguments.names:
        folder = Path(name) if "/" in name else CONNECTORS / name
        try:
            connector = Connector.load(folder)
            if missing := connector.missing():
                print(f"{name}: skipped, because this machine lacks {', '.join(missing)}")
                continue
            if not arguments.no_build:
                connector.make(lambda line: print(f"  {line}", flush=True))
            results = check(folder, arguments.short, show, arguments.only)
        except BadConnector as error:
            print(f"{name}: {error}", file=sys.stderr)
            return 2
        failures = [result.name for result in results if not result.ok]
        passed = passed and not failures
        print(f"{name}: {'passes' if not failures else 'fails: ' + ', '.join(failures)}", flush=True)
    return 0 if passed else 1


def show(result: Check) -> None:
    print(f"  {'ok  ' if result.ok else 'FAIL'}  {result.name:<16} {result.detail}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
