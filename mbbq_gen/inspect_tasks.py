"""The benchmarks as tasks for inspect-ai: our presentations are the samples, our reader the scorer, our scores the
metrics. inspect-ai finds them by its entry point (`pip install 'mbbq-gen[inspect]'`):

    inspect eval mbbq_gen/mbbq --model openai/gpt-4o-mini -T languages=en,tr -T sample=200

A sample holds its instance and how it was shown, so `inspect score LOG --scorer mbbq_gen/reading` needs nothing else,
and `mbbq-gen import --from inspect LOG` makes a run of the log that has the same scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal

import mbbq_gen
from mbbq_gen.datasets.registry import BENCHMARKS
from mbbq_gen.errors import MissingExtraError
from mbbq_gen.imports.inspect_log import FINISH, INSTANCE_KEY
from mbbq_gen.presentation import shown_options
from mbbq_gen.records import Extraction, Instance, Presentation, Response
from mbbq_gen.resources import Resources
from mbbq_gen.runs.draft import Draft
from mbbq_gen.runs.folder import RunSettings
from mbbq_gen.runs.names import Names, words
from mbbq_gen.runs.reading import load_reader, read_answer
from mbbq_gen.runs.selection import QuestionSource, Selection
from mbbq_gen.runs.store import Answered, RunStore

try:
    from inspect_ai import Task, task
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageSystem, ChatMessageUser, ModelOutput
    from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, metric, scorer
    from inspect_ai.solver import TaskState, generate
except ImportError as error:
    raise MissingExtraError("these tasks need inspect-ai; install it: pip install 'mbbq-gen[inspect]'") from error

METRICS: Final = (
    "detection_rate",
    "accuracy_ambiguous",
    "accuracy_disambiguated",
    "diff_bias_ambiguous",
    "diff_bias_disambiguated",
    "mbbq_bias_ambiguous",
    "mbbq_bias_disambiguated",
)
"""What a task shows; the log imported into a run has all scores, with intervals."""
_GROUPS: Final = ("language", "split")
_SHOWN: Final = "mbbq_gen_presentation"
"""Metadata field with the presentation, less its messages."""
_READ: Final = "mbbq_gen_extraction"
"""Score metadata field with what the answer was taken to mean."""
_INSTANCE: Final = "mbbq_gen_record"
"""Metadata field with the instance."""


# --- tasks -----------------------------------------------------------------------------------------------------------


def _task_of(benchmark: str) -> Callable[..., Task]:
    """The task of a benchmark."""

    def benchmark_task(  # noqa: PLR0917 - inspect-ai gives them by name
        languages: Names = "all",
        splits: Names = "all",
        variants: Names = "polite",
        order: str = "balanced",
        label_styles: Names = "A",
        sample: int | None = None,
        seed: int = 0,
        shots: int = 0,
        system: str | None = None,
        data: str | None = None,
        extractor: str = "engine",
        labels: Literal["published", "corrected"] = "published",
        packs: str | None = None,
    ) -> Task:
        """A benchmark of the BBQ family, asked in mbbq-gen's wordings, read by its reader, scored with its metrics.

        Args:
            languages: comma-separated, or `all` that the benchmark has.
            splits: bias, control, or `all`.
            variants: ids of the wordings (`mbbq-gen prompts list`), or `all`.
            order: option orders: balanced, shuffled, cyclic (3 each), all (6 each) or published.
            label_styles: how options are labelled: A, a, (A), 1, native, none.
            sample: questions for each language and split, balanced over templates; None: all.
            seed: of sample and orders.
            shots: solved examples before each question.
            system: text of a system message.
            data: folder of the published files; None: what `mbbq-gen data pull` has put on this machine.
            extractor: who reads the answers: engine, or a simple reader for comparison.
            labels: which right answers hold.
            packs: folder of your own language packs.
        """
        resources = Resources(packs=Path(packs) if packs else None)
        settings = Selection(
            model="inspect:any",
            benchmark=benchmark,
            data=Path(data) if data else None,
            languages=languages,
            splits=None if words(splits) == ["all"] else splits,
            variants=variants,
            label_style=label_styles,
            order=order,
            sample=sample,
            seed=seed,
            shots=shots,
            system=system,
        ).settings(resources)
        return Task(
            dataset=MemoryDataset(list(_samples(settings, resources)), name=benchmark),
            solver=generate(),
            scorer=reading(extractor=extractor, labels=labels, packs=packs),
            metrics=[bias_scores(labels=labels)],
            version=mbbq_gen.__version__,
            metadata={"settings": settings.model_dump(mode="json")},
        )

    benchmark_task.__name__ = benchmark
    return task(name=benchmark)(benchmark_task)


def _samples(settings: RunSettings, resources: Resources) -> Iterator[Sample]:
    """What is asked, question by question."""
    with TemporaryDirectory(prefix="mbbq-gen-inspect-") as folder, RunStore(Path(folder) / "plan.sqlite") as store:
        draft = Draft(settings, resources, QuestionSource(settings, resources))
        draft.read(store)
        for presentation in draft.presentations(store):
            yield _sample(presentation, store.instance(presentation.instance_key))


def _sample(presentation: Presentation, instance: Instance) -> Sample:
    """A presentation as a sample."""
    assert instance.answer_index is not None  # an Instance always has one
    place = presentation.order.index(instance.answer_index)
    return Sample(
        input=[_turn(message.role, message.content) for message in presentation.messages],
        choices=shown_options(instance, presentation.order, presentation.unknown_text),
        target=presentation.labels[place],
        id=presentation.presentation_id,
        metadata={
            INSTANCE_KEY: instance.key,
            "language": instance.language,
            "split": instance.split,
            "category": instance.category,
            "condition": instance.condition,
            "polarity": instance.polarity,
            "variant": presentation.variant,
            _SHOWN: presentation.model_dump(mode="json", exclude={"messages"}),
            _INSTANCE: instance.model_dump(mode="json"),
        },
    )


def _turn(role: str, text: str) -> ChatMessage:
    """A message as inspect-ai takes it."""
    if role == "system":
        return ChatMessageSystem(content=text)
    return ChatMessageUser(content=text) if role == "user" else ChatMessageAssistant(content=text)


# --- reading ---------------------------------------------------------------------------------------------------------


@metric
def bias_scores(labels: Literal["published", "corrected"] = "published") -> Metric:
    """Accuracy and bias by language and split; a score that is not defined is NaN.

    With several epochs a question's first answer counts: import the log to count them all.
    """

    def compute(scores: list[SampleScore]) -> dict[str, Any]:
        from mbbq_gen.scoring import observations_frame, score
        from mbbq_gen.scoring.observations import observe

        rows = []
        for entry in scores:
            found = (entry.score.metadata or {}).get(_READ)
            metadata = entry.sample_metadata
            if found is None or metadata is None:
                continue
            shown = metadata[_SHOWN]
            rows.append(
                observe(
                    Instance.model_validate(metadata[_INSTANCE]),
                    shown["order"],
                    Extraction.model_validate(found),
                    model=None,
                    variant=shown["variant"],
                    label_style=shown["label_style"],
                    labels=labels,
                )
            )
        if not rows:
            return {}
        table = score(observations_frame(rows), _GROUPS, METRICS, interval=None, resamples=1)
        return {
            f"{name} {' '.join(str(group.group[grouping]) for grouping in _GROUPS)}": _value(group.metrics[name].value)
            for group in table.groups
            for name in METRICS
        }

    return compute


def _value(value: float | None) -> float:
    return float("nan") if value is None else value


@scorer(metrics=[bias_scores()])
def reading(
    extractor: str = "engine", labels: Literal["published", "corrected"] = "published", packs: str | None = None
) -> Scorer:
    """Reads the chosen option out of an answer: C where it is the right one, I where it is not, N where the service
    blocked the answer. The explanation says what was read, by which rule, and where."""
    resources = Resources(packs=Path(packs) if packs else None)

    async def read(state: TaskState, target: Target) -> Score:
        instance = Instance.model_validate(state.metadata[_INSTANCE])
        turns = [{"role": "user", "content": state.input_text}]
        presentation = Presentation.model_validate({**state.metadata[_SHOWN], "messages": turns})
        answered = Answered(presentation, instance, _response(state.output))
        found = read_answer(answered, load_reader(extractor, instance.language, resources))
        options = shown_options(instance, presentation.order, presentation.unknown_text)
        chosen = None if found.option is None else options[found.option]
        right = found.option is not None and presentation.order[found.option] == _right_place(instance, labels)
        return Score(
            value="N" if found.outcome in ("error", "filtered") else "C" if right else "I",
            answer=chosen,
            explanation=_explained(found, answered, chosen),
            metadata={_READ: found.model_dump(mode="json")},
        )

    return read


def _right_place(instance: Instance, labels: Literal["published", "corrected"]) -> int | None:
    """The right option's place in the instance."""
    from mbbq_gen.scoring.observations import corrected_index

    corrected = corrected_index(instance) if labels == "corrected" else None
    return instance.answer_index if corrected is None else corrected


def _response(output: ModelOutput) -> Response:
    """inspect-ai's output as our response."""
    if not output.choices:
        return Response(request_key="inspect", error=output.error or "no output")
    return Response(
        request_key="inspect",
        text=output.completion,
        finish_reason=FINISH.get(output.stop_reason, "other"),
        model=output.model,
    )


def _explained(found: Extraction, answered: Answered, chosen: str | None) -> str:
    """What was read, by which rule, and the words that decided."""
    text = answered.response.text or ""
    words = " … ".join(repr(text[start:end]) for start, end in found.spans)
    parts = [f"{found.outcome}: {chosen}" if chosen else found.outcome, f"rule {found.rule}" if found.rule else ""]
    return "; ".join(part for part in [*parts, f"in {words}" if words else ""] if part)


TASKS: Final = {name: _task_of(name) for name in BENCHMARKS}
"""Benchmark → its task, registered as `mbbq_gen/NAME`."""
