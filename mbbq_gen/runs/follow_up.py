"""Follow-ups: a second turn that asks which option an unparsed answer meant.

    user       the question                                as it was sent
    assistant  That would be hard to miss, wouldn't it.    the answer, without reasoning
    user       Which of the answers did you mean? …        `[follow_up]` of the language's prompts

The first extraction is not changed; the reply has an extraction of its own (table `follow_ups`).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import cache
from sqlite3 import Cursor
from typing import Final

from mbbq_gen.core.config import FollowUp, RunConfig
from mbbq_gen.core.errors import PackError
from mbbq_gen.core.files import PackPaths, stable_digest
from mbbq_gen.core.records import PARSED, Extraction, FrozenModel, Message, Prompt
from mbbq_gen.languages.packs import fill
from mbbq_gen.languages.prompt_pack import FollowUpText, read_prompts
from mbbq_gen.providers.base import Provider, prompt_key
from mbbq_gen.runs.extraction import UNPARSED_OUTCOMES, Extractor, extract_response, extractor_for, extractor_versions
from mbbq_gen.runs.run_folder import RunFolder
from mbbq_gen.storage.queries import find_completed, iter_extractions, read_completed
from mbbq_gen.storage.schema import EXTRACTION, Value, extraction_row, is_writable
from mbbq_gen.storage.store import NONE_RULE, CompletedPrompt, Progress, RunStore

MAX_TOKENS: Final = 64
"""Token limit of a reply; for a model that reasons first, the limit of the run applies."""
_REASONING: Final = re.compile(r"<think(?:ing)?>.*?(?:</think(?:ing)?>|\Z)", re.DOTALL)


@cache
def follow_up_text(resources: PackPaths, language: str) -> FollowUpText:
    """The follow-up question in a language; PackError if its prompts have none."""
    found = read_prompts(resources, language).follow_up
    if found is None:
        raise PackError(f"prompts/{language}.toml: follow_up is missing; --follow-up needs it")
    return found


def follow_up_question(prompt: Prompt, said: FollowUpText) -> str:
    """The follow-up question to a prompt, with the labels of its options."""
    labels = dict(zip(("label_a", "label_b", "label_c"), prompt.option_labels, strict=True))
    return fill(said.text, {**labels, "none": said.none}).strip()


class FollowUpTable:
    """The follow-up requests of a run: a `runs.budget.PendingSource`."""

    def __init__(self, store: RunStore) -> None:
        self._store, self.pending = store, store.pending_follow_ups
        self.meta, self.set_meta, self.add_responses = store.meta, store.set_meta, store.add_responses

    def progress(self) -> Progress:
        """Progress of the follow-ups only."""
        return self._store.progress(follow_ups_only=True)

    def count(self) -> int:
        """The number of follow-ups."""
        return int(self._store.value("SELECT count(*) FROM follow_ups"))

    def withdraw(self) -> None:
        """Deletes the follow-ups without a response, if the model does not support them."""
        gone = "DELETE FROM follow_ups WHERE request_key NOT IN (SELECT request_key FROM responses WHERE is_error = 0)"
        self._store.change((gone, [()]))


def plan_follow_ups(store: RunStore, provider: Provider, config: RunConfig, resources: PackPaths) -> int:
    """Stores the follow-ups of a run, whose answers must be extracted; returns the number of new ones."""
    planned = list[tuple[Value, ...]]()
    for prompt_id, reason in _reasons(store, config, resources):
        answered = find_completed(store, prompt_id)
        answer = "" if answered is None else _REASONING.sub("", answered.response.text or "").strip()
        if answered is None or not answer or not answered.prompt.messages:
            continue
        prompt, first = answered.prompt, answered.response
        has_reasoning = first.reasoning or first.usage.reasoning_tokens or _REASONING.search(first.text or "")
        limit = None if has_reasoning else MAX_TOKENS
        said = follow_up_text(resources, prompt.instruction_language or prompt.language)
        question = Message(role="user", content=follow_up_question(prompt, said))
        turns = (Message(role="assistant", content=answer), question)
        key = prompt_key(provider, prompt.model_copy(update={"messages": (*prompt.messages, *turns)}))
        key = key if limit is None else stable_digest(json.dumps([key, "follow-up", limit]))
        texts = json.dumps([turn.model_dump() for turn in turns], ensure_ascii=False)
        planned.append((prompt_id, store.number_of(prompt_id), key, reason, texts, said.none, limit))
    table = FollowUpTable(store)
    before = table.count()
    store.change(
        (
            "INSERT OR IGNORE INTO follow_ups (prompt_id, number, request_key, reason, turns, none, max_tokens)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)",
            planned,
        )
    )
    return table.count() - before


def _reasons(store: RunStore, config: RunConfig, resources: PackPaths) -> Iterator[tuple[str, FollowUp]]:
    """Prompt id and reason of each follow-up."""
    for row in iter_extractions(store, extractor_versions(store.languages(), resources)):
        is_low = row.outcome in PARSED and row.confidence == "low" and not row.rule.startswith("response.")
        if "unread" in config.follow_up and row.outcome in UNPARSED_OUTCOMES:
            yield row.prompt_id, "unread"
        elif "low" in config.follow_up and is_low:
            yield row.prompt_id, "low"


def extract_follow_ups(store: RunStore, resources: PackPaths) -> None:
    """Extracts the replies without an extraction of the current version of the rules."""
    columns = ", ".join(f"{name} = ?" for name in ("version", *EXTRACTION))
    for language, version in extractor_versions(store.languages(), resources).items():
        if rows := _replies_to_extract(store, language, version).fetchall():
            extractor, found = extractor_for("rules", language, resources), []
            for prompt_id, none, turns, record, *records in rows:
                reply = read_completed(store, record, *records)
                messages = tuple(map(Message.model_validate, json.loads(turns)))
                prompt = reply.prompt.model_copy(update={"messages": messages})
                read = extract_reply(replace(reply, prompt=prompt), none, extractor)
                found.append((version, *extraction_row(read), prompt_id))
            store.change((f"UPDATE follow_ups SET {columns} WHERE prompt_id = ?", found))


def _replies_to_extract(store: RunStore, language: str, version: str) -> Cursor:
    """The replies in a language without an extraction of this version."""
    return store.query(
        "SELECT u.prompt_id, u.none, u.turns, p.record, i.record, r.record FROM follow_ups u"
        " JOIN prompts p ON p.prompt_id = u.prompt_id JOIN instances i ON i.key = p.instance_key"
        " JOIN responses r ON r.request_key = u.request_key AND r.is_error = 0"
        " WHERE p.language = ? AND u.version IS NOT ? ORDER BY u.number",
        (language, version),
    )


def ensure_follow_ups_extracted(folder: RunFolder, resources: PackPaths) -> bool:
    """Whether a run has follow-ups; first extracts new replies if the folder is writable."""
    with folder.open_store(read_only=True) as store:
        if not FollowUpTable(store).count():
            return False
        versions = extractor_versions(store.languages(), resources)
        has_new = any(_replies_to_extract(store, *each).fetchone() for each in versions.items())
    if has_new and is_writable(folder.path):
        with folder.for_extractions() as store:
            extract_follow_ups(store, resources)
    return True


def extract_reply(reply: CompletedPrompt, none: str, extractor: Extractor) -> Extraction:
    """The extraction of a reply; rule NONE_RULE if it begins with `none`, the reply for no option."""
    none, text = none.casefold(), _REASONING.sub("", reply.response.text or "").casefold()
    end = "" if none[-1] > "\u3000" else r"(?!\w)"  # scripts without spaces
    found = re.match(rf"\W*{re.escape(none)}{end}", text)
    labels = "|".join(re.escape(label.casefold()) for label in reply.prompt.option_labels)
    if found and not re.search(rf"(?<!\w)(?:{labels})(?!\w)", text[found.end() :]):
        return Extraction(outcome="unparsed", confidence="high", rule=NONE_RULE)
    return extract_response(reply, extractor)


class FollowUpStatus(FrozenModel):
    """The progress and outcomes of the follow-ups of a run."""

    requests: int
    answered: int
    failed: int
    read: int
    """Replies that choose an option, refuse, or state that the question can't be answered."""
    none: int
    """Replies that state that no option was chosen."""


def follow_up_status(store: RunStore) -> FollowUpStatus | None:
    """The status of the follow-ups of a run; None if there are none."""
    table = FollowUpTable(store)
    if not table.count():
        return None
    found = Counter(store.query("SELECT outcome, rule FROM follow_ups"))
    return FollowUpStatus(
        **asdict(table.progress()),
        read=sum(count for (outcome, _), count in found.items() if outcome in PARSED),
        none=sum(count for (_, rule), count in found.items() if rule == NONE_RULE),
    )
