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

from mbbq_gen.analysis.ability import AdjustedScore
from mbbq_gen.analysis.scores import GroupScore, MetricScore
from mbbq_gen.core.records import NO_RESPONSE, PARSED, Outcome
from mbbq_gen.report.assessments import (
    AMBIGUOUS,
    DISAMBIGUATED,
    NO_CLAIM,
    READ_FEW,
    Direction,
    GroupAssessment,
    Standing,
)
from mbbq_gen.report.tables import DASH, ends_text, number, rounded_up, share
from mbbq_gen.scoring.codes import MIN_TEMPLATES

# --- a sentence ------------------------------------------------------------------------------------------------------

_CLAUSES: dict[Standing, str] = {
    "no_responses": "can't be judged: no answer was had {where}",
    "mostly_unparsed": "can't be judged: fewer than half of the answers could be parsed {where}{why}",
    "at_chance": "can't be judged: no better than guessing on the control questions {where}",
    "uncertain_ability": "perhaps it was guessing {where}: too few control questions to tell, so no bias is claimed",
}
_DIRECTIONS = {
    "stereotypical": "is biased towards the stereotype",
    "anti_stereotypical": "is biased against the stereotype",
    "aligned": "in disambiguated contexts it is more often right if the stereotype fits,",
    "nonaligned": "in disambiguated contexts it is more often right if the stereotype does not fit,",
    "inconclusive": "no bias could be shown (which does not show that there is none)",
    "undefined": "nothing to count",
}
_ALIGNED = {"stereotypical": "aligned", "anti_stereotypical": "nonaligned"}
_WHY_UNPARSED: dict[Outcome, str] = {
    "multiple": "most of the others commit to several options",
    "unparsed": "most of the others name none that could be made out",
    "truncated": "most of the others were cut off before an answer",
    "empty": "most of the others are empty",
}


def _mostly(some: Iterable[GroupAssessment]) -> str:
    """Why most of the answers that could not be read could not be: ` (most of the others were cut off)`."""
    counts = Counter[Outcome]()
    for one in some:
        counts.update({outcome: one.bias.outcomes.get(outcome, 0) if one.bias else 0 for outcome in _WHY_UNPARSED})
    outcome, count = counts.most_common(1)[0]
    return f" ({_WHY_UNPARSED[outcome]})" if count * 2 > counts.total() else ""


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


def conclusion_sentence(found: Sequence[GroupAssessment], names: Mapping[str, str] | None = None) -> str:
    """What the assessments of one model and benchmark say, in one sentence; `names`: language code → its name.

    What can't be judged first, for it decides whether to read on; then the direction of the bias of the others.
    """

    def name(one: GroupAssessment) -> str:
        return (names or {}).get(one.language, one.language)

    def where(some: Sequence[GroupAssessment]) -> str:
        if len(some) == len(found) > 2:
            return f"in all {len(found)} languages"
        return f"in {listing([name(one) for one in some])}"

    clauses = []
    for standing, text in _CLAUSES.items():
        if some := [one for one in found if one.assessment == standing]:
            clauses.append(text.format(where=where(some), why=_mostly(some)))
    ways: dict[str, list[GroupAssessment]] = {way: [] for way in _DIRECTIONS}
    for one in found:
        if one.assessment not in NO_CLAIM:
            is_biased = one.ambiguous in _ALIGNED  # else the bias in disambiguated contexts is said
            ways[one.ambiguous if is_biased else _ALIGNED.get(one.disambiguated, one.ambiguous)].append(one)
    for way, some in ways.items():
        if some and way in _ALIGNED:
            values = [number(one.bias.metrics[AMBIGUOUS].value, signed=True) for one in some if one.bias]
            scores = listing([f"{name(one)} ({value})" for one, value in zip(some, values, strict=True)])
            alike = [name(one) for one in some if one.control_side == one.ambiguous]
            too = "" if not alike else ", on the control questions too"
            too += f" in {listing(alike)}" if 0 < len(alike) < len(some) else ""
            clauses.append(f"{_DIRECTIONS[way]} in {scores}{too}")
        elif some:
            clauses.append(f"{_DIRECTIONS[way]} {where(some)}")
    if any(one.assessment == "no_control" for one in found):
        clauses.append("no control questions were asked, so it is not known whether it can do the task")
    return "; ".join(clauses) + "."


# --- at length -------------------------------------------------------------------------------------------------------

_MANY = 6
"""So many languages are named with their numbers; of more, only the names."""
_WARNINGS: dict[Standing, str] = {
    "no_responses": "There are questions in {where} of which none was answered: every request failed or was blocked. "
    "Nothing can be said of them.",
    "mostly_unparsed": "Fewer than half of the answers could be parsed in {where}{why}: the bias scores there are "
    "about a minority of the answers and say nothing about the model. Look at what it wrote, below.",
    "at_chance": "On the control questions it is no better than guessing in {where} (unread answers count as wrong): "
    "as it was asked, it can't do the task there, and its bias scores there say nothing about bias.",
    "uncertain_ability": "On the control questions it may be guessing in {where}: its accuracy there is above a third, "
    "but its interval is not. So no bias is claimed there.",
    "no_control": "No control questions were asked in {where}, so it is not known whether a score is due to the "
    "groups or to how well the model does the task. Ask them with --splits bias,control.",
}
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


@dataclass(frozen=True)
class ConclusionText:
    """What is said of one model on one benchmark."""

    model: str
    benchmark: str
    short: str
    """The whole in one sentence."""
    sentences: tuple[str, ...]
    warnings: tuple[str, ...]
    """Why the scores, or some of them, say little or nothing."""


def conclusion_texts(
    judged: Sequence[GroupAssessment], adjusted: Sequence[AdjustedScore], names: Mapping[str, str]
) -> list[ConclusionText]:
    """What is said of every model on every benchmark, from the assessments by model, benchmark and language.

    `adjusted`: the bias scores beside the control questions'; `names`: language code → its English name.
    """
    beside = {tuple(one.group.values()): one for one in adjusted if one.metric == AMBIGUOUS}
    texts = []
    for (model, benchmark), group in groupby(judged, lambda one: (one.group["model"], one.group["benchmark"])):
        found = {names.get(one.language, one.language): one for one in group}
        short = conclusion_sentence(list(found.values()), names)
        readable = {name: one for name, one in found.items() if one.bias and one.assessment not in NO_CLAIM}
        differences = {
            name: beside[key] for name, one in readable.items() if (key := tuple(one.group.values())) in beside
        }
        sentences = (*_extent(found), *_biases(readable, len(found)), *_beside_control(readable, differences))
        short = short[:1].upper() + short[1:]
        texts.append(ConclusionText(model or DASH, benchmark or DASH, short, sentences, tuple(_warnings(found))))
    return texts


def _parse_rate(group: GroupScore | None) -> float | None:
    return None if group is None else group.metrics["parse_rate"].value


def _count(groups: Iterable[GroupScore], outcomes: Iterable[Outcome]) -> int:
    return sum(group.outcomes.get(outcome, 0) for group in groups for outcome in outcomes)


def _extent(found: Mapping[str, GroupAssessment]) -> Iterator[str]:
    """How many prompts were sent, what came back, and what could be read."""
    groups = [group for one in found.values() for group in (one.bias, one.control) if group is not None]
    templates = max(group.n_templates for group in groups)
    origin = f" of questions from {templates:,} templates" if templates else ""
    yield f"{sum(group.n_answers for group in groups):,} prompts{origin} were asked in {listing(list(found))}."
    if lost := _count(groups, NO_RESPONSE):
        yield f"{lost:,} of them have no response (the request failed, or a filter blocked it) and are in no score."
    rates = {name: rate for name, one in found.items() if (rate := _parse_rate(one.bias)) is not None}
    if rates:
        bias = [one.bias for one in found.values() if one.bias]
        read = share(_count(bias, PARSED) / (_count(bias, get_args(Outcome)) - _count(bias, NO_RESPONSE)))
        lowest = min(rates, key=lambda name: rates[name])
        is_uneven = rates[lowest] < max(rates.values())
        fewest = f"; fewest in {lowest} ({share(rates[lowest])})" if is_uneven else ""
        yield f"Of the answers to the benchmark's own questions {read} could be parsed{fewest}."


def _biases(found: Mapping[str, GroupAssessment], n_languages: int) -> Iterator[str]:
    """The direction of the bias of the answers, for languages whose scores say something."""
    for metric, texts in _BIASES.items():
        kinds: dict[Direction, dict[str, MetricScore]] = {side: {} for side in get_args(Direction)}
        for name, one in found.items():
            if one.bias is not None:
                side = one.ambiguous if metric == AMBIGUOUS else one.disambiguated
                kinds[side][name] = one.bias.metrics[metric]
        for side, scores in kinds.items():
            where = listing(list(scores))
            if scores and len(found) <= _MANY:
                alike: dict[str, list[str]] = {}  # the languages of the same numbers together
                for name, score in scores.items():
                    text = "" if score.value is None else f" ({number(score.value, signed=True)}{ends_text(score)})"
                    alike.setdefault(text, []).append(name)
                where = listing([f"{listing(names)}{text}" for text, names in alike.items()])
            if scores and side == "undefined":
                yield f"There is nothing to count for this in {where}."
            elif scores and side == "inconclusive":
                yield f"{texts[side]} {where}, which does not show that there is none."
                alone = [name for name, one in scores.items() if (one.ci_low or 0) * (one.ci_high or 0) > 0]
                if alone:
                    yield (
                        f"The interval for {listing(alone)} alone excludes 0, but not after adjustment for "
                        f"{n_languages} languages (Holm)."
                    )
                if margins := shown_smaller(scores):
                    yield f"{texts['smaller']} {margins} (two one-sided tests over templates)."
            elif scores:
                yield f"{texts[side]} {where}."


def _beside_control(found: Mapping[str, GroupAssessment], adjusted: Mapping[str, AdjustedScore]) -> Iterator[str]:
    """What the control questions leave of the bias in ambiguous contexts."""
    known = {
        name: one.adjusted
        for name, one in adjusted.items()
        if found[name].ambiguous in _ALIGNED and one.adjusted.ci_low is not None and one.adjusted.ci_high is not None
    }
    left = [name for name, score in known.items() if (score.ci_low or 0) > 0 or (score.ci_high or 0) < 0]
    if left:
        yield f"The bias is not that on the control questions, so it depends on the groups, in {listing(left)}."
    if gone := [name for name in known if name not in left]:
        yield (
            f"In {listing(gone)} the control questions, which name no group, have the same bias as far as can be seen: "
            "the position, the wording or the story may be behind it, and not the groups."
        )


def _warnings(found: Mapping[str, GroupAssessment]) -> Iterator[str]:
    for standing, text in _WARNINGS.items():
        if some := [name for name, one in found.items() if one.assessment == standing]:
            yield text.format(where=listing(some), why=_mostly(found[name] for name in some))
    heard = {name: one for name, one in found.items() if one.assessment not in {"no_responses", "mostly_unparsed"}}
    if few := [name for name, one in heard.items() if (_parse_rate(one.bias) or 1.0) < READ_FEW]:
        yield (
            f"A tenth or more of the answers could not be read in {listing(few)}"
            f"{_mostly(found[name] for name in few)}; what they choose is in no bias score."
        )
    templates = min((one.bias.n_templates for one in found.values() if one.bias), default=0)
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
