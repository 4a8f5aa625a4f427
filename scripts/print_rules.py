"""Writes docs/rule-tables.md from contracts/rules. `--check` only compares."""

import sys
import textwrap
import tomllib
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parent.parent
PAGE = TOP / "docs" / "rule-tables.md"
LETTER = {"accept": "A", "active": "A", "reject": "R", "park": "K", "immediate": "X", "carried": "F"}
BASIS = {"paper": "p", "simulator": "s", "validator": "v", "derived": "d", "inferred": "i"}
SESSION_WORDS = ("enter", "amend", "amend_hidden", "cancel", "park", "breaker", "self_match")
HEAD = """# Who may enter what, and when

`scripts/print_rules.py` generates this page from `contracts/rules/`, and a test compares both. The
[rulebook](rulebook.md), sections 4 and 5, says how the engine uses the tables.

| letter | answer | | letter after the slash | origin of the cell |
|---|---|---|---|---|
| A | accepted and active | | p | the CoinTossX paper (arXiv 2102.10925) |
| K | parked until its session; a stop until it is elected | | s | a third party's JSE gateway |
| X | accepted; the part that does not trade at once expires | | v | CoinTossX's validators and their tests |
| F | refused; orders of an earlier day stay | | d | derived from a rule |
| R | refused | | i | inferred: our decision |
"""


def grid(corner: str, rows: list[str], columns: list[str], cells: dict[tuple[str, str], dict[str, Any]]) -> str:
    lines = [f"| {corner} | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for row in rows:
        found = [cells[row, column] for column in columns]
        lines.append(f"| {row} | " + " | ".join(f"{LETTER[c['answer']]}/{BASIS[c['basis']]}" for c in found) + " |")
    return "\n".join(lines)


def permissions(sessions: list[dict[str, Any]]) -> str:
    columns = ["session", *SESSION_WORDS, "match", "publish", "injected at its start", "expires at its end"]
    lines = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for session in sessions:
        marks = ["yes" if session[word] else "no" for word in SESSION_WORDS]
        lists = [", ".join(session[word]) or "none" for word in ("inject", "expire")]
        lines.append("| " + " | ".join([session["name"], *marks, session["match"], session["publish"], *lists]) + " |")
    return "\n".join(lines)


def rules(table: dict[str, Any]) -> str:
    lines = (f"- `{rule['id']}`: {rule['text']} ({rule['source']})" for rule in table["rule"])
    return "\n".join(textwrap.fill(line, 100, subsequent_indent="  ", break_on_hyphens=False) for line in lines)


def page() -> str:
    types = tomllib.loads((TOP / "contracts" / "rules" / "order-types.toml").read_text())
    sessions = tomllib.loads((TOP / "contracts" / "rules" / "sessions.toml").read_text())
    by_type = {(cell["tif"], cell["type"]): cell for cell in types["cell"]}
    by_session = {(cell["session"], cell["column"]): cell for cell in sessions["cell"]}
    names = [session["name"] for session in sessions["session"]]
    tifs, kinds = (list(dict.fromkeys(pair[index] for pair in by_type)) for index in (0, 1))
    parts = [
        HEAD,
        "## Order type x time in force\n",
        grid("tif", tifs, kinds, by_type) + "\n",
        rules(types) + "\n",
        "## Session x time in force\n",
        grid("session", names, tifs, by_session) + "\n",
        "## Session x order type\n",
        grid("session", names, kinds, by_session) + "\n",
        rules(sessions) + "\n",
        "## What each session permits\n",
        permissions(sessions["session"]) + "\n",
    ]
    return "\n".join(parts)


def main() -> int:
    if sys.argv[1:] == ["--check"]:
        if not PAGE.exists() or PAGE.read_text() != page():
            print("docs/rule-tables.md is not what contracts/rules says; run scripts/print_rules.py", file=sys.stderr)
            return 1
        return 0
    PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
