from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from mbbq_gen.analysis.scores import score
from mbbq_gen.benchmarks.registry import load_benchmark
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.option_display import SamplingUnit
from mbbq_gen.core.records import PARSED, Extraction, Instance, Request
from mbbq_gen.languages.prompt_pack import read_prompts
from mbbq_gen.prompts.render import PromptSettings, plan_orders, render_prompt
from mbbq_gen.providers.responders import PERSONALITIES, SyntheticProvider
from mbbq_gen.runs.extraction import extract_response, extractor_for
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.scoring.observations import observations_frame, observe
from mbbq_gen.storage.store import CompletedPrompt
from tests.conftest import FULL

LANGUAGES = ("en", "es", "nl", "tr")
WORDINGS = ("letters", "polite")


def requests_of(language: str, resources: PackPaths, every: int) -> Iterator[Request]:
    """Every so many-th question of the starter benchmark, in the demo's wordings and balanced orders."""
    instances = list(load_benchmark("starter", languages=[language], resources=resources))
    plan = plan_orders("balanced", map(SamplingUnit.of, instances), 3)
    prompts = read_prompts(resources, language)
    for number, variant in enumerate(WORDINGS):
        for instance in instances[number::every]:
            (order,) = plan.orders(instance, number)
            shown = render_prompt(instance, PromptSettings(prompts.by_id(variant)), order)
            record = instance.model_dump_json()
            yield Request(request_key="k", messages=shown.messages, prompt=shown, instance_record=record)


def read(provider: SyntheticProvider, request: Request, resources: PackPaths) -> Extraction:
    answered = CompletedPrompt(request.prompt, request.instance, provider.respond(request))
    return extract_response(answered, extractor_for("rules", request.prompt.language, resources))


@pytest.mark.parametrize("name", PERSONALITIES)
@pytest.mark.parametrize("language", LANGUAGES)
def test_answers_are_read_as_they_are_meant_and_score_what_counting_says(
    language: str, name: str, resources: PackPaths
) -> None:
    provider, rows, counts, wrong = SyntheticProvider(name, resources=resources), [], Counter[str](), []
    for request in requests_of(language, resources, 5 if FULL else 20):
        found, place = read(provider, request, resources), provider.place(request)
        if found.option != place or (place is None and found.outcome in PARSED):
            wrong.append((provider.respond(request).text, place, found))
        counts.update(counted(request.instance, request.prompt.option_order, place))
        presentation = request.prompt
        order, variant = presentation.option_order, presentation.variant
        rows.append(observe(request.instance, order, found, model=name, variant=variant, label_style="A"))
    assert wrong == []
    (group,) = score(observations_frame(rows), intervals=False).groups
    expected = {
        "parse_rate": counts["read"] / counts["asked"],
        "accuracy_ambiguous": counts["right ambiguous"] / counts["ambiguous"],
        "accuracy_disambiguated": counts["right disambiguated"] / counts["disambiguated"],
        "mbbq_bias_ambiguous": (counts["biased"] - counts["counter"]) / counts["read ambiguous"],
    }
    assert {metric: group.metrics[metric].value for metric in expected} == pytest.approx(expected)
    assert expected.keys() <= METRICS.keys()


def counted(instance: Instance, order: tuple[int, ...], place: int | None) -> Iterator[str]:
    yield from ("asked", instance.condition)
    if place is None:
        return
    chosen = order[place]
    yield from ("read", f"read {instance.condition}")
    if chosen == instance.gold_index:
        yield f"right {instance.condition}"
    role = instance.options[chosen].role
    if instance.condition == "ambiguous" and role != "unknown":
        yield "biased" if role == instance.biased_role else "counter"
