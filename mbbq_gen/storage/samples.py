"""The samples of a run: extracted responses with their records, and an index that filters and counts them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, Final, NamedTuple

from mbbq_gen.core.errors import UnknownNameError
from mbbq_gen.core.files import stable_number
from mbbq_gen.core.records import NO_RESPONSE, PARSED, Extraction, Instance, Prompt, Response
from mbbq_gen.storage.schema import EXTRACTION, Value, by_language, marks, read_extraction
from mbbq_gen.storage.store import COMPLETED, RunStore


class SampleRecords(NamedTuple):
    """One extracted response with its records."""

    prompt_id: str
    request_key: str
    received_at: str
    prompt: Prompt
    instance: Instance
    response: Response
    extraction: Extraction
    extractor: str


def sample_records(
    store: RunStore, versions: Mapping[str, Sequence[str]], ids: Collection[str] | None, size: int
) -> Iterator[list[SampleRecords]]:
    """The responses that these extractor versions, by language, have extracted, in plan order; only these ids."""
    condition, wanted = by_language(versions)
    rows = store.query(
        "SELECT p.prompt_id, p.request_key, r.received_at, e.extractor, p.record, i.record, r.record,"
        f" {', '.join(EXTRACTION)} FROM {COMPLETED} JOIN extractions e ON e.prompt_id = p.prompt_id WHERE {condition}"
        + ("" if ids is None else " AND p.prompt_id IN (SELECT value FROM json_each(?))")
        + " ORDER BY p.number",
        [*wanted, *([] if ids is None else [json.dumps(sorted(ids))])],
    )
    while batch := rows.fetchmany(size):
        instances: dict[str, Instance] = {}  # rows of one question share its instance
        found = []
        for prompt_id, request_key, received_at, extractor, prompt, record, response, *extraction in batch:
            if record not in instances:
                instances[record] = store.read(Instance, record)
            found.append(
                SampleRecords(
                    *(prompt_id, request_key, received_at, store.read(Prompt, prompt), instances[record]),
                    *(store.read(Response, response), read_extraction(extraction), extractor),
                )
            )
        yield found


_STRATA = ("benchmark", "split", "language", "outcome", "role", "flipped")
_BATCH = 5000
_READ = ", ".join(f"'{outcome}'" for outcome in sorted(PARSED))
_LOST = ", ".join(f"'{outcome}'" for outcome in sorted(NO_RESPONSE))

_CHOSEN = "CAST(substr(p.option_order, e.option + 1, 1) AS INTEGER)"
"""Index in `Instance.options` of the option that extraction `e` of prompt `p` chose."""
_ITEMS = f"""
SELECT p.number, p.prompt_id, e.extractor, i.key, i.benchmark, i.split, i.language, i.category, i.template_id,
  i.condition, p.variant, e.outcome,
  CASE WHEN e.outcome NOT IN ({_READ}) THEN 'none'
    WHEN e.option IS NULL THEN 'unknown'
    ELSE coalesce(CASE {_CHOSEN} WHEN 0 THEN i.role_0 WHEN 1 THEN i.role_1 ELSE i.role_2 END, 'person') END,
  CASE WHEN e.outcome IN ({_LOST}) THEN 'none'
    WHEN e.outcome NOT IN ({_READ}) THEN 'no'
    WHEN e.option IS NULL THEN CASE i.condition WHEN 'ambiguous' THEN 'yes' ELSE 'no' END
    WHEN {_CHOSEN} = i.gold_index THEN 'yes' ELSE 'no' END,
  e.confidence, coalesce(p.reasoning_effort, 'unset')
FROM prompts p JOIN instances i ON i.key = p.instance_key
JOIN extractions e ON e.prompt_id = p.prompt_id AND e.extractor = ?
WHERE p.language = ? ORDER BY p.number
"""


class SampleRow(NamedTuple):
    """One answer, as the table holds it; the fields after `key` are FIELDS."""

    number: int
    prompt_id: str
    extractor: str
    key: str
    benchmark: str
    split: str
    language: str
    category: str
    template: str
    condition: str
    variant: str
    outcome: str
    role: str
    """The role chosen, `person` for a person without one, `none` where nothing was chosen."""
    correct: str
    """yes or no, by the published labels; none where no response was received."""
    confidence: str
    reasoning_effort: str
    """The level requested; unset for none."""
    flipped: str
    """Whether the question got different choices under this run's prompt variants, option orders and label styles: yes,
    no, or once where it has one answer only."""


FIELDS: Final = SampleRow._fields[4:]
"""What items are filtered by."""
_SCHEMA = f"""
CREATE TABLE items (
    number INTEGER PRIMARY KEY, prompt_id TEXT, extractor TEXT, key TEXT,
    {", ".join(f"{field} TEXT" for field in FIELDS)}, rank INTEGER
)
"""
_COLUMNS = ", ".join(SampleRow._fields)


class SampleIndex:
    """The table. May be used by several threads."""

    def __init__(
        self,
        store: RunStore,
        versions: Mapping[str, str],
        seed: int = 0,
        step: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Reads what these extractor versions have read; `seed`: of the order in which samples are drawn."""
        self._lock = Lock()
        self._db = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute(_SCHEMA)
        for language, version in sorted(versions.items()):
            rows = store.query(_ITEMS, (version, language))
            self._db.execute("BEGIN")
            while batch := rows.fetchmany(_BATCH):
                ranked = ((*row, None, stable_number(seed, row[1]) >> 1) for row in batch)
                self._db.executemany(f"INSERT INTO items VALUES ({marks(len(batch[0]) + 2)})", ranked)
                step(len(batch))
            self._db.execute("COMMIT")
        self._db.execute(
            "CREATE TEMP TABLE asked AS SELECT key AS question, CASE WHEN count(*) < 2 THEN 'once'"
            " WHEN count(DISTINCT role) > 1 THEN 'yes' ELSE 'no' END AS flipped"
            f" FROM items WHERE outcome NOT IN ({_LOST}) GROUP BY key"
        )
        self._db.execute("CREATE UNIQUE INDEX temp.asked_by_question ON asked (question)")
        self._db.execute(
            "UPDATE items SET flipped = coalesce((SELECT flipped FROM asked WHERE question = key), 'once')"
        )

    def close(self) -> None:
        """Lets the table go."""
        self._db.close()

    def _rows(self, statement: str, parameters: Sequence[Value] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._db.execute(statement, parameters).fetchall()

    def count(self, filters: Mapping[str, str] | None = None) -> int:
        """How many items have these values."""
        where, values = _condition(filters or {})
        ((found,),) = self._rows(f"SELECT count(*) FROM items {where}", values)
        return int(found)

    def page(self, filters: Mapping[str, str], offset: int, limit: int) -> list[SampleRow]:
        """Items with these values, in plan order; UnknownNameError for a field that items are not filtered by."""
        where, values = _condition(filters)
        found = self._rows(
            f"SELECT {_COLUMNS} FROM items {where} ORDER BY number LIMIT ? OFFSET ?", [*values, limit, offset]
        )
        return [SampleRow(*row) for row in found]

    def sample(self, size: int) -> list[SampleRow]:
        """At most `size` items, in plan order: as many from every stratum as there is room, by a seeded rank.

        A stratum is benchmark × split × language × outcome × role × flipped: what is rare is there, so that it can be
        read. Shares in the sample are not those of the run.
        """
        found = self._rows(
            f"SELECT {_COLUMNS} FROM (SELECT *, row_number() OVER (PARTITION BY {', '.join(_STRATA)} ORDER BY rank)"
            " AS round FROM items) ORDER BY round, rank LIMIT ?",
            [size],
        )
        return sorted(SampleRow(*row) for row in found)

    def values(self) -> dict[str, dict[str, int]]:
        """Field → its values with how many items have each, sorted by value."""
        return {
            field: {
                str(value): int(count)
                for value, count in self._rows(f"SELECT {field}, count(*) FROM items GROUP BY 1 ORDER BY 1")
            }
            for field in FIELDS
        }


def _condition(filters: Mapping[str, str]) -> tuple[str, list[Value]]:
    for name in filters:
        if name not in {*FIELDS, "id"}:
            raise UnknownNameError("filter", name, [*FIELDS, "id"])
    parts = [f"{name} = ?" for name in filters if name != "id"]
    values: list[Value] = [value for name, value in filters.items() if name != "id"]
    if "id" in filters:
        parts.append("substr(prompt_id, 1, length(?)) = ?")
        values += [filters["id"], filters["id"]]
    return (f"WHERE {' AND '.join(parts)}" if parts else ""), values
