"""Observations of runs for commands: extracts with a bar what is missing, and says what is left out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import polars as pl

from mbbq_gen.analysis.correction import AnnotatedFrame
from mbbq_gen.annotation.annotations import runs_labels as labels_of_runs
from mbbq_gen.cli.output import say
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.progress import Bar
from mbbq_gen.core.records import NO_RESPONSE, Normalise
from mbbq_gen.runs import observations
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.scoring.observations import GoldLabels
from mbbq_gen.scoring.tally import GROUPINGS, answers_of
from mbbq_gen.statistics.ppi import MIN_LABELS


def extracted(folder: RunFolder, where: PackPaths, extractor: str = "rules") -> dict[str, str]:
    """The extractor version of each language; extracts first what is missing."""
    with Bar("reading", None, "answers") as bar:
        return observations.ensure_extracted(folder, where, extractor, bar.advance)


def runs_frame(
    paths: Sequence[Path],
    where: PackPaths,
    gold: GoldLabels = "published",
    *,
    extractor: str = "rules",
    all_extractors: bool = False,
    normalise: Normalise | None = None,
    answers: observations.Answers = "first",
) -> pl.DataFrame:
    """The observations of several runs in one table; reports pending requests."""
    with Bar("reading", None, "answers") as bar:
        frame = observations.load_observations(
            *(paths, where, gold),
            extractor=extractor,
            all_extractors=all_extractors,
            normalise=normalise,
            answers=answers,
            step=bar.advance,
            tell=say,
        )
    report_failures(frame)
    return frame


def report_failures(frame: pl.DataFrame) -> None:
    """Says if there is no response at all."""
    if frame.height and frame["outcome"].cast(str).is_in(sorted(NO_RESPONSE)).all():
        say(f"none of the {answers_of(frame):,} requests has a response (error or filtered): every score is undefined")


def runs_labels(
    paths: Sequence[Path],
    where: PackPaths,
    source: str,
    gold: GoldLabels,
    extractor: str,
) -> AnnotatedFrame:
    """The annotated responses of the runs; reports those left out."""
    found = labels_of_runs(paths, where, source, gold=gold, extractor=extractor, at_least=MIN_LABELS)
    if found.unsampled_annotations:
        say(f"{found.unsampled_annotations:,} annotations are in no sample that was drawn: left out of the correction")
    if found.stale_annotations:
        say(f"{found.stale_annotations:,} annotations only rejected an extraction that has changed since: left out")
    return found


def several(frame: pl.DataFrame, *groupings: str) -> list[str]:
    """The groupings that have several values in the table."""
    return [name for name in groupings if frame[GROUPINGS[name]].n_unique() > 1]
