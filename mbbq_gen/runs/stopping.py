"""Decides when an adaptive run stops: its rule, the status of every target, and the reason.

    answers after a round ─► estimates at every look ─► sequential intervals ─► targets ─► stop, or the next round

Only the rule is stored: the looks are recomputed from the answers and their rounds, so that a run that was killed, or
whose target changed, has the status that it would have had.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from pydantic import Field

from mbbq_gen.core.config import RunConfig, chosen
from mbbq_gen.core.errors import ConfigError
from mbbq_gen.core.records import FrozenModel
from mbbq_gen.runs.adaptive import Stratum
from mbbq_gen.scoring.codes import Average
from mbbq_gen.scoring.metrics import METRICS, Metric
from mbbq_gen.scoring.tally import GROUPINGS, tally_groups, weighted_by_design
from mbbq_gen.statistics.estimate import InferenceSettings
from mbbq_gen.statistics.panel import Panel, panel_of
from mbbq_gen.statistics.sequential import (
    FOR_DECISION,
    FOR_WIDTH,
    InterimEstimate,
    Interval,
    PastLook,
    SequentialMonitor,
    interval_at,
    is_undecidable,
    measures,
    median_unbiased,
    reach_of,
    variance_of_width,
    variance_to_find,
    width_at_end,
)

if TYPE_CHECKING:
    import polars


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


FEWEST_TEMPLATES: Final = 5
"""Templates below which no interval stops a run."""
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
    said: dict[str, object] = {
        "metrics": tuple(chosen("metric", config.metric, list(METRICS))) if config.metric else None,
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


def unreachable_targets(rule: StoppingRule, strata: Sequence[Stratum], offered: Offered) -> str | None:
    """Why no target of a rule could ever be reached: its groups have too few templates; None where one has enough."""
    if rule.kind == "answers":
        return None
    names = ("benchmark", "split", *rule.group_by)
    groups = {tuple(zip(names, _values(stratum, names), strict=True)) for stratum in strata}
    counts = [len(offered(in_group(dict(group)))) for group in groups]
    if not counts or max(counts) >= FEWEST_TEMPLATES:
        return None
    each = rule.group_by[-1] if rule.group_by else "split"
    return (
        f"no {each} has more than {max(counts)} templates with questions that count for {', '.join(rule.metrics)}, and"
        f" an interval that stops a run needs {FEWEST_TEMPLATES}"
    )


def _values(stratum: Stratum, names: Sequence[str]) -> Iterator[str]:
    given = dict(zip(("benchmark", "split", "language", "category"), stratum, strict=True))
    yield from (given[name] for name in names)


@dataclass(frozen=True)
class TargetStatus:
    """The targets of a rule after the rounds so far."""

    rule: StoppingRule
    targets: tuple[StoppingTarget, ...]

    def wanted(self, strata: Sequence[Stratum], reached: Callable[[Stratum], int]) -> list[Stratum]:
        """The strata that targets that are not settled need more of: of each target, those with the fewest answers.

        `reached`: how many answers a stratum's templates have given at most.
        """
        found: set[Stratum] = set()
        for target in self.targets:
            needed = [stratum for stratum in strata if target.verdict == "going on" and _holds(target, stratum)]
            least = min(map(reached, needed), default=0)
            found |= {stratum for stratum in needed if reached(stratum) == least}
        return sorted(found)

    @property
    def level(self) -> float:
        """The strictest level of a target."""
        return min((target.level for target in self.targets), default=ALPHA)


def _holds(target: StoppingTarget, stratum: Stratum) -> bool:
    """Whether a stratum counts for a target."""
    given = dict(zip(("benchmark", "split", "language", "category"), stratum, strict=True))
    if target.compared and given["language"] not in target.compared:
        return False
    return all(given[name] == value for name, value in target.group.items())


def in_group(group: dict[str, str]) -> Callable[[Stratum], bool]:
    """Whether a stratum belongs to a group."""

    def holds(stratum: Stratum) -> bool:
        given = dict(zip(("benchmark", "split", "language", "category"), stratum, strict=True))
        return all(given[name] == value for name, value in group.items())

    return holds


Offered = Callable[[Callable[[Stratum], bool]], Counter[str]]
"""Of some strata: template → answers that it can give."""


@dataclass(frozen=True)
class InterimAnalysis:
    """Looks at the answers of a run, with the round of each in the column `round`."""

    rule: StoppingRule
    frame: polars.DataFrame
    offered: Offered
    is_used_up: Callable[[Stratum], bool]
    strata: Sequence[Stratum]

    def standing(self) -> TargetStatus:
        """How every target of the rule stands."""
        targets = [target for name in self.rule.metrics for target in self._targets(METRICS[name])]
        return TargetStatus(self.rule, tuple(targets))

    def _targets(self, metric: Metric) -> Iterator[StoppingTarget]:
        looks: dict[tuple[tuple[str, str], ...], list[tuple[InterimEstimate, int]]] = {}
        for number in sorted(self.frame["round"].unique().to_list()):
            for group, measure, answers in self._look(metric, number):
                looks.setdefault(tuple(group.items()), []).append((measure, answers))
        for key, found in looks.items():
            yield self._target(metric, dict(key), found, len(looks) * len(self.rule.metrics))

    def _look(self, metric: Metric, number: int) -> Iterator[tuple[dict[str, str], InterimEstimate, int]]:
        """What the answers up to a round tell of each group."""
        import polars as pl

        frame = weighted_by_design(self.frame.filter(pl.col("round") <= number))
        by = ["benchmark", "split", *self.rule.group_by]
        if self.rule.first is not None:
            by = list(dict.fromkeys([*by, "language"]))
        tallies = list(tally_groups(frame, {name: GROUPINGS[name] for name in by}))
        panel = panel_of(tallies, InferenceSettings(n_resamples=1, average=self.rule.average))
        found = self._measures(metric, panel)
        if self.rule.first is None:
            yield from ((_texts(tally.group), *found[place]) for place, tally in enumerate(tallies))
            return
        pairs: dict[tuple[tuple[str, str], ...], dict[str, tuple[InterimEstimate, int]]] = {}
        for place, tally in enumerate(tallies):
            group = _texts(tally.group)
            language = group.pop("language")
            pairs.setdefault(tuple(group.items()), {})[language] = found[place]
        for key, both in pairs.items():
            if self.rule.first in both and self.rule.second in both:
                (one, here), (other, there) = both[self.rule.first], both[str(self.rule.second)]
                yield dict(key), one.minus(other), here + there

    def _measures(self, metric: Metric, panel: Panel) -> list[tuple[InterimEstimate, int]]:
        import numpy as np

        asked = np.zeros_like(panel.cells)
        offered = np.zeros(panel.cells.shape[:2])
        place = {name: number for number, name in enumerate(panel.templates)}
        for row, tally in enumerate(panel.tallies):
            asked[row, [place[name] for name in tally.templates]] = tally.n_requested
            for name, count in self.offered(in_group(_texts(tally.group))).items():
                if name in place:
                    offered[row, place[name]] = count
        found = measures(metric, panel, asked, offered)
        return [(measure, int(asked[row].sum())) for row, measure in enumerate(found)]

    def _target(
        self, metric: Metric, group: dict[str, str], looks: list[tuple[InterimEstimate, int]], family: int
    ) -> StoppingTarget:
        """How one target stands after its looks, up to the one that reached it; looks without news don't count."""
        new = [look for place, look in enumerate(looks) if place == 0 or look[1] > looks[place - 1][1]]
        decided = self.rule.kind == "decision"
        alpha = ALPHA / family if decided else ALPHA
        rho = FOR_DECISION if decided or self.rule.looked else FOR_WIDTH
        so_far, past = SequentialMonitor(alpha, rho), list[PastLook]()
        for number, (measure, answers) in enumerate(new, 1):
            interval = self._interval(so_far, measure, alpha)
            past.append(PastLook(measure.variance, interval))
            target = self._stands(metric, group, measure, interval, number, answers)
            if target.verdict == "going on" and self._would_have_found(measure, alpha):
                said = f"not found; {self.rule.detectable_effect:g} would have been found in 90 % of such runs"
                target = target.model_copy(update={"verdict": "not found", "explanation": said})
            if target.verdict == "reached" and self.rule.kind != "answers":
                break
        if target.verdict == "futile" and self.rule.kind == "ci_width":
            return _with_last_look(target, [measure for measure, _ in new], SequentialMonitor(alpha, rho))
        if decided and target.verdict != "going on" and target.value is not None:
            adjusted = median_unbiased(past, self.rule.equivalence_margin)
            return target.model_copy(update={"adjusted_value": _number(adjusted)})
        return target

    def _would_have_found(self, measure: InterimEstimate, alpha: float) -> bool:
        """Whether there are enough requests to find the effect; templates that all say the same don't tell."""
        find = self.rule.detectable_effect
        return find is not None and 0 < measure.variance <= variance_to_find(find, measure, alpha)

    def _interval(self, so_far: SequentialMonitor, measure: InterimEstimate, alpha: float) -> Interval:
        """The interval of the next look."""
        rule = self.rule
        if rule.kind == "answers" and not rule.looked:  # a sample of a fixed size
            return interval_at(measure, reach_of(ALPHA))
        if rule.kind == "decision" and rule.aimed is not None:
            return so_far.next(measure, variance_to_find(rule.aimed, measure, alpha))
        # Small enough to say "smaller" of a score that is half as far off: an aim too near spends all at once.
        wanted = rule.width if rule.kind == "ci_width" else rule.equivalence_margin if rule.kind == "decision" else None
        return so_far.next(measure, 0.0 if wanted is None else variance_of_width(wanted, measure, alpha))

    def _stands(  # noqa: PLR0917
        self, metric: Metric, group: dict[str, str], last: InterimEstimate, interval: Interval, looks: int, answers: int
    ) -> StoppingTarget:
        """How a target stands at a look."""
        rule = self.rule
        target = StoppingTarget(
            metric=metric.name,
            group=group,
            compared=None if rule.first is None else (rule.first, str(rule.second)),
            n_looks=looks,
            answers=answers,
            value=_number(interval.value),
            ci_low=_number(interval.low),
            ci_high=_number(interval.high),
            level=interval.level,
            verdict="going on",
            explanation="",
        )
        verdict, said = self._verdict(target, interval, last)
        return target.model_copy(update={"verdict": verdict, "explanation": said})

    def _verdict(self, target: StoppingTarget, interval: Interval, last: InterimEstimate) -> tuple[Verdict, str]:
        rule = self.rule
        left = [stratum for stratum in self.strata if _holds(target, stratum) and not self.is_used_up(stratum)]
        enough = last.estimate.n_templates >= FEWEST_TEMPLATES and not math.isnan(interval.width)
        if rule.kind == "answers":
            return "reached", ""
        if enough and rule.kind == "decision" and (answer := answer_of(interval, rule.equivalence_margin)):
            return "reached", answer
        if enough and rule.width is not None and interval.width <= rule.width:
            return "reached", f"no wider than {rule.width:g}"
        if not left:
            return "exhausted", "all requests are sent"
        few = self._templates(target)
        if few < FEWEST_TEMPLATES:
            return "futile", f"{few} templates: no interval stops a run below {FEWEST_TEMPLATES}"
        if enough and rule.width is not None and width_at_end(last, reach_of(interval.level), ALPHA) > rule.width:
            return "futile", f"the templates differ too much for a width of {rule.width:g}, whatever else is sent"
        if enough and rule.kind == "decision" and is_undecidable(last, interval, rule.equivalence_margin, ALPHA):
            return "futile", "the templates differ too much to decide it, whatever else is sent"
        return "going on", ""

    def _templates(self, target: StoppingTarget) -> int:
        """How many templates a target could ever have."""
        return len(self.offered(lambda stratum: _holds(target, stratum)))


def _with_last_look(
    target: StoppingTarget, seen: Sequence[InterimEstimate], looks: SequentialMonitor
) -> StoppingTarget:
    """A target that is given up, with the interval of a look that is the last: it spends the error that is left.

    It was given up because templates are few or differ too much, whatever the score is; so the level holds.
    """
    for measure in seen:
        interval = looks.next(measure, seen[-1].variance)
    low, high = _number(interval.low), _number(interval.high)
    return target.model_copy(update={"ci_low": low, "ci_high": high, "level": interval.level})


def answer_of(interval: Interval, small: float) -> str | None:
    """What an interval answers; None: nothing yet."""
    is_small = -small < interval.low and interval.high < small
    if interval.low > 0 or interval.high < 0:
        return "yes" + (f", but smaller than {small:g}" if is_small else "")
    return f"smaller than {small:g}" if is_small else None


def _texts(group: dict[str, str | None]) -> dict[str, str]:
    return {name: str(value) for name, value in group.items()}


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value + 0.0
