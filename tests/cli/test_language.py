from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.languages.extraction_pack import WORD_LISTS
from tests.support.cases import cases
from tests.support.extraction import Capture, call, json_of, stderr_of, succeed

NAMES = ("--name", "Norwegian Bokmål", "--native-name", "norsk bokmål")
ANSWERS = (
    ("Svaret er B.", 1),
    ("Teksten sier ikke hvem det var.", 2),
    ("Det var skredderen.", 0),
    ("Her er en historie om to mennesker.", None),
)
"""Responses in a language without a pack, with the option that a reader sees in them."""


@pytest.fixture
def packs(tmp_path: Path, capsys: Capture) -> Path:
    succeed(capsys, "language", "new", "nb", *NAMES, "--packs", tmp_path)
    return tmp_path


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    options = ["Skredderen", "Bakeren", "Vet ikke"]
    rows = [
        {"language": "nb", "response": response, "options": options, "labels": ["A", "B", "C"], "unknown_index": 2}
        | {"question": "Hvem kom for sent?", "gold_option": gold}
        for response, gold in ANSWERS
    ]
    rows.append(rows[0] | {"language": "sv"})
    path = tmp_path / "labelled.jsonl"
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


def fill(packs: Path, **classes: str) -> None:
    path = packs / "extractors" / "nb.toml"
    text = path.read_text(encoding="utf-8")
    for name, words in classes.items():
        assert f"\n{name} = []" in text
        text = text.replace(f"\n{name} = []", f'\n{name} = ["{words}"]', 1)
    path.write_text(text, encoding="utf-8")


def evaluate(capsys: Capture, *arguments: object) -> dict[str, Any]:
    return dict(json_of(capsys, "language", "evaluate", "nb", *arguments))


def test_a_wording_that_is_still_to_be_written_is_found(packs: Path, capsys: Capture) -> None:
    path = packs / "prompts" / "nb.toml"
    said = '\n    "Svaret er {option}.",' * 3
    text = path.read_text(encoding="utf-8").replace("person = [", f"person = [{said}")
    for name in ("unknown", "refusal"):
        text = text.replace(f"{name} = [", f"{name} = [" + '\n    "Det vet jeg ikke.",' * 3)
    path.write_text(text, encoding="utf-8")
    _, out, _ = call(capsys, "check", "--packs", packs, "--languages", "nb")
    assert "variant 'polite': TODO is still to be written" in out
    assert "variant 'bare'" not in out, "a wording without words needs no translation"


def test_what_is_there_is_never_overwritten(packs: Path, capsys: Capture) -> None:
    fill(packs, neg="ikke")
    assert "is there already" in stderr_of(capsys, "language", "new", "nb", *NAMES, "--packs", packs)
    assert '"ikke"' in (packs / "extractors" / "nb.toml").read_text(encoding="utf-8")


@pytest.mark.parametrize(("code", "told"), [("en", "there are packs for it"), ("Norsk!", "not a language code")])
def test_a_language_that_can_not_be_begun(tmp_path: Path, capsys: Capture, code: str, told: str) -> None:
    status, _, err = call(capsys, "language", "new", code, *NAMES, "--packs", tmp_path / "own")
    assert (status, told in err) == (2, True), err
    assert not (tmp_path / "own").exists()


def test_the_report_counts_what_each_class_does(packs: Path, labelled: Path, capsys: Capture) -> None:
    empty = packs / "empty"
    assert call(capsys, "language", "new", "nb", *NAMES, "--packs", empty)[0] == 0
    before = evaluate(capsys, "--packs", empty, "--labelled-file", labelled)
    assert (before["responses"], before["classes"]) == (4, [])
    fill(packs, neg="ikke", tell="sier", source="teksten", who="hvem", answer="svaret", small="er det var")
    found = evaluate(capsys, "--packs", packs, "--labelled-file", labelled)
    assert (found["right"], found["wrong"], found["invented"]) == (4, 0, 0)
    assert before["right"] < 4
    gains = {gain["name"]: gain for gain in found["classes"]}
    assert gains["words.neg"]["needed"] == 1
    assert gains["words.neg"]["entries"] == 1
    needed = [gain["needed"] for gain in found["classes"]]
    assert needed == sorted(needed, reverse=True)


@pytest.mark.parametrize(("line", "told"), cases("cli/language", "a_wrong_line_is_named"))
def test_a_wrong_line_is_named(packs: Path, labelled: Path, capsys: Capture, line: dict[str, Any], told: str) -> None:
    row = json.loads(labelled.read_text(encoding="utf-8").splitlines()[0])
    del row["gold_option"]
    with labelled.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(row | line) + "\n")
    code, _, err = call(capsys, "language", "evaluate", "nb", "--packs", packs, "--labelled-file", labelled)
    assert (code, told in err) == (2, True), err


def test_the_skeletons_hold_every_class_and_say_what_is_missing(packs: Path, capsys: Capture) -> None:
    text = (packs / "extractors" / "nb.toml").read_text(encoding="utf-8")
    assert [
        f"{table}.{name}" for table, names in WORD_LISTS.items() for name in names if f"\n{name} = []" not in text
    ] == []
    code, out, _ = call(capsys, "check", "--packs", packs, "--languages", "nb")
    assert code == 1
    assert "answers.person" in out
    assert "names.female" in out
