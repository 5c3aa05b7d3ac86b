"""Takes values out of another program's JSON, whatever they turn out to be."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from mbbq_gen.imports.files import UnreadableError
from mbbq_gen.records import Message

_ROLES: Final[dict[str, Literal["system", "user", "assistant"]]] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "model": "assistant",
}
_LONGEST_HINT: Final = 200
_MOST_HINTS: Final = 200
_LONGEST_NAME: Final = 500


def table(value: Any, where: str) -> Mapping[str, Any]:
    """The object at a place; nothing is an empty one.

    Raises:
        UnreadableError: where it is something else.
    """
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise UnreadableError(f"{where}: an object is needed, found {type(value).__name__}")
    return value


def array(value: Any, where: str) -> Sequence[Any]:
    """The list at a place; nothing is an empty one; raises as `table`."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise UnreadableError(f"{where}: a list is needed, found {type(value).__name__}")
    return value


def text(value: Any, where: str) -> str | None:
    """The text at a place, which can be stored; None where there is none.

    Raises:
        UnreadableError: where it is something else, or holds half a character that no UTF-8 can hold.
    """
    if value is None:
        return None
    if not isinstance(value, str):
        raise UnreadableError(f"{where}: a text is needed, found {type(value).__name__}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UnreadableError(f"{where}: holds half a character at {error.start + 1}") from error
    return value


def name(value: Any, default: str = "") -> str:
    """An id or a name as text that can be stored and shown on one line; the default where there is none."""
    if value is None or value == "":
        return default
    shown = value if isinstance(value, str) else json.dumps(value, default=str)
    line = " ".join(shown.encode("utf-8", "replace").decode("utf-8").split())
    return line[:_LONGEST_NAME] or default


def number(value: Any) -> int | None:
    """A count of tokens and the like; None where it is none."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 53 else None


def seconds(value: Any) -> float | None:
    """A duration; None where it is none."""
    good = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9
    return float(value) if good else None


def texts(value: Any, where: str) -> tuple[str, ...]:
    """A list of texts; raises as `text`."""
    return tuple(text(entry, f"{where}[{place}]") or "" for place, entry in enumerate(array(value, where)))


def messages(value: Any, where: str) -> tuple[Message, ...]:
    """The turns of a conversation as services take them; tool calls and the like are passed over."""
    found = []
    for place, entry in enumerate(array(value, where)):
        turn = table(entry, f"{where}[{place}]")
        role = _ROLES.get(str(turn.get("role")))
        if role is not None:
            found.append(Message(role=role, content=content(turn.get("content"), f"{where}[{place}].content").said))
    return tuple(found)


class Content:
    """What a message holds: a text, or parts."""

    def __init__(self, said: str, reasoning: str | None) -> None:
        self.said = said
        """The words."""
        self.reasoning = reasoning
        """What was thought before them, where it is kept apart."""


def content(value: Any, where: str) -> Content:
    """The words of a message, whose content is a text or a list of parts; raises as `text`."""
    if value is None or isinstance(value, str):
        return Content(text(value, where) or "", None)
    said, reasoning = [], []
    for place, entry in enumerate(array(value, where)):
        part = table(entry, f"{where}[{place}]")
        if part.get("type") == "reasoning":
            reasoning.append(text(part.get("reasoning"), f"{where}[{place}].reasoning") or "")
        elif isinstance(part.get("text"), str):
            said.append(text(part["text"], f"{where}[{place}].text") or "")
    return Content("".join(said), "\n".join(reasoning) or None)


def hints(*values: Any) -> frozenset[str]:
    """Every short text and number in some values, as text: what may tell one question from another."""
    found: set[str] = set()
    waiting = list(values)
    while waiting and len(found) < _MOST_HINTS:
        value = waiting.pop()
        if isinstance(value, Mapping):
            waiting.extend(value.values())
        elif isinstance(value, list | tuple):
            waiting.extend(value)
        elif isinstance(value, str | int) and not isinstance(value, bool) and len(str(value)) <= _LONGEST_HINT:
            found.add(str(value))
    return frozenset(found)


def first_line(message: str, limit: int = 300) -> str:
    """The first line of what a program said, cut to a length."""
    line = next((line.strip() for line in message.splitlines() if line.strip()), "")
    return line if len(line) <= limit else line[: limit - 1] + "…"


def joined(parts: Iterable[str | None]) -> str:
    """The parts that are there, a line each."""
    return "\n".join(part for part in parts if part)
