"""How a service is asked to answer with JSON of a given schema; a service that can't is left to what the prompt says.

What is sent is a field more of the request body (`extra`), so it is part of the settings, and a model that refuses it
is asked without it, as with every refused parameter (`remote.learned`).

* OpenAI and servers like it: https://platform.openai.com/docs/guides/structured-outputs
* Anthropic: https://docs.anthropic.com/en/docs/build-with-claude/structured-outputs
* Gemini: https://ai.google.dev/gemini-api/docs/structured-output
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import JsonValue

from mbbq_gen.errors import UsageError


def structured_fields(kind: str, schema: Mapping[str, JsonValue], *, api: object = None) -> dict[str, JsonValue]:
    """The fields of a request body that ask for JSON of a schema; none where nothing is known for the kind.

    Args:
        kind: of provider, as in `kind:model`.
        schema: of the answer, a JSON schema.
        api: the provider's option of that name: OpenAI's responses API has a place of its own for it.
    """
    plain = dict(schema)
    if kind == "openai" and api == "responses":
        return {"text": {"format": {"type": "json_schema", "name": "reading", "strict": True, "schema": plain}}}
    if kind == "openai":
        form: dict[str, JsonValue] = {"name": "reading", "strict": True, "schema": plain}
        return {"response_format": {"type": "json_schema", "json_schema": form}}
    if kind == "anthropic":
        return {"output_config": {"format": {"type": "json_schema", "schema": plain}}}
    if kind == "gemini":
        return {"responseMimeType": "application/json", "responseJsonSchema": plain}
    return {}


def with_structure(
    kind: str, options: Mapping[str, JsonValue], schema: Mapping[str, JsonValue]
) -> dict[str, JsonValue]:
    """The options of a provider that asks for JSON of a schema; what the user's own `extra` says stays.

    Raises:
        UsageError: where the user's `extra` is no JSON object.
    """
    fields = structured_fields(kind, schema, api=options.get("api"))
    if not fields:
        return dict(options)
    own = options.get("extra", {})
    if isinstance(own, str):
        try:
            own = json.loads(own)
        except ValueError as error:
            raise UsageError(f"--option extra={own}: not JSON ({error})") from error
    if not isinstance(own, dict):
        raise UsageError("--option extra: write it as a JSON object")
    return {**options, "extra": {**fields, **own}}
