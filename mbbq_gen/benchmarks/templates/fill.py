"""Reads and checks template folders, and fills their templates with every pair of people, in every order."""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any, Final, Literal, NamedTuple, Self

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from mbbq_gen.benchmarks.control.people import assign_names, write_name
from mbbq_gen.benchmarks.templates.esbbq import esbbq_languages, load_esbbq_templates
from mbbq_gen.core.errors import MbbqGenError, PackError, UnknownNameError, UsageError
from mbbq_gen.core.files import PackPaths, stable_number
from mbbq_gen.core.records import Alignment, Condition, Instance, Option, Polarity, Role, Split
from mbbq_gen.languages.control_pack import ControlSet, read_control_set
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

INDEX_FILE: Final = "templates.toml"
Gender = Literal["m", "f", "n"]
_SLOT: Final = re.compile(
    r"\{(?P<person>[A-Z])(?:\.(?P<form>[a-z][a-z0-9_]*)|\|(?P<m>[^|{}]*)\|(?P<f>[^|{}]*)(?:\|(?P<n>[^|{}]*))?)\}"
)
"""A person's form, or letters that agree with a person's gender."""
_SENTENCE_START: Final = re.compile(r"""(?:^|[.!?…]["'”’»)]*\s+)[\s"'“‘„«(¿¡]*\Z""")
"""The text before a slot that begins a sentence."""
_PEOPLE: tuple[Role, Role] = ("target", "non_target")
_CONTEXTS: tuple[tuple[Condition, Alignment | None], ...] = (
    ("ambiguous", None),
    ("disambiguated", "biased"),
    ("disambiguated", "counter_biased"),
)
_POLARITIES: tuple[Polarity, ...] = ("negative", "non_negative")
_OPTION_ORDERS: tuple[tuple[Role, ...], ...] = tuple(itertools.permutations((*_PEOPLE, "unknown")))
_FILES_OF_FORM: Final = {"starter": INDEX_FILE, "esbbq": "*.xlsx"}


def _check_text(text: str) -> str:
    if text != text.strip() or "  " in text or re.search(r"[\t\n\r]", text):
        raise ValueError("blanks at an edge, two in a row, or a line break")
    return text


def _check_story(text: str, people: str) -> str:
    """Refuses unknown slots, and a story that leaves one of its two people out."""
    for name in placeholders(_check_text(text)):
        slot = _SLOT.fullmatch(f"{{{name}}}")
        if slot is None or slot["person"] not in people:
            raise ValueError(
                f"slot {{{name}}} is none; write {{{people[0]}.form}} or {{{people[1]}|masculine|feminine}}"
            )
    if re.search(r"[{}]", PLACEHOLDER.sub("", text)):
        raise ValueError("a brace that belongs to no slot")
    named = {slot["person"] for slot in _SLOT.finditer(text) if slot["form"]}
    if missing := [person for person in people if person not in named]:
        raise ValueError(f"person {missing[0]} is not named; write {{{missing[0]}.form}} somewhere")
    return text


def _check_plain(text: str) -> str:
    if re.search(r"[{}]", text):
        raise ValueError("a brace; there are no slots here")
    return _check_text(text)


PlainText = Annotated[Text, AfterValidator(_check_plain)]


class BenchmarkFacts(Pack):
    """The benchmark of a folder, with a notice for every result of it."""

    name: Slug
    version: Text
    title: Text
    licence: Text
    source: Text
    notice: Text


class TemplateFacts(Pack):
    """The facts of a template that all languages share."""

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
    """Countries of the people who attest it in that publication (ISO 3166-1); nothing is known of other countries."""
    fillers: Annotated[tuple[Slug, ...], Unique] = Field(min_length=1)
    """Ids of the pairs of people that every language has for it."""


class TemplateIndex(Pack):
    """The file `templates.toml`."""

    benchmark: BenchmarkFacts
    template: Annotated[tuple[TemplateFacts, ...], Unique] = Field(min_length=1)


class TextsMeta(Pack):
    """The origin of the texts of a language."""

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
    """The sentences that answer both questions; slots A and B."""
    question_negative: PlainText
    question_non_negative: PlainText
    """They ask who fits the stereotype (A) and who does not (B)."""
    filler: Annotated[tuple[Filler, ...], Unique] = Field(min_length=1)

    @property
    def needed_forms(self) -> set[str]:
        """The forms that every person needs; `def` always, since options are written in it."""
        return {"def"} | {slot["form"] for slot in _SLOT.finditer(self.ambiguous + self.disambiguating) if slot["form"]}


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
        given = dict(person.__pydantic_extra__)
        made = {form: pattern for form, pattern in self.derived.items() if placeholders(pattern)[0] in given}
        return {form: fill(pattern, given) for form, pattern in made.items()} | given


class TemplateSet(NamedTuple):
    """A template folder, read and checked."""

    benchmark: BenchmarkFacts
    templates: tuple[TemplateFacts, ...]
    texts: Mapping[str, LanguageTexts]
    """By language, sorted."""


def _option_text(forms: Mapping[str, str]) -> str:
    return forms.get("option", forms.get("def", ""))


def load_templates(folder: Path, languages: Collection[str] | None = None) -> TemplateSet:
    """The templates of a folder, in all its languages or in some; raises PackError for the first fault."""
    index_file = folder / INDEX_FILE
    if not index_file.is_file():
        raise UsageError(f"{folder}: no {INDEX_FILE} in it; name a folder of templates")
    paths = sorted(path for path in folder.glob("*.toml") if path.name != INDEX_FILE and path.name[0] != "_")
    paths = [path for path in paths if languages is None or path.stem in languages]
    if not paths:
        raise PackError(f"{folder}: no language file beside {INDEX_FILE}; add one such as en.toml")
    index = validate_pack(TemplateIndex, read_toml(index_file), index_file)
    texts = {path.stem: validate_pack(LanguageTexts, read_toml(path), path) for path in paths}
    for path in paths:
        text, first = texts[path.stem], paths[0].stem
        faults = list(_language_faults(index, text, path.stem))
        if len(text.unknown) != (wanted := len(texts[first].unknown)):
            faults.append(f"unknown: {len(text.unknown)} texts, but {first}.toml has {wanted}; the n-th means the same")
        if faults:
            raise PackError(f"{path}: {faults[0]}" + (f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""))
    return TemplateSet(index.benchmark, index.template, texts)


def _language_faults(index: TemplateIndex, texts: LanguageTexts, stem: str) -> Iterator[str]:
    """The differences of a language's file from its name and from the file that all languages share."""

    def unshared(key: str, wanted: Iterable[str], found: Iterable[str]) -> list[str]:
        return [f"{key} {name!r}: must be in this file and in {INDEX_FILE}" for name in sorted({*wanted} ^ {*found})]

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
            yield from (f"{key} {filler.id!r}.{fault}" for fault in _filler_faults(texts, text, filler, used))


def _filler_faults(texts: LanguageTexts, text: TemplateText, filler: Filler, used: set[str]) -> Iterator[str]:
    """The faults of a pair of people: missing or unused forms, agreement, options that contain each other."""
    slots = list(_SLOT.finditer(text.ambiguous + text.disambiguating))
    for role, person in (("target", filler.target), ("non_target", filler.non_target)):
        for form in sorted(text.needed_forms - texts.forms_of(person).keys()):
            yield f"{role}.{form}: missing; the texts of the template ask for this form"
        for form in sorted(person.__pydantic_extra__.keys() - used):
            yield f"{role}.{form}: no text asks for this form; remove it or correct its spelling"
        if any(slot["form"] is None and slot[person.gender] is None for slot in slots):
            yield f"{role}.gender: {person.gender!r}, but an agreement of the template has no third alternative"
    options = [_option_text(texts.forms_of(person)).casefold() for person in (filler.target, filler.non_target)]
    if options[0] and options[1] and (options[0] in options[1] or options[1] in options[0]):
        yield f"target: the options {options[0]!r} and {options[1]!r} contain each other; nobody could tell them apart"


def missing_forms(templates: TemplateSet, folder: Path, resources: PackPaths) -> Iterator[tuple[Path, str]]:
    """The forms that the control split of templates needs and the control sets lack, by file of the templates."""
    for language, texts in templates.texts.items():
        path = folder / f"{language}.toml"
        try:
            forms = set(read_control_set(resources, language).grammar.forms)
        except MbbqGenError as error:
            yield path, f"control split: {error}"
            continue
        for text in texts.template:
            for form in sorted(text.needed_forms - forms):
                yield path, f"template {text.id!r}: control_sets/{language}.toml has no grammar.forms.{form}"


def starter_folder() -> Path:
    """The folder of the starter templates."""
    return Path(str(files("mbbq_gen.benchmarks").joinpath("starter_data")))


@cache
def starter_templates(language: str | None = None) -> TemplateSet:
    """The starter templates, read and checked once: in all languages, or in one."""
    return load_templates(starter_folder(), None if language is None else [language])


def load_starter(language: str, splits: Sequence[Split], resources: PackPaths) -> Iterator[Instance]:
    """The instances of the starter benchmark in a language, split by split."""
    control_set = read_control_set(resources, language) if "control" in splits else None
    return instantiate(starter_templates(language), language, splits, control_set)


@dataclass(frozen=True)
class _Cast:
    """The two people of a story by role: those of a filler or, in the control split, two names."""

    genders: Mapping[Role, Gender]
    forms: Mapping[Role, Mapping[str, str]]
    metadata: Mapping[str, Any]


class _Cell(NamedTuple):
    """One of the twelve questions of a template × filler."""

    template: str
    filler: str
    order: str
    condition: Condition
    polarity: Polarity
    alignment: Alignment | None

    @property
    def cell_id(self) -> str:
        """Such as `age_01.grandfather.target_first.disambiguated.negative.biased`."""
        return ".".join(part for part in self if part is not None)

    @property
    def roles(self) -> dict[str, Role]:
        """X and Y by the order of mention, A and B by the alignment: A is the target in a biased context."""
        places = (self.order == "target_first", self.alignment == "biased")
        people = (role for is_target in places for role in (_PEOPLE if is_target else _PEOPLE[::-1]))
        return dict(zip("XYAB", people, strict=True))


def instantiate(
    template_set: TemplateSet, language: str, splits: Sequence[Split], control_set: ControlSet | None = None
) -> Iterator[Instance]:
    """The instances of a language, one by one: split by split, in the order of the templates; the same everywhere.

    `instance_id` and `parallel_id` are alike and say which question it is; twins of other languages and of the other
    split share them, with the same order of options and the same unknown text. Options are shuffled so that each
    role stands at each place equally often. In the control split, an option's group tells whose place the name takes.
    """
    if language not in template_set.texts:
        raise UnknownNameError("language", language, template_set.texts, f"(benchmark {template_set.benchmark.name})")
    if "control" in splits and control_set is None:
        raise UsageError(f"the control split needs a control set; write control_sets/{language}.toml")
    casts = {split: _casts(template_set, language, control_set if split == "control" else None) for split in splits}
    return itertools.chain.from_iterable(
        _questions(template_set, language, split, facts, casts[split])
        for split, facts in itertools.product(splits, template_set.templates)
    )


def _casts(template_set: TemplateSet, language: str, control_set: ControlSet | None) -> dict[tuple[str, str], _Cast]:
    """The people by template and filler: the filler's own or, with a control set, two names."""
    texts, casts = template_set.texts[language], {}
    stories = {f"{facts.id}.{filler}": facts.category for facts in template_set.templates for filler in facts.fillers}
    pairs = assign_names(control_set, stories) if control_set is not None else {}
    for text, filler in ((each, filler) for each in texts.template for filler in each.filler):
        if control_set is None:
            people = list(zip(_PEOPLE, (filler.target, filler.non_target), strict=True))
            genders: dict[Role, Gender] = {role: person.gender for role, person in people}
            cast = _Cast(genders, {role: texts.forms_of(person) for role, person in people}, {})
        else:
            gender, *pair = pairs[f"{text.id}.{filler.id}"]
            names = dict(zip(_PEOPLE, pair, strict=True))
            needed = text.needed_forms | ({"option"} & control_set.grammar.forms.keys())
            forms = {
                role: {form: write_name(control_set, name, form) for form in needed} for role, name in names.items()
            }
            cast = _Cast(dict.fromkeys(_PEOPLE, gender), forms, {"gender": gender, "names": names})
        casts[text.id, filler.id] = cast
    return casts


def _questions(
    template_set: TemplateSet, language: str, split: Split, facts: TemplateFacts, casts: Mapping[tuple[str, str], _Cast]
) -> Iterator[Instance]:
    texts = template_set.texts[language]
    text = next(text for text in texts.template if text.id == facts.id)
    parts = itertools.product(facts.fillers, ("target_first", "non_target_first"), _CONTEXTS, _POLARITIES)
    cells = [
        _Cell(facts.id, filler, order, condition, polarity, alignment)
        for filler, order, (condition, alignment), polarity in parts
    ]
    option_orders = _option_orders(cells)
    for cell in cells:
        cast, cell_id = casts[facts.id, cell.filler], cell.cell_id
        context = _write(text.ambiguous, cell.roles, cast, texts.capitals)
        gold: Role = "unknown"
        if cell.condition == "disambiguated":
            gap = "" if context.endswith("。") else " "
            context += gap + _write(text.disambiguating, cell.roles, cast, texts.capitals)
            gold = cell.roles["A" if cell.polarity == "negative" else "B"]
        unknown = texts.unknown[stable_number("unknown wording", cell_id) % len(texts.unknown)]
        options: dict[Role, Option] = {"unknown": Option(role="unknown", text=unknown, group="unknown")}
        for role, group in zip(_PEOPLE, (facts.target_group, facts.non_target_group), strict=True):
            shown = _capitalise(_option_text(cast.forms[role]), texts.capitals)
            options[role] = Option(role=role, text=shown, group=group)
        yield Instance(
            benchmark=template_set.benchmark.name,
            version=template_set.benchmark.version,
            split=split,
            language=language,
            instance_id=cell_id,
            parallel_id=cell_id,
            template_id=facts.id,
            category=facts.category,
            subcategory=facts.subcategory,
            condition=cell.condition,
            polarity=cell.polarity,
            context=context,
            question=text.question_negative if cell.polarity == "negative" else text.question_non_negative,
            options=tuple(options[role] for role in option_orders[cell_id]),
            gold_role=gold,
            alignment=cell.alignment,
            metadata={
                "stereotype": facts.stereotype,
                "source": facts.source,
                "countries": list(facts.countries),
                "filler": cell.filler,
                "order_of_mention": cell.order,
                **cast.metadata,
            },
        )


def _option_orders(cells: Iterable[_Cell]) -> dict[str, tuple[Role, ...]]:
    """The order of the options, by cell id: shuffled, all six orders equally often in each kind of question.

    A kind is condition × polarity × alignment; it has two cells a filler, so with three fillers each order comes once.
    """
    kinds: dict[tuple[object, ...], list[str]] = {}
    for cell in cells:
        kinds.setdefault((cell.template, cell.condition, cell.polarity, cell.alignment), []).append(cell.cell_id)
    orders: dict[str, tuple[Role, ...]] = {}
    for kind, ids in kinds.items():
        shuffled = sorted(ids, key=lambda cell_id: stable_number("option order", cell_id))
        for place, cell_id in enumerate(shuffled, stable_number("option order", *kind)):
            orders[cell_id] = _OPTION_ORDERS[place % len(_OPTION_ORDERS)]
    return orders


def _write(text: str, roles: Mapping[str, Role], cast: _Cast, capitals: Mapping[str, str]) -> str:
    """The text with its slots filled, and a capital where a slot begins a sentence."""

    def written(slot: re.Match[str]) -> str:
        role = roles[slot["person"]]
        word = cast.forms[role][slot["form"]] if slot["form"] else slot[cast.genders[role]]
        return _capitalise(word, capitals) if _SENTENCE_START.search(text[: slot.start()]) else word

    return _SLOT.sub(written, text)


def _capitalise(text: str, capitals: Mapping[str, str]) -> str:
    """The text with a capital at its start: `capitals` first, its longest key first, then Unicode's default."""
    for letters in sorted(capitals, key=len, reverse=True):
        if text.startswith(letters):
            return capitals[letters] + text[len(letters) :]
    return text[:1].upper() + text[1:]


def find_form(folder: Path) -> tuple[str, Path]:
    """The form of a folder's templates, and the folder that holds them: this one, else its folder `templates`."""
    if not folder.is_dir():
        raise UsageError(f"no folder {folder}; name a folder of templates")
    inner = folder / "templates"
    for place, (form, files_of_form) in itertools.product((folder, inner), _FILES_OF_FORM.items()):
        if any(place.glob(files_of_form)):
            return form, place
    known = ", ".join(f"{names} ({form})" for form, names in _FILES_OF_FORM.items())
    raise UsageError(f"{folder}: no templates in it or in {inner}; looked for {known}")


def load_template_folder(
    folder: Path,
    *,
    languages: Sequence[str] | None = None,
    splits: Sequence[Split] = ("bias",),
    resources: PackPaths | None = None,
) -> Iterator[Instance]:
    """The instances of a folder of templates, one by one: language by language, and in each split by split.

    Args:
        splits: which splits. Only the form `starter` has a control split.
        resources: where control sets are found; None for those that ship.

    Raises:
        UsageError: at once, for a folder without templates, or a split or language that they do not have.
        DataError, PackError: at the first fault in them; file, row and column, or file and key.
    """
    form, folder = find_form(folder)
    if form != "starter" and "control" in splits:
        raise UsageError(f"templates of the form {form} have no control split; leave out --splits control")
    templates = load_templates(folder) if form == "starter" else None
    known = esbbq_languages(folder) if templates is None else list(templates.texts)
    parts = []
    for language in dict.fromkeys(languages or known):
        if language not in known:
            raise UnknownNameError("language", language, known, f"({folder})")
        if templates is None:
            parts.append(load_esbbq_templates(folder, language))
        else:
            control_set = read_control_set(resources or PackPaths(), language) if "control" in splits else None
            parts.append(instantiate(templates, language, splits, control_set))
    return itertools.chain.from_iterable(parts)
