"""Plans a run: reads instances, draws a sample, chooses option orders, renders prompts.

    benchmark files ─► instances ─► balanced sample ─► option orders ─► prompts

`plan_run` stores the prompts; `runs.estimate` only counts them.
"""

from __future__ import annotations

import hashlib
import platform
import subprocess
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final

import mbbq_gen
from mbbq_gen.benchmarks.rows import LazyInstance, with_files
from mbbq_gen.core.config import OWN_DATA, BenchmarkChoice
from mbbq_gen.core.errors import UsageError
from mbbq_gen.core.files import PACK_KINDS, PackKind, PackPaths, file_digest
from mbbq_gen.core.option_display import OPEN_VARIANT, OrderPolicy, SamplingUnit
from mbbq_gen.core.records import Instance, Message, Method, Prompt
from mbbq_gen.languages.axes import parse_variant_name
from mbbq_gen.languages.prompt_pack import VariantKind
from mbbq_gen.prompts.render import (
    PromptSettings,
    SolvedExample,
    answer_texts,
    as_continuations,
    label_answers,
    options_by_role,
    orders_of,
    plan_orders,
    render_prompt,
    with_reasoning_effort,
)
from mbbq_gen.prompts.sampling import FewShotExample, FewShotSampler, balanced_sample
from mbbq_gen.prompts.variants import PromptVariants
from mbbq_gen.providers.base import Provider, prompt_key, require_methods
from mbbq_gen.runs.resolve import InstanceSource, notices
from mbbq_gen.runs.run_folder import Counts, Manifest, RunFolder
from mbbq_gen.storage.store import NORMALISE, SCORED, GrowingPlan, RunStore, duplicate_key

_GROWING: Final = 50_000
"""Largest plan that is completed while requests are sent. An interrupted run stores the rest before it ends."""


@dataclass
class InputTally:
    """Counts and digests of the questions read."""

    digests: dict[str, hashlib._Hash] = field(default_factory=dict)
    """benchmark/split/language → sha256 of its questions in the run."""
    counts: dict[str, int] = field(default_factory=dict)
    """benchmark/split/language → number of questions."""
    files: dict[str, str] = field(default_factory=dict)
    """Data file → sha256."""
    unknown_texts: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    """Benchmark, language → texts of the unknown option."""

    def count_questions(
        self, choice: BenchmarkChoice, questions: Iterable[LazyInstance], step: Callable[[], None]
    ) -> Iterator[LazyInstance]:
        """Yields and counts the questions; at the end, records the digests of the data files."""
        opened: set[Path] = set()
        group = ("", "", "")
        for question in with_files(questions, opened):
            unit = question.unit
            if group != (unit.benchmark, unit.split, unit.language):
                group = (unit.benchmark, unit.split, unit.language)
                name = "/".join(group)
                texts = self.unknown_texts.setdefault((unit.benchmark, unit.language), set())
            self.counts[name] = self.counts.get(name, 0) + 1
            texts.add(question.unknown_text)
            step()
            yield question
        if choice.data_dir is None:
            return
        given = Path(choice.data_dir)
        if given.is_file():
            own = [given, *([Path(choice.field_map)] if choice.field_map else [])]
            self.files |= {f"{choice.name}/{path.name}": file_digest(path) for path in own}
            return
        self.files |= {choice.manifest_name(path): file_digest(path) for path in sorted(opened)}

    def build(self, question: LazyInstance) -> tuple[Instance, str]:
        """Builds a question; returns it with its JSON, which is added to the digest."""
        instance = question.build()
        record = instance.model_dump_json()
        name = f"{instance.benchmark}/{instance.split}/{instance.language}"
        self.digests.setdefault(name, hashlib.sha256()).update(record.encode() + b"\n")
        return instance, record


@dataclass
class PromptPlan:
    """Reads the questions of a run and renders its prompts."""

    load: InstanceSource
    step: Callable[[], None] = lambda: None
    """Called for every question read and every prompt rendered."""

    def __post_init__(self) -> None:
        self.settings = self.load.settings
        self._variants = PromptVariants(self.settings, self.load.where)
        self._examples: dict[str, list[FewShotExample]] = {}
        self._unknown_texts: dict[tuple[str, str], list[str]] = {}

    @property
    def kinds(self) -> dict[str, VariantKind]:
        """Id of each prompt variant → kind of request."""
        return self._variants.kinds()

    def read(self, store: RunStore) -> InputTally:
        """Stores the questions and few-shot examples in an empty store; UsageError if there are no questions."""
        settings, tally = self.settings, InputTally(files=self._variants.files())
        sampled: set[str] = set()
        for choice in settings.benchmarks:
            questions = tally.count_questions(choice, self.load(choice, settings.languages, settings.splits), self.step)
            if settings.sample is None:
                store.add_instances(map(tally.build, questions))
                continue
            # A benchmark is read language by language; a user's file may mix languages.
            by_language = groupby(questions, lambda one: one.unit.language)
            batches = [questions] if choice.name == OWN_DATA else (batch for _, batch in by_language)
            for batch in batches:
                sampled |= self._store_sample(store, list(batch), settings.sample, tally)
        if not tally.counts:
            raise UsageError("no question matches the given benchmark, languages and splits")
        if settings.num_fewshot and settings.sample is None:
            units = list(store.sampling_units())
            self._choose_examples(units, units)
        elif settings.num_fewshot:
            store.select_only(sampled)
        self._unknown_texts = {where: sorted(texts) for where, texts in tally.unknown_texts.items()}
        return tally

    def _store_sample(
        self, store: RunStore, questions: Sequence[LazyInstance], size: int, tally: InputTally
    ) -> set[str]:
        """Stores a balanced sample of questions with few-shot examples; returns the keys of the sample."""
        units = {question.unit.key: question.unit for question in questions}
        if len(units) < len(questions):
            raise duplicate_key(Counter(question.unit.key for question in questions).most_common(1)[0][0])
        sampled = balanced_sample(units.values(), size, self.settings.seed)
        self._choose_examples(list(units.values()), [units[key] for key in sampled])
        keys = sampled.union(example.key for key in sampled for example in self._examples.get(key, ()))
        store.add_instances(tally.build(question) for question in questions if question.unit.key in keys)
        return sampled

    def _choose_examples(self, pool: Sequence[SamplingUnit], units: Iterable[SamplingUnit]) -> None:
        """Chooses few-shot examples for questions from a pool."""
        if count := self.settings.num_fewshot:
            sampler = FewShotSampler(pool, self.settings.seed)
            self._examples |= {unit.key: sampler.choose(unit, count) for unit in units}

    def prompts(self, store: RunStore) -> Iterator[Prompt]:
        """Renders the prompts of the stored questions, question by question."""
        policy: OrderPolicy = self.settings.option_order  # type: ignore[assignment]
        orders = plan_orders(policy, store.sampling_units(), self.settings.seed)
        for instance in store.instances():
            examples = []
            for example in self._examples.get(instance.key, ()):
                question = store.instance(example.key)
                options = options_by_role(question)
                examples.append(SolvedExample(question, tuple(options[role] for role in example.role_order)))
            for method in self.settings.method:
                for number, setting in enumerate(self._variants.settings_of(instance, method)):
                    planned = orders.orders(instance, number)
                    for order in planned[:1] if setting.variant.kind == OPEN_VARIANT else planned:
                        prompt = render_prompt(instance, setting, order, examples)
                        prompt = self._for_method(instance, setting, prompt, method)
                        # Loglikelihoods are computed without reasoning.
                        levels = self.settings.reasoning_effort if method == "generate" else ()
                        for each in [with_reasoning_effort(prompt, level) for level in levels] or [prompt]:
                            self.step()
                            yield each

    def _for_method(self, instance: Instance, setting: PromptSettings, prompt: Prompt, method: Method) -> Prompt:
        """A rendered prompt, with continuations if its method scores them."""
        if method == "generate":
            return prompt
        if method != "loglikelihood":
            return as_continuations(prompt, method, label_answers(prompt))
        is_open = setting.variant.kind == OPEN_VARIANT
        texts = self._unknown_texts[instance.benchmark, instance.language] if is_open else []
        answers, prior = answer_texts(instance, texts, setting.unknown_text), tuple[Message, ...]()
        if self.settings.normalization == "pmi":
            prior = (Message(role="user", content=self._variants.prior_text(instance, setting)),)
        return as_continuations(prompt, method, answers, prior)


def plan_run(
    store: RunStore,
    folder: RunFolder,
    provider: Provider,
    load: InstanceSource,
    step: Callable[[], None] = lambda: None,
    *,
    grows: bool = False,
) -> Manifest:
    """Stores the plan of a run and writes the manifest; replaces an interrupted plan.

    `step` is called for every question read and every prompt rendered. `grows`: stores only the first prompts, the
    others while requests are sent (`RunStore.store_prompts`); no effect for loglikelihoods, published prompts and large
    plans.
    """
    settings, resources = load.settings, load.where
    require_methods(provider, settings.method)
    reasoning = {level: provider.reasoning_settings(level) for level in settings.reasoning_effort}
    instructions = [settings.instruction_language] if settings.instruction_language else settings.languages
    kinds = ["", "axes/"] if any(parse_variant_name(variant) for variant in settings.variants) else [""]
    prompts: list[tuple[PackKind, str]] = [("prompts", f"{kind}{code}") for kind in kinds for code in instructions]
    packs = pack_digests(resources, settings.languages) | _digests(resources, prompts)
    prompt_plan = PromptPlan(load, step)
    store.clear_plan()
    tally = prompt_plan.read(store)
    rendered = ((prompt, prompt_key(provider, prompt)) for prompt in prompt_plan.prompts(store))
    n_instances = store.count_instances()
    n_prompts = n_instances * len(settings.variants) * len(settings.label_style) * orders_of(settings.option_order)
    n_prompts *= len(settings.reasoning_effort) or 1
    grows &= settings.method == ("generate",) and settings.prompt_source != "published" and n_prompts <= _GROWING
    if not grows:
        n_prompts = store.add_prompts(rendered)
    manifest = Manifest(
        mbbq_gen=mbbq_gen.__version__,
        git_revision=git_revision(),
        python=platform.python_version(),
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        config=settings,
        provider_settings=dict(provider.settings),
        runtime_info=provider.runtime_info(),
        reasoning=reasoning,
        pack_digests=packs,
        data_digests={group: digest.hexdigest() for group, digest in sorted(tally.digests.items())},
        file_digests=tally.files,
        available=dict(sorted(tally.counts.items())),
        counts=Counts(
            instances=n_instances, prompts=n_prompts, requests=n_prompts if grows else store.progress().requests
        ),
        control={name: found.counts() for name, found in load.control.items()},
        notices=notices(settings),
    )
    folder.write_manifest(manifest)
    if settings.is_scored:
        store.set_meta(SCORED, "yes")
        store.set_meta(NORMALISE, settings.normalization)
    if grows:
        store.grow(GrowingPlan(rendered, n_prompts, partial(_finish, store, folder)))
        prompt_plan.step = lambda: None
    else:
        _finish(store, folder)
    store.records.keep_in_files_if_large(manifest.counts.requests)
    return manifest


def _finish(store: RunStore, folder: RunFolder) -> None:
    """Marks the plan as complete and stores the number of distinct requests."""
    manifest, requests = folder.manifest(), store.progress().requests
    if manifest.counts.requests != requests:
        counts = manifest.counts.model_copy(update={"requests": requests})
        folder.write_manifest(manifest.model_copy(update={"counts": counts}))
    store.set_meta("planned", "yes")


def pack_digests(resources: PackPaths, languages: Iterable[str]) -> dict[str, str]:
    """Pack file (kind/name) → sha256, for all packs that extraction in these languages uses."""
    names = [*languages, *(name for name in ("_shared",) if resources.find("extractors", name))]
    files: list[tuple[PackKind, str]] = [(kind, name) for kind in PACK_KINDS for name in names]
    files += [("extractors", f"people/{name}") for name in names]
    return _digests(resources, files)


def _digests(resources: PackPaths, files: Iterable[tuple[PackKind, str]]) -> dict[str, str]:
    """Pack file (kind/name) → sha256, for those that exist."""
    found = ((f"{kind}/{name}.toml", resources.find(kind, name)) for kind, name in files)
    return {name: file_digest(path) for name, path in found if path is not None}


def git_revision() -> str | None:
    """Commit of the checkout that contains the package, with `+` for uncommitted changes; None outside one."""
    root = Path(mbbq_gen.__file__).resolve().parent.parent
    if not (root / ".git").exists():
        return None
    command = ["git", "status", "--porcelain=v2", "--branch"]
    try:
        lines = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True).stdout.splitlines()
    except (OSError, subprocess.CalledProcessError):
        return None
    facts, changes = [line for line in lines if line.startswith("#")], [line for line in lines if line[:1] != "#"]
    commit = facts[0].removeprefix("# branch.oid ")
    return None if commit == "(initial)" else commit + ("+" if changes else "")
