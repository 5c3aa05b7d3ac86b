"""`explain`: its decision is the extraction's, every mark stands where it says, and hostile text stays text."""

from __future__ import annotations

import io
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from mbbq_gen.core.text import shortened, visible_text
from mbbq_gen.extraction import Explanation, Question, load_extractor
from mbbq_gen.report.explanation import is_winner, print_explanation, response_text
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.storage.queries import find_prompts
from tests.support.extraction import call, listed, make_run
from tests.support.extraction_cases import Case, load_cases

TAILOR = ["--language", "en", "--options", "The tailor|The baker|Cannot be determined", "--unknown-index", "2"]
CASES = list(load_cases(variants=1))
PLAIN = ["A", "B", "C", "the tailor", "The baker", "not", "answer", "is", "because", "wait", "no", "it can't be known"]
SIGNS = [":", "\n", ".", ",", "<think>", "</think>", "{", "}", '"', "\\boxed{B}", "\x1b[31m", "\u202e", "\ufeff", "\r"]
WORDS = st.sampled_from([*PLAIN, *SIGNS, "ﬁ", "Ⓐ", "İ"])


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("explain") / "run")


def explain(response: str, case: Case | None = None) -> Explanation:
    if case is not None:
        return load_extractor(case.language).explain(response, case.question)
    return load_extractor("en").explain(response, Question(("The tailor", "The baker", "Unknown"), ("A", "B", "C"), 2))


def printed(told: Explanation, *, terminal: bool = False) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=160, force_terminal=terminal, markup=False, highlight=False)
    print_explanation(told, console)
    return stream.getvalue()


@given(case=st.sampled_from(CASES))
@settings(max_examples=200)
def test_the_decision_explained_is_the_one_extracted(case: Case) -> None:
    told = explain(case.response, case)
    reader = load_extractor(case.language)
    assert told.extraction == reader.extract(case.response, case.question)
    for candidate in told.candidates:
        start, end = candidate.span
        assert candidate.text == case.response[start:end]
        if is_winner(candidate, told) and told.extraction.option is not None and candidate.options:
            assert candidate.options == (told.extraction.option,)
    text = printed(told)
    assert f"rule {told.extraction.rule}" in text


@given(words=st.lists(WORDS, max_size=30))
@settings(max_examples=150)
def test_nothing_is_lost_or_made_up_in_the_marked_response(words: list[str]) -> None:
    """Without its marks the response is what it was."""
    response = " ".join(words)
    told = explain(response)
    shown = response_text(told, coloured=False).plain
    for number in range(1, len(told.candidates) + 1):
        shown = shown.replace(f"⟦{number}✔ ", "").replace(f"⟦{number} ", "")
    for kind in {zone.kind for zone in told.zones}:
        shown = shown.replace(f"⟪{kind}: ", "")
    assert shown.replace("⟧", "").replace("⟫", "") == visible_text(response)


@given(text=st.text(max_size=200))
def test_visible_text_can_do_nothing(text: str) -> None:
    shown = visible_text(text)
    assert all(sign.isprintable() or sign in "\n\u200c\u200d" for sign in shown)
    shown.encode()
    if all((sign.isprintable() and sign != "\u00a0") or sign == "\n" for sign in text):
        assert shown == text
    assert "\n" not in shortened(text, 20)
    assert len(shortened(text, 20)) <= 20


def test_every_candidate_has_its_pack_line(repository: Path) -> None:
    told = explain("It wasn't the tailor, it was the baker.")
    lost, won = told.candidates
    assert (lost.status, won.status) == ("lost", "won")
    told = explain("The answer is not the tailor, the answer is B.")
    lost, won = told.candidates
    for candidate in told.candidates:
        assert candidate.source is not None
        assert candidate.source.line is not None
        lines = (repository / candidate.source.file).read_text(encoding="utf-8").splitlines()
        assert candidate.source.phrase in re.split(r'[\s"\[\],]+', lines[candidate.source.line - 1])
    text = printed(told)
    assert "The answer is not ⟦1 the tailor⟧, the answer is ⟦2✔ B⟧." in text
    assert f"{won.source.file}:{won.source.line}  {won.source.key}" in text if won.source else False
    assert "read as   B: The baker" in text
    assert text.index("✔ 2") < text.index("✗ 1")


def test_colours_on_a_terminal_and_signs_elsewhere() -> None:
    told = explain("The answer is B.")
    coloured = printed(told, terminal=True)
    assert "\x1b[" in coloured
    assert "⟦" not in coloured
    assert "\x1b[" not in printed(told)
    assert "⟦1✔ B⟧" in printed(told)


def test_any_response(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = call(capsys, "explain", *TAILOR, "--response", "Not A. It was the baker.", "--json")
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["extraction"]["option"] == 1
    assert told["labels"] == ["A", "B", "C"]
    code, out, _ = call(capsys, "explain", *TAILOR, "--response", "Not A. It was the baker.")
    assert code == 0
    assert "read as   B: The baker" in out


def test_a_response_on_stdin_that_is_hostile() -> None:
    """Bytes that are no UTF-8, controls, an override: none of them comes out as it is."""
    raw = b"\xff\x1b[2J\x07 answer: B \xe2\x80\xae\xc2\x9b\r\n\x00 <b>x</b>"
    script = "import sys; from mbbq_gen.cli.main import main; main(sys.argv[1:])"
    for extra in ([], ["--json"]):
        done = subprocess.run(
            [sys.executable, "-c", script, "explain", *TAILOR, "--response", "-", *extra],
            input=raw,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        for raw_sign in ("\x1b", "\x07", "\x00", "\r", "\x9b", "\u202e"):
            assert raw_sign.encode() not in done.stdout
        if not extra:
            assert "⟨U+202E⟩".encode() in done.stdout
        else:
            assert json.loads(done.stdout)["extraction"]["option"] == 1


def test_a_response_of_a_million_characters_is_short(capsys: pytest.CaptureFixture[str]) -> None:
    response = "A B the tailor " * 70_000 + "The answer is B."
    told = explain(response)
    text = printed(told)
    assert len(text) < 100_000
    assert "characters …⟩" in text


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "give a run"),
        (["--language", "en", "--options", "a|b"], "--response: missing"),
        (["--options", "a|b", "--response", "a"], "--language: missing"),
        (["--language", "en", "--options", "a||b", "--response", "a"], "one of them is empty"),
        (["--language", "en", "--options", "a", "--response", "a"], "1 of them; 2 to 10"),
        (["--language", "en", "--options", "a|b", "--option", "c", "--response", "a"], "not both"),
        (["--language", "en", "--options", "a|b", "--labels", "A", "--response", "a"], "give one label an option"),
        ([*TAILOR[:4], "--unknown-index", "7", "--response", "a"], "unknown_index: 7"),
        (["no-such-run", "12"], "no run here"),
    ],
)
def test_wrong_use_is_one_line(capsys: pytest.CaptureFixture[str], arguments: list[str], words: str) -> None:
    code, out, err = call(capsys, "explain", *arguments)
    assert (code, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_the_story_of_a_stored_answer_is_what_was_stored(capsys: pytest.CaptureFixture[str], run: Path) -> None:
    each = {(one["language"], one["response"]): one for one in listed(capsys, run)}
    assert len(each) > 12
    for reading in each.values():
        code, out, err = call(capsys, "explain", run, reading["prompt_id"], "--json")
        assert code == 0, err
        found: dict[str, Any] = json.loads(out)
        stored = found["stored_extractions"][reading["extractor"]]
        assert (stored["outcome"], stored["option"], stored["rule"]) == (
            reading["outcome"],
            reading["option"],
            reading["rule"],
        )
        if reading["outcome"] in {"error", "content_filter"}:
            assert found["explanation"] is None
        else:
            assert found["explanation"]["extraction"] == stored


def test_an_answer_is_shown_with_its_question(capsys: pytest.CaptureFixture[str], run: Path) -> None:
    (hostile, *_) = [one for one in listed(capsys, run) if one["response"] and "\x1b" in one["response"]]
    code, out, _ = call(capsys, "explain", run, hostile["prompt_id"][:12])
    assert code == 0
    assert "\x1b" not in out
    assert "\u202e" not in out
    assert "␛[2J" in out
    assert ", correct)" in out
    assert "read as" in out
    (failed, *_) = listed(capsys, run, "--outcome", "error")
    code, out, _ = call(capsys, "explain", run, failed["prompt_id"])
    assert code == 0
    assert "no response to read: the service was down" in out


def test_a_list_to_choose_from(capsys: pytest.CaptureFixture[str], run: Path) -> None:
    every = listed(capsys, run)
    assert len(every) == 192
    missed = listed(capsys, run, "--outcome", "unparsed", "--language", "tr")
    assert missed
    assert {one["language"] for one in missed} == {"tr"}
    assert {one["outcome"] for one in missed} <= {"unparsed", "multiple", "truncated", "empty"}
    by_rule = listed(capsys, run, "--rule", every[0]["rule"])
    assert {one["rule"] for one in by_rule} == {every[0]["rule"]}
    code, out, _ = call(capsys, "explain", run, "--limit", 3)
    assert code == 0
    assert "3 of 192 extractions" in out
    assert every[0]["prompt_id"] in out


def test_several_matches_are_listed_in_one_line(capsys: pytest.CaptureFixture[str], run: Path) -> None:
    key = listed(capsys, run)[0]["instance_key"]
    with RunFolder(run).open_store(read_only=True) as store:
        both = find_prompts(store, key)
        assert len(both) == 2
        assert len(find_prompts(store, "", limit=7)) == 7
        assert find_prompts(store, "%") == []
    code, out, err = call(capsys, "explain", run, key)
    assert (code, out) == (2, "")
    assert err.count("\n") == 1
    for shown in both:
        assert shown.prompt_id in err
        assert shown.variant in err
    code, _, err = call(capsys, "explain", run, "zzz")
    assert code == 2
    assert "nothing has the id or key 'zzz'" in err


def test_options_of_a_response_do_not_go_with_a_run(capsys: pytest.CaptureFixture[str], run: Path) -> None:
    code, _, err = call(capsys, "explain", run, "12", "--response", "A")
    assert code == 2
    assert "--response goes with" in err
