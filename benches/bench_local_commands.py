"""The whole command with a local model beside lm-eval's: start, load, ask, store, read and score the same prompts.

    python benches/bench_local_commands.py --data FOLDER [--questions 12] [--rounds 3] [--batch 16] [--whole-templates]

mbbq-gen asks MBBQ's questions (or another benchmark's) in five wordings, as a run does. lm-eval gets the very same
messages as a task of its own, through its hf backend on the same files of the same model, in float32, with the
model's chat template. Both run in turn, several times over; medians are compared, and the texts too. A sample has as
few questions of a template as can be, so prompts share little; a whole run asks all of them, as `--whole-templates`
does of the first templates that together have as many questions.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from collections import defaultdict
from operator import attrgetter
from pathlib import Path

from bench_api_peers import LM_EVAL_TASK, export_prompts
from fake_api import ENVIRONMENT, must, run_command, say, table

from mbbq_gen.datasets.registry import load_benchmark
from mbbq_gen.providers.smollm2 import smollm2_source
from mbbq_gen.resources import cache_directory
from mbbq_gen.runs.folder import RunFolder

WORDINGS = "polite,bare,letters,single_letter,reasoned"
_LAUNCH = "import sys; sys.path += {paths!r}; from lm_eval.__main__ import cli_evaluate; cli_evaluate()"


def ours(given: argparse.Namespace, folder: Path) -> list[str]:
    """Our command."""
    asked = ["--languages", given.language, "--splits", "bias", "--variants", WORDINGS]
    if given.whole_templates:
        asked += ["--instances", str(folder.parent / "questions.jsonl")]
    else:
        asked += ["--benchmark", given.benchmark, *(["--data", str(given.data)] if given.data else [])]
    limits = ["--sample", str(given.questions), "--max-new-tokens", str(given.max_new_tokens), "--dtype", "float32"]
    return [sys.executable, "-m", "mbbq_gen", "run", str(folder), "--model", "transformers:smollm2", *asked, *limits]


def write_whole_templates(given: argparse.Namespace, path: Path) -> None:
    """The questions of whole templates, the smallest first, until there are as many as are to be asked."""
    templates = defaultdict(list)
    for instance in load_benchmark(given.benchmark, data=given.data, languages=[given.language], splits=["bias"]):
        templates[instance.template_id].append(instance)
    ordered = [one for _, rows in sorted(templates.items(), key=lambda found: len(found[1])) for one in rows]
    lines = [instance.model_dump_json() for instance in ordered[: given.questions]]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def theirs(given: argparse.Namespace, work: Path) -> list[str]:
    """lm-eval's command on the prompts that ours sent."""
    task = work / "task"
    task.mkdir(exist_ok=True)
    name, prompts, until = "local_questions", work / "prompts.jsonl", '["<|im_end|>"]'
    text = LM_EVAL_TASK.format(name=name, prompts=prompts, until=until, limit=given.max_new_tokens)
    (task / "local_questions.yaml").write_text(text, encoding="utf-8")
    paths = [str(path) for path in (cache_directory() / "bench-peers").glob("lm-eval/lib/python3*/site-packages")]
    files = smollm2_source(cache_directory()).location
    model = ["--model", "hf", "--model_args", f"pretrained={files},dtype=float32", "--device", "cpu"]
    what = ["--tasks", "local_questions", "--include_path", str(task), "--batch_size", str(given.batch)]
    output = ["--apply_chat_template", "--output_path", str(task / "out"), "--log_samples"]
    return [sys.executable, "-c", _LAUNCH.format(paths=paths), *model, *what, *output]


def our_texts(folder: Path) -> dict[str, str]:
    """Our answers by what was asked."""
    query = """SELECT json_extract(p.record, '$.messages'), json_extract(r.record, '$.text')
               FROM presentations p JOIN responses r USING (request_key)"""
    with RunFolder(folder).open_store(read_only=True) as store:
        return {json.loads(messages)[-1]["content"]: text for messages, text in store.query(query)}


def their_texts(work: Path) -> dict[str, str]:
    """lm-eval's answers by what was asked, from its latest samples."""
    path = max((work / "task" / "out").rglob("samples_*.jsonl"), key=lambda found: found.stat().st_mtime)
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {line["doc"]["prompt"]: line["resps"][0][0] for line in lines}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--benchmark", default="mbbq")
    parser.add_argument("--data", type=Path, help="folder of its published files")
    parser.add_argument("--language", default="en")
    parser.add_argument("--questions", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--batch", type=int, default=16, help="lm-eval's batch size")
    parser.add_argument("--max-new-tokens", type=int, default=32)
    parser.add_argument("--whole-templates", action="store_true", help="all questions of few templates")
    parser.add_argument("--clock", choices=["wall", "processor"], default="wall", help="what is measured")
    given = parser.parse_args()
    clock = attrgetter("seconds" if given.clock == "wall" else "processor_s")

    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "OMP_WAIT_POLICY": "PASSIVE"}
    seconds: dict[str, list[float]] = {"mbbq-gen": [], "lm-eval": []}
    with tempfile.TemporaryDirectory() as temporary:
        work = Path(temporary)
        environment = {**ENVIRONMENT, **offline, "HF_HOME": str(work / "hf")}
        if given.whole_templates:
            write_whole_templates(given, work / "questions.jsonl")
        for number in range(given.rounds):
            folder = work / f"run-{number}"
            ended = must(run_command(ours(given, folder), work / "ours.log", environment), "mbbq-gen")
            seconds["mbbq-gen"].append(clock(ended))
            count = export_prompts(folder, work / "prompts.jsonl")
            ended = must(run_command(theirs(given, work), work / "theirs.log", environment), "lm-eval")
            seconds["lm-eval"].append(clock(ended))
            say("  " + ", ".join(f"{name} {found[-1]:.1f} s" for name, found in seconds.items()))
        mine, other = our_texts(work / f"run-{given.rounds - 1}"), their_texts(work)
    same = sum(other[prompt].strip() == text.strip() for prompt, text in mine.items())
    medians = {name: statistics.median(found) for name, found in seconds.items()}
    print(f"{count} prompts in five wordings, {same} of {len(mine)} texts the same")
    print(f"medians of {given.rounds} rounds, {given.clock} time")
    rows = [(name, f"{median:.1f} s", f"{median / medians['mbbq-gen']:.1f} × ours") for name, median in medians.items()]
    print(table(("whole command", "median", "in comparison"), rows))


if __name__ == "__main__":
    main()
