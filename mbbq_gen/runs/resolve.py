"""Resolves the names in a configuration, and loads the instances that it selects.

Used by the command line, the Python API and the inspect-ai tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import JsonValue

from mbbq_gen.benchmarks.control.coverage import ControlCoverage
from mbbq_gen.benchmarks.own_file import read_instances
from mbbq_gen.benchmarks.registry import BENCHMARKS, benchmark_name, find_benchmark, load_lazily
from mbbq_gen.benchmarks.releases import benchmark_folder
from mbbq_gen.benchmarks.rows import LazyInstance
from mbbq_gen.core.config import OWN_DATA, PROVIDER_SETTINGS, BenchmarkChoice, RunConfig, checked, shapes
from mbbq_gen.core.errors import ConfigError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.option_display import LABEL_STYLES, OPEN_VARIANT, ORDER_POLICIES
from mbbq_gen.core.records import Instance, Split
from mbbq_gen.languages.axes import AXES, factorial_design, parse_axes, parse_variant_name
from mbbq_gen.languages.prompt_pack import read_prompts
from mbbq_gen.prompts.render import NATIVE, UNLABELLED
from mbbq_gen.prompts.variants import (
    PUBLISHED_LABELS,
    parse_unknown_text,
    read_published,
    replace_unknown_text,
    sample_unknown_texts,
    unknown_text_in,
)
from mbbq_gen.providers.base import BATCH_KINDS, Provider
from mbbq_gen.providers.registry import open_provider

ALL: Final = ("all",)
SPLITS: Final[tuple[Split, ...]] = ("bias", "control")
_CONFOUNDED: Final = (
    "the published position of an option depends on its role, so position bias looks like social bias; the option"
    " order `balanced` avoids this"
)
_CONTROL_MADE: Final = (
    "control questions were made by substitution where the data has none; `mbbq-gen data control` tells which were left"
    " out and why"
)


def resolve(config: RunConfig, where: PackPaths) -> RunConfig:
    """The configuration with all names checked, `all` replaced, and all settings that affect prompts set.

    Raises:
        ConfigError: a name is unknown, settings contradict each other, or one is missing.
        UsageError, DataError, PackError: data or a language pack is missing or wrong.
    """
    config = located(config)
    if not config.model:
        raise ConfigError("model", None, "name one as kind:model (see `mbbq-gen models`)")
    choices = config.benchmarks
    infos = [find_benchmark(choice.name) for choice in choices if choice.name != OWN_DATA]
    checked("option_order", [config.option_order], ORDER_POLICIES)
    known = where.names("prompts")
    if config.languages != ALL:
        languages = checked("languages", config.languages, known)
    elif infos:
        languages = list(dict.fromkeys(code for info in infos for code in info.languages if code in known))
    else:
        found = dict.fromkeys(instance.language for instance in _own_questions(choices[0]))
        languages = checked("languages", list(found), known)
    if config.instruction_language:
        checked("instruction_language", [config.instruction_language], known)
    config = config.model_copy(update={"languages": tuple(languages)})
    update: dict[str, Any] = {"label_style": _label_style(config), "variants": _variants(config, where)}
    check_together(config)
    if config.unknown_text is not None and (texts := parse_unknown_text(config.unknown_text)):
        for language in languages:
            unknown_text_in(texts, language)
    update["splits"] = config.splits or tuple(
        split for split in SPLITS if not infos or any(split in info.splits for info in infos)
    )
    if config.make_control is None:
        update["make_control"] = "control" in config.splits and not all(map(_has_control, choices))
    shaping = {name: getattr(config, name) for name in RunConfig.model_fields if shapes(name) != "execution"}
    return config.model_copy(update=shaping | update)


def located(config: RunConfig) -> RunConfig:
    """The configuration with the full names of its benchmarks and the folders of their files."""
    if config.instances is not None:
        if config.benchmark or config.data_dir is not None:
            raise ConfigError(
                "instances", str(config.instances), "replaces {benchmark} and {data_dir}; give one or the other"
            )
        return config
    if config.instances_field_map is not None:
        field_map = str(config.instances_field_map)
        raise ConfigError("instances_field_map", field_map, "describes the fields of {instances}; give that file too")
    if not config.benchmark:
        raise ConfigError("benchmark", None, "name one (see `mbbq-gen data list`), or give {instances}")
    given = config.data_dir if isinstance(config.data_dir, dict) else {}
    folders: dict[str, str] = {}
    names = tuple(dict.fromkeys(map(benchmark_name, config.benchmark)))
    if unknown := next((name for name in names if name not in BENCHMARKS), None):
        raise ConfigError("benchmark", unknown, "is not known; see `mbbq-gen data list`", BENCHMARKS)
    for name in names:
        one = given.get(name) if given else config.data_dir
        if folder := benchmark_folder(name, Path(one) if isinstance(one, str) else None):
            folders[name] = str(folder)
    return config.model_copy(update={"benchmark": names, "data_dir": folders or None})


def _label_style(config: RunConfig) -> tuple[str, ...]:
    """The label styles; published prompts have their own."""
    if config.prompt_source == "published":
        own_labels = config.label_style not in {(), (PUBLISHED_LABELS,)}
        if own_labels or config.no_context:
            name = "label_style" if own_labels else "no_context"
            raise ConfigError(
                "prompt_source", config.prompt_source, f"the authors' prompts are sent unchanged; leave {{{name}}} out"
            )
        return (PUBLISHED_LABELS,)
    styles = checked("label_style", config.label_style or "A", [*LABEL_STYLES, NATIVE, UNLABELLED])
    scored = [method for method in config.method if method in ("label-loglikelihood", "first-token-logprobs")]
    if scored and UNLABELLED in styles:
        raise ConfigError("label_style", UNLABELLED, f"{{method}} {scored[0]} scores labels; use loglikelihood")
    for style in styles if "first-token-logprobs" in config.method else ():
        labels = LABEL_STYLES.get(style, ())
        if labels and len({label[0] for label in labels}) == 1:
            raise ConfigError(
                "label_style",
                style,
                f"all labels begin with {labels[0][0]!r}, so their first tokens are the same; use another style with"
                " {method} first-token-logprobs",
            )
    return tuple(styles)


def _variants(config: RunConfig, where: PackPaths) -> tuple[str, ...]:
    """The ids of the prompt variants, including those of a factorial design.

    Loglikelihoods use the open variant, unless they are the only method and variants are named, or the prompts are
    published.
    """
    wanted, published = config.variants, config.prompt_source == "published"
    if config.axes is None:
        if config.axes_design != "full":
            raise ConfigError("axes_design", config.axes_design, "needs {axes}; name them, or leave it out")
    else:
        composed = tuple(factorial_design(parse_axes(config.axes), config.axes_design))
        if published or wanted not in {ALL, composed}:
            other = "{prompt_source}" if published else "{variants}"
            raise ConfigError("axes", config.axes, f"axes define their own prompt variants; leave {other} out")
        wanted = composed
    if published:
        found = read_published(config.benchmarks, config.languages, config.instruction_language)
        known = list(dict.fromkeys(setting.variant.id for settings in found.values() for setting in settings))
        return tuple(known if wanted == ALL else checked("variants", wanted, known))
    known = [variant.id for variant in read_prompts(where, config.instruction_language or config.languages[0]).variant]
    only_scored = config.method == ("loglikelihood",)
    if wanted == ALL:
        return (OPEN_VARIANT,) if only_scored else tuple(known)
    plain = {"plain": list(AXES["wording"].levels)}
    wanted = tuple(dict.fromkeys(each for name in wanted for each in plain.get(name, [name])))
    every = checked("variants", wanted, [*known, OPEN_VARIANT, *(name for name in wanted if parse_variant_name(name))])
    if only_scored:
        return tuple(every)
    named = [name for name in every if name != OPEN_VARIANT]
    if not named and "loglikelihood" not in config.method:
        raise ConfigError("variants", OPEN_VARIANT, "lists no options, so it belongs to {method} loglikelihood")
    return tuple(named or known)


def check_together(config: RunConfig) -> None:
    """Raises ConfigError for a setting without the setting or method that it needs."""
    rules = [
        ("normalization", "loglikelihood", "belongs to {method} loglikelihood; leave one out or name both"),
        ("reasoning_effort", "generate", "loglikelihoods are computed without reasoning; leave it out"),
        ("follow_up", "generate", "loglikelihoods leave nothing unread; leave it out"),
    ]
    for name, method, hint in rules:
        value = getattr(config, name)
        if value and value != "sum" and method not in config.method:
            raise ConfigError(name, value, hint)
    for name in ("workers", "gpus_per_worker"):
        if config.ray is None and getattr(config, name) is not None:
            raise ConfigError(name, getattr(config, name), "goes with {ray}")


def resolve_for(config: RunConfig, before: RunConfig | None, where: PackPaths) -> RunConfig:
    """The resolved configuration of a command; for an existing run (`before`), only the settings that change."""
    named = {name for name in config.model_fields_set if shapes(name) == "prompt"}
    if before is None or config.is_whole:
        return resolve(config, where)
    if not named:
        return config
    merged = before.model_copy(update={name: getattr(config, name) for name in config.model_fields_set})
    found = resolve(merged, where)
    return config.model_copy(update={name: getattr(found, name) for name in named})


def provider_options(config: RunConfig) -> dict[str, JsonValue]:
    """The given options of the provider; without `batch_size` if it is the size of a service's batch."""
    given = {name: getattr(config, name) for name in RunConfig.model_fields if name in PROVIDER_SETTINGS}
    if config.model.partition(":")[0] in BATCH_KINDS:
        del given["batch_size"]
    return {**{name: value for name, value in given.items() if value is not None}, **config.model_args}


def open_model(config: RunConfig, where: PackPaths) -> Provider:
    """The provider of a run; raises as `open_provider`."""
    return open_provider(config.model, provider_options(config), where)


def _has_control(choice: BenchmarkChoice) -> bool:
    if choice.name != OWN_DATA:
        return "control" in find_benchmark(choice.name).splits
    return any(instance.split == "control" for instance in _own_questions(choice))


def _own_questions(choice: BenchmarkChoice) -> Iterator[Instance]:
    """The questions of the user's own file."""
    return read_instances(Path(choice.data_dir or ""), Path(choice.field_map) if choice.field_map else None)


@dataclass(frozen=True)
class InstanceSource:
    """Reads the questions that the settings of a run select."""

    settings: RunConfig
    where: PackPaths
    control: dict[str, ControlCoverage] = field(default_factory=dict)
    """Benchmark → coverage of the generated control questions, counted as questions are read."""

    def __call__(
        self, choice: BenchmarkChoice, languages: Iterable[str], splits: Iterable[str]
    ) -> Iterator[LazyInstance]:
        """The questions of one benchmark, with control questions and unknown options by the settings."""
        language_list, split_list = list(languages), list(splits)
        makes_control = self.settings.make_control and "control" in split_list and not _has_control(choice)
        if not makes_control and self.settings.unknown_text is None:
            return self._published(choice, language_list, split_list)

        def questions() -> Iterator[Instance]:
            if not makes_control:
                return (one.build() for one in self._published(choice, language_list, split_list))
            from mbbq_gen.benchmarks.control.maker import with_control  # imports the grammars

            counts = self.control[choice.name] = ControlCoverage()
            published = (one.build() for one in self._published(choice, language_list, ["bias"]))
            return with_control(published, split_list, self.where, counts.add)

        if self.settings.unknown_text is None:
            changed = questions()
        elif texts := parse_unknown_text(self.settings.unknown_text):
            changed = (replace_unknown_text(one, unknown_text_in(texts, one.language)) for one in questions())
        else:
            changed = sample_unknown_texts(questions, self.settings.seed)
        return map(LazyInstance.of, changed)

    def _published(self, choice: BenchmarkChoice, languages: list[str], splits: list[str]) -> Iterator[LazyInstance]:
        """The unchanged questions of a benchmark or the user's file; empty lists: all languages or splits.

        Of several benchmarks, each yields what it has; a single one must have all languages and splits.
        """
        if choice.name == OWN_DATA:
            for instance in _own_questions(choice):
                if instance.language in (languages or [instance.language]) and instance.split in (splits or SPLITS):
                    yield LazyInstance.of(instance)
            return
        codes, parts = languages, splits
        if len(self.settings.benchmarks) > 1:
            info = find_benchmark(choice.name)
            codes = [code for code in languages if code in info.languages]
            parts = [split for split in splits if split in info.splits]
            if (languages and not codes) or (splits and not parts):
                return
        yield from load_lazily(
            choice.name,
            data=Path(choice.data_dir) if choice.data_dir else None,
            languages=codes,
            splits=parts,  # type: ignore[arg-type]
            resources=self.where,
        )


def notices(settings: RunConfig) -> tuple[str, ...]:
    """Notices about the benchmarks of a run, which every result must show."""
    infos = [find_benchmark(choice.name) for choice in settings.benchmarks if choice.name != OWN_DATA]
    said = [f"{info.name}: {info.notice}" for info in infos if info.notice]
    if settings.option_order == "published":
        said += [f"{info.name}: {_CONFOUNDED}" for info in infos if info.confounded_order]
    return (*said, _CONTROL_MADE) if settings.make_control else tuple(said)
