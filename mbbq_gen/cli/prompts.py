"""`mbbq-gen prompts …`: the wordings, and exactly what would be sent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mbbq_gen.cli.options import Json, Packs, data_folder, example, print_json, resources
from mbbq_gen.errors import UsageError
from mbbq_gen.runs.names import one_of, splits_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mbbq_gen.presentation import Setting
    from mbbq_gen.records import Instance
    from mbbq_gen.resources import Resources
    from mbbq_gen.runs.selection import PromptSource

Source = Annotated[
    str,
    typer.Option(
        "--prompts", help="Whose wordings: own, or published (the authors', out of your copy of the benchmark)."
    ),
]

app = typer.Typer(help="The prompt wordings, and exactly what is sent.", no_args_is_help=True, rich_markup_mode=None)


@app.command("list")
@example(
    "  mbbq-gen prompts list --language tr\n  mbbq-gen prompts list --language nl --prompts published --benchmark mbbq"
)
def list_variants(
    language: Annotated[str, typer.Option(help="Language.", metavar="XX")] = "en",
    prompts: Source = "own",
    benchmark: Annotated[str | None, typer.Option(help="Whose published wordings, by name.", metavar="NAME")] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Folder of its published files; none: the release that was pulled.", metavar="DIR"),
    ] = None,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Lists the wordings of a language with their texts."""
    from mbbq_gen.runs.selection import prompt_source

    source = prompt_source(prompts)
    if source == "published" and benchmark is None:
        raise UsageError("--prompts published: name the benchmark whose wordings to list: --benchmark NAME")
    settings = _wordings(source, resources(packs), benchmark or "", data, language)
    if as_json:
        extra = ("label_style", "unknown_text") if source == "published" else ()
        print_json(
            [{**each.variant.model_dump(), **{name: getattr(each, name) for name in extra}} for each in settings]
        )
        return
    for each in settings:
        facts: list[str] = [each.variant.kind]
        if source == "published":
            facts.append(f"labels {each.label_style}")
        if each.unknown_text is not None:
            facts.append(f"unknown option: {each.unknown_text}")
        typer.echo(f"{each.variant.id}  ({', '.join(facts)})\n")
        typer.echo("\n".join(f"    {line}".rstrip() for line in each.variant.text.strip().splitlines()) + "\n")


@app.command("show")
@example(
    "  mbbq-gen prompts show --language tr --variant polite\n"
    "  mbbq-gen prompts show --language en --variant letters --label-style '(A)' --order cyclic --json\n"
    "  mbbq-gen prompts show --language ko --benchmark kobbq --prompts published --variant published_3"
)
def show(
    language: Annotated[str, typer.Option(help="Language.", metavar="XX")] = "en",
    variant: Annotated[
        str | None, typer.Option(help="Prompt variant, see `mbbq-gen prompts list`; none: the first.", metavar="ID")
    ] = None,
    prompts: Source = "own",
    instance: Annotated[str | None, typer.Option(help="Id of the question; none: the first one.", metavar="ID")] = None,
    benchmark: Annotated[str, typer.Option(help="The benchmark's name.", metavar="NAME")] = "starter",
    data: Annotated[Path | None, typer.Option(help="Folder of its published files.", metavar="DIR")] = None,
    split: Annotated[str, typer.Option(help="bias or control.")] = "bias",
    order: Annotated[str, typer.Option(help="Option order, as in `run`.")] = "balanced",
    label_style: Annotated[
        str | None,
        typer.Option(
            help="Labels of the options: A, a, (A), 1, native or none; not given: A, or a published wording's own."
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the option orders.")] = 0,
    system: Annotated[str | None, typer.Option(help="Text of a system message.", metavar="TEXT")] = None,
    question_only: Annotated[bool, typer.Option("--question-only", help="Leave the context out.")] = False,
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Shows the exact messages that a model would be sent for a question."""
    from mbbq_gen.axes import parse_cell
    from mbbq_gen.axis_texts import native_labels
    from mbbq_gen.datasets.registry import load_benchmark
    from mbbq_gen.presentation import NATIVE, ORDER_POLICIES, listed, plan_orders, present
    from mbbq_gen.runs.selection import check_published, prompt_source
    from mbbq_gen.sampling import Outline

    where = resources(packs)
    source = prompt_source(prompts)
    check_published(source, label_style is not None, question_only)
    composed = variant if source == "own" and variant and parse_cell(variant) else None
    known = _wordings(source, where, benchmark, data, language, composed)
    name = known[0].variant.id if variant is None else one_of("prompt variant", variant, [s.variant.id for s in known])
    number = [each.variant.id for each in known].index(name)
    setting = replace(known[number], system=system, question_only=question_only)
    if label_style is not None:
        native = native_labels(where, language) if label_style == NATIVE else None
        shown_as = listed(setting.variant, label_style)
        setting = replace(setting, variant=shown_as, label_style=label_style, native_labels=native)
    policy = one_of("option order", order, ORDER_POLICIES)
    folder = data_folder(benchmark, data)
    chosen = splits_of(split)
    questions = list(load_benchmark(benchmark, data=folder, languages=[language], splits=chosen, resources=where))
    question = _find(questions, instance)
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
        typer.echo(f"{question.key}  variant {name}  ({roles})")
        for message in presentation.messages:
            typer.echo(f"\n--- {message.role} ---\n{message.content}")
        typer.echo("")


@app.command("axes")
@example("  mbbq-gen prompts axes --language ko\n  mbbq-gen prompts axes --language es --json")
def axes(
    language: Annotated[str, typer.Option(help="Language.", metavar="XX")] = "en",
    packs: Packs = None,
    as_json: Json = False,
) -> None:
    """Lists the axes that wordings can be composed from, and what each level says in a language.

    `run --axes format=free+json,hint=all` asks every combination; `--design fractional` takes a part from which main
    effects can still be told. A composed wording is named by its levels, such as `courteous+json`: `prompts show
    --variant` takes such names too.
    """
    from mbbq_gen.axes import AXES, AxisLevel
    from mbbq_gen.axis_texts import read_axes

    pack = read_axes(resources(packs), language)
    levels = [
        AxisLevel(axis=axis.name, level=level, is_base=level == axis.base, text=pack.says(axis.name, level))
        for axis in AXES.values()
        for level in (pack.addresses if axis.name == "address" else axis.levels)
    ]
    if as_json:
        print_json([level.model_dump() for level in levels])
        return
    for axis in AXES.values():
        typer.echo(f"{axis.name}: {axis.title}")
        for level in levels:
            if level.axis == axis.name:
                typer.echo(f"    {level.level}{' (base)' if level.is_base else ''}".ljust(28) + (level.text or ""))
        if axis.name == "address" and not pack.addresses:
            typer.echo(f"    {pack.meta.name} has no choice")
        typer.echo("")


def _wordings(
    source: PromptSource,
    where: Resources,
    benchmark: str,
    data: Path | None,
    language: str,
    composed: str | None = None,
) -> list[Setting]:
    """The wordings of a language, in order, with the labels and the unknown option that belong to them."""
    from mbbq_gen.axis_texts import read_axes
    from mbbq_gen.languages import read_prompts
    from mbbq_gen.presentation import Setting

    if source == "own":
        own = [Setting(variant) for variant in read_prompts(where, language).variant]
        return own if composed is None else [*own, Setting(read_axes(where, language).compose(composed))]
    from mbbq_gen.datasets.published_prompts import read_published_wordings
    from mbbq_gen.datasets.registry import benchmark_name

    found = read_published_wordings(benchmark_name(benchmark), data_folder(benchmark, data), language)
    return [Setting(each.variant, each.label_style, unknown_text=each.unknown_text) for each in found]


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
