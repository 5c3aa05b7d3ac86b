"""With which probability each answer was drawn to be judged: RUN/audit-draws.jsonl, one draw a line.

A sample is stratified by what was read, and readings change with the reader. So what was drawn from how many is kept
when it is drawn; a later estimate weighs each label by it, whatever reads the answers by then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import ValidationError

from mbbq_gen.errors import DataError, RunError
from mbbq_gen.languages import describe_fault
from mbbq_gen.records import Record
from mbbq_gen.runs.audit import Design, Sample

DRAWS_NAME = "audit-draws.jsonl"


class DrawnStratum(Record):
    """One stratum of a draw."""

    key: tuple[str, ...]
    size: int
    """Answers that could have been drawn."""
    drawn: tuple[str, ...]
    """Presentation ids, in the order in which they are judged."""


class Draw(Record):
    """One sample: who was drawn, from how many."""

    design: Design
    extractors: dict[str, str]
    """Language → the version whose readings made the strata."""
    strata: tuple[DrawnStratum, ...]


def draw_of(sample: Sample, design: Design, extractors: Mapping[str, str]) -> Draw:
    """What is kept of a sample."""
    drawn = {reading.presentation_id for reading in sample.drawn}
    order = {reading.presentation_id: place for place, reading in enumerate(sample.drawn)}
    return Draw(
        design=design,
        extractors=dict(extractors),
        strata=tuple(
            DrawnStratum(
                key=key,
                size=len(members),
                drawn=tuple(
                    sorted(
                        (member.presentation_id for member in members if member.presentation_id in drawn),
                        key=order.__getitem__,
                    )
                ),
            )
            for key, members in sample.strata.items()
        ),
    )


def load_draws(path: Path) -> list[Draw]:
    """The draws of a run, the first one first; none where there is no file.

    Raises:
        DataError: where a line is no draw.
        RunError: where the file can't be read.
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
            found.append(Draw.model_validate_json(line))
        except ValidationError as error:
            raise DataError(f"{path}:{number}: {describe_fault(error, {})}; mend or delete the line") from error
    return found


def keep_draw(path: Path, draw: Draw) -> None:
    """Adds a draw to the file, unless it is there already.

    Raises:
        RunError: where it can't be written.
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


def probabilities(draws: Iterable[Draw], judged: Collection[str]) -> dict[str, float]:
    """Presentation id → the probability with which it was drawn and judged; only those that were.

    Draws of one seed hold each other (the same chance decides), so the highest of their probabilities holds; draws of
    different seeds are independent.
    """
    known, by_seed = set(judged), defaultdict[str, dict[int, float]](dict)
    for draw in draws:
        shares = _judged_shares(draw.strata, known)
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


def _judged_shares(strata: Sequence[DrawnStratum], judged: Collection[str]) -> list[float]:
    """Of each stratum, the share that is judged in expectation.

    A sample is judged in the order of one chance number for all strata. Who stops early has judged those with a number
    below some limit: of each stratum the share drawn, or the limit where that is less. The limit is the one that
    explains how many were judged.
    """
    total = sum(len(set(stratum.drawn).intersection(judged)) for stratum in strata)
    low, high = 0.0, 1.0
    for _ in range(60):
        limit = (low + high) / 2
        expected = sum(min(len(stratum.drawn), limit * stratum.size) for stratum in strata)
        low, high = (limit, high) if expected < total else (low, limit)
    return [min(len(stratum.drawn) / stratum.size, high) for stratum in strata]
