"""From run folders to the table that scores count: what is unread is read first, parts of a run are told of.

The command line and the Python API both come through here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mbbq_gen.errors import UnknownNameError, UsageError
from mbbq_gen.extraction.jsonl import ENGINE, extractor_names
from mbbq_gen.extraction.likelihood import PREFIX as LIKELIHOOD_PREFIX
from mbbq_gen.extraction.likelihood import Normalise
from mbbq_gen.providers.registry import IMPORTED
from mbbq_gen.resources import Resources
from mbbq_gen.runs.folder import Manifest, RunFolder
from mbbq_gen.runs.labels import label_source, labelled_frame
from mbbq_gen.runs.lookup import answer_count, reading_counts
from mbbq_gen.runs.part_sums import Wanted, add_up_run
from mbbq_gen.runs.reading import extractor_versions, observations, read_run, read_scores, reader_name, scores_version
from mbbq_gen.runs.store import Progress, RunStore
from mbbq_gen.scoring.observations import Labels
from mbbq_gen.scoring.weights import alike, weighted_by_design
from mbbq_gen.statistics.labelled import LabelledFrame, joined

if TYPE_CHECKING:
    import polars

    from mbbq_gen.runs.spread.helpers import Helpers


def _nothing(_: object) -> None:
    """Hears and says nothing."""


def run_frame(
    folder: RunFolder,
    manifest: Manifest,
    where: Resources,
    labels: Labels = "published",
    *,
    model: str | None = None,
    extractor: str = ENGINE,
    all_extractors: bool = False,
    normalise: Normalise | None = None,
    step: Callable[[int], None] = _nothing,
    tell: Callable[[str], None] = _nothing,
) -> tuple[polars.DataFrame, Progress]:
    """The observations of a run, and how far it is.

    Answers that the reader has not read yet are read first, if no other process holds the run.

    Args:
        folder: The run.
        manifest: Its manifest.
        where: Where packs are looked for.
        labels: Which right answers hold.
        model: What the model is called; None: as the run names it.
        extractor: Whose readings: a reader by its name, or a version that the run has readings of.
        all_extractors: All other readings too, of whatever has read the whole run; `extractor` then holds `engine`,
            the name of a simple reader, or the version of an older engine.
        normalise: How likelihoods are made comparable; None: as the run says.
        step: Hears of each batch of answers that is read.
        tell: Hears, in a sentence, what a person should know beside the result.
    """
    current = read_before_use(folder, where, extractor, step)
    scored = read_scores_before_use(folder, normalise, step)
    with folder.open_store(read_only=True) as store:
        wanted = {language: [version] for language, version in current.items()}
        if all_extractors:
            wanted = {
                language: _whole_readings(store, language, version, tell) for language, version in current.items()
            }
        elif extractor not in extractor_names():
            _tell_parts(store, current, tell)
        versions = _with_likelihoods(store, wanted, scored)
        frame = observations(store, versions, model or manifest.settings.model, labels)
        if store.is_in_rounds:
            frame = weighted_by_design(frame)
        return (_named_readers(frame, current) if all_extractors else frame), store.progress()


def run_sums(
    folder: RunFolder,
    manifest: Manifest,
    where: Resources,
    labels: Labels,
    *,
    groups: Sequence[str],
    beside: Sequence[str] = (),
    extractor: str = ENGINE,
    normalise: Normalise | None = None,
    helpers: Helpers | None = None,
    step: Callable[[int], None] = _nothing,
    tell: Callable[[str], None] = _nothing,
) -> tuple[polars.DataFrame, Progress]:
    """What `run_frame` gives, added up (`scoring.sums`) part after part: no table of all answers is made.

    Args:
        folder: The run.
        manifest: Its manifest.
        where: Where packs are looked for.
        labels: Which right answers hold.
        groups: Columns of the groups of the scores.
        beside: Columns that other scores of the same table are grouped by.
        extractor: Whose readings.
        normalise: How likelihoods are made comparable; None: as the run says.
        helpers: Workers that read and add up; None: this process does.
        step: Hears of each batch of answers that is read.
        tell: Hears, in a sentence, what a person should know beside the result.

    Raises:
        UsageError: where the run can't be added up part after part.
    """
    current = read_before_use(folder, where, extractor, step, helpers)
    scored = read_scores_before_use(folder, normalise, step)
    with folder.open_store(read_only=True) as store:
        if why := why_no_sums(manifest, store):
            raise UsageError(f"{folder.path}: {why}; leave --on out")
        if extractor not in extractor_names():
            _tell_parts(store, current, tell)
        versions = _with_likelihoods(store, {language: [version] for language, version in current.items()}, scored)
        path, model = folder.store_path.absolute(), manifest.settings.model
        wanted = Wanted(path, versions, model, labels, tuple(groups), tuple(beside))
        return add_up_run(store, wanted, helpers), store.progress()


def why_no_sums(manifest: Manifest, store: RunStore) -> str | None:
    """Why a run can't be added up part after part; None where it can."""
    if manifest.settings.model.partition(":")[0] == IMPORTED:
        return "its answers were imported, in an order of their own"
    if store.is_in_rounds:
        return "it is asked in rounds, whose answers are weighed against one another"
    return None


def _with_likelihoods(
    store: RunStore, versions: Mapping[str, Sequence[str]], scored: str | None
) -> dict[str, Sequence[str]]:
    """The versions whose readings count, by language, with that of likelihoods where there are any."""
    if scored is None:
        return dict(versions)
    return {language: [*versions.get(language, ()), scored] for language in store.languages()}


def read_before_use(
    folder: RunFolder,
    where: Resources,
    extractor: str = ENGINE,
    step: Callable[[int], None] = _nothing,
    helpers: Helpers | None = None,
) -> dict[str, str]:
    """The version whose readings are wanted, by language; reads first what it has not read yet.

    Languages that have no reading of a version of old are left out. `step` hears of each batch that is read; `helpers`
    read it, where there are some.

    Raises:
        UnknownNameError: where `extractor` is neither a reader nor a version that has read anything here.
        RunLockedError: where something is still to be read and another process holds the run.
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
        unread = any(True for language, version in current.items() for _ in store.unread(version, language))
    if unread:
        with folder.for_readings() as store:
            read_run(store, where, step, extractor=extractor, helpers=helpers)
    return current


def read_scores_before_use(
    folder: RunFolder, normalise: Normalise | None = None, step: Callable[[int], None] = _nothing
) -> str | None:
    """The version of the readings of likelihoods that is wanted; reads first what it has not read yet.

    None where the run asked for none. `step` hears of each batch that is read.

    Raises:
        UsageError: where the run did not ask for what the normalisation needs.
        RunLockedError: where something is still to be read and another process holds the run.
    """
    with folder.open_store(read_only=True) as store:
        version = scores_version(store, normalise)
        if version is None:
            return None
        unread = any(True for code in store.languages() for _ in store.unread(version, code, scored=True))
    if unread:
        with folder.for_readings() as store:
            read_scores(store, step, normalise)
    return version


def _whole_readings(store: RunStore, language: str, current: str, tell: Callable[[str], None]) -> list[str]:
    """The versions that have read every answer of a language, so that their scores are of the same answers."""
    total, whole = answer_count(store, language), [current]
    for version, count in reading_counts(store, language).items():
        if version == current or version.startswith(LIKELIHOOD_PREFIX):
            continue
        if count == total:
            whole.append(version)
        else:
            tell(f"{store.path.parent}: {version} has read {count:,} of {total:,} answers in {language}: left out")
    return whole


def _tell_parts(store: RunStore, versions: Mapping[str, str], tell: Callable[[str], None]) -> None:
    """Tells where a stored version, such as a judge's, has read only a part of the answers."""
    for language, version in versions.items():
        count, total = reading_counts(store, language).get(version, 0), answer_count(store, language)
        if count < total:
            read = f"{version} has read {count:,} of {total:,} answers in {language}"
            tell(f"{store.path.parent}: {read}: scores of those only")


def _named_readers(frame: polars.DataFrame, current: Mapping[str, str]) -> polars.DataFrame:
    """The table with readers by their names; older versions of the engine keep theirs."""
    import polars as pl

    versions = [str(version) for version in frame["extractor"].unique() if version is not None]
    names = {
        version: reader_name(version)
        for version in versions
        if version in current.values() or reader_name(version) != ENGINE
    }
    column = pl.col("extractor")
    return frame.with_columns(column.cast(pl.String).replace(names).cast(frame.schema["extractor"]))


def runs_frame(
    paths: Sequence[Path],
    where: Resources,
    labels: Labels = "published",
    *,
    extractor: str = ENGINE,
    all_extractors: bool = False,
    normalise: Normalise | None = None,
    step: Callable[[int], None] = _nothing,
    tell: Callable[[str], None] = _nothing,
) -> polars.DataFrame:
    """The observations of several runs in one table; tells what is not answered yet.

    Runs of one model are told apart by what else differs (`model_names`). The settings are those of `run_frame`.
    """
    import polars as pl

    folders = [RunFolder(path) for path in dict.fromkeys(paths)]
    for folder in folders:
        folder.require()
    manifests = [folder.manifest() for folder in folders]
    frames = []
    for folder, manifest, name in zip(folders, manifests, model_names(folders, manifests), strict=True):
        frame, progress = run_frame(
            *(folder, manifest, where, labels),
            model=name,
            extractor=extractor,
            all_extractors=all_extractors,
            normalise=normalise,
            step=step,
            tell=tell,
        )
        tell_pending(folder, progress, tell)
        frames.append(frame)
    return pl.concat(alike(frames))


def tell_pending(folder: RunFolder, progress: Progress, tell: Callable[[str], None]) -> None:
    """Tells where a run is not answered to its end."""
    if progress.pending:
        asked = f"{progress.pending:,} of {progress.requests:,} requests have no answer yet"
        tell(f"{folder.path}: {asked}: scores of a part")


def runs_labels(
    paths: Sequence[Path], where: Resources, source: str, *, labels: Labels, extractor: str, at_least: int
) -> LabelledFrame:
    """The labelled answers of several runs in one table, under the models' names of `runs_frame`.

    Raises:
        UnknownNameError: for an unknown source.
        UsageError: where a run has fewer than `at_least` labels.
    """
    label_source(source)
    folders = [RunFolder(path) for path in dict.fromkeys(paths)]
    for folder in folders:
        folder.require()
    names = model_names(folders, [folder.manifest() for folder in folders])
    return joined(
        labelled_frame(
            folder,
            source,
            read_before_use(folder, where, extractor),
            model=name,
            labels=labels,
            at_least=at_least,
        )
        for folder, name in zip(folders, names, strict=True)
    )


def model_names(folders: Sequence[RunFolder], manifests: Sequence[Manifest]) -> list[str]:
    """What each run's model is called: with its settings where the model was asked in another way, and with the
    folder's name where even those are the same on the same benchmark."""
    asked = [
        {(_model_name(manifest), choice.name) for choice in manifest.settings.benchmarks} for manifest in manifests
    ]
    counts = Counter(pair for pairs in asked for pair in pairs)
    return [
        f"{_model_name(manifest)} [{folder.path.name}]"
        if any(counts[pair] > 1 for pair in pairs)
        else _model_name(manifest)
        for folder, manifest, pairs in zip(folders, manifests, asked, strict=True)
    ]


def _model_name(manifest: Manifest) -> str:
    settings = manifest.settings
    notes = []
    if settings.question_only:
        notes.append("question only")
    if settings.shots:
        notes.append(f"{settings.shots} shots")
    if settings.instruction_language:
        notes.append(f"instructions in {settings.instruction_language}")
    if settings.system is not None:
        notes.append("system message")
    return settings.model + (f" ({', '.join(notes)})" if notes else "")
