from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.core.files import PackPaths
from mbbq_gen.extraction.simple import SIMPLE_EXTRACTORS
from mbbq_gen.runs.extraction import explain_answer, extract_response
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.storage.queries import parse_completed, stored_extractions
from tests.support.cases import known
from tests.support.extraction import Capture, call, json_of, succeed
from tests.support.stores import column


def extract(capsys: Capture, run: Path, *arguments: object) -> dict[str, Any]:
    return dict(json_of(capsys, "extract", run, *arguments))


def older_reading(run: Path, version: str = "0+old") -> None:
    """Stores what an engine of old might have read: nothing anywhere but in every third answer, which it calls A."""
    with RunFolder(run).open_store() as store:
        for language in store.languages():
            answers = list(parse_completed(store.without_extraction(version, language), store))
            store.add_extractions(
                version,
                [
                    (
                        answered.prompt.prompt_id,
                        *(("option", 0) if n % 3 == 0 else ("unparsed", None)),
                        *("low", "", "[]", "[]"),
                    )
                    for n, answered in enumerate(answers)
                ],
            )


def test_a_score_is_that_of_the_reader(capsys: Capture, run: Path) -> None:
    """The parse rate under strict-match, counted by hand."""
    said = (
        "SELECT r.record FROM responses r JOIN prompts p USING (request_key) JOIN instances i ON i.key = p.instance_key"
    )
    of = "WHERE i.language = ? AND i.split = ?"
    for group in json_of(capsys, "score", run, "--extractor", "strict-match", "--metric", "parse_rate")["groups"]:
        records = column(run, f"{said} {of}", group["group"]["language"], group["group"]["split"])
        texts = [json.loads(record) for record in records]
        had = [one for one in texts if one["error"] is None and one["finish_reason"] != "content_filter"]
        read = sum(one["text"].strip() in {"A", "B", "C"} for one in had)
        assert group["metrics"]["parse_rate"]["value"] == pytest.approx(read / len(had))


def test_compare_across_extractors(capsys: Capture, run: Path) -> None:
    for name in ("first-label", "mbbq-like"):
        extract(capsys, run, "--extractor", name)
    extract(capsys, run, "--extractor", "strict-match", "--languages", "en")
    with RunFolder(run).open_store() as store:
        part = "SELECT prompt_id FROM extractions WHERE extractor = 'strict-match+1' LIMIT 5"
        store.change((f"DELETE FROM extractions WHERE extractor = 'strict-match+1' AND prompt_id IN ({part})", [()]))
    older_reading(run)
    few = ["--metric", "mbbq_bias_ambiguous", "--n-resamples", 200]
    code, out, err = call(capsys, "compare", run, "--across", "extractor", *few, "--json")
    assert code == 0, err
    assert "strict-match+1" in err
    levels = {
        level["level"]
        for comparison in json.loads(out)["comparisons"]
        for metric in comparison["metrics"]
        for level in metric["levels"]
    }
    assert levels == {"rules", "first-label", "mbbq-like", "0+old"}


def test_lines_are_read_by_every_reader(capsys: Capture, tmp_path: Path) -> None:
    line: dict[str, Any] = {"id": 1, "language": "en", "options": ["The tailor", "The baker", "Unknown"]}
    line |= {"labels": ["A", "B", "C"], "unknown_index": 2, "response": "A fine question. It was the baker."}
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps(line) + "\n")
    found = {}
    for name in ("rules", *SIMPLE_EXTRACTORS):
        found[name] = json_of(capsys, "extract", "--jsonl", path, "--extractor", name)["option"]
    assert found == {"rules": 1, "strict-match": None, "first-label": 0, "mbbq-like": 1, "answer-line": None}


def test_a_failure_is_never_read(run: Path) -> None:
    from mbbq_gen.runs.extraction import extractor_for

    with RunFolder(run).open_store(read_only=True) as store:
        unread = [row for language in store.languages() for row in store.without_extraction("none", language)]
        answers = list(parse_completed(unread, store))
    for name in ("rules", *SIMPLE_EXTRACTORS):
        for answered in answers:
            outcome = extract_response(answered, extractor_for(name, answered.prompt.language, PackPaths())).outcome
            assert (outcome == "error") == (answered.response.error is not None)
            assert (outcome == "content_filter") == (answered.response.finish_reason == "content_filter")


def test_an_answer_in_another_language_is_read_by_the_parallel_question(capsys: Capture, tmp_path: Path) -> None:
    names = {"en": "The falconer", "nl": "De valkenier"}
    with (tmp_path / "two.jsonl").open("w", encoding="utf-8") as stream:
        for language, name in names.items():
            question = json.loads(
                call(capsys, "data", "show", "starter", "--languages", language, "--limit", 1, "--json")[1]
            )
            next(option for option in question["options"] if option["role"] == "non_target")["text"] = name
            stream.write(json.dumps(question) + "\n")
    lines = [{"response": "The falconer had trouble, I'd say.", "language": "nl"}, {"response": "C", "language": "en"}]
    (tmp_path / "said.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    script = f"scripted:{tmp_path / 'said.jsonl'}"
    for languages, rule in (("en,nl", "alias:"), ("nl", "no_candidate")):
        path = tmp_path / languages
        arguments = ["--instances", tmp_path / "two.jsonl", "--languages", languages]
        arguments += ["--variants", "bare", "--option-order", "all"]
        succeed(capsys, "run", path, "--model", script, *arguments, "--json")
        with RunFolder(path).open_store(read_only=True) as store:
            found = list(parse_completed(store.without_extraction("none", "nl"), store))
            assert len(found) == 6
            for answered in found:
                reading = next(iter(stored_extractions(store, answered.prompt.prompt_id).values()))
                assert reading.rule.startswith(rule)
                told = known(explain_answer(answered, PackPaths()))
                assert told.extraction == reading
                chosen = (
                    reading.option is not None
                    and answered.instance.options[answered.prompt.option_order[reading.option]]
                )
                assert (chosen and chosen.text) == (languages == "en,nl" and "De valkenier")


def test_an_older_engine_is_what_the_engine_is_compared_with(capsys: Capture, run: Path) -> None:
    older_reading(run)
    found = extract(capsys, run)
    assert found["read"] == 0
    assert set(found["compared_with"].values()) == {"0+old"}
    assert found["changed"] > 0
    code, out, err = call(capsys, "extract", run)
    assert code == 0
    assert "already extracted" in err
    assert "previous version of the rules" in out


@pytest.mark.parametrize("text", ["", "\n\n"])
def test_a_file_without_answers_says_so(capsys: Capture, tmp_path: Path, text: str) -> None:
    (tmp_path / "in.jsonl").write_text(text, encoding="utf-8")
    code, out, err = call(capsys, "extract", "--jsonl", tmp_path / "in.jsonl")
    assert (code, out, err.count("\n")) == (0, "", 1)
    assert "no lines" in err
