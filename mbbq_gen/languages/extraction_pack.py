"""The schema of `extractors/xx.toml`: classes of words, and the forms of option texts inside a sentence.

Every class is a list of lines of words, separated by spaces. A word may be

    word          that word, ignoring case and (except in Indic scripts) accents
    stem*  *end   every word with that beginning or ending
    two_words     a sequence; it counts as one word of its class, and its words no longer count on their own
    say_…_word    a sequence with up to four words between, in one clause
    <neg>_<tell>  a sequence with any word of a class

An entry of `but`, `because`, `although`, `condition` or `aside` that begins with `*` is the last word of its clause
(Korean -지만, Turkish -se de, Marathi -पेक्षा); all others are the first word of a clause or precede the aside.
An apostrophe or hyphen separates words: `can't` is written `can_t`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from functools import lru_cache
from importlib.resources import files
from typing import Annotated, Final, Literal, cast

from pydantic import AfterValidator, Field

from mbbq_gen.core.errors import PackError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Outcome
from mbbq_gen.languages.packs import Pack, PackInfo, Text, read_pack, read_toml, validate_pack

Words = tuple[Text, ...]
"""Lines of words."""
WORD_LISTS: Final[dict[str, dict[str, str]]] = tomllib.loads(
    files("mbbq_gen.languages").joinpath("word_classes.toml").read_text(encoding="utf-8")
)
"""Table of a pack → its lists of words → description of each."""


def _with_all_lists(table: str) -> Callable[[dict[str, Words]], dict[str, Words]]:
    """A validator of the names of a table's lists, which adds missing lists as empty ones."""

    def complete(lists: dict[str, Words]) -> dict[str, Words]:
        if unknown := [name for name in lists if name not in WORD_LISTS[table]]:
            raise ValueError(f"{unknown[0]}: unknown key; known: {', '.join(WORD_LISTS[table])}")
        return {name: lists.get(name, ()) for name in WORD_LISTS[table]}

    return complete


class Script(Pack):
    """Properties of the script."""

    casefold: Literal["default", "turkish"] = "default"
    """Rule for the lower case of I and İ."""
    elision: bool = False
    """Whether a letter before an apostrophe is a word (French c'est), not a label."""
    verb_final: bool = False
    """Whether verb and negation end the clause (Tamil, Korean) and so follow the negated words."""
    asks: Words = ()
    """Last letters of a question that needs no question mark: Japanese か."""
    clitics: Words = ()
    """Prefixes joined to a word (Arabic و, ب, ال), which are removed from unknown words."""
    and_before: Words = ()
    """Prefixes that mean "and" before the second of two people (Arabic و)."""
    copula: Words = ()
    """Suffixes that mean "is" or "was" after the word for a person (Turkish -ydi)."""


class OptionText(Pack):
    """Rules for an option's text inside a sentence; `word_classes.toml` describes the four lists."""

    small: Words = ()
    persons: Words = ()
    suffixes: Words = ()
    agreement: Words = ()
    alternations: tuple[tuple[Text, Text], ...] = ()
    """Last letters of a stem that change before an ending: `["b", "p"]`."""
    min_stem: int = Field(default=3, ge=1)
    """Minimum number of letters of a stem without its ending."""
    compounds: bool = False
    """Whether words form compounds with the meaning of their last part: Dutch "kraanmachinist"."""


class Structured(Pack):
    """Names of fields and tags in the language."""

    answer_keys: Words = ()
    reasoning_keys: Words = ()


class Example(Pack):
    """A response and its expected extraction."""

    response: str
    options: tuple[Text, ...] = Field(min_length=2, max_length=10)
    """The options as shown; the last one is the unknown option unless `unknown` says otherwise."""
    labels: tuple[Text, ...] = ()
    """The labels as shown; A, B, C… if left out."""
    unknown: int | None = None
    """Index of the unknown option; the last one if left out, none if −1."""
    question: str | None = None
    """The question, if the extraction depends on it."""
    outcome: Outcome
    option: int | None = None
    """Index of the expected option; left out if there is none."""
    needs: tuple[Text, ...] = ()
    """Classes (`words.neg`) or single entries without which the extraction would differ."""

    @property
    def shown_labels(self) -> tuple[str, ...]:
        """The labels, A, B, C… if none are given."""
        return self.labels or tuple("ABCDEFGHIJ"[: len(self.options)])

    @property
    def unknown_index(self) -> int | None:
        """Index of the unknown option, or None."""
        if self.unknown is None:
            return len(self.options) - 1
        return None if self.unknown < 0 else self.unknown


class Grammar(Pack):
    """The extraction pack of a language."""

    meta: PackInfo
    script: Script = Script()
    text: OptionText = OptionText()
    labels: Annotated[dict[str, Words], AfterValidator(_with_all_lists("labels"))] = Field({}, validate_default=True)
    places: Annotated[dict[str, Words], AfterValidator(_with_all_lists("places"))] = Field({}, validate_default=True)
    words: Annotated[dict[str, Words], AfterValidator(_with_all_lists("words"))] = Field({}, validate_default=True)
    structured: Structured = Structured()
    example: tuple[Example, ...] = ()
    """Responses with their expected extractions."""

    def word_list(self, table: str, name: str) -> Words:
        """A word list by the names in WORD_LISTS."""
        lists = self.text.model_dump() if table == "text" else getattr(self, table)
        return cast(Words, lists[name])


class ReasoningBlock(Pack):
    """The opening and closing signs of a reasoning block."""

    open: Text
    close: Text
    at_start: bool = False
    """Whether it opens only at the start of the text, before a capital: remains of special tokens."""


class SharedSigns(Pack):
    """Signs for all languages."""

    version: int = Field(ge=1)
    source: Text
    licence: Text
    reasoning: tuple[ReasoningBlock, ...]
    """Reasoning blocks, which never contain the answer."""
    end_tokens: Words
    """Special tokens that end the answer."""
    drop_tokens: Words
    """Special tokens that are removed."""
    turn_tokens: Words
    """Signs that begin another speaker's turn."""
    positive_marks: Words
    """Signs that tick an option."""
    negative_marks: Words
    """Signs that cross an option out."""
    loose_positive_marks: Words
    """Signs that tick an option only if another option has a mark too: a ring may be a bullet."""
    loose_negative_marks: Words
    """Signs that cross an option out only if another option has a mark too."""
    structured: Structured
    """Field and tag names in all languages."""


@lru_cache(maxsize=64)
def read_shared_pack(resources: PackPaths) -> SharedSigns:
    """Reads the pack for all languages; raises PackError if it is missing or invalid."""
    path = resources.find("extractors", "_shared")
    if path is None:
        raise PackError(f"extractors/_shared.toml: not found in {', '.join(str(root) for root in resources.roots)}")
    return validate_pack(SharedSigns, read_toml(path), path)


@lru_cache(maxsize=64)
def read_grammar(language: str, resources: PackPaths) -> Grammar:
    """Reads the extraction pack of a language; raises as `read_pack` does."""
    return read_pack(resources, "extractors", language, Grammar)
