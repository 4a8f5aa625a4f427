#!/usr/bin/env python3
"""Draws the pictures of `pitwire tui` in docs/ from a real screen.

    scripts/build-release && .venv/bin/python scripts/tui_pictures.py

It starts a demo venue that has traded for six hours, works the keys, and writes the cells of the
terminal as SVG. PITWIRE_BIN names another binary, as for the tests."""

import re
import sys
import tempfile
from html import escape
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TOP / "tests"))

from rpc import Http  # noqa: E402
from screen_program import Screen, ScreenProgram, Style  # noqa: E402
from venue import BINARY, DEMO_A, OPERATOR, Venue  # noqa: E402

CELL_WIDTH, CELL_HEIGHT, FONT_SIZE, MARGIN = 8.4, 17, 14, 10
BACKGROUND, FOREGROUND = "#16181d", "#d6d9e0"
# The sixteen colours of a terminal, and the two of the bars.
PALETTE = {
    0: "#16181d", 1: "#f2777a", 2: "#8fd18f", 3: "#f5c96b", 4: "#6fa8dc", 5: "#c792ea", 6: "#6ed0e0", 7: "#d6d9e0",
    8: "#7a808c", 9: "#f2777a", 10: "#8fd18f", 11: "#f5c96b", 12: "#6fa8dc", 13: "#c792ea", 14: "#6ed0e0",
    15: "#ffffff", 22: "#123d1c", 52: "#4a1518",
}  # fmt: skip


def colours(style: Style) -> tuple[str, str]:
    """The colour of the text and of the cell."""
    foreground = FOREGROUND if style.foreground is None else PALETTE[style.foreground]
    background = BACKGROUND if style.background is None else PALETTE[style.background]
    return (background, foreground) if style.reversed else (foreground, background)


def svg(screen: Screen, label: str) -> str:
    """Each run of cells of one style is a text of fixed length: no font moves a column."""
    width = screen.columns * CELL_WIDTH + 2 * MARGIN
    height = screen.lines * CELL_HEIGHT + 2 * MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" role="img" '
        f'aria-label="{escape(label)}">',
        f'<rect width="100%" height="100%" rx="8" fill="{BACKGROUND}"/>',
        f'<g font-family="ui-monospace,Menlo,Consolas,DejaVu Sans Mono,monospace" font-size="{FONT_SIZE}">',
    ]
    for number, line in enumerate(screen.cells):
        y = MARGIN + number * CELL_HEIGHT
        column = 0
        while column < len(line):
            style = line[column][1]
            end = column
            while end < len(line) and line[end][1] == style:
                end += 1
            text = "".join(cell for cell, _ in line[column:end])
            foreground, background = colours(style)
            x, length = MARGIN + column * CELL_WIDTH, (end - column) * CELL_WIDTH
            if background != BACKGROUND:
                # The cells of a bar touch each other.
                parts.append(
                    f'<rect x="{x:.1f}" y="{y}" width="{length:.1f}" height="{CELL_HEIGHT}" fill="{background}"/>'
                )
            weight = ' font-weight="bold"' if style.bold else ""
            # Viewers collapse spaces, so each part between two of them is a separate text.
            for part in re.finditer(r"\S+(?: \S+)*", text):
                x, length = MARGIN + (column + part.start()) * CELL_WIDTH, len(part.group()) * CELL_WIDTH
                parts.append(
                    f'<text x="{x:.1f}" y="{y + 13}" textLength="{length:.1f}" lengthAdjust="spacingAndGlyphs" '
                    f'fill="{foreground}"{weight}>{escape(part.group())}</text>'
                )
            column = end
    return "\n".join([*parts, "</g>", "</svg>", ""])


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as home,
        Venue(Path(home) / "data", extra=["--flow-rate", "NPN_ZAR=40"], warm_up="6h") as venue,
    ):
        login = {"PITWIRE_CLIENT_ID": DEMO_A.client_id, "PITWIRE_CLIENT_SECRET": DEMO_A.secret}
        member, operator = Http(venue.address, DEMO_A), Http(venue.address, OPERATOR)
        ticker = member.result("public/ticker", {"instrument_name": "NPN_ZAR"})
        bid, ask = ticker["best_bid_price"], ticker["best_ask_price"]
        for side, price, amount in (
            ("buy", bid - 0.05, 120),
            ("buy", bid - 0.09, 300),
            ("sell", ask + 0.05, 80),
            ("sell", ask + 0.08, 250),
        ):
            member.result(f"private/{side}", {"instrument_name": "NPN_ZAR", "amount": amount, "price": round(price, 2)})
        member.result("private/sell", {"instrument_name": "BTC-PERPETUAL", "amount": 500, "type": "market"})
        command = [BINARY, "tui", "--url", venue.ws_url, "NPN_ZAR"]
        with ScreenProgram(command, 124, 36, **login) as program:
            program.until("connected", "orders 4", "BTC-PERPETUAL", "spread ")
            program.press("c+++t\r")
            program.until(re.compile(r"order +[\d.]+ (µs|ms) p50").search)
            program.read(5.0)
            (TOP / "docs/tui.svg").write_text(svg(program.screen, "pitwire tui: ladder, orders, trades, latencies"))
            program.press("B")
            program.until("buy NPN_ZAR")
            program.read(0.5)
            (TOP / "docs/tui-ticket.svg").write_text(svg(program.screen, "pitwire tui: a ticket"))
            program.press("\x1b")
            program.read(0.5)
            program.press("q")
            program.wait()
        operator.result("private/pitwire_volatility_call", {"instrument_name": "NPN_ZAR", "seconds": 90})
        with ScreenProgram(command, 80, 24, **login) as program:
            program.until("volatility auction ends in", "indicative")
            program.read(8.0)
            (TOP / "docs/tui-auction.svg").write_text(svg(program.screen, "pitwire tui: a call on 80 columns"))
            program.press("q")
            program.wait()
        member.close()
        operator.close()


if __name__ == "__main__":
    main()
