"""Scores for charts: computation, tables, marks of significance, and texts."""

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
"""Metrics of our own charts. In disambiguated contexts they use KoBBQ's bias: MBBQ's is not 0 for a perfect model if
biased and counter-biased contexts differ in number, as they do in small samples."""
METRIC_TITLES = {name: metric.title for name, metric in METRICS.items()}
"""Metric → its title on an axis."""
LEVEL, MARK = 0.05, "*"
"""Scores with an adjusted p value below LEVEL have the mark."""
BIAS_SIGN = "Bias above 0 is stereotypical, below 0 anti-stereotypical."
BIAS_SOURCE = "Bias: MBBQ eq. 1. Diff-bias, in disambiguated contexts: KoBBQ (EsBBQ eq. 4)."
MARK_CAPTION = (
    f"{MARK}: differs from 0 (p < {LEVEL:g} by the interval over templates; false discovery rate held over all cells "
    "of a table)."
)
_MAX_NAMED = 6
"""The most groups that are named in a sentence."""


@dataclass(frozen=True)
class PlainNumber:
    """A number without an interval."""

    value: float | None
    ci_low: float | None = None
    ci_high: float | None = None


class ScoreView:
    """A table of observations of one or several runs; computed scores are cached."""

    def __init__(self, frame: polars.DataFrame, sampling: InferenceSettings) -> None:
        self.frame, self.sampling = frame, sampling
        self._scores: dict[tuple[Key, Key, Split], dict[Key, GroupScore]] = {}
        self._values: dict[tuple[str, Split | None], list[str]] = {}
        self.models = self.values("model")
        self.model_names = short_names(self.models)
        """Model → its name in a chart."""
        several = len(self.values("benchmark")) > 1
        self.place_by: Key = ("benchmark", "language") if several else ("language",)
        """Groupings of places: the language, and the benchmark if there are several."""
        self.by: Key = ("model", *self.place_by)
        self.where = " and ".join(self.place_by)
        """`place_by` in words."""

    def values(self, grouping: str, split: Split | None = None) -> list[str]:
        """The occurring values of a grouping, sorted."""
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

    def group_label(self, by: Sequence[str], key: Key) -> str:
        """The name of a group in a sentence, without the values that all groups share."""
        names = [value for name, value in zip(by, key, strict=True) if len(self.values(name)) > 1]
        return ", ".join(names or key[-1:])

    def row_names(self, keys: Iterable[Key], limit: int = 30) -> dict[Key, str]:
        """The names of groups by model and place in a chart; the model is included if there are several."""
        size = len(self.place_by) + (len(self.models) > 1)
        return short_names(keys, lambda key: " · ".join(key[-size:]), limit)

    def require_control(self) -> None:
        """Raises ChartUnavailableError if there are no answers to control questions."""
        if "control" not in self.values("split"):
            raise ChartUnavailableError("needs answers to control questions; run with --splits bias,control")

    def scored(
        self, by: Sequence[str], metrics: Sequence[str], split: Split = "bias", *, is_tested: bool = False
    ) -> ScoreSet:
        """The scores of every group of a split; with `is_tested`, biases are tested against 0.

        Raises:
            ChartUnavailableError: if the split has no answers.
        """
        request = (tuple(by), tuple(metrics), split)
        if request not in self._scores:
            table = score(self.part(split), by, metrics, self.sampling)
            self._scores[request] = {_key(group.group): group for group in table.groups}
        if not self._scores[request]:
            raise ChartUnavailableError(f"no answers of the {split} split")
        tested = [METRICS[metric] for metric in metrics if is_tested and METRICS[metric].low < 0]
        p_values: dict[str, dict[Key, float | None]] = {}
        for metric in tested:
            tests = group_tests(self.part(split), by, [metric], self.sampling)
            p_values[metric.name] = {_key(test.group): test.tests[0].p_adjusted for test in tests}
        return ScoreSet(self, *request[:2], self._scores[request], p_values)


def _key(group: Mapping[str, str | None]) -> Key:
    return tuple(value or "–" for value in group.values())


@dataclass(frozen=True)
class ScoreSet:
    """The scores of some groups, with the table and the texts of a chart of them."""

    answers: ScoreView
    by: Key
    metrics: Key
    groups: Mapping[Key, GroupScore]
    p_values: Mapping[str, Mapping[Key, float | None]]
    """Metric → group → p value of its test against 0, adjusted over groups (false discovery rate)."""

    def score(self, key: Key, metric: str) -> MetricScore | None:
        """A group's score; None if the group is missing or its score is undefined."""
        found = self.groups[key].metrics[metric] if key in self.groups else None
        return None if found is None or found.value is None else found

    def value(self, key: Key, metric: str) -> float | None:
        """A group's score as a number; None as in `score`."""
        found = self.score(key, metric)
        return None if found is None else found.value

    def mark(self, key: Key, metric: str) -> str:
        """The mark of a significant score."""
        return mark_of(self.p_values.get(metric, {}).get(key))

    def cell(self, key: Key, metric: str) -> Cell:
        """A group's score for a table, with its mark if the metric was tested."""
        value = self.value(key, metric)
        return FlaggedNumber(value, self.mark(key, metric)) if metric in self.p_values else value

    def panels(self, names: Mapping[Key, tuple[str, str]]) -> list[Panel]:
        """A panel for each metric; `names`: group → its row and its series."""
        panels = []
        for metric in self.metrics:
            values = [datum(*place, found) for key, place in names.items() if (found := self.score(key, metric))]
            is_signed = METRICS[metric].low < 0
            reach, line = (reach_of(values), None) if is_signed else (None, CHANCE)
            panels.append(Panel(METRIC_TITLES[metric].capitalize(), values, reach, line))
        return panels

    def table(self) -> Table:
        """One row for each group: answers, templates, scores with intervals, p values and marks."""
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
                found = self.score(key, metric) or PlainNumber(None)
                cells += [self.cell(key, metric), found.ci_low, found.ci_high]
                cells += [self.p_values[metric].get(key)] if metric in self.p_values else []
            table.add_row(*cells)
        return table

    def chart(self, title: str, shape: str, caption: str, spec: Spec, *, metric: str, more: str = "") -> Chart:
        """A chart of these scores; `metric`: that of its finding; `more`: options of its command."""
        return Chart(
            title=title,
            finding=self.takeaway(metric),
            alt=f"{shape}. {self.alt()}",
            caption=caption,
            table=self.table(),
            spec=spec,
            command=self.command(more),
        )

    def command(self, extra: str = "") -> str:
        """The command that computes the same scores."""
        return f"mbbq-gen score RUN --group-by {','.join((*self.by, 'split'))} --metric {','.join(self.metrics)}{extra}"

    def alt(self, *metrics: str) -> str:
        """The extremes of the metrics, by default all, over the groups: `Accuracy from 0.21 (tr) to 0.93 (en).`"""
        named = {key: self.answers.group_label(self.by, key) for key in self.groups}
        ranges = (
            range_text(metric, [(name, self.value(key, metric)) for key, name in named.items()])
            for metric in metrics or self.metrics
        )
        return " ".join(f"{text[:1].upper()}{text[1:]}." for text in ranges)

    def takeaway(self, metric: str) -> str:
        """The groups whose bias differs from 0: `Bias, ambiguous: 1 of 4 differs from 0; 1 to the stereotype (en).`

        Significance is by `p_values` if the metric was tested, else by intervals, adjusted by Holm's method.
        """
        known = {key: found for key in self.groups if (found := self.score(key, metric)) is not None}
        title = METRIC_TITLES[metric].capitalize()
        if not known:
            return f"{title}: nothing to count."
        if metric in self.p_values:
            biased = [key for key in known if self.mark(key, metric)]
        else:
            by_key = directions(known, self.answers.sampling.confidence).items()
            biased = [key for key, direction in by_key if direction in {"stereotypical", "anti_stereotypical"}]
        if not biased:
            return f"{title}: none of {len(known)} surely differs from 0, which does not show that there is no bias."
        text = f"{title}: {len(biased)} of {len(known)} {'differs' if len(biased) == 1 else 'differ'} from 0"
        for words, sign in (("to the stereotype", 1), ("against it", -1)):
            if some := [key for key in biased if sign * (known[key].value or 0) > 0]:
                names = [self.answers.group_label(self.by, key) for key in some[:_MAX_NAMED]]
                text += f"; {len(some)} {words} ({'; '.join(names)}{'; …' if len(some) > len(names) else ''})"
        return f"{text}."


def able_answers(answers: ScoreView) -> tuple[ScoreView, str]:
    """The answers on templates on which each model is above chance in all its languages; the counts of these as text.

    As `mbbq-gen compare --across language --group-by model --template-filter above-chance` (MBBQ §5.2).

    Raises:
        ChartUnavailableError: if there is no control set, or if no template is kept.
    """
    import polars as pl

    answers.require_control()
    kept, counts = [answers.frame.clear()], []
    for model, name in answers.model_names.items():
        frame = answers.frame.filter(pl.col("model").cast(pl.String) == model)
        bias = frame.filter(pl.col("split").cast(pl.String) == "bias")
        templates = bias.select(template_expression()).to_series().unique().to_list()
        try:
            selection = select_templates(template_ability(frame, answers.place_by), templates)
        except UsageError:
            counts.append(f"{name} has no disambiguated control questions")
            continue
        counts.append(f"{name} {selection.n_kept} of {selection.n_templates}")
        kept.append(keep_templates(frame, selection.kept))
    able = ScoreView(pl.concat(kept), answers.sampling)
    if able.part("bias").is_empty():
        raise ChartUnavailableError(
            "no template of the control set on which a model is above chance in every language (MBBQ §5.2)"
        )
    return able, "; ".join(counts)


def key_names(keys: Iterable[Key]) -> dict[Key, str]:
    """The distinct keys, sorted → their names in a chart."""
    return short_names(sorted(set(keys)), " · ".join)


def key_table(by: Sequence[str], **others: tuple[str, ColumnKind]) -> Table:
    """An empty table with a column for each grouping, then the other ones: name → title and kind."""
    keys = (Column(name, name.replace("_", " ")) for name in by)
    return Table(*keys, *(Column(name, *one) for name, one in others.items()))


def mark_of(p_value: float | None) -> str:
    """MARK if the p value is significant, else empty."""
    return MARK if p_value is not None and p_value < LEVEL else ""


def number_text(name: str, value: float) -> str:
    """A value of the metric `name` in an alternative text."""
    return f"{value:+.2f}".replace("-", "−") if METRICS[name].low < 0 else f"{value:.2f}"


def kind_of(metric: str) -> ColumnKind:
    """The kind of the metric's column."""
    return "score" if METRICS[metric].low < 0 else "share"


def range_text(metric: str, named: Iterable[tuple[str, float | None]]) -> str:
    """The extremes of named values: `bias, ambiguous from -0.22 (tr) to +0.07 (es)`."""
    known, title = [(value, name) for name, value in named if value is not None], METRIC_TITLES[metric]
    if not known:
        return f"{title} undefined throughout"
    (low, least), (high, most) = min(known), max(known)
    if low == high:
        return f"{title} {number_text(metric, low)} throughout"
    return f"{title} from {number_text(metric, low)} ({least}) to {number_text(metric, high)} ({most})"
