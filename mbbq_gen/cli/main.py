"""The command line: its commands, and exit codes.

Exit codes: 0 success, 1 the work failed or a check found something, 2 wrong use, 130 Ctrl-C. Results go to stdout,
messages and progress to stderr. The module of a command is imported when the command is used.
"""

from __future__ import annotations

import errno
import gc
import io
import logging
import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer

import mbbq_gen
from mbbq_gen.cli.command import HelpGroup, command_of
from mbbq_gen.cli.output import say
from mbbq_gen.core.errors import COMMAND, ConfigError, MbbqGenError
from mbbq_gen.core.text import visible_text

COMMANDS: dict[str, dict[str, str]] = {
    "Start": {
        "init": "setup.Init",
        "doctor": "setup.Doctor",
        "models": "setup.Models",
        "estimate": "setup.Estimate",
        "design": "setup.Design",
    },
    "Measure": {
        "run": "run.RunModel",
        "status": "run.Status",
        "batch": "run.batch_app",
        "import": "interchange.Import",
    },
    "Read answers": {
        "extract": "extract.Extract",
        "explain": "extract.Explain",
        "annotate": "annotate.Annotate",
        "judge": "annotate.Judge",
    },
    "Analyse": {
        "score": "score.Score",
        "report": "report.Report",
        "view": "report.View",
        "compare": "analyses.Compare",
        "diff": "analyses.Diff",
        "agreement": "analyses.Agreement",
        "reasoning": "analyses.Reasoning",
        "robustness": "analyses.Robustness",
        "position-bias": "analyses.PositionBias",
        "power": "analyses.Power",
    },
    "Share": {
        "leaderboard": "report.Leaderboard",
        "export": "interchange.Export",
    },
    "Data and languages": {
        "data": "data.data_app",
        "prompts": "packs.prompts_app",
        "languages": "packs.ListLanguages",
        "language": "packs.language_app",
        "check": "packs.Check",
    },
}
"""Group → command → its module and class, in the order of the help."""


def _load_command(name: str) -> Any:
    """Imports the class of a command, or a group of commands."""
    module, _, kind = next(commands[name] for commands in COMMANDS.values() if name in commands).partition(".")
    return getattr(import_module(f"mbbq_gen.cli.{module}"), kind)


class CommandGroups(HelpGroup):
    """The top-level group; imports each command when it is used."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands."""
        return [name for commands in COMMANDS.values() for name in commands]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The command of a name; loads all for an unknown one, so that the error suggests the nearest."""
        names = self.list_commands(ctx)
        for name in [cmd_name] if cmd_name in names else names:
            if name not in self.commands:
                self.commands[name] = command_of(name, _load_command(name))
        return self.commands.get(cmd_name)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes one section for each group of commands."""
        width = max(map(len, self.list_commands(ctx)))
        for panel, commands in COMMANDS.items():
            with formatter.section(panel):
                names, kinds = [name.ljust(width) for name in commands], map(_load_command, commands)
                texts = [kind.info.help if isinstance(kind, typer.Typer) else kind.__doc__ for kind in kinds]
                formatter.write_dl(list(zip(names, [str(text).partition("\n")[0] for text in texts], strict=True)))


app = typer.Typer(
    name="mbbq-gen",
    cls=CommandGroups,
    help="Measures the social bias of chat models with the BBQ family of benchmarks.",
    epilog="  mbbq-gen doctor          (what is installed, which API keys are set, which data is found)\n"
    "  mbbq-gen run demo --model synthetic:able-stereotyped --benchmark starter --languages en --sample 96\n"
    "  mbbq-gen report demo\n"
    "  mbbq-gen init            (writes a study file for what you want to measure)",
    invoke_without_command=True,
    add_completion=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    pretty_exceptions_enable=False,
)


def _print_version(is_given: bool) -> None:
    if is_given:
        typer.echo(mbbq_gen.__version__)
        raise typer.Exit


@app.callback()
def _main(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


GC_THRESHOLD = (100_000, 20, 100)
"""Thresholds of the garbage collector: packs and questions are many long-lived objects, and collecting at the default
thresholds takes a sixth of a run's time."""


SWITCH_INTERVAL = 0.0005
"""Seconds after which a thread releases the interpreter lock, a tenth of the default: the thread that sends requests
needs the lock often while another thread extracts answers."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the command line and exits with its code."""
    for name in ("stdout", "stderr"):  # None if the caller closed it
        setattr(sys, name, getattr(sys, name) or os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))
    gc.set_threshold(*GC_THRESHOLD)
    sys.setswitchinterval(SWITCH_INTERVAL)
    given = sys.argv[1:] if arguments is None else arguments
    if not {"run", "judge"}.intersection(given[:1]):  # small matrices take longer on several threads
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    code = run_command_line(given)
    gc.freeze()  # avoids two collections of all objects at exit
    sys.exit(code)


def run_command_line(arguments: Sequence[str]) -> int:
    """Runs the command line and returns its exit code; errors are one line on stderr."""
    # Depending on its version, Typer contains click or imports it: take the base class of its own errors.
    wrong_use: type[BaseException] = next(
        base for base in typer.BadParameter.__mro__ if base.__name__ == "ClickException"
    )
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(_VisibleFormatter())
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = command_line()(list(arguments), standalone_mode=False, prog_name="mbbq-gen")
        sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except MbbqGenError as error:
        say(f"error: {error.spelled(COMMAND) if isinstance(error, ConfigError) else error}")
        return error.exit_code
    except typer.Exit as leave:
        return leave.exit_code
    except (KeyboardInterrupt, typer.Abort):
        say("stopped.")
        return 130
    except wrong_use as error:
        say(_wrong_use(error))
        return 2
    except BrokenPipeError:
        # The pipe was closed by its reader, such as `| head`: not a failure.
        _drop_output()
        return 0
    except OSError as error:
        place = error.filename if isinstance(error.filename, str) else "can't write the output"
        say(f"error: {place}: {error.strerror or error}")
        if error.errno in {errno.ENOSPC, errno.EIO}:
            _drop_output()
        return 1


def _drop_output() -> None:
    """Discards buffered output, so that flushing it at exit does not fail."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _VisibleFormatter(logging.Formatter):
    """Makes control characters in log messages visible."""

    def format(self, record: logging.LogRecord) -> str:
        """The message of a record."""
        return visible_text(super().format(record))


@cache
def command_line() -> Any:
    """The command line as a click group, built once."""
    return typer.main.get_command(app)


def all_commands() -> Any:
    """The command line with every command loaded."""
    group = command_line()
    for name in group.list_commands(None):
        group.get_command(None, name)
    return group


def _wrong_use(error: BaseException) -> str:
    """The error and the command for help; only the help if no command was given."""
    message = str(error.format_message() if hasattr(error, "format_message") else error)
    if type(error).__name__ == "NoArgsIsHelpError":
        return message
    command = getattr(getattr(error, "ctx", None), "command_path", "mbbq-gen")
    return f"error: {' '.join(message.split()).rstrip('.')}; see: {command} --help"
