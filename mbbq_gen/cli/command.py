"""Base classes of commands: fields are options, the docstring is the help, `_run` does the work.

Help is plain text: options in groups, with defaults and bounds in one form, and examples at the end.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, get_args, get_origin

import typer
from pydantic import BaseModel, ConfigDict, Field
from typer.core import TyperCommand, TyperGroup

from mbbq_gen.core.config import RunConfig, help_of, setting_info
from mbbq_gen.core.errors import COMMAND, ConfigError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.text import all_of, one_of

if TYPE_CHECKING:
    from mbbq_gen.runs.run_folder import RunFolder

_LAST_GROUP = "Output"
"""The last group of options; it has those without a group."""
_MOST_UNGROUPED = 9
"""Maximum options of a command that are listed without groups."""
_METAVARS: dict[Any, str] = {int: "N", float: "X", Path: "PATH"}
"""Type of a value → default metavar."""


def option(group: str, help_text: str, *names: str, default: Any = None, **more: Any) -> Any:
    """Declares an option; without `names`, its name is made from the field's."""
    declared: Any = {"names": names, "group": group or None, **more}
    return Field(default, description=help_text, json_schema_extra=declared)


def flag(group: str, help_text: str, *names: str) -> Any:
    """Declares an option without a value, whose default is False."""
    return option(group, help_text, *names, default=False)


def argument(metavar: str, help_text: str, *, default: Any = None, **more: Any) -> Any:
    """Declares an argument; it is required if its default is `...`."""
    return Field(default, description=help_text, json_schema_extra={"metavar": metavar, **more})


def settings(names: Iterable[str]) -> Any:
    """Declares options for some settings of a run; the type of the field is RunConfig."""
    return Field(json_schema_extra={"settings": list(names)})


class Options(BaseModel):
    """A group of options that several commands have as a field."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Command(Options):
    """A command of the command line."""

    help_examples: ClassVar[str]
    """One per line, indented by two spaces."""
    as_json: bool = flag("", "Print JSON instead of text.", "--json")

    def _run(self) -> None:
        """Does the work and prints the result."""
        raise NotImplementedError


class PackCommand(Command):
    """A command that uses language packs."""

    packs: Path | None = option("", "Folder of your own language packs; they override ours.", metavar="DIR")

    @property
    def resources(self) -> PackPaths:
        """The folders of language packs; raises UsageError for a folder without packs."""
        return PackPaths(packs=self.packs)


class RunCommand(PackCommand):
    """A command for one run."""

    run_path: Path = argument("RUN", "Run folder.", default=...)

    @property
    def folder(self) -> RunFolder:
        """The run folder; raises UsageError if it is no run."""
        from mbbq_gen.runs.run_folder import RunFolder

        return RunFolder(self.run_path).require()


def _choices(annotation: Any) -> tuple[Any, ...]:
    """The values of a Literal in a type; empty if there is none."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return next(filter(None, map(_choices, get_args(annotation))), ())


def _fields(kind: type[BaseModel]) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """Name, field and declaration of each field of a class; --packs and --json come last."""
    last = ["packs", "as_json"]
    for name in sorted(kind.model_fields, key=lambda name: last.index(name) if name in last else -1):
        field = kind.model_fields[name]
        yield name, field, dict(field.json_schema_extra) if isinstance(field.json_schema_extra, dict) else {}


def _parameters(kind: type[BaseModel]) -> Iterator[inspect.Parameter]:
    """The arguments and options of the fields of a class."""
    for name, field, more in _fields(kind):
        annotation = field.annotation
        if "settings" in more:
            yield from map(_setting_parameter, more["settings"])
        elif isinstance(annotation, type) and issubclass(annotation, Options):
            yield from _parameters(annotation)
        else:
            declared: Any
            if "names" in more:
                names = more.pop("names") or ([COMMAND.name(name)] if annotation is bool else [])
                declared = typer.Option(*names, help=field.description, rich_help_panel=more.pop("group"), **more)
            else:
                declared = typer.Argument(help=field.description, **more)
            default = inspect.Parameter.empty if field.is_required() else field.default
            if _choices(annotation):  # checked in `_parse`
                annotation, default = str | None, ",".join(default) if isinstance(default, tuple) else default
            yield _parameter(name, annotation, declared, default)


def _setting_parameter(name: str) -> inspect.Parameter:
    """The option of a setting; None if it is not given. `RunConfig` checks its value."""
    kind, facts = RunConfig.model_fields[name].annotation, setting_info(name)
    annotation: Any = str
    spelled, help_text = COMMAND.name(name), help_of(name, COMMAND)
    if name == "model_args":
        annotation = list[str]
        help_text += " May be repeated."
    elif kind is bool:
        annotation = bool
    elif kind == bool | None:
        annotation, spelled = bool, f"{spelled}/--no-{spelled[2:]}"
    declared = typer.Option(spelled, help=help_text, rich_help_panel=facts["group"], metavar=facts["metavar"])
    return _parameter(name, annotation | None, declared, None)


def _parameter(name: str, annotation: Any, declared: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[annotation, declared]
    )


def _parse(kind: type[BaseModel], given: Mapping[str, Any]) -> Any:
    """An instance of a class with the values of the command line; UsageError for a wrong value."""
    values: dict[str, Any] = {}
    for name, field, more in _fields(kind):
        if "settings" in more:
            typed = {member: given[member] for member in more["settings"] if given[member] is not None}
            if pairs := typed.get("model_args"):
                options = typed["model_args"] = {}
                for pair in pairs:
                    member, equals, value = pair.partition("=")
                    if not equals or not member:
                        raise ConfigError("model_args", pair, "write it as NAME=VALUE")
                    options[member.strip().replace("-", "_")] = value
            values[name] = RunConfig(**typed)
        elif isinstance(field.annotation, type) and issubclass(field.annotation, Options):
            values[name] = _parse(field.annotation, given)
        elif (known := _choices(field.annotation)) and given[name] is not None:
            noun = f"choice for {next(iter(more['names']), COMMAND.name(name))}"
            is_list = tuple in [get_origin(kind) for kind in (field.annotation, *get_args(field.annotation))]
            values[name] = all_of(noun, given[name], known) if is_list else one_of(noun, given[name], known)
        else:
            values[name] = given[name]
    return kind(**values)


def add_command(app: typer.Typer, name: str, kind: type[Command]) -> None:
    """Adds a command to a group."""

    def call(**given: Any) -> None:
        _parse(kind, given)._run()

    call.__doc__ = kind.__doc__
    vars(call).update(__signature__=inspect.Signature(list(_parameters(kind))))
    app.command(name, cls=HelpCommand, epilog=kind.help_examples)(call)


def command_group(help_text: str, epilog: str, commands: Mapping[str, type[Command]]) -> typer.Typer:
    """A group of commands with examples in its help."""
    app = typer.Typer(
        cls=HelpGroup,
        help=help_text,
        epilog=epilog,
        no_args_is_help=True,
        add_completion=False,
        rich_markup_mode=None,
    )
    for name, kind in commands.items():
        add_command(app, name, kind)
    return app


def command_of(name: str, kind: type[Command] | typer.Typer) -> Any:
    """The click command of a command or a group."""
    app = kind if isinstance(kind, typer.Typer) else typer.Typer(add_completion=False, rich_markup_mode=None)
    if not isinstance(kind, typer.Typer):
        add_command(app, name, kind)
    command = typer.main.get_command(app)
    command.name = name
    return command


class _Examples:
    """Help that ends with examples."""

    epilog: str | None

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Writes the examples without reformatting."""
        with formatter.section("Examples"):
            formatter.write(f"{self.epilog}\n")


class HelpGroup(_Examples, TyperGroup):
    """A group of commands."""


class HelpCommand(_Examples, TyperCommand):
    """A command whose help lists its options by group."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The arguments as RUN, RUN..., [RUN] or [RUN...]."""
        arguments = [param for param in self.get_params(ctx) if param.param_type_name == "argument"]
        return ["[OPTIONS]", *(_usage(param) if param.required else f"[{_usage(param)}]" for param in arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the arguments, then one section for each group of options, in the order of declaration."""
        parameters: list[Any] = self.get_params(ctx)
        options = [param for param in parameters if param.param_type_name == "option"]
        sections = {"Arguments": [(_usage(param), _help_text(param)) for param in parameters if param not in options]}
        is_grouped = len(options) > _MOST_UNGROUPED
        for param in options:
            panel = (getattr(param, "rich_help_panel", None) or _LAST_GROUP) if is_grouped else "Options"
            sections.setdefault(panel, []).append((_usage(param), _help_text(param)))
        for name in sorted(sections, key=lambda name: name == _LAST_GROUP):
            if sections[name]:
                with formatter.section(name):
                    formatter.write_dl(sections[name])


def _usage(parameter: Any) -> str:
    """The names of a parameter with its metavar."""
    metavar = parameter.metavar or _METAVARS.get(parameter.type_descriptor.annotation, "NAME")
    if parameter.param_type_name == "argument":
        return f"{metavar}..." if parameter.nargs != 1 else metavar
    names = " / ".join(
        ", ".join(sorted(names, key=len)) for names in (parameter.opts, parameter.secondary_opts) if names
    )
    return names if parameter.is_flag else f"{names} {metavar}"


def _help_text(parameter: Any) -> str:
    """The help of a parameter with its default and bounds, and `Required.`."""
    parts = [parameter.help or ""]
    default, low, high = parameter.default, getattr(parameter, "min", None), getattr(parameter, "max", None)
    if isinstance(default, str | int | float | Path) and not isinstance(default, bool) and default != "":
        parts.append(f"Default: {default}.")
    if high is not None:
        parts.append(f"From {low:g} to {high:g}.")
    elif low is not None and low > 1:
        parts.append(f"At least {low:g}.")
    return " ".join([*parts, *(["Required."] if parameter.required else [])])
