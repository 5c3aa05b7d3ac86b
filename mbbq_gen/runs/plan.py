"""Plans a run: the draft of what will be asked is stored, with its manifest, before anything is asked."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import mbbq_gen
from mbbq_gen.axes import parse_cell
from mbbq_gen.errors import RunError, UsageError
from mbbq_gen.providers.base import Provider, ProviderOptions, check_methods, presentation_key, thinking_at
from mbbq_gen.reasoning import Thinking
from mbbq_gen.resources import PACK_KINDS, Resources, file_digest
from mbbq_gen.runs.draft import Draft, LoadBenchmark, Tally
from mbbq_gen.runs.folder import Counts, Manifest, RunFolder, RunSettings
from mbbq_gen.runs.store import NORMALISE, SCORED, RunStore
from mbbq_gen.substitution import Coverage


@dataclass(frozen=True)
class Planner:
    """Makes the plan of a run folder, once."""

    folder: RunFolder
    settings: RunSettings
    provider: Provider
    resources: Resources
    load: LoadBenchmark
    notices: tuple[str, ...] = ()
    control: Mapping[str, Coverage] = field(default_factory=dict)
    """Benchmark → the control questions that were made while `load` read it."""
    step: Callable[[], None] = lambda: None
    """Called for every question read and every presentation made."""

    def plan(self, store: RunStore) -> Manifest:
        """Stores what will be asked and writes the manifest; a plan that was cut short is made anew.

        Raises:
            UsageError: where the selection is empty.
            MbbqGenError: whatever the benchmark's reader finds wrong.
        """
        check_methods(self.provider, self.settings.methods)
        reasoning = thinking_at(self.provider, self.settings.reasoning)
        draft = Draft(self.settings, self.resources, self.load, self.step)
        store.clear_plan()
        tally = draft.read(store)
        presentations = store.add_presentations(
            (presentation, presentation_key(self.provider, presentation)) for presentation in draft.presentations(store)
        )
        manifest = self._manifest(store, tally, presentations, reasoning)
        self.folder.write_manifest(manifest)
        if self.settings.is_scored:
            store.set_meta(SCORED, "yes")
            store.set_meta(NORMALISE, self.settings.normalise)
        store.set_meta("planned", "yes")
        store.records.keep_in_files_if_large(manifest.counts.requests)
        return manifest

    def _manifest(self, store: RunStore, tally: Tally, presentations: int, reasoning: dict[str, Thinking]) -> Manifest:
        return Manifest(
            mbbq_gen=mbbq_gen.__version__,
            git_revision=git_revision(),
            python=platform.python_version(),
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            settings=self.settings,
            provider_settings=dict(self.provider.settings),
            provider_facts=self.provider.facts(),
            reasoning=reasoning,
            packs=_packs_read(self.resources, self.settings),
            data={group: digest.hexdigest() for group, digest in sorted(tally.digests.items())},
            files=tally.files,
            available=dict(sorted(tally.counts.items())),
            counts=Counts(
                instances=store.count_instances(),
                presentations=presentations,
                requests=store.progress().requests,
            ),
            control={name: found.counts() for name, found in self.control.items()},
            notices=self.notices,
        )


def _packs_read(resources: Resources, settings: RunSettings) -> dict[str, str]:
    """Pack file → sha256, for every pack that a run with these settings reads."""
    found = pack_digests(resources, settings.languages)
    asked_in = [settings.instruction_language] if settings.instruction_language else settings.languages
    kinds = ["", "axes/"] if any(parse_cell(variant) for variant in settings.variants) else [""]
    paths = {f"{kind}{code}": resources.find("prompts", f"{kind}{code}") for kind in kinds for code in asked_in}
    return found | {f"prompts/{name}.toml": file_digest(path) for name, path in paths.items() if path is not None}


def pack_digests(resources: Resources, languages: Iterable[str]) -> dict[str, str]:
    """Pack file (kind/name) → sha256, for every pack that answers in these languages are read with."""
    names = [*languages, *(name for name in ("_shared",) if resources.find("extractors", name))]
    wanted = [(kind, name) for kind in PACK_KINDS for name in names]
    wanted += [("extractors", f"people/{name}") for name in names]
    found = ((f"{kind}/{name}.toml", resources.find(kind, name)) for kind, name in wanted)
    return {name: file_digest(path) for name, path in found if path is not None}


def check_same_settings(manifest: Manifest, settings: RunSettings, provider: Provider, path: Path) -> None:
    """Makes sure that a run goes on as it began; options that shape no text may differ.

    Raises:
        UsageError: where a setting differs; it names the setting and both values.
    """
    old, new = manifest.settings.model_dump(), settings.model_dump()
    options_class: type[ProviderOptions] = getattr(provider, "options_class", ProviderOptions)
    for options in (old["model_options"], new["model_options"]):
        for name in options_class.may_change:
            options.pop(name, None)
    if "pmi" not in {old["normalise"], new["normalise"]}:  # the others are made of the same likelihoods
        new["normalise"] = old["normalise"]
    for name, before in old.items():
        if before != new[name]:
            raise UsageError(
                f"{path}: this run was made with {name} = {_show(before)}, not {_show(new[name])};"
                f" name another run folder, or go on with: mbbq-gen run {path}"
            )
    if dict(provider.settings) != manifest.provider_settings:
        names = sorted(
            name
            for name in {*provider.settings, *manifest.provider_settings}
            if provider.settings.get(name) != manifest.provider_settings.get(name)
        )
        raise RunError(
            f"{path}: the model is no longer what it was when this run began ({', '.join(names)} changed);"
            " name another run folder"
        )


def _show(value: object) -> str:
    if isinstance(value, tuple | list):
        return ",".join(_show(entry) for entry in value)
    if isinstance(value, dict):
        return ",".join(f"{key}={_show(entry)}" for key, entry in value.items() if entry is not None) or "(none)"
    return str(value)


def git_revision() -> str | None:
    """Commit of the checkout that the package runs from, with `+` if files in it were changed; None outside one."""
    root = Path(mbbq_gen.__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None
    try:
        commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=root, capture_output=True, text=True, check=True)
        status = subprocess.run(["git", "status", "--porcelain"], cwd=root, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return commit.stdout.strip() + ("+" if status.stdout.strip() else "")
