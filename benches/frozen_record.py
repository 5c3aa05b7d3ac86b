"""Writes the goldens of `benches.frozen`: one method a step."""

from __future__ import annotations

import contextlib
import csv
import gzip
import hashlib
import html
import io
import itertools
import json
import os
import random
import re
import shlex
import shutil
import sys
import tarfile
import tempfile
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import frozen_recipes as recipes

from mbbq_gen.cli.main import run_command_line
from tests.support.api import spoken
from tests.support.extraction_cases import LANGUAGES, load_cases

HERE = Path(__file__).resolve().parent.parent
SHARED = HERE.parent / "shared"
DATA = HERE / "tests" / "data"
SIZES = {"quick": 15_000, "usual": 60_000, "full": 300_000}
"""Texts that are read."""
PROMPT = ("instance_key", "variant", "label_style", "option_order", "reasoning_effort")
ANSWER = ("response", "outcome", "chosen_index", "confidence", "rule", "spans", "evidence")
READ = ("id", "outcome", "option", "confidence", "rule", "spans")
KEPT = ("response", "context", "question", "prompt", "aliases", "finish_reason")
"""Columns of samples, of extractions, and of the texts to extract."""
STEPS = ("oracles", "features", "imports", "annotations", "published", "starter", "requests", "texts")
EXTRACTORS = {
    "rules": "readings",
    "first-label": "readings_first-letter",
    "answer-line": "readings_answer-form",
    "mbbq-like": "readings_mbbq-like",
    "strict-match": "readings_strict-letter",
}
"""Extractor → its golden; of the baselines, one text in ten."""
VOLATILE = re.compile(
    r"(_at|_s|seconds|duration|git_revision|python|platform|sha256|digests?|mbbq_gen|per_minute|answers_per_.*|latency.*)$|^size$"
)
MASKS = [
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d)?(\.\d+)?(Z|[+-]\d\d:?\d\d| UTC)?"), "<time>"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "<sha256>"),
    (re.compile(r"\b\d+\.\d+\+[0-9a-f]{12}\b"), "<pack>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "<host>"),
    (re.compile(r"mbbq-gen/[\w.]+|mbbq[-_]gen-[0-9a-f-]{8,}"), "<mbbq-gen>"),
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<uuid>"),
]
ENVIRONMENT = {
    **{"COLUMNS": "160", "TERM": "dumb", "NO_COLOR": "1"},
    **{f"{name}_API_KEY": "sk-frozen-0123456789" for name in ("OPENAI", "OPENROUTER", "AZURE_OPENAI", "ANTHROPIC")},
    **{f"{name}_API_KEY": "sk-frozen-0123456789" for name in ("GEMINI", "EXAMPLE")},
    "AWS_ACCESS_KEY_ID": "AKIDEXAMPLE000000000",
    "AWS_SECRET_ACCESS_KEY": "frozen-0123456789",
    "AWS_REGION": "eu-west-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "GOOGLE_CLOUD_PROJECT": "my-project",
    "GOOGLE_CLOUD_LOCATION": "europe-west4",
}


class Recorder:
    """Calls the command line of this checkout in this process and writes the goldens."""

    def __init__(self, runs: Path, folder: Path, size: str, material: Path | None) -> None:
        self.runs, self.folder, self.size, self.material = runs, folder, size, material
        self.quick = size == "quick"
        self.seconds: dict[str, float] = {}

    def call(self, line: str) -> tuple[str, Any]:
        """Stdout of a command, and its failure as a golden, or None; `@` is the folder of runs."""
        words = [word.replace("@", f"{self.runs}/") for word in shlex.split(line)]
        out, err, start = io.StringIO(), io.StringIO(), time.perf_counter()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = run_command_line(words)
            except Exception:  # a fault of the program is a difference, and no reason to stop
                code = 99
                traceback.print_exc()
        self.seconds[line] = round(time.perf_counter() - start, 1)
        said = err.getvalue().strip()
        if code:
            print(f"exit {code}: {line}\n  {said[-600:]}", file=sys.stderr)
        return out.getvalue(), {"exit": code, "said": said.splitlines()[-1:]} if code else None

    def write(self, name: str, content: Any) -> None:
        """One golden as JSON."""
        path = self.folder / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(self.masked(content), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")

    def rows(self, name: str, rows: Iterable[Any]) -> None:
        """One golden as packed JSON Lines."""
        text = "".join(json.dumps(self.masked(row), ensure_ascii=False) + "\n" for row in rows)
        (self.folder / f"{name}.jsonl.gz").write_bytes(gzip.compress(text.encode(), mtime=0))

    def masked(self, found: Any) -> Any:
        """Without what differs from call to call."""
        if isinstance(found, dict):
            return {
                self.masked(key): "…" if VOLATILE.search(key) and value is not None else self.masked(value)
                for key, value in found.items()
            }
        if isinstance(found, list | tuple):
            return [self.masked(value) for value in found]
        if isinstance(found, str):
            for folder, mask in ((self.runs, "RUNS"), (SHARED, "SHARED"), (HERE, "REPO")):
                found = found.replace(str(folder), mask)
            for pattern, mask in MASKS:
                found = pattern.sub(mask, found)
        return found

    def command(self, line: str, name: str) -> bool:
        """Records what a command prints, JSON or text; whether it succeeded."""
        out, failed = self.call(line)
        as_json = failed or "--json" in line.split()
        self.write(name if as_json else f"{name}.text", failed or (json.loads(out) if as_json else out.splitlines()))
        return not failed

    def run(self, name: str, options: str) -> bool:
        """Makes a run in the folder of runs; whether that succeeded."""
        return self.command(f"run @{name} {options} --json", f"runs/{name}")

    def items(self, name: str, *, keep: bool = True) -> list[dict[str, str]]:
        """Records the exported tables of a run; returns its samples."""
        out, failed = self.call(f"export @{name} --csv @csv/{name} --json")
        found: list[dict[str, str]] = []
        for path in sorted((self.runs / "csv" / name).glob("*.csv")):
            rows = list(csv.DictReader(io.StringIO(path.read_bytes().decode("utf-8-sig"))))
            path.unlink()
            found = found if path.stem == "scores" else rows
            if keep:
                self.rows(f"export_{name}_{'scores' if path.stem == 'scores' else 'items'}", rows)
        if keep or failed:
            self.write(f"export/{name}", failed or json.loads(out))
        return found

    def digests(self, name: str, run: str = "") -> None:
        """A line for each prompt of a run: its digest, the answer, and what was read in it."""
        lines = []
        for row in self.items(run or name, keep=False):
            sent = json.dumps([row["prompt"], row["messages"]], ensure_ascii=False)
            digest = hashlib.sha256(sent.encode()).hexdigest()[:20]
            lines.append([*(row[key] for key in PROMPT), digest, *(row[key] for key in ANSWER)])
        self.rows(f"prompts_{name}", lines)

    def oracles(self) -> None:
        """Every oracle in four languages: scores, reports; the right ones against each other."""
        sample = 12 if self.quick else 120
        for name in recipes.ORACLES:
            if self.run(name, f"--model oracle:{name} {recipes.STARTER} --sample {sample}"):
                self.command(f"score @{name} --json --group-by language,category,split", f"scores/{name}")
                self.command(f"score @{name} --json {recipes.FULL}", f"scores/{name}_full")
                if not self.quick:
                    self.command(f"report @{name} --json", f"report/{name}")
        across = f"--across language --group-by category {recipes.ACROSS}"
        self.command(f"compare @random --json {across}", "compare/random_languages")
        self.command("compare @random @stereotyped --json --across model", "compare/random_stereotyped")
        self.command("compare @verbose_perfect --json --across variant", "compare/verbose_variants")
        self.rows("items_refuser", self.items("refuser", keep=False)[:500])

    def features(self) -> None:
        """Runs that span the features, and every analysis."""
        for name, given in recipes.RUNS.items():
            if self.quick and name in {"likely", "plain", "foreign"}:
                continue
            options = re.sub(r"--sample \d\d", "--sample 8", given) if self.quick else given
            if self.run(name, options):
                for number, line in enumerate(recipes.ANALYSES.get(name, ())):
                    self.command(line, f"{line.split()[0].removesuffix('-bias')}/{name}_{number}")
                if name not in {"plain", "fair", "unable"}:
                    self.items(name)
        _, failed = self.call("report @fair @leaning @unable -o @page.html")
        page = "" if failed else (self.runs / "page.html").read_text("utf-8")
        page = re.sub(r"(?is)<(script|style|svg)\b.*?</\1>", " ", page)
        lines = [" ".join(line.split()) for line in html.unescape(re.sub(r"<[^>]*>", "\n", page)).splitlines()]
        self.write("report/page.text", failed or [line for line in lines if line])
        model = "--model openai:gpt-4o-mini --benchmark starter --languages en,tr"
        self.command(f"estimate {model} --json", "plan/run")
        self.command(f"design {model} --ci-width 0.2 --json", "design/width")
        self.command("power --benchmark mbbq --templates 98 --variants 5 --json", "power/mbbq")
        self.command("power --benchmark mbbq --templates 40 --variants 3 --pilot @leaning --json", "power/pilot")
        self.command(f"score --jsonl {DATA}/scoring/worked_example.jsonl --json", "scores/worked_example")

    def imports(self) -> None:
        """Runs made of other programs' logs."""
        for tool, path in recipes.IMPORTS.items():
            line = f"import --from {tool} {DATA}/imports/{path} -o @import_{tool} --benchmark starter --languages en"
            self.command(f"{line} --json", f"import/{tool}")
            self.command(f"score @import_{tool} --json --group-by method,split", f"scores/import_{tool}")
            self.items(f"import_{tool}")

    def annotations(self) -> None:
        """Annotations of a run's readings, and scores that are corrected by them."""
        self.run("annotated", f"--model synthetic:able-stereotyped {recipes.STARTER} --sample 24")
        self.call("annotate @annotated --sample-size 300 --csv @sheet.csv --json")
        sheet = self.runs / "sheet.csv"
        rows = list(csv.DictReader(io.StringIO(sheet.read_bytes().decode("utf-8-sig"))))
        for row in rows:
            number = int(hashlib.sha256(row["id"].encode()).hexdigest()[:8], 16)
            other = str(int(row["read_as"]) % 3 + 1 if row["read_as"].isdigit() else 1)
            row.update({"verdict": "agree"} if number % 5 else {"verdict": "disagree", "right": other})
        with sheet.open("w", encoding="utf-8", newline="") as to:
            writer = csv.DictWriter(to, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        self.command("annotate @annotated --import @sheet.csv --json", "annotations/read")
        self.command("annotate @annotated --json", "annotations/report")
        self.command("score @annotated --json --correct-with annotations", "annotations/score")
        self.command("compare @annotated --json --across language --correct-with annotations", "annotations/compare")
        self.items("annotated")

    def published(self) -> None:
        """Samples of the published benchmarks: prompts, questions, scores with either gold."""
        folders = {name: SHARED / "datasets" / folder for name, folder in recipes.PUBLISHED.items()}
        folders |= {name: DATA / "datasets" / name for name in recipes.SMALL_DATA}
        for packed in (SHARED / "datasets" / "more").glob("*.tar.xz"):
            if (name := packed.name.removesuffix(".tar.xz")) in folders:
                folders[name] = self.runs / "data" / name
                with tarfile.open(packed) as archive:
                    archive.extractall(folders[name].parent, filter="data")
        for name, folder in folders.items():
            if not folder.is_dir():
                print(f"left out: {name}: no {folder}", file=sys.stderr)
                continue
            if (self.quick and name not in recipes.QUICK) or (name == "kobbq_all" and self.size != "full"):
                continue
            only = " --languages en" if name == "bharatbbq" else ""
            options = f"--model oracle:random --benchmark {name} --data-dir {folder} --variants all{only}"
            sample = {"quick": 20, "usual": 100}.get(self.size, 200)
            if self.run(f"of_{name}", f"{options} --sample {sample} --splits bias"):
                self.digests(f"of_{name}")
                self.command(f"score @of_{name} --json", f"scores/of_{name}")
                self.command(f"score @of_{name} --json --gold corrected", f"scores/of_{name}_corrected")
            out, failed = self.call(f"data show {name} --data-dir {folder} --json --limit {sample}{only}")
            self.rows(f"questions_{name}", [failed] if failed else map(json.loads, out.splitlines()))
            control = self.size == "full" or not (self.quick or name in recipes.LARGE)
            if control and self.run(f"control_{name}", f"{options} --sample 50 --splits control"):
                self.digests(f"control_{name}")
            if not self.quick:
                self.command(f"data stats {name} --data-dir {folder}{only} --json", f"data/stats_{name}")

    def starter(self) -> None:
        """Every question of the starter benchmark in every prompt variant, with a free answer and its reading."""
        options = "--benchmark starter --splits bias,control"
        some = {"quick": " --sample 4", "usual": " --sample 40"}.get(self.size, "")
        if self.run("starter", f"--model oracle:verbose_perfect {options} --languages all --variants all{some}"):
            self.digests("starter")
        if self.size == "usual" and self.run("whole", f"--model oracle:verbose_perfect {recipes.STARTER}"):
            self.digests("starter_whole", "whole")
        languages = "en,ru" if self.quick else "all"
        for style in ("(A)", "1", "none", "native"):
            where = f"{options} --languages {'ar,hi,ja,ko,ru' if style == 'native' else languages}"
            where += f" --variants plain --sample 6 --label-style '{style}'"
            if self.run("styled", f"--model oracle:perfect {where}"):
                self.digests(f"starter_{style.strip('()')}_labels", "styled")
            shutil.rmtree(self.runs / "styled", ignore_errors=True)
        out, failed = self.call("data show starter --languages en --json")
        self.rows("questions_starter", [failed] if failed else map(json.loads, out.splitlines()))

    def requests(self) -> None:
        """What each kind of API receives, live and in batches; a run with reasoning, and a judge."""
        stub = recipes.Stub()
        with spoken(stub.reply) as server:
            url, endpoint = server.root, self.runs / "endpoint.toml"
            endpoint.write_text(recipes.ENDPOINT.format(url=url), encoding="utf-8")
            account = recipes.service_account(self.runs, f"{url}/token")
            for name, options in recipes.API.items():
                vertex = name.startswith("vertex")
                os.environ["GOOGLE_GENAI_USE_VERTEXAI"] = "true" if name == "vertex_gemini" else ""
                os.environ["GOOGLE_APPLICATION_CREDENTIALS"] = account if vertex else ""
                line = f"run @api_{name} --model {options.format(url=url)} {recipes.SELECTION}"
                out, failed = self.call(line)
                if not failed and "--batch" in options:
                    out, failed = self.call(f"run @api_{name} --json")
                self.write(f"requests/{name}", {"result": failed or json.loads(out), "requests": stub.taken()})
            model = f"--model openai:gpt-4o-mini --base-url {url}/v1"
            self.run("thinking", f"{model} {recipes.STARTER} --sample 12 --variants bare,letters")
            self.command("reasoning @thinking --json", "thoughts/thinking")
            self.command(f"score @thinking --json {recipes.FULL}", "scores/thinking")
            stub.taken()
            self.command(f"judge @thinking {model} --sample-size 20 --json", "judge/read")
            self.write("requests/judge", stub.taken())
            self.command("judge @thinking --report --json", "judge/report")
        self.items("thinking")

    def texts(self) -> None:
        """What is read in stored texts."""
        lines = self.runs / "texts.jsonl"
        packed = self.material.read_bytes() if self.material else gzip.compress(material(self.size), mtime=0)
        lines.write_bytes(gzip.decompress(packed))
        (self.folder / "material.jsonl.gz").write_bytes(packed)
        for extractor, golden in EXTRACTORS.items() if not self.quick else [("rules", "readings")]:
            path = self.runs / f"{extractor}.jsonl"
            chosen = "" if extractor == "rules" else f"--extractor {extractor}"
            _, failed = self.call(f"extract --jsonl {lines} -o {path} {chosen}")
            with path.open(encoding="utf-8") as read:
                rows = map(json.loads, itertools.islice(read, 0, None, 1 if extractor == "rules" else 10))
                self.rows(golden, [failed] if failed else ([row[key] for key in READ] for row in rows))


def material(size: str) -> bytes:
    """Texts to read, as lines for `extract --jsonl`: those at hand, cut short, and with their sentences shuffled."""
    rows, draw = [], random.Random(1)
    files = [*sorted((DATA / "fresh").glob("*.jsonl")), *sorted((DATA / "extraction").glob("[!c]*.jsonl"))]
    files += [DATA / "extraction" / "clefts.jsonl", *sorted((SHARED / "reference").rglob("responses_*.jsonl*"))]
    for file in [*files, *sorted((SHARED / "reference" / "real").glob("*.gz"))]:
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        for number, row in enumerate(map(json.loads, data.decode("utf-8").splitlines())):
            if isinstance(row.get("options"), list) and isinstance(row.get("response"), str):
                shown = row.get("labels") or row.get("option_labels") or list("ABCDEFGHIJ")[: len(row["options"])]
                kept = {key: row[key] for key in KEPT if row.get(key)}
                kept |= {"options": row["options"], "labels": shown, "unknown_index": row.get("unknown_index")}
                rows.append({"id": f"{file.stem}/{number}", "language": row["language"], **kept})
    for number, case in enumerate(load_cases(LANGUAGES)):
        fields = ((key, getattr(case.question, key)) for key in ("options", "labels", "unknown_index", "prompt"))
        kept = {key: value for key, value in fields if value is not None}
        rows.append({"id": f"case/{number}", "language": case.language, "response": case.response, **kept})
    for row in list(rows):
        text, sentences = row["response"], re.split(r"(?<=[.!?。])\s+", row["response"])
        draw.shuffle(sentences)
        changes: dict[str, dict[str, str]] = {
            "cut": {"response": text[: len(text) * 2 // 5]},
            "end": {"response": text[: len(text) * 4 // 5], "finish_reason": "length"},
            "en": {"language": "en" if row["language"] != "en" else "nl"},
            "mixed": {"response": " ".join(sentences)} if len(sentences) > 1 else {},
        }
        rows += [{**row, "id": f"{row['id']}/{name}", **change} for name, change in changes.items() if change]
    drawn = sorted(draw.sample(range(len(rows)), min(len(rows), SIZES[size])))
    return "".join(json.dumps(rows[number], ensure_ascii=True) + "\n" for number in drawn).encode()


def record(to: Path, size: str, steps: Iterable[str] = STEPS, stored: Path | None = None) -> None:
    """Writes the goldens of this checkout to a folder."""
    os.environ |= ENVIRONMENT
    to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="frozen-") as name:
        recorder = Recorder(Path(name).resolve(), to, size, stored)
        for step in steps:
            start = time.perf_counter()
            getattr(recorder, step)()
            print(f"{step}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
        recorder.write("timings", dict(sorted(recorder.seconds.items(), key=lambda one: -one[1])[:40]))
