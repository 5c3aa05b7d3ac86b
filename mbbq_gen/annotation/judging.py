"""A judge's work on a run: which judge it is, its estimate, its requests and its report."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from mbbq_gen.annotation.judge import JudgeTable, LLMJudge, judges_of
from mbbq_gen.annotation.judge_report import JudgeReport, judge_report, judged_pairs
from mbbq_gen.annotation.judge_runner import (
    JudgeSelection,
    confident_extractions,
    estimate_judge,
    judge_cost,
    judge_provider,
    judge_requests,
    name_of,
    new_judge,
    selected_extractions,
)
from mbbq_gen.annotation.review import ANNOTATIONS_NAME, load_annotations
from mbbq_gen.core.config import PROVIDER_SETTINGS, RunConfig
from mbbq_gen.core.errors import RunError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.progress import Bar, ProgressListener
from mbbq_gen.core.text import one_of
from mbbq_gen.providers.base import Provider
from mbbq_gen.providers.prices import price_of, read_prices, token_counter
from mbbq_gen.runs.cost_estimate import JudgeEstimate
from mbbq_gen.runs.cost_report import cost_report
from mbbq_gen.runs.executor import cost_guard_with, execute_planned, is_above
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.statistics.estimate import InferenceSettings


class Judging:
    """The answers of a run as extracted by the rules, and their judge."""

    def __init__(
        self, folder: RunFolder, where: PackPaths, versions: Mapping[str, str], watcher: ProgressListener
    ) -> None:
        """`versions`: language to judge → the extractor version of the rules."""
        self._folder, self._where, self._versions, self._watcher = folder, where, versions, watcher
        with folder.open_store(read_only=True) as store:
            self.judges = judges_of(store)

    def judge_of(self, model: str | None, name: str | None, given: Mapping[str, Any], seed: int) -> LLMJudge:
        """A new judge, or one of the run, with the given options.

        Raises:
            UsageError: No model is given, or a judge of that name differs.
        """
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
        old, new = before.provider_settings, dict(self._provider(now).settings)
        changed = sorted(key for key in {*old, *new} if old.get(key) != new.get(key))
        if model != before.model or changed:
            what = f"uses {before.model}" if model != before.model else f"was run with other {', '.join(changed)}"
            raise UsageError(
                f"{self._folder.path}: the judge {before.name!r} of this run {what};"
                " give this one another --name, or resume with:"
                f" mbbq-gen judge {self._folder.path} --name {before.name}"
            )
        return now

    def _provider(self, judge: LLMJudge) -> Provider:
        return judge_provider(judge.model, judge.model_args, judge.prompt, self._where)

    def estimate(self, judge: LLMJudge, choice: JudgeSelection, price_file: str | None) -> JudgeEstimate:
        """What the answers of a choice would take."""
        prices, provider = read_prices(price_file or judge.execution.prices), self._provider(judge)
        base_url, longest = provider.capabilities.base_url, provider.settings.get("max_tokens")
        limits = [judge.model_args.get(name) for name in ("rpm", "tpm")]
        rpm, tpm = (float(limit) if isinstance(limit, int | float | str) else None for limit in limits)
        with self._folder.open_store(read_only=True) as store, Bar("counting", None, "answers") as bar:
            table = JudgeTable(store, judge)
            chosen = selected_extractions(store, self._versions, choice)
            return estimate_judge(
                judge_requests(store, judge, chosen, provider.request_key, bar.advance),
                judge,
                token_counter(provider.kind, provider.model),
                price_of(provider.kind, provider.model, prices, base_url=base_url),
                base_url=base_url,
                limits=(rpm, tpm),
                longest=longest if isinstance(longest, int) else None,
                known=table.answered_keys(),
                measured=table.mean_output_tokens(),
            )

    def execute(self, judge: LLMJudge, choice: JudgeSelection | None, config: RunConfig) -> LLMJudge:
        """Plans, sends and reads whatever is left to do; without a choice, what was planned before.

        Raises:
            RunError: too many requests failed.
        """
        kept = config.model_fields_set - {"model_args"} - PROVIDER_SETTINGS
        rules = judge.execution.model_copy(update={name: getattr(config, name) for name in kept})
        prices = read_prices(rules.prices)  # a price file that is wrong is said before anything is done
        provider, say = self._provider(judge), self._watcher.say
        provider.check_access()
        with self._folder.locked(), self._folder.open_store() as store:
            table = JudgeTable(store, judge)
            table.keep(judge.model_copy(update={"execution": rules}))
            if choice is not None:
                with Bar("planning", None, "answers") as bar:
                    chosen = selected_extractions(store, self._versions, choice)
                    requests = judge_requests(store, table.judge, chosen, provider.request_key, bar.advance)
                    new = table.plan(requests, choice.chosen_by)
                if choice.chosen_by == "all":
                    table.take_over(confident_extractions(store, self._versions))
                say(
                    f"{table.judge.model}: {len(chosen):,} answers to judge, {new:,} of them new;"
                    f" {table.progress().requests:,} different requests in all"
                )
            pending = table.progress().pending
            try:
                if pending:
                    guard, base_url = None, provider.capabilities.base_url
                    if rules.max_cost is not None:
                        kind, name = provider.kind, provider.model
                        spent = cost_report(store, kind, name, prices, base_url, judge=judge.name)
                        guard = cost_guard_with(table, provider, rules, rules.max_cost, spent.most)
                    asyncio.run(execute_planned(table, provider, rules, self._watcher, guard))
                else:
                    say("all requests are answered already")
            except KeyboardInterrupt:
                again = f"mbbq-gen judge {self._folder.path} --name {judge.name}"
                say(f"\nstopped; responses are stored. Resume with: {again}")
                raise
            finally:
                table.read_replies()
                if pending:
                    facts = {**judge.runtime_info, **provider.runtime_info()}
                    table.keep(table.judge.model_copy(update={"runtime_info": facts}))
            progress = table.progress()
            if progress.failed:
                line = f"{progress.failed} requests failed; repeat the command to retry them"
                finished = progress.answered + progress.failed
                if not progress.answered or is_above(progress.failed, finished, rules.max_error_rate):
                    raise RunError(f"{line} (--max-error-rate sets the share)")
                say(line)
            return table.judge

    def report(self, judge: LLMJudge, confidence_level: float, seed: int, price_file: str | None) -> JudgeReport:
        """The report of its replies so far."""
        prices = read_prices(price_file or judge.execution.prices)
        with self._folder.open_store(read_only=True) as store:
            return judge_report(
                judged_pairs(store, judge, self._versions),
                judge,
                self._versions,
                load_annotations(self._folder.path / ANNOTATIONS_NAME),
                JudgeTable(store, judge).progress(),
                run=str(self._folder.path),
                cost=judge_cost(store, judge, prices),
                sampling=InferenceSettings(confidence=confidence_level, seed=seed),
            )
