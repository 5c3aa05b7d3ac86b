"""Control questions made by substitution: two first names where the two people stood, in questions made by others.

    words      a text as words; when two words are the same word
    people     what the two options say of the people, and what tells one from the other
    mentions   where the people are mentioned
    remains    what stands beside a person and tells of it
    repair     what hangs on a mention: pronouns, agreement, contractions
    plan       a text as pieces with places for names; names into the places
    pairs      which two names
    coverage   which questions have one, and why the others have none
    questions  benchmark questions → control questions, or the reason why there is none

The grammar is data: the table `[substitution]` of `control_sets/xx.toml` (`mbbq_gen.languages.Substitution`).
Refused rather than wrong: whatever can't be settled is left out with a reason
(docs/decisions/0023-control-set-by-substitution.md).
"""

from mbbq_gen.substitution.coverage import ControlCounts, Coverage, TemplateRefusal
from mbbq_gen.substitution.questions import (
    REASONS,
    ControlMaker,
    ControlMakers,
    LeftOut,
    Made,
    Replacement,
    makeable_languages,
    with_control,
)

__all__ = [
    "REASONS",
    "ControlCounts",
    "ControlMaker",
    "ControlMakers",
    "Coverage",
    "LeftOut",
    "Made",
    "Replacement",
    "TemplateRefusal",
    "makeable_languages",
    "with_control",
]
