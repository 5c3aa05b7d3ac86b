"""What services take to say how much a model thinks: each service's words for the levels of `mbbq_gen.reasoning`.

    OpenAI, Azure, Groq, xAI, Mistral    reasoning_effort
    OpenRouter                           reasoning: {effort | max_tokens | enabled}
    Together                             reasoning: {enabled}, reasoning_effort
    DeepSeek                             thinking: {type}, reasoning_effort
    vLLM, SGLang, llama.cpp              chat_template_kwargs: {enable_thinking, thinking}, reasoning_effort
    Anthropic                            thinking: {type, budget_tokens}, output_config: {effort}
    Gemini                               thinkingConfig: {thinkingBudget | thinkingLevel}

What a model is known to refuse is refused here, before anything is asked; of models that are not known, the service's
own refusal ends the run. Sources: the services' references, as of the dates in docs/thinking.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final, Literal

from pydantic import JsonValue

from mbbq_gen.reasoning import Thinking, refusal, room_for, tokens_of

ThinkingBy = Literal["effort", "groq", "openrouter", "together", "switch", "template"]
"""In which words a server that speaks OpenAI's language is told."""
_SAMPLING: Final = ("temperature", "top_p")
_EFFORTS: Final = ("low", "medium", "high")
_SWITCH_EFFORTS: Final = ("low", "high")
"""DeepSeek takes minimal for low, and medium for high: as levels of a run they would be the same one twice."""

# --- OpenAI and those who speak its language ------------------------------------------------------------------------

_O_SERIES: Final = re.compile(r"(?:^|/)o\d+(?:-|$)")
_GPT_5: Final = re.compile(r"(?:^|/)gpt-5(?!\.\d)(?!.*chat)")
"""GPT-5 itself, not 5.1 and later, which need not think."""
_GPT_5_LATER: Final = re.compile(r"(?:^|/)gpt-5\.\d")
_GPT_5_PRO: Final = re.compile(r"(?:^|/)gpt-5-pro")
_NO_THOUGHT: Final = re.compile(r"(?:^|/)(?:gpt-[34]|chatgpt|gpt-5.*chat|davinci|babbage)")


def openai_thinking(name: str, model: str, level: str, *, at_responses: bool) -> Thinking:
    """What a level comes to at OpenAI or Azure; temperature is left out where a model thinks at all.

    Raises:
        UsageError: where a model of OpenAI's is known not to take it.
    """
    if tokens_of(level) is not None or level == "on":
        raise refusal(name, level, "takes an effort: off, minimal, low, medium or high, as the model has them")
    if _NO_THOUGHT.search(model):
        if level == "off":
            return Thinking()
        raise refusal(name, level, "does not think; leave --reasoning out, or name a model that does")
    if level in ("off", "minimal") and _O_SERIES.search(model):
        raise refusal(name, level, "always thinks; it takes low, medium or high")
    if level != "high" and _GPT_5_PRO.search(model):
        raise refusal(name, level, "takes high, and nothing else")
    if level == "minimal" and _GPT_5_LATER.search(model):
        raise refusal(name, level, "has no such effort; it takes off, low, medium or high")
    if level == "off" and _GPT_5.search(model):
        raise refusal(name, level, "can't be kept from thinking; the least that it takes is minimal")
    effort = "none" if level == "off" else level
    sent: dict[str, JsonValue] = {"reasoning_effort": effort}
    if at_responses:
        sent = {"reasoning": {"effort": effort} if level == "off" else {"effort": effort, "summary": "auto"}}
    return Thinking(sent=sent, left_out=_SAMPLING, room=room_for(level))


def server_thinking(name: str, model: str, level: str, by: ThinkingBy) -> Thinking:
    """What a level comes to at another server that speaks OpenAI's language.

    Raises:
        UsageError: where it has no words for the level.
    """
    sent = _WAYS[by](name, model, level)
    return Thinking(sent=sent, left_out=_SAMPLING if by == "switch" else (), room=room_for(level))


def _effort(name: str, _model: str, level: str) -> dict[str, JsonValue]:
    if tokens_of(level) is not None or level == "on":
        raise refusal(name, level, "takes an effort: off, low, medium or high, as the model has them")
    return {"reasoning_effort": "none" if level == "off" else level}


def _groq(name: str, model: str, level: str) -> dict[str, JsonValue]:
    """Efforts; models that have none think unless they are told not to."""
    return {} if level == "on" else _effort(name, model, level)


def _together(name: str, model: str, level: str) -> dict[str, JsonValue]:
    """A switch for models that can be told to think or not, an effort for those that have efforts."""
    if level in ("off", "on"):
        return {"reasoning": {"enabled": level == "on"}}
    return _effort(name, model, level)


def _openrouter(_name: str, _model: str, level: str) -> dict[str, JsonValue]:
    tokens = tokens_of(level)
    if tokens is not None:
        return {"reasoning": {"max_tokens": tokens}}
    return {"reasoning": {"enabled": level == "on"} if level in ("off", "on") else {"effort": level}}


def _switch(name: str, model: str, level: str) -> dict[str, JsonValue]:
    if level not in ("off", "on", *_SWITCH_EFFORTS):
        raise refusal(name, level, "takes off, on, low or high; another effort would be taken for one of these")
    if level == "off" and "reasoner" in model:
        raise refusal(name, level, "always thinks; name the model that need not, or --reasoning on")
    told: dict[str, JsonValue] = {"thinking": {"type": "disabled" if level == "off" else "enabled"}}
    return {**told, "reasoning_effort": level} if level in _SWITCH_EFFORTS else told


def _template(name: str, _model: str, level: str) -> dict[str, JsonValue]:
    if tokens_of(level) is not None:
        raise refusal(
            name, level, "takes no number of tokens; name off, on, low, medium or high, or --option reasoning_by=…"
        )
    thinks = level != "off"
    told: dict[str, JsonValue] = {"enable_thinking": thinks, "thinking": thinks}
    if level in ("off", "on"):
        return {"chat_template_kwargs": told}
    return {"chat_template_kwargs": {**told, "reasoning_effort": level}, "reasoning_effort": level}


_WAYS: Final[Mapping[ThinkingBy, Callable[[str, str, str], dict[str, JsonValue]]]] = {
    "effort": _effort,
    "groq": _groq,
    "openrouter": _openrouter,
    "together": _together,
    "switch": _switch,
    "template": _template,
}

# --- Anthropic ------------------------------------------------------------------------------------------------------

_CLAUDE_BEFORE: Final = re.compile(r"claude-(?:instant|2|3-(?!7))")
"""Models that do not think."""
_CLAUDE_BUDGET: Final = re.compile(r"claude-(?:3-7|(?:opus|sonnet|haiku)-4(?:-[0-5](?!\d)|-\d{8}|@|$)|haiku-4)")
"""Models that take a budget, and no effort."""
_CLAUDE_BOTH: Final = re.compile(r"claude-(?:opus|sonnet)-4-6")
_CLAUDE_ALWAYS: Final = re.compile(r"claude-(?:fable|mythos|opus-5-5)")
"""Models that can't be kept from thinking."""
_CLAUDE_BETWEEN: Final = re.compile(r"claude-sonnet-5-5")
"""Where thinking between tools, of which we have none, is the least."""
_LEAST_BUDGET: Final = 1024


def claude_thinking(name: str, model: str, level: str) -> Thinking:
    """What a level comes to at a Claude model: a budget for the older ones, an effort for the newer.

    Raises:
        UsageError: where the model is known not to take it.
    """
    tokens = tokens_of(level)
    if _CLAUDE_BEFORE.search(model):
        if level == "off":
            return Thinking()
        raise refusal(name, level, "does not think; leave --reasoning out, or name a model that does")
    if level == "minimal":
        raise refusal(name, level, "has no such effort; it takes off, on, low, medium, high or tokens")
    if level == "off":
        if _CLAUDE_ALWAYS.search(model):
            raise refusal(name, level, "can't be kept from thinking; the least that it takes is low")
        least = "between_tools" if _CLAUDE_BETWEEN.search(model) else "disabled"
        return Thinking(sent={"thinking": {"type": least}}, left_out=_SAMPLING)
    if tokens is not None and tokens < _LEAST_BUDGET:
        raise refusal(name, level, f"thinks with {_LEAST_BUDGET:,} tokens or more")
    if _CLAUDE_BUDGET.search(model):
        return Thinking(sent=_budget(room_for(level)), left_out=_SAMPLING, room=room_for(level))
    if tokens is not None:
        if not _CLAUDE_BOTH.search(model):
            raise refusal(name, level, "takes an effort, no number of tokens: on, low, medium or high")
        return Thinking(sent=_budget(tokens), left_out=_SAMPLING, room=tokens)
    sent: dict[str, JsonValue] = {"thinking": {"type": "adaptive", "display": "summarized"}}
    if level in _EFFORTS:
        sent["output_config"] = {"effort": level}
    return Thinking(sent=sent, left_out=_SAMPLING, room=room_for(level))


def _budget(tokens: int) -> dict[str, JsonValue]:
    return {"thinking": {"type": "enabled", "budget_tokens": tokens}}


# --- Gemini ---------------------------------------------------------------------------------------------------------

_GEMINI_BUDGET: Final = re.compile(r"gemini-2\.5")
_GEMINI_BUDGETS: Final = {"pro": (128, 32_768), "flash-lite": (512, 24_576), "": (1, 24_576)}
"""What is in a model's name → the fewest and the most tokens that 2.5 thinks with."""
_GEMINI_BEFORE: Final = re.compile(r"gemini-(?:1|2\.0)|gemma|palm")


def gemini_thinking(name: str, model: str, level: str) -> Thinking:
    """What a level comes to at a Gemini model: a budget for 2.5, a level for 3 and later; thoughts are asked for.

    Raises:
        UsageError: where the model is known not to take it.
    """
    if _GEMINI_BEFORE.search(model):
        if level == "off":
            return Thinking()
        raise refusal(name, level, "does not think; leave --reasoning out, or name a model that does")
    if _GEMINI_BUDGET.search(model):
        if level == "minimal":
            raise refusal(name, level, "has no such level; it takes off, on, low, medium, high or tokens")
        if level == "off" and "pro" in model:
            raise refusal(name, level, "always thinks; the least that it takes is 128")
        tokens = tokens_of(level)
        least, most = next(bounds for family, bounds in _GEMINI_BUDGETS.items() if family in model)
        if tokens is not None and not least <= tokens <= most:
            raise refusal(name, level, f"thinks with {least:,} to {most:,} tokens")
        budget = -1 if level == "on" else room_for(level)
        config: dict[str, JsonValue] = {"thinkingBudget": budget}
    else:
        if tokens_of(level) is not None or level == "on":
            raise refusal(name, level, "takes a level, no tokens: minimal, low, medium or high, as the model has them")
        if level == "off":
            raise refusal(name, level, "always thinks; the least that it takes is minimal (Flash) or low")
        config = {"thinkingLevel": level}
    if level != "off":
        config["includeThoughts"] = True
    return Thinking(sent={"thinkingConfig": config}, room=room_for(level))
