"""A reading sheet: readings beside their responses, for a person to judge in a spreadsheet or in a browser.

A sheet that comes back needs the columns `id` and `verdict` (agree or disagree), and may have `right` (the number of
the right option as shown, from 1; 0 for none), `note`, and `extractor` (whose reading was judged). Cells that a
spreadsheet would take for a formula begin with an apostrophe.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mbbq_gen.annotation.review import Annotation
from mbbq_gen.core.errors import DataError
from mbbq_gen.core.records import Extraction
from mbbq_gen.core.tables import table_rows
from mbbq_gen.core.text import spreadsheet_safe
from mbbq_gen.extraction import Question
from mbbq_gen.report.page import page_assets, render
from mbbq_gen.report.viewer import EVIDENCE, ExcerptLengths, pieces
from mbbq_gen.runs.extraction import question_of
from mbbq_gen.storage.queries import ExtractionRow
from mbbq_gen.storage.store import CompletedPrompt

_LENGTHS = ExcerptLengths(head=4000, tail=12_000, around=200)
"""Of a longer response: more is not read either, and no cell holds it."""
_AGREES = {"agree": True, "yes": True, "y": True, "disagree": False, "no": False, "n": False}
"""What may stand under `verdict`."""
_NONE_WORDS = frozenset({"0", "none", "-"})


@dataclass(frozen=True)
class SheetEntry:
    """One reading on a sheet."""

    stored: ExtractionRow
    answered: CompletedPrompt
    extraction: Extraction

    @property
    def question(self) -> Question:
        """The question, as shown."""
        return question_of(self.answered)

    @property
    def options(self) -> list[str]:
        """The options as shown, with their labels."""
        question = self.question
        return [f"{label}: {text}" for label, text in zip(question.labels, question.options, strict=True)]

    @property
    def response(self) -> str:
        """What the model wrote: its text, or the words of a refusal that the service keeps apart."""
        response = self.answered.response
        return response.text or response.refusal or ""

    def marked(self) -> list[tuple[str, bool]]:
        """The response in stretches, each with whether it is evidence; what is too long left out."""
        found = pieces(self.response, self.extraction.spans, _LENGTHS)
        return [(text, kind == EVIDENCE) for text, kind in found]


@dataclass(frozen=True)
class SheetRow:
    """What a person wrote beside one reading."""

    where: str
    """File and row, for messages."""
    prompt_id: str
    extractor: str | None
    agrees: bool | None
    right: str
    """As written; empty where nothing was."""
    note: str


def csv_sheet(entries: Sequence[SheetEntry], annotations: Mapping[str, Annotation]) -> str:
    """The sheet as CSV; what was judged before is filled in."""
    most = max((len(entry.question.options) for entry in entries), default=3)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\r\n")
    options = [f"option_{place}" for place in range(1, most + 1)]
    question = ["id", "language", "context", "question", *options]
    extraction = ["response", "read_as", "outcome", "rule", "confidence"]
    writer.writerow([*question, *extraction, "verdict", "right", "note", "extractor"])
    for entry in entries:
        stored, instance, annotation = entry.stored, entry.answered.instance, annotations.get(entry.stored.prompt_id)
        shown, given = entry.options, ["", "", ""]
        if annotation is not None:
            right = _place(annotation.right) if annotation.right_known else ""
            given = ["agree" if annotation.agrees else "disagree", right, annotation.note]
        cells = [
            *(stored.prompt_id, stored.language, instance.context, instance.question),
            *(shown + [""] * (most - len(shown))),
            *(
                "".join(text for text, _ in entry.marked()),
                _place(stored.option),
                stored.outcome,
                stored.rule,
                stored.confidence,
            ),
            *(*given, stored.extractor),
        ]
        writer.writerow(map(spreadsheet_safe, cells))
    return stream.getvalue()


def _place(option: int | None) -> str:
    """An option as a person counts it; 0 for none."""
    return "0" if option is None else str(option + 1)


def read_sheet(path: Path) -> Iterator[SheetRow]:
    """The rows of a sheet that came back, as CSV or .xlsx; those without a verdict are left out.

    Raises:
        UsageError: where there is no such file.
        DataError: where it can't be understood: file, row, field, what to do.
    """
    for number, row in table_rows(path, required=("id", "verdict")):
        cells = {key: str(value or "").strip().removeprefix("'") for key, value in row.items()}
        where, word, right = f"{path}:{number}", cells["verdict"].casefold(), cells.get("right", "")
        if word and word not in _AGREES:
            raise DataError(f"{where}: verdict: {cells['verdict']!r}; write agree or disagree, or leave it empty")
        if word or right:
            reader = cells.get("extractor") or None
            yield SheetRow(where, cells["id"], reader, _AGREES.get(word), right, cells.get("note", ""))


def right_option(row: SheetRow, question: Question) -> int | None:
    """The option that a person calls right: by its number from 1, or by its label; None for none of them.

    Raises:
        DataError: where it names none that was shown.
    """
    text = row.right.casefold()
    if text in _NONE_WORDS:
        return None
    if text.isdecimal() and 1 <= int(text) <= len(question.options):
        return int(text) - 1
    labels = [label.casefold().strip("()") for label in question.labels]
    if text.strip("()") in labels:
        return labels.index(text.strip("()"))
    count = len(question.options)
    raise DataError(f"{row.where}: right: {row.right!r}; write the option's number, 1 to {count}, or 0 for no answer")


def html_sheet(entries: Sequence[SheetEntry], annotations: Mapping[str, Annotation], title: str) -> str:
    """The sheet as a page that holds all it needs; its button saves the verdicts as CSV.

    Raises:
        MissingExtraError: where jinja2 is not installed.
    """
    rows = [(entry, annotations.get(entry.stored.prompt_id)) for entry in entries]
    return render("sheet.html", title, page_assets(("sheet.css",), ("sheet.js",)), rows=rows)
