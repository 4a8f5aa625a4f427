"""The scoring model of the 2020 study, its tie rules, and how fragile its ranking is."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import ROUND_HALF_UP, Decimal
from fractions import Fraction

import numpy as np

Scores = tuple[Fraction, ...]
# exchange -> metric -> one value per language
Tables = Mapping[str, Mapping[str, Sequence[float]]]


def competition(values: Sequence[float]) -> Scores:
    """Score n minus the number of smaller values. Tied values share the better score."""
    return tuple(Fraction(len(values) - sum(other < value for other in values)) for value in values)


def worst_of_tie(values: Sequence[float]) -> Scores:
    """Tied values share the worst of the scores that they occupy."""
    return tuple(Fraction(len(values) + 1 - sum(other <= value for other in values)) for value in values)


def average_of_tie(values: Sequence[float]) -> Scores:
    """Tied values share the mean of the scores that they occupy."""
    best, worst = competition(values), worst_of_tie(values)
    return tuple((a + b) / 2 for a, b in zip(best, worst, strict=True))


def dense_from_top(values: Sequence[float]) -> Scores:
    """The best value scores n. Each further distinct value scores one less."""
    order = sorted(set(values))
    return tuple(Fraction(len(values) - order.index(value)) for value in values)


def dense_from_bottom(values: Sequence[float]) -> Scores:
    """The worst value scores 1. Each better distinct value scores one more."""
    order = sorted(set(values), reverse=True)
    return tuple(Fraction(1 + order.index(value)) for value in values)


TieRule = Callable[[Sequence[float]], Scores]
TIE_RULES: dict[str, TieRule] = {
    "competition, best of tie": competition,
    "average of tie": average_of_tie,
    "worst of tie": worst_of_tie,
    "dense from the top": dense_from_top,
    "dense from the bottom": dense_from_bottom,
}


def two_decimals(value: Fraction) -> Decimal:
    """Rounds half up to two decimals, exactly: no binary fraction takes part."""
    scaled = (Decimal(value.numerator * 100) / Decimal(value.denominator)).quantize(Decimal(1), ROUND_HALF_UP)
    return (scaled / 100).quantize(Decimal("0.01"))


@dataclass(frozen=True)
class Scoring:
    """The study's Tables 11 and 12, and the integer scores that they come from."""

    languages: tuple[str, ...]
    cells: dict[str, dict[str, Scores]]  # exchange -> metric -> scores
    metric_scores: dict[str, tuple[Decimal, ...]]
    final_scores: tuple[Decimal, ...]
    final_exact: tuple[Fraction, ...]

    def order(self) -> tuple[str, ...]:
        """Languages from best to worst. Equal finals keep the order of the columns."""
        ranked = sorted(zip(self.final_exact, self.languages, strict=True), key=lambda pair: -pair[0])
        return tuple(language for _, language in ranked)


def score(tables: Tables, languages: Sequence[str], rule: TieRule = competition) -> Scoring:
    """Scores five-number tables as the study does.

    A metric's score is the mean over exchanges, rounded half up to two decimals. The final score
    is the mean of the rounded metric scores, rounded in the same way.
    """
    cells = {
        exchange: {metric: rule(tuple(values)) for metric, values in metrics.items()}
        for exchange, metrics in tables.items()
    }
    metrics = list(next(iter(cells.values())))
    columns = range(len(languages))
    means = {
        metric: tuple(
            sum((cells[exchange][metric][i] for exchange in cells), Fraction(0)) / len(cells) for i in columns
        )
        for metric in metrics
    }
    metric_scores = {metric: tuple(two_decimals(mean) for mean in row) for metric, row in means.items()}
    finals = tuple(
        two_decimals(sum((Fraction(metric_scores[metric][i]) for metric in metrics), Fraction(0)) / len(metrics))
        for i in columns
    )
    exact = tuple(sum((means[metric][i] for metric in metrics), Fraction(0)) / len(metrics) for i in columns)
    return Scoring(tuple(languages), cells, metric_scores, finals, exact)


def wrong_cells(scoring: Scoring, printed: Mapping[str, Sequence[str]]) -> int:
    """Number of metric scores that differ from the printed ones."""
    return sum(
        str(ours) != theirs
        for metric, row in printed.items()
        for ours, theirs in zip(scoring.metric_scores[metric], row, strict=True)
    )


@dataclass(frozen=True)
class Change:
    """One row of the fragility table: a change of the input, and the final scores after it."""

    name: str
    finals: tuple[float, ...]
    order: tuple[str, ...]


def fragility(tables: Tables, languages: Sequence[str]) -> list[Change]:
    """Final scores after leaving out parts of the input or changing the tie rule."""
    changes: list[tuple[str, Tables, TieRule]] = []
    if len(tables) > 1:
        for exchange in tables:
            rest = {name: metrics for name, metrics in tables.items() if name != exchange}
            changes.append((f"without {exchange}", rest, competition))
        for exchange in tables:
            changes.append((f"{exchange} only", {exchange: tables[exchange]}, competition))
    changes.append(("median only", keep_metrics(tables, ("Median",)), competition))
    changes.append(("quartiles only", keep_metrics(tables, ("Q3", "Median", "Q1")), competition))
    changes.extend((f"tie rule: {name}", tables, rule) for name, rule in TIE_RULES.items() if rule is not competition)
    rows = []
    for name, changed, rule in changes:
        scoring = score(changed, languages, rule)
        rows.append(Change(name, tuple(float(x) for x in scoring.final_exact), scoring.order()))
    return rows


def keep_metrics(tables: Tables, kept: Sequence[str]) -> Tables:
    return {exchange: {m: v for m, v in metrics.items() if m in kept} for exchange, metrics in tables.items()}


@dataclass(frozen=True)
class Draws:
    """How often the order survives a random error in the input."""

    same_order: float
    better: dict[tuple[str, str], float]  # (a, b) -> share of draws in which a scores above b
    first: dict[str, float]
    last: dict[str, float]


DRAWS = 20_000


def share_text(share: float, draws: int = DRAWS) -> str:
    """A share of draws in percent, with half of its 95 % interval."""
    half = 1.96 * math.sqrt(share * (1 - share) / draws)
    return f"{100 * share:.1f} ± {100 * half:.1f} %"


def perturb(
    tables: Tables,
    languages: Sequence[str],
    *,
    half_width: float,
    per_server: bool,
    draws: int = DRAWS,
    seed: int = 1,
) -> Draws:
    """Adds a uniform error of +-`half_width` to every cell, or one error to each language."""
    rng = np.random.default_rng(seed)
    n = len(languages)
    base = np.array([values for metrics in tables.values() for values in metrics.values()], dtype=float)
    size = (draws, 1, n) if per_server else (draws, *base.shape)
    noisy = base + rng.uniform(-half_width, half_width, size)
    # Competition rank: n minus the number of smaller values, for all cells at once.
    scores = n - (noisy[..., None, :] < noisy[..., :, None]).sum(axis=-1)
    # Equal finals keep the order of the columns, as in `Scoring.order`. Rounding removes the
    # differences that floating-point division adds to equal sums.
    finals = scores.mean(axis=1).round(9)
    placement = np.argsort(-finals, axis=1, kind="stable")
    published = [languages.index(language) for language in score(tables, languages).order()]
    better = {
        (a, b): float((finals[:, i] > finals[:, j]).mean())
        for i, a in enumerate(languages)
        for j, b in enumerate(languages)
        if i != j
    }
    return Draws(
        same_order=float((placement == published).all(axis=1).mean()),
        better=better,
        first={language: float((placement[:, 0] == i).mean()) for i, language in enumerate(languages)},
        last={language: float((placement[:, -1] == i).mean()) for i, language in enumerate(languages)},
    )


@dataclass(frozen=True)
class Inconsistency:
    """A printed value that its neighbours contradict."""

    where: str
    text: str


def inconsistent_whiskers(tables: Tables, languages: Sequence[str]) -> list[Inconsistency]:
    """Upper whiskers above Q3 + 1.5 IQR. A box plot's whisker never exceeds that fence."""
    found = []
    for exchange, metrics in tables.items():
        for i, language in enumerate(languages):
            q1, q3, whisker = metrics["Q1"][i], metrics["Q3"][i], metrics["Maximum"][i]
            fence = q3 + 1.5 * (q3 - q1)
            if whisker > fence:
                text = f"maximum {whisker} is above the fence {fence:g} (Q1 {q1}, Q3 {q3})"
                found.append(Inconsistency(f"{exchange}, {language}", text))
    return found


def inconsistent_duration(start: str, end: str, claimed_hours: float) -> Inconsistency | None:
    """Compares the printed start and end with the printed duration."""
    hours = (datetime.fromisoformat(end) - datetime.fromisoformat(start)).total_seconds() / 3600
    if hours == claimed_hours:
        return None
    return Inconsistency("duration", f"{start} to {end} is {hours:g} h; the study says {claimed_hours:g} h")
