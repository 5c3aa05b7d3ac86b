"""Commands `estimate` and `design`: cost and precision of a run before it starts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from mbbq_gen.cli.analyses import variances_of
from mbbq_gen.cli.command import PackCommand, option, settings
from mbbq_gen.cli.options import AverageChoice, ConfidenceLevel, PromptEffectsChoice
from mbbq_gen.cli.output import say, show_result
from mbbq_gen.core.config import RunConfig, about
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.text import one_of

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
Pilot = Annotated[
    Path | None,
    option("Estimate", "Take response lengths and variances from this run. Default: assumed.", metavar="RUN"),
]


class Estimate(PackCommand):
    """Estimates requests, tokens, cost and time of a run.

    Takes the options of `run` that the number and the cost of requests depend on. Shows the cost with and without the
    batch API. Also lists the cost and the interval width of smaller, balanced samples. Sends and writes nothing, and
    needs no key.
    """

    help_examples = (
        "  mbbq-gen estimate --model openai:gpt-4o-mini --benchmark mbbq --languages en,tr --splits bias,control\n"
        "  mbbq-gen estimate --model openai:gpt-4o-mini --benchmark starter --pilot pilot --json"
    )
    tokenizer: Path | None = option(
        "Estimate",
        "The model's tokenizer.json, or the folder that holds it. Default: the model's own, if it is on this machine.",
    )
    pilot: Pilot = None
    config: EstimateSettings

    def _run(self) -> None:
        from mbbq_gen.analysis.power import DEFAULTS
        from mbbq_gen.report.run_tables import estimate_blocks
        from mbbq_gen.runs.cost_estimate import run_estimate
        from mbbq_gen.runs.resolve import resolve

        where, assumptions = self.where, DEFAULTS
        if self.pilot is not None:
            try:
                assumptions = variances_of(self.pilot, "mbbq_bias_ambiguous", where).assumptions
            except UsageError as error:
                say(f"{self.pilot}: {error}; interval widths use assumed variances")
        given = resolve(self.config, where), where, assumptions
        found = run_estimate(*given, tokenizer=self.tokenizer, pilot=self.pilot)
        show_result(found, estimate_blocks, as_json=self.as_json)


class Design(PackCommand):
    """Finds how many questions and prompts give an interval width at the least cost.

    A design is the numbers of templates, questions, prompt variants and option orders. Takes the options of `run`
    that choose questions and prompts. Sends nothing and needs no key. Use the result with `run
    --answers-per-template`, or let `run --stop-at-ci-width` find the number of requests.
    """

    help_examples = (
        "  mbbq-gen design --model openai:gpt-4o-mini --benchmark mbbq --languages en,tr --ci-width 0.15 "
        '--goal "difference between languages"\n'
        "  mbbq-gen design --model openai:gpt-4o-mini --benchmark mbbq --languages en --max-cost 20 --pilot my-pilot"
    )
    goal: Literal["score", "difference between languages"] = option(
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
    pilot: Pilot = None
    prompt_effects: PromptEffectsChoice = "fixed"
    average: AverageChoice = "questions"
    confidence_level: ConfidenceLevel = 0.95
    config: EstimateSettings

    def _run(self) -> None:
        from mbbq_gen.analysis.design import assumed_components
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
        config = resolve(self.config, where)
        metric = METRICS[one_of("metric", self.metric, METRICS)]
        found = design_report(
            *(config, where),
            target=self.goal,
            metric=metric,
            components=assumed_components(metric) if pilot is None else variances_of(pilot, metric.name, where),
            pilot=pilot,
            confidence=self.confidence_level,
            width=self.ci_width,
            max_cost=self.max_cost,
            speaks_of=self.prompt_effects,
            average=self.average,
        )
        show_result(found, design_blocks, as_json=self.as_json)
