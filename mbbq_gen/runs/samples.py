"""The samples table: one row for each answered prompt, with texts and extraction.

A row has the observation (`mbbq_gen.scoring.observations`) that scores are computed from, and the texts: the question
and its options as shown, the response, and the evidence in it. Counts over filtered samples agree with `score`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, get_args

from mbbq_gen.core.errors import UnknownNameError
from mbbq_gen.core.files import PackPaths, stable_number
from mbbq_gen.core.option_display import options_in_order
from mbbq_gen.core.records import NO_RESPONSE, PARSED, Extraction, Instance, Prompt, Response, Role
from mbbq_gen.runs.extraction import answer_table, observations
from mbbq_gen.runs.reasoning import reasoning_text
from mbbq_gen.scoring.observations import (
    GoldLabels,
    corrected_index,
    model_by_method,
    observation_schema,
    observations_from_columns,
    without_places,
)
from mbbq_gen.storage.queries import REPLY_COLUMNS, follow_up_columns
from mbbq_gen.storage.schema import EXTRACTION, read_extraction
from mbbq_gen.storage.store import RunStore

if TYPE_CHECKING:
    import polars

BATCH_ITEMS = 20_000
_RESPONSE_FIELDS: Final = ("refusal", "finish_reason", "error", "request_id", "latency_s", "cached")
_SOURCE_FIELDS: Final = ("tool", "file", "id", "task", "repeat")
_NO_REPLY: Final[dict[str, object]] = dict.fromkeys(REPLY_COLUMNS)


def item_schema(*, messages: bool = False) -> dict[str, polars.DataType]:
    """The columns of an items table and their types, in order (defined in `interchange/data_dictionary.toml`)."""
    import polars as pl

    text, number, place, texts = pl.String(), pl.Int64(), pl.Int8(), pl.List(pl.String())
    response = ("response", "refusal", "reasoning", "finish_reason", "error", "served_model", "request_id")
    sent = {"prompt": text, "messages": pl.List(pl.Struct({"role": text, "content": text}))}
    return {
        **dict.fromkeys(("prompt_id", "request_key", "instance_key"), text),
        **observation_schema(),
        **dict.fromkeys(("context", "question"), text),
        **dict.fromkeys(("options", "option_labels"), texts),
        "option_roles": pl.List(pl.Enum(get_args(Role))),
        "option_groups": texts,
        "option_order_indices": pl.List(place),
        "gold_position": place,
        "chosen_text": text,
        **dict.fromkeys(response, text),
        **dict.fromkeys(("input_tokens", "output_tokens", "reasoning_tokens"), number),
        "latency_s": pl.Float64(),
        "received_at": text,
        "cached": pl.Boolean(),
        **dict.fromkeys(("source_tool", "source_file", "source_id", "source_task"), text),
        "source_repeat": number,
        "rule": text,
        "spans": pl.List(pl.List(number)),
        **dict.fromkeys(("evidence", "conflicts"), texts),
        **dict.fromkeys(("follow_up_reason", "follow_up_response", "follow_up_outcome"), text),
        "follow_up_position": place,
        **dict.fromkeys(("follow_up_confidence", "metadata"), text),
        **(sent if messages else {}),
    }


def sample_batches(
    store: RunStore,
    versions: Mapping[str, str],
    model: str,
    gold: GoldLabels = "published",
    *,
    scored: str | None = None,
    messages: bool = False,
    size: int = BATCH_ITEMS,
) -> Iterator[polars.DataFrame]:
    """The samples in plan order, in tables of at most `size` rows; no table without extractions.

    `versions`: language → extractor version, languages without one are left out; `scored`: extractor version of
    loglikelihoods, None: they are left out; `messages`: whether to add the messages as sent, and the last as `prompt`.
    """
    import polars as pl

    schema = item_schema(messages=messages)
    wanted = {language: [version, scored] if scored else [version] for language, version in versions.items()}
    rows = store.extraction_rows(
        f"p.record, i.record, r.record, r.received_at, e.extractor, {', '.join(f'e.{name}' for name in EXTRACTION)}",
        wanted,
        "JOIN instances i ON i.key = p.instance_key JOIN responses r ON r.request_key = p.request_key",
    )
    while batch := rows.fetchmany(size):
        instances: dict[str, Instance] = {}  # prompts of one question share its instance
        answers, samples = [], list[dict[str, object]]()
        for prompt_record, record, response_record, received_at, extractor, *columns in batch:
            instance = instances.get(record) or instances.setdefault(record, store.read(Instance, record))
            prompt, found = store.read(Prompt, prompt_record), read_extraction(columns)
            order = json.dumps(prompt.option_order)
            shown = (instance.key, model, prompt.variant, prompt.label_style, order)
            said = (found.outcome, found.option, found.confidence, extractor)
            answers.append((*shown, *said, prompt.method, prompt.reasoning_effort))
            sample = _sample(prompt, instance, store.read(Response, response_record), found, gold)
            samples.append(sample | {"received_at": received_at})
            if messages:
                sent = [message.model_dump() for message in prompt.messages]
                samples[-1] |= {"prompt": prompt.messages[-1].content, "messages": sent}
        replies = follow_up_columns(store, [str(sample["prompt_id"]) for sample in samples])
        samples = [sample | replies.get(str(sample["prompt_id"]), _NO_REPLY) for sample in samples]
        table = answer_table(answers).with_columns(model=model_by_method(model))
        texts = {name: [sample[name] for sample in samples] for name in samples[0]}
        beside = pl.DataFrame(texts, schema={name: kind for name, kind in schema.items() if name in texts})
        chosen = pl.col("options").list.get(pl.col("chosen_position"), null_on_oob=True).alias("chosen_text")
        observed = observations_from_columns(instances.values(), table, gold).hstack(beside)
        yield without_places(observed.with_columns(chosen)).select(list(schema))


def _sample(
    prompt: Prompt, instance: Instance, response: Response, extraction: Extraction, gold: GoldLabels
) -> dict[str, object]:
    """The columns of a sample, except observation, response time and follow-up."""
    shown = [instance.options[index] for index in prompt.option_order]
    corrected = corrected_index(instance) if gold == "corrected" else None
    right = instance.gold_index if corrected is None else corrected
    assert right is not None  # an Instance always has one
    text, reasoning = response.text or "", reasoning_text(response, PackPaths())
    usage = response.usage
    return {
        "prompt_id": prompt.prompt_id,
        "request_key": response.request_key,
        "instance_key": instance.key,
        "context": instance.context,
        "question": instance.question,
        "options": options_in_order(instance, prompt.option_order, prompt.unknown_text),
        "option_labels": list(prompt.option_labels),
        "option_roles": [option.role for option in shown],
        "option_groups": [option.group for option in shown],
        "option_order_indices": list(prompt.option_order),
        "gold_position": prompt.option_order.index(right),
        "response": response.text,
        "reasoning": reasoning.text if reasoning else None,
        "served_model": response.model,
        **{name: getattr(response, name) for name in _RESPONSE_FIELDS},
        **{name: getattr(usage, name) for name in ("input_tokens", "output_tokens", "reasoning_tokens")},
        **{f"source_{name}": getattr(response.import_source, name, None) for name in _SOURCE_FIELDS},
        "rule": extraction.rule,
        "spans": [list(span) for span in extraction.spans],
        "evidence": [text[start:end] for start, end in extraction.spans],
        "conflicts": list(extraction.conflicts),
        "metadata": json.dumps(instance.metadata, ensure_ascii=False, sort_keys=True),
    }


# --- an index that filters and counts --------------------------------------------------------------------------------

_STRATA: Final = ("benchmark", "split", "language", "outcome", "role", "flipped")


class SampleRow(NamedTuple):
    """One row of SampleIndex; the fields after `key` are FIELDS."""

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
    """The role chosen; `person` for an option without one, `none` if no option was chosen."""
    correct: str
    """yes or no, by the published labels; none without a response."""
    confidence: str
    reasoning_effort: str
    """The requested level, or unset."""
    flipped: str
    """Whether the question's answers differ in role: yes, no, or once for a single one."""


FIELDS: Final = SampleRow._fields[4:]


class SampleIndex:
    """A table of extractions that can be filtered, counted and sampled."""

    def __init__(self, store: RunStore, versions: Mapping[str, str], seed: int = 0) -> None:
        """`versions`: language → extractor version; `seed`: of `sample`."""
        import polars as pl

        wanted = {language: [version] for language, version in versions.items()}
        rows = store.extraction_rows("p.number, p.prompt_id, p.instance_key", wanted)
        ranked = [(*row, stable_number(seed, row[1]) >> 1) for row in rows]
        kinds = {"number": pl.Int64(), "prompt_id": pl.String(), "key": pl.String(), "rank": pl.Int64()}
        role, is_correct = pl.col("chosen_role").cast(pl.String).fill_null("person"), pl.col("correct")
        yes_or_no = pl.when(is_correct).then(pl.lit("yes")).otherwise(pl.lit("no"))
        correct = pl.when(is_correct.is_null()).then(pl.lit("none")).otherwise(yes_or_no)
        is_chosen = pl.col("outcome").cast(pl.String).is_in(sorted(PARSED))
        items = observations(store, wanted, "").select(
            *(pl.col(name).cast(pl.String) for name in ("extractor", *SampleRow._fields[4:8])),
            *(pl.col(name).cast(pl.String) for name in ("condition", "variant", "outcome", "confidence")),
            pl.col("template_id").cast(pl.String).alias("template"),
            pl.when(is_chosen).then(role).otherwise(pl.lit("none")).alias("role"),
            correct.alias("correct"),
            pl.col("reasoning_effort").cast(pl.String).fill_null("unset"),
        )
        roles = pl.col("role").filter(~pl.col("outcome").is_in(sorted(NO_RESPONSE)))
        flipped = pl.when(roles.n_unique() > 1).then(pl.lit("yes")).otherwise(pl.lit("no"))
        flipped = pl.when(roles.len() < 2).then(pl.lit("once")).otherwise(flipped)
        facts = pl.DataFrame(ranked, schema=kinds, orient="row")
        self._items = items.hstack(facts).with_columns(flipped.over("key").alias("flipped"))

    def _filtered(self, filters: Mapping[str, str]) -> polars.DataFrame:
        import polars as pl

        if unknown := next((name for name in filters if name not in {*FIELDS, "id"}), None):
            raise UnknownNameError("filter", unknown, [*FIELDS, "id"])
        return self._items.filter(
            pl.col("prompt_id").str.starts_with(filters.get("id", "")),
            *(pl.col(name) == value for name, value in filters.items() if name != "id"),
        )

    def count(self, filters: Mapping[str, str] | None = None) -> int:
        """The number of samples with these values."""
        return self._filtered(filters or {}).height

    def page(self, filters: Mapping[str, str], offset: int, limit: int) -> list[SampleRow]:
        """Samples with these values, in plan order; UnknownNameError for an unknown field."""
        return _rows(self._filtered(filters).slice(offset, limit))

    def sample(self, size: int) -> list[SampleRow]:
        """At most `size` samples, in plan order, as equally as possible from all strata (_STRATA).

        Rare samples are included, so shares in the sample are not those of the run.
        """
        import polars as pl

        turn = pl.col("rank").rank("ordinal").over(_STRATA)
        return _rows(self._items.with_columns(turn=turn).sort("turn", "rank").head(size).sort("number"))

    def values(self) -> dict[str, dict[str, int]]:
        """Field → its values with their numbers of samples, sorted by value."""
        return {field: dict(self._items[field].value_counts().sort(field).iter_rows()) for field in FIELDS}


def _rows(items: polars.DataFrame) -> list[SampleRow]:
    return [SampleRow(*row) for row in items.select(SampleRow._fields).iter_rows()]
