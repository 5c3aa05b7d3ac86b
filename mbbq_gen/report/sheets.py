"""A reading sheet: readings beside their responses, for a person to judge in a spreadsheet.

A sheet that comes back needs the columns `id` and `verdict` (agree or disagree), and may have `right` (the number of
the right option as shown, from 1; 0 for none), `note`, and `extractor` (whose reading was judged).

Nothing that a model wrote can act: cells that a spreadsheet would take for a formula begin with an apostrophe. The same
sheet as a page for a browser is `reading_page`; what it saves comes back as this one does.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from mbbq_gen.annotation.review import Annotation
from mbbq_gen.core.errors import DataError
from mbbq_gen.core.records import Extraction
from mbbq_gen.core.tables import table_rows
from mbbq_gen.core.text import spreadsheet_safe
from mbbq_gen.extraction import Question
from mbbq_gen.report.page import page_part, page_policy
from mbbq_gen.report.tables import escaped
from mbbq_gen.runs.extraction import question_of
from mbbq_gen.storage.queries import ExtractionRow
from mbbq_gen.storage.store import CompletedPrompt

HEAD_KEPT, TAIL_KEPT = 4000, 12000
"""Of a longer response only its beginning and end are on the sheet: more is not read either, and no cell holds it."""
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
        writer.writerow(
            [spreadsheet_safe(cell) for cell in _cells(entry, most, annotations.get(entry.stored.prompt_id))]
        )
    return stream.getvalue()


def _cells(entry: SheetEntry, most: int, annotation: Annotation | None) -> list[str]:
    extraction, question, instance = entry.stored, entry.question, entry.answered.instance
    shown = [f"{label}: {text}" for label, text in zip(question.labels, question.options, strict=True)]
    given = ["", "", ""]
    if annotation is not None:
        right = "" if not annotation.right_known else "0" if annotation.right is None else str(annotation.right + 1)
        given = ["agree" if annotation.agrees else "disagree", right, annotation.note]
    return [
        *(extraction.prompt_id, extraction.language, instance.context, instance.question),
        *(shown + [""] * (most - len(shown))),
        *(cut(entry.response), _place(extraction.option), extraction.outcome, extraction.rule, extraction.confidence),
        *given,
        extraction.extractor,
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


def read_sheet(path: Path) -> Iterator[SheetRow]:
    """The rows of a sheet that came back, as CSV or .xlsx; those without a verdict are left out.

    Raises:
        UsageError: where there is no such file.
        DataError: where it can't be understood: file, row, field, what to do.
    """
    for number, row in table_rows(path, required=("id", "verdict")):
        found = _sheet_row(row, f"{path}:{number}")
        if found is not None:
            yield found


def _sheet_row(row: Mapping[str, str], where: str) -> SheetRow | None:
    cells = {key: str(value or "").strip().removeprefix("'") for key, value in row.items()}
    word, right = cells["verdict"].casefold(), cells.get("right", "")
    if not word and not right:
        return None
    if word and word not in _AGREES:
        raise DataError(f"{where}: verdict: {cells['verdict']!r}; write agree or disagree, or leave it empty")
    return SheetRow(
        where=where,
        prompt_id=cells["id"],
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


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>{style}</style>
</head>
<body>
<header>
<h1>{title}</h1>
<p>Does the reading say what the response chooses? Judge the reading, not whether the answer is true.</p>
<p><output id="count"></output> <button id="save" type="button">Save verdicts as CSV</button></p>
</header>
<main>
{body}
</main>
<script>{script}</script>
</body>
</html>
"""


def html_sheet(entries: Sequence[SheetEntry], annotations: Mapping[str, Annotation], title: str) -> str:
    """The sheet as a page that holds all it needs; its button saves the verdicts as CSV."""
    style, script = (page_part(name) for name in ("sheet.css", "sheet.js"))
    policy = page_policy([style], [script])
    body = "\n".join(
        _section(number, len(entries), entry, annotations.get(entry.stored.prompt_id))
        for number, entry in enumerate(entries, start=1)
    )
    return _PAGE.format(title=escaped(title), policy=policy, style=style, body=body, script=script)


def _section(number: int, total: int, entry: SheetEntry, annotation: Annotation | None) -> str:
    """One reading with its boxes to tick."""
    extraction, question, instance = entry.stored, entry.question, entry.answered.instance
    note = escaped(annotation.note) if annotation else ""
    head = f"{number} of {total} <small>{escaped(extraction.language)} · {escaped(extraction.prompt_id)}</small>"
    facts = f"{extraction.outcome}, {extraction.rule}, confidence {extraction.confidence}"
    return (
        f'<section data-id="{escaped(extraction.prompt_id)}" data-extractor="{escaped(extraction.extractor)}">\n'
        f"<h2>{head}</h2>\n"
        f'<p dir="auto">{escaped(instance.context)}</p>\n<p dir="auto">{escaped(instance.question)}</p>\n'
        f'<ol>{_options(entry)}</ol>\n<pre dir="auto">{_marked(entry)}</pre>\n'
        f"<p>read as <strong>{_read_as(entry)}</strong> <small>{escaped(facts)}</small></p>\n"
        f"<p>{_boxes(number, annotation)} <label>right: <select>{_choices(question, annotation)}</select></label> "
        f'<label>note: <input type="text" maxlength="500" value="{note}"></label></p>\n</section>'
    )


def _options(entry: SheetEntry) -> str:
    """The options as shown, the one that was read set off."""
    question, chosen = entry.question, 'class="chosen"'
    shown = [f"{label}: {text}" for label, text in zip(question.labels, question.options, strict=True)]
    return "".join(
        f'<li{_flag(chosen, place == entry.stored.option)}><span dir="auto">{escaped(text)}</span></li>'
        for place, text in enumerate(shown)
    )


def _boxes(number: int, annotation: Annotation | None) -> str:
    """Agree and disagree, one of them ticked where it was judged before."""
    ticked = None if annotation is None else annotation.agrees
    return "".join(
        f'<label><input type="radio" name="v{number}" value="{word}"{_flag("checked", ticked is is_it)}> {word}</label>'
        for word, is_it in (("agree", True), ("disagree", False))
    )


def _flag(attribute: str, is_set: bool) -> str:
    return f" {attribute}" if is_set else ""


def _read_as(entry: SheetEntry) -> str:
    option, question = entry.stored.option, entry.question
    if option is None:
        return "no option"
    return f"{option + 1}. <span dir='auto'>{escaped(f'{question.labels[option]}: {question.options[option]}')}</span>"


def _choices(question: Question, annotation: Annotation | None) -> str:
    """What may be chosen as right: nothing said, an option, no answer."""
    known = annotation is not None and annotation.right_known
    right = annotation.right if annotation is not None and annotation.right_known else None
    rows: Iterable[tuple[str, str, bool]] = (
        ("", "not said", not known),
        *((str(n + 1), f"{n + 1}. {label}", known and right == n) for n, label in enumerate(question.labels)),
        ("0", "no answer there", known and right is None),
    )
    return "".join(
        f'<option value="{value}"{_flag("selected", chosen)}>{escaped(text)}</option>' for value, text, chosen in rows
    )


def _marked(entry: SheetEntry) -> str:
    """The response, escaped, with the evidence marked."""
    text, parts, here = entry.response, [], 0
    if len(text) > HEAD_KEPT + TAIL_KEPT:
        return escaped(cut(text))
    for start, end in merged(entry.extraction.spans):
        parts += [escaped(text[here:start]), f"<mark>{escaped(text[start:end])}</mark>"]
        here = end
    return "".join([*parts, escaped(text[here:])])


def merged(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The spans in order, those that overlap as one."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((start, end))
    return found
