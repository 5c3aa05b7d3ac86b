"""From a run folder to the table that scores count."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars

    from mbbq_gen.resources import Resources
    from mbbq_gen.runs.folder import Manifest, RunFolder
    from mbbq_gen.runs.store import Progress
    from mbbq_gen.scoring import Labels


def run_frame(
    folder: RunFolder, manifest: Manifest, where: Resources, labels: Labels = "published"
) -> tuple[polars.DataFrame, Progress]:
    """The observations of a run, and how far it is.

    Answers that the current extractors have not read yet are read first, if no other process holds the run.
    """
    from mbbq_gen.runs.reading import extractor_versions, observations, read_run
    from mbbq_gen.scoring import observations_frame

    with folder.open_store(read_only=True) as store:
        versions = extractor_versions(store.languages(), where)
        unread = any(True for language, version in versions.items() for _ in store.unread(version, language))
    if unread:
        with folder.locked(), folder.open_store() as store:
            read_run(store, where, lambda _: None)
    with folder.open_store(read_only=True) as store:
        rows = observations(store, versions, manifest.settings.model, labels)
        return observations_frame(rows), store.progress()
