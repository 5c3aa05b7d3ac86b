"""`RunConfig`: every setting of a run with its type, default, bounds and help.

The options of `mbbq-gen run` and `estimate`, study files, `Run.create` and the manifest are generated from it.
A setting shapes the `prompt`, the `answer` or the `execution`; only the last kind may change when a run resumes.
Design: docs/decisions/0004-run-configuration-is-fixed.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field, JsonValue, ValidationError, model_validator

from mbbq_gen.core.errors import PYTHON, ConfigError, Spelling
from mbbq_gen.core.option_display import OPEN_VARIANT
from mbbq_gen.core.reasoning import parse_reasoning
from mbbq_gen.core.records import FrozenModel, Method, Normalise, Split
from mbbq_gen.core.text import Names, words

FollowUp = Literal["unread", "low"]
"""Answers that are followed up: unparsed, or parsed with low confidence."""
Shapes = Literal["prompt", "answer", "execution"]
T = TypeVar("T")
OWN_DATA: Final = "instances"
"""Name of the benchmark for questions from the user's own file."""


def checked(name: str, values: Names, known: Sequence[T]) -> list[T]:
    """The known values that a list names; ConfigError for an unknown name or an empty list."""
    by_name = {str(candidate): candidate for candidate in known}
    for value in (given := words(values)):
        if value not in by_name:
            problem = f"known: {', '.join(by_name)}" if len(by_name) <= 30 else "is not known"
            raise ConfigError(name, value, problem, by_name)
    if not given:
        raise ConfigError(name, None, f"name at least one; known: {', '.join(by_name)}")
    return [by_name[value] for value in given]


def _listed(convert: Callable[[list[str]], Any] = tuple) -> BeforeValidator:
    """Splits a comma-separated text; leaves other types to the field's own validation."""
    return BeforeValidator(lambda value: convert(words(value)) if isinstance(value, str | list | tuple) else value)


NameList = Annotated[tuple[str, ...], _listed()]
ReasoningList = Annotated[tuple[str, ...], _listed(parse_reasoning)]
PathText = Annotated[str, BeforeValidator(lambda value: str(value) if isinstance(value, Path) else value)]
AbsolutePath = Annotated[
    str, BeforeValidator(lambda value: str(Path(value).absolute()) if isinstance(value, str | Path) else value)
]


def setting(
    group: str,
    shapes: Shapes,
    help_text: str,
    *,
    default: Any = None,
    example: Any,
    metavar: str | None = None,
    provider: bool = False,
    **bounds: Any,
) -> Any:
    """Declares a setting of a run; `bounds` are those of `pydantic.Field`.

    Args:
        group: Its section in the help.
        shapes: The part of a run that it affects.
        help_text: Its description; `{name}` is replaced by another setting as the user types it.
        provider: True for options of the provider; these can also be given in `model_args`.
    """
    extra: dict[str, Any] = {"group": group, "shapes": shapes, "metavar": metavar, "provider": provider}
    return Field(default, description=help_text, examples=[example], json_schema_extra=extra, **bounds)


class BenchmarkChoice(FrozenModel):
    """A benchmark and where its files are."""

    name: str
    data_dir: str | None = None
    """Folder or file of the user's copy; None for a benchmark that ships with the package."""
    field_map: str | None = None
    """File that maps the fields of the user's file; None if it has our names."""

    def manifest_name(self, path: Path) -> str:
        """The name of a data file in the manifest: benchmark and relative path."""
        root = Path(self.data_dir or "")
        return f"{self.name}/{path.relative_to(root).as_posix() if path.is_relative_to(root) else path.name}"


class RunConfig(FrozenModel):
    """Every setting of a run. `runs.resolve.resolve` expands names such as `all`."""

    model_config = ConfigDict(defer_build=True, allow_inf_nan=False)

    # fmt: off
    model: str = setting(
        "Model", "answer", "Model, as kind:model, such as openai:gpt-4o-mini (API) or transformers:smollm2 (on this "
        "machine); `mbbq-gen models` lists the kinds. Required for a new run; a continued run keeps its own.",
        default="", example="oracle:perfect", metavar="KIND:MODEL")
    max_tokens: int | None = setting(
        "Model", "answer", "Maximum tokens of a response. Default: 1024; for a local model 128. Includes the "
        "reasoning, except with {reasoning_effort}, which adds tokens for it.",
        example=256, metavar="N", provider=True, ge=1)
    batch_size: int | None = setting("Model", "execution",
        "Requests that a local model processes together, or that go into one batch of a service. Default: chosen for "
        "the device or the service.", example=16, metavar="N", provider=True, ge=1)
    threads: int | None = setting("Model", "execution", "CPU threads of a local model. Default: one per physical core.",
        example=8, metavar="N", provider=True, ge=1)
    dtype: str | None = setting(
        "Model", "answer", "Number type of a local model: auto, float32, bfloat16 or float16. Default: auto.",
        example="float32", metavar="TYPE", provider=True)
    device: str | None = setting("Model", "answer",
        "Device of a local model: auto, cpu, cuda, cuda:N or mps. Default: auto (a GPU if there is one).",
        example="cpu", metavar="DEVICE", provider=True)
    sampling: Literal["neutral", "server"] | None = setting("Model", "answer",
        "Sampling that no option of the model sets: neutral (no top-p, top-k or penalties) or server (the defaults of "
        "the server, or of generation_config.json). Default: neutral; services such as OpenAI are sent nothing.",
        example="server", provider=True)
    model_args: dict[str, JsonValue] = setting("Model", "answer",
        "Other options of the model, such as temperature=0.7; `mbbq-gen models KIND` lists them. Default: "
        "temperature=0.",
        default={}, example={"temperature": 0.7}, metavar="NAME=VALUE")
    reasoning_effort: ReasoningList = setting("Model", "prompt",
        "Reasoning effort: none, minimal, low, medium, high, a number of tokens, or `default` (on, the model chooses "
        "how much); several are comma-separated. Default: no reasoning parameter is sent.",
        default=(), example=("none", "high"), metavar="LEVEL,…")
    base_url: str | None = setting(
        "Model", "answer", "Address of the server, such as http://127.0.0.1:8000/v1. Default: the service's own.",
        example="http://127.0.0.1:8000/v1", metavar="URL", provider=True)
    api_key_env: str | None = setting("Model", "execution",
        "Environment variable that holds the API key. Default: the service's own, such as OPENAI_API_KEY.",
        example="MY_KEY", metavar="NAME", provider=True)

    benchmark: NameList = setting("Questions", "prompt",
        "Benchmarks, comma-separated; see `mbbq-gen data list`. `starter` ships with mbbq-gen. Required for a new "
        "run; a continued run keeps its own.", default=(), example=("starter",), metavar="NAME,…")
    data_dir: PathText | dict[str, str] | None = setting("Questions", "prompt",
        "Folder of the benchmark's published files. Default: the release from `mbbq-gen data download`.",
        example="downloads/mbbq", metavar="DIR")
    instances: PathText | None = setting("Questions", "prompt",
        "Your own questions instead of a benchmark: a JSON Lines, CSV, TSV or Parquet file.",
        example="questions.csv", metavar="FILE")
    instances_field_map: PathText | None = setting(
        "Questions", "prompt", "TOML file that maps the fields of {instances} to those of mbbq-gen.",
        example="fields.toml", metavar="TOML")
    languages: NameList = setting("Questions", "prompt", "Language codes, comma-separated, or `all`.",
        default=("all",), example=("en", "tr"), metavar="XX,…")
    splits: Annotated[tuple[Split, ...], _listed()] = setting("Questions", "prompt",
        "Splits, comma-separated: bias (questions about social groups) or control (the same questions with first names "
        "for the groups: can the model do the task?). Default: every split that the data has; see {make_control}.",
        default=(), example=("bias",), metavar="SPLIT,…")
    make_control: bool | None = setting("Questions", "prompt",
        "Make control questions where the data has none, by first names in place of the groups. Default: only if "
        "{splits} names control.", example=False)
    no_context: bool = setting(
        "Questions", "prompt", "Ask the questions without their contexts.", default=False, example=True)

    variants: NameList = setting("Prompts", "prompt",
        "Prompt variants, comma-separated: ids from `mbbq-gen prompts list`, `all` (all that it lists: five for "
        "English) or `plain` (six paraphrases). Requests: questions × variants × orders of each.",
        default=("all",), example=("letters", "polite"), metavar="ID,…")
    axes: str | None = setting("Prompts", "prompt",
        "Compose the prompts from axes instead, such as format=free+json,hint=all; see `mbbq-gen prompts axes`.",
        example="format=free+json", metavar="AXIS=LEVEL+…,…")
    axes_design: Literal["full", "fractional"] = setting("Prompts", "prompt",
        "With {axes}: which combinations to run: full (all) or fractional (a balanced part; for four or more axes "
        "with two levels each).", default="full", example="fractional", metavar="TYPE")
    prompt_source: Literal["builtin", "published"] = setting("Prompts", "prompt",
        "Prompts: builtin, or published (the authors', from your copy of the benchmark).",
        default="builtin", example="published", metavar="SOURCE")
    option_order: str = setting("Prompts", "prompt",
        "Order of the options: published (as in the data), shuffled, balanced (every role equally often at every "
        "position), cyclic (3 orders of each question) or all (6 orders).", default="balanced", example="cyclic",
        metavar="ORDER")
    label_style: NameList = setting("Prompts", "prompt",
        "Option labels, comma-separated: A, a, (A), 1, native (the language's own letters) or none (a dash). "
        "Default: A; with published prompts, their own.", default=(), example=("A", "1"), metavar="STYLE,…")
    unknown_text: str | None = setting("Prompts", "prompt",
        'Text of the option "unknown": one text, one per language as `en=TEXT,nl=TEXT`, or `sampled` (drawn from '
        "the benchmark's own texts). Default: as in the data.", example="Nobody can tell", metavar="TEXT")
    num_fewshot: int = setting(
        "Prompts", "prompt", "Number of few-shot examples (solved questions) before each question, 0 to 9.",
        default=0, example=2, metavar="N", ge=0, le=9)
    instruction_language: str | None = setting(
        "Prompts", "prompt", "Language of the instructions. Default: the question's language.",
        example="en", metavar="XX")
    system_prompt: str | None = setting("Prompts", "prompt",
        "System message. Default: none; the chat template of a local model may have its own.",
        example="Answer briefly.", metavar="TEXT")

    sample: int | None = setting("Sampling", "prompt",
        "Use N questions for each language and split (like limit in lm-eval, but drawn evenly over templates; a "
        "template is a text that several questions are made from). Default: all.",
        example=12, metavar="N", ge=1)
    seed: int = setting(
        "Sampling", "prompt", "Seed of the sample and of the option orders. Not sent to the model; for that: "
        "{model_args} seed=N.", default=0, example=1, metavar="N")

    method: Annotated[tuple[Method, ...], _listed()] = setting("Scoring method", "prompt",
        "How the choice of the model is measured, comma-separated: generate (it writes an answer), loglikelihood "
        "(of the options' texts), label-loglikelihood or first-token-logprobs (both of the option labels).",
        default=("generate",), example=("generate", "loglikelihood"), metavar="NAME,…")
    normalization: Normalise = setting("Scoring method", "execution",
        "Normalization of loglikelihoods: sum (none); token, char or byte (divided by their number; char is acc_norm "
        "of lm-eval); or pmi (minus the loglikelihood without the question; has its own requests).",
        default="sum", example="char", metavar="TYPE")

    follow_up: Annotated[tuple[FollowUp, ...], _listed()] = setting("Follow-up", "execution",
        "Ask again, in the same conversation, which option was intended: unread (where no choice could be read), low "
        "(read with low confidence), comma-separated. Default: do not ask.",
        default=(), example=("unread",), metavar="unread,low")

    rpm: int | None = setting("Limits and money", "execution", "Maximum requests per minute. Default: no limit.",
        example=500, metavar="N", provider=True, ge=1)
    tpm: int | None = setting(
        "Limits and money", "execution", "Maximum tokens per minute, input and output. Default: no limit.",
        example=90_000, metavar="N", provider=True, ge=1)
    prices: AbsolutePath | None = setting("Limits and money", "execution",
        "Your own prices (TOML); they override those of the package genai-prices.",
        example="prices.toml", metavar="FILE")
    max_connections: int | None = setting("Limits and money", "execution", "Maximum concurrent requests. Default: 64.",
        example=16, metavar="N", provider=True, ge=1)
    timeout: float | None = setting("Limits and money", "execution", "Seconds to wait for one response. Default: 300.",
        example=60.0, metavar="SECONDS", provider=True, gt=0)
    patience: float | None = setting("Limits and money", "execution",
        "Seconds to wait for a service that does not answer, or asks to wait. Default: 600.",
        example=30.0, metavar="SECONDS", provider=True, ge=0)
    max_cost: float | None = setting(
        "Limits and money", "execution",
        "Stop before all requests of the run, resumed or not, cost more than this, in US dollars; a higher value "
        "continues. Default: no limit.",
        example=5.0, metavar="USD", gt=0)
    max_error_rate: float = setting(
        "Limits and money", "execution", "Stop when more than this share of the requests fails, 0 to 1.",
        default=0.2, example=0.5, metavar="SHARE", ge=0, le=1)
    batch: bool | None = setting("Limits and money", "execution",
        "Submit all requests to the service's batch API, at about half the price, and exit. Default: as in the last "
        "command; in a new run one by one.", example=False)
    cache_dir: AbsolutePath | None = setting("Limits and money", "execution",
        "Cache of responses that runs share: equal requests are sent only once. Default: no cache.",
        example="answers", metavar="DIR")

    stop_at_ci_width: float | None = setting("Stopping", "execution",
        "Run in rounds until every confidence interval is at most W wide (upper minus lower end).",
        example=0.2, metavar="W", gt=0)
    stop_when_decided: str | None = setting("Stopping", "execution",
        'Run in rounds until this is decided for {metric}: "bias != 0", or a difference of two languages, such as '
        '"en != tr".', example="bias != 0", metavar="HYPOTHESIS")
    answers_per_template: int | None = setting(
        "Stopping", "execution", "Run in rounds until there are N answers for each template, language and split.",
        example=4, metavar="N", ge=1)
    equivalence_margin: float | None = setting("Stopping", "execution",
        "With {stop_when_decided}: also stop once the effect is shown to be within ±MARGIN, too small to matter. "
        "Default: 0.03.", example=0.05, metavar="MARGIN", gt=0)
    metric: NameList = setting("Stopping", "execution",
        "Metrics of the stopping rule, comma-separated, such as accuracy_ambiguous; only questions that they use are "
        "run. All: `mbbq-gen score --help`. Default: mbbq_bias_ambiguous.",
        default=(), example=("accuracy_ambiguous",), metavar="NAME,…")
    group_by: NameList = setting("Stopping", "execution",
        "Groups that the stopping rule must hold in, comma-separated: language, category. Default: language.",
        default=(), example=("category",), metavar="NAME,…")

    ray: str | None = setting("Scale", "execution",
        "Run the model on Ray workers: local (starts Ray here), HOST:PORT or ray://HOST:PORT. Default: in this "
        "process.", example="local", metavar="WHERE")
    workers: int | None = setting(
        "Scale", "execution", "With {ray}: number of workers, each with its own model. Default: 2.",
        example=2, metavar="N", ge=1)
    gpus_per_worker: float | None = setting(
        "Scale", "execution", "With {ray}: GPUs reserved for each worker. Default: 0.", example=1.0, metavar="N", ge=0)

    storage: Literal["parquet"] | None = setting("Output", "execution",
        "parquet: store plan and responses as Parquet files in the run folder. Default: in one database up to a "
        "million requests, then Parquet.", example="parquet", metavar="parquet")
    # fmt: on

    @model_validator(mode="wrap")
    @classmethod
    def _checked(cls, data: Any, handler: Callable[[Any], Self]) -> Self:
        """Converts equivalent settings into one form; ConfigError for the first error."""
        if isinstance(data, Mapping):
            given = {name: value for name, value in data.items() if value is not None}
            for name, value in given.items():
                if isinstance(value, str) and not value.strip(" ,\t\n"):
                    raise ConfigError(name, None, "is empty; give a value, or leave it out")
            options = given.get("model_args")
            if isinstance(options, Mapping):
                rest = dict(options)
                for name in PROVIDER_SETTINGS & rest.keys():
                    if given.get(name) is None:
                        given[name] = rest.pop(name)
                    elif given[name] == rest[name]:
                        del rest[name]
                    else:
                        raise ConfigError(name, None, "is given with another value in {model_args}; give one")
                given["model_args"] = rest
            data = given
        try:
            return handler(data)
        except ValidationError as error:
            if not error.errors()[0]["loc"]:
                raise  # the input is not a mapping of settings
            raise _config_error(error) from None

    @property
    def benchmarks(self) -> tuple[BenchmarkChoice, ...]:
        """The benchmarks, or the user's own file, with their paths."""
        if self.instances is not None:
            return (BenchmarkChoice(name=OWN_DATA, data_dir=self.instances, field_map=self.instances_field_map),)
        names, folders = self.benchmark or (), self.data_dir
        by_name = folders if isinstance(folders, dict) else dict.fromkeys(names, folders)
        return tuple(BenchmarkChoice(name=name, data_dir=by_name.get(name)) for name in names)

    @property
    def scored_variants(self) -> tuple[str, ...]:
        """Ids of the prompt variants for loglikelihoods of answers."""
        if "loglikelihood" not in self.method:
            return ()
        is_shared = self.prompt_source == "published" or self.method == ("loglikelihood",)
        return self.variants if is_shared or self.option_order == "imported" else (OPEN_VARIANT,)

    @property
    def is_whole(self) -> bool:
        """True if it names a model or questions, as a new run must."""
        return bool(self.model or self.benchmark or self.instances)

    @property
    def is_scored(self) -> bool:
        """True if any loglikelihood is requested."""
        return any(method != "generate" for method in self.method)

    def resumed(self, given: RunConfig, may_change: Collection[str], run: str) -> RunConfig:
        """This configuration updated by a resuming command; ConfigError unless only execution settings change.

        Settings that are not given stay, except those of `FOR_ONE_COMMAND`, which return to their defaults.

        Args:
            may_change: Options in `model_args` that do not shape answers.
            run: The run's folder, for the message.
        """

        def fixed(options: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
            return {name: value for name, value in options.items() if name not in may_change}

        changes = {name: RunConfig.model_fields[name].default for name in FOR_ONE_COMMAND}
        if any(getattr(given, name) is not None for name in STOPPING_KINDS):
            changes |= dict.fromkeys(STOPPING_KINDS)
        for name in [name for name in RunConfig.model_fields if name in given.model_fields_set]:
            before, now = getattr(self, name), getattr(given, name)
            if name == "model_args":
                merged = {**before, **now}
                differs = fixed(before) != fixed(now if given.model else merged)
                now = now if differs else merged
            elif name == "normalization":  # all but pmi use the same loglikelihoods
                differs = before != now and "pmi" in {before, now}
            else:
                differs = before != now and shapes(name) != "execution"
            if differs:
                made = "without it" if before in (None, "", (), {}) else f"with {PYTHON.value(before)}"
                problem = f"{run} was made {made}; name another run folder, or continue with: mbbq-gen run {run}"
                shown = None if name in {"base_url", "model_args"} else now  # they may hold a key
                raise ConfigError(name, shown, problem)
            changes[name] = now
        return self.model_copy(update=changes)


STOPPING_KINDS: Final = ("stop_at_ci_width", "stop_when_decided", "answers_per_template")
"""Settings that make a run adaptive; at most one is given."""
FOR_ONE_COMMAND: Final = ("ray", "workers", "gpus_per_worker")
"""Settings that a run does not keep."""


def setting_info(name: str) -> dict[str, Any]:
    """The declaration of a setting besides its type and bounds: group, shapes, metavar and provider."""
    extra = RunConfig.model_fields[name].json_schema_extra
    assert isinstance(extra, dict)  # set by `setting`
    return extra


def shapes(name: str) -> Shapes:
    """The part of a run that a setting affects."""
    found: Shapes = setting_info(name)["shapes"]
    return found


PROVIDER_SETTINGS: Final = frozenset(name for name in RunConfig.model_fields if setting_info(name)["provider"])
"""Settings that are passed to the provider, besides `model_args`."""


def help_of(name: str, spelling: Spelling) -> str:
    """The help of a setting with its default, and other settings as the user types them."""
    field = RunConfig.model_fields[name]
    parts = [re.sub(r"\{(\w+)\}", lambda found: spelling.name(found[1]), field.description or "")]
    if field.default is not False and field.default not in (None, "", (), {}):
        parts.append(f"Default: {PYTHON.value(field.default)}.")
    return " ".join(parts)


def _config_error(error: ValidationError) -> ConfigError:
    """The first error of a validation, as the setting, its value, and what is allowed."""
    first = error.errors(include_url=False)[0]
    name, value = str(first["loc"][0]), first["input"]
    if first["type"] == "extra_forbidden":
        return ConfigError(name, value, "is no setting of a run", RunConfig.model_fields, wrong=name)
    if first["type"] == "literal_error":
        known = re.findall(r"'([^']+)'", first["ctx"]["expected"])
        return ConfigError(name, value, f"give {' or '.join(known)}", known)
    problem = first["msg"].removeprefix("Value error, ")
    return ConfigError(name, value, problem[:1].lower() + problem[1:])
