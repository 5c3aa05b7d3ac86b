"""The page of `report -o`: what it says, that it holds nothing that acts, and that hostile runs break nothing."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from pathlib import Path

import pytest

from mbbq_gen.cli.loading import extracted, runs_frame
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.text import visible_text
from mbbq_gen.report.charts import ChartCollection
from mbbq_gen.report.page import report_page
from mbbq_gen.report.view_model import ReportView, Source, build_report_view
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.statistics.estimate import InferenceSettings
from tests.support.report import HOSTILE, SCRIPT, Made, Page, hostile_report, oracle_report

pytest.importorskip("jinja2")
pytest.importorskip("vl_convert")


def digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return oracle_report(tmp_path_factory.getbasetemp())


@pytest.fixture(scope="module")
def runs(made: Made) -> tuple[Path, ...]:
    return made.runs


@pytest.fixture(scope="module")
def page(made: Made) -> Page:
    return Page(made.page.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Page]:
    text = hostile_report(tmp_path_factory.getbasetemp()).page.read_text(encoding="utf-8")
    return text, Page(text)


HEAD = {"html", "head", "meta", "title", "style", "body", "script"}
PARTS = {"a", "header", "nav", "main", "section", "noscript", "figure", "figcaption", "details", "summary", "div"}
PARTS |= {"span", "h1", "h2", "h3", "p", "ul", "ol", "li", "dl", "dt", "dd", "code", "form", "label", "select"}
PARTS |= {"option", "input"}
PARTS |= {"button", "table", "caption", "thead", "tbody", "tr", "th", "td"}
DRAWING = {"svg", "g", "path", "rect", "circle", "line", "polygon", "polyline", "text", "tspan", "defs", "use", "title"}
DRAWING |= {"clippath", "desc", "ellipse", "lineargradient", "stop"}


def check_inert(page: Page) -> None:
    """Only elements that our templates have; no handler, no style attribute, no link outward; only our own script."""
    assert {tag for tag, _ in page.elements} <= HEAD | PARTS | DRAWING
    names = Counter(name for _, attributes in page.elements for name in attributes)
    assert not [name for name in names if name.startswith("on") or name in {"style", "src", "srcset", "action"}]
    for tag, attributes in page.elements:
        assert (attributes.get("href") or "#").startswith("#"), (tag, attributes)
    (tables, _), (data, _), (packed, _), (own, script) = page.scripts
    assert tables == {"type": "application/json", "id": "tables"}
    assert data == {"type": "application/json", "id": "item-page"}
    assert packed == {"type": "application/gzip", "id": "item-data"}
    assert own == {}
    (style,) = page.styles
    policy = dict(part.split(" ", 1) for part in page.policy.split("; "))
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == digest(script)
    assert policy["img-src"] == "blob:"
    assert policy["style-src"] == digest(style)


def test_the_page_is_inert(page: Page) -> None:
    check_inert(page)


def text_of(page: Page) -> str:
    return " ".join(" ".join(page.text).split())


def test_the_sample_is_balanced_over_kinds_and_both_runs(page: Page) -> None:
    items = page.data["items"]
    assert len(items) == 100
    assert Counter(item["run"] for item in items) == {0: 50, 1: 50}
    assert {(item["language"], item["split"]) for item in items} == {
        (language, split) for language in ("en", "tr") for split in ("bias", "control")
    }
    assert "100 of the 768 answers are in this page" in text_of(page)
    assert page.data["languages"] == {"en": "English", "tr": "Turkish"}


def test_the_same_seed_gives_the_same_items(runs: tuple[Path, ...], resources: PackPaths) -> None:
    folder = RunFolder(runs[0])
    source = Source(folder, folder.manifest(), "m", extracted(folder, resources))
    frame = runs_frame([runs[0]], resources)

    def made(seed: int) -> ReportView:
        sampling = InferenceSettings(seed=seed, n_resamples=100)
        charts, names = ChartCollection((), ()), {"en": "English"}
        return build_report_view(
            [source], frame, charts, names=names, sampling=sampling, tick=lambda _: None, sampled=30
        )

    assert report_page(made(0)) == report_page(made(0))
    assert [item["prompt_id"] for item in made(0).items] != [item["prompt_id"] for item in made(1).items]


def test_an_item_holds_what_was_shown_and_read(page: Page) -> None:
    item = next(
        i for i in page.data["items"] if i["run"] == 0 and i["condition"] == "ambiguous" and i["split"] == "bias"
    )
    assert item["outcome"] == "option"
    assert item["correct"] == "no"
    (chosen,) = [option for option in item["options"] if option["chosen"]]
    assert chosen["role"] == item["role"] == ("target" if item["polarity"] == "negative" else "non_target")
    assert [option["role"] for option in item["options"] if option["right"]] == ["unknown"]
    assert any(kind == 1 for _, kind in item["response"])
    assert item["flipped"] == "no"
    assert item["why"]


def test_a_hostile_run_gives_an_inert_page(hostile: tuple[str, Page]) -> None:
    text, page = hostile
    check_inert(page)
    assert "<script>window" not in text
    assert not re.search("[\u202a-\u202e\u2066-\u2069\x00-\x08\x1b]", text)
    assert len(text) < 3_000_000


def test_hostile_answers_are_there_to_be_read(hostile: tuple[str, Page]) -> None:
    _, page = hostile
    responses = {"".join(piece for piece, _ in item["response"]) for item in page.data["items"]}
    for name in ("script", "attribute", "formula", "override", "style"):
        assert visible_text(HOSTILE[name]) in responses, name
    cut = next(text for text in responses if text.startswith("A xxx"))
    assert len(cut) < 4000
    assert "characters …⟩" in cut
    assert any(SCRIPT in (item["missing"] or "") for item in page.data["items"])
    assert {item["template"] for item in page.data["items"]} >= {f"script {HOSTILE['end of script']}"}


def test_figures_are_written_beside_the_page(made: Made) -> None:
    written = {path.suffix for path in made.figures.iterdir()}
    assert {".svg", ".png", ".pdf", ".json", ".csv", ".md", ".tex"} <= written
