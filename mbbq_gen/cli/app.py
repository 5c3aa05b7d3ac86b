"""The commands, in the order in which help lists them."""

from __future__ import annotations

from typing import Annotated

import typer

import mbbq_gen
from mbbq_gen.cli import (
    agreement,
    audit,
    batch,
    compare,
    data,
    design,
    diff,
    doctor,
    explain,
    export,
    extract,
    import_,
    init,
    instantiate,
    judge,
    language,
    languages,
    leaderboard,
    models,
    packs,
    plan,
    position,
    power,
    prompts,
    report,
    robustness,
    run,
    score,
    status,
    thoughts,
    view,
)

app = typer.Typer(
    name="mbbq-gen",
    help="Measures the social bias of chat models by what they write, with the BBQ family of benchmarks.",
    invoke_without_command=True,
    add_completion=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    pretty_exceptions_enable=False,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(mbbq_gen.__version__)
        raise typer.Exit


_WELCOME = """\
mbbq-gen measures the social bias of chat models by what they write.

A first result, in seconds and with no model (the answers are made up):
  mbbq-gen run first --model made-up:able-stereotyped --benchmark starter --languages en --variants letters --sample 96

Then:
  mbbq-gen init       asks what you want to measure, writes it to a file, says what it costs
  mbbq-gen doctor     what is installed, which keys are set, which data is found
  mbbq-gen models     what can be asked           mbbq-gen data list     the benchmarks
  mbbq-gen --help     all commands
"""


@app.callback()
def _main(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(_WELCOME, nl=False)


app.command("init")(init.init)
app.command("doctor")(doctor.doctor)
app.command("plan")(plan.plan)
app.command("design")(design.design)
app.command("run")(run.run)
app.command("status")(status.status)
app.add_typer(batch.app, name="batch")
app.command("import")(import_.import_answers)
app.command("extract")(extract.extract)
app.command("read", hidden=True)(extract.extract)  # what it does, in one word that many try
app.command("explain")(explain.explain)
app.command("audit")(audit.audit)
app.command("judge")(judge.judge)
app.command("score")(score.score)
app.command("report")(report.report)
app.command("leaderboard")(leaderboard.leaderboard)
app.command("export")(export.export)
app.command("view")(view.view)
data.app.command("instantiate")(instantiate.instantiate)
app.add_typer(data.app, name="data")
app.add_typer(prompts.app, name="prompts")
app.command("compare")(compare.compare)
app.command("diff")(diff.diff)
app.command("agreement")(agreement.agreement)
app.command("thoughts")(thoughts.thoughts)
app.command("robustness")(robustness.robustness)
app.command("position")(position.position)
app.command("power")(power.power)
app.command("languages")(languages.languages)
app.add_typer(language.app, name="language")
app.command("models")(models.models)
app.command("check")(packs.check)
