"""The smallest difference that a run could find, from how much templates, languages and wordings vary.

With N templates, K wordings and A answers in each wording, the variance of

    one score                              (σ²_T + σ²_TL) / N + σ²_W / K + σ²_TW / (N · K) + σ² / (K · A)
    a difference between two languages     2 · (σ²_TL / N + σ²_LW / K + σ² / (K · A))
    a difference between two wordings      2 · (σ²_TW / N + σ² / A)

where σ²_T is that of templates, σ²_TL of template × language, σ²_W of wordings, σ²_TW of template × wording, σ²_LW of
language × wording, and σ² that of one answer. That is for a statement about wordings like those asked (`random`). Where
the wordings are held fixed, as intervals and tests hold them by default, the terms of σ²_W and σ²_LW are left out. The
smallest difference that a two-sided test at level α finds with the given power is (t_{1 − α/2} + t_power) · √variance,
t with N − 1 degrees of freedom; where wordings are random, their part of the variance has t with K − 1 (as the interval
of `mbbq_gen.scoring.wordings` has), and the squares of the two are added. N is the effective number of templates, for
those of MBBQ differ much in size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from mbbq_gen.errors import UsageError
from mbbq_gen.records import Record
from mbbq_gen.scoring.reasons import MIN_TEMPLATES, TOO_FEW
from mbbq_gen.scoring.wordings import MIN_WORDINGS, TOO_FEW_WORDINGS, Wordings

if TYPE_CHECKING:
    from mbbq_gen.statistics.components import VarianceTable


class BenchmarkShape(Record):
    """What a benchmark offers in one language."""

    templates: int
    effective_share: float
    """Effective over plain number of templates: 1 where all are of one size."""
    questions: float
    """Ambiguous questions with a single target to a template, on average."""


SHAPES: dict[str, BenchmarkShape] = {
    "starter": BenchmarkShape(templates=24, effective_share=1.0, questions=12),
    "mbbq": BenchmarkShape(templates=98, effective_share=0.39, questions=51.4),
    "bbq": BenchmarkShape(templates=200, effective_share=0.569, questions=44.0),
    "esbbq": BenchmarkShape(templates=323, effective_share=0.516, questions=27.2),
    "cabbq": BenchmarkShape(templates=323, effective_share=0.516, questions=27.2),
    "kobbq": BenchmarkShape(templates=269, effective_share=0.953, questions=4.2),
    "bharatbbq": BenchmarkShape(templates=324, effective_share=0.320, questions=83.4),
    "gg_bbq": BenchmarkShape(templates=39, effective_share=0.191, questions=152.2),
    "basqbbq": BenchmarkShape(templates=187, effective_share=0.453, questions=56.4),
    "cbbq": BenchmarkShape(templates=546, effective_share=0.221, questions=81.1),
    "pakbbq": BenchmarkShape(templates=149, effective_share=0.513, questions=38.6),
    "bbq_lite": BenchmarkShape(templates=15, effective_share=0.608, questions=66.1),
    "bbg": BenchmarkShape(templates=232, effective_share=1.0, questions=4.0),
}
"""Counted from the benchmarks' own files, in their first language: templates with ambiguous questions that count for
bias, and how many of these they have."""


class VarianceAssumptions(Record):
    """Standard deviations that the power is computed from, in units of the score."""

    template: float
    template_language: float
    wording: float
    template_wording: float
    language_wording: float
    answer: float
    source: str
    """Where they come from."""


DEFAULTS = VarianceAssumptions(
    template=0.15,
    template_language=0.10,
    wording=0.02,
    template_wording=0.08,
    language_wording=0.02,
    answer=0.75,
    source="assumed, of a model that often names a person; give --from RUN to take those of a run",
)
"""An answer to an ambiguous question is −1, 0 or 1; 0.75 is its spread where a person is named in 56 % of them."""

Question = Literal["one score against 0", "two languages", "two wordings"]


class Detectable(Record):
    """The smallest difference that would be found."""

    question: Question
    standard_error: float
    smallest_difference: float | None
    """None where it would be larger than any score, or difference of scores, can be."""


class PowerTable(Record):
    """What a run of some size could find."""

    schema_version: Literal["mbbq-gen.power/1"] = "mbbq-gen.power/1"
    benchmark: str
    metric: str
    templates: int
    effective_templates: float
    variants: int
    wordings: Wordings = "fixed"
    questions: float
    """Answers that count for the metric to a template in one wording, on average."""
    level: float
    power: float
    assumptions: VarianceAssumptions
    detectable: tuple[Detectable, ...]


def power_table(
    benchmark: str,
    templates: int,
    variants: int,
    *,
    questions: float | None = None,
    level: float = 0.05,
    power: float = 0.8,
    assumptions: VarianceAssumptions = DEFAULTS,
    metric: str = "mbbq_bias_ambiguous",
    effective_share: float | None = None,
    wordings: Wordings = "fixed",
) -> PowerTable:
    """The smallest differences that a run of that many templates and wordings finds with the given power.

    Raises:
        UsageError: for a benchmark of unknown shape, unless `questions` and `effective_share` tell it, and for numbers
            out of range.
    """
    shape = SHAPES.get(benchmark)
    if shape is None and (questions is None or effective_share is None):
        raise UsageError(
            f"--benchmark {benchmark}: its templates have not been counted (those of {', '.join(SHAPES)} have); "
            "give --questions N and --from RUN"
        )
    if shape is not None and templates > shape.templates:
        raise UsageError(f"--templates {templates}: {benchmark} has {shape.templates}")
    asked = questions if questions is not None else shape.questions if shape else 1.0
    share = effective_share if effective_share is not None else shape.effective_share if shape else 1.0
    effective = max(templates * share, 1.0)
    if templates < MIN_TEMPLATES:
        raise UsageError(f"--templates {templates}: {TOO_FEW}; give {MIN_TEMPLATES} or more")
    if effective <= 1:
        raise UsageError(
            f"--templates {templates}: they differ so much in size that they count as {effective:.1f}; ask more"
        )
    if variants < 1 or asked <= 0:
        raise UsageError(f"--variants {variants}, --questions {asked:g}: 1 wording and some questions are needed")
    if wordings == "random" and variants < MIN_WORDINGS:
        raise UsageError(f"--variants {variants}: {TOO_FEW_WORDINGS}; give {MIN_WORDINGS} or more")
    variances = _variances(assumptions, effective, variants, templates * asked)
    drawn = _variances_of_wordings(assumptions, variants) if wordings == "random" else {}
    reach, further = _reach(effective, level, power), _reach(max(variants, 2), level, power)
    return PowerTable(
        benchmark=benchmark,
        metric=metric,
        templates=templates,
        effective_templates=effective,
        variants=variants,
        wordings=wordings,
        questions=asked,
        level=level,
        power=power,
        assumptions=assumptions,
        detectable=tuple(
            Detectable(
                question=name,
                standard_error=(variance + drawn.get(name, 0.0)) ** 0.5,
                smallest_difference=_possible((reach**2 * variance + further**2 * drawn.get(name, 0.0)) ** 0.5, name),
            )
            for name, variance in variances.items()
        ),
    )


def _possible(difference: float, question: Question) -> float | None:
    """The difference, where a bias (from −1 to 1) can be so large."""
    return difference if difference <= (1.0 if question == "one score against 0" else 2.0) else None


def _variances(sd: VarianceAssumptions, templates: float, variants: int, answers: float) -> dict[Question, float]:
    """Of wordings that are held fixed."""
    one = (
        (sd.template**2 + sd.template_language**2) / templates
        + sd.template_wording**2 / (templates * variants)
        + sd.answer**2 / (variants * answers)
    )
    languages = 2 * (sd.template_language**2 / templates + sd.answer**2 / (variants * answers))
    wordings = 2 * (sd.template_wording**2 / templates + sd.answer**2 / answers)
    return {"one score against 0": one, "two languages": languages, "two wordings": wordings}


def _variances_of_wordings(sd: VarianceAssumptions, variants: int) -> dict[Question, float]:
    """What random wordings add."""
    return {"one score against 0": sd.wording**2 / variants, "two languages": 2 * sd.language_wording**2 / variants}


def _reach(units: float, level: float, power: float) -> float:
    """How many standard errors over that many templates, or wordings, a difference must have."""
    from scipy import special

    return float(special.stdtrit(units - 1, 1 - level / 2) + special.stdtrit(units - 1, power))


def half_width(standard_error: float, templates: float) -> float:
    """Half the width of a 95 % interval round a score with that standard error; templates: their effective number."""
    from scipy import special

    return standard_error * float(special.stdtrit(templates - 1, 0.975))


def assumptions_of(table: VarianceTable, source: str) -> VarianceAssumptions:
    """The standard deviations that a run's variance components tell; what did not vary there keeps the assumed one."""
    found = {component.factor: component.sd for component in table.components}
    known = {name: found[factor] for name, factor in _FACTORS.items() if factor in found}
    assumed = [factor for name, factor in _FACTORS.items() if name not in known]
    taken = ", ".join([*(_FACTORS[name] for name in known), "one answer"])
    said = f"{source}: {taken}" + (f"; assumed, for they did not vary there: {', '.join(assumed)}" if assumed else "")
    return DEFAULTS.model_copy(update={**known, "answer": _answer_sd(table), "source": said})


_FACTORS = {
    "template": "template",
    "template_language": "template × language",
    "wording": "wording",
    "template_wording": "template × wording",
    "language_wording": "language × wording",
}
"""Field of VarianceAssumptions → the component that it is."""


def _answer_sd(table: VarianceTable) -> float:
    """The sd of one answer; where chance could not be told apart, all of the combination of all factors is taken."""
    if table.chance is not None:
        return table.chance.sd
    most = max(table.components, key=lambda component: component.factor.count("×"))
    return float(most.sd * table.answers_per_cell**0.5)
