from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

pytest.importorskip("transformers", reason="needs the extra: pip install 'mbbq-gen[local]'")

from mbbq_gen.providers.local.chat_format import ReasoningMarkers

HARMONY = ["<|start|>", "<|channel|>", "<|message|>", "<|constrain|>", "<|end|>", "<|return|>"]


def tokenizer(special: list[str], plain: Sequence[str] = ()) -> Any:
    """One token a character, with markers as special tokens and as ordinary added ones."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = [chr(number) for number in range(32, 127)] + ["\n", "«", "»"]
    core = Tokenizer(models.WordLevel({letter: n for n, letter in enumerate([*letters, "�"])}, unk_token="�"))
    core.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    core.decoder = decoders.Fuse()
    core.add_special_tokens([AddedToken(token, special=True) for token in ["<s>", "</s>", *special]])
    core.add_tokens([AddedToken(token, special=False) for token in plain])
    return PreTrainedTokenizerFast(tokenizer_object=core, bos_token="<s>", eos_token="</s>", unk_token="�")


def split(made: Any, completion: str, prompt: str = "Who?") -> tuple[str, str | None]:
    def tokens(text: str) -> list[int]:
        return list(made(text, add_special_tokens=False)["input_ids"])

    return ReasoningMarkers(made).split(tokens(prompt), tokens(completion))


CASES: dict[str, tuple[dict[str, Any], str, str, str | None]] = {
    "special tokens": ({"special": ["[THINK]", "[/THINK]"]}, "[THINK]A? No.[/THINK]B</s>", "B", "A? No."),
    "added, not special": ({"special": [], "plain": ["<think>", "</think>"]}, "<think>A?</think>\nB", "\nB", "A?"),
    "plain characters": ({"special": []}, "<think>A?</think>B", "B", "A?"),
    "closed only": ({"special": ["</think>"]}, "A?</think>B", "B", "A?"),
    "doubled": ({"special": []}, "<think>A</think><think>C</think>B", "B", "AC"),
    "nested": ({"special": []}, "<think>A<think>C</think>C</think>B", "B", "ACC"),
    "never closed": ({"special": ["[THINK]", "[/THINK]"]}, "[THINK]It is A", "", "It is A"),
    "channels": (
        {"special": HARMONY},
        "<|channel|>analysis<|message|>Is it A?<|end|><|start|>assistant<|channel|>final<|message|>B<|return|>",
        "B",
        "Is it A?assistant",
    ),
    "no reasoning": ({"special": ["[THINK]", "[/THINK]"]}, "B</s>", "B", None),
    "other special tokens are dropped": ({"special": ["<|turn|>"]}, "<|turn|>B", "B", None),
}


@pytest.mark.parametrize("case", CASES)
def test_reasoning_is_parted_from_the_answer(case: str) -> None:
    made, completion, text, reasoning = CASES[case]
    assert split(tokenizer(**made), completion) == (text, reasoning)


@pytest.mark.parametrize(("completion", "expected"), [("It is A", ("", "It is A")), ("A?</think>B", ("B", "A?"))])
def test_the_prompt_may_open_the_reasoning(completion: str, expected: tuple[str, str]) -> None:
    assert split(tokenizer([]), completion, prompt="assistant: <think>\n") == expected
    assert split(tokenizer([]), "B", prompt="assistant: <think>\n\n</think>\n\n") == ("B", None)
