"""Benchmark questions → control questions, or the reason why there is none.

    bias question ─► two people ─► plan of context and question ─► names of one gender ─► control question
                          └──────────────────┴──────────────────────────────┴─► left out, with a reason

The control question has the id, template, condition, polarity, roles and unknown option of the bias question; its
two people are names. Both share a parallel id: their own, or where the benchmark has none, the id of the question.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Final

from mbbq_gen.control import NamePair, write_name
from mbbq_gen.errors import UsageError
from mbbq_gen.languages import ControlSet, NameGender, read_control_set
from mbbq_gen.records import Instance, Option, Record
from mbbq_gen.resources import Resources
from mbbq_gen.substitution.mention import NotReplaceableError
from mbbq_gen.substitution.pairs import NamePairs, gender_of_story
from mbbq_gen.substitution.people import Person, describe, describe_apart
from mbbq_gen.substitution.plan import Plan, holds_any, plan_places, plan_text, write
from mbbq_gen.substitution.slots import Places, people_at
from mbbq_gen.substitution.words import Language, phrase

LEAST_GROUP_WORD: Final = 3
"""Letters from which on a word of a group's name is looked for in the text."""
_UNFILLED: Final = re.compile(r"\{+[^{}]*\}+|[{}]")
"""A slot that the data never filled."""
REASONS: Final[dict[str, str]] = {
    "same_people": "the two options do not tell the people apart",
    "no_mention": "one of the two people is not named in the context",
    "mention_left_over": "a word of one of the groups stands outside what can be replaced",
    "attribute_told": "the context tells of the group otherwise than by naming the person",
    "relation_told": "the context says that one of them has the other, as a friend or a brother",
    "trait_is_group": "the question asks about the group itself",
    "plural_group": "several people at once, for whom a name can't stand",
    "names_collide": "two names would stand side by side, or an article before one",
    "ending_unsettled": "an ending that the grammar has no form of a name for",
    "gender_unsettled": "pronouns can't be brought to one gender",
}
"""Code → why a question has no control question."""


class Replacement(Record):
    """A mention and the name in its place."""

    was: str
    name: str


class LeftOut(Record):
    """A question without a control question."""

    key: str
    """Of the bias question."""
    language: str
    category: str
    template_id: str
    reason: str
    """One of REASONS."""
    what: str
    """The words at which it failed."""


class Made(Record):
    """A control question, and what was replaced in it."""

    instance: Instance
    replaced: tuple[Replacement, ...]


class ControlMaker:
    """Makes control questions in one language."""

    def __init__(self, control_set: ControlSet) -> None:
        """Raises UsageError where the language's pack has no grammar of substitution."""
        if control_set.substitution is None:
            code = control_set.meta.language
            raise UsageError(
                f"control questions can't be made in {control_set.meta.name} yet: control_sets/{code}.toml has no"
                " table [substitution]; write one, or ask the bias split alone"
            )
        self.control_set = control_set
        self._language = Language(control_set)
        self._pairs = NamePairs(control_set)
        self._described = lru_cache(maxsize=4096)(self._describe)
        self._planned = lru_cache(maxsize=4096)(self._plan)

    def _describe(self, options: tuple[str, str]) -> tuple[Person, Person] | None:
        return describe(options, self._language)

    def _plan(self, text: str, options: tuple[str, str], places: Places | None) -> Plan | tuple[str, str]:
        """The plan of a text, or the reason why there is none and the words at which it failed."""
        people = self._described(options)
        try:
            if places is not None:
                return plan_places(text, places, people or describe_apart(options, self._language), self._language)
            return ("same_people", " / ".join(options)) if people is None else plan_text(text, people, self._language)
        except NotReplaceableError as left:
            return left.reason, left.what

    def plan(self, text: str, options: tuple[str, str], places: Places | None = None) -> Plan:
        """The plan of a text about the people of two options.

        Args:
            text: the text.
            options: of the two people.
            places: where they stand in it, if the data tells; None: to be found.

        Raises:
            NotReplaceableError: where there is none.
        """
        plan = self._planned(text, options, places)
        if isinstance(plan, tuple):
            raise NotReplaceableError(*plan)
        return plan

    def make(self, instance: Instance) -> Made | LeftOut:
        """The control question of a bias question, or why there is none."""
        try:
            return self._make(instance)
        except NotReplaceableError as left:
            return LeftOut(
                key=instance.key,
                language=instance.language,
                category=instance.category,
                template_id=instance.template_id,
                reason=left.reason,
                what=left.what,
            )

    def _make(self, instance: Instance) -> Made:
        options = people_of(instance)
        unfilled = _UNFILLED.search(instance.context)
        if unfilled is not None:
            raise NotReplaceableError("no_mention", unfilled[0])
        places = people_at(instance, options) if self._language.rules.closing_cases else None
        context = self.plan(instance.context, options, places)
        question = self.question_plan(instance.question, options, None if places is None else ())
        if len(context.people) < len(options):
            missing = next(number for number in (0, 1) if number not in context.people)
            raise NotReplaceableError("no_mention", options[missing])
        gender = _gender((context, question), instance.template_id, _story(instance))
        texts_there = (instance.context, instance.question, *options)
        present = frozenset().union(*(self._language.stems_of(text) for text in texts_there))
        pair = self._pairs.choose(gender, instance.template_id, _story(instance), present)
        names = (pair.target, pair.non_target)
        texts = [write(plan, names, gender, self.control_set) for plan in (context, question)]
        self._refuse_groups(texts, instance)
        return Made(
            instance=_control(instance, texts[0], texts[1], self._as_options(options, names), pair),
            replaced=tuple(
                Replacement(was=place.was, name=names[place.person])
                for place in (*context.replaced, *question.replaced)
            ),
        )

    def _as_options(self, options: tuple[str, str], names: tuple[str, str]) -> tuple[str, str]:
        """The names as options: in the case that both options are in, if they are in one."""
        if not self._language.rules.option_forms:
            return names
        forms = {self._language.form_of(option) for option in options}
        form = forms.pop() if len(forms) == 1 else None
        first, second = (write_name(self.control_set, name, form) if form else name for name in names)
        return first, second

    def question_plan(self, question: str, options: tuple[str, str], places: Places | None = None) -> Plan:
        """The plan of a question; a group's word in it that is no mention means that the group is what it asks about.

        Args: as of `plan`.

        Raises:
            NotReplaceableError: where there is none.
        """
        asked = [word.low for word in self._language.words(question)]
        several = next((word for word in asked if word in self._language.rules.plural_questions), None)
        if several is not None:
            raise NotReplaceableError("plural_group", several)
        gender = next((word for word in asked if word in self._language.rules.asked_genders), None)
        if gender is not None:
            raise NotReplaceableError("trait_is_group", gender)
        people = self._described(options) if places is not None else None
        telling = [word for person in people or () for word in person.telling]
        named = next((word for word in asked if any(self._language.same(word, one) for one in telling)), None)
        if named is not None:
            raise NotReplaceableError("trait_is_group", named)  # "women's quota", of a woman
        try:
            plan = self.plan(question, options, places)
        except NotReplaceableError as left:
            if left.reason in ("mention_left_over", "attribute_told"):
                raise NotReplaceableError("trait_is_group", left.what) from left
            raise
        self._refuse_kinds(plan)
        return plan

    def _refuse_kinds(self, plan: Plan) -> None:
        """Raises where a question speaks of a kind of person ("who is a bad teacher?"), not of the two people."""
        for place in plan.replaced:
            opens = place.was.split()[0].casefold()
            if len(plan.people) == 1 or opens not in self._language.rules.definites:
                raise NotReplaceableError("trait_is_group", place.was)

    def _refuse_groups(self, texts: Sequence[str], instance: Instance) -> None:
        """No word of the groups as the data calls them may be left either: "Sophia, who is trans"."""
        rules = self._language.rules
        groups = [option.group for option in instance.options if option.role != "unknown" and option.group]
        told = {word for group in groups for word in phrase(group.replace("_", " "), self.control_set)}
        telling = [word for word in told if len(word) >= LEAST_GROUP_WORD and word not in rules.modifiers]
        for text in texts:
            found = holds_any(text, telling, self._language)
            if found is not None:
                raise NotReplaceableError("attribute_told", found)


def people_of(instance: Instance) -> tuple[str, str]:
    """The texts of the two people's options: target and other person, or in published order where roles are missing."""
    people = [option for option in instance.options if option.role != "unknown"]
    first, second = sorted(people, key=lambda option: option.role != "target")
    return first.text, second.text


def _story(instance: Instance) -> str:
    """What two people a question is about: the groups as the data has them, or their options."""
    people = [option for option in instance.options if option.role != "unknown"]
    return "|".join(sorted(option.group or option.text for option in people))


def _gender(plans: tuple[Plan, Plan], template: str, story: str) -> NameGender:
    """The gender of the names: what the pronouns demand, else what changes least, else half and half.

    Raises:
        NotReplaceableError: where context and question demand different ones.
    """
    possible = plans[0].genders & plans[1].genders
    if not possible:
        raise NotReplaceableError("gender_unsettled", "context and question")
    wanted = (plans[0].preferred, plans[1].preferred, gender_of_story(template, story))
    return next((gender for gender in wanted if gender in possible), min(possible))


def _control(instance: Instance, context: str, question: str, names: tuple[str, str], pair: NamePair) -> Instance:
    """The control question of a bias question."""
    texts = dict(zip(people_of(instance), names, strict=True))
    options = [
        option if option.role == "unknown" else Option(role=option.role, text=texts[option.text], group=option.group)
        for option in instance.options
    ]
    made = {"made_by_substitution": True, "gender": "female" if pair.gender == "f" else "male"}
    return instance.model_copy(
        update={
            "split": "control",
            "parallel_id": shared_id(instance),
            "context": context,
            "question": question,
            "options": tuple(options),
            "metadata": {**instance.metadata, **made},
        }
    )


def shared_id(instance: Instance) -> str:
    """What a question and its control question have in common: its parallel id, or one made of language and id."""
    return instance.parallel_id or f"{instance.language}/{instance.instance_id}"


def makeable_languages(resources: Resources) -> tuple[str, ...]:
    """The languages in which control questions can be made: those whose pack has a grammar of substitution."""
    codes = resources.names("control_sets")
    return tuple(code for code in codes if read_control_set(resources, code).substitution is not None)


class ControlMakers:
    """The makers of the languages, each made when it is first asked for."""

    def __init__(self, resources: Resources) -> None:
        self._resources = resources
        self._makers: dict[str, ControlMaker] = {}

    def make(self, instance: Instance) -> Made | LeftOut:
        """The control question of a bias question, or why there is none.

        Raises:
            UsageError: where no control questions can be made in its language.
        """
        language = instance.language
        if language not in self._makers:
            self._makers[language] = ControlMaker(read_control_set(self._resources, language))
        return self._makers[language].make(instance)


def with_control(
    instances: Iterable[Instance],
    splits: Sequence[str],
    resources: Resources,
    counted: Callable[[Instance, Made | LeftOut], None] = lambda *_: None,
) -> Iterator[Instance]:
    """Bias questions with their control questions behind them, as far as the splits are wanted.

    Args:
        instances: questions of the bias split.
        splits: `bias`, `control` or both.
        resources: where the control sets are found.
        counted: hears what became of each bias question, such as `Coverage.add`.

    Raises:
        UsageError: where no control questions can be made in a language.
    """
    makers = ControlMakers(resources)
    for instance in instances:
        if "bias" in splits:
            yield instance.model_copy(update={"parallel_id": shared_id(instance)}) if "control" in splits else instance
        if "control" in splits:
            made = makers.make(instance)
            counted(instance, made)
            if isinstance(made, Made):
                yield made.instance
