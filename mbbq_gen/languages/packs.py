"""Reads and validates language packs (TOML files), with errors that name file, key and value; lists languages."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
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
placeholders = PLACEHOLDER.findall
"""The names in braces in a text, in order."""
_pieces = lru_cache(maxsize=1024)(PLACEHOLDER.split)
TO_DO = "TODO"
"""Placeholder in a new pack for a text by a speaker of the language."""
MAX_TOML = 4 << 20
"""Maximum size of a TOML file, in bytes."""
_LONG_KEY = re.compile(r"""(?<![\w-])(?:(?:[\w-]+|"(?:[^"\\\n]|\\.)*"|'[^'\n]*')[ \t]*\.[ \t]*){32}""")
"""A dotted key of more than 32 parts; tomllib needs memory with the square of their number."""


class Pack(BaseModel):
    """A table of a pack file; unknown keys are errors."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)


PackT = TypeVar("PackT", bound=Pack)


class PackInfo(Pack):
    """The origin of a pack."""

    language: LanguageCode
    """ISO 639 code; equals the file's name."""
    name: Text
    native_name: Text
    version: int = Field(ge=1)
    """To be increased with every change of the pack."""
    source: Text
    """The author, or the source of the facts."""
    licence: Text


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replaces every `{name}` in one pass; braces in the values are not replaced."""
    return "".join([values[piece] if number % 2 else piece for number, piece in enumerate(_pieces(text))])


def _check_unique(items: Any) -> Any:
    ids = [getattr(item, "id", item) for item in items]
    if repeated := [item_id for item_id in ids if ids.count(item_id) > 1]:
        raise ValueError(f"{repeated[0]!r} is listed twice")
    return items


Unique = AfterValidator(_check_unique)
"""Validates that the texts, or the ids of the entries, of a list are unique."""


def read_toml(path: Path) -> dict[str, Any]:
    """Reads a TOML file; raises PackError if it is invalid, too large or nested too deeply."""
    with opened(path) as stream:
        raw = stream.read(MAX_TOML + 1)
    if len(raw) > MAX_TOML:
        raise PackError(f"{path}: larger than {MAX_TOML >> 20} MB; split it")
    try:
        text = raw.decode("utf-8-sig")
        if any(line.count(".") >= 32 and _LONG_KEY.search(line) for line in text.split("\n")):
            raise PackError(f"{path}: a key of more than 32 parts; write tables")
        return tomllib.loads(text)
    except UnicodeDecodeError as error:
        raise PackError(f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        raise PackError(f"{path}: not TOML: {error}") from error
    except RecursionError as error:
        raise PackError(f"{path}: nested too deeply") from error
    except ValueError as error:
        raise PackError(f"{path}: not TOML: a number with too many digits") from error


def validate_pack(schema: type[PackT], tables: Mapping[str, Any], path: Path) -> PackT:
    """Validates tables with a schema; raises PackError with file, key and value of the first error."""
    try:
        return schema.model_validate(tables)
    except ValidationError as error:
        raise PackError(f"{path}: {describe_fault(error, tables)}") from error


def read_pack(resources: PackPaths, kind: PackKind, language: str, schema: type[PackT]) -> PackT:
    """Reads the pack of a language.

    Raises:
        UnknownNameError: if there is no pack; names the file to write.
        PackError: if the pack is invalid; names file, key and value.
    """
    path = resources.find(kind, language)
    if path is None:
        raise UnknownNameError("language", language, resources.names(kind), f"(or write {kind}/{language}.toml)")
    pack = validate_pack(schema, read_toml(path), path)
    meta: PackInfo | None = getattr(pack, "meta", None)
    if meta is not None and meta.language != path.stem:
        raise PackError(f"{path}: meta.language: {meta.language!r} is not the file's name {path.stem!r}")
    return pack


@dataclass(frozen=True)
class LanguageStatus:
    """A language and its existing packs."""

    language: str
    name: str
    native_name: str
    packs: tuple[PackKind, ...]


def list_languages(resources: PackPaths) -> list[LanguageStatus]:
    """Every language that has at least one pack, sorted by code."""
    codes = sorted({code for kind in PACK_KINDS for code in resources.names(kind)})
    found = []
    for code in codes:
        paths = {kind: path for kind in PACK_KINDS if (path := resources.find(kind, code)) is not None}
        meta = read_toml(next(iter(paths.values()))).get("meta", {})
        found.append(LanguageStatus(code, meta.get("name", ""), meta.get("native_name", ""), tuple(paths)))
    return found
