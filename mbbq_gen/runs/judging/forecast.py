"""What asking a judge would take and cost, before it is asked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Final, Literal

from mbbq_gen.providers.prices import Price
from mbbq_gen.providers.tokens import TokenCounter
from mbbq_gen.records import Instance, Presentation, Record, Request, Response
from mbbq_gen.runs.estimate import Cost, Duration, TokenEstimate, cost_estimate, duration, estimate
from mbbq_gen.runs.judging.ledger import Ask, Judge
from mbbq_gen.runs.judging.prompt import sheet_of
from mbbq_gen.runs.store import Answered, RunStore

REPLY_TOKENS: Final = 20
"""What a reply takes without reasoning: a JSON object of two words."""
_WORDING: Final = "judge"


class JudgeForecast(Record):
    """What asking a judge would take and cost; `tokens.presentations` are the answers to be read."""

    schema_version: Literal["mbbq-gen.judge-plan/1"] = "mbbq-gen.judge-plan/1"
    judge: str
    model: str
    base_url: str | None
    """The server that would be asked; None where there is none."""
    prompt_version: int
    prompt_sha256: str
    answered: int
    """Answers of the choice whose reply is there already: they cost nothing, and are not among the tokens."""
    tokens: TokenEstimate
    price: Price | None
    """None where no table tells it."""
    cost: Cost | None
    duration: Duration | None
    """None where no limit was given."""
    notes: tuple[str, ...]


def judge_forecast(
    asks: Iterable[Ask],
    judge: Judge,
    counter: TokenCounter,
    price: Price | None,
    *,
    base_url: str | None,
    limits: tuple[float | None, float | None],
    longest: int | None,
    known: Collection[str] = (),
    measured: float | None = None,
    unwritten: int = 0,
) -> JudgeForecast:
    """The forecast for answers that a judge is to read.

    Args:
        asks: What would be asked.
        judge: Who.
        counter: Counts the tokens of a text.
        price: Of the model, or None.
        base_url: The server that would be asked.
        limits: Requests and tokens a minute.
        longest: The most tokens of a reply, or None.
        known: Keys of the requests that have a reply.
        measured: Tokens of a reply, as those that are there took; None: assumed.
        unwritten: Tokens of the answers, where they are not there yet and so not in what would be asked.
    """
    answered = 0

    def unanswered() -> Iterator[Presentation]:
        nonlocal answered
        for ask in asks:
            if ask.request.request_key in known:
                answered += 1
            else:
                changes = {"messages": ask.request.messages, "variant": _WORDING}
                yield ask.presentation.model_copy(update=changes)

    reply = REPLY_TOKENS if measured is None else measured
    tokens = estimate(unanswered(), counter, {_WORDING: "letters"}, {_WORDING: reply}, longest=longest)
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
    return JudgeForecast(
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


def _notes(judge: Judge, tokens: TokenEstimate, price: Price | None, base_url: str | None) -> Iterator[str]:
    if price is None:
        where = f" at {base_url}" if base_url else ""
        yield f"no price is known for {judge.model}{where}: nothing is guessed; give it with --price-file"
    else:
        yield f"price of {price.version}" + (f": {price.note}" if price.note else "")
    if tokens.outputs == "assumed":
        yield "replies: lengths are assumed, and reasoning comes on top; judge a few first (--sample 20)"


def unanswered_asks(
    presentations: Iterable[Presentation], instance_of: Callable[[str], Instance], judge: Judge
) -> Iterator[Ask]:
    """What a judge would be asked about answers that are not there yet, as if no two of them were equal.

    Args:
        presentations: What a run would send.
        instance_of: Gives the question of a key.
        judge: Who would be asked.
    """
    for number, presentation in enumerate(presentations):
        identifier = presentation.presentation_id
        answered = Answered(
            presentation, instance_of(presentation.instance_key), Response(request_key=identifier, text=identifier)
        )
        sheet = sheet_of(answered, judge.prompt, judge.seed)
        request = Request(
            request_key=identifier, messages=sheet.messages, presentation=presentation, instance=answered.instance
        )
        yield Ask(number, presentation, answered.instance, sheet.order, request)


def measured_replies(store: RunStore, judge: str) -> float | None:
    """Tokens of a judge's reply on average, reasoning included; None where none tells."""
    if not store.has_table("judge_replies"):
        return None
    (mean,) = store.query(
        "SELECT avg(json_extract(record, '$.usage.output_tokens')) FROM judge_replies WHERE judge = ? AND is_error = 0",
        (judge,),
    ).fetchone()
    return None if mean is None else float(mean)
