"""Help of commands as plain text: options in groups, with defaults and bounds in one form, and examples at the end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

_LAST = "Output"
"""The last group; options without a group are in it."""
_FLAT = 9
"""A command with at most so many options lists them in one section."""
_METAVARS: dict[Any, str] = {int: "N", float: "X", Path: "PATH"}
"""Type of a value → what stands for it in help, where nothing is declared."""


def option(panel: str, help_text: str, *names: str, **more: Any) -> Any:
    """An option of a group of help."""
    return typer.Option(*names, help=help_text, rich_help_panel=panel, **more)


def example(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds examples to the help of a command: one a line, indented by two spaces."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        vars(command)["examples"] = text.rstrip()
        return command

    return add


class HelpCommand(TyperCommand):
    """A command whose help lists its options by group and ends with its examples."""

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

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Writes the examples as they are."""
        with formatter.section("Examples"):
            formatter.write(f"{vars(self.callback).get('examples', '')}\n")


class HelpGroup(TyperGroup):
    """A group of commands whose help ends with its epilog, as it is written."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Writes the examples as they are."""
        with formatter.section("Examples"):
            formatter.write(f"{self.epilog}\n")


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
