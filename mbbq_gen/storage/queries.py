"""Queries of a run: prompts, extractions, follow-ups, totals, and changes between extractor versions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from mbbq_gen.core.records import (
    PARSED,
    Confidence,
    Extraction,
    FrozenModel,
    Instance,
    Outcome,
    Prompt,
    Response,
    decode,
)
from mbbq_gen.storage.schema import BATCH, EXTRACTION, read_extraction
from mbbq_gen.storage.store import COMPLETED, COUNTS, NONE_RULE, CompletedPrompt, RunStore, StoredPrompt

_EXAMPLES = 5


def read_completed(store: RunStore, prompt: str, instance: str, response: str) -> CompletedPrompt:
    """The completed prompt of three records, without parallel texts."""
    return CompletedPrompt(store.read(Prompt, prompt), store.read(Instance, instance), store.read(Response, response))


def parse_completed(found: Iterable[StoredPrompt], store: RunStore | None = None) -> Iterator[CompletedPrompt]:
    """Completed prompts, parsed; prompts of one question share an instance. `store`: to add loglikelihoods, if any."""
    text, instance = "", None
    for records in found:
        if instance is None or records.instance != text:
            text, instance = records.instance, decode(Instance, records.instance)
        response = decode(Response, records.response)
        if response.scores is not None and store is not None:
            response = response.model_copy(update={"scores": store.option_scores(response.request_key)})
        yield CompletedPrompt(decode(Prompt, records.prompt), instance, response, records.parallels)


# --- prompts and extractions ------------------------------------------------------------------------------------------


class ExtractionRow(NamedTuple):
    """One extraction with the fields that it is grouped by. A NamedTuple, because a run has many."""

    prompt_id: str
    instance_key: str
    language: str
    split: str
    category: str
    variant: str
    label_style: str
    outcome: Outcome
    option: int | None
    confidence: Confidence
    rule: str
    extractor: str


class ExtractionChange(FrozenModel):
    """The number of responses with a certain pair of extractions by two versions."""

    language: str
    old: Outcome
    new: Outcome
    other_option: bool
    """Whether both chose an option, and not the same one."""
    count: int
    examples: tuple[str, ...]

    @property
    def is_change(self) -> bool:
        """Whether the two extractions differ in outcome or option."""
        return self.old != self.new or self.other_option

    @property
    def moves_scores(self) -> bool:
        """Whether the change affects scores: another option, or an option in only one version."""
        return self.other_option or (self.old in PARSED) != (self.new in PARSED)


def find_prompts(store: RunStore, text: str) -> list[tuple[str, str, str]]:
    """Id, variant and option order of at most 20 prompts by id, question key, or beginning of the id, in plan order."""
    for condition in ("prompt_id = ?", "instance_key = ?", "substr(prompt_id, 1, length(?1)) = ?1"):
        statement = f"SELECT prompt_id, variant, option_order FROM prompts WHERE {condition} ORDER BY number LIMIT 20"
        if found := store.query(statement, (text,)).fetchall():
            return found
    return []


def find_completed(store: RunStore, prompt_id: str) -> CompletedPrompt | None:
    """A prompt with its instance, response and parallel texts; None without a response."""
    row = store.query(
        f"SELECT p.record, i.record, r.record FROM {COMPLETED} WHERE p.prompt_id = ?", (prompt_id,)
    ).fetchone()
    if row is None:
        return None
    found = read_completed(store, *row)
    return replace(found, parallels=store.parallels(found.instance.key))


def stored_extractions(store: RunStore, prompt_id: str) -> dict[str, Extraction]:
    """Extractor version → its extraction of the response to a prompt."""
    rows = store.query(
        f"SELECT extractor, {', '.join(EXTRACTION)} FROM extractions WHERE prompt_id = ? ORDER BY extractor",
        (prompt_id,),
    )
    return {version: read_extraction(row) for version, *row in rows}


def iter_extractions(store: RunStore, versions: Mapping[str, str]) -> Iterator[ExtractionRow]:
    """The extractions by these extractor versions, one for each language, by language in plan order."""
    for language, version in sorted(versions.items()):
        rows = store.query(
            "SELECT p.prompt_id, p.instance_key, p.language, i.split, i.category, p.variant, p.label_style, e.outcome,"
            " e.option, e.confidence, e.rule, e.extractor FROM prompts p JOIN instances i ON i.key = p.instance_key"
            " JOIN extractions e ON e.prompt_id = p.prompt_id AND e.extractor = ?"
            " WHERE p.language = ? ORDER BY p.number",
            (version, language),
        )
        while batch := rows.fetchmany(BATCH):
            yield from (ExtractionRow(*row) for row in batch)


def extraction_changes(store: RunStore, language: str, old: str, new: str) -> list[ExtractionChange]:
    """Pairs of extractions by two versions with their counts, most frequent first."""
    rows = store.query(
        "SELECT o.outcome, n.outcome, o.option, n.option, p.prompt_id FROM prompts p"
        " JOIN extractions o ON o.prompt_id = p.prompt_id AND o.extractor = ?"
        " JOIN extractions n ON n.prompt_id = p.prompt_id AND n.extractor = ?"
        " WHERE p.language = ? ORDER BY p.number",
        (old, new, language),
    )
    groups: dict[tuple[Outcome, Outcome, bool], list[str]] = {}
    for before, after, old_option, new_option, prompt_id in rows:
        other = None not in {old_option, new_option} and old_option != new_option
        groups.setdefault((before, after, other), []).append(prompt_id)
    return [
        ExtractionChange(
            language=language,
            old=before,
            new=after,
            other_option=other,
            count=len(ids),
            examples=tuple(ids[:_EXAMPLES]),
        )
        for (before, after, other), ids in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    ]


# --- follow-ups ------------------------------------------------------------------------------------------------------


def follow_up_rows(
    store: RunStore, versions: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str | None, str | None, bool]]:
    """Reason, reply, and whether it replaces the first extraction, for the rows of `RunStore.answer_rows`.

    The reply is its outcome, `none` if it chose no option, or None if it was not parsed or there is none.
    """
    joined = "LEFT JOIN follow_ups u ON u.prompt_id = p.prompt_id"
    rows = store.extraction_rows(f"u.reason, u.outcome, u.rule, coalesce({COUNTS}, 0)", versions, joined)
    for reason, outcome, rule, counts in rows:
        yield reason, "none" if rule == NONE_RULE else outcome if outcome in PARSED else None, bool(counts)


REPLY_COLUMNS: Final = tuple(
    f"follow_up_{name}" for name in ("reason", "outcome", "position", "confidence", "response")
)
"""The columns of a follow-up in exports."""


def follow_up_columns(store: RunStore, prompt_ids: Sequence[str]) -> dict[str, dict[str, object]]:
    """Prompt id → its follow-up (REPLY_COLUMNS); prompts without one are left out."""
    rows = store.query(
        "SELECT u.prompt_id, r.record, u.reason, u.outcome, u.option, u.confidence"
        " FROM json_each(?) w JOIN follow_ups u ON u.prompt_id = w.value"
        " LEFT JOIN responses r ON r.request_key = u.request_key AND r.is_error = 0",
        (json.dumps(list(prompt_ids)),),
    )
    found = {}
    for prompt_id, record, *values in rows:
        text = None if record is None else store.read(Response, record).text
        found[prompt_id] = dict(zip(REPLY_COLUMNS, (*values, text), strict=True))
    return found


# --- totals of responses ----------------------------------------------------------------------------------------------


def served_models(store: RunStore) -> list[tuple[str | None, str | None, int]]:
    """Model, system fingerprint and number of responses with them, most frequent first."""
    return store.query(
        "SELECT model, system_fingerprint, count(*) FROM responses WHERE is_error = 0"
        " GROUP BY 1, 2 ORDER BY 3 DESC, 1, 2"
    ).fetchall()


def benchmark_versions(store: RunStore) -> list[tuple[str, str]]:
    """The benchmarks of the selected instances and their versions, sorted."""
    return store.query("SELECT DISTINCT benchmark, version FROM instances WHERE asked ORDER BY 1, 2").fetchall()


def recorded_failures(store: RunStore) -> dict[str, int]:
    """Error message → number of responses with it."""
    return dict(
        store.query("SELECT error, count(*) FROM responses WHERE is_error = 1 GROUP BY 1 ORDER BY 1").fetchall()
    )


def response_times(store: RunStore) -> tuple[str, str] | None:
    """The times of the first and the last response, ISO 8601, UTC; None without responses."""
    first, last = store.query("SELECT min(received_at), max(received_at) FROM responses").fetchone()
    return None if first is None else (first, last)
