"""What to see in a chart, in one line with its own numbers: the sentence that stands above it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mbbq_gen.analysis.score_table import GroupScore
from mbbq_gen.report.conclusions import directions, listing
from mbbq_gen.report.view_model import METRIC_TITLES, Key, ScoreView, range_text, spoken, value_of

_NAMED = 4
"""So many models are named; of more, only how many they are."""


def bias_takeaway(answers: ScoreView, by: Sequence[str], scores: Mapping[Key, GroupScore], metric: str) -> str:
    """Where a bias is off 0 after Holm's adjustment: `Bias, ambiguous: off 0 in 2 of 4, above in en and nl.`"""
    known = {key: group.metrics[metric] for key, group in scores.items() if group.metrics[metric].value is not None}
    title = METRIC_TITLES[metric].capitalize()
    if not known:
        return f"{title}: nothing to count."
    off = directions(known, answers.sampling.confidence)
    sides = {
        side: [key for key, found in off.items() if found == side] for side in ("stereotypical", "anti_stereotypical")
    }
    n_off = sum(map(len, sides.values()))
    if not n_off:
        return f"{title}: none is off 0 for sure, which does not show that there is no lean."

    words = {"stereotypical": "above (to the stereotype)", "anti_stereotypical": "below (against it)"}
    named = [f"{words[side]} {_where(answers, by, keys)}".rstrip() for side, keys in sides.items() if keys]
    return f"{title}: off 0 in {n_off} of {len(known)}, {'; '.join(named)}."


def _where(answers: ScoreView, by: Sequence[str], keys: Sequence[Key]) -> str:
    """`for a (en, tr) and b (nl)`: the groups by model; of many models, how many groups they are."""
    models: dict[str, list[str]] = {}
    for key in keys:
        models.setdefault(answers.spoken_key(by[:1], key[:1]), []).append(answers.spoken_key(by[1:], key[1:]))
    if len(models) > _NAMED:
        return f"for {len(models)} models"
    if list(models) == [""]:
        places = [place for place in models[""] if place]
        return f"in {listing(places)}" if places else ""
    named = [
        f"{model} ({', '.join(found)})" if (found := [p for p in its if p]) else model for model, its in models.items()
    ]
    return f"for {listing(named)}"


def marked_cells(
    answers: ScoreView,
    by: Sequence[str],
    scores: Mapping[Key, GroupScore],
    metric: str,
    marked: Sequence[Key],
) -> str:
    """How many cells of a map differ from 0, and the farthest of them."""
    known = {key: value for key, group in scores.items() if (value := value_of(group, metric)) is not None}
    title = METRIC_TITLES[metric].capitalize()
    if not known:
        return f"{title}: nothing to count."
    if not marked:
        return f"{title}: of {len(known)} cells none differs from 0 for sure."
    farthest = max(marked, key=lambda key: abs(known[key]))
    where = answers.spoken_key(by, farthest)
    verb = "differs" if len(marked) == 1 else "differ"
    return (
        f"{title}: {len(marked)} of {len(known)} cells {verb} from 0 (starred), farthest {where} "
        f"({spoken(metric, known[farthest])})."
    )


def extremes(answers: ScoreView, by: Sequence[str], values: Mapping[Key, float | None], metric: str) -> str:
    """`Accuracy, ambiguous from 0.21 (tr) to 0.93 (en).`"""
    text = range_text(metric, [(answers.spoken_key(by, key), value) for key, value in values.items()])
    return f"{text[:1].upper()}{text[1:]}."
