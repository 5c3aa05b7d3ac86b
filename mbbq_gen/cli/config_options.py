"""Options that several commands share, declared once as dataclasses, and the settings they stand for."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

from mbbq_gen.cli.help import option
from mbbq_gen.core.errors import UsageError

if TYPE_CHECKING:
    from mbbq_gen.core.config import ExecutionOverrides, RunConfig
    from mbbq_gen.core.files import PackPaths
    from mbbq_gen.runs.distributed.pool import DistributedConfig
    from mbbq_gen.runs.distributed.session import MapWorkers
    from mbbq_gen.runs.stopping import StoppingRule


@dataclass(frozen=True)
class SelectionOptions:
    """The model, its options, and the questions with their prompts, as typed."""

    model: Annotated[
        str | None, option("Model", "Model to run, as kind:model, such as openai:gpt-4o-mini; see `mbbq-gen models`.")
    ] = None
    benchmark: Annotated[
        str | None,
        option("Questions", "Benchmarks, comma-separated; see `mbbq-gen data list`.", metavar="NAME,…"),
    ] = None
    data_dir: Annotated[
        Path | None,
        option(
            "Questions",
            "Folder of the benchmark's published files. Default: the release from `mbbq-gen data download`.",
            metavar="DIR",
        ),
    ] = None
    instances: Annotated[
        Path | None,
        option(
            "Questions",
            "Your own questions instead of a benchmark: a JSON Lines, CSV, TSV or Parquet file.",
            metavar="FILE",
        ),
    ] = None
    field_map: Annotated[
        Path | None,
        option("Questions", "TOML file that maps the fields of --instances to those of mbbq-gen.", metavar="TOML"),
    ] = None
    languages: Annotated[
        str,
        option("Questions", "Language codes, comma-separated, or `all`.", "--languages", "--language", metavar="XX,…"),
    ] = "all"
    variants: Annotated[
        str,
        option(
            "Prompts",
            "Prompt variants, comma-separated: ids from `mbbq-gen prompts list`, `all` (one of each kind) or `plain` "
            "(six paraphrases).",
            metavar="ID,…",
        ),
    ] = "all"
    axes: Annotated[
        str | None,
        option(
            "Prompts",
            "Compose the prompts from axes instead, such as format=free+json,hint=all; see `mbbq-gen prompts axes`.",
            metavar="AXIS=LEVEL+…,…",
        ),
    ] = None
    design: Annotated[
        str,
        option(
            "Prompts",
            "With --axes: which combinations to run: full (all) or fractional (a balanced part; for four or more "
            "axes with two levels each).",
        ),
    ] = "full"
    prompt_source: Annotated[
        str,
        option("Prompts", "Prompts: builtin, or published (the authors', from your copy of the benchmark)."),
    ] = "builtin"
    splits: Annotated[
        str | None,
        option("Questions", "Splits: bias, control or bias,control. Default: all.", metavar="SPLIT,…"),
    ] = None
    option_order: Annotated[
        str,
        option(
            "Prompts",
            "Order of the options: published (as in the data), shuffled, balanced (every role equally often at every "
            "position), cyclic (3 orders of each question) or all (6 orders).",
        ),
    ] = "balanced"
    label_style: Annotated[
        str | None,
        option(
            "Prompts",
            "Option labels, comma-separated: A, a, (A), 1, native (the language's own letters) or none (a dash). "
            "Default: A; with --prompt-source published, the prompt's own.",
            metavar="STYLE,…",
        ),
    ] = None
    unknown_text: Annotated[
        str | None,
        option(
            "Prompts",
            'Text of the option "unknown": one text, one per language as `en=TEXT,nl=TEXT`, or `sampled` (drawn from '
            "the benchmark's own texts). Default: as in the data.",
            metavar="TEXT",
        ),
    ] = None
    num_fewshot: Annotated[
        int, option("Prompts", "Number of few-shot examples before each question.", min=0, max=9, metavar="N")
    ] = 0
    instruction_language: Annotated[
        str | None,
        option("Prompts", "Language of the instructions. Default: the question's language.", metavar="XX"),
    ] = None
    no_context: Annotated[
        bool, option("Questions", "Ask the questions without their contexts, as a baseline.", "--no-context")
    ] = False
    sample: Annotated[
        int | None,
        option(
            "Sampling",
            "Use N questions for each language and split, balanced over templates. Default: all.",
            min=1,
            metavar="N",
        ),
    ] = None
    seed: Annotated[int, option("Sampling", "Seed of the sample and of the option orders.")] = 0
    system_prompt: Annotated[
        str | None,
        option(
            "Prompts",
            "System message: a text, `none`, or `default` (the model's own). If not given, mbbq-gen adds none.",
            metavar="TEXT",
        ),
    ] = None
    max_tokens: Annotated[
        int | None, option("Model", "Maximum tokens of a response. Default: 1024; for a local model 128.", metavar="N")
    ] = None
    batch_size: Annotated[
        int | None,
        option(
            "Model",
            "Requests that a local model processes together; default: chosen for the device. With --batch: maximum "
            "requests in one batch.",
            min=1,
            metavar="N",
        ),
    ] = None
    threads: Annotated[
        int | None, option("Model", "CPU threads of a local model. Default: one per physical core.", metavar="N")
    ] = None
    dtype: Annotated[
        str | None, option("Model", "Number type of a local model: auto, float32, bfloat16 or float16. Default: auto.")
    ] = None
    device: Annotated[
        str | None,
        option(
            "Model", "Device of a local model: auto, cpu, cuda, cuda:N or mps. Default: auto (a GPU if there is one)."
        ),
    ] = None
    model_arg: Annotated[
        list[str] | None,
        option("Model", "Another option of the model, such as temperature=0.7; may be repeated.", metavar="NAME=VALUE"),
    ] = None
    method: Annotated[
        str,
        option(
            "Scoring method",
            "How the choice of the model is measured, comma-separated: generate (it writes an answer), loglikelihood "
            "(of the options' texts), label-loglikelihood or first-token-logprobs (both of the option labels).",
            metavar="NAME,…",
        ),
    ] = "generate"
    reasoning_effort: Annotated[
        str | None,
        option(
            "Model",
            "Reasoning effort: none, default, minimal, low, medium, high or a number of tokens; several are "
            "comma-separated. Default: not sent.",
            metavar="LEVEL,…",
        ),
    ] = None
    normalization: Annotated[
        str,
        option(
            "Scoring method",
            "Normalization of loglikelihoods: sum (none), token, char or byte (divided by their number), or pmi.",
        ),
    ] = "sum"
    allow_confounded_order: Annotated[
        bool,
        option(
            "Prompts",
            "Allow --option-order published even where the position of an option reveals its role.",
            "--allow-confounded-order",
        ),
    ] = False

    @property
    def is_empty(self) -> bool:
        """Whether the run continues: neither model nor questions are given."""
        return self.model is None and self.benchmark is None and self.instances is None

    def settings(self, where: PackPaths) -> RunConfig:
        """The configuration of the run, with every name checked.

        Raises:
            UsageError: a name is unknown, options contradict each other, or one is missing.
        """
        from mbbq_gen.runs.resolve import QuestionSelection

        named = {field.name for field in fields(QuestionSelection)} - {"model_args"}
        given = {name: getattr(self, name) for name in named}
        return QuestionSelection(model_args=self.provider_options(), **given).settings(where)

    def requests_in_batch(self, model: str) -> int | None:
        """--batch-size if `model` has a batch API, where it does not change responses."""
        from mbbq_gen.providers.api.batches import supports_batches

        return self.batch_size if supports_batches(model.partition(":")[0]) else None

    def provider_options(self, model: str | None = None) -> dict[str, Any]:
        """The options of the provider given, by name; `model` is the run's if the user gives none."""
        names = ["max_tokens", "threads", "dtype", "device"]
        if self.requests_in_batch(self.model or model or "") is None:
            names.append("batch_size")
        given = {name: getattr(self, name) for name in names}
        return provider_options(given, self.model_arg or [])


_OF_THE_MODEL = frozenset(
    {"max_tokens", "threads", "dtype", "device", "batch_size", "model_arg", "allow_confounded_order"}
)
"""Options that may be repeated when a run continues; whether they changed is checked then."""


def check_goes_on(context: typer.Context) -> None:
    """Raises UsageError if an option of the plan is given for a run that continues."""
    planned = {field.name for field in fields(SelectionOptions)} - _OF_THE_MODEL
    sources = {name: context.get_parameter_source(name) for name in planned}
    typed = [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    if typed:
        named = ", ".join(f"--{name.replace('_', '-')}" for name in sorted(typed))
        raise UsageError(f"{named}: a run continues as planned; leave that out, or name another run folder and --model")


def provider_options(given: dict[str, Any], pairs: list[str]) -> dict[str, Any]:
    """The options of the provider that were given, by name."""
    options = {name: value for name, value in given.items() if value is not None}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"--model-arg {pair!r}: write it as NAME=VALUE")
        options[name.strip().replace("-", "_")] = value
    return options


@dataclass(frozen=True)
class StoppingOptions:
    """The stopping rule, as typed."""

    stop_at_ci_width: Annotated[
        float | None,
        option(
            "Stopping",
            "Run in rounds until every confidence interval is at most W wide (upper minus lower end).",
            metavar="W",
        ),
    ] = None
    stop_when_decided: Annotated[
        str | None,
        option(
            "Stopping",
            'Run in rounds until this is decided: "bias != 0", or two languages, such as "en != tr".',
            metavar="QUESTION",
        ),
    ] = None
    answers_per_template: Annotated[
        int | None,
        option(
            "Stopping",
            "Run in rounds until there are N answers for each template, language and split.",
            min=1,
            metavar="N",
        ),
    ] = None
    equivalence_margin: Annotated[
        float | None,
        option(
            "Stopping",
            "With --stop-when-decided: also stop once the effect is shown to be within ±MARGIN, too small to matter. "
            "Default: 0.03.",
            metavar="MARGIN",
        ),
    ] = None
    detectable_effect: Annotated[
        float | None,
        option(
            "Stopping",
            "With --stop-when-decided: smallest effect to detect with 90% power; limits the number of requests. "
            "Default: no limit.",
            metavar="D",
        ),
    ] = None
    metric: Annotated[
        str | None,
        option(
            "Stopping",
            "Metrics of the stopping rule, comma-separated; only questions that they use are run. Default: "
            "mbbq_bias_ambiguous.",
            metavar="NAME,…",
        ),
    ] = None
    group_by: Annotated[
        str | None,
        option(
            "Stopping",
            "Groups that the stopping rule must hold in, comma-separated: language, category. Default: language.",
            metavar="NAME,…",
        ),
    ] = None

    def rule(self, settings: RunConfig) -> StoppingRule | None:
        """The stopping rule; None if none is given.

        Raises:
            UsageError: several are given, or a value is wrong.
        """
        from mbbq_gen.core.text import all_of
        from mbbq_gen.runs.stopping import GROUPS, StoppingRule, parse_question
        from mbbq_gen.scoring.metrics import METRICS

        given = {
            "--stop-at-ci-width": ("ci_width", self.stop_at_ci_width),
            "--stop-when-decided": ("decision", self.stop_when_decided),
            "--answers-per-template": ("answers", self.answers_per_template),
        }
        kinds = {option: kind for option, (kind, value) in given.items() if value is not None}
        if len(kinds) > 1:
            raise UsageError(f"{', '.join(kinds)}: give only one")
        if not kinds:
            self._check_alone()
            return None
        sizes = {"equivalence-margin": self.equivalence_margin, "detectable-effect": self.detectable_effect}
        for name, number in {"stop-at-ci-width": self.stop_at_ci_width, **sizes}.items():
            if number is not None and not number > 0:
                raise UsageError(f"--{name} {number:g}: give a number above 0")
        for name, number in sizes.items():
            if number is not None and self.stop_when_decided is None:
                raise UsageError(f"--{name} belongs to --stop-when-decided; leave it out")
        first, second = (
            parse_question(self.stop_when_decided, settings.languages) if self.stop_when_decided else (None, None)
        )
        said: dict[str, object] = {}  # the others stay as in the run
        if self.metric is not None:
            said["metrics"] = tuple(all_of("metric", self.metric, list(METRICS)))
        if self.group_by is not None:
            said["group_by"] = tuple(all_of("grouping of the stopping rule", self.group_by, GROUPS))
        if self.equivalence_margin is not None:
            said["equivalence_margin"] = self.equivalence_margin
        if self.detectable_effect is not None:
            said["detectable_effect"] = self.detectable_effect
        return StoppingRule(
            kind=next(iter(kinds.values())),
            width=self.stop_at_ci_width,
            first=first,
            second=second,
            answers=self.answers_per_template,
            **said,
        )

    def _check_alone(self) -> None:
        """Raises UsageError for options that need a stopping rule."""
        for name in ("equivalence_margin", "detectable_effect", "metric", "group_by"):
            if getattr(self, name) is not None:
                option = name.replace("_", "-")
                raise UsageError(
                    f"--{option} belongs to --stop-at-ci-width, --stop-when-decided or --answers-per-template; give one"
                )


@dataclass(frozen=True)
class StorageOptions:
    """How plan and responses are stored, as typed."""

    storage: Annotated[
        str | None,
        option(
            "Scale",
            "parquet: store plan and responses as Parquet files in RUN. Default: in one database up to a million "
            "requests, then Parquet.",
            metavar="parquet",
        ),
    ] = None
    rerun_lost: Annotated[
        bool, option("Scale", "Run again the requests whose Parquet files are missing or damaged.", "--rerun-lost")
    ] = False

    def __post_init__(self) -> None:
        """Raises UsageError for another kind of storage."""
        if self.storage not in {None, "parquet"}:
            raise UsageError(f"--storage {self.storage}: unknown; use `parquet`, or leave it out")


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with each dataclass parameter replaced by its fields."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        kind = hints[name]
        if isinstance(kind, type) and is_dataclass(kind):
            groups[name] = kind
            parameters += _field_parameters(kind)
        else:
            parameters.append(parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def expanded(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        command(**given)

    expanded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return expanded


def _field_parameters(group: Any) -> list[inspect.Parameter]:
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name]
        )
        for field in fields(group)
    ]


@dataclass(frozen=True)
class ApiOptions:
    """Address, rate limits and prices of a model behind an API."""

    base_url: Annotated[
        str | None,
        option(
            "Model",
            "Address of the server, such as http://127.0.0.1:8000/v1. Default: the service's own.",
            metavar="URL",
        ),
    ] = None
    rpm: Annotated[
        int | None, option("Limits and money", "Maximum requests per minute. Default: no limit.", min=1, metavar="N")
    ] = None
    tpm: Annotated[
        int | None,
        option(
            "Limits and money", "Maximum tokens per minute, input and output. Default: no limit.", min=1, metavar="N"
        ),
    ] = None
    prices: Annotated[
        Path | None,
        option(
            "Limits and money",
            "Your own prices (TOML); they override those of the package genai-prices.",
            metavar="FILE",
        ),
    ] = None

    def added_to(self, settings: RunConfig) -> RunConfig:
        """The configuration with these options of the provider."""
        options = {**settings.model_args, **self.provider_options()}
        return settings.model_copy(update={"model_args": options})

    def provider_options(self) -> dict[str, Any]:
        """The options of the provider that were given, by name."""
        given = {"base_url": self.base_url, "rpm": self.rpm, "tpm": self.tpm}
        return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class ExecutionOptions:
    """How requests are sent: key, concurrency, limits."""

    api_key_env: Annotated[
        str | None,
        option(
            "Model",
            "Environment variable that holds the API key. Default: the service's own, such as OPENAI_API_KEY.",
            metavar="NAME",
        ),
    ] = None
    api_key_file: Annotated[
        str | None, option("Model", "File that holds the API key; only its owner may have access.", metavar="FILE")
    ] = None
    max_connections: Annotated[
        int | None, option("Limits and money", "Maximum concurrent requests. Default: 64.", min=1, metavar="N")
    ] = None
    timeout: Annotated[
        float | None, option("Limits and money", "Seconds to wait for one response. Default: 300.", metavar="SECONDS")
    ] = None
    patience: Annotated[
        float | None,
        option(
            "Limits and money",
            "Seconds to wait for a service that does not answer, or asks to wait. Default: 600.",
            min=0,
            metavar="SECONDS",
        ),
    ] = None
    max_cost: Annotated[
        float | None,
        option(
            "Limits and money", "Stop before the cost exceeds this, in US dollars. Default: no limit.", metavar="USD"
        ),
    ] = None
    max_error_rate: Annotated[
        float | None,
        option(
            "Limits and money",
            "Stop when more than this share of the requests fails. Default: 0.2.",
            min=0,
            max=1,
            metavar="SHARE",
        ),
    ] = None
    cache_dir: Annotated[
        Path | None,
        option(
            "Output",
            "Cache of responses that runs share: equal requests are sent only once. Default: no cache.",
            metavar="DIR",
        ),
    ] = None

    def provider_options(self) -> dict[str, Any]:
        """The options of the provider that were given, by name."""
        given = {
            "api_key_env": self.api_key_env,
            "api_key_file": self.api_key_file,
            "max_connections": self.max_connections,
            "timeout": self.timeout,
            "patience": self.patience,
        }
        return {name: value for name, value in given.items() if value is not None}

    def changes(self, price_file: Path | None) -> ExecutionOverrides:
        """The execution settings given, which hold from now on."""
        from mbbq_gen.core.config import ExecutionOverrides

        return ExecutionOverrides(self.max_cost, self.max_error_rate, self.cache_dir, price_file)


@dataclass(frozen=True)
class BatchOptions:
    """Whether a run uses the batch API."""

    batch: Annotated[
        bool | None,
        option(
            "Limits and money",
            "Submit all requests to the service's batch API, at about half the price, and exit. Default: as in "
            "the last command; in a new run --no-batch.",
            "--batch/--no-batch",
        ),
    ] = None
    resume: Annotated[
        bool,
        option(
            "Limits and money",
            "Continue a run made with --batch: collect its finished batches and submit what is missing.",
            "--resume",
        ),
    ] = False


_WORKERS = 2
"""Default number of workers."""


@dataclass(frozen=True)
class WorkerOptions:
    """Where stored responses are extracted and scored, as typed."""

    ray: Annotated[
        str | None,
        typer.Option(
            help="Use Ray workers: local (starts Ray here), HOST:PORT or ray://HOST:PORT. Default: in this process.",
            metavar="WHERE",
        ),
    ] = None
    workers: Annotated[
        int | None, typer.Option(min=1, help="With --ray: number of workers. Default: 2.", metavar="N")
    ] = None

    def helpers(self) -> MapWorkers | None:
        """The workers; None: this process.

        Raises:
            UsageError: options of workers are given without --ray.
            MissingExtraError: Ray is not installed.
        """
        if self.ray is None:
            if self.workers is not None:
                raise UsageError("--workers: needs --ray")
            return None
        from mbbq_gen.runs.distributed.cluster import check_on
        from mbbq_gen.runs.distributed.session import MapWorkers

        check_on(self.ray)
        return MapWorkers(self.ray, self.workers or _WORKERS)


@dataclass(frozen=True)
class DistributedOptions:
    """Where the model runs, as typed."""

    ray: Annotated[
        str | None,
        option(
            "Scale",
            "Run the model on Ray workers: local (starts Ray here), HOST:PORT or ray://HOST:PORT. Default: in this "
            "process.",
            metavar="WHERE",
        ),
    ] = None
    workers: Annotated[
        int | None,
        option("Scale", "With --ray: number of workers, each with its own model. Default: 2.", min=1, metavar="N"),
    ] = None
    gpus_per_worker: Annotated[
        float | None, option("Scale", "With --ray: GPUs reserved for each worker. Default: 0.", min=0, metavar="N")
    ] = None
    shard_dir: Annotated[
        str | None,
        option(
            "Scale", "With --ray: folder or s3://… where all workers write responses. Default: in RUN.", metavar="PLACE"
        ),
    ] = None

    def distributed(self) -> DistributedConfig | None:
        """The cluster to run on; None: this process.

        Raises:
            UsageError: options of workers are given without --ray.
            MissingExtraError: Ray is not installed.
        """
        if self.ray is None:
            for name in ("workers", "gpus_per_worker", "shard_dir"):
                if getattr(self, name) is not None:
                    raise UsageError(f"--{name.replace('_', '-')}: needs --ray")
            return None
        from mbbq_gen.runs.distributed.cluster import check_on
        from mbbq_gen.runs.distributed.pool import DistributedConfig

        check_on(self.ray)
        return DistributedConfig(self.ray, self.workers or _WORKERS, self.gpus_per_worker or 0.0, self.shard_dir)
