from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbbq_gen.benchmarks.control.names import assign_genders, assign_names, names_clash, write_name
from mbbq_gen.core.errors import PackError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.languages.control_pack import ControlSet, Names, read_control_set

RESOURCES = PackPaths()
LANGUAGES = ("en", "nl", "es", "tr")
CONTROL_SETS = {language: read_control_set(RESOURCES, language) for language in LANGUAGES}

stories = st.dictionaries(
    st.from_regex(r"[a-z]{1,5}\.[a-z]", fullmatch=True), st.sampled_from(["age", "ses", "gender_identity"]), max_size=40
)


def test_a_form_that_the_grammar_lacks() -> None:
    with pytest.raises(PackError, match=r"^control_sets/nl\.toml: grammar\.forms\.dat: missing"):
        write_name(CONTROL_SETS["nl"], "Emma", "dat")


@given(stories, st.sampled_from(LANGUAGES))
def test_pairs(drawn: dict[str, str], language: str) -> None:
    control_set = CONTROL_SETS[language]
    pairs = assign_names(control_set, drawn)
    assert {story_id: pair.gender for story_id, pair in pairs.items()} == assign_genders(drawn)
    for pair in pairs.values():
        pool = control_set.names.female if pair.gender == "f" else control_set.names.male
        assert {pair.target, pair.non_target} <= set(pool)
        assert not names_clash(pair.target, pair.non_target, control_set.grammar)
    for gender, pool in (("f", control_set.names.female), ("m", control_set.names.male)):
        uses = Counter(
            name for pair in pairs.values() if pair.gender == gender for name in (pair.target, pair.non_target)
        )
        assert max(uses[name] for name in pool) - min(uses[name] for name in pool) <= 2


def test_names_that_all_clash_are_refused() -> None:
    names = Names(female=tuple("A" * length for length in range(1, 12)), male=CONTROL_SETS["en"].names.male)
    control_set: ControlSet = CONTROL_SETS["en"].model_copy(update={"names": names})
    with pytest.raises(PackError, match=r"^control_sets/en\.toml: names: no two of gender 'f'"):
        assign_names(control_set, {"a.b": "age", "a.c": "age"})


@given(stories)
def test_genders_are_balanced(drawn: dict[str, str]) -> None:
    genders = assign_genders(drawn)
    assert genders.keys() == drawn.keys()
    counts = Counter(genders.values())
    assert abs(counts["f"] - counts["m"]) == len(drawn) % 2
    for category in set(drawn.values()):
        here = Counter(genders[story] for story in drawn if drawn[story] == category)
        assert abs(here["f"] - here["m"]) <= 1
