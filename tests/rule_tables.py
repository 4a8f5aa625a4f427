"""The two tables of contracts/rules in Python, and the names of sessions."""

import tomllib
from pathlib import Path

RULES = Path(__file__).resolve().parent.parent / "contracts" / "rules"
TYPES = tomllib.loads((RULES / "order-types.toml").read_text())
SESSIONS_FILE = tomllib.loads((RULES / "sessions.toml").read_text())
BY_TYPE = {(cell["tif"], cell["type"]): cell["answer"] for cell in TYPES["cell"]}
BY_SESSION = {(cell["session"], cell["column"]): cell["answer"] for cell in SESSIONS_FILE["cell"]}
SESSIONS = {session["name"]: session for session in SESSIONS_FILE["session"]}
CALLS = {name for name, session in SESSIONS.items() if session["match"] == "uncross"}
TRIGGERED = {"volatility_auction", "reopening_auction"}
INTERRUPTIONS = {"halt", "halt_and_close", "pause"}
WAITS_FOR = {
    "opg": "opening_auction",
    "atc": "closing_auction",
    "gfx": "intraday_auction",
    "cpx": "closing_price_cross",
}
