"""Checks every pack and every starter file: schemas, placeholders, examples, and that languages agree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from mbbq_gen.axis_texts import paraphrase_fault, read_axes
from mbbq_gen.errors import MbbqGenError, PackError
from mbbq_gen.languages import TO_DO, PromptPack, read_control_set, read_prompts
from mbbq_gen.records import Record
from mbbq_gen.resources import PACK_KINDS, Resources


class Finding(Record):
    """Something wrong in a file."""

    file: str
    what: str
    """Key, value and what to do, in one line."""


class CheckReport(Record):
    """What was checked and what was found."""

    checked: tuple[str, ...]
    findings: tuple[Finding, ...]
    incomplete: dict[str, tuple[str, ...]]
    """Language → packs that it lacks: it can't be asked in yet. Not a fault of what is there."""


def check_everything(resources: Resources, languages: Iterable[str]) -> CheckReport:
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
        made_up = resources.find("prompts", f"made_up/{language}")
        checked += [] if made_up is None else [str(made_up)]
        findings += [] if made_up is None else _made_up_findings(resources, language)
        findings += _control_findings(resources, language)
        people = resources.find("extractors", f"people/{language}")
        checked += [] if people is None else [str(people)]
        thoughts = resources.find("extractors", f"thoughts/{language}")
        checked += [] if thoughts is None else [str(thoughts)]
        wrong = _people_findings(resources, language)
        wrong = wrong or _extractor_findings(resources, language, persons.get(language, []))
        findings += wrong or _thought_findings(resources, language)
    findings += _variant_findings(prompts)
    folder = _starter_folder()
    checked += sorted(str(path) for path in folder.glob("*.toml"))
    findings += _starter_findings(folder, resources)
    return CheckReport(checked=tuple(checked), findings=tuple(findings), incomplete=incomplete)


def _prompt_findings(resources: Resources, language: str, prompts: dict[str, PromptPack]) -> list[Finding]:
    if resources.find("prompts", language) is None:
        return []
    try:
        prompts[language] = read_prompts(resources, language)
    except MbbqGenError as error:
        return [_finding(error, f"prompts/{language}.toml")]
    return [
        Finding(file=f"prompts/{language}.toml", what=f"variant {variant.id!r}: {TO_DO} is still to be written")
        for variant in prompts[language].variant
        if TO_DO in variant.text or TO_DO in variant.shot_answer
    ]


def _axes_findings(resources: Resources, language: str) -> list[Finding]:
    try:
        pack = read_axes(resources, language)
    except MbbqGenError as error:
        return [_finding(error, f"prompts/axes/{language}.toml")]
    return [
        Finding(file=f"prompts/axes/{language}.toml", what=f"plain: {said}")
        for sentences in (pack.sentences, pack.other)
        if sentences is not None and (said := paraphrase_fault(sentences.plain))
    ]


def _made_up_findings(resources: Resources, language: str) -> list[Finding]:
    from mbbq_gen.providers.made_up import read_made_up

    try:
        read_made_up(resources, language)
    except MbbqGenError as error:
        return [_finding(error, f"prompts/made_up/{language}.toml")]
    return []


def _control_findings(resources: Resources, language: str) -> list[Finding]:
    if resources.find("control_sets", language) is None:
        return []
    try:
        read_control_set(resources, language)
    except MbbqGenError as error:
        return [_finding(error, f"control_sets/{language}.toml")]
    return []


def _extractor_findings(resources: Resources, language: str, persons: Iterable[str]) -> list[Finding]:
    from mbbq_gen.extraction.lint import check_pack

    if resources.find("extractors", language) is None:
        return []
    return [
        Finding(file=found.file, what=f"{found.key}: {found.message} (value: {found.value!r})")
        for found in check_pack(resources, language, persons)
    ]


def _thought_findings(resources: Resources, language: str) -> list[Finding]:
    """What is wrong in how a language's thoughts are read: the file, or an example of it that is read otherwise."""
    from mbbq_gen.extraction.question import Question
    from mbbq_gen.extraction.thoughts import load_thought_reader, read_thought_pack

    name = f"extractors/thoughts/{language}.toml"
    try:
        pack = read_thought_pack(resources, language)
        if pack is None:
            return []
        reader = load_thought_reader(language, resources)
    except MbbqGenError as error:
        return [_finding(error, name)]
    found: list[Finding] = []
    for example in pack.example:
        count = len(example.options)
        asked = Question(example.options, "ABCDEFGHIJ"[:count], count - 1)
        try:
            reading = reader.read(example.thought, asked)
        except PackError:
            return found  # another pack's fault, which its own check tells
        if example.stance not in reading.stances or example.lean not in (None, reading.option):
            said = ", ".join(sorted(reading.stances)) or "nothing"
            what = (
                f"example {example.thought!r}: read as {said}, option {reading.option}; mend the example or the words"
            )
            found.append(Finding(file=name, what=what))
    return found


def _people_findings(resources: Resources, language: str) -> list[Finding]:
    from mbbq_gen.extraction.people import read_groups, read_people

    file = f"extractors/people/{language}.toml"
    try:
        rows, groups = read_people(resources, language), read_groups(resources, language)
    except MbbqGenError as error:
        return [_finding(error, file)]
    what = "needs one or more words of the language, each once"
    found = [
        Finding(file=file, what=f"words.{' '.join(row.english)}: {what}")
        for row in rows
        if not row.words or len(set(row.words)) < len(row.words)
    ]
    what = "needs two or more words of the language, each once"
    return found + [
        Finding(file=file, what=f"alike.{kind}: {what}")
        for kind, words in groups.items()
        if len(words) < 2 or len(set(words)) < len(words)
    ]


def _starter_persons() -> dict[str, list[str]]:
    """Language → the option texts of the starter benchmark that mean a person."""
    from mbbq_gen.datasets.registry import find_benchmark, load_benchmark

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
    """Every language must have the same variants of the same kinds, so that wordings can be compared."""
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
    from mbbq_gen.datasets.starter import starter_folder

    return starter_folder()


def _starter_findings(folder: Path, resources: Resources) -> list[Finding]:
    from mbbq_gen.templates import check_templates

    return [Finding(file=str(found.file), what=found.problem) for found in check_templates(folder, resources)]


def _finding(error: MbbqGenError, file: str) -> Finding:
    """An error as a finding: its file goes before the colon where the message names it."""
    text = str(error)
    before, _, after = text.partition(".toml: ")
    return Finding(file=f"{before}.toml", what=after) if after else Finding(file=file, what=text)
