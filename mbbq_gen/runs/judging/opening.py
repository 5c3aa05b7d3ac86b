"""Makes a judge out of a model's name, and opens its model so that it is asked for JSON where its service knows how."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from pydantic import JsonValue

from mbbq_gen.errors import UsageError
from mbbq_gen.providers.base import Provider
from mbbq_gen.providers.registry import open_provider, parse_name
from mbbq_gen.providers.remote.base import RemoteProvider
from mbbq_gen.providers.structured import structured_fields, with_structure
from mbbq_gen.resources import Resources
from mbbq_gen.runs.judging.ledger import Judge
from mbbq_gen.runs.judging.prompt import JudgePrompt, shipped_prompt

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""What a judge may be called: it is part of an extractor's name and of a file's."""


def new_judge(
    model: str, options: Mapping[str, JsonValue], resources: Resources, *, name: str | None = None, seed: int = 0
) -> Judge:
    """A judge that has read nothing yet, by the prompt that ships.

    Args:
        model: `kind:model`.
        options: Options of the provider that were given.
        resources: Where packs are looked for.
        name: What it is called; None: by its model.
        seed: Of the order in which it sees options.

    Raises:
        UsageError: where the model, an option or the name can't be.
    """
    title, prompt = name or name_of(model), shipped_prompt()
    if _NAME.fullmatch(title) is None:
        raise UsageError(f"--name {title!r}: use letters, digits, dots, hyphens and underscores only")
    provider = judge_provider(model, options, prompt, resources)
    return Judge(
        name=title,
        model=model,
        model_options=dict(options),
        provider_settings=dict(provider.settings),
        prompt=prompt,
        seed=seed,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def name_of(model: str) -> str:
    """What a judge is called after its model: the last part of a path or hub id, as far as a name can hold it."""
    _, name = parse_name(model)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name.rpartition("/")[2]).strip("-._")


def judge_provider(model: str, options: Mapping[str, JsonValue], prompt: JudgePrompt, resources: Resources) -> Provider:
    """The model of a judge, asked for JSON of the reply's schema where its service knows how.

    A model that refuses to be asked so is asked without: the prompt says what a reply looks like.

    Raises:
        UsageError: where the model can't be had as it was named.
    """
    kind, _ = parse_name(model)
    provider = open_provider(model, with_structure(kind, options, prompt.reply_schema()), resources)
    if isinstance(provider, RemoteProvider):
        ours = structured_fields(kind, prompt.reply_schema(), api=options.get("api"))
        provider.learned.dispensable = frozenset(ours)
    return provider
