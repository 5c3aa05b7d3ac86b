"""Pages for a browser: each is one self-contained file, without requests to other servers.

Model output and data are not trusted: text is escaped, with its control and direction characters made visible
(`tables.escaped`); the content security policy (`page_policy`) allows the page's own style and script only.
"""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from mbbq_gen.core.errors import MissingExtraError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.text import visible_text
from mbbq_gen.languages.prompt_pack import read_prompts
from mbbq_gen.report import tables
from mbbq_gen.report.charts import Chart
from mbbq_gen.report.charts.vega import require_vl_convert, svg
from mbbq_gen.report.tables import LINK, escaped
from mbbq_gen.runs.samples import FIELDS

if TYPE_CHECKING:
    from jinja2 import Environment

    from mbbq_gen.report.view_model import PageSection, ReportView


def page_policy(style: str, script: str) -> str:
    """The content security policy: own style and script by digest, images made by the script, own server for forms."""
    own = [f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'" for text in (style, script)]
    rest = "img-src blob:; base-uri 'none'; form-action 'self'"
    return f"default-src 'none'; style-src {own[0]}; script-src {own[1]}; {rest}"


def page_part(name: str) -> str:
    """The text of a style, script or template of this package."""
    return files("mbbq_gen.report").joinpath("assets", name).read_text(encoding="utf-8")


def language_names(codes: Iterable[str], where: PackPaths) -> dict[str, str]:
    """Language code → English name, for languages with a prompt pack."""
    known = set(where.names("prompts"))
    return {code: read_prompts(where, code).meta.name for code in sorted(set(codes)) if code in known}


@cache
def template_environment() -> Environment:
    """The Jinja environment: it escapes all values, and has tests for block types and filters for charts and text.

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
    for block_type in (tables.Table, tables.Heading, tables.Bullets, tables.Command, Chart):
        found.tests[block_type.__name__.lower()] = lambda value, kind=block_type: isinstance(value, kind)
    found.filters["code"] = lambda text: Markup(re.sub("`([^`]*)`", r"<code>\1</code>", escaped(text)))
    found.filters["plain"] = lambda text: text.replace("_", " ")

    def drawing(chart: Chart) -> str:
        """The chart as SVG; empty if charts can't be drawn."""
        if missing_charts():
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


def html_page(
    title: str,
    *,
    conclusions: Sequence[tuple[str, str]] = (),
    notices: Sequence[str] = (),
    ability: Chart | None = None,
    sections: Sequence[PageSection] = (),
    answers: Mapping[str, Any] | None = None,
    details: Sequence[PageSection] = (),
) -> str:
    """A page, with its parts in this order.

    `conclusions`: the sentence on each model and benchmark; `answers`: as in `answers.html`.

    Raises:
        MissingExtraError: if jinja2 is not installed.
    """
    style = "\n".join(map(page_part, ("page.css", "picture.css")))
    script = "\n".join(map(page_part, ("page.js", "downloads.js")))
    blocks = [ability, *(block for section in sections for block in section.blocks)]
    return (
        template_environment()
        .get_template("page.html")
        .render(
            title=title,
            style=style,
            script=script,
            policy=page_policy(style, script),
            conclusions=conclusions,
            notices=[*notices, *filter(None, [missing_charts() if conclusions else None])],
            ability=ability,
            sections=sections,
            answers=answers,
            details=details,
            tables={block.name: block.table.csv() for block in blocks if isinstance(block, Chart)},
        )
    )


def report_page(view: ReportView) -> str:
    """The page of a report; each of its answers is HTML beside the fields that it is filtered by."""
    macros: Any = template_environment().get_template("answers.html").module
    fields = ("model", *FIELDS)
    items = [{**item, "model": view.runs[item["run"]][0]} for item in view.items]
    found = [
        {name: item[name] for name in ("prompt_id", *fields)} | {"html": macros.card(item, LINK)} for item in items
    ]
    packed = gzip.compress(json.dumps(found, separators=(",", ":")).encode(), compresslevel=6, mtime=0)
    note = f"All {view.n_answers:,} answers are in this page."
    if len(items) < view.n_answers:
        commands = ", ".join(f"`mbbq-gen view {folder}`" for _, folder in view.runs)
        note = (
            f"{len(items):,} of the {view.n_answers:,} answers are in this page, drawn by the seed {view.seed}: as "
            "many as possible of every kind (language, split, outcome, role chosen, flipped or not), so that rare kinds"
            f" can be read too. No shares should be counted from them. All answers: {commands}."
        )
    return html_page(
        view.title,
        conclusions=view.conclusions,
        notices=view.notices,
        ability=view.ability,
        sections=view.sections,
        answers={
            "note": note,
            "fields": {name: dict(sorted(Counter(item[name] for item in items).items())) for name in fields},
            "address": LINK,
            "count": "Loading the answers.",
            "listed": (),
            "chosen": {},
            "next": "",
            "packed": base64.b64encode(packed).decode(),
        },
        details=view.details,
    )
