"""The publication study: study files, order of the runs, figures and report."""

import re
from pathlib import Path

import numpy as np
import pytest
from test_publishers import program
from typer.testing import CliRunner

from lab.cli import app
from lab.publication import analysis, page, publishers, report
from lab.publication.analysis import AnalysisError, analyse
from lab.publication.run import Record, run_study
from lab.publication.study import PublicationStudy, load, plan
from lab.records import ResultFolder, write_json
from lab.study import StudyError

ECHO = {"name": "echo", "kind": "echo", "connections": 2, "seconds": 0.2, "rate": 20, "blocks": 5}
LIMIT = {"name": "limit", "kind": "heartbeat", "connections": 4, "seconds": 1, "blocks": 1, "find_limit": True}
NAMES = ["rust-pitwire", "equal", "slow"]
# p50 in µs of each block: ours, a second at a distance of 1 µs, a third 100 µs slower.
P50_US = {"rust-pitwire": (50, 52, 49, 51, 50), "equal": (51, 53, 50, 52, 51), "slow": (150, 153, 149, 151, 151)}


def study(**changes: object) -> PublicationStudy:
    return PublicationStudy.model_validate({"name": "test", "publishers": NAMES, "test": [ECHO, LIMIT], **changes})


def figures(p50_us: float) -> dict:
    zero = dict.fromkeys(("failed_connections", "ended_early", "lost", "late", "conflated", "duplicated"), 0)
    costs = {"cpu_us_per_delivery": p50_us / 10, "server_cpu_s": 1.0, "memory_mib": 20.0, "opening_s": 0.1}
    return zero | costs | {"malformed": 0, "p50_us": p50_us, "p99_us": 2 * p50_us, "wall_s": 3.0, "deliveries": 40}


@pytest.fixture
def results(tmp_path: Path) -> ResultFolder:
    """A result folder with five runs of each publisher, one failed run, and limits."""
    folder = ResultFolder(tmp_path / "results")
    environment = {"host": "h", "cores": 2, "cpu_model": "", "kernel": "6.18"}
    description = {
        "study": study(cross_check="echo").model_dump(),
        "environment": environment,
        "environment_digest": "d",
        "publishers": {n: {"language": "C", "library": "l", "version": "1", "tests": ["echo"]} for n in NAMES},
        "unavailable": {"absent": "missing cc"},
        "versions": {"commit": "0123456789"},
        "cores": {"publisher": [0], "load client": [1]},
        "started_realtime_ns": 1_795_834_800 * 10**9,  # 28 November 2026
    }
    records = [
        Record(f"echo-{name}-{block}", "echo", name, "pitwire", block, "kept", [], figures=figures(value))
        for name, values in P50_US.items()
        for block, value in enumerate(values)
    ]
    records[-1].figures["lost"] = 7
    records += [
        Record("art", "echo", "slow", "artillery", 0, "kept", [], figures={"p50_us": 170.0, "errors": 0}),
        Record("limit-a", "limit", "slow", "pitwire", 0, "flagged", ["x"], figures={"limit": 8, "limited_by": "late"}),
        Record("limit-b", "limit", "equal", "pitwire", 0, "failed", ["died"]),
    ]
    for record in records:
        folder.run_folder(record.id).mkdir(parents=True)
        write_json(folder.run_folder(record.id) / "record.json", record.__dict__)
    write_json(folder.path / "environment.json", description)
    return folder


def test_a_block_has_every_publisher_once_and_the_cross_check_repeats_it() -> None:
    offered = {"rust-pitwire": ["echo", "heartbeat"], "equal": ["echo"], "slow": ["echo", "heartbeat"]}
    runs = plan(study(cross_check="echo"), offered)
    assert runs == plan(study(cross_check="echo"), offered)
    echo = [run for run in runs if run.test.name == "echo"]
    for block in range(5):
        for generator in ("pitwire", "artillery"):
            own = [run.publisher for run in echo if run.block == block and run.generator == generator]
            assert sorted(own) == sorted(NAMES)
    assert sorted(run.publisher for run in runs if run.test.name == "limit") == ["rust-pitwire", "slow"]
    assert len({run.id for run in runs}) == len(runs)


def test_the_cross_check_can_repeat_fewer_blocks_than_the_test_has() -> None:
    runs = plan(study(cross_check="echo", cross_check_blocks=2), {name: ["echo"] for name in NAMES})
    blocks = [run.block for run in runs if run.generator == "artillery"]
    assert sorted(blocks) == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"publishers": ["a", "a"]}, "publishers contains a twice"),
        ({"cross_check": "limit"}, "expected the name of a test of kind echo"),
        ({"test": [{**ECHO, "publishers": ["b"]}]}, 'names b, which is not in "publishers"'),
    ],
)
def test_a_study_that_contradicts_itself_is_refused(changes: dict, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        study(**changes)


def test_an_unknown_key_of_a_study_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    path.write_text('name = "x"\nspeed = 1\npublishers = ["a"]\ntest = []\n')
    with pytest.raises(StudyError, match='unknown key "speed"'):
        load(path)
    found = CliRunner().invoke(app, ["publication", "run", str(path)])
    assert found.exit_code == 1
    assert 'unknown key "speed"' in found.stderr


@pytest.mark.parametrize("name", ["publication", "publication-short"])
def test_the_study_files_of_the_repository_can_be_read(name: str) -> None:
    found = load(Path(__file__).parents[1] / "studies" / f"{name}.toml")
    assert found.name == name
    # Nothing is left out, not even our own publisher.
    assert set(found.publishers) == set(publishers.load_all())
    assert all(test.publishers == [] for test in found.test)
    seed = next(test for test in found.test if test.name == "heartbeat")
    assert (seed.connections, seed.messages, seed.bytes) == (5_000, 10, 10_000)


def test_figures_are_medians_with_ranks_and_verdicts(results: ResultFolder) -> None:
    echo, limit = analyse(results).tests
    rows = {row.publisher: row for row in echo.rows}
    for name, values in P50_US.items():
        assert rows[name].levels["p50_us"].value == np.median(values)
    assert (rows["rust-pitwire"].rank.high, rows["slow"].rank.low) == (1, 3)
    assert rows["slow"].defects == ["7 lost"]
    verdicts = {d.publisher: d.verdict for d in echo.differences if d.measure == "p50_us"}
    assert verdicts == {"equal": "equivalent", "slow": "different"}
    shifts = {d.publisher: d.shift for d in echo.differences if d.measure == "p50_us"}
    assert shifts["equal"] == pytest.approx(1.0)
    assert shifts["slow"] == pytest.approx(100.5, abs=0.5)
    assert echo.cross_check["slow"]["p50_us"].value == 170.0
    assert {row.publisher: (row.limit, row.failed) for row in limit.rows} == {"slow": (8, 0), "equal": (None, 1)}


def test_a_publisher_that_misses_most_blocks_does_not_shorten_the_others() -> None:
    records = [
        Record("", "echo", name, "pitwire", block, "kept", [], figures={"p50_us": 1.0})
        for name, blocks in (("a", range(4)), ("b", range(4)), ("c", range(1)))
        for block in blocks
    ]
    found = analysis.complete_blocks(records, "p50_us")
    assert {name: len(values) for name, values in found.items()} == {"a": 4, "b": 4}


def test_the_report_names_failures_and_missing_publishers(results: ResultFolder) -> None:
    found = analyse(results)
    page = report.write(found, results, "make publication-study").read_text()
    for text in ("missing cc", "died", "7 lost", "different", "Most clients without an error"):
        assert text in page
    assert report.answer(found)[0].startswith("echo: p50 lies between 50 µs (rust-pitwire) and 151 µs (slow).")
    csv = (results.path / "tables" / "limit-limit.csv").read_text()
    assert "slow,8,late" in csv


def test_the_page_states_what_the_figures_say(results: ResultFolder, tmp_path: Path) -> None:
    found = analyse(results)
    report.write(found, results, "make publication-study")
    path = page.write(found, results.path, tmp_path / "docs", "mine", "A title", "make publication-study")
    text = " ".join(path.read_text().split())
    for claim in (
        "On 28 November 2026, the study test",
        "The lowest median latency is 50 µs (49 to 52), of rust-pitwire. The highest is 151 µs (149 to 153), of slow.",
        "The median latency of rust-pitwire is lower than that of slow, by 100 µs.",
        "The median latency of rust-pitwire is equivalent within ±10 µs to that of equal.",
        "Without an error: rust-pitwire and equal. With errors: slow (7 lost).",
        "slow serves the most clients without an error, 8. *Steps of 1 s",
        "Its median is 1.1 to 1.1 times that of `pitwire load`.",
        "- limit-b: died",
        "| absent | missing cc |",
    ):
        assert claim in text
    links = re.findall(r"\((mine/[^)]+)\)", text)
    assert {path.parent / link for link in links} == set((tmp_path / "docs" / "mine").iterdir())


def test_a_study_runs_to_its_report_and_does_not_repeat_finished_runs(tmp_path: Path) -> None:
    tests = [{**ECHO, "blocks": 2}, {**LIMIT, "seconds": 0.1, "connections": 1, "publishers": ["b"]}]
    wanted = study(publishers=["a", "b", "dead", "absent"], test=tests)
    known = {"a": program(), "b": program("one-answer-less"), "dead": program("no-start")}
    folder = ResultFolder(tmp_path / "results")
    first = run_study(wanted, folder, known, progress=lambda run, record: None)
    seen = {(r.test, r.publisher, r.block): "failed" if r.status == "failed" else "done" for r in first}
    echo = {("echo", name, block): "done" for name in "ab" for block in (0, 1)}
    dead = {("echo", "dead", block): "failed" for block in (0, 1)}
    assert seen == echo | dead | {("limit", "b", 0): "done"}
    assert run_study(wanted, folder, known, progress=lambda run, record: None) == first
    page = report.write(analyse(folder), folder, "command").read_text()
    assert "no port today" in page
    assert "there is no publisher of this name" in page
    with pytest.raises(StudyError, match="the study file has changed"):
        run_study(study(publishers=["a"], test=tests[:1]), folder, known, progress=lambda run, record: None)


def test_a_folder_without_a_study_is_named(tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match="holds no publication study"):
        analyse(ResultFolder(tmp_path))
    with pytest.raises(StudyError, match="no publisher of the study can start"):
        run_study(study(), ResultFolder(tmp_path), {}, progress=lambda run, record: None)
