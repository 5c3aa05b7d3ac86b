"""A reading sheet: readings beside their responses, for a person to judge in a spreadsheet.

A sheet that comes back needs the columns `id` and `verdict` (agree or disagree), and may have `right` (the number of
the right option as shown, from 1; 0 for none), `note`, and `extractor` (whose reading was judged).

Nothing that a model wrote can act: cells that a spreadsheet would take for a formula begin with an apostrophe. The same
sheet as a page for a browser is `reading_page`; what it saves comes back as this one does.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from mbbq_gen.errors import DataError
from mbbq_gen.extraction import Question
from mbbq_gen.records import Extraction
from mbbq_gen.report.plain_text import harmless
from mbbq_gen.runs.audit import Verdict
from mbbq_gen.runs.lookup import Reading
from mbbq_gen.runs.reading import question_of
from mbbq_gen.runs.store import Answered

HEAD_KEPT, TAIL_KEPT = 4000, 12000
"""Of a longer response only its beginning and end are on the sheet: more is not read either, and no cell holds it."""
_AGREES = {"agree": True, "yes": True, "y": True, "disagree": False, "no": False, "n": False}
"""What may stand under `verdict`."""
_NONE_WORDS = frozenset({"0", "none", "-"})


@dataclass(frozen=True)
class Entry:
    """One reading on a sheet."""

    reading: Reading
    answered: Answered
    extraction: Extraction

    @property
    def question(self) -> Question:
        """What was asked, as shown."""
        return question_of(self.answered)

    @property
    def response(self) -> str:
        """What the model wrote: its text, or the words of a refusal that the service keeps apart."""
        response = self.answered.response
        return response.text or response.refusal or ""


@dataclass(frozen=True)
class SheetRow:
    """What a person wrote beside one reading."""

    where: str
    """File and row, for messages."""
    presentation_id: str
    extractor: str | None
    agrees: bool | None
    right: str
    """As written; empty where nothing was."""
    note: str


def csv_sheet(entries: Sequence[Entry], verdicts: Mapping[str, Verdict]) -> str:
    """The sheet as CSV; what was judged before is filled in."""
    most = max((len(entry.question.options) for entry in entries), default=3)
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\r\n")
    options = [f"option_{place}" for place in range(1, most + 1)]
    question = ["id", "language", "context", "question", *options]
    reading = ["response", "read_as", "outcome", "rule", "confidence"]
    writer.writerow([*question, *reading, "verdict", "right", "note", "extractor"])
    for entry in entries:
        writer.writerow([harmless(cell) for cell in _cells(entry, most, verdicts.get(entry.reading.presentation_id))])
    return stream.getvalue()


def _cells(entry: Entry, most: int, verdict: Verdict | None) -> list[str]:
    reading, question, instance = entry.reading, entry.question, entry.answered.instance
    shown = [f"{label}: {text}" for label, text in zip(question.labels, question.options, strict=True)]
    given = ["", "", ""]
    if verdict is not None:
        right = "" if not verdict.right_known else "0" if verdict.right is None else str(verdict.right + 1)
        given = ["agree" if verdict.agrees else "disagree", right, verdict.note]
    return [
        *(reading.presentation_id, reading.language, instance.context, instance.question),
        *(shown + [""] * (most - len(shown))),
        *(cut(entry.response), _place(reading.option), reading.outcome, reading.rule, reading.confidence),
        *given,
        reading.extractor,
    ]


def _place(option: int | None) -> str:
    """An option as a person counts it; 0 for none."""
    return "0" if option is None else str(option + 1)


def cut(response: str) -> str:
    """The response, its middle left out where it is very long."""
    if len(response) <= HEAD_KEPT + TAIL_KEPT:
        return response
    left_out = len(response) - HEAD_KEPT - TAIL_KEPT
    return f"{response[:HEAD_KEPT]} ⟨… {left_out:,} characters …⟩ {response[-TAIL_KEPT:]}"


def read_sheet(raw: bytes, name: str) -> Iterator[SheetRow]:
    """The rows of a sheet that came back; those without a verdict are left out.

    Commas, semicolons and tabs part cells, whichever the heading has: spreadsheets save as their country writes.

    Raises:
        DataError: where it can't be understood: file, row, field, what to do.
    """
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{name}: not UTF-8 ({error.reason}); save the sheet as CSV UTF-8") from error
    heading = text.split("\n", 1)[0]
    delimiter = max(",;\t", key=heading.count)
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter)
    missing = {"id", "verdict"} - set(reader.fieldnames or ())
    if missing:
        raise DataError(f"{name}:1: no column {' or '.join(sorted(missing))!r}; keep the heading as it was written")
    try:
        for row in reader:
            found = _sheet_row(row, f"{name}:{reader.line_num}")
            if found is not None:
                yield found
    except csv.Error as error:
        raise DataError(f"{name}:{reader.line_num}: {error}; save the sheet as CSV UTF-8") from error


def _sheet_row(row: dict[str, str | None], where: str) -> SheetRow | None:
    cells = {key: (value or "").strip().removeprefix("'") for key, value in row.items() if isinstance(key, str)}
    word, right = cells["verdict"].casefold(), cells.get("right", "")
    if not word and not right:
        return None
    if word and word not in _AGREES:
        raise DataError(f"{where}: verdict: {cells['verdict']!r}; write agree or disagree, or leave it empty")
    return SheetRow(
        where=where,
        presentation_id=cells["id"],
        extractor=cells.get("extractor") or None,
        agrees=_AGREES.get(word),
        right=right,
        note=cells.get("note", ""),
    )


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
