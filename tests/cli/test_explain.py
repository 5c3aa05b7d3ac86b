from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.console import Console

from mbbq_gen.core.text import shortened, visible_text
from mbbq_gen.extraction import Explanation, Question, load_extractor
from mbbq_gen.report.explanation import is_winner, print_explanation
from tests.support.extraction import Capture, json_of, listed, succeed
from tests.support.extraction_cases import Case, load_cases

TAILOR = ["--language", "en", "--options", "The tailor|The baker|Cannot be determined", "--unknown-index", "2"]
CASES = list(load_cases(variants=1))
PLAIN = ["A", "B", "C", "the tailor", "The baker", "not", "answer", "is", "because", "wait", "no", "it can't be known"]
SIGNS = [":", "\n", ".", ",", "<think>", "</think>", "{", "}", '"', "\\boxed{B}", "\x1b[31m", "\u202e", "\ufeff", "\r"]
WORDS = st.sampled_from([*PLAIN, *SIGNS, "ﬁ", "Ⓐ", "İ"])


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
@example(["\u202e", "\\boxed{B}", "wait"])
@settings(max_examples=150)
def test_nothing_of_the_response_is_lost(words: list[str]) -> None:
    response = " ".join(words)
    shown = printed(explain(response)).partition("characters)\n")[2].replace("⟦", "").replace("⟧", "")
    assert "".join(visible_text(response).split()) in "".join(shown.split())


@given(text=st.text(max_size=200))
def test_visible_text_can_do_nothing(text: str) -> None:
    shown = visible_text(text)
    assert all(sign.isprintable() or sign in "\n\u200c\u200d" for sign in shown)
    shown.encode()
    if all((sign.isprintable() and sign != "\u00a0") or sign == "\n" for sign in text):
        assert shown == text
    assert "\n" not in shortened(text, 20)
    assert len(shortened(text, 20)) <= 20


def test_any_response(capsys: Capture) -> None:
    told = json_of(capsys, "explain", *TAILOR, "--response", "Not A. It was the baker.", quiet=True)
    assert told["extraction"]["option"] == 1
    assert told["labels"] == ["A", "B", "C"]
    assert "read as   B: The baker" in succeed(capsys, "explain", *TAILOR, "--response", "Not A. It was the baker.")


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


def test_the_story_of_a_stored_answer_is_what_was_stored(capsys: Capture, run: Path) -> None:
    each = {(one["language"], one["response"]): one for one in listed(capsys, run)}
    assert len(each) > 12
    for reading in each.values():
        found: dict[str, Any] = json_of(capsys, "explain", run, reading["prompt_id"])
        stored = found["stored_extractions"][reading["extractor"]]
        expected = (reading["outcome"], reading["option"], reading["rule"])
        assert (stored["outcome"], stored["option"], stored["rule"]) == expected
        if reading["outcome"] in {"error", "content_filter"}:
            assert found["explanation"] is None
        else:
            assert found["explanation"]["extraction"] == stored


def test_a_response_of_a_million_characters_is_short(capsys: Capture) -> None:
    response = "A B the tailor " * 70_000 + "The answer is B."
    told = explain(response)
    text = printed(told)
    assert len(text) < 100_000
    assert "characters …⟩" in text
