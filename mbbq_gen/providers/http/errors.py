"""Classifies failures of services: transient, of one request, or fatal for the run.

`errors.toml` maps status, code, headers and text of a failure to its class, and services' finish reasons to ours.
Only a TransientError is retried. The second part is about parameters of request bodies: their names at each service,
those that a model refuses, and the maximum tokens that they allow.
"""

from __future__ import annotations

import json
import math
import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from http.client import responses
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

from pydantic import JsonValue

from mbbq_gen.core.errors import ProviderError
from mbbq_gen.core.records import Response, Usage
from mbbq_gen.core.text import parse_date, parse_seconds
from mbbq_gen.providers.http.credentials import hide_lookalikes

TransientKind = Literal["rate", "server", "connect", "timeout", "broken", "malformed"]
FinishReason = Literal["stop", "length", "content_filter", "other"]
ErrorClass = Literal[
    "transient",  # another attempt may succeed
    "content_filter",  # blocked by the service's content filter
    "too_long",  # the prompt does not fit into the model's context window
    "unsupported_parameter",  # the model does not accept a parameter, a value or a role
    "other_api",  # the model supports the responses API only
    "not_the_service",  # a redirect, a proxy's web page, or an unknown path
    "key",  # a wrong key, or one without the permission
    "model",  # no such model
    "quota_exhausted",  # no credit or quota left
    "failed",  # this request can't be answered
]
TOO_LONG: Final = "too long for the context window"
"""Beginning of the recorded error of such a prompt."""
_LOST: Final = frozenset({"timeout", "broken", "malformed"})
_GATEWAY: Final = frozenset({408, 502, 504, *range(520, 528)})
"""Statuses of gateways that did not wait for the service's answer."""
_LONGEST: Final = 400
"""Maximum characters of a stored error message."""


class TransientError(Exception):
    """A failure after which another attempt may succeed."""

    def __init__(self, kind: TransientKind, why: str, pause: float | None = None, status: int | None = None) -> None:
        super().__init__(why)
        self.kind = kind
        self.pause = pause
        """Seconds to wait, as requested by the service."""
        self.status = status

    @property
    def may_be_paid(self) -> bool:
        """Whether the model may have answered, and the answer was lost."""
        return self.kind in _LOST or self.status in _GATEWAY


@dataclass(frozen=True)
class ApiError:
    """A failure that a service reported."""

    status: int
    message: str
    """On one line, shortened."""
    code: str = ""
    """Codes and types, in lower case."""
    parameter: str | None = None
    filter_results: Any = None
    pause: float | None = None
    """Seconds to wait, from headers or body."""
    is_page: bool = False
    """Whether the body is a web page, such as a proxy's."""
    redirect: str | None = None
    """Target of a redirect, without its query."""

    @property
    def text(self) -> str:
        """The message, or the meaning of the status if there is none."""
        return self.message or responses.get(self.status, "no words")


class RejectedError(ProviderError):
    """A permanent refusal of a request for files, batches or models."""

    def __init__(self, why: str, error: ApiError) -> None:
        super().__init__(why)
        self.error = error


_GOOGLE_REASON: Final = re.compile(r'"(?:reason|quotaId)": "([^"]+)"')
_PAGE: Final = re.compile(r"\s*(?:<!doctype\b|<html\b|<head\b|<body\b|<center\b|<h1\b)", re.IGNORECASE)


def is_page(text: str) -> bool:
    """Whether a body is a web page."""
    return _PAGE.match(text) is not None


def service_error(status: int, payload: Any, headers: Mapping[str, str] | None = None) -> ApiError:
    """The ApiError in an error body of OpenAI, Azure, Anthropic, Gemini, or a compatible server."""
    known = {name.lower(): value for name, value in (headers or {}).items()}
    body = payload[0] if isinstance(payload, list) and payload else payload
    outer: Mapping[str, Any] = body if isinstance(body, Mapping) else {}
    error = outer.get("error", outer.get("detail", outer)) if outer else body
    parameter = filtered = None
    if isinstance(error, Mapping):
        message = str(next(filter(None, map(error.get, ("message", "detail", "error", "msg"))), dict(error)))
        codes = [*map(error.get, ("code", "type", "status")), known.get("x-amzn-errortype", "").split(":")[0]]
        codes += _GOOGLE_REASON.findall(json.dumps(error.get("details")))
        parameter = error.get("param")
        details = error.get("innererror") or error.get("metadata")  # of Azure, or of OpenRouter
        if isinstance(details, Mapping):
            filtered = details.get("content_filter_result")
            if not filtered and details.get("reasons") and "flagged_input" in details:
                filtered = {"reasons": details["reasons"]}
            if isinstance(details.get("raw"), str):  # the message of the provider behind OpenRouter
                message = f"{message}: {details['raw']}"
    else:
        message, codes = str(error), [*map(outer.get, ("code", "type", "error_type"))]
    page = isinstance(error, str) and is_page(error)
    if page:  # its title, else its text
        title = re.search(r"<title[^>]*>(.*?)</title>", message, re.IGNORECASE | re.DOTALL)
        message = re.sub(r"<[^>]*>", " ", title[1] if title else message)
    return ApiError(
        status=status,
        message=_one_line(message),
        code=" ".join(str(code).lower() for code in codes if isinstance(code, str | int) and code),
        parameter=str(parameter) if parameter else None,
        filter_results=filtered or None,
        pause=_pause_of(status, known, payload),
        is_page=page,
        redirect=_target_of(known.get("location")) if 300 <= status < 400 else None,
    )


def _target_of(location: str | None) -> str | None:
    """The target of a redirect without query and password, which may be secrets."""
    if not location:
        return None
    before, _, rest = location.split("?")[0].split("#")[0].rpartition("@")
    return _one_line(f"{before.partition('//')[0]}//{rest}" if before else rest)


def _one_line(value: str) -> str:
    text = hide_lookalikes(" ".join(value.split()))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


_WAIT_FIELD: Final = re.compile(r'"(?:retryDelay|retry_after|retryAfter)": "?([\d.]+s?)\b')
"""A waiting time in a body, of Gemini and of routers."""


def _pause_of(status: int, headers: Mapping[str, str], payload: Any) -> float | None:
    """Seconds to wait after a failure: from Retry-After, or a field of the body."""
    if (milliseconds := parse_seconds(headers.get("retry-after-ms", ""))) is not None:
        return milliseconds / 1000
    seconds = parse_seconds(headers.get("retry-after", ""), parse_date(headers.get("date", "")))
    if seconds is None and (status == 429 or status >= 500):
        found = _WAIT_FIELD.search(json.dumps(payload))  # at any depth
        return parse_seconds(found[1]) if found else None
    return seconds


_TOO_LARGE: Final = re.compile(
    r"too.?(?:large|big|many.?(?:tasks|requests|lines|rows|items))|at most [\d,]+|"
    r"(?:tasks|requests|lines|rows|size|bytes|megabytes)\b.{0,40}\b(?:exceed|more than)|"
    r"exceed.{0,60}\b(?:tasks|requests|lines|rows|size|bytes|megabytes|MB)\b|max\w*_(?:tasks|requests|lines)_exceeded",
    re.IGNORECASE,
)
_WAITING: Final = re.compile(r"enqueued|token_limit|rate.?limit|quota", re.IGNORECASE)


def is_too_large(text: str) -> bool:
    """Whether an error text says that a batch has too many requests or bytes, whenever it is sent."""
    return _TOO_LARGE.search(text) is not None and _WAITING.search(text) is None


@dataclass(frozen=True)
class ErrorRule:
    """A row of `errors.toml`; a condition of None matches every error."""

    kind: ErrorClass
    status: re.Pattern[str] | None = None
    code: re.Pattern[str] | None = None
    text: re.Pattern[str] | None = None
    unless: re.Pattern[str] | None = None
    pause: bool | None = None
    flagged: bool = False
    setting: str | None = None

    def matches(self, error: ApiError) -> bool:
        """Whether an error matches all conditions."""
        message = f"{error.code} {error.message}"
        patterns = ((self.status, str(error.status)), (self.code, error.code), (self.text, message))
        return (
            all(pattern is None or pattern.search(text) for pattern, text in patterns)
            and (self.unless is None or self.unless.search(message) is None)
            and (not self.flagged or error.filter_results is not None)
            and (self.pause is None or self.pause is (error.pause is not None))
        )

    @property
    def is_by_status(self) -> bool:
        """Whether the status is the only condition."""
        return self.code is None and self.text is None and self.pause is None and not self.flagged


class ErrorTable(NamedTuple):
    """The content of `errors.toml`."""

    rules: tuple[ErrorRule, ...]
    """The first that matches is used."""
    finish_reasons: Mapping[str, str]
    recorded: Mapping[str, str]
    """Kind of a failure without a status → regular expression for its recorded line."""


@cache
def error_table() -> ErrorTable:
    """The table, read once."""
    content = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    rules = []
    for row in content["rule"]:
        given: dict[str, Any] = {name: value for name, value in row.items() if name not in {"class", "seen"}}
        patterns = {"status", "code", "text", "unless"} & given.keys()
        given |= {name: re.compile(given[name], re.IGNORECASE) for name in patterns}
        rules.append(ErrorRule(kind=row["class"], **given))
    reasons = {reason: kind for kind, reasons in content["finish_reasons"].items() for reason in reasons}
    return ErrorTable(tuple(rules), reasons, content["recorded"])


def rule_for(error: ApiError) -> ErrorRule:
    """The first rule of the table that matches."""
    return next(rule for rule in error_table().rules if rule.matches(error))


def classify_error(error: ApiError) -> ErrorClass:
    """The class of a failure; web pages and redirects are classified by their status alone."""
    if error.is_page or 300 <= error.status < 400:
        by_status = (rule for rule in error_table().rules if rule.is_by_status and rule.matches(error))
        return "transient" if any(rule.kind == "transient" for rule in by_status) else "not_the_service"
    return rule_for(error).kind


@lru_cache(maxsize=256)
def finish_reason(*reasons: str | None) -> FinishReason | None:
    """Our finish reason for those of service and router; raises TransientError if the service failed."""
    given = [reason for reason in reasons if reason]
    kinds = [error_table().finish_reasons.get(reason.lower(), "other") for reason in given]
    if "transient" in kinds:
        raise TransientError("broken", f"the response was cut off: {_one_line(given[kinds.index('transient')])}")
    if "content_filter" in kinds:
        return "content_filter"
    return kinds[0] if kinds else None  # type: ignore[return-value]


def failure_kind(line: str) -> str:
    """The kind of a recorded failure: too long for the context window, an HTTP status, or a word."""
    if TOO_LONG in line:
        return TOO_LONG
    if found := re.findall(r"\((\d{3})\)", line):
        return f"HTTP {found[-1]}"
    return next((kind for kind, text in error_table().recorded.items() if re.search(text, line, re.I)), "other")


# --- parameters of requests ----------------------------------------------------------------------------------------

_OTHER_LENGTH: Final = {"max_completion_tokens": "max_tokens", "max_tokens": "max_completion_tokens"}
"""Refused name → the name that is sent instead."""
HARMLESS: Final = frozenset({"store", "user", "metadata", "service_tier", "stream", "safety_identifier"})
"""Parameters that do not affect the text, so they may be dropped."""
LENGTHS: Final = frozenset(
    {"max_completion_tokens", "max_tokens", "max_output_tokens", "max_new_tokens", "maxOutputTokens"}
    | {"max_gen_len", "max_length", "max_tokens_to_sample", "maxTokens", "num_predict"}
)
"""Names for the maximum tokens of an answer, at any depth of a body."""
_CHOICES: Final = frozenset({"n", "best_of", "candidateCount", "candidate_count", "num_return_sequences"})
"""Names for the number of answers to one request; each answer is billed."""
_NUMBER_FIELD: Final = re.compile(r'"(\w{1,40})": "?(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"?[,}]')
"""A field in JSON with a number, possibly in quotes."""
_VALUE: Final = re.compile(r"range|too large|at most|less than|greater than|exceed|must be (?:an? )?\w*integer", re.I)
"""Texts that refuse a parameter's value, not its name."""
_NEVER: Final = frozenset({"model", "messages", "input", "contents", "prompt"})
"""Parameters that are never dropped."""
_MOST_TOKENS: Final = 1e12
"""Larger numbers bound nothing."""
_TURN_TOKENS: Final = 16
"""Maximum tokens that a chat template adds to a message, and before the answer."""
_BYTES_A_TOKEN: Final = 5
"""Maximum bytes per token; a longer text ignored the limit of its request."""


@dataclass
class ParameterAdapter:
    """Adapts request bodies to the parameters that a model refuses."""

    renames_length: bool = True
    """Whether the maximum tokens of an answer may be sent under the other name."""
    dropped: dict[str, str] = field(default_factory=dict)
    """Parameters that are no longer sent → the service's message."""
    renamed: dict[str, str] = field(default_factory=dict)
    """Parameters that are sent under another name."""
    optional: frozenset[str] = frozenset()
    """Parameters other than `HARMLESS` that may be dropped."""

    def apply(self, body: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """The body without the dropped parameters, the others renamed."""
        if not self.dropped and not self.renamed:
            return body
        named = {self.renamed.get(name, name): value for name, value in body.items()}
        return {name: value for name, value in named.items() if name not in self.dropped}

    def learn(self, error: ApiError, body: Mapping[str, JsonValue]) -> str | None:
        """Drops or renames the refused parameter; returns a notice, or None if that is not possible."""
        name, message = refused_name(error, body), error.message
        if name is None:
            return None
        is_value = _VALUE.search(message) is not None and "instead" not in message.lower()
        if name in _OTHER_LENGTH and self.renames_length and not is_value and not self.renamed:
            self.renamed[name] = _OTHER_LENGTH[name]
            return f"does not take {name}: sending {_OTHER_LENGTH[name]} instead"
        if name not in HARMLESS | self.optional:
            return None
        self.dropped[name] = message
        if name in self.optional:
            return f"does not take {name}: asking without it"
        return f"does not take {name} = {body[name]!r}: leaving it out, which changes no text"

    def runtime_info(self) -> dict[str, JsonValue]:
        """The adaptations, for the manifest; empty if there are none."""
        facts: dict[str, JsonValue] = {"left_out": dict(self.dropped), "renamed": dict(self.renamed)}
        return {name: parameters for name, parameters in facts.items() if parameters}


def refused_name(error: ApiError, body: Mapping[str, JsonValue]) -> str | None:
    """The parameter of `body` that an error refers to."""
    names = [name for name in body if name not in _NEVER]
    if error.parameter is not None:
        stem = re.split(r"[.\[]", error.parameter.removeprefix("body."))[0]
        if stem in names:
            return stem
    for pattern in (r"['\"`]{}['\"`]", r"(?<![\w.]){}(?!\w)"):  # in quotes, or as a word
        if found := [name for name in names if re.search(pattern.format(re.escape(name)), error.message)]:
            return min(found, key=error.message.index)
    return None


def max_usage(body: Mapping[str, JsonValue], lengths: Collection[str] = LENGTHS) -> Usage | None:
    """The maximum tokens in and out for a request body; None if it does not bound the answer.

    Every byte counts as a token; no tokenizer produces more. If several fields bound the answer, at any depth, the
    largest is used. Content that a body only refers to (a stored file, the service's tools) is not counted.
    """
    text = json.dumps(body, ensure_ascii=False)
    numbers = [(name, float(digits)) for name, digits in _NUMBER_FIELD.findall(text)]
    limits = [number for name, number in numbers if name in lengths and 0 < number < _MOST_TOKENS]
    if not limits:
        return None
    answers = [number for name, number in numbers if name in _CHOICES and 0 < number < _MOST_TOKENS]
    turns = sum([len(entry) for entry in body.values() if isinstance(entry, list)])
    read = len(text.encode()) + _TURN_TOKENS * (turns + 1)
    return Usage(input_tokens=read, output_tokens=math.ceil(max(limits)) * math.ceil(max(answers, default=1)))


def unmetered_usage(response: Response, most: Usage) -> Usage | None:
    """The maximum tokens of an answer that its service did not count; None if it counted all.

    `most`: the maximum for its request. A count of 0 is treated as missing unless the text is empty.
    """
    usage, longest = response.usage, most.output_tokens or 0
    size = len(f"{response.text or ''}{response.reasoning or ''}".encode())
    if size > _BYTES_A_TOKEN * longest:  # the service ignored the limit of the request
        longest = size
    is_counted = usage.output_tokens is not None and (usage.output_tokens or not response.text)
    written, read = 0 if is_counted else longest, 0 if usage.input_tokens else most.input_tokens
    return Usage(input_tokens=read, output_tokens=written) if read or written else None


def with_lost(response: Response, most: Usage, lost: int) -> Response:
    """The response with the maximum usage of its `lost` attempts added to its unmetered usage."""
    known = response.unmetered_usage or Usage()
    tokens_in = (known.input_tokens or 0) + (most.input_tokens or 0) * lost
    tokens_out = (known.output_tokens or 0) + (most.output_tokens or 0) * lost
    usage = Usage(input_tokens=tokens_in, output_tokens=tokens_out)
    return response.model_copy(update={"unmetered_usage": usage})
