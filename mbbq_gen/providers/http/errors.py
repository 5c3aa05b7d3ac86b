"""What a failure means: wait and try again, leave a parameter out, call it filtered, give this request up, or stop.

    TransientError         may go away: 408, 409, 429, 5xx, timeouts, broken connections and cut answers
    ApiError    what the service said, in one shape whatever service it was
    judge           from a reply that is no answer to a Verdict

Only TransientError is tried again. A wrong key, an unknown model or an exhausted quota raises ProviderError: no other
request would fare better. Codes and headers decide before words: a limit that says when to come back is a limit,
whatever it says of bills and plans.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from http import HTTPStatus
from typing import Any, Final, Literal

from pydantic import JsonValue

from mbbq_gen.core.errors import ProviderError
from mbbq_gen.core.text import moment_of, seconds_of
from mbbq_gen.providers.http.credentials import hide_lookalikes

PassingKind = Literal["rate", "server", "connect", "timeout", "broken", "malformed"]
ErrorClass = Literal[
    "transient",  # try again
    "content_filter",  # blocked by the service's content filter
    "unsupported_parameter",  # the model does not take a parameter that we sent
    "other_api",  # the model answers at the responses API only
    "not_the_service",  # not the service's own words: a redirection, or a web page of something on the way
    "key",  # a wrong key, or one that may not do this
    "model",  # no such model
    "quota_exhausted",  # nothing left to spend
    "failed",  # this request can't be answered
]
_LOST: Final = frozenset({"timeout", "broken", "malformed"})
_GATEWAY: Final = frozenset({408, 502, 504, *range(520, 528)})
"""Statuses of those who stand before a service and did not wait for its answer."""
MAY_PASS: Final = frozenset({408, 409, 425, 429, *range(500, 600)})
_LONGEST: Final = 400
"""Characters of a service's own words that are kept."""


class TransientError(Exception):
    """A failure that another try may mend."""

    def __init__(self, kind: PassingKind, why: str, pause: float | None = None, status: int | None = None) -> None:
        super().__init__(why)
        self.kind = kind
        self.pause = pause
        """Seconds that the service asked to wait, or None."""
        self.status = status
        """Of HTTP, where there was one."""

    @property
    def may_be_paid(self) -> bool:
        """Whether the model may have answered all the same, without its answer reaching us."""
        return self.kind in _LOST or self.status in _GATEWAY


@dataclass(frozen=True)
class ApiError:
    """What a service said of a failure."""

    status: int
    message: str
    """Its words, on one line, shortened."""
    code: str = ""
    """Its code and type, in small letters."""
    parameter: str | None = None
    """The parameter that it names, if it does."""
    verdicts: Any = None
    """What its content filters said, if they did."""
    pause: float | None = None
    """Seconds that its headers, else its body (Gemini), ask to wait, or None."""
    page: bool = False
    """Whether it is a web page: not what a service says, but something before it."""
    target: str | None = None
    """Where a redirection leads, without its query."""

    @property
    def words(self) -> str:
        """Its words, or where it has none, what its status means."""
        return self.message or _phrase(self.status)


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "no words"


class RejectedError(ProviderError):
    """A service said no to one of its other addresses (files, batches), and would again."""

    def __init__(self, why: str, error: ApiError) -> None:
        super().__init__(why)
        self.error = error
        """What it said."""


class RetriesExhaustedError(ProviderError):
    """What may pass did not, as often as it was tried."""

    def __init__(self, why: str, fault: TransientError) -> None:
        super().__init__(why)
        self.fault = fault
        """What went wrong the last time."""


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """The seconds that a reply asks to wait (Retry-After, retry-after-ms), or None.

    A date is read by the clock of the service, which its `Date` header tells; `now` stands in where it has none.
    """
    milliseconds = headers.get("retry-after-ms")
    if milliseconds is not None and (seconds := seconds_of(milliseconds)) is not None:
        return seconds / 1000
    text = headers.get("retry-after")
    return None if text is None else seconds_of(text, moment_of(headers.get("date") or "") or now)


def service_error(status: int, payload: Any, headers: Mapping[str, str] | None = None) -> ApiError:
    """An error body in one shape: those of OpenAI, Azure, Anthropic, Gemini, and of servers like them."""
    told = headers or {}
    pause = retry_after(told)
    found = payload
    if isinstance(found, list) and found:
        found = found[0]
    if isinstance(found, Mapping):
        found = found.get("error", found.get("detail", found))
    if not isinstance(found, Mapping):
        page = isinstance(found, str) and is_page(found)
        words = _title(found) if page else _one_line(found)
        target = _place(told.get("location")) if 300 <= status < 400 else None
        return ApiError(status, words, pause=pause, page=page, target=target)
    message = found.get("message") or found.get("detail") or found.get("error") or found.get("msg") or dict(found)
    codes = [found.get("code"), found.get("type"), found.get("status"), *_reasons(found.get("details"))]
    codes.append(told.get("x-amzn-errortype", "").split(":")[0])
    inner = found.get("innererror") or found.get("metadata") or {}
    parameter = found.get("param")
    return ApiError(
        status=status,
        message=_one_line(message),
        code=" ".join(str(code).lower() for code in codes if code),
        parameter=str(parameter) if parameter else None,
        verdicts=_verdicts(inner) if isinstance(inner, Mapping) else None,
        pause=_retry_delay(found.get("details")) if pause is None else pause,
        target=_place(told.get("location")) if 300 <= status < 400 else None,
    )


_PAGE: Final = re.compile(r"\s*(?:<!doctype\b|<html\b|<head\b|<body\b|<center\b|<h1\b)", re.IGNORECASE)
"""How web pages begin, those of proxies too."""


def is_page(text: str) -> bool:
    """Whether a body is a web page."""
    return _PAGE.match(text) is not None


def _title(page: Any) -> str:
    """What a web page is called, else its words."""
    found = re.search(r"<title[^>]*>(.*?)</title>", str(page), re.IGNORECASE | re.DOTALL)
    return _one_line(re.sub(r"<[^>]*>", " ", found[1] if found else str(page)))


def _place(location: str | None) -> str | None:
    """An address without its query and password, which may be secrets."""
    if not location:
        return None
    before, _, rest = location.split("?")[0].split("#")[0].rpartition("@")
    return _one_line(f"{before.partition('//')[0]}//{rest}" if before else rest)


def _verdicts(inner: Mapping[str, Any]) -> Any:
    """What filters said: Azure's, and the moderation that OpenRouter puts before some models."""
    if inner.get("content_filter_result"):
        return inner["content_filter_result"]
    return {"reasons": inner["reasons"]} if inner.get("reasons") and "flagged_input" in inner else None


def _reasons(details: Any) -> Iterator[str]:
    """Google's reasons and names of limits, which are codes in all but name."""
    for detail in details if isinstance(details, list) else ():
        if not isinstance(detail, Mapping):
            continue
        if isinstance(detail.get("reason"), str):
            yield detail["reason"]
        violations = detail.get("violations")
        for violation in violations if isinstance(violations, list) else ():
            if isinstance(violation, Mapping) and isinstance(violation.get("quotaId"), str):
                yield violation["quotaId"]


def _retry_delay(details: Any) -> float | None:
    """The seconds of Google's RetryInfo: `"retryDelay": "34s"`."""
    for detail in details if isinstance(details, list) else ():
        delay = detail.get("retryDelay") if isinstance(detail, Mapping) else None
        if isinstance(delay, str) and re.fullmatch(r"\d+(\.\d+)?s", delay):
            return float(delay[:-1])
    return None


def _one_line(value: Any) -> str:
    text = hide_lookalikes(" ".join(str(value).split()))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


_FILTER: Final = re.compile(
    r"content.?filter|content.?policy|content_management|responsible.?ai|safety system|usage polic|"
    r"flagged as potentially|blocked by .*(?:policy|safety)|data_inspection_failed|inappropriate content|"
    r"(?:input|prompt|message|content|request) (?:was|has been|is) flagged|moderation_blocked|"
    r"(?:blocked|flagged|rejected) by .{0,20}moderation",
    re.IGNORECASE,
)
_QUOTA_CODE: Final = re.compile(r"insufficient_(?:quota|balance|credits?|funds?)|billing_|perday")
"""Codes that leave no doubt: no request will be answered before somebody pays, or before tomorrow."""
_LIMIT_CODE: Final = re.compile(r"rate_?limit|too_?many_?requests|throttl|perminute|overloaded|slow_?down")
_KEY_CODE: Final = re.compile(
    r"invalid_?api_?key|api_?key_?invalid|authentication_error|permission_error|permission_?denied|unauthenticated|"
    r"account_deactivated|unauthori[sz]ed|accessdenied|unrecognizedclient|expiredtoken|invalidsignature"
)
_MODEL_CODE: Final = re.compile(r"model_not_found|deploymentnotfound|unknown_model|invalid_model")
_QUOTA: Final = re.compile(
    r"insufficient.?quota|insufficient (?:balance|credit|fund)|exceeded your current quota|billing|credit balance|"
    r"payment required|quota.{0,40}per.?day|PerDay|out of credits",
    re.IGNORECASE,
)
_LIMIT: Final = re.compile(
    r"rate.?limit|too many requests|(?:requests|tokens) per (?:minute|second|min)\b", re.IGNORECASE
)
_KEY: Final = re.compile(r"invalid.?api.?key|incorrect api key|api.?key not valid|authentication|unauthori[sz]ed", re.I)
_MODEL: Final = re.compile(
    r"model.?not.?found|(?:no such|unknown|invalid) model|"
    r"model\b.{0,120}(?:does not exist|not found|not exist|is not available)",
    re.IGNORECASE,
)
_OTHER_API: Final = re.compile(r"v1/responses|responses api|not a chat model", re.IGNORECASE)
_UNSUPPORTED: Final = re.compile(
    r"unsupported|not.{0,6}support|n't support|not permitted|not allowed|unknown (?:parameter|field|argument|name)|"
    r"unrecogni[sz]ed|unexpected|extra inputs|deprecated|may only be set to|cannot both be specified|cannot be used",
    re.IGNORECASE,
)


_TOO_LARGE: Final = re.compile(
    r"too.?(?:large|big|many.?(?:tasks|requests|lines|rows|items))|at most [\d,]+|"
    r"(?:tasks|requests|lines|rows|size|bytes|megabytes)\b.{0,40}\b(?:exceed|more than)|"
    r"exceed.{0,60}\b(?:tasks|requests|lines|rows|size|bytes|megabytes|MB)\b|max\w*_(?:tasks|requests|lines)_exceeded",
    re.IGNORECASE,
)
_WAITING: Final = re.compile(r"enqueued|token_limit|rate.?limit|quota", re.IGNORECASE)


def says_too_large(words: str) -> bool:
    """Whether a service's words mean that it takes fewer requests or bytes in one go, now and always."""
    return _TOO_LARGE.search(words) is not None and _WAITING.search(words) is None


def is_too_large(error: ApiError) -> bool:
    """Whether a service refused what it was handed for being too much in one go."""
    return error.status == 413 or (error.status in {400, 422} and says_too_large(f"{error.code} {error.message}"))


def classify_error(error: ApiError) -> ErrorClass:
    """What a failure means: what comes from the service itself at all, then its codes and headers, then its words."""
    if error.status not in MAY_PASS and (300 <= error.status < 400 or error.page):
        return "not_the_service"
    return _by_code(error) or _by_words(error)


def _by_code(error: ApiError) -> ErrorClass | None:
    """What codes, headers and fields of its own tell; None where they leave it open."""
    status, code = error.status, error.code
    if error.verdicts is not None:
        return "content_filter"
    if status == 402 or (status in {400, 401, 403, 429} and _QUOTA_CODE.search(code)):
        return "quota_exhausted"
    if status in {403, 429} and (_LIMIT_CODE.search(code) or error.pause is not None):
        return "transient"
    if status in {400, 401, 403} and _KEY_CODE.search(code) and not _FILTER.search(error.message):
        return "key"
    if 400 <= status < 500 and _MODEL_CODE.search(code):
        return "model"
    return None


def _by_words(error: ApiError) -> ErrorClass:
    """What the words tell, and where they tell nothing, the status."""
    status, words = error.status, f"{error.code} {error.message}"
    if status < 500 and status not in {401, 429} and _FILTER.search(words):
        return "content_filter"
    if status in {400, 404} and _OTHER_API.search(words):
        return "other_api"
    if status in {400, 403, 429} and _QUOTA.search(words) and not (status == 429 and _LIMIT.search(words)):
        return "quota_exhausted"
    if status in MAY_PASS:
        return "transient"
    if status in {401, 403} or (status == 400 and _KEY.search(words)):
        return "key"
    if status == 404 or _MODEL.search(words):
        return "model"
    if status in {400, 422} and _UNSUPPORTED.search(words):
        return "unsupported_parameter"
    return "failed"


LENGTH_NAMES: Final = ("max_completion_tokens", "max_tokens", "max_output_tokens", "max_new_tokens", "maxOutputTokens")
"""What services call the longest answer; one stands for another."""
HARMLESS: Final = frozenset({"store", "user", "metadata", "service_tier", "stream", "safety_identifier"})
"""What can be left out without a word of the text being another."""
_NEVER: Final = frozenset({"model", "messages", "input", "contents", "prompt"})
"""What can't be left out."""


@dataclass
class ParameterAdapter:
    """What was found out about a model's parameters."""

    dropped: dict[str, str] = field(default_factory=dict)
    """Parameters that are no longer sent, with the service's words."""
    renamed: dict[str, str] = field(default_factory=dict)
    """Parameters that are sent under another name."""
    dispensable: frozenset[str] = frozenset()
    """Parameters beside the harmless ones that whoever asks can do without."""
    renames_length: bool = True
    """Whether servers of this kind differ in what they call the longest answer."""
    _refused_lengths: set[str] = field(default_factory=set)
    """Names of the longest answer that were refused."""

    def apply(self, body: dict[str, JsonValue]) -> dict[str, JsonValue]:
        """The body as the model takes it."""
        if not self.dropped and not self.renamed:
            return body
        named = {self.renamed.get(name, name): value for name, value in body.items()}
        return {name: value for name, value in named.items() if name not in self.dropped}

    def learn(self, error: ApiError, body: Mapping[str, JsonValue]) -> str | None:
        """Takes a lesson from a refusal of `body`; says it in words, or None where there is none to take."""
        name = refused_name(error, body)
        if name is None:
            return None
        other = self._other_length(name, error.message)
        if other is not None:
            for old in [old for old, new in self.renamed.items() if new == name] or [name]:
                self.renamed[old] = other
            return f"does not take {name}: sending {other} instead"
        if name not in HARMLESS | self.dispensable:
            return None
        self.dropped[name] = error.message
        if name in self.dispensable:
            return f"does not take {name}: asking without it"
        return f"does not take {name} = {body[name]!r}: leaving it out, which changes no text"

    def _other_length(self, name: str, message: str) -> str | None:
        """Another name for the longest answer that was not refused yet: one asked for, or the one that may be meant."""
        if name not in LENGTH_NAMES or not self.renames_length:
            return None
        self._refused_lengths.add(name)
        named = [other for other in LENGTH_NAMES if re.search(rf"(?<!\w){other}(?!\w)", message)]
        guess = {"max_completion_tokens": "max_tokens", "max_tokens": "max_completion_tokens"}.get(name)
        return next((other for other in [*named, guess] if other not in self._refused_lengths), None)

    def runtime_info(self) -> dict[str, JsonValue]:
        """For the manifest; empty where nothing was learned."""
        facts: dict[str, JsonValue] = {}
        if self.dropped:
            facts["left_out"] = dict(self.dropped)
        if self.renamed:
            facts["renamed"] = dict(self.renamed)
        return facts


def refused_name(error: ApiError, body: Mapping[str, JsonValue]) -> str | None:
    """The parameter of `body` that an error is about."""
    names = [name for name in body if name not in _NEVER]
    if error.parameter is not None:
        stem = re.split(r"[.\[]", error.parameter.removeprefix("body."))[0]
        if stem in names:
            return stem
    quoted = [name for name in names if re.search(rf"['\"`]{re.escape(name)}['\"`]", error.message)]
    plain = [name for name in names if re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", error.message)]
    found = quoted or plain
    return min(found, key=error.message.index) if found else None
