"""The records that a comparison of two runs leaves in: what `mbbq-gen diff --json` writes."""

from __future__ import annotations

from typing import Literal

from pydantic import JsonValue

from mbbq_gen.records import Record
from mbbq_gen.scoring import Labels, Undetected
from mbbq_gen.statistics.panel import EstimateScore
from mbbq_gen.statistics.significance import TestResult

Area = Literal["settings", "model", "versions", "packs", "questions", "files", "extractors"]
Tier = Literal["same_request", "same_presentation", "same_wording", "same_question"]


class Differing(Record):
    """Something that shaped the numbers and is not the same in both runs."""

    area: Area
    """settings: what the user asked for; model: what shapes its text, and where it ran; versions: of mbbq-gen and
    Python; packs and files: sha256; questions: sha256 of a benchmark's questions; extractors: who read, by language."""
    name: str
    first: JsonValue
    """None where the first run has no such thing."""
    second: JsonValue


class Answering(Record):
    """Who answered, by its own or its server's word."""

    model: str | None
    fingerprint: str | None
    """The service's mark of the system that answered."""
    responses: int


class Side(Record):
    """One of the two runs."""

    run: str
    model: str
    created_at: str
    requests: int
    answered: int
    items: int
    """Presentations whose answers have been read."""
    answering: tuple[Answering, ...]


class Matched(Record):
    """How the items of the two runs were paired: each tier takes what the ones above left over."""

    same_request: int
    """The very same messages were sent."""
    same_presentation: int
    """The same question, wording, labels and option order; the messages differ (pack, system message, examples)."""
    same_wording: int
    """The same question and wording, asked once in each run; the options stood in another order or had other labels."""
    same_question: int
    """The same question, asked once more in each run, in other wordings."""
    only_first: int
    only_second: int

    @property
    def pairs(self) -> int:
        """Items that have a partner."""
        return self.same_request + self.same_presentation + self.same_wording + self.same_question


class FlipExample(Record):
    """One item whose answer is another one; `mbbq-gen explain RUN ID` shows each."""

    instance_key: str
    first_id: str
    """Presentation id in the first run."""
    second_id: str


class Flip(Record):
    """How many paired items got one answer in the first run and another in the second."""

    first: str
    """The role chosen (`person` for one without a role), or how the answer was read where it names no option."""
    second: str
    count: int
    reread: int
    """Those among them whose response is the same, letter for letter, to the same options: only the reading differs."""
    examples: tuple[FlipExample, ...]


class MetricChange(Record):
    """One score in both runs, over the paired items."""

    first: EstimateScore
    second: EstimateScore
    change: EstimateScore
    """Second minus first, paired by template."""
    test: TestResult
    """Of the change against 0; p_adjusted is Benjamini and Hochberg's over all groups, for each metric."""


class GroupChange(Record):
    """What changed in one benchmark, language and split."""

    group: dict[str, str | None]
    items: int
    """Paired items."""
    flipped: int
    became_right: int
    became_wrong: int
    metrics: dict[str, MetricChange]


class RunDifference(Record):
    """What differs between two runs."""

    schema_version: Literal["mbbq-gen.diff/1"] = "mbbq-gen.diff/1"
    first: Side
    second: Side
    differing: tuple[Differing, ...]
    matched: Matched
    flipped: int
    """Paired items with another answer."""
    flips: tuple[Flip, ...]
    """Most frequent first."""
    groups: tuple[GroupChange, ...]
    labels: Labels
    undetected: Undetected
    interval: float
    resamples: int
    seed: int
    sign: str = "changes are second minus first; a bias above 0 leans to the stereotype"
