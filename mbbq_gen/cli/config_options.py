"""Options of commands from dataclasses, and from the settings of a run (`core.config.RunConfig`)."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, fields, is_dataclass
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

from mbbq_gen.cli.help import option
from mbbq_gen.core.config import RunConfig, about, help_of
from mbbq_gen.core.errors import COMMAND, ConfigError, UsageError

if TYPE_CHECKING:
    from mbbq_gen.runs.distributed.cluster import MapWorkers

_ESTIMATED = {"Model", "Questions", "Prompts", "Sampling", "Scoring method", "Follow-up"}
ALL_SETTINGS = tuple(RunConfig.model_fields)
ESTIMATE_SETTINGS = tuple(
    name for name in ALL_SETTINGS if about(name)["group"] in _ESTIMATED or name in {"rpm", "tpm", "prices"}
)
"""Settings that requests, tokens and cost depend on."""
JUDGE_SETTINGS = (
    *("max_tokens", "model_args", "base_url", "rpm", "tpm", "prices", "api_key_env", "api_key_file"),
    *("max_connections", "timeout", "patience", "max_cost", "max_error_rate", "cache_dir"),
)
"""Settings of a run that an LLM judge takes too."""
RunSettings = Annotated[RunConfig, ALL_SETTINGS]
EstimateSettings = Annotated[RunConfig, ESTIMATE_SETTINGS]
JudgeSettings = Annotated[RunConfig, JUDGE_SETTINGS]


def model_options(pairs: Collection[str]) -> dict[str, str]:
    """Options of a model as typed: NAME=VALUE.

    Raises:
        ConfigError: one has no name or no value.
    """
    options = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ConfigError("model_args", pair, "write it as NAME=VALUE")
        options[name.strip().replace("-", "_")] = value
    return options


def _setting_parameters(names: Collection[str]) -> Iterator[inspect.Parameter]:
    """The options of some settings. A value that is not typed is None, and checked by `RunConfig`, not here."""
    for name in names:
        typed = COMMAND.name(name)
        annotation: Any = str | None
        spelled = typed
        if name == "model_args":
            annotation = list[str] | None
        elif RunConfig.model_fields[name].annotation in (bool, bool | None):
            annotation = bool | None
            spelled = typed if RunConfig.model_fields[name].annotation is bool else f"{typed}/--no-{typed[2:]}"
        help_text, metavar = help_of(name, COMMAND), about(name)["metavar"]
        if name == "model_args":
            help_text += " May be repeated."
        declared = option(about(name)["group"], help_text, spelled, metavar=metavar)
        yield inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[annotation, declared]
        )


def expand_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with each dataclass parameter replaced by its fields, and each RunConfig by its settings."""
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type] = {}
    settings: dict[str, tuple[str, ...]] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        kind = hints[name]
        if isinstance(kind, type) and is_dataclass(kind):
            groups[name] = kind
            hinted = get_type_hints(kind, include_extras=True)
            parameters += [
                inspect.Parameter(
                    field.name, inspect.Parameter.KEYWORD_ONLY, default=field.default, annotation=hinted[field.name]
                )
                for field in fields(kind)
            ]
        elif get_origin(kind) is Annotated and get_args(kind)[0] is RunConfig:
            settings[name] = get_args(kind)[1]
            parameters += _setting_parameters(settings[name])
        else:
            parameters.append(parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY))

    @functools.wraps(command)
    def expanded(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field.name: given.pop(field.name) for field in fields(group)})
        for name, members in settings.items():
            typed = {member: value for member in members if (value := given.pop(member)) is not None}
            if pairs := typed.pop("model_args", None):
                typed["model_args"] = model_options(pairs)
            given[name] = RunConfig(**typed)
        command(**given)

    expanded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return expanded


@dataclass(frozen=True)
class WorkerOptions:
    """Where stored responses are extracted and scored, as typed."""

    ray: Annotated[
        str | None,
        option(
            "Scale",
            "Use Ray workers: local (starts Ray here), HOST:PORT or ray://HOST:PORT. Default: in this process.",
            metavar="WHERE",
        ),
    ] = None
    workers: Annotated[int | None, option("Scale", "With --ray: number of workers. Default: 2.", min=1)] = None

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
        from mbbq_gen.runs.distributed.cluster import MapWorkers, check_on

        check_on(self.ray)
        return MapWorkers(self.ray, self.workers or 2)
