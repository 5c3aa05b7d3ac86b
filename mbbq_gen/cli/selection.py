"""Which model is asked what, and how: the options that `run` and `plan` share, and the settings that they mean."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mbbq_gen.errors import UsageError

if TYPE_CHECKING:
    from mbbq_gen.resources import Resources
    from mbbq_gen.runs.folder import RunSettings


@dataclass(frozen=True)
class SelectionOptions:
    """The model, its options, and the questions with their wordings, as they were typed."""

    model: Annotated[str | None, typer.Option(help="kind:model, see `mbbq-gen models`.")] = None
    benchmark: Annotated[
        str | None, typer.Option(help="Benchmarks, comma-separated, see `mbbq-gen data list`.", metavar="NAME,…")
    ] = None
    data: Annotated[Path | None, typer.Option(help="Folder of the benchmark's published files.", metavar="DIR")] = None
    instances: Annotated[
        Path | None, typer.Option(help="Your own questions: JSON Lines, CSV, TSV or Parquet.", metavar="FILE")
    ] = None
    field_map: Annotated[
        Path | None,
        typer.Option("--map", help="Which of your file's fields is which of ours (TOML).", metavar="TOML"),
    ] = None
    languages: Annotated[
        str,
        typer.Option("--languages", "--language", help="Languages, comma-separated, or `all`.", metavar="XX,…"),
    ] = "all"
    variants: Annotated[
        str,
        typer.Option(
            help="Prompt variants, comma-separated; `all`: one of each kind; `plain`: six paraphrases of one request.",
            metavar="ID,…",
        ),
    ] = "all"
    axes: Annotated[
        str | None,
        typer.Option(
            help="Compose the wordings from axes instead: `format=free+json,hint=all`; see `mbbq-gen prompts axes`.",
            metavar="AXIS=LEVEL+…,…",
        ),
    ] = None
    design: Annotated[
        str, typer.Option(help="Cells of the axes that are asked: full, or fractional (two levels an axis).")
    ] = "full"
    prompts: Annotated[
        str, typer.Option(help="Whose wordings: own, or published (the authors', out of your copy of the benchmark).")
    ] = "own"
    splits: Annotated[
        str | None, typer.Option(help="bias, control or both; none: all that there are.", metavar="SPLIT,…")
    ] = None
    order: Annotated[
        str, typer.Option(help="Option order: published, shuffled, balanced, cyclic (3 orders) or all (6).")
    ] = "balanced"
    label_style: Annotated[
        str | None,
        typer.Option(
            help="Labels of the options, comma-separated: A, a, (A), 1, native (the language's own letters), none (a "
            "dash before each option); not given: A, or a published wording's own.",
            metavar="STYLE,…",
        ),
    ] = None
    unknown_wording: Annotated[
        str | None,
        typer.Option(
            help="Word the unknown option anew: TEXT, `en=TEXT,nl=TEXT`, or `sampled` from the benchmark's own.",
            metavar="TEXT",
        ),
    ] = None
    shots: Annotated[int, typer.Option(min=0, max=9, help="Solved examples before each question.", metavar="N")] = 0
    instruction_language: Annotated[
        str | None, typer.Option(help="Put the wording in this language round the question in its own.", metavar="XX")
    ] = None
    question_only: Annotated[bool, typer.Option("--question-only", help="Leave the contexts out (a baseline).")] = False
    sample: Annotated[
        int | None,
        typer.Option(
            min=1, help="Ask only N questions for each language and split, balanced over templates.", metavar="N"
        ),
    ] = None
    seed: Annotated[int, typer.Option(help="Seed of sampling and option orders.")] = 0
    system: Annotated[
        str | None, typer.Option(help="System message: a text, `none`, or `default` (the model's own).", metavar="TEXT")
    ] = None
    max_new_tokens: Annotated[int | None, typer.Option(help="Longest answer, in tokens.", metavar="N")] = None
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Questions that a local model answers together; behind an API: most requests in one --batch.",
            metavar="N",
        ),
    ] = None
    threads: Annotated[int | None, typer.Option(help="CPU threads of a local model.", metavar="N")] = None
    dtype: Annotated[str | None, typer.Option(help="Number type of a local model: float32, bfloat16, …")] = None
    device: Annotated[str | None, typer.Option(help="Device of a local model: cpu, cuda, mps.")] = None
    option: Annotated[
        list[str] | None, typer.Option(help="Any other option of the model, as NAME=VALUE.", metavar="NAME=VALUE")
    ] = None
    method: Annotated[
        str,
        typer.Option(
            help="What is asked: generate (words), likelihood (of answers), labels or first-token (of labels); several "
            "with commas; both: generate,likelihood.",
            metavar="NAME,…",
        ),
    ] = "generate"
    reasoning: Annotated[
        str | None,
        typer.Option(
            help="How much the model thinks first: off, on, minimal, low, medium, high or a number of tokens; several "
            "with commas: an axis.",
            metavar="LEVEL,…",
        ),
    ] = None
    normalise: Annotated[
        str, typer.Option(help="How likelihoods are made comparable: sum, mean, per_char, per_byte or pmi.")
    ] = "sum"
    force: Annotated[bool, typer.Option("--force", help="Allow --order published where it is confounded.")] = False

    @property
    def is_empty(self) -> bool:
        """Whether nothing says what to ask: the run is one that goes on."""
        return self.model is None and self.benchmark is None and self.instances is None

    def settings(self, where: Resources) -> RunSettings:
        """The run's settings, every name in them checked.

        Raises:
            UsageError: where a name is unknown, options contradict each other, or one is missing.
        """
        from mbbq_gen.runs.selection import Selection

        named = {field.name for field in fields(Selection)} - {"options"}
        given = {name: getattr(self, name) for name in named}
        return Selection(options=self.provider_options(), **given).settings(where)

    def requests_in_batch(self, model: str) -> int | None:
        """--batch-size, where `model` is one that takes requests in batches: there it shapes no answer."""
        from mbbq_gen.providers.batches import takes_batches

        return self.batch_size if takes_batches(model.partition(":")[0]) else None

    def provider_options(self, model: str | None = None) -> dict[str, Any]:
        """The options of the provider that were given, by name; `model` where the run names it and not the user."""
        names = ["max_new_tokens", "threads", "dtype", "device"]
        if self.requests_in_batch(self.model or model or "") is None:
            names.append("batch_size")
        given = {name: getattr(self, name) for name in names}
        return provider_options(given, self.option or [])


_FLAGS = {"field_map": "--map"}
"""Options that are called otherwise than their fields."""
_OF_THE_MODEL = frozenset({"max_new_tokens", "threads", "dtype", "device", "batch_size", "option", "force"})
"""What may be typed again where a run goes on: whether it is as before is looked at then."""


def check_goes_on(context: typer.Context) -> None:
    """Makes sure that nothing is said of what a run asks where the run, which says it already, goes on.

    Raises:
        UsageError: where something is; it would go unheard.
    """
    planned = {field.name for field in fields(SelectionOptions)} - _OF_THE_MODEL
    sources = {name: context.get_parameter_source(name) for name in planned}
    typed = [name for name, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    if typed:
        named = ", ".join(_FLAGS.get(name, f"--{name.replace('_', '-')}") for name in sorted(typed))
        raise UsageError(
            f"{named}: a run goes on as it was planned; leave that out, or name another run folder and --model"
        )


def provider_options(given: dict[str, Any], pairs: list[str]) -> dict[str, Any]:
    """The options of the provider that were given, by name."""
    options = {name: value for name, value in given.items() if value is not None}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"--option {pair!r}: write it as NAME=VALUE")
        options[name.strip().replace("-", "_")] = value
    return options
