"""Finds and extracts the reasoning in responses, and loads it beside the answers.

The text stays where it arrived: in `Response.reasoning` where the service separates it, else in the response text
between markers (`<think>…</think>`). Its extractions have a table of their own, which runs of older versions get when
their reasoning is first extracted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from mbbq_gen.analysis.reasoning import ReasoningFrames
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Extraction, Instance, Prompt, Response
from mbbq_gen.extraction.reasoning import (
    STANCES,
    ReasoningExtraction,
    load_reasoning_extractor,
    reasoning_version,
    split_reasoning,
)
from mbbq_gen.runs.extraction import question_of
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.scoring.columns import ANSWER_COLUMNS, METHOD, REASONING_EFFORT, observations_from_columns
from mbbq_gen.scoring.observations import GoldLabels
from mbbq_gen.scoring.tally import weighted_by_design
from mbbq_gen.storage.parallel_options import ParallelOptions
from mbbq_gen.storage.queries import ExtractionRow, find_completed
from mbbq_gen.storage.store import CompletedPrompt, RunStore

if TYPE_CHECKING:
    import polars

_BATCH: Final = 500


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

    Args:
        folder: The run.
        resources: Where packs are looked for.
        step: Called for each batch that is stored.

    Raises:
        RunLockedError: where something is still to be read and another process holds the run.
    """
    version = reasoning_version(resources)
    with folder.open_store(read_only=True) as store:
        is_read = store.has_table("reasoning_extractions") and next(_unparsed(store, version), None) is None
    if is_read:
        return version
    with folder.for_extractions() as store:
        parallels = ParallelOptions(store.query)
        unparsed = _unparsed(store, version)
        while batch := [row for row, _ in zip(unparsed, range(_BATCH), strict=False)]:
            rows = [
                (shown.prompt_id, version, _record(*row, parallels, resources))
                for row in batch
                for _, shown, _ in [row]
            ]
            store.change(("INSERT OR REPLACE INTO reasoning_extractions VALUES (?,?,?)", rows))
            step(len(batch))
    return version


_Row = tuple[Instance, Prompt, Response]


def _unparsed(store: RunStore, version: str) -> Iterator[_Row]:
    """Answers in words whose reasoning traces this version has not looked at yet, in plan order."""
    after = 0
    while rows := store.query(
        "SELECT p.number, i.record, p.record, r.record FROM prompts p"
        " JOIN instances i ON i.key = p.instance_key JOIN responses r ON r.request_key = p.request_key"
        " LEFT JOIN reasoning_extractions t ON t.prompt_id = p.prompt_id AND t.version = ?"
        f" WHERE r.is_error = 0 AND t.prompt_id IS NULL AND p.number > ?{store.asked_for(scored=False)}"
        " ORDER BY p.number LIMIT ?",
        (version, after, _BATCH),
    ).fetchall():
        for number, instance, prompt, response in rows:
            after = number
            yield (
                Instance.model_validate_json(instance),
                Prompt.model_validate_json(prompt),
                Response.model_validate_json(response),
            )


def _record(
    instance: Instance, prompt: Prompt, response: Response, parallels: ParallelOptions, resources: PackPaths
) -> str | None:
    """The extraction as it is stored; None without reasoning, or it is hidden."""
    reasoning = reasoning_text(response, resources)
    if reasoning is None:
        return None
    answered = CompletedPrompt(prompt, instance, response, parallels.of(instance))
    return extract_reasoning(answered, reasoning, resources).model_dump_json()


def load_reasoning_frames(
    store: RunStore, version: str, extractors: Mapping[str, str], model: str, gold: GoldLabels = "published"
) -> ReasoningFrames:
    """Answers and reasoning traces as tables; `extractors`: language → version of the answers' extractions."""
    import polars as pl

    answers, traces, facts = [], [], []
    wanted = list(extractors.items())
    rows = store.query(
        "SELECT p.instance_key,"
        " json_extract(p.record, '$.variant', '$.label_style', '$.option_order', '$.reasoning_effort'),"
        " e.record, e.extractor, t.record, json_extract(r.record, '$.usage.reasoning_tokens')"
        " FROM prompts p JOIN responses r ON r.request_key = p.request_key"
        " JOIN extractions e ON e.prompt_id = p.prompt_id"
        " JOIN reasoning_extractions t ON t.prompt_id = p.prompt_id AND t.version = ?"
        f" WHERE (p.language, e.extractor) IN (VALUES {', '.join(['(?, ?)'] * len(wanted)) or '(NULL, NULL)'})"
        f"{store.asked_for(scored=False)} ORDER BY p.number",
        [version, *(text for pair in wanted for text in pair)],
    )
    for key, shown, extraction, extractor, record, tokens in rows:
        variant, style, order, level = json.loads(shown)
        said = Extraction.model_validate_json(extraction)
        lean = None if record is None else ReasoningExtraction.model_validate_json(record)
        place = (key, model, variant, style, json.dumps(order))
        answers.append((*place, said.outcome, said.option, said.confidence, extractor, "generate", level))
        read = ("error", None, "high") if lean is None else (lean.outcome, lean.option, lean.confidence)
        traces.append((*place, *read, version, "generate", level))
        facts.append(_facts(lean, tokens))
    names = (*ANSWER_COLUMNS, METHOD, REASONING_EFFORT)
    kinds = {name: pl.Int8() if name == "option" else pl.String() for name in names}
    questions = list(store.instances())
    said_frame, lean_frame = (
        observations_from_columns(questions, pl.DataFrame(part, schema=kinds, orient="row"), gold)
        for part in (answers, traces)
    )
    if store.is_in_rounds:
        said_frame, lean_frame = weighted_by_design(said_frame), weighted_by_design(lean_frame)
    return ReasoningFrames(said_frame, lean_frame, pl.DataFrame(facts, schema=_fact_schema()))


def _facts(lean: ReasoningExtraction | None, tokens: int | None) -> dict[str, object]:
    """Properties of a reasoning trace beside its conclusion."""
    stances = lean.stances if lean is not None else frozenset()
    return {
        "has_thought": lean is not None,
        "is_cut": lean is not None and lean.is_cut,
        "characters": lean.characters if lean is not None else None,
        "reasoning_language": lean.language if lean is not None else None,
        "reasoning_tokens": tokens,
        **{stance: stance in stances for stance in STANCES},
    }


def _fact_schema() -> dict[str, polars.DataType]:
    import polars as pl

    flags = dict.fromkeys(("has_thought", "is_cut", *STANCES), pl.Boolean())
    return {**flags, "characters": pl.Int64(), "reasoning_language": pl.String(), "reasoning_tokens": pl.Int64()}


# --- single reasoning traces ---------------------------------------------------------------------------------------


def stored_reasoning(store: RunStore, prompt_id: str, version: str) -> ReasoningExtraction | None:
    """What a version of the reader read in the reasoning before an answer; None where it has read none."""
    if not store.has_table("reasoning_extractions"):
        return None
    row = store.query(
        "SELECT record FROM reasoning_extractions WHERE prompt_id = ? AND version = ? AND record IS NOT NULL",
        (prompt_id, version),
    ).fetchone()
    return None if row is None else ReasoningExtraction.model_validate_json(row[0])


def reasoning_extractions(store: RunStore, version: str, languages: Collection[str]) -> Iterator[ExtractionRow]:
    """Every extraction of a reasoning trace by a version, as extractions of answers are, in plan order."""
    rows = store.query(
        "SELECT p.prompt_id, p.instance_key, p.language, i.split, i.category,"
        " json_extract(p.record, '$.variant'), json_extract(p.record, '$.label_style'), t.record"
        " FROM prompts p JOIN instances i ON i.key = p.instance_key"
        " JOIN reasoning_extractions t ON t.prompt_id = p.prompt_id AND t.version = ?"
        " WHERE t.record IS NOT NULL ORDER BY p.number",
        (version,),
    )
    for shown, key, language, split, category, variant, style, record in rows:
        lean = ReasoningExtraction.model_validate_json(record)
        if language in languages:
            place = (shown, key, language, split, category, variant, style)
            yield ExtractionRow(*place, lean.outcome, lean.option, lean.confidence, lean.rule, version)


def as_answer(answered: CompletedPrompt, resources: PackPaths) -> CompletedPrompt | None:
    """The answer with its reasoning trace as its text; None without one."""
    reasoning = reasoning_text(answered.response, resources)
    if reasoning is None:
        return None
    response = Response(
        request_key=answered.response.request_key,
        text=reasoning.text,
        finish_reason="length" if reasoning.is_cut else "stop",
        model=answered.response.model,
    )
    return replace(answered, response=response)


def reasoning_conclusion(extraction: ReasoningExtraction) -> Extraction:
    """The conclusion of a reasoning trace as an extraction; its spans refer to the trace."""
    return Extraction(
        outcome=extraction.outcome,
        option=extraction.option,
        confidence=extraction.confidence,
        rule=extraction.rule,
        spans=extraction.spans,
    )


def find_reasoning_extraction(
    store: RunStore, prompt_id: str, version: str, resources: PackPaths
) -> tuple[ExtractionRow, CompletedPrompt, Extraction] | None:
    """The extraction of a reasoning trace by a version, and the trace as an answer; None without one."""
    extraction, answered = stored_reasoning(store, prompt_id, version), find_completed(store, prompt_id)
    reasoning = None if answered is None else as_answer(answered, resources)
    if extraction is None or answered is None or reasoning is None:
        return None
    shown, instance, lean = answered.prompt, answered.instance, reasoning_conclusion(extraction)
    place = (shown.prompt_id, shown.instance_key, shown.language, instance.split, instance.category)
    said = (lean.outcome, lean.option, lean.confidence, lean.rule, version)
    return ExtractionRow(*place, shown.variant, shown.label_style, *said), reasoning, lean
