"""The smallest difference that a run could find, from how much templates, languages and prompt variants vary.

With N templates, Q questions, K prompt variants and A answers in each prompt variant, the variance of

    one score                                   (σ²_T + σ²_TL) / N + σ²_W / K + σ²_TW / (N · K) + answers
    a difference between two languages          2 · (σ²_TL / N + σ²_LW / K + answers)
    a difference between two prompt variants    2 · (σ²_TW / N + (1 − ρ) · σ² / A)
    answers                                     σ² · (ρ / Q + (1 − ρ) / (K · A))

where σ²_T is that of templates, σ²_TL of template × language, σ²_W of prompt variants, σ²_TW of template × prompt
variant, σ²_LW of language × prompt variant, σ² that of one answer, and ρ the share of it that the question makes, which
asking again does not lessen (Brennan 2001, "Generalizability Theory", ch. 4). Where prompt variants are fixed, the
terms of σ²_W and σ²_LW are left out. The smallest difference that a two-sided test at level α finds with the given
power is (t_{1 − α/2} + t_power) · √variance, t with N − 1 degrees of freedom, N the effective number of templates;
random prompt variants have t with K − 1, and the squares of the two are added.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, get_args

import numpy as np

from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.records import FrozenModel
from mbbq_gen.scoring.cells import Array
from mbbq_gen.scoring.codes import MIN_TEMPLATES, TOO_FEW, PromptEffects
from mbbq_gen.statistics.intervals import MIN_PROMPT_VARIANTS, TOO_FEW_PROMPT_VARIANTS, t_quantile

if TYPE_CHECKING:
    from mbbq_gen.statistics.variance_components import VarianceTable


class BenchmarkSize(FrozenModel):
    """The size of a benchmark in one language."""

    templates: int
    effective_share: float
    """Effective over plain number of templates: 1 where all are of one size."""
    questions: float
    """Ambiguous questions with a single target to a template, on average."""


SHAPES: dict[str, BenchmarkSize] = {
    "starter": BenchmarkSize(templates=24, effective_share=1.0, questions=12),
    "mbbq": BenchmarkSize(templates=98, effective_share=0.39, questions=51.4),
    "bbq": BenchmarkSize(templates=200, effective_share=0.569, questions=44.0),
    "esbbq": BenchmarkSize(templates=323, effective_share=0.516, questions=27.2),
    "cabbq": BenchmarkSize(templates=323, effective_share=0.516, questions=27.2),
    "kobbq": BenchmarkSize(templates=269, effective_share=0.953, questions=4.2),
    "bharatbbq": BenchmarkSize(templates=324, effective_share=0.320, questions=83.4),
    "gg_bbq": BenchmarkSize(templates=39, effective_share=0.191, questions=152.2),
    "basqbbq": BenchmarkSize(templates=187, effective_share=0.453, questions=56.4),
    "cbbq": BenchmarkSize(templates=546, effective_share=0.221, questions=81.1),
    "pakbbq": BenchmarkSize(templates=149, effective_share=0.513, questions=38.6),
    "bbq_lite": BenchmarkSize(templates=15, effective_share=0.608, questions=66.1),
    "bbg": BenchmarkSize(templates=232, effective_share=1.0, questions=4.0),
}
"""Counted from the benchmarks' own files, in their first language: templates with ambiguous questions that count for
bias."""


class VarianceAssumptions(FrozenModel):
    """Standard deviations that the power is computed from, in units of the score."""

    template: float
    template_language: float
    prompt_variant: float
    template_prompt_variant: float
    language_prompt_variant: float
    answer: float
    source: str


DEFAULTS = VarianceAssumptions(
    template=0.15,
    template_language=0.10,
    prompt_variant=0.02,
    template_prompt_variant=0.08,
    language_prompt_variant=0.02,
    answer=0.75,
    source="assumed, of a model that often names a person; give --pilot RUN to take those of a run",
)
"""An answer to an ambiguous question is −1, 0 or 1; 0.75 is its spread where a person is named in 56 % of them."""

QUESTION_SHARE: Final = 0.5
"""ρ where no run gives it: an assumption."""

Question = Literal["one score against 0", "two languages", "two prompt variants"]


class DetectableEffect(FrozenModel):
    """The smallest difference that would be found."""

    question: Question
    standard_error: float
    minimum_detectable_effect: float | None
    """None where it would be larger than a score, or difference of scores, can be."""


class PowerTable(FrozenModel):
    """The smallest differences that a run of some size can detect."""

    schema_version: Literal["mbbq-gen.power/1"] = "mbbq-gen.power/1"
    benchmark: str
    metric: str
    templates: int
    n_templates_effective: float
    variants: int
    prompt_effects: PromptEffects = "fixed"
    questions: float
    """Answers that count for the metric to a template in one prompt variant, on average."""
    level: float
    power: float
    assumptions: VarianceAssumptions
    question_share: float = QUESTION_SHARE
    detectable: tuple[DetectableEffect, ...]


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
    prompt_effects: PromptEffects = "fixed",
    question_share: float = QUESTION_SHARE,
    orders: float = 1.0,
) -> PowerTable:
    """The smallest differences that a run of that many templates and prompt variants finds with the given power.

    `orders`: option orders of every question. UsageError for a benchmark of unknown shape without `questions` and
    `effective_share`, and for numbers out of range.
    """
    shape = SHAPES.get(benchmark)
    if shape is not None:
        if templates > shape.templates:
            raise UsageError(f"--templates {templates}: {benchmark} has {shape.templates}")
        questions = shape.questions if questions is None else questions
        effective_share = shape.effective_share if effective_share is None else effective_share
    if questions is None or effective_share is None:
        raise UsageError(
            f"--benchmark {benchmark}: its templates have not been counted (those of {', '.join(SHAPES)} have); "
            "give --questions N and --pilot RUN"
        )
    effective = max(templates * effective_share, 1.0)
    if templates < MIN_TEMPLATES:
        raise UsageError(f"--templates {templates}: {TOO_FEW}; give {MIN_TEMPLATES} or more")
    if effective <= 1:
        raise UsageError(f"--templates {templates}: of so uneven sizes they count as {effective:.1f}; give more")
    if variants < 1 or questions <= 0:
        raise UsageError(f"--variants {variants}, --questions {questions:g}: at least 1 of each is needed")
    if prompt_effects == "random" and variants < MIN_PROMPT_VARIANTS:
        raise UsageError(f"--variants {variants}: {TOO_FEW_PROMPT_VARIANTS}; give {MIN_PROMPT_VARIANTS} or more")
    whole = templates * questions
    answers = float(answer_variance(assumptions.answer, question_share, whole, whole * orders * variants))
    again = assumptions.answer**2 * (1 - question_share) / (whole * orders)  # two prompt variants: the same questions

    def reach(units: float) -> float:
        """The detectable difference in standard errors, over that many templates or prompt variants."""
        return t_quantile(1 - level, units) + t_quantile(2 * power - 1, units)

    def detectable(name: Question) -> DetectableEffect:
        chance = again if name == "two prompt variants" else answers
        variance = float(variance_of(name, assumptions, effective, variants, chance))
        drawn = variance_of_variants(name, assumptions, variants) if prompt_effects == "random" else 0.0
        size = (reach(effective) ** 2 * variance + reach(max(variants, 2)) ** 2 * drawn) ** 0.5
        largest = 1.0 if name == "one score against 0" else 2.0  # of biases, from −1 to 1
        return DetectableEffect(
            question=name,
            standard_error=(variance + drawn) ** 0.5,
            minimum_detectable_effect=size if size <= largest else None,
        )

    return PowerTable(
        benchmark=benchmark,
        metric=metric,
        templates=templates,
        n_templates_effective=effective,
        variants=variants,
        prompt_effects=prompt_effects,
        questions=questions,
        level=level,
        power=power,
        assumptions=assumptions,
        question_share=question_share,
        detectable=tuple(detectable(name) for name in get_args(Question)),
    )


def answer_variance(sd: float, share: float, questions: Array | float, answers: Array | float) -> Array:
    """The variance that questions, and answers to them, leave in a mean; `share`: of an answer's, the question's."""
    return np.asarray(sd**2 * (share / questions + (1 - share) / answers))


def variance_of(
    question: Question,
    sd: VarianceAssumptions,
    templates: Array | float,
    variants: Array | float,
    answers: Array | float,
) -> Array:
    """The variance of a score or difference with fixed prompt variants; `variants`: that a template meets."""
    if question == "one score against 0":
        of_templates = (sd.template**2 + sd.template_language**2) / templates
        return np.asarray(of_templates + sd.template_prompt_variant**2 / (templates * variants) + answers)
    crossed = sd.template_language if question == "two languages" else sd.template_prompt_variant
    return np.asarray(2 * (crossed**2 / templates + answers))


def variance_of_variants(question: Question, sd: VarianceAssumptions, variants: float) -> float:
    """The variance that random prompt variants add."""
    if question == "two prompt variants":
        return 0.0
    one = sd.prompt_variant**2 if question == "one score against 0" else 2 * sd.language_prompt_variant**2
    return one / variants


def assumptions_of(table: VarianceTable, source: str) -> VarianceAssumptions:
    """The standard deviations that a run's variance components tell; what did not vary there keeps the assumed one."""
    found = {component.factor: component.sd for component in table.components}
    known = {name: found[factor] for name, factor in _FACTORS.items() if factor in found}
    assumed = ", ".join(factor for name, factor in _FACTORS.items() if name not in known)
    said = f"{source}: {', '.join([*(_FACTORS[name] for name in known), 'one answer'])}"
    said += f"; assumed, for they did not vary there: {assumed}" if assumed else ""
    if table.chance is not None:
        answer = table.chance.sd
    else:  # chance could not be separated: all of the combination of all factors
        most = max(table.components, key=lambda component: component.factor.count("×"))
        answer = float(most.sd * table.answers_per_cell**0.5)
    return DEFAULTS.model_copy(update={**known, "answer": answer, "source": said})


_FACTORS = {
    "template": "template",
    "template_language": "template × language",
    "prompt_variant": "variant",
    "template_prompt_variant": "template × variant",
    "language_prompt_variant": "language × variant",
}
"""Field of VarianceAssumptions → the component that it is."""
