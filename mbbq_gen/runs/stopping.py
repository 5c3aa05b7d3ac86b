"""When a run in rounds stops: its rule, what every goal stands at, and the sentence that says why.

answers after a round ─► measures of every look ─► intervals that hold at any look ─► goals ─► stop, or the next round

Nothing but the rule is kept: every look is made again from the answers and the rounds that took them, so a run that was
killed, or whose goal has changed, stands where it would have stood.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from mbbq_gen.errors import UsageError
from mbbq_gen.runs.goals import ALPHA, Goal, StopRule, Verdict
from mbbq_gen.runs.rounds import Stratum
from mbbq_gen.scoring.metrics import METRICS, Metric
from mbbq_gen.scoring.tally import GROUPINGS, tally_groups
from mbbq_gen.scoring.weights import weighted_by_design
from mbbq_gen.statistics.panel import Panel, Sampling, panel_of
from mbbq_gen.statistics.sequential import (
    FOR_DECISION,
    FOR_WIDTH,
    Interval,
    Looks,
    Measure,
    interval_at,
    is_undecidable,
    measures,
    reach_of,
    variance_of_width,
    variance_to_find,
    width_at_end,
)

if TYPE_CHECKING:
    import polars

FEWEST_TEMPLATES: Final = 5
"""Templates below which no interval stops a run."""
GROUPS: Final = ("language", "category")
"""What goals can be kept apart by: what a round can ask more of."""
_QUESTION: Final = re.compile(r"\s*([\w-]+)\s*!=\s*([\w-]+)\s*")


def parse_question(text: str, languages: Sequence[str]) -> tuple[str | None, str | None]:
    """The two languages of a question, or none of a score against 0.

    Raises:
        UsageError: for a question that is neither.
    """
    found = _QUESTION.fullmatch(text)
    if found is None:
        raise UsageError(f'--until-decided {text!r}: write "bias != 0", or two languages such as "en != tr"')
    first, second = found.groups()
    if first == "bias" and second == "0":
        return None, None
    for code in (first, second):
        if code not in languages:
            raise UsageError(
                f"--until-decided {text!r}: {code} is none of the run's languages ({', '.join(languages)});"
                ' write "bias != 0", or two of them'
            )
    if first == second:
        raise UsageError(f"--until-decided {text!r}: name two different languages")
    return first, second


def completed(rule: StopRule, before: StopRule | None, languages: Sequence[str]) -> StopRule:
    """The rule with what was not said: as the rule before it has it; at first, every language has a goal."""
    given, is_alike = rule.model_fields_set, before is not None and before.kind == rule.kind
    metrics = before.metrics if before is not None and "metrics" not in given else rule.metrics
    small = before.small if before is not None and is_alike and "small" not in given else rule.small
    find = before.find if before is not None and is_alike and "find" not in given else rule.find
    by = rule.by
    if "by" not in given:
        usual = ("language",) if len(languages) > 1 else ()
        by = before.by if before is not None and is_alike and before.first == rule.first else usual
    by = tuple(name for name in by if rule.first is None or name != "language")
    looked_before = before is not None and before.looked
    aimed = before.aimed if before is not None and looked_before else find
    looked = rule.kind == "decided" or looked_before
    said = {"metrics": metrics, "small": small, "find": find, "by": by, "looked": looked, "aimed": aimed}
    return rule.model_copy(update=said)


def too_few_templates(rule: StopRule, strata: Sequence[Stratum], offered: Offered) -> str | None:
    """Why no goal of a rule could ever be reached: its groups have too few templates; None where one has enough."""
    if rule.kind == "answers":
        return None
    names = ("benchmark", "split", *rule.by)
    groups = {tuple(zip(names, _values(stratum, names), strict=True)) for stratum in strata}
    counts = [len(offered(in_group(dict(group)))) for group in groups]
    if not counts or max(counts) >= FEWEST_TEMPLATES:
        return None
    each = rule.by[-1] if rule.by else "split"
    return (
        f"no {each} has more than {max(counts)} templates with questions that count for {', '.join(rule.metrics)}, and"
        f" an interval that stops a run needs {FEWEST_TEMPLATES}"
    )


def _values(stratum: Stratum, names: Sequence[str]) -> Iterator[str]:
    given = dict(zip(("benchmark", "split", "language", "category"), stratum, strict=True))
    yield from (given[name] for name in names)


@dataclass(frozen=True)
class Standing:
    """The goals of a rule after the rounds so far."""

    rule: StopRule
    goals: tuple[Goal, ...]

    def wanted(self, strata: Sequence[Stratum], reached: Callable[[Stratum], int]) -> list[Stratum]:
        """The strata that goals that are not settled need more of: of each goal, those that were asked least.

        `reached`: how many answers a stratum's templates have given at most.
        """
        found: set[Stratum] = set()
        for goal in self.goals:
            needed = [stratum for stratum in strata if goal.verdict == "going on" and _holds(goal, stratum)]
            least = min(map(reached, needed), default=0)
            found |= {stratum for stratum in needed if reached(stratum) == least}
        return sorted(found)

    @property
    def level(self) -> float:
        """The strictest level of a goal."""
        return min((goal.level for goal in self.goals), default=ALPHA)


def _holds(goal: Goal, stratum: Stratum) -> bool:
    """Whether a stratum counts for a goal."""
    given = dict(zip(("benchmark", "split", "language", "category"), stratum, strict=True))
    if goal.compared and given["language"] not in goal.compared:
        return False
    return all(given[name] == value for name, value in goal.group.items())


def in_group(group: dict[str, str]) -> Callable[[Stratum], bool]:
    """Whether a stratum belongs to a group."""

    def holds(stratum: Stratum) -> bool:
        given = dict(zip(("benchmark", "split", "language", "category"), stratum, strict=True))
        return all(given[name] == value for name, value in group.items())

    return holds


Offered = Callable[[Callable[[Stratum], bool]], Counter[str]]
"""Of some strata: template → answers that it can give."""


@dataclass(frozen=True)
class Looking:
    """Looks at the answers of a run, with the round of each in the column `round`."""

    rule: StopRule
    frame: polars.DataFrame
    offered: Offered
    is_used_up: Callable[[Stratum], bool]
    strata: Sequence[Stratum]

    def standing(self) -> Standing:
        """How every goal of the rule stands."""
        goals = [goal for name in self.rule.metrics for goal in self._goals(METRICS[name])]
        return Standing(self.rule, tuple(goals))

    def _goals(self, metric: Metric) -> Iterator[Goal]:
        looks: dict[tuple[tuple[str, str], ...], list[tuple[Measure, int]]] = {}
        for number in sorted(self.frame["round"].unique().to_list()):
            for group, measure, answers in self._look(metric, number):
                looks.setdefault(tuple(group.items()), []).append((measure, answers))
        for key, found in looks.items():
            yield self._goal(metric, dict(key), found, len(looks) * len(self.rule.metrics))

    def _look(self, metric: Metric, number: int) -> Iterator[tuple[dict[str, str], Measure, int]]:
        """What the answers up to a round tell of each group."""
        import polars as pl

        frame = weighted_by_design(self.frame.filter(pl.col("round") <= number))
        by = ["benchmark", "split", *self.rule.by]
        if self.rule.first is not None:
            by = list(dict.fromkeys([*by, "language"]))
        tallies = list(tally_groups(frame, {name: GROUPINGS[name] for name in by}))
        panel = panel_of(tallies, Sampling(resamples=1))
        found = self._measures(metric, panel)
        if self.rule.first is None:
            yield from ((_texts(tally.group), *found[place]) for place, tally in enumerate(tallies))
            return
        pairs: dict[tuple[tuple[str, str], ...], dict[str, tuple[Measure, int]]] = {}
        for place, tally in enumerate(tallies):
            group = _texts(tally.group)
            language = group.pop("language")
            pairs.setdefault(tuple(group.items()), {})[language] = found[place]
        for key, both in pairs.items():
            if self.rule.first in both and self.rule.second in both:
                (one, here), (other, there) = both[self.rule.first], both[str(self.rule.second)]
                yield dict(key), one.minus(other), here + there

    def _measures(self, metric: Metric, panel: Panel) -> list[tuple[Measure, int]]:
        import numpy as np

        asked = np.zeros_like(panel.cells)
        offered = np.zeros(panel.cells.shape[:2])
        place = {name: number for number, name in enumerate(panel.templates)}
        for row, tally in enumerate(panel.tallies):
            asked[row, [place[name] for name in tally.templates]] = tally.asked
            for name, count in self.offered(in_group(_texts(tally.group))).items():
                if name in place:
                    offered[row, place[name]] = count
        found = measures(metric, panel, asked, offered)
        return [(measure, int(asked[row].sum())) for row, measure in enumerate(found)]

    def _goal(self, metric: Metric, group: dict[str, str], looks: list[tuple[Measure, int]], family: int) -> Goal:
        """How one goal stands after its looks, up to the one that reached it; looks without news don't count."""
        new = [look for place, look in enumerate(looks) if place == 0 or look[1] > looks[place - 1][1]]
        decided = self.rule.kind == "decided"
        alpha = ALPHA / family if decided else ALPHA
        rho = FOR_DECISION if decided or self.rule.looked else FOR_WIDTH
        so_far = Looks(alpha, rho)
        for number, (measure, answers) in enumerate(new, 1):
            interval = self._interval(so_far, measure, alpha)
            goal = self._stands(metric, group, measure, interval, number, answers)
            if goal.verdict == "going on" and self._would_have_found(measure, alpha):
                said = f"not found; {self.rule.find:g} would have been found in 90 % of such runs"
                goal = goal.model_copy(update={"verdict": "not found", "said": said})
            if goal.verdict == "reached" and self.rule.kind != "answers":
                break
        if goal.verdict == "hopeless" and self.rule.kind == "width":
            return _with_last_look(goal, [measure for measure, _ in new], Looks(alpha, rho))
        return goal

    def _would_have_found(self, measure: Measure, alpha: float) -> bool:
        """Whether as much is asked as finds what is to be found; templates that all say the same don't tell."""
        find = self.rule.find
        return find is not None and 0 < measure.variance <= variance_to_find(find, measure, alpha)

    def _interval(self, so_far: Looks, measure: Measure, alpha: float) -> Interval:
        """The interval of the next look."""
        rule = self.rule
        if rule.kind == "answers" and not rule.looked:  # a sample of a fixed size
            return interval_at(measure, reach_of(ALPHA))
        if rule.kind == "decided" and rule.aimed is not None:
            return so_far.next(measure, variance_to_find(rule.aimed, measure, alpha))
        # Small enough to say "smaller" of a score that is half as far off: an aim too near spends all at once.
        wanted = rule.width if rule.kind == "width" else rule.small if rule.kind == "decided" else None
        return so_far.next(measure, 0.0 if wanted is None else variance_of_width(wanted, measure, alpha))

    def _stands(  # noqa: PLR0917
        self, metric: Metric, group: dict[str, str], last: Measure, interval: Interval, looks: int, answers: int
    ) -> Goal:
        """How a goal stands at a look."""
        rule = self.rule
        goal = Goal(
            metric=metric.name,
            group=group,
            compared=None if rule.first is None else (rule.first, str(rule.second)),
            looks=looks,
            answers=answers,
            value=_number(interval.value),
            low=_number(interval.low),
            high=_number(interval.high),
            level=interval.level,
            verdict="going on",
            said="",
        )
        verdict, said = self._verdict(goal, interval, last)
        return goal.model_copy(update={"verdict": verdict, "said": said})

    def _verdict(self, goal: Goal, interval: Interval, last: Measure) -> tuple[Verdict, str]:
        rule = self.rule
        left = [stratum for stratum in self.strata if _holds(goal, stratum) and not self.is_used_up(stratum)]
        enough = last.estimate.n_templates >= FEWEST_TEMPLATES and not math.isnan(interval.width)
        if rule.kind == "answers":
            return "reached", ""
        if enough and rule.kind == "decided" and (answer := answer_of(interval, rule.small)):
            return "reached", answer
        if enough and rule.width is not None and interval.width <= rule.width:
            return "reached", f"no wider than {rule.width:g}"
        if not left:
            return "used up", "everything is asked"
        few = self._templates(goal)
        if few < FEWEST_TEMPLATES:
            return "hopeless", f"{few} templates: no interval stops a run below {FEWEST_TEMPLATES}"
        if enough and rule.width is not None and width_at_end(last, reach_of(interval.level), ALPHA) > rule.width:
            return "hopeless", f"the templates differ too much for a width of {rule.width:g}, whatever else is asked"
        if enough and rule.kind == "decided" and is_undecidable(last, interval, rule.small, ALPHA):
            return "hopeless", "the templates differ too much to decide it, whatever else is asked"
        return "going on", ""

    def _templates(self, goal: Goal) -> int:
        """How many templates a goal could ever have."""
        return len(self.offered(lambda stratum: _holds(goal, stratum)))


def _with_last_look(goal: Goal, seen: Sequence[Measure], looks: Looks) -> Goal:
    """A goal that is given up, with the interval of a look that is the last: it spends the error that is left.

    It was given up because templates are few or differ too much, whatever the score is; so the level holds.
    """
    for measure in seen:
        interval = looks.next(measure, seen[-1].variance)
    low, high = _number(interval.low), _number(interval.high)
    return goal.model_copy(update={"low": low, "high": high, "level": interval.level})


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
