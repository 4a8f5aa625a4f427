"""Losses against a truth log, causes of late events, drift, and rows of the report."""

import os
import socket
from pathlib import Path

import numpy as np
import pytest
from test_capture import write_capture

from lab import capture, costs, heat, late, matching, processes
from lab.analysis import LoadedRun
from lab.capture import Capture
from lab.comparison import Run
from lab.machine import SERIES_COLUMNS
from lab.processes import Sample
from lab.records import ConnectorRecord

SECOND = 1_000_000_000


def loaded(
    run: dict[str, str] | None = None,
    gaps: list[dict] | None = None,
    flushes: list | None = None,
    collections: list | None = None,
) -> LoadedRun:
    found = Capture(
        Path("x"), run or {}, 0, 0, 0, 0, gaps=gaps or [], flushes=flushes or [], collections=collections or []
    )
    return LoadedRun(None, ConnectorRecord("a"), [found], [])


def cause_of(run: LoadedRun, machine: np.ndarray, own: list[Sample], sent: int) -> str:
    """The cause of an event that was due at 0 and received after 4 s."""
    times = (np.array([0]), np.array([sent]), np.array([4 * SECOND]))
    return str(late.causes_of(run, machine, own, *times)[0])


def series(busy: float, steal: float) -> np.ndarray:
    row = np.zeros(len(SERIES_COLUMNS))
    row[0], row[3], row[4] = 2 * SECOND, busy, steal
    return row[None, :]


IDLE = series(10, 0)


@pytest.mark.parametrize(
    ("run", "machine", "sent", "cause"),
    [
        (loaded(), IDLE, 3 * SECOND, "server"),
        (loaded(gaps=[{"from_ns": SECOND, "to_ns": 2 * SECOND}]), IDLE, 1, "network"),
        (loaded(gaps=[{"from_ns": SECOND, "to_ns": None}]), IDLE, 1, "network"),
        (loaded(flushes=[(SECOND, 4 * SECOND, 10_000)]), IDLE, 1, "connector"),
        (loaded(run={"gc_pause_ns": str(3 * SECOND)}), IDLE, 1, "GC"),
        (loaded(collections=[(SECOND, 2 * SECOND), (2 * SECOND, 4 * SECOND)]), IDLE, 1, "GC"),
        # The run paused for long, but at another time.
        (loaded(run={"gc_pause_ns": str(9 * SECOND)}, collections=[(5 * SECOND, 14 * SECOND)]), IDLE, 1, "unknown"),
        (loaded(run={"gc_pause_ns": "1000"}), series(99, 0), 1, "host"),
        (loaded(), series(10, 9), 1, "host"),
        (loaded(flushes=[(SECOND, SECOND + 1, 5)]), IDLE, 1, "unknown"),
        (loaded(), np.empty((0, len(SERIES_COLUMNS))), 1, "unknown"),
    ],
)
def test_the_first_evidence_on_the_path_is_the_cause(
    run: LoadedRun, machine: np.ndarray, sent: int, cause: str
) -> None:
    assert cause_of(run, machine, [], sent).split(":")[0] == cause


def samples(cpu_per_s: float, queue_bytes: int) -> list[Sample]:
    return [Sample(i * SECOND, "a", round(i * cpu_per_s * SECOND), 1, 0, 0, queue_bytes, 0) for i in range(6)]


@pytest.mark.parametrize(
    ("own", "machine", "cause"),
    [
        (samples(1.0, 0), series(99, 0), "connector: it used a whole core"),
        (samples(0.1, 0), series(99, 0), "host: steal above 5 % or all cores busy"),
        (samples(0.1, 5_000), series(99, 0), "host: steal above 5 % or all cores busy"),
        (samples(0.1, 5_000), IDLE, "connector: it did not read data that had arrived"),
        (samples(0.1, 0), IDLE, "unknown"),
        ([], IDLE, "unknown"),
    ],
)
def test_the_series_of_the_process_tells_connector_from_host(
    own: list[Sample], machine: np.ndarray, cause: str
) -> None:
    assert cause_of(loaded(), machine, own, 1) == cause


def test_every_late_event_has_its_own_cause() -> None:
    """Five events, each 2 s late. The evidence of one does not cover the next."""
    due = np.arange(5) * 10 * SECOND + SECOND
    sent = due + np.array([1_500_000_000, 0, 0, 0, 0])
    run = loaded(
        gaps=[{"from_ns": int(due[1]), "to_ns": int(due[1]) + 1}],
        flushes=[(int(due[2]), int(due[2]) + 1_200_000_000, 9)],
        # Two pauses together are more than half of the latency.
        collections=[(int(due[3]) + at * 10**8, int(due[3]) + at * 10**8 + 6 * 10**8) for at in (0, 10)],
    )
    found = late.causes_of(run, np.empty((0, len(SERIES_COLUMNS))), [], due, sent, due + 2 * SECOND)
    assert [str(cause).split(":")[0] for cause in found] == ["server", "network", "connector", "GC", "unknown"]


def test_the_series_of_a_process_has_its_cpu_memory_and_socket_queues(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_connection(listener.getsockname()) as ours:
        theirs, _ = listener.accept()
        with theirs:
            theirs.sendall(b"x" * 1_000)
            # The data waits here until `ours` reads it.
            ours.recv(1_000, socket.MSG_PEEK | socket.MSG_WAITALL)
            processes.append(tmp_path, {"a": os.getpid(), "gone": 2**22 + 1}, 7)
            ours.recv(1_000)
            processes.append(tmp_path, {"a": os.getpid()}, 8)
    first, second = processes.read(tmp_path, "a")
    assert (first.monotonic_ns, second.monotonic_ns) == (7, 8)
    assert first.receive_queue_bytes - second.receive_queue_bytes == 1_000
    assert second.cpu_ns >= first.cpu_ns > 0
    assert first.resident_kb > 1_000
    assert first.voluntary_switches + first.forced_switches > 0
    assert processes.read(tmp_path, "gone") == []
    with (tmp_path / processes.FILE_NAME).open("a") as file:
        file.write("9,a,1")  # a row that a crash cut off
    assert len(processes.read(tmp_path, "a")) == 2
    assert processes.read(tmp_path / "absent", "a") == []


def test_losses_are_counted_by_their_reason(tmp_path: Path) -> None:
    """Sequences 1 to 10; the connector had connection 1 only and captured 1, 2, 3, 3 and 8."""
    write_capture(tmp_path / "a.sqlite", [(1, 1_500), (2, 2_500), (3, 3_500), (3, 3_600), (8, 8_500), (None, 9_000)])
    capture.convert(tmp_path / "a.sqlite", tmp_path / "a.parquet")
    rows = ["connection,sequence,due_ns,sent_ns,done_ns,bytes,fault"]
    rows += [f"1,{i},{i}000,{i}001,{i}002,224," for i in (1, 2, 3, 8)]
    rows += ["1,3,3000,3001,3003,224,duplicate"]
    rows += ["1,4,4000,4001,4002,224,"]  # sent and lost
    rows += ["1,5,5000,,,224,drop"]  # never sent
    rows += ["1,6,6000,6001,6002,224,omit-time"]  # captured without a sequence
    rows += ["1,7,7000,7001,,224,"]  # interrupted
    rows += [f"2,{i},{i}000,{i}001,{i}002,224," for i in range(1, 11)]  # another connector
    (tmp_path / "truth.csv").write_text("\n".join(rows) + "\n")
    found = matching.count_losses(matching.open_store(), "a", [tmp_path / "a.parquet"], tmp_path / "truth.csv")
    assert (found.received, found.duplicates, found.without_envelope) == (6, 1, 1)
    assert (found.sent, found.missing, found.lost_in_reset, found.due_in_gap) == (5, 1, 0, 2)


def test_losses_around_a_reset_are_not_unexplained(tmp_path: Path) -> None:
    write_capture(tmp_path / "a.sqlite", [(1, 1_500)])
    capture.convert(tmp_path / "a.sqlite", tmp_path / "a.parquet")
    rows = [
        "connection,sequence,due_ns,sent_ns,done_ns,bytes,fault",
        "1,1,1000,1001,1002,224,",
        "1,2,2000,2001,2002,224,",
        "1,3,3000,3001,,224,reset",
    ]
    (tmp_path / "truth.csv").write_text("\n".join(rows) + "\n")
    found = matching.count_losses(matching.open_store(), "a", [tmp_path / "a.parquet"], tmp_path / "truth.csv")
    assert (found.sent, found.missing, found.lost_in_reset) == (2, 0, 1)


def test_a_drifting_run_is_unsteady_and_a_flat_one_is_not() -> None:
    rng = np.random.default_rng(1)
    index = np.repeat(np.arange(30), 100)
    flat = rng.gamma(4, 5_000, 3_000)
    assert not costs.drifts(Run(0, "a", flat, index))
    assert costs.drifts(Run(0, "a", flat * np.linspace(1, 1.5, 3_000), index))
    assert not costs.drifts(Run(0, "a", flat[:300], index[:300]))


def test_a_heat_map_counts_messages_by_time_and_latency_and_marks_pauses() -> None:
    latency = np.array([10_000, 10_000, 900_000, 20_000])
    run = Run(3, "a", latency, np.array([0, 0, 1, 2]))
    other = Run(3, "b", np.array([5_000, 5_000]), np.array([0, 2]))
    begin = 1_000_000_000
    own = Capture(Path("a"), {}, 4, 1, 0, 0, flushes=[(begin + 10**9, 0, 4)], collections=[(begin + 5 * 10**8, 0)])
    # A pause in the warm-up is not shown.
    own.collections.append((begin - 1, 0))
    empty = Capture(Path("b"), {}, 2, 1, 0, 0)
    found, second = heat.heat_maps([run, other], 1000, {"a": [own], "b": [empty]}, {"a": begin, "b": begin})
    assert [sum(row) for row in found.counts] == [2, 1, 1]
    assert [sum(row) for row in second.counts] == [1, 0, 1]
    assert found.edges_ns == second.edges_ns
    assert found.edges_ns[0] == pytest.approx(5_000)
    slow = found.counts[1].index(1)
    assert found.edges_ns[slow] <= 900_000 <= found.edges_ns[slow + 1]
    assert (found.collections_s, found.flushes_s) == ([0.5], [1.0])
