"""Annotation sheets.

A sheet is a CSV file of extractions and their responses. A filled one needs the columns `id` and `verdict` (agree or
disagree; then with `right`: the number of the correct option as shown, from 1; 0 for none). Optional columns are `note`
and `extractor` (name of the annotated extractor). Cells that would be formulas in a spreadsheet begin with an
apostrophe.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mbbq_gen.annotation.review import Annotation
from mbbq_gen.core.errors import DataError
from mbbq_gen.core.records import Extraction
from mbbq_gen.core.tables import table_rows
from mbbq_gen.extraction import Question
from mbbq_gen.report.explanation import pieces
from mbbq_gen.report.tables import Table
from mbbq_gen.runs.extraction import question_of
from mbbq_gen.storage.queries import ExtractionRow
from mbbq_gen.storage.store import CompletedPrompt

_LIMIT = 16_000
"""Characters of a response; extractors do not read more, and a spreadsheet's cell has a limit."""
_AGREES = {"agree": True, "disagree": False}
"""Values of `verdict`."""


@dataclass(frozen=True)
class SheetEntry:
    """One extraction on a sheet."""

    stored: ExtractionRow
    answered: CompletedPrompt
    extraction: Extraction

    @property
    def question(self) -> Question:
        """The question in the form of the prompt."""
        return question_of(self.answered)


@dataclass(frozen=True)
class SheetRow:
    """The annotation in a row of a sheet."""

    where: str
    """File and row, for messages."""
    prompt_id: str
    extractor: str | None
    agrees: bool | None
    right: str
    """As written; empty if there is nothing."""
    note: str


def csv_sheet(entries: Sequence[SheetEntry], annotations: Mapping[str, Annotation]) -> str:
    """The sheet as CSV, with previous annotations filled in."""
    n_options = max((len(entry.question.options) for entry in entries), default=3)
    titles = ["id", "language", "context", "question", *(f"option_{place}" for place in range(1, n_options + 1))]
    titles += ["response", "read_as", "outcome", "rule", "confidence", "verdict", "right", "note", "extractor"]
    table = Table(*titles)
    for entry in entries:
        stored, instance, annotation = entry.stored, entry.answered.instance, annotations.get(entry.stored.prompt_id)
        previous = ("", "", "")
        if annotation is not None:
            right = _option_number(annotation.right)
            previous = ("agree" if annotation.agrees else "disagree", right, annotation.note)
        question = entry.question
        options = [f"{label}: {text}" for label, text in zip(question.labels, question.options, strict=True)]
        options += [""] * (n_options - len(options))
        text = entry.answered.response.text or entry.answered.response.refusal or ""
        response = "".join(part for part, _ in pieces(text, entry.extraction.spans, _LIMIT))
        extraction = (_option_number(stored.option), stored.outcome, stored.rule, stored.confidence)
        start = (stored.prompt_id, stored.language, instance.context, instance.question)
        table.add_row(*start, *options, response, *extraction, *previous, stored.extractor)
    return table.csv("\r\n")


def _option_number(option: int | None) -> str:
    """The number of an option, from 1; 0 for none."""
    return "0" if option is None else str(option + 1)


def read_sheet(path: Path) -> Iterator[SheetRow]:
    """The annotated rows of a filled sheet, a CSV file.

    Raises:
        UsageError: if there is no such file.
        DataError: if a row is invalid; its text has file, row, field and a remedy.
    """
    for number, row in table_rows(path, required=("id", "verdict")):
        cells = {key: str(value or "").strip().removeprefix("'") for key, value in row.items()}
        where, word, right = f"{path}:{number}", cells["verdict"].casefold(), cells.get("right", "")
        if word and word not in _AGREES:
            raise DataError(f"{where}: verdict: {cells['verdict']!r}; write agree or disagree, or leave it empty")
        if word or right:
            extractor = cells.get("extractor") or None
            yield SheetRow(where, cells["id"], extractor, _AGREES.get(word), right, cells.get("note", ""))


def right_option(row: SheetRow, question: Question) -> int | None:
    """The index of the option annotated as correct, by its number from 1 or its label; None if there is none.

    Raises:
        DataError: if it is not an option of the question.
    """
    text = row.right.casefold()
    if text.isdecimal() and int(text) <= len(question.options):
        return int(text) - 1 if int(text) else None
    labels = [label.casefold().strip("()") for label in question.labels]
    if text.strip("()") in labels:
        return labels.index(text.strip("()"))
    count = len(question.options)
    raise DataError(f"{row.where}: right: {row.right!r}; write the option's number, 1 to {count}, or 0 for no answer")
