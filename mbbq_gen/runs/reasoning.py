"""Finds and extracts the reasoning in responses, and loads it beside the answers.

The text stays where it arrived: in `Response.reasoning` where the service separates it, else in the response text
between markers (`<think>…</think>`). Its extractions have a table of their own, which runs of older versions get when
their reasoning is first extracted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import islice

from mbbq_gen.analysis.reasoning import ReasoningFrames
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Extraction, Response
from mbbq_gen.extraction.reasoning import (
    STANCES,
    ReasoningExtraction,
    load_reasoning_extractor,
    reasoning_version,
    split_reasoning,
)
from mbbq_gen.runs.extraction import answer_table, question_of
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.scoring.observations import GoldLabels, observations_from_columns
from mbbq_gen.scoring.tally import weighted_by_design
from mbbq_gen.storage.queries import (
    ExtractionRow,
    add_reasoning,
    find_completed,
    reasoning_record,
    reasoning_records,
    reasoning_rows,
    without_reasoning,
)
from mbbq_gen.storage.schema import BATCH
from mbbq_gen.storage.store import CompletedPrompt, RunStore


@dataclass(frozen=True)
class ReasoningText:
    """The reasoning before an answer."""

    text: str
    start: int | None
    """Where it begins in the response's text; None where the service keeps it apart."""
    end: int | None
    """Where what follows it begins in that text; None as for `start`."""
    is_cut: bool
    """Whether the tokens ended before it did."""


def reasoning_text(response: Response, resources: PackPaths) -> ReasoningText | None:
    """The reasoning trace of a response, kept apart or in its text; None where there is none, or it is hidden."""
    text = response.text or ""
    if response.reasoning and response.reasoning.strip():
        return ReasoningText(response.reasoning, None, None, response.finish_reason == "length" and not text.strip())
    found = split_reasoning(text, resources)
    return None if found is None else ReasoningText(found.reasoning, found.start, found.end, found.is_open)


def extract_reasoning(answered: CompletedPrompt, reasoning: ReasoningText, resources: PackPaths) -> ReasoningExtraction:
    """The extraction of a reasoning trace."""
    return load_reasoning_extractor(answered.prompt.language, resources).read(
        reasoning.text, question_of(answered), is_cut=reasoning.is_cut
    )


def extract_all_reasoning(folder: RunFolder, resources: PackPaths, step: Callable[[int], None]) -> str:
    """Extracts the reasoning of a run that is not extracted yet; returns the version of the extractions.

    `step` is called for each batch that is stored. RunLockedError where another process holds the run.
    """
    version = reasoning_version(resources)
    with folder.open_store(read_only=True) as store:
        if next(without_reasoning(store, version), None) is None:
            return version
    with folder.for_extractions() as store:
        pending = without_reasoning(store, version)
        while batch := list(islice(pending, BATCH)):
            rows = []
            for answered in batch:
                reasoning = reasoning_text(answered.response, resources)
                found = None if reasoning is None else extract_reasoning(answered, reasoning, resources)
                rows.append((answered.prompt.prompt_id, None if found is None else found.model_dump_json()))
            add_reasoning(store, version, rows)
            step(len(batch))
    return version


def load_reasoning_frames(
    store: RunStore, version: str, extractors: Mapping[str, str], model: str, gold: GoldLabels = "published"
) -> ReasoningFrames:
    """Answers and reasoning traces as tables; `extractors`: language → version of the answers' extractions."""
    import polars as pl

    answers, traces, facts = [], [], list[dict[str, object]]()
    for key, variant, style, shown, effort, *said, record, tokens in reasoning_rows(store, version, extractors):
        found = None if record is None else ReasoningExtraction.model_validate_json(record)
        place = (key, model, variant, style, json.dumps([*map(int, shown)]))
        answers.append((*place, *said, "generate", effort))
        read = ("error", None, "high") if found is None else (found.outcome, found.option, found.confidence)
        traces.append((*place, *read, version, "generate", effort))
        stances = frozenset[str]() if found is None else found.stances
        facts.append({
            "has_thought": found is not None,
            "is_cut": found is not None and found.is_cut,
            **{stance: stance in stances for stance in STANCES},
            "characters": None if found is None else found.characters,
            "reasoning_language": None if found is None else found.language,
            "reasoning_tokens": tokens,
        })  # fmt: skip
    questions, frames = store.questions(), []
    for part in (answers, traces):
        frame = observations_from_columns(questions, answer_table(part), gold)
        frames.append(weighted_by_design(frame) if store.is_in_rounds else frame)
    flags = dict.fromkeys(("has_thought", "is_cut", *STANCES), pl.Boolean())
    schema = {**flags, "characters": pl.Int64(), "reasoning_language": pl.String(), "reasoning_tokens": pl.Int64()}
    return ReasoningFrames(frames[0], frames[1], pl.DataFrame(facts, schema=schema))


def stored_reasoning(store: RunStore, prompt_id: str, version: str) -> ReasoningExtraction | None:
    """What a version of the reader read in the reasoning before an answer; None where it has read none."""
    record = reasoning_record(store, prompt_id, version)
    return None if record is None else ReasoningExtraction.model_validate_json(record)


def reasoning_extractions(store: RunStore, version: str, languages: Collection[str]) -> Iterator[ExtractionRow]:
    """Every extraction of a reasoning trace by a version, as extractions of answers are, in plan order."""
    for prompt_id, key, language, split, category, variant, style, record in reasoning_records(store, version):
        found = ReasoningExtraction.model_validate_json(record)
        if language in languages:
            place = (prompt_id, key, language, split, category, variant, style)
            yield ExtractionRow(*place, found.outcome, found.option, found.confidence, found.rule, version)


def find_reasoning_extraction(
    store: RunStore, prompt_id: str, version: str, resources: PackPaths
) -> tuple[ExtractionRow, CompletedPrompt, Extraction] | None:
    """The extraction of a reasoning trace by a version, and the trace as a response; None without one.

    The conclusion of the trace is returned as an extraction too; its spans refer to the trace.
    """
    found, answered = stored_reasoning(store, prompt_id, version), find_completed(store, prompt_id)
    reasoning = None if answered is None else reasoning_text(answered.response, resources)
    if found is None or answered is None or reasoning is None:
        return None
    shown, instance = answered.prompt, answered.instance
    place = (shown.prompt_id, shown.instance_key, shown.language, instance.split, instance.category)
    said = (found.outcome, found.option, found.confidence, found.rule, version)
    trace = Response(
        request_key=answered.response.request_key,
        text=reasoning.text,
        finish_reason="length" if reasoning.is_cut else "stop",
        model=answered.response.model,
    )
    names = ("outcome", "option", "confidence", "rule", "spans")
    conclusion = Extraction(**{name: getattr(found, name) for name in names})
    return ExtractionRow(*place, shown.variant, shown.label_style, *said), replace(answered, response=trace), conclusion
