"""Reads PakBBQ: BBQ adapted to Pakistan, in English and Urdu.

Data:     https://github.com/Hashmat02/PakBBQ-Bias-Benchmarking-QA-Dataset, `PakBBQ/PakBBQ_ENG` and `PakBBQ/PakBBQ_UR`,
          `<Category>.jsonl`

Fields (BBQ's record, with `type` and `id`; in the Urdu files `answer_info` is English)
* target: groups and stereotyped groups are spelt in many ways (`Hindus` and `hindu`, `Barelvi Muslims` and `Barelvi`),
  and some groups contradict their noun phrase (a Muslim with the group `Christian`). So both are compared, without case
  and plural. By phrase: the one person whose noun phrase contains all words of a stereotyped group. By group: the one
  person whose group is a stereotyped group or a word of one. The result by phrase has priority (issue `group_corrected`
  if the group gives another). In Age ("24 year old") and Gender_identity only the group is used, as in BBQ.
* No target: no result by either (`Lahore` and `Lahori`, Urdu phrases in Latin letters, empty or equal groups).
* Some blocks have the same answer for both of their opposite questions (issue `conflicting_labels`).
* wrong labels: Physical_appearance has inherited BBQ's, version b of template 6.
* parallel_id: category and `example_id`, the same in both languages. In the language category two templates have their
  options in another order; equal ids still mean the same question, condition, polarity and right person.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from mbbq_gen.benchmarks.bbq_record import BbqRow, has_contradiction, in_blocks, instance_of, read_rows
from mbbq_gen.benchmarks.readers.bbq import normalise_group
from mbbq_gen.benchmarks.registry import Parts
from mbbq_gen.benchmarks.rows import LazyInstance

_BY_GROUP: Final = ("age", "gender_identity")
"""Categories whose noun phrases don't name the group."""
_WORD: Final = re.compile(r"[^\s,/]+")


def read_pakbbq(parts: Parts) -> Iterator[LazyInstance]:
    """Yields the instances in file order."""
    for info, (path,) in parts:
        for block in in_blocks(read_rows(path), info.published, contradictions=True):
            first_location, first = block[0]
            target, corrected = find_target(first, info.category, first.unknown_index(first_location))
            issues = ("group_corrected",) * corrected + ("conflicting_labels",) * has_contradiction(block)
            for location, row in block:
                parallel_id = f"pakbbq/{info.category}/{row.example_id}"
                yield instance_of(row, location, info, target=target, parallel_id=parallel_id, data_issues=issues)


def find_target(row: BbqRow, category: str, unknown: int) -> tuple[int | None, bool]:
    """Index of the target option, None without a single one; and whether its group names the other person."""
    people = [index for index in range(3) if index != unknown]
    listed = row.additional_metadata.stereotyped_groups
    if category in _BY_GROUP:
        wanted = {normalise_group(group) for group in listed}
        return _sole([index for index in people if normalise_group(row.groups[index]) in wanted]), False
    phrases = [words(group) for group in listed]
    by_phrase = _sole([index for index in people if any(phrase <= words(row.terms[index]) for phrase in phrases)])
    # A group may be one of the listed ones, or a word of one.
    forms = {_singular(group.casefold().strip()) for group in listed}.union(*phrases)
    by_group = _sole([index for index in people if _singular(row.groups[index].casefold().strip()) in forms - {""}])
    if by_phrase is None:
        return by_group, False
    return by_phrase, by_group is not None and by_group != by_phrase


def _sole(found: list[int]) -> int | None:
    return found[0] if len(found) == 1 else None


def words(text: str) -> frozenset[str]:
    """The words of a text in lower case, without a plural s."""
    return frozenset(_singular(word) for word in _WORD.findall(text.casefold()))


def _singular(word: str) -> str:
    """A word without a plural s; `ss` and short words are unchanged."""
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word
