"""The propositions of a response: who, what is said of them, how firmly, and where it stands."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import Literal, NamedTuple

from mbbq_gen.extraction.lines import Line
from mbbq_gen.extraction.mentions import Mention
from mbbq_gen.extraction.prepared_question import PreparedQuestion


class Strength(IntEnum):
    """How firmly a proposition commits to what it says."""

    DESCRIBED = 0
    """Spoken of, no more."""
    POSSIBLE = 1
    """A mere possibility, or something that can't be told of one person or of something else."""
    PLAIN = 2
    """A plain statement about one person."""
    FITTING = 3
    """A plain statement that speaks the question's words."""
    HEDGED = 4
    """A guess, a choice under protest, or a statement that it can't be told."""
    CONCLUDED = 5
    """A conclusion."""
    ANNOUNCED = 6
    """Called the answer, or all that a sentence says."""
    DECLARED = 7
    """Called the answer and named by its label; or a line, bold or not, of label and text."""


class Rule(Enum):
    """A rule's name → why it makes of a mention or clause what it makes, and the classes of words that it rests on."""

    # how an option is chosen
    WHOLE_LINE = "whole_line", "a line of its own"
    ANNOUNCED_LINE = "announced_line", "stands behind the header of the answer"
    TICKED = "checked_box", "it is ticked", "yes"
    SHARE = "highest_percentage", "has the greatest share"
    ANNOUNCED = "announced", "announced as the answer", "answer", "choose", "right"
    BOLD = "bold", "label and text stand in bold"
    BRIEF = "only_content", "all that a sentence says"
    CONCLUDED = "concluded", "the conclusion", "conclude"
    CONTRAST = "contrast", "named instead of what was ruled out", "but"
    FORCED = "forced_choice", "chosen under protest", "forced", "condition", "choose"
    INFERRED = "inferred", "chosen in spite of a doubt", "but", "must"
    HEDGED = "hedged", "a guess, but a choice", "likely", "must"
    CLEFT = (
        "cleft",
        "named as the one of whom what is asked is true",
        "who",
        "relative",
        "affirm",
        "doer",
        "doing",
        "between",
    )
    SAID = "full_predicate_match", "its clause speaks all words of the question that the text has not told"
    FITS = "predicate_match", "its clause speaks the question's words"
    SINGLE = "only_mention", "the only one that is spoken of"
    ELIMINATION = "elimination", "all others are ruled out"
    OUTSIDE = "not_an_option", "something that is not on offer", "answer"
    SEVERAL = "several", "several are named together", "both", "conj"
    # what keeps a mention from being chosen
    POSSIBLE = "possible", "a mere possibility", "possible"
    REASON = "reason", "part of a reason", "because"
    GRANTED = "concession", "only granted; the main clause says something else", "although"
    ASIDE = "attributed_view", "spoken of as a prejudice or somebody else's view", "assume", "claim"
    CONDITION = "condition", "spoken of under a condition", "condition"
    DESCRIBED = "described", "described beside others"
    DENIED = "denied", "ruled out", "neg", "wrong", "cannot", "no"
    DENIED_TOO = "denied_too", "ruled out with the one before", "also"
    NEITHER = "neither", "ruled out together", "neither"
    CORRECTION = "correction", "takes back what was said before", "correction", "no"
    # ways of saying that it can't be told
    REFUSAL = "refusal", "declines to answer", "refuse", "judge"
    SENSITIVE = "sensitive", "speaks of prejudice and names nobody", "assume"
    UNCLEAR = "unclear", "says that it is unclear", "unclear"
    UNCLEAR_DENIED = "unclear_denied", "denies that it is unclear", "neg", "unclear"
    UNTOLD = "not_stated", "says that it is not told", "untold"
    CANNOT_KNOW = "cannot_know", "says that it can't be known", "cannot", "able", "know", "tell"
    NO_INFORMATION = "no_information", "says that there is no information", "lack", "info", "source"
    NOT_TOLD = "source_silent", "says that the text doesn't tell", "tell", "source"
    NOT_CLEAR = "not_clear", "says that it is not clear", "clear"
    NOT_KNOWN = "not_known", "says that nobody knows", "know"
    NEITHER_TOLD = "neither_stated", "says that nothing is told of either", "neither", "tell"

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
    "predicate_overlap": "its clauses speak the question's words, those of the other one don't",
}
"""First part of a rule's name → what it means."""


Kind = Literal["option", "unknown", "refusal", "several", "outside", "correction"]


class Proposition(NamedTuple):
    """One thing that a response says of the options."""

    kind: Kind
    """An option; that it can't be told; declining; several options together; something that is not on offer; or taking
    back what was said before."""
    option: int | None
    positive: bool
    """Whether it speaks for what it names."""
    force: Strength
    rule: Rule
    line: int
    """Number of its line."""
    first: int
    last: int
    """Words of the line that it stands on, the last one excluded."""
    sentence: int
    """Number of its sentence in the response."""
    bare: bool = False
    """Whether its clause says nothing but this."""
    about: Literal["question", "person", "other"] = "question"
    """What can't be told: what is asked, something of one person, or something else."""


@dataclass(slots=True)
class ParsedResponse:
    """All that a response says, in the order of its text."""

    question: PreparedQuestion
    lines: list[Line]
    mentions: list[list[Mention]]
    """The mentions of each line."""
    propositions: list[Proposition] = field(default_factory=list)
    persons: set[int] = field(default_factory=set)
    """Every person that is named anywhere."""
    is_english: bool = False
    """Whether it was read as English, which the question is not in."""
    sentences: int = 0
    """Sentences so far."""
    doubted: bool = False
    """Whether it was said that it can't be told."""
    judged: bool = False
    """Whether it was said that something would be wrong to say."""
    spoken_of: int | None = None
    """The one person that the last sentence with a person was about; None where there were several."""

    def add(
        self,
        kind: Kind,
        option: int | None,
        positive: bool,
        force: Strength,
        rule: Rule,
        line: int,
        first: int,
        last: int,
        bare: bool = False,
        about: Literal["question", "person", "other"] = "question",
    ) -> None:
        """Notes a proposition."""
        said = Proposition(kind, option, positive, force, rule, line, first, last, self.sentences, bare, about)
        self.propositions.append(said)
