"""Options by their texts: word for word, by telling words, by what somebody did, by "he" and "she"."""

from __future__ import annotations

from itertools import pairwise

from mbbq_gen.extraction.lexicon import ANYBODY, KNOWN, MENTIONED, MIN_REACH, SMALL, Word
from mbbq_gen.extraction.lexicon import CLASSES as C
from mbbq_gen.extraction.lines import COMMA, MARK, NONE, STOP, Line
from mbbq_gen.extraction.mentions import How, Mention
from mbbq_gen.extraction.options import ECHO, OptionWords, QuestionWords
from mbbq_gen.extraction.unknowns import NOT
from mbbq_gen.extraction.words import UNSPACED

_CONJ = C["conj"]
_TIES = C["who"] | C["relative"] | C["doer"]
_DOUBTS = NOT | C["untold"] | C["unclear"]
"""What makes a stretch one about what is not known, or did not happen."""


def find_whole_texts(line: Line, question: QuestionWords, triggers: list[int], taken: list[bool]) -> list[Mention]:
    """Options' texts word for word."""
    found = []
    sequences, keys = question.sequences, tuple([word.key for word in line.words])
    for place in triggers:
        if taken[place]:
            continue
        for option, wanted in sequences.get(keys[place], ()):
            end = place + len(wanted)
            if (
                end <= len(keys)
                and keys[end - 1] == wanted[-1]
                and keys[place:end] == wanted
                and _runs_on(line, place, end, option, question)
            ):
                taken[place:end] = [True] * len(wanted)
                if option == ECHO:
                    line.masks[place:end] = [MENTIONED] * len(wanted)
                    line.gaps[end] = min(line.gaps[end], COMMA) if end < len(keys) else line.gaps[end]
                else:
                    found.append(Mention(option, place, end, How.TEXT, full=True))
                break
    return found


def _runs_on(line: Line, start: int, end: int, option: int, question: QuestionWords) -> bool:
    """Whether no sentence ends inside a text; the dots of its own abbreviations end none. The question is set apart."""
    joins = (start and line.gaps[start] < MARK) or (end < len(line.words) and line.gaps[end] < MARK)
    if option == ECHO and joins:
        return False
    stops = [place for place in range(start + 1, end) if line.gaps[place] >= STOP]
    if not stops:
        return True
    own = (
        option != ECHO and "." in question.options[option] and all(line.signs[place].strip() == "." for place in stops)
    )
    for place in stops if own else ():
        line.gaps[place] = NONE
    return own


def telling_stem(word: Word, question: QuestionWords) -> str | None:
    """The telling stem of an option that a word is a form of."""
    if word.stem in question.owners and (
        len(word.stem) >= MIN_REACH
        or not word.mask & KNOWN & ~ANYBODY
        or word.key in question.keys
        or word.stem in question.keys
    ):
        return word.stem
    if word.root in question.roots:
        return question.roots[word.root]
    if question.forms.keys().isdisjoint(word.forms):
        return None
    known = (word.reach or {word.key}) if len(word.stem) < MIN_REACH else word.forms
    found = max(known.intersection(question.forms), key=lambda form: (len(form), form), default=None)
    return None if found is None else question.forms[found]


def find_texts(line: Line, question: QuestionWords, hits: list[tuple[int, str]], taken: list[bool]) -> list[Mention]:
    """Clusters of options' telling words, each with the one person that it means."""
    found: list[Mention] = []
    cluster: list[tuple[int, str]] = []
    person: int | None = None
    for place, stem in hits:
        owner = question.alone.get(stem)
        joins = question.begins_second(line.words[place].key)
        apart = bool(cluster) and (joins or not _near(line, cluster[-1][0], place))
        if cluster and (apart or (owner is not None and person is not None and owner != person)):
            found += _cluster(line, question, cluster, person, taken)
            cluster, person = [], None
        cluster.append((place, stem))
        if owner is not None:
            person = owner
    found += _cluster(line, question, cluster, person, taken)
    for first, second in pairwise(found):
        first.end = min(first.end, second.start)
    return found


def _near(line: Line, before: int, place: int) -> bool:
    """Whether two telling words may belong to one mention: only small words and no comma between them."""
    if place - before > 4 or max(line.gaps[before + 1 : place + 1]) >= COMMA:
        return False
    return all(line.masks[inner] & SMALL and not line.masks[inner] & _CONJ for inner in range(before + 1, place))


def _cluster(
    line: Line, question: QuestionWords, cluster: list[tuple[int, str]], person: int | None, taken: list[bool]
) -> list[Mention]:
    stems = {stem for _, stem in cluster}
    if person is None:
        without = _without(line, question, cluster)
        if without is not None:
            return [without]
        holders = [text for text in question.texts if text.nested and text.content <= stems]
        if len(holders) != 1 or holders[0].index == question.unknown:
            return []
        person = holders[0].index
    text = question.texts[person]
    if UNSPACED.match(line.texts[cluster[0][0]]):
        telling = {stem for place, stem in cluster if not line.words[place].mask & SMALL} - text.denying
        if len(telling) < min(2, len(text.content)):
            return []
    known = stems & text.distinctive
    if not text.nested and (_too_few(known, text) or (known <= text.denying and not stems - text.denying)):
        return []
    start, end = _widen(line, cluster[0][0], cluster[-1][0] + 1, text, taken)
    if not text.content <= stems and _is_of_people(line, start, end, text):
        return []
    return [Mention(person, start, end, How.TEXT, full=text.content <= stems)]


def _without(line: Line, question: QuestionWords, cluster: list[tuple[int, str]]) -> Mention | None:
    """The person without what the others have, where a clause denies that somebody has it: "the girl who doesn't have
    dyslexia", asked about the girls with and without."""
    place, trait = cluster[-1]
    if trait not in question.traits:
        return None
    first = next((start for start in range(place, 0, -1) if line.gaps[start] >= COMMA), 0)
    before = range(max(first, place - 4), place)
    # German ties by a small word behind a comma: "…, die keine Legasthenie hat"
    opens = line.gaps[before.start] == COMMA and line.masks[before.start] & SMALL
    relative = (start for start in before if line.masks[start] & (C["who"] | C["relative"]))
    tied = before.start if opens else next(relative, place)
    denied = any([line.masks[inner] & NOT for inner in range(tied, place)])
    return Mention(question.traits[trait], tied, place + 1, How.TEXT, full=False) if denied else None


def _is_of_people(line: Line, start: int, end: int, text: OptionWords) -> bool:
    """Whether a noun for people in general that an option's text has not stands beside a part of it: "poor people"."""
    beside = [start - 1] * (start > 0 and line.gaps[start] < COMMA)
    beside += [end] * (end < len(line.masks) and line.gaps[end] < COMMA)
    own, people = text.keys + tuple(text.content), C["people"]
    nouns = [line.words[place] for place in beside if (line.masks[place] | line.words[place].mask) & people]
    return any([word.forms.isdisjoint(own) for word in nouns])


def _too_few(known: frozenset[str] | set[str], text: OptionWords) -> bool:
    """Whether the telling words that were found are too few to mean an option; a name is enough."""
    if text.heads & text.distinctive:
        return not known & text.heads and len(known) < max(2, text.need)
    return len(known) < text.need


def _widen(line: Line, start: int, end: int, text: OptionWords, taken: list[bool]) -> tuple[int, int]:
    """The span with the option's own small words and the articles around it."""
    keys = set(text.keys)
    while start and line.gaps[start] < COMMA and line.words[start - 1].key in keys and not taken[start - 1]:
        start -= 1
    while end < len(line.words) and line.gaps[end] < COMMA and line.words[end].key in keys and not taken[end]:
        end += 1
    return start, end


def find_deeds(line: Line, question: QuestionWords, found: list[Mention]) -> list[Mention]:
    """People by what they did: stretches without a name that have two words of what only one of them did."""
    more: list[Mention] = []
    hits: dict[int, list[int]] = {}
    named = quiet = tied = False
    alone = True
    starts = {mention.start for mention in found}
    count = len(line.words)
    for place in range(count + 1):
        if place == count or line.gaps[place] >= COMMA:
            if len(hits) == 1 and not (named or quiet):
                ((person, places),) = hits.items()
                if (tied and alone) or len({line.words[inner].stem for inner in places}) > 1:
                    more.append(Mention(person, places[0], places[0] + 1, How.TEXT, full=False))
            hits, named, quiet, tied, alone = {}, False, False, False, True
            if place == count:
                break
        named = named or place in starts
        quiet = quiet or bool(line.masks[place] & _DOUBTS)
        option = question.deeds.get(line.words[place].stem)
        alone = alone and (option is not None or bool(line.masks[place] & (SMALL | C["answer"] | _TIES)))
        tied = tied or bool(line.masks[place] & _TIES)
        if option is not None:
            hits.setdefault(option, []).append(place)
    return more


def find_pronouns(line: Line, question: QuestionWords, taken: list[bool]) -> list[Mention]:
    """People by "he" and "she", where that tells one from the other."""
    return [
        Mention(person, place, place + 1, How.TEXT, full=False)
        for sex, person in question.sexes.items()
        for place, mask in enumerate(line.masks)
        if mask & sex and not taken[place]
    ]
