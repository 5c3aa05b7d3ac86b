"""A local model that is decoded by the library's `generate` alone."""

from __future__ import annotations

from mbbq_gen.providers.local.model import LocalModel
from mbbq_gen.providers.local.provider import TransformersProvider


class StaticProvider(TransformersProvider):
    def load(self) -> LocalModel:
        model = super().load()
        model.continuous = None
        return model
