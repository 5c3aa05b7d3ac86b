"""Finds single prompts and their extractions in a run, and compares the extractions of two versions.

Only reads: a read-only store is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from mbbq_gen.core.records import PARSED, Confidence, Extraction, FrozenModel, Instance, Outcome, Prompt, Response
from mbbq_gen.storage.parallel_options import ParallelOptions
from mbbq_gen.storage.store import CompletedPrompt, RunStore

_BATCH = 2000
_EXAMPLES = 5


class PromptRef(NamedTuple):
    """A prompt that was requested, as a list names it."""

    prompt_id: str
    instance_key: str
    variant: str
    option_order: str


class ExtractionRow(NamedTuple):
    """One extraction with what samples and lists are made by. A NamedTuple, because a run holds many."""

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
    """How many answers of a language two extractor versions read in one way and in another."""

    language: str
    old: Outcome
    new: Outcome
    other_option: bool
    """Both chose an option, and not the same one."""
    count: int
    examples: tuple[str, ...]
    """The first few prompt ids."""

    @property
    def is_change(self) -> bool:
        """Whether the two extractions differ at all."""
        return self.old != self.new or self.other_option

    @property
    def moves_scores(self) -> bool:
        """Whether another option counts now, or one more or less."""
        return self.other_option or (self.old in PARSED) != (self.new in PARSED)


def find_prompts(store: RunStore, text: str, limit: int = 20) -> list[PromptRef]:
    """The prompts with an id, the beginning of ids, or the key of a question, in plan order.

    At most `limit` of them. An id or a key that is there as it stands wins over longer ids that begin so.
    """
    columns = (
        "SELECT prompt_id, instance_key, json_extract(record, '$.variant'), json_extract(record, '$.option_order')"
    )
    for condition in ("prompt_id = ?", "instance_key = ?", "substr(prompt_id, 1, length(?1)) = ?1"):
        rows = store.query(f"{columns} FROM prompts WHERE {condition} ORDER BY number LIMIT {limit}", (text,))
        found = [PromptRef(*row) for row in rows]
        if found:
            return found
    return []


def find_completed(store: RunStore, prompt_id: str, *, with_parallels: bool = True) -> CompletedPrompt | None:
    """A prompt with its question and the response; None where nothing has come back yet.

    `with_parallels`: with what the options are called in the run's other languages, which only reading needs.
    """
    row = store.query(
        "SELECT p.record, i.record, r.record FROM prompts p JOIN instances i ON i.key = p.instance_key"
        " JOIN responses r ON r.request_key = p.request_key WHERE p.prompt_id = ?",
        (prompt_id,),
    ).fetchone()
    if row is None:
        return None
    prompt, record, response = row
    instance = Instance.model_validate_json(record)
    return CompletedPrompt(
        Prompt.model_validate_json(prompt),
        instance,
        Response.model_validate_json(response),
        ParallelOptions(store.query).of(instance) if with_parallels else {},
    )


def stored_extractions(store: RunStore, prompt_id: str) -> dict[str, Extraction]:
    """Extractor version → what it read in the answer to a prompt."""
    rows = store.query("SELECT extractor, record FROM extractions WHERE prompt_id = ? ORDER BY extractor", (prompt_id,))
    return {version: Extraction.model_validate_json(record) for version, record in rows}


_EXTRACTION = (
    "SELECT p.prompt_id, p.instance_key, p.language, i.split, i.category,"
    " json_extract(p.record, '$.variant'), json_extract(p.record, '$.label_style'), e.outcome,"
    " json_extract(e.record, '$.option'), json_extract(e.record, '$.confidence'),"
    " json_extract(e.record, '$.rule'), e.extractor FROM prompts p"
    " JOIN instances i ON i.key = p.instance_key"
    " JOIN extractions e ON e.prompt_id = p.prompt_id AND e.extractor = ?"
)


def iter_extractions(store: RunStore, versions: Mapping[str, str]) -> Iterator[ExtractionRow]:
    """Everything that these extractor versions, one for each language, have read, by language in plan order."""
    for language, version in sorted(versions.items()):
        rows = store.query(f"{_EXTRACTION} WHERE p.language = ? ORDER BY p.number", (version, language))
        while batch := rows.fetchmany(_BATCH):
            yield from (ExtractionRow(*row) for row in batch)


def find_extraction(store: RunStore, prompt_id: str, version: str) -> tuple[ExtractionRow, CompletedPrompt] | None:
    """What an extractor version read in the answer to a prompt, and that answer; None where it has read none."""
    row = store.query(f"{_EXTRACTION} WHERE p.prompt_id = ?", (version, prompt_id)).fetchone()
    answered = find_completed(store, prompt_id)
    return None if row is None or answered is None else (ExtractionRow(*row), answered)


def answered_extractions(
    store: RunStore, found: Iterable[ExtractionRow]
) -> Iterator[tuple[ExtractionRow, CompletedPrompt]]:
    """Each extraction with what was read."""
    for extraction in found:
        answered = find_completed(store, extraction.prompt_id)
        if answered is not None:
            yield extraction, answered


def extraction_counts(store: RunStore, language: str) -> dict[str, int]:
    """Extractor version → how many answers of a language it has read."""
    rows = store.query(
        "SELECT e.extractor, count(*) FROM extractions e JOIN prompts p"
        " ON p.prompt_id = e.prompt_id WHERE p.language = ? GROUP BY e.extractor ORDER BY e.extractor",
        (language,),
    )
    return {version: int(count) for version, count in rows}


def answer_count(store: RunStore, language: str) -> int:
    """How many prompts of a language that asked for words have come back, failures among them."""
    (count,) = store.query(
        "SELECT count(*) FROM prompts p JOIN responses r ON r.request_key = p.request_key WHERE p.language = ?"
        + store.asked_for(scored=False),
        (language,),
    ).fetchone()
    return int(count)


def extraction_changes(
    store: RunStore, language: str, old: str, new: str, outcomes: Sequence[Outcome] | None = None
) -> list[ExtractionChange]:
    """How the answers that both versions have read were read by each, most frequent first.

    `outcomes`: only those that the old version gave one of these.
    """
    rows = store.query(
        "SELECT o.outcome, n.outcome, json_extract(o.record, '$.option'), json_extract(n.record, '$.option'),"
        " p.prompt_id FROM prompts p"
        " JOIN extractions o ON o.prompt_id = p.prompt_id AND o.extractor = ?"
        " JOIN extractions n ON n.prompt_id = p.prompt_id AND n.extractor = ?"
        " WHERE p.language = ? ORDER BY p.number",
        (old, new, language),
    )
    groups: dict[tuple[Outcome, Outcome, bool], list[str]] = {}
    for before, after, old_option, new_option, prompt_id in rows:
        if outcomes is None or before in outcomes:
            other = None not in {old_option, new_option} and old_option != new_option
            groups.setdefault((before, after, other), []).append(prompt_id)
    changes = [
        ExtractionChange(
            language=language,
            old=before,
            new=after,
            other_option=other,
            count=len(ids),
            examples=tuple(ids[:_EXAMPLES]),
        )
        for (before, after, other), ids in groups.items()
    ]
    return sorted(changes, key=lambda change: (-change.count, change.old, change.new, change.other_option))
