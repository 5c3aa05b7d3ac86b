"""The `starter` benchmark: 24 templates of our own, in parallel in many languages, for trying the tool.

Four templates in each of six categories of MBBQ, three pairs of people a template, twelve questions a pair: 864
instances a language and split. Mild stories of everyday life, each about a stereotype that a publication attests.
Nobody has validated them with people: a score on them says that the instrument works, not what a model thinks.

The texts lie in `starter_data/`, one file a language (`mbbq_gen.templates` draws their form); the control split's first
names come from `control_sets/`. Licence: Apache-2.0. Citation: the mbbq-gen authors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from importlib.resources import files
from pathlib import Path

from mbbq_gen.languages import read_control_set
from mbbq_gen.languages.packs import read_toml
from mbbq_gen.records import Instance, Split
from mbbq_gen.resources import Resources
from mbbq_gen.templates import INDEX_FILE, TemplateSet, instantiate, load_templates
from mbbq_gen.templates.schema import TemplateIndex


def starter_folder() -> Path:
    """The folder of the templates, inside the installed package."""
    return Path(str(files("mbbq_gen").joinpath("datasets", "starter_data")))


@cache
def _index() -> TemplateIndex:
    """What all languages share, read once."""
    return TemplateIndex.model_validate(read_toml(starter_folder() / INDEX_FILE))


@cache
def starter_templates(language: str | None = None) -> TemplateSet:
    """The templates, read and checked once: in all languages, or in one where there is such a file."""
    is_there = language is not None and (starter_folder() / f"{language}.toml").is_file()
    return load_templates(starter_folder(), [language] if is_there and language else None, _index())


def load_starter(language: str, splits: Iterable[Split], resources: Resources) -> Iterator[Instance]:
    """The instances of the starter benchmark in a language, split by split.

    Raises:
        UnknownNameError: where it is not written in that language, or the control split's names are missing.
        PackError: where the user's own control set is wrong.
    """
    wanted = tuple(splits)
    control_set = read_control_set(resources, language) if "control" in wanted else None
    return instantiate(starter_templates(language), language, wanted, control_set)
