"""Power analysis: the minimum detectable effect of a run, from variance components.

With N templates, Q questions, K prompt variants and A answers in each prompt variant, the variance of

    one score                                   (σ²_T + σ²_TL) / N + σ²_W / K + σ²_TW / (N · K) + answers
    a difference between two languages          2 · (σ²_TL / N + σ²_LW / K + answers)
    a difference between two prompt variants    2 · (σ²_TW / N + (1 − ρ) · σ² / A)
    answers                                     σ² · (ρ / Q + (1 − ρ) / (K · A))

where σ²_T is that of templates, σ²_TL of template × language, σ²_W of prompt variants, σ²_TW of template × prompt
variant, σ²_LW of language × prompt variant, σ² that of one answer, and ρ its share due to the question, which
repetition does not reduce (Brennan 2001, "Generalizability Theory", ch. 4). The terms of σ²_W and σ²_LW apply only to
random prompt variants. The minimum detectable effect of a two-sided test at level α is
(t_{1 − α/2} + t_power) · √variance, t with N − 1 degrees of freedom, N the effective number of templates. Random prompt
variants have t with K − 1, and the squares of both are added.
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
    """Effective over plain number of templates; 1 if all have one size."""
    questions: float
    """Mean number of ambiguous questions with a single target per template."""


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
"""Counted from the benchmarks' files in their first language, over templates with ambiguous questions for bias."""


class VarianceAssumptions(FrozenModel):
    """Standard deviations for power analysis, in units of the score."""

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
"""An answer to an ambiguous question is −1, 0 or 1; its sd is 0.75 if 56 % choose a person."""

QUESTION_SHARE: Final = 0.5
"""The assumed ρ without a pilot run."""

Question = Literal["one score against 0", "two languages", "two prompt variants"]


class DetectableEffect(FrozenModel):
    """The minimum detectable effect of one comparison."""

    question: Question
    standard_error: float
    minimum_detectable_effect: float | None
    """None if it exceeds the largest possible effect."""


class PowerTable(FrozenModel):
    """The minimum detectable effects of a run."""

    schema_version: Literal["mbbq-gen.power/1"] = "mbbq-gen.power/1"
    benchmark: str
    metric: str
    templates: int
    n_templates_effective: float
    variants: int
    prompt_effects: PromptEffects = "fixed"
    questions: float
    """Mean number of answers per template and prompt variant that count for the metric."""
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
) -> PowerTable:
    """The minimum detectable effects of a run with this number of templates and prompt variants.

    Raises UsageError for a benchmark that is not in SHAPES without `questions` and `effective_share`, and for numbers
    out of range.
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
    total = templates * questions
    answers = float(answer_variance(assumptions.answer, question_share, total, total * variants))
    same_questions = assumptions.answer**2 * (1 - question_share) / total

    def factor(units: float) -> float:
        """The detectable effect in standard errors, over that many templates or prompt variants."""
        return t_quantile(1 - level, units) + t_quantile(2 * power - 1, units)

    def detectable(name: Question) -> DetectableEffect:
        residual = same_questions if name == "two prompt variants" else answers
        variance = float(variance_of(name, assumptions, effective, variants, residual))
        of_prompts = variance_of_variants(name, assumptions, variants) if prompt_effects == "random" else 0.0
        size = (factor(effective) ** 2 * variance + factor(max(variants, 2)) ** 2 * of_prompts) ** 0.5
        largest = 1.0 if name == "one score against 0" else 2.0  # of biases, from −1 to 1
        return DetectableEffect(
            question=name,
            standard_error=(variance + of_prompts) ** 0.5,
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
    """The variance of a mean due to questions and answers; `share` of an answer's variance is due to the question."""
    return np.asarray(sd**2 * (share / questions + (1 - share) / answers))


def variance_of(
    question: Question,
    sd: VarianceAssumptions,
    templates: Array | float,
    variants: Array | float,
    answers: Array | float,
) -> Array:
    """The variance of a score or difference with fixed prompt variants; `variants`: those of one template."""
    if question == "one score against 0":
        of_templates = (sd.template**2 + sd.template_language**2) / templates
        return np.asarray(of_templates + sd.template_prompt_variant**2 / (templates * variants) + answers)
    crossed = sd.template_language if question == "two languages" else sd.template_prompt_variant
    return np.asarray(2 * (crossed**2 / templates + answers))


def variance_of_variants(question: Question, sd: VarianceAssumptions, variants: float) -> float:
    """The additional variance due to random prompt variants."""
    if question == "two prompt variants":
        return 0.0
    one = sd.prompt_variant**2 if question == "one score against 0" else 2 * sd.language_prompt_variant**2
    return one / variants


def assumptions_of(table: VarianceTable, source: str) -> VarianceAssumptions:
    """The standard deviations of a run's variance components; factors that did not vary keep the assumed values."""
    sds = {component.factor: component.sd for component in table.components}
    known = {name: sds[factor] for name, factor in _FACTORS.items() if factor in sds}
    assumed = ", ".join(factor for name, factor in _FACTORS.items() if name not in known)
    text = f"{source}: {', '.join([*(_FACTORS[name] for name in known), 'one answer'])}"
    text += f"; assumed, for they did not vary there: {assumed}" if assumed else ""
    if table.chance is not None:
        answer = table.chance.sd
    else:  # the residual is part of the highest interaction
        highest = max(table.components, key=lambda component: component.factor.count("×"))
        answer = float(highest.sd * table.answers_per_cell**0.5)
    return DEFAULTS.model_copy(update={**known, "answer": answer, "source": text})


_FACTORS = {
    "template": "template",
    "template_language": "template × language",
    "prompt_variant": "variant",
    "template_prompt_variant": "template × variant",
    "language_prompt_variant": "language × variant",
}
"""Fields of VarianceAssumptions and their components."""
