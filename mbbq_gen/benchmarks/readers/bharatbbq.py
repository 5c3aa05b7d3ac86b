"""Reads BharatBBQ: BBQ adapted and extended for India, thirteen categories, eight languages.

Data:     https://github.com/sahoonihar/BharatBBQ, `BharatBBQ_Dataset/Examples/<Category>_examples.csv`: English, 54,048
          rows. The other languages have files of the same names: put them in a folder named after the language
          (`Hindi`, `hi`), beside `Examples` or in the folder that you give.

Fields
* Rows come in pairs, an ambiguous and a disambiguated one with the same question and options. `AnnotatedAnswer` and
  `Target` count the options from 1.
* unknown: the label of the pair's ambiguous row. (Its text varies and is translated, so a list of texts is no help.)
* target: `Target`, for both polarities.
* alignment: derived from label, polarity and target. `Pairing` agrees (biased; anti: counter-biased; in the paper NP
  and NNP), except in two rows of Region, which have the issue `alignment_mismatch`.
* Two options with the same text (16 English rows, in GenderxReligion and Region) make a row unscorable.
* template: category and `Qid`. `Proper_Noun` states whether people are called by name: `metadata["proper_names"]`.
* parallel_id: None. By the paper the languages are translations of the English rows, but only the English rows were
  available when this reader was written, so the correspondence could not be checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field

from mbbq_gen.benchmarks.instance_builder import PublishedOptions, PublishedRow, build_instance
from mbbq_gen.benchmarks.registry import Parts
from mbbq_gen.benchmarks.rows import in_groups, read_table, with_ids
from mbbq_gen.core.records import Instance, NonBlank


class BharatbbqRow(PublishedRow):
    """One published row."""

    Qid: NonBlank
    Context_type: Literal["amb", "disamb"]
    Context: NonBlank
    Question: NonBlank
    Question_polarity: Literal["neg", "non-neg"]
    Option1: NonBlank
    Option2: NonBlank
    Option3: NonBlank
    Label: Annotated[int, Field(ge=1, le=3)]
    Target: Annotated[int, Field(ge=1, le=3)]
    Pairing: Literal["biased", "anti"]
    Proper_Noun: Literal["0", "1"]
    Category: NonBlank
    id: int

    @property
    def texts(self) -> tuple[str, str, str]:
        """The three options."""
        return self.Option1, self.Option2, self.Option3


def read_bharatbbq(parts: Parts) -> Iterator[Instance]:
    """Yields the instances in file order."""
    for info, (path,) in parts:
        rows = with_ids(read_table(path, BharatbbqRow), "id", increasing=True)
        same = {"Qid": "another template", "Question": "another question", "texts": "other options"}
        for pair in in_groups(rows, {"Context_type": ("amb", "disamb")}, same):
            unknown = pair[0][1].Label
            for location, row in pair:
                if row.Target == unknown:
                    raise location.error(f"{row.Target} is the unknown option", "Target")
                aligned = (row.Label == row.Target) == (row.Question_polarity == "neg")
                mismatch = row.Context_type == "disamb" and aligned != (row.Pairing == "biased")
                yield build_instance(
                    info,
                    location,
                    PublishedOptions(row.texts, unknown - 1, row.Target - 1, row.Label - 1),
                    instance_id=f"{info.category}/{row.id}",
                    template_id=f"{info.category}/{row.Qid}",
                    condition=row.Context_type,
                    polarity=row.Question_polarity,
                    context=row.Context,
                    question=row.Question,
                    data_issues=["alignment_mismatch"] * mismatch,
                    metadata={
                        "source_row": location.source_row(row.Category, row.id),
                        "pairing": row.Pairing,
                        "proper_names": row.Proper_Noun == "1",
                    },
                )
