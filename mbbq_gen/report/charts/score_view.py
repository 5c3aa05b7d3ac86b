"""Scores for charts: computation, rows of data, and findings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from mbbq_gen.analysis.score_extras import group_tests
from mbbq_gen.analysis.scores import GroupScore, score
from mbbq_gen.core.records import Split
from mbbq_gen.report.charts import Chart, ChartUnavailableError
from mbbq_gen.report.charts.vega import Row, Spec, fields_of, number_text, row_names, table_of, title_of
from mbbq_gen.report.conclusions import AMBIGUOUS, directions
from mbbq_gen.report.tables import DASH
from mbbq_gen.scoring.codes import AVERAGES
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.statistics.estimate import InferenceSettings

SUMMARY = ("accuracy_ambiguous", "accuracy_disambiguated", "mbbq_bias_ambiguous", "diff_bias_disambiguated")
"""Metrics of most charts. In disambiguated contexts they use KoBBQ's bias: MBBQ's is not 0 for a perfect model if
biased and counter-biased contexts differ in number, as they do in small samples."""
MARK = "*"
"""The mark of scores with an adjusted p value below 0.05."""
BIAS_SIGN = "Bias above 0 is stereotypical, below 0 anti-stereotypical."
BIAS_SOURCE = "Bias: MBBQ eq. 1. Diff-bias, in disambiguated contexts: KoBBQ (EsBBQ eq. 4)."
_MAX_NAMED = 6
"""The most groups that are named in a sentence."""


class ScoreView:
    """A table of observations of one or several runs, and how its charts are arranged."""

    def __init__(self, frame: pl.DataFrame, sampling: InferenceSettings | None) -> None:
        self.frame = frame.with_columns(pl.col("model").cast(pl.String).fill_null(DASH))  # imported answers may lack it
        self.sampling = sampling or InferenceSettings()
        self.models = self.values("model")
        self.place_by = ["benchmark", "language"] if len(self.values("benchmark")) > 1 else ["language"]
        """Groupings of places: the language, and the benchmark if there are several."""
        self.by = ["model", *self.place_by]
        self.where = " and ".join(self.place_by)
        """`place_by` in words."""
        self.has_one_place = all(len(self.values(name)) == 1 for name in self.place_by)

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
        table = score(self.part(split), by, metrics, self.sampling)
        if not table.groups:
            raise ChartUnavailableError(f"no answers of the {split} split")
        tested = [METRICS[name] for name in metrics if is_tested]
        tests = group_tests(self.part(split), by, tested, self.sampling) if tested else []
        p_values = {(test.metric, *test.group.values()): test.tests[0].p_adjusted for test in tests}
        rows: list[Row] = []
        for group in table.groups:
            row: Row = {name: value or DASH for name, value in group.group.items()}
            row |= {"n_answers": group.n_answers, "n_templates": group.n_templates}
            for name in metrics:
                row |= fields_of(name, group.metrics[name])
                if tested:
                    row[f"{name}_p_adjusted"] = p_values[name, *group.group.values()]
            rows.append(row)
        return ScoreSet(by, metrics, table.groups, rows, self.sampling.confidence)


@dataclass(frozen=True)
class ScoreSet:
    """The scores of some groups, with the data and the finding of a chart of them."""

    by: Sequence[str]
    metrics: Sequence[str]
    groups: Sequence[GroupScore]
    rows: list[Row]
    """A row for each group: names, counts, scores with intervals, and of tested scores p values, adjusted over groups
    (false discovery rate)."""
    confidence: float

    def chart(self, title: str, caption: str, spec: Spec, *, finding: str = "", more: str = "") -> Chart:
        """A chart of these scores; `finding`: by default that on the bias; `more`: options of its command."""
        table, command = table_of(self.rows), self.command(more)
        return Chart(title, finding or self.finding(), caption, table, spec, command)

    def command(self, more: str = "") -> str:
        """The command that computes the same scores."""
        return f"mbbq-gen score RUN --group-by {','.join((*self.by, 'split'))} --metric {','.join(self.metrics)}{more}"

    def finding(self) -> str:
        """The groups whose bias in ambiguous contexts differs from 0: `Bias differs from 0 in 1 of 4: en +0.31.`

        Significance is by p values if the scores were tested, else by intervals, adjusted by Holm's method.
        """
        title, field = title_of(AMBIGUOUS), f"{AMBIGUOUS}_p_adjusted"
        named = zip(row_names(self.rows, self.by), self.rows, self.groups, strict=True)
        known = {name: (row, group) for name, row, group in named if row[AMBIGUOUS] is not None}
        if not known:
            return f"{title}: nothing to count."
        if field in self.rows[0]:
            biased = [name for name, (row, _) in known.items() if mark_of(row[field])]
        else:
            scores = {name: group.metrics[AMBIGUOUS] for name, (_, group) in known.items()}
            by_name = directions(scores, self.confidence).items()
            biased = [name for name, direction in by_name if direction in {"stereotypical", "anti_stereotypical"}]
        if not biased:
            return f"{title}: none of {len(known)} surely differs from 0, which does not show that there is no bias."
        shown = [f"{name} {number_text(AMBIGUOUS, known[name][0][AMBIGUOUS])}" for name in biased[:_MAX_NAMED]]
        end = "; …" if len(biased) > _MAX_NAMED else "."
        return f"{title} differs from 0 in {len(biased)} of {len(known)}: {'; '.join(shown)}{end}"


def mark_of(p_value: float | None) -> str:
    """MARK if the p value is significant, else empty."""
    return MARK if p_value is not None and p_value < 0.05 else ""
