"""What people are called: in English, for an answer in English to a question in another language ("the plumber" for
"De loodgieter").

`extractors/people/xx.toml` says which words of a language an English noun or adjective stands for. An option whose
words stand there gets the English words that the response speaks as its text; the rest is reading English.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pydantic import Field

from mbbq_gen.core.files import PackPaths
from mbbq_gen.extraction.lexicon import Stemmer, Token
from mbbq_gen.extraction.text import UNSPACED, WORD, loose_key, normalise
from mbbq_gen.languages.packs import Pack, Text, read_toml, validate_pack

MIN_PREFIX, MAX_REST = 5, 3
"""Letters of a word that an unlisted ending may follow, and letters of such an ending."""


class PersonWordsPack(Pack):
    """What people are called in a language."""

    version: int = Field(ge=1)
    source: Text
    licence: Text
    words: dict[Text, tuple[Text, ...]] = Field(default_factory=dict)
    """An English noun or adjective, small letters → the words that it stands for."""


@dataclass(frozen=True, slots=True)
class PersonTranslation:
    """An English name and the words of a language that it stands for, as keys."""

    english: tuple[str, ...]
    words: tuple[tuple[str, ...], ...]


@lru_cache(maxsize=64)
def _read_pack(resources: PackPaths, language: str) -> PersonWordsPack | None:
    """A language's file; None where there is none."""
    path = resources.find("extractors", f"people/{language}")
    return None if path is None else validate_pack(PersonWordsPack, read_toml(path), path)


@lru_cache(maxsize=64)
def read_people(resources: PackPaths, language: str) -> tuple[PersonTranslation, ...]:
    """What people are called in a language, longer English names first; nothing where no file says.

    Raises:
        PackError: where the file is wrong; file, key, value.
    """
    pack = _read_pack(resources, language)
    if pack is None:
        return ()
    rows = [PersonTranslation(_keys(name), tuple(_keys(word) for word in words)) for name, words in pack.words.items()]
    return tuple(sorted(rows, key=lambda row: (-len(row.english), row.english)))


def english_texts(
    options: Sequence[str],
    unknown: int | None,
    words: Iterable[Token],
    people: Sequence[PersonTranslation],
    stemmer: Stemmer,
) -> tuple[str, ...] | None:
    """The options' texts with the English words of a response for theirs; None where it speaks of none of them."""
    spoken = {form for known in words for form in (known.key, known.stem)}
    said = [row for row in people if all(word in spoken or stemmer.forms(word)[0] in spoken for word in row.english)]
    texts = list(options)
    for index, option in enumerate(options):
        if index != unknown and (english := _english_of(option, said, stemmer)):
            texts[index] = f"The {' '.join(english)}"
    if texts == list(options) or len(set(texts)) < len(texts):
        return None
    return tuple(texts)


def _english_of(option: str, said: Sequence[PersonTranslation], stemmer: Stemmer) -> list[str]:
    """The English words that stand for words of an option, each once."""
    keys = _keys(option)
    if UNSPACED.search(option):
        text = "".join(keys)
        rows = [row for row in said if any("".join(word) in text for word in row.words)]
    else:
        rows = [row for row in said if any(all(_is_in(part, keys, stemmer) for part in word) for word in row.words)]
    return list(dict.fromkeys(word for row in rows for word in row.english))


def _is_in(word: str, keys: Sequence[str], stemmer: Stemmer) -> bool:
    """Whether a word stands among others, with whatever ending."""
    stem = stemmer.forms(word)[0]
    return any(
        key == word
        or stemmer.forms(key)[0] == stem
        or (len(word) >= MIN_PREFIX and key.startswith(word) and len(key) - len(word) <= MAX_REST)
        for key in keys
    )


def _keys(text: str) -> tuple[str, ...]:
    return tuple(loose_key(word) for word in WORD.findall(normalise(text).text))
