"""Finds the language packs: the user's own folder first, then the ones that ship, in a wheel or in a checkout."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

from mbbq_gen.core.errors import UsageError

PackKind = Literal["prompts", "extractors", "control_sets"]
PACK_KINDS: tuple[PackKind, ...] = ("prompts", "extractors", "control_sets")


@cache
def shipped_root() -> Path:
    """The folder that holds `prompts`, `extractors` and `control_sets`: inside the wheel, else the checkout's root."""
    installed = Path(str(files("mbbq_gen").joinpath("data")))
    if installed.is_dir():
        return installed
    for folder in Path(str(files("mbbq_gen"))).parents:
        if (folder / "pyproject.toml").is_file():
            return folder
    raise UsageError(f"no language packs beside {installed.parent}; reinstall mbbq-gen")


@dataclass(frozen=True)
class PackPaths:
    """Where packs are looked for: `packs` first if the user gave a folder, then what ships."""

    packs: Path | None = None
    """The user's own folder with `prompts`, `extractors` or `control_sets` in it, or None."""
    shipped: Path = field(default_factory=shipped_root)

    def __post_init__(self) -> None:
        if self.packs is not None and not any((self.packs / kind).is_dir() for kind in PACK_KINDS):
            raise UsageError(f"--packs {self.packs}: no folder prompts, extractors or control_sets in it")

    def find(self, kind: PackKind, name: str) -> Path | None:
        """The file of a pack by its name (a language code), or None."""
        for root in self.roots:
            path = root / kind / f"{name}.toml"
            if path.is_file():
                return path
        return None

    def names(self, kind: PackKind) -> list[str]:
        """The names of all packs of a kind, sorted; those that start with an underscore are not a language."""
        stems = {path.stem for root in self.roots for path in (root / kind).glob("*.toml")}
        return sorted(stem for stem in stems if not stem.startswith("_"))

    @property
    def roots(self) -> list[Path]:
        """The folders that are searched, in order."""
        return [self.shipped] if self.packs is None else [self.packs, self.shipped]


def file_digest(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


CACHE_VARIABLE = "MBBQ_GEN_CACHE"


def cache_directory() -> Path:
    """Where we keep what can be had again: MBBQ_GEN_CACHE if it is set, else the user's cache directory."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("mbbq-gen", appauthor=False)


_SEPARATOR = "\x1f"


def stable_digest(*parts: object) -> str:
    """The sha256, in hexadecimal, of the parts' texts, kept apart from each other by a separator."""
    return hashlib.sha256(_SEPARATOR.join(str(part) for part in parts).encode()).hexdigest()


def stable_number(*parts: object) -> int:
    """A non-negative 64-bit number that depends on the parts alone, evenly spread."""
    return int(stable_digest(*parts)[:16], 16)
