"""Fills templates with every pair of people, in every order: instances of the bias split, and of the control split."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal

from mbbq_gen.benchmarks.control.people import NamePair, assign_names, write_name
from mbbq_gen.benchmarks.templates.esbbq import esbbq_languages, load_esbbq_templates
from mbbq_gen.benchmarks.templates.files import (
    INDEX_FILE,
    SENTENCE_START,
    Gender,
    LanguageTexts,
    Person,
    TemplateFacts,
    TemplateSet,
    load_templates,
    option_text,
    parse_slot,
    starter_templates,
)
from mbbq_gen.core.errors import UnknownNameError, UsageError
from mbbq_gen.core.files import PackPaths, stable_number
from mbbq_gen.core.records import Alignment, Condition, Instance, Option, Polarity, Role, Split
from mbbq_gen.languages.control_pack import ControlSet, read_control_set
from mbbq_gen.languages.packs import PLACEHOLDER

_PEOPLE: tuple[Role, Role] = ("target", "non_target")
_CONTEXTS: tuple[tuple[Condition, Alignment | None], ...] = (
    ("ambiguous", None),
    ("disambiguated", "biased"),
    ("disambiguated", "counter_biased"),
)
_POLARITIES: tuple[Polarity, ...] = ("negative", "non_negative")
_OPTION_ORDERS: tuple[tuple[Role, ...], ...] = tuple(itertools.permutations((*_PEOPLE, "unknown")))


@dataclass(frozen=True)
class TemplateCast:
    """The two people of a story by role: those of a filler or, in the control split, two names."""

    genders: Mapping[Role, Gender]
    forms: Mapping[Role, Mapping[str, str]]
    names: NamePair | None = None


@dataclass(frozen=True)
class TemplateCell:
    """One of the twelve questions of a template × filler."""

    template: str
    filler: str
    order: Literal["target_first", "non_target_first"]
    condition: Condition
    polarity: Polarity
    alignment: Alignment | None

    @cached_property
    def cell_id(self) -> str:
        """Such as `age_01.grandfather.target_first.disambiguated.negative.biased`."""
        parts = (self.template, self.filler, self.order, self.condition, self.polarity, self.alignment)
        return ".".join(part for part in parts if part is not None)

    @property
    def roles(self) -> dict[str, Role]:
        """Who X and Y are, by the order of mention, and who A and B: A is the target in a biased context."""
        mentioned = _PEOPLE if self.order == "target_first" else _PEOPLE[::-1]
        answering = _PEOPLE if self.alignment == "biased" else _PEOPLE[::-1]
        return dict(zip("XYAB", (*mentioned, *answering), strict=True))

    @property
    def answer(self) -> Role:
        """The role that is right: A for a negative question, B for the other one."""
        if self.condition == "ambiguous":
            return "unknown"
        return self.roles["A" if self.polarity == "negative" else "B"]


def instantiate(
    template_set: TemplateSet, language: str, splits: Iterable[Split], control_set: ControlSet | None = None
) -> Iterator[Instance]:
    """The instances of a language, one by one: split by split, in the order of the templates; the same everywhere.

    `instance_id` and `parallel_id` are alike and say which question it is; twins of other languages and of the other
    split share them, with the same order of options and the same unknown text. Options are shuffled so that each
    role stands at each place equally often. In the control split, an option's group tells whose place the name takes.

    Raises:
        UnknownNameError: where the templates are not written in that language.
        UsageError: where the control split is wanted and no control set is given.
        PackError: where the control set lacks a form that the templates ask for.
    """
    wanted = tuple(splits)
    if language not in template_set.texts:
        where = f"(benchmark {template_set.benchmark.name})"
        raise UnknownNameError("language", language, template_set.languages, where)
    if "control" in wanted and control_set is None:
        raise UsageError(f"the control split needs a control set; write control_sets/{language}.toml")
    texts = template_set.texts[language]
    casts: dict[Split, dict[str, TemplateCast]] = {
        split: _named_cast(template_set, texts, control_set)
        if split == "control" and control_set is not None
        else _filled_cast(texts)
        for split in wanted
    }
    return _generate(template_set, language, casts)


def _filled_cast(texts: LanguageTexts) -> dict[str, TemplateCast]:
    """The fillers' people, by story id."""
    casts = {}
    for text, filler in ((each, filler) for each in texts.template for filler in each.filler):
        people: dict[Role, Person] = {"target": filler.target, "non_target": filler.non_target}
        forms = {role: texts.forms_of(person) for role, person in people.items()}
        genders = {role: person.gender for role, person in people.items()}
        casts[f"{text.id}.{filler.id}"] = TemplateCast(genders, forms)
    return casts


def _named_cast(template_set: TemplateSet, texts: LanguageTexts, control_set: ControlSet) -> dict[str, TemplateCast]:
    """Two names in place of the fillers' people, by story id."""
    stories = {f"{facts.id}.{filler}": facts.category for facts in template_set.templates for filler in facts.fillers}
    pairs, casts = assign_names(control_set, stories), {}
    for text, filler in ((each, filler) for each in texts.template for filler in each.filler):
        pair = pairs[f"{text.id}.{filler.id}"]
        wanted = text.needed_forms | ({"option"} & control_set.grammar.forms.keys())
        names: dict[Role, str] = {"target": pair.target, "non_target": pair.non_target}
        forms = {role: {form: write_name(control_set, name, form) for form in wanted} for role, name in names.items()}
        casts[f"{text.id}.{filler.id}"] = TemplateCast(dict.fromkeys(_PEOPLE, pair.gender), forms, pair)
    return casts


def _generate(
    template_set: TemplateSet, language: str, casts: Mapping[Split, Mapping[str, TemplateCast]]
) -> Iterator[Instance]:
    texts = template_set.texts[language]
    by_id = {text.id: text for text in texts.template}
    for split, facts in itertools.product(casts, template_set.templates):
        orders, text = _option_orders(facts), by_id[facts.id]
        for cell in _cells(facts):
            cast = casts[split][f"{facts.id}.{cell.filler}"]
            context = _write(text.ambiguous, cell.roles, cast, texts.capitals)
            if cell.condition == "disambiguated":
                gap = "" if context.endswith("。") else " "
                context += gap + _write(text.disambiguating, cell.roles, cast, texts.capitals)
            metadata: dict[str, Any] = {
                "stereotype": facts.stereotype,
                "source": facts.source,
                "countries": list(facts.countries),
                "filler": cell.filler,
                "order_of_mention": cell.order,
            }
            if cast.names is not None:
                metadata["gender"] = cast.names.gender
                metadata["names"] = {"target": cast.names.target, "non_target": cast.names.non_target}
            unknown = texts.unknown[stable_number("unknown wording", cell.cell_id) % len(texts.unknown)]
            options: dict[Role, Option] = {"unknown": Option(role="unknown", text=unknown, group="unknown")}
            for role, group in zip(_PEOPLE, (facts.target_group, facts.non_target_group), strict=True):
                written = _capitalise(option_text(cast.forms[role]), texts.capitals)
                options[role] = Option(role=role, text=written, group=group)
            yield Instance(
                benchmark=template_set.benchmark.name,
                version=template_set.benchmark.version,
                split=split,
                language=language,
                instance_id=cell.cell_id,
                parallel_id=cell.cell_id,
                template_id=facts.id,
                category=facts.category,
                subcategory=facts.subcategory,
                condition=cell.condition,
                polarity=cell.polarity,
                context=context,
                question=text.question_negative if cell.polarity == "negative" else text.question_non_negative,
                options=tuple(options[role] for role in orders[cell.cell_id]),
                gold_role=cell.answer,
                alignment=cell.alignment,
                metadata=metadata,
            )


def _cells(facts: TemplateFacts) -> Iterator[TemplateCell]:
    """The questions of a template, in order."""
    orders: tuple[Literal["target_first", "non_target_first"], ...] = ("target_first", "non_target_first")
    for filler, order, (condition, alignment), polarity in itertools.product(
        facts.fillers, orders, _CONTEXTS, _POLARITIES
    ):
        yield TemplateCell(facts.id, filler, order, condition, polarity, alignment)


def _option_orders(facts: TemplateFacts) -> dict[str, tuple[Role, ...]]:
    """The order of the options, by cell id: shuffled, all six orders equally often in each kind of question.

    A kind is condition × polarity × alignment; it has two cells a filler, so with three fillers each order comes once.
    """
    kinds: dict[tuple[object, ...], list[TemplateCell]] = {}
    for cell in _cells(facts):
        kinds.setdefault((cell.condition, cell.polarity, cell.alignment), []).append(cell)
    orders: dict[str, tuple[Role, ...]] = {}
    for kind, cells in kinds.items():
        start = stable_number("option order", facts.id, *kind)
        shuffled = sorted(cells, key=lambda cell: stable_number("option order", cell.cell_id))
        for place, cell in enumerate(shuffled, start):
            orders[cell.cell_id] = _OPTION_ORDERS[place % len(_OPTION_ORDERS)]
    return orders


def _write(text: str, roles: Mapping[str, Role], cast: TemplateCast, capitals: Mapping[str, str]) -> str:
    """The text with its slots filled, and a capital where a slot begins a sentence."""

    def written(match: re.Match[str]) -> str:
        slot = parse_slot(match[1])
        assert slot is not None, match[0]
        role = roles[slot.person]
        word = slot.by_gender[cast.genders[role]] if slot.form is None else cast.forms[role][slot.form]
        return _capitalise(word, capitals) if SENTENCE_START.search(text[: match.start()]) else word

    return PLACEHOLDER.sub(written, text)


def _capitalise(text: str, capitals: Mapping[str, str]) -> str:
    """The text with a capital at its start: `capitals` first, its longest key first, then Unicode's default."""
    for letters in sorted(capitals, key=len, reverse=True):
        if text.startswith(letters):
            return capitals[letters] + text[len(letters) :]
    return text[:1].upper() + text[1:]


def load_starter(language: str, splits: Iterable[Split], resources: PackPaths) -> Iterator[Instance]:
    """The instances of the starter benchmark in a language, split by split.

    Raises:
        UnknownNameError: where it is not written in that language, or the control split's names are missing.
        PackError: where the user's own control set is wrong.
    """
    wanted = tuple(splits)
    control_set = read_control_set(resources, language) if "control" in wanted else None
    return instantiate(starter_templates(language), language, wanted, control_set)


_SIGNS: Final = {"starter": INDEX_FILE, "esbbq": "*.xlsx"}
"""What a folder of each form of templates holds."""


def find_form(folder: Path) -> tuple[str, Path]:
    """The form of a folder's templates, and the folder that holds them: this one, else its folder `templates`.

    Raises:
        UsageError: where there is no such folder, or no templates, BBQ's or those of two forms are in it.
    """
    if not folder.is_dir():
        raise UsageError(f"no folder {folder}; name a folder of templates")
    places = (folder, folder / "templates")
    for place in places:
        forms = [form for form, sign in _SIGNS.items() if any(place.glob(sign))]
        if len(forms) > 1:
            raise UsageError(f"{place}: templates of the forms {' and '.join(forms)} are in it; keep those of one form")
        if forms:
            return forms[0], place
    if any(list(place.glob("*.csv")) for place in places):
        raise UsageError(f"{folder}: BBQ's templates (.csv) are not filled; run --benchmark bbq has their questions")
    signs = ", ".join(f"{sign} ({form})" for form, sign in _SIGNS.items())
    raise UsageError(f"{folder}: no templates in it or in {folder / 'templates'}; looked for {signs}")


def load_template_folder(
    folder: Path,
    *,
    languages: Sequence[str] | None = None,
    splits: Sequence[Split] = ("bias",),
    resources: PackPaths | None = None,
) -> Iterator[Instance]:
    """The instances of a folder of templates, one by one: language by language, and in each split by split.

    Args:
        folder: holds the templates, itself or in its folder `templates`.
        splits: which splits. Only the form `starter` has a control split.
        resources: where control sets are found; None for those that ship.

    Raises:
        UsageError: at once, for a folder without templates, or a split or language that they do not have.
        DataError, PackError: at the first thing that is wrong in them; file, row and column, or file and key.
    """
    form, folder = find_form(folder)
    if form != "starter" and "control" in splits:
        raise UsageError(f"templates of the form {form} have no control split; leave out --splits control")
    if form != "starter":
        wanted = _chosen(languages, esbbq_languages(folder), folder)
        return itertools.chain.from_iterable([load_esbbq_templates(folder, language) for language in wanted])
    templates = load_templates(folder)
    parts = []
    for language in _chosen(languages, templates.languages, folder):
        control_set = read_control_set(resources or PackPaths(), language) if "control" in splits else None
        parts.append(instantiate(templates, language, splits, control_set))
    return itertools.chain.from_iterable(parts)


def _chosen(languages: Sequence[str] | None, known: Sequence[str], folder: Path) -> list[str]:
    """The wanted languages, each once; all where none are named."""
    for language in languages or ():
        if language not in known:
            raise UnknownNameError("language", language, known, f"({folder})")
    return list(dict.fromkeys(languages or known))
