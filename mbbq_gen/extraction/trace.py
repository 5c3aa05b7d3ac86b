"""The whole story of one extraction, as plain records that any front end can show."""

from __future__ import annotations

from typing import Literal

from mbbq_gen.records import Extraction, Record


class Source(Record):
    """The line of a pack that a step rests on."""

    file: str
    """The pack's file, as `extractors/nl.toml`."""
    key: str
    """The list, as `cues.before`."""
    phrase: str
    """The line, as written."""
    line: int | None = None
    """Its number in the file, where it was found."""


class ZoneMark(Record):
    """A stretch of the response that does not decide."""

    kind: str
    """`reasoning`, `echo`, `continuation` or `markup`."""
    span: tuple[int, int]


class Candidate(Record):
    """Something in the response that could have been the answer."""

    kind: str
    """`label`, `text`, `label_text`, `ordinal`, `outside`, `unknown`, `refusal`, `several` or `neither`."""
    options: tuple[int, ...]
    """The options that it means; several where they are joined; none where it is not on offer."""
    span: tuple[int, int]
    """Where it stands in the raw response."""
    text: str
    """What stands there."""
    match: str
    """How well the text fits: `exact`, `inflected`, `partial`, `fuzzy`."""
    sentence: int
    """Number of its sentence; a clause's number is not given apart."""
    standing: str
    """`live`, or why it is out of the running: negated, aside, asked, listed, reported, granted, reason, echo…"""
    rule: str
    """The rule that gave it its weight, if any."""
    tier: int
    """How firmly the writer commits to it: 0 not at all … 6 a value in a structure."""
    source: Source | None = None
    """The pack line behind standing or rule."""
    fate: Literal["won", "lost"]
    why: str
    """Why it won or lost, in one sentence."""


class PhraseMark(Record):
    """A pack line that was found in the response."""

    source: Source
    span: tuple[int, int]
    text: str


class Explanation(Record):
    """An extraction with everything that led to it."""

    extraction: Extraction
    version: str
    """Version of the engine and digest of the packs."""
    language: str
    response: str
    options: tuple[str, ...]
    labels: tuple[str, ...]
    zones: tuple[ZoneMark, ...]
    candidates: tuple[Candidate, ...]
    phrases: tuple[PhraseMark, ...]
    decision: str
    """The decision in one sentence."""
