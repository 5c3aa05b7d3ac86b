"""Makes a run folder of foreign answers: matched one by one, stored in batches, the manifest last.

A folder without a manifest is no run. An import that was cut short leaves one, marked as such, and the next import into
it begins anew.
"""

from __future__ import annotations

import platform
import shutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import islice
from typing import Any

import mbbq_gen
from mbbq_gen.core.config import OWN_DATA, BenchmarkChoice, RunConfig
from mbbq_gen.core.errors import RunError, UsageError
from mbbq_gen.core.files import PackPaths, file_digest, stable_digest
from mbbq_gen.core.records import (
    Continuation,
    FrozenModel,
    Instance,
    Message,
    Method,
    Prompt,
    Response,
)
from mbbq_gen.interchange.importers.base import REASONS, ImportedAnswer, Reason, SkippedRow, Source, response_of
from mbbq_gen.interchange.importers.matching import Match, Matcher, option_scores
from mbbq_gen.providers.base import request_key
from mbbq_gen.providers.registry import IMPORTED
from mbbq_gen.runs.planner import InputTally, git_revision, pack_digests
from mbbq_gen.runs.run_folder import Counts, Manifest, RunFolder
from mbbq_gen.storage.shards import FOLDER
from mbbq_gen.storage.store import SCORED, RunStore

_BATCH = 2000
_MOST_EXAMPLES = 3
_UNKNOWN_MODEL = "unknown"
_IMPORTING = "importing"


class SkippedReason(FrozenModel):
    """The rows that were not imported for one reason."""

    reason: Reason
    meaning: str
    count: int
    examples: tuple[str, ...]
    """Where some of them stand, and what is in them."""


class ImportCoverage(FrozenModel):
    """How much of a benchmark has an answer."""

    benchmark: str
    split: str
    language: str
    questions: int
    """That the benchmark has."""
    answered: int
    """That have at least one imported answer."""
    answers: int


class ImportSummary(FrozenModel):
    """What an import did."""

    run: str
    tool: str
    source: str
    model: str
    rows: int
    """Answers that the log holds, imported or not."""
    imported: int
    failed: int
    """Of the imported ones, those that are an error instead of an answer."""
    unlabelled: int
    """Of the imported ones, those whose options were shown without labels or not at all."""
    reworded: int
    """Of the imported ones, those whose unknown option was worded otherwise than in the benchmark."""
    coverage: tuple[ImportCoverage, ...]
    skipped: tuple[SkippedReason, ...]
    notes: tuple[str, ...] = ()

    @property
    def dropped(self) -> int:
        """How many rows are not imported."""
        return sum(entry.count for entry in self.skipped)


@dataclass
class _Count:
    """What has been seen so far."""

    imported: int = 0
    failed: int = 0
    unlabelled: int = 0
    reworded: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    """Instance key → imported answers."""
    skipped: Counter[Reason] = field(default_factory=Counter)
    examples: dict[Reason, list[str]] = field(default_factory=dict)
    models: Counter[str] = field(default_factory=Counter)
    variants: dict[str, None] = field(default_factory=dict)
    styles: dict[str, None] = field(default_factory=dict)
    methods: dict[Method, None] = field(default_factory=dict)

    def leave_out(self, row: SkippedRow) -> None:
        """Counts a row that is not imported."""
        self.skipped[row.reason] += 1
        examples = self.examples.setdefault(row.reason, [])
        if len(examples) < _MOST_EXAMPLES:
            examples.append(f"{row.place}: {row.detail}" if row.detail else row.place)

    def take(self, answer: ImportedAnswer, match: Match, method: Method) -> None:
        """Counts a row that is imported."""
        self.methods[method] = None
        self.imported += 1
        self.failed += answer.words.error is not None
        self.unlabelled += match.label_style == "none"
        self.reworded += match.unknown_text is not None
        self.answers[match.instance.key] += 1
        self.variants[answer.variant] = None
        self.styles[match.label_style] = None
        if answer.words.model:
            self.models[answer.words.model] += 1


@dataclass
class Importer:
    """Makes one run of one log."""

    folder: RunFolder
    source: Source
    choices: tuple[BenchmarkChoice, ...]
    instances: Iterable[tuple[BenchmarkChoice, Iterable[Instance]]]
    """The questions of each benchmark that answers may be about."""
    resources: PackPaths
    model: str | None = None
    """What the model is called; None: as the log says."""
    _count: _Count = field(default_factory=_Count, init=False)
    _seen: set[str] = field(default_factory=set, init=False)
    """The answers imported so far, by `ImportedAnswer.origin_key`."""
    _matcher: Matcher | None = field(default=None, init=False)
    _tally: InputTally = field(default_factory=InputTally, init=False)
    _begun: bool = field(default=False, init=False)
    """Whether the store in the folder is this import's."""

    def read_questions(self, step: Callable[[], None] = lambda: None) -> None:
        """Reads the questions that answers may be about; `step` is called for each.

        Raises:
            UsageError: where there are none, or the folder holds a run already.
            MbbqGenError: whatever the benchmark's reader finds wrong.
        """
        if self.folder.manifest_path.exists():
            raise UsageError(f"{self.folder.path}: holds a run already; name a new folder")
        self._matcher = Matcher(
            instance
            for choice, instances in self.instances
            for instance, _ in self._tally.watch(choice, instances, step)
        )
        if not len(self._matcher):
            raise UsageError("no question matches the benchmark, languages and splits that were given")

    def run(self, step: Callable[[], None] = lambda: None) -> ImportSummary:
        """Imports what can be imported and says what was done; `step` is called for every row.

        Raises:
            UsageError: where the folder holds something else, or a table has answers of several models.
            RunError: where nothing could be imported; no run is left then.
            MbbqGenError: whatever the log's reader finds wrong.
        """
        if self._matcher is None:
            self.read_questions()
        assert self._matcher is not None
        made = not self.folder.path.exists()
        self.folder.create()
        try:
            with self.folder.locked():
                if self.folder.exists():  # what an import that was cut short has left; a planned run is not touched
                    with self.folder.open_store(read_only=True) as store:
                        if store.meta(_IMPORTING) is None:
                            raise UsageError(f"{self.folder.path}: has an incomplete run; name a new folder")
                    self._remove_store()
                self._write(self._matcher, step)
            count, skipped = self._count, self._left_out()
            if not count.imported:
                reasons = [f"{entry.count:,}: {entry.meaning} (as {entry.examples[0]})" for entry in skipped]
                why = "; ".join(reasons) or "there are no rows"
                raise RunError(f"{self.source.path}: nothing could be imported; {why}")
            return ImportSummary(
                run=str(self.folder.path),
                tool=self.source.tool,
                source=str(self.source.path),
                model=self._model(),
                rows=count.imported + sum(count.skipped.values()),
                imported=count.imported,
                failed=count.failed,
                unlabelled=count.unlabelled,
                reworded=count.reworded,
                coverage=tuple(_coverage(count.answers, self._tally.counts)),
                skipped=skipped,
                notes=self.source.notes,
            )
        except BaseException:
            if self._begun:  # no run is left where an import failed; what was there before stays
                self.folder.manifest_path.unlink(missing_ok=True)
                self._remove_store()
                if made:
                    (self.folder.path / "run.lock").unlink(missing_ok=True)
                    self.folder.path.rmdir()
            raise

    # --- the folder -----------------------------------------------------------------------------------------------

    def _remove_store(self) -> None:
        for path in self.folder.path.glob(f"{self.folder.store_path.name}*"):
            path.unlink(missing_ok=True)
        shutil.rmtree(self.folder.path / FOLDER, ignore_errors=True)

    # --- rows -----------------------------------------------------------------------------------------------------

    def _write(self, matcher: Matcher, step: Callable[[], None]) -> None:
        """Stores every row that can be matched, then the manifest."""
        with self.folder.open_store() as store:
            store.set_meta(_IMPORTING, "yes")
            self._begun = True
            now = datetime.now(UTC).isoformat(timespec="milliseconds")
            rows = self._matched(matcher, step)
            while batch := list(islice(rows, _BATCH)):
                store.add_prompts((prompt, response.request_key) for prompt, response in batch)
                store.add_responses([(response, now) for _, response in batch])
            if not self._count.imported:
                return
            instances = map(matcher.instance, self._count.answers)
            store.add_instances((instance, instance.model_dump_json()) for instance in instances)
            self.folder.write_manifest(self._manifest(store, self._tally))
            if set(self._count.methods) != {"generate"}:
                store.set_meta(SCORED, "yes")
            store.set_meta("planned", "yes")
            store.records.keep_in_files_if_large(self._count.imported)

    def _matched(self, matcher: Matcher, step: Callable[[], None]) -> Iterator[tuple[Prompt, Response]]:
        """The rows that can be matched, as prompts with their responses; the others are counted."""
        for row in self.source.rows:
            step()
            found = row if isinstance(row, SkippedRow) else matcher.find(row)
            if isinstance(found, SkippedRow):
                self._count.leave_out(found)
                continue
            assert isinstance(row, ImportedAnswer)
            if row.origin_key in self._seen:
                self._count.leave_out(SkippedRow("duplicate", row.place, f"row {row.origin.id}"))
                continue
            scored = option_scores(row.likelihoods, found) if row.likelihoods else None
            if row.likelihoods and scored is None:
                texts = ", ".join(one.text for one in row.likelihoods)
                self._count.leave_out(SkippedRow("options_mismatch", row.place, texts))
                continue
            self._seen.add(row.origin_key)
            self._count.take(row, found, scored[0] if scored else "generate")
            # What was shown, and what came back.
            method, scores = scored or ("generate", None)
            messages = row.messages or (Message(role="user", content=""),)
            identity = stable_digest(
                found.instance.key,
                row.origin_key,
                ",".join(map(str, found.option_order)),
                *(f"{message.role}:{message.content}" for message in messages),
            )[:20]
            prompt = Prompt(
                prompt_id=identity,
                instance_key=found.instance.key,
                language=found.instance.language,
                variant=row.variant,
                label_style=found.label_style,
                option_order=found.option_order,
                option_labels=found.labels,
                messages=messages,
                unknown_text=found.unknown_text,
                method=method,
                continuations=tuple(Continuation(option=score.option, text=score.text) for score in scores or ()),
            )
            key = request_key(IMPORTED, row.origin.tool, {}, messages, identity)
            yield prompt, response_of(row.words, row.origin, key, scores)

    # --- what is said of it ---------------------------------------------------------------------------------------

    def _model(self) -> str:
        """What the model is called."""
        if self.model or self.source.model:
            return self.model or self.source.model or ""
        if len(self._count.models) > 1:
            names = ", ".join(sorted(self._count.models)[:5])
            raise UsageError(
                f"{self.source.path}: holds the answers of several models ({names}); import each one into a run of its"
                " own, or name them as one with --model NAME"
            )
        return next(iter(self._count.models), _UNKNOWN_MODEL)

    def _manifest(self, store: RunStore, tally: InputTally) -> Manifest:
        count = self._count
        parts = sorted({tuple(key.split("/", 3)[1:3]) for key in count.answers})
        languages = sorted({language for _, language in parts})
        facts = dict(self.source.facts) | {"source": self.source.path.name}
        return Manifest(
            mbbq_gen=mbbq_gen.__version__,
            git_revision=git_revision(),
            python=platform.python_version(),
            created_at=datetime.now(UTC).isoformat(timespec="seconds"),
            config=RunConfig(
                model=f"{IMPORTED}:{self._model()}",
                **_questions(self.choices),
                languages=tuple(languages),
                splits=tuple(sorted({split for split, _ in parts})),
                variants=tuple(count.variants),
                option_order="imported",
                label_style=tuple(count.styles),
                method=tuple(count.methods),
            ),
            provider_settings={"tool": self.source.tool},
            runtime_info=dict(facts),
            pack_digests=pack_digests(self.resources, languages),
            data_digests={group: digest.hexdigest() for group, digest in sorted(tally.digests.items())},
            file_digests=tally.files
            | {f"{self.source.tool}/{path.name}": file_digest(path) for path in self.source.files},
            available=dict(sorted(tally.counts.items())),
            counts=Counts(
                instances=store.count_instances(), prompts=count.imported, requests=store.progress().requests
            ),
            notices=(f"answers imported from {self.source.tool}; only the reading and the scores are ours",),
        )

    def _left_out(self) -> tuple[SkippedReason, ...]:
        examples, counts = self._count.examples, self._count.skipped.most_common()
        return tuple(
            SkippedReason(reason=reason, meaning=REASONS[reason], count=number, examples=tuple(examples[reason]))
            for reason, number in counts
        )


def _questions(choices: Iterable[BenchmarkChoice]) -> dict[str, Any]:
    """The settings of a run that name its questions."""
    own = next((choice for choice in choices if choice.name == OWN_DATA), None)
    if own is not None:
        return {"instances": own.data_dir, "instances_field_map": own.field_map}
    folders = {choice.name: choice.data_dir for choice in choices if choice.data_dir}
    return {"benchmark": tuple(choice.name for choice in choices), "data_dir": folders or None}


def _coverage(answers: Counter[str], available: dict[str, int]) -> Iterator[ImportCoverage]:
    """How much of each benchmark, split and language has an answer; parts without any are left out."""
    groups: dict[str, Counter[str]] = {}
    for key, count in answers.items():
        groups.setdefault("/".join(key.split("/", 3)[:3]), Counter())[key] = count
    for group, counts in sorted(groups.items()):
        place = dict(zip(("benchmark", "split", "language"), group.split("/"), strict=True))
        yield ImportCoverage(**place, questions=available[group], answered=len(counts), answers=counts.total())
