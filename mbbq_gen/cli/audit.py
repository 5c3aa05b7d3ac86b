"""`mbbq-gen audit`: a person reads a sample of the answers, and says how often the reading is right."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mbbq_gen.cli.options import Json, Packs, RunPath, example, resources, result_console, say, write_lines
from mbbq_gen.errors import DataError, UsageError
from mbbq_gen.runs.names import all_of

if TYPE_CHECKING:
    from rich.console import Console

    from mbbq_gen.report.reading_sheet import Entry, SheetRow
    from mbbq_gen.runs.audit import AuditReport, Design, Sample, Verdict
    from mbbq_gen.runs.audit_sources import AuditSource
    from mbbq_gen.runs.folder import RunFolder
    from mbbq_gen.runs.store import RunStore


@example(
    "  mbbq-gen audit my-run --sample 200 --language nl,tr\n"
    "  mbbq-gen audit my-run --sample 200 --html sheet.html\n"
    "  mbbq-gen audit my-run --verdicts verdicts.csv\n"
    "  mbbq-gen audit my-run --thoughts --html thoughts.html"
)
def audit(
    run_path: RunPath,
    sample: Annotated[
        int | None, typer.Option(min=1, help="How many readings to judge; default: as before, else 200.")
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            help="Stratify by these, the most important first; default: as before, else language,outcome,rule.",
            metavar="NAME,…",
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the sample; default: as before, else 0.")] = None,
    language: Annotated[
        str | None, typer.Option(help="Only these languages of the run; default: as before, else all.", metavar="XX,…")
    ] = None,
    extractor: Annotated[
        str | None,
        typer.Option(help="Whose readings: engine, a simple reader, or a stored version.", metavar="NAME"),
    ] = None,
    csv: Annotated[Path | None, typer.Option(help="Write a sheet for a spreadsheet instead.", metavar="FILE")] = None,
    html: Annotated[Path | None, typer.Option(help="Write a sheet for a browser instead.", metavar="FILE")] = None,
    verdicts: Annotated[Path | None, typer.Option(help="Read a filled-in sheet back.", metavar="FILE")] = None,
    report: Annotated[bool, typer.Option("--report", help="Only show what the verdicts so far say.")] = False,
    interval: Annotated[float, typer.Option(min=0.5, max=0.999, help="Confidence of the intervals.")] = 0.95,
    thoughts: Annotated[
        bool, typer.Option("--thoughts", help="Judge what thoughts settle on instead of what answers choose.")
    ] = False,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Checks by eye how well a run's answers were read: a stratified sample, a verdict on each, the rate of agreement.

    In a terminal it shows one answer after the other and takes one key for each; every verdict is kept at once in
    RUN/audit.jsonl, so the same command goes on where it stopped. Or it writes a sheet, and reads it back. The result
    is the share of right readings with its Wilson interval, by language, of those judged and weighted to the run.
    """
    from mbbq_gen.runs.audit_sources import Answers, Thoughts
    from mbbq_gen.runs.folder import RunFolder

    folder = RunFolder(run_path)
    folder.require()
    is_session = not (csv or html or verdicts or report)
    if is_session and not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "no terminal to ask on: write a sheet with --csv FILE or --html FILE, read it back with --verdicts FILE, "
            "or see the result so far with --report"
        )
    given = {"sample": sample, "by": by, "seed": seed, "languages": language, "extractor": extractor}
    if thoughts and extractor is not None:
        raise UsageError("--thoughts, --extractor: thoughts have one reader; leave --extractor out")
    source = (Thoughts if thoughts else Answers)(folder, resources(packs))
    job = _Audit(folder, source, {name: value for name, value in given.items() if value is not None})
    if verdicts is not None:
        job.take_sheet(verdicts)
    if csv is not None or html is not None:
        job.write_sheets(csv, html)
        return
    if is_session:
        job.ask()
    _show(job.report(interval), as_json=as_json)


class _Audit:
    """The readings of a run, the sample of them, and the verdicts on them."""

    def __init__(self, folder: RunFolder, source: AuditSource, given: Mapping[str, Any]) -> None:
        from mbbq_gen.cli.loading import reading_bar
        from mbbq_gen.runs.audit import draw_sample, load_design, load_verdicts

        self._folder, self._source = folder, source
        before = load_design(source.design_path)
        with reading_bar() as bar:
            versions = source.versions(given.get("extractor", before.extractor), bar.advance)
        self._design: Design = _design(before, given, sorted(versions))
        wanted = self._design.languages or tuple(versions)
        self._versions = {code: version for code, version in sorted(versions.items()) if code in wanted}
        with folder.open_store(read_only=True) as store:
            self._sample: Sample = draw_sample(source.readings(store, self._versions), self._design)
        self._verdicts: dict[str, Verdict] = load_verdicts(source.verdicts_path)
        if not self._sample.drawn:
            raise UsageError(f"{folder.path}: no text to judge; go on with: mbbq-gen run {folder.path}")

    def keep_design(self) -> None:
        """Keeps how the sample was drawn, so that going on, and the result, mean the same one; and what was drawn."""
        from mbbq_gen.runs.audit import save_design
        from mbbq_gen.runs.draws import draw_of, keep_draw

        save_design(self._source.design_path, self._design)
        keep_draw(self._source.draws_path, draw_of(self._sample, self._design, self._versions))

    def entries(self) -> list[Entry]:
        """The sample with what was asked and answered."""
        from mbbq_gen.report.reading_sheet import Entry

        with self._folder.open_store(read_only=True) as store:
            found = (self._source.find(store, each.presentation_id, each.extractor) for each in self._sample.drawn)
            return [Entry(*judged) for judged in found if judged is not None]

    def keep(self, verdict: Verdict) -> None:
        """Keeps a verdict; it is durable when this returns."""
        from mbbq_gen.runs.audit import append_verdicts

        append_verdicts(self._source.verdicts_path, [verdict])
        self._verdicts[verdict.presentation_id] = verdict

    def report(self, interval: float) -> AuditReport:
        """What the verdicts say."""
        from mbbq_gen.runs.audit import audit_report

        return audit_report(self._sample, self._verdicts, self._versions, self._design.by, interval)

    # --- in a terminal ---

    def ask(self) -> None:
        """Asks for one verdict after the other."""
        from rich.console import Console

        from mbbq_gen.cli.audit_session import Session

        self.keep_design()
        console = Console(stderr=True, markup=False, highlight=False)
        session = Session(console, typer.getchar, self.keep, _now, lambda entry: self._explain(entry, console))
        try:
            count = session.judge(self.entries(), self._verdicts)
        except (KeyboardInterrupt, EOFError):
            say(f"\nstopped; every verdict is kept in {self._source.verdicts_path}")
            raise KeyboardInterrupt from None
        say(f"{count:,} judged; every verdict is kept in {self._source.verdicts_path}")

    def _explain(self, entry: Entry, console: Console) -> None:
        from mbbq_gen.report.explanation import print_explanation

        told = self._source.explain(entry.answered)
        if told is None:
            console.print(f"the service itself says so: {entry.reading.rule}")
        else:
            print_explanation(told, console)

    # --- sheets ---

    def write_sheets(self, csv: Path | None, html: Path | None) -> None:
        """Writes the sample as sheets, with the verdicts given before filled in."""
        from mbbq_gen.report.reading_page import html_sheet
        from mbbq_gen.report.reading_sheet import csv_sheet

        entries = self.entries()
        self.keep_design()
        if csv is not None:
            # A mark at the beginning tells spreadsheets that it is UTF-8.
            write_lines(csv, ["\ufeff" + csv_sheet(entries, self._verdicts).rstrip("\r\n")])
        if html is not None:
            write_lines(
                html, [html_sheet(entries, self._verdicts, f"Reading sheet: {self._folder.path.resolve().name}")]
            )
        for path in filter(None, (csv, html)):
            say(f"{len(entries):,} readings on {path}")
        back = csv or "the CSV that its button saves"
        more = "" if self._source.of_answers else " --thoughts"
        say(f"fill it in, then: mbbq-gen audit {self._folder.path}{more} --verdicts {back}")

    def take_sheet(self, path: Path) -> None:
        """Takes over the verdicts of a sheet; those that are there already are not written twice."""
        from mbbq_gen.report.reading_sheet import read_sheet
        from mbbq_gen.runs.audit import append_verdicts

        try:
            raw = path.read_bytes()
        except OSError as error:
            raise UsageError(f"{path}: {error.strerror or error}") from error
        with self._folder.open_store(read_only=True) as store:
            given = [self._verdict(store, row) for row in read_sheet(raw, str(path))]
        new = [verdict for verdict in given if not _is_same(verdict, self._verdicts)]
        append_verdicts(self._source.verdicts_path, new)
        self._verdicts |= {verdict.presentation_id: verdict for verdict in new}
        say(f"{len(given):,} verdicts on {path}, {len(new):,} of them new")

    def _verdict(self, store: RunStore, row: SheetRow) -> Verdict:
        """The verdict of a row, on the reading that was on the sheet."""
        from mbbq_gen.report.reading_sheet import right_option
        from mbbq_gen.runs.audit import verdict_on
        from mbbq_gen.runs.reading import question_of

        found = self._source.find(store, row.presentation_id, row.extractor or self._version_of(store, row))
        if found is None:
            raise DataError(f"{row.where}: id: no reading {row.presentation_id!r} in {self._folder.path}; wrong run?")
        reading, question = found.reading, question_of(found.answered)
        known = bool(row.right) or row.agrees is True
        right = right_option(row, question) if row.right else reading.option if row.agrees else None
        if row.agrees is not None and row.agrees != (known and right == reading.option):
            read = "no option" if reading.option is None else f"option {reading.option + 1}"
            raise DataError(f"{row.where}: right: {row.right!r} contradicts the verdict, for {read} was read; mend one")
        return verdict_on(reading, _now(), right=right, right_known=known, note=row.note)

    def _version_of(self, store: RunStore, row: SheetRow) -> str:
        """The version that is current for a presentation, for sheets that lost the column."""
        from mbbq_gen.runs.lookup import find_answered

        answered = find_answered(store, row.presentation_id)
        return self._versions.get(answered.presentation.language, "") if answered else ""


def _design(before: Design, given: Mapping[str, Any], languages: list[str]) -> Design:
    """How the sample is drawn: as before, but for what was given now."""
    from mbbq_gen.runs.audit import GROUPINGS, Design

    told = dict(given)
    if "by" in told:
        told["by"] = all_of("grouping", told["by"], list(GROUPINGS))
    if "languages" in told:
        told["languages"] = all_of("language of the run", told["languages"], languages)
    return Design.model_validate({**before.model_dump(), **told})


def _is_same(verdict: Verdict, given: Mapping[str, Verdict]) -> bool:
    """Whether the last verdict on the presentation says the same."""
    before = given.get(verdict.presentation_id)
    return before is not None and before.model_copy(update={"at": verdict.at}) == verdict


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _show(report: AuditReport, *, as_json: bool) -> None:
    from mbbq_gen.report.audit_tables import print_audit

    if as_json:
        typer.echo(report.model_dump_json(indent=2))
    else:
        print_audit(report, result_console())
