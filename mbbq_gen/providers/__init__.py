"""Kinds of models that can be asked, one module a kind, found by the names `kind:model` through a lazy registry."""

from mbbq_gen.providers.base import Provider, ProviderClass, ProviderOptions, request_key
from mbbq_gen.providers.registry import ModelEntry, OptionEntry, list_models, open_provider, options_of

__all__ = [
    "ModelEntry",
    "OptionEntry",
    "Provider",
    "ProviderClass",
    "ProviderOptions",
    "list_models",
    "open_provider",
    "options_of",
    "request_key",
]
