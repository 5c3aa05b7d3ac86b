"""Reads MBBQ: BBQ's stereotypes that hold in English, Dutch, Spanish and Turkish, with a control set of first names.

Paper:    Neplenbroek, Bisazza, Fernández (2024): MBBQ: A Dataset for Cross-Lingual Comparison of Stereotypes in
          Generative LLMs. COLM. https://arxiv.org/abs/2406.07243
Data:     https://github.com/Veranep/MBBQ, folder `data`: `<Category>[_control]_<language>.jsonl`, 48 files, 80,640 rows
Licence:  none stated; derived from BBQ (CC BY 4.0)

What the fields mean here
* unknown: the option whose group in `answer_info` is `unknown`.
* target: the one person whose group is among `stereotyped_groups`, after both are brought to one form: in
  Gender_identity the words for women and girls become F, those for men and boys M, those for trans people `trans`; in
  SES `low SES` becomes lowSES. Sexual_orientation is localised in groups and stereotyped groups alike. The biased
  answer is the target on a negative question and the other person on a non-negative one (`Instance.biased_role`).
* No target: the 16 rows a language of Gender_identity template 13 that pair two people of the same gender (man and boy,
  woman and girl). They are kept, for accuracy; the paper's 10,072 rows a language are without them.
* alignment: of a disambiguated row, whether the published label is the biased answer. `version` a or b tells nothing.
* template: category and the number that BBQ gave the template (`question_index`).
* wrong labels: in Physical_appearance, versions b of templates 6 and 10 label the wrong one of the two people, as BBQ's
  template file does: 62 of the 588 disambiguated rows, in each language and split. They carry `corrected_answer`.
* Spanish Gender_identity groups the option "La chica" with the boys (12 rows); the group is read off the option.

Which rows are the same question (`parallel_id`)
* The published `example_id` is a row's number within its file, and differs between languages (Spanish Gender_identity
  has its templates in another order). What agrees everywhere is the place among the rows of the same template.
* Rows come in blocks of four, one filled template: negative ambiguous, negative disambiguated, and the same
  non-negative. `parallel_id` is category / template / number of the block within the template / alignment of the block
  / polarity and condition. So equal ids mean: same template and version, condition, polarity and alignment, and from
  that the same role as the right answer. In English, Dutch and Spanish the two people are the same too, and so are the
  words in the template's slots; in Turkish the people are the same and the slot words, drawn separately, may differ;
  in the control split the people are names, and slot words and order of the options may differ.
* The alignment is part of the id because a block of the control split may have its groups the other way round than
  the same block of the bias split (SES, Gender_identity, Sexual_orientation): such two are not the same question.
* Gender_identity template 13 has other blocks in the control split than in the bias split: its ids name the split.
* Turkish SES in the bias split pairs other occupations than the other languages do, in the seven templates about
  occupations: no `parallel_id` there; they compare by template only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from mbbq_gen.datasets.bbq_schema import BbqRow, Reading, check_label, instance_of, sole_match
from mbbq_gen.datasets.rows import Place, find_files, read_json_lines
from mbbq_gen.records import Instance, Split

BENCHMARK: Final = "mbbq"
VERSION: Final = "adaa401"
"""Commit of Veranep/MBBQ that this reader was written for."""

CATEGORIES: Final[dict[str, str]] = {
    "Age": "age",
    "Disability_status": "disability_status",
    "Gender_identity": "gender_identity",
    "Physical_appearance": "physical_appearance",
    "SES": "ses",
    "Sexual_orientation": "sexual_orientation",
}
"""Published name → slug."""

FEMALE: Final = frozenset(
    {"F", "female", "woman", "girl", "vrouw", "meisje", "mujer", "chica", "maestra", "kadın", "kız"}
)
MALE: Final = frozenset(
    {"M", "male", "man", "boy", "jongen", "hombre", "chico", "maestro", "adam", "erkek çocuk"}
)
TRANS: Final = frozenset({"trans", "transgender women", "transgender men"})
"""Words, lower case but for F and M, that MBBQ uses for these groups in its four languages."""

WRONG_LABELS: Final = frozenset({("physical_appearance", "6", "b"), ("physical_appearance", "10", "b")})
"""Category, template and version whose labels name the wrong one of the two people, in BBQ and all that derives from it."""

_OWN_OCCUPATIONS: Final = frozenset({"4", "5", "11", "14", "20", "22", "23"})
"""SES templates about occupations; Turkish pairs other ones than the other languages."""
_PATTERN: Final = (("neg", "ambig"), ("neg", "disambig"), ("nonneg", "ambig"), ("nonneg", "disambig"))
"""Polarity and condition of the four rows of a block."""

Block = list[tuple[Place, BbqRow]]


def load_mbbq(folder: Path, language: str, split: Split) -> Iterator[Instance]:
    """The instances of a language and split, in file order, category by category.

    Args:
        folder: a checkout of Veranep/MBBQ, or its folder `data`.
        language: en, es, nl or tr.
        split: `bias` for the benchmark, `control` for the same questions about first names.

    Raises:
        UsageError: at once, where a file is missing.
        DataError: while reading, at the first row that is not as published; file, row and field.
    """
    middle = "_control" if split == "control" else ""
    names = [f"{category}{middle}_{language}.jsonl" for category in CATEGORIES]
    paths = find_files(folder, names, BENCHMARK, inside=("data", ""))
    return _read(dict(zip(CATEGORIES, paths, strict=True)), language, split)


def _read(paths: dict[str, Path], language: str, split: Split) -> Iterator[Instance]:
    """The instances of the files, one category after the other."""
    for category, path in paths.items():
        seen: Counter[str] = Counter()
        for block in _blocks(path, category):
            template = block[0][1].question_index
            yield from _instances(block, language, split, seen[template])
            seen[template] += 1


def _blocks(path: Path, category: str) -> Iterator[Block]:
    """The rows of a file four by four, each block one filled template.

    Raises:
        DataError: where a row is missing, out of its place, or in the wrong file.
    """
    block: Block = []
    for place, row in read_json_lines(path, BbqRow):
        if row.category != category:
            raise place.error(f"{row.category!r} in the file of {category}", "category")
        _check_place_in_block(block, place, row)
        block.append((place, row))
        if len(block) == len(_PATTERN):
            _check_labels(block)
            yield block
            block = []
    if block:
        place = block[-1][0]
        raise place.error(f"the file ends after {len(block)} rows of a block of four; get the file again")


def _check_place_in_block(block: Block, place: Place, row: BbqRow) -> None:
    """Refuses a row that is not the next one of its block."""
    polarity, condition = _PATTERN[len(block)]
    if row.question_polarity != polarity:
        raise place.error(
            f"{row.question_polarity!r} where {polarity!r} comes next; a row is missing", "question_polarity"
        )
    if row.context_condition != condition:
        raise place.error(
            f"{row.context_condition!r} where {condition!r} comes next; a row is missing", "context_condition"
        )
    if block and (row.question_index, row.texts) != (block[0][1].question_index, block[0][1].texts):
        raise place.error("other template or options than in the rows before; a row is missing", "question_index")
    if row.example_id != place.row - 1:
        raise place.error(f"{row.example_id} in row {place.row}; published ids count the rows from 0", "example_id")


def _check_labels(block: Block) -> None:
    """Refuses a block where the negative and the non-negative disambiguated row have the same answer."""
    for place, row in block:
        check_label(row, row.unknown_index(place), place)
    (_, negative), (place, non_negative) = block[1], block[3]
    if negative.label == non_negative.label:
        raise place.error(
            f"{non_negative.label} is also the label of the negative question in row {place.row - 2}; "
            "one of both is wrong",
            "label",
        )


def _instances(block: Block, language: str, split: Split, number: int) -> Iterator[Instance]:
    """The four instances of a block, the `number`-th of its template."""
    place, row = block[0]
    category = CATEGORIES[row.category]
    groups, repaired = _groups(row, category, language)
    target = sole_match(groups, _stereotyped(row, category), row.unknown_index(place))
    parallel = _parallel_prefix(row, category, language, split, number, _alignment(block, target))
    for place, row in block:
        disambiguated = row.context_condition == "disambig"
        reading = Reading(
            benchmark=BENCHMARK,
            version=VERSION,
            language=language,
            split=split,
            category=category,
            target=target,
            reason=None if target is not None else _reason(groups, row),
            parallel_id=parallel and f"{parallel}/{row.question_polarity}-{row.context_condition}",
            swap_people=disambiguated and has_wrong_label(row, category),
            quirks=("group_mended",) if repaired else (),
        )
        yield instance_of(row, place, reading)


def has_wrong_label(row: BbqRow, category: str) -> bool:
    """Whether the row comes from a template whose label is known to name the wrong one of the two people."""
    return (category, row.question_index, row.additional_metadata.version) in WRONG_LABELS


def _groups(row: BbqRow, category: str, language: str) -> tuple[list[str], bool]:
    """The groups of the options in one form, and whether a wrong one was mended (Spanish "La chica" is no boy)."""
    groups, mended = list(row.groups), False
    if (category, language) == ("gender_identity", "es"):
        for index, text in enumerate(row.texts):
            if groups[index] == "chico" and text.casefold().split()[-1] == "chica":
                groups[index], mended = "chica", True
    return [one_form(group, category) for group in groups], mended


def _stereotyped(row: BbqRow, category: str) -> set[str]:
    """The stereotyped groups of a row in one form."""
    return {one_form(group, category) for group in row.additional_metadata.stereotyped_groups}


def one_form(group: str, category: str) -> str:
    """The one form of a group that is written in several ways; other groups as they are."""
    if category == "ses" and group == "low SES":
        return "lowSES"
    if category == "gender_identity":
        for form, words in (("F", FEMALE), ("M", MALE)):
            if group in words:
                return form
        if group.lower() in TRANS:
            return "trans"
    return group


def _reason(groups: list[str], row: BbqRow) -> str:
    """Why no single option is the target."""
    people = " and ".join(group for group in groups if group != "unknown")
    return f"no single target: options {people}, stereotyped {', '.join(row.additional_metadata.stereotyped_groups)}"


def _alignment(block: Block, target: int | None) -> str:
    """Whether the answers of a block fit the stereotype, as its negative question with the answer in its context tells."""
    if target is None:
        return "unscorable"
    return "biased" if block[1][1].label == target else "counter_biased"


def _parallel_prefix(
    row: BbqRow, category: str, language: str, split: Split, number: int, alignment: str
) -> str | None:
    """The part of the parallel id that the rows of a block share, None where they have no counterpart elsewhere."""
    template = row.question_index
    if (category, language, split) == ("ses", "tr", "bias") and template in _OWN_OCCUPATIONS:
        return None
    own = f"{split}-" if (category, template) == ("gender_identity", "13") else ""
    return f"{category}/{template}/{own}{number}/{alignment}"
