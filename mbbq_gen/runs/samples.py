"""The samples table of a run: one row for each answered prompt, with texts and extraction.

A row holds the observation (`mbbq_gen.scoring.observations`) from which scores are counted, and the texts: the question
and its options as shown, the response, and the evidence in it. So filtering and counting samples gives the numbers of
`score`.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, NamedTuple, get_args

from mbbq_gen.core.errors import UnknownNameError
from mbbq_gen.core.files import PackPaths, stable_number
from mbbq_gen.core.options import options_in_order
from mbbq_gen.core.records import NO_RESPONSE, PARSED, Extraction, Instance, Prompt, Response, Role
from mbbq_gen.runs.reasoning import reasoning_text
from mbbq_gen.scoring.columns import (
    ANSWER_COLUMNS,
    METHOD,
    REASONING_EFFORT,
    model_by_method,
    observations_from_columns,
    without_places,
)
from mbbq_gen.scoring.observations import GoldLabels, corrected_index, observation_schema
from mbbq_gen.storage.store import RunStore

if TYPE_CHECKING:
    import polars


BATCH_ITEMS = 20_000
"""Items that stand in memory as Python objects at a time."""


class SampleColumns(NamedTuple):
    """What a row of items holds beside its observation."""

    prompt_id: str
    """Digest of what was sent: unique in the run, and equal in another run that sent the same."""
    request_key: str
    """Prompts that send the very same request share one response."""
    instance_key: str
    """`Instance.key` of the question."""
    context: str
    question: str
    options: list[str]
    """The options' texts as shown, by place."""
    option_labels: list[str]
    """The labels as shown, by place."""
    option_roles: list[Role | None]
    """The published roles, by place."""
    option_groups: list[str | None]
    """The data set's own labels of the groups, by place."""
    option_order_indices: list[int]
    """Index in `Instance.options` of the option shown at each place."""
    gold_position: int
    """Place of the right option as shown, by the labels that hold."""
    response: str | None
    """The model's words; None where no response was had."""
    refusal: str | None
    reasoning: str | None
    """The reasoning, returned separately by the service or between its signs in `response`."""
    finish_reason: str | None
    error: str | None
    served_model: str | None
    """The name under which the model or server answered."""
    request_id: str | None
    input_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    latency_s: float | None
    received_at: str
    """ISO 8601, UTC."""
    cached: bool
    source_tool: str | None
    """The program that an imported answer comes from; None where it was requested here."""
    source_file: str | None
    source_id: str | None
    source_task: str | None
    source_repeat: int | None
    rule: str
    """Id of the extraction rule that decided."""
    spans: list[list[int]]
    """Where in `response` the evidence stands: start and end, in characters."""
    evidence: list[str]
    """The characters at `spans`."""
    conflicts: list[str]
    metadata: str
    """`Instance.metadata` as JSON."""


@dataclass(frozen=True)
class SampleFilter:
    """Which items of a run, and how they are held to be right."""

    versions: Mapping[str, str]
    """Language → the extractor version whose extractions are taken; other languages are left out."""
    model: str
    """What the model is called."""
    gold: GoldLabels = "published"
    ids: Collection[str] | None = None
    """Only prompts with these ids; None: all."""
    messages: bool = False
    """Whether the messages as sent are added, and the last of them as `prompt`: what readers know an echo by."""
    scored: str | None = None
    """The version of extractions of loglikelihoods that is taken; None: answers without words are left out."""


class _Row(NamedTuple):
    """What the store says of one item."""

    prompt_id: str
    request_key: str
    received_at: str
    prompt: Prompt
    instance: Instance
    response: Response
    extraction: Extraction
    extractor: str


def item_schema(*, messages: bool = False) -> dict[str, polars.DataType]:
    """The columns of an items table and their types, in order."""
    import polars as pl

    columns = {**_text_schema("context", "gold_position"), "chosen_text": pl.String()}
    columns |= _text_schema("response", SampleColumns._fields[-1])
    if messages:
        columns["prompt"] = pl.String()
        columns["messages"] = pl.List(pl.Struct({"role": pl.String(), "content": pl.String()}))
    return {**_text_schema("prompt_id", "instance_key"), **observation_schema(), **columns}


def _text_schema(first: str, last: str) -> dict[str, polars.DataType]:
    """The columns of `SampleColumns` from one to another."""
    import polars as pl

    texts, numbers = pl.List(pl.String()), pl.Int64()
    kinds: dict[str, polars.DataType] = {
        **dict.fromkeys(("options", "option_labels", "option_groups", "evidence", "conflicts"), texts),
        "option_roles": pl.List(pl.Enum(get_args(Role))),
        "option_order_indices": pl.List(pl.Int8()),
        "gold_position": pl.Int8(),
        **dict.fromkeys(("input_tokens", "output_tokens", "reasoning_tokens", "source_repeat"), numbers),
        "latency_s": pl.Float64(),
        "cached": pl.Boolean(),
        "spans": pl.List(pl.List(pl.Int64())),
    }
    names = SampleColumns._fields[SampleColumns._fields.index(first) : SampleColumns._fields.index(last) + 1]
    return {name: kinds.get(name, pl.String()) for name in names}


def sample_batches(store: RunStore, choice: SampleFilter, size: int = BATCH_ITEMS) -> Iterator[polars.DataFrame]:
    """The items in plan order, at most `size` of them in a table; none at all where nothing has been read."""
    wanted = [*choice.versions.items(), *((code, choice.scored) for code in choice.versions if choice.scored)]
    rows = store.query(
        "SELECT p.prompt_id, p.request_key, r.received_at, p.record, i.record, r.record, e.record, e.extractor"
        " FROM prompts p JOIN instances i ON i.key = p.instance_key"
        " JOIN responses r ON r.request_key = p.request_key"
        " JOIN extractions e ON e.prompt_id = p.prompt_id"
        f" WHERE (p.language, e.extractor) IN (VALUES {', '.join(['(?, ?)'] * len(wanted)) or '(0, 0)'})"
        + ("" if choice.ids is None else " AND p.prompt_id IN (SELECT value FROM json_each(?))")
        + " ORDER BY p.number",
        [
            *(text for pair in wanted for text in pair),
            *([] if choice.ids is None else [json.dumps(sorted(choice.ids))]),
        ],
    )
    while batch := rows.fetchmany(size):
        yield _items(_records(batch), choice)


def _records(batch: Sequence[tuple[str, ...]]) -> list[_Row]:
    """The rows with their records; rows of one question share its."""
    instances: dict[str, Instance] = {}
    found = []
    for prompt_id, request_key, received_at, prompt, instance, response, extraction, extractor in batch:
        if instance not in instances:
            instances[instance] = Instance.model_validate_json(instance)
        found.append(
            _Row(
                *(prompt_id, request_key, received_at),
                Prompt.model_validate_json(prompt),
                instances[instance],
                Response.model_validate_json(response),
                Extraction.model_validate_json(extraction),
                extractor,
            )
        )
    return found


def _items(rows: list[_Row], choice: SampleFilter) -> polars.DataFrame:
    """The table of some items."""
    import polars as pl

    schema = item_schema(messages=choice.messages)
    observed = _observed(rows, choice)
    columns = zip(*(_item_text(row, choice.gold) for row in rows), strict=True)
    texts = {name: list(values) for name, values in zip(SampleColumns._fields, columns, strict=True)}
    if choice.messages:
        texts["prompt"] = [row.prompt.messages[-1].content for row in rows]
        texts["messages"] = [[message.model_dump() for message in row.prompt.messages] for row in rows]
    beside = pl.DataFrame(texts, schema={name: kind for name, kind in schema.items() if name in texts})
    chosen = pl.col("options").list.get(pl.col("chosen_position"), null_on_oob=True).alias("chosen_text")
    return without_places(observed.hstack(beside).with_columns(chosen)).select(list(schema))


def _observed(rows: list[_Row], choice: SampleFilter) -> polars.DataFrame:
    """The observations of some items, in their order."""
    import polars as pl

    answers = [
        (
            *(row.instance.key, choice.model, row.prompt.variant, row.prompt.label_style),
            json.dumps(row.prompt.option_order),
            *(row.extraction.outcome, row.extraction.option, row.extraction.confidence, row.extractor),
            row.prompt.method,
            row.prompt.reasoning_effort,
        )
        for row in rows
    ]
    kinds = {
        name: pl.Int8() if name == "option" else pl.String() for name in (*ANSWER_COLUMNS, METHOD, REASONING_EFFORT)
    }
    questions = {row.instance.key: row.instance for row in rows}.values()
    table = pl.DataFrame(answers, schema=kinds, orient="row").with_columns(model=model_by_method(choice.model))
    return observations_from_columns(questions, table, choice.gold)


def _item_text(row: _Row, gold: GoldLabels) -> SampleColumns:
    """What an item holds beside its observation."""
    instance, prompt, response = row.instance, row.prompt, row.response
    shown = [instance.options[index] for index in prompt.option_order]
    corrected = corrected_index(instance) if gold == "corrected" else None
    right = instance.gold_index if corrected is None else corrected
    assert right is not None  # an Instance always has one
    text, origin = response.text or "", response.import_source
    return SampleColumns(
        prompt_id=row.prompt_id,
        request_key=row.request_key,
        instance_key=instance.key,
        context=instance.context,
        question=instance.question,
        options=options_in_order(instance, prompt.option_order, prompt.unknown_text),
        option_labels=list(prompt.option_labels),
        option_roles=[option.role for option in shown],
        option_groups=[option.group for option in shown],
        option_order_indices=list(prompt.option_order),
        gold_position=prompt.option_order.index(right),
        response=response.text,
        refusal=response.refusal,
        reasoning=reasoning.text if (reasoning := reasoning_text(response, PackPaths())) else None,
        finish_reason=response.finish_reason,
        error=response.error,
        served_model=response.model,
        request_id=response.request_id,
        input_tokens=response.usage.input_tokens,
        output_tokens=response.usage.output_tokens,
        reasoning_tokens=response.usage.reasoning_tokens,
        latency_s=response.latency_s,
        received_at=row.received_at,
        cached=response.cached,
        source_tool=origin.tool if origin else None,
        source_file=origin.file if origin else None,
        source_id=origin.id if origin else None,
        source_task=origin.task if origin else None,
        source_repeat=origin.repeat if origin else None,
        rule=row.extraction.rule,
        spans=[list(span) for span in row.extraction.spans],
        evidence=[text[start:end] for start, end in row.extraction.spans],
        conflicts=list(row.extraction.conflicts),
        metadata=json.dumps(instance.metadata, ensure_ascii=False, sort_keys=True),
    )


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
    "reasoning_effort",
    "flipped",
)
"""What items are filtered by.

`role`: the role chosen, `person` for a person without one, `none` where nothing was chosen. `correct`: yes or no, by
the published labels; none where no response was received. `reasoning_effort`: the level requested, unset for none.
`flipped`: whether the question got different choices under this run's prompt variants, option orders and label styles:
yes, no, or once where it has one answer only.
"""
_STRATA = ("benchmark", "split", "language", "outcome", "role", "flipped")
_BATCH = 5000
_READ = ", ".join(f"'{outcome}'" for outcome in sorted(PARSED))
_LOST = ", ".join(f"'{outcome}'" for outcome in sorted(NO_RESPONSE))

_ITEMS = f"""
SELECT number, prompt_id, extractor, key, benchmark, split, language, category, template_id, condition, variant,
  outcome,
  CASE WHEN outcome NOT IN ({_READ}) THEN 'none'
    WHEN shown IS NULL THEN 'unknown'
    ELSE coalesce(json_extract(instance, '$.options[' || shown || '].role'), 'person') END,
  CASE WHEN outcome IN ({_LOST}) THEN 'none'
    WHEN outcome NOT IN ({_READ}) THEN 'no'
    WHEN shown IS NULL THEN CASE condition WHEN 'ambiguous' THEN 'yes' ELSE 'no' END
    WHEN shown = json_extract(instance, '$.gold_index') THEN 'yes' ELSE 'no' END,
  confidence, reasoning_effort
FROM (
  SELECT p.number, p.prompt_id, e.extractor, i.key, i.benchmark, i.split, i.language, i.category, i.template_id,
    i.condition, json_extract(p.record, '$.variant') AS variant, e.outcome, i.record AS instance,
    coalesce(json_extract(e.record, '$.confidence'), 'none') AS confidence,
    coalesce(json_extract(p.record, '$.reasoning_effort'), 'unset') AS reasoning_effort,
    json_extract(p.record, '$.option_order[' || json_extract(e.record, '$.option') || ']') AS shown
  FROM prompts p JOIN instances i ON i.key = p.instance_key
  JOIN extractions e ON e.prompt_id = p.prompt_id AND e.extractor = ?
  WHERE p.language = ? ORDER BY p.number)
"""
_SCHEMA = f"""
CREATE TABLE items (
    number INTEGER PRIMARY KEY, prompt_id TEXT, extractor TEXT, key TEXT,
    {", ".join(f"{field} TEXT" for field in FIELDS)}, rank INTEGER
)
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
    correct: str
    confidence: str
    reasoning_effort: str
    flipped: str


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
        """Reads what these extractor versions, by language, have read.

        `seed`: of the order in which samples are drawn; `step` is called for each batch of items.
        """
        self._step = step
        self._lock = Lock()
        self._db = sqlite3.connect("", check_same_thread=False, isolation_level=None)
        self._db.execute("PRAGMA journal_mode = OFF")
        self._db.execute(_SCHEMA)
        for language, version in sorted(versions.items()):
            self._add(store, language, version, seed)
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

    def _add(self, store: RunStore, language: str, version: str, seed: int) -> None:
        rows = store.query(_ITEMS, (version, language))
        self._db.execute("BEGIN")
        while batch := rows.fetchmany(_BATCH):
            marks = ", ".join("?" * (len(batch[0]) + 2))
            ranked = ((*row, None, stable_number(seed, row[1]) >> 1) for row in batch)
            self._db.executemany(f"INSERT INTO items VALUES ({marks})", ranked)
            self._step(len(batch))
        self._db.execute("COMMIT")

    def _rows(self, statement: str, parameters: Sequence[str | int] = ()) -> list[tuple[str | int, ...]]:
        with self._lock:
            return self._db.execute(statement, parameters).fetchall()

    def count(self, filters: Mapping[str, str] | None = None) -> int:
        """How many items have these values."""
        where, values = _condition(filters or {})
        ((found,),) = self._rows(f"SELECT count(*) FROM items {where}", values)
        return int(found)

    def page(self, filters: Mapping[str, str], offset: int, limit: int) -> list[SampleRow]:
        """Items with these values, in plan order.

        Raises:
            UnknownNameError: for a field that items are not filtered by.
        """
        where, values = _condition(filters)
        found = self._rows(
            f"SELECT {_COLUMNS} FROM items {where} ORDER BY number LIMIT ? OFFSET ?", [*values, limit, offset]
        )
        return list(_indexed_samples(found))

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
        return sorted(_indexed_samples(found))

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
        parts.append("substr(prompt_id, 1, length(?)) = ?")
        values += [filters["id"], filters["id"]]
    return (f"WHERE {' AND '.join(parts)}" if parts else ""), values


def _indexed_samples(rows: Sequence[tuple[str | int, ...]]) -> Iterator[SampleRow]:
    for row in rows:
        yield SampleRow(*row)  # type: ignore[arg-type]  # by the columns' order
