from __future__ import annotations

import csv
import hashlib
import json
from pathlib import Path

import polars as pl
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mbbq_gen import Run
from mbbq_gen.interchange.cards import closed_benchmarks, dataset_card
from mbbq_gen.interchange.export import QUESTION_COLUMNS, ExportSettings, ExportSource, without_folders, write_bundle
from mbbq_gen.report.score_tables import csv_cells
from mbbq_gen.runs.run_folder import RunFolder
from tests.support.extraction import Capture, call, copy_run, json_of, make_run, stderr_of, succeed

FORMULA_STARTS = tuple("=+-@\t\r|%")


@pytest.fixture(scope="module")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("exports") / "scripted")


@pytest.fixture(scope="module")
def exported(run_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("exported")
    settings = ExportSettings(by=("language", "split"), n_resamples=100)
    source = ExportSource(Run(run_path), settings)
    write_bundle(source, folder / "parquet", "parquet")
    write_bundle(source, folder / "csv", "csv")
    return folder


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(encoding="utf-8-sig", newline="") as stream:
        return list(csv.DictReader(stream))


def test_items_are_those_of_the_run(run_path: Path, exported: Path) -> None:
    found = pl.read_parquet(exported / "parquet" / "samples.parquet")
    expected = Run(run_path).samples(messages=True)
    assert found.columns == expected.columns
    assert not any(isinstance(kind, pl.Categorical | pl.Enum) for kind in found.dtypes)
    for name in found.columns:
        texts = expected[name].cast(found.schema[name], strict=True)
        assert found[name].to_list() == texts.to_list(), name


def test_the_record_holds_for_every_file(run_path: Path, exported: Path) -> None:
    for kind in ("parquet", "csv"):
        record = json.loads((exported / kind / "export.json").read_text())
        assert record["schema_version"] == "mbbq-gen.export/1"
        assert record["extractors"] == Run(run_path).extract()
        named = {file["path"]: file for file in record["files"]}
        assert {*named, "export.json"} == {path.name for path in (exported / kind).iterdir()}
        for name, file in named.items():
            content = (exported / kind / name).read_bytes()
            assert (file["size"], file["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
        assert named[f"samples.{kind}"]["rows"] == Run(run_path).manifest.counts.prompts


def test_csv_holds_the_same_and_no_cell_can_act(exported: Path) -> None:
    items = pl.read_parquet(exported / "parquet" / "samples.parquet")
    rows = rows_of(exported / "csv" / "samples.csv")
    assert len(rows) == items.height
    assert any(row["response"].startswith("'=HYPERLINK") for row in rows)
    assert any(row["response"].startswith("'@SUM") for row in rows)
    for row, item in zip(rows, items.iter_rows(named=True), strict=True):
        assert json.loads(row["options"]) == item["options"]
        assert json.loads(row["spans"]) == item["spans"]
        for name, cell in row.items():
            assert not cell.startswith(FORMULA_STARTS), (name, cell)
            assert not set(cell) & set("\x1b\x07\u202e"), (name, cell)
    assert (exported / "csv" / "samples.csv").read_bytes().startswith(b"\xef\xbb\xbf")
    values = rows_of(exported / "csv" / "scores.csv")
    expected = pl.read_parquet(exported / "parquet" / "scores.parquet")["value"]
    assert [float(row["value"]) if row["value"] else None for row in values] == expected.to_list()


def test_questions_can_be_left_out(run_path: Path, tmp_path: Path, capsys: Capture) -> None:
    arguments = ("--parquet", tmp_path / "tables", "--hf-dataset", tmp_path / "set", "--omit-questions")
    told = json_of(capsys, "export", run_path, *arguments, "--n-resamples", 100)
    assert told["parquet"]["settings"]["with_questions"] is False
    items = pl.read_parquet(tmp_path / "tables" / "samples.parquet")
    assert not set(items.columns) & set(QUESTION_COLUMNS)
    contexts = {question.context for question in Run(run_path).instances()}
    cells = {str(cell) for column in items.get_columns() for cell in column.to_list()}
    assert not any(context in cell for context in contexts for cell in cells)
    assert "The questions are omitted" in (tmp_path / "set" / "README.md").read_text()
    assert "context" not in (tmp_path / "tables" / "import_map.toml").read_text()


def test_a_folder_of_something_else_is_refused(run_path: Path, tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    err = stderr_of(capsys, "export", run_path, "--csv", tmp_path / "mine")
    assert "holds 'thesis.txt' and is not an export" in err
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["thesis.txt"]
    (tmp_path / "file").write_text("")
    assert call(capsys, "export", run_path, "--csv", tmp_path / "file")[0] == 2
    assert "--parquet DIR" in stderr_of(capsys, "export", run_path)
    assert "no run here" in stderr_of(capsys, "export", tmp_path / "mine", "--csv", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_export_that_was_cut_short_is_made_anew(run_path: Path, tmp_path: Path) -> None:
    class CutError(Exception):
        """Stands for whatever ends a process."""

    def cut(_: int) -> None:
        raise CutError

    run, settings = Run(run_path), ExportSettings(metrics=("parse_rate",), n_resamples=100)
    with pytest.raises(CutError):
        write_bundle(ExportSource(run, settings, cut), tmp_path / "out", "parquet")
    assert not list((tmp_path / "out").iterdir())
    (tmp_path / "out" / ".export-left").mkdir()  # as a killed process leaves it
    record = write_bundle(ExportSource(run, settings), tmp_path / "out", "parquet")
    expected = {".export-left", "export.json", *(file.path for file in record.files)}
    assert {path.name for path in (tmp_path / "out").iterdir()} == expected


def test_an_export_is_the_same_twice(run_path: Path, tmp_path: Path, capsys: Capture) -> None:
    first: dict[str, bytes] = {}
    for _ in range(2):
        err = stderr_of(capsys, "export", run_path, "--csv", tmp_path / "out", "--n-resamples", 100, code=0)
        found = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
        assert found == (first or found)
        first = found
    assert "requests have no response yet" in err  # the script fails on purpose


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_there_and_back_the_scores_are_the_same(
    run_path: Path, exported: Path, kind: str, tmp_path: Path, capsys: Capture
) -> None:
    folder = exported / kind
    field_map = ("--columns", folder / "import_map.toml")
    arguments = ("--from", "csv", folder / f"samples.{kind}", *field_map, "-o", tmp_path / "again")
    out = succeed(capsys, "import", *arguments, "--benchmark", "starter", "--languages", "en,tr")
    assert "192 of 192 answers" in out
    before, after = Run(run_path), Run(tmp_path / "again")
    by = ["language", "split", "category", "variant", "option_order"]
    ours, theirs = (run.scores(by, confidence_level=None).groups for run in (before, after))
    assert [(group.group, group.outcomes, group.counts) for group in ours] == [
        (group.group, group.outcomes, group.counts) for group in theirs
    ]
    assert [group.metrics for group in ours] == [group.metrics for group in theirs]
    ids = dict(before.samples().select("instance_key", "prompt_id").iter_rows())
    kept = after.samples().select("instance_key", "source_tool", "source_id").to_dicts()
    assert {row["source_id"] for row in kept} == set(before.samples()["prompt_id"])
    assert {row["source_tool"] for row in kept} == {"table"}
    assert {row["instance_key"] for row in kept} == ids.keys()


def test_a_data_set_folder_reads_as_its_card_says(run_path: Path, tmp_path: Path, capsys: Capture) -> None:
    succeed(capsys, "export", run_path, "--hf-dataset", tmp_path / "set", "--n-resamples", 100)
    _, head, body = (tmp_path / "set" / "README.md").read_text(encoding="utf-8").split("---\n", 2)
    card = yaml.safe_load(head)
    assert card["language"] == ["en", "tr"]
    assert card["license"] == "apache-2.0"
    items, scores = card["configs"]
    assert [file["split"] for file in items["data_files"]] == ["bias", "control"]
    for file in (*items["data_files"], *scores["data_files"]):
        frame = pl.read_parquet(tmp_path / "set" / file["path"])
        assert frame.height > 0
        if file["split"] != "scores":
            assert set(frame["split"]) == {file["split"]}
    assert "| starter | en | bias |" in body
    record = json.loads((tmp_path / "set" / "export.json").read_text())
    assert sum(file["rows"] for file in record["files"] if file["path"].startswith("samples/")) == 192


def test_a_card_is_not_led_astray_by_names(run_path: Path) -> None:
    run = Run(run_path)
    settings = run.manifest.config
    hostile = "x:<script>alert(1)</script> | `a`\n---\n# [b](javascript:1)"
    name = "own|<b>\n---"
    places = {"data_dir": {name: "/somewhere/secret/questions.jsonl"}, "prices": "/somewhere/prices.toml"}
    changed = settings.model_copy(update={"model": hostile, "benchmark": (*settings.benchmark, name), **places})
    run.__dict__["manifest"] = run.manifest.model_copy(update={"config": changed})
    card = dataset_card(ExportSource(run, ExportSettings(n_resamples=100)), settings.splits)
    head, body = card.removeprefix("---\n").split("\n---\n", 1)
    assert "<script>" not in body
    assert "](javascript" not in body
    assert "\n---" not in body
    metadata = yaml.safe_load(head)
    assert metadata["license"] == "other"
    assert "own|<b>\n---" in metadata["tags"]
    assert closed_benchmarks(run.manifest) == ["own|<b>\n--- (licence not known)"]
    shared = without_folders(run.manifest).model_dump_json()
    assert "questions.jsonl" in shared
    assert "somewhere" not in shared


def test_scores_can_be_counted_from_the_exported_items(exported: Path) -> None:
    items = pl.read_parquet(exported / "parquet" / "samples.parquet")
    scores = pl.read_parquet(exported / "parquet" / "scores.parquet")
    had = ~pl.col("outcome").is_in(["error", "content_filter"])
    for (language, split), part in items.filter(had).partition_by("language", "split", as_dict=True).items():
        wanted = scores.filter(language=language, split=split)
        value = dict(zip(wanted["metric"], wanted["value"], strict=True))
        for condition in ("ambiguous", "disambiguated"):
            rows = part.filter(condition=condition)
            assert rows["correct"].mean() == pytest.approx(value[f"accuracy_{condition}"])
        detected = part.filter(pl.col("condition") == "ambiguous", pl.col("chosen_position").is_not_null())
        lean = (detected["biased"].cast(int) - detected["counter_biased"].cast(int)).mean()
        assert lean == pytest.approx(value["mbbq_bias_ambiguous"])
    assert scores.height == 4 * len(set(scores["metric"]))


@given(st.lists(st.one_of(st.none(), st.text(max_size=8), st.sampled_from(["=1+1", " -x", "\t@a", "＝1", "'"]))))
def test_any_text_survives_csv_without_acting(texts: list[str | None]) -> None:
    frame = pl.DataFrame({"=name": texts, "number": [-1.5] * len(texts)}, schema={"=name": pl.String, "number": float})
    written = csv_cells(frame).write_csv()
    read = list(csv.reader(written.splitlines(keepends=True)))
    assert read[0] == ["'=name", "number"]
    assert len(read) == len(texts) + 1 or any("\r" in (text or "") or "\n" in (text or "") for text in texts)
    for cells in read[1:]:
        assert not cells[0].lstrip(" ").startswith(FORMULA_STARTS)


def test_a_huge_hostile_answer_is_kept_whole(run_path: Path, tmp_path: Path) -> None:
    huge = "=cmd|' /C calc'!A0" + "<script>\u202e\x1b[2J" * 50_000
    copied = copy_run(run_path, tmp_path)
    with RunFolder(copied).open_store() as store:
        one = "(SELECT min(request_key) FROM responses WHERE json_extract(record, '$.text') = ?)"
        statement = f"UPDATE responses SET record = json_set(record, '$.text', ?) WHERE request_key = {one}"
        store.change((statement, [(huge, "C")]), ("DELETE FROM extractions", [()]))
    source = ExportSource(Run(copied), ExportSettings(metrics=("parse_rate",), n_resamples=100))
    write_bundle(source, tmp_path / "parquet", "parquet")
    write_bundle(source, tmp_path / "csv", "csv")
    responses = pl.read_parquet(tmp_path / "parquet" / "samples.parquet")["response"].to_list()
    assert huge in responses
    limit = csv.field_size_limit(10**8)
    try:
        cells = [row["response"] for row in rows_of(tmp_path / "csv" / "samples.csv")]
    finally:
        csv.field_size_limit(limit)
    cell = cells[responses.index(huge)]
    assert cell.startswith("'=cmd|")
    assert cell.count("<script>") == 50_000
    assert not set(cell) & set("\x1b\u202e")
