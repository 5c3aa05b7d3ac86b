"""From run folders to the table that scores count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars

    from mbbq_gen.resources import Resources
    from mbbq_gen.runs.folder import Manifest, RunFolder
    from mbbq_gen.runs.store import Progress
    from mbbq_gen.scoring import Labels


def run_frame(
    folder: RunFolder,
    manifest: Manifest,
    where: Resources,
    labels: Labels = "published",
    *,
    model: str | None = None,
    all_extractors: bool = False,
) -> tuple[polars.DataFrame, Progress]:
    """The observations of a run, and how far it is.

    Answers that the current extractors have not read yet are read first, if no other process holds the run. `model`
    None: as the run names it. `all_extractors`: the readings of older extractor versions too, beside the current ones.
    """
    from mbbq_gen.runs.reading import extractor_versions, observations, read_run

    with folder.open_store(read_only=True) as store:
        current = extractor_versions(store.languages(), where)
        unread = any(True for language, version in current.items() for _ in store.unread(version, language))
    if unread:
        with folder.locked(), folder.open_store() as store:
            read_run(store, where, lambda _: None)
    with folder.open_store(read_only=True) as store:
        versions = {
            language: store.extractors(language) if all_extractors else [version]
            for language, version in current.items()
        }
        frame = observations(store, versions, model or manifest.settings.model, labels)
        return frame, store.progress()


def runs_frame(
    paths: Sequence[Path], where: Resources, labels: Labels = "published", *, all_extractors: bool = False
) -> polars.DataFrame:
    """The observations of several runs in one table; says what is not answered yet.

    Runs of one model are told apart by what else differs (`model_names`).
    """
    import polars as pl

    from mbbq_gen.cli.options import say
    from mbbq_gen.runs.folder import RunFolder

    folders = [RunFolder(path) for path in dict.fromkeys(paths)]
    for folder in folders:
        folder.require()
    manifests = [folder.manifest() for folder in folders]
    frames = []
    for folder, manifest, name in zip(folders, manifests, model_names(folders, manifests), strict=True):
        frame, progress = run_frame(folder, manifest, where, labels, model=name, all_extractors=all_extractors)
        if progress.pending:
            asked = f"{progress.pending:,} of {progress.requests:,} requests have no answer yet"
            say(f"{folder.path}: {asked}: scores of a part")
        frames.append(frame)
    return pl.concat(frames)


def model_names(folders: Sequence[RunFolder], manifests: Sequence[Manifest]) -> list[str]:
    """What each run's model is called: with its settings where the model was asked in another way, and with the
    folder's name where even those are the same."""
    names = [_model_name(manifest) for manifest in manifests]
    counts = Counter(names)
    return [
        name if counts[name] == 1 else f"{name} [{folder.path.name}]"
        for name, folder in zip(names, folders, strict=True)
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
