"""From run folders to the table that scores count (`mbbq_gen.runs.frames`), with a bar and words on stderr."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mbbq_gen.cli.options import say
from mbbq_gen.runs.bars import Bar

if TYPE_CHECKING:
    import polars

    from mbbq_gen.extraction.likelihood import Normalise
    from mbbq_gen.resources import Resources
    from mbbq_gen.runs.folder import Manifest, RunFolder
    from mbbq_gen.runs.spread.helpers import Helpers
    from mbbq_gen.runs.store import Progress
    from mbbq_gen.scoring import Labels
    from mbbq_gen.statistics.labelled import LabelledFrame


def reading_bar() -> Bar:
    """The bar for answers that have to be read first; it shows only where that takes a while."""
    return Bar("reading", None, "answers", delay=1.0)


def run_frame(
    folder: RunFolder,
    manifest: Manifest,
    where: Resources,
    labels: Labels = "published",
    *,
    model: str | None = None,
    extractor: str = "engine",
    normalise: Normalise | None = None,
) -> tuple[polars.DataFrame, Progress]:
    """The observations of a run, and how far it is."""
    from mbbq_gen.runs import frames

    with reading_bar() as bar:
        return frames.run_frame(
            folder,
            manifest,
            where,
            labels,
            model=model,
            extractor=extractor,
            normalise=normalise,
            step=bar.advance,
            tell=say,
        )


def run_sums(
    path: Path,
    where: Resources,
    labels: Labels,
    *,
    by: Sequence[str],
    beside: Sequence[str],
    extractor: str,
    normalise: Normalise | None,
    helpers: Helpers,
) -> polars.DataFrame:
    """The observations of a run, added up by workers for scores by some groupings; says what is not answered yet."""
    from mbbq_gen.runs import frames
    from mbbq_gen.runs.folder import RunFolder
    from mbbq_gen.scoring.tally import grouping_columns

    folder = RunFolder(path)
    folder.require()
    with reading_bar() as bar:
        frame, progress = frames.run_sums(
            *(folder, folder.manifest(), where, labels),
            groups=list(grouping_columns(by).values()),
            beside=list(grouping_columns(beside).values()),
            extractor=extractor,
            normalise=normalise,
            helpers=helpers,
            step=bar.advance,
            tell=say,
        )
    frames.tell_pending(folder, progress, say)
    tell_failures(frame)
    return frame


def read_before_use(folder: RunFolder, where: Resources, extractor: str = "engine") -> dict[str, str]:
    """The version whose readings are wanted, by language; reads first what it has not read yet."""
    from mbbq_gen.runs import frames

    with reading_bar() as bar:
        return frames.read_before_use(folder, where, extractor, bar.advance)


def runs_frame(
    paths: Sequence[Path],
    where: Resources,
    labels: Labels = "published",
    *,
    extractor: str = "engine",
    all_extractors: bool = False,
    normalise: Normalise | None = None,
) -> polars.DataFrame:
    """The observations of several runs in one table; says what is not answered yet."""
    from mbbq_gen.runs import frames

    with reading_bar() as bar:
        frame = frames.runs_frame(
            paths,
            where,
            labels,
            extractor=extractor,
            all_extractors=all_extractors,
            normalise=normalise,
            step=bar.advance,
            tell=say,
        )
    tell_failures(frame)
    return frame


def tell_failures(frame: polars.DataFrame) -> None:
    """One line where no response was had at all."""
    from mbbq_gen.records import NOT_HAD
    from mbbq_gen.scoring.sums import answers_of

    if frame.height and frame["outcome"].cast(str).is_in(sorted(NOT_HAD)).all():
        say(f"none of the {answers_of(frame):,} requests has a response (error or filtered): every score is undefined")


def runs_labels(
    paths: Sequence[Path],
    where: Resources,
    source: str | None,
    labels: Labels = "published",
    extractor: str = "engine",
) -> LabelledFrame | None:
    """The labelled answers of the runs, and what was left out of them said; None where no source is named."""
    from mbbq_gen.runs import frames
    from mbbq_gen.statistics.correction import MIN_LABELS

    if source is None:
        return None
    with reading_bar():
        found = frames.runs_labels(paths, where, source, labels=labels, extractor=extractor, at_least=MIN_LABELS)
    if found.undrawn:
        say(f"{found.undrawn:,} judged answers are in no sample that was drawn: left out of the correction")
    if found.outdated:
        say(f"{found.outdated:,} verdicts only said that a reading was wrong which has changed since: left out")
    return found
