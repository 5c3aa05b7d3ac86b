"""Agreement and differences of a judge and the rules, and their accuracy by annotations.

Two extractions agree if they choose the same option, or both none; the outcome (refusal, abstention, …) may differ,
because it does not affect scores. Invalid replies of the judge are counted and left out. Kappa is Cohen's, over target,
non-target, unknown (or first and second person, without roles) and none; its interval is clustered by template.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Literal

from mbbq_gen.analysis.agreement import equality_and_kappa
from mbbq_gen.annotation.judge import BY_CHANCE, INVALID, LLMJudge, is_valid
from mbbq_gen.annotation.review import Annotation
from mbbq_gen.core.records import Confidence, FrozenModel, Outcome
from mbbq_gen.statistics.estimate import EstimateResult, InferenceSettings, no_score
from mbbq_gen.statistics.intervals import Proportion, proportion
from mbbq_gen.storage.ledgers import ChosenBy, JudgedAnswer
from mbbq_gen.storage.store import Progress

Basis = Literal["all", "sample", "only", "nothing"]
"""Basis of the agreement: all responses, a random sample, a selection (`--only`), or none."""


class Agreement(FrozenModel):
    """Agreement of a judge with the rules in a group of responses."""

    group: str
    """A language, or `all`."""
    n: int
    """Responses that both have extracted."""
    unparsed: int
    """Responses with an invalid reply of the judge; in no share."""
    equal_share: EstimateResult
    kappa: EstimateResult


class JudgeDisagreement(FrozenModel):
    """A response with different choices by the rules and the judge; `mbbq-gen explain` shows it by its id."""

    prompt_id: str
    language: str
    outcome: Outcome
    option: int | None
    """Position in the prompt, counted from 0, by the rules."""
    confidence: Confidence
    rule: str
    judge_outcome: Outcome
    judge_option: int | None
    judge_rule: str


class Accuracy(FrozenModel):
    """Accuracy of the judge and the rules on the same annotated responses."""

    group: str
    judge: Proportion
    rules: Proportion


class JudgeReport(FrozenModel):
    """The report of a judge on the extractions of a run."""

    schema_version: Literal["mbbq-gen.judge/1"] = "mbbq-gen.judge/1"
    run: str
    judge: str
    model: str
    prompt_version: int
    prompt_sha256: str
    extractor: str
    """Its extractor name in `score` and `compare`."""
    compared_with: dict[str, str]
    requests: int
    answered: int
    failed: int
    cost: float | None
    """In US dollars; None where no price is known, or nothing is charged."""
    basis: Basis
    answers: int
    """Responses with a reply, from any selection."""
    selection: dict[ChosenBy, int]
    faults: dict[str, int]
    """Fault of invalid replies → number."""
    agreement: tuple[Agreement, ...]
    """By language, then overall; computed from `basis`."""
    differences: tuple[JudgeDisagreement, ...]
    """Of all responses with a reply, from any selection."""
    annotated: tuple[Accuracy, ...]
    """By language, then overall; empty without annotations."""


def judge_report(
    pairs: Iterable[JudgedAnswer],
    judge: LLMJudge,
    versions: Mapping[str, str],
    annotations: Mapping[str, Annotation],
    progress: Progress,
    *,
    run: str,
    cost: float | None,
    sampling: InferenceSettings,
) -> JudgeReport:
    """The report of a judge; agreement is computed from representative responses, if there are any."""
    everything = list(pairs)
    counted = [pair for pair in everything if pair.selection in BY_CHANCE]
    basis: Basis = "all" if all(pair.selection == "all" for pair in counted) else "sample"
    if not counted:
        basis, counted = ("only" if everything else "nothing"), everything
    languages = sorted({pair.language for pair in counted})
    faults = Counter(pair.judge.rule.removeprefix(INVALID) for pair in everything if not is_valid(pair.judge.rule))
    return JudgeReport(
        run=run,
        judge=judge.name,
        model=judge.model,
        prompt_version=judge.prompt.version,
        prompt_sha256=judge.prompt.digest,
        extractor=judge.extractor,
        compared_with=dict(versions),
        **asdict(progress),
        cost=cost,
        basis=basis,
        answers=len(everything),
        selection=dict(sorted(Counter(pair.selection for pair in everything).items())),
        faults=dict(faults.most_common()),
        agreement=tuple(
            _agreement(group, [pair for pair in counted if group in ("all", pair.language)], sampling)
            for group in (*languages, "all")
        ),
        differences=tuple(
            JudgeDisagreement(
                prompt_id=pair.prompt_id,
                language=pair.language,
                **pair.rules._asdict(),
                **{f"judge_{name}": getattr(pair.judge, name) for name in ("outcome", "option", "rule")},
            )
            for pair in everything
            if is_valid(pair.judge.rule) and pair.rules.option != pair.judge.option
        ),
        annotated=tuple(_annotated(everything, annotations, sampling.confidence)),
    )


def _agreement(group: str, pairs: Sequence[JudgedAnswer], sampling: InferenceSettings) -> Agreement:
    import numpy as np

    both = [pair for pair in pairs if is_valid(pair.judge.rule)]
    unparsed = len(pairs) - len(both)
    if not both:
        nothing = no_score("the judge has read nothing")
        return Agreement(group=group, n=0, unparsed=unparsed, equal_share=nothing, kappa=nothing)
    templates, rows = np.unique([pair.template for pair in both], return_inverse=True)
    choices = [pair.rules_choice for pair in both] + [pair.judge_choice for pair in both]
    names, columns = np.unique(choices, return_inverse=True)
    tables = np.zeros((len(templates), len(names), len(names)))
    np.add.at(tables, (rows, *columns.reshape(2, -1)), 1)
    equal_share, kappa = equality_and_kappa(tuple(map(str, templates)), tables, sampling)
    return Agreement(group=group, n=len(both), unparsed=unparsed, equal_share=equal_share, kappa=kappa)


def _annotated(
    pairs: Sequence[JudgedAnswer], annotations: Mapping[str, Annotation], interval: float
) -> Iterator[Accuracy]:
    """Accuracy on annotated responses; an invalid reply counts as wrong."""
    known = [pair for pair in pairs if pair.prompt_id in annotations]
    if not known:
        return
    for group in (*sorted({pair.language for pair in known}), "all"):
        part = [pair for pair in known if group in ("all", pair.language)]
        right = {pair.prompt_id: annotations[pair.prompt_id].right for pair in part}
        judged = [(is_valid(pair.judge.rule) and pair.judge.option == right[pair.prompt_id], 1.0) for pair in part]
        ruled = [(pair.rules.option == right[pair.prompt_id], 1.0) for pair in part]
        yield Accuracy(group=group, judge=proportion(judged, interval), rules=proportion(ruled, interval))
