"""Commands `init`, `doctor`, `models`, `estimate` and `design`, which prepare a run."""

from __future__ import annotations

import asyncio
import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

import mbbq_gen
from mbbq_gen.cli.command import Command, PackCommand, argument, flag, option, settings
from mbbq_gen.cli.options import ConfidenceLevel, PromptEffectsChoice, variances_of
from mbbq_gen.cli.output import echo, print_json, print_rows, say, show_result, write_lines
from mbbq_gen.core.config import RunConfig, setting_info
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import PACK_KINDS, PackPaths, cache_directory, shipped_root
from mbbq_gen.core.text import duration, one_of, words

_LOCAL_SAMPLE = 96
"""Default sample for a local model; takes a small model an hour or two on a CPU."""
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class Init(Command):
    """Writes a study file for `run` and estimates its cost.

    --model may name several, comma-separated; without options, the study is of a synthetic model on `starter`. Without
    --sample, as many questions as --max-cost allows. Nothing is sent to any model.
    """

    help_examples = (
        "  mbbq-gen init\n"
        "  mbbq-gen init paper.toml --model openai:gpt-4o-mini --benchmark mbbq --languages en,tr\n"
        "  mbbq-gen init --model openai:qwen2.5:7b --base-url http://127.0.0.1:11434/v1 --benchmark starter"
    )
    file: Path = argument("FILE", "Study file to write.", default=Path("study.toml"))
    config: RunConfig = settings(("model", "base_url", "benchmark", "languages", "sample", "max_cost"))
    print_schema: bool = flag("", "Only print the JSON schema of study files, for editors.", "--schema")

    def _run(self) -> None:
        from mbbq_gen.runs.study import study_schema

        file = self.file
        if self.print_schema:
            print_json(study_schema())
            return
        if file.suffix != ".toml":
            raise UsageError(f"{file}: the name of a study ends in .toml; use {file.with_suffix('.toml')}")
        if file.exists():
            raise UsageError(f"{file}: exists; run it (mbbq-gen run {file}), or name another file")
        configs = self._configs()
        plans = {config.model: _plan(config) for config in configs}
        shared = configs[0]
        lines = [
            "# A study: `mbbq-gen run` runs every model on every benchmark, and continues after a stop.",
            "",
            f"benchmarks = {_toml(shared.benchmark)}",
            f"languages = {_toml(shared.languages)}",
            f"variants = {_toml(shared.variants)}          # see `mbbq-gen prompts list`",
            f"splits = {_toml(shared.splits)}             # control: the same questions with first names",
        ]
        for config in configs:
            lines += ["", "[[model]]", f"name = {_toml(config.model)}"]
            if (sample := plans[config.model][0]) is not None:
                lines.append(f"sample = {sample}          # questions for each language and split; omit for all")
            if config.base_url:
                lines.append(f"base_url = {_toml(config.base_url)}")
            if config.max_cost is not None and _is_paid(config.model, config.base_url):
                lines.append(f"max_cost = {config.max_cost}        # US dollars")
        write_lines(file, lines)
        if self.as_json:
            samples, forecasts = ({name: plan[part] for name, plan in plans.items()} for part in (0, 1))
            print_json({"file": str(file), "samples": samples, "forecasts": forecasts})
            return
        for name, (_, forecast) in plans.items():
            echo(f"{name}: {forecast}")
        echo(f"written: {file}\nnext: mbbq-gen run {file}")

    def _configs(self) -> list[RunConfig]:
        """The configuration of each model."""
        from mbbq_gen.benchmarks.registry import find_benchmark
        from mbbq_gen.providers.registry import check_name

        given = self.config
        names = words(given.model or "synthetic:able-stereotyped")
        for name in names:
            check_name(name)
        if given.base_url is not None and not any(name.startswith("openai:") for name in names):
            raise UsageError("--base-url: no openai: model is named; for a local server use --model openai:NAME")
        benchmarks = [find_benchmark(name) for name in given.benchmark or ("starter",)]
        codes = given.languages if "languages" in given.model_fields_set else benchmarks[0].languages[:1]
        shared = {
            "benchmark": [info.name for info in benchmarks],
            "languages": codes,
            "variants": "letters,polite",
            "splits": "bias,control",
            "sample": given.sample,
            "max_cost": given.max_cost,
        }
        urls = {name: given.base_url for name in names if name.startswith("openai:")}
        return [RunConfig(model=name, base_url=urls.get(name), **shared) for name in names]


def _is_paid(model: str, base_url: str | None) -> bool:
    """True if requests to a model may cost money."""
    kind, is_local = model.partition(":")[0], urlsplit(base_url or "").hostname in _LOOPBACK
    free = {"transformers", "ollama", "oracle", "synthetic", "scripted"}
    return kind not in free and not (kind == "openai" and is_local)


def _plan(config: RunConfig) -> tuple[int | None, str]:
    """The sample for each language and split (None: all), and requests, cost and time as text."""
    from mbbq_gen.report.run_tables import dollars
    from mbbq_gen.runs.estimate import run_estimate
    from mbbq_gen.runs.resolve import resolve

    is_local, resources = config.model.startswith("transformers:"), PackPaths()
    sample = _LOCAL_SAMPLE if is_local and config.sample is None else config.sample
    resolved = resolve(config.model_copy(update={"sample": sample, "max_cost": None}), resources)
    try:
        found = run_estimate(resolved, resources)
    except UsageError as error:
        if str(error).startswith(f"{config.benchmark[0]}:"):
            raise
        say(f"{config.model}: {error}")
        return sample, "no estimate until it is installed (mbbq-gen doctor)"
    share, cost = 1.0, found.cost
    if sample is None and config.max_cost is not None and cost is not None and cost.online > config.max_cost:
        each = found.tokens.questions / (len(resolved.languages) * len(resolved.splits))
        sample = int(each * config.max_cost / cost.online)
        share = sample / each
        if not sample:
            raise UsageError(
                f"--max-cost {config.max_cost:g}: even one question for each language and split of"
                f" {config.benchmark[0]} costs more with {config.model}; use fewer languages, or a larger amount"
            )
    facts = [f"{round(found.tokens.requests * share):,} requests"]
    if cost is not None:
        facts.append(f"about {dollars(cost.online * share)}, in batches half of it")
    if found.hours is not None:
        facts.append(f"about {duration(3600 * found.hours * share)}")
    return sample, ", ".join(facts)


def _toml(value: object) -> str:
    """A text or a list of texts as TOML, which quotes text as JSON does."""
    return json.dumps(value, ensure_ascii=False)


KEYS = (
    "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "AZURE_OPENAI_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "HF_TOKEN",
)  # fmt: skip
"""Environment variables with API keys; others can be given with --api-key-env."""
_PAGES = {"jinja2": "the page (report -o)", "vl_convert": "charts (report -o, report --figures)"}


class Doctor(Command):
    """Shows what is installed, and which keys and data are found.

    Sends no prompt, and shows names of API keys only. Each line about something missing says what it is for and how to
    get it. With --base-url, shows that server instead: what it is, its models and its sampling.
    """

    help_examples = "  mbbq-gen doctor\n  mbbq-gen doctor --base-url http://127.0.0.1:11434 --json"
    config: RunConfig = settings(("base_url", "model_args"))

    def _run(self) -> None:
        if self.config.base_url is not None:
            _check_server(self.config.base_url, self.config.model_args, as_json=self.as_json)
        elif self.config.model_args:
            raise UsageError("--model-arg: goes with --base-url")
        else:
            print_rows(_findings(), as_json=self.as_json)


def _check_server(base_url: str, model_args: Mapping[str, Any], *, as_json: bool) -> None:
    """Shows the facts about a server."""
    from mbbq_gen.runs.setup import check_server

    found = asyncio.run(check_server(base_url, model_args, PackPaths()))
    if as_json:
        print_json({**found.model_dump(mode="json"), "command": found.command})
        return
    facts = {"server": found.server, "base URL": found.base_url, "models": ", ".join(found.models) or "none"}
    facts |= {name.replace("_", " "): json.dumps(value) for name, value in found.facts.items()}
    facts |= {"sampling sent": json.dumps(found.sampling_sent), "not pinned": found.unpinned or "–"}
    for name, text in {**facts, "next": found.command}.items():
        echo(f"{name:24}{text}")


def _findings() -> list[dict[str, Any]]:
    """Rows of packages, models, keys and data; notes never contain keys."""
    from mbbq_gen.benchmarks.registry import BENCHMARKS
    from mbbq_gen.benchmarks.releases import benchmark_folder
    from mbbq_gen.providers.base import is_installed
    from mbbq_gen.providers.registry import list_models

    resources, cache = PackPaths(), cache_directory()
    found: list[tuple[str, str, bool, str]] = [
        ("package", "mbbq-gen", True, f"{mbbq_gen.__version__}, packs in {shipped_root()}"),
        ("package", "Python", True, platform.python_version()),
        ("package", "cache", cache.is_dir(), str(cache)),
    ]
    for entry in list_models():
        if not entry.name.startswith(("oracle:", "synthetic:")):
            note = entry.summary if entry.installed else str(entry.install)
            found.append(("models", entry.name, entry.installed, note))
    for module, purpose in _PAGES.items():
        has = is_installed(module)
        found.append(("pages", module, has, purpose if has else f"{purpose}: pip install 'mbbq-gen[report]'"))
    for name in KEYS:
        is_set = bool(os.environ.get(name, "").strip())
        found.append(("keys", name, is_set, "set" if is_set else "not set"))
    for name, info in BENCHMARKS.items():
        folder = benchmark_folder(name) if info.needs_data else None
        missing = f"mbbq-gen data download {name}, or --data-dir DIR" if info.needs_data else "ships"
        found.append(("data", name, folder is not None or not info.needs_data, str(folder or missing)))
    whole = [name for name in resources.names("prompts") if all(resources.find(kind, name) for kind in PACK_KINDS)]
    found.append(("languages", f"{len(whole)} with all packs", True, ", ".join(whole)))
    return [dict(zip(("about", "name", "found", "note"), facts, strict=True)) for facts in found]


class Models(Command):
    """Lists the kinds of models, or the options of one.

    The options of a kind are given as --model-arg NAME=VALUE, or as `model_args` in a study and in Python.
    """

    help_examples = "  mbbq-gen models\n  mbbq-gen models openai"
    kind: str | None = argument("KIND", "Kind, such as openai: lists its options for --model-arg.")

    def _run(self) -> None:
        from mbbq_gen.providers.registry import list_models, options_class

        if self.kind is None:
            print_rows([entry.model_dump() for entry in list_models()], as_json=self.as_json)
            return
        kind = self.kind.rstrip(":")
        options = options_class(kind if ":" in kind else f"{kind}:any").model_json_schema().get("properties", {})
        rows = [
            {"name": name, "default": option.get("default"), "help": option.get("description", "")}
            for name, option in options.items()
        ]
        if rows or self.as_json:
            print_rows(rows, as_json=self.as_json)
        else:
            echo(f"{kind} has no options")


_ESTIMATED = {"Model", "Questions", "Prompts", "Sampling", "Scoring method", "Follow-up"}
EstimateSettings = Annotated[
    RunConfig,
    settings(
        name
        for name in RunConfig.model_fields
        if setting_info(name)["group"] in _ESTIMATED or name in {"rpm", "tpm", "prices"}
    ),
]
"""Settings that determine requests, tokens and cost."""
Pilot = Annotated[
    Path | None,
    option("Estimate", "Take response lengths, and variances, from this run. Default: assumed.", metavar="RUN"),
]


class Estimate(PackCommand):
    """Estimates requests, tokens, cost and time of a run.

    Takes the options of `run` that the number and the cost of requests depend on. Shows the cost with and without the
    batch API. Sends and writes nothing, and needs no key. For the width of intervals, see `design` and `power`.
    """

    help_examples = (
        "  mbbq-gen estimate --model openai:gpt-4o-mini --benchmark mbbq --languages en,tr --splits bias,control\n"
        "  mbbq-gen estimate --model openai:gpt-4o-mini --benchmark starter --pilot pilot --json"
    )
    pilot: Pilot = None
    config: EstimateSettings

    def _run(self) -> None:
        from mbbq_gen.report.run_tables import estimate_blocks
        from mbbq_gen.runs.estimate import run_estimate
        from mbbq_gen.runs.resolve import resolve

        config = resolve(self.config, self.resources)
        found = run_estimate(config, self.resources, pilot=self.pilot)
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
    goal: Literal["score", "difference between languages"] = option("Goal", "What to measure.", default="score")
    ci_width: float | None = option("Goal", "Width of the interval to reach (upper minus lower end).", min=0.001)
    max_cost: float | None = option("Goal", "Instead of a width: US dollars to spend.", min=0.01)
    metric: str = option("Goal", "Metric; for names: `mbbq-gen score --help`.", default="mbbq_bias_ambiguous")
    pilot: Pilot = None
    prompt_effects: PromptEffectsChoice = "fixed"
    confidence_level: ConfidenceLevel = 0.95
    config: EstimateSettings

    def _run(self) -> None:
        from mbbq_gen.analysis.design import assumed_components
        from mbbq_gen.report.run_tables import design_blocks
        from mbbq_gen.runs.resolve import resolve
        from mbbq_gen.runs.setup import design_report
        from mbbq_gen.scoring.metrics import METRICS

        pilot, resources = self.pilot, self.resources
        if (self.ci_width is None) == (self.max_cost is None):
            raise UsageError("give --ci-width W or --max-cost USD, one of them")
        config = resolve(self.config, resources)
        metric = METRICS[one_of("metric", self.metric, METRICS)]
        found = design_report(
            *(config, resources),
            target=self.goal,
            metric=metric,
            components=assumed_components(metric) if pilot is None else variances_of(pilot, metric.name, resources),
            pilot=pilot,
            confidence=self.confidence_level,
            width=self.ci_width,
            max_cost=self.max_cost,
            speaks_of=self.prompt_effects,
        )
        show_result(found, design_blocks, as_json=self.as_json)
