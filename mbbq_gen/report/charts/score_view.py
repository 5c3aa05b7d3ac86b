"""The answers that charts are made of, and their scores as tables, marks and words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mbbq_gen.analysis.ability import CHANCE, keep_templates, select_templates, template_ability
from mbbq_gen.analysis.score_extras import group_tests
from mbbq_gen.analysis.scores import GroupScore, MetricScore, score
from mbbq_gen.core.errors import UsageError
from mbbq_gen.report.charts import Chart, ChartUnavailableError
from mbbq_gen.report.charts.vega import Panel, Spec, datum, reach_of, short_names
from mbbq_gen.report.conclusions import directions
from mbbq_gen.report.tables import Cell, Column, ColumnKind, FlaggedNumber, Table
from mbbq_gen.scoring.codes import AVERAGES
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.scoring.tally import GROUPINGS, template_expression
from mbbq_gen.statistics.estimate import InferenceSettings

if TYPE_CHECKING:
    import polars

    from mbbq_gen.core.records import Split

Key = tuple[str, ...]
"""A value of each grouping."""
SUMMARY = ("accuracy_ambiguous", "accuracy_disambiguated", "mbbq_bias_ambiguous", "diff_bias_disambiguated")
"""Metrics of our own charts. MBBQ's bias in disambiguated contexts is not 0 for a perfect model where biased and
counter-biased contexts are not equally many, as in small samples they are not; KoBBQ's is."""
METRIC_TITLES = {name: metric.title for name, metric in METRICS.items()}
"""Metrics as axes name them."""
LEVEL, MARK = 0.05, "*"
"""Adjusted p values below the level are marked."""
BIAS_SIGN = "Bias above 0 is stereotypical, below 0 anti-stereotypical."
BIAS_SOURCE = "Bias: MBBQ eq. 1. Diff-bias, in disambiguated contexts: KoBBQ (EsBBQ eq. 4)."
MARK_CAPTION = (
    f"{MARK}: differs from 0 (p < {LEVEL:g} by the interval over templates; false discovery rate held over all cells "
    "of a table)."
)
_GROUPS_NAMED = 6
"""The most groups that are named in a sentence; of more, only the first."""


@dataclass(frozen=True)
class PlainNumber:
    """A number without an interval."""

    value: float | None
    ci_low: float | None = None
    ci_high: float | None = None


class ScoreView:
    """A table of observations, of one run or of several."""

    def __init__(self, frame: polars.DataFrame, sampling: InferenceSettings) -> None:
        self.frame, self.sampling = frame, sampling
        self._scores: dict[tuple[Key, Key, Split], dict[Key, GroupScore]] = {}
        self._values: dict[tuple[str, Split | None], list[str]] = {}
        self.models = self.values("model")
        self.model_names = short_names(self.models)
        """Model → its name as it is drawn."""
        several = len(self.values("benchmark")) > 1
        self.place_by: Key = ("benchmark", "language") if several else ("language",)
        """Where questions come from: the language, and the benchmark where there are several."""
        self.by: Key = ("model", *self.place_by)
        self.where = " and ".join(self.place_by)
        """The title of `place_by` on an axis."""

    def values(self, grouping: str, split: Split | None = None) -> list[str]:
        """The values of a grouping that occur, sorted."""
        import polars as pl

        if (grouping, split) not in self._values:
            frame = self.frame if split is None else self.part(split)
            found = frame.select(pl.col(GROUPINGS[grouping]).unique().cast(pl.String)).to_series().drop_nulls().sort()
            self._values[grouping, split] = found.to_list()
        return self._values[grouping, split]

    def part(self, split: Split) -> polars.DataFrame:
        """The answers of one split."""
        import polars as pl

        return self.frame.filter(pl.col("split").cast(pl.String) == split)

    @property
    def interval_caption(self) -> str:
        """The caption's sentence on intervals."""
        if self.sampling.average != "questions":
            return f"Scores are {AVERAGES[self.sampling.average]}; bars are {self.sampling.confidence:.0%} intervals."
        return f"Bars are {self.sampling.confidence:.0%} bootstrap intervals over templates."

    def spoken_key(self, by: Sequence[str], key: Key) -> str:
        """The name of a group in a sentence: without the values that all groups share."""
        names = [value for name, value in zip(by, key, strict=True) if len(self.values(name)) > 1]
        return ", ".join(names or key[-1:])

    def row_names(self, keys: Iterable[Key], limit: int = 30) -> dict[Key, str]:
        """Names of groups by model and place as they are drawn: with the model if there are several."""
        size = len(self.place_by) + (len(self.models) > 1)
        return short_names(keys, lambda key: " · ".join(key[-size:]), limit)

    def require_control(self) -> None:
        """Raises ChartUnavailableError where there are no answers to control questions."""
        if "control" not in self.values("split"):
            raise ChartUnavailableError("needs answers to control questions; run with --splits bias,control")

    def scored(
        self, by: Sequence[str], metrics: Sequence[str], split: Split = "bias", *, is_tested: bool = False
    ) -> ScoreSet:
        """The scores of every group of a split; with `is_tested`, biases are tested against 0.

        Raises:
            ChartUnavailableError: where the split has no answers.
        """
        wanted = (tuple(by), tuple(metrics), split)
        if wanted not in self._scores:
            table = score(self.part(split), by, metrics, self.sampling)
            self._scores[wanted] = {_key(group.group): group for group in table.groups}
        if not self._scores[wanted]:
            raise ChartUnavailableError(f"no answers of the {split} split")
        tested = [METRICS[metric] for metric in metrics if is_tested and METRICS[metric].low < 0]
        p_values: dict[str, dict[Key, float | None]] = {}
        for metric in tested:
            tests = group_tests(self.part(split), by, [metric], self.sampling)
            p_values[metric.name] = {_key(test.group): test.tests[0].p_adjusted for test in tests}
        return ScoreSet(self, *wanted[:2], self._scores[wanted], p_values)


def _key(group: Mapping[str, str | None]) -> Key:
    return tuple(value or "–" for value in group.values())


@dataclass(frozen=True)
class ScoreSet:
    """The scores of some groups: what a chart shows, its table and its words."""

    answers: ScoreView
    by: Key
    metrics: Key
    groups: Mapping[Key, GroupScore]
    p_values: Mapping[str, Mapping[Key, float | None]]
    """Metric → group → p value, for metrics that were tested against 0: does the score differ from it? The p value of
    its interval, the false discovery rate held over groups."""

    def score(self, key: Key, metric: str) -> MetricScore | None:
        """A group's score; None where the group is not there or its score is undefined."""
        found = self.groups[key].metrics[metric] if key in self.groups else None
        return None if found is None or found.value is None else found

    def value(self, key: Key, metric: str) -> float | None:
        """A group's score as a number; None where it is undefined."""
        found = self.score(key, metric)
        return None if found is None else found.value

    def mark(self, key: Key, metric: str) -> str:
        """The mark of a significant score."""
        return mark_of(self.p_values.get(metric, {}).get(key))

    def panels(self, names: Mapping[Key, tuple[str, str]]) -> list[Panel]:
        """A panel a metric, of groups under their rows and series: biases about 0, rates with a line at chance."""
        panels = []
        for metric in self.metrics:
            values = [datum(*at, found) for key, at in names.items() if (found := self.score(key, metric))]
            is_signed = METRICS[metric].low < 0
            reach, line = (reach_of(values), None) if is_signed else (None, CHANCE)
            panels.append(Panel(METRIC_TITLES[metric].capitalize(), values, reach, line))
        return panels

    def table(self) -> Table:
        """One row a group: its items and templates, its scores with intervals, and their p values and marks."""
        columns: dict[str, tuple[str, ColumnKind]] = {}
        for metric in self.metrics:
            kind = kind_of(metric)
            columns |= {metric: (METRIC_TITLES[metric], kind), f"{metric}_low": ("low", kind)}
            columns[f"{metric}_high"] = ("high", kind)
            if metric in self.p_values:
                columns[f"{metric}_p_adjusted"] = ("p (adjusted)", "p_value")
        table = key_table(self.by, n_answers=("answers", "count"), n_templates=("templates", "count"), **columns)
        for key, group in self.groups.items():
            cells: list[Cell] = [*key, group.n_answers, group.n_templates]
            for metric in self.metrics:
                found, is_tested = self.score(key, metric) or PlainNumber(None), metric in self.p_values
                cells.append(FlaggedNumber(found.value, self.mark(key, metric)) if is_tested else found.value)
                cells += [found.ci_low, found.ci_high, *([self.p_values[metric].get(key)] if is_tested else [])]
            table.add_row(*cells)
        return table

    def chart(self, title: str, shape: str, caption: str, spec: Spec, *, metric: str, more: str = "") -> Chart:
        """A chart of these scores; `metric`: what its first sentence is about; `more`: options of its command."""
        return Chart(
            title=title,
            sees=self.takeaway(metric),
            alt=f"{shape}. {self.alt()}",
            caption=caption,
            table=self.table(),
            spec=spec,
            command=self.command(more),
        )

    def command(self, extra: str = "") -> str:
        """The command that shows the same scores."""
        return f"mbbq-gen score RUN --group-by {','.join((*self.by, 'split'))} --metric {','.join(self.metrics)}{extra}"

    def alt(self, *metrics: str) -> str:
        """The extremes of the metrics, or of all, over all groups: `Accuracy from 0.21 (tr) to 0.93 (en).`"""
        named = {key: self.answers.spoken_key(self.by, key) for key in self.groups}
        return sentences(
            range_text(metric, [(name, self.value(key, metric)) for key, name in named.items()])
            for metric in metrics or self.metrics
        )

    def takeaway(self, metric: str) -> str:
        """Where a bias differs from 0: `Bias, ambiguous: 2 of 4 differ from 0: to the stereotype en; against it nl.`

        Where it was tested by its p values, which are starred; else by its intervals, adjusted by Holm's method.
        """
        known = {key: found for key in self.groups if (found := self.score(key, metric)) is not None}
        title = METRIC_TITLES[metric].capitalize()
        if not known:
            return f"{title}: nothing to count."
        if metric in self.p_values:
            off = [key for key in known if self.mark(key, metric)]
        else:
            sides = directions(known, self.answers.sampling.confidence)
            off = [key for key, side in sides.items() if side in {"stereotypical", "anti_stereotypical"}]
        if not off:
            return f"{title}: none of {len(known)} surely differs from 0, which does not show that there is no bias."
        text = f"{title}: {len(off)} of {len(known)} {'differs' if len(off) == 1 else 'differ'} from 0"
        for words, sign in (("to the stereotype", 1), ("against it", -1)):
            if some := [key for key in off if sign * (known[key].value or 0) > 0]:
                names = [self.answers.spoken_key(self.by, key) for key in some[:_GROUPS_NAMED]]
                text += f"; {len(some)} {words} ({'; '.join(names)}{'; …' if len(some) > len(names) else ''})"
        return f"{text}."


def able_answers(answers: ScoreView) -> tuple[ScoreView, str]:
    """The answers on the templates on which each model is above chance in all its languages; how many those are.

    As `mbbq-gen compare --across language --within model --select above-chance` keeps them (MBBQ §5.2).

    Raises:
        ChartUnavailableError: where there is no control set, or nothing is kept.
    """
    import polars as pl

    answers.require_control()
    kept, counted = [answers.frame.clear()], []
    for model, name in answers.model_names.items():
        frame = answers.frame.filter(pl.col("model").cast(pl.String) == model)
        bias = frame.filter(pl.col("split").cast(pl.String) == "bias")
        templates = bias.select(template_expression()).to_series().unique().to_list()
        try:
            selection = select_templates(template_ability(frame, answers.place_by), templates)
        except UsageError:
            counted.append(f"{name} has no disambiguated control questions")
            continue
        counted.append(f"{name} {selection.n_kept} of {selection.n_templates}")
        kept.append(keep_templates(frame, selection.kept))
    able = ScoreView(pl.concat(kept), answers.sampling)
    if able.part("bias").is_empty():
        raise ChartUnavailableError(
            "no template of the control set on which a model is above chance in every language (MBBQ §5.2)"
        )
    return able, "; ".join(counted)


def key_names(keys: Iterable[Key]) -> dict[Key, str]:
    """The keys, sorted, each once → the names that they are drawn under."""
    return short_names(sorted(set(keys)), " · ".join)


def key_table(by: Sequence[str], **others: tuple[str, ColumnKind]) -> Table:
    """An empty table with a column for each grouping, and others by name: their titles and kinds."""
    keys = (Column(name, name.replace("_", " ")) for name in by)
    return Table(*keys, *(Column(name, *one) for name, one in others.items()))


def mark_of(p_value: float | None) -> str:
    """The mark of a significant score."""
    return MARK if p_value is not None and p_value < LEVEL else ""


def spoken(name: str, value: float) -> str:
    """A number in an alternative text."""
    return f"{value:+.2f}".replace("-", "−") if METRICS[name].low < 0 else f"{value:.2f}"


def kind_of(metric: str) -> ColumnKind:
    """The kind of a column of the metric."""
    return "score" if METRICS[metric].low < 0 else "share"


def sentences(parts: Iterable[str]) -> str:
    """The parts as sentences, each beginning with a capital letter."""
    return " ".join(f"{part[:1].upper()}{part[1:]}." for part in parts if part)


def range_text(metric: str, named: Iterable[tuple[str, float | None]]) -> str:
    """`bias, ambiguous from -0.22 (tr) to +0.07 (es)`: the extremes of some values, for an alternative text."""
    known, title = [(value, name) for name, value in named if value is not None], METRIC_TITLES[metric]
    if not known:
        return f"{title} undefined throughout"
    (low, least), (high, most) = min(known), max(known)
    if low == high:
        return f"{title} {spoken(metric, low)} throughout"
    return f"{title} from {spoken(metric, low)} ({least}) to {spoken(metric, high)} ({most})"
