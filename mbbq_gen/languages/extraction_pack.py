"""The schema of a language's reading grammar: classes of words, and how option texts change inside a sentence.

Every class is a list of lines of words, parted by blanks. A word may be

    word          that word; case and (outside Indic scripts) accents don't matter
    stem*  *end   every word that begins or ends so
    two_words     a row of words; it counts as one word of its class, and its own words count no more
    say_…_word    a row with up to four words between, in one clause
    <neg>_<tell>  a row in which any word of a class may stand

An entry of `but`, `because`, `although`, `condition` or `aside` that begins with `*` closes the clause it stands in
(Korean -지만, Turkish -se de, Marathi -पेक्षा); any other one begins a clause, or stands in front of what it sets aside.
An apostrophe or hyphen parts words: `can't` is written `can_t`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

from pydantic import Field

from mbbq_gen.core.errors import PackError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Outcome
from mbbq_gen.languages.packs import Pack, PackInfo, Text, read_pack, read_toml, validate_pack

Words = tuple[Text, ...]
"""Lines of words."""


class Script(Pack):
    """How the language is written."""

    casefold: Literal["default", "turkish"] = "default"
    """Which lower-case i belongs to which capital."""
    elision: bool = False
    """Whether a letter in front of an apostrophe is a word (French c'est): no label."""
    verb_final: bool = False
    """Whether verb and negation end the clause (Tamil, Korean): what is denied stands in front of it."""
    asks: Words = ()
    """Last letters of a question that needs no question mark: Japanese か."""
    clitics: Words = ()
    """Particles written together with the next word (Arabic و, ب, ال): looked behind where a word is not known."""
    and_before: Words = ()
    """What says "and" in front of the second of two people, written together with it (Arabic و)."""
    copula: Words = ()
    """What says that somebody is it, written together with the word for them (Turkish -ydi)."""


class OptionText(Pack):
    """How an option's text changes inside a sentence."""

    small: Words = ()
    """Articles, prepositions, pronouns, forms of "to be": words that do not identify an option."""
    persons: Words = ()
    """Nouns for any person: man, woman, student. They identify an option only if the others have other such nouns."""
    suffixes: Words = ()
    """Endings of number, case and possession. They are removed, also several in a row."""
    agreement: Words = ()
    """Endings of gender or degree. They are removed only if no two options differ by them."""
    alternations: tuple[tuple[Text, Text], ...] = ()
    """Last letters of a stem that change before an ending: `["b", "p"]`."""
    min_stem: int = Field(default=3, ge=1)
    """Letters that stripping leaves at least."""
    compounds: bool = False
    """Whether words are written together and the last part has the meaning: Dutch "kraanmachinist"."""


class OptionLabelWords(Pack):
    """What is special about option labels."""

    nouns: Words = ()
    """Nouns before a letter that is a label: option, answer, letter."""
    nouns_after: Words = ()
    """Nouns behind a letter that is a label (Turkish şıkkı)."""
    stray: Words = ()
    """Labels that are also words of the language, such as English a: they count only in brackets, behind words that
    announce the answer, or on a line of their own."""


class PositionWords(Pack):
    """Words for the place of an option or person."""

    p1: Words = ()
    p2: Words = ()
    p3: Words = ()
    p4: Words = ()
    last: Words = ()
    middle: Words = ()
    other: Words = ()
    """The person who was not named before: the other one."""
    nouns: Words = ()
    """Nouns behind first, second, last: option, person, one."""


class WordClasses(Pack):
    """What words do in a clause that answers a question."""

    answer: Words = ()
    """Nouns for the answer: answer, choice, decision."""
    right: Words = ()
    """Words for the right option: correct, fits, true."""
    wrong: Words = ()
    """Words for an option that is ruled out: wrong, eliminated, out."""
    choose: Words = ()
    """Verbs for choosing: choose, pick, go_with."""
    final: Words = ()
    """Words for the final answer: final, ultimately."""
    conclude: Words = ()
    """Words that begin or state a conclusion: therefore, in_conclusion, it_follows."""
    explain: Words = ()
    """Headings of the reasons for an answer: explanation, reasoning, analysis."""
    options: Words = ()
    """Headings of a list of the options, or of the repeated question: options, choices, question, context."""
    correction: Words = ()
    """Words that correct an earlier statement: wait, correction, i_was_wrong."""
    neg: Words = ()
    """Negation: not, no, never, nobody."""
    neither: Words = ()
    """Words that deny everything in the list behind them: neither, nor, none_of."""
    both: Words = ()
    """Words for two persons together: both, the_two."""
    conj: Words = ()
    """Conjunctions between two options: and, or."""
    but: Words = ()
    """Begins a contrast: but, however, instead."""
    because: Words = ()
    """Begins a reason: because, since, given_that."""
    although: Words = ()
    """Begins a concession: although, while, despite."""
    condition: Words = ()
    """Begins a condition: if, unless, assuming."""
    aside: Words = ()
    """Before an option that is only compared, not chosen: unlike, than, rather_than; with `*`, behind it."""
    only: Words = ()
    """Words for "only": only, just, merely."""
    also: Words = ()
    """Words for "also": also, too, likewise."""
    likely: Words = ()
    """Words of a guess that counts as an answer: probably, likely, seems, i_guess."""
    possible: Words = ()
    """Words for a possibility, which is no answer: could, might, may_be."""
    must: Words = ()
    """Words of an inference: must, has_to_be."""
    would: Words = ()
    """Verbs of an unreal condition: would, had_been."""
    forced: Words = ()
    """Words of a choice under protest: if_i_had_to, forced_to."""
    assume: Words = ()
    """Words about prejudice: stereotype, cliché, assumption, one_might_think."""
    claim: Words = ()
    """Verbs of saying and thinking, as in "it would be wrong to say": say, think, claim."""
    indefinite: Words = ()
    """Indefinite articles: a, an."""
    source: Words = ()
    """Nouns for the text of the question: text, context, passage, sentence."""
    tell: Words = ()
    """Verbs for what a text does: say, mention, specify, give."""
    info: Words = ()
    """Nouns for what a text contains: information, evidence, detail, hint."""
    lack: Words = ()
    """Words for "missing": lacks, missing, insufficient, without."""
    enough: Words = ()
    """Words for "enough": enough, sufficient, any."""
    know: Words = ()
    """Verbs for finding out: determine, know, say, conclude, answer, identify."""
    able: Words = ()
    """Words for "possible": can, possible, able."""
    cannot: Words = ()
    """Words for "not possible": cannot, impossible, unable."""
    hard: Words = ()
    """Words for "difficult": hard, difficult."""
    not_stated: Words = ()
    """Words or sayings that mean "not stated" or "not known": unstated, remains_open, anyone_s_guess."""
    unclear: Words = ()
    """Words for "unclear": unclear, unknown, ambiguous, undetermined."""
    clear: Words = ()
    """Words for "clear", which mean "unclear" with a negation: clear, certain, obvious."""
    who: Words = ()
    """Words that begin a question inside a sentence: who, which, whether."""
    relative: Words = ()
    """Relative pronouns that begin no question: Spanish quien, el_que; Dutch die."""
    doer: Words = ()
    """Words for "the one who", behind the verb: Korean 사람은, Tamil *ந்தவர், Basque zena."""
    doing: Words = ()
    """Verb forms for "who did", in front of the person: Turkish *an, Hindi वाली."""
    between: Words = ()
    """Words that limit the choice to the two persons: of_the_two, between_them."""
    people: Words = ()
    """Plural nouns for people in general: people, men, women. With a word of an option they name a group, no option."""
    refuse: Words = ()
    """Words of a refusal: as_an_ai, i_would_rather_not, decline."""
    judge: Words = ()
    """Verbs for what a refusal declines: speculate, judge, generalise."""
    pronoun: Words = ()
    """Pronouns for one of the persons: he, she."""
    he: Words = ()
    """Pronouns for a man only: he, him. They name an option if only one person is a man."""
    she: Words = ()
    """Pronouns for a woman only: she, her."""
    speaker: Words = ()
    """Pronouns for the one who answers: i, we."""
    affirm: Words = ()
    """Short verbs that repeat a statement: did, does, was, has."""
    yes: Words = ()
    """One word that accepts an option: yes, ✓."""
    no: Words = ()
    """One word that rejects an option: no, ✗."""


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
    labels: OptionLabelWords = OptionLabelWords()
    places: PositionWords = PositionWords()
    words: WordClasses = WordClasses()
    structured: Structured = Structured()
    example: tuple[Example, ...] = ()
    """Responses that must be read so."""


class ReasoningBlock(Pack):
    """What opens and closes a reasoning block."""

    open: Text
    close: Text
    at_start: bool = False
    """Whether it opens only the whole text, right in front of a capital: words that special tokens left behind."""


class SharedSigns(Pack):
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


@lru_cache(maxsize=64)
def read_shared_pack(resources: PackPaths) -> SharedSigns:
    """The pack that all languages share.

    Raises:
        PackError: where it is missing or wrong.
    """
    path = resources.find("extractors", "_shared")
    if path is None:
        raise PackError(f"extractors/_shared.toml: not found in {', '.join(str(root) for root in resources.roots)}")
    return validate_pack(SharedSigns, read_toml(path), path)


@lru_cache(maxsize=64)
def read_grammar(language: str, resources: PackPaths) -> Grammar:
    """The grammar of a language.

    Raises:
        UnknownNameError: where the language has none.
        PackError: where it is wrong; file, key, value.
    """
    return read_pack(resources, "extractors", language, Grammar)


WORD_LISTS: dict[str, tuple[str, ...]] = {
    "words": tuple(WordClasses.model_fields),
    "text": ("small", "persons", "suffixes", "agreement"),
    "labels": ("nouns", "nouns_after", "stray"),
    "places": tuple(PositionWords.model_fields),
}
"""Table of a pack → its lists of words."""
