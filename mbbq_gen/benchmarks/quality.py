"""Finds data issues in a benchmark, and counts its instances beside the numbers of its paper.

Issues have stable codes and are grouped by split, language and category, each with a count and a few examples. A
`problem` may change a score. Rows that a reader refuses (broken files, empty fields, labels that contradict the
condition) are not here.
"""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any, Final, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict

from mbbq_gen.core.files import stable_number
from mbbq_gen.core.records import FrozenModel, Instance

Level = Literal["problem", "note"]

EXAMPLES: Final = 3


class DataIssue(FrozenModel):
    """One kind of issue in one part of a benchmark."""

    code: str
    level: Level
    what: str
    action: str
    """The loader's treatment of it."""
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
    level: Level
    what: str
    action: str
    loader: bool = False


_TABLE = files("mbbq_gen.benchmarks").joinpath("data_issues.toml").read_text(encoding="utf-8")
KINDS: Final = {code: _Kind(**table) for code, table in tomllib.loads(_TABLE).items()}
"""Every code that an issue may have → its level, text and action, from `data_issues.toml`."""
_LONE_LETTER: Final = re.compile(r"[ABCabc]\b(?!['’.])")
_BEFORE_PUNCTUATION: Final = re.compile(r"\S\s+[,.;](?:\s|$)")
_ODD: Final = re.compile("[\ufffd\u00a0\u200b\ufeff]")


def validate(instances: Iterable[Instance]) -> list[DataIssue]:
    """The issues, in the order of KINDS, then by benchmark, split, language and category. Reads the instances once."""
    keys: dict[tuple[str, ...], list[str]] = defaultdict(list)
    counts: Counter[tuple[str, ...]] = Counter()
    whole = _Whole()
    for instance in instances:
        codes = [code for code in instance.data_issues if code in KINDS]
        for code in (*codes, *_row_codes(instance), *whole.codes(instance)):
            where = code, instance.benchmark, instance.split, instance.language, instance.category
            counts[where] += 1
            if len(keys[where]) < EXAMPLES:
                keys[where].append(instance.key)
    found = [_issue(code, count, keys[code, *part], part) for (code, *part), count in counts.items()]
    order = list(KINDS)
    return sorted(
        [*found, *whole.issues()],
        key=lambda f: (order.index(f.code), f.benchmark, f.split or "", f.language or "", f.category or ""),
    )


def _issue(code: str, count: int, examples: Iterable[str], part: Iterable[str | None]) -> DataIssue:
    kind = KINDS[code]
    about: dict[str, Any] = dict(zip(("benchmark", "split", "language", "category"), part, strict=True))
    about |= {"level": kind.level, "what": kind.what, "action": kind.action}
    return DataIssue(code=code, count=count, examples=tuple(examples), **about)


def _row_codes(instance: Instance) -> list[str]:
    """Codes of the issues of a single row."""
    options = [option.text for option in instance.options]
    texts, low = (instance.context, instance.question, *options), [text.casefold() for text in options]
    heads = [text.split()[0] for text in options] if instance.language == "tr" else []
    dotted = (f"i{head[1:]}" in instance.context for head in heads if head[0] == "I" and len(head) > 1)
    checks = {
        "no_single_target": not instance.has_single_target,
        "mislabeled": instance.corrected_gold_role is not None,
        "nested_options": any(one != other and one in other for one in low for other in low),
        "label_like_option": any(_LONE_LETTER.match(text) and " " in text for text in options),
        "ascii_capital_i": any(dotted),
        "space_before_punctuation": _BEFORE_PUNCTUATION.search(instance.context) is not None,
        "double_space": any("  " in text for text in texts),
        "odd_character": any(_ODD.search(text) or not unicodedata.is_normalized("NFC", text) for text in texts),
    }
    return [code for code, holds in checks.items() if holds]


class _Whole:
    """Issues of several rows together; keeps digests of rows and counts, not rows."""

    def __init__(self) -> None:
        self.seen: dict[str, set[int]] = defaultdict(set)
        self.places: dict[tuple[str, str, str, str], Counter[int]] = defaultdict(Counter)
        self.alignments: dict[tuple[str, str, str, str], Counter[str | None]] = defaultdict(Counter)
        self.phrases: dict[tuple[str, str, str], set[str]] = defaultdict(set)
        self.patterns: dict[tuple[str, str, str], re.Pattern[str]] = {}
        self.parallel: set[str] = set()

    def codes(self, instance: Instance) -> Iterator[str]:
        """Codes of the issues of a row compared with earlier rows."""
        part = instance.benchmark, instance.split, instance.language, instance.category
        for place, option in enumerate(instance.options):
            if option.role is not None:
                self.places[*part[:3], option.role][place] += 1
        self.alignments[part][instance.alignment] += 1
        question = stable_number(*part, instance.context, instance.question)
        marks = {
            "duplicate_id": stable_number(instance.key),
            "duplicate_row": stable_number(question, *(option.text for option in instance.options)),
            "duplicate_question": question,
        }
        twice = [code for code, mark in marks.items() if mark in self.seen[code]]
        for code, mark in marks.items():
            self.seen[code].add(mark)
        yield from (code for code in twice if code != "duplicate_question" or "duplicate_row" not in twice)
        if self._has_group_word(instance):
            yield "group_word_in_control"
        if instance.parallel_id is not None:
            self.parallel.add(instance.benchmark)
        elif instance.benchmark in self.parallel:
            yield "not_parallel"

    def _has_group_word(self, instance: Instance) -> bool:
        """Whether a control question holds a noun phrase of its template's groups, seen in the bias split before."""
        where = instance.benchmark, instance.language, instance.template_id
        if instance.split == "bias":
            terms = instance.metadata.get("terms") or []
            people = [term for term, option in zip(terms, instance.options, strict=False) if option.role != "unknown"]
            self.phrases[where] |= {term.casefold() for term in people if len(term) > 2}
            self.patterns.pop(where, None)
            return False
        if not self.phrases[where]:
            return False
        if where not in self.patterns:
            phrases = "|".join(re.escape(phrase) for phrase in sorted(self.phrases[where]))
            self.patterns[where] = re.compile(rf"(?<!\w)(?:{phrases})(?!\w)")
        return self.patterns[where].search(f"{instance.context} {instance.question}".casefold()) is not None

    def issues(self) -> Iterator[DataIssue]:
        """Issues in the counts: they differ between languages, order gives roles away, alignments differ in number."""
        sizes: dict[tuple[str, str, str], dict[str, int]] = defaultdict(dict)
        for (benchmark, split, language, category), alignments in self.alignments.items():
            sizes[benchmark, split, category][language] = alignments.total()
        for (benchmark, split, category), by_language in sizes.items():
            difference = max(by_language.values()) - min(by_language.values())
            if difference:
                examples = [f"{language}: {count}" for language, count in sorted(by_language.items())]
                yield _issue("counts_differ", difference, examples, (benchmark, split, None, category))
        for (benchmark, split, language, role), counts in sorted(self.places.items()):
            total, (place, count) = counts.total(), counts.most_common(1)[0]
            if count > 0.9 * total:
                example = f"{role} stands at place {place + 1} in {count} of {total}"
                yield _issue("order_confounded", count, [example], (benchmark, split, language, None))
        for where, alignments in self.alignments.items():
            biased, counter = alignments["biased"], alignments["counter_biased"]
            if biased != counter:
                examples = [f"biased: {biased}", f"counter-biased: {counter}"]
                yield _issue("contexts_unbalanced", abs(biased - counter), examples, where)


class CategoryCount(FrozenModel):
    """How many rows of each kind a category has in a language and split."""

    benchmark: str
    language: str
    split: str
    category: str
    """Slug; `all` for the sum of a language and split."""
    rows: int
    templates: int
    ambiguous: int
    disambiguated: int
    negative: int
    non_negative: int
    biased: int
    counter_biased: int
    unscorable: int
    """Rows without a single target: they count for accuracy alone."""
    wrong_labels: int
    """Rows whose published label is known to be wrong."""
    published_rows: int | None = None
    """Rows of the category in a language and split as the paper has them; None where it does not say."""
    note: str | None = None
    """Why the files hold another number than the paper."""

    @property
    def agrees(self) -> bool | None:
        """Whether the count is the paper's; None where it does not say."""
        return None if self.published_rows is None else self.rows == self.published_rows


_COUNTED: Final = [
    name for name, field in CategoryCount.model_fields.items() if field.annotation is int and name != "templates"
]


class _Published(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    source: str
    total: int | None = None
    rows: dict[str, int] = {}
    notes: dict[str, str] = {}


@cache
def published_counts() -> dict[str, _Published]:
    """Benchmark → what its paper says."""
    text = files("mbbq_gen.benchmarks").joinpath("published_counts.toml").read_text(encoding="utf-8")
    return {name: _Published.model_validate(table) for name, table in tomllib.loads(text).items()}


def count_instances(instances: Iterable[Instance]) -> list[CategoryCount]:
    """The counts by benchmark, language, split and category, in order of appearance; after each split its sum."""
    counts: dict[tuple[str, ...], dict[str, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    templates: dict[tuple[str, ...], set[str]] = defaultdict(set)
    for instance in instances:
        part: tuple[str, ...] = (instance.benchmark, instance.language, instance.split)
        kinds = ["rows", instance.condition, instance.polarity, instance.alignment or ""]
        kinds += ["unscorable"] * (not instance.has_single_target)
        kinds += ["wrong_labels"] * (instance.corrected_gold_role is not None)
        counts[part][instance.category].update(kinds)
        templates[*part, instance.category].add(instance.template_id)
    found = []
    for part, by_category in counts.items():
        published = published_counts().get(part[0], _Published(source=""))
        expected, notes = {**published.rows, "all": published.total}, dict(published.notes)
        if missing := sorted(set(published.rows) - set(by_category)):
            notes["all"] = f"not in this copy: {', '.join(missing)}"
        sizes = {category: len(templates[*part, category]) for category in by_category}
        sizes["all"] = sum(sizes.values())
        for category, count in {**by_category, "all": sum(by_category.values(), Counter[str]())}.items():
            published_rows = expected.get(category)
            found.append(
                CategoryCount(
                    benchmark=part[0],
                    language=part[1],
                    split=part[2],
                    category=category,
                    templates=sizes[category],
                    published_rows=published_rows,
                    note=notes.get(category) if published_rows not in (None, count["rows"]) else None,
                    **{field: count[field] for field in _COUNTED},
                )
            )
    return found
