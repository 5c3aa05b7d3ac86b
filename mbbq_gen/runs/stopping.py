"""Decides when an adaptive run stops: the status of every target of its rule, and the reason.

    answers after a round ─► estimates at every look ─► sequential intervals ─► targets ─► stop, or the next round

Only the rule is stored: the looks are recomputed from the answers and their rounds, so that a run that was killed, or
whose target changed, has the status that it would have had.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mbbq_gen.runs.adaptive import Stratum
from mbbq_gen.runs.stopping_rule import ALPHA, StoppingRule, StoppingTarget, Verdict
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

FEWEST_TEMPLATES: Final = 5
"""Templates below which no interval stops a run."""


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
