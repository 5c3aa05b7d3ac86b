"""Words that fit only one of the people: she, the man, the younger one, where the question shows who is which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache
from itertools import permutations

from mbbq_gen.extraction.lexicon import Lexicon, words_of
from mbbq_gen.extraction.options import QuestionWords
from mbbq_gen.extraction.words import UNSPACED, WORD

AGES = range(5, 111)
"""Numbers that may be a person's age."""
MIN_BASE = 3
"""Letters that a word for a man and the one for a woman share at least."""
YOUNG, OLD = 35, 60
"""Ages up to which a person is young, and from which on one is old, whoever stands beside them."""
_SIGNS = {"he": ("male", "he"), "she": ("female", "she"), "old": ("old",), "young": ("young",)}
"""Words that may mean a person → the classes that show that they do."""
_AGE = frozenset({"old", "young"})
_OPPOSITE = {"he": "she", "she": "he", "old": "young", "young": "old"}


def traits_of_one(question: QuestionWords, told: Mapping[int, Iterable[str]], lexicon: Lexicon) -> dict[str, int]:
    """What only one of two people is (`he`, `she`, `old`, `young`) → that person.

    Args:
        question: What is asked.
        told: Person → what the question's text says where it introduces them.
        lexicon: The language that it is in.
    """
    if len(question.persons) != len(told) or len(told) != 2:
        return {}
    shown = {option: _shown(question.options[option], list(words), lexicon) for option, words in told.items()}
    _by_ending(shown, question, lexicon)
    _by_age(shown, {option: _age([question.options[option], *words]) for option, words in told.items()})
    found: dict[str, int] = {}
    one, two = shown
    for trait, opposite in _OPPOSITE.items():
        mine = [option for option in shown if trait in shown[option] and opposite not in shown[option]]
        others = [option for option in shown if opposite in shown[option] and trait not in shown[option]]
        other = two if mine == [one] else one
        if len(mine) == 1 and (opposite in shown[other] or (trait in _AGE and trait not in shown[other])):
            person = mine[0]
        elif not mine and len(others) == 1 and trait in _AGE:
            person = two if others[0] == one else one
        else:
            continue
        found[trait] = person
    return found


def words_for_one(traits: Mapping[str, int], lexicon: Lexicon) -> dict[tuple[str, ...], int]:
    """Words that fit only one of two people, as keys → that person."""
    classes = _classes(lexicon)
    return {keys: person for trait, person in traits.items() for keys in classes[trait]}


@lru_cache(maxsize=64)
def _classes(lexicon: Lexicon) -> dict[str, tuple[tuple[str, ...], ...]]:
    """The classes of `[people]`, every entry as the keys of its words."""
    people = lexicon.people
    return {
        name: tuple(
            tuple(lexicon[word].key for word in WORD.findall(entry.replace("_", " ")))
            for entry in words_of(getattr(people, name))
        )
        for name in type(people).model_fields
    }


def _shown(option: str, words: list[str], lexicon: Lexicon) -> set[str]:
    """What a person's option and the words that introduce them show of sex and age."""
    classes = _classes(lexicon)
    texts = [*WORD.findall(option), *words]
    keys = {lexicon[text].key for text in texts} | {lexicon[text].stem for text in texts}
    joined = "".join(texts) if UNSPACED.search(option) or any(UNSPACED.search(text) for text in words) else ""
    shown = {
        trait
        for trait, names in _SIGNS.items()
        for name in names
        if any(set(entry) <= keys and (len(entry) == 1 or "".join(entry) in joined) for entry in classes[name])
    }
    article = (lexicon[texts[0]].key,)
    if article in classes["masculine"]:
        shown.add("he")
    if article in classes["feminine"]:
        shown.add("she")
    return shown


def _by_ending(shown: dict[int, set[str]], question: QuestionWords, lexicon: Lexicon) -> None:
    """Adds who is a man and who a woman where one is called by what the other is called and an ending for women."""
    endings = [ending for (ending,) in _classes(lexicon)["feminine_ending"]]
    for one, other in permutations(shown) if endings else ():
        men, women = ({lexicon[text].key for text in WORD.findall(question.options[option])} for option in (one, other))
        stems = [word.removesuffix(ending) for word in women - men for ending in endings if word.endswith(ending)]
        if any(_is_made_of(stem, base) for stem in stems for base in men - women):
            shown[one].add("he")
            shown[other].add("she")


def _is_made_of(stem: str, base: str) -> bool:
    """Whether a word for a woman, without its ending, is one for a man but for two letters at its end: waitr-ess and
    waiter, not busin-ess and bus."""
    return MIN_BASE <= len(stem) <= len(base) and stem.startswith(base[: max(MIN_BASE, len(base) - 2)])


def _age(texts: Iterable[str]) -> int | None:
    """The first number that may be an age."""
    numbers = (int(word) for text in texts for word in WORD.findall(text) if word.isdecimal() and len(word) <= 3)
    return next((number for number in numbers if number in AGES), None)


def _by_age(shown: dict[int, set[str]], ages: Mapping[int, int | None]) -> None:
    """Adds who is old and who is young by their ages, beside each other or by themselves."""
    known = [age for age in ages.values() if age is not None]
    for option, age in ages.items():
        if age is None:
            continue
        both = len(known) > 1
        if (both and age == max(known) > min(known)) or (not both and age >= OLD):
            shown[option].add("old")
        if (both and age == min(known) < max(known)) or (not both and age <= YOUNG):
            shown[option].add("young")
