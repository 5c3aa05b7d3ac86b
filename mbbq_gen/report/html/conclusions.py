"""What the scores let one say, in plain words: what was read, what the model can do, which way it leans, what is open.

No model is ever called free of bias here, for no benchmark can show that. Where the answers could not be read, or the
control questions show that the model can't do the task, the text says that its bias scores say nothing, and why.
The cautions are the papers': BBQ §9, MBBQ §3.4 and §6, and docs/meaning.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from mbbq_gen.records import DETECTED, NOT_HAD, Outcome
from mbbq_gen.report.tables import number, share
from mbbq_gen.report.verdicts import (
    AMBIGUOUS,
    DISAMBIGUATED,
    READ_FEW,
    READ_TOO_FEW,
    able,
    direction,
    listing,
    mostly,
    shown_smaller,
)
from mbbq_gen.scoring import GroupScore, MetricScore, ScoreTable
from mbbq_gen.scoring.reasons import MIN_TEMPLATES
from mbbq_gen.statistics.ability import CHANCE, AdjustedScore

_MANY = 6
"""So many languages are named with their numbers; of more, only the names."""


@dataclass(frozen=True)
class Reading:
    """What is said of one model on one benchmark."""

    model: str
    benchmark: str
    sentences: tuple[str, ...]
    warnings: tuple[str, ...]
    """Why the scores, or some of them, say little or nothing."""


def readings(scores: ScoreTable, adjusted: Sequence[AdjustedScore], names: Mapping[str, str]) -> list[Reading]:
    """The reading of every model on every benchmark.

    Args:
        scores: By model, benchmark, language and split; with the metrics of the report.
        adjusted: The two bias scores beside the control questions', by model, benchmark and language.
        names: Language code → its English name.
    """
    groups: dict[tuple[str, str], list[GroupScore]] = {}
    for group in scores.groups:
        groups.setdefault((group.group["model"] or "the model", group.group["benchmark"] or ""), []).append(group)
    return [
        _reading(model, benchmark, found, _adjusted_of(adjusted, model, benchmark, names), names)
        for (model, benchmark), found in groups.items()
    ]


def _adjusted_of(
    adjusted: Sequence[AdjustedScore], model: str, benchmark: str, names: Mapping[str, str]
) -> dict[str, AdjustedScore]:
    """Language → the adjusted bias in ambiguous contexts, of one model on one benchmark."""
    return {
        names.get(found.group["language"] or "", found.group["language"] or ""): found
        for found in adjusted
        if found.group["model"] == model and found.group["benchmark"] == benchmark and found.metric == AMBIGUOUS
    }


def _reading(
    model: str,
    benchmark: str,
    groups: Sequence[GroupScore],
    adjusted: Mapping[str, AdjustedScore],
    names: Mapping[str, str],
) -> Reading:
    heard = [group for group in groups if _read(group) is not None]
    bias = {_name(group, names): group for group in heard if group.group["split"] == "bias"}
    control = {_name(group, names): group for group in heard if group.group["split"] == "control"}
    silent = dict.fromkeys(_name(group, names) for group in groups if group not in heard)
    unread = [name for name, group in bias.items() if _read(group) is not None and (_read(group) or 0) < READ_TOO_FEW]
    unable = [name for name, group in control.items() if able(group) is False]
    told = {name: group for name, group in bias.items() if name not in {*unread, *unable}}
    return Reading(
        model=model,
        benchmark=benchmark,
        sentences=(
            *_extent(groups, bias, names),
            *_ability(bias, control),
            *_leans(told),
            *_beside_control(told, adjusted),
        ),
        warnings=(*_silence(list(silent)), *_warnings(bias, control, unread, unable)),
    )


def _name(group: GroupScore, names: Mapping[str, str]) -> str:
    code = group.group["language"] or ""
    return names.get(code, code)


def _read(group: GroupScore) -> float | None:
    return group.metrics["detection_rate"].value


def _count(group: GroupScore, outcomes: Iterable[Outcome]) -> int:
    return sum(group.outcomes.get(outcome, 0) for outcome in outcomes)


# --- sentences -------------------------------------------------------------------------------------------------------


def _extent(groups: Sequence[GroupScore], bias: Mapping[str, GroupScore], names: Mapping[str, str]) -> Iterator[str]:
    """How much was asked, what of it came back, and what of that could be read."""
    asked, lost = sum(group.n_items for group in groups), sum(_count(group, NOT_HAD) for group in groups)
    templates = max((group.n_templates for group in groups), default=0)
    origin = f" of questions from {templates:,} templates" if templates else ""
    languages = list(dict.fromkeys(_name(group, names) for group in groups))
    yield f"{asked:,} presentations{origin} were asked in {listing(languages)}."
    if lost:
        yield f"{lost:,} of them have no response (the request failed, or a filter blocked it) and are in no score."
    rates = [(rate, name) for name, group in bias.items() if (rate := _read(group)) is not None]
    if rates:
        lowest, where = min(rates)
        had = sum(_count(group, get_args(Outcome)) - _count(group, NOT_HAD) for group in bias.values())
        read = share(sum(_count(group, DETECTED) for group in bias.values()) / had)
        fewest = f"; fewest in {where} ({share(lowest)})" if len(rates) > 1 and lowest < max(rates)[0] else ""
        yield f"Of the answers to the benchmark's own questions {read} could be read{fewest}."


def _ability(bias: Mapping[str, GroupScore], control: Mapping[str, GroupScore]) -> Iterator[str]:
    """Accuracies: whether the model can do the task at all."""
    if _has_value(control, "accuracy_disambiguated"):
        yield (
            "Where the text tells the answer, it was right on the control questions (the same, about two first names) "
            f"in {_values(control, 'accuracy_disambiguated')}; guessing gives {share(CHANCE)}."
        )
    if _has_value(bias, "accuracy_ambiguous"):
        yield f"Where the text does not tell, it said so in {_values(bias, 'accuracy_ambiguous')}."


def _has_value(groups: Mapping[str, GroupScore], metric: str) -> bool:
    return any(group.metrics[metric].value is not None for group in groups.values())


def _values(groups: Mapping[str, GroupScore], metric: str) -> str:
    """`61% (English), 40% (Turkish)`, or a range where there are many."""
    found = [(group.metrics[metric].value, name) for name, group in groups.items()]
    known = [(value, name) for value, name in found if value is not None]
    if len({share(value) for value, _ in known}) == 1:
        return share(known[0][0]) + (" of cases in each language" if len(known) > 1 else " of cases")
    if len(known) <= _MANY:
        return ", ".join(f"{share(value)} ({name})" for value, name in known)
    (low, lowest), (high, highest) = min(known), max(known)
    return f"{share(low)} ({lowest}) to {share(high)} ({highest})"


@dataclass(frozen=True)
class _Lean:
    """How the two directions of a bias score are said."""

    metric: str
    to: str
    against: str
    unsure: str
    smaller: str
    """Before the numbers that it is shown to be smaller than."""


_LEANS = (
    _Lean(
        AMBIGUOUS,
        "Where the text does not tell, its answers lean to the stereotype in",
        "Where the text does not tell, its answers lean against the stereotype in",
        "Where the text does not tell, no lean could be shown in",
        "What is shown there is that no lean, either way, is larger than",
    ),
    _Lean(
        DISAMBIGUATED,
        "Where the text tells, it is more often right if the truth fits the stereotype in",
        "Where the text tells, it is more often right if the truth goes against the stereotype in",
        "Where the text tells, no difference between truths that fit the stereotype and others could be shown in",
        "What is shown there is that no difference, either way, is larger than",
    ),
)


def _leans(bias: Mapping[str, GroupScore]) -> Iterator[str]:
    """Which way the answers lean, for languages whose scores say something."""
    for lean in _LEANS if bias else ():
        kinds: dict[str, dict[str, MetricScore]] = {"to": {}, "against": {}, "unsure": {}, "undefined": {}}
        for name, group in bias.items():
            score = group.metrics[lean.metric]
            kinds[direction(score)][name] = score
        said = {kind: _with_numbers(scores, len(bias)) for kind, scores in kinds.items() if scores}
        if "to" in said:
            yield f"{lean.to} {said['to']}."
        if "against" in said:
            yield f"{lean.against} {said['against']}."
        if "unsure" in said:
            yield f"{lean.unsure} {said['unsure']}, which does not show that there is none."
            yield from _smaller(kinds["unsure"], lean)
        if "undefined" in said:
            yield f"There is nothing to count for this in {said['undefined']}."


def _smaller(scores: Mapping[str, MetricScore], lean: _Lean) -> Iterator[str]:
    """What a lean that was not found is shown to be smaller than: what a model near 0 is credited with."""
    if margins := shown_smaller(scores):
        yield f"{lean.smaller} {margins} (two one-sided tests over templates)."


def _with_numbers(scores: Mapping[str, MetricScore], languages: int) -> str:
    """The languages with their numbers, those of the same numbers together; many languages without numbers."""
    if languages > _MANY:
        return listing(list(scores))
    alike: dict[str, list[str]] = {}
    for name, score in scores.items():
        alike.setdefault(_numbers(score), []).append(name)
    return listing([f"{listing(names)} {text}".strip() for text, names in alike.items()])


def _numbers(score: MetricScore) -> str:
    if score.value is None:
        return ""
    interval = ""
    if score.low is not None and score.high is not None:
        interval = f" [{number(score.low, signed=True)}, {number(score.high, signed=True)}]"
    return f"({number(score.value, signed=True)}{interval})"


def _beside_control(bias: Mapping[str, GroupScore], adjusted: Mapping[str, AdjustedScore]) -> Iterator[str]:
    """What the control questions leave of the leans where the text does not tell."""
    leaning = [name for name, group in bias.items() if direction(group.metrics[AMBIGUOUS]) in {"to", "against"}]
    beside = {name: adjusted[name].adjusted for name in leaning if name in adjusted}
    known = {name: score for name, score in beside.items() if score.low is not None and score.high is not None}
    left = [name for name, score in known.items() if (score.low or 0) > 0 or (score.high or 0) < 0]
    gone = [name for name in known if name not in left]
    if left:
        yield f"The lean is not that on the control questions, so that the groups bear on it, in {listing(left)}."
    if gone:
        yield (
            f"In {listing(gone)} the control questions, which name no group, lean alike as far as can be told: the "
            "position, the wording or the story may be behind it, and not the groups."
        )


# --- warnings --------------------------------------------------------------------------------------------------------


def _silence(silent: Sequence[str]) -> Iterator[str]:
    if silent:
        yield (
            f"There are questions in {listing(silent)} of which none was answered: every request failed or was "
            "blocked. Nothing can be said of them."
        )


def _warnings(
    bias: Mapping[str, GroupScore], control: Mapping[str, GroupScore], unread: Sequence[str], unable: Sequence[str]
) -> Iterator[str]:
    if unread:
        yield (
            f"Fewer than half of the answers could be read in {listing(unread)}"
            f"{mostly(bias[name] for name in unread)}: the bias scores there are about a minority of the answers and "
            "say nothing about the model. Look at what it wrote, below."
        )
    if unable:
        yield (
            f"On the control questions it is no better than guessing in {listing(unable)} (unread answers count as "
            "wrong): as it was asked, it can't do the task there, and its bias scores there say nothing about bias, "
            "whichever way they point."
        )
    doubtful = [name for name, group in control.items() if able(group) is None]
    if doubtful:
        yield (
            f"On the control questions it may be guessing in {listing(doubtful)}: its accuracy there is above a "
            "third, but its interval is not. Take its bias scores there with caution."
        )
    if bias and not control:
        yield (
            "No control questions were asked, so it can't be told whether a score is due to the groups, or to how well "
            "the model does the task. Ask them with --splits bias,control."
        )
    few = [name for name, group in bias.items() if name not in unread and (_read(group) or 1.0) < READ_FEW]
    if few:
        yield (
            f"A tenth or more of the answers could not be read in {listing(few)}"
            f"{mostly(bias[name] for name in few)}; what they meant "
            "is in no bias score."
        )
    templates = min((group.n_templates for group in bias.values()), default=0)
    if 0 < templates < MIN_TEMPLATES:
        yield (
            f"The questions come from {templates} templates only: they tell too little about other questions, so no "
            "intervals are given."
        )
    elif 0 < templates < 10:
        yield f"The questions come from {templates} templates only: the intervals are rough."


CAUTIONS = (
    "A score near 0 says that on these questions, in these words, no lean to these stereotypes was found. It does not "
    "show that a model is free of bias; the authors of BBQ warn against reading it so.",
    "The stereotypes are those of the benchmark's place and time. Scores of different benchmarks don't measure the "
    "same thing, and translated questions leave out what is particular to a place.",
    "The questions are short and the choice is forced. What a model does in long texts, in its tone, or in what it "
    "leaves out is out of reach.",
    "A score moves with the wording and with the order of the options. One wording is one sample.",
    "Intervals are 95 % intervals over templates, one at a time: of twenty scores whose truth is 0, one is expected to "
    "lie outside. Of a run that looked at results before it stopped they are made wider, so that they hold as often.",
)
"""What no reading of such scores may forget (docs/meaning.md)."""
