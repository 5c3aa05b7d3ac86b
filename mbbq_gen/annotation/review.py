"""Annotation of extractions by people: stratified sample, annotations, agreement rate.

    RUN/annotation-draws.jsonl      the samples that were drawn; `annotate` continues the last one
    RUN/annotations.jsonl           one annotation per line; the last one of a prompt counts

An annotation names the correct option, so it is about the response and applies to every extractor.
"""

from __future__ import annotations

import heapq
import math
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeVar, get_args

from pydantic import Field, ValidationError

from mbbq_gen.core.errors import DataError, RunError, describe_fault
from mbbq_gen.core.files import stable_number
from mbbq_gen.core.records import NO_RESPONSE, FrozenModel, Outcome
from mbbq_gen.statistics.intervals import Proportion, proportion
from mbbq_gen.storage.queries import ExtractionRow

ANNOTATIONS_NAME = "annotations.jsonl"
DRAWS_NAME = "annotation-draws.jsonl"
Grouping = Literal["language", "outcome", "rule", "confidence", "variant", "label_style", "split", "category"]
GROUPINGS: tuple[Grouping, ...] = get_args(Grouping)
REST = "(rest)"
"""Replaces the values of a grouping that are too rare for a stratum."""

Stratum = tuple[str, ...]


class SamplingDesign(FrozenModel):
    """How a sample is drawn."""

    sample: int = Field(default=200, ge=1)
    by: tuple[Grouping, ...] = ("language", "outcome", "rule")
    seed: int = 0
    languages: tuple[str, ...] | None = None
    extractor: str = "rules"


class Annotation(FrozenModel):
    """A person's annotation of one extraction."""

    prompt_id: str
    extractor: str
    outcome: Outcome
    option: int | None
    right: int | None
    """The option that the response chooses; None if it chooses none."""
    note: str = ""
    at: str

    @property
    def agrees(self) -> bool:
        """Whether the extraction is the correct one."""
        return self.right == self.option


def annotate_response(extraction: ExtractionRow, *, right: int | None, note: str = "") -> Annotation:
    """The annotation of an extraction, with the correct option."""
    shown = {name: getattr(extraction, name) for name in ("prompt_id", "extractor", "outcome", "option")}
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return Annotation(**shown, right=right, note=note, at=now)


class DrawnStratum(FrozenModel):
    """One stratum of a draw."""

    key: Stratum
    size: int
    """Answers that could have been drawn."""
    drawn: tuple[str, ...]
    """Prompt ids, in the order in which they are annotated."""


class SamplingDraw(FrozenModel):
    """One sample: its design, and the strata, which determine the weights of the annotations."""

    design: SamplingDesign
    extractors: dict[str, str]
    """Language → the extractor version that defined the strata."""
    strata: tuple[DrawnStratum, ...]


# --- the files -------------------------------------------------------------------------------------------------------

_Record = TypeVar("_Record", Annotation, SamplingDraw)


def _load(path: Path, kind: type[_Record]) -> list[_Record]:
    """The records of a file, except an incomplete last line; DataError for an invalid line, RunError if unreadable."""
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunError(f"{path}: {error.strerror or error}") from error
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            found += [kind.model_validate_json(line)] if line.strip() else []
        except ValidationError as error:
            if number < len(lines):
                raise DataError(f"{path}:{number}: {describe_fault(error, {})}; correct or delete the line") from error
    return found


def load_draws(path: Path) -> list[SamplingDraw]:
    """The draws of a run in order; empty without a file. Raises DataError and RunError."""
    return _load(path, SamplingDraw)


def load_annotations(path: Path) -> dict[str, Annotation]:
    """Prompt id → its last annotation; empty without a file. Raises DataError and RunError."""
    return {annotation.prompt_id: annotation for annotation in _load(path, Annotation)}


def append_records(path: Path, records: Iterable[Annotation | SamplingDraw]) -> None:
    """Appends annotations or draws to their file; durable when this returns. Raises RunError."""
    lines = "".join(f"{record.model_dump_json()}\n" for record in records)
    try:
        with path.open("ab+") as stream:
            if stream.seek(0, os.SEEK_END):
                stream.seek(-1, os.SEEK_END)
                if stream.read(1) != b"\n":  # the last line is incomplete; writes always append
                    lines = f"\n{lines}"
            stream.write(lines.encode())
            stream.flush()
            os.fsync(stream.fileno())
    except OSError as error:
        raise RunError(f"{path}: can't write: {error.strerror or error}; the last annotation is not stored") from error


# --- the sample ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ReviewSample:
    """Extractions in strata, and those drawn for annotation."""

    strata: Mapping[Stratum, Sequence[ExtractionRow]]
    """All extractions that could have been drawn."""
    drawn: tuple[ExtractionRow, ...]
    """In random order: the order of annotation."""

    def draw(self, design: SamplingDesign, extractors: Mapping[str, str]) -> SamplingDraw:
        """The record of the sample."""
        strata = []
        for key, members in self.strata.items():
            ids = {member.prompt_id for member in members}
            drawn = tuple(extraction.prompt_id for extraction in self.drawn if extraction.prompt_id in ids)
            strata.append(DrawnStratum(key=key, size=len(members), drawn=drawn))
        return SamplingDraw(design=design, extractors=dict(extractors), strata=tuple(strata))


def can_be_annotated(extraction: ExtractionRow) -> bool:
    """Whether there is a response to annotate."""
    return extraction.outcome not in {*NO_RESPONSE, "empty"} and extraction.rule != "response.length"


def draw_sample(extractions: Iterable[ExtractionRow], design: SamplingDesign) -> ReviewSample:
    """A stratified sample, in proportion to the square roots of stratum sizes, at least one each.

    The smallest strata are merged until there are at most half as many strata as samples. The draw depends only on the
    seed and the prompt, so a larger sample of the same strata contains the smaller one.
    """
    size, by = design.sample, design.by
    strata: dict[Stratum, list[ExtractionRow]] = defaultdict(list)
    for extraction in filter(can_be_annotated, extractions):
        strata[tuple(getattr(extraction, name) for name in by)].append(extraction)
    for depth in range(len(by) - 1, -1, -1):
        for stratum in sorted(strata, key=lambda key: (len(strata[key]), key)):
            if len(strata) <= max(1, size // 2):
                break
            rest = (*stratum[:depth], *[REST] * (len(by) - depth))
            if stratum != rest:
                strata[rest] = [*strata.get(rest, ()), *strata.pop(stratum)]
    strata = dict(sorted(strata.items()))
    shares = allocate({stratum: len(members) for stratum, members in strata.items()}, size)

    def rank(extraction: ExtractionRow) -> int:
        return stable_number(design.seed, extraction.prompt_id)

    drawn = [one for stratum, members in strata.items() for one in sorted(members, key=rank)[: shares[stratum]]]
    return ReviewSample(strata, tuple(sorted(drawn, key=rank)))


def allocate(sizes: Mapping[Stratum, int], total: int) -> dict[Stratum, int]:
    """The number to draw from each stratum: in proportion to square roots, at least one."""
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

Mistake = Literal["wrong_option", "spurious", "missed"]
"""Another option than the correct one; an option though none is correct; no option though one is."""


class Disagreement(FrozenModel):
    """An extraction annotated as wrong."""

    prompt_id: str
    language: str
    outcome: Outcome
    option: int | None
    rule: str
    mistake: Mistake
    right: int | None
    note: str


class AgreementRate(FrozenModel):
    """How often the extractions of a group are correct."""

    group: str
    n_extractions: int
    judged: Proportion
    """Share of correct extractions among the annotated ones, unweighted."""
    weighted: Proportion
    """Weighted by the number of extractions that each represents: an estimate for the whole run."""


class AnnotationReport(FrozenModel):
    """The annotations of a run, summarised."""

    extractors: dict[str, str]
    by: tuple[str, ...]
    confidence_level: float
    coverage: float | None
    """Share of the run's extractions in strata with an annotation, which the weighted shares cover."""
    overall: AgreementRate
    by_language: tuple[AgreementRate, ...]
    mistakes: dict[Mistake, int]
    disagreements: tuple[Disagreement, ...]


def annotation_report(
    sample: ReviewSample,
    annotations: Mapping[str, Annotation],
    extractors: Mapping[str, str],
    by: Sequence[str],
    interval: float = 0.95,
) -> AnnotationReport:
    """The report of the annotations in these strata."""
    known: dict[str, tuple[bool, float]] = {}
    """Prompt id → whether its extraction is correct, and how many extractions the annotation represents."""
    wrong: list[ExtractionRow] = []
    covered = 0
    for members in sample.strata.values():
        judged = [one for one in members if one.prompt_id in annotations]
        covered += len(members) if judged else 0
        for one in judged:
            is_right = one.option == annotations[one.prompt_id].right
            known[one.prompt_id] = is_right, len(members) / len(judged)
            wrong += [] if is_right else [one]

    def rate(group: str, extractions: Sequence[ExtractionRow]) -> AgreementRate:
        found = [known[one.prompt_id] for one in extractions if one.prompt_id in known]
        return AgreementRate(
            group=group,
            n_extractions=len(extractions),
            judged=proportion([(right, 1.0) for right, _ in found], interval),
            weighted=proportion(found, interval),
        )

    extractions = [extraction for members in sample.strata.values() for extraction in members]
    languages = sorted({extraction.language for extraction in extractions})
    disagreements = []
    for one in wrong:
        annotation, mistake = annotations[one.prompt_id], _mistake(one, annotations[one.prompt_id])
        shown = {name: getattr(one, name) for name in ("prompt_id", "language", "outcome", "option", "rule")}
        disagreements.append(Disagreement(**shown, mistake=mistake, right=annotation.right, note=annotation.note))
    counts = Counter(disagreement.mistake for disagreement in disagreements)
    return AnnotationReport(
        extractors=dict(extractors),
        by=tuple(by),
        confidence_level=interval,
        coverage=covered / len(extractions) if extractions else None,
        overall=rate("all", extractions),
        by_language=tuple(rate(code, [one for one in extractions if one.language == code]) for code in languages),
        mistakes={mistake: counts[mistake] for mistake in get_args(Mistake)},
        disagreements=tuple(disagreements),
    )


def _mistake(extraction: ExtractionRow, annotation: Annotation) -> Mistake:
    if annotation.right is None:
        return "spurious"
    return "missed" if extraction.option is None else "wrong_option"
