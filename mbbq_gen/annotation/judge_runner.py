"""Runs an LLM judge (`mbbq-gen judge`): cost estimate, requests and report."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import filterfalse
from statistics import fmean
from typing import Any, Final, Literal

from pydantic import JsonValue

from mbbq_gen.annotation.judge import JudgePrompt, JudgeTable, LLMJudge, judge_input, judges_of, shipped_prompt
from mbbq_gen.annotation.judge_report import JudgeReport, judge_report
from mbbq_gen.annotation.review import ANNOTATIONS_NAME, SamplingDesign, can_be_annotated, draw_sample, load_annotations
from mbbq_gen.core.config import PROVIDER_SETTINGS, RunConfig
from mbbq_gen.core.errors import RunError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.progress import Bar, ProgressListener
from mbbq_gen.core.records import FrozenModel, Prompt
from mbbq_gen.core.text import one_of
from mbbq_gen.providers.api.options import structured_fields, with_structure
from mbbq_gen.providers.base import Provider
from mbbq_gen.providers.prices import Price, price_of, read_prices
from mbbq_gen.providers.registry import open_provider, parse_name
from mbbq_gen.runs.budget import cost_report
from mbbq_gen.runs.estimate import Cost, TokenEstimate, cost_estimate, estimate, hours_at, price_note
from mbbq_gen.runs.executor import cost_guard_with, execute_planned
from mbbq_gen.runs.extraction import UNPARSED_OUTCOMES
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.statistics.estimate import InferenceSettings
from mbbq_gen.storage.ledgers import ChosenBy, judged_answers
from mbbq_gen.storage.queries import ExtractionRow, iter_extractions, read_completed
from mbbq_gen.storage.schema import marks
from mbbq_gen.storage.store import COMPLETED, RunStore


class JudgeSelection(FrozenModel):
    """The responses of a run that a judge extracts; all without `only` and `sample`."""

    only: tuple[Literal["unparsed", "low", "conflict"], ...] = ()
    """Not parsed; parsed with low confidence; with evidence for another option."""
    sample: int | None = None
    """Size of a random sample, stratified by language."""
    seed: int = 0

    @property
    def chosen_by(self) -> ChosenBy:
        """The name of the selection, as stored with each judgement."""
        return "only" if self.only else "all" if self.sample is None else "sample"


class JudgeEstimate(FrozenModel):
    """The size and cost of a judge's requests; `tokens.prompts` is the number of responses to extract."""

    schema_version: Literal["mbbq-gen.judge-plan/1"] = "mbbq-gen.judge-plan/1"
    judge: str
    model: str
    base_url: str | None
    prompt_version: int
    prompt_sha256: str
    answered: int
    """Selected responses that have a reply already; they cost nothing and are not in `tokens`."""
    tokens: TokenEstimate
    price: Price | None
    cost: Cost | None
    hours: float | None
    notes: tuple[str, ...]


def is_settled(extraction: ExtractionRow) -> bool:
    """Whether a response needs no judge: no text, or failed, filtered or refused."""
    return not can_be_annotated(extraction) or extraction.rule.startswith("response.")


_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""A valid name of a judge; it becomes part of extractor and file names."""
_REPLY_TOKENS: Final = 20
"""Assumed tokens of a reply without reasoning: a small JSON object."""
_VARIANT: Final = "judge"


def judge_cost(store: RunStore, judge: LLMJudge, user_prices: tuple[Price, ...]) -> float | None:
    """The cost of a judge so far, in US dollars; None if no price is known."""
    kind, model = parse_name(judge.model)
    address = judge.runtime_info.get("base_url")
    base_url = address if isinstance(address, str) else None
    return cost_report(store, kind, model, user_prices, base_url, judge=judge.name).total


class JudgeRunner:
    """Estimates, executes and reports the judges of one run."""

    def __init__(
        self, folder: RunFolder, where: PackPaths, versions: Mapping[str, str], watcher: ProgressListener
    ) -> None:
        """`versions`: language to judge → the extractor version of the rules."""
        self._folder, self._where, self._versions, self._watcher = folder, where, versions, watcher
        with folder.open_store(read_only=True) as store:
            self.judges = judges_of(store)

    def resolve_judge(self, model: str | None, name: str | None, given: Mapping[str, Any], seed: int) -> LLMJudge:
        """A new judge, or one of the run; UsageError if settings that affect its replies have changed."""
        options = dict(given)
        if model is None:
            if name is None and len(self.judges) != 1:
                known = f"; this run has {', '.join(self.judges)}: name one with --name" if self.judges else ""
                raise UsageError(f"name the judge: --model kind:model (see `mbbq-gen models`){known}")
            name = one_of("judge", name or next(iter(self.judges)), self.judges)
            model, options = self.judges[name].model, {**self.judges[name].model_args, **options}
        if name is None:  # the last part of a path or hub id, without characters that a name must not contain
            name = re.sub(r"[^A-Za-z0-9._-]+", "-", parse_name(model)[1].rpartition("/")[2]).strip("-._")
        if _NAME.fullmatch(name) is None:
            raise UsageError(f"--name {name!r}: use letters, digits, dots, hyphens and underscores only")
        before = self.judges.get(name)
        prompt = shipped_prompt() if before is None else before.prompt
        settings = dict(self._open_provider(model, options, prompt).settings)
        if before is None:
            return LLMJudge(
                name=name,
                model=model,
                model_args=options,
                provider_settings=settings,
                prompt=prompt,
                seed=seed,
                created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            )
        old = before.provider_settings
        changed = sorted(key for key in {*old, *settings} if old.get(key) != settings.get(key))
        if model != before.model or changed:
            what = f"uses {before.model}" if model != before.model else f"was run with other {', '.join(changed)}"
            raise UsageError(
                f"{self._folder.path}: the judge {name!r} of this run {what}; give this one another --name, or resume"
                f" with: mbbq-gen judge {self._folder.path} --name {name}"
            )
        return before.model_copy(update={"model_args": options})

    def _open_provider(self, model: str, options: Mapping[str, JsonValue], prompt: JudgePrompt) -> Provider:
        """The provider of a judge. If the model rejects the JSON schema of replies, it is left out."""
        kind, _ = parse_name(model)
        provider = open_provider(model, with_structure(kind, options, prompt.reply_schema()), self._where)
        if provider.capabilities.structured_output:
            provider.make_optional(structured_fields(kind, prompt.reply_schema(), api=options.get("api")))
        return provider

    def estimate(self, judge: LLMJudge, selection: JudgeSelection, price_file: str | None) -> JudgeEstimate:
        """The tokens, cost and duration of a judge for a selection."""
        prices = read_prices(price_file or judge.execution.prices)
        provider = self._open_provider(judge.model, judge.model_args, judge.prompt)
        base_url, max_tokens = provider.capabilities.base_url, provider.settings.get("max_tokens")
        with self._folder.open_store(read_only=True) as store, Bar("counting", None, "answers") as bar:
            known = JudgeTable(store, judge).reply_tokens()
            counted = [tokens for tokens in known.values() if tokens is not None]
            measured = fmean(counted) if counted else None
            answers, requests = self._requests(store, judge, selection, provider, bar.advance)
            tokens = estimate(
                (prompt for (*_, key, _), prompt in requests if key not in known),
                {_VARIANT: "letters"},
                {_VARIANT: _REPLY_TOKENS if measured is None else measured},
                max_tokens=max_tokens if isinstance(max_tokens, int) else None,
            )
        tokens = tokens.model_copy(update={"outputs": "assumed" if measured is None else "measured"})
        price, cost = price_of(provider.kind, provider.model, prices, base_url=base_url), None
        notes = [price_note(judge.model, price, base_url)]
        if price is not None:
            one_by_one = price.model_copy(update={"batch_input": None, "batch_output": None})
            cost = cost_estimate(one_by_one, tokens.input_tokens, tokens.output_tokens, tokens.most_output_tokens)
        if measured is None:
            notes.append("replies: lengths are assumed, and reasoning comes on top; run a few first (--sample-size 20)")
        limits = [judge.model_args.get(name) for name in ("rpm", "tpm")]
        rpm, tpm = (float(limit) if isinstance(limit, int | float | str) else None for limit in limits)
        return JudgeEstimate(
            judge=judge.name,
            model=judge.model,
            base_url=base_url,
            prompt_version=judge.prompt.version,
            prompt_sha256=judge.prompt.digest,
            answered=answers - tokens.prompts,
            tokens=tokens,
            price=price,
            cost=cost,
            hours=hours_at(tokens.requests, tokens.input_tokens + tokens.output_tokens, rpm, tpm),
            notes=tuple(notes),
        )

    def execute(self, judge: LLMJudge, selection: JudgeSelection | None, config: RunConfig) -> LLMJudge:
        """Plans a selection (None: resumes), sends pending requests and extracts the replies. Raises RunError."""
        kept = config.model_fields_set - {"model_args"} - PROVIDER_SETTINGS
        execution = judge.execution.model_copy(update={name: getattr(config, name) for name in kept})
        prices = read_prices(execution.prices)  # report a wrong price file before anything is done
        provider, say = self._open_provider(judge.model, judge.model_args, judge.prompt), self._watcher.say
        provider.check_access()
        with self._folder.locked(), self._folder.open_store() as store:
            table = JudgeTable(store, judge)
            table.update(judge.model_copy(update={"execution": execution}))
            if selection is not None:
                self._plan(store, table, selection, provider)
            pending = table.progress().pending
            try:
                if pending:
                    guard, base_url = None, provider.capabilities.base_url
                    if execution.max_cost is not None:
                        kind, name = provider.kind, provider.model
                        spent = cost_report(store, kind, name, prices, base_url, judge=judge.name)
                        guard = cost_guard_with(table, provider, execution, execution.max_cost, spent.most)
                    asyncio.run(execute_planned(table, provider, execution, self._watcher, guard))
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
                    table.update(table.judge.model_copy(update={"runtime_info": facts}))
            progress = table.progress()
            if progress.failed:
                line = f"{progress.failed} requests failed; repeat the command to retry them"
                finished = progress.answered + progress.failed
                if not progress.answered or progress.failed > execution.max_error_rate * finished:
                    raise RunError(f"{line} (--max-error-rate sets the share)")
                say(line)
            return table.judge

    def _plan(self, store: RunStore, table: JudgeTable, selection: JudgeSelection, provider: Provider) -> None:
        """Stores the judgements of a selection; copies extractions that need no judge, such as errors."""
        with Bar("planning", None, "answers") as bar:
            answers, requests = self._requests(store, table.judge, selection, provider, bar.advance)
            new = table.add_judgements((row for row, _ in requests), selection.chosen_by)
        if selection.chosen_by == "all":
            table.copy_extractions(filter(is_settled, iter_extractions(store, self._versions)))
        self._watcher.say(
            f"{table.judge.model}: {answers:,} answers to judge, {new:,} of them new;"
            f" {table.progress().requests:,} different requests in all"
        )

    def _requests(
        self, store: RunStore, judge: LLMJudge, selection: JudgeSelection, provider: Provider, step: Callable[[], None]
    ) -> tuple[int, Iterator[tuple[tuple[int, str, str, str], Prompt]]]:
        """The number of selected responses; then for each, in plan order, its row for `JudgeTable` and its prompt."""
        found: Iterable[ExtractionRow] = filterfalse(is_settled, iter_extractions(store, self._versions))
        if selection.sample is not None:
            design = SamplingDesign(sample=selection.sample, by=("language",), seed=selection.seed)
            found = draw_sample(found, design).drawn
        elif selection.only:
            versions = list(self._versions.values()) if "conflict" in selection.only else []
            statement = "SELECT prompt_id FROM extractions WHERE conflicts <> '[]' AND extractor IN"
            conflicting = {name for (name,) in store.query(f"{statement} ({marks(len(versions))})", versions)}
            found = (
                one
                for one in found
                if ("unparsed" in selection.only and one.outcome in UNPARSED_OUTCOMES)
                or ("low" in selection.only and one.confidence == "low")
                or one.prompt_id in conflicting
            )
        chosen = {one.prompt_id for one in found}

        def requests() -> Iterator[tuple[tuple[int, str, str, str], Prompt]]:
            rows = store.query(
                f"SELECT p.prompt_id, p.number, p.record, i.record, r.record FROM {COMPLETED} ORDER BY p.number"
            )
            for number, *records in (row[1:] for row in rows if row[0] in chosen):
                answered = read_completed(store, *records)
                sheet, prompt = judge_input(answered, judge.prompt, judge.seed), answered.prompt
                step()
                key, shown = provider.request_key(sheet.messages, prompt.prompt_id), map(str, sheet.option_order)
                row = (number, prompt.prompt_id, key, ",".join(shown))
                yield row, prompt.model_copy(update={"messages": sheet.messages, "variant": _VARIANT})

        return len(chosen), requests()

    def report(self, judge: LLMJudge, confidence_level: float, seed: int, price_file: str | None) -> JudgeReport:
        """The report of a judge's replies so far."""
        prices = read_prices(price_file or judge.execution.prices)
        with self._folder.open_store(read_only=True) as store:
            return judge_report(
                judged_answers(store, judge.name, judge.extractor, self._versions),
                judge,
                self._versions,
                load_annotations(self._folder.path / ANNOTATIONS_NAME),
                JudgeTable(store, judge).progress(),
                run=str(self._folder.path),
                cost=judge_cost(store, judge, prices),
                sampling=InferenceSettings(confidence=confidence_level, seed=seed),
            )
