"""How many tokens a text is: by the model's own tokenizer where it is on this machine, else an estimate by script.

Nothing is downloaded for it. The estimate divides characters by what a token of each script holds on average in
o200k_base, OpenAI's tokenizer since 2024; docs/apis.md shows how far it is off by language.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from mbbq_gen.errors import UsageError

MESSAGE_TOKENS: Final = 4
"""What a turn of a conversation takes beside its text: its role and its end."""
_CHARACTERS_A_TOKEN: Final = {
    "LATIN": 4.1,  # without marks: a letter with a mark is most often a token of its own
    "CYRILLIC": 3.1,
    "GREEK": 3.0,
    "ARABIC": 2.5,
    "HEBREW": 2.5,
    "DEVANAGARI": 2.5,
    "BENGALI": 2.2,
    "TAMIL": 2.6,
    "TELUGU": 2.2,
    "ORIYA": 0.85,
    "HANGUL": 1.35,
    "CJK": 1.4,
    "HIRAGANA": 1.6,
    "KATAKANA": 1.6,
}
_OTHER_SCRIPT: Final = 1.5
_MARKED_LETTER: Final = 1.0
_OPENAI_FILES: Final = "https://openaipublic.blob.core.windows.net/encodings"
"""Where tiktoken has its files from; the address names them in its cache."""
_OPENAI_NEW: Final = ("gpt-4o", "gpt-4.1", "gpt-5", "o1", "o3", "o4", "chatgpt-4o")
"""How models with o200k_base begin: newer than some installed versions of tiktoken know."""


@dataclass(frozen=True)
class TokenCounter:
    """Counts the tokens of a text."""

    name: str
    """What counts, as a report should say it."""
    exact: bool
    """Whether it is the model's own tokenizer."""
    count: Callable[[str], int | float]


ESTIMATE_NAME: Final = "estimated from the characters, by script"


def token_counter(kind: str, model: str, tokenizer: Path | None = None) -> TokenCounter:
    """What counts the tokens of a model best on this machine.

    Args:
        kind: the kind of provider.
        model: the model's name, or the folder of a local one.
        tokenizer: a `tokenizer.json`, or a folder that holds one; None to look for the model's own.

    Raises:
        UsageError: where `tokenizer` can't be read.
    """
    if tokenizer is not None:
        return _from_file(tokenizer)
    local = Path(model).expanduser() / "tokenizer.json"
    if kind == "transformers" and local.is_file() and find_spec("tokenizers"):
        return _from_file(local)
    if kind == "openai" and (found := _from_tiktoken(model)) is not None:
        return found
    return TokenCounter(ESTIMATE_NAME, False, estimate_tokens)


def _from_file(path: Path) -> TokenCounter:
    """The tokenizer of a file or folder."""
    file = path / "tokenizer.json" if path.is_dir() else path
    if not find_spec("tokenizers"):
        raise UsageError(f"--tokenizer {path}: needs the package tokenizers: pip install tokenizers")
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:  # whatever the file is: the library raises the bare class
        raise UsageError(f"--tokenizer {path}: no tokenizer.json that can be read ({error})") from error
    return TokenCounter(f"counted with {file}", True, lambda text: len(tokenizer.encode(text).ids))


def _from_tiktoken(model: str) -> TokenCounter | None:
    """OpenAI's own tokenizer, if it is installed and its file is on this machine: it would load it from the net."""
    if not find_spec("tiktoken"):
        return None
    import tiktoken

    try:
        name = tiktoken.encoding_name_for_model(model)
    except KeyError:
        if not model.startswith(_OPENAI_NEW):
            return None
        name = "o200k_base"
    if not (_tiktoken_cache() / hashlib.sha1(f"{_OPENAI_FILES}/{name}.tiktoken".encode()).hexdigest()).is_file():
        return None
    encoding = tiktoken.get_encoding(name)
    return TokenCounter(f"counted with tiktoken, {name}", True, lambda text: len(encoding.encode_ordinary(text)))


def _tiktoken_cache() -> Path:
    """Where tiktoken keeps its files."""
    named = os.environ.get("TIKTOKEN_CACHE_DIR") or os.environ.get("DATA_GYM_CACHE_DIR")
    return Path(named) if named else Path(tempfile.gettempdir()) / "data-gym-cache"


def estimate_tokens(text: str) -> float:
    """About how many tokens a text is."""
    return sum(map(_share, text))


@lru_cache(maxsize=8192)
def _share(character: str) -> float:
    """The part of a token that a character is."""
    if character.isascii():
        return 1 / _CHARACTERS_A_TOKEN["LATIN"]
    script = unicodedata.name(character, "").split(" ", 1)[0]
    if script == "LATIN":
        return 1 / _MARKED_LETTER
    return 1 / _CHARACTERS_A_TOKEN.get(script, _OTHER_SCRIPT)
