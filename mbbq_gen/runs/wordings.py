"""The wordings of a run: our own out of the packs, or the benchmarks' published ones out of the user's copies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from mbbq_gen.axes import parse_cell
from mbbq_gen.axis_texts import native_labels, read_axes
from mbbq_gen.datasets.published_prompts import PublishedWording, read_published_wordings
from mbbq_gen.datasets.registry import find_benchmark
from mbbq_gen.errors import UsageError
from mbbq_gen.languages import OPEN_VARIANT, PromptPack, PromptVariant, VariantKind, read_prompts
from mbbq_gen.presentation import NATIVE, UNLABELLED, Setting, listed
from mbbq_gen.records import Instance, Method
from mbbq_gen.resources import Resources, file_digest
from mbbq_gen.runs.folder import OWN_DATA, BenchmarkChoice, RunSettings, name_in_copy

PUBLISHED_LABELS: Final = "published"
"""What `RunSettings.label_styles` holds where each published wording has labels of its own."""

Published = dict[tuple[str, str], tuple[PublishedWording, ...]]
"""Benchmark, language → the authors' wordings."""


def read_published(choices: Sequence[BenchmarkChoice], languages: Sequence[str], instruction: str | None) -> Published:
    """The published wordings of each benchmark, in each of the languages that it has.

    Args:
        choices: the benchmarks and where the user's copies are.
        languages: of the questions.
        instruction: language of the wordings; None for that of the questions.

    Raises:
        UsageError: where a benchmark, its copy or a language has none.
        DataError: where a file is wrong.
    """
    found: Published = {}
    for choice in choices:
        if choice.name == OWN_DATA:
            raise UsageError("--prompts published: questions of your own have no published wordings; use --prompts own")
        folder = Path(choice.data) if choice.data else None
        for language in languages:
            if language in find_benchmark(choice.name).languages:
                found[choice.name, language] = read_published_wordings(choice.name, folder, instruction or language)
    return found


class Wordings:
    """Every wording that a question is put in."""

    def __init__(self, settings: RunSettings, resources: Resources) -> None:
        """Reads the wordings that the settings name.

        Raises:
            UnknownNameError: where a language has no pack, or a pack no wording of that name.
            UsageError: where published wordings can't be had, or a question would be put in none.
        """
        self._settings = settings
        other = settings.instruction_language
        self._published: Published = {}
        self._packs: dict[str, PromptPack] = {}
        if settings.prompts == "published":
            self._published = self._select(read_published(settings.benchmarks, settings.languages, other))
        own = () if self._published else settings.variants
        if own or settings.is_scored:
            self._packs = {code: read_prompts(resources, code) for code in ([other] if other else settings.languages)}
        is_native = NATIVE in settings.label_styles and bool(own)
        self._native = {code: native_labels(resources, code) for code in settings.languages} if is_native else {}
        composed = [variant for variant in own if parse_cell(variant)]
        self._composed = {
            code: {variant: read_axes(resources, code).compose(variant) for variant in composed} for code in self._packs
        }
        for code in self._packs:
            for variant in (*own, *settings.scored_variants):
                if variant == OPEN_VARIANT or not self._published:
                    self._by_id(code, variant)
            for variant in own if UNLABELLED in settings.label_styles else ():
                self._listed(code, variant, UNLABELLED)

    def _select(self, published: Published) -> Published:
        """The wordings that the settings name; each benchmark must have one in each of its languages."""
        chosen = {
            where: tuple(wording for wording in wordings if wording.variant.id in self._settings.variants)
            for where, wordings in published.items()
        }
        for (benchmark, language), wordings in chosen.items():
            if not wordings:
                known = ", ".join(wording.variant.id for wording in published[benchmark, language])
                raise UsageError(
                    f"{benchmark} has none of the wordings {', '.join(self._settings.variants)} in {language}; it has"
                    f" {known}"
                )
        return chosen

    def files(self) -> dict[str, str]:
        """benchmark/file → sha256, for the files that published wordings were read from."""
        choices = {choice.name: choice for choice in self._settings.benchmarks}
        sources = {(where[0], wording.source) for where, found in self._published.items() for wording in found}
        return {name_in_copy(choices[benchmark], path): file_digest(path) for benchmark, path in sorted(sources)}

    def kinds(self) -> dict[str, VariantKind]:
        """Id of each wording → what kind of request it is."""
        if self._published:
            wordings = [wording.variant for found in self._published.values() for wording in found]
        else:
            wordings = [self._by_id(code, variant) for code in self._packs for variant in self._settings.variants]
        if OPEN_VARIANT in self._settings.scored_variants:
            wordings += [pack.open_variant for pack in self._packs.values()]
        return {wording.id: wording.kind for wording in wordings}

    def settings_of(self, instance: Instance, method: Method = "generate") -> list[Setting]:
        """How a question is put, once for each wording and label style, in the order of the settings."""
        if method == "generate":
            return self._listing(instance)
        if method != "likelihood":
            return [_answering(setting, "{label}") for setting in self._listing(instance)]
        scored = self._settings.scored_variants
        found = [_answering(setting, "{option}") for setting in self._listing(instance) if setting.variant.id in scored]
        if OPEN_VARIANT in scored:
            found.append(Setting(self._pack(instance).open_variant, **self._shared(instance)))
        return found

    def prior_text(self, instance: Instance, setting: Setting) -> str:
        """What stands before an answer in a wording whatever is asked: what `pmi` compares with."""
        return self._pack(instance).prior_text(setting.variant)

    def _by_id(self, language: str, variant: str) -> PromptVariant:
        """A wording of our own, written whole or composed."""
        return self._composed[language].get(variant) or self._packs[language].by_id(variant)

    def _listed(self, language: str, variant: str, style: str) -> PromptVariant:
        """A wording as it lists its options in a label style."""
        return listed(self._by_id(language, variant), style)

    def _pack(self, instance: Instance) -> PromptPack:
        return self._packs[self._settings.instruction_language or instance.language]

    def _shared(self, instance: Instance) -> dict[str, Any]:
        """What all wordings have in common."""
        settings = self._settings
        other = settings.instruction_language
        return {
            "system": settings.system,
            "instruction_language": other if other != instance.language else None,
            "question_only": settings.question_only,
        }

    def _listing(self, instance: Instance) -> list[Setting]:
        """The wordings that list the options."""
        settings, shared = self._settings, self._shared(instance)
        if settings.prompts == "published":
            reworded = settings.unknown_wording is not None
            return [
                Setting(
                    wording.variant,
                    wording.label_style,
                    unknown_text=None if reworded else wording.unknown_text,
                    **shared,
                )
                for wording in self._published[instance.benchmark, instance.language]
            ]
        code = settings.instruction_language or instance.language
        native = self._native.get(instance.language)
        return [
            Setting(
                self._listed(code, variant, style), style, native_labels=native if style == NATIVE else None, **shared
            )
            for variant in settings.variants
            if variant != OPEN_VARIANT
            for style in settings.label_styles
        ]


def _answering(setting: Setting, answer: str) -> Setting:
    """The same wording, its solved examples answered by what is scored: an option's text or label alone."""
    return replace(setting, variant=setting.variant.model_copy(update={"example_answer": answer}))
