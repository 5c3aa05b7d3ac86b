from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.prompts.sampling import KINDS
from mbbq_gen.runs.adaptive import SamplingRounds
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.runs.stopping_rule import StoppingRecord
from mbbq_gen.storage.ledgers import CandidateRequest, Stratum
from tests.cli.test_commands import asked_each, responses, wait_until
from tests.fake_service.client import fake_server
from tests.support.cases import known
from tests.support.extraction import Capture, call, json_of, start, stderr_of, succeed
from tests.support.prices import write_prices
from tests.support.stores import column, rows

STARTER = ["--benchmark", "starter", "--splits", "bias", "--variants", "bare,letters,polite"]
RANDOM = ["--model", "oracle:random", *STARTER]
EN = Stratum("b", "bias", "en", "age")


def stopped(path: Path) -> StoppingRecord:
    return known(RunFolder(path).manifest().adaptive)


def taken(path: Path) -> list[tuple[str, int]]:
    return [(key, number) for key, number in rows(path, "SELECT request_key, round FROM rounds ORDER BY request_key")]


def deck(
    templates: int, questions: int, wordings: int = 3, orders: int = 3, stratum: Stratum = EN
) -> list[CandidateRequest]:
    """Every question of two kinds in every wording, in an order that changes from one to the next."""
    return [
        CandidateRequest(
            f"{stratum[2]}-{template}-{kind}-{question}-{wording}",
            stratum,
            f"t{template}",
            KINDS[0 if kind == 0 else 2],
            f"{template}-{kind}-{question}",
            f"w{wording}",
            f"o{(question + wording) % orders}",
            0,
            1,
        )
        for template in range(templates)
        for kind in range(2)
        for question in range(questions)
        for wording in range(wordings)
    ]


def test_a_round_is_balanced_whenever_it_ends() -> None:
    rounds = SamplingRounds(deck(10, 12), seed=0)
    asked: list[CandidateRequest] = []
    for _ in range(6):
        asked += rounds.next_round(rounds.strata({}))
        by_template = Counter(ask.template for ask in asked)
        by_kind = Counter((ask.template, ask.kind) for ask in asked)
        wordings, orders = Counter(ask.prompt_variant for ask in asked), Counter(ask.order for ask in asked)
        questions = Counter(ask.question for ask in asked)
        assert len(set(by_template.values())) == 1
        assert len(set(by_kind.values())) == 1
        assert max(wordings.values()) - min(wordings.values()) <= 0.1 * len(asked)
        assert max(orders.values()) - min(orders.values()) <= 0.1 * len(asked)
        # Within a wording, a question is asked again only where all others were asked as often.
        assert max(questions.values()) <= -(-len(asked) // (10 * 2 * 12)) + 1
    assert len({ask.request_key for ask in asked}) == len(asked)


def test_it_stops_where_the_intervals_are_narrow_enough(capsys: Capture, run_path: Path) -> None:
    code, out, err = call(capsys, "run", run_path, *RANDOM, "--languages", "en,tr", "--stop-at-ci-width", "0.3")
    assert code == 0, err
    found = stopped(run_path)
    assert found.requests == len(taken(run_path)) < found.offered / 4
    assert [goal.group["language"] for goal in found.targets] == ["en", "tr"]
    assert all(goal.state == "reached" for goal in found.targets)
    assert all(
        goal.ci_high is not None and goal.ci_low is not None and goal.ci_high - goal.ci_low <= 0.3
        for goal in found.targets
    )
    assert found.sentence in err
    assert found.sentence in out
    kinds = "SELECT condition FROM instances JOIN prompts ON key = instance_key JOIN rounds USING (request_key)"
    assert set(column(run_path, kinds)) == {"ambiguous"}  # nothing else counts for the metric


@pytest.mark.slow
def test_intervals_of_a_run_that_looked_are_shown_wider(capsys: Capture, tmp_path: Path, run_path: Path) -> None:
    assert call(capsys, "run", run_path, *RANDOM, "--languages", "en", "--stop-when-decided", "bias != 0")[0] == 0
    level = known(stopped(run_path).level)
    code, out, err = call(capsys, "score", run_path, "--json")
    assert code == 0
    assert json.loads(out)["confidence_level"] == pytest.approx(1 - level)
    assert "hold 95 %" in err
    assert call(capsys, "run", tmp_path / "fixed", *RANDOM, "--languages", "en", "--answers-per-template", "4")[0] == 0
    fixed = json_of(capsys, "score", tmp_path / "fixed")
    assert fixed["confidence_level"] == 0.95
    assert fixed["groups"][0]["n_answers"] == 4 * 24


@pytest.mark.slow
@pytest.mark.parametrize(
    ("oracle", "question", "answer"),
    [("stereotyped", "bias != 0", "yes"), ("always_unknown", "bias != 0", None), ("stereotyped", "en != tr", None)],
)
def test_questions_are_answered_either_way(
    capsys: Capture, run_path: Path, oracle: str, question: str, answer: str | None
) -> None:
    asked = ["--model", f"oracle:{oracle}", *STARTER, "--languages", "en,tr", "--stop-when-decided", question]
    succeed(capsys, "run", run_path, *asked, "--equivalence-margin", "0.4")
    found = stopped(run_path)
    assert {goal.state for goal in found.targets} == {"reached"}
    assert {goal.explanation for goal in found.targets} == {answer or "smaller than 0.4"}
    assert found.requests <= found.offered / 4


@pytest.mark.slow
def test_what_was_asked_more_weighs_no_more(capsys: Capture, run_path: Path) -> None:
    arguments = [*RANDOM, "--languages", "en,tr,es", "--answers-per-template", "4"]
    assert call(capsys, "run", run_path, *arguments)[0] == 0
    assert call(capsys, "run", run_path, "--stop-when-decided", "en != tr", "--equivalence-margin", "0.1")[0] == 0
    by_language, together = (
        json_of(capsys, "score", run_path, "--group-by", names)["groups"] for names in ("language,split", "split")
    )
    sizes = {group["group"]["language"]: group["counts"]["ambiguous"] for group in by_language}
    assert sizes["en"] == sizes["tr"] > sizes["es"] == 24 * 4
    bias = [group["metrics"]["mbbq_bias_ambiguous"] for group in (*by_language, *together)]
    assert bias[3]["value"] == pytest.approx(sum(each["value"] for each in bias[:3]) / 3)
    assert together[0]["counts"]["ambiguous"] == sum(sizes.values())
    counts = sum(each["fractions"][0]["numerator"] for each in bias[:3])
    assert bias[3]["fractions"][0]["numerator"] == counts


def test_position_bias_weighs_as_scores_do(capsys: Capture, tmp_path: Path) -> None:
    path = tmp_path / "run"
    arguments = [*RANDOM, "--languages", "en", "--sample", "100", "--answers-per-template", "99"]
    assert call(capsys, "run", path, *arguments)[0] == 0
    assert call(capsys, "run", path, "--stop-at-ci-width", "0.9")[0] == 0

    def told(*words: object) -> Any:
        return json_of(capsys, *words)

    asked = told("score", path, "--group-by", "template")["groups"]
    assert len({group["counts"]["ambiguous"] for group in asked}) > 1
    (group,) = told("score", path)["groups"]
    score = group["metrics"]["mbbq_bias_ambiguous"]["value"]
    (place,) = told("position-bias", path)["groups"]
    (bias,) = [found for found in place["scores"] if found["metric"] == "mbbq_bias_ambiguous"]
    assert bias["plain"]["value"] == pytest.approx(score)


@pytest.mark.usefixtures("api_keys")
def test_money_that_is_spent_stops_it_and_more_goes_on(capsys: Capture, tmp_path: Path) -> None:
    path, prices = tmp_path / "run", write_prices(tmp_path)
    with fake_server({"answers": {"oracle": "random"}}) as server:
        asked: list[Any] = ["--model", "openai:fake", "--base-url", server.openai, *STARTER, "--languages", "en"]
        asked += ["--prices", prices, "--max-tokens", 100]
        err = stderr_of(capsys, "run", path, *asked, "--stop-at-ci-width", "0.35", "--max-cost", "6000", code=1)
        assert "--max-cost" in err
        assert "stopped by --max-cost" in stopped(path).sentence
        part = server.stats().paid
        assert 0 < part < len(taken(path))
        assert call(capsys, "run", path, "--max-cost", "100000000")[0] == 0
        assert server.stats().paid == len(taken(path)) > part
    assert "reached" in stopped(path).sentence


@pytest.mark.usefixtures("api_keys")
def test_a_killed_run_goes_on_where_it_was(run_path: Path, capsys: Capture) -> None:
    with fake_server({"latency": {"seconds": 0.05}, "answers": {"oracle": "random"}}) as server:
        asked = ["--model", "openai:fake", "--base-url", server.openai, *STARTER, "--languages", "en"]
        asked += ["--max-connections", "4", "--stop-at-ci-width", "0.4"]
        process = start("run", run_path, *asked)
        wait_until(process, lambda: len(responses(run_path)) >= 20)
        process.kill()
        process.communicate()
        kept, begun = responses(run_path), taken(run_path)
        assert kept
        assert len(kept) < len(begun)
        before = asked_each(server, run_path, kept)
        server.change({"latency": {"seconds": 0}})
        succeed(capsys, "run", run_path)
        assert kept.items() <= responses(run_path).items()
        assert set(begun) <= set(taken(run_path))
        assert len(responses(run_path)) == len(taken(run_path)) == stopped(run_path).requests
        assert asked_each(server, run_path, before) == before, "what was stored is not asked again"


@pytest.mark.usefixtures("api_keys")
def test_rounds_are_batches(run_path: Path, capsys: Capture) -> None:
    with fake_server({"answers": {"oracle": "random"}}) as server:
        asked = ["--model", "openai:fake", "--base-url", server.openai, *STARTER, "--languages", "en", "--batch"]
        assert call(capsys, "run", run_path, *asked, "--stop-at-ci-width", "0.35")[0] == 0
        first = len(taken(run_path))
        for _ in range(20):
            if RunFolder(run_path).manifest().adaptive is not None:
                break
            assert call(capsys, "run", run_path)[0] == 0
    found = stopped(run_path)
    assert found.rounds > 1
    assert first < found.requests == len(taken(run_path)) == len(responses(run_path))


def test_too_few_templates_cost_nothing(capsys: Capture, run_path: Path) -> None:
    goal = ["--stop-at-ci-width", "0.5", "--group-by", "category"]
    err = stderr_of(capsys, "run", run_path, *RANDOM, "--languages", "en", *goal)
    assert err.splitlines()[-1].startswith("error: --stop-at-ci-width: no category has more than 4 templates")
    assert taken(run_path) == []


def test_what_is_not_said_again_stays(capsys: Capture, run_path: Path) -> None:
    """A narrower width for the same scores: nobody has to name them twice."""
    goal = ["--stop-at-ci-width", "0.5", "--metric", "accuracy_ambiguous", "--group-by", "language"]
    assert call(capsys, "run", run_path, *RANDOM, "--languages", "en,tr", *goal)[0] == 0
    assert call(capsys, "run", run_path, "--stop-at-ci-width", "0.4")[0] == 0
    rule = stopped(run_path).rule
    assert (rule.width, rule.metrics, rule.group_by) == (0.4, ("accuracy_ambiguous",), ("language",))
    assert call(capsys, "run", run_path, "--stop-when-decided", "en != tr", "--equivalence-margin", "0.2")[0] == 0
    assert call(capsys, "run", run_path, "--stop-when-decided", "bias != 0")[0] == 0
    rule = stopped(run_path).rule
    assert (rule.equivalence_margin, rule.metrics, rule.group_by) == (0.2, ("accuracy_ambiguous",), ("language",))
    err = stderr_of(capsys, "run", run_path, "--stop-at-ci-width", "0.3")
    assert f"{run_path}: was sent until a decision" in err.replace("\n", " ")


def test_a_run_without_rounds_stays_one(capsys: Capture, run_path: Path) -> None:
    assert call(capsys, "run", run_path, *RANDOM, "--languages", "en", "--sample", "20")[0] == 0
    err = stderr_of(capsys, "run", run_path, "--stop-at-ci-width", "0.2")
    assert f"{run_path}: was started without a stopping rule" in err.replace("\n", " ")


def test_a_goal_that_is_given_up_makes_no_other_interval_wide(capsys: Capture, run_path: Path) -> None:
    """Its last look spends the error that there is: 1 − 10⁻⁶ would be asked of all scores of the run else."""
    succeed(capsys, "run", run_path, *RANDOM, "--languages", "en", "--stop-at-ci-width", "0.03")
    found = stopped(run_path)
    (goal,) = found.targets
    assert goal.state in ("futile", "exhausted")
    assert known(found.level) > 0.03
    assert known(goal.ci_high) - known(goal.ci_low) < 0.6
