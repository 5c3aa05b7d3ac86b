from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from mbbq_gen.benchmarks.registry import BENCHMARKS
from mbbq_gen.core.records import Instance
from mbbq_gen.interchange.importers.base import open_archive, read_member
from mbbq_gen.providers.responders import ORACLES
from tests.support.cases import cases
from tests.support.extraction import Capture, json_of, succeed

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")
pytest.importorskip("inspect_ai", reason="needs the extra `inspect`")

SCORES = ("accuracy_ambiguous", "accuracy_disambiguated", "diff_bias_ambiguous", "diff_bias_disambiguated")


def make_task(**settings: Any) -> Any:
    from mbbq_gen.interchange.inspect_tasks import TASKS

    return TASKS["starter"](**{"languages": "en,tr", "sample": 12, **settings})


def test_every_benchmark_is_a_task() -> None:
    from mbbq_gen.interchange.inspect_tasks import TASKS

    assert TASKS.keys() == BENCHMARKS.keys()
    (point,) = entry_points(group="inspect_ai", name="mbbq_gen") or [None]
    if point is not None:  # a checkout that was installed before it had the entry point
        assert point.value == "mbbq_gen.interchange.inspect_tasks"


def score_all(task: Any, say: Any) -> tuple[dict[str, float], list[Any]]:
    """What the task's own scorer and metric make of answers, without inspect's machinery."""
    from inspect_ai.model import ModelName, ModelOutput
    from inspect_ai.scorer import SampleScore, Target
    from inspect_ai.solver import TaskState

    async def run() -> list[SampleScore]:
        found = []
        for sample in task.dataset:
            state = TaskState(
                model=ModelName("mockllm/model"),
                sample_id=sample.id,
                epoch=1,
                input=sample.input,
                messages=list(sample.input),
                metadata=sample.metadata,
                output=ModelOutput.from_content("mockllm/model", say(sample)),
            )
            score = await task.scorer[0](state, Target(sample.target))
            found.append(SampleScore(score=score, sample_id=sample.id, sample_metadata=sample.metadata))
        return found

    scores = asyncio.run(run())
    return task.metrics[0](scores), [entry.score for entry in scores]


def says(oracle: str) -> Any:
    def say(sample: Any) -> str:
        instance = Instance.model_validate(sample.metadata["mbbq_gen_record"])
        role = {"perfect": instance.gold_role, "stereotyped": instance.biased_role, "always_unknown": "unknown"}[oracle]
        text = next(option.text for option in instance.options if option.role == role)
        return "ABC"[sample.choices.index(text)]

    assert oracle in ORACLES
    return say


@pytest.mark.parametrize(
    ("oracle", "expected"), cases("interchange/inspect_tasks", "oracles_score_what_arithmetic_says")
)
def test_oracles_score_what_arithmetic_says(oracle: str, expected: list[float]) -> None:
    found, scores = score_all(make_task(sample=24), says(oracle))
    for language in ("en", "tr"):
        for split in ("bias", "control"):
            assert [found[f"{name} {language} {split}"] for name in SCORES] == expected
            assert found[f"parse_rate {language} {split}"] == 1.0
    assert {score.value for score in scores} <= {"C", "I"}
    if oracle == "perfect":
        assert {score.value for score in scores} == {"C"}
        assert scores[0].explanation.startswith("option: ")
        assert "rule whole_response" in scores[0].explanation


def test_unread_answers_are_wrong_and_in_no_bias() -> None:
    found, scores = score_all(make_task(languages="en", splits="bias"), lambda sample: "Hm.")
    assert found["parse_rate en bias"] == 0.0
    assert found["accuracy_ambiguous en bias"] == 0.0
    assert found["diff_bias_ambiguous en bias"] != found["diff_bias_ambiguous en bias"]  # NaN: not defined
    assert {score.value for score in scores} == {"I"}
    assert scores[0].answer is None


MOCK = """
from inspect_ai.model import ModelAPI, ModelOutput, ModelUsage, modelapi

@modelapi(name="always")
class Always(ModelAPI):
    async def generate(self, input, tools, tool_choice, config):
        # The first option shown, whatever it is.
        output = ModelOutput.from_content("first", "A")
        output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
        return output
"""


@pytest.mark.slow
def test_inspects_own_command_line(capsys: Capture, tmp_path: Path, run_path: Path, repository: Path) -> None:
    (tmp_path / "model.py").write_text(MOCK, encoding="utf-8")
    # Imported by hand: a checkout may have been installed before it had the entry point by which inspect finds it.
    script = (
        "import model, mbbq_gen.interchange.inspect_tasks\n"
        "from inspect_ai._cli.main import inspect\n"
        "inspect(['eval', 'mbbq_gen/starter', '--model', 'always/first', '-T', 'languages=en,tr', '-T',\n"
        "         'sample=12', '--display', 'none', '--log-dir', 'logs'])\n"
    )
    environment = os.environ | {"PYTHONPATH": str(repository), "INSPECT_LOG_LEVEL": "error"}
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    (log,) = (tmp_path / "logs").glob("*.eval")
    with open_archive(log) as archive:
        metrics = json.loads(read_member(archive, "header.json"))["results"]["scores"][0]["metrics"]
    succeed(capsys, "import", "--from", "inspect", log, "-o", run_path, "--benchmark", "starter")
    ours = {
        f"{name} {group['group']['language']} {group['group']['split']}": metric["value"]
        for group in json_of(capsys, "score", run_path, "--group-by", "language,split")["groups"]
        for name, metric in group["metrics"].items()
    }
    assert len(metrics) == 7 * 4
    assert {name: metric["value"] for name, metric in metrics.items()} == {name: ours[name] for name in metrics}
