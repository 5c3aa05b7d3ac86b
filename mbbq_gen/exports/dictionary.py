"""The data dictionary: what every column of the items and scores means, of which type it is, which values it takes.

Every export brings its own, with the columns that it has; docs/data-dictionary.md has all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final, Literal

from mbbq_gen.records import Record
from mbbq_gen.scoring.table import MetricDefinition
from mbbq_gen.scoring.weights import WEIGHT

if TYPE_CHECKING:
    import polars

ITEM_COLUMNS: Final[dict[str, str]] = {
    "presentation_id": "Digest of exactly what was sent; unique in the run, equal in another run that sent the same.",
    "request_key": "Digest of model, settings and messages. Presentations that share it share one response.",
    "instance_key": "The question: benchmark/split/language/instance_id.",
    "model": "The model, as the run names it: kind:model.",
    "benchmark": "Name of the benchmark.",
    "version": "Release or commit of the benchmark.",
    "split": "bias: the benchmark itself; control: the same questions with first names in place of groups.",
    "language": "ISO 639-1 code of the question's language.",
    "category": "Bias category.",
    "subcategory": "Finer category of the data set, if it has one.",
    "template_id": "Equal for all questions of one template, across languages and splits: what statistics cluster on.",
    "instance_id": "Id of the question within benchmark, split and language.",
    "parallel_id": "Equal for the same question across languages and splits.",
    "variant": "Id of the prompt wording.",
    "label_style": "How the options were labelled; empty where the wording lists none.",
    "order": "The published roles as shown, first place first; person stands for one without a role; empty where the "
    "wording lists none.",
    "condition": "Whether the context tells the answer.",
    "polarity": "negative asks who fits the stereotype, non_negative who does not.",
    "alignment": "Whether the right answer fits the stereotype; empty for ambiguous and unscorable questions.",
    "bias_scorable": "False: the data has no single target; the row counts for accuracy, never for bias.",
    "outcome": "What the response was taken to be.",
    "confidence": "How sure the reading is.",
    "chosen_role": "Role of the chosen option; empty where none was read, or a person without a role was chosen.",
    "chosen_index": "Place of the chosen option in the data set's own order, from 0.",
    "chosen_place": "Place of the chosen option as shown, from 0; empty where the wording lists none.",
    "answer_role": "The right role, by the labels that hold.",
    "published_role": "The data set's own right role.",
    "published_index": "The data set's own right option, as a place in its own order.",
    "corrected_role": "The right role where label or groups as published are known to be wrong.",
    "corrected_index": "Place of the corrected right option in the data set's own order.",
    "labels": "Which right answers alignment, answer_role, answer_place and correct hold to.",
    "correct": "Whether the answer is right. Unread answers are wrong; empty where no response was had.",
    "biased": "Whether the person was chosen whom the stereotype expects; empty where that can't be said.",
    "counter_biased": "Whether the other person was chosen; empty as for biased.",
    "target_chosen": "Whether the target was chosen, whatever the polarity; empty as for biased.",
    "unknown_text": "The data set's wording of the unknown option.",
    "extractor": "Version of the extractor that read the response.",
    "groups_crossed": "Whether the published groups of the two people are known to be the wrong way round.",
    "proper_names": "Whether the two people are called by name; empty where the data set does not say.",
    "comparison": "Of an intersectional question: what tells the other person from the target.",
    "target_group": "The data set's own label of the target.",
    "non_target_group": "The data set's own label of the other person.",
    "context_id": "Equal for the questions about one context with the same two people.",
    "method": "What was asked of the model: words (generate), or the likelihood of answers or labels.",
    "thinking": "How much the model was to think first; empty where nothing was said of it.",
    "context": "The context.",
    "question": "The question.",
    "options": "The options' texts as shown, by place.",
    "option_labels": "The labels as shown, by place.",
    "option_roles": "The published roles of the options, by place.",
    "option_groups": "The data set's own labels of the options' groups, by place.",
    "shown_order": "For each place, the place of its option in the data set's own order.",
    "answer_place": "Place of the right option as shown, from 0, by the labels that hold.",
    "chosen_text": "Text of the chosen option as shown.",
    "response": "The model's words, unchanged; empty where no response was had.",
    "refusal": "The model's words where the service keeps a refusal apart.",
    "reasoning": "What the model thought first: kept apart by the service, or between its signs in the response.",
    "finish_reason": "Why the text ends.",
    "error": "What failed, where no response was had.",
    "response_model": "The name under which the model or server answered.",
    "request_id": "The service's name for the exchange.",
    "input_tokens": "Tokens read, as the service counted.",
    "output_tokens": "Tokens written, reasoning included.",
    "reasoning_tokens": "The part of the output that was reasoning.",
    "latency_s": "Seconds from sending to the end of the answer.",
    "received_at": "When the response was stored: ISO 8601, UTC.",
    "from_cache": "Whether the response was copied from an earlier run.",
    "origin_tool": "The program that an imported answer comes from; empty where it was asked for here.",
    "origin_file": "Name of the file that it was imported from.",
    "origin_id": "The row's own id there; its number where it had none.",
    "origin_task": "What that program calls the task.",
    "origin_repeat": "Which of several answers to the same question it was there, from 1.",
    "rule": "Id of the extraction rule that decided.",
    "spans": "Where in the response the evidence stands: start and end of each piece, in characters.",
    "evidence": "The characters of the response at spans.",
    "conflicts": "Evidence that spoke for something else, as stable codes.",
    "metadata": "Whatever else the data set says of the question, as JSON.",
    "prompt": "The last message as sent: the question as it was put. An echo of it in the response is no answer.",
    "messages": "The messages as sent, each with role and content.",
}
"""Column of items → what it means."""
DESIGN_COLUMNS: Final[dict[str, str]] = {
    WEIGHT: "What the answer counts in scores: of runs in rounds that asked some strata more than others.",
}
"""The same, of columns that only some runs have."""

GROUP_COLUMN = "The group's value of this grouping."
SCORE_COLUMNS: Final[dict[str, str]] = {
    "metric": "Name of the score; its formula stands below.",
    "value": "The score; empty where a denominator is 0.",
    "low": "Lower end of the bootstrap interval over templates.",
    "high": "Upper end of it.",
    "reason_code": "Why the value or its interval is null: `undefined` (a denominator is 0), `too_few_templates` "
    "or `too_few_wordings`.",
    "standard_error": "Cluster-robust standard error, by template.",
    "analytic_low": "Value minus t times the standard error: a check on the bootstrap.",
    "analytic_high": "Value plus t times the standard error.",
    "bound_low": "The score if every unread answer had been of the kind that makes it lowest.",
    "bound_high": "The same for the highest.",
    "bound_interval_low": "Lower end of an interval for sampling and unread answers at once (Imbens & Manski 2004).",
    "bound_interval_high": "Upper end of it.",
    "smaller_than": "Of a bias: the smallest margin that it is shown to lie within, either way (TOST).",
    "share_read": "Of the answers in the score's contexts, those that could be read.",
    "template_mean": "The mean of the templates' own scores, every template counting alike.",
    "n_items": "Presentations of the group, those without a response included.",
    "n_instances": "Different questions among them.",
    "n_templates": "Templates with rows in a denominator.",
    "effective_templates": "How many templates of equal size would count as much.",
    "n_wordings": "Wordings that the interval generalises over; empty where they are held fixed.",
    "warnings": "Codes of what to beware of, separated by blanks (docs/scores.md).",
    "sign": "What a value above 0, or a higher one, means.",
    "labels": "Which right answers hold.",
    "undetected": "Whether unread answers stay in the denominators of bias (keep) or leave them (discard).",
    "interval": "Confidence of the intervals.",
    "wordings": "What intervals speak of: the wordings asked (fixed), or wordings like them (random).",
}
"""Column of scores → what it means."""

OUTCOMES: Final[dict[str, str]] = {
    "option": "an option is named, by label or text",
    "unknown_statement": "says that it can't be told",
    "refusal": "declines to answer",
    "multiple": "commits to more than one option",
    "no_answer": "nothing readable",
    "truncated": "cut off before an answer",
    "filtered": "blocked by the service",
    "empty": "nothing, or nothing but blanks",
    "error": "no response was had",
}
"""Outcome → what it says of a response."""


class Column(Record):
    """One column of a table."""

    name: str
    type: str
    """text, whole number, number, true/false, or a list of one of them."""
    meaning: str
    values: tuple[str, ...] | None = None
    """All that it can hold, where that is a short list."""


class DataDictionary(Record):
    """What the tables of an export hold."""

    schema_version: Literal["mbbq-gen.items/1"] = "mbbq-gen.items/1"
    """Raised when a column changes its name or meaning; new columns may come without."""
    tables: dict[str, tuple[Column, ...]]
    metrics: dict[str, MetricDefinition]
    """Metric of the scores → what it is."""
    outcomes: dict[str, str]
    """Outcome of the items → what it says of a response."""


def data_dictionary(
    items: Mapping[str, polars.DataType],
    scores: Mapping[str, polars.DataType] | None,
    metrics: Mapping[str, MetricDefinition],
) -> DataDictionary:
    """The dictionary of tables with these columns; the items' as `Run.items` has them."""
    tables = {
        "items": tuple(_column(name, kind, (ITEM_COLUMNS | DESIGN_COLUMNS)[name]) for name, kind in items.items())
    }
    if scores is not None:
        tables["scores"] = tuple(
            _column(name, kind, SCORE_COLUMNS.get(name, GROUP_COLUMN)) for name, kind in scores.items()
        )
    return DataDictionary(tables=tables, metrics=dict(metrics), outcomes=OUTCOMES)


def _column(name: str, kind: polars.DataType, meaning: str) -> Column:
    import polars as pl

    inner = kind
    while isinstance(inner, pl.List):
        inner = inner.inner  # type: ignore[assignment]
    values = tuple(inner.categories) if isinstance(inner, pl.Enum) else None
    return Column(name=name, type="text" if name == "context_id" else _type_name(kind), meaning=meaning, values=values)


def _type_name(kind: polars.DataType) -> str:
    import polars as pl

    if isinstance(kind, pl.List):
        return f"list of {_type_name(kind.inner)}"  # type: ignore[arg-type]
    if isinstance(kind, pl.Struct):
        return "{" + ", ".join(field.name for field in kind.fields) + "}"
    return (
        "whole number"
        if kind.is_integer()
        else "number"
        if kind.is_float()
        else "true/false"
        if kind == pl.Boolean()
        else "text"
    )


def dictionary_page(dictionary: DataDictionary, lead: str = "") -> str:
    """The dictionary as Markdown."""
    lines = ["# Data dictionary", "", *([lead, ""] if lead else []), f"Schema: `{dictionary.schema_version}`.", ""]
    for name, columns in dictionary.tables.items():
        lines += [f"## {name}", "", *_column_table(columns), ""]
    if dictionary.metrics:
        lines += ["## Metrics", "", "| metric | formula | what it tells | sign | source |", "|---|---|---|---|---|"]
        lines += [
            f"| `{name}` | {_cell(what.formula)} | {_cell(what.meaning)} | {_cell(what.sign)} | {_cell(what.source)} |"
            for name, what in dictionary.metrics.items()
        ]
        lines.append("")
    lines += ["## Outcomes", "", "| outcome | the response |", "|---|---|"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in dictionary.outcomes.items()]
    return "\n".join(lines) + "\n"


def _column_table(columns: Iterable[Column]) -> list[str]:
    rows = ["| column | type | meaning | values |", "|---|---|---|---|"]
    for column in columns:
        values = ", ".join(f"`{value}`" for value in column.values or ())
        rows.append(f"| `{column.name}` | {column.type} | {_cell(column.meaning)} | {values} |")
    return rows


def _cell(text: str) -> str:
    """A text that does not end its cell."""
    return text.replace("|", "\\|")
