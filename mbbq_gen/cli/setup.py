"""Commands `init`, `doctor` and `models`: the first steps."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal
from urllib.parse import urlsplit

import typer

from mbbq_gen.cli.config_options import model_options
from mbbq_gen.cli.help import example, option
from mbbq_gen.cli.options import Json, echo, echo_json, print_json, print_rows, result_console, say, write_lines
from mbbq_gen.core.errors import RunError, UsageError
from mbbq_gen.core.records import FrozenModel

if TYPE_CHECKING:
    from mbbq_gen.runs.cost_estimate import CostEstimate
    from mbbq_gen.runs.server_check import ServerReport

_LOCAL = ("transformers", "vllm")
_LOCAL_SAMPLE = 96
"""Default questions for each language and split of a local model: an hour or two of a small model on a CPU."""
_VARIANTS = "letters,polite"
_LOOPBACK = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class _Wish:
    """What to measure, as typed."""

    models: tuple[str, ...]
    base_url: str | None
    """Server of the `openai:` models; None for the service's own."""
    benchmark: str
    languages: tuple[str, ...]
    max_cost: float | None
    """US dollars for each model, or None for no limit."""
    sample: int | None


@example(
    "  mbbq-gen init\n"
    "  mbbq-gen init paper.toml --model openai:gpt-4o-mini,transformers:smollm2 --benchmark mbbq --languages en,tr\n"
    "  mbbq-gen init --model openai:qwen2.5:7b --base-url http://127.0.0.1:11434/v1 --benchmark starter\n"
    "  mbbq-gen init --model synthetic:unable --benchmark starter --languages en --yes"
)
def init(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Study file to write.")] = Path("study.toml"),
    model: Annotated[
        str | None,
        option(
            "What to measure",
            "Models, comma-separated, as kind:model, such as openai:gpt-4o-mini,transformers:smollm2; see `mbbq-gen "
            "models`.",
            metavar="KIND:MODEL,…",
        ),
    ] = None,
    base_url: Annotated[
        str | None,
        option(
            "What to measure",
            "Server of the openai: models, such as http://127.0.0.1:11434/v1. Default: the service's own.",
            metavar="URL",
        ),
    ] = None,
    benchmark: Annotated[str | None, option("What to measure", "Benchmark; see `mbbq-gen data list`.")] = None,
    languages: Annotated[str | None, option("What to measure", "Languages, comma-separated.", metavar="XX,…")] = None,
    max_cost: Annotated[
        float | None, option("Size", "US dollars that each model may cost; 0 for no limit.", min=0, metavar="USD")
    ] = None,
    sample: Annotated[
        int | None,
        option("Size", "Questions for each language and split. Default: as many as --max-cost allows.", min=1),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", "-y", help="Ask no questions: use the default of every option that is not given.")
    ] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Only print the JSON schema of study files, for editors.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Writes a study file for `run` and estimates its cost.

    Asks for models, base URL, benchmark, languages and the maximum cost. Options that are given are skipped. On a
    terminal, it offers to look for model servers on this machine. Nothing is sent to any model.
    """
    if schema:
        from mbbq_gen.runs.study import study_schema

        print_json(study_schema())
        return
    if file.suffix != ".toml":
        raise UsageError(f"{file}: the name of a study ends in .toml; use {file.with_suffix('.toml')}")
    if file.exists():
        raise UsageError(f"{file}: exists; run it (mbbq-gen run {file}), or name another file")
    wish = _wish(model, base_url, benchmark, languages, max_cost, sample, yes=yes)
    found = {name: _estimate(name, wish) for name in wish.models}
    samples = {name: _sample(name, wish, one) for name, one in found.items()}
    lines = [
        "# A study: `mbbq-gen run` runs every model on every benchmark, and continues after a stop.",
        "",
        f"benchmarks = {_toml([wish.benchmark])}",
        f"languages = {_toml(list(wish.languages))}",
        f"variants = {_toml(_VARIANTS.split(','))}          # see `mbbq-gen prompts list`",
        'splits = ["bias", "control"]             # control: the same questions with first names',
    ]
    for name in wish.models:
        lines += ["", "[[model]]", f"name = {_toml(name)}"]
        if samples[name] is not None:
            lines.append(f"sample = {samples[name]}          # questions for each language and split; omit for all")
        if server := _server_of(name, wish):
            lines.append(f"base_url = {_toml(server)}")
        if wish.max_cost is not None and _is_paid(name, wish.base_url):
            lines.append(f"max_cost = {wish.max_cost}        # US dollars")
    write_lines(file, lines)
    forecasts = {name: _in_words(one, samples[name]) for name, one in found.items()}
    if as_json:
        print_json({"file": str(file), "samples": samples, "forecasts": forecasts})
        return
    for name, line in forecasts.items():
        echo(f"{name}: {line}")
    echo(f"written: {file}\nnext: mbbq-gen run {file}")


# --- asking ----------------------------------------------------------------------------------------------------------


def _wish(
    model: str | None,
    base_url: str | None,
    benchmark: str | None,
    languages: str | None,
    max_cost: float | None,
    sample: int | None,
    *,
    yes: bool,
) -> _Wish:
    """The options given; asks for the others."""
    from mbbq_gen.benchmarks.registry import BENCHMARKS, find_benchmark
    from mbbq_gen.benchmarks.releases import benchmark_folder
    from mbbq_gen.core.text import words
    from mbbq_gen.providers.api.options import checked_address
    from mbbq_gen.providers.registry import check_name

    def ask(given: str | None, question: str, default: str) -> str:
        if given is not None:
            return given
        return default if yes else str(typer.prompt(question, default=default, err=True))

    found = _servers() if model is None and base_url is None and not yes and sys.stdin.isatty() else []
    for server in found:
        say(f"{server.server} at {server.base_url}: {', '.join(server.models[:5])}")
    usual = found[0].model_option if found else "synthetic:able-stereotyped"
    names = words(ask(model, "Models (kind:model, see `mbbq-gen models`; several with commas)", usual))
    if not names:
        raise UsageError("name at least one model: --model kind:model (see `mbbq-gen models`)")
    for name in names:
        check_name(name)
    url = base_url
    if any(name.startswith("openai:") for name in names):
        has = [server.base_url for server in found for name in server.models if f"openai:{name}" in names]
        url = ask(base_url, "Base URL of the openai: models (empty: the service's own)", has[0] if has else "")
    elif base_url is not None:
        raise UsageError("--base-url: no openai: model is named; for a local server use --model openai:NAME")
    url = checked_address(url, "--base-url")
    at_hand = [name for name, info in BENCHMARKS.items() if not info.needs_data or benchmark_folder(name) is not None]
    info = find_benchmark(ask(benchmark, f"Benchmark ({', '.join(at_hand)}; others: `mbbq-gen data list`)", "starter"))
    codes = words(ask(languages, f"Languages ({', '.join(info.languages)})", info.languages[0]))
    limit = max_cost
    if limit is None and any(_is_paid(name, url) for name in names) and not yes:
        limit = float(typer.prompt("Most that each model may cost, in US dollars (0: no limit)", default=5.0, err=True))
    return _Wish(tuple(names), url, info.name, tuple(codes), limit or None, sample)


def _servers() -> list[ServerReport]:
    """The model servers on this machine, if the user wants to look for them."""
    from mbbq_gen.core.files import PackPaths
    from mbbq_gen.runs.server_check import find_servers

    if not typer.confirm("Look for model servers on the usual ports of this machine?", default=False, err=True):
        return []
    found = find_servers(PackPaths())
    if not found:
        say("no model server found")
    return found


def _is_paid(model: str, base_url: str | None) -> bool:
    """Whether asking it may cost money."""
    kind, is_local = model.partition(":")[0], urlsplit(base_url or "").hostname in _LOOPBACK
    return kind not in {*_LOCAL, "ollama", "oracle", "synthetic", "scripted"} and not (kind == "openai" and is_local)


# --- what it takes ---------------------------------------------------------------------------------------------------


def _server_of(model: str, wish: _Wish) -> str | None:
    """The server of a model; None for the service's own."""
    return wish.base_url if wish.base_url and model.startswith("openai:") else None


def _estimate(model: str, wish: _Wish) -> CostEstimate | None:
    """The estimate for all questions; None, with a message, if the model can't be opened yet."""
    from mbbq_gen.cli.estimate import make_estimate
    from mbbq_gen.core.config import RunConfig
    from mbbq_gen.core.files import PackPaths
    from mbbq_gen.runs.resolve import resolve

    where = PackPaths()
    asked = {"benchmark": wish.benchmark, "languages": wish.languages, "variants": _VARIANTS, "splits": "bias,control"}
    config = RunConfig(model=model, sample=wish.sample, base_url=_server_of(model, wish), **asked)
    config = resolve(config, where)
    try:
        return make_estimate(config, where)
    except UsageError as error:
        if str(error).startswith(f"{wish.benchmark}:"):
            raise
        say(f"{model}: {error}")
        return None


def _sample(model: str, wish: _Wish, found: CostEstimate | None) -> int | None:
    """Questions for each language and split; None for all."""
    if wish.sample is not None:
        return wish.sample
    if model.partition(":")[0] in _LOCAL:
        return _LOCAL_SAMPLE
    if wish.max_cost is None or found is None:
        return None
    paid = [one for one in found.samples if one.cost is not None and one.cost.online <= wish.max_cost]
    if not any(one.cost for one in found.samples):
        return None
    if not paid:
        raise UsageError(
            f"--max-cost {wish.max_cost:g}: even the smallest sample of {wish.benchmark} costs more with {model}; "
            "use fewer languages, or a larger amount"
        )
    return None if paid[-1].is_all else paid[-1].questions


def _in_words(found: CostEstimate | None, sample: int | None) -> str:
    """Requests, price and time, in a line."""
    from mbbq_gen.report.run_tables import dollars, hours

    if found is None:
        return "no estimate until it is installed (mbbq-gen doctor)"
    chosen = next((one for one in found.samples if one.questions == sample), None)
    part = 1.0 if sample is None else min(1.0, sample / found.samples[-1].questions)
    requests = chosen.requests if chosen else round(found.tokens.requests * part)
    cost = (chosen or found.samples[-1]).cost
    facts = [f"{requests:,} requests"]
    if cost is not None:
        facts.append(f"about {dollars(cost.online if chosen else cost.online * part)}, in batches half of it")
    if found.duration is not None:
        facts.append(f"about {hours(found.duration.hours * part)}")
    if found.model.partition(":")[0] in _LOCAL:
        facts.append("time on this machine: mbbq-gen estimate … --probe")
    return ", ".join(facts)


# --- the file --------------------------------------------------------------------------------------------------------


def _toml(value: object) -> str:
    """A text or a list of texts as TOML, whose texts are written as JSON's are."""
    return json.dumps(value, ensure_ascii=False)


class Finding(FrozenModel):
    """One thing that doctor looks for."""

    about: Literal["package", "models", "keys", "data", "pages", "languages"]
    name: str
    found: bool
    note: str
    """What it is for, where it is, or how to get it. Never a key."""


KEYS = (
    "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY", "AZURE_OPENAI_API_KEY",
    "AWS_BEARER_TOKEN_BEDROCK", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "HF_TOKEN",
)  # fmt: skip
"""Variables with API keys; others can be named with --api-key-env."""
_PAGES = {"jinja2": "the page (report -o)", "vl_convert": "charts (report -o, report --figures)"}


@example(
    "  mbbq-gen doctor\n"
    "  mbbq-gen doctor --base-url http://127.0.0.1:8080/v1\n"
    "  mbbq-gen doctor --base-url http://127.0.0.1:11434 --model llama3.2 --json"
)
def doctor(
    base_url: Annotated[
        str | None,
        typer.Option(
            help="Check this server instead: shows what it is and asks one question. With or without /v1.",
            metavar="URL",
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(help="With --base-url: the model to ask. Default: the only one that it lists.", metavar="NAME"),
    ] = None,
    model_arg: Annotated[
        list[str] | None,
        typer.Option(help="With --base-url: option of the model; may be repeated.", metavar="NAME=VALUE"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Shows what is installed, and which keys and data are found.

    Sends nothing, unless --base-url names a server, and shows names of API keys only. Each line about something
    missing says what it is for and how to get it.
    """
    if base_url is not None:
        _check_server(base_url, model, model_options(model_arg or []), as_json=as_json)
        return
    if model is not None or model_arg:
        raise UsageError("--model, --model-arg: go with --base-url")
    found = findings()
    if as_json:
        echo_json("[\n" + ",\n".join(one.model_dump_json() for one in found) + "\n]")
        return
    console, width = result_console(), max(len(one.name) for one in found)
    for about in dict.fromkeys(one.about for one in found):
        console.print(f"\n{about}")
        for one in found:
            if one.about == about:
                console.print(f"  {'yes' if one.found else 'no ':3}  {one.name:{width}}  {one.note}".rstrip())


def _check_server(base_url: str, model: str | None, model_args: dict[str, str], *, as_json: bool) -> None:
    """Shows what a server is, and its answer to one question.

    Raises:
        RunError: the question has no answer.
    """
    from mbbq_gen.core.files import PackPaths
    from mbbq_gen.core.text import shortened
    from mbbq_gen.runs.server_check import check_server

    found = check_server(base_url, model, model_args, PackPaths())
    if as_json:
        print_json({**found.model_dump(mode="json"), "command": found.command})
    else:
        lines = [("server", found.server), ("base URL", found.base_url), ("models", ", ".join(found.models) or "none")]
        lines += [(name.replace("_", " "), json.dumps(value)) for name, value in found.facts.items()]
        lines.append(("sampling sent", json.dumps(found.sampling_sent)))
        lines += [("not pinned", found.unpinned)] if found.unpinned else []
        if found.answer is not None:
            lines.append(
                ("answer", f"{shortened(found.answer, 100)} ({found.seconds} s, {found.output_tokens} tokens)")
            )
        lines.append(("next", found.command))
        for name, text in lines:
            echo(f"{name:24}{text}")
    if found.model is None:
        say(f"several models: name one with --model, such as {', '.join(found.models[:3])}")
    if found.error is not None:
        raise RunError(found.error)


def findings() -> list[Finding]:
    """All findings, in the order shown."""
    import platform

    import mbbq_gen
    from mbbq_gen.benchmarks.registry import BENCHMARKS
    from mbbq_gen.benchmarks.releases import benchmark_folder
    from mbbq_gen.core.files import PACK_KINDS, PackPaths, cache_directory, shipped_root
    from mbbq_gen.providers.base import is_installed
    from mbbq_gen.providers.registry import list_models

    where, cache = PackPaths(), cache_directory()
    found: list[tuple[str, str, bool, str]] = [
        ("package", "mbbq-gen", True, f"{mbbq_gen.__version__}, packs in {shipped_root()}"),
        ("package", "Python", True, platform.python_version()),
        ("package", "cache", cache.is_dir(), str(cache)),
    ]
    for entry in list_models():
        if not entry.name.startswith(("oracle:", "synthetic:")):
            missing = None if entry.installed else entry.install
            found.append(("models", entry.name, entry.installed, missing or entry.summary))
    for module, purpose in _PAGES.items():
        has = is_installed(module)
        found.append(("pages", module, has, purpose if has else f"{purpose}: pip install 'mbbq-gen[report]'"))
    for name in KEYS:
        value = os.environ.get(name, "")
        found.append(("keys", name, bool(value.strip()), "set" if value else "not set"))
    for name, info in BENCHMARKS.items():
        folder = benchmark_folder(name) if info.needs_data else None
        note = str(folder) if folder else f"mbbq-gen data download {name}, or --data-dir DIR"
        found.append(("data", name, folder is not None or not info.needs_data, note if info.needs_data else "ships"))
    whole = [name for name in where.names("prompts") if all(where.find(kind, name) for kind in PACK_KINDS)]
    found.append(("languages", f"{len(whole)} with all packs", True, ", ".join(whole)))
    return [
        Finding.model_validate({"about": about, "name": name, "found": has, "note": note})
        for about, name, has, note in found
    ]


@example(
    "  mbbq-gen models\n  mbbq-gen models openai\n  mbbq-gen models openai --live\n"
    "  mbbq-gen models openai --live --base-url http://127.0.0.1:8000/v1"
)
def models(
    kind: Annotated[
        str | None, typer.Argument(help="Kind, such as openai: lists its options for --model-arg.", metavar="KIND")
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="With a kind: ask the service for its list of models.")] = False,
    base_url: Annotated[
        str | None, typer.Option(help="Address of the server. Default: the service's own.", metavar="URL")
    ] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="Environment variable that holds the API key.", metavar="NAME")
    ] = None,
    model_arg: Annotated[
        list[str] | None,
        typer.Option(help="Option of the kind, such as service=groq; may be repeated.", metavar="NAME=VALUE"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Lists the kinds of models, the options of one, or the models of a service.

    The options of a kind are given as --model-arg NAME=VALUE, or as `model_args` in a study and in Python.
    """
    from mbbq_gen.providers.registry import list_models

    if live and kind is None:
        raise UsageError("--live: name the kind: mbbq-gen models openai --live")
    if kind is not None and not live and base_url is None:
        _list_options(kind, as_json=as_json)
        return
    if kind is not None:
        given = {"base_url": base_url, "api_key_env": api_key_env} | model_options(model_arg or [])
        _list_live(kind.partition(":")[0], {name: value for name, value in given.items() if value}, as_json=as_json)
        return

    entries = list_models()
    if as_json:
        print_json([entry.model_dump() for entry in entries])
        return

    print_rows(
        ("model", "ready", "what it is"),
        [(entry.name, "yes" if entry.installed else f"no: {entry.install}", entry.summary) for entry in entries],
    )


def _list_options(kind: str, *, as_json: bool) -> None:
    """The options of a kind of models, with defaults and help."""
    from mbbq_gen.providers.registry import options_class

    model = kind.rstrip(":")
    options = options_class(model if ":" in model else f"{model}:any").model_json_schema().get("properties", {})
    rows = [
        {"name": name, "default": option.get("default"), "help": option.get("description", "")}
        for name, option in options.items()
    ]
    if as_json:
        print_json(rows)
        return
    defaults = ["" if row["default"] in (None, {}) else str(row["default"]) for row in rows]
    shown = [(row["name"], default, row["help"]) for row, default in zip(rows, defaults, strict=True)]
    print_rows(("option", "default", "what it is"), shown)


def _list_live(kind: str, options: dict[str, Any], *, as_json: bool) -> None:
    """The models that a service has, with their prices where they are known."""
    import asyncio

    from mbbq_gen.providers.prices import price_of
    from mbbq_gen.providers.registry import open_provider

    provider = open_provider(f"{kind}:any", options)
    provider.check_access()

    async def listed() -> list[str]:
        try:
            return await provider.list_models()
        finally:
            await provider.aclose()

    names = asyncio.run(listed())
    rows = [(name, price_of(kind, name, base_url=provider.capabilities.base_url)) for name in sorted(names)]
    if as_json:
        print_json(
            [
                {"name": f"{kind}:{name}", "input": price and price.input, "output": price and price.output}
                for name, price in rows
            ]
        )
        return
    shown = [
        (f"{kind}:{name}", *(("–", "–") if price is None else (f"{price.input:g}", f"{price.output:g}")))
        for name, price in rows
    ]
    prices = ("$ in, a million tokens", "out")
    print_rows(("model", *prices), shown, right=prices)
