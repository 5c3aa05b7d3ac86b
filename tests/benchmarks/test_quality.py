from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.benchmarks.quality import count_instances, published_counts, validate
from mbbq_gen.benchmarks.registry import load_benchmark
from mbbq_gen.core.records import Instance
from tests.conftest import FULL
from tests.support.cases import cases
from tests.support.questions import options
from tests.support.questions import question as any_question


def question(number: int = 1, **changes: object) -> Instance:
    context = f"A pensioner and a student met on platform {number}."
    return any_question(**{"instance_id": str(number), "context": context} | changes)


def codes(*instances: Instance) -> dict[str, int]:
    """Code → how many rows, but for the order, which is the same in all these questions."""
    return {finding.code: finding.count for finding in validate(instances) if finding.code != "order_confounded"}


@pytest.mark.parametrize(("changes", "code"), cases("benchmarks/quality", "odd_rows_are_found"))
def test_odd_rows_are_found(changes: dict[str, Any], code: str) -> None:
    if "options" in changes:
        changes = changes | {"options": options(*changes["options"])}
    assert codes(question(1, **changes)).get(code) == 1


def test_repeated_rows_and_questions_are_told_apart() -> None:
    other = options("The pensioner", "The student", "Unknown")
    assert codes(question(1), question(2, context=question(1).context)) == {"duplicate_row": 1}
    assert codes(question(1), question(2, context=question(1).context, options=other)) == {"duplicate_question": 1}


def test_rows_without_a_counterpart_are_found() -> None:
    assert codes(question(1, parallel_id="a"), question(2)) == {"not_parallel": 1}
    assert codes(question(1), question(2)) == {}


def test_counts_that_differ_between_languages_are_found() -> None:
    found = validate([question(1), question(2), question(1, language="nl")])
    (finding,) = (finding for finding in found if finding.code == "counts_differ")
    assert (finding.count, finding.examples, finding.language) == (1, ("en: 2", "nl: 1"), None)


def test_an_order_that_gives_the_role_away_is_found() -> None:
    same = [question(number) for number in range(1, 21)]
    assert len([finding for finding in validate(same) if finding.code == "order_confounded"]) == 3
    turned = [q.model_copy(update={"options": (*q.options[i % 3 :], *q.options[: i % 3])}) for i, q in enumerate(same)]
    assert not [finding for finding in validate(turned) if finding.code == "order_confounded"]


def test_unbalanced_contexts_are_found() -> None:
    biased = {"condition": "disambiguated", "gold_role": "target"}
    assert codes(question(1, **biased)) == {"contexts_unbalanced": 1}
    assert codes(question(1, **biased), question(2, condition="disambiguated", gold_role="non_target")) == {}


def test_counts_by_category_and_their_sum(data: Path) -> None:
    instances = load_benchmark("mbbq", data=data / "datasets" / "mbbq", languages=["en"])
    counted = {(c.split, c.category): c for c in count_instances(instances)}
    gender = counted["bias", "gender_identity"]
    assert (gender.rows, gender.templates, gender.ambiguous, gender.negative) == (12, 3, 6, 6)
    assert (gender.biased, gender.counter_biased, gender.unscorable) == (0, 4, 4)
    assert counted["bias", "physical_appearance"].wrong_labels == 2
    assert (counted["bias", "all"].rows, counted["control", "all"].rows) == (40, 32)
    assert counted["bias", "all"].published_rows == 10_072
    assert counted["bias", "all"].agrees is False
    bbq = list(count_instances(load_benchmark("bbq", data=data / "datasets" / "bbq")))
    assert (bbq[-1].note or "").startswith("not in this copy: age, disability_status, race_ethnicity")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "folder"),
    [("esbbq", "esbbq"), ("kobbq", "kobbq"), *([("mbbq", "mbbq"), ("bbq", "bbq"), ("cabbq", "esbbq")] if FULL else [])],
)
def test_published_files_hold_what_the_papers_say_or_a_note_says_why_not(
    shared_datasets: Path, name: str, folder: str
) -> None:
    differing: dict[str, set[str | None]] = defaultdict(set)
    for count in count_instances(load_benchmark(name, data=shared_datasets / folder)):
        if count.agrees is False and count.category != "all":
            differing[count.category].add(count.note)
    for notes in differing.values():
        assert None not in notes
    assert set(differing) == set(published_counts()[name].get("notes", {}))


def test_repeated_ids_are_found() -> None:
    assert codes(question(1), question(1, context="Another story.")) == {"duplicate_id": 1}
    assert codes(question(1), question(1, split="control"), question(1, language="nl")) == {}


@pytest.mark.slow
def test_published_mbbq_audits_as_known(shared_datasets: Path) -> None:
    languages = ["en", "es", "nl", "tr"] if FULL else ["es", "tr"]
    known: dict[tuple[str, str, str, str], int] = {}
    names = {"option_contained_in_option": "nested_options", "option_starts_with_letter_A": "label_like_option"}
    names |= {"tr_ascii_capital_I": "ascii_capital_i", "unbalanced_brace": "stray_brace"}
    for issue in json.loads((shared_datasets / "KNOWN_ISSUES.json").read_text(encoding="utf-8")):
        if issue["dataset"] == "mbbq" and issue["code"] in names and issue["language"] in languages:
            split = "bias" if issue["split"] == "main" else "control"
            known[names[issue["code"]], split, issue["language"], issue["category"].lower()] = issue["n"]
    found = validate(load_benchmark("mbbq", data=shared_datasets / "mbbq", languages=languages))
    assert {(f.code, f.split, f.language, f.category): f.count for f in found if f.code in names.values()} == known
    repeated: Counter[tuple[str | None, str | None]] = Counter()
    for finding in found:
        if finding.code == "duplicate_row":
            repeated[finding.split, finding.language] += finding.count
    rows = {
        ("bias", "en"): 4, ("bias", "es"): 30, ("bias", "nl"): 10, ("bias", "tr"): 34,
        ("control", "en"): 4, ("control", "es"): 12, ("control", "nl"): 6, ("control", "tr"): 8,
    }  # fmt: skip
    assert repeated == {which: count for which, count in rows.items() if which[1] in languages}
