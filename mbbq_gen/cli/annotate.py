"""Commands `annotate` and `judge`: check extractions by hand or with an LLM judge."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from mbbq_gen.cli.command import RunCommand, flag, option, settings
from mbbq_gen.cli.options import ConfidenceLevel, extract_missing
from mbbq_gen.cli.output import say, show_result
from mbbq_gen.core.config import RunConfig
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.progress import ProgressBars
from mbbq_gen.core.text import all_of

if TYPE_CHECKING:
    from mbbq_gen.annotation.judge_runner import JudgeSelection

_JUDGE_SETTINGS = (
    *("max_tokens", "model_args", "base_url", "rpm", "tpm", "prices", "api_key_env"),
    *("max_connections", "timeout", "patience", "max_cost", "max_error_rate", "cache_dir"),
)
"""Settings of a run that also hold for a judge."""
_AS_BEFORE = "Default: as in the last command; at first"


class Annotate(RunCommand):
    """Checks the extractions of a run by hand.

    Draws a stratified sample and writes it as a sheet (--csv). Fill it in, --import it, and the share of correct
    extractions is shown by language, with Wilson intervals, for the sample (unweighted) and for the whole run
    (weighted). Without --csv and --import: shows the result so far.
    """

    help_examples = (
        "  mbbq-gen annotate my-run --sample-size 200 --languages nl,tr --csv sheet.csv\n"
        "  mbbq-gen annotate my-run --import sheet.csv"
    )
    sample_size: int | None = option("Sample", f"Number of extractions to annotate. {_AS_BEFORE} 200.", min=1)
    group_by: str | None = option(
        "Sample",
        "Stratify the sample by these, the most important first: language, outcome, rule, confidence, variant, "
        f"label_style, split, category. {_AS_BEFORE} language,outcome,rule.",
        metavar="NAME,…",
    )
    seed: int | None = option("Sample", f"Seed of the sample. {_AS_BEFORE} 0.", min=0)
    languages: str | None = option("Sample", f"Only these languages. {_AS_BEFORE} all.", metavar="XX,…")
    extractor: str | None = option("Sample", f"Extractor to check, such as first-label. {_AS_BEFORE} rules.")
    csv: Path | None = option("Files", "Write a CSV sheet to fill in.", metavar="FILE")
    sheet: Path | None = option("Files", "Import a filled-in sheet.", "--import", metavar="FILE")
    confidence_level: ConfidenceLevel = 0.95

    def _run(self) -> None:
        from mbbq_gen.cli.annotation_sheet import AnnotationTask
        from mbbq_gen.report.run_tables import annotation_blocks

        design = {"sample": self.sample_size, "by": self.group_by, "seed": self.seed}
        design |= {"languages": self.languages, "extractor": self.extractor}
        given = {name: value for name, value in design.items() if value is not None}
        job = AnnotationTask(self.folder, self.resources, given)
        if self.sheet is not None:
            job.import_sheet(self.sheet)
        if self.csv is not None:
            job.write_sheet(self.csv)
            return
        show_result(job.report(self.confidence_level), annotation_blocks, as_json=self.as_json)


class Judge(RunCommand):
    """Extracts stored responses with an LLM judge and compares it with the rules.

    The judge sees the question, the options under neutral names in shuffled order, and the response; never a role, the
    context, or the correct answer. Its extractions are stored as the extractor judge:NAME; those of the rules stay
    unchanged. Cost and rate limits, cache and resuming are as in `run`. A malformed reply counts as unparsed.
    """

    help_examples = (
        "  mbbq-gen judge my-run --model openai:gpt-4o-mini --sample-size 200 --dry-run\n"
        "  mbbq-gen judge my-run --model openai:gpt-4o-mini --sample-size 200 --max-cost 1\n"
        "  mbbq-gen judge my-run --model openai:gpt-4o-mini --only unparsed,low,conflict\n"
        "  mbbq-gen score my-run --extractor judge:gpt-4o-mini"
    )
    model: str | None = option("Model", "Model of the judge; see `mbbq-gen models`.", metavar="KIND:MODEL")
    name: str | None = option("Model", "Name of the judge in this run. Default: made from its model.")
    config: RunConfig = settings(_JUDGE_SETTINGS)
    only: tuple[Literal["unparsed", "low", "conflict"], ...] | None = option(
        "What to extract",
        "Only responses that the rules left unparsed, extracted with low confidence (low) or despite conflicting "
        "evidence (conflict); comma-separated. Default: all.",
        metavar="NAME,…",
    )
    sample_size: int | None = option(
        "What to extract", "Only N responses in total, drawn evenly over languages. Default: all.", min=1
    )
    seed: int = option("What to extract", "Seed of the sample, the option orders and resamples.", default=0, min=0)
    languages: str | None = option("What to extract", "Only these languages. Default: all.", metavar="XX,…")
    dry_run: bool = flag("Output", "Only estimate time and cost; nothing is sent or written.")
    report: bool = flag("Output", "Only show the report of the replies so far.")
    confidence_level: ConfidenceLevel = 0.95

    def _run(self) -> None:
        from mbbq_gen.annotation.judge_runner import JudgeRunner
        from mbbq_gen.report.run_tables import judge_estimate_blocks, judge_report_blocks
        from mbbq_gen.runs.resolve import provider_options

        folder, resources = self.folder, self.resources
        prices = self.config.prices
        versions = extract_missing(folder, resources)
        if self.languages is not None:
            wanted = all_of("language of the run", self.languages, sorted(versions))
            versions = {code: versions[code] for code in wanted}
        job = JudgeRunner(folder, resources, versions, ProgressBars(say))
        judge = job.resolve_judge(self.model, self.name, provider_options(self.config), self.seed)
        if self.report:
            if judge.name not in job.judges:
                raise UsageError(f"{self.run_path}: the judge {judge.name!r} has no replies yet; omit --report")
        elif self.dry_run:
            show_result(job.estimate(judge, self._choice(), prices), judge_estimate_blocks, as_json=self.as_json)
            return
        else:
            # A judge that resumes without a selection keeps its earlier one.
            has_selection = bool(self.model or self.only or self.sample_size)
            judge = job.execute(judge, self._choice() if has_selection else None, self.config)
        found = job.report(judge, self.confidence_level, self.seed, prices)
        show_result(found, judge_report_blocks, as_json=self.as_json)

    def _choice(self) -> JudgeSelection:
        """The responses to judge."""
        from mbbq_gen.annotation.judge_runner import JudgeSelection

        if self.only is not None and self.sample_size is not None:
            raise UsageError("give --only or --sample-size, not both")
        return JudgeSelection(only=self.only or (), sample=self.sample_size, seed=self.seed)
