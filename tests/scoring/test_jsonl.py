from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.analysis.scores import score
from mbbq_gen.core.errors import DataError
from mbbq_gen.interchange.jsonl import observe_lines
from mbbq_gen.scoring.metrics import METRICS
from mbbq_gen.scoring.observations import Observation, observations_frame
from mbbq_gen.statistics.estimate import InferenceSettings
from tests.support.cases import known
from tests.support.scoring import Row, instance_of

FOLDER = Path(__file__).parents[1] / "data" / "scoring"
BAD: list[dict[str, Any]] = tomllib.loads((FOLDER / "bad_lines.toml").read_text(encoding="utf-8"))["case"]
EXAMPLE = (FOLDER / "worked_example.jsonl").read_text(encoding="utf-8").splitlines()
INSTANCE = instance_of(Row("ambiguous"))


def line(drop: tuple[str, ...] = (), **more: Any) -> str:
    fields = {**INSTANCE.model_dump(mode="json"), "option": 0, **more}
    return json.dumps({key: value for key, value in fields.items() if key not in drop})


def observed(text: str) -> Observation:
    (observation,) = observe_lines([text], "answers.jsonl")
    return observation


@pytest.mark.parametrize("case", BAD, ids=[case["name"] for case in BAD])
def test_a_wrong_line_is_named_with_its_row_and_field(case: dict[str, Any]) -> None:
    text = case.get("text") or line(tuple(case.get("drop", ())), **case.get("set", {}))
    with pytest.raises(DataError, match=f"^{case['message']}") as caught:
        list(observe_lines([line(), text], "answers.jsonl"))
    assert "\n" not in str(caught.value)


def test_an_option_is_a_place_among_the_options_as_shown() -> None:
    found = observed(line(option_order=[2, 1, 0], option=0, model="m", variant="plain", label_style="a"))
    assert (found.chosen_role, found.chosen_position, found.chosen_index) == ("unknown", 0, 2)
    assert found.option_order == "unknown-non_target-target"
    assert (found.model, found.variant, found.label_style) == ("m", "plain", "a")


def test_a_response_is_read_by_the_extractor() -> None:
    found = observed(line(("option",), response="The coffee drinker.", option_order=[1, 2, 0]))
    assert (found.outcome, found.chosen_role, found.chosen_position) == ("option", "non_target", 0)
    shown_labels = observed(line(("option",), response="2", labels=["1", "2", "3"]))
    assert shown_labels.chosen_role == "non_target"


def test_what_extract_writes_is_scored_with_the_instance_beside_it() -> None:
    fields = {
        "id": "x7",
        "language": "en",
        "options": ["Not known", "The tea drinker", "The coffee drinker"],
        "labels": ["A", "B", "C"],
        "unknown_index": 0,
        "response": "B",
        "outcome": "option",
        "option": 1,
        "confidence": "medium",
        "rule": "label",
        "spans": [[0, 1]],
        "instance": INSTANCE.model_dump(mode="json"),
        "option_order": [2, 0, 1],
    }
    found = observed(json.dumps(fields))
    assert (found.chosen_role, found.confidence) == ("target", "medium")
    with pytest.raises(DataError, match=r"options: .* are not the instance's in this order"):
        observed(json.dumps({**fields, "option_order": [0, 1, 2], "unknown_index": 2}))


def test_the_worked_example_of_the_docs_comes_out() -> None:
    """Each line of docs/what-scores-mean.md that names a metric and a sum must be what the scorer says."""
    page = (Path(__file__).parents[2] / "docs" / "what-scores-mean.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \| (−?[\d.]+) \| (−?[\d.]+) \|$", page, flags=re.MULTILINE)
    assert len(rows) == len(METRICS)
    frame = observations_frame(observe_lines(EXAMPLE, "x"))
    tables = [
        score(frame, settings=InferenceSettings(unparsed=policy), intervals=False) for policy in ("discard", "keep")
    ]
    for name, _, *shown in rows:
        for table, number in zip(tables, shown, strict=True):
            value = known(table.groups[0].metrics[name].value)
            assert f"{value:.3f}".replace("-", "−") == number, name


def test_corrected_labels_can_be_asked_for() -> None:
    wrong = instance_of(Row("biased", corrected="non_target")).model_dump(mode="json")
    text = json.dumps({**wrong, "option": 1})
    frames = (observations_frame(observe_lines([text], "x", gold=labels)) for labels in LABELS)
    published, corrected = (score(frame, intervals=False) for frame in frames)
    assert published.groups[0].metrics["accuracy_disambiguated"].value == 0
    assert corrected.groups[0].metrics["accuracy_disambiguated"].value == 1
    assert (published.gold, corrected.gold) == LABELS


LABELS: tuple[Any, ...] = ("published", "corrected")


def test_a_response_that_was_not_had_is_no_answer_of_the_model() -> None:
    assert observed(line(("option",), response=None)).outcome == "error"
    assert observed(line(("option",), response=None, finish_reason="content_filter")).outcome == "content_filter"
    assert observed(line(("option",), response=None)).correct is None
