"""The samples table of a run: one row for each answered prompt, with texts and extraction.

A row holds the observation (`mbbq_gen.scoring.observations`) from which scores are counted, and the texts: the question
and its options as shown, the response, and the evidence in it. So filtering and counting samples gives the numbers of
`score`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, get_args

from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.option_display import options_in_order
from mbbq_gen.core.records import Role
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
from mbbq_gen.storage.follow_ups import FollowUpReply, follow_up_columns
from mbbq_gen.storage.samples import SampleRecords, sample_records
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
    follow_up_reason: str | None
    """Why the answer was followed up: unread, low or check; None where it was not."""
    follow_up_response: str | None
    """The reply to the follow-up."""
    follow_up_outcome: str | None
    """As `outcome`, of the reply; `unparsed` where it says that no option was chosen."""
    follow_up_position: int | None
    """Place of the option that the reply names."""
    follow_up_confidence: str | None
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
        "follow_up_position": pl.Int8(),
        "latency_s": pl.Float64(),
        "cached": pl.Boolean(),
        "spans": pl.List(pl.List(pl.Int64())),
    }
    names = SampleColumns._fields[SampleColumns._fields.index(first) : SampleColumns._fields.index(last) + 1]
    return {name: kinds.get(name, pl.String()) for name in names}


def sample_batches(store: RunStore, choice: SampleFilter, size: int = BATCH_ITEMS) -> Iterator[polars.DataFrame]:
    """The items in plan order, at most `size` of them in a table; none at all where nothing has been read."""
    scored = [choice.scored] if choice.scored else []
    versions = {language: [version, *scored] for language, version in choice.versions.items()}
    for records in sample_records(store, versions, choice.ids, size):
        yield _items(records, choice, follow_up_columns(store, [row.prompt_id for row in records]))


def _items(rows: list[SampleRecords], choice: SampleFilter, replies: Mapping[str, FollowUpReply]) -> polars.DataFrame:
    """The table of some items, with the replies to their follow-ups."""
    import polars as pl

    schema = item_schema(messages=choice.messages)
    observed = _observed(rows, choice)
    columns = zip(*(_item_text(row, choice.gold, replies.get(row.prompt_id)) for row in rows), strict=True)
    texts = {name: list(values) for name, values in zip(SampleColumns._fields, columns, strict=True)}
    if choice.messages:
        texts["prompt"] = [row.prompt.messages[-1].content for row in rows]
        texts["messages"] = [[message.model_dump() for message in row.prompt.messages] for row in rows]
    beside = pl.DataFrame(texts, schema={name: kind for name, kind in schema.items() if name in texts})
    chosen = pl.col("options").list.get(pl.col("chosen_position"), null_on_oob=True).alias("chosen_text")
    return without_places(observed.hstack(beside).with_columns(chosen)).select(list(schema))


def _observed(rows: list[SampleRecords], choice: SampleFilter) -> polars.DataFrame:
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


def _item_text(row: SampleRecords, gold: GoldLabels, reply: FollowUpReply | None) -> SampleColumns:
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
        follow_up_reason=reply.reason if reply else None,
        follow_up_response=reply.text if reply else None,
        follow_up_outcome=reply.outcome if reply else None,
        follow_up_position=reply.option if reply else None,
        follow_up_confidence=reply.confidence if reply else None,
        metadata=json.dumps(instance.metadata, ensure_ascii=False, sort_keys=True),
    )
