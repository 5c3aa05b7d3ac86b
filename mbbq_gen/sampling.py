"""A part of the questions that stays balanced: as many from every template, and of every kind of question.

A kind is condition × polarity × alignment. Half the questions are ambiguous, half disambiguated, whatever the
benchmark's own share, so that both bias scores rest on as many questions. In every round each template gives one
question: of the condition, and then the kind, that it has given least, and of these what the whole sample has least of.
Within a kind of a template the choice depends on the seed and on the question's parallel id alone: languages and
splits that share questions share the choice.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass

from mbbq_gen.records import Alignment, Condition, Instance, Polarity
from mbbq_gen.seeding import stable_number

Kind = tuple[Condition, Polarity, Alignment | None]

KINDS: tuple[Kind, ...] = (
    ("ambiguous", "negative", None),
    ("disambiguated", "non_negative", "biased"),
    ("ambiguous", "non_negative", None),
    ("disambiguated", "negative", "counter_biased"),
    ("disambiguated", "non_negative", "counter_biased"),
    ("disambiguated", "negative", "biased"),
)
"""The kinds of questions with a single target, in the order that settles ties."""


@dataclass(frozen=True, slots=True)
class Outline:
    """What the choice of questions and of option orders needs to know of an instance."""

    key: str
    benchmark: str
    split: str
    language: str
    category: str
    template_id: str
    condition: Condition
    polarity: Polarity
    alignment: Alignment | None
    twin: str
    """The parallel id, else the instance id."""

    @classmethod
    def of(cls, instance: Instance) -> Outline:
        """The outline of an instance."""
        return cls(
            key=instance.key,
            benchmark=instance.benchmark,
            split=instance.split,
            language=instance.language,
            category=instance.category,
            template_id=instance.template_id,
            condition=instance.condition,
            polarity=instance.polarity,
            alignment=instance.alignment,
            twin=instance.parallel_id or instance.instance_id,
        )

    @property
    def kind(self) -> Kind:
        """Condition, polarity and alignment."""
        return (self.condition, self.polarity, self.alignment)


def balanced_sample(outlines: Iterable[Outline], size: int, seed: int) -> set[str]:
    """The keys of `size` questions for each benchmark × language × split (all of them where there are fewer)."""
    groups: dict[tuple[str, str, str], list[Outline]] = defaultdict(list)
    for outline in outlines:
        groups[outline.benchmark, outline.language, outline.split].append(outline)
    return {key for group in groups.values() for key in _sample_group(group, size, seed)}


def _sample_group(outlines: list[Outline], size: int, seed: int) -> list[str]:
    """`size` keys of one benchmark, language and split."""
    stock = _stock(outlines, seed)
    templates = sorted(stock, key=lambda template: stable_number(seed, outlines[0].benchmark, template))
    given: dict[str, Counter[Kind]] = {template: Counter() for template in templates}
    overall: Counter[Kind] = Counter()
    chosen: list[str] = []
    while len(chosen) < size and any(stock.values()):
        for template in templates:
            if len(chosen) == size or not stock[template]:
                continue
            kind = _next_kind(stock[template], given[template], overall)
            keys = stock[template][kind]
            chosen.append(keys.popleft())
            if not keys:
                del stock[template][kind]
            given[template][kind] += 1
            overall[kind] += 1
    return chosen


def _next_kind(stock: Iterable[Kind], given: Counter[Kind], overall: Counter[Kind]) -> Kind:
    """The kind in stock of which the template, and then the whole sample, has least: first by condition."""

    def of_condition(counts: Counter[Kind], kind: Kind) -> int:
        return sum(count for other, count in counts.items() if other[0] == kind[0])

    def need(kind: Kind) -> tuple[int, ...]:
        rank = KINDS.index(kind) if kind in KINDS else len(KINDS)
        conditions = of_condition(given, kind), of_condition(overall, kind)
        return *conditions, given[kind], overall[kind], rank

    return min(stock, key=need)


def _stock(outlines: list[Outline], seed: int) -> dict[str, dict[Kind, deque[str]]]:
    """Template → kind → keys still to be had, in the order in which they will be taken."""
    rows: dict[str, dict[Kind, list[tuple[int, str]]]] = defaultdict(lambda: defaultdict(list))
    for outline in outlines:
        rank = stable_number(seed, outline.benchmark, outline.twin)
        rows[outline.template_id][outline.kind].append((rank, outline.key))
    return {
        template: {kind: deque(key for _, key in sorted(ranked)) for kind, ranked in kinds.items()}
        for template, kinds in rows.items()
    }
