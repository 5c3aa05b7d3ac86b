"""A command as a class: its fields are the options, its docstring is the help; `_run` does the work.

Help is plain text: options in groups, with defaults and bounds in one form, and examples at the end.
"""

from __future__ import annotations

import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping
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

_LAST = "Output"
"""The last group; options without a group are in it."""
_FLAT = 9
"""A command with at most so many options lists them in one section."""
_METAVARS: dict[Any, str] = {int: "N", float: "X", Path: "PATH"}
"""Type of a value → what stands for it in help, where nothing is declared."""


def option(group: str, help_text: str, *names: str, default: Any = None, **more: Any) -> Any:
    """An option as a field: its group, what it does, its names (none: made from the field's), its default."""
    declared: Any = {"names": names, "group": group or None, **more}
    return Field(default, description=help_text, json_schema_extra=declared)


def argument(metavar: str, help_text: str, *, default: Any = None, **more: Any) -> Any:
    """An argument as a field; it may be left out unless its default is `...`."""
    return Field(default, description=help_text, json_schema_extra={"metavar": metavar, **more})


def settings(names: Iterable[str]) -> Any:
    """Some settings of a run as a field of the type RunConfig."""
    return Field(json_schema_extra={"settings": list(names)})


class Options(BaseModel):
    """Options that commands share: a field of this kind stands for its fields."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


class Command(Options):
    """A command of the command line."""

    help_examples: ClassVar[str]
    """One a line, indented by two spaces."""

    def _run(self) -> None:
        """Does the work and prints the result."""
        raise NotImplementedError


class JsonCommand(Command):
    """A command that can print JSON."""

    as_json: bool = option("", "Print JSON instead of text.", "--json", default=False)


class PackCommand(JsonCommand):
    """A command that uses language packs."""

    packs: Path | None = option("", "Folder of your own language packs; they override ours.", metavar="DIR")

    @property
    def resources(self) -> PackPaths:
        """Where language packs are looked for; raises UsageError for a folder without packs."""
        return PackPaths(packs=self.packs)


class RunCommand(PackCommand):
    """A command for one run."""

    run_path: Path = argument("RUN", "Run folder.", default=...)

    @property
    def folder(self) -> RunFolder:
        """The run; raises UsageError where there is none."""
        from mbbq_gen.runs.run_folder import RunFolder

        return RunFolder(self.run_path).require()


def model_options(pairs: Collection[str]) -> dict[str, str]:
    """Options of a model as typed, NAME=VALUE; ConfigError where one has no name or no value."""
    options = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise ConfigError("model_args", pair, "write it as NAME=VALUE")
        options[name.strip().replace("-", "_")] = value
    return options


def _choices(annotation: Any) -> tuple[Any, ...]:
    """The names that a value may have; empty where it is not one of some names."""
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return next(filter(None, map(_choices, get_args(annotation))), ())


def _parts(kind: type[BaseModel]) -> Iterator[tuple[str, Any, dict[str, Any]]]:
    """The fields of a class with what is declared of them; --packs and --json are the last."""
    last = ["packs", "as_json"]
    for name in sorted(kind.model_fields, key=lambda name: last.index(name) if name in last else -1):
        field = kind.model_fields[name]
        yield name, field, dict(field.json_schema_extra) if isinstance(field.json_schema_extra, dict) else {}


def _parameters(kind: type[BaseModel]) -> Iterator[inspect.Parameter]:
    """The arguments and options that the fields of a class stand for."""
    for name, field, more in _parts(kind):
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
            if _choices(annotation):  # checked in `_filled`
                annotation, default = str | None, ",".join(default) if isinstance(default, tuple) else default
            yield _parameter(name, annotation, declared, default)


def _setting_parameter(name: str) -> inspect.Parameter:
    """The option of a setting. A value that is not typed is None, and checked by `RunConfig`, not here."""
    typed = spelled = COMMAND.name(name)
    kind, help_text = RunConfig.model_fields[name].annotation, help_of(name, COMMAND)
    annotation: Any = str
    if name == "model_args":
        annotation = list[str]
        help_text += " May be repeated."
    elif kind in (bool, bool | None):
        annotation = bool
        spelled = typed if kind is bool else f"{typed}/--no-{typed[2:]}"
    facts = setting_info(name)
    declared = typer.Option(spelled, help=help_text, rich_help_panel=facts["group"], metavar=facts["metavar"])
    return _parameter(name, annotation | None, declared, None)


def _parameter(name: str, annotation: Any, declared: Any, default: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[annotation, declared]
    )


def _filled(kind: type[BaseModel], given: Mapping[str, Any]) -> Any:
    """A class with the values given on the command line; UsageError for a value that is not allowed."""
    values: dict[str, Any] = {}
    for name, field, more in _parts(kind):
        if "settings" in more:
            typed = {member: given[member] for member in more["settings"] if given[member] is not None}
            if "model_args" in typed:
                typed["model_args"] = model_options(typed["model_args"])
            values[name] = RunConfig(**typed)
        elif isinstance(field.annotation, type) and issubclass(field.annotation, Options):
            values[name] = _filled(field.annotation, given)
        elif (known := _choices(field.annotation)) and given[name] is not None:
            what = f"choice for {next(iter(more['names']), COMMAND.name(name))}"
            is_list = tuple in [get_origin(one) for one in (field.annotation, *get_args(field.annotation))]
            values[name] = all_of(what, given[name], known) if is_list else one_of(what, given[name], known)
        else:
            values[name] = given[name]
    return kind(**values)


def add_command(app: typer.Typer, name: str, kind: type[Command]) -> None:
    """Adds a command to a group."""

    def call(**given: Any) -> None:
        _filled(kind, given)._run()

    call.__doc__ = kind.__doc__
    vars(call).update(__signature__=inspect.Signature(list(_parameters(kind))))
    app.command(name, cls=HelpCommand, epilog=kind.help_examples)(call)


def command_group(help_text: str, epilog: str, commands: Mapping[str, type[Command]]) -> typer.Typer:
    """A group of commands, with examples."""
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
    """The parser of a command or a group."""
    app = kind if isinstance(kind, typer.Typer) else typer.Typer(add_completion=False, rich_markup_mode=None)
    if not isinstance(kind, typer.Typer):
        add_command(app, name, kind)
    parser = typer.main.get_command(app)
    parser.name = name
    return parser


class _Examples:
    """Help that ends with examples."""

    epilog: str | None

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Writes the examples as they are."""
        with formatter.section("Examples"):
            formatter.write(f"{self.epilog}\n")


class HelpGroup(_Examples, TyperGroup):
    """A group of commands."""


class HelpCommand(_Examples, TyperCommand):
    """A command whose help lists its options by group."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """The arguments as RUN, RUN..., [RUN] or [RUN...]."""
        arguments = [one for one in self.get_params(ctx) if one.param_type_name == "argument"]
        return ["[OPTIONS]", *(_named(one) if one.required else f"[{_named(one)}]" for one in arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the arguments, then one section for each group of options, in the order of declaration."""
        parameters: list[Any] = self.get_params(ctx)
        options = [one for one in parameters if one.param_type_name == "option"]
        sections = {"Arguments": [(_named(one), _described(one)) for one in parameters if one not in options]}
        for one in options:
            panel = (getattr(one, "rich_help_panel", None) or _LAST) if len(options) > _FLAT else "Options"
            sections.setdefault(panel, []).append((_named(one), _described(one)))
        for name in sorted(sections, key=lambda name: name == _LAST):
            if sections[name]:
                with formatter.section(name):
                    formatter.write_dl(sections[name])


def _named(parameter: Any) -> str:
    """The names of a parameter with what stands for its value."""
    metavar = parameter.metavar or _METAVARS.get(parameter.type_descriptor.annotation, "NAME")
    if parameter.param_type_name == "argument":
        return f"{metavar}..." if parameter.nargs != 1 else metavar
    names = " / ".join(
        ", ".join(sorted(names, key=len)) for names in (parameter.opts, parameter.secondary_opts) if names
    )
    return names if parameter.is_flag else f"{names} {metavar}"


def _described(parameter: Any) -> str:
    """The help of a parameter with its default, its bounds, and whether it is required."""
    parts = [parameter.help or ""]
    default, low, high = parameter.default, getattr(parameter, "min", None), getattr(parameter, "max", None)
    if isinstance(default, str | int | float | Path) and not isinstance(default, bool) and default != "":
        parts.append(f"Default: {default}.")
    if high is not None:
        parts.append(f"From {low:g} to {high:g}.")
    elif low is not None and low > 1:
        parts.append(f"At least {low:g}.")
    return " ".join([*parts, *(["Required."] if parameter.required else [])])
