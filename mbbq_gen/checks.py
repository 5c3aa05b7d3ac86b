"""Checks every pack and every starter file: schemas, placeholders, examples, and that languages agree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import ValidationError

from mbbq_gen.core.errors import MbbqGenError, PackError, describe_faults
from mbbq_gen.core.files import PACK_KINDS, PackPaths
from mbbq_gen.core.records import FrozenModel
from mbbq_gen.languages.axes_pack import paraphrase_fault, read_axes
from mbbq_gen.languages.control_pack import read_control_set
from mbbq_gen.languages.packs import TO_DO, read_toml
from mbbq_gen.languages.prompt_pack import PromptPack, read_prompts


class Finding(FrozenModel):
    """Something wrong in a file."""

    file: str
    what: str
    """Key, value and what to do, in one line."""


class CheckReport(FrozenModel):
    """What was checked and what was found."""

    checked: tuple[str, ...]
    findings: tuple[Finding, ...]
    incomplete: dict[str, tuple[str, ...]]
    """Language → packs that it lacks: it cannot be used yet. Not a fault of what is there."""


def check_everything(resources: PackPaths, languages: Iterable[str]) -> CheckReport:
    """Checks the packs of these languages, and the starter templates."""
    checked: list[str] = []
    findings: list[Finding] = []
    incomplete: dict[str, tuple[str, ...]] = {}
    prompts: dict[str, PromptPack] = {}
    persons = _starter_persons()
    for language in languages:
        paths = {kind: resources.find(kind, language) for kind in PACK_KINDS}
        checked += [str(path) for path in paths.values() if path is not None]
        missing = tuple(f"{kind}/{language}.toml" for kind, path in paths.items() if path is None)
        if missing:
            incomplete[language] = missing
        findings += _prompt_findings(resources, language, prompts)
        axes = resources.find("prompts", f"axes/{language}")
        checked += [] if axes is None else [str(axes)]
        findings += [] if axes is None else _axes_findings(resources, language)
        synthetic = resources.find("prompts", f"synthetic/{language}")
        checked += [] if synthetic is None else [str(synthetic)]
        findings += [] if synthetic is None else _synthetic_findings(resources, language)
        findings += _control_findings(resources, language)
        people = resources.find("extractors", f"people/{language}")
        checked += [] if people is None else [str(people)]
        traces = resources.find("extractors", f"reasoning/{language}")
        checked += [] if traces is None else [str(traces)]
        wrong = _people_findings(resources, language)
        wrong = wrong or _extractor_findings(resources, language, persons.get(language, []))
        findings += wrong or _reasoning_findings(resources, language)
    findings += _variant_findings(prompts)
    folder = _starter_folder()
    checked += sorted(str(path) for path in folder.glob("*.toml"))
    findings += _starter_findings(folder, resources)
    return CheckReport(checked=tuple(checked), findings=tuple(findings), incomplete=incomplete)


def _prompt_findings(resources: PackPaths, language: str, prompts: dict[str, PromptPack]) -> list[Finding]:
    if resources.find("prompts", language) is None:
        return []
    try:
        prompts[language] = read_prompts(resources, language)
    except MbbqGenError as error:
        return _findings(error, f"prompts/{language}.toml")
    file, said = f"prompts/{language}.toml", prompts[language].follow_up
    found = [
        Finding(file=file, what=f"variant {variant.id!r}: {TO_DO} is still to be written")
        for variant in prompts[language].variant
        if TO_DO in variant.text or TO_DO in variant.shot_answer
    ]
    if said is not None and TO_DO in said.text + said.none:
        found.append(Finding(file=file, what=f"follow_up: {TO_DO} is still to be written"))
    return found


def _axes_findings(resources: PackPaths, language: str) -> list[Finding]:
    try:
        pack = read_axes(resources, language)
    except MbbqGenError as error:
        return _findings(error, f"prompts/axes/{language}.toml")
    return [
        Finding(file=f"prompts/axes/{language}.toml", what=f"plain: {said}")
        for sentences in (pack.sentences, pack.other)
        if sentences is not None and (said := paraphrase_fault(sentences.plain))
    ]


def _synthetic_findings(resources: PackPaths, language: str) -> list[Finding]:
    from mbbq_gen.providers.synthetic import read_synthetic_pack

    try:
        read_synthetic_pack(resources, language)
    except MbbqGenError as error:
        return _findings(error, f"prompts/synthetic/{language}.toml")
    return []


def _control_findings(resources: PackPaths, language: str) -> list[Finding]:
    if resources.find("control_sets", language) is None:
        return []
    try:
        read_control_set(resources, language)
    except MbbqGenError as error:
        return _findings(error, f"control_sets/{language}.toml")
    return []


def _extractor_findings(resources: PackPaths, language: str, persons: Iterable[str]) -> list[Finding]:
    from mbbq_gen.extraction.pack_tools import check_pack

    if resources.find("extractors", language) is None:
        return []
    return [
        Finding(file=found.file, what=f"{found.key}: {found.message} (value: {found.value!r})")
        for found in check_pack(resources, language, persons)
    ]


def _reasoning_findings(resources: PackPaths, language: str) -> list[Finding]:
    """What is wrong in how a language's reasoning traces are read: the file, or a failing example."""
    from mbbq_gen.extraction.question import Question
    from mbbq_gen.extraction.reasoning import load_reasoning_extractor, read_reasoning_pack

    name = f"extractors/reasoning/{language}.toml"
    try:
        pack = read_reasoning_pack(resources, language)
        if pack is None:
            return []
        reader = load_reasoning_extractor(language, resources)
    except MbbqGenError as error:
        return _findings(error, name)
    found: list[Finding] = []
    for example in pack.example:
        count = len(example.options)
        question = Question(example.options, "ABCDEFGHIJ"[:count], count - 1)
        try:
            extraction = reader.read(example.reasoning, question)
        except PackError:
            return found  # another pack's fault, which its own check tells
        if example.stance not in extraction.stances or example.conclusion not in (None, extraction.option):
            said = ", ".join(sorted(extraction.stances)) or "nothing"
            what = (
                f"example {example.reasoning!r}: read as {said}, option {extraction.option}; "
                "correct the example or the words"
            )
            found.append(Finding(file=name, what=what))
    return found


def _people_findings(resources: PackPaths, language: str) -> list[Finding]:
    from mbbq_gen.extraction.question import read_people

    file = f"extractors/people/{language}.toml"
    try:
        rows = read_people(resources, language)
    except MbbqGenError as error:
        return _findings(error, file)
    what = "needs one or more words of the language, each once"
    return [
        Finding(file=file, what=f"words.{' '.join(row.english)}: {what}")
        for row in rows
        if not row.words or len(set(row.words)) < len(row.words)
    ]


def _starter_persons() -> dict[str, list[str]]:
    """Language → the option texts of the starter benchmark that mean a person."""
    from mbbq_gen.benchmarks.registry import find_benchmark, load_benchmark

    persons: dict[str, list[str]] = {}
    for language in find_benchmark("starter").languages:
        try:
            instances = list(load_benchmark("starter", languages=[language], splits=["bias"]))
        except MbbqGenError:
            continue  # the starter's own check tells what is wrong
        texts = (option.text for found in instances for option in found.options if option.role != "unknown")
        persons[language] = list(dict.fromkeys(texts))
    return persons


def _variant_findings(prompts: dict[str, PromptPack]) -> Iterator[Finding]:
    """Every language must have the same variants of the same kinds, so that variants can be compared."""
    kinds = {language: {variant.id: variant.kind for variant in pack.variant} for language, pack in prompts.items()}
    wanted = kinds.get("en") or next(iter(kinds.values()), {})
    for language, found in kinds.items():
        file = f"prompts/{language}.toml"
        for variant in sorted(wanted.keys() - found.keys()):
            yield Finding(file=file, what=f"variant {variant!r} is missing; other languages have it")
        for variant in sorted(found.keys() - wanted.keys()):
            yield Finding(file=file, what=f"variant {variant!r} is in no other language; ids are shared")
        for variant in sorted(found.keys() & wanted.keys()):
            if found[variant] != wanted[variant]:
                yield Finding(
                    file=file, what=f"variant {variant!r}.kind: {found[variant]!r}, elsewhere {wanted[variant]!r}"
                )


def _starter_folder() -> Path:
    from mbbq_gen.benchmarks.templates.files import starter_folder

    return starter_folder()


def _starter_findings(folder: Path, resources: PackPaths) -> list[Finding]:
    from mbbq_gen.benchmarks.templates.files import check_templates

    return [Finding(file=str(file), what=problem) for file, problem in check_templates(folder, resources)]


def _findings(error: MbbqGenError, file: str) -> list[Finding]:
    """An error as findings, one for each fault of a file; the file goes before the colon where the message names it."""
    text, cause = str(error), error.__cause__
    before, _, after = text.partition(".toml: ")
    if not after:
        return [Finding(file=file, what=text)]
    path = f"{before}.toml"
    faults = describe_faults(cause, read_toml(Path(path))) if isinstance(cause, ValidationError) else [after]
    return [Finding(file=path, what=fault) for fault in faults]
