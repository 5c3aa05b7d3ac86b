"""Conclusions from the scores: what was parsed, what the model can do, the direction of its bias, what is open.

No model is ever called free of bias here, for no benchmark can show that. Where the answers could not be read, or the
control questions show that the model can't do the task, the text says that its bias scores say nothing, and why.
The cautions are the papers': BBQ §9, MBBQ §3.4 and §6, and docs/what-scores-mean.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import get_args

from mbbq_gen.analysis.ability import CHANCE, AdjustedScore
from mbbq_gen.analysis.scores import GroupScore, MetricScore, ScoreTable
from mbbq_gen.core.records import NO_RESPONSE, PARSED, Outcome
from mbbq_gen.report.assessments import (
    AMBIGUOUS,
    DISAMBIGUATED,
    NO_CLAIM,
    READ_FEW,
    READ_TOO_FEW,
    Direction,
    GroupAssessment,
    Standing,
    able,
    directions,
)
from mbbq_gen.report.tables import DASH, ends_text, number, rounded_up, share
from mbbq_gen.scoring.codes import MIN_TEMPLATES

# --- a sentence ------------------------------------------------------------------------------------------------------

WHY_UNPARSED: dict[Outcome, str] = {
    "multiple": "most of the others commit to several options",
    "unparsed": "most of the others name none that could be made out",
    "truncated": "most of the others were cut off before an answer",
    "empty": "most of the others are empty",
}


def mostly(groups: Iterable[GroupScore]) -> str:
    """Why most of the answers that could not be read could not be: ` (most of the others were cut off)`."""
    counts = Counter[Outcome]()
    for group in groups:
        counts.update({outcome: group.outcomes.get(outcome, 0) for outcome in WHY_UNPARSED})
    outcome, count = counts.most_common(1)[0]
    return f" ({WHY_UNPARSED[outcome]})" if count * 2 > counts.total() else ""


def listing(names: Sequence[str]) -> str:
    """`a, b and c`."""
    if len(names) < 2:
        return names[0] if names else "no language"
    return f"{', '.join(names[:-1])} and {names[-1]}"


def shown_smaller(scores: Mapping[str, MetricScore]) -> str:
    """What biases are shown to be smaller than, by language: `0.04 in en and 0.06 in nl and tr`; empty for nothing."""
    margins: dict[str, list[str]] = {}
    for name, score in scores.items():
        if score.equivalence_bound is not None and rounded_up(score.equivalence_bound) != "1.00":
            margins.setdefault(rounded_up(score.equivalence_bound), []).append(name)
    return listing([f"{margin} in {listing(names)}" for margin, names in margins.items()]) if margins else ""


def conclusion_sentence(found: Sequence[GroupAssessment], names: Mapping[str, str] | None = None) -> str:
    """What the verdicts on one model and benchmark say, in one sentence; `names`: language code → its name."""
    return "; ".join(_clauses(found, names or {})) + "."


def by_name(found: Sequence[GroupAssessment], names: Sequence[str]) -> list[tuple[str, list[GroupAssessment]]]:
    """The assessments of every model and benchmark, or whatever `names` groups by, after its name; "" for one."""
    groups = [
        (values, list(group)) for values, group in groupby(found, lambda one: tuple(one.group[name] for name in names))
    ]
    alone = len(groups) < 2
    return [("" if alone else f"{', '.join(value or DASH for value in values)}: ", group) for values, group in groups]


def model_sentences(found: Sequence[GroupAssessment], names: Sequence[str]) -> list[str]:
    """A line for every model and benchmark, or whatever `names` groups by; one alone goes without its name."""
    return [named + conclusion_sentence(group) for named, group in by_name(found, names)]


def _clauses(found: Sequence[GroupAssessment], names: Mapping[str, str]) -> Iterator[str]:
    """What can't be judged first, for it decides whether to read on; then the direction of the bias of the others."""

    def where(some: Sequence[GroupAssessment], *, scores: bool = False) -> str:
        if len(some) == len(found) > 2 and not scores:
            return f"in all {len(found)} languages"
        return "in " + listing(
            [names.get(one.language, one.language) + (_score(one) if scores else "") for one in some]
        )

    by_standing = {standing: [one for one in found if one.assessment == standing] for standing in get_args(Standing)}
    if some := by_standing["no_responses"]:
        yield f"can't be judged: no answer was had {where(some)}"
    if some := by_standing["mostly_unparsed"]:
        why = mostly(one.bias for one in some if one.bias is not None)
        yield f"can't be judged: fewer than half of the answers could be parsed {where(some)}{why}"
    if some := by_standing["at_chance"]:
        yield f"can't be judged: no better than guessing on the control questions {where(some)}"
    if some := by_standing["uncertain_ability"]:
        yield f"perhaps it was guessing {where(some)}: too few control questions to tell, so no bias is claimed there"
    judged = [one for one in found if one.assessment not in NO_CLAIM]
    for way, says in _DIRECTIONS.items():
        if some := [one for one in judged if _bias(one) == way]:
            has_side = way in {"stereotypical", "anti_stereotypical"}
            yield f"{says} {where(some, scores=has_side)}{_on_control(some, names) if has_side else ''}"
    if by_standing["no_control"]:
        yield "no control questions were asked, so it is not known whether it can do the task"


_DIRECTIONS = {
    "stereotypical": "is biased towards the stereotype",
    "anti_stereotypical": "is biased against the stereotype",
    "aligned": "in disambiguated contexts it is more often right if the stereotype fits,",
    "nonaligned": "in disambiguated contexts it is more often right if the stereotype does not fit,",
    "inconclusive": "no bias could be shown (which does not show that there is none)",
    "undefined": "nothing to count",
}


def _bias(assessment: GroupAssessment) -> str:
    """Which of _DIRECTIONS holds: the bias in ambiguous contexts, else that in disambiguated ones."""
    if assessment.ambiguous in {"stereotypical", "anti_stereotypical"}:
        return assessment.ambiguous
    otherwise = {"stereotypical": "aligned", "anti_stereotypical": "nonaligned"}
    return otherwise.get(assessment.disambiguated, assessment.ambiguous)


def _score(assessment: GroupAssessment) -> str:
    """` (+0.49)`."""
    value = None if assessment.bias is None else assessment.bias.metrics[AMBIGUOUS].value
    return "" if value is None else f" ({number(value, signed=True)})"


def _on_control(some: Sequence[GroupAssessment], names: Mapping[str, str]) -> str:
    """Where the control questions, which name no group, have a bias in the same direction, for all languages."""
    sides = {names.get(one.language, one.language): one.control_side == one.ambiguous for one in some}
    alike, others = ([name for name, is_alike in sides.items() if is_alike == wanted] for wanted in (True, False))
    if not alike:
        return ""
    if not others:
        return ", on the control questions too"
    if len(others) < len(alike):
        return f", on the control questions too except in {listing(others)}"
    return f", on the control questions too in {listing(alike)}"


_MANY = 6
"""So many languages are named with their numbers; of more, only the names."""


@dataclass(frozen=True)
class ConclusionText:
    """What is said of one model on one benchmark."""

    model: str
    benchmark: str
    sentences: tuple[str, ...]
    warnings: tuple[str, ...]
    """Why the scores, or some of them, say little or nothing."""


def extractions(
    scores: ScoreTable, adjusted: Sequence[AdjustedScore], names: Mapping[str, str]
) -> list[ConclusionText]:
    """The reading of every model on every benchmark, from the scores of a report by model, benchmark, language, split.

    `adjusted`: the two bias scores beside the control questions'; `names`: language code → its English name.
    """
    groups: dict[tuple[str, str], list[GroupScore]] = {}
    for group in scores.groups:
        groups.setdefault((group.group["model"] or "the model", group.group["benchmark"] or ""), []).append(group)
    conclusions = []
    for (model, benchmark), some in groups.items():
        beside = {
            _name(one, names): one
            for one in adjusted
            if one.group["model"] == model and one.group["benchmark"] == benchmark and one.metric == AMBIGUOUS
        }
        conclusions.append(_extraction(model, benchmark, some, beside, names, confidence=scores.confidence_level))
    return conclusions


def _extraction(
    model: str,
    benchmark: str,
    groups: Sequence[GroupScore],
    adjusted: Mapping[str, AdjustedScore],
    names: Mapping[str, str],
    *,
    confidence: float | None,
) -> ConclusionText:
    heard = [group for group in groups if _read(group) is not None]
    bias = {_name(group, names): group for group in heard if group.group["split"] == "bias"}
    control = {_name(group, names): group for group in heard if group.group["split"] == "control"}
    silent = list(dict.fromkeys(_name(group, names) for group in groups if group not in heard))
    unparsed = [name for name, group in bias.items() if (_read(group) or 0) < READ_TOO_FEW]
    unable = [name for name, group in control.items() if able(group) is False]
    doubtful = [name for name, group in control.items() if able(group) is None]
    readable = {name: group for name, group in bias.items() if name not in {*unparsed, *unable, *doubtful}}
    sides = {
        metric: directions({name: group.metrics[metric] for name, group in bias.items()}, confidence)
        for metric in (AMBIGUOUS, DISAMBIGUATED)
    }
    return ConclusionText(
        model=model,
        benchmark=benchmark,
        sentences=(
            *_extent(groups, bias, control, names),
            *_biases(readable, sides),
            *_beside_control(readable, adjusted, sides[AMBIGUOUS]),
        ),
        warnings=tuple(_warnings(bias, control, silent=silent, unparsed=unparsed, unable=unable, doubtful=doubtful)),
    )


def _name(group: GroupScore | AdjustedScore, names: Mapping[str, str]) -> str:
    code = group.group["language"] or ""
    return names.get(code, code)


def _read(group: GroupScore) -> float | None:
    return group.metrics["parse_rate"].value


def _count(group: GroupScore, outcomes: Iterable[Outcome]) -> int:
    return sum(group.outcomes.get(outcome, 0) for outcome in outcomes)


# --- sentences -------------------------------------------------------------------------------------------------------


def _extent(
    groups: Sequence[GroupScore],
    bias: Mapping[str, GroupScore],
    control: Mapping[str, GroupScore],
    names: Mapping[str, str],
) -> Iterator[str]:
    """How many prompts were sent, what came back and could be read, and whether the model can do the task at all."""
    sent, lost = sum(group.n_answers for group in groups), sum(_count(group, NO_RESPONSE) for group in groups)
    templates = max((group.n_templates for group in groups), default=0)
    origin = f" of questions from {templates:,} templates" if templates else ""
    languages = list(dict.fromkeys(_name(group, names) for group in groups))
    yield f"{sent:,} prompts{origin} were asked in {listing(languages)}."
    if lost:
        yield f"{lost:,} of them have no response (the request failed, or a filter blocked it) and are in no score."
    rates = [(rate, name) for name, group in bias.items() if (rate := _read(group)) is not None]
    if rates:
        lowest, where = min(rates)
        had = sum(_count(group, get_args(Outcome)) - _count(group, NO_RESPONSE) for group in bias.values())
        read = share(sum(_count(group, PARSED) for group in bias.values()) / had)
        fewest = f"; fewest in {where} ({share(lowest)})" if len(rates) > 1 and lowest < max(rates)[0] else ""
        yield f"Of the answers to the benchmark's own questions {read} could be parsed{fewest}."
    if right := _values(control, "accuracy_disambiguated"):
        yield (
            "In disambiguated contexts it was right on the control questions (the same, about two first names) "
            f"in {right}; guessing gives {share(CHANCE)}."
        )
    if unknown := _values(bias, "accuracy_ambiguous"):
        yield f"In ambiguous contexts it chose the unknown option in {unknown}."


def _values(groups: Mapping[str, GroupScore], metric: str) -> str:
    """`61% (English), 40% (Turkish)`, or a range where there are many; empty where nothing is known."""
    found = [(group.metrics[metric].value, name) for name, group in groups.items()]
    known = [(value, name) for value, name in found if value is not None]
    if len({share(value) for value, _ in known}) == 1:
        return share(known[0][0]) + (" of cases in each language" if len(known) > 1 else " of cases")
    if len(known) <= _MANY:
        return ", ".join(f"{share(value)} ({name})" for value, name in known)
    (low, lowest), (high, highest) = min(known), max(known)
    return f"{share(low)} ({lowest}) to {share(high)} ({highest})"


_BIASES: dict[str, dict[str, str]] = {
    AMBIGUOUS: {
        "stereotypical": "In ambiguous contexts, its answers are biased towards the stereotype in",
        "anti_stereotypical": "In ambiguous contexts, its answers are biased against the stereotype in",
        "inconclusive": "In ambiguous contexts, no bias could be shown in",
        "smaller": "What is shown there is that no bias, in either direction, is larger than",
    },
    DISAMBIGUATED: {
        "stereotypical": "In disambiguated contexts, it is more often right if the truth fits the stereotype in",
        "anti_stereotypical": "In disambiguated contexts, it is more often right if the truth goes against the "
        "stereotype in",
        "inconclusive": "In disambiguated contexts, no difference between truths that fit the stereotype and others "
        "could be shown in",
        "smaller": "What is shown there is that no difference, either way, is larger than",
    },
}
"""Bias score → how its directions are said, and what stands before the numbers that it is shown to be smaller than."""


def _biases(bias: Mapping[str, GroupScore], sides: Mapping[str, Mapping[str, Direction]]) -> Iterator[str]:
    """The direction of the bias of the answers, for languages whose scores say something."""
    for metric, texts in _BIASES.items() if bias else ():
        kinds: dict[str, dict[str, MetricScore]] = {}
        for name, group in bias.items():
            kinds.setdefault(sides[metric][name], {})[name] = group.metrics[metric]
        said = {kind: _with_numbers(scores, len(bias)) for kind, scores in kinds.items()}
        for side in ("stereotypical", "anti_stereotypical"):
            if side in said:
                yield f"{texts[side]} {said[side]}."
        if scores := kinds.get("inconclusive"):
            yield f"{texts['inconclusive']} {said['inconclusive']}, which does not show that there is none."
            ends = {name: (one.ci_low, one.ci_high) for name, one in scores.items()}
            alone = [
                name for name, (low, high) in ends.items() if low is not None and high is not None and low * high > 0
            ]
            if alone:
                yield (
                    f"The interval for {listing(alone)} alone excludes 0, but not after adjustment for "
                    f"{len(sides[metric])} languages (Holm)."
                )
            if margins := shown_smaller(scores):
                yield f"{texts['smaller']} {margins} (two one-sided tests over templates)."
        if "undefined" in said:
            yield f"There is nothing to count for this in {said['undefined']}."


def _with_numbers(scores: Mapping[str, MetricScore], languages: int) -> str:
    """The languages with their numbers, those of the same numbers together; many languages without numbers."""
    if languages > _MANY:
        return listing(list(scores))
    alike: dict[str, list[str]] = {}
    for name, score in scores.items():
        text = "" if score.value is None else f" ({number(score.value, signed=True)}{ends_text(score)})"
        alike.setdefault(text, []).append(name)
    return listing([f"{listing(names)}{text}" for text, names in alike.items()])


def _beside_control(
    bias: Mapping[str, GroupScore], adjusted: Mapping[str, AdjustedScore], sides: Mapping[str, Direction]
) -> Iterator[str]:
    """What the control questions leave of the bias in ambiguous contexts."""
    off_zero = [name for name in bias if sides[name] in {"stereotypical", "anti_stereotypical"}]
    beside = {name: adjusted[name].adjusted for name in off_zero if name in adjusted}
    known = {name: one for name, one in beside.items() if one.ci_low is not None and one.ci_high is not None}
    left = [name for name, score in known.items() if (score.ci_low or 0) > 0 or (score.ci_high or 0) < 0]
    if left:
        yield f"The bias is not that on the control questions, so it depends on the groups, in {listing(left)}."
    if gone := [name for name in known if name not in left]:
        yield (
            f"In {listing(gone)} the control questions, which name no group, have the same bias as far as can be seen: "
            "the position, the wording or the story may be behind it, and not the groups."
        )


# --- warnings --------------------------------------------------------------------------------------------------------


def _warnings(
    bias: Mapping[str, GroupScore],
    control: Mapping[str, GroupScore],
    *,
    silent: Sequence[str],
    unparsed: Sequence[str],
    unable: Sequence[str],
    doubtful: Sequence[str],
) -> Iterator[str]:
    if silent:
        yield (
            f"There are questions in {listing(silent)} of which none was answered: every request failed or was "
            "blocked. Nothing can be said of them."
        )
    if unparsed:
        yield (
            f"Fewer than half of the answers could be parsed in {listing(unparsed)}"
            f"{mostly(bias[name] for name in unparsed)}: the bias scores there are about a minority of the answers and "
            "say nothing about the model. Look at what it wrote, below."
        )
    if unable:
        yield (
            f"On the control questions it is no better than guessing in {listing(unable)} (unread answers count as "
            "wrong): as it was asked, it can't do the task there, and its bias scores there say nothing about bias, "
            "whichever way they point."
        )
    if doubtful:
        yield (
            f"On the control questions it may be guessing in {listing(doubtful)}: its accuracy there is above a "
            "third, but its interval is not. So no bias is claimed there."
        )
    if bias and not control:
        yield (
            "No control questions were asked, so it can't be told whether a score is due to the groups, or to how well "
            "the model does the task. Ask them with --splits bias,control."
        )
    few = [name for name, group in bias.items() if name not in unparsed and (_read(group) or 1.0) < READ_FEW]
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
    "A score near 0 says that on these questions, in these words, no bias towards these stereotypes was found. It does "
    "not show that a model is free of bias; the authors of BBQ warn against reading it so.",
    "The stereotypes are those of the benchmark's place and time. Scores of different benchmarks don't measure the "
    "same thing, and translated questions leave out what is particular to a place.",
    "The questions are short and the choice is forced. What a model does in long texts, in its tone, or in what it "
    "leaves out is out of reach.",
    "A score moves with the wording and with the order of the options. One wording is one sample.",
    "Intervals are 95 % intervals over templates, one at a time: of twenty scores whose truth is 0, one is expected to "
    "lie outside. Of a run that looked at results before it stopped they are made wider, so that they hold as often.",
)
"""What no reading of such scores may forget (docs/what-scores-mean.md)."""
