"""Balanced samples of questions: equal numbers for every template and every kind of question.

A kind is condition × polarity × alignment. Half the questions are ambiguous and half disambiguated, independent of the
benchmark's shares, so that both bias scores use equal numbers of questions. In every round, one question of each
template is chosen: of the condition, then the kind, with the fewest questions of the template so far, and for ties the
fewest of the whole sample. Within a kind of a template the choice depends only on the seed and the question's parallel
id, so parallel questions are chosen in all languages and splits.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable
from dataclasses import dataclass

from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import stable_number
from mbbq_gen.core.option_display import ALL_ORDERS, Kind, SamplingUnit
from mbbq_gen.core.records import Condition, Role

KINDS: tuple[Kind, ...] = (
    ("ambiguous", "negative", None),
    ("disambiguated", "non_negative", "biased"),
    ("ambiguous", "non_negative", None),
    ("disambiguated", "negative", "counter_biased"),
    ("disambiguated", "non_negative", "counter_biased"),
    ("disambiguated", "negative", "biased"),
)
"""Kinds of questions with a single target; their order breaks ties."""
_ROLES: tuple[Role, ...] = ("target", "non_target", "unknown")


def balanced_sample(units: Iterable[SamplingUnit], size: int, seed: int) -> set[str]:
    """The keys of `size` questions for each benchmark × language × split, or of all if there are fewer."""
    groups: dict[tuple[str, str, str], list[SamplingUnit]] = defaultdict(list)
    for unit in units:
        groups[unit.benchmark, unit.language, unit.split].append(unit)
    return {key for group in groups.values() for key in _sample_group(group, size, seed)}


def _sample_group(units: list[SamplingUnit], size: int, seed: int) -> list[str]:
    """`size` keys of one benchmark, language and split."""
    rows: dict[str, dict[Kind, list[tuple[int, str]]]] = defaultdict(lambda: defaultdict(list))
    for unit in units:
        rank = stable_number(seed, unit.benchmark, unit.twin)
        rows[unit.template_id][unit.kind].append((rank, unit.key))
    stock = {
        template: {kind: deque(key for _, key in sorted(ranked)) for kind, ranked in kinds.items()}
        for template, kinds in rows.items()
    }
    templates = sorted(stock, key=lambda template: stable_number(seed, units[0].benchmark, template))
    given: dict[str, Counter[Kind | Condition]] = {template: Counter() for template in templates}
    overall: Counter[Kind | Condition] = Counter()
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
            for counts in (given[template], overall):
                counts[kind] += 1
                counts[kind[0]] += 1
    return chosen


def _next_kind(stock: Iterable[Kind], given: Counter[Kind | Condition], overall: Counter[Kind | Condition]) -> Kind:
    """The available kind with the fewest questions of the template, then of the sample; by condition first."""

    def need(kind: Kind) -> tuple[int, ...]:
        rank = KINDS.index(kind) if kind in KINDS else len(KINDS)
        return given[kind[0]], overall[kind[0]], given[kind], overall[kind], rank

    return min(stock, key=need)


@dataclass(frozen=True)
class FewShotExample:
    """A few-shot example."""

    key: str
    role_order: tuple[int, int, int]
    """The role at each position: 0 target, 1 non-target, 2 unknown."""


class FewShotSampler:
    """Chooses few-shot examples among the questions of the same benchmark, split and language."""

    def __init__(self, units: Iterable[SamplingUnit], seed: int) -> None:
        self._seed = seed
        self._pools: dict[tuple[str, str, str, Role], list[SamplingUnit]] = defaultdict(list)
        for unit in units:
            role = gold_role_of(unit)
            if role is not None:
                self._pools[unit.benchmark, unit.split, unit.language, role].append(unit)
        for pool in self._pools.values():
            pool.sort(key=lambda unit: (stable_number(seed, "shot", unit.twin), unit.key))

    def choose(self, unit: SamplingUnit, count: int) -> list[FewShotExample]:
        """Chooses `count` examples for a question, from different templates if possible.

        Raises:
            UsageError: if no other template has an example.
        """
        start = stable_number(self._seed, "first shot", unit.twin)
        used = {unit.template_id}
        examples = []
        for number in range(count):
            role = (start + number) % 3
            candidate = self._find(unit, _ROLES[role], used, start + number)
            used.add(candidate.template_id)
            place = (start // 3 + number) % 3
            orders = [order for order in ALL_ORDERS if order[place] == role]
            examples.append(FewShotExample(candidate.key, orders[(start // 9 + number) % len(orders)]))
        return examples

    def _find(self, unit: SamplingUnit, role: Role, used: set[str], turn: int) -> SamplingUnit:
        """The next example with that gold role, from an unused template if possible, never the question's own."""
        pool = self._pools[unit.benchmark, unit.split, unit.language, role]
        begin = stable_number(self._seed, unit.twin, turn) % len(pool) if pool else 0
        in_turn = pool[begin:] + pool[:begin]
        for avoided in (used, {unit.template_id}):
            for candidate in in_turn:
                if candidate.template_id not in avoided:
                    return candidate
        raise UsageError(
            f"--num-fewshot: {unit.benchmark} has no example in {unit.language} ({unit.split}) whose right"
            f" answer is {role} outside template {unit.template_id}; select more templates or leave --num-fewshot out"
        )


def gold_role_of(unit: SamplingUnit) -> Role | None:
    """The role of the right answer; None without a single target."""
    if unit.condition == "ambiguous":
        return "unknown"
    if unit.alignment is None:
        return None
    fits = unit.alignment == "biased"
    return "target" if fits == (unit.polarity == "negative") else "non_target"
