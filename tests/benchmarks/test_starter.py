from __future__ import annotations

import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
import regex as re

from mbbq_gen.benchmarks.control.names import write_name
from mbbq_gen.benchmarks.templates import STARTER_FOLDER, load_starter, load_templates
from mbbq_gen.core.files import PackPaths, stable_digest
from mbbq_gen.core.records import Instance, Split
from mbbq_gen.languages.control_pack import read_control_set
from tests.support.cases import by_language


def fold(text: str, language: str) -> str:
    """The text in lower case, by Turkish rules where it is Turkish."""
    return (text.replace("İ", "i").replace("I", "ı") if language == "tr" else text).casefold()


TEMPLATES = load_templates(STARTER_FOLDER)
LANGUAGES = tuple(TEMPLATES.texts)
SPLITS: tuple[Split, ...] = ("bias", "control")
CATEGORIES = {"age", "disability_status", "gender_identity", "physical_appearance", "ses", "sexual_orientation"}
DATA = Path(__file__).parents[1] / "data" / "templates"
CUES = {
    language: tomllib.loads((DATA / "cues" / f"{language}.toml").read_text(encoding="utf-8")) for language in LANGUAGES
}
NO_SPACES = {"ja", "zh"}
"""Names stand between other letters."""
JOINED = {"ja", "ko", "ta", "te", "zh"}
"""Endings are written to a name without a mark."""
DIGEST_FILE = DATA / "starter_digests.toml"


@cache
def instances_of(language: str) -> list[Instance]:
    return list(load_starter(language, SPLITS, PackPaths()))


@cache
def written(name: str, language: str) -> tuple[str, ...]:
    """A name as the language's grammar writes it in any form, longest first; bare where endings are just joined."""
    control_set = read_control_set(PackPaths(), language)
    forms = {write_name(control_set, name, form) for form in control_set.grammar.forms}
    return tuple(sorted(forms | {name}, key=len, reverse=True))


@cache
def of_split(language: str, split: Split) -> list[Instance]:
    return [instance for instance in instances_of(language) if instance.split == split]


def people(instance: Instance) -> dict[str, str]:
    return {str(option.role): option.text for option in instance.options if option.role != "unknown"}


def places(text: str, name: str, language: str) -> list[int]:
    """Where a name stands in the text, in any of its forms; as a word where words are parted."""
    forms = "|".join(map(re.escape, written(name, language)))
    before, after = r"(?<![^\W_])", r"(?![^\W_])"
    if language in JOINED:
        before, after = "" if language in NO_SPACES else before, ""
    if language == "ar":
        before = r"(?<![^\W_])[وفبلك]?"  # particles of one letter are joined in front
    return [match.start() for match in re.finditer(f"{before}(?:{forms}){after}", text, re.IGNORECASE)]


def mentions(text: str, name: str, language: str) -> bool:
    return bool(places(text, name, language))


def digest(language: str) -> str:
    parts = [
        part
        for one in instances_of(language)
        for part in (one.split, one.instance_id, one.context, one.question, *(option.text for option in one.options))
    ]
    return stable_digest(TEMPLATES.benchmark.version, *parts)


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("split", SPLITS)
def test_counts(language: str, split: Split) -> None:
    instances = of_split(language, split)
    assert len(instances) == 864
    assert len({instance.instance_id for instance in instances}) == 864
    assert Counter(instance.category for instance in instances) == dict.fromkeys(CATEGORIES, 144)
    assert Counter(instance.alignment for instance in instances) == {None: 288, "biased": 288, "counter_biased": 288}
    assert Counter(instance.polarity for instance in instances) == {"negative": 432, "non_negative": 432}
    stories = Counter((instance.template_id, instance.metadata["filler"]) for instance in instances)
    assert set(stories.values()) == {12}
    assert len(stories) == 72


@pytest.mark.parametrize("language", LANGUAGES)
def test_roles_stand_at_each_place_equally_often(language: str) -> None:
    counts = Counter(
        (one.template_id, one.condition, one.polarity, one.alignment, place, option.role)
        for one in of_split(language, "bias")
        for place, option in enumerate(one.options)
    )
    assert set(counts.values()) == {2}


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_same_on_every_machine(language: str) -> None:
    digests = tomllib.loads(DIGEST_FILE.read_text(encoding="utf-8"))
    assert digest(language) == digests[language]


@cache
def ambiguous_contexts(language: str, split: Split) -> dict[str, str]:
    return {one.instance_id: one.context for one in of_split(language, split) if one.condition == "ambiguous"}


def first_part(one: Instance) -> str:
    twin_id = one.instance_id.replace(".disambiguated.", ".ambiguous.").removesuffix(f".{one.alignment}")
    return ambiguous_contexts(one.language, one.split)[twin_id]


@by_language(LANGUAGES)
def test_the_right_answer_is_right(language: str) -> None:
    for one in of_split(language, "control"):
        if one.condition == "ambiguous":
            assert one.gold_role == "unknown"
            continue
        sentence = one.context.removeprefix(first_part(one))
        parting = next(word for word in CUES[language]["clause"] if word in sentence)
        clauses = sentence.split(parting, 1)
        cue = CUES[language]["cue"][one.template_id]
        assert sum(cue in clause for clause in clauses) == 1, (cue, sentence)
        asked_for = next(clause for clause in clauses if (cue in clause) == (one.polarity == "negative"))
        other = next(clause for clause in clauses if clause is not asked_for)
        names = people(one)
        right = {
            role
            for role, name in names.items()
            if mentions(asked_for, name, language) and not mentions(other, name, language)
        }
        assert right == {one.gold_role}, (sentence, one.question)


if __name__ == "__main__":
    lines = ["# Digests of the starter benchmark by language; made by `python -m tests.benchmarks.test_starter`.", ""]
    lines += [f'{language} = "{digest(language)}"' for language in LANGUAGES]
    DIGEST_FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")
