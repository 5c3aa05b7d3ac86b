"""A reading sheet as a page for a browser: readings beside their responses, boxes to tick, a button that saves.

The page holds all it needs and asks nothing of any server. Nothing that a model wrote can act: all of it is escaped,
and the page's policy allows its own style and script only, by their digests. It saves a CSV of verdicts, which comes
back as a sheet does (`reading_sheet.read_sheet`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from mbbq_gen.extraction import Question
from mbbq_gen.report.html.safe import escaped, page_part, page_policy
from mbbq_gen.report.reading_sheet import HEAD_KEPT, TAIL_KEPT, Entry, cut
from mbbq_gen.runs.audit import Verdict

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


def html_sheet(entries: Sequence[Entry], verdicts: Mapping[str, Verdict], title: str) -> str:
    """The sheet as a page that holds all it needs; its button saves the verdicts as CSV."""
    style, script = (page_part(name, "mbbq_gen.report") for name in ("reading_sheet.css", "reading_sheet.js"))
    policy = page_policy([style], [script])
    body = "\n".join(
        _section(number, len(entries), entry, verdicts.get(entry.reading.presentation_id))
        for number, entry in enumerate(entries, start=1)
    )
    return _PAGE.format(title=escaped(title), policy=policy, style=style, body=body, script=script)


def _section(number: int, total: int, entry: Entry, verdict: Verdict | None) -> str:
    """One reading with its boxes to tick."""
    reading, question, instance = entry.reading, entry.question, entry.answered.instance
    note = escaped(verdict.note) if verdict else ""
    head = f"{number} of {total} <small>{escaped(reading.language)} · {escaped(reading.presentation_id)}</small>"
    facts = f"{reading.outcome}, {reading.rule}, confidence {reading.confidence}"
    return (
        f'<section data-id="{escaped(reading.presentation_id)}" data-extractor="{escaped(reading.extractor)}">\n'
        f"<h2>{head}</h2>\n"
        f'<p dir="auto">{escaped(instance.context)}</p>\n<p dir="auto">{escaped(instance.question)}</p>\n'
        f'<ol>{_options(entry)}</ol>\n<pre dir="auto">{_marked(entry)}</pre>\n'
        f"<p>read as <strong>{_read_as(entry)}</strong> <small>{escaped(facts)}</small></p>\n"
        f"<p>{_boxes(number, verdict)} <label>right: <select>{_choices(question, verdict)}</select></label> "
        f'<label>note: <input type="text" maxlength="500" value="{note}"></label></p>\n</section>'
    )


def _options(entry: Entry) -> str:
    """The options as shown, the one that was read set off."""
    question, chosen = entry.question, 'class="chosen"'
    shown = [f"{label}: {text}" for label, text in zip(question.labels, question.options, strict=True)]
    return "".join(
        f'<li{_flag(chosen, place == entry.reading.option)}><span dir="auto">{escaped(text)}</span></li>'
        for place, text in enumerate(shown)
    )


def _boxes(number: int, verdict: Verdict | None) -> str:
    """Agree and disagree, one of them ticked where it was judged before."""
    ticked = None if verdict is None else verdict.agrees
    return "".join(
        f'<label><input type="radio" name="v{number}" value="{word}"{_flag("checked", ticked is is_it)}> {word}</label>'
        for word, is_it in (("agree", True), ("disagree", False))
    )


def _flag(attribute: str, is_set: bool) -> str:
    return f" {attribute}" if is_set else ""


def _read_as(entry: Entry) -> str:
    option, question = entry.reading.option, entry.question
    if option is None:
        return "no option"
    return f"{option + 1}. <span dir='auto'>{escaped(f'{question.labels[option]}: {question.options[option]}')}</span>"


def _choices(question: Question, verdict: Verdict | None) -> str:
    """What may be chosen as right: nothing said, an option, no answer."""
    known = verdict is not None and verdict.right_known
    right = verdict.right if verdict is not None and verdict.right_known else None
    rows: Iterable[tuple[str, str, bool]] = (
        ("", "not said", not known),
        *((str(n + 1), f"{n + 1}. {label}", known and right == n) for n, label in enumerate(question.labels)),
        ("0", "no answer there", known and right is None),
    )
    return "".join(
        f'<option value="{value}"{_flag("selected", chosen)}>{escaped(text)}</option>' for value, text, chosen in rows
    )


def _marked(entry: Entry) -> str:
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
