"""Connector folders: description, missing tools, build."""

import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from lab.study import Model, explain, read_toml

REPOSITORY = Path(__file__).resolve().parents[3]
CONNECTORS = REPOSITORY / "lab" / "connectors"
# The floor of the instrument: a receiver that does nothing but read a socket.
REFERENCE = REPOSITORY / "lab" / "reference"
REFERENCE_NAME = "reference-receiver"
CAPTURE_SCHEMA = REPOSITORY / "contracts" / "lab-capture.sql"
BUILD_TIMEOUT_S = 900


class ConnectorError(Exception):
    """A connector that cannot be used. The text says why and what to do."""


class Variant(BaseModel):
    """Other settings of the same program."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    change: str  # the difference to the documented settings
    run: list[str]


class Description(BaseModel):
    """connector.toml, as contracts/lab-connector.md defines it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    language: str
    library: str
    version: str
    tools: list[str]
    packages: list[str] = []
    build: list[list[str]]
    run: list[str]
    busy_wait: bool = False
    tls: bool = False  # offers wss URLs and LAB_CA
    compression: bool | Literal["always"] = False  # offers LAB_COMPRESS; "always": also without it
    variants: dict[str, Variant] = {}


@dataclass(frozen=True)
class Connector:
    """One variant of one folder. The variant is "" for the documented settings."""

    BUILD: ClassVar = "lab build"

    description: Description
    folder: Path
    variant: str = ""

    @property
    def name(self) -> str:
        own = self.description.name
        return f"{own}-{self.variant}" if self.variant else own

    def record(self) -> dict[str, Any]:
        """The description that a study stores."""
        found = self.description.model_dump(exclude={"variants"}) | {"run": self.program, "base": "", "change": ""}
        if self.variant:
            found |= {"base": self.description.name, "change": self.description.variants[self.variant].change}
        return found

    def missing_tools(self) -> list[str]:
        return [tool for tool in self.description.tools if shutil.which(tool) is None]

    @property
    def program(self) -> list[str]:
        return self.description.variants[self.variant].run if self.variant else self.description.run

    def command(self) -> list[str]:
        """The command line. Its first word is absolute if the description gives a path."""
        first, *rest = self.program
        return [str(self.folder / first) if "/" in first and not first.startswith("/") else first, *rest]

    def problem(self) -> str | None:
        """Why the connector cannot start, or None."""
        missing = self.missing_tools()
        if missing:
            packages = " ".join(self.description.packages) or "the language's own installer"
            return f"missing {', '.join(missing)}: install {packages}"
        first = self.command()[0]
        if "/" in first and not Path(first).exists():
            return f"not built: {first} does not exist; run `{self.BUILD} {self.description.name}`"
        # The program of an interpreter exists always. Every build leaves a folder `build`.
        if self.description.build and not (self.folder / "build").is_dir():
            return f"not built: run `{self.BUILD} {self.description.name}`"
        return None

    def build(self, log: Path) -> None:
        """Runs the build commands in the connector's folder.

        # Raises
        ConnectorError if a tool is missing or a command fails. The output is in `log`.
        """
        missing = self.missing_tools()
        if missing:
            raise ConnectorError(self.problem() or "")
        log.parent.mkdir(parents=True, exist_ok=True)
        with log.open("w") as file:
            for command in self.description.build:
                file.write(f"$ {' '.join(command)}\n")
                file.flush()
                try:
                    status = subprocess.run(
                        command,
                        cwd=self.folder,
                        stdout=file,
                        stderr=subprocess.STDOUT,
                        stdin=subprocess.DEVNULL,
                        timeout=BUILD_TIMEOUT_S,
                    ).returncode
                except (OSError, subprocess.TimeoutExpired) as error:
                    raise ConnectorError(f"`{' '.join(command)}` did not run: {error}") from error
                if status != 0:
                    raise ConnectorError(f"`{' '.join(command)}` ended with {status}; see {log}")


def load(folder: Path) -> Connector:
    """Reads one connector's folder.

    # Raises
    ConnectorError if connector.toml is missing or wrong.
    """
    return Connector(read_description(Description, folder / "connector.toml"), folder)


def read_description(model: type[Model], path: Path) -> Model:
    """Reads the description of a program.

    # Raises
    ConnectorError if the file is missing or wrong.
    """
    try:
        return model.model_validate(read_toml(path, str(path), ConnectorError))
    except ValidationError as error:
        raise ConnectorError(f"{path}: " + "; ".join(explain(part) for part in error.errors())) from error


def load_all(root: Path = CONNECTORS) -> dict[str, Connector]:
    """All connectors below `root` with their variants, by name.

    A folder without connector.toml does not count.
    """
    found = [load(path.parent) for path in sorted(root.glob("*/connector.toml"))]
    every = [replace(one, variant=variant) for one in found for variant in ("", *one.description.variants)]
    return {connector.name: connector for connector in every}


def with_reference(connectors: dict[str, Connector]) -> dict[str, Connector]:
    """Adds the reference receiver, which is measured and not compared."""
    return {**connectors, REFERENCE_NAME: load(REFERENCE)}
