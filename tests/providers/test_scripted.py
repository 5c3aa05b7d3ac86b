from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from mbbq_gen.core.errors import DataError
from mbbq_gen.providers.scripted import Script, ScriptedProvider, ScriptLine, read_script
from tests.support.cases import cases
from tests.support.providers import answers, make_instance, make_request


@pytest.fixture
def script(data: Path) -> Script:
    return Script(read_script(data / "providers" / "answers.jsonl"))


@pytest.mark.parametrize(
    ("request_fields", "instance_fields", "expected"), cases("providers/scripted", "the_most_specific_line_answers")
)
def test_the_most_specific_line_answers(
    script: Script, request_fields: dict[str, str], instance_fields: dict[str, str], expected: str
) -> None:
    line = script.line_for(make_request(make_instance(**instance_fields), **request_fields))  # type: ignore[arg-type]
    assert line is not None
    assert line.response == expected


def test_equal_lines_are_spread_evenly_and_stably() -> None:
    lines = [ScriptLine(response=letter) for letter in "ABC"]
    requests = [make_request(prompt_id=f"p{number}") for number in range(3000)]

    def said(order: list[int]) -> dict[int, str | None]:
        script = Script(lines)
        found = {number: script.line_for(requests[number]) for number in order}
        return {number: line.response for number, line in found.items() if line is not None}

    forwards = said(list(range(3000)))
    assert forwards == said(list(reversed(range(3000))))
    assert all(900 < count < 1100 for count in Counter(forwards.values()).values())


def test_errors_cut_answers_and_missing_lines_come_through(tmp_path: Path) -> None:
    path = tmp_path / "script.jsonl"
    path.write_text(
        '{"error": "the service is down", "instance_id": "1"}\n\n'
        '{"response": "Because the", "finish_reason": "length", "instance_id": "2"}\n'
        '{"response": "", "instance_id": "3"}\n',
        encoding="utf-8",
    )
    provider = ScriptedProvider(path)
    requests = [make_request(make_instance(str(number)), prompt_id=str(number)) for number in range(1, 5)]
    down, cut, empty, none = answers(provider, requests).values()
    assert (down.text, down.error) == (None, "the service is down")
    assert (cut.text, cut.finish_reason) == ("Because the", "length")
    assert (empty.text, empty.error) == ("", None)
    assert none.text is None
    assert none.error == f"no line of {path} fits"


@pytest.mark.parametrize(("text", "message"), cases("providers/scripted", "a_wrong_file_is_told_by_file_row_and_field"))
def test_a_wrong_file_is_told_by_file_row_and_field(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "script.jsonl"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(DataError) as caught:
        read_script(path)
    assert str(caught.value).startswith(f"{path}:{message}")
    assert "\n" not in str(caught.value)
