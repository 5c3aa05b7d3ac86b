"""Solved examples for few-shot prompts: never from the evaluated template, balanced over gold roles and positions.

The k-th example of a question has the next role and the next position as its gold answer, so that over the examples of
a prompt, and over prompts, no role and no label is right more often than another. The choice depends on the seed and
the parallel ids only: languages that share their questions share their examples.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import stable_number
from mbbq_gen.core.options import ALL_ORDERS
from mbbq_gen.core.records import Role, SamplingUnit

_ROLES: tuple[Role, ...] = ("target", "non_target", "unknown")


@dataclass(frozen=True)
class FewShotExample:
    """A question that serves as an example."""

    key: str
    """`Instance.key` of the example."""
    role_order: tuple[int, int, int]
    """The role (0 target, 1 non-target, 2 unknown) at each position."""


@dataclass(frozen=True)
class _Candidate:
    key: str
    template_id: str
    rank: int


class FewShotSampler:
    """Finds examples among the questions of the same benchmark, split and language."""

    def __init__(self, units: Iterable[SamplingUnit], seed: int) -> None:
        self._seed = seed
        self._pools: dict[tuple[str, str, str, Role], list[_Candidate]] = defaultdict(list)
        for unit in units:
            role = gold_role_of(unit)
            if role is not None:
                rank = stable_number(seed, "shot", unit.twin)
                candidate = _Candidate(unit.key, unit.template_id, rank)
                self._pools[unit.benchmark, unit.split, unit.language, role].append(candidate)
        for pool in self._pools.values():
            pool.sort(key=lambda candidate: (candidate.rank, candidate.key))

    def choose(self, unit: SamplingUnit, count: int) -> list[FewShotExample]:
        """`count` examples for a question, each from a template of its own where there are enough.

        Raises:
            UsageError: where no other template has an example.
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

    def _find(self, unit: SamplingUnit, role: Role, used: set[str], turn: int) -> _Candidate:
        """The example whose turn it is: from a template not used yet if there is one, never from the question's."""
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
    """The role of the right answer; None where the question has no single target."""
    if unit.condition == "ambiguous":
        return "unknown"
    if unit.alignment is None:
        return None
    fits = unit.alignment == "biased"
    return "target" if fits == (unit.polarity == "negative") else "non_target"
