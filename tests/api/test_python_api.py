from __future__ import annotations

import io
import json
import re
import shutil
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from mbbq_gen import Run, extract, load_benchmark
from mbbq_gen.cli.main import run_command_line
from mbbq_gen.core.errors import UnknownNameError, UsageError
from mbbq_gen.core.records import Instance, Role
from mbbq_gen.runs.samples import item_schema
from mbbq_gen.scoring.observations import Observation
from tests.support.extraction import Capture, json_of, make_run
from tests.support.questions import question


@pytest.fixture(scope="module")
def run_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_run(tmp_path_factory.mktemp("api") / "scripted")


@pytest.fixture(scope="module")
def run(run_path: Path) -> Run:
    return Run(run_path)


def odd_questions() -> list[Instance]:
    """Questions whose published label is wrong, whose groups are crossed, or that have no single target."""
    roles: tuple[Role | None, ...] = ("target", "unknown", "non_target")

    def odd(name: str, roles: tuple[Role | None, ...], **fields: Any) -> Instance:
        return question(
            instance_id=name,
            template_id=f"template {name}",
            condition="disambiguated",
            context=f"Mr Arda and Ms Bell waited for bus {name}. Ms Bell had forgotten her ticket.",
            question="Who had forgotten the ticket?",
            options=[
                {"role": role, "text": text}
                for role, text in zip(roles, ("Mr Arda", "Unknown", "Ms Bell"), strict=True)
            ],
            **{"gold_role": None, **fields},
        )

    two: tuple[Role | None, ...] = (None, "unknown", None)
    return [
        odd("1", roles, gold_role="target", corrected_gold_role="non_target"),
        odd("2", roles, gold_role="non_target", groups_swapped=True),
        odd("3", roles, gold_role="non_target"),
        odd("4", two, gold_index=2, has_single_target=False, no_target_reason="two targets"),
    ]


@pytest.fixture(scope="module")
def odd_run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("odd")
    file = folder / "questions.jsonl"
    file.write_text("".join(f"{one.model_dump_json()}\n" for one in odd_questions()), encoding="utf-8")
    arguments = ["run", folder / "run", "--model", "oracle:perfect", "--instances", file]
    code = run_command_line(
        [str(argument) for argument in (*arguments, "--variants", "letters", "--option-order", "all")]
    )
    assert code == 0
    return Run(folder / "run")


def test_items_have_the_columns_that_are_promised(run: Run) -> None:
    frame = run.samples(messages=True)
    assert dict(frame.schema) == item_schema(messages=True)
    assert {*Observation._fields} <= set(frame.columns)
    assert "messages" not in run.samples().columns
    assert frame["prompt_id"].is_unique().all()
    assert frame.height == run.manifest.counts.prompts


def test_an_item_says_what_was_shown_said_and_read(run: Run) -> None:
    rows = run.samples(messages=True).to_dicts()
    read = 0
    for row in rows:
        for text, label in zip(row["options"], row["option_labels"], strict=True):
            assert f"{label}: {text}" in row["prompt"]
        assert row["prompt"] == row["messages"][-1]["content"]
        assert row["evidence"] == [(row["response"] or "")[start:end] for start, end in row["spans"]]
        assert row["option_roles"][row["gold_position"]] == row["gold_role"]
        assert row["option_order"] == "-".join(row["option_roles"])
        if row["chosen_position"] is None:
            assert row["chosen_text"] is None
            continue
        read += 1
        assert row["chosen_text"] == row["options"][row["chosen_position"]]
        assert row["option_order_indices"][row["chosen_position"]] == row["chosen_index"]
        assert row["correct"] == (row["chosen_position"] == row["gold_position"])
    assert 0 < read < len(rows)
    assert {row["outcome"] for row in rows} >= {"option", "abstention", "unparsed", "empty", "error", "content_filter"}


def test_the_right_place_follows_the_labels(odd_run: Run) -> None:
    published, corrected = (
        odd_run.samples(gold=labels).filter(instance_id="1") for labels in ("published", "corrected")
    )
    assert published.height == 6
    for frame, text in ((published, "Mr Arda"), (corrected, "Ms Bell")):
        places = zip(frame["options"], frame["gold_position"], strict=True)
        assert {options[place] for options, place in places} == {text}
    assert published["correct"].all()
    assert not corrected["correct"].any()


def test_items_can_be_chosen(run: Run) -> None:
    everything = run.samples()
    assert run.samples(languages=["en"]).height == everything.filter(language="en").height
    with pytest.raises(UnknownNameError, match="language of the run 'de'"):
        run.samples(languages=["de"])
    with pytest.raises(UnknownNameError, match="extractor"):
        run.samples(extractor="nobody")


def test_scores_are_those_of_the_command(run: Run, capsys: Capture) -> None:
    told = json_of(capsys, "score", run.path, "--group-by", "language,category,split", "--seed", 3)
    ours = json.loads(run.scores(["language", "category", "split"], seed=3).model_dump_json())
    assert ours["groups"] == told["groups"]
    one = run.scores([], ["accuracy_ambiguous"], confidence_level=None).groups[0]
    assert one.metrics["accuracy_ambiguous"].ci_low is None


def test_questions_can_be_loaded(tmp_path: Path) -> None:
    questions = load_benchmark("starter", languages=["tr"], splits=["control"])
    assert {(one.language, one.split) for one in questions} == {("tr", "control")}
    with pytest.raises(UnknownNameError, match="did you mean"):
        load_benchmark("startr")
    with pytest.raises(UsageError, match="no folder"):
        load_benchmark("bbq_lite", data_dir=tmp_path / "nothing")
    texts = [option.text for option in questions[0].options]
    read = extract(f"Cevap: {texts[0]}", texts, ["A", "B", "C"], "tr", questions[0].unknown_index)
    assert read.option == 0


def test_instances_and_progress(run: Run) -> None:
    assert len(list(run.instances())) == run.manifest.counts.instances
    assert run.progress().requests == run.manifest.counts.requests
    assert run.name == "scripted"
    assert repr(run) == f"Run({str(run.path)!r})"


def test_the_examples_of_the_page_run(
    repository: Path, run_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("my-run", "run-march", "run-june"):
        shutil.copytree(run_path, tmp_path / name)
    monkeypatch.chdir(tmp_path)
    page = (repository / "docs" / "python.md").read_text(encoding="utf-8")
    examples = re.findall(r"^```python\n(.+?)^```$", page, re.MULTILINE | re.DOTALL)
    assert len(examples) == 7
    names: dict[str, Any] = {}
    for example in examples:
        exec(example, names)
    assert names["both"].height == names["first"].height
    assert (names["women"]["target_group"].cast(pl.String).str.to_lowercase().str.contains("woman|female")).all()


def test_the_notebook_runs(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    notebook = json.loads((repository / "docs" / "notebook.ipynb").read_text(encoding="utf-8"))
    assert notebook["nbformat"] == 4
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {"__name__": "__main__"}
    said = io.StringIO()
    for number, cell in enumerate(cells, start=1):
        with redirect_stdout(said):
            exec(compile("".join(cell["source"]), f"notebook.ipynb, cell {number}", "exec"), names)
    table = names["scores"]
    for group in table.groups:
        if group.group["split"] == "bias":
            assert group.metrics["mbbq_bias_ambiguous"].value == 1
    assert names["samples"].height == names["run"].manifest.counts.prompts
