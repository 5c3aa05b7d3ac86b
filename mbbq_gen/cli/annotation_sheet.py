"""Annotation of the extractions of a run on a sheet."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mbbq_gen.annotation import review
from mbbq_gen.annotation.annotations import find_extraction
from mbbq_gen.annotation.review import Annotation, SamplingDesign, annotate_response
from mbbq_gen.cli.output import say, write_lines
from mbbq_gen.core.errors import DataError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.progress import Bar
from mbbq_gen.core.text import all_of
from mbbq_gen.report import sheets
from mbbq_gen.report.sheets import SheetEntry, SheetRow
from mbbq_gen.runs.extraction import question_of
from mbbq_gen.runs.observations import ensure_extracted
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.storage.queries import find_completed, iter_extractions
from mbbq_gen.storage.store import RunStore


class AnnotationTask:
    """The sample of a run's extractions and their annotations."""

    def __init__(self, folder: RunFolder, resources: PackPaths, given: Mapping[str, Any]) -> None:
        """`given`: the options of the sampling design; others are as in the last command."""
        self._folder = folder
        self._draws = review.load_draws(folder.path / review.DRAWS_NAME)
        before = self._draws[-1].design if self._draws else SamplingDesign()
        with Bar("reading", None, "answers") as bar:
            versions = ensure_extracted(folder, resources, given.get("extractor", before.extractor), bar.advance)
        changes = dict(given)
        if "by" in changes:
            changes["by"] = all_of("grouping", changes["by"], list(review.GROUPINGS))
        if "languages" in changes:
            changes["languages"] = all_of("language of the run", changes["languages"], sorted(versions))
        self._design = SamplingDesign.model_validate({**before.model_dump(), **changes})
        languages = self._design.languages or tuple(versions)
        self._versions = {code: version for code, version in sorted(versions.items()) if code in languages}
        with folder.open_store(read_only=True) as store:
            self._sample = review.draw_sample(iter_extractions(store, self._versions), self._design)
        self._annotations = review.load_annotations(folder.path / review.ANNOTATIONS_NAME)
        if not self._sample.drawn:
            raise UsageError(f"{folder.path}: no response to annotate; continue with: mbbq-gen run {folder.path}")

    def report(self, confidence_level: float) -> review.AnnotationReport:
        """The result of the annotations."""
        return review.annotation_report(
            self._sample, self._annotations, self._versions, self._design.by, confidence_level
        )

    def write_sheet(self, path: Path) -> None:
        """Writes the sample as a CSV sheet, with existing annotations filled in; stores the draw for later commands."""
        with self._folder.open_store(read_only=True) as store:
            found = (find_extraction(store, drawn.prompt_id, drawn.extractor) for drawn in self._sample.drawn)
            entries = [SheetEntry(*parts) for parts in found if parts is not None]
        draw = self._sample.draw(self._design, self._versions)
        if draw not in self._draws[-1:]:
            review.append_records(self._folder.path / review.DRAWS_NAME, [draw])
        # The byte order mark makes spreadsheets read UTF-8.
        write_lines(path, ["\ufeff" + sheets.csv_sheet(entries, self._annotations).rstrip("\r\n")])
        say(f"{len(entries):,} extractions in {path}")
        say(f"fill it in, then: mbbq-gen annotate {self._folder.path} --import {path}")

    def import_sheet(self, path: Path) -> None:
        """Stores the annotations of a sheet that are new or changed; they are on disk when this returns."""
        with self._folder.open_store(read_only=True) as store:
            annotations = [self._annotation(store, row) for row in sheets.read_sheet(path)]
        new = []
        for annotation in annotations:
            before = self._annotations.get(annotation.prompt_id)
            if before is None or before.model_copy(update={"at": annotation.at}) != annotation:
                new.append(annotation)
        review.append_records(self._folder.path / review.ANNOTATIONS_NAME, new)
        self._annotations |= {annotation.prompt_id: annotation for annotation in new}
        say(f"{len(annotations):,} annotations in {path}, {len(new):,} of them new")

    def _annotation(self, store: RunStore, row: SheetRow) -> Annotation:
        """The annotation of a row; without a version on the sheet, for the current extraction."""
        version = row.extractor
        if not version:
            answered = find_completed(store, row.prompt_id)
            version = self._versions.get(answered.prompt.language, "") if answered else ""
        found = find_extraction(store, row.prompt_id, version)
        if found is None:
            raise DataError(f"{row.where}: id: no extraction {row.prompt_id!r} in {self._folder.path}; wrong run?")
        extraction, answered, _ = found
        is_agreed = bool(row.agrees and not row.right)
        right = extraction.option if is_agreed else sheets.right_option(row, question_of(answered))
        if row.agrees is not None and row.agrees != (right == extraction.option):
            option = "no option" if extraction.option is None else f"option {extraction.option + 1}"
            raise DataError(
                f"{row.where}: right: {row.right!r} contradicts the annotation: {option} was extracted; correct one"
            )
        return annotate_response(extraction, right=right, note=row.note)
