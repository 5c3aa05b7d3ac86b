"""Adaptive runs: sends requests in rounds until a stopping rule is met.

    rule ─► round ─► executed and extracted ─► interim analysis ─┬─► next round, of targets not yet reached
                                                                 └─► reason for stopping, in the manifest

In a round, all templates of an active stratum are filled up to the same number of answers. The conditions, polarities,
variants, option orders and questions that a template has least of come first.

The rule is stored with the run, and a round (table `rounds`) before its requests are sent. Interim looks are recomputed
from the responses and their rounds, so a killed run continues as if it had not been interrupted.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final

from mbbq_gen.core.errors import ConfigError
from mbbq_gen.core.files import PackPaths, stable_number
from mbbq_gen.core.option_display import Kind
from mbbq_gen.prompts.sampling import KINDS
from mbbq_gen.runs.budget import CostLimitError
from mbbq_gen.runs.executor import Session
from mbbq_gen.runs.extraction import extract_run, observations
from mbbq_gen.runs.resolve import notices
from mbbq_gen.runs.stopping_rule import (
    ALPHA,
    SETTINGS,
    StoppingRecord,
    StoppingRule,
    StoppingTarget,
    TargetState,
    describe_rule,
    target_line,
)
from mbbq_gen.scoring.metrics import METRICS, Metric, kind_of, needed_kinds
from mbbq_gen.scoring.observations import Questions
from mbbq_gen.scoring.tally import GROUPINGS, tally_groups, weighted_by_design
from mbbq_gen.statistics.estimate import InferenceSettings
from mbbq_gen.statistics.panel import panel_of
from mbbq_gen.statistics.sequential import (
    FOR_DECISION,
    FOR_WIDTH,
    InterimEstimate,
    Interval,
    critical_value,
    interim_estimates,
    interval_after,
    interval_at,
    is_undecidable,
    median_unbiased,
    variance_of_width,
    width_at_end,
)
from mbbq_gen.storage.ledgers import CandidateRequest, Stratum, candidate_requests

if TYPE_CHECKING:
    import polars

FIRST: Final = 2
"""Answers of each kind for every template in the first round."""
GROWTH: Final = 1.2
"""Growth of the answers per round; small, so that a run stops soon after it has enough."""
BATCH_GROWTH: Final = 2**0.5
"""Growth if a round is a batch, which may take a service a day."""
FEWEST_TEMPLATES: Final = 5
"""Fewest templates of an interval that stops a run."""


def _add(counts: Counter[object], request: CandidateRequest) -> None:
    """Counts a request under each property by which `_TemplateQueue.take` chooses; `kind[0]` is the condition."""
    kind, variant, order = request.kind, request.prompt_variant, request.order
    counts.update(("answers", kind[0], kind, ("variant", variant), ("order", order), ("question", request.question)))
    counts.update(((kind, variant), (kind, order)))


@dataclass
class _TemplateQueue:
    """The requests of a template: the remaining ones, and counts of those taken."""

    remaining: dict[Kind, dict[str, list[CandidateRequest]]] = field(default_factory=dict)
    """Kind → prompt variant → remaining requests, in the order that breaks ties."""
    taken: Counter[object] = field(default_factory=Counter)

    def take(self, overall: Counter[object]) -> CandidateRequest:
        """Takes the request whose kind, variant, question and order are rarest in the template, then the language.

        `overall`: counts of the requests taken in the language.
        """
        taken = self.taken

        def kind_rank(kind: Kind) -> tuple[int, ...]:
            rank = KINDS.index(kind) if kind in KINDS else len(KINDS)
            return taken[kind[0]], taken[kind], overall[kind[0]], overall[kind], rank

        def rank(place: int) -> tuple[int, ...]:
            question, order = requests[place].question, requests[place].order
            return taken["question", question], taken[kind, order], taken["order", order], overall[kind, order], place

        kind = min(self.remaining, key=kind_rank)
        variants = self.remaining[kind]
        variant = min(variants, key=lambda each: (taken[kind, each], taken["variant", each], overall[kind, each], each))
        requests = variants[variant]
        found = requests.pop(min(range(len(requests)), key=rank))
        if not requests:
            del variants[variant]
        if not variants:
            del self.remaining[kind]
        _add(taken, found)
        _add(overall, found)
        return found


def round_sizes(kinds: int, growth: float = GROWTH) -> Iterator[int]:
    """Answers per template after each round, endlessly; `kinds`: the number of kinds of questions."""
    each = FIRST
    while True:
        yield each * kinds
        each = max(each + 1, round(each * growth))


class SamplingRounds:
    """Chooses the requests of each round, depending on those of earlier rounds."""

    def __init__(self, requests: Iterable[CandidateRequest], seed: int, growth: float = GROWTH) -> None:
        self._growth = growth
        self._queues: dict[Stratum, dict[str, _TemplateQueue]] = defaultdict(lambda: defaultdict(_TemplateQueue))
        self._overall: dict[tuple[str, ...], Counter[object]] = defaultdict(Counter)
        """Benchmark, split and language → counts of the requests taken."""
        self._offered: Counter[tuple[Stratum, str]] = Counter()
        self.last = 0
        """Number of the last round; 0: none yet."""
        found = sorted(
            requests, key=lambda one: (stable_number(seed, one.stratum.benchmark, one.question), one.question)
        )
        self._n_kinds = len({request.kind for request in found})
        for request in found:
            queue = self._queues[request.stratum][request.template]
            self._offered[request.stratum, request.template] += 1
            self.last = max(self.last, request.round)
            if request.round:
                _add(queue.taken, request)
                _add(self._overall[request.stratum[:3]], request)
            else:
                queue.remaining.setdefault(request.kind, {}).setdefault(request.prompt_variant, []).append(request)
        for queues in self._queues.values():
            for template in sorted(queues, key=lambda template: stable_number(seed, template)):
                queues[template] = queues.pop(template)  # shuffled, so that no template is preferred

    def strata(self, group: Mapping[str, str]) -> list[Stratum]:
        """The strata of a group, sorted."""
        values = group.items()
        return [one for one in sorted(self._queues) if all(getattr(one, name) == value for name, value in values)]

    def offered(self, group: Mapping[str, str]) -> Counter[str]:
        """Template (benchmark / category / id) → its planned requests in a group."""
        found, strata = Counter[str](), set(self.strata(group))
        for (stratum, template), count in self._offered.items():
            if stratum in strata:
                found[f"{stratum.benchmark} / {stratum.category} / {template}"] += count
        return found

    def n_taken(self, stratum: Stratum) -> int:
        """The largest number of requests taken from a template of a stratum."""
        return max(queue.taken["answers"] for queue in self._queues[stratum].values())

    def unfinished(self, group: Mapping[str, str]) -> list[Stratum]:
        """The strata of a group that have requests left."""
        return [one for one in self.strata(group) if any(queue.remaining for queue in self._queues[one].values())]

    def next_round(self, strata: Iterable[Stratum], answers: int | None = None) -> list[CandidateRequest]:
        """The next round of some strata, up to `answers` per template (None: as rounds grow); empty at the end."""
        self.last += 1
        taken: list[CandidateRequest] = []
        for stratum in sorted(strata):
            queues, n_before = self._queues[stratum].values(), self.n_taken(stratum)
            target = answers or next(size for size in round_sizes(self._n_kinds, self._growth) if size > n_before)
            while short := [queue for queue in queues if queue.remaining and queue.taken["answers"] < target]:
                taken += [queue.take(self._overall[stratum[:3]]) for queue in short]
        return taken


_Group = tuple[tuple[str, str], ...]
"""Grouping and its value, for each grouping of a target."""


def answer_of(interval: Interval, margin: float) -> str | None:
    """The decision that an interval supports, or None; `margin`: the equivalence margin."""
    is_within_margin = -margin < interval.low and interval.high < margin
    if interval.low > 0 or interval.high < 0:
        return "yes" + (f", but smaller than {margin:g}" if is_within_margin else "")
    return f"smaller than {margin:g}" if is_within_margin else None


# --- runs -------------------------------------------------------------------------------------------------------------


@dataclass
class AdaptiveRun:
    """An adaptive run, open for writing."""

    session: Session
    resources: PackPaths
    rule: StoppingRule
    in_batches: bool = False
    rounds: SamplingRounds = field(init=False)

    async def execute(self, send_pending: Callable[[], Awaitable[bool]]) -> bool:
        """Sends rounds by `send_pending` until the rule is met; both return whether batches are open."""
        rule, store, say = self.rule, self.session.store, self.session.watcher.say
        kinds, requests = needed_kinds(METRICS[name] for name in rule.metrics), dict[str, CandidateRequest]()
        languages = rule.compared or self.session.config.languages
        for request in candidate_requests(store):
            counts = kind_of(request.kind[0], request.kind[2], bool(request.has_single_target)) in kinds
            if request.round or (counts and request.stratum.language in languages):
                requests.setdefault(request.request_key, request)
        growth = BATCH_GROWTH if self.in_batches else GROWTH
        self.rounds = rounds = SamplingRounds(requests.values(), self.session.config.seed, growth)
        if rule.kind != "answers" and not store.progress().pending:
            self._check_reachable()
        say(f"in rounds, until {describe_rule(rule)}")
        while True:
            if store.progress().pending:
                try:
                    if await send_pending():
                        return True
                except CostLimitError:
                    self._stop(self._interim_analysis(), "stopped by --max-cost in the middle of a round")
                    raise
            targets = self._interim_analysis()
            taken = rounds.next_round(self._next_strata(targets), rule.answers)
            if not taken:
                self._stop(targets, _reason(rule, targets))
                return False
            rows = [(request.request_key, rounds.last) for request in taken]
            store.change(("INSERT OR IGNORE INTO rounds VALUES (?, ?)", rows))
            say(f"round {rounds.last}: {len(taken):,} requests")

    def _check_reachable(self) -> None:
        """Raises ConfigError if no target can be reached because all groups have too few templates."""
        rule, rounds = self.rule, self.rounds
        names = ("benchmark", "split", *rule.group_by)
        groups = {tuple((name, getattr(stratum, name)) for name in names) for stratum in rounds.strata({})}
        most = max((len(rounds.offered(dict(group))) for group in groups), default=FEWEST_TEMPLATES)
        if most < FEWEST_TEMPLATES:
            each = rule.group_by[-1] if rule.group_by else "split"
            raise ConfigError(
                SETTINGS[rule.kind],
                None,
                f"no {each} has more than {most} templates with questions that count for {', '.join(rule.metrics)},"
                f" and an interval that stops a run needs {FEWEST_TEMPLATES}; give {{answers_per_template}}, or select"
                " more",
            )

    def _next_strata(self, targets: tuple[StoppingTarget, ...] | None) -> Iterable[Stratum]:
        """The strata of the next round: those with the fewest answers in each unsettled target."""
        rule, rounds = self.rule, self.rounds
        if targets is None or rule.kind == "answers":
            return rounds.unfinished({})
        found: set[Stratum] = set()
        for target in targets:
            if target.state == "going on":
                needed = rounds.unfinished(target.group)
                least = min(map(rounds.n_taken, needed), default=0)
                found |= {stratum for stratum in needed if rounds.n_taken(stratum) == least}
        return found

    @cached_property
    def _questions(self) -> Questions:
        """The questions of the run, which do not change between looks."""
        return self.session.store.questions()

    def _interim_analysis(self) -> tuple[StoppingTarget, ...] | None:
        """The state of every target of the rule, from its estimates after each round; None without answers."""
        import polars as pl

        store = self.session.store
        current = extract_run(store, self.resources, lambda _: None)
        versions = {language: [version] for language, version in current.items()}
        frame = observations(store, versions, self.session.config.model, questions=self._questions)
        if frame.is_empty():
            return None
        joined = "LEFT JOIN rounds r ON r.request_key = p.request_key"
        rows = store.extraction_rows("coalesce(r.round, 0)", versions, joined)
        frame = frame.with_columns(round=pl.Series([number for (number,) in rows], dtype=pl.Int64))
        targets = []
        for name in self.rule.metrics:
            looks: dict[_Group, list[InterimEstimate]] = defaultdict(list)
            for number in sorted(frame["round"].unique().to_list()):
                for group, estimate in self._estimates(METRICS[name], frame.filter(pl.col("round") <= number)):
                    looks[group].append(estimate)
            family = len(looks) * len(self.rule.metrics)
            targets += [self._target(name, dict(group), estimates, family) for group, estimates in looks.items()]
        return tuple(targets)

    def _estimates(self, metric: Metric, frame: polars.DataFrame) -> Iterator[tuple[_Group, InterimEstimate]]:
        """The groups of the rule with their estimates: scores, or differences of the two languages it compares."""
        import numpy as np

        compared = self.rule.compared
        by = dict.fromkeys(["benchmark", "split", *self.rule.group_by, *(["language"] if compared else [])])
        tallies = list(tally_groups(weighted_by_design(frame), {name: GROUPINGS[name] for name in by}))
        groups = [{name: str(value) for name, value in tally.group.items()} for tally in tallies]
        panel = panel_of(tallies, InferenceSettings(n_resamples=1))
        requested, offered = np.zeros_like(panel.cells), np.zeros(panel.cells.shape[:2])
        place = {name: number for number, name in enumerate(panel.templates)}
        for row, (tally, group) in enumerate(zip(panel.tallies, groups, strict=True)):
            requested[row, [place[name] for name in tally.templates]] = tally.answer_counts
            for name, count in self.rounds.offered(group).items():
                if name in place:
                    offered[row, place[name]] = count
        estimates = zip(groups, interim_estimates(metric, panel, requested, offered), strict=True)
        if compared is None:
            yield from ((tuple(group.items()), estimate) for group, estimate in estimates)
            return
        by_language: dict[_Group, dict[str, InterimEstimate]] = defaultdict(dict)
        for group, estimate in estimates:
            language = group.pop("language")
            by_language[tuple(group.items())][language] = estimate
        for key, sides in by_language.items():
            if sides.keys() >= set(compared):
                yield key, sides[compared[0]].subtract(sides[compared[1]])

    def _target(self, metric: str, group: dict[str, str], looks: list[InterimEstimate], family: int) -> StoppingTarget:
        """The state of a target; it is reached at the first look that reaches it, whatever is sent later.

        `looks`: its estimates after each round; those without new answers do not count. `family`: number of targets.
        """
        rule, is_decision = self.rule, self.rule.kind == "decision"
        new = [look for place, look in enumerate(looks) if place == 0 or look.answers > looks[place - 1].answers]
        # An interval as wide as the margin can show that half of the margin is smaller; a wider aim spends too early.
        wanted = rule.equivalence_margin if is_decision else rule.width
        alpha, rho = (ALPHA / family, FOR_DECISION) if is_decision else (ALPHA, FOR_WIDTH)
        state: TargetState = "reached"
        past, explanation, n_looks = list[Interval](), "", len(new)
        if wanted is None:  # a sample of fixed size: only the last look counts
            interval = interval_at(new[-1], critical_value(ALPHA))
        else:
            is_left, n_templates = bool(self.rounds.unfinished(group)), len(self.rounds.offered(group))
            for look in new:
                aim = variance_of_width(wanted, look, alpha)
                interval = interval_after(new[: len(past) + 1], alpha, rho, aim)
                past.append(interval)
                state, explanation = self._state_of(interval, look, n_templates, is_left=is_left)
                if state == "reached":
                    break
            n_looks = len(past)
        last = new[n_looks - 1]
        if state == "futile" and not is_decision:
            # The last look spends the remaining error. The target was given up for its number of templates or their
            # variance, independently of the score, so the level holds.
            interval = interval_after(new[:n_looks], alpha, rho, last.variance)
        is_done = is_decision and state != "going on" and not math.isnan(interval.value)
        adjusted = median_unbiased(past, rule.equivalence_margin) if is_done else math.nan
        values = {"value": interval.value, "adjusted_value": adjusted, "ci_low": interval.low, "ci_high": interval.high}
        return StoppingTarget(
            metric=metric,
            group=group,
            compared=rule.compared,
            n_looks=n_looks,
            answers=last.answers,
            **{name: None if math.isnan(value) else value + 0.0 for name, value in values.items()},
            level=interval.level,
            state=state,
            explanation=explanation,
        )

    def _state_of(
        self, interval: Interval, last: InterimEstimate, n_templates: int, *, is_left: bool
    ) -> tuple[TargetState, str]:
        """The state of a target at a look, and the reason; `n_templates`: the number of templates in its group."""
        rule, width, margin = self.rule, self.rule.width, self.rule.equivalence_margin
        enough = last.estimate.n_templates >= FEWEST_TEMPLATES and not math.isnan(interval.width)
        is_decision = rule.kind == "decision"
        if enough and is_decision and (answer := answer_of(interval, margin)):
            return "reached", answer
        if enough and width is not None and interval.width <= width:
            return "reached", f"no wider than {width:g}"
        if not is_left:
            return "exhausted", "all requests are sent"
        if n_templates < FEWEST_TEMPLATES:
            return "futile", f"{n_templates} templates: no interval stops a run below {FEWEST_TEMPLATES}"
        explanation = "the templates differ too much {}, whatever else is sent"
        if enough and width is not None and width_at_end(last, critical_value(interval.level), ALPHA) > width:
            return "futile", explanation.format(f"for a width of {width:g}")
        if enough and is_decision and is_undecidable(last, interval, margin, ALPHA):
            return "futile", explanation.format("to decide it")
        return "going on", ""

    def _stop(self, targets: tuple[StoppingTarget, ...] | None, reason: str) -> None:
        """Reports why the run stops, and writes it into the manifest."""
        session, rule = self.session, self.rule
        requests = session.store.progress().requests
        number = session.store.value("SELECT coalesce(max(round), 0) FROM rounds")
        offered = sum(self.rounds.offered({}).values())
        n_rounds = f"{number} round{'' if number == 1 else 's'}"
        sentence = f"{reason}, after {n_rounds} and {requests:,} of {offered:,} requests"
        is_fixed = rule.kind == "answers" or targets is None
        stopping = StoppingRecord(
            rule=rule,
            rounds=number,
            requests=requests,
            offered=offered,
            targets=targets or (),
            level=None if is_fixed else min((each.level for each in targets or ()), default=ALPHA),
            sentence=sentence,
        )
        lines = (f"adaptive run, until {describe_rule(rule)}: {sentence}", *map(target_line, targets or ()))
        for line in lines:
            session.watcher.say(line)
        changes = {"adaptive": stopping, "notices": (*notices(session.config), *lines)}
        session.folder.write_manifest(session.folder.manifest().model_copy(update=changes))


def _reason(rule: StoppingRule, targets: tuple[StoppingTarget, ...] | None) -> str:
    """The reason why nothing more is sent."""
    if targets is None or rule.kind == "answers":
        return "nothing counts for the metrics" if targets is None else "asked"
    states = [target.state for target in targets]
    n_reached = states.count("reached")
    if n_reached == len(states):
        return "reached"
    return f"reached for {n_reached} of {len(states)}, and no more can be" if n_reached else "can't be reached"
