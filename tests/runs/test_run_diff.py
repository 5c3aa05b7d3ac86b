from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from mbbq_gen import Run
from mbbq_gen.cli.main import run_command_line
from mbbq_gen.core.files import PackPaths
from mbbq_gen.runs.run_diff import RunDiff, compare_runs
from mbbq_gen.runs.run_folder import RunFolder
from tests.support.cases import cases
from tests.support.extraction import Capture, call, copy_run, make_run, succeed


def ask(folder: Path, model: str, *arguments: str) -> Path:
    settings = {"--languages": "en", "--variants": "letters", "--sample": "24", "--splits": "bias"}
    given = dict(zip(arguments[::2], arguments[1::2], strict=True))
    options = [word for pair in {**settings, **given}.items() for word in pair]
    assert run_command_line(["run", str(folder), "--model", model, "--benchmark", "starter", *options]) == 0
    return folder


def differ(first: Path, second: Path) -> RunDiff:
    return compare_runs(RunFolder(first), RunFolder(second), PackPaths())


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("runs")
    return {
        "perfect": ask(folder / "perfect", "oracle:perfect"),
        "stereotyped": ask(folder / "stereotyped", "oracle:stereotyped"),
        "first_option": ask(folder / "first_option", "oracle:first_option"),
        "first_option_turned": ask(folder / "first_option_turned", "oracle:first_option", "--option-order", "all"),
        "first_option_moved": ask(folder / "first_option_moved", "oracle:first_option", "--option-order", "shuffled"),
        "other_order": ask(folder / "other_order", "oracle:perfect", "--option-order", "shuffled"),
        "other_wording": ask(folder / "other_wording", "oracle:perfect", "--variants", "bare"),
        "system": ask(folder / "system", "oracle:perfect", "--system-prompt", "Be brief."),
        "turkish": ask(folder / "turkish", "oracle:perfect", "--languages", "tr"),
    }


def test_a_run_does_not_differ_from_itself(runs: dict[str, Path]) -> None:
    found = differ(runs["perfect"], runs["perfect"])
    assert found.differing == ()
    assert (found.flipped, found.flips) == (0, ())
    assert found.pairs == 24


def test_from_perfect_to_stereotyped(runs: dict[str, Path]) -> None:
    found = differ(runs["perfect"], runs["stereotyped"])
    assert {(one.area, one.name) for one in found.differing} == {("settings", "model")}
    (group,) = found.groups
    assert group.group == {"benchmark": "starter", "language": "en", "split": "bias"}
    assert group.became_right == 0
    items = Run(runs["perfect"]).samples()
    wrong = items.filter((pl.col("condition") == "ambiguous") | (pl.col("alignment") == "counter_biased"))
    assert found.flipped == group.flipped == group.became_wrong == wrong.height
    assert sum(flip.count for flip in found.flips) == found.flipped
    assert {flip.first for flip in found.flips} == {"target", "non_target", "unknown"}
    assert all(flip.reread == 0 for flip in found.flips)


@pytest.mark.parametrize(("other", "settings"), cases("runs/run_diff", "items_are_paired_as_closely_as_they_can_be"))
def test_items_are_paired_as_closely_as_they_can_be(runs: dict[str, Path], other: str, settings: list[str]) -> None:
    found = differ(runs["perfect"], runs[other])
    assert {one.name for one in found.differing if one.area == "settings"} == set(settings)
    shared = {frame: set(Run(runs[frame]).samples()["instance_key"]) for frame in ("perfect", other)}
    assert found.pairs == len(shared["perfect"] & shared[other])
    assert found.only_first == found.only_second == 24 - found.pairs
    assert found.flipped == 0


def test_changed_packs_and_answers_are_found(tmp_path_factory: pytest.TempPathFactory, capsys: Capture) -> None:
    folder = tmp_path_factory.mktemp("changed")
    first = make_run(folder / "first")
    second = copy_run(first, folder)
    manifest = json.loads((second / "manifest.json").read_text())
    manifest["pack_digests"]["extractors/en.toml"] = "0" * 64
    manifest["config"]["model_args"] = {"temperature": 0.5}
    (second / "manifest.json").write_text(json.dumps(manifest))
    old = "The answer is B."
    _answer_anew(second, old, "I am not able to answer that.")
    named = Run(first).samples().filter(pl.col("response") == old, pl.col("chosen_role") != "unknown")
    changed = named.height  # a refusal chooses the unknown option
    assert changed > 0
    capsys.readouterr()
    code, out, err = call(capsys, "diff", first, second, "--json")
    assert code == 0, err
    found: dict[str, Any] = json.loads(out)
    assert found["schema_version"] == "mbbq-gen.diff/1"
    differing = {(one["area"], one["name"]): (one["first"], one["second"]) for one in found["differing"]}
    assert differing["settings", "model_args.temperature"] == (None, 0.5)
    assert differing["packs", "extractors/en.toml"][1] == "0" * 64
    assert len(differing) == 2
    assert found["flipped"] == changed
    counts: Counter[str] = Counter()
    for flip in found["flips"]:
        assert len(flip["examples"]) == min(flip["count"], 3)
        counts[flip["second"]] += flip["count"]
    assert counts.total() == changed
    assert counts.keys() <= {"refusal", "abstention"}
    assert "requests have no response yet" in err
    out = succeed(capsys, "diff", first, second)
    assert re.search(r"extractors/en.toml\s+[0-9a-f]{12}…\s+000000000000…", out)
    assert f"Changed answers: {changed} of {found['pairs']}" in out


def _answer_anew(run: Path, old: str, new: str) -> None:
    with RunFolder(run).open_store() as store:
        store.change(
            ("UPDATE responses SET record = json_set(record, '$.text', ?)"
             " WHERE json_extract(record, '$.text') = ?",
             [(new, old)]),
            ("DELETE FROM extractions", [()]),
        )  # fmt: skip


def test_runs_without_a_common_question(runs: dict[str, Path], capsys: Capture) -> None:
    found = differ(runs["perfect"], runs["turkish"])
    assert (found.pairs, found.groups, found.flips) == (0, (), ())
    assert (found.only_first, found.only_second) == (24, 24)
    assert {one.area for one in found.differing} >= {"settings", "packs", "questions", "extractors"}
    assert call(capsys, "diff", runs["perfect"], runs["turkish"])[0] == 0


def test_the_other_way_round_is_the_opposite(runs: dict[str, Path]) -> None:
    there = differ(runs["perfect"], runs["stereotyped"])
    back = differ(runs["stereotyped"], runs["perfect"])
    assert {(flip.first, flip.second): flip.count for flip in there.flips} == {
        (flip.second, flip.first): flip.count for flip in back.flips
    }
    for ours, theirs in zip(there.groups, back.groups, strict=True):
        assert (ours.became_right, ours.became_wrong) == (theirs.became_wrong, theirs.became_right)
