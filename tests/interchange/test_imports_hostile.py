from __future__ import annotations

import contextlib
import csv
import json
import sys
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mbbq_gen.core import tables
from mbbq_gen.core.errors import DataError, MbbqGenError, MissingExtraError
from mbbq_gen.interchange.importers import base as files
from mbbq_gen.interchange.importers import open_log
from mbbq_gen.interchange.importers.base import TOOLS, ImportedAnswer, SkippedRow
from tests.interchange.test_imports import QUESTION, TABLE_MAP, TEXTS, scores_of, stored, write_table
from tests.support.extraction import STARTER, Capture, stderr_of, succeed


@pytest.fixture(scope="module")
def logs(data: Path) -> Path:
    return data / "imports"


HEADER = {"version": 2, "status": "success", "eval": {"task": "bbq", "model": "some/model"}}
SHOWN = f"{QUESTION['story']}\n{QUESTION['asked']}\nA) {TEXTS[0]}\nB) {TEXTS[1]}\nC) {TEXTS[2]}"
SAMPLE = {
    "id": 1,
    "epoch": 1,
    "input": f"{QUESTION['story']}\n\n{QUESTION['asked']}",
    "choices": TEXTS,
    "messages": [{"role": "user", "content": SHOWN}, {"role": "assistant", "content": "C"}],
    "output": {"model": "m", "choices": [{"message": {"role": "assistant", "content": "C"}, "stop_reason": "stop"}]},
}


def write_eval(path: Path, members: dict[str, bytes | str], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return path


def log_of(path: Path, sample: Any, **members: bytes | str) -> Path:
    text = sample if isinstance(sample, bytes | str) else json.dumps(sample)
    return write_eval(path, {"header.json": json.dumps(HEADER), "samples/1_epoch_1.json": text, **members})


def rows_of(path: Path) -> list[ImportedAnswer | SkippedRow]:
    return [row for _, row in open_log("inspect", path).rows]


def test_zstandard_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zstandard = pytest.importorskip("zstandard")
    monkeypatch.setattr(files, "MOST_MEMBER", 2 * tables.MEGABYTE)
    log = zstandard_log(tmp_path / "log.eval", zstandard.ZstdCompressor().compress(b" " * (50 * tables.MEGABYTE)), 9)
    assert [row.detail for row in rows_of(log) if isinstance(row, SkippedRow)] == ["more than 2 MB after decompression"]


def zstandard_log(path: Path, packed: bytes, size: int, crc: int = 0) -> Path:
    """A log whose sample is compressed with Zstandard: stored as it is, then marked so in both headers."""
    name = b"samples/1_epoch_1.json"
    log_of(path, packed)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps(HEADER))
        archive.writestr(name.decode(), packed)
    data = bytearray(path.read_bytes())
    for signature, method_at, crc_at, size_at in ((b"PK\x03\x04", 8, 14, 22), (b"PK\x01\x02", 10, 16, 24)):
        start = data.rfind(signature)
        data[start + method_at : start + method_at + 2] = (93).to_bytes(2, "little")
        data[start + crc_at : start + crc_at + 4] = crc.to_bytes(4, "little")
        data[start + size_at : start + size_at + 4] = size.to_bytes(4, "little")
    path.write_bytes(data)
    return path


def test_zstandard_in_several_frames_and_its_faults(tmp_path: Path) -> None:
    zstandard = pytest.importorskip("zstandard")
    text = json.dumps(SAMPLE).encode()
    compress = zstandard.ZstdCompressor().compress
    frames = compress(text[:100]) + compress(text[100:])
    crc = zlib.crc32(text)
    (good,) = rows_of(zstandard_log(tmp_path / "good.eval", frames, len(text), crc))
    assert isinstance(good, ImportedAnswer)
    (wrong,) = rows_of(zstandard_log(tmp_path / "sum.eval", frames, len(text), crc ^ 1))
    assert isinstance(wrong, SkippedRow)
    assert wrong.detail == "damaged: wrong checksum"
    (cut,) = rows_of(zstandard_log(tmp_path / "cut.eval", frames[: len(frames) // 2], len(text), crc))
    assert isinstance(cut, SkippedRow)
    assert cut.detail.startswith("damaged: ")


def test_zip_slip_writes_nothing(capsys: Capture, tmp_path: Path) -> None:
    folder = tmp_path / "inner"
    folder.mkdir()
    log = log_of(folder / "log.eval", SAMPLE, **{"samples/../../evil.json": "{}", "/etc/evil.json": "{}"})
    err = stderr_of(capsys, "import", "--from", "inspect", log, "-o", folder / "run", *STARTER, code=0)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["inner"]
    assert sorted(path.name for path in folder.iterdir()) == ["log.eval", "run"]
    assert "skipped: 1: " in err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not JSON"),
        (b"PK\x03\x04 and then nothing", "not a zip file, or cut off"),
        (b'{"eval": {}, "samples": {}}', "samples: a list is needed"),
        (b"[1, 2]", "a JSON object is needed"),
        (b'{"status": "success"}', "no `eval` in its header"),
        (b'{"eval": {"model": "\xff\xfe"}}', "at byte 21"),
        (b'{"eval": {"model": "m"', "cut off"),
        (b"[" * 100_000, "nested too deeply"),
    ],
)
def test_files_that_are_no_log(capsys: Capture, tmp_path: Path, content: bytes, said: str) -> None:
    log = tmp_path / "log.eval"
    log.write_bytes(content)
    err = stderr_of(capsys, "import", "--from", "inspect", log, "-o", tmp_path / "run", *STARTER)
    assert said in err
    assert len(err.splitlines()) == 1
    assert str(log) in err


def test_encrypted_member(tmp_path: Path) -> None:
    path = log_of(tmp_path / "log.eval", SAMPLE)
    data = bytearray(path.read_bytes())
    for signature, flags_at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.rfind(signature) + flags_at] |= 1
    path.write_bytes(data)
    assert [row.detail for row in rows_of(path) if isinstance(row, SkippedRow)] == ["encrypted"]


def changed(**changes: Any) -> dict[str, Any]:
    return {**SAMPLE, **changes}


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        (b'{"id": 1, "messages": [', "cut off"),
        (b'{"id": "\xff"}', "not UTF-8"),
        ("[]", "a JSON object is needed, found list"),
        ("{" * 3, "not JSON"),
        ('{"id": ' + "9" * 5000 + "}", "not JSON"),
        (changed(messages="hello"), "messages: a list is needed, found str"),
        (changed(messages=[1]), "messages[0]: an object is needed, found int"),
        (changed(output={"choices": [{"message": {"content": 7}}]}), "content: a list is needed, found int"),
        (changed(choices=[1, 2, 3]), "choices[0]: a text is needed, found int"),
        (changed(attachments=[]), "attachments: an object is needed, found list"),
    ],
)
def test_samples_that_cannot_be_read_are_counted(tmp_path: Path, sample: Any, said: str) -> None:
    (row,) = rows_of(log_of(tmp_path / "log.eval", sample))
    assert isinstance(row, SkippedRow)
    assert row.reason == "parse_error"
    assert said in row.detail


@pytest.mark.parametrize(
    ("sample", "error"),
    [
        (changed(output={}, error={"message": "Boom\nat line 3"}), "Boom"),
        (changed(output={"choices": [], "error": "no credit"}), "no credit"),
        (changed(output={}, error=True), "failed for a reason that is not recorded"),
    ],
)
def test_errors_are_errors_and_never_text(tmp_path: Path, sample: Any, error: str) -> None:
    (row,) = rows_of(log_of(tmp_path / "log.eval", sample))
    assert isinstance(row, ImportedAnswer)
    assert row.response is not None
    assert (row.response.text, row.response.error) == (None, error)


def test_names_that_no_utf8_can_hold_are_mended(tmp_path: Path) -> None:
    half = changed(id="a\ud800\nb", output={"choices": [{"message": {"content": "B \ud83d"}}]})
    (row,) = rows_of(log_of(tmp_path / "log.eval", half))
    assert isinstance(row, ImportedAnswer)
    assert row.response is not None
    assert (row.id, row.response.text) == ("a\ufffd b", "B \ufffd")


def test_huge_and_acting_texts(capsys: Capture, tmp_path: Path, run_path: Path) -> None:
    said = ["x " * 500_000, "<script>alert('hi')</script>\u202e=cmd()\x00\x1b[31m", '"; DROP TABLE responses; --']
    rows = [
        {**QUESTION, **{f"o{n}": text for n, text in enumerate(TEXTS, 1)}, "said": text, "why": "stop"} for text in said
    ]
    path, map_path = write_table(tmp_path, rows, TABLE_MAP)
    succeed(capsys, "import", "--from", "csv", path, "--columns", map_path, "-o", run_path, *STARTER)
    assert [response.text for _, response in stored(run_path)] == said
    (group,) = scores_of(capsys, run_path, "--group-by", "split")
    assert (group["n_answers"], group["outcomes"]["option"], group["outcomes"]["abstention"]) == (3, 0, 0)


def test_a_line_without_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tables, "MOST_LINE", tables.MEGABYTE)
    log = tmp_path / "samples_x_2026-01-01T00-00-00.jsonl"
    log.write_bytes(b"a" * (tables.MEGABYTE + 1))
    with pytest.raises(DataError, match=r"jsonl:1: a line of more than 1 MB"):
        list(open_log("lm-eval", log).rows)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | st.just("attachment://x"),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    field=st.sampled_from(
        ["id", "epoch", "input", "choices", "messages", "output", "metadata", "events", "attachments", "events_data"]
    ),
    value=json_values,
)
def test_any_value_in_any_field_of_a_sample(tmp_path: Path, field: str, value: Any) -> None:
    log = log_of(tmp_path / "log.eval", changed(**{field: value}))
    assert all(isinstance(row, ImportedAnswer | SkippedRow) for row in rows_of(log))


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(doc=json_values, arguments=json_values, resps=json_values | st.just([["A"]]), doc_id=json_values)
def test_any_value_in_a_line_of_lm_eval(tmp_path: Path, doc: Any, arguments: Any, resps: Any, doc_id: Any) -> None:
    log = tmp_path / "samples_x_2026-01-01T00-00-00.jsonl"
    row = {"doc": doc, "arguments": arguments, "resps": resps, "doc_id": doc_id}
    log.write_text(json.dumps(row), encoding="utf-8")
    assert all(isinstance(found, ImportedAnswer | SkippedRow) for _, found in open_log("lm-eval", log).rows)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(state=json_values, field=st.sampled_from(["instance", "request", "result", "output_mapping", None]))
def test_any_value_in_a_state_of_helm(tmp_path: Path, state: Any, field: str | None) -> None:
    good = {"instance": {"id": "id1"}, "request": {"prompt": "p"}, "result": {"completions": [{"text": "A"}]}}
    states = [state if field is None else {**good, field: state}]
    (tmp_path / "scenario_state.json").write_text(json.dumps({"request_states": states}), encoding="utf-8")
    assert all(isinstance(found, ImportedAnswer | SkippedRow) for _, found in open_log("helm", tmp_path).rows)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=300), tool=st.sampled_from([tool for tool in TOOLS if tool != "csv"]))
def test_any_bytes(tmp_path: Path, content: bytes, tool: Any) -> None:
    log = tmp_path / ("scenario_state.json" if tool == "helm" else "log.jsonl")
    log.write_bytes(content)
    with contextlib.suppress(MbbqGenError):
        assert all(isinstance(row, ImportedAnswer | SkippedRow) for _, row in open_log(tool, log).rows)


def test_without_zstandard_one_line_says_what_to_install(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with pytest.raises(MissingExtraError, match="pip install zstandard"):
        open_log("inspect", data / "imports" / "inspect_own_task.eval")


def test_archive_without_a_header(tmp_path: Path) -> None:
    path = write_eval(tmp_path / "log.eval", {"other.json": "{}"})
    with pytest.raises(DataError, match=r"no header\.json or _journal/start\.json"):
        open_log("inspect", path)


def test_zip_bomb(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A member of which more comes out than is allowed is left out, and no more than that is ever held."""
    monkeypatch.setattr(files, "MOST_MEMBER", 2 * tables.MEGABYTE)
    log = log_of(tmp_path / "log.eval", b" " * (50 * tables.MEGABYTE))
    assert log.stat().st_size < 100_000
    assert rows_of(log) == [SkippedRow("parse_error", "more than 2 MB after decompression")]


def test_cut_archive(logs: Path, tmp_path: Path) -> None:
    whole = (logs / "inspect_own_task.eval").read_bytes()
    for length in (10, len(whole) // 2, len(whole) - 10):
        path = tmp_path / f"{length}.eval"
        path.write_bytes(whole[:length])
        with pytest.raises(DataError, match="not a zip file, or cut off"):
            open_log("inspect", path)


def test_huge_cell_in_a_csv(capsys: Capture, tmp_path: Path, run_path: Path) -> None:
    """Python's own limit of 128 KB for a cell does not hold here, and holds again afterwards."""
    before = csv.field_size_limit()
    path = tmp_path / "answers.csv"
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        writer.writerow(["story", "asked", "o1", "o2", "o3", "said", "why"])
        writer.writerow([*QUESTION.values(), *TEXTS, "y" * 1_000_000, "stop"])
    _, map_path = write_table(tmp_path, [], TABLE_MAP)
    succeed(capsys, "import", "--from", "csv", path, "--columns", map_path, "-o", run_path, *STARTER)
    assert len(stored(run_path)[0][1].text or "") == 1_000_000
    assert csv.field_size_limit() == before


def test_prompts_made_of_contexts_take_no_time(capsys: Capture, tmp_path: Path) -> None:
    prompt = f"{QUESTION['story']} " * 10_000
    row = {"prompt": prompt, "said": "A"}
    path, map_path = write_table(tmp_path, [row], "[fields]\nresponse = 'said'\nprompt = 'prompt'\n")
    err = stderr_of(
        capsys, "import", "--from", "csv", path, "--columns", map_path, "-o", tmp_path / "r", *STARTER, code=1
    )
    assert "no question of the benchmark has this context and question" in err
