from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen import Run
from mbbq_gen.cli.main import run_command_line
from tests.support.extraction import Capture, json_of, stderr_of


def ask(folder: Path, model: str, *arguments: str) -> Path:
    selection = ("--benchmark", "starter", "--languages", "en,tr", "--variants", "letters,bare", "--sample", "24")
    assert run_command_line(["run", str(folder), "--model", model, *selection, *arguments]) == 0
    return folder


@pytest.fixture(scope="module")
def dice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "dice"
    return ask(folder, "oracle:random", "--method", "generate,loglikelihood,label-loglikelihood")


def agreement(capsys: Capture, folder: Path, *arguments: object) -> Any:
    return json_of(capsys, "agreement", folder, "--n-resamples", 100, *arguments)


def counted(folder: Path, first: str, second: str, language: str, split: str) -> Counter[tuple[str, str]]:
    """Role chosen by the one way, and by the other, of every pair: by plain loops over the items."""
    rows = [row for row in Run(folder).samples().to_dicts() if (row["language"], row["split"]) == (language, split)]
    found: Counter[tuple[str, str]] = Counter()
    for ours in (row for row in rows if row["method"] == first):
        for theirs in (row for row in rows if row["method"] == second):
            same_question = ours["instance_key"] == theirs["instance_key"]
            shown_alike = (ours["variant"], ours["option_order"]) == (theirs["variant"], theirs["option_order"])
            if same_question and (shown_alike or second == "loglikelihood" or first == "loglikelihood"):
                found[ours["chosen_role"], theirs["chosen_role"]] += 1
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    "ways",
    [("generate", "loglikelihood"), ("generate", "label-loglikelihood"), ("loglikelihood", "label-loglikelihood")],
)
def test_shares_kappas_and_flips_are_those_of_plain_counting(
    dice: Path, capsys: Capture, ways: tuple[str, str]
) -> None:
    found = agreement(capsys, dice)
    for language in ("en", "tr"):
        for split in ("bias", "control"):
            pairs = counted(dice, *ways, language, split)
            total = sum(pairs.values())
            assert total == 48
            equal = sum(count for (one, other), count in pairs.items() if one == other) / total
            roles = ("target", "non_target", "unknown")
            ours = {role: sum(pairs[role, other] for other in roles) for role in roles}
            theirs = {role: sum(pairs[other, role] for other in roles) for role in roles}
            chance = sum(ours[role] * theirs[role] for role in roles) / total**2
            which = {"first": ways[0], "second": ways[1], "language": language, "split": split}
            (row,) = (row for row in found["pairs"] if row.items() >= which.items())
            assert (row["n_pairs"], row["n_read"]) == (total, total)
            assert row["equal_share"]["value"] == pytest.approx(equal)
            assert row["kappa"]["value"] == pytest.approx((equal - chance) / (1 - chance))
            flips = {(flip["first"], flip["second"]): flip["n"] for flip in row["flips"]}
            assert flips == {pair: count for pair, count in pairs.items() if pair[0] != pair[1]}


def test_each_ways_scores_are_those_of_score(dice: Path, capsys: Capture) -> None:
    found = agreement(capsys, dice, "--metric", "accuracy_disambiguated")
    groups = json_of(capsys, "score", dice, "--group-by", "language,split,method", "--n-resamples", 100)["groups"]
    metric = "accuracy_disambiguated"
    scores = {tuple(group["group"].values()): group["metrics"][metric]["value"] for group in groups}
    assert len(found["scores"]) == len(scores) == 12
    for row in found["scores"]:
        where = (row["language"], row["split"])
        assert row["score"]["value"] == pytest.approx(scores[*where, row["method"]])
        if row["method"] == "generate":
            assert row["minus_first"] is None
        else:
            expected = scores[*where, row["method"]] - scores[*where, "generate"]
            assert row["minus_first"]["value"] == pytest.approx(expected)


def test_one_way_alone_cannot_be_compared(tmp_path: Path, capsys: Capture) -> None:
    assert "--method generate,loglikelihood" in stderr_of(capsys, "agreement", ask(tmp_path / "run", "oracle:perfect"))
