"""Command `judge`: an LLM judge extracts the answers of a run again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mbbq_gen.cli.command import JsonCommand, Packs, RunPath, option, settings
from mbbq_gen.cli.options import ConfidenceLevel, RunLanguages
from mbbq_gen.cli.output import say, show_result
from mbbq_gen.core.config import RunConfig
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.progress import ProgressBars
from mbbq_gen.core.text import all_of

if TYPE_CHECKING:
    from mbbq_gen.annotation.judge_runner import JudgeSelection

_SETTINGS = (
    *("max_tokens", "model_args", "base_url", "rpm", "tpm", "prices", "api_key_env", "api_key_file"),
    *("max_connections", "timeout", "patience", "max_cost", "max_error_rate", "cache_dir"),
)
"""Settings of a run that a judge takes too."""


class Judge(JsonCommand):
    """Extracts stored responses with an LLM judge and compares it with the rules.

    The judge sees the question, the options under neutral names in shuffled order, and the response; never a role, the
    context, or the correct answer. Its extractions are stored as the extractor judge:NAME; those of the rules stay
    unchanged. Cost and rate limits, cache and resuming are as in `run`. A malformed reply counts as unparsed.
    """

    help_examples = (
        "  mbbq-gen judge my-run --model openai:gpt-4o-mini --sample-size 200 --dry-run\n"
        "  mbbq-gen judge my-run --model openai:gpt-4o-mini --sample-size 200 --max-cost 1\n"
        "  mbbq-gen judge my-run --model openai:gpt-4o-mini --only unparsed,low,conflict\n"
        "  mbbq-gen judge my-run                                 (resumes)\n"
        "  mbbq-gen judge my-run --report --json\n"
        "  mbbq-gen score my-run --extractor judge:gpt-4o-mini"
    )
    run_path: RunPath
    model: str | None = option(
        "Model",
        "Model of the judge, as kind:model, such as openai:gpt-4o-mini; see `mbbq-gen models`.",
        metavar="KIND:MODEL",
    )
    name: str | None = option("Model", "Name of the judge in this run. Default: made from its model.")
    config: RunConfig = settings(_SETTINGS)
    only: str | None = option(
        "What to extract",
        "Only responses that the rules left unparsed, extracted with low confidence (low) or despite conflicting "
        "evidence (conflict); comma-separated. Default: all.",
        metavar="unparsed,low,conflict",
    )
    sample_size: int | None = option(
        "What to extract", "Only N responses in total: a random sample, stratified by language. Default: all.", min=1
    )
    seed: int = option(
        "What to extract",
        "Seed of the sample, of a new judge's option orders and of bootstrap resamples.",
        default=0,
        min=0,
    )
    languages: RunLanguages = None
    packs: Packs = None
    dry_run: bool = option(
        "Output", "Only estimate time and cost; no request is sent, nothing is written.", default=False
    )
    report: bool = option("Output", "Only show the report of the replies so far.", default=False)
    confidence_level: ConfidenceLevel = 0.95

    def _run(self) -> None:
        from mbbq_gen.annotation.judging import Judging
        from mbbq_gen.cli.loading import extracted
        from mbbq_gen.report.annotation_tables import judge_estimate_blocks, judge_report_blocks
        from mbbq_gen.runs.resolve import provider_options
        from mbbq_gen.runs.run_folder import RunFolder

        folder, where = RunFolder(self.run_path).require(), PackPaths(packs=self.packs)
        prices = self.config.prices
        versions = extracted(folder, where)
        if self.languages is not None:
            wanted = all_of("language of the run", self.languages, sorted(versions))
            versions = {code: versions[code] for code in wanted}
        job = Judging(folder, where, versions, ProgressBars(say))
        judge = job.judge_of(self.model, self.name, provider_options(self.config), self.seed)
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
        from mbbq_gen.annotation.judge_runner import SELECTION_REASONS, JudgeSelection

        if self.only is not None and self.sample_size is not None:
            raise UsageError("give --only or --sample-size, not both")
        doubts = all_of("kind of reading", self.only, list(SELECTION_REASONS)) if self.only is not None else []
        return JudgeSelection(only=tuple(doubts), sample=self.sample_size, seed=self.seed)
