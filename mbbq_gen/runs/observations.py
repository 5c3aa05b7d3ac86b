"""Loads the observations of runs, after extracting new responses; reports incomplete runs.

Used by the command line and the Python API.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mbbq_gen.core.errors import UnknownNameError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Normalise
from mbbq_gen.extraction import ENGINE, extractor_names
from mbbq_gen.extraction.likelihood import LIKELIHOOD_PREFIX
from mbbq_gen.runs.extraction import (
    extract_run,
    extract_scores,
    extractor_name,
    extractor_versions,
    observations,
    scores_version,
)
from mbbq_gen.runs.follow_up import ensure_follow_ups_extracted
from mbbq_gen.runs.run_folder import Manifest, RunFolder
from mbbq_gen.scoring.observations import GoldLabels
from mbbq_gen.scoring.tally import alike, weighted_by_design
from mbbq_gen.storage.queries import follow_up_rows
from mbbq_gen.storage.store import WORDS, Progress, RunStore

if TYPE_CHECKING:
    import polars

    from mbbq_gen.analysis.follow_up import FollowUpReport
    from mbbq_gen.statistics.estimate import InferenceSettings

Answers = Literal["first", "follow-up"]
"""The answers that count: first ones, or follow-ups in place of unparsed ones."""


@dataclass(frozen=True)
class LoadOptions:
    """Options for loading observations: the answers and extractions that count."""

    resources: PackPaths
    gold: GoldLabels = "published"
    extractor: str = ENGINE
    """Name of an extractor, or a stored extractor version."""
    all_extractors: bool = False
    """Whether to add other extractors that have extracted the whole run."""
    normalise: Normalise | None = None
    """Normalization of loglikelihoods; None: the run's."""
    answers: Answers = "first"
    step: Callable[[int], None] = lambda _: None
    """Called with the size of each extracted batch."""
    tell: Callable[[str], None] = lambda _: None
    """Called with messages about data that is left out."""


def load_run_observations(
    folder: RunFolder, manifest: Manifest, options: LoadOptions, *, model: str | None = None
) -> tuple[polars.DataFrame, Progress]:
    """The observations and progress of a run, after extracting its new responses; `model`: None for the run's.

    UsageError if follow-ups are requested and the run has none; otherwise raises as `ensure_extracted` and
    `ensure_scores_extracted`.
    """
    resources, follow_up = options.resources, options.answers == "follow-up"
    if follow_up and not ensure_follow_ups_extracted(folder, resources) and not manifest.config.follow_up:
        raise UsageError(f"{folder.path}: no follow-ups; first: mbbq-gen run {folder.path} --follow-up unread")
    current = ensure_extracted(folder, resources, options.extractor, options.step)
    scored = ensure_scores_extracted(folder, options.normalise, options.step)
    with folder.open_store(read_only=True) as store:
        versions = _versions_that_count(store, current, options)
        if scored is not None:
            versions = {language: [*versions.get(language, ()), scored] for language in store.languages()}
        name = model or manifest.config.model
        frame = observations(store, versions, name, options.gold, follow_up=follow_up)
        if store.is_in_rounds:
            frame = weighted_by_design(frame)
        progress = store.progress()
    if options.all_extractors:  # current extractors get their names, older versions of the rules keep the version
        import polars as pl

        read = [str(version) for version in frame["extractor"].unique() if version is not None]
        names = {version: extractor_name(version) for version in read}
        names = {version: name for version, name in names.items() if version in current.values() or name != ENGINE}
        column = pl.col("extractor").cast(pl.String).replace(names).cast(frame.schema["extractor"])
        frame = frame.with_columns(column)
    return frame, progress


def _versions_that_count(store: RunStore, current: Mapping[str, str], options: LoadOptions) -> dict[str, list[str]]:
    """Language → its current version, and with `all_extractors` the others that have extracted all its responses.

    Tells of versions that have extracted only a part; the current one of a named extractor never has.
    """
    versions = {language: [version] for language, version in current.items()}
    is_stored = options.extractor not in extractor_names()
    for language, version in current.items() if options.all_extractors or is_stored else ():
        answered = "prompts p JOIN responses r ON r.request_key = p.request_key"
        total = store.value(f"SELECT count(*) FROM {answered} WHERE p.language = ?{WORDS}", language)
        for other, count in store.extractors(language).items():
            part = f"{store.path.parent}: {other} has read {count:,} of {total:,} answers in {language}"
            if other == version:
                if count < total:
                    options.tell(f"{part}: scores of those only")
            elif options.all_extractors and not other.startswith(LIKELIHOOD_PREFIX):
                if count == total:
                    versions[language].append(other)
                else:
                    options.tell(f"{part}: left out")
    return versions


def ensure_extracted(
    folder: RunFolder, where: PackPaths, extractor: str = ENGINE, step: Callable[[int], None] = lambda _: None
) -> dict[str, str]:
    """Language → extractor version, after extracting new responses.

    Languages without extractions of a stored version are left out. UnknownNameError if `extractor` is neither a name
    nor a stored version; RunLockedError if another process has locked the run.
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
        has_new = any(any(store.without_extraction(version, code)) for code, version in current.items())
    if has_new:
        with folder.for_extractions() as store:
            extract_run(store, where, step, extractor=extractor)
    return current


def ensure_scores_extracted(
    folder: RunFolder, normalise: Normalise | None = None, step: Callable[[int], None] = lambda _: None
) -> str | None:
    """The extractor version for loglikelihoods, after extracting new ones; None if the run has none.

    UsageError if the run lacks what the normalization needs, RunLockedError if another process has locked it.
    """
    with folder.open_store(read_only=True) as store:
        version = scores_version(store, normalise)
        codes = store.languages() if version else []
        has_new = any(any(store.without_extraction(str(version), code, scored=True)) for code in codes)
    if has_new:
        with folder.for_extractions() as store:
            extract_scores(store, step, normalise)
    return version


def load_observations(paths: Sequence[Path], options: LoadOptions) -> polars.DataFrame:
    """The observations of several runs, with model names of `named_runs`; reports incomplete runs."""
    import polars as pl

    frames = []
    for folder, manifest, name in named_runs(paths):
        frame, progress = load_run_observations(folder, manifest, options, model=name)
        if progress.pending:
            left = f"{progress.pending:,} of {progress.requests:,} requests have no answer yet"
            options.tell(f"{folder.path}: {left}: the scores cover a part of the run")
        frames.append(frame)
    return pl.concat(alike(frames))


def named_runs(paths: Sequence[Path]) -> list[tuple[RunFolder, Manifest, str]]:
    """The distinct runs, with their manifests and model names.

    A name includes settings other than the default, and the folder if runs on the same benchmark have the same name.
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
    """The effects of follow-ups in each run that has them."""
    import polars as pl

    from mbbq_gen.analysis.follow_up import follow_up_report

    found = []
    for folder, _, name in named_runs(paths):
        if not ensure_follow_ups_extracted(folder, where):
            continue
        versions = {language: [version] for language, version in ensure_extracted(folder, where).items()}
        with folder.open_store(read_only=True) as store:
            sides = [observations(store, versions, name, gold, follow_up=follow_up) for follow_up in (False, True)]
            facts = list(follow_up_rows(store, versions))
            if store.is_in_rounds:
                sides = [weighted_by_design(side) for side in sides]
        kinds = {"reason": pl.String, "reply": pl.String, "counts": pl.Boolean}
        first = sides[0].hstack(pl.DataFrame(facts, schema=kinds, orient="row"))
        found.append(follow_up_report(first, sides[1], name, sampling))
    return tuple(found)
