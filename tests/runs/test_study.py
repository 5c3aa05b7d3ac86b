from __future__ import annotations

import re
from pathlib import Path

import pytest

from mbbq_gen.core.errors import MbbqGenError, UsageError
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.runs.study import read_study, resolve_run_paths
from tests.support.cases import DATA, cases
from tests.support.extraction import Capture, call, stderr_of, succeed

STUDY = (DATA / "runs" / "study.toml").read_text(encoding="utf-8")


@pytest.fixture
def study(tmp_path: Path) -> Path:
    path = tmp_path / "study.toml"
    path.write_text(STUDY, encoding="utf-8")
    return path


def test_a_study_asks_every_model_and_goes_on_where_it_stopped(capsys: Capture, study: Path) -> None:
    out = succeed(capsys, "run", study)
    folder = study.parent / "results"
    expected = ["oracle-perfect--starter", "synthetic-able-stereotyped--starter"]
    assert [path.name for path in resolve_run_paths([folder])] == expected
    assert re.search(r"^synthetic:able-stereotyped: ", out, re.MULTILINE)
    assert re.search(r"^oracle:perfect: No bias could be shown", out, re.MULTILINE)
    assert len(re.findall(r"^(?:synthetic\S+|oracle\S+|)\s+(?:en|tr)\s+100%", out, re.MULTILINE)) == 3
    settings = RunFolder(folder / "oracle-perfect--starter").manifest().config
    assert (settings.languages, settings.sample, settings.model_args) == (("en",), 12, {"speech": "sentence"})
    code, again, err = call(capsys, "run", study)
    assert (code, again) == (0, out)
    assert err.count("answered already") == 2


@pytest.mark.parametrize(("old", "new", "said"), cases("runs/study", "a_wrong_file_is_one_line"))
def test_a_wrong_file_is_one_line(old: str, new: str, said: str, study: Path) -> None:
    text = study.read_text(encoding="utf-8")
    assert old in text
    head, _, tail = text.partition(old)
    moved = f"{head}{tail}\n{new}" if new.startswith("[[") else head + new + tail
    study.write_text(moved, encoding="utf-8")
    with pytest.raises(MbbqGenError, match=said) as caught:
        read_study(study)
    assert str(study) in str(caught.value)


def test_what_is_missing_is_said_before_anything_is_asked(capsys: Capture, study: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="mbbq-gen init"):
        read_study(tmp_path / "none.toml")
    study.write_text('benchmarks = ["starter"]\n', encoding="utf-8")
    with pytest.raises(UsageError, match="names no model"):
        read_study(study)
    study.write_text(STUDY.replace('"tr"', '"xx"'), encoding="utf-8")
    assert "xx" in stderr_of(capsys, "run", study)
    assert not (tmp_path / "results").exists()
    for wrong in (["--sample", "4"], ["--model", "oracle:perfect", "--benchmark", "mbbq"], ["--batch"]):
        assert stderr_of(capsys, "run", study, *wrong).count("\n") == 1


def test_one_model_that_fails_keeps_no_other_from_being_asked(
    capsys: Capture, study: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    study.write_text(STUDY.replace("[[model]]", '[[model]]\nname = "openai:gone"\n\n[[model]]', 1), encoding="utf-8")
    code, out, err = call(capsys, "run", study)
    assert code == 1
    assert "openai-gone--starter" in err
    assert "oracle:perfect" in out
    assert "openai:gone" not in out
