"""Reads stored responses: from answers to extractions, and from extractions to the rows that scores count.

Readings are kept per extractor version. Reading again after an upgrade asks the model nothing, and reading with the
same version does nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING

from mbbq_gen.extraction import Extractor, load_extractor
from mbbq_gen.presentation import shown_options, shown_unknown
from mbbq_gen.records import Extraction
from mbbq_gen.resources import Resources
from mbbq_gen.runs.store import Answered, RunStore
from mbbq_gen.scoring.columns import ANSWER_COLUMNS, observations_from_columns
from mbbq_gen.scoring.observations import Labels

if TYPE_CHECKING:
    import polars

_BATCH = 2000


def read_run(store: RunStore, resources: Resources, step: Callable[[int], None]) -> dict[str, str]:
    """Reads every answer that its language's extractor has not read yet; says the extractor version by language.

    `step` hears of each batch that is stored.
    """
    versions: dict[str, str] = {}
    for language in store.languages():
        extractor = load_extractor(language, resources)
        versions[language] = extractor.version
        while True:
            batch = list(islice(store.unread(extractor.version, language), _BATCH))
            if not batch:
                break
            store.add_extractions(extractor.version, _read_all(batch, extractor))
            step(len(batch))
    return versions


def extractor_versions(languages: Iterable[str], resources: Resources) -> dict[str, str]:
    """The extractor version that is current for each language."""
    return {language: load_extractor(language, resources).version for language in languages}


def _read_all(batch: list[Answered], extractor: Extractor) -> Iterator[tuple[str, Extraction]]:
    for answered in batch:
        yield answered.presentation.presentation_id, read_answer(answered, extractor)


def read_answer(answered: Answered, extractor: Extractor) -> Extraction:
    """What one stored response means; a failure is `error` and a blocked answer `filtered`, whatever text they have."""
    response, presentation, instance = answered.response, answered.presentation, answered.instance
    if response.error is not None:
        return Extraction(outcome="error", confidence="high", rule="response.error")
    if response.finish_reason == "content_filter":
        return Extraction(outcome="filtered", confidence="high", rule="response.content_filter")
    return extractor.extract(
        response.text or "",
        shown_options(instance, presentation.order, presentation.unknown_text),
        list(presentation.labels),
        shown_unknown(instance, presentation.order),
        prompt=presentation.messages[-1].content,
        finish_reason=response.finish_reason,
    )


def observations(
    store: RunStore, versions: Mapping[str, Sequence[str]], model: str, labels: Labels = "published"
) -> polars.DataFrame:
    """The observations of all answers that these extractor versions, by language, have read, in plan order."""
    import polars as pl

    parts = [_answers(batch, model) for batch in store.answer_rows(versions)]
    answers = pl.concat(parts) if parts else pl.DataFrame(schema=dict.fromkeys(ANSWER_COLUMNS, pl.String))
    return observations_from_columns(store.instances(), answers, labels)


def _answers(batch: list[tuple[str, str, str, str]], model: str) -> polars.DataFrame:
    """Rows of the store as a table of answers; what was shown and read is parsed once for each different text."""
    import polars as pl

    names = ("instance_key", "shown", "read", "extractor")
    rows = pl.DataFrame(batch, schema=dict.fromkeys(names, pl.String), orient="row")
    shown = pl.DataFrame(
        [
            (text, variant, style, json.dumps(order))
            for text in rows["shown"].unique()
            for variant, style, order in (json.loads(text),)
        ],
        schema=dict.fromkeys(("shown", "variant", "label_style", "order"), pl.String),
        orient="row",
    )
    read = pl.DataFrame(
        [(text, *json.loads(text)) for text in rows["read"].unique()],
        schema={"read": pl.String, "outcome": pl.String, "option": pl.Int8, "confidence": pl.String},
        orient="row",
    )
    joined = rows.join(shown, on="shown", maintain_order="left").join(read, on="read", maintain_order="left")
    return joined.with_columns(model=pl.lit(model)).select(ANSWER_COLUMNS)
