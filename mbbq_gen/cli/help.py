"""Help of commands as plain text: options in groups, examples at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import typer
from typer.core import TyperCommand

from mbbq_gen.core.config import Group

PANELS = ("Goal", "Estimate", *get_args(Group))
"""Groups of options, in the order of help."""


def option(panel: str, help_text: str, *names: str, **more: Any) -> Any:
    """An option of a group of help (`PANELS`)."""
    return typer.Option(*names, help=help_text, rich_help_panel=panel, **more)


def example(text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Adds examples to the help of a command: one a line, indented by two spaces."""

    def add(command: Callable[..., Any]) -> Callable[..., Any]:
        vars(command)["examples"] = text.rstrip()
        return command

    return add


class HelpCommand(TyperCommand):
    """A command whose help ends with its examples."""

    def format_epilog(self, ctx: Any, formatter: Any) -> None:
        """Writes the examples as they are."""
        with formatter.section("Examples"):
            formatter.write(f"{vars(self.callback).get('examples', '')}\n")


class PanelCommand(HelpCommand):
    """A command whose help lists its options by group, as plain text."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Writes the arguments, then one section for each group that has options."""
        sections: dict[str, list[tuple[str, str]]] = {name: [] for name in ("Arguments", *PANELS)}
        for parameter in self.get_params(ctx):
            if (record := parameter.get_help_record(ctx)) is not None:
                panel = "Arguments" if parameter.param_type_name == "argument" else None
                sections[panel or getattr(parameter, "rich_help_panel", None) or PANELS[-1]].append(record)
        for name, records in sections.items():
            if records:
                with formatter.section(name):
                    formatter.write_dl(records)
