"""Opens the provider for a name such as `oracle:perfect`; its module is imported only then.

Third parties add a kind by an entry point of the group `mbbq_gen.providers`: its name is the kind, its value
`package.module:Class`, and the class is a `mbbq_gen.providers.base.Provider`.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path

from pydantic import ValidationError

from mbbq_gen.core.errors import MissingExtraError, ProviderError, UnknownNameError, UsageError, describe_fault
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.records import FrozenModel
from mbbq_gen.providers.base import Provider, ProviderOptions, is_installed
from mbbq_gen.providers.http.credentials import HIDDEN, holds_key, redact_input
from mbbq_gen.providers.http.servers import known_servers, known_services
from mbbq_gen.providers.responders import ORACLES, PERSONALITIES, OracleRule, Persona

ENTRY_POINT_GROUP = "mbbq_gen.providers"
_SECRET_OPTIONS = frozenset({"api_key_env", "extra", "headers"})
"""Options that may hold a key by mistake: errors do not show their values."""
_NAMED_MODELS: Mapping[str, Mapping[str, OracleRule | Persona]] = {"oracle": ORACLES, "synthetic": PERSONALITIES}
IMPORTED = "imported"
"""The kind of runs with imported answers; no model can be called."""


class ProviderEntry(FrozenModel):
    """An entry of `registry.toml`: a kind of provider, or an alias for one model."""

    target: str
    """`module:Class` of a Provider."""
    model: str
    """The part after the colon: a placeholder in capitals, or a name."""
    summary: str
    requires: tuple[str, ...] = ()
    install: str | None = None

    @property
    def missing(self) -> list[str]:
        """The required modules that are not installed."""
        return [module for module in self.requires if not is_installed(module)]


_TABLE = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
KINDS: Mapping[str, ProviderEntry] = {name: ProviderEntry(**entry) for name, entry in _TABLE["kinds"].items()}
ALIASES: Mapping[str, ProviderEntry] = {name: ProviderEntry(**entry) for name, entry in _TABLE["aliases"].items()}


class ModelEntry(FrozenModel):
    """A line of `mbbq-gen models`."""

    name: str
    """The value of --model; a part in capitals is a placeholder."""
    summary: str
    installed: bool
    install: str | None
    """The command that installs its dependencies; None if it has none."""


def open_provider(
    name: str, options: Mapping[str, object] | None = None, resources: PackPaths | None = None
) -> Provider:
    """The provider for `kind:model`; raises UsageError for a wrong name or option, or a missing package."""
    kind, model = parse_name(name)
    provider_class, options = _load(name, kind), options or {}
    schema = provider_class.options_class
    for option in options:
        if option not in schema.model_fields:
            if not schema.model_fields:
                raise UsageError(f"{kind}: takes no options; leave out {option!r}")
            raise UnknownNameError(f"option of {kind}", option, schema.model_fields)
    try:
        checked = schema.model_validate(options)
    except ValidationError as error:
        fault = redact_input(describe_fault(error, options))
        for option in _SECRET_OPTIONS & options.keys():
            fault = fault.replace(repr(options[option]), repr(HIDDEN))
        raise UsageError(f"{kind}: option {fault}") from error
    _check_installed(name, kind)
    return provider_class.open(model, checked, resources or PackPaths())


def options_class(name: str) -> type[ProviderOptions]:
    """The options of `kind:model`; raises as `open_provider`."""
    return _load(name, parse_name(name)[0]).options_class


def check_name(name: str) -> None:
    """Raises UsageError for a name without a known kind; opens nothing and needs no installed package."""
    kind, model = parse_name(name)
    if kind not in KINDS and all(point.name != kind for point in _third_party_points()):
        raise _unknown_kind(kind, model)
    if model not in _NAMED_MODELS.get(kind, [model]):
        raise UnknownNameError(f"model of {kind}", model, _NAMED_MODELS[kind])


def parse_name(name: str) -> tuple[str, str]:
    """Kind and model of `kind:model`; raises UsageError if one is missing, or the name holds a key."""
    kind, colon, model = name.partition(":")
    if holds_key(name):
        raise UsageError(
            f"model {redact_input(name)!r}: holds a key; write the model's name, and give the key in the environment"
        )
    if colon and kind and model:
        return kind, model
    word = name.strip(":")
    example = f"{word}:{KINDS[word].model}" if word in KINDS else "oracle:perfect or transformers:smollm2"
    raise UsageError(f"model {name!r}: write it as kind:model, for example {example}")


def list_models() -> list[ModelEntry]:
    """All kinds, aliases and named models, third-party ones included; imports none of them."""
    named = {
        f"{kind}:{name}": KINDS[kind].model_copy(update={"summary": rule.summary})
        for kind, rules in _NAMED_MODELS.items()
        for name, rule in rules.items()
    }
    others = {f"{kind}:{entry.model}": entry for kind, entry in KINDS.items() if kind not in _NAMED_MODELS}
    third_party = {
        f"{point.name}:MODEL": ProviderEntry(target=point.value, model="MODEL", summary=f"from {_origin(point)}")
        for point in _third_party_points()
    }
    entries = sorted({**named, **others, **ALIASES, **third_party}.items())
    return [
        ModelEntry(name=name, summary=entry.summary, installed=not entry.missing, install=entry.install)
        for name, entry in entries
    ]


def _check_installed(name: str, kind: str) -> None:
    """Raises MissingExtraError, with the command that installs it, if a module is not installed."""
    entry = ALIASES.get(name) or KINDS.get(kind)
    if entry and entry.missing:
        raise MissingExtraError(f"{name} needs {', '.join(entry.missing)} (not installed); run: {entry.install}")


def _load(name: str, kind: str) -> type[Provider]:
    if found := ALIASES.get(name) or KINDS.get(kind):
        module, _, attribute = found.target.partition(":")
        try:
            return getattr(import_module(module), attribute)  # type: ignore[no-any-return]
        except ImportError:
            _check_installed(name, kind)
            raise
    if kind == IMPORTED:
        raise UsageError(f"{name}: the answers were imported, so no model can be called")
    for point in _third_party_points():
        if point.name != kind:
            continue
        try:
            return point.load()  # type: ignore[no-any-return]
        except Exception as error:  # a foreign module may raise anything while it is imported
            raise ProviderError(
                f"provider {point.name!r} of {_origin(point)} can't be imported ({point.value}): {error}"
            ) from error
    raise _unknown_kind(kind, name.partition(":")[2])


def _unknown_kind(kind: str, model: str) -> UsageError:
    """The error for an unknown kind; for a server or service of `openai:`, with the options to use."""
    plain = re.sub(r"[-._]", "", kind.lower()).replace("llamaserver", "llamacpp")
    ports = {re.sub(r"[-._]", "", entry.name): entry.port for entry in known_servers()}
    if plain in ports:
        instead = f"--base-url http://127.0.0.1:{ports[plain]}/v1"
    elif plain == "azure" or plain in known_services():
        instead = f"--model-arg service={plain}"
    else:
        return UnknownNameError("kind of provider", kind, [*KINDS, *(point.name for point in _third_party_points())])
    return UsageError(f"unknown kind of provider {kind!r}; use --model openai:{model} {instead}")


def _third_party_points() -> Iterator[EntryPoint]:
    """Third-party entry points; one that has the name of a built-in kind is ignored."""
    return (point for point in entry_points(group=ENTRY_POINT_GROUP) if point.name not in KINDS)


def _origin(point: EntryPoint) -> str:
    return f"{point.dist.name} {point.dist.version}" if point.dist else point.value
