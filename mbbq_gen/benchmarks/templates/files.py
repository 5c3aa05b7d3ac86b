"""Template folders: what their files hold, what is wrong in them, and the templates that ship (`starter`)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import cache, lru_cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import AfterValidator, ConfigDict, Field, ValidationError, model_validator

from mbbq_gen.core.errors import MbbqGenError, PackError, UsageError, describe_faults
from mbbq_gen.core.files import PackPaths
from mbbq_gen.languages.control_pack import read_control_set
from mbbq_gen.languages.packs import (
    PLACEHOLDER,
    LanguageCode,
    Pack,
    PackT,
    Slug,
    Text,
    fill,
    placeholders,
    read_toml,
    refuse_repeated,
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
    filler: tuple[Filler, ...] = Field(min_length=1)

    @model_validator(mode="after")
    def _check_ids(self) -> Self:
        refuse_repeated("filler id", (filler.id for filler in self.filler))
        return self

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
        made = {form: pattern for form, pattern in self.derived.items() if placeholders(pattern)[0] in given}
        return {form: fill(pattern, given) for form, pattern in made.items()} | given


class TemplateSet(NamedTuple):
    """A template folder, read and checked."""

    benchmark: BenchmarkFacts
    templates: tuple[TemplateFacts, ...]
    texts: Mapping[str, LanguageTexts]
    """The texts by language code."""

    @property
    def languages(self) -> list[str]:
        """Codes of the languages that it is written in, sorted."""
        return sorted(self.texts)


def option_text(forms: Mapping[str, str]) -> str:
    """The forms of a person as an option: the one made for it, else the definite one."""
    return forms.get("option", forms.get("def", ""))


TemplateFinding = tuple[Path, str]
"""Something wrong in a template folder: the file, and key, what is wrong with it, and the value where it is short."""


def load_templates(folder: Path, languages: Collection[str] | None = None) -> TemplateSet:
    """The templates of a folder, in all its languages or in some of them.

    Raises:
        UsageError: where there is no such folder, or no template file in it.
        PackError: for the first thing that is wrong; file, key and value. `check_templates` lists them all.
    """
    template_set, findings = _read_folder(folder, languages)
    if findings or template_set is None:
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        file, problem = findings[0]
        raise PackError(f"{file}: {problem}{more}")
    return template_set


def check_templates(folder: Path, resources: PackPaths | None = None) -> list[TemplateFinding]:
    """Everything that is wrong in a template folder, in file order; with resources, the control sets it needs too.

    Raises:
        UsageError: where there is no such folder, or no template file in it.
    """
    template_set, findings = _read_folder(folder)
    if template_set is not None and resources is not None:
        for language in template_set.languages:
            file = folder / f"{language}.toml"
            try:
                forms = read_control_set(resources, language).grammar.forms
            except MbbqGenError as error:
                findings.append((file, f"control split: {error}"))
                continue
            where = f"control_sets/{language}.toml"
            findings += [
                (file, f"template {text.id!r}: {where} has no grammar.forms.{form}")
                for text in template_set.texts[language].template
                for form in sorted(text.needed_forms - set(forms))
            ]
    return findings


def _read_folder(
    folder: Path, languages: Collection[str] | None = None
) -> tuple[TemplateSet | None, list[TemplateFinding]]:
    """The template set, and what is wrong in it; None where a file can't be read at all."""
    index_file = folder / INDEX_FILE
    if not index_file.is_file():
        raise UsageError(f"{folder}: no {INDEX_FILE} in it; name a folder of templates")
    files = sorted(path for path in folder.glob("*.toml") if path.name != INDEX_FILE and path.name[0] != "_")
    files = [file for file in files if languages is None or file.stem in languages]
    findings: list[TemplateFinding] = []
    index = _read_file(TemplateIndex, index_file, findings)
    if not files:
        findings.append((folder, f"no language file beside {INDEX_FILE}; add one such as en.toml"))
    read = {file.stem: _read_file(LanguageTexts, file, findings) for file in files}
    texts = {language: text for language, text in read.items() if text is not None}
    if index is None or len(texts) < len(files) or not files:
        return None, findings
    for file in files:
        findings += [(file, problem) for problem in _language_faults(index, texts[file.stem], file.stem)]
    first = min(texts)
    for language, text in texts.items():
        count, wanted = len(text.unknown), len(texts[first].unknown)
        if count != wanted:
            problem = f"unknown: {count} texts, but {first}.toml has {wanted}; the n-th means the same everywhere"
            findings.append((folder / f"{language}.toml", problem))
    return TemplateSet(index.benchmark, index.template, texts), findings


def _read_file(schema: type[PackT], file: Path, findings: list[TemplateFinding]) -> PackT | None:
    """What a file holds; None, with new findings, where it can't be read or is not of the schema."""
    tables: dict[str, Any] = {}
    try:
        tables = read_toml(file)
        return schema.model_validate(tables)
    except PackError as error:
        findings.append((file, str(error).removeprefix(f"{file}: ")))
    except ValidationError as error:
        findings += [(file, problem) for problem in describe_faults(error, tables)]
    return None


def _language_faults(index: TemplateIndex, texts: LanguageTexts, stem: str) -> Iterator[str]:
    """What does not fit between a language's file, its name and the file that all languages share."""
    if texts.meta.language != stem:
        yield f"meta.language: {texts.meta.language!r} is not the file's name {stem!r}"
    yield from _differences("template", [facts.id for facts in index.template], [text.id for text in texts.template])
    used = {form for text in texts.template for form in text.needed_forms} | {"option"}
    used |= {placeholders(pattern)[0] for pattern in texts.derived.values()}
    fillers = {facts.id: facts.fillers for facts in index.template}
    for text in texts.template:
        key = f"template {text.id!r}.filler"
        if text.id in fillers:
            yield from _differences(key, fillers[text.id], [filler.id for filler in text.filler])
        for filler in text.filler:
            for problem in _filler_faults(texts, text, filler, used):
                yield f"{key} {filler.id!r}.{problem}"


def _differences(key: str, wanted: Collection[str], found: Collection[str]) -> Iterator[str]:
    yield from (f"{key} {name!r}: missing; {INDEX_FILE} names it" for name in wanted if name not in found)
    remedy = f"{INDEX_FILE} does not name it; remove it or add it there"
    yield from (f"{key} {name!r}: {remedy}" for name in found if name not in wanted)


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
