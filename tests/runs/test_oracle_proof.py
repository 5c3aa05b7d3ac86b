from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping
from typing import get_args

import polars as pl
import pytest

from mbbq_gen.analysis.scores import score
from mbbq_gen.benchmarks.control.maker import makeable_languages, with_control
from mbbq_gen.benchmarks.registry import BENCHMARKS, load_benchmark
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.option_display import SamplingUnit
from mbbq_gen.core.records import Instance, Prompt, Request, Response, Split
from mbbq_gen.languages.prompt_pack import read_prompts
from mbbq_gen.prompts.render import UNLABELLED, PromptSettings, plan_orders, render_prompt, with_option_labels
from mbbq_gen.providers.responders import ORACLES, OracleProvider
from mbbq_gen.runs.extraction import extract_response, extractor_for
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.scoring.observations import Observation, observations_frame, observations_from_columns, observe
from mbbq_gen.storage.store import CompletedPrompt
from tests.conftest import FULL, Load
from tests.support.cases import by_language
from tests.support.scoring import ORACLES_WITH_KNOWN_SCORES, expected_scores

MOST_BEFORE_MAKING = 800
"""About how many questions of a set control questions are made of, the same number of every kind."""
STARTER_LANGUAGES = BENCHMARKS["starter"].languages
PUBLISHED: tuple[tuple[str, str, Split], ...] = (
    *(("mbbq", language, split) for language in BENCHMARKS["mbbq"].languages for split in get_args(Split)),
    *((name, "en", "bias") for name in ("bbq", "bharatbbq", "pakbbq", "bbg", "bbq_lite")),
    *(("esbbq", "es", "bias"), ("cabbq", "ca", "bias"), ("kobbq", "ko", "bias"), ("gg_bbq", "de", "bias")),
    *(("basqbbq", "eu", "bias"), ("cbbq", "zh", "bias"), ("bbg", "ko", "bias")),
)
"""Every published set at hand whose language has prompts and an extractor."""


def kinds_of(instances: list[Instance]) -> list[list[Instance]]:
    """The instances by split, category, condition, polarity, alignment and oddities, in each kind in random order."""
    kinds: dict[tuple[object, ...], list[Instance]] = {}
    for one in instances:
        odd = (one.has_single_target, one.corrected_gold_role is None, one.groups_swapped)
        kinds.setdefault((one.split, one.category, one.condition, one.polarity, one.alignment, *odd), []).append(one)
    dice = random.Random(11)
    return [dice.sample(kind, len(kind)) for kind in kinds.values()]


def drawn(instances: list[Instance], most: int) -> list[Instance]:
    kinds = kinds_of(instances)
    return [one for kind in kinds for one in kind[: max(1, most // len(kinds))]]


def check_all_oracles(instances: list[Instance], resources: PackPaths) -> None:
    """Every oracle by its choices on all that is asked, and by its words on its share of it.

    Arithmetic knows what any selection of questions must score, so the oracles can share the rows between them. All are
    asked and each oracle has a seventh of them; unless all is to be proven, each has one question of every kind.
    """
    kinds, number_of = kinds_of(instances), len(ORACLES_WITH_KNOWN_SCORES)
    asked = instances if FULL else [one for kind in kinds for one in kind[:number_of]]
    shown = {instance.key: (instance, one) for instance, one in prompts(asked, resources)}
    assert len(shown) == len(asked)
    every = list(shown.values())
    check_choices({name: every for name in ORACLES_WITH_KNOWN_SCORES})  # noqa: C420  each is only looked at
    said = {}
    for number, name in enumerate(ORACLES_WITH_KNOWN_SCORES):
        share = asked[number::number_of] if FULL else [kind[number % len(kind)] for kind in kinds]
        said[name] = readable(name, [shown[instance.key] for instance in share])
    check_words(said, resources)


def prompts(instances: list[Instance], resources: PackPaths) -> Iterator[tuple[Instance, Prompt]]:
    """Every question of a language in one wording, balanced; wordings and label styles take turns."""
    orders = plan_orders("balanced", map(SamplingUnit.of, instances), 11)
    variants = read_prompts(resources, instances[0].language).variant
    ways = [(variant, style) for style in ("A", "(A)", "1", "a") for variant in variants]
    ways += [
        (with_option_labels(variant, UNLABELLED), UNLABELLED)
        for variant in variants
        if variant.kind in ("polite", "bare")
    ]
    for number, instance in enumerate(instances):
        (order,) = orders.orders(instance, 0)
        yield instance, render_prompt(instance, PromptSettings(*ways[number % len(ways)]), order)


Shown = list[tuple[Instance, Prompt]]


def check_words(shown: Mapping[str, Shown], resources: PackPaths) -> None:
    """Each oracle's words on what it is shown, read: the scores are what arithmetic says."""
    table = observations_frame(
        observed for name, part in shown.items() for observed in read_words(OracleProvider(name), part, resources)
    )
    check_scores(table, shown)


def read_words(provider: OracleProvider, shown: Shown, resources: PackPaths) -> Iterator[Observation]:
    extractor = extractor_for("rules", shown[0][0].language, resources)
    for instance, presentation in shown:
        messages, record = presentation.messages, instance.model_dump_json()
        request = Request(request_key="k", messages=messages, prompt=presentation, instance_record=record)
        response = Response(request_key="k", text=provider.answer(request), finish_reason="stop")
        extraction = extract_response(CompletedPrompt(presentation, instance, response), extractor)
        yield observe(
            instance, presentation.option_order, extraction, model=provider.model, variant=presentation.variant,
            label_style=presentation.label_style,
        )  # fmt: skip


def check_scores(table: pl.DataFrame, shown: Mapping[str, Shown]) -> None:
    """The scores of every oracle and split are what arithmetic says of what it was shown, metric by metric."""
    groups = score(table, ["model", "split"], intervals=False).groups
    splits = {(name, instance.split) for name, part in shown.items() for instance, _ in part}
    assert {(group.group["model"], group.group["split"]) for group in groups} == splits
    for group in groups:
        name, split = str(group.group["model"]), group.group["split"]
        part = [(instance, one.option_order) for instance, one in shown[name] if instance.split == split]
        expected = expected_scores(name, part)
        assert expected.keys() == METRICS.keys()
        wrong = {
            metric: (row.value, expected[metric])
            for metric, row in group.metrics.items()
            if not is_equal(row.value, expected[metric])
        }
        assert wrong == {}, (name, group.group, group.outcomes)
        assert group.outcomes["error"] == 0


def is_equal(found: float | None, expected: float | None) -> bool:
    if found is None or expected is None:
        return found is None and expected is None
    return abs(found - expected) < 1e-12


def test_every_oracle_is_proven() -> None:
    assert set(ORACLES) == {*ORACLES_WITH_KNOWN_SCORES, "random"}


@by_language(STARTER_LANGUAGES)
def test_oracles_on_starter(language: str, resources: PackPaths) -> None:
    instances = list(load_benchmark("starter", languages=[language], resources=resources))
    assert len(instances) == 2 * 864
    check_all_oracles(instances, resources)


@pytest.fixture(scope="module")
def published(request: pytest.FixtureRequest, load_published: Load) -> list[Instance]:
    """A published set that the test names: read once, then all tests of it in a row."""
    return load_published(*request.param)


@pytest.mark.slow
@pytest.mark.parametrize("published", PUBLISHED, indirect=True, ids=map("-".join, PUBLISHED))
def test_oracles_on_published_data(published: list[Instance], resources: PackPaths) -> None:
    check_all_oracles(published, resources)


MADE_OF = tuple(which for which in PUBLISHED if which[2] == "bias" and which[0] != "mbbq")


@pytest.mark.slow
@pytest.mark.parametrize("published", MADE_OF, indirect=True, ids=map("-".join, MADE_OF))
def test_oracles_on_made_control_questions(published: list[Instance], resources: PackPaths) -> None:
    if published[0].language not in makeable_languages(resources):
        pytest.skip(f"no grammar of substitution for {published[0].language}")
    questions = published if FULL else drawn(published, MOST_BEFORE_MAKING)
    instances = list(with_control(questions, ["control"], resources))
    assert len(instances) > 0.4 * len(questions)
    check_all_oracles(instances, resources)


def readable(name: str, shown: Shown) -> Shown:
    """What is shown, for a wordy oracle without questions that words can't answer: two people with the same text."""
    if ORACLES[name].speech != "sentence":
        return shown
    return [(instance, one) for instance, one in shown if "duplicate_options" not in instance.data_issues]


def check_choices(shown: Mapping[str, Shown]) -> None:
    """The same, with the oracles' choices taken as they are instead of read from their words."""
    instances = {instance.key: instance for part in shown.values() for instance, _ in part}
    answers = pl.DataFrame(
        [
            {
                "instance_key": instance.key,
                "option_order": json.dumps(one.option_order),
                "model": name,
                "option": OracleProvider(name).place(asked),
            }
            for name, part in shown.items()
            for instance, one in part
            for record in (instance.model_dump_json(),)
            for asked in (Request.model_construct(request_key="k", messages=(), prompt=one, instance_record=record),)
        ]
    ).with_columns(
        *(pl.lit("x").alias(column) for column in ("variant", "label_style", "extractor")),
        outcome=pl.lit("option"),
        confidence=pl.lit("high"),
    )
    check_scores(observations_from_columns(list(instances.values()), answers), shown)


@pytest.mark.parametrize("language", STARTER_LANGUAGES if FULL else STARTER_LANGUAGES[:4])
def test_random_answers_score_nothing_in_expectation(language: str, resources: PackPaths) -> None:
    instances = list(load_benchmark("starter", languages=[language], splits=["bias"], resources=resources))
    shown = list(prompts(instances, resources))
    rows = read_words(OracleProvider("random"), shown, resources)
    (group,) = score(observations_frame(rows), intervals=False).groups
    spread = 5 * (2 / 3 / 288) ** 0.5
    for name in ("mbbq_bias_ambiguous", "diff_bias_disambiguated", "bbq_s_dis"):
        assert abs(group.metrics[name].value or 0) < 2 * spread
    for name in ("accuracy_ambiguous", "accuracy_disambiguated"):
        assert abs((group.metrics[name].value or 0) - 1 / 3) < spread
