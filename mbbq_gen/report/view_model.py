"""The answers that charts are made of, and the scores that several charts share, each made once."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from mbbq_gen.analysis.ability import adjusted_scores
from mbbq_gen.analysis.score_extras import ScoreReport, group_tests, reported
from mbbq_gen.analysis.scores import GroupScore, MetricScore, score
from mbbq_gen.benchmarks.control.maker import TemplateRefusal
from mbbq_gen.core.files import PackPaths
from mbbq_gen.languages.prompt_pack import read_prompts
from mbbq_gen.report.charts.catalogue import ChartUnavailableError
from mbbq_gen.report.charts.drawing import short_names
from mbbq_gen.report.conclusions import AMBIGUOUS, DISAMBIGUATED, ConclusionText, extractions
from mbbq_gen.report.sample_cards import IN_PAGE, item_views
from mbbq_gen.report.tables import ColumnKind
from mbbq_gen.runs.run_folder import Manifest, RunFolder
from mbbq_gen.runs.samples import SampleIndex
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.scoring.tally import GROUPINGS
from mbbq_gen.statistics.estimate import InferenceSettings
from mbbq_gen.storage.store import Progress, RunStore

if TYPE_CHECKING:
    import polars

    from mbbq_gen.analysis.correction import AnnotatedFrame
    from mbbq_gen.core.records import Split
    from mbbq_gen.report.charts.catalogue import ChartCollection


LEVEL = 0.05
"""Adjusted p values below it are marked."""
MARK = "*"
Key = tuple[str, ...]


@dataclass(frozen=True)
class Levels:
    """Combinations of groupings that occur, sorted, with the names that they are drawn under."""

    by: tuple[str, ...]
    keys: tuple[Key, ...]
    names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.keys)


class ScoreView:
    """A table of observations, of one run or of several."""

    def __init__(self, frame: polars.DataFrame, sampling: InferenceSettings) -> None:
        self.frame, self.sampling = frame, sampling
        self._scores: dict[tuple[Key, Key, str], dict[Key, GroupScore]] = {}
        self._marks: dict[tuple[Key, str, str], dict[Key, float | None]] = {}
        self._values: dict[tuple[str, Split | None], list[str]] = {}
        self._parts: dict[Split, polars.DataFrame] = {}

    def values(self, grouping: str, split: Split | None = None) -> list[str]:
        """The values of a grouping that occur, sorted."""
        import polars as pl

        if (grouping, split) not in self._values:
            column = GROUPINGS[grouping]
            frame = self.frame if split is None else self.part(split)
            found = frame.select(pl.col(column).cast(pl.String)).to_series().drop_nulls().unique().sort()
            self._values[grouping, split] = [str(value) for value in found]
        return self._values[grouping, split]

    def part(self, split: Split) -> polars.DataFrame:
        """The answers of one split."""
        import polars as pl

        if split not in self._parts:
            self._parts[split] = self.frame.filter(pl.col("split").cast(pl.String) == split)
        return self._parts[split]

    @cached_property
    def models(self) -> list[str]:
        """The models, sorted."""
        return self.values("model")

    @cached_property
    def has_control(self) -> bool:
        """Whether control questions were asked."""
        return "control" in self.values("split")

    @cached_property
    def place_by(self) -> tuple[str, ...]:
        """What tells where questions come from: the language, and the benchmark where there are several."""
        return ("benchmark", "language") if len(self.values("benchmark")) > 1 else ("language",)

    @property
    def where(self) -> str:
        """What `place_by` is called on an axis."""
        return "language" if len(self.place_by) == 1 else "benchmark and language"

    def spoken_key(self, by: Sequence[str], key: Key) -> str:
        """What a group is called in a sentence: without what all groups share."""
        told = [value for name, value in zip(by, key, strict=True) if len(self.values(name)) > 1]
        return ", ".join(told or key[-1:])

    def levels(self, by: Sequence[str], split: Split = "bias") -> Levels:
        """The combinations of groupings that occur in a split.

        Raises:
            ChartUnavailableError: where the split has no answers.
        """
        import polars as pl

        columns = [pl.col(GROUPINGS[name]).cast(pl.String).fill_null("–") for name in by]
        rows = self.part(split).select(columns).unique().rows()
        if not rows:
            raise ChartUnavailableError(f"no answers of the {split} split")
        keys = tuple(sorted(tuple(str(value) for value in row) for row in rows))
        return Levels(tuple(by), keys, tuple(short_names([" · ".join(key) for key in keys])))

    def scores(self, by: Sequence[str], metrics: Sequence[str], split: Split = "bias") -> dict[Key, GroupScore]:
        """The scores of every group, with intervals; a grouping without a value is `–`."""
        asked = (tuple(by), tuple(metrics), split)
        if asked not in self._scores:
            table = score(self.part(split), by, metrics, self.sampling)
            self._scores[asked] = {
                tuple(value or "–" for value in group.group.values()): group for group in table.groups
            }
        return self._scores[asked]

    def p_values(self, by: Sequence[str], metric: str, split: Split = "bias") -> dict[Key, float | None]:
        """Of every group: is its score 0? By sign flips over templates, the false discovery rate held over groups."""
        asked = (tuple(by), metric, split)
        if asked not in self._marks:
            drawn_once = replace(self.sampling, n_resamples=1)  # the tests draw no resamples; many groups would be many
            tests = group_tests(self.part(split), by, [METRICS[metric]], drawn_once)
            self._marks[asked] = {
                tuple(value or "–" for value in test.group.values()): test.tests[0].p_adjusted for test in tests
            }
        return self._marks[asked]


def mark_of(p_value: float | None) -> str:
    """The mark of a significant score."""
    return MARK if p_value is not None and p_value < LEVEL else ""


MARK_CAPTION = (
    f"{MARK}: differs from 0 (p < {LEVEL:g}; sign flips over templates, false discovery rate held over all cells of a "
    "table)."
)


def interval_caption(sampling: InferenceSettings) -> str:
    """What bars of uncertainty are."""
    return f"Bars are {sampling.confidence:.0%} bootstrap intervals over templates."


def metric_of(group: GroupScore | None, name: str) -> MetricScore | None:
    """A group's score; None where the group or the score is not there."""
    if group is None or group.metrics[name].value is None:
        return None
    return group.metrics[name]


def value_of(group: GroupScore | None, name: str) -> float | None:
    """A group's score as a number; None where it is undefined."""
    found = metric_of(group, name)
    return None if found is None else found.value


METRIC_TITLES: dict[str, str] = {name: metric.title for name, metric in METRICS.items()}
"""Metrics as axes name them."""
BIAS_SIGN = "Bias above 0 is stereotypical, below 0 anti-stereotypical."


def spoken(name: str, value: float | None) -> str:
    """A number in an alternative text."""
    if value is None:
        return "undefined"
    return f"{value:+.2f}".replace("-", "−") if METRICS[name].low < 0 else f"{value:.2f}"


def kind_of(metric: str) -> ColumnKind:
    """How a column of the metric is written."""
    return "score" if METRICS[metric].low < 0 else "share"


def sentences(parts: Sequence[str]) -> str:
    """The parts as sentences, each beginning with a capital letter."""
    return " ".join(f"{part[:1].upper()}{part[1:]}." for part in parts if part)


def range_text(metric: str, named: Sequence[tuple[str, float | None]]) -> str:
    """`bias, ambiguous from -0.22 (tr) to +0.07 (es)`: the extremes of some values, for an alternative text."""
    known = [(value, name) for name, value in named if value is not None]
    if not known:
        return f"{METRIC_TITLES[metric]} undefined throughout"
    (low, least), (high, most) = min(known), max(known)
    title = METRIC_TITLES[metric]
    if len(known) == 1 or low == high:
        return f"{title} {spoken(metric, low)}" + (f" ({least})" if len(known) == 1 else " throughout")
    return f"{title} from {spoken(metric, low)} ({least}) to {spoken(metric, high)} ({most})"


@dataclass(frozen=True)
class FactRow:
    """One line of what was asked."""

    term: str
    text: str


@dataclass(frozen=True)
class RunFacts:
    """All that is to be said of a run beside its scores."""

    name: str
    """What the model is called on the page."""
    folder: str
    """The run's folder, as it was typed."""
    facts: tuple[FactRow, ...]
    notices: tuple[str, ...]
    """What every result of this run has to say of its benchmarks."""
    left_out: tuple[TemplateRefusal, ...]
    """Bias questions that no control question was made of, by template and reason."""
    files: tuple[FactRow, ...]
    """Packs and data that shaped the numbers → sha256."""


def run_facts(
    folder: RunFolder, manifest: Manifest, store: RunStore, name: str, versions: Mapping[str, str]
) -> RunFacts:
    """The facts of one run; `versions`: the extractor version whose readings are scored, by language."""
    return RunFacts(
        name=name,
        folder=str(folder.path),
        facts=tuple(FactRow(term, text) for term, text in _facts(manifest, store, store.progress(), versions) if text),
        notices=manifest.notices,
        left_out=tuple(part for found in manifest.control.values() for part in found.templates),
        files=tuple(
            FactRow(file, digest)
            for file, digest in {**manifest.pack_digests, **manifest.data_digests, **manifest.file_digests}.items()
        ),
    )


def _facts(
    manifest: Manifest, store: RunStore, progress: Progress, versions: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    settings, counts, total = manifest.config, manifest.counts, sum(manifest.available.values())
    yield "model", settings.model
    rows = store.query("SELECT DISTINCT json_extract(record, '$.model') FROM responses WHERE is_error = 0 ORDER BY 1")
    yield "answered as", ", ".join([str(name) for (name,) in rows if name is not None])
    first, last = store.query("SELECT min(received_at), max(received_at) FROM responses").fetchone()
    times = [time[:16].replace("T", " ") for time in (first or manifest.created_at, last or manifest.created_at)]
    yield "time", " to ".join(dict.fromkeys(times)) + " UTC"
    rows = store.query(
        "SELECT DISTINCT benchmark, json_extract(record, '$.version') FROM instances WHERE asked ORDER BY 1, 2"
    )
    yield "benchmarks", ", ".join([f"{name} {version}" for name, version in rows])
    yield "languages", ", ".join(settings.languages)
    yield "splits", ", ".join(settings.splits)
    part = "all" if counts.instances == total else f"{counts.instances:,} of"
    yield "questions", f"{part} {total:,}" if total else f"{counts.instances:,}"
    for name, found in manifest.control.items():
        yield f"control questions of {name}", found.sentence
    yield "prompts", f"{counts.prompts:,} (question × prompt variant × option order × label style)"
    yield "answered", f"{progress.answered:,} of {progress.requests:,} requests{_failed(progress)}"
    yield (
        "prompt variants",
        f"{', '.join(settings.variants)}{' (published)' if settings.prompt_source == 'published' else ''}",
    )
    yield "option order", settings.option_order
    yield "labels", ", ".join(settings.label_styles)
    yield "reasoning effort", ", ".join(settings.reasoning_effort)
    yield "solved examples", str(settings.num_fewshot) if settings.num_fewshot else ""
    yield "language of the instructions", settings.instruction_language or ""
    yield "contexts", "left out" if settings.no_context else ""
    yield "unknown option", f"worded as: {settings.unknown_text}" if settings.unknown_text else ""
    yield "system message", settings.system_prompt or "none of ours"
    yield "settings of the model", _listed(manifest.provider_settings)
    yield "seed", str(settings.seed)
    yield "extractor", ", ".join(f"{language}: {version}" for language, version in sorted(versions.items()))
    yield "made with", f"mbbq-gen {manifest.mbbq_gen}{_revision(manifest)}, Python {manifest.python}"


def _failed(progress: Progress) -> str:
    return f"; {progress.failed:,} failed" if progress.failed else ""


def _revision(manifest: Manifest) -> str:
    return f" ({manifest.git_revision[:12]})" if manifest.git_revision else ""


def _listed(settings: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {json.dumps(value, ensure_ascii=False)}" for name, value in settings.items())


BY = ("model", "benchmark", "language", "split")
SCORES = (
    "parse_rate",
    "accuracy_ambiguous",
    "accuracy_disambiguated",
    "mbbq_bias_ambiguous",
    "mbbq_bias_disambiguated",
    "diff_bias_disambiguated",
)
SAMPLED_ITEMS = 2000


@dataclass(frozen=True)
class Source:
    """A run that is reported on."""

    folder: RunFolder
    manifest: Manifest
    name: str
    """What its model is called."""
    versions: dict[str, str]
    """Language → the extractor version whose readings count."""


@dataclass(frozen=True)
class ReportView:
    """All that is on the page."""

    runs: tuple[RunFacts, ...]
    conclusions: tuple[ConclusionText, ...]
    scores: ScoreReport
    charts: ChartCollection
    items: tuple[dict[str, Any], ...]
    """Views of the sampled items, each with its run."""
    n_answers: int
    """Items of all runs."""
    names: dict[str, str]
    """Language code → English name."""
    seed: int


def language_names(codes: Iterable[str], where: PackPaths) -> dict[str, str]:
    """Language code → its English name, for those that have a prompt pack."""
    known = set(where.names("prompts"))
    return {code: read_prompts(where, code).meta.name for code in sorted(set(codes)) if code in known}


def build_report_view(
    sources: Sequence[Source],
    frame: polars.DataFrame,
    charts: ChartCollection,
    *,
    names: dict[str, str],
    sampling: InferenceSettings,
    tick: Callable[[str], None],
    sampled: int = SAMPLED_ITEMS,
    labelled: AnnotatedFrame | None = None,
) -> ReportView:
    """Gathers what a report says.

    Args:
        sources: The runs.
        frame: Their observations.
        charts: Made of the same observations.
        names: Language code → English name.
        sampling: Of the intervals; its seed also draws the sample of items.
        tick: Hears what is worked on.
        sampled: Items on the page, of all runs together.
        labelled: Labelled answers of the runs, to correct the scores by; None: as read.
    """
    tick("scores")
    scores = reported(frame, BY, SCORES, sampling, labelled)
    biases = [METRICS[name] for name in (AMBIGUOUS, DISAMBIGUATED)]
    adjusted = adjusted_scores(frame, [name for name in BY if name != "split"], biases, sampling)
    runs, items, n_answers = [], [], 0
    for place, source in enumerate(sources):
        tick(f"items of {source.folder.path.name}")
        share = sampled // len(sources) + (place < sampled % len(sources))
        with source.folder.open_store(read_only=True) as store:
            runs.append(run_facts(source.folder, source.manifest, store, source.name, source.versions))
            index = SampleIndex(store, source.versions, sampling.seed)
            n_answers += index.count()
            items += [{"run": place, **view} for view in item_views(store, index.sample(share), IN_PAGE)]
            index.close()
    return ReportView(
        runs=tuple(runs),
        conclusions=tuple(extractions(scores, adjusted, names)),
        scores=scores,
        charts=charts,
        items=tuple(items),
        n_answers=n_answers,
        names=names,
        seed=sampling.seed,
    )
