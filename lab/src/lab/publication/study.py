"""Study files of the publication study, and the order of the runs."""

import random
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import Field, model_validator

from lab.publication.workload import Workload
from lab.study import Name, Table, read_study


class Test(Workload):
    """One test: every publisher once in each block, in a fresh process."""

    name: Name
    blocks: Annotated[int, Field(ge=1, le=1_000)]
    publishers: list[Name] = Field(default_factory=list)  # empty: all of the study that offer the test


class PublicationStudy(Table):
    name: Name
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1
    publishers: Annotated[list[Name], Field(min_length=1)]
    test: Annotated[list[Test], Field(min_length=1)]
    cross_check: str | None = None  # name of an echo test that Artillery repeats
    cross_check_blocks: Annotated[int, Field(ge=1)] | None = None  # None: all blocks of the test
    margin_us: Annotated[float, Field(gt=0)] = 10.0  # smaller differences of latency do not matter
    cpu_margin_percent: Annotated[float, Field(gt=0)] = 5.0
    steal_percent: Annotated[float, Field(ge=0, le=100)] = 0.5
    other_load_percent: Annotated[float, Field(ge=0, le=100)] = 5.0

    @model_validator(mode="after")
    def check(self) -> "PublicationStudy":
        for what, names in (("publishers", self.publishers), ("test names", [t.name for t in self.test])):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{what} contains {twice[0]} twice")
        for test in self.test:
            unknown = sorted(set(test.publishers) - set(self.publishers))
            if unknown:
                raise ValueError(f'test {test.name} names {unknown[0]}, which is not in "publishers"')
        if self.cross_check is not None and self.cross_check not in [t.name for t in self.test if t.kind == "echo"]:
            raise ValueError(f'cross_check names "{self.cross_check}": expected the name of a test of kind echo')
        return self


def load(path: Path) -> PublicationStudy:
    """Reads a study file.

    # Raises
    StudyError for a file that cannot be read, is not TOML, has an unknown key or a bad value.
    """
    return read_study(PublicationStudy, path, f"study {path}")


@dataclass(frozen=True)
class PlannedRun:
    test: Test
    block: int
    position: int  # place of the publisher in its block, from 0
    publisher: str
    generator: str = "pitwire"  # or "artillery"

    @property
    def id(self) -> str:
        kind = "" if self.generator == "pitwire" else f"{self.generator}-"
        return f"{kind}{self.test.name}-b{self.block:03d}-{self.position:02d}-{self.publisher}"


def plan(study: PublicationStudy, offered: dict[str, list[str]]) -> list[PlannedRun]:
    """Orders the runs. `offered` has the tests of each publisher that can start.

    Every test has its blocks; each block has every publisher once, in an order from the seed. The
    cross-check repeats blocks of its test with Artillery.
    """
    order = random.Random(study.seed)
    runs = []
    for test in study.test:
        wanted = test.publishers or study.publishers
        names = [name for name in wanted if test.kind in offered.get(name, [])]
        repeated = (study.cross_check_blocks or test.blocks) if study.cross_check == test.name else 0
        for block in range(test.blocks):
            shuffled = order.sample(names, len(names))
            for generator in ["pitwire", "artillery"] if block < repeated else ["pitwire"]:
                runs += [PlannedRun(test, block, place, name, generator) for place, name in enumerate(shuffled)]
    return runs
