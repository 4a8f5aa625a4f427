"""The rule pages: every cited rule exists, every test that they name exists, and every worked
example follows from the rules. Both engines play the same examples in
crates/scenario/tests/suite/vectors.rs."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import rulebook
from test_vectors import compare
from venue import TOP

RULEBOOK = TOP / "docs" / "rulebook.md"
ORDER_RULES = TOP / "docs" / "order-rules.md"
SCENARIOS = TOP / "docs" / "scenarios.md"
CITING = ["crates", "contracts", "testing", "tests", "web/src", "web/e2e", "web/tests", "docs"]
ENDINGS = {".rs", ".toml", ".py", ".json", ".ts", ".svelte", ".md"}
# The Python reference has no funds, bounds, trade reporting, positions, post-only or collar.
NOT_IN_PYTHON = {"rulebook 17", "rulebook 22", "rulebook 23", "rulebook 24", "order-rules funds, market sell"}
NOT_IN_PYTHON |= {"order-rules funds, cross", "order-rules post-only", "order-rules collar"}
NOT_IN_PYTHON |= {"order-rules quantity", "order-rules price"}

NUMBERED = re.compile(r"rulebook(?::|,? section| section)? (\d+(?:\.\d+)?)", re.IGNORECASE)
STEP = re.compile(r",? (?:steps?|check) (\d+)")
ITEM = re.compile(r", (\d+)\"")
NAMED = re.compile(r"\"rulebook: (\d+), ([a-z][a-z -]+)\"")
ORDER_RULE = re.compile(r"\"order-rules: ([a-z -]+?)(?: (\d+))?\"")
EXAMPLE = re.compile(r"^```json\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def sections(page: Path) -> dict[str, set[str]]:
    """The headings of a page, by number or by lower-case name, with their item numbers and bold
    labels. A subsection's items belong to its section too."""
    found: dict[str, set[str]] = {}
    open_sections: list[str] = []
    code = False
    for line in page.read_text().splitlines():
        code ^= line.startswith("```")
        if heading := re.match(r"(##+) (?:(\d+(?:\.\d+)?)\.? )?(.*)", line):
            level, number, name = heading.groups()
            open_sections = [*open_sections[: len(level) - 2], number or name.lower()]
            found[open_sections[-1]] = set()
        elif not code and open_sections:
            if item := re.match(r"(\d+)\. ", line):
                found[open_sections[-1]].add(item[1])
            for label in re.findall(r"\*\*(.+?)\*\*", line):
                found[open_sections[-1]].add(label.strip(".").lower())
    return found


def rule_exists(book: dict[str, set[str]], number: str, item: str | None) -> bool:
    section, _, rule = number.partition(".")
    if number in book:
        return item is None or item in book[number]
    return item is None and rule in book.get(section, set())


def citations() -> Iterator[tuple[str, int, str]]:
    for folder in CITING:
        for path in sorted((TOP / folder).rglob("*")):
            if path.suffix in ENDINGS and path.is_file() and path != Path(__file__):
                for index, line in enumerate(path.read_text().splitlines(), 1):
                    yield str(path.relative_to(TOP)), index, line


def unknown_rules(lines: Iterator[tuple[str, int, str]]) -> tuple[list[str], int]:
    book, order_rules = sections(RULEBOOK), sections(ORDER_RULES)
    unknown, seen = [], 0
    for path, index, line in lines:
        cited: list[tuple[str, bool]] = []
        for match in NUMBERED.finditer(line):
            rest = line[match.end() :]
            item = STEP.match(rest) or ITEM.match(rest)
            cited.append((match[0], rule_exists(book, match[1], item[1] if item else None)))
        for section, name in NAMED.findall(line):
            cited.append((f"rulebook: {section}, {name}", name in book.get(section, set())))
        for name, item in ORDER_RULE.findall(line):
            known = name in order_rules and (not item or item in order_rules[name])
            cited.append((f"order-rules: {name} {item}", known))
        seen += len(cited)
        unknown += [f"{path}:{index}: {what}" for what, known in cited if not known]
    return unknown, seen


def test_every_cited_rule_exists() -> None:
    unknown, seen = unknown_rules(citations())
    assert unknown == []
    assert seen > 150


def test_a_citation_of_a_missing_rule_is_found() -> None:
    planted = ['"rulebook: 25"', "rulebook 7.9", "rulebook 5.2, step 12", '"rulebook: 14, 9"']
    planted += ['"rulebook: 4, weather"', '"order-rules: weather"', '"order-rules: entering 9"']
    unknown, _ = unknown_rules(("planted", index, line) for index, line in enumerate(planted))
    assert [found.split(":")[1] for found in unknown] == [str(index) for index in range(len(planted))]


def test_every_named_vector_exists() -> None:
    files = (TOP / "contracts" / "vectors" / "rules").glob("*.json")
    vectors = {scenario["name"] for path in files for scenario in json.loads(path.read_text())}
    text = re.sub(r"```.*?```", "", RULEBOOK.read_text(), flags=re.DOTALL)
    brackets = re.findall(r"\[((?:[A-Z]+[\w-]*|not:|to|\s|;)+)\](?!\()", text)
    named = {word for group in brackets for word in re.findall(r"[A-Z]+[\w-]*", group)}
    assert named - vectors == set()
    assert len(named) > 200


def examples() -> list[dict[str, Any]]:
    pages = (page.read_text() for page in (RULEBOOK, ORDER_RULES, SCENARIOS))
    return [json.loads(block) for page in pages for block in EXAMPLE.findall(page)]


def test_worked_examples_follow_from_the_rules() -> None:
    played = [example for example in examples() if example["name"] not in NOT_IN_PYTHON]
    wrong = {e["name"]: list(compare("", e["expect"], rulebook.run(e))) for e in played}
    assert {name: what for name, what in wrong.items() if what} == {}
    assert len(played) == len(examples()) - len(NOT_IN_PYTHON)


def test_every_example_states_an_outcome() -> None:
    for example in examples():
        outcome = [example["expect"].get(key) for key in ("trades", "rejected", "closing", "off_book", "book")]
        assert any(outcome) or any(example["expect"].get("steps", [])), example["name"]


def rules_without_example(page: Path) -> set[str]:
    """The lowest headings of a page, by number or name, that have no worked example below them."""
    parts = re.split(r"^#{2,3} (.*)$", page.read_text(), flags=re.MULTILINE)[1:]
    rules = {heading: body for heading, body in zip(parts[::2], parts[1::2], strict=True) if body.strip()}
    return {heading.split(". ")[-1] for heading, body in rules.items() if "**Example.**" not in body}


def test_every_section_with_rules_has_a_worked_example() -> None:
    # The format of scenarios has its example in scenarios.md. Choices explain rules of other
    # sections. The other two introduce subsections.
    assert rules_without_example(RULEBOOK) == {"Scenarios", "Choices", "Filter and uncross", "Allocation"}
    # The limits that this heading announces have an example each.
    assert rules_without_example(ORDER_RULES) == {"Limits"}


def test_every_example_in_words_names_a_test_that_plays_it() -> None:
    played = re.compile(r"Played(?:, [^,]+,)? by\s+`(\w+)`\s+in\s+`([\w/.]+)`")
    for page in (RULEBOOK, ORDER_RULES):
        for example in page.read_text().split("**Example.**")[1:]:
            words = re.split(r"^#|\*\*Example", example, maxsplit=1, flags=re.MULTILINE)[0]
            if "```json" in words:
                continue
            named = played.search(words)
            assert named, f"{page.name}: no test plays: {words.strip()[:80]}"
            assert f"fn {named[1]}()" in (TOP / named[2]).read_text(), named[0]
