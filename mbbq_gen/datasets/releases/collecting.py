"""Tells which file of somebody's copy is which file of the release.

A copy is any set of files: a checkout, what an archive held, a folder with the data files alone. Its paths mean
something from some folder on (an archive's files stand in `NAME-COMMIT/`), so the folder that makes most of them paths
of the release is taken for its root. A pinned file that is not at its place is known by its name and checksum wherever
it stands.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mbbq_gen.datasets.releases import PinnedFile, Release, fits
from mbbq_gen.errors import DownloadError, UsageError
from mbbq_gen.resources import file_digest

_MOST_FILES: Final = 100_000
_SHOWN: Final = 3

_ByName = Mapping[str, list[str]]
"""Name of a file → the places in the copy where one of that name stands."""


@dataclass(frozen=True)
class Copy:
    """Somebody's copy of a release."""

    label: str
    """As the user knows it: a folder, an archive or an address, for messages."""
    files: Mapping[str, Path]
    """Path in the copy, with `/` between its steps → where the file can be read."""


@dataclass(frozen=True)
class Collected:
    """A file of a copy that is taken, and what it is."""

    path: str
    """Its path in the release."""
    source: Path
    """Where it can be read."""
    place: str
    """Its path in the copy, for messages."""
    pin: PinnedFile | None
    """What it must be, or None where that is not known."""


def read_folder(folder: Path) -> Copy:
    """The files of a folder; folders whose names begin with a dot (`.git`) are passed over.

    Raises:
        UsageError: where it holds more files than a release can have.
        OSError: where it can't be read.
    """
    files: dict[str, Path] = {}
    for root, folders, names in os.walk(folder, onerror=_raise):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        files |= {(Path(root) / name).relative_to(folder).as_posix(): Path(root) / name for name in sorted(names)}
        if len(files) > _MOST_FILES:
            raise UsageError(f"{folder}: more than {_MOST_FILES:,} files; give the folder of the release itself")
    return Copy(str(folder), {path: file for path, file in files.items() if file.is_file()})


def _raise(error: OSError) -> None:
    raise error


def is_wanted(path: str, release: Release) -> bool:
    """Whether a file of an archive can be one of the release: by its path from some step on, or by its name."""
    steps = path.split("/")
    return steps[-1] in release.known_names or any(
        release.takes("/".join(steps[start:])) for start in range(len(steps))
    )


def collect(copy: Copy, release: Release) -> list[Collected]:
    """The files of a copy that belong to a release, in the order of their paths.

    Raises:
        DownloadError: where a required file is missing.
    """
    root = find_root(copy.files, release)
    by_name = defaultdict(list)
    for place in copy.files:
        by_name[_name(place)].append(place)
    found = _pinned(copy, release, root, by_name)
    used = {one.place for one in found.values()}
    found |= {one.path: one for one in _unpinned(copy, release, root, by_name) if one.place not in used}
    missing = [path for path in release.pins if release.requires(path) and path not in found]
    missing += [pattern for pattern in release.required if not any(fits(path, pattern) for path in (*found, *missing))]
    if missing:
        names = ", ".join(missing[:_SHOWN]) + (f" and {len(missing) - _SHOWN} more" if len(missing) > _SHOWN else "")
        raise DownloadError(f"{copy.label}: lacks {names} of {release.name}; give a whole copy with --from")
    return [found[path] for path in sorted(found)]


def find_root(paths: Iterable[str], release: Release) -> str:
    """The folder from which on most paths are those of the release: pinned ones first; it ends in `/` or is empty."""
    pinned: Counter[str] = Counter()
    other: Counter[str] = Counter()
    for path in paths:
        steps = path.split("/")
        for start in range(len(steps)):
            rest, root = "/".join(steps[start:]), "".join(f"{step}/" for step in steps[:start])
            if rest in release.pins:
                pinned[root] += 1
            elif release.takes(rest):
                other[root] += 1
    candidates = {"", *pinned, *other}
    return min(candidates, key=lambda root: (-pinned[root], -other[root], root.count("/"), root))


def _pinned(copy: Copy, release: Release, root: str, by_name: _ByName) -> dict[str, Collected]:
    """The pinned files by path: what stands at their place, else the file of that name and content."""
    names = Counter(_name(path) for path in release.pins)
    found = {}
    for pin in release.files:
        name = _name(pin.path)
        place: str | None = root + pin.path
        if place not in copy.files:
            place = _same_content(copy, pin, by_name.get(name, []), only_one=names[name] == 1)
        if place is not None:
            found[pin.path] = Collected(pin.path, copy.files[place], place, pin)
    return found


def _same_content(copy: Copy, pin: PinnedFile, places: list[str], *, only_one: bool) -> str | None:
    """The place whose file is the pinned one; or the sole place of a name that stands for `only_one` pinned file.

    The latter is another file, which is found out, and said, when it is checked.
    """
    for place in places:
        if copy.files[place].stat().st_size == pin.size and file_digest(copy.files[place]) == pin.sha256:
            return place
    return places[0] if only_one and len(places) == 1 and "/" in pin.path else None


def _unpinned(copy: Copy, release: Release, root: str, by_name: _ByName) -> Iterable[Collected]:
    """The files that nothing is known of but their path; where no path is as released, a name that is unique does."""
    if not any(root + path in copy.files for path in release.pins):
        for path in release.unpinned:
            places = by_name.get(_name(path), [])
            if len(places) == 1:
                yield Collected(path, copy.files[places[0]], places[0], None)
    for place, source in copy.files.items():
        path = place.removeprefix(root)
        if place.startswith(root) and path not in release.pins and release.takes(path):
            yield Collected(path, source, place, None)


def _name(path: str) -> str:
    """The last step of a path."""
    return path.rpartition("/")[2]
