"""What stands beside a person, tells of it, and is none of its option's words: such a question is refused.

    "the Syrian refugee" where the option is "the refugee"; "the Muslim doctor Samina" where it is "Samina".

A grammar asks for this by `fenced`; which words can't stand beside a name is its data.
"""

from __future__ import annotations

from collections.abc import Sequence

from mbbq_gen.substitution.mention import Mention, NotReplaceableError
from mbbq_gen.substitution.people import Person
from mbbq_gen.substitution.words import Language, Word

PHRASE_REACH = 2
"""How many words before a noun its determiner may be: "*একজন* ধনী ঠিকাদাৰ"."""
APPOSITION_REACH = 5
"""Most words between the commas behind a name: "Édouard, *séropositif depuis dix ans*, …"."""


def refuse_told_beside(
    words: Sequence[Word], mentions: Sequence[Mention], people: tuple[Person, Person], language: Language
) -> None:
    """Raises NotReplaceableError where more is told of a person right beside a mention than the mention holds."""
    if not language.rules.fenced:
        return
    inside = {place for mention in mentions for place in range(mention.first, mention.last + 1)}
    for mention in mentions:
        _refuse_complement(words, mention, inside, language)
        _refuse_cut_phrase(words, mention, inside, language)
    for number, person in enumerate(people):
        own = [mention for mention in mentions if mention.person == number]
        if own and _is_like_a_name(words, own, person, language):
            _refuse_apposition(words, own[0], inside, language)


def _refuse_complement(words: Sequence[Word], mention: Mention, inside: set[int], language: Language) -> None:
    """Raises where the word behind goes with the person: "директор *завода*", "un réfugié *syrien*"."""
    rules, place = language.rules, mention.last + 1
    if place >= len(words) or place in inside or words[place].gap or mention.told:
        return
    behind, last = words[place].low, words[mention.last]
    told = behind in rules.never_before or behind.endswith(rules.never_before_endings or "\0")
    if rules.only_before_endings:
        told |= behind not in _functions(language) and not behind.endswith(rules.only_before_endings)
    if rules.article_prefix and mention.first == mention.last and not _has_article(last):
        told |= _has_article(words[place])  # "حارس *العمارة*"
    if told:
        raise NotReplaceableError("attribute_told", f"{last.text} {words[place].text}")


def _has_article(word: Word) -> bool:
    """Whether an article was joined to a word."""
    return len(word.text) > len(word.low) and word.text.endswith(word.low)


def _refuse_cut_phrase(words: Sequence[Word], mention: Mention, inside: set[int], language: Language) -> None:
    """Raises where a word that is no part of the option stands between a determiner and the person."""
    if not language.rules.noun_last or not mention.first or words[mention.first].gap or mention.told:
        return
    if words[mention.first].low in language.determiners or words[mention.first - 1].low in _functions(language):
        return
    for place in range(mention.first - 1, max(mention.first - 1 - PHRASE_REACH, -1), -1):
        if place in inside:
            return
        if words[place].low in language.determiners:
            raise NotReplaceableError("attribute_told", f"{words[place].text} … {words[mention.first].text}")
        if words[place].gap:
            return


def _is_like_a_name(words: Sequence[Word], own: Sequence[Mention], person: Person, language: Language) -> bool:
    """Whether a person is told by a name: in letters that have capitals, one within a sentence; in others, a word that
    never has a determiner and is none for people."""
    if person.is_name:
        return True
    if words[0].text[0].lower() != words[0].text[0].upper():
        there = [place for mention in own for place in range(mention.first, mention.last + 1)]
        return any(_is_proper(words, place) for place in there)
    if person.is_common or any(language.is_head(word) for word in person.words):
        return False
    return all(words[mention.first].low not in language.determiners for mention in own)


def _is_proper(words: Sequence[Word], place: int) -> bool:
    """Whether a word has a capital within a sentence."""
    word = words[place]
    opens = place == 0 or word.gap.endswith((".", "?", "!", "«", '"', "…"))
    return not opens and word.text[0].isupper() and not word.text.isupper()


def _refuse_apposition(words: Sequence[Word], mention: Mention, inside: set[int], language: Language) -> None:
    """Raises where a noun before a name, or a clause between commas behind it, may tell of the person."""
    before = words[mention.first - 1] if mention.first and not words[mention.first].gap else None
    if before is not None and mention.first - 1 not in inside:
        verb = before.low.endswith(language.rules.object_behind or "\0")
        if before.low not in _functions(language) and not verb:
            raise NotReplaceableError("attribute_told", f"{before.text} {words[mention.first].text}")
    behind = words[mention.last + 1 : mention.last + 2 + APPOSITION_REACH]
    if not behind or mention.last + 1 in inside:
        return
    relative = behind[0].low in {*language.link_words, *language.rules.clause_relatives}
    closes = relative or any(word.gap.startswith((",", "(", "—", "–")) for word in behind[1:])
    if behind[0].gap.startswith("(") or (behind[0].gap[:1] in (",", "—", "–") and closes):
        raise NotReplaceableError("attribute_told", f"{words[mention.last].text}, {behind[0].text}")


def _functions(language: Language) -> frozenset[str]:
    """Words beside a person that tell nothing of it."""
    rules = language.rules
    lists = (rules.small_words, rules.clause_words, rules.before_bare, rules.determiners, rules.beside)
    return frozenset(word for words in lists for word in words)
