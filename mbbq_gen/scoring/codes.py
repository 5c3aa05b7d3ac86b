"""Why a number, its interval or its p value is missing: codes for programs, sentences for people.

An interval over templates, and a test on them, is about the templates that could have been written. Fewer than five
say next to nothing about these: two that agree make an interval of no width, and of four no permutation test can give
a p value below 0.125 (docs/decisions/0013-intervals-over-templates.md).
"""

from __future__ import annotations

from typing import Final, Literal

MIN_TEMPLATES: Final = 5
"""Templates below which there is no interval and no p value."""
FEW_TEMPLATES: Final = 10
"""Below this, an interval over templates is wide and only roughly as sure as it says (docs/evidence.md)."""
TOO_FEW: Final = f"fewer than {MIN_TEMPLATES} templates: no interval, no p value"

TooFew = Literal["too_few_templates", "too_few_prompt_variants"]
ReasonCode = Literal["undefined", TooFew, "zero_variance", "uneven_counts", "not_applicable"]
"""`undefined`: a denominator is 0, or there are no answers; `too_few_prompt_variants`: too few for a statement about
prompt variants like them (`--prompt-effects random`); `zero_variance`: no unit tells anything apart;
`uneven_counts`: groups have unlike numbers of answers in the templates, so that ranks would mislead; `not_applicable`:
the number does not exist for this metric or group."""

PromptEffects = Literal["fixed", "random"]
"""Whether a statement holds for the prompt variants of the run only, or for others like them."""

Average = Literal["questions", "templates", "random-effects"]
"""The units of the mean (`mbbq_gen.statistics.panel`)."""
AVERAGES: Final[dict[Average, str]] = {
    "questions": "means over questions, so that large templates weigh more",
    "templates": "plain means over templates, each template alike",
    "random-effects": "random-effects means over templates (weights 1 / (tau² + error²), tau² by REML; Hartung-Knapp "
    "intervals)",
}
"""Each in words; a parse rate is a share of all answers in any of them."""
