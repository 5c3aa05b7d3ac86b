"""Label styles, option orders, options in the order shown, and the data that orders depend on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal, NamedTuple

from mbbq_gen.core.errors import UnknownNameError
from mbbq_gen.core.records import Alignment, Condition, Instance, Polarity

OrderPolicy = Literal["published", "shuffled", "balanced", "cyclic", "all"]
ORDER_POLICIES: tuple[OrderPolicy, ...] = ("published", "shuffled", "balanced", "cyclic", "all")
Order = tuple[int, int, int]
PUBLISHED: Order = (0, 1, 2)
LATIN_SQUARES: tuple[tuple[Order, Order, Order], ...] = (
    ((0, 1, 2), (1, 2, 0), (2, 0, 1)),
    ((0, 2, 1), (1, 0, 2), (2, 1, 0)),
)
"""The six orders of target, non-target and unknown as two Latin squares."""
ALL_ORDERS: tuple[Order, ...] = LATIN_SQUARES[0] + LATIN_SQUARES[1]
LABEL_STYLES: dict[str, tuple[str, str, str]] = {
    "A": ("A", "B", "C"),
    "a": ("a", "b", "c"),
    "(A)": ("(A)", "(B)", "(C)"),
    "1": ("1", "2", "3"),
}
"""Label style → its labels."""
OPEN_VARIANT: Final = "open"
"""Id of the variant that lists no options, for the loglikelihood of answers."""


def labels_of(style: str) -> tuple[str, str, str]:
    """The labels of a style; UnknownNameError for an unknown style."""
    if style not in LABEL_STYLES:
        raise UnknownNameError("label style", style, LABEL_STYLES)
    return LABEL_STYLES[style]


def options_in_order(instance: Instance, order: Sequence[int], unknown_text: str | None = None) -> list[str]:
    """The texts of the options in the order shown; `unknown_text` replaces that of the unknown option."""
    texts = [instance.options[index].text for index in order]
    if unknown_text is not None:
        texts[unknown_position(instance, order)] = unknown_text
    return texts


def unknown_position(instance: Instance, order: Sequence[int]) -> int:
    """The position of the unknown option in the order shown."""
    return list(order).index(instance.unknown_index)


Kind = tuple[Condition, Polarity, Alignment | None]


class SamplingUnit(NamedTuple):
    """The fields of an instance that samples and option orders depend on."""

    key: str
    benchmark: str
    split: str
    language: str
    category: str
    template_id: str
    condition: Condition
    polarity: Polarity
    alignment: Alignment | None
    twin: str
    """The parallel id, else the instance id."""

    @classmethod
    def of(cls, instance: Instance) -> SamplingUnit:
        """The sampling unit of an instance."""
        same = (getattr(instance, name) for name in cls._fields[:-1])
        return cls._make((*same, instance.parallel_id or instance.instance_id))

    @property
    def kind(self) -> Kind:
        """Condition, polarity and alignment."""
        return (self.condition, self.polarity, self.alignment)
