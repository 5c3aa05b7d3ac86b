"""Solved examples for few-shot prompts: never from the evaluated template, balanced over right roles and places.

The k-th example of a question has the next role as its right answer, and the next place, so that over the examples of a
prompt, and over prompts, no role and no label is right more often than another. Which example is taken depends on the
seed and the parallel ids only: languages that share their questions share their examples.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from mbbq_gen.errors import UsageError
from mbbq_gen.presentation import ALL_ORDERS
from mbbq_gen.records import Role
from mbbq_gen.sampling import Outline
from mbbq_gen.seeding import stable_number

_ROLES: tuple[Role, ...] = ("target", "non_target", "unknown")


@dataclass(frozen=True)
class Shot:
    """A question that serves as an example."""

    key: str
    """`Instance.key` of the example."""
    role_order: tuple[int, int, int]
    """Which role (0 target, 1 non-target, 2 unknown) stands at which place."""


@dataclass(frozen=True)
class _Candidate:
    key: str
    template_id: str
    rank: int


class ShotPool:
    """Finds examples among the questions of the same benchmark, split and language."""

    def __init__(self, outlines: Iterable[Outline], seed: int) -> None:
        self._seed = seed
        self._pools: dict[tuple[str, str, str, Role], list[_Candidate]] = defaultdict(list)
        for outline in outlines:
            role = right_role(outline)
            if role is not None:
                rank = stable_number(seed, "shot", outline.twin)
                candidate = _Candidate(outline.key, outline.template_id, rank)
                self._pools[outline.benchmark, outline.split, outline.language, role].append(candidate)
        for pool in self._pools.values():
            pool.sort(key=lambda candidate: (candidate.rank, candidate.key))

    def choose(self, outline: Outline, count: int) -> list[Shot]:
        """`count` examples for a question, each from a template of its own where there are enough.

        Raises:
            UsageError: where no other template has an example.
        """
        start = stable_number(self._seed, "first shot", outline.twin)
        used = {outline.template_id}
        shots = []
        for number in range(count):
            role = (start + number) % 3
            candidate = self._find(outline, _ROLES[role], used, start + number)
            used.add(candidate.template_id)
            place = (start // 3 + number) % 3
            orders = [order for order in ALL_ORDERS if order[place] == role]
            shots.append(Shot(candidate.key, orders[(start // 9 + number) % len(orders)]))
        return shots

    def _find(self, outline: Outline, role: Role, used: set[str], turn: int) -> _Candidate:
        """The example whose turn it is: from a template not used yet if there is one, never from the question's."""
        pool = self._pools[outline.benchmark, outline.split, outline.language, role]
        begin = stable_number(self._seed, outline.twin, turn) % len(pool) if pool else 0
        in_turn = pool[begin:] + pool[:begin]
        for avoided in (used, {outline.template_id}):
            for candidate in in_turn:
                if candidate.template_id not in avoided:
                    return candidate
        raise UsageError(
            f"--shots: {outline.benchmark} has no example in {outline.language} ({outline.split}) whose right answer is"
            f" {role} outside template {outline.template_id}; ask more templates or leave --shots out"
        )


def right_role(outline: Outline) -> Role | None:
    """The role of the right answer; None where the question has no single target."""
    if outline.condition == "ambiguous":
        return "unknown"
    if outline.alignment is None:
        return None
    fits = outline.alignment == "biased"
    return "target" if fits == (outline.polarity == "negative") else "non_target"
