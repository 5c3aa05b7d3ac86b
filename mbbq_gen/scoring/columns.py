"""A table of observations built by columns: for runs of a million answers, where one Python object each is too slow.

What an answer means depends on little. So every question is flattened once, every distinct (question signature, order,
outcome, option) is observed once, by `observe` itself, and the rest is a join.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from mbbq_gen.core.errors import DataError
from mbbq_gen.core.option_display import OPEN_VARIANT
from mbbq_gen.core.records import Extraction, Instance
from mbbq_gen.scoring.observations import (
    INSTANCE_COLUMNS,
    GoldLabels,
    Observation,
    instance_columns,
    observation_schema,
    observe,
)

if TYPE_CHECKING:
    import polars

ANSWER_COLUMNS = (
    "instance_key",
    "model",
    "variant",
    "label_style",
    "option_order",
    "outcome",
    "option",
    "confidence",
    "extractor",
)
"""What a table of answers holds, one row a prompt: `Instance.key`, `option_order` as a JSON list of indices in
`Instance.options` by place, `option` as a place or null. Columns `method` and `reasoning_effort` may stand beside."""
METHOD: Final = "method"
REASONING_EFFORT: Final = "reasoning_effort"

_SHARED = ("model", "variant", "label_style", "confidence", "extractor", METHOD, REASONING_EFFORT)
_DERIVED = tuple(name for name in Observation._fields if name not in {*INSTANCE_COLUMNS, *_SHARED, "outcome"})
_MEANING = ("signature", "shown", "outcome", "option")
"""What the columns that only question and answer together tell depend on."""


@dataclass(frozen=True)
class Questions:
    """The questions, flattened (`flattened`): for tables of answers to the same ones, again and again."""

    frame: polars.DataFrame
    """`instance_key`, `signature` and the columns of INSTANCE_COLUMNS."""
    examples: list[Instance]
    """One question for each signature."""


def observations_from_columns(
    instances: Iterable[Instance] | Questions, answers: polars.DataFrame, gold: GoldLabels = "published"
) -> polars.DataFrame:
    """The observations of a table of answers (`ANSWER_COLUMNS`), in its order.

    Raises:
        DataError: where an answer belongs to no question, or contradicts itself (as `observe` says).
    """
    import polars as pl

    schema = observation_schema()
    questions = instances if isinstance(instances, Questions) else flattened(instances)
    usual = {METHOD: pl.lit("generate"), REASONING_EFFORT: pl.lit(None, pl.String)}
    answers = answers.with_columns(**{name: usual[name] for name in usual.keys() - set(answers.columns)})
    given = answers.lazy().with_columns(
        *(pl.col(name).cast(schema[name]) for name in (*_SHARED, "outcome")),
        pl.col("option_order").cast(pl.Categorical).alias("shown"),
        pl.col("option").cast(pl.Int8),
        pl.col("instance_key").cast(pl.Categorical),
    )
    joined = (
        given.drop("option_order")
        .join(questions.frame.lazy(), on="instance_key", how="left", maintain_order="left")
        .collect()
    )
    lost = joined.filter(joined["signature"].is_null())
    if lost.height:
        raise DataError(f"{lost['instance_key'][0]}: an answer to a question that is not among the questions")
    distinct = joined.select(_MEANING).unique()
    observed = [
        observe(
            questions.examples[signature],
            json.loads(shown),
            Extraction(outcome=outcome, option=option),
            model=None,
            variant=None,
            label_style=None,
            gold=gold,
        )._asdict()
        for signature, shown, outcome, option in distinct.iter_rows()
    ]
    meanings = distinct.with_columns(
        pl.Series(name, [row[name] for row in observed], schema[name]) for name in _DERIVED
    )
    return (
        joined.lazy()
        .join(meanings.lazy(), on=_MEANING, how="left", nulls_equal=True, maintain_order="left")
        .select(list(schema))
        .collect()
    )


QUESTION_ROW: Final = ("key", *INSTANCE_COLUMNS, "role_0", "role_1", "role_2", "gold_index", "corrected_gold_role")
_SIGNATURE: Final = tuple(
    QUESTION_ROW.index(name)
    for name in ("groups_swapped", "has_single_target", "condition", "polarity", *QUESTION_ROW[-5:])
)


def question_row(instance: Instance) -> tuple[Any, ...]:
    """The columns of an instance (QUESTION_ROW)."""
    roles = [option.role for option in instance.options]
    columns = instance_columns(instance).values()
    return (instance.key, *columns, *roles, instance.gold_index, instance.corrected_gold_role)


def flattened(instances: Iterable[Instance]) -> Questions:
    """The questions as a table; questions that mean the same for every answer share a signature."""
    by_key = {instance.key: instance for instance in instances}
    return questions_from_rows(map(question_row, by_key.values()), by_key.__getitem__)


def questions_from_rows(rows: Iterable[tuple[Any, ...]], instance_of: Callable[[str], Instance]) -> Questions:
    """The questions as a table, from their columns (QUESTION_ROW); `instance_of` finds an instance by its key."""
    import polars as pl

    numbers: dict[tuple[object, ...], int] = {}
    examples: list[Instance] = []
    signatures: list[int] = []
    found: list[tuple[Any, ...]] = []
    for row in rows:
        signature = tuple(row[place] for place in _SIGNATURE)
        if signature not in numbers:
            numbers[signature] = len(numbers)
            examples.append(instance_of(row[0]))
        signatures.append(numbers[signature])
        found.append(row[: 1 + len(INSTANCE_COLUMNS)])
    schema = observation_schema()
    keys, *columns = zip(*found, strict=True) if found else [()] * (1 + len(INSTANCE_COLUMNS))
    frame = pl.DataFrame(
        [
            pl.Series("instance_key", keys, pl.Categorical),
            pl.Series("signature", signatures, pl.Int32),
            *(pl.Series(name, values, schema[name]) for name, values in zip(INSTANCE_COLUMNS, columns, strict=True)),
        ]
    )
    return Questions(frame, examples)


def without_places(frame: polars.DataFrame) -> polars.DataFrame:
    """The observations, without order, labels and place where the variant lists no options: nothing was shown."""
    import polars as pl

    is_open = (pl.col("variant").cast(pl.String) == OPEN_VARIANT).fill_null(value=False)
    shown = ("option_order", "label_style", "chosen_position")
    return frame.with_columns(pl.when(~is_open).then(pl.col(name)).alias(name) for name in shown)


def model_by_method(model: str) -> polars.Expr:
    """What a model is called in a table with a column `method`: `MODEL (likelihood)` where that is not generate."""
    import polars as pl

    scored = pl.format("{} ({})", pl.lit(model), pl.col("method").cast(pl.String))
    return pl.when(pl.col("method").cast(pl.String) == "generate").then(pl.lit(model)).otherwise(scored)
