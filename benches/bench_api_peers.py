"""The whole command on 3,000 short prompts over an API, beside other harnesses, against the same fake server.

    python benches/bench_api_peers.py [--quick] [--peers lm-eval,inspect-ai] [--repeats 3] [--latency 0.05]
                                      [--venvs DIR]

mbbq-gen plans, asks, stores, reads and scores 3,000 prompts of the starter benchmark. The others get the very
same prompts as a task of their own, with the answers that the server gives as targets: lm-eval through its
`local-chat-completions` with exact match, inspect-ai through its `openai` provider with `match`. Each runs in a virtual
environment of its own, made once (in the cache directory, or --venvs). All are asked to keep 256 requests in flight,
answers take 50 ms (or --latency), and everything from the start of the command to its end counts. They are measured in
turn, several times over; medians are compared.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import venv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from fake_api import ENVIRONMENT, mbbq_gen_run, must, questions, run_command, say, server, table

from mbbq_gen.core.files import cache_directory
from mbbq_gen.runs.run_folder import RunFolder
from tests.fake_service.client import FakeServer

LM_EVAL_TASK = """task: {name}
dataset_path: json
dataset_kwargs:
  data_files:
    test: {prompts}
test_split: test
output_type: generate_until
doc_to_text: "{{{{prompt}}}}"
doc_to_target: "{{{{target}}}}"
generation_kwargs:
  until: {until}
  max_gen_toks: {limit}
  do_sample: false
metric_list:
  - metric: exact_match
    aggregation: mean
    higher_is_better: true
"""
"""A task of lm-eval over prompts of ours: its name, their file, what ends an answer, and its most tokens."""

_INSPECT_TASK = """from inspect_ai import Task, task
from inspect_ai.dataset import FieldSpec, json_dataset
from inspect_ai.model import GenerateConfig
from inspect_ai.scorer import match
from inspect_ai.solver import generate


@task
def fake_questions():
    fields = FieldSpec(input="prompt", target="target")
    dataset = json_dataset({prompts!r}, fields)
    return Task(dataset=dataset, solver=generate(), scorer=match(), config=GenerateConfig(max_tokens=16))
"""


@dataclass(frozen=True)
class Work:
    """What everybody does."""

    folder: Path
    prompts: Path
    """JSON Lines: prompt, target."""
    concurrency: int


@dataclass(frozen=True)
class Peer:
    """Another harness."""

    packages: tuple[str, ...]
    command: Callable[[Path, FakeServer, Work], list[str]]
    """From the folder of its programs, the server and the work to what is run."""


def _lm_eval(programs: Path, at: FakeServer, work: Work) -> list[str]:
    tasks = work.folder / "lm-eval"
    tasks.mkdir(exist_ok=True)
    text = LM_EVAL_TASK.format(name="fake_questions", prompts=work.prompts, until="[]", limit=16)
    (tasks / "fake_questions.yaml").write_text(text, encoding="utf-8")
    model = f"model=fake,base_url={at.openai}/chat/completions,num_concurrent={work.concurrency},max_retries=5"
    options = ["--model", "local-chat-completions", "--model_args", model, "--apply_chat_template"]
    output = ["--output_path", str(tasks / "out"), "--log_samples"]
    task = ["--tasks", "fake_questions", "--include_path", str(tasks)]
    return [str(programs / "lm_eval"), "run", *options, *task, *output]


def _inspect(programs: Path, at: FakeServer, work: Work) -> list[str]:
    task = "inspect_task.py"
    (work.folder / task).write_text(_INSPECT_TASK.format(prompts=str(work.prompts)), encoding="utf-8")
    options = ["--model", "openai/fake", "--model-base-url", at.openai, "--max-connections", str(work.concurrency)]
    output = ["--log-dir", str(work.folder / "inspect-logs"), "--display", "none"]
    return [str(programs / "inspect"), "eval", task, *options, "-M", "responses_api=false", *output]


PEERS: dict[str, Peer] = {
    "lm-eval": Peer(("lm-eval[api]", "transformers"), _lm_eval),
    "inspect-ai": Peer(("inspect-ai", "openai"), _inspect),
}


def programs_of(name: str, peer: Peer, venvs: Path) -> Path:
    """The folder of a harness's programs, in a virtual environment that is made where it is missing."""
    folder = venvs / name
    programs = folder / ("Scripts" if sys.platform == "win32" else "bin")
    done = folder / "installed"
    if not done.is_file():
        say(f"installing {', '.join(peer.packages)} into {folder}")
        venv.create(folder, with_pip=True, clear=True)
        install = [str(programs / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, *peer.packages], check=True)
        done.touch()
    return programs


def version_of(programs: Path, name: str) -> str:
    """The version that is installed."""
    script = f"import importlib.metadata as m; print(m.version({name!r}))"
    found = subprocess.run([str(programs / "python"), "-c", script], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def run_ours(at: FakeServer, work: Work, each: int, number: int) -> float:
    """Seconds of our whole command."""
    folder = work.folder / f"run-{number}"
    chosen = questions("en", each, "bare,letters", "--max-connections", str(work.concurrency))
    command = mbbq_gen_run(folder, at, *chosen)
    return must(run_command(command, work.folder / "mbbq-gen.log"), "mbbq-gen").seconds


def export_prompts(folder: Path, path: Path) -> int:
    """Writes what a run sent, so that the others send the same; says how many."""
    with RunFolder(folder).open_store(read_only=True) as store, path.open("w", encoding="utf-8") as stream:
        records = store.query("SELECT record FROM prompts ORDER BY number")
        rows = [json.loads(record)["messages"] for (record,) in records]
        stream.writelines(json.dumps({"prompt": turns[-1]["content"], "target": "A"}) + "\n" for turns in rows)
    return len(rows)


def measure_peer(name: str, command: Sequence[str], at: FakeServer, work: Work, count: int) -> float:
    """Seconds of another harness's whole command; it must have asked everything."""
    at.reset()
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(work.folder / "hf")}
    environment = {**ENVIRONMENT, **offline}
    ended = must(run_command(command, work.folder / f"{name}.log", environment, cwd=work.folder), name)
    stats = at.stats()
    if stats.distinct_paid < count:
        sys.exit(f"{name} got {stats.distinct_paid} of {count} answers:\n{ended.output}")
    return ended.seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="300 prompts, once: shows that it works")
    parser.add_argument("--peers", default=",".join(PEERS), help="whom to measure, comma-separated")
    parser.add_argument("--repeats", type=int, help="rounds (3; quick: 1)")
    parser.add_argument("--latency", type=float, default=0.05, help="seconds to an answer (0.05)")
    parser.add_argument("--venvs", type=Path, help="where the others are installed; default: the cache directory")
    given = parser.parse_args()
    each, repeats = (75 if given.quick else 750), given.repeats or (1 if given.quick else 3)
    venvs = (given.venvs or cache_directory() / "bench-peers").absolute()
    wanted = [name for name in given.peers.split(",") if name]
    programs = {name: programs_of(name, PEERS[name], venvs) for name in wanted}
    seconds: dict[str, list[float]] = {"mbbq-gen": [], **{name: [] for name in wanted}}
    with tempfile.TemporaryDirectory() as temporary, server(f"latency.seconds={given.latency}") as at:
        work = Work(Path(temporary), Path(temporary) / "prompts.jsonl", 256)
        for number in range(repeats):
            seconds["mbbq-gen"].append(run_ours(at, work, each, number))
            count = export_prompts(work.folder / f"run-{number}", work.prompts)
            for name in wanted:
                command = PEERS[name].command(programs[name], at, work)
                seconds[name].append(measure_peer(name, command, at, work, count))
            say("  " + ", ".join(f"{name} {found[-1]:.2f} s" for name, found in seconds.items()))
    ours = statistics.median(seconds["mbbq-gen"])
    rows = [("mbbq-gen", f"{ours:.2f} s", "")]
    for name in wanted:
        median = statistics.median(seconds[name])
        rows.append((f"{name} {version_of(programs[name], name)}", f"{median:.2f} s", f"{median / ours:.1f} × ours"))
    what = f"whole command, {count:,} prompts, {given.latency:g} s to an answer, 256 at a time"
    print(table((what, "median", "in comparison"), rows))


if __name__ == "__main__":
    main()
