"""Lists the languages: each has a prompt pack, an extraction pack and a control set, one TOML file each."""

from __future__ import annotations

from dataclasses import dataclass

from mbbq_gen.core.files import PACK_KINDS, PackKind, PackPaths
from mbbq_gen.languages.packs import read_toml


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
