"""Instance × prompt variant × option order × label style → exactly what is sent.

    Read the text and answer the question.          variant 'polite', English
    Text: {context}
    Question: {question}
    A: {option_a}                                   label style 'A', order (2, 0, 1):
    B: {option_b}                                   the instance's third option stands first
    C: {option_c}

Which option stands where is decided here and nowhere else, from the seed alone, so that the same seed gives the same
bytes on every machine. Published orders are used only where the user asks for them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from mbbq_gen.errors import UnknownNameError, UsageError
from mbbq_gen.languages import OPEN_VARIANT, PromptVariant, fill, placeholders
from mbbq_gen.records import Answer, Instance, Message, Method, Presentation
from mbbq_gen.sampling import Outline
from mbbq_gen.seeding import stable_digest, stable_number

OrderPolicy = Literal["published", "shuffled", "balanced", "cyclic", "all"]
ORDER_POLICIES: tuple[OrderPolicy, ...] = ("published", "shuffled", "balanced", "cyclic", "all")

Order = tuple[int, int, int]
PUBLISHED: Order = (0, 1, 2)
LATIN_SQUARES: tuple[tuple[Order, Order, Order], ...] = (
    ((0, 1, 2), (1, 2, 0), (2, 0, 1)),
    ((0, 2, 1), (1, 0, 2), (2, 1, 0)),
)
"""The six orders of (target, non-target, unknown) as two Latin squares: in each, every role has every place once."""
ALL_ORDERS: tuple[Order, ...] = LATIN_SQUARES[0] + LATIN_SQUARES[1]

LABEL_STYLES: dict[str, tuple[str, str, str]] = {
    "A": ("A", "B", "C"),
    "a": ("a", "b", "c"),
    "(A)": ("(A)", "(B)", "(C)"),
    "1": ("1", "2", "3"),
}
"""Label style → the labels as shown."""

JSON_FORM = '{"answer": "…"}'
"""How a wording shows what an answer in JSON looks like: without a hint to any answer."""


NATIVE: Final = "native"
"""The label style whose labels are the language's own letters (`mbbq_gen.axis_texts.native_labels`)."""
UNLABELLED: Final = "none"
"""The label style of options that are shown without labels, or not at all: each is called by its text."""
_OPTION_LINE: Final = re.compile(r"^\{label_([abc])\}[^{\n]*(?=\{option_\1\})", re.MULTILINE)
"""What stands before an option in a wording that lists them, a line each."""


def labels_of(style: str) -> tuple[str, str, str]:
    """The labels of a style.

    Raises:
        UnknownNameError: where there is no such style.
    """
    if style not in LABEL_STYLES:
        raise UnknownNameError("label style", style, LABEL_STYLES)
    return LABEL_STYLES[style]


@dataclass(frozen=True)
class OrderPlan:
    """Which orders each question is shown in."""

    policy: OrderPolicy
    seed: int
    ranks: dict[str, int]
    """Instance key → its rank among the questions that are balanced together; empty unless the policy is `balanced`."""

    def orders(self, instance: Instance, variant_number: int) -> list[tuple[int, ...]]:
        """The orders in which a wording shows an instance; `variant_number` counts the run's wordings from 0.

        Each is a tuple of indices into `instance.options`, by place.
        """
        if self.policy == "published":
            return [PUBLISHED]
        options = options_by_role(instance)
        return [tuple(options[role] for role in order) for order in self._role_orders(instance, variant_number)]

    def _role_orders(self, instance: Instance, variant_number: int) -> tuple[Order, ...]:
        twin = instance.parallel_id or instance.instance_id
        if self.policy == "cyclic":
            return LATIN_SQUARES[stable_number(self.seed, twin, variant_number) % 2]
        if self.policy == "all":
            return ALL_ORDERS
        if self.policy == "shuffled":
            return (ALL_ORDERS[stable_number(self.seed, twin, variant_number) % 6],)
        rank = self.ranks[instance.key]
        square = LATIN_SQUARES[(rank // 3 + variant_number) % 2]
        return (square[(rank + variant_number) % 3],)


def orders_of(policy: str) -> int:
    """In how many orders each question is shown in one wording."""
    return {"cyclic": len(LATIN_SQUARES[0]), "all": len(ALL_ORDERS)}.get(policy, 1)


def options_by_role(instance: Instance) -> list[int]:
    """Indices of target, non-target and unknown option; persons without a role come in published order."""
    ranks = {"target": 0, "non_target": 1, None: 1, "unknown": 2}
    return sorted(range(len(instance.options)), key=lambda index: ranks[instance.options[index].role])


def plan_orders(policy: OrderPolicy, outlines: Iterable[Outline], seed: int) -> OrderPlan:
    """Decides the option orders of a run.

    `balanced`: within benchmark × split × language × category × condition × polarity the questions are ranked, first
    by alignment, then by chance; successive ranks walk through the Latin squares. So each role stands at each label
    equally often (to within one) in every such cell, and nearly so within each alignment; another wording of the same
    question starts one step further on, in the other square. Chance is a digest of seed and parallel id, so languages
    and splits that ask the same questions show them in the same order.
    """
    if policy != "balanced":
        return OrderPlan(policy, seed, {})
    cells: dict[tuple[str, ...], list[tuple[str, int, str]]] = defaultdict(list)
    for outline in outlines:
        member = (outline.alignment or "", stable_number(seed, outline.twin), outline.key)
        cells[_cell(outline)].append(member)
    ranks: dict[str, int] = {}
    for (benchmark, _, _, *shared), members in cells.items():
        start = stable_number(seed, benchmark, *shared) % 2 * 3
        ranks.update({key: start + rank for rank, (_, _, key) in enumerate(sorted(members))})
    return OrderPlan(policy, seed, ranks)


def _cell(outline: Outline) -> tuple[str, ...]:
    """Questions of one cell are balanced together."""
    place = (outline.benchmark, outline.split, outline.language, outline.category)
    return (*place, outline.condition, outline.polarity)


@dataclass(frozen=True)
class Setting:
    """How a question is put, apart from the order of its options."""

    variant: PromptVariant
    label_style: str = "A"
    system: str | None = None
    """Text of a system message; None sends none."""
    instruction_language: str | None = None
    """The wording's language where it is not the question's."""
    question_only: bool = False
    """Leaves the context out (BBQ App. F)."""
    native_labels: tuple[str, str, str] | None = None
    """The labels of the style `native`."""
    unknown_text: str | None = None
    """Takes the place of the unknown option's text, where the wording brings its own; None: as in the question."""

    def labels(self, texts: Sequence[str]) -> tuple[str, ...]:
        """The labels as shown of options with these texts; raises UnknownNameError for a style that there is not."""
        if self.label_style == UNLABELLED:
            return tuple(texts)
        return self.native_labels or labels_of(self.label_style)


def listed(variant: PromptVariant, style: str) -> PromptVariant:
    """A wording as it lists its options in a label style.

    Raises:
        UsageError: where the style has no labels and the wording asks for one.
    """
    return unlabelled(variant) if style == UNLABELLED and variant.id != OPEN_VARIANT else variant


def unlabelled(variant: PromptVariant) -> PromptVariant:
    """A wording whose options are listed by dashes, without labels; solved examples answer with the option's text.

    Raises:
        UsageError: where it asks for a label, or does not list the options a line each.
    """
    text = _OPTION_LINE.sub("- ", variant.text)
    asked = {*placeholders(text), *placeholders(variant.system or "")}
    if any(name.startswith("label_") for name in asked):
        raise UsageError(
            f"--label-style {UNLABELLED}: the wording {variant.id} asks for a label; choose wordings that don't, such"
            " as polite, bare or --axes format=free"
        )
    return variant.model_copy(update={"text": text, "example_answer": "{option}"})


@dataclass(frozen=True)
class Example:
    """A question with its right answer, shown before the one that is asked."""

    instance: Instance
    order: tuple[int, ...]


def present(
    instance: Instance, setting: Setting, order: Sequence[int], examples: Sequence[Example] = ()
) -> Presentation:
    """Exactly what is sent for an instance in one wording, option order and label style.

    `order[place]` is the index in `instance.options` of the option shown at that place. Each example is a turn of the
    user, in the same wording, and a turn of the assistant with the right answer.
    """
    messages = _system(setting)
    for example in examples:
        messages.append(Message(role="user", content=_ask(example.instance, setting, example.order)))
        messages.append(Message(role="assistant", content=_answer(example, setting)))
    messages.append(Message(role="user", content=_ask(instance, setting, order)))
    digest = stable_digest(
        instance.key,
        setting.variant.id,
        setting.label_style,
        ",".join(map(str, order)),
        *(f"{message.role}:{message.content}" for message in messages),
    )
    return Presentation(
        presentation_id=digest[:20],
        instance_key=instance.key,
        language=instance.language,
        variant=setting.variant.id,
        label_style=setting.label_style,
        order=tuple(order),
        labels=setting.labels(shown_options(instance, order, setting.unknown_text)),
        messages=tuple(messages),
        instruction_language=setting.instruction_language,
        question_only=setting.question_only,
        shots=tuple(example.instance.key for example in examples),
        unknown_text=setting.unknown_text,
    )


def score_instead(
    presentation: Presentation, method: Method, answers: Sequence[Answer], prior: Sequence[Message] = ()
) -> Presentation:
    """The same question, asked for the likelihood of answers instead of for words."""
    digest = stable_digest(
        presentation.presentation_id,
        method,
        *(f"{answer.option}:{answer.text}" for answer in answers),
        *(f"{message.role}:{message.content}" for message in prior),
    )
    changes = {"presentation_id": digest[:20], "method": method, "answers": tuple(answers), "prior": tuple(prior)}
    return presentation.model_copy(update=changes)


def at_reasoning(presentation: Presentation, level: str) -> Presentation:
    """The same question, asked of a model that is to think so much first."""
    digest = stable_digest(presentation.presentation_id, "reasoning", level)
    return presentation.model_copy(update={"presentation_id": digest[:20], "reasoning": level})


def answer_texts(
    instance: Instance, unknown_texts: Iterable[str] = (), shown_unknown: str | None = None
) -> list[Answer]:
    """Every text that stands for an option of a question: its own, and for the unknown one all other wordings.

    `shown_unknown` takes the place of the unknown option's text, as in `Presentation.unknown_text`. A wording that is
    a person's text as well is left out: it would stand for two options.
    """
    people = {option.text.casefold() for option in instance.options if option.role != "unknown"}
    answers = []
    for index, option in enumerate(instance.options):
        if option.role != "unknown":
            answers.append(Answer(option=index, text=option.text))
            continue
        own = shown_unknown or option.text
        others = (text for text in unknown_texts if text.casefold() not in people)
        answers += [Answer(option=index, text=text) for text in dict.fromkeys((own, *others))]
    return answers


def label_answers(presentation: Presentation) -> list[Answer]:
    """Each option's label as shown, without and with a space before it: whichever the tokenizer has is likelier."""
    return [
        Answer(option=presentation.order[place], text=text)
        for place, label in enumerate(presentation.labels)
        for text in (label, f" {label}")
    ]


def _system(setting: Setting) -> list[Message]:
    """The system message, where there is one: the run's, and the instruction of a wording that stands there."""
    said = [text for text in (setting.system, _instruction(setting)) if text is not None]
    return [Message(role="system", content="\n\n".join(said))] if said else []


def _instruction(setting: Setting) -> str | None:
    """What a wording says in the system's turn."""
    return None if setting.variant.system is None else fill(setting.variant.system, _forms(setting, ("", "", "")))


def _forms(setting: Setting, texts: Sequence[str]) -> dict[str, str]:
    """What the labels of options with these texts look like, and an answer in JSON."""
    labels = zip("abc", setting.labels(texts), strict=True)
    return {"json": JSON_FORM, **{f"label_{letter}": label for letter, label in labels}}


def _ask(instance: Instance, setting: Setting, order: Sequence[int]) -> str:
    """The user's message for a question."""
    texts = shown_options(instance, order, setting.unknown_text)
    values = {"context": instance.context, "question": instance.question, **_forms(setting, texts)}
    values |= {f"option_{letter}": option for letter, option in zip("abc", texts, strict=True)}
    text = without_context(setting.variant.text) if setting.question_only else setting.variant.text
    return fill(text, values).strip()


def _answer(example: Example, setting: Setting) -> str:
    """The assistant's message of an example."""
    right = example.instance.answer_index
    assert right is not None  # an Instance always has one
    place = example.order.index(right)
    texts = shown_options(example.instance, example.order, setting.unknown_text)
    return fill(setting.variant.shot_answer, {"label": setting.labels(texts)[place], "option": texts[place]})


def without_context(text: str) -> str:
    """A wording without the lines that hold `{context}`, and without the blank line that they leave."""
    kept = [line for line in text.splitlines() if "{context}" not in line]
    lines = [line for place, line in enumerate(kept) if line.strip() or (place and kept[place - 1].strip())]
    return "\n".join(lines)


def shown_options(instance: Instance, order: Sequence[int], unknown_text: str | None = None) -> list[str]:
    """The options' texts as they stand on show, by place; `unknown_text` is the unknown option's, if it has another."""
    texts = [instance.options[index].text for index in order]
    if unknown_text is not None:
        texts[shown_unknown(instance, order)] = unknown_text
    return texts


def shown_unknown(instance: Instance, order: Sequence[int]) -> int:
    """The place at which the unknown option stands."""
    return list(order).index(instance.unknown_index)
