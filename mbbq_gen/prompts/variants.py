"""The prompt variants of a run, from packs or published releases, and texts of the unknown option."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from mbbq_gen.benchmarks.registry import find_benchmark
from mbbq_gen.core.config import OWN_DATA, BenchmarkChoice, RunConfig
from mbbq_gen.core.errors import ConfigError, UsageError
from mbbq_gen.core.files import PackPaths, file_digest, stable_number
from mbbq_gen.core.option_display import OPEN_VARIANT
from mbbq_gen.core.records import Instance, Method
from mbbq_gen.languages.axes import parse_variant_name
from mbbq_gen.languages.axes_pack import native_labels, read_axes
from mbbq_gen.languages.prompt_pack import PromptVariant, VariantKind, read_prompts
from mbbq_gen.prompts.published import PublishedPrompt, read_published_prompts
from mbbq_gen.prompts.render import NATIVE, UNLABELLED, PromptSettings, with_option_labels

PUBLISHED_LABELS: Final = "published"
"""Value of `RunConfig.label_style` for published variants, which have their own labels."""

Published = dict[tuple[str, str], tuple[PublishedPrompt, ...]]
"""Benchmark, language → the authors' variants."""
SAMPLED: Final = "sampled"
DATA_ISSUE: Final = "unknown_text_replaced"
PUBLISHED_TEXT: Final = "published_unknown"
"""Metadata key of the replaced text."""
_CODE: Final = r"[a-z]{2,3}(?:-[A-Za-z0-9]+)*"
_ENTRY: Final = re.compile(rf"\s*{_CODE}=.*", re.S)
_SEPARATOR: Final = re.compile(rf",(?=\s*{_CODE}=)")


def read_published(choices: Sequence[BenchmarkChoice], languages: Sequence[str], instruction: str | None) -> Published:
    """Reads the published variants of each benchmark in its languages, or in the language `instruction` if given."""
    found: Published = {}
    for choice in choices:
        if choice.name == OWN_DATA:
            raise ConfigError("prompt_source", "published", "{instances} have no published prompts; use builtin")
        folder = Path(choice.data_dir) if choice.data_dir else None
        for language in languages:
            if language in find_benchmark(choice.name).languages:
                found[choice.name, language] = read_published_prompts(choice.name, folder, instruction or language)
    return found


class PromptVariants:
    """The prompt variants of a run."""

    def __init__(self, settings: RunConfig, resources: PackPaths) -> None:
        """Reads the variants of the settings; raises UsageError if one is missing in a language."""
        self._settings = settings
        other = settings.instruction_language
        self._published: Published = {}
        if settings.prompt_source == "published":
            for where, found in read_published(settings.benchmarks, settings.languages, other).items():
                self._published[where] = tuple(one for one in found if one.variant.id in settings.variants)
                if not self._published[where]:
                    wanted, known = ", ".join(settings.variants), ", ".join(one.variant.id for one in found)
                    raise UsageError(f"{where[0]} has none of the variants {wanted} in {where[1]}; it has {known}")
        names = () if self._published else settings.variants
        codes = ([other] if other else settings.languages) if names or settings.is_scored else ()
        self._packs = {code: read_prompts(resources, code) for code in codes}
        native = settings.languages if names and NATIVE in settings.label_style else ()
        self._native = {code: native_labels(resources, code) for code in native}
        if OPEN_VARIANT in settings.scored_variants:
            names = tuple(dict.fromkeys((*names, OPEN_VARIANT)))
        self._own: dict[str, dict[str, PromptVariant]] = {}
        """Language of the instruction → id → variant of a pack."""
        for code, pack in self._packs.items():
            composed = {name: read_axes(resources, code).compose(name) for name in names if parse_variant_name(name)}
            self._own[code] = {name: composed[name] if name in composed else pack.by_id(name) for name in names}
            for variant in self._own[code].values() if UNLABELLED in settings.label_style else ():
                with_option_labels(variant, UNLABELLED)

    def files(self) -> dict[str, str]:
        """benchmark/file → sha256, for the files of published variants."""
        choices = {choice.name: choice for choice in self._settings.benchmarks}
        sources = {(where[0], variant.source) for where, found in self._published.items() for variant in found}
        return {choices[benchmark].manifest_name(path): file_digest(path) for benchmark, path in sorted(sources)}

    def kinds(self) -> dict[str, VariantKind]:
        """Id of each variant → kind of its request."""
        variants = [prompt.variant for found in self._published.values() for prompt in found]
        variants += [variant for known in self._own.values() for variant in known.values()]
        return {variant.id: variant.kind for variant in variants}

    def settings_of(self, instance: Instance, method: Method = "generate") -> list[PromptSettings]:
        """The prompt settings of a question for each variant and label style, in the order of the run's settings."""
        listing = self._listing(instance)
        if method == "generate":
            return listing
        if method != "loglikelihood":
            return [_with_example_answer(setting, "{label}") for setting in listing]
        scored = self._settings.scored_variants
        found = [_with_example_answer(setting, "{option}") for setting in listing if setting.variant.id in scored]
        if OPEN_VARIANT in scored:
            found.append(self._setting(instance, self._own[self._code(instance)][OPEN_VARIANT]))
        return found

    def prior_text(self, instance: Instance, setting: PromptSettings) -> str:
        """The prompt without the question, for the unconditional likelihoods of `pmi`."""
        return self._packs[self._code(instance)].prior_text(setting.variant)

    def _code(self, instance: Instance) -> str:
        return self._settings.instruction_language or instance.language

    def _setting(self, instance: Instance, variant: PromptVariant, label_style: str = "A") -> PromptSettings:
        other = self._settings.instruction_language
        return PromptSettings(
            variant,
            label_style,
            system=self._settings.system_prompt,
            instruction_language=other if other != instance.language else None,
            no_context=self._settings.no_context,
            native_labels=self._native.get(instance.language) if label_style == NATIVE else None,
        )

    def _listing(self, instance: Instance) -> list[PromptSettings]:
        """The settings of all variants with options."""
        if self._published:
            prompts = self._published[instance.benchmark, instance.language]
            found = [(self._setting(instance, one.variant, one.label_style), one.unknown_text) for one in prompts]
            is_replaced = self._settings.unknown_text is not None
            return [setting if is_replaced else replace(setting, unknown_text=text) for setting, text in found]
        own = self._own[self._code(instance)]
        return [
            self._setting(instance, with_option_labels(own[name], style), style)
            for name in self._settings.variants
            if name != OPEN_VARIANT
            for style in self._settings.label_style
        ]


def _with_example_answer(setting: PromptSettings, answer: str) -> PromptSettings:
    """The settings with few-shot answers in the scored form: an option's text or its label."""
    return replace(setting, variant=setting.variant.model_copy(update={"example_answer": answer}))


def parse_unknown_text(text: str) -> dict[str, str]:
    """Parses `--unknown-text` (`sampled`, `TEXT`, or `en=TEXT,nl=TEXT`) into language → text.

    The language is "" for a text in every language; the result of `sampled` is empty. A comma separates entries only if
    a language code and `=` follow it.

    Raises:
        UsageError: if a text is empty or a language is repeated.
    """
    if text.strip() == SAMPLED:
        return {}
    texts: dict[str, str] = {}
    for entry in _SEPARATOR.split(text) if _ENTRY.fullmatch(text) else [f"={text}"]:
        language, _, given = entry.partition("=")
        if (code := language.strip()) in texts:
            raise ConfigError("unknown_text", text, f"{code} is named twice")
        if not given.strip():
            raise ConfigError("unknown_text", None, "the text is empty; name one, or `sampled`")
        texts[code] = given.strip()
    return texts


def unknown_text_in(texts: Mapping[str, str], language: str) -> str:
    """The text for a language in the result of `parse_unknown_text`; raises UsageError if there is none."""
    if (text := texts.get("", texts.get(language))) is None:
        raise ConfigError("unknown_text", None, f"no text for {language}; name one: {language}=TEXT")
    return text


def replace_unknown_text(instance: Instance, text: str) -> Instance:
    """The instance with another text of the unknown option; raises UsageError if a person has the same text."""
    old = instance.options[instance.unknown_index]
    if old.text == text:
        return instance
    if any(option.text.casefold() == text.casefold() for option in instance.options if option is not old):
        raise ConfigError("unknown_text", text, f"is the text of a person in {instance.key}")
    options = tuple(
        option.model_copy(update={"text": text}) if option is old else option for option in instance.options
    )
    return instance.model_copy(
        update={
            "options": options,
            "data_issues": (*instance.data_issues, DATA_ISSUE),
            "metadata": {**instance.metadata, PUBLISHED_TEXT: old.text},
        }
    )


def sample_unknown_texts(read: Callable[[], Iterable[Instance]], seed: int) -> Iterator[Instance]:
    """Yields the instances, each with a random text of the unknown option of its benchmark and language.

    The choice depends only on seed and parallel id. `read` reads the instances and is called twice. Raises UsageError
    on the call if a benchmark has only one text in a language.
    """
    found: dict[tuple[str, str], set[str]] = defaultdict(set)
    for instance in read():
        found[instance.benchmark, instance.language].add(instance.options[instance.unknown_index].text)
    for (benchmark, language), texts in found.items():
        if len(texts) < 2:
            fault = f"{benchmark} has one text only in {language}, {next(iter(texts))!r}; give texts of your own"
            raise ConfigError("unknown_text", "sampled", fault)
    known = {group: sorted(texts) for group, texts in found.items()}

    def draw(instance: Instance) -> str:
        people = {option.text.casefold() for option in instance.options if option.role != "unknown"}
        texts = [text for text in known[instance.benchmark, instance.language] if text.casefold() not in people]
        number = stable_number(seed, SAMPLED, instance.parallel_id or instance.instance_id)
        return texts[number % len(texts)] if texts else instance.options[instance.unknown_index].text

    return (replace_unknown_text(instance, draw(instance)) for instance in read())
