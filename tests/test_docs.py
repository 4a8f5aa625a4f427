"""Every link of the Markdown files and of the site leads somewhere. Prose keeps to 100 columns."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

from venue import TOP, run_pitwire

LINK = re.compile(r"\]\(([^)\s]+)\)")
TUTORIAL = TOP / "docs/tutorials/contributor.md"
CODE = re.compile(r"`[^`]*`")


def pages() -> list[Path]:
    """The Markdown files of the repository."""
    command = ["git", "-C", str(TOP), "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    names = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return [TOP / name for name in names if (TOP / name).exists()]


def prose_lines(page: Path) -> list[tuple[int, str]]:
    """The lines outside of fenced blocks, with their numbers."""
    lines: list[tuple[int, str]] = []
    fenced = False
    for number, line in enumerate(page.read_text().splitlines(), 1):
        if line.startswith("```"):
            fenced = not fenced
        elif not fenced:
            lines.append((number, line))
    return lines


@cache
def anchors(page: Path) -> set[str]:
    """The anchors that a renderer makes of a page's headings."""
    found: set[str] = set()
    for _, line in prose_lines(page):
        heading = re.fullmatch(r"#+ (.*)", line)
        if heading:
            text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading.group(1)).replace("`", "")
            slug = re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
            count = sum(other == slug or re.fullmatch(rf"{re.escape(slug)}-\d+", other) is not None for other in found)
            found.add(f"{slug}-{count}" if count else slug)
        found |= set(re.findall(r'<a (?:id|name)="([^"]+)"', line))
    return found


def name_of(page: Path) -> str:
    return page.relative_to(TOP).as_posix() if page.is_relative_to(TOP) else page.name


def broken_links(page: Path) -> list[str]:
    broken: list[str] = []
    for number, line in prose_lines(page):
        for target in LINK.findall(CODE.sub("", line)):
            if re.match(r"[a-z]+:", target):
                continue
            name, _, anchor = target.partition("#")
            file = (page.parent / name).resolve() if name else page
            if not file.exists():
                broken.append(f"{name_of(page)}:{number}: {target} does not exist")
            elif anchor and file.suffix == ".md" and anchor not in anchors(file):
                broken.append(f"{name_of(page)}:{number}: {target}: no such heading")
    return broken


def test_every_relative_link_and_anchor_exists() -> None:
    broken = [line for page in pages() for line in broken_links(page)]
    assert not broken, "\n".join(broken)


def test_a_broken_link_and_anchor_are_found(tmp_path: Path) -> None:
    other = tmp_path / "other.md"
    other.write_text("# One `two`, three\n\n## Again\n\n## Again\n")
    assert anchors(other) == {"one-two-three", "again", "again-1"}
    page = tmp_path / "page.md"
    page.write_text(
        "[a](other.md#again) [b](https://example.org)\n[c](none.md)\n`[d](none.md)` [e](other.md#nothing)\n"
    )
    assert broken_links(page) == ["page.md:2: none.md does not exist", "page.md:3: other.md#nothing: no such heading"]


def test_every_source_that_a_page_names_exists() -> None:
    path = re.compile(r"`((?:crates|testing|contracts|clients|tests|scripts|xtask|bench)/[\w./-]+)`")
    missing = [
        f"{name_of(page)}:{number}: {name}"
        for page in pages()
        # Decisions describe the tree of their day.
        if "decisions" not in page.parts and page.name != "CHANGELOG.md"
        for number, line in prose_lines(page)
        for name in path.findall(line)
        if not any((folder / name.rstrip("./")).exists() for folder in (TOP, page.parent))
    ]
    assert not missing, "\n".join(missing)


def test_prose_has_at_most_100_columns() -> None:
    too_long = [
        f"{name_of(page)}:{number}"
        for page in pages()
        for number, line in prose_lines(page)
        if len(line) > 100 and not line.startswith(("|", "    "))
    ]
    assert not too_long, "\n".join(too_long)


def test_readme_has_at_most_90_lines() -> None:
    assert len((TOP / "README.md").read_text().splitlines()) <= 90


def shown_commands(page: Path) -> list[str]:
    """The commands of `pitwire` in the page's fenced blocks."""
    blocks = re.findall(r"^```(?:sh|console)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    return [command for line in lines for command in re.findall(r"(?:^|[$&|;] )(pitwire [^|;&#]*)", line)]


@cache
def help_of(words: tuple[str, ...]) -> str:
    return run_pitwire(*words, "--help").stdout


def unknown_options(command: str) -> list[str]:
    words = command.partition(" -- ")[0].split()[1:]
    plain = [word for word in words if re.fullmatch(r"[a-z][a-z-]*", word)]
    # `tape serve`, `trade buy` and the like have a help of their own.
    depth = 3 if plain[:2] == ["operator", "simulation"] else 1 + (plain[0] in ("bench", "tape", "trade", "operator"))
    known = help_of(tuple(plain[:depth]))
    return [word for word in words if word.startswith("--") and word.partition("=")[0] not in known]


def test_every_option_in_a_shown_command_exists() -> None:
    commands = [(page, command) for page in pages() for command in shown_commands(page)]
    assert len(commands) > 40
    unknown = [f"{name_of(page)}: {command}: {word}" for page, command in commands for word in unknown_options(command)]
    assert not unknown, "\n".join(unknown)


def test_the_page_of_the_dialect_lists_the_methods_that_are_served() -> None:
    sources = (TOP / "crates/deribit/src/methods/mod.rs").read_text()
    served = {scope: set(re.findall(rf'\("{scope}/(\w+)"', sources)) for scope in ("public", "private")}
    public, private = re.split("^## Private methods$", (TOP / "docs/dialect.md").read_text(), flags=re.MULTILINE)
    listed = {
        "public": set(re.findall(r"`(\w+)`", public.partition("## Public methods")[2])),
        "private": set(re.findall(r"`(\w+)`", private.partition("## Channels")[0])),
    }
    # API extensions has the venue's additions.
    for scope, names in served.items():
        assert listed[scope] == {name for name in names if not name.startswith("pitwire_")}


def test_every_place_in_the_contributors_table_exists() -> None:
    rows = re.findall(r"^\|[^|]*\| (`crates/[^|]*) \| ([^|]*) \|$", TUTORIAL.read_text(), re.MULTILINE)
    assert len(rows) > 10
    for crates, places in rows:
        for place in re.findall(r"`([^`]+)`", places):
            found = [
                (TOP / crate / folder / place).exists()
                for crate in re.findall(r"`([^`]+)`", crates)
                for folder in ("", "src")
            ]
            assert any(found), f"{place} is not in {crates}"


def test_every_page_is_reached_from_the_index() -> None:
    index = (TOP / "docs/README.md").read_text()
    linked = {(TOP / "docs" / target.partition("#")[0]).resolve() for target in LINK.findall(index)}
    missing = [page.name for page in sorted((TOP / "docs").glob("*.md")) if page.resolve() not in linked]
    assert missing in ([], ["README.md"]), f"docs/README.md does not link: {missing}"


def navigation() -> list[str]:
    """The pages in the navigation of the site, in order."""
    return re.findall(r"^ +- (?:\w+: )?(\S+\.md)$", (TOP / "mkdocs.yml").read_text(), re.MULTILINE)


def test_the_site_has_no_broken_link_and_each_page_once_in_its_navigation(tmp_path: Path) -> None:
    sys.path.insert(0, str(TOP / "scripts"))
    import build_site

    build_site.stage(tmp_path / "site")
    staged = sorted((tmp_path / "site").rglob("*.md"))
    broken = [line for page in staged for line in broken_links(page)]
    assert not broken, "\n".join(broken)
    assert sorted(navigation()) == sorted(page.relative_to(tmp_path / "site").as_posix() for page in staged)
