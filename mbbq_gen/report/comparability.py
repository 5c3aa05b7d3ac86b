"""Which models had the same prompts, and how those of the others differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars

    from mbbq_gen.runs.run_folder import Manifest

PromptFingerprint = dict[str, tuple[object, str]]
"""The prompts of one model. Aspect → what two models must have alike, and the same for a person."""
_ORDERS = "option orders"


def prompt_fingerprint(answers: polars.DataFrame, manifest: Manifest | None) -> PromptFingerprint:
    """The prompts behind a table of one model's answers to one benchmark, split and language."""
    import polars as pl

    def distinct(*columns: str) -> list[tuple[object, ...]]:
        texts = answers.select(pl.col(column).cast(pl.String) for column in columns).unique()
        return texts.sort(columns, nulls_last=True).rows()

    columns = {"method": "method", "prompt variants": "variant", "label styles": "label_style"}
    columns["reasoning effort"] = "reasoning_effort"
    values = {
        name: ", ".join("–" if one is None else str(one) for (one,) in distinct(column))
        for name, column in columns.items()
    }
    if manifest is not None:  # what answers do not tell of how they were requested
        settings = manifest.config
        language = settings.instruction_language
        values |= {
            "contexts": "left out" if settings.no_context else "shown",
            "few-shot examples": str(settings.num_fewshot),
            "instructions": f"in {language}" if language else "as the question",
            "unknown text": settings.unknown_text or "as in the data",
            "system prompt": settings.system_prompt or "none",
        }
        if "loglikelihood" in values["method"]:
            values["normalization"] = settings.normalization
    questions = distinct("instance_id")
    prompts = distinct("instance_id", "variant", "label_style", "option_order", "reasoning_effort")
    sent = {"questions": (questions, f"{len(questions):,}"), _ORDERS: (prompts, f"{len(prompts):,} prompts")}
    return {**{name: (text, text) for name, text in values.items()}, **sent}


def prompt_differences(ours: PromptFingerprint, theirs: PromptFingerprint) -> list[str]:
    """How prompts differ from others: `prompt variants: bare instead of letters, polite`."""
    found = [name for name in ours if name in theirs and ours[name] != theirs[name]]
    if found != [_ORDERS]:
        # Other questions and wordings are other prompts by themselves: to say so too tells nothing.
        found = [name for name in found if name != _ORDERS]
    shown = {name: (ours[name][1], theirs[name][1]) for name in found}
    return [
        f"other {name}" if one == other else f"{name}: {one} instead of {other}" for name, (one, other) in shown.items()
    ]


def group_same_prompts(prompts: Mapping[str, PromptFingerprint]) -> list[list[str]]:
    """The models in groups with the same prompts, the largest first; of equal ones, that of the first model."""
    groups: list[list[str]] = []
    for model, its in prompts.items():
        alike = next((group for group in groups if prompts[group[0]] == its), None)
        if alike is None:
            groups.append([model])
        else:
            alike.append(model)
    return sorted(groups, key=lambda group: -len(group))
