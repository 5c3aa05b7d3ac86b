"""Checks readings by eye: a stratified sample of them, a person's verdicts, and how often the two agree.

How the sample is drawn stands in RUN/audit-sample.json, so that going on, and the result, mean the same sample.
Verdicts stand in RUN/audit.jsonl, one a line, the last of a presentation being the one that counts. A verdict that
names the right option is about the response, so it goes on judging whatever reads it later; one that only says "wrong"
judges the reading that it was given for.
"""

from __future__ import annotations

import heapq
import math
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Literal, Self, get_args

from pydantic import Field, ValidationError, model_validator

from mbbq_gen.errors import DataError, RunError
from mbbq_gen.languages import describe_fault
from mbbq_gen.records import NOT_HAD, Outcome, Record
from mbbq_gen.runs.lookup import Reading
from mbbq_gen.seeding import stable_number
from mbbq_gen.statistics.proportion import Proportion, proportion

VERDICTS_NAME = "audit.jsonl"
DESIGN_NAME = "audit-sample.json"
Grouping = Literal["language", "outcome", "rule", "confidence", "variant", "label_style", "split", "category"]
GROUPINGS: tuple[Grouping, ...] = get_args(Grouping)
"""What a sample can be stratified by."""
REST = "(rest)"
"""Stands for the values of a grouping that are too rare for a stratum of their own."""

Stratum = tuple[str, ...]


class Design(Record):
    """How the sample is drawn; kept beside the verdicts, for the stratum that one was drawn from is what weighs it."""

    sample: int = Field(default=200, ge=1)
    """Readings to judge."""
    by: tuple[Grouping, ...] = ("language", "outcome", "rule")
    seed: int = 0
    languages: tuple[str, ...] | None = None
    """None: all of the run."""
    extractor: str = "engine"
    """Whose readings."""


class Verdict(Record):
    """What a person says of one reading."""

    presentation_id: str
    extractor: str
    """Version whose reading was judged."""
    outcome: Outcome
    """The reading that was judged."""
    option: int | None
    agrees: bool
    right_known: bool
    """Whether the person said what is right."""
    right: int | None = None
    """The option that the response chooses; None where it chooses none, or where it is not known."""
    note: str = ""
    at: str
    """When: ISO 8601, UTC."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.agrees != (self.right_known and self.right == self.option):
            raise ValueError("agrees: contradicts the option that is said to be right")
        return self

    def judges(self, reading: Reading) -> bool | None:
        """Whether a reading of the same response is right; None where this verdict does not tell."""
        if self.right_known:
            return reading.option == self.right
        return False if reading.option == self.option else None


def verdict_on(reading: Reading, at: str, *, right: int | None, right_known: bool = True, note: str = "") -> Verdict:
    """The verdict that a person gives on a reading by saying what is right, or that it is wrong."""
    return Verdict(
        presentation_id=reading.presentation_id,
        extractor=reading.extractor,
        outcome=reading.outcome,
        option=reading.option,
        agrees=right_known and right == reading.option,
        right_known=right_known,
        right=right,
        note=note,
        at=at,
    )


# --- the files -------------------------------------------------------------------------------------------------------


def load_design(path: Path) -> Design:
    """How the run's sample is drawn; the usual way where nothing was said yet.

    Raises:
        DataError: where the file is not what we wrote.
        RunError: where it can't be read.
    """
    try:
        return Design.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return Design()
    except OSError as error:
        raise RunError(f"{path}: {error.strerror or error}") from error
    except ValidationError as error:
        raise DataError(f"{path}: {describe_fault(error, {})}; mend or delete the file") from error


def save_design(path: Path, design: Design) -> None:
    """Keeps how the sample is drawn.

    Raises:
        RunError: where it can't be written.
    """
    temporary = path.with_name(f"{path.name}.part")
    try:
        temporary.write_text(design.model_dump_json(indent=2) + "\n", encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise RunError(f"{path}: can't write: {error.strerror or error}") from error


def load_verdicts(path: Path) -> dict[str, Verdict]:
    """Presentation id → the last verdict on it; empty where there is no file.

    A last line that was cut off while it was written is passed over.

    Raises:
        DataError: where a line is no verdict: file, row, field.
        RunError: where the file can't be read.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise RunError(f"{path}: {error.strerror or error}") from error
    found: dict[str, Verdict] = {}
    lines = raw.split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            verdict = Verdict.model_validate_json(line)
        except ValidationError as error:
            if number == len(lines):
                break
            raise DataError(f"{path}:{number}: {describe_fault(error, {})}; mend or delete the line") from error
        found[verdict.presentation_id] = verdict
    return found


def append_verdicts(path: Path, verdicts: Iterable[Verdict]) -> None:
    """Adds verdicts to the file; they are durable when this returns.

    Raises:
        RunError: where it can't be written.
    """
    lines = "".join(f"{verdict.model_dump_json()}\n" for verdict in verdicts)
    try:
        with path.open("ab+") as stream:
            if stream.seek(0, os.SEEK_END) and not _ends_whole(stream):
                lines = f"\n{lines}"
            stream.write(lines.encode())
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise RunError(f"{path}: can't write: {error.strerror or error}; the last verdict is not kept") from error


def _ends_whole(stream: BinaryIO) -> bool:
    """Whether the last line is a whole one; whatever is written next goes to the end all the same."""
    stream.seek(-1, os.SEEK_END)
    return stream.read(1) == b"\n"


# --- the sample ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Sample:
    """Readings in strata, and those of them that are to be judged."""

    strata: Mapping[Stratum, Sequence[Reading]]
    """All readings that could have been drawn."""
    drawn: tuple[Reading, ...]
    """In the order in which they are judged: by chance."""


def can_be_judged(reading: Reading) -> bool:
    """Whether there is a response to judge a reading by."""
    return reading.outcome not in NOT_HAD and reading.outcome != "empty" and reading.rule != "response.length"


def draw_sample(readings: Iterable[Reading], design: Design) -> Sample:
    """A sample of so many readings, from every stratum in proportion to the root of its size, at least one.

    So rare rules and outcomes are looked at, and frequent ones more. Strata that are too small are merged until there
    are at most half as many as readings to judge. Who is drawn depends on the seed and the presentation alone: a
    greater sample of the same strata holds the smaller one.
    """
    size, chance = design.sample, _chance(design.seed)
    strata = _strata([reading for reading in readings if can_be_judged(reading)], design.by, max(1, size // 2))
    shares = allocate({stratum: len(members) for stratum, members in strata.items()}, size)
    drawn = [
        reading for stratum, members in strata.items() for reading in sorted(members, key=chance)[: shares[stratum]]
    ]
    return Sample(strata, tuple(sorted(drawn, key=chance)))


def _chance(seed: int) -> Callable[[Reading], int]:
    return lambda reading: stable_number(seed, reading.presentation_id)


def _strata(readings: Sequence[Reading], by: Sequence[Grouping], limit: int) -> dict[Stratum, list[Reading]]:
    """The readings by stratum; the smallest go into a rest of the same first groupings until there are few enough."""
    strata: dict[Stratum, list[Reading]] = defaultdict(list)
    for reading in readings:
        strata[tuple(getattr(reading, name) for name in by)].append(reading)
    for depth in range(len(by) - 1, -1, -1):
        for stratum in sorted(strata, key=lambda key: (len(strata[key]), key)):
            if len(strata) <= limit:
                break
            rest = (*stratum[:depth], *[REST] * (len(by) - depth))
            if stratum != rest:
                strata[rest] = [*strata.get(rest, ()), *strata.pop(stratum)]
    return dict(sorted(strata.items()))


def allocate(sizes: Mapping[Stratum, int], total: int) -> dict[Stratum, int]:
    """How many to draw from each stratum: one at least, the rest in proportion to the roots of the sizes."""
    given = dict.fromkeys(sizes, 0)
    waiting = [(-math.inf, stratum) for stratum, size in sizes.items() if size]
    heapq.heapify(waiting)
    for _ in range(min(total, sum(sizes.values()))):
        _, stratum = heapq.heappop(waiting)
        given[stratum] += 1
        if given[stratum] < sizes[stratum]:
            heapq.heappush(waiting, (-math.sqrt(sizes[stratum]) / given[stratum], stratum))
    return given


# --- the result ------------------------------------------------------------------------------------------------------

Mistake = Literal["wrong_option", "no_answer_there", "missed", "unknown_kind"]
"""Another option than the right one; an option where there is no answer; no option where there is one; not said."""


class Disagreement(Record):
    """A reading that a person calls wrong."""

    presentation_id: str
    language: str
    outcome: Outcome
    option: int | None
    rule: str
    mistake: Mistake
    right: int | None
    note: str


class Share(Record):
    """How often the readings of a group are right."""

    group: str
    readings: int
    """In the run."""
    judged: Proportion
    """Of those judged, each counting the same."""
    weighted: Proportion
    """Each weighing as much as the readings of its stratum that it stands for: an estimate for the whole run."""


class AuditReport(Record):
    """What the verdicts say of the readings of a run."""

    extractors: dict[str, str]
    """Language → the version whose readings these are."""
    by: tuple[str, ...]
    interval: float
    covered: float | None
    """Share of the run's readings whose stratum has a verdict: what the weighted shares speak of."""
    overall: Share
    by_language: tuple[Share, ...]
    by_stratum: tuple[Share, ...]
    mistakes: dict[Mistake, int]
    disagreements: tuple[Disagreement, ...]
    untold: int
    """Verdicts "wrong" on an earlier reading that has changed since: they have to be given anew."""


def audit_report(
    sample: Sample,
    verdicts: Mapping[str, Verdict],
    extractors: Mapping[str, str],
    by: Sequence[str],
    interval: float = 0.95,
) -> AuditReport:
    """What the verdicts say of the readings in these strata, whoever drew them."""
    judged = _Judged(sample, verdicts, interval)
    readings = [reading for members in sample.strata.values() for reading in members]
    languages = sorted({reading.language for reading in readings})
    covered = sum(len(members) for stratum, members in sample.strata.items() if judged.weights.get(stratum))
    disagreements = [_disagreement(reading, verdicts[reading.presentation_id]) for reading in judged.wrong]
    mistakes: dict[Mistake, int] = dict.fromkeys(get_args(Mistake), 0)
    for disagreement in disagreements:
        mistakes[disagreement.mistake] += 1
    return AuditReport(
        extractors=dict(extractors),
        by=tuple(by),
        interval=interval,
        covered=covered / len(readings) if readings else None,
        overall=judged.share("all", readings),
        by_language=tuple(
            judged.share(code, [reading for reading in readings if reading.language == code]) for code in languages
        ),
        by_stratum=tuple(judged.share(" / ".join(key), members) for key, members in sample.strata.items()),
        mistakes=mistakes,
        disagreements=tuple(disagreements),
        untold=judged.untold,
    )


class _Judged:
    """Verdicts laid over the readings: which are right, and how much each weighs."""

    def __init__(self, sample: Sample, verdicts: Mapping[str, Verdict], interval: float) -> None:
        self._interval = interval
        self._right: dict[str, bool] = {}
        self._stratum: dict[str, Stratum] = {}
        self.weights: dict[Stratum, float] = {}
        """Stratum → readings that each verdict in it stands for; without those that have no verdict."""
        self.wrong: list[Reading] = []
        self.untold = 0
        for stratum, members in sample.strata.items():
            given = [
                (reading, verdicts[reading.presentation_id])
                for reading in members
                if reading.presentation_id in verdicts
            ]
            told = sum(self._judge(reading, verdict, stratum) for reading, verdict in given)
            if told:
                self.weights[stratum] = len(members) / told

    def _judge(self, reading: Reading, verdict: Verdict, stratum: Stratum) -> bool:
        """Keeps what a verdict says of a reading; says whether it says anything."""
        right = verdict.judges(reading)
        if right is None:
            self.untold += 1
            return False
        self._right[reading.presentation_id] = right
        self._stratum[reading.presentation_id] = stratum
        if not right:
            self.wrong.append(reading)
        return True

    def share(self, group: str, readings: Sequence[Reading]) -> Share:
        """How often the readings of a group are right."""
        ids = [reading.presentation_id for reading in readings if reading.presentation_id in self._right]
        return Share(
            group=group,
            readings=len(readings),
            judged=proportion([(self._right[name], 1.0) for name in ids], self._interval),
            weighted=proportion(
                [(self._right[name], self.weights[self._stratum[name]]) for name in ids], self._interval
            ),
        )


def _disagreement(reading: Reading, verdict: Verdict) -> Disagreement:
    mistake: Mistake = "wrong_option"
    if not verdict.right_known:
        mistake = "unknown_kind"
    elif verdict.right is None:
        mistake = "no_answer_there"
    elif reading.option is None:
        mistake = "missed"
    return Disagreement(
        presentation_id=reading.presentation_id,
        language=reading.language,
        outcome=reading.outcome,
        option=reading.option,
        rule=reading.rule,
        mistake=mistake,
        right=verdict.right,
        note=verdict.note,
    )
