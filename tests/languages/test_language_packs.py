from __future__ import annotations

import tomllib
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from mbbq_gen.benchmarks.control.names import write_name
from mbbq_gen.checks import check_everything
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.option_display import LABEL_STYLES
from mbbq_gen.extraction.question import read_people
from mbbq_gen.languages.control_pack import ControlSet, NameGrammar, read_control_set
from mbbq_gen.languages.packs import fill, placeholders
from mbbq_gen.languages.prompt_pack import PromptPack, read_prompts
from mbbq_gen.prompts.render import PromptSettings, render_prompt
from tests.support.cases import cases, known
from tests.support.questions import options, question

DATA = Path(__file__).parents[1] / "data" / "languages"
NAME_FORMS: dict[str, dict[str, dict[str, str]]] = tomllib.loads((DATA / "name_forms.toml").read_text(encoding="utf-8"))
WRITING: dict[str, dict[str, Any]] = tomllib.loads((DATA / "writing.toml").read_text(encoding="utf-8"))

RESOURCES = PackPaths()
LANGUAGES = RESOURCES.names("prompts")
PROMPTS = {language: read_prompts(RESOURCES, language) for language in LANGUAGES}
CONTROL_SETS = {language: read_control_set(RESOURCES, language) for language in RESOURCES.names("control_sets")}


def wordings(pack: PromptPack) -> list[str]:
    texts = [text for variant in pack.variant for text in (variant.text, variant.shot_answer)]
    texts += [*pack.answers.person, *pack.answers.unknown, *pack.answers.refusal]
    return [fill(text, dict.fromkeys(placeholders(text), "")) for text in texts]


def all_names(control_set: ControlSet) -> tuple[str, ...]:
    return control_set.names.female + control_set.names.male


def test_the_same_languages_have_prompts_names_and_writing() -> None:
    assert set(PROMPTS) == set(CONTROL_SETS) == set(WRITING)
    assert set(NAME_FORMS) == set(WRITING)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_same_variants_of_the_same_kinds_in_the_same_order(language: str) -> None:
    kinds = [(variant.id, variant.kind) for variant in PROMPTS[language].variant]
    assert kinds == [(variant.id, variant.kind) for variant in PROMPTS["en"].variant]


ASKED = question(context="<context>", question="<question>", options=options("<first>", "<second>", "<third>"))


@pytest.mark.parametrize("style", LABEL_STYLES)
@pytest.mark.parametrize("language", LANGUAGES)
def test_every_variant_renders_with_every_label_style(language: str, style: str) -> None:
    for variant in PROMPTS[language].variant:
        presentation = render_prompt(ASKED, PromptSettings(variant, style), (2, 0, 1))
        content = presentation.messages[-1].content
        assert "{" not in content
        assert "}" not in content
        parts = ["<context>", "<question>", "<third>", "<first>", "<second>"]
        assert [content.count(part) for part in parts] == [1] * 5
        assert sorted(parts, key=content.index) == parts
        lines = content.splitlines()
        shown = [line for line in lines if line.endswith(("<third>", "<first>", "<second>"))]
        assert [line.split("<")[0].rstrip(" :：\u00a0") for line in shown] == list(LABEL_STYLES[style])
        assert all(line == line.strip() for line in lines)


def script_of(letter: str) -> str:
    return unicodedata.name(letter).split()[0]


def is_letter(character: str) -> bool:
    return unicodedata.category(character)[0] in "LM"


@pytest.mark.parametrize("language", LANGUAGES)
def test_letters_and_marks_are_those_of_the_language(language: str) -> None:
    characters = {character for text in wordings(PROMPTS[language]) for character in text}
    letters = {character for character in characters if is_letter(character)}
    assert {script_of(letter) for letter in letters} <= set(WRITING[language]["scripts"])
    assert characters - letters - {" ", "\n"} == set(WRITING[language]["marks"])


@pytest.mark.parametrize("kind", ["prompts", "control_sets"])
@pytest.mark.parametrize("language", LANGUAGES)
def test_files_are_in_normal_form_c(language: str, kind: Any) -> None:
    path = known(RESOURCES.find(kind, language))
    text = path.read_text(encoding="utf-8")
    assert unicodedata.is_normalized("NFC", text)
    assert "\ufeff" not in text
    assert "\t" not in text
    assert text.endswith("\n")


@pytest.mark.parametrize("language", LANGUAGES)
def test_thirty_clean_names_of_each_gender(language: str) -> None:
    control_set = CONTROL_SETS[language]
    assert (len(control_set.names.female), len(control_set.names.male)) == (30, 30)
    assert len(set(all_names(control_set))) == 60
    for name in all_names(control_set):
        assert name == name.strip() == unicodedata.normalize("NFC", name)
        letters = [character for character in name if character != " "]
        assert all(map(is_letter, letters))
        assert {script_of(letter) for letter in letters} <= set(WRITING[language]["scripts"])
        assert not name[0].islower()


@pytest.mark.parametrize(
    ("language", "form", "name", "written"),
    [
        (language, form, name, written)
        for language, forms in NAME_FORMS.items()
        for form, names in forms.items()
        for name, written in names.items()
    ],
)
def test_written_forms(language: str, form: str, name: str, written: str) -> None:
    assert write_name(CONTROL_SETS[language], name, form) == written


@pytest.mark.parametrize("language", CONTROL_SETS)
def test_every_form_of_every_name_is_well_written(language: str) -> None:
    control_set = CONTROL_SETS[language]
    assert {"def", "indef"} <= control_set.grammar.forms.keys()
    for name in all_names(control_set):
        for form in control_set.grammar.forms:
            written = write_name(control_set, name, form)
            assert written == written.strip() == unicodedata.normalize("NFC", written)
            assert name[:-2] in written or name in control_set.grammar.exceptions.get(form, {})


@pytest.mark.parametrize(("grammar", "fault"), cases("languages/language_packs", "faulty_grammars_are_refused"))
def test_faulty_grammars_are_refused(grammar: dict[str, Any], fault: str) -> None:
    with pytest.raises(ValidationError, match=fault.replace(".", r"\.")):
        NameGrammar.model_validate(grammar)


def test_check_reads_the_vocabulary_of_people(tmp_path: Path) -> None:
    folder = tmp_path / "extractors" / "people"
    folder.mkdir(parents=True)
    head = 'version = 1\nsource = "us"\nlicence = "Apache-2.0"\n\n[words]\n'
    (folder / "nl.toml").write_text(f"{head}baker = []\n", encoding="utf-8")
    report = check_everything(PackPaths(packs=tmp_path), ["nl"])
    assert ["words.baker" in finding.what for finding in report.findings] == [True], report.findings
    read_people.cache_clear()
