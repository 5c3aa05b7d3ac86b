"""`prompts/xx.toml`: the prompt variants of a language."""

from __future__ import annotations

import re
from typing import Annotated, Literal, Self

from pydantic import Field, StringConstraints, model_validator

from mbbq_gen.core.errors import PackError, UnknownNameError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.option_display import OPEN_VARIANT
from mbbq_gen.languages.packs import PLACEHOLDER, Pack, PackInfo, Text, Unique, placeholders, read_pack

REQUIRED_PLACEHOLDERS = frozenset(
    {"context", "question", "label_a", "option_a", "label_b", "option_b", "label_c", "option_c"}
)
OPEN_PLACEHOLDERS = frozenset({"context", "question"})

OPTIONAL_PLACEHOLDERS = frozenset({"json"})
"""`{json}`: the format of an answer in JSON, `{"answer": "…"}`."""

VariantId = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*(\+[a-z][a-z0-9_]*)*$")]
"""Composed variants join their levels with `+` (`mbbq_gen.languages.axes`)."""
VariantKind = Literal[
    "polite", "bare", "letters", "single_letter", "reasoned", "plain", "json", "line", "published", "open"
]
FOLLOW_UP_PLACEHOLDERS = frozenset({"label_a", "label_b", "label_c", "none"})


class PromptVariant(Pack):
    """One variant in one language. `{label_a}` is replaced by the label in the label style."""

    id: VariantId
    kind: VariantKind
    """The kind of request: polite, a bare question, letters only, one letter without explanation, reasoned;
    composed ones: plain, JSON, or an answer on the last line; `published`: by the authors of a benchmark; `open`:
    context and question without options."""
    text: Text
    """The user's message, with all of REQUIRED_PLACEHOLDERS; a label may occur more than once."""
    system: Text | None = None
    """The system message, if it contains the instruction; may contain labels."""
    example_answer: Text | None = None
    """The answer of a few-shot example, with `{label}` and optionally `{option}`. None: the default of the kind."""

    @property
    def shot_answer(self) -> str:
        """The answer of a few-shot example: the label, with the option's text unless the kind requests letters."""
        if self.kind == OPEN_VARIANT:
            return "{option}"
        default = "{label}" if self.kind in ("letters", "single_letter") else "{label}: {option}"
        return self.example_answer or default

    @model_validator(mode="after")
    def _check_placeholders(self) -> Self:
        found = set(placeholders(self.text))
        required = OPEN_PLACEHOLDERS if self.kind == OPEN_VARIANT else REQUIRED_PLACEHOLDERS
        missing, unknown = sorted(required - found), sorted(found - required - OPTIONAL_PLACEHOLDERS)
        if missing or unknown:
            faults = (("missing", missing), ("unknown", unknown))
            parts = [f"{fault}: {', '.join(names)}" for fault, names in faults if names]
            raise ValueError(f"placeholders {'; '.join(parts)}")
        if re.search(r"[{}]", PLACEHOLDER.sub("", self.text)):
            raise ValueError("a brace outside of a placeholder")
        if self.kind != OPEN_VARIANT and not {"label"} <= set(placeholders(self.shot_answer)) <= {"label", "option"}:
            raise ValueError(f"example_answer: {self.shot_answer!r} must hold {{label}} and may hold {{option}}")
        return self


class SampleAnswers(Pack):
    """Answers in whole sentences, for oracles and synthetic personas."""

    person: tuple[Text, ...] = Field(min_length=3)
    """Answers that choose a person, with `{option}` and optionally `{label}`."""
    unknown: tuple[Text, ...] = Field(min_length=3)
    """Answers that the question cannot be answered, in free text."""
    refusal: tuple[Text, ...] = Field(min_length=2)

    @model_validator(mode="after")
    def _check_placeholders(self) -> Self:
        for sentence in self.person:
            if "option" not in placeholders(sentence) or set(placeholders(sentence)) - {"option", "label"}:
                raise ValueError(f"person: {sentence!r} must hold {{option}} and may hold {{label}}, nothing else")
        for sentence in self.unknown + self.refusal:
            if placeholders(sentence):
                raise ValueError(f"{sentence!r} must hold no placeholder")
        return self


class FollowUpText(Pack):
    """The follow-up question for the option that an unparsed answer meant."""

    text: Text
    """The request for a label or `{none}`, with all of FOLLOW_UP_PLACEHOLDERS."""
    none: Text
    """The requested reply if the model chose no option."""

    @model_validator(mode="after")
    def _check_placeholders(self) -> Self:
        if set(placeholders(self.text)) != FOLLOW_UP_PLACEHOLDERS or placeholders(self.none):
            raise ValueError(f"text: must hold {', '.join(sorted(FOLLOW_UP_PLACEHOLDERS))}, and none no placeholder")
        return self


class PromptPack(Pack):
    """The prompt variants of a language."""

    meta: PackInfo
    variant: Annotated[tuple[PromptVariant, ...], Unique] = Field(min_length=5)
    answers: SampleAnswers
    follow_up: FollowUpText | None = None
    """None: no follow-up questions in the language."""

    def by_id(self, variant: str) -> PromptVariant:
        """The variant with that id; raises UnknownNameError for an unknown id."""
        for candidate in self.variant:
            if candidate.id == variant:
                return candidate
        if variant == OPEN_VARIANT:
            return self.open_variant
        raise UnknownNameError("prompt variant", variant, (candidate.id for candidate in self.variant))

    @property
    def open_variant(self) -> PromptVariant:
        """The variant without options: that of kind `letters`, without the lines of options."""
        for candidate in self.variant:
            if candidate.kind == "letters":
                kept = [line for line in candidate.text.splitlines() if not re.search(r"\{(label|option)_", line)]
                text = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip()
                if set(placeholders(text)) == OPEN_PLACEHOLDERS:
                    return PromptVariant(id=OPEN_VARIANT, kind="open", text=text)
        raise PackError(
            f"prompts/{self.meta.language}.toml: likelihoods need a variant of kind 'letters', with context and"
            " question on lines without options"
        )

    def prior_text(self, variant: PromptVariant) -> str:
        """The last line of a variant, such as `Answer:`, for the likelihood of answers without the question.

        If that line has placeholders, the last line of the open variant.
        """
        last = variant.text.strip().splitlines()[-1]
        return self.prior_text(self.open_variant) if placeholders(last) else last


def read_prompts(resources: PackPaths, language: str) -> PromptPack:
    """Reads the prompt pack of a language; raises as `read_pack` does."""
    return read_pack(resources, "prompts", language, PromptPack)
