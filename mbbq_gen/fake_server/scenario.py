"""What the fake server does: every setting with its bounds and help, from TOML, flags or the admin address.

    [answers]   oracle = "stereotyped"        [faults]   rate_limited = 0.05, retry_after_s = 1.0
    [latency]   seconds = 0.05                [limits]   rpm = 5000
    [content]   filtered_prompt = 0.01        [access]   key = "sk-test", refused_parameters = ["temperature"]
    [batches]   delay_s = 2.0

Shares are between 0 and 1. What happens to a request depends on the seed, the request's messages and how often they
were asked before, and on nothing else: the same run meets the same faults.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self, get_args, get_origin

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator
from pydantic.fields import FieldInfo

from mbbq_gen.errors import UsageError
from mbbq_gen.fake_server.asked import ThoughtForm
from mbbq_gen.languages import describe_fault

Share = Annotated[float, Field(ge=0, le=1)]
Seconds = Annotated[float, Field(ge=0, le=86_400)]


class Settings(BaseModel):
    """A table of the scenario: unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Answers(Settings):
    """What the model says."""

    oracle: str = Field("perfect", description="which oracle answers the questions that are recognised")
    seed: int = Field(0, ge=0, description="seed of the oracle `random`")
    speech: Literal["label", "sentence", "refusal"] | None = Field(
        None, description="how it says it: `label` (terse), `sentence` (chatty), `refusal`; none: as the oracle does"
    )
    unrecognised: Literal["fixed", "echo", "reject"] = Field(
        "fixed", description="what an unknown question gets: the fixed text, its own last message, or an error 400"
    )
    fixed: str = Field("A", description="the fixed text")
    output_tokens: int | None = Field(None, ge=0, description="output tokens to report; none: estimated from the text")
    reasoning_tokens: int = Field(0, ge=0, description="tokens spent on reasoning before each answer")
    think: bool = Field(False, description="put a <think> block before each answer")
    thoughts: str | None = Field(
        None, description="which oracle's choice each thought ends on, where the model may think; none: it does not"
    )
    thought_form: ThoughtForm = Field(
        "reasoning_content",
        description="where a thought stands in chat completions: `reasoning_content`, `reasoning`, `details` "
        "(OpenRouter), `parts` (Mistral), `tags` (<think>) or `hidden`; elsewhere in its own place, or the last two",
    )
    logprobs: Literal["labels", "said", "nothing"] = Field(
        "labels",
        description="which first tokens an answer that is asked for `logprobs` names: the labels, only what is said, "
        "or nothing (asked in vain)",
    )
    usage: Literal["told", "missing", "negative", "words"] = Field(
        "told", description="how token counts come: as they are, not at all, below nought, or as words"
    )
    padding: int = Field(0, ge=0, le=100_000_000, description="characters of filling after each answer")
    reported_model: str | None = Field(None, description="model name in the answers; none: the one that was asked for")


class Latency(Settings):
    """How long answers take."""

    seconds: Seconds = Field(0.0, description="seconds to an answer; the median if there is a spread")
    spread: float = Field(0.0, ge=0, le=3, description="sigma of a log-normal spread round it; 0: always the same")


class Faults(Settings):
    """What goes wrong, as shares of all attempts. At most one of them happens to an attempt."""

    rate_limited: Share = Field(0.0, description="answered 429")
    retry_after_s: Seconds = Field(1.0, description="after how many seconds those may be asked again")
    retry_after_form: Literal["seconds", "date", "milliseconds", "untold"] = Field(
        "seconds", description="how that is told: Retry-After in seconds, as a date, retry-after-ms, or not at all"
    )
    server_error: Share = Field(0.0, description="answered with one of `server_statuses`")
    server_statuses: tuple[Annotated[int, Field(ge=400, le=599)], ...] = Field(
        (500, 502, 503, 504), min_length=1, description="which statuses server errors have"
    )
    hang: Share = Field(0.0, description="never answered; the connection stays open")
    drop: Share = Field(0.0, description="connection closed without a word, before anything was done")
    lost: Share = Field(0.0, description="done, and paid, but the connection closes before the answer is sent")
    cut: Share = Field(0.0, description="answer breaks off in the middle of its body")
    slow: Share = Field(0.0, description="body comes in small pieces over `slow_s` seconds")
    slow_s: Seconds = Field(1.0, description="how long slow bodies take")
    malformed: Share = Field(0.0, description="answered 200 with a body that is no JSON")
    page: Share = Field(0.0, description="answered 403 with a web page, as a proxy on the way does")
    limit_words: Literal["plain", "billing"] = Field(
        "plain", description="what a rate limit says beside its code: `billing` speaks of quotas, plans and bills"
    )
    most_per_request: int = Field(3, ge=0, description="only the first so many attempts at a question meet faults")
    routes: Literal["asking", "all"] = Field(
        "asking", description="which requests meet faults: questions only, or files and batches too"
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if sum(self.shares().values()) > 1:
            raise ValueError("the shares of all faults together are above 1")
        return self

    def shares(self) -> dict[str, float]:
        """Fault → its share, in the order in which they are drawn."""
        names = ("rate_limited", "server_error", "hang", "drop", "lost", "cut", "slow", "malformed", "page")
        return {name: getattr(self, name) for name in names}


class Content(Settings):
    """What becomes of a question, as shares of all questions; the same at every attempt."""

    filtered_prompt: Share = Field(0.0, description="refused by the content filter before the model sees it")
    filtered_answer: Share = Field(0.0, description="answer blocked by the content filter")
    refused: Share = Field(0.0, description="the service's refusal field or stop reason instead of an answer")
    empty: Share = Field(0.0, description="no text, the whole token budget spent on reasoning")
    truncated: Share = Field(0.0, description="text cut off, finish reason `length`")
    odd: Share = Field(0.0, description="half surrogate pairs, NUL or noncharacters after the text")

    @model_validator(mode="after")
    def _check(self) -> Self:
        if sum(self.shares().values()) > 1:
            raise ValueError("the shares of all verdicts together are above 1")
        return self

    def shares(self) -> dict[str, float]:
        """Verdict → its share, in the order in which they are drawn."""
        names = ("filtered_prompt", "filtered_answer", "refused", "empty", "truncated", "odd")
        return {name: getattr(self, name) for name in names}


class Access(Settings):
    """Who may ask what."""

    key: str | None = Field(None, description="the one key that is let in; none: any key, or none at all")
    models: tuple[str, ...] = Field((), description="models that exist; none: every name does")
    echo_key: Literal["no", "plain", "base64", "percent", "escaped", "late"] = Field(
        "no", description="repeat the client's key in every answer, name, header and failure, written so"
    )
    quota: int | None = Field(None, ge=0, description="answers until the quota is exhausted; none: no quota")
    moved_to: str | None = Field(None, description="address to which all questions are redirected (307), unheard")
    refused_parameters: tuple[str, ...] = Field(
        (), description="parameters that the model refuses, such as temperature, max_tokens"
    )


class Limits(Settings):
    """Rate limits that are counted and enforced, and told in headers."""

    rpm: int | None = Field(None, ge=1, description="requests a minute; none: no limit")
    tpm: int | None = Field(None, ge=1, description="tokens a minute, input and reserved output; none: no limit")
    burst_s: float = Field(60.0, gt=0, le=3600, description="how many seconds' worth may come at once")
    concurrency: int | None = Field(None, ge=1, description="requests at the same time; more are answered 429")


class Batches(Settings):
    """Files and batches."""

    delay_s: Seconds = Field(0.0, description="seconds from a batch's creation to its end")
    failed: Share = Field(0.0, description="share of a batch's requests that fail")
    expired: Share = Field(0.0, description="share of a batch's requests still undone when it expires; 0: none expires")
    rejected: Share = Field(0.0, description="share of batches that fail at validation")
    most_per_request: int = Field(
        2, ge=0, description="only the first so many batches that hold a question fail it or leave it undone"
    )
    max_requests: int = Field(50_000, ge=1, description="requests that a batch may hold")
    max_bytes: int = Field(200_000_000, ge=1, description="bytes that a batch may hold")
    max_upload: int | None = Field(
        None, ge=1, description="bytes of an upload after which the connection breaks, as a proxy's limit; none: any"
    )
    broken_lines: Share = Field(0.0, description="share of the lines of results that are cut in half")
    doubled_lines: Share = Field(0.0, description="share of the answers that a second line contradicts")
    results_at: str | None = Field(
        None, description="address to which results are redirected (307); none: they are here"
    )
    max_waiting: int | None = Field(
        None, ge=1, description="requests that may wait in batches at a time, a new batch included (OpenAI); none: any"
    )


class Scenario(Settings):
    """All settings of the fake server."""

    seed: int = Field(0, ge=0, description="seed of everything that looks random")
    answers: Answers = Answers()
    latency: Latency = Latency()
    faults: Faults = Faults()
    content: Content = Content()
    access: Access = Access()
    limits: Limits = Limits()
    batches: Batches = Batches()

    def with_changes(self, changes: Mapping[str, JsonValue], source: str) -> Scenario:
        """The scenario with some settings changed; tables are merged, `null` puts a setting back to its default.

        Raises:
            UsageError: where a setting is unknown or wrong: `source`, key, value.
        """
        return read_scenario(_merge(self.model_dump(mode="json", exclude_unset=True), changes), source)


def read_scenario(tables: Mapping[str, Any], source: str) -> Scenario:
    """The scenario that some tables describe.

    Raises:
        UsageError: where a setting is unknown or wrong: `source`, key, value.
    """
    try:
        return Scenario.model_validate(tables)
    except ValidationError as error:
        raise UsageError(f"{source}: {describe_fault(error, tables)}") from error


def load_scenario(path: Path) -> Scenario:
    """The scenario of a TOML file.

    Raises:
        UsageError: where it can't be read or is wrong.
    """
    try:
        tables = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error
    except ValueError as error:
        raise UsageError(f"{path}: not TOML: {error}") from error
    return read_scenario(tables, str(path))


def changes_of(assignments: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """`{"faults.cut": 0.1}` as nested tables."""
    tables: dict[str, JsonValue] = {}
    for name, value in assignments.items():
        table, _, key = name.rpartition(".")
        inner = tables.setdefault(table, {}) if table else tables
        if not isinstance(inner, dict):
            inner = tables[table] = {}
        inner[key] = value
    return tables


def _merge(old: Mapping[str, JsonValue], new: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    merged = dict(old)
    for key, value in new.items():
        before = merged.get(key)
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict) and isinstance(before, dict | None):
            merged[key] = _merge(before or {}, value)
        else:
            merged[key] = value
    return merged


def settings_markdown() -> str:
    """The table of all settings for the documentation."""
    lines = ["| setting | default | what it does |", "|---|---|---|"]
    for name, field in Scenario.model_fields.items():
        if isinstance(field.default, Settings):
            for key, inner in type(field.default).model_fields.items():
                lines.append(f"| `{name}.{key}` | {_shown(inner.default)} | {inner.description}{_named(inner)} |")
        else:
            lines.append(f"| `{name}` | {_shown(field.default)} | {field.description} |")
    return "\n".join(lines) + "\n"


def choices_of(field: FieldInfo) -> tuple[str, ...]:
    """The words that a setting takes; none where it takes others too."""
    kinds = (field.annotation, *get_args(field.annotation))
    return next((get_args(kind) for kind in kinds if get_origin(kind) is Literal), ())


def _named(field: FieldInfo) -> str:
    """The words that a setting takes, where its description does not say them."""
    choices = choices_of(field)
    untold = any(f"`{choice}`" not in (field.description or "") for choice in choices)
    return f" ({', '.join(f'`{choice}`' for choice in choices)})" if untold else ""


def _shown(default: object) -> str:
    if default is None or default == ():
        return "none"
    if isinstance(default, tuple):
        return ", ".join(map(str, default))
    return str(default).lower() if isinstance(default, bool) else str(default)
