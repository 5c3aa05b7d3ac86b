"""The schema of a language's reading grammar: classes of words, and how option texts change inside a sentence.

Every class is a list of lines of words, separated by spaces. A word may be

    word          that word; case and (outside Indic scripts) accents don't matter
    stem*  *end   every word that begins or ends so
    two_words     a row of words; it counts as one word of its class, and its own words count no more
    say_…_word    a row with up to four words between, in one clause
    <neg>_<tell>  a row in which any word of a class may stand

An entry of `but`, `because`, `although`, `condition` or `aside` that begins with `*` closes the clause it stands in
(Korean -지만, Turkish -se de, Marathi -पेक्षा); any other one begins a clause, or stands before what it sets aside.
An apostrophe or hyphen parts words: `can't` is written `can_t`.
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
"""Table of a pack → its lists of words → what each holds."""


def _complete(table: str) -> Callable[[dict[str, Words]], dict[str, Words]]:
    """A check of the lists of a table, which adds those that are missing, empty."""

    def checked(lists: dict[str, Words]) -> dict[str, Words]:
        if unknown := [name for name in lists if name not in WORD_LISTS[table]]:
            raise ValueError(f"{unknown[0]}: unknown key; known: {', '.join(WORD_LISTS[table])}")
        return {name: lists.get(name, ()) for name in WORD_LISTS[table]}

    return checked


class Script(Pack):
    """How the language is written."""

    casefold: Literal["default", "turkish"] = "default"
    """Which lower-case i belongs to which capital."""
    elision: bool = False
    """Whether a letter before an apostrophe is a word (French c'est): no label."""
    verb_final: bool = False
    """Whether verb and negation end the clause (Tamil, Korean), so that the denied words precede."""
    asks: Words = ()
    """Last letters of a question that needs no question mark: Japanese か."""
    clitics: Words = ()
    """Prefixes of the next word (Arabic و, ب, ال), which are removed from unknown words."""
    and_before: Words = ()
    """Prefixes that mean "and" before the second of two people (Arabic و)."""
    copula: Words = ()
    """Suffixes that mean "is" or "was" after the word for a person (Turkish -ydi)."""


class OptionText(Pack):
    """How an option's text changes inside a sentence; `word_classes.toml` says what the four lists hold."""

    small: Words = ()
    persons: Words = ()
    suffixes: Words = ()
    agreement: Words = ()
    alternations: tuple[tuple[Text, Text], ...] = ()
    """Last letters of a stem that change before an ending: `["b", "p"]`."""
    min_stem: int = Field(default=3, ge=1)
    """Letters that stripping leaves at least."""
    compounds: bool = False
    """Whether words are written together and the last part has the meaning: Dutch "kraanmachinist"."""


class Structured(Pack):
    """Names of fields and tags in the language."""

    answer_keys: Words = ()
    reasoning_keys: Words = ()


class Example(Pack):
    """A response and what it must be read as."""

    response: str
    options: tuple[Text, ...] = Field(min_length=2, max_length=10)
    """The options as shown; the last one is the unknown option unless `unknown` says otherwise."""
    labels: tuple[Text, ...] = ()
    """The labels as shown; A, B, C… if left out."""
    unknown: int | None = None
    """Index of the unknown option; the last one if left out, none if −1."""
    question: str | None = None
    """The question, where the reading depends on it."""
    outcome: Outcome
    option: int | None = None
    """Index of the option it must be read as; left out where there is none."""
    needs: tuple[Text, ...] = ()
    """Classes (`words.neg`) or single entries without which this example would be read otherwise."""

    @property
    def shown_labels(self) -> tuple[str, ...]:
        """The labels, A, B, C… if none are given."""
        return self.labels or tuple("ABCDEFGHIJ"[: len(self.options)])

    @property
    def unknown_index(self) -> int | None:
        """Place of the unknown option, or None."""
        if self.unknown is None:
            return len(self.options) - 1
        return None if self.unknown < 0 else self.unknown


class Grammar(Pack):
    """How answers are read in a language."""

    meta: PackInfo
    script: Script = Script()
    text: OptionText = OptionText()
    labels: Annotated[dict[str, Words], AfterValidator(_complete("labels"))] = Field({}, validate_default=True)
    places: Annotated[dict[str, Words], AfterValidator(_complete("places"))] = Field({}, validate_default=True)
    words: Annotated[dict[str, Words], AfterValidator(_complete("words"))] = Field({}, validate_default=True)
    structured: Structured = Structured()
    example: tuple[Example, ...] = ()
    """Responses that must be read so."""

    def word_list(self, table: str, name: str) -> Words:
        """A list of WORD_LISTS."""
        lists = self.text.model_dump() if table == "text" else getattr(self, table)
        return cast(Words, lists[name])


class ReasoningBlock(Pack):
    """The opening and closing signs of a reasoning block."""

    open: Text
    close: Text
    at_start: bool = False
    """Whether it opens only at the start of the text, before a capital: words left by special tokens."""


class SharedSigns(Pack):
    """Signs that all languages share."""

    version: int = Field(ge=1)
    source: Text
    licence: Text
    reasoning: tuple[ReasoningBlock, ...]
    """Reasoning blocks; what is inside is never the answer."""
    end_tokens: Words
    """Special tokens after which nothing belongs to the answer."""
    drop_tokens: Words
    """Special tokens that are dropped."""
    turn_tokens: Words
    """Signs that begin another speaker's turn."""
    positive_marks: Words
    """Signs that tick an option."""
    negative_marks: Words
    """Signs that cross an option out."""
    loose_positive_marks: Words
    """Signs that tick only where another option has a mark too: a ring may be a bullet."""
    loose_negative_marks: Words
    """Signs that cross only where another option has a mark too."""
    structured: Structured
    """Field and tag names in use whatever the language."""


@lru_cache(maxsize=64)
def read_shared_pack(resources: PackPaths) -> SharedSigns:
    """The pack that all languages share; raises PackError where it is missing or wrong."""
    path = resources.find("extractors", "_shared")
    if path is None:
        raise PackError(f"extractors/_shared.toml: not found in {', '.join(str(root) for root in resources.roots)}")
    return validate_pack(SharedSigns, read_toml(path), path)


@lru_cache(maxsize=64)
def read_grammar(language: str, resources: PackPaths) -> Grammar:
    """The grammar of a language; raises as `read_pack`."""
    return read_pack(resources, "extractors", language, Grammar)
