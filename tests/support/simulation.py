"""Simulated models whose bias is known, for tests and benches of the statistics.

A simulated model answers one question so:

1. with probability `unparsed` nothing can be read;
2. with probability `first_place` it takes whatever stands first;
3. with probability `ability` it is right;
4. with probability `unknown` it says that it is not known;
5. else it names a person: the one whom the stereotype expects with probability (1 + lean) / 2, where lean is that of
   the language plus what template, template × language, wording and template × wording add to it, kept in −1 … 1. On
   control questions the language's lean and all template effects are 0, for a name has no stereotype; `artefact` is a
   lean of the story itself, and the same in both splits.

So where leans stay inside −1 … 1, its mbbq_bias_ambiguous is, in expectation,
(1 − first_place) · (1 − ability) · (1 − unknown) · (lean + artefact), whatever the rate of unparsed answers.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np
import polars as pl
from numpy.typing import NDArray

from mbbq_gen.core.files import stable_number
from mbbq_gen.core.records import Condition, Instance, Option, Polarity, Role, Split
from mbbq_gen.scoring.observations import observations_from_columns

Array = NDArray[np.float64]
Places = NDArray[np.int64]

_ORDERS = ((0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1), (1, 0, 2), (2, 1, 0))
"""Of the options target, non-target, unknown."""
_ROLES: tuple[Role, ...] = ("target", "non_target", "unknown")


@dataclass(frozen=True)
class SimulatedLanguage:
    """How the model behaves in one language; all are probabilities but the leans."""

    lean: float = 0.0
    ability: float = 0.4
    unknown: float = 0.3
    first_place: float = 0.0
    unparsed: float = 0.0
    artefact: float = 0.0


@dataclass(frozen=True)
class Design:
    """The questions: every template in every language, split, prompt variant and filling."""

    languages: tuple[str, ...] = ("en", "tr")
    templates: int = 40
    variants: int = 3
    fillings: int = 2
    """Of a template; each gives two ambiguous and four disambiguated questions."""
    categories: int = 4
    splits: tuple[Split, ...] = ("bias", "control")
    is_balanced: bool = True
    """False: the target always stands first and unknown last."""
    sizes_differ: bool = False
    """Whether later templates have more fillings: from 1 to twice `fillings`."""
    names: tuple[str, ...] = ()
    """Ids of the prompt variants, as many as `variants`; none: `wording 1` and so on."""

    def name(self, variant: int) -> str:
        """The id of a prompt variant by its number from 0."""
        return self.names[variant] if self.names else f"wording {variant + 1}"


@dataclass(frozen=True)
class SimulatedModel:
    """A model: what it does in each language, and how much templates and prompt variants vary."""

    languages: Mapping[str, SimulatedLanguage] = field(default_factory=dict)
    """A language that is not named behaves as `SimulatedLanguage()`."""
    template_sd: float = 0.3
    interaction_sd: float = 0.15
    """Of template × language."""
    wording_sd: float = 0.0
    template_wording_sd: float = 0.0
    shifts: Mapping[str, float] = field(default_factory=dict)
    """Id of a prompt variant → what it adds to the lean."""
    name: str = "simulated"


@dataclass(frozen=True)
class _Grid:
    """The questions of a design, and where each stands."""

    instances: list[Instance]
    template: Places
    language: Places
    is_control: Places
    right: Places
    """Index of the right option: 0 target, 1 non-target, 2 unknown."""
    biased: Places
    """Index of the biased option."""
    filled: Places
    """Number of the filled template: successive ones are shown in successive orders."""


def simulate(model: SimulatedModel, design: Design, seed: int) -> pl.DataFrame:
    """The observations of a simulated run; the same seed gives the same ones."""
    grid = _grid(design)
    generator = np.random.default_rng(stable_number("simulation", model.name, seed))
    leans = _leans(model, design, generator)
    frames = [_answers(model, design, leans[:, :, variant], variant, generator) for variant in range(design.variants)]
    return observations_from_columns(grid.instances, pl.concat(frames))


def _leans(model: SimulatedModel, design: Design, generator: np.random.Generator) -> Array:
    """The lean of the bias split by template × language × prompt variant, without the artefact."""
    shape = (design.templates, len(design.languages), design.variants)
    settings = [_of_language(model, language) for language in design.languages]
    lean = generator.normal(0, 1, (shape[0], 1, 1)) * model.template_sd
    lean = lean + generator.normal(0, 1, (shape[0], shape[1], 1)) * model.interaction_sd
    lean = lean + generator.normal(0, 1, (1, 1, shape[2])) * model.wording_sd
    lean = lean + generator.normal(0, 1, (shape[0], 1, shape[2])) * model.template_wording_sd
    lean = lean + np.array([model.shifts.get(design.name(number), 0.0) for number in range(shape[2])])
    found: Array = lean + np.array([setting.lean for setting in settings])[None, :, None]
    return found


def _of_language(model: SimulatedModel, language: str) -> SimulatedLanguage:
    return model.languages.get(language, SimulatedLanguage())


def _answers(
    model: SimulatedModel, design: Design, leans: Array, variant: int, generator: np.random.Generator
) -> pl.DataFrame:
    """The answers to all questions in one prompt variant."""
    grid = _grid(design)
    number = len(grid.instances)
    settings = [_of_language(model, language) for language in design.languages]

    def by_language(name: str) -> Array:
        values: Array = np.array([getattr(setting, name) for setting in settings])[grid.language]
        return values

    orders = (grid.filled + variant) % len(_ORDERS) if design.is_balanced else np.zeros(number, dtype=int)
    lean = np.where(grid.is_control, 0.0, leans[grid.template, grid.language]) + by_language("artefact")
    names_biased = generator.random(number) < (1 + np.clip(lean, -1, 1)) / 2
    chosen = np.where(names_biased, grid.biased, 1 - grid.biased)
    chosen = np.where(generator.random(number) < by_language("unknown"), 2, chosen)
    chosen = np.where(generator.random(number) < by_language("ability"), grid.right, chosen)
    first = np.array(_ORDERS)[orders, 0]
    chosen = np.where(generator.random(number) < by_language("first_place"), first, chosen)
    is_read = generator.random(number) >= by_language("unparsed")
    places = np.argsort(np.array(_ORDERS), axis=1)[orders, chosen]
    return pl.DataFrame(
        {
            "instance_key": [instance.key for instance in grid.instances],
            "model": [model.name] * number,
            "variant": [design.name(variant)] * number,
            "label_style": ["A"] * number,
            "option_order": [json.dumps(_ORDERS[int(order)]) for order in orders],
            "outcome": np.where(is_read, "option", "unparsed"),
            "option": pl.Series(places, dtype=pl.Int8).set(pl.Series(~is_read), None),
            "confidence": ["high"] * number,
            "extractor": ["none"] * number,
        }
    )


@lru_cache(maxsize=8)
def _grid(design: Design) -> _Grid:
    """The questions of a design."""
    rows: list[tuple[int, int, bool, int, int, int]] = []
    instances: list[Instance] = []
    kinds = list(enumerate(_kinds()))
    asked_of = [
        (template, filling) for template in range(design.templates) for filling in range(_fillings(design, template))
    ]
    for filled, (template, filling) in enumerate(asked_of):
        for kind, shape in kinds:
            name = f"{template}/{filling}/{kind}"
            biased, right = 0 if shape[1] == "negative" else 1, _ROLES.index(shape[2])
            for split, (place, language) in itertools.product(design.splits, enumerate(design.languages)):
                instances.append(_instance(design.categories, name, split, language, shape))
                rows.append((template, place, split == "control", right, biased, filled))
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    return _Grid(instances, *columns)


def _fillings(design: Design, template: int) -> int:
    if not design.sizes_differ:
        return design.fillings
    return 1 + round((2 * design.fillings - 1) * template / max(1, design.templates - 1))


def _kinds() -> Sequence[tuple[Condition, Polarity, Role]]:
    """Of each filling: two ambiguous and four disambiguated questions."""
    polarities: tuple[Polarity, Polarity] = ("negative", "non_negative")
    people: tuple[Role, Role] = ("target", "non_target")
    return [
        *(("ambiguous", polarity, "unknown") for polarity in polarities),
        *(("disambiguated", polarity, right) for polarity in polarities for right in people),
    ]


def _instance(
    categories: int, name: str, split: Split, language: str, shape: tuple[Condition, Polarity, Role]
) -> Instance:
    condition, polarity, right = shape
    template = int(name.partition("/")[0])
    return Instance(
        benchmark="simulated",
        version="1",
        split=split,
        language=language,
        instance_id=name,
        parallel_id=name,
        template_id=f"t{template:03d}",
        category=f"category_{template % categories + 1}",
        condition=condition,
        polarity=polarity,
        context=f"Story {name}.",
        question=f"Question {polarity}?",
        options=(
            Option(role="target", text="One", group="one"),
            Option(role="non_target", text="The other", group="other"),
            Option(role="unknown", text="Not known"),
        ),
        gold_role=right,
    )
