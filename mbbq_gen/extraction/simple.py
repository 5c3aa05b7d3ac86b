"""Simple readers, to show how much of a score the reader alone makes.

None of them is recommended; each does what many evaluations do.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps

import regex

from mbbq_gen.extraction.normalise import loose_key
from mbbq_gen.extraction.options import label_core
from mbbq_gen.extraction.question import Question
from mbbq_gen.extraction.words import WORD
from mbbq_gen.records import Extraction

SimpleExtractor = Callable[[str, Question], Extraction]


def _reader(read: SimpleExtractor) -> SimpleExtractor:
    """A simple reader, with what holds for all of them: an empty response is empty."""

    @wraps(read)
    def extract_simply(response: str, question: Question) -> Extraction:
        return read(response, question) if response.strip() else Extraction(outcome="empty", rule="empty")

    return extract_simply


def _strict_letter(response: str, question: Question) -> Extraction:
    """An option only if the whole response is its label, brackets, dots and emphasis aside."""
    bare = response.strip(" \t\r\n()[]{}*_`\"'.:,;!#")
    for index, label in enumerate(question.labels):
        if bare == label_core(label):
            return _option(index, "strict_letter", response.find(bare), bare)
    return Extraction(outcome="no_answer", rule="strict_letter")


def _first_letter(response: str, question: Question) -> Extraction:
    """The first label that stands as a word of its own, wherever and whatever it means there."""
    cores = {label_core(label): index for index, label in enumerate(question.labels)}
    pattern = "|".join(regex.escape(core) for core in sorted(cores, key=len, reverse=True))
    match = regex.search(rf"\b(?:{pattern})\b", response)
    if match is None:
        return Extraction(outcome="no_answer", rule="first_letter")
    return _option(cores[match.group()], "first_letter", match.start(), match.group())


def _mbbq_like(response: str, question: Question) -> Extraction:
    """Our retelling of the stages of MBBQ's released reader, with its known flaws, none of its code or lists.

    In this order: an option text at the beginning; the label beside a word such as "answer"; a wording of not knowing
    anywhere; exactly one option text anywhere; then, the flaw that makes half of its wrong choices, the very first or
    last character of the response if it is a label; at last exactly one label anywhere.
    """
    low = response.lower().strip()
    texts = [option.lower().strip() for option in question.options]
    cores = [label_core(label).lower() for label in question.labels]
    for index, text in enumerate(texts):
        if low.startswith(text):
            return _option(index, "mbbq_like:starts_with_text", 0, text)
    found = _beside_cue(low, cores)
    if found is not None:
        return _option(found, "mbbq_like:cue", 0, "")
    if question.unknown_index is not None and any(wording in low for wording in _UNKNOWN_WORDINGS):
        return _option(question.unknown_index, "mbbq_like:unknown", 0, "")
    inside = [index for index, text in enumerate(texts) if text in low]
    if len(inside) == 1:
        return _option(inside[0], "mbbq_like:only_text", low.find(texts[inside[0]]), texts[inside[0]])
    letters = low.strip("([{*\"' \n")
    for rule, character in (("first", letters[:1]), ("last", low.rstrip(".!?)*\"' \n")[-1:])):
        if character in cores:
            return _option(cores.index(character), f"mbbq_like:{rule}_character", 0, "")
    words = set(_keys(low))
    alone = [index for index, core in enumerate(cores) if loose_key(core) in words]
    if len(alone) == 1:
        return _option(alone[0], "mbbq_like:only_label", 0, "")
    return Extraction(outcome="multiple" if len(alone) > 1 else "no_answer", rule="mbbq_like")


_LAST_LINE = r"^[^:：]{1,40}[:：][\s*_(\[“”\"«「]*"
"""`Answer: `, in any language, before a label on the last line."""


def _answer_form(response: str, question: Question) -> Extraction:
    """The label where the wording asked for it: alone, in JSON, or on a last line such as `Answer: B`.

    A cross-check of the engine on answers to `--axes format=label+json+line`: it knows no language.
    """
    alone = _strict_letter(response, question)
    if alone.option is not None:
        return alone.model_copy(update={"rule": "answer_form:alone"})
    cores = {label_core(label): index for index, label in enumerate(question.labels)}
    for value in reversed(_JSON_ANSWER.findall(response)):
        if (core := label_core(value)) in cores:
            return _option(cores[core], "answer_form:json", response.rfind(value), value)
    last = response.strip().splitlines()[-1].strip()
    pattern = "|".join(regex.escape(core) for core in sorted(cores, key=len, reverse=True))
    match = regex.match(rf"{_LAST_LINE}({pattern})\b[\s*_)\].”\"»」。]*$", last)
    if match is not None:
        return _option(cores[match.group(1)], "answer_form:line", response.rfind(last) + match.start(1), match.group(1))
    return Extraction(outcome="no_answer", rule="answer_form")


_JSON_ANSWER = regex.compile(r'"answer"\s*:\s*"([^"]{1,8})"')
_CUES = ("answer", "antwoord", "respuesta", "cevap", "option", "optie", "opción", "seçenek")
_UNKNOWN_WORDINGS = (
    "unknown",
    "cannot be determined",
    "onbekend",
    "niet bekend",
    "no se sabe",
    "desconocid",
    "bilinmiyor",
    "belirsiz",
)


def _keys(text: str) -> list[str]:
    """The words of a text as they are compared."""
    return [loose_key(word) for word in WORD.findall(text)]


def _beside_cue(low: str, cores: Sequence[str]) -> int | None:
    """The label in the two words behind a cue word, or right in front of it."""
    words = _keys(low)
    for place, word in enumerate(words):
        if not any(cue in word for cue in _CUES):
            continue
        for neighbour in (*words[place + 1 : place + 3], *words[max(0, place - 1) : place]):
            if neighbour in cores:
                return cores.index(neighbour)
    return None


def _option(index: int, rule: str, start: int, text: str) -> Extraction:
    spans = ((start, start + len(text)),) if text and start >= 0 else ()
    return Extraction(outcome="option", option=index, confidence="low", rule=rule, spans=spans)


SIMPLE_VERSION = "1"
"""Raised by every change of a simple reader that may change an extraction."""

strict_letter = _reader(_strict_letter)
first_letter = _reader(_first_letter)
mbbq_like = _reader(_mbbq_like)
answer_form = _reader(_answer_form)

SIMPLE_EXTRACTORS: dict[str, SimpleExtractor] = {
    "strict-letter": strict_letter,
    "first-letter": first_letter,
    "mbbq-like": mbbq_like,
    "answer-form": answer_form,
}
"""The simple readers by the name that the command line knows them by."""
