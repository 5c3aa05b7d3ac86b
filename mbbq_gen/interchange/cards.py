"""The card of a Hugging Face data set: README.md of a folder that `datasets.load_dataset` reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Final

import yaml

from mbbq_gen.benchmarks.registry import BENCHMARKS, BenchmarkInfo
from mbbq_gen.core.text import shortened
from mbbq_gen.report.score_tables import SUMMARY_METRICS
from mbbq_gen.report.tables import interval_text, number
from mbbq_gen.scoring.codes import AVERAGES
from mbbq_gen.scoring.metrics import METRICS

if TYPE_CHECKING:
    from mbbq_gen.analysis.scores import ScoreTable
    from mbbq_gen.core.config import RunConfig
    from mbbq_gen.interchange.export import ExportSource
    from mbbq_gen.runs.run_folder import Manifest

YamlValue = str | int | float | bool | None | Sequence["YamlValue"] | Mapping[str, "YamlValue"]
LICENCE_IDS: Final = {
    "Apache-2.0": "apache-2.0",
    "MIT": "mit",
    "CC BY 4.0": "cc-by-4.0",
    "CC BY-SA 4.0": "cc-by-sa-4.0",
    "CC BY-NC-SA 4.0": "cc-by-nc-sa-4.0",
}
"""`BenchmarkInfo.licence` → id of the hub, for licences that allow redistribution."""
RESULT_BY = ("benchmark", "language", "split")
_CARD: Final = Template(Path(__file__).with_name("dataset_card.md").read_text(encoding="utf-8"))


def model_name(settings: RunConfig) -> str:
    """The model's name without its kind: `gpt-4o-mini` of `openai:gpt-4o-mini`."""
    return settings.model.partition(":")[2] or settings.model


def benchmark_infos(manifest: Manifest) -> list[BenchmarkInfo]:
    """The known benchmarks of a run."""
    return [BENCHMARKS[choice.name] for choice in manifest.config.benchmarks if choice.name in BENCHMARKS]


def closed_benchmarks(manifest: Manifest) -> list[str]:
    """Benchmarks of the run that are not known to allow redistribution, with their licences."""
    licences = {info.name: info.licence for info in benchmark_infos(manifest)}
    names = [choice.name for choice in manifest.config.benchmarks]
    return [
        f"{name} ({licences.get(name, 'licence not known')})" for name in names if licences.get(name) not in LICENCE_IDS
    ]


def dataset_card(source: ExportSource, splits: Sequence[str]) -> str:
    """README.md: configurations for `load_dataset`, settings, scores, licences and cautions."""
    manifest, counts, table = source.run.manifest, source.progress, source.scores_by(RESULT_BY)
    settings, infos = manifest.config, benchmark_infos(manifest)
    names = [choice.name for choice in settings.benchmarks]
    efforts = f"reasoning effort: {', '.join(settings.reasoning_effort)}; " if settings.reasoning_effort else ""
    facts = (
        f"languages: {', '.join(settings.languages)}; splits: {', '.join(settings.splits)}",
        f"prompt variants: {', '.join(settings.variants)}; option order: {settings.option_order}; "
        f"labels: {', '.join(settings.label_style)}; {efforts}seed: {settings.seed}",
        f"mbbq-gen {manifest.mbbq_gen}, created {manifest.created_at}",
    )
    sources = []
    for info in infos:
        sources.append(f"* **{info.name}**: {info.citation}. {info.link}. Licence: {info.licence}.")
        sources += [f"  Note: {info.notice}."] if info.notice else []
    own = [name for name in names if name not in BENCHMARKS]
    sources += [f"* **{_inline(name)}**: own questions of the author of the run." for name in own]
    if not source.settings.with_questions:
        sources += ["", "The questions are omitted; `instance_key` identifies each in its benchmark."]
    remark = f" {counts.pending:,} of {counts.requests:,} requests have no response yet." if counts.pending else ""
    body = _CARD.substitute(
        name=_inline(model_name(settings)),
        benchmarks=_inline(", ".join(names)),
        model=_inline(settings.model),
        pending=remark,
        facts="\n".join(f"* {_inline(line)}" for line in facts),
        scores="\n".join(_score_lines(table)),
        level=f"{table.confidence_level:.0%}",
        over=" and over prompt variants like these" if table.prompt_effects == "random" else "",
        average="" if table.average == "questions" else f"Scores: {AVERAGES[table.average]}. ",
        sources="\n".join(sources),
    )
    licences = {info.licence for info in infos}
    is_open = len(licences) == 1 and not closed_benchmarks(manifest)
    licence = {"license": LICENCE_IDS[min(licences)]} if is_open else {"license": "other", "license_name": "see-below"}
    samples = [{"split": split, "path": f"samples/{split}.parquet"} for split in splits]
    metadata: dict[str, YamlValue] = {
        **licence,
        "language": list(settings.languages),
        "pretty_name": f"Responses of {model_name(settings)}",
        "tags": ["bias", "bbq", "mbbq-gen", *names],
        "task_categories": ["question-answering"],
        "configs": [
            {"config_name": "samples", "default": True, "data_files": samples},
            {"config_name": "scores", "data_files": [{"split": "scores", "path": "scores.parquet"}]},
        ],
    }
    return f"---\n{yaml.safe_dump(metadata, sort_keys=False, allow_unicode=True)}---\n\n{body}"


def _score_lines(table: ScoreTable) -> list[str]:
    """The scores as the lines of a Markdown table."""
    names, rows = [name for name in SUMMARY_METRICS if name in table.definitions], []
    for group in table.groups:
        rows.append([*(_inline(group.group[name] or "") for name in table.by), f"{group.n_answers:,}"])
        for name in names:
            estimate, signed = group.metrics[name], METRICS[name].low < 0
            rows[-1].append(number(estimate.value, signed=signed) + interval_text(estimate, signed=signed))
    return markdown_table((*table.by, "answers", *names), rows)


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table, its cells escaped."""

    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return [line(head), "|" + "---|" * len(head), *map(line, rows)]


def _inline(text: str) -> str:
    """A text in one line, escaped for Markdown and HTML."""
    line = shortened(text, 300)
    for char in "\\`*|<>[]":
        line = line.replace(char, f"&#{ord(char)};")
    return line
