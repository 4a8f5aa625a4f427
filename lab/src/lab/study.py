"""Study files: what to run, in which order, and when a run counts."""

import itertools
import random
import tomllib
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

Model = TypeVar("Model", bound=BaseModel)
Name = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9-]{0,39}$")]
EXCHANGES = ("binance", "bithumb", "gemini")
# Largest payload of a frame. The envelope has to fit into the first one.
Fragment = Annotated[int, Field(ge=124, le=16_777_216)] | None


class StudyError(Exception):
    """A study file that cannot be used. The text names the key and the expected value."""


class Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Timed(Table):
    """Timed runs: one connector at a time, in randomised blocks, each in a fresh process."""

    name: Name
    rate: Annotated[int, Field(ge=1, le=1_000_000)]  # messages per second
    blocks: Annotated[int, Field(ge=1, le=1_000)]
    warm_up_s: Annotated[float, Field(ge=0, le=600)] = 10.0
    measured_s: Annotated[float, Field(gt=0, le=86_400)]
    payload_bytes: Annotated[int, Field(ge=124, le=16_777_216)] = 224
    arrival: Literal["constant", "poisson", "bursty", "batches"] = "constant"
    batch: Annotated[int, Field(ge=2, le=1_000_000)] | None = None  # messages at once, with arrival = "batches"
    spin_us: Annotated[int, Field(ge=0, le=10_000)] = 2_000
    fragment_bytes: Fragment = None
    tls: bool = False  # wss:// with a certificate of the feed
    compression: bool = False  # permessage-deflate
    subscribe: str = ""  # message that a connector sends; the feed sends nothing before it
    reference: bool = True  # also runs the reference receiver once per block, if it is built

    @model_validator(mode="after")
    def check(self) -> "Timed":
        if (self.arrival == "batches") != (self.batch is not None):
            raise ValueError('batch and arrival = "batches" belong together: give both or neither')
        return self


class Joined(Table):
    """One joined run: all connectors at once on one exchange's stream, matched event by event."""

    exchange: Name  # binance, bithumb or gemini; with `relay` any name
    markets: Annotated[int, Field(ge=1, le=100_000)] | None = None
    rate: Annotated[int, Field(ge=1, le=100_000)] | None = None  # messages per second and connection
    relay: Annotated[str, Field(pattern=r"^wss?://[^\s]+$")] | None = None  # server whose messages are sent on
    relay_subscribe: str = ""  # message to send to that server first
    relay_ca: str | None = None  # file of certificates to trust for it, relative to the study file
    measured_s: Annotated[float, Field(gt=0, le=1_000_000)]
    warm_up_s: Annotated[float, Field(ge=0, le=600)] = 2.0
    arrival: Literal["constant", "poisson", "bursty"] = "poisson"
    sizes: Literal["study", "one-event"] = "study"  # study: 124 B to 805 kB, as the study of 2020 saw
    fragment_bytes: Fragment = None
    tls: bool = False
    compression: bool = False
    faults: str | None = None  # fault script, relative to the study file
    subscribe: str = ""  # message that a connector sends; the feed sends nothing before it

    @model_validator(mode="after")
    def check(self) -> "Joined":
        if self.relay is not None:
            if self.markets is not None or self.rate is not None:
                raise ValueError("markets and rate are those of the server that is relayed: remove them")
        elif self.exchange not in EXCHANGES:
            raise ValueError(f'exchange is "{self.exchange}": expected {", ".join(EXCHANGES)}, or any name with relay')
        elif self.markets is None or self.rate is None:
            raise ValueError("markets and rate are missing: give both, or relay")
        return self


class Live(Table):
    """One live run: all connectors at once on a stream of another server, matched by payload."""

    name: Name
    url: Annotated[str, Field(pattern=r"^wss?://[^\s]+$")]
    subscribe: str = ""  # message to send after each open
    ca: str | None = None  # file of certificates to trust, relative to the study file; default: the system's
    measured_s: Annotated[float, Field(gt=0, le=1_000_000)]
    event_time: str | None = None  # path of the sender's time in a message, for example "data.E"
    event_time_unit: Literal["ms", "us", "ns"] = "ms"
    ignore: list[str] = []  # paths that differ per connection, for example "socket_sequence"
    hosts: list[Name] = []  # where each connector runs; "local" is this machine, the default


class Host(Table):
    """Another machine of live runs. It has a clone of this repository with built connectors."""

    name: Name
    ssh: Annotated[str, Field(pattern=r"^[A-Za-z0-9_][^\s]*$")]  # destination, as ssh takes it
    folder: Annotated[str, Field(pattern=r"^/[^\n]*$")]  # of the clone


class Limits(Table):
    """When a run is noisy, and what happens then."""

    noisy_runs: Literal["refuse", "flag"] = "refuse"
    retries: Annotated[int, Field(ge=0, le=10)] = 1  # repetitions of a refused run
    steal_percent: Annotated[float, Field(ge=0, le=100)] = 0.5
    other_load_percent: Annotated[float, Field(ge=0, le=100)] = 5.0
    lateness_us: Annotated[float, Field(gt=0)] = 50.0  # p99 of sent_ns - due_ns


class Analysis(Table):
    margin_us: Annotated[float, Field(gt=0)] = 10.0  # differences below it do not matter
    resamples: Annotated[int, Field(ge=100, le=100_000)] = 2_000
    subject: Name | None = None  # connector to compare with the best of the others


class Study(Table):
    name: Name
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 1
    connectors: Annotated[list[Name], Field(min_length=1)]
    timed: list[Timed] = []
    joined: list[Joined] = []
    live: list[Live] = []
    host: list[Host] = []
    limits: Limits = Limits()
    analysis: Analysis = Analysis()

    @model_validator(mode="after")
    def check(self) -> "Study":
        if not self.timed and not self.joined and not self.live:
            raise ValueError("the study has no [[timed]], no [[joined]] and no [[live]] table: it would run nothing")
        for what, names in (
            ("connectors", self.connectors),
            ("timed names", [t.name for t in self.timed]),
            ("joined exchanges", [j.exchange for j in self.joined]),
            ("live names", [live.name for live in self.live]),
            ("host names", ["local", *(host.name for host in self.host)]),
            *((f"hosts of {live.name}", live.hosts) for live in self.live),
        ):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{what} contains {twice[0]} twice")
        subject = self.analysis.subject
        if subject is not None and subject not in self.connectors:
            raise ValueError(f'analysis.subject is "{subject}": expected one of connectors')
        known = {"local", *(host.name for host in self.host)}
        for live in self.live:
            for name in live.hosts:
                if name not in known:
                    raise ValueError(f'live {live.name} names the host "{name}": expected {", ".join(sorted(known))}')
        return self


def load(path: Path) -> Study:
    """Reads a study file.

    # Raises
    StudyError for a file that cannot be read, is not TOML, has an unknown key or a bad value.
    """
    return read_study(Study, path, f"study {path}")


def read_study(model: type[Model], path: Path, name: str) -> Model:
    """Reads a TOML file by a model. `name` stands for the file in messages.

    # Raises
    StudyError for a file that cannot be read, is not TOML, has an unknown key or a bad value.
    """
    try:
        return model.model_validate(read_toml(path, name, StudyError))
    except ValidationError as error:
        lines = [f"  {explain(part)}" for part in error.errors()]
        raise StudyError("\n".join([f"{name} cannot be used:", *lines])) from error


def read_toml(path: Path, name: str, failure: type[Exception]) -> dict[str, Any]:
    """Reads a TOML file. `name` stands for the file in the message of a failure."""
    try:
        return tomllib.loads(path.read_text())
    except OSError as error:
        raise failure(f"cannot read {name}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise failure(f"{name} is not valid TOML: {error}") from error


def explain(part: dict) -> str:
    """One line for one validation error: key, problem, value."""
    where = ".".join(str(x) for x in part["loc"])
    if part["type"] == "extra_forbidden":
        return f'unknown key "{where}": remove it, or see docs/lab.md for the known keys'
    if part["type"] == "missing":
        return f'key "{where}" is missing'
    message = part["msg"].removeprefix("Value error, ")
    if not where:
        return message
    if isinstance(part["input"], dict):
        return f"{where}: {message}"
    return f'"{where}" is {part["input"]!r}: {message[0].lower()}{message[1:]}'


@dataclass(frozen=True)
class TimedRun:
    """One connector, alone, in one block."""

    timed: Timed
    block: int
    position: int  # place of the connector in its block, from 0
    connector: str

    @property
    def id(self) -> str:
        return f"timed-{self.timed.name}-b{self.block:03d}-{self.position:02d}-{self.connector}"


@dataclass(frozen=True)
class JoinedRun:
    """All connectors at once."""

    joined: Joined
    connectors: tuple[str, ...]

    @property
    def id(self) -> str:
        return f"joined-{self.joined.exchange}"


@dataclass(frozen=True)
class LiveRun:
    """All connectors at once on a stream of another server."""

    live: Live
    connectors: tuple[str, ...]

    @property
    def id(self) -> str:
        return f"live-{self.live.name}"


PlannedRun = TimedRun | JoinedRun | LiveRun


def plan(
    study: Study,
    available: list[str],
    reference: str | None = None,
    without_tls: Collection[str] = (),
    without_compression: Collection[str] = (),
) -> list[PlannedRun]:
    """Orders the runs: blocks with a seeded order inside each, then joined runs, then live runs.

    The reference receiver takes part in the blocks of those tables that want it. Programs in
    `without_tls` take no part in tables with TLS, and those in `without_compression` none in tables
    with compression.
    """

    def members(table: Timed | Joined, names: list[str]) -> list[str]:
        left_out = {*(without_tls if table.tls else ()), *(without_compression if table.compression else ())}
        return [name for name in names if name not in left_out]

    available = [name for name in study.connectors if name in available]
    order = random.Random(study.seed)
    runs: list[PlannedRun] = []
    for timed in study.timed:
        own = members(timed, available)
        if own and reference and timed.reference:
            own += members(timed, [reference])
        for block in range(timed.blocks):
            shuffled = order.sample(own, len(own))
            runs.extend(TimedRun(timed, block, place, name) for place, name in enumerate(shuffled))
    runs.extend(JoinedRun(joined, tuple(own)) for joined in study.joined if (own := members(joined, available)))
    for live in study.live:
        secure = live.url.startswith("wss:")
        own = [name for name in available if not (secure and name in without_tls)]
        if live.hosts:
            own = [name if host == "local" else f"{name}@{host}" for host in live.hosts for name in own]
        if own:
            runs.append(LiveRun(live, tuple(own)))
    return runs


def expected_seconds(run: PlannedRun) -> float:
    """Planned duration, with 1.5 s for starting and ending the programs."""
    settings = settings_of(run)
    return getattr(settings, "warm_up_s", 0.0) + settings.measured_s + 1.5


def settings_of(run: PlannedRun) -> Timed | Joined | Live:
    """The table of the study file that a run belongs to."""
    match run:
        case TimedRun():
            return run.timed
        case JoinedRun():
            return run.joined
        case LiveRun():
            return run.live


def blocks_of(runs: list[PlannedRun]) -> list[list[PlannedRun]]:
    """Groups neighbouring runs that belong to one block. A joined run forms its own block."""
    groups = itertools.groupby(runs, key=lambda r: (r.timed.name, r.block) if isinstance(r, TimedRun) else r.id)
    return [list(group) for _, group in groups]
