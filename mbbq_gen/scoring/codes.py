"""Reason codes for missing values, intervals and p values, and the names of prompt effects and averages.

Intervals and tests over templates generalise to a population of templates. Fewer than five are too few: two equal ones
give an interval of width 0, and with four no permutation test has a p value below 0.125
(docs/decisions/0013-intervals-over-templates.md).
"""

from __future__ import annotations

from typing import Final, Literal

MIN_TEMPLATES: Final = 5
"""Least number of templates for an interval or p value."""
FEW_TEMPLATES: Final = 10
"""Number of templates below which the coverage of intervals is approximate (docs/evidence.md)."""
TOO_FEW: Final = f"fewer than {MIN_TEMPLATES} templates: no interval, no p value"

TooFew = Literal["too_few_templates", "too_few_prompt_variants"]
ReasonCode = Literal["undefined", TooFew, "zero_variance", "not_applicable"]
"""`undefined`: a denominator is 0, or there are no answers; `too_few_prompt_variants`: too few for random
`--prompt-effects`; `zero_variance`: all units have equal scores; `not_applicable`: not defined for the metric or
group."""

PromptEffects = Literal["fixed", "random"]
"""Prompt variants as fixed effects (those of the run only) or random effects (a sample of others like them)."""

Average = Literal["questions", "templates"]
"""The units that scores are averaged over (`mbbq_gen.statistics.panel`)."""
AVERAGES: Final[dict[Average, str]] = {
    "questions": "means over questions, so that large templates weigh more",
    "templates": "plain means over templates, each template alike",
}
"""Averages in words. A parse rate is always over all answers."""
