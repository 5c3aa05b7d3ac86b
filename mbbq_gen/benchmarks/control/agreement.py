"""Pronouns and other words outside the mentions that agree with the gender of a person."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from mbbq_gen.benchmarks.control.mention_grammar import Mention, covered
from mbbq_gen.benchmarks.control.words import Language, TextWords, Word
from mbbq_gen.languages.control_pack import Agreement, NameGender

NUMBER_REACH = 4
"""Maximum distance of a noun after its number, in words: "dos *dels seus pacients*"."""
BOTH_REACH = 3
"""Maximum distance of a word of `both_behind`, in words: "*cada* una de ellas"."""
HAVE_REACH = 2
"""Maximum distance of an auxiliary before its participle, in words: "a *toujours* mangé"."""
VERB_REACH = 7
"""Maximum distance of a second verb of the same subject, in words: "he sings *and dances*"."""
_SENTENCE_ENDS = ".?!;:"
_APOSTROPHES = ("'", "’")
_GENDERS: tuple[NameGender, NameGender] = ("f", "m")


def _pair(word: str, forms: Mapping[str, str]) -> tuple[str, str] | None:
    """The masculine and the feminine form of a word; None for a word that is not listed."""
    return next((pair for pair in [*forms.items()][::-1] if word in pair), None)


class GenderedText(TextWords):
    """A text with mentions of two people: the possible genders of their names, and the words that then change."""

    def __init__(self, words: Sequence[Word], mentions: Sequence[Mention], language: Language) -> None:
        super().__init__(words, language)
        self.mentions, self.inside = mentions, covered(mentions)
        opening = -1 if self.rules.unspaced else min(self.inside, default=0)
        self.later = [index for index in range(len(words)) if index > opening and index not in self.inside]
        """Indexes of words after the first mention and outside mentions; earlier pronouns refer to someone else."""
        self.outside = {words[index].low for index in self.later}
        """Those words, which may show a gender."""
        if self.rules.joined:
            gendered = [one for one in (*self.rules.male_words, *self.rules.female_words) if len(one) > 1]
            self.outside |= {one for one in gendered if any(word.startswith(one) for word in self.outside)}
        if self.rules.cases:
            self.outside = {stem for word in self.outside for stem in language.stems(word)}
        self.neutral = self._neutral_pronouns()
        """Index of a pronoun or its verb → its neutral form; None: the pronouns follow the gender of the names."""
        self.edits: dict[int, dict[NameGender, str]] = {}
        """Index of a word → gender of the names → its replacement."""

    def compatible_genders(self) -> frozenset[NameGender]:
        """The genders of names with which all pronouns can agree; may be empty."""
        rules, mentions, outside = self.rules, self.mentions, self.outside
        if self.neutral is not None:
            return frozenset(_GENDERS)
        genders_of_nouns = {mention.gender for mention in mentions if mention.gender} if rules.verbs_agree else set()
        gendered_verbs, opening = set(), min(self.inside, default=0)
        for index in (index for index in self.later if index > opening):
            low, near = self.words[index].low, {word.low for word in self.words[max(index - HAVE_REACH, 0) : index]}
            is_male = low.endswith(rules.male_verb_endings) and not near & {*rules.genderless_behind}
            if low not in rules.genderless and (is_male or low.endswith(rules.female_verb_endings)):
                gendered_verbs.add(low)
        of_unknown_gender = {one.person for one in mentions} - {one.person for one in mentions if one.gender}
        if mentions and rules.verbs_agree and (of_unknown_gender or len(genders_of_nouns) != 1):
            several = len(genders_of_nouns) > 1 and (gendered_verbs or not rules.male_verb_endings)
            unmarked = of_unknown_gender and rules.unmarked and not rules.male_verb_endings
            if several or unmarked or outside & {*rules.gender_verbs}:
                return frozenset()
            genders_of_nouns = genders_of_nouns if len(genders_of_nouns) == 1 else set()
        relatives = self._gendered_relatives()
        male = (outside & {*rules.male_words}) | (relatives & rules.relatives_by_gender.keys())
        female = (outside & {*rules.female_words}) | (relatives & {*rules.relatives_by_gender.values()})
        if mentions and (of_unknown_gender or not genders_of_nouns):
            female |= {word for word in gendered_verbs if word.endswith(rules.female_verb_endings)}
            male |= gendered_verbs - female
        found: set[NameGender] = {"f"} if male <= rules.to_female.keys() else set()
        found |= {"m"} if female <= rules.to_male.keys() else set()
        forced = self._forced()
        return frozenset(found & (genders_of_nouns or found) & (forced or found))

    def preferred_gender(self) -> NameGender | None:
        """The gender of the names with the fewest changes; None for equal numbers."""
        rules, nouns = self.rules, {word.low for word in self.words}
        outside = self.outside if self.neutral is None else set()
        signs = [] if rules.verbs_agree else [(nouns & {*rules.male_nouns}, nouns & {*rules.female_nouns})]
        signs.append((outside & {*rules.male_words}, outside & {*rules.female_words}))
        for male, female in signs:
            if bool(male) != bool(female):
                return "m" if male else "f"
        genders = {mention.gender for mention in self.mentions if mention.gender is not None}
        if rules.agreement is None:
            return None
        if len(genders) == 1:
            return genders.pop()
        several = tuple(f"{stem}{rules.agreement.female}s" for stem in rules.agreement.participles)
        women = any(len(word) > len("idas") and word.endswith(several) for word in outside) and not genders
        return "f" if women else rules.agreement.mixed

    def _forced(self) -> set[NameGender]:
        """The gender of words that can't agree with the names: Catalan "*dues* estudiants", "quin *pare*"."""
        agreement, found = self.rules.agreement, set[NameGender]()
        if agreement is None:
            return found
        plurals = {*self.rules.plurals, *agreement.both, *agreement.both.values()}
        plurals = {word for word in plurals if not self.language.same_as_any(word, agreement.any_gender)}
        people = plurals | {*agreement.common_plurals}
        for index, word in enumerate(self.words):
            phrase = itertools.takewhile(lambda one: not one.gap, self.words[index + 1 : index + 1 + NUMBER_REACH])
            is_number = word.low in agreement.numbers and index not in self.inside
            if is_number and any(one.low in people for one in phrase):
                found.add(agreement.numbers[word.low])
            joined = index + 1 < len(self.words) and self.words[index + 1].low in agreement.and_words
            if self.before(index) in agreement.interrogatives and not joined:  # not "quin pare i mare"
                found |= {"m"} if word.low in agreement.question_nouns else set()
                found |= {"f"} if word.low in agreement.question_nouns.values() else set()
        return found

    def _gendered_relatives(self) -> set[str]:
        """Relative pronouns that can't agree with the names: all but those right after a mention of a man."""
        forms, mentions = self.rules.relatives_by_gender, self.mentions
        if not forms or not mentions:
            return set()
        passed = self.inside | {mention.last + 1 for mention in mentions if mention.gender == "m"}
        men, women = (any(mention.gender in (gender, None) for mention in mentions) for gender in ("m", "f"))
        places = (index for index in range(min(self.inside) + 1, len(self.words)) if index not in passed)
        loose = {self.words[index].low for index in places if self.words[index].gap.endswith(",")}
        male, female = set(forms) - set(forms.values()), set(forms.values()) - set(forms)
        return (loose & (male | {"der"} if men else set())) | (loose & female if women else set())

    def write(self, index: int, male: str | None, female: str | None) -> None:
        """Records the masculine and the feminine form of a word, with its capital; None: unchanged."""
        for gender, text in zip(_GENDERS, (female, male), strict=True):
            if text is not None:
                is_capital = self.words[index].text[0].isupper()
                self.edits.setdefault(index, {})[gender] = text[0].upper() + text[1:] if is_capital else text

    def changes(self) -> dict[int, dict[NameGender, str]]:
        """The changed words outside the mentions: index → gender of the names → text."""
        rules = self.rules
        for index, word in enumerate(self.words) if self.neutral is None else ():
            if index not in self.inside:
                self.write(index, rules.to_male.get(word.low), rules.to_female.get(word.low))
        for index, text in (self.neutral or {}).items():
            self.write(index, text, text)
        stand_ins = rules.agreement.stand_ins if rules.agreement is not None else {}
        for index, word in enumerate(self.words):
            # A neutral word replaces one about one or both people: "the other man". Not "women's football", nor
            # "al otro hombre", whose article would have to change too.
            article = index > 1 and self.words[index - 2].low in rules.contractions
            of_two = self.before(index) in rules.neutral_behind and not article and not self._is_owner(index)
            if word.low in rules.neutral and of_two and index not in self.inside:
                self.write(index, rules.neutral[word.low], rules.neutral[word.low])
                before = index - 1  # "*la otra* persona", which is feminine
                while before >= 0 and self.words[before + 1].follows and self.words[before].low in stand_ins:
                    text = stand_ins[self.words[before].low]
                    self.write(before, text, text)
                    before -= 1
        forms = rules.relatives_by_gender
        for mention in self.mentions:
            verb = self.words[mention.first - 1].low if mention.first and mention.by_verb else ""
            if verb in rules.naming:
                self.edits.setdefault(mention.first - 1, {}).update(dict.fromkeys(_GENDERS, rules.naming[verb]))
            for after in self.words[mention.last + 1 : mention.last + 2]:
                if after.gap == "," and mention.gender == "m" and after.low in {*forms, *forms.values()}:
                    self.edits.setdefault(mention.last + 1, {})["f"] = forms.get(after.low, after.text)
        if rules.agreement is not None and not rules.verbs_agree:
            self._write_agreeing(rules.agreement)
        return self.edits

    def _is_owner(self, index: int) -> bool:
        """Whether `'s` follows a word: "women's football"."""
        after = self.words[index + 1] if index + 1 < len(self.words) else None
        return after is not None and after.low == "s" and after.gap in _APOSTROPHES

    def _neutral_pronouns(self) -> dict[int, str] | None:
        rules = self.rules.pronouns
        if rules is None:
            return None
        found: dict[int, str] = {}
        for index in self.later if self.inside else range(len(self.words)):
            low = self.words[index].low
            if low in rules.subjects:
                verb = self._verb_after(index)
                if verb is None:
                    return None
                found[index] = rules.subjects[low]
                found.update(verb)
            elif low in rules.others:
                no_noun = self.ends(index) or self.words[index + 1].low in rules.object_before
                found[index] = rules.objects[low] if low in rules.objects and no_noun else rules.others[low]
            elif low in (*self.rules.male_words, *self.rules.female_words) and self._is_owner(index):
                return None
        return found

    def _verb_after(self, index: int) -> dict[int, str] | None:
        """Index → form of the verb after a neutral pronoun; None if a second verb may have the same subject."""
        rules, words = self.rules.pronouns, self.words
        assert rules is not None
        verb = index + 1
        while verb < len(words) and words[verb].gap == "" and words[verb].low in rules.adverbs:
            verb += 1
        changed = self._neutral_verb(words[verb].low) if verb < len(words) and words[verb].follows else None
        if changed is None:
            return {}
        after = next((word.low for word in words[verb + 1 :] if word.gap or word.low not in rules.adverbs), "")
        if after in rules.participles:
            changed = rules.perfects.get(words[verb].low, changed)  # "he*'s* never been"
        for one, second in itertools.pairwise(words[verb + 1 : verb + 2 + VERB_REACH]):
            if one.low in rules.and_words and not second.gap and self._neutral_verb(second.low) is not None:
                return None
        return {verb: changed}

    def _neutral_verb(self, verb: str) -> str | None:
        """The form of a verb after a neutral pronoun; None if it does not change."""
        rules = self.rules.pronouns
        assert rules is not None
        if verb in rules.verbs:
            return rules.verbs[verb]
        if not rules.ending or not verb.endswith(rules.ending) or verb in rules.kept or len(verb) <= 3:
            return None
        longer = next((ending for ending in rules.endings if verb.endswith(ending)), None)
        return verb.removesuffix(longer) + rules.endings[longer] if longer else verb[: -len(rules.ending)]

    def _write_agreeing(self, rules: Agreement) -> None:
        words, mentions = self.words, self.mentions
        self._about_both(rules)
        self._the_two(rules)
        for one, other in itertools.pairwise(mentions):
            joined = other.first - one.last == 2 and words[one.last + 1].low in {*rules.and_words, *rules.as_words}
            if joined and one.person != other.person and not self._is_of_epicene(one.first, rules):
                self._describe_both(other.last, rules)  # but "dos personas, Ana y Eva, fueron"
        for index in range(1, len(words)):
            if self.before(index) in rules.owners:
                self._by_gender(index, rules.ages)  # "*de niño* Emma cantaba"
        for mention in mentions:
            self._standing_in(mention, rules)
            if mention.kept in rules.owners or (mention.first and words[mention.first - 1].low in rules.owners):
                continue
            index = mention.last + 1
            while index < len(words) and index not in self.inside and not self._ends_sentence(index):
                # A clause about something else begins: "y *la* profesión".
                new_clause = words[index - 1].low in self.rules.clause_words
                if words[index].low in rules.stops or (new_clause and words[index].low in self.language.determiners):
                    break
                if words[index].low in rules.copulas:
                    self._describe_after(index, rules)
                index += 1

    def _ends_sentence(self, index: int) -> bool:
        return any(mark in self.words[index].gap for mark in _SENTENCE_ENDS)

    def _by_gender(self, index: int, forms: Mapping[str, str]) -> bool:
        """Records both forms of a word of a list masculine → feminine; False for other words."""
        pair = _pair(self.words[index].low, forms)
        if pair is not None:
            self.write(index, *pair)
        return pair is not None

    def _by_ending(self, index: int, forms: Mapping[str, str], endings: Sequence[str], rules: Agreement) -> bool:
        """Records both forms of a word that agrees: of a list, or a known word with either ending."""
        if self._by_gender(index, forms):
            return True
        low, text = self.words[index].low, self.words[index].text
        for ending in endings:
            stem = low.removesuffix(ending)
            agrees = stem + rules.male in rules.words or stem.endswith(rules.participles)
            if low.endswith(ending) and agrees and len(stem) > 1:
                male, female = (text[: len(stem)] + ending for ending in endings)
                self.write(index, male, female)
                return True
        return False

    def _describe_after(self, copula: int, rules: Agreement) -> None:
        """Changes the word that agrees after a copula, and an article before it: "fue la única"."""
        words = self.words
        at, articles = copula + 1, list[int]()
        while (low := self.after(at - 1)) in rules.adverbs or _pair(low, rules.articles):
            if _pair(low, rules.articles):
                if words[at - 1].low in rules.places:
                    return  # "estaba en la lista"
                before_adverb = at + 1 < len(words) and words[at + 1].low in rules.adverbs  # "es un poco vaga"
                articles += [at] if low in self.rules.definites or not before_adverb else []
            at += 1
        if not low or at in self.inside:
            return
        endings = (rules.male, rules.female)
        if self._by_ending(at, rules.forms, endings, rules):
            for index in articles:
                self._by_gender(index, rules.articles)
        if at + 2 < len(words) and self.after(at) in rules.and_words and at + 2 not in self.inside:
            self._by_ending(at + 2, rules.forms, endings, rules)

    def _standing_in(self, mention: Mention, rules: Agreement) -> None:
        """Changes a stand-in before a name: "el primer candidato era Mateo", "y el otro, Mateo"."""
        words, index = self.words, mention.first - 1
        if index < 0 or words[mention.first].gap not in ("", ","):
            return
        if words[index].low in rules.copulas and words[index].gap == "":
            index -= 1
        elif words[index].low in rules.owners:
            return  # "la de Emma", what is hers
        stand_ins = self.rules.stand_ins
        if any(one.low in rules.places and two.low in stand_ins for one, two in itertools.pairwise(words[:index])):
            return  # "en una trabaja Emma"
        for far in range(index, -1, -1):
            if words[far].low in rules.any_gender:
                return  # "una persona era Emma y la otra, Ana"
            if self._ends_sentence(far):
                break
        while index >= 0 and (self._by_gender(index, rules.stand_ins) or words[index].low in rules.owners):
            if not words[index].follows:
                return
            index -= 1

    def _about_both(self, rules: Agreement) -> None:
        """Changes words about both people: "dos viejos amigos", "ambos"."""
        words = self.words
        for index, word in enumerate(words):
            if _pair(word.low, rules.both) is None or index in self.inside:
                continue
            near = {other.low for other in words[max(index - BOTH_REACH, 0) : index + 1]}
            of_things = word.gap == "," and word.low in rules.both_behind  # "dos accidentes, ambos por su culpa"
            of_things |= self.before(index) in rules.places  # "en una trabaja Emma"
            of_things |= self._is_of_epicene(index, rules)
            if near & {*rules.both_behind} and not of_things:
                self._by_gender(index, rules.both)
                first = index  # an article or possessive before, over a number: "*los* dos candidatos"
                while self.before(first) in {*rules.both_behind, *rules.both}:
                    first -= 1
                if self.before(first):
                    self._by_gender(first - 1, rules.both_articles)
                after = self.after(index) if index + 1 not in self.inside else ""
                for ending in (f"{rules.male}s", f"{rules.female}s"):  # "dos candidatas *políticas*"
                    if after.endswith(ending) and len(after) > len(ending) + 2:
                        stem = words[index + 1].text[: -len(ending)]
                        self.write(index + 1, f"{stem}{rules.male}s", f"{stem}{rules.female}s")

    def _is_of_epicene(self, index: int, rules: Agreement) -> bool:
        """Whether a noun of fixed gender precedes in the sentence, with no name between."""
        while index and not self._ends_sentence(index):
            index -= 1
            if index in self.inside:
                return False
            if self.words[index].low in rules.epicenes:
                return True
        return False

    def _the_two(self, rules: Agreement) -> None:
        """Changes article, number and the words that agree with them: "*los* dos estaban muy *cansados*"."""
        words = self.words
        for index in range(1, len(words)):
            is_pair = words[index].low in rules.two and _pair(self.before(index), rules.both_articles)
            after = self.after(index)  # may be a noun: "las dos horas"
            if not is_pair or index in self.inside or (after.endswith("s") and after not in rules.clitics):
                continue
            self._by_gender(index - 1, rules.both_articles)
            if index > 2 and words[index - 2].low in rules.owners and words[index - 3].low in rules.both:
                self._by_gender(index - 3, rules.both)  # "solo *uno* de los dos"
            self._describe_both(index, rules)

    def _describe_both(self, index: int, rules: Agreement) -> None:
        """Changes words about two people after a copula in the same sentence: "se pusieron *nerviosos*"."""
        rest = itertools.takewhile(lambda at: not self._ends_sentence(at), range(index + 1, len(self.words)))
        copula = next((at for at in rest if self.words[at].low in rules.plural_copulas), None)
        if copula is None:
            return
        while self.after(copula) in rules.adverbs:
            copula += 1
        while self.after(copula) and copula + 1 not in self.inside:
            if not self._by_ending(copula + 1, rules.both, rules.both_endings, rules):
                break  # "son hermanos mellizos"
            copula += 1
