"""Study files and the order of the runs."""

from itertools import pairwise
from pathlib import Path

import pytest

from lab import connectors, study
from lab.effects import FACTORS
from lab.study import JoinedRun, LiveRun, Study, StudyError, TimedRun
from lab.supervisor import feed_command

TEXT = """
name = "mine"
connectors = ["a", "b", "c"]
[[timed]]
name = "t"
rate = 5000
blocks = 40
measured_s = 3
[[joined]]
exchange = "gemini"
markets = 1
rate = 43
measured_s = 10
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", ["short", "full", "collection", "saturation", "factors"])
def test_shipped_studies_are_valid(name: str) -> None:
    found = study.load(Path(__file__).parents[1] / "studies" / f"{name}.toml")
    assert found.name == name


def test_the_factor_study_changes_one_setting_per_table() -> None:
    base, *others = study.load(Path(__file__).parents[1] / "studies" / "factors.toml").timed
    changed = [[key for key in FACTORS if getattr(table, key) != getattr(base, key)] for table in others]
    assert changed == [
        ["tls"],
        ["compression"],
        ["fragment_bytes"],
        ["payload_bytes"],
        ["payload_bytes"],
        ["subscribe"],
    ]


def test_the_collection_has_every_connector_and_every_variant() -> None:
    for name in ("collection", "full"):
        found = study.load(Path(__file__).parents[1] / "studies" / f"{name}.toml")
        assert set(found.connectors) == set(connectors.load_all())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("rate = 5000", "rate = 5000\nrat = 1"), 'unknown key "timed.0.rat"'),
        (('name = "mine"', 'name = "mine"\ncolour = 1'), 'unknown key "colour"'),
        (("measured_s = 3", ""), 'key "timed.0.measured_s" is missing'),
        (("rate = 5000", "rate = 0"), '"timed.0.rate" is 0: input should be greater than or equal to 1'),
        (('"gemini"', '"kraken"'), 'joined.0: exchange is "kraken": expected binance, bithumb, gemini'),
        (("rate = 43", ""), "joined.0: markets and rate are missing"),
        (("rate = 43", 'rate = 43\nrelay = "ws://127.0.0.1:1/"'), "joined.0: markets and rate are those of the server"),
        (("measured_s = 3", 'measured_s = 3\narrival = "batches"'), "timed.0: batch and arrival"),
        (("measured_s = 3", "measured_s = 3\nbatch = 10"), "timed.0: batch and arrival"),
        (('"b", "c"', '"b", "a"'), "connectors contains a twice"),
        (
            ("[[joined]]", '[analysis]\nsubject = "d"\n[[joined]]'),
            'analysis.subject is "d": expected one of connectors',
        ),
        (("blocks = 40", "blocks = ["), "is not valid TOML"),
    ],
)
def test_a_wrong_study_is_named(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    with pytest.raises(StudyError) as error:
        study.load(written(tmp_path, TEXT.replace(*change)))
    assert message in str(error.value)


def test_a_missing_study_and_an_empty_one_are_named(tmp_path: Path) -> None:
    with pytest.raises(StudyError, match=r"cannot read study .*: No such file"):
        study.load(tmp_path / "absent.toml")
    with pytest.raises(StudyError, match="it would run nothing"):
        study.load(written(tmp_path, 'name = "x"\nconnectors = ["a"]\n'))


def test_each_block_runs_every_connector_once_in_a_seeded_order(tmp_path: Path) -> None:
    found = study.load(written(tmp_path, TEXT))
    runs = study.plan(found, ["a", "b", "c"])
    blocks = study.blocks_of(runs)
    assert len(blocks) == 41
    orders = set()
    for number, block in enumerate(blocks[:-1]):
        assert all(isinstance(run, TimedRun) and run.block == number for run in block)
        assert sorted(run.connector for run in block) == ["a", "b", "c"]
        orders.add(tuple(run.connector for run in block))
    assert len(orders) == 6
    assert isinstance(blocks[-1][0], JoinedRun)
    assert runs == study.plan(found, ["a", "b", "c"])
    assert runs != study.plan(found.model_copy(update={"seed": 2}), ["a", "b", "c"])
    assert len({run.id for run in runs}) == len(runs)


def test_a_connector_that_is_not_available_is_not_planned(tmp_path: Path) -> None:
    runs = study.plan(study.load(written(tmp_path, TEXT)), ["a", "c"])
    assert {run.connector for run in runs if isinstance(run, TimedRun)} == {"a", "c"}
    assert [run.connectors for run in runs if isinstance(run, JoinedRun)] == [("a", "c")]


def test_a_study_without_any_connector_plans_nothing(tmp_path: Path) -> None:
    assert study.plan(Study.model_validate(study.load(written(tmp_path, TEXT)).model_dump()), []) == []


def test_a_table_with_tls_leaves_out_programs_without_it() -> None:
    timed = {"name": "secure", "rate": 100, "blocks": 1, "measured_s": 1, "tls": True}
    plain = {"exchange": "gemini", "markets": 1, "rate": 10, "measured_s": 1}
    wanted = Study.model_validate(
        {
            "name": "mixed",
            "connectors": ["a", "b"],
            "timed": [timed],
            "joined": [plain, {**plain, "exchange": "bithumb", "tls": True}],
        }
    )
    runs = study.plan(wanted, ["a", "b"], "reference", without_tls=["b", "reference"])
    assert [r.connector for r in runs if isinstance(r, TimedRun)] == ["a"]
    assert [r.connectors for r in runs if isinstance(r, JoinedRun)] == [("a", "b"), ("a",)]


def test_a_table_with_compression_leaves_out_programs_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timed = {"name": "small", "rate": 100, "blocks": 1, "measured_s": 1, "compression": True}
    wanted = Study.model_validate({"name": "s", "connectors": ["a", "b"], "timed": [timed]})
    runs = study.plan(wanted, ["a", "b"], "reference", without_compression=["b", "reference"])
    assert [r.connector for r in runs if isinstance(r, TimedRun)] == ["a"]
    monkeypatch.setenv("PITWIRE_BIN", __file__)
    assert "--compress" in feed_command(runs[0], 1, tmp_path, tmp_path, 1)


def test_a_live_run_has_the_connectors_that_its_url_allows() -> None:
    live = {"measured_s": 1, "name": "open", "url": "ws://127.0.0.1:1/"}
    secure = {"measured_s": 1, "name": "secret", "url": "wss://example.org/stream"}
    wanted = Study.model_validate({"name": "live", "connectors": ["a", "b"], "live": [live, secure]})
    runs = [r for r in study.plan(wanted, ["a", "b"], without_tls=["b"]) if isinstance(r, LiveRun)]
    assert [(r.id, r.connectors) for r in runs] == [("live-open", ("a", "b")), ("live-secret", ("a",))]


def test_a_relay_gets_the_url_instead_of_a_dialect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PITWIRE_BIN", __file__)
    joined = {"exchange": "kraken", "relay": "wss://example.org/", "relay_subscribe": "{}", "relay_ca": "ca.pem"}
    wanted = Study.model_validate({"name": "r", "connectors": ["a"], "joined": [{**joined, "measured_s": 2.5}]})
    run = study.plan(wanted, ["a"])[0]
    command = feed_command(run, 1, tmp_path, tmp_path, 1)
    options = dict(pairwise(command))
    assert options["--relay"] == "wss://example.org/"
    assert options["--relay-subscribe"] == "{}"
    assert options["--relay-ca"] == str(tmp_path / "ca.pem")
    assert options["--relay-seconds"] == "5"
    assert not {"--rate", "--dialect", "--trades"} & set(command)
