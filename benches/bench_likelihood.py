"""How fast the small real chat model scores the answers to questions: packed, one forward an answer, and lm-eval.

    python benches/bench_likelihood.py [--questions 24] [--answers 11] [--rounds 3] [--threads 2]
    python benches/bench_likelihood.py --benchmark esbbq --data-dir FOLDER --language es --unknown-texts FILE \\
        --prompt 'Contexto: {context}\\nPregunta: {question}\\nRespuesta:'
    python benches/bench_likelihood.py --no-alone --peer-packed --rounds 1 --questions 300    choices only

Eleven answers a question, as EsBBQ's protocol has them: two people and nine texts of "unknown". Everything runs in
one process on the same model in float32, ours as we load it and the others as transformers does, in turn, several times
over; medians are compared. The same texts are scored everywhere, cut into tokens as lm-eval does it. The questions are
our starter's unless a folder is named. With `--peer-packed` lm-eval too runs on the model as we load it: half its time,
and nothing said of speed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from lm_eval_peer import CLOCKS, find_lm_eval, library_network, network_of, requests, wrap

from mbbq_gen import benchmarks
from mbbq_gen.benchmarks.registry import load_benchmark
from mbbq_gen.core.files import cache_directory
from mbbq_gen.core.option_display import SamplingUnit
from mbbq_gen.core.records import Instance
from mbbq_gen.prompts.sampling import balanced_sample
from mbbq_gen.providers.local.files import smollm2_source
from mbbq_gen.providers.local.model import LocalModel, load_model
from mbbq_gen.providers.local.options import DevicePlan, TransformersOptions, find_device
from tests.support.loglikelihood import score_answers

Scores = list[list[float]]
ALONE = "one forward an answer"


@dataclass(frozen=True)
class Question:
    """A question and its answers, as texts and as tokens."""

    prompt: str
    answers: list[str]
    prompt_tokens: list[int]
    answer_tokens: list[list[int]]


def unknown_texts(given: argparse.Namespace, instances: Sequence[Instance]) -> list[str]:
    """Ways to say that it is not known: the user's, or ours of the language and then those of the questions."""
    path = given.unknown_texts or Path(benchmarks.__file__).with_name("unknown_texts.toml")
    text = path.read_text(encoding="utf-8")
    ours = text.splitlines() if given.unknown_texts else tomllib.loads(text)["texts"].get(given.language, [])
    theirs = [instance.options[instance.unknown_index].text for instance in instances]
    wanted = given.answers - 2
    found = list(dict.fromkeys([*ours, *theirs]))[:wanted]
    if len(found) < wanted:
        sys.exit(
            f"{given.language}: only {len(found)} texts of unknown; name more with --unknown-texts FILE, one a line"
        )
    return found


def questions(given: argparse.Namespace, model: LocalModel) -> list[Question]:
    """A balanced part of a benchmark."""
    instances = list(load_benchmark(given.benchmark, data=given.data_dir, languages=[given.language]))
    chosen = balanced_sample([SamplingUnit.of(instance) for instance in instances], given.questions, seed=0)
    sample = [instance for instance in instances if instance.key in chosen][: given.questions]
    unknown = unknown_texts(given, instances)
    form = given.prompt.replace("\\n", "\n")
    return [_question(instance, form, unknown, model) for instance in sample]


def _question(instance: Instance, form: str, unknown: Sequence[str], model: LocalModel) -> Question:
    people = [option.text for option in instance.options if option.role != "unknown"]
    prompt = form.format(context=instance.context, question=instance.question)
    answers = [f" {text}" for text in (*people, *unknown)]
    tokenizer = model.formatter.tokenizer
    start = tokenizer(prompt)["input_ids"]
    return Question(prompt, answers, start, [tokenizer(prompt + text)["input_ids"][len(start) :] for text in answers])


@torch.inference_mode()
def score_alone(device: DevicePlan, sample: Sequence[Question]) -> Scores:
    """A forward for each answer."""
    network, found = library_network(device), []
    for question in sample:
        sums = []
        for answer in question.answer_tokens:
            logits = network(torch.tensor([question.prompt_tokens + answer[:-1]])).logits[0, -len(answer) :]
            likely = torch.log_softmax(logits, dim=-1)
            sums.append(likely[torch.arange(len(answer)), torch.tensor(answer)].sum().item())
        found.append(sums)
    return found


def score_by_peer(network: Any, model: LocalModel, sample: Sequence[Question], batch_size: int) -> Scores:
    """What lm-eval's hf backend gives."""
    peer = wrap(network, model.formatter.tokenizer, batch_size)
    arguments = [(question.prompt, answer) for question in sample for answer in question.answers]
    found = iter(peer.loglikelihood(requests("loglikelihood", arguments), disable_tqdm=True))
    return [[next(found)[0] for _ in question.answers] for question in sample]


def score_packed(model: LocalModel, sample: Sequence[Question], max_tokens: int) -> Scores:
    return score_answers(
        network_of(model),
        [question.prompt_tokens for question in sample],
        [question.answer_tokens for question in sample],
        max_tokens=max_tokens,
    )


def ways(
    given: argparse.Namespace, device: DevicePlan, model: LocalModel
) -> dict[str, Callable[[list[Question]], Scores]]:
    """What is compared."""
    found: dict[str, Callable[[list[Question]], Scores]] = {}
    if given.alone:
        found[ALONE] = partial(score_alone, device)
    if find_lm_eval():
        network = network_of(model) if given.peer_packed else library_network(device)
        if given.peer_packed:
            network.tie_weights = lambda: None  # lm-eval asks for it, and what is packed is tied already
        for size in map(int, given.peer_batches.split(",")):
            found[f"lm-eval hf, batch {size}"] = partial(score_by_peer, network, model, batch_size=size)
    for most in map(int, given.max_tokens.split(",")):
        found[f"packed, {most} tokens"] = partial(score_packed, model, max_tokens=most)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=24)
    parser.add_argument("--answers", type=int, default=11)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--benchmark", default="starter")
    parser.add_argument("--data-dir", type=Path, help="folder of its published files")
    parser.add_argument("--unknown-texts", type=Path, help="ways to say that it is not known, one a line")
    parser.add_argument("--prompt", default=r"{context}\n{question}", help=r"how a question is put; \n: a new line")
    parser.add_argument("--language", default="en")
    parser.add_argument("--alone", action=argparse.BooleanOptionalAction, default=True, help=f"also {ALONE}")
    parser.add_argument("--peer-packed", action="store_true", help="lm-eval runs on packed layers too")
    parser.add_argument("--max-tokens", default="512", help="tokens a forward, comma-separated")
    parser.add_argument("--peer-batches", default="1,16", help="batch sizes of lm-eval, comma-separated")
    parser.add_argument("--clock", choices=sorted(CLOCKS), default="wall", help="what is measured")
    given = parser.parse_args()
    clock = CLOCKS[given.clock]

    options = TransformersOptions(device="cpu", dtype="float32", threads=given.threads)
    device = find_device(options)
    model = load_model(smollm2_source(cache_directory()), device, options)
    sample = questions(given, model)
    read = statistics.mean(len(question.prompt_tokens) for question in sample)
    written = statistics.mean(len(answer) for question in sample for answer in question.answer_tokens)
    print(f"{len(sample)} questions of {read:.0f} tokens, {given.answers} answers of {written:.1f}")
    print(f"{device.name}, {device.dtype}, {device.threads} threads")
    print(f"medians of {given.rounds} rounds, {given.clock} time")

    seconds: dict[str, list[float]] = {}
    scores: dict[str, Scores] = {}
    compared = ways(given, device, model)
    score_packed(model, sample[:1], 512)  # the model is tried once
    for _ in range(given.rounds):
        for name, score in compared.items():
            started = clock()
            scores[name] = score(sample)
            seconds.setdefault(name, []).append(clock() - started)
            print(f"  {seconds[name][-1]:6.1f} s  {name}", file=sys.stderr, flush=True)
    show(seconds, scores, len(sample))


def show(seconds: dict[str, list[float]], scores: dict[str, Scores], count: int) -> None:
    """A line a way: how fast, how much faster than the first one, how far its values are off, same choices."""
    medians = {name: statistics.median(times) for name, times in seconds.items()}
    first = next(iter(scores))
    expected = scores[first]
    print(f"{'way':26} {'questions/s':>11} {'speed':>8} {'largest difference':>19} {'same choice':>14}")
    for name, median in medians.items():
        pairs = list(zip(scores[name], expected, strict=True))
        off = max(abs(one - other) for sums in pairs for one, other in zip(*sums, strict=True))
        same = sum(found.index(max(found)) == others.index(max(others)) for found, others in pairs)
        print(f"{name:26} {count / median:11.2f} {medians[first] / median:7.2f}x {off:19.1e} {same:>8} of {count:>3}")
    peers = [median for name, median in medians.items() if name.startswith("lm-eval")]
    packed = min(median for name, median in medians.items() if name.startswith("packed"))
    if peers:
        print(f"packed is {min(peers) / packed:.1f} × lm-eval's fastest")


if __name__ == "__main__":
    main()
