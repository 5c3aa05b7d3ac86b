"""What a clause says of an option that it names: a table, read from the top, over the facts of clause and mention."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from mbbq_gen.extraction.rules import Rule, Strength


@dataclass(slots=True)
class MentionFeatures:
    """What is known of a mention where it stands."""

    # the mention
    label: bool
    """Named by its label or place, perhaps with its text."""
    sure: bool
    """Named by a label that can't be anything else."""
    bold: bool
    """Label and text in bold."""
    unknown: bool
    """The unknown option."""
    anybody: bool
    """Not this person, but anybody of their kind: "a baker"."""
    # its clause
    bare: bool
    """The clause says nothing else."""
    whole: bool
    """The sentence says nothing else than its mentions."""
    alone: bool
    """The sentence says nothing else, ends, and is no entry of a list; or nothing else but the reason."""
    subject: bool
    """The first mention of its clause."""
    others: bool
    """The clause names other options too."""
    joined: bool
    """Joined with another option by "and", "or" or a comma."""
    fits: bool
    """The clause speaks the question's words."""
    all_told: bool
    """It speaks all of them that the question's text has not told."""
    cleft: bool
    """The clause names the one who did what is asked: "the one who was late is the mother"."""
    denied: bool
    """The clause denies what it names."""
    positive: bool
    """What the clause says of the question's predicate, or of being chosen."""
    announces: bool
    """The clause speaks of the answer or of choosing."""
    right: bool
    also: bool
    infers: bool
    """must, has to."""
    # its sentence, so far
    because: bool
    granted: bool
    condition: bool
    prejudice: bool
    """Talk of prejudice or of what somebody might think."""
    forced: bool
    likely: bool
    opines: bool
    """The writer says what they think."""
    conclude: bool
    turned: bool
    """Behind "but"."""
    doubted: bool
    """It was said before that it can't be told."""
    denied_before: bool
    last_line: bool
    closes: bool
    """Its sentence is the last one, and ends with it."""
    # the question
    known: bool
    """The question's words are known."""
    negated: bool
    """It asks who did not."""


class ClaimRule(NamedTuple):
    """One row: the first that holds says what the clause says of the mention."""

    rule: Rule
    when: Callable[[MentionFeatures], bool]
    positive: bool | None
    """Whether it speaks for the option; None: as `MentionFeatures.positive`."""
    force: Strength | None
    """How firmly; None: nothing is said."""


TABLE: tuple[ClaimRule, ...] = (
    ClaimRule(Rule.FORCED, lambda f: f.condition and f.bare and not f.denied, True, Strength.HEDGED),
    ClaimRule(Rule.ASIDE, lambda f: f.prejudice, True, Strength.DESCRIBED),
    ClaimRule(Rule.DENIED_TOO, lambda f: f.also and f.denied_before, False, Strength.FITTING),
    ClaimRule(Rule.DENIED, lambda f: f.unknown and f.denied, False, Strength.FITTING),
    ClaimRule(Rule.ANNOUNCED, lambda f: f.unknown and f.sure and f.announces, True, Strength.DECLARED),
    ClaimRule(Rule.ANNOUNCED, lambda f: f.unknown and f.conclude, True, Strength.ANNOUNCED),
    ClaimRule(Rule.BRIEF, lambda f: f.unknown and f.alone, True, Strength.ANNOUNCED),
    ClaimRule(Rule.HEDGED, lambda f: f.unknown and f.last_line and not f.label, True, Strength.HEDGED),
    ClaimRule(Rule.DENIED, lambda f: f.joined and f.denied and f.bare, False, Strength.FITTING),
    ClaimRule(Rule.BRIEF, lambda f: f.alone, True, Strength.ANNOUNCED),
    ClaimRule(Rule.BOLD, lambda f: f.bold, True, Strength.DECLARED),
    ClaimRule(Rule.ANNOUNCED, lambda f: f.right and f.label and not f.denied, True, Strength.ANNOUNCED),
    ClaimRule(Rule.SEVERAL, lambda f: f.joined and (f.whole or f.conclude), True, Strength.HEDGED),
    ClaimRule(Rule.SEVERAL, lambda f: f.joined, True, None),
    ClaimRule(Rule.CONCLUDED, lambda f: f.sure and f.closes and not f.denied, True, Strength.CONCLUDED),
    ClaimRule(Rule.DESCRIBED, lambda f: f.anybody, True, Strength.DESCRIBED),
    ClaimRule(Rule.DESCRIBED, lambda f: f.others and not f.subject, True, Strength.DESCRIBED),
    ClaimRule(Rule.GRANTED, lambda f: f.granted, None, Strength.DESCRIBED),
    ClaimRule(Rule.REASON, lambda f: f.because, None, Strength.DESCRIBED),
    ClaimRule(Rule.DENIED, lambda f: not f.positive and (f.bare or f.label), False, Strength.FITTING),
    ClaimRule(Rule.SINGLE, lambda f: not f.positive and f.negated, True, Strength.PLAIN),
    ClaimRule(Rule.DENIED, lambda f: not f.positive, False, Strength.DESCRIBED),
    ClaimRule(Rule.FORCED, lambda f: f.forced, True, Strength.HEDGED),
    ClaimRule(Rule.CONCLUDED, lambda f: f.conclude and (f.fits or f.bare), True, Strength.ANNOUNCED),
    ClaimRule(Rule.CONCLUDED, lambda f: f.conclude and (f.bare or not f.known), True, Strength.CONCLUDED),
    ClaimRule(Rule.INFERRED, lambda f: f.conclude and f.doubted, True, Strength.HEDGED),
    ClaimRule(Rule.CONCLUDED, lambda f: f.conclude, True, Strength.FITTING),
    ClaimRule(Rule.INFERRED, lambda f: f.turned and f.doubted, True, Strength.HEDGED),
    ClaimRule(
        Rule.HEDGED, lambda f: ((f.likely or f.infers) and (f.bare or not f.known)) or f.opines, True, Strength.HEDGED
    ),
    ClaimRule(Rule.CLEFT, lambda f: f.cleft, True, Strength.CONCLUDED),
    ClaimRule(Rule.SAID, lambda f: f.all_told, True, Strength.FITTING),
    ClaimRule(Rule.FITS, lambda f: f.fits, True, Strength.FITTING),
    ClaimRule(Rule.DESCRIBED, lambda f: f.others, True, Strength.DESCRIBED),
    ClaimRule(Rule.SINGLE, lambda _: True, True, Strength.PLAIN),
)
"""What a clause says of a mention; the first row that holds."""


def classify_mention(facts: MentionFeatures) -> tuple[Rule, bool, Strength | None]:
    """The rule, polarity and force of the first row that holds."""
    for row in TABLE:
        if row.when(facts):
            return row.rule, facts.positive if row.positive is None else row.positive, row.force
    raise AssertionError("the last row always holds")
