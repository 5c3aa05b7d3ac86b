"""Could the reading of the answers have made a difference: do read rates or reading errors differ by more than it?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Literal

from mbbq_gen.scoring.metrics import METRICS, Metric
from mbbq_gen.scoring.tally import grouping_columns
from mbbq_gen.statistics.correction_table import ReadingError, ReadingFlag
from mbbq_gen.statistics.panel import EstimateScore, Sampling, make_panel

if TYPE_CHECKING:
    import polars

Flag = Literal["detection_exceeds_difference", "reading_error_exceeds_difference"]


def flags_of(difference: EstimateScore, read_gap: float, error_gap: float | None) -> Iterator[Flag]:
    """What is larger than a difference that was found; nothing where its interval holds 0.

    `read_gap`, `error_gap`: how far the shares of answers read, and of those read wrong, lie apart; None: not known.
    """
    if difference.value is None or difference.low is None or difference.high is None:
        return
    if difference.low <= 0 <= difference.high:
        return
    if abs(read_gap) > abs(difference.value):
        yield "detection_exceeds_difference"
    if error_gap is not None and abs(error_gap) > abs(difference.value):
        yield "reading_error_exceeds_difference"


def gap(first: float | None, second: float | None) -> float | None:
    """First minus second; None where one is not known."""
    return None if first is None or second is None else first - second


def reading_flags(
    frame: polars.DataFrame,
    within: Sequence[str],
    metrics: Sequence[Metric],
    sampling: Sampling,
    errors: Mapping[tuple[str | None, ...], ReadingError],
) -> list[ReadingFlag]:
    """The differences of languages on the bias split that reading could have made.

    `within`: what is compared within, such as model and benchmark. `errors`: by the values of `within` and language.
    """
    import polars as pl

    columns = grouping_columns(within)
    bias = frame.filter(pl.col("split") == "bias").with_columns(
        pl.col(column).cast(pl.String).alias(f"by_{name}") for name, column in columns.items()
    )
    names = [f"by_{name}" for name in columns]
    parts = bias.partition_by(names, as_dict=True) if names else {(): bias}
    found: list[ReadingFlag] = []
    for key, part in sorted(parts.items(), key=lambda item: [str(value) for value in item[0]]):
        found += _flags_within(part, dict(zip(columns, key, strict=True)), metrics, sampling, errors)
    return found


def _flags_within(
    frame: polars.DataFrame,
    group: dict[str, str | None],
    metrics: Sequence[Metric],
    sampling: Sampling,
    errors: Mapping[tuple[str | None, ...], ReadingError],
) -> Iterator[ReadingFlag]:
    panel = make_panel(frame, ["language"], sampling)
    languages = [str(one["language"]) for one in panel.groups]
    read = METRICS["detection_rate"].value(panel.total)
    for metric in metrics:
        estimates = panel.estimates(metric)
        for one, other in combinations(range(len(languages)), 2):
            difference = estimates[one].minus(estimates[other]).score(sampling)
            read_gap = float(read[one] - read[other])
            rates = [errors.get((*group.values(), languages[place])) for place in (one, other)]
            error_gap = gap(*(rate.rate.value if rate else None for rate in rates))
            flags = tuple(flags_of(difference, read_gap, error_gap))
            if flags and difference.value is not None:
                yield ReadingFlag(
                    group=group,
                    metric=metric.name,
                    first=languages[one],
                    second=languages[other],
                    difference=difference.value,
                    read_gap=read_gap,
                    error_gap=error_gap,
                    flags=flags,
                )
