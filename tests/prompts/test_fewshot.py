from __future__ import annotations

from collections import Counter

import pytest

from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.option_display import SamplingUnit
from mbbq_gen.languages.prompt_pack import PromptVariant
from mbbq_gen.prompts.render import PromptSettings, SolvedExample, render_prompt, without_context
from mbbq_gen.prompts.sampling import FewShotSampler
from tests.prompts.test_render import TEXT, make_instance, many

INSTANCES = {instance.key: instance for instance in many(8, 2)}
OUTLINES = {key: SamplingUnit.of(instance) for key, instance in INSTANCES.items()}


@pytest.mark.parametrize("count", [1, 2, 3, 6])
def test_examples_come_from_other_templates_and_from_one_each(count: int) -> None:
    pool = FewShotSampler(OUTLINES.values(), 3)
    for outline in OUTLINES.values():
        templates = [OUTLINES[shot.key].template_id for shot in pool.choose(outline, count)]
        assert outline.template_id not in templates
        assert len(set(templates)) == count


def test_right_roles_and_places_are_balanced() -> None:
    pool = FewShotSampler(OUTLINES.values(), 3)
    for outline in OUTLINES.values():
        shots = pool.choose(outline, 3)
        assert {INSTANCES[shot.key].gold_role for shot in shots} == {"target", "non_target", "unknown"}
        roles = ("target", "non_target", "unknown")
        places = {shot.role_order.index(roles.index(str(INSTANCES[shot.key].gold_role))) for shot in shots}
        assert places == {0, 1, 2}
    firsts = Counter(INSTANCES[pool.choose(outline, 1)[0].key].gold_role for outline in OUTLINES.values())
    assert min(firsts.values()) > len(OUTLINES) / 6


def test_languages_share_their_examples() -> None:
    dutch = [instance.model_copy(update={"language": "nl"}) for instance in INSTANCES.values()]
    pool = FewShotSampler([*OUTLINES.values(), *map(SamplingUnit.of, dutch)], 5)
    for english, other in zip(OUTLINES.values(), map(SamplingUnit.of, dutch), strict=True):
        pairs = zip(pool.choose(english, 2), pool.choose(other, 2), strict=True)
        for one, two in pairs:
            assert one.key.replace("/en/", "/nl/") == two.key
            assert one.role_order == two.role_order


def test_an_example_is_a_turn_of_each_side() -> None:
    variant = PromptVariant(id="plain", kind="bare", text=TEXT)
    example = SolvedExample(make_instance(context="Once."), (2, 0, 1))
    shown = render_prompt(make_instance(context="Now."), PromptSettings(variant), (0, 1, 2), [example])
    assert [(message.role, message.content) for message in shown.messages] == [
        ("user", "Once.\nWho was it?\nA: Not known\nB: The baker\nC: The tailor"),
        ("assistant", "A: Not known"),
        ("user", "Now.\nWho was it?\nA: The baker\nB: The tailor\nC: Not known"),
    ]
    assert shown.num_fewshot == (example.instance.key,)


def test_a_question_without_its_context_keeps_everything_else() -> None:
    text = "Read.\n\nText: {context}\n\nQuestion: {question}\n"
    assert without_context(text) == "Read.\n\nQuestion: {question}"
    variant = PromptVariant(id="plain", kind="bare", text=TEXT)
    shown = render_prompt(make_instance(), PromptSettings(variant, no_context=True), (0, 1, 2))
    assert shown.messages[0].content == "Who was it?\nA: The baker\nB: The tailor\nC: Not known"
    assert shown.no_context


def test_one_template_alone_has_no_examples() -> None:
    outlines = [outline for outline in OUTLINES.values() if outline.template_id == "t0"]
    with pytest.raises(UsageError, match=r"--num-fewshot: .*outside template t0"):
        FewShotSampler(outlines, 0).choose(outlines[0], 1)
