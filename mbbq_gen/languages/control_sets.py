"""`control_sets/xx.toml`: the first names of a language, and the grammar of putting one where a group stood."""

from __future__ import annotations

from typing import Any, Self

from pydantic import Field, model_validator

from mbbq_gen.languages.packs import (
    Pack,
    PackMeta,
    Slug,
    Text,
    placeholders,
    read_pack,
    refuse_repeated,
)
from mbbq_gen.languages.substitution import NameGender, Substitution
from mbbq_gen.resources import Resources


class NameRule(Pack):
    """One line of a form's grammar: when it holds for a name, `give` tells how the name is written.

    It holds where all of its conditions do; a condition that is None always does.
    """

    gender: NameGender | None = None
    """Holds if the name stands in that list of names alone: `f` the female, `m` the male."""
    starts_with: tuple[Text, ...] | None = None
    """Holds if the name (lower case) starts with one of these."""
    ends_with: tuple[Text, ...] | None = None
    """Holds if the name (lower case) ends with one of these."""
    ends_in: str | None = None
    """Holds if the name's last letter (lower case) is one of these."""
    ends_not_in: str | None = None
    """Holds if the name's last letter (lower case) is none of these."""
    last_vowel: str | None = None
    """Holds if the last vowel of the name is one of these."""
    final_consonant: bool | None = None
    """Holds if the name's last syllable, written in Hangul, has a final consonant (true) or has none (false)."""
    drop: int = Field(default=0, ge=0, le=3)
    """How many letters (code points) the name loses at its end in this form: Russian Анна, Анны drops one."""
    give: Text
    """The written form, with `{name}` in it."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if placeholders(self.give) != ["name"]:
            raise ValueError(f"give: {self.give!r} must hold {{name}} once and nothing else in braces")
        return self

    @property
    def is_unconditional(self) -> bool:
        """Whether it holds for every name."""
        return not self.model_dump(exclude={"drop", "give"}, exclude_none=True)


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
            if not rules or not rules[-1].is_unconditional:
                raise ValueError(f"forms.{form}: the last rule must hold for every name")
            asked = "".join(rule.last_vowel or "" for rule in rules)
            if set(asked) - set(self.vowels):
                raise ValueError(f"forms.{form}: last_vowel asks for letters that are not in grammar.vowels")
        for form in self.exceptions:
            if form not in self.forms:
                raise ValueError(f"exceptions.{form}: no such form in [grammar.forms]")
        return self


class Names(Pack):
    """First names by gender, as in official statistics."""

    female: tuple[Text, ...] = Field(min_length=10)
    male: tuple[Text, ...] = Field(min_length=10)

    @model_validator(mode="after")
    def _check(self) -> Self:
        refuse_repeated("female name", self.female)
        refuse_repeated("male name", self.male)
        return self


class ControlSet(Pack):
    """First names of a language, and the grammar of putting one where a group stood."""

    meta: PackMeta
    names: Names
    grammar: NameGrammar
    substitution: Substitution | None = None
    """None: control questions can't be made by substitution in this language yet."""

    @model_validator(mode="after")
    def _check_forms(self) -> Self:
        if self.substitution is not None:
            joined = (*self.substitution.before_names.values(), *self.substitution.behind_names.values())
            asked = {*self.substitution.cases, *joined}
            asked |= {*self.substitution.articles_behind.values()}
            asked |= {case for kind in self.substitution.declensions for case in kind.cases}
            asked |= {self.substitution.name_form} if self.substitution.name_form else set()
            missing = sorted(asked - self.grammar.forms.keys())
            if missing:
                raise ValueError(f"substitution: asks for forms that [grammar.forms] lacks: {', '.join(missing)}")
        return self


def read_control_set(resources: Resources, language: str) -> ControlSet:
    """The names and name grammar of a language; raises as `read_pack` does."""
    return read_pack(resources, "control_sets", language, ControlSet)
