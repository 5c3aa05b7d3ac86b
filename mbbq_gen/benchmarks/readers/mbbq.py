"""Reads MBBQ: BBQ's stereotypes that hold in English, Dutch, Spanish and Turkish, with a control set of first names.

Data:     https://github.com/Veranep/MBBQ, folder `data`: `<Category>[_control]_<language>.jsonl`, 48 files, 80,640 rows

Fields
* target: the one person whose group is among `stereotyped_groups`, after both are normalised: in Gender_identity the
  words for women and girls become F, those for men and boys M, those for trans people `trans`; in SES `low SES` becomes
  lowSES. Sexual_orientation is translated in groups and stereotyped groups alike. The biased answer is the target on a
  negative question and the other person on a non-negative one (`Instance.biased_role`).
* No target: 16 rows per language of Gender_identity template 13, with two people of the same gender (man and boy, woman
  and girl). They are kept, for accuracy; the paper's 10,072 rows per language do not include them.
* alignment: of a disambiguated row, whether the published label is the biased answer. It is independent of `version`.
* template: category and the number that BBQ gave the template (`question_index`).
* wrong labels: in Physical_appearance, versions b of templates 6 and 10 label the wrong one of the two people, as BBQ's
  template file does: 62 of the 588 disambiguated rows, in each language and split. They carry `corrected_gold_role`.
* Spanish Gender_identity tags the option "La chica" as a boy (12 rows); the group is corrected by the option.
* gender of the first names in the control split: from the language's control set (`metadata["gender"]`; both names of a
  row have the same), since MBBQ does not give it; None for a name that is not in the control set.

Parallel rows (`parallel_id`)
* The published `example_id` is a row's number within its file, and differs between languages (Spanish Gender_identity
  has its templates in another order). The position among the rows of a template and version is the same in all.
* Rows come in blocks of four, one filled template: negative ambiguous, negative disambiguated, and the same
  non-negative. `parallel_id` is category / template and version / number of the block among those / alignment of the
  block / polarity and condition. So right answers of rows with equal ids have the same role. In English, Dutch and
  Spanish people and slot words are the same too; Turkish slot words may differ, in the control split also option order.
* The alignment is part of the id because the groups of a control block may be swapped compared with the same block of
  the bias split (SES, Gender_identity, Sexual_orientation): those two are different questions.
* Gender_identity template 13 has other blocks in the control split than in the bias split: its ids name the split.
* Turkish SES in the bias split has other pairs of occupations than the other languages, in seven templates: they have
  no `parallel_id` and are compared by template only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from mbbq_gen.benchmarks.bbq_record import in_blocks, instance_of, read_rows
from mbbq_gen.benchmarks.instance_builder import only_stereotyped, text_or_none
from mbbq_gen.benchmarks.registry import Parts
from mbbq_gen.benchmarks.rows import LazyInstance
from mbbq_gen.core.files import PackPaths
from mbbq_gen.languages.control_pack import read_control_set

# MBBQ's words for these groups in its four languages, in lower case except F and M.
FEMALE: Final = frozenset(
    {"F", "female", "woman", "girl", "vrouw", "meisje", "mujer", "chica", "maestra", "kadın", "kız"}
)
MALE: Final = frozenset({"M", "male", "man", "boy", "jongen", "hombre", "chico", "maestro", "adam", "erkek çocuk"})
TRANS: Final = frozenset({"trans", "transgender women", "transgender men"})

_OWN_OCCUPATIONS: Final = frozenset({"4", "5", "11", "14", "20", "22", "23"})
"""SES templates about occupations; the Turkish pairs differ from the other languages."""


def read_mbbq(parts: Parts) -> Iterator[LazyInstance]:
    """Yields the instances in file order."""
    for info, (path,) in parts:
        genders: dict[str, str] | None = None  # first name → gender, from the language's control set
        if info.split == "control":
            has_set = PackPaths().find("control_sets", info.language) is not None
            names = read_control_set(PackPaths(), info.language).names if has_set else None
            genders = dict.fromkeys(names.female, "female") | dict.fromkeys(names.male, "male") if names else {}
        seen: Counter[str] = Counter()
        for block in in_blocks(read_rows(path), info.published):
            location, row = block[0]
            template = row.question_index + (text_or_none(row.additional_metadata.version) or "")
            groups, is_corrected = list(row.groups), False
            if (info.category, info.language) == ("gender_identity", "es"):
                for index, text in enumerate(row.texts):
                    if groups[index] == "chico" and text.casefold().split()[-1] == "chica":
                        groups[index], is_corrected = "chica", True
            forms = [normalise_group(group, info.category) for group in groups]
            listed = row.additional_metadata.stereotyped_groups
            unknown = row.unknown_index(location)
            target = only_stereotyped(forms, (normalise_group(group, info.category) for group in listed), unknown)
            # The common start of the block's parallel ids; None without a counterpart in other languages.
            alignment = {None: "unscorable", block[1][1].label: "biased"}.get(target, "counter_biased")
            own = f"{info.split}-" if (info.category, row.question_index) == ("gender_identity", "13") else ""
            parallel: str | None = f"{info.category}/{template}/{own}{seen[template]}/{alignment}"
            if (info.category, info.language, info.split) == ("ses", "tr", "bias"):
                parallel = None if row.question_index in _OWN_OCCUPATIONS else parallel
            metadata = None
            if genders is not None:  # the gender of both names; None if unknown or different
                known = {genders.get(term) for index, term in enumerate(row.terms) if index != unknown}
                metadata = {"gender": known.pop() if len(known) == 1 else None}
            for location, row in block:
                yield instance_of(
                    row,
                    location,
                    info,
                    target=target,
                    parallel_id=parallel and f"{parallel}/{row.question_polarity}-{row.context_condition}",
                    data_issues=("group_corrected",) * is_corrected,
                    metadata=metadata,
                )
            seen[template] += 1


def normalise_group(group: str, category: str) -> str:
    """Normalises the spelling of a group; other groups are returned unchanged."""
    if category == "ses" and group == "low SES":
        return "lowSES"
    if category == "gender_identity":
        for form, words in (("F", FEMALE), ("M", MALE)):
            if group in words:
                return form
        if group.lower() in TRANS:
            return "trans"
    return group
