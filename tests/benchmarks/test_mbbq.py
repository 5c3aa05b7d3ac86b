from __future__ import annotations

import json
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mbbq_gen.benchmarks.readers.mbbq import normalise_group
from mbbq_gen.benchmarks.registry import find_benchmark, load_benchmark
from mbbq_gen.core.errors import DataError, UsageError
from mbbq_gen.core.records import Instance, Split
from tests.benchmarks.test_published import counts
from tests.conftest import Load
from tests.support.cases import cases

LANGUAGES = ("en", "es", "nl", "tr")
SPLITS: dict[str, Split] = {"main": "bias", "control": "control"}


@pytest.fixture
def own(data: Path) -> Path:
    return data / "datasets" / "mbbq"


def load_mbbq(folder: Path, language: str, split: Split) -> Iterator[Instance]:
    return load_benchmark("mbbq", data=folder, languages=[language], splits=[split])


def by_id(folder: Path, language: str = "en", split: Split = "bias") -> dict[str, Instance]:
    return {instance.instance_id: instance for instance in load_mbbq(folder, language, split)}


def test_same_gender_pair_is_kept_but_not_scored(own: Path) -> None:
    pair = by_id(own)["gender_identity/5"]
    assert not pair.has_single_target
    assert pair.no_target_reason == "no single target: the options are man and boy, stereotyped is F"
    assert (pair.gold_role, pair.gold_index, pair.alignment) == (None, 0, None)
    assert by_id(own)["gender_identity/4"].gold_role == "unknown"


def test_missing_folder_and_files_are_named(own: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"no folder .*nowhere.*--data-dir DIR"):
        load_mbbq(tmp_path / "nowhere", "en", "bias")
    with pytest.raises(UsageError, match=r"no Age_en\.jsonl, .* and 3 more in"):
        load_mbbq(tmp_path, "en", "bias")
    shutil.copytree(own, tmp_path / "copy")
    (tmp_path / "copy" / "data" / "SES_en.jsonl").unlink()
    with pytest.raises(UsageError, match=r"lacks SES_en\.jsonl; the copy is incomplete"):
        load_mbbq(tmp_path / "copy", "en", "bias")


def _changed(**changes: object) -> Callable[[bytes], bytes]:
    return lambda line: json.dumps(json.loads(line) | changes, ensure_ascii=False).encode() + b"\n"


def _without(key: str) -> Callable[[bytes], bytes]:
    return lambda line: json.dumps({k: v for k, v in json.loads(line).items() if k != key}).encode() + b"\n"


def _info(*third: str) -> dict[str, list[str]]:
    return {"ans0": ["a", "old"], "ans1": ["b", "nonOld"], "ans2": list(third)}


@pytest.mark.parametrize(
    ("row", "breaking", "message"),
    [
        (2, lambda line: line[:-40] + b"\n", r"Age_en\.jsonl:2: not JSON: .*; the line is cut off"),
        (2, lambda line: line.replace(b"gave", b"gav\xe9"), r":2: not UTF-8 \(byte 0xe9 .*; save .* as UTF-8"),
        (2, _changed(label=3), r":2: label: Expected `int` <= 2 \(value: 3\)"),
        (2, _changed(label="1"), r":2: label: Expected `int`, got `str` \(value: '1'\)"),
        (2, _changed(label=2), r":2: label: 2 contradicts the condition 'disambiguated' \(the unknown option is 2\)"),
        (4, _changed(label=1), r":4: label: 1 is also the label of the negative question in row 2"),
        (3, _changed(question_polarity="non-neg"), r":3: question_polarity: .* allowed: neg, nonneg"),
        (3, _changed(context=" "), r":3: context: Expected `str` matching"),
        (3, _without("context"), r":3: context: is missing"),
        (3, _changed(category="Old"), r":3: category: 'Old' in the file of Age"),
        (3, _changed(example_id=7), r":4: example_id: 3 comes after 7; published ids increase"),
        (3, _changed(answer_info=_info("c")), r":3: answer_info\.ans2: Expected .* length >= 2"),
        (3, _changed(answer_info=_info("c", "unknown")), r":3: answer_info: other people than in the rows before"),
        (3, lambda line: b"", r"en\.jsonl:3: context_condition: 'disambig' where 'ambig' comes next; a row is missing"),
        (8, lambda line: b"", r"Age_en\.jsonl:7: the file ends after 3 of 4 rows of a group"),
    ],
)  # fmt: skip
def test_broken_rows_are_named(
    own: Path, tmp_path: Path, row: int, breaking: Callable[[bytes], bytes], message: str
) -> None:
    shutil.copytree(own, tmp_path / "copy")
    path = tmp_path / "copy" / "data" / "Age_en.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    lines[row - 1] = breaking(lines[row - 1])
    path.write_bytes(b"".join(lines))
    with pytest.raises(DataError, match=message) as caught:
        list(load_mbbq(tmp_path / "copy", "en", "bias"))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("group", "category", "form"), cases("benchmarks/mbbq", "groups_have_one_form"))
def test_groups_have_one_form(group: str, category: str, form: str) -> None:
    assert normalise_group(group, category) == form


@pytest.fixture(scope="module")
def published(load_published: Load) -> dict[tuple[str, str], list[Instance]]:
    return {
        (main, language): load_published("mbbq", language, split)
        for main, split in SPLITS.items()
        for language in LANGUAGES
    }


def parallel_promise(instance: Instance) -> tuple[object, ...]:
    return instance.template_id, instance.condition, instance.polarity, instance.alignment, instance.gold_role


@pytest.mark.slow
def test_published_counts(published: dict[tuple[str, str], list[Instance]], shared_datasets: Path) -> None:
    expected = json.loads((shared_datasets / "EXPECTED_COUNTS.json").read_text(encoding="utf-8"))["mbbq"]
    # The expected Spanish counts are from before "La chica" is mended: after it, they are those of English.
    expected["main/es/Gender_identity"] = expected["main/en/Gender_identity"]
    found = {
        f"{split}/{language}/{category}": counts([i for i in instances if i.category == slug])
        for (split, language), instances in published.items()
        for category, slug in find_benchmark("mbbq").categories.items()
    }
    assert found == expected
    everything = [instance for instances in published.values() for instance in instances]
    assert len(everything) == 80_640
    assert sum(not instance.has_single_target for instance in everything) == 64


KNOWN: dict[str, Callable[[Instance], bool]] = {
    "same_gender_pair": lambda instance: not instance.has_single_target,
    "wrong_group_tag": lambda instance: "group_corrected" in instance.data_issues,
    "wrong_gold_label": lambda instance: instance.corrected_gold_role is not None,
    "two_questions_in_one": lambda instance: "two_questions" in instance.data_issues,
    "unbalanced_brace": lambda instance: "stray_brace" in instance.data_issues,
}


@pytest.mark.slow
def test_known_issues_come_out_and_no_others(
    published: dict[tuple[str, str], list[Instance]], shared_datasets: Path
) -> None:
    expected = {
        (issue["split"], issue["language"], issue["category"], issue["code"]): issue["row_ids"]
        for issue in json.loads((shared_datasets / "KNOWN_ISSUES.json").read_text(encoding="utf-8"))
        if issue["dataset"] == "mbbq" and issue["code"] in KNOWN
    }
    found = defaultdict(list)
    for (split, language), instances in published.items():
        for instance in instances:
            row = instance.metadata["source_row"]
            for code, holds in KNOWN.items():
                if holds(instance):
                    found[split, language, row["category"], code].append(row["example_id"])
    assert found == expected


@pytest.mark.slow
def test_parallel_ids_keep_their_promise(published: dict[tuple[str, str], list[Instance]]) -> None:
    promises: dict[str, tuple[object, ...]] = {}
    versions: dict[str, object] = {}
    for instances in published.values():
        ids = [instance.parallel_id for instance in instances if instance.parallel_id is not None]
        assert len(ids) == len(set(ids))
        for instance in instances:
            if instance.parallel_id is not None:
                promise = parallel_promise(instance)
                assert promises.setdefault(instance.parallel_id, promise) == promise
                version = instance.metadata["version"]
                assert versions.setdefault(instance.parallel_id, version) == version


@pytest.mark.slow
def test_corrected_labels_balance_physical_appearance(published: dict[tuple[str, str], list[Instance]]) -> None:
    for instances in published.values():
        rows = [i for i in instances if i.category == "physical_appearance" and i.condition == "disambiguated"]
        repaired = Counter(i.alignment_of(i.corrected_gold_role or i.gold_role) for i in rows)
        assert repaired == {"biased": 294, "counter_biased": 294}
