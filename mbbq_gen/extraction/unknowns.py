"""The ways of saying that it can't be told: one predicate over the classes of a clause's words.

A source that doesn't tell, something that can't be known, information that is missing, a word for "unclear": which
words do this is the language's, what they do together is the same in all.
"""

from __future__ import annotations

from typing import NamedTuple

from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.rules import Rule

NEG = C["neg"] | C["neither"]
NOT = NEG | C["cannot"] | C["lack"]
"""What turns a statement round."""
NEAR = 3
"""Words by which a negation may stand in front of what it denies."""


_NOT_SO = C["cannot"] | C["possible"] | C["would"] | C["condition"] | C["assume"] | C["although"] | C["options"]
_DENIABLE = frozenset({Rule.CANNOT_KNOW, Rule.UNTOLD, Rule.UNCLEAR, Rule.NOT_TOLD, Rule.NO_INFORMATION, Rule.NOT_KNOWN})
_DENYING = NEG | C["cannot"] | C["lack"] | C["untold"] | C["unclear"]
_WEIGHED = C["assume"] | C["choose"] | C["judge"] | C["answer"] | C["who"] | C["options"]


MAY_BE_UNKNOWN = _DENYING | C["hard"] | C["refuse"] | C["able"]
"""A clause without a word of these says nothing of what can't be told."""


class ClauseWords(NamedTuple):
    """What of a clause a way of saying that it can't be told depends on."""

    masks: list[int]
    """The classes of its words."""
    bits: int
    """All of them together."""
    around: int
    """Those of its whole sentence."""
    named: bool
    """Whether it names an option."""
    person: bool
    """Whether one of them is a person."""
    bare: bool
    """Whether all its words have a class or are small."""


def way_of_unknown(clause: ClauseWords) -> Rule | None:
    """Which way of saying that it can't be told a clause has; None where it has none."""
    way = _way(clause)
    return Rule.UNCLEAR_DENIED if way in _DENIABLE and _is_denied(clause) else way


def _is_denied(clause: ClauseWords) -> bool:
    """Whether a clause calls it wrong, or not right, that it can't be told: "it is not true that nothing is known"."""
    if clause.person or clause.bits & _WEIGHED:
        return False
    if any([mask & C["wrong"] and not mask & _DENYING for mask in clause.masks]):
        return True
    not_right = _in_front(clause.masks, NEG, C["right"], 2) or _in_front(clause.masks, C["right"], NEG, 2)
    return not_right and sum([1 for mask in clause.masks if mask & _DENYING]) > 1


def _way(clause: ClauseWords) -> Rule | None:  # noqa: PLR0911, PLR0912 - a table, row by row
    bits, around = clause.bits, clause.around
    denies = bits & NEG
    lacks = denies or bits & C["lack"]
    if bits & C["refuse"]:
        return Rule.REFUSAL
    if bits & C["unclear"]:
        denied = denies and (_in_front(clause.masks, NEG, C["unclear"]) or _ends_in(clause.masks, NEG, C["unclear"]))
        return Rule.UNCLEAR_DENIED if denied else Rule.UNCLEAR
    if bits & C["untold"]:
        return Rule.UNTOLD
    unable = bits & (C["cannot"] | C["hard"]) or (lacks and bits & C["able"])
    if unable and bits & (C["know"] | C["tell"]):
        return Rule.CANNOT_KNOW
    if bits & C["speaker"] and (
        (bits & (C["cannot"] | C["hard"]) and bits & C["choose"]) or ((denies or unable) and bits & C["judge"])
    ):
        return Rule.REFUSAL
    if bits & C["neither"] and bits & C["choose"] and not (clause.named or bits & C["condition"]):
        return Rule.REFUSAL
    if denies and bits & C["info"] and _in_front(clause.masks, NEG, C["lack"]):
        return Rule.UNCLEAR_DENIED
    if lacks and bits & C["info"]:
        return Rule.NO_INFORMATION
    if denies and not clause.named and _in_front(clause.masks, NEG, C["who"], 1):
        return Rule.NOT_TOLD
    if bits & C["neither"] and not clause.person and bits & (C["tell"] | C["info"] | C["know"] | C["source"]):
        return Rule.NEITHER_TOLD
    if denies and bits & C["source"] and clause.bare and not clause.person:
        return Rule.NOT_TOLD
    asks = (bits | around) & C["who"]
    if denies and bits & C["tell"] and ((bits | around) & C["source"] or bits & C["info"] or asks):
        return Rule.NOT_TOLD
    advises = bits & C["choose"] and not bits & C["speaker"]
    somebody = clause.person or bits & C["pronoun"]
    if denies and bits & (C["tell"] | C["know"]) and clause.bare and not (somebody or advises):
        return Rule.NOT_TOLD
    if denies and bits & C["clear"] and (not clause.named or bits & C["who"]):
        return Rule.NOT_CLEAR
    if denies and bits & C["know"] and bits & C["who"] and bits & C["speaker"]:
        return Rule.NOT_KNOWN
    if bits & C["lack"] and bits & C["source"]:
        return Rule.NO_INFORMATION
    if bits & C["able"] and bits & C["know"] and not (lacks or asks or clause.named or bits & _NOT_SO):
        return Rule.UNCLEAR_DENIED
    return None


def _in_front(masks: list[int], first: int, second: int, near: int = NEAR) -> bool:
    """Whether a word of one class stands close in front of one of another."""
    places = [place for place, mask in enumerate(masks) if mask & second]
    return any(masks[place - back] & first for place in places for back in range(1, near + 1) if place >= back)


def _ends_in(masks: list[int], last: int, first: int) -> bool:
    """Whether one of the last two words has a class, behind a word of another one, and no question between them."""
    begin = next(place for place, mask in enumerate(masks) if mask & first)
    end = next((place for place in range(len(masks) - 1, max(begin, len(masks) - 3), -1) if masks[place] & last), None)
    return end is not None and not any(mask & C["who"] for mask in masks[begin:end])
