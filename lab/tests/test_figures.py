"""Text of the report: units, ranks, p values and grey cells."""

from types import SimpleNamespace

import numpy as np
import pytest
from markupsafe import Markup

from lab import figures, page, report, summary, tables
from lab.comparison import Interval

FIGURES_OF_A_PAIR = ("p_equivalence", "p_difference", "cliffs_delta", "a_faster", "mann_whitney_p")
FIGURES_OF_A_PAIR += ("brunner_munzel_p", "wasserstein")


@pytest.mark.parametrize(
    ("value_ns", "text"), [(950, "950 ns"), (32_100, "32.1 µs"), (4_100_000, "4.1 ms"), (2e9, "2 s"), (-5e3, "-5 µs")]
)
def test_a_duration_names_its_unit(value_ns: float, text: str) -> None:
    assert figures.time_text(value_ns) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.01234, "0.0123"), (7.156, "7.16"), (99.4, "99.4"), (937, "937"), (1154.6, "1,155"), (19000, "19,000")],
)
def test_labels_of_bars_have_no_exponents(value: float, text: str) -> None:
    assert figures.plain(value) == text


def test_a_rank_interval_is_one_number_if_both_ends_agree() -> None:
    assert tables.rank_text(Interval(2, 2)) == "2"
    assert tables.rank_text(Interval(2, 4)) == "2 to 4"


def test_p_values_are_never_zero() -> None:
    assert tables.p_value(0.0) == "< 0.0001"
    assert tables.p_value(0.01234) == "0.0123"
    assert tables.p_value(float("nan")) == "too few runs"


@pytest.mark.parametrize(("quantile", "name"), [(0.5, "p50"), (0.999, "p99.9"), (0.9999, "p99.99"), (0.99, "p99")])
def test_quantile_names(quantile: float, name: str) -> None:
    assert summary.quantile_name(quantile) == name


def test_names_of_connectors_are_escaped() -> None:
    table = tables.normality_table("id", "what", {"<b>": None})
    assert table.rows[0][0] == "<b>"
    assert not isinstance(table.rows[0][0], Markup)


def test_medians_that_no_test_separates_from_the_lowest_are_named() -> None:
    values = {"slow": 60_000, "near": 31_000, "lowest": 30_000, "same": 30_500}
    levels = [SimpleNamespace(connector=name, quantiles={0.5: value}) for name, value in values.items()]
    verdicts = {
        ("slow", "near"): "unresolved",
        ("slow", "lowest"): "different",
        ("slow", "same"): "different",
        ("near", "lowest"): "unresolved",
        ("near", "same"): "different",
        ("lowest", "same"): "equivalent",
    }
    pairs = [SimpleNamespace(a=a, b=b, verdict=verdict) for (a, b), verdict in verdicts.items()]
    result = SimpleNamespace(comparison=SimpleNamespace(levels=levels, pairs=pairs))
    assert report.like_the_lowest(result) == ["same", "near"]


def test_a_median_below_the_reference_receiver_is_a_threat_to_validity() -> None:
    levels = [SimpleNamespace(connector=name, quantiles={0.5: value}) for name, value in (("a", 27_500), ("b", 30_000))]
    result = SimpleNamespace(
        comparison=SimpleNamespace(levels=levels), reference=SimpleNamespace(quantiles={0.5: 28_300.0})
    )
    assert report.below_reference(result) == ["a (0.8 µs)"]
    result.reference = None
    assert report.below_reference(result) == []


def test_every_connector_keeps_its_colour() -> None:
    few, many = figures.styles(["a", "b"]), figures.styles(["b", "a"])
    assert few == many
    assert len({colour for colour, _ in figures.styles([str(i) for i in range(8)]).values()}) == 8


def test_a_table_of_many_connectors_has_a_row_for_each() -> None:
    five = {f"c{i}": summary.five_numbers(np.array([1e3, 2e3, 3e3 + i])) for i in range(9)}
    table = tables.classic_table("id", "caption", five, 1e3, "µs")
    assert table.head[:3] == ["connector, µs", "Maximum (whisker)", "Q3"]
    assert [row[0] for row in table.rows] == list(five)
    few = tables.classic_table("id", "caption", dict(list(five.items())[:8]), 1e3, "µs")
    assert few.head[:2] == ["metric, µs", "c0"]
    assert few.rows[2][1] == table.rows[0][3] == "2.0"


def test_a_page_shows_the_pairs_with_the_lowest_median_if_there_are_many() -> None:
    names = [f"c{i:02}" for i in range(12)]
    interval = Interval(0.0, 1.0)
    pairs = [
        SimpleNamespace(
            a=a,
            b=b,
            verdict="unresolved",
            shift=1.0,
            interval_95=interval,
            cliffs_interval=interval,
            **dict.fromkeys(FIGURES_OF_A_PAIR, 0.5),
        )
        for i, a in enumerate(names)
        for b in names[i + 1 :]
    ]
    levels = [SimpleNamespace(connector=name, quantiles={0.5: 30_000 + i}) for i, name in enumerate(names)]
    comparison = SimpleNamespace(levels=levels, pairs=pairs, margin=10_000, minimum_detectable=None)
    settings = {"rate": 5, "arrival": "constant", "payload_bytes": 224}
    found = tables.pair_tables(SimpleNamespace(name="t", blocks=[0, 1], comparison=comparison, settings=settings))
    for table in found:
        assert len(table.rows) == 66
        assert [row[0] for row in table.page_rows] == [f"c00 to {name}" for name in names[1:]]
        assert "all 66 pairs" in table.note


def test_cells_become_markdown() -> None:
    interval = tables.with_interval(44_100, Interval(38_400, 45_000))
    assert page.plain(interval) == "44.1 (38.4 to 45.0)"
    assert page.plain(Markup('<span class="grey">{}</span>').format(interval)) == "*44.1 (38.4 to 45.0)*"
    assert page.plain(Markup('<b class="different">different</b>')) == "different"
    assert page.plain("a|b <c>") == "a\\|b <c>"
