"""What template files hold: slots, texts, people, and what is checked in each file by itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from mbbq_gen.languages.packs import PLACEHOLDER, LanguageCode, Pack, Slug, Text, fill, placeholders, refuse_repeated

INDEX_FILE = "templates.toml"

Gender = Literal["m", "f", "n"]

_FORM_SLOT = re.compile(r"([A-Z])\.([a-z][a-z0-9_]*)")
_AGREEMENT_SLOT = re.compile(r"([A-Z])\|([^|]*)\|([^|]*)(?:\|([^|]*))?")
SENTENCE_START = re.compile(r"""(?:^|[.!?…]["'”’»)]*\s+)[\s"'“‘„«(¿¡]*\Z""")
"""What stands before a slot that begins a sentence."""


@dataclass(frozen=True)
class Slot:
    """What stands between two braces of a template: a person's form, or letters that agree with a person's gender."""

    person: str
    """X, Y, A or B."""
    form: str | None
    """The form to write, or None for an agreement."""
    by_gender: Mapping[str, str]
    """Of an agreement: what is written for `m`, `f` and perhaps `n`."""


def parse_slot(text: str) -> Slot | None:
    """The slot that the text between two braces names, or None where it is none."""
    if match := _FORM_SLOT.fullmatch(text):
        return Slot(match[1], match[2], {})
    if match := _AGREEMENT_SLOT.fullmatch(text):
        alternatives = {"m": match[2], "f": match[3], "n": match[4]}
        return Slot(match[1], None, {gender: word for gender, word in alternatives.items() if word is not None})
    return None


def _slots(text: str) -> list[Slot]:
    return [slot for slot in map(parse_slot, placeholders(text)) if slot is not None]


def _check_text(text: str) -> str:
    if text != text.strip() or "  " in text or re.search(r"[\t\n\r]", text):
        raise ValueError("blanks at an edge, two in a row, or a line break")
    return text


def _check_story(text: str, people: str) -> str:
    """Refuses slots that are none, and a story that leaves one of its two people out."""
    for name in placeholders(text):
        slot = parse_slot(name)
        if slot is None or slot.person not in people:
            raise ValueError(
                f"slot {{{name}}} is none; write {{{people[0]}.form}} or {{{people[0]}|masculine|feminine}}"
                f" for person {people[0]} or {people[1]}"
            )
    if re.search(r"[{}]", PLACEHOLDER.sub("", text)):
        raise ValueError("a brace outside of a slot")
    for person in people:
        if not any(slot.person == person and slot.form for slot in _slots(text)):
            raise ValueError(f"person {person} is not named; write {{{person}.form}} somewhere")
    return text


def _check_no_slot(text: str) -> str:
    if re.search(r"[{}]", text):
        raise ValueError("a brace; there are no slots here")
    return text


PlainText = Annotated[Text, AfterValidator(_check_text), AfterValidator(_check_no_slot)]

# --- the files -------------------------------------------------------------------------------------------------------


class BenchmarkFacts(Pack):
    """What the benchmark is."""

    name: Slug
    version: Text
    title: Text
    licence: Text
    source: Text
    """Who wrote it."""
    notice: Text
    """What every result of it has to say."""


class TemplateFacts(Pack):
    """What all languages share of a template."""

    id: Slug
    category: Slug
    subcategory: Slug | None = None
    stereotype: Text
    """The stereotype that it is about, as an English sentence."""
    target_group: Slug
    """Tag of the group that the stereotype is about."""
    non_target_group: Slug
    """Tag of the group that it is set against."""
    source: Text
    """A publication that attests the stereotype."""
    countries: tuple[Annotated[str, Field(pattern=r"^[A-Z]{2}$")], ...] = ()
    """Where the people live who attest it in that publication: ISO 3166-1 codes. Of other countries it says nothing."""
    fillers: tuple[Slug, ...] = Field(min_length=1)
    """Ids of the pairs of people that every language has for it."""

    @model_validator(mode="after")
    def _check_fillers(self) -> Self:
        refuse_repeated("fillers", self.fillers)
        return self


class TemplateIndex(Pack):
    """The file `templates.toml`."""

    benchmark: BenchmarkFacts
    template: tuple[TemplateFacts, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_ids(self) -> Self:
        refuse_repeated("template id", (template.id for template in self.template))
        return self


class TextsMeta(Pack):
    """Where the texts of a language come from."""

    language: LanguageCode
    """Equals the file's name."""
    source: Text
    licence: Text
    version: int = Field(ge=1)


class Person(Pack):
    """One person of a pair: the gender, and the phrase in each form (`def`, `indef`, `gen`…)."""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[Slug, PlainText] = Field(init=False)

    gender: Gender
    """Grammatical gender, for agreement; `n` where it is neither, or where the language has none."""

    @property
    def forms(self) -> dict[str, str]:
        """The phrase in each form that the file gives."""
        return dict(self.__pydantic_extra__)


class Filler(Pack):
    """A pair of people for a template."""

    id: Slug
    target: Person
    non_target: Person


class TemplateText(Pack):
    """A template in one language."""

    id: Slug
    ambiguous: Annotated[Text, AfterValidator(_check_text), AfterValidator(partial(_check_story, people="XY"))]
    """The story without the answer; slots X and Y."""
    disambiguating: Annotated[Text, AfterValidator(_check_text), AfterValidator(partial(_check_story, people="AB"))]
    """What is added to it so that both questions have an answer; slots A and B."""
    question_negative: PlainText
    """Asks who fits the stereotype: A."""
    question_non_negative: PlainText
    """Asks who does not: B."""
    filler: tuple[Filler, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_ids(self) -> Self:
        refuse_repeated("filler id", (filler.id for filler in self.filler))
        return self

    @property
    def slots(self) -> list[Slot]:
        """All slots of both parts of the story."""
        return _slots(self.ambiguous) + _slots(self.disambiguating)

    @property
    def needed_forms(self) -> set[str]:
        """The forms that every person has to come in; `def` always, since options are written in it."""
        return {"def"} | {slot.form for slot in self.slots if slot.form is not None}


class LanguageTexts(Pack):
    """The file of a language."""

    unknown: tuple[PlainText, ...] = Field(min_length=1)
    """Texts of the unknown option; the n-th means the same in every language."""
    capitals: dict[str, str] = Field(default_factory=dict)
    """First letters whose capital differs from Unicode's default: Turkish i → İ, Dutch ij → IJ."""
    derived: dict[Slug, Text] = Field(default_factory=dict)
    """Forms that are made from another one, where a person does not give them: `y_indef = "y {indef}"`."""
    meta: TextsMeta
    template: tuple[TemplateText, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        refuse_repeated("template id", (template.id for template in self.template))
        refuse_repeated("unknown text", self.unknown)
        for form, pattern in self.derived.items():
            if len(placeholders(pattern)) != 1:
                raise ValueError(f"derived.{form}: {pattern!r} must hold one other form in braces")
        return self

    def forms_of(self, person: Person) -> dict[str, str]:
        """The person's phrase in each form, derived ones included."""
        given = person.forms
        made = {
            form: fill(pattern, given)
            for form, pattern in self.derived.items()
            if form not in given and placeholders(pattern)[0] in given
        }
        return given | made


@dataclass(frozen=True)
class TemplateSet:
    """A template folder, read and checked."""

    benchmark: BenchmarkFacts
    templates: tuple[TemplateFacts, ...]
    """In the order of the file."""
    texts: Mapping[str, LanguageTexts]
    """The texts by language code."""

    @property
    def languages(self) -> list[str]:
        """Codes of the languages that it is written in, sorted."""
        return sorted(self.texts)


def option_text(forms: Mapping[str, str]) -> str:
    """The forms of a person as an option: the one made for it, else the definite one."""
    return forms.get("option", forms.get("def", ""))
