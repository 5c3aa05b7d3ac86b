"""Loads the observations of runs, after extracting new responses; reports incomplete runs.

Used by the command line and the Python API.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from mbbq_gen.core.errors import UnknownNameError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Normalise
from mbbq_gen.extraction.simple import ENGINE, extractor_names
from mbbq_gen.extraction.simple import PREFIX as LIKELIHOOD_PREFIX
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
"""Which answers count: the first, or with what follow-ups say in the place of what could not be read."""
PART: Final = 20_000
"""Prompts of a part, about: some tens of megabytes while they are summed."""


def ignore(_: object) -> None:
    """A listener that does nothing."""


def load_run_observations(
    folder: RunFolder,
    manifest: Manifest,
    where: PackPaths,
    gold: GoldLabels = "published",
    *,
    model: str | None = None,
    extractor: str = ENGINE,
    all_extractors: bool = False,
    normalise: Normalise | None = None,
    answers: Answers = "first",
    step: Callable[[int], None] = ignore,
    tell: Callable[[str], None] = ignore,
) -> tuple[polars.DataFrame, Progress]:
    """The observations of a run and its progress, after extracting new responses.

    Args:
        folder: The run.
        manifest: Its manifest.
        where: Where packs are looked for.
        gold: Which gold labels hold.
        model: The model's name in the table; None: as the run names it.
        extractor: An extractor by its name, or a version that the run has extractions of.
        all_extractors: Also every other extractor that has extracted the whole run.
        normalise: Normalization of loglikelihoods; None: that of the run.
        answers: The first answers, or with follow-ups; UsageError where the run has none.
        step: Called for each batch that is extracted.
        tell: Gets sentences about what the result leaves out.
    """
    _require_follow_ups(folder, where, answers)
    current = ensure_extracted(folder, where, extractor, step)
    scored = read_scores_before_use(folder, normalise, step)
    with folder.open_store(read_only=True) as store:
        versions = _counted_versions(store, current, extractor, scored, tell, every=all_extractors)
        name = model or manifest.config.model
        frame = observations(store, versions, name, gold, follow_up=answers == "follow-up")
        if store.is_in_rounds:
            frame = weighted_by_design(frame)
        progress = store.progress()
    if all_extractors:  # readers by their names; older versions of the engine keep theirs
        import polars as pl

        read = [str(version) for version in frame["extractor"].unique() if version is not None]
        names = {
            version: reader_name(version)
            for version in read
            if version in current.values() or reader_name(version) != ENGINE
        }
        column = pl.col("extractor").cast(pl.String).replace(names).cast(frame.schema["extractor"])
        frame = frame.with_columns(column)
    return frame, progress


def load_sums(
    folder: RunFolder,
    manifest: Manifest,
    where: PackPaths,
    gold: GoldLabels,
    *,
    groups: Sequence[str],
    beside: Sequence[str] = (),
    extractor: str = ENGINE,
    normalise: Normalise | None = None,
    answers: Answers = "first",
    helpers: MapWorkers | None = None,
    step: Callable[[int], None] = ignore,
    tell: Callable[[str], None] = ignore,
) -> tuple[polars.DataFrame, Progress]:
    """What `load_run_observations` gives, summed (`tally.sums`) part by part: no table of all answers is made.

    The other arguments are those of `load_run_observations`; UsageError where the run can't be summed in parts.

    Args:
        groups: Columns of the groups of the scores.
        beside: Columns that other scores of the same table are grouped by.
        helpers: Workers that extract and sum; None: this process does.
    """
    _require_follow_ups(folder, where, answers)
    current = ensure_extracted(folder, where, extractor, step, helpers)
    scored = read_scores_before_use(folder, normalise, step)
    with folder.open_store(read_only=True) as store:
        if manifest.config.is_imported or store.is_in_rounds:
            raise UsageError(f"{folder.path}: answers of imported and adaptive runs need one table; leave --ray out")
        versions = _counted_versions(store, current, extractor, scored, tell)
        follow_up = answers == "follow-up"
        read = partial(observations, versions=versions, model=manifest.config.model, gold=gold, follow_up=follow_up)
        prepare = partial(_part_sums, folder.store_path.absolute(), read, groups, beside)
        parts = store.parts(PART)
        return added(map(prepare(), parts) if helpers is None else helpers.each(prepare, parts)), store.progress()


def _part_sums(
    path: Path, read: Callable[..., polars.DataFrame], groups: Sequence[str], beside: Sequence[str]
) -> Callable[[Part], polars.DataFrame]:
    """Opens a run's file, once for each worker, and gives what sums a part."""
    store = RunStore(path, read_only=True)
    return lambda part: sums(read(store, part=part), groups, beside)


def _require_follow_ups(folder: RunFolder, where: PackPaths, answers: Answers) -> None:
    """Makes sure that a run was followed up, and that replies are read, where they are wanted; else UsageError."""
    if answers != "first" and not ensure_follow_ups_read(folder, where) and not follows_up(folder.manifest().config):
        raise UsageError(f"{folder.path}: no follow-ups; first: mbbq-gen run {folder.path} --follow-up unread")


def _counted_versions(
    store: RunStore,
    current: Mapping[str, str],
    extractor: str,
    scored: str | None,
    tell: Callable[[str], None],
    *,
    every: bool = False,
) -> dict[str, Sequence[str]]:
    """The versions whose extractions count, by language, with that of loglikelihoods where there are any.

    `every`: also all others that have read every answer of a language, so that their scores are of the same answers.
    """
    found = {language: [version] for language, version in current.items()}
    is_stored = extractor not in extractor_names()
    for language, version in current.items() if every or is_stored else ():
        answered = "prompts p JOIN responses r ON r.request_key = p.request_key"
        total = store.value(f"SELECT count(*) FROM {answered} WHERE p.language = ?{WORDS}", language)
        for other, count in store.extractors(language).items():
            part = f"{store.path.parent}: {other} has read {count:,} of {total:,} answers in {language}"
            if not every and other == version and count < total:
                tell(f"{part}: scores of those only")
            elif every and other != version and not other.startswith(LIKELIHOOD_PREFIX):
                if count == total:
                    found[language].append(other)
                else:
                    tell(f"{part}: left out")
    if scored is None:
        return dict(found)
    return {language: [*found.get(language, ()), scored] for language in store.languages()}


def ensure_extracted(
    folder: RunFolder,
    where: PackPaths,
    extractor: str = ENGINE,
    step: Callable[[int], None] = ignore,
    helpers: MapWorkers | None = None,
) -> dict[str, str]:
    """The extractor version by language, after extracting what it has not extracted yet.

    Languages without extractions of an older version are left out. `extractor`: an extractor by its name, or a version
    that the run has extractions of, else UnknownNameError. RunLockedError where something is still to be extracted and
    another process holds the run.
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
    """The version of the extractions of loglikelihoods, after scoring new ones; None where a run has none.

    Raises UsageError where the run did not ask for what the normalization needs, RunLockedError where another process
    holds the run.
    """
    with folder.open_store(read_only=True) as store:
        version = scores_version(store, normalise)
        codes = store.languages() if version else []
        is_unread = any(any(store.without_extraction(str(version), code, scored=True)) for code in codes)
    if is_unread:
        with folder.for_extractions() as store:
            read_scores(store, step, normalise)
    return version


def load_observations(
    paths: Sequence[Path],
    where: PackPaths,
    gold: GoldLabels = "published",
    *,
    extractor: str = ENGINE,
    all_extractors: bool = False,
    normalise: Normalise | None = None,
    answers: Answers = "first",
    step: Callable[[int], None] = ignore,
    tell: Callable[[str], None] = ignore,
) -> polars.DataFrame:
    """The observations of several runs (`load_run_observations`), named by `model_names`; tells what is pending."""
    import polars as pl

    frames = []
    for folder, manifest, name in named_runs(paths):
        frame, progress = load_run_observations(
            *(folder, manifest, where, gold),
            model=name,
            extractor=extractor,
            all_extractors=all_extractors,
            normalise=normalise,
            answers=answers,
            step=step,
            tell=tell,
        )
        report_pending(folder, progress, tell)
        frames.append(frame)
    return pl.concat(alike(frames))


def named_runs(paths: Sequence[Path]) -> list[tuple[RunFolder, Manifest, str]]:
    """The runs, each once, with the names of their models."""
    folders = [RunFolder(path).require() for path in dict.fromkeys(paths)]
    manifests = [folder.manifest() for folder in folders]
    return list(zip(folders, manifests, model_names(folders, manifests), strict=True))


def follow_up_reports(
    paths: Sequence[Path], where: PackPaths, sampling: InferenceSettings, gold: GoldLabels = "published"
) -> tuple[FollowUpReport, ...]:
    """What follow-ups change, of each run that has them."""
    import polars as pl

    from mbbq_gen.analysis.follow_up import follow_up_report

    found = []
    for folder, _, name in named_runs(paths):
        if not ensure_follow_ups_read(folder, where):
            continue
        versions = {language: [version] for language, version in ensure_extracted(folder, where).items()}
        with folder.open_store(read_only=True) as store:
            sides = [observations(store, versions, name, gold, follow_up=follow_up) for follow_up in (False, True)]
            rows = list(follow_up_rows(store, versions))
            if store.is_in_rounds:
                sides = [weighted_by_design(side) for side in sides]
        agrees = [None if row.reply is None else row.option == row.first_option for row in rows]
        beside = {
            "reason": pl.Series([row.reason for row in rows], dtype=pl.String),
            "reply": pl.Series([row.reply for row in rows], dtype=pl.String),
            "counts": pl.Series([row.counts for row in rows], dtype=pl.Boolean),
            "agrees": pl.Series(agrees, dtype=pl.Boolean),
        }
        found.append(follow_up_report(sides[0].with_columns(**beside), sides[1], name, sampling))
    return tuple(found)


def report_pending(folder: RunFolder, progress: Progress, tell: Callable[[str], None]) -> None:
    """Tells where a run is not answered to its end."""
    if progress.pending:
        asked = f"{progress.pending:,} of {progress.requests:,} requests have no answer yet"
        tell(f"{folder.path}: {asked}: the scores cover a part of the run")


def model_names(folders: Sequence[RunFolder], manifests: Sequence[Manifest]) -> list[str]:
    """What each run's model is called: with its settings where they differ, and with the folder's name where even those
    are the same on the same benchmark."""
    names = []
    for manifest in manifests:
        settings = manifest.config
        notes = {
            "question only": settings.no_context,
            f"{settings.num_fewshot} shots": settings.num_fewshot,
            f"instructions in {settings.instruction_language}": settings.instruction_language,
            "system message": settings.system_prompt is not None,
        }
        said = ", ".join(note for note, holds in notes.items() if holds)
        names.append(settings.model + (f" ({said})" if said else ""))
    asked = [{choice.name for choice in manifest.config.benchmarks} for manifest in manifests]
    counts = Counter(
        (name, benchmark) for name, benchmarks in zip(names, asked, strict=True) for benchmark in benchmarks
    )
    return [
        f"{name} [{folder.path.name}]" if any(counts[name, benchmark] > 1 for benchmark in benchmarks) else name
        for folder, name, benchmarks in zip(folders, names, asked, strict=True)
    ]
