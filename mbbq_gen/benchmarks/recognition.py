"""Recognises a benchmark's questions in the prompts of any evaluation harness.

    "…any text… {context} …any text… {question} …any text… (A) {option} (B) {option} (C) {option}"

The last known context in the prompt counts: few-shot examples come before it. The question and the three options must
follow; their positions give the option order, and the text before each gives its label. Any white space equals one
space. A prompt with other changes (a rewritten option, no context) is not recognised by its text.

A disambiguated context begins with the ambiguous one. So that an altered disambiguated question is not recognised as
the ambiguous one, a context must end at a line end, or without another sentence between it and the question.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import accumulate, islice

from mbbq_gen.core.records import Instance

_ANCHOR = 16
"""Number of characters of a context that are looked up at the start of every word."""
_MAX_CONTEXTS = 64
"""Maximum number of contexts that are tried in one text, from its end: a long text may repeat one."""
_WORD_START = re.compile(r"(?<!\w)\w|[^\w\s]")
_LABEL = re.compile(r"(?:([(\[（])\s*)?(?<!\w)([^\W_]{1,2})\s*([)\]）.:：、．]+)\s*[*_`\"']*\s*$")
_LABEL_REACH = 12
"""Number of characters before an option that are searched for its label."""
_SENTENCE_END = re.compile(r"[.!?。！？؟।۔](?:\W|$)")
_CLOSING = "\"'”’»」』)]*_`"


@dataclass(frozen=True, slots=True)
class IndexedInstance:
    """One question of the index, in little memory."""

    key: str
    """`Instance.key`."""
    question: str
    options: tuple[str, ...]
    """Texts in the instance's order."""
    record: str
    """The instance as JSON."""

    @property
    def instance(self) -> Instance:
        """The instance, parsed on each access."""
        return Instance.model_validate_json(self.record)


@dataclass(frozen=True, slots=True)
class OptionSpan:
    """Position and label of one option in a prompt."""

    index: int
    """Index in the instance's options."""
    start: int
    end: int
    label: str | None = None


class QuestionIndex:
    """An index of the questions of benchmarks by their texts."""

    def __init__(self, instances: Iterable[Instance]) -> None:
        self._by_context: dict[str, list[IndexedInstance]] = defaultdict(list)
        for instance in instances:
            options = tuple(plain(option.text) for option in instance.options)
            known = IndexedInstance(instance.key, plain(instance.question), options, instance.model_dump_json())
            self._by_context[plain(instance.context)].append(known)
        lengths: dict[str, set[int]] = defaultdict(set)
        for context in self._by_context:
            lengths[context[:_ANCHOR]].add(len(context))
        self._lengths = {anchor: sorted(found, reverse=True) for anchor, found in lengths.items()}

    def __iter__(self) -> Iterator[IndexedInstance]:
        return (known for found in self._by_context.values() for known in found)

    def with_texts(self, context: str, question: str) -> list[IndexedInstance]:
        """The questions with this context and this question."""
        wanted = plain(question)
        return [known for known in self._by_context.get(plain(context), ()) if known.question == wanted]

    def found_in(self, text: str) -> list[IndexedInstance]:
        """The questions of a text about its last known context, with their options if possible.

        There are several if the benchmark repeats a question, or the options of one contain those of another.
        """
        lines = [line for line in map(plain, text.split("\n")) if line]
        whole, without_options = " ".join(lines), list[IndexedInstance]()
        breaks = set(accumulate((len(line) + 1 for line in lines), initial=-1))
        """Positions of the spaces that replace line ends."""
        for context, end in islice(self._contexts(whole), _MAX_CONTEXTS):
            candidates = [known for known in self._by_context[context] if _follows(whole, end, known.question, breaks)]
            without_options = without_options or candidates
            if found := [known for known in candidates if _has_options(whole, end, known)]:
                return found
        return without_options

    def _contexts(self, text: str) -> Iterator[tuple[str, int]]:
        """Yields the contexts in a text with their ends, from the last to the first, the longest first."""
        for match in reversed(list(_WORD_START.finditer(text))):
            start = match.start()
            for length in self._lengths.get(text[start : start + _ANCHOR], ()):
                if text[start : start + length] in self._by_context:
                    yield text[start : start + length], start + length


def _follows(text: str, end: int, question: str, breaks: Set[int]) -> bool:
    """Whether a question follows the end of a context, without another sentence in the context's line."""
    at = text.find(question, end)
    if at < 0:
        return False
    while end < at and text[end] in _CLOSING:
        end += 1
    return end in breaks or _SENTENCE_END.search(text[end:at]) is None


def plain(text: str) -> str:
    """The text with every run of white space replaced by one space."""
    return " ".join(text.split())


def show_options(text: str, options: Sequence[str]) -> tuple[OptionSpan, ...]:
    """Locates the options in a plain text, in order of position; empty unless all are found.

    They have labels only if all labels are found and differ: `(A)` with brackets, else the letter.
    """
    shown = _locate(text, 0, options) or []
    labels = []
    for span in shown:
        match = _label_before(text, span)
        closing = match[3][0] if match else ""
        in_brackets = match and match[1] and closing in ")]）"
        labels.append(match and (f"{match[1]}{match[2]}{closing}" if in_brackets else match[2]))
    if None not in labels and len(set(labels)) == len(labels):
        shown = [replace(span, label=label) for span, label in zip(shown, labels, strict=True)]
    return tuple(shown)


def _has_options(text: str, context_end: int, known: IndexedInstance) -> bool:
    """Whether all options follow the question, or stand between the context and the question."""
    at = text.find(known.question, context_end)
    return any(_locate(text, start, known.options) for start in (at + len(known.question), context_end))


def _locate(text: str, start: int, options: Sequence[str]) -> list[OptionSpan] | None:
    """Locates all options, the longest first, so that none is found inside another; None if one is missing."""
    taken: list[OptionSpan] = []
    for index in sorted(range(len(options)), key=lambda index: -len(options[index])):
        pattern = re.compile(rf"(?<!\w){re.escape(options[index])}(?!\w)", re.IGNORECASE)
        spans = (OptionSpan(index, *match.span()) for match in pattern.finditer(text, start))
        free = [span for span in spans if all(span.end <= other.start or span.start >= other.end for other in taken)]
        if not free:
            return None
        labelled = (span for span in free if _label_before(text, span))
        taken.append(next(labelled, free[0]))
    return sorted(taken, key=lambda span: span.start)


def _label_before(text: str, span: OptionSpan) -> re.Match[str] | None:
    return _LABEL.search(text[max(0, span.start - _LABEL_REACH) : span.start])
