"""Finds single presentations and their readings in a run, and compares what two extractor versions read.

Nothing here writes: a store that is open for reading is enough.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from mbbq_gen.records import DETECTED, Confidence, Extraction, Instance, Outcome, Presentation, Record, Response
from mbbq_gen.runs.parallel import ParallelTexts
from mbbq_gen.runs.store import Answered, RunStore

_BATCH = 2000
_EXAMPLES = 5


class Shown(NamedTuple):
    """A presentation that was asked for, as a list names it."""

    presentation_id: str
    instance_key: str
    variant: str
    order: str


class Reading(NamedTuple):
    """One reading with what samples and lists are made by. A NamedTuple, because a run holds many."""

    presentation_id: str
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


class Change(Record):
    """How many answers of a language two extractor versions read in one way and in another."""

    language: str
    old: Outcome
    new: Outcome
    other_option: bool
    """Both chose an option, and not the same one."""
    count: int
    examples: tuple[str, ...]
    """The first few presentation ids."""

    @property
    def is_change(self) -> bool:
        """Whether the two readings differ at all."""
        return self.old != self.new or self.other_option

    @property
    def moves_scores(self) -> bool:
        """Whether another option counts now, or one more or less."""
        return self.other_option or (self.old in DETECTED) != (self.new in DETECTED)


def find_presentations(store: RunStore, text: str, limit: int = 20) -> list[Shown]:
    """The presentations meant by an id, the beginning of ids, or the key of a question, in plan order.

    At most `limit` of them. An id or a key that is there as it stands wins over longer ids that begin so.
    """
    columns = "SELECT presentation_id, instance_key, json_extract(record, '$.variant'), json_extract(record, '$.order')"
    for condition in ("presentation_id = ?", "instance_key = ?", "substr(presentation_id, 1, length(?1)) = ?1"):
        rows = store.query(f"{columns} FROM presentations WHERE {condition} ORDER BY number LIMIT {limit}", (text,))
        found = [Shown(*row) for row in rows]
        if found:
            return found
    return []


def find_answered(store: RunStore, presentation_id: str, *, with_parallels: bool = True) -> Answered | None:
    """A presentation with its question and what came back; None where nothing has come back yet.

    `with_parallels`: with what the options are called in the run's other languages, which only reading needs.
    """
    row = store.query(
        "SELECT p.record, i.record, r.record FROM presentations p JOIN instances i ON i.key = p.instance_key"
        " JOIN responses r ON r.request_key = p.request_key WHERE p.presentation_id = ?",
        (presentation_id,),
    ).fetchone()
    if row is None:
        return None
    presentation, record, response = row
    instance = Instance.model_validate_json(record)
    return Answered(
        Presentation.model_validate_json(presentation),
        instance,
        Response.model_validate_json(response),
        ParallelTexts(store.query).of(instance) if with_parallels else {},
    )


def stored_readings(store: RunStore, presentation_id: str) -> dict[str, Extraction]:
    """Extractor version → what it read in the answer to a presentation."""
    rows = store.query(
        "SELECT extractor, record FROM extractions WHERE presentation_id = ? ORDER BY extractor", (presentation_id,)
    )
    return {version: Extraction.model_validate_json(record) for version, record in rows}


_READING = (
    "SELECT p.presentation_id, p.instance_key, p.language, i.split, i.category,"
    " json_extract(p.record, '$.variant'), json_extract(p.record, '$.label_style'), e.outcome,"
    " json_extract(e.record, '$.option'), json_extract(e.record, '$.confidence'),"
    " json_extract(e.record, '$.rule'), e.extractor FROM presentations p"
    " JOIN instances i ON i.key = p.instance_key"
    " JOIN extractions e ON e.presentation_id = p.presentation_id AND e.extractor = ?"
)


def readings(store: RunStore, versions: Mapping[str, str]) -> Iterator[Reading]:
    """Everything that these extractor versions, one for each language, have read, by language in plan order."""
    for language, version in sorted(versions.items()):
        rows = store.query(f"{_READING} WHERE p.language = ? ORDER BY p.number", (version, language))
        while batch := rows.fetchmany(_BATCH):
            yield from (Reading(*row) for row in batch)


def find_reading(store: RunStore, presentation_id: str, version: str) -> tuple[Reading, Answered] | None:
    """What an extractor version read in the answer to a presentation, and that answer; None where it has read none."""
    row = store.query(f"{_READING} WHERE p.presentation_id = ?", (version, presentation_id)).fetchone()
    answered = find_answered(store, presentation_id)
    return None if row is None or answered is None else (Reading(*row), answered)


def answered_readings(store: RunStore, found: Iterable[Reading]) -> Iterator[tuple[Reading, Answered]]:
    """Each reading with what was read."""
    for reading in found:
        answered = find_answered(store, reading.presentation_id)
        if answered is not None:
            yield reading, answered


def reading_counts(store: RunStore, language: str) -> dict[str, int]:
    """Extractor version → how many answers of a language it has read."""
    rows = store.query(
        "SELECT e.extractor, count(*) FROM extractions e JOIN presentations p"
        " ON p.presentation_id = e.presentation_id WHERE p.language = ? GROUP BY e.extractor ORDER BY e.extractor",
        (language,),
    )
    return {version: int(count) for version, count in rows}


def answer_count(store: RunStore, language: str) -> int:
    """How many presentations of a language that asked for words have come back, failures among them."""
    (count,) = store.query(
        "SELECT count(*) FROM presentations p JOIN responses r ON r.request_key = p.request_key WHERE p.language = ?"
        + store.asked_for(scored=False),
        (language,),
    ).fetchone()
    return int(count)


def reading_changes(
    store: RunStore, language: str, old: str, new: str, outcomes: Sequence[Outcome] | None = None
) -> list[Change]:
    """How the answers that both versions have read were read by each, most frequent first.

    `outcomes`: only those that the old version gave one of these.
    """
    rows = store.query(
        "SELECT o.outcome, n.outcome, json_extract(o.record, '$.option'), json_extract(n.record, '$.option'),"
        " p.presentation_id FROM presentations p"
        " JOIN extractions o ON o.presentation_id = p.presentation_id AND o.extractor = ?"
        " JOIN extractions n ON n.presentation_id = p.presentation_id AND n.extractor = ?"
        " WHERE p.language = ? ORDER BY p.number",
        (old, new, language),
    )
    groups: dict[tuple[Outcome, Outcome, bool], list[str]] = {}
    for before, after, old_option, new_option, presentation_id in rows:
        if outcomes is None or before in outcomes:
            other = None not in {old_option, new_option} and old_option != new_option
            groups.setdefault((before, after, other), []).append(presentation_id)
    changes = [
        Change(
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
