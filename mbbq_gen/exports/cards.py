"""Cards for the Hugging Face hub: the metadata of a model's results, and the card of a data set of answers.

`model_index` is the `model-index` of a model card's metadata: what the hub and `huggingface_hub.ModelCard` read as
evaluation results. `dataset_card` is the README.md of a folder that `datasets.load_dataset` reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import yaml

import mbbq_gen
from mbbq_gen.datasets.registry import BENCHMARKS, BenchmarkInfo
from mbbq_gen.report.plain_text import shortened
from mbbq_gen.report.tables import SUMMARY_METRICS, number
from mbbq_gen.scoring import METRICS

if TYPE_CHECKING:
    from mbbq_gen.exports.bundle import Source
    from mbbq_gen.runs.folder import Manifest, RunSettings
    from mbbq_gen.scoring import GroupScore, MetricScore, ScoreTable

YamlValue = str | int | float | bool | None | Sequence["YamlValue"] | Mapping[str, "YamlValue"]
LICENCE_IDS: Final = {
    "Apache-2.0": "apache-2.0",
    "MIT": "mit",
    "CC BY 4.0": "cc-by-4.0",
    "CC BY-SA 4.0": "cc-by-sa-4.0",
    "CC BY-NC-SA 4.0": "cc-by-nc-sa-4.0",
}
"""Licences as `BenchmarkInfo.licence` has them → the hub's ids; of all others it is not known that texts may be passed
on."""
_WAYS: Final = {
    "generate": "generated answers",
    "likelihood": "likelihood of the answers",
    "labels": "likelihood of the labels",
    "first-token": "likelihood of the labels as first token",
}
"""Way of asking → what a result is by."""
RESULT_BY = ("benchmark", "language", "split")


def model_name(settings: RunSettings) -> str:
    """The model's name without its kind: `gpt-4o-mini` of `openai:gpt-4o-mini`."""
    return settings.model.partition(":")[2] or settings.model


def benchmark_infos(manifest: Manifest) -> list[BenchmarkInfo]:
    """The known benchmarks of a run."""
    return [BENCHMARKS[choice.name] for choice in manifest.settings.benchmarks if choice.name in BENCHMARKS]


def closed_benchmarks(manifest: Manifest) -> list[str]:
    """Those of a run's benchmarks of which it is not known that their texts may be passed on, with their licence."""
    licences = {info.name: info.licence for info in benchmark_infos(manifest)}
    names = [choice.name for choice in manifest.settings.benchmarks]
    return [
        f"{name} ({licences.get(name, 'licence not known')})" for name in names if licences.get(name) not in LICENCE_IDS
    ]


# --- results for a model card ----------------------------------------------------------------------------------------


def model_index(manifest: Manifest, scores: ScoreTable, metrics: Sequence[str]) -> dict[str, YamlValue]:
    """The `model-index` metadata: a result for each benchmark × language × split; undefined scores are left out."""
    results = [_result(manifest, scores, group, metrics) for group in scores.groups]
    return {"model-index": [{"name": model_name(manifest.settings), "results": results}]}


def _result(manifest: Manifest, scores: ScoreTable, group: GroupScore, metrics: Sequence[str]) -> YamlValue:
    benchmark, language, split = (group.group[name] or "" for name in RESULT_BY)
    settings = manifest.settings
    method = group.group.get("method") or settings.methods[0]
    variants = settings.scored_variants if method == "likelihood" else settings.variants
    return {
        "task": {"type": "question-answering", "name": f"Social bias, by {_WAYS.get(method, method)}"},
        "dataset": {
            "name": f"{benchmark} ({language}, {split})",
            "type": benchmark,
            "config": language,
            "split": split,
            "args": {
                "mbbq_gen": mbbq_gen.__version__,
                "variants": list(variants),
                "order": settings.order,
                "label_styles": list(settings.label_styles),
                **({"reasoning": list(settings.reasoning)} if settings.reasoning else {}),
                "shots": settings.shots,
                "seed": settings.seed,
                "presentations": group.n_items,
                "templates": group.n_templates,
            },
        },
        "metrics": [
            _metric(name, found, scores)
            for name, found in group.metrics.items()
            if name in metrics and found.value is not None
        ],
    }


def _metric(name: str, found: MetricScore, scores: ScoreTable) -> YamlValue:
    return {
        "type": "accuracy" if name.startswith("accuracy") else name,
        "name": name,
        "value": found.value,
        "args": {
            "low": found.low,
            "high": found.high,
            "interval": scores.interval,
            "wordings": scores.wordings,
            "labels": scores.labels,
            "undetected": scores.undetected,
            "sign": scores.definitions[name].sign,
        },
    }


def card_metadata(metadata: Mapping[str, YamlValue], *, is_markdown: bool) -> str:
    """The metadata as YAML; between the lines that begin a card where it is to be Markdown."""
    text = yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True)
    return f"---\n{text}---\n" if is_markdown else text


# --- the card of a data set ------------------------------------------------------------------------------------------


def dataset_card(source: Source, splits: Sequence[str]) -> str:
    """README.md: configurations for `load_dataset`, what was asked of whom, scores, licences, and what to beware of."""
    manifest = source.run.manifest
    body = "\n".join([*_introduction(source, manifest), *_scores(source), *_sources(source, manifest), *_cautions()])
    return card_metadata(_dataset_metadata(source, splits), is_markdown=True) + "\n" + body + "\n"


def _dataset_metadata(source: Source, splits: Sequence[str]) -> dict[str, YamlValue]:
    manifest = source.run.manifest
    infos = benchmark_infos(manifest)
    licences = {info.licence for info in infos}
    is_open = len(licences) == 1 and not closed_benchmarks(manifest)
    licence: dict[str, YamlValue] = (
        {"license": LICENCE_IDS[next(iter(licences))]} if is_open else {"license": "other", "license_name": "see-below"}
    )
    return {
        **licence,
        "language": list(manifest.settings.languages),
        "pretty_name": f"Answers of {model_name(manifest.settings)}",
        "tags": ["bias", "bbq", "mbbq-gen", *[choice.name for choice in manifest.settings.benchmarks]],
        "task_categories": ["question-answering"],
        "configs": [
            {
                "config_name": "items",
                "default": True,
                "data_files": [{"split": split, "path": f"items/{split}.parquet"} for split in splits],
            },
            {"config_name": "scores", "data_files": [{"split": "scores", "path": "scores.parquet"}]},
        ],
    }


def _introduction(source: Source, manifest: Manifest) -> list[str]:
    settings, record = manifest.settings, source.progress
    names = ", ".join(choice.name for choice in settings.benchmarks)
    part = "" if not record.pending else f" {record.pending:,} of {record.requests:,} requests have no answer yet."
    asked = [
        f"languages: {', '.join(settings.languages)}; splits: {', '.join(settings.splits)}",
        f"wordings: {', '.join(settings.variants)}; option order: {settings.order}; "
        f"labels: {', '.join(settings.label_styles)}; "
        + (f"thinking: {', '.join(settings.reasoning)}; " if settings.reasoning else "")
        + f"seed: {settings.seed}",
        f"asked with mbbq-gen {manifest.mbbq_gen}, begun {manifest.created_at}",
    ]
    return [
        f"# Answers of {_inline(model_name(settings))} to {_inline(names)}",
        "",
        f"What `{_inline(settings.model)}` answered, in its own words, how each answer was read, and the scores.{part}",
        "",
        *(f"* {_inline(line)}" for line in asked),
        "",
        "```python",
        "from datasets import load_dataset",
        "",
        'items = load_dataset("path/of/this/folder", "items")    # one row an answer, by split',
        'scores = load_dataset("path/of/this/folder", "scores")  # one row a group and metric',
        "```",
        "",
        "Every column is explained in `data_dictionary.md`; `manifest.json` holds what shaped the numbers.",
        "",
    ]


def _scores(source: Source) -> list[str]:
    table = source.scores_by(RESULT_BY)
    names = [name for name in SUMMARY_METRICS if name in table.definitions]
    by, over = tuple(table.by), " and over wordings like those asked" if table.wordings == "random" else ""
    head = (*by, "items", *names)
    lines = ["## Scores", "", f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for group in table.groups:
        values = [_score(group.metrics[name], signed=METRICS[name].low < 0) for name in names]
        cells = (*(_inline(group.group[name] or "") for name in by), f"{group.n_items:,}", *values)
        lines.append(f"| {' | '.join(cells)} |")
    return [
        *lines,
        "",
        f"Intervals of {table.interval:.0%} over templates{over}. "
        "Bias above 0 leans to the stereotype, below 0 against it.",
        "",
    ]


def _score(found: MetricScore, *, signed: bool) -> str:
    text = number(found.value, signed=signed)
    if found.low is None or found.high is None:
        return text
    return f"{text} [{number(found.low, signed=signed)}, {number(found.high, signed=signed)}]"


def _sources(source: Source, manifest: Manifest) -> list[str]:
    lines = ["## Where the questions come from", ""]
    for info in benchmark_infos(manifest):
        lines.append(f"* **{info.name}**: {info.citation}. {info.link}. Licence: {info.licence}.")
        lines += [f"  Note: {info.notice}."] if info.notice else []
    own = [choice.name for choice in manifest.settings.benchmarks if choice.name not in BENCHMARKS]
    lines += [f"* **{_inline(name)}**: questions of the run's author." for name in own]
    if not source.settings.with_questions:
        lines += ["", "The questions are left out here; `instance_key` names each in its benchmark."]
    return [*lines, ""]


def _cautions() -> Iterator[str]:
    yield from (
        "## What a score does not say",
        "",
        "A score near 0 says that these questions, in these wordings, found no lean on average; it does not say that "
        "the model has no bias. A model that can't do the task looks even-handed: read bias beside accuracy and the "
        "control split. Responses are the model's words: they may repeat stereotypes.",
    )


def _inline(text: str) -> str:
    """A text that stays in its line and means nothing to Markdown or HTML."""
    line = shortened(text, 300)
    for sign in "\\`*|<>[]":
        line = line.replace(sign, f"&#{ord(sign)};")
    return line
