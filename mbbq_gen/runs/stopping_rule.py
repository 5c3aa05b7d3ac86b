"""What an adaptive run is after: its stopping rule, as settings give it and as it is stored, and how it ended."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, Literal

from pydantic import Field

from mbbq_gen.core.config import RunConfig, chosen
from mbbq_gen.core.errors import ConfigError, UsageError
from mbbq_gen.core.records import FrozenModel
from mbbq_gen.scoring.codes import Average
from mbbq_gen.storage.ledgers import BatchTable
from mbbq_gen.storage.store import IN_ROUNDS, RunStore

Kind = Literal["ci_width", "decision", "answers"]
Verdict = Literal["reached", "not found", "futile", "exhausted", "going on"]
SETTINGS: Final[dict[Kind, str]] = {
    "ci_width": "stop_at_ci_width",
    "decision": "stop_when_decided",
    "answers": "answers_per_template",
}
"""The setting of a run for each kind of rule."""
ALPHA: Final = 0.05
SMALL: Final = 0.03
"""What a score, or a difference, may differ by and still count as none, if nothing else is said."""


class StoppingRule(FrozenModel):
    """What an adaptive run is after."""

    kind: Kind
    metrics: tuple[str, ...] = ("mbbq_bias_ambiguous",)
    group_by: tuple[str, ...] = ()
    """Groupings each of whose values has a target of its own."""
    width: float | None = Field(default=None, gt=0)
    """Of `ci_width`: how wide intervals may be."""
    first: str | None = None
    second: str | None = None
    """Of `decision`: the two languages that are compared; None for scores against 0."""
    equivalence_margin: float = SMALL
    """Of `decision`: what is too small to matter."""
    detectable_effect: float | None = Field(default=None, gt=0)
    """Of `decision`: the size that is to be found in 90 %, and no more is sent than that takes; None: no limit."""
    aimed: float | None = None
    """The `detectable_effect` with which decisions were first looked for: it says when error is spent, and stays."""
    answers: int | None = Field(default=None, ge=1)
    """Of `answers`: how many each template gives in each language and split."""
    average: Average = "questions"
    """What scores are the mean over."""
    looked: bool = False
    """Whether a decision was ever looked for: from then on intervals are those of a run that may stop on its result."""


class StoppingTarget(FrozenModel):
    """One score, or difference, that a run is after, and how it stands; of one that is reached, how it stood then."""

    metric: str
    group: dict[str, str]
    """What it is of: benchmark, split, and the rule's groupings."""
    compared: tuple[str, str] | None
    """The two languages of a difference."""
    n_looks: int
    answers: int
    """That count for it."""
    value: float | None
    adjusted_value: float | None = None
    """The median-unbiased estimate of a run that was to stop on its result; None: it went by width or numbers, or goes
    on."""
    ci_low: float | None
    ci_high: float | None
    """The interval that holds at any look."""
    level: float
    """1 minus the confidence that an interval for a fixed sample needs to be as wide."""
    verdict: Verdict
    explanation: str
    """The answer, or what is in its way."""


class StoppingRecord(FrozenModel):
    """How the sample of an adaptive run was chosen, and why it was stopped."""

    rule: StoppingRule
    rounds: int
    requests: int
    """That the rounds took."""
    offered: int
    """Possible requests for the targets."""
    targets: tuple[StoppingTarget, ...]
    level: float | None
    """Of the strictest target: 1 minus the confidence that intervals for a fixed sample need, to hold 95 % here; None
    where no result was looked at before the run stopped."""
    sentence: str
    """Why it stopped."""


def target_line(target: StoppingTarget) -> str:
    """A target in a line: `en, bias: mbbq_bias_ambiguous +0.12 [+0.05, +0.19], width 0.14: no wider than 0.15`."""
    parts = [value for name, value in target.group.items() if name not in ("benchmark", "split")]
    parts += [" − ".join(target.compared)] if target.compared else []
    parts.append(target.group["split"])
    shown = "–" if target.value is None else f"{target.value:+.3f}"
    if target.ci_low is not None and target.ci_high is not None:
        shown += f" [{target.ci_low:+.3f}, {target.ci_high:+.3f}], width {target.ci_high - target.ci_low:.3f}"
    if target.adjusted_value is not None:
        shown += f" (median-unbiased {target.adjusted_value:+.3f})"
    said = f": {target.explanation}" if target.explanation else ""
    rounds = f"{target.n_looks} round{'s' if target.n_looks > 1 else ''}"
    return f"{', '.join(parts)}: {target.metric} {shown} by {target.answers:,} answers in {rounds}{said}"


def asked_for(rule: StoppingRule) -> str:
    """What a rule is after, in words."""
    if rule.kind == "answers":
        return f"{rule.answers} answers of every template"
    if rule.kind == "ci_width":
        return f"intervals no wider than {rule.width:g}{_over(rule)}"
    question = "bias != 0" if rule.first is None else f"{rule.first} != {rule.second}"
    most = "" if rule.detectable_effect is None else f", or enough requests to find {rule.detectable_effect:g} in 90 %"
    return f"{question} (or smaller than {rule.equivalence_margin:g}) decided{most}{_over(rule)}"


def _over(rule: StoppingRule) -> str:
    return "" if rule.average == "questions" else f" ({rule.average} average)"


GROUPS: Final = ("language", "category")
"""What targets can be kept apart by: what a round can ask more of."""
_QUESTION: Final = re.compile(r"\s*([\w-]+)\s*!=\s*([\w-]+)\s*")


def rule_from(config: RunConfig, languages: Sequence[str]) -> StoppingRule | None:
    """The stopping rule that a configuration gives; None if it gives none.

    Args:
        config: the settings given; what they leave out stays as in the run (`completed`).
        languages: the run's.

    Raises:
        ConfigError: several rules are given, a setting has no rule, or a value is wrong.
    """
    kinds: dict[str, Kind] = {name: kind for kind, name in SETTINGS.items()}
    named = [name for name in kinds if getattr(config, name) is not None]
    if len(named) > 1:
        raise ConfigError(named[1], getattr(config, named[1]), f"give only one of it and {{{named[0]}}}")
    for name in ("equivalence_margin", "detectable_effect", "metric", "group_by", "average"):
        value = getattr(config, name)
        if value and not named:
            raise ConfigError(name, value, f"belongs to {', '.join(f'{{{kind}}}' for kind in kinds)}; give one")
        if value and name in {"equivalence_margin", "detectable_effect"} and named != ["stop_when_decided"]:
            raise ConfigError(name, value, "belongs to {stop_when_decided}; leave it out")
    if not named:
        return None
    question, first, second = config.stop_when_decided, None, None
    if question is not None:
        found = _QUESTION.fullmatch(question)
        if found is None:
            raise ConfigError(named[0], question, 'write "bias != 0", or two languages such as "en != tr"')
        if found.groups() != ("bias", "0"):
            first, second = found.groups()
            for code in (first, second):
                if code not in languages:
                    raise ConfigError(
                        named[0],
                        question,
                        f'{code} is none of the run\'s languages ({", ".join(languages)}); write "bias != 0", or two'
                        " of them",
                    )
            if first == second:
                raise ConfigError(named[0], question, "name two different languages")
    metrics = None
    if config.metric:
        from mbbq_gen.scoring.metrics import METRICS  # imports numpy and polars

        metrics = tuple(chosen("metric", config.metric, list(METRICS)))
    said: dict[str, object] = {
        "metrics": metrics,
        "group_by": tuple(chosen("group_by", config.group_by, GROUPS)) if config.group_by else None,
        "equivalence_margin": config.equivalence_margin,
        "detectable_effect": config.detectable_effect,
        "average": config.average,
    }
    return StoppingRule(
        kind=kinds[named[0]],
        width=config.stop_at_ci_width,
        first=first,
        second=second,
        answers=config.answers_per_template,
        **{name: value for name, value in said.items() if value is not None},
    )


def completed(rule: StoppingRule, before: StoppingRule | None, languages: Sequence[str]) -> StoppingRule:
    """The rule with what was not said: as the rule before it has it; at first, every language has a target."""
    given, is_alike = rule.model_fields_set, before is not None and before.kind == rule.kind
    metrics = before.metrics if before is not None and "metrics" not in given else rule.metrics
    margin, effect = rule.equivalence_margin, rule.detectable_effect
    if before is not None and is_alike:
        margin = margin if "equivalence_margin" in given else before.equivalence_margin
        effect = effect if "detectable_effect" in given else before.detectable_effect
    by = rule.group_by
    if "group_by" not in given:
        usual = ("language",) if len(languages) > 1 else ()
        by = before.group_by if before is not None and is_alike and before.first == rule.first else usual
    by = tuple(name for name in by if rule.first is None or name != "language")
    looked_before = before is not None and before.looked
    return rule.model_copy(
        update={
            "metrics": metrics,
            "average": before.average if before is not None and "average" not in given else rule.average,
            "equivalence_margin": margin,
            "detectable_effect": effect,
            "group_by": by,
            "looked": rule.kind == "decision" or looked_before,
            "aimed": before.aimed if before is not None and looked_before else effect,
        }
    )


_RULE: Final = "stop_rule"


def rule_of(store: RunStore) -> StoppingRule | None:
    """The rule of a run; None where it is not sent in rounds."""
    text = store.meta(_RULE)
    return None if text is None else StoppingRule.model_validate_json(text)


def set_rule(store: RunStore, rule: StoppingRule, settings: RunConfig) -> None:
    """Keeps what a run is after from now on.

    Raises:
        UsageError: where the run was begun without rounds, or asks for more than words.
    """
    if settings.method != ("generate",):
        raise ConfigError(
            "method",
            settings.method,
            "{stop_at_ci_width}, {stop_when_decided} and {answers_per_template} work with generate only; leave it out,"
            " or use another run for loglikelihoods",
        )
    before = rule_of(store)
    if before is None and (store.progress().answered or BatchTable(store).batches()):
        raise UsageError(
            f"{store.path.parent}: was started without a stopping rule, so its answers are not a balanced sample;"
            " name another run folder (--cache-dir shares responses between runs)"
        )
    kept = completed(rule, before, settings.languages)
    if kept != before:
        store.set_meta(_RULE, kept.model_dump_json())
        store.set_meta(IN_ROUNDS, "yes")
