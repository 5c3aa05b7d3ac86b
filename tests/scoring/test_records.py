"""The records: frozen, strict, equal after a round trip through JSON Lines."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from mbbq_gen.core.records import Instance, Response, Usage
from tests.prompts.test_render import make_instance
from tests.support.cases import cases

WORDS = st.text(min_size=1, max_size=20).filter(lambda text: bool(text.strip()))


@st.composite
def instances(draw: st.DrawFn) -> Instance:
    """Any valid question, also without a single target."""
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
def test_instances_come_back_from_json_lines(instance: Instance) -> None:
    line = instance.model_dump_json()
    assert "\n" not in line
    assert Instance.model_validate_json(line) == instance


@given(instances())
def test_alignment_follows_from_roles_polarity_and_answer(instance: Instance) -> None:
    """Biased: the right answer is the target of a negative question or the non-target of a non-negative one."""
    if instance.condition == "ambiguous" or not instance.has_single_target:
        assert instance.alignment is None
    else:
        fits = (instance.gold_role == "target") == (instance.polarity == "negative")
        assert instance.alignment == ("biased" if fits else "counter_biased")
        assert (instance.gold_role == instance.biased_role) == fits


@given(st.text(), st.sampled_from(["stop", "length", "other", None]), st.none() | st.integers(0, 9))
def test_responses_come_back_from_json_lines(text: str, reason: Any, tokens: int | None) -> None:
    response = Response(request_key="k", text=text, finish_reason=reason, usage=Usage(output_tokens=tokens))
    line = response.model_dump_json()
    assert Response.model_validate_json(line) == response


FAULTS = cases("scoring/instance_faults")


@pytest.mark.parametrize(("changes", "says"), FAULTS, ids=[says[:40] for _, says in FAULTS])
def test_contradictions_are_refused(changes: dict[str, Any], says: str) -> None:
    good = make_instance().model_dump()
    assert Instance.model_validate(good) == make_instance()
    with pytest.raises(ValidationError, match=says):
        Instance.model_validate({**good, **changes})


def test_a_response_has_a_text_or_an_error() -> None:
    for fields in ({}, {"text": "a", "error": "b"}):
        with pytest.raises(ValidationError, match="either a text, or scores of answers, or an error"):
            Response.model_validate({"request_key": "k", **fields})
    blocked = Response(request_key="k", finish_reason="content_filter")
    assert blocked.text is None
