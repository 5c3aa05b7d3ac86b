from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest

from tests.support.extraction import Capture, call, make_run

DATA = Path(__file__).parents[1] / "data"
ROWS = (DATA / "cli_wrong_use.tsv").read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("made") / "run", 4)


@pytest.fixture
def bad_files(tmp_path: Path, capsys: Capture) -> Path:
    first, second = call(capsys, "data", "show", "--languages", "en", "--limit", 2, "--json")[1].splitlines()
    text = "{context} {question} {label_a} {option_a} {label_b} {B} {label_c} {option_c}"
    meta = "\n".join(f'{name} = "x"' for name in ("name", "native_name", "source", "licence"))
    files = {
        "cut.jsonl": json.dumps({**json.loads(first), "option": 0}) + "\n" + second[: len(second) // 2],
        "half.jsonl": first + "\n" + second[: len(second) // 2],
        "bad.jsonl": '{"id": 1, "language": "en", "options": "A", "response": "x"}\n',
        "en.toml": f'[meta]\nlanguage = "en"\nversion = 1\n{meta}\n[[variant]]\nid = "plain"\nkind = "bare"\n'
        f'text = "{text}"\n',
    }
    for name, content in files.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    (tmp_path / "latin.jsonl").write_bytes('{"id": 1, "response": "ça"}\n'.encode("latin-1"))
    (tmp_path / "packs" / "prompts").mkdir(parents=True)
    (tmp_path / "en.toml").rename(tmp_path / "packs" / "prompts" / "en.toml")
    return tmp_path


@pytest.mark.parametrize("row", ROWS)
def test_wrong_use_is_one_line(
    row: str, made: Path, bad_files: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-0123456789")
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    (bad_files / "here").mkdir()
    monkeypatch.chdir(bad_files / "here")
    command, words = row.split("\t")
    places = {"run": bad_files / "run", "made": made, "logs": DATA / "imports", "tmp": bad_files}
    code, _, err = call(capsys, *(word.format(**places) for word in shlex.split(command)))
    *before, last = err.splitlines()
    assert (code, len(before) < 2) == (2, True), err
    assert last.startswith("error: ")
    assert words in last
    assert list(Path().iterdir()) == []
    assert not command.startswith("import") or not places["run"].exists()
