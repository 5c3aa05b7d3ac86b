"""Where a local model comes from, and what identifies it: a commit of the hub, or the sha256 of its files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import JsonValue

from mbbq_gen.core.errors import ProviderError, UnknownNameError, UsageError
from mbbq_gen.core.files import file_digest, stable_digest

_HUB_ID = re.compile(r"[\w.-]+/[\w.-]+")
_MODEL_FILES = ("*.safetensors", "*.bin", "*.json", "*.jinja", "*.model", "*.txt", "*.py")
"""What of a folder shapes a model's answers: weights, configuration, tokenizer, template, its own code."""


@dataclass(frozen=True)
class ModelSource:
    """A model that transformers can load."""

    name: str
    """As reports show it."""
    location: str
    """A folder, or a hub id."""
    identity: dict[str, JsonValue]
    """What tells this model from every other one; part of the settings."""
    gguf_file: str | None = None
    """The file in the folder that holds everything, or None."""
    revision: str | None = None
    """The hub's commit, or None."""
    prepare: Callable[[], None] = lambda: None
    """Called before the model is loaded: makes the folder where it is not there yet."""

    def arguments(self) -> dict[str, Any]:
        """What `from_pretrained` takes beside the location."""
        named = {"gguf_file": self.gguf_file, "revision": self.revision}
        return {name: value for name, value in named.items() if value is not None}

    def chat_template(self) -> str | None:
        """The chat template out of the model's files, weights left alone; None where it has none.

        Raises:
            ProviderError: where a file can't be had or read.
        """
        own = self._text_of("chat_template.jinja")
        if own is not None:
            return own
        try:
            told = json.loads(self._text_of("tokenizer_config.json") or "{}").get("chat_template")
        except (ValueError, AttributeError, RecursionError) as error:
            raise ProviderError(f"{self.location}: tokenizer_config.json is no JSON object; is it damaged?") from error
        if isinstance(told, list):  # several, by name
            told = "\n".join(str(entry.get("template")) for entry in told if isinstance(entry, dict))
        return told if isinstance(told, str) else None

    def _text_of(self, name: str) -> str | None:
        """A small file of the model; None where it has none of that name."""
        path = Path(self.location) / name
        try:
            if not Path(self.location).is_dir():
                path = Path(_from_hub(self.location, name, self.revision))
            return path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError) as error:
            raise ProviderError(f"{path}: can't be read: {first_line(error)}") from error


def _from_hub(model: str, name: str, revision: str | None) -> str:
    """Where the hub's file is on this machine; raises FileNotFoundError where it has none of that name."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import EntryNotFoundError, LocalEntryNotFoundError

    try:
        return str(hf_hub_download(model, name, revision=revision))
    except (EntryNotFoundError, LocalEntryNotFoundError) as error:
        raise FileNotFoundError(name) from error


def check_named(model: str, aliases: list[str], kind: str = "transformers") -> None:
    """Whether a name can mean a local model at all: a cheap look, without network.

    Raises:
        UsageError: where it is a path and nothing usable is there.
        UnknownNameError: where it is neither a path, nor a hub id, nor an alias.
    """
    path = Path(model).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise UsageError(f"{path}: no config.json in this folder; name a folder that save_pretrained wrote")
    elif path.is_file():
        with path.open("rb") as stream:
            if stream.read(4) != b"GGUF":
                raise UsageError(f"{path}: not a GGUF file; name a folder, a GGUF file or a hub id")
    elif model.startswith(("/", "./", "../", "~")) or model.endswith(".gguf") or model.count("/") > 1:
        raise UsageError(f"{path}: no such file or folder; name a folder, a GGUF file or a hub id (OWNER/NAME)")
    elif not _HUB_ID.fullmatch(model):
        raise UnknownNameError(f"model of {kind}", model, aliases, "(or give OWNER/NAME, a folder or FILE.gguf)")


def find_source(model: str, revision: str | None) -> ModelSource:
    """The source that a name means, with its files' digest or the hub's commit.

    Raises:
        ProviderError: where the hub doesn't have it or can't be reached.
    """
    path = Path(model).expanduser()
    if path.is_dir():
        return ModelSource(path.resolve().name, str(path), {"files_sha256": folder_digest(path)})
    if path.is_file():
        return gguf_source(path.name, path)
    return _hub_source(model, revision)


def gguf_source(name: str, path: Path) -> ModelSource:
    """The source that one GGUF file is."""
    return ModelSource(name, str(path.parent), {"gguf_sha256": file_digest(path)}, gguf_file=path.name)


def folder_digest(folder: Path) -> str:
    """The sha256 over the names and digests of all files that shape the answers."""
    files = sorted({path for pattern in _MODEL_FILES for path in folder.glob(pattern)})
    return stable_digest(*(f"{path.name}={file_digest(path)}" for path in files))


def _hub_source(model: str, revision: str | None) -> ModelSource:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    try:
        path = hf_hub_download(model, "config.json", revision=revision)
    except LocalEntryNotFoundError as error:
        raise ProviderError(
            f"transformers:{model}: the hub can't be reached, and no copy is on this machine"
        ) from error
    except (HfHubHTTPError, OSError, ValueError) as error:
        at = f" at revision {revision!r}" if revision else ""
        raise ProviderError(f"transformers:{model}: the hub does not give it{at}: {first_line(error)}") from error
    commit = Path(path).parent.name
    return ModelSource(model, model, {"commit": commit}, revision=commit)


def first_line(error: BaseException) -> str:
    """The first line of an error's text, with the one after it where it ends in a colon: libraries write pages."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return " ".join(lines[:2]) if lines[0].endswith(":") else lines[0]
