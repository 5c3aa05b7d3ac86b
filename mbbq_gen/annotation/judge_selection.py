"""Which answers a judge reads, and what it is asked about them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, Literal, get_args

from pydantic import JsonValue

from mbbq_gen.annotation.judge import JudgePrompt, sheet_of, shipped_prompt
from mbbq_gen.annotation.judge_table import ChosenBy, JudgeRequest, LLMJudge, answers_by_number
from mbbq_gen.annotation.review import SamplingDesign, can_be_annotated, draw_sample
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import FrozenModel, Message, Request
from mbbq_gen.providers.api.options import structured_fields, with_structure
from mbbq_gen.providers.api.provider import ApiProvider
from mbbq_gen.providers.base import Provider
from mbbq_gen.providers.registry import open_provider, parse_name
from mbbq_gen.runs.extraction import UNPARSED
from mbbq_gen.storage.queries import ExtractionRow, iter_extractions
from mbbq_gen.storage.store import RunStore

SelectionReason = Literal["unparsed", "low", "conflict"]
"""No option was read; read with low confidence; something in the answer spoke for another reading."""
SELECTION_REASONS: tuple[SelectionReason, ...] = get_args(SelectionReason)


class JudgeSelection(FrozenModel):
    """Which answers of a run a judge is to read; without `only` and `sample`, all of them."""

    only: tuple[SelectionReason, ...] = ()
    """Those that the rules read in one of these ways."""
    sample: int | None = None
    """So many, drawn by chance within each language."""
    seed: int = 0
    """Of the sample."""

    @property
    def chosen_by(self) -> ChosenBy:
        """What the choice is called beside each answer."""
        return "only" if self.only else "all" if self.sample is None else "sample"


def is_settled(extraction: ExtractionRow) -> bool:
    """Whether an answer has no text to read, or the service itself says what it is: failed, filtered, refused."""
    return not can_be_annotated(extraction) or extraction.rule.startswith("response.")


def selected_extractions(store: RunStore, versions: Mapping[str, str], choice: JudgeSelection) -> list[ExtractionRow]:
    """The rules' readings of the answers that a choice means, by language in plan order, or as they were drawn.

    Answers that the judge has nothing to read in (`is_settled`) are left out.

    Args:
        store: The run's.
        versions: Language → the version whose readings they are; only these languages.
        choice: What to choose by.
    """
    found = (extraction for extraction in iter_extractions(store, versions) if not is_settled(extraction))
    if choice.sample is not None:
        return list(draw_sample(found, SamplingDesign(sample=choice.sample, by=("language",), seed=choice.seed)).drawn)
    if not choice.only:
        return list(found)
    conflicting = _conflicting(store, versions.values()) if "conflict" in choice.only else set()
    return [
        extraction
        for extraction in found
        if ("unparsed" in choice.only and extraction.outcome in UNPARSED)
        or ("low" in choice.only and extraction.confidence == "low")
        or extraction.prompt_id in conflicting
    ]


def confident_extractions(store: RunStore, versions: Mapping[str, str]) -> Iterator[ExtractionRow]:
    """The rules' readings of the answers that nobody has to be asked about (`is_settled`)."""
    return (extraction for extraction in iter_extractions(store, versions) if is_settled(extraction))


def _conflicting(store: RunStore, versions: Iterable[str]) -> set[str]:
    """The prompts in whose answers these versions found evidence for something else."""
    wanted = sorted(set(versions))
    rows = store.query(
        "SELECT prompt_id FROM extractions WHERE json_array_length(record, '$.conflicts') > 0 AND extractor IN"
        f" ({', '.join('?' * len(wanted))})",
        wanted,
    )
    return {prompt_id for (prompt_id,) in rows}


def judge_requests(
    store: RunStore,
    judge: LLMJudge,
    chosen: Iterable[ExtractionRow],
    request_key: Callable[[Sequence[Message], str], str],
    step: Callable[[], None] = lambda: None,
) -> Iterator[JudgeRequest]:
    """What a judge is asked about answers, in plan order; `request_key` is the provider's."""
    ids = {extraction.prompt_id for extraction in chosen}
    for number, answered in answers_by_number(store, ids):
        sheet = sheet_of(answered, judge.prompt, judge.seed)
        prompt = answered.prompt
        key = request_key(sheet.messages, prompt.prompt_id)
        request = Request(request_key=key, messages=sheet.messages, prompt=prompt, instance=answered.instance)
        step()
        yield JudgeRequest(number, prompt, answered.instance, sheet.option_order, request)


_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""What a judge may be called: it is part of an extractor's name and of a file's."""


def new_judge(
    model: str, options: Mapping[str, JsonValue], resources: PackPaths, *, name: str | None = None, seed: int = 0
) -> LLMJudge:
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
    return LLMJudge(
        name=title,
        model=model,
        model_args=dict(options),
        provider_settings=dict(provider.settings),
        prompt=prompt,
        seed=seed,
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def name_of(model: str) -> str:
    """What a judge is called after its model: the last part of a path or hub id, as far as a name can hold it."""
    _, name = parse_name(model)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name.rpartition("/")[2]).strip("-._")


def judge_provider(model: str, options: Mapping[str, JsonValue], prompt: JudgePrompt, resources: PackPaths) -> Provider:
    """The model of a judge, asked for JSON of the reply's schema where its service knows how.

    A model that refuses to be asked so is asked without: the prompt says what a reply looks like.

    Raises:
        UsageError: where the model can't be had as it was named.
    """
    kind, _ = parse_name(model)
    provider = open_provider(model, with_structure(kind, options, prompt.reply_schema()), resources)
    if isinstance(provider, ApiProvider):
        ours = structured_fields(kind, prompt.reply_schema(), api=options.get("api"))
        provider.learned.dispensable = frozenset(ours)
    return provider
