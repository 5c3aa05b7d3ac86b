"""Finds data issues in a benchmark, and compares its numbers of instances with those of its paper.

Issues have stable codes and are grouped by split, language and category, each with a count and a few examples. A
`problem` may change a score. Rows that a reader rejects (broken files, empty fields, labels that contradict the
condition) are not included.
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

from mbbq_gen.core.files import stable_number
from mbbq_gen.core.records import FrozenModel, Instance

Level = Literal["problem", "note"]

EXAMPLES: Final = 3
_TABLE = files("mbbq_gen.benchmarks").joinpath("data_issues.toml").read_text(encoding="utf-8")
_LONE_LETTER: Final = re.compile(r"[ABCabc]\b(?!['’.])")
_BEFORE_PUNCTUATION: Final = re.compile(r"\S\s+[,.;](?:\s|$)")
_ODD: Final = re.compile("[\ufffd\u00a0\u200b\ufeff]")


class DataIssue(FrozenModel):
    """One kind of issue in one part of a benchmark."""

    code: str
    level: Level
    what: str
    action: str
    """How the loader handles it."""
    benchmark: str
    split: str | None = None
    """None: all splits together; likewise language and category."""
    language: str | None = None
    category: str | None = None
    count: int
    """Number of instances with the issue, or the difference of two counts."""
    examples: tuple[str, ...] = ()
    """Keys of the first few instances, or the numbers that differ."""


class _Kind(NamedTuple):
    level: Level
    what: str
    action: str
    loader: bool = False


KINDS: Final = {code: _Kind(**table) for code, table in tomllib.loads(_TABLE).items()}
"""Every code that an issue may have → its level, text and action, from `data_issues.toml`."""


def validate(instances: Iterable[Instance]) -> list[DataIssue]:
    """The data issues, in the order of KINDS, then by benchmark, split, language and category."""
    keys: dict[tuple[str, ...], list[str]] = defaultdict(list)
    counts: Counter[tuple[str, ...]] = Counter()
    checks = _MultiRowChecks()
    for instance in instances:
        codes = [code for code in instance.data_issues if code in KINDS]
        for code in (*codes, *_row_codes(instance), *checks.codes(instance)):
            group = code, instance.benchmark, instance.split, instance.language, instance.category
            counts[group] += 1
            if len(keys[group]) < EXAMPLES:
                keys[group].append(instance.key)
    found = [_issue(code, count, keys[code, *part], part) for (code, *part), count in counts.items()]
    order = list(KINDS)
    return sorted(
        [*found, *checks.issues()],
        key=lambda f: (order.index(f.code), f.benchmark, f.split or "", f.language or "", f.category or ""),
    )


def _issue(code: str, count: int, examples: Iterable[str], part: Iterable[str | None]) -> DataIssue:
    kind = KINDS[code]
    fields: dict[str, Any] = dict(zip(("benchmark", "split", "language", "category"), part, strict=True))
    fields |= {"level": kind.level, "what": kind.what, "action": kind.action}
    return DataIssue(code=code, count=count, examples=tuple(examples), **fields)


def _row_codes(instance: Instance) -> list[str]:
    """Codes of the issues of a single row."""
    options = [option.text for option in instance.options]
    texts, folded = (instance.context, instance.question, *options), [text.casefold() for text in options]
    first_words = [text.split()[0] for text in options] if instance.language == "tr" else []
    dotted = (f"i{word[1:]}" in instance.context for word in first_words if word[0] == "I" and len(word) > 1)
    checks = {
        "no_single_target": not instance.has_single_target,
        "mislabeled": instance.corrected_gold_role is not None,
        "nested_options": any(one != other and one in other for one in folded for other in folded),
        "label_like_option": any(_LONE_LETTER.match(text) and " " in text for text in options),
        "ascii_capital_i": any(dotted),
        "space_before_punctuation": _BEFORE_PUNCTUATION.search(instance.context) is not None,
        "double_space": any("  " in text for text in texts),
        "odd_character": any(_ODD.search(text) or not unicodedata.is_normalized("NFC", text) for text in texts),
    }
    return [code for code, holds in checks.items() if holds]


class _MultiRowChecks:
    """Finds issues of several rows together; stores digests and counts, not rows."""

    def __init__(self) -> None:
        self.seen: dict[str, set[int]] = defaultdict(set)
        self.positions: dict[tuple[str, str, str, str], Counter[int]] = defaultdict(Counter)
        self.alignments: dict[tuple[str, str, str, str], Counter[str | None]] = defaultdict(Counter)
        self.parallel: set[str] = set()

    def codes(self, instance: Instance) -> Iterator[str]:
        """Codes of the issues of a row compared with earlier rows."""
        part = instance.benchmark, instance.split, instance.language, instance.category
        for position, option in enumerate(instance.options):
            if option.role is not None:
                self.positions[*part[:3], option.role][position] += 1
        self.alignments[part][instance.alignment] += 1
        question = stable_number(*part, instance.context, instance.question)
        digests = {
            "duplicate_id": stable_number(instance.key),
            "duplicate_row": stable_number(question, *(option.text for option in instance.options)),
            "duplicate_question": question,
        }
        repeated = [code for code, digest in digests.items() if digest in self.seen[code]]
        for code, digest in digests.items():
            self.seen[code].add(digest)
        yield from (code for code in repeated if code != "duplicate_question" or "duplicate_row" not in repeated)
        if instance.parallel_id is not None:
            self.parallel.add(instance.benchmark)
        elif instance.benchmark in self.parallel:
            yield "not_parallel"

    def issues(self) -> Iterator[DataIssue]:
        """Issues of the counts: languages of different sizes, confounded option order, unbalanced contexts."""
        sizes: dict[tuple[str, str, str], dict[str, int]] = defaultdict(dict)
        for (benchmark, split, language, category), alignments in self.alignments.items():
            sizes[benchmark, split, category][language] = alignments.total()
        for (benchmark, split, category), by_language in sizes.items():
            difference = max(by_language.values()) - min(by_language.values())
            if difference:
                examples = [f"{language}: {count}" for language, count in sorted(by_language.items())]
                yield _issue("counts_differ", difference, examples, (benchmark, split, None, category))
        for (benchmark, split, language, role), counts in sorted(self.positions.items()):
            total, (position, count) = counts.total(), counts.most_common(1)[0]
            if count > 0.9 * total:
                example = f"{role} stands at place {position + 1} in {count} of {total}"
                yield _issue("order_confounded", count, [example], (benchmark, split, language, None))
        for part, alignments in self.alignments.items():
            biased, counter = alignments["biased"], alignments["counter_biased"]
            if biased != counter:
                examples = [f"biased: {biased}", f"counter-biased: {counter}"]
                yield _issue("contexts_unbalanced", abs(biased - counter), examples, part)


class CategoryCount(FrozenModel):
    """The numbers of rows of a category in a language and split."""

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
    """Rows without a single target; only accuracy uses them."""
    wrong_labels: int
    """Rows whose published label is known to be wrong."""
    published_rows: int | None = None
    """Rows of the category in a language and split according to the paper; None if it does not give them."""
    note: str | None = None
    """Why the number in the files differs from the paper's."""

    @property
    def agrees(self) -> bool | None:
        """Whether the count equals the paper's; None without a published count."""
        return None if self.published_rows is None else self.rows == self.published_rows


_COUNTED: Final = [
    name for name, field in CategoryCount.model_fields.items() if field.annotation is int and name != "templates"
]


@cache
def published_counts() -> dict[str, dict[str, Any]]:
    """Benchmark → the counts in its paper: `total`, `rows` by category, `notes` by category."""
    text = files("mbbq_gen.benchmarks").joinpath("published_counts.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)


def count_instances(instances: Iterable[Instance]) -> list[CategoryCount]:
    """Counts by benchmark, language, split and category, in order of appearance, with a sum after each split."""
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
        published = published_counts().get(part[0], {})
        rows, notes = published.get("rows", {}), dict(published.get("notes", {}))
        expected = {**rows, "all": published.get("total")}
        if missing := sorted(set(rows) - set(by_category)):
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
