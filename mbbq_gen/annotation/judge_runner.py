"""`mbbq-gen judge`: a chat model extracts the choices of a run's answers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final

from mbbq_gen.annotation.judge import UNPARSED, sheet_of
from mbbq_gen.annotation.judge_table import JudgeRequest, JudgeTable, LLMJudge, judges_of
from mbbq_gen.core.records import Instance, Prompt, Request, Response
from mbbq_gen.providers.prices import Price, TokenCounter
from mbbq_gen.providers.registry import parse_name
from mbbq_gen.runs.budget import judge_cost_report
from mbbq_gen.runs.cost_estimate import JudgeEstimate
from mbbq_gen.runs.estimate import TokenEstimate, cost_estimate, duration, estimate
from mbbq_gen.runs.status import JudgeStatus
from mbbq_gen.storage.store import CompletedPrompt, RunStore

REPLY_TOKENS: Final = 20
"""What a reply takes without reasoning: a JSON object of two words."""
_VARIANT: Final = "judge"


def estimate_judge(
    requests: Iterable[JudgeRequest],
    judge: LLMJudge,
    counter: TokenCounter,
    price: Price | None,
    *,
    base_url: str | None,
    limits: tuple[float | None, float | None],
    longest: int | None,
    known: Collection[str] = (),
    measured: float | None = None,
    unwritten: int = 0,
) -> JudgeEstimate:
    """The estimate for answers that are to be judged.

    Args:
        requests: The requests.
        judge: The judge.
        counter: Counts the tokens of a text.
        price: Of the model, or None.
        base_url: The server.
        limits: Requests and tokens a minute.
        longest: The most tokens of a reply, or None.
        known: Keys of the requests that have a reply.
        measured: Tokens of a reply, as those that are there took; None: assumed.
        unwritten: Tokens of the answers, where they are not there yet and so not in what would be asked.
    """
    answered = 0

    def unanswered() -> Iterator[Prompt]:
        nonlocal answered
        for ask in requests:
            if ask.request.request_key in known:
                answered += 1
            else:
                changes = {"messages": ask.request.messages, "variant": _VARIANT}
                yield ask.prompt.model_copy(update=changes)

    reply = REPLY_TOKENS if measured is None else measured
    tokens = estimate(unanswered(), counter, {_VARIANT: "letters"}, {_VARIANT: reply}, longest=longest)
    tokens = tokens.model_copy(
        update={
            "input_tokens": tokens.input_tokens + unwritten,
            "outputs": "assumed" if measured is None else "measured",
        }
    )
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
        duration=duration(tokens.requests, tokens.input_tokens + tokens.output_tokens, *limits),
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


def pending_judge_requests(
    prompts: Iterable[Prompt], instance_of: Callable[[str], Instance], judge: LLMJudge
) -> Iterator[JudgeRequest]:
    """The judge requests for answers that do not exist yet, as if no two of them were equal.

    Args:
        prompts: The prompts of a run.
        instance_of: Returns the instance of a key.
        judge: The judge.
    """
    for number, prompt in enumerate(prompts):
        identifier = prompt.prompt_id
        answered = CompletedPrompt(
            prompt, instance_of(prompt.instance_key), Response(request_key=identifier, text=identifier)
        )
        sheet = sheet_of(answered, judge.prompt, judge.seed)
        request = Request(request_key=identifier, messages=sheet.messages, prompt=prompt, instance=answered.instance)
        yield JudgeRequest(number, prompt, answered.instance, sheet.option_order, request)


def measured_replies(store: RunStore, judge: str) -> float | None:
    """Mean tokens of a judge's reply, reasoning included; None where unknown."""
    if not store.has_table("judge_replies"):
        return None
    (mean,) = store.query(
        "SELECT avg(json_extract(record, '$.usage.output_tokens')) FROM judge_replies WHERE judge = ? AND is_error = 0",
        (judge,),
    ).fetchone()
    return None if mean is None else float(mean)


def judge_lines(store: RunStore, own: tuple[Price, ...]) -> list[JudgeStatus]:
    """The judges of a run."""
    lines = []
    for judge in judges_of(store).values():
        progress = JudgeTable(store, judge).progress()
        (count,) = store.query(
            "SELECT count(*) FROM extractions WHERE extractor = ? AND json_extract(record, '$.rule') LIKE ?",
            (judge.extractor, f"{UNPARSED}%"),
        ).fetchone()
        lines.append(
            JudgeStatus(
                name=judge.name,
                model=judge.model,
                requests=progress.requests,
                answered=progress.answered,
                failed=progress.failed,
                unparsed=int(count),
                cost=judge_cost(store, judge, own),
            )
        )
    return lines


def judge_cost(store: RunStore, judge: LLMJudge, own: tuple[Price, ...]) -> float | None:
    """What a judge has cost so far, in US dollars; None where no price is known."""
    if not store.has_table("judge_replies"):
        return None
    kind, model = parse_name(judge.model)
    address = judge.runtime_info.get("base_url")
    server = address if isinstance(address, str) else None
    return judge_cost_report(store, judge.name, own, kind=kind, model=model, base_url=server).total
