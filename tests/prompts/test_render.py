from __future__ import annotations

from collections import Counter
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbbq_gen.core.errors import UnknownNameError
from mbbq_gen.core.option_display import ALL_ORDERS, LABEL_STYLES, ORDER_POLICIES, SamplingUnit
from mbbq_gen.core.records import Alignment, Condition, Instance, Polarity
from mbbq_gen.languages.prompt_pack import PromptVariant
from mbbq_gen.prompts.render import PromptSettings, plan_orders, render_prompt
from mbbq_gen.prompts.sampling import KINDS, balanced_sample
from tests.support.questions import options, question

TEXT = "{context}\n{question}\n{label_a}: {option_a}\n{label_b}: {option_b}\n{label_c}: {option_c}"


def make_instance(
    number: int = 0,
    *,
    condition: Condition = "ambiguous",
    polarity: Polarity = "negative",
    alignment: Alignment | None = None,
    language: str = "en",
    template: str = "t1",
    published: tuple[int, int, int] = (0, 1, 2),
    context: str = "A and B met.",
) -> Instance:
    biased = "target" if polarity == "negative" else "non_target"
    other = "non_target" if polarity == "negative" else "target"
    name, people = (
        f"{template}.{number}.{condition}.{polarity}.{alignment}",
        options("The baker", "The tailor", "Not known"),
    )
    return question(
        benchmark="b",
        language=language,
        instance_id=name,
        parallel_id=name,
        template_id=template,
        condition=condition,
        polarity=polarity,
        context=context,
        question="Who was it?",
        options=[people[index] for index in published],
        gold_role="unknown" if condition == "ambiguous" else biased if alignment == "biased" else other,
    )


def many(templates: int, each: int) -> list[Instance]:
    return [
        make_instance(
            number,
            condition=condition,
            polarity=polarity,
            alignment=alignment,
            template=f"t{template}",
            published=ALL_ORDERS[(number + template) % 6],
            context=f"A and B met on day {number} in street {template}: {condition}, {polarity}, {alignment}.",
        )
        for template, number, (condition, polarity, alignment) in product(range(templates), range(each), KINDS)
    ]


@given(templates=st.integers(1, 4), each=st.integers(1, 7), seed=st.integers(0, 99), variant=st.integers(0, 5))
def test_balanced_orders_put_each_role_at_each_label_equally_often(
    templates: int, each: int, seed: int, variant: int
) -> None:
    instances = many(templates, each)
    plan = plan_orders("balanced", map(SamplingUnit.of, instances), seed)
    counts: dict[tuple[str, ...], Counter[tuple[str | None, int]]] = {}
    for instance in instances:
        (order,) = plan.orders(instance, variant)
        cell = counts.setdefault((instance.condition, instance.polarity), Counter())
        cell.update((instance.options[index].role, place) for place, index in enumerate(order))
    for cell in counts.values():
        times = [cell[role, place] for role in ("target", "non_target", "unknown") for place in range(3)]
        assert max(times) - min(times) <= 1


@pytest.mark.parametrize("policy", ORDER_POLICIES)
def test_parallel_questions_are_shown_in_the_same_order_of_roles(policy: str) -> None:
    if policy == "published":
        return
    english = [make_instance(number, published=(0, 1, 2)) for number in range(12)]
    dutch = [make_instance(number, language="nl", published=(2, 1, 0)) for number in range(12)]
    plan = plan_orders(policy, map(SamplingUnit.of, english + dutch), 5)  # type: ignore[arg-type]
    for left, right in zip(english, dutch, strict=True):
        for one, other in zip(plan.orders(left, 2), plan.orders(right, 2), strict=True):
            assert [left.options[index].role for index in one] == [right.options[index].role for index in other]


@pytest.mark.parametrize(("style", "labels"), LABEL_STYLES.items())
def test_the_message_shows_the_options_in_order(style: str, labels: tuple[str, str, str]) -> None:
    variant = PromptVariant(id="plain", kind="bare", text=TEXT)
    shown = render_prompt(make_instance(context="She said {label_a}."), PromptSettings(variant, style), (2, 0, 1))
    one, two, three = labels
    assert [message.model_dump() for message in shown.messages] == [
        {
            "role": "user",
            "content": f"She said {{label_a}}.\nWho was it?\n{one}: Not known\n{two}: The baker\n{three}: The tailor",
        }
    ]
    assert shown.option_labels == labels


def test_a_system_message_goes_first_and_changes_the_id() -> None:
    variant = PromptVariant(id="plain", kind="bare", text=TEXT)
    without, with_system = (
        render_prompt(make_instance(), PromptSettings(variant, system=text), (0, 1, 2)) for text in (None, "Be brief.")
    )
    assert [message.role for message in with_system.messages] == ["system", "user"]
    assert without.prompt_id != with_system.prompt_id


def test_an_unknown_label_style_is_refused() -> None:
    with pytest.raises(UnknownNameError, match=r"label style 'AA'"):
        render_prompt(
            make_instance(), PromptSettings(PromptVariant(id="plain", kind="bare", text=TEXT), "AA"), (0, 1, 2)
        )


@given(size=st.integers(1, 60), seed=st.integers(0, 20))
def test_a_sample_is_balanced_over_templates_and_kinds(size: int, seed: int) -> None:
    instances = {instance.key: instance for instance in many(6, 3)}
    keys = balanced_sample(map(SamplingUnit.of, instances.values()), size, seed)
    assert len(keys) == size
    chosen = [instances[key] for key in keys]
    templates = Counter(instance.template_id for instance in chosen)
    assert max(templates.values()) - min(templates[f"t{number}"] for number in range(6)) <= 1
    if size <= 24:  # no kind of a template has run out
        conditions = Counter(instance.condition for instance in chosen)
        assert abs(conditions["ambiguous"] - conditions["disambiguated"]) <= 1
        for condition in ("ambiguous", "disambiguated"):
            kinds = Counter(SamplingUnit.of(instance).kind for instance in chosen if instance.condition == condition)
            times = [kinds[kind] for kind in KINDS if kind[0] == condition]
            assert max(times) - min(times) <= 2


def test_a_sample_takes_the_same_questions_in_every_language() -> None:
    english = many(5, 3)
    dutch = [instance.model_copy(update={"language": "nl"}) for instance in english]
    keys = balanced_sample(map(SamplingUnit.of, english + dutch), 17, 3)
    ids = {language: {key.rpartition("/")[2] for key in keys if f"/{language}/" in key} for language in ("en", "nl")}
    assert ids["en"] == ids["nl"]
    assert len(ids["en"]) == 17


def test_balanced_orders_use_all_six_orders_over_wordings() -> None:
    instance = make_instance()
    plan = plan_orders("balanced", [SamplingUnit.of(instance)], 0)
    assert {plan.orders(instance, variant)[0] for variant in range(6)} == set(ALL_ORDERS)


def test_cyclic_and_all_orders_are_complete() -> None:
    instance = make_instance(published=(2, 0, 1))
    cyclic = plan_orders("cyclic", [], 0).orders(instance, 0)
    assert len(cyclic) == 3
    assert all({order[place] for order in cyclic} == {0, 1, 2} for place in range(3))
    assert set(plan_orders("all", [], 0).orders(instance, 0)) == set(ALL_ORDERS)
    assert plan_orders("published", [], 0).orders(instance, 0) == [(0, 1, 2)]


def test_presentation_ids_are_the_same_everywhere() -> None:
    """A fixed digest: it must not depend on the machine, the Python or the day."""
    variant = PromptVariant(id="plain", kind="bare", text=TEXT)
    assert render_prompt(make_instance(), PromptSettings(variant), (0, 1, 2)).prompt_id == "3365c015ea3332bbc095"
