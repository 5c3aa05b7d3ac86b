"""Scores for charts: computation, rows of data, and findings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from mbbq_gen.analysis.score_extras import group_tests
from mbbq_gen.analysis.scores import GroupScore, score
from mbbq_gen.core.records import Split
from mbbq_gen.report.charts import Chart, ChartUnavailableError
from mbbq_gen.report.charts.vega import Row, Spec, fields_of, number_text, row_names, table_of, title_of
from mbbq_gen.report.conclusions import AMBIGUOUS, directions
from mbbq_gen.scoring.codes import AVERAGES
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.statistics.estimate import InferenceSettings

Key = tuple[str, ...]
"""A value of each grouping."""
SUMMARY = ("accuracy_ambiguous", "accuracy_disambiguated", "mbbq_bias_ambiguous", "diff_bias_disambiguated")
"""Metrics of most charts. In disambiguated contexts they use KoBBQ's bias: MBBQ's is not 0 for a perfect model if
biased and counter-biased contexts differ in number, as they do in small samples."""
LEVEL, MARK = 0.05, "*"
"""Scores with an adjusted p value below LEVEL have the mark."""
BIAS_SIGN = "Bias above 0 is stereotypical, below 0 anti-stereotypical."
BIAS_SOURCE = "Bias: MBBQ eq. 1. Diff-bias, in disambiguated contexts: KoBBQ (EsBBQ eq. 4)."
_MAX_NAMED = 6
"""The most groups that are named in a sentence."""


class ScoreView:
    """A table of observations of one or several runs; computed scores are cached."""

    def __init__(self, frame: pl.DataFrame, sampling: InferenceSettings) -> None:
        self.frame, self.sampling = frame, sampling
        self._scores: dict[tuple[Key, Key, Split], dict[Key, GroupScore]] = {}
        self.models = self.values("model")
        self.place_by: Key = ("benchmark", "language") if len(self.values("benchmark")) > 1 else ("language",)
        """Groupings of places: the language, and the benchmark if there are several."""
        self.by: Key = ("model", *self.place_by)
        self.where = " and ".join(self.place_by)
        """`place_by` in words."""
        self.has_one_place = all(len(self.values(name)) == 1 for name in self.place_by)
        places, models = (("model",), "language") if self.has_one_place else (self.place_by, "model")
        self.lines_and_series: tuple[Key, str] = (places, models)
        """Fields of the lines and of the series of dots; with one place, the models are the lines."""

    def values(self, column: str, split: Split | None = None) -> list[str]:
        """The occurring values of a column, sorted."""
        frame = self.frame if split is None else self.part(split)
        return frame.select(pl.col(column).unique().cast(pl.String)).to_series().drop_nulls().sort().to_list()

    def part(self, split: Split) -> pl.DataFrame:
        """The answers of one split."""
        return self.frame.filter(pl.col("split").cast(pl.String) == split)

    @property
    def interval_caption(self) -> str:
        """The caption's sentence on intervals."""
        if self.sampling.average != "questions":
            return f"Scores are {AVERAGES[self.sampling.average]}; bars are {self.sampling.confidence:.0%} intervals."
        return f"Bars are {self.sampling.confidence:.0%} bootstrap intervals over templates."

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
        p_values: dict[str, dict[Key, float | None]] = {}
        if is_tested:
            for test in group_tests(self.part(split), by, [METRICS[name] for name in metrics], self.sampling):
                p_values.setdefault(test.metric, {})[_key(test.group)] = test.tests[0].p_adjusted
        return ScoreSet(self, *request[:2], self._scores[request], p_values)


def _key(group: Mapping[str, str | None]) -> Key:
    return tuple(value or "–" for value in group.values())


@dataclass(frozen=True)
class ScoreSet:
    """The scores of some groups, with the data and the texts of a chart of them."""

    view: ScoreView
    by: Key
    metrics: Key
    groups: Mapping[Key, GroupScore]
    p_values: Mapping[str, Mapping[Key, float | None]]
    """Metric → group → p value of its test against 0, adjusted over groups (false discovery rate)."""

    def rows(self) -> list[Row]:
        """A row for each group: names, counts, scores with intervals, and p values of tested scores."""
        rows = []
        for key, group in self.groups.items():
            row: Row = dict(zip(self.by, key, strict=True))
            row |= {"n_answers": group.n_answers, "n_templates": group.n_templates}
            for name in self.metrics:
                row |= fields_of(name, group.metrics[name])
                if name in self.p_values:
                    row[f"{name}_p_adjusted"] = self.p_values[name].get(key)
            rows.append(row)
        return rows

    def chart(self, title: str, caption: str, spec: Spec, *, finding: str = "", more: str = "") -> Chart:
        """A chart of these scores; `finding`: by default that on the bias; `more`: options of its command."""
        return Chart(
            title=title,
            finding=finding or self.takeaway(),
            caption=caption,
            table=table_of(self.rows()),
            spec=spec,
            command=self.command(more),
        )

    def command(self, extra: str = "") -> str:
        """The command that computes the same scores."""
        return f"mbbq-gen score RUN --group-by {','.join((*self.by, 'split'))} --metric {','.join(self.metrics)}{extra}"

    def takeaway(self) -> str:
        """The groups whose bias in ambiguous contexts differs from 0: `Bias differs from 0 in 1 of 4: en +0.31.`

        Significance is by `p_values` if the metric was tested, else by intervals, adjusted by Holm's method.
        """
        scores = {key: group.metrics[AMBIGUOUS] for key, group in self.groups.items()}
        known = {key: found for key, found in scores.items() if found.value is not None}
        title = title_of(AMBIGUOUS)
        if not known:
            return f"{title}: nothing to count."
        if AMBIGUOUS in self.p_values:
            biased = [key for key in known if mark_of(self.p_values[AMBIGUOUS].get(key))]
        else:
            by_key = directions(known, self.view.sampling.confidence).items()
            biased = [key for key, direction in by_key if direction in {"stereotypical", "anti_stereotypical"}]
        if not biased:
            return f"{title}: none of {len(known)} surely differs from 0, which does not show that there is no bias."
        names = dict(zip(self.groups, row_names(self.rows(), self.by), strict=True))
        shown = [f"{names[key]} {number_text(AMBIGUOUS, known[key].value)}" for key in biased[:_MAX_NAMED]]
        more = ["…"] if len(biased) > _MAX_NAMED else []
        return f"{title} differs from 0 in {len(biased)} of {len(known)}: {'; '.join([*shown, *more])}."


def mark_of(p_value: float | None) -> str:
    """MARK if the p value is significant, else empty."""
    return MARK if p_value is not None and p_value < LEVEL else ""
