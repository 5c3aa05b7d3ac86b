"""Options of models behind an API, and the rules of asking, that commands share."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from mbbq_gen.runs.asking import RuleChanges
    from mbbq_gen.runs.folder import RunSettings


@dataclass(frozen=True)
class RemoteOptions:
    """Where a model behind an API is, what it may take a minute, and what it costs."""

    base_url: Annotated[
        str | None, typer.Option(help="Ask this server, e.g. http://127.0.0.1:8000/v1.", metavar="URL")
    ] = None
    rpm: Annotated[int | None, typer.Option(min=1, help="Most requests a minute.", metavar="N")] = None
    tpm: Annotated[int | None, typer.Option(min=1, help="Most tokens a minute, in and out.", metavar="N")] = None
    price_file: Annotated[
        Path | None,
        typer.Option(help="Your own prices (TOML); they come before those of genai-prices.", metavar="FILE"),
    ] = None

    def added_to(self, settings: RunSettings) -> RunSettings:
        """The settings with these options of the provider."""
        options = {**settings.model_options, **self.provider_options()}
        return settings.model_copy(update={"model_options": options})

    def provider_options(self) -> dict[str, Any]:
        """The options of the provider that were given, by name."""
        return _given(self, "base_url", "rpm", "tpm")


@dataclass(frozen=True)
class AskingOptions:
    """How a run is asked: with which key, how much at a time, how far."""

    api_key_env: Annotated[
        str | None, typer.Option(help="Environment variable that holds the key.", metavar="NAME")
    ] = None
    api_key_file: Annotated[
        str | None, typer.Option(help="File that holds the key; only you may read it.", metavar="FILE")
    ] = None
    concurrency: Annotated[int | None, typer.Option(min=1, help="Most requests at a time.", metavar="N")] = None
    timeout: Annotated[float | None, typer.Option(help="Seconds that one answer may take.", metavar="S")] = None
    max_cost: Annotated[
        float | None, typer.Option(help="Stop before the run costs more, in US dollars.", metavar="USD")
    ] = None
    max_errors: Annotated[
        float | None,
        typer.Option(min=0, max=1, help="Stop where more than this share fails; default 0.2.", metavar="SHARE"),
    ] = None
    cache: Annotated[
        Path | None, typer.Option(help="Share answers with other runs through this folder.", metavar="DIR")
    ] = None

    def provider_options(self) -> dict[str, Any]:
        """The options of the provider that were given, by name."""
        return _given(self, "api_key_env", "api_key_file", "concurrency", "timeout")

    def changes(self, price_file: Path | None) -> RuleChanges:
        """What is to hold of this run's rules from now on."""
        from mbbq_gen.runs.asking import RuleChanges

        return RuleChanges(self.max_cost, self.max_errors, self.cache, price_file)


@dataclass(frozen=True)
class BatchOptions:
    """Whether a run is asked in batches."""

    batch: Annotated[
        bool | None,
        typer.Option("--batch/--no-batch", help="Hand everything over in batches, at about half the price, and exit."),
    ] = None
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with RUN: collect its batches, hand over what they lack.")
    ] = False


def _given(group: RemoteOptions | AskingOptions, *names: str) -> dict[str, Any]:
    known = {field.name for field in fields(group)}
    assert known.issuperset(names)
    return {name: value for name in names if (value := getattr(group, name)) is not None}
