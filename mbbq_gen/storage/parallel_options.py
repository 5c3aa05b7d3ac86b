"""Texts of an instance's options in the other languages of a run.

A response in another language than the question (most often English) names the people in that language; the extractor
looks for those texts where it finds nothing else (DESIGN.md §8, `aliases`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from mbbq_gen.core.records import Instance, Role

Query = Callable[[str, Sequence[str | int]], Iterable[tuple[Any, ...]]]
"""Gives the rows of a SELECT with its parameters: `RunStore.query`."""
Parallels = Mapping[str, Mapping[Role, str]]
"""Language → role → the option's text in it."""


class ParallelOptions:
    """Looks up what the options of questions are called in the other languages; remembers the last question."""

    def __init__(self, query: Query) -> None:
        self._query = query
        self._key = ""
        self._found: Parallels = {}

    def of(self, instance: Instance) -> Parallels:
        """The parallel questions' options; empty where there are none, or where the data has no single target."""
        if instance.key != self._key:
            self._key, self._found = instance.key, self._look_up(instance)
        return self._found

    def _look_up(self, instance: Instance) -> Parallels:
        if instance.parallel_id is None or any(option.role is None for option in instance.options):
            return {}
        rows = self._query(
            "SELECT language, json_extract(record, '$.options') FROM instances"
            " WHERE twin = ? AND benchmark = ? AND split = ? AND language <> ? ORDER BY language",
            (instance.parallel_id, instance.benchmark, instance.split, instance.language),
        )
        own = {option.role: option.text for option in instance.options}
        found: dict[str, dict[Role, str]] = {}
        for language, options in rows:
            texts = {option["role"]: option["text"] for option in json.loads(options)}
            if texts.keys() == own.keys() and texts != own:
                found[language] = texts
        return found
