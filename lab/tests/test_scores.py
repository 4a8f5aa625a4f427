"""The study's Tables 8 to 10 give its Tables 11 and 12, and no other tie rule does."""

from fractions import Fraction

import pytest

from lab import published, scores

LANGUAGES = list(published.LANGUAGES)

# Typed from section 3.3 of the specification: one row per metric, one triple of exchanges.
INTEGER_SCORES = {
    "Maximum": ("521563", "651335", "641352"),
    "Q3": ("531643", "641624", "641352"),
    "Median": ("641642", "632626", "641254"),
    "Q1": ("636622", "544614", "632525"),
    "Minimum": ("644514", "555622", "556155"),
}


@pytest.fixture(scope="module")
def scoring() -> scores.Scoring:
    return scores.score(published.FIVE_NUMBERS, LANGUAGES)


def test_integer_scores_are_those_of_competition_ranking(scoring: scores.Scoring) -> None:
    for metric, rows in INTEGER_SCORES.items():
        for exchange, digits in zip(published.EXCHANGES, rows, strict=True):
            assert [int(x) for x in scoring.cells[exchange][metric]] == [int(d) for d in digits], (metric, exchange)


@pytest.mark.parametrize("metric", published.METRICS)
@pytest.mark.parametrize("language", published.LANGUAGES)
def test_table_11_cell(scoring: scores.Scoring, metric: str, language: str) -> None:
    column = LANGUAGES.index(language)
    assert str(scoring.metric_scores[metric][column]) == published.METRIC_SCORES[metric][column]


@pytest.mark.parametrize("language", published.LANGUAGES)
def test_table_12_cell(scoring: scores.Scoring, language: str) -> None:
    column = LANGUAGES.index(language)
    assert str(scoring.final_scores[column]) == published.FINAL_SCORES[column]


def test_placement_is_the_published_one(scoring: scores.Scoring) -> None:
    assert scoring.order() == ("C++", "JavaScript", "Go", "Python", "PHP", "Java")


# Section 3.5: rule, wrong cells of 30, unrounded finals.
CONTROLS = [
    ("competition, best of tie", 0, "5.667 3.800 2.467 4.600 3.267 3.533"),
    ("average of tie", 26, "5.267 3.333 2.133 4.300 2.967 3.000"),
    ("worst of tie", 26, "4.867 2.867 1.800 4.000 2.667 2.467"),
    ("dense from the top", 21, "5.667 4.333 3.267 4.933 4.267 4.067"),
    ("dense from the bottom", 28, "3.867 2.533 1.467 3.133 2.467 2.267"),
]


@pytest.mark.parametrize(("rule", "wrong", "finals"), CONTROLS)
def test_every_other_tie_rule_fails(rule: str, wrong: int, finals: str) -> None:
    scoring = scores.score(published.FIVE_NUMBERS, LANGUAGES, scores.TIE_RULES[rule])
    assert scores.wrong_cells(scoring, published.METRIC_SCORES) == wrong
    assert [f"{float(x):.3f}" for x in scoring.final_exact] == finals.split()


def test_controls_cover_every_tie_rule() -> None:
    assert [name for name, _, _ in CONTROLS] == list(scores.TIE_RULES)


def test_rounding_is_half_up_and_exact() -> None:
    assert str(scores.two_decimals(Fraction(1005, 1000))) == "1.01"
    assert str(scores.two_decimals(Fraction(16, 3))) == "5.33"
    assert str(scores.two_decimals(Fraction(17, 3))) == "5.67"


# Section 3.7.
SENSITIVITY = {
    "without Binance": "5.70 4.10 2.40 4.10 3.20 3.90",
    "without Bithumb": "5.70 3.60 2.40 4.20 3.90 3.20",
    "without Gemini": "5.60 3.70 2.60 5.50 2.70 3.50",
    "Binance only": "5.60 3.20 2.60 5.60 3.40 2.80",
    "Gemini only": "5.80 4.00 2.20 2.80 4.40 3.60",
    "median only": "6.00 3.67 1.33 4.67 3.67 4.00",
    "quartiles only": "5.78 3.56 2.11 5.11 3.00 3.56",
}


def test_fragility_table_matches_the_specification() -> None:
    rows = {row.name: row for row in scores.fragility(published.FIVE_NUMBERS, LANGUAGES)}
    for name, finals in SENSITIVITY.items():
        assert [f"{x:.2f}" for x in rows[name].finals] == finals.split(), name


def test_half_a_millisecond_of_rounding_breaks_the_order() -> None:
    draws = scores.perturb(published.FIVE_NUMBERS, LANGUAGES, half_width=0.5, per_server=False)
    assert draws.same_order == pytest.approx(0.43, abs=0.02)
    assert draws.better["Python", "PHP"] == pytest.approx(0.5, abs=0.05)


def test_a_clock_error_of_one_millisecond_breaks_the_order() -> None:
    draws = scores.perturb(published.FIVE_NUMBERS, LANGUAGES, half_width=1.0, per_server=True)
    assert draws.same_order == pytest.approx(0.07, abs=0.02)
    assert draws.first["C++"] == pytest.approx(0.85, abs=0.02)
    assert draws.last["Java"] == pytest.approx(0.76, abs=0.02)


def test_a_share_of_draws_has_its_interval() -> None:
    assert scores.share_text(0.5, 9_604) == "50.0 ± 1.0 %"
    assert scores.share_text(1.0) == "100.0 ± 0.0 %"


def test_linter_flags_exactly_three_whiskers() -> None:
    found = scores.inconsistent_whiskers(published.FIVE_NUMBERS, LANGUAGES)
    assert [row.where for row in found] == ["Binance, JavaScript", "Gemini, C++", "Gemini, Go"]
    assert "135 is above the fence 132.5" in found[0].text


def test_linter_flags_the_span_of_76_hours() -> None:
    found = scores.inconsistent_duration(published.PRINTED_START, published.PRINTED_END, published.CLAIMED_HOURS)
    assert found is not None
    assert "is 76 h; the study says 100 h" in found.text
    assert scores.inconsistent_duration("2020-08-01T00:00", "2020-08-05T04:00", 100) is None
