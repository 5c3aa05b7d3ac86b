"""`mbbq-gen judge`: a chat model extracts the choices of a run's answers; its estimate, its requests and its report."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Literal, get_args

from pydantic import JsonValue

from mbbq_gen.annotation.judge import (
    UNPARSED,
    JudgePrompt,
    JudgeRequest,
    JudgeTable,
    LLMJudge,
    judge_request,
    judges_of,
    shipped_prompt,
)
from mbbq_gen.annotation.judge_report import JudgeReport, judge_report, judged_pairs
from mbbq_gen.annotation.review import (
    ANNOTATIONS_NAME,
    SamplingDesign,
    can_be_annotated,
    draw_sample,
    load_annotations,
)
from mbbq_gen.core.config import PROVIDER_SETTINGS, RunConfig
from mbbq_gen.core.errors import RunError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.progress import Bar, ProgressListener
from mbbq_gen.core.records import FrozenModel, Message, Prompt
from mbbq_gen.core.text import one_of
from mbbq_gen.providers.api.options import structured_fields, with_structure
from mbbq_gen.providers.base import Provider
from mbbq_gen.providers.prices import Price, price_of, read_prices, token_counter
from mbbq_gen.providers.registry import open_provider, parse_name
from mbbq_gen.runs.cost_estimate import JudgeEstimate
from mbbq_gen.runs.cost_report import cost_report
from mbbq_gen.runs.executor import cost_guard_with, execute_planned, is_above
from mbbq_gen.runs.extraction import UNPARSED as UNPARSED_OUTCOMES
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.runs.status import JudgeStatus
from mbbq_gen.runs.token_estimate import TokenEstimate, cost_estimate, duration, estimate
from mbbq_gen.statistics.estimate import InferenceSettings
from mbbq_gen.storage.ledgers import ChosenBy, completed_by_number
from mbbq_gen.storage.queries import ExtractionRow, iter_extractions, prompts_with_conflicts
from mbbq_gen.storage.store import RunStore

SelectionReason = Literal["unparsed", "low", "conflict"]
"""No option was read; read with low confidence; something in the answer spoke for another reading."""
SELECTION_REASONS: tuple[SelectionReason, ...] = get_args(SelectionReason)


class JudgeSelection(FrozenModel):
    """Which answers of a run a judge is to read; without `only` and `sample`, all of them."""

    only: tuple[SelectionReason, ...] = ()
    """Those that the rules read in one of these ways."""
    sample: int | None = None
    """So many, drawn by chance within each language."""
    seed: int = 0
    """Of the sample."""

    @property
    def chosen_by(self) -> ChosenBy:
        """What the choice is called beside each answer."""
        return "only" if self.only else "all" if self.sample is None else "sample"


def is_settled(extraction: ExtractionRow) -> bool:
    """Whether an answer has no text to read, or the service itself says what it is: failed, filtered, refused."""
    return not can_be_annotated(extraction) or extraction.rule.startswith("response.")


def selected_extractions(store: RunStore, versions: Mapping[str, str], choice: JudgeSelection) -> list[ExtractionRow]:
    """The rules' readings of the answers that a choice means, by language in plan order, or as they were drawn.

    Answers that the judge has nothing to read in (`is_settled`) are left out.
    """
    found = (extraction for extraction in iter_extractions(store, versions) if not is_settled(extraction))
    if choice.sample is not None:
        return list(draw_sample(found, SamplingDesign(sample=choice.sample, by=("language",), seed=choice.seed)).drawn)
    if not choice.only:
        return list(found)
    conflicting = prompts_with_conflicts(store, versions.values()) if "conflict" in choice.only else set()
    return [
        extraction
        for extraction in found
        if ("unparsed" in choice.only and extraction.outcome in UNPARSED_OUTCOMES)
        or ("low" in choice.only and extraction.confidence == "low")
        or extraction.prompt_id in conflicting
    ]


def judge_requests(
    store: RunStore,
    judge: LLMJudge,
    chosen: Iterable[ExtractionRow],
    request_key: Callable[[Sequence[Message], str], str],
    step: Callable[[], None] = lambda: None,
) -> Iterator[JudgeRequest]:
    """The requests about responses, in plan order; `request_key` is the provider's."""
    for number, answered in completed_by_number(store, {extraction.prompt_id for extraction in chosen}):
        order, request = judge_request(answered, judge, answered.prompt.prompt_id)
        key = request_key(request.messages, answered.prompt.prompt_id)
        step()
        yield JudgeRequest(number, order, request.model_copy(update={"request_key": key}))


_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""What a judge may be called: it is part of an extractor's name and of a file's."""


def new_judge(
    model: str, options: Mapping[str, JsonValue], resources: PackPaths, *, name: str | None = None, seed: int = 0
) -> LLMJudge:
    """A judge that has read nothing yet, by the prompt that ships.

    Raises:
        UsageError: where the model, an option or the name can't be.
    """
    title, prompt = name or name_of(model), shipped_prompt()
    if _NAME.fullmatch(title) is None:
        raise UsageError(f"--name {title!r}: use letters, digits, dots, hyphens and underscores only")
    provider = judge_provider(model, options, prompt, resources)
    return LLMJudge(
        name=title,
        model=model,
        model_args=dict(options),
        provider_settings=dict(provider.settings),
        prompt=prompt,
        seed=seed,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def name_of(model: str) -> str:
    """What a judge is called after its model: the last part of a path or hub id, as far as a name can hold it."""
    _, name = parse_name(model)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name.rpartition("/")[2]).strip("-._")


def judge_provider(model: str, options: Mapping[str, JsonValue], prompt: JudgePrompt, resources: PackPaths) -> Provider:
    """The model of a judge, with the reply's JSON schema where its service supports one.

    A model that refuses the schema gets requests without it: the prompt describes the reply.

    Raises:
        UsageError: where the model can't be had as it was named.
    """
    kind, _ = parse_name(model)
    provider = open_provider(model, with_structure(kind, options, prompt.reply_schema()), resources)
    if provider.capabilities.structured_output:
        provider.make_optional(structured_fields(kind, prompt.reply_schema(), api=options.get("api")))
    return provider


REPLY_TOKENS: Final = 20
"""What a reply takes without reasoning: a JSON object of two words."""
_VARIANT: Final = "judge"


def estimate_judge(
    requests: Iterable[JudgeRequest],
    judge: LLMJudge,
    provider: Provider,
    prices: tuple[Price, ...],
    *,
    known: Collection[str] = (),
    measured: float | None = None,
) -> JudgeEstimate:
    """The estimate for answers that are to be judged.

    Args:
        requests: About the answers.
        judge: The judge.
        provider: Its model.
        prices: Of the user's file.
        known: Keys of the requests that have a reply.
        measured: Tokens of a reply, as those that are there took; None: assumed.
    """
    answered, base_url = 0, provider.capabilities.base_url
    price = price_of(provider.kind, provider.model, prices, base_url=base_url)
    counter, longest = token_counter(provider.kind, provider.model), provider.settings.get("max_tokens")
    limits = [judge.model_args.get(name) for name in ("rpm", "tpm")]
    rpm, tpm = (float(limit) if isinstance(limit, int | float | str) else None for limit in limits)

    def unanswered() -> Iterator[Prompt]:
        nonlocal answered
        for ask in requests:
            if ask.request.request_key in known:
                answered += 1
            else:
                changes = {"messages": ask.request.messages, "variant": _VARIANT}
                yield ask.request.prompt.model_copy(update=changes)

    reply = REPLY_TOKENS if measured is None else measured
    most = longest if isinstance(longest, int) else None
    tokens = estimate(unanswered(), counter, {_VARIANT: "letters"}, {_VARIANT: reply}, longest=most)
    tokens = tokens.model_copy(update={"outputs": "assumed" if measured is None else "measured"})
    cost = None
    if price is not None:
        one_by_one = price.at(tokens.longest_input).model_copy(update={"batch_input": None, "batch_output": None})
        cost = cost_estimate(one_by_one, tokens.input_tokens, tokens.output_tokens, tokens.most_output_tokens)
    return JudgeEstimate(
        judge=judge.name,
        model=judge.model,
        base_url=base_url,
        prompt_version=judge.prompt.version,
        prompt_sha256=judge.prompt.digest,
        answered=answered,
        tokens=tokens,
        price=price,
        cost=cost,
        duration=duration(tokens.requests, tokens.input_tokens + tokens.output_tokens, rpm, tpm),
        notes=tuple(_notes(judge, tokens, price, base_url)),
    )


def _notes(judge: LLMJudge, tokens: TokenEstimate, price: Price | None, base_url: str | None) -> Iterator[str]:
    if price is None:
        where = f" at {base_url}" if base_url else ""
        yield f"no price is known for {judge.model}{where}: nothing is guessed; give it with --prices"
    else:
        yield f"price of {price.version}" + (f": {price.note}" if price.note else "")
    if tokens.outputs == "assumed":
        yield "replies: lengths are assumed, and reasoning comes on top; run a few first (--sample-size 20)"


def judge_lines(store: RunStore, own: tuple[Price, ...]) -> list[JudgeStatus]:
    """The judges of a run, as `status` shows them."""
    lines = []
    for judge in judges_of(store).values():
        table = JudgeTable(store, judge)
        progress = table.progress()
        lines.append(
            JudgeStatus(
                name=judge.name,
                model=judge.model,
                requests=progress.requests,
                answered=progress.answered,
                failed=progress.failed,
                unparsed=table.count_rules(UNPARSED),
                cost=judge_cost(store, judge, own),
            )
        )
    return lines


def judge_cost(store: RunStore, judge: LLMJudge, own: tuple[Price, ...]) -> float | None:
    """What a judge has cost so far, in US dollars; None where no price is known."""
    kind, model = parse_name(judge.model)
    address = judge.runtime_info.get("base_url")
    server = address if isinstance(address, str) else None
    return cost_report(store, kind, model, own, server, judge=judge.name).total


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
        with self._folder.open_store(read_only=True) as store, Bar("counting", None, "answers") as bar:
            table = JudgeTable(store, judge)
            chosen = selected_extractions(store, self._versions, choice)
            requests = judge_requests(store, judge, chosen, provider.request_key, bar.advance)
            return estimate_judge(
                *(requests, judge, provider, prices),
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
                    table.take_over(found for found in iter_extractions(store, self._versions) if is_settled(found))
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
