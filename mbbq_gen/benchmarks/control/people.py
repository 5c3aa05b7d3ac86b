"""Describes the two people of a question by what tells them apart, and chooses their names."""

from __future__ import annotations

import itertools
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from mbbq_gen.benchmarks.control.words import Language, phrase, tokenize
from mbbq_gen.core.errors import PackError
from mbbq_gen.core.files import stable_number
from mbbq_gen.languages.control_pack import ControlSet, NameGender, NameGrammar, NameRule
from mbbq_gen.languages.packs import fill

Attachment = Literal["noun", "adjective", "behind"]
"""How what tells a person apart stands in the description: as its noun ("the grandfather"), beside a noun that many
people could have ("the fat man"), or behind it ("the man with the wheelchair")."""
NAME_WORDS = 2
MANY_WORDS = 3
"""From so many telling words on, all of them must be there: one of them alone may speak of a thing."""


@dataclass(frozen=True)
class PersonDescription:
    """One of the two people of a question."""

    words: tuple[str, ...]
    """The description without its determiner, lower case."""
    noun: str
    """The word of the description that says what the person is: man, of "the fat man"."""
    telling: tuple[str, ...]
    """Those of the words that tell this person from the other, in order."""
    key: str
    """The telling word without which there is no mention."""
    attachment: Attachment
    is_name: bool = False
    """Whether the option is a first name already."""
    gender: NameGender | None = None
    """The grammatical gender that the option's article tells."""
    small: frozenset[str] = frozenset()
    """Small words, if these alone tell the two apart: Telugu ఉన్న and లేని, with and without. They may stand elsewhere."""
    apart_from: frozenset[str] = frozenset()
    """Small words that tell of the other person, if nothing but their lack tells this one: Arabic غير, not."""
    is_common: bool = False
    """Whether the option's article or classifier tells that it is no name."""
    is_several: bool = False
    """Whether the option's article tells that it is of several people."""

    @property
    def needs_all(self) -> bool:
        """Whether every telling word must be there."""
        many = len(self.telling) >= MANY_WORDS or bool(self.small or self.apart_from)
        return many or self.attachment == "behind"

    @property
    def left_over(self) -> tuple[str, ...]:
        """The telling words that may stand nowhere but in a mention."""
        return tuple(word for word in self.telling if word not in self.small)


People = tuple[PersonDescription, PersonDescription]
"""The two people of a question: target and other person."""


def describe_people(options: tuple[str, str], language: Language) -> People | None:
    """The two people; None where their descriptions do not tell them apart."""
    first, second = (_description(option, language) for option in options)
    one, other = _person(first, second, language), _person(second, first, language)
    if one is None or other is None:
        return None
    named = [_is_name(option, language) for option in options]
    if all(named) and all(_may_be_several(option, language) for option in options):
        named = [False, False]
    genders = [_gender(option, language) for option in options]
    common = [_is_common(option, language) for option in options]
    several = [
        bool({*phrase(option, language.control_set)[:1]} & {*language.rules.plural_determiners}) for option in options
    ]
    return (
        replace(one, is_name=named[0], gender=genders[0], is_common=common[0], is_several=several[0]),
        replace(other, is_name=named[1], gender=genders[1], is_common=common[1], is_several=several[1]),
    )


def describe_apart(options: tuple[str, str], language: Language) -> People:
    """Two people whose places in the text are known, so that words need not tell them apart: every word of their
    descriptions tells of them, endings aside."""
    found = []
    for option in options:
        words = _description(option, language)
        content = [word for word in words if word not in language.rules.small_words and not language.is_head(word)]
        found.append(PersonDescription(words, words[-1], tuple(content) or words, words[-1], "adjective"))
    return found[0], found[1]


def _gender(option: str, language: Language) -> NameGender | None:
    """The grammatical gender that an option's article tells."""
    first, names = phrase(option, language.control_set)[:1], language.control_set.names
    if option in names.male or option in names.female:
        return "m" if option in names.male else "f"
    if first and first[0] in language.rules.male_determiners:
        return "m"
    return "f" if first and first[0] in language.rules.female_determiners else None


def _is_name(option: str, language: Language) -> bool:
    """Whether an option is a first name, perhaps with a surname: one or two words with capitals."""
    rules = language.rules
    if not rules.needs_determiner:
        return False  # a person has no determiner either
    words = tokenize(option, language.control_set)
    while rules.name_form and len(words) > 1 and words[0].low in language.determiners:
        words = words[1:]
    if not words or words[0].low in language.determiners:
        return False
    return len(words) <= NAME_WORDS and all(word.text[0].isupper() for word in words)


def _is_common(option: str, language: Language) -> bool:
    """Whether an article or a classifier is joined to a word of an option: Arabic ال, Bengali টি."""
    words = tokenize(option, language.control_set)
    classified = (
        any(words[-1].low.endswith(ending) for ending in language.rules.cases.get("def", ())) if words else False
    )
    return classified or any(len(word.text) > len(word.low) for word in words)


def _may_be_several(option: str, language: Language) -> bool:
    """Whether what looks like a name may be several people: "Muslims", which ends as they do and is no name we know."""
    names, rules = language.control_set.names, language.rules
    ends = option.lower().endswith((*rules.plural_signs, *rules.plural_endings))
    return ends and " " not in option and option not in (*names.female, *names.male)


def _description(option: str, language: Language) -> tuple[str, ...]:
    """The words of an option without the determiners before them."""
    words = phrase(option, language.control_set)
    if len(words) > 2 and words[0] in language.rules.small_words and words[1] in language.determiners:
        words = words[1:]  # "A la mujer", where the question asks to whom
    while len(words) > 1 and words[0] in language.determiners:
        words = words[1:]
    if language.rules.option_forms:
        return (*words[:-1], language.without_case(words[-1]))
    return (*words[:-1], *_without_suffix(words[-1], language.rules.noun_suffixes))


def _without_suffix(word: str, suffixes: Sequence[str]) -> tuple[str, ...]:
    """A word parted from the noun that closes it, if much is left."""
    for suffix in suffixes:
        if word.endswith(suffix) and len(word) > len(suffix) + 1:
            return word[: -len(suffix)], suffix
    return (word,)


def _person(own: tuple[str, ...], other: tuple[str, ...], language: Language) -> PersonDescription | None:
    """The person of a description, beside the other one's."""
    rules = language.rules
    small = language.link_words | language.determiners | {*rules.small_words, *rules.closing_verbs, *rules.copulas}
    content = [word for word in own if word not in small and (len(word) > 1 or word.isdigit() or rules.unspaced)]
    apart = [word for word in content if not any(language.same(word, theirs) for theirs in other)]
    apart = apart or [word for word in content if word not in other]
    split = len(own) if rules.unspaced or rules.noun_last else _link_place(own, language)
    before = own[:split]
    noun = _noun(own if rules.noun_anywhere else before, language)
    telling = [word for word in apart if not _is_weak(word, language)]
    apart_small, lacking = set[str](), set[str]()
    if not telling and (rules.noun_last or rules.verbs_agree):
        telling, apart_small = _told_by_small_words(own, other, content, language)
        if not telling and not [word for word in apart if not language.is_head(word)]:
            telling, lacking = _told_by_lack(own, other, content, language)
    telling = telling or [word for word in apart if not language.is_head(word)] or apart
    if (apart_small or lacking) and rules.head_first:
        telling = [word for word in telling if word != noun]
    if not telling:
        return None
    attachment: Attachment = "behind"
    if any(word in before for word in telling):
        attachment = "noun" if (noun in apart and not language.is_head(noun)) or noun in telling else "adjective"
        telling = [word for word in telling if word in before]
    key = telling[0 if language.rules.head_first else -1]
    return PersonDescription(
        own,
        noun,
        tuple(telling),
        key,
        attachment,
        small=frozenset(apart_small),
        apart_from=frozenset(lacking),
    )


def _is_weak(word: str, language: Language) -> bool:
    """Whether a word tells of a person only beside others: "other", "old"."""
    return language.is_head(word) or word in language.rules.modifiers


def _told_by_small_words(
    own: tuple[str, ...], other: tuple[str, ...], content: Sequence[str], language: Language
) -> tuple[list[str], set[str]]:
    """All that tells of a person whom only small words tell from the other, and these: वैकल्य and असलेला, of "वैकल्य असलेला
    मुलगा"; nothing where there is no such word."""
    small = {word for word in own if word not in content or word in language.rules.modifiers} - {*language.determiners}
    apart = small - set(other)
    apart = {word for word in apart if word not in language.rules.small_words} or apart  # बिना, of "बिना टैटू का"
    strong = [word for word in content if not _is_weak(word, language)]
    if not apart or not strong:
        return [], set()
    return [word for word in own if word in apart or word in strong], apart


def _told_by_lack(
    own: tuple[str, ...], other: tuple[str, ...], content: Sequence[str], language: Language
) -> tuple[list[str], set[str]]:
    """All that tells of a person whose description lacks a small word that the other one has, and these words; nothing
    where there is none."""
    strong = [word for word in content if not _is_weak(word, language)]
    more = [word for word in other if word not in own]
    small = {*language.rules.small_words, *language.link_words, *language.rules.modifiers}
    apart = {word for word in more if word in small}
    rest = [word for word in more if word not in small and not any(language.same(word, mine) for mine in own)]
    return (strong, apart) if strong and apart and not rest else ([], set())


def _noun(words: tuple[str, ...], language: Language) -> str:
    """The noun of a description."""
    if language.rules.noun_anywhere and words[-2:-1] and words[-2] not in language.link_words:
        return next((word for word in reversed(words) if language.is_head(word)), words[-1])
    if language.rules.adjective_endings:
        return next((word for word in words if not word.endswith(language.rules.adjective_endings)), words[-1])
    if language.rules.head_first and language.rules.verbs_agree:
        return next((word for word in words if language.is_head(word)), words[0])  # "un gros *voisin*"
    return words[0 if language.rules.head_first else -1]


def _link_place(words: tuple[str, ...], language: Language) -> int:
    """Where the first link stands; the number of words where there is none."""
    for place in range(1, len(words)):
        if any(words[place : place + len(link)] == link for link in language.links):
            return place
    return len(words)


_GENDERS: tuple[NameGender, NameGender] = ("f", "m")


@dataclass(frozen=True)
class TemplateFiller:
    """A template with one of its fillers: what gets one pair of names."""

    category: str
    """Slug of the bias category."""
    story_id: str
    """Template and filler, such as `age_01.grandfather`."""


@dataclass(frozen=True)
class NamePair:
    """The two first names of a story."""

    gender: NameGender
    """The gender of both."""
    target: str
    """The name that stands where the target group stood."""
    non_target: str
    """The name that stands where the other group stood."""


def assign_genders(stories: Iterable[TemplateFiller]) -> dict[str, NameGender]:
    """The gender of the names, by story id: half and half over all stories, and as near as can be in each category.

    The language has no part in it, so a story has names of the same gender in every language.
    """
    ordered = sorted(stories, key=lambda story: (story.category, stable_number("gender", story.story_id)))
    return {story.story_id: _GENDERS[place % 2] for place, story in enumerate(ordered)}


def assign_names(control_set: ControlSet, stories: Iterable[TemplateFiller]) -> dict[str, NamePair]:
    """The two names of each story, by story id: of one gender, different, neither a part of the other.

    Every name of the language is used about equally often.

    Raises:
        PackError: where the language has no two such names of a gender.
    """
    uses: Counter[str] = Counter()
    pairs: dict[str, NamePair] = {}
    for story_id, gender in assign_genders(stories).items():
        pair = _choose_pair(control_set, story_id, gender, uses)
        uses.update((pair.target, pair.non_target))
        pairs[story_id] = pair
    return pairs


def _choose_pair(control_set: ControlSet, story_id: str, gender: NameGender, uses: Counter[str]) -> NamePair:
    """The names used least so far, shuffled by the story; names that clash give way to the next."""
    names = control_set.names.female if gender == "f" else control_set.names.male
    shuffled = sorted(names, key=lambda name: (uses[name], stable_number("names", story_id, name), name))
    for target, non_target in itertools.combinations(shuffled, 2):
        if not names_clash(target, non_target, control_set.grammar):
            return NamePair(gender, target, non_target)
    raise PackError(f"{_file_of(control_set)}: names: no two of gender {gender!r} that do not contain each other")


def names_clash(first: str, second: str, grammar: NameGrammar) -> bool:
    """Whether one name is a part of the other, accents aside: Ella and Isabella, Ali and Muhammed Ali, Ana and Aitana.

    Such a pair can't be distinguished with certainty in a free answer.
    """
    folded = (_without_accents(_lower(first, grammar)), _without_accents(_lower(second, grammar)))
    return folded[0] in folded[1] or folded[1] in folded[0]


def write_name(control_set: ControlSet, name: str, form: str) -> str:
    """The name in a form that templates ask for: Spanish `a_def` of Ana is "a Ana", Turkish `gen` of Elif is "Elif'in".

    Raises:
        PackError: where the language's grammar lacks the form.
    """
    grammar = control_set.grammar
    if form not in grammar.forms:
        raise PackError(f"{_file_of(control_set)}: grammar.forms.{form}: missing; templates use this form")
    exception = grammar.exceptions.get(form, {}).get(name)
    if exception is not None:
        return exception
    lower, gender = _lower(name, grammar), _gender_of(control_set, name)
    rule = next(rule for rule in grammar.forms[form] if _holds(rule, lower, gender, grammar.vowels))
    return fill(rule.give, {"name": name[: len(name) - rule.drop]})


def _gender_of(control_set: ControlSet, name: str) -> NameGender | None:
    """The list that the name stands in; None where it stands in both or in neither."""
    is_female, is_male = name in control_set.names.female, name in control_set.names.male
    if is_female == is_male:
        return None
    return "f" if is_female else "m"


def _holds(rule: NameRule, name: str, gender: NameGender | None, vowels: str) -> bool:
    """Whether every condition of the rule fits the name, which is in lower case."""
    last_vowel = next((letter for letter in reversed(name) if letter in vowels), "")
    return (
        (rule.gender is None or rule.gender == gender)
        and (rule.starts_with is None or name.startswith(rule.starts_with))
        and (rule.ends_with is None or name.endswith(rule.ends_with))
        and (rule.ends_in is None or name[-1] in rule.ends_in)
        and (rule.ends_not_in is None or name[-1] not in rule.ends_not_in)
        and (rule.last_vowel is None or (last_vowel != "" and last_vowel in rule.last_vowel))
        and (rule.final_consonant is None or rule.final_consonant == _has_final_consonant(name))
    )


def _has_final_consonant(name: str) -> bool | None:
    """Whether the last syllable, written in Hangul, ends in a consonant; None where it is no Hangul syllable.

    The Unicode standard (section 3.12) numbers the syllables so that each 28th, from the first on, has none.
    """
    if not "가" <= name[-1] <= "힣":
        return None
    return (ord(name[-1]) - ord("가")) % 28 != 0


def _lower(name: str, grammar: NameGrammar) -> str:
    """The name in lower case by the rules of its language."""
    return "".join(grammar.lower.get(letter, letter.lower()) for letter in name)


def _without_accents(name: str) -> str:
    return "".join(letter for letter in unicodedata.normalize("NFKD", name) if not unicodedata.combining(letter))


def _file_of(control_set: ControlSet) -> str:
    return f"control_sets/{control_set.meta.language}.toml"


LEAST_DISTANCE = 3
"""Letters by which the two names of a pair must differ: Elin and Lina, Ahmet and Mehmet differ by two. Names in fewer
letters (수진) must differ in all."""
LEAST_SHARE = 0.5
"""And the part of the longer name that they must be: Valentina and Valeria differ by three of nine letters."""


def gender_of_story(template: str, story: str) -> NameGender:
    """The gender of a story's names where the text leaves it open: the same in every language, half and half."""
    return "f" if stable_number("gender", template, story) % 2 == 0 else "m"


@lru_cache(maxsize=4096)
def edit_distance(one: str, other: str) -> int:
    """How many letters must be put in, taken out or changed to make one name of the other."""
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        before, row[0] = row[0], i
        for j, theirs in enumerate(other, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (letter != theirs))
    return row[-1]


def confusable(one: str, other: str, control_set: ControlSet) -> bool:
    """Whether two names may be taken for each other: one in the other, or few letters apart."""
    distance = edit_distance(one.casefold(), other.casefold())
    return (
        distance < min(LEAST_DISTANCE, max(len(one), len(other)))
        or distance < LEAST_SHARE * max(len(one), len(other))
        or names_clash(one, other, control_set.grammar)
    )


class NamePairs:
    """The name pairs of a language."""

    def __init__(self, control_set: ControlSet) -> None:
        self._control_set = control_set
        self._pairs = {gender: list(self._distinct(gender)) for gender in ("f", "m")}

    def _distinct(self, gender: NameGender) -> Iterator[tuple[str, str]]:
        names = self._control_set.names.female if gender == "f" else self._control_set.names.male
        for one, other in itertools.permutations(names, 2):
            if not confusable(one, other, self._control_set):
                yield one, other

    def possible(self, gender: NameGender) -> tuple[tuple[str, str], ...]:
        """Every pair that a story may get, each both ways round."""
        return tuple(self._pairs[gender])

    def choose(self, gender: NameGender, template: str, story: str, avoid: Collection[str] = ()) -> NamePair:
        """The pair of a story: it depends on the language's names and the ids alone, so no question moves another's.

        Args:
            story: what tells the stories of a template apart.
            avoid: words, in lower case, that neither name may hold, as they stand in the text.

        Raises:
            PackError: where the language has no two names of that gender that differ enough.
        """
        pairs = self._pairs[gender]
        if not pairs:
            language = self._control_set.meta.language
            raise PackError(f"control_sets/{language}.toml: names: no two of gender {gender!r} that differ enough")
        start = stable_number("pair", template, story)
        for step in range(len(pairs)):
            target, non_target = pairs[(start + step) % len(pairs)]
            if not {word for name in (target, non_target) for word in name.casefold().split()} & set(avoid):
                return NamePair(gender, target, non_target)
        raise PackError("names: all pairs are already in the text")
