"""What `run --ray local` costs and keeps: overhead beside a plain run, deaths, one pace for all workers.

    python benches/bench_ray.py                      scripted answers, kills, the pace
    python benches/bench_ray.py --only model         the small chat model: whole commands, with Ray and without
    python benches/bench_ray.py --only blocks        what a model does at once and in blocks, in one process, no Ray

Everything runs on this machine, as whole commands, so starting Ray is in the times.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from fake_api import server
from lm_eval_peer import network_of

from mbbq_gen.benchmarks.registry import load_benchmark
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Request, SamplingUnit
from mbbq_gen.languages.prompt_pack import read_prompts
from mbbq_gen.prompts.render import PromptSettings, plan_orders, render_prompt
from mbbq_gen.prompts.sampling import balanced_sample
from mbbq_gen.providers.base import ExecutionContext, Provider
from mbbq_gen.providers.local.options import TransformersOptions
from mbbq_gen.providers.local.provider import TransformersProvider
from mbbq_gen.runs.distributed.storage import ResponseShards
from mbbq_gen.runs.distributed.worker import pack

STARTER = ["--benchmark", "starter", "--languages", "en"]
RAY = ["--ray", "local", "--workers", "2"]


def command(run: Path, given: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "mbbq_gen", "run", str(run), *given, "--json"]


def timed(run: Path, given: Sequence[str]) -> float:
    """Seconds that the whole command took."""
    begin = time.monotonic()
    subprocess.run(command(run, given), check=True, capture_output=True)
    return time.monotonic() - begin


def texts(run: Path) -> dict[str, str]:
    with sqlite3.connect(run / "run.sqlite") as store:
        return dict(store.execute("SELECT request_key, json_extract(record, '$.text') FROM responses"))


def asking_seconds(run: Path) -> float:
    """Seconds from the first to the last answer that came: without the start of Ray, with the store's commits."""
    statement = "SELECT (julianday(max(received_at)) - julianday(min(received_at))) * 86400 FROM responses"
    with sqlite3.connect(run / "run.sqlite") as store:
        return float(store.execute(statement).fetchone()[0])


def compare(folder: Path, name: str, model: Sequence[str]) -> None:
    """A plain run beside one by two workers."""
    plain, spread = folder / f"{name}-plain", folder / f"{name}-ray"
    seconds = timed(plain, model), timed(spread, [*model, *RAY])
    same = texts(plain) == texts(spread)
    asking = asking_seconds(plain), asking_seconds(spread)
    print(f"{name}: {len(texts(plain)):,} answers; same texts: {same}")
    print(f"    plain   {seconds[0]:6.1f} s, first to last answer {asking[0]:6.1f} s")
    print(f"    2 workers {seconds[1]:4.1f} s, first to last answer {asking[1]:6.1f} s")


def sample_requests(number: int) -> list[Request]:
    """A balanced part of the starter's questions in one wording."""
    (variant,) = [found for found in read_prompts(PackPaths(), "en").variant if found.id == "bare"]
    instances = [one for one in load_benchmark("starter", languages=["en"]) if one.split == "bias"]
    chosen = balanced_sample([SamplingUnit.of(instance) for instance in instances], number, seed=0)
    taken = [instance for instance in instances if instance.key in chosen]
    orders = plan_orders("balanced", [SamplingUnit.of(instance) for instance in taken], seed=0)
    shown = [render_prompt(one, PromptSettings(variant), order) for one in taken for order in orders.orders(one, 0)]
    return [
        Request(request_key=str(key), messages=one.messages, prompt=one, instance=instance)
        for key, (one, instance) in enumerate(zip(shown, taken, strict=True))
    ]


async def answered(provider: Provider, blocks: Sequence[Sequence[Request]], at_a_time: int) -> dict[str, str | None]:
    """The texts, where so many blocks are under way at a time."""
    room, found = asyncio.Semaphore(at_a_time), dict[str, str | None]()

    async def ask(block: Sequence[Request]) -> None:
        async with room:
            async for response in provider.generate(block, ExecutionContext()):
                found[response.request_key] = response.text

    await asyncio.gather(*map(ask, blocks))
    return found


async def blocks(number: int, workers: int) -> None:
    """What the small chat model does for some questions: at once, and in the blocks that workers get."""
    asked = sample_requests(number)
    packed = [block.requests for block in pack(asked, workers, "bench")]
    provider = TransformersProvider.open("smollm2", TransformersOptions(threads=1, device="cpu"), PackPaths())
    provider._loaded = model = provider.load()
    forwards, texts = Counter[str](), []
    ways: dict[str, tuple[Sequence[Sequence[Request]], int]] = {
        "at once": ([asked], 1),
        "a block at a time": (packed, 1),
        "two blocks at a time": (packed, 2),
    }
    print(f"{len(asked)} questions; blocks of {', '.join(str(len(block)) for block in packed)} for {workers} workers")
    for name, (parts, at_a_time) in ways.items():
        counting = network_of(model).register_forward_hook(lambda *_, name=name: forwards.update([name]))
        begin = time.process_time()
        for worker in range(workers if len(parts) > 1 else 1):
            texts.append(await answered(provider, parts[worker::workers], at_a_time))
        seconds = time.process_time() - begin
        counting.remove()
        print(f"    {name:22} {seconds:6.1f} s of a processor, {forwards[name]} forwards", flush=True)
    await provider.aclose()
    print("    same texts:", all(text == texts[0][key] for part in texts for key, text in part.items()))


def kills(folder: Path, script: Path, times: int) -> None:
    """The driver is killed so often, at a random shard; then a run to its end."""
    run, draw, dead, lost = folder / "killed", random.Random(18), 0, 0
    shards = ResponseShards(run / "shards")

    def written() -> int:
        return len(shards.names()) if (run / "shards").is_dir() else 0

    given = ["--model", f"scripted:{script}", *STARTER, *RAY]
    while dead < times:
        before, more = written(), draw.randint(1, 5)
        process = subprocess.Popen(command(run, given), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and written() < before + more:
            time.sleep(0.005)
        if process.poll() is not None:
            break
        process.send_signal(signal.SIGKILL)
        process.wait()
        dead += 1
    subprocess.run(command(run, given), check=True, capture_output=True)
    found = Counter(answer.request_key for name in shards.names() for answer, _ in shards.read(name))
    with sqlite3.connect(run / "run.sqlite") as store:
        (requests,) = store.execute("SELECT count(DISTINCT request_key) FROM prompts").fetchone()
    lost = requests - len(texts(run))
    again = sum(count > 1 for count in found.values())
    print(f"{dead} kills of the driver, {requests:,} requests: {lost} lost, {again} in more than one shard")


def pace(folder: Path, workers: int, rpm: int) -> None:
    """A server with a limit, asked at that limit."""
    run = folder / "paced"
    with server(f"limits.rpm={rpm}", "limits.burst_s=3.0", run=run) as at:
        given = ["--model", "openai:m", "--base-url", at.openai, *STARTER, "--variants", "bare", "--rpm", str(rpm)]
        subprocess.run(
            command(run, [*given, "--ray", "local", "--workers", str(workers)]), check=True, capture_output=True
        )
        found = at.stats()
    used = found.answered / found.seconds * 60 / rpm
    print(
        f"{workers} workers, {rpm:,} requests a minute: {found.answered:,} answered in {found.seconds:.1f} s,"
        f" {used:.0%} of the limit, passed {found.by_fault.get('pace', 0)} times, asked again {found.paid_again}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="scripted,kills,pace")
    parser.add_argument("--questions", type=int, default=144, help="of --only blocks")
    parser.add_argument("--kills", type=int, default=5)
    parser.add_argument("--rpm", type=int, default=2400)
    given = parser.parse_args()
    wanted = given.only.split(",")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        script = folder / "answers.jsonl"
        script.write_text("".join(json.dumps({"response": text}) + "\n" for text in ("A", "B", "The answer is C.")))
        if "scripted" in wanted:
            compare(folder, "scripted", ["--model", f"scripted:{script}", *STARTER])
        if "model" in wanted:
            part = ["--splits", "bias", "--variants", "bare", "--sample", "400"]
            compare(folder, "smollm2", ["--model", "transformers:smollm2", *STARTER, *part])
        if "blocks" in wanted:
            asyncio.run(blocks(given.questions, 2))
        if "kills" in wanted:
            kills(folder, script, given.kills)
        if "pace" in wanted:
            pace(folder, 4, given.rpm)


if __name__ == "__main__":
    main()
