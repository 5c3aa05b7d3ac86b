from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mbbq_gen.core.records import Instance
from tests.prompts.test_render import make_instance
from tests.support.cases import cases

WORDS = st.text(min_size=1, max_size=20).filter(lambda text: bool(text.strip()))


@st.composite
def instances(draw: st.DrawFn) -> Instance:
    condition = draw(st.sampled_from(["ambiguous", "disambiguated"]))
    scorable = draw(st.booleans())
    roles: list[str | None] = ["target", "non_target", "unknown"] if scorable else [None, None, "unknown"]
    roles = draw(st.permutations(roles))
    answers = [place for place, role in enumerate(roles) if (role == "unknown") == (condition == "ambiguous")]
    return Instance.model_validate(
        {
            "benchmark": draw(WORDS),
            "version": draw(st.text(max_size=5)),
            "split": draw(st.sampled_from(["bias", "control"])),
            "language": draw(st.sampled_from(["en", "tr", "zh"])),
            "instance_id": draw(WORDS),
            "template_id": draw(WORDS),
            "category": draw(WORDS),
            "condition": condition,
            "polarity": draw(st.sampled_from(["negative", "non_negative"])),
            "context": draw(WORDS),
            "question": draw(WORDS),
            "options": [{"role": role, "text": draw(WORDS), "group": draw(st.none() | WORDS)} for role in roles],
            "gold_index": draw(st.sampled_from(answers)),
            "has_single_target": scorable,
            "no_target_reason": None if scorable else "two targets",
            "data_issues": draw(st.lists(WORDS, max_size=2)),
            "metadata": draw(st.dictionaries(WORDS, st.integers() | WORDS | st.none(), max_size=3)),
        }
    )


@given(instances())
def test_alignment_follows_from_roles_polarity_and_answer(instance: Instance) -> None:
    if instance.condition == "ambiguous" or not instance.has_single_target:
        assert instance.alignment is None
    else:
        fits = (instance.gold_role == "target") == (instance.polarity == "negative")
        assert instance.alignment == ("biased" if fits else "counter_biased")
        assert (instance.gold_role == instance.biased_role) == fits


FAULTS = cases("scoring/instance_faults")


@pytest.mark.parametrize(("changes", "says"), FAULTS, ids=[says[:40] for _, says in FAULTS])
def test_contradictions_are_refused(changes: dict[str, Any], says: str) -> None:
    good = make_instance().model_dump()
    assert Instance.model_validate(good) == make_instance()
    with pytest.raises(ValidationError, match=says):
        Instance.model_validate({**good, **changes})
