"""What a proposition rests on: every rule by name, with the sentence that explains it."""

from __future__ import annotations

from enum import Enum, IntEnum


class Force(IntEnum):
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
    LEAD = "lead", "the line begins with its label"
    VERDICT = "verdict", "a verdict stands beside it", "right", "wrong", "yes", "no"
    TICKED = "ticked", "it is ticked", "yes"
    SHARE = "share", "has the greatest share"
    REPLY = "reply", "the answer to a question about it", "yes", "no", "neg"
    ANNOUNCED = "announced", "announced as the answer", "answer", "choose", "right"
    BOLD = "bold", "label and text stand in bold"
    BRIEF = "brief", "all that a sentence says"
    CONCLUDED = "concluded", "the conclusion", "conclude"
    CONTRAST = "contrast", "named instead of what was ruled out", "but"
    FORCED = "forced", "chosen under protest", "forced", "condition", "choose"
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
    SAID = "said", "its clause speaks all words of the question that the text has not told"
    FITS = "fits", "its clause speaks the question's words"
    SINGLE = "single", "the only one that is spoken of"
    ELIMINATION = "elimination", "all others are ruled out"
    OUTSIDE = "outside", "something that is not on offer", "answer"
    SEVERAL = "several", "several are named together", "both", "conj"
    # what keeps a mention from being chosen
    POSSIBLE = "possible", "a mere possibility", "possible"
    REASON = "reason", "part of a reason", "because"
    GRANTED = "granted", "only granted; the main clause says something else", "although"
    ASIDE = "aside", "spoken of as a prejudice or somebody else's view", "assume", "claim"
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
    UNTOLD = "untold", "says that it is not told", "untold"
    CANNOT_KNOW = "cannot_know", "says that it can't be known", "cannot", "able", "know", "tell"
    NO_INFORMATION = "no_information", "says that there is no information", "lack", "info", "source"
    NOT_TOLD = "not_told", "says that the text doesn't tell", "tell", "source"
    NOT_CLEAR = "not_clear", "says that it is not clear", "clear"
    NOT_KNOWN = "not_known", "says that nobody knows", "know"
    NEITHER_TOLD = "neither_told", "says that nothing is told of either", "neither", "tell"

    def __init__(self, label: str, why: str, *classes: str) -> None:
        self.label = label
        self.why = why
        self.classes = classes


WHY: dict[str, str] = {rule.label: rule.why for rule in Rule} | {
    "boxed": "stands in the box",
    "json": "stands in the answer field of the object",
    "tag": "stands in the answer tag",
}
"""First part of a rule's name → what it means."""
