"""Template folders: what their files hold, what is wrong in them, and the templates that ship (`starter`)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache, lru_cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Literal, NamedTuple, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from mbbq_gen.core.errors import MbbqGenError, PackError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.languages.control_pack import read_control_set
from mbbq_gen.languages.packs import (
    PLACEHOLDER,
    LanguageCode,
    Pack,
    Slug,
    Text,
    Unique,
    fill,
    placeholders,
    read_toml,
    validate_pack,
)

INDEX_FILE = "templates.toml"

Gender = Literal["m", "f", "n"]

_FORM_SLOT = re.compile(r"([A-Z])\.([a-z][a-z0-9_]*)")
_AGREEMENT_SLOT = re.compile(r"([A-Z])\|([^|]*)\|([^|]*)(?:\|([^|]*))?")
SENTENCE_START = re.compile(r"""(?:^|[.!?…]["'”’»)]*\s+)[\s"'“‘„«(¿¡]*\Z""")
"""What stands before a slot that begins a sentence."""


class Slot(NamedTuple):
    """What stands between two braces of a template: a person's form, or letters that agree with a person's gender."""

    person: str
    """X, Y, A or B."""
    form: str | None
    """The form to write, or None for an agreement."""
    by_gender: Mapping[str, str]
    """Of an agreement: what is written for `m`, `f` and perhaps `n`."""


@lru_cache(maxsize=4096)
def parse_slot(text: str) -> Slot | None:
    """The slot that the text between two braces names, or None where it is none."""
    if match := _FORM_SLOT.fullmatch(text):
        return Slot(match[1], match[2], {})
    if match := _AGREEMENT_SLOT.fullmatch(text):
        alternatives = {"m": match[2], "f": match[3], "n": match[4]}
        return Slot(match[1], None, {gender: word for gender, word in alternatives.items() if word is not None})
    return None


def _check_text(text: str) -> str:
    if text != text.strip() or "  " in text or re.search(r"[\t\n\r]", text):
        raise ValueError("blanks at an edge, two in a row, or a line break")
    return text


def _check_story(text: str, people: str) -> str:
    """Refuses slots that are none, and a story that leaves one of its two people out."""
    _check_text(text)
    slots = {name: parse_slot(name) for name in placeholders(text)}
    for name, slot in slots.items():
        if slot is None or slot.person not in people:
            raise ValueError(
                f"slot {{{name}}} is none; write {{{people[0]}.form}} or {{{people[0]}|masculine|feminine}}"
                f" for person {people[0]} or {people[1]}"
            )
    if re.search(r"[{}]", PLACEHOLDER.sub("", text)):
        raise ValueError("a brace that belongs to no slot")
    for person in people:
        if not any(slot is not None and slot.person == person and slot.form for slot in slots.values()):
            raise ValueError(f"person {person} is not named; write {{{person}.form}} somewhere")
    return text


def _check_plain(text: str) -> str:
    if re.search(r"[{}]", text):
        raise ValueError("a brace; there are no slots here")
    return _check_text(text)


PlainText = Annotated[Text, AfterValidator(_check_plain)]


class BenchmarkFacts(Pack):
    """What the benchmark is."""

    name: Slug
    version: Text
    title: Text
    licence: Text
    source: Text
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
    """Tag of the group that the stereotype is about; the other one is set against it."""
    non_target_group: Slug
    source: Text
    countries: tuple[Annotated[str, Field(pattern=r"^[A-Z]{2}$")], ...] = ()
    """Where the people live who attest it in that publication: ISO 3166-1 codes. Of other countries it says nothing."""
    fillers: Annotated[tuple[Slug, ...], Unique] = Field(min_length=1)
    """Ids of the pairs of people that every language has for it."""


class TemplateIndex(Pack):
    """The file `templates.toml`."""

    benchmark: BenchmarkFacts
    template: Annotated[tuple[TemplateFacts, ...], Unique] = Field(min_length=1)


class TextsMeta(Pack):
    """Where the texts of a language come from."""

    language: LanguageCode
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
    ambiguous: Annotated[Text, AfterValidator(partial(_check_story, people="XY"))]
    """The story without the answer; slots X and Y."""
    disambiguating: Annotated[Text, AfterValidator(partial(_check_story, people="AB"))]
    """What is added to it so that both questions have an answer; slots A and B."""
    question_negative: PlainText
    """Asks who fits the stereotype: A."""
    question_non_negative: PlainText
    """Asks who does not: B."""
    filler: Annotated[tuple[Filler, ...], Unique] = Field(min_length=1)

    @property
    def slots(self) -> list[Slot]:
        """All slots of both parts of the story."""
        named = placeholders(self.ambiguous) + placeholders(self.disambiguating)
        return [slot for slot in map(parse_slot, named) if slot is not None]

    @property
    def needed_forms(self) -> set[str]:
        """The forms that every person has to come in; `def` always, since options are written in it."""
        return {"def"} | {slot.form for slot in self.slots if slot.form is not None}


class LanguageTexts(Pack):
    """The file of a language."""

    unknown: Annotated[tuple[PlainText, ...], Unique] = Field(min_length=1)
    """Texts of the unknown option; the n-th means the same in every language."""
    capitals: dict[str, str] = Field(default_factory=dict)
    """First letters whose capital differs from Unicode's default: Turkish i → İ, Dutch ij → IJ."""
    derived: dict[Slug, Text] = Field(default_factory=dict)
    """Forms that are made from another one, where a person does not give them: `y_indef = "y {indef}"`."""
    meta: TextsMeta
    template: Annotated[tuple[TemplateText, ...], Unique] = Field(min_length=1)

    @model_validator(mode="after")
    def _check(self) -> Self:
        for form, pattern in self.derived.items():
            if len(placeholders(pattern)) != 1:
                raise ValueError(f"derived.{form}: {pattern!r} must hold one other form in braces")
        return self

    def forms_of(self, person: Person) -> dict[str, str]:
        """The person's phrase in each form, derived ones included."""
        given = person.forms
        made = {form: pattern for form, pattern in self.derived.items() if placeholders(pattern)[0] in given}
        return {form: fill(pattern, given) for form, pattern in made.items()} | given


class TemplateSet(NamedTuple):
    """A template folder, read and checked."""

    benchmark: BenchmarkFacts
    templates: tuple[TemplateFacts, ...]
    texts: Mapping[str, LanguageTexts]

    @property
    def languages(self) -> list[str]:
        """Codes of the languages that it is written in, sorted."""
        return sorted(self.texts)


def option_text(forms: Mapping[str, str]) -> str:
    """The forms of a person as an option: the one made for it, else the definite one."""
    return forms.get("option", forms.get("def", ""))


def load_templates(folder: Path, languages: Collection[str] | None = None) -> TemplateSet:
    """The templates of a folder, in all its languages or in some; raises PackError for what is wrong first."""
    index_file = folder / INDEX_FILE
    if not index_file.is_file():
        raise UsageError(f"{folder}: no {INDEX_FILE} in it; name a folder of templates")
    files = sorted(path for path in folder.glob("*.toml") if path.name != INDEX_FILE and path.name[0] != "_")
    files = [file for file in files if languages is None or file.stem in languages]
    if not files:
        raise PackError(f"{folder}: no language file beside {INDEX_FILE}; add one such as en.toml")
    index = validate_pack(TemplateIndex, read_toml(index_file), index_file)
    texts = {file.stem: validate_pack(LanguageTexts, read_toml(file), file) for file in files}
    for file in files:
        text, first = texts[file.stem], files[0].stem
        faults = list(_language_faults(index, text, file.stem))
        if len(text.unknown) != (wanted := len(texts[first].unknown)):
            faults.append(f"unknown: {len(text.unknown)} texts, but {first}.toml has {wanted}; the n-th means the same")
        if faults:
            raise PackError(f"{file}: {faults[0]}" + (f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""))
    return TemplateSet(index.benchmark, index.template, texts)


def missing_forms(templates: TemplateSet, folder: Path, resources: PackPaths) -> Iterator[tuple[Path, str]]:
    """What the control split of templates needs and the control sets do not have, by file of the templates."""
    for language, texts in templates.texts.items():
        file, where = folder / f"{language}.toml", f"control_sets/{language}.toml"
        try:
            forms = set(read_control_set(resources, language).grammar.forms)
        except MbbqGenError as error:
            yield file, f"control split: {error}"
            continue
        for text in texts.template:
            for form in sorted(text.needed_forms - forms):
                yield file, f"template {text.id!r}: {where} has no grammar.forms.{form}"


def _language_faults(index: TemplateIndex, texts: LanguageTexts, stem: str) -> Iterator[str]:
    """What does not fit between a language's file, its name and the file that all languages share."""

    def unshared(key: str, wanted: Iterable[str], found: Iterable[str]) -> Iterator[str]:
        names = {*wanted} ^ {*found}
        yield from (f"{key} {name!r}: must be in this file and in {INDEX_FILE}" for name in sorted(names))

    if texts.meta.language != stem:
        yield f"meta.language: {texts.meta.language!r} is not the file's name {stem!r}"
    fillers = {facts.id: facts.fillers for facts in index.template}
    yield from unshared("template", fillers, (text.id for text in texts.template))
    used = {form for text in texts.template for form in text.needed_forms} | {"option"}
    used |= {placeholders(pattern)[0] for pattern in texts.derived.values()}
    for text in texts.template:
        key = f"template {text.id!r}.filler"
        yield from unshared(key, fillers.get(text.id, ()), (filler.id for filler in text.filler))
        for filler in text.filler:
            for problem in _filler_faults(texts, text, filler, used):
                yield f"{key} {filler.id!r}.{problem}"


def _filler_faults(texts: LanguageTexts, text: TemplateText, filler: Filler, used: set[str]) -> Iterator[str]:
    """What is wrong with a pair of people: forms that lack or that no text uses, agreement, nested options."""
    for role, person in (("target", filler.target), ("non_target", filler.non_target)):
        for form in sorted(text.needed_forms - texts.forms_of(person).keys()):
            yield f"{role}.{form}: missing; the texts of the template ask for this form"
        for form in sorted(person.forms.keys() - used):
            yield f"{role}.{form}: no text asks for this form; remove it or correct its spelling"
        if any(slot.form is None and person.gender not in slot.by_gender for slot in text.slots):
            yield f"{role}.gender: {person.gender!r}, but an agreement of the template has no third alternative"
    options = [option_text(texts.forms_of(person)).casefold() for person in (filler.target, filler.non_target)]
    if options[0] and options[1] and (options[0] in options[1] or options[1] in options[0]):
        yield f"target: the options {options[0]!r} and {options[1]!r} contain each other; nobody could tell them apart"


def starter_folder() -> Path:
    """The folder of the templates, inside the installed package."""
    return Path(str(files("mbbq_gen.benchmarks").joinpath("starter_data")))


@cache
def starter_templates(language: str | None = None) -> TemplateSet:
    """The templates, read and checked once: in all languages, or in one where there is such a file."""
    is_there = language is not None and (starter_folder() / f"{language}.toml").is_file()
    return load_templates(starter_folder(), [language] if is_there and language else None)
