"""Command `annotate`: a person checks a sample of the extractions of a run."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mbbq_gen.cli.help import example, option
from mbbq_gen.cli.options import (
    ConfidenceLevel,
    Json,
    Packs,
    RunPath,
    extraction_bar,
    resources,
    result_console,
    say,
    show_result,
    write_lines,
)
from mbbq_gen.core.errors import DataError, UsageError
from mbbq_gen.core.text import all_of

if TYPE_CHECKING:
    from rich.console import Console

    from mbbq_gen.annotation.annotations import ReviewTarget
    from mbbq_gen.annotation.review import Annotation, AnnotationReport, ReviewSample, SamplingDesign
    from mbbq_gen.report.sheets import SheetEntry, SheetRow
    from mbbq_gen.runs.run_folder import RunFolder
    from mbbq_gen.storage.store import RunStore


@example(
    "  mbbq-gen annotate my-run --sample-size 200 --languages nl,tr\n"
    "  mbbq-gen annotate my-run --sample-size 200 --html sheet.html\n"
    "  mbbq-gen annotate my-run --import annotations.csv\n"
    "  mbbq-gen annotate my-run --reasoning --html reasoning.html"
)
def annotate(
    run_path: RunPath,
    sample_size: Annotated[
        int | None,
        option("Sample", "Number of extractions to annotate. Default: as in the last command; at first 200.", min=1),
    ] = None,
    group_by: Annotated[
        str | None,
        option(
            "Sample",
            "Stratify the sample by these, the most important first: language, outcome, rule, confidence, variant, "
            "label_style, split, category. Default: as in the last command; at first language,outcome,rule.",
            metavar="NAME,…",
        ),
    ] = None,
    seed: Annotated[
        int | None, option("Sample", "Seed of the sample. Default: as in the last command; at first 0.", min=0)
    ] = None,
    languages: Annotated[
        str | None,
        option(
            "Sample",
            "Only these languages of the run, comma-separated. Default: as in the last command; at first all.",
            metavar="XX,…",
        ),
    ] = None,
    extractor: Annotated[
        str | None,
        option(
            "Sample",
            "Extractor to check: rules, a simple one such as first-label, or a stored version. Default: as in the last "
            "command; at first rules.",
        ),
    ] = None,
    traces: Annotated[
        bool, option("Sample", "Annotate the conclusions of reasoning traces instead of the answers.", "--reasoning")
    ] = False,
    csv: Annotated[
        Path | None, option("Files", "Write a CSV sheet to fill in with a spreadsheet program instead.", metavar="FILE")
    ] = None,
    html: Annotated[
        Path | None, option("Files", "Write an HTML sheet to fill in with a browser instead.", metavar="FILE")
    ] = None,
    sheet: Annotated[
        Path | None, option("Files", "Import a filled-in sheet of --csv or --html.", "--import", metavar="FILE")
    ] = None,
    packs: Packs = None,
    report: Annotated[bool, option("Output", "Only show the result so far.", "--report")] = False,
    confidence_level: ConfidenceLevel = 0.95,
    as_json: Json = False,
) -> None:
    """Checks the extractions of a run by hand.

    Draws a stratified sample, asks for your annotations and shows the share of correct extractions. In a terminal it
    shows one response after the other; you press one key for each. Every annotation is stored at once, so the same
    command continues where it stopped. Or fill in a sheet (--csv, --html) and --import it. The result, by language and
    with Wilson intervals, is shown for the sample (unweighted) and for the whole run (weighted).
    """
    from mbbq_gen.annotation.annotations import ReasoningTarget, ReviewTarget
    from mbbq_gen.runs.run_folder import RunFolder

    folder = RunFolder(run_path)
    folder.require()
    is_session = not (csv or html or sheet or report)
    if is_session and not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "there is no terminal: write a sheet with --csv FILE or --html FILE, import it with --import FILE, or show "
            "the result so far with --report"
        )
    given = {"sample": sample_size, "by": group_by, "seed": seed, "languages": languages, "extractor": extractor}
    if traces and extractor is not None:
        raise UsageError("--reasoning, --extractor: reasoning traces have one extractor; leave --extractor out")
    source = (ReasoningTarget if traces else ReviewTarget)(folder, resources(packs))
    job = _Annotating(folder, source, {name: value for name, value in given.items() if value is not None})
    if sheet is not None:
        job.take_sheet(sheet)
    if csv is not None or html is not None:
        job.write_sheets(csv, html)
        return
    if is_session:
        job.ask()
    from mbbq_gen.report.annotation_tables import annotation_blocks

    show_result(job.report(confidence_level), annotation_blocks, as_json=as_json)


class _Annotating:
    """The extractions of a run, the sample of them, and their annotations."""

    def __init__(self, folder: RunFolder, source: ReviewTarget, given: Mapping[str, Any]) -> None:
        from mbbq_gen.annotation.review import draw_sample, load_annotations, load_design

        self._folder, self._source = folder, source
        before = load_design(source.design_path)
        with extraction_bar() as bar:
            versions = source.versions(given.get("extractor", before.extractor), bar.advance)
        self._design: SamplingDesign = _design(before, given, sorted(versions))
        wanted = self._design.languages or tuple(versions)
        self._versions = {code: version for code, version in sorted(versions.items()) if code in wanted}
        with folder.open_store(read_only=True) as store:
            self._sample: ReviewSample = draw_sample(source.extractions(store, self._versions), self._design)
        self._annotations: dict[str, Annotation] = load_annotations(source.annotations_path)
        if not self._sample.drawn:
            raise UsageError(f"{folder.path}: no response to annotate; continue with: mbbq-gen run {folder.path}")

    def keep_design(self) -> None:
        """Stores the sampling design and the draw, so that a later command uses the same sample."""
        from mbbq_gen.annotation.annotations import draw_of, keep_draw
        from mbbq_gen.annotation.review import save_design

        save_design(self._source.design_path, self._design)
        keep_draw(self._source.draws_path, draw_of(self._sample, self._design, self._versions))

    def entries(self) -> list[SheetEntry]:
        """The sample with prompts and responses."""
        from mbbq_gen.report.sheets import SheetEntry

        with self._folder.open_store(read_only=True) as store:
            found = (self._source.find(store, each.prompt_id, each.extractor) for each in self._sample.drawn)
            return [SheetEntry(*judged) for judged in found if judged is not None]

    def keep(self, annotation: Annotation) -> None:
        """Stores an annotation; it is on disk when this returns."""
        from mbbq_gen.annotation.review import append_annotations

        append_annotations(self._source.annotations_path, [annotation])
        self._annotations[annotation.prompt_id] = annotation

    def report(self, confidence_level: float) -> AnnotationReport:
        """The result of the annotations."""
        from mbbq_gen.annotation.review import annotation_report

        return annotation_report(self._sample, self._annotations, self._versions, self._design.by, confidence_level)

    # --- in a terminal ---

    def ask(self) -> None:
        """Asks for one annotation after the other."""
        from mbbq_gen.cli.annotation_session import Session

        self.keep_design()
        console = result_console(stderr=True)
        session = Session(console, typer.getchar, self.keep, _now, lambda entry: self._explain(entry, console))
        try:
            count = session.judge(self.entries(), self._annotations)
        except (KeyboardInterrupt, EOFError):
            say(f"\nstopped; the annotations are in {self._source.annotations_path}")
            raise KeyboardInterrupt from None
        say(f"{count:,} annotated; the annotations are in {self._source.annotations_path}")

    def _explain(self, entry: SheetEntry, console: Console) -> None:
        from mbbq_gen.report.explanation import print_explanation

        told = self._source.explain(entry.answered)
        if told is None:
            console.print(f"outcome from the service: {entry.stored.rule}")
        else:
            print_explanation(told, console)

    # --- sheets ---

    def write_sheets(self, csv: Path | None, html: Path | None) -> None:
        """Writes the sample as sheets, with existing annotations filled in."""
        from mbbq_gen.report.sheets import csv_sheet, html_sheet

        entries = self.entries()
        self.keep_design()
        if csv is not None:
            # The byte order mark makes spreadsheets read UTF-8.
            write_lines(csv, ["\ufeff" + csv_sheet(entries, self._annotations).rstrip("\r\n")])
        if html is not None:
            write_lines(
                html, [html_sheet(entries, self._annotations, f"Annotation sheet: {self._folder.path.resolve().name}")]
            )
        for path in filter(None, (csv, html)):
            say(f"{len(entries):,} extractions in {path}")
        back = csv or "the CSV that its button saves"
        more = "" if self._source.of_answers else " --reasoning"
        say(f"fill it in, then: mbbq-gen annotate {self._folder.path}{more} --import {back}")

    def take_sheet(self, path: Path) -> None:
        """Imports the annotations of a sheet; existing ones are not written twice."""
        from mbbq_gen.annotation.review import append_annotations
        from mbbq_gen.report.sheets import read_sheet

        with self._folder.open_store(read_only=True) as store:
            given = [self._annotation(store, row) for row in read_sheet(path)]
        new = [annotation for annotation in given if not _is_same(annotation, self._annotations)]
        append_annotations(self._source.annotations_path, new)
        self._annotations |= {annotation.prompt_id: annotation for annotation in new}
        say(f"{len(given):,} annotations in {path}, {len(new):,} of them new")

    def _annotation(self, store: RunStore, row: SheetRow) -> Annotation:
        """The annotation of a row, for the extraction on the sheet."""
        from mbbq_gen.annotation.review import annotate_response
        from mbbq_gen.report.sheets import right_option
        from mbbq_gen.runs.extraction import question_of

        found = self._source.find(store, row.prompt_id, row.extractor or self._version_of(store, row))
        if found is None:
            raise DataError(f"{row.where}: id: no extraction {row.prompt_id!r} in {self._folder.path}; wrong run?")
        extraction, question = found.stored, question_of(found.answered)
        known = bool(row.right) or row.agrees is True
        right = right_option(row, question) if row.right else extraction.option if row.agrees else None
        if row.agrees is not None and row.agrees != (known and right == extraction.option):
            read = "no option" if extraction.option is None else f"option {extraction.option + 1}"
            raise DataError(
                f"{row.where}: right: {row.right!r} contradicts the annotation: {read} was extracted; correct one"
            )
        return annotate_response(extraction, _now(), right=right, right_known=known, note=row.note)

    def _version_of(self, store: RunStore, row: SheetRow) -> str:
        """The current extractor version of a prompt, for sheets without that column."""
        from mbbq_gen.storage.queries import find_completed

        answered = find_completed(store, row.prompt_id)
        return self._versions.get(answered.prompt.language, "") if answered else ""


def _design(before: SamplingDesign, given: Mapping[str, Any], languages: list[str]) -> SamplingDesign:
    """The sampling design: as before, updated by the options given."""
    from mbbq_gen.annotation.review import GROUPINGS, SamplingDesign

    changes = dict(given)
    if "by" in changes:
        changes["by"] = all_of("grouping", changes["by"], list(GROUPINGS))
    if "languages" in changes:
        changes["languages"] = all_of("language of the run", changes["languages"], languages)
    return SamplingDesign.model_validate({**before.model_dump(), **changes})


def _is_same(annotation: Annotation, given: Mapping[str, Annotation]) -> bool:
    """Whether the last annotation of the prompt is the same."""
    before = given.get(annotation.prompt_id)
    return before is not None and before.model_copy(update={"at": annotation.at}) == annotation


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
