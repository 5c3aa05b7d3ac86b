"""`mbbq-gen prompts …`: the wordings, and exactly what would be sent."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mbbq_gen.cli.options import Json, Packs, data_folder, example, one_of, print_json, resources
from mbbq_gen.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mbbq_gen.records import Instance

app = typer.Typer(help="The prompt wordings, and exactly what is sent.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
@example("  mbbq-gen prompts list --language tr")
def list_variants(
    language: Annotated[str, typer.Option(help="Language.", metavar="XX")] = "en",
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Lists the wordings of a language with their texts."""
    from mbbq_gen.languages import read_prompts

    pack = read_prompts(resources(packs), language)
    if as_json:
        print_json([variant.model_dump() for variant in pack.variant])
        return
    for variant in pack.variant:
        typer.echo(f"{variant.id}  ({variant.kind})\n")
        typer.echo("\n".join(f"    {line}".rstrip() for line in variant.text.strip().splitlines()) + "\n")


@app.command("show")
@example(
    "  mbbq-gen prompts show --language tr --variant polite\n"
    "  mbbq-gen prompts show --language en --variant letters --label-style '(A)' --order cyclic --json"
)
def show(
    language: Annotated[str, typer.Option(help="Language.", metavar="XX")] = "en",
    variant: Annotated[str, typer.Option(help="Prompt variant, see `mbbq-gen prompts list`.", metavar="ID")] = "polite",
    instance: Annotated[str | None, typer.Option(help="Id of the question; none: the first one.", metavar="ID")] = None,
    benchmark: Annotated[str, typer.Option(help="The benchmark's name.", metavar="NAME")] = "starter",
    data: Annotated[Path | None, typer.Option(help="Folder of its published files.", metavar="DIR")] = None,
    split: Annotated[str, typer.Option(help="bias or control.")] = "bias",
    order: Annotated[str, typer.Option(help="Option order, as in `run`.")] = "balanced",
    label_style: Annotated[str, typer.Option(help="Labels of the options: A, a, (A) or 1.")] = "A",
    seed: Annotated[int, typer.Option(help="Seed of the option orders.")] = 0,
    system: Annotated[str | None, typer.Option(help="Text of a system message.", metavar="TEXT")] = None,
    question_only: Annotated[bool, typer.Option("--question-only", help="Leave the context out.")] = False,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Shows the exact messages that a model would be sent for a question."""
    from mbbq_gen.cli.options import splits_of
    from mbbq_gen.datasets.registry import load_benchmark
    from mbbq_gen.languages import read_prompts
    from mbbq_gen.presentation import ORDER_POLICIES, Setting, plan_orders, present
    from mbbq_gen.sampling import Outline

    where = resources(packs)
    pack = read_prompts(where, language)
    setting = Setting(pack.by_id(variant), label_style, system, question_only=question_only)
    policy = one_of("option order", order, ORDER_POLICIES)
    folder = data_folder(benchmark, data)
    chosen = splits_of(split)
    questions = list(load_benchmark(benchmark, data=folder, languages=[language], splits=chosen, resources=where))
    question = _find(questions, instance)
    number = [candidate.id for candidate in pack.variant].index(variant)
    orders = plan_orders(policy, (Outline.of(each) for each in questions), seed).orders(question, number)
    shown = [present(question, setting, each) for each in orders]
    if as_json:
        print_json([presentation.model_dump() for presentation in shown])
        return
    for presentation in shown:
        roles = ", ".join(
            f"{label} = {question.options[index].role or 'person'}"
            for label, index in zip(presentation.labels, presentation.order, strict=True)
        )
        typer.echo(f"{question.key}  variant {variant}  ({roles})")
        for message in presentation.messages:
            typer.echo(f"\n--- {message.role} ---\n{message.content}")
        typer.echo("")


def _find(questions: Iterable[Instance], wanted: str | None) -> Instance:
    """The question with that id or key, or the first one."""
    ids: list[str] = []
    for question in questions:
        if wanted in (None, question.instance_id, question.key):
            return question
        ids.append(question.instance_id)
    if wanted is None:
        raise UsageError("the benchmark has no question in this language and split")
    one_of("instance", wanted, ids)
    raise AssertionError  # one_of raises: the id is not among them
