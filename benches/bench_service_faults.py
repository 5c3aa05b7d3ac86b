"""What becomes of each fault, at each service, asked one by one and in batches; and of fuzzed answers and bodies.

    python benches/bench_service_faults.py [--only page,cut] [--fuzz 20000]

Every cell is a run of 40 requests against the fake service, from the command line as a user gives it. The same ones
are asked of the oracle itself; a cell counts the answers that are read as the oracle's own, and what became of the
others. `stops` means that a command ended with exit code 1 and one line; then the fault is taken away, and the same
command (in batches with `--batch`, as the line says) must come to the end. `N left` means that three batches left N
requests without an answer, which were then handed over again as the line says. A traceback, a key in a file or in what
was said, or an answer that is neither there nor recorded as missing ends the bench.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fake_api import say, table

from mbbq_gen.cli.main import run_command_line
from mbbq_gen.core.errors import MbbqGenError
from mbbq_gen.core.records import Response
from mbbq_gen.extraction.engine import extract
from mbbq_gen.providers.api.provider import ApiProvider
from mbbq_gen.providers.http.errors import TransientError, classify_error
from mbbq_gen.providers.http.transport import HttpResponse, error_payload
from mbbq_gen.providers.registry import open_provider
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.storage.store import Progress
from tests.fake_service.client import FakeServer, fake_server
from tests.support.providers import make_request

KEY = "sk-bench-0123456789abcdef"
KINDS = ("openai", "anthropic", "gemini", "http")
SELECTION = ("--benchmark", "starter", "--languages", "en", "--variants", "letters", "--sample", "20")
NUMBER = 40
DESCRIPTION = """
url = "{address}/chat/completions"
key = "BENCH_API_KEY"
model = "fake"
[headers]
Authorization = "Bearer {{key}}"
[body]
model = "{{model}}"
messages = "{{messages}}"
temperature = "{{temperature}}"
max_tokens = "{{max_tokens}}"
[answer]
text = "choices.0.message.content"
finish_reason = "choices.0.finish_reason"
input_tokens = "usage.prompt_tokens"
output_tokens = "usage.completion_tokens"
"""


@dataclass(frozen=True)
class Case:
    """A fault."""

    name: str
    scenario: Mapping[str, Any]
    options: tuple[str, ...] = ()
    """Of the command."""
    only_batches: bool = False


def _fault(name: str, share: float = 0.3, **more: Any) -> dict[str, Any]:
    return {"faults": {name: share, "most_per_request": 2, "routes": "all", **more}}


CASES = (
    Case("none", {}),
    Case("429 with Retry-After", _fault("rate_limited", retry_after_s=0.05)),
    Case("5xx", _fault("server_error")),
    Case("no answer until the timeout", _fault("hang", 0.05), ("--timeout", "2")),
    Case("connection closed", _fault("drop")),
    Case("answered, then closed", _fault("lost")),
    Case("body cut off", _fault("cut")),
    Case("no JSON", _fault("malformed")),
    Case("a proxy's page (403)", _fault("page", 0.2)),
    Case("wrong key", {"access": {"key": "sk-another-0000000000"}}),
    Case("no such model", {"access": {"models": ["other"]}}),
    Case("quota exhausted", {"access": {"quota": 10}}),
    Case("temperature refused", {"access": {"refused_parameters": ["temperature"]}}),
    Case("max_tokens refused", {"access": {"refused_parameters": ["max_tokens"]}}),
    Case("prompt filtered", {"content": {"filtered_prompt": 0.2}}),
    Case("answer filtered", {"content": {"filtered_answer": 0.2}}),
    Case("refusal field", {"content": {"refused": 0.2}}),
    Case("all tokens into reasoning", {"content": {"empty": 0.2}}),
    Case("cut at the token limit", {"content": {"truncated": 0.2}}),
    Case("token counts missing", {"answers": {"usage": "missing"}}),
    Case(
        "all faults together",
        {
            "faults": {**dict.fromkeys(("rate_limited", "server_error", "drop", "lost", "cut", "malformed"), 0.05)},
            "content": {**dict.fromkeys(("filtered_prompt", "filtered_answer", "refused", "empty", "truncated"), 0.02)},
            "access": {"refused_parameters": ["store"]},
        },
    ),
    Case("requests that fail or expire", {"batches": {"failed": 0.2, "expired": 0.2}}, (), True),
    Case("batches that are refused", {"batches": {"rejected": 0.5}}, (), True),
    Case("batches too large", {"batches": {"max_requests": 15}}, (), True),
    Case("results redirected to another host", {"batches": {"results_at": "http://127.0.0.1:9/there"}}, (), True),
)


def command_of(kind: str, at: FakeServer, run: Path, case: Case, *, batch: bool) -> list[str]:
    """The command that makes a run."""
    model = ["--model", f"{kind}:fake", "--base-url", at.openai if kind == "openai" else at.root]
    if kind == "http":
        path = run.parent / "endpoint.toml"
        path.write_text(DESCRIPTION.format(address=at.openai), encoding="utf-8")
        model = ["--model", f"http:{path}"]
    return ["run", str(run), *model, *SELECTION, *case.options, *(["--batch"] if batch else [])]


def called(arguments: list[str], where: str) -> int:
    """The exit code of a command; ends the bench where it says a traceback or a key."""
    words = io.StringIO()
    try:
        with contextlib.redirect_stdout(words), contextlib.redirect_stderr(words):
            code = run_command_line(arguments)
    except Exception as error:
        raise SystemExit(f"{where}: {arguments[0]}: {type(error).__name__}: {error}") from error
    said = words.getvalue()
    if "Traceback" in said or KEY in said:
        sys.exit(f"{where}: {said[-2000:]}")
    if code not in {0, 1}:
        sys.exit(f"{where}: exit code {code}: {said[-2000:]}")
    return code


def cell(case: Case, kind: str, batch: bool, folder: Path, truth: Reading) -> str:
    """What becomes of a fault at a service."""
    where = f"{case.name}, {kind}{', batch' if batch else ''}"
    run = folder / "".join(letter if letter.isalnum() else "-" for letter in where) / "run"
    run.parent.mkdir()
    with fake_server({"answers": {"oracle": "stereotyped"}, **_with_oracle(case.scenario)}, run=run) as at:
        stops = called(command_of(kind, at, run, case, batch=batch), where)
        left = 0
        for _ in range(16 if batch else 0):
            standing = progress(run)
            if stops or standing.pending == 0:
                break
            left = left or (standing.failed if standing.failed == standing.pending else 0)
            stops = called(["run", str(run), "--batch" if left else "--resume"], where)
        if stops:
            at.change({table: None for table in case.scenario if table != "answers"})
            for _ in range(4):
                called(["run", str(run), *(["--batch"] if batch else ["--resume"])], where)
    for arguments in (["status", str(run), "--json"], ["score", str(run), "--json"]):
        if called(arguments, where):
            sys.exit(f"{where}: {arguments[0]} failed")
    leaked = [path for path in run.parent.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]
    if leaked:
        sys.exit(f"{where}: the key is in {leaked}")
    before = f"{left} left; then " if left else "stops; then " if stops else ""
    return before + counted(reading(run), truth, where)


def _with_oracle(tables: Mapping[str, Any]) -> dict[str, Any]:
    answers = {"answers": {"oracle": "stereotyped", **tables["answers"]}} if "answers" in tables else {}
    return {**tables, **answers}


Reading = dict[str, tuple[str, int | None]]
"""Prompt → outcome and option."""


def reading(path: Path) -> Reading:
    """How the answers of a run were read."""
    with RunFolder(path).open_store(read_only=True) as store:
        rows = store.query("SELECT prompt_id, outcome, option FROM extractions ORDER BY 1")
        return {identity: (outcome, option) for identity, outcome, option in rows}


def progress(run: Path) -> Progress:
    """How far a run is."""
    with RunFolder(run).open_store(read_only=True) as store:
        return store.progress()


def counted(found: Reading, truth: Reading, where: str) -> str:
    """How many answers are the oracle's own, and what became of the others."""
    if found.keys() != truth.keys():
        sys.exit(f"{where}: {len(truth.keys() - found.keys())} prompts have neither answer nor record")
    others = Counter(outcome for key, (outcome, _) in found.items() if found[key] != truth[key])
    exact = len(found) - sum(others.values())
    return ", ".join([f"{exact} exact", *(f"{count} {outcome}" for outcome, count in sorted(others.items()))])


# --- fuzz -------------------------------------------------------------------------------------------------------------

_PIECES = (
    *("The answer is A.", "B", "C)", "not enough information", "\ud83d", "\udc00", "\ud83d\ude00", "\x00", "\uffff"),
    *("\ufffe", "\U0010ffff", "\u202e", "\u0085", "\u2028", "\ufeff", "\u0300" * 50, "\r\n", "\x1b[31m", "<think>"),
    *("</think>", "```json", '{"answer": "A"}', "<script>", "=1+1", "İı", "ﬁ", "क्षि", "한국어", "\ud800\ud800"),
)


def fuzzed_text(chance: random.Random) -> str:
    """A text of pieces that have made trouble somewhere; one in five hundred is a megabyte."""
    text = "".join(chance.choice(_PIECES) for _ in range(chance.randint(0, 12)))
    return text + "x" * 1_000_000 if chance.random() < 0.002 else text


def fuzzed_value(value: Any, chance: random.Random) -> Any:
    """A JSON value of which something may be anything else."""
    if chance.random() < 0.08:
        numbers = (-5, 1.5, 1e308, float("nan"), float("inf"), 10**30)
        odd: tuple[Any, ...] = (*numbers, None, True, "", "\ud800", [], {}, [[]], {"a": []})
        return chance.choice(odd)
    if isinstance(value, dict):
        return {name: fuzzed_value(entry, chance) for name, entry in value.items() if chance.random() > 0.03}
    if isinstance(value, list):
        return [fuzzed_value(entry, chance) for entry in value]
    return value


BODIES: dict[str, dict[str, Any]] = {
    "openai": {
        "id": "c",
        "model": "m",
        "system_fingerprint": "f",
        "choices": [{"message": {"content": "A", "refusal": None, "reasoning": "r"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}},
    },
    "anthropic": {
        "id": "m",
        "model": "m",
        "content": [{"type": "thinking", "thinking": "t"}, {"type": "text", "text": "A"}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 0},
    },
    "gemini": {
        "candidates": [{"content": {"parts": [{"text": "A"}]}, "finishReason": "STOP", "safetyRatings": [{"p": 1}]}],
        "promptFeedback": {"blockReason": None},
        "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "thoughtsTokenCount": 0},
        "modelVersion": "m",
        "responseId": "r",
    },
    "error": {
        "error": {
            "message": "no",
            "code": "c",
            "type": "t",
            "param": "p",
            "details": [{"retryDelay": "1s"}],
            "status": "s",
        }
    },
}
_OPTIONS = ("the grandfather", "the grandson", "not known")


def taken(provider: ApiProvider, reply: HttpResponse) -> str:
    """What becomes of a reply, as when it is asked: an answer, an error, or another try."""
    try:
        payload = reply.json() if reply.status == 200 else error_payload(reply)
        error = provider.error_in(reply, payload, make_request())
        if error is None:
            response = provider.parse("k", payload, reply.headers)
        elif provider.may_pass(error, classify_error(error)):
            raise provider.fault_of(error)
        else:
            response = provider.failure("k", error, reply.headers)
    except TransientError:
        return "asked again"
    again = Response.model_validate_json(response.model_dump_json())
    assert again == response
    if response.text is not None:
        json.dumps(extract(response.text, _OPTIONS, ("A", "B", "C"), "en", 2).model_dump()).encode()
    return "answer" if response.error is None else "error"


def fuzz(number: int) -> list[tuple[str, ...]]:
    """What becomes of fuzzed answers and bodies, by dialect."""
    rows = []
    for kind in ("openai", "anthropic", "gemini"):
        chance = random.Random(f"fuzz {kind}")
        provider: Any = open_provider(f"{kind}:m", {"base_url": "http://127.0.0.1:9"})
        texts: Counter[str] = Counter()
        for _ in range(number):
            body = json.dumps(BODIES[kind]).replace('"A"', json.dumps(fuzzed_text(chance)))
            texts[taken(provider, HttpResponse(200, {}, body.encode()))] += 1
        bodies: Counter[str] = Counter()
        for _ in range(max(1, number // 10)):
            status, shape = chance.choice([(200, kind), (200, kind), (200, "error"), (400, "error"), (429, "error")])
            body = json.dumps(fuzzed_value(BODIES[shape], chance))
            body = body[: chance.randint(0, len(body))] if chance.random() < 0.1 else body
            bodies[taken(provider, HttpResponse(status, {}, body.encode()))] += 1
        rows.append(
            (kind, *(", ".join(f"{count:,} {name}" for name, count in sorted(c.items())) for c in (texts, bodies)))
        )
        say(f"  fuzz {rows[-1]}")
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="rows whose name holds one of these, comma-separated")
    parser.add_argument("--fuzz", type=int, default=20_000, help="fuzzed answers of a dialect; a tenth as many bodies")
    given = parser.parse_args()
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "BENCH_API_KEY"):
        os.environ[name] = KEY
    wanted = [name for name in given.only.split(",") if name]
    columns = [(kind, batch) for kind in KINDS for batch in (False, True) if not (kind == "http" and batch)]
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        called(["run", str(folder / "oracle"), "--model", "oracle:stereotyped", *SELECTION], "the oracle")
        truth = reading(folder / "oracle")
        rows = []
        for case in CASES:
            if wanted and not any(name in case.name for name in wanted):
                continue
            cells = [
                "–" if case.only_batches and not batch else cell(case, kind, batch, folder, truth)
                for kind, batch in columns
            ]
            rows.append((case.name, *cells))
            say(f"  {rows[-1]}")
    print(table(("fault", *(f"{kind}{', batch' if batch else ''}" for kind, batch in columns)), rows))
    if given.fuzz:
        print(table(("dialect", "fuzzed answers", "fuzzed bodies"), fuzz(given.fuzz)))


if __name__ == "__main__":
    try:
        main()
    except MbbqGenError as error:
        sys.exit(f"error: {error}")
