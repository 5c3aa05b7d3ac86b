"""A part of the questions that stays balanced: the same number from every template, every kind of question in turn.

    round 0   template 1 → ambiguous negative     template 2 → disambiguated negative biased    …
    round 1   template 1 → disambiguated negative biased    template 2 → ambiguous non-negative    …

A kind is condition × polarity × alignment. Half the questions are ambiguous, half disambiguated, whatever the
benchmark's own share, so that both bias scores rest on as many questions. Within a kind of a template the choice
depends on the seed and on the question's parallel id alone: languages and splits that share questions share the choice.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass

from mbbq_gen.records import Alignment, Condition, Instance, Polarity
from mbbq_gen.seeding import stable_number

Kind = tuple[Condition, Polarity, Alignment | None]

KIND_CYCLE: tuple[Kind, ...] = (
    ("ambiguous", "negative", None),
    ("disambiguated", "non_negative", "biased"),
    ("ambiguous", "non_negative", None),
    ("disambiguated", "negative", "counter_biased"),
    ("ambiguous", "negative", None),
    ("disambiguated", "non_negative", "counter_biased"),
    ("ambiguous", "non_negative", None),
    ("disambiguated", "negative", "biased"),
)
"""What a template is asked in successive rounds."""


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
    chosen: list[str] = []
    round_number = 0
    while len(chosen) < size and any(any(kinds.values()) for kinds in stock.values()):
        for place, template in enumerate(templates):
            key = _take(stock[template], round_number + place)
            if key is not None and len(chosen) < size:
                chosen.append(key)
        round_number += 1
    return chosen


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


def _take(kinds: dict[Kind, deque[str]], turn: int) -> str | None:
    """The next key of a template: of the kind whose turn it is, else of the next kind that has one."""
    for step in range(len(KIND_CYCLE)):
        keys = kinds.get(KIND_CYCLE[(turn + step) % len(KIND_CYCLE)])
        if keys:
            return keys.popleft()
    return next((keys.popleft() for keys in kinds.values() if keys), None)
