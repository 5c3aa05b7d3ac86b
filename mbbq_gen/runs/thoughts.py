"""What a run's models thought before they answered: where it stands in a response, how it was read, and both as tables.

The words stay where they came: in `Response.reasoning` where the service keeps a thought apart, else in the text,
between the signs that models write (`<think>…</think>`). Readings of thoughts have a table of their own in the store,
which runs of older versions get when a thought of theirs is first read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from mbbq_gen.extraction.thoughts import (
    STANCES,
    ThoughtReading,
    load_thought_reader,
    split_thought,
    thoughts_version,
)
from mbbq_gen.records import Extraction, Instance, Presentation, Response
from mbbq_gen.resources import Resources
from mbbq_gen.runs.folder import RunFolder
from mbbq_gen.runs.lookup import Reading, find_answered
from mbbq_gen.runs.parallel import ParallelTexts
from mbbq_gen.runs.reading import question_of
from mbbq_gen.runs.store import Answered, RunStore
from mbbq_gen.scoring.columns import ANSWER_COLUMNS, METHOD, THINKING, observations_from_columns
from mbbq_gen.scoring.observations import Labels
from mbbq_gen.scoring.weights import weighted_by_design
from mbbq_gen.statistics.thoughts import ThoughtFrames

if TYPE_CHECKING:
    import polars

_BATCH: Final = 500


@dataclass(frozen=True)
class Thought:
    """What a model thought before an answer."""

    text: str
    start: int | None
    """Where it begins in the response's text; None where the service keeps it apart."""
    end: int | None
    """Where what follows it begins in that text; None as for `start`."""
    is_cut: bool
    """Whether the tokens ended before it did."""


def thought_of(response: Response, resources: Resources) -> Thought | None:
    """The thought of a response, kept apart or in its text; None where there is none, or none is told."""
    text = response.text or ""
    if response.reasoning and response.reasoning.strip():
        return Thought(response.reasoning, None, None, response.finish_reason == "length" and not text.strip())
    found = split_thought(text, resources)
    return None if found is None else Thought(found.thought, found.start, found.end, found.is_open)


def read_thought(answered: Answered, thought: Thought, resources: Resources) -> ThoughtReading:
    """What a thought was taken to mean."""
    return load_thought_reader(answered.presentation.language, resources).read(
        thought.text, question_of(answered), is_cut=thought.is_cut
    )


def read_thoughts(folder: RunFolder, resources: Resources, step: Callable[[int], None]) -> str:
    """Reads every thought of a run that was not read yet; says the version that the readings are stored under.

    Args:
        folder: The run.
        resources: Where packs are looked for.
        step: Hears of each batch that is stored.

    Raises:
        RunLockedError: where something is still to be read and another process holds the run.
    """
    version = thoughts_version(resources)
    with folder.open_store(read_only=True) as store:
        is_read = store.has_table("thoughts") and next(_unread(store, version), None) is None
    if is_read:
        return version
    with folder.for_readings() as store:
        parallels = ParallelTexts(store.query)
        unread = _unread(store, version)
        while batch := [row for row, _ in zip(unread, range(_BATCH), strict=False)]:
            rows = [
                (shown.presentation_id, version, _record(*row, parallels, resources))
                for row in batch
                for _, shown, _ in [row]
            ]
            store.change(("INSERT OR REPLACE INTO thoughts VALUES (?,?,?)", rows))
            step(len(batch))
    return version


_Row = tuple[Instance, Presentation, Response]


def _unread(store: RunStore, version: str) -> Iterator[_Row]:
    """Answers in words whose thoughts this version has not looked at yet, in plan order."""
    after = 0
    while rows := store.query(
        "SELECT p.number, i.record, p.record, r.record FROM presentations p"
        " JOIN instances i ON i.key = p.instance_key JOIN responses r ON r.request_key = p.request_key"
        " LEFT JOIN thoughts t ON t.presentation_id = p.presentation_id AND t.version = ?"
        f" WHERE r.is_error = 0 AND t.presentation_id IS NULL AND p.number > ?{store.asked_for(scored=False)}"
        " ORDER BY p.number LIMIT ?",
        (version, after, _BATCH),
    ).fetchall():
        for number, instance, presentation, response in rows:
            after = number
            yield (
                Instance.model_validate_json(instance),
                Presentation.model_validate_json(presentation),
                Response.model_validate_json(response),
            )


def _record(
    instance: Instance, presentation: Presentation, response: Response, parallels: ParallelTexts, resources: Resources
) -> str | None:
    """The reading as it is stored; None where nothing was thought, or nothing of it is told."""
    thought = thought_of(response, resources)
    if thought is None:
        return None
    answered = Answered(presentation, instance, response, parallels.of(instance))
    return read_thought(answered, thought, resources).model_dump_json()


def thought_frames(
    store: RunStore, version: str, extractors: Mapping[str, str], model: str, labels: Labels = "published"
) -> ThoughtFrames:
    """Answers and thoughts as tables; `extractors` gives the version whose readings of answers count, by language."""
    import polars as pl

    answers, thoughts, facts = [], [], []
    wanted = list(extractors.items())
    rows = store.query(
        "SELECT p.instance_key, json_extract(p.record, '$.variant', '$.label_style', '$.order', '$.reasoning'),"
        " e.record, e.extractor, t.record, json_extract(r.record, '$.usage.reasoning_tokens')"
        " FROM presentations p JOIN responses r ON r.request_key = p.request_key"
        " JOIN extractions e ON e.presentation_id = p.presentation_id"
        " JOIN thoughts t ON t.presentation_id = p.presentation_id AND t.version = ?"
        f" WHERE (p.language, e.extractor) IN (VALUES {', '.join(['(?, ?)'] * len(wanted)) or '(NULL, NULL)'})"
        f"{store.asked_for(scored=False)} ORDER BY p.number",
        [version, *(text for pair in wanted for text in pair)],
    )
    for key, shown, extraction, extractor, record, tokens in rows:
        variant, style, order, level = json.loads(shown)
        said = Extraction.model_validate_json(extraction)
        lean = None if record is None else ThoughtReading.model_validate_json(record)
        place = (key, model, variant, style, json.dumps(order))
        answers.append((*place, said.outcome, said.option, said.confidence, extractor, "generate", level))
        read = ("error", None, "high") if lean is None else (lean.outcome, lean.option, lean.confidence)
        thoughts.append((*place, *read, version, "generate", level))
        facts.append(_facts(lean, tokens))
    names = (*ANSWER_COLUMNS, METHOD, THINKING)
    kinds = {name: pl.Int8() if name == "option" else pl.String() for name in names}
    questions = list(store.instances())
    said_frame, lean_frame = (
        observations_from_columns(questions, pl.DataFrame(part, schema=kinds, orient="row"), labels)
        for part in (answers, thoughts)
    )
    if store.is_in_rounds:
        said_frame, lean_frame = weighted_by_design(said_frame), weighted_by_design(lean_frame)
    return ThoughtFrames(said_frame, lean_frame, pl.DataFrame(facts, schema=_fact_schema()))


def _facts(lean: ThoughtReading | None, tokens: int | None) -> dict[str, object]:
    """What a thought says beside its lean."""
    stances = lean.stances if lean is not None else frozenset()
    return {
        "has_thought": lean is not None,
        "is_cut": lean is not None and lean.is_cut,
        "characters": lean.characters if lean is not None else None,
        "thought_in": lean.language if lean is not None else None,
        "reasoning_tokens": tokens,
        **{stance: stance in stances for stance in STANCES},
    }


def _fact_schema() -> dict[str, polars.DataType]:
    import polars as pl

    flags = dict.fromkeys(("has_thought", "is_cut", *STANCES), pl.Boolean())
    return {**flags, "characters": pl.Int64(), "thought_in": pl.String(), "reasoning_tokens": pl.Int64()}


# --- single thoughts -------------------------------------------------------------------------------------------------


def stored_thought(store: RunStore, presentation_id: str, version: str) -> ThoughtReading | None:
    """What a version of the reader read in the thought before an answer; None where it has read none."""
    if not store.has_table("thoughts"):
        return None
    row = store.query(
        "SELECT record FROM thoughts WHERE presentation_id = ? AND version = ? AND record IS NOT NULL",
        (presentation_id, version),
    ).fetchone()
    return None if row is None else ThoughtReading.model_validate_json(row[0])


def thought_readings(store: RunStore, version: str, languages: Collection[str]) -> Iterator[Reading]:
    """Every reading of a thought by a version, as readings of answers are, in plan order."""
    rows = store.query(
        "SELECT p.presentation_id, p.instance_key, p.language, i.split, i.category,"
        " json_extract(p.record, '$.variant'), json_extract(p.record, '$.label_style'), t.record"
        " FROM presentations p JOIN instances i ON i.key = p.instance_key"
        " JOIN thoughts t ON t.presentation_id = p.presentation_id AND t.version = ?"
        " WHERE t.record IS NOT NULL ORDER BY p.number",
        (version,),
    )
    for shown, key, language, split, category, variant, style, record in rows:
        lean = ThoughtReading.model_validate_json(record)
        if language in languages:
            place = (shown, key, language, split, category, variant, style)
            yield Reading(*place, lean.outcome, lean.option, lean.confidence, lean.rule, version)


def as_answer(answered: Answered, resources: Resources) -> Answered | None:
    """The thought before an answer in the answer's place, for whoever reads or shows it as one; None without one."""
    thought = thought_of(answered.response, resources)
    if thought is None:
        return None
    response = Response(
        request_key=answered.response.request_key,
        text=thought.text,
        finish_reason="length" if thought.is_cut else "stop",
        model=answered.response.model,
    )
    return replace(answered, response=response)


def lean_of(reading: ThoughtReading) -> Extraction:
    """The lean of a thought as an extraction; its spans are places in the thought."""
    return Extraction(
        outcome=reading.outcome,
        option=reading.option,
        confidence=reading.confidence,
        rule=reading.rule,
        spans=reading.spans,
    )


def find_thought_reading(
    store: RunStore, presentation_id: str, version: str, resources: Resources
) -> tuple[Reading, Answered, Extraction] | None:
    """What a version read in the thought before an answer, and the thought in the answer's place; None without one."""
    reading, answered = stored_thought(store, presentation_id, version), find_answered(store, presentation_id)
    thought = None if answered is None else as_answer(answered, resources)
    if reading is None or answered is None or thought is None:
        return None
    shown, instance, lean = answered.presentation, answered.instance, lean_of(reading)
    place = (shown.presentation_id, shown.instance_key, shown.language, instance.split, instance.category)
    said = (lean.outcome, lean.option, lean.confidence, lean.rule, version)
    return Reading(*place, shown.variant, shown.label_style, *said), thought, lean
