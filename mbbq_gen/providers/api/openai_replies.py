"""How OpenAI's APIs answer, and servers that speak its language: chat completions, responses, first tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from mbbq_gen.core.records import Usage
from mbbq_gen.core.text import count_or_none
from mbbq_gen.providers.api.provider import answer_fields
from mbbq_gen.providers.http.errors import TransientError, finish_reason
from mbbq_gen.providers.http.replies import table_of, tables_of, text_of, words_of


def first_tokens(payload: Any) -> dict[str, float]:
    """Text of each first token in a chat completion → its natural log-probability; empty without `logprobs`.

    A service names the likeliest first tokens only, 20 at most at OpenAI. A label that is missing is less likely than
    all of them; how much less is unknown.

        {"choices": [{"logprobs": {"content": [{"token": "A", "logprob": -0.1, "top_logprobs": [
            {"token": "A", "logprob": -0.1}, {"token": " B", "logprob": -2.5}, …]}]}, …}]}

    Shape: https://platform.openai.com/docs/api-reference/chat/object
    """
    choices = tables_of(table_of(payload).get("choices"))
    content = tables_of(table_of(choices[0].get("logprobs")).get("content")) if choices else []
    named = tables_of(content[0].get("top_logprobs")) if content else []
    found: dict[str, float] = {}
    for entry in [*named, content[0]] if named else []:
        token, logprob = words_of(entry.get("token")), entry.get("logprob")
        if token is None or isinstance(logprob, bool) or not isinstance(logprob, int | float):
            continue
        if math.isfinite(logprob):
            found[token] = max(float(logprob), found.get(token, -math.inf))
    return found


def chat_fields(payload: Mapping[str, Any]) -> dict[str, Any]:
    """Text, reasoning, refusal, filter results and usage of a chat completion."""
    choices = tables_of(payload.get("choices"))
    if not choices:
        raise TransientError("malformed", "the response has no choice")
    choice, usage = choices[0], _usage(payload.get("usage"), "prompt", "completion")
    if choice.get("error"):
        raise TransientError("broken", "answered an error in the choice")
    reason = words_of(choice.get("finish_reason"))
    finish = finish_reason(reason, words_of(choice.get("native_finish_reason")))
    message = choice.get("message")
    if finish == "content_filter":
        message = table_of(message)
    if not isinstance(message, dict):
        raise TransientError("malformed", "the response has no message")
    text = _plain_text(message.get("content"))
    # in a field of its own (DeepSeek, vLLM, SGLang), or in parts (Mistral, OpenRouter)
    reasoning = words_of(message.get("reasoning_content")) or words_of(message.get("reasoning"))
    if not reasoning:
        parts = [part for part in tables_of(message.get("content")) if part.get("type") == "thinking"]
        texts = [_plain_text(part.get("thinking")) for part in parts]
        texts += [
            words_of(part.get("text") or part.get("summary")) for part in tables_of(message.get("reasoning_details"))
        ]
        reasoning = "".join(filter(None, texts))
    if not (text or reasoning or message.get("refusal")) and (usage.input_tokens, usage.output_tokens) == (0, 0):
        raise TransientError("server", "answered nothing, with no tokens in or out")
    results = {"prompt": payload.get("prompt_filter_results"), "answer": choice.get("content_filter_results")}
    return {
        "text": text if text is not None or finish == "content_filter" else "",
        "finish_reason": finish,
        "provider_finish_reason": reason,
        "refusal": words_of(message.get("refusal")) or None,
        "reasoning": reasoning or None,
        "content_filter": {name: found for name, found in results.items() if found} or None,
        "usage": usage,
    }


def _plain_text(content: Any) -> str | None:
    """A message's text, which some services send in parts or as a table; None where there is none, else TypeError."""
    if content is None:
        return None
    if isinstance(content, dict) and "text" in content:
        return text_of(content["text"])
    if not isinstance(content, list):
        return text_of(content)
    parts = [part for part in content if not isinstance(part, dict) or part.get("type", "text") == "text"]
    return "".join(text_of(part.get("text") if isinstance(part, dict) else part) for part in parts)


def response_fields(payload: Mapping[str, Any]) -> dict[str, Any]:
    """The same of the responses API."""
    if not isinstance(payload.get("output"), list):
        raise TransientError("malformed", "the response has no output")
    if words_of(payload.get("status")) in {"failed", "cancelled", "in_progress", "queued"}:
        raise TransientError("server", f"the response is {payload['status']}")
    items = tables_of(payload.get("output"))
    parts = [part for item in items for part in tables_of(item.get("content"))]  # reasoning has another type
    text = "".join(text_of(part.get("text")) for part in parts if part.get("type") == "output_text")
    refusal = "".join(words_of(part.get("refusal")) or "" for part in parts if part.get("type") == "refusal")
    reasoning = "\n".join(
        words_of(part.get("text")) or ""
        for item in items
        if item.get("type") == "reasoning"
        for part in tables_of(item.get("summary")) or tables_of(item.get("content"))
    )
    reason = words_of(table_of(payload.get("incomplete_details")).get("reason")) or words_of(payload.get("status"))
    finish = finish_reason(reason) or "other"
    return answer_fields(
        text, finish, reason, _usage(payload.get("usage"), "input", "output"), refusal=refusal, reasoning=reasoning
    )


def _usage(found: Any, read: str, written: str) -> Usage:
    """Tokens, under the names of either API."""
    if not isinstance(found, dict):
        return Usage()
    reasoning = count_or_none(table_of(found.get(f"{written}_tokens_details")).get("reasoning_tokens"))
    prompt, output = found.get(f"{read}_tokens"), found.get(f"{written}_tokens")
    if reasoning:  # xAI counts thinking beside what was written
        counts = [count_or_none(count) for count in (prompt, output, found.get("total_tokens"))]
        if None not in counts and sum(filter(None, counts[:2])) + reasoning == counts[2]:
            output = (counts[1] or 0) + reasoning
    cached = table_of(found.get(f"{read}_tokens_details")).get("cached_tokens")
    return Usage(input_tokens=prompt, output_tokens=output, reasoning_tokens=reasoning, cached_input_tokens=cached)
