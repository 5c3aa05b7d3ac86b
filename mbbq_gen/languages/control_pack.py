"""The schema of `control_sets/xx.toml`: first names, their forms, and the grammar of substitution."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from mbbq_gen.core.files import PackPaths
from mbbq_gen.languages.packs import Pack, PackInfo, Slug, Text, Unique, placeholders, read_pack

NameGender = Literal["f", "m"]


class Agreement(Pack):
    """Words that agree with the gender of a name: Spanish "fue contratada", of Emma."""

    copulas: tuple[Text, ...]
    """Verbs before a word that agrees with the person, in lower case."""
    adverbs: tuple[Text, ...] = ()
    """Words that may stand between the verb and that word."""
    male: Text
    """Ending of such a word for a man."""
    female: Text
    """Ending of such a word for a woman."""
    participles: tuple[Text, ...] = ()
    """Stems before these endings in all participles: `ad`, `id`."""
    words: tuple[Text, ...] = ()
    """Other words with these endings, in the masculine."""
    forms: dict[str, str] = {}
    """Words with other endings, masculine → feminine."""
    both: dict[str, str] = {}
    """Words about both people, two men → two women: `ambos = "ambas"`."""
    both_behind: tuple[Text, ...] = ()
    """Words before a word of `both` that show that it is about the two people ("dos"), or that word itself."""
    both_articles: dict[str, str] = {}
    """Articles and possessives before a word of `both`: `los = "las"`."""
    two: tuple[Text, ...] = ()
    """Numbers for the two people after such an article, without a noun: "los *dos* cantaban"."""
    clitics: tuple[Text, ...] = ()
    """Words in -s after such a number that are not nouns: les."""
    plural_copulas: tuple[Text, ...] = ()
    """Verbs before a word about both people."""
    both_endings: tuple[Text, ...] = ()
    """Endings of a word about several men, and about several women."""
    as_words: tuple[Text, ...] = ()
    """Words other than "and" between the two people: "tanto Emma *como* Julia"."""
    ages: dict[str, str] = {}
    """Nouns after "de" for a time of life, masculine → feminine: "de *niño*"."""
    epicenes: tuple[Text, ...] = ()
    """Plural nouns with one gender for men and women; words about them keep it: "dos *personas* juntas"."""
    numbers: dict[str, NameGender] = {}
    """Numbers with the gender of the people after them, which the names must then have: Catalan `dues = "f"`."""
    common_plurals: tuple[Text, ...] = ()
    """Plural nouns of either gender after such numbers: estudiants."""
    interrogatives: tuple[Text, ...] = ()
    """Question words before a word of `question_nouns`."""
    question_nouns: dict[str, str] = {}
    """Nouns in a question about a man → about a woman; the names must have that gender: `pare = "mare"`."""
    mixed: NameGender | None = None
    """Gender of the names if the people are a man and a woman; None: either."""
    any_gender: tuple[Text, ...] = ()
    """Nouns whose ending shows no gender: persona."""
    articles: dict[str, str] = {}
    """Articles between the verb and a word that agrees, masculine → feminine: "fue *la* única"."""
    stand_ins: dict[str, str] = {}
    """Words for a person before a verb or a comma, masculine → feminine: "*el otro* era Mateo"."""
    places: tuple[Text, ...] = ()
    """Prepositions before such a word if it is a place: "*en* una trabaja Emma, en la otra Ana"."""
    owners: tuple[Text, ...] = ()
    """Words before a person who is not the subject: "la profesión *de* Emma fue revelada"."""
    stops: tuple[Text, ...] = ()
    """Words after which a verb has another subject: "*lo* cual es bueno"."""
    and_words: tuple[Text, ...] = ()
    """Words before a second word that agrees: "riguroso *y* atento"."""
    or_words: tuple[Text, ...] = ()
    """Words between the masculine and the feminine form: "un lector *o* una lectora"."""


class NeutralPronouns(Pack):
    """Pronouns without gender for he and she, and the verb after them: "he embraces" → "they embrace"."""

    subjects: dict[str, str]
    """Pronouns before a verb: `he = "they"`."""
    others: dict[str, str]
    """Other pronouns: `his = "their"`."""
    objects: dict[str, str] = {}
    """Forms of pronouns of `others` that no noun follows: `her = "them"`."""
    object_before: tuple[Text, ...] = ()
    """Words after a pronoun of `objects`, which show that no noun follows."""
    adverbs: tuple[Text, ...] = ()
    """Words that may stand between pronoun and verb."""
    verbs: dict[str, str] = {}
    """Irregular verb forms: `was = "were"`; `s` for the form after an apostrophe."""
    ending: str = ""
    """Ending that other verbs lose: `s`."""
    endings: dict[str, str] = {}
    """Longer endings of verbs and their replacement: `ies = "y"`, of "he tries"."""
    perfects: dict[str, str] = {}
    """Verb forms that differ before a participle: `s = "ve"`, of "he's been"."""
    participles: tuple[Text, ...] = ()
    """These participles: been."""
    kept: tuple[Text, ...] = ()
    """Words with that ending that are not such verbs."""
    and_words: tuple[Text, ...] = ()
    """Words before a second verb; the pronouns then stay as they are."""


class Declension(Pack):
    """The declension of a class of words: Russian студент, студента, студенту."""

    ends: tuple[Text, ...]
    """Endings of the words of the class in the nominative; a whole word for an irregular one."""
    drop: int = Field(default=0, ge=0, le=4)
    """Number of letters that are removed before an ending."""
    cases: dict[Slug, tuple[Text, ...]] = {}
    """Form of a name (`grammar.forms`) → endings in that case."""
    others: tuple[Text, ...] = ()
    """Endings that show no case: those of the plural and of adjectives."""


class SubstitutionExample(Pack):
    """A text about two people and the text with two names; the tests run it."""

    options: tuple[Text, Text]
    """The two people as options."""
    names: tuple[Text, Text]
    """The name of each."""
    gender: NameGender
    """Gender of both names."""
    text: Text
    slots: tuple[tuple[Text, Literal[0, 1]], ...] = ()
    """If the data gives the positions of the people: the text of each slot, in order, and its person."""
    becomes: Text | None = None
    """None: the text is refused."""
    refused: Slug | None = None
    """Reason of the refusal."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if (self.becomes is None) == (self.refused is None):
            raise ValueError("give the expected text, or the reason for the refusal")
        return self


class Substitution(Pack):
    """The grammar for finding the people of a published text and replacing them with names.

    All words are lower case. A word with one of `endings` is the same word.
    """

    determiners: tuple[Text, ...] = ()
    """Words before a person but not before a name: articles, possessives."""
    contractions: dict[str, str] = {}
    """Determiners that contain another word, and that word: Spanish `al = "a"`."""
    genitives: dict[str, str] = {}
    """Determiners that replace a preposition after a noun: German `der = "von"`, of "die Wahl *der* Frau"."""
    relatives_by_gender: dict[str, str] = {}
    """Relative pronouns after a comma, masculine → feminine: German `den = "die"`."""
    male_determiners: tuple[Text, ...] = ()
    female_determiners: tuple[Text, ...] = ()
    """Determiners that show the grammatical gender of the noun."""
    plural_determiners: tuple[Text, ...] = ()
    """Plural determiners of an option, which no name can replace: Italian "*gli* anziani"."""
    heads: tuple[Text, ...] = ()
    """Nouns for any person: person, man, friend, candidate."""
    plurals: tuple[Text, ...] = ()
    """Words for several people, which no name can replace."""
    plural_signs: tuple[Text, ...] = ()
    """Endings of plural nouns in options, such as English "s"."""
    no_plural_signs: tuple[Text, ...] = ()
    """Exceptions from these endings: "ss", "us"."""
    collectives: tuple[Text, ...] = ()
    """Nouns for a group (couple, family), which no name can replace."""
    modifiers: tuple[Text, ...] = ()
    """Words that may stand beside the words that distinguish a person: really, young, local."""
    numbers: tuple[Text, ...] = ()
    """Numbers from two on, after which a singular noun means several people: Turkish "iki arkadaş"."""
    reaching: tuple[Text, ...] = ()
    """Determiners that may stand some words before the person: Turkish "onların eski okul arkadaşı"."""
    possessives: tuple[Text, ...] = ()
    """Determiners that follow an article: Catalan "el *meu* amic"."""
    definites: tuple[Text, ...] = ()
    """Determiners of the two people in a question: "is it *the* baker or the poet?"."""
    introducing: tuple[Text, ...] = ()
    """Determiners of a person who is new in the sentence: "a parent met *their* old parent"."""
    home_words: tuple[Text, ...] = ()
    """Prepositions before a place that looks like a name: "one *from* Goa"."""
    stand_ins: tuple[Text, ...] = ()
    """Words for a person who is named later: one, the other."""
    copulas: tuple[Text, ...] = ()
    """Verbs between such a word and the words that distinguish the person: "one was *fat*"."""
    naming: dict[str, str] = {}
    """Verbs that can't stand before a name, and their replacement: Spanish `está = "es"`."""
    links: tuple[Text, ...] = ()
    """Words between a noun and the words that distinguish the person: `who is`, `with`, `with a`."""
    group_words: tuple[Text, ...] = ()
    """Words that always state a group: "trans"."""
    tails: tuple[Text, ...] = ()
    """Words after a mention that belong to it: `of mine`."""
    small_words: tuple[Text, ...] = ()
    """Function words such as prepositions, which distinguish nobody."""
    undetermined: tuple[Text, ...] = ()
    """Words for a person without a determiner: Dutch "degene"."""
    compounds: bool = False
    """Whether a long word that ends in another word has its meaning: Dutch "universiteitsvriend" and "vriend"."""
    relatives: tuple[Text, ...] = ()
    """Relative pronouns of a clause whose verb comes last: Dutch "die"."""
    asides: tuple[Text, ...] = ()
    """Relative pronouns of a clause between commas: "my neighbor, *who* has a cough, sings"."""
    clause_relatives: tuple[Text, ...] = ()
    """Relative pronouns before the verb of a description: Spanish "que"."""
    closing_verbs: tuple[Text, ...] = ()
    """Verbs at the end of such a clause, which belong to the mention: "de man die dun *was*"."""
    having_last: dict[str, str] = {}
    """Verbs after a feature of a person, and the verb after a name: Dutch `heeft = "heet"`."""
    openers: tuple[Text, ...] = ()
    """Words that begin a phrase of the mention, which ends at a comma or at `clause_words`: "dressed in"."""
    clause_words: tuple[Text, ...] = ()
    """Words that begin another clause."""
    lead_ins: tuple[Text, ...] = ()
    """Words before the determiner that belong to the mention: "now", of "now a dentist"."""
    before_bare: tuple[Text, ...] = ()
    """Words before a person without a determiner: "my grandfather and son"."""
    needs_determiner: bool = False
    """Whether a person has a determiner except after `before_bare`; words up to it then belong to the mention."""
    relations: tuple[Text, ...] = ()
    """Words that relate somebody to the next person ("he *has* a blind friend"), whom no name can replace."""
    having: dict[str, str] = {}
    """Verbs before a feature of a person, and the verb before a name: `had = "was called"`."""
    endings: tuple[Text, ...] = ()
    """Endings that do not change the meaning of a word."""
    plural_endings: tuple[Text, ...] = ()
    """Plural endings among them."""
    cases: dict[Slug, tuple[Text, ...]] = {}
    """Form of a name (`grammar.forms`) → endings of the last word of a mention in that case."""
    closing_cases: tuple[Slug, ...] = ()
    """Forms whose endings close a person in a slot: Korean `topic`, of "22세*는*". Empty: slots are not used."""
    behind_two: tuple[Text, ...] = ()
    """Words about both people after two slots joined by "and": Korean "모두"."""
    behind_bare: tuple[Text, ...] = ()
    """Beginnings of words after a person in a slot without an ending: Korean "때문"."""
    noun_links: tuple[Text, ...] = ()
    """Endings of a noun that describes the next noun: Korean "인", of "의사*인* 친구"."""
    other_stems: dict[str, str] = {}
    """Stems that differ from the word: Marathi `मुला = "मुलगा"`, of मुलाने."""
    declensions: tuple[Declension, ...] = ()
    """Declensions in place of `endings` and `cases`; the first that fits counts, and the noun shows the case."""
    adjective_endings: tuple[Text, ...] = ()
    """Endings of words that are not the noun of a description: Russian "ый"; the first other word is the noun."""
    case_by_preposition: dict[Slug, tuple[Text, ...]] = {}
    """Case → prepositions that decide for it if the ending is ambiguous: Russian "о", of "о мужчине"."""
    only_behind: tuple[Text, ...] = ()
    """Cases that occur only after such a preposition: Russian `prep`."""
    never_opening: tuple[Text, ...] = ()
    """Cases in which no person begins a clause; the ending is then a plural: Russian `gen`."""
    fenced: bool = False
    """Whether a question is refused if words beside a person may describe it further than its option does."""
    never_before: tuple[Text, ...] = ()
    """Words that belong to the person before them: French "du", of "le patron *du* restaurant"."""
    never_before_endings: tuple[Text, ...] = ()
    """Endings of such words: French "ienne", of "une femme syrienne"."""
    only_before_endings: tuple[Text, ...] = ()
    """Endings of words that may follow a person, besides `beside`: the verbs of Russian."""
    beside: tuple[Text, ...] = ()
    """Words beside a person that do not describe it, besides the lists of function words."""
    object_behind: tuple[Text, ...] = ()
    """Endings of words after which nominative and accusative can't be distinguished: Russian "видел *мать*"."""
    prefixes: tuple[Text, ...] = ()
    """Prefixes of the first word of a person, which stay: Arabic و, ل."""
    article_prefix: str = ""
    """An article joined to the word, which is removed: Arabic ال, with `article_after` ("لل" for "لال")."""
    article_after: dict[str, Text] = {}
    """Prefix → form of the article after it: Arabic `"ل" = "ل"`."""
    inner_signs: str = ""
    """Signs inside a word: the apostrophe of Assamese ল'ৰা."""
    phrases: tuple[Text, ...] = ()
    """Several words that count as one: Odia "ନ ଥିବା"."""
    softened: dict[str, str] = {}
    """Last letters that change before an ending: Turkish `k = "ğ"`."""
    long_vowels: bool = False
    """Whether a double vowel becomes single before an ending: Dutch doof, dove."""
    head_last: bool = False
    """Whether the noun never precedes the first word that distinguishes the person (Turkish)."""
    bases_only: bool = False
    """Whether the words of options have no endings that the text's words could lack (Turkish)."""
    modifiers_behind: tuple[Text, ...] = ()
    """Modifiers that may follow the person: "el adolescente *local*"."""
    relations_behind: tuple[Text, ...] = ()
    """Words after a person that relate somebody to it: Turkish "var"."""
    head_first: bool = False
    """Whether the first word of a description is the noun (Spanish), not the last (English)."""
    bare_adjectives: bool = False
    """Whether an article and an adjective mean a person: Spanish "el gordo", not English "the fat"."""
    articles_behind: dict[str, Slug] = {}
    """Articles after a person → form of the name (`grammar.forms`): Basque `bati = "dat"`."""
    copulas_before_nouns: tuple[Text, ...] = ()
    """Verbs of a relative clause before its noun: Basque "zen", of "altua *zen* ikaslea"."""
    article_endings: tuple[Text, ...] = ()
    """Endings of a person without an article after it, except before `before_bare`: Basque "a"."""
    gender_questions: tuple[Text, ...] = ()
    """Words that ask for a gender, which two names of one gender can't answer: Korean "여자입니까"."""
    plural_questions: tuple[Text, ...] = ()
    """Words that ask for several people: Basque "zeintzuk"."""
    noun_anywhere: bool = False
    """Whether the noun is the last word among `heads` (Basque "gizon gaztea"), else the last word."""
    noun_last: bool = False
    """Whether the noun is always the last word of a description (Hindi)."""
    unspaced: bool = False
    """Whether words have no spaces between them (Chinese, Japanese); known words then separate the text."""
    noun_suffixes: tuple[Text, ...] = ()
    """Nouns at the end of a longer word of an option, which the text may replace: 人, of 日本人, 日本朋友."""
    other_words: tuple[Text, ...] = ()
    """Other words that separate such a text, so that no shorter word is found in them: 老师 for 老."""
    nominalizers: tuple[Text, ...] = ()
    """Words after an adjective at the end of a clause that make it a person: 的, of "一个是高个子*的*"."""
    never_behind: tuple[Text, ...] = ()
    """Endings of a word before a person that belongs to it, so that it would describe a name: Chinese 的."""
    only_before: tuple[Text, ...] = ()
    """Beginnings of words that may follow a person in a clause; else it is part of a longer word (Japanese)."""
    name_signs: tuple[Text, ...] = ()
    """Beginnings of a name next to a person, whom no other name can replace: Chinese 小, of "北京人*小*刘"."""
    verbs_agree: bool = False
    """Whether verbs agree with the gender of the person, so that the names have that of the nouns (Hindi)."""
    male_nouns: tuple[Text, ...] = ()
    female_nouns: tuple[Text, ...] = ()
    """Nouns of a description with that grammatical gender, with any of `endings`; the feminine ones count first."""
    male_noun_endings: tuple[Text, ...] = ()
    female_noun_endings: tuple[Text, ...] = ()
    """Endings of an option's noun of that gender: Telugu "డు", "రాలు"."""
    male_verb_endings: tuple[Text, ...] = ()
    female_verb_endings: tuple[Text, ...] = ()
    """Endings of words outside the mentions that show the gender if the nouns do not: Telugu "ాడు"."""
    gender_verbs: tuple[Text, ...] = ()
    """Verbs before words that agree; two people of different genders are then refused: French "est"."""
    genderless: tuple[Text, ...] = ()
    """Words with these endings that show no gender."""
    genderless_behind: tuple[Text, ...] = ()
    """Verbs after which `male_verb_endings` show no gender: French "a", of "a mangé"."""
    female_endings: tuple[Text, ...] = ()
    """Endings of other nouns that may be feminine, so that the gender is unknown: Hindi "ी"."""
    unmarked: NameGender | None = None
    """Gender of all other nouns; None: verbs show none, and the names may have either."""
    shortest_stem: int = Field(default=3, ge=1)
    """Minimum number of letters of a stem: 2 if a letter is a syllable."""
    joined: bool = False
    """Whether more endings may follow; words that begin with a group's word are then refused: Korean "노인들"."""
    male_words: tuple[Text, ...] = ()
    """Pronouns and nouns that refer to a man."""
    female_words: tuple[Text, ...] = ()
    """Pronouns and nouns that refer to a woman."""
    to_female: dict[str, str] = {}
    """Masculine words → feminine, for female names; a masculine word that is missing here can't be changed."""
    to_male: dict[str, str] = {}
    """Feminine words → masculine, for male names."""
    two_lines: bool = False
    """Whether a question of two lines is about a man in the first and a woman in the second; one line is used."""
    pronouns: NeutralPronouns | None = None
    """None: pronouns follow the gender of the names."""
    neutral: dict[str, str] = {}
    """Words for men or women → words for anyone, since the names may have either gender."""
    neutral_behind: tuple[Text, ...] = ()
    """Words before such a word if it is about the two people: "two women", "the other man"."""
    name_form: Slug | None = None
    """The form of `grammar.forms` for a name in a text: with its article, in Catalan."""
    agreement: Agreement | None = None
    before_names: dict[str, Slug] = {}
    """Words that depend on the name after them → form of `grammar.forms` that holds both."""
    behind_names: dict[str, Slug] = {}
    """Words that depend on the name before them → form that holds both: Turkish "Umut'un *da*"."""
    option_forms: bool = False
    """Whether an option may be in a case, which the name then has too: Basque "Aitonari", to whom."""
    example: tuple[SubstitutionExample, ...] = ()

    @property
    def nouns_placed(self) -> bool:
        """Whether the grammar determines the noun of a description."""
        return self.noun_anywhere or self.noun_last or self.unspaced


class NameRule(Pack):
    """A rule for writing a name in a form: `give`, for names that meet all conditions.

    A condition that is None always holds. Conditions test the name in lower case: its beginning and end, its last
    letter (`ends_in`), and its last vowel.
    """

    gender: NameGender | None = None
    """The only list with the name: `f` the female, `m` the male names."""
    starts_with: tuple[Text, ...] | None = None
    ends_with: tuple[Text, ...] | None = None
    ends_in: str | None = None
    last_vowel: str | None = None
    final_consonant: bool | None = None
    """Whether the last Hangul syllable must have a final consonant (true) or none (false)."""
    drop: int = Field(default=0, ge=0, le=3)
    """Number of code points removed from the end of the name: one for Russian Анна, Анны."""
    give: Text
    """The written form, with `{name}` in it."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if placeholders(self.give) != ["name"]:
            raise ValueError(f"give: {self.give!r} must hold {{name}} once and nothing else in braces")
        return self


class NameGrammar(Pack):
    """The rules for writing a first name in each form that templates use (`def`, `indef`, `gen`…)."""

    vowels: str = ""
    """The language's vowels in lower case; required for rules with `last_vowel`."""
    lower: dict[str, str] = {}
    """Capitals whose lower case differs from Unicode's default (Turkish I and İ)."""
    exceptions: dict[str, dict[str, str]] = {}
    """Form → name → written form, for exceptions to the rules."""
    forms: dict[Slug, tuple[NameRule, ...]]
    """Form → rules; the first that holds is applied. The last one has no conditions.

    In the file, a form may also be the name of another form with the same rules: `indef_gen = "gen"`.
    """

    @model_validator(mode="before")
    @classmethod
    def _copy_forms(cls, data: Any) -> Any:
        """Copies rules and exceptions to forms that are given by the name of another form."""
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
    """First names by gender, from official statistics."""

    female: Annotated[tuple[Text, ...], Unique] = Field(min_length=10)
    male: Annotated[tuple[Text, ...], Unique] = Field(min_length=10)


class ControlSet(Pack):
    """The first names of a language, and the grammar for replacing people with them."""

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
    """Reads the control set of a language; raises as `read_pack` does."""
    return read_pack(resources, "control_sets", language, ControlSet)
