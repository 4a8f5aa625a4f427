"""Prints contracts/rules for people: `scripts/print_rules.py` writes docs/rule-tables.md, `--check` compares."""

import sys
import tomllib
from pathlib import Path
from typing import Any

TOP = Path(__file__).resolve().parent.parent
PAGE = TOP / "docs" / "rule-tables.md"
LETTER = {"accept": "A", "active": "A", "reject": "R", "park": "K", "immediate": "X", "carried": "F"}
BASIS = {"paper": "p", "simulator": "s", "validator": "v", "derived": "d", "inferred": "i"}
SESSION_WORDS = ("enter", "amend", "amend_hidden", "cancel", "park", "breaker", "self_match")
HEAD = """# Who may enter what, and when

Generated from `contracts/rules/` by `scripts/print_rules.py`; a test compares. What the tables mean stands in the
[rulebook](rulebook.md), sections 4 and 5. A accepted and active · K set aside until its session, or, a stop, until it
is elected · X what does not trade at once expires · F those of an earlier day stay, no new ones · R refused. After the
slash where the cell comes from: p the paper, s a third party's JSE gateway, v CoinTossX's validators, d derived from a
rule, i inferred, our decision.
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
    return "\n".join(f"- `{rule['id']}`: {rule['text']} ({rule['source']})" for rule in table["rule"])


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
