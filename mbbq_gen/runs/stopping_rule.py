"""Stopping rules of adaptive runs, and the record of why a run stopped."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field

from mbbq_gen.core.config import RunConfig, checked
from mbbq_gen.core.errors import ConfigError
from mbbq_gen.core.records import FrozenModel

if TYPE_CHECKING:
    from mbbq_gen.statistics.estimate import InferenceSettings

RuleKind = Literal["ci_width", "decision", "answers"]
TargetState = Literal["reached", "futile", "exhausted", "going on"]
SETTINGS: Final[dict[RuleKind, str]] = {
    "ci_width": "stop_at_ci_width",
    "decision": "stop_when_decided",
    "answers": "answers_per_template",
}
"""Kind of rule → the setting that gives it."""
ALPHA: Final = 0.05
SMALL: Final = 0.03
"""Default equivalence margin."""


class StoppingRule(FrozenModel):
    """The stopping rule of an adaptive run."""

    kind: RuleKind
    metrics: tuple[str, ...] = ("mbbq_bias_ambiguous",)
    group_by: tuple[str, ...] = ()
    """Groupings; each combination of their values is a target."""
    width: float | None = Field(default=None, gt=0)
    first: str | None = None
    second: str | None = None
    """Of `decision`: the two languages that are compared; None for scores compared with 0."""
    equivalence_margin: float = SMALL
    """Of `decision`: the largest difference that is considered negligible."""
    answers: int | None = Field(default=None, ge=1)
    """Of `answers`: answers per template in each language and split."""

    @property
    def compared(self) -> tuple[str, str] | None:
        """The two languages that are compared; None for scores compared with 0."""
        return (self.first, self.second) if self.first and self.second else None


class StoppingTarget(FrozenModel):
    """A score or difference of the rule, at the last look or when it was reached."""

    metric: str
    group: dict[str, str]
    """Values of benchmark, split, and the rule's groupings."""
    compared: tuple[str, str] | None
    n_looks: int
    answers: int
    value: float | None
    adjusted_value: float | None = None
    """The median-unbiased estimate of a run that stopped on its result; None for others."""
    ci_low: float | None
    ci_high: float | None
    """Bounds of the interval, which is valid at any look."""
    level: float
    """1 minus the confidence of an interval of this width for a fixed sample."""
    state: TargetState
    explanation: str
    """The decision, or why there is none."""


class StoppingRecord(FrozenModel):
    """How an adaptive run was sampled, and why it stopped."""

    rule: StoppingRule
    rounds: int
    requests: int
    offered: int
    targets: tuple[StoppingTarget, ...]
    level: float | None
    """The level of the strictest target; None if there were no interim looks."""
    sentence: str


def target_line(target: StoppingTarget) -> str:
    """One line for a target: `en, bias: mbbq_bias_ambiguous +0.12 [+0.05, +0.19], width 0.14: no wider than 0.15`."""
    parts = [value for name, value in target.group.items() if name not in ("benchmark", "split")]
    parts += [" − ".join(target.compared)] if target.compared else []
    shown = "–" if target.value is None else f"{target.value:+.3f}"
    if target.ci_low is not None and target.ci_high is not None:
        shown += f" [{target.ci_low:+.3f}, {target.ci_high:+.3f}], width {target.ci_high - target.ci_low:.3f}"
    if target.adjusted_value is not None:
        shown += f" (median-unbiased {target.adjusted_value:+.3f})"
    said = f": {target.explanation}" if target.explanation else ""
    rounds = f"{target.n_looks} round{'s' if target.n_looks > 1 else ''}"
    place = ", ".join([*parts, target.group["split"]])
    return f"{place}: {target.metric} {shown} by {target.answers:,} answers in {rounds}{said}"


def describe_rule(rule: StoppingRule) -> str:
    """A description of a rule."""
    if rule.kind == "answers":
        return f"{rule.answers} answers of every template"
    if rule.kind == "ci_width":
        return f"intervals no wider than {rule.width:g}"
    question = "bias != 0" if rule.compared is None else " != ".join(rule.compared)
    return f"{question} (or smaller than {rule.equivalence_margin:g}) decided"


GROUPS: Final = ("language", "category")
"""Groupings that a rule can have."""


def _compared(question: str | None, languages: Sequence[str]) -> tuple[str, str] | tuple[None, None]:
    """The languages that a question compares; None for a bias compared with 0."""
    if question is None:
        return None, None
    setting, (first, is_compared, second) = SETTINGS["decision"], map(str.strip, question.partition("!="))
    if (first, second) == ("bias", "0"):
        return None, None
    if not is_compared:
        raise ConfigError(setting, question, 'write "bias != 0", or two languages such as "en != tr"')
    if unknown := next((code for code in (first, second) if code not in languages), None):
        hint = f'{unknown} is none of the run\'s languages ({", ".join(languages)}); write "bias != 0", or two of them'
        raise ConfigError(setting, question, hint)
    if first == second:
        raise ConfigError(setting, question, "name two different languages")
    return first, second


def rule_from(config: RunConfig) -> StoppingRule | None:
    """The stopping rule of a run with this configuration, None if it gives none; ConfigError if it is wrong."""
    kinds = [kind for kind, name in SETTINGS.items() if getattr(config, name) is not None]
    if not kinds:
        for name in ("equivalence_margin", "metric", "group_by"):
            if value := getattr(config, name):
                every = ", ".join(f"{{{setting}}}" for setting in SETTINGS.values())
                raise ConfigError(name, value, f"belongs to {every}; give one")
        return None
    if len(kinds) > 1:
        one, other = (SETTINGS[kind] for kind in kinds[:2])
        raise ConfigError(other, getattr(config, other), f"give only one of it and {{{one}}}")
    if config.method != ("generate",):
        raise ConfigError(
            "method",
            config.method,
            "{stop_at_ci_width}, {stop_when_decided} and {answers_per_template} work with generate only; leave it out,"
            " or use another run for loglikelihoods",
        )
    if config.equivalence_margin is not None and kinds != ["decision"]:
        raise ConfigError(
            "equivalence_margin", config.equivalence_margin, "belongs to {stop_when_decided}; leave it out"
        )
    more: dict[str, object] = {}
    if config.metric:
        from mbbq_gen.scoring.metrics import METRICS  # imports numpy and polars

        more["metrics"] = checked("metric", config.metric, list(METRICS))
    groups = checked("group_by", config.group_by, GROUPS) if config.group_by else ["language"]
    first, second = _compared(config.stop_when_decided, config.languages)
    if first is not None or not (config.group_by or len(config.languages) > 1):
        groups = [name for name in groups if name != "language"]
    return StoppingRule(
        kind=kinds[0],
        group_by=tuple(groups),
        width=config.stop_at_ci_width,
        first=first,
        second=second,
        equivalence_margin=config.equivalence_margin or SMALL,
        answers=config.answers_per_template,
        **more,
    )


def sequential_inference(
    sampling: InferenceSettings, stops: Sequence[StoppingRecord | None], tell: Callable[[str], None]
) -> InferenceSettings:
    """Inference settings for adaptive runs (`sequential_confidence_level`); `tell` gets a message if they differ."""
    found = sequential_confidence_level(sampling.confidence, stops)
    if found == sampling.confidence:
        return sampling
    level = ALPHA * (1 - found) / (1 - sampling.confidence)
    tell(
        f"adaptive run: intervals are at {100 * found:.6g} %, so that they hold {100 * sampling.confidence:.4g} % at"
        f" any stop; p-values are for a fixed sample: compare them with {level:.3g} instead of {ALPHA}"
    )
    return replace(sampling, confidence=found)


def sequential_confidence_level(confidence: float, stops: Iterable[StoppingRecord | None]) -> float:
    """The confidence level of intervals: higher if a run had interim looks.

    The error is scaled by the level of the strictest target over 5 %: exact for targets, conservative for others.
    """
    levels = [stop.level for stop in stops if stop is not None and stop.level is not None]
    return 1 - (1 - confidence) * min([*levels, ALPHA]) / ALPHA if levels else confidence
