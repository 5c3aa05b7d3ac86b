"""Every answer of a run in a table of its own, to filter, count and sample by: what pages that show items ask.

The table is a private file that vanishes with the process: nothing is written into the run.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from threading import Lock
from typing import NamedTuple

from mbbq_gen.errors import UnknownNameError
from mbbq_gen.records import DETECTED, NOT_HAD
from mbbq_gen.runs.store import RunStore
from mbbq_gen.seeding import stable_number

FIELDS = (
    "benchmark",
    "split",
    "language",
    "category",
    "template",
    "condition",
    "variant",
    "outcome",
    "role",
    "correct",
    "confidence",
    "thinking",
    "flipped",
)
"""What items are filtered by.

`role`: the role chosen, `person` for a person without one, `none` where nothing was chosen. `correct`: yes or no, by
the published labels; none where no response was had. `thinking`: the level that was asked for, none where none was.
`flipped`: whether the question got different choices in this
run's wordings, orders and label styles: yes, no, or once where it was answered once only.
"""
_STRATA = ("benchmark", "split", "language", "outcome", "role", "flipped")
_BATCH = 5000
_READ = ", ".join(f"'{outcome}'" for outcome in sorted(DETECTED))
_LOST = ", ".join(f"'{outcome}'" for outcome in sorted(NOT_HAD))

_ITEMS = f"""
SELECT number, presentation_id, extractor, key, benchmark, split, language, category, template_id, condition, variant,
  outcome,
  CASE WHEN outcome NOT IN ({_READ}) THEN 'none'
    WHEN shown IS NULL THEN 'unknown'
    ELSE coalesce(json_extract(instance, '$.options[' || shown || '].role'), 'person') END,
  CASE WHEN outcome IN ({_LOST}) THEN 'none'
    WHEN outcome NOT IN ({_READ}) THEN 'no'
    WHEN shown IS NULL THEN CASE condition WHEN 'ambiguous' THEN 'yes' ELSE 'no' END
    WHEN shown = json_extract(instance, '$.answer_index') THEN 'yes' ELSE 'no' END,
  confidence, thinking
FROM (
  SELECT p.number, p.presentation_id, e.extractor, i.key, i.benchmark, i.split, i.language, i.category, i.template_id,
    i.condition, json_extract(p.record, '$.variant') AS variant, e.outcome, i.record AS instance,
    coalesce(json_extract(e.record, '$.confidence'), 'none') AS confidence,
    coalesce(json_extract(p.record, '$.reasoning'), 'none') AS thinking,
    json_extract(p.record, '$.order[' || json_extract(e.record, '$.option') || ']') AS shown
  FROM presentations p JOIN instances i ON i.key = p.instance_key
  JOIN extractions e ON e.presentation_id = p.presentation_id AND e.extractor = ?
  WHERE p.language = ? ORDER BY p.number)
"""
_SCHEMA = f"""
CREATE TABLE items (
    number INTEGER PRIMARY KEY, presentation_id TEXT, extractor TEXT, key TEXT,
    {", ".join(f"{field} TEXT" for field in FIELDS)}, rank INTEGER
)
"""


class Item(NamedTuple):
    """One answer, as the table holds it; the fields after `key` are FIELDS."""

    number: int
    presentation_id: str
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
    correct: str
    confidence: str
    thinking: str
    flipped: str


_COLUMNS = ", ".join(Item._fields)


class ItemIndex:
    """The table. May be asked by several threads."""

    def __init__(
        self,
        store: RunStore,
        versions: Mapping[str, str],
        seed: int = 0,
        step: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Reads what these extractor versions, by language, have read.

        `seed`: of the order in which samples are drawn; `step` hears of each batch of items.
        """
        self._step = step
        self._lock = Lock()
        self._db = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute(_SCHEMA)
        for language, version in sorted(versions.items()):
            self._add(store, language, version, seed)
        self._tell_flips()

    def close(self) -> None:
        """Lets the table go."""
        self._db.close()

    def _add(self, store: RunStore, language: str, version: str, seed: int) -> None:
        rows = store.query(_ITEMS, (version, language))
        self._db.execute("BEGIN")
        while batch := rows.fetchmany(_BATCH):
            marks = ", ".join("?" * (len(batch[0]) + 2))
            ranked = ((*row, None, stable_number(seed, row[1]) >> 1) for row in batch)
            self._db.executemany(f"INSERT INTO items VALUES ({marks})", ranked)
            self._step(len(batch))
        self._db.execute("COMMIT")

    def _tell_flips(self) -> None:
        self._db.execute(
            "CREATE TEMP TABLE asked AS SELECT key AS question, CASE WHEN count(*) < 2 THEN 'once'"
            " WHEN count(DISTINCT role) > 1 THEN 'yes' ELSE 'no' END AS flipped"
            f" FROM items WHERE outcome NOT IN ({_LOST}) GROUP BY key"
        )
        self._db.execute("CREATE UNIQUE INDEX temp.asked_by_question ON asked (question)")
        self._db.execute(
            "UPDATE items SET flipped = coalesce((SELECT flipped FROM asked WHERE question = key), 'once')"
        )

    def _rows(self, statement: str, parameters: Sequence[str | int] = ()) -> list[tuple[str | int, ...]]:
        with self._lock:
            return self._db.execute(statement, parameters).fetchall()

    def count(self, filters: Mapping[str, str] | None = None) -> int:
        """How many items have these values."""
        where, values = _condition(filters or {})
        ((found,),) = self._rows(f"SELECT count(*) FROM items {where}", values)
        return int(found)

    def page(self, filters: Mapping[str, str], offset: int, limit: int) -> list[Item]:
        """Items with these values, in plan order.

        Raises:
            UnknownNameError: for a field that items are not filtered by.
        """
        where, values = _condition(filters)
        found = self._rows(
            f"SELECT {_COLUMNS} FROM items {where} ORDER BY number LIMIT ? OFFSET ?", [*values, limit, offset]
        )
        return list(_items(found))

    def sample(self, size: int) -> list[Item]:
        """At most `size` items, in plan order: as many from every stratum as there is room, by a seeded rank.

        A stratum is benchmark × split × language × outcome × role × flipped: what is rare is there, so that it can be
        read. Shares in the sample are not those of the run.
        """
        found = self._rows(
            f"SELECT {_COLUMNS} FROM (SELECT *, row_number() OVER (PARTITION BY {', '.join(_STRATA)} ORDER BY rank)"
            " AS round FROM items) ORDER BY round, rank LIMIT ?",
            [size],
        )
        return sorted(_items(found))

    def values(self) -> dict[str, dict[str, int]]:
        """Field → its values with how many items have each, sorted by value."""
        return {
            field: {
                str(value): int(count)
                for value, count in self._rows(f"SELECT {field}, count(*) FROM items GROUP BY 1 ORDER BY 1")
            }
            for field in FIELDS
        }


def _condition(filters: Mapping[str, str]) -> tuple[str, list[str | int]]:
    for name in filters:
        if name not in {*FIELDS, "id"}:
            raise UnknownNameError("filter", name, [*FIELDS, "id"])
    parts = [f"{name} = ?" for name in filters if name != "id"]
    values: list[str | int] = [value for name, value in filters.items() if name != "id"]
    if "id" in filters:
        parts.append("substr(presentation_id, 1, length(?)) = ?")
        values += [filters["id"], filters["id"]]
    return (f"WHERE {' AND '.join(parts)}" if parts else ""), values


def _items(rows: Sequence[tuple[str | int, ...]]) -> Iterator[Item]:
    for row in rows:
        yield Item(*row)  # type: ignore[arg-type]  # by the columns' order
