"""Recognises a benchmark's questions inside any prompt, whoever wrote the words around them.

    "…some other harness' words… {context} …words… {question} …words… (A) {option} (B) {option} (C) {option}"

The last context of the benchmark in the prompt is the one in question: few-shot examples come before it. The question
and the three options must follow; their positions give the option order, the text before each its label. White space
is compared as one blank. A prompt with other changes (a rewritten option, no context) is not recognised by its text.

An ambiguous context is how a disambiguated one begins. So that a disambiguated question with one word changed is not
taken for the ambiguous one, a context must end where ours does: its line ends there, or no sentence stands between it
and the question.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, replace
from itertools import accumulate, islice

from mbbq_gen.core.records import Instance

_ANCHOR = 16
"""How many characters of a context are looked up at the start of every word."""
_MOST_CONTEXTS = 64
"""How many contexts are looked at in one text, from its end: a text of a megabyte may be made of nothing else."""
_WORD_START = re.compile(r"(?<!\w)\w|[^\w\s]")
_LABEL = re.compile(r"(?:([(\[（])\s*)?(?<!\w)([^\W_]{1,2})\s*([)\]）.:：、．]+)\s*[*_`\"']*\s*$")
_BEFORE = 12
"""How many characters before an option may be its label."""
_SENTENCE_END = re.compile(r"[.!?。！？؟।۔](?:\W|$)")
_CLOSING = "\"'”’»」』)]*_`"


@dataclass(frozen=True, slots=True)
class IndexedInstance:
    """One question, as small as it can be kept."""

    key: str
    """`Instance.key`."""
    question: str
    options: tuple[str, ...]
    """In the instance's order."""
    record: str
    """The instance as JSON."""

    @property
    def instance(self) -> Instance:
        """The instance, read anew."""
        return Instance.model_validate_json(self.record)


@dataclass(frozen=True, slots=True)
class OptionSpan:
    """Where one option stands in a prompt, and under which label."""

    index: int
    """In the instance's options."""
    start: int
    end: int
    label: str | None = None


class QuestionIndex:
    """The questions of benchmarks, to be found by their texts."""

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
        """The questions that a text asks about its last known context, options and all; else whatever its options are.

        Several, where the benchmark has them more than once or the options of one are part of those of another.
        """
        lines = [line for line in map(plain, text.split("\n")) if line]
        whole, without_options = " ".join(lines), list[IndexedInstance]()
        breaks = set(accumulate((len(line) + 1 for line in lines), initial=-1))
        """Places of the spaces that stand for the end of a line."""
        for context, end in islice(self._contexts(whole), _MOST_CONTEXTS):
            candidates = [known for known in self._by_context[context] if _goes_on(whole, end, known.question, breaks)]
            without_options = without_options or candidates
            if found := [known for known in candidates if _has_options(whole, end, known)]:
                return found
        return without_options

    def _contexts(self, text: str) -> Iterator[tuple[str, int]]:
        """The contexts in a text, each with its end: the last one first, at the same place the longest one first."""
        for match in reversed(list(_WORD_START.finditer(text))):
            start = match.start()
            for length in self._lengths.get(text[start : start + _ANCHOR], ()):
                if text[start : start + length] in self._by_context:
                    yield text[start : start + length], start + length


def _goes_on(text: str, end: int, question: str, breaks: Set[int]) -> bool:
    """Whether a question follows a context's end, with no sentence between them in the context's line."""
    at = text.find(question, end)
    if at < 0:
        return False
    while end < at and text[end] in _CLOSING:
        end += 1
    return end in breaks or _SENTENCE_END.search(text[end:at]) is None


def plain(text: str) -> str:
    """The text with one blank for any number of them."""
    return " ".join(text.split())


def show_options(text: str, options: Sequence[str]) -> tuple[OptionSpan, ...]:
    """The options as they stand in a plain text, in order, with their labels; none unless all stand there.

    No label where some have none, or two the same. A label is `(A)` in brackets, else the letter.
    """
    shown = _locate(text, 0, options) or []
    labels = []
    for place in shown:
        match = _label_before(text, place)
        closing = match[3][0] if match else ""
        in_brackets = match and match[1] and closing in ")]）"
        labels.append(match and (f"{match[1]}{match[2]}{closing}" if in_brackets else match[2]))
    if None not in labels and len(set(labels)) == len(labels):
        shown = [replace(place, label=label) for place, label in zip(shown, labels, strict=True)]
    return tuple(shown)


def _has_options(text: str, context_end: int, known: IndexedInstance) -> bool:
    """Whether all options stand after the question, or else after the context, which the question follows."""
    at = text.find(known.question, context_end)
    return any(_locate(text, start, known.options) for start in (at + len(known.question), context_end))


def _locate(text: str, start: int, options: Sequence[str]) -> list[OptionSpan] | None:
    """Where each option stands: the longest first, so that none is found inside another."""
    taken: list[OptionSpan] = []
    for index in sorted(range(len(options)), key=lambda index: -len(options[index])):
        pattern = re.compile(rf"(?<!\w){re.escape(options[index])}(?!\w)", re.IGNORECASE)
        places = (OptionSpan(index, *match.span()) for match in pattern.finditer(text, start))
        free = [
            place for place in places if all(place.end <= other.start or place.start >= other.end for other in taken)
        ]
        if not free:
            return None
        labelled = (place for place in free if _label_before(text, place))
        taken.append(next(labelled, free[0]))
    return sorted(taken, key=lambda place: place.start)


def _label_before(text: str, place: OptionSpan) -> re.Match[str] | None:
    return _LABEL.search(text[max(0, place.start - _BEFORE) : place.start])
