"""The schema of `extractors/xx.toml` (how answers are read in a language) and of `extractors/_shared.toml`.

Every list of phrases uses the pattern language of `mbbq_gen.extraction.patterns`; word lists hold plain words. What a
list means is said here, once; the packs only fill them.
"""

from __future__ import annotations

from functools import cached_property
from typing import Literal, Self

from pydantic import Field, model_validator

from mbbq_gen.errors import PackError
from mbbq_gen.extraction.patterns import Rule, parse
from mbbq_gen.languages import Pack, PackMeta, Slug, Text, read_pack, read_toml, validate_pack
from mbbq_gen.records import Outcome
from mbbq_gen.resources import Resources

Words = tuple[Text, ...]
Phrases = tuple[Text, ...]


class Script(Pack):
    """How the language is written."""

    casefold: Literal["default", "turkish"] = "default"
    """Which lower-case i belongs to which capital."""
    clitics: Words = ()
    """Particles written together with the next word (Arabic و, ب, ال): looked behind when a word is not found."""


class Labels(Pack):
    """What is special about option labels."""

    option_words: Words = ()
    """Words that make a label of the letter behind them: option, answer, letter…"""
    option_words_after: Words = ()
    """Words that make a label of the letter before them (Turkish şıkkı)."""
    names: dict[Text, Words] = Field(default_factory=dict)
    """Letters as they are spelled out: `B = ["be"]`; read only where a label is expected."""
    stray: Words = ()
    """Labels that are words of the language: they need brackets, a cue or a line of their own."""
    suffixes: Words = ()
    """Endings that may follow a label, with or without an apostrophe or hyphen."""
    not_before: Words = ()
    """Words in front of which a letter is no label (Turkish C vitamini)."""
    not_after: Words = ()
    """Words behind which a letter is no label: vitamin, hepatitis, plan…"""


class Ordinals(Pack):
    """Options named by their place."""

    places: dict[Slug, Words] = Field(default_factory=dict)
    """`p1`…`p10`, `last`, `middle`, `former`, `latter` → the words for it; `other` → words for the person who was not
    named before: "the other one"."""
    pair: Words = ()
    """Words for two: of the `two` the second is the second person, wherever the unknown option stands."""
    nouns: Words = ()
    """Words that an ordinal belongs to when it means an option: option, answer, one…"""
    order: tuple[Literal["ordinal_noun", "noun_ordinal"], ...] = ("ordinal_noun",)
    """Whether the noun follows the ordinal, precedes it, or both are heard."""
    joiners: Words = ()
    """Words between an ordinal and its noun: the last `of the three` options."""
    cardinals: dict[Slug, Words] = Field(default_factory=dict)
    """`p1`… → number words that name a place behind a noun: option two."""


class Cues(Pack):
    """Words that make an answer of the mention beside them."""

    before: Phrases = ()
    """Announce an answer: `the correct answer is`."""
    after: Phrases = ()
    """Confirm the mention in front of them: `{x} is the correct answer`."""
    identified: Phrases = ()
    """Single out the mention without saying that it is the answer: `{x} is the one who`, `it was {x} who`."""
    final: Phrases = ()
    """Announce the last word: `final answer`."""
    copulas: Words = ()
    """Words right before an answer after a long announcement: is, es, ist…"""


class Hedges(Pack):
    """Words of a careful answer."""

    likely: Phrases = ()
    """A guess that is an answer: `most likely {x}`, `{x} seems more likely`."""
    unsure: Phrases = ()
    """Doubt of one's own choice: `I'm not sure`; it takes back nothing that was chosen before it."""
    possible: Phrases = ()
    """A mere possibility, weaker than anything else: `it could be {x}`."""


class Relations(Pack):
    """How mentions stand to each other."""

    negated: Phrases = ()
    """{x} (and {y}) are ruled out."""
    contrast: Phrases = ()
    """{x} is ruled out in favour of {y}: `not {x} but {y}`."""
    aside: Phrases = ()
    """{x} is spoken of but not chosen: `unlike {x}`, `than {x}`."""
    also: Words = ()
    """Words that say the same of another option: `also`, `either`; behind a denial they deny that one too."""
    merely: Words = ()
    """Words that play down what one person did beside another: `the tailor only watched`."""
    both: Phrases = ()
    """More than one is chosen: `both {x}`, `all of them`."""
    neither: Phrases = ()
    """None of the persons: `neither of them`, `none of the above`."""
    joint: Words = ()
    """Endings that mean "and" where two mentions side by side both have one (Tamil -ும்)."""
    coordinators: Words = ()
    """Words that join mentions into one: and, or, nor."""
    appositions: Words = ()
    """Words between a label and its own text: that is, namely."""


class Markers(Pack):
    """Words that tell what a sentence is for."""

    correction: Phrases = ()
    """Takes back what was said before: `wait, no`."""
    conclusion: Phrases = ()
    """Begins a conclusion: therefore, so."""
    forced_choice: Phrases = ()
    """A choice under protest: `if I had to choose`."""
    preamble: Phrases = ()
    """Talk about how to answer: `let's look at`, `to answer this`; where the text breaks off there is no answer."""
    explanation: Phrases = ()
    """Begins a reason: because, since."""
    adversative: Phrases = ()
    """but, however."""
    concessive: Phrases = ()
    """although, while: what follows is granted, not claimed."""
    concessive_after: Phrases = ()
    """The same behind what is granted (Turkish -se de, rağmen)."""
    reported: Phrases = ()
    """Somebody else's view: `one might think`, `some would say`."""
    tag: Phrases = ()
    """Asks for assent at the end of a statement, which stays one: `, (right|isn t it) $`."""


class Unknown(Pack):
    """Saying that it can't be told, and declining."""

    short: Phrases = ()
    """Short wordings that are an answer of their own: `unclear`, `not specified`; they need a cue or a whole
    sentence."""
    statement: Phrases = ()
    """Statements wherever they stand: `the text does not say who`."""
    refusal: Phrases = ()
    """Declining to answer: `I would rather not speculate`."""
    vague: Phrases = ()
    """Broad wordings that mean it only where their sentence names no single person: `no … clue`; weaker than the
    statements."""
    sensitive: Phrases = ()
    """Talk of stereotypes and the like: a refusal where its sentence names no single person and nothing else is
    said."""
    blocked: Phrases = ()
    """Wordings that hold one of the above but mean something else: `unknown caller`, `not a clue was missed`."""
    rejected: Phrases = ()
    """Wordings that rule out that it can't be told, and hold one of the above or the unknown option's own text: `nor is
    it unclear`, `a cop out to say …6 known`."""


class TextRules(Pack):
    """How option texts change inside a sentence."""

    articles: Words = ()
    """Articles, possessives and contractions that come and go before a noun."""
    stop: Words = ()
    """Other small words that tell nothing about an option; negations never stand here."""
    suffixes: Words = ()
    """Endings of number, case and possession, stripped again and again."""
    agreement: Words = ()
    """Endings of gender or degree, stripped only where no two options differ by them."""
    alternations: tuple[tuple[Text, Text], ...] = ()
    """Last letters of a stem that change before an ending: `["b", "p"]`."""
    min_stem: int = Field(default=3, ge=1)
    """Letters that stripping leaves at least."""
    head: Literal["first", "end", "last"] = "first"
    """Where the noun of a longer option stands: in front of what describes it, between adjectives and what follows (at
    the end of its phrase), or behind all of it."""
    compounds: bool = False
    """Whether words are written together and the last part says what is meant: Dutch "kraanmachinist"."""
    needs_noun: Words = ()
    """Endings of a word that can't end a sentence, since its noun follows (Turkish -ki, the genitive)."""
    not_before: Words = ()
    """Words behind a part of an option that make something else of it: 카페 앞, in front of the café."""
    open_suffix: int = Field(default=0, ge=0, le=12)
    """Letters that may follow a whole option word beyond the listed endings."""


class Headers(Pack):
    """Words at the beginning of a line, with a colon or alone on it."""

    answer: Words = ()
    question: Words = ()
    context: Words = ()
    options: Words = ()
    instruction: Words = ()
    explanation: Words = ()


class Verdicts(Pack):
    """Words that judge the option beside them, in a table, a list or a line, where they stand alone between its signs:
    `| B | yes |`, `C: wrong`. Letters too (Spanish V, F), where they are no label."""

    right: Words = ()
    """yes, right, true, correct, fits…"""
    wrong: Words = ()
    """no, wrong, false, excluded, out…"""


class Structured(Pack):
    """Names of fields and tags."""

    answer_keys: Words = ()
    """Keys of JSON objects and names of tags that hold the answer."""
    reasoning_keys: Words = ()
    """Keys and tags that hold the reasons."""


class Example(Pack):
    """A response and what it must be read as."""

    response: str
    options: tuple[Text, ...] = Field(min_length=2, max_length=10)
    """The options as shown; the last one is the unknown option unless `unknown` says otherwise."""
    labels: tuple[Text, ...] = ()
    """The labels as shown; A, B, C… if left out."""
    unknown: int | None = None
    """Index of the unknown option; the last one if left out, none if −1."""
    aliases: tuple[Text, ...] = ()
    """The options' texts in English, same order."""
    outcome: Outcome
    option: int | None = None
    """Index of the option it must be read as; left out where there is none."""
    needs: tuple[Text, ...] = ()
    """Lists (`cues.before`) or lines of the pack without which this example would be read otherwise."""

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


class ExtractorPack(Pack):
    """How answers are read in a language."""

    meta: PackMeta
    script: Script = Script()
    labels: Labels = Labels()
    ordinals: Ordinals = Ordinals()
    cues: Cues = Cues()
    hedges: Hedges = Hedges()
    relations: Relations = Relations()
    markers: Markers = Markers()
    unknown: Unknown = Unknown()
    text: TextRules = TextRules()
    headers: Headers = Headers()
    verdicts: Verdicts = Verdicts()
    structured: Structured = Structured()
    example: tuple[Example, ...] = ()
    """Responses that must be read so."""
    counter_example: tuple[Example, ...] = ()
    """Responses that a line would get wrong if it matched too much."""

    @model_validator(mode="after")
    def _check_phrases(self) -> Self:
        for family, phrase in self.phrases():
            try:
                parse(phrase)
            except PackError as error:
                raise ValueError(f"{family}: {error}") from error
        return self

    def phrases(self) -> list[tuple[str, str]]:
        """Every pattern of the pack with the list that it stands in, as `cues.before`."""
        return [
            (f"{table}.{key}", phrase) for table, key in PHRASE_LISTS for phrase in getattr(getattr(self, table), key)
        ]

    def rules(self, home: bool) -> list[Rule]:
        """Every pattern as a rule; ordinals are rules too."""
        rules = [Rule(family, phrase, self.meta.language, home) for family, phrase in self.phrases()]
        return rules + [
            Rule(f"headers.{key}", word, self.meta.language, home)
            for key in Headers.model_fields
            for word in getattr(self.headers, key)
        ]

    @cached_property
    def ordinal_rules(self) -> list[Rule]:
        """The place words as rules: `ordinals.p2` with a noun, `ordinals.p2.bare` without one."""
        nouns, found = "|".join(self.ordinals.nouns), []
        for place, words in self.ordinals.places.items():
            choice = "|".join(words)
            found.append((f"ordinals.{place}.bare", f"({choice})"))
            if place == "other":
                continue
            if nouns and "ordinal_noun" in self.ordinals.order:
                joiner = f"({'|'.join(self.ordinals.joiners)})? " if self.ordinals.joiners else ""
                found.append((f"ordinals.{place}", f"({choice}) {joiner}({nouns})"))
            if nouns and "noun_ordinal" in self.ordinals.order:
                found.append((f"ordinals.{place}", f"({nouns}) ({choice})"))
        for place, words in self.ordinals.cardinals.items():
            found.append((f"ordinals.{place}", f"({nouns}) ({'|'.join(words)})"))
        return [Rule(family, phrase, self.meta.language, True) for family, phrase in found]


PHRASE_LISTS: tuple[tuple[str, str], ...] = tuple(
    (table, key)
    for table, schema in (
        ("cues", Cues),
        ("hedges", Hedges),
        ("relations", Relations),
        ("markers", Markers),
        ("unknown", Unknown),
    )
    for key, field in schema.model_fields.items()
    if key not in {"copulas", "coordinators", "appositions", "joint", "also", "merely"} and field is not None
)
"""The lists that hold patterns."""


class ReasoningBlock(Pack):
    """What opens and closes a reasoning block."""

    open: Text
    close: Text


class SharedPack(Pack):
    """What all languages share: signs, not words."""

    version: int = Field(ge=1)
    source: Text
    licence: Text
    reasoning: tuple[ReasoningBlock, ...]
    """Reasoning blocks; what is inside is never the answer."""
    end_tokens: Words
    """Special tokens behind which nothing belongs to the answer."""
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


def read_extractor_pack(resources: Resources, language: str) -> ExtractorPack:
    """The extractor pack of a language; raises as `read_pack` does."""
    return read_pack(resources, "extractors", language, ExtractorPack)


def read_shared_pack(resources: Resources) -> SharedPack:
    """The pack that all languages share.

    Raises:
        PackError: where it is missing or wrong.
    """
    path = resources.find("extractors", "_shared")
    if path is None:
        raise PackError(f"extractors/_shared.toml: not found in {', '.join(str(root) for root in resources.roots)}")
    return validate_pack(SharedPack, read_toml(path), path)
