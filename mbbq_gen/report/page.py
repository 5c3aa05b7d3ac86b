"""Pages for a browser: each is one self-contained file, without requests to other servers.

Model output and data are not trusted: text is escaped, with its control and direction characters made visible
(`tables.escaped`); data is JSON in elements that are not executed (`inert_json`); the content security policy
(`page_policy`) allows the page's own styles and scripts only, by their digests, and no style attributes.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from mbbq_gen.core.errors import MissingExtraError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.text import visible_text
from mbbq_gen.languages.prompt_pack import read_prompts
from mbbq_gen.report import tables
from mbbq_gen.report.charts import Chart
from mbbq_gen.report.charts.vega import require_vl_convert, svg
from mbbq_gen.report.tables import escaped

if TYPE_CHECKING:
    from jinja2 import Environment

    from mbbq_gen.report.view_model import ReportView

STYLES = ("page.css", "picture.css", "items.css")
SCRIPTS = ("theme.js", "folds.js", "downloads.js", "items.js")
FIELD_TITLES = (
    ("language", "language"),
    ("category", "category"),
    ("template", "template"),
    ("variant", "prompt variant"),
    ("outcome", "outcome"),
    ("role", "chosen role"),
    ("correct", "correct"),
    ("confidence", "confidence of the extraction"),
    ("reasoning_effort", "reasoning effort"),
    ("flipped", "flipped"),
    ("split", "split"),
    ("condition", "context"),
    ("benchmark", "benchmark"),
)
"""Filters of items and their labels on the page."""


def page_policy(styles: Iterable[str], scripts: Iterable[str], *, connects: bool = False) -> str:
    """The content security policy of a page: only its own styles and scripts, by digest.

    Images are allowed as blobs, which the script for downloads makes to write a chart as PNG.

    `connects`: whether scripts may send requests to the page's own server.
    """

    def sources(texts: Iterable[str]) -> str:
        digests = (hashlib.sha256(text.encode()).digest() for text in texts)
        return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests) or "'none'"

    allowed = {
        "default-src": "'none'",
        "style-src": sources(styles),
        "script-src": sources(scripts),
        "connect-src": "'self'" if connects else "'none'",
        "img-src": "blob:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {source}" for name, source in allowed.items())


_SCRIPT_ESCAPES = {ord("<"): "\\u003c", ord(">"): "\\u003e", ord("&"): "\\u0026", 0x2028: "\\u2028", 0x2029: "\\u2029"}
"""Characters that could end a script element, begin a comment in it, or end a line of a script."""


def inert_json(value: Any) -> str:
    """The value as JSON for a script element of type application/json; no text in it can end the element.

    Lone surrogates, which UTF-8 cannot encode, are written as escapes.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found.group()):04x}", text.translate(_SCRIPT_ESCAPES))


def page_part(name: str) -> str:
    """The text of a style, script or template of this package."""
    return files("mbbq_gen.report").joinpath("assets", name).read_text(encoding="utf-8")


def language_names(codes: Iterable[str], where: PackPaths) -> dict[str, str]:
    """Language code → English name, for languages with a prompt pack."""
    known = set(where.names("prompts"))
    return {code: read_prompts(where, code).meta.name for code in sorted(set(codes)) if code in known}


# --- templates -------------------------------------------------------------------------------------------------------

_BLOCK_TYPES = (tables.Table, tables.Heading, tables.Bullets, tables.Command, Chart)


def template_environment() -> Environment:
    """The Jinja environment: it escapes all values, and has tests for block types and filters for charts and JSON.

    Raises:
        MissingExtraError: if jinja2 is not installed.
    """
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined
        from markupsafe import Markup
    except ImportError as error:
        raise MissingExtraError("pages need jinja2, not installed here; run: pip install 'mbbq-gen[report]'") from error
    found = Environment(
        loader=FunctionLoader(page_part),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda one: visible_text(one) if isinstance(one, str) and not isinstance(one, Markup) else one,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for block_type in _BLOCK_TYPES:
        found.tests[block_type.__name__.lower()] = lambda value, kind=block_type: isinstance(value, kind)
    found.filters["inert_json"] = lambda value: Markup(inert_json(value))
    found.filters["code"] = lambda text: Markup(re.sub("`([^`]*)`", r"<code>\1</code>", escaped(text)))

    def drawing(chart: Chart) -> str:
        """The chart as SVG; empty if charts can't be drawn."""
        if missing_charts() is not None:
            return ""
        return Markup(svg(chart.spec, chart.name, chart.title, chart.alt))

    found.filters["drawing"] = drawing
    return found


def missing_charts() -> str | None:
    """The reason why no chart can be drawn, with a remedy; None if charts can be drawn."""
    try:
        require_vl_convert()
    except MissingExtraError as error:
        return str(error)
    return None


def page_assets(
    styles: Sequence[str] = STYLES, scripts: Sequence[str] = SCRIPTS, *, connects: bool = False
) -> dict[str, str]:
    """The assets of a page: `style`, `script`, and their `policy`; `connects`: as in `page_policy`."""
    style, script = ("\n".join(page_part(name) for name in names) for names in (styles, scripts))
    return {"style": style, "script": script, "policy": page_policy([style], [script], connects=connects)}


def render(template: str, title: str, assets: Mapping[str, str], charts: Iterable[Chart] = (), **values: Any) -> str:
    """A page: a template with its values, assets, and the tables of its charts as CSV.

    Raises:
        MissingExtraError: if jinja2 is not installed.
    """
    tables = {chart.name: chart.table.csv() for chart in charts}
    page = template_environment().get_template(template)
    return page.render(title=title, tables=tables, **assets, **values)


# --- pages -----------------------------------------------------------------------------------------------------------


def report_page(view: ReportView) -> str:
    """The page of a report; its items are gzipped JSON in base64."""
    items = json.dumps(view.items, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode("ascii")
    return render(
        "report.html",
        view.title,
        page_assets(),
        view.charts,
        view=view,
        no_charts=missing_charts(),
        fields=FIELD_TITLES,
        page=browser_data(view.runs, view.names),
        items_packed=base64.b64encode(gzip.compress(items, mtime=0)).decode("ascii"),
    )


def browser_data(runs: Iterable[tuple[str, str]], names: Mapping[str, str]) -> dict[str, Any]:
    """Data for the script that browses items: name and folder of each run, names of languages."""
    shown = [{"name": visible_text(name), "folder": folder} for name, folder in runs]
    return {"runs": shown, "languages": names}
