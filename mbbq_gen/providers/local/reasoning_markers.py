"""Separates the reasoning of a local model from its answer.

Models mark their reasoning with tokens. Some are plain text (`<think>`), others are special tokens (`[THINK]`,
`<|channel|>`) that decoding usually drops, so that reasoning and answer run together. Here these special tokens are
kept until the text is split. The markers are those of the shared pack (`extractors/_shared.toml`) and those that the
model's own chat template puts around the reasoning of an assistant's turn.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from mbbq_gen.core.files import PackPaths
from mbbq_gen.languages.extraction_pack import read_shared_pack

_TAIL_TOKENS = 32
"""Tokens at the end of a prompt in which a marker that opens the reasoning is looked for."""
_PROBES = ("mbbq question", "mbbq reasoning", "mbbq answer")


class SplitText(NamedTuple):
    """A completion, parted."""

    text: str
    reasoning: str | None
    """None where the model gave none."""


class ReasoningMarkers:
    """Finds the markers of one tokenizer in token lists and texts."""

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

    def split(self, prompt: Sequence[int], completion: Sequence[int]) -> SplitText:
        """The reasoning and the answer in a completion, both without markers.

        Reasoning ends at the last marker that closes it. It begins with the completion where the prompt opens it.
        Reasoning that is not closed leaves no answer.
        """
        text = self._decode([token for token in completion if token not in self._dropped])
        closers = list(self._closing.finditer(text))
        if closers:
            reasoning, answer = text[: closers[-1].start()], text[closers[-1].end() :]
        elif opener := self._opening.search(text):
            reasoning, answer = text[opener.end() :], text[: opener.start()]
        elif self._opens(prompt):
            reasoning, answer = text, ""
        else:
            return SplitText(text, None)
        for marker in filter(None, (self._closing, self._opening, self._kept)):
            reasoning, answer = marker.sub("", reasoning), marker.sub("", answer)
        return SplitText(answer, reasoning.strip() or None)

    def _opens(self, prompt: Sequence[int]) -> bool:
        """Whether a prompt ends with a marker that opens the reasoning."""
        tail = self._decode(prompt[-_TAIL_TOKENS:]).rstrip()
        return any(match.end() == len(tail) for match in self._opening.finditer(tail))

    def _decode(self, tokens: Sequence[int]) -> str:
        text: str = self._tokenizer.decode(tokens, skip_special_tokens=False, clean_up_tokenization_spaces=False)
        return text


def template_markers(tokenizer: Any) -> list[tuple[str, str]]:
    """The markers around reasoning in an assistant's turn of a chat template: one pair, or none."""
    if tokenizer.chat_template is None:
        return []
    question, reasoning, answer = _PROBES
    asked = [{"role": "user", "content": question}]
    fields = dict.fromkeys(("reasoning_content", "reasoning", "thinking"), reasoning)
    try:
        before = tokenizer.apply_chat_template(asked, tokenize=False, add_generation_prompt=True)
        whole = tokenizer.apply_chat_template(
            [*asked, {"role": "assistant", "content": answer, **fields}], tokenize=False
        )
    except Exception:  # a template is code of its own and may raise anything
        return []
    found = re.search(f"{re.escape(reasoning)}(.*?){re.escape(answer)}", whole, re.DOTALL)
    if found is None or not found.group(1).strip():
        return []
    opener = whole[len(before) : found.start()] if whole.startswith(before) else ""
    return [(opener.strip(), found.group(1).strip())]


def _any_of(literals: Iterable[str]) -> re.Pattern[str]:
    """Any of the literals, the longest first, in any case."""
    ordered = sorted(filter(None, literals), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, ordered)), re.IGNORECASE)
