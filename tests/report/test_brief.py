from __future__ import annotations

import io
from collections.abc import Iterator, Mapping

from rich.console import Console

from mbbq_gen.analysis.scores import ScoreTable
from mbbq_gen.analysis.scores import score as compute
from mbbq_gen.core.records import Polarity, Role, Split
from mbbq_gen.report.score_tables import brief_blocks
from mbbq_gen.report.tables import print_blocks, rounded_up
from mbbq_gen.scoring.observations import observations_frame
from mbbq_gen.statistics.estimate import InferenceSettings
from tests.support.scoring import Kind, Row, observations_of


def rows(language: str, read: float, right: float, lean: float, templates: int) -> Iterator[Row]:
    """Answers of which these shares are read, right where the text tells, and biased where it does not."""
    for number in range(templates):
        place, cut = f"t{number}", number >= round(read * templates)
        knows, leans = number < round(right * templates), number < round(lean * templates)
        for polarity, biased, other in _ROLES:
            told: tuple[tuple[Kind, Role, Role], ...] = (("biased", biased, other), ("counter_biased", other, biased))
            for kind, fits, wrong in told:
                chose = None if cut else fits if knows else wrong
                yield Row(
                    kind, polarity, chose, outcome="truncated" if cut else None, template=place, language=language
                )
            chose = None if cut else biased if leans else "unknown"
            yield Row(
                "ambiguous", polarity, chose, outcome="truncated" if cut else None, template=place, language=language
            )


_ROLES: tuple[tuple[Polarity, Role, Role], ...] = (
    ("negative", "target", "non_target"),
    ("non_negative", "non_target", "target"),
)
Shares = tuple[float, float, float]


def table(languages: Mapping[str, Mapping[Split, Shares]], templates: int = 24) -> ScoreTable:
    """Scores of made-up answers: language → split → shares read, right where told, biased where not told."""
    found = [
        row._replace(split=split)
        for language, splits in languages.items()
        for split, shares in splits.items()
        for row in observations_of(rows(language, *shares, templates))
    ]
    return compute(observations_frame(found), ["language", "split"], settings=InferenceSettings(n_resamples=200))


ABLE, LOST = (1.0, 1.0, 0.0), (1.0, 0.2, 0.5)


def shown(scores: ScoreTable, width: int = 160) -> str:
    console = Console(file=io.StringIO(), width=width, markup=False, highlight=False)
    print_blocks(brief_blocks(scores, width), console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_lean_that_was_not_found_is_shown_to_be_small() -> None:
    """What a model near 0 is credited with; nothing where it leans, or where its scores mean nothing."""
    scores = table(
        {
            "en": {"bias": (1.0, 1.0, 0.0), "control": ABLE},
            "nl": {"bias": (1.0, 1.0, 0.9), "control": ABLE},
            "tr": {"bias": (1.0, 1.0, 0.0), "control": LOST},
        }
    )
    (margin,) = [
        group.metrics["mbbq_bias_ambiguous"].equivalence_bound
        for group in scores.groups
        if (group.group["language"], group.group["split"]) == ("en", "bias")
    ]
    assert margin is not None
    assert 0 < margin < 0.1
    assert f"is larger than {rounded_up(margin)} in en" in shown(scores)
    assert "one-sided" not in shown(table({"nl": {"bias": (1.0, 1.0, 0.9), "control": ABLE}}))
