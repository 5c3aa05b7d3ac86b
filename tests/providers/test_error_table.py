"""The table of failures: what each means, when to come back, and why a text ends."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbbq_gen.providers.http.errors import (
    TransientError,
    classify_error,
    error_table,
    failure_kind,
    finish_reason,
    rule_for,
    service_error,
)
from tests.support.cases import cases


@pytest.mark.parametrize("case", cases("providers/errors"), ids=lambda case: case["name"])
def test_classes(case: dict[str, Any]) -> None:
    error = service_error(case["status"], case["body"], case.get("headers"))
    assert classify_error(error) == case["class"]
    assert error.pause == case.get("pause")
    assert error.target == case.get("target")
    assert rule_for(error).is_loading == case.get("is_loading", False)
    assert "\n" not in error.message


def test_every_rule_has_a_case() -> None:
    found = {
        rule_for(service_error(case["status"], case["body"], case.get("headers"))) for case in cases("providers/errors")
    }
    assert [rule for rule in error_table().rules if rule not in found] == []


@given(status=st.integers(400, 599), body=st.recursive(st.none() | st.text() | st.integers(), st.lists) | st.text())
def test_any_error_body_can_be_read(status: int, body: Any) -> None:
    error = service_error(status, body)
    assert len(error.message) <= 400
    assert classify_error(error)


@pytest.mark.parametrize(("reasons", "kind"), cases("providers/error_table", "finish_reasons"))
def test_finish_reasons(reasons: list[str | None], kind: str | None) -> None:
    if kind == "transient":
        with pytest.raises(TransientError) as caught:
            finish_reason(*reasons)
        assert caught.value.may_be_paid
    else:
        assert finish_reason(*reasons) == kind


@pytest.mark.parametrize("case", cases("providers/recorded_failures"), ids=lambda case: case["line"])
def test_recorded_failures(case: dict[str, str]) -> None:
    assert failure_kind(case["line"]) == case["kind"]
