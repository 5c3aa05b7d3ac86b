"""Command `annotate`: a person checks a sample of the extractions of a run."""

from __future__ import annotations

import sys
from pathlib import Path

from mbbq_gen.cli.command import RunCommand, option
from mbbq_gen.cli.options import ConfidenceLevel
from mbbq_gen.cli.output import show_result
from mbbq_gen.core.errors import UsageError


class Annotate(RunCommand):
    """Checks the extractions of a run by hand.

    Draws a stratified sample, asks for your annotations and shows the share of correct extractions. In a terminal it
    shows one response after the other; you press one key for each. Every annotation is stored at once, so the same
    command continues where it stopped. Or fill in a sheet (--csv, --html) and --import it. The result, by language and
    with Wilson intervals, is shown for the sample (unweighted) and for the whole run (weighted).
    """

    help_examples = (
        "  mbbq-gen annotate my-run --sample-size 200 --languages nl,tr\n"
        "  mbbq-gen annotate my-run --sample-size 200 --html sheet.html\n"
        "  mbbq-gen annotate my-run --import annotations.csv\n"
        "  mbbq-gen annotate my-run --reasoning --html reasoning.html"
    )
    sample_size: int | None = option(
        "Sample", "Number of extractions to annotate. Default: as in the last command; at first 200.", min=1
    )
    group_by: str | None = option(
        "Sample",
        "Stratify the sample by these, the most important first: language, outcome, rule, confidence, variant, "
        "label_style, split, category. Default: as in the last command; at first language,outcome,rule.",
        metavar="NAME,…",
    )
    seed: int | None = option("Sample", "Seed of the sample. Default: as in the last command; at first 0.", min=0)
    languages: str | None = option(
        "Sample",
        "Only these languages of the run, comma-separated. Default: as in the last command; at first all.",
        metavar="XX,…",
    )
    extractor: str | None = option(
        "Sample",
        "Extractor to check: rules, a simple one such as first-label, or a stored version. Default: as in the last "
        "command; at first rules.",
    )
    traces: bool = option(
        "Sample", "Annotate the conclusions of reasoning traces instead of the answers.", "--reasoning", default=False
    )
    csv: Path | None = option(
        "Files", "Write a CSV sheet to fill in with a spreadsheet program instead.", metavar="FILE"
    )
    html: Path | None = option("Files", "Write an HTML sheet to fill in with a browser instead.", metavar="FILE")
    sheet: Path | None = option("Files", "Import a filled-in sheet of --csv or --html.", "--import", metavar="FILE")
    report: bool = option("Output", "Only show the result so far.", default=False)
    confidence_level: ConfidenceLevel = 0.95

    def _run(self) -> None:
        from mbbq_gen.annotation.annotations import ReasoningTarget, ReviewTarget
        from mbbq_gen.cli.annotation_session import Annotating
        from mbbq_gen.report.annotation_tables import annotation_blocks

        folder = self.folder
        is_session = not (self.csv or self.html or self.sheet or self.report)
        if is_session and not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UsageError(
                "there is no terminal: write a sheet with --csv FILE or --html FILE, import it with --import FILE, or "
                "show the result so far with --report"
            )
        if self.traces and self.extractor is not None:
            raise UsageError("--reasoning, --extractor: reasoning traces have one extractor; leave --extractor out")
        design = {
            "sample": self.sample_size,
            "by": self.group_by,
            "seed": self.seed,
            "languages": self.languages,
            "extractor": self.extractor,
        }
        source = (ReasoningTarget if self.traces else ReviewTarget)(folder, self.where)
        job = Annotating(folder, source, {name: value for name, value in design.items() if value is not None})
        if self.sheet is not None:
            job.take_sheet(self.sheet)
        if self.csv is not None or self.html is not None:
            job.write_sheets(self.csv, self.html)
            return
        if is_session:
            job.ask()
        show_result(job.report(self.confidence_level), annotation_blocks, as_json=self.as_json)
