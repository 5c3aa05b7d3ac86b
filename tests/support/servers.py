"""Servers of one's own as their documentation describes them (tests/data/servers/*.toml), on this machine.

states    the case in tests/data/providers/servers.json with what the server states of itself
model     the name of its model
reasoning the field of a message with the reasoning trace; none: the server has none
ignores   fields of a request that are ignored without an error
refused   a field that is refused: its name, and the status and body of the reply; `given`: only users send it
too_long  the reply to a prompt that is longer than the context
loading   the reply while the model is loaded
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mbbq_gen.core.records import FrozenModel
from tests.support.api import Heard, Spoken, spoken
from tests.support.cases import known

DATA = Path(__file__).parents[1] / "data"
STATED = {case["name"]: case for case in json.loads((DATA / "providers/servers.json").read_text(encoding="utf-8"))}
Answerer = Callable[[Mapping[str, Any]], str]
"""From the body of a question to the text of its answer."""


class Reply(FrozenModel):
    """A reply other than an answer."""

    status: int
    body: str
    field: str | None = None
    given: bool = False


class ServerCase(FrozenModel):
    """How a server behaves."""

    name: str
    states: str
    model: str = "m"
    reasoning: str | None = None
    ignores: tuple[str, ...] = ()
    refused: Reply | None = None
    too_long: Reply | None = None
    loading: Reply | None = None


SERVERS = tuple(
    ServerCase.model_validate({"name": path.stem, **tomllib.loads(path.read_text(encoding="utf-8"))})
    for path in sorted((DATA / "servers").glob("*.toml"))
)


@contextmanager
def serving(
    case: ServerCase, answer: Answerer, *first: Reply, refuses: Reply | None = None, finish: str = "stop"
) -> Iterator[Spoken]:
    """A server that answers questions; `first` are its first replies, `refuses` its reply to a field."""
    waiting, routes = list(first), STATED[case.states]["routes"]

    def reply(heard: Heard) -> tuple[int, dict[str, str], bytes]:
        if heard.method == "GET":
            found = routes.get(heard.path, {"data": [{"id": case.model}]} if heard.path == "/v1/models" else None)
            text = found if isinstance(found, str) else json.dumps(found)
            return (404, {}, b"{}") if found is None else (200, {}, text.encode())
        body = json.loads(heard.body)
        if waiting or (refuses is not None and refuses.field in body):
            other = known(waiting.pop(0) if waiting else refuses)
            return other.status, {}, other.body.encode()
        return 200, {}, json.dumps(_completion(case, body, answer(body), finish)).encode()

    with spoken(reply, probed=True) as server:
        yield server


def _completion(case: ServerCase, body: Mapping[str, Any], text: str, finish: str) -> dict[str, Any]:
    """A chat completion; a token is four characters."""
    read = sum(len(message["content"]) for message in body["messages"]) // 4
    message = {"role": "assistant", "content": text, **({case.reasoning: "Hm."} if case.reasoning else {})}
    usage = {"prompt_tokens": read, "completion_tokens": 5, "total_tokens": read + 5}
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return {"id": "c", "object": "chat.completion", "model": body["model"], "choices": [choice], "usage": usage}
