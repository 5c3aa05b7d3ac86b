"""Corrected scores beside uncorrected ones, the reader's confusion matrix, and how sure it was, for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, get_args

from mbbq_gen.analysis.comparison_table import WARNINGS
from mbbq_gen.analysis.correction_table import ReadRole
from mbbq_gen.core.records import Confidence
from mbbq_gen.report.analysis_tables import group_name, plain_table
from mbbq_gen.report.annotation_tables import percent
from mbbq_gen.report.score_tables import DASH, number, share

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from mbbq_gen.analysis.correction_table import (
        ConfidenceShares,
        ConfusionMatrix,
        CorrectedScore,
        Correction,
        ExtractionFlag,
    )

ROLE_TITLES: dict[ReadRole, str] = {
    "target": "target",
    "non_target": "non-target",
    "unknown": "unknown",
    "none": "no option",
    "person": "a person",
}


def corrected_text(score: CorrectedScore) -> str:
    """A signed corrected score with its interval: `+0.06 [-0.05, +0.17]`; why there is none, where there is none."""
    if score.value is None:
        return f"{DASH} ({score.reason})" if score.reason else DASH
    text = number(score.value, signed=True)
    if score.ci_low is not None and score.ci_high is not None:
        text += f" [{number(score.ci_low, signed=True)}, {number(score.ci_high, signed=True)}]"
    return text


def correction_note(correction: Correction) -> str:
    """What the corrected scores stand on, in a sentence or two."""
    half = ""
    if correction.incomplete_annotations:
        half = f" {correction.incomplete_annotations:,} of them only reject an extraction; another answer is correct."
    return (
        f"corrected: by {correction.n_labels:,} labels ({correction.source}), prediction-powered; "
        f"{correction.confidence_level:.0%} intervals over templates and labels. weight of extractions: 1 full, 0 none."
        f"{half}"
    )


def matrix_roles(matrix: ConfusionMatrix) -> list[ReadRole]:
    """The roles of a matrix; `person` only where it occurs."""
    occurring = {role for cell in matrix.cells for role in (cell.read, cell.right)}
    return [role for role in get_args(ReadRole) if role != "person" or role in occurring]


def matrix_rows(matrix: ConfusionMatrix) -> list[tuple[str, ...]]:
    """Read as, labels, and the share of them that says each role: one row for each way of reading."""
    roles = matrix_roles(matrix)
    shares = {(cell.read, cell.right): cell.share for cell in matrix.cells}
    rows = []
    for read in roles:
        count = sum(cell.count for cell in matrix.cells if cell.read == read)
        says = [share_text(shares.get((read, right), 0.0)) if count else DASH for right in roles]
        rows.append((ROLE_TITLES[read], f"{count:.0f}", *says))
    return rows


def share_text(value: float) -> str:
    """A share in per cent, with a decimal where it has one: `97.5 %`, `100 %`."""
    return f"{round(100 * value, 1):g} %"


def print_correction(correction: Correction, console: Console) -> None:
    """Corrected scores, then how often and in which way the reader errs."""
    console.print()
    # One row for each group and metric: as read, corrected, and by how many labels.
    titles = ("group", "metric", "as extracted", "corrected", "change", "weight of extractions", "labels")
    table = plain_table(titles, right=("as extracted", "change", "weight of extractions", "labels"))
    for group in correction.groups:
        for place, (name, score) in enumerate(group.metrics.items()):
            table.add_row(
                group_name(group.group) if place == 0 else "",
                name,
                number(score.uncorrected, signed=True),
                corrected_text(score),
                number(score.correction, signed=True),
                number(score.ppi_lambda),
                f"{score.n_labels:,}",
            )
    console.print(table)
    console.print(correction_note(correction))
    console.print()
    table = plain_table(("group", "labels", "error rate"), right=("labels",))
    for found in correction.errors:
        table.add_row(group_name(found.group) or "all answers", f"{found.n_labels:,}", percent(found.rate))
    console.print(table)
    for matrix in correction.matrices:
        print_matrix(matrix, console)


def print_matrix(matrix: ConfusionMatrix, console: Console) -> None:
    """What answers say, by how they are read, in one language or all."""
    name = matrix.language or "all languages"
    console.print(f"\nannotated choice by extraction: {name}, {percent(matrix.rate)} extracted wrongly\n")
    says = [f"says {ROLE_TITLES[role]}" for role in matrix_roles(matrix)]
    table = plain_table(("extracted as", "labels", *says), right=("labels", *says))
    for row in matrix_rows(matrix):
        table.add_row(*row)
    console.print(table)


def confidence_table(found: Sequence[ConfidenceShares]) -> Table:
    """How sure the reader was, by group."""
    levels = get_args(Confidence)
    table = plain_table(("group", "answers", *levels), right=("answers", *levels))
    for group in found:
        table.add_row(
            group_name(group.group) or "all answers",
            f"{group.n_answers:,}",
            *(share(group.shares[level]) for level in levels),
        )
    return table


def flag_sentences(flags: Iterable[ExtractionFlag]) -> list[str]:
    """The differences that reading could have made, one sentence for each."""
    found = []
    for flag in flags:
        inside = group_name(flag.group)
        gaps = [f"parse rates {number(flag.read_gap, signed=True)}"]
        if flag.error_gap is not None:
            gaps.append(f"error rates {number(flag.error_gap, signed=True)}")
        what = " and ".join(WARNINGS[name].partition(";")[0] for name in flag.flags)
        found.append(
            f"{flag.first} − {flag.second}{f' ({inside})' if inside else ''}: {flag.metric} differs by "
            f"{number(flag.difference, signed=True)}, but {what} ({', '.join(gaps)}): reading may have made it"
        )
    return found
