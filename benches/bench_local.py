"""How fast the small real chat model answers on this machine: our decoding, the library's own `generate`, and lm-eval.

    python benches/bench_local.py --benchmark mbbq --data-dir FOLDER --languages en --questions 6
    python benches/bench_local.py [--questions 3] [--languages en,es] [--repeats 3] [--max-tokens 32] [--threads 2]

Questions of the starter benchmark, or of another one whose folder is named, in five prompt variants, as in a run:
`--sample whole` (the default) the first templates with all their questions, as in a whole benchmark; `--sample
balanced` as many templates as there are questions, so that no contexts are alike. All ways are measured in turn,
several times over, so that whatever else the machine does falls on all of them; the medians are compared. Ours runs on
the model as we load it, the others on what transformers loads. So are the
texts: in float32 they must all be the same.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, islice, pairwise
from pathlib import Path

from lm_eval_peer import CLOCKS, find_lm_eval, library_network, network_of, requests, wrap
from transformers import GenerationConfig

from mbbq_gen.benchmarks.registry import load_benchmark
from mbbq_gen.core.files import PackPaths, cache_directory
from mbbq_gen.core.option_display import SamplingUnit
from mbbq_gen.core.records import Message
from mbbq_gen.languages.prompt_pack import read_prompts
from mbbq_gen.prompts.render import PromptSettings, plan_orders, render_prompt
from mbbq_gen.prompts.sampling import balanced_sample
from mbbq_gen.providers.local.chat_format import shared_length
from mbbq_gen.providers.local.decoding import ContinuousBatcher, DecodingPrompt, StaticBatcher
from mbbq_gen.providers.local.files import smollm2_source
from mbbq_gen.providers.local.model import LocalModel, load_model
from mbbq_gen.providers.local.options import DevicePlan, TransformersOptions, find_device

VARIANTS = ("polite", "bare", "letters", "single_letter", "reasoned")
BASELINE = "generate, batch 8"

Texts = dict[int, str]


@dataclass(frozen=True)
class Item:
    """A question as the model reads it."""

    text: str
    prompt: DecodingPrompt


def questions(given: argparse.Namespace) -> Iterator[tuple[Message, ...]]:
    """The messages of a part of a benchmark."""
    resources, size, sample = PackPaths(), given.questions, given.sample
    instances = list(load_benchmark(given.benchmark, data=given.data_dir, languages=given.languages.split(",")))
    if sample == "balanced":
        chosen = set(balanced_sample([SamplingUnit.of(instance) for instance in instances], size, seed=0))
    else:
        parts = groupby(instances, key=lambda instance: (instance.language, instance.split))
        chosen = {instance.key for _, part in parts for instance in islice(part, size)}
    taken = [instance for instance in instances if instance.key in chosen]
    orders = plan_orders("balanced", [SamplingUnit.of(instance) for instance in taken], seed=0)
    for instance in taken:
        for number, variant_id in enumerate(VARIANTS):
            variant = read_prompts(resources, instance.language).by_id(variant_id)
            for order in orders.orders(instance, number):
                yield render_prompt(instance, PromptSettings(variant), order).messages


def ways(
    model: LocalModel, device: DevicePlan, given: argparse.Namespace
) -> dict[str, Callable[[Sequence[Item]], Texts]]:
    """What is compared: batches of the library's generate, sorted by length, lm-eval's, and ours."""
    settings = model.decoding
    decoders: dict[str, ContinuousBatcher | StaticBatcher] = {
        f"generate, batch {size}": StaticBatcher(library_network(device), replace(settings, batch_size=size))
        for size in given.static
    }
    for size in given.continuous:
        decoders[f"continuous, batch {size}"] = ContinuousBatcher(network_of(model), replace(settings, batch_size=size))
    found: dict[str, Callable[[Sequence[Item]], Texts]] = {
        name: partial(decode, model, decoder) for name, decoder in decoders.items()
    }
    if given.peer and find_lm_eval():
        found[f"lm-eval hf, batch {given.peer}"] = partial(decode_by_peer, model, device, given.peer)
    return found


def decode(model: LocalModel, decoder: ContinuousBatcher | StaticBatcher, items: Sequence[Item]) -> Texts:
    """Our answers, by number."""
    completions = decoder.decode([question.prompt for question in items], lambda: False)
    tokenizer = model.formatter.tokenizer
    return {done.number: tokenizer.decode(done.tokens, skip_special_tokens=True) for done in completions}


def decode_by_peer(model: LocalModel, device: DevicePlan, batch_size: int, items: Sequence[Item]) -> Texts:
    """What lm-eval's hf backend answers to the same texts, with the model's own end of turn."""
    loaded, settings = library_network(device), model.decoding
    before = loaded.generation_config
    stop = sorted(settings.stop_tokens)
    loaded.generation_config = GenerationConfig(eos_token_id=stop, pad_token_id=settings.pad_token)
    options = {"until": model.formatter.tokenizer.convert_ids_to_tokens(stop), "do_sample": False}
    arguments = [(question.text, {**options, "max_gen_toks": question.prompt.limit}) for question in items]
    try:
        peer = wrap(loaded, model.formatter.tokenizer, batch_size)
        texts = peer.generate_until(requests("generate_until", arguments), disable_tqdm=True)
    finally:
        loaded.generation_config = before
    return {question.prompt.number: text for question, text in zip(items, texts, strict=True)}


def read_once(items: Sequence[Item]) -> int:
    """Prompt tokens that are left where every shared beginning is read once."""
    lines = sorted(question.prompt.tokens for question in items)
    return len(lines[0]) + sum(len(line) - shared_length(before, line) for before, line in pairwise(lines))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=3, help="questions a language and split")
    parser.add_argument("--sample", default="whole", choices=["whole", "balanced"])
    parser.add_argument("--benchmark", default="starter")
    parser.add_argument("--data-dir", type=Path, help="folder of its published files")
    parser.add_argument("--languages", default="en,es")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--max-tokens", type=int, default=32)
    parser.add_argument("--dtype", default="auto", choices=["auto", "float32", "bfloat16"])
    parser.add_argument("--threads", type=int)
    parser.add_argument(
        "--static", type=int, nargs="*", default=[8, 16], help="batch sizes of generate; 8 is compared with"
    )
    parser.add_argument("--continuous", type=int, nargs="*", default=[16, 32, 64], help="batch sizes of ours")
    parser.add_argument("--peer", type=int, default=16, help="batch size of lm-eval; 0: without it")
    parser.add_argument("--clock", choices=sorted(CLOCKS), default="wall", help="what is measured")
    given = parser.parse_args()
    clock = CLOCKS[given.clock]

    options = TransformersOptions(dtype=given.dtype, max_tokens=given.max_tokens, threads=given.threads)
    device = find_device(options)
    model = load_model(smollm2_source(cache_directory()), device, options)
    items = [
        Item(
            model.formatter.text(messages),
            DecodingPrompt(number, model.formatter.tokens(messages), given.max_tokens, 0),
        )
        for number, messages in enumerate(questions(given))
    ]
    random.Random(0).shuffle(items)
    total = sum(len(question.prompt.tokens) for question in items)
    print(f"{len(items)} prompts of {total / len(items):.0f} tokens, up to {given.max_tokens} new")
    print(f"{total} prompt tokens, {read_once(items)} where each shared beginning is read once")
    print(f"{device.name}, {device.dtype}, {device.threads} threads")
    print(f"medians of {given.repeats} rounds, {given.clock} time")

    seconds: dict[str, list[float]] = {}
    texts: dict[str, Texts] = {}
    compared = ways(model, device, given)
    for _ in range(given.repeats):
        for name, answer in compared.items():
            started = clock()
            texts[name] = answer(items)
            seconds.setdefault(name, []).append(clock() - started)
            line = f"{seconds[name][-1]:6.1f} s  {same_texts(texts, name)} of {len(items)} texts the same  {name}"
            print(f"  {line}", file=sys.stderr, flush=True)
    show({name: statistics.median(times) for name, times in seconds.items()}, texts, len(items))


def same_texts(texts: dict[str, Texts], name: str) -> int:
    """How many texts are the baseline's."""
    return sum(texts[name][number] == text for number, text in texts[BASELINE].items())


def show(medians: dict[str, float], texts: dict[str, Texts], count: int) -> None:
    """A line a way: how fast, in comparison, and how many texts are the baseline's."""
    print(f"{'way':30} {'seconds':>8} {'answers/s':>10} {'speed':>7} {'same text':>12}")
    for name, median in medians.items():
        same = same_texts(texts, name)
        print(f"{name:30} {median:8.1f} {count / median:10.2f} {medians[BASELINE] / median:6.2f}x {same:>6} of {count}")


if __name__ == "__main__":
    main()
