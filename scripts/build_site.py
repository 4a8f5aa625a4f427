"""Builds the documentation site: stages the Markdown pages, then runs zensical.

The site is docs/ and three pages from the top of the repository. Links between them stay links. A link to a source
file becomes the file's path as text, because the site does not contain the sources.

    target/docs-venv/bin/python scripts/build_site.py      writes target/site; `make docs` does this
"""

import re
import shutil
import subprocess
import sys
from pathlib import Path

TOP = Path(__file__).resolve().parent.parent
STAGE = TOP / "target/site-source"
TOP_PAGES = ["ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md"]
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s#:]+)(#[^)\s]*)?\)")


def staged_name(source: Path) -> str | None:
    """The place of a file in the site, or None if it is not part of it."""
    name = source.relative_to(TOP)
    if name.parts[0] == "docs":
        return name.relative_to("docs").as_posix()
    return name.name if str(name) in TOP_PAGES else None


def staged_text(source: Path, name: str) -> str:
    """The page with its links rewritten from the repository to the site."""
    up = "../" * name.count("/")

    def rewrite(link: re.Match[str]) -> str:
        text, target, anchor = link.group(1), link.group(2), link.group(3) or ""
        file = (source.parent / target).resolve()
        inside = staged_name(file)
        if inside and file.is_file():
            return f"[{text}]({up}{inside}{anchor})"
        if not file.exists():
            return link.group(0)  # The strict build names it.
        path = str(file.relative_to(TOP))
        return text if path in text else f"{text} (`{path}`)"

    return LINK.sub(rewrite, source.read_text())


def stage(to: Path) -> None:
    """Copies pages, pictures and tables of the site into the directory `to`, which it replaces."""
    shutil.rmtree(to, ignore_errors=True)
    files = [
        *(TOP / "docs").rglob("*.md"),
        *(TOP / "docs").rglob("*.png"),
        *(TOP / "docs").rglob("*.svg"),
        *(TOP / "docs").rglob("*.csv"),
        *(TOP / name for name in TOP_PAGES),
    ]
    for source in files:
        name = staged_name(source)
        assert name is not None
        place = to / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            place.write_text(staged_text(source, name))
        else:
            shutil.copy(source, place)


def main() -> int:
    stage(STAGE)
    zensical = Path(sys.executable).parent / "zensical"
    code = subprocess.run(
        [zensical, "build", "--strict", "--clean", "-f", "mkdocs.yml"], cwd=TOP, check=False
    ).returncode
    if code == 0:
        print("The site is in target/site; open target/site/index.html")
    return code


if __name__ == "__main__":
    sys.exit(main())
