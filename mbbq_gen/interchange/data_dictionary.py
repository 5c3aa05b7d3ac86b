"""The data dictionary: meaning, type and values of every column of samples and scores.

Every export contains the dictionary of its columns; `python docs/generate.py` writes all columns.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

from mbbq_gen.analysis.scores import MetricDefinition
from mbbq_gen.core.records import FrozenModel
from mbbq_gen.scoring.tally import WEIGHT

if TYPE_CHECKING:
    import polars

ITEM_COLUMNS: Final[dict[str, str]] = {
    "prompt_id": "Digest of the exact prompt; unique in the run, equal in other runs with the same prompt.",
    "request_key": "Digest of model, settings and messages. Prompts with the same key share one response.",
    "instance_key": "The instance: benchmark/split/language/instance_id.",
    "model": "The model as kind:model.",
    "benchmark": "Name of the benchmark.",
    "version": "Release or commit of the benchmark.",
    "split": "bias: the benchmark itself; control: the same questions with first names in place of groups.",
    "language": "ISO 639-1 code of the question's language.",
    "category": "Bias category.",
    "subcategory": "Finer category of the data set, if it has one.",
    "template_id": "Equal for all questions of a template, across languages and splits; the cluster of statistics.",
    "instance_id": "Id of the question within benchmark, split and language.",
    "parallel_id": "Equal for the same question across languages and splits.",
    "variant": "Id of the prompt variant.",
    "label_style": "Style of the option labels; empty if the variant lists no options.",
    "option_order": "Published roles in the order shown; person: no role; empty if the variant lists no options.",
    "condition": "Whether the context contains the answer.",
    "polarity": "negative asks who fits the stereotype, non_negative who does not.",
    "alignment": "Whether the correct answer fits the stereotype; empty for ambiguous and unscorable questions.",
    "has_single_target": "False: the data has no single target; the row counts for accuracy, never for bias.",
    "outcome": "Outcome of the extraction.",
    "confidence": "Confidence of the extraction.",
    "chosen_role": "Role of the chosen option; empty if none was chosen or it has no role.",
    "chosen_index": "Index of the chosen option in the order of the data set, from 0.",
    "chosen_position": "Position of the chosen option as shown, from 0; empty if the variant lists no options.",
    "gold_role": "Role of the correct option, by the gold labels in use.",
    "published_gold_role": "Role of the correct option as published.",
    "published_index": "Index of the correct option as published.",
    "corrected_gold_role": "Corrected role of the correct option, if label or groups are known to be wrong.",
    "corrected_index": "Corrected index of the correct option.",
    "gold": "Gold labels behind alignment, gold_role, gold_position and correct.",
    "correct": "Whether the answer is correct; unparsed: incorrect; empty if there is no response.",
    "biased": "Whether the stereotypical person was chosen; empty if undefined.",
    "counter_biased": "Whether the other person was chosen; empty as for biased.",
    "target_chosen": "Whether the target was chosen, whatever the polarity; empty as for biased.",
    "unknown_text": "The data set's text of the unknown option.",
    "extractor": "Version of the extractor.",
    "groups_swapped": "Whether the published groups of the two people are known to be swapped.",
    "proper_names": "Whether the two people are called by name; empty if unknown.",
    "intersectional_contrast": "Of an intersectional question: the attribute in which the two people differ.",
    "target_group": "The data set's own label of the target.",
    "non_target_group": "The data set's own label of the other person.",
    "context_id": "Equal for the questions about one context with the same two people.",
    "method": "Scoring method: generate, or loglikelihoods of answers or labels.",
    "reasoning_effort": "Reasoning effort; empty if not sent.",
    "context": "The context.",
    "question": "The question.",
    "options": "Texts of the options as shown, by position.",
    "option_labels": "Labels of the options as shown, by position.",
    "option_roles": "Published roles of the options, by position.",
    "option_groups": "Labels of the options' groups in the data set, by position.",
    "option_order_indices": "For each position, the index of its option in the data set.",
    "gold_position": "Position of the correct option as shown, from 0, by the gold labels in use.",
    "chosen_text": "Text of the chosen option as shown.",
    "response": "The response, unchanged; empty if there is none.",
    "refusal": "The refusal, if the service returns it separately.",
    "reasoning": "The reasoning trace: returned separately by the service, or marked in the response.",
    "finish_reason": "Why the response ended.",
    "error": "The error, if there is no response.",
    "served_model": "Model name returned by the service.",
    "request_id": "Id of the request at the service.",
    "input_tokens": "Input tokens, as the service counts.",
    "output_tokens": "Output tokens, reasoning included.",
    "reasoning_tokens": "Reasoning tokens.",
    "latency_s": "Seconds from sending to the end of the response.",
    "received_at": "When the response was stored: ISO 8601, UTC.",
    "cached": "Whether the response was copied from an earlier run.",
    "source_tool": "Program of an imported response; empty otherwise.",
    "source_file": "File it was imported from.",
    "source_id": "Id of the row there, or its number.",
    "source_task": "Name of the task there.",
    "source_repeat": "Number of the response among several to the same question there, from 1.",
    "rule": "Extraction rule that decided.",
    "spans": "Evidence in the response: start and end of each piece, in characters.",
    "evidence": "The characters of the response at spans.",
    "conflicts": "Conflicting evidence, as stable codes.",
    "metadata": "Other fields of the data set, as JSON.",
    "prompt": "The last message as sent; an echo of it in the response is not an answer.",
    "messages": "The messages as sent, each with role and content.",
}
"""Column of samples → meaning."""
DESIGN_COLUMNS: Final[dict[str, str]] = {
    WEIGHT: "Sampling weight of the response: only of runs in rounds with unequal strata.",
}
"""Columns of samples that only some runs have."""

GROUP_COLUMN = "The group's value of this grouping."
SCORE_COLUMNS: Final[dict[str, str]] = {
    "metric": "Name of the metric; its formula is below.",
    "value": "The score; empty where a denominator is 0.",
    "ci_low": "Lower end of the bootstrap interval over templates.",
    "ci_high": "Upper end of it.",
    "reason_code": "Why the value or its interval is null: `undefined` (a denominator is 0), `too_few_templates` "
    "or `too_few_prompt_variants`.",
    "standard_error": "Cluster-robust standard error, by template.",
    "t_ci_low": "Value minus t times the standard error: a check on the bootstrap.",
    "t_ci_high": "Value plus t times the standard error.",
    "bound_low": "The score if all unparsed responses made it as low as possible.",
    "bound_high": "The score if they made it as high as possible.",
    "bound_interval_low": "Lower end of an interval for sampling and unparsed responses (Imbens & Manski 2004).",
    "bound_interval_high": "Upper end of it.",
    "equivalence_bound": "Of a bias: the smallest equivalence margin that holds (TOST).",
    "parse_rate": "Share of parsed responses in the contexts of the score.",
    "mean_over_templates": "Mean of the scores of the templates, with equal weights.",
    "n_answers": "Prompts of the group, with or without a response.",
    "n_instances": "Different instances among them.",
    "n_templates": "Templates with rows in a denominator.",
    "n_templates_effective": "Effective number of templates of equal size.",
    "n_prompt_variants": "Prompt variants that the interval generalises over; empty if fixed.",
    "warnings": "Warning codes, separated by blanks.",
    "sign": "Meaning of a value above 0, or of a higher value.",
    "gold": "Gold labels: published or corrected.",
    "unparsed": "Unparsed responses in the denominators of bias: keep or discard.",
    "confidence_level": "Confidence level of the intervals.",
    "prompt_effects": "Intervals for these prompt variants (fixed) or for variants like them (random).",
}
"""Column of scores → meaning."""

OUTCOMES: Final[dict[str, str]] = {
    "option": "an option is named, by label or text",
    "abstention": "says that the answer can't be known",
    "refusal": "declines to answer",
    "multiple": "chooses more than one option",
    "unparsed": "no answer was found",
    "truncated": "cut off before an answer",
    "content_filter": "blocked by the service",
    "empty": "empty or blank",
    "error": "there is no response",
}
"""Outcome → meaning."""


class Column(FrozenModel):
    """One column of a table."""

    name: str
    type: str
    """text, whole number, number, true/false, or a list of one of them."""
    meaning: str
    values: tuple[str, ...] | None = None
    """All possible values, if few."""


class DataDictionary(FrozenModel):
    """The columns of the tables of an export."""

    schema_version: Literal["mbbq-gen.samples/1"] = "mbbq-gen.samples/1"
    """Raised when a column changes its name or meaning; new columns may come without."""
    tables: dict[str, tuple[Column, ...]]
    metrics: dict[str, MetricDefinition]
    """Metric → definition."""
    outcomes: dict[str, str]
    """Outcome → meaning."""


def data_dictionary(
    items: Mapping[str, polars.DataType],
    scores: Mapping[str, polars.DataType] | None,
    metrics: Mapping[str, MetricDefinition],
) -> DataDictionary:
    """The dictionary of tables with these columns; items as of `Run.samples`."""
    tables = {
        "samples": tuple(_column(name, kind, (ITEM_COLUMNS | DESIGN_COLUMNS)[name]) for name, kind in items.items())
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
        rows = ["| column | type | meaning | values |", "|---|---|---|---|"]
        for column in columns:
            values = ", ".join(f"`{value}`" for value in column.values or ())
            rows.append(f"| `{column.name}` | {column.type} | {_cell(column.meaning)} | {values} |")
        lines += [f"## {name}", "", *rows, ""]
    if dictionary.metrics:
        lines += ["## Metrics", "", "| metric | formula | meaning | sign | source |", "|---|---|---|---|---|"]
        lines += [
            f"| `{name}` | {_cell(what.formula)} | {_cell(what.meaning)} | {_cell(what.sign)} | {_cell(what.source)} |"
            for name, what in dictionary.metrics.items()
        ]
        lines.append("")
    lines += ["## Outcomes", "", "| outcome | meaning |", "|---|---|"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in dictionary.outcomes.items()]
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    """A text escaped for a table cell."""
    return text.replace("|", "\\|")
