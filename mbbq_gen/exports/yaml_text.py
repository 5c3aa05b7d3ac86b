"""Writes YAML: enough of it for the metadata of a card, without a package for it.

Every text is in double quotes, with escapes for whatever is not plainly visible; so nothing that a model's or data
set's name holds can be taken for anything but text (`no`, `1e3`, `- `, a line end).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

YamlValue = str | int | float | bool | None | Sequence["YamlValue"] | Mapping[str, "YamlValue"]

_BARE_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_RESERVED_KEYS = frozenset({"y", "n", "yes", "no", "on", "off", "true", "false", "null"})


def to_yaml(value: Mapping[str, YamlValue]) -> str:
    """The value as block YAML, ending with a line end."""
    return "\n".join(_lines(value)) + "\n"


def _lines(value: YamlValue) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            yield from _entry(f"{_key(key)}:", inner)
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        for inner in value:
            lines = list(_lines(inner))
            yield f"- {lines[0]}"
            yield from (f"  {line}" for line in lines[1:])
    else:
        yield _scalar(value)


def _entry(head: str, value: YamlValue) -> Iterator[str]:
    """A key with its value: in its line, or below it."""
    if isinstance(value, str | int | float | None) or not value:
        yield f"{head} {_scalar(value)}"
        return
    yield head
    indent = "  " if isinstance(value, Mapping) else ""
    yield from (f"{indent}{line}" for line in _lines(value))


def _key(key: str) -> str:
    is_bare = _BARE_KEY.fullmatch(key) and key.lower() not in _RESERVED_KEYS
    return key if is_bare else _quoted(key)


def _scalar(value: YamlValue) -> str:
    """A text, number, truth, null, or an empty list or mapping."""
    if isinstance(value, str):
        return _quoted(value)
    text = json.dumps(value)
    if isinstance(value, float) and "." not in text:  # YAML 1.1 takes 1e-05 for a text
        return text.replace("e", ".0e")
    return text


def _quoted(text: str) -> str:
    return "".join(char if char.isprintable() else _escape(char) for char in json.dumps(text, ensure_ascii=False))


def _escape(char: str) -> str:
    return f"\\u{ord(char):04x}" if ord(char) <= 0xFFFF else f"\\U{ord(char):08x}"
