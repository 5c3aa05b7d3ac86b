"""The base of all packs: TOML files read and validated, with errors that name file, key and value; the languages."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from mbbq_gen.core.errors import PackError, UnknownNameError, describe_fault
from mbbq_gen.core.files import PACK_KINDS, PackKind, PackPaths
from mbbq_gen.core.tables import opened

LanguageCode = Annotated[str, StringConstraints(pattern=r"^[a-z]{2,3}(-[A-Za-z0-9]+)*$")]
Slug = Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]
Text = Annotated[str, StringConstraints(min_length=1, pattern=r"\S")]


PLACEHOLDER = re.compile(r"\{([^{}]*)\}")
TO_DO = "TODO"
"""Stands in a new pack where a speaker has to write."""


class Pack(BaseModel):
    """A table of a pack file: unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


PackT = TypeVar("PackT", bound=Pack)


class PackInfo(Pack):
    """Where a pack comes from."""

    language: LanguageCode
    """ISO 639 code; equals the file's name."""
    name: Text
    native_name: Text
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


def _check_unique(items: Any) -> Any:
    names = [getattr(item, "id", item) for item in items]
    if twice := [name for name in names if names.count(name) > 1]:
        raise ValueError(f"{twice[0]!r} is listed twice")
    return items


Unique = AfterValidator(_check_unique)
"""Of a list: no text, or no entry's id, stands in it twice."""
MOST_TOML = 4 << 20
"""Bytes of the largest TOML file that is read."""


def read_toml(path: Path) -> dict[str, Any]:
    """The tables of a TOML file; raises PackError where it is not TOML, too large or nested too deeply."""
    with opened(path) as stream:
        raw = stream.read(MOST_TOML + 1)
    if len(raw) > MOST_TOML:
        raise PackError(f"{path}: larger than {MOST_TOML >> 20} MB; split it")
    try:
        return tomllib.loads(raw.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise PackError(f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise PackError(f"{path}: not TOML: {error}") from error


def validate_pack(schema: type[PackT], tables: Mapping[str, Any], path: Path) -> PackT:
    """The tables checked against a schema; the first fault becomes one line with file, key and value."""
    try:
        return schema.model_validate(tables)
    except ValidationError as error:
        raise PackError(f"{path}: {describe_fault(error, tables)}") from error


def read_pack(resources: PackPaths, kind: PackKind, language: str, schema: type[PackT]) -> PackT:
    """The pack of a language.

    Raises:
        UnknownNameError: where no such file exists; it names the file to write.
        PackError: where the file is wrong; file, key and value.
    """
    path = resources.find(kind, language)
    if path is None:
        raise UnknownNameError("language", language, resources.names(kind), f"(or write {kind}/{language}.toml)")
    pack = validate_pack(schema, read_toml(path), path)
    meta: PackInfo | None = getattr(pack, "meta", None)
    if meta is not None and meta.language != language:
        raise PackError(f"{path}: meta.language: {meta.language!r} is not the file's name {language!r}")
    return pack


@dataclass(frozen=True)
class LanguageStatus:
    """Which of the three packs of a language are there."""

    language: str
    name: str
    native_name: str
    packs: tuple[PackKind, ...]

    @property
    def is_complete(self) -> bool:
        """Whether all three packs are there."""
        return len(self.packs) == len(PACK_KINDS)


def list_languages(resources: PackPaths) -> list[LanguageStatus]:
    """Every language that has at least one pack, sorted by code."""
    codes = sorted({code for kind in PACK_KINDS for code in resources.names(kind)})
    found = []
    for code in codes:
        paths = {kind: path for kind in PACK_KINDS if (path := resources.find(kind, code)) is not None}
        meta = read_toml(next(iter(paths.values()))).get("meta", {})
        found.append(LanguageStatus(code, meta.get("name", ""), meta.get("native_name", ""), tuple(paths)))
    return found
