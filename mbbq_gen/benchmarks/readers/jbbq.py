"""Reads JBBQ: BBQ translated into Japanese, adapted and extended, five categories.

Data:     https://github.com/ynklab/JBBQ_data: sent by its authors on request, one `<Category>.jsonl` each; 50,856 rows

What the fields mean here (BBQ's record, with `is_additional`: 1 for what is not in BBQ)
* target: the one person whose group or noun phrase is among `stereotyped_groups`, both in BBQ's one form.
* This reader follows the README; its authors' files were not at hand. So it requires no order of the rows, and takes
  no label for wrong. Look at `mbbq-gen data validate jbbq` before you rely on it.
"""

from __future__ import annotations

from collections.abc import Iterator

from mbbq_gen.benchmarks.bbq_record import instance_of, read_rows
from mbbq_gen.benchmarks.readers.bbq import one_form
from mbbq_gen.benchmarks.registry import Parts
from mbbq_gen.benchmarks.rows import LazyInstance, with_ids


def read_jbbq(parts: Parts) -> Iterator[LazyInstance]:
    """The instances in file order."""
    for source, (path,) in parts:
        for place, row in with_ids(read_rows(path), "example_id"):
            unknown = row.unknown_index(place)
            wanted = {one_form(group) for group in row.additional_metadata.stereotyped_groups}
            forms = [{one_form(group), one_form(term)} for group, term in zip(row.groups, row.terms, strict=True)]
            found = [index for index in range(3) if index != unknown and forms[index] & wanted]
            yield instance_of(row, place, source, target=found[0] if len(found) == 1 else None)
