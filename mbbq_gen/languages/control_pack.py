"""The schema of `control_sets/xx.toml`: first names, their forms, and the grammar of substitution."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from mbbq_gen.core.files import PackPaths
from mbbq_gen.languages.packs import Pack, PackInfo, Slug, Text, Unique, placeholders, read_pack

NameGender = Literal["f", "m"]


class Agreement(Pack):
    """How words about a person follow the gender of the name: Spanish "fue contratada", of Emma."""

    copulas: tuple[Text, ...]
    """Words after which a word about the person stands, lower case."""
    adverbs: tuple[Text, ...] = ()
    """Words that may stand between."""
    male: Text
    """How a word ends about a man."""
    female: Text
    """How it ends about a woman."""
    participles: tuple[Text, ...] = ()
    """What stands before that ending in every word that agrees, such as `ad`, `id`."""
    words: tuple[Text, ...] = ()
    """Other words that agree, about a man."""
    forms: dict[str, str] = {}
    """Words that agree otherwise, about a man → about a woman."""
    both: dict[str, str] = {}
    """Words about both people, if both are men → if both are women: `ambos = "ambas"`."""
    both_behind: tuple[Text, ...] = ()
    """Words after which such a word is about both people ("dos"); itself, where it always is."""
    both_articles: dict[str, str] = {}
    """Articles and possessives before a word about both: `los = "las"`."""
    two: tuple[Text, ...] = ()
    """Numbers that mean the two people after such an article, without a noun: "los *dos* cantaban"."""
    clitics: tuple[Text, ...] = ()
    """Words in s after such a number that are no noun: les."""
    plural_copulas: tuple[Text, ...] = ()
    """Copulas after which a word about both people stands."""
    both_endings: tuple[Text, ...] = ()
    """How a word that agrees ends about several men, and about several women."""
    as_words: tuple[Text, ...] = ()
    """Words other than "and" that join the two people: "tanto Emma *como* Julia"."""
    ages: dict[str, str] = {}
    """What a person was, after "de": "de *niño*"."""
    epicenes: tuple[Text, ...] = ()
    """Nouns for several people with a gender of their own, which words about them keep: "dos *personas* juntas"."""
    numbers: dict[str, NameGender] = {}
    """Numbers that tell the gender of the people after them, and can't follow the names: Catalan `dues = "f"`."""
    common_plurals: tuple[Text, ...] = ()
    """Nouns for several people of either gender, after such numbers: estudiants."""
    interrogatives: tuple[Text, ...] = ()
    asked: dict[str, str] = {}
    """Words after an interrogative that ask for a man → for a woman; the names must be such: `pare = "mare"`."""
    mixed: NameGender | None = None
    """Gender of both names where a man and a woman stood: that of the words for both; None: either."""
    any_gender: tuple[Text, ...] = ()
    """Nouns whose ending tells nothing: persona."""
    articles: dict[str, str] = {}
    """Articles that may stand between, about a man → about a woman; they follow the word: "fue *la* única"."""
    stand_ins: dict[str, str] = {}
    """Words that stand for a person after a copula or a comma, likewise: "*el otro* era Mateo"."""
    places: tuple[Text, ...] = ()
    """Words before such a word that is a place, and any like it after: "*en* una trabaja Emma, en la otra Ana"."""
    owners: tuple[Text, ...] = ()
    """Words before a person that is not what the sentence is about: "la profesión *de* Emma fue revelada"."""
    stops: tuple[Text, ...] = ()
    """Words after which a copula is about something else: "*lo* cual es bueno"."""
    and_words: tuple[Text, ...] = ()
    """Words that join a second such word: "riguroso *y* atento"."""
    or_words: tuple[Text, ...] = ()
    """Words between a man's form and a woman's, one of which is used: "un lector *o* una lectora"."""


class NeutralPronouns(Pack):
    """How he and she become a pronoun of no gender, with the verb after it: "he embraces" → "they embrace"."""

    subjects: dict[str, str]
    """Pronouns that a verb follows: `he = "they"`."""
    others: dict[str, str]
    """Other pronouns: `his = "their"`."""
    objects: dict[str, str] = {}
    """What a pronoun of `others` becomes where no noun can follow: `her = "them"`."""
    object_before: tuple[Text, ...] = ()
    """Words that tell that no noun follows."""
    adverbs: tuple[Text, ...] = ()
    """Words that may stand between pronoun and verb."""
    verbs: dict[str, str] = {}
    """Verb forms that change irregularly: `was = "were"`; `s` for what is written with an apostrophe."""
    ending: str = ""
    """What other verbs lose: `s`."""
    endings: dict[str, str] = {}
    """How verbs end that lose more, and what is left: `ies = "y"`, of "he tries"."""
    perfects: dict[str, str] = {}
    """Verb forms that change otherwise before a participle: `s = "ve"`, of "he's been"."""
    participles: tuple[Text, ...] = ()
    """Participles that tell so, and stand after no other such form: been."""
    kept: tuple[Text, ...] = ()
    """Words in that ending that are no such verbs."""
    and_words: tuple[Text, ...] = ()
    """Words that may join a second verb, where the pronouns are better left alone."""


class Declension(Pack):
    """How words of one kind decline: Russian студент, студента, студенту."""

    ends: tuple[Text, ...]
    """How such a word ends, in the nominative; a whole word for one that declines alone."""
    drop: int = Field(default=0, ge=0, le=4)
    """How many letters it loses before its endings."""
    cases: dict[Slug, tuple[Text, ...]] = {}
    """Form of a name (`grammar.forms`) → endings in that case."""
    others: tuple[Text, ...] = ()
    """Its other endings: of the plural, or of adjectives, beside whose noun they tell nothing."""


class SubstitutionExample(Pack):
    """A text with two people, and what it becomes with two names; it runs as a test."""

    options: tuple[Text, Text]
    """The two people as options."""
    names: tuple[Text, Text]
    """The name of each."""
    gender: NameGender
    """Of both names."""
    text: Text
    slots: tuple[tuple[Text, Literal[0, 1]], ...] = ()
    """Where the data tells where the people stand: what is in each slot, in order, and whose it is."""
    becomes: Text | None = None
    """None where it is refused."""
    refused: Slug | None = None
    """The reason, where it is."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.becomes is None) == (self.refused is None):
            raise ValueError("give the expected text, or the reason for the refusal")
        return self


class Substitution(Pack):
    """How people are found in a text that was not made for it, and names put in their place.

    All words are lower case. A word with one of `endings` is the same word.
    """

    determiners: tuple[Text, ...] = ()
    """Words that stand before a person and not before a name: articles, possessives."""
    contractions: dict[str, str] = {}
    """Determiners that hold another word, and what is left of them: Spanish `al = "a"`."""
    genitives: dict[str, str] = {}
    """Determiners that hold another word after a noun alone: German `der = "von"`, of "die Wahl *der* Frau"."""
    relatives_by_gender: dict[str, str] = {}
    """Relative pronouns after a comma, about a man → about a woman: German `den = "die"`."""
    male_determiners: tuple[Text, ...] = ()
    female_determiners: tuple[Text, ...] = ()
    """Determiners that tell the grammatical gender of what they stand before."""
    plural_determiners: tuple[Text, ...] = ()
    """Determiners of several people, before an option that is no person to name: Italian "*gli* anziani"."""
    heads: tuple[Text, ...] = ()
    """Words for any person, one for the other: person, man, friend, candidate."""
    plurals: tuple[Text, ...] = ()
    """Words for several people: a name can't stand for them."""
    plural_signs: tuple[Text, ...] = ()
    """How an option's noun ends that means several, such as English "s"…"""
    no_plural_signs: tuple[Text, ...] = ()
    """… but for these: "ss", "us"."""
    collectives: tuple[Text, ...] = ()
    """Words for a group that is one thing (couple, family): a name can't stand for them."""
    modifiers: tuple[Text, ...] = ()
    """Words that may stand beside what tells the person apart: really, young, local."""
    numbers: tuple[Text, ...] = ()
    """Numbers from two on, after which a noun in the singular means several: Turkish "iki arkadaş"."""
    reaching: tuple[Text, ...] = ()
    """Determiners that may stand some words before the person and go with it: Turkish "onların eski okul arkadaşı"."""
    possessives: tuple[Text, ...] = ()
    """Determiners before which an article stands: Catalan "el *meu* amic"."""
    definites: tuple[Text, ...] = ()
    """Determiners with which a question may name the two people: "is it *the* baker or the poet?"."""
    introducing: tuple[Text, ...] = ()
    """Determiners of one who was not named before in the sentence: "a parent asked *their* old parent"."""
    home_words: tuple[Text, ...] = ()
    """Prepositions after which what looks like a name is a place: "one *from* Goa"."""
    stand_ins: tuple[Text, ...] = ()
    """Words that stand for a person whose name comes later: one, the other."""
    copulas: tuple[Text, ...] = ()
    """Words between such a word and what tells the person apart: "one was *fat*"."""
    naming: dict[str, str] = {}
    """Copulas that do not stand before a name, and what they become: Spanish `está = "es"`."""
    links: tuple[Text, ...] = ()
    """Words between a head and what tells the person apart: `who is`, `with`, `with a`."""
    group_words: tuple[Text, ...] = ()
    """Words that tell of a group by themselves, wherever they stand: "trans"."""
    tails: tuple[Text, ...] = ()
    """Words after a mention that go with it: `of mine`."""
    small_words: tuple[Text, ...] = ()
    """Prepositions and the like, which tell nobody apart."""
    undetermined: tuple[Text, ...] = ()
    """Words for a person that have no determiner: Dutch "degene"."""
    compounds: bool = False
    """Whether a long word that ends in another is that word too: Dutch "universiteitsvriend" and "vriend"."""
    relatives: tuple[Text, ...] = ()
    """Words that begin a clause about a person whose verb comes last: Dutch "die"."""
    asides: tuple[Text, ...] = ()
    """Relatives of a clause about a person that commas set off: "my neighbor, *who* has a cough, sings"."""
    clause_relatives: tuple[Text, ...] = ()
    """Relatives after which the verb of a description stands: Spanish "que"."""
    closing_verbs: tuple[Text, ...] = ()
    """Verbs that may close such a clause, and go with the mention: "de man die dun *was*"."""
    told_last: dict[str, str] = {}
    """Verbs after what a person has, and what they become after a name: Dutch `heeft = "heet"`."""
    openers: tuple[Text, ...] = ()
    """Words from which on all after a mention goes with it, up to a comma or `clause_words`: "dressed in"."""
    clause_words: tuple[Text, ...] = ()
    """Words that begin another clause."""
    lead_ins: tuple[Text, ...] = ()
    """Words before a mention's determiner that go with it: "now", of "now a dentist"."""
    before_bare: tuple[Text, ...] = ()
    """Words after which a person may stand without a determiner: "my grandfather and son"."""
    needs_determiner: bool = False
    """Whether a person stands without a determiner only after those words, so that others are part of the mention."""
    relations: tuple[Text, ...] = ()
    """Words that tell of a tie to the person after them ("he *has* a blind friend"), where no name can stand."""
    told: dict[str, str] = {}
    """Words before what a person has, and what they become before a name: `had = "was called"`."""
    endings: tuple[Text, ...] = ()
    """Endings with which a word is the same word."""
    plural_endings: tuple[Text, ...] = ()
    """Those of them that mean several."""
    cases: dict[Slug, tuple[Text, ...]] = {}
    """Form of a name (`grammar.forms`) → endings of a mention's last word that ask for it."""
    closing_cases: tuple[Slug, ...] = ()
    """Those forms whose endings close a person in a slot: Korean `topic`, of "22세*는*". Empty: slots are not used."""
    behind_two: tuple[Text, ...] = ()
    """Words after two people in slots, joined by "and", that are about both: Korean "모두"."""
    behind_bare: tuple[Text, ...] = ()
    """How words begin before which a person in a slot stands without an ending: Korean "때문"."""
    noun_links: tuple[Text, ...] = ()
    """Endings of a noun that describes the noun after it: Korean "인", of "의사*인* 친구"."""
    other_stems: dict[str, str] = {}
    """What stands before the endings of a word, where that is not the word: Marathi `मुला = "मुलगा"`, of मुलाने."""
    declensions: tuple[Declension, ...] = ()
    """How words decline, in place of `endings` and `cases`; the first that fits counts; the noun tells the case."""
    adjective_endings: tuple[Text, ...] = ()
    """How a word of a description ends that is not its noun: Russian "ый"; the noun is the first other word."""
    case_by_preposition: dict[Slug, tuple[Text, ...]] = {}
    """Case → the words before a person that tell it from others that the ending may be: Russian "о", of "о мужчине"."""
    only_behind: tuple[Text, ...] = ()
    """Cases that only such a word tells: an ending of one of them and of another is the other's. Russian `prep`."""
    never_opening: tuple[Text, ...] = ()
    """Cases of no person at the beginning of a clause, where the ending is rather the plural's: Russian `gen`."""
    fenced: bool = False
    """Whether a question is refused where what stands beside a person may tell more of it than its option does."""
    never_before: tuple[Text, ...] = ()
    """Words that go with the person before them: French "du", of "le patron *du* restaurant"."""
    never_before_endings: tuple[Text, ...] = ()
    """How such a word ends: French "ienne", of "une femme syrienne"."""
    only_before_endings: tuple[Text, ...] = ()
    """How any other word after a person ends, but for `beside`: the verbs of Russian."""
    beside: tuple[Text, ...] = ()
    """Words beside a person that tell nothing of it, besides the lists of small words."""
    object_behind: tuple[Text, ...] = ()
    """How a word ends after which a form of nominative and accusative may be either: Russian "видел *мать*"."""
    prefixes: tuple[Text, ...] = ()
    """What may be joined to the beginning of a person's first word, and stays: Arabic و, ل."""
    article_prefix: str = ""
    """The article that is joined to a word, and goes: Arabic ال, with `article_after` ("لل" for "لال")."""
    article_after: dict[str, Text] = {}
    """Prefix → how the article is written after it: Arabic `"ل" = "ل"`."""
    inner_signs: str = ""
    """Signs that may stand inside a word: the apostrophe of Assamese ল'ৰা."""
    phrases: tuple[Text, ...] = ()
    """Several words that are one: Odia "ନ ଥିବା"."""
    softened: dict[str, str] = {}
    """Last letters that change before an ending: Turkish `k = "ğ"`."""
    long_vowels: bool = False
    """Whether a vowel written twice is written once before an ending: Dutch doof, dove."""
    head_last: bool = False
    """Whether nothing before the first telling word can be the noun (Turkish)."""
    bases_only: bool = False
    """Whether an option's words have no endings that the text's words could lack (Turkish)."""
    modifiers_behind: tuple[Text, ...] = ()
    """Modifiers that may stand after: "el adolescente *local*"."""
    relations_behind: tuple[Text, ...] = ()
    """Words after a person that tell of a tie to it: Turkish "var"."""
    head_first: bool = False
    """Whether the first word of a person's description is the noun (Spanish), not the last (English)."""
    bare_adjectives: bool = False
    """Whether an article and an adjective mean a person: Spanish "el gordo", not English "the fat"."""
    articles_behind: dict[str, Slug] = {}
    """Articles after a person → the form of `grammar.forms` that each asks for: Basque `bati = "dat"`."""
    copulas_before_nouns: tuple[Text, ...] = ()
    """Verbs of a relative clause that tells of the person before its noun: Basque "zen", of "altua *zen* ikaslea"."""
    article_endings: tuple[Text, ...] = ()
    """How a person's last word ends where no article stands after, unless one of `before_bare` follows: Basque "a"."""
    asked_genders: tuple[Text, ...] = ()
    """Words that ask for the gender of one, which two names of one gender can't tell: Korean "여자입니까"."""
    plural_questions: tuple[Text, ...] = ()
    """Words that ask for several people: Basque "zeintzuk"."""
    noun_anywhere: bool = False
    """Whether the noun is the last word that is one of `heads` (Basque "gizon gaztea"), else the last of all."""
    noun_last: bool = False
    """Whether the noun is the last word of a description, whatever stands before it (Hindi)."""
    unspaced: bool = False
    """Whether words stand without spaces (Chinese, Japanese): known words part a text, and each rest is one word."""
    noun_suffixes: tuple[Text, ...] = ()
    """Nouns that close a longer word of an option, and may be another noun in the text: 人, of 日本人, 日本朋友."""
    other_words: tuple[Text, ...] = ()
    """Other words by which such a text is separated, so that no shorter word is seen in them: 老师 for 老."""
    nominalizers: tuple[Text, ...] = ()
    """Words that make a person of an adjective before them, at the end of a clause: 的, of "一个是高个子*的*"."""
    never_behind: tuple[Text, ...] = ()
    """How a word before a person ends that goes with the person, so that a name would get it too: Chinese 的."""
    only_before: tuple[Text, ...] = ()
    """How what follows a person in the same clause begins; else the person is part of a longer word (Japanese)."""
    name_signs: tuple[Text, ...] = ()
    """How a name begins that may stand beside a person, where no other can stand: Chinese 小, of "北京人*小*刘"."""
    verbs_agree: bool = False
    """Whether verbs tell the gender of the person, so that names have that of the two people's nouns (Hindi)."""
    male_nouns: tuple[Text, ...] = ()
    female_nouns: tuple[Text, ...] = ()
    """Words of a description that tell its grammatical gender, with any of `endings`; the female ones count first."""
    male_noun_endings: tuple[Text, ...] = ()
    female_noun_endings: tuple[Text, ...] = ()
    """How the noun of an option ends that is a man's or a woman's: Telugu "డు", "రాలు"."""
    male_verb_endings: tuple[Text, ...] = ()
    female_verb_endings: tuple[Text, ...] = ()
    """How words outside the mentions end that tell of a man or a woman, where the nouns leave it open: Telugu "ాడు"."""
    gender_verbs: tuple[Text, ...] = ()
    """Verbs after which words agree, so that people of two genders can't both be replaced: French "est"."""
    genderless: tuple[Text, ...] = ()
    """Words in `male_verb_endings` and `female_verb_endings` that tell nothing."""
    genderless_behind: tuple[Text, ...] = ()
    """Verbs after which a word of `male_verb_endings` tells nothing: French "a", of "a mangé"."""
    female_endings: tuple[Text, ...] = ()
    """How other nouns end that may be a woman's, so that their gender is not settled: Hindi "ी"."""
    unmarked: NameGender | None = None
    """Gender of all other nouns; None: verbs after them tell none, and the names may be of either."""
    shortest_stem: int = Field(default=3, ge=1)
    """Letters that must be left of a word without its ending: 2 where a letter is a syllable."""
    joined: bool = False
    """Whether words grow by what is joined; one that begins with a telling word refuses too: Korean "노인들"."""
    male_words: tuple[Text, ...] = ()
    """Pronouns and nouns that tell that a man is spoken of."""
    female_words: tuple[Text, ...] = ()
    to_female: dict[str, str] = {}
    """Which of the male words becomes what where the names are female; those that are missing can't be settled."""
    to_male: dict[str, str] = {}
    two_lines: bool = False
    """Whether a question of two lines is first about a man, then about a woman, so that one of them is to be chosen."""
    pronouns: NeutralPronouns | None = None
    """None: pronouns follow the gender of the names."""
    neutral: dict[str, str] = {}
    """Words for men or women that become words for anyone, as the names may be of either gender."""
    neutral_behind: tuple[Text, ...] = ()
    """Words after which such a word is about the two people: "two women", "the other man"."""
    name_form: Slug | None = None
    """The form of `grammar.forms` in which a name stands in a text: with its article, in Catalan."""
    agreement: Agreement | None = None
    before_names: dict[str, Slug] = {}
    """Words whose form hangs on the name after them, and the form of `grammar.forms` that writes both."""
    behind_names: dict[str, Slug] = {}
    """Words whose form hangs on the written name before them → the form that writes both: Turkish "Umut'un *da*"."""
    option_forms: bool = False
    """Whether an option may be in a case, which the name then has too: Basque "Aitonari", to whom."""
    example: tuple[SubstitutionExample, ...] = ()

    @property
    def nouns_placed(self) -> bool:
        """Whether the grammar tells which word of a description is the noun."""
        return self.noun_anywhere or self.noun_last or self.unspaced


class NameRule(Pack):
    """One line of a form's grammar: when it holds for a name, `give` tells how the name is written.

    It holds where all of its conditions do; a condition that is None always does. They are about the name in lower
    case: how it starts and ends, its last letter (`ends_in`, `ends_not_in`), and its last vowel.
    """

    gender: NameGender | None = None
    """Holds if the name stands in that list of names alone: `f` the female, `m` the male."""
    starts_with: tuple[Text, ...] | None = None
    ends_with: tuple[Text, ...] | None = None
    ends_in: str | None = None
    ends_not_in: str | None = None
    last_vowel: str | None = None
    final_consonant: bool | None = None
    """Whether the last syllable, written in Hangul, must have a final consonant (true) or none (false)."""
    drop: int = Field(default=0, ge=0, le=3)
    """How many letters (code points) the name loses at its end in this form: Russian Анна, Анны drops one."""
    give: Text
    """The written form, with `{name}` in it."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if placeholders(self.give) != ["name"]:
            raise ValueError(f"give: {self.give!r} must hold {{name}} once and nothing else in braces")
        return self


class NameGrammar(Pack):
    """How a first name is written in each form that templates ask for (`def`, `indef`, `gen`…)."""

    vowels: str = ""
    """The language's vowels, lower case; needed where a rule asks for `last_vowel`."""
    lower: dict[str, str] = {}
    """Capitals whose lower case differs from Unicode's default (Turkish I and İ)."""
    exceptions: dict[str, dict[str, str]] = {}
    """Form → name → written form, for names that the rules would get wrong."""
    forms: dict[Slug, tuple[NameRule, ...]]
    """Form → rules in order; the first that holds decides, the last one holds always.

    In the file a form may also be another form's name, `indef_gen = "gen"`: a name is written alike in both.
    """

    @model_validator(mode="before")
    @classmethod
    def _copy_forms(cls, data: Any) -> Any:
        """Puts the rules and exceptions of the other form where a form is given by another's name."""
        if not isinstance(data, dict) or not isinstance(data.get("forms"), dict):
            return data
        forms, exceptions = dict(data["forms"]), dict(data.get("exceptions", {}))
        for form, same in data["forms"].items():
            if not isinstance(same, str):
                continue
            if not isinstance(data["forms"].get(same), list | tuple):
                raise ValueError(f"forms.{form}: {same!r} is no form with rules of its own")
            forms[form] = data["forms"][same]
            if same in exceptions:
                exceptions.setdefault(form, exceptions[same])
        return {**data, "forms": forms, "exceptions": exceptions}

    @model_validator(mode="after")
    def _check(self) -> Self:
        for form, rules in self.forms.items():
            if not rules or rules[-1].model_dump(exclude={"drop", "give"}, exclude_none=True):
                raise ValueError(f"forms.{form}: the last rule must hold for every name")
            if {sign for rule in rules for sign in rule.last_vowel or ""} - set(self.vowels):
                raise ValueError(f"forms.{form}: last_vowel has letters that are not in grammar.vowels")
        for form in self.exceptions:
            if form not in self.forms:
                raise ValueError(f"exceptions.{form}: no such form in [grammar.forms]")
        return self


class Names(Pack):
    """First names by gender, as in official statistics."""

    female: Annotated[tuple[Text, ...], Unique] = Field(min_length=10)
    male: Annotated[tuple[Text, ...], Unique] = Field(min_length=10)


class ControlSet(Pack):
    """First names of a language, and the grammar of putting one where a group stood."""

    meta: PackInfo
    names: Names
    grammar: NameGrammar
    substitution: Substitution | None = None
    """None: control questions can't be made by substitution in this language yet."""

    @model_validator(mode="after")
    def _check_forms(self) -> Self:
        if (rules := self.substitution) is not None:
            needed = {*rules.cases, *rules.before_names.values(), *rules.behind_names.values()}
            needed |= {*rules.articles_behind.values(), *filter(None, [rules.name_form])}
            needed |= {case for kind in rules.declensions for case in kind.cases}
            missing = sorted(needed - self.grammar.forms.keys())
            if missing:
                raise ValueError(f"substitution: uses forms that [grammar.forms] does not have: {', '.join(missing)}")
        return self


def read_control_set(resources: PackPaths, language: str) -> ControlSet:
    """The names and name grammar of a language; raises as `read_pack` does."""
    return read_pack(resources, "control_sets", language, ControlSet)
