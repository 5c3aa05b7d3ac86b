from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.benchmarks.registry import load_benchmark
from mbbq_gen.core.errors import DataError, MbbqGenError, UsageError
from mbbq_gen.core.option_display import options_in_order
from mbbq_gen.core.records import Instance, Prompt
from mbbq_gen.prompts.published import PublishedPrompt, read_published_prompts
from mbbq_gen.prompts.render import PromptSettings, render_prompt
from mbbq_gen.runs.run_folder import RunFolder
from tests.support.cases import cases
from tests.support.extraction import Capture, call, stderr_of
from tests.support.questions import options, question


def copy_of(files: Mapping[str, str], folder: Path) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.removeprefix("\n"), encoding="utf-8", newline="")
    return folder


OWN = question(
    context="It rained.", question="Who got wet?", options=options("Ada", "Bo", "Nobody knows"), instance_id="1"
)


def sent(prompt: PublishedPrompt, instance: Instance, order: tuple[int, ...] = (0, 1, 2)) -> str:
    setting = PromptSettings(prompt.variant, prompt.label_style, unknown_text=prompt.unknown_text)
    return render_prompt(instance, setting, order).messages[-1].content


@pytest.mark.parametrize("case", cases("datasets/published_prompts/good.toml", "case"), ids=lambda case: case["name"])
def test_what_is_sent_is_what_the_authors_send(tmp_path: Path, case: dict[str, Any]) -> None:
    folder = copy_of(case["files"], tmp_path)
    expected: dict[str, dict[str, str]] = case["sent"]
    found = {
        prompt.variant.id: prompt for prompt in read_published_prompts(case["benchmark"], folder, case["language"])
    }
    assert list(found) == list(expected)
    for name, wanted in expected.items():
        prompt = found[name]
        assert (prompt.label_style, prompt.unknown_text) == (wanted["style"], wanted.get("unknown"))
        assert sent(prompt, OWN) == wanted["message"]
        assert prompt.source.is_file()


@pytest.mark.parametrize("case", cases("datasets/published_prompts/broken.toml", "case"), ids=lambda case: case["says"])
def test_a_copy_that_lacks_them_gives_one_line(tmp_path: Path, case: dict[str, Any]) -> None:
    folder = copy_of(case["files"], tmp_path)
    with pytest.raises(MbbqGenError, match=case["says"]) as caught:
        read_published_prompts(case["benchmark"], folder, case.get("language", "en"))
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2


def test_an_unknown_option_of_the_prompt_is_shown_read_and_stored() -> None:
    instance = OWN
    assert options_in_order(instance, (2, 0, 1), "Can't tell") == ["Can't tell", "Ada", "Bo"]
    assert options_in_order(instance, (2, 0, 1)) == ["Nobody knows", "Ada", "Bo"]


MBBQ = """
prompts = ["Who? {} {} (A): {} (B): {} (C): {}", "Say it. {} {} A: {} B: {} C: {} Answer:"]
trans_prompt_dict = {}
"""


@pytest.fixture
def mbbq(data: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "MBBQ"
    (folder / "data").mkdir(parents=True)
    for path in (data / "datasets" / "mbbq" / "data").iterdir():
        (folder / "data" / path.name).write_bytes(path.read_bytes())
    return copy_of({"answer_detection.py": MBBQ}, folder)


def test_a_run_with_published_prompts(mbbq: Path, run_path: Path, capsys: Capture) -> None:
    common = ("--model", "oracle:perfect", "--benchmark", "mbbq", "--data-dir", mbbq, "--prompt-source", "published")
    assert call(capsys, "run", run_path, *common, "--languages", "en", "--splits", "bias")[0] == 0
    folder = RunFolder(run_path)
    settings = folder.manifest().config
    assert (settings.prompt_source, settings.variants) == ("published", ("published_1", "published_2"))
    assert settings.label_style == ("published",)
    assert "mbbq/answer_detection.py" in folder.manifest().file_digests
    with folder.open_store(read_only=True) as store:
        assert list(store.pending()) == []
        prompts = [Prompt.model_validate_json(record) for (record,) in store.query("SELECT record FROM prompts")]
        questions = {instance.key: instance for instance in store.instances()}
    assert len(prompts) == 2 * len(questions) == 80
    assert {(p.variant, p.label_style) for p in prompts} == {("published_1", "(A)"), ("published_2", "A")}
    for prompt in prompts:
        instance = questions[prompt.instance_key]
        texts = [instance.options[index].text for index in prompt.option_order]
        template = {"published_1": "Who? {} {} (A): {} (B): {} (C): {}"}.get(
            prompt.variant, "Say it. {} {} A: {} B: {} C: {} Answer:"
        )
        assert prompt.messages[-1].content == template.format(instance.context, instance.question, *texts)
    assert call(capsys, "run", run_path)[0] == 0


@pytest.mark.parametrize(("more", "says"), cases("prompts/published_prompts", "what_published_prompts_do_not_allow"))
def test_what_published_prompts_do_not_allow(
    mbbq: Path, tmp_path: Path, capsys: Capture, more: tuple[str, ...], says: str
) -> None:
    common = ("--model", "oracle:perfect", "--benchmark", "mbbq", "--data-dir", mbbq, "--prompt-source", "published")
    assert says in stderr_of(capsys, "run", tmp_path / "run", *common, "--languages", "en", *more)


def test_kobbq_is_asked_as_its_code_asks(shared_datasets: Path) -> None:
    """`make_prefix` and `make_prompt` of the authors' 1_preprocess.py, by hand, on its first hundred samples."""
    with (shared_datasets / "kobbq" / "evaluation" / "0_evaluation_prompts.tsv").open(
        encoding="utf-8", newline=""
    ) as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    published = read_published_prompts("kobbq", shared_datasets / "kobbq", "ko")
    assert [prompt.variant.id for prompt in published] == [f"published_{row['prompt_id']}" for row in rows]
    assert len(rows) == 5
    samples = list(load_benchmark("kobbq", data=shared_datasets / "kobbq"))[:100]
    for row, prompt in zip(rows, published, strict=True):
        for instance in samples:
            texts = [option.text.replace("알 수 없음", row["unknown"]) for option in instance.options]
            shown = [texts[1], texts[2], texts[0]]
            asked = row["instruction"] + "\n\n"
            for name, text in zip(
                ("context", "question", "a", "b", "c"), (instance.context, instance.question, *shown), strict=True
            ):
                asked += row[name] + text + "\n"
            asked += row["answer"]
            assert sent(prompt, instance, (1, 2, 0)) == asked
            whole = row["prompt"].replace("\\n", "\n").replace("{B}", "{b}").replace("{C}", "{c}")
            filled = dict(zip("abc", shown, strict=True))
            assert asked == whole.format(context=instance.context, question=instance.question, **filled)


def test_bharatbbq_prompts_are_the_blocks_of_its_files(shared_datasets: Path) -> None:
    folder = shared_datasets / "bharatbbq"
    files = ("zero-shot.md", "few-shot-English_instruction.md", "few-shot_Target_instruction.md")
    blocks = [block for name in files for block in (folder / name).read_text(encoding="utf-8").split("```")[1::2]]
    instance = OWN
    texts = {"a": "Ada", "b": "Bo", "c": "Nobody knows"}
    possible = {block.format(ctx=instance.context, qn=instance.question, **texts).strip() for block in blocks}
    asked: set[str] = set()
    for language in ("en", "hi", "mr", "bn", "ta", "te", "or", "as"):
        published = read_published_prompts("bharatbbq", folder, language)
        assert len(published) == (2 if language == "en" else 4)
        asked |= {sent(prompt, instance) for prompt in published}
    assert asked == possible
    assert len(possible) == 23


def test_no_copy_and_no_folder_are_told(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"get one with `mbbq-gen data download mbbq`"):
        read_published_prompts("mbbq", None, "en")
    with pytest.raises(UsageError, match=r"no folder .*gone"):
        read_published_prompts("mbbq", tmp_path / "gone", "en")


def test_latin_1_is_refused(tmp_path: Path) -> None:
    (tmp_path / "answer_detection.py").write_bytes("prompts = ['é']".encode("latin-1"))
    with pytest.raises(DataError, match=r"answer_detection\.py: not UTF-8 at byte 13"):
        read_published_prompts("mbbq", tmp_path, "en")
