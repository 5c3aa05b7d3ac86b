"""What served the model of a run and which sampling applied, by its manifest, and how runs differ in that."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from pydantic import Field, JsonValue

from mbbq_gen.core.records import FrozenModel

if TYPE_CHECKING:
    from mbbq_gen.runs.run_folder import Manifest

_NAMED: Final = ("version", "quantization", "dtype")
"""Facts of a server that a comparison names."""
_FOR_DRAWS: Final = ("top_p", "top_k", "min_p")
"""Sampling that changes nothing at a temperature of 0."""
_MOST: Final = 4
"""Groups of runs that a sentence names."""


class Serving(FrozenModel):
    """The server and the sampling of a run; empty for services, and before the first answer."""

    server: dict[str, JsonValue] = Field(default_factory=dict)
    """name, and what it states of itself: version, model_file, quantization, dtype, context_length, parallel,
    sampling_defaults, chat_template_digest."""
    sampling_sent: dict[str, JsonValue] = Field(default_factory=dict)
    """Sampling parameters that were sent, by the server's names."""
    sampling: dict[str, JsonValue] = Field(default_factory=dict)
    """Sampling parameters that are known to apply, by the names of mbbq-gen; None: not known."""

    @property
    def label(self) -> str:
        """The server in a few words: `vllm 0.32.0, float32`."""
        name, version, *rest = (self.server.get(key) for key in ("name", *_NAMED))
        return ", ".join(str(part) for part in (f"{name} {version}" if version else name, *rest) if part)


def serving_of(manifest: Manifest) -> Serving:
    """What a manifest records of server and sampling."""
    info = manifest.runtime_info
    found = {name: value for name in Serving.model_fields if isinstance(value := info.get(name), dict)}
    return Serving.model_validate(found)


def serving_difference(manifests: Mapping[str, Manifest]) -> str | None:
    """One sentence on how runs differ in server or sampling; None where they do not, or nothing is recorded.

    Args:
        manifests: by the name of each run or model.
    """
    served = {name: serving_of(manifest) for name, manifest in manifests.items()}
    known = [one.sampling for one in served.values() if one.server]
    drawn = any(sampling.get("temperature") for sampling in known)
    options = {name: None for sampling in known for name in sampling if drawn or name not in _FOR_DRAWS}
    differing = [name for name in options if len({str(sampling.get(name)) for sampling in known}) > 1]
    groups = defaultdict[str, list[str]](list)
    for name, one in served.items():
        address = manifests[name].runtime_info.get("base_url")
        if known and one.server:
            values = {option: one.sampling.get(option) for option in differing}
            stated = [f"{option} {'not known' if value is None else value}" for option, value in values.items()]
            groups[", ".join([one.label, *stated])].append(name)
        elif known and isinstance(address, str):  # a service; an oracle has no address
            groups[urlsplit(address).hostname or address].append(name)
    if len(groups) < 2:
        return None
    parts = [f"{', '.join(names)}: {what}" for what, names in groups.items()]
    more = [f"and {len(parts) - _MOST} others"] if len(parts) > _MOST else []
    return f"The runs differ in server or sampling, which can change scores: {'; '.join([*parts[:_MOST], *more])}."
