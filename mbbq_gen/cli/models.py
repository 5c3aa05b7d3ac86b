"""`mbbq-gen models`: what can be asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mbbq_gen.cli.options import Json, example, print_json, result_console
from mbbq_gen.errors import UsageError

if TYPE_CHECKING:
    from mbbq_gen.providers.remote.base import RemoteProvider


@example(
    "  mbbq-gen models\n  mbbq-gen models openai: --live\n  mbbq-gen models openai: --live --base-url http://127.0.0.1:8000/v1"
)
def models(
    kind: Annotated[
        str | None, typer.Argument(help="With --live: whose models, such as openai: or gemini:.", metavar="KIND:")
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Ask the service which models it has now.")] = False,
    base_url: Annotated[str | None, typer.Option(help="Ask this server.", metavar="URL")] = None,
    api_key_env: Annotated[
        str | None, typer.Option(help="Environment variable that holds the key.", metavar="NAME")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(help="Option of the kind, such as service=groq.", metavar="NAME=VALUE")
    ] = None,
    as_json: Json = False,
) -> None:
    """Lists what can be asked: kinds of models, oracles; with --live, the models that a service says it has."""
    if live != (kind is not None):
        raise UsageError("give a kind and --live together: mbbq-gen models openai: --live")
    if kind is not None:
        given = {"base_url": base_url, "api_key_env": api_key_env} | _options(option or [])
        _list_live(kind.partition(":")[0], {name: value for name, value in given.items() if value}, as_json=as_json)
        return
    _list_kinds(as_json=as_json)


def _options(given: list[str]) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"--option {text}: write it as NAME=VALUE")
        found[name.strip()] = value
    return found


def _list_live(kind: str, options: dict[str, str | None], *, as_json: bool) -> None:
    """The models that a service has, with their prices where they are known."""
    import asyncio

    from mbbq_gen.providers.prices import price_of
    from mbbq_gen.providers.registry import open_provider
    from mbbq_gen.providers.remote.base import RemoteProvider

    provider = open_provider(f"{kind}:any", options)
    if not isinstance(provider, RemoteProvider):
        raise UsageError(f"models --live: {kind}: is asked on this machine; only services have lists")
    provider.check_access()
    names = asyncio.run(_names_of(provider))
    rows = [(name, price_of(kind, name, base_url=provider.base_url)) for name in sorted(names)]
    if as_json:
        print_json(
            [
                {"name": f"{kind}:{name}", "input": price and price.input, "output": price and price.output}
                for name, price in rows
            ]
        )
        return
    from rich.table import Table

    shown = Table(box=None, pad_edge=False)
    shown.add_column("model", overflow="fold")
    for title in ("$ in, a million tokens", "out"):
        shown.add_column(title, justify="right")
    for name, price in rows:
        shown.add_row(f"{kind}:{name}", *(("–", "–") if price is None else (f"{price.input:g}", f"{price.output:g}")))
    result_console().print(shown)


async def _names_of(provider: RemoteProvider) -> list[str]:
    from mbbq_gen.errors import ProviderError
    from mbbq_gen.providers.remote.faults import PassingError

    try:
        return await provider.list_models()
    except PassingError as fault:
        raise ProviderError(f"{provider.name}: {provider.base_url} gives no list of models: {fault}") from fault
    finally:
        await provider.aclose()


def _list_kinds(*, as_json: bool) -> None:
    from mbbq_gen.providers.registry import list_models

    entries = list_models()
    if as_json:
        print_json([entry.model_dump() for entry in entries])
        return
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for title in ("model", "ready", "what it is"):
        table.add_column(title, overflow="fold")
    for entry in entries:
        ready = "yes" if entry.installed else f"no: {entry.install}"
        table.add_row(entry.name, ready, entry.summary)
    result_console().print(table)
