from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest

from mbbq_gen.analysis.scores import ScoreTable, score
from mbbq_gen.core.errors import UnknownNameError, UsageError
from mbbq_gen.scoring.observations import observations_frame
from mbbq_gen.statistics.estimate import InferenceSettings
from tests.support.cases import cases, known
from tests.support.scoring import Row, naive_scores, observations_of

CASES = cases("scoring/hand_counted.toml", "case")
by_name = pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])


def rows_of(case: dict[str, Any]) -> list[Row]:
    return [
        Row(entry["context"], entry["polarity"], entry.get("chose"), entry.get("outcome"), number=number)
        for entry in case["rows"]
        for number in range(entry["n"])
    ]


def score_rows(rows: list[Row], **settings: Any) -> ScoreTable:
    beside = {name: settings.pop(name) for name in ("by", "metrics", "gold") if name in settings}
    chosen = InferenceSettings(**settings)
    return score(
        observations_frame(observations_of(rows)), settings=chosen, intervals="confidence" in settings, **beside
    )


def written(value: str) -> float | None:
    return None if value == "none" else float(Fraction(value))


@by_name
def test_hand_counted_values(case: dict[str, Any]) -> None:
    (group,) = score_rows(rows_of(case), unparsed=case.get("unparsed", "discard")).groups
    found = {name: group.metrics[name].value for name in case["expected"]}
    assert found == pytest.approx({name: written(value) for name, value in case["expected"].items()})


@by_name
def test_hand_counted_bounds(case: dict[str, Any]) -> None:
    (group,) = score_rows(rows_of(case)).groups
    for side in ("low", "high"):
        for name, value in case.get(side, {}).items():
            bounds = known(group.metrics[name].bounds)
            assert getattr(bounds, side) == pytest.approx(written(value)), name


@by_name
def test_the_plain_loops_agree_with_the_hand(case: dict[str, Any]) -> None:
    plain = naive_scores(rows_of(case), case.get("unparsed", "discard"))
    assert {name: plain[name] for name in case["expected"]} == pytest.approx(
        {name: written(value) for name, value in case["expected"].items()}
    )


def test_every_number_stands_beside_its_counts() -> None:
    rows = [Row("ambiguous", chose="target", number=n) for n in range(3)] + [Row("ambiguous", chose="unknown")]
    (group,) = score_rows(rows, confidence=0.95, n_resamples=10).groups
    found = group.metrics["mbbq_bias_ambiguous"]
    assert [(part.numerator, part.denominator) for part in found.fractions] == [(3, 4)]
    assert found.fractions[0].formula == "(ambiguous_biased - ambiguous_counter_biased) / ambiguous_parsed"
    assert (group.n_answers, group.n_instances, group.n_templates, found.n_templates) == (4, 3, 1, 1)
    assert sum(group.outcomes.values()) == group.n_answers


@pytest.mark.parametrize(("settings", "message"), cases("scoring/tables", "wrong_settings_are_named"))
def test_wrong_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        score_rows([Row("ambiguous", chose="target")], **settings)


class TestLabels:
    """One in four truths is labelled wrongly: published as fitting the stereotype, in truth it does not."""

    rows = (
        Row("biased", chose="target", number=1),
        Row("biased", chose="non_target", number=2, corrected="non_target"),
        Row("counter_biased", chose="non_target", number=3),
        Row("counter_biased", chose="target", number=4),
        Row("ambiguous", chose="target", number=5),
    )

    def test_corrected(self) -> None:
        (group,) = score_rows(list(self.rows), gold="corrected").groups
        assert group.metrics["accuracy_disambiguated"].value == 3 / 4
        assert group.metrics["diff_bias_disambiguated"].value == pytest.approx(1 - 2 / 3)
        assert group.counts["counter_biased_contexts"] == 3

    def test_differences_are_told_and_only_they(self) -> None:
        frame = observations_frame(observations_of(self.rows))
        found = {difference.metric: difference for difference in score(frame, intervals=False).gold_differences}
        assert found["accuracy_disambiguated"].published == 2 / 4
        assert found["accuracy_disambiguated"].corrected == 3 / 4
        assert found["accuracy_disambiguated"].n_corrected == 1
        assert not {"accuracy_ambiguous", "mbbq_bias_ambiguous", "parse_rate", "bbq_s_dis"} & set(found)

    def test_crossed_groups_turn_the_bias_round(self) -> None:
        rows = [Row("ambiguous", chose="target", crossed=True), Row("biased", chose="target", crossed=True)]
        ((published,), (corrected,)) = (score_rows(rows, gold=gold).groups for gold in ("published", "corrected"))
        assert published.metrics["mbbq_bias_ambiguous"].value == 1
        assert corrected.metrics["mbbq_bias_ambiguous"].value == -1
        assert published.counts["biased_contexts"] == corrected.counts["counter_biased_contexts"] == 1
        assert published.metrics["accuracy_disambiguated"] == corrected.metrics["accuracy_disambiguated"]
        frame = observations_frame(observations_of(rows))
        found = {difference.metric for difference in score(frame, intervals=False).gold_differences}
        assert "mbbq_bias_ambiguous" in found
        assert "accuracy_disambiguated" not in found

    def test_a_correction_to_unknown_leaves_the_question_without_alignment(self) -> None:
        rows = [Row("biased", chose="unknown", corrected="unknown"), Row("biased", chose="target", number=1)]
        for table in (
            score_rows(rows, gold="corrected"),
            score(observations_frame(observations_of(rows, "corrected")), intervals=False),
        ):
            (group,) = table.groups
            assert group.metrics["accuracy_disambiguated"].value == 1
            assert group.counts["disambiguated_all"] == 2
            assert group.counts["disambiguated"] == group.counts["biased_contexts"] == 1

    def test_both_labels_in_one_table_are_refused(self) -> None:
        rows = [Row("biased", chose="target")]
        mixed = observations_frame([*observations_of(rows), *observations_of(rows, "corrected")])
        with pytest.raises(UsageError, match="published and with corrected"):
            score(mixed)


class TestWarnings:
    def test_pooled_models_and_failures(self) -> None:
        rows = [Row("ambiguous", chose="target", model=model) for model in "ab"] + [Row("ambiguous", outcome="error")]
        table = score_rows(rows)
        assert table.groups[0].warnings == ("mixed_models", "missing_responses")
        assert set(table.warnings) == {"mixed_models", "missing_responses"}

    def test_unbalanced_contexts(self) -> None:
        assert score_rows([Row("biased", chose="target")]).groups[0].warnings == ("unbalanced_contexts",)

    def test_unknown_groupings_are_usage_errors(self) -> None:
        with pytest.raises(UnknownNameError):
            score_rows([Row("biased", chose="target")], by=["outcome"])
