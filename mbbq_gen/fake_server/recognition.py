"""Recognises a benchmark's questions inside any prompt, whoever wrote the words around them.

    "…some other harness' words… {context} …words… {question} …words… (A) {option} (B) {option} (C) {option}"

The last context in the prompt that belongs to the benchmark is the one that is asked about: examples stand before it.
The question and the three options must follow it; where they stand tells the order, what stands before each its label.
Blanks are compared as one blank. What a prompt changes beyond that (an option worded anew, the context left out) is
not recognised.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from mbbq_gen.fake_server.asked import Turn
from mbbq_gen.records import Instance, Message, Presentation, Request

_ANCHOR = 16
"""How many characters of a context are looked up at the start of every word."""
_WORD_START = re.compile(r"(?<!\w)\w|[^\w\s]")
_LABEL = re.compile(r"(?:([(\[（])\s*)?(?<!\w)([^\W_]{1,2})\s*([)\]）.:：、．]+)\s*[*_`\"']*\s*$")


@dataclass(frozen=True, slots=True)
class _Known:
    """One question, as small as it can be kept."""

    question: str
    options: tuple[str, ...]
    record: str
    """The instance as JSON."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """Where one option stands in a prompt, and under which label."""

    index: int
    start: int
    end: int
    label: str | None = None


class BenchmarkQuestions:
    """The questions of benchmarks."""

    def __init__(self, instances: Iterable[Instance]) -> None:
        self._by_context: dict[str, list[_Known]] = defaultdict(list)
        for instance in instances:
            options = tuple(_plain(option.text) for option in instance.options)
            known = _Known(_plain(instance.question), options, instance.model_dump_json())
            self._by_context[_plain(instance.context)].append(known)
        lengths: dict[str, set[int]] = defaultdict(set)
        for context in self._by_context:
            lengths[context[:_ANCHOR]].add(len(context))
        self._lengths = {anchor: sorted(found, reverse=True) for anchor, found in lengths.items()}

    def __len__(self) -> int:
        return sum(map(len, self._by_context.values()))

    def find(self, turns: Sequence[Turn], digest: str) -> Request | None:
        """The question that the last message asks, or else the whole conversation."""
        last = _plain(turns[-1].text)
        found = self._recognise(last, digest)
        if found is None and len(turns) > 1:
            found = self._recognise(_plain("\n".join(turn.text for turn in turns)), digest)
        return found

    def close(self) -> None:
        """Nothing to free."""

    def _recognise(self, text: str, digest: str) -> Request | None:
        for context, end in self._contexts(text):
            for known in self._by_context[context]:
                shown = _shown_options(text, end, known)
                if shown is not None:
                    return _request(known, shown, text, digest)
        return None

    def _contexts(self, text: str) -> Iterator[tuple[str, int]]:
        """The contexts that stand in a text, each with its end: the last one first, and the longest first of those
        that begin at the same place."""
        for match in reversed(list(_WORD_START.finditer(text))):
            start = match.start()
            for length in self._lengths.get(text[start : start + _ANCHOR], ()):
                if text[start : start + length] in self._by_context:
                    yield text[start : start + length], start + length


def _plain(text: str) -> str:
    """The text with one blank for any number of them."""
    return " ".join(text.split())


def _shown_options(text: str, context_end: int, known: _Known) -> list[_Shown] | None:
    """The three options in the order in which they stand after the context; None where the question is another one."""
    at = text.find(known.question, context_end)
    if at < 0:
        return None
    for start in (at + len(known.question), context_end):
        shown = _locate(text, start, known.options)
        if shown is not None:
            return _with_labels(text, shown, start)
    return None


def _locate(text: str, start: int, options: Sequence[str]) -> list[_Shown] | None:
    """Where each option stands: the longest first, so that none is found inside another."""
    taken: list[_Shown] = []
    for index in sorted(range(len(options)), key=lambda index: -len(options[index])):
        places = [
            _Shown(index, *match.span())
            for match in re.finditer(rf"(?<!\w){re.escape(options[index])}(?!\w)", text[start:], re.IGNORECASE)
        ]
        free = [
            place for place in places if all(place.end <= other.start or place.start >= other.end for other in taken)
        ]
        if not free:
            return None
        labelled = (place for place in free if _LABEL.search(text[start:][: place.start][-12:]))
        taken.append(next(labelled, free[0]))
    return sorted(taken, key=lambda place: place.start)


def _with_labels(text: str, shown: list[_Shown], start: int) -> list[_Shown]:
    """The same, each with the label that stands before it; none has one unless all have different ones."""
    labels = []
    for place in shown:
        match = _LABEL.search(text[start:][: place.start][-12:])
        labels.append(match and _label(match))
    if None in labels or len(set(labels)) < len(labels):
        return shown
    return [_Shown(place.index, place.start, place.end, label) for place, label in zip(shown, labels, strict=True)]


def _label(match: re.Match[str]) -> str:
    """`(A)` where it stands in brackets, else the bare letter or number."""
    closing = match[3][0]
    return f"{match[1]}{match[2]}{closing}" if match[1] and closing in ")]）" else match[2]


def _request(known: _Known, shown: Sequence[_Shown], text: str, digest: str) -> Request:
    """The question as this prompt shows it; where there are no labels, the options' texts stand for them."""
    instance = Instance.model_validate_json(known.record)
    message = Message(role="user", content=text)
    presentation = Presentation(
        presentation_id=digest[:20],
        instance_key=instance.key,
        language=instance.language,
        variant="recognised",
        label_style="recognised",
        order=tuple(place.index for place in shown),
        labels=tuple(place.label or instance.options[place.index].text for place in shown),
        messages=(message,),
    )
    return Request(request_key=digest, messages=(message,), presentation=presentation, instance=instance)
