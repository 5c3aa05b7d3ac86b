"""Classifies failures of services: which are tried again, which fail one request, which end the run.

`errors.toml` is the table: status, code, headers and text of a failure → its class, and the reasons why a text ends.

    service_error    an error body of any service as an ApiError
    classify_error   ApiError → ErrorClass, by the first rule of the table that fits
    finish_reason    a service's reason for the end of a text → ours
    failure_kind     the recorded line of a failure → what `status` counts it as

Only TransientError is tried again.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache, lru_cache
from http.client import responses
from pathlib import Path
from typing import Any, Final, Literal

from mbbq_gen.core.errors import ProviderError
from mbbq_gen.core.text import moment_of, seconds_of
from mbbq_gen.providers.http.credentials import hide_lookalikes

PassingKind = Literal["rate", "server", "connect", "timeout", "broken", "malformed"]
FinishReason = Literal["stop", "length", "content_filter", "other"]
ErrorClass = Literal[
    "transient",  # try again
    "content_filter",  # blocked by the service's content filter
    "too_long",  # the prompt does not fit into the model's context window
    "unsupported_parameter",  # the model does not take a parameter, a value or a role that we sent
    "other_api",  # the model answers at the responses API only
    "not_the_service",  # a redirection, a web page of a proxy, or an address that the service does not have
    "key",  # a wrong key, or one without the permission
    "model",  # no such model
    "quota_exhausted",  # nothing left to spend
    "failed",  # this request can't be answered
]
_LOST: Final = frozenset({"timeout", "broken", "malformed"})
_GATEWAY: Final = frozenset({408, 502, 504, *range(520, 528)})
"""Statuses of gateways that did not wait for the service's answer."""
_LONGEST: Final = 400
"""Characters of a service's message that are kept."""


class TransientError(Exception):
    """A failure that another try may mend."""

    def __init__(self, kind: PassingKind, why: str, pause: float | None = None, status: int | None = None) -> None:
        super().__init__(why)
        self.kind = kind
        self.pause = pause
        """Waiting time from the service, in seconds, or None."""
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
    filter_results: Any = None
    """The results of its content filters, if it gave them."""
    pause: float | None = None
    """Seconds that its headers or its body ask to wait, or None."""
    page: bool = False
    """Whether it is a web page: not what a service says, but something before it."""
    target: str | None = None
    """Where a redirection leads, without its query."""

    @property
    def words(self) -> str:
        """Its words, or where it has none, what its status means."""
        return self.message or responses.get(self.status, "no words")


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


_PAGE: Final = re.compile(r"\s*(?:<!doctype\b|<html\b|<head\b|<body\b|<center\b|<h1\b)", re.IGNORECASE)
"""How web pages begin, those of proxies too."""


def is_page(text: str) -> bool:
    """Whether a body is a web page."""
    return _PAGE.match(text) is not None


def service_error(status: int, payload: Any, headers: Mapping[str, str] | None = None) -> ApiError:
    """An error body in one shape: those of OpenAI, Azure, Anthropic, Gemini, and of servers like them."""
    known = {name.lower(): value for name, value in (headers or {}).items()}
    target = None
    if 300 <= status < 400 and (location := known.get("location")):  # without query and password, which may be secrets
        before, _, rest = location.split("?")[0].split("#")[0].rpartition("@")
        target = _one_line(f"{before.partition('//')[0]}//{rest}" if before else rest)
    outer = payload[0] if isinstance(payload, list) and payload else payload
    found = outer.get("error", outer.get("detail", outer)) if isinstance(outer, Mapping) else outer
    if not isinstance(found, Mapping):
        page, text = isinstance(found, str) and is_page(found), str(found)
        if page:  # what it is called, else its words
            title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
            text = re.sub(r"<[^>]*>", " ", title[1] if title else text)
        codes = [outer.get(name) for name in ("code", "type", "error_type")] if isinstance(outer, Mapping) else []
        message = _one_line(text)
        pause = pause_of(status, known, payload, message)
        return ApiError(status, message, _code(codes), pause=pause, page=page, target=target)
    named = (found.get(name) for name in ("message", "detail", "error", "msg"))
    message = _one_line(next((words for words in named if words), dict(found)))
    inner = found.get("innererror") or found.get("metadata") or {}
    inner = inner if isinstance(inner, Mapping) else {}
    if isinstance(inner.get("raw"), str):  # OpenRouter: what the provider behind it said
        message = _one_line(f"{message}: {inner['raw']}")
    filtered = inner.get("content_filter_result")  # Azure's; OpenRouter's moderation gives reasons
    if not filtered and inner.get("reasons") and "flagged_input" in inner:
        filtered = {"reasons": inner["reasons"]}
    codes = [found.get("code"), found.get("type"), found.get("status"), *_reasons(found.get("details"))]
    codes.append(known.get("x-amzn-errortype", "").split(":")[0])
    parameter = found.get("param")
    return ApiError(
        status=status,
        message=message,
        code=_code(codes),
        parameter=str(parameter) if parameter else None,
        filter_results=filtered or None,
        pause=pause_of(status, known, payload, message),
        target=target,
    )


def _code(codes: list[Any]) -> str:
    return " ".join(str(code).lower() for code in codes if isinstance(code, str | int) and code)


def _reasons(details: Any) -> Iterator[str]:
    """Google's reasons and names of limits, which are codes in all but name."""
    for detail in details if isinstance(details, list) else ():
        if not isinstance(detail, Mapping):
            continue
        violations = detail["violations"] if isinstance(detail.get("violations"), list) else []
        named = [violation.get("quotaId") for violation in violations if isinstance(violation, Mapping)]
        yield from (name for name in (detail.get("reason"), *named) if isinstance(name, str))


def _one_line(value: Any) -> str:
    text = hide_lookalikes(" ".join(str(value).split()))
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


# --- how long a service asks to wait: by headers, fields of the body, or its text ------------------------------------

_RESET_HEADER: Final = re.compile(r"(?:x-)?ratelimit-reset(?:-[a-z-]+)?|anthropic-ratelimit-[a-z-]+-reset")
_WAIT_FIELDS: Final[Mapping[str, float]] = {
    **dict.fromkeys(("retryDelay", "retry_after", "retryAfter", "retry_after_seconds", "resets_in_seconds"), 1.0),
    **dict.fromkeys(("reset_at", "resets_at", "reset_time", "estimated_time", "X-RateLimit-Reset"), 1.0),
    **dict.fromkeys(("retry_after_ms", "retryAfterMs"), 0.001),
}
"""Fields of a body that say when to come back, and the seconds of their unit."""
_WAIT_TEXT: Final = re.compile(
    r"(?:try again|retry(?:ing)?|resets?|available(?: again)?|wait)(?: after| in| for| at)?:? "
    r"(?:(?P<moment>\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)?)"
    r"|(?P<compact>(?:\d+(?:\.\d+)?(?:ms|[smhd])){1,4})\b"
    r"|(?P<number>\d+(?:\.\d+)?) ?(?P<unit>milliseconds?|seconds?|secs?|minutes?|mins?|hours?|days?)\b)",
    re.IGNORECASE,
)
_UNITS: Final = {"mi": 60.0, "ms": 0.001, "s": 1.0, "h": 3600.0, "d": 86400.0}


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """The seconds that a reply asks to wait (Retry-After, retry-after-ms), or None.

    A date is read by the clock of the service, which its `Date` header tells; `now` stands in where it has none.
    """
    if (seconds := seconds_of(headers.get("retry-after-ms", ""))) is not None:
        return seconds / 1000
    text = headers.get("retry-after")
    return None if text is None else seconds_of(text, moment_of(headers.get("date") or "") or now)


def pause_of(status: int, headers: Mapping[str, str], payload: Any, message: str) -> float | None:
    """The seconds that a refusal asks to wait: Retry-After, fields of the body, its text, then reset headers."""
    seconds = retry_after(headers)
    if seconds is not None or (status != 429 and status < 500):
        return seconds
    now = moment_of(headers.get("date") or "") or datetime.now(UTC)
    found = [pause for pause in _waits_in(payload, now) if pause is not None]
    if found:
        return max(found)
    if words := _WAIT_TEXT.search(message):
        if words["number"]:
            unit = words["unit"].lower()
            scale = 0.001 if unit.startswith("mil") else _UNITS["mi" if unit.startswith("mi") else unit[0]]
            return float(words["number"]) * scale
        return _seconds_until(words["moment"] or words["compact"], now)
    resets = []
    for name, value in headers.items():
        remaining = seconds_of(headers.get(name.replace("reset", "remaining"), "0"))
        if _RESET_HEADER.fullmatch(name) and remaining is not None and remaining <= 0:
            resets.append(_seconds_until(value, now))
    return max((pause for pause in resets if pause is not None), default=None)


def _waits_in(value: Any, now: datetime, levels: int = 6) -> Iterator[float | None]:
    """The seconds to wait that fields of a body name, at any depth; headers that a router passes on are there too."""
    if levels and isinstance(value, list):
        for entry in value:
            yield from _waits_in(entry, now, levels - 1)
    elif levels and isinstance(value, Mapping):
        for name, entry in value.items():
            scale = _WAIT_FIELDS.get(name)
            if scale is not None and isinstance(entry, str | int | float) and not isinstance(entry, bool):
                seconds = _seconds_until(str(entry), now)
                yield None if seconds is None else seconds * scale
            else:
                yield from _waits_in(entry, now, levels - 1)


def _seconds_until(text: str, now: datetime) -> float | None:
    """Seconds from a duration, a date, or a moment in seconds or milliseconds since 1970."""
    seconds = seconds_of(text, now)
    if seconds is None or seconds < 1e9:
        return seconds
    moment = seconds / 1000 if seconds > 1e11 else seconds
    return max(0.0, moment - now.timestamp()) if moment < 1e11 else None


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


@dataclass(frozen=True)
class ErrorRule:
    """A row of the table; conditions that are None fit every error."""

    kind: ErrorClass
    statuses: frozenset[int] | None = None
    code: re.Pattern[str] | None = None
    text: re.Pattern[str] | None = None
    unless: re.Pattern[str] | None = None
    pause: bool | None = None
    flagged: bool = False
    setting: str | None = None
    is_loading: bool = False
    label: str | None = None

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> ErrorRule:
        """The rule that a row of the file describes; its `status` is written like `400 5xx` or `4xx -401`."""
        given = {name: value for name, value in row.items() if name not in {"class", "seen", "status"}}
        given |= {name: re.compile(row[name], re.IGNORECASE) for name in ("code", "text", "unless") if name in row}
        statuses: set[int] = set()
        for word in row.get("status", "").split():
            number = word.lstrip("-")
            first = int(number[0]) * 100
            named = set(range(first, first + 100)) if number.endswith("xx") else {int(number)}
            statuses = statuses - named if word.startswith("-") else statuses | named
        return cls(kind=row["class"], statuses=frozenset(statuses) if "status" in row else None, **given)

    def fits(self, error: ApiError) -> bool:
        """Whether an error meets every condition."""
        words = f"{error.code} {error.message}"
        return (
            (self.statuses is None or error.status in self.statuses)
            and (not self.flagged or error.filter_results is not None)
            and (self.pause is None or self.pause is (error.pause is not None))
            and (self.code is None or self.code.search(error.code) is not None)
            and (self.text is None or self.text.search(words) is not None)
            and (self.unless is None or self.unless.search(words) is None)
        )

    @property
    def is_by_status(self) -> bool:
        """Whether the status alone decides."""
        return self.code is None and self.text is None and self.pause is None and not self.flagged


@dataclass(frozen=True)
class ErrorTable:
    """Which failures are what, and why texts end."""

    rules: tuple[ErrorRule, ...]
    """In the order in which they are tried."""
    passing: frozenset[int]
    """Statuses that mean a transient failure by themselves: with them, a proxy's page is one too."""
    finish_reasons: Mapping[str, str]


@cache
def error_table() -> ErrorTable:
    """The table of `errors.toml`."""
    content = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
    rules = tuple(map(ErrorRule.of, content["rule"]))
    passing = [rule.statuses or () for rule in rules if rule.kind == "transient" and rule.is_by_status]
    reasons = {reason: kind for kind, reasons in content["finish_reasons"].items() for reason in reasons}
    return ErrorTable(rules, frozenset().union(*passing), reasons)


def rule_for(error: ApiError) -> ErrorRule:
    """The first rule of the table that fits."""
    return next(rule for rule in error_table().rules if rule.fits(error))


def classify_error(error: ApiError) -> ErrorClass:
    """What a failure means."""
    if (error.page or 300 <= error.status < 400) and error.status not in error_table().passing:
        return "not_the_service"
    return rule_for(error).kind


@lru_cache(maxsize=256)
def finish_reason(*reasons: str | None) -> FinishReason | None:
    """Why a text ends, from the service's reason and, behind a router, the provider's own.

    Raises:
        TransientError: a reason says that the service failed, whatever text there is.
    """
    given = [reason for reason in reasons if reason]
    kinds = [error_table().finish_reasons.get(reason.lower(), "other") for reason in given]
    if "transient" in kinds:
        raise TransientError("broken", f"the response was cut off: {_one_line(given[kinds.index('transient')])}")
    if "content_filter" in kinds:
        return "content_filter"
    return kinds[0] if kinds else None  # type: ignore[return-value]


_STATUS: Final = re.compile(r"\((\d{3})\)")
"""How a recorded failure ends where a service answered with a status."""
_RECORDED: Final = (
    ("too long for the context window", re.compile("tokens, and the model takes")),  # local models
    ("timeout", re.compile(r"no answer within|timed? ?out|took longer", re.IGNORECASE)),
    ("connection", re.compile(r"connect|reset|broke|closed|cut off", re.IGNORECASE)),
    (
        "malformed answer",
        re.compile(r"not JSON|JSON (?:without|of another)|has no (?:choice|message|output|candidate)|nothing at", re.I),
    ),
    ("batch", re.compile(r"\bbatch", re.IGNORECASE)),
)


def failure_kind(line: str) -> str:
    """What a recorded failure counts as: a label of the table, an HTTP status, or a word."""
    for rule in error_table().rules:
        if rule.label is not None and rule.label in line:
            return rule.label
    if found := _STATUS.findall(line):
        return f"HTTP {found[-1]}"
    return next((kind for kind, pattern in _RECORDED if pattern.search(line)), "other")
