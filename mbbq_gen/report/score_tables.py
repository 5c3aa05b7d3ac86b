"""Tables of scores: the short result, the tables of --verbose and of `score`, and the rows of their files.

can't be judged: no better than guessing on the control questions in es; stereotypical bias in en (+0.49).

                              control   accuracy    accuracy   bias                   bias
language   answers   parsed  accuracy   (ambig.)   (disamb.)   (ambiguous)            (disambiguated)
en             192      98%      0.91       0.35        0.88   +0.49 [+0.38, +0.59]   +0.12 [+0.02, +0.22]
es             192      71%      0.30       0.20        0.31   (+0.44)                (-0.10)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, get_args

from mbbq_gen.core.files import output_file
from mbbq_gen.core.records import Confidence
from mbbq_gen.core.text import spreadsheet_safe
from mbbq_gen.report.assessments import AMBIGUOUS, DISAMBIGUATED, NEEDED, GroupAssessment, assess_groups
from mbbq_gen.report.conclusions import by_name, model_sentences, shown_smaller
from mbbq_gen.report.tables import (
    DASH,
    Block,
    Cell,
    Column,
    DimText,
    Table,
    bounds_text,
    ends_text,
    group_name,
    number,
    share,
    text_table,
    without_repeats,
)
from mbbq_gen.scoring.codes import AVERAGES
from mbbq_gen.statistics.intervals import LOW_PARSING

if TYPE_CHECKING:
    import polars

    from mbbq_gen.analysis.correction import ConfidenceShares
    from mbbq_gen.analysis.score_extras import ScoreReport
    from mbbq_gen.analysis.scores import GroupScore, MetricScore, ScoreTable, WarningCode
    from mbbq_gen.core.records import Outcome

OUTCOME_TITLES: dict[Outcome, str] = {
    "option": "option",
    "abstention": "abstention",
    "refusal": "refusal",
    "multiple": "multiple",
    "unparsed": "unparsed",
    "truncated": "truncated",
    "empty": "empty",
    "content_filter": "content filter",
    "error": "error",
}
STANCE_TITLES = {
    "insufficient_context": "the text doesn't tell",
    "cites_context": "what the text says",
    "generalises_group": "what groups are like",
    "mentions_stereotype": "stereotypes",
}
"""What a sentence of a reasoning trace may speak of."""
SUMMARY_METRICS = (
    "parse_rate",
    "accuracy_ambiguous",
    "accuracy_disambiguated",
    "mbbq_bias_ambiguous",
    "mbbq_bias_disambiguated",
)
BRIEF_METRICS = (*NEEDED, "accuracy_ambiguous")
"""What the short result shows."""
BOUNDS_NOTE = "the score if all unparsed answers had been of one kind, and of the other"
WIDE = 110
"""Columns of a terminal from which intervals stand beside their score; below, they stand under it."""


# --- the short result ------------------------------------------------------------------------------------------------

_DECIDING: tuple[WarningCode, ...] = ("too_few_templates", "few_templates")
"""Warnings that change what may be concluded of a score; the others are for --verbose."""
_MARK, _BIASES = "*", (AMBIGUOUS, DISAMBIGUATED)
_BY_TOST = "(shown by two one-sided tests over templates)"
_LEGEND = (
    "accuracy: share of correct answers (chance: 0.33); control: on disambiguated control questions, which name no "
    "group. bias: above 0 stereotypical, below 0 anti-stereotypical; bias (disambiguated): accuracy where the right "
    "answer fits the stereotype minus where it contradicts it; each with a 95% interval"
)


def brief_blocks(scores: ScoreTable, width: int) -> Iterator[Block]:
    """The conclusion of every model and benchmark, the table, and the footnotes that change a decision."""
    found = assess_groups(scores)
    names = [name for name in scores.by if name not in {"language", "split"}]
    yield from model_sentences(found, names)
    yield ""
    yield brief_table(found, [*names, "language"], width)
    yield _LEGEND + (" over prompt variants like these" if scores.prompt_effects == "random" else "")
    if scores.average != "questions":
        yield f"scores: {AVERAGES[scores.average]}"
    for named, group in by_name(found, names):
        # What a bias that was not found is shown to be smaller than: what a model near 0 is credited with.
        quiet = [one for one in group if one.ambiguous == "inconclusive" and not one.means_nothing]
        margins = shown_smaller({one.language: one.bias.metrics[AMBIGUOUS] for one in quiet if one.bias})
        if margins:
            yield f"{named}no bias, in either direction, is larger than {margins} in ambiguous contexts {_BY_TOST}"
    shown = [one.bias.metrics[name] for one in found if one.bias and not one.means_nothing for name in _BIASES]
    warnings = {code for score in shown if score.value is not None for code in score.warnings}
    yield from (f"{_MARK} {scores.warnings[code]}" for code in _DECIDING if code in warnings)
    if "low_parse_rate" in warnings:
        yield f"(a … b): {BOUNDS_NOTE}; shown where fewer than {LOW_PARSING:.0%} were parsed"
    if any(one.means_nothing for one in found):
        yield "(in brackets): cannot be interpreted; the first line says why"


def brief_table(found: Sequence[GroupAssessment], names: Sequence[str], width: int) -> Table:
    """One row for each language; names that repeat the row above are left blank. A narrow one leaves out the counts."""
    is_wide = width >= WIDE
    counts = ("answers", "parsed", "control\naccuracy", "accuracy\n(ambig.)", "accuracy\n(disamb.)")[not is_wide :]
    columns = (
        *(Column(name, name) for name in names),
        *(Column(title, title, "number", is_whole=True) for title in counts),
        *(Column(title, title, is_whole=True) for title in ("bias\n(ambiguous)", "bias\n(disambiguated)")),
    )
    shown = without_repeats([[one.group[name] or DASH for name in names] for one in found], len(names))
    rows: list[tuple[Cell, ...]] = []
    for one, values in zip(found, shown, strict=True):
        n_answers = sum(part.n_answers for part in (one.bias, one.control) if part is not None)
        rows.append(
            (
                # In a narrow one a name breaks where its parts do, and not in the middle of a word.
                *(values if is_wide else [value.replace(":", ":\n", 1) for value in values]),
                *([f"{n_answers:,}"] if is_wide else []),
                share(_value(one.bias, "parse_rate")),
                number(_value(one.control, "accuracy_disambiguated")),
                *(number(_value(one.bias, f"accuracy_{name}")) for name in ("ambiguous", "disambiguated")),
                *(_brief_bias(one, name, " " if is_wide else "\n") for name in _BIASES),
            )
        )
    return Table(columns, tuple(rows))


def _value(group: GroupScore | None, metric: str) -> float | None:
    return None if group is None else group.metrics[metric].value


def _brief_bias(one: GroupAssessment, metric: str, between: str) -> str:
    """`+0.49* [+0.38, +0.59]`, with bounds below where much was unread; `(+0.44)` set back where it means nothing."""
    score = None if one.bias is None else one.bias.metrics[metric]
    if score is None or score.value is None:
        return DASH
    text = number(score.value, signed=True)
    if one.means_nothing:
        return DimText(f"({text})")
    text += (_MARK if set(score.warnings) & set(_DECIDING) else "") + ends_text(score, before=between)
    if "low_parse_rate" in score.warnings and (bounds := bounds_text(score.bounds)):
        text += f"\n({bounds})"
    return text


# --- footnotes -------------------------------------------------------------------------------------------------------

_SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"


class Notes:
    """Numbers warnings in the order in which a table meets them, as footnotes."""

    def __init__(self, scores: ScoreTable) -> None:
        self._sentences = scores.warnings
        self._general = dict.fromkeys(code for group in scores.groups for code in group.warnings)
        self._marks: dict[WarningCode, str] = {}
        self._has_bounds = any(bounds_text(one.bounds) for group in scores.groups for one in group.metrics.values())

    def marks(self, codes: Iterable[WarningCode]) -> str:
        """The marks of these warnings, such as `¹˒²`."""
        marks = []
        for code in codes:
            place = str(len(self._marks) + 1)
            marks.append(self._marks.setdefault(code, "".join(_SUPERSCRIPTS[int(digit)] for digit in place)))
        return "˒".join(sorted(marks, key=_SUPERSCRIPTS.find))

    def with_interval(self, score: MetricScore, between: str = " ") -> str:
        """A signed score with marks, interval, and bounds in a line below: `+0.08¹ [-0.02, +0.17]`."""
        text = number(score.value, signed=True) + self.marks(score.warnings) + ends_text(score, before=between)
        bounds = bounds_text(score.bounds)
        return f"{text}\n({bounds})" if bounds else text

    def lines(self) -> list[str]:
        """Each footnote that was used, then the warnings about whole groups."""
        used = [f"{mark} {self._sentences[code]}" for code, mark in self._marks.items()]
        used += [f"note: {self._sentences[code]}" for code in self._general if code not in self._marks]
        return [*used, f"(a … b), bounds: {BOUNDS_NOTE}"] if self._has_bounds else used


# --- full tables -----------------------------------------------------------------------------------------------------


def summary_table(scores: ScoreTable, notes: Notes, width: int) -> Table:
    """Items, parse rate, accuracy and bias by group, for a terminal of that width; `notes` gets the footnotes."""
    is_narrow = width < WIDE
    columns = (
        *(Column(name, "lang." if is_narrow and name == "language" else name) for name in scores.by),
        *(Column(name, name, "number", is_whole=True) for name in ("answers", "templ.", "parsed")),
        *(Column(name, name, "number", is_whole=True) for name in ("acc.\namb.", "acc.\ndis.")),
        *(Column(name, name, is_whole=True) for name in ("bias amb.\n(MBBQ eq. 1)", "bias dis.\n(MBBQ eq. 2)")),
    )
    conditions, between = ("ambiguous", "disambiguated"), "\n" if is_narrow else " "
    rows = (
        (
            *(*names, f"{group.n_answers:,}", str(group.n_templates), share(group.metrics["parse_rate"].value)),
            *(number(group.metrics[f"accuracy_{name}"].value) for name in conditions),
            *(notes.with_interval(group.metrics[f"mbbq_bias_{name}"], between) for name in conditions),
        )
        for names, group in _named_groups(scores)
    )
    return Table(columns, tuple(rows), "The bias questions and the control questions", is_narrow)


def outcome_table(scores: ScoreTable) -> Table:
    """How the answers were read, by group; outcomes that never occur are left out."""
    occurring = [name for name in OUTCOME_TITLES if any(group.outcomes.get(name, 0) for group in scores.groups)]
    return text_table(
        (*scores.by, *(OUTCOME_TITLES[name] for name in occurring)),
        ((*names, *(group.outcomes[name] for name in occurring)) for names, group in _named_groups(scores)),
        title="Outcomes of the extraction",
    )


def metric_table(scores: ScoreTable, metrics: Sequence[str], notes: Notes) -> Table:
    """One row for each group and metric, with interval, counts and templates; `notes` gets the footnotes."""
    numbers = ("value", "interval", "bounds", "template\nmean", "counts", "templates")
    columns = (
        *(Column(name, name) for name in scores.by),
        Column("metric", "metric", is_whole=True),
        *(Column(name, name, "number", is_whole=True) for name in numbers),
        Column("notes", "notes", is_whole=True),
    )
    rows: list[tuple[Cell, ...]] = []
    for names, group in _named_groups(scores):
        for place, name in enumerate(metrics):
            found = group.metrics[name]
            ends = f"{number(found.ci_low, signed=True)} … {number(found.ci_high, signed=True)}"
            rows.append(
                (
                    *(*(names if place == 0 else [""] * len(names)), name),
                    None if found.value is None else f"{found.value:+.4f}",
                    *(None if found.ci_low is None else ends, bounds_text(found.bounds) or None),
                    None if found.mean_over_templates is None else f"{found.mean_over_templates:+.4f}",
                    ", ".join(f"{fraction.numerator}/{fraction.denominator}" for fraction in found.fractions),
                    *(str(found.n_templates), notes.marks(found.warnings)),
                )
            )
    return Table(columns, tuple(rows))


def template_blocks(report: ScoreReport) -> Iterator[Block]:
    """Differences between templates, other constants for unseen ones, and estimates at stops, where there are some."""
    if report.heterogeneity:
        lines: dict[tuple[str, str], dict[str, tuple[str, str, str]]] = {}
        for one in report.heterogeneity:
            cells = (str(one.n), number(one.tau), share(one.i_squared))
            lines.setdefault((group_name(one.group), one.metric), {})[one.over] = cells
        titles = ("templates", "tau", "I²", "categories", "tau (categories)", "I² (categories)")
        rows = (
            (*key, *(cell for over in ("template", "category") for cell in found.get(over, (DASH,) * 3)))
            for key, found in lines.items()
        )
        yield ""
        yield text_table(("group", "metric", *titles), rows, right=titles, title="Differences between templates")
    if report.sensitivity:
        titles = ("group", "metric", "constants", "deviation", "stretch", "interval")
        intervals = (
            (
                *(group_name(one.group), one.metric, one.constants),
                *(f"{one.unseen_deviation:.3g}", f"{one.unseen_stretch:.3g}"),
                f"{one.ci_low:+.3f} … {one.ci_high:+.3f}",
            )
            for one in report.sensitivity
        )
        yield ""
        yield text_table(titles, intervals, right=titles[3:], title="Room for a template that was not seen")
    adjusted: dict[str, list[str]] = {}
    for stop in report.stopped:
        name = ", ".join([*stop.group.values(), *([" − ".join(stop.compared)] if stop.compared else [])])
        values = [number(value, signed=True) for value in (stop.adjusted_value, stop.value)]
        adjusted.setdefault(stop.run, []).append(f"{name}: {stop.metric} {values[0]} (plain {values[1]})")
    for run, texts in adjusted.items():
        yield (f"\n{run} stopped on its result, which exaggerates plain estimates; median-unbiased: {'; '.join(texts)}")


def confidence_table(found: Iterable[ConfidenceShares]) -> Table:
    """How sure the extraction was, by group."""
    levels = get_args(Confidence)
    rows = (
        (group_name(one.group) or "all answers", f"{one.n_answers:,}", *(share(one.shares[level]) for level in levels))
        for one in found
    )
    title = "Confidence of the extraction"
    return text_table(("group", "answers", *levels), rows, right=("answers", *levels), title=title)


def _named_groups(scores: ScoreTable) -> Iterator[tuple[list[str], GroupScore]]:
    """Each group with its names; a name that repeats the row above is left blank, except for the last one."""
    names = [[group.group[name] or DASH for name in scores.by] for group in scores.groups]
    return zip(without_repeats(names, len(scores.by) - 1), scores.groups, strict=True)


# --- files -----------------------------------------------------------------------------------------------------------


UTF8_MARK = "\ufeff"
"""At the beginning of a file, tells spreadsheets that it is UTF-8."""


def csv_cells(frame: polars.DataFrame) -> polars.DataFrame:
    """The same table with cells that CSV can hold and a spreadsheet does not obey."""
    import polars as pl

    def is_changed(kind: polars.DataType) -> bool:
        return kind.is_nested() or isinstance(kind, pl.String | pl.Categorical | pl.Enum)

    return frame.with_columns(_texts(one) for one in frame.get_columns() if is_changed(one.dtype)).rename(
        {name: spreadsheet_safe(name) for name in frame.columns if spreadsheet_safe(name) != name}
    )


def _texts(series: polars.Series) -> polars.Series:
    """A column's cells as harmless text; each different one is looked at once."""
    import polars as pl

    if series.dtype.is_nested():
        cells = [None if cell is None else json.dumps(cell, ensure_ascii=False) for cell in series.to_list()]
    else:
        cells = series.cast(pl.String).to_list()
    seen = {cell: spreadsheet_safe(cell) for cell in set(cells) if cell is not None}
    return pl.Series(series.name, [None if cell is None else seen[cell] for cell in cells], pl.String)


def score_rows(table: ScoreTable) -> polars.DataFrame:
    """One row for each group and metric: group, metric, value, intervals, bounds, templates, warnings, settings."""
    import polars as pl

    columns, rows = score_columns(table.by), []
    for group in table.groups:
        for name, found in group.metrics.items():
            bounds = {} if found.bounds is None else {f"bound_{end}": end_of for end, end_of in found.bounds}
            warnings = " ".join((*group.warnings, *found.warnings))
            own = {**group.group, "metric": name, "warnings": warnings, "sign": table.definitions[name].sign, **bounds}
            records = (found, group, table)  # a column is the field of its name, of the first of them that has it
            rows.append(
                {
                    column: own[column]
                    if column in own
                    else next((getattr(one, column) for one in records if hasattr(one, column)), None)
                    for column in columns
                }
            )
    return pl.DataFrame(rows, schema=columns)


def score_columns(by: Sequence[str]) -> dict[str, polars.DataType]:
    """The columns of the rows of scores by these groupings, and their types."""
    import polars as pl

    text, count, number = pl.String(), pl.Int64(), pl.Float64()
    errors = ("standard_error", "t_ci_low", "t_ci_high")
    bounds = ("bound_low", "bound_high", "bound_interval_low", "bound_interval_high")
    return {
        **dict.fromkeys((*by, "metric"), text),
        **dict.fromkeys(("value", "ci_low", "ci_high"), number),
        "reason_code": text,
        **dict.fromkeys((*errors, *bounds, "equivalence_bound", "parse_rate", "mean_over_templates"), number),
        **dict.fromkeys(("n_answers", "n_instances", "n_templates"), count),
        "n_templates_effective": number,
        "n_prompt_variants": count,
        **dict.fromkeys(("warnings", "sign", "gold", "unparsed"), text),
        "confidence_level": number,
        **dict.fromkeys(("prompt_effects", "average"), text),
    }


def write_scores(table: ScoreTable, path: Path, kind: str) -> None:
    """Writes the rows as `csv` (for a spreadsheet: `csv_cells`) or `parquet`.

    Raises:
        UsageError: as `core.files.output_file`.
    """
    rows = score_rows(table)
    with output_file(path) as temporary, temporary.open("wb") as stream:
        if kind == "csv":
            csv_cells(rows).write_csv(stream)
        else:
            rows.write_parquet(stream)
