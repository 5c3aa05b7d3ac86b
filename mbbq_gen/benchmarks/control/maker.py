"""Benchmark questions → control questions, or the reason for the refusal.

The control question has the id, template, condition, polarity, roles and unknown option of the bias question; its
two people are names. Both have the same parallel id: that of the bias question or, if it has none, its id.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache, lru_cache, partial
from typing import Final

from mbbq_gen.benchmarks.control.mention_grammar import SubstitutionRefusedError
from mbbq_gen.benchmarks.control.names import NamePairs, write_name
from mbbq_gen.benchmarks.control.people import describe_apart, describe_people
from mbbq_gen.benchmarks.control.spans import Spans, person_spans
from mbbq_gen.benchmarks.control.substitution import (
    SubstitutionPlan,
    apply_plan,
    first_match,
    plan_from_spans,
    plan_substitution,
)
from mbbq_gen.benchmarks.control.words import Language
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import PackPaths, stable_number
from mbbq_gen.core.records import Instance, Option
from mbbq_gen.languages.control_pack import ControlSet, NameGender, read_control_set

MIN_GROUP_WORD: Final = 3
"""Minimum length of a word of a group's name that is searched in the text."""
_UNFILLED: Final = re.compile(r"\{+[^{}]*\}+|[{}]")
"""An unfilled slot of the data."""
REASONS: Final[dict[str, str]] = {
    "indistinct_people": "the two options do not tell the people apart",
    "no_mention": "one of the two people is not named in the context",
    "unreplaced_mention": "a word of one of the groups stands outside what can be replaced",
    "group_stated_elsewhere": "the context tells of the group otherwise than by naming the person",
    "people_related": "the context says that one of them has the other, as a friend or a brother",
    "question_about_group": "the question asks about the group itself",
    "plural_group": "several people at once, for whom a name can't stand",
    "adjacent_names": "two names would stand side by side, or an article before one",
    "unknown_inflection": "an ending that the grammar has no form of a name for",
    "ambiguous_gender": "pronouns can't be brought to one gender",
}
"""Code → why a question has no control question."""

Made = Instance | SubstitutionRefusedError
"""A control question, or the refusal."""


class ControlGenerator:
    """Makes control questions in one language."""

    def __init__(self, control_set: ControlSet) -> None:
        """Raises UsageError if the control set has no grammar of substitution."""
        if control_set.substitution is None:
            code = control_set.meta.language
            raise UsageError(
                f"control questions can't be made in {control_set.meta.name} yet: control_sets/{code}.toml has no"
                " table [substitution]; write one, or use --splits bias"
            )
        self.control_set = control_set
        self._language = Language(control_set)
        self._pairs = NamePairs(control_set)
        self._described = lru_cache(maxsize=4096)(partial(describe_people, language=self._language))
        self._planned = lru_cache(maxsize=4096)(self._plan)

    def _plan(
        self, text: str, options: tuple[str, str], spans: Spans | None
    ) -> SubstitutionPlan | SubstitutionRefusedError:
        people = self._described(options)
        try:
            if spans is not None:
                return plan_from_spans(text, spans, people or describe_apart(options, self._language), self._language)
            if people is None:
                return SubstitutionRefusedError("indistinct_people", " / ".join(options))
            return plan_substitution(text, people, self._language)
        except SubstitutionRefusedError as refusal:
            return refusal.with_traceback(None)

    def plan(self, text: str, options: tuple[str, str], spans: Spans | None = None) -> SubstitutionPlan:
        """The plan of a text about the people of two options; raises SubstitutionRefusedError.

        `spans` are their positions in the text; None: they are searched.
        """
        plan = self._planned(text, options, spans)
        if isinstance(plan, SubstitutionRefusedError):
            raise SubstitutionRefusedError(plan.reason, plan.what)
        return plan

    def make(self, instance: Instance) -> Made:
        """The control question of a bias question, or the refusal."""
        try:
            return self._make(instance)
        except SubstitutionRefusedError as refusal:
            return refusal.with_traceback(None)

    def _make(self, instance: Instance) -> Instance:
        options, rules, language = people_of(instance), self._language.rules, self._language
        if (unfilled := _UNFILLED.search(instance.context)) is not None:
            raise SubstitutionRefusedError("no_mention", unfilled[0])
        spans = person_spans(instance, options) if rules.closing_cases else None
        context = self.plan(instance.context, options, spans)
        question = self.question_plan(instance.question, options, None if spans is None else ())
        for number, option in enumerate(options):
            if number not in context.people:
                raise SubstitutionRefusedError("no_mention", option)
        # The gender that the pronouns require, else the one with the fewest changes, else either with equal frequency.
        possible = context.genders & question.genders
        if not possible:
            raise SubstitutionRefusedError("ambiguous_gender", "context and question")
        people = [option for option in instance.options if option.role != "unknown"]
        story = "|".join(sorted(option.group or option.text for option in people))
        even: NameGender = "f" if stable_number("gender", instance.template_id, story) % 2 == 0 else "m"
        wanted = (context.preferred, question.preferred, even)
        gender = next((gender for gender in wanted if gender in possible), min(possible))
        present = frozenset().union(*map(language.stems_of, (instance.context, instance.question, *options)))
        names = self._pairs.choose(gender, instance.template_id, story, present)
        texts = [apply_plan(plan, names, gender, self.control_set) for plan in (context, question)]
        groups = [option.group.replace("_", " ") for option in people if option.group]
        group_words = {word for group in groups for word in language.phrase(group)}
        distinctive = [word for word in group_words if len(word) >= MIN_GROUP_WORD and word not in rules.modifiers]
        for text in texts:
            found = first_match(language.words(text, distinctive), distinctive, language)
            if found is not None:
                raise SubstitutionRefusedError("group_stated_elsewhere", found.text)
        # As options, the names are in the case of the options, if both are in the same case.
        forms = {language.case_and_stem(option)[0] if rules.option_forms else None for option in options}
        form = forms.pop() if len(forms) == 1 else None
        written = [write_name(self.control_set, name, form) if form else name for name in names]
        by_text = dict(zip(options, written, strict=True))
        changes = {
            "split": "control",
            "parallel_id": shared_id(instance),
            "context": texts[0],
            "question": texts[1],
            "options": tuple(
                Option(role=one.role, text=by_text[one.text], group=one.group) if one in people else one
                for one in instance.options
            ),
            "metadata": {
                **instance.metadata,
                "made_by_substitution": True,
                "gender": "female" if gender == "f" else "male",
            },
        }
        return instance.model_copy(update=changes)

    def question_plan(self, question: str, options: tuple[str, str], spans: Spans | None = None) -> SubstitutionPlan:
        """The plan of a question; refuses a question about a group itself."""
        phrase, rules = self._language.phrase(question), self._language.rules
        people = self._described(options) if spans is not None else None
        distinctive = [word for person in people or () for word in person.distinctive]
        refused = {"plural_group": rules.plural_questions, "question_about_group": rules.gender_questions}
        for reason, words in refused.items():
            if (found := next((word for word in phrase if word in words), None)) is not None:
                raise SubstitutionRefusedError(reason, found)
        for word in phrase:
            if self._language.same_as_any(word, distinctive):
                raise SubstitutionRefusedError("question_about_group", word)  # "women's quota", of a woman
        try:
            plan = self.plan(question, options, spans)
        except SubstitutionRefusedError as refusal:
            if refusal.reason in ("unreplaced_mention", "group_stated_elsewhere"):
                raise SubstitutionRefusedError("question_about_group", refusal.what) from refusal
            raise
        for slot in plan.replaced:
            if len(plan.people) == 1 or slot.original.split()[0].casefold() not in rules.definites:
                raise SubstitutionRefusedError("question_about_group", slot.original)
        return plan


def people_of(instance: Instance) -> tuple[str, str]:
    """The texts of the two people's options: target and other person, or in published order without roles."""
    people = [option for option in instance.options if option.role != "unknown"]
    first, second = sorted(people, key=lambda option: option.role != "target")
    return first.text, second.text


def shared_id(instance: Instance) -> str:
    """The common id of a question and its control question: the parallel id, else language and id."""
    return instance.parallel_id or f"{instance.language}/{instance.instance_id}"


def makeable_languages(resources: PackPaths) -> tuple[str, ...]:
    """The languages whose control set has a grammar of substitution."""
    codes = resources.names("control_sets")
    return tuple(code for code in codes if read_control_set(resources, code).substitution is not None)


def with_control(
    instances: Iterable[Instance],
    splits: Sequence[str],
    resources: PackPaths,
    counted: Callable[[Instance, Made], None] = lambda *_: None,
) -> Iterator[Instance]:
    """Yields the bias questions and their control questions, of the requested splits.

    `counted` is called with each bias question and its result, such as `coverage.ControlCoverage.add`.
    """
    makers = cache(lambda language: ControlGenerator(read_control_set(resources, language)))
    for instance in instances:
        if "bias" in splits:
            yield instance.model_copy(update={"parallel_id": shared_id(instance)}) if "control" in splits else instance
        if "control" in splits:
            made = makers(instance.language).make(instance)
            counted(instance, made)
            if isinstance(made, Instance):
                yield made
