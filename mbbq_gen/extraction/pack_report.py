"""How a pack reads labelled responses, with and without each of its classes of words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mbbq_gen.errors import DataError, UsageError
from mbbq_gen.extraction.engine import Extractor, load_extractor, read_grammar
from mbbq_gen.extraction.jsonl import ResponseRow, read_row, response_row
from mbbq_gen.extraction.lexicon import words_of
from mbbq_gen.extraction.lint import PARTS, without
from mbbq_gen.extraction.pack import Grammar
from mbbq_gen.records import Record
from mbbq_gen.resources import Resources

Verdict = Literal["right", "wrong", "missed", "invented"]
GOLD = "gold_option"
"""Field of a line with the option that a careful reader sees in the response; null: none."""


@dataclass(frozen=True)
class LabelledResponse:
    """A response and the option that a careful reader sees in it."""

    row: ResponseRow
    gold: int | None

    def verdict(self, option: int | None) -> Verdict:
        """How a reading compares: right, another option, none where there is one, or one where there is none."""
        if option == self.gold:
            return "right"
        if self.gold is None:
            return "invented"
        return "missed" if option is None else "wrong"


class ConfidenceShare(Record):
    """The readings of one confidence."""

    readings: int
    right: int


class ClassGain(Record):
    """What one class of words does for the labelled responses."""

    name: str
    """Table and class, as `words.neg`."""
    entries: int
    """Words and rows of words in it."""
    needed: int
    """Responses that are read right with it and not without it."""
    harmed: int
    """Responses that are read right without it and not with it."""


class PackReport(Record):
    """How a pack reads labelled responses."""

    language: str
    responses: int
    right: int
    wrong: int
    """Another option than the right one."""
    missed: int
    """No option where there is one."""
    invented: int
    """An option where there is none."""
    by_confidence: dict[str, ConfidenceShare]
    classes: tuple[ClassGain, ...]
    """The most needed first."""


def labelled_responses(lines: Iterable[str], source_name: str, language: str) -> Iterator[LabelledResponse]:
    """The labelled responses of a language in JSON Lines: the fields of `extract --jsonl`, and `gold_option`.

    Raises:
        DataError: where a line is wrong: source, row, field, what to do.
    """
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{source_name}:{number}"
        row = read_row(line, where)
        found = response_row(row, where)
        if found.language == language:
            yield LabelledResponse(found, _gold(row, len(found.question.options), where))


def _gold(row: dict[str, Any], options: int, where: str) -> int | None:
    if GOLD not in row:
        raise DataError(f"{where}: {GOLD}: missing; write the right option's index, or null where none is chosen")
    value = row[GOLD]
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < options:
        raise DataError(
            f"{where}: {GOLD}: {value!r} is no index into {options} options; null means that none is chosen"
        )
    return value


def own_examples(language: str, resources: Resources) -> list[LabelledResponse]:
    """The examples of a pack as labelled responses."""
    return [
        LabelledResponse(
            ResponseRow(language, example.response, example.asked, None),
            example.unknown_index if example.outcome in {"unknown_statement", "refusal"} else example.option,
        )
        for example in read_grammar(language, resources).example
    ]


def report_pack(
    language: str,
    responses: Sequence[LabelledResponse],
    resources: Resources,
    *,
    with_classes: bool = True,
    on_class: Callable[[str], object] = lambda _: None,
) -> PackReport:
    """Reads labelled responses with a language's pack, and again without each of its classes.

    Args:
        language: Which pack.
        responses: Labelled responses in that language.
        resources: Where packs are looked for.
        with_classes: Whether to try the pack without each class.
        on_class: Called with the name of each class before it is left out.

    Raises:
        UsageError: where there are no responses.
    """
    if not responses:
        raise UsageError(f"{language}: no labelled response; give a file with lines in this language")
    grammar, extractor = read_grammar(language, resources), load_extractor(language, resources)
    verdicts: Counter[Verdict] = Counter()
    shares: dict[str, Counter[bool]] = {}
    right = []
    for labelled in responses:
        found = labelled.row.read(extractor)
        verdict = labelled.verdict(found.option)
        verdicts[verdict] += 1
        shares.setdefault(found.confidence, Counter())[verdict == "right"] += 1
        right.append(verdict == "right")
    classes = []
    for name in class_names(grammar) if with_classes else ():
        on_class(name)
        classes.append(_gain(name, grammar, extractor, responses, right))
    return PackReport(
        language=language,
        responses=len(responses),
        right=verdicts["right"],
        wrong=verdicts["wrong"],
        missed=verdicts["missed"],
        invented=verdicts["invented"],
        by_confidence={
            name: ConfidenceShare(readings=shares[name].total(), right=shares[name][True])
            for name in ("high", "medium", "low")
            if name in shares
        },
        classes=tuple(sorted(classes, key=lambda gain: (gain.harmed - gain.needed, -gain.needed, gain.name))),
    )


def class_names(grammar: Grammar) -> list[str]:
    """The lists of words that a pack fills, as `words.neg`."""
    return [
        f"{table}.{name}" for table, names in PARTS.items() for name in names if getattr(getattr(grammar, table), name)
    ]


def _gain(
    name: str, grammar: Grammar, extractor: Extractor, responses: Sequence[LabelledResponse], right: Sequence[bool]
) -> ClassGain:
    """What one class does."""
    less = without(grammar, name)
    assert less is not None, name
    reader = extractor.with_grammar(less)
    needed = harmed = 0
    for labelled, was_right in zip(responses, right, strict=True):
        is_right = labelled.verdict(labelled.row.read(reader).option) == "right"
        needed += was_right and not is_right
        harmed += is_right and not was_right
    table, _, part = name.partition(".")
    entries = sum(1 for _ in words_of(getattr(getattr(grammar, table), part)))
    return ClassGain(name=name, entries=entries, needed=needed, harmed=harmed)
