"""The whole command on 3,000 prompts of MBBQ over an API, beside other harnesses, against the same server.

    python benches/bench_api_peers.py --data-dir FOLDER [--latency 0.05] [--limited 0.05] [--repeats 5]
                                      [--peers lm-eval,inspect-ai] [--prompts 3000] [--venvs DIR]

mbbq-gen plans, sends, stores, extracts and scores English prompts. The others get the same prompts as a task of their
own: lm-eval through `local-chat-completions` with exact match, inspect-ai through its `openai` provider with `match`;
bare aiohttp sends them and keeps nothing. The server is `answer_server.py` under uvicorn with httptools and uvloop.
Each is in a virtual environment of its own, made once. All keep 256 requests in flight. They are measured in turn;
medians of wall seconds and of processor seconds, from the start of a command to its end.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from fake_api import ENVIRONMENT, Ended, must, run_command, say, table

from mbbq_gen.core.files import cache_directory
from mbbq_gen.runs.run_folder import RunFolder

IN_FLIGHT = 256
PACKAGES = {
    "server": ("uvicorn", "httptools", "uvloop"),
    "bare aiohttp": ("aiohttp",),
    "lm-eval": ("lm-eval[api]==0.4.13", "transformers"),
    "inspect-ai": ("inspect-ai", "openai"),
}
_LM_EVAL = """task: fake_questions
dataset_path: json
dataset_kwargs: {{data_files: {{test: {prompts}}}}}
test_split: test
output_type: generate_until
doc_to_text: "{{{{prompt}}}}"
doc_to_target: "{{{{target}}}}"
generation_kwargs: {{until: [], max_gen_toks: 64, do_sample: false}}
metric_list: [{{metric: exact_match, aggregation: mean, higher_is_better: true}}]
"""
_INSPECT = """from inspect_ai import Task, task
from inspect_ai.dataset import FieldSpec, json_dataset
from inspect_ai.model import GenerateConfig
from inspect_ai.scorer import match
from inspect_ai.solver import generate


@task
def fake_questions():
    dataset = json_dataset({prompts!r}, FieldSpec(input="prompt", target="target"))
    return Task(dataset=dataset, solver=generate(), scorer=match(), config=GenerateConfig(max_tokens=64))
"""
_BARE = """import asyncio, json, aiohttp

async def ask(session, prompts):
    for prompt in prompts:
        body = {{"model": "fake", "messages": [{{"role": "user", "content": prompt}}], "max_tokens": 64}}
        while True:
            async with session.post({url!r}, json=body) as reply:
                await reply.read()
            if reply.status != 429:
                break
            await asyncio.sleep(1)

async def main():
    prompts = iter([json.loads(line)["prompt"] for line in open({prompts!r})])
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(ask(session, prompts) for _ in range({in_flight})))

asyncio.run(main())
"""


def programs_of(name: str, venvs: Path) -> Path:
    """The folder of programs of a virtual environment, which is made where it is missing."""
    folder = venvs / name.replace(" ", "-")
    if not (folder / "installed").is_file():
        say(f"installing {', '.join(PACKAGES[name])} into {folder}")
        venv.create(folder, with_pip=True, clear=True)
        install = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, *PACKAGES[name]], check=True)
        (folder / "installed").touch()
    return folder / "bin"


@contextmanager
def serving(programs: Path, latency: float, limited: float) -> Iterator[str]:
    """The address of a new server."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    options = ["--port", str(port), "--http", "httptools", "--loop", "uvloop", "--no-access-log", "--backlog", "4096"]
    environment = {**os.environ, "LATENCY": str(latency), "LIMITED": str(limited)}
    command = [str(programs / "uvicorn"), "answer_server:app", "--lifespan", "off", *options]
    process = subprocess.Popen(command, cwd=Path(__file__).parent, env=environment, stderr=subprocess.DEVNULL)
    try:
        for _ in range(100):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def command_of(name: str, programs: Path, url: str, folder: Path) -> list[str]:
    """The command of a peer on the prompts in a folder."""
    prompts, chat = str(folder / "prompts.jsonl"), f"{url}/v1/chat/completions"
    if name == "bare aiohttp":
        (folder / "bare.py").write_text(_BARE.format(url=chat, prompts=prompts, in_flight=IN_FLIGHT))
        return [str(programs / "python"), "bare.py"]
    if name == "lm-eval":
        (folder / "fake_questions.yaml").write_text(_LM_EVAL.format(prompts=prompts))
        model = f"model=fake,base_url={chat},num_concurrent={IN_FLIGHT},max_retries=5"
        options = ["--model", "local-chat-completions", "--model_args", model, "--apply_chat_template"]
        task = ["--tasks", "fake_questions", "--include_path", str(folder), "--output_path", "out", "--log_samples"]
        return [str(programs / "lm_eval"), "run", *options, *task]
    (folder / "inspect_task.py").write_text(_INSPECT.format(prompts=prompts))
    options = ["--model", "openai/fake", "--model-base-url", f"{url}/v1", "--max-connections", str(IN_FLIGHT)]
    return [str(programs / "inspect"), "eval", "inspect_task.py", *options, "-M", "responses_api=false"]


def export_prompts(run: Path, path: Path) -> None:
    """Writes what a run sent, so that the others send the same."""
    with RunFolder(run).open_store(read_only=True) as store, path.open("w", encoding="utf-8") as stream:
        for (record,) in store.query("SELECT record FROM prompts ORDER BY number"):
            prompt = json.loads(record)["messages"][-1]["content"]
            stream.write(json.dumps({"prompt": prompt, "target": "A"}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", required=True, help="MBBQ's published files")
    parser.add_argument("--prompts", type=int, default=3000)
    parser.add_argument("--peers", default="lm-eval,inspect-ai", help="beside bare aiohttp, comma-separated")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--latency", type=float, default=0.05, help="seconds to an answer")
    parser.add_argument("--limited", type=float, default=0.0, help="share of prompts that get 429 first")
    parser.add_argument("--venvs", type=Path, default=cache_directory() / "bench-peers")
    given = parser.parse_args()
    peers = ["bare aiohttp", *filter(None, given.peers.split(","))]
    programs = {name: programs_of(name, given.venvs.absolute()) for name in ("server", *peers)}
    found: dict[str, list[Ended]] = {name: [] for name in ("mbbq-gen", *peers)}
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "HF_HOME": str(folder / "hf")}
        for number in range(given.repeats):
            for name, all_found in found.items():
                with serving(programs["server"], given.latency, given.limited) as url:
                    chosen = ["--benchmark", "mbbq", "--data-dir", given.data_dir, "--languages", "en"]
                    chosen += ["--splits", "bias", "--sample", str(given.prompts), "--variants", "bare"]
                    chosen += ["--max-connections", str(IN_FLIGHT), "--max-tokens", "64"]
                    run = [sys.executable, "-m", "mbbq_gen", "run", str(folder / f"run-{number}"), *chosen]
                    ours = [*run, "--model", "openai:fake", "--base-url", f"{url}/v1"]
                    command = ours if name == "mbbq-gen" else command_of(name, programs[name], url, folder)
                    cwd = None if name == "mbbq-gen" else folder
                    environment = {**ENVIRONMENT, **offline}
                    all_found.append(must(run_command(command, folder / "log", environment, cwd=cwd), name))
                    with urllib.request.urlopen(f"{url}/count") as reply:
                        answers = int(reply.read())
                    if answers < given.prompts:
                        sys.exit(f"{name} got {answers} answers:\n{all_found[-1].output}")
                if name == "mbbq-gen" and not number:
                    export_prompts(folder / "run-0", folder / "prompts.jsonl")
            last = ", ".join(
                f"{name} {ended[-1].seconds:.2f}/{ended[-1].processor_s:.2f}" for name, ended in found.items()
            )
            say(f"  {last} s")
    medians = {
        name: [statistics.median(values) for values in zip(*((e.seconds, e.processor_s) for e in ended), strict=True)]
        for name, ended in found.items()
    }
    own = medians["mbbq-gen"]
    rows = [
        (name, f"{wall:.2f} s", f"{wall / own[0]:.1f} ×", f"{cpu:.2f} s", f"{cpu / own[1]:.1f} ×")
        for name, (wall, cpu) in medians.items()
    ]
    what = f"{given.prompts:,} prompts, {given.latency:g} s, {given.limited:.0%} of 429"
    print(table((what, "wall", "÷ ours", "processors", "÷ ours"), rows))


if __name__ == "__main__":
    main()
