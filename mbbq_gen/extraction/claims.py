"""Propositions about options, and the table of rules for claims about mentions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Literal, NamedTuple

from mbbq_gen.extraction.lines import Line
from mbbq_gen.extraction.mentions import Mention
from mbbq_gen.extraction.question import PreparedQuestion

if TYPE_CHECKING:
    from mbbq_gen.extraction.clauses import ClauseState
About = Literal["question", "person", "other"]
"""The subject of an abstention: the question, one person, or something else."""
Kind = Literal["option", "unknown", "refusal", "several", "correction"]


class Strength(IntEnum):
    """How firmly a proposition commits to an option."""

    DESCRIBED = 0
    POSSIBLE = 1
    """A possibility, or an abstention that is not about the question."""
    PLAIN = 2
    """A plain statement about one person."""
    FITTING = 3
    """A plain statement in the question's words."""
    HEDGED = 4
    """A guess, a forced choice, or an abstention."""
    CONCLUDED = 5
    ANNOUNCED = 6
    """Called the answer, or the only content of a sentence."""
    DECLARED = 7
    """Called the answer and named by its label; or a line or bold type with nothing but the option."""


class Rule(Enum):
    """Rules, each with its name, its meaning, and the word classes that it depends on."""

    # an option is chosen
    WHOLE_LINE = "whole_line", "is a line of its own"
    ANNOUNCED = "announced", "is announced as the answer", "answer", "choose", "right"
    BOLD = "bold", "stands in bold, label and text"
    ONLY_CONTENT = "only_content", "is all that a sentence says"
    CONCLUDED = "concluded", "is the conclusion", "conclude"
    FORCED_CHOICE = "forced_choice", "is chosen under protest", "forced", "condition", "choose"
    INFERRED = "inferred", "is chosen in spite of a doubt", "but", "must"
    HEDGED = "hedged", "is a guess", "likely", "must"
    CLEFT = "cleft", "is said to be the one who did it", "who", "relative", "affirm", "doer", "doing", "between"
    FULL_MATCH = "full_predicate_match", "its clause holds all words of the predicate that the context has not"
    PREDICATE_MATCH = "predicate_match", "its clause affirms the question's predicate"
    ONLY_MENTION = "only_mention", "is the only one named"
    ELIMINATION = "elimination", "all others are ruled out"
    SEVERAL = "several", "several are named together", "both", "conj"
    # a mention is not chosen
    REASON = "reason", "stands in a reason", "because"
    GRANTED = "concession", "stands in a concession; the main clause says something else", "although"
    ASIDE = "attributed_view", "stands in a prejudice or somebody else's view", "assume", "claim"
    DESCRIBED = "described", "is described beside others"
    DENIED = "denied", "is ruled out", "neg", "wrong", "cannot", "no"
    DENIED_TOO = "denied_too", "is ruled out with the one before", "also"
    NEITHER = "neither", "is ruled out together with another", "neither"
    CORRECTION = "correction", "takes back what was said before", "correction", "no"
    # abstentions
    REFUSAL = "refusal", "declines to answer", "refuse", "judge"
    SENSITIVE = "sensitive", "speaks of prejudice and names nobody", "assume"
    UNCLEAR = "unclear", "says that it is unclear", "unclear"
    UNCLEAR_DENIED = "unclear_denied", "denies that it is unclear", "neg", "unclear"
    NOT_STATED = "not_stated", "says that it is not stated", "not_stated"
    CANNOT_KNOW = "cannot_know", "says that it can't be known", "cannot", "able", "know", "tell"
    NO_INFORMATION = "no_information", "says that there is no information", "lack", "info", "source"
    SOURCE_SILENT = "source_silent", "says that the text doesn't say", "tell", "source"
    NOT_CLEAR = "not_clear", "says that it is not clear", "clear"
    NOT_KNOWN = "not_known", "says that nobody knows", "know"
    NEITHER_STATED = "neither_stated", "says that nothing is stated of either", "neither", "tell"

    def __init__(self, label: str, why: str, *classes: str) -> None:
        self.label = label
        self.why = why
        self.classes = classes


WHY: dict[str, str] = {rule.label: rule.why for rule in Rule} | {
    "boxed": "stands in the box",
    "json": "stands in the answer field of the object",
    "tag": "stands in the answer tag",
    "checked_box": "it is ticked",
    "highest_share": "has the greatest share",
    "whole_response": "is the whole response",
    "announced": "stands behind words that announce the answer",
    "opening": "opens the response",
    "last_line": "is the last line",
    "only_bold": "is the only bold text",
    "predicate_overlap": "its clauses affirm the predicate, those of the other one deny it",
}
"""First part of a rule's name → its meaning."""


class Proposition(NamedTuple):
    """A statement of a response about the options."""

    kind: Kind
    """`unknown` is an abstention; `several` means several options together; `correction` takes back what was said."""
    option: int | None
    positive: bool
    """Whether it supports the option."""
    strength: Strength
    rule: Rule
    line: int
    first: int
    last: int
    """Words `first` up to `last` of the line."""
    sentence: int
    """Number of its sentence in the response."""
    bare: bool = False
    """Whether its clause has no content words."""
    about: About = "question"


@dataclass(slots=True)
class ParsedResponse:
    """A response with its mentions and propositions, in the order of the text."""

    question: PreparedQuestion
    lines: list[Line]
    mentions: list[list[Mention]]
    propositions: list[Proposition] = field(default_factory=list)
    persons: set[int] = field(default_factory=set)
    """All persons with a mention."""
    is_english: bool = False
    """Whether it was read as English although the question is in another language."""
    sentences: int = 0
    """Number of sentences so far."""
    doubted: bool = False
    """Whether an abstention about the question came so far."""
    judged: bool = False
    """Whether a claim was called wrong so far."""
    spoken_of: int | None = None
    """The only person of the last sentence with a person."""


class MentionFeatures(NamedTuple):
    """The features of a mention in its clause.

    `subject`: it comes first; `right`, `also`: the clause has such a word; `infers`: it has "must".
    """

    label: bool
    """It is named by label or ordinal, perhaps with its text."""
    sure: bool
    """It is named by a label that can't be another word."""
    bold: bool
    unknown: bool
    anybody: bool
    """It is indefinite and means any such person: "a baker"."""
    bare: bool
    """The clause has no content words."""
    whole: bool
    """The sentence has no content words and at most two clauses."""
    alone: bool
    """The sentence consists of the mention, is complete, and is no list entry."""
    subject: bool
    others: bool
    """The clause names other options too."""
    joined: bool
    """It is joined with another option by "and", "or" or a comma."""
    fits: bool
    """The clause has the question's predicate, or says who it was."""
    all_fits: bool
    """The clause has all words of the predicate that are not in the context."""
    cleft: bool
    """The clause names the one who did it: "the one who was late is the mother"."""
    ellipsis: bool
    """The clause is elliptic: "The mother did."."""
    denied: bool
    positive: bool
    """Whether the clause affirms the predicate, or the choice, of the option."""
    announces: bool
    """The clause has a word for the answer or for choosing."""
    right: bool
    also: bool
    infers: bool
    opines: bool
    """The writer gives an opinion: "I think"."""
    last_line: bool
    closes: bool
    """Its sentence is the last one and ends with it."""
    known: bool
    """The question's predicate is known."""
    negated: bool
    """The question is negated."""


class ClaimRule(NamedTuple):
    """A rule for the claim of a clause about a mention."""

    rule: Rule
    when: Callable[[MentionFeatures, ClauseState], bool]
    positive: bool | None
    """Whether the claim supports the option; None for `MentionFeatures.positive`."""
    strength: Strength | None
    """None for no claim."""


CLAIM_RULES: tuple[ClaimRule, ...] = (
    ClaimRule(Rule.FORCED_CHOICE, lambda f, s: s.condition and f.bare and not f.denied, True, Strength.HEDGED),
    ClaimRule(Rule.ASIDE, lambda f, s: s.prejudice, True, Strength.DESCRIBED),
    ClaimRule(Rule.DENIED_TOO, lambda f, s: f.also and s.denied, False, Strength.FITTING),
    ClaimRule(Rule.SEVERAL, lambda f, s: f.unknown and f.joined and not f.denied, True, None),
    ClaimRule(Rule.DENIED, lambda f, s: f.unknown and f.denied, False, Strength.FITTING),
    ClaimRule(Rule.ANNOUNCED, lambda f, s: f.unknown and f.sure and f.announces, True, Strength.DECLARED),
    ClaimRule(Rule.ANNOUNCED, lambda f, s: f.unknown and s.conclude, True, Strength.ANNOUNCED),
    ClaimRule(Rule.ONLY_CONTENT, lambda f, s: f.unknown and f.alone, True, Strength.ANNOUNCED),
    ClaimRule(Rule.HEDGED, lambda f, s: f.unknown and f.last_line and not f.label, True, Strength.HEDGED),
    ClaimRule(Rule.DENIED, lambda f, s: f.joined and f.denied and f.bare, False, Strength.FITTING),
    ClaimRule(Rule.ANNOUNCED, lambda f, s: f.announces and f.sure and not f.denied, True, Strength.DECLARED),
    ClaimRule(Rule.ONLY_CONTENT, lambda f, s: f.alone and not (f.ellipsis and f.negated), True, Strength.ANNOUNCED),
    ClaimRule(Rule.BOLD, lambda f, s: f.bold, True, Strength.DECLARED),
    ClaimRule(Rule.ANNOUNCED, lambda f, s: f.right and f.label and not f.denied, True, Strength.ANNOUNCED),
    ClaimRule(Rule.SEVERAL, lambda f, s: f.joined and (f.whole or s.conclude), True, Strength.HEDGED),
    ClaimRule(Rule.SEVERAL, lambda f, s: f.joined, True, None),
    ClaimRule(Rule.CONCLUDED, lambda f, s: f.sure and f.closes and not f.denied, True, Strength.CONCLUDED),
    ClaimRule(Rule.DESCRIBED, lambda f, s: f.anybody, True, Strength.DESCRIBED),
    ClaimRule(Rule.DESCRIBED, lambda f, s: f.others and not f.subject, True, Strength.DESCRIBED),
    ClaimRule(Rule.GRANTED, lambda f, s: s.granted, None, Strength.DESCRIBED),
    ClaimRule(Rule.REASON, lambda f, s: s.because, None, Strength.DESCRIBED),
    ClaimRule(Rule.DENIED, lambda f, s: not f.positive and (f.bare or f.label), False, Strength.FITTING),
    ClaimRule(Rule.ONLY_MENTION, lambda f, s: not f.positive and f.negated, True, Strength.PLAIN),
    ClaimRule(Rule.DENIED, lambda f, s: not f.positive, False, Strength.DESCRIBED),
    ClaimRule(Rule.FORCED_CHOICE, lambda f, s: s.forced, True, Strength.HEDGED),
    ClaimRule(Rule.CONCLUDED, lambda f, s: s.conclude and (f.fits or f.bare), True, Strength.ANNOUNCED),
    ClaimRule(Rule.CONCLUDED, lambda f, s: s.conclude and (f.bare or not f.known), True, Strength.CONCLUDED),
    ClaimRule(Rule.INFERRED, lambda f, s: s.conclude and s.doubted, True, Strength.HEDGED),
    ClaimRule(Rule.CONCLUDED, lambda f, s: s.conclude, True, Strength.FITTING),
    ClaimRule(Rule.INFERRED, lambda f, s: s.turned and s.doubted, True, Strength.HEDGED),
    ClaimRule(Rule.HEDGED, lambda f, s: (s.likely or f.infers) and (f.bare or not f.known), True, Strength.HEDGED),
    ClaimRule(Rule.HEDGED, lambda f, s: f.opines, True, Strength.HEDGED),
    ClaimRule(Rule.CLEFT, lambda f, s: f.cleft, True, Strength.CONCLUDED),
    ClaimRule(Rule.FULL_MATCH, lambda f, s: f.all_fits, True, Strength.FITTING),
    ClaimRule(Rule.PREDICATE_MATCH, lambda f, s: f.fits, True, Strength.FITTING),
    ClaimRule(Rule.DESCRIBED, lambda f, s: f.others, True, Strength.DESCRIBED),
    ClaimRule(Rule.ONLY_MENTION, lambda f, s: True, True, Strength.PLAIN),
)
"""The rules in order; the first one whose condition is true gives the claim."""
