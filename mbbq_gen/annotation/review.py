"""Annotation of extractions by a person: a stratified sample, the annotations, and the rate of agreement.

The sampling design is kept in RUN/annotation-sample.json, so that later sessions and the report use the same sample.
Annotations are kept in RUN/annotations.jsonl, one per line; the last one of a prompt counts. An annotation that names
the correct option is about the response, and so applies to every extractor; one that only says "wrong" applies to the
extraction that was shown.
"""

from __future__ import annotations

import heapq
import math
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Self, get_args

from pydantic import Field, ValidationError, model_validator

from mbbq_gen.core.errors import DataError, RunError, describe_fault
from mbbq_gen.core.files import stable_number
from mbbq_gen.core.records import NO_RESPONSE, FrozenModel, Outcome
from mbbq_gen.statistics.intervals import Proportion, proportion
from mbbq_gen.storage.queries import ExtractionRow
from mbbq_gen.storage.shards import write_durably

ANNOTATIONS_NAME = "annotations.jsonl"
DESIGN_NAME = "annotation-sample.json"
Grouping = Literal["language", "outcome", "rule", "confidence", "variant", "label_style", "split", "category"]
GROUPINGS: tuple[Grouping, ...] = get_args(Grouping)
"""What a sample can be stratified by."""
REST = "(rest)"
"""Stands for the values of a grouping that are too rare for a stratum of their own."""

Stratum = tuple[str, ...]


class SamplingDesign(FrozenModel):
    """How the sample is drawn; kept beside the annotations, because strata determine their weights."""

    sample: int = Field(default=200, ge=1)
    """Extractions to annotate."""
    by: tuple[Grouping, ...] = ("language", "outcome", "rule")
    seed: int = 0
    languages: tuple[str, ...] | None = None
    """None: all of the run."""
    extractor: str = "rules"
    """Extractor whose results are annotated."""


class Annotation(FrozenModel):
    """What a person says of one extraction."""

    prompt_id: str
    extractor: str
    """Extractor version that was annotated."""
    outcome: Outcome
    """The extraction that was annotated."""
    option: int | None
    agrees: bool
    right_known: bool
    """Whether the person said what is correct."""
    right: int | None = None
    """The option that the response chooses; None where it chooses none, or where it is not known."""
    note: str = ""
    at: str
    """When: ISO 8601, UTC."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.agrees != (self.right_known and self.right == self.option):
            raise ValueError("agrees: contradicts the correct option")
        return self

    def judges(self, extraction: ExtractionRow) -> bool | None:
        """Whether an extraction from the same response is correct; None where this annotation does not tell."""
        if self.right_known:
            return extraction.option == self.right
        return False if extraction.option == self.option else None


def annotate_response(
    extraction: ExtractionRow, at: str, *, right: int | None, right_known: bool = True, note: str = ""
) -> Annotation:
    """The annotation of an extraction by the correct option, or as wrong."""
    return Annotation(
        prompt_id=extraction.prompt_id,
        extractor=extraction.extractor,
        outcome=extraction.outcome,
        option=extraction.option,
        agrees=right_known and right == extraction.option,
        right_known=right_known,
        right=right,
        note=note,
        at=at,
    )


# --- the files -------------------------------------------------------------------------------------------------------


def read_file(path: Path) -> bytes | None:
    """The content of a file of annotations; None where there is none.

    Raises:
        RunError: The file can't be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise RunError(f"{path}: {error.strerror or error}") from error


def replace_file(path: Path, text: str) -> None:
    """Writes a file of annotations, whole or not at all.

    Raises:
        RunError: The file can't be written.
    """
    try:
        write_durably(path, text.encode())
    except OSError as error:
        raise RunError(f"{path}: can't write: {error.strerror or error}") from error


def load_design(path: Path) -> SamplingDesign:
    """The sampling design of the run; the default where none is stored.

    Raises:
        DataError: The file is not a sampling design.
        RunError: The file can't be read.
    """
    content = read_file(path)
    try:
        return SamplingDesign() if content is None else SamplingDesign.model_validate_json(content)
    except ValidationError as error:
        raise DataError(f"{path}: {describe_fault(error, {})}; correct or delete the file") from error


def save_design(path: Path, design: SamplingDesign) -> None:
    """Stores the sampling design; raises as `replace_file` does."""
    replace_file(path, design.model_dump_json(indent=2) + "\n")


def load_annotations(path: Path) -> dict[str, Annotation]:
    """Prompt id → its last annotation; empty where there is no file.

    An incomplete last line is skipped.

    Raises:
        DataError: A line is not an annotation: file, row, field.
        RunError: The file can't be read.
    """
    found: dict[str, Annotation] = {}
    lines = (read_file(path) or b"").split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            annotation = Annotation.model_validate_json(line)
        except ValidationError as error:
            if number == len(lines):
                break
            raise DataError(f"{path}:{number}: {describe_fault(error, {})}; correct or delete the line") from error
        found[annotation.prompt_id] = annotation
    return found


def append_annotations(path: Path, annotations: Iterable[Annotation]) -> None:
    """Adds annotations to the file; they are durable when this returns.

    Raises:
        RunError: The file can't be written.
    """
    lines = "".join(f"{annotation.model_dump_json()}\n" for annotation in annotations)
    try:
        with path.open("ab+") as stream:
            if stream.seek(0, os.SEEK_END):
                stream.seek(-1, os.SEEK_END)
                if stream.read(1) != b"\n":  # the last line is incomplete; writes go to the end in any case
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
    """In random order, as they are annotated."""


def can_be_annotated(extraction: ExtractionRow) -> bool:
    """Whether there is a response to annotate."""
    return (
        extraction.outcome not in NO_RESPONSE and extraction.outcome != "empty" and extraction.rule != "response.length"
    )


def draw_sample(extractions: Iterable[ExtractionRow], design: SamplingDesign) -> ReviewSample:
    """A stratified sample, at least one of each stratum, in proportion to the square root of its size.

    So rare rules and outcomes are included. The smallest strata go into a rest of the same first groupings until there
    are at most half as many as extractions to annotate. The draw depends on the seed and the prompt alone: a larger
    sample of the same strata contains the smaller one.
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

    def chance(extraction: ExtractionRow) -> int:
        return stable_number(design.seed, extraction.prompt_id)

    drawn = [one for stratum, members in strata.items() for one in sorted(members, key=chance)[: shares[stratum]]]
    return ReviewSample(strata, tuple(sorted(drawn, key=chance)))


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

Mistake = Literal["wrong_option", "spurious", "missed", "unknown_kind"]
"""Another option than the correct one; an option where there is none; no option where there is one; not stated."""


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
    """In the run."""
    judged: Proportion
    """Of those annotated, unweighted."""
    weighted: Proportion
    """Weighted by the extractions of the stratum that each stands for: an estimate for the whole run."""


class AnnotationReport(FrozenModel):
    """The annotations of a run, summarised."""

    extractors: dict[str, str]
    """Language → the extractor version."""
    by: tuple[str, ...]
    confidence_level: float
    coverage: float | None
    """Share of the run's extractions whose stratum has an annotation: what the weighted shares cover."""
    overall: AgreementRate
    by_language: tuple[AgreementRate, ...]
    by_stratum: tuple[AgreementRate, ...]
    mistakes: dict[Mistake, int]
    disagreements: tuple[Disagreement, ...]
    stale_annotations: int
    """Annotations "wrong" of an extraction that has changed since: they have to be repeated."""


def annotation_report(
    sample: ReviewSample,
    annotations: Mapping[str, Annotation],
    extractors: Mapping[str, str],
    by: Sequence[str],
    interval: float = 0.95,
) -> AnnotationReport:
    """The report of the annotations in these strata."""
    is_right: dict[str, bool] = {}
    weights: dict[str, float] = {}
    wrong: list[ExtractionRow] = []
    covered = stale = 0
    for members in sample.strata.values():
        given = {
            extraction.prompt_id: annotations[extraction.prompt_id].judges(extraction)
            for extraction in members
            if extraction.prompt_id in annotations
        }
        known = {name: right for name, right in given.items() if right is not None}
        stale += len(given) - len(known)
        if known:
            covered += len(members)
            is_right |= known
            weights |= dict.fromkeys(known, len(members) / len(known))
            wrong += [extraction for extraction in members if known.get(extraction.prompt_id) is False]

    def rate(group: str, extractions: Sequence[ExtractionRow]) -> AgreementRate:
        ids = [extraction.prompt_id for extraction in extractions if extraction.prompt_id in is_right]
        return AgreementRate(
            group=group,
            n_extractions=len(extractions),
            judged=proportion([(is_right[name], 1.0) for name in ids], interval),
            weighted=proportion([(is_right[name], weights[name]) for name in ids], interval),
        )

    extractions = [extraction for members in sample.strata.values() for extraction in members]
    languages = sorted({extraction.language for extraction in extractions})
    disagreements = []
    mistakes: dict[Mistake, int] = dict.fromkeys(get_args(Mistake), 0)
    for extraction in wrong:
        annotation = annotations[extraction.prompt_id]
        mistake: Mistake = "wrong_option"
        if not annotation.right_known:
            mistake = "unknown_kind"
        elif annotation.right is None:
            mistake = "spurious"
        elif extraction.option is None:
            mistake = "missed"
        mistakes[mistake] += 1
        shown = {name: getattr(extraction, name) for name in ("prompt_id", "language", "outcome", "option", "rule")}
        disagreements.append(Disagreement(**shown, mistake=mistake, right=annotation.right, note=annotation.note))
    return AnnotationReport(
        extractors=dict(extractors),
        by=tuple(by),
        confidence_level=interval,
        coverage=covered / len(extractions) if extractions else None,
        overall=rate("all", extractions),
        by_language=tuple(
            rate(code, [extraction for extraction in extractions if extraction.language == code]) for code in languages
        ),
        by_stratum=tuple(rate(" / ".join(key), members) for key, members in sample.strata.items()),
        mistakes=mistakes,
        disagreements=tuple(disagreements),
        stale_annotations=stale,
    )
