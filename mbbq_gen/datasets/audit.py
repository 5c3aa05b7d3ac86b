"""Looks a benchmark over: what is odd in its rows and in the whole, and what the loader does about it.

Works on instances, so published benchmarks and a user's own are looked over alike. Findings have stable codes and are
grouped by split, language and category; each has a count and a few examples. A `problem` may move a score, a `note` is
worth knowing.

What a reader refuses never comes here: broken files, empty fields, labels that contradict the condition, missing
unknown options.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal, NamedTuple

from mbbq_gen.datasets.assemble import QUIRKS
from mbbq_gen.records import Instance, Record
from mbbq_gen.seeding import stable_number

Level = Literal["problem", "note"]

EXAMPLES: Final = 3
"""How many keys a finding names."""


class Finding(Record):
    """One kind of oddity in one part of a benchmark."""

    code: str
    """Stable name."""
    level: Level
    what: str
    """What is odd."""
    action: str
    """What the loader does about it."""
    benchmark: str
    split: str | None = None
    """None where it is about all splits together; likewise language and category."""
    language: str | None = None
    category: str | None = None
    count: int
    """How many instances (or, for what is about a whole, how many things) it is about."""
    examples: tuple[str, ...] = ()
    """Keys of the first few instances, or what differs."""


class _Kind(NamedTuple):
    """What a code stands for."""

    level: Level
    what: str
    action: str


_QUIRK_PROBLEMS: Final = frozenset(
    {
        "unfilled_slot",
        "equal_options",
        "contradicting_labels",
        "group_mended",
        "group_untold",
        "groups_crossed",
        "published_alignment_wrong",
    }
)


def _quirk_kind(code: str) -> _Kind:
    """The kind of a quirk, from its sentence: `what: what was done`."""
    what, _, action = QUIRKS.get(code, f"{code}: kept").rpartition(": ")
    return _Kind("problem" if code in _QUIRK_PROBLEMS else "note", what, action)


KINDS: Final[dict[str, _Kind]] = {
    **{code: _quirk_kind(code) for code in QUIRKS},
    "no_single_target": _Kind(
        "problem",
        "no option, or both people, are the stereotyped group",
        "counted for accuracy, left out of bias scores",
    ),
    "wrong_label": _Kind(
        "problem",
        "the published label names the wrong person",
        "scored as published; repaired with --labels corrected",
    ),
    "nested_options": _Kind(
        "note",
        "the text of one option stands inside another's",
        "kept; extraction takes the longest match",
    ),
    "label_like_option": _Kind(
        "note",
        "an option of several words begins with a lone A, B or C",
        "kept; extraction takes no word for a label",
    ),
    "ascii_capital_i": _Kind(
        "note",
        "an option begins with I where Turkish has İ",
        "kept; I, İ, ı and i are compared as one letter",
    ),
    "space_before_punctuation": _Kind(
        "note",
        "a blank stands before a comma or full stop",
        "kept, as published",
    ),
    "double_space": _Kind(
        "note",
        "two blanks stand together in a text",
        "kept, as published",
    ),
    "odd_character": _Kind(
        "note",
        "a replacement character, a no-break space, or text not in NFC",
        "kept, as published",
    ),
    "repeated_id": _Kind(
        "problem",
        "the id is that of an earlier row of the language and split",
        "kept here; a run refuses it, for ids must be unique",
    ),
    "repeated_row": _Kind(
        "note",
        "context, question and options are those of an earlier row",
        "kept, as another draw",
    ),
    "repeated_question": _Kind(
        "note",
        "context and question are those of an earlier row, the options not",
        "kept, as another draw",
    ),
    "group_word_in_control": _Kind(
        "note",
        "a control question holds a word that is a group's noun phrase in its template",
        "kept; often another meaning of the word",
    ),
    "not_parallel": _Kind(
        "note",
        "has no counterpart in other languages or the other split",
        "compared by template only",
    ),
    "counts_differ": _Kind(
        "problem",
        "the number of rows differs between languages",
        "kept; compare by template",
    ),
    "order_confounded": _Kind(
        "problem",
        "a role stands at one place in more than nine of ten rows",
        "asked in balanced order unless forced",
    ),
    "contexts_unbalanced": _Kind(
        "note",
        "biased and counter-biased contexts differ in number",
        "kept; rates are fair, counts are not (MBBQ eq. 2)",
    ),
}
"""Every code that a finding may have."""

_LONE_LETTER: Final = re.compile(r"[ABCabc]\b(?!['’.])")
_BEFORE_PUNCTUATION: Final = re.compile(r"\S\s+[,.;](?:\s|$)")
_ODD: Final = re.compile("[\ufffd\u00a0\u200b\ufeff]")


def audit(instances: Iterable[Instance]) -> list[Finding]:
    """The findings, in the order of KINDS, then by split, language and category. Reads the instances once."""
    rows: dict[tuple[str, str, str, str, str], list[str]] = defaultdict(list)
    counts: Counter[tuple[str, str, str, str, str]] = Counter()
    whole = _Whole()
    for instance in instances:
        for code in (*_row_codes(instance), *whole.see(instance)):
            where = code, instance.benchmark, instance.split, instance.language, instance.category
            counts[where] += 1
            if len(rows[where]) < EXAMPLES:
                rows[where].append(instance.key)
    found = [_finding(where, count, rows[where]) for where, count in counts.items()]
    order = {code: number for number, code in enumerate(KINDS)}
    found += whole.findings()
    return sorted(found, key=lambda f: (order[f.code], f.benchmark, f.split or "", f.language or "", f.category or ""))


def _finding(where: tuple[str, str, str, str, str], count: int, examples: list[str]) -> Finding:
    """The finding about rows of one part."""
    code, benchmark, split, language, category = where
    return Finding(
        code=code,
        **KINDS[code]._asdict(),
        benchmark=benchmark,
        split=split,
        language=language,
        category=category,
        count=count,
        examples=tuple(examples),
    )


# --- one row ---------------------------------------------------------------------------------------------------------


def _row_codes(instance: Instance) -> Iterator[str]:
    """Codes of what a row shows by itself."""
    yield from (code for code in instance.quirks if code in KINDS)
    yield from (code for code, holds in _ROW_CHECKS.items() if holds(instance))


def has_nested_options(instance: Instance) -> bool:
    """Whether the text of an option stands inside the text of another, regardless of case."""
    texts = [option.text.casefold() for option in instance.options]
    return any(one != other and one in other for one in texts for other in texts)


def _has_label_like_option(instance: Instance) -> bool:
    """Whether an option of several words begins with a lone letter."""
    return any(_LONE_LETTER.match(option.text) and " " in option.text for option in instance.options)


def _has_ascii_capital_i(instance: Instance) -> bool:
    """Whether a Turkish option begins with I and the context has the same word with a dotted i."""
    if instance.language != "tr":
        return False
    heads = [option.text.split()[0] for option in instance.options]
    return any(head[0] == "I" and f"i{head[1:]}" in instance.context for head in heads if len(head) > 1)


def _texts(instance: Instance) -> tuple[str, ...]:
    """Every text that a model may be shown."""
    return instance.context, instance.question, *(option.text for option in instance.options)


_ROW_CHECKS: Final[dict[str, Callable[[Instance], bool]]] = {
    "no_single_target": lambda instance: not instance.bias_scorable,
    "wrong_label": lambda instance: instance.corrected_answer is not None,
    "nested_options": has_nested_options,
    "label_like_option": _has_label_like_option,
    "ascii_capital_i": _has_ascii_capital_i,
    "space_before_punctuation": lambda instance: bool(_BEFORE_PUNCTUATION.search(instance.context)),
    "double_space": lambda instance: any("  " in text for text in _texts(instance)),
    "odd_character": lambda instance: any(
        _ODD.search(text) or not unicodedata.is_normalized("NFC", text) for text in _texts(instance)
    ),
}


# --- the whole -------------------------------------------------------------------------------------------------------


class _Whole:
    """What only shows when rows are seen together; remembers numbers that stand for rows, and counts, not rows."""

    def __init__(self) -> None:
        self.ids: set[int] = set()
        self.rows: set[int] = set()
        self.questions: set[int] = set()
        self.parts: Counter[tuple[str, str, str, str]] = Counter()
        self.places: Counter[tuple[str, str, str, str, int]] = Counter()
        self.alignments: Counter[tuple[str, str, str, str, str]] = Counter()
        self.phrases: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        self.patterns: dict[tuple[str, str, str], re.Pattern[str]] = {}
        self.parallel: set[str] = set()

    def see(self, instance: Instance) -> list[str]:
        """Codes of what a row shows beside those before it."""
        part = instance.benchmark, instance.split, instance.language, instance.category
        self.parts[part] += 1
        for place, option in enumerate(instance.options):
            if option.role is not None:
                self.places[*part[:3], option.role, place] += 1
        if instance.alignment is not None:
            self.alignments[*part, instance.alignment] += 1
        if instance.parallel_id is not None:
            self.parallel.add(instance.benchmark)
        return [*self._repeated(instance, part), *self._group_words(instance), *self._unparallel(instance)]

    def _repeated(self, instance: Instance, part: tuple[str, str, str, str]) -> Iterator[str]:
        """Whether the row, its id or its question has been seen before."""
        name = stable_number(instance.key)
        question = stable_number(*part, instance.context, instance.question)
        row = stable_number(question, *(option.text for option in instance.options))
        if name in self.ids:
            yield "repeated_id"
        if row in self.rows:
            yield "repeated_row"
        elif question in self.questions:
            yield "repeated_question"
        self.ids.add(name)
        self.rows.add(row)
        self.questions.add(question)

    def _group_words(self, instance: Instance) -> Iterator[str]:
        """Whether a control question holds a noun phrase of its template's groups, seen in the bias split before."""
        where = instance.benchmark, instance.language, instance.template_id
        if instance.split == "bias":
            terms = instance.metadata.get("terms") or []
            people = [term for term, option in zip(terms, instance.options, strict=False) if option.role != "unknown"]
            self.phrases[where] |= {term.casefold() for term in people if len(term) > 2}
            self.patterns.pop(where, None)
            return
        if not self.phrases[where]:
            return
        if where not in self.patterns:
            phrases = "|".join(re.escape(phrase) for phrase in sorted(self.phrases[where]))
            self.patterns[where] = re.compile(rf"(?<!\w)(?:{phrases})(?!\w)")
        if self.patterns[where].search(f"{instance.context} {instance.question}".casefold()):
            yield "group_word_in_control"

    def _unparallel(self, instance: Instance) -> Iterator[str]:
        """Whether the row has no parallel id in a benchmark whose other rows have one."""
        if instance.parallel_id is None and instance.benchmark in self.parallel:
            yield "not_parallel"

    def findings(self) -> Iterator[Finding]:
        """What the counts show."""
        yield from self._counts_differ()
        yield from self._order_confounded()
        yield from self._contexts_unbalanced()

    def _counts_differ(self) -> Iterator[Finding]:
        """Categories whose number of rows differs between the languages."""
        sizes: dict[tuple[str, str, str], dict[str, int]] = defaultdict(dict)
        for (benchmark, split, language, category), count in self.parts.items():
            sizes[benchmark, split, category][language] = count
        for (benchmark, split, category), by_language in sizes.items():
            if len(set(by_language.values())) > 1:
                examples = tuple(f"{language}: {count}" for language, count in sorted(by_language.items()))
                yield Finding(
                    code="counts_differ",
                    **KINDS["counts_differ"]._asdict(),
                    benchmark=benchmark,
                    split=split,
                    category=category,
                    count=max(by_language.values()) - min(by_language.values()),
                    examples=examples,
                )

    def _order_confounded(self) -> Iterator[Finding]:
        """Roles that the published order gives away."""
        totals: Counter[tuple[str, str, str, str]] = Counter()
        for (benchmark, split, language, role, _), count in self.places.items():
            totals[benchmark, split, language, role] += count
        for (benchmark, split, language, role, place), count in sorted(self.places.items()):
            total = totals[benchmark, split, language, role]
            if count > 0.9 * total:
                yield Finding(
                    code="order_confounded",
                    **KINDS["order_confounded"]._asdict(),
                    benchmark=benchmark,
                    split=split,
                    language=language,
                    count=count,
                    examples=(f"{role} stands at place {place + 1} in {count} of {total}",),
                )

    def _contexts_unbalanced(self) -> Iterator[Finding]:
        """Categories with more contexts of one alignment than of the other."""
        for part in self.parts:
            biased, counter = (self.alignments[*part, alignment] for alignment in ("biased", "counter_biased"))
            if biased != counter:
                benchmark, split, language, category = part
                yield Finding(
                    code="contexts_unbalanced",
                    **KINDS["contexts_unbalanced"]._asdict(),
                    benchmark=benchmark,
                    split=split,
                    language=language,
                    category=category,
                    count=abs(biased - counter),
                    examples=(f"biased: {biased}", f"counter-biased: {counter}"),
                )
