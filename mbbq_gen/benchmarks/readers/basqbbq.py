"""Reads BasqBBQ: BBQ translated into Basque and adapted, eight categories.

Data:     https://github.com/orai-nlp/BasqBBQ, `data/BasqBBQ/<Category>.jsonl`, the large categories in two files,
          `_ambig` and `_disambig`

Fields (BBQ's record, with Basque names of the categories)
* target: the one person whose group is among `stereotyped_groups`; the groups are spelt consistently.
* A group may be missing: 184 entries of Nazionalitate hold `NaN`, which is not valid JSON; they become empty.
* wrong labels: Itxura_fisikoa has inherited BBQ's, versions b of templates 6 and 10 (58 rows).
* Basque inflects the subject of a transitive verb, so the options of a block's two questions may differ.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator

from mbbq_gen.benchmarks.bbq_record import in_blocks, instance_of, listed_target, read_rows
from mbbq_gen.benchmarks.registry import Parts
from mbbq_gen.benchmarks.rows import LazyInstance


def read_basqbbq(parts: Parts) -> Iterator[LazyInstance]:
    """Yields the instances in file order; the halves of a category are merged by `example_id`."""
    for info, paths in parts:
        rows = heapq.merge(*map(read_rows, paths), key=lambda found: found[1].example_id)
        for block in in_blocks(rows, info.published):
            for location, row in block:
                yield instance_of(row, location, info, target=listed_target(row, location))
