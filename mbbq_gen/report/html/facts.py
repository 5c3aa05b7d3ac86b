"""What was asked of whom, when, with what settings: a run's manifest and store, as terms and what stands under them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mbbq_gen.runs.folder import Manifest, RunFolder
from mbbq_gen.runs.store import Progress, RunStore
from mbbq_gen.substitution import TemplateRefusal


@dataclass(frozen=True)
class Fact:
    """One line of what was asked."""

    term: str
    text: str


@dataclass(frozen=True)
class RunFacts:
    """All that is to be said of a run beside its scores."""

    name: str
    """What the model is called on the page."""
    folder: str
    """The run's folder, as it was typed."""
    facts: tuple[Fact, ...]
    notices: tuple[str, ...]
    """What every result of this run has to say of its benchmarks."""
    left_out: tuple[TemplateRefusal, ...]
    """Bias questions that no control question was made of, by template and reason."""
    files: tuple[Fact, ...]
    """Packs and data that shaped the numbers → sha256."""


def run_facts(
    folder: RunFolder, manifest: Manifest, store: RunStore, name: str, versions: Mapping[str, str]
) -> RunFacts:
    """The facts of one run; `versions`: the extractor version whose readings are scored, by language."""
    return RunFacts(
        name=name,
        folder=str(folder.path),
        facts=tuple(Fact(term, text) for term, text in _facts(manifest, store, store.progress(), versions) if text),
        notices=manifest.notices,
        left_out=tuple(part for found in manifest.control.values() for part in found.templates),
        files=tuple(
            Fact(file, digest) for file, digest in {**manifest.packs, **manifest.data, **manifest.files}.items()
        ),
    )


def _facts(
    manifest: Manifest, store: RunStore, progress: Progress, versions: Mapping[str, str]
) -> Iterator[tuple[str, str]]:
    settings, counts, total = manifest.settings, manifest.counts, sum(manifest.available.values())
    yield "model", settings.model
    yield "answered as", ", ".join(_answering_models(store))
    yield "asked", _when(store, manifest)
    yield "benchmarks", ", ".join(_benchmarks(store))
    yield "languages", ", ".join(settings.languages)
    yield "splits", ", ".join(settings.splits)
    part = "all" if counts.instances == total else f"{counts.instances:,} of"
    yield "questions", f"{part} {total:,}" if total else f"{counts.instances:,}"
    for name, found in manifest.control.items():
        yield f"control questions of {name}", found.sentence
    yield "presentations", f"{counts.presentations:,} (question × wording × option order × label style)"
    yield "answered", f"{progress.answered:,} of {progress.requests:,} requests{_failed(progress)}"
    yield "wordings", f"{', '.join(settings.variants)}{' (published)' if settings.prompts == 'published' else ''}"
    yield "option order", settings.order
    yield "labels", ", ".join(settings.label_styles)
    yield "thinking", ", ".join(settings.reasoning)
    yield "solved examples", str(settings.shots) if settings.shots else ""
    yield "language of the instructions", settings.instruction_language or ""
    yield "contexts", "left out" if settings.question_only else ""
    yield "unknown option", f"worded as: {settings.unknown_wording}" if settings.unknown_wording else ""
    yield "system message", settings.system or "none of ours"
    yield "settings of the model", _listed(manifest.provider_settings)
    yield "seed", str(settings.seed)
    yield "answers read by", ", ".join(f"{language}: {version}" for language, version in sorted(versions.items()))
    yield "made with", f"mbbq-gen {manifest.mbbq_gen}{_revision(manifest)}, Python {manifest.python}"


def _failed(progress: Progress) -> str:
    return f"; {progress.failed:,} failed" if progress.failed else ""


def _revision(manifest: Manifest) -> str:
    return f" ({manifest.git_revision[:12]})" if manifest.git_revision else ""


def _listed(settings: Mapping[str, object]) -> str:
    return ", ".join(f"{name} {json.dumps(value, ensure_ascii=False)}" for name, value in settings.items())


def _answering_models(store: RunStore) -> list[str]:
    """The names under which the model or service answered."""
    rows = store.query("SELECT DISTINCT json_extract(record, '$.model') FROM responses WHERE is_error = 0 ORDER BY 1")
    return [str(name) for (name,) in rows if name is not None]


def _when(store: RunStore, manifest: Manifest) -> str:
    """When answers came in, in UTC to the minute."""
    first, last = store.query("SELECT min(received_at), max(received_at) FROM responses").fetchone()
    times = [_minute(time) for time in (first or manifest.created_at, last or manifest.created_at)]
    return " to ".join(dict.fromkeys(times)) + " UTC"


def _minute(time: str) -> str:
    return time[:16].replace("T", " ")


def _benchmarks(store: RunStore) -> list[str]:
    """Each benchmark with its version, as its questions say it."""
    rows = store.query(
        "SELECT DISTINCT benchmark, json_extract(record, '$.version') FROM instances WHERE asked ORDER BY 1, 2"
    )
    return [f"{name} {version}" for name, version in rows]
