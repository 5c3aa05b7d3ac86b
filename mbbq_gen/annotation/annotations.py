"""Annotation targets of a run, sampling probabilities of annotations, and labels for score correction."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from mbbq_gen.analysis.correction import AnnotatedFrame, joined
from mbbq_gen.annotation.review import ANNOTATIONS_NAME, DRAWS_NAME, SamplingDraw, load_annotations, load_draws
from mbbq_gen.core.errors import UnknownNameError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import NO_RESPONSE, PARSED, Extraction, Response
from mbbq_gen.extraction.reasoning import ReasoningExtraction
from mbbq_gen.runs.follow_up import ensure_follow_ups_extracted
from mbbq_gen.runs.observations import ensure_extracted, named_runs
from mbbq_gen.runs.reasoning import extract_all_reasoning, reasoning_text, stored_reasoning
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.scoring.observations import GoldLabels, Observation, observations_frame, observe
from mbbq_gen.storage.queries import (
    ExtractionRow,
    FollowUpRow,
    find_completed,
    follow_up_rows,
    iter_extractions,
    stored_extractions,
)
from mbbq_gen.storage.store import CompletedPrompt, RunStore

SOURCE = "annotations"
"""Name of the labels from `mbbq-gen annotate`."""
FOLLOW_UP = "follow-up"
"""Name of the labels from the model's replies to follow-ups."""
_READ = ("outcome", "option", "confidence", "rule")
ReviewedAnswer = tuple[ExtractionRow, CompletedPrompt, Extraction]
"""An extraction, its prompt with the extracted text as response, and the full extraction."""


class ReviewTarget:
    """Annotation of the responses of a run."""

    of_answers = True
    _names = (ANNOTATIONS_NAME, DRAWS_NAME)

    def __init__(self, folder: RunFolder, resources: PackPaths) -> None:
        self._folder, self._resources = folder, resources
        self.annotations_path, self.draws_path = (folder.path / name for name in self._names)

    def versions(self, extractor: str, step: Callable[[int], None]) -> dict[str, str]:
        """Language → version of the extractions to annotate, after extracting missing ones."""
        return ensure_extracted(self._folder, self._resources, extractor, step)

    def extractions(self, store: RunStore, versions: Mapping[str, str]) -> Iterator[ExtractionRow]:
        """All extractions of these versions."""
        return iter_extractions(store, versions)

    def find(self, store: RunStore, prompt_id: str, version: str) -> ReviewedAnswer | None:
        """An extraction with its text; None if there is none."""
        found, answered = stored_extractions(store, prompt_id).get(version), find_completed(store, prompt_id)
        return None if found is None or answered is None else _reviewed(answered, found, version)


class ReasoningTarget(ReviewTarget):
    """Annotation of the reasoning traces of a run; the right option is the conclusion of a trace."""

    of_answers = False
    _names = ("annotations-reasoning.jsonl", "annotation-draws-reasoning.jsonl")

    def versions(self, extractor: str, step: Callable[[int], None]) -> dict[str, str]:
        """Language → version of the extractor of reasoning traces, the same for all."""
        version = extract_all_reasoning(self._folder, self._resources, step)
        with self._folder.open_store(read_only=True) as store:
            return dict.fromkeys(store.languages(), version)

    def extractions(self, store: RunStore, versions: Mapping[str, str]) -> Iterator[ExtractionRow]:
        """The extractions of reasoning traces, in plan order."""
        for version in dict.fromkeys(versions.values()):
            rows = store.query(
                "SELECT p.prompt_id, p.instance_key, p.language, i.split, i.category, p.variant, p.label_style,"
                " t.record FROM prompts p JOIN instances i ON i.key = p.instance_key"
                " JOIN reasoning_extractions t ON t.prompt_id = p.prompt_id AND t.version = ?"
                " WHERE t.record IS NOT NULL ORDER BY p.number",
                (version,),
            )
            for *place, record in rows:
                found = ReasoningExtraction.model_validate_json(record)
                row = ExtractionRow._make((*place, *(getattr(found, name) for name in _READ), version))
                if row.language in versions:
                    yield row

    def find(self, store: RunStore, prompt_id: str, version: str) -> ReviewedAnswer | None:
        """A reasoning trace as response, with its conclusion as extraction; spans refer to the trace."""
        found, answered = stored_reasoning(store, prompt_id, version), find_completed(store, prompt_id)
        reasoning = None if answered is None else reasoning_text(answered.response, self._resources)
        if found is None or answered is None or reasoning is None:
            return None
        trace = Response(
            request_key=answered.response.request_key,
            text=reasoning.text,
            finish_reason="length" if reasoning.is_cut else "stop",
            model=answered.response.model,
        )
        conclusion = Extraction(**{name: getattr(found, name) for name in (*_READ, "spans")})
        return _reviewed(replace(answered, response=trace), conclusion, version)


def _reviewed(answered: CompletedPrompt, found: Extraction, version: str) -> ReviewedAnswer:
    shown, instance = answered.prompt, answered.instance
    place = (shown.prompt_id, shown.instance_key, shown.language, instance.split, instance.category)
    read = (getattr(found, name) for name in _READ)
    return ExtractionRow._make((*place, shown.variant, shown.label_style, *read, version)), answered, found


def probabilities(draws: Iterable[SamplingDraw], annotated: Collection[str]) -> dict[str, float]:
    """Prompt id → the probability with which it was drawn and annotated; only annotated ones.

    Draws of one seed are nested, so the highest probability counts; draws of different seeds are independent.
    """
    known, by_seed = set(annotated), defaultdict[str, dict[int, float]](dict)
    for draw in draws:
        total = sum(len(set(stratum.drawn).intersection(known)) for stratum in draw.strata)
        low, high = 0.0, 1.0
        for _ in range(60):
            limit = (low + high) / 2
            expected = sum(min(len(stratum.drawn), limit * stratum.size) for stratum in draw.strata)
            low, high = (limit, high) if expected < total else (low, limit)
        shares = [min(len(stratum.drawn) / stratum.size, high) for stratum in draw.strata]
        for stratum, share in zip(draw.strata, shares, strict=True):
            for name in known.intersection(stratum.drawn):
                seeds = by_seed[name]
                seeds[draw.design.seed] = max(share, seeds.get(draw.design.seed, 0.0))
    return {name: 1 - math.prod(1 - share for share in shares.values()) for name, shares in by_seed.items()}


@dataclass(frozen=True)
class AnnotatedAnswer:
    """The label of a response: the option that it chooses."""

    prompt_id: str
    option: int | None
    """Position of the option in the prompt; None: no option."""
    probability: float
    is_right: bool = True
    """Whether `option` is the right one; False: it is wrong, and the right one is unknown."""


def annotation_labels(folder: RunFolder) -> tuple[list[AnnotatedAnswer], int]:
    """Annotations of `mbbq-gen annotate` with their sampling probabilities; the number of others, in no sample."""
    annotations = load_annotations(folder.path / ANNOTATIONS_NAME)
    known = probabilities(load_draws(folder.path / DRAWS_NAME), annotations)
    labels = []
    for name, probability in sorted(known.items()):
        given = annotations[name]
        option = given.right if given.right_known else given.option
        labels.append(AnnotatedAnswer(name, option, probability, given.right_known))
    return labels, len(annotations) - len(known)


def follow_up_labels(folder: RunFolder, resources: PackPaths, versions: Mapping[str, str]) -> list[AnnotatedAnswer]:
    """The labels from replies to follow-ups; UsageError if a stratum has no follow-up.

    Strata are language × whether the response was parsed. With n replies to N responses, the probability is n / N.
    """
    ensure_follow_ups_extracted(folder, resources)
    strata = defaultdict[tuple[str, bool], list[FollowUpRow]](list)
    with folder.open_store(read_only=True) as store:
        for row in follow_up_rows(store, {language: [version] for language, version in versions.items()}):
            if row.first_outcome not in NO_RESPONSE and row.first_outcome != "empty":
                certain = row.first_outcome in PARSED and row.reason != "low"
                strata[row.language, certain].append(row)
    labels = []
    for (language, certain), rows in strata.items():
        if not any(row.reason for row in rows):
            kind = "read" if certain else "not read"
            what = f"{len(rows):,} answers in {language} that were {kind} have no follow-up"
            command = f"mbbq-gen run {folder.path} --follow-up unread --follow-up-check 200"
            raise UsageError(f"{folder.path}: {what}; first: {command}")
        replied = [row for row in rows if row.reply is not None]
        chance = len(replied) / len(rows)
        labels += [AnnotatedAnswer(row.prompt_id, row.option, chance) for row in replied]
    return labels


# --- labels as a table -----------------------------------------------------------------------------------------------


def runs_labels(
    paths: Sequence[Path], where: PackPaths, source: str, *, gold: GoldLabels, extractor: str, at_least: int
) -> AnnotatedFrame:
    """The labelled responses of several runs, with extractions; UsageError for a run with fewer than `at_least`."""
    if source not in (SOURCE, FOLLOW_UP):
        raise UnknownNameError("source of labels", source, [SOURCE, FOLLOW_UP])
    parts = []
    for folder, _, name in named_runs(paths):
        versions, unsampled = ensure_extracted(folder, where, extractor), 0
        if source == FOLLOW_UP:
            labels = follow_up_labels(folder, where, versions)
            hint = f"ask more: mbbq-gen run {folder.path} --follow-up unread --follow-up-check 200"
        else:
            labels, unsampled = annotation_labels(folder)
            hint = f"annotate more: mbbq-gen annotate {folder.path} --sample-size 200"
        with folder.open_store(read_only=True) as store:
            part = _labelled_frame(store, labels, versions, name, gold)
        if (n := part.n_labels) < at_least:
            note = f" ({unsampled:,} annotated answers are in no sample)" if unsampled else ""
            raise UsageError(f"{folder.path}: {n:,} labels ({source}){note}, {at_least} are needed; {hint}")
        parts.append(replace(part, source=source, unsampled_annotations=unsampled))
    return joined(parts)


def _labelled_frame(
    store: RunStore, labels: Iterable[AnnotatedAnswer], versions: Mapping[str, str], model: str, gold: GoldLabels
) -> AnnotatedFrame:
    """Extractions with right options and weights: one row for each option that may be right."""
    import polars as pl

    from mbbq_gen.scoring.cells import cell_expression

    read, right = list[Observation](), list[Observation]()
    ids, weights, used, stale = list[str](), list[float](), set[AnnotatedAnswer](), 0
    for label in labels:
        answered = find_completed(store, label.prompt_id)
        version = versions.get(answered.prompt.language) if answered else None
        found = stored_extractions(store, label.prompt_id).get(version) if version else None
        if answered is None or found is None:
            continue
        prompt, places = answered.prompt, list[int | None]()
        if label.is_right:
            places = [label.option]
        elif label.option == found.option:
            places = [place for place in (*range(len(prompt.option_order)), None) if place != found.option]
        else:
            stale += 1
            continue
        used.add(label)
        observed = partial(
            observe,
            *(answered.instance, prompt.option_order),
            model=model,
            variant=prompt.variant,
            label_style=prompt.label_style,
            reasoning=prompt.reasoning_effort,
            gold=gold,
            extractor=version,
        )
        read += [observed(found)] * len(places)
        outcomes = (("unparsed" if place is None else "option", place) for place in places)
        right += [observed(Extraction(outcome=outcome, option=place)) for outcome, place in outcomes]
        ids += [label.prompt_id] * len(places)
        weights += [1 / label.probability / len(places)] * len(places)
    beside = observations_frame(right).select(
        pl.col("outcome").alias("right_outcome"),
        pl.col("chosen_role").alias("right_role"),
        pl.col("chosen_index").alias("right_index"),
        cell_expression().alias("right_cell"),
    )
    frame = pl.concat([observations_frame(read), beside], how="horizontal").with_columns(
        prompt_id=pl.Series(ids, dtype=pl.String), weight=pl.Series(weights, dtype=pl.Float64)
    )
    incomplete = sum(not label.is_right for label in used)
    return AnnotatedFrame(SOURCE, frame, len(used), 0, incomplete, stale)
