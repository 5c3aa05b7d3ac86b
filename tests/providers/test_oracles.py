from __future__ import annotations

import itertools
from collections import Counter

import pytest

from mbbq_gen.core.records import Condition, Polarity, Request, Role
from mbbq_gen.providers.responders import OracleOptions, OracleProvider
from tests.support.cases import cases
from tests.support.providers import make_instance, make_request, make_unscorable_instance

LABELS = [("A", "B", "C"), ("(A)", "(B)", "(C)"), ("1", "2", "3")]
ORDERS = list(itertools.permutations(range(3)))


def role_named(request: Request, answer: str) -> Role | None:
    place = request.prompt.option_labels.index(answer)
    return request.instance.options[request.prompt.option_order[place]].role


def say(name: str, request: Request) -> str:
    return OracleProvider(name).answer(request)


@pytest.mark.parametrize("labels", LABELS)
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("condition", "polarity", "answer", "expected"),
    cases("providers/oracles", "terse_oracles_name_the_role_they_stand_for"),
)
def test_terse_oracles_name_the_role_they_stand_for(
    *,
    labels: tuple[str, ...],
    order: tuple[int, ...],
    condition: Condition,
    polarity: Polarity,
    answer: Role,
    expected: list[Role],
) -> None:
    request = make_request(make_instance("1", condition, polarity, answer), order, labels)
    found = [role_named(request, say(name, request)) for name in ("perfect", "stereotyped", "anti_stereotyped")]
    assert found == expected
    assert role_named(request, say("always_unknown", request)) == "unknown"
    assert say("first_option", request) == labels[0]
    assert say("random", request) in labels


@pytest.mark.parametrize("order", ORDERS)
def test_without_a_single_target_the_biased_ones_choose_unknown_and_the_right_answer_is_known(
    order: tuple[int, ...],
) -> None:
    request = make_request(make_unscorable_instance(), order)
    assert role_named(request, say("stereotyped", request)) == "unknown"
    assert role_named(request, say("anti_stereotyped", request)) == "unknown"
    place = request.prompt.option_labels.index(say("perfect", request))
    assert request.instance.options[order[place]].text == "Berta"


def test_random_is_stable_spread_evenly_and_moved_by_its_seed() -> None:
    requests = [make_request(prompt_id=f"p{number}") for number in range(3000)]
    first, again = ([OracleProvider("random").answer(request) for request in requests] for _ in range(2))
    assert first == again
    other = OracleProvider("random", OracleOptions(seed=1))
    assert [other.answer(request) for request in requests] != first
    assert all(900 < count < 1100 for count in Counter(first).values())
