"""Anthropic's models: `anthropic:MODEL`, the messages API.

Answers that its safety classifiers stop (`stop_reason: refusal`) are `content_filter`.
Reference: https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any, Literal

from pydantic import Field, JsonValue

from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.records import Request
from mbbq_gen.providers.api.options import RemoteOptions
from mbbq_gen.providers.api.provider import ApiProvider, answer_fields, system_text, turns_of, usage_of
from mbbq_gen.providers.api.service import JSON_BOTH_WAYS
from mbbq_gen.providers.base import Capabilities
from mbbq_gen.providers.http.credentials import CloudToken, vertex_place
from mbbq_gen.providers.http.errors import TransientError, finish_reason
from mbbq_gen.providers.http.replies import tables_of, text_of, text_or_none


class AnthropicOptions(RemoteOptions):
    """Options of `anthropic:MODEL`."""

    top_k: int | None = Field(default=None, ge=1, description="number of the likeliest tokens; default: not sent")
    platform: Literal["anthropic", "vertex"] = Field(
        default="anthropic", description="vertex: Google's Vertex AI, with Google's credentials"
    )


class AnthropicProvider(ApiProvider):
    """A model of Anthropic."""

    kind = "anthropic"
    capabilities = Capabilities(batches=True, reasoning=True, structured_output=True)
    renames_length = False
    options_class = AnthropicOptions
    address: str = "https://api.anthropic.com"
    address_variable: str = "ANTHROPIC_BASE_URL"
    key_variables: tuple[str, ...] = ("ANTHROPIC_API_KEY",)
    setting_names = ("max_tokens", "temperature", "top_p", "top_k")
    path: str = "/v1/messages"
    base_url_form = "--base-url, which has no version at its end"
    no_temperature = re.compile(r"claude-opus-4-[7-9]|claude-(?:opus|sonnet|haiku)-[5-9]")
    options: AnthropicOptions

    def __init__(self, model: str, options: AnthropicOptions) -> None:
        """Raises UsageError for `platform=vertex` without a project."""
        self.is_vertex = options.platform == "vertex"
        if self.is_vertex:
            place = vertex_place(("ANTHROPIC_VERTEX_PROJECT_ID",), ("CLOUD_ML_REGION",))
            if place is None:
                raise UsageError("anthropic on vertex: no project; set ANTHROPIC_VERTEX_PROJECT_ID and CLOUD_ML_REGION")
            self.address, self._vertex_path = place
            self.address_variable, self.key_variables = "ANTHROPIC_VERTEX_BASE_URL", ()
            self.cloud = CloudToken("vertex")
            self.path, self.models_path = f"/models/{model}:rawPredict", ""  # there is no list of models
            self.capabilities = replace(self.capabilities, batches=False)  # Vertex AI needs a storage bucket for them
        super().__init__(model, options)
        if self.is_vertex:
            self.default_url, self.own_settings = self.base_url, {"platform": "vertex"}

    @cached_property
    def root(self) -> str:
        """Anthropic's URL; on Vertex AI, below project and region."""
        return f"{self.base_url}/v1{self._vertex_path}/publishers/anthropic" if self.is_vertex else self.base_url

    @cached_property
    def headers(self) -> Mapping[str, str]:
        """Anthropic's headers; on Vertex AI, a token is added."""
        key = {"X-Api-Key": self.secret.value if self.secret else "none", "anthropic-version": "2023-06-01"}
        return JSON_BOTH_WAYS if self.is_vertex else {**JSON_BOTH_WAYS, **key}

    def body_of(self, request: Request) -> dict[str, JsonValue]:
        """The body of a message request; the system message has a field of its own."""
        name, value = ("anthropic_version", "vertex-2023-10-16") if self.is_vertex else ("model", self.model)
        body: dict[str, JsonValue] = {name: value}
        body |= {"max_tokens": self.answer_limit(request), "messages": turns_of(request.messages, system=False)}
        if system := system_text(request.messages):
            body["system"] = system
        body = self.with_reasoning(body | self.given("temperature", "top_p", "top_k"), request, "max_tokens")
        return self.learned.apply(body | self.options.extra)

    def fields_of(self, payload: Any, headers: Mapping[str, str]) -> dict[str, Any]:
        """The fields of a message."""
        if not isinstance(payload["content"], list):
            raise TransientError("malformed", "the response is JSON without a message")
        blocks = tables_of(payload["content"])
        traces = [text_or_none(block.get("thinking")) or "" for block in blocks if block.get("type") == "thinking"]
        reason = text_or_none(payload.get("stop_reason"))
        finish, details = finish_reason(reason), "output_tokens_details"
        usage = usage_of(
            payload.get("usage"),
            # tokens read from or written to the service's cache are input too
            ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"),
            ("output_tokens",),
            reasoning=(f"{details}.thinking_tokens", f"{details}.reasoning_tokens"),
            cached=("cache_read_input_tokens",),
        )
        return answer_fields(
            "".join(text_of(block.get("text")) for block in blocks if block.get("type") == "text"),
            finish,
            reason,
            usage,
            content_filter=payload.get("stop_details") if finish == "content_filter" else None,
            reasoning="".join(traces),
            model=text_or_none(payload.get("model")),
            request_id=headers.get("request-id") or text_or_none(payload.get("id")),
        )
