"""What people are called: in English, for an answer in English to a question in another language ("the plumber" for
"De loodgieter"), and in other words of the same language ("the dad" for "The father").

`extractors/people/xx.toml` says which words of a language an English noun or adjective stands for. An option whose
words stand there gets the English words that the response speaks as its text; the rest is reading English. What may
stand for each other is in its `[alike]`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from pydantic import Field

from mbbq_gen.core.files import PackPaths
from mbbq_gen.extraction.lexicon import Lexicon, Stemmer, Token, words_of
from mbbq_gen.extraction.normalise import UNSPACED, WORD, loose_key, normalise
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
    alike: dict[Text, tuple[Text, ...]] = Field(default_factory=dict)
    """A kind of person → lines of words, `_` within one of several, by which one may be called."""


@dataclass(frozen=True, slots=True)
class PersonTranslation:
    """An English wording and the words of a language that it stands for, as keys."""

    english: tuple[str, ...]
    words: tuple[tuple[str, ...], ...]


@lru_cache(maxsize=64)
def _read_pack(resources: PackPaths, language: str) -> PersonWordsPack | None:
    """A language's file; None where there is none."""
    path = resources.find("extractors", f"people/{language}")
    return None if path is None else validate_pack(PersonWordsPack, read_toml(path), path)


@lru_cache(maxsize=64)
def read_people(resources: PackPaths, language: str) -> tuple[PersonTranslation, ...]:
    """What people are called in a language, longer English wordings first; nothing where no file says.

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


class SynonymGroups:
    """Words that may stand for each other, group by group, as a language's words are known to the reader."""

    def __init__(self, groups: Iterable[Iterable[str]], lexicon: Lexicon) -> None:
        self._lexicon = lexicon
        self._groups = [tuple(_keys(entry) for entry in group) for group in groups]
        self._beginning: dict[str, list[tuple[int, tuple[str, ...]]]] = {}
        for number, group in enumerate(self._groups):
            for entry in group:
                stems = tuple(lexicon[key].stem for key in entry)
                self._beginning.setdefault(stems[0], []).append((number, stems))

    def of_one(self, texts: Mapping[int, Sequence[str]]) -> dict[tuple[str, ...], int]:
        """Other words for what one of several people alone is called, as keys → that person.

        Args:
            texts: Person → the keys of what the question calls them.
        """
        kinds = {person: self._kinds(keys) for person, keys in texts.items()}
        found: dict[tuple[str, ...], int] = {}
        for person, own in kinds.items():
            for number in own.difference(*(other for known, other in kinds.items() if known != person)):
                for entry in self._groups[number]:
                    found[entry] = found.get(entry, 0) | 1 << person
        return {entry: bits.bit_length() - 1 for entry, bits in found.items() if not bits & (bits - 1)}

    def _kinds(self, keys: Sequence[str]) -> set[int]:
        """The groups of which an entry stands among words."""
        stems = tuple(self._lexicon[key].stem for key in keys)
        return {
            number
            for place, stem in enumerate(stems)
            for number, entry in self._beginning.get(stem, ())
            if stems[place : place + len(entry)] == entry
        }


def read_groups(resources: PackPaths, language: str) -> dict[str, list[str]]:
    """The words of a language's file that may stand for each other, by kind of person; none where no file says.

    Raises:
        PackError: where the file is wrong; file, key, value.
    """
    pack = _read_pack(resources, language)
    alike = pack.alike if pack is not None else {}
    return {kind: [entry.replace("_", " ") for entry in words_of(lines)] for kind, lines in alike.items()}


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
