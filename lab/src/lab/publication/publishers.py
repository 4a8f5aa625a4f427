"""Publisher folders: description, variants, missing tools, build."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from lab.connectors import REPOSITORY, Connector, ConnectorError, Description, read_description

PUBLISHERS = REPOSITORY / "lab" / "publishers"
OURS = "rust-pitwire"
Kind = Literal["echo", "heartbeat", "fan-out", "queue"]


class PublisherDescription(Description):
    """publisher.toml, as contracts/lab-publisher.md defines it."""

    tests: list[Kind]
    # name of a variant -> its command
    variants: dict[str, list[str]] = Field(default_factory=dict)


@dataclass(frozen=True)
class Publisher(Connector):
    """One variant of one folder. The variant is "" for the command `run`."""

    BUILD: ClassVar = "lab publication build"

    description: PublisherDescription

    @property
    def program(self) -> list[str]:
        return self.description.variants[self.variant] if self.variant else self.description.run

    @property
    def stamp(self) -> Path:
        return self.folder / "build" / "built"

    def problem(self) -> str | None:
        """Why the publisher cannot start, or None."""
        found = super().problem()
        if found is None and self.description.build and not self.stamp.exists():
            found = f"not built: run `{self.BUILD} {self.description.name}`"
        return found

    def build(self, log: Path) -> None:
        """Runs the build commands in the publisher's folder.

        # Raises
        ConnectorError if a tool is missing or a command fails. The output is in `log`.
        """
        self.stamp.unlink(missing_ok=True)
        super().build(log)
        self.stamp.parent.mkdir(exist_ok=True)
        self.stamp.touch()


def load(folder: Path) -> list[Publisher]:
    """Reads one publisher's folder. Returns one publisher for each variant.

    # Raises
    ConnectorError if publisher.toml is missing or wrong.
    """
    description = read_description(PublisherDescription, folder / "publisher.toml")
    return [Publisher(description, folder, variant) for variant in ("", *description.variants)]


def load_all(root: Path = PUBLISHERS) -> dict[str, Publisher]:
    """All publishers below `root`, by name.

    # Raises
    ConnectorError if a publisher.toml is wrong.
    """
    found = [publisher for path in sorted(root.glob("*/publisher.toml")) for publisher in load(path.parent)]
    return {publisher.name: publisher for publisher in found}


def build_all(chosen: list[Publisher], report: Callable[[str, str | None], None]) -> list[str]:
    """Builds each folder of `chosen` once, calls `report(folder's name, problem or None)`, and
    returns the names of the folders that were not built."""
    failed = []
    for name, publisher in {p.description.name: p for p in chosen}.items():
        log = REPOSITORY / "lab" / "results" / "build" / f"publisher-{name}.log"
        try:
            publisher.build(log)
        except ConnectorError as error:
            failed.append(name)
            report(name, str(error))
        else:
            report(name, None)
    return failed
