"""Reads BBQ: the English original, eleven categories.

Data:     https://github.com/nyu-mll/BBQ: `data/<Category>.jsonl`, `templates/*.csv`, `analysis_scripts/
          additional_metadata.csv`; 58,492 rows

Fields
* target: from the authors' `additional_metadata.csv`, if the copy has it. Its `target_loc` is the index of the biased
  answer: the target on a negative question and the other person on a non-negative one. Only negative questions are
  looked up, since an early edition of that table, with the target on both, has the same value there.
* Without that file: the one person whose group is among the stereotyped groups, as listed for the template in the
  template file (`Known_stereotyped_groups`) or, without template files, in the row (`stereotyped_groups`). Both are
  normalised first: man and boy are m, woman and girl f; every group that begins with `trans` is `trans`; `low SES` is
  lowses; a leading `M-` or `F-` (proper names) is removed. In Nationality the group is a region, so the noun phrase
  is compared too.
* Intersectional categories need both: in Race_x_gender race and gender, in Race_x_SES race and status, as the template
  file lists them (`Known_stereotyped_race`, `Known_stereotyped_var2`); the rows do not have this.
* No target: 16 rows of Gender_identity template 13, two people of the same gender.
* alignment: of a disambiguated row, whether the published label is the biased answer.
* template: category and `question_index`. Above 25 (in the intersectional categories: by the template file) people have
  proper names: `metadata["proper_names"]`.
* wrong labels: Physical_appearance, versions b of templates 6 and 10, name the wrong one of the two people (68 rows).
* crossed groups: in every second block of Gender_identity 35 and 36 the context calls the other person trans; the role
  follows the tag, as in the authors' own table, and the row has `groups_swapped` (200 rows).
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pydantic import BaseModel

from mbbq_gen.benchmarks.bbq_record import BbqRow, Block, in_blocks, instance_of, listed_target, read_rows, row_of
from mbbq_gen.benchmarks.registry import Parts
from mbbq_gen.benchmarks.rows import LazyInstance, RowLocation, note_file, read_table
from mbbq_gen.core.errors import DataError
from mbbq_gen.core.tables import UnreadableError, json_object, json_value

_INTERSECTIONAL: Final = ("race_x_gender", "race_x_ses")
_METADATA_FOLDERS: Final = ("analysis_scripts", "", "supplemental", "data")
"""Folders of a copy that may hold additional_metadata.csv."""
_GENDERS: Final = {"man": "m", "boy": "m", "men": "m", "woman": "f", "girl": "f", "women": "f", "girls": "f"}
_GENDER_WORD: Final = re.compile(r"\b(?:(man|men|guy|boy|father)|(woman|women|lady|girl|mother))\b", re.IGNORECASE)


class _MetadataRow(BaseModel):
    """The columns of additional_metadata.csv that are used."""

    category: str
    example_id: int
    target_loc: str


class _TemplateRow(BaseModel):
    """The columns of a template file that are used; the intersectional ones have other columns than the rest."""

    Q_id: str
    Known_stereotyped_groups: str = "[]"
    Known_stereotyped_race: str = "[]"
    Known_stereotyped_var2: str = ""
    Proper_nouns_only: str = ""


@dataclass
class _Template:
    """The facts about one template in a template file."""

    stereotyped: set[str] = field(default_factory=set)
    """Stereotyped groups, normalised; the races of an intersectional template."""
    second: str = ""
    """The gender (M, F) or status (lowSES, highSES) that is stereotyped together with the race."""
    proper_names: bool = False


def read_bbq(parts: Parts) -> Iterator[LazyInstance]:
    """Yields the instances in file order."""
    root = parts[0][1][0].parent.parent
    published = _published_targets(root)
    for info, (path,) in parts:
        templates = _read_templates(root / "templates" / f"new_templates - {path.stem}.csv")
        for block in in_blocks(read_rows(path), info.published):
            first = block[0][1]
            template = templates.get(first.question_index, _Template())
            target, stereotyped = _target(block, info.category, template, published)
            has_names = first.question_index.isdigit() and int(first.question_index) > 25
            extra = {"proper_names": template.proper_names if info.category in _INTERSECTIONAL else has_names}
            for location, row in block:
                yield instance_of(row, location, info, target=target, stereotyped=stereotyped, metadata=extra)


def _target(
    block: Block, category: str, template: _Template, published: dict[tuple[str, int], int | None] | None
) -> tuple[int | None, list[str]]:
    """Index of the target option of a block, or None, and the groups among which it was searched.

    `published`: the authors' table, with the biased answer of the block's negative question.
    """
    location, row = block[0]
    unknown = row.unknown_index(location)
    people = [index for index in range(3) if index != unknown]
    if published is not None:
        if (row.category, row.example_id) not in published:
            raise location.error("not in additional_metadata.csv; the copy mixes two releases", "example_id")
        target = published[row.category, row.example_id]
        if target == unknown:
            raise location.error(
                f"additional_metadata.csv names option {target}, the unknown one, as target", "example_id"
            )
        return target, []
    if category in _INTERSECTIONAL:
        found = [index for index in people if _fits_both(row, index, category, template)]
        wanted = [*sorted(template.stereotyped), template.second]
    else:
        listed = template.stereotyped or {*map(normalise_group, row.additional_metadata.stereotyped_groups)}
        # In Nationality the group is a region, so the noun phrase is compared too.
        terms = [term.strip(" {}").casefold() for term in row.terms]
        by_term = {index for index in people if category == "nationality" and terms[index] in listed}
        found = [index for index in people if index in by_term or normalise_group(row.groups[index]) in listed]
        wanted = sorted(listed)
    return found[0] if len(found) == 1 else None, wanted


def normalise_group(group: str) -> str:
    """Normalises the spelling of a group: lower case, m and f for gender, trans, lowses."""
    text = group.strip().casefold().removeprefix("m-").removeprefix("f-")
    if text.startswith("trans"):
        return "trans"
    return _GENDERS.get(text, text.replace(" ses", "ses"))


def _fits_both(row: BbqRow, index: int, category: str, template: _Template) -> bool:
    group, term = row.groups[index], row.terms[index].casefold()
    race = normalise_group(group.split("-")[-1]) or "latino"  # the authors' script, too, reads an empty race as Latino
    by_term = any(re.match(rf"{re.escape(race)}\b", term) for race in template.stereotyped)
    if race not in template.stereotyped and not by_term:
        return False
    if category == "race_x_ses":
        return group[:3].casefold() == template.second[:3].casefold()
    # M or F, by a gendered word, else by the prefix of the group.
    word = next(filter(None, map(_GENDER_WORD.search, (row.terms[index], row.texts[index]))), None)
    by_group = group[:1] if group[:2] in ("M-", "F-") else ""
    gender = by_group if word is None else "M" if word[1] else "F"
    return gender == template.second[:1].upper()


def _published_targets(root: Path) -> dict[tuple[str, int], int | None] | None:
    """(category, example id) → `target_loc`, from the authors' table; None if the copy does not have it."""
    paths = (root / folder / "additional_metadata.csv" for folder in _METADATA_FOLDERS)
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        return None
    found: dict[tuple[str, int], int | None] = {}
    for location, row in read_table(path, _MetadataRow):
        key = (row.category, row.example_id)
        target = int(row.target_loc) if row.target_loc in ("0", "1", "2") else None
        if found.setdefault(key, target) != target:
            raise location.error(f"{row.target_loc} contradicts an earlier row of {key[0]} {key[1]}", "target_loc")
    return found


def _read_templates(path: Path) -> dict[str, _Template]:
    """Number of the template → its facts; empty without the template file."""
    templates: dict[str, _Template] = defaultdict(_Template)
    if not path.is_file():
        return templates
    for location, row in read_table(path, _TemplateRow):
        template = templates[row.Q_id.strip()]
        for text in (row.Known_stereotyped_groups, row.Known_stereotyped_race):
            try:
                groups = json_value(text.strip() or "[]")
            except UnreadableError as error:
                raise location.error(f"not a list of groups: {text!r}", "Known_stereotyped_groups") from error
            template.stereotyped |= {normalise_group(str(group)) for group in groups}
        template.second = row.Known_stereotyped_var2.strip()
        template.proper_names |= row.Proper_nouns_only.strip().upper() == "TRUE"
    return templates


def read_bbq_lite(parts: Parts) -> Iterator[LazyInstance]:
    """Yields the instances in file order; examples are numbered from 1 as rows."""
    ((info, (path,)),) = parts
    try:
        examples = json_object(note_file(path).read_bytes()).get("examples")
    except UnreadableError as error:
        raise DataError(f"{path}: {error}") from error
    if not isinstance(examples, list):
        raise DataError(f"{path}: examples: a list of rows is needed")
    located = ((RowLocation(path, number), fields) for number, fields in enumerate(examples, start=1))
    for block in in_blocks(((location, row_of(fields, location)) for location, fields in located), info.published):
        for location, row in block:
            yield instance_of(row, location, info, target=listed_target(row, location))
