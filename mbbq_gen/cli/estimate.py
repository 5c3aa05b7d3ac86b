"""Commands `estimate` and `design`: cost and precision of a run before it starts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mbbq_gen.cli.analyses import variances_of
from mbbq_gen.cli.command import PackCommand, RunPacks, option, settings
from mbbq_gen.cli.options import average_of, prompt_effects_of
from mbbq_gen.cli.output import say, show_result
from mbbq_gen.core.config import RunConfig, about
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.text import one_of

if TYPE_CHECKING:
    from mbbq_gen.analysis.power import VarianceAssumptions

_ESTIMATED = {"Model", "Questions", "Prompts", "Sampling", "Scoring method", "Follow-up"}
EstimateSettings = Annotated[
    RunConfig,
    settings(
        name
        for name in RunConfig.model_fields
        if about(name)["group"] in _ESTIMATED or name in {"rpm", "tpm", "prices"}
    ),
]
"""Settings that requests, tokens and cost depend on."""


class Estimate(PackCommand):
    """Estimates requests, tokens, cost and time of a run.

    Takes the options of `run` that the number and the cost of requests depend on. Shows the cost with and without the
    batch API. Also lists the cost and the interval width of smaller, balanced samples. Sends and writes nothing, and
    needs no key.
    """

    help_examples = (
        "  mbbq-gen estimate --model openai:gpt-4o-mini --benchmark mbbq --languages en,nl,es,tr \\\n"
        "      --variants all --splits bias,control --rpm 5000\n"
        "  mbbq-gen estimate --model openai:gpt-4o-mini --benchmark starter --pilot pilot --json"
    )
    tokenizer: Path | None = option(
        "Estimate",
        "The model's tokenizer.json, or the folder that holds it. Default: the model's own, if it is on this machine.",
        metavar="PATH",
    )
    pilot: Path | None = option(
        "Estimate", "Take response lengths and variances from this run. Default: assumed.", metavar="RUN"
    )
    config: EstimateSettings
    packs: RunPacks = None

    def _run(self) -> None:
        from mbbq_gen.report.run_tables import estimate_blocks
        from mbbq_gen.runs.cost_estimate import run_estimate
        from mbbq_gen.runs.resolve import resolve

        where = self.where
        given = resolve(self.config, where), where, _assumptions(self.pilot, where)
        found = run_estimate(*given, tokenizer=self.tokenizer, pilot=self.pilot)
        show_result(found, estimate_blocks, as_json=self.as_json)


def _assumptions(pilot: Path | None, where: PackPaths) -> VarianceAssumptions:
    """The variances of a pilot; without one, or where too few of its answers were parsed, the assumed ones."""
    from mbbq_gen.analysis.power import DEFAULTS

    if pilot is None:
        return DEFAULTS
    try:
        return variances_of(pilot, "mbbq_bias_ambiguous", where).assumptions
    except UsageError as error:
        say(f"{pilot}: {error}; interval widths use assumed variances")
        return DEFAULTS


class Design(PackCommand):
    """Finds how many questions and prompts give an interval width at the least cost.

    A design is the numbers of templates, questions, prompt variants and option orders. Takes the options of `run`
    that choose questions and prompts. Sends nothing and needs no key. Use the result with `run
    --answers-per-template`, or let `run --stop-at-ci-width` find the number of requests.
    """

    help_examples = (
        "  mbbq-gen design --model openai:gpt-4o-mini --benchmark mbbq --languages en,tr --splits bias \\\n"
        '      --goal "difference between languages" --ci-width 0.15\n'
        "  mbbq-gen design --model openai:gpt-4o-mini --benchmark mbbq --languages en --max-cost 20 --pilot my-pilot\n"
        "  mbbq-gen design --model openai:gpt-4o-mini --benchmark mbbq --languages en --ci-width 0.1 \\\n"
        "      --average random-effects\n"
        "  mbbq-gen design --model transformers:smollm2 --benchmark starter --languages en --ci-width 0.2 --json"
    )
    goal: str = option(
        "Goal", "What to measure: `score` or `difference between languages`.", default="score", metavar="TEXT"
    )
    ci_width: float | None = option(
        "Goal", "Width of the confidence interval to reach (upper minus lower end).", metavar="W"
    )
    max_cost: float | None = option(
        "Goal", "Instead of a width: US dollars to spend; finds the narrowest interval.", metavar="USD"
    )
    metric: str = option(
        "Goal", "Metric to measure; for names: `mbbq-gen score --help`.", default="mbbq_bias_ambiguous"
    )
    pilot: Path | None = option(
        "Goal", "Take variances and response lengths from this run. Default: assumed.", metavar="RUN"
    )
    prompt_effects: str = option(
        "Goal",
        "Intervals for: fixed (these prompt variants) or random (variants like them).",
        default="fixed",
        metavar="TYPE",
    )
    average: str = option(
        "Goal",
        "What the score is the mean over: questions or templates (the same here, for a design uses templates "
        "alike), or random-effects.",
        default="questions",
    )
    confidence_level: float = option("Goal", "Confidence level of the interval.", default=0.95, min=0.5, max=0.999)
    config: EstimateSettings
    packs: RunPacks = None

    def _run(self) -> None:
        from mbbq_gen.analysis.design import DESIGN_TARGETS, assumed_components
        from mbbq_gen.report.run_tables import design_blocks
        from mbbq_gen.runs.cost_estimate import design_report
        from mbbq_gen.runs.resolve import resolve
        from mbbq_gen.scoring.metrics import METRICS

        pilot, where = self.pilot, self.where
        if (self.ci_width is None) == (self.max_cost is None):
            raise UsageError("give --ci-width W or --max-cost USD, one of them")
        for name, amount in (("ci-width", self.ci_width), ("max-cost", self.max_cost)):
            if amount is not None and not amount > 0:
                raise UsageError(f"--{name} {amount:g}: give a number above 0")
        if pilot is not None and pilot.name.isdigit() and not pilot.exists():
            raise UsageError(
                f"--pilot {pilot}: give a run folder; make one with `mbbq-gen run RUN … --answers-per-template 4` and"
                " continue the same run afterwards"
            )
        config = resolve(self.config, where)
        goal = one_of("goal", self.goal, DESIGN_TARGETS)
        metric = METRICS[one_of("metric", self.metric, METRICS)]
        found = design_report(
            *(config, where),
            target=goal,
            metric=metric,
            components=assumed_components(metric) if pilot is None else variances_of(pilot, metric.name, where),
            pilot=pilot,
            confidence=self.confidence_level,
            width=self.ci_width,
            max_cost=self.max_cost,
            speaks_of=prompt_effects_of(self.prompt_effects),
            average=average_of(self.average),
        )
        show_result(found, design_blocks, as_json=self.as_json)
