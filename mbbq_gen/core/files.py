"""Language packs, digests, the cache folder, and writing output files."""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Final, Literal

from mbbq_gen.core.errors import RunError, UsageError

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
    """The folders of language packs: the user's own first, then those of the package."""

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
        """The names of all packs of a kind, sorted; `_*.toml` files are no packs."""
        stems = {path.stem for root in self.roots for path in (root / kind).glob("*.toml")}
        return sorted(stem for stem in stems if not stem.startswith("_"))

    @property
    def roots(self) -> list[Path]:
        """The folders in the order of the search."""
        return [self.shipped] if self.packs is None else [self.packs, self.shipped]


def file_digest(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


CACHE_VARIABLE = "MBBQ_GEN_CACHE"


def cache_directory() -> Path:
    """The cache directory: MBBQ_GEN_CACHE if it is set, else that of the user."""
    named = os.environ.get(CACHE_VARIABLE)
    if named:
        return Path(named).expanduser()
    from platformdirs import user_cache_path

    return user_cache_path("mbbq-gen", appauthor=False)


def stable_digest(*parts: object) -> str:
    """The sha256, in hexadecimal, of the parts as texts with a separator between them."""
    return hashlib.sha256("\x1f".join(map(str, parts)).encode()).hexdigest()


def stable_number(*parts: object) -> int:
    """A 64-bit hash of the parts, as a non-negative number."""
    return int(stable_digest(*parts)[:16], 16)


# --- output files ----------------------------------------------------------------------------------------------------

_STORE: Final = "run.sqlite"
_RUN_FILES: Final = ("run.", "manifest.json", "annotation")
"""Prefixes of the files that belong to a run."""
_DISK_FAULTS: Final = frozenset({errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EFBIG})
"""Errors of the disk; all others are errors of the given path."""


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Turns errors of writing a file into UsageError (the path) or RunError (the disk)."""
    try:
        yield
    except OSError as error:
        kind = RunError if error.errno in _DISK_FAULTS or error.errno is None else UsageError
        raise kind(f"{path}: can't write: {error.strerror or error}") from error
    except UnicodeEncodeError as error:
        raise UsageError(f"{path}: can't write: the path, or a text, is not UTF-8; rename it") from error
    except Exception as error:
        if type(error).__module__.startswith("polars"):
            raise RunError(f"{path}: can't write: {str(error).splitlines()[0]}") from error
        raise


@contextmanager
def output_file(path: Path) -> Iterator[Path]:
    """A temporary file that replaces `path` when the block ends without an error.

    The digest of the content is kept in the cache directory, so that a later call detects changes by others. UsageError
    if the path is not allowed or the file was changed by others; RunError if the disk is full or fails.
    """
    with write_errors(path):
        check_output(path)
        target = path.resolve()
        temporary = target.with_name(f".{target.name[:60]}.{os.getpid()}.part")
        try:
            yield temporary
            if target.exists():
                shutil.copymode(target, temporary)
            digest = file_digest(temporary)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
    record = _digest_file(target)
    with suppress(OSError):  # without the digest, the file counts as changed by others
        record.parent.mkdir(parents=True, exist_ok=True)
        record.write_text(digest, encoding="ascii")


def write_text(path: Path, parts: Iterable[str]) -> None:
    """Writes texts to an output file as UTF-8, line ends as they are; raises as `output_file`."""
    with output_file(path) as temporary, temporary.open("w", encoding="utf-8", newline="") as stream:
        stream.writelines(parts)


def check_output(path: Path) -> None:
    """Raises UsageError if an output file may not be written."""
    target = path.resolve()
    if not target.parent.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent}; make it first")
    if target.is_dir():
        raise UsageError(f"{path}: is a folder; name a file")
    if target.name.startswith(_RUN_FILES) and (target.parent / _STORE).is_file():
        raise UsageError(f"{path}: belongs to the run {target.parent}; name another file")
    if not target.exists():
        return
    if not target.is_file():
        raise UsageError(f"{path}: is not a regular file; name another one")
    if not target.stat().st_size:
        return
    record = _digest_file(target)
    if not record.is_file() or record.read_text(encoding="ascii", errors="replace") != file_digest(target):
        raise UsageError(
            f"{path}: exists, and is not as mbbq-gen wrote it last; name another file, or move this one away"
        )


def _digest_file(target: Path) -> Path:
    """The file with the digest of the content that was last written to a path."""
    return cache_directory() / "outputs" / stable_digest(os.fsencode(target))[:32]
