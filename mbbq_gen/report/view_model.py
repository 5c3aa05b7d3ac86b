"""The content of a report, computed once: scores, conclusions, charts, facts of the runs, and samples of answers."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from mbbq_gen.analysis.ability import adjusted_scores
from mbbq_gen.analysis.score_extras import ScoreReport, reported
from mbbq_gen.report.analysis_tables import correction_blocks, follow_up_blocks
from mbbq_gen.report.charts import CHARTS, Chart, ChartCollection
from mbbq_gen.report.charts.planes import ability_against_bias, ability_points
from mbbq_gen.report.conclusions import (
    AMBIGUOUS,
    CAUTIONS,
    Conclusion,
    GroupAssessment,
    assess_groups,
    conclusions,
)
from mbbq_gen.report.run_tables import setting_facts
from mbbq_gen.report.score_tables import SUMMARY_METRICS, brief_notes, brief_table, extraction_table
from mbbq_gen.report.tables import Bullets, Command, Heading, PageBlock, Table
from mbbq_gen.report.viewer import IN_PAGE, item_views
from mbbq_gen.runs.run_folder import Manifest, RunFolder
from mbbq_gen.runs.samples import SampleIndex
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.statistics.estimate import InferenceSettings
from mbbq_gen.storage.queries import benchmark_versions, response_times, served_models
from mbbq_gen.storage.store import Progress, RunStore

if TYPE_CHECKING:
    import polars

    from mbbq_gen.analysis.correction import AnnotatedFrame
    from mbbq_gen.analysis.follow_up import FollowUpReport


# --- the runs --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """A run of a report."""

    folder: RunFolder
    manifest: Manifest
    name: str
    """The name of its model."""
    versions: dict[str, str]
    """Language → version of the extractor in use."""


def _run_blocks(source: Source, store: RunStore, *, is_named: bool) -> Iterator[PageBlock]:
    """The settings of one run, notices on its benchmarks, and digests of its files."""
    manifest = source.manifest
    if is_named:
        yield Heading(source.name)
    facts = [(term, text) for term, text in _facts(source, store, store.progress()) if text]
    yield Table("fact", "value", rows=[("run folder", str(source.folder.path)), *facts], title="What was asked")
    yield from manifest.notices
    files = {**manifest.pack_digests, **manifest.data_digests, **manifest.file_digests}
    yield Table("pack or data", "sha256", rows=files.items(), title="Files that shaped the numbers")


def _facts(source: Source, store: RunStore, progress: Progress) -> Iterator[tuple[str, str]]:
    manifest = source.manifest
    settings, counts, total = manifest.config, manifest.counts, sum(manifest.available.values())
    yield "model", settings.model
    yield "answered as", ", ".join(sorted({model for model, *_ in served_models(store) if model is not None}))
    times = response_times(store) or (manifest.created_at, manifest.created_at)
    yield "time", " to ".join(dict.fromkeys(time[:16].replace("T", " ") for time in times)) + " UTC"
    yield "benchmarks", ", ".join(f"{name} {version}" for name, version in benchmark_versions(store))
    yield "languages", ", ".join(settings.languages)
    yield "splits", ", ".join(settings.splits)
    part = "all" if counts.instances == total else f"{counts.instances:,} of"
    yield "questions", f"{part} {total:,}" if total else f"{counts.instances:,}"
    for name, found in manifest.control.items():
        yield f"control questions of {name}", found.sentence
    yield "prompts", f"{counts.prompts:,} (question × prompt variant × option order × label style)"
    failed = f"; {progress.failed:,} failed" if progress.failed else ""
    yield "answered", f"{progress.answered:,} of {progress.requests:,} requests{failed}"
    yield from setting_facts(manifest)
    yield "unknown option", f"worded as: {settings.unknown_text}" if settings.unknown_text else ""
    yield "system message", settings.system_prompt or "none of ours"
    options = manifest.provider_settings.items()
    yield "settings of the model", ", ".join(f"{name} {json.dumps(one, ensure_ascii=False)}" for name, one in options)
    yield "extractor", ", ".join(f"{language}: {version}" for language, version in sorted(source.versions.items()))
    revision = f" ({manifest.git_revision[:12]})" if manifest.git_revision else ""
    yield "made with", f"mbbq-gen {manifest.mbbq_gen}{revision}, Python {manifest.python}"


# --- the report ------------------------------------------------------------------------------------------------------

BY = ("model", "benchmark", "language", "split")
SCORES = (*SUMMARY_METRICS, "diff_bias_disambiguated")
_SECTIONS = {
    "scores": "Accuracy and bias by language",
    "categories": "Bias by category and language",
    "control": "Bias beside the control questions",
    "robustness": "Spread over prompt variants and option orders",
    "position": "Position bias",
    "outcomes": "Outcomes of the extraction",
}
"""Section of a chart → its heading on the page."""


@dataclass(frozen=True)
class PageSection:
    """A part of a page."""

    id: str
    title: str
    blocks: tuple[PageBlock, ...]
    is_open: bool = False


@dataclass(frozen=True)
class ReportView:
    """The content of a report, ready for rendering."""

    title: str
    conclusions: tuple[tuple[str, str], ...]
    """Model and benchmark, and the conclusion on them."""
    notices: tuple[str, ...]
    """Notices on the benchmarks."""
    ability: Chart | None
    """Chart of ability against the direction of bias."""
    sections: tuple[PageSection, ...]
    """Sections before the answers."""
    details: tuple[PageSection, ...]
    """Sections after the answers."""
    items: tuple[dict[str, Any], ...]
    """Views of the sampled answers; `run` is an index of `runs`."""
    n_answers: int
    """Number of answers in all runs."""
    runs: tuple[tuple[str, str], ...]
    """Name and folder of each run."""
    names: dict[str, str]
    """Language code → English name."""
    seed: int

    @property
    def charts(self) -> list[Chart]:
        """All charts of the page."""
        own = [self.ability] if self.ability is not None else []
        return own + [block for section in self.sections for block in section.blocks if isinstance(block, Chart)]


def build_report_view(
    sources: Sequence[Source],
    frame: polars.DataFrame,
    charts: ChartCollection,
    *,
    names: dict[str, str],
    sampling: InferenceSettings,
    tick: Callable[[str], None],
    sampled: int = 2000,
    labelled: AnnotatedFrame | None = None,
    extractor: str = "rules",
    follow_ups: Sequence[FollowUpReport] = (),
) -> ReportView:
    """Computes the content of a report on some runs, from their observations and the charts of these.

    `names`: language code → English name; `sampling`: its seed also draws the sample of answers; `tick` is called
    with the name of each step; `sampled`: number of answers on the page, over all runs; `labelled`: answers to correct
    the scores with.
    """
    tick("scores")
    scores = reported(frame, BY, SCORES, sampling, labelled, extractor=extractor)
    assessments = assess_groups(scores)
    facts: list[PageBlock] = []
    items: list[dict[str, Any]] = []
    n_answers = 0
    for place, source in enumerate(sources):
        tick(f"items of {source.folder.path.name}")
        size = sampled // len(sources) + (place < sampled % len(sources))
        with source.folder.open_store(read_only=True) as store:
            facts += _run_blocks(source, store, is_named=len(sources) > 1)
            index = SampleIndex(store, source.versions, sampling.seed)
            n_answers += index.count()
            items += [{"run": place, **view} for view in item_views(store, index.sample(size), IN_PAGE)]
    paths = " ".join(shlex.quote(str(source.folder.path)) for source in sources)
    benchmarks = list(dict.fromkeys(group.group["benchmark"] or "" for group in scores.groups))
    adjusted = adjusted_scores(frame, [name for name in BY if name != "split"], [METRICS[AMBIGUOUS]], sampling)
    texts = conclusions(assessments, BY[:2], names, adjusted)
    models = list(dict.fromkeys(source.name for source in sources))
    subject = ", ".join(models) if len(models) <= 3 else f"{len(models)} models"
    return ReportView(
        title=f"Report: {subject} on {', '.join(benchmarks)}" if benchmarks else f"Report: {subject}",
        conclusions=tuple(
            (" on ".join(one.names if len(benchmarks) > 1 else one.names[:1]), one.short) for one in texts
        ),
        notices=tuple(dict.fromkeys(notice for source in sources for notice in source.manifest.notices)),
        ability=ability_against_bias(ability_points(assessments), names),
        sections=tuple(_sections(scores, paths, assessments, charts, follow_ups)),
        details=(
            PageSection("why", "Details and limits", tuple(_limits(texts))),
            PageSection("asked", "What was asked", tuple(facts)),
            PageSection("about", "About the scores", tuple(_about(scores, paths))),
        ),
        items=tuple(items),
        n_answers=n_answers,
        runs=tuple((source.name, str(source.folder.path)) for source in sources),
        names=names,
        seed=sampling.seed,
    )


_DEFAULTS: Final = {"extractor": "rules", "gold": "published", "unparsed": "discard", "n_resamples": 2000, "seed": 0}
"""Option of scores → its default; without the confidence level, which adaptive runs raise."""


def _score_command(scores: ScoreReport, runs: str, *options: str) -> Command:
    """The command that computes the same scores; `runs`: the folders, quoted for a shell."""
    values = {name: getattr(scores, name) for name in _DEFAULTS}
    changed = {name: value for name, value in values.items() if value not in (None, _DEFAULTS[name])}
    options += tuple(f"--{name.replace('_', '-')} {value}" for name, value in changed.items())
    return Command(" ".join(["mbbq-gen score", runs, "--group-by", ",".join(scores.by), *options]))


def _sections(
    scores: ScoreReport,
    runs: str,
    assessments: Sequence[GroupAssessment],
    charts: ChartCollection,
    follow_ups: Sequence[FollowUpReport],
) -> Iterator[PageSection]:
    """The sections before the answers: charts and tables by topic, then follow-ups."""
    blocks: dict[str, list[PageBlock]] = {name: [] for name in _SECTIONS}
    blocks["scores"] += _score_blocks(scores, runs, assessments)
    blocks["outcomes"].append(extraction_table(scores))
    for chart in charts.charts:
        blocks[chart.section].append(replace(chart, command=chart.command.replace(" RUN", f" {runs}", 1)))
    for name, title in _SECTIONS.items():
        if blocks[name]:
            yield PageSection(name, title, tuple(blocks[name]), name in {"scores", "categories"})
    if charts.left_out:
        left_out = Bullets(tuple(f"{CHARTS[name][1]}: {reason}" for name, reason in charts.left_out.items()))
        yield PageSection("left-out", "What could not be drawn", (left_out,))
    if follow_ups:
        changes: list[PageBlock] = []
        for one in follow_ups:
            changes += [*([Heading(one.model)] if len(follow_ups) > 1 else []), *follow_up_blocks(one)]
        has_findings = any(one.findings for one in follow_ups)
        yield PageSection("follow-up", "Follow-ups", tuple(changes), is_open=has_findings)


def _score_blocks(scores: ScoreReport, runs: str, assessments: Sequence[GroupAssessment]) -> Iterator[PageBlock]:
    yield brief_table(assessments, BY[:-1])
    yield from brief_notes(scores, assessments)
    yield _score_command(scores, runs, "--metric", ",".join(SCORES))
    if (correction := scores.correction) is not None:
        yield Heading("Corrected for extraction errors")
        yield from correction_blocks(correction)
        yield _score_command(scores, runs, "--correct-with", correction.source)


def _limits(found: Sequence[Conclusion]) -> Iterator[PageBlock]:
    """Further conclusions on every model, then the limits of such scores."""
    for one in found:
        if len(found) > 1:
            yield Heading(" on ".join(one.names))
        yield " ".join(one.more)
    yield Heading("What these scores can't say")
    yield Bullets(CAUTIONS)


def _about(scores: ScoreReport, runs: str) -> Iterator[PageBlock]:
    yield (
        "Each score with its formula and where it comes from. The documentation says which rows stand in which "
        "denominator."
    )
    table = Table("score", "formula", "source", "interpretation")
    for name in SCORES:
        one = scores.definitions[name]
        table.add_row(name, one.formula, one.source, f"{one.meaning} {one.sign[:1].upper()}{one.sign[1:]}.")
    yield table
    yield (
        f"Unparsed answers: {scores.unparsed} (wrong for accuracy; in the denominators of bias only with `keep`). Gold "
        f"labels: {scores.gold or 'none'}. Intervals: {scores.n_resamples:,} resamples over templates, seed "
        f"{scores.seed}."
    )
    if scores.gold_differences:
        yield (
            f"{len(scores.gold_differences)} of the scores above change where labels known to be wrong are corrected; "
            f"`mbbq-gen score {runs} --gold corrected` shows them."
        )
