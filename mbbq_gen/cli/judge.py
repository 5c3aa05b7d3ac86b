"""Command `judge`: an LLM judge extracts the answers of a run again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

from mbbq_gen.cli.config_options import JUDGE_SETTINGS, JudgeSettings, expand_options
from mbbq_gen.cli.help import example, option
from mbbq_gen.cli.options import (
    ConfidenceLevel,
    Json,
    Packs,
    RunLanguages,
    RunPath,
    read_before_use,
    resources,
    say,
    show_result,
    terminal,
)
from mbbq_gen.core.config import PROVIDER_SETTINGS, RunConfig
from mbbq_gen.core.errors import RunError, UsageError
from mbbq_gen.core.progress import Bar
from mbbq_gen.core.text import all_of, one_of

if TYPE_CHECKING:
    from mbbq_gen.annotation.judge import JudgeTable, LLMJudge
    from mbbq_gen.annotation.judge_report import JudgeReport
    from mbbq_gen.annotation.judge_runner import JudgeSelection
    from mbbq_gen.core.files import PackPaths
    from mbbq_gen.providers.base import Provider
    from mbbq_gen.providers.prices import Price
    from mbbq_gen.runs.cost_estimate import JudgeEstimate
    from mbbq_gen.runs.run_folder import RunFolder
    from mbbq_gen.storage.store import RunStore


@example(
    "  mbbq-gen judge my-run --model openai:gpt-4o-mini --sample-size 200 --dry-run\n"
    "  mbbq-gen judge my-run --model openai:gpt-4o-mini --sample-size 200 --max-cost 1\n"
    "  mbbq-gen judge my-run --model openai:gpt-4o-mini --only unparsed,low,conflict\n"
    "  mbbq-gen judge my-run                                 (resumes)\n"
    "  mbbq-gen judge my-run --report --json\n"
    "  mbbq-gen score my-run --extractor judge:gpt-4o-mini"
)
@expand_options
def judge(
    run_path: RunPath,
    *,
    model: Annotated[
        str | None,
        option(
            "Model",
            "Model of the judge, as kind:model, such as openai:gpt-4o-mini; see `mbbq-gen models`.",
            metavar="KIND:MODEL",
        ),
    ] = None,
    name: Annotated[str | None, option("Model", "Name of the judge in this run. Default: made from its model.")] = None,
    config: JudgeSettings,
    only: Annotated[
        str | None,
        option(
            "What to extract",
            "Only responses that the rules left unparsed, extracted with low confidence (low) or despite conflicting "
            "evidence (conflict); comma-separated. Default: all.",
            metavar="unparsed,low,conflict",
        ),
    ] = None,
    sample_size: Annotated[
        int | None,
        option(
            "What to extract",
            "Only N responses in total: a random sample, stratified by language. Default: all.",
            min=1,
        ),
    ] = None,
    seed: Annotated[
        int,
        option(
            "What to extract", "Seed of the sample, of a new judge's option orders and of bootstrap resamples.", min=0
        ),
    ] = 0,
    languages: RunLanguages = None,
    packs: Packs = None,
    dry_run: Annotated[
        bool, option("Output", "Only estimate time and cost; no request is sent, nothing is written.", "--dry-run")
    ] = False,
    report: Annotated[bool, option("Output", "Only show the report of the replies so far.", "--report")] = False,
    confidence_level: ConfidenceLevel = 0.95,
    as_json: Json = False,
) -> None:
    """Extracts stored responses with an LLM judge and compares it with the rules.

    The judge sees the question, the options under neutral names in shuffled order, and the response; never a role, the
    context, or the correct answer. Its extractions are stored as the extractor judge:NAME; those of the rules stay
    unchanged. Cost and rate limits, cache and resuming are as in `run`. A malformed reply counts as unparsed.
    """
    from mbbq_gen.report.annotation_tables import judge_estimate_blocks, judge_report_blocks
    from mbbq_gen.runs.resolve import provider_options
    from mbbq_gen.runs.run_folder import RunFolder

    folder = RunFolder(run_path)
    folder.require()
    job = _Judging(folder, resources(packs), languages)
    found = job.judge_of(model, name, provider_options(config), seed)
    if report:
        if found.name not in job.judges:
            raise UsageError(f"{run_path}: the judge {found.name!r} has no replies yet; omit --report")
    elif dry_run:
        estimated = job.estimate(found, _choice(only, sample_size, seed), config.prices)
        show_result(estimated, judge_estimate_blocks, as_json=as_json)
        return
    else:
        # A judge that resumes without a selection keeps its earlier one.
        has_selection = bool(model or only or sample_size)
        found = job.execute(found, _choice(only, sample_size, seed) if has_selection else None, config)
    show_result(job.report(found, confidence_level, seed, config.prices), judge_report_blocks, as_json=as_json)


_KEPT = {*JUDGE_SETTINGS} - {"model_args"} - PROVIDER_SETTINGS
"""Settings that are the judge's own, not its provider's."""


def _choice(only: str | None, sample: int | None, seed: int) -> JudgeSelection:
    from mbbq_gen.annotation.judge_runner import SELECTION_REASONS, JudgeSelection

    if only is not None and sample is not None:
        raise UsageError("give --only or --sample-size, not both")
    doubts = all_of("kind of reading", only, list(SELECTION_REASONS)) if only is not None else []
    return JudgeSelection(only=tuple(doubts), sample=sample, seed=seed)


class _Judging:
    """The answers of a run as extracted by the rules, and their judge."""

    def __init__(self, folder: RunFolder, where: PackPaths, language: str | None) -> None:
        from mbbq_gen.annotation.judge import judges_of

        self._folder, self._where = folder, where
        self._versions = read_before_use(folder, where)
        if language is not None:
            wanted = all_of("language of the run", language, sorted(self._versions))
            self._versions = {code: self._versions[code] for code in wanted}
        with folder.open_store(read_only=True) as store:
            self.judges = judges_of(store)

    # --- selecting the judge ---

    def judge_of(self, model: str | None, name: str | None, given: Mapping[str, Any], seed: int) -> LLMJudge:
        """A new judge, or one of the run, with the given options.

        Raises:
            UsageError: No model is given, or a judge of that name differs.
        """
        from mbbq_gen.annotation.judge_runner import name_of, new_judge

        if model is None:
            before = self._only_judge(name)
            return self._again(before, before.model, {**before.model_args, **given})
        title = name or name_of(model)
        if title in self.judges:
            return self._again(self.judges[title], model, dict(given))
        return new_judge(model, given, self._where, name=title, seed=seed)

    def _only_judge(self, name: str | None) -> LLMJudge:
        """The run's judge of that name, or its only one."""
        if name is not None:
            return self.judges[one_of("judge", name, self.judges)]
        if len(self.judges) != 1:
            known = f"; this run has {', '.join(self.judges)}: name one with --name" if self.judges else ""
            raise UsageError(f"name the judge: --model kind:model (see `mbbq-gen models`){known}")
        return next(iter(self.judges.values()))

    def _again(self, before: LLMJudge, model: str, options: dict[str, Any]) -> LLMJudge:
        """A judge of the run that resumes; the settings that shape its replies must be unchanged."""
        now = before.model_copy(update={"model": model, "model_args": options})
        old, new = before.provider_settings, dict(self.provider_of(now).settings)
        changed = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
        if model != before.model or changed:
            what = f"uses {before.model}" if model != before.model else f"was run with other {', '.join(changed)}"
            raise UsageError(
                f"{self._folder.path}: the judge {before.name!r} of this run {what};"
                " give this one another --name, or resume with:"
                f" mbbq-gen judge {self._folder.path} --name {before.name}"
            )
        return now

    def provider_of(self, found: LLMJudge) -> Provider:
        """The judge's model."""
        from mbbq_gen.annotation.judge_runner import judge_provider

        return judge_provider(found.model, found.model_args, found.prompt, self._where)

    # --- cost ---

    def estimate(self, found: LLMJudge, choice: JudgeSelection, price_file: str | None) -> JudgeEstimate:
        """Its estimate."""
        from mbbq_gen.annotation.judge import JudgeTable
        from mbbq_gen.annotation.judge_runner import (
            estimate_judge,
            judge_requests,
            selected_extractions,
        )
        from mbbq_gen.providers.prices import price_of, read_prices, token_counter

        prices = read_prices(price_file or found.execution.prices)
        provider = self.provider_of(found)
        base_url = provider.capabilities.base_url
        longest = provider.settings.get("max_tokens")
        with self._folder.open_store(read_only=True) as store, Bar("counting", None, "answers", delay=1.0) as bar:
            table = JudgeTable(store, found)
            chosen = selected_extractions(store, self._versions, choice)
            return estimate_judge(
                judge_requests(store, found, chosen, provider.request_key, bar.advance),
                found,
                token_counter(provider.kind, provider.model),
                price_of(provider.kind, provider.model, prices, base_url=base_url),
                base_url=base_url,
                limits=(_limit(found, "rpm"), _limit(found, "tpm")),
                longest=longest if isinstance(longest, int) else None,
                known=table.answered_keys(),
                measured=table.mean_output_tokens(),
            )

    # --- asking ---

    def execute(self, found: LLMJudge, choice: JudgeSelection | None, config: RunConfig) -> LLMJudge:
        """Plans, asks and reads whatever is left to do; without a choice, what was planned before."""
        from mbbq_gen.annotation.judge import JudgeTable
        from mbbq_gen.providers.prices import read_prices
        from mbbq_gen.runs.executor import cost_guard_with, execute_planned, is_above

        kept = {name: getattr(config, name) for name in config.model_fields_set & _KEPT}
        rules = found.execution.model_copy(update=kept)
        prices = read_prices(rules.prices)  # a price file that is wrong is said before anything is done
        provider = self.provider_of(found)
        provider.check_access()
        with self._folder.locked(), self._folder.open_store() as store:
            ledger = JudgeTable(store, found)
            ledger.keep(found.model_copy(update={"execution": rules}))
            if choice is not None:
                self._plan(store, ledger, provider, choice)
            pending = ledger.progress().pending

            try:
                if pending:
                    limit, before = rules.max_cost, _spent(store, found, provider, prices)
                    guard = None if limit is None else cost_guard_with(ledger, provider, rules, limit, before)
                    asyncio.run(execute_planned(ledger, provider, rules, terminal(), guard))
                else:
                    say("all requests are answered already")
            except KeyboardInterrupt:
                go_on = f"mbbq-gen judge {self._folder.path} --name {found.name}"
                say(f"\nstopped; responses are stored. Resume with: {go_on}")
                raise
            finally:
                ledger.read_replies()
                if pending:
                    ledger.keep(
                        ledger.judge.model_copy(
                            update={"runtime_info": {**found.runtime_info, **provider.runtime_info()}}
                        )
                    )
            progress = ledger.progress()
            if progress.failed:
                line = f"{progress.failed} requests failed; repeat the command to retry them"
                finished = progress.answered + progress.failed
                if not progress.answered or is_above(progress.failed, finished, rules.max_error_rate):
                    raise RunError(f"{line} (--max-error-rate sets the share)")
                say(line)
            return ledger.judge

    def _plan(self, store: RunStore, ledger: JudgeTable, provider: Provider, choice: JudgeSelection) -> None:
        from mbbq_gen.annotation.judge_runner import confident_extractions, judge_requests, selected_extractions

        with Bar("planning", None, "answers", delay=1.0) as bar:
            chosen = selected_extractions(store, self._versions, choice)
            new = ledger.plan(
                judge_requests(store, ledger.judge, chosen, provider.request_key, bar.advance), choice.chosen_by
            )
        if choice.chosen_by == "all":
            ledger.take_over(confident_extractions(store, self._versions))
        requests = ledger.progress().requests
        say(
            f"{ledger.judge.model}: {len(chosen):,} answers to judge, {new:,} of them new;"
            f" {requests:,} different requests in all"
        )

    # --- the result ---

    def report(self, found: LLMJudge, interval: float, seed: int, price_file: str | None) -> JudgeReport:
        """The report of its replies so far."""
        from mbbq_gen.annotation.judge import JudgeTable
        from mbbq_gen.annotation.judge_report import judge_report, judged_pairs
        from mbbq_gen.annotation.judge_runner import judge_cost
        from mbbq_gen.annotation.review import ANNOTATIONS_NAME, load_annotations
        from mbbq_gen.providers.prices import read_prices
        from mbbq_gen.statistics.estimate import InferenceSettings

        prices = read_prices(price_file or found.execution.prices)
        with self._folder.open_store(read_only=True) as store:
            return judge_report(
                judged_pairs(store, found, self._versions),
                found,
                self._versions,
                load_annotations(self._folder.path / ANNOTATIONS_NAME),
                JudgeTable(store, found).progress(),
                run=str(self._folder.path),
                cost=judge_cost(store, found, prices),
                sampling=InferenceSettings(confidence=interval, seed=seed),
            )


def _limit(found: LLMJudge, name: str) -> float | None:
    """The rate limit of that name in the judge's options."""
    value = found.model_args.get(name)
    return float(value) if isinstance(value, int | float | str) else None


def _spent(store: RunStore, found: LLMJudge, provider: Provider, prices: tuple[Price, ...]) -> float:
    """The most that the judge can have cost so far, in US dollars, as far as prices are known."""
    from mbbq_gen.runs.cost_report import cost_report

    base_url = provider.capabilities.base_url
    return cost_report(store, provider.kind, provider.model, prices, base_url, judge=found.name).most
