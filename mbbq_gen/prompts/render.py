"""Instance × prompt variant × option order × label style → the prompt as sent.

Option orders are decided only here, from the seed alone, so that the same seed gives the same bytes on every machine.
Published orders are used only on request.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from mbbq_gen.core.errors import ConfigError
from mbbq_gen.core.files import stable_digest, stable_number
from mbbq_gen.core.option_display import (
    ALL_ORDERS,
    LATIN_SQUARES,
    OPEN_VARIANT,
    PUBLISHED,
    Order,
    OrderPolicy,
    SamplingUnit,
    labels_of,
    options_in_order,
)
from mbbq_gen.core.records import Continuation, Instance, Message, Method, Prompt, construct_valid
from mbbq_gen.languages.packs import fill, placeholders
from mbbq_gen.languages.prompt_pack import PromptVariant

JSON_FORM = '{"answer": "…"}'
"""JSON form shown by variants that ask for JSON."""
NATIVE: Final = "native"
"""The label style whose labels are the language's own letters (`mbbq_gen.languages.axes_pack.native_labels`)."""
UNLABELLED: Final = "none"
"""Label style of options without labels; their texts replace the labels."""
_OPTION_LINE: Final = re.compile(r"^\{label_([abc])\}[^{\n]*(?=\{option_\1\})", re.MULTILINE)
"""Start of an option's line in a variant."""


@dataclass(frozen=True)
class OptionOrderPlan:
    """The option orders of each question."""

    policy: OrderPolicy
    seed: int
    ranks: dict[str, int]
    """Instance key → rank among the questions that are balanced together; empty for other policies."""

    def orders(self, instance: Instance, variant_number: int) -> list[tuple[int, ...]]:
        """The option orders of an instance in the run's variant of that number, from 0.

        Each is a tuple of indices into `instance.options`, by position.
        """
        if self.policy == "published":
            return [PUBLISHED]
        orders: tuple[Order, ...] = ALL_ORDERS
        if self.policy == "balanced":
            rank = self.ranks[instance.key]
            orders = (LATIN_SQUARES[(rank // 3 + variant_number) % 2][(rank + variant_number) % 3],)
        elif self.policy != "all":
            chance = stable_number(self.seed, instance.parallel_id or instance.instance_id, variant_number)
            orders = LATIN_SQUARES[chance % 2] if self.policy == "cyclic" else (ALL_ORDERS[chance % 6],)
        options = options_by_role(instance)
        return [tuple(options[role] for role in order) for order in orders]


def orders_of(policy: str) -> int:
    """Number of option orders of each question in one variant."""
    return {"cyclic": len(LATIN_SQUARES[0]), "all": len(ALL_ORDERS)}.get(policy, 1)


def options_by_role(instance: Instance) -> list[int]:
    """Indices of target, non-target and unknown option; people without roles are in published order."""
    ranks = {"target": 0, "non_target": 1, None: 1, "unknown": 2}
    return sorted(range(len(instance.options)), key=lambda index: ranks[instance.options[index].role])


def plan_orders(policy: OrderPolicy, units: Iterable[SamplingUnit], seed: int) -> OptionOrderPlan:
    """Decides the option orders of a run.

    `balanced`: within benchmark × split × language × category × condition × polarity the questions are ranked, first
    by alignment, then at random; successive ranks step through the Latin squares. So each role has each label equally
    often (to within one) in every such cell, and nearly so within each alignment; the next variant of the same question
    starts one step later, in the other square. Random numbers are digests of seed and parallel id, so parallel
    questions have the same order in all languages and splits.
    """
    if policy != "balanced":
        return OptionOrderPlan(policy, seed, {})
    cells: dict[tuple[str, ...], list[tuple[str, int, str]]] = defaultdict(list)
    for unit in units:
        member = (unit.alignment or "", stable_number(seed, unit.twin), unit.key)
        group = (unit.benchmark, unit.split, unit.language, unit.category)
        cells[(*group, unit.condition, unit.polarity)].append(member)
    ranks: dict[str, int] = {}
    for (benchmark, _, _, *shared), members in cells.items():
        start = stable_number(seed, benchmark, *shared) % 2 * 3
        ranks.update({key: start + rank for rank, (_, _, key) in enumerate(sorted(members))})
    return OptionOrderPlan(policy, seed, ranks)


@dataclass(frozen=True)
class PromptSettings:
    """The settings of a prompt apart from the option order."""

    variant: PromptVariant
    label_style: str = "A"
    system: str | None = None
    """Text of a system message; None sends none."""
    instruction_language: str | None = None
    """Language of the variant, if it differs from the question's."""
    no_context: bool = False
    """Leaves the context out (BBQ App. F)."""
    native_labels: tuple[str, str, str] | None = None
    """The labels of the style `native`."""
    unknown_text: str | None = None
    """Replaces the text of the unknown option; None keeps the question's."""

    def labels(self, texts: Sequence[str]) -> tuple[str, ...]:
        """The labels of options with these texts; raises UnknownNameError for an unknown style."""
        if self.label_style == UNLABELLED:
            return tuple(texts)
        return self.native_labels or labels_of(self.label_style)


def with_option_labels(variant: PromptVariant, style: str) -> PromptVariant:
    """The variant for a label style; option lines start with dashes in the style without labels.

    Raises:
        ConfigError: for the style without labels, if the variant requests a label or does not list one option per line.
    """
    if style != UNLABELLED or variant.id == OPEN_VARIANT:
        return variant
    text = _OPTION_LINE.sub("- ", variant.text)
    names = {*placeholders(text), *placeholders(variant.system or "")}
    if any(name.startswith("label_") for name in names):
        raise ConfigError(
            "label_style",
            UNLABELLED,
            f"the variant {variant.id} asks for a label; choose variants that don't, such as polite, bare or"
            " {axes} format=free",
        )
    return variant.model_copy(update={"text": text, "example_answer": "{option}"})


@dataclass(frozen=True)
class SolvedExample:
    """A few-shot example: an instance, and the order of its options."""

    instance: Instance
    order: tuple[int, ...]


def render_prompt(
    instance: Instance, setting: PromptSettings, order: Sequence[int], examples: Sequence[SolvedExample] = ()
) -> Prompt:
    """Renders the prompt of an instance in one variant, option order and label style.

    `order` has an index into `instance.options` for each position. Each example is a user message, in the same variant,
    and an assistant message with the right answer.
    """
    template = setting.variant.system
    instruction = None if template is None else fill(template, _label_values(setting, ("", "", "")))
    texts = [text for text in (setting.system, instruction) if text is not None]
    messages = [_message("system", "\n\n".join(texts))] if texts else []
    for example in examples:
        shown = options_in_order(example.instance, example.order, setting.unknown_text)
        messages.append(_message("user", _user_text(example.instance, setting, shown)))
        gold = example.instance.gold_index
        assert gold is not None  # an Instance always has one
        position = example.order.index(gold)
        values = {"label": setting.labels(shown)[position], "option": shown[position]}
        messages.append(_message("assistant", fill(setting.variant.shot_answer, values)))
    options = options_in_order(instance, order, setting.unknown_text)
    messages.append(_message("user", _user_text(instance, setting, options)))
    digest = stable_digest(
        instance.key,
        setting.variant.id,
        setting.label_style,
        ",".join(map(str, order)),
        *(f"{message.role}:{message.content}" for message in messages),
    )
    return construct_valid(
        Prompt,
        {
            "prompt_id": digest[:20],
            "instance_key": instance.key,
            "language": instance.language,
            "variant": setting.variant.id,
            "label_style": setting.label_style,
            "option_order": tuple(order),
            "option_labels": setting.labels(options),
            "messages": tuple(messages),
            "instruction_language": setting.instruction_language,
            "no_context": setting.no_context,
            "num_fewshot": tuple(example.instance.key for example in examples),
            "unknown_text": setting.unknown_text,
            "method": "generate",
            "continuations": (),
            "reasoning_effort": None,
            "unconditional_prompt": (),
        },
    )


def _message(role: str, content: str) -> Message:
    return construct_valid(Message, {"role": role, "content": content})


def as_continuations(
    prompt: Prompt, method: Method, answers: Sequence[Continuation], prior: Sequence[Message] = ()
) -> Prompt:
    """The prompt for likelihoods of continuations instead of generated text."""
    digest = stable_digest(
        prompt.prompt_id,
        method,
        *(f"{answer.option}:{answer.text}" for answer in answers),
        *(f"{message.role}:{message.content}" for message in prior),
    )
    changes = {
        "prompt_id": digest[:20],
        "method": method,
        "continuations": tuple(answers),
        "unconditional_prompt": tuple(prior),
    }
    return prompt.model_copy(update=changes)


def with_reasoning_effort(prompt: Prompt, level: str) -> Prompt:
    """The prompt with a reasoning effort."""
    digest = stable_digest(prompt.prompt_id, "reasoning", level)
    return prompt.model_copy(update={"prompt_id": digest[:20], "reasoning_effort": level})


def answer_texts(
    instance: Instance, unknown_texts: Iterable[str] = (), shown_unknown: str | None = None
) -> list[Continuation]:
    """The texts that mean each option: its own, and for the unknown option also the other unknown texts.

    `shown_unknown` replaces the unknown option's text, as in `Prompt.unknown_text`. An unknown text that is also a
    person's text is left out, since it would mean two options.
    """
    people = {option.text.casefold() for option in instance.options if option.role != "unknown"}
    answers = []
    for index, option in enumerate(instance.options):
        texts = [option.text]
        if option.role == "unknown":
            others = (text for text in unknown_texts if text.casefold() not in people)
            texts = [*dict.fromkeys((shown_unknown or option.text, *others))]
        answers += [Continuation(option=index, text=text) for text in texts]
    return answers


def label_answers(prompt: Prompt) -> list[Continuation]:
    """Each option's label, without and with a leading space, because tokenizers differ."""
    return [
        Continuation(option=option, text=text)
        for option, label in zip(prompt.option_order, prompt.option_labels, strict=True)
        for text in (label, f" {label}")
    ]


def _label_values(setting: PromptSettings, texts: Sequence[str]) -> dict[str, str]:
    """Values of the placeholders for labels and the JSON form."""
    labels = zip("abc", setting.labels(texts), strict=True)
    return {"json": JSON_FORM, **{f"label_{letter}": label for letter, label in labels}}


def _user_text(instance: Instance, setting: PromptSettings, texts: Sequence[str]) -> str:
    """The user message for a question with these texts of the options."""
    values = {"context": instance.context, "question": instance.question, **_label_values(setting, texts)}
    values |= {f"option_{letter}": option for letter, option in zip("abc", texts, strict=True)}
    text = without_context(setting.variant.text) if setting.no_context else setting.variant.text
    return fill(text, values).strip()


def without_context(text: str) -> str:
    """The text of a variant without the lines that contain `{context}` and the blank line after them."""
    kept = [line for line in text.splitlines() if "{context}" not in line]
    lines = [line for number, line in enumerate(kept) if line.strip() or (number and kept[number - 1].strip())]
    return "\n".join(lines)
