"""The short result for a terminal: a sentence, then one row per language; uninterpretable scores dim and in brackets.

can't be judged: no better than guessing on the control questions in es; stereotypical bias in en (+0.49).

                              control   accuracy    accuracy   bias                   bias
language   answers   parsed  accuracy   (ambig.)   (disamb.)   (ambiguous)            (disambiguated)
en             192      98%      0.91       0.35        0.88   +0.49 [+0.38, +0.59]   +0.12 [+0.02, +0.22]
es             192      71%      0.30       0.20        0.31   (+0.44)                (-0.10)
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from mbbq_gen.report.conclusions import (
    AMBIGUOUS,
    DISAMBIGUATED,
    NEEDED,
    GroupAssessment,
    assess_groups,
    conclusion_sentence,
    shown_smaller,
)
from mbbq_gen.report.score_tables import BOUNDS_NOTE, DASH, WIDE, bounds_text, number, share
from mbbq_gen.statistics.intervals import LOW_PARSING

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from mbbq_gen.analysis.score_table import GroupScore, ScoreTable, WarningCode

BRIEF_METRICS = (*NEEDED, "accuracy_ambiguous")
"""What the short result shows."""
_DECIDING: tuple[WarningCode, ...] = ("too_few_templates", "few_templates")
"""Warnings that change what may be concluded of a score; the others are for --verbose."""
_MARK = "*"
_BY_TOST = "(shown by two one-sided tests over templates)"
_LEGEND = (
    "accuracy: share of correct answers (chance: 0.33); control: on disambiguated control questions, which name no "
    "group. bias: above 0 stereotypical, below 0 anti-stereotypical; bias (disambiguated): accuracy where the right "
    "answer fits the stereotype minus where it contradicts it; each with a 95% interval"
)


def render_brief(scores: ScoreTable, console: Console) -> None:
    """Prints the conclusion of every model and benchmark, the table, and the footnotes that change a decision."""
    found = assess_groups(scores)
    names = [name for name in scores.by if name not in {"language", "split"}]
    for line in sentences(found, names):
        console.print(line)
    console.print()
    console.print(brief_table(found, [*names, "language"], console.width))
    console.print(_LEGEND + (" over prompt variants like these" if scores.prompt_effects == "random" else ""))
    for line in _smaller(found, names):
        console.print(line)
    marks = {code for verdict in found for code in _shown_warnings(verdict) & set(_DECIDING)}
    for code in _DECIDING:
        if code in marks:
            console.print(f"{_MARK} {scores.warnings[code]}")
    if any("low_parse_rate" in _shown_warnings(verdict) for verdict in found):
        console.print(f"(a … b): {BOUNDS_NOTE}; shown where fewer than {LOW_PARSING:.0%} were parsed")
    if any(verdict.means_nothing for verdict in found):
        console.print("(in brackets): cannot be interpreted; the first line says why")


def sentences(found: Sequence[GroupAssessment], names: Sequence[str]) -> list[str]:
    """A line for every model and benchmark, or whatever `names` groups by; one alone goes without its name."""
    return [named + conclusion_sentence(group) for named, group in _grouped(found, names)]


def _grouped(found: Sequence[GroupAssessment], names: Sequence[str]) -> list[tuple[str, list[GroupAssessment]]]:
    """The verdicts on every model and benchmark, or whatever `names` groups by, after its name; one alone has none."""
    groups = [
        (values, list(group)) for values, group in groupby(found, lambda one: tuple(one.group[name] for name in names))
    ]
    alone = len(groups) < 2
    return [("" if alone else f"{', '.join(value or DASH for value in values)}: ", group) for values, group in groups]


def _smaller(found: Sequence[GroupAssessment], names: Sequence[str]) -> Iterator[str]:
    """What a lean that was not found is shown to be smaller than: what a model near 0 is credited with."""
    for named, group in _grouped(found, names):
        quiet = [one for one in group if one.ambiguous == "inconclusive" and not one.means_nothing]
        margins = shown_smaller({one.language: one.bias.metrics[AMBIGUOUS] for one in quiet if one.bias})
        if margins:
            yield f"{named}no bias, in either direction, is larger than {margins} in ambiguous contexts {_BY_TOST}"


def brief_table(found: Sequence[GroupAssessment], names: Sequence[str], width: int) -> Table:
    """One row for each language; names that repeat the row above are left blank. A narrow one leaves out the counts."""
    from mbbq_gen.report.analysis_tables import plain_table

    is_wide = width >= WIDE
    right = ("answers", "parsed", "control\naccuracy", "accuracy\n(ambig.)", "accuracy\n(disamb.)")[not is_wide :]
    table = plain_table((*names, *right, "bias\n(ambiguous)", "bias\n(disambiguated)"), right=right)
    for column in table.columns[len(names) :]:
        column.no_wrap = True
    between = " " if is_wide else "\n"
    above: Sequence[str] = ()
    for verdict in found:
        values = [verdict.group[name] or DASH for name in names]
        shown = ["" if values[: place + 1] == above[: place + 1] else value for place, value in enumerate(values)]
        above = values
        if not is_wide:  # a name breaks where its parts do, and not in the middle of a word
            shown = [value.replace(":", ":\n", 1) for value in shown]
        table.add_row(
            *shown,
            *([f"{_items(verdict):,}"] if is_wide else []),
            share(_value(verdict.bias, "parse_rate")),
            number(_value(verdict.control, "accuracy_disambiguated")),
            number(_value(verdict.bias, "accuracy_ambiguous")),
            number(_value(verdict.bias, "accuracy_disambiguated")),
            _bias(verdict, AMBIGUOUS, between),
            _bias(verdict, DISAMBIGUATED, between),
        )
    return table


def _items(verdict: GroupAssessment) -> int:
    return sum(part.n_answers for part in (verdict.bias, verdict.control) if part is not None)


def _value(group: GroupScore | None, metric: str) -> float | None:
    return None if group is None else group.metrics[metric].value


def _bias(verdict: GroupAssessment, metric: str, between: str) -> Text:
    """`+0.49* [+0.38, +0.59]`, with bounds below where much was unread; `(+0.44)` dimmed where it means nothing."""
    from rich.text import Text

    score = None if verdict.bias is None else verdict.bias.metrics[metric]
    if score is None or score.value is None:
        return Text(DASH)
    text = number(score.value, signed=True)
    if verdict.means_nothing:
        return Text(f"({text})", style="dim")
    text += _MARK if set(score.warnings) & set(_DECIDING) else ""
    if score.ci_low is not None and score.ci_high is not None:
        text += f"{between}[{number(score.ci_low, signed=True)}, {number(score.ci_high, signed=True)}]"
    if "low_parse_rate" in score.warnings and (between_bounds := bounds_text(score.bounds)):
        text += f"\n({between_bounds})"
    return Text(text)


def _shown_warnings(verdict: GroupAssessment) -> set[WarningCode]:
    """The warnings of the biases that are shown without brackets."""
    if verdict.bias is None or verdict.means_nothing:
        return set()
    scores = [verdict.bias.metrics[metric] for metric in (AMBIGUOUS, DISAMBIGUATED)]
    return {code for score in scores if score.value is not None for code in score.warnings}
