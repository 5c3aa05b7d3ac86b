"""Pronouns and words outside the mentions that agree with the gender of a person."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from mbbq_gen.benchmarks.control.mention import Mention
from mbbq_gen.benchmarks.control.words import Language, Word
from mbbq_gen.languages.control_pack import Agreement, NameGender, NeutralPronouns

NUMBER_REACH = 4
"""How many words behind a number its noun may be: "dos *dels seus pacients*"."""
BOTH_REACH = 3
"""How many words before a word about both people the one may be that tells so: "*cada* una de ellas"."""
HAVE_REACH = 2
"""How many words before a participle the verb may be behind which it tells nothing: "a *toujours* mangé"."""
_SENTENCE_ENDS = ".?!;:"


@dataclass(frozen=True)
class AgreementEdit:
    """A word that is written otherwise where the names are of a gender."""

    place: int
    """Of the word."""
    gender: NameGender
    """Of the names."""
    text: str
    """What is written instead."""


def compatible_genders(words: Sequence[Word], mentions: Sequence[Mention], language: Language) -> frozenset[NameGender]:
    """The genders that the names may have so that all pronouns can be right; empty where there is none."""
    if neutral_pronouns(words, mentions, language) is not None:
        return frozenset(("f", "m"))
    told_by_nouns = {mention.gender for mention in mentions if mention.gender} if language.rules.verbs_agree else set()
    rules, outside = language.rules, _outside(words, mentions, language)
    told_by_verbs = _told_by_verbs(words, mentions, language)
    untold = {one.person for one in mentions} - {one.person for one in mentions if one.gender}
    if mentions and rules.verbs_agree and (untold or len(told_by_nouns) != 1):
        several = len(told_by_nouns) > 1 and (told_by_verbs or not rules.male_verb_endings)
        if several or outside & {*rules.gender_verbs} or (untold and rules.unmarked and not rules.male_verb_endings):
            return frozenset()
        told_by_nouns = told_by_nouns if len(told_by_nouns) == 1 else set()
    said_male, said_female = outside & set(rules.male_words), outside & set(rules.female_words)
    relatives = _told_by_relatives(words, mentions, language)
    said_male |= relatives & rules.relatives_by_gender.keys()
    said_female |= relatives & set(rules.relatives_by_gender.values())
    if mentions and (untold or not told_by_nouns):
        said_female |= {word for word in told_by_verbs if word.endswith(rules.female_verb_endings or "\0")}
        said_male |= told_by_verbs - said_female
    found: set[NameGender] = set()
    if said_male <= rules.to_female.keys():
        found.add("f")
    if said_female <= rules.to_male.keys():
        found.add("m")
    found = found & told_by_nouns if told_by_nouns else found
    forced = _forced(words, covered(mentions), language)
    return frozenset(found & forced if forced else found)


def _forced(words: Sequence[Word], inside: Collection[int], language: Language) -> set[NameGender]:
    """The gender of words about the two that can't follow the names: Catalan "*dues* estudiants", "quin *pare*"."""
    agreement, found = language.rules.agreement, set[NameGender]()
    if agreement is None:
        return found
    plurals = {*language.rules.plurals, *agreement.both, *agreement.both.values()}
    plurals -= {word for word in plurals if any(language.same(word, noun) for noun in agreement.any_gender)}
    people = plurals | {*agreement.common_plurals}
    for place, word in enumerate(words):
        phrase = itertools.takewhile(lambda one: not one.gap, words[place + 1 : place + 1 + NUMBER_REACH])
        if word.low in agreement.numbers and place not in inside and any(one.low in people for one in phrase):
            found.add(agreement.numbers[word.low])
        joined = place + 1 < len(words) and words[place + 1].low in agreement.and_words  # "quin pare i mare"
        if place and words[place - 1].low in agreement.interrogatives and not word.gap and not joined:
            found |= {"m"} if word.low in agreement.asked else set()
            found |= {"f"} if word.low in agreement.asked.values() else set()
    return found


def _told_by_verbs(words: Sequence[Word], mentions: Sequence[Mention], language: Language) -> set[str]:
    """The words from the first mention on that end as verbs and participles about a man or a woman do."""
    rules, inside = language.rules, covered(mentions)
    found = set()
    for place, word in enumerate(words):
        if place > min(inside, default=0) and place not in inside and word.low not in rules.genderless:
            near = {before.low for before in words[max(place - HAVE_REACH, 0) : place]}
            is_male = word.low.endswith(rules.male_verb_endings or "\0") and not near & {*rules.genderless_behind}
            if is_male or word.low.endswith(rules.female_verb_endings or "\0"):
                found.add(word.low)
    return found


def _told_by_relatives(words: Sequence[Word], mentions: Sequence[Mention], language: Language) -> set[str]:
    """Relative pronouns that can't follow the names: all but those right behind a mention of a man."""
    forms, inside = language.rules.relatives_by_gender, covered(mentions)
    followed = {mention.last + 1 for mention in mentions if mention.gender == "m"}
    if not forms or not mentions:
        return set()
    men, women = (any(mention.gender in (gender, None) for mention in mentions) for gender in ("m", "f"))
    loose = {
        word.low
        for place, word in enumerate(words)
        if place > min(inside) and place not in inside | followed and word.gap.endswith(",")
    }
    male, female = set(forms) - set(forms.values()), set(forms.values()) - set(forms)
    return (loose & (male | {"der"} if men else set())) | (loose & female if women else set())


def _relative_behind(words: Sequence[Word], mention: Mention, language: Language) -> bool:
    """Whether a relative pronoun that tells a gender stands behind a mention."""
    forms = language.rules.relatives_by_gender
    place = mention.last + 1
    return place < len(words) and words[place].gap == "," and words[place].low in {*forms, *forms.values()}


def preferred_gender(words: Sequence[Word], mentions: Sequence[Mention], language: Language) -> NameGender | None:
    """The gender of the names with which the least must be changed; None where both are alike."""
    rules, outside = language.rules, _outside(words, mentions, language)
    if not rules.verbs_agree:
        nouns = {word.low for word in words}
        women, men = (
            any(noun in nouns for noun in nouns_of_gender) for nouns_of_gender in (rules.female_nouns, rules.male_nouns)
        )
        if women != men:
            return "f" if women else "m"
    if neutral_pronouns(words, mentions, language) is not None:
        outside = set()
    male = any(word in rules.male_words for word in outside)
    female = any(word in rules.female_words for word in outside)
    if male != female:
        return "m" if male else "f"
    said = {mention.gender for mention in mentions if mention.gender is not None}
    if rules.agreement is None:
        return None
    if len(said) == 1:
        return said.pop()
    several = tuple(f"{stem}{rules.agreement.female}s" for stem in rules.agreement.participles)
    women = any(len(word) > len("idas") and word.endswith(several) for word in outside) and not said
    return "f" if women else rules.agreement.mixed


def changes(words: Sequence[Word], mentions: Sequence[Mention], language: Language) -> list[AgreementEdit]:
    """Every word outside the mentions that is written otherwise for names of one gender."""
    inside = covered(mentions)
    neutral = neutral_pronouns(words, mentions, language)
    tables: dict[NameGender, dict[str, str]] = {"f": language.rules.to_female, "m": language.rules.to_male}
    found = [
        AgreementEdit(place, gender, _as_capital(word.text, table[word.low]))
        for place, word in enumerate(words)
        if place not in inside and neutral is None
        for gender, table in tables.items()
        if word.low in table
    ]
    for place, pronoun in (neutral or {}).items():
        text = _as_capital(words[place].text, pronoun)
        found += [AgreementEdit(place, "f", text), AgreementEdit(place, "m", text)]
    for place, word in enumerate(words):
        if place not in inside and _is_of_the_two(words, place, language):
            text = _as_capital(word.text, language.rules.neutral[word.low])
            found += [
                AgreementEdit(place, "f", text),
                AgreementEdit(place, "m", text),
                *_agreeing_before(words, place, language),
            ]
    for mention in mentions:
        before = mention.first - 1
        if mention.by_verb and before >= 0 and words[before].low in language.rules.naming:
            text = language.rules.naming[words[before].low]
            found += [AgreementEdit(before, "f", text), AgreementEdit(before, "m", text)]
    for mention in mentions:
        place = mention.last + 1
        if mention.gender == "m" and _relative_behind(words, mention, language):
            forms = language.rules.relatives_by_gender
            found.append(AgreementEdit(place, "f", forms.get(words[place].low, words[place].text)))
    return found if language.rules.verbs_agree else found + list(_agreeing(words, mentions, language, inside))


def _agreeing_before(words: Sequence[Word], place: int, language: Language) -> Iterator[AgreementEdit]:
    """Words before "persona", which is feminine, in place of a man: "*la otra* persona"."""
    agreement = language.rules.agreement
    if agreement is None:
        return
    while place and words[place].gap in ("", "'", "’") and words[place - 1].low in agreement.stand_ins:
        place -= 1
        text = _as_capital(words[place].text, agreement.stand_ins[words[place].low])
        yield from (AgreementEdit(place, "f", text), AgreementEdit(place, "m", text))


def neutral_pronouns(words: Sequence[Word], mentions: Sequence[Mention], language: Language) -> dict[int, str] | None:
    """Places of pronouns and their verbs → what they become; None where they had better be left alone."""
    rules, inside = language.rules.pronouns, covered(mentions)
    if rules is None:
        return None
    found: dict[int, str] = {}
    opening = -1 if language.rules.unspaced else min(inside, default=0)
    for place, word in enumerate(words):
        if place in inside or place < opening:
            continue  # a pronoun before the first mention is about someone else
        if word.low in rules.subjects:
            verb = _verb_behind(words, place, rules)
            if verb is None:
                return None
            found[place] = rules.subjects[word.low]
            found.update(verb)
        elif word.low in rules.others:
            found[place] = rules.others[word.low]
            if word.low in rules.objects and (
                place + 1 == len(words) or bool(words[place + 1].gap) or words[place + 1].low in rules.object_before
            ):
                found[place] = rules.objects[word.low]
        elif _is_owner(words, place) and word.low in (*language.rules.male_words, *language.rules.female_words):
            return None
    return found


def _verb_behind(words: Sequence[Word], place: int, rules: NeutralPronouns) -> dict[int, str] | None:
    """The verb behind a pronoun, as it is behind the neutral one; None where a second verb may hang on it."""
    verb = place + 1
    while verb < len(words) and words[verb].gap == "" and words[verb].low in rules.adverbs:
        verb += 1
    if verb >= len(words) or not words[verb].follows:
        return {}
    changed = _neutral_verb(words[verb].low, rules)
    if changed is None:
        return {}
    behind = next((word.low for word in words[verb + 1 :] if word.gap or word.low not in rules.adverbs), "")
    if behind in rules.participles:
        changed = rules.perfects.get(words[verb].low, changed)  # "he*'s* never been"
    for far in range(verb + 1, min(verb + 8, len(words) - 1)):
        second = words[far + 1]
        if words[far].low in rules.and_words and not second.gap and _neutral_verb(second.low, rules) is not None:
            return None
    return {verb: changed}


def _neutral_verb(verb: str, rules: NeutralPronouns) -> str | None:
    """The form of a verb behind a neutral pronoun; None where it does not change."""
    if verb in rules.verbs:
        return rules.verbs[verb]
    if rules.ending and verb.endswith(rules.ending) and verb not in rules.kept and len(verb) > 3:
        longer = next((ending for ending in rules.endings if verb.endswith(ending)), None)
        return verb.removesuffix(longer) + rules.endings[longer] if longer else verb[: -len(rules.ending)]
    return None


def _is_of_the_two(words: Sequence[Word], place: int, language: Language) -> bool:
    """Whether a word for a man or a woman is about one or both of the two people: "the other man"."""
    rules = language.rules
    if place > 1 and words[place - 2].low in rules.contractions:
        return False  # the article in "al otro hombre" would have to change too
    behind = place > 0 and words[place].gap == "" and words[place - 1].low in rules.neutral_behind
    return behind and words[place].low in rules.neutral and not _is_owner(words, place)


def _is_owner(words: Sequence[Word], place: int) -> bool:
    """Whether an `'s` stands behind a word: "women's football"."""
    return place + 1 < len(words) and words[place + 1].low == "s" and words[place + 1].gap in ("'", "’")


def _outside(words: Sequence[Word], mentions: Sequence[Mention], language: Language) -> set[str]:
    """The words outside mentions that may tell a gender."""
    inside = covered(mentions)
    opening = -1 if language.rules.unspaced else min(inside, default=0)
    outside = {word.low for place, word in enumerate(words) if place not in inside and place > opening}
    if language.rules.joined:
        gendered = (*language.rules.male_words, *language.rules.female_words)
        outside |= {one for one in gendered if len(one) > 1 and any(word.startswith(one) for word in outside)}
    return {stem for word in outside for stem in language.stems(word)} if language.rules.cases else outside


def covered(mentions: Sequence[Mention]) -> frozenset[int]:
    """The places of the words in mentions."""
    return frozenset(place for mention in mentions for place in range(mention.first, mention.last + 1))


def _agreeing(
    words: Sequence[Word], mentions: Sequence[Mention], language: Language, inside: Collection[int]
) -> Iterator[AgreementEdit]:
    """Words about the person mentioned last before them in their sentence, behind a copula: "fue contratada"."""
    agreement = language.rules.agreement
    if agreement is None:
        return
    yield from _about_both(words, language, inside)
    yield from _the_two(words, language, inside)
    for one, other in itertools.pairwise(mentions):
        joined = other.first - one.last == 2 and words[one.last + 1].low in {*agreement.and_words, *agreement.as_words}
        named_of = _of_epicene(words, one.first, inside, agreement)  # "dos personas, Ana y Eva, fueron"
        if joined and one.person != other.person and not named_of:
            yield from _plural_told(words, other.last, inside, agreement)
    for place, word in enumerate(words):
        if place and not word.gap and words[place - 1].low in agreement.owners and word.low in agreement.ages:
            yield from _by_gender(word, place, _both_forms(agreement.ages))  # "*de niño* Emma cantaba"
    for mention in mentions:
        yield from _standing_in(words, mention, language)
        place = mention.last + 1
        if mention.kept in agreement.owners or (mention.first and words[mention.first - 1].low in agreement.owners):
            continue
        while place < len(words) and place not in inside and not _ends_sentence(words[place]):
            if words[place].low in agreement.stops or _begins_subject(words, place, language):
                break
            if words[place].low in agreement.copulas:
                yield from _told_behind(words, place, inside, language)
            place += 1


def _begins_subject(words: Sequence[Word], place: int, language: Language) -> bool:
    """Whether a clause about something else begins: "y *la* profesión"."""
    behind = words[place - 1].low in language.rules.clause_words
    return behind and words[place].low in language.determiners


def _told_behind(
    words: Sequence[Word], copula: int, inside: Collection[int], language: Language
) -> Iterator[AgreementEdit]:
    """The word behind a copula that agrees, and an article before it: "fue la única"."""
    agreement = language.rules.agreement
    assert agreement is not None
    forms = _both_forms(agreement.articles)
    at, articles = copula + 1, list[int]()
    while at < len(words) and words[at].gap == "" and words[at].low in {*agreement.adverbs, *forms}:
        if words[at].low in forms and words[at - 1].low in agreement.places:
            return  # "estaba en la lista"
        before_adverb = at + 1 < len(words) and words[at + 1].low in agreement.adverbs  # "es un poco vaga"
        follows_gender = words[at].low in language.rules.definites or not before_adverb
        articles += [at] if words[at].low in forms and follows_gender else []
        at += 1
    if at < len(words) and words[at].gap == "" and at not in inside:
        found = list(_both_ways(words[at], at, language))
        yield from found
        for place in articles if found else ():
            yield from _by_gender(words[place], place, forms)
        joined = at + 2 < len(words) and words[at + 1].low in agreement.and_words and not words[at + 1].gap
        if joined and at + 2 not in inside:
            yield from _both_ways(words[at + 2], at + 2, language)


def _standing_in(words: Sequence[Word], mention: Mention, language: Language) -> Iterator[AgreementEdit]:
    """Words that stand for the person named right behind: "el primer candidato era Mateo", "y el otro, Mateo"."""
    agreement, stand_ins = language.rules.agreement, language.rules.stand_ins
    assert agreement is not None
    forms, place = _both_forms(agreement.stand_ins), mention.first - 1
    if place < 0 or words[mention.first].gap not in ("", ","):
        return
    if words[place].low in agreement.copulas and words[place].gap == "":
        place -= 1
    elif words[place].low in agreement.owners:
        return  # "la de Emma", what is hers
    if any(one.low in agreement.places and two.low in stand_ins for one, two in itertools.pairwise(words[:place])):
        return  # "en una trabaja Emma"
    if _is_of_a_person(words, place, agreement):
        return  # "una persona era Emma y la otra, Ana"
    while place >= 0 and (words[place].low in forms or words[place].low in agreement.owners):
        if words[place].low in forms:
            yield from _by_gender(words[place], place, forms)
        if not words[place].follows:
            return
        place -= 1


def _is_of_a_person(words: Sequence[Word], place: int, agreement: Agreement) -> bool:
    """Whether a noun whose gender tells nothing stands before in the sentence, so that a word for it keeps its own."""
    while place >= 0:
        if words[place].low in agreement.any_gender:
            return True
        if _ends_sentence(words[place]):
            return False
        place -= 1
    return False


def _both_forms(forms: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Each form of a table → the form about a man, and about a woman."""
    return {word: pair for pair in forms.items() for word in pair}


def _by_gender(word: Word, place: int, forms: Mapping[str, tuple[str, str]]) -> Iterator[AgreementEdit]:
    male, female = forms[word.low]
    yield AgreementEdit(place, "m", _as_capital(word.text, male))
    yield AgreementEdit(place, "f", _as_capital(word.text, female))


def _about_both(words: Sequence[Word], language: Language, inside: Collection[int]) -> Iterator[AgreementEdit]:
    """Words about both people: "dos viejos amigos", "ambos"."""
    agreement = language.rules.agreement
    assert agreement is not None
    forms = _both_forms(agreement.both)
    for place, word in enumerate(words):
        near = {other.low for other in words[max(place - BOTH_REACH, 0) : place + 1]}
        of_things = word.gap == "," and word.low in agreement.both_behind  # "dos accidentes, ambos por su culpa"
        of_things |= place > 0 and words[place - 1].low in agreement.places and not word.gap  # "en una trabaja Emma"
        of_things |= _of_epicene(words, place, inside, agreement)
        if word.low in forms and place not in inside and near & set(agreement.both_behind) and not of_things:
            yield from _by_gender(word, place, forms)
            yield from _article_before(words, place, agreement)
            if place + 1 < len(words) and place + 1 not in inside and not words[place + 1].gap:
                yield from _adjective_behind(words[place + 1], place + 1, agreement)


def _of_epicene(words: Sequence[Word], place: int, inside: Collection[int], agreement: Agreement) -> bool:
    """Whether a noun with a gender of its own stands before in the sentence, and no name between."""
    while place and not _ends_sentence(words[place]):
        place -= 1
        if place in inside:
            return False
        if words[place].low in agreement.epicenes:
            return True
    return False


def _article_before(words: Sequence[Word], place: int, agreement: Agreement) -> Iterator[AgreementEdit]:
    """An article or possessive before a word about both, over a number: "*los* dos candidatos"."""
    forms = _both_forms(agreement.both_articles)
    while place and words[place].gap == "" and words[place - 1].low in {*agreement.both_behind, *agreement.both}:
        place -= 1
    if place and words[place].gap == "" and words[place - 1].low in forms:
        yield from _by_gender(words[place - 1], place - 1, forms)


def _the_two(words: Sequence[Word], language: Language, inside: Collection[int]) -> Iterator[AgreementEdit]:
    """The two people by article and number alone, and what agrees with them: "*los* dos estaban muy *cansados*"."""
    agreement = language.rules.agreement
    assert agreement is not None
    forms = _both_forms(agreement.both_articles)
    for place in range(1, len(words)):
        number, after = words[place], words[place + 1 : place + 2]
        if number.low not in agreement.two or number.gap or words[place - 1].low not in forms or place in inside:
            continue
        if after and not after[0].gap and after[0].low.endswith("s") and after[0].low not in agreement.clitics:
            continue  # a noun: "las dos horas"
        yield from _by_gender(words[place - 1], place - 1, forms)
        if place > 2 and words[place - 2].low in agreement.owners and words[place - 3].low in agreement.both:
            yield from _by_gender(words[place - 3], place - 3, _both_forms(agreement.both))  # "solo *uno* de los dos"
        yield from _plural_told(words, place, inside, agreement)


def _plural_told(
    words: Sequence[Word], place: int, inside: Collection[int], agreement: Agreement
) -> Iterator[AgreementEdit]:
    """What is said of two people behind a copula in the rest of the sentence: "se pusieron *nerviosos*"."""
    for copula in range(place + 1, len(words)):
        if _ends_sentence(words[copula]):
            return
        if words[copula].low not in agreement.plural_copulas:
            continue
        at = copula + 1
        while at < len(words) and not words[at].gap and words[at].low in agreement.adverbs:
            at += 1
        while at < len(words) and not words[at].gap and at not in inside:
            found = list(_plural_both_ways(words[at], at, agreement))
            yield from found
            at += 1
            if not found:
                return  # but "son hermanos mellizos"
        return


def _plural_both_ways(word: Word, place: int, agreement: Agreement) -> Iterator[AgreementEdit]:
    """A word about several that is known to agree, as it is about men and about women."""
    forms = _both_forms(agreement.both)
    if word.low in forms:
        yield from _by_gender(word, place, forms)
        return
    for ending in agreement.both_endings:
        stem = word.text[: -len(ending)]
        agrees = stem.endswith(agreement.participles) or stem.casefold() + agreement.male in agreement.words
        if word.low.endswith(ending) and agrees:
            male, female = agreement.both_endings
            yield AgreementEdit(place, "m", stem + male)
            yield AgreementEdit(place, "f", stem + female)
            return


def _adjective_behind(word: Word, place: int, agreement: Agreement) -> Iterator[AgreementEdit]:
    """An adjective of several: "dos candidatas *políticas*"."""
    for ending in (f"{agreement.male}s", f"{agreement.female}s"):
        if word.low.endswith(ending) and len(word.low) > len(ending) + 2:
            stem = word.text[: -len(ending)]
            yield AgreementEdit(place, "m", f"{stem}{agreement.male}s")
            yield AgreementEdit(place, "f", f"{stem}{agreement.female}s")


def _both_ways(word: Word, place: int, language: Language) -> Iterator[AgreementEdit]:
    """A word that agrees, as it is about a man and about a woman; nothing for a word that does not agree."""
    agreement = language.rules.agreement
    assert agreement is not None
    forms = _both_forms(agreement.forms)
    if word.low in forms:
        yield from _by_gender(word, place, forms)
        return
    for ending in (agreement.male, agreement.female):
        stem = word.low[: -len(ending)]
        agrees = stem + agreement.male in agreement.words or stem.endswith(agreement.participles)
        if word.low.endswith(ending) and agrees and len(stem) > 1:
            stem = word.text[: -len(ending)]
            yield AgreementEdit(place, "m", stem + agreement.male)
            yield AgreementEdit(place, "f", stem + agreement.female)
            return


def _ends_sentence(word: Word) -> bool:
    return any(mark in word.gap for mark in _SENTENCE_ENDS)


def _as_capital(was: str, now: str) -> str:
    """A word with a capital where the word that it replaces had one."""
    return now[0].upper() + now[1:] if was[0].isupper() else now
