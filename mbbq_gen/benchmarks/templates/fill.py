"""Fills templates with every pair of people, in every order: instances of the bias split, and of the control split."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple

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


class TemplateCell(NamedTuple):
    """One of the twelve questions of a template × filler."""

    template: str
    filler: str
    order: Literal["target_first", "non_target_first"]
    condition: Condition
    polarity: Polarity
    alignment: Alignment | None

    @property
    def cell_id(self) -> str:
        """Such as `age_01.grandfather.target_first.disambiguated.negative.biased`."""
        return ".".join(part for part in self if part is not None)

    @property
    def roles(self) -> dict[str, Role]:
        """Who X and Y are, by the order of mention, and who A and B: A is the target in a biased context."""
        mentioned = _PEOPLE if self.order == "target_first" else _PEOPLE[::-1]
        answering = _PEOPLE if self.alignment == "biased" else _PEOPLE[::-1]
        return dict(zip("XYAB", (*mentioned, *answering), strict=True))


def instantiate(
    template_set: TemplateSet, language: str, splits: Iterable[Split], control_set: ControlSet | None = None
) -> Iterator[Instance]:
    """The instances of a language, one by one: split by split, in the order of the templates; the same everywhere.

    `instance_id` and `parallel_id` are alike and say which question it is; twins of other languages and of the other
    split share them, with the same order of options and the same unknown text. Options are shuffled so that each
    role stands at each place equally often. In the control split, an option's group tells whose place the name takes.
    """
    wanted = tuple(splits)
    if language not in template_set.texts:
        where = f"(benchmark {template_set.benchmark.name})"
        raise UnknownNameError("language", language, template_set.languages, where)
    if "control" in wanted and control_set is None:
        raise UsageError(f"the control split needs a control set; write control_sets/{language}.toml")
    texts = template_set.texts[language]
    casts = {split: _casts(template_set, texts, control_set if split == "control" else None) for split in wanted}
    return itertools.chain.from_iterable(
        _generate(template_set, language, split, facts, casts[split])
        for split, facts in itertools.product(wanted, template_set.templates)
    )


def _casts(
    template_set: TemplateSet, texts: LanguageTexts, control_set: ControlSet | None
) -> dict[tuple[str, str], TemplateCast]:
    """The people by template and filler: the filler's own or, with a control set, two names."""
    stories = {f"{facts.id}.{filler}": facts.category for facts in template_set.templates for filler in facts.fillers}
    pairs = assign_names(control_set, stories) if control_set is not None else {}
    casts = {}
    for text, filler in ((each, filler) for each in texts.template for filler in each.filler):
        pair = pairs.get(f"{text.id}.{filler.id}")
        if pair is None or control_set is None:
            people: dict[Role, Person] = {"target": filler.target, "non_target": filler.non_target}
            own = {role: texts.forms_of(person) for role, person in people.items()}
            cast = TemplateCast({role: person.gender for role, person in people.items()}, own)
        else:
            wanted = text.needed_forms | ({"option"} & control_set.grammar.forms.keys())
            names: dict[Role, str] = {"target": pair.target, "non_target": pair.non_target}
            written = {
                role: {form: write_name(control_set, one, form) for form in wanted} for role, one in names.items()
            }
            cast = TemplateCast(dict.fromkeys(_PEOPLE, pair.gender), written, pair)
        casts[text.id, filler.id] = cast
    return casts


def _generate(
    template_set: TemplateSet,
    language: str,
    split: Split,
    facts: TemplateFacts,
    casts: Mapping[tuple[str, str], TemplateCast],
) -> Iterator[Instance]:
    texts = template_set.texts[language]
    text = next(text for text in texts.template if text.id == facts.id)
    orders: tuple[Literal["target_first", "non_target_first"], ...] = ("target_first", "non_target_first")
    parts = itertools.product(facts.fillers, orders, _CONTEXTS, _POLARITIES)
    cells = [
        TemplateCell(facts.id, filler, order, condition, polarity, alignment)
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
        unknown = texts.unknown[stable_number("unknown wording", cell_id) % len(texts.unknown)]
        options: dict[Role, Option] = {"unknown": Option(role="unknown", text=unknown, group="unknown")}
        for role, group in zip(_PEOPLE, (facts.target_group, facts.non_target_group), strict=True):
            written = _capitalise(option_text(cast.forms[role]), texts.capitals)
            options[role] = Option(role=role, text=written, group=group)
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
            metadata=metadata,
        )


def _option_orders(cells: Iterable[TemplateCell]) -> dict[str, tuple[Role, ...]]:
    """The order of the options, by cell id: shuffled, all six orders equally often in each kind of question.

    A kind is condition × polarity × alignment; it has two cells a filler, so with three fillers each order comes once.
    """
    kinds: dict[tuple[object, ...], list[TemplateCell]] = {}
    for cell in cells:
        kinds.setdefault((cell.template, cell.condition, cell.polarity, cell.alignment), []).append(cell)
    orders: dict[str, tuple[Role, ...]] = {}
    for kind, some in kinds.items():
        shuffled = sorted(some, key=lambda cell: stable_number("option order", cell.cell_id))
        for place, cell in enumerate(shuffled, stable_number("option order", *kind)):
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
    """The instances of the starter benchmark in a language, split by split."""
    wanted = tuple(splits)
    control_set = read_control_set(resources, language) if "control" in wanted else None
    return instantiate(starter_templates(language), language, wanted, control_set)


_SIGNS: Final = {"starter": INDEX_FILE, "esbbq": "*.xlsx"}
"""What a folder of each form of templates holds."""


def find_form(folder: Path) -> tuple[str, Path]:
    """The form of a folder's templates, and the folder that holds them: this one, else its folder `templates`."""
    if not folder.is_dir():
        raise UsageError(f"no folder {folder}; name a folder of templates")
    for place in (folder, folder / "templates"):
        forms = [form for form, sign in _SIGNS.items() if any(place.glob(sign))]
        if len(forms) > 1:
            raise UsageError(f"{place}: templates of the forms {' and '.join(forms)} are in it; keep those of one form")
        if forms:
            return forms[0], place
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
        splits: which splits. Only the form `starter` has a control split.
        resources: where control sets are found; None for those that ship.

    Raises:
        UsageError: at once, for a folder without templates, or a split or language that they do not have.
        DataError, PackError: at the first thing that is wrong in them; file, row and column, or file and key.
    """
    form, folder = find_form(folder)
    if form != "starter" and "control" in splits:
        raise UsageError(f"templates of the form {form} have no control split; leave out --splits control")
    templates = load_templates(folder) if form == "starter" else None
    known = esbbq_languages(folder) if templates is None else templates.languages
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
