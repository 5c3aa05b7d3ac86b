"""What instances say of the template files that they were made of, whatever the files' form."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

from mbbq_gen.errors import DataError
from mbbq_gen.resources import file_digest
from mbbq_gen.seeding import stable_digest

T = TypeVar("T")


def at_least_one(templates: Iterable[T], path: Path) -> Iterator[T]:
    """The templates of a file, passed on.

    Raises:
        DataError: at the end, where there was none.
    """
    found = False
    for template in templates:
        found = True
        yield template
    if not found:
        raise DataError(f"{path}: no template in it; add a row, or remove the file")


def template_version(paths: Iterable[Path]) -> str:
    """The version of what is made of these files: it changes with their contents. Missing files don't count."""
    digests = [f"{path.name} {file_digest(path)}" for path in paths if path.is_file()]
    return f"templates-{stable_digest(*digests)[:10]}"


def category_slug(name: str) -> str:
    """The slug of a category that is called by a file's name: `SpanishRegion` → `spanish_region`."""
    words = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)
    return re.sub(r"\W+", "_", words).casefold()
