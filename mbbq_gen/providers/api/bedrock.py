"""Models on Amazon Bedrock: `bedrock:MODEL_ID`, through the Converse API, which is the same for all models.

Credentials and region are those of the AWS client (botocore): environment, profile, role of the machine; or a Bedrock
key in AWS_BEARER_TOKEN_BEDROCK. Answers that filters and guardrails stop are `content_filter`.
Reference: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_Converse.html
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from functools import cached_property
from typing import Any
from urllib.parse import quote

from pydantic import Field, JsonValue

from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.records import Request
from mbbq_gen.providers.api.options import RemoteOptions
from mbbq_gen.providers.api.provider import ApiProvider, answer_fields, usage_of
from mbbq_gen.providers.http.errors import TransientError, finish_reason
from mbbq_gen.providers.http.replies import tables_of, text_of, text_or_none, value_at


class BedrockOptions(RemoteOptions):
    """Options of `bedrock:MODEL_ID`."""

    region: str | None = Field(
        default=None, pattern=r"^[a-z0-9-]+$", description="AWS region; default AWS_REGION, or the profile's"
    )


class BedrockProvider(ApiProvider):
    """A model on Amazon Bedrock."""

    kind = "bedrock"
    options_class = BedrockOptions
    packages = ("botocore", "aiohttp")
    settings_field = "inferenceConfig"
    key_variables = ("AWS_BEARER_TOKEN_BEDROCK",)
    options: BedrockOptions

    def find_base_url(self) -> str:
        """The base URL from options or environment, or that of the region."""
        self.default_url = f"https://bedrock-runtime.{self._region}.amazonaws.com"
        return self.configured_url("AWS_ENDPOINT_URL_BEDROCK_RUNTIME") or self.default_url

    def check_access(self) -> None:
        """Raises UsageError if there are no credentials."""
        if self.secret is None and self._credentials is None:
            raise UsageError(
                f"{self.name}: no AWS credentials; set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY,"
                f" or a Bedrock key in {self.key_variables[0]}"
            )

    @cached_property
    def _credentials(self) -> Any:
        """The credentials that the AWS client finds, or None."""
        import botocore.session

        return botocore.session.get_session().get_credentials()

    async def headers_for(self, method: str, url: str, body: bytes) -> Mapping[str, str]:
        """All headers of one request, with its AWS signature (version 4) unless a key is used."""
        headers = {**self.headers, **self.user_headers}
        if self.secret is not None or self._credentials is None:
            return headers
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest

        found = await asyncio.to_thread(self._credentials.get_frozen_credentials)
        request = AWSRequest(method=method, url=url, data=body, headers=dict(headers))
        SigV4Auth(found, "bedrock", self._region).add_auth(request)
        return dict(request.headers.items())

    @cached_property
    def _region(self) -> str:
        """The region from options, environment or profile."""
        named = self.options.region or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
        if not named:
            import botocore.session

            named = botocore.session.get_session().get_config_variable("region")
        if not named:
            raise UsageError("bedrock: no region; set AWS_REGION, or give --model-arg region=us-east-1")
        return str(named)

    @property
    def path(self) -> str:
        """Path of the Converse API for the model."""
        return f"/model/{quote(self.model, safe='')}/converse"

    def body_of(self, request: Request) -> dict[str, JsonValue]:
        """The body of a Converse request; `extra` is passed to the model unchanged."""
        level, fields = request.prompt.reasoning_effort, self.options.extra
        sampling = {"temperature": "temperature", "top_p": "topP"}
        if level is not None:
            reasoning = self.reasoning_settings(level)
            fields = {**reasoning.sent, **fields}
            sampling = {name: other for name, other in sampling.items() if name not in reasoning.left_out}
        texts: list[tuple[str, JsonValue]] = [(turn.role, {"text": turn.content}) for turn in request.messages]
        body: dict[str, JsonValue] = {
            "messages": [{"role": role, "content": [text]} for role, text in texts if role != "system"],
            "inferenceConfig": {"maxTokens": self.longest_answer(request), **self.given(**sampling)},
            "system": [text for role, text in texts if role == "system"],
            "additionalModelRequestFields": fields,
        }
        return {name: value for name, value in body.items() if value}

    @property
    def reasoning_api(self) -> str:
        """Anthropic's parameters for Claude models."""
        return "anthropic" if "anthropic." in self.model else self.kind

    def fields_of(self, payload: Any, headers: Mapping[str, str]) -> dict[str, Any]:
        """The fields of a Converse answer."""
        reason = text_or_none(payload.get("stopReason"))
        finish, content = finish_reason(reason), value_at(payload, "output.message.content")
        if not isinstance(content, list) and finish != "content_filter":
            raise TransientError("malformed", "the response is JSON without a message")
        blocks = tables_of(content)
        read = ("inputTokens", "cacheReadInputTokens", "cacheWriteInputTokens")  # cached tokens are input too
        return answer_fields(
            "".join(text_of(block.get("text")) for block in blocks),
            finish,
            reason,
            usage_of(payload.get("usage"), read, ("outputTokens",), cached=("cacheReadInputTokens",)),
            reasoning="".join(
                text_or_none(value_at(block, "reasoningContent.reasoningText.text")) or "" for block in blocks
            ),
            content_filter=payload.get("trace") if finish == "content_filter" else None,
            request_id=headers.get("x-amzn-requestid"),
        )
