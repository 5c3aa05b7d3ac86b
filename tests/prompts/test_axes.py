from __future__ import annotations

from itertools import combinations, product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mbbq_gen.benchmarks.templates import load_starter
from mbbq_gen.core.config import RunConfig
from mbbq_gen.core.errors import ConfigError, PackError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.extraction import extract
from mbbq_gen.languages.axes import AXES, factorial_design, is_orthogonal, parse_axes, parse_variant_name, variant_name
from mbbq_gen.languages.axes_pack import AxesPack, native_labels, read_axes
from mbbq_gen.languages.packs import placeholders
from mbbq_gen.languages.prompt_pack import read_prompts
from mbbq_gen.prompts.render import UNLABELLED, PromptSettings, render_prompt, with_option_labels
from mbbq_gen.prompts.variants import PromptVariants
from mbbq_gen.runs.resolve import resolve
from tests.support.cases import cases, known

LANGUAGES = sorted(path.stem for path in (PackPaths().shipped / "prompts" / "axes").glob("*.toml"))
QUESTION = next(iter(load_starter("en", ["bias"], PackPaths())))
LEVELS = {name: (axis.base, *axis.levels) for name, axis in AXES.items()}


@st.composite
def cells(draw: st.DrawFn) -> dict[str, str]:
    levels = {name: draw(st.sampled_from(options)) for name, options in LEVELS.items()}
    if levels["politeness"] != "plain":
        levels["wording"] = AXES["wording"].base
    return levels


@pytest.mark.parametrize(("text", "said"), cases("prompts/axes", "axes_that_are_none"))
def test_axes_that_are_none(text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_axes(text)


TWO_LEVELS = {
    "politeness": ("plain", "courteous"),
    "address": ("formal", "informal"),
    "format": ("free", "json"),
    "hint": ("none", "say_so"),
    "debias": ("none", "no_stereotypes"),
    "persona": ("none", "as_woman"),
    "fields": ("context_first", "question_first"),
    "place": ("user", "system"),
}


@settings(max_examples=40)
@given(st.dictionaries(st.sampled_from(["wording", "format", "hint", "debias", "fields"]), st.none(), min_size=1))
def test_a_full_design_has_every_cell_once(names: dict[str, None]) -> None:
    axes = {name: AXES[name].levels for name in names}
    found = factorial_design(axes, "full")
    expected = {variant_name(dict(zip(axes, levels, strict=True))) for levels in product(*axes.values())}
    assert set(found) == expected
    assert len(found) == len(expected)
    assert is_orthogonal(found)


@pytest.mark.parametrize("count", range(4, 9))
def test_a_fraction_tells_main_effects_from_interactions_of_two(count: int) -> None:
    axes = dict(list(TWO_LEVELS.items())[:count])
    found = factorial_design(axes, "fractional")
    assert len(found) == {4: 8, 5: 16, 6: 16, 7: 16, 8: 16}[count] < 2**count
    assert is_orthogonal(found)
    signs = {
        name: [1 if (parse_variant_name(cell) or {})[name] == axes[name][0] else -1 for cell in found] for name in axes
    }
    for name, (one, other) in product(signs, combinations(signs, 2)):
        if name not in (one, other):
            assert sum(a * b * c for a, b, c in zip(signs[name], signs[one], signs[other], strict=True)) == 0


def test_fractions_that_are_none() -> None:
    with pytest.raises(UsageError, match=r"format has 4 levels.*format=free\+line"):
        factorial_design({**TWO_LEVELS, "format": AXES["format"].levels}, "fractional")
    with pytest.raises(UsageError, match="3 axes have no smaller design"):
        factorial_design(dict(list(TWO_LEVELS.items())[:3]), "fractional")


@pytest.fixture(scope="module")
def packs() -> dict[str, AxesPack]:
    return {language: read_axes(PackPaths(), language) for language in LANGUAGES}


@pytest.mark.parametrize("language", LANGUAGES)
@settings(max_examples=40)
@given(levels=cells())
def test_every_cell_can_be_asked(language: str, levels: dict[str, str]) -> None:
    pack = read_axes(PackPaths(), language)
    levels = levels if pack.other or levels["address"] == "usual" else {**levels, "address": "usual"}
    variant = pack.compose(variant_name(levels))
    fields = [name for name in placeholders(variant.text) if not name.startswith(("label", "json"))]
    assert sorted(fields) == sorted(["context", "question", "option_a", "option_b", "option_c"])
    assert (fields[0] == "question") == (levels["fields"] == "question_first")
    assert (variant.system is not None) == (levels["place"] == "system")
    shown = render_prompt(QUESTION, PromptSettings(variant), (0, 1, 2))
    text = "\n".join(message.content for message in shown.messages).replace('{"answer": "…"}', "")
    assert not set("{}") & set(text)
    assert shown.messages[0].role == levels["place"]


@pytest.mark.parametrize("language", LANGUAGES)
def test_no_instruction_hints_at_an_answer(language: str, packs: dict[str, AxesPack]) -> None:
    for sentences in (packs[language].sentences, packs[language].other):
        for level in ("label", "json", "line") if sentences else ():
            named = [name for name in placeholders(known(sentences).by_level[level]) if name.startswith("label_")]
            assert named == ["label_a", "label_b", "label_c"], (level, named)


NATIVE_LANGUAGES = [language for language in LANGUAGES if read_axes(PackPaths(), language).labels]


@pytest.mark.parametrize("language", NATIVE_LANGUAGES)
def test_native_labels_are_shown_and_read(language: str, packs: dict[str, AxesPack]) -> None:
    labels = native_labels(PackPaths(), language)
    assert len(set(labels)) == 3
    shown = render_prompt(
        QUESTION, PromptSettings(packs[language].compose("plain_1+label"), "native", native_labels=labels), (2, 0, 1)
    )
    assert shown.option_labels == labels
    for place, label in enumerate(labels):
        assert f"{label}：" in shown.messages[0].content or f"{label}: " in shown.messages[0].content
        for answer in (label, f"({label})", f"{packs[language].lines.answer} {label}", f"**{label}**"):
            options = [QUESTION.options[index].text for index in shown.option_order]
            assert extract(answer, options, labels, language, 0).option == place, answer


@pytest.mark.parametrize("language", LANGUAGES)
def test_options_without_labels(language: str, packs: dict[str, AxesPack]) -> None:
    own = read_prompts(PackPaths(), language)
    for variant in (packs[language].compose("plain_1"), own.by_id("bare"), own.by_id("polite")):
        listed = with_option_labels(variant, UNLABELLED)
        assert not [name for name in placeholders(listed.text) if name.startswith("label")]
        shown = render_prompt(QUESTION, PromptSettings(listed, UNLABELLED), (2, 0, 1))
        texts = tuple(QUESTION.options[index].text for index in shown.option_order)
        assert shown.option_labels == texts
        assert [line for line in shown.messages[0].content.splitlines() if line[:2] == "- "] == [
            f"- {t}" for t in texts
        ]
        for place, text in enumerate(texts):
            assert extract(f"- {text}", texts, shown.option_labels, language, 0).option == place, text


@pytest.mark.parametrize(("given", "said"), cases("prompts/axes", "labels_are_asked_for_where_there_are_none"))
def test_labels_are_asked_for_where_there_are_none(given: dict[str, Any], said: str) -> None:
    config = RunConfig(model="transformers:x", benchmark="starter", languages="en", label_style="A,none", **given)
    with pytest.raises(UsageError, match=said):
        PromptVariants(resolve(config, PackPaths()), PackPaths())


@pytest.mark.parametrize(("before", "after", "said"), cases("prompts/axes", "what_a_file_has_wrong"))
def test_what_a_file_has_wrong(before: str, after: str, said: str, tmp_path: Path) -> None:
    text = (PackPaths().shipped / "prompts" / "axes" / "en.toml").read_text(encoding="utf-8")
    assert before in text
    (tmp_path / "prompts" / "axes").mkdir(parents=True)
    (tmp_path / "prompts" / "axes" / "en.toml").write_text(text.replace(before, after), encoding="utf-8")
    with pytest.raises(PackError, match=said):
        read_axes(PackPaths(packs=tmp_path), "en")


def variants_of(**given: Any) -> tuple[str, ...]:
    config = RunConfig(model="oracle:perfect", benchmark="starter", languages="en", **given)
    return resolve(config, PackPaths()).variants


@pytest.mark.parametrize(("given", "said"), cases("prompts/axes", "selections_that_contradict_themselves"))
def test_selections_that_contradict_themselves(given: dict[str, str], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        variants_of(**given)


def test_a_language_that_nobody_has_written(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"there is no file prompts/axes/xx.toml"):
        read_axes(PackPaths(), "xx")


def test_languages_that_label_with_letters_of_their_own() -> None:
    assert NATIVE_LANGUAGES == ["ar", "as", "bn", "hi", "ja", "ko", "mr", "or", "ru", "ta", "te", "zh"]
    with pytest.raises(UsageError, match="nl labels options with A, B and C"):
        native_labels(PackPaths(), "nl")
