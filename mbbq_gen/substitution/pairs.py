"""Which two names stand in a question: of one gender, not to be confused, the same for all questions of a story."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from functools import lru_cache

from mbbq_gen.control import NamePair, names_clash
from mbbq_gen.errors import PackError
from mbbq_gen.languages import ControlSet, NameGender
from mbbq_gen.seeding import stable_number

LEAST_DISTANCE = 3
"""Letters by which the two names of a pair must differ: Elin and Lina, Ahmet and Mehmet differ by two. Names in fewer
letters (수진) must differ in all."""
LEAST_SHARE = 0.5
"""And the part of the longer name that they must be: Valentina and Valeria differ by three of nine letters."""


def gender_of_story(template: str, story: str) -> NameGender:
    """The gender of a story's names where the text leaves it open: the same in every language, half and half."""
    return "f" if stable_number("gender", template, story) % 2 == 0 else "m"


@lru_cache(maxsize=4096)
def edit_distance(one: str, other: str) -> int:
    """How many letters must be put in, taken out or changed to make one name of the other."""
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, theirs in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (letter != theirs))
    return row[-1]


def confusable(one: str, other: str, control_set: ControlSet) -> bool:
    """Whether two names may be taken for each other: one in the other, or few letters apart."""
    distance = edit_distance(one.casefold(), other.casefold())
    return (
        distance < min(LEAST_DISTANCE, max(len(one), len(other)))
        or distance < LEAST_SHARE * max(len(one), len(other))
        or names_clash(one, other, control_set.grammar)
    )


class NamePairs:
    """The name pairs of a language."""

    def __init__(self, control_set: ControlSet) -> None:
        self._control_set = control_set
        self._pairs = {gender: list(self._distinct(gender)) for gender in ("f", "m")}

    def _distinct(self, gender: NameGender) -> Iterator[tuple[str, str]]:
        names = self._control_set.names.female if gender == "f" else self._control_set.names.male
        for one, other in itertools.permutations(names, 2):
            if not confusable(one, other, self._control_set):
                yield one, other

    def possible(self, gender: NameGender) -> tuple[tuple[str, str], ...]:
        """Every pair that a story may get, each both ways round."""
        return tuple(self._pairs[gender])

    def choose(self, gender: NameGender, template: str, story: str, avoid: Collection[str] = ()) -> NamePair:
        """The pair of a story: it depends on the language's names and the ids alone, so no question moves another's.

        Args:
            gender: of both names.
            template: id of the template.
            story: what tells the stories of a template apart.
            avoid: words, in lower case, that neither name may hold, as they stand in the text.

        Raises:
            PackError: where the language has no two names of that gender that can be told apart.
        """
        pairs = self._pairs[gender]
        if not pairs:
            language = self._control_set.meta.language
            raise PackError(f"control_sets/{language}.toml: names: no two of gender {gender!r} that can be told apart")
        start = stable_number("pair", template, story)
        for step in range(len(pairs)):
            target, non_target = pairs[(start + step) % len(pairs)]
            if not {word for name in (target, non_target) for word in name.casefold().split()} & set(avoid):
                return NamePair(gender, target, non_target)
        raise PackError("names: all pairs stand in the text already")
