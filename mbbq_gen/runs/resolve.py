"""Resolves the names and options of a caller into a checked RunConfig, and loads the instances it selects.

Used by the command line, the Python API and the inspect-ai tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, get_args

from pydantic import JsonValue

from mbbq_gen.benchmarks.control.maker import ControlCoverage, with_control
from mbbq_gen.benchmarks.own_file import read_instances
from mbbq_gen.benchmarks.registry import BenchmarkInfo, benchmark_name, find_benchmark, load_benchmark
from mbbq_gen.benchmarks.releases import benchmark_folder
from mbbq_gen.core.config import OWN_DATA, BenchmarkChoice, RunConfig
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.options import LABEL_STYLES, OPEN_VARIANT, ORDER_POLICIES
from mbbq_gen.core.reasoning import parse_reasoning
from mbbq_gen.core.records import NORMALISATIONS, Instance, Method, Split
from mbbq_gen.core.text import Names, all_of, one_of, splits_of, words
from mbbq_gen.languages.axes import AXES, DESIGNS, factorial_design, parse_axes, parse_variant_name
from mbbq_gen.languages.prompt_pack import read_prompts
from mbbq_gen.prompts.render import NATIVE, UNLABELLED
from mbbq_gen.prompts.variants import (
    PUBLISHED_LABELS,
    UnknownTextSampler,
    parse_unknown_text,
    read_published,
    replace_unknown_texts,
)

PromptSource = Literal["builtin", "published"]
BOTH: Final = "both"
"""Short for the two ways of asking that papers use: what a model writes, and what it finds likely."""
_CONTROL_MADE: Final = (
    "control questions were made by substitution where the data has none; `mbbq-gen data control` tells which were left"
    " out and why"
)
MAX_FEWSHOT: Final = 9
"""Few-shot examples that may stand before a question."""


@dataclass(frozen=True, kw_only=True)
class QuestionSelection:
    """The model, its options, and the questions with their prompt variants, as a caller names them.

    A list of names is a text with commas or a sequence. What is left out has the default of `mbbq-gen run`.
    """

    model: str | None = None
    """`kind:model`."""
    benchmark: Names | None = None
    """Names of benchmarks; None where `instances` is given."""
    data_dir: Path | None = None
    """Folder of the published files; None: the release that was pulled."""
    instances: Path | None = None
    """The user's own questions, in place of a benchmark."""
    field_map: Path | None = None
    """Which fields of that file are which of ours."""
    languages: Names = "all"
    variants: Names = "all"
    """Ids of prompt variants, or `plain` for all paraphrases of the plain one."""
    axes: str | None = None
    """Axes that prompt variants are composed from in their place, as `format=free+json,hint=all`."""
    design: str = "full"
    """Which cells of the axes are used: full or fractional."""
    prompt_source: str = "builtin"
    """Source of the prompts: builtin or published."""
    splits: Names | None = None
    """bias, control or both; None: all that there are."""
    option_order: str = "balanced"
    """Option order policy."""
    label_style: Names | None = None
    """None: A, or a published prompt variant's own."""
    unknown_text: str | None = None
    """How the unknown option is worded anew; None: as in the data."""
    num_fewshot: int = 0
    """Few-shot examples before each question."""
    instruction_language: str | None = None
    """Language of the prompt variants where it is not the questions'."""
    no_context: bool = False
    """Whether contexts are left out."""
    sample: int | None = None
    """Questions for each language and split, balanced over templates; None: all."""
    seed: int = 0
    """Of sampling and option orders."""
    system_prompt: str | None = None
    """System message: a text, `none`, or `default` (the model's own)."""
    model_args: Mapping[str, JsonValue] = field(default_factory=dict)
    """Options of the model by name, as `mbbq-gen models KIND` lists them."""
    method: Names = "generate"
    """generate, loglikelihood, label-loglikelihood, first-token-logprobs, or both (generate and loglikelihood)."""
    reasoning_effort: Names | None = None
    """How much the model is to think first: off, on, minimal, low, medium, high or tokens; None: nothing is said."""
    normalization: str = "sum"
    """How loglikelihoods are made comparable."""
    allow_confounded_order: bool = False
    """Whether `order="published"` is allowed where it is confounded."""

    def settings(self, where: PackPaths) -> RunConfig:
        """The run's settings, every name in them checked.

        Raises:
            UsageError: where a name is unknown, options contradict each other, or one is missing.
        """
        choices = _choices(self.benchmark, self.data_dir, self.instances, self.field_map)
        if self.model is None:
            raise UsageError("name the model: --model kind:model (see `mbbq-gen models`)")
        if self.sample is not None and self.sample < 1:
            raise UsageError(f"--sample {self.sample}: use at least one question for each language and split")
        if not 0 <= self.num_fewshot <= MAX_FEWSHOT:
            raise UsageError(
                f"--num-fewshot {self.num_fewshot}: 0 to {MAX_FEWSHOT} solved examples can precede a question"
            )
        order = one_of("option order", self.option_order, ORDER_POLICIES)
        infos = [find_benchmark(choice.name) for choice in choices if choice.name != OWN_DATA]
        if order == "published" and not self.allow_confounded_order:
            _refuse_confounded([info.name for info in infos if info.confounded_order])
        languages = _languages(where, self.languages, choices, infos)
        other = (
            one_of("language", self.instruction_language, where.names("prompts")) if self.instruction_language else None
        )
        source = prompt_source(self.prompt_source)
        check_published(source, self.label_style is not None, self.no_context)
        meant: dict[str, tuple[Method, ...]] = {method: (method,) for method in get_args(Method)}
        meant[BOTH] = ("generate", "loglikelihood")
        methods = tuple(
            dict.fromkeys(method for name in all_of("method", self.method, list(meant)) for method in meant[name])
        )
        normalise = one_of("normalisation", self.normalization, NORMALISATIONS)
        if normalise != "sum" and "loglikelihood" not in methods:
            raise UsageError(
                f"--normalization {normalise}: belongs to --method loglikelihood; leave one out or name both"
            )
        styles = _label_styles(source, self.label_style)
        _check_first_tokens(methods, styles)
        if source == "published":
            found = read_published(choices, languages, other)
            known = list(dict.fromkeys(wording.variant.id for variants in found.values() for wording in variants))
        else:
            known = [variant.id for variant in read_prompts(where, other or languages[0]).variant]
        variants, scored = _chosen_variants(self._variants(source), known, methods, source)
        variant = None if self.unknown_text is None else parse_unknown_text(self.unknown_text)
        if variant is not None and not variant.sampled:
            for language in languages:
                variant.text_in(language)
        named_system = self.system_prompt if self.system_prompt in ("none", "default") else None
        return RunConfig(
            model=self.model,
            model_args={**self.model_args, "system": named_system} if named_system else dict(self.model_args),
            system_prompt=None if named_system else self.system_prompt,
            benchmarks=tuple(choices),
            languages=tuple(languages),
            splits=_splits(self.splits, infos),
            variants=variants,
            methods=methods,
            scored_variants=scored,
            reasoning_effort=_reasoning(self.reasoning_effort, methods),
            normalization=normalise,
            make_control=self.splits is not None
            and "control" in splits_of(self.splits)
            and any(not _has_control(choice) for choice in choices),
            prompt_source=source,
            option_order=order,
            label_styles=styles,
            unknown_text=self.unknown_text,
            num_fewshot=self.num_fewshot,
            instruction_language=other,
            no_context=self.no_context,
            seed=self.seed,
            sample=self.sample,
        )

    def _variants(self, source: PromptSource) -> Names:
        """The names of the prompt variants, those of a design over axes too.

        Raises:
            UsageError: where axes stand beside named or published prompt variants, or a design is none.
        """
        design = one_of("design", self.design, DESIGNS)
        if self.axes is None:
            if design != "full":
                raise UsageError(f"--design {design}: a design needs --axes; name them, or leave it out")
            return self.variants if _all_meant(self.variants) else _with_paraphrases(self.variants)
        if source == "published" or not _all_meant(self.variants):
            other = "--prompt-source published" if source == "published" else "--variants"
            raise UsageError(f"--axes, {other}: axes define their own prompt variants; leave one of the two out")
        return factorial_design(parse_axes(self.axes), design)


def _with_paraphrases(names: Names) -> list[str]:
    """The names, `plain` taken for all of its paraphrases."""
    plain = {"plain": list(AXES["wording"].levels)}
    return list(dict.fromkeys(each for name in words(names) for each in plain.get(name, [name])))


def _reasoning(names: Names | None, methods: Sequence[Method]) -> tuple[str, ...]:
    """The reasoning efforts.

    Raises:
        UnknownNameError, UsageError: where one is none, or no words are requested.
    """
    levels = parse_reasoning(words(names)) if names is not None else ()
    if names is not None and not levels:
        raise UsageError("--reasoning-effort: name at least one level, such as none,high")
    if levels and "generate" not in methods:
        raise UsageError(
            f"--reasoning-effort {','.join(levels)}: loglikelihoods are computed without reasoning; leave it out"
        )
    return levels


def _check_first_tokens(methods: Sequence[Method], styles: Sequence[str]) -> None:
    """Refuses labels that all begin alike where only first tokens are returned, and none where labels are scored."""
    scored = [method for method in methods if method in ("label-loglikelihood", "first-token-logprobs")]
    if scored and UNLABELLED in styles:
        raise UsageError(f"--label-style {UNLABELLED}: --method {scored[0]} scores labels; use --method loglikelihood")
    for style in styles if "first-token-logprobs" in methods else ():
        labels = LABEL_STYLES.get(style, ())
        if labels and len({label[0] for label in labels}) == 1:
            raise UsageError(
                f"--label-style {style}: all labels begin with {labels[0][0]!r}, so their first tokens are the"
                " same; use another style with --method first-token-logprobs"
            )


def _chosen_variants(
    names: Names, known: Sequence[str], methods: Sequence[Method], source: PromptSource
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The prompt variants that list options, and those for loglikelihoods.

    Loglikelihoods use the open prompt variant, unless they are the only method and variants are named; published
    variants are used for all methods.
    """
    if source == "published":
        chosen = list(known) if _all_meant(names) else all_of("prompt variant", names, known)
        return tuple(chosen), tuple(chosen) if "loglikelihood" in methods else ()
    if _all_meant(names):
        named, scored = list(known), [OPEN_VARIANT]
    else:
        composed = [name for name in words(names) if parse_variant_name(name)]
        every = all_of("prompt variant", names, [*known, OPEN_VARIANT, *composed])
        named = [name for name in every if name != OPEN_VARIANT]
        scored = every if tuple(methods) == ("loglikelihood",) else [OPEN_VARIANT]
    if "loglikelihood" not in methods:
        scored = []
        if not named:
            raise UsageError(f"--variants {OPEN_VARIANT}: lists no options, so it belongs to --method loglikelihood")
    if tuple(methods) == ("loglikelihood",):
        named = scored
    return tuple(named or known), tuple(scored)


def prompt_source(text: str) -> PromptSource:
    """Whose prompt variants to use; raises UnknownNameError for anything else."""
    known: tuple[PromptSource, ...] = ("builtin", "published")
    return one_of("source of prompts", text, known)


def check_published(source: PromptSource, own_labels: bool, no_context: bool) -> None:
    """Refuses what would change a published prompt variant, which is sent byte for byte.

    Raises:
        UsageError: for labels of one's own, or a context that is left out.
    """
    for given, name in ((own_labels, "--label-style"), (no_context, "--no-context")):
        if source == "published" and given:
            raise UsageError(f"--prompt-source published: the authors' prompts are sent unchanged; leave {name} out")


def check_own_data(benchmark: Names | None, data: Path | None, instances: Path | None, field_map: Path | None) -> None:
    """Refuses options that contradict each other.

    Raises:
        UsageError: for a benchmark and a file, or a field map without a file.
    """
    if instances is not None and (benchmark is not None or data is not None):
        raise UsageError("--instances replaces --benchmark and --data-dir; give one or the other")
    if field_map is not None and instances is None:
        raise UsageError("--field-map describes the fields of --instances FILE; give that file too")


def _all_meant(names: Names) -> bool:
    """Whether a list says that all that there are are wanted."""
    return words(names) == ["all"]


def _choices(
    benchmark: Names | None, data: Path | None, instances: Path | None, field_map: Path | None
) -> list[BenchmarkChoice]:
    """The benchmarks, or the user's own file."""
    check_own_data(benchmark, data, instances, field_map)
    if instances is not None:
        return [
            BenchmarkChoice(name=OWN_DATA, data_dir=str(instances), field_map=str(field_map) if field_map else None)
        ]
    if benchmark is None:
        raise UsageError("name the questions: --benchmark NAME (see `mbbq-gen data list`) or --instances FILE")
    folders = {name: benchmark_folder(name, data) for name in map(benchmark_name, words(benchmark))}
    return [BenchmarkChoice(name=name, data_dir=str(folder) if folder else None) for name, folder in folders.items()]


def _splits(names: Names | None, infos: Sequence[BenchmarkInfo]) -> tuple[Split, ...]:
    """The splits of a comma-separated list; where there is none, those that the benchmarks have."""
    both: tuple[Split, ...] = ("bias", "control")
    if names is not None:
        return tuple(splits_of(names))
    return tuple(split for split in both if not infos or any(split in info.splits for info in infos))


def _has_control(choice: BenchmarkChoice) -> bool:
    if choice.name != OWN_DATA:
        return "control" in find_benchmark(choice.name).splits
    return any(instance.split == "control" for instance in _own_questions(choice))


def _label_styles(source: PromptSource, names: Names | None) -> tuple[str, ...]:
    """The label styles of a comma-separated list; published prompt variants have their own."""
    if source == "published":
        return (PUBLISHED_LABELS,)
    return tuple(all_of("label style", "A" if names is None else names, [*LABEL_STYLES, NATIVE, UNLABELLED]))


def _refuse_confounded(names: list[str]) -> None:
    if names:
        raise UsageError(
            f"--option-order published: in {', '.join(names)} the published position of an option depends on its role,"
            " so position bias would look like social bias; use another order, or --allow-confounded-order"
        )


def _languages(
    where: PackPaths, names: Names, choices: Sequence[BenchmarkChoice], infos: Sequence[BenchmarkInfo]
) -> list[str]:
    """The languages to ask in; each must have prompts, and `all` means what the benchmarks have."""
    known = where.names("prompts")
    if not _all_meant(names):
        return all_of("language", names, known)
    if infos:
        return list(dict.fromkeys(code for info in infos for code in info.languages if code in known))
    found = dict.fromkeys(instance.language for choice in choices for instance in _own_questions(choice))
    return [one_of("language", code, known) for code in found]


def _own_questions(choice: BenchmarkChoice) -> Iterator[Instance]:
    """The questions of the user's own file."""
    return read_instances(Path(choice.data_dir or ""), Path(choice.field_map) if choice.field_map else None)


@dataclass(frozen=True)
class InstanceSource:
    """Reads the questions that a run's settings name (a `runs.plan.LoadBenchmark`)."""

    settings: RunConfig
    where: PackPaths
    control: dict[str, ControlCoverage] = field(default_factory=dict)
    """Benchmark → what became of its questions where control questions were made, counted as they are read."""

    def __call__(self, choice: BenchmarkChoice, languages: Iterable[str], splits: Iterable[str]) -> Iterator[Instance]:
        """The questions of one benchmark, with the unknown option worded as the settings say."""

        codes, chosen = list(languages), list(splits)
        questions = self._questions(choice, codes, chosen)
        if self.settings.unknown_text is None:
            return questions
        variant = parse_unknown_text(self.settings.unknown_text)
        if not variant.sampled:
            return replace_unknown_texts(questions, variant)
        pool = UnknownTextSampler(questions, self.settings.seed)
        return pool.replace_all(self._questions(choice, codes, chosen))

    def _questions(self, choice: BenchmarkChoice, languages: list[str], chosen: list[str]) -> Iterator[Instance]:
        """The questions of one benchmark in those of the languages and splits that it has."""

        if self.settings.make_control and "control" in chosen and not _has_control(choice):
            counts = self.control[choice.name] = ControlCoverage()
            return with_control(self._published(choice, languages, ["bias"]), chosen, self.where, counts.add)
        return self._published(choice, languages, chosen)

    def _published(self, choice: BenchmarkChoice, languages: list[str], chosen: list[str]) -> Iterator[Instance]:
        """The same, without questions that are made."""
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
            data=Path(choice.data_dir) if choice.data_dir else None,
            languages=[code for code in languages if code in info.languages or not several],
            splits=[split for split in chosen if split in info.splits or not several],  # type: ignore[misc]
            resources=self.where,
        )


def notices(settings: RunConfig) -> tuple[str, ...]:
    """What every result of a run has to say of its benchmarks."""
    infos = [find_benchmark(choice.name) for choice in settings.benchmarks if choice.name != OWN_DATA]
    said = [f"{info.name}: {info.notice}" for info in infos if info.notice]
    return (*said, _CONTROL_MADE) if settings.make_control else tuple(said)
