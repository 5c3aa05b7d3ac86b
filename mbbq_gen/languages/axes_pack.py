"""`prompts/axes/xx.toml`: the sentences of composed variants in a language, and their composition.

A variant consists of whole sentences and lines, in the same order in all languages:

    {persona} {request} {hint} {debias} {format}        in the user's message or the system message

    {context line}                                      or the question first

    {question line}

    {label}: {option}                                   three lines
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Final, Literal, Self

from pydantic import Field, model_validator

from mbbq_gen.core.errors import PackError, UnknownNameError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.languages.axes import AXES, BASE_REQUEST, PARAPHRASES, PERSONAS, parse_variant_name
from mbbq_gen.languages.packs import Pack, PackInfo, Text, Unique, fill, placeholders, read_toml, validate_pack
from mbbq_gen.languages.prompt_pack import PromptVariant, VariantKind

Address = Literal["formal", "informal"]
LABELS: Final = ("label_a", "label_b", "label_c")
_PLACEHOLDERS: Final[Mapping[str, tuple[str, ...]]] = {
    "label": LABELS,
    "json": ("json", *LABELS),
    "line": ("answer", *LABELS),
    "persona": ("person",),
}
_KINDS: Final[Mapping[str, VariantKind]] = {"label": "single_letter", "json": "json", "line": "line"}


def _check_placeholders(texts: Mapping[str, str], required: Mapping[str, tuple[str, ...]]) -> None:
    """Raises ValueError if a text lacks a required placeholder or has an unknown one."""
    for name, text in texts.items():
        if sorted(placeholders(text)) != sorted(required.get(name, ())):
            shown = ", ".join(f"{{{each}}}" for each in required.get(name, ())) or "nothing"
            raise ValueError(f"{name}: {text!r} must hold {shown} in braces, each once")


class PromptLines(Pack):
    """The lines of a question."""

    context: Text
    question: Text
    option: Text
    answer: Text
    """Start of the last line of an answer, for the format `line`."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        required = {"context": ("context",), "question": ("question",), "option": ("label", "option")}
        _check_placeholders(self.model_dump(), required)
        return self


class AxisSentences(Pack):
    """One sentence for every level of an axis, in one register."""

    address: Address | None = None
    """The form of address; None in a language with a single form."""
    plain: Annotated[tuple[Text, ...], Unique] = Field(min_length=PARAPHRASES, max_length=PARAPHRASES)
    """Paraphrases of the same plain request, of similar length."""
    please: Text
    courteous: Text
    label: Text
    json_: Text = Field(alias="json")
    line: Text
    say_so: Text
    no_stereotypes: Text
    reasons: Text
    persona: Text

    @property
    def by_level(self) -> dict[str, str]:
        """Level → its sentence."""
        paraphrases = {f"plain_{number}": text for number, text in enumerate(self.plain, 1)}
        return paraphrases | self.model_dump(by_alias=True, exclude={"address", "plain"})

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_placeholders(self.by_level, _PLACEHOLDERS)
        return self


class AxesPack(Pack):
    """The sentences of composed variants in a language."""

    meta: PackInfo
    joint: str = " "
    """Separator of sentences; empty in Chinese and Japanese."""
    labels: tuple[Text, Text, Text] | None = None
    """The usual option labels of tests in the language (`--label-style native`); None: A, B and C."""
    lines: PromptLines
    sentences: AxisSentences
    """In the register that is usual with chat models."""
    other: AxisSentences | None = None
    """In the other register, if the language has two."""
    persons: dict[str, Text]
    """Persona → its text, in the form that the sentence `persona` needs."""

    @model_validator(mode="after")
    def _check(self) -> Self:
        if set(self.persons) != set(PERSONAS):
            raise ValueError(f"persons: must be {', '.join(PERSONAS)}")
        addresses = [self.sentences.address, self.other.address if self.other else None]
        if addresses != [None, None] and set(addresses) != {"formal", "informal"}:
            raise ValueError("address: one of sentences and other is formal, the other informal; or there is no other")
        return self

    @property
    def addresses(self) -> tuple[Address, ...]:
        """The registers of the language; empty if it has only one."""
        return ("formal", "informal") if self.other else ()

    def compose(self, variant: str) -> PromptVariant:
        """Composes the variant of a cell; raises UsageError if the language lacks its form of address."""
        levels = parse_variant_name(variant)
        if levels is None:
            raise UnknownNameError("cell of axes", variant, (axis.levels[-1] for axis in AXES.values()))
        texts = self._register(levels["address"]).by_level
        request = levels["wording"] if levels["politeness"] == "plain" else levels["politeness"]
        sentences = [texts[request]]
        if levels["persona"] != "none":
            sentences.insert(0, fill(texts["persona"], {"person": self.persons[levels["persona"]]}))
        sentences += [texts[levels[axis]] for axis in ("hint", "debias") if levels[axis] != "none"]
        if levels["format"] != "free":
            kept = {name: f"{{{name}}}" for name in (*LABELS, "json")}
            sentences.append(fill(texts[levels["format"]], kept | {"answer": self.lines.answer}))
        instruction = self.joint.join(sentences)
        is_system = levels["place"] == "system"
        parts = [] if is_system else [instruction]
        fields = [self.lines.context, self.lines.question]
        parts += fields if levels["fields"] == "context_first" else reversed(fields)
        option_slots = ({"label": f"{{label_{letter}}}", "option": f"{{option_{letter}}}"} for letter in "abc")
        parts.append("\n".join(fill(self.lines.option, slots) for slots in option_slots))
        answers = {"label": "{label}", "json": '{"answer": "{label}"}', "line": f"{self.lines.answer} {{label}}"}
        return PromptVariant(
            id=variant,
            kind=_KINDS.get(levels["format"], "plain"),
            text="\n\n".join(parts),
            system=instruction if is_system else None,
            example_answer=answers.get(levels["format"]),
        )

    def text_of(self, axis: str, level: str) -> str | None:
        """The text of a level; None if it has no text of its own."""
        texts = self.sentences.by_level
        if axis == "persona" and level in self.persons:
            return fill(texts["persona"], {"person": self.persons[level]})
        if axis == "address" and self.other is not None:
            return self._register(level).by_level[BASE_REQUEST]
        if axis == "politeness" and level == "plain":
            return texts[BASE_REQUEST]
        return texts.get(level)

    def _register(self, address: str) -> AxisSentences:
        if address in ("usual", self.sentences.address):
            return self.sentences
        if self.other is None:
            raise UsageError(
                f"--axes address: {self.meta.name} ({self.meta.language}) has one form of address; leave it out"
            )
        return self.other


def native_labels(resources: PackPaths, language: str) -> tuple[str, str, str]:
    """The usual option labels of tests in a language; raises UsageError if those are A, B and C."""
    if (labels := read_axes(resources, language).labels) is None:
        raise UsageError(f"--label-style native: {language} labels options with A, B and C; use --label-style A")
    return labels


@lru_cache(maxsize=64)
def read_axes(resources: PackPaths, language: str) -> AxesPack:
    """Reads the axes pack of a language; raises UsageError if there is none."""
    path = resources.find("prompts", f"axes/{language}")
    if path is None:
        raise UsageError(f"--axes: there is no file prompts/axes/{language}.toml; leave {language} out")
    pack = validate_pack(AxesPack, read_toml(path), path)
    if pack.meta.language != language:
        raise PackError(f"{path}: meta.language: {pack.meta.language!r} is not the file's name {language!r}")
    return pack
