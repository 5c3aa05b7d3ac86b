"""Which model is asked what, and how: the options that `run` and `plan` share, and the settings that they mean."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from mbbq_gen.cli.options import all_of, data_folder, one_of, splits_of, words
from mbbq_gen.cli.prompts import PromptSource, check_published, prompt_source
from mbbq_gen.cli.questions import check_own_data
from mbbq_gen.errors import UsageError

if TYPE_CHECKING:
    from mbbq_gen.datasets.registry import BenchmarkInfo
    from mbbq_gen.records import Instance, Split
    from mbbq_gen.resources import Resources
    from mbbq_gen.runs.folder import BenchmarkChoice, RunSettings


@dataclass(frozen=True)
class Selection:
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
    languages: Annotated[str, typer.Option(help="Languages, comma-separated, or `all`.", metavar="XX,…")] = "all"
    variants: Annotated[str, typer.Option(help="Prompt variants, comma-separated, or `all`.", metavar="ID,…")] = "all"
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
            help="Labels of the options, comma-separated: A, a, (A), 1; none: A, or a published wording's own.",
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
        from mbbq_gen.datasets.registry import find_benchmark
        from mbbq_gen.presentation import ORDER_POLICIES
        from mbbq_gen.runs.folder import OWN_DATA, RunSettings

        choices = _choices(self.benchmark, self.data, self.instances, self.field_map)
        if self.model is None:
            raise UsageError("name the model to ask: --model kind:model (see `mbbq-gen models`)")
        order = one_of("option order", self.order, ORDER_POLICIES)
        infos = [find_benchmark(choice.name) for choice in choices if choice.name != OWN_DATA]
        if order == "published" and not self.force:
            _refuse_confounded([info.name for info in infos if info.confounded_order])
        languages = _languages(where, self.languages, choices, infos)
        other = (
            one_of("language", self.instruction_language, where.names("prompts")) if self.instruction_language else None
        )
        source = prompt_source(self.prompts)
        check_published(source, self.label_style, self.question_only)
        known = _known_variants(where, source, choices, languages, other)
        variants = known if self.variants == "all" else all_of("prompt variant", self.variants, known)
        _check_unknown_wording(self.unknown_wording, languages)
        system, options = self._system_and_options()
        return RunSettings(
            model=self.model,
            model_options=options,
            system=system,
            benchmarks=tuple(choices),
            languages=tuple(languages),
            splits=_splits(self.splits, infos),
            variants=tuple(variants),
            prompts=source,
            order=order,
            label_styles=_label_styles(source, self.label_style),
            unknown_wording=self.unknown_wording,
            shots=self.shots,
            instruction_language=other,
            question_only=self.question_only,
            seed=self.seed,
            sample=self.sample,
        )

    def requests_in_batch(self, model: str) -> int | None:
        """--batch-size, where `model` is one that takes requests in batches: there it shapes no answer."""
        from mbbq_gen.providers.batches import takes_batches

        return self.batch_size if takes_batches(model.partition(":")[0]) else None

    def _system_and_options(self) -> tuple[str | None, dict[str, Any]]:
        """The text of the system message, and the options of the provider that were given, by name."""
        names = ["max_new_tokens", "threads", "dtype", "device"]
        if self.requests_in_batch(self.model or "") is None:
            names.append("batch_size")
        given = {name: getattr(self, name) for name in names}
        options = provider_options(given, self.option or [])
        if self.system in ("none", "default"):
            return None, {**options, "system": self.system}
        return self.system, options


def _choices(
    benchmark: str | None, data: Path | None, instances: Path | None, field_map: Path | None
) -> list[BenchmarkChoice]:
    """The benchmarks, or the user's own file."""
    from mbbq_gen.runs.folder import OWN_DATA, BenchmarkChoice

    check_own_data(benchmark, data, instances, field_map)
    if instances is not None:
        return [BenchmarkChoice(name=OWN_DATA, data=str(instances), field_map=str(field_map) if field_map else None)]
    if benchmark is None:
        raise UsageError("name what to ask: --benchmark NAME (see `mbbq-gen data list`) or --instances FILE")
    folders = {name: data_folder(name, data) for name in words(benchmark)}
    return [BenchmarkChoice(name=name, data=str(folder) if folder else None) for name, folder in folders.items()]


def provider_options(given: dict[str, Any], pairs: list[str]) -> dict[str, Any]:
    """The options of the provider that were given, by name."""
    options = {name: value for name, value in given.items() if value is not None}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise UsageError(f"--option {pair!r}: write it as NAME=VALUE")
        options[name.strip().replace("-", "_")] = value
    return options


def _splits(text: str | None, infos: Sequence[BenchmarkInfo]) -> tuple[Split, ...]:
    """The splits of a comma-separated list; where there is none, those that the benchmarks have."""
    both: tuple[Split, ...] = ("bias", "control")
    if text is not None:
        return tuple(splits_of(text))
    return tuple(split for split in both if not infos or any(split in info.splits for info in infos))


def _known_variants(
    where: Resources,
    source: PromptSource,
    choices: Sequence[BenchmarkChoice],
    languages: Sequence[str],
    other: str | None,
) -> list[str]:
    """The ids of all wordings that there are."""
    if source == "published":
        from mbbq_gen.runs.wordings import read_published

        found = read_published(choices, languages, other)
        return list(dict.fromkeys(wording.variant.id for wordings in found.values() for wording in wordings))
    from mbbq_gen.languages import read_prompts

    return [variant.id for variant in read_prompts(where, other or languages[0]).variant]


def _label_styles(source: PromptSource, text: str | None) -> tuple[str, ...]:
    """The label styles of a comma-separated list; published wordings have their own."""
    from mbbq_gen.presentation import LABEL_STYLES

    if source == "published":
        from mbbq_gen.runs.wordings import PUBLISHED_LABELS

        return (PUBLISHED_LABELS,)
    return tuple(all_of("label style", "A" if text is None else text, list(LABEL_STYLES)))


def _check_unknown_wording(text: str | None, languages: Iterable[str]) -> None:
    """Makes sure that a text on the command line says how the unknown option is worded in every language."""
    from mbbq_gen.datasets.unknown_wording import parse_unknown_wording

    wording = None if text is None else parse_unknown_wording(text)
    if wording is not None and not wording.sampled:
        for language in languages:
            wording.text_in(language)


def _refuse_confounded(names: list[str]) -> None:
    if names:
        raise UsageError(
            f"--order published: in {', '.join(names)} the published place of an option tells its role, so a preference"
            " for a place would look like bias; use another order, or --force"
        )


def _languages(
    where: Resources, text: str, choices: Sequence[BenchmarkChoice], infos: Sequence[BenchmarkInfo]
) -> list[str]:
    """The languages to ask in; each must have prompts, and `all` means what the benchmarks have."""
    known = where.names("prompts")
    if text != "all":
        return all_of("language", text, known)
    if infos:
        return list(dict.fromkeys(code for info in infos for code in info.languages if code in known))
    found = dict.fromkeys(instance.language for choice in choices for instance in _own_questions(choice))
    return [one_of("language", code, known) for code in found]


def _own_questions(choice: BenchmarkChoice) -> Iterator[Instance]:
    """The questions of the user's own file."""
    from mbbq_gen.datasets.canonical import read_instances

    return read_instances(Path(choice.data or ""), Path(choice.field_map) if choice.field_map else None)


@dataclass(frozen=True)
class QuestionSource:
    """Reads the questions that a run's settings name (a `runs.plan.LoadBenchmark`)."""

    settings: RunSettings
    where: Resources

    def __call__(self, choice: BenchmarkChoice, languages: Iterable[str], splits: Iterable[str]) -> Iterator[Instance]:
        """The questions of one benchmark, with the unknown option worded as the settings say."""
        from mbbq_gen.datasets.unknown_wording import WordingPool, parse_unknown_wording, reword_all

        codes, chosen = list(languages), list(splits)
        questions = self._questions(choice, codes, chosen)
        if self.settings.unknown_wording is None:
            return questions
        wording = parse_unknown_wording(self.settings.unknown_wording)
        if not wording.sampled:
            return reword_all(questions, wording)
        pool = WordingPool(questions, self.settings.seed)
        return pool.reword_all(self._questions(choice, codes, chosen))

    def _questions(self, choice: BenchmarkChoice, languages: list[str], chosen: list[str]) -> Iterator[Instance]:
        """The questions of one benchmark in those of the languages and splits that it has."""
        from mbbq_gen.datasets.registry import find_benchmark, load_benchmark
        from mbbq_gen.runs.folder import OWN_DATA

        wanted = set(languages)
        if choice.name == OWN_DATA:
            for instance in _own_questions(choice):
                if instance.language in wanted and instance.split in chosen:
                    yield instance
            return
        info = find_benchmark(choice.name)
        several = len(self.settings.benchmarks) > 1
        yield from load_benchmark(
            choice.name,
            data=Path(choice.data) if choice.data else None,
            languages=[code for code in languages if code in info.languages or not several],
            splits=[split for split in chosen if split in info.splits or not several],  # type: ignore[misc]
            resources=self.where,
        )


def notices(settings: RunSettings) -> tuple[str, ...]:
    """What every result of a run has to say of its benchmarks."""
    from mbbq_gen.datasets.registry import find_benchmark
    from mbbq_gen.runs.folder import OWN_DATA

    infos = [find_benchmark(choice.name) for choice in settings.benchmarks if choice.name != OWN_DATA]
    return tuple(f"{info.name}: {info.notice}" for info in infos if info.notice)
