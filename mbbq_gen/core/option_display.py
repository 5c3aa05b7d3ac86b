"""How options are shown: label styles, option orders, and the texts in the order shown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from mbbq_gen.core.errors import UnknownNameError
from mbbq_gen.core.records import Instance

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


def labels_of(style: str) -> tuple[str, str, str]:
    """The labels of a style.

    Raises:
        UnknownNameError: where there is no such style.
    """
    if style not in LABEL_STYLES:
        raise UnknownNameError("label style", style, LABEL_STYLES)
    return LABEL_STYLES[style]


def options_in_order(instance: Instance, order: Sequence[int], unknown_text: str | None = None) -> list[str]:
    """The options' texts as they stand on show, by place; `unknown_text` is the unknown option's, if it has another."""
    texts = [instance.options[index].text for index in order]
    if unknown_text is not None:
        texts[shown_unknown(instance, order)] = unknown_text
    return texts


def shown_unknown(instance: Instance, order: Sequence[int]) -> int:
    """The place at which the unknown option stands."""
    return list(order).index(instance.unknown_index)


OPEN_VARIANT: Final = "open"
"""Id of the variant that lists no options, for the loglikelihood of answers."""
