"""The answers that charts are made of, the scores that several charts share, each made once, and charts' words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from mbbq_gen.analysis.score_extras import group_tests
from mbbq_gen.analysis.scores import GroupScore, MetricScore, score
from mbbq_gen.report.charts.catalogue import ChartUnavailableError
from mbbq_gen.report.charts.vega import short_names
from mbbq_gen.report.tables import ColumnKind
from mbbq_gen.scoring.codes import AVERAGES
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.scoring.tally import GROUPINGS
from mbbq_gen.statistics.estimate import InferenceSettings

if TYPE_CHECKING:
    import polars

    from mbbq_gen.core.records import Split

LEVEL = 0.05
"""Adjusted p values below it are marked."""
MARK = "*"
Key = tuple[str, ...]


@dataclass(frozen=True)
class Levels:
    """Combinations of groupings that occur, sorted, with the names that they are drawn under."""

    by: tuple[str, ...]
    keys: tuple[Key, ...]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.keys)


class ScoreView:
    """A table of observations, of one run or of several."""

    def __init__(self, frame: polars.DataFrame, sampling: InferenceSettings) -> None:
        self.frame, self.sampling = frame, sampling
        self._scores: dict[tuple[Key, Key, str], dict[Key, GroupScore]] = {}
        self._marks: dict[tuple[Key, str, str], dict[Key, float | None]] = {}
        self._values: dict[tuple[str, Split | None], list[str]] = {}
        self._parts: dict[Split, polars.DataFrame] = {}

    def values(self, grouping: str, split: Split | None = None) -> list[str]:
        """The values of a grouping that occur, sorted."""
        import polars as pl

        if (grouping, split) not in self._values:
            column = GROUPINGS[grouping]
            frame = self.frame if split is None else self.part(split)
            found = frame.select(pl.col(column).cast(pl.String)).to_series().drop_nulls().unique().sort()
            self._values[grouping, split] = [str(value) for value in found]
        return self._values[grouping, split]

    def part(self, split: Split) -> polars.DataFrame:
        """The answers of one split."""
        import polars as pl

        if split not in self._parts:
            self._parts[split] = self.frame.filter(pl.col("split").cast(pl.String) == split)
        return self._parts[split]

    @cached_property
    def models(self) -> list[str]:
        """The models, sorted."""
        return self.values("model")

    @cached_property
    def has_control(self) -> bool:
        """Whether there are answers to control questions."""
        return "control" in self.values("split")

    @cached_property
    def place_by(self) -> tuple[str, ...]:
        """What tells where questions come from: the language, and the benchmark where there are several."""
        return ("benchmark", "language") if len(self.values("benchmark")) > 1 else ("language",)

    @property
    def where(self) -> str:
        """What `place_by` is called on an axis."""
        return "language" if len(self.place_by) == 1 else "benchmark and language"

    def spoken_key(self, by: Sequence[str], key: Key) -> str:
        """What a group is called in a sentence: without what all groups share."""
        names = [value for name, value in zip(by, key, strict=True) if len(self.values(name)) > 1]
        return ", ".join(names or key[-1:])

    def row_names(self, keys: Sequence[Key]) -> list[str]:
        """What groups by model and place are called: with the model where there are several."""
        size = len(self.place_by) + (len(self.models) > 1)
        return [" · ".join(key[-size:]) for key in keys]

    def levels(self, by: Sequence[str], split: Split = "bias") -> Levels:
        """The combinations of groupings that occur in a split.

        Raises:
            ChartUnavailableError: where the split has no answers.
        """
        import polars as pl

        columns = [pl.col(GROUPINGS[name]).cast(pl.String).fill_null("–") for name in by]
        rows = self.part(split).select(columns).unique().rows()
        if not rows:
            raise ChartUnavailableError(f"no answers of the {split} split")
        keys = tuple(sorted(tuple(str(value) for value in row) for row in rows))
        return Levels(tuple(by), keys, tuple(short_names([" · ".join(key) for key in keys])))

    def scores(self, by: Sequence[str], metrics: Sequence[str], split: Split = "bias") -> dict[Key, GroupScore]:
        """The scores of every group, with intervals; a grouping without a value is `–`."""
        wanted = (tuple(by), tuple(metrics), split)
        if wanted not in self._scores:
            table = score(self.part(split), by, metrics, self.sampling)
            self._scores[wanted] = {
                tuple(value or "–" for value in group.group.values()): group for group in table.groups
            }
        return self._scores[wanted]

    def p_values(self, by: Sequence[str], metric: str, split: Split = "bias") -> dict[Key, float | None]:
        """Of every group: is its score 0? The p value of its interval, the false discovery rate held over groups."""
        wanted = (tuple(by), metric, split)
        if wanted not in self._marks:
            tests = group_tests(self.part(split), by, [METRICS[metric]], self.sampling)
            self._marks[wanted] = {
                tuple(value or "–" for value in test.group.values()): test.tests[0].p_adjusted for test in tests
            }
        return self._marks[wanted]


def mark_of(p_value: float | None) -> str:
    """The mark of a significant score."""
    return MARK if p_value is not None and p_value < LEVEL else ""


MARK_CAPTION = (
    f"{MARK}: differs from 0 (p < {LEVEL:g} by the interval over templates; false discovery rate held over all cells "
    "of a table)."
)


def interval_caption(sampling: InferenceSettings) -> str:
    """What bars of uncertainty are."""
    if sampling.average != "questions":
        return f"Scores are {AVERAGES[sampling.average]}; bars are {sampling.confidence:.0%} intervals."
    return f"Bars are {sampling.confidence:.0%} bootstrap intervals over templates."


def metric_of(group: GroupScore | None, name: str) -> MetricScore | None:
    """A group's score; None where the group or the score is not there."""
    if group is None or group.metrics[name].value is None:
        return None
    return group.metrics[name]


def value_of(group: GroupScore | None, name: str) -> float | None:
    """A group's score as a number; None where it is undefined."""
    found = metric_of(group, name)
    return None if found is None else found.value


METRIC_TITLES: dict[str, str] = {name: metric.title for name, metric in METRICS.items()}
"""Metrics as axes name them."""
BIAS_SIGN = "Bias above 0 is stereotypical, below 0 anti-stereotypical."


def spoken(name: str, value: float | None) -> str:
    """A number in an alternative text."""
    if value is None:
        return "undefined"
    return f"{value:+.2f}".replace("-", "−") if METRICS[name].low < 0 else f"{value:.2f}"


def kind_of(metric: str) -> ColumnKind:
    """How a column of the metric is written."""
    return "score" if METRICS[metric].low < 0 else "share"


def sentences(parts: Sequence[str]) -> str:
    """The parts as sentences, each beginning with a capital letter."""
    return " ".join(f"{part[:1].upper()}{part[1:]}." for part in parts if part)


def range_text(metric: str, named: Sequence[tuple[str, float | None]]) -> str:
    """`bias, ambiguous from -0.22 (tr) to +0.07 (es)`: the extremes of some values, for an alternative text."""
    known = [(value, name) for name, value in named if value is not None]
    if not known:
        return f"{METRIC_TITLES[metric]} undefined throughout"
    (low, least), (high, most) = min(known), max(known)
    title = METRIC_TITLES[metric]
    if len(known) == 1 or low == high:
        return f"{title} {spoken(metric, low)}" + (f" ({least})" if len(known) == 1 else " throughout")
    return f"{title} from {spoken(metric, low)} ({least}) to {spoken(metric, high)} ({most})"
