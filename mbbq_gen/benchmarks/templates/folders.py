"""The `starter` benchmark: 24 templates of our own, in parallel in many languages, for trying the tool.

Four templates in each of six categories of MBBQ, three pairs of people a template, twelve questions a pair: 864
instances a language and split. Mild stories of everyday life, each about a stereotype that a publication attests.
Nobody has validated them with people: a score on them says that the instrument works, not what a model thinks.

The texts are in `starter_data/`, one file per language (`mbbq_gen.benchmarks.templates` shows their format); the first
names of the control split come from `control_sets/`. Licence: Apache-2.0. Citation: the mbbq-gen authors.

`load_template_folder` reads any other folder of templates, of this form or of EsBBQ's.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from importlib.resources import files
from itertools import chain
from pathlib import Path
from typing import Final, Literal, get_args

from mbbq_gen.benchmarks.templates.esbbq import esbbq_languages, load_esbbq_templates
from mbbq_gen.benchmarks.templates.files import load_templates
from mbbq_gen.benchmarks.templates.fill import instantiate
from mbbq_gen.benchmarks.templates.schema import INDEX_FILE, TemplateIndex, TemplateSet
from mbbq_gen.core.errors import UnknownNameError, UsageError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import Instance, Split
from mbbq_gen.languages.control_pack import read_control_set
from mbbq_gen.languages.packs import read_toml


def starter_folder() -> Path:
    """The folder of the templates, inside the installed package."""
    return Path(str(files("mbbq_gen.benchmarks").joinpath("starter_data")))


@cache
def _index() -> TemplateIndex:
    """What all languages share, read once."""
    return TemplateIndex.model_validate(read_toml(starter_folder() / INDEX_FILE))


@cache
def starter_templates(language: str | None = None) -> TemplateSet:
    """The templates, read and checked once: in all languages, or in one where there is such a file."""
    is_there = language is not None and (starter_folder() / f"{language}.toml").is_file()
    return load_templates(starter_folder(), [language] if is_there and language else None, _index())


def load_starter(language: str, splits: Iterable[Split], resources: PackPaths) -> Iterator[Instance]:
    """The instances of the starter benchmark in a language, split by split.

    Raises:
        UnknownNameError: where it is not written in that language, or the control split's names are missing.
        PackError: where the user's own control set is wrong.
    """
    wanted = tuple(splits)
    control_set = read_control_set(resources, language) if "control" in wanted else None
    return instantiate(starter_templates(language), language, wanted, control_set)


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
    resources: PackPaths | None = None,
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
        return _starter(folder, languages, splits, resources or PackPaths())
    wanted = _chosen(languages, esbbq_languages(folder), folder)
    return chain.from_iterable([load_esbbq_templates(folder, language) for language in wanted])


def _starter(
    folder: Path, languages: Sequence[str] | None, splits: Sequence[Split], resources: PackPaths
) -> Iterator[Instance]:
    templates = load_templates(folder)
    parts = []
    for language in _chosen(languages, templates.languages, folder):
        control_set = read_control_set(resources, language) if "control" in splits else None
        parts.append(instantiate(templates, language, splits, control_set))
    return chain.from_iterable(parts)


def _chosen(languages: Sequence[str] | None, known: Sequence[str], folder: Path) -> list[str]:
    """The wanted languages, each once; all where none are named."""
    for language in languages or ():
        if language not in known:
            raise UnknownNameError("language", language, known, f"({folder})")
    return list(dict.fromkeys(languages or known))
