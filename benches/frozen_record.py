"""Writes the goldens of `benches.frozen`: one method a step."""

from __future__ import annotations

import csv
import gzip
import hashlib
import html
import importlib
import json
import os
import random
import re
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from frozen_cli import ENVIRONMENT, HERE, Product
from frozen_recipes import (
    ACROSS,
    ANALYSES,
    API,
    ASKED,
    ENDPOINT,
    FULL,
    IMPORTS,
    LARGE,
    ORACLES,
    PUBLISHED,
    QUICK,
    RUNS,
    SMALL_DATA,
    STARTER,
    Stub,
    service_account,
)

SHARED = HERE.parent / "shared"
DATA = HERE / "tests" / "data"
SIZES = {"quick": 15_000, "usual": 60_000, "full": 300_000}
"""Texts that are read."""
PROMPT_COLUMNS = (
    ("instance_key", "instance_key"),
    ("variant", "variant"),
    ("label_style", "label_style"),
    ("order", "option_order"),
    ("thinking", "reasoning_effort"),
)
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


class Recorder:
    """Writes the goldens of this checkout."""

    def __init__(self, product: Product, folder: Path, size: str, material: Path | None) -> None:
        self.product, self.folder, self.size, self.material = product, folder, size, material
        self.quick = size == "quick"

    def write(self, name: str, content: Any) -> None:
        """One golden as JSON."""
        path = self.folder / f"{name}.json"
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.masked(content), ensure_ascii=False, indent=1) + "\n"
        path.write_text(text, encoding="utf-8")

    def rows(self, name: str, rows: Iterable[Any]) -> None:
        """One golden as packed JSON Lines."""
        self.folder.mkdir(parents=True, exist_ok=True)
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
            found = found.replace(str(self.product.folder), "RUNS")
            found = found.replace(str(SHARED), "SHARED").replace(str(HERE), "REPO")
            for pattern, mask in MASKS:
                found = pattern.sub(mask, found)
        return found

    def command(self, line: str, name: str) -> None:
        """What a command prints: JSON, or for people."""
        out, failed = self.product(line)
        if failed:
            self.write(name, failed)
        elif "--json" in line.split():
            self.write(name, json.loads(out))
        else:
            self.write(f"{name}.text", out.splitlines())

    def run(self, name: str, options: str) -> bool:
        """Makes a run in the folder of runs."""
        line = f"run @{name} {options}" + ("" if "--json" in options else " --json")
        out, failed = self.product(line)
        self.write(f"runs/{name}", failed or json.loads(out))
        return not failed

    def items(self, name: str, *, keep: bool = True) -> list[dict[str, str]]:
        """The exported tables of a run; its items come back."""
        out, failed = self.product(f"export @{name} --csv @csv/{name} --json")
        tables = {} if failed else {path.stem: path for path in (self.product.folder / "csv" / name).glob("*.csv")}
        found: list[dict[str, str]] = []
        for stem, path in sorted(tables.items()):
            with path.open(encoding="utf-8-sig", newline="") as lines:
                rows = list(csv.DictReader(lines))
            path.unlink()
            if stem != "scores":
                found = rows
            if keep:
                self.rows(f"export_{name}_{'scores' if stem == 'scores' else 'items'}", rows)
        if keep or failed:
            self.write(f"export/{name}", failed or json.loads(out))
        return found

    def digests(self, name: str, run: str = "") -> None:
        """A line for each prompt of a run: its digest, the answer, and what was read in it."""
        lines = []
        for row in self.items(run or name, keep=False):
            sent = json.dumps([row["prompt"], row["messages"]], ensure_ascii=False)
            what = [row.get(either) or row.get(other, "") for either, other in PROMPT_COLUMNS]
            read = [row[key] for key in ("outcome", "chosen_index", "confidence", "rule", "spans", "evidence")]
            lines.append([*what, hashlib.sha256(sent.encode()).hexdigest()[:20], row["response"], *read])
        self.rows(f"prompts_{name}", lines)

    # --- Steps --------------------------------------------------------------------------------------------------------

    def oracles(self) -> None:
        """Every oracle in four languages: scores, reports; the right ones against each other."""
        sample = 12 if self.quick else 120
        for name in ORACLES:
            if self.run(name, f"--model oracle:{name} {STARTER} --sample {sample}"):
                self.command(f"score @{name} --json --by language,category,split", f"scores/{name}")
                self.command(f"score @{name} --json {FULL}", f"scores/{name}_full")
                if not self.quick:
                    self.command(f"report @{name} --json", f"report/{name}")
        self.command(f"compare @random --json --across language --by category {ACROSS}", "compare/random_languages")
        self.command("compare @random @stereotyped --json --across model", "compare/random_stereotyped")
        self.command("compare @verbose_perfect --json --across variant", "compare/verbose_variants")
        self.rows("items_refuser", self.items("refuser", keep=False)[:500])

    def features(self) -> None:
        """Runs that span the features, and every analysis."""
        for name, given in RUNS.items():
            if self.quick and name in {"likely", "plain", "foreign"}:
                continue
            options = re.sub(r"--sample \d\d", "--sample 8", given) if self.quick else given
            if self.run(name, options):
                for number, line in enumerate(ANALYSES.get(name, ())):
                    self.command(line, f"{line.split()[0]}/{name}_{number}")
                if name not in {"plain", "fair", "unable"}:
                    self.items(name)
        _, failed = self.product("report @fair @leaning @unable -o @page.html")
        self.write("report/page.text", failed or text_of((self.product.folder / "page.html").read_text("utf-8")))
        model = "--model openai:gpt-4o-mini --benchmark starter --languages en,tr"
        self.command(f"plan {model} --json", "plan/run")
        self.command(f"design {model} --width 0.2 --json", "design/width")
        self.command("power --benchmark mbbq --templates 98 --variants 5 --json", "power/mbbq")
        self.command("power --benchmark mbbq --templates 40 --variants 3 --from @leaning --json", "power/pilot")
        self.command(f"score --jsonl {DATA}/scoring/worked_example.jsonl --json", "scores/worked_example")

    def imports(self) -> None:
        """Runs made of other programs' logs."""
        for tool, path in IMPORTS.items():
            line = f"import --from {tool} {DATA}/imports/{path} -o @import_{tool} --benchmark starter --languages en"
            self.command(f"{line} --json", f"import/{tool}")
            self.command(f"score @import_{tool} --json --by method,split", f"scores/import_{tool}")
            self.items(f"import_{tool}")

    def annotations(self) -> None:
        """Verdicts on the readings of a run, and scores that are corrected by them."""
        self.run("annotated", f"--model made-up:able-stereotyped {STARTER} --sample 24")
        self.product("audit @annotated --sample 300 --csv @sheet.csv --json")
        sheet = self.product.folder / "sheet.csv"
        with sheet.open(encoding="utf-8-sig", newline="") as lines:
            rows = list(csv.DictReader(lines))
        for row in rows:
            number = int(hashlib.sha256(row["id"].encode()).hexdigest()[:8], 16)
            row.update(
                {"verdict": "agree"} if number % 5 else {"verdict": "disagree", "right": other_than(row["read_as"])}
            )
        with sheet.open("w", encoding="utf-8", newline="") as to:
            writer = csv.DictWriter(to, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
        self.command("audit @annotated --verdicts @sheet.csv --json", "annotations/read")
        self.command("audit @annotated --report --json", "annotations/report")
        self.command("score @annotated --json --corrected-by audit", "annotations/score")
        self.command("compare @annotated --json --across language --corrected-by audit", "annotations/compare")
        self.items("annotated")

    def published(self) -> None:
        """Samples of the published benchmarks: prompts, questions, scores with either gold."""
        folders = {name: SHARED / "datasets" / folder for name, folder in PUBLISHED.items()}
        for name in list(folders):
            if (packed := SHARED / "datasets" / "more" / f"{name}.tar.xz").is_file():
                folders[name] = self.product.folder / "data" / name
                with tarfile.open(packed) as archive:
                    archive.extractall(folders[name].parent, filter="data")
        folders |= {name: DATA / "datasets" / name for name in SMALL_DATA}
        for name, folder in folders.items():
            if not folder.is_dir():
                print(f"left out: {name}: no {folder}", file=sys.stderr)
                continue
            if (self.quick and name not in {*QUICK, *SMALL_DATA}) or (name == "kobbq_all" and self.size != "full"):
                continue
            options = f"--model oracle:random --benchmark {name} --data {folder} --variants all"
            only = " --language en" if name == "bharatbbq" else ""
            options += only
            sample = {"quick": 20, "usual": 100}.get(self.size, 200)
            if self.run(f"of_{name}", f"{options} --sample {sample} --splits bias"):
                self.digests(f"of_{name}")
                self.command(f"score @of_{name} --json", f"scores/of_{name}")
                self.command(f"score @of_{name} --json --labels corrected", f"scores/of_{name}_corrected")
            out, failed = self.product(f"data show {name} --data {folder} --json --limit {sample}{only}")
            self.rows(f"questions_{name}", [failed] if failed else map(json.loads, out.splitlines()))
            control = self.size == "full" or not (self.quick or name in LARGE)
            if control and self.run(f"control_{name}", f"{options} --sample 50 --splits control"):
                self.digests(f"control_{name}")
            if not self.quick:
                self.command(f"data stats {name} --data {folder}{only} --json", f"data/stats_{name}")

    def starter(self) -> None:
        """Every question of the starter benchmark in every wording, with what was read in a free answer to it."""
        options = "--benchmark starter --splits bias,control"
        some = {"quick": " --sample 4", "usual": " --sample 40"}.get(self.size, "")
        if self.run("starter", f"--model oracle:verbose_perfect {options} --languages all --variants all{some}"):
            self.digests("starter")
        if self.size == "usual" and self.run("whole", f"--model oracle:verbose_perfect {STARTER}"):
            self.digests("starter_whole", "whole")
        languages = "en,ru" if self.quick else "all"
        for style in ("(A)", "1", "none", "native"):
            where = f"{options} --languages {'ar,hi,ja,ko,ru' if style == 'native' else languages}"
            if self.run(
                "styled", f"--model oracle:perfect {where} --variants plain --sample 6 --label-style '{style}'"
            ):
                self.digests(f"starter_{style.strip('()')}_labels", "styled")
            self.product.forget("styled")
        out, failed = self.product("data show starter --language en --json")
        self.rows("questions_starter", [failed] if failed else map(json.loads, out.splitlines()))

    def requests(self) -> None:
        """What each kind of API gets, live and in batches; a run with reasoning, and a judge."""
        stub = Stub()
        with stub.serve():
            (self.product.folder / "endpoint.toml").write_text(ENDPOINT.format(url=stub.root), encoding="utf-8")
            account = service_account(self.product.folder, f"{stub.root}/token")
            for name, options in API.items():
                vertex = name.startswith("vertex")
                os.environ["GOOGLE_GENAI_USE_VERTEXAI"] = "true" if name == "vertex_gemini" else ""
                os.environ["GOOGLE_APPLICATION_CREDENTIALS"] = account if vertex else ""
                line = f"run @api_{name} --model {options.format(url=stub.root)} {ASKED}"
                out, failed = self.product(line)
                if not failed and "--batch" in options:
                    out, failed = self.product(f"run @api_{name} --resume --json")
                self.write(f"requests/{name}", {"result": failed or json.loads(out), "requests": stub.taken()})
            model = f"--model openai:gpt-4o-mini --base-url {stub.root}/v1"
            self.run("thinking", f"{model} {STARTER} --sample 12 --variants bare,letters")
            self.command("thoughts @thinking --json", "thoughts/thinking")
            self.command(f"score @thinking --json {FULL}", "scores/thinking")
            stub.taken()
            self.command(f"judge @thinking {model} --sample 20 --json", "judge/read")
            self.write("requests/judge", stub.taken())
            self.command("judge @thinking --report --json", "judge/report")
        self.items("thinking")

    def texts(self) -> None:
        """What is read in stored texts."""
        lines = self.product.folder / "texts.jsonl"
        packed = self.material.read_bytes() if self.material else gzip.compress(material(self.size), mtime=0)
        lines.write_bytes(gzip.decompress(packed))
        (self.folder / "material.jsonl.gz").write_bytes(packed)
        _, failed = self.product(f"extract --jsonl {lines} -o @read.jsonl")
        if failed:
            self.write("readings", failed)
            return
        with (self.product.folder / "read.jsonl").open(encoding="utf-8") as read:
            self.rows("readings", ([row[key] for key in READ] for row in map(json.loads, read)))
        for extractor in () if self.quick else ("first-letter", "answer-form", "mbbq-like", "strict-letter"):
            _, failed = self.product(f"extract --jsonl {lines} -o @read.jsonl --extractor {extractor}")
            with (self.product.folder / "read.jsonl").open(encoding="utf-8") as read:
                whole = (json.loads(line) for number, line in enumerate(read) if number % 10 == 0)
                self.rows(f"readings_{extractor}", ([row[key] for key in READ] for row in whole))


READ = ("id", "outcome", "option", "confidence", "rule", "spans")
STEPS = ("oracles", "features", "imports", "annotations", "published", "starter", "requests", "texts")


def other_than(read: str) -> str:
    """Another option than the one that was read."""
    return str(int(read) % 3 + 1 if read.isdigit() else 1)


def text_of(page: str) -> list[str]:
    """The words of a page, without scripts, styles and pictures."""
    page = re.sub(r"(?is)<(script|style|svg)\b.*?</\1>", " ", page)
    lines = (" ".join(line.split()) for line in html.unescape(re.sub(r"<[^>]*>", "\n", page)).splitlines())
    return [line for line in lines if line]


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
    cases = importlib.import_module("tests.extraction_cases")
    for number, case in enumerate(cases.load_cases(cases.LANGUAGES)):
        asked = case.question
        shown = {"options": asked.options, "labels": asked.labels, "unknown_index": asked.unknown_index}
        kept = {key: value for key, value in {**shown, "prompt": asked.prompt}.items() if value is not None}
        rows.append({"id": f"case/{number}", "language": case.language, "response": case.response, **kept})
    for row in list(rows):
        text, sentences = row["response"], re.split(r"(?<=[.!?。])\s+", row["response"])
        draw.shuffle(sentences)
        rows.append({**row, "id": f"{row['id']}/cut", "response": text[: len(text) * 2 // 5]})
        rows.append(
            {**row, "id": f"{row['id']}/end", "response": text[: len(text) * 4 // 5], "finish_reason": "length"}
        )
        rows.append({**row, "id": f"{row['id']}/en", "language": "en" if row["language"] != "en" else "nl"})
        if len(sentences) > 1:
            rows.append({**row, "id": f"{row['id']}/mixed", "response": " ".join(sentences)})
    drawn = sorted(draw.sample(range(len(rows)), min(len(rows), SIZES[size])))
    return "".join(json.dumps(rows[number], ensure_ascii=True) + "\n" for number in drawn).encode()


KEPT = ("response", "context", "question", "prompt", "aliases", "finish_reason")


def record(to: Path, size: str, steps: Iterable[str] = STEPS, stored: Path | None = None) -> None:
    """Writes the goldens of this checkout to a folder."""
    os.environ |= ENVIRONMENT
    to.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="frozen-") as name:
        product = Product(Path(name).resolve())
        recorder = Recorder(product, to, size, stored)
        for step in steps:
            start = time.perf_counter()
            getattr(recorder, step)()
            print(f"{step}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
        slowest = dict(sorted(product.seconds.items(), key=lambda one: -one[1])[:40])
        recorder.write("timings", {"help": product.seconds_of_help(), "slowest": slowest})
