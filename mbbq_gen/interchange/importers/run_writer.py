"""Makes a run folder from imported answers.

The run is written into a temporary folder and moved at the end.
"""

from __future__ import annotations

import platform
import shutil
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import mbbq_gen
from mbbq_gen.benchmarks.rows import LazyInstance
from mbbq_gen.core.config import OWN_DATA, BenchmarkChoice, RunConfig
from mbbq_gen.core.errors import RunError, UsageError
from mbbq_gen.core.files import PackPaths, file_digest, stable_digest
from mbbq_gen.core.progress import Bar
from mbbq_gen.core.records import (
    Continuation,
    ContinuationScore,
    FrozenModel,
    ImportSource,
    Instance,
    Message,
    Method,
    Prompt,
    Response,
)
from mbbq_gen.interchange.importers.base import REASONS, ImportedAnswer, Place, Reason, SkippedRow, Source
from mbbq_gen.interchange.importers.matching import Match, Matcher, option_scores
from mbbq_gen.prompts.render import UNLABELLED
from mbbq_gen.providers.base import request_key
from mbbq_gen.providers.registry import IMPORTED
from mbbq_gen.runs.planner import InputTally, git_revision, pack_digests
from mbbq_gen.runs.run_folder import Counts, Manifest, RunFolder
from mbbq_gen.storage.store import SCORED, RunStore

_BATCH = 2000
_MOST_EXAMPLES = 3
_UNKNOWN_MODEL = "unknown"


class SkippedReason(FrozenModel):
    """The rows skipped for one reason."""

    reason: Reason
    meaning: str
    count: int
    examples: tuple[str, ...]
    """Places and details of some of them."""


class ImportCoverage(FrozenModel):
    """The numbers of questions and answers of a benchmark, split and language."""

    benchmark: str
    split: str
    language: str
    questions: int
    """Questions in the benchmark."""
    answered: int
    """Questions with at least one imported answer."""
    answers: int


class ImportSummary(FrozenModel):
    """The result of an import."""

    run: str
    tool: str
    source: str
    model: str
    rows: int
    """Answers in the log, imported or not."""
    imported: int
    failed: int
    """Imported answers that are errors."""
    unlabelled: int
    """Imported answers whose options were shown without labels or not at all."""
    reworded: int
    """Imported answers whose unknown option had another text than in the benchmark."""
    coverage: tuple[ImportCoverage, ...]
    skipped: tuple[SkippedReason, ...]
    notes: tuple[str, ...] = ()


def import_answers(
    folder: RunFolder,
    source: Source,
    choices: tuple[BenchmarkChoice, ...],
    instances: Iterable[tuple[BenchmarkChoice, Iterable[Instance]]],
    *,
    resources: PackPaths,
    model: str | None = None,
) -> ImportSummary:
    """Makes a run from the answers of a log that match a question.

    Args:
        choices: The benchmarks, as in the manifest.
        instances: The questions of each benchmark.
        model: Name of the model; None: as in the log.

    Raises:
        UsageError: There are no questions, the folder has other content, or a table has several models.
        RunError: Nothing could be imported; then no run is made.
        MbbqGenError: The benchmark or the log is wrong.
    """
    if folder.exists() or folder.manifest_path.exists():
        raise UsageError(f"{folder.path}: holds a run already; name a new folder")
    tally = InputTally()
    with Bar("reading", None, "questions") as bar:
        groups = (tally.count_questions(choice, map(LazyInstance.of, rows), bar.advance) for choice, rows in instances)
        matcher = Matcher(tally.build(question)[0] for questions in groups for question in questions)
    if not len(matcher):
        raise UsageError("no question matches the benchmark, languages and splits that were given")
    is_new = not folder.path.exists()
    folder.create()
    job = _Import(source, matcher, tally, model)
    try:
        with TemporaryDirectory(prefix=f".{folder.path.name}-", dir=folder.path.parent) as place:
            draft = RunFolder(Path(place))
            with draft.open_store() as store, Bar("importing", None, "answers") as bar:
                job.store_answers(store, bar.advance)
                draft.write_manifest(job.manifest(store, choices, resources))
                if set(job.methods) != {"generate"}:
                    store.set_meta(SCORED, "yes")
                store.set_meta("planned", "yes")
                store.records.keep_in_files_if_large(job.answers.total())
            for entry in draft.path.iterdir():
                shutil.move(entry, folder.path)
    except BaseException:
        if is_new:
            with suppress(OSError):
                folder.path.rmdir()
        raise
    return job.summary(folder)


@dataclass
class _Import:
    """The import of one log, with its counts so far."""

    source: Source
    matcher: Matcher
    tally: InputTally
    model: str | None
    answers: Counter[str] = field(default_factory=Counter)
    """Instance key → imported answers."""
    facts: Counter[str] = field(default_factory=Counter)
    """Numbers of imported answers that are `failed`, `unlabelled`, `reworded`."""
    skipped: Counter[Reason] = field(default_factory=Counter)
    examples: dict[Reason, list[str]] = field(default_factory=lambda: defaultdict(list))
    """Reason → places and details of the first rows."""
    models: dict[str, None] = field(default_factory=dict)
    variants: dict[str, None] = field(default_factory=dict)
    styles: dict[str, None] = field(default_factory=dict)
    methods: dict[Method, None] = field(default_factory=dict)

    def store_answers(self, store: RunStore, step: Callable[[], None]) -> None:
        """Stores the rows that match an instance, and these instances."""
        now = datetime.now(UTC).isoformat(timespec="milliseconds")
        rows = self._matched(step)
        while batch := list(islice(rows, _BATCH)):
            store.add_prompts((prompt, response.request_key) for prompt, response in batch)
            store.add_responses([(response, now) for _, response in batch])
        if not self.answers:
            reasons = [f"{row.count:,}: {row.meaning} (as {row.examples[0]})" for row in self._skipped_reasons()]
            problem = "; ".join(reasons) or "there are no rows"
            raise RunError(f"{self.source.path}: nothing could be imported; {problem}")
        found = map(self.matcher.instance, self.answers)
        store.add_instances((instance, instance.model_dump_json()) for instance in found)

    def _matched(self, step: Callable[[], None]) -> Iterator[tuple[Prompt, Response]]:
        """The prompts and responses of rows that match; counts the others."""
        seen: set[tuple[object, ...]] = set()
        for place, row in self.source.rows:
            step()
            found: Match | SkippedRow = row if isinstance(row, SkippedRow) else self.matcher.find(row)
            if isinstance(row, ImportedAnswer) and isinstance(found, Match):
                scored = option_scores(row.likelihoods, found) if row.likelihoods else ("generate", None)
                origin = (place.file, row.id, row.repeat, row.variant)
                if origin in seen:
                    found = SkippedRow("duplicate", f"row {row.id}")
                elif scored is None:
                    found = SkippedRow("options_mismatch", ", ".join(answer.text for answer in row.likelihoods))
                else:
                    seen.add(origin)
                    yield self._converted(place, row, found, *scored)
                    continue
            assert isinstance(found, SkippedRow)
            self.skipped[found.reason] += 1
            if self.skipped[found.reason] <= _MOST_EXAMPLES:
                self.examples[found.reason].append(f"{place}: {found.detail}" if found.detail else str(place))

    def _converted(
        self,
        place: Place,
        row: ImportedAnswer,
        match: Match,
        method: Method,
        scores: tuple[ContinuationScore, ...] | None,
    ) -> tuple[Prompt, Response]:
        """The prompt and the response of a row; counts it."""
        response = row.response or Response(request_key="imported", scores=scores)
        self.answers[match.instance.key] += 1
        self.facts["failed"] += response.error is not None
        self.facts["unlabelled"] += match.label_style == UNLABELLED
        self.facts["reworded"] += match.unknown_text is not None
        self.methods[method] = self.variants[row.variant] = self.styles[match.label_style] = None
        if response.model:
            self.models[response.model] = None
        messages = row.messages or (Message(role="user", content=""),)
        identity = stable_digest(
            match.instance.key,
            "\n".join(map(str, (place.file, row.id, row.repeat, row.variant))),
            ",".join(map(str, match.option_order)),
            *(f"{message.role}:{message.content}" for message in messages),
        )[:20]
        prompt = Prompt(
            prompt_id=identity,
            instance_key=match.instance.key,
            language=match.instance.language,
            variant=row.variant,
            label_style=match.label_style,
            option_order=match.option_order,
            option_labels=match.labels,
            messages=messages,
            unknown_text=match.unknown_text,
            method=method,
            continuations=tuple(Continuation(option=score.option, text=score.text) for score in scores or ()),
        )
        tool = "table" if self.source.tool == "csv" else self.source.tool
        origin = ImportSource(tool=tool, file=place.file, id=row.id, task=row.task, repeat=row.repeat)
        key = request_key(IMPORTED, tool, {}, messages, identity)
        return prompt, response.model_copy(update={"request_key": key, "import_source": origin})

    # --- the result ------------------------------------------------------------------------------------------------

    @property
    def model_name(self) -> str:
        """The model's name; raises UsageError for several models."""
        if name := self.model or self.source.model:
            return name
        if len(self.models) > 1:
            names = ", ".join(sorted(self.models)[:5])
            raise UsageError(
                f"{self.source.path}: holds the answers of several models ({names}); import each one into a run of its"
                " own, or name them as one with --model NAME"
            )
        return next(iter(self.models), _UNKNOWN_MODEL)

    def manifest(self, store: RunStore, choices: Iterable[BenchmarkChoice], resources: PackPaths) -> Manifest:
        """The manifest of the run."""
        tool, tally = self.source.tool, self.tally
        parts = [key.split("/", 3) for key in self.answers]
        splits, languages = (tuple(sorted({part[place] for part in parts})) for place in (1, 2))
        return Manifest(
            mbbq_gen=mbbq_gen.__version__,
            git_revision=git_revision(),
            python=platform.python_version(),
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            config=RunConfig(
                model=f"{IMPORTED}:{self.model_name}",
                **_questions(choices),
                languages=languages,
                splits=splits,
                variants=tuple(self.variants),
                option_order="imported",
                label_style=tuple(self.styles),
                method=tuple(self.methods),
            ),
            provider_settings={"tool": tool},
            runtime_info={**self.source.facts, "source": self.source.path.name},
            pack_digests=pack_digests(resources, languages),
            data_digests={group: digest.hexdigest() for group, digest in sorted(tally.digests.items())},
            file_digests=tally.files | {f"{tool}/{file.name}": file_digest(file) for file in self.source.files},
            available=dict(sorted(tally.counts.items())),
            counts=Counts(
                instances=store.count_instances(), prompts=self.answers.total(), requests=store.progress().requests
            ),
            notices=(f"answers imported from {tool}; only the reading and the scores are ours",),
        )

    def summary(self, folder: RunFolder) -> ImportSummary:
        """The result of the import, without the parts of the benchmark that have no answer."""
        groups: dict[str, list[int]] = defaultdict(list)
        for key, count in sorted(self.answers.items()):
            groups["/".join(key.split("/", 3)[:3])].append(count)
        coverage = []
        for group, counts in sorted(groups.items()):
            benchmark, split, language = group.split("/")
            place = {"benchmark": benchmark, "split": split, "language": language}
            numbers = {"questions": self.tally.counts[group], "answered": len(counts), "answers": sum(counts)}
            coverage.append(ImportCoverage.model_validate(place | numbers))
        imported = self.answers.total()
        return ImportSummary(
            run=str(folder.path),
            tool=self.source.tool,
            source=str(self.source.path),
            model=self.model_name,
            rows=imported + self.skipped.total(),
            imported=imported,
            **{name: self.facts[name] for name in ("failed", "unlabelled", "reworded")},
            coverage=tuple(coverage),
            skipped=self._skipped_reasons(),
            notes=self.source.notes,
        )

    def _skipped_reasons(self) -> tuple[SkippedReason, ...]:
        """The reasons why rows were skipped, the most frequent first."""
        return tuple(
            SkippedReason(reason=reason, meaning=REASONS[reason], count=n, examples=tuple(self.examples[reason]))
            for reason, n in self.skipped.most_common()
        )


def _questions(choices: Iterable[BenchmarkChoice]) -> dict[str, Any]:
    """The settings of a run for its questions."""
    own = next((choice for choice in choices if choice.name == OWN_DATA), None)
    if own is not None:
        return {"instances": own.data_dir, "instances_field_map": own.field_map}
    folders = {choice.name: choice.data_dir for choice in choices if choice.data_dir}
    return {"benchmark": tuple(choice.name for choice in choices), "data_dir": folders or None}
