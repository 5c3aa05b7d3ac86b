"""The smallest difference that a run could find, from how much templates, languages and wordings vary.

With N templates, K wordings and A answers in each wording, the variance of

    one score                              (σ²_T + σ²_TL) / N + σ²_W / K + σ²_TW / (N · K) + σ² / (K · A)
    a difference between two languages     2 · (σ²_TL / N + σ²_LW / K + σ² / (K · A))
    a difference between two wordings      2 · (σ²_TW / N + σ² / A)

where σ²_T is that of templates, σ²_TL of template × language, σ²_W of wordings, σ²_TW of template × wording, σ²_LW of
language × wording, and σ² that of one answer. The smallest difference that a two-sided test at level α finds with the
given power is (t_{1 − α/2} + t_power) · √variance, t with N − 1 degrees of freedom. N is the effective number of
templates, for those of MBBQ differ much in size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from mbbq_gen.errors import UnknownNameError, UsageError
from mbbq_gen.records import Record

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
}
"""Counted from the benchmarks' own files."""


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
    smallest_difference: float


class PowerTable(Record):
    """What a run of some size could find."""

    schema_version: Literal["mbbq-gen.power/1"] = "mbbq-gen.power/1"
    benchmark: str
    metric: str
    templates: int
    effective_templates: float
    variants: int
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
) -> PowerTable:
    """The smallest differences that a run of that many templates and wordings finds with the given power.

    Raises:
        UnknownNameError: for a benchmark of unknown shape, unless `questions` and `effective_share` tell it.
        UsageError: for numbers out of range.
    """
    shape = SHAPES.get(benchmark)
    if shape is None and (questions is None or effective_share is None):
        raise UnknownNameError("benchmark of known shape", benchmark, SHAPES, "or give --questions and --from RUN")
    if shape is not None and templates > shape.templates:
        raise UsageError(f"--templates {templates}: {benchmark} has {shape.templates}")
    asked = questions if questions is not None else shape.questions if shape else 1.0
    share = effective_share if effective_share is not None else shape.effective_share if shape else 1.0
    effective = max(templates * share, 1.0)
    if templates < 2 or variants < 1 or asked <= 0 or effective <= 1:
        raise UsageError(
            f"--templates {templates}, --variants {variants}: at least 2 templates and 1 wording are needed"
        )
    variances = _variances(assumptions, effective, variants, templates * asked)
    reach = _reach(effective, level, power)
    return PowerTable(
        benchmark=benchmark,
        metric=metric,
        templates=templates,
        effective_templates=effective,
        variants=variants,
        questions=asked,
        level=level,
        power=power,
        assumptions=assumptions,
        detectable=tuple(
            Detectable(question=name, standard_error=variance**0.5, smallest_difference=reach * variance**0.5)
            for name, variance in variances.items()
        ),
    )


def _variances(sd: VarianceAssumptions, templates: float, variants: int, answers: float) -> dict[Question, float]:
    one = (
        (sd.template**2 + sd.template_language**2) / templates
        + sd.wording**2 / variants
        + sd.template_wording**2 / (templates * variants)
        + sd.answer**2 / (variants * answers)
    )
    languages = 2 * (
        sd.template_language**2 / templates + sd.language_wording**2 / variants + sd.answer**2 / (variants * answers)
    )
    wordings = 2 * (sd.template_wording**2 / templates + sd.answer**2 / answers)
    return {"one score against 0": one, "two languages": languages, "two wordings": wordings}


def _reach(templates: float, level: float, power: float) -> float:
    """How many standard errors a difference must have."""
    from scipy import special

    return float(special.stdtrit(templates - 1, 1 - level / 2) + special.stdtrit(templates - 1, power))


def half_width(standard_error: float, templates: float, interval: float = 0.95) -> float:
    """Half the width of an interval round a score with that standard error, over that effective number of templates."""
    from scipy import special

    return standard_error * float(special.stdtrit(templates - 1, 0.5 + interval / 2))


def assumptions_of(table: VarianceTable, source: str) -> VarianceAssumptions:
    """The standard deviations that a run's variance components tell; what did not vary there keeps the assumed one."""
    found = {component.factor: component.sd for component in table.components}
    return VarianceAssumptions(
        template=found.get("template", DEFAULTS.template),
        template_language=found.get("template × language", DEFAULTS.template_language),
        wording=found.get("wording", DEFAULTS.wording),
        template_wording=found.get("template × wording", DEFAULTS.template_wording),
        language_wording=found.get("language × wording", DEFAULTS.language_wording),
        answer=_answer_sd(table),
        source=source,
    )


def _answer_sd(table: VarianceTable) -> float:
    """The sd of one answer; where chance could not be told apart, all of the combination of all factors is taken."""
    if table.chance is not None:
        return table.chance.sd
    most = max(table.components, key=lambda component: component.factor.count("×"))
    return float(most.sd * table.answers_per_cell**0.5)
