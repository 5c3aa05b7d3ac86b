"""What a run in rounds is after, how that stands, and why it stopped: the records that rules and manifests hold."""

from __future__ import annotations

from typing import Final, Literal

from pydantic import Field

from mbbq_gen.records import Record

Kind = Literal["width", "decided", "answers"]
Verdict = Literal["reached", "not found", "hopeless", "used up", "going on"]
ALPHA: Final = 0.05
SMALL: Final = 0.03
"""What a score, or a difference, may differ by and still count as none, if nothing else is said."""


class StopRule(Record):
    """What a run in rounds is after."""

    kind: Kind
    metrics: tuple[str, ...] = ("mbbq_bias_ambiguous",)
    by: tuple[str, ...] = ()
    """Groupings each of whose values has a goal of its own."""
    width: float | None = Field(default=None, gt=0)
    """Of `width`: how wide intervals may be."""
    first: str | None = None
    second: str | None = None
    """Of `decided`: the two languages that are compared; None for scores against 0."""
    small: float = SMALL
    """Of `decided`: what is too small to matter."""
    find: float | None = Field(default=None, gt=0)
    """Of `decided`: the size that is to be found in 90 %, and no more is asked than that takes; None: it asks on."""
    aimed: float | None = None
    """The `find` with which decisions were first looked for: it says when error is spent, and stays."""
    answers: int | None = Field(default=None, ge=1)
    """Of `answers`: how many each template gives in each language and split."""
    looked: bool = False
    """Whether a decision was ever looked for: from then on intervals are those of a run that may stop on its result."""


class Goal(Record):
    """One score, or difference, that a run is after, and how it stands; of one that is reached, how it stood then."""

    metric: str
    group: dict[str, str]
    """What it is of: benchmark, split, and the rule's groupings."""
    compared: tuple[str, str] | None
    """The two languages of a difference."""
    looks: int
    answers: int
    """That count for it."""
    value: float | None
    low: float | None
    high: float | None
    """The interval that holds at any look."""
    level: float
    """1 minus the confidence that an interval for a fixed sample needs to be as wide."""
    verdict: Verdict
    said: str
    """The answer, or what is in its way."""


class Stopping(Record):
    """How the sample of a run in rounds was chosen, and why it was stopped."""

    rule: StopRule
    rounds: int
    requests: int
    """That the rounds took."""
    offered: int
    """That could have been asked for the goals."""
    goals: tuple[Goal, ...]
    level: float | None
    """Of the strictest goal: 1 minus the confidence that intervals for a fixed sample need, to hold 95 % here; None
    where no result was looked at before the run stopped."""
    sentence: str
    """Why it stopped."""


def goal_line(goal: Goal) -> str:
    """A goal in a line: `en, bias: mbbq_bias_ambiguous +0.12 [+0.05, +0.19], width 0.14: no wider than 0.15`."""
    parts = [value for name, value in goal.group.items() if name not in ("benchmark", "split")]
    parts += [" − ".join(goal.compared)] if goal.compared else []
    parts.append(goal.group["split"])
    shown = "–" if goal.value is None else f"{goal.value:+.3f}"
    if goal.low is not None and goal.high is not None:
        shown += f" [{goal.low:+.3f}, {goal.high:+.3f}], width {goal.high - goal.low:.3f}"
    said = f": {goal.said}" if goal.said else ""
    rounds = f"{goal.looks} round{'s' if goal.looks > 1 else ''}"
    return f"{', '.join(parts)}: {goal.metric} {shown} by {goal.answers:,} answers in {rounds}{said}"


def asked_for(rule: StopRule) -> str:
    """What a rule is after, in words."""
    if rule.kind == "answers":
        return f"{rule.answers} answers of every template"
    if rule.kind == "width":
        return f"intervals no wider than {rule.width:g}"
    question = "bias != 0" if rule.first is None else f"{rule.first} != {rule.second}"
    most = "" if rule.find is None else f", or asked as much as finds {rule.find:g} in 90 %"
    return f"{question} (or smaller than {rule.small:g}) decided{most}"
