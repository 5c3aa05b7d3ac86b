"""Baseline extractors."""

from __future__ import annotations

from collections.abc import Callable

import regex

from mbbq_gen.core.records import Extraction
from mbbq_gen.extraction import BASELINES
from mbbq_gen.extraction.question import Question, label_core
from mbbq_gen.extraction.text import WORD, loose_key

SimpleExtractor = Callable[[str, Question], Extraction]
_LAST_LINE = r"^[^:：]{1,40}[:：][\s*_(\[“”\"«「]*"
"""`Answer: ` in any language, before a label in the last line."""
_JSON_ANSWER = regex.compile(r'"answer"\s*:\s*"([^"]{1,8})"')
_CUES = "answer", "antwoord", "respuesta", "cevap", "option", "optie", "opción", "seçenek"
_UNKNOWN = (
    *("unknown", "cannot be determined", "onbekend", "niet bekend", "no se sabe", "desconocid"),
    *("bilinmiyor", "belirsiz"),
)


def _option(index: int, rule: str, start: int = 0, text: str = "") -> Extraction:
    spans = ((start, start + len(text)),) if text and start >= 0 else ()
    return Extraction(outcome="option", option=index, confidence="low", rule=rule, spans=spans)


def _none(response: str, rule: str) -> Extraction:
    blank = not response.strip()
    return Extraction(outcome="empty" if blank else "unparsed", rule="empty" if blank else rule)


def _labels(question: Question) -> tuple[dict[str, int], str]:
    """The labels without brackets by option, and a pattern for any of them."""
    cores = {label_core(label): index for index, label in enumerate(question.labels)}
    return cores, "|".join(regex.escape(core) for core in sorted(cores, key=len, reverse=True))


def strict_match(response: str, question: Question) -> Extraction:
    """The option whose label is the whole response, without brackets, dots and emphasis."""
    bare = response.strip(" \t\r\n()[]{}*_`\"'.:,;!#")
    cores, _ = _labels(question)
    if bare in cores:
        return _option(cores[bare], "strict_match", response.find(bare), bare)
    return _none(response, "strict_match")


def first_label(response: str, question: Question) -> Extraction:
    """The option of the first label that is a word of its own."""
    cores, pattern = _labels(question)
    match = regex.search(rf"\b(?:{pattern})\b", response)
    if match is None:
        return _none(response, "first_label")
    return _option(cores[match.group()], "first_label", match.start(), match.group())


def mbbq_like(response: str, question: Question) -> Extraction:
    """A reimplementation of MBBQ's released extractor, with its known flaws.

    Its stages are, in order: an option text at the start; a label beside a word such as "answer"; a phrase for not
    knowing; exactly one option text; the first or last character, the cause of half of its errors; exactly one label.
    """
    low = response.lower().strip()
    texts = [option.lower().strip() for option in question.options]
    cores = [label_core(label).lower() for label in question.labels]
    words = [loose_key(word) for word in WORD.findall(low)]
    for index, text in enumerate(texts):
        if low and low.startswith(text):
            return _option(index, "mbbq_like:starts_with_text", 0, text)
    for index, word in enumerate(words):
        if any(cue in word for cue in _CUES):
            for neighbour in (*words[index + 1 : index + 3], *words[max(0, index - 1) : index]):
                if neighbour in cores:
                    return _option(cores.index(neighbour), "mbbq_like:cue")
    if question.unknown_index is not None and any(phrase in low for phrase in _UNKNOWN):
        return _option(question.unknown_index, "mbbq_like:unknown")
    inside = [index for index, text in enumerate(texts) if text in low]
    if len(inside) == 1:
        return _option(inside[0], "mbbq_like:only_text", low.find(texts[inside[0]]), texts[inside[0]])
    letters = low.strip("([{*\"' \n")
    for rule, character in (("first", letters[:1]), ("last", low.rstrip(".!?)*\"' \n")[-1:])):
        if character in cores:
            return _option(cores.index(character), f"mbbq_like:{rule}_character")
    alone = [index for index, core in enumerate(cores) if loose_key(core) in words]
    if len(alone) == 1:
        return _option(alone[0], "mbbq_like:only_label")
    return Extraction(outcome="multiple", rule="mbbq_like") if alone else _none(response, "mbbq_like")


def answer_line(response: str, question: Question) -> Extraction:
    """The label alone, in JSON, or in a last line such as `Answer: B`.

    It works for any language, as a cross-check of the rules on answers to `--axes format=label+json+line`.
    """
    alone = strict_match(response, question)
    if alone.option is not None:
        return alone.model_copy(update={"rule": "answer_line:alone"})
    cores, pattern = _labels(question)
    for value in reversed(_JSON_ANSWER.findall(response)):
        if (core := label_core(value)) in cores:
            return _option(cores[core], "answer_line:json", response.rfind(value), value)
    last = (response.strip().splitlines() or [""])[-1].strip()
    match = regex.match(rf"{_LAST_LINE}({pattern})\b[\s*_)\].”\"»」。]*$", last)
    if match is not None:
        return _option(cores[match.group(1)], "answer_line:line", response.rfind(last) + match.start(1), match.group(1))
    return _none(response, "answer_line")


SIMPLE_EXTRACTORS: dict[str, SimpleExtractor] = dict(
    zip(BASELINES, (strict_match, first_label, mbbq_like, answer_line), strict=True)
)
"""Name on the command line → baseline extractor."""
