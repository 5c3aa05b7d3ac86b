"""Extractions for annotation, sampling probabilities of annotations, and labels for score correction."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mbbq_gen.analysis.correction import AnnotatedFrame, joined
from mbbq_gen.annotation.review import ANNOTATIONS_NAME, DRAWS_NAME, SamplingDraw, load_annotations, load_draws
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Extraction
from mbbq_gen.runs.observations import ensure_extracted, named_runs
from mbbq_gen.scoring.observations import GoldLabels, Observation, observations_frame, observe
from mbbq_gen.storage.queries import ExtractionRow, find_completed, stored_extractions
from mbbq_gen.storage.store import CompletedPrompt, RunStore

if TYPE_CHECKING:
    import polars


def find_extraction(
    store: RunStore, prompt_id: str, version: str
) -> tuple[ExtractionRow, CompletedPrompt, Extraction] | None:
    """An extraction of this version as a row, its prompt with the response, and the full extraction; None if none."""
    found, answered = stored_extractions(store, prompt_id).get(version), find_completed(store, prompt_id)
    if found is None or answered is None:
        return None
    shown, instance = answered.prompt, answered.instance
    place = (shown.prompt_id, shown.instance_key, shown.language, instance.split, instance.category)
    read = (found.outcome, found.option, found.confidence, found.rule)
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


# --- labels as a table -----------------------------------------------------------------------------------------------


def runs_labels(
    paths: Sequence[Path], where: PackPaths, *, gold: GoldLabels, extractor: str, at_least: int
) -> AnnotatedFrame:
    """The annotated responses of several runs, with extractions; UsageError for a run with fewer than `at_least`."""
    parts = []
    for folder, _, name in named_runs(paths):
        versions = ensure_extracted(folder, where, extractor)
        annotations = load_annotations(folder.path / ANNOTATIONS_NAME)
        known = probabilities(load_draws(folder.path / DRAWS_NAME), annotations)
        unsampled = len(annotations) - len(known)
        right = {prompt_id: annotations[prompt_id].right for prompt_id in sorted(known)}
        with folder.open_store(read_only=True) as store:
            part = AnnotatedFrame(_labelled_frame(store, right, known, versions, name, gold), unsampled)
        if (n := part.frame.height) < at_least:
            note = f" ({unsampled:,} annotated answers are in no sample)" if unsampled else ""
            hint = f"annotate more: mbbq-gen annotate {folder.path} --sample-size 200"
            raise UsageError(f"{folder.path}: {n:,} annotations{note}, {at_least} are needed; {hint}")
        parts.append(part)
    return joined(parts)


def _labelled_frame(  # noqa: PLR0917
    store: RunStore,
    right_options: Mapping[str, int | None],
    probability: Mapping[str, float],
    versions: Mapping[str, str],
    model: str,
    gold: GoldLabels,
) -> polars.DataFrame:
    """Extractions with the right option and the weight of each annotated prompt."""
    import polars as pl

    from mbbq_gen.scoring.cells import cell_expression

    ids, read, right = list[str](), list[Observation](), list[Observation]()
    for prompt_id, option in right_options.items():
        answered = find_completed(store, prompt_id)
        version = versions.get(answered.prompt.language) if answered else None
        found = stored_extractions(store, prompt_id).get(version) if version else None
        if answered is None or found is None:
            continue
        ids.append(prompt_id)
        labelled = Extraction(outcome="unparsed" if option is None else "option", option=option)
        for observations, extraction in ((read, found), (right, labelled)):
            observation = observe(
                *(answered.instance, answered.prompt.option_order, extraction),
                model=model,
                variant=answered.prompt.variant,
                label_style=answered.prompt.label_style,
                reasoning=answered.prompt.reasoning_effort,
                gold=gold,
                extractor=version,
            )
            observations.append(observation)
    beside = observations_frame(right).select(
        pl.col("outcome").alias("right_outcome"),
        pl.col("chosen_role").alias("right_role"),
        pl.col("chosen_index").alias("right_index"),
        cell_expression().alias("right_cell"),
    )
    weights = [1 / probability[prompt_id] for prompt_id in ids]
    return pl.concat([observations_frame(read), beside], how="horizontal").with_columns(
        prompt_id=pl.Series(ids, dtype=pl.String), weight=pl.Series(weights, dtype=pl.Float64)
    )
