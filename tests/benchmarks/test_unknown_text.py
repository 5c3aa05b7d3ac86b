from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mbbq_gen.benchmarks.registry import load_benchmark
from mbbq_gen.cli.main import run_command_line
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.records import Instance
from mbbq_gen.prompts.variants import (
    DATA_ISSUE,
    PUBLISHED_TEXT,
    parse_unknown_text,
    replace_unknown_text,
    sample_unknown_texts,
)
from mbbq_gen.runs.run_folder import RunFolder
from tests.support.extraction import Capture, stderr_of
from tests.support.stores import column


@pytest.fixture(scope="module")
def starter() -> list[Instance]:
    return list(load_benchmark("starter", languages=["en", "nl"], splits=["bias"]))


@pytest.fixture(scope="module")
def mbbq(data: Path) -> list[Instance]:
    return list(load_benchmark("mbbq", data=data / "datasets" / "mbbq", languages=["en"], splits=["bias"]))


def unknown_text(instance: Instance) -> str:
    return instance.options[instance.unknown_index].text


@pytest.mark.parametrize(
    ("typed", "says"), [("", "the text is empty"), ("en=", "the text is empty"), ("en=a,en=b", "en is named twice")]
)
def test_what_can_not_be_meant(typed: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        parse_unknown_text(typed)


@given(
    text=st.text(min_size=1, alphabet=st.characters(exclude_categories=["Cs"])).filter(str.strip), at=st.integers(0, 2)
)
def test_only_the_unknown_option_changes(text: str, at: int) -> None:
    people = ({"role": "target", "text": "Ada"}, {"role": "non_target", "text": "Bo"})
    options = [*people[:at], {"role": "unknown", "text": "Not known"}, *people[at:]]
    fields = {"benchmark": "own", "version": "1", "split": "bias", "language": "en", "instance_id": "1"}
    fields |= {"template_id": "t", "category": "age", "condition": "ambiguous", "polarity": "negative"}
    instance = Instance.model_validate(
        {**fields, "context": "C.", "question": "Q?", "options": options, "gold_role": "unknown", "metadata": {"k": 1}}
    )
    if text.casefold() in ("ada", "bo"):
        return
    changed = replace_unknown_text(instance, text)
    assert unknown_text(changed) == text
    assert Instance.model_validate(changed.model_dump()) == changed
    kept = {"options", "data_issues", "metadata"}
    assert changed.model_dump(exclude=kept) == instance.model_dump(exclude=kept)
    assert [o for o in changed.options if o.role != "unknown"] == [o for o in instance.options if o.role != "unknown"]
    if text != "Not known":
        assert (changed.data_issues, changed.metadata) == ((DATA_ISSUE,), {"k": 1, PUBLISHED_TEXT: "Not known"})
    assert replace_unknown_text(changed, text) == changed


def test_a_persons_text_is_refused(starter: list[Instance]) -> None:
    person = next(option.text for option in starter[0].options if option.role == "target")
    with pytest.raises(UsageError, match=r"is the text of a person in starter/bias/en/"):
        replace_unknown_text(starter[0], person.upper())


def test_sampled_texts_are_those_of_the_data_the_same_each_time(mbbq: list[Instance]) -> None:
    known = {unknown_text(instance) for instance in mbbq}
    assert len(known) > 1
    one = list(sample_unknown_texts(lambda: mbbq, 1))
    assert one == list(sample_unknown_texts(lambda: mbbq[::-1], 1))[::-1]
    assert {unknown_text(instance) for instance in one} <= known
    seeds = {tuple(unknown_text(i) for i in sample_unknown_texts(lambda: mbbq, seed)) for seed in range(5)}
    assert len(seeds) > 1


def test_a_single_wording_leaves_nothing_to_draw(data: Path) -> None:
    questions = list(load_benchmark("gg_bbq", data=data / "datasets" / "gg_bbq"))
    with pytest.raises(UsageError, match=r"gg_bbq has one text only in de, 'keine Antwort'"):
        sample_unknown_texts(lambda: questions, 0)


def test_a_run_stores_and_says_what_was_reworded(tmp_path: Path, capsys: Capture) -> None:
    run = [str(tmp_path / "run"), "--model", "oracle:perfect", "--benchmark", "starter", "--languages", "en,nl"]
    run += ["--variants", "bare", "--splits", "bias", "--sample", "12"]
    text = "en=Nobody says,nl=Dat zegt niemand"
    assert run_command_line(["run", *run, "--unknown-text", text]) == 0
    assert RunFolder(tmp_path / "run").manifest().config.unknown_text == text
    stored = [json.loads(record) for record in column(tmp_path / "run", "SELECT record FROM instances")]
    sent = [json.loads(record) for record in column(tmp_path / "run", "SELECT record FROM prompts")]
    assert all(DATA_ISSUE in record["data_issues"] and record["metadata"][PUBLISHED_TEXT] for record in stored)
    for prompt in sent:
        wanted = "Nobody says" if prompt["language"] == "en" else "Dat zegt niemand"
        assert wanted in prompt["messages"][-1]["content"]
    assert "--unknown-text sampled: " in stderr_of(capsys, "run", *run, "--unknown-text", "sampled")
    assert "no text for nl" in stderr_of(capsys, "run", tmp_path / "other", *run[1:], "--unknown-text", "en=x")
    assert not (tmp_path / "other").exists()
