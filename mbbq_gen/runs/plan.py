"""Plans a run: which questions, in which wordings and option orders, all of it stored before anything is asked.

benchmark files ─► instances ─► balanced sample ─► option orders ─► presentations ─► store, manifest
"""

from __future__ import annotations

import hashlib
import platform
import subprocess
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

import mbbq_gen
from mbbq_gen.errors import RunError, UsageError
from mbbq_gen.presentation import Example, OrderPolicy, options_by_role, plan_orders, present
from mbbq_gen.providers.base import Provider
from mbbq_gen.records import Instance, Presentation
from mbbq_gen.resources import PACK_KINDS, Resources, file_digest
from mbbq_gen.runs.folder import BenchmarkChoice, Counts, Manifest, RunFolder, RunSettings
from mbbq_gen.runs.store import RunStore
from mbbq_gen.runs.wordings import Wordings
from mbbq_gen.sampling import balanced_sample
from mbbq_gen.shots import Shot, ShotPool


class LoadBenchmark(Protocol):
    """Reads the questions of one benchmark in some languages and splits."""

    def __call__(self, choice: BenchmarkChoice, languages: Iterable[str], splits: Iterable[str]) -> Iterator[Instance]:
        """The questions, in the benchmark's own order."""


@dataclass
class _Tally:
    """Counts and digests questions as they stream by."""

    digests: dict[str, hashlib._Hash] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)
    sources: set[str] = field(default_factory=set)
    """Names of the files that the questions of the benchmark at hand come from."""

    def watch(self, instances: Iterable[Instance], step: Callable[[], None]) -> Iterator[Instance]:
        """The same questions, counted."""
        for instance in instances:
            group = f"{instance.benchmark}/{instance.split}/{instance.language}"
            self.digests.setdefault(group, hashlib.sha256()).update(instance.model_dump_json().encode() + b"\n")
            self.counts[group] = self.counts.get(group, 0) + 1
            source = instance.metadata.get("source_row")
            if isinstance(source, dict):
                self.sources.add(str(source.get("file")))
            step()
            yield instance


@dataclass(frozen=True)
class Planner:
    """Makes the plan of a run folder, once."""

    folder: RunFolder
    settings: RunSettings
    provider: Provider
    resources: Resources
    load: LoadBenchmark
    notices: tuple[str, ...] = ()
    step: Callable[[], None] = lambda: None
    """Called for every question read and every presentation made."""

    def plan(self, store: RunStore) -> Manifest:
        """Stores what will be asked and writes the manifest; a plan that was cut short is made anew.

        Raises:
            UsageError: where the selection is empty.
            MbbqGenError: whatever the benchmark's reader finds wrong.
        """
        wordings = Wordings(self.settings, self.resources)
        store.clear_plan()
        tally = _Tally()
        files = wordings.files()
        for choice in self.settings.benchmarks:
            questions = self.load(choice, self.settings.languages, self.settings.splits)
            store.add_instances(tally.watch(questions, self.step))
            files |= _data_digests(choice, tally.sources)
            tally.sources.clear()
        if not tally.counts:
            raise UsageError("no question fits the benchmark, languages and splits that were given")
        shots = self._shots(store)
        if self.settings.sample is not None:
            asked = balanced_sample(store.outlines(), self.settings.sample, self.settings.seed)
            store.keep_only(asked, {shot.key for key in asked for shot in shots.get(key, ())})
        presentations = store.add_presentations(self._presentations(store, wordings, shots))
        manifest = self._manifest(store, tally, files, presentations)
        self.folder.write_manifest(manifest)
        store.set_meta("planned", "yes")
        return manifest

    def _shots(self, store: RunStore) -> dict[str, list[Shot]]:
        """Question → its solved examples, out of all questions that were read, asked or not."""
        if not self.settings.shots:
            return {}
        pool = ShotPool(store.outlines(), self.settings.seed)
        return {outline.key: pool.choose(outline, self.settings.shots) for outline in store.outlines()}

    def _presentations(
        self, store: RunStore, wordings: Wordings, shots: dict[str, list[Shot]]
    ) -> Iterator[tuple[Presentation, str]]:
        """What will be sent, each with its request key, question by question."""
        policy: OrderPolicy = self.settings.order  # type: ignore[assignment]
        orders = plan_orders(policy, store.outlines(), self.settings.seed)
        for instance in store.instances():
            examples = [_example(shot, store) for shot in shots.get(instance.key, ())]
            for number, setting in enumerate(wordings.settings_of(instance)):
                for order in orders.orders(instance, number):
                    presentation = present(instance, setting, order, examples)
                    key = self.provider.request_key(presentation.messages, presentation.presentation_id)
                    self.step()
                    yield presentation, key

    def _manifest(self, store: RunStore, tally: _Tally, files: dict[str, str], presentations: int) -> Manifest:
        return Manifest(
            mbbq_gen=mbbq_gen.__version__,
            git_revision=git_revision(),
            python=platform.python_version(),
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            settings=self.settings,
            provider_settings=dict(self.provider.settings),
            provider_facts=self.provider.facts(),
            packs=pack_digests(self.resources, self.settings.languages),
            data={group: digest.hexdigest() for group, digest in sorted(tally.digests.items())},
            files=files,
            available=dict(sorted(tally.counts.items())),
            counts=Counts(
                instances=store.count_instances(),
                presentations=presentations,
                requests=store.progress().requests,
            ),
            notices=self.notices,
        )


def _example(shot: Shot, store: RunStore) -> Example:
    """A solved example with its question."""
    instance = store.instance(shot.key)
    options = options_by_role(instance)
    return Example(instance, tuple(options[role] for role in shot.role_order))


def _data_digests(choice: BenchmarkChoice, names: Iterable[str]) -> dict[str, str]:
    """benchmark/file → sha256 of the data files that questions came from."""
    if choice.data is None:
        return {}
    given = Path(choice.data)
    if given.is_file():
        own = [given, *([Path(choice.field_map)] if choice.field_map else [])]
        return {f"{choice.name}/{path.name}": file_digest(path) for path in own}
    found = ((name, min(given.rglob(name), default=None)) for name in sorted(names))
    return {f"{choice.name}/{name}": file_digest(path) for name, path in found if path is not None}


def pack_digests(resources: Resources, languages: Iterable[str]) -> dict[str, str]:
    """Pack file (kind/name) → sha256, for every pack that a run in these languages reads."""
    names = [*languages, *(name for name in ("_shared",) if resources.find("extractors", name))]
    found = ((f"{kind}/{name}.toml", resources.find(kind, name)) for kind in PACK_KINDS for name in names)
    return {name: file_digest(path) for name, path in found if path is not None}


def check_same_settings(manifest: Manifest, settings: RunSettings, provider: Provider, path: Path) -> None:
    """Makes sure that a run goes on as it began.

    Raises:
        UsageError: where a setting differs; it names the setting and both values.
    """
    old, new = manifest.settings.model_dump(), settings.model_dump()
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
