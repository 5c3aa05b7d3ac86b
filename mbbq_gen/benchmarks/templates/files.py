"""Reads a template folder, and finds what is wrong between its files."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from mbbq_gen.benchmarks.templates.schema import (
    INDEX_FILE,
    Filler,
    LanguageTexts,
    TemplateIndex,
    TemplateSet,
    TemplateText,
    option_text,
)
from mbbq_gen.core.errors import DataError, MbbqGenError, PackError, UsageError, describe_faults
from mbbq_gen.core.files import PackPaths, file_digest, stable_digest
from mbbq_gen.languages.control_pack import read_control_set
from mbbq_gen.languages.packs import PackT, placeholders, read_toml


@dataclass(frozen=True)
class TemplateFinding:
    """Something wrong in a template folder."""

    file: Path
    problem: str
    """Key, what is wrong with it, and the value where it is short."""

    def __str__(self) -> str:
        return f"{self.file}: {self.problem}"


def load_templates(
    folder: Path, languages: Collection[str] | None = None, index: TemplateIndex | None = None
) -> TemplateSet:
    """The templates of a folder, in all its languages or in some of them.

    `index`: the file that all languages share, where it was read before.

    Raises:
        UsageError: where there is no such folder, or no template file in it.
        PackError: for the first thing that is wrong; file, key and value. `check_templates` lists them all.
    """
    template_set, findings = _read_folder(folder, languages, index)
    if findings or template_set is None:
        more = f" (and {len(findings) - 1} more)" if len(findings) > 1 else ""
        raise PackError(f"{findings[0]}{more}")
    return template_set


def check_templates(folder: Path, resources: PackPaths | None = None) -> list[TemplateFinding]:
    """Everything that is wrong in a template folder, in file order; with resources, the control sets it needs too.

    Raises:
        UsageError: where there is no such folder, or no template file in it.
    """
    template_set, findings = _read_folder(folder)
    if template_set is not None and resources is not None:
        for language in template_set.languages:
            file = folder / f"{language}.toml"
            findings += [TemplateFinding(file, text) for text in _control_faults(template_set, language, resources)]
    return findings


def _read_folder(
    folder: Path, languages: Collection[str] | None = None, index: TemplateIndex | None = None
) -> tuple[TemplateSet | None, list[TemplateFinding]]:
    """The template set, and what is wrong in it; None where a file can't be read at all."""
    index_file = folder / INDEX_FILE
    if not index_file.is_file():
        raise UsageError(f"{folder}: no {INDEX_FILE} in it; name a folder of templates")
    files = sorted(path for path in folder.glob("*.toml") if path.name != INDEX_FILE and path.name[0] != "_")
    files = [file for file in files if languages is None or file.stem in languages]
    findings: list[TemplateFinding] = []
    if index is None:
        index, findings = _read_file(TemplateIndex, index_file)
    if not files:
        findings.append(TemplateFinding(folder, f"no language file beside {INDEX_FILE}; add one such as en.toml"))
    texts: dict[str, LanguageTexts] = {}
    for file in files:
        read, faults = _read_file(LanguageTexts, file)
        findings += faults
        if read is not None:
            texts[file.stem] = read
    if index is None or len(texts) != len(files) or not files:
        return None, findings
    for file in files:
        findings += [TemplateFinding(file, problem) for problem in _language_faults(index, texts[file.stem], file.stem)]
    findings += _unknown_faults(folder, texts)
    return TemplateSet(index.benchmark, index.template, texts), findings


def _read_file(schema: type[PackT], file: Path) -> tuple[PackT | None, list[TemplateFinding]]:
    tables: dict[str, Any] = {}
    try:
        tables = read_toml(file)
        return schema.model_validate(tables), []
    except PackError as error:
        return None, [TemplateFinding(file, str(error).removeprefix(f"{file}: "))]
    except ValidationError as error:
        return None, [TemplateFinding(file, problem) for problem in describe_faults(error, tables)]


def _language_faults(index: TemplateIndex, texts: LanguageTexts, stem: str) -> Iterator[str]:
    """What does not fit between a language's file, its name and the file that all languages share."""
    if texts.meta.language != stem:
        yield f"meta.language: {texts.meta.language!r} is not the file's name {stem!r}"
    yield from _differences("template", [facts.id for facts in index.template], [text.id for text in texts.template])
    used = (
        {form for text in texts.template for form in text.needed_forms}
        | {placeholders(pattern)[0] for pattern in texts.derived.values()}
        | {"option"}
    )
    fillers = {facts.id: facts.fillers for facts in index.template}
    for text in texts.template:
        key = f"template {text.id!r}.filler"
        if text.id in fillers:
            yield from _differences(key, fillers[text.id], [filler.id for filler in text.filler])
        for filler in text.filler:
            for problem in _filler_faults(texts, text, filler, used):
                yield f"{key} {filler.id!r}.{problem}"


def _differences(key: str, wanted: Collection[str], found: Collection[str]) -> Iterator[str]:
    for name in wanted:
        if name not in found:
            yield f"{key} {name!r}: missing; {INDEX_FILE} names it"
    for name in found:
        if name not in wanted:
            yield f"{key} {name!r}: {INDEX_FILE} does not name it; remove it or add it there"


def _filler_faults(texts: LanguageTexts, text: TemplateText, filler: Filler, used: set[str]) -> Iterator[str]:
    """What is wrong with a pair of people: forms that lack or that no text uses, agreement, nested options."""
    for role, person in (("target", filler.target), ("non_target", filler.non_target)):
        forms = texts.forms_of(person)
        for form in sorted(text.needed_forms - set(forms)):
            yield f"{role}.{form}: missing; the texts of the template ask for this form"
        for form in sorted(set(person.forms) - used):
            yield f"{role}.{form}: no text asks for this form; remove it or correct its spelling"
        for slot in text.slots:
            if slot.form is None and person.gender not in slot.by_gender:
                yield f"{role}.gender: {person.gender!r}, but an agreement of the template has no third alternative"
                break
    options = [option_text(texts.forms_of(person)).casefold() for person in (filler.target, filler.non_target)]
    if options[0] and options[1] and (options[0] in options[1] or options[1] in options[0]):
        yield f"target: the options {options[0]!r} and {options[1]!r} contain each other; nobody could tell them apart"


def _unknown_faults(folder: Path, texts: Mapping[str, LanguageTexts]) -> Iterator[TemplateFinding]:
    counts = {language: len(text.unknown) for language, text in texts.items()}
    first = min(counts)
    for language, count in counts.items():
        if count != counts[first]:
            problem = (
                f"unknown: {count} texts, but {first}.toml has {counts[first]}; the n-th means the same everywhere"
            )
            yield TemplateFinding(folder / f"{language}.toml", problem)


def _control_faults(template_set: TemplateSet, language: str, resources: PackPaths) -> Iterator[str]:
    """What the control split of a language would trip over."""
    try:
        control_set = read_control_set(resources, language)
    except MbbqGenError as error:
        yield f"control split: {error}"
        return
    for text in template_set.texts[language].template:
        for form in sorted(text.needed_forms - set(control_set.grammar.forms)):
            yield f"template {text.id!r}: control_sets/{language}.toml has no grammar.forms.{form}"


T = TypeVar("T")


def at_least_one(templates: Iterable[T], path: Path) -> Iterator[T]:
    """The templates of a file, passed on.

    Raises:
        DataError: at the end, where there was none.
    """
    found = False
    for template in templates:
        found = True
        yield template
    if not found:
        raise DataError(f"{path}: no template in it; add a row, or remove the file")


def template_version(paths: Iterable[Path]) -> str:
    """The version of what is made of these files: it changes with their contents. Missing files don't count."""
    digests = [f"{path.name} {file_digest(path)}" for path in paths if path.is_file()]
    return f"templates-{stable_digest(*digests)[:10]}"


def category_slug(name: str) -> str:
    """The slug of a category that is called by a file's name: `SpanishRegion` → `spanish_region`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"\W+", "_", words).casefold()
