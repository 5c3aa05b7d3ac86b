"""Writes the reference pages: docs/reference/*.md, which git ignores.

`make docs` runs it before mkdocs. `python docs/generate.py FOLDER` writes the pages elsewhere.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import polars as pl
from pydantic import BaseModel
from typer.testing import CliRunner

from mbbq_gen.analysis import comparison_table, correction, follow_up, score_extras
from mbbq_gen.analysis import scores as score_tables
from mbbq_gen.analysis.scores import WARNINGS, MetricDefinition
from mbbq_gen.annotation.judge import shipped_prompt
from mbbq_gen.benchmarks import quality
from mbbq_gen.benchmarks.registry import BENCHMARKS
from mbbq_gen.cli.main import all_commands, app
from mbbq_gen.core import records
from mbbq_gen.core.files import PackPaths
from mbbq_gen.interchange.export import data_dictionary
from mbbq_gen.languages.axes_pack import AxesPack, read_axes
from mbbq_gen.languages.prompt_pack import PromptPack, read_prompts
from mbbq_gen.providers.registry import ALIASES, KINDS
from mbbq_gen.report.score_tables import SCORE_COLUMNS
from mbbq_gen.runs import estimate, run_folder, status
from mbbq_gen.runs.samples import item_schema
from mbbq_gen.scoring.metrics import METRICS

COMMANDS_HEAD = """\
# Commands

The output of `mbbq-gen COMMAND --help` for every command. Exit codes: 0 done; 1 the work failed, or a check found
something; 2 wrong use or bad input; 130 stopped with Ctrl-C. Results go to stdout, everything else to stderr.
"""
MODELS_HEAD = """\
# Models and their options

A model is named `KIND:MODEL`. The options of its kind are set with `--model-arg NAME=VALUE`; many of them also have an
option of their own in `mbbq-gen run`. A package can add a kind: see [add a provider](../guides/add-a-provider.md).
"""
PROMPT_TEXTS_HEAD = """\
# Prompt texts

Every sentence of the prompt packs, for proofreading. For each language: the texts of the levels of `--axes`
([prompt robustness](../guides/prompt-robustness.md)), in the usual register and in the other one, if there is one; two
composed variants; and the variants that are written as a whole (`--variants polite,letters,…`). The prompt of
`mbbq-gen judge` is at the end.
"""
METRICS_HEAD = """\
# Metrics

What `mbbq-gen score` computes. [What scores mean](../what-scores-mean.md) explains the terms and has a worked example.
A score with an empty denominator is `null` in JSON and a dash in tables.
"""
JSON_HEAD = """\
# JSON fields

The records that commands read and write as JSON. Unknown keys are refused. `null` means that there is no value.
"""
BENCHMARKS_HEAD = """\
# Benchmarks

The benchmarks that can be loaded by name. None of the published files is part of this project: get them with
`mbbq-gen data download NAME`, or use `--data-dir DIR` for a copy of your own.
[Benchmarks and their data issues](../datasets.md) explains how they differ.
"""
DICTIONARY_LEAD = (
    "The columns of `Run.samples()` and `mbbq-gen export`. In files context_id is text, because some programs cannot "
    "hold 64 bits."
)
COMPOSED = ("please+json+say_so+as_woman", "plain_4+line+no_stereotypes+question_first")
"""Composed variants shown for every language."""
RECORDS: tuple[tuple[str, ModuleType, tuple[str, ...]], ...] = (
    (
        "Questions and answers",
        records,
        ("Instance", "Option", "Prompt", "Message", "Response", "Usage", "Extraction", "ContinuationScore"),
    ),
    (
        "Scores: `score --json`, `scores.json`",
        score_tables,
        ("ScoreTable", "GroupScore", "MetricScore", "FractionCounts", "Bounds", "GoldDifference", "MetricDefinition"),
    ),
    ("More of the scores", score_extras, ("ScoreReport", "MacroAverage", "GroupTest", "BaselineScores")),
    (
        "Follow-ups",
        follow_up,
        ("FollowUpReport", "FollowUpGroup", "FollowUpChange", "ChoiceShares"),
    ),
    ("Corrected scores", correction, ("Correction", "CorrectedGroup", "CorrectedScore")),
    (
        "Comparisons: `compare --json`",
        comparison_table,
        (
            "ComparisonTable",
            "Comparison",
            "MetricComparison",
            "LevelScore",
            "PairDifference",
            "DifferenceDecomposition",
        ),
    ),
    ("Estimates: `estimate --json`", estimate, ("GroupEstimate", "TokenEstimate", "Cost")),
    ("Status: `status --json`", status, ("RunStatus", "Batch")),
    ("Runs: `manifest.json`", run_folder, ("Manifest", "Counts")),
)
"""Heading, module and records of the page of JSON fields."""


TYPES = {
    "string": "text",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "null": "null",
    "array": "list",
    "object": "object",
}
"""Type in a JSON schema → word."""


def table(heads: Iterable[str], rows: Iterable[Iterable[object]]) -> str:
    """Returns a Markdown table."""
    lines = [list(heads)]
    lines.append(["---"] * len(lines[0]))
    lines += [[str(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def commands_page() -> str:
    """Returns the page of commands: the help text of each."""
    parts = [COMMANDS_HEAD]
    for names in _commands(all_commands(), ()):
        shown = CliRunner().invoke(app, [*names, "--help"], prog_name="mbbq-gen", terminal_width=100, color=False)
        parts.append(f"## `{' '.join(('mbbq-gen', *names))}`\n\n```text\n{shown.stdout.strip()}\n```\n")
    return "\n".join(parts)


def _commands(command: Any, names: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Yields the names of each command, in the order of the help."""
    children: dict[str, Any] | None = getattr(command, "commands", None)
    if children is None:
        yield names
        return
    for name, child in children.items():
        yield from _commands(child, (*names, name))


def prompt_texts_page() -> str:
    """Returns the page with every sentence of the prompt packs."""
    resources = PackPaths()
    languages = [language for language in resources.names("prompts") if resources.find("prompts", f"axes/{language}")]
    packs = ((read_axes(resources, language), read_prompts(resources, language)) for language in languages)
    return "\n".join([PROMPT_TEXTS_HEAD, *("\n".join(_language(*pair)) for pair in packs)])


def _language(pack: AxesPack, prompts: PromptPack) -> Iterator[str]:
    """Yields the lines of one language."""
    usual, other = pack.sentences, pack.other
    yield f"## {pack.meta.name} ({pack.meta.language})\n"
    labels = ", ".join(pack.labels) if pack.labels else "A, B, C"
    yield f"Usual address: {usual.address or 'no choice'}. Native labels: {labels}.\n"
    yield f"| level | {usual.address or 'text'} | {other.address if other else '–'} |"
    yield "|---|---|---|"
    for level, text in usual.by_level.items():
        yield f"| `{level}` | {text} | {other.by_level[level] if other else ''} |"
    for persona, person in pack.persons.items():
        yield f"| `{persona}` | {person} | |"
    for name, line in pack.lines.model_dump().items():
        yield f"| line: {name} | {line} | |"
    for cell in COMPOSED:
        yield f"\n`{cell}`: {_in_one_line(pack.compose(cell).text)}"
    for variant in prompts.variant:
        yield f"\n`{variant.id}`: {_in_one_line(variant.text)}"
    if prompts.follow_up is not None:
        yield f"\n`--follow-up` (none: {prompts.follow_up.none}): {_in_one_line(prompts.follow_up.text)}"
    yield ""


def _in_one_line(text: str) -> str:
    return " ⏎ ".join(line for line in text.splitlines() if line)


def dictionary() -> str:
    """Returns the page of all columns of samples and scores."""
    definitions = {
        metric.name: MetricDefinition(
            formula=metric.formula, source=metric.source, meaning=metric.meaning, sign=metric.sign
        )
        for metric in METRICS.values()
    }
    scores = pl.Schema({**dict.fromkeys(("benchmark", "language", "split"), str), **SCORE_COLUMNS})
    return data_dictionary(item_schema(messages=True), scores, definitions, DICTIONARY_LEAD)


def models_page() -> str:
    """Returns the page of model kinds and their options."""
    parts = [MODELS_HEAD]
    for kind, entry in {**KINDS, **ALIASES}.items():
        name = kind if ":" in kind else f"{kind}:{entry.model}"
        install = f" Install: `{entry.install}`." if entry.install else ""
        parts.append(f"## `{name}`\n\n{entry.summary[:1].upper()}{entry.summary[1:]}.{install}\n")
        module, _, attribute = entry.target.partition(":")
        options: type[BaseModel] = getattr(import_module(module), attribute).options_class
        parts.append(table(("option", "type", "default", "meaning"), _option_rows(options)))
    return "\n".join(part for part in parts if part.count("\n") != 2 or not part.startswith("| option"))


def _option_rows(options: type[BaseModel]) -> Iterator[tuple[str, ...]]:
    """Yields name, type, default and meaning of each option."""
    schema = options.model_json_schema()
    for name, field in options.model_fields.items():
        default = "required" if field.is_required() else f"`{field.get_default(call_default_factory=True)}`"
        yield f"`{name}`", _schema_type(schema["properties"][name]), default, field.description or ""


def _schema_type(schema: dict[str, Any]) -> str:
    """Returns a JSON schema's type in words, with its bounds."""
    if "anyOf" in schema:
        return " or ".join(_schema_type(one) for one in schema["anyOf"])
    if "$ref" in schema:
        return schema["$ref"].rpartition("/")[2]  # type: ignore[no-any-return]
    if "enum" in schema or "const" in schema:
        return ", ".join(f"`{value}`" for value in schema.get("enum", [schema.get("const")]))
    if schema.get("type") == "array" and "items" in schema:
        return f"list of {_schema_type(schema['items'])}"
    signs = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    bounds = [f"{sign} {schema[key]:g}" for key, sign in signs.items() if key in schema]
    return ", ".join([TYPES.get(schema.get("type", ""), "any value"), *bounds])


def metrics_page() -> str:
    """Returns the page of metrics, outcomes and warnings."""
    rows = []
    for metric in METRICS.values():
        sign = f"{metric.sign[:1].upper()}{metric.sign[1:]}."
        bounds = f"{metric.low:g} … {metric.high:g}".replace("-", "−")
        rows.append((f"`{metric.name}`", metric.formula, metric.source, f"{metric.meaning} {sign}", bounds))
    warnings = [(f"`{code}`", text) for code, text in WARNINGS.items()]
    return "\n".join(
        [
            METRICS_HEAD,
            table(("name", "formula", "source", "meaning", "range"), rows),
            "## Warnings\n",
            table(("code", "meaning"), warnings),
        ]
    )


def json_page() -> str:
    """Returns the page of the records' fields, from their docstrings."""
    parts = [JSON_HEAD]
    for heading, module, names in RECORDS:
        parts.append(f"## {heading}\n")
        for name in names:
            record = getattr(module, name)
            fields = record.model_json_schema(mode="serialization")["properties"]
            bases = [base for base in reversed(record.__mro__) if base.__module__.startswith("mbbq_gen")]
            texts = {field: text for base in bases for field, text in _field_texts(base).items()}
            rows = [(f"`{field}`", _schema_type(fields[field]), texts[field]) for field in texts if field in fields]
            parts.append(f"### {name}\n\n{_one_line(inspect.getdoc(record) or '')}\n")
            parts.append(table(("field", "type", "meaning"), rows))
    return "\n".join(parts)


def _field_texts(record: type) -> dict[str, str]:
    """Returns field → docstring; empty where there is none."""
    texts: dict[str, str] = {}
    (tree,) = ast.parse(inspect.getsource(record)).body
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    for node, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            constant = after.value if isinstance(after, ast.Expr) else None
            texts[node.target.id] = _one_line(str(constant.value)) if isinstance(constant, ast.Constant) else ""
    return texts


def _one_line(text: str) -> str:
    return " ".join(text.split())


def benchmarks_page() -> str:
    """Returns the page of benchmarks and data issues."""
    parts = [BENCHMARKS_HEAD]
    for name, info in BENCHMARKS.items():
        published = quality.published_counts().get(name)
        lines = [f"## `{name}`\n", f"{info.title}.\n", f"* Languages: {', '.join(info.languages)}"]
        lines.append(f"* Splits: {', '.join(info.splits)}")
        lines += [f"* Licence: {info.licence}", f"* Source: {info.link} {info.version}".rstrip()]
        lines.append(f"* Reference: {info.citation}")
        if published and "total" in published:
            lines.append(f"* Questions of a language by the paper: {published['total']:,} ({published['source']})")
            lines += [f"* {category}: {note}" for category, note in published.get("notes", {}).items()]
        lines += [f"* Note: {info.notice}"] if info.notice else []
        lines += ["* The published option order tells the role of an option."] if info.confounded_order else []
        parts.append("\n".join(lines) + "\n")
    issues = [(f"`{code}`", kind.level, kind.what, kind.action) for code, kind in quality.KINDS.items()]
    return "\n".join([*parts, "## Data issues\n", table(("code", "level", "issue", "treatment"), issues)])


def judge_prompt() -> str:
    """Returns the section with the prompt of `mbbq-gen judge`."""
    prompt = shipped_prompt()
    return (
        f"## Prompt of the judge\n\nVersion {prompt.version}, sha256 `{prompt.digest}`. System message:\n\n"
        f"```text\n{prompt.system.strip()}\n```\n\nMessage:\n\n```text\n{prompt.user.strip()}\n```\n"
    )


def pages() -> dict[str, str]:
    """Returns file name → text of every reference page."""
    return {
        "commands.md": commands_page(),
        "models.md": models_page(),
        "metrics.md": metrics_page(),
        "json-fields.md": json_page(),
        "data-dictionary.md": dictionary(),
        "benchmarks.md": benchmarks_page(),
        "prompt-texts.md": f"{prompt_texts_page()}\n{judge_prompt()}",
    }


def main(arguments: list[str]) -> int:
    """Writes the pages; returns the exit code."""
    folder = Path(arguments[0]) if arguments else Path(__file__).parent / "reference"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
