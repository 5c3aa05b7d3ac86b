"""Renders messages by a local model's chat template, and splits completions into reasoning and answer.

Without a chat template, or with `prompt_format` `plain`, the contents of the messages are joined by a blank line.
Where there is no system message, a template may add its own (SmolLM2, Qwen2.5 and Llama 3 do).

Models mark their reasoning with tokens. Some are plain text (`<think>`), others are special tokens (`[THINK]`,
`<|channel|>`) that decoding usually drops; here they are kept until the text is split. The markers are those of the
shared pack (`extractors/_shared.toml`).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal
from unicodedata import east_asian_width

from pydantic import JsonValue

from mbbq_gen.core.errors import MbbqGenError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.reasoning import ReasoningSettings, effort_error, reasoning_token_allowance, tokens_of
from mbbq_gen.core.records import Continuation, Message
from mbbq_gen.languages.extraction_pack import read_shared_pack

PromptFormat = Literal["auto", "plain"]

_logger = logging.getLogger(__name__)
_PROBE = "mbbq probe"


class PromptError(MbbqGenError):
    """Messages that can't be rendered or tokenized for the model."""


class ChatFormatter:
    """Messages → text → tokens, with one tokenizer and one set of options."""

    def __init__(
        self,
        tokenizer: Any,
        model: str,
        prompt_format: PromptFormat = "auto",
        template_args: Mapping[str, JsonValue] | None = None,
    ) -> None:
        self.tokenizer = tokenizer
        self._template_args = dict(template_args or {})
        has_template = tokenizer.chat_template is not None
        if prompt_format == "auto" and not has_template:
            _logger.warning(
                "%s: has no chat template; the messages are sent as plain text (base models: --method loglikelihood)",
                model,
            )
        self.uses_template = has_template and prompt_format != "plain"

    def tokens(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """The prompt's tokens; raises PromptError if there are none, or the template refuses the messages."""
        text = self.text(messages)
        tokens = tuple(self.tokenizer(text, add_special_tokens=not self.uses_template)["input_ids"])
        if not tokens:
            raise PromptError("the prompt is empty")
        return tokens

    def text(self, messages: Sequence[Message]) -> str:
        """The rendered text; raises PromptError if the template refuses the messages."""
        if self.uses_template:
            return self._render(messages)
        return "\n\n".join(message.content for message in messages)

    def with_reasoning(self, model: str, level: str) -> ChatFormatter:
        """A copy with a reasoning effort; raises UsageError if the chat template has no variable for it."""
        template = chat_template(self.tokenizer) if self.uses_template else None
        other = copy(self)
        other._template_args = {**self._template_args, **template_reasoning(model, template, level).sent}
        return other

    def scoring_prompt(
        self, messages: Sequence[Message], answers: Sequence[Continuation], *, verbatim: bool
    ) -> ScoringPrompt:
        """Prompt and answers as tokens, without end-of-text tokens; raises PromptError if one is empty."""
        uses_template = self.uses_template
        text = self._render(messages) if uses_template else plain_text(messages)
        texts = scored_texts(text, answers, uses_template=uses_template, verbatim=verbatim)
        end, written = self.tokenizer.eos_token_id, self.tokenizer.eos_token
        found = self.tokenizer(list(texts), add_special_tokens=not uses_template)["input_ids"]
        read, *whole = (
            tokens[:-1] if not uses_template and tokens[-1:] == [end] and not text.endswith(written) else tokens
            for text, tokens in zip(texts, found, strict=True)
        )
        return scoring_prompt(answers, read, whole)

    def end_of_turn(self) -> int | None:
        """The special token that the template puts after the assistant's text, or None."""
        if not self.uses_template:
            return None
        turns = [Message(role="user", content=_PROBE), Message(role="assistant", content=_PROBE)]
        try:
            behind = self._render(turns, opens_answer=False).rpartition(_PROBE)[2]
        except PromptError:
            return None
        for token in self.tokenizer(behind.strip(), add_special_tokens=False)["input_ids"][:1]:
            added = self.tokenizer.added_tokens_decoder.get(token)
            if token in self.tokenizer.all_special_ids or (added is not None and added.special):
                return int(token)
        return None

    def _render(self, messages: Sequence[Message], opens_answer: bool = True) -> str:
        from jinja2 import TemplateError

        turns = [{"role": message.role, "content": message.content} for message in messages]
        try:
            text: str = self.tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=opens_answer, **self._template_args
            )
        except (TemplateError, TypeError, ValueError, IndexError, KeyError) as error:
            raise PromptError(f"the chat template refuses the messages: {error}") from error
        return text


def chat_template(tokenizer: Any) -> str | None:
    """A tokenizer's chat template, or all of them joined; None if it has none."""
    template = tokenizer.chat_template
    return "\n".join(template.values()) if isinstance(template, dict) else template


def template_reasoning(model: str, template: str | None, level: str) -> ReasoningSettings:
    """The variables of a chat template for a reasoning effort; raises UsageError if it has none."""
    known = {  # variables are words without dots and quotes
        name
        for name in ("enable_thinking", "thinking", "reasoning_effort")
        if template is not None and re.search(rf"(?<![\w.'\"]){name}(?![\w'\"])", template)
    }
    if tokens_of(level) is not None or level == "minimal":
        raise effort_error(model, level, "can't be held to it on this machine; name none, default, low, medium or high")
    sent: dict[str, JsonValue] = dict.fromkeys(sorted(known - {"reasoning_effort"}), level != "none")
    if level in ("low", "medium", "high") and "reasoning_effort" in known:
        return ReasoningSettings(sent={"reasoning_effort": level, **sent}, room=reasoning_token_allowance(level))
    if level in ("none", "default") and sent:
        return ReasoningSettings(sent=sent, room=reasoning_token_allowance(level))
    has = f"has only {', '.join(sorted(known))}" if known else "has no variable that says how much to think"
    raise effort_error(model, level, f"has no such setting: its chat template {has}; leave --reasoning-effort out")


def plain_text(messages: Sequence[Message]) -> str:
    """The text before answers without a chat template.

    The contents of the messages are joined by a blank line, and each solved example's answer follows its question:

        Question: …                     Text of a solved example, then of the question
        Answer: The grandson

        Question: …
        Answer:
    """
    text = ""
    for message in messages:
        is_answer = message.role == "assistant"
        text += (space_before(text) if is_answer else "\n\n" if text else "") + message.content
    return text


def space_before(prompt: str) -> str:
    """The separator of a plain prompt and its answer: a space, or nothing after white space or a full-width sign."""
    last = prompt[-1:]
    return "" if not last or last.isspace() or east_asian_width(last) in ("W", "F") else " "


@dataclass(frozen=True)
class ScoringPrompt:
    """A prompt and its answers, as tokens."""

    prompt: tuple[int, ...]
    answers: tuple[tuple[int, ...], ...]
    merged: bool
    """Whether the tokenizer merged the end of the prompt with the beginning of an answer."""


def scored_texts(
    prompt: str, answers: Sequence[Continuation], *, uses_template: bool, verbatim: bool
) -> tuple[str, ...]:
    """A prompt, and its concatenation with each answer; `verbatim`: without a space between them."""
    between = "" if verbatim or uses_template else space_before(prompt)
    body = prompt.rstrip()
    if not uses_template and body != prompt:  # tokenizers attach white space to the text after it
        prompt, between = body, prompt[len(body) :]
    return (prompt, *(f"{prompt}{between}{answer.text}" for answer in answers))


def scoring_prompt(
    answers: Sequence[Continuation], read: Sequence[int], whole: Sequence[Sequence[int]]
) -> ScoringPrompt:
    """Tokens of a prompt and its answers; `read` and `whole` are the tokens of the texts from `scored_texts`.

    The tokens of an answer are those of prompt and answer as one text, minus those of the prompt. Raises PromptError if
    the prompt or an answer has no tokens.
    """
    start = min(len(read), *(shared_length(read, tokens) for tokens in whole))
    if start < 1:
        raise PromptError("the prompt is empty, or the tokenizer merges all of it with an answer")
    for answer, tokens in zip(answers, whole, strict=True):
        if len(tokens) <= start:
            raise PromptError(f"the answer {answer.text!r} has no tokens of its own in this model's tokenizer")
    return ScoringPrompt(
        prompt=tuple(read[:start]), answers=tuple(tuple(tokens[start:]) for tokens in whole), merged=start < len(read)
    )


def shared_length(first: Sequence[int], second: Sequence[int]) -> int:
    """Length of the longest common prefix of two sequences."""
    limit = min(len(first), len(second))
    return next((place for place in range(limit) if first[place] != second[place]), limit)


_TAIL_TOKENS = 32
"""Tokens at the end of a prompt that are searched for an opening marker."""


class ReasoningMarkers:
    """The markers of reasoning for one tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        blocks = read_shared_pack(PackPaths()).reasoning
        self._opening = _any_of(block.open for block in blocks)
        self._closing = _any_of(block.close for block in blocks)
        special = set(tokenizer.all_special_ids)
        special |= {token for token, added in tokenizer.added_tokens_decoder.items() if added.special}
        literals = [literal for block in blocks for literal in (block.open, block.close)]
        names = {token: self._decode([token]).strip() for token in special}
        kept = {token: name for token, name in names.items() if name and any(name in literal for literal in literals)}
        self._dropped = special - set(kept)
        self._kept = _any_of(kept.values()) if kept else None

    def split(self, prompt: Sequence[int], completion: Sequence[int]) -> tuple[str, str | None]:
        """The answer and the reasoning in a completion, both without markers.

        Reasoning ends at the last closing marker. If the prompt ends with an opening marker, it begins with the
        completion. Reasoning without a closing marker leaves no answer after it.
        """
        text = self._decode([token for token in completion if token not in self._dropped])
        closers, tail = list(self._closing.finditer(text)), self._decode(prompt[-_TAIL_TOKENS:]).rstrip()
        if closers:
            reasoning, answer = text[: closers[-1].start()], text[closers[-1].end() :]
        elif opener := self._opening.search(text):
            reasoning, answer = text[opener.end() :], text[: opener.start()]
        elif any(match.end() == len(tail) for match in self._opening.finditer(tail)):
            reasoning, answer = text, ""
        else:
            return text, None
        for marker in filter(None, (self._closing, self._opening, self._kept)):
            reasoning, answer = marker.sub("", reasoning), marker.sub("", answer)
        return answer, reasoning.strip() or None

    def _decode(self, tokens: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text


def _any_of(literals: Iterable[str]) -> re.Pattern[str]:
    """A regular expression for any of the literals, longest first, ignoring case."""
    ordered = sorted(filter(None, literals), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, ordered)), re.IGNORECASE)
