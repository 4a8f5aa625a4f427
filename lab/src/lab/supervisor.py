"""Runs a study: starts feeds and connectors, watches them, and judges each run."""

import math
import os
import random
import resource
import secrets
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from pyarrow import csv

from lab import machine, processes
from lab.connectors import CAPTURE_SCHEMA, REPOSITORY, Connector
from lab.hosts import RemoteHost, connector_of, host_of
from lab.machine import Environment, Pins, cpu_times
from lab.process import ConnectorError, ConnectorProcess, Feed, RemoteFeed, RunError, describe_exit
from lab.records import ConnectorRecord, ResultFolder, RunRecord, write_json
from lab.study import Joined, JoinedRun, Live, LiveRun, PlannedRun, Study, Timed, TimedRun, blocks_of, settings_of

POLL_S = 0.02
SLACK_S = 10.0  # how much longer than planned a run may take
RESTART_DELAY_S = (0.05, 0.15)  # from the second restart on; the first comes at once
MAX_RESTARTS = 100
# A run that cannot store this much is not started: the rest of the disk belongs to others.
MIN_FREE_BYTES = 500_000_000


KINDS = {TimedRun: "timed", JoinedRun: "joined", LiveRun: "live"}


class StudyStopped(Exception):
    """The study cannot go on. Finished runs stay; the same command resumes it."""


def pitwire_binary() -> Path:
    """The server binary: PITWIRE_BIN, or the binary that this repository built.

    # Raises
    StudyStopped if there is none.
    """
    wanted = os.environ.get("PITWIRE_BIN")
    candidates = (
        [Path(wanted)] if wanted else [REPOSITORY / "target" / kind / "pitwire" for kind in ("release", "debug")]
    )
    for path in candidates:
        if path.is_file():
            return path
    raise StudyStopped(f"there is no {candidates[0]}: build it with `cargo build --release -p pitwire`")


def feed_command(run: TimedRun | JoinedRun, seed: int, folder: Path, study_folder: Path, connections: int) -> list[str]:
    """Command line of the feed for one run."""
    timed = isinstance(run, TimedRun)
    settings = settings_of(run)
    seconds = settings.warm_up_s + settings.measured_s
    command = [str(pitwire_binary()), "tape", "serve", "--live", "--listen", "127.0.0.1:0", "--envelope"]
    command += ["--truth", str(folder / "truth.csv"), "--start-with", str(connections), "--seed", str(seed)]
    if settings.subscribe:
        command.append("--subscribe-first")
    if not timed and settings.faults:
        command += ["--faults", str((study_folder / settings.faults).resolve())]
    if not timed and settings.relay:
        command += ["--relay", settings.relay, "--relay-seconds", str(math.ceil(seconds))]
        if settings.relay_subscribe:
            command += ["--relay-subscribe", settings.relay_subscribe]
        if settings.relay_ca:
            command += ["--relay-ca", str((study_folder / settings.relay_ca).resolve())]
    else:
        messages = round(settings.rate * seconds)
        command += ["--rate", str(settings.rate), "--arrival", settings.arrival, "--trades", str(max(messages, 1))]
    if timed:
        command += ["--dialect", "plain", "--payload-bytes", str(settings.payload_bytes)]
        command += ["--spin-us", str(settings.spin_us)]
        if settings.batch is not None:
            command += ["--batch", str(settings.batch)]
    elif not settings.relay:
        command += ["--dialect", settings.exchange, "--markets", str(settings.markets)]
        if settings.sizes == "study":
            command += ["--payload-bytes", "study"]
    if settings.fragment_bytes is not None:
        command += ["--fragment", str(settings.fragment_bytes)]
    if settings.tls:
        command.append("--tls")
    if settings.compression:
        command.append("--compress")
    return command


def warm_up_of(settings: Timed | Joined | Live) -> float:
    """Live runs have no warm-up."""
    return getattr(settings, "warm_up_s", 0.0)


@dataclass
class Watched:
    """One connector of a run, over all starts of its process."""

    connector: Connector
    record: ConnectorRecord
    process: ConnectorProcess
    seen: bool = False  # True if the process has ended and its end is recorded
    switches: dict[str, int] = field(default_factory=dict)  # context switches of each thread
    window_start: tuple[int, int, int] | None = None  # CPU ns, switches, monotonic ns
    window_end: tuple[int, int, int] | None = None


def own_cpu_ns() -> int:
    """CPU time of this process and of its children that have ended."""
    total = 0.0
    for target in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        usage = resource.getrusage(target)
        total += usage.ru_utime + usage.ru_stime
    return int(total * 1e9)


@dataclass
class Load:
    """CPU time of the host and of our processes over one run."""

    host: machine.CpuTimes = field(default_factory=cpu_times)
    own_ns: int = field(default_factory=own_cpu_ns)

    def percentages(self) -> tuple[float, float]:
        """Steal, and the load of processes that are not ours, in percent of all cores.

        All child processes of the run must have ended.
        """
        after = cpu_times()
        total = max(1, after.total_ns - self.host.total_ns)
        others = after.busy_ns - self.host.busy_ns - (own_cpu_ns() - self.own_ns)
        return 100 * (after.steal_ns - self.host.steal_ns) / total, max(0.0, 100 * others / total)


Progress = Callable[[PlannedRun, str], None]


class Supervisor:
    """Executes the runs of a study, in order, and writes a record of each."""

    def __init__(
        self,
        study: Study,
        study_folder: Path,
        results: ResultFolder,
        connectors: Mapping[str, Connector],
        *,
        environment: Environment,
        progress: Progress = lambda run, text: None,
    ) -> None:
        self.study = study
        self.study_folder = study_folder
        self.results = results
        self.connectors = connectors
        self.environment = environment.digest()
        self.progress = progress
        self.noise: list[dict] = results.read_json("noise.json") or []
        self.hosts: dict[str, RemoteHost] = {}  # of the current run
        self.jitter = random.Random(study.seed)

    def run(self, runs: list[PlannedRun]) -> None:
        """Executes every run that has no record yet.

        # Raises
        StudyStopped if the disk is full or the feed's binary is missing.
        """
        for block in blocks_of(runs):
            todo = [run for run in block if self.results.record(run.id) is None]
            if not todo:
                continue
            self.probe(f"before {todo[0].id}")
            for run in todo:
                self.execute(run)
        if self.noise and not self.noise[-1]["when"].startswith("after"):
            self.probe("after the last run")

    def probe(self, when: str) -> None:
        core = machine.choose_pins().connectors[0]
        found = machine.spin_probe(core)
        self.noise.append({"when": when, "realtime_ns": time.time_ns(), **asdict(found)})
        write_json(self.results.path / "noise.json", self.noise)

    def execute(self, run: PlannedRun) -> RunRecord:
        """Executes one run, again if it was refused and repetitions are left."""
        for attempt in range(1, self.study.limits.retries + 2):
            self.check_disk()
            folder = self.results.fresh_run_folder(run.id)
            self.progress(run, "running")
            try:
                record = self.attempt(run, folder, attempt)
                self.results.write_record(record)
            except OSError as error:
                raise StudyStopped(f"cannot store run {run.id}: {error.strerror}") from error
            last = attempt == self.study.limits.retries + 1
            if record.status != "refused" or last:
                break
            self.results.keep_attempt(run.id, attempt)
        self.progress(run, record.status)
        return record

    def check_disk(self) -> None:
        free = shutil.disk_usage(self.results.path).free
        if free < MIN_FREE_BYTES:
            raise StudyStopped(
                f"only {free / 1e6:.0f} MB are free at {self.results.path}, {MIN_FREE_BYTES / 1e6:.0f} MB are "
                "needed: free some space, then run the same command again"
            )

    def attempt(self, run: PlannedRun, folder: Path, attempt: int) -> RunRecord:
        names = [run.connector] if isinstance(run, TimedRun) else list(run.connectors)
        settings = settings_of(run)
        pins = machine.choose_pins(len(names))
        seed = self.study.seed + (run.block if isinstance(run, TimedRun) else 0)
        record = RunRecord(
            id=run.id,
            kind=KINDS[type(run)],
            status="failed",
            reasons=[],
            attempt=attempt,
            settings=settings.model_dump(),
            block=run.block if isinstance(run, TimedRun) else None,
            position=run.position if isinstance(run, TimedRun) else None,
            environment=self.environment,
            started_realtime_ns=time.time_ns(),
            started_ns=time.monotonic_ns(),
            ended_ns=0,
            measured_from_ns=None,
            measured_to_ns=None,
            feed_command=[],
            feed_summary={},
            lateness_us={},
            steal_percent=0.0,
            other_load_percent=0.0,
            cores_shared=pins.shared,
            connectors=[],
        )
        load = Load()
        feed: Feed | RemoteFeed | None = None
        watched: list[Watched] = []
        try:
            self.open_hosts(run, names, folder, record)
            while feed is None:
                try:
                    if isinstance(run, LiveRun):
                        feed = self.remote_feed(run, folder)
                    else:
                        record.feed_command = feed_command(run, seed, folder, self.study_folder, len(names))
                        feed = Feed(record.feed_command, folder, pins.feed)
                    watched = self.start_connectors(run, names, folder, feed, pins)
                except ConnectorError as error:
                    # A joined run goes on without the connector that cannot start.
                    record.connectors.append(ConnectorRecord(error.connector, problem=str(error)))
                    if len(names) == 1:
                        raise
                    feed.end()
                    feed = None
                    names.remove(error.connector)
                    for file in folder.glob("*.sqlite*"):
                        file.unlink()
                    # The capture files of the stopped start are in the way.
                    self.close_hosts([])
                    self.open_hosts(run, names, folder, record)
            record.connectors.extend(one.record for one in watched)
            self.watch(run, settings, feed, watched)
            if isinstance(run, LiveRun):
                opened = [one.process.output.opened_ns[0] for one in watched if one.process.output.opened_ns]
                record.measured_from_ns = max(opened, default=None)
                record.measured_to_ns = time.monotonic_ns()
        except RunError as error:
            record.reasons.append(str(error))
        finally:
            for one in watched:
                self.close(one)
            if feed is not None:
                record.feed_summary = feed.end()
            record.hosts = {name: host.record() for name, host in self.hosts.items()}
            self.close_hosts(watched)
            record.ended_ns = time.monotonic_ns()
        record.steal_percent, record.other_load_percent = load.percentages()
        if not record.reasons:
            self.judge(record, folder)
        return record

    def open_hosts(self, run: PlannedRun, names: list[str], folder: Path, record: RunRecord) -> None:
        """Reaches the other hosts of a live run.

        The connectors of a host that fails are taken from `names`, and get a problem.

        # Raises
        RunError if no connector is left.
        """
        for host in self.study.host:
            own = [name for name in names if host_of(name) == host.name]
            if not own:
                continue
            opened = RemoteHost(host, folder, f"{run.id}-{secrets.token_hex(4)}")
            try:
                opened.open(self.remote_feed(run, folder).certificate)
            except RunError as error:
                opened.close(remove=True)
                record.connectors.extend(ConnectorRecord(name, problem=str(error)) for name in own)
                names[:] = [name for name in names if name not in own]
                if not names:
                    raise
                continue
            self.hosts[host.name] = opened

    def close_hosts(self, watched: list[Watched]) -> None:
        """Copies the capture files of other hosts, and removes what was copied."""
        for name, host in self.hosts.items():
            host.stop_connectors()
            remove = True
            for one in watched:
                if host_of(one.record.connector) != name:
                    continue
                for file in one.record.captures:
                    try:
                        host.fetch(file)
                    except RunError as error:
                        remove = False
                        one.record.problem = one.record.problem or str(error)
            host.close(remove=remove)
        self.hosts.clear()

    def remote_feed(self, run: LiveRun, folder: Path) -> RemoteFeed:
        ca = "" if run.live.ca is None else str((self.study_folder / run.live.ca).resolve())
        return RemoteFeed(run.live.url, folder, ca)

    def settings_for(
        self, run: PlannedRun, connector: str, feed: Feed | RemoteFeed, url: str, start: int
    ) -> dict[str, str]:
        """Environment of a connector. Each start of the process has its own capture file."""
        timed, live, folder = isinstance(run, TimedRun), isinstance(run, LiveRun), feed.folder
        exchange = "plain" if timed else run.live.name if live else run.joined.exchange
        suffix = "" if start == 1 else f".{start}"
        return {
            "LAB_URL": url,
            "LAB_CA": feed.certificate,
            "LAB_SUBSCRIBE": settings_of(run).subscribe,
            "LAB_CAPTURE": str(folder / f"{connector}{suffix}.sqlite"),
            "LAB_SCHEMA": str(CAPTURE_SCHEMA),
            "LAB_EXIT_FILE": str(folder / "exit"),
            "LAB_RUN": run.id,
            "LAB_CONNECTOR": connector,
            "LAB_EXCHANGE": exchange,
            "LAB_ENVELOPE": "none" if live else "text",
            "LAB_PAYLOAD": "all" if live else "none",
            "LAB_COMPRESS": "1" if not live and settings_of(run).compression else "",
            "LAB_RECONNECT": "0" if timed else "1",
        }

    def start_process(
        self, run: PlannedRun, name: str, feed: Feed | RemoteFeed, url: str, pins: Pins, start: int
    ) -> ConnectorProcess:
        connector = self.connectors[connector_of(name)]
        settings = self.settings_for(run, name, feed, url, start)
        log = feed.folder / f"{name}.log"
        host = self.hosts.get(host_of(name))
        try:
            if host is None:
                return ConnectorProcess(connector.command(), connector.folder, settings, cores=pins.connectors, log=log)
            clock = host.clock()
            return ConnectorProcess(
                host.command(connector, settings, settings_of(run).measured_s + 6 * SLACK_S),
                feed.folder,
                settings,
                cores=pins.connectors,
                log=log,
                to_local=clock.to_local,
                clock_error_ns=clock.error_ns,
            )
        except RunError as error:
            raise ConnectorError(name, str(error)) from error

    def start_connectors(
        self, run: PlannedRun, names: list[str], folder: Path, feed: Feed | RemoteFeed, pins: Pins
    ) -> list[Watched]:
        """Starts all connectors, checks their clocks, then lets them connect at the same time.

        # Raises
        ConnectorError for the first connector that cannot take part. All of them have ended then.
        """
        url = feed.url()
        watched: list[Watched] = []
        try:
            for name in names:
                process = self.start_process(run, name, feed, url, pins, 1)
                own = ConnectorRecord(name, captures=[Path(process.settings["LAB_CAPTURE"]).name])
                watched.append(Watched(self.connectors[connector_of(name)], own, process))
            for one in watched:
                one.process.check_clock()
                one.record.clock_bracket_ns = one.process.clock_bracket_ns
            for one in watched:
                one.process.go()
        except RunError:
            for one in watched:
                self.close(one)
            raise
        return watched

    def watch(
        self, run: PlannedRun, settings: Timed | Joined | Live, feed: Feed | RemoteFeed, watched: list[Watched]
    ) -> None:
        """Waits until all connectors have ended.

        Restarts a dropped process of a joined or live run.
        """
        planned = warm_up_of(settings) + settings.measured_s
        start = time.monotonic()
        deadline = start + planned + SLACK_S
        opened: float | None = None
        next_sample = next_row = start
        while not all(one.seen for one in watched):
            now = time.monotonic()
            if now > deadline:
                self.stop_late(run, [one for one in watched if not one.seen], len(watched))
                return
            # A live run does not wait for a connector that cannot connect.
            enough = any if isinstance(run, LiveRun) else all
            if opened is None and enough(one.process.output.opened_ns for one in watched):
                opened = now
                deadline = now + planned + SLACK_S
            # Another server does not end by itself.
            is_over = isinstance(run, LiveRun) and opened is not None and now > opened + planned
            if is_over and not (feed.folder / "exit").exists():
                (feed.folder / "exit").touch()
                for host in self.hosts.values():
                    host.stop_connectors()
            for one in watched:
                self.watch_one(run, one, feed)
            if now >= next_sample:
                next_sample = now + 0.25
                for one in watched:
                    if not self.is_remote(one):
                        self.sample(one, now, opened, settings)
            if now >= next_row:
                next_row = now + 1.0
                here = [one for one in watched if not one.seen and not self.is_remote(one)]
                running = {one.record.connector: one.process.process.pid for one in here}
                processes.append(feed.folder, feed.pids() | running, time.monotonic_ns())
            time.sleep(POLL_S)

    def is_remote(self, one: Watched) -> bool:
        return host_of(one.record.connector) in self.hosts

    def stop_late(self, run: PlannedRun, late: list[Watched], count: int) -> None:
        """Ends connectors that wait for a feed that has stopped. They store their rows first.

        # Raises
        RunError if no connector of the run has ended by itself.
        """
        text = f"did not end {SLACK_S:g} s after the planned end of the run"
        if isinstance(run, TimedRun) or len(late) == count:
            raise RunError(f"{', '.join(one.record.connector for one in late)} {text}")
        for one in late:
            self.finish_process(one)
            one.seen = True
            one.record.problem = f"{text} and was stopped"

    def sample(self, one: Watched, now: float, opened: float | None, settings: Timed | Joined | Live) -> None:
        """Notes CPU time at the first and the last sample of the measured window."""
        pid = one.process.process.pid
        one.record.peak_memory_kb = max(one.record.peak_memory_kb, machine.process_memory_kb(pid))
        if (
            opened is None
            or now < opened + warm_up_of(settings)
            or now > opened + warm_up_of(settings) + settings.measured_s
        ):
            return
        cpu = machine.process_cpu_ns(pid)
        if cpu:
            values = (cpu, machine.context_switches(pid, one.switches), time.monotonic_ns())
            one.window_start = one.window_start or values
            one.window_end = values

    def watch_one(self, run: PlannedRun, one: Watched, feed: Feed | RemoteFeed) -> None:
        code = one.process.process.poll()
        if code is None or one.seen:
            return
        ended_ns = time.monotonic_ns()
        self.finish_process(one)
        was_open = bool(one.process.output.opened_ns or one.record.restarts)
        may_restart = not isinstance(run, TimedRun) and was_open and feed.is_running()
        # If ssh ended and not the connector, the connector on the host goes on.
        may_restart = may_restart and not self.is_remote(one)
        if code == 0 or not may_restart or code == 6 or len(one.record.restarts) >= MAX_RESTARTS:
            one.seen = True
            if code != 0:
                one.record.problem = f"{describe_exit(code)}: {one.process.last_error()}"
            return
        if one.record.restarts:
            time.sleep(self.jitter.uniform(*RESTART_DELAY_S))
        start = len(one.record.captures) + 1
        pins = machine.choose_pins(len(run.connectors))
        try:
            url = one.process.settings["LAB_URL"]
            one.process = self.start_process(run, one.record.connector, feed, url, pins, start)
            one.record.captures.append(Path(one.process.settings["LAB_CAPTURE"]).name)
            one.process.go()
        except RunError as error:
            # The others go on without it.
            one.seen = True
            one.record.problem = f"{describe_exit(code)}, and its next start failed: {error}"
            return
        one.record.restarts.append(
            {
                "reason": f"process {describe_exit(code)}",
                "from_ns": ended_ns,
                "to_ns": time.monotonic_ns(),
                "realtime_ns": time.time_ns(),
            }
        )

    def finish_process(self, one: Watched) -> None:
        """Records the end of one process."""
        code = one.process.end()
        one.record.exit_codes.append(code)
        output = one.process.output
        one.record.received += output.received
        one.record.gaps.extend({"connection": number, "reason": reason} for number, reason in output.gaps)
        if one.record.start_to_open_ns is None and output.opened_ns:
            one.record.start_to_open_ns = output.opened_ns[0] - one.process.started_ns

    def close(self, one: Watched) -> None:
        """Ends a connector that is still running, and derives its figures."""
        if not one.seen and len(one.record.exit_codes) < len(one.record.captures):
            self.finish_process(one)
            one.seen = True
        if one.window_start and one.window_end and one.window_end[2] > one.window_start[2]:
            one.record.window_cpu_ns = one.window_end[0] - one.window_start[0]
            one.record.window_switches = one.window_end[1] - one.window_start[1]
            one.record.window_from_ns, one.record.window_to_ns = one.window_start[2], one.window_end[2]

    def judge(self, record: RunRecord, folder: Path) -> None:
        """Decides whether a run counts: failed, kept, or noisy (flagged or refused)."""
        failed = [c for c in record.connectors if c.problem]
        if failed and (record.kind == "timed" or len(failed) == len(record.connectors)):
            record.reasons = [f"{c.connector} {c.problem}" for c in failed]
            return
        if record.kind == "live":
            self.decide(record, failed)
            return
        try:
            truth = read_truth(folder / "truth.csv")
        except (OSError, ValueError) as error:
            record.reasons = [f"the truth log cannot be read: {error}"]
            return
        if len(truth) == 0:
            record.reasons = ["the feed sent nothing"]
            return
        warm_up_ns = int(record.settings["warm_up_s"] * 1e9)
        record.measured_from_ns = int(truth[:, 0].min()) + warm_up_ns
        record.measured_to_ns = int(truth[:, 0].max())
        measured = truth[truth[:, 0] >= record.measured_from_ns]
        if len(measured) == 0:
            record.reasons = ["the feed sent nothing after the warm-up"]
            return
        if record.settings.get("batch"):
            # The rest of a batch waits for its first message, so only that one can be late.
            measured = measured[np.unique(measured[:, 0], return_index=True)[1]]
        lateness = (measured[:, 1] - measured[:, 0]) / 1e3
        record.lateness_us = {
            "p50": float(np.quantile(lateness, 0.5)),
            "p99": float(np.quantile(lateness, 0.99)),
            "max": float(lateness.max()),
        }
        self.decide(record, failed)

    def decide(self, record: RunRecord, failed: list[ConnectorRecord]) -> None:
        """Keeps, flags or refuses a run whose data can be read."""
        noisy = self.noise_reasons(record)
        record.reasons = noisy + [f"{c.connector}: {c.problem}" for c in failed]
        if noisy and self.study.limits.noisy_runs == "refuse":
            record.status = "refused"
        else:
            # The failure of one connector does not void the data of the others.
            record.status = "flagged" if record.reasons else "kept"

    def noise_reasons(self, record: RunRecord) -> list[str]:
        limits = self.study.limits
        reasons = []
        if record.steal_percent > limits.steal_percent:
            reasons.append(f"steal {record.steal_percent:.1f} % is above {limits.steal_percent:g} %")
        if record.other_load_percent > limits.other_load_percent:
            reasons.append(
                f"other programs used {record.other_load_percent:.1f} % of the CPU, "
                f"above {limits.other_load_percent:g} %"
            )
        floor_us = self.floor_us()
        allowed = max(limits.lateness_us, 2 * floor_us)
        if record.kind == "timed" and record.lateness_us["p99"] > allowed:
            reasons.append(f"the feed was {record.lateness_us['p99']:.0f} us late at p99, above {allowed:.0f} us")
        if record.cores_shared and record.kind != "live":
            reasons.append("feed and connector share a core")
        if len(self.noise) > 1:
            first, last = lost_percent(self.noise[0]), lost_percent(self.noise[-1])
            if last > 1.0 and last > 2 * first:
                reasons.append(f"the noise probe moved: pauses rose from {first:.2f} % to {last:.2f} % of the time")
        return reasons

    def floor_us(self) -> float:
        """Noise floor at p99 of the latest probe, in microseconds."""
        if not self.noise:
            return 0.0
        return noise_of(self.noise[-1]).floor_ns(0.99) / 1e3


def noise_of(row: dict) -> machine.Noise:
    return machine.Noise(row["core"], row["duration_ns"], row["gaps_ns"])


def lost_percent(row: dict) -> float:
    return noise_of(row).lost_percent


def read_truth(path: Path) -> np.ndarray:
    """Due time, sent time and end of writing of the messages that the feed sent, in nanoseconds.

    # Raises
    OSError if the file cannot be read, ValueError if it has other columns.
    """
    types = {"connection": "int64", "sequence": "int64", "due_ns": "int64", "sent_ns": "int64", "done_ns": "int64"}
    convert = csv.ConvertOptions(
        column_types={**types, "bytes": "int64", "fault": "string"}, null_values=[""], strings_can_be_null=True
    )
    table = csv.read_csv(path, convert_options=convert)
    if "due_ns" not in table.column_names or "done_ns" not in table.column_names:
        raise ValueError(f"columns {', '.join(table.column_names)}; expected due_ns, sent_ns and done_ns")
    sent = table.filter(table["done_ns"].is_valid())
    return np.column_stack([sent[name].to_numpy() for name in ("due_ns", "sent_ns", "done_ns")])
