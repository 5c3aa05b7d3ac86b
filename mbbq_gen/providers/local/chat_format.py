"""Renders messages by a local model's chat template, and splits completions into reasoning and answer.

Without a chat template, or with `prompt_format` `plain`, the contents of the messages are joined by a blank line.

`system` applies to messages without a system message. `default` leaves it to the template, which may add its own system
prompt (SmolLM2, Qwen2.5, Llama 3 do); `none` removes that; any other text becomes the system message. An empty system
message is not the same as `none`, since it renders an empty system turn. The turn is cut out:

    rendered with a system message S     <|im_start|>system\\nS<|im_end|>\\n<|im_start|>user\\nU<|im_end|>\\n…
    the system message rendered alone    <|im_start|>system\\nS<|im_end|>\\n
    the rest                                                                <|im_start|>user\\nU<|im_end|>\\n…

Models mark their reasoning with tokens. Some are plain text (`<think>`), others are special tokens (`[THINK]`,
`<|channel|>`) that decoding usually drops; here they are kept until the text is split. The markers are those of the
shared pack (`extractors/_shared.toml`) and those that the model's own chat template puts around reasoning.
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

from mbbq_gen.core.errors import MbbqGenError, ProviderError
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
        system: str = "default",
        template_args: Mapping[str, JsonValue] | None = None,
    ) -> None:
        """Raises ProviderError if the options are not possible with this tokenizer."""
        self.tokenizer = tokenizer
        self._system = system
        self._template_args = dict(template_args or {})
        has_template = tokenizer.chat_template is not None
        if prompt_format == "auto" and not has_template:
            _logger.warning(
                "%s: has no chat template; the messages are sent as plain text (base models: --method loglikelihood)",
                model,
            )
        self.uses_template = has_template and prompt_format != "plain"
        self._cuts_system = False
        if not self.uses_template or system == "default":
            return
        question = {"role": "user", "content": _PROBE}
        try:
            if system != "none":
                self._render([{"role": "system", "content": _PROBE}, question])
            elif len(self._render([question]).partition(_PROBE)[0].split()) > 2:  # a shorter text is no system prompt
                self._cuts_system = bool(self._without_system([question]))
        except PromptError as error:
            line = f"{model}: system {system!r} is not possible with its chat template ({error}); leave it at 'default'"
            raise ProviderError(line) from error

    def tokens(self, messages: Sequence[Message]) -> tuple[int, ...]:
        """The prompt's tokens; raises PromptError if there are none, or the template refuses the messages."""
        text = self.text(messages)
        tokens = tuple(self.tokenizer(text, add_special_tokens=not self.uses_template)["input_ids"])
        if not tokens:
            raise PromptError("the prompt is empty")
        return tokens

    def text(self, messages: Sequence[Message]) -> str:
        """The rendered text; raises PromptError if the template refuses the messages."""
        turns = [{"role": message.role, "content": message.content} for message in messages]
        has_system = any(turn["role"] == "system" for turn in turns)
        if not has_system and self._system not in ("default", "none"):
            turns = [{"role": "system", "content": self._system}, *turns]
        if not self.uses_template:
            return "\n\n".join(turn["content"] for turn in turns)
        if self._cuts_system and not has_system:
            return self._without_system(turns)
        return self._render(turns)

    def with_reasoning(self, model: str, level: str) -> ChatFormatter:
        """A copy with a reasoning effort; raises UsageError if the chat template has no variable for it."""
        template = chat_template(self.tokenizer) if self.uses_template else None
        other = copy(self)
        other._template_args = {**self._template_args, **template_reasoning(model, template, level).sent}
        return other

    def scored_text(self, messages: Sequence[Message]) -> str:
        """The text before answers: the chat template with the assistant's turn opened, or `plain_text`."""
        if self.uses_template:
            return self.text(messages)
        system = "" if self._system in ("default", "none") else f"{self._system}\n\n"
        has_system = any(message.role == "system" for message in messages)
        return plain_text(messages) if has_system else system + plain_text(messages)

    def scoring_prompt(
        self, messages: Sequence[Message], answers: Sequence[Continuation], *, verbatim: bool
    ) -> ScoringPrompt:
        """Prompt and answers as tokens, without end-of-text tokens; raises PromptError if one is empty."""
        uses_template = self.uses_template
        texts = scored_texts(self.scored_text(messages), answers, uses_template=uses_template, verbatim=verbatim)
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
        turns = [{"role": "user", "content": _PROBE}, {"role": "assistant", "content": _PROBE}]
        try:
            behind = self._render(turns, opens_answer=False).rpartition(_PROBE)[2]
        except PromptError:
            return None
        for token in self.tokenizer(behind.strip(), add_special_tokens=False)["input_ids"][:1]:
            added = self.tokenizer.added_tokens_decoder.get(token)
            if token in self.tokenizer.all_special_ids or (added is not None and added.special):
                return int(token)
        return None

    def _render(self, turns: Sequence[Mapping[str, str]], opens_answer: bool = True) -> str:
        from jinja2 import TemplateError

        try:
            text: str = self.tokenizer.apply_chat_template(
                list(turns), tokenize=False, add_generation_prompt=opens_answer, **self._template_args
            )
        except (TemplateError, TypeError, ValueError, IndexError, KeyError) as error:
            raise PromptError(f"the chat template refuses the messages: {error}") from error
        return text

    def _without_system(self, turns: Sequence[Mapping[str, str]]) -> str:
        """The turns rendered after a system message, which is then cut out."""
        system = {"role": "system", "content": _PROBE}
        whole, system_turn = self._render([system, *turns]), self._render([system], opens_answer=False)
        if not whole.startswith(system_turn):
            raise PromptError("the chat template does not separate the system message")
        rest = whole.removeprefix(system_turn)
        start = self.tokenizer.bos_token or ""
        needs_start = start and system_turn.startswith(start) and not rest.startswith(start)
        return start + rest if needs_start else rest


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
    """A prompt (`ChatFormatter.scored_text`), and its concatenation with each answer; `verbatim`: without a space."""
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
_PROBES = ("mbbq question", "mbbq reasoning", "mbbq answer")


class ReasoningMarkers:
    """The markers of reasoning for one tokenizer."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        shared = read_shared_pack(PackPaths()).reasoning
        pairs = [(block.open, block.close) for block in shared] + template_markers(tokenizer)
        self._opening = _any_of(opener for opener, _ in pairs)
        self._closing = _any_of(closer for _, closer in pairs)
        special = set(tokenizer.all_special_ids)
        special |= {token for token, added in tokenizer.added_tokens_decoder.items() if added.special}
        literals = [literal for pair in pairs for literal in pair]
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


def template_markers(tokenizer: Any) -> list[tuple[str, str]]:
    """The markers of reasoning in an assistant's turn of a chat template: one pair or none."""
    if tokenizer.chat_template is None:
        return []
    question, reasoning, answer = _PROBES
    turns = [{"role": "user", "content": question}]
    fields = dict.fromkeys(("reasoning_content", "reasoning", "thinking"), reasoning)
    try:
        before = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
        whole = tokenizer.apply_chat_template(
            [*turns, {"role": "assistant", "content": answer, **fields}], tokenize=False
        )
    except Exception:  # a template is code and may raise any error
        return []
    found = re.search(f"{re.escape(reasoning)}(.*?){re.escape(answer)}", whole, re.DOTALL)
    if found is None or not found.group(1).strip():
        return []
    opener = whole[len(before) : found.start()] if whole.startswith(before) else ""
    return [(opener.strip(), found.group(1).strip())]


def _any_of(literals: Iterable[str]) -> re.Pattern[str]:
    """A regular expression for any of the literals, longest first, ignoring case."""
    ordered = sorted(filter(None, literals), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, ordered)), re.IGNORECASE)
