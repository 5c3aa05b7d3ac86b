"""Any JSON endpoint: `http:FILE`, where a TOML file describes the format of requests and responses.

docs/providers.md shows such a file. In its body, {messages} is the list of {"role", "content"}, {prompt} all texts
joined by a blank line, {system} and {user} the system message and the last user message, {model} the file's `model`. A
value that is a single placeholder keeps its type.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import Field, JsonValue, ValidationError

from mbbq_gen.core.errors import DataError, PackError, UsageError, describe_fault
from mbbq_gen.core.files import file_digest
from mbbq_gen.core.records import FrozenModel, NonBlank, Request, Usage
from mbbq_gen.languages.packs import read_toml
from mbbq_gen.providers.api.options import RemoteOptions, checked_address
from mbbq_gen.providers.api.provider import ApiProvider, turns_of
from mbbq_gen.providers.api.service import JSON_BOTH_WAYS
from mbbq_gen.providers.http.errors import LENGTHS, TransientError
from mbbq_gen.providers.http.replies import text_or_none, value_at

_PLACEHOLDER: Final = re.compile(r"\{([a-z_]+)\}")
_OF_REQUEST: Final = frozenset({"messages", "prompt", "system", "user", "model", "max_tokens", "temperature", "top_p"})


class ResponsePaths(FrozenModel):
    """Paths of the fields in an answer."""

    text: NonBlank
    finish_reason: str | None = None
    refusal: str | None = None
    reasoning: str | None = None
    model: str | None = None
    request_id: str | None = None
    input_tokens: str | None = None
    output_tokens: str | None = None
    reasoning_tokens: str | None = None


class EndpointSpec(FrozenModel):
    """The content of a file."""

    url: NonBlank
    key: str | None = None
    model: str = ""
    """Value of {model}."""
    headers: dict[str, str] = Field(default_factory=dict)
    body: dict[str, JsonValue]
    answer: ResponsePaths
    finish_reasons: dict[Literal["stop", "length", "content_filter"], tuple[str, ...]] = Field(default_factory=dict)
    """Our finish reason → those of the service; by default the same."""


def read_description(path: Path) -> EndpointSpec:
    """The description in a file; raises DataError if it is unreadable or invalid."""
    try:
        content = read_toml(path)
    except (PackError, UsageError) as error:
        raise DataError(f"{error}; name a TOML file: http:FILE (docs/providers.md)") from error
    try:
        described = EndpointSpec.model_validate(content)
    except ValidationError as error:
        raise DataError(f"{path}: {describe_fault(error, content)}") from error
    checked_address(described.url, f"{path}: url")
    for where, known in (("headers", {"key", "model"}), ("body", _OF_REQUEST)):
        for name in _placeholders(getattr(described, where)) - known:
            raise DataError(f"{path}: {where}: unknown placeholder {{{name}}}; known: {', '.join(sorted(known))}")
    if not {"messages", "prompt", "user"} & _placeholders(described.body):
        raise DataError(f"{path}: body: holds no question; put {{messages}}, {{prompt}} or {{user}} somewhere")
    return described


def _placeholders(value: Any) -> set[str]:
    return set(_PLACEHOLDER.findall(json.dumps(value)))


def fill_in(template: JsonValue, values: Mapping[str, JsonValue]) -> JsonValue:
    """The template with its placeholders filled in; a single placeholder keeps the type of its value."""
    if isinstance(template, str):
        alone = _PLACEHOLDER.fullmatch(template)
        if alone is not None:
            return values[alone[1]]
        return _PLACEHOLDER.sub(lambda found: str(values[found[1]]), template)
    if isinstance(template, list):
        return [fill_in(entry, values) for entry in template]
    if isinstance(template, dict):
        return {name: fill_in(entry, values) for name, entry in template.items()}
    return template


_NOTHING: Final = object()
_REASONS: Final = ("stop", "length", "content_filter")


class HttpProvider(ApiProvider):
    """A model behind the endpoint that a file describes."""

    kind = "http"
    path = ""

    def __init__(self, model: str, options: RemoteOptions) -> None:
        """`model`: path of the file; raises DataError if the file is invalid."""
        path = Path(model).expanduser()
        self._description = described = read_description(path)
        if described.key or "key" in _placeholders(described.headers):
            self.key_variables = (described.key or "the key's variable (`key` in the file)",)
        for name in ("temperature", "top_p"):
            if name in options.model_fields_set and name not in _placeholders(described.body):
                raise UsageError(
                    f"{path}: [body] has no {{{name}}}, so --model-arg {name} would change nothing; leave it out"
                )
        self.address = described.url
        super().__init__(path.name, options)
        self.needs_key, self.own_settings = bool(self.key_variables), {"description_sha256": file_digest(path)}
        self.length_names = LENGTHS | set(re.findall(r'"([^"]+)": "\{max_tokens\}"', json.dumps(described.body)))

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """The headers of the file."""
        described = self._description
        values: dict[str, JsonValue] = {"key": self.secret.value if self.secret else "", "model": described.model}
        return {**JSON_BOTH_WAYS, **{name: str(fill_in(text, values)) for name, text in described.headers.items()}}

    def body_of(self, request: Request) -> dict[str, JsonValue]:
        """The file's body with its placeholders filled in."""
        by_role = {message.role: message.content for message in request.messages}
        values: dict[str, JsonValue] = {
            "messages": turns_of(request.messages),
            "prompt": "\n\n".join(message.content for message in request.messages),
            "system": by_role.get("system", ""),
            "user": by_role.get("user", ""),
            "model": self._description.model,
            "max_tokens": self.answer_limit(request),
            "temperature": self.options.temperature,
            "top_p": self.options.top_p,
        }
        body = {name: fill_in(template, values) for name, template in self._description.body.items()}
        return self.learned.apply(body | self.options.extra)

    def check_dialogue(self) -> None:
        """Raises UsageError if the body has no {messages}."""
        if '"{messages}"' not in json.dumps(self._description.body):
            raise UsageError(f"--follow-up: the body of {self.name} has no {{messages}}: it takes no second turn")

    def fields_of(self, payload: Any, headers: Mapping[str, str]) -> dict[str, Any]:
        """The fields at the paths that the file names."""
        paths = self._description.answer
        found = {name: value_at(payload, path, _NOTHING) for name, path in dict(paths).items() if path is not None}
        found = {name: value for name, value in found.items() if value is not _NOTHING}
        reason = found.get("finish_reason")
        reasons = {name: (name,) for name in _REASONS} | self._description.finish_reasons
        finish = next((name for name in _REASONS if str(reason) in reasons[name]), "other")
        text = "" if found.get("text", _NOTHING) is None else text_or_none(found.get("text"))
        if text is None and finish != "content_filter":
            raise TransientError("malformed", f"the response has nothing at {paths.text} (`answer.text` in the file)")
        return {
            "text": text,
            "finish_reason": None if reason is None else finish,
            "provider_finish_reason": None if reason is None else str(reason),
            "request_id": text_or_none(found.get("request_id")) or headers.get("x-request-id"),
            "usage": Usage(**{name: found.get(name) for name in ("input_tokens", "output_tokens", "reasoning_tokens")}),
            **{name: str(found[name]) for name in ("refusal", "reasoning", "model") if found.get(name)},
        }
