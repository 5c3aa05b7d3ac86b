from __future__ import annotations

from pathlib import Path

import pytest

from mbbq_gen.core.errors import DataError
from mbbq_gen.providers.responders import ScriptedProvider, read_script
from tests.support.cases import cases
from tests.support.providers import answers, make_instance, make_request


@pytest.fixture
def script(data: Path) -> ScriptedProvider:
    return ScriptedProvider(data / "providers" / "answers.jsonl")


@pytest.mark.parametrize(
    ("request_fields", "instance_fields", "expected"), cases("providers/scripted", "the_most_specific_line_answers")
)
def test_the_most_specific_line_answers(
    script: ScriptedProvider, request_fields: dict[str, str], instance_fields: dict[str, str], expected: str
) -> None:
    line = script.line_for(make_request(make_instance(**instance_fields), **request_fields))  # type: ignore[arg-type]
    assert line.response == expected


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


def test_a_missing_and_a_non_text_file_are_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere.jsonl: No such file or directory; name a JSON Lines file"):
        read_script(tmp_path / "nowhere.jsonl")
    (tmp_path / "odd.jsonl").write_bytes(b'{"response": "\xff"}')
    with pytest.raises(DataError, match=r"odd.jsonl:1: not UTF-8"):
        read_script(tmp_path / "odd.jsonl")
