"""Instances from a folder of templates, in either of two forms.

    starter   templates.toml and a TOML file a language      our own form, `mbbq_gen.templates`
    esbbq     workbooks, vocabulary.xlsx                     EsBBQ's form, `mbbq_gen.datasets.esbbq_templates`

A published checkout keeps them in its folder `templates`; naming the checkout will do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Final, Literal, get_args

from mbbq_gen.datasets.esbbq_templates import esbbq_languages, load_esbbq_templates
from mbbq_gen.errors import UnknownNameError, UsageError
from mbbq_gen.languages import read_control_set
from mbbq_gen.records import Instance, Split
from mbbq_gen.resources import Resources
from mbbq_gen.templates import INDEX_FILE, load_templates
from mbbq_gen.templates import instantiate as instantiate_starter

Form = Literal["starter", "esbbq"]
FORMS: Final[tuple[Form, ...]] = get_args(Form)
_SIGNS: Final[dict[Form, str]] = {"starter": INDEX_FILE, "esbbq": "*.xlsx"}
"""What a folder of each form holds."""


def find_form(folder: Path) -> tuple[Form, Path]:
    """The form of a folder's templates, and the folder that holds them: this one, else its folder `templates`.

    Raises:
        UsageError: where there is no such folder, or no templates, BBQ's or those of two forms are in it.
    """
    if not folder.is_dir():
        raise UsageError(f"no folder {folder}; name a folder of templates")
    for place in (folder, folder / "templates"):
        forms = [form for form in FORMS if _has(place, form)]
        if len(forms) > 1:
            raise UsageError(f"{place}: templates of the forms {' and '.join(forms)} are in it; choose one with --form")
        if forms:
            return forms[0], place
    if any(list(place.glob("*.csv")) for place in (folder, folder / "templates")):
        raise UsageError(f"{folder}: BBQ's templates (.csv) are not filled; run --benchmark bbq has their questions")
    signs = ", ".join(f"{sign} ({form})" for form, sign in _SIGNS.items())
    raise UsageError(f"{folder}: no templates in it or in {folder / 'templates'}; looked for {signs}")


def _has(folder: Path, form: Form) -> bool:
    return bool(list(folder.glob(_SIGNS[form])))


def load_template_folder(
    folder: Path,
    *,
    form: Form | None = None,
    languages: Sequence[str] | None = None,
    splits: Sequence[Split] = ("bias",),
    resources: Resources | None = None,
) -> Iterator[Instance]:
    """The instances of a folder of templates, one by one: language by language, and in each split by split.

    Args:
        folder: holds the templates, itself or in its folder `templates`.
        form: which form they have; None to find out.
        languages: which languages, in that order; None for all that the templates are written in.
        splits: which splits. Only the form `starter` has a control split.
        resources: where control sets are found; None for those that ship.

    Raises:
        UsageError: at once, for a folder without templates, or a split or language that they do not have.
        DataError, PackError: at the first thing that is wrong in them; file, row and column, or file and key.
    """
    if form is None:
        form, folder = find_form(folder)
    elif not _has(folder, form):
        folder = folder / "templates"
    if form != "starter" and "control" in splits:
        raise UsageError(f"templates of the form {form} have no control split; leave out --split control")
    if form == "starter":
        return _starter(folder, languages, splits, resources or Resources())
    wanted = _chosen(languages, esbbq_languages(folder), folder)
    return chain.from_iterable([load_esbbq_templates(folder, language) for language in wanted])


def _starter(
    folder: Path, languages: Sequence[str] | None, splits: Sequence[Split], resources: Resources
) -> Iterator[Instance]:
    templates = load_templates(folder)
    parts = []
    for language in _chosen(languages, templates.languages, folder):
        control_set = read_control_set(resources, language) if "control" in splits else None
        parts.append(instantiate_starter(templates, language, splits, control_set))
    return chain.from_iterable(parts)


def _chosen(languages: Sequence[str] | None, known: Sequence[str], folder: Path) -> list[str]:
    """The wanted languages, each once; all where none are named."""
    for language in languages or ():
        if language not in known:
            raise UnknownNameError("language", language, known, f"({folder})")
    return list(dict.fromkeys(languages or known))
