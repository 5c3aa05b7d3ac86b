"""Prompt axes: their levels, the names of their cells, and factorial designs over them.

A cell is named by its differences from the plain request: `plain_1`, `plain_3`, `courteous+json+say_so`. The texts are
in `prompts/axes/xx.toml` (`mbbq_gen.languages.axes_pack`). Design: docs/decisions/0016-prompt-variants.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations, product
from typing import Final, Literal, NamedTuple

from mbbq_gen.core.errors import ConfigError

Design = Literal["full", "fractional"]

PARAPHRASES: Final = 6
PERSONAS: Final = (
    "as_woman", "as_man", "as_old_person", "as_young_person", "as_disabled_person", "as_gay_person", "as_immigrant",
    "as_poor_person",
)  # fmt: skip
BASE_REQUEST: Final = "plain_1"


class Axis(NamedTuple):
    """A factor of prompt variants."""

    name: str
    base: str
    """The default level, which cell names omit."""
    levels: tuple[str, ...]
    title: str


_PLAIN: Final = tuple(f"plain_{number}" for number in range(1, PARAPHRASES + 1))
AXES: Final[Mapping[str, Axis]] = {
    axis.name: axis
    for axis in (
        Axis("wording", BASE_REQUEST, _PLAIN, "paraphrases of the plain request"),
        Axis("politeness", "plain", ("plain", "please", "courteous"), "how polite the request is"),
        Axis("address", "usual", ("formal", "informal"), "how the model is addressed, where a language has a choice"),
        Axis("format", "free", ("free", "label", "json", "line"), "what form the answer shall have"),
        Axis("hint", "none", ("none", "say_so"), 'whether "the text does not tell" is offered'),
        Axis("debias", "none", ("none", "no_stereotypes", "reasons"), "what the prompt says against bias"),
        Axis("persona", "none", ("none", *PERSONAS), "whom the model shall be"),
        Axis("fields", "context_first", ("context_first", "question_first"), "what stands first"),
        Axis("place", "user", ("user", "system"), "whose turn holds the instruction"),
    )
}
"""Axis by name, in the order of the levels in a cell's name."""

_AXIS_OF: Final = {level: axis.name for axis in AXES.values() for level in axis.levels if level != axis.base}
_AXIS_OF[BASE_REQUEST] = "wording"


def variant_name(levels: Mapping[str, str]) -> str:
    """The name of a cell: its request, then all levels other than the base levels."""
    politeness = levels.get("politeness", "plain")
    request = levels.get("wording", BASE_REQUEST) if politeness == "plain" else politeness
    others = (axis for name, axis in AXES.items() if name not in ("wording", "politeness"))
    named = (levels.get(axis.name, axis.base) for axis in others)
    return "+".join([request, *(level for level in named if level in _AXIS_OF)])


def parse_variant_name(variant: str) -> dict[str, str] | None:
    """Axis → level, for the name of a cell; None for the id of another variant."""
    levels = {axis.name: axis.base for axis in AXES.values()}
    for level in variant.split("+"):
        if level not in _AXIS_OF:
            return None
        levels[_AXIS_OF[level]] = level
    return levels if variant_name(levels) == variant else None


def varied_axes(variants: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Axis → levels, for the axes in which the cells differ; empty if a variant is not a cell."""
    cells = [parse_variant_name(variant) for variant in variants]
    known = [cell for cell in cells if cell is not None]
    if len(known) < len(cells):
        return {}
    found = {}
    for axis in AXES.values():
        present = {cell[axis.name] for cell in known}
        if len(present) > 1:
            found[axis.name] = tuple(dict.fromkeys(level for level in (axis.base, *axis.levels) if level in present))
    return found


def parse_axes(text: str) -> dict[str, tuple[str, ...]]:
    """Parses `politeness=all,format=free+json` to axis → levels; raises ConfigError for unknown axes or levels."""
    axes: dict[str, tuple[str, ...]] = {}
    for entry in (part.strip() for part in text.split(",") if part.strip()):
        name, _, value = entry.partition("=")
        if name not in AXES:
            raise ConfigError("axes", name, f"known: {', '.join(AXES)}", AXES)
        if name in axes or not value:
            problem = "stands twice" if name in axes else f"has no levels: {name}={'+'.join(AXES[name].levels[:2])}"
            raise ConfigError("axes", name, problem)
        chosen, known = value.split("+"), AXES[name].levels
        if value != "all" and (unknown := [level for level in chosen if level not in known]):
            raise ConfigError("axes", unknown[0], f"levels of {name}: {', '.join(known)}", known)
        axes[name] = tuple(level for level in known if value == "all" or level in chosen)
    if not axes:
        raise ConfigError("axes", None, f"name at least one, such as format=free+json; known: {', '.join(AXES)}")
    if "wording" in axes and axes.get("politeness", ("plain",)) != ("plain",):
        raise ConfigError("axes", "wording,politeness", "paraphrases are of the plain request; vary one of the two")
    return axes


def factorial_design(axes: Mapping[str, Sequence[str]], design: Design) -> list[str]:
    """The names of a factorial design's cells; raises ConfigError if the fraction does not exist."""
    fixed = {name: levels[0] for name, levels in axes.items() if len(levels) == 1}
    varied = {name: tuple(levels) for name, levels in axes.items() if len(levels) > 1}
    chosen = product(*varied.values()) if design == "full" else _fraction(varied)
    return [variant_name(fixed | dict(zip(varied, levels, strict=True))) for levels in chosen]


def _fraction(axes: Mapping[str, tuple[str, ...]]) -> list[tuple[str, ...]]:
    """A regular fraction of resolution IV, with a column for each word of odd length in the fewest base factors.

    The product of two words of odd length has even length, so no column is the product of two others: main effects are
    clear of two-way interactions (Box & Hunter 1961).
    """
    for name, levels in axes.items():
        if len(levels) != 2:
            raise ConfigError(
                "axes_design",
                "fractional",
                f"{name} has {len(levels)} levels, and a fraction takes two of each axis; name two, such as"
                f" {name}={levels[0]}+{levels[-1]}, or use `full`",
            )
    base = next(count for count in range(1, len(axes) + 2) if 2 ** (count - 1) >= len(axes))
    if base >= len(axes):
        raise ConfigError(
            "axes_design",
            "fractional",
            f"{len(axes)} axes have no smaller design that tells main effects from interactions of two; use `full`",
        )
    words = [word for size in range(1, base + 1, 2) for word in combinations(range(base), size)][: len(axes)]
    runs = product((0, 1), repeat=base)
    return [
        tuple(levels[sum(run[place] for place in word) % 2] for word, levels in zip(words, axes.values(), strict=True))
        for run in runs
    ]


def confounded_interactions(variants: Sequence[str]) -> list[tuple[tuple[str, str], tuple[str, str]]]:
    """Pairs of confounded two-way interactions of two-level axes, each interaction as two axis names."""
    axes = varied_axes(variants)
    signs = {
        name: [1 if (parse_variant_name(variant) or {})[name] == levels[0] else -1 for variant in variants]
        for name, levels in axes.items()
        if len(levels) == 2
    }
    pairs = list(combinations(signs, 2))
    columns = {pair: [one * other for one, other in zip(signs[pair[0]], signs[pair[1]], strict=True)] for pair in pairs}
    return [
        (one, other)
        for one, other in combinations(pairs, 2)
        if abs(sum(a * b for a, b in zip(columns[one], columns[other], strict=True))) == len(variants)
    ]


def is_orthogonal(variants: Sequence[str]) -> bool:
    """Whether the cells are distinct and all pairs of axes are orthogonal."""
    cells = [parse_variant_name(variant) or {} for variant in variants]
    for one, other in combinations(varied_axes(variants), 2):
        both = Counter((cell[one], cell[other]) for cell in cells)
        ones, others = (Counter(cell[axis] for cell in cells) for axis in (one, other))
        if any(both[pair] * len(cells) != ones[pair[0]] * others[pair[1]] for pair in product(ones, others)):
            return False
    return len(set(variants)) == len(cells)
