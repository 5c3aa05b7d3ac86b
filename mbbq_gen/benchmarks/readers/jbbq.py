"""Reads JBBQ: BBQ translated into Japanese, adapted and extended, five categories.

Data:     https://github.com/ynklab/JBBQ_data: sent by its authors on request, one `<Category>.jsonl` each; 50,856 rows

Fields (BBQ's record, with `is_additional`: 1 for rows that are not in BBQ)
* target: the one person whose group or noun phrase is among `stereotyped_groups`, both normalised as in BBQ.
* This reader follows the README; the authors' files were not available. So it requires no order of the rows, and treats
  no label as wrong. Check the output of `mbbq-gen data validate jbbq` before you rely on it.
"""

from __future__ import annotations

from collections.abc import Iterator

from mbbq_gen.benchmarks.bbq_record import instance_of, read_rows
from mbbq_gen.benchmarks.readers.bbq import normalise_group
from mbbq_gen.benchmarks.registry import Parts
from mbbq_gen.benchmarks.rows import LazyInstance, with_ids


def read_jbbq(parts: Parts) -> Iterator[LazyInstance]:
    """Yields the instances in file order."""
    for info, (path,) in parts:
        for location, row in with_ids(read_rows(path), "example_id"):
            unknown = row.unknown_index(location)
            wanted = {normalise_group(group) for group in row.additional_metadata.stereotyped_groups}
            forms = [
                {normalise_group(group), normalise_group(term)}
                for group, term in zip(row.groups, row.terms, strict=True)
            ]
            found = [index for index in range(3) if index != unknown and forms[index] & wanted]
            yield instance_of(row, location, info, target=found[0] if len(found) == 1 else None)
