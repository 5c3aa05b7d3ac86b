"""What a failure means: wait and try again, leave a parameter out, call it filtered, give this request up, or stop.

    PassingError         may go away: 408, 409, 429, 5xx, timeouts, broken connections and cut answers
    ServiceError    what the service said, in one shape whatever service it was
    judge           from a reply that is no answer to a Verdict

Only PassingError is tried again. A wrong key, an unknown model or an exhausted quota raises ProviderError: no other
request would fare better.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from mbbq_gen.errors import ProviderError
from mbbq_gen.providers.remote.masking import hide_lookalikes

PassingKind = Literal["rate", "server", "connect", "timeout", "broken", "malformed"]
Verdict = Literal[
    "passing",  # try again
    "filtered",  # blocked by the service's content filter
    "refused_parameter",  # the model does not take a parameter that we sent
    "other_api",  # the model answers at the responses API only
    "key",  # a wrong key, or one that may not do this
    "model",  # no such model
    "quota",  # nothing left to spend
    "failed",  # this request can't be answered
]
_LOST: Final = frozenset({"timeout", "broken", "malformed"})
_GATEWAY: Final = frozenset({408, 502, 504, *range(520, 528)})
"""Statuses of those who stand before a service and did not wait for its answer."""
MAY_PASS: Final = frozenset({408, 409, 425, 429, *range(500, 600)})
_LONGEST: Final = 400
"""Characters of a service's own words that are kept."""


class PassingError(Exception):
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
class ServiceError:
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
    """Seconds that its body asks to wait (Gemini), or None."""


class RefusedError(ProviderError):
    """A service said no to one of its other addresses (files, batches), and would again."""

    def __init__(self, why: str, error: ServiceError) -> None:
        super().__init__(why)
        self.error = error
        """What it said."""


def service_error(status: int, payload: Any) -> ServiceError:
    """An error body in one shape: those of OpenAI, Azure, Anthropic, Gemini, and of servers like them."""
    found = payload
    if isinstance(found, list) and found:
        found = found[0]
    if isinstance(found, Mapping):
        found = found.get("error", found.get("detail", found))
    if not isinstance(found, Mapping):
        return ServiceError(status, _one_line(found))
    message = found.get("message") or found.get("detail") or found.get("error") or found.get("msg") or dict(found)
    codes = (found.get("code"), found.get("type"), found.get("status"))
    inner = found.get("innererror") or found.get("metadata") or {}
    parameter = found.get("param")
    return ServiceError(
        status=status,
        message=_one_line(message),
        code=" ".join(str(code).lower() for code in codes if code),
        parameter=str(parameter) if parameter else None,
        verdicts=inner.get("content_filter_result") if isinstance(inner, Mapping) else None,
        pause=_retry_delay(found.get("details")),
    )


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
    r"flagged as potentially|blocked by .*(?:policy|safety)|data_inspection_failed|inappropriate content",
    re.IGNORECASE,
)
_QUOTA: Final = re.compile(
    r"insufficient.?quota|insufficient (?:balance|credit|fund)|exceeded your current quota|billing|credit balance|"
    r"payment required|quota.{0,40}per.?day|PerDay|out of credits",
    re.IGNORECASE,
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


def is_too_large(error: ServiceError) -> bool:
    """Whether a service refused what it was handed for being too much in one go."""
    return error.status == 413 or (error.status in {400, 422} and says_too_large(f"{error.code} {error.message}"))


def judge(error: ServiceError) -> Verdict:
    """What a failure means. The most telling sign comes first: filters answer with all kinds of statuses."""
    words = f"{error.code} {error.message}"
    if error.verdicts is not None or (error.status < 500 and error.status != 429 and _FILTER.search(words)):
        return "filtered"
    if error.status in {400, 404} and _OTHER_API.search(words):
        return "other_api"
    if error.status == 402 or (error.status in {400, 403, 429} and _QUOTA.search(words)):
        return "quota"
    if error.status in MAY_PASS:
        return "passing"
    if error.status in {401, 403} or (error.status == 400 and _KEY.search(words)):
        return "key"
    if error.status == 404 or _MODEL.search(words):
        return "model"
    if error.status in {400, 422} and _UNSUPPORTED.search(words):
        return "refused_parameter"
    return "failed"
