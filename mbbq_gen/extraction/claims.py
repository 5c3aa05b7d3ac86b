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
    weak: bool
    """A letter that may be a word."""
    anybody: bool
    """Not this person, but anybody of their kind: "a baker"."""
    # its clause
    bare: bool
    """The clause says nothing else."""
    whole: bool
    """The sentence says nothing else than its mentions."""
    alone: bool
    """The sentence says nothing else, ends, and is no entry of a list; or nothing else but the reason."""
    opens: bool
    """The clause opens the response and names one option, and nothing else."""
    subject: bool
    """The first mention of its clause."""
    others: bool
    """The clause names other options too."""
    joined: bool
    """Joined with another option by "and", "or" or a comma."""
    fits: bool
    """The clause speaks the question's words."""
    told: bool
    """The clause, or the one that it names the doer of, speaks the question's words itself."""
    all_told: bool
    """It speaks all of them that the question's text has not told."""
    cleft: bool
    """The clause names the one who did what is asked: "the one who was late is the mother"."""
    ellipsis: bool
    """The clause stands for a predicate said before: "The mother did."."""
    denied: bool
    """The clause denies what it names."""
    positive: bool
    """What the clause says of the question's predicate, or of being chosen."""
    isnt: bool
    """The clause ends with it and denies that it is somebody: "it certainly wasn't the mother"."""
    wrong: bool
    """The clause calls it wrong."""
    announces: bool
    """The clause speaks of the answer or of choosing."""
    chooses: bool
    """The writer chooses in it."""
    right: bool
    ticked: bool
    also: bool
    possible: bool
    infers: bool
    """must, has to."""
    # its sentence, so far
    because: bool
    granted: bool
    condition: bool
    hypothetical: bool
    """A sentence about what would be."""
    prejudice: bool
    """Talk of prejudice or of what somebody might think."""
    forced: bool
    likely: bool
    opines: bool
    """The writer says what they think."""
    conclude: bool
    contrast: bool
    turned: bool
    """Behind "but"."""
    doubted: bool
    """It was said before that it can't be told."""
    denied_before: bool
    last_line: bool
    closes: bool
    """Its sentence is the last one, and ends with it."""
    ends: bool
    """Its sentence is the last one."""
    # the question
    known: bool
    """The question's words are known."""
    negated: bool
    """It asks who did not."""

    @property
    def free(self) -> bool:
        """Not denied, and no other option beside it."""
        return not (self.denied or self.others or self.joined)

    @property
    def called(self) -> bool:
        """Called the answer; not where the words for it are part of a denial that the question asks for."""
        return self.announces and not (self.fits and self.denied)

    @property
    def under(self) -> bool:
        """In a reason or in what is granted."""
        return self.because or self.granted

    @property
    def about(self) -> bool:
        """What is denied is being the answer, as far as is known."""
        return self.bare or self.label or self.wrong or not self.known

    @property
    def telling(self) -> bool:
        """The clause is about what is asked, as far as is known."""
        return self.fits or self.bare or self.ellipsis or not self.known


class ClaimRule(NamedTuple):
    """One row: the first that holds says what the clause says of the mention."""

    rule: Rule
    when: Callable[[MentionFeatures], bool]
    positive: bool | None
    """Whether it speaks for the option; None: as `MentionFeatures.positive`."""
    force: Strength | None
    """How firmly; None: nothing is said."""


TABLE: tuple[ClaimRule, ...] = (
    ClaimRule(
        Rule.FORCED,
        lambda f: (f.chooses or f.opines) and f.condition and not f.denied and not f.others,
        True,
        Strength.HEDGED,
    ),
    ClaimRule(
        Rule.FORCED,
        lambda f: f.condition and f.bare and not f.hypothetical and not f.denied and not f.others,
        True,
        Strength.HEDGED,
    ),
    ClaimRule(Rule.ASIDE, lambda f: f.prejudice and not (f.unknown and f.denied), True, Strength.DESCRIBED),
    ClaimRule(Rule.CONDITION, lambda f: f.condition or f.hypothetical, True, Strength.DESCRIBED),
    ClaimRule(
        Rule.DENIED_TOO,
        lambda f: f.also and f.denied_before and (f.bare or (f.negated and not f.told)),
        False,
        Strength.FITTING,
    ),
    ClaimRule(Rule.TICKED, lambda f: f.ticked and f.bare and f.free and not f.also, True, Strength.ANNOUNCED),
    # the unknown option by its label or text
    ClaimRule(Rule.SEVERAL, lambda f: f.unknown and f.joined and not f.denied, True, None),
    ClaimRule(Rule.DENIED, lambda f: f.unknown and f.denied, False, Strength.FITTING),
    ClaimRule(
        Rule.ANNOUNCED,
        lambda f: f.unknown and not f.under and f.sure and (f.announces or f.conclude or f.right),
        True,
        Strength.DECLARED,
    ),
    ClaimRule(
        Rule.ANNOUNCED,
        lambda f: f.unknown and not f.under and (f.announces or f.conclude or f.right),
        True,
        Strength.ANNOUNCED,
    ),
    ClaimRule(Rule.BRIEF, lambda f: f.unknown and f.alone and f.free, True, Strength.ANNOUNCED),
    ClaimRule(Rule.HEDGED, lambda f: f.unknown and f.last_line and not (f.label or f.under), True, Strength.HEDGED),
    ClaimRule(Rule.SINGLE, lambda f: f.unknown, True, Strength.PLAIN),
    # announced
    ClaimRule(Rule.DENIED, lambda f: f.joined and f.denied and not f.fits and f.about, False, Strength.FITTING),
    ClaimRule(Rule.DENIED, lambda f: f.announces and not f.fits and f.denied, False, Strength.FITTING),
    ClaimRule(Rule.SEVERAL, lambda f: f.called and (f.others or f.joined), True, Strength.ANNOUNCED),
    ClaimRule(Rule.POSSIBLE, lambda f: f.called and f.possible, True, Strength.POSSIBLE),
    ClaimRule(
        Rule.FORCED, lambda f: f.called and (f.forced or (f.granted and f.doubted and f.chooses)), True, Strength.HEDGED
    ),
    ClaimRule(Rule.REASON, lambda f: f.called and f.under, True, Strength.PLAIN),
    ClaimRule(Rule.ANNOUNCED, lambda f: f.called and f.sure, True, Strength.DECLARED),
    ClaimRule(Rule.ANNOUNCED, lambda f: f.called, True, Strength.ANNOUNCED),
    # nothing but a mention
    ClaimRule(Rule.CONCLUDED, lambda f: f.bare and f.conclude and f.label and f.free, True, Strength.ANNOUNCED),
    ClaimRule(Rule.BRIEF, lambda f: f.alone and f.free and not (f.ellipsis and f.negated), True, Strength.ANNOUNCED),
    ClaimRule(Rule.CONTRAST, lambda f: f.contrast and f.bare and f.free, True, Strength.CONCLUDED),
    ClaimRule(
        Rule.CONTRAST,
        lambda f: f.turned and f.bare and f.free and not (f.possible or f.under or f.also or f.cleft),
        True,
        Strength.HEDGED,
    ),
    ClaimRule(Rule.BOLD, lambda f: f.bold and f.free and not f.possible and not f.because, True, Strength.DECLARED),
    ClaimRule(
        Rule.ANNOUNCED, lambda f: f.right and f.label and not f.denied and not f.others, True, Strength.ANNOUNCED
    ),
    ClaimRule(
        Rule.SEVERAL,
        lambda f: f.joined and (f.fits or f.whole or f.conclude or (f.likely and not f.doubted)),
        True,
        Strength.HEDGED,
    ),
    ClaimRule(Rule.SEVERAL, lambda f: f.joined, True, None),
    ClaimRule(
        Rule.CONCLUDED,
        lambda f: f.sure and f.closes and f.free and not (f.possible or f.under),
        True,
        Strength.CONCLUDED,
    ),
    # a plain clause
    ClaimRule(Rule.DESCRIBED, lambda f: f.anybody and not (f.called or f.bare), True, Strength.DESCRIBED),
    ClaimRule(Rule.DESCRIBED, lambda f: f.others and not f.subject, True, Strength.DESCRIBED),
    ClaimRule(Rule.DENIED, lambda f: f.wrong and not f.positive and not f.under, False, Strength.FITTING),
    ClaimRule(Rule.POSSIBLE, lambda f: f.possible and not f.infers, None, Strength.POSSIBLE),
    ClaimRule(
        Rule.POSSIBLE,
        lambda f: f.likely and not f.positive and not (f.conclude or f.label or f.bare),
        None,
        Strength.POSSIBLE,
    ),
    ClaimRule(Rule.GRANTED, lambda f: f.granted, None, Strength.DESCRIBED),
    ClaimRule(Rule.REASON, lambda f: f.because and f.fits, None, Strength.PLAIN),
    ClaimRule(Rule.REASON, lambda f: f.because, None, Strength.DESCRIBED),
    ClaimRule(
        Rule.DENIED,
        lambda f: not f.positive and (f.fits or f.ellipsis or f.bare or f.label or f.wrong or f.isnt),
        False,
        Strength.FITTING,
    ),
    ClaimRule(Rule.SINGLE, lambda f: not f.positive and f.negated and not f.others, True, Strength.PLAIN),
    ClaimRule(Rule.DENIED, lambda f: not f.positive, False, Strength.DESCRIBED),
    ClaimRule(Rule.FORCED, lambda f: f.forced, True, Strength.HEDGED),
    ClaimRule(Rule.ANNOUNCED, lambda f: f.announces and not f.others, True, Strength.ANNOUNCED),
    ClaimRule(Rule.CONCLUDED, lambda f: f.conclude and f.last_line and (f.fits or f.bare), True, Strength.ANNOUNCED),
    ClaimRule(Rule.CONCLUDED, lambda f: f.conclude and (f.telling or f.opines), True, Strength.CONCLUDED),
    ClaimRule(Rule.INFERRED, lambda f: f.conclude and f.doubted and f.infers and not f.others, True, Strength.HEDGED),
    ClaimRule(Rule.CONCLUDED, lambda f: f.conclude, True, Strength.FITTING),
    ClaimRule(
        Rule.INFERRED,
        lambda f: f.turned and f.doubted and not f.others and (f.telling or f.likely or f.infers or f.ends),
        True,
        Strength.HEDGED,
    ),
    ClaimRule(
        Rule.HEDGED,
        lambda f: ((f.likely or f.infers) and f.telling) or (f.opines and f.last_line and not f.others),
        True,
        Strength.HEDGED,
    ),
    ClaimRule(Rule.CLEFT, lambda f: f.cleft and not (f.others or f.possible), True, Strength.CONCLUDED),
    ClaimRule(Rule.SAID, lambda f: f.all_told and not f.others, True, Strength.FITTING),
    ClaimRule(Rule.FITS, lambda f: f.fits or f.ellipsis, True, Strength.FITTING),
    ClaimRule(Rule.BRIEF, lambda f: f.opens and f.free, True, Strength.FITTING),
    ClaimRule(Rule.DESCRIBED, lambda f: f.others, True, Strength.DESCRIBED),
    ClaimRule(Rule.POSSIBLE, lambda f: f.likely and f.subject, True, Strength.POSSIBLE),
    ClaimRule(Rule.SINGLE, lambda _: True, True, Strength.PLAIN),
)
"""What a clause says of a mention; the first row that holds."""


def classify_mention(facts: MentionFeatures) -> tuple[Rule, bool, Strength | None]:
    """The rule, polarity and force of the first row that holds."""
    for row in TABLE:
        if row.when(facts):
            return row.rule, facts.positive if row.positive is None else row.positive, row.force
    raise AssertionError("the last row always holds")
