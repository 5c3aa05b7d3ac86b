"""The proof of the instrument: every oracle, through the whole road, scores exactly what arithmetic says.

instances → presentations → oracle's words → extraction → observations → scores   against   plain counting
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import islice
from pathlib import Path

import pytest

from mbbq_gen.datasets.registry import BENCHMARKS, load_benchmark
from mbbq_gen.extraction import load_extractor
from mbbq_gen.languages import read_prompts
from mbbq_gen.presentation import Setting, plan_orders, present
from mbbq_gen.providers.oracles import ORACLES, OracleProvider
from mbbq_gen.records import Instance, Presentation, Request, Response
from mbbq_gen.resources import Resources
from mbbq_gen.runs.reading import read_answer
from mbbq_gen.runs.store import Answered
from mbbq_gen.sampling import Outline
from mbbq_gen.scoring import METRICS, Observation, observations_frame, observe, score
from mbbq_gen.scoring.expected import ORACLES_WITH_KNOWN_SCORES, expected_scores

STARTER_LANGUAGES = BENCHMARKS["starter"].languages
MBBQ_LANGUAGES = BENCHMARKS["mbbq"].languages
MBBQ_STEP = 7
"""Of MBBQ's 20,160 questions a language, those whose number is a multiple of this: arithmetic knows any selection."""


def presentations(instances: list[Instance], resources: Resources) -> Iterator[tuple[Instance, Presentation]]:
    """Every question of a language in one wording, balanced; wordings and label styles take turns."""
    orders = plan_orders("balanced", map(Outline.of, instances), 11)
    styles = ("A", "(A)", "1", "a")
    variants = read_prompts(resources, instances[0].language).variant
    for number, instance in enumerate(instances):
        variant = variants[number % len(variants)]
        (order,) = orders.orders(instance, 0)
        yield instance, present(instance, Setting(variant, styles[number % len(styles)]), order)


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


@pytest.mark.parametrize("name", ORACLES_WITH_KNOWN_SCORES)
@pytest.mark.parametrize("language", STARTER_LANGUAGES)
def test_oracles_on_starter(name: str, language: str, resources: Resources) -> None:
    instances = list(load_benchmark("starter", languages=[language], resources=resources))
    assert len(instances) == 2 * 864
    check_oracle(name, list(presentations(instances, resources)), resources)


@pytest.mark.parametrize("name", ORACLES_WITH_KNOWN_SCORES)
@pytest.mark.parametrize("language", MBBQ_LANGUAGES)
def test_oracles_on_mbbq(name: str, language: str, resources: Resources, shared_datasets: Path) -> None:
    every = load_benchmark("mbbq", data=shared_datasets / "mbbq", languages=[language], resources=resources)
    instances = list(islice(every, 0, None, MBBQ_STEP))
    assert len(instances) == 2880
    check_oracle(name, list(presentations(instances, resources)), resources)


@pytest.mark.parametrize("language", STARTER_LANGUAGES)
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
