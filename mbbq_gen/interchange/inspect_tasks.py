"""The benchmarks as tasks of inspect-ai, with our prompts, extractor and metrics.

inspect-ai finds them by its entry point (`pip install 'mbbq-gen[inspect]'`):

    inspect eval mbbq_gen/mbbq --model openai/gpt-4o-mini -T languages=en,tr -T sample=200

The metadata of a sample has its instance and prompt, so `inspect score LOG --scorer mbbq_gen/extraction` needs no other
file, and `mbbq-gen import --from inspect LOG` makes a run with the same scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import mbbq_gen
from mbbq_gen.benchmarks.registry import BENCHMARKS
from mbbq_gen.core.config import RunConfig
from mbbq_gen.core.errors import MissingExtraError
from mbbq_gen.core.files import PackPaths
from mbbq_gen.core.option_display import options_in_order
from mbbq_gen.core.records import Extraction, Instance, Prompt, Response
from mbbq_gen.core.text import Names, words
from mbbq_gen.interchange.importers.inspect_log import FINISH, INSTANCE_KEY
from mbbq_gen.runs.extraction import extract_response, extractor_for
from mbbq_gen.runs.planner import PromptPlan
from mbbq_gen.runs.resolve import InstanceSource, resolve
from mbbq_gen.scoring.observations import GoldLabels, corrected_index, observations_frame, observe
from mbbq_gen.storage.store import CompletedPrompt, RunStore

try:
    from inspect_ai import Task, task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageSystem, ChatMessageUser, ModelOutput
    from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
    from inspect_ai.solver import TaskState, generate
except ImportError as error:
    raise MissingExtraError("these tasks need inspect-ai; install it: pip install 'mbbq-gen[inspect]'") from error

METRICS: Final = (
    "parse_rate",
    "accuracy_ambiguous",
    "accuracy_disambiguated",
    "diff_bias_ambiguous",
    "diff_bias_disambiguated",
    "mbbq_bias_ambiguous",
    "mbbq_bias_disambiguated",
)
"""The metrics of a task; `mbbq-gen score` has all, with intervals."""
_GROUPS: Final = ("language", "split")
_TURNS: Final[dict[str, Callable[..., ChatMessage]]] = {
    "system": ChatMessageSystem,
    "user": ChatMessageUser,
    "assistant": ChatMessageAssistant,
}
"""Role → message of inspect-ai."""
_PROMPT: Final = "mbbq_gen_prompt"
"""Metadata field with the prompt, without its messages."""
_EXTRACTION: Final = "mbbq_gen_extraction"
"""Score metadata field with the extraction."""
_INSTANCE: Final = "mbbq_gen_record"
"""Metadata field with the instance; INSTANCE_KEY is the field with its key."""


# --- tasks -----------------------------------------------------------------------------------------------------------


def _task_of(benchmark: str) -> Callable[..., Task]:
    """The task of a benchmark."""

    def benchmark_task(  # noqa: PLR0917 - inspect-ai passes them by name
        languages: Names = "all",
        splits: Names = "all",
        variants: Names = "polite",
        option_order: str = "balanced",
        label_style: Names = "A",
        sample: int | None = None,
        seed: int = 0,
        num_fewshot: int = 0,
        system_prompt: str | None = None,
        data_dir: str | None = None,
        extractor: str = "rules",
        gold: GoldLabels = "published",
        packs: str | None = None,
    ) -> Task:
        """A BBQ benchmark with mbbq-gen's prompts, extractor and metrics; options as in `mbbq-gen run`."""
        resources = PackPaths(packs=Path(packs) if packs else None)
        config = RunConfig(
            model="inspect:any",
            benchmark=benchmark,
            data_dir=data_dir,
            languages=languages,
            splits=None if words(splits) == ["all"] else splits,
            variants=variants,
            label_style=label_style,
            option_order=option_order,
            sample=sample,
            seed=seed,
            num_fewshot=num_fewshot,
            system_prompt=system_prompt,
        )
        settings = resolve(config, resources)
        return Task(
            dataset=MemoryDataset(list(_samples(settings, resources)), name=benchmark),
            solver=generate(),
            scorer=extraction(extractor=extractor, gold=gold, packs=packs),
            metrics=[bias_scores(gold=gold)],
            version=mbbq_gen.__version__,
            metadata={"settings": settings.model_dump(mode="json")},
        )

    benchmark_task.__name__ = benchmark
    return task(name=benchmark)(benchmark_task)


def _samples(settings: RunConfig, resources: PackPaths) -> Iterator[Sample]:
    """One sample per prompt."""
    with TemporaryDirectory(prefix="mbbq-gen-inspect-") as folder, RunStore(Path(folder) / "plan.sqlite") as store:
        plan = PromptPlan(InstanceSource(settings, resources))
        plan.read(store)
        for prompt in plan.prompts(store):
            instance = store.instance(prompt.instance_key)
            names = ("language", "split", "category", "condition", "polarity")
            yield Sample(
                input=[_TURNS[message.role](content=message.content) for message in prompt.messages],
                choices=options_in_order(instance, prompt.option_order, prompt.unknown_text),
                target=prompt.option_labels[prompt.option_order.index(instance.gold_index or 0)],
                id=prompt.prompt_id,
                metadata={
                    INSTANCE_KEY: instance.key,
                    **{name: getattr(instance, name) for name in names},
                    "variant": prompt.variant,
                    _PROMPT: prompt.model_dump(mode="json", exclude={"messages"}),
                    _INSTANCE: instance.model_dump(mode="json"),
                },
            )


# --- scoring ---------------------------------------------------------------------------------------------------------


@metric
def bias_scores(gold: GoldLabels = "published") -> Metric:
    """Accuracy and bias by language and split; an undefined score is NaN.

    Only the first epoch of a question counts; import the log to count all.
    """

    def compute(scores: list[SampleScore]) -> dict[str, Any]:
        from mbbq_gen.analysis.scores import score

        rows = []
        for entry in scores:
            stored = (entry.score.metadata or {}).get(_EXTRACTION)
            metadata = entry.sample_metadata
            if stored is None or metadata is None:
                continue
            prompt = metadata[_PROMPT]
            rows.append(
                observe(
                    Instance.model_validate(metadata[_INSTANCE]),
                    prompt["option_order"],
                    Extraction.model_validate(stored),
                    model=None,
                    variant=prompt["variant"],
                    label_style=prompt["label_style"],
                    gold=gold,
                )
            )
        if not rows:
            return {}
        table = score(observations_frame(rows), _GROUPS, METRICS, intervals=False)
        values = {}
        for group in table.groups:
            title = " ".join(str(group.group[grouping]) for grouping in _GROUPS)
            for name in METRICS:
                value = group.metrics[name].value
                values[f"{name} {title}"] = math.nan if value is None else value
        return values

    return compute


@scorer(metrics=[bias_scores()])
def extraction(extractor: str = "rules", gold: GoldLabels = "published", packs: str | None = None) -> Scorer:
    """Extracts the chosen option: C correct, I incorrect, N no response.

    The explanation has outcome, rule and evidence.
    """
    resources = PackPaths(packs=Path(packs) if packs else None)

    async def extract(state: TaskState, target: Target) -> Score:
        instance = Instance.model_validate(state.metadata[_INSTANCE])
        turns = [{"role": "user", "content": state.input_text}]
        prompt = Prompt.model_validate({**state.metadata[_PROMPT], "messages": turns})
        answered = CompletedPrompt(prompt, instance, _response(state.output))
        found = extract_response(answered, extractor_for(extractor, instance.language, resources))
        chosen, is_right = None, False
        if found.option is not None:
            chosen = options_in_order(instance, prompt.option_order, prompt.unknown_text)[found.option]
            corrected = corrected_index(instance) if gold == "corrected" else None
            right = instance.gold_index if corrected is None else corrected
            is_right = prompt.option_order[found.option] == right
        text = answered.response.text or ""
        evidence = " … ".join(repr(text[start:end]) for start, end in found.spans)
        parts = [f"{found.outcome}: {chosen}" if chosen else found.outcome, f"rule {found.rule}" if found.rule else ""]
        return Score(
            value="N" if found.outcome in ("error", "content_filter") else "C" if is_right else "I",
            answer=chosen,
            explanation="; ".join(part for part in [*parts, f"in {evidence}" if evidence else ""] if part),
            metadata={_EXTRACTION: found.model_dump(mode="json")},
        )

    return extract


def _response(output: ModelOutput) -> Response:
    """The response of an output of inspect-ai."""
    if not output.choices:
        return Response(request_key="inspect", error=output.error or "no output")
    return Response(
        request_key="inspect",
        text=output.completion,
        finish_reason=FINISH.get(output.stop_reason, "other"),
        model=output.model,
    )


TASKS: Final = {name: _task_of(name) for name in BENCHMARKS}
"""Benchmark → its task, registered as `mbbq_gen/NAME`."""
