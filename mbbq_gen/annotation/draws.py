"""Sampling probabilities of annotated answers: RUN/annotation-draws.jsonl, one draw per line.

A sample is stratified by extraction outcomes, which change with the extractor. So each draw is stored with the sizes of
its strata, and later estimates weigh each label by it, whatever the extractor.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from pydantic import ValidationError

from mbbq_gen.annotation.review import ReviewSample, SamplingDesign
from mbbq_gen.core.errors import DataError, RunError, describe_fault
from mbbq_gen.core.records import FrozenModel

DRAWS_NAME = "annotation-draws.jsonl"


class DrawnStratum(FrozenModel):
    """One stratum of a draw."""

    key: tuple[str, ...]
    size: int
    """Answers that could have been drawn."""
    drawn: tuple[str, ...]
    """Prompt ids, in the order in which they are annotated."""


class SamplingDraw(FrozenModel):
    """One sample: what was drawn, from how many."""

    design: SamplingDesign
    extractors: dict[str, str]
    """Language → the extractor version that defined the strata."""
    strata: tuple[DrawnStratum, ...]


def draw_of(sample: ReviewSample, design: SamplingDesign, extractors: Mapping[str, str]) -> SamplingDraw:
    """The record of a sample."""
    drawn = {extraction.prompt_id for extraction in sample.drawn}
    order = {extraction.prompt_id: place for place, extraction in enumerate(sample.drawn)}
    return SamplingDraw(
        design=design,
        extractors=dict(extractors),
        strata=tuple(
            DrawnStratum(
                key=key,
                size=len(members),
                drawn=tuple(
                    sorted(
                        (member.prompt_id for member in members if member.prompt_id in drawn),
                        key=order.__getitem__,
                    )
                ),
            )
            for key, members in sample.strata.items()
        ),
    )


def load_draws(path: Path) -> list[SamplingDraw]:
    """The draws of a run in order; none where there is no file.

    Raises:
        DataError: A line is not a draw.
        RunError: The file can't be read.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise RunError(f"{path}: {error.strerror or error}") from error
    found = []
    for number, line in enumerate(lines, start=1):
        try:
            found.append(SamplingDraw.model_validate_json(line))
        except ValidationError as error:
            raise DataError(f"{path}:{number}: {describe_fault(error, {})}; correct or delete the line") from error
    return found


def keep_draw(path: Path, draw: SamplingDraw) -> None:
    """Adds a draw to the file, unless it is there already.

    Raises:
        RunError: The file can't be written.
    """
    draws = load_draws(path)
    if draw in draws:
        return
    temporary = path.with_name(f"{path.name}.part")
    try:
        temporary.write_text("".join(f"{one.model_dump_json()}\n" for one in [*draws, draw]), encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise RunError(f"{path}: can't write: {error.strerror or error}") from error


def probabilities(draws: Iterable[SamplingDraw], annotated: Collection[str]) -> dict[str, float]:
    """Prompt id → the probability with which it was drawn and annotated; only those that were.

    Draws of one seed are nested, so the highest of their probabilities counts; draws of different seeds are
    independent.
    """
    known, by_seed = set(annotated), defaultdict[str, dict[int, float]](dict)
    for draw in draws:
        total = sum(len(set(stratum.drawn).intersection(known)) for stratum in draw.strata)
        low, high = 0.0, 1.0
        for _ in range(60):
            limit = (low + high) / 2
            expected = sum(min(len(stratum.drawn), limit * stratum.size) for stratum in draw.strata)
            low, high = (limit, high) if expected < total else (low, limit)
        shares = [min(len(stratum.drawn) / stratum.size, high) for stratum in draw.strata]
        for stratum, share in zip(draw.strata, shares, strict=True):
            for name in known.intersection(stratum.drawn):
                seeds = by_seed[name]
                seeds[draw.design.seed] = max(share, seeds.get(draw.design.seed, 0.0))
    return {name: _any(shares.values()) for name, shares in by_seed.items()}


def _any(shares: Iterable[float]) -> float:
    missed = 1.0
    for share in shares:
        missed *= 1 - share
    return 1 - missed
