"""Reads BharatBBQ: BBQ adapted and extended for India, thirteen categories, eight languages.

Paper:    Tomar, Sahoo, Bhattacharyya (2025): BharatBBQ: A Multilingual Bias Benchmark for Question Answering in the
          Indian Context. TACL. https://arxiv.org/abs/2508.07090
Data:     https://github.com/sahoonihar/BharatBBQ, `BharatBBQ_Dataset/Examples/<Category>_examples.csv`: English, 54,048
          rows. The other languages come in files of the same names: put them in a folder named as the language, in
          English or by its code (`Hindi`, `hi`), beside `Examples` or in the folder that you give.
Licence:  none stated

What the fields mean here
* Rows come in pairs, an ambiguous and a disambiguated one with the same question and options. `AnnotatedAnswer` and
  `Target` count the options from 1.
* unknown: the label of the pair's ambiguous row. (Its wording varies, and is translated, so no list of words tells.)
* target: `Target`, whatever the polarity.
* alignment: derived from label, polarity and target. `Pairing` says the same (biased; anti: counter-biased; in the
  paper NP and NNP), but for two rows of Region; where it does not, the row has the issue `alignment_mismatch`.
* Two options with the same text (16 English rows, in GenderxReligion and Region) make a row unscorable.
* template: category and `Qid`. `Proper_Noun` tells whether people are called by name: `metadata["proper_names"]`.
* parallel_id: None. The paper says that the languages are translations of the English rows, but only those were had
  when this reader was written, so which row is which could not be checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from mbbq_gen.benchmarks.bbq_record import ParsedRow, SplitInfo, build_instance
from mbbq_gen.benchmarks.rows import RowLocation, find_files, read_table
from mbbq_gen.core.records import Condition, Instance, NonBlank, Polarity, Split

BENCHMARK: Final = "bharatbbq"
VERSION: Final = "d4d193b"
"""Commit of sahoonihar/BharatBBQ that this reader was written for."""

CATEGORIES: Final[dict[str, str]] = {
    "Age": "age",
    "AgexGender": "age_x_gender",
    "Caste": "caste",
    "Disability_status": "disability_status",
    "Gender_identity": "gender_identity",
    "GenderxReligion": "gender_x_religion",
    "Nationality": "nationality",
    "Physical_appearance": "physical_appearance",
    "Region": "region",
    "RegionxGender": "region_x_gender",
    "Religion": "religion",
    "SES": "ses",
    "Sexual_orientation": "sexual_orientation",
}
"""Published name → slug."""

LANGUAGES: Final[dict[str, str]] = {
    "en": "English",
    "hi": "Hindi",
    "mr": "Marathi",
    "bn": "Bengali",
    "ta": "Tamil",
    "te": "Telugu",
    "or": "Odia",
    "as": "Assamese",
}
"""Code → the name that a folder of it may have."""

CONDITIONS: Final[dict[str, Condition]] = {"amb": "ambiguous", "disamb": "disambiguated"}
POLARITIES: Final[dict[str, Polarity]] = {"neg": "negative", "non-neg": "non_negative"}


class BharatbbqRow(BaseModel):
    """One published row."""

    model_config = ConfigDict(frozen=True)

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


Pair = list[tuple[RowLocation, BharatbbqRow]]
"""An ambiguous and a disambiguated row."""


def load_bharatbbq(folder: Path, language: str, split: Split) -> Iterator[Instance]:
    """The instances of a language, category by category in file order.

    `folder`: a checkout of sahoonihar/BharatBBQ, or its folder `BharatBBQ_Dataset` or `Examples`.
    """
    names = [f"{category}_examples.csv" for category in CATEGORIES]
    inside = [f"{top}{name}" for top in ("BharatBBQ_Dataset/", "") for name in (LANGUAGES[language], language)]
    if language == "en":
        inside += ["BharatBBQ_Dataset/Examples", "Examples", ""]
    paths = find_files(folder, names, BENCHMARK, inside=inside)
    return _read(dict(zip(CATEGORIES, paths, strict=True)), language, split)


def _read(paths: dict[str, Path], language: str, split: Split) -> Iterator[Instance]:
    """The instances of the files, one category after the other."""
    for category, path in paths.items():
        source = SplitInfo(BENCHMARK, VERSION, language, split, CATEGORIES[category])
        for pair in _pairs(path):
            unknown = pair[0][1].Label
            for place, row in pair:
                if row.Target == unknown:
                    raise place.error(f"{row.Target} is the unknown option", "Target")
                aligned = (row.Label == row.Target) == (row.Question_polarity == "neg")
                wrong = row.Context_type == "disamb" and aligned != (row.Pairing == "biased")
                found = ParsedRow(
                    texts=row.texts,
                    groups=(None, None, None),
                    unknown=unknown - 1,
                    target=row.Target - 1,
                    label=row.Label - 1,
                    condition=CONDITIONS[row.Context_type],
                    polarity=POLARITIES[row.Question_polarity],
                    context=row.Context,
                    question=row.Question,
                    data_issues=("alignment_mismatch",) if wrong else (),
                    metadata={
                        "source_row": place.source_row(row.Category, row.id),
                        "pairing": row.Pairing,
                        "proper_names": row.Proper_Noun == "1",
                    },
                )
                template_id = f"{source.category}/{row.Qid}"
                yield build_instance(
                    found, source, place, instance_id=f"{source.category}/{row.id}", template_id=template_id
                )


def _pairs(path: Path) -> Iterator[Pair]:
    """The rows of a file two by two."""
    pair: Pair = []
    last_id = 0
    for place, row in read_table(path, BharatbbqRow):
        condition = "disamb" if pair else "amb"
        if row.Context_type != condition:
            raise place.error(f"{row.Context_type!r} where {condition!r} comes next; a row is missing", "Context_type")
        if pair and (row.Qid, row.Question, row.texts) != (pair[0][1].Qid, pair[0][1].Question, pair[0][1].texts):
            raise place.error("other question or options than in the row before; a row is missing", "Question")
        if row.id <= last_id:
            raise place.error(f"{row.id} comes after {last_id}; published ids rise", "id")
        last_id = row.id
        pair.append((place, row))
        if len(pair) == 2:
            yield pair
            pair = []
    if pair:
        raise pair[0][0].error("the file ends after the ambiguous row of a pair; get the file again")
