"""One question from its body to its reply: who asks, what may be asked, what goes wrong, what the model says.

    key ─► JSON ─► shape ─► model ─► parameters ─► quota ─► concurrency, requests and tokens a minute ─► fault ─► answer

What fails before the fault is the client's own doing and the same at each attempt.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from email.utils import formatdate
from typing import Any, Literal

from pydantic import JsonValue

from mbbq_gen.fake_server.answering import Answerer
from mbbq_gen.fake_server.asked import Asked, Failure, FailureError, Said
from mbbq_gen.fake_server.dialects.base import Body, Dialect
from mbbq_gen.fake_server.dialects.gemini import Gemini
from mbbq_gen.fake_server.echo import Echo
from mbbq_gen.fake_server.faults import Fate
from mbbq_gen.fake_server.http import HttpRequest, Manner, Reply, json_bytes
from mbbq_gen.fake_server.ledger import Ledger
from mbbq_gen.fake_server.limits import RateLimiter
from mbbq_gen.fake_server.questions import Questions
from mbbq_gen.fake_server.routing import RouteHandler
from mbbq_gen.fake_server.scenario import Faults, Scenario
from mbbq_gen.resources import Resources
from mbbq_gen.seeding import stable_digest

_MANNERS: dict[str, Manner] = {"cut": "cut", "lost": "lost", "slow": "slow"}
_PAGE = Reply(
    403,
    b"<!DOCTYPE html>\n<html><head><title>Access denied</title></head><body>Ask your administrator.</body></html>",
    content_type="text/html",
)
_INSTEAD = {"max_tokens": "max_completion_tokens"}


class Asking:
    """Answers questions in any dialect. `use` puts another scenario into force."""

    def __init__(
        self, scenario: Scenario, questions: Sequence[Questions], resources: Resources, clock: Callable[[], float]
    ) -> None:
        """Raises UnknownNameError where there is no such oracle."""
        self.ledger = Ledger(clock)
        self._questions = questions
        self._resources = resources
        self._clock = clock
        self._number = 0
        self._echo = Echo("no", None)
        self._limiter = RateLimiter(scenario.limits, clock())
        self.use(scenario)

    def use(self, scenario: Scenario) -> None:
        """Puts a scenario into force; counts stay, and the buckets too where the limits are the same.

        Raises:
            UnknownNameError: where there is no such oracle; the old scenario stays.
        """
        self.answerer = Answerer(scenario.answers, self._questions, self._resources)
        self.scenario = scenario
        self.fate = Fate(scenario)
        if scenario.limits != self._limiter.limits:
            self._limiter = RateLimiter(scenario.limits, self._clock())

    # --- one question over HTTP -----------------------------------------------------------------------------------

    def ask(self, dialect: Dialect, request: HttpRequest, path_model: str | None = None) -> Reply:
        """The reply to a question."""
        try:
            self.check_key(dialect, request)
            asked = dialect.parse(parse_json(request.body), path_model)
        except FailureError as error:
            return self.failed(dialect, error.failure)
        self.ledger.arrive(asked.digest)
        if (moved := self.scenario.access.moved_to) is not None:
            return Reply(307, b"", headers={"location": moved}, on_end=self._leaving(is_answer=False)(307))
        try:
            self.check_asked(asked)
            self._check_pace(asked)
            return self._meet(dialect, asked)
        except FailureError as error:
            failure = error.failure
            if failure.retry_after_s is not None:
                self.ledger.ask_to_wait(asked.digest, failure.retry_after_s)
            return self.failed(dialect, failure, self._leaving(is_answer=False))

    def _meet(self, dialect: Dialect, asked: Asked) -> Reply:
        """The answer, or the fault that this attempt meets."""
        attempt = self.ledger.attempt(asked.digest)
        fault = self.fate.fault(asked.digest, attempt)
        if fault is not None:
            self.ledger.by_fault[fault] += 1
        if fault in ("rate_limited", "server_error"):
            raise FailureError(self._fault_failure(fault, asked.digest, attempt))
        if fault in ("hang", "drop"):
            manner: Manner = "hang" if fault == "hang" else "drop"
            return Reply(0, b"", manner=manner, on_end=self._leaving(is_answer=False)(0))
        if fault == "page":
            return replace(_PAGE, on_end=self._leaving(is_answer=False)(403))
        status, answer = self.answered(dialect, asked)
        body = self._echo.written(json_bytes(answer))
        return Reply(
            status,
            _mangled(body) if fault == "malformed" else body,
            headers=self._headers(dialect),
            delay_s=self.fate.delay_s(asked.digest, attempt),
            manner=_MANNERS.get(fault or "", "whole"),
            slow_s=self.scenario.faults.slow_s,
            on_end=self._leaving(is_answer=fault != "malformed")(status),
        )

    def answered(self, dialect: Dialect, asked: Asked) -> tuple[int, Body]:
        """Status and body of the model's answer; it is paid from here on.

        Raises:
            FailureError: where the content filter stops the question.
        """
        verdict = self.fate.verdict(asked.digest)
        if verdict is not None:
            self.ledger.by_verdict[verdict] += 1
        blocked = verdict == "filtered_prompt"
        if blocked and not isinstance(dialect, Gemini):
            raise FailureError(Failure("filtered_prompt", "the content filtering policy blocked the prompt"))
        said, recognised = self.answerer.say(asked, verdict)
        self.ledger.unrecognised += not recognised
        self.ledger.pay(asked.digest)
        self._count_tokens(said)
        body = dialect.blocked(asked, said) if blocked and isinstance(dialect, Gemini) else dialect.answer(asked, said)
        return 200, self._echo.into(with_usage(body, self.scenario.answers.usage))

    def _count_tokens(self, said: Said) -> None:
        self.ledger.input_tokens += said.input_tokens
        self.ledger.output_tokens += said.output_tokens

    # --- what the client did wrong --------------------------------------------------------------------------------

    def check_key(self, dialect: Dialect, request: HttpRequest) -> None:
        """Raises FailureError where the key is wrong."""
        wanted, key = self.scenario.access.key, dialect.key_of(request)
        self._echo = Echo(self.scenario.access.echo_key, key)
        if wanted is not None and key != wanted:
            raise FailureError(Failure("wrong_key", "incorrect API key provided"))

    def check_asked(self, asked: Asked) -> None:
        """Raises FailureError for an unknown model, a refused parameter, a stream, or an exhausted quota."""
        access = self.scenario.access
        if access.models and asked.model not in access.models:
            message = f"the model {asked.model!r} does not exist or you do not have access to it"
            raise FailureError(Failure("unknown_model", message, "model"))
        if asked.body.get("stream"):
            raise FailureError(Failure("invalid", "the fake server does not stream; leave out stream", "stream"))
        for name in access.refused_parameters:
            if asked.body.get(name) is not None:
                message = f"unsupported parameter: '{name}' is not supported with this model."
                raise FailureError(Failure("refused_parameter", message, name, _INSTEAD.get(name)))
        if access.quota is not None and self.ledger.paid >= access.quota:
            message = "you exceeded your current quota; your credit balance is too low"
            raise FailureError(Failure("quota", message))

    def _check_pace(self, asked: Asked) -> None:
        limits = self.scenario.limits
        if limits.concurrency is not None and self.ledger.in_flight > limits.concurrency:
            self.ledger.by_fault["pace"] += 1
            raise FailureError(Failure("rate_limited", "too many requests at the same time"))
        if limits.rpm is None and limits.tpm is None:
            return
        wait = self._limiter.take(asked.input_tokens + (asked.max_tokens or 0), self._clock())
        if wait > 0:
            self.ledger.by_fault["pace"] += 1
            raise FailureError(self._wait(f"rate limit reached; try again in {wait:.3f}s", wait))

    def _wait(self, message: str, seconds: float) -> Failure:
        """A rate limit, which tells when to come back unless the scenario keeps it to itself."""
        is_told = self.scenario.faults.retry_after_form != "untold"
        return Failure("rate_limited", message, retry_after_s=seconds if is_told else None)

    def _fault_failure(self, fault: str, digest: str, attempt: int) -> Failure:
        if fault == "rate_limited":
            return self._wait(_LIMIT_WORDS[self.scenario.faults.limit_words], self.scenario.faults.retry_after_s)
        status = self.fate.status(digest, attempt)
        return Failure("server_error", "the server had an error while processing the request", status=status)

    # --- files and batches ----------------------------------------------------------------------------------------

    def guarded(self, dialect: Dialect, handler: RouteHandler) -> RouteHandler:
        """A handler of files or batches with the key checked, failures told, and faults if the scenario wants them."""

        def handle(request: HttpRequest, parts: dict[str, str]) -> Reply:
            try:
                self.check_key(dialect, request)
                fault = self._route_fault(request)
                most = self.scenario.batches.max_upload
                if most is not None and len(request.body) > most:
                    fault = "drop"
                if fault == "page":
                    return _PAGE
                if fault in ("hang", "drop"):
                    return Reply(0, b"", manner="hang" if fault == "hang" else "drop")
                reply = handler(request, parts)
            except FailureError as error:
                return self.failed(dialect, error.failure)
            body = _mangled(reply.body) if fault == "malformed" else reply.body
            return replace(
                reply,
                body=body,
                headers={**reply.headers, **self._headers(dialect)},
                manner=_MANNERS.get(fault or "", "whole"),
                slow_s=self.scenario.faults.slow_s,
            )

        return handle

    def _route_fault(self, request: HttpRequest) -> str | None:
        """The fault that a request about files or batches meets.

        Raises:
            FailureError: where the fault is a failure.
        """
        if self.scenario.faults.routes != "all":
            return None
        digest = stable_digest(request.method, request.path, len(request.body))
        attempt = self.ledger.attempt(digest)
        fault = self.fate.fault(digest, attempt)
        if fault is not None:
            self.ledger.by_fault[fault] += 1
        if fault in ("rate_limited", "server_error"):
            raise FailureError(self._fault_failure(fault, digest, attempt))
        return fault

    # --- replies --------------------------------------------------------------------------------------------------

    def failed(
        self, dialect: Dialect, failure: Failure, leaving: Callable[[int], Callable[[bool], None]] | None = None
    ) -> Reply:
        """The reply that tells a failure."""
        headers = self._headers(dialect)
        status, body = dialect.failure(failure, headers[dialect.request_id_header])
        if failure.retry_after_s is not None:
            headers |= retry_header(failure.retry_after_s, self.scenario.faults)
        body = self._echo.into(body)
        return Reply(
            status, self._echo.written(json_bytes(body)), headers=headers, on_end=leaving(status) if leaving else None
        )

    def _leaving(self, *, is_answer: bool) -> Callable[[int], Callable[[bool], None]]:
        """What tells the ledger that a question is over, once its status is known."""
        ledger = self.ledger

        def with_status(status: int) -> Callable[[bool], None]:
            return lambda reached: ledger.leave(status, reached=reached, is_answer=is_answer)

        return with_status

    def _headers(self, dialect: Dialect) -> dict[str, str]:
        self._number += 1
        headers = {dialect.request_id_header: f"req_{self._number:08x}{self._echo.text}"}
        levels = self._limiter.levels()
        return headers if levels is None else headers | dialect.limit_headers(levels)


_LIMIT_WORDS = {
    "plain": "rate limit reached; slow down",
    "billing": "You exceeded your current quota, please check your plan and billing details.",
}


def with_usage(body: Body, told: Literal["told", "missing", "negative", "words"]) -> Body:
    """An answer with its token counts told in some way."""
    if told == "told":
        return body
    name = "usageMetadata" if "usageMetadata" in body else "usage"
    counts = body[name]
    rest = {key: value for key, value in body.items() if key != name}
    if told == "missing" or not isinstance(counts, dict):
        return rest
    odd: JsonValue = -5 if told == "negative" else "many"
    return rest | {name: {key: odd if isinstance(value, int) else value for key, value in counts.items()}}


def retry_header(seconds: float, faults: Faults) -> dict[str, str]:
    """The header that tells when to come back, in the form that the scenario asks for."""
    if faults.retry_after_form == "milliseconds":
        return {"retry-after-ms": str(round(seconds * 1000))}
    if faults.retry_after_form == "date":
        return {"retry-after": formatdate(math.ceil(time.time() + seconds), usegmt=True)}
    return {"retry-after": f"{seconds:g}" if seconds < 1 or seconds % 1 else str(int(seconds))}


def parse_json(body: bytes) -> Mapping[str, JsonValue]:
    """The object that a body holds.

    Raises:
        FailureError: where it holds none.
    """
    try:
        value: Any = json.loads(body)
    except ValueError:
        raise FailureError(Failure("invalid", "could not parse the body as JSON")) from None
    if not isinstance(value, dict):
        raise FailureError(Failure("invalid", "the body must be a JSON object"))
    return value


def _mangled(body: bytes) -> bytes:
    """A body that is no JSON any more: its second half is missing."""
    return body[: len(body) // 2]
