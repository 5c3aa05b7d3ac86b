"""Invented answers of this project: `synthetic:NAME`, three personalities that show what a result can look like.

    able-fair           reads the text, says so where it does not tell; its few slips go either way
    able-stereotyped    able too, but where groups are named and the text does not tell, it mostly takes the stereotype
    unable              guesses by label, drifts off, or repeats the question until it is cut off

No model wrote these answers, and no finding is in them. Choices are drawn from the shares in `synthetic.toml`, by the
prompt id, so that they are the same at each run; the words come from `prompts/synthetic/xx.toml`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, JsonValue, model_validator

from mbbq_gen.core.errors import PackError, UnknownNameError, UsageError
from mbbq_gen.core.files import PackPaths, file_digest, stable_digest, stable_number
from mbbq_gen.core.records import FrozenModel, Request, Response
from mbbq_gen.languages.packs import Pack, PackInfo, Text, fill, placeholders, read_toml, validate_pack
from mbbq_gen.providers.oracles import LocalResponder, place_of

FOLDER = "synthetic"
_SEED = "made-up"
"""Seed of all draws: another one changes the documented results."""

Choice = Literal["right", "unknown", "biased", "counter_biased", "guess", "adrift", "cut_off"]
"""What an answer does: choose a role, name any label, or nothing that could be read, whole or cut off."""
Shares = dict[Literal["ambiguous", "biased", "counter_biased"], dict[Choice, int]]


class Persona(FrozenModel):
    """A personality of `synthetic.toml`."""

    summary: str
    bias: Shares
    control: Shares | None = None


_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PERSONALITIES: Mapping[str, Persona] = {name: Persona(**entry) for name, entry in _TABLE.items()}


class SyntheticPack(Pack):
    """The texts of invented answers in a language."""

    meta: PackInfo
    person: tuple[Text, ...] = Field(min_length=8)
    unknown: tuple[Text, ...] = Field(min_length=8)
    guess: tuple[Text, ...] = Field(min_length=3)
    adrift: tuple[Text, ...] = Field(min_length=3)
    cut_off: tuple[Text, ...] = Field(min_length=2)

    @model_validator(mode="after")
    def _check_placeholders(self) -> Self:
        for name, known in _PLACEHOLDERS.items():
            for sentence in getattr(self, name):
                found = set(placeholders(sentence))
                if found - known or (not found and name in {"person", "guess"}):
                    wanted = ", ".join(sorted(known)) or "none"
                    raise ValueError(f"{name}: {sentence!r}: placeholders must be of: {wanted}")
        return self


_CHOSEN = {"option", "label"}
_PLACEHOLDERS = {"person": _CHOSEN, "unknown": _CHOSEN, "guess": {"label"}, "adrift": set(), "cut_off": {"question"}}


def read_synthetic_pack(resources: PackPaths, language: str) -> SyntheticPack:
    """The words of a language; raises UsageError where there are none, PackError where the file is wrong."""
    path = resources.find("prompts", f"{FOLDER}/{language}")
    if path is None:
        raise UsageError(
            f"synthetic: no answers in {language!r} (prompts/{FOLDER}/{language}.toml); leave this language out"
        )
    pack = validate_pack(SyntheticPack, read_toml(path), path)
    if pack.meta.language != language:
        raise PackError(f"{path}: meta.language: {pack.meta.language!r} is not the file's name {language!r}")
    return pack


class SyntheticProvider(LocalResponder):
    """Answers as one of PERSONALITIES does."""

    kind = "synthetic"

    def __init__(self, model: str, options: Any = None, resources: PackPaths | None = None) -> None:
        """Raises UnknownNameError where there is no such personality."""
        if model not in PERSONALITIES:
            raise UnknownNameError("synthetic persona", model, PERSONALITIES)
        super().__init__(model, options, resources)
        self._packs: dict[str, SyntheticPack] = {}

    def runtime_info(self) -> dict[str, JsonValue]:
        """That no model wrote this."""
        return {"synthetic": True}

    @cached_property
    def settings(self) -> dict[str, JsonValue]:
        """The digest of the words in all languages."""
        found = [root / "prompts" / FOLDER for root in self._resources.roots]
        paths = sorted(path for folder in found for path in folder.glob("*.toml"))
        return {"words_sha256": stable_digest(*(f"{path.stem}={file_digest(path)}" for path in paths))}

    def choice(self, request: Request) -> Choice:
        """What the personality does with a question."""
        instance = request.instance
        persona = PERSONALITIES[self.model]
        situations = persona.bias if instance.split == "bias" else persona.control or persona.bias
        # instances without a single target are answered as if their texts fitted the stereotype: mostly right
        shares = situations["ambiguous" if instance.condition == "ambiguous" else instance.alignment or "biased"]
        drawn = stable_number(_SEED, self.model, request.prompt.prompt_id) % 100
        ends = accumulate(shares.values())
        return next(choice for choice, end in zip(shares, ends, strict=True) if drawn < end)

    def place(self, request: Request) -> int | None:
        """The place of the option that it chooses; None where its answer chooses none."""
        choice, instance, prompt = self.choice(request), request.instance, request.prompt
        if choice in {"adrift", "cut_off"}:
            return None
        if choice == "guess":
            return stable_number(f"{_SEED}:guess", prompt.prompt_id) % len(prompt.option_order)
        return place_of(instance, prompt, choice)

    def respond(self, request: Request) -> Response:
        """What it says to a request."""
        choice, prompt = self.choice(request), request.prompt
        if prompt.language not in self._packs:
            self._packs[prompt.language] = read_synthetic_pack(self._resources, prompt.language)
        pack, place = self._packs[prompt.language], self.place(request)
        filling = {"question": request.instance.question}
        kind: str = choice
        if place is not None:
            option = request.instance.options[prompt.option_order[place]]
            filling = {"label": prompt.option_labels[place], "option": option.text}
            kind = "guess" if choice == "guess" else "unknown" if option.role == "unknown" else "person"
        sentences: Sequence[str] = getattr(pack, kind)
        sentence = sentences[stable_number(f"{_SEED}:words", prompt.prompt_id) % len(sentences)]
        return Response(
            request_key=request.request_key,
            text=fill(sentence, {name: filling[name] for name in placeholders(sentence)}),
            finish_reason="length" if choice == "cut_off" else "stop",
            model=self.model,
        )
