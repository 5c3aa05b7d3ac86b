"""What all packs share: their tables, where they come from, and how a file is read and its faults told."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError
from pydantic_core import ErrorDetails

from mbbq_gen.errors import PackError, UnknownNameError
from mbbq_gen.resources import PackKind, Resources

LanguageCode = Annotated[str, StringConstraints(pattern=r"^[a-z]{2,3}(-[A-Za-z0-9]+)*$")]
Slug = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]
Text = Annotated[str, StringConstraints(min_length=1, pattern=r"\S")]


PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
TO_DO = "TODO"
"""Stands in a new pack where a speaker has to write."""


class Pack(BaseModel):
    """A table of a pack file: unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")


PackT = TypeVar("PackT", bound=Pack)


class PackMeta(Pack):
    """Where a pack comes from."""

    language: LanguageCode
    """ISO 639 code; equals the file's name."""
    name: Text
    """The language's English name."""
    native_name: Text
    """The language's own name for itself."""
    version: int = Field(ge=1)
    """Raised by whoever changes what the pack says."""
    source: Text
    """Who wrote it, or where the facts in it come from."""
    licence: Text


def placeholders(text: str) -> list[str]:
    """The names between braces in a text, in order."""
    return PLACEHOLDER.findall(text)


def fill(text: str, values: Mapping[str, str]) -> str:
    """The text with every `{name}` replaced, in one pass: braces inside the values stay as they are."""
    return PLACEHOLDER.sub(lambda match: values[match.group(1)], text)


def refuse_repeated(what: str, names: Iterable[str]) -> None:
    """Raises ValueError where a name stands twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ValueError(f"{what} {name!r} stands twice")
        seen.add(name)


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file.

    Raises:
        PackError: where it is not UTF-8 or not TOML, with the line.
    """
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8"))
    except UnicodeDecodeError as error:
        raise PackError(f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise PackError(f"{path}: not TOML: {error}") from error


def validate_pack(schema: type[PackT], tables: Mapping[str, Any], path: Path) -> PackT:
    """The tables checked against a schema; the first fault becomes one line with file, key and value."""
    try:
        return schema.model_validate(tables)
    except ValidationError as error:
        raise PackError(f"{path}: {describe_fault(error, tables)}") from error


def describe_fault(error: ValidationError, tables: Mapping[str, Any]) -> str:
    """The first fault of a validation error, in one line: key, what is wrong, and the value if it is short."""
    first, *others = describe_faults(error, tables)
    return first + (f" (and {len(others)} more)" if others else "")


def describe_faults(error: ValidationError, tables: Mapping[str, Any]) -> list[str]:
    """Every fault of a validation error, one line each."""
    faults = error.errors(include_url=False)
    return [_describe(fault, tables) for fault in faults if not _is_echo(fault, faults)]


def _is_echo(fault: ErrorDetails, faults: list[ErrorDetails]) -> bool:
    """Whether a list counts as too short only because one of its entries is faulty, which is told by its own fault."""
    place = fault["loc"]
    inside = (other for other in faults if len(other["loc"]) > len(place) and other["loc"][: len(place)] == place)
    return fault["type"] == "too_short" and any(inside)


def _describe(fault: ErrorDetails, tables: Mapping[str, Any]) -> str:
    key = _key_path(fault["loc"], tables)
    message = fault["msg"].removeprefix("Value error, ")
    if fault["type"] == "extra_forbidden":
        message = "unknown key; remove it or mend its spelling"
    value = fault["input"]
    shown = f" (value: {value!r})" if isinstance(value, str | int | float | bool) and len(repr(value)) <= 80 else ""
    return f"{key}: {message}{shown}" if key else message


def _key_path(location: tuple[int | str, ...], tables: Any) -> str:
    """`variant 'plain'.text` rather than `variant.3.text`: a list's entry is named by its id where it has one."""
    path, here = "", tables
    for step in location:
        if isinstance(step, int):
            entry = here[step] if isinstance(here, list | tuple) and step < len(here) else None
            name = entry.get("id") if isinstance(entry, dict) else None
            path += f" {name!r}" if name else f"[{step}]"
            here = entry
        else:
            path += f".{step}" if path else step
            here = here.get(step) if isinstance(here, dict) else None
    return path


def read_pack(resources: Resources, kind: PackKind, language: str, schema: type[PackT]) -> PackT:
    """The pack of a language.

    Raises:
        UnknownNameError: where no such file exists; it names the file to write.
        PackError: where the file is wrong; file, key and value.
    """
    path = resources.find(kind, language)
    if path is None:
        raise UnknownNameError("language", language, resources.names(kind), f"(or write {kind}/{language}.toml)")
    pack = validate_pack(schema, read_toml(path), path)
    meta: PackMeta | None = getattr(pack, "meta", None)
    if meta is not None and meta.language != language:
        raise PackError(f"{path}: meta.language: {meta.language!r} is not the file's name {language!r}")
    return pack
