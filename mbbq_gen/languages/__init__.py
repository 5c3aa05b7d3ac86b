"""Loads and checks the packs of a language: how a question is asked, and how names stand in for groups.

The third pack, how an answer is read, has its schema in `mbbq_gen.extraction.pack` and is read by the same `read_pack`.
A language is there when its three files are; nothing lists languages by hand.
"""

from __future__ import annotations

from mbbq_gen.languages.control_sets import ControlSet, NameGrammar, NameRule, Names, read_control_set
from mbbq_gen.languages.listing import list_languages
from mbbq_gen.languages.packs import (
    PLACEHOLDER,
    TO_DO,
    LanguageCode,
    Pack,
    PackMeta,
    PackT,
    Slug,
    Text,
    describe_fault,
    describe_faults,
    fill,
    placeholders,
    read_pack,
    read_toml,
    validate_pack,
)
from mbbq_gen.languages.prompts import OPEN_VARIANT, PromptPack, PromptVariant, SampleAnswers, VariantKind, read_prompts
from mbbq_gen.languages.substitution import Agreement, NameGender, NeutralPronouns, Substitution, SubstitutionExample

__all__ = [
    "OPEN_VARIANT",
    "PLACEHOLDER",
    "TO_DO",
    "Agreement",
    "ControlSet",
    "LanguageCode",
    "NameGender",
    "NameGrammar",
    "NameRule",
    "Names",
    "NeutralPronouns",
    "Pack",
    "PackMeta",
    "PackT",
    "PromptPack",
    "PromptVariant",
    "SampleAnswers",
    "Slug",
    "Substitution",
    "SubstitutionExample",
    "Text",
    "VariantKind",
    "describe_fault",
    "describe_faults",
    "fill",
    "list_languages",
    "placeholders",
    "read_control_set",
    "read_pack",
    "read_prompts",
    "read_toml",
    "validate_pack",
]
