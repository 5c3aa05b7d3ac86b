"""The proof of the instrument: every oracle, through the whole road, scores exactly what arithmetic says.

instances → presentations → oracle's words → extraction → observations → scores   against   plain counting
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import get_args

import polars as pl
import pytest

from mbbq_gen.datasets.registry import BENCHMARKS, load_benchmark
from mbbq_gen.extraction import load_extractor
from mbbq_gen.languages import read_prompts
from mbbq_gen.presentation import UNLABELLED, Setting, plan_orders, present, unlabelled
from mbbq_gen.providers.oracles import ORACLES, OracleProvider
from mbbq_gen.records import Instance, Presentation, Request, Response, Split
from mbbq_gen.resources import Resources
from mbbq_gen.runs.reading import read_answer
from mbbq_gen.runs.store import Answered
from mbbq_gen.sampling import Outline
from mbbq_gen.scoring import METRICS, Observation, observations_frame, observe, score
from mbbq_gen.scoring.columns import observations_from_columns
from mbbq_gen.scoring.expected import ORACLES_WITH_KNOWN_SCORES, expected_scores
from mbbq_gen.substitution import ControlMakers, Made, makeable_languages
from tests.conftest import FULL, Load

MOST_BEFORE_MAKING = 1500
"""About how many questions of a set control questions are made of, the same number of every kind."""
STARTER_LANGUAGES = BENCHMARKS["starter"].languages
PUBLISHED: tuple[tuple[str, str, Split], ...] = (
    *(("mbbq", language, split) for language in BENCHMARKS["mbbq"].languages for split in get_args(Split)),
    ("bbq", "en", "bias"),
    ("esbbq", "es", "bias"),
    ("cabbq", "ca", "bias"),
    ("kobbq", "ko", "bias"),
    ("bharatbbq", "en", "bias"),
    ("gg_bbq", "de", "bias"),
    ("basqbbq", "eu", "bias"),
    ("cbbq", "zh", "bias"),
    ("pakbbq", "en", "bias"),
    ("bbg", "en", "bias"),
    ("bbg", "ko", "bias"),
    ("bbq_lite", "en", "bias"),
)
"""Every published set at hand whose language has prompts and an extractor."""


def kinds_of(instances: list[Instance]) -> list[list[Instance]]:
    """The instances by split, category, condition, polarity, alignment and oddities, in each kind in random order."""
    kinds: dict[tuple[object, ...], list[Instance]] = {}
    for one in instances:
        odd = (one.bias_scorable, one.corrected_answer is None, one.groups_crossed)
        kinds.setdefault((one.split, one.category, one.condition, one.polarity, one.alignment, *odd), []).append(one)
    dice = random.Random(11)
    return [dice.sample(kind, len(kind)) for kind in kinds.values()]


def drawn(instances: list[Instance], most: int) -> list[Instance]:
    """About so many of them: the same number of every kind, and one at least."""
    kinds = kinds_of(instances)
    return [one for kind in kinds for one in kind[: max(1, most // len(kinds))]]


def check_all_oracles(instances: list[Instance], resources: Resources) -> None:
    """Every oracle by its choices on all that is asked, and by its words on its share of it.

    Arithmetic knows what any selection of questions must score, so the oracles can share the rows between them. All are
    asked and each oracle has a seventh of them; unless all is to be proven, each has one question of every kind.
    """
    kinds, number_of = kinds_of(instances), len(ORACLES_WITH_KNOWN_SCORES)
    asked = instances if FULL else [one for kind in kinds for one in kind[:number_of]]
    shown = {instance.key: (instance, one) for instance, one in presentations(asked, resources)}
    assert len(shown) == len(asked)
    for number, name in enumerate(ORACLES_WITH_KNOWN_SCORES):
        for split in {instance.split for instance in asked}:
            check_choices(name, [(instance, one) for instance, one in shown.values() if instance.split == split])
        share = asked[number::number_of] if FULL else [kind[number % len(kind)] for kind in kinds]
        check_oracle(name, readable(name, [shown[instance.key] for instance in share]), resources)


def presentations(instances: list[Instance], resources: Resources) -> Iterator[tuple[Instance, Presentation]]:
    """Every question of a language in one wording, balanced; wordings and label styles take turns."""
    orders = plan_orders("balanced", map(Outline.of, instances), 11)
    variants = read_prompts(resources, instances[0].language).variant
    ways = [(variant, style) for style in ("A", "(A)", "1", "a") for variant in variants]
    ways += [(unlabelled(variant), UNLABELLED) for variant in variants if variant.kind in ("polite", "bare")]
    for number, instance in enumerate(instances):
        (order,) = orders.orders(instance, 0)
        yield instance, present(instance, Setting(*ways[number % len(ways)]), order)


def check_oracle(name: str, shown: list[tuple[Instance, Presentation]], resources: Resources) -> None:
    """The oracle's scores on what is shown are what arithmetic says, metric by metric and split by split."""
    provider = OracleProvider(name)
    extractor = load_extractor(shown[0][0].language, resources)

    def rows() -> Iterable[Observation]:
        for instance, presentation in shown:
            request = Request(
                request_key="k", messages=presentation.messages, presentation=presentation, instance=instance
            )
            response = Response(request_key="k", text=provider.answer(request), finish_reason="stop")
            extraction = read_answer(Answered(presentation, instance, response), extractor)
            yield observe(
                instance, presentation.order, extraction, model=name, variant=presentation.variant,
                label_style=presentation.label_style,
            )  # fmt: skip

    table = score(observations_frame(rows()), ["split"], interval=None)
    for group in table.groups:
        part = [(instance, shown.order) for instance, shown in shown if instance.split == group.group["split"]]
        expected = expected_scores(name, part)
        assert expected.keys() == METRICS.keys()
        wrong = {
            metric: (row.value, expected[metric])
            for metric, row in group.metrics.items()
            if not _equal(row.value, expected[metric])
        }
        assert wrong == {}, (name, group.group, group.outcomes)
        assert group.outcomes["error"] == 0


def _equal(found: float | None, expected: Fraction | None) -> bool:
    """Both undefined, or the same number to the last digits of a float."""
    if found is None or expected is None:
        return found is None and expected is None
    return abs(found - expected) < 1e-12


def test_every_oracle_is_proven() -> None:
    assert set(ORACLES) == {*ORACLES_WITH_KNOWN_SCORES, "random"}


@pytest.mark.parametrize("language", STARTER_LANGUAGES)
def test_oracles_on_starter(language: str, resources: Resources) -> None:
    instances = list(load_benchmark("starter", languages=[language], resources=resources))
    assert len(instances) == 2 * 864
    check_all_oracles(instances, resources)


@pytest.fixture(scope="module")
def published(request: pytest.FixtureRequest, load_published: Load) -> list[Instance]:
    """A published set that the test names: read once, then all tests of it in a row."""
    return load_published(*request.param)


@pytest.mark.slow
@pytest.mark.parametrize("published", PUBLISHED, indirect=True, ids=map("-".join, PUBLISHED))
def test_oracles_on_published_data(published: list[Instance], resources: Resources) -> None:
    check_all_oracles(published, resources)


MADE_OF = tuple(which for which in PUBLISHED if which[2] == "bias" and which[0] != "mbbq")


@pytest.mark.slow
@pytest.mark.parametrize("published", MADE_OF, indirect=True, ids=map("-".join, MADE_OF))
def test_oracles_on_made_control_questions(published: list[Instance], resources: Resources) -> None:
    if published[0].language not in makeable_languages(resources):
        pytest.skip(f"no grammar of substitution for {published[0].language}")
    makers = ControlMakers(resources)
    questions = published if FULL else drawn(published, MOST_BEFORE_MAKING)
    made = (makers.make(question) for question in questions)
    instances = [one.instance for one in made if isinstance(one, Made)]
    assert len(instances) > 0.4 * len(questions)
    check_all_oracles(instances, resources)


def readable(name: str, shown: list[tuple[Instance, Presentation]]) -> list[tuple[Instance, Presentation]]:
    """What is shown, for a wordy oracle without questions that words can't answer: two people with the same text."""
    if ORACLES[name].speech != "sentence":
        return shown
    return [(instance, one) for instance, one in shown if "equal_options" not in instance.quirks]


def check_choices(name: str, shown: list[tuple[Instance, Presentation]]) -> None:
    """The oracle's scores on all that is shown, with its choices taken as they are instead of read from its words."""
    choose = ORACLES[name].choose
    places = [
        choose(Request.model_construct(request_key="k", messages=(), presentation=one, instance=instance), 0)
        for instance, one in shown
    ]
    answers = pl.DataFrame(
        {
            "instance_key": [instance.key for instance, _ in shown],
            "order": [json.dumps(one.order) for _, one in shown],
            "option": places,
        }
    ).with_columns(
        *(pl.lit("x").alias(column) for column in ("model", "variant", "label_style", "extractor")),
        outcome=pl.lit("option"),
        confidence=pl.lit("high"),
    )
    frame = observations_from_columns([instance for instance, _ in shown], answers)
    (group,) = score(frame, interval=None).groups
    expected = expected_scores(name, [(instance, one.order) for instance, one in shown])
    assert {
        metric: (row.value, expected[metric])
        for metric, row in group.metrics.items()
        if not _equal(row.value, expected[metric])
    } == {}, name


@pytest.mark.parametrize("language", STARTER_LANGUAGES if FULL else STARTER_LANGUAGES[:4])
def test_random_answers_score_nothing_in_expectation(language: str, resources: Resources) -> None:
    """Within five standard errors of fair dice."""
    instances = list(load_benchmark("starter", languages=[language], splits=["bias"], resources=resources))
    shown = list(presentations(instances, resources))
    provider = OracleProvider("random")
    extractor = load_extractor(language, resources)
    rows = []
    for instance, presentation in shown:
        request = Request(request_key="k", messages=presentation.messages, presentation=presentation, instance=instance)
        response = Response(request_key="k", text=provider.answer(request))
        extraction = read_answer(Answered(presentation, instance, response), extractor)
        rows.append(observe(instance, presentation.order, extraction, model="random", variant="v", label_style="A"))
    (group,) = score(observations_frame(rows), interval=None).groups
    spread = 5 * (2 / 3 / 288) ** 0.5
    for name in ("mbbq_bias_ambiguous", "diff_bias_disambiguated", "bbq_s_dis"):
        assert abs(group.metrics[name].value or 0) < 2 * spread
    for name in ("accuracy_ambiguous", "accuracy_disambiguated"):
        assert abs((group.metrics[name].value or 0) - 1 / 3) < spread
