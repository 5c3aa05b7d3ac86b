"""The whole command with the small real chat model, beside the model's own work: the same requests from a plain script.

    python benches/bench_local_command.py [--sample 8] [--max-tokens 8] [--repeats 5]

The script opens the same provider and answers the requests of the run. It plans, stores, extracts and scores nothing.
Both are measured in turn; medians of wall seconds to the end of the process, and of the script to its last answer.
"""

from __future__ import annotations

import argparse
import asyncio
import pickle
import statistics
import sys
import tempfile
import time
from pathlib import Path

from fake_api import must, run_command, say

from mbbq_gen.core.files import PackPaths
from mbbq_gen.providers.base import ExecutionContext
from mbbq_gen.providers.registry import open_provider
from mbbq_gen.runs.run_folder import RunFolder

MODEL = "transformers:smollm2"


async def answer_all(path: Path, max_tokens: int) -> None:
    """Answers pickled requests, which this program has written."""
    provider = open_provider(MODEL, {"max_tokens": max_tokens}, PackPaths())
    async for _ in provider.generate(pickle.loads(path.read_bytes()), ExecutionContext()):
        pass


def main() -> None:
    """Measures both, and prints the medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=8, help="questions a split")
    parser.add_argument("--max-tokens", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--requests", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.requests is not None:
        asyncio.run(answer_all(given.requests, given.max_tokens))
        say(f"{time.time()}")
        return
    whole, own, answered = list[float](), list[float](), list[float]()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        pickled, chosen = folder / "requests", ["--benchmark", "starter", "--languages", "en", "--model", MODEL]
        chosen += ["--sample", str(given.sample), "--max-tokens", str(given.max_tokens)]
        for number in range(given.repeats + 1):
            run = folder / f"run-{number}"
            ended = must(
                run_command([sys.executable, "-m", "mbbq_gen", "run", str(run), *chosen], folder / "log"), "run"
            )
            if not number:  # the first one converts the model; its requests are those of all
                with RunFolder(run).open_store(read_only=True) as store:
                    rows = store.query("SELECT DISTINCT request_key FROM prompts ORDER BY number")
                    pickled.write_bytes(pickle.dumps([store.request(key) for (key,) in rows]))
                continue
            began = time.time()
            script = [sys.executable, __file__, "--requests", str(pickled), "--max-tokens", str(given.max_tokens)]
            done = must(run_command(script, folder / "log"), "script")
            own.append(done.seconds)
            answered.append(float(done.output.split()[-1]) - began)
            whole.append(ended.seconds)
            say(f"  command {whole[-1]:.2f} s, script {own[-1]:.2f} s, its last answer {answered[-1]:.2f} s")
    medians = [statistics.median(seconds) for seconds in (whole, own, answered)]
    say("command {:.2f} s, script {:.2f} s, its last answer {:.2f} s".format(*medians))


if __name__ == "__main__":
    main()
