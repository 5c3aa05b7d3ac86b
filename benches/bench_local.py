"""How fast the small real chat model answers on this machine: our decoding beside the library's own `generate`.

    python benches/bench_local.py [--questions 3] [--languages en,nl,es,tr] [--repeats 3] [--max-new-tokens 32]

Asks a template-balanced part of the starter benchmark in two wordings. All ways are measured in turn, several times
over, so that whatever else the machine does falls on all of them; the medians are compared. The texts are compared with
the first way's too: in float32 they must all be the same.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace

from mbbq_gen.datasets.registry import load_benchmark
from mbbq_gen.languages import read_prompts
from mbbq_gen.presentation import Setting, plan_orders, present
from mbbq_gen.providers.decoding import ContinuousDecoder, Decoder, Prompt
from mbbq_gen.providers.local_model import LocalModel, load_model
from mbbq_gen.providers.local_options import TransformersOptions, find_device
from mbbq_gen.providers.smollm2 import smollm2_source
from mbbq_gen.providers.static_decoding import StaticDecoder
from mbbq_gen.records import Message
from mbbq_gen.resources import Resources, cache_directory
from mbbq_gen.sampling import Outline, balanced_sample

WORDINGS = ("polite", "single_letter")
BASELINE = "generate, batch 8"


def questions(languages: Sequence[str], size: int) -> Iterator[tuple[Message, ...]]:
    """The messages of a balanced part of the starter benchmark."""
    resources = Resources()
    instances = list(load_benchmark("starter", languages=languages))
    chosen = balanced_sample([Outline.of(instance) for instance in instances], size, seed=0)
    sample = [instance for instance in instances if instance.key in chosen]
    orders = plan_orders("balanced", [Outline.of(instance) for instance in sample], seed=0)
    for instance in sample:
        for number, wording in enumerate(WORDINGS):
            variant = read_prompts(resources, instance.language).by_id(wording)
            for order in orders.orders(instance, number):
                yield present(instance, Setting(variant), order).messages


def ways(model: LocalModel) -> dict[str, Decoder]:
    """What is compared: batches of the library's generate, sorted by length, and ours."""
    loaded, settings = model.static._model, model.decoding
    found: dict[str, Decoder] = {
        f"generate, batch {size}": StaticDecoder(loaded, replace(settings, batch_size=size)) for size in (8, 16)
    }
    for size, tokens in ((16, 512), (32, 512), (64, 512)):
        name = f"continuous, batch {size}, {tokens} tokens read at a time"
        found[name] = ContinuousDecoder(loaded, replace(settings, batch_size=size, read_tokens=tokens))
    return found


def measure(decoder: Decoder, prompts: Sequence[Prompt]) -> tuple[float, dict[int, tuple[int, ...]]]:
    """Seconds, and the tokens of each answer."""
    started = time.perf_counter()
    answers = {done.number: done.tokens for done in decoder.decode(prompts, lambda: False)}
    return time.perf_counter() - started, answers


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--questions", type=int, default=3, help="questions a language and split")
    parser.add_argument("--languages", default="en,nl,es,tr")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--max-new-tokens", type=int, default=32)
    parser.add_argument("--dtype", default="auto", choices=["auto", "float32", "bfloat16"])
    given = parser.parse_args()

    options = TransformersOptions(dtype=given.dtype, max_new_tokens=given.max_new_tokens)
    device = find_device(options)
    model = load_model(smollm2_source(cache_directory()), device, options)
    tokens = [model.formatter.tokens(messages) for messages in questions(given.languages.split(","), given.questions)]
    prompts = [Prompt(number, line, given.max_new_tokens, number) for number, line in enumerate(tokens)]
    print(f"{len(prompts)} prompts of {statistics.mean(map(len, tokens)):.0f} tokens, up to {given.max_new_tokens} new")
    print(f"{device.name}, {device.dtype}, {device.threads} threads; medians of {given.repeats} rounds")

    times: dict[str, list[float]] = {}
    answers: dict[str, dict[int, tuple[int, ...]]] = {}
    for _ in range(given.repeats):
        for name, decoder in ways(model).items():
            seconds, answers[name] = measure(decoder, prompts)
            times.setdefault(name, []).append(seconds)
            print(f"  {seconds:6.1f} s  {name}", file=sys.stderr, flush=True)
    medians = {name: statistics.median(seconds) for name, seconds in times.items()}
    expected = answers[BASELINE]
    written = statistics.mean(len(line) + 1 for line in expected.values())
    print(f"answers take {written:.1f} tokens on average")
    print(f"{'way':45} {'seconds':>8} {'answers/s':>10} {'speed':>7} {'same text':>12}")
    for name, seconds in medians.items():
        same = sum(answers[name][number] == line for number, line in expected.items())
        speed = medians[BASELINE] / seconds
        print(f"{name:45} {seconds:8.1f} {len(prompts) / seconds:10.2f} {speed:6.2f}x {same:>6} of {len(prompts)}")


if __name__ == "__main__":
    main()
