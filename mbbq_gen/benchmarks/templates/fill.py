"""Fills templates with every pair of people, in every order: instances of the bias split, and of the control split."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

from mbbq_gen.benchmarks.control.people import NamePair, TemplateFiller, assign_names, write_name
from mbbq_gen.benchmarks.templates.schema import (
    SENTENCE_START,
    Gender,
    LanguageTexts,
    Person,
    Slot,
    TemplateFacts,
    TemplateSet,
    TemplateText,
    option_text,
    parse_slot,
)
from mbbq_gen.core.errors import UnknownNameError, UsageError
from mbbq_gen.core.files import stable_number
from mbbq_gen.core.records import Alignment, Condition, Instance, Option, Polarity, Role, Split
from mbbq_gen.languages.control_pack import ControlSet
from mbbq_gen.languages.packs import PLACEHOLDER

OrderOfMention = Literal["target_first", "non_target_first"]

_ORDERS: tuple[OrderOfMention, ...] = ("target_first", "non_target_first")
_POLARITIES: tuple[Polarity, ...] = ("negative", "non_negative")
_CONTEXTS: tuple[tuple[Condition, Alignment | None], ...] = (
    ("ambiguous", None),
    ("disambiguated", "biased"),
    ("disambiguated", "counter_biased"),
)
_OPTION_ORDERS: tuple[tuple[Role, ...], ...] = tuple(itertools.permutations(("target", "non_target", "unknown")))


@dataclass(frozen=True)
class CastMember:
    """One of the two people of a story, ready to be written."""

    gender: Gender
    forms: Mapping[str, str]


@dataclass(frozen=True)
class TemplateCast:
    """Who plays a story: the two people of a filler, or two names."""

    target: CastMember
    non_target: CastMember
    names: NamePair | None = None
    """The names, in the control split."""

    def play(self, role: Role) -> CastMember:
        """The person in that role."""
        return self.target if role == "target" else self.non_target


@dataclass(frozen=True)
class TemplateCell:
    """One of the twelve questions of a template × filler."""

    template: str
    filler: str
    order: OrderOfMention
    condition: Condition
    polarity: Polarity
    alignment: Alignment | None

    @cached_property
    def cell_id(self) -> str:
        """Such as `age_01.grandfather.target_first.disambiguated.negative.biased`."""
        parts = (self.template, self.filler, self.order, self.condition, self.polarity, self.alignment)
        return ".".join(part for part in parts if part is not None)

    @property
    def mentioned(self) -> tuple[Role, Role]:
        """The roles of X and Y."""
        return ("target", "non_target") if self.order == "target_first" else ("non_target", "target")

    @property
    def answering(self) -> tuple[Role, Role]:
        """The roles of A and B: whoever fits the stereotype is A, and that is the target in a biased context."""
        return ("target", "non_target") if self.alignment == "biased" else ("non_target", "target")

    @property
    def answer(self) -> Role:
        """The role that is right."""
        if self.condition == "ambiguous":
            return "unknown"
        return self.answering[0] if self.polarity == "negative" else self.answering[1]


def instantiate(
    template_set: TemplateSet, language: str, splits: Iterable[Split], control_set: ControlSet | None = None
) -> Iterator[Instance]:
    """The instances of a language, one by one: split by split, in the order of the templates; the same everywhere.

    `instance_id` and `parallel_id` are alike and say which question it is; twins of other languages and of the other
    split share them, with the same order of options and the same unknown wording. Options are shuffled so that each
    role stands at each place equally often. In the control split, an option's group tells whose place the name takes.

    Raises:
        UnknownNameError: where the templates are not written in that language.
        UsageError: where the control split is wanted and no control set is given.
        PackError: where the control set lacks a form that the templates ask for.
    """
    wanted = tuple(splits)
    if language not in template_set.texts:
        raise UnknownNameError(
            "language", language, template_set.languages, f"(benchmark {template_set.benchmark.name})"
        )
    if "control" in wanted and control_set is None:
        raise UsageError(f"the control split needs a control set; write control_sets/{language}.toml")
    casts = {split: _casts(template_set, language, control_set if split == "control" else None) for split in wanted}
    return _generate(template_set, language, casts)


def _generate(
    template_set: TemplateSet, language: str, casts: Mapping[Split, Mapping[str, TemplateCast]]
) -> Iterator[Instance]:
    texts = template_set.texts[language]
    by_id = {text.id: text for text in texts.template}
    for split, cast_of in casts.items():
        for facts in template_set.templates:
            orders = _option_orders(facts)
            for cell in _cells(facts):
                cast = cast_of[_story_id(facts.id, cell.filler)]
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
                    context=_context(by_id[facts.id], cell, cast, texts.capitals),
                    question=_question(by_id[facts.id], cell),
                    options=_options(facts, cell, cast, texts, orders[cell.cell_id]),
                    gold_role=cell.answer,
                    alignment=cell.alignment,
                    metadata=metadata,
                )


def _casts(template_set: TemplateSet, language: str, control_set: ControlSet | None) -> dict[str, TemplateCast]:
    """Who plays each story, by story id: the fillers' people, or names where a control set is given."""
    texts = template_set.texts[language]
    names = assign_names(control_set, _stories(template_set)) if control_set is not None else {}
    casts: dict[str, TemplateCast] = {}
    for text in texts.template:
        for filler in text.filler:
            story_id = _story_id(text.id, filler.id)
            if control_set is None:
                casts[story_id] = TemplateCast(_figure(texts, filler.target), _figure(texts, filler.non_target))
            else:
                casts[story_id] = _name_cast(control_set, names[story_id], text)
    return casts


def _stories(template_set: TemplateSet) -> Iterator[TemplateFiller]:
    for facts in template_set.templates:
        for filler in facts.fillers:
            yield TemplateFiller(facts.category, _story_id(facts.id, filler))


def _figure(texts: LanguageTexts, person: Person) -> CastMember:
    return CastMember(person.gender, texts.forms_of(person))


def _name_cast(control_set: ControlSet, names: NamePair, text: TemplateText) -> TemplateCast:
    forms = text.needed_forms | ({"option"} & set(control_set.grammar.forms))
    target, non_target = (
        CastMember(names.gender, {form: write_name(control_set, name, form) for form in forms})
        for name in (names.target, names.non_target)
    )
    return TemplateCast(target, non_target, names)


def _story_id(template: str, filler: str) -> str:
    return f"{template}.{filler}"


def _cells(facts: TemplateFacts) -> Iterator[TemplateCell]:
    """The questions of a template, in order."""
    for filler, order, (condition, alignment), polarity in itertools.product(
        facts.fillers, _ORDERS, _CONTEXTS, _POLARITIES
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


def _context(text: TemplateText, cell: TemplateCell, cast: TemplateCast, capitals: Mapping[str, str]) -> str:
    first, second = cell.mentioned
    context = _write(text.ambiguous, {"X": cast.play(first), "Y": cast.play(second)}, capitals)
    if cell.condition == "ambiguous":
        return context
    fits, other = cell.answering
    gap = "" if context.endswith("。") else " "
    return context + gap + _write(text.disambiguating, {"A": cast.play(fits), "B": cast.play(other)}, capitals)


def _question(text: TemplateText, cell: TemplateCell) -> str:
    return text.question_negative if cell.polarity == "negative" else text.question_non_negative


def _write(text: str, people: Mapping[str, CastMember], capitals: Mapping[str, str]) -> str:
    """The text with its slots filled, and a capital where a slot begins a sentence."""

    written = []
    for piece in _pieces(text):
        if isinstance(piece, str):
            written.append(piece)
            continue
        slot, begins = piece
        figure = people[slot.person]
        word = slot.by_gender[figure.gender] if slot.form is None else figure.forms[slot.form]
        written.append(_capitalise(word, capitals) if begins else word)
    return "".join(written)


@lru_cache(maxsize=4096)
def _pieces(text: str) -> tuple[str | tuple[Slot, bool], ...]:
    """A template's text in pieces: plain text, and slots with whether they begin a sentence."""
    pieces: list[str | tuple[Slot, bool]] = []
    end = 0
    for match in PLACEHOLDER.finditer(text):
        slot = parse_slot(match[1])
        if slot is None:
            raise ValueError(f"not a slot: {match[0]}")
        pieces += [text[end : match.start()], (slot, bool(SENTENCE_START.search(text[: match.start()])))]
        end = match.end()
    return (*pieces, text[end:])


def _capitalise(text: str, capitals: Mapping[str, str]) -> str:
    """The text with a capital at its start: `capitals` first, its longest key first, then Unicode's default."""
    for letters in sorted(capitals, key=len, reverse=True):
        if text.startswith(letters):
            return capitals[letters] + text[len(letters) :]
    return text[:1].upper() + text[1:]


def _options(
    facts: TemplateFacts, cell: TemplateCell, cast: TemplateCast, texts: LanguageTexts, order: Iterable[Role]
) -> tuple[Option, ...]:
    unknown = texts.unknown[stable_number("unknown wording", cell.cell_id) % len(texts.unknown)]
    options: dict[Role, Option] = {
        "target": Option(
            role="target",
            text=_capitalise(option_text(cast.target.forms), texts.capitals),
            group=facts.target_group,
        ),
        "non_target": Option(
            role="non_target",
            text=_capitalise(option_text(cast.non_target.forms), texts.capitals),
            group=facts.non_target_group,
        ),
        "unknown": Option(role="unknown", text=unknown, group="unknown"),
    }
    return tuple(options[role] for role in order)
