"""Loads the observations of runs, after extracting new responses; reports incomplete runs.

Used by the command line and the Python API.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from mbbq_gen.core.errors import UnknownNameError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Normalise
from mbbq_gen.extraction.simple import ENGINE, LIKELIHOOD_PREFIX, extractor_names
from mbbq_gen.runs.extraction import (
    extract_run,
    extractor_versions,
    observations,
    read_scores,
    reader_name,
    scores_version,
)
from mbbq_gen.runs.follow_up import ensure_follow_ups_read, follows_up
from mbbq_gen.runs.run_folder import Manifest, RunFolder
from mbbq_gen.scoring.observations import GoldLabels
from mbbq_gen.scoring.tally import added, alike, sums, weighted_by_design
from mbbq_gen.storage.queries import follow_up_rows
from mbbq_gen.storage.store import WORDS, Part, Progress, RunStore

if TYPE_CHECKING:
    import polars

    from mbbq_gen.analysis.follow_up import FollowUpReport
    from mbbq_gen.runs.distributed.cluster import MapWorkers
    from mbbq_gen.statistics.estimate import InferenceSettings


Answers = Literal["first", "follow-up"]
"""Which answers count: the first, or those of follow-ups where no first answer could be read."""
PART: Final = 20_000
"""Prompts of a part, about: some tens of megabytes while they are summed."""


def ignore(_: object) -> None:
    """A listener that does nothing."""


@dataclass(frozen=True)
class Reading:
    """Which answers and extractions of runs become observations."""

    resources: PackPaths
    gold: GoldLabels = "published"
    extractor: str = ENGINE
    """Name of an extractor, or a version that the run has extractions of."""
    all_extractors: bool = False
    """Whether other extractors count too, if they have extracted the whole run."""
    normalise: Normalise | None = None
    """Normalization of loglikelihoods; None: the run's."""
    answers: Answers = "first"
    step: Callable[[int], None] = ignore
    """Called with the size of each extracted batch."""
    tell: Callable[[str], None] = ignore
    """Called with sentences about what the result leaves out."""

    def prepare(self, folder: RunFolder, helpers: MapWorkers | None = None) -> tuple[dict[str, str], str | None]:
        """Extracts what is missing; returns language → extractor version, and that of loglikelihoods.

        UsageError if follow-ups are wanted and the run has none.
        """
        is_followed_up = self.answers == "first" or ensure_follow_ups_read(folder, self.resources)
        if not is_followed_up and not follows_up(folder.manifest().config):
            raise UsageError(f"{folder.path}: no follow-ups; first: mbbq-gen run {folder.path} --follow-up unread")
        current = ensure_extracted(folder, self.resources, self.extractor, self.step, helpers)
        return current, read_scores_before_use(folder, self.normalise, self.step)

    def versions(self, store: RunStore, current: Mapping[str, str], scored: str | None) -> dict[str, Sequence[str]]:
        """The versions whose extractions count, by language."""
        found = {language: [version] for language, version in current.items()}
        every, is_stored = self.all_extractors, self.extractor not in extractor_names()
        for language, version in current.items() if every or is_stored else ():
            answered = "prompts p JOIN responses r ON r.request_key = p.request_key"
            total = store.value(f"SELECT count(*) FROM {answered} WHERE p.language = ?{WORDS}", language)
            for other, count in store.extractors(language).items():
                part = f"{store.path.parent}: {other} has read {count:,} of {total:,} answers in {language}"
                if not every and other == version and count < total:
                    self.tell(f"{part}: scores of those only")
                elif every and other != version and not other.startswith(LIKELIHOOD_PREFIX):
                    if count == total:
                        found[language].append(other)
                    else:
                        self.tell(f"{part}: left out")
        if scored is None:
            return dict(found)
        return {language: [*found.get(language, ()), scored] for language in store.languages()}


def load_run_observations(
    folder: RunFolder, manifest: Manifest, reading: Reading, *, model: str | None = None
) -> tuple[polars.DataFrame, Progress]:
    """The observations and progress of a run, under a model's name (None: the run's); raises as `Reading.prepare`."""
    current, scored = reading.prepare(folder)
    with folder.open_store(read_only=True) as store:
        versions = reading.versions(store, current, scored)
        name, follow_up = model or manifest.config.model, reading.answers == "follow-up"
        frame = observations(store, versions, name, reading.gold, follow_up=follow_up)
        if store.is_in_rounds:
            frame = weighted_by_design(frame)
        progress = store.progress()
    if reading.all_extractors:  # current extractors by their names; older versions of the engine keep theirs
        import polars as pl

        read = [str(version) for version in frame["extractor"].unique() if version is not None]
        names = {version: reader_name(version) for version in read}
        names = {version: name for version, name in names.items() if version in current.values() or name != ENGINE}
        column = pl.col("extractor").cast(pl.String).replace(names).cast(frame.schema["extractor"])
        frame = frame.with_columns(column)
    return frame, progress


def load_sums(
    folder: RunFolder,
    manifest: Manifest,
    reading: Reading,
    *,
    groups: Sequence[str],
    beside: Sequence[str] = (),
    helpers: MapWorkers,
) -> tuple[polars.DataFrame, Progress]:
    """The observations of a run, summed (`tally.sums`) by workers, and its progress; UsageError for adaptive runs.

    `groups`: columns of the groups of the scores; `beside`: columns that other scores of the table are grouped by.
    """
    current, scored = reading.prepare(folder, helpers)
    with folder.open_store(read_only=True) as store:
        if manifest.config.is_imported or store.is_in_rounds:
            raise UsageError(f"{folder.path}: answers of imported and adaptive runs need one table; leave --ray out")
        versions, follow_up = reading.versions(store, current, scored), reading.answers == "follow-up"
        read = partial(
            observations, versions=versions, model=manifest.config.model, gold=reading.gold, follow_up=follow_up
        )
        prepare = partial(_part_sums, folder.store_path.absolute(), read, groups, beside)
        return added(helpers.each(prepare, store.parts(PART))), store.progress()


def _part_sums(
    path: Path, read: Callable[..., polars.DataFrame], groups: Sequence[str], beside: Sequence[str]
) -> Callable[[Part], polars.DataFrame]:
    """Opens the store, once for each worker; returns a function that sums a part."""
    store = RunStore(path, read_only=True)
    return lambda part: sums(read(store, part=part), groups, beside)


def ensure_extracted(
    folder: RunFolder,
    where: PackPaths,
    extractor: str = ENGINE,
    step: Callable[[int], None] = ignore,
    helpers: MapWorkers | None = None,
) -> dict[str, str]:
    """The extractor version by language, after extracting what it has not extracted yet.

    Languages without extractions of a stored version are left out. UnknownNameError if `extractor` is neither a name
    nor a stored version; RunLockedError if another process holds the run.
    """
    with folder.open_store(read_only=True) as store:
        languages = store.languages()
        if extractor not in extractor_names():
            stored = {language: store.extractors(language) for language in languages}
            known = {version for versions in stored.values() for version in versions}
            if extractor not in known:
                raise UnknownNameError("extractor", extractor, {*extractor_names(), *known})
            return {language: extractor for language, versions in stored.items() if extractor in versions}
        current = extractor_versions(languages, where, extractor)
        is_unread = any(any(store.without_extraction(version, code)) for code, version in current.items())
    if is_unread:
        with folder.for_extractions() as store:
            extract_run(store, where, step, extractor=extractor, helpers=helpers)
    return current


def read_scores_before_use(
    folder: RunFolder, normalise: Normalise | None = None, step: Callable[[int], None] = ignore
) -> str | None:
    """The extractor version of loglikelihoods, after extracting new ones; None if the run has none.

    UsageError if the run lacks what the normalization needs, RunLockedError if another process holds it.
    """
    with folder.open_store(read_only=True) as store:
        version = scores_version(store, normalise)
        codes = store.languages() if version else []
        is_unread = any(any(store.without_extraction(str(version), code, scored=True)) for code in codes)
    if is_unread:
        with folder.for_extractions() as store:
            read_scores(store, step, normalise)
    return version


def load_observations(paths: Sequence[Path], reading: Reading) -> polars.DataFrame:
    """The observations of several runs, named by `model_names`; tells which runs are incomplete."""
    import polars as pl

    frames = []
    for folder, manifest, name in named_runs(paths):
        frame, progress = load_run_observations(folder, manifest, reading, model=name)
        report_pending(folder, progress, reading.tell)
        frames.append(frame)
    return pl.concat(alike(frames))


def named_runs(paths: Sequence[Path]) -> list[tuple[RunFolder, Manifest, str]]:
    """The runs, each once, with their manifests and the names of their models.

    A name includes differing settings, and the folder if runs on the same benchmark would have the same name.
    """
    folders = [RunFolder(path).require() for path in dict.fromkeys(paths)]
    manifests, named = [folder.manifest() for folder in folders], list[set[tuple[str, str]]]()
    for manifest in manifests:
        settings = manifest.config
        notes = {
            "question only": settings.no_context,
            f"{settings.num_fewshot} shots": settings.num_fewshot,
            f"instructions in {settings.instruction_language}": settings.instruction_language,
            "system message": settings.system_prompt is not None,
        }
        said = ", ".join(note for note, holds in notes.items() if holds)
        name = settings.model + (f" ({said})" if said else "")
        named.append({(name, choice.name) for choice in settings.benchmarks})
    counts = Counter(pair for pairs in named for pair in pairs)
    names = [
        f"{min(pairs)[0]} [{folder.path.name}]" if any(counts[pair] > 1 for pair in pairs) else min(pairs)[0]
        for folder, pairs in zip(folders, named, strict=True)
    ]
    return list(zip(folders, manifests, names, strict=True))


def follow_up_reports(
    paths: Sequence[Path], where: PackPaths, sampling: InferenceSettings, gold: GoldLabels = "published"
) -> tuple[FollowUpReport, ...]:
    """What follow-ups change, for each run that has them."""
    import polars as pl

    from mbbq_gen.analysis.follow_up import follow_up_report

    found = []
    for folder, _, name in named_runs(paths):
        if not ensure_follow_ups_read(folder, where):
            continue
        versions = {language: [version] for language, version in ensure_extracted(folder, where).items()}
        with folder.open_store(read_only=True) as store:
            sides = [observations(store, versions, name, gold, follow_up=follow_up) for follow_up in (False, True)]
            facts = [
                (row.reason, row.reply, row.counts, None if row.reply is None else row.option == row.first_option)
                for row in follow_up_rows(store, versions)
            ]
            if store.is_in_rounds:
                sides = [weighted_by_design(side) for side in sides]
        kinds = {"reason": pl.String, "reply": pl.String, "counts": pl.Boolean, "agrees": pl.Boolean}
        first = sides[0].hstack(pl.DataFrame(facts, schema=kinds, orient="row"))
        found.append(follow_up_report(first, sides[1], name, sampling))
    return tuple(found)


def report_pending(folder: RunFolder, progress: Progress, tell: Callable[[str], None]) -> None:
    """Tells if a run is incomplete."""
    if progress.pending:
        left = f"{progress.pending:,} of {progress.requests:,} requests have no answer yet"
        tell(f"{folder.path}: {left}: the scores cover a part of the run")
