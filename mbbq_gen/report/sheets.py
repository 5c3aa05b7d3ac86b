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
        """The question, as shown."""
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
        stored, instance, annotation = entry.stored, entry.answered.instance, annotations.get(entry.stored.prompt_id)
        shown = [f"{label}: {text}" for label, text in zip(entry.question.labels, entry.question.options, strict=True)]
        given = ["", "", ""]
        if annotation is not None:
            right = _place(annotation.right) if annotation.right_known else ""
            given = ["agree" if annotation.agrees else "disagree", right, annotation.note]
        cells = [
            *(stored.prompt_id, stored.language, instance.context, instance.question),
            *(shown + [""] * (most - len(shown))),
            *(cut(entry.response), _place(stored.option), stored.outcome, stored.rule, stored.confidence),
            *(*given, stored.extractor),
        ]
        writer.writerow(map(spreadsheet_safe, cells))
    return stream.getvalue()


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
        _section(f"{number} of {len(entries)}", f"v{number}", entry, annotations.get(entry.stored.prompt_id))
        for number, entry in enumerate(entries, start=1)
    )
    return _PAGE.format(title=escaped(title), policy=policy, style=style, body=body, script=script)


def _section(number: str, field: str, entry: SheetEntry, annotation: Annotation | None) -> str:
    """One reading with its boxes to tick; `field`: the name of its verdict."""
    stored, question, instance = entry.stored, entry.question, entry.answered.instance
    shown = [escaped(f"{label}: {text}") for label, text in zip(question.labels, question.options, strict=True)]
    chosen = 'class="chosen"'
    options = "".join(
        f'<li{_flag(chosen, place == stored.option)}><span dir="auto">{text}</span></li>'
        for place, text in enumerate(shown)
    )
    read_as = "no option"
    if stored.option is not None:
        read_as = f"{stored.option + 1}. <span dir='auto'>{shown[stored.option]}</span>"
    boxes = "".join(
        f'<label><input type="radio" name="{field}" value="{word}"'
        f"{_flag('checked', annotation is not None and annotation.agrees is is_it)}> {word}</label>"
        for word, is_it in (("agree", True), ("disagree", False))
    )
    facts = f"{stored.outcome}, {stored.rule}, confidence {stored.confidence}"
    return (
        f'<section data-id="{escaped(stored.prompt_id)}" data-extractor="{escaped(stored.extractor)}">\n'
        f"<h2>{number} <small>{escaped(stored.language)} · {escaped(stored.prompt_id)}</small></h2>\n"
        f'<p dir="auto">{escaped(instance.context)}</p>\n<p dir="auto">{escaped(instance.question)}</p>\n'
        f'<ol>{options}</ol>\n<pre dir="auto">{_marked(entry)}</pre>\n'
        f"<p>read as <strong>{read_as}</strong> <small>{escaped(facts)}</small></p>\n"
        f"<p>{boxes} <label>right: <select>{_choices(question, annotation)}</select></label> "
        f'<label>note: <input type="text" maxlength="500" value="{escaped(annotation.note) if annotation else ""}">'
        "</label></p>\n</section>"
    )


def _flag(attribute: str, is_set: bool) -> str:
    return f" {attribute}" if is_set else ""


def _choices(question: Question, annotation: Annotation | None) -> str:
    """What may be chosen as right: nothing said, an option, no answer."""
    chosen = _place(annotation.right) if annotation is not None and annotation.right_known else ""
    rows = {"": "not said", **{str(n): f"{n}. {label}" for n, label in enumerate(question.labels, start=1)}}
    rows["0"] = "no answer there"
    return "".join(
        f'<option value="{value}"{_flag("selected", value == chosen)}>{escaped(text)}</option>'
        for value, text in rows.items()
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
