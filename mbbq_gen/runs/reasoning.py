"""Finds and extracts the reasoning in responses, and loads it with the answers.

The reasoning is in `Response.reasoning` if the service separates it, else in the text of the response between markers
(`<think>…</think>`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice

from mbbq_gen.analysis.reasoning import ReasoningFrames
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Response
from mbbq_gen.extraction.reasoning import (
    STANCES,
    ReasoningExtraction,
    ReasoningText,
    read_trace,
    reasoning_version,
    split_reasoning,
)
from mbbq_gen.runs.extraction import answer_table, question_of
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.scoring.observations import GoldLabels, observations_from_columns
from mbbq_gen.scoring.tally import weighted_by_design
from mbbq_gen.storage.queries import read_completed
from mbbq_gen.storage.schema import BATCH
from mbbq_gen.storage.store import COMPLETED, WORDS, CompletedPrompt, RunStore


def reasoning_text(response: Response, resources: PackPaths) -> ReasoningText | None:
    """The reasoning trace of a response, separate or in its text; None if it has none."""
    text = response.text or ""
    if response.reasoning and response.reasoning.strip():
        return ReasoningText(response.reasoning, None, None, response.finish_reason == "length" and not text.strip())
    return split_reasoning(text, resources)


def extract_reasoning(answered: CompletedPrompt, reasoning: ReasoningText, resources: PackPaths) -> ReasoningExtraction:
    """The extraction of a reasoning trace."""
    language, question = answered.prompt.language, question_of(answered)
    return read_trace(reasoning.text, question, language, resources, is_cut=reasoning.is_cut)


def extract_all_reasoning(folder: RunFolder, resources: PackPaths, step: Callable[[int], None]) -> str:
    """Extracts the reasoning of new responses; returns the version of the extractions."""
    version = reasoning_version(resources)
    with folder.open_store(read_only=True) as store:
        if next(_unextracted(store, version), None) is None:
            return version
    with folder.for_extractions() as store:
        pending = _unextracted(store, version)
        while batch := list(islice(pending, BATCH)):
            rows = []
            for answered in batch:
                reasoning = reasoning_text(answered.response, resources)
                found = None if reasoning is None else extract_reasoning(answered, reasoning, resources)
                rows.append((answered.prompt.prompt_id, version, None if found is None else found.model_dump_json()))
            store.change(("INSERT OR REPLACE INTO reasoning_extractions VALUES (?,?,?)", rows))
            step(len(batch))
    return version


def load_reasoning_frames(
    store: RunStore, version: str, extractors: Mapping[str, str], model: str, gold: GoldLabels = "published"
) -> ReasoningFrames:
    """Answers and reasoning traces as tables; `extractors`: language → version of the answers' extractions."""
    import polars as pl

    answers, traces, details = [], list[tuple[object, ...]](), []
    rows = store.extraction_rows(
        "p.instance_key, p.variant, p.label_style, p.option_order, p.reasoning_effort, e.outcome, e.option,"
        " e.confidence, e.extractor, t.record, r.reasoning_tokens",
        {language: [extractor] for language, extractor in extractors.items()},
        "JOIN responses r ON r.request_key = p.request_key JOIN reasoning_extractions t ON t.prompt_id = p.prompt_id",
        f"AND t.version = ?{WORDS}",
        [version],
    )
    for key, variant, style, order, effort, *answer, record, tokens in rows:
        item = (key, model, variant, style, json.dumps([*map(int, order)]))
        answers.append((*item, *answer, "generate", effort))
        if record is None:  # a response without reasoning
            traces.append((*item, "error", None, "high", version, "generate", effort))
            details.append((False, False, *[False for _ in STANCES], None, None, tokens))
            continue
        trace = ReasoningExtraction.model_validate_json(record)
        traces.append((*item, trace.outcome, trace.option, trace.confidence, version, "generate", effort))
        stances = [stance in trace.stances for stance in STANCES]
        details.append((True, trace.is_cut, *stances, trace.characters, trace.language, tokens))
    questions, frames = store.questions(), []
    for part in (answers, traces):
        frame = observations_from_columns(questions, answer_table(part), gold)
        frames.append(weighted_by_design(frame) if store.is_in_rounds else frame)
    flags = dict.fromkeys(("has_thought", "is_cut", *STANCES), pl.Boolean())
    schema = {**flags, "characters": pl.Int64(), "reasoning_language": pl.String(), "reasoning_tokens": pl.Int64()}
    return ReasoningFrames(frames[0], frames[1], pl.DataFrame(details, schema=schema, orient="row"))


def stored_reasoning(store: RunStore, prompt_id: str, version: str) -> ReasoningExtraction | None:
    """The extraction of a response's reasoning by an extractor version; None if there is none."""
    statement = "SELECT record FROM reasoning_extractions WHERE prompt_id = ? AND version = ?"
    record = store.value(statement, prompt_id, version)
    return None if record is None else ReasoningExtraction.model_validate_json(record)


def _unextracted(store: RunStore, version: str) -> Iterator[CompletedPrompt]:
    """The completed prompts without a reasoning extraction of this version, in plan order."""
    rows = store.paged(
        f"SELECT p.number, p.record, i.record, r.record FROM {COMPLETED}"
        " LEFT JOIN reasoning_extractions t ON t.prompt_id = p.prompt_id AND t.version = ?"
        f" WHERE r.is_error = 0 AND t.prompt_id IS NULL{WORDS} AND p.number > ? ORDER BY p.number LIMIT ?",
        version,
    )
    for _, *records in rows:
        found = read_completed(store, *records)
        yield replace(found, parallels=store.parallels(found.instance.key))
