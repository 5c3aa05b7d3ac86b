"""Annotation of the extractions of a run, in a terminal or on a sheet."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.text import Text

from mbbq_gen.annotation import review
from mbbq_gen.annotation.annotations import find_extraction
from mbbq_gen.annotation.review import Annotation, SamplingDesign, annotate_response
from mbbq_gen.cli.output import result_console, say, write_lines
from mbbq_gen.core.errors import DataError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.progress import Bar
from mbbq_gen.core.text import all_of
from mbbq_gen.report import sheets
from mbbq_gen.report.explanation import chosen_text
from mbbq_gen.report.sheets import SheetEntry, SheetRow
from mbbq_gen.report.tables import OUTCOME_TITLES
from mbbq_gen.runs.extraction import question_of
from mbbq_gen.runs.observations import ensure_extracted
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.storage.queries import find_completed, iter_extractions
from mbbq_gen.storage.store import RunStore

_STEPS = {"b": -1, "s": 1, "q": 0}
_KEYS = "y correct   wrong: 1-{count} the correct option, 0 no answer   b back   s skip   q quit"
INTERRUPTS = frozenset("\x03\x04")
"""Ctrl-C and Ctrl-D, for terminals that pass them on as keys."""


class AnnotationTask:
    """The sample of a run's extractions and their annotations."""

    def __init__(self, folder: RunFolder, resources: PackPaths, given: Mapping[str, Any]) -> None:
        """`given`: the options of the sampling design; others are as in the last command."""
        self._folder, self._resources = folder, resources
        self._annotations_path = folder.path / review.ANNOTATIONS_NAME
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
        self._annotations = review.load_annotations(self._annotations_path)
        if not self._sample.drawn:
            raise UsageError(f"{folder.path}: no response to annotate; continue with: mbbq-gen run {folder.path}")

    def _entries(self) -> list[SheetEntry]:
        """The sample with prompts and responses; stores the draw for later commands."""
        with self._folder.open_store(read_only=True) as store:
            found = (find_extraction(store, drawn.prompt_id, drawn.extractor) for drawn in self._sample.drawn)
            entries = [SheetEntry(*parts) for parts in found if parts is not None]
        draw = self._sample.draw(self._design, self._versions)
        if draw not in self._draws[-1:]:
            review.append_records(self._folder.path / review.DRAWS_NAME, [draw])
        return entries

    def _store(self, *annotations: Annotation) -> None:
        """Stores annotations; they are on disk when this returns."""
        review.append_records(self._annotations_path, annotations)
        self._annotations |= {annotation.prompt_id: annotation for annotation in annotations}

    def report(self, confidence_level: float) -> review.AnnotationReport:
        """The result of the annotations."""
        return review.annotation_report(
            self._sample, self._annotations, self._versions, self._design.by, confidence_level
        )

    def ask(self) -> None:
        """Asks for annotations in the terminal, one by one."""
        entries, session = self._entries(), AnnotationSession(result_console(stderr=True), typer.getchar, self._store)
        try:
            count = session.judge(entries, self._annotations)
        except (KeyboardInterrupt, EOFError):
            say(f"\nstopped; the annotations are in {self._annotations_path}")
            raise KeyboardInterrupt from None
        say(f"{count:,} annotated; the annotations are in {self._annotations_path}")

    def write_sheet(self, path: Path) -> None:
        """Writes the sample as a CSV sheet, with existing annotations filled in."""
        entries = self._entries()
        # The byte order mark makes spreadsheets read UTF-8.
        write_lines(path, ["\ufeff" + sheets.csv_sheet(entries, self._annotations).rstrip("\r\n")])
        say(f"{len(entries):,} extractions in {path}")
        say(f"fill it in, then: mbbq-gen annotate {self._folder.path} --import {path}")

    def import_sheet(self, path: Path) -> None:
        """Imports the annotations of a sheet that are new or changed."""
        with self._folder.open_store(read_only=True) as store:
            annotations = [self._annotation(store, row) for row in sheets.read_sheet(path)]
        new = []
        for annotation in annotations:
            before = self._annotations.get(annotation.prompt_id)
            if before is None or before.model_copy(update={"at": annotation.at}) != annotation:
                new.append(annotation)
        self._store(*new)
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
        question = question_of(answered)
        is_agreed = bool(row.agrees and not row.right)
        right = extraction.option if is_agreed else sheets.right_option(row, question)
        if row.agrees is not None and row.agrees != (right == extraction.option):
            option = "no option" if extraction.option is None else f"option {extraction.option + 1}"
            raise DataError(
                f"{row.where}: right: {row.right!r} contradicts the annotation: {option} was extracted; correct one"
            )
        return annotate_response(extraction, right=right, note=row.note)


@dataclass
class AnnotationSession:
    """Shows the extractions without an annotation and stores an annotation of each."""

    console: Console
    key: Callable[[], str]
    store: Callable[[Annotation], None]

    def judge(self, entries: Sequence[SheetEntry], annotations: Mapping[str, Annotation]) -> int:
        """Asks for each extraction without an annotation; returns the number annotated."""
        judged, current = set[int](), 0
        pending = [one for one in enumerate(entries, start=1) if one[1].stored.prompt_id not in annotations]
        while current < len(pending):
            number, entry = pending[current]
            self._show(entry, number, len(entries))
            step, annotation = self._ask(entry)
            if annotation is not None:
                self.store(annotation)
                judged.add(current)
            if step == 0:
                break
            current = max(0, current + step)
        return len(judged)

    def _ask(self, entry: SheetEntry) -> tuple[int, Annotation | None]:
        """The step to the next entry (0: quit), and the annotation, if any."""
        count = len(entry.question.options)
        while True:
            self.console.print(_KEYS.format(count=count), style="dim")
            key = self.key().lower()
            if key in INTERRUPTS or key == "":
                raise KeyboardInterrupt
            if key in _STEPS:
                return _STEPS[key], None
            if key == "y" or (key in "0123456789" and int(key) <= count):
                right = entry.stored.option if key == "y" else int(key) - 1 if key != "0" else None
                annotation = annotate_response(entry.stored, right=right)
                chosen = chosen_text(right, entry.question.labels, entry.question.options)
                self.console.print(f"{'right' if annotation.agrees else 'wrong'}: {chosen}", style="bold")
                return 1, annotation

    def _show(self, entry: SheetEntry, number: int, total: int) -> None:
        """Prints one extraction, with control characters escaped."""
        console, question, extraction = self.console, entry.question, entry.stored
        console.rule(f"{number} of {total}   {extraction.language}   {extraction.variant}   {extraction.prompt_id}")
        console.print(entry.answered.instance.context)
        console.print(entry.answered.instance.question)
        for position in range(len(question.options)):
            console.print(f"  {position + 1}  {chosen_text(position, question.labels, question.options)}")
        console.print()
        console.print(_marked_response(entry))
        key = "" if extraction.option is None else f"{extraction.option + 1}  "
        chosen = chosen_text(extraction.option, question.labels, question.options)
        console.print(f"\nextracted {key}{chosen}", style="bold")
        outcome = OUTCOME_TITLES[extraction.outcome]
        console.print(f"          {outcome}, {extraction.rule}, confidence {extraction.confidence}")


def _marked_response(entry: SheetEntry) -> Text:
    """The response with the evidence in brackets."""
    text = Text()
    for part, is_evidence in entry.marked():
        text.append(f"⟦{part}⟧" if is_evidence else part, style="bold" if is_evidence else None)
    return text
